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

/// A set of slots.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SlotSet(Box<[u64]>);

impl Default for SlotSet {
    fn default() -> Self {
        SlotSet(vec![0; usize::from(SLOTS).div_ceil(64)].into())
    }
}

impl SlotSet {
    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        self.0[usize::from(slot / 64)] |= 1 << (slot % 64);
    }

    /// Takes a slot away.
    pub fn remove(&mut self, slot: Slot) {
        self.0[usize::from(slot / 64)] &= !(1 << (slot % 64));
    }

    /// Whether a slot is among them.
    pub fn contains(&self, slot: Slot) -> bool {
        self.0[usize::from(slot / 64)] >> (slot % 64) & 1 != 0
    }

    /// Adds the slots of another set.
    pub fn unite(&mut self, other: &SlotSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// Those of each 64 neighbours that have a bit in `mask`.
    pub fn masked(&self, mask: u64) -> SlotSet {
        SlotSet(self.0.iter().map(|word| word & mask).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        (0..).zip(&self.0).flat_map(|(at, &word)| {
            let next = |word: &u64| Some(word & (word - 1)).filter(|rest| *rest != 0);
            let words = std::iter::successors(Some(word).filter(|word| *word != 0), next);
            words.map(move |word| at * 64 + word.trailing_zeros() as Slot)
        })
    }

    /// Runs of neighbours: the first and the last of each.
    pub fn ranges(&self) -> Vec<(Slot, Slot)> {
        let mut ranges: Vec<(Slot, Slot)> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some(range) if range.1 + 1 == slot => range.1 = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        ranges
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = SlotSet::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

/// What stands between the first `{` of a key and the first `}` behind it; none if it is empty.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let len = rest.iter().position(|&byte| byte == b'}')?;
    (len > 0).then(|| &rest[..len])
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0, nothing reflected. Eight bytes at a time
/// (Kounavis and Berry, "A systematic approach to building high performance, software-based, CRC
/// generators"): what each of them adds to the remainder stands in a table of its own.
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

/// By how many bytes follow, and by byte: what it adds to the remainder.
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
            // As it is defined: bit by bit.
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
    fn sets_of_slots_are_runs() {
        let slots = [0, 1, 2, 63, 64, 65, 700, SLOTS - 1];
        let set: SlotSet = slots.into_iter().collect();
        assert!(set.iter().eq(slots) && set.contains(64) && !set.contains(66));
        let last = SLOTS - 1;
        assert_eq!(set.ranges(), [(0, 2), (63, 65), (700, 700), (last, last)]);
        assert!(!set.is_empty() && SlotSet::default().is_empty());
        let mut third = set.masked(4);
        assert!(third.iter().eq([2]));
        third.unite(&set.masked(1));
        assert!(third.iter().eq([0, 2, 64]));
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
