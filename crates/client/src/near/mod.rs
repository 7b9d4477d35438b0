//! [`NearCache`]: replies kept in the process, which the server invalidates.

mod store;

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use petrel_resp::{Protocol, Value};

use crate::argument::{ArgWriter, ToArg};
use crate::client::{Call, Client};
use crate::dedicated::OwnedLane;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::{Exchange, Outcome, PushSink};
use crate::reply::FromReply;
use crate::request::{Command, CommandInfo, Request, Target};
use store::{Fill, Found, Store};

/// How a near cache works.
#[derive(Clone, Debug)]
pub struct NearCacheOptions {
    /// Bytes of keys, commands and replies at most.
    pub bytes_max: usize,
    /// Keeps replies no longer than this, also those of keys that do not expire.
    pub ttl_max: Option<Duration>,
    /// With prefixes, the server tells of every change of a key that begins with one of them
    /// (`BCAST`), and remembers nothing of single keys; other keys are not cached. Without, it
    /// remembers the keys that were read (`OPTIN`).
    pub prefixes: Vec<Vec<u8>>,
}

impl Default for NearCacheOptions {
    /// 128 MiB, as long as keys live, by key.
    fn default() -> Self {
        Self { bytes_max: 128 * 1024 * 1024, ttl_max: None, prefixes: Vec::new() }
    }
}

/// What a near cache has done so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct NearCacheStatistics {
    /// Reads that were answered from memory.
    pub hits: u64,
    /// Reads that asked the server.
    pub misses: u64,
    /// Reads that waited for the reply of another read.
    pub joined: u64,
    /// Keys that the server invalidated.
    pub invalidations: u64,
    /// Keys that were dropped to make room.
    pub evictions: u64,
    /// Keys now.
    pub keys: usize,
    /// Bytes now.
    pub bytes: usize,
}

/// Reads through a cache in the process. It is cheap to clone, and clones share everything. Made by
/// [`Client::near_cache`].
///
/// It takes the same commands as a client. Those that only read one key and depend on nothing else
/// (`GET`, `HGETALL`, `ZRANGE`, but not `TTL` or `SRANDMEMBER`) are cached, until the server says
/// that the key has changed, or the key expires; all others go to the server. Reads of the same
/// reply that miss at the same time ask once.
///
/// A read never returns what is older than an invalidation that has been received. Between a
/// change and the arrival of its invalidation, reads return the older value; a program that must
/// read its own writes calls [`NearCache::forget`] after each. While the connection for
/// invalidations is lost nothing is cached.
#[derive(Clone)]
pub struct NearCache {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    lane: OwnedLane,
    shared: Arc<Shared>,
}

/// What the connection's task has of the cache.
struct Shared {
    store: Store,
    options: NearCacheOptions,
}

impl std::fmt::Debug for NearCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NearCache").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

impl Client {
    /// A cache in the process, over a connection of its own. The server must speak RESP3 and know
    /// `CLIENT TRACKING`, as Redis does since 6.0.
    pub async fn near_cache(&self, options: NearCacheOptions) -> Result<NearCache> {
        let shared = Arc::new(Shared { store: Store::new(options.bytes_max), options });
        let lane = OwnedLane(self.open_lane(true, Some(shared.clone())).await?);
        let inner = Inner { client: self.clone(), lane, shared };
        Ok(NearCache { inner: Arc::new(inner) })
    }
}

impl NearCache {
    /// What it has done so far.
    pub fn statistics(&self) -> NearCacheStatistics {
        let store = &self.inner.shared.store;
        let (keys, bytes) = store.size();
        NearCacheStatistics {
            hits: store.hits(),
            misses: store.misses.load(Relaxed),
            joined: store.joined.load(Relaxed),
            invalidations: store.invalidations.load(Relaxed),
            evictions: store.evictions.load(Relaxed),
            keys,
            bytes,
        }
    }

    /// The reply to a command if it is cached, without asking the server. Counts as a hit.
    pub fn cached(&self, command: &Command) -> Option<Value> {
        let key = command.arguments().nth(command.info.cached_key?)?;
        self.inner.shared.store.get(key, command.buffer.body())
    }

