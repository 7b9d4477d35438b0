//! Command statistics: per-thread counters, summed on read.

use crate::acl::Users;
use crate::admit::pause::Pause;
use crate::aux_values::AuxValues;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::fail::Fail;
use crate::host::Host;
use crate::long::LongHeld;
use crate::scripting::{Libraries, Scripts};
use crate::search::SearchState;
use crate::server::hotkeys::Hotkeys;
use crate::server::latency::LatencyMonitor;
use crate::server::redact::shown;
use crate::server::slowlog::CommandLog;
use crate::server::state::ServerState;
use crate::sketches::SketchDefaults;
use crate::spec::{Command, Flags, Registry};
use crate::topology::Topology;
use petrel_resp::Dialect;
use petrel_table::bits;
use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Maximum number of distinct error codes tracked. Scripts can invent codes, so this bounds memory.
const ERROR_CODES_MAX: usize = 128;

/// Replaces all codes after there were too many.
const ERRORS_DISABLED: &[u8] = b"ERRORSTATS_DISABLED";

/// Counts all errors beyond the limit of codes, in Valkey's dialect.
const ERRORS_OVERFLOW: &[u8] = b"ERRORSTATS_OVERFLOW";

/// Codes of the server's own errors, which are counted apart even above the limit.
const OWN_CODES: &str = "\
    BUSY BUSYGROUP BUSYKEY ERR EXECABORT IOERR LOADING MISCONF NOAUTH NOGOODSLAVE NOGROUP \
    NOPERM NOPROTO NOREPLICAS NOSCRIPT NOTBUSY OOM READONLY UNBLOCKED UNKILLABLE WRONGPASS \
    WRONGTYPE";

/// Observer of every command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Observer {
    /// `MONITOR`: commands are passed to the host.
    Monitor = 1,
    /// `HOTKEYS`.
    Hotkeys = 2,
}

/// State shared by all threads that execute commands.
pub struct Shared {
    /// Every command that exists.
    pub registry: Registry,
    /// ACL users.
    pub users: Users,
    /// Hot keys.
    pub hotkeys: Hotkeys,
    /// Slow commands.
    pub slowlog: CommandLog,
    /// Commands with long requests.
    pub large_requests: CommandLog,
    /// Commands with long replies.
    pub large_replies: CommandLog,
    /// The latency monitor.
    pub latency: LatencyMonitor,
    /// The script cache, and the running scripts.
    pub scripts: Scripts,
    /// The stripes that helper threads hold.
    pub long: LongHeld,
    /// The libraries of functions.
    pub libraries: Libraries,
    /// Values of auxiliary state other than these libraries.
    pub aux: AuxValues,
    /// The indexes of documents.
    pub search: SearchState,
    /// Properties of sketches that commands make without stating them.
    pub sketches: SketchDefaults,
    /// `CLIENT PAUSE`.
    pub pause: Pause,
    /// The server is a replica.
    pub is_replica: AtomicBool,
    /// The cluster that the server is a member of ([`ServerState::Clustered`]).
    pub cluster: OnceLock<Arc<dyn Cluster>>,
    /// The nodes as clients of Redis Cluster see them, if there are such clients
    /// (`cluster-enabled yes`). Set before the first client is served.
    pub topology: OnceLock<Arc<dyn Topology>>,
    track_latency: AtomicBool,
    /// Bits of [`Observer`].
    observers: AtomicU8,
    dialect: OnceLock<Dialect>,
    poses_as_redis: AtomicBool,
    /// Bits of [`ServerState`]: the states that the server is in.
    states: AtomicU8,
    /// Write error of the log ([`ServerState::NotLogged`]).
    log_failure: Mutex<Option<String>>,
    blocked: AtomicI64,
    errors: Mutex<Errors>,
    threads: Mutex<Vec<Arc<ThreadStats>>>,
}

