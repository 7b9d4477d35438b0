//! [`Store`]: replies by key and command, bounded in bytes.
//!
//! ```text
//! a hit   one hash of the key ─ its bucket of short replies ─ the reply
//!         not there ─ slot of the map ─ entry: key, command, a short value in one block
//! others  the mutex of the key's shard ─ fills under way, order of eviction, bytes ─ then the map
//! ```
//!
//! A hit takes no lock and writes no memory that threads share, but once between two looks of
//! eviction: a mark, and the copy among the short replies, for which the shard's mutex is taken if
//! it is free. The map and the short replies change only under the mutex of the key's shard.
//!
//! A fill puts a place holder into its shard before it asks the server, and its reply only replaces
//! that very place holder. An invalidation removes the key with everything in it, place holders
//! included. So an invalidation that races a fill wins, in whichever order the two are handled.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};
use petrel_resp::Value;
use seize::Collector;
use tokio::sync::Notify;

use super::entry::{Cached, Entry, Key, OwnedQuestion, Question};
use super::hits::Hits;
use super::short::{ROOM, ShortReplies};
use crate::error::{Error, Result};
use crate::reply::FromReply;

/// Shards; a power of two.
pub(super) const SHARDS: usize = 64;

/// Short replies take this part of the bytes at most.
const SHORT_SHARE: usize = 4;

/// Fraction (1 in this many) of reads without room for their short reply that evict another one.
const MAKES_ROOM: u64 = 16;

/// The owner of a fill that has not asked yet.
pub(super) const NO_OWNER: u64 = 0;

/// State shared by several readers that wait for the same reply.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    result: Mutex<Option<Result<Value>>>,
    done: Notify,
}

impl Fill {
    /// Waits for the reply.
    pub(crate) async fn wait(&self) -> Result<Value> {
        loop {
            let done = self.done.notified();
            if let Some(result) = &*self.result.lock() {
                return result.clone();
            }
            done.await;
        }
    }
}

/// Result of a look-up.
pub(crate) enum Found {
    /// The reply.
    Hit(Value),
    /// Another reader is asking the server.
    Joined(Arc<Fill>),
    /// This reader is to ask the server.
    Fills(Arc<Fill>),
}

/// Use of a reply that is found.
pub(crate) trait Take {
    type Output;
    /// Uses a string.
    fn text(self, text: &[u8]) -> Self::Output;
    /// Uses any other reply, or a long string.
    fn value(self, value: &Value) -> Self::Output;
}

/// Lends the reply to a function; the function stays in place if there is no reply.
pub(crate) struct Lent<'f, F>(pub(crate) &'f mut Option<F>);

impl<F: FnOnce(&[u8]) -> T, T> Take for Lent<'_, F> {
    type Output = Result<Option<T>>;

    #[inline]
    fn text(self, text: &[u8]) -> Result<Option<T>> {
        Ok(self.0.take().map(|take| take(text)))
    }

    fn value(self, value: &Value) -> Result<Option<T>> {
        match (value, value.as_bytes()) {
            (Value::Error(text), _) => Err(Error::from_reply(text)),
            (_, Some(text)) => self.text(text),
            (Value::Null | Value::NullArray, None) => Ok(None),
            (other, None) => Err(Error::unexpected("a string", other)),
        }
    }
}

/// Converts the reply to a type.
pub(crate) struct Typed<R>(PhantomData<R>);

impl<R> Default for Typed<R> {
    #[inline]
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<R: FromReply> Take for Typed<R> {
    type Output = Result<R>;

    #[inline]
    fn text(self, text: &[u8]) -> Result<R> {
        R::from_string(text)
    }

    fn value(self, value: &Value) -> Result<R> {
        R::from_reply(value.clone())
    }
}

/// A place holder: a fill under way.
struct Asked {
    command: OwnedQuestion,
    /// The connection by which the server announces the key's changes; [`NO_OWNER`] until it is
    /// known.
    owner: u64,
    fill: Arc<Fill>,
}

#[derive(Default)]
struct Shard {
    fills: HashMap<Box<[u8]>, Vec<Asked>, RandomState>,
    /// Keys in the order in which eviction looks at them; some are gone.
    order: VecDeque<(u64, Box<[u8]>)>,
    next_id: u64,
    /// Keys of the map that belong to this shard, and their bytes.
    keys: usize,
    bytes: usize,
}

type Map = papaya::HashMap<Key, Entry, RandomState>;

/// Replies by key and command.
pub(crate) struct Store {
    ready: Map,
    short: ShortReplies,
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    bytes_max: usize,
    /// Notified of each invalidation.
    pub(crate) changed: Notify,
    hits: Hits,
    pub(crate) misses: AtomicU64,
    pub(crate) joined: AtomicU64,
    pub(crate) invalidations: AtomicU64,
    pub(crate) evictions: AtomicU64,
}

impl Store {
    /// Creates a store of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            // Removed entries are freed as soon as no read is under way, not in batches: they may
            // be large, and are no longer counted.
            ready: papaya::HashMap::builder()
                .hasher(RandomState::default())
                .collector(Collector::new().batch_size(1))
                .build(),
            short: ShortReplies::new(bytes_max / SHORT_SHARE),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            bytes_max,
            changed: Notify::new(),
            hits: Hits::default(),
            misses: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        self.shard_of(self.hasher.hash_one(key)).lock()
    }

