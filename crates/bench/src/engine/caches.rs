//! Caches and maps that `engine` compares, behind one interface. All keys are bytes, all values
//! [`Bytes`] (Petrel copies short ones into its entries), and all except Petrel hash with foldhash.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use foldhash::fast::RandomState;
use petrel_keyspace::{Handle, Keyspace, Options, Policy, Value};

/// Items of a cache that has no bound.
const ITEMS_UNBOUNDED: usize = 1 << 20;

/// A cache or map that threads share.
pub trait Cache: Sync {
    /// A thread's way in.
    type View<'c>: View
    where
        Self: 'c;

    /// A way in for the calling thread.
    fn attach(&self) -> Self::View<'_>;

    /// Entries that were evicted so far.
    fn evicted(&self) -> u64 {
        0
    }
}

/// Operations of a thread on a cache.
pub trait View {
    /// Reads the value in place, or a reference or copy from the library; returns its first byte.
    fn get(&mut self, key: &[u8]) -> Option<u8>;

    /// Stores a copy of a value.
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_shared(key, Bytes::copy_from_slice(value));
    }

    /// Stores a value that is shared with others.
    fn put_shared(&mut self, key: &[u8], value: Bytes);
}

/// Implements [`Cache`] and [`View`] for a type that threads share by reference: lookup, insert,
/// and the number of evictions.
macro_rules! shared {
    ($of:ty, |$own:ident, $key:ident, $value:ident| $get:expr, $put:expr, $evicted:expr) => {
        impl Cache for $of {
            type View<'c> = &'c $of;

            fn attach(&self) -> &$of {
                self
            }

            fn evicted(&self) -> u64 {
                let $own = self;
                let _ = $own;
                $evicted
            }
        }

        impl View for &$of {
            fn get(&mut self, $key: &[u8]) -> Option<u8> {
                let $own: &$of = self;
                $get?.first().copied()
            }

            fn put_shared(&mut self, key: &[u8], $value: Bytes) {
                let ($own, $key): (&$of, Box<[u8]>) = (self, key.into());
                // An old value is freed without a lock.
                let _old = $put;
            }
        }
    };
}

/// Petrel's keyspace.
pub struct Petrel(Arc<Keyspace>);

impl Petrel {
    /// Makes a keyspace, with a limit on all its memory if bounded.
    pub fn new(bytes: Option<u64>) -> Petrel {
        let options = bytes.map_or_else(Options::default, Options::for_bytes);
        let keyspace = Keyspace::new(&Options { databases: 1, ..options });
        if let Some(bytes) = bytes {
            keyspace.set_memory_limit(bytes + keyspace.stats().used, Policy::AllKeysS3Fifo);
        }
        Petrel(keyspace)
    }
}

impl Cache for Petrel {
    type View<'c> = Handle;

    fn attach(&self) -> Handle {
        self.0.attach()
    }

    fn evicted(&self) -> u64 {
        self.0.stats().evicted
    }
}

impl View for Handle {
    fn get(&mut self, key: &[u8]) -> Option<u8> {
        self.load_with(0, key, |view| view.string().ok().and_then(first_byte)).flatten()
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        // What does not fit is not stored: a miss later.
        let _ = self.store(0, key, Value::Bytes(value), None);
    }

    fn put_shared(&mut self, key: &[u8], value: Bytes) {
        let _ = self.store(0, key, Value::Blob(value), None);
    }
}

fn first_byte(value: petrel_keyspace::StrRef<'_>) -> Option<u8> {
    match value {
        petrel_keyspace::StrRef::Bytes(bytes) => bytes.first().copied(),
        petrel_keyspace::StrRef::Blob(bytes) => bytes.first().copied(),
        petrel_keyspace::StrRef::Int(_) => None,
    }
}

/// Weight of an entry in a weighing cache.
fn weight(key: &[u8], value: &Bytes) -> u64 {
    (key.len() + value.len()) as u64
}

