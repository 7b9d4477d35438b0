//! [`Cluster`]: a client of Redis Cluster.

mod route;
mod slots;

use std::collections::HashMap;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use petrel_resp::{Protocol, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::buffer::CommandBuffer;
use crate::client::{Client, connect_error};
use crate::dedicated::{Dedicated, OwnedLane};
use crate::error::{Error, ErrorKind, Result};
use crate::lane::{Exchange, Lane, Outcome, PushSink};
use crate::options::{Address, Options};
use crate::pipeline::{Pipeline, Replies};
use crate::reply::FromReply;
use crate::request::{Command, CommandInfo, Request, Target};
use crate::telemetry::{Operation, Telemetry};
use crate::transport::Connector;
use route::{Part, Route, merge, split};
use slots::SlotMap;
pub(crate) use slots::{Place, Redirection, slot_of};

/// Timeout of a node's reply to `CLUSTER SLOTS`; then another node is asked.
const ASK_MAX: Duration = Duration::from_secs(2);

/// After this time the map of slots is read again although no command was sent to the wrong node:
/// there may be new replicas.
pub(crate) const MAP_AGE_MAX: Duration = Duration::from_secs(30);

/// Destination of commands that only read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReadFrom {
    /// To primaries.
    #[default]
    Primaries,
    /// Replicas in turn, with possibly older data; the primary of a shard without replicas.
    Replicas,
}

/// Options of a cluster client.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// For each node; the address is the first that is asked for the others.
    pub node: Options,
    /// More nodes that can be asked, in case that the first one is gone.
    pub seeds: Vec<Address>,
    /// Destination of commands that only read.
    pub read_from: ReadFrom,
    /// Maximum number of attempts of one command, after redirections and lost nodes.
    pub attempts_max: u32,
}

impl ClusterOptions {
    /// Reads from primaries; up to 16 attempts.
    pub fn new(node: Options) -> Self {
        Self { node, seeds: Vec::new(), read_from: ReadFrom::default(), attempts_max: 16 }
    }
}

/// A client of a Redis Cluster. Cheap to clone; clones share a connection to each node.
///
/// Takes the same commands as a [`Client`], and sends each to the node that serves its key. It
/// follows `MOVED` and `ASK`. When a node is gone, the other nodes are asked for its successor;
/// meanwhile unsent commands, and commands that only read, are retried until their timeout; other
/// commands fail with [`ErrorKind::Disconnected`]. Commands without a key go to any node.
///
/// `MGET`, `EXISTS`, `TOUCH`, `DEL` and `UNLINK` with keys of several slots are split, and are not
/// atomic then; other commands must have all their keys in one slot.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    options: ClusterOptions,
    connector: Connector,
    telemetry: Telemetry,
    map: RwLock<Arc<SlotMap>>,
    /// Number of times the slot map was read.
    version: AtomicU64,
    /// Notified when other nodes serve slots than before.
    map_changed: watch::Sender<()>,
    /// Time of the last read of the slot map, or of the last attempt because it was old.
    map_time: Mutex<Instant>,
    /// Held while it is read.
    reading: tokio::sync::Mutex<()>,
    nodes: Mutex<HashMap<Place, Arc<Node>>>,
    next: AtomicUsize,
}

/// A node, and the client of it while there is a connection.
struct Node {
    place: Place,
    client: Mutex<Option<Client>>,
    /// Held while the connection is made.
    connecting: tokio::sync::Mutex<()>,
}

/// Lets connections read from replicas.
struct ReadOnly;

impl PushSink for ReadOnly {
    fn push(&self, _: Vec<Value>) {}

