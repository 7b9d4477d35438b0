//! Recovery of an RDB file that cannot be loaded as a whole.
//!
//! Records are walked one by one. A record that a load accepts is copied byte for byte; others are
//! omitted, and reported with the reason. The walk ends at a record with an end that cannot be
//! found.

use crate::load::{Salvage, Taker};
use crate::rdb::{FileError, Head, Part, RawWriter, Record, ShownKey, Walk};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes that are copied at a time.
const COPY_LEN: u64 = 1 << 20;

/// Databases that a server can have.
const DATABASES_MAX: u64 = u16::MAX as u64;

/// A part of a file that is left out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeftOut {
    /// The part's bytes in the file.
    pub bytes: Range<u64>,
    /// The database.
    pub db: u64,
    /// The key, if it is that of one.
    pub key: Option<Vec<u8>>,
    /// The reason.
    pub why: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOut { bytes, db, key, why } = self;
        write!(f, "{} bytes from byte {} on: ", bytes.end - bytes.start, bytes.start)?;
        match key {
            Some(key) => write!(f, "{} of database {db}: {why}", ShownKey(key)),
            None => f.write_str(why),
        }
    }
}

/// The result for a file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Mended {
    /// Keys that are kept.
    pub keys: u64,
    /// Parts that are left out.
    pub parts: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The checksum of the file was wrong: the kept part may be damaged in a way that does not
    /// show.
    pub is_sum_wrong: bool,
}

/// Destinations of the parts of a file.
pub struct Outputs<'o> {
    /// A file with what can be loaded.
    pub kept: &'o mut dyn Write,
    /// The left out parts: for each a line that begins with `#` and describes it, its bytes, and
    /// the end of a line.
    pub left_out: &'o mut dyn Write,
}

/// Says why the libraries of functions of these texts cannot be loaded together, if they cannot.
pub type CheckFunctions<'c> = &'c dyn Fn(&[Vec<u8>]) -> Result<(), String>;

/// Walks a file of `len` bytes and tells what can be loaded of it from what cannot, which is
/// reported part by part. With `outputs`, both are written there.
///
/// # Errors
/// If it is no RDB file, or a file cannot be read or written.
pub fn mend(
    file: &File,
    len: u64,
    check_functions: CheckFunctions<'_>,
    outputs: Option<Outputs<'_>>,
    report: &mut dyn FnMut(&LeftOut),
) -> Result<Mended, FileError> {
    let walk = Walk::new(Part::new(file), len)?;
    let salvage = Salvage::new(walk.version());
    let (kept, left_out) = match outputs {
        Some(Outputs { kept, left_out }) => {
            (Some(RawWriter::new(kept, walk.version())), Some(left_out))
        }
        None => (None, None),
    };
    let mut mender = Mender {
        file,
        len,
        kept,
        left_out,
        report,
        check_functions,
        taker: salvage.taker(),
        mended: Mended::default(),
        functions: Vec::new(),
        db: 0,
    };
    mender.copy(0..walk.position())?;
    mender.walk(walk)?;
    if let Some(kept) = mender.kept {
        kept.finish()?;
    }
    Ok(mender.mended)
}

struct Mender<'m, 'o> {
    file: &'m File,
    len: u64,
    kept: Option<RawWriter<&'o mut dyn Write>>,
    left_out: Option<&'o mut dyn Write>,
    report: &'m mut dyn FnMut(&LeftOut),
    check_functions: CheckFunctions<'m>,
    taker: Taker<'m>,
    mended: Mended,
    /// Texts of the libraries that are kept.
    functions: Vec<Vec<u8>>,
    /// The database of the keys that come next.
    db: u64,
}

impl Mender<'_, '_> {
    fn walk(&mut self, mut walk: Walk<Part<'_>>) -> Result<(), FileError> {
        let mut key = Vec::new();
        loop {
            let start = walk.position();
            let record = match walk.next_record(&mut key)? {
                Ok(record) => record,
                Err(error) => {
                    let key = Some(std::mem::take(&mut key)).filter(|key| !key.is_empty());
                    let why = format!("{error}; nothing behind it can be told apart");
                    return self.leave_out(start..self.len, key, why);
                }
            };
            let bytes = start..walk.position();
            match record {
                Record::Key(head, value_at) => self.key(&head, bytes, value_at)?,
                Record::Function(text) => self.function(text, bytes)?,
                Record::Database(db) => {
                    self.db = db;
                    if db < DATABASES_MAX {
                        self.copy(bytes)?;
                    }
                }
                Record::Hint if self.db >= DATABASES_MAX => {}
                Record::Hint | Record::Other => self.copy(bytes)?,
                Record::End { is_sum_right } => {
                    self.mended.is_sum_wrong = !is_sum_right;
                    if bytes.end < self.len {
                        let why = "it stands behind the end of the data".into();
                        self.leave_out(bytes.end..self.len, None, why)?;
                    }
                    return Ok(());
                }
            }
        }
    }

    fn key(&mut self, head: &Head, bytes: Range<u64>, value_at: u64) -> Result<(), FileError> {
        match self.taker.take(self.file, self.db, head, bytes.clone(), value_at) {
            Ok(()) => {
                self.mended.keys += 1;
                self.copy(bytes)
            }
            Err(FileError::Io(error)) => Err(FileError::Io(error)),
            Err(error) => {
                let why = match error {
                    FileError::Key { error, .. } | FileError::Format { error, .. } => {
                        error.to_string()
                    }
                    FileError::Duplicate { .. } => "it is there twice".into(),
                    other => other.to_string(),
                };
                self.leave_out(bytes, Some(head.key.clone()), why)
            }
        }
    }

    fn function(&mut self, text: Vec<u8>, bytes: Range<u64>) -> Result<(), FileError> {
        self.functions.push(text);
        match (self.check_functions)(&self.functions) {
            Ok(()) => self.copy(bytes),
            Err(why) => {
                self.functions.pop();
                self.leave_out(bytes, None, format!("a library of functions: {why}"))
            }
        }
    }

    /// Copies a part of the file to the kept ones.
    fn copy(&mut self, bytes: Range<u64>) -> Result<(), FileError> {
        if let Some(kept) = &mut self.kept {
            each_block(self.file, bytes, |block| kept.write(block))?;
        }
        Ok(())
    }

    fn leave_out(
        &mut self,
        bytes: Range<u64>,
        key: Option<Vec<u8>>,
        why: String,
    ) -> Result<(), FileError> {
        let part = LeftOut { bytes: bytes.clone(), db: self.db, key, why };
        self.mended.parts += 1;
        self.mended.bytes += bytes.end - bytes.start;
        (self.report)(&part);
        if let Some(left_out) = &mut self.left_out {
            writeln!(left_out, "# {part}")?;
            each_block(self.file, bytes, |block| left_out.write_all(block))?;
            left_out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Reads a part of a file in blocks.
fn each_block(
    file: &File,
    bytes: Range<u64>,
    mut with: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut block = Vec::new();
    let mut at = bytes.start;
    while at < bytes.end {
        block.resize((bytes.end - at).min(COPY_LEN) as usize, 0);
        file.read_exact_at(&mut block, at)?;
        with(&block)?;
        at += block.len() as u64;
    }
    Ok(())
}