impl Shared {
    /// Creates the state, with all counters 0.
    pub fn new(registry: Registry) -> Arc<Self> {
        Clock::get();
        Arc::new(Shared {
            users: Users::new(&registry),
            registry,
            slowlog: CommandLog::of_times(),
            large_requests: CommandLog::of_sizes(),
            large_replies: CommandLog::of_sizes(),
            observers: AtomicU8::new(0),
            hotkeys: Hotkeys::default(),
            latency: LatencyMonitor::default(),
            scripts: Scripts::default(),
            long: LongHeld::default(),
            libraries: Libraries::default(),
            aux: AuxValues::default(),
            search: SearchState::default(),
            sketches: SketchDefaults::default(),
            pause: Pause::default(),
            is_replica: AtomicBool::new(false),
            cluster: OnceLock::new(),
            topology: OnceLock::new(),
            track_latency: AtomicBool::new(true),
            dialect: OnceLock::new(),
            poses_as_redis: AtomicBool::new(false),
            states: AtomicU8::new(0),
            log_failure: Mutex::default(),
            blocked: AtomicI64::new(0),
            errors: Mutex::default(),
            threads: Mutex::default(),
        })
    }

    /// Creates the statistics of a new thread.
    pub fn join(&self) -> Arc<ThreadStats> {
        let stats = Arc::new(ThreadStats::new(self.registry.len()));
        stats.track_latency.store(self.track_latency.load(Relaxed), Relaxed);
        lock(&self.threads).push(stats.clone());
        stats
    }

    /// Dialect (Redis or Valkey) of error messages and INFO.
    #[inline]
    pub fn dialect(&self) -> Dialect {
        self.dialect.get().copied().unwrap_or_default()
    }

    /// Sets the dialect. Called once, before the first command.
    pub fn speak(&self, dialect: Dialect) {
        self.dialect.get_or_init(|| dialect);
    }

    /// Makes the server introduce itself as Redis, whatever its dialect.
    pub fn pose_as_redis(&self, on: bool) {
        self.poses_as_redis.store(on, Relaxed);
    }

    /// Product, Redis or Valkey, that the server introduces itself as.
    pub fn identity(&self) -> Dialect {
        if self.poses_as_redis.load(Relaxed) { Dialect::Redis } else { self.dialect() }
    }

    /// Release that scripts see.
    pub(crate) fn release(&self) -> petrel_lua::Release {
        let dialect = self.dialect();
        let redis_version = crate::redis_version(dialect);
        petrel_lua::Release { dialect, redis_version, valkey_version: crate::VALKEY_VERSION }
    }

    /// Whether data is being loaded: commands that need it are rejected meanwhile.
    #[inline]
    pub fn is_loading(&self) -> bool {
        self.is_in_state(ServerState::Loading)
    }

    /// Whether the server is in any [`ServerState`] that rejects commands.
    #[inline]
    pub(crate) fn refuses_some(&self) -> bool {
        self.states.load(Relaxed) != 0
    }

    /// Whether the server is in this state.
    #[inline]
    pub fn is_in_state(&self, state: ServerState) -> bool {
        self.states.load(Relaxed) & state as u8 != 0
    }

    /// Flags of commands that the gate looks at closely. For clients of Redis Cluster, commands
    /// with several keys are such commands.
    pub(crate) fn special_flags(&self) -> Flags {
        const SPECIAL: Flags = bits!(Flags: PROTECTED, NO_MULTI, SCRIPT_RUNNER);
        match self.topology.get() {
            Some(_) => SPECIAL.with(Flags::SEVERAL_KEYS),
            None => SPECIAL,
        }
    }

    /// The cluster that the server is a member of, if members hold only some of its slots.
    pub(crate) fn cluster_of_few(&self) -> Option<&Arc<dyn Cluster>> {
        let cluster = self.cluster.get().filter(|_| self.is_in_state(ServerState::Clustered));
        cluster.filter(|cluster| !cluster.holds_all())
    }

    /// Sets the error of the log to report when writes are rejected.
    pub fn note_log_failure(&self, why: &str) {
        *lock(&self.log_failure) = Some(why.into());
    }

    /// Error for writes, if they are rejected.
    pub fn write_refusal(&self) -> Option<Fail> {
        if self.is_in_state(ServerState::NotLogged) {
            let why = lock(&self.log_failure).clone().unwrap_or_default();
            return Some(Fail::new(format!("MISCONF Errors writing to the AOF file: {why}")));
        }
        if self.is_in_state(ServerState::NotSaved) {
            return Some(Fail::not_saved(self.dialect()));
        }
        self.is_in_state(ServerState::NotReplicated).then_some(Fail::TOO_FEW_REPLICAS)
    }

