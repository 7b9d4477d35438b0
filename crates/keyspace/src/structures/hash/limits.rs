//! Redis's thresholds for the `OBJECT ENCODING` of a hash.

use crate::structures::limits::TypeLimits;

/// The thresholds, read once per command.
#[derive(Clone, Copy)]
pub(crate) struct HashThresholds {
    entries: usize,
    value: usize,
}

impl HashThresholds {
    pub fn of(limits: &TypeLimits) -> Self {
        let size = |limit: i64| usize::try_from(limit).unwrap_or(0);
        HashThresholds {
            entries: size(limits.hash_max_listpack_entries()),
            value: size(limits.hash_max_listpack_value()),
        }
    }

    /// Whether a hash is a hash table after a command has set these fields, which may contain
    /// duplicates or present ones.
    pub fn passed_by(&self, pairs: &[&[u8]]) -> bool {
        pairs.len() / 2 > self.entries || pairs.iter().any(|text| text.len() > self.value)
    }

    /// Whether a hash of `len` fields is a hash table.
    pub fn passed_at(&self, len: usize) -> bool {
        len > self.entries
    }
}
