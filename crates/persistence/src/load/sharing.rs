//! Makes hashes compact while they are loaded, as `hash-rdb-load-*` say.
//!
//! Only hashes of files without compact ones are converted. With a threshold, hashes with field
//! names of fewer keys are converted back at the end; and as soon as most of many sets of field
//! names are of that kind, no further sets are shared.

use petrel_keyspace::{Handle, Key, Keyspace, LoadedSharing, SchemaId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Name of the auxiliary field of a file that has compact hashes.
pub const AUX_COMPACT: &str = "petrel-compact-hashes";

/// Sets of field names from which on too many rare ones stop the making of further ones.
const THROTTLED_FROM: usize = 1000;

/// Keys that are converted back under one lock of the keyspace.
const BACK_AT_ONCE: usize = 256;

/// The conversion of a load, by all its threads.
pub(super) struct Sharing {
    limits: LoadedSharing,
    /// Keys that field names must have to stay shared.
    threshold: usize,
    is_off: AtomicBool,
    /// No further sets of field names.
    is_throttled: AtomicBool,
    census: Mutex<Census>,
}

#[derive(Default)]
struct Census {
    sets: HashMap<SchemaId, Set>,
    /// Sets with fewer keys than the threshold.
    rare: usize,
}

/// Keys that have a set of field names.
enum Set {
    Rare(Vec<(u16, Box<[u8]>)>),
    Common,
}

impl Sharing {
    /// None if no hash is converted.
    pub fn new(keyspace: &Keyspace) -> Option<Self> {
        let size = |limit: i64| usize::try_from(limit).unwrap_or(0);
        let limits = keyspace.limits();
        let min = size(limits.hash_rdb_load_min_template_entries());
        let max = size(limits.hash_rdb_load_max_template_entries());
        let threshold = size(limits.hash_rdb_load_template_disassembly_threshold());
        (min > 0).then(|| Sharing {
            limits: LoadedSharing { min, max },
            threshold,
            is_off: AtomicBool::new(false),
            is_throttled: AtomicBool::new(false),
            census: Mutex::default(),
        })
    }

    /// Converts nothing from now on.
    pub fn turn_off(&self) {
        self.is_off.store(true, Relaxed);
    }

    /// Converts the hash of a key that was loaded; its stripe is locked.
    pub fn share(&self, handle: &mut Handle, db: u16, key: Key<'_>) {
        let len = match handle.view(db, key).map(|view| view.hash(0)) {
            Some(Ok(hash)) => hash.len(),
            _ => return,
        };
        if self.is_off.load(Relaxed) || !self.limits.applies_to(len) {
            return;
        }
        let make = !self.is_throttled.load(Relaxed);
        let Some(id) = handle.hash_share(db, key, false, make) else { return };
        if self.threshold > 0 {
            self.count(id, db, key.bytes);
        }
    }

    fn count(&self, id: SchemaId, db: u16, key: &[u8]) {
        let census = &mut *self.lock();
        let set = census.sets.entry(id).or_insert_with(|| {
            census.rare += 1;
            Set::Rare(Vec::new())
        });
        if let Set::Rare(keys) = set {
            keys.push((db, key.into()));
            if keys.len() >= self.threshold {
                *set = Set::Common;
                census.rare -= 1;
            }
        }
        if census.sets.len() >= THROTTLED_FROM && census.rare * 2 > census.sets.len() {
            self.is_throttled.store(true, Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Census> {
        self.census.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts the hashes back that share field names with too few keys. Returns lines about it.
    pub fn finish(self, keyspace: &Arc<Keyspace>) -> Vec<String> {
        let mut lines = Vec::new();
        let census = self.census.into_inner().unwrap_or_else(PoisonError::into_inner);
        let rare: Vec<_> = census
            .sets
            .into_values()
            .filter_map(|set| if let Set::Rare(keys) = set { Some(keys) } else { None })
            .collect();
        let sets = rare.len();
        let keys: Vec<_> = rare.into_iter().flatten().collect();
        let mut handle = keyspace.attach();
        handle.refresh_clock();
        for keys in keys.chunks(BACK_AT_ONCE) {
            handle.enter();
            for (db, bytes) in keys {
                let key = Key { bytes, hash: handle.hash(bytes) };
                handle.lock(key.hash);
                handle.hash_unshare(*db, key);
                handle.unlock();
            }
            handle.exit();
        }
        if sets > 0 {
            let keys = keys.len();
            lines.push(format!("disassembled {sets} templates ({keys} keys) back to plain hashes"));
        }
        if self.is_throttled.load(Relaxed) {
            lines.push("hash template creation was throttled: too many rare ones".into());
        }
        lines
    }
}
