//! A set of integers in plain bytes: a base, and each member's distance to it, in ascending order.
//!
//! ```text
//!  0               1          1 + b
//! +---------------+----------+------------------+-----------------+-----+
//! | b << 4 | w    | base     | smallest - base  | next - base     | ... |
//! +---------------+----------+------------------+-----------------+-----+
//!                   b bytes,    w bytes each, unsigned
//!                   signed                                          all little-endian
//! ```
//!
//! `b` is 0 where the base is 0. With 8 bytes per member, the base is 0 and differences wrap: the
//! members are stored as they are. So numbers near each other, such as IDs of the same time, take
//! few bytes, however large they are.
//!
//! A base and a width hold members within a range. For a member outside of it, or when another base
//! would be much better, all members are repacked. The range extends as far below the smallest
//! member as above the largest, so that a set growing at either end is repacked only a few times.
//! Changes are returned as an [`Edit`], so that the owner of the bytes can apply them in place.

/// The members of a set, in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct IntSet<'a> {
    frame: Frame,
    members: &'a [u8],
}

/// Base and width of the members.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Frame {
    base: i64,
    /// Bytes of the base.
    base_len: usize,
    /// Bytes of a member.
    width: usize,
}

impl Frame {
    /// Frame of the empty set.
    const EMPTY: Frame = Frame { base: 0, base_len: 0, width: 1 };
    /// Frame for all numbers.
    const WHOLE: Frame = Frame { base: 0, base_len: 0, width: 8 };

    /// Smallest frame for `count` members from `min` to `max`.
    fn of(min: i64, max: i64, count: usize) -> Self {
        let span = max.wrapping_sub(min) as u64;
        let width = unsigned_len(span);
        if width == 8 {
            return Frame::WHOLE;
        }
        let slack = (1_u64 << (8 * width)) - 1 - span;
        let below = min.saturating_sub((slack / 2) as i64);
        let base = if min >= 0 { below.max(0) } else { below };
        let base_len = if base == 0 { 0 } else { signed_len(base) };
        let near = Frame { base, base_len, width };
        let plain = if min < 0 {
            Frame::WHOLE
        } else {
            Frame { base: 0, base_len: 0, width: unsigned_len(max as u64) }
        };
        if plain.bytes(count) <= near.bytes(count) { plain } else { near }
    }

    /// Bytes of a set of this many members.
    fn bytes(self, count: usize) -> usize {
        self.members_at() + count * self.width
    }

    /// Offset of the members.
    #[inline]
    fn members_at(self) -> usize {
        1 + self.base_len
    }

    /// Whether a number is within the range.
    fn holds(self, n: i64) -> bool {
        self.width == 8
            || n >= self.base && n.wrapping_sub(self.base) as u64 >> (8 * self.width) == 0
    }

    /// Stored bytes of a member: the first `width` of them.
    fn held(self, n: i64) -> [u8; 8] {
        n.wrapping_sub(self.base).to_le_bytes()
    }
}

/// A change of the bytes of a set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Edit {
    /// Insert the first `len` of `bytes` at offset `at`.
    Insert {
        /// Offset from the first byte.
        at: usize,
        /// The new member's stored bytes, little-endian.
        bytes: [u8; 8],
        /// Number of bytes used.
        len: usize,
    },
    /// Remove `len` bytes at offset `at`.
    Remove {
        /// Offset from the first byte.
        at: usize,
        /// Bytes of a member.
        len: usize,
    },
    /// Replace all bytes: the set was repacked.
    Rewrite(Vec<u8>),
}

