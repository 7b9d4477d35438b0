//! [`Store`]: replies by key and command, in shards, bounded in bytes.
//!
//! A fill puts a place holder into its shard before it asks the server, and its reply only replaces
//! that very place holder. An invalidation removes the key with everything in it, place holders
//! included. So an invalidation that races a fill wins, in whichever order the two are handled.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};
use petrel_resp::Value;
use tokio::sync::Notify;

use crate::error::Result;

/// Shards; a power of two.
const SHARDS: usize = 64;

/// What an entry takes beside its key, command and reply, in bytes.
const ENTRY_BYTES: usize = 200;

/// The owner of a fill that has not asked yet.
pub(super) const NOBODY: u64 = 0;

/// What several readers of the same reply wait for.
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

/// What a look-up finds.
pub(crate) enum Found {
    /// The reply.
    Hit(Value),
    /// Another reader is asking the server.
    Joined(Arc<Fill>),
    /// This reader is to ask the server.
    Fills(Arc<Fill>),
}

struct Cached {
    command: Box<[u8]>,
    /// The connection by which the server tells of the key's changes; [`NOBODY`] until it is known.
    owner: u64,
    content: Content,
}

enum Content {
    Ready { value: Value, expires: Option<Instant>, bytes: usize },
    Filling(Arc<Fill>),
}

struct Entry {
    /// Tells this entry of a key from earlier ones.
    id: u64,
    /// Whether it was read since eviction last came by.
    is_used: AtomicBool,
    replies: Vec<Cached>,
}

#[derive(Default)]
struct Replies {
    entries: HashMap<Bytes, Entry, RandomState>,
    /// Keys in the order in which eviction looks at them; some are gone.
    order: VecDeque<(u64, Bytes)>,
    next_id: u64,
    bytes: usize,
}

#[derive(Default)]
struct Shard {
    content: RwLock<Replies>,
    hits: AtomicU64,
}

/// Replies by key and command.
pub(crate) struct Store {
    shards: Vec<Shard>,
    hasher: RandomState,
    shard_bytes_max: usize,
    /// Told of each invalidation.
    pub(crate) changed: Notify,
    pub(crate) misses: AtomicU64,
    pub(crate) joined: AtomicU64,
    pub(crate) invalidations: AtomicU64,
    pub(crate) evictions: AtomicU64,
}