    /// Forgets what is cached of a key, as an invalidation does.
    pub fn forget(&self, key: impl AsRef<[u8]>) {
        self.inner.shared.store.invalidate(key.as_ref());
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.inner.shared.store.clear();
    }

    /// The next invalidation of any key, or the loss of the connection for invalidations.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.inner.shared.store.changed.notified()
    }

    /// The client whose server it caches.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }
}

impl Inner {
    /// The key of a command whose reply may be cached.
    fn key_of<'a>(&self, command: &'a Command) -> Option<&'a [u8]> {
        let at = command.info.cached_key?;
        let key = command.arguments().nth(at)?;
        let prefixes = &self.shared.options.prefixes;
        (prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix)))
            .then_some(key)
    }

    /// Asks the server; whatever becomes of the readers, the fill ends.
    async fn fill(self: Arc<Self>, key: Vec<u8>, command: Command, fill: Arc<Fill>) {
        let guard = FillGuard { shared: self.shared.clone(), key, fill, is_finished: false };
        let began = Instant::now();
        let by_key = self.shared.options.prefixes.is_empty();
        let mut buffers = Vec::with_capacity(3);
        buffers.extend(by_key.then(|| Command::raw("CLIENT CACHING YES").buffer));
        let mut pttl = Command::raw("PTTL");
        guard.key[..].write_arg(&mut ArgWriter(&mut pttl.buffer));
        let limit = command.timeout.or(self.lane.0.timeout());
        buffers.extend([command.buffer, pttl.buffer]);
        let retries = self.client.options().retries;
        let replies = match Exchange::new(&self.lane.0, buffers, limit, retries).await {
            Ok(Outcome::Many(replies)) => replies,
            Ok(_) => return guard.finish(Err(Error::new(ErrorKind::Closed)), None),
            Err(error) => return guard.finish(Err(error), None),
        };
        let mut replies = replies.into_iter().skip(usize::from(by_key));
        let (value, left) = (replies.next().unwrap_or(Value::Null), replies.next());
        if let Value::Error(text) = &value {
            return guard.finish(Err(Error::from_reply(text)), None);
        }
        let left = match left {
            // No key, hence no value; or it expired between the two commands.
            Some(Value::Integer(-2)) if !value.is_null() && !is_empty(&value) => {
                return guard.finish(Ok(value), None);
            }
            Some(Value::Integer(-2 | -1)) => None,
            Some(Value::Integer(left)) => u64::try_from(left).ok().map(Duration::from_millis),
            _ => return guard.finish(Ok(value), None),
        };
        let ttl_max = self.shared.options.ttl_max;
        let left = match (left, ttl_max) {
            (Some(left), Some(max)) => Some(left.min(max)),
            (left, max) => left.or(max),
        };
        // From the moment before it was asked for, so that it never lives longer than the key.
        let expires = left.and_then(|left| began.checked_add(left));
        guard.finish(Ok(value), Some(expires));
    }
}

/// Whether a reply is what commands say of a key that does not exist.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Integer(0) => true,
        Value::Bulk(text) => text.is_empty(),
        Value::Simple(text) => &text[..] == b"none",
        Value::Array(items) | Value::Set(items) => {
            items.iter().all(|item| item.is_null() || is_empty(item))
        }
        Value::Map(pairs) => pairs.is_empty(),
        Value::Boolean(is) => !is,
        _ => false,
    }
}

/// Ends a fill whose task is dropped, so that its readers do not wait for ever.
struct FillGuard {
    shared: Arc<Shared>,
    key: Vec<u8>,
    fill: Arc<Fill>,
    is_finished: bool,
}

impl FillGuard {
    fn finish(mut self, result: Result<Value>, keep: Option<Option<Instant>>) {
        self.is_finished = true;
        self.shared.store.finish(&self.key, &self.fill, result, keep);
    }
}

impl Drop for FillGuard {
    fn drop(&mut self) {
        if !self.is_finished {
            let error = Err(Error::new(ErrorKind::Closed));
            self.shared.store.finish(&self.key, &self.fill, error, None);
        }
    }
}

