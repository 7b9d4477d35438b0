//! A small list, as it lies in its key's entry.
//!
//! ```text
//!  0       2       4
//! +-------+-------+------------------+
//! | count | layout| items            |
//! +-------+-------+------------------+
//! ```
//!
//! Items are held as `run.rs` says.

use super::run::{Layout, Run};

/// Bytes before the items.
pub const HEADER: usize = 4;

/// The bytes of a small list.
#[derive(Clone, Copy, Debug)]
pub struct Small<'a>(&'a [u8]);

impl<'a> Small<'a> {
    /// The list that lies in these bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Small(bytes)
    }

    /// Number of items.
    #[inline]
    pub fn len(self) -> usize {
        self.word(0).into()
    }

    /// The items.
    #[inline]
    pub fn run(self) -> Run<'a> {
        Run { bytes: &self.0[HEADER..], layout: Layout::from_bits(self.word(2)) }
    }

    #[inline]
    fn word(self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }
}

/// What the bytes of a small list begin with.
#[inline]
pub fn header(len: usize, layout: Layout) -> [u8; HEADER] {
    let [a, b] = (len as u16).to_le_bytes();
    let [c, d] = layout.bits().to_le_bytes();
    [a, b, c, d]
}
