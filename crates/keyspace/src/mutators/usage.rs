//! Usage of keys for eviction: reading and setting it.

use crate::handle::Handle;
use crate::state::usage::{Usage, Usages};
use crate::structures::key_hash::Key;

impl Handle {
    /// The clock and policy needed to read the usage of keys, as of now.
    pub fn usages(&self) -> Usages {
        let policy = self.ks.policy();
        Usages { clock: self.clock.clone(), is_lru: policy.is_lru(), is_lfu: policy.is_lfu() }
    }

    /// Sets a key's usage, if the current policy records it; its stripe is held.
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
