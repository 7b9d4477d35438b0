//! The time by which replies expire: the kernel's coarse clock, which is read without a system call
//! and moves once per timer tick (1 to 10 ms).

use std::sync::LazyLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_getres, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::MonotonicCoarse;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// The expiry of what does not expire.
pub(super) const NEVER: u64 = u64::MAX;

/// Nanoseconds since some moment of the past, at most a tick behind.
#[inline]
pub(super) fn now() -> u64 {
    nanoseconds(clock_gettime(CLOCK))
}

/// Expiry time of a reply requested at `began` with `left` time to live: at most two ticks early,
/// never late.
pub(super) fn expiry(began: u64, left: Duration) -> u64 {
    static TICK: LazyLock<u64> = LazyLock::new(|| nanoseconds(clock_getres(CLOCK)));
    let left = u64::try_from(left.as_nanos()).unwrap_or(NEVER);
    began.saturating_add(left.saturating_sub(*TICK))
}

fn nanoseconds(time: rustix::time::Timespec) -> u64 {
    // The clock begins at 0 when the machine does.
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
