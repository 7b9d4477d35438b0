//! Throttle for repeated log lines.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Minimum interval between equal lines.
const REPEAT: Duration = Duration::from_secs(60);

/// Maximum number of distinct lines remembered.
const REPEATS_MAX: usize = 1024;

/// State of a line that was logged.
struct Repeated {
    at: Instant,
    /// Number of suppressed repetitions since.
    unsaid: u64,
}

/// Recently logged lines.
#[derive(Default)]
pub(crate) struct LogThrottle(Mutex<HashMap<String, Repeated>>);

impl LogThrottle {
    /// The line to log now, perhaps with the number of suppressed repetitions; none to suppress it.
    pub fn admit(&self, line: String, now: Instant) -> Option<String> {
        let mut repeated = self.0.lock();
        repeated.retain(|_, last| now.duration_since(last.at) < REPEAT * 2);
        if let Some(last) = repeated.get_mut(&line) {
            if now.duration_since(last.at) < REPEAT {
                last.unsaid += 1;
                return None;
            }
            let unsaid = std::mem::take(&mut last.unsaid);
            last.at = now;
            return Some(match unsaid {
                0 => line,
                1 => format!("{line} (repeated once since)"),
                _ => format!("{line} (repeated {unsaid} times since)"),
            });
        }
        if repeated.len() >= REPEATS_MAX {
            return None;
        }
        repeated.insert(line.clone(), Repeated { at: now, unsaid: 0 });
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_repeated_once_a_minute_with_a_count() {
        let (lines, begin) = (LogThrottle::default(), Instant::now());
        let say = |line: &str, after| lines.admit(line.into(), begin + Duration::from_secs(after));
        assert_eq!((say("a", 0).as_deref(), say("b", 0).as_deref()), (Some("a"), Some("b")));
        assert!((1..6).all(|at| say("a", at * 10).is_none()) && say("b", 50).is_none());
        let said = say("a", 60).expect("a minute is over");
        assert_eq!(said, "a (repeated 5 times since)");
        let said = say("b", 60).expect("a minute is over");
        assert_eq!(said, "b (repeated once since)");
        assert!(say("a", 119).is_none());
        assert_eq!(say("b", 300).as_deref(), Some("b"), "a new beginning");
    }
}
