//! The slow log: commands that took longer than `slowlog-log-slower-than`.

use crate::ctx::Host;
use crate::registry::Command;
use crate::spec::{CommandSpec, Flags};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

mod commands;

/// `SLOWLOG` and its subcommands.
pub(crate) static COMMANDS: &[CommandSpec] = commands::COMMANDS;

/// One slow command.
#[derive(Clone, Debug)]
pub struct SlowEntry {
    /// Number of the entry, unique while the server runs.
    pub id: u64,
    /// Unix time in seconds.
    pub at: u64,
    /// Microseconds that the execution took.
    pub micros: u64,
    /// Arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// Address of the client.
    pub address: String,
    /// Name of the client.
    pub name: String,
}

/// The log, newest first.
pub struct SlowLog {
    threshold_micros: AtomicI64,
    len_max: AtomicU64,
    args_max: AtomicUsize,
    arg_len_max: AtomicUsize,
    next_id: AtomicU64,
    entries: Mutex<VecDeque<SlowEntry>>,
}

impl Default for SlowLog {
    fn default() -> Self {
        SlowLog {
            threshold_micros: AtomicI64::new(10_000),
            len_max: AtomicU64::new(128),
            args_max: AtomicUsize::new(32),
            arg_len_max: AtomicUsize::new(128),
            next_id: AtomicU64::new(0),
            entries: Mutex::default(),
        }
    }
}

impl SlowLog {
    /// Sets the threshold (microseconds; negative: nothing is logged) and the length.
    pub fn configure(&self, threshold_micros: i64, len_max: u64) {
        self.threshold_micros.store(threshold_micros, Relaxed);
        self.len_max.store(len_max, Relaxed);
        self.entries().truncate(len_max as usize);
    }

    /// Sets how many arguments are kept of an entry, at least 2, and how many bytes of an argument; what is left out is
    /// said in the last.
    pub fn shorten(&self, args_max: usize, arg_len_max: usize) {
        self.args_max.store(args_max, Relaxed);
        self.arg_len_max.store(arg_len_max, Relaxed);
    }

    /// The newest `count` entries.
    pub fn newest(&self, count: usize) -> Vec<SlowEntry> {
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

    /// Forgets all entries.
    pub fn clear(&self) {
        self.entries().clear();
    }

    pub(crate) fn threshold_nanos(&self) -> u64 {
        match self.threshold_micros.load(Relaxed) {
            micros if micros < 0 => u64::MAX,
            micros => (micros as u64).saturating_mul(1000),
        }
    }

    pub(crate) fn note(&self, command: Command, args: &[&[u8]], nanos: u64, host: &mut dyn Host) {
        let len_max = self.len_max.load(Relaxed) as usize;
        if nanos < self.threshold_nanos()
            || command.spec.flags.contains(Flags::SKIP_SLOWLOG)
            || len_max == 0
        {
            return;
        }
        let (address, name) = host.client_label();
        let entry = SlowEntry {
            id: self.next_id.fetch_add(1, Relaxed),
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            micros: nanos / 1000,
            args: shortened(args, self.args_max.load(Relaxed), self.arg_len_max.load(Relaxed)),
            address,
            name,
        };
        let mut entries = self.entries();
        entries.push_front(entry);
        entries.truncate(len_max);
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<SlowEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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