impl Store {
    /// A store of so many bytes at most.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            hasher: RandomState::default(),
            shard_bytes_max: bytes_max / SHARDS,
            changed: Notify::new(),
            misses: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: &[u8]) -> &Shard {
        // The map within uses the hash's other bits.
        &self.shards[(self.hasher.hash_one(key) >> 57) as usize % SHARDS]
    }

    /// The reply if it is there and has not expired.
    pub(crate) fn get(&self, key: &[u8], command: &[u8]) -> Option<Value> {
        let shard = self.shard(key);
        let content = shard.content.read();
        let entry = content.entries.get(key)?;
        let value = entry.replies.iter().find(|cached| *cached.command == *command)?.ready()?;
        if !entry.is_used.load(Relaxed) {
            entry.is_used.store(true, Relaxed);
        }
        let value = value.clone();
        drop(content);
        shard.hits.fetch_add(1, Relaxed);
        Some(value)
    }

    /// The reply, or a place in the fill that brings it.
    pub(crate) fn get_or_fill(&self, key: &[u8], command: &[u8]) -> Found {
        let mut content = self.shard(key).content.write();
        let content = &mut *content;
        let entry = match content.entries.get_mut(key) {
            Some(entry) => entry,
            None => {
                content.next_id += 1;
                let id = content.next_id;
                let key = Bytes::copy_from_slice(key);
                content.order.push_back((id, key.clone()));
                let entry = Entry { id, is_used: AtomicBool::new(false), replies: Vec::new() };
                content.entries.entry(key).or_insert(entry)
            }
        };
        if let Some(at) = entry.replies.iter().position(|cached| *cached.command == *command) {
            let cached = &entry.replies[at];
            if let Content::Filling(fill) = &cached.content {
                self.joined.fetch_add(1, Relaxed);
                return Found::Joined(fill.clone());
            }
            if let Some(value) = cached.ready() {
                return Found::Hit(value.clone());
            }
            content.bytes -= entry.replies.swap_remove(at).bytes();
        }
        self.misses.fetch_add(1, Relaxed);
        let fill = Arc::new(Fill::default());
        let content = Content::Filling(fill.clone());
        entry.replies.push(Cached { command: command.into(), owner: NOBODY, content });
        Found::Fills(fill)
    }

    /// Before a fill asks: the connection by which its key's changes will be told. If that is lost
    /// from now on, the reply is not kept.
    pub(crate) fn adopt(&self, key: &[u8], fill: &Arc<Fill>, owner: u64) {
        let mut content = self.shard(key).content.write();
        let replies = content.entries.get_mut(key).into_iter().flat_map(|entry| &mut entry.replies);
        for cached in replies.filter(|cached| cached.is_filled_by(fill)) {
            cached.owner = owner;
        }
    }

    /// Ends a fill. The reply is kept if there was no invalidation meanwhile, and if `keep` says
    /// until when.
    pub(crate) fn finish(
        &self,
        key: &[u8],
        fill: &Arc<Fill>,
        result: Result<Value>,
        keep: Option<Option<Instant>>,
    ) {
        let mut content = self.shard(key).content.write();
        let content = &mut *content;
        if let Some(entry) = content.entries.get_mut(key)
            && let Some(at) = entry.replies.iter().position(|cached| cached.is_filled_by(fill))
        {
            match (&result, keep) {
                (Ok(value), Some(expires)) => {
                    let cached = &mut entry.replies[at];
                    let bytes =
                        ENTRY_BYTES + key.len() + cached.command.len() + size_of_value(value);
                    cached.content = Content::Ready { value: value.clone(), expires, bytes };
                    content.bytes += bytes;
                }
                _ => {
                    entry.replies.swap_remove(at);
                    if entry.replies.is_empty() {
                        content.entries.remove(key);
                    }
                }
            }
        }
        self.evictions.fetch_add(content.evict(self.shard_bytes_max), Relaxed);
        *fill.result.lock() = Some(result);
        fill.done.notify_waiters();
    }

    /// Forgets a key.
    pub(crate) fn invalidate(&self, key: &[u8]) {
        let mut content = self.shard(key).content.write();
        if let Some(entry) = content.entries.remove(key) {
            content.bytes -= entry.bytes();
        }
        drop(content);
        self.invalidations.fetch_add(1, Relaxed);
        self.changed.notify_waiters();
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut content = shard.content.write();
            content.entries.clear();
            content.order.clear();
            content.bytes = 0;
        }
        self.changed.notify_waiters();
    }

    /// Forgets what depends on a connection.
    pub(crate) fn clear_of(&self, owner: u64) {
        self.retain(|_, other| other != owner);
    }

    /// Keeps the replies, and lets the fills go on, of which a function of key and owner says so.
    pub(crate) fn retain(&self, keeps: impl Fn(&[u8], u64) -> bool) {
        for shard in &self.shards {
            let mut content = shard.content.write();
            let Replies { entries, bytes, .. } = &mut *content;
            entries.retain(|key, entry| {
                entry.replies.retain(|cached| {
                    let is_kept = keeps(key, cached.owner);
                    if !is_kept {
                        *bytes -= cached.bytes();
                    }
                    is_kept
                });
                !entry.replies.is_empty()
            });
        }
        self.changed.notify_waiters();
    }

    pub(crate) fn hits(&self) -> u64 {
        self.shards.iter().map(|shard| shard.hits.load(Relaxed)).sum()
    }

    /// Keys, and bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(keys, bytes), shard| {
            let content = shard.content.read();
            (keys + content.entries.len(), bytes + content.bytes)
        })
    }
}

impl Replies {
    /// Evicts keys until no more than so many bytes are left; returns how many. A key that was read
    /// since the last look is passed over once; fills under way are left alone.
    fn evict(&mut self, bytes_max: usize) -> u64 {
        let mut evicted = 0;
        let mut looks = self.order.len() * 2;
        while self.bytes > bytes_max && looks > 0 {
            looks -= 1;
            let Some((id, key)) = self.order.pop_front() else { break };
            let Some(entry) = self.entries.get(&key).filter(|entry| entry.id == id) else {
                continue;
            };
            if entry.is_used.swap(false, Relaxed) || entry.bytes() == 0 {
                self.order.push_back((id, key));
                continue;
            }
            self.bytes -= entry.bytes();
            self.entries.remove(&key);
            evicted += 1;
        }
        // Keys that were invalidated leave their places behind.
        if self.order.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.order.retain(|(id, key)| entries.get(key).is_some_and(|entry| entry.id == *id));
        }
        evicted
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        self.replies.iter().map(Cached::bytes).sum()
    }
}

