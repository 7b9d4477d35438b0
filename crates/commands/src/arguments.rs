//! What the options of several commands have in common: expiry, counts of random elements, cursors.

pub(crate) mod expiry;
pub(crate) mod random_count;
pub(crate) mod scan;
