//! Eviction policies, and what the 24-bit access field of an entry means under each.
//!
//! * LRU (and every policy that needs no field of its own): seconds of Unix time, modulo 2^24.
//! * LFU: 16 bits of minutes when the counter was last decayed, 8 bits of logarithmic counter (Morris), as Redis
//!   documents under `lfu-log-factor` and `lfu-decay-time`.

use crate::entry::Entry;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Counter of an entry that was just made: high enough not to be evicted before it had a chance.
const LFU_INITIAL: u32 = 5;
const ACCESS_MASK: u32 = 0x00ff_ffff;

/// What is removed when the memory limit is reached.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Policy {
    /// Nothing: writes that need memory are refused.
    #[default]
    NoEviction,
    /// Any key, approximately the least recently used.
    AllKeysLru,
    /// Any key, approximately the least frequently used.
    AllKeysLfu,
    /// Any key.
    AllKeysRandom,
    /// Of the keys with an expiry, approximately the least recently used.
    VolatileLru,
    /// Of the keys with an expiry, approximately the least frequently used.
    VolatileLfu,
    /// Any key with an expiry.
    VolatileRandom,
    /// Of the keys with an expiry, approximately the one that expires first.
    VolatileTtl,
}

const POLICIES: [Policy; 8] = [
    Policy::NoEviction,
    Policy::AllKeysLru,
    Policy::AllKeysLfu,
    Policy::AllKeysRandom,
    Policy::VolatileLru,
    Policy::VolatileLfu,
    Policy::VolatileRandom,
    Policy::VolatileTtl,
];

impl Policy {
    /// True if only keys with an expiry are candidates.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            Policy::VolatileLru
                | Policy::VolatileLfu
                | Policy::VolatileRandom
                | Policy::VolatileTtl
        )
    }

    /// True if the access field counts frequency.
    pub fn is_lfu(self) -> bool {
        matches!(self, Policy::AllKeysLfu | Policy::VolatileLfu)
    }
}

/// The policy in force and its parameters, changed at any time by `CONFIG SET`.
#[derive(Debug)]
pub(crate) struct PolicyCell {
    policy: AtomicU8,
    samples: AtomicU32,
    lfu_log_factor: AtomicU32,
    lfu_decay_minutes: AtomicU32,
}

impl Default for PolicyCell {
    fn default() -> Self {
        PolicyCell {
            policy: AtomicU8::new(Policy::default() as u8),
            samples: AtomicU32::new(5),
            lfu_log_factor: AtomicU32::new(10),
            lfu_decay_minutes: AtomicU32::new(1),
        }
    }
}

impl PolicyCell {
    pub fn get(&self) -> Policy {
        POLICIES.get(usize::from(self.policy.load(Relaxed))).copied().unwrap_or_default()
    }

    pub fn set(&self, policy: Policy) {
        self.policy.store(policy as u8, Relaxed);
    }

    pub fn samples(&self) -> u32 {
        self.samples.load(Relaxed)
    }

    pub fn tune(&self, samples: u32, lfu_log_factor: u32, lfu_decay_minutes: u32) {
        self.samples.store(samples.max(1), Relaxed);
        self.lfu_log_factor.store(lfu_log_factor, Relaxed);
        self.lfu_decay_minutes.store(lfu_decay_minutes, Relaxed);
    }
}

/// What a thread writes into the access field, refreshed with its clock.
#[derive(Debug, Default)]
pub(crate) struct AccessClock {
    lfu: bool,
    seconds: u32,
    minutes: u32,
    log_factor: u32,
    decay_minutes: u32,
    random: Cell<u64>,
}

impl AccessClock {
    pub fn update(&mut self, policy: &PolicyCell, now_ms: i64) {
        let seconds = now_ms / 1000;
        self.seconds = seconds as u32 & ACCESS_MASK;
        self.minutes = (seconds / 60) as u32 & 0xffff;
        self.lfu = policy.get().is_lfu();
        self.log_factor = policy.lfu_log_factor.load(Relaxed);
        self.decay_minutes = policy.lfu_decay_minutes.load(Relaxed);
    }

    /// Field of a new entry.
    pub fn initial(&self) -> u32 {
        if self.lfu { self.minutes << 8 | LFU_INITIAL } else { self.seconds }
    }

    /// Field of an entry that takes the place of one with the field `old`.
    #[inline]
    pub fn kept(&self, old: u32) -> u32 {
        if self.lfu { self.used(old) } else { self.seconds }
    }

    /// Notes a use. The entry's line is written only if the field changes.
    #[inline]
    pub fn touch(&self, entry: Entry) {
        let old = entry.access();
        let new = if self.lfu { self.used(old) } else { self.seconds };
        if new != old {
            entry.set_access(new);
        }
    }

    /// Seconds since the last use, when the field holds a time.
    pub fn idle_seconds(&self, access: u32) -> u32 {
        self.seconds.wrapping_sub(access) & ACCESS_MASK
    }

    /// The frequency counter as of now, when the field holds one.
    pub fn frequency(&self, access: u32) -> u8 {
        let counter = access & 0xff;
        let elapsed = self.minutes.wrapping_sub(access >> 8) & 0xffff;
        let periods = elapsed.checked_div(self.decay_minutes).unwrap_or(0);
        counter.saturating_sub(periods) as u8
    }

    fn used(&self, old: u32) -> u32 {
        let counter = u32::from(self.frequency(old));
        let counter = if counter < 255 && self.chance(counter) { counter + 1 } else { counter };
        self.minutes << 8 | counter
    }

    /// True with probability `1 / ((counter - initial) * log_factor + 1)`.
    fn chance(&self, counter: u32) -> bool {
        let base = u64::from(counter.saturating_sub(LFU_INITIAL));
        let bound = base * u64::from(self.log_factor) + 1;
        (self.draw() >> 32) * bound >> 32 == 0
    }

    /// Xorshift: the counter needs cheap chance, not secrecy.
    fn draw(&self) -> u64 {
        let mut x = self.random.get() | 1;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x
    }
}
