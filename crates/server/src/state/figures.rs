//! Figures of the whole server, for `INFO`.

use crate::observation::rate_limited_log::RateLimited;
use crate::observation::traffic::Totals;
use crate::unix_time::unix_ms;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Counted by workers, cleared by `CONFIG RESETSTAT`.
#[derive(Default)]
pub struct Figures {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections refused because of `maxclients`.
    pub refused: AtomicU64,
    /// Connections closed because of their output.
    pub output_limit_closed: AtomicU64,
    /// Connections closed because of their input.
    pub input_limit_closed: AtomicU64,
    /// Connections closed because all clients together held too much memory.
    pub evicted_clients: AtomicU64,
    /// Failed attempts to log in.
    pub(crate) failed_logins: RateLimited,
    /// Connections that spoke HTTP.
    pub(crate) http_attempts: RateLimited,
    /// Certificates of clients that name no user.
    pub strange_certificates: AtomicU64,
    /// Most bytes that the keyspace used, as far as it was looked at; not cleared.
    pub memory_peak: AtomicU64,
    /// Time of the peak, in Unix milliseconds.
    pub memory_peak_at: AtomicI64,
    /// Bytes that the general allocator had handed out before the data was loaded.
    pub startup_bytes: AtomicU64,
    /// Number of calls of `MEMORY PURGE`: every worker follows in its upkeep.
    pub purges: AtomicU64,
    /// Since when the memory limit is exceeded, in Unix milliseconds; 0 if it is not.
    pub over_limit_since: AtomicI64,
    /// Milliseconds for which it was, before.
    pub over_limit_ms: AtomicI64,
    /// CPU time of all threads when `HOTKEYS` began to collect: in user mode, and in the kernel.
    pub hotkeys_cpu_us: [AtomicU64; 2],
    /// Counters when they were last reset.
    pub(crate) before: Mutex<Totals>,
}

impl Figures {
    /// Notes how many bytes the keyspace uses; returns the most that it has used.
    pub fn note_memory(&self, used: u64) -> u64 {
        let peak = self.memory_peak.fetch_max(used, Relaxed);
        if used > peak {
            self.memory_peak_at.store(unix_ms(), Relaxed);
        }
        peak.max(used)
    }
}
