//! The collections.

pub mod intset;
#[allow(dead_code)]
pub(crate) mod rank_tree;
pub mod stream;
