//! Locking of the keyspace: one lock per stripe, and a reader-biased exclusive lock over all
//! stripes.
//!
//! ```text
//!  slot.enter() ─▶ lock stripes ascending ─▶ execute ─▶ unlock ─▶ ... ─▶ slot.exit()
//!       │                   │
//!       │                   └─ signalled by an exclusive claimant that holds the stripe:
//!       │                      unlock, exit, enter, again
//!       └─ sleeps while an exclusive intent is set
//!
//!  token ─▶ set the intent in every other slot ─▶ signal the held stripes
//!        ─▶ wait until all are quiescent ─▶ exclusive ─▶ clear the intents
//! ```
//!
//! * Every thread that uses the keyspace owns a [`ThreadSlot`]: a word on its own cache line.
//!   Entering and leaving are one atomic operation each on that word, so ordinary commands share no
//!   write.
//! * A command holds its stripes exclusively. [`ThreadSlot::lock`] takes one,
//!   [`ThreadSlot::lock_many`] several, all or nothing, in ascending order; hence commands alone
//!   cannot deadlock.
//! * A thread that [releases](StripeLock::release) a stripe on which others sleep may take it back,
//!   or wake one later. A thread that has waited for long has the lock
//!   [reserved](StripeLock::wake).
//! * An exclusive owner ([`ThreadSlot::exclusive`]) has the whole keyspace and needs no stripe
//!   lock. Only the holder of the script token may set the intent, so there is one claimant at a
//!   time, and claimants cannot deadlock each other.
//! * The holder of the token may claim the keyspace while it holds stripes
//!   ([`ThreadSlot::exclusive_holding`]). Threads that wait for these stripes have executed nothing
//!   of their command yet: the claimant signals them, and they release their stripes and leave. No
//!   other active thread can be waiting for the claimant, since waiters for the token sleep while
//!   inactive.
//!
//! No progress depends on a time limit; the one in the stripe's wait only bounds the cost of a
//! claimant that names fewer stripes than it holds.

mod exclusive_lock;
mod futex;
mod patience;
mod stripe;
mod thread_slot;

pub use exclusive_lock::{ExclusiveLock, Others, Survey};
pub use patience::{Forever, Patience};
pub use stripe::{StripeLock, Waiters};
pub use thread_slot::{Signal, ThreadSlot};
