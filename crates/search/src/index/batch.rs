//! Changes of a thread: copied under the locks of their keys, applied after the unlock.

use crate::index::contents::{Applying, Change, ChangeKind, Extent, FieldChange};
use crate::index::coverage::View;
use crate::index::fence::Fence;
use std::ops::Range;
use std::time::Instant;

/// Bytes above which the buffers of a batch are freed after use.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Copied changes.
#[derive(Debug, Default)]
pub struct Batch {
    changes: Vec<Copied>,
    fields: Vec<FieldChange>,
    bytes: Vec<u8>,
}

/// A copied change of a document in one index.
#[derive(Debug)]
struct Copied {
    /// Position of the index in the view.
    index: u32,
    key: Range<usize>,
    hash: u64,
    sequence: u64,
    kind: CopiedKind,
}

#[derive(Debug)]
enum CopiedKind {
    Remove,
    Expire(Option<i64>),
    Put { extent: Extent, expiry: Option<i64>, fields: Range<usize> },
}

/// A document during the copy of its fields.
#[derive(Debug)]
pub struct Copying<'b> {
    batch: &'b mut Batch,
}

/// The key of a change.
#[derive(Clone, Copy, Debug)]
pub struct ChangedKey<'k> {
    /// The key.
    pub key: &'k [u8],
    /// Hash of the key.
    pub hash: u64,
    /// Position of the change among those of the key.
    pub sequence: u64,
}

impl Batch {
    /// Whether nothing was copied.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn add(&mut self, index: u32, changed: ChangedKey<'_>, kind: CopiedKind) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(changed.key);
        let key = start..self.bytes.len();
        let ChangedKey { hash, sequence, .. } = changed;
        self.changes.push(Copied { index, key, hash, sequence, kind });
    }

    /// Copies the removal of a document.
    pub fn remove(&mut self, index: u32, changed: ChangedKey<'_>) {
        self.add(index, changed, CopiedKind::Remove);
    }

    /// Copies the expiry of a key.
    pub fn expire(&mut self, index: u32, changed: ChangedKey<'_>, expiry: Option<i64>) {
        self.add(index, changed, CopiedKind::Expire(expiry));
    }

    /// Begins the copy of a document's fields.
    pub fn put(
        &mut self,
        index: u32,
        changed: ChangedKey<'_>,
        extent: Extent,
        expiry: Option<i64>,
    ) -> Copying<'_> {
        let start = self.fields.len();
        self.add(index, changed, CopiedKind::Put { extent, expiry, fields: start..start });
        Copying { batch: self }
    }

    /// Applies all changes to their indexes, those of one index at once; returns the growth in
    /// bytes.
    pub fn apply(&mut self, view: &View, fence: &Fence) -> i64 {
        let mut grown = 0;
        if view.indexes.len() > 1 {
            self.changes.sort_by_key(|change| change.index);
        }
        let mut rest = &self.changes[..];
        while let Some(first) = rest.first() {
            let len = rest.iter().take_while(|change| change.index == first.index).count();
            let (own, others) = rest.split_at(len);
            rest = others;
            let Some(index) = view.indexes.get(first.index as usize) else { continue };
            let start = Instant::now();
            if let Some((mut contents, applying)) = index.live.begin(fence) {
                let before = contents.footprint() as i64;
                for copied in own {
                    let in_flight = fence.is_in_flight(copied.hash, 1);
                    contents.apply(&self.change(copied), Applying { in_flight, ..applying });
                }
                grown += contents.footprint() as i64 - before;
            }
            let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            index.live.nanos.fetch_add(nanos, std::sync::atomic::Ordering::Relaxed);
        }
        self.clear();
        grown
    }

    fn change(&self, copied: &Copied) -> Change<'_> {
        let kind = match &copied.kind {
            CopiedKind::Remove => ChangeKind::Remove,
            CopiedKind::Expire(expiry) => ChangeKind::Expire(*expiry),
            CopiedKind::Put { extent, expiry, fields } => ChangeKind::Put {
                extent: *extent,
                expiry: *expiry,
                fields: &self.fields[fields.clone()],
                bytes: &self.bytes,
            },
        };
        let key = &self.bytes[copied.key.clone()];
        Change { key, hash: copied.hash, sequence: copied.sequence, kind }
    }

    fn clear(&mut self) {
        self.changes.clear();
        self.fields.clear();
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES_MAX || self.changes.capacity() > KEPT_BYTES_MAX / 64 {
            *self = Batch::default();
        }
    }
}

impl Copying<'_> {
    /// Copies a field: its value, none if the document lacks it.
    pub fn field(&mut self, number: u16, value: Option<&[u8]>, expiry: Option<i64>) {
        let batch = &mut *self.batch;
        let value = value.map(|value| {
            let start = batch.bytes.len();
            batch.bytes.extend_from_slice(value);
            start..batch.bytes.len()
        });
        self.push(FieldChange { number, value, expiry });
    }

    /// Copies a field that `copy` appends to bytes; it returns false if the document lacks it.
    pub fn field_with(&mut self, number: u16, copy: &mut dyn FnMut(&mut Vec<u8>) -> bool) {
        let bytes = &mut self.batch.bytes;
        let start = bytes.len();
        let value = copy(bytes).then_some(start..bytes.len());
        self.push(FieldChange { number, value, expiry: None });
    }

    fn push(&mut self, field: FieldChange) {
        let batch = &mut *self.batch;
        batch.fields.push(field);
        if let Some(Copied { kind: CopiedKind::Put { fields, .. }, .. }) = batch.changes.last_mut()
        {
            fields.end = batch.fields.len();
        }
    }
}
