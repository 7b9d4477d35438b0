//! Links of a node as bytes: numbers of three bytes where all fit, else of four.

/// Numbers from here on do not fit into three bytes.
pub(super) const NARROW_END: u32 = 1 << 24;

/// The links of a node on a level.
#[derive(Clone, Copy, Debug)]
pub struct Links<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> Links<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], width: usize) -> Self {
        Links { bytes, width }
    }

    /// How many they are.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether a node is among them.
    pub fn contains(self, node: u32) -> bool {
        self.iter().any(|link| link == node)
    }

    /// The nodes that are linked.
    #[inline]
    pub fn iter(self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + Clone + 'a {
        self.bytes.chunks_exact(self.width).map(read)
    }
}

/// A number of three or four bytes.
#[inline]
fn read(bytes: &[u8]) -> u32 {
    match *bytes {
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    }
}

/// Writes a number in as many bytes as there are.
pub(super) fn write(bytes: &mut [u8], node: u32) {
    let from = node.to_le_bytes();
    let len = bytes.len().min(from.len());
    bytes[..len].copy_from_slice(&from[..len]);
}
