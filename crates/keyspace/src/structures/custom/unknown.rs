//! Values and changes of types that this build does not know. They are kept as they came, for a
//! build that knows them: through the log, its rewrites, RDB files and replication.
//!
//! ```text
//! value of an unknown module      ─┐                    ┌─ unchanged: as it came
//! value of an unknown type byte   ─┼─▶ Unknown at a key ─┤
//! change of an unknown type       ─┘                    └─ else: module 'petrel-up', the value and
//!                                                          its later changes, in order
//! ```
//!
//! Commands answer `WRONGTYPE`, unless they serve all types (`DEL`, `RENAME`, `COPY`, `EXPIRE`).

use super::number::{Bytes, Malformed, put, put_bytes};
use super::{
    Chunk, CustomChange, CustomValue, Held, LoadError, Loaded, MALFORMED_CHANGE, ModuleWriter,
    RdbForm, Shown, TakeChunk, TypeNumber, ValueDigest, ValueType,
};
use std::sync::Arc;

/// The module number of a value with changes: `petrel-up`, version 1.
pub const CHANGED_MODULE: u64 = 0xa5eb_6b7a_5fae_a401;

/// Bytes that freeing takes about as long for as for an element of a collection.
const PAGE_BYTES: usize = 4096;

/// The row of all values of unknown types.
pub static UNKNOWN: ValueType = ValueType {
    number: TypeNumber::UNKNOWN,
    name: "unknown",
    shown: Shown::MODULE,
    form: RdbForm::Module {
        numbers: &[CHANGED_MODULE],
        of: |held| held.get::<Unknown>().map_or(CHANGED_MODULE, |unknown| unknown.kept.module()),
    },
    rdb_version: 9,
    head: |_, _| {},
    body: |held, out| {
        if let Some(unknown) = held.get::<Unknown>() {
            unknown.kept.write(out);
        }
    },
    // Its parts are read one by one: they may be of types that are known by now.
    load: |_, _| Err(LoadError::Unsupported("the value is of an unknown type")),
    apply: |_, _| Err(MALFORMED_CHANGE),
    event: |_| None,
    commands: None,
    digest,
    copy_effort: |held| held.get::<Unknown>().map_or(0, |unknown| unknown.kept.len() / PAGE_BYTES),
    sizes: None,
};

/// The encoded value that later changes belong to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Encoded {
    /// Type byte of RDB; 0 if the first that came was a change.
    pub type_byte: u8,
    /// Module number, for the type byte of modules.
    pub module: Option<u64>,
    /// The bytes of the value; of a module's, its parts.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Default)]
struct Kept {
    value: Encoded,
    /// Each: number of the type, operation, body behind its length.
    changes: Vec<u8>,
}

impl Kept {
    fn len(&self) -> usize {
        self.value.bytes.len() + self.changes.len()
    }

    /// The module number under which it is written.
    fn module(&self) -> u64 {
        match self.value.module {
            Some(module) if self.changes.is_empty() => module,
            _ => CHANGED_MODULE,
        }
    }

    fn write(&self, out: &mut dyn ModuleWriter) {
        let Encoded { type_byte, module, bytes } = &self.value;
        if self.module() != CHANGED_MODULE {
            return out.encoded(bytes);
        }
        out.unsigned((*type_byte).into());
        out.unsigned(module.unwrap_or(0));
        out.text(bytes);
        let mut changes = Bytes(&self.changes);
        // It has whole changes only.
        while let Ok((of, CustomChange { op, body })) = take_change(&mut changes) {
            out.unsigned(of.0.into());
            out.unsigned(op.into());
            out.text(body);
        }
    }
}

fn take_change<'a>(bytes: &mut Bytes<'a>) -> Result<(TypeNumber, CustomChange<'a>), Malformed> {
    let (of, op) = (TypeNumber(bytes.byte()?), bytes.byte()?);
    Ok((of, CustomChange { op, body: bytes.bytes()? }))
}

/// A value of a type that this build does not know, with all later changes.
#[derive(Default)]
pub struct Unknown {
    /// Shared with the snapshot that is being taken.
    kept: Arc<Kept>,
    /// The value as it was, for a snapshot that has yet to get it.
    taking: Option<Arc<Kept>>,
    /// Tail of a snapshot; at no key.
    is_tail: bool,
}

impl Unknown {
    /// A value as it was read.
    pub fn loaded(value: Encoded) -> Loaded {
        let kept = Arc::new(Kept { value, changes: Vec::new() });
        Loaded::Boxed(Box::new(Unknown { kept, ..Unknown::default() }))
    }

    /// Appends a change.
    pub(crate) fn push(&mut self, of: TypeNumber, change: CustomChange<'_>) {
        let changes = &mut Arc::make_mut(&mut self.kept).changes;
        changes.extend_from_slice(&[of.0, change.op]);
        put_bytes(changes, change.body);
    }
}

impl CustomValue for Unknown {
    fn memory_usage(&self) -> usize {
        let Kept { value, changes } = &*self.kept;
        size_of::<Self>() + size_of::<Kept>() + value.bytes.capacity() + changes.capacity()
    }

    fn free_effort(&self) -> usize {
        self.kept.len() / PAGE_BYTES
    }

    fn duplicate(&self) -> Box<dyn CustomValue> {
        Box::new(Unknown { kept: Arc::new(Kept::clone(&self.kept)), ..Unknown::default() })
    }

    fn begin_snapshot(&mut self) {
        self.taking = Some(self.kept.clone());
    }

    fn next_chunk(&mut self, take: &mut TakeChunk<'_>) -> bool {
        if self.is_tail {
            let _ = take(&Whole(&self.kept));
        }
        false
    }

    fn take_tail(&mut self) -> Option<Box<dyn CustomValue>> {
        let kept = self.taking.take()?;
        Some(Box::new(Unknown { kept, taking: None, is_tail: true }))
    }
}

struct Whole<'a>(&'a Kept);

impl std::fmt::Debug for Whole<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} and {} bytes of changes", self.0.value, self.0.changes.len())
    }
}

impl Chunk for Whole<'_> {
    fn write(&self, out: &mut dyn ModuleWriter) {
        self.0.write(out);
    }
}

fn digest(held: Held<'_>, digest: &mut dyn ValueDigest) {
    let Some(Unknown { kept, .. }) = held.get() else { return };
    let mut head = Vec::new();
    put(&mut head, kept.value.type_byte.into());
    put(&mut head, kept.value.module.unwrap_or(0));
    [&head, &kept.value.bytes, &kept.changes].into_iter().for_each(|part| digest.ordered(part));
}
