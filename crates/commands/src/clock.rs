//! Durations of commands, measured by the processor's time-stamp counter if that is reliable.

use petrel_keyspace::time_stamp::{counter, counter_is_steady};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A point in time, in units of [`Clock`].
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Tick(u64);

impl Tick {
    /// Later than any other tick.
    pub const NEVER: Tick = Tick(u64::MAX);
    /// Earlier than any other tick.
    pub const LONG_AGO: Tick = Tick(0);

    /// The tick as a number that grows with time, for an atomic.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Creates a tick from its number.
    pub fn of(number: u64) -> Self {
        Tick(number)
    }
}

/// Converts ticks to durations.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds per tick as a 32.32 fixed-point number.
    scale: u64,
    counter: bool,
}

impl Clock {
    /// The process's clock; the first call takes a few milliseconds to calibrate it.
    pub fn get() -> Self {
        static CLOCK: OnceLock<Clock> = OnceLock::new();
        *CLOCK.get_or_init(Clock::calibrate)
    }

    /// Now.
    #[inline]
    pub fn now(self) -> Tick {
        if self.counter {
            return Tick(counter());
        }
        Tick(monotonic_nanos())
    }

    /// Nanoseconds between two ticks; 0 if the second is not later.
    #[inline]
    pub fn nanos(self, from: Tick, to: Tick) -> u64 {
        let ticks = to.0.saturating_sub(from.0);
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    /// Returns the tick `nanos` nanoseconds before another.
    pub fn before(self, tick: Tick, nanos: u64) -> Tick {
        let ticks = (u128::from(nanos) << 32) / u128::from(self.scale.max(1));
        Tick(tick.0.saturating_sub(u64::try_from(ticks).unwrap_or(u64::MAX)))
    }

    /// The tick of an instant in the near future; [`Tick::LONG_AGO`] if it has passed.
    pub fn tick_at(self, moment: Instant) -> Tick {
        let now = self.now();
        let nanos = moment.saturating_duration_since(Instant::now()).as_nanos();
        let ticks = (nanos << 32) / u128::from(self.scale.max(1));
        match u64::try_from(ticks) {
            Ok(0) => Tick::LONG_AGO,
            Ok(ticks) => Tick(now.0.saturating_add(ticks)),
            Err(_) => Tick::NEVER,
        }
    }

    fn calibrate() -> Self {
        let plain = Clock { scale: 1 << 32, counter: false };
        if !counter_is_steady() {
            return plain;
        }
        let counting = Clock { counter: true, ..plain };
        let (start, from) = (Instant::now(), counting.now());
        std::thread::sleep(Duration::from_millis(5));
        let (nanos, ticks) = (start.elapsed().as_nanos(), counting.now().0.saturating_sub(from.0));
        if ticks == 0 {
            return plain;
        }
        Clock { scale: ((nanos << 32) / u128::from(ticks)) as u64, counter: true }
    }
}

/// Nanoseconds since the first call.
pub(crate) fn monotonic_nanos() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
