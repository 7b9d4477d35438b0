//! Keys with blocked clients: each has a queue, in order of arrival, in a side table of its
//! stripe.
//!
//! A change of such a key makes it *ready*: the thread that made the change gets it from
//! [`Handle::next_ready`] and tries the waiters in order, under the locks of their keys. Until that
//! is done the key is marked as ready ([`Handle::holds_ready`]), so that another thread can try
//! them first: no command overtakes a waiter.
//!
//! Everything here is guarded by the locks of the stripes. Waiters are opaque: the keyspace stores
//! them and hands them back.

use crate::structures::form::Type;
use crate::structures::view::View;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A waiter, opaque to the keyspace.
pub type Waiter = Arc<dyn Any + Send + Sync>;

/// Content of a key for which a waiter is tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Awaited {
    type_of: Type,
    or_loss: bool,
}

impl Awaited {
    /// A string.
    pub const STRING: Self = Awaited { type_of: Type::String, or_loss: false };
    /// A list.
    pub const LIST: Self = Awaited { type_of: Type::List, or_loss: false };
    /// A sorted set.
    pub const SORTED_SET: Self = Awaited { type_of: Type::SortedSet, or_loss: false };
    /// A stream.
    pub const STREAM: Self = Awaited { type_of: Type::Stream, or_loss: false };

    /// Like `self`, but also tried when the key is removed or holds another type: for waiters that
    /// must learn of its loss.
    pub const fn or_loss(self) -> Self {
        Awaited { or_loss: true, ..self }
    }

    fn is_met(self, key: Option<View<'_>>) -> bool {
        self.or_loss || key.is_some_and(|view| view.type_of() == self.type_of)
    }
}

/// A changed key with blocked clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadyKey {
    /// The database.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
}

/// Numbers of awaited keys.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WaitedKeys {
    /// All of them.
    pub keys: usize,
    /// Keys with a waiter that must learn of their removal.
    pub or_loss: usize,
}

/// Counts over all stripes.
#[derive(Default)]
pub(crate) struct WaitCounts {
    pub(crate) arrivals: AtomicU64,
    keys: AtomicI64,
    or_loss: AtomicI64,
    /// Ready keys with untried waiters.
    pub(crate) ready: AtomicI64,
}

impl WaitCounts {
    pub fn keys(&self) -> WaitedKeys {
        let count = |cell: &AtomicI64| cell.load(Relaxed).max(0) as usize;
        WaitedKeys { keys: count(&self.keys), or_loss: count(&self.or_loss) }
    }
}

/// The queues of one stripe.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Queues by key; a key awaited in several databases has several.
    keys: HashMap<Box<[u8]>, Vec<(u16, Queue)>>,
    pub(crate) ready: usize,
}

/// The waiters for one key.
#[derive(Default)]
pub(crate) struct Queue {
    /// Waiters for the same content, by their arrival. There are few kinds of content.
    groups: Vec<(Awaited, BTreeMap<u64, Waiter>)>,
    /// The key has changed, and none of the waiters that arrived after `tried` has been tried
    /// since.
    pub(crate) ready: bool,
    pub(crate) tried: u64,
    /// A waiter of this queue is being tried: its own changes of the key do not make the key ready.
    pub(crate) busy: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn tells_of_loss(&self) -> bool {
        self.groups.iter().any(|(awaited, _)| awaited.or_loss)
    }

    /// The first untried waiter that the present value may satisfy.
    pub(crate) fn next(&self, key: Option<View<'_>>) -> Option<(u64, Waiter)> {
        self.groups
            .iter()
            .filter(|(awaited, _)| awaited.is_met(key))
            .filter_map(|(_, waiters)| waiters.range(self.tried + 1..).next())
            .min_by_key(|(arrival, _)| **arrival)
            .map(|(arrival, waiter)| (*arrival, waiter.clone()))
    }

