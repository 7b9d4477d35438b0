//! Pace of a command that is part of a transaction or a script.

use crate::fail::Outcome;

/// A transaction or a script that runs for long.
pub(crate) trait Whole {
    /// Returns the error that has ended it.
    fn ended(&self) -> Option<&'static str>;

    /// Prepares the next command; false if it has ended. `wrote`: commands before this one may have
    /// changed something; `writes`: this one may.
    fn begin_call(&self, wrote: bool, writes: bool) -> bool;

    /// Notes the end of a command. `wrote`: it, or another before, may have changed something.
    fn end_call(&self, wrote: bool);

    /// Serves others, and checks whether to end. Called now and then while a command of it works
    /// and has changed nothing yet.
    ///
    /// # Errors
    /// If the command is to end.
    fn look(&self) -> Outcome;

    /// Serves others. Called now and then while a command of it changes something.
    fn breathe(&self);

    /// Returns `Executor::units_here` outside of it.
    fn units_before(&self) -> usize;
}
