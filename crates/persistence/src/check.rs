//! Reading an RDB file for no other purpose than to find out whether it is whole.

use crate::rdb::{FileError, FileReader, Head, Leniency, Nowhere, Section, Slice, Source};
use crate::rdb::{next_key, read_value, type_of};
use petrel_keyspace::Type;
use std::collections::BTreeMap;
use std::io::Read;

/// What a file holds.
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
    /// Libraries of functions.
    pub functions: u64,
    /// Modules that have left something beside the keys.
    pub modules: u64,
    /// Where it ends: there may be something else behind it.
    pub end: u64,
    /// Texts that describe the file: name and text.
    pub aux: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Census {
    /// Keys of all databases.
    pub fn keys(&self) -> u64 {
        self.by_database.values().sum()
    }

    fn count(&mut self, db: u64, head: &Head) {
        *self.by_database.entry(db).or_default() += 1;
        *self.by_type.entry(type_of(head.type_byte).map_or("other", Type::name)).or_default() += 1;
        self.volatile += u64::from(head.expiry.is_some());
    }
}

/// Reads a whole file of `len` bytes, every value included, and counts what it holds. Whether a key comes twice is not looked at.
///
/// # Errors
/// The first thing that is wrong, and where.
pub fn check<R: Read>(file: R, len: u64, leniency: Leniency) -> Result<Census, FileError> {
    let mut reader = FileReader::new(file, len, leniency)?;
    let mut census = Census { version: reader.version(), ..Census::default() };
    let mut db = 0;
    loop {
        let at = reader.position();
        match reader.next_section()? {
            Section::Aux { name, text } => census.aux.push((name, text)),
            Section::Function(_) => census.functions += 1,
            Section::Database(selected) => db = selected,
            Section::Sizes { .. } => {}
            Section::Keys(bytes) => check_keys(&bytes, at, db, &mut census)?,
            Section::LongKey(head) => {
                reader.read_value(head.type_byte, &mut Nowhere)?;
                census.count(db, &head);
            }
            Section::Module(_) => census.modules += 1,
            Section::End => {
                census.end = reader.position();
                return Ok(census);
            }
        }
    }
}

fn check_keys(bytes: &[u8], start: u64, db: u64, census: &mut Census) -> Result<(), FileError> {
    let mut source = Slice::new(bytes);
    let mut head = Head::default();
    loop {
        let at = start + (bytes.len() - source.left()) as u64;
        let located = |error| FileError::Format { at, error };
        if !next_key(&mut source, &mut head).map_err(located)? {
            return Ok(());
        }
        read_value(&mut source, head.type_byte, &mut Nowhere).map_err(located)?;
        census.count(db, &head);
    }
}
