//! Transactions.

use crate::bitset::bits;
use crate::spec::{Arg, Group, KeySpec, Meta};

/// `MULTI`.
pub const MULTI: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, FAST, ALLOW_BUSY),
    stated_categories: bits!(Categories: TRANSACTION),
    summary: "Starts a transaction.",
    ..Meta::new("multi", 1, Group::Transactions, "1.2.0")
};

/// `EXEC`.
pub const EXEC: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, SKIP_SLOWLOG),
    stated_categories: bits!(Categories: TRANSACTION),
    summary: "Runs the commands of a transaction.",
    complexity: "That of the commands in the transaction",
    ..Meta::new("exec", 1, Group::Transactions, "1.2.0")
};

/// `DISCARD`.
pub const DISCARD: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, FAST, ALLOW_BUSY),
    stated_categories: bits!(Categories: TRANSACTION),
    summary: "Drops a transaction.",
    complexity: "O(N) where N is the number of queued commands",
    ..Meta::new("discard", 1, Group::Transactions, "2.0.0")
};

/// `WATCH`.
pub const WATCH: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, FAST, ALLOW_BUSY),
    stated_categories: bits!(Categories: TRANSACTION),
    keys: &[KeySpec::range(1, -1, 1, bits!(KeyFlags: RO))],
    summary: "Lets the next transaction fail if one of the keys changes before it runs.",
    complexity: "O(N) where N is the number of keys",
    arguments: &[Arg::key("key").many()],
    ..Meta::new("watch", -2, Group::Transactions, "2.2.0")
};

/// `UNWATCH`.
pub const UNWATCH: Meta = Meta {
    flags: bits!(Flags: NOSCRIPT, LOADING, STALE, FAST, ALLOW_BUSY),
    stated_categories: bits!(Categories: TRANSACTION),
    summary: "Forgets the keys watched by the connection.",
    ..Meta::new("unwatch", 1, Group::Transactions, "2.2.0")
};
