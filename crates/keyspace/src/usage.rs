//! How keys were used, as what saves them passes it on.

use crate::access::View;
use crate::handle::{Handle, Key};
use crate::policy::AccessClock;

/// How a key was used, as far as the policy in force knows it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Usage {
    /// The policy keeps nothing that others understand.
    #[default]
    Unknown,
    /// Seconds since the last use.
    IdleSeconds(u32),
    /// The logarithmic counter of uses.
    Frequency(u8),
}

/// Tells the usage of keys that are being walked, as of the moment at which it was made.
#[derive(Clone, Debug)]
pub struct Usages {
    clock: AccessClock,
    is_lru: bool,
    is_lfu: bool,
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

impl Handle {
    /// What tells the usage of keys, as of now.
    pub fn usages(&self) -> Usages {
        let policy = self.ks.policy();
        Usages { clock: self.clock.clone(), is_lru: policy.is_lru(), is_lfu: policy.is_lfu() }
    }

    /// Makes a key one that was used so, if the policy in force keeps that; its stripe is held.
    pub fn set_usage(&mut self, db: u16, key: Key<'_>, usage: Usage) {
        match usage {
            Usage::Unknown => {}
            Usage::IdleSeconds(seconds) => {
                self.set_idle_seconds(db, key, seconds.into());
            }
            Usage::Frequency(counter) => {
                self.set_frequency(db, key, counter);
            }
        }
    }
}
