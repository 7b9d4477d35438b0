//! Field names that a connection has prepared for `HIMPORT SET`.

use petrel_keyspace::FieldNames;
use std::collections::HashMap;

/// Prepared field sets of a connection, by name.
#[derive(Debug, Default)]
pub struct Fieldsets {
    pub(super) sets: HashMap<Box<[u8]>, Fieldset>,
    /// Bytes of all names.
    pub(super) bytes: usize,
}

/// Field names.
#[derive(Debug)]
pub(super) struct Fieldset {
    pub names: FieldNames,
    pub bytes: usize,
}

/// Size of a field without its name.
pub(super) const FIELD_OVERHEAD: usize = size_of::<(Box<[u8]>, u32)>();

impl Fieldsets {
    /// Approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let removed = self.sets.remove(name);
        self.bytes -= removed.as_ref().map_or(0, |set| set.bytes);
        removed.is_some()
    }
}
