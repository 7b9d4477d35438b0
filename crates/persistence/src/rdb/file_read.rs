//! Reading RDB files: found in one pass are the records' ends, so that whole runs of keys can be
//! handed to other threads, which read the values.

use super::file::{HEAD_LEN, SUMMED_MIN, is_known, opcode, version_of};
use super::kind::type_byte_in;
use super::length::read_number;
use super::skip::{skip_text, skip_value};
use super::sum::Sum;
use super::text::{read_blob, read_text};
use super::{
    Error, FileError, Leniency, Slice, Source, Template, Templates, ValueSink, compact, read_value,
};
use petrel_keyspace::Usage;
use std::io::Read;
use std::sync::Arc;

/// Bytes of keys that are handed out together, about.
const RUN_LEN: usize = 512 * 1024;

/// Length of a record above which it is read in parts.
const RECORD_MAX: usize = 4 * 1024 * 1024;

/// Bytes that are asked of the file at a time.
const READ_LEN: usize = 256 * 1024;

/// Next part of a file.
#[derive(Debug)]
pub enum Section {
    /// A text that describes the file.
    Aux {
        /// Name of the field.
        name: Vec<u8>,
        /// Value of the field.
        text: Vec<u8>,
    },
    /// The source of a library of functions.
    Function(Vec<u8>),
    /// The keys that follow are of this database.
    Database(u64),
    /// The database has this many keys, and this many of them have an expiry.
    Sizes {
        /// Keys.
        keys: u64,
        /// Number of keys with an expiry.
        volatile: u64,
    },
    /// Whole records of keys, for [`next_key`].
    Keys(Vec<u8>),
    /// A key with a long record: its value must be read by [`FileReader::read_value`] before
    /// anything else.
    LongKey(Head),
    /// Auxiliary data of a module with this id, which is skipped.
    Module(u64),
    /// Field names of compact hashes that follow: [`FileReader::templates`].
    Template,
    /// The end, with its checksum found right.
    End,
}

/// Part of a key's record before its value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Head {
    /// Expiry in Unix milliseconds.
    pub expiry: Option<i64>,
    /// LRU or LFU information.
    pub usage: Usage,
    /// Type byte, which selects the value's format.
    pub type_byte: u8,
    /// The key.
    pub key: Vec<u8>,
}

/// The head of the next key of a run of a file of this version; the source stands before its value
/// then. None at the run's end.
///
/// # Errors
/// If the bytes are broken.
pub fn next_key(source: &mut Slice<'_>, version: u16, head: &mut Head) -> Result<bool, Error> {
    if source.left() == 0 {
        return Ok(false);
    }
    read_head(source, version, head)?;
    Ok(true)
}

/// Reads the part of a record before a key's value. On an error, the part read so far is in `head`.
pub(super) fn read_head<S: Source>(
    source: &mut S,
    version: u16,
    head: &mut Head,
) -> Result<(), Error> {
    head.key.clear();
    (head.expiry, head.usage) = (None, Usage::Unknown);
    head.type_byte = loop {
        match source.byte()? {
            opcode::EXPIRY_MS => head.expiry = Some(i64::from_le_bytes(source.array()?)),
            opcode::EXPIRY_S => {
                let seconds = i32::from_le_bytes(source.array()?);
                head.expiry = Some(i64::from(seconds) * 1000);
            }
            opcode::IDLE => {
                let seconds = u32::try_from(read_number(source)?).unwrap_or(u32::MAX);
                head.usage = Usage::IdleSeconds(seconds);
            }
            opcode::FREQUENCY => head.usage = Usage::Frequency(source.byte()?),
            opcode::MIN.. => return Err(Error::Malformed("an expiry without its key")),
            type_byte => break type_byte_in(version, type_byte),
        }
    };
    let mut scratch = Vec::new();
    let mut digits = itoa::Buffer::new();
    let key = read_text(source, &mut scratch)?;
    head.key.extend_from_slice(key.bytes(&mut digits));
    Ok(())
}

