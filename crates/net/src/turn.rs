//! Giving the processor away once before blocking.
//!
//! A driver that has sent its answers and finds nothing else to do is about to sleep, to be woken
//! by the first request that comes: one wake-up and two switches of the processor for as few
//! requests as were there at that moment. Where the clients run on the same processors, they do
//! better if they are let run first: they leave all their requests at once and wake no process, and
//! the driver goes on with them without ever having slept. Once requests come together they keep
//! doing so, for their answers leave together.
//!
//! Where that does not help it is left alone for a while: twice as many turns each time that
//! nothing came of it. A process that has nothing to ask may keep the processor for a time slice,
//! and requests that come meanwhile wait. So the time is counted for which the processor was away
//! for longer than clients need: more than a [`SHARE`]th of all time is not lost in this way, but
//! for [`LOST_MAX`], since a virtual machine is stopped for as long by its host now and then.

use std::time::{Duration, Instant};

/// Time that clients may take before they let the driver run again.
const LONG: Duration = Duration::from_millis(1);
/// Part of the time that may be lost to processes that are no clients.
const SHARE: u32 = 256;
/// Time that may be lost at once.
const LOST_MAX: Duration = Duration::from_millis(4);
/// Maximum time between two tries.
const REST_MAX: Duration = Duration::from_secs(4);
/// Turns without a try, at most, as a power of two.
const VAIN_MAX: u32 = 10;

/// Decides whether a driver gives the processor away, and remembers what came of it.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Turns that pass before the next try.
    skip: u32,
    /// Tries in a row of which nothing came.
    vain: u32,
    /// Time lost to other processes that was not repaid by time without tries.
    lost: Duration,
    /// End of the last try.
    ended: Option<Instant>,
    resting_until: Option<Instant>,
}

/// Period for which the processor was given away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absence {
    begin: Instant,
    end: Instant,
}

impl Absence {
    pub(crate) fn duration(self) -> Duration {
        self.end - self.begin
    }
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

    /// Gives the processor away; says from when to when.
    pub(crate) fn give(&mut self) -> Absence {
        let begin = Instant::now();
        std::thread::yield_now();
        Absence { begin, end: Instant::now() }
    }

    /// Takes note of what came of it: whether there is something to do now.
    pub(crate) fn took(&mut self, absence: Absence, found: bool) {
        let end = absence.end;
        let since = self.ended.map_or(Duration::ZERO, |ended| end.saturating_duration_since(ended));
        let lost = absence.duration().saturating_sub(LONG);
        self.lost = (self.lost.saturating_sub(since / SHARE) + lost).min(REST_MAX / SHARE);
        self.ended = Some(end);
        let rests = self.lost >= LOST_MAX;
        self.resting_until = rests.then(|| end + self.lost * SHARE);
        if found {
            self.vain = 0;
        } else {
            self.skip = 1 << self.vain;
            self.vain = (self.vain + 1).min(VAIN_MAX);
        }
    }

    /// Gives the processor away, if that is offered, to threads that prepare work for this one.
    pub(crate) fn give_to_threads(&mut self) {
        if self.is_offered() {
            let absence = self.give();
            self.took(absence, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes an absence that begins some time after the last one.
    fn absence(turn: &Turn, after: Duration, away: Duration) -> Absence {
        let begin = turn.ended.unwrap_or_else(Instant::now) + after;
        Absence { begin, end: begin + away }
    }

    fn take(turn: &mut Turn, after: Duration, away: Duration, found: bool) {
        turn.took(absence(turn, after, away), found);
    }

    #[test]
    fn what_is_in_vain_is_tried_ever_less() {
        let mut turn = Turn::default();
        let mut tries = 0;
        for _ in 0..5_000 {
            if turn.is_offered() {
                tries += 1;
                take(&mut turn, Duration::ZERO, Duration::ZERO, false);
            }
        }
        assert!((10..20).contains(&tries), "{tries}");
        while !turn.is_offered() {}
        take(&mut turn, Duration::ZERO, Duration::ZERO, true);
        assert!(turn.is_offered());
        take(&mut turn, Duration::ZERO, Duration::ZERO, false);
        assert!(!turn.is_offered());
        assert!(turn.is_offered());
    }

    #[test]
    fn a_host_that_stops_the_machine_now_and_then_is_no_busy_process() {
        let mut turn = Turn::default();
        for _ in 0..100 {
            take(&mut turn, Duration::from_secs(1), LOST_MAX, true);
            assert_eq!(turn.resting_until, None);
        }
    }

    #[test]
    fn beside_busy_processes_tries_are_rare() {
        for away in [2 * LONG, 4 * LONG, 12 * LONG] {
            let mut turn = Turn::default();
            let (mut lost, mut passed) = (Duration::ZERO, Duration::ZERO);
            for _ in 0..1000 {
                let rest = turn.resting_until.map_or(LONG, |until| until - turn.ended.unwrap());
                assert!(rest <= REST_MAX);
                take(&mut turn, rest, away, true);
                (lost, passed) = (lost + away, passed + rest + away);
            }
            assert!(lost < passed / 64, "{away:?}: {lost:?} of {passed:?}");
            // They are gone.
            take(&mut turn, REST_MAX, LONG / 2, true);
            take(&mut turn, REST_MAX, LONG / 2, true);
            assert_eq!(turn.resting_until, None);
        }
    }
}
