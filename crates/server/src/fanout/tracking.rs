//! Client-side caching (`CLIENT TRACKING`): connections get invalidations of keys that they have
//! read, or of names with a prefix.
//!
//! ```text
//!  keyspace   which connections have read a key, or track its prefix: collected per command
//!  here       Host::invalidate takes them, with the number of the writer: what goes to one reader
//!             directly is encoded at once
//!             send_invalidations, once the outermost command is over: a push to each other
//!             reader, or to the target of its REDIRECT
//!             send_broadcasts, at the end of the turn: one push for each prefix with those of its
//!             keys that the reader's user may read
//!  push       to the connection itself behind its reply, to others many at a time
//!             (`invalidation_queue.rs`)
//! ```
//!
//! A read is remembered under the lock under which it was made, and its reply is in the
//! connection's output before any push is. So the invalidation of every change comes behind the
//! value that the change made stale.

mod broadcasts;
mod delivery;
