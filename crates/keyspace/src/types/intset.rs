//! A set of integers in plain bytes: the width in bytes of every member, then the members in ascending order.
//!
//! ```text
//!  0       1
//! +-------+----------+----------+-----+
//! | width | smallest | next     | ... |   little-endian, two's complement, `width` (1 to 8) bytes each
//! +-------+----------+----------+-----+
//! ```
//!
//! The width is that of the widest member there ever was. Changes are told as an [`Edit`], so that whoever owns the
//! bytes can make them where they lie.

/// The members of a set, in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct IntSet<'a> {
    width: usize,
    members: &'a [u8],
}

/// A change of the bytes of a set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Edit {
    /// The first `len` of `bytes` are to be put in at offset `at`.
    Insert {
        /// Offset from the width byte.
        at: usize,
        /// The new member, little-endian.
        bytes: [u8; 8],
        /// Bytes of it that count.
        len: usize,
    },
    /// `len` bytes at offset `at` are to be taken out.
    Remove {
        /// Offset from the width byte.
        at: usize,
        /// Bytes of a member.
        len: usize,
    },
    /// The set is these bytes from now on: its members became wider.
    Rewrite(Vec<u8>),
}

impl<'a> IntSet<'a> {
    /// The set in `bytes`, which [`IntSet::pack`] or an [`Edit`] made.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        IntSet { width: usize::from(bytes[0]), members: &bytes[1..] }
    }

    /// The bytes of a set with these members, which are distinct and ascending.
    pub fn pack(members: &[i64]) -> Vec<u8> {
        let width = match members {
            [] => 1,
            [first, .., last] => width_of(*first).max(width_of(*last)),
            [only] => width_of(*only),
        };
        let mut bytes = Vec::with_capacity(1 + members.len() * width);
        bytes.push(width as u8);
        for member in members {
            bytes.extend_from_slice(&member.to_le_bytes()[..width]);
        }
        bytes
    }

    /// The bytes of a set with one member, and how many of them count.
    pub(crate) fn pack_one(member: i64) -> ([u8; 9], usize) {
        let width = width_of(member);
        let mut bytes = [width as u8; 9];
        bytes[1..].copy_from_slice(&member.to_le_bytes());
        (bytes, 1 + width)
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.members.len() / self.width
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Member `i` in ascending order, `i` below the length.
    #[inline]
    pub fn get(&self, i: usize) -> i64 {
        let at = i * self.width;
        let shift = 64 - 8 * self.width as u32;
        // One unaligned read of eight bytes where there are as many, the member's bytes brought to the top by a shift.
        let word = match self.members[at..].first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..self.width].copy_from_slice(&self.members[at..at + self.width]);
                u64::from_le_bytes(word)
            }
        };
        (word << shift) as i64 >> shift
    }

    /// The place of `member`, or the place where it would have to be.
    #[inline]
    pub fn find(&self, member: i64) -> Result<usize, usize> {
        let (mut low, mut len) = (0, self.len());
        while len > 0 {
            let half = len / 2;
            match self.get(low + half).cmp(&member) {
                std::cmp::Ordering::Less => {
                    low += half + 1;
                    len -= half + 1;
                }
                std::cmp::Ordering::Greater => len = half,
                std::cmp::Ordering::Equal => return Ok(low + half),
            }
        }
        Err(low)
    }

    /// Whether `member` is there.
    #[inline]
    pub fn contains(&self, member: i64) -> bool {
        self.find(member).is_ok()
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = i64> + use<'a> {
        let set = *self;
        (0..set.len()).map(move |i| set.get(i))
    }

    /// What adds `member`; none if it is there.
    pub fn insertion(&self, member: i64) -> Option<Edit> {
        let place = self.find(member).err()?;
        if width_of(member) > self.width {
            let mut members: Vec<i64> = self.iter().collect();
            members.insert(place, member);
            return Some(Edit::Rewrite(Self::pack(&members)));
        }
        let bytes = member.to_le_bytes();
        Some(Edit::Insert { at: 1 + place * self.width, bytes, len: self.width })
    }

    /// What removes `member`; none if it is not there.
    pub fn removal(&self, member: i64) -> Option<Edit> {
        let place = self.find(member).ok()?;
        Some(Edit::Remove { at: 1 + place * self.width, len: self.width })
    }
}

/// Bytes that hold `n`.
fn width_of(n: i64) -> usize {
    let magnitude_bits = 64 - (n ^ n >> 63).leading_zeros();
    magnitude_bits as usize / 8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn apply(bytes: &mut Vec<u8>, edit: Edit) {
        match edit {
            Edit::Insert { at, bytes: member, len } => {
                bytes.splice(at..at, member[..len].iter().copied());
            }
            Edit::Remove { at, len } => {
                bytes.drain(at..at + len);
            }
            Edit::Rewrite(new) => *bytes = new,
        }
    }

    #[test]
    fn widths_hold_their_numbers() {
        for (n, width) in [
            (0, 1),
            (127, 1),
            (-128, 1),
            (128, 2),
            (-129, 2),
            (32_767, 2),
            (32_768, 3),
            (-8_388_608, 3),
            (8_388_608, 4),
            (i64::from(i32::MAX), 4),
            (1 << 31, 5),
            (1 << 39, 6),
            (1 << 47, 7),
            (1 << 55, 8),
            (i64::MAX, 8),
            (i64::MIN, 8),
        ] {
            let bytes = IntSet::pack(&[n]);
            assert_eq!(bytes.len(), 1 + width, "{n}");
            assert_eq!(IntSet::new(&bytes).get(0), n);
        }
    }

    #[test]
    fn the_empty_set() {
        let mut bytes = IntSet::pack(&[]);
        let set = IntSet::new(&bytes);
        assert!(set.is_empty() && !set.contains(0) && set.removal(0).is_none());
        let edit = set.insertion(-1).unwrap();
        apply(&mut bytes, edit);
        assert_eq!(IntSet::new(&bytes).iter().collect::<Vec<_>>(), [-1]);
    }

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![
            4 => -20i64..20,
            2 => -40_000i64..40_000,
            1 => any::<i32>().prop_map(i64::from),
            1 => any::<i64>(),
            1 => (0u32..63).prop_map(|bits| 1i64 << bits),
            1 => (0u32..64).prop_map(|bits| i64::MIN >> bits),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_an_ordered_set(
            calls in prop::collection::vec((any::<bool>(), number()), 1..200)
        ) {
            let mut bytes = IntSet::pack(&[]);
            let mut model = BTreeSet::new();
            for (adds, n) in calls {
                let set = IntSet::new(&bytes);
                prop_assert_eq!(set.contains(n), model.contains(&n));
                let edit = if adds { set.insertion(n) } else { set.removal(n) };
                let changes = if adds { model.insert(n) } else { model.remove(&n) };
                prop_assert_eq!(edit.is_some(), changes);
                if let Some(edit) = edit {
                    apply(&mut bytes, edit);
                }
                let set = IntSet::new(&bytes);
                prop_assert_eq!(set.len(), model.len());
                prop_assert!(set.iter().eq(model.iter().copied()));
            }
            let sorted: Vec<i64> = model.iter().copied().collect();
            prop_assert!(IntSet::new(&IntSet::pack(&sorted)).iter().eq(sorted.iter().copied()));
            for (i, n) in sorted.iter().enumerate() {
                prop_assert_eq!(IntSet::new(&bytes).find(*n), Ok(i));
            }
        }
    }
}
