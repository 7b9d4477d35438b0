//! Rate-limited log lines about frequent events.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Counts an event between log lines.
#[derive(Debug, Default)]
pub struct Recurring {
    /// Time of the last line, in Unix milliseconds.
    told_ms: AtomicI64,
    untold: AtomicU64,
}

/// Times that the log did not tell of; as text what to add to a line, nothing if there were none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Untold(pub u64);

impl Recurring {
    /// Records the event at `now_ms`. Returns the number of events without a line if one is due, at
    /// most once in `pause_ms`.
    pub fn happened(&self, now_ms: i64, pause_ms: i64) -> Option<Untold> {
        let told = self.told_ms.load(Relaxed);
        let is_due = now_ms.saturating_sub(told) >= pause_ms;
        if is_due && self.told_ms.compare_exchange(told, now_ms, Relaxed, Relaxed).is_ok() {
            return Some(Untold(self.untold.swap(0, Relaxed)));
        }
        self.untold.fetch_add(1, Relaxed);
        None
    }
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, " ({more} more since the last warning)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_is_told() {
        let logins = Recurring::default();
        assert_eq!(logins.happened(5000, 1000), Some(Untold(0)));
        assert_eq!(logins.happened(5500, 1000), None);
        assert_eq!(logins.happened(5999, 1000), None);
        assert_eq!(logins.happened(6000, 1000), Some(Untold(2)));
        assert_eq!(logins.happened(9000, 1000), Some(Untold(0)));
        assert_eq!(Untold(0).to_string(), "");
        assert_eq!(Untold(2).to_string(), " (2 more since the last warning)");
    }
}
