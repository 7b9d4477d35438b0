//! The latency monitor: events that took longer than `latency-monitor-threshold`, per kind of
//! event.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) mod commands;
mod graph;
mod report;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Samples kept per event, as in Redis.
const SAMPLES_MAX: usize = 160;

/// Worst latency of an event within one second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Unix time in seconds.
    pub at: u64,
    /// Milliseconds.
    pub millis: u64,
}

/// Latency history of one kind of event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Samples, oldest first.
    pub samples: VecDeque<Sample>,
    /// Worst latency ever, in milliseconds.
    pub max_millis: u64,
    /// All latencies together, in milliseconds.
    pub sum_millis: u64,
    /// Number of times that the latency was above the threshold.
    pub count: u64,
}

/// Events above the threshold.
pub struct LatencyMonitor {
    /// Nanoseconds; `u64::MAX`: off.
    threshold_nanos: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Event>>,
}

impl Default for LatencyMonitor {
    fn default() -> Self {
        LatencyMonitor { threshold_nanos: AtomicU64::new(u64::MAX), events: Mutex::default() }
    }
}

impl LatencyMonitor {
    /// Sets the threshold in milliseconds; 0 turns the monitor off.
    pub fn configure(&self, threshold_millis: u64) {
        let nanos = match threshold_millis {
            0 => u64::MAX,
            millis => millis.saturating_mul(NANOS_PER_MILLI),
        };
        self.threshold_nanos.store(nanos, Relaxed);
    }

    /// The threshold in milliseconds; 0: off.
    pub fn threshold_millis(&self) -> u64 {
        match self.threshold_nanos() {
            u64::MAX => 0,
            nanos => nanos / NANOS_PER_MILLI,
        }
    }

    /// Records the duration of `event`, if it is above the threshold.
    pub fn note(&self, event: &'static str, nanos: u64) {
        if nanos < self.threshold_nanos() {
            return;
        }
        let millis = nanos / NANOS_PER_MILLI;
        let at = now();
        let mut events = self.events();
        let event = events.entry(event).or_default();
        event.max_millis = event.max_millis.max(millis);
        event.sum_millis = event.sum_millis.saturating_add(millis);
        event.count += 1;
        match event.samples.back_mut() {
            Some(last) if last.at == at => last.millis = last.millis.max(millis),
            _ => {
                if event.samples.len() == SAMPLES_MAX {
                    event.samples.pop_front();
                }
                event.samples.push_back(Sample { at, millis });
            }
        }
    }

    /// Every event with a sample.
    pub fn snapshot(&self) -> BTreeMap<&'static str, Event> {
        self.events().clone()
    }

    /// Forgets one event; true if it was known.
    pub fn reset(&self, event: &[u8]) -> bool {
        let mut events = self.events();
        let known = events.keys().find(|name| name.as_bytes().eq_ignore_ascii_case(event)).copied();
        known.is_some_and(|name| events.remove(name).is_some())
    }

    /// Forgets every event; returns how many there were.
    pub fn reset_all(&self) -> usize {
        std::mem::take(&mut *self.events()).len()
    }

    /// The threshold in nanoseconds; `u64::MAX`: off.
    #[inline]
    pub fn threshold_nanos(&self) -> u64 {
        self.threshold_nanos.load(Relaxed)
    }

    pub(crate) fn note_command(&self, is_fast: bool, nanos: u64) {
        self.note(if is_fast { "fast-command" } else { "command" }, nanos);
    }

    fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unix time in seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
