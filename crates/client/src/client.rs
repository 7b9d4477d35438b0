//! [`Client`]: a handle that many tasks share.

use std::future::{Future, IntoFuture};
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use petrel_resp::Value;

use crate::buffer::CommandBuffer;
use crate::dedicated::{Dedicated, OwnedLane};
use crate::error::{Error, ErrorKind, Result};
use crate::lane::{Exchange, Lane, Outcome, PushSink};
use crate::options::Options;
use crate::reply::FromReply;
use crate::request::{Command, Request, Target};
use crate::telemetry::Operation;
use crate::transport::{ByteStream, Connector};

/// A client of one server. Cheap to clone; all clones share its connections: commands of concurrent
/// tasks are sent together and answered in order, without a connection per task.
///
/// A lost connection is replaced, with growing pauses. Commands that were not sent wait for it;
/// commands that only read are sent again; other commands fail with [`ErrorKind::Disconnected`],
/// unless [`Request::retry`] permits to send them again.
///
/// A call that is dropped before it ends may or may not be executed; no other caller gets its
/// reply.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    lanes: Vec<Arc<Lane>>,
    next: AtomicUsize,
    options: Arc<Options>,
    connector: Connector,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.lanes.iter().for_each(|lane| lane.close());
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects by a URL; see [`Options::from_url`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::with_options(Options::from_url(url)?).await
    }

    /// Connects by options.
    pub async fn with_options(options: Options) -> Result<Self> {
        let connector = Connector::of(&options).map_err(connect_error)?;
        Self::open(options, connector, true, None).await
    }

    /// Connects by a function that makes a stream, which is called again for each reconnection; of
    /// the options, the address is not used.
    pub async fn with_connector<S, F, C>(options: Options, connect: C) -> Result<Self>
    where
        S: ByteStream + 'static,
        F: Future<Output = io::Result<S>> + Send + 'static,
        C: Fn() -> F + Send + Sync + 'static,
    {
        Self::open(options, Connector::custom(connect), true, None).await
    }

    /// Speaks over a stream that is connected already. When it is lost the client is closed, and
    /// there are no dedicated connections.
    pub async fn from_stream(options: Options, stream: impl ByteStream + 'static) -> Result<Self> {
        let stream = parking_lot::Mutex::new(Some(stream));
        let connector = Connector::custom(move || {
            let stream = stream.lock().take();
            let gone = || io::Error::other("the stream that was given is in use or closed");
            async move { stream.ok_or_else(gone) }
        });
        Self::open(options, connector, false, None).await
    }

    /// Makes the shared connections; `pushes` receives push messages.
    pub(crate) async fn open(
        options: Options,
        connector: Connector,
        reconnect: bool,
        pushes: Option<Arc<dyn PushSink>>,
    ) -> Result<Self> {
        let options = Arc::new(options);
        let count = if reconnect { options.connections.max(1) } else { 1 };
        let mut lanes = Vec::with_capacity(count);
        for _ in 0..count {
            let (options, connector) = (options.clone(), connector.clone());
            lanes.push(Lane::connect(options, connector, reconnect, pushes.clone()).await?);
        }
        let inner = Inner { lanes, next: AtomicUsize::new(0), options, connector };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether both share their connections.
    pub(crate) fn is_same(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// A connection that one caller has to itself, with the same options.
    pub async fn dedicated(&self) -> Result<Dedicated> {
        Ok(Dedicated { lane: OwnedLane(self.open_lane(false, None).await?) })
    }

    /// Makes another connection, separate from the shared ones.
    pub(crate) async fn open_lane(
        &self,
        reconnect: bool,
        pushes: Option<Arc<dyn PushSink>>,
    ) -> Result<Arc<Lane>> {
        let (options, connector) = (self.inner.options.clone(), self.inner.connector.clone());
        Lane::connect(options, connector, reconnect, pushes).await
    }

    /// The lane for the next command.
    pub(crate) fn lane(&self) -> &Lane {
        match &self.inner.lanes[..] {
            [lane] => lane,
            lanes => &lanes[self.inner.next.fetch_add(1, Ordering::Relaxed) % lanes.len()],
        }
    }

    pub(crate) fn call<R: FromReply>(&self, mut command: Command) -> Call<'_, R> {
        command.resolve();
        let lane = self.lane();
        if command.waits() || command.info.is_of_session {
            return Call::refused(lane, command, Error::new(ErrorKind::NeedsDedicated));
        }
        let retries = if command.may_retry { self.inner.options.retries } else { 0 };
        Call::new(lane, command, retries)
    }
}

impl Target for &Client {}

impl<'a, C, R: FromReply> IntoFuture for Request<&'a Client, C, R> {
    type Output = Result<R>;
    type IntoFuture = Call<'a, R>;

    fn into_future(self) -> Call<'a, R> {
        self.target.call(self.command)
    }
}

/// A command under way; resolves to its reply.
#[must_use = "futures do nothing unless polled"]
pub struct Call<'a, R> {
    exchange: Exchange<'a, [CommandBuffer; 1]>,
    info: &'static crate::request::CommandInfo,
    /// Name of a command that is not in the table.
    raw_name: Option<Box<str>>,
    refusal: Option<Error>,
    operation: Operation,
    reply: PhantomData<fn() -> R>,
}

impl<'a, R> Call<'a, R> {
    pub(crate) fn new(lane: &'a Lane, command: Command, retries: u32) -> Self {
        let limit = match command.timeout {
            Some(limit) => Some(limit),
            // The server ends the wait of a blocking command.
            None if command.waits() => None,
            None => lane.timeout(),
        };
        let raw_name = (command.info.words == 0).then(|| command.name().into_boxed_str());
        let info = command.info;
        let operation = lane.telemetry().begin(&command);
        let exchange = Exchange::new(lane, [command.buffer], limit, retries);
        Self { exchange, info, raw_name, refusal: None, operation, reply: PhantomData }
    }

    pub(crate) fn refused(lane: &'a Lane, command: Command, error: Error) -> Self {
        Self { refusal: Some(error), ..Self::new(lane, command, 0) }
    }

    /// Names the command in an error, and records how it ended.
    fn ended(&mut self, result: Result<R>) -> Result<R> {
        let name = self.raw_name.as_deref().unwrap_or(self.info.name);
        let result = result.map_err(|error| error.of_command(name));
        self.operation.end(result.as_ref().err());
        result
    }
}

impl<R: FromReply> Future for Call<'_, R> {
    type Output = Result<R>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R>> {
        if let Some(error) = self.refusal.take() {
            return Poll::Ready(self.ended(Err(error)));
        }
        let Poll::Ready(result) = Pin::new(&mut self.exchange).poll(cx) else {
            return Poll::Pending;
        };
        let result = result.and_then(|outcome| match outcome {
            Outcome::One(value) => R::from_reply(value),
            _ => R::from_reply(Value::Null),
        });
        Poll::Ready(self.ended(result))
    }
}

impl<R> std::fmt::Debug for Call<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("command", &self.info.name).finish_non_exhaustive()
    }
}

pub(crate) fn connect_error(reason: impl ToString) -> Error {
    Error::new(ErrorKind::Connect(reason.to_string()))
}