    /// By the lowest bits, which are the same for all keys of a bucket of short replies.
    fn shard_of(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[hash as usize % SHARDS]
    }

    /// All shards, in ascending order: while they are held the map does not change.
    fn all_shards(&self) -> Vec<MutexGuard<'_, Shard>> {
        self.shards.iter().map(Mutex::lock).collect()
    }

    /// The reply if it is there and has not expired.
    pub(crate) fn get(&self, key: &[u8], command: Question<'_>) -> Option<Value> {
        // No error is kept.
        self.read(key, command)?.ok()
    }

    /// The reply as a type, if it is there and has not expired.
    #[inline]
    pub(crate) fn read<R: FromReply>(
        &self,
        key: &[u8],
        command: Question<'_>,
    ) -> Option<Result<R>> {
        self.take(key, command, Typed::default())
    }

    /// Applies `take` to the reply, if it is present and has not expired.
    #[inline]
    pub(crate) fn take<T: Take>(
        &self,
        key: &[u8],
        command: Question<'_>,
        take: T,
    ) -> Option<T::Output> {
        let hash = self.hasher.hash_one(key);
        let mut room = ROOM;
        if let Some(text) = self.short.read(hash, key, command, &mut room) {
            self.hits.count();
            return Some(take.text(text));
        }
        self.take_of_map(hash, key, command, take)
    }

    #[inline(never)]
    fn take_of_map<T: Take>(
        &self,
        hash: u64,
        key: &[u8],
        command: Question<'_>,
        take: T,
    ) -> Option<T::Output> {
        let ready = self.ready.pin();
        let entry = ready.get(key)?;
        let cached = entry.find(command)?;
        let taken = cached.take(take)?;
        entry.mark_used();
        let hits = self.hits.count();
        if let Some((text, _)) = cached.short()
            && ShortReplies::takes(key, command, text)
            && (self.short.has_room(hash) || hits.is_multiple_of(MAKES_ROOM))
        {
            self.shorten(hash, key, command);
        }
        Some(taken)
    }

    /// Copies a reply to the short ones, unless the shard is in use.
    #[cold]
    fn shorten(&self, hash: u64, key: &[u8], command: Question<'_>) {
        let Some(_shard) = self.shard_of(hash).try_lock() else { return };
        // It may have been invalidated meanwhile, but is not while the shard is held.
        let ready = self.ready.pin();
        let cached = ready.get(key).and_then(|entry| entry.find(command));
        if let Some((text, expires)) = cached.and_then(Cached::short) {
            let hash_of = |key: &[u8]| self.hasher.hash_one(key);
            self.short.insert(hash_of, key, command, expires, text);
        }
    }

    /// The reply, or a place in the fill that brings it.
    pub(crate) fn get_or_fill(&self, key: &[u8], command: Question<'_>) -> Found {
        let mut shard = self.shard(key);
        if let Some(value) = self.get(key, command) {
            return Found::Hit(value);
        }
        if let Some(fills) = shard.fills.get(key)
            && let Some(asked) = fills.iter().find(|asked| asked.command.is(command))
        {
            self.joined.fetch_add(1, Relaxed);
            return Found::Joined(asked.fill.clone());
        }
        self.misses.fetch_add(1, Relaxed);
        let fill = Arc::new(Fill::default());
        let asked = Asked { command: command.into(), owner: NO_OWNER, fill: fill.clone() };
        shard.fills.entry(key.into()).or_default().push(asked);
        Found::Fills(fill)
    }

    /// Before a fill asks: the connection by which its key's changes will be announced. If that is
    /// lost from now on, the reply is not kept.
    pub(crate) fn adopt(&self, key: &[u8], fill: &Arc<Fill>, owner: u64) {
        let mut shard = self.shard(key);
        let fills = shard.fills.get_mut(key).into_iter().flatten();
        for asked in fills.filter(|asked| Arc::ptr_eq(&asked.fill, fill)) {
            asked.owner = owner;
        }
    }

    /// Ends a fill. The reply is kept if there was no invalidation meanwhile, and if `keep` says
    /// until when, by [`super::clock`].
    pub(crate) fn finish(
        &self,
        key: &[u8],
        fill: &Arc<Fill>,
        result: Result<Value>,
        keep: Option<u64>,
    ) {
        let mut shard = self.shard(key);
        if let Some(asked) = shard.take_fill(key, fill)
            && let (Ok(value), Some(expires)) = (&result, keep)
        {
            let cached = Cached::new(asked.command, asked.owner, expires, value.clone());
            self.keep(&mut shard, key, cached);
            let evicted = self.evict(&mut shard);
            self.evictions.fetch_add(evicted, Relaxed);
        }
        drop(shard);
        *fill.result.lock() = Some(result);
        fill.done.notify_waiters();
    }

    /// Puts a reply beside the key's others.
    fn keep(&self, shard: &mut Shard, key: &[u8], cached: Cached) {
        self.short.remove(self.hasher.hash_one(key), key);
        let ready = self.ready.pin();
        let entry = match ready.get(key) {
            Some(old) => {
                shard.bytes -= old.bytes(key);
                old.with(cached)
            }
            None => {
                shard.next_id += 1;
                shard.keys += 1;
                shard.order.push_back((shard.next_id, key.into()));
                Entry::new(shard.next_id, cached)
            }
        };
        shard.bytes += entry.bytes(key);
        ready.insert(Key::new(key), entry);
    }

    /// Forgets a key.
    pub(crate) fn invalidate(&self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard_of(hash).lock();
        shard.fills.remove(key);
        self.short.remove(hash, key);
        if let Some(entry) = self.ready.pin().remove(key) {
            shard.keys -= 1;
            shard.bytes -= entry.bytes(key);
        }
        drop(shard);
        self.invalidations.fetch_add(1, Relaxed);
        self.changed.notify_waiters();
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        let mut shards = self.all_shards();
        for shard in &mut shards {
            shard.fills.clear();
            shard.order.clear();
            (shard.keys, shard.bytes) = (0, 0);
        }
        self.ready.pin().clear();
        self.short.clear();
        drop(shards);
        self.changed.notify_waiters();
    }

    /// Forgets what depends on a connection.
    pub(crate) fn clear_of(&self, owner: u64) {
        self.retain(|_, other| other != owner);
    }

    /// Keeps the replies, and lets the fills go on, of which a function of key and owner says so.
    pub(crate) fn retain(&self, keeps: impl Fn(&[u8], u64) -> bool) {
        let mut shards = self.all_shards();
        for shard in &mut shards {
            shard.fills.retain(|key, fills| {
                fills.retain(|asked| keeps(key, asked.owner));
                !fills.is_empty()
            });
            (shard.keys, shard.bytes) = (0, 0);
        }
        self.short.clear();
        self.ready.pin().retain(|key, entry| entry.owners().all(|owner| keeps(key.bytes(), owner)));
        for (key, entry) in &self.ready.pin() {
            let place = self.hasher.hash_one(key.bytes()) as usize % SHARDS;
            shards[place].keys += 1;
            shards[place].bytes += entry.bytes(key.bytes());
        }
        drop(shards);
        self.changed.notify_waiters();
    }

    /// Evicts keys of a shard until it has no more than its part of the bytes; returns how many. A
    /// key that was read since the last look is passed over once.
    fn evict(&self, shard: &mut Shard) -> u64 {
        let bytes_max = self.bytes_max.saturating_sub(self.short.bytes()) / SHARDS;
        let mut evicted = 0;
        let mut looks = shard.order.len() * 2;
        let ready = self.ready.pin();
        while shard.bytes > bytes_max && looks > 0 {
            looks -= 1;
            let Some((id, key)) = shard.order.pop_front() else { break };
            let Some(entry) = ready.get(&*key).filter(|entry| entry.id == id) else {
                continue;
            };
            // Reads of a short reply leave no mark; that there was one is the mark.
            let is_short = self.short.remove(self.hasher.hash_one(&*key), &key);
            if entry.take_used() || is_short {
                shard.order.push_back((id, key));
                continue;
            }
            shard.bytes -= entry.bytes(&key);
            shard.keys -= 1;
            ready.remove(&*key);
            evicted += 1;
        }
        // Keys that were invalidated leave their places behind.
        if shard.order.len() > 2 * shard.keys + 64 {
            shard.order.retain(|(id, key)| ready.get(&**key).is_some_and(|entry| entry.id == *id));
        }
        evicted
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.sum()
    }

    /// Bytes of keys and replies.
    pub(crate) fn bytes(&self) -> usize {
        self.size().1 + self.short.bytes()
    }

    /// Keys, and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(keys, bytes), shard| {
            let shard = shard.lock();
            (keys + shard.keys, bytes + shard.bytes)
        })
    }
}