    /// Enters or leaves a state.
    pub fn set_state(&self, state: ServerState, on: bool) {
        let bit = state as u8;
        if on {
            self.states.fetch_or(bit, Release);
        } else {
            self.states.fetch_and(!bit, Release);
        }
    }

    /// Switches latency distributions on or off (`latency-tracking`).
    pub fn set_latency_tracking(&self, on: bool) {
        self.track_latency.store(on, Relaxed);
        for thread in lock(&self.threads).iter() {
            thread.track_latency.store(on, Relaxed);
        }
    }

    /// Number of blocked clients.
    pub fn blocked_clients(&self) -> usize {
        self.blocked.load(Relaxed).max(0) as usize
    }

    /// Adds to the number of blocked clients.
    pub fn count_blocked(&self, delta: i64) {
        self.blocked.fetch_add(delta, Relaxed);
    }

    /// Number of commands that have read copies of other nodes' keys.
    pub fn reads_of_copies(&self) -> u64 {
        lock(&self.threads).iter().map(|thread| thread.of_copies.load(Relaxed)).sum()
    }

    /// Sums of one command over all threads.
    pub fn command(&self, index: u16) -> CommandStats {
        let mut sum = CommandStats::default();
        for thread in lock(&self.threads).iter() {
            let cell = &thread.cells[usize::from(index)];
            sum.calls += cell.calls.load(Relaxed);
            sum.nanos += cell.nanos.load(Relaxed);
            sum.rejected += cell.rejected.load(Relaxed);
            sum.failed += cell.failed.load(Relaxed);
        }
        sum
    }

    /// Calls of all commands, and the nanoseconds that they took.
    pub fn total_calls(&self) -> (u64, u64) {
        let threads = lock(&self.threads);
        let cells = threads.iter().flat_map(|thread| &thread.cells);
        let figures = cells.map(|cell| (cell.calls.load(Relaxed), cell.nanos.load(Relaxed)));
        figures.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Distribution of one command's durations; empty if it was never called.
    pub fn durations(&self, index: u16) -> Durations {
        let mut sum = Durations::default();
        for thread in lock(&self.threads).iter() {
            if let Some(counts) = thread.cells[usize::from(index)].durations.get() {
                for (sum, count) in sum.counts.iter_mut().zip(counts.iter()) {
                    *sum += u64::from(count.load(Relaxed));
                }
            }
        }
        sum
    }

    /// Error codes with their counts.
    pub fn errors(&self) -> Vec<(Vec<u8>, u64)> {
        lock(&self.errors).by_code.iter().map(|(code, count)| (code.clone(), *count)).collect()
    }

    /// Error replies of all codes.
    pub fn total_errors(&self) -> u64 {
        lock(&self.errors).total
    }

    /// Resets the statistics (`CONFIG RESETSTAT`).
    pub fn reset(&self) {
        *lock(&self.errors) = Errors::default();
        self.slowlog.forget_totals();
        self.scripts.reset_stats();
        self.users.reset_refused();
        for index in 0..self.registry.len() {
            self.reset_command(index as u16);
        }
    }

    /// Resets one command's counters. Concurrent calls on other threads may survive.
    pub fn reset_command(&self, index: u16) {
        for thread in lock(&self.threads).iter() {
            let cell = &thread.cells[usize::from(index)];
            for figure in [&cell.calls, &cell.nanos, &cell.rejected, &cell.failed] {
                figure.store(0, Relaxed);
            }
        }
        self.reset_durations(index);
    }

    /// Resets one command's latency distribution (`CONFIG RESETSTAT`; not `LATENCY RESET`).
    pub fn reset_durations(&self, index: u16) {
        for thread in lock(&self.threads).iter() {
            if let Some(counts) = thread.cells[usize::from(index)].durations.get() {
                counts.iter().for_each(|count| count.store(0, Relaxed));
            }
        }
    }

    /// Switches an observer of every command on or off.
    pub fn observe(&self, observer: Observer, on: bool) {
        let bit = observer as u8;
        if on {
            self.observers.fetch_or(bit, Relaxed);
        } else {
            self.observers.fetch_and(!bit, Relaxed);
        }
    }

    /// Whether every command is observed.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.observers.load(Relaxed) != 0
    }

