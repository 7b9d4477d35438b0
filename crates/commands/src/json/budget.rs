//! Limits of one JSON command: steps, and memory beside the document.

use super::Asked;
use crate::fail::{Fail, Outcome};
use petrel_json::Work;
use petrel_keyspace::{Handle, Transient};

/// Maximum bytes that a command may hold beside the document, unless the memory limit allows less.
const HELD_MAX: usize = 512 << 20;

/// Remaining budget of a command.
pub(super) struct Budget {
    pub work: Work,
    pub memory: Memory,
}

/// Memory that a command holds while it runs. It counts as used memory, and is subject to the
/// memory limit.
pub(super) struct Memory(Option<Transient>);

impl Budget {
    /// Budget of a command with this path. With at most one match, it holds too little memory to
    /// count.
    pub fn of(ks: &Handle, path: Asked<'_>) -> Self {
        let memory = if path.is_plain() { None } else { Some(ks.transient()) };
        Budget { work: Work::default(), memory: Memory(memory) }
    }

    /// Budget of a command with at most one match.
    pub fn of_one_value() -> Self {
        Budget { work: Work::default(), memory: Memory(None) }
    }

    /// The budget of a command with several paths or keys.
    pub fn of_many(ks: &Handle) -> Self {
        Budget { work: Work::default(), memory: Memory(Some(ks.transient())) }
    }
}

impl Memory {
    /// Holds this many bytes from now on.
    #[inline]
    pub fn hold(&mut self, bytes: usize) -> Outcome {
        if bytes > HELD_MAX {
            return Err(super::FOUND_TOO_MUCH);
        }
        let fits = self.0.as_mut().is_none_or(|held| held.fits(bytes));
        if fits { Ok(()) } else { Err(Fail::OUT_OF_MEMORY) }
    }
}
