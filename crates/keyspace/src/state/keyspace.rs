//! The keyspace as a whole: the state shared by all threads.

use crate::state::compaction::{Compaction, CompactionStats};
use crate::state::counters::{Cell, Counters, DbStats, Stats};
use crate::state::garbage::Garbage;
use crate::state::image::ImageCell;
use crate::state::invalidation::Prefixes;
use crate::state::order::{Epochs, Sinks};
use crate::state::ownership::Ownership;
use crate::state::policy::{Policy, PolicyCell};
use crate::state::stripe::Stripe;
use crate::state::tracking::{Reader, ReadersView, Tracking};
use crate::state::waiting::{WaitCounts, WaitedKeys};
use crate::structures::key_hash::KeyHasher;
use crate::structures::limits::TypeLimits;
use petrel_heap::Heap;
use petrel_lock::{ExclusiveLock, Survey, ThreadSlot};
use petrel_search::index::coverage::View;
use petrel_search::index::indexes::Indexes;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Configuration of a new keyspace.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of databases, at least 1.
    pub databases: u16,
    /// Number of stripes, rounded up to a power of two of at most 65,536.
    pub stripes: usize,
    /// Seed of the hash function; unpredictable where clients are not trusted.
    pub seed: u64,
}

/// Number of stripes by default, and of a small keyspace at least.
const STRIPES: usize = 4096;
const STRIPES_MIN: usize = 64;
/// Bytes of a small keyspace for each stripe, of which its table and its ghost take 120 or more.
const BYTES_PER_STRIPE: u64 = 16 << 10;

impl Default for Options {
    fn default() -> Self {
        Options { databases: 16, stripes: STRIPES, seed: random_seed() }
    }
}

impl Options {
    /// The default for a keyspace that will hold this many bytes: a small one has fewer stripes,
    /// which leaves more of its memory to entries.
    pub fn for_bytes(bytes: u64) -> Self {
        let stripes = (bytes / BYTES_PER_STRIPE).clamp(STRIPES_MIN as u64, STRIPES as u64);
        Options { stripes: (stripes as usize).next_power_of_two(), ..Options::default() }
    }
}

/// A seed that an outsider cannot guess.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// All databases, shared by all threads. A thread works through its [`Handle`](crate::Handle).
pub struct Keyspace {
    pub(crate) stripes: Box<[Stripe]>,
    pub(crate) gate: Arc<ExclusiveLock>,
    pub(crate) image: ImageCell,
    pub(crate) epochs: Epochs,
    pub(crate) sinks: Sinks,
    pub(crate) heap: Arc<Heap>,
    pub(crate) hasher: KeyHasher,
    pub(crate) databases: u16,
    pub(crate) policy: PolicyCell,
    pub(crate) memory_limit: AtomicU64,
    /// Ring position of the next stripe to be claimed for active expiry, by any thread.
    pub(crate) sweep_at: AtomicUsize,
    pub(crate) compaction: Compaction,
    pub(crate) waits: WaitCounts,
    pub(crate) limits: TypeLimits,
    pub(crate) garbage: Garbage,
    /// [`Keyspace::hold_until`].
    pub(crate) hold_until_ms: AtomicI64,
    /// [`Keyspace::keep_expired`].
    pub(crate) keeps_expired: AtomicBool,
    /// [`Keyspace::set_ownership`].
    pub(crate) ownership: OnceLock<Arc<dyn Ownership>>,
    /// [`Keyspace::stop_clock`].
    pub(crate) clock_stands_at: AtomicI64,
    pub(crate) tracking: Tracking,
    /// Next to other data read by every change.
    pub(crate) prefixes: Prefixes,
    /// Set by the first large collection: before, no entry need be read to find one.
    pub(crate) any_large: AtomicBool,
    pub(crate) indexes: Indexes,
    roster: Mutex<Roster>,
    threads_version: AtomicU64,
    stats_base: StatsBase,
}

