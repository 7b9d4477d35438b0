//! Settings of the query engine (`search-*`).

use petrel_search::query::Dialect;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Settings of the query engine, as `CONFIG SET search-...` sets them.
#[derive(Clone, Copy, Debug)]
pub struct SearchDefaults {
    /// Milliseconds after which a query ends; 0 for never.
    pub timeout_ms: u64,
    /// Whether a query that ends early fails; else it returns the result so far.
    pub fails_on_timeout: bool,
    /// Maximum number of results of `FT.SEARCH`.
    pub search_results_max: u64,
    /// Maximum number of results of `FT.AGGREGATE`.
    pub aggregate_results_max: u64,
    /// Dialect of queries that state none.
    pub dialect: u32,
    /// Milliseconds after which an unused cursor is closed, at most.
    pub cursor_idle_ms: u64,
    /// Maximum number of cursors of an index.
    pub cursors_max: u64,
    /// Reaction of an aggregation to an exceeded memory limit.
    pub on_oom: OnOom,
}

/// Reaction of an aggregation to an exceeded memory limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnOom {
    /// Continue.
    Ignore,
    /// Return the result so far, with a warning.
    #[default]
    Return,
    /// Fail.
    Fail,
}

impl Default for SearchDefaults {
    fn default() -> Self {
        SearchDefaults {
            timeout_ms: 500,
            fails_on_timeout: false,
            search_results_max: 1_000_000,
            aggregate_results_max: u64::MAX,
            dialect: 1,
            cursor_idle_ms: 300_000,
            cursors_max: 128,
            on_oom: OnOom::Return,
        }
    }
}

/// The settings, shared by all threads.
#[derive(Debug)]
pub struct SearchSettings {
    timeout_ms: AtomicU64,
    fails_on_timeout: AtomicBool,
    search_results_max: AtomicU64,
    aggregate_results_max: AtomicU64,
    dialect: AtomicU32,
    cursor_idle_ms: AtomicU64,
    cursors_max: AtomicU64,
    on_oom: AtomicU32,
}

impl Default for SearchSettings {
    fn default() -> Self {
        let settings = SearchSettings {
            timeout_ms: AtomicU64::new(0),
            fails_on_timeout: AtomicBool::new(false),
            search_results_max: AtomicU64::new(0),
            aggregate_results_max: AtomicU64::new(0),
            dialect: AtomicU32::new(1),
            cursor_idle_ms: AtomicU64::new(0),
            cursors_max: AtomicU64::new(0),
            on_oom: AtomicU32::new(0),
        };
        settings.set(SearchDefaults::default());
        settings
    }
}

impl SearchSettings {
    /// Replaces all settings.
    pub fn set(&self, settings: SearchDefaults) {
        self.timeout_ms.store(settings.timeout_ms, Relaxed);
        self.fails_on_timeout.store(settings.fails_on_timeout, Relaxed);
        self.search_results_max.store(settings.search_results_max, Relaxed);
        self.aggregate_results_max.store(settings.aggregate_results_max, Relaxed);
        self.dialect.store(settings.dialect, Relaxed);
        self.cursor_idle_ms.store(settings.cursor_idle_ms, Relaxed);
        self.cursors_max.store(settings.cursors_max, Relaxed);
        self.on_oom.store(settings.on_oom as u32, Relaxed);
    }

    /// Time after which a query ends; zero for never.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.load(Relaxed))
    }

    /// Whether a query that ends early fails.
    pub fn fails_on_timeout(&self) -> bool {
        self.fails_on_timeout.load(Relaxed)
    }

    /// Maximum number of results of `FT.SEARCH`.
    pub fn search_results_max(&self) -> u64 {
        self.search_results_max.load(Relaxed)
    }

    /// Maximum number of results of `FT.AGGREGATE`.
    pub fn aggregate_results_max(&self) -> usize {
        usize::try_from(self.aggregate_results_max.load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// Dialect of queries that state none.
    pub fn dialect(&self) -> Dialect {
        Dialect::of(self.dialect.load(Relaxed)).unwrap_or_default()
    }

    /// Milliseconds after which an unused cursor is closed, at most.
    pub fn cursor_idle_ms(&self) -> u64 {
        self.cursor_idle_ms.load(Relaxed)
    }

    /// Maximum number of cursors of an index.
    pub fn cursors_max(&self) -> usize {
        usize::try_from(self.cursors_max.load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// Reaction of an aggregation to an exceeded memory limit.
    pub fn on_oom(&self) -> OnOom {
        match self.on_oom.load(Relaxed) {
            0 => OnOom::Ignore,
            1 => OnOom::Return,
            _ => OnOom::Fail,
        }
    }
}
