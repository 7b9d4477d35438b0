//! Writing RDB files.

use super::file::{HEAD_LEN, head, opcode};
use super::length::write_number;
use super::lzf::Compressor;
use super::sum::{Sum, checksum, join};
use super::text::{write_bytes, write_text};
use super::{Dialect, Error, FileError, Form, Item, KeyRun, Shape, Spill, ValueSink, Writer};
use crate::value;
use petrel_keyspace::aux_state::{FUNCTIONS, texts};
use petrel_keyspace::{StrRef, Type, Usage, View};
use std::io::{self, Seek, SeekFrom, Write};

/// Prefix of the name of an auxiliary field that holds auxiliary state.
pub const AUX_STATE: &[u8] = b"petrel-aux:";

/// Bytes that are handed to the file together.
const CHUNK: usize = 256 * 1024;

/// Options for writing a file.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// Long strings are compressed.
    pub compress: bool,
    /// The file ends with a checksum.
    pub sum: bool,
    /// Dialect of records that Redis and Valkey write differently.
    pub dialect: Dialect,
    /// The newest version that may be used, for servers that know no newer one: [`Form::within`].
    pub version_max: u16,
    /// Values of types that Redis does not have are left out
    /// ([`commands`](petrel_keyspace::custom::ValueType::commands)).
    pub only_redis_types: bool,
}

impl FileOptions {
    /// Value of [`FileOptions::version_max`] that omits nothing.
    pub const ANY_VERSION: u16 = u16::MAX;

    /// Whether a value is left out because Redis has no such type.
    pub fn omits(&self, view: View<'_>) -> bool {
        self.only_redis_types
            && matches!(view.type_of(), Type::Custom(of) if !value::is_of_redis(of, self.version_max))
    }

    /// The form of a value as it is at a moment in Unix milliseconds.
    ///
    /// # Errors
    /// If only a newer version can hold it.
    pub fn form(&self, view: View<'_>, now_ms: i64) -> Result<Form, FileError> {
        const TOO_NEW: Error =
            Error::Refused("only a newer version of RDB than rdb-version allows can hold it");
        let form = value::form(view, now_ms, self.dialect).within(self.version_max);
        if form.version() <= self.version_max { Ok(form) } else { Err(FileError::Value(TOO_NEW)) }
    }
}

/// Writes a file: texts that describe it, functions, then databases with their keys. The version in
/// its head is the lowest that knows every form that was written, so that the widest range of
/// servers loads it.
pub struct FileWriter<W> {
    out: Out<W>,
    /// Bytes not written to the file yet.
    buffer: Vec<u8>,
    encoder: KeyEncoder,
    /// The version that the head says so far.
    begun: u16,
}

/// Writes the records of keys.
pub struct KeyEncoder {
    options: FileOptions,
    compressor: Option<Compressor>,
    version: u16,
}

impl KeyEncoder {
    /// An encoder of keys for a file that is written so.
    pub fn new(options: FileOptions) -> Self {
        // Without anything that is newer, a file is read by Redis 5 and 6.
        let version = 9;
        KeyEncoder { options, compressor: options.compress.then(Compressor::default), version }
    }

