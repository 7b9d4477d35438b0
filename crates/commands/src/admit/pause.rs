//! Pauses of client commands: `CLIENT PAUSE`, shutdown while replicas lag, failover.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reason of a pause.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PauseReason {
    /// `CLIENT PAUSE`.
    Command = 0,
    /// The server is about to stop, and replicas have not acknowledged every write.
    Shutdown = 1,
    /// `FAILOVER`.
    Failover = 2,
}

impl PauseReason {
    /// Name in `INFO`.
    pub fn name(self) -> &'static str {
        match self {
            PauseReason::Command => "client_pause",
            PauseReason::Shutdown => "shutdown_in_progress",
            PauseReason::Failover => "failover_in_progress",
        }
    }
}

/// A pause for one reason.
#[derive(Clone, Copy, Debug)]
struct Interval {
    until_ms: i64,
    writes_only: bool,
}

/// Pauses in force, at most one for each reason.
#[derive(Debug, Default)]
pub struct Pause {
    /// End of the last pause, in Unix milliseconds.
    until_ms: AtomicI64,
    /// By [`PauseReason`].
    held: Mutex<[Option<Interval>; 3]>,
}

impl Pause {
    /// Pauses commands until `until_ms` (Unix time), or only writes if `writes_only`. If a pause
    /// for the same reason is in force, the later end and the stricter scope apply.
    pub fn start(&self, reason: PauseReason, now_ms: i64, until_ms: i64, writes_only: bool) {
        let mut held = self.lock();
        let place = &mut held[reason as usize];
        let before = place.filter(|before| now_ms < before.until_ms);
        *place = Some(Interval {
            until_ms: before.map_or(until_ms, |before| before.until_ms.max(until_ms)),
            writes_only: writes_only && before.is_none_or(|before| before.writes_only),
        });
        self.publish(&held);
    }

    /// Ends the pause for a reason.
    pub fn end(&self, reason: PauseReason) {
        let mut held = self.lock();
        held[reason as usize] = None;
        self.publish(&held);
    }

    fn publish(&self, held: &[Option<Interval>; 3]) {
        let last = held.iter().flatten().map(|held| held.until_ms).max();
        self.until_ms.store(last.unwrap_or(0), Relaxed);
    }

    /// Whether a pause is in force.
    #[inline]
    pub fn is_active(&self, now_ms: i64) -> bool {
        now_ms < self.until_ms.load(Relaxed)
    }

    /// Whether a pause is in force, and if so whether it applies to writes only.
    #[inline]
    pub fn active(&self, now_ms: i64) -> Option<bool> {
        if self.is_active(now_ms) { Some(self.spares_reads(now_ms)) } else { None }
    }

    #[cold]
    fn spares_reads(&self, now_ms: i64) -> bool {
        let held = self.lock();
        held.iter().flatten().all(|held| held.writes_only || held.until_ms <= now_ms)
    }

    /// End of the last pause, in Unix milliseconds.
    pub fn until_ms(&self) -> i64 {
        self.until_ms.load(Relaxed)
    }

    /// Reason of the pause that ends last; `None` if no pause is in force.
    pub fn reason(&self, now_ms: i64) -> Option<PauseReason> {
        use PauseReason::*;
        let held = self.lock();
        let in_force =
            |reason: &PauseReason| held[*reason as usize].map_or(0, |held| held.until_ms);
        let longest = [Command, Shutdown, Failover].into_iter().max_by_key(in_force)?;
        Some(longest).filter(|reason| in_force(reason) > now_ms)
    }

    fn lock(&self) -> MutexGuard<'_, [Option<Interval>; 3]> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PauseReason::*;

    #[test]
    fn pauses_for_several_reasons_end_one_by_one() {
        let pause = Pause::default();
        assert_eq!((pause.active(10), pause.reason(10)), (None, None));
        pause.start(Command, 10, 100, false);
        pause.start(Command, 10, 50, true);
        assert_eq!((pause.active(99), pause.active(100)), (Some(false), None));
        pause.start(Failover, 10, i64::MAX, true);
        assert_eq!((pause.active(99), pause.active(100)), (Some(false), Some(true)));
        assert_eq!(pause.reason(20), Some(Failover));
        pause.end(Failover);
        assert_eq!((pause.active(99), pause.reason(99)), (Some(false), Some(Command)));
        // An expired pause does not affect the next one.
        pause.start(Command, 200, 300, true);
        assert_eq!(pause.active(250), Some(true));
        pause.end(Command);
        assert_eq!(pause.active(250), None);
    }
}