impl Cached {
    fn ready(&self) -> Option<&Value> {
        match &self.content {
            Content::Ready { value, expires, .. } => {
                expires.is_none_or(|expires| Instant::now() < expires).then_some(value)
            }
            Content::Filling(_) => None,
        }
    }

    fn is_filled_by(&self, fill: &Arc<Fill>) -> bool {
        matches!(&self.content, Content::Filling(own) if Arc::ptr_eq(own, fill))
    }

    fn bytes(&self) -> usize {
        match self.content {
            Content::Ready { bytes, .. } => bytes,
            Content::Filling(_) => 0,
        }
    }
}

/// Bytes that a reply takes, about.
fn size_of_value(value: &Value) -> usize {
    let own = size_of::<Value>();
    own + match value {
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            items.iter().map(size_of_value).sum()
        }
        Value::Map(pairs) => {
            pairs.iter().map(|(key, value)| size_of_value(key) + size_of_value(value)).sum()
        }
        other => other.as_bytes().map_or(0, <[u8]>::len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        Value::Bulk(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn fill(store: &Store, key: &str) -> Arc<Fill> {
        match store.get_or_fill(key.as_bytes(), b"GET") {
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
        store.finish(b"k", &second, Ok(value("new")), Some(None));
        store.finish(b"k", &first, Ok(value("old")), Some(None));
        assert_eq!(store.get(b"k", b"GET"), Some(value("new")));
        let third = fill(&store, "other");
        store.clear();
        store.finish(b"other", &third, Ok(value("old")), Some(None));
        assert_eq!((store.get(b"other", b"GET"), store.size()), (None, (0, 0)));
    }

    #[test]
    fn a_lost_connection_empties_what_depends_on_it() {
        let store = Store::new(1 << 20);
        for (key, owner) in [("a", 1), ("b", 2)] {
            let fill = fill(&store, key);
            store.adopt(key.as_bytes(), &fill, owner);
            store.finish(key.as_bytes(), &fill, Ok(value(key)), Some(None));
        }
        let (asking, waiting) = (fill(&store, "asking"), fill(&store, "waiting"));
        store.adopt(b"asking", &asking, 1);
        store.clear_of(1);
        assert_eq!((store.get(b"a", b"GET"), store.get(b"b", b"GET")), (None, Some(value("b"))));
        // The one had asked over that connection, the other had not asked yet.
        store.finish(b"asking", &asking, Ok(value("old")), Some(None));
        store.adopt(b"waiting", &waiting, 3);
        store.finish(b"waiting", &waiting, Ok(value("new")), Some(None));
        assert_eq!(store.get(b"asking", b"GET"), None);
        assert_eq!(store.get(b"waiting", b"GET"), Some(value("new")));
        store.retain(|key, owner| key == b"b" && owner == 2);
        store.invalidate(b"b");
        assert_eq!(store.size(), (0, 0));
    }

    #[test]
    fn readers_join_one_fill() {
        let store = Store::new(1 << 20);
        let first = fill(&store, "k");
        assert!(matches!(store.get_or_fill(b"k", b"GET"), Found::Joined(_)));
        // Another command of the same key is a fill of its own.
        assert!(matches!(store.get_or_fill(b"k", b"STRLEN"), Found::Fills(_)));
        store.finish(b"k", &first, Ok(value("v")), Some(None));
        assert!(matches!(store.get_or_fill(b"k", b"GET"), Found::Hit(_)));
        store.invalidate(b"k");
        assert!(store.get(b"k", b"GET").is_none() && store.get(b"k", b"STRLEN").is_none());
    }

    #[test]
    fn bytes_are_bounded_and_what_is_read_stays() {
        let store = Store::new(64 * 4000);
        let long = "x".repeat(300);
        for n in 0..10_000 {
            let key = n.to_string();
            let fill = fill(&store, &key);
            store.finish(key.as_bytes(), &fill, Ok(value(&long)), Some(None));
            store.get(b"0", b"GET");
        }
        let (keys, bytes) = store.size();
        assert!(bytes <= 64 * 4000 && keys > 100, "{keys} keys of {bytes} bytes");
        assert!(store.get(b"0", b"GET").is_some());
        for n in 0..10_000 {
            store.invalidate(n.to_string().as_bytes());
        }
        assert_eq!(store.size(), (0, 0));
    }

    #[test]
    fn what_has_expired_is_asked_for_again() {
        let store = Store::new(1 << 20);
        let first = fill(&store, "k");
        store.finish(b"k", &first, Ok(value("v")), Some(Some(Instant::now())));
        assert!(store.get(b"k", b"GET").is_none());
        drop(fill(&store, "k"));
    }
}
