//! Watched keys: versions, kept only while some client watches a key of the stripe.

use std::collections::HashMap;

/// Versions of the watched keys of one stripe.
#[derive(Default)]
pub(crate) struct Watched {
    keys: HashMap<(u16, Box<[u8]>), Watch>,
}

struct Watch {
    watchers: u32,
    version: u64,
}

impl Watched {
    /// Registers a watcher; returns the key's version.
    pub fn add(&mut self, db: u16, key: &[u8]) -> u64 {
        let watch = self.keys.entry((db, key.into())).or_insert(Watch { watchers: 0, version: 0 });
        watch.watchers += 1;
        watch.version
    }

    /// Removes a watcher.
    pub fn remove(&mut self, db: u16, key: &[u8]) {
        let id = (db, Box::from(key));
        if let Some(watch) = self.keys.get_mut(&id) {
            watch.watchers -= 1;
            if watch.watchers == 0 {
                self.keys.remove(&id);
            }
        }
    }

    /// True if nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Version of a watched key.
    pub fn version(&self, db: u16, key: &[u8]) -> Option<u64> {
        self.keys.get(&(db, Box::from(key))).map(|watch| watch.version)
    }

    /// Marks a key as changed.
    pub fn touch(&mut self, db: u16, key: &[u8]) {
        if let Some(watch) = self.keys.get_mut(&(db, Box::from(key))) {
            watch.version += 1;
        }
    }

    /// Marks the watched keys of `db` that satisfy `exists` as changed.
    pub fn touch_database(&mut self, db: u16, exists: impl Fn(&[u8]) -> bool) {
        for ((of, key), watch) in &mut self.keys {
            if *of == db && exists(key) {
                watch.version += 1;
            }
        }
    }
}
