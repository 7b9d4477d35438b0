//! Yielding the processor to threads that are about to submit commands.

use std::time::{Duration, Instant};

/// A process that keeps the processor for longer is no thread about to submit a command.
const LONG: Duration = Duration::from_millis(1);
/// Duration without yields after a long absence, in absences; doubled by each further one.
const REST: u32 = 8;
/// Maximum duration without yields.
const REST_MAX: Duration = Duration::from_secs(2);

/// Decides whether a thread yields before it writes. Beside busy processes a yield costs a time
/// slice of each of them; it is tried ever more rarely then.
#[derive(Debug, Default)]
pub(super) struct Yielding {
    resting_until: Option<Instant>,
    rest: Duration,
}

impl Yielding {
    /// Whether to yield now.
    pub fn is_offered(&self) -> bool {
        self.resting_until.is_none_or(|until| Instant::now() >= until)
    }

    /// Takes note of how long the processor was away.
    pub fn took(&mut self, away: Duration) {
        if away < LONG {
            *self = Yielding::default();
            return;
        }
        self.rest = (2 * self.rest).max(REST * away).min(REST_MAX);
        self.resting_until = Instant::now().checked_add(self.rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_busy_processes_yields_get_rare() {
        let mut yielding = Yielding::default();
        yielding.took(LONG / 2);
        assert!(yielding.is_offered());
        yielding.took(Duration::from_secs(1));
        assert!(!yielding.is_offered());
        assert_eq!(yielding.rest, REST_MAX);
        yielding.took(LONG / 2);
        assert!(yielding.is_offered());
        let rests = [0; 9].map(|_| {
            yielding.took(2 * LONG);
            yielding.rest
        });
        assert_eq!(rests[..3], [2 * REST * LONG, 4 * REST * LONG, 8 * REST * LONG]);
        assert_eq!(rests[8], REST_MAX);
    }
}
