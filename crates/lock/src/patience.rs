//! Patience: whether a thread that waits for a lock may give up.

use std::time::Duration;

/// Maximum interval at which a waiting thread checks whether it is to give up, or whether there is
/// an intent, in case the claimant did not name the stripe.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(1);

/// Condition under which a thread stops waiting for a lock. A closure gives up once it returns
/// true; [`Forever`] never does, and costs nothing.
pub trait Patience {
    /// Interval at which the condition is checked; `None` if it is never true.
    const CHECK_EVERY: Option<Duration>;

    /// Whether the thread gives up.
    fn is_over(&self) -> bool;
}

/// Endless patience.
#[derive(Clone, Copy, Debug)]
pub struct Forever;

impl Patience for Forever {
    const CHECK_EVERY: Option<Duration> = None;

    #[inline(always)]
    fn is_over(&self) -> bool {
        false
    }
}

impl<F: Fn() -> bool> Patience for F {
    const CHECK_EVERY: Option<Duration> = Some(WAIT_MAX);

    #[inline]
    fn is_over(&self) -> bool {
        self()
    }
}
