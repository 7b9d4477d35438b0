//! Shutdown by a signal or `SHUTDOWN`: the conditions that prevent it, and its cancellation.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Between two looks whether a stop that waits may go on.
pub(crate) const LOOK: Duration = Duration::from_millis(2);

/// A stop that was asked for and has not begun.
#[derive(Debug, Default)]
pub struct Closing {
    pub(crate) requested: AtomicBool,
    /// The data is to be saved before.
    pub(crate) saves: AtomicBool,
}

/// The server goes on: something stands against its stop. Why is in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotStopping;

impl Closing {
    /// Asks for a stop; false if one was asked for already.
    pub fn request(&self) -> bool {
        !self.requested.swap(true, Relaxed)
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
}