    fn opening(&self, _: Protocol) -> Result<Vec<Command>> {
        Ok(vec![Command::raw("READONLY")])
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Connects by the URL of any node; see [`Options::from_url`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::with_options(ClusterOptions::new(Options::from_url(url)?)).await
    }

    /// Connects by options: asks the first node that answers for all others.
    pub async fn with_options(options: ClusterOptions) -> Result<Self> {
        let connector = Connector::of(&options.node).map_err(connect_error)?;
        Self::open(options, connector).await
    }

    pub(crate) async fn open(options: ClusterOptions, connector: Connector) -> Result<Self> {
        let configuration = |text: &str| Error::new(ErrorKind::Configuration(text.to_owned()));
        if options.node.database != 0 {
            return Err(configuration("a cluster has database 0 only"));
        }
        if options.seeds.iter().chain([&options.node.address]).any(|seed| place_of(seed).is_none())
        {
            return Err(configuration("the nodes of a cluster are reached over TCP or TLS"));
        }
        let telemetry = Telemetry::of(&options.node);
        let inner = Arc::new(Inner {
            options,
            connector,
            telemetry,
            map: RwLock::default(),
            version: AtomicU64::new(0),
            map_changed: watch::Sender::new(()),
            map_time: Mutex::new(Instant::now()),
            reading: tokio::sync::Mutex::new(()),
            nodes: Mutex::default(),
            next: AtomicUsize::new(0),
        });
        inner.read_map(0).await?;
        Ok(Self { inner })
    }

    /// A client of each primary, for what concerns nodes rather than keys: `SCAN`, `FLUSHALL`,
    /// subscriptions. It is closed when its connection is lost.
    pub async fn primaries(&self) -> Result<Vec<Client>> {
        let map = self.inner.map.read().clone();
        let mut clients = Vec::with_capacity(map.shards.len());
        for shard in &map.shards {
            let node = self.inner.node(&shard.primary);
            clients.push(self.inner.client(&node).await?);
        }
        Ok(clients)
    }

    /// A client of the primary that serves a key now. It is closed when its connection is lost, and
    /// does not follow the key to another node.
    pub async fn primary_of(&self, key: impl AsRef<[u8]>) -> Result<Client> {
        let route = Route { slot: Some(slot_of(key.as_ref())), may_read_replica: false };
        let node = self.inner.route(route)?;
        self.inner.client(&node).await
    }

    /// A connection that one caller has to itself, to the primary that serves a key: for commands
    /// that wait, and transactions that watch keys.
    pub async fn dedicated(&self, key: impl AsRef<[u8]>) -> Result<Dedicated> {
        self.primary_of(key).await?.dedicated().await
    }

    /// The last known slot map.
    pub(crate) fn map(&self) -> Arc<SlotMap> {
        self.inner.map.read().clone()
    }

    /// Notifies when other nodes serve slots than before.
    pub(crate) fn map_changes(&self) -> watch::Receiver<()> {
        self.inner.map_changed.subscribe()
    }

    /// Has the map of slots read again, without waiting for it, if it is old.
    pub(crate) fn renew_map(&self) {
        self.inner.renew_map();
    }

    /// Reads the map of slots again.
    pub(crate) async fn read_map(&self) -> Result<()> {
        self.inner.read_map(self.inner.version.load(Relaxed)).await
    }

    /// A connection to a node, separate from the shared ones; it is not replaced when it is lost.
    pub(crate) async fn open_lane(
        &self,
        place: &Place,
        pushes: Arc<dyn PushSink>,
    ) -> Result<OwnedLane> {
        let options = Arc::new(self.inner.node_options(place));
        let connector = self.inner.connector.clone();
        Ok(OwnedLane(Lane::connect(options, connector, false, Some(pushes)).await?))
    }

    /// The reply to a command that is recorded elsewhere.
    pub(crate) async fn reply(&self, command: Command) -> Result<Value> {
        Value::from_reply(self.inner.clone().command(command, None).await?)
    }

    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.inner.telemetry
    }

    pub(crate) fn node_options(&self) -> &Options {
        &self.inner.options.node
    }

    /// Sends a pipeline, each command to the node of its key; those of one node keep their order.
    /// The keys of a transaction must be of one slot.
    pub async fn run(&self, mut pipeline: Pipeline) -> Result<Replies> {
        pipeline.check()?;
        let names: Vec<String> = pipeline.commands.iter().map(Command::name).collect();
        if names.is_empty() {
            return Ok(Replies::default());
        }
        let Pipeline { commands, is_transaction } = pipeline;
        let mut operation = self.inner.telemetry.begin_batch(&commands, is_transaction);
        let replies = match is_transaction {
            true => {
                let values = self.inner.clone().transaction(commands, &mut operation).await;
                values.and_then(|values| Replies::executed(values, names))
            }
            false => {
                let one = |command| boxed(self.inner.clone().command(command, None));
                let values = join_all(commands.into_iter().map(one).collect()).await;
                let values = values.into_iter().collect::<Result<_>>();
                values.map(|values| Replies::new(values, names))
            }
        };
        operation.end(replies.as_ref().err());
        replies
    }
}

