//! Keys that are encoded apart from the file, and written into it together.

use super::file::opcode;
use super::length::write_number;
use super::{FileError, FileOptions, Form, KeyEncoder, Writer};
use bytes::Bytes;
use petrel_keyspace::custom::type_of_number;
use petrel_keyspace::{StrRef, Usage, View};

/// Strings from this length on are neither copied nor compressed when they are added, but when the
/// run is written.
const BLOB_MIN: usize = 64 * 1024;

/// Records of keys. The thread that adds one holds its stripe, so what takes long is left for
/// later.
pub struct KeyRun {
    /// The database of the last key.
    db: Option<u16>,
    encoder: KeyEncoder,
    pub(super) bytes: Vec<u8>,
    /// Long strings, each with the place in `bytes` at which it belongs.
    pub(super) blobs: Vec<(usize, Bytes)>,
    /// Bytes of `blobs`.
    blob_bytes: usize,
}

impl KeyRun {
    /// An empty run for a file that is written so.
    pub fn new(options: FileOptions) -> Self {
        KeyRun {
            db: None,
            encoder: KeyEncoder::new(options),
            bytes: Vec::new(),
            blobs: Vec::new(),
            blob_bytes: 0,
        }
    }

    /// The lowest version that knows every form that was written.
    pub fn version(&self) -> u16 {
        self.encoder.version()
    }

    /// Bytes that wait to be written.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.blob_bytes
    }

    /// Bytes that it takes without growing.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds a key of a database: see [`KeyEncoder::encode`].
    ///
    /// # Errors
    /// If the value exceeds the limits of the format.
    pub fn add(
        &mut self,
        db: u16,
        view: View<'_>,
        usage: Usage,
        now_ms: i64,
    ) -> Result<(), FileError> {
        self.select(db);
        match view.string() {
            Ok(StrRef::Blob(blob)) if blob.len() >= BLOB_MIN => {
                self.encoder.head(&mut self.bytes, view, usage, Form::String);
                self.blobs.push((self.bytes.len(), blob.clone()));
                self.blob_bytes += blob.len();
                Ok(())
            }
            _ => self.encoder.encode(&mut self.bytes, view, usage, now_ms, None),
        }
    }

    /// Adds a key, and the head of its value if that is of a value type. The rest of the value
    /// follows in this form:
    /// [`FileWriter::value`](super::FileWriter::value).
    pub fn head(&mut self, db: u16, view: View<'_>, usage: Usage, form: Form) {
        self.select(db);
        self.encoder.head(&mut self.bytes, view, usage, form);
        if let (Form::Custom(number), Some(held)) = (form, view.held())
            && let Some(of) = type_of_number(number)
        {
            Writer::new(&mut self.bytes, form, false).custom_head(of, held);
        }
    }

    fn select(&mut self, db: u16) {
        if self.db != Some(db) {
            self.bytes.push(opcode::SELECT);
            write_number(&mut self.bytes, db.into());
            self.db = Some(db);
        }
    }

    /// Removes the keys. Later ones do not rely on earlier output.
    pub(super) fn clear(&mut self) {
        self.db = None;
        self.bytes.clear();
        self.blobs.clear();
        self.blob_bytes = 0;
    }
}
