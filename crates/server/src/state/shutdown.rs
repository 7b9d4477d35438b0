//! Shutdown by a signal or `SHUTDOWN`: the conditions that prevent it, and its cancellation.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

/// Between two looks whether a stop that waits may go on.
pub(crate) const LOOK: Duration = Duration::from_millis(2);

/// A stop that was asked for.
#[derive(Debug, Default)]
pub struct Closing {
    /// Whether it was asked for, and has not begun.
    pub(crate) requested: AtomicBool,
    /// Whether it has begun: it can no longer be aborted, but may fail.
    begun: AtomicBool,
    /// The data is to be saved before.
    pub(crate) saves: AtomicBool,
}

/// The server goes on: something stands against its stop. Why is in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotStopping;

impl Closing {
    /// Asks for a stop; false if one was asked for already.
    pub fn request(&self) -> bool {
        !self.begun.load(Relaxed) && !self.requested.swap(true, Relaxed)
    }

    /// Begins the stop; false if it was aborted.
    pub(crate) fn begin(&self) -> bool {
        // Before the request goes, so that a client which waits for the stop sees one of both.
        self.begun.store(true, Relaxed);
        let begins = self.requested.swap(false, AcqRel);
        self.begun.store(begins, Relaxed);
        begins
    }

    /// Ends a stop that has failed, or was aborted.
    pub(crate) fn give_up(&self) {
        self.begun.store(false, Relaxed);
    }

    /// Whether the server may stop: a stop was asked for or has begun.
    pub fn is_pending(&self) -> bool {
        self.requested.load(Acquire) || self.begun.load(Relaxed)
    }

    /// Whether a stop was asked for, which has not begun.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Relaxed)
    }

    /// Takes the wish back; false if there is none, or none any more.
    pub fn abort(&self) -> bool {
        let aborted = self.requested.swap(false, Relaxed);
        if aborted {
            tracing::warn!("Shutdown manually aborted: the server continues");
        }
        aborted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_taken_back_once() {
        let closing = Closing::default();
        assert!(!closing.abort());
        assert!(closing.request() && !closing.request() && closing.is_requested());
        assert!(closing.abort());
        assert!(!closing.abort() && !closing.is_requested());
    }

    #[test]
    fn a_stop_is_pending_until_it_fails() {
        let closing = Closing::default();
        assert!(!closing.is_pending() && !closing.begin() && !closing.is_pending());
        assert!(closing.request() && closing.is_pending());
        assert!(closing.begin() && closing.is_pending() && !closing.is_requested());
        assert!(!closing.abort() && !closing.request());
        closing.give_up();
        assert!(!closing.is_pending() && closing.request());
    }
}
