//! The keys of a transaction that is executed apart from the keyspace.

use std::collections::HashSet;

/// Keys that the primaries of a transaction lend, with their databases.
#[derive(Debug)]
pub struct ApartKeys {
    pub(crate) keys: HashSet<(u16, Vec<u8>)>,
    /// A script has tried to use something else.
    pub(crate) has_strayed: bool,
}
