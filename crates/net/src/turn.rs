//! Giving the processor away once before blocking.
//!
//! A driver that has sent its answers and finds nothing else to do is about to sleep, to be woken
//! by the first request that comes: one wake-up and two switches of the processor for as few
//! requests as were there at that moment. Where the clients run on the same processors, they do
//! better if they are let run first: they leave all their requests at once and wake no process, and
//! the driver goes on with them without ever having slept. Once requests come together they keep
//! doing so, for their answers leave together.
//!
//! Yields that find nothing pause for twice as many turns each time. If the processor was away for
//! long, a busy process had it while requests waited; yields then pause for a multiple of that
//! time, which each further long absence doubles and each short one halves. The first long absence
//! is no sign of such a process: a host stops its virtual machines for as long now and then.

use std::time::{Duration, Instant};

/// A process that keeps the processor for longer is no client.
const LONG: Duration = Duration::from_millis(1);
/// Shortest pause after long absences, in absences; it doubles with each further one.
const REST: u32 = 8;
/// Longest pause.
const REST_MAX: Duration = Duration::from_secs(2);
/// Turns without a try, at most, as a power of two.
const VAIN_MAX: u32 = 10;

/// Decides whether a driver gives the processor away, and remembers what came of it.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Turns that pass before the next try.
    skip: u32,
    /// Tries in a row of which nothing came.
    vain: u32,
    /// The last try took long.
    was_long: bool,
    resting_until: Option<Instant>,
    /// The last pause after long absences, halved by each short one.
    rest: Duration,
}

impl Turn {
    /// Whether the processor is to be given away before the driver blocks.
    #[inline]
    pub(crate) fn is_offered(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.resting_until.is_none_or(|until| Instant::now() >= until)
    }

    /// Gives the processor away; says how long it was away.
    pub(crate) fn give(&mut self) -> Duration {
        let start = Instant::now();
        std::thread::yield_now();
        start.elapsed()
    }

    /// Takes note of what came of it: whether there is something to do now.
    pub(crate) fn took(&mut self, away: Duration, found: bool) {
        let is_long = away >= LONG;
        self.resting_until = None;
        if !is_long {
            self.rest /= 2;
        } else if self.was_long || self.rest >= LONG {
            self.rest = (2 * self.rest).max(away.saturating_mul(REST)).min(REST_MAX);
            self.resting_until = Instant::now().checked_add(self.rest);
        }
        self.was_long = is_long;
        if found {
            self.vain = 0;
        } else {
            self.skip = 1 << self.vain;
            self.vain = (self.vain + 1).min(VAIN_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_vain_is_tried_ever_less() {
        let mut turn = Turn::default();
        let mut tries = 0;
        for _ in 0..5_000 {
            if turn.is_offered() {
                tries += 1;
                turn.took(Duration::ZERO, false);
            }
        }
        assert!((10..20).contains(&tries), "{tries}");
        while !turn.is_offered() {}
        turn.took(Duration::ZERO, true);
        assert!(turn.is_offered());
        turn.took(Duration::ZERO, false);
        assert!(!turn.is_offered());
        assert!(turn.is_offered());
    }

    #[test]
    fn who_keeps_the_processor_is_not_given_it_again_soon() {
        let mut turn = Turn::default();
        turn.took(Duration::from_secs(1000), true);
        assert!(turn.is_offered(), "once may have been the host");
        turn.took(Duration::from_secs(1000), true);
        assert!(!turn.is_offered());
        assert_eq!(turn.rest, REST_MAX);
        turn.took(Duration::ZERO, true);
        assert!(turn.is_offered());
        turn.took(LONG, true);
        assert!(!turn.is_offered(), "the last pause is not forgotten");
        assert_eq!(turn.rest, REST_MAX);
        (0..12).for_each(|_| turn.took(Duration::ZERO, true));
        turn.took(LONG, true);
        assert!(turn.is_offered(), "now it is");
        turn.took(Duration::ZERO, true);
        let rests = [0; 9].map(|_| {
            turn.took(10 * LONG, true);
            turn.rest
        });
        assert!(rests[0] < LONG);
        assert_eq!(rests[1..4], [10 * REST, 20 * REST, 40 * REST].map(|pauses| pauses * LONG));
        assert_eq!(rests[8], REST_MAX);
    }
}
