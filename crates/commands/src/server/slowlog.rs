//! Slow log and command logs: commands by execution time (`slowlog-log-slower-than`), request size
//! and reply size.

use crate::registry::{Command, Registry};
use crate::server::redact::shown;
use petrel_table::Flags;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) mod commands;

/// Entry of a slow or large command.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Number of the entry, unique while the server runs.
    pub id: u64,
    /// Unix time in seconds.
    pub at: u64,
    /// Microseconds that the execution took, or bytes.
    pub cost: u64,
    /// Arguments, shortened, and without secrets.
    pub args: Vec<Vec<u8>>,
    /// Number of arguments of the call, with the command's name.
    pub arg_count: usize,
    /// Address of the client.
    pub address: String,
    /// Name of the client.
    pub name: String,
}

/// Totals since the start or the last `CONFIG RESETSTAT`, including entries that have left the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogTotals {
    /// Entries.
    pub count: u64,
    /// Nanoseconds or bytes of all of them.
    pub sum: u64,
    /// Largest cost of an entry, in the same unit.
    pub max: u64,
}

impl LogTotals {
    fn add(&mut self, cost: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(cost);
        self.max = self.max.max(cost);
    }
}

/// A log, newest entry first.
pub struct CommandLog {
    /// Minimum nanoseconds or bytes of a logged command; `u64::MAX`: off.
    threshold: AtomicU64,
    /// Factor between the unit of `threshold` and the unit of the configuration and replies.
    unit: u64,
    len_max: AtomicU64,
    args_max: AtomicUsize,
    arg_len_max: AtomicUsize,
    next_id: AtomicU64,
    entries: Mutex<VecDeque<LogEntry>>,
    /// Totals by command index.
    totals: Mutex<BTreeMap<u16, LogTotals>>,
}

impl CommandLog {
    /// A log of times: configured in microseconds, measured in nanoseconds.
    pub fn of_times() -> Self {
        Self::new(1000, 10_000)
    }

    /// A log of sizes.
    pub fn of_sizes() -> Self {
        Self::new(1, 1 << 20)
    }

    fn new(unit: u64, threshold: u64) -> Self {
        CommandLog {
            threshold: AtomicU64::new(threshold * unit),
            unit,
            len_max: AtomicU64::new(128),
            args_max: AtomicUsize::new(32),
            arg_len_max: AtomicUsize::new(128),
            next_id: AtomicU64::new(0),
            entries: Mutex::default(),
            totals: Mutex::default(),
        }
    }

    /// Sets the threshold (microseconds or bytes; negative: off) and the length.
    pub fn configure(&self, threshold: i64, len_max: u64) {
        let threshold = match threshold {
            threshold if threshold < 0 => u64::MAX,
            threshold => (threshold as u64).saturating_mul(self.unit),
        };
        self.threshold.store(threshold, Relaxed);
        self.len_max.store(len_max, Relaxed);
        self.entries().truncate(len_max as usize);
    }

    /// Sets the number of arguments kept per entry, at least 2, and the bytes kept per argument. A
    /// note in the last place states the number of omitted arguments.
    pub fn shorten(&self, args_max: usize, arg_len_max: usize) {
        self.args_max.store(args_max, Relaxed);
        self.arg_len_max.store(arg_len_max, Relaxed);
    }

    /// The newest `count` entries.
    pub fn newest(&self, count: usize) -> Vec<LogEntry> {
        self.entries().iter().take(count).cloned().collect()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether the log is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries, but keeps the totals.
    pub fn clear(&self) {
        self.entries().clear();
    }

    /// The totals of one command.
    pub fn totals_of(&self, index: u16) -> LogTotals {
        self.totals().get(&index).copied().unwrap_or_default()
    }

    /// The totals of all commands.
    pub fn totals_of_all(&self) -> LogTotals {
        let mut all = LogTotals::default();
        for totals in self.totals().values() {
            all.count += totals.count;
            all.sum = all.sum.saturating_add(totals.sum);
            all.max = all.max.max(totals.max);
        }
        all
    }

    /// Resets the totals.
    pub fn forget_totals(&self) {
        self.totals().clear();
    }

    /// Minimum nanoseconds or bytes of a logged command; `u64::MAX`: off.
    #[inline]
    pub fn threshold(&self) -> u64 {
        self.threshold.load(Relaxed)
    }

    /// Logs a command if it is above the threshold; only then calls `label` for the address and
    /// name of its client.
    pub(crate) fn note<H>(
        &self,
        registry: &Registry<H>,
        command: Command<H>,
        args: &[&[u8]],
        cost: u64,
        label: impl FnOnce() -> (String, String),
    ) {
        if cost < self.threshold() || command.spec.flags.contains(Flags::SKIP_SLOWLOG) {
            return;
        }
        self.totals().entry(command.index).or_default().add(cost);
        let len_max = self.len_max.load(Relaxed) as usize;
        if len_max == 0 {
            return;
        }
        let (address, name) = label();
        let args = shown(registry.full_name(command.index), args);
        let entry = LogEntry {
            id: self.next_id.fetch_add(1, Relaxed),
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            cost: cost / self.unit,
            arg_count: args.len(),
            args: shortened(&args, self.args_max.load(Relaxed), self.arg_len_max.load(Relaxed)),
            address,
            name,
        };
        let mut entries = self.entries();
        entries.push_front(entry);
        entries.truncate(len_max);
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<LogEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn totals(&self) -> MutexGuard<'_, BTreeMap<u16, LogTotals>> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shortened(args: &[&[u8]], args_max: usize, arg_len_max: usize) -> Vec<Vec<u8>> {
    let kept = if args.len() > args_max { args_max.saturating_sub(1) } else { args.len() };
    let mut short: Vec<Vec<u8>> =
        args[..kept].iter().map(|arg| shortened_arg(arg, arg_len_max)).collect();
    if kept < args.len() {
        short.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    short
}

fn shortened_arg(arg: &[u8], len_max: usize) -> Vec<u8> {
    if arg.len() <= len_max {
        return arg.to_vec();
    }
    let mut short = arg[..len_max].to_vec();
    short.extend_from_slice(format!("... ({} more bytes)", arg.len() - len_max).as_bytes());
    short
}
