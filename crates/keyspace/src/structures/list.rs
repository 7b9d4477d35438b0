//! Lists.
//!
//! A small list is packed in its key's entry (`small.rs`); a longer one is a ring of chunks of
//! packed items (`large.rs`, `chunk.rs`). [`ListRef`] reads both, [`ListMut`] changes them.

mod chunk;
pub(crate) mod encoding;
mod image;
mod landmarks;
pub(crate) mod large;
pub(crate) mod read;
pub(crate) mod run;
pub(crate) mod small;
#[cfg(test)]
mod tests;

pub use encoding::Nodes;
pub use read::{BackIter, Iter, ListRef};
pub use run::Element;

/// An end of a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// The side of `LPUSH`.
    Front,
    /// The side of `RPUSH`.
    Back,
}

impl End {
    /// The other one.
    pub fn opposite(self) -> Self {
        match self {
            End::Front => End::Back,
            End::Back => End::Front,
        }
    }
}