/// Counters of the threads, with the sum of all ended threads.
#[derive(Default)]
struct Roster {
    threads: Vec<Arc<Counters>>,
    departed: Option<Arc<Counters>>,
}

impl Roster {
    fn counters(&self) -> impl Iterator<Item = &Arc<Counters>> {
        self.threads.iter().chain(&self.departed)
    }
}

/// Values of the statistics at the last `CONFIG RESETSTAT`, which are subtracted from them.
#[derive(Default)]
struct StatsBase {
    hits: AtomicI64,
    misses: AtomicI64,
    expired: AtomicI64,
    evicted: AtomicI64,
    expired_active: AtomicI64,
    expired_fields: AtomicI64,
    expired_fields_active: AtomicI64,
}

impl Keyspace {
    /// An empty keyspace.
    pub fn new(options: &Options) -> Arc<Self> {
        let stripes = options.stripes.clamp(1, 1 << 16).next_power_of_two();
        Arc::new(Keyspace {
            stripes: (0..stripes).map(|_| Stripe::new()).collect(),
            gate: Arc::new(ExclusiveLock::new()),
            image: ImageCell::default(),
            epochs: Epochs::default(),
            sinks: Sinks::default(),
            heap: Arc::new(Heap::new()),
            hasher: KeyHasher::new(options.seed, stripes.trailing_zeros()),
            databases: options.databases.max(1),
            policy: PolicyCell::default(),
            memory_limit: AtomicU64::new(0),
            sweep_at: AtomicUsize::new(0),
            compaction: Compaction::default(),
            waits: WaitCounts::default(),
            limits: TypeLimits::default(),
            garbage: Garbage::default(),
            hold_until_ms: AtomicI64::new(0),
            keeps_expired: AtomicBool::new(false),
            ownership: OnceLock::new(),
            clock_stands_at: AtomicI64::new(0),
            tracking: Tracking::default(),
            prefixes: Prefixes::default(),
            any_large: AtomicBool::new(false),
            indexes: Indexes::default(),
            roster: Mutex::default(),
            threads_version: AtomicU64::new(0),
            stats_base: StatsBase::default(),
        })
    }

    /// State of the gate for diagnostics: the threads inside and the waiting ones.
    pub fn survey_gate(&self) -> Survey {
        self.gate.survey()
    }

    /// Registers the calling thread: its slot at the gate, and its counters.
    pub(crate) fn register(&self) -> (ThreadSlot, Arc<Counters>) {
        let pass = self.gate.register();
        let counters = Arc::new(Counters::new(usize::from(self.databases)));
        self.with_threads(|roster| roster.threads.push(counters.clone()));
        (pass, counters)
    }

    /// Hands the counters of a thread that ends over to the sum of all ended threads. That sum is
    /// replaced, not changed: a copy of the list from before has the thread and the old sum, one
    /// from now on the new sum only, and both add up.
    pub(crate) fn detach(&self, counters: &Arc<Counters>) {
        self.with_threads(|roster| {
            roster.threads.retain(|thread| !Arc::ptr_eq(thread, counters));
            let sum = Counters::new(usize::from(self.databases));
            roster.departed.iter().for_each(|departed| sum.add(departed));
            sum.add(counters);
            roster.departed = Some(Arc::new(sum));
        });
    }

    /// Changes the counters of every thread and of the ended ones, with the keyspace held
    /// exclusively. A thread that ends meanwhile hands over either all or nothing before.
    pub(crate) fn change_counters(&self, change: impl FnMut(&Counters)) {
        self.with_threads(|roster| roster.counters().map(|counters| &**counters).for_each(change));
    }

    /// The epochs of changes.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// The indexes of documents.
    pub fn indexes(&self) -> &Indexes {
        &self.indexes
    }

    /// Replaces the view of the indexes. A thread takes it with its next lock, so a walk over all
    /// keys that begins later misses no change.
    pub fn set_index_view(&self, view: View) {
        self.indexes.set_view(view);
        self.sinks.renew_indexes();
    }

    /// Number of databases.
    pub fn databases(&self) -> u16 {
        self.databases
    }

