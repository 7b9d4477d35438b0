//! Options that several commands share: expiry, counts of random elements, cursors.

pub(crate) mod cursor;
pub(crate) mod expiry;
pub(crate) mod random_count;
pub(crate) mod scan;
