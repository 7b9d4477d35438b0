//! [`NearCache`]: replies kept in the process, which the server invalidates.

#[macro_use]
mod handle;

mod clock;
mod cluster;
mod entry;
mod fill;
mod hits;
mod read;
mod shared;
mod short;
mod store;
mod tracking;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use petrel_resp::Value;

use crate::client::{Call, Client};
use crate::cluster::ClusterCall;
use crate::dedicated::OwnedLane;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::Exchange;
use crate::reply::FromReply;
use crate::request::{Command, CommandInfo};
pub use cluster::ClusterNearCache;
use entry::Question;
use fill::Filling;
pub use read::{NearRead, NearReadWith};
pub use shared::{NearCacheOptions, NearCacheStatistics};
use shared::{SOLE_OWNER, Shared};
use store::{Fill, Found};
use tracking::Tracking;

/// Reads through a cache in the process. Cheap to clone; clones share everything. Made by
/// [`Client::near_cache`].
///
/// Takes the same commands as a client. Commands that only read one key and depend on nothing
/// else (`GET`, `HGETALL`, `ZRANGE`, but not `TTL` or `SRANDMEMBER`) are cached until the server
/// invalidates the key or the key expires; all other commands go to the server. Concurrent misses
/// of the same reply send one request.
///
/// A read never returns a value older than a received invalidation. Between a change and the
/// arrival of its invalidation, reads return the older value; a program that must read its own
/// writes calls [`NearCache::forget`] after each. While the connection for invalidations is lost
/// nothing is cached.
#[derive(Clone)]
pub struct NearCache {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    lane: OwnedLane,
    shared: Arc<Shared>,
}

near_handle!(NearCache);

impl Client {
    /// A cache in the process, over a connection of its own. The server must speak RESP3 and know
    /// `CLIENT TRACKING`, as Redis does since 6.0.
    pub async fn near_cache(&self, options: NearCacheOptions) -> Result<NearCache> {
        let shared = Shared::new(options);
        let tracking = Arc::new(Tracking { shared: shared.clone(), owner: SOLE_OWNER });
        let lane = OwnedLane(self.open_lane(true, Some(tracking)).await?);
        shared.observed_by(lane.0.telemetry());
        let inner = Inner { client: self.clone(), lane, shared };
        Ok(NearCache { inner: Arc::new(inner) })
    }
}

impl NearCache {
    #[inline]
    fn source(&self) -> Source<'_> {
        Source::Server(&self.inner)
    }

    /// The next invalidation of any key, or the loss of the connection for invalidations.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.inner.shared.store.changed.notified()
    }

    /// The client of the cached server.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }
}

impl Inner {
    /// Asks the server; whatever becomes of the readers, the fill ends.
    async fn fill(self: Arc<Self>, command: Command, filling: Filling) {
        let began = clock::now();
        filling.adopt(SOLE_OWNER);
        let limit = command.timeout.or(self.lane.0.timeout());
        let buffers = filling.buffers(command.buffer);
        let retries = self.client.options().retries;
        filling.answered(Exchange::new(&self.lane.0, buffers, limit, retries).await, began);
    }
}

/// A command to a near cache under way.
#[must_use = "futures do nothing unless polled"]
pub struct NearCall<'a, R> {
    source: Source<'a>,
    state: State<'a, R>,
}

/// Source of a near cache.
#[derive(Clone, Copy)]
enum Source<'a> {
    Server(&'a Arc<Inner>),
    Cluster(&'a ClusterNearCache),
}

impl<'a> Source<'a> {
    #[inline]
    fn shared(self) -> &'a Arc<Shared> {
        match self {
            Self::Server(inner) => &inner.shared,
            Self::Cluster(cache) => cache.shared(),
        }
    }

    fn pass<R: FromReply>(self, command: Command) -> State<'a, R> {
        match self {
            Self::Server(inner) => State::Passed(inner.client.call(command)),
            Self::Cluster(cache) => State::PassedToCluster(cache.cluster().call(command)),
        }
    }

    /// Has the server asked by a task of its own.
    fn fill(self, key: Vec<u8>, command: Command, fill: Arc<Fill>) {
        let telemetry = match self {
            Self::Server(inner) => inner.lane.0.telemetry(),
            Self::Cluster(cache) => cache.cluster().telemetry(),
        };
        let operation = telemetry.begin(&command);
        let filling = Filling::new(self.shared().clone(), key, fill, operation);
        match self {
            Self::Server(inner) => drop(tokio::spawn(inner.clone().fill(command, filling))),
            Self::Cluster(cache) => cache.start_fill(command, filling),
        }
    }
}

type Waiting = Pin<Box<dyn Future<Output = Result<Value>> + Send>>;

#[allow(clippy::large_enum_variant, reason = "a hit should not allocate")]
enum State<'a, R> {
    Start(Command),
    Waiting(Waiting, &'static CommandInfo),
    /// Not cached: the call of the client.
    Passed(Call<'a, R>),
    PassedToCluster(ClusterCall<R>),
    Over,
}

impl<'a, R> NearCall<'a, R> {
    fn new(source: Source<'a>, command: Command) -> Self {
        Self { source, state: State::Start(command) }
    }
}

impl<'a, R: FromReply> NearCall<'a, R> {
    /// Looks into the cache.
    fn start(&mut self, mut command: Command) -> State<'a, R> {
        command.resolve();
        let shared = self.source.shared();
        let Some(key) = shared.key_of(&command) else {
            return self.source.pass(command);
        };
        let info = command.info;
        let waiting: Waiting = match shared.store.get_or_fill(key, Question::of(&command)) {
            Found::Hit(value) => Box::pin(std::future::ready(Ok(value))),
            Found::Joined(fill) => Box::pin(async move { fill.wait().await }),
            Found::Fills(fill) => {
                let key = key.to_vec();
                self.source.fill(key, command, fill.clone());
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
                    if let Some(result) = this.source.shared().read(command) {
                        let name = command.info.name;
                        this.state = State::Over;
                        return Poll::Ready(result.map_err(|error| error.of_command(name)));
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
                State::PassedToCluster(call) => return Pin::new(call).poll(cx),
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
