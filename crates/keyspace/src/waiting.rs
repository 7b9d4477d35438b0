//! Keys that somebody waits for: each has a queue, in order of arrival, in a side table of its
//! stripe.
//!
//! A change of such a key makes it *ready*: whoever made the change finds it in
//! [`Handle::next_ready`] and is to try the waiters in order, under the locks of their keys. Until
//! that is done the key says of itself that it is ready ([`Handle::holds_ready`]), so that a thread
//! that comes in between can do it first: nobody overtakes a waiter.
//!
//! Everything here is guarded by the locks of the stripes. What waits is opaque: the keyspace keeps
//! it and hands it back.

use crate::access::View;
use crate::handle::{Handle, Key};
use crate::types::Type;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Whoever waits. What it is, only its owner knows.
pub type Waiter = Arc<dyn Any + Send + Sync>;

/// What a key must hold for a waiter to be worth a try.
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

    /// The same, or anything else in its place, be it nothing: for those who must learn that it is
    /// gone.
    pub const fn or_loss(self) -> Self {
        Awaited { or_loss: true, ..self }
    }

    fn is_met(self, key: Option<View<'_>>) -> bool {
        self.or_loss || key.is_some_and(|view| view.type_of() == self.type_of)
    }
}

/// A key that changed while somebody waits for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReadyKey {
    /// The database.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
}

/// How many keys are waited for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WaitedKeys {
    /// All of them.
    pub keys: usize,
    /// Those of which somebody wants to know that they are gone.
    pub or_loss: usize,
}

/// What is counted over all stripes.
#[derive(Default)]
pub(crate) struct WaitCounts {
    arrivals: AtomicU64,
    keys: AtomicI64,
    or_loss: AtomicI64,
    /// Keys that are ready and whose waiters have not all been tried.
    ready: AtomicI64,
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
    /// By key; a key that is waited for in several databases has several queues.
    keys: HashMap<Box<[u8]>, Vec<(u16, Queue)>>,
    ready: usize,
}

/// Who waits for one key.
#[derive(Default)]
struct Queue {
    /// Waiters for the same, by their arrival. Few kinds of things are waited for.
    groups: Vec<(Awaited, BTreeMap<u64, Waiter>)>,
    /// The key has changed, and of those who arrived after `tried` none has been tried since.
    ready: bool,
    tried: u64,
    /// A waiter of this queue is being tried: what it does to the key is no news to the others.
    busy: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn tells_of_loss(&self) -> bool {
        self.groups.iter().any(|(awaited, _)| awaited.or_loss)
    }

    /// The first who has not been tried and may be served as the key is.
    fn next(&self, key: Option<View<'_>>) -> Option<(u64, Waiter)> {
        self.groups
            .iter()
            .filter(|(awaited, _)| awaited.is_met(key))
            .filter_map(|(_, waiters)| waiters.range(self.tried + 1..).next())
            .min_by_key(|(arrival, _)| **arrival)
            .map(|(arrival, waiter)| (*arrival, waiter.clone()))
    }

    /// Its waiters are to be tried from the first on; true if that is news.
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

    fn queue(&mut self, db: u16, key: &[u8]) -> Option<&mut Queue> {
        let (_, queue) = self.keys.get_mut(key)?.iter_mut().find(|(of, _)| *of == db)?;
        Some(queue)
    }

    fn add(
        &mut self,
        db: u16,
        key: &[u8],
        awaited: Awaited,
        arrival: u64,
        waiter: Waiter,
        counts: &WaitCounts,
    ) {
        if !self.keys.contains_key(key) {
            self.keys.insert(key.into(), Vec::new());
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
            None => queue.groups.push((awaited, BTreeMap::from([(arrival, waiter)]))),
        }
        if !told && queue.tells_of_loss() {
            counts.or_loss.fetch_add(1, Relaxed);
        }
    }

    fn remove(&mut self, db: u16, key: &[u8], arrival: u64, counts: &WaitCounts) {
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

    /// A key may be worth a try; true if nobody knows yet.
    pub fn make_ready(&mut self, db: u16, key: &[u8], counts: &WaitCounts) -> bool {
        let is_news = self.queue(db, key).is_some_and(Queue::make_ready);
        self.count_ready(i64::from(is_news), counts);
        is_news
    }

    /// The same for every key of a database.
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

    fn first_ready(&self) -> Option<ReadyKey> {
        if self.ready == 0 {
            return None;
        }
        let mut queues = self.keys.iter().flat_map(|(key, queues)| {
            queues.iter().filter(|(_, queue)| queue.ready).map(move |(db, _)| (*db, key))
        });
        queues.next().map(|(db, key)| ReadyKey { db, key: key.clone() })
    }

    fn count_ready(&mut self, delta: i64, counts: &WaitCounts) {
        if delta != 0 {
            self.ready = self.ready.saturating_add_signed(delta as isize);
            counts.ready.fetch_add(delta, Relaxed);
        }
    }
}

impl Handle {
    /// A place in the order of all who wait. Taken under the locks of the keys that are waited for,
    /// it is the order of each key.
    pub fn arrive(&self) -> u64 {
        self.ks.waits.arrivals.fetch_add(1, Relaxed) + 1
    }