/// Reads a file from front to back.
pub struct FileReader<R> {
    input: Input<R>,
    version: u16,
    leniency: Leniency,
    /// The database of the keys that come next.
    db: u64,
    ended: bool,
}

impl<R: Read> FileReader<R> {
    /// A reader of a file of `len` bytes.
    ///
    /// # Errors
    /// If it is no RDB file, or one of a version that is not known.
    pub fn new(file: R, len: u64, leniency: Leniency) -> Result<Self, FileError> {
        let mut input = Input::new(file, len);
        let head: [u8; HEAD_LEN] = match input.array() {
            Ok(head) => head,
            Err(_) => return Err(input.failed.map_or(FileError::NoRdbFile, FileError::Io)),
        };
        let version = version_of(&head).ok_or(FileError::NoRdbFile)?;
        if !is_known(version) && !leniency.any_version {
            return Err(FileError::Version(version));
        }
        Ok(FileReader { input, version, leniency, db: 0, ended: false })
    }

    /// The version in the file's head.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The field names of compact hashes so far, for [`Slice::with_templates`].
    pub fn templates(&self) -> &Arc<Templates> {
        &self.input.templates
    }

    /// Bytes of the file that were handed out.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// Reads the next section.
    ///
    /// # Errors
    /// If the file cannot be read, or is broken.
    pub fn next_section(&mut self) -> Result<Section, FileError> {
        let start = self.input.position();
        if self.ended {
            return Ok(Section::End);
        }
        let section = self.section();
        if let Ok(Section::Database(db)) = section {
            self.db = db;
        }
        section.map_err(|error| match self.key_in_hand() {
            Some(key) => self.key_failure(self.input.position(), &key, error),
            None => self.failure(start, error),
        })
    }

    /// The key with its record at the position, if there is one with a readable name.
    fn key_in_hand(&self) -> Option<Vec<u8>> {
        let bytes = self.input.buffered();
        let first = *bytes.first()?;
        let mut head = Head::default();
        let is_key = (first < opcode::MIN || is_before_key(first))
            && read_head(&mut Slice::new(bytes), self.version, &mut head).is_ok();
        is_key.then_some(head.key)
    }

    /// Reads the value of a [`Section::LongKey`].
    ///
    /// # Errors
    /// Those of the file, or of the sink.
    pub fn read_value<K: ValueSink>(&mut self, head: &Head, sink: &mut K) -> Result<(), FileError> {
        let start = self.input.position();
        let read = read_value(&mut self.input, head.type_byte, sink);
        read.map_err(|error| self.key_failure(start, &head.key, error))
    }

    fn key_failure(&mut self, at: u64, key: &[u8], error: Error) -> FileError {
        match self.failure(at, error) {
            FileError::Format { at, error } => {
                FileError::Key { at, db: self.db, key: key.to_vec(), error }
            }
            other => other,
        }
    }

    fn failure(&mut self, at: u64, error: Error) -> FileError {
        match (self.input.failed.take(), error) {
            (Some(error), _) => FileError::Io(error),
            (None, Error::Frame) => {
                FileError::Sum { stated: self.stated_sum(), computed: self.input.sum.value() }
            }
            (None, error) => FileError::Format { at, error },
        }
    }

