//! Bit-packed links of a node: each number takes as many bits as the greatest one of its chunk
//! needs.
//!
//! Numbers are read and written with the seven bytes around them, so [`PADDING`] bytes follow the
//! last one.

/// Bytes after the links that may be read or written.
pub(super) const PADDING: usize = 8;

/// Bytes of a count of links.
pub(super) const COUNT_BYTES: usize = 2;

/// Number of bits of a node number, at least one.
pub(super) fn bits_of(node: u32) -> u32 {
    (u32::BITS - node.leading_zeros()).max(1)
}

/// Bytes of a count and `links` links.
#[inline]
pub(super) fn stride(links: usize, bits: u32) -> usize {
    COUNT_BYTES + (links * bits as usize).div_ceil(8)
}

/// The links of a node on a level.
#[derive(Clone, Copy, Debug)]
pub struct Links<'a> {
    /// From the first link on.
    bytes: &'a [u8],
    len: usize,
    bits: u32,
}

impl<'a> Links<'a> {
    /// No links.
    pub(super) const NONE: Links<'static> = Links { bytes: &[], len: 0, bits: 1 };

    /// Reads the links from their count on.
    #[inline]
    pub(super) fn new(bytes: &'a [u8], bits: u32) -> Self {
        match bytes.split_first_chunk::<COUNT_BYTES>() {
            Some((&count, bytes)) => Links { bytes, len: u16::from_le_bytes(count).into(), bits },
            None => Links::NONE,
        }
    }

    /// Number of links.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no links.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a node is linked.
    pub fn contains(self, node: u32) -> bool {
        self.iter().any(|link| link == node)
    }

    /// The linked nodes.
    #[inline]
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + Clone + 'a {
        let Links { bytes, len, bits } = self;
        (0..len).map(move |index| get(bytes, index, bits))
    }
}

/// Byte and bit at which a link begins.
#[inline]
fn place(index: usize, bits: u32) -> (usize, usize) {
    let bit = index * bits as usize;
    (bit / 8, bit % 8)
}

/// Mask of a number's bits.
#[inline]
fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[inline]
fn get(bytes: &[u8], index: usize, bits: u32) -> u32 {
    let (from, shift) = place(index, bits);
    let word = bytes.get(from..from + 8).and_then(|word| word.try_into().ok());
    let word = word.map_or(0, u64::from_le_bytes);
    // At most 32 bits are left.
    (word >> shift & mask(bits)) as u32
}

/// Overwrites a link; the number has no more than `bits` bits.
#[inline]
fn set(bytes: &mut [u8], index: usize, bits: u32, node: u32) {
    let (from, shift) = place(index, bits);
    if let Some(place) = bytes.get_mut(from..).and_then(<[u8]>::first_chunk_mut) {
        let others = u64::from_le_bytes(*place) & !(mask(bits) << shift);
        *place = (others | u64::from(node) << shift).to_le_bytes();
    }
}

/// Replaces the count and links at the beginning of `bytes`, which has enough room.
pub(super) fn write(bytes: &mut [u8], bits: u32, links: impl Iterator<Item = u32>) {
    let mut len = 0u16;
    if let Some((count, bytes)) = bytes.split_first_chunk_mut::<COUNT_BYTES>() {
        for node in links {
            set(bytes, usize::from(len), bits, node);
            len += 1;
        }
        *count = len.to_le_bytes();
    }
}

/// Appends a link to the count and links at the beginning of `bytes`, which has room for it.
pub(super) fn push(bytes: &mut [u8], bits: u32, node: u32) {
    let len = Links::new(bytes, bits).len();
    if let Some((count, bytes)) = bytes.split_first_chunk_mut::<COUNT_BYTES>() {
        set(bytes, len, bits, node);
        // Less than the maximum number of links of a node.
        *count = (len as u16 + 1).to_le_bytes();
    }
}

/// Removes a link; the others keep their order.
pub(super) fn remove(bytes: &mut [u8], bits: u32, node: u32) {
    let links = Links::new(bytes, bits);
    let Some(index) = links.iter().position(|link| link == node) else { return };
    let last = links.len() - 1;
    if let Some((count, bytes)) = bytes.split_first_chunk_mut::<COUNT_BYTES>() {
        for index in index..last {
            let next = get(bytes, index + 1, bits);
            set(bytes, index, bits, next);
        }
        *count = (last as u16).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn links_are_what_a_list_is(
            bits in 1u32..33,
            steps in prop::collection::vec((0u8..3, any::<u32>()), 0..120),
        ) {
            // The next node's links follow, and must not change.
            let stride = stride(32, bits);
            let mut bytes = vec![0u8; 2 * stride + PADDING];
            write(&mut bytes[stride..], bits, (0..32).map(|node| node & mask(bits) as u32));
            let after = bytes[stride..].to_vec();
            let mut model: Vec<u32> = Vec::new();
            for (step, node) in steps {
                let node = node & mask(bits) as u32;
                if step < 2 && model.len() < 32 && !model.contains(&node) {
                    push(&mut bytes, bits, node);
                    model.push(node);
                } else {
                    remove(&mut bytes, bits, node);
                    model.retain(|&link| link != node);
                    if let Some(&first) = model.first() {
                        remove(&mut bytes, bits, first);
                        model.remove(0);
                    }
                }
                let links = Links::new(&bytes, bits);
                prop_assert!(links.iter().eq(model.iter().copied()));
                prop_assert_eq!(links.len(), model.len());
            }
            prop_assert_eq!(&bytes[stride..], after);
        }
    }
}
