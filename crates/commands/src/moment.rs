//! Circumstances of a request that may defer or reject it.

use petrel_table::bitset;

bitset! {
    /// Origin of a request and state of its thread, as far as the session and the server do not
    /// show it.
    Moment: u8 {
        /// Sent by a client, now or before it was blocked. A pause applies to it.
        CLIENT = 0 "client",
        /// The worker can lend its driver and its connections to a script.
        LENDS = 1 "lends",
        /// A slow script keeps the thread out of the keyspace.
        KEPT_OUT = 2 "kept_out",
        /// Called by a script.
        IN_SCRIPT = 3 "in_script",
        /// The script is read-only.
        READ_ONLY = 4 "read_only",
        /// The script has changed nothing yet, and memory was exhausted when it began.
        NO_MEMORY = 5 "no_memory",
        /// The script has written, so later state changes of the server do not end it.
        HAS_WRITTEN = 6 "has_written",
        /// The script may use keys of one hash slot only.
        ONE_SLOT = 7 "one_slot",
    }
}
