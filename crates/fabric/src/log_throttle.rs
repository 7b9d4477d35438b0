//! Lines of the log that say the same again and again.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How often a line that says the same again is written, with how often that was.
const REPEAT: Duration = Duration::from_secs(60);

/// Different lines that are remembered for that.
const REPEATS_MAX: usize = 1024;

/// A line that was written.
struct Repeated {
    at: Instant,
    /// How often it was not, since then.
    unsaid: u64,
}

/// Lines that were written lately.
#[derive(Default)]
pub(crate) struct Lines(Mutex<HashMap<String, Repeated>>);

impl Lines {
    /// What is to be written of a line that is to be written now, if anything is.
    pub fn note(&self, line: String, now: Instant) -> Option<String> {
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
                1 => format!("{line} (once more since this was last said)"),
                _ => format!("{line} ({unsaid} times more since this was last said)"),
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
        let (lines, begin) = (Lines::default(), Instant::now());
        let say = |line: &str, after| lines.note(line.into(), begin + Duration::from_secs(after));
        assert_eq!((say("a", 0).as_deref(), say("b", 0).as_deref()), (Some("a"), Some("b")));
        assert!((1..6).all(|at| say("a", at * 10).is_none()) && say("b", 50).is_none());
        let said = say("a", 60).expect("a minute is over");
        assert_eq!(said, "a (5 times more since this was last said)");
        let said = say("b", 60).expect("a minute is over");
        assert_eq!(said, "b (once more since this was last said)");
        assert!(say("a", 119).is_none());
        assert_eq!(say("b", 300).as_deref(), Some("b"), "a new beginning");
    }
}
