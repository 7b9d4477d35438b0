//! Pace of looks at a running script: after a number of instructions, or of steps of work, which is
//! less the longer those of this script take. Most instructions take some nanoseconds, but a script
//! can make one take a thousand times as long: Lua 5.1 hashes only a few bytes of a long string, so
//! that any number of strings can have one hash, and each new string is compared with all of
//! them.

use std::time::{Duration, Instant};

/// Instructions or steps between two looks, at most.
const MOST: u32 = 100_000;

/// Minimum number of instructions between two looks, for a script with long instructions.
const LEAST: u32 = 64;

/// Processor time between two looks that is too much.
const TOO_LONG: Duration = Duration::from_millis(50);

/// Processor time between two looks that is aimed at then.
const WANTED: Duration = Duration::from_millis(10);

/// Time that may pass before the processor's time is read, which takes longer than a look.
const UNREAD: Duration = Duration::from_millis(1);

/// Pace of looks at a script.
#[derive(Debug)]
pub(crate) struct Pace {
    most: u32,
    /// The time of the last reading of the processor's time, and that time.
    read: Option<(Instant, Duration)>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { most: MOST, read: None }
    }
}

impl Pace {
    /// Instructions or steps until the next look, at most.
    #[inline]
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Notes that a look begins; answers when.
    pub fn note(&mut self) -> Instant {
        let now = Instant::now();
        match self.read {
            Some((at, _)) if now.duration_since(at) < UNREAD => {}
            read => {
                let used = processor_time();
                if let Some((_, before)) = read {
                    self.adapt(used.saturating_sub(before));
                }
                self.read = Some((now, used));
            }
        }
        now
    }

    /// Leaves out the work since the last look.
    pub fn skip(&mut self) {
        self.read = None;
    }

    /// Leaves out the work since `begun`, which was not the script's own.
    pub fn leave_out(&mut self, begun: Instant) {
        let now = Instant::now();
        if now.duration_since(begun) > UNREAD {
            self.read = Some((now, processor_time()));
        }
    }

    /// Long instructions may come again at any time: the pace stays until the script is over.
    fn adapt(&mut self, taken: Duration) {
        if taken > TOO_LONG {
            let share = WANTED.as_secs_f64() / taken.as_secs_f64();
            self.most = ((f64::from(self.most) * share) as u32).max(LEAST);
        }
    }
}

/// Processor time that this thread has used.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is there for the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) } != 0;
    if failed {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_instructions_take_the_more_often_a_script_is_looked_at() {
        let mut pace = Pace::default();
        for taken in [Duration::ZERO, UNREAD, TOO_LONG] {
            pace.adapt(taken);
            assert_eq!(pace.most(), MOST);
        }
        pace.adapt(WANTED * 100);
        assert_eq!(pace.most(), MOST / 100);
        pace.adapt(Duration::from_secs(60));
        assert_eq!(pace.most(), LEAST);
        pace.adapt(Duration::ZERO);
        assert_eq!(pace.most(), LEAST);
    }
}
