//! Eviction policies, and the meaning of an entry's 24-bit access field under each.
//!
//! * LRU (and every policy that needs no field of its own): seconds of Unix time, modulo 2^24, of
//!   the last use.
//! * LRM: seconds of the last change, likewise.
//! * LFU: 16 bits of minutes when the counter was last decayed, 8 bits of logarithmic counter
//!   (Morris), as Redis documents under `lfu-log-factor` and `lfu-decay-time`.
//! * S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023): 21 bits
//!   of time when the entry joined its queue, 1 bit for the main queue, 2 bits of uses since. Time
//!   is counted in bytes inserted, in units of 1/4096 of the memory limit or so: an entry's age
//!   says how much has come after it.
//!
//! A field written under one policy is misread for a while after a change to another, as it is in
//! Redis.

use crate::structures::entry::Entry;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const ACCESS_MASK: u32 = 0x00ff_ffff;

/// LFU counter of a new entry: high enough not to be evicted before it can be used again.
const LFU_INITIAL: u32 = 5;

/// S3-FIFO: maximum number of uses counted, the bit of the main queue, and the first bit of the
/// time.
const USES_MASK: u32 = 0b011;
const MAIN_BIT: u32 = 0b100;
const JOINED_SHIFT: u32 = 3;
const JOINED_MASK: u32 = ACCESS_MASK >> JOINED_SHIFT;
/// Units of the byte clock per memory limit, as a power of two.
const UNITS_PER_LIMIT_LOG2: u32 = 12;

/// Policy of eviction at the memory limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Policy {
    /// No eviction: writes that need memory are rejected.
    #[default]
    NoEviction,
    /// Any key, approximately the least recently used.
    AllKeysLru,
    /// Any key, approximately the least recently modified: reads do not count.
    AllKeysLrm,
    /// Any key, approximately the least frequently used.
    AllKeysLfu,
    /// Any key.
    AllKeysRandom,
    /// Approximately the least recently used key with an expiry.
    VolatileLru,
    /// Approximately the least recently modified key with an expiry.
    VolatileLrm,
    /// Approximately the least frequently used key with an expiry.
    VolatileLfu,
    /// Any key with an expiry.
    VolatileRandom,
    /// Approximately the key with the earliest expiry.
    VolatileTtl,
    /// Any key, approximately in the order of S3-FIFO: new keys not used soon are evicted first,
    /// and such keys stay longer if they are set again.
    AllKeysS3Fifo,
}

const POLICIES: [(Policy, &str); 11] = [
    (Policy::NoEviction, "noeviction"),
    (Policy::AllKeysLru, "allkeys-lru"),
    (Policy::AllKeysLrm, "allkeys-lrm"),
    (Policy::AllKeysLfu, "allkeys-lfu"),
    (Policy::AllKeysRandom, "allkeys-random"),
    (Policy::VolatileLru, "volatile-lru"),
    (Policy::VolatileLrm, "volatile-lrm"),
    (Policy::VolatileLfu, "volatile-lfu"),
    (Policy::VolatileRandom, "volatile-random"),
    (Policy::VolatileTtl, "volatile-ttl"),
    (Policy::AllKeysS3Fifo, "allkeys-s3fifo"),
];

impl Policy {
    /// All policies.
    pub fn all() -> impl Iterator<Item = Policy> {
        POLICIES.iter().map(|(policy, _)| *policy)
    }

    /// The name of the policy in `maxmemory-policy`.
    pub fn name(self) -> &'static str {
        POLICIES[self as usize].1
    }

    /// The policy with this name, in lower case.
    pub fn from_name(name: &str) -> Option<Policy> {
        POLICIES.iter().find(|(_, known)| *known == name).map(|(policy, _)| *policy)
    }

    /// True if only keys with an expiry are candidates.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            Policy::VolatileLru
                | Policy::VolatileLrm
                | Policy::VolatileLfu
                | Policy::VolatileRandom
                | Policy::VolatileTtl
        )
    }

    /// True if the access field counts frequency: `OBJECT FREQ` has an answer.
    pub fn is_lfu(self) -> bool {
        matches!(self, Policy::AllKeysLfu | Policy::VolatileLfu)
    }

    /// True if keys are evicted by the time of their last use or change.
    pub fn is_lru(self) -> bool {
        matches!(
            self,
            Policy::AllKeysLru | Policy::VolatileLru | Policy::AllKeysLrm | Policy::VolatileLrm
        )
    }

    /// True if the access field holds the time of the last use: `OBJECT IDLETIME` has an answer.
    pub fn knows_idle_time(self) -> bool {
        !self.is_lfu() && self != Policy::AllKeysS3Fifo
    }
}

