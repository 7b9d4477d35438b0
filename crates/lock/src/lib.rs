//! Who may touch the keyspace, and when: one lock per stripe, and one gate around them all.
//!
//! ```text
//!  pass.enter() ─▶ lock stripes ascending ─▶ execute ─▶ unlock ─▶ ... ─▶ pass.exit()
//!       │                   │
//!       │                   └─ nudged by a raiser holding the stripe: unlock, exit, enter, again
//!       └─ sleeps while an exclusive intent is up
//!
//!  token ─▶ flag every other slot ─▶ nudge the stripes held ─▶ wait till all are out ─▶ exclusive
//!        ─▶ clear the flags
//! ```
//!
//! * Every thread that uses the keyspace owns a [`Pass`]: a word on its own cache line. Entering
//!   and leaving are one atomic operation each on that word, so ordinary commands share no write.
//! * A command holds its stripes exclusively. [`Pass::lock`] takes one, [`Pass::lock_many`]
//!   several, all or nothing, in ascending order; hence commands alone cannot deadlock.
//! * An exclusive owner ([`Pass::exclusive`]) has the whole keyspace and needs no stripe lock. Only
//!   the holder of the script token may raise the intent, so there is one raiser at a time and
//!   raisers cannot deadlock each other.
//! * The holder of the token may raise while it holds stripes ([`Pass::exclusive_holding`]). Others
//!   who wait for those stripes have executed nothing yet: the raiser nudges them, they release
//!   what they hold and leave. No other thread inside can be waiting for the raiser: waiters for
//!   the token sleep outside the gate.
//!
//! No progress depends on a time limit; the one in the stripe's wait only bounds the cost of a
//! raiser that names fewer stripes than it holds.

mod futex;
mod gate;
mod pass;
mod stripe;

pub use gate::{Gate, Survey};
pub use pass::{Pass, Signal};
pub use stripe::StripeLock;
