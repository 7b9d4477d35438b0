//! Names of fields that a connection has prepared for `HIMPORT SET`.

use std::collections::HashMap;

/// What a connection has prepared: fields, by the name of their set.
#[derive(Debug, Default)]
pub struct Fieldsets {
    pub(super) sets: HashMap<Box<[u8]>, Fieldset>,
    /// Bytes of all names.
    pub(super) bytes: usize,
}

/// Fields in their own order, each with the place of its value.
#[derive(Debug)]
pub(super) struct Fieldset {
    pub fields: Box<[(Box<[u8]>, usize)]>,
    pub bytes: usize,
}

/// What a field takes beside its name.
pub(super) const FIELD_OVERHEAD: usize = size_of::<(Box<[u8]>, usize)>();

impl Fieldsets {
    /// Bytes that they take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let removed = self.sets.remove(name);
        self.bytes -= removed.as_ref().map_or(0, |set| set.bytes);
        removed.is_some()
    }
}
