//! A small list, as stored in its key's entry.
//!
//! ```text
//!  0       2        4
//! +-------+--------+-----------------------+------------------+
//! | count | layout | [len u8 and prefix]   | items            |
//! +-------+--------+-----------------------+------------------+
//! ```
//!
//! Elements are stored as described in `run.rs`; the prefix is present if the layout says so.

use crate::structures::list::End;
use crate::structures::list::run::{Layout, Packing, Run};

/// Bytes of count and layout.
pub const HEADER: usize = 4;

/// The bytes of a small list.
#[derive(Clone, Copy, Debug)]
pub struct Small<'a>(&'a [u8]);

impl<'a> Small<'a> {
    /// The list in these bytes.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Small(bytes)
    }

    /// Number of elements.
    #[inline]
    pub fn len(self) -> usize {
        self.word(0).into()
    }

    /// The elements.
    #[inline]
    pub fn run(self) -> Run<'a> {
        let layout = Layout::from_bits(self.word(2));
        let (prefix, bytes) = if layout.is_prefixed() {
            self.0[HEADER + 1..].split_at(self.0[HEADER].into())
        } else {
            (&[][..], &self.0[HEADER..])
        };
        Run { prefix, layout, bytes }
    }

    /// Offset of the items.
    #[inline]
    pub fn items_at(self) -> usize {
        self.0.len() - self.run().bytes.len()
    }

    /// Bytes of the list.
    #[inline]
    pub fn byte_len(self) -> usize {
        self.0.len()
    }

    /// Offset at which `held` bytes of `more` items pushed at an end are inserted, and the list's
    /// new header. `run` is [`Small::run`].
    #[inline]
    pub fn grown(self, run: Run<'_>, end: End, more: usize, held: usize) -> (usize, [u8; HEADER]) {
        let items_at = self.0.len() - run.bytes.len();
        let (offset, hint) = match (end, run.layout.hint()) {
            (End::Front, 0) => (items_at, 0),
            (End::Front, hint) => (items_at, hint + held),
            (End::Back, hint) => (self.0.len(), hint),
        };
        (offset, header(self.len() + more, run.layout.with_hint(hint)))
    }

    #[inline]
    fn word(self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }
}

/// Count and layout.
#[inline]
pub fn header(len: usize, layout: Layout) -> [u8; HEADER] {
    let [a, b] = (len as u16).to_le_bytes();
    let [c, d] = layout.bits().to_le_bytes();
    [a, b, c, d]
}

/// Appends the bytes of a small list to `out`.
pub fn write(out: &mut Vec<u8>, len: usize, run: Run<'_>) {
    out.extend_from_slice(&header(len, run.layout.with_hint(0)));
    if run.layout.is_prefixed() {
        out.push(run.prefix.len() as u8);
        out.extend_from_slice(run.prefix);
    }
    out.extend_from_slice(run.bytes);
}

/// Number of bytes of a small list of these elements.
pub fn len_of(packing: &Packing) -> usize {
    let prefix = if packing.layout.is_prefixed() { 1 + packing.prefix.len() } else { 0 };
    HEADER + prefix + packing.bytes.len()
}
