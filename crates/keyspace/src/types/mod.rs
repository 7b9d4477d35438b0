//! The collections.

pub mod intset;
pub mod list;
#[allow(dead_code)]
pub(crate) mod rank_tree;
pub mod stream;