    /// Number of stripes.
    pub fn stripes(&self) -> u32 {
        self.stripes.len() as u32
    }

    /// Thresholds of the collections' encodings.
    pub fn limits(&self) -> &TypeLimits {
        &self.limits
    }

    /// The heap that entries live in, for its statistics.
    pub fn heap(&self) -> &Arc<Heap> {
        &self.heap
    }

    /// Sets the limit of [`Stats::used`] in bytes, 0 for none, and the eviction policy.
    pub fn set_memory_limit(&self, bytes: u64, policy: Policy) {
        self.memory_limit.store(bytes, Relaxed);
        self.policy.set(policy);
    }

    /// Sets the number of candidates drawn per eviction, and the two parameters of the LFU counter.
    pub fn tune_policy(&self, samples: u32, lfu_log_factor: u32, lfu_decay_minutes: u32) {
        self.policy.tune(samples, lfu_log_factor, lfu_decay_minutes);
    }

    /// Sets `maxmemory-eviction-tenacity`, 0 to 100: the time that a command may spend on
    /// evictions.
    pub fn set_eviction_tenacity(&self, tenacity: u32) {
        self.policy.set_tenacity(tenacity);
    }

    /// The current eviction policy.
    pub fn policy(&self) -> Policy {
        self.policy.get()
    }

    /// Until this time, in Unix milliseconds, nothing is evicted; expired keys and fields are
    /// hidden but only removed by a write to them, or later.
    pub fn hold_until(&self, until_ms: i64) {
        self.hold_until_ms.store(until_ms, Relaxed);
    }

    /// Turns expiry and eviction off (`on`), or back on: while they are off, expired keys are
    /// hidden, and keys set with a past expiry are stored. For replicas of a server that decides
    /// about expiry.
    pub fn keep_expired(&self, on: bool) {
        self.keeps_expired.store(on, Relaxed);
    }

    /// Limits expiry and eviction to keys with their primary here; other keys are treated as by
    /// [`Keyspace::keep_expired`]. Cannot be replaced: false if already set.
    pub fn set_ownership(&self, ownership: Arc<dyn Ownership>) -> bool {
        self.ownership.set(ownership).is_ok()
    }

    /// Stops the threads' clocks at this time, in Unix milliseconds, so that nothing further
    /// expires. 0 resumes them.
    pub fn stop_clock(&self, at_ms: i64) {
        self.clock_stands_at.store(at_ms, Relaxed);
    }

    /// Sums over all threads.
    pub fn stats(&self) -> Stats {
        let base = &self.stats_base;
        let threads = self.threads();
        let sum =
            |of: fn(&Counters) -> &Cell| threads.iter().map(|thread| of(thread).get()).sum::<i64>();
        let since = |of: fn(&Counters) -> &Cell, base: &AtomicI64| {
            (sum(of) - base.load(Relaxed)).max(0) as u64
        };
        Stats {
            used: sum(|thread| &thread.used).max(0) as u64,
            tables: sum(|thread| &thread.table_bytes).max(0) as u64,
            changes: sum(|thread| &thread.changes).max(0) as u64,
            tracked_keys: sum(|thread| &thread.tracked_keys).max(0) as u64,
            tracked_items: sum(|thread| &thread.tracked_items).max(0) as u64,
            tracked_bytes: sum(|thread| &thread.tracked_bytes).max(0) as u64,
            hits: since(|thread| &thread.hits, &base.hits),
            misses: since(|thread| &thread.misses, &base.misses),
            expired: since(|thread| &thread.expired, &base.expired),
            expired_active: since(|thread| &thread.expired_active, &base.expired_active),
            evicted: since(|thread| &thread.evicted, &base.evicted),
            expired_fields: since(|thread| &thread.expired_fields, &base.expired_fields),
            expired_fields_active: since(
                |thread| &thread.expired_fields_active,
                &base.expired_fields_active,
            ),
        }
    }

