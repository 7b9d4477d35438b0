//! Hot keys: the keys with the most processor time and network bytes, recorded on an operator's
//! request (`HOTKEYS`).
//!
//! Commands are recorded after execution ([`Hotkeys::note`]), all or a sample. The costs of a
//! command are divided among its keys. The number of stored keys is bounded: see [`Top`].

mod top;

use parking::Guarded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
pub use top::Top;

/// A mutex that ignores poisoning.
mod parking {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Mutex without poisoning.
    #[derive(Debug, Default)]
    pub struct Guarded<T>(Mutex<T>);

    impl<T> Guarded<T> {
        /// Locks the mutex.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

/// Maximum length of a recorded key, in bytes.
const KEY_LEN_MAX: usize = 16 * 1024;

/// Arguments of `HOTKEYS START`.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Processor time of keys.
    pub time: bool,
    /// Bytes of keys on the network.
    pub bytes: bool,
    /// Number of keys to report.
    pub keys: usize,
    /// Sampling ratio: one of this many commands is recorded.
    pub ratio: u64,
    /// Milliseconds after which the collection stops.
    pub millis_max: Option<i64>,
}

/// Collection, active or stopped.
#[derive(Debug)]
pub struct Collection {
    /// Arguments of the collection.
    pub wish: Wish,
    /// Start, in Unix milliseconds.
    pub began_at: i64,
    /// End, in Unix milliseconds; `None` while it is active.
    pub ended_at: Option<i64>,
    /// Nanoseconds by key.
    pub times: Top,
    /// Bytes by key.
    pub sizes: Top,
}

impl Collection {
    /// Whether the collection is active; ends it if its time is over.
    pub fn is_active(&mut self, now_ms: i64) -> bool {
        if let (None, Some(millis)) = (self.ended_at, self.wish.millis_max) {
            let end = self.began_at.saturating_add(millis);
            self.ended_at = (now_ms >= end).then_some(end);
        }
        self.ended_at.is_none()
    }
}

/// Hot key collection of the server.
#[derive(Debug, Default)]
pub struct Hotkeys {
    collection: Guarded<Option<Collection>>,
    /// Commands with keys since it began.
    commands: AtomicU64,
    /// Nanoseconds and bytes of these commands.
    totals: [AtomicU64; 2],
    /// [`Wish::ratio`]; 0 if nothing is collected.
    ratio: AtomicU64,
}

impl Hotkeys {
    /// Starts a collection; false if one is active.
    pub fn start(&self, wish: Wish, now_ms: i64) -> bool {
        let mut collection = self.collection.lock();
        if collection.as_mut().is_some_and(|collection| collection.is_active(now_ms)) {
            return false;
        }
        for total in self.totals.iter().chain([&self.commands]) {
            total.store(0, Relaxed);
        }
        let (times, sizes) = (Top::new(wish.keys), Top::new(wish.keys));
        *collection = Some(Collection { wish, began_at: now_ms, ended_at: None, times, sizes });
        self.ratio.store(wish.ratio, Relaxed);
        true
    }

    /// Ends the collection; false if none was active.
    pub fn stop(&self, now_ms: i64) -> bool {
        self.ratio.store(0, Relaxed);
        let mut collection = self.collection.lock();
        let Some(collection) = &mut *collection else { return false };
        let was_active = collection.is_active(now_ms);
        collection.ended_at.get_or_insert(now_ms);
        was_active
    }

    /// Discards the collection; false if it is active.
    pub fn forget(&self, now_ms: i64) -> bool {
        let mut collection = self.collection.lock();
        let is_active = collection.as_mut().is_some_and(|collection| collection.is_active(now_ms));
        if !is_active {
            *collection = None;
        }
        !is_active
    }

    /// Calls `look` with the collection, and with the nanoseconds and bytes of all commands.
    pub fn look<R>(&self, look: impl FnOnce(&mut Collection, [u64; 2]) -> R) -> Option<R> {
        let totals = [&self.totals[0], &self.totals[1]].map(|total| total.load(Relaxed));
        self.collection.lock().as_mut().map(|collection| look(collection, totals))
    }

    /// Whether a collection is active.
    pub fn is_collecting(&self) -> bool {
        self.ratio.load(Relaxed) > 0
    }

    /// Records the keys, nanoseconds and bytes of a command.
    pub fn note<'k>(
        &self,
        keys: impl ExactSizeIterator<Item = &'k [u8]>,
        (nanos, bytes): (u64, u64),
        now_ms: i64,
    ) {
        let (ratio, count) = (self.ratio.load(Relaxed), keys.len() as u64);
        if ratio == 0 || count == 0 {
            return;
        }
        self.totals[0].fetch_add(nanos, Relaxed);
        self.totals[1].fetch_add(bytes, Relaxed);
        if !self.commands.fetch_add(1, Relaxed).is_multiple_of(ratio) {
            return;
        }
        let mut collection = self.collection.lock();
        let Some(collection) = &mut *collection else { return };
        if !collection.is_active(now_ms) {
            self.ratio.store(0, Relaxed);
            return;
        }
        for key in keys.filter(|key| key.len() <= KEY_LEN_MAX) {
            if collection.wish.time {
                collection.times.add(key, nanos / count);
            }
            if collection.wish.bytes {
                collection.sizes.add(key, bytes / count);
            }
        }
    }
}