    /// Begins to wait for a key, whose stripe is held; ended by [`Handle::leave`].
    pub fn wait_for(
        &mut self,
        db: u16,
        key: Key<'_>,
        awaited: Awaited,
        arrival: u64,
        waiter: Waiter,
    ) {
        let interest = self.stripe(key.hash).interest.get_or_insert_default();
        interest.waiting.add(db, key.bytes, awaited, arrival, waiter, &self.ks.waits);
    }

    /// Ends a wait; the key's stripe is held. Does nothing if it has ended already.
    pub fn leave(&mut self, db: u16, key: Key<'_>, arrival: u64) {
        let slot = &mut self.stripe(key.hash).interest;
        let Some(interest) = slot else { return };
        interest.waiting.remove(db, key.bytes, arrival, &self.ks.waits);
        if interest.is_empty() {
            *slot = None;
        }
    }

    /// Whether this thread has made keys ready whose waiters it has not tried yet.
    #[inline]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the next key that this thread made ready, in the order in which they became so.
    pub fn next_ready(&mut self) -> Option<ReadyKey> {
        self.ready.pop_front()
    }

    /// Gives a key back that [`Handle::next_ready`] gave, to be the next again.
    pub fn serve_later(&mut self, key: ReadyKey) {
        self.ready.push_front(key);
    }

    /// Makes a key ready as if it had changed; its stripe is held.
    pub fn make_ready(&mut self, db: u16, key: Key<'_>) {
        let Some(interest) = &mut self.stripe(key.hash).interest else { return };
        if interest.waiting.make_ready(db, key.bytes, &self.ks.waits) {
            self.ready.push_back(ReadyKey { db, key: key.bytes.into() });
        }
    }

    /// Whether a stripe that is held has a ready key, whoever made it so.
    #[inline]
    pub fn holds_ready(&self) -> bool {
        if self.holds_everything() && self.nothing_ready() {
            return false;
        }
        self.any_held(|stripe| {
            stripe.interest.as_ref().is_some_and(|known| known.waiting.ready > 0)
        })
    }

    /// A ready key of a stripe that is held.
    pub fn held_ready(&self) -> Option<ReadyKey> {
        let mut found = None;
        self.any_held(|stripe| {
            let interest = stripe.interest.as_ref();
            found = interest.and_then(|interest| interest.waiting.first_ready());
            found.is_some()
        });
        found
    }

    /// Whether no key at all is ready.
    fn nothing_ready(&self) -> bool {
        self.ks.waits.ready.load(Relaxed) == 0
    }

    /// The next who is to be tried for a ready key, whose stripe is held, with its arrival. None
    /// ends the round: the key is ready no longer.
    pub fn next_waiter(&mut self, db: u16, key: Key<'_>) -> Option<(u64, Waiter)> {
        self.stripe(key.hash).interest.as_ref()?;
        let found = self.find_alive(db, key).map(|(_, entry)| View::new(entry));
        let waiting = &mut self.stripe(key.hash).interest.as_mut()?.waiting;
        let queue = waiting.queue(db, key.bytes).filter(|queue| queue.ready)?;
        let next = queue.next(found);
        if next.is_none() {
            queue.ready = false;
            waiting.count_ready(-1, &self.ks.waits);
        }
        next
    }

    /// Says that a waiter is about to be tried: until [`Handle::end_try`], changes of the key make
    /// nothing ready.
    pub fn begin_try(&mut self, db: u16, key: Key<'_>) {
        self.with_queue(db, key, |queue| queue.busy = true);
    }

    /// The waiter of this arrival has been tried; it need not be there any more.
    pub fn end_try(&mut self, db: u16, key: Key<'_>, arrival: u64) {
        self.with_queue(db, key, |queue| {
            queue.busy = false;
            queue.tried = arrival;
        });
    }

    fn with_queue(&mut self, db: u16, key: Key<'_>, change: impl FnOnce(&mut Queue)) {
        let interest = self.stripe(key.hash).interest.as_mut();
        if let Some(queue) = interest.and_then(|interest| interest.waiting.queue(db, key.bytes)) {
            change(queue);
        }
    }
}
