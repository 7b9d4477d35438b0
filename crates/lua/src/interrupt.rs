//! Work that is done outside of a script's own instructions, which are counted by the interpreter:
//! so that a script can be ended whatever it does.

use crate::extra::interrupted;
use crate::vm::{Raise, Stack};

/// Bytes of a text that are walked over between two counts: a step each for as many as one takes
/// time for.
pub(crate) const PIECE: usize = 32 << 10;
pub(crate) const BYTES_PER_STEP: usize = 16;

/// Length from which on Lua hashes only part of a string, and the steps counted for making one: it
/// is compared with those of equal hash.
pub(crate) const HASHED_WHOLE: usize = 32;
pub(crate) const STRING_STEPS: usize = 8;

/// Counts work that was done, or is about to be, outside of the script's own instructions.
///
/// # Errors
/// If the script is to end.
pub(crate) fn count_work(stack: Stack, steps: usize) -> Result<(), Raise> {
    let steps = u32::try_from(steps).unwrap_or(u32::MAX);
    let left = stack.with(|extra| extra.steps.checked_sub(steps));
    match left {
        Some(left) => {
            stack.with(|extra| extra.steps = left);
            Ok(())
        }
        None => match ask(stack) {
            Some(steps) => {
                stack.with(|extra| extra.steps = steps);
                Ok(())
            }
            None => Err(ended(stack)),
        },
    }
}

/// Whether to go on, and for how many steps: one takes about as long as an instruction of a script.
pub(crate) fn ask(stack: Stack) -> Option<u32> {
    look(stack).then(|| stack.with(|extra| extra.memory.pace.most()))
}

/// Calls the server's hook during a script. Returns whether the script may continue.
pub(crate) fn look(stack: Stack) -> bool {
    let begun = stack.with(|extra| extra.memory.pace.note());
    let goes_on = interrupted(stack).is_none();
    stack.with(|extra| extra.memory.pace.leave_out(begun));
    goes_on
}

/// The error of a script that is to end.
pub(crate) fn ended(stack: Stack) -> Raise {
    Raise::Plain(interrupted(stack).unwrap_or_default())
}

/// Batches the counting of many small steps.
pub(crate) struct Tally {
    stack: Stack,
    steps: usize,
}

impl Tally {
    /// Steps that are counted together.
    const AT_ONCE: usize = 256;

    /// Creates a tally for a function called by the script.
    pub fn new(stack: Stack) -> Self {
        Tally { stack, steps: 0 }
    }

    /// Counts this many more.
    ///
    /// # Errors
    /// If the script is to end.
    #[inline]
    pub fn add(&mut self, steps: usize) -> Result<(), Raise> {
        self.steps += steps;
        if self.steps < Self::AT_ONCE {
            return Ok(());
        }
        count_work(self.stack, std::mem::take(&mut self.steps))
    }

    /// Counts one more.
    ///
    /// # Errors
    /// If the script is to end.
    #[inline]
    pub fn step(&mut self) -> Result<(), Raise> {
        self.add(1)
    }
}