/// The current policy and its parameters, changed at any time by `CONFIG SET`.
#[derive(Debug)]
pub(crate) struct PolicyCell {
    policy: AtomicU8,
    samples: AtomicU32,
    lfu_log_factor: AtomicU32,
    lfu_decay_minutes: AtomicU32,
    /// Maximum time that a command spends on evictions, in nanoseconds.
    budget_nanos: AtomicU64,
}

impl Default for PolicyCell {
    fn default() -> Self {
        PolicyCell {
            policy: AtomicU8::new(Policy::default() as u8),
            samples: AtomicU32::new(5),
            lfu_log_factor: AtomicU32::new(10),
            lfu_decay_minutes: AtomicU32::new(1),
            budget_nanos: AtomicU64::new(budget(10).as_nanos() as u64),
        }
    }
}

impl PolicyCell {
    pub fn get(&self) -> Policy {
        let known = POLICIES.get(usize::from(self.policy.load(Relaxed)));
        known.map(|(policy, _)| *policy).unwrap_or_default()
    }

    pub fn set(&self, policy: Policy) {
        self.policy.store(policy as u8, Relaxed);
    }

    pub fn samples(&self) -> u32 {
        self.samples.load(Relaxed)
    }

    /// Maximum time that a command spends on evictions before it proceeds, while there is something
    /// to evict.
    pub fn budget(&self) -> Duration {
        Duration::from_nanos(self.budget_nanos.load(Relaxed))
    }

    pub fn set_tenacity(&self, tenacity: u32) {
        let nanos = u64::try_from(budget(tenacity).as_nanos()).unwrap_or(u64::MAX);
        self.budget_nanos.store(nanos, Relaxed);
    }

    pub fn tune(&self, samples: u32, lfu_log_factor: u32, lfu_decay_minutes: u32) {
        self.samples.store(samples.max(1), Relaxed);
        self.lfu_log_factor.store(lfu_log_factor, Relaxed);
        self.lfu_decay_minutes.store(lfu_decay_minutes, Relaxed);
    }
}

/// Time limit by `maxmemory-eviction-tenacity`: 50 microseconds per step up to 10, 15 % more for
/// each further step, and unlimited at 100.
fn budget(tenacity: u32) -> Duration {
    let step = Duration::from_micros(50);
    match tenacity {
        0..=10 => step * tenacity,
        11..=99 => (step * 10).mul_f64(1.15f64.powi(tenacity as i32 - 10)),
        _ => Duration::MAX,
    }
}

/// Content of the access field.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum AccessField {
    #[default]
    LastUse,
    Frequency,
    Queue,
}

/// Values that a thread writes into access fields, refreshed with its clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessClock {
    field: AccessField,
    /// Whether the access field is updated by changes only (LRM).
    only_changes: bool,
    seconds: u32,
    minutes: u32,
    /// The byte clock, in units.
    inserted: u32,
    log_factor: u32,
    decay_minutes: u32,
    random: Cell<u64>,
}

impl AccessClock {
    pub fn update(&mut self, policy: &PolicyCell, now_ms: i64) {
        let seconds = now_ms / 1000;
        self.seconds = seconds as u32 & ACCESS_MASK;
        self.minutes = (seconds / 60) as u32 & 0xffff;
        self.field = match policy.get() {
            Policy::AllKeysLfu | Policy::VolatileLfu => AccessField::Frequency,
            Policy::AllKeysS3Fifo => AccessField::Queue,
            _ => AccessField::LastUse,
        };
        self.only_changes = matches!(policy.get(), Policy::AllKeysLrm | Policy::VolatileLrm);
        self.log_factor = policy.lfu_log_factor.load(Relaxed);
        self.decay_minutes = policy.lfu_decay_minutes.load(Relaxed);
    }

    /// Sets the byte clock: bytes ever inserted by all threads, under a memory limit.
    pub fn set_inserted(&mut self, bytes: u64, limit: u64) {
        let shift = (limit.max(1).ilog2()).saturating_sub(UNITS_PER_LIMIT_LOG2);
        self.inserted = (bytes >> shift) as u32 & JOINED_MASK;
    }

