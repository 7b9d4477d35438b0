//! Walks over all keys for a new index. Writes feed the index meanwhile; whichever of both read a
//! document later wins.

use crate::handle::Handle;
use crate::state::keyspace::Keyspace;
use crate::structures::entry::Entry;
use petrel_search::index::coverage::Covering;
use petrel_search::index::live::Live;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Keys read under one hold of a stripe.
const KEYS_PER_HOLD: usize = 32;

/// Pause of a walk while memory is above its limit.
const MEMORY_PAUSE: Duration = Duration::from_millis(20);

/// A walk over all keys for one index.
struct IndexScan {
    live: Arc<Live>,
    /// Number of the walk ([`petrel_search::index::live::Scan::request`]).
    number: u32,
    next_stripe: AtomicUsize,
    /// Threads that are not done.
    threads: AtomicUsize,
}

impl Keyspace {
    /// Begins a walk over all keys for an index that is in the view, by this many threads; the walk
    /// is over when they end. A walk that was running for the index ends.
    pub fn scan_for_index(
        self: &Arc<Self>,
        live: &Arc<Live>,
        threads: usize,
    ) -> Vec<JoinHandle<()>> {
        let number = live.scan.request();
        live.scan.done.store(0, Relaxed);
        live.scan.stripes.store(self.stripes.len(), Relaxed);
        let threads = threads.max(1);
        let scan = Arc::new(IndexScan {
            live: live.clone(),
            number,
            next_stripe: AtomicUsize::new(0),
            threads: AtomicUsize::new(threads),
        });
        let spawned = (0..threads).filter_map(|_| {
            let (ks, scan) = (self.clone(), scan.clone());
            let thread = std::thread::Builder::new().name("index-scan".into());
            thread.spawn(move || scan.run(&ks)).ok()
        });
        let spawned: Vec<_> = spawned.collect();
        if spawned.len() < threads {
            // The missing threads have nothing to do; without any the walk happens here.
            scan.threads.fetch_sub(threads - spawned.len(), Relaxed);
            if spawned.is_empty() {
                scan.threads.store(1, Relaxed);
                scan.run(self);
            }
        }
        spawned
    }

    /// Whether more memory is used than `maxmemory`. It sums the figures of all threads.
    pub fn is_over_limit(&self) -> bool {
        let limit = self.memory_limit.load(Relaxed);
        limit != 0 && self.stats().used > limit
    }
}

impl IndexScan {
    fn is_wanted(&self) -> bool {
        self.live.scan.is_current(self.number) && !self.live.is_dropped()
    }

    fn run(&self, ks: &Arc<Keyspace>) {
        let mut handle = ks.attach();
        while self.is_wanted() {
            let stripe = self.next_stripe.fetch_add(1, Relaxed);
            if stripe >= ks.stripes.len() {
                break;
            }
            while ks.is_over_limit() && self.is_wanted() {
                self.live.scan.is_paused.store(true, Relaxed);
                std::thread::sleep(MEMORY_PAUSE);
            }
            self.live.scan.is_paused.store(false, Relaxed);
            handle.refresh_clock();
            handle.enter();
            self.walk(&mut handle, stripe as u32);
            handle.exit();
            self.live.scan.done.fetch_add(1, Relaxed);
        }
        drop(handle);
        // The last thread ends the walk: each has applied all that it read.
        if self.threads.fetch_sub(1, Relaxed) == 1 && self.is_wanted() {
            self.live.scan.finish(self.number);
        }
    }

    /// Walks one stripe, a few keys under each hold.
    fn walk(&self, handle: &mut Handle, stripe: u32) {
        let mut position = 0;
        let mut entries: Vec<Entry> = Vec::new();
        while self.is_wanted() {
            let next = handle.with_stripe(stripe, |handle| {
                let (db, index) = handle.index_place(&self.live)?;
                let mut take = |view: crate::View<'_>| entries.push(view.entry());
                let from = (db, stripe, position);
                let next = handle.walk_stripe(from, KEYS_PER_HOLD, &mut take, &mut Vec::new());
                for entry in entries.drain(..) {
                    let key = handle.key_of(entry);
                    handle.note_for_index(db, key, index);
                }
                next
            });
            let Some(next) = next else { return };
            position = next;
            if handle.should_yield() {
                handle.exit();
                handle.enter();
            }
        }
    }
}

impl Handle {
    /// Database of an index and its position in the thread's view.
    fn index_place(&self, live: &Arc<Live>) -> Option<(u16, u32)> {
        let view = &self.observers.documents.as_ref()?.view;
        let is_it = |covering: &Covering| Arc::ptr_eq(&covering.live, live);
        let at = view.indexes.iter().position(is_it)?;
        Some((view.indexes[at].db, at as u32))
    }
}
