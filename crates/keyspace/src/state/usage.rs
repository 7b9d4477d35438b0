//! Usage of keys (idle time or frequency), as snapshots carry it.

use crate::state::policy::AccessClock;
use crate::structures::view::View;

/// Usage of a key, as far as the current policy records it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Usage {
    /// Nothing that other servers could use.
    #[default]
    Unknown,
    /// Seconds since the last use.
    IdleSeconds(u32),
    /// The logarithmic counter of uses.
    Frequency(u8),
}

/// Reads the usage of keys, as of the time of its creation.
#[derive(Clone, Debug)]
pub struct Usages {
    pub(crate) clock: AccessClock,
    pub(crate) is_lru: bool,
    pub(crate) is_lfu: bool,
}

impl Usages {
    /// The usage of a key.
    pub fn of(&self, view: View<'_>) -> Usage {
        if self.is_lfu {
            Usage::Frequency(self.clock.frequency(view.access()))
        } else if self.is_lru {
            Usage::IdleSeconds(self.clock.idle_seconds(view.access()))
        } else {
            Usage::Unknown
        }
    }
}
