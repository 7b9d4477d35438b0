//! Reads of keys, and the functions that change keys and record one effect for each change.

pub(crate) mod access;
pub(crate) mod apply;
pub(crate) mod build;
pub(crate) mod collections;
pub(crate) mod compact_hashes;
pub(crate) mod custom;
pub(crate) mod database;
pub(crate) mod hash_expiry;
pub(crate) mod hashes;
pub(crate) mod lists;
pub(crate) mod scan;
pub(crate) mod set_algebra;
pub(crate) mod sets;
pub(crate) mod sorted_sets;
pub(crate) mod streams;
pub(crate) mod strings;
pub(crate) mod usage;