/// `moka`: TinyLFU.
pub struct Moka {
    cache: moka::sync::Cache<Box<[u8]>, Bytes, RandomState>,
    evicted: Arc<AtomicU64>,
}

impl Moka {
    /// Makes a cache, with a limit on bytes of keys and values if bounded.
    pub fn new(bytes: Option<u64>) -> Moka {
        let evicted = Arc::new(AtomicU64::new(0));
        let mut builder = moka::sync::Cache::<Box<[u8]>, Bytes>::builder();
        if let Some(bytes) = bytes {
            let counter = evicted.clone();
            builder = builder
                .max_capacity(bytes)
                .weigher(|key, value| weight(key, value) as u32)
                .eviction_listener(move |_, _, cause| {
                    counter.fetch_add(u64::from(cause.was_evicted()), Relaxed);
                });
        }
        Moka { cache: builder.build_with_hasher(RandomState::default()), evicted }
    }
}

shared!(Moka, |own, key, value| own.cache.get(key), own.cache.insert(key, value), {
    own.cache.run_pending_tasks();
    own.evicted.load(Relaxed)
});

/// `quick_cache`: a form of S3-FIFO.
pub struct QuickCache {
    cache: quick_cache::sync::Cache<Box<[u8]>, Bytes, Weight, RandomState, Evictions>,
    evictions: Evictions,
}

#[derive(Clone)]
struct Weight;

impl quick_cache::Weighter<Box<[u8]>, Bytes> for Weight {
    fn weight(&self, key: &Box<[u8]>, value: &Bytes) -> u64 {
        weight(key, value)
    }
}

#[derive(Clone, Default)]
struct Evictions(Arc<AtomicU64>);

impl quick_cache::Lifecycle<Box<[u8]>, Bytes> for Evictions {
    type RequestState = ();

    /// Unlike `on_evict` not called for values that are replaced.
    fn before_evict(&self, (): &mut (), _: &Box<[u8]>, _: &mut Bytes) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl QuickCache {
    /// Makes a cache for about `entries` entries, with a limit on bytes of keys and values if
    /// bounded.
    pub fn new(bytes: Option<u64>, entries: usize) -> QuickCache {
        let evictions = Evictions::default();
        let entries = bytes.map_or(ITEMS_UNBOUNDED.max(entries), |_| entries);
        let cache = quick_cache::sync::Cache::with(
            entries,
            // Its shards add up their shares.
            bytes.unwrap_or(u64::MAX >> 16),
            Weight,
            RandomState::default(),
            evictions.clone(),
        );
        QuickCache { cache, evictions }
    }
}

shared!(
    QuickCache,
    |own, key, value| own.cache.get(key),
    own.cache.insert(key, value),
    own.evictions.0.load(Relaxed)
);

/// `dashmap`: shards of hash tables under read-write locks.
pub type DashMap = dashmap::DashMap<Box<[u8]>, Bytes, RandomState>;

shared!(DashMap, |own, key, value| own.get(key), own.insert(key, value), 0);

/// `papaya`: a table without locks.
pub type Papaya = papaya::HashMap<Box<[u8]>, Bytes, RandomState>;

shared!(Papaya, |own, key, value| own.pin().get(key), own.pin().insert(key, value).is_some(), 0);

type Map = HashMap<Box<[u8]>, Bytes, RandomState>;

/// The map of std under a mutex.
pub type MutexMap = Mutex<Map>;

shared!(MutexMap, |own, key, value| locked(own).get(key), locked(own).insert(key, value), 0);

fn locked(map: &MutexMap) -> MutexGuard<'_, Map> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The map of std under a read-write lock.
pub type RwLockMap = RwLock<Map>;

shared!(
    RwLockMap,
    |own, key, value| own.read().unwrap_or_else(PoisonError::into_inner).get(key),
    own.write().unwrap_or_else(PoisonError::into_inner).insert(key, value),
    0
);
