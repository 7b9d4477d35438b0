//! Redis's thresholds for the `OBJECT ENCODING` of a hash.

use crate::structures::limits::TypeLimits;

/// The thresholds, read once per command.
#[derive(Clone, Copy)]
pub(crate) struct HashThresholds {
    entries: usize,
    value: usize,
    /// Fields from which a hash becomes compact when it is written; 0 for never.
    template_min: usize,
}

impl HashThresholds {
    pub fn of(limits: &TypeLimits) -> Self {
        let size = |limit: i64| usize::try_from(limit).unwrap_or(0);
        HashThresholds {
            entries: size(limits.hash_max_listpack_entries()),
            value: size(limits.hash_max_listpack_value()),
            template_min: size(limits.hash_min_template_entries()),
        }
    }

    /// Whether a hash is a hash table after a command has set these fields, which may contain
    /// duplicates or present ones.
    pub fn passed_by(&self, pairs: &[&[u8]]) -> bool {
        pairs.len() / 2 > self.entries || pairs.iter().any(|text| text.len() > self.value)
    }

    /// Whether a text makes a hash a hash table.
    pub fn passed_by_text(&self, text: &[u8]) -> bool {
        text.len() > self.value
    }

    /// Whether hashes become compact when they are written.
    #[inline]
    pub fn shares(&self) -> bool {
        self.template_min > 0
    }

    /// Whether a hash of `len` fields does.
    pub fn shares_at(&self, len: usize, limits: &TypeLimits) -> bool {
        let max = usize::try_from(limits.hash_max_template_entries()).unwrap_or(0);
        self.shares() && len >= self.template_min && is_within(len, max)
    }

    /// Whether a hash of `len` fields is a hash table.
    pub fn passed_at(&self, len: usize) -> bool {
        len > self.entries
    }
}

/// Whether a number of fields is within a maximum; 0 for none.
pub(crate) fn is_within(len: usize, max: usize) -> bool {
    max == 0 || len <= max
}