    /// The lowest version that knows every form that was written.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Appends a key with its value at a time in Unix milliseconds, and its LRU or LFU information.
    /// `spill` may take the bytes written so far of a long value.
    ///
    /// # Errors
    /// If the value exceeds the limits of the format.
    pub fn encode<'o>(
        &mut self,
        buffer: &'o mut Vec<u8>,
        view: View<'_>,
        usage: Usage,
        now_ms: i64,
        spill: Option<&'o mut Spill<'o>>,
    ) -> Result<(), FileError> {
        if let Ok(string) = view.string() {
            self.head(buffer, view, usage, Form::String);
            self.string(buffer, string);
            return Ok(());
        }
        let form = self.options.form(view, now_ms)?;
        self.head(buffer, view, usage, form);
        let mut writer = Writer::compressing(buffer, form, self.compressor.take());
        if let Some(spill) = spill {
            writer = writer.spilling(spill);
        }
        value::feed(view, now_ms, &mut writer).map_err(FileError::Value)?;
        self.compressor = writer.end().map_err(FileError::Value)?;
        Ok(())
    }

    /// Appends what comes before a value: expiry, usage, type byte and key.
    pub(super) fn head(&mut self, buffer: &mut Vec<u8>, view: View<'_>, usage: Usage, form: Form) {
        self.version = self.version.max(form.version());
        if let Some(at) = view.expiry() {
            buffer.push(opcode::EXPIRY_MS);
            buffer.extend_from_slice(&at.to_le_bytes());
        }
        match usage {
            Usage::Unknown => {}
            Usage::IdleSeconds(seconds) => {
                buffer.push(opcode::IDLE);
                write_number(buffer, seconds.into());
            }
            Usage::Frequency(counter) => buffer.extend_from_slice(&[opcode::FREQUENCY, counter]),
        }
        buffer.push(form.type_byte());
        // Keys are short, and have little in common with themselves.
        write_bytes(buffer, view.key(), None);
    }

    #[inline]
    pub(super) fn string(&mut self, buffer: &mut Vec<u8>, string: StrRef<'_>) {
        let item = match string {
            StrRef::Bytes(text) => Item::Text(text),
            StrRef::Int(n) => Item::Int(n),
            StrRef::Blob(text) => Item::Text(text),
        };
        write_text(buffer, item, self.compressor.as_mut());
    }
}

/// The file, and the state of the bytes after the head.
struct Out<W> {
    file: W,
    sum: Option<Sum>,
    len: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Out<W> {
    /// Takes all bytes of the buffer.
    fn take(&mut self, buffer: &mut Vec<u8>) {
        self.put(buffer);
        buffer.clear();
    }

    /// Writes bytes. An error is kept until a caller can report it.
    fn put(&mut self, bytes: &[u8]) {
        if let Some(sum) = &mut self.sum {
            sum.update(bytes);
        }
        self.len += bytes.len() as u64;
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err();
        }
    }
}

impl<W> FileWriter<W> {
    /// The version that functions came with.
    pub const FUNCTIONS_VERSION: u16 = 10;
}

