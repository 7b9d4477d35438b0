//! Hash slots of keys, as in the Redis Cluster specification.

/// Number of a hash slot, below [`SLOTS`].
pub type Slot = u16;

/// Number of hash slots.
pub const SLOTS: u16 = 16_384;

/// The hash slot of a key: CRC16 of its hash tag if it has one, else of the whole key.
///
/// The hash tag is the text between the first `{` and the next `}`, unless it is empty.
pub fn slot_of(key: &[u8]) -> Slot {
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// The text between the first `{` of a key and the next `}`; none if it is empty.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    // Most keys have no tag, and `contains` compares words.
    if !key.contains(&b'{') {
        return None;
    }
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let len = rest.iter().position(|&byte| byte == b'}')?;
    (len > 0).then(|| &rest[..len])
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, nothing reflected. Eight bytes at a time
/// (Kounavis and Berry, "A systematic approach to building high performance, software-based, CRC
/// generators"), with one table per byte position.
fn crc16(bytes: &[u8]) -> u16 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let of = |follow: usize, byte: u8| TABLES[follow][usize::from(byte)];
    let add = |crc: u16, &[a, b, c, d, e, f, g, h]: &[u8; 8]| {
        let [high, low] = crc.to_be_bytes();
        let first = of(7, a ^ high) ^ of(6, b ^ low) ^ of(5, c) ^ of(4, d);
        first ^ of(3, e) ^ of(2, f) ^ of(1, g) ^ of(0, h)
    };
    let crc = chunks.iter().fold(0, add);
    let step = |crc: u16, byte: &u8| (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)];
    rest.iter().fold(crc, step)
}

/// CRC contribution of a byte, by the number of bytes after it and by its value.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut at = 0;
    while at < 256 {
        let (mut crc, mut bit) = ((at as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        tables[0][at] = crc;
        at += 1;
    }
    let mut follow = 1;
    while follow < 8 {
        let mut at = 0;
        while at < 256 {
            let before: u16 = tables[follow - 1][at];
            tables[follow][at] = (before << 8) ^ tables[0][(before >> 8) as usize];
            at += 1;
        }
        follow += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_slots_that_redis_gives_them() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let bytes: Vec<u8> = (0..100u8).map(|byte| byte.wrapping_mul(151)).collect();
        for len in 0..=bytes.len() {
            // The definition, bit by bit.
            let crc = bytes[..len].iter().fold(0u16, |crc, byte| {
                (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
                    crc << 1 ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 }
                })
            });
            assert_eq!(crc16(&bytes[..len]), crc, "{len} bytes");
        }
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
