//! Options and statistics of a near cache, and the state that its connections' tasks share.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::entry::Question;
use super::store::Store;
use crate::error::Result;
use crate::reply::FromReply;
use crate::request::Command;
use crate::telemetry::{NearFigures, Telemetry};

/// The owner of the replies of a near cache that has one connection.
pub(super) const SOLE_OWNER: u64 = 1;

/// Options of a near cache.
#[derive(Clone, Debug)]
pub struct NearCacheOptions {
    /// Bytes of keys, commands and replies at most.
    pub bytes_max: usize,
    /// Keeps replies no longer than this, also those of keys that do not expire.
    pub ttl_max: Option<Duration>,
    /// With prefixes, the server invalidates every changed key that begins with one of them
    /// (`BCAST`), and remembers nothing of single keys; other keys are not cached. Without, it
    /// remembers the keys that were read (`OPTIN`).
    pub prefixes: Vec<Vec<u8>>,
}

impl Default for NearCacheOptions {
    /// 128 MiB, as long as keys live, by key.
    fn default() -> Self {
        Self { bytes_max: 128 * 1024 * 1024, ttl_max: None, prefixes: Vec::new() }
    }
}

/// Statistics of a near cache.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct NearCacheStatistics {
    /// Reads that were answered from memory.
    pub hits: u64,
    /// Reads that asked the server.
    pub misses: u64,
    /// Reads that waited for the reply of another read.
    pub joined: u64,
    /// Keys that the server invalidated.
    pub invalidations: u64,
    /// Keys that were dropped to make room.
    pub evictions: u64,
    /// Keys now.
    pub keys: usize,
    /// Bytes now.
    pub bytes: usize,
}

/// State of the cache in the tasks of its connections.
pub(super) struct Shared {
    pub(super) store: Store,
    pub(super) options: NearCacheOptions,
}

impl Shared {
    pub(super) fn new(options: NearCacheOptions) -> Arc<Self> {
        Arc::new(Self { store: Store::new(options.bytes_max), options })
    }

    /// The reply to a command as a type, if it is cached.
    pub(super) fn read<R: FromReply>(&self, command: &Command) -> Option<Result<R>> {
        let key = command.arguments().nth(command.info.cached_key?)?;
        self.store.read(key, Question::of(command))
    }

    /// The key of a command, if its reply may be cached.
    pub(super) fn key_of<'a>(&self, command: &'a Command) -> Option<&'a [u8]> {
        let at = command.info.cached_key?;
        let key = command.arguments().nth(at)?;
        let prefixes = &self.options.prefixes;
        (prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix)))
            .then_some(key)
    }

    /// Registers metrics of the cache, as long as the cache exists.
    pub(super) fn observed_by(self: &Arc<Self>, telemetry: &Telemetry) {
        let cache = Arc::downgrade(self);
        telemetry.observe_near(move || {
            let now = cache.upgrade()?.statistics();
            Some(NearFigures {
                hits: now.hits,
                misses: now.misses + now.joined,
                evictions: now.evictions,
                invalidations: now.invalidations,
                keys: now.keys,
                bytes: now.bytes,
            })
        });
    }

    pub(super) fn statistics(&self) -> NearCacheStatistics {
        let store = &self.store;
        let (keys, bytes) = (store.size().0, store.bytes());
        NearCacheStatistics {
            hits: store.hits(),
            misses: store.misses.load(Relaxed),
            joined: store.joined.load(Relaxed),
            invalidations: store.invalidations.load(Relaxed),
            evictions: store.evictions.load(Relaxed),
            keys,
            bytes,
        }
    }
}
