//! A thread's way into the keyspace: batches, stripe locks, and what it owes when it lets go of
//! them.

pub(crate) mod peek;

use crate::state::counters::Counters;
use crate::state::effect::EffectSink;
use crate::state::event::Events;
use crate::state::evictor::Evictor;
use crate::state::garbage::GARBAGE_LEN_MIN;
use crate::state::invalidation::{PrefixView, Told};
use crate::state::keyspace::Keyspace;
use crate::state::order::Origin;
use crate::state::order::Uncommitted;
use crate::state::policy::AccessClock;
use crate::state::stripe::StripeData;
use crate::state::sweep_place::SweepPlace;
use crate::state::thread_stats::RosterView;
use crate::state::waiting::ReadyKey;
use crate::structures::entry::Entry;
use crate::structures::key_hash::Key;
use crate::structures::key_hash::KeyHash;
use crate::structures::large::Large;
use crate::structures::table::Retired;
use petrel_heap::Cache;
use petrel_heap::prefetch;
use petrel_lock::Pass;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

/// Replaced bucket arrays kept at most before a thread tries to free them.
const RETIRED_MAX: usize = 32;

/// One thread's access to a [`Keyspace`].
///
/// Work happens in batches: [`Handle::enter`], then for each command lock, read and change, unlock,
/// and at last [`Handle::exit`]. Everything that reads or changes a key demands that its stripe is
/// held.
pub struct Handle {
    pub(crate) ks: Arc<Keyspace>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) cache: Cache,
    pub(crate) clock: AccessClock,
    pub(crate) now_ms: i64,
    /// [`Handle::see_expired`].
    pub(crate) sees_expired: bool,
    /// Where the effect came from that is being applied.
    pub(crate) origin: Origin,
    pub(crate) trimmed_at: i64,
    /// Since when the upkeep of the heap has been put off; 0 if it is not.
    pub(crate) put_off_since: i64,
    pub(crate) sink: Option<Box<dyn EffectSink>>,
    /// [`Sinks::version`](crate::order::Sinks::version) when the sink was made.
    pub(crate) sinks_seen: u64,
    /// [`SinkSource::is_strict`](crate::SinkSource::is_strict) of the sink's source.
    pub(crate) is_strict: bool,
    /// What the sink has learned of and was not committed.
    pub(crate) uncommitted: Uncommitted,
    /// The latest epoch that was written to, or seen something of.
    pub(crate) need: u64,
    /// Events that wait for the end of their command.
    pub(crate) events: Events,
    pub(crate) touch: bool,
    pub(crate) roster: RosterView,
    pub(crate) evictor: Evictor,
    pub(crate) sweep_place: Option<SweepPlace>,
    /// Keys that changed while somebody waits for them; each at most once.
    pub(crate) ready: VecDeque<ReadyKey>,
    /// What those who cache are to be told of.
    pub(crate) told: Told,
    pub(crate) prefixes: PrefixView,
    /// Bytes that a mutator puts together; empty between calls, but for its capacity.
    pub(crate) scratch: Vec<u8>,
    pass: Pass,
    pub(crate) held: Held,
    /// What was held before everything was, and is to be unlocked beside it.
    held_before: Held,
    /// Stripes of a multi-key lock, ascending; kept for its capacity.
    pub(crate) held_many: Vec<u32>,
    /// Entries to free once no stripe is held.
    graves: Vec<Grave>,
    retired: Vec<Retirement>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Held {
    Nothing,
    One(u32),
    /// The stripes in `held_many`.
    Many,
    /// The exclusive intent: every stripe.
    All,
}

enum Grave {
    Whole(Entry),
    /// The value was moved to another block.
    Hollow(Entry),
    /// A part of a value.
    Part(Box<Large>),
}

struct Retirement {
    array: Retired,
    /// The batch that each thread was in.
    batches: Vec<(Arc<Counters>, u64)>,
}

