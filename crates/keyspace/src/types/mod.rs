//! The collections.

pub mod intset;
