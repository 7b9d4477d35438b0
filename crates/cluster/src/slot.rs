//! Hash slots: the part of the key space that a key belongs to, as in the Redis Cluster
//! specification.

/// Number of a hash slot, below [`SLOTS`].
pub type Slot = u16;

/// How many hash slots there are.
pub const SLOTS: u16 = 16_384;

/// The hash slot of a key: CRC16 of its hash tag if it has one, else of the whole key.
///
/// The hash tag is what stands between the first `{` and the first `}` behind it, unless that is
/// nothing.
pub fn slot_of(key: &[u8]) -> Slot {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// What stands between the first `{` of a key and the first `}` behind it; none if it is empty.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let len = rest.iter().position(|&byte| byte == b'}')?;
    (len > 0).then(|| &rest[..len])
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, nothing reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut crc, mut bit) = ((at as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_that_redis_gives_them() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let slots = [("foo", 12_182), ("bar", 5_061), ("hello", 866), ("", 0)];
        for (key, slot) in slots {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn a_hash_tag_alone_decides() {
        for key in ["{foo}", "a{foo}b", "{foo}{bar}", "}{foo}", "{foo}}"] {
            assert_eq!(slot_of(key.as_bytes()), slot_of(b"foo"), "{key}");
        }
        for whole in ["{}foo", "foo{", "foo}", "a{}{foo}"] {
            assert_eq!(slot_of(whole.as_bytes()), crc16(whole.as_bytes()) % SLOTS, "{whole}");
        }
        assert_eq!(slot_of(b"{{foo}}"), slot_of(b"{foo"));
    }
}
