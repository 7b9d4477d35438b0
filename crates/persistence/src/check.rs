//! Reading an RDB file for no other purpose than to find out whether it is whole, and a server
//! would load it.

use crate::load::{Loaded, examine};
use crate::rdb::{FileError, Head, Leniency, type_of};
use petrel_keyspace::Type;
use std::collections::BTreeMap;
use std::io::Read;

/// Contents of an RDB file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Census {
    /// The version in its head.
    pub version: u16,
    /// Number of keys by database.
    pub by_database: BTreeMap<u64, u64>,
    /// Number of keys by type.
    pub by_type: BTreeMap<&'static str, u64>,
    /// Keys with an expiry.
    pub volatile: u64,
    /// Texts of libraries of functions.
    pub functions: Vec<Vec<u8>>,
    /// Modules that have left something beside the keys.
    pub modules: u64,
    /// Position after the end of the RDB data; other data may follow.
    pub end: u64,
    /// Texts that describe the file: name and text.
    pub aux: Vec<(Vec<u8>, Vec<u8>)>,
    /// Lines about keys that are loaded though they state something wrong, or left out.
    pub notes: Vec<String>,
}

impl Census {
    /// Number of databases that a server needs to load the file.
    pub fn databases(&self) -> u64 {
        self.by_database.keys().max().map_or(1, |db| db + 1)
    }

    /// Keys of all databases.
    pub fn keys(&self) -> u64 {
        self.by_database.values().sum()
    }

    /// Counts a key that holds a value of this type, if that is known.
    pub(crate) fn count(&mut self, db: u64, head: &Head, of: Option<Type>) {
        *self.by_database.entry(db).or_default() += 1;
        *self
            .by_type
            .entry(of.or_else(|| type_of(head.type_byte)).map_or("other", Type::name))
            .or_default() += 1;
        self.volatile += u64::from(head.expiry.is_some());
    }
}

/// Reads a whole file of `len` bytes as a server loads it, and counts its contents. Takes memory
/// for its keys and its largest value. With `keeps_expired`, expired keys are counted as present,
/// as in a log's base.
///
/// # Errors
/// The first error and its position: everything that the server refuses, except invalid function
/// libraries and database numbers beyond its `databases`.
pub fn check<R: Read>(
    file: R,
    len: u64,
    leniency: Leniency,
    keeps_expired: bool,
) -> Result<Census, FileError> {
    let (loaded, census) = examine(file, len, leniency, keeps_expired)?;
    let Loaded { version, functions, aux, modules, end, is_whole: _ } = loaded;
    Ok(Census { version, functions, aux, modules: modules as u64, end, ..census })
}
