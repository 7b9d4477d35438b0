//! Live indexes: made, changed and dropped as the definitions say.

use crate::search::definitions::Definitions;
use crate::server::stats::Shared;
use petrel_keyspace::Keyspace;
use petrel_search::index::coverage::{Covering, View};
use petrel_search::index::live::Live;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which the end of the walks is looked for.
const LOOK_INTERVAL: Duration = Duration::from_micros(200);

/// Maximum number of threads of a walk over all keys.
const THREADS_MAX: usize = 16;

impl Shared {
    /// Sets the keyspace that the indexes are of. Later calls have no effect.
    pub fn index_keyspace(&self, keyspace: &Arc<Keyspace>) {
        self.search.keyspace.get_or_init(|| keyspace.clone());
    }

    /// Makes, changes and drops indexes so that they are those of the definitions. Walks over the
    /// present keys begin in the background.
    pub(crate) fn follow_definitions(&self) {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        // Half of the processors go on serving clients.
        drop(self.renew_view(threads.div_ceil(2)));
    }

    /// Drops the contents of all indexes while data is loaded.
    pub fn suspend_indexes(&self) {
        self.search.is_suspended.store(true, Release);
        drop(self.renew_view(1));
    }

    /// Builds all indexes of the loaded data; returns once they are complete, or wait for memory.
    pub fn resume_indexes(&self) {
        if self.search.is_suspended.swap(false, Release) {
            let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
            let walks = self.renew_view(threads);
            let view = self.search.keyspace.get().map(|keyspace| keyspace.indexes().view());
            let is_paused = || {
                let mut indexes = view.iter().flat_map(|view| &view.indexes);
                indexes.any(|covering| covering.live.scan.is_paused.load(Relaxed))
            };
            while !walks.iter().all(JoinHandle::is_finished) && !is_paused() {
                std::thread::sleep(LOOK_INTERVAL);
            }
        }
    }

    fn renew_view(&self, threads: usize) -> Vec<JoinHandle<()>> {
        let Some(keyspace) = self.search.keyspace.get() else { return Vec::new() };
        let following = self.search.following.lock().unwrap_or_else(PoisonError::into_inner);
        let definitions = match self.search.is_suspended.load(Acquire) {
            true => Arc::default(),
            false => self.aux.value::<Definitions>(),
        };
        let before = keyspace.indexes().view();
        let (mut indexes, mut walks, mut grown) = (Vec::new(), Vec::new(), 0);
        for ((db, _), definition) in &definitions.indexes {
            let known = before.indexes.iter().find(|known| known.live.id == definition.id);
            let known = known.filter(|known| known.db == *db);
            let schema = definition.schema.clone();
            let live = match known {
                Some(known) => known.live.clone(),
                None => Live::new(definition.id, &schema),
            };
            let bytes = if known.is_some() { live.read().footprint() as i64 } else { 0 };
            let before = known.map(|known| &known.schema);
            let is_scanned = before.is_none_or(|before| {
                before.fields.len() < schema.fields.len()
                    || before.synonyms.scans != schema.synonyms.scans
            });
            let is_new = is_scanned || before.is_some_and(|old| old.synonyms != schema.synonyms);
            if is_new && known.is_some() {
                live.write().extend(&schema);
            }
            if is_new {
                grown += live.read().footprint() as i64 - bytes;
            }
            if is_scanned && !definition.skips_scan {
                walks.push(live.clone());
            }
            indexes.push(Covering::new(*db, live, schema));
        }
        let is_kept = |live: &Arc<Live>| indexes.iter().any(|kept| Arc::ptr_eq(&kept.live, live));
        let dropped: Vec<usize> =
            (0..before.indexes.len()).filter(|&at| !is_kept(&before.indexes[at].live)).collect();
        // A request before the view is visible: changes state whole documents from the first on.
        walks.iter().for_each(|live| {
            live.scan.request();
        });
        keyspace.set_index_view(View::new(indexes));
        let handle = keyspace.attach();
        handle.count_foreign(grown);
        for at in dropped {
            let covering = &before.indexes[at];
            let contents = covering.live.drop_contents(&covering.schema);
            handle.free_contents(contents, covering);
        }
        drop(handle);
        drop(following);
        let walks = walks
            .iter()
            .flat_map(|live| keyspace.scan_for_index(live, threads.clamp(1, THREADS_MAX)));
        walks.collect()
    }
}
