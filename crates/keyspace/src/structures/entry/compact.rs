//! Entries of compact hashes: a reference to a schema, and the packed values.

use super::layout::{KIND_MASK, SUB_SHIFT};
use super::{Entry, Kind};
use crate::structures::form::Form;
use crate::structures::hash::schema::Schema;
use crate::structures::sizes::PACKED_MAX;
use petrel_heap::Cache;
use std::mem::ManuallyDrop;
use std::sync::Arc;

impl Entry {
    /// Builds the entry of a compact hash from its packed values, at most [`PACKED_MAX`] bytes, one
    /// for each name of the schema and in their order. `beyond`: it has passed the thresholds of
    /// `OBJECT ENCODING`.
    pub fn compact_hash(
        cache: &mut Cache,
        key: &[u8],
        schema: Arc<Schema>,
        beyond: bool,
        values: &[u8],
        expiry: Option<i64>,
        access: u32,
    ) -> Self {
        debug_assert!(values.len() <= PACKED_MAX);
        let kind = if beyond { Kind::CompactBeyond } else { Kind::Compact };
        let sub = Form::Hash.packed_bits() << SUB_SHIFT;
        let (entry, fixed) = Self::build(cache, key, kind, sub, values, expiry, access);
        // SAFETY: the block has a fixed part of the kind's type, 8-byte aligned and not initialised
        // yet. The entry owns the reference until `release_schema`.
        unsafe { fixed.cast::<*const Schema>().write(Arc::into_raw(schema)) };
        entry
    }

    /// Whether it holds a compact hash.
    #[inline]
    pub fn is_compact(self) -> bool {
        matches!(self.kind(), Kind::Compact | Kind::CompactBeyond)
    }

    /// The schema and the packed values of a compact hash.
    #[inline]
    pub fn compact<'a>(self) -> Option<(&'a Schema, &'a [u8])> {
        // SAFETY: the fixed part of a compact entry is one aligned pointer, which came from an
        // `Arc` of which the entry owns a reference. See the type's invariant for the lifetime.
        self.is_compact().then(|| unsafe { (&*self.schema_at().read(), self.inline()) })
    }

    /// A further reference to the schema of a compact hash.
    pub fn schema(self) -> Option<Arc<Schema>> {
        let (schema, _) = self.compact()?;
        let schema = ManuallyDrop::new(
            // SAFETY: the pointer came from an `Arc` of which the entry keeps its reference.
            unsafe { Arc::from_raw(std::ptr::from_ref(schema)) },
        );
        Some(Arc::clone(&schema))
    }

    /// Gives back the reference of a compact hash before its block is freed.
    pub(super) fn release_schema(self) {
        // SAFETY: the entry owned the reference, and is not read any more.
        unsafe { drop(Arc::from_raw(self.schema_at().read())) };
    }

    /// Marks a compact hash as beyond the thresholds of `OBJECT ENCODING`.
    pub fn set_compact_beyond(self) {
        debug_assert!(self.is_compact());
        // Both kinds have the same layout.
        self.set_meta(self.meta() & !KIND_MASK | Kind::CompactBeyond as u8);
    }

    fn schema_at(self) -> *mut *const Schema {
        self.fixed_at(Kind::Compact).cast()
    }
}
