//! Limits of one command of this family: steps, and memory beside the document.

use super::Asked;
use crate::fail::{Fail, Outcome};
use petrel_json::Work;
use petrel_keyspace::{Handle, Transient};

/// Bytes that a command may hold beside the document, where no memory limit says less.
const HELD_MAX: usize = 512 << 20;

/// The rest of a command's budget.
pub(super) struct Budget {
    pub work: Work,
    pub memory: Memory,
}

/// Memory that a command holds while it runs. It is counted as used, and the limit holds for it.
pub(super) struct Memory(Option<Transient>);

impl Budget {
    /// The budget of a command with this path. One that finds one value at most holds little.
    pub fn of(ks: &Handle, path: Asked<'_>) -> Self {
        let memory = if path.is_plain() { None } else { Some(ks.transient()) };
        Budget { work: Work::default(), memory: Memory(memory) }
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
