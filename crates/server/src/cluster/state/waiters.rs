//! Commands of other members' clients that wait here for keys, by their tags and deadlines.

use parking_lot::Mutex;
use petrel_cluster::Slot;
use petrel_cluster::wire::Tag;
use petrel_commands::{Blocked, Shared};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// A command that waits here for another member's client.
#[derive(Clone)]
pub(in crate::cluster) struct Waiter {
    pub slots: Box<[Slot]>,
    pub blocked: Arc<Blocked>,
}

/// All of them.
#[derive(Default)]
pub(in crate::cluster) struct Waiters {
    by_tag: Mutex<Waiting>,
    /// Number of waiters: read after each turn.
    count: AtomicUsize,
    /// State shared by all threads, where waiters count as blocked clients, though they are no
    /// clients here.
    shared: OnceLock<Arc<Shared>>,
}

#[derive(Default)]
struct Waiting {
    waiters: BTreeMap<Tag, Waiter>,
    /// Timeouts of waiters, in Unix milliseconds.
    deadlines: BTreeSet<(i64, Tag)>,
    polling: BTreeSet<Tag>,
}

impl Waiters {
    /// Sets the server's shared state.
    pub fn belong_to(&self, shared: Arc<Shared>) {
        let _ = self.shared.set(shared);
    }

    /// The server's shared state.
    pub fn commands(&self) -> Option<&Arc<Shared>> {
        self.shared.get()
    }

    fn count_blocked(&self, delta: i64) {
        self.shared.get().into_iter().for_each(|shared| shared.count_blocked(delta));
    }

    pub fn add(&self, tag: Tag, waiter: Waiter) {
        let mut waiting = self.by_tag.lock();
        waiting.deadlines.extend(waiter.blocked.deadline().map(|at| (at, tag)));
        if waiter.blocked.polls() {
            waiting.polling.insert(tag);
        }
        waiting.waiters.insert(tag, waiter);
        self.count.store(waiting.waiters.len(), Relaxed);
        self.count_blocked(-1);
    }

    pub fn remove(&self, tag: Tag) -> Option<Waiter> {
        let mut waiting = self.by_tag.lock();
        let waiter = waiting.waiters.remove(&tag)?;
        if let Some(at) = waiter.blocked.deadline() {
            waiting.deadlines.remove(&(at, tag));
        }
        waiting.polling.remove(&tag);
        self.count.store(waiting.waiters.len(), Relaxed);
        self.count_blocked(1);
        Some(waiter)
    }

    pub fn find(&self, tag: Tag) -> Option<Waiter> {
        self.by_tag.lock().waiters.get(&tag).cloned()
    }

    /// Milliseconds until a command's time is up, if it ever is.
    pub fn left_ms(&self, tag: Tag, now_ms: i64) -> Option<u64> {
        let at = self.find(tag)?.blocked.deadline()?;
        Some(at.saturating_sub(now_ms).max(0) as u64)
    }

    /// Number of waiters.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Waiters for which `which` returns true.
    pub fn those(&self, which: impl Fn(Tag, &Waiter) -> bool) -> Vec<(Tag, Waiter)> {
        let waiting = self.by_tag.lock();
        let all = waiting.waiters.iter().map(|(tag, waiter)| (*tag, waiter.clone()));
        all.filter(|(tag, waiter)| which(*tag, waiter)).collect()
    }

    pub fn due(&self, now_ms: i64) -> Option<Tag> {
        self.by_tag.lock().deadlines.first().filter(|(at, _)| *at <= now_ms).map(|(_, tag)| *tag)
    }

    pub fn next_deadline(&self) -> Option<i64> {
        self.by_tag.lock().deadlines.first().map(|(at, _)| *at)
    }

    pub fn polling(&self) -> Vec<Tag> {
        self.by_tag.lock().polling.iter().copied().collect()
    }
}