impl Shard {
    /// Removes the place holder of a fill, if no invalidation has.
    fn take_fill(&mut self, key: &[u8], fill: &Arc<Fill>) -> Option<Asked> {
        let fills = self.fills.get_mut(key)?;
        let at = fills.iter().position(|asked| Arc::ptr_eq(&asked.fill, fill))?;
        let asked = fills.swap_remove(at);
        if fills.is_empty() {
            self.fills.remove(key);
        }
        Some(asked)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::clock;
    use super::*;
    use crate::request::CommandInfo;

    fn command(name: &str) -> Question<'static> {
        Question::of_key(CommandInfo::find(name).unwrap())
    }

    fn value(text: &str) -> Value {
        Value::Bulk(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn fill(store: &Store, key: &str) -> Arc<Fill> {
        match store.get_or_fill(key.as_bytes(), command("GET")) {
            Found::Fills(fill) => fill,
            _ => panic!("{key} is there already"),
        }
    }

    #[test]
    fn an_invalidation_that_races_a_fill_wins() {
        let store = Store::new(1 << 20);
        let first = fill(&store, "k");
        store.invalidate(b"k");
        // A reader that comes later asks anew, and is not given the older reply.
        let second = fill(&store, "k");
        store.finish(b"k", &second, Ok(value("new")), Some(clock::NEVER));
        store.finish(b"k", &first, Ok(value("old")), Some(clock::NEVER));
        assert_eq!(store.get(b"k", command("GET")), Some(value("new")));
        let third = fill(&store, "other");
        store.clear();
        store.finish(b"other", &third, Ok(value("old")), Some(clock::NEVER));
        assert_eq!((store.get(b"other", command("GET")), store.size()), (None, (0, 0)));
    }

    #[test]
    fn a_lost_connection_empties_what_depends_on_it() {
        let store = Store::new(1 << 20);
        for (key, owner) in [("a", 1), ("b", 2)] {
            let fill = fill(&store, key);
            store.adopt(key.as_bytes(), &fill, owner);
            store.finish(key.as_bytes(), &fill, Ok(value(key)), Some(clock::NEVER));
            for _ in 0..3 {
                assert_eq!(store.get(key.as_bytes(), command("GET")), Some(value(key)));
            }
        }
        let (asking, waiting) = (fill(&store, "asking"), fill(&store, "waiting"));
        store.adopt(b"asking", &asking, 1);
        store.clear_of(1);
        assert_eq!(
            (store.get(b"a", command("GET")), store.get(b"b", command("GET"))),
            (None, Some(value("b")))
        );
        // The one had asked over that connection, the other had not asked yet.
        store.finish(b"asking", &asking, Ok(value("old")), Some(clock::NEVER));
        store.adopt(b"waiting", &waiting, 3);
        store.finish(b"waiting", &waiting, Ok(value("new")), Some(clock::NEVER));
        assert_eq!(store.get(b"asking", command("GET")), None);
        assert_eq!(store.get(b"waiting", command("GET")), Some(value("new")));
        store.retain(|key, owner| key == b"b" && owner == 2);
        store.invalidate(b"b");
        assert_eq!(store.size(), (0, 0));
    }

    #[test]
    fn readers_join_one_fill() {
        let store = Store::new(1 << 20);
        let first = fill(&store, "k");
        assert!(matches!(store.get_or_fill(b"k", command("GET")), Found::Joined(_)));
        // Another command of the same key is a fill of its own.
        assert!(matches!(store.get_or_fill(b"k", command("STRLEN")), Found::Fills(_)));
        store.finish(b"k", &first, Ok(value("v")), Some(clock::NEVER));
        assert!(matches!(store.get_or_fill(b"k", command("GET")), Found::Hit(_)));
        store.invalidate(b"k");
        assert!(
            store.get(b"k", command("GET")).is_none()
                && store.get(b"k", command("STRLEN")).is_none()
        );
    }

    #[test]
    fn bytes_are_bounded_and_what_is_read_stays() {
        for len in [300, 30] {
            let store = Store::new(64 * 4000);
            let text = "x".repeat(len);
            for n in 0..10_000 {
                let key = n.to_string();
                let fill = fill(&store, &key);
                store.finish(key.as_bytes(), &fill, Ok(value(&text)), Some(clock::NEVER));
                store.get(b"0", command("GET"));
            }
            let (keys, bytes) = (store.size().0, store.bytes());
            assert!(bytes <= 64 * 4000 && keys > 100, "{keys} keys of {bytes} bytes");
            assert!(store.get(b"0", command("GET")).is_some());
            assert!(store.ready.pin().contains_key(&b"0"[..]));
            for n in 0..10_000 {
                store.invalidate(n.to_string().as_bytes());
            }
            assert_eq!(store.size(), (0, 0));
        }
    }

    #[test]
    fn what_has_expired_is_asked_for_again() {
        let store = Store::new(1 << 20);
        let first = fill(&store, "k");
        store.finish(b"k", &first, Ok(value("v")), Some(clock::now()));
        assert!(store.get(b"k", command("GET")).is_none());
        drop(fill(&store, "k"));
    }

    fn read(store: &Store, key: &str, name: &str) -> Option<String> {
        store.read(key.as_bytes(), command(name)).map(|reply| reply.unwrap())
    }

    /// Of a model it differs in what it does not have, never in what it has.
    #[test]
    fn whatever_happens_no_read_returns_what_was_not_filled_last() {
        // Room for some of the keys, and for some of their short replies.
        let (store, mut model) = (Store::new(64 * 3000), HashMap::new());
        let mut random = fastrand::Rng::with_seed(7);
        let (mut hits, mut short) = (0, 0);
        for step in 0..60_000 {
            let key = format!("key:{}", random.u32(..2000) * random.u32(..2));
            let name = ["GET", "STRLEN"][random.usize(..2)];
            match random.u32(..200) {
                0 => store.clear_of(random.u64(1..3)),
                1..10 => {
                    store.invalidate(key.as_bytes());
                    assert_eq!(read(&store, &key, name), None);
                }
                _ => match store.get_or_fill(key.as_bytes(), command(name)) {
                    Found::Hit(found) => {
                        let (text, expires): &(String, u64) = &model[&(key.clone(), name)];
                        assert_eq!(found, value(text));
                        assert_eq!(*expires, clock::NEVER);
                        let hash = store.hasher.hash_one(key.as_bytes());
                        let mut room = ROOM;
                        let copy = store.short.read(hash, key.as_bytes(), command(name), &mut room);
                        assert!(copy.is_none_or(|copy| copy == text.as_bytes()));
                        (hits, short) = (hits + 1, short + usize::from(copy.is_some()));
                        // What finds no short reply puts one there.
                        assert_eq!(read(&store, &key, name).as_ref(), Some(text));
                    }
                    Found::Fills(fill) => {
                        let text = format!("{step}").repeat(random.usize(1..20));
                        let expires = [clock::NEVER, clock::now()][usize::from(step % 16 == 0)];
                        store.adopt(key.as_bytes(), &fill, random.u64(1..3));
                        let reply = Ok(value(&text));
                        store.finish(key.as_bytes(), &fill, reply, Some(expires));
                        model.insert((key, name), (text, expires));
                    }
                    Found::Joined(_) => panic!("no fill is under way"),
                },
            }
        }
        assert!(hits > 10_000 && short > hits / 4, "{hits} hits, {short} of them short");
        assert!(store.bytes() <= 64 * 3000, "{} bytes", store.bytes());
        store.clear();
        assert_eq!(store.size(), (0, 0));
    }

    #[test]
    fn an_invalidation_ends_short_replies_for_all_threads() {
        let store = Store::new(1 << 20);
        let (invalidated, is_over) = (AtomicU64::new(0), std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        let begun = invalidated.load(std::sync::atomic::Ordering::SeqCst);
                        if let Some(text) = read(&store, "k", "GET") {
                            let count: u64 = text.parse().unwrap();
                            assert!(count > begun, "{count} after the invalidation of {begun}");
                        }
                    }
                });
            }
            for count in 1..20_000u64 {
                let fill = fill(&store, "k");
                store.finish(b"k", &fill, Ok(value(&count.to_string())), Some(clock::NEVER));
                for _ in 0..3 {
                    assert_eq!(read(&store, "k", "GET"), Some(count.to_string()));
                }
                store.invalidate(b"k");
                invalidated.store(count, std::sync::atomic::Ordering::SeqCst);
            }
            is_over.store(true, Relaxed);
        });
    }
}