    /// True if the field holds the queue of an entry (S3-FIFO).
    #[inline]
    pub fn has_queues(&self) -> bool {
        self.field == AccessField::Queue
    }

    /// Field of a new entry.
    #[inline]
    pub fn initial(&self) -> u32 {
        match self.field {
            AccessField::LastUse => self.seconds,
            AccessField::Frequency => self.minutes << 8 | LFU_INITIAL,
            AccessField::Queue => self.inserted << JOINED_SHIFT,
        }
    }

    /// Field of an entry that joins the main queue now.
    pub fn in_main(&self) -> u32 {
        self.inserted << JOINED_SHIFT | MAIN_BIT
    }

    /// Field of a used entry that had the field `old`, or of one that replaces it.
    #[inline]
    pub fn used(&self, old: u32) -> u32 {
        match self.field {
            AccessField::LastUse => self.seconds,
            AccessField::Frequency => {
                let counter = u32::from(self.frequency(old));
                let rises = counter < 255 && self.chance(counter);
                (self.minutes << 8) | (counter + u32::from(rises))
            }
            AccessField::Queue if old & USES_MASK == USES_MASK => old,
            AccessField::Queue => old + 1,
        }
    }

    /// Records a use that is no change.
    #[inline]
    pub fn touch_unchanged(&self, entry: Entry) {
        if !self.only_changes {
            self.touch(entry);
        }
    }

    /// Updates the access field after a change, under policies that count changes only.
    #[inline]
    pub fn touch_changed(&self, entry: Entry) {
        if self.only_changes {
            self.touch(entry);
        }
    }

    /// Records a use. The entry's cache line is written only if the field changes.
    #[inline]
    pub fn touch(&self, entry: Entry) {
        let old = entry.access();
        let new = self.used(old);
        if new != old {
            entry.set_access(new);
        }
    }

    /// Seconds since the last use, when the field holds a time.
    pub fn idle_seconds(&self, access: u32) -> u32 {
        self.seconds.wrapping_sub(access) & ACCESS_MASK
    }

    /// Like [`AccessClock::idle_seconds`], but returns 0 if another thread, with its clock slightly
    /// ahead, has used the entry.
    pub fn seconds_since(&self, access: u32) -> u32 {
        let seconds = self.idle_seconds(access);
        if seconds > ACCESS_MASK / 2 { 0 } else { seconds }
    }

    /// Whether the field holds the time of the last change rather than of the last use.
    pub fn notes_only_changes(&self) -> bool {
        self.only_changes
    }

    /// Access field of an entry last used `seconds` seconds ago, if the field holds a time. Wraps
    /// as the field does.
    pub fn idle_for(&self, seconds: u64) -> u32 {
        self.seconds.wrapping_sub(seconds as u32) & ACCESS_MASK
    }

    /// Field of an entry with this frequency counter, when the field holds one.
    pub fn used_so_often(&self, frequency: u8) -> u32 {
        self.minutes << 8 | u32::from(frequency)
    }

    /// The frequency counter as of now, when the field holds one.
    pub fn frequency(&self, access: u32) -> u8 {
        let counter = access & 0xff;
        let elapsed = self.minutes.wrapping_sub(access >> 8) & 0xffff;
        let periods = elapsed.checked_div(self.decay_minutes).unwrap_or(0);
        counter.saturating_sub(periods) as u8
    }

    /// Units of the byte clock since the entry joined its queue.
    pub fn queue_age(&self, access: u32) -> u32 {
        self.inserted.wrapping_sub(access >> JOINED_SHIFT) & JOINED_MASK
    }

    /// New access field of an entry at the end of its queue, if it stays: in the main queue, for as
    /// many rounds as it was used since it joined. `None` if it is evicted.
    pub fn second_chance(&self, access: u32) -> Option<u32> {
        let uses = access & USES_MASK;
        match (is_main(access), uses) {
            (_, 0) => None,
            (true, _) => Some(self.in_main() | (uses - 1)),
            (false, _) => Some(self.in_main()),
        }
    }