impl<'a> IntSet<'a> {
    /// The set in `bytes`, created by [`IntSet::pack`] or an [`Edit`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        let (base_len, width) = (usize::from(bytes[0] >> 4), usize::from(bytes[0] & 0x0f));
        let (base, members) = bytes[1..].split_at(base_len);
        let base = match base_len {
            0 => 0,
            _ => {
                let shift = 64 - 8 * base_len as u32;
                (word(base, base_len) << shift) as i64 >> shift
            }
        };
        IntSet { frame: Frame { base, base_len, width }, members }
    }

    /// The bytes of a set with these members, which are distinct and ascending.
    pub fn pack(members: &[i64]) -> Vec<u8> {
        let frame = match members {
            [] => Frame::EMPTY,
            [first, .., last] => Frame::of(*first, *last, members.len()),
            [only] => Frame::of(*only, *only, 1),
        };
        let mut bytes = Vec::with_capacity(frame.bytes(members.len()));
        bytes.push((frame.base_len << 4 | frame.width) as u8);
        bytes.extend_from_slice(&frame.base.to_le_bytes()[..frame.base_len]);
        for member in members {
            bytes.extend_from_slice(&frame.held(*member)[..frame.width]);
        }
        bytes
    }

    /// The bytes of a set with one member, and the number of bytes used.
    pub(crate) fn pack_one(member: i64) -> ([u8; 9], usize) {
        // A base and a byte for the difference never take fewer bytes than the member itself.
        let width = if member < 0 { 8 } else { unsigned_len(member as u64) };
        let mut bytes = [width as u8; 9];
        bytes[1..].copy_from_slice(&member.to_le_bytes());
        (bytes, 1 + width)
    }

    /// Number of members.
    #[inline]
    pub fn len(&self) -> usize {
        self.members.len() / self.frame.width
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Member `i` in ascending order, `i` below the length.
    #[inline]
    pub fn get(&self, i: usize) -> i64 {
        let width = self.frame.width;
        let held = word(&self.members[i * width..], width);
        self.frame.base.wrapping_add(held as i64)
    }

    /// Offset of member `i` from the first byte, and its length.
    #[inline]
    pub fn place(&self, i: usize) -> (usize, usize) {
        let width = self.frame.width;
        (self.frame.members_at() + i * width, width)
    }

    /// Index of `member`, or the index at which it would be inserted.
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

    /// Whether the set contains `member`.
    #[inline]
    pub fn contains(&self, member: i64) -> bool {
        self.find(member).is_ok()
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = i64> + use<'a> {
        let set = *self;
        (0..set.len()).map(move |i| set.get(i))
    }

    /// The edit that adds `member`; none if it is present.
    pub fn insertion(&self, member: i64) -> Option<Edit> {
        let place = self.find(member).err()?;
        if !self.frame.holds(member) || self.wastes_with(member) {
            let mut members: Vec<i64> = self.iter().collect();
            members.insert(place, member);
            return Some(Edit::Rewrite(Self::pack(&members)));
        }
        let (at, len) = self.place(place);
        Some(Edit::Insert { at, bytes: self.frame.held(member), len })
    }

    /// The edit that removes `member`; none if it is absent.
    pub fn removal(&self, member: i64) -> Option<Edit> {
        let (at, len) = self.place(self.find(member).ok()?);
        Some(Edit::Remove { at, len })
    }

    /// Whether repacking the set with `member` would save an eighth of it, and at least `WASTE_MIN`
    /// bytes.
    fn wastes_with(&self, member: i64) -> bool {
        let len = self.len();
        if len == 0 || self.frame.width == 1 {
            return false;
        }
        let (min, max) = (self.get(0).min(member), self.get(len - 1).max(member));
        let (now, anew) = (self.frame.bytes(len + 1), Frame::of(min, max, len + 1).bytes(len + 1));
        anew + WASTE_MIN.max(now / 8) <= now
    }
}

/// Smaller savings do not justify repacking a set.
const WASTE_MIN: usize = 8;

/// The first `len` bytes, little-endian; `bytes` has at least as many.
#[inline]
fn word(bytes: &[u8], len: usize) -> u64 {
    // One unaligned read of eight bytes if available, masked to the first `len`.
    let word = match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut word = [0; 8];
            word[..len].copy_from_slice(&bytes[..len]);
            u64::from_le_bytes(word)
        }
    };
    let shift = 64 - 8 * len as u32;
    word << shift >> shift
}

/// Number of bytes for `n`: at least one.
fn unsigned_len(n: u64) -> usize {
    (64 - n.leading_zeros()).div_ceil(8).max(1) as usize
}

/// Number of bytes for `n` with its sign.
fn signed_len(n: i64) -> usize {
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
    fn members_take_the_bytes_of_their_differences() {
        for (members, len) in [
            (&[][..], 1),
            (&[0], 2),
            (&[255], 2),
            (&[256], 3),
            (&[-1], 3),
            (&[i64::MIN], 9),
            (&[i64::MAX], 9),
            (&[i64::MIN, i64::MAX], 17),
            (&[-3, 4], 4),
            (&[1_000_000, 1_000_100], 6),
            (&[1_000_000_000_000, 1_000_000_000_100, 1_000_000_000_200], 10),
            (&[i64::MAX - 2, i64::MAX - 1, i64::MAX], 12),
            (&[i64::MIN, i64::MIN + 1, i64::MIN + 2], 12),
            (&[0, 1 << 32], 11),
        ] {
            let bytes = IntSet::pack(members);
            assert_eq!(bytes.len(), len, "{members:?}");
            assert!(IntSet::new(&bytes).iter().eq(members.iter().copied()), "{members:?}");
        }
        for n in [0, 255, 256, -1, i64::MIN, i64::MAX] {
            let (bytes, len) = IntSet::pack_one(n);
            assert_eq!(IntSet::new(&bytes[..len]).iter().collect::<Vec<_>>(), [n]);
        }
    }

    #[test]
    fn a_set_that_grows_is_packed_anew_a_few_times() {
        for step in [3_i64, -3] {
            let (mut bytes, mut rewrites) = (IntSet::pack(&[]), 0);
            for n in 0..1_000 {
                let edit = IntSet::new(&bytes).insertion(1_700_000_000_000 + n * step).unwrap();
                rewrites += usize::from(matches!(edit, Edit::Rewrite(_)));
                apply(&mut bytes, edit);
            }
            assert_eq!(bytes.len(), 1 + 6 + 2 * 1_000);
            assert!(rewrites <= 20, "{rewrites}");
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