    /// Makes its waiters due again, from the first on; true if the key was not ready before.
    fn make_ready(&mut self) -> bool {
        if self.busy {
            return false;
        }
        self.tried = 0;
        !std::mem::replace(&mut self.ready, true)
    }
}

impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn queue(&mut self, db: u16, key: &[u8]) -> Option<&mut Queue> {
        let (_, queue) = self.keys.get_mut(key)?.iter_mut().find(|(of, _)| *of == db)?;
        Some(queue)
    }

    pub(crate) fn add(
        &mut self,
        db: u16,
        key: &[u8],
        awaited: Awaited,
        arrival: u64,
        waiter: Waiter,
        counts: &WaitCounts,
    ) {
        if !self.keys.contains_key(key) {
            // Usually one database.
            self.keys.insert(key.into(), Vec::with_capacity(1));
        }
        let Some(queues) = self.keys.get_mut(key) else { return };
        if queues.iter().all(|(of, _)| *of != db) {
            queues.push((db, Queue::default()));
            counts.keys.fetch_add(1, Relaxed);
        }
        let Some((_, queue)) = queues.iter_mut().find(|(of, _)| *of == db) else { return };
        let told = queue.tells_of_loss();
        match queue.groups.iter_mut().find(|(known, _)| *known == awaited) {
            Some((_, waiters)) => {
                waiters.insert(arrival, waiter);
            }
            None => {
                queue.groups.reserve_exact(1);
                queue.groups.push((awaited, BTreeMap::from([(arrival, waiter)])));
            }
        }
        if !told && queue.tells_of_loss() {
            counts.or_loss.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn remove(&mut self, db: u16, key: &[u8], arrival: u64, counts: &WaitCounts) {
        let Some(queue) = self.queue(db, key) else { return };
        let told = queue.tells_of_loss();
        for (_, waiters) in &mut queue.groups {
            waiters.remove(&arrival);
        }
        queue.groups.retain(|(_, waiters)| !waiters.is_empty());
        if told && !queue.tells_of_loss() {
            counts.or_loss.fetch_sub(1, Relaxed);
        }
        if !queue.is_empty() {
            return;
        }
        let ready = queue.ready;
        if let Some(queues) = self.keys.get_mut(key) {
            queues.retain(|(of, _)| *of != db);
            if queues.is_empty() {
                self.keys.remove(key);
            }
        }
        counts.keys.fetch_sub(1, Relaxed);
        self.count_ready(-i64::from(ready), counts);
    }

    /// Makes a key ready; true if it was not before.
    pub fn make_ready(&mut self, db: u16, key: &[u8], counts: &WaitCounts) -> bool {
        let is_news = self.queue(db, key).is_some_and(Queue::make_ready);
        self.count_ready(i64::from(is_news), counts);
        is_news
    }

    /// Makes every key of a database ready.
    pub fn make_database_ready(&mut self, db: u16, counts: &WaitCounts) -> Vec<ReadyKey> {
        let mut news = Vec::new();
        for (key, queues) in &mut self.keys {
            for (_, queue) in queues.iter_mut().filter(|(of, _)| *of == db) {
                if queue.make_ready() {
                    news.push(ReadyKey { db, key: key.clone() });
                }
            }
        }
        self.count_ready(news.len() as i64, counts);
        news
    }

    pub(crate) fn first_ready(&self) -> Option<ReadyKey> {
        if self.ready == 0 {
            return None;
        }
        let mut queues = self.keys.iter().flat_map(|(key, queues)| {
            queues.iter().filter(|(_, queue)| queue.ready).map(move |(db, _)| (*db, key))
        });
        queues.next().map(|(db, key)| ReadyKey { db, key: key.clone() })
    }

    pub(crate) fn count_ready(&mut self, delta: i64, counts: &WaitCounts) {
        if delta != 0 {
            self.ready = self.ready.saturating_add_signed(delta as isize);
            counts.ready.fetch_add(delta, Relaxed);
        }
    }
}