fn place_of(address: &Address) -> Option<Place> {
    match address {
        Address::Tcp { host, port } | Address::Tls { host, port } => {
            Some(Place { host: host.clone(), port: *port })
        }
        Address::Unix(_) => None,
    }
}

impl Inner {
    fn node(&self, place: &Place) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        let new = || {
            let (client, connecting) = (Mutex::new(None), tokio::sync::Mutex::new(()));
            Arc::new(Node { place: place.clone(), client, connecting })
        };
        nodes.entry(place.clone()).or_insert_with(new).clone()
    }

    fn node_options(&self, place: &Place) -> Options {
        let mut options = self.options.node.clone();
        let Place { host, port } = place.clone();
        options.address = match options.address {
            Address::Tls { .. } => Address::Tls { host, port },
            _ => Address::Tcp { host, port },
        };
        options
    }

    /// The client of a node; connects if there is none.
    async fn client(&self, node: &Node) -> Result<Client> {
        if let Some(client) = &*node.client.lock() {
            return Ok(client.clone());
        }
        let _connecting = node.connecting.lock().await;
        if let Some(client) = &*node.client.lock() {
            return Ok(client.clone());
        }
        let options = self.node_options(&node.place);
        let pushes: Option<Arc<dyn PushSink>> = match self.options.read_from {
            ReadFrom::Primaries => None,
            ReadFrom::Replicas => Some(Arc::new(ReadOnly)),
        };
        // Not replaced when lost: another node may then serve the slots.
        let client = Client::open(options, self.connector.clone(), false, pushes).await?;
        *node.client.lock() = Some(client.clone());
        Ok(client)
    }

    /// Asks nodes for the map of slots, unless it was read since `version`.
    async fn read_map(&self, version: u64) -> Result<()> {
        let _reading = self.reading.lock().await;
        if self.version.load(Relaxed) != version {
            return Ok(());
        }
        let known = self.map.read().clone();
        let seeds = self.options.seeds.iter().chain([&self.options.node.address]);
        let mut candidates: Vec<Place> = known.places().cloned().collect();
        candidates.extend(seeds.filter_map(place_of));
        let mut last = connect_error("no node of the cluster answers");
        for (number, place) in candidates.iter().enumerate() {
            if candidates[..number].contains(place) {
                continue;
            }
            let limit = ASK_MAX.min(self.options.node.connect_timeout);
            match tokio::time::timeout(limit, self.ask_for_map(place)).await {
                Ok(Ok(map)) => {
                    self.nodes.lock().retain(|place, _| map.places().any(|known| known == place));
                    let is_same = known.serves_alike(&map);
                    *self.map.write() = Arc::new(map);
                    self.version.fetch_add(1, Relaxed);
                    if !is_same {
                        self.map_changed.send_replace(());
                    }
                    *self.map_time.lock() = Instant::now();
                    return Ok(());
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = connect_error(format_args!("{place} does not answer")),
            }
        }
        Err(last)
    }

    async fn ask_for_map(&self, place: &Place) -> Result<SlotMap> {
        let node = self.node(place);
        let client = self.client(&node).await?;
        let call = client.call::<Value>(Command::raw("CLUSTER SLOTS"));
        let reply = call.await.inspect_err(|error| node.note(&client, error))?;
        SlotMap::parse(&reply, place)
            .ok_or_else(|| connect_error(format_args!("{place} knows no node that serves a slot")))
    }

    /// The node for a command.
    fn route(&self, route: Route) -> Result<Arc<Node>> {
        let map = self.map.read().clone();
        let turn = || self.next.fetch_add(1, Relaxed);
        let shard = match route.slot {
            Some(slot) => map.shard(slot),
            None if map.shards.is_empty() => None,
            None => map.shards.get(turn() % map.shards.len()),
        };
        let unserved = || connect_error("no node serves the slot of the key");
        let shard = shard.ok_or_else(unserved)?;
        let reads_replica = route.may_read_replica && !shard.replicas.is_empty();
        Ok(self.node(match reads_replica {
            true => &shard.replicas[turn() % shard.replicas.len()],
            false => &shard.primary,
        }))
    }

    /// Has the map of slots read again, without waiting for it, if it is old.
    fn renew_map(self: &Arc<Self>) {
        let mut time = self.map_time.lock();
        if time.elapsed() > MAP_AGE_MAX {
            *time = Instant::now();
            let (this, version) = (self.clone(), self.version.load(Relaxed));
            tokio::spawn(async move { this.read_map(version).await });
        }
    }

    /// Sends a command, in parts where its keys are in several slots.
    async fn command(
        self: Arc<Self>,
        command: Command,
        operation: Option<&mut Operation>,
    ) -> Result<Value> {
        self.renew_map();
        let retry = self.options.node.retries > 0 && command.may_retry;
        let limit = command.timeout.or(self.options.node.timeout);
        let Some(parts) = split(&command) else {
            let route = Route::of(&command, self.options.read_from);
            let buffers = vec![asking(), command.buffer];
            let values = self.send(buffers, route, retry, limit, operation).await?;
            return Ok(values.into_iter().next().unwrap_or(Value::Null));
        };
        let name = command.info.name;
        let (indices, calls): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .map(|Part { command, indices }| {
                let (this, route) = (self.clone(), Route::of(&command, self.options.read_from));
                let buffers = vec![asking(), command.buffer];
                let call = async move { this.send(buffers, route, retry, limit, None).await };
                (indices, boxed(call))
            })
            .unzip();
        let mut replies = Vec::with_capacity(calls.len());
        for values in join_all(calls).await {
            replies.push(values?.into_iter().next().unwrap_or(Value::Null));
        }
        merge(name, indices, replies)
    }

    /// Sends a transaction to the node of its first key.
    async fn transaction(
        self: Arc<Self>,
        commands: Vec<Command>,
        operation: &mut Operation,
    ) -> Result<Vec<Value>> {
        let key = commands.iter().find_map(Command::first_key);
        let route = Route { slot: key.map(slot_of), may_read_replica: false };
        let longest = commands.iter().map(|command| command.timeout).max().flatten();
        let limit = longest.or(self.options.node.timeout);
        let retry =
            self.options.node.retries > 0 && commands.iter().all(|command| command.may_retry);
        let mut buffers = vec![asking(), Command::raw("MULTI").buffer];
        buffers.extend(commands.into_iter().map(|command| command.buffer));
        buffers.push(Command::raw("EXEC").buffer);
        self.send(buffers, route, retry, limit, Some(operation)).await
    }

    /// Sends commands to one node until one answers for good. The first one is `ASKING`, which is
    /// only sent where it is due.
    async fn send(
        self: Arc<Self>,
        commands: Vec<CommandBuffer>,
        mut route: Route,
        retry: bool,
        limit: Option<Duration>,
        mut operation: Option<&mut Operation>,
    ) -> Result<Vec<Value>> {
        let give_up_at = limit.map(|limit| Instant::now() + limit);
        let left = || give_up_at.map(|at| at.saturating_duration_since(Instant::now()));
        let (mut to, mut asks, mut failures) = (None, false, 0);
        let mut outcome = Err(connect_error("no attempt was allowed"));
        for _ in 0..self.options.attempts_max.max(1) {
            if left().is_some_and(|left| left.is_zero()) {
                break;
            }
            let version = self.version.load(Relaxed);
            let begin = usize::from(!std::mem::take(&mut asks));
            let attempt = match to.take().map_or_else(|| self.route(route), Ok) {
                Ok(node) => {
                    if let Some(operation) = &mut operation {
                        operation.note_peer(&node.place.host, node.place.port);
                    }
                    let replies = self.attempt(&node, &commands[begin..], left()).await;
                    replies.map(|replies| (node, replies))
                }
                Err(error) => Err(error),
            };
            let pause = match attempt {
                Ok((node, mut replies)) => {
                    replies.drain(..1 - begin);
                    let redirection = replies.iter().find_map(|reply| match reply {
                        Value::Error(text) => Redirection::parse(text, &node.place),
                        _ => None,
                    });
                    outcome = Ok(replies);
                    match redirection {
                        None => return outcome,
                        Some(Redirection::Moved(place)) => {
                            to = Some(self.node(&place));
                            let this = self.clone();
                            tokio::spawn(async move { this.read_map(version).await });
                            false
                        }
                        Some(Redirection::Ask(place)) => {
                            (to, asks) = (Some(self.node(&place)), true);
                            false
                        }
                        Some(Redirection::TryAgain | Redirection::Unready) => true,
                    }
                }
                Err(error) if !may_try_again(&error, retry) => return Err(error),
                Err(error) => {
                    outcome = Err(error);
                    true
                }
            };
            if pause {
                failures += 1;
                route.may_read_replica = false;
                let delay = self.options.node.backoff.delay(failures);
                tokio::time::sleep(left().map_or(delay, |left| left.min(delay))).await;
                // If no node answers, the next attempt finds that out, too.
                let _ = self.read_map(version).await;
            }
        }
        outcome
    }

    /// Sends commands to a node once.
    async fn attempt(
        &self,
        node: &Node,
        commands: &[CommandBuffer],
        limit: Option<Duration>,
    ) -> Result<Vec<Value>> {
        let client = self.client(node).await?;
        match Exchange::new(client.lane(), commands, limit, 0).await {
            Ok(Outcome::One(value)) => Ok(vec![value]),
            Ok(Outcome::Many(values)) => Ok(values),
            Ok(Outcome::Failed(_)) => Err(Error::new(ErrorKind::Closed)),
            Err(error) => {
                node.note(&client, &error);
                Err(error)
            }
        }
    }
}