    /// The checksum that was read last.
    fn stated_sum(&self) -> u64 {
        let read = &self.input.bytes[..self.input.at];
        read.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn section(&mut self) -> Result<Section, Error> {
        let mut scratch = Vec::new();
        let input = &mut self.input;
        let mut first = input.peek()?;
        // Slot, keys and keys with an expiry: a hint of Redis in cluster mode.
        while first == opcode::SLOT_INFO {
            input.byte()?;
            (0..3).try_for_each(|_| read_number(input).map(drop))?;
            first = input.peek()?;
        }
        if first < opcode::MIN || is_before_key(first) {
            return self.keys();
        }
        input.byte()?;
        Ok(match first {
            opcode::AUX => {
                let mut digits = itoa::Buffer::new();
                let name = read_text(input, &mut scratch)?.bytes(&mut digits).to_vec();
                let text = read_text(input, &mut scratch)?.bytes(&mut digits).to_vec();
                Section::Aux { name, text }
            }
            opcode::FUNCTION => Section::Function(read_blob(input, &mut scratch)?.to_vec()),
            opcode::SELECT => Section::Database(read_number(input)?),
            opcode::SIZES => {
                Section::Sizes { keys: read_number(input)?, volatile: read_number(input)? }
            }
            opcode::TEMPLATE => {
                let mut templates = std::mem::take(&mut input.templates);
                let read = compact::read_record(input, Arc::make_mut(&mut templates));
                input.templates = templates;
                read?;
                Section::Template
            }
            opcode::MODULE_AUX => Section::Module(skip_module(input)?),
            opcode::END => {
                self.end()?;
                Section::End
            }
            opcode::FUNCTION_BEFORE_RELEASE => {
                return Err(Error::Unsupported("a function in a form of before Redis 7.0"));
            }
            opcode::SLOT_IMPORT => {
                return Err(Error::Unsupported("a hash slot that was being imported"));
            }
            _ => return Err(Error::Malformed("a record of no known kind")),
        })
    }

    /// Whole records of keys, as many as a run holds, or one that is too long for it.
    fn keys(&mut self) -> Result<Section, Error> {
        let (input, version) = (&mut self.input, self.version);
        input.reserve(RUN_LEN);
        let mut wanted = RUN_LEN;
        loop {
            let bytes = input.buffered();
            let found = records(bytes, version, &input.templates)?;
            if found > 0 {
                let run = bytes[..found].to_vec();
                input.skip(found);
                return Ok(Section::Keys(run));
            }
            if bytes.len() < wanted {
                return Err(Error::Truncated);
            }
            if wanted >= RECORD_MAX {
                let mut head = Head::default();
                read_head(input, version, &mut head)?;
                return Ok(Section::LongKey(head));
            }
            wanted *= 2;
            input.reserve(wanted);
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        self.ended = true;
        if self.version < SUMMED_MIN {
            return Ok(());
        }
        let computed = self.input.sum_so_far();
        let stated = u64::from_le_bytes(self.input.array()?);
        if stated == 0 || stated == computed || self.leniency.any_sum {
            return Ok(());
        }
        Err(Error::Frame)
    }
}

pub(super) fn is_before_key(opcode: u8) -> bool {
    matches!(opcode, opcode::EXPIRY_MS | opcode::EXPIRY_S | opcode::IDLE | opcode::FREQUENCY)
}

/// Bytes of the whole records of keys at the beginning of `bytes`.
fn records(bytes: &[u8], version: u16, templates: &Templates) -> Result<usize, Error> {
    let mut source = Slice::with_templates(bytes, templates);
    let mut end = 0;
    loop {
        match skip_record(&mut source, version) {
            Ok(true) => end = bytes.len() - source.left(),
            // Something else follows, or the rest of a record is not there yet.
            Ok(false) | Err(Error::Truncated) => return Ok(end),
            // What comes before it is handed out first, so that the error can say where it is.
            Err(_) if end > 0 => return Ok(end),
            Err(error) => return Err(error),
        }
    }
}

/// Reads over the record of one key; false if something else follows.
#[inline]
fn skip_record(source: &mut Slice<'_>, version: u16) -> Result<bool, Error> {
    let mut is_begun = false;
    let type_byte = loop {
        match source.byte()? {
            opcode::EXPIRY_MS => source.take(8).map(drop)?,
            opcode::EXPIRY_S => source.take(4).map(drop)?,
            opcode::IDLE => read_number(source).map(drop)?,
            opcode::FREQUENCY => source.byte().map(drop)?,
            opcode::MIN.. if !is_begun => return Ok(false),
            opcode::MIN.. => return Err(Error::Malformed("an expiry without its key")),
            type_byte => break type_byte_in(version, type_byte),
        }
        is_begun = true;
    };
    skip_text(source)?;
    skip_value(source, type_byte)?;
    Ok(true)
}

/// Skips data of a module: numbers and strings, each with an opcode before it.
pub(super) fn skip_module<S: Source>(source: &mut S) -> Result<u64, Error> {
    const END: u64 = 0;
    const FLOAT: u64 = 3;
    const DOUBLE: u64 = 4;
    const TEXT: u64 = 5;
    let id = read_number(source)?;
    loop {
        match read_number(source)? {
            END => return Ok(id),
            1 | 2 => read_number(source).map(drop)?,
            FLOAT => source.take(4).map(drop)?,
            DOUBLE => source.take(8).map(drop)?,
            TEXT => skip_text(source)?,
            _ => return Err(Error::Malformed("data of a module in no known form")),
        }
    }
}

/// Buffered input with a checksum of the consumed bytes.
pub(super) struct Input<R> {
    file: R,
    bytes: Vec<u8>,
    /// Bytes of the buffer that were taken.
    at: usize,
    sum: Sum,
    /// Start of the buffered bytes that are not in the checksum yet.
    unsummed: usize,
    /// Bytes that were read into the buffer, from the file's beginning.
    read: u64,
    len: u64,
    failed: Option<std::io::Error>,
    templates: Arc<Templates>,
}

impl<R: Read> Input<R> {
    /// The bytes of a file of `len` bytes, from its beginning.
    pub(super) fn new(file: R, len: u64) -> Self {
        Input {
            file,
            bytes: Vec::new(),
            at: 0,
            sum: Sum::new(),
            unsummed: 0,
            read: 0,
            len,
            failed: None,
            templates: Arc::default(),
        }
    }

    /// The error of reading the file, if there was one.
    pub(super) fn failure(&mut self) -> Option<std::io::Error> {
        self.failed.take()
    }

    pub(super) fn position(&self) -> u64 {
        self.read - (self.bytes.len() - self.at) as u64
    }

    fn buffered(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn skip(&mut self, len: usize) {
        self.at += len;
    }

    pub(super) fn peek(&mut self) -> Result<u8, Error> {
        self.reserve(1);
        self.buffered().first().copied().ok_or(Error::Truncated)
    }

    pub(super) fn sum_so_far(&mut self) -> u64 {
        self.sum.update(&self.bytes[self.unsummed..self.at]);
        self.unsummed = self.at;
        self.sum.value()
    }

    /// Buffers at least `len` bytes, if the file has them.
    fn reserve(&mut self, len: usize) {
        if self.buffered().len() >= len {
            return;
        }
        self.sum_so_far();
        self.bytes.drain(..self.at);
        (self.at, self.unsummed) = (0, 0);
        while self.bytes.len() < len && self.failed.is_none() {
            let before = self.bytes.len();
            let step = (len - before).max(READ_LEN);
            let read = self.file.by_ref().take(step as u64).read_to_end(&mut self.bytes);
            self.failed = read.err();
            let grown = self.bytes.len() - before;
            self.read += grown as u64;
            if grown == 0 {
                break;
            }
        }
    }
}

impl<R: Read> Source for Input<R> {
    fn take(&mut self, len: usize) -> Result<&[u8], Error> {
        if len > self.left() {
            return Err(Error::Truncated);
        }
        self.reserve(len);
        let from = self.at;
        if self.bytes.len() - from < len {
            return Err(Error::Truncated);
        }
        self.at += len;
        Ok(&self.bytes[from..self.at])
    }

    fn left(&self) -> usize {
        usize::try_from(self.len.saturating_sub(self.position())).unwrap_or(usize::MAX)
    }

    fn template(&self, number: u64) -> Option<Template> {
        self.templates.get(&number).cloned()
    }
}