impl PushSink for Shared {
    fn push(&self, items: Vec<Value>) {
        let mut items = items.into_iter();
        if items.next().is_none_or(|kind| kind.as_bytes() != Some(b"invalidate")) {
            return;
        }
        match items.next() {
            Some(Value::Array(keys)) => {
                keys.iter().filter_map(Value::as_bytes).for_each(|key| self.store.invalidate(key))
            }
            // `FLUSHALL` and `FLUSHDB`.
            _ => self.store.clear(),
        }
    }

    fn opening(&self, protocol: Protocol) -> Result<Vec<Command>> {
        if protocol != Protocol::Resp3 {
            let text =
                "a near cache needs RESP3, which this server does not speak or the options forbid";
            return Err(Error::new(ErrorKind::Configuration(text.into())));
        }
        let prefixes = &self.options.prefixes;
        let mut command = Command::raw("CLIENT TRACKING ON");
        let mut to = ArgWriter(&mut command.buffer);
        to.write(if prefixes.is_empty() { b"OPTIN" } else { b"BCAST" });
        for prefix in prefixes {
            to.write(b"PREFIX");
            to.write(prefix);
        }
        Ok(vec![command])
    }

    fn disconnected(&self) {
        self.store.clear();
    }

    fn closed(&self) {
        self.store.clear();
    }
}

impl Target for &NearCache {}

impl<'a, C, R: FromReply> IntoFuture for Request<&'a NearCache, C, R> {
    type Output = Result<R>;
    type IntoFuture = NearCall<'a, R>;

    fn into_future(self) -> NearCall<'a, R> {
        NearCall { cache: self.target, state: State::Start(self.command) }
    }
}

/// A command to a near cache under way.
#[must_use = "futures do nothing unless polled"]
pub struct NearCall<'a, R> {
    cache: &'a NearCache,
    state: State<'a, R>,
}

type Waiting = Pin<Box<dyn Future<Output = Result<Value>> + Send>>;

#[allow(clippy::large_enum_variant, reason = "a hit should not allocate")]
enum State<'a, R> {
    Start(Command),
    Waiting(Waiting, &'static CommandInfo),
    /// It is not cached.
    Passed(Call<'a, R>),
    Over,
}

impl<'a, R: FromReply> NearCall<'a, R> {
    /// Looks into the cache.
    fn start(&mut self, mut command: Command) -> State<'a, R> {
        command.resolve();
        let inner = &self.cache.inner;
        let Some(key) = inner.key_of(&command) else {
            return State::Passed(inner.client.call(command));
        };
        let info = command.info;
        let waiting: Waiting = match inner.shared.store.get_or_fill(key, command.buffer.body()) {
            Found::Hit(value) => Box::pin(std::future::ready(Ok(value))),
            Found::Joined(fill) => Box::pin(async move { fill.wait().await }),
            Found::Fills(fill) => {
                let key = key.to_vec();
                tokio::spawn(inner.clone().fill(key, command, fill.clone()));
                Box::pin(async move { fill.wait().await })
            }
        };
        State::Waiting(waiting, info)
    }
}

impl<R: FromReply> Future for NearCall<'_, R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                State::Start(command) => {
                    if let Some(value) = this.cache.cached(command) {
                        let name = command.info.name;
                        this.state = State::Over;
                        return Poll::Ready(
                            R::from_reply(value).map_err(|error| error.of_command(name)),
                        );
                    }
                    let State::Start(command) = std::mem::replace(&mut this.state, State::Over)
                    else {
                        continue;
                    };
                    this.state = this.start(command);
                }
                State::Waiting(waiting, info) => {
                    let Poll::Ready(result) = waiting.as_mut().poll(cx) else {
                        return Poll::Pending;
                    };
                    let name = info.name;
                    this.state = State::Over;
                    let result = result.and_then(R::from_reply);
                    return Poll::Ready(result.map_err(|error| error.of_command(name)));
                }
                State::Passed(call) => return Pin::new(call).poll(cx),
                State::Over => return Poll::Ready(Err(Error::new(ErrorKind::Closed))),
            }
        }
    }
}

impl<R> std::fmt::Debug for NearCall<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NearCall")
    }
}