    /// Resets the counts of hits, misses, expired and evicted keys.
    pub fn reset_stats(&self) {
        self.compaction.reset();
        let base = &self.stats_base;
        let now = self.stats();
        base.hits.fetch_add(now.hits as i64, Relaxed);
        base.misses.fetch_add(now.misses as i64, Relaxed);
        base.expired.fetch_add(now.expired as i64, Relaxed);
        base.expired_active.fetch_add(now.expired_active as i64, Relaxed);
        base.evicted.fetch_add(now.evicted as i64, Relaxed);
        base.expired_fields.fetch_add(now.expired_fields as i64, Relaxed);
        base.expired_fields_active.fetch_add(now.expired_fields_active as i64, Relaxed);
    }

    /// Statistics of compaction.
    pub fn compaction_stats(&self) -> CompactionStats {
        self.compaction.stats()
    }

    /// Size of a database.
    pub fn db_stats(&self, db: u16) -> DbStats {
        let (mut keys, mut volatile, mut expiring) = (0, 0, 0);
        for thread in self.threads() {
            let db = &thread.dbs[usize::from(db)];
            keys += db.keys.get();
            volatile += db.volatile.get();
            expiring += db.expiring.get();
        }
        let count = |sum: i64| sum.max(0) as u64;
        DbStats { keys: count(keys), volatile: count(volatile), expiring: count(expiring) }
    }

    /// Sets the maximum number of tracked keys; 0 for no limit.
    pub fn limit_tracking(&self, keys: usize) {
        self.tracking.limit(keys);
    }

    /// Adds a reader for `owner`, with notifications on.
    pub fn add_reader(&self, owner: impl Any + Send + Sync) -> Arc<Reader> {
        self.tracking.readers.add(owner)
    }

    /// Removes a reader: it gets no further notifications.
    pub fn remove_reader(&self, reader: &Reader) {
        self.tracking.readers.remove(reader.id());
    }

    /// All readers.
    pub fn readers(&self) -> ReadersView<'_> {
        self.tracking.readers.view()
    }

    /// Tracks a prefix: changes of matching keys are broadcast.
    pub fn add_prefix(&self, prefix: Arc<[u8]>) {
        self.prefixes.add(prefix);
    }

    /// Ends the tracking of a prefix.
    pub fn remove_prefix(&self, prefix: &[u8]) {
        self.prefixes.remove(prefix);
    }

    /// Numbers of keys awaited by blocked clients.
    pub fn waited_keys(&self) -> WaitedKeys {
        self.waits.keys()
    }

    /// Counters of every thread, including the sum of all ended threads. Those of a thread that
    /// ends later keep their last values.
    pub(crate) fn threads(&self) -> Vec<Arc<Counters>> {
        let roster = self.roster.lock().unwrap_or_else(PoisonError::into_inner);
        roster.counters().cloned().collect()
    }

    /// Changes whenever the result of [`Keyspace::threads`] does.
    pub(crate) fn threads_version(&self) -> u64 {
        self.threads_version.load(Relaxed)
    }

    fn with_threads(&self, change: impl FnOnce(&mut Roster)) {
        change(&mut self.roster.lock().unwrap_or_else(PoisonError::into_inner));
        self.threads_version.fetch_add(1, Relaxed);
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        self.free_garbage();
        let mut cache = self.heap.cache();
        for stripe in &self.stripes {
            // SAFETY: the last owner drops the keyspace; no other thread can reach a stripe.
            let data = unsafe { stripe.data() };
            for db in 0..self.databases {
                let mut table = data.take_table(db);
                if let Some(array) = table.drain(|entry| entry.release(&mut cache)) {
                    // SAFETY: no other thread exists that could peek at the array.
                    unsafe { array.free(&mut cache) };
                }
            }
        }
        for stripe in 0..self.stripes.len() as u32 {
            // SAFETY: as above.
            unsafe {
                if let Some(tracked) = self.tracking.tables.of(stripe) {
                    std::mem::take(tracked).free(&mut cache);
                }
            }
        }
    }
}