    /// Minimum duration in nanoseconds of commands to pass to [`Shared::note_slow`].
    #[inline]
    pub(crate) fn slow_nanos(&self) -> u64 {
        self.slowlog.threshold().min(self.latency.threshold_nanos())
    }

    #[cold]
    pub(crate) fn note_slow(
        &self,
        command: Command,
        args: &[&[u8]],
        nanos: u64,
        host: &mut dyn Host,
    ) {
        self.latency.note_command(command.spec.flags.contains(Flags::FAST), nanos);
        self.slowlog.note(&self.registry, command, args, nanos, || host.client_label());
    }

    /// Minimum size in bytes of requests and replies to pass to [`Shared::note_large`].
    #[inline]
    pub fn large_bytes(&self) -> u64 {
        self.large_requests.threshold().min(self.large_replies.threshold())
    }

    /// Logs a command if its request or reply is large, in bytes as sent.
    #[cold]
    pub fn note_large(
        &self,
        command: Command,
        args: &[&[u8]],
        (request, reply): (u64, u64),
        host: &mut dyn Host,
    ) {
        self.large_requests.note(&self.registry, command, args, request, || host.client_label());
        self.large_replies.note(&self.registry, command, args, reply, || host.client_label());
    }

    /// Whether commands are passed to the host for `MONITOR`.
    pub(crate) fn is_monitored(&self) -> bool {
        self.observers.load(Relaxed) & Observer::Monitor as u8 != 0
    }

    /// Passes a command with its database to the host for `MONITOR`, and whether a script called
    /// it.
    #[cold]
    pub(crate) fn show(
        &self,
        command: Command,
        args: &[&[u8]],
        (db, in_script): (u16, bool),
        host: &mut dyn Host,
    ) {
        host.show(db, in_script, &shown(self.registry.full_name(command.index), args));
    }

    #[cold]
    pub(crate) fn count_error(&self, fail: &Fail) {
        lock(&self.errors).count(fail.code(), self.dialect());
    }
}

/// Error replies, by their codes.
#[derive(Default)]
struct Errors {
    by_code: BTreeMap<Vec<u8>, u64>,
    total: u64,
    disabled: bool,
}

