//! Walking the records of a damaged file: where each begins and ends, whatever its value is.

use super::file::{HEAD_LEN, SUMMED_MIN, opcode, version_of};
use super::file_read::{Input, is_before_key, read_head, skip_module};
use super::length::read_number;
use super::skip::{skip_text, skip_value};
use super::sum::Sum;
use super::text::read_blob;
use super::{Error, FileError, Head, Source, ValueSink, read_value};
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A record of a file, without its value.
#[derive(Debug)]
pub enum Record {
    /// A key; its value begins at this byte of the file.
    Key(Head, u64),
    /// The keys that follow are of this database.
    Database(u64),
    /// Number of keys of the database, or of its slots: a hint.
    Hint,
    /// The source of a library of functions.
    Function(Vec<u8>),
    /// A text that describes the file, or data of a module beside the keys.
    Other,
    /// The end, and whether the checksum behind it is that of the bytes.
    End {
        /// Whether it is, or there is none.
        is_sum_right: bool,
    },
}

/// Reads the records of a file one by one.
pub struct Walk<R> {
    input: Input<R>,
    version: u16,
}

impl<R: Read> Walk<R> {
    /// A walk through a file of `len` bytes.
    ///
    /// # Errors
    /// If it is no RDB file, or cannot be read.
    pub fn new(file: R, len: u64) -> Result<Self, FileError> {
        let mut input = Input::new(file, len);
        let head: Result<[u8; HEAD_LEN], Error> = input.array();
        if let Some(error) = input.failure() {
            return Err(FileError::Io(error));
        }
        let version = head.ok().and_then(|head| version_of(&head)).ok_or(FileError::NoRdbFile)?;
        Ok(Walk { input, version })
    }

    /// The version in the file's head.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The position of the next record.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// The next record. Where its end cannot be found, so cannot those behind it; if it is a key
    /// with a readable name, that is in `key`.
    ///
    /// # Errors
    /// If the file cannot be read; inside, if the record's end cannot be found.
    pub fn next_record(&mut self, key: &mut Vec<u8>) -> Result<Result<Record, Error>, FileError> {
        key.clear();
        let record = self.record(key);
        self.input.failure().map_or(Ok(record), |error| Err(FileError::Io(error)))
    }

    fn record(&mut self, key: &mut Vec<u8>) -> Result<Record, Error> {
        let input = &mut self.input;
        let first = input.peek()?;
        if first < opcode::MIN || is_before_key(first) {
            let mut head = Head::default();
            read_head(input, self.version, &mut head)?;
            key.clone_from(&head.key);
            let value_at = input.position();
            skip_value(input, head.type_byte)?;
            return Ok(Record::Key(head, value_at));
        }
        input.byte()?;
        let mut scratch = Vec::new();
        Ok(match first {
            opcode::AUX => {
                skip_text(input)?;
                skip_text(input)?;
                Record::Other
            }
            opcode::TEMPLATE => {
                return Err(Error::Unsupported("field names that several hashes refer to"));
            }
            opcode::FUNCTION => Record::Function(read_blob(input, &mut scratch)?.to_vec()),
            opcode::SELECT => Record::Database(read_number(input)?),
            opcode::SIZES => {
                (0..2).try_for_each(|_| read_number(input).map(drop))?;
                Record::Hint
            }
            opcode::SLOT_INFO => {
                (0..3).try_for_each(|_| read_number(input).map(drop))?;
                Record::Hint
            }
            opcode::MODULE_AUX => {
                skip_module(input)?;
                Record::Other
            }
            opcode::END => Record::End { is_sum_right: self.is_sum_right()? },
            _ => return Err(Error::Malformed("a record of no known kind")),
        })
    }

    fn is_sum_right(&mut self) -> Result<bool, Error> {
        if self.version < SUMMED_MIN {
            return Ok(true);
        }
        let computed = self.input.sum_so_far();
        let stated = u64::from_le_bytes(self.input.array()?);
        Ok(stated == 0 || stated == computed)
    }
}

/// Reads a value that stands alone in a part of a file.
pub struct ValueReader<'f>(Input<io::Take<Part<'f>>>);

impl<'f> ValueReader<'f> {
    /// A reader of the value that takes these bytes of a file.
    pub fn new(file: &'f File, bytes: Range<u64>) -> Self {
        let len = bytes.end - bytes.start;
        ValueReader(Input::new(Part { file, at: bytes.start }.take(len), len))
    }

    /// Reads it.
    ///
    /// # Errors
    /// If the file cannot be read; inside, if the value is broken or the sink refuses it.
    pub fn read<K: ValueSink>(
        &mut self,
        type_byte: u8,
        sink: &mut K,
    ) -> io::Result<Result<(), Error>> {
        let read = read_value(&mut self.0, type_byte, sink);
        self.0.failure().map_or(Ok(read), Err)
    }
}

/// Bytes of a file from one on, wherever others read it.
pub struct Part<'f> {
    file: &'f File,
    at: u64,
}

impl<'f> Part<'f> {
    /// A file from its beginning.
    pub fn new(file: &'f File) -> Self {
        Part { file, at: 0 }
    }
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Writes a file of records that are given as they are.
pub struct RawWriter<W> {
    out: W,
    sum: Sum,
    version: u16,
}

impl<W: Write> RawWriter<W> {
    /// A writer of a file of this version; the head has to be written first.
    pub fn new(out: W, version: u16) -> Self {
        RawWriter { out, sum: Sum::new(), version }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.out.write_all(bytes)
    }

    /// Appends what ends the file.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.write(&[opcode::END])?;
        if self.version >= SUMMED_MIN {
            let sum = self.sum.value();
            self.write(&sum.to_le_bytes())?;
        }
        self.out.flush()
    }
}