impl Handle {
    pub(crate) fn new(ks: Arc<Keyspace>, pass: Pass, counters: Arc<Counters>) -> Self {
        let mut handle = Handle {
            pass,
            cache: ks.heap.cache(),
            clock: AccessClock::default(),
            now_ms: 0,
            sees_expired: false,
            origin: Origin::LOCAL,
            trimmed_at: 0,
            put_off_since: 0,
            sink: None,
            sinks_seen: 0,
            is_strict: false,
            uncommitted: Uncommitted::default(),
            need: 0,
            events: Events::default(),
            touch: true,
            roster: RosterView::default(),
            evictor: Evictor::new(Arc::as_ptr(&counters) as usize as u64),
            sweep_place: None,
            scratch: Vec::new(),
            ready: VecDeque::new(),
            told: Told::default(),
            prefixes: PrefixView::default(),
            held: Held::Nothing,
            held_before: Held::Nothing,
            held_many: Vec::new(),
            graves: Vec::new(),
            retired: Vec::new(),
            counters,
            ks,
        };
        handle.refresh_clock();
        handle
    }

    /// The keyspace.
    pub fn keyspace(&self) -> &Arc<Keyspace> {
        &self.ks
    }

    /// Hash of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        self.ks.hasher.hash(key)
    }

    /// A key with its hash.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: self.hash(bytes) }
    }

    /// Whether reads count as use of a key for the eviction policy (`CLIENT NO-TOUCH` turns it
    /// off).
    pub fn set_touch(&mut self, touch: bool) {
        self.touch = touch;
    }

    /// The thread's clock, Unix time in milliseconds, as of the last [`Handle::refresh_clock`].
    #[inline]
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Reads the clock, unless it [stands](Keyspace::stop_clock): once per turn is enough.
    pub fn refresh_clock(&mut self) {
        let now = match self.ks.clock_stands_at.load(Relaxed) {
            0 => {
                let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                since.map_or(0, |since| since.as_millis() as i64)
            }
            stands_at => stands_at,
        };
        self.set_clock(now);
    }

    /// Sets the thread's clock (recovery and tests).
    pub fn set_clock(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.clock.update(&self.ks.policy, now_ms);
        self.refresh_byte_clock();
    }

    /// Nothing expires for this thread until it reads the clock again: for changes of the past.
    pub fn ignore_expiry(&mut self) {
        self.now_ms = 0;
    }

    /// Begins a batch: waits while another thread owns the keyspace exclusively.
    #[inline]
    pub fn enter(&mut self) {
        let batch = &self.counters.batch;
        batch.store(batch.load(Relaxed).wrapping_add(1), Relaxed);
        // Orders the store above before every peek of the batch; on x86-64 the exchange in
        // `Pass::enter` does.
        #[cfg(not(target_arch = "x86_64"))]
        fence(SeqCst);
        self.pass.enter();
    }

    /// Ends a batch.
    #[inline]
    pub fn exit(&mut self) {
        debug_assert_eq!(self.held, Held::Nothing);
        self.pass.exit();
        let batch = &self.counters.batch;
        batch.store(batch.load(Relaxed).wrapping_add(1), Release);
        if let Some(sink) = &mut self.sink {
            sink.hand_over();
        }
    }

    /// The same, unless `give_up` comes to say so while it waits: false then. A batch has begun all
    /// the same, but the thread is outside: it may lock nothing before it has ended the batch
    /// and begun another.
    #[inline]
    pub fn enter_unless(&mut self, give_up: impl Fn() -> bool) -> bool {
        let batch = &self.counters.batch;
        batch.store(batch.load(Relaxed).wrapping_add(1), Relaxed);
        #[cfg(not(target_arch = "x86_64"))]
        fence(SeqCst);
        self.pass.enter_unless(give_up)
    }

    /// True if another thread waits for the keyspace, or this one is outside: end the batch and
    /// begin another.
    #[inline]
    pub fn should_yield(&self) -> bool {
        self.pass.is_disturbed()
    }

    /// Whether the thread is in a batch, and inside.
    pub fn is_inside(&self) -> bool {
        self.pass.is_inside()
    }

    /// True if the thread is outside, since it gave up waiting.
    pub fn is_outside(&self) -> bool {
        !self.pass.is_inside()
    }

    /// Goes inside amid a batch, if the thread is outside.
    pub(crate) fn come_inside(&self) {
        self.pass.enter();
    }

    /// True while the thread holds any stripe.
    #[inline]
    pub fn holds_any(&self) -> bool {
        self.held != Held::Nothing
    }

    /// True if the stripe of `hash` is held.
    #[inline]
    pub fn holds(&self, hash: KeyHash) -> bool {
        match self.held {
            Held::Nothing => false,
            Held::One(stripe) => stripe == hash.stripe(),
            Held::Many => self.held_many.binary_search(&hash.stripe()).is_ok(),
            Held::All => true,
        }
    }

    /// Notes what is held. While the thread waited for it the keyspace may have got another log.
    #[inline]
    fn hold(&mut self, held: Held) {
        self.held = held;
        if self.ks.sinks.version() != self.sinks_seen {
            self.renew_sink();
        }
    }

    /// Locks the stripe of one key. The thread is in a batch and holds nothing.
    #[inline]
    pub fn lock(&mut self, hash: KeyHash) {
        self.lock_stripe(hash.stripe());
    }

    #[inline]
    pub(crate) fn lock_stripe(&mut self, stripe: u32) {
        debug_assert_eq!(self.held, Held::Nothing);
        self.pass.lock(&self.ks.stripes[stripe as usize].lock);
        self.hold(Held::One(stripe));
    }

    /// The same, unless `give_up` comes to say so while it waits: false then. Nothing is held, and
    /// the thread may be [outside](Handle::is_outside).
    #[inline]
    pub fn lock_unless(&mut self, hash: KeyHash, give_up: impl Fn() -> bool) -> bool {
        self.lock_stripe_unless(hash.stripe(), give_up)
    }

    #[inline]
    pub(crate) fn lock_stripe_unless(&mut self, stripe: u32, give_up: impl Fn() -> bool) -> bool {
        debug_assert_eq!(self.held, Held::Nothing);
        let locked = self.pass.lock_unless(&self.ks.stripes[stripe as usize].lock, give_up);
        if locked {
            self.hold(Held::One(stripe));
        }
        locked
    }

    /// Locks the stripes of many keys, all before anything is executed. The thread holds nothing.
    pub fn lock_many(&mut self, hashes: impl Iterator<Item = KeyHash>) {
        self.choose_stripes(hashes);
        match self.held_many[..] {
            [] => {}
            [stripe] => self.lock_stripe(stripe),
            _ => {
                let stripes = &self.ks.stripes;
                self.pass.lock_many(|i| &stripes[i].lock, &self.held_many);
                self.hold(Held::Many);
            }
        }
    }

    /// The same, unless `give_up` comes to say so while it waits: as [`Handle::lock_unless`].
    pub fn lock_many_unless(
        &mut self,
        hashes: impl Iterator<Item = KeyHash>,
        give_up: impl Fn() -> bool,
    ) -> bool {
        self.choose_stripes(hashes);
        match self.held_many[..] {
            [] => true,
            [stripe] => self.lock_stripe_unless(stripe, give_up),
            _ => {
                let stripes = &self.ks.stripes;
                let lock = |i: usize| &stripes[i].lock;
                let locked = self.pass.lock_many_unless(lock, &self.held_many, give_up);
                if locked {
                    self.hold(Held::Many);
                }
                locked
            }
        }
    }

    fn choose_stripes(&mut self, hashes: impl Iterator<Item = KeyHash>) {
        debug_assert_eq!(self.held, Held::Nothing);
        self.held_many.clear();
        self.held_many.extend(hashes.map(KeyHash::stripe));
        self.held_many.sort_unstable();
        self.held_many.dedup();
    }

    /// Waits until every other thread is out and keeps them out. The thread holds nothing.
    pub fn lock_all(&mut self) {
        debug_assert_eq!(self.held, Held::Nothing);
        self.pass.exclusive();
        self.hold(Held::All);
    }

    /// The same, unless `give_up` comes to say so while it waits: as [`Handle::lock_unless`].
    pub fn lock_all_unless(&mut self, give_up: impl Fn() -> bool) -> bool {
        debug_assert_eq!(self.held, Held::Nothing);
        let locked = self.pass.exclusive_unless(give_up);
        if locked {
            self.hold(Held::All);
        }
        locked
    }

    /// Takes the right to lock the rest of the keyspace while stripes are held, which one thread
    /// has at a time. The thread holds nothing; it has the right until
    /// [`Handle::release_token`].
    pub fn take_token(&mut self) {
        debug_assert_eq!(self.held, Held::Nothing);
        self.pass.script_token();
    }

    /// The same, unless `give_up` comes to say so while it waits: as [`Handle::lock_unless`].
    pub fn take_token_unless(&mut self, give_up: impl Fn() -> bool) -> bool {
        debug_assert_eq!(self.held, Held::Nothing);
        self.pass.script_token_unless(give_up)
    }

    /// The same for a thread that may hold stripes; false if another has the right.
    pub fn try_take_token(&mut self) -> bool {
        self.pass.try_script_token()
    }

    /// Gives back the right of [`Handle::take_token`], if the thread has it.
    pub fn release_token(&mut self) {
        self.pass.release_script_token();
    }

    /// Locks everything beside what is held, which stays held all the while: others who wait for it
    /// give way. The thread has the right of [`Handle::take_token`]. False if `give_up` came to
    /// say so while it waited: then all is as before.
    pub fn lock_rest_unless(&mut self, give_up: impl Fn() -> bool) -> bool {
        let stripes = &self.ks.stripes;
        let lock = |i: usize| &stripes[i].lock;
        let locked = match self.held {
            Held::Nothing => self.pass.exclusive_holding_unless(lock, &[], give_up),
            Held::One(stripe) => self.pass.exclusive_holding_unless(lock, &[stripe], give_up),
            Held::Many => self.pass.exclusive_holding_unless(lock, &self.held_many, give_up),
            Held::All => return true,
        };
        if locked {
            self.held_before = self.held;
            self.hold(Held::All);
        }
        locked
    }

    /// Lets go of every stripe, then frees what was replaced under the locks.
    #[inline(always)]
    pub fn unlock(&mut self) {
        if self.sink.is_some() {
            self.commit();
        }
        if let Held::One(stripe) = self.held {
            self.ks.stripes[stripe as usize].lock.unlock();
            self.held = Held::Nothing;
        } else {
            self.unlock_others();
        }
        if !self.graves.is_empty() {
            self.free_graves();
        }
    }

    #[inline(never)]
    fn unlock_others(&mut self) {
        self.unlock_stripes(self.held);
        if self.held == Held::All {
            self.unlock_stripes(self.held_before);
            self.held_before = Held::Nothing;
            self.pass.release_exclusive();
        }
        self.held = Held::Nothing;
    }

    fn unlock_stripes(&self, held: Held) {
        match held {
            Held::Nothing | Held::All => {}
            Held::One(stripe) => self.ks.stripes[stripe as usize].lock.unlock(),
            Held::Many => {
                for &stripe in &self.held_many {
                    self.ks.stripes[stripe as usize].lock.unlock();
                }
            }
        }
    }

    /// Asks for the cache line of the stripe of `hash`, to lock it, and for that of its side table.
    #[inline]
    pub fn prefetch_stripe(&self, hash: KeyHash) {
        prefetch((&raw const self.ks.stripes[hash.stripe() as usize]).addr());
        self.prefetch_side_table(hash);
    }

    /// What the lock of a stripe guards.
    #[inline]
    pub(crate) fn stripe(&self, hash: KeyHash) -> &mut StripeData {
        self.stripe_at(hash.stripe())
    }

    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn stripe_at(&self, stripe: u32) -> &mut StripeData {
        debug_assert!(self.holds_stripe(stripe), "stripe {stripe} is not held");
        // SAFETY: the stripe is held by this thread; callers keep one reference at a time.
        unsafe { self.ks.stripes[stripe as usize].data() }
    }

    /// Whether one stripe is held and no other.
    pub(crate) fn holds_one_stripe(&self) -> bool {
        matches!(self.held, Held::One(_))
    }

    /// Whether every stripe is held.
    #[inline]
    pub fn holds_everything(&self) -> bool {
        self.held == Held::All
    }

    /// Whether something is so of a stripe that is held.
    #[inline]
    pub(crate) fn any_held(&self, mut test: impl FnMut(&StripeData) -> bool) -> bool {
        match self.held {
            Held::Nothing => false,
            Held::One(stripe) => test(self.stripe_at(stripe)),
            Held::Many => self.held_many.iter().any(|&stripe| test(self.stripe_at(stripe))),
            Held::All => {
                (0..self.ks.stripes.len()).any(|stripe| test(self.stripe_at(stripe as u32)))
            }
        }
    }

    pub(crate) fn holds_stripe(&self, stripe: u32) -> bool {
        match self.held {
            Held::Nothing => false,
            Held::One(held) => held == stripe,
            Held::Many => self.held_many.binary_search(&stripe).is_ok(),
            Held::All => true,
        }
    }

    /// Frees an entry once no stripe is held.
    #[inline]
    pub(crate) fn bury(&mut self, entry: Entry) {
        let grave = if entry.is_one_block() { Grave::Hollow } else { Grave::Whole };
        self.graves.push(grave(entry));
    }

    /// Frees an entry's block once no stripe is held.
    pub(crate) fn bury_hollow(&mut self, entry: Entry) {
        self.graves.push(Grave::Hollow(entry));
    }

    /// Frees what was cut off a value once no stripe is held.
    pub(crate) fn bury_part(&mut self, part: Large) {
        self.graves.push(Grave::Part(Box::new(part)));
    }

    /// Frees a replaced bucket array once every thread has left the batch it is in.
    #[cold]
    pub(crate) fn retire(&mut self, array: Retired) {
        // Pairs with the fence in `Pass::enter`: a thread whose batch is not seen here as begun
        // sees the new array.
        fence(SeqCst);
        let batches = self
            .ks
            .threads()
            .into_iter()
            .filter(|thread| !Arc::ptr_eq(thread, &self.counters))
            .map(|thread| {
                let batch = thread.batch.load(Acquire);
                (thread, batch)
            })
            .filter(|(_, batch)| batch % 2 == 1)
            .collect();
        self.retired.push(Retirement { array, batches });
        if self.retired.len() >= RETIRED_MAX {
            self.free_retired();
        }
    }

    /// Frees the bucket arrays that nobody can be peeking at any more. Called now and then; the
    /// thread's own lookups never outlive a call of the keyspace.
    pub fn free_retired(&mut self) {
        for mut retirement in mem::take(&mut self.retired) {
            retirement.batches.retain(|(thread, batch)| thread.batch.load(Acquire) == *batch);
            if retirement.batches.is_empty() {
                // SAFETY: whoever was in a batch when the array was replaced has ended it, and who
                // began one since finds the new array.
                unsafe { retirement.array.free(&mut self.cache) };
            } else {
                self.retired.push(retirement);
            }
        }
    }

    fn free_entry(&mut self, entry: Entry) {
        match entry.large() {
            Some(large) if large.len() >= GARBAGE_LEN_MIN || large.image_id().is_some() => {
                if let Some(large) = entry.take_large(&mut self.cache) {
                    self.free_large(large);
                }
            }
            _ => entry.release(&mut self.cache),
        }
    }

    /// Frees a large collection, or leaves it to the collector; to the image, if that has not got
    /// all of it.
    #[cold]
    pub(crate) fn free_large(&mut self, large: Box<Large>) {
        if let Some(portions) = large.image_id().and_then(|id| self.ks.image.portions_of(id)) {
            return portions.own(large);
        }
        let is_garbage = large.len() >= GARBAGE_LEN_MIN;
        let large = if is_garbage { self.ks.garbage.take(large) } else { Some(large) };
        if let Some(large) = large {
            large.release(&mut self.cache);
        }
    }

    #[inline(never)]
    fn free_graves(&mut self) {
        while let Some(grave) = self.graves.pop() {
            match grave {
                Grave::Whole(entry) => self.free_entry(entry),
                Grave::Hollow(entry) => entry.release_hollow(&mut self.cache),
                Grave::Part(large) => self.free_large(large),
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.unlock();
        if self.pass.is_inside() {
            self.exit();
        }
        while !self.retired.is_empty() {
            self.free_retired();
            std::thread::yield_now();
        }
        self.ks.detach(&self.counters);
    }
}
