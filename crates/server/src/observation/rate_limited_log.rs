//! Rate-limited log lines about frequent events.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Counts an event between log lines.
#[derive(Debug, Default)]
pub struct RateLimited {
    /// Time of the last line, in Unix milliseconds.
    logged_ms: AtomicI64,
    suppressed: AtomicU64,
}

/// Times that the log did not tell of; as text what to add to a line, nothing if there were none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suppressed(pub u64);

impl RateLimited {
    /// Records the event at `now_ms`. Returns the number of events without a line if one is due, at
    /// most once in `pause_ms`.
    pub fn happened(&self, now_ms: i64, pause_ms: i64) -> Option<Suppressed> {
        let logged = self.logged_ms.load(Relaxed);
        let is_due = now_ms.saturating_sub(logged) >= pause_ms;
        if is_due && self.logged_ms.compare_exchange(logged, now_ms, Relaxed, Relaxed).is_ok() {
            return Some(Suppressed(self.suppressed.swap(0, Relaxed)));
        }
        self.suppressed.fetch_add(1, Relaxed);
        None
    }
}

impl fmt::Display for Suppressed {
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
        let logins = RateLimited::default();
        assert_eq!(logins.happened(5000, 1000), Some(Suppressed(0)));
        assert_eq!(logins.happened(5500, 1000), None);
        assert_eq!(logins.happened(5999, 1000), None);
        assert_eq!(logins.happened(6000, 1000), Some(Suppressed(2)));
        assert_eq!(logins.happened(9000, 1000), Some(Suppressed(0)));
        assert_eq!(Suppressed(0).to_string(), "");
        assert_eq!(Suppressed(2).to_string(), " (2 more since the last warning)");
    }
}