    /// Urgency of evicting an entry with this field, under a policy that decides by it: the
    /// higher, the sooner it goes.
    #[inline]
    pub fn urgency(&self, policy: Policy, access: u32) -> Option<i64> {
        match policy {
            Policy::AllKeysLru | Policy::AllKeysLrm | Policy::VolatileLru | Policy::VolatileLrm => {
                Some(self.idle_seconds(access).into())
            }
            Policy::AllKeysLfu | Policy::VolatileLfu => Some(-i64::from(self.frequency(access))),
            Policy::AllKeysS3Fifo => Some(self.queue_age(access).into()),
            Policy::VolatileTtl
            | Policy::AllKeysRandom
            | Policy::VolatileRandom
            | Policy::NoEviction => None,
        }
    }

    /// True with probability `1 / ((counter - initial) * log_factor + 1)`.
    fn chance(&self, counter: u32) -> bool {
        let base = u64::from(counter.saturating_sub(LFU_INITIAL));
        let bound = base * u64::from(self.log_factor) + 1;
        ((draw(&self.random) >> 32) * bound) >> 32 == 0
    }
}

/// Whether the S3-FIFO field belongs to an entry in the main queue.
pub(crate) fn is_main(access: u32) -> bool {
    access & MAIN_BIT != 0
}

/// SplitMix64 (Steele et al., OOPSLA 2014): sampling needs cheap randomness, not secrecy.
pub(crate) fn draw(state: &Cell<u64>) -> u64 {
    let next = state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    state.set(next);
    let mut x = next;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(policy: Policy, now_ms: i64) -> AccessClock {
        let cell = PolicyCell::default();
        cell.set(policy);
        let mut clock = AccessClock::default();
        clock.update(&cell, now_ms);
        clock
    }

    #[test]
    fn names_lead_back_to_their_policies() {
        for policy in Policy::all() {
            assert_eq!(Policy::from_name(policy.name()), Some(policy));
            let cell = PolicyCell::default();
            cell.set(policy);
            assert_eq!(cell.get(), policy);
        }
        assert_eq!(Policy::from_name("allkeys"), None);
    }

    #[test]
    fn tenacity_is_a_time_up_to_two_minutes_and_then_any() {
        let cell = PolicyCell::default();
        assert_eq!(cell.budget(), Duration::from_micros(500));
        let budgets = [0, 1, 10, 99, 100].map(|tenacity| {
            cell.set_tenacity(tenacity);
            cell.budget().as_micros()
        });
        assert_eq!(budgets[..3], [0, 50, 500]);
        assert!((100..140).contains(&(budgets[3] / 1_000_000)), "{}", budgets[3]);
        assert!(budgets[4] > 1 << 50);
    }

    #[test]
    fn idle_time_survives_the_wrap_of_the_field() {
        let before = clock(Policy::AllKeysLru, ((1 << 24) - 5) * 1000).initial();
        assert_eq!(clock(Policy::AllKeysLru, ((1 << 24) + 5) * 1000).idle_seconds(before), 10);
    }

    #[test]
    fn use_can_be_stated() {
        let lru = clock(Policy::AllKeysLru, 5000);
        assert_eq!(lru.idle_seconds(lru.idle_for(1000)), 1000);
        assert_eq!(lru.idle_seconds(lru.idle_for((1 << 24) + 7)), 7);
        let lfu = clock(Policy::AllKeysLfu, 5000);
        assert_eq!(lfu.frequency(lfu.used_so_often(200)), 200);
    }

    #[test]
    fn frequency_rises_slowly_and_decays_by_the_minute() {
        let now = clock(Policy::AllKeysLfu, 0);
        let once = now.used(now.initial());
        assert_eq!(now.frequency(once), 6);
        let many = (0..1000).fold(once, |field, _| now.used(field));
        assert!((10..40).contains(&now.frequency(many)), "{}", now.frequency(many));
        assert_eq!(clock(Policy::AllKeysLfu, 4 * 60_000).frequency(once), 2);
    }

    #[test]
    fn a_used_entry_is_promoted_once_and_then_lives_by_its_uses() {
        let clock = clock(Policy::AllKeysS3Fifo, 0);
        let new = clock.initial();
        assert_eq!(clock.second_chance(new), None);
        let main = clock.second_chance(clock.used(new)).unwrap();
        assert!(is_main(main) && !is_main(new));
        assert_eq!(clock.second_chance(main), None);
        let thrice = (0..9).fold(main, |field, _| clock.used(field));
        let rounds = std::iter::successors(Some(thrice), |field| clock.second_chance(*field));
        assert_eq!(rounds.count(), 4);
    }
}