impl Errors {
    /// Counts an error. Above the limit of codes, Redis stops tracking codes, and Valkey counts new
    /// codes of scripts together.
    fn count(&mut self, code: &[u8], dialect: Dialect) {
        self.total += 1;
        let is_full = self.by_code.len() >= ERROR_CODES_MAX;
        if let Some(count) = self.by_code.get_mut(code) {
            *count += 1;
        } else if is_full && dialect.is_valkey() {
            let is_own = OWN_CODES.split(' ').any(|own| own.as_bytes() == code);
            let code = if is_own { code } else { ERRORS_OVERFLOW };
            *self.by_code.entry(code.to_vec()).or_default() += 1;
        } else if self.by_code.len() < ERROR_CODES_MAX && !self.disabled {
            self.by_code.insert(code.to_vec(), 1);
        } else if !self.disabled {
            self.disabled = true;
            self.by_code = BTreeMap::from([(ERRORS_DISABLED.to_vec(), 1)]);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Statistics of one thread; only the thread itself increments them.
pub struct ThreadStats {
    cells: Box<[Cell]>,
    track_latency: AtomicBool,
    /// Commands that have read copies of other nodes' keys.
    of_copies: AtomicU64,
}

#[derive(Default)]
struct Cell {
    calls: AtomicU64,
    nanos: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    durations: OnceLock<Box<[AtomicU32; BUCKETS]>>,
}

impl ThreadStats {
    pub(crate) fn new(commands: usize) -> Self {
        ThreadStats {
            cells: (0..commands).map(|_| Cell::default()).collect(),
            track_latency: AtomicBool::new(true),
            of_copies: AtomicU64::new(0),
        }
    }

    pub(crate) fn read_copies(&self) {
        add(&self.of_copies, 1);
    }

    #[inline]
    pub(crate) fn called(&self, index: u16, nanos: u64, failed: bool) {
        let cell = &self.cells[usize::from(index)];
        add(&cell.calls, 1);
        add(&cell.nanos, nanos);
        if failed {
            add(&cell.failed, 1);
        }
        if self.track_latency.load(Relaxed) {
            let counts =
                cell.durations.get_or_init(|| Box::new([const { AtomicU32::new(0) }; BUCKETS]));
            let count = &counts[bucket(nanos)];
            count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    pub(crate) fn rejected(&self, index: u16) {
        add(&self.cells[usize::from(index)].rejected, 1);
    }
}

#[inline]
fn add(figure: &AtomicU64, n: u64) {
    figure.store(figure.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Sums of one command.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandStats {
    /// Executions, including failed ones.
    pub calls: u64,
    /// Time spent executing.
    pub nanos: u64,
    /// Calls rejected before execution.
    pub rejected: u64,
    /// Executions that ended in an error.
    pub failed: u64,
}

/// Sub-buckets per power of two, as a logarithm: the relative error is below 1/8.
const STEPS_LOG2: u32 = 3;
/// Durations from 2^40 ns (18 minutes) on share the last bucket.
const BUCKETS: usize = (41 - STEPS_LOG2 as usize) << STEPS_LOG2;

/// Distribution of durations, in log-linear buckets.
#[derive(Clone, Debug)]
pub struct Durations {
    counts: [u64; BUCKETS],
}

impl Default for Durations {
    fn default() -> Self {
        Durations { counts: [0; BUCKETS] }
    }
}

impl Durations {
    /// Number of durations.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Percentile of the durations, in nanoseconds.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = (self.total() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(index);
            }
        }
        0
    }

    /// Number of durations up to `nanos`, to the resolution of the buckets.
    pub fn at_most(&self, nanos: u64) -> u64 {
        self.counts
            .iter()
            .enumerate()
            .filter(|&(i, _)| upper(i) <= nanos)
            .map(|(_, count)| count)
            .sum()
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let steps = 1u64 << STEPS_LOG2;
    if nanos < steps {
        return nanos as usize;
    }
    let exponent = nanos.ilog2() - STEPS_LOG2;
    let index = (u64::from(exponent) << STEPS_LOG2) + (nanos >> exponent);
    (index as usize).min(BUCKETS - 1)
}

/// The largest duration of a bucket.
fn upper(index: usize) -> u64 {
    let steps = 1usize << STEPS_LOG2;
    if index < steps {
        return index as u64;
    }
    let exponent = (index >> STEPS_LOG2) - 1;
    let mantissa = (index & (steps - 1)) + steps;
    ((mantissa as u64 + 1) << exponent) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_codes_are_not_counted_apart() {
        let mut errors = Errors::default();
        for i in 0..1000 {
            errors.count(format!("E{}", i % ERROR_CODES_MAX).as_bytes(), Dialect::Redis);
        }
        assert_eq!((errors.by_code.len(), errors.disabled), (ERROR_CODES_MAX, false));
        for i in 0..1000 {
            errors.count(format!("E{i}").as_bytes(), Dialect::Redis);
        }
        assert_eq!(errors.by_code, BTreeMap::from([(ERRORS_DISABLED.to_vec(), 1)]));
        assert_eq!((errors.total, errors.disabled), (2000, true));
    }

    #[test]
    fn valkey_counts_made_up_codes_together() {
        let mut errors = Errors::default();
        for i in 0..1000 {
            errors.count(format!("E{i}").as_bytes(), Dialect::Valkey);
        }
        for code in ["ERR", "E1", "made", "up"] {
            errors.count(code.as_bytes(), Dialect::Valkey);
        }
        let count = |code: &[u8]| errors.by_code.get(code).copied();
        let together = 1000 - ERROR_CODES_MAX as u64 + 2;
        assert_eq!((count(b"ERR"), count(b"E1"), count(b"made")), (Some(1), Some(2), None));
        assert_eq!(count(ERRORS_OVERFLOW), Some(together));
        assert!(!errors.disabled);
    }

    #[test]
    fn every_duration_is_within_an_eighth_of_its_bucket() {
        for nanos in (0..1 << 12).chain([1 << 20, (1 << 30) + 12_345, 1 << 39]) {
            let index = bucket(nanos);
            assert!(nanos <= upper(index), "{nanos} in {index}");
            assert!(index == 0 || nanos > upper(index - 1), "{nanos} in {index}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