impl<W: Write> FileWriter<W> {
    /// Begins an empty file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(file: W, options: FileOptions) -> Result<Self, FileError> {
        Self::begin(file, KeyEncoder::new(options))
    }

    /// Begins what nothing can be put at the beginning of later, such as a socket: its version is
    /// the lowest, or `least` if that is newer. Readers know a newer form by its type byte.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn unseekable(file: W, options: FileOptions, least: u16) -> Result<Self, FileError> {
        let mut encoder = KeyEncoder::new(options);
        encoder.version = encoder.version.max(least);
        Self::begin(file, encoder)
    }

    fn begin(mut file: W, encoder: KeyEncoder) -> Result<Self, FileError> {
        let begun = encoder.version;
        file.write_all(&head(begun))?;
        let sum = encoder.options.sum.then(Sum::new);
        let out = Out { file, sum, len: 0, failed: None };
        Ok(FileWriter { out, buffer: Vec::with_capacity(2 * CHUNK), encoder, begun })
    }

    /// Writes an auxiliary field, which describes the file or its writer.
    pub fn aux(&mut self, name: &str, text: &[u8]) {
        self.buffer.push(opcode::AUX);
        write_bytes(&mut self.buffer, name.as_bytes(), None);
        write_bytes(&mut self.buffer, text, None);
    }

    /// Writes auxiliary state: function libraries as Redis does, other state as the auxiliary field
    /// [`AUX_STATE`] + name, which Redis skips. Files for servers without functions
    /// ([`FileOptions::version_max`]) have no libraries.
    pub fn aux_state(&mut self, name: &[u8], form: &[u8]) {
        if name != FUNCTIONS {
            self.buffer.push(opcode::AUX);
            write_bytes(&mut self.buffer, &[AUX_STATE, name].concat(), None);
            return write_bytes(&mut self.buffer, form, None);
        }
        if self.encoder.options.version_max >= Self::FUNCTIONS_VERSION {
            texts(form).into_iter().flatten().for_each(|text| self.function(text));
        }
    }

    /// The source of a library of functions.
    pub fn function(&mut self, source: &[u8]) {
        self.encoder.version = self.encoder.version.max(Self::FUNCTIONS_VERSION);
        self.buffer.push(opcode::FUNCTION);
        write_bytes(&mut self.buffer, source, self.encoder.compressor.as_mut());
    }

    /// Selects the database of the following keys, and states about how many keys it has, with and
    /// without expiry.
    pub fn database(&mut self, db: u16, keys: u64, volatile: u64) {
        self.select(db);
        self.buffer.push(opcode::SIZES);
        write_number(&mut self.buffer, keys);
        write_number(&mut self.buffer, volatile);
    }

    /// The keys that follow are of this database.
    pub fn select(&mut self, db: u16) {
        self.buffer.push(opcode::SELECT);
        write_number(&mut self.buffer, db.into());
    }

    /// A key with its value, as they are at a moment in Unix milliseconds, and how it was used.
    ///
    /// # Errors
    /// If the file cannot be written, or not the value.
    pub fn key(&mut self, view: View<'_>, usage: Usage, now_ms: i64) -> Result<(), FileError> {
        let mut spill = |buffer: &mut Vec<u8>| self.out.take(buffer);
        let buffer = &mut self.buffer;
        self.encoder.encode(buffer, view, usage, now_ms, Some(&mut spill))?;
        self.pass_on()
    }

    /// Keys that were encoded already, each of a database that the run names. The run is empty
    /// then.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn run(&mut self, run: &mut KeyRun) -> Result<(), FileError> {
        self.encoder.version = self.encoder.version.max(run.version());
        self.out.take(&mut self.buffer);
        let mut begin = 0;
        for (end, blob) in run.blobs.drain(..) {
            self.out.put(&run.bytes[begin..end]);
            begin = end;
            self.encoder.string(&mut self.buffer, StrRef::Blob(&blob));
            self.out.take(&mut self.buffer);
        }
        self.out.put(&run.bytes[begin..]);
        run.clear();
        self.pass_on()
    }

    /// Writes the value of a run's last key in chunks: `feed` is called again as long as it returns
    /// that there is more, and the bytes written in between go to the file.
    ///
    /// # Errors
    /// If the file cannot be written, or what `feed` says.
    pub fn value(
        &mut self,
        head: &mut KeyRun,
        form: Form,
        shape: Shape,
        feed: &mut dyn FnMut(&mut Writer<'_>) -> Result<bool, Error>,
    ) -> Result<(), FileError> {
        self.run(head)?;
        let mut spill = |buffer: &mut Vec<u8>| self.out.take(buffer);
        let compressor = self.encoder.compressor.take();
        let mut writer =
            Writer::compressing(&mut self.buffer, form, compressor).spilling(&mut spill);
        writer.begin(shape).map_err(FileError::Value)?;
        while feed(&mut writer).map_err(FileError::Value)? {
            writer.pass_on();
        }
        self.encoder.compressor = writer.end().map_err(FileError::Value)?;
        self.pass_on()
    }

    fn pass_on(&mut self) -> Result<(), FileError> {
        if self.buffer.len() >= CHUNK {
            self.out.take(&mut self.buffer);
        }
        match self.out.failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Bytes of the file so far.
    pub fn written(&self) -> u64 {
        HEAD_LEN as u64 + self.out.len + self.buffer.len() as u64
    }

    /// Writes the rest. The head has, or will have, `version`.
    fn end(&mut self, version: u16) -> Result<(), FileError> {
        self.buffer.push(opcode::END);
        self.out.take(&mut self.buffer);
        let Out { sum, len, .. } = &self.out;
        let sum = sum.as_ref().map_or(0, |sum| join(checksum(&head(version)), sum.value(), *len));
        match self.out.failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(self.out.file.write_all(&sum.to_le_bytes())?),
        }
    }

    /// Completes a file begun with [`FileWriter::unseekable`], and returns it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish_unseekable(mut self) -> Result<W, FileError> {
        self.end(self.begun)?;
        Ok(self.out.file)
    }
}

impl<W: Write + Seek> FileWriter<W> {
    /// Completes the file and gives it back; nothing is flushed to the disk by that.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<W, FileError> {
        let version = self.encoder.version;
        self.end(version)?;
        let mut file = self.out.file;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&head(version))?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }
}