impl Node {
    /// After an error: forgets the client if its connection is gone.
    fn note(&self, client: &Client, error: &Error) {
        let mut known = self.client.lock();
        let is_gone = error.is_disconnected() || matches!(error.kind(), ErrorKind::Closed);
        if is_gone && known.as_ref().is_some_and(|known| known.is_same(client)) {
            *known = None;
        }
    }
}

fn asking() -> CommandBuffer {
    Command::raw("ASKING").buffer
}

/// Whether a command that failed may be sent again, to any node.
pub(crate) fn may_try_again(error: &Error, retry: bool) -> bool {
    match error.kind() {
        ErrorKind::Disconnected { maybe_executed, .. } => !maybe_executed || retry,
        ErrorKind::Connect(_) => true,
        _ => false,
    }
}

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(crate) fn boxed<T>(future: impl Future<Output = T> + Send + 'static) -> Boxed<T> {
    Box::pin(future)
}

/// Runs futures at the same time, beginning with the first; their results are in the same order.
pub(crate) async fn join_all<T>(futures: Vec<Boxed<T>>) -> Vec<T> {
    let mut running: Vec<Option<Boxed<T>>> = futures.into_iter().map(Some).collect();
    let mut done: Vec<Option<T>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in running.iter_mut().zip(&mut done) {
            if let Some(running) = future
                && let Poll::Ready(output) = running.as_mut().poll(cx)
            {
                (*future, *done) = (None, Some(output));
            }
        }
        if running.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

impl Target for &Cluster {}

impl Cluster {
    pub(crate) fn call<R: FromReply>(&self, mut command: Command) -> ClusterCall<R> {
        command.resolve();
        let raw_name = (command.info.words == 0).then(|| command.name().into_boxed_str());
        let info = command.info;
        let inner = self.inner.clone();
        let mut operation = inner.telemetry.begin(&command);
        let future = boxed(async move {
            let result = match command.check_shared() {
                Ok(()) => inner.command(command, Some(&mut operation)).await,
                Err(error) => Err(error),
            };
            let failure = match &result {
                Ok(Value::Error(text)) => Some(Error::from_reply(text)),
                Ok(_) => None,
                Err(error) => Some(error.clone()),
            };
            operation.end(failure.as_ref());
            result
        });
        ClusterCall { future, info, raw_name, reply: PhantomData }
    }
}

impl<C, R: FromReply> IntoFuture for Request<&Cluster, C, R> {
    type Output = Result<R>;
    type IntoFuture = ClusterCall<R>;

    fn into_future(self) -> ClusterCall<R> {
        self.target.call(self.command)
    }
}

/// A command to a cluster under way; resolves to its reply.
#[must_use = "futures do nothing unless polled"]
pub struct ClusterCall<R> {
    future: Boxed<Result<Value>>,
    info: &'static CommandInfo,
    /// Name of a command that is not in the table.
    raw_name: Option<Box<str>>,
    reply: PhantomData<fn() -> R>,
}

impl<R: FromReply> Future for ClusterCall<R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        let result = std::task::ready!(self.future.as_mut().poll(cx)).and_then(R::from_reply);
        let name = self.raw_name.as_deref().unwrap_or(self.info.name);
        Poll::Ready(result.map_err(|error| error.of_command(name)))
    }
}

impl<R> std::fmt::Debug for ClusterCall<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterCall").field("command", &self.info.name).finish_non_exhaustive()
    }
}
