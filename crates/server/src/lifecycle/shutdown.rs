//! Stopping: what a signal or `SHUTDOWN` asks for, what stands against it, and how it is taken
//! back.

mod stop;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Between two looks whether a stop that waits may go on.
const LOOK: Duration = Duration::from_millis(2);

/// A stop that was asked for and has not begun.
#[derive(Debug, Default)]
pub struct Closing {
    requested: AtomicBool,
}

/// The server goes on: something stands against its stop. Why is in the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotStopping;

impl Closing {
    /// Asks for a stop.
    pub fn request(&self) {
        self.requested.store(true, Relaxed);
    }

    /// Takes the wish back; false if there is none, or none any more.
    pub fn abort(&self) -> bool {
        let aborted = self.requested.swap(false, Relaxed);
        if aborted {
            tracing::warn!("Shutdown manually aborted: the server goes on");
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
        closing.request();
        assert!(closing.abort());
        assert!(!closing.abort());
    }
}
