//! With the feature `opentelemetry`: spans and metrics by the semantic conventions of database
//! clients, and those of Redis.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use opentelemetry::global::{BoxedSpan, BoxedTracer};
use opentelemetry::metrics::{
    AsyncInstrument, AsyncInstrumentBuilder, Histogram, ObservableCounter, ObservableGauge,
    UpDownCounter,
};
use opentelemetry::trace::{Span, SpanKind, Status, Tracer};
use opentelemetry::{InstrumentationScope, KeyValue, StringValue, global};

use super::NearFigures;
use crate::error::{Error, ErrorKind};
use crate::options::{Address, Options};
use crate::request::Command;

/// Bounds of the histograms of durations, in seconds, as the conventions advise; finer below a
/// millisecond, where most commands are.
const SECONDS: [f64; 13] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// Providers of spans and durations of a client's commands, as set when the client was made.
#[derive(Clone)]
pub(crate) struct Telemetry(Arc<Inner>);

struct Inner {
    tracer: BoxedTracer,
    durations: Histogram<f64>,
    connect_durations: Histogram<f64>,
    connections: UpDownCounter<i64>,
    /// Attributes of each span and metric: the system, the server, the database.
    server: Vec<KeyValue>,
    /// `host:port`, or the path of a Unix socket: behind the command in a span's name.
    place: String,
}

/// A command, or several that are sent together, under way. If it is dropped before it has ended
/// its caller went away.
pub(crate) struct Operation {
    telemetry: Telemetry,
    name: Cow<'static, str>,
    span: BoxedSpan,
    began: Instant,
    has_ended: bool,
}

impl Telemetry {
    /// For a server.
    pub(crate) fn of(options: &Options) -> Self {
        let (tracer, meter) =
            (global::tracer_with_scope(scope()), global::meter_with_scope(scope()));
        let seconds = |name, description| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(description);
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        let durations =
            seconds("db.client.operation.duration", "Duration of database client operations.");
        let connect_durations = seconds(
            "db.client.connection.create_time",
            "The time it took to create a new connection.",
        );
        let connections = meter
            .i64_up_down_counter("db.client.connection.count")
            .with_unit("{connection}")
            .with_description("The number of connections that are currently in use.")
            .build();
        let (host, port) = match &options.address {
            Address::Tcp { host, port } | Address::Tls { host, port } => {
                (host.clone(), Some(*port))
            }
            Address::Unix(path) => (path.display().to_string(), None),
        };
        let place = options.address.to_string();
        let mut server = vec![
            KeyValue::new("db.system.name", "redis"),
            KeyValue::new("db.namespace", shared(&options.database.to_string())),
            KeyValue::new("server.address", shared(&host)),
        ];
        server.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
        Self(Arc::new(Inner { tracer, durations, connect_durations, connections, server, place }))
    }

    /// A command begins, in the context that is the thread's now.
    pub(crate) fn begin(&self, command: &Command) -> Operation {
        let name = name_of(command);
        self.start(name, None)
    }

    /// Commands that are sent together begin.
    pub(crate) fn begin_batch(&self, commands: &[Command], is_transaction: bool) -> Operation {
        let kind = if is_transaction { "MULTI" } else { "PIPELINE" };
        let first = commands.first().map(name_of).unwrap_or_default();
        let name = match commands.iter().all(|command| name_of(command) == first) {
            true if !first.is_empty() => Cow::Owned(format!("{kind} {first}")),
            _ => Cow::Borrowed(kind),
        };
        self.start(name, Some(commands.len()))
    }

    fn start(&self, name: Cow<'static, str>, batch_len: Option<usize>) -> Operation {
        let inner = &*self.0;
        // Known before the span begins, so that samplers may decide by it.
        let mut attributes = Vec::with_capacity(inner.server.len() + 4);
        attributes.extend_from_slice(&inner.server);
        attributes.push(KeyValue::new("db.operation.name", name.clone()));
        let batch_len = batch_len.and_then(|len| i64::try_from(len).ok()).filter(|len| *len > 1);
        attributes.extend(batch_len.map(|len| KeyValue::new("db.operation.batch.size", len)));
        let span = inner
            .tracer
            .span_builder(format!("{name} {}", inner.place))
            .with_kind(SpanKind::Client)
            .with_attributes(attributes);
        let span = inner.tracer.build(span);
        Operation { telemetry: self.clone(), name, span, began: Instant::now(), has_ended: false }
    }

    /// Registers metrics of a near cache, until `figures` returns none. Names are those of Redis's
    /// documentation for client-side caching; bytes are added.
    pub(crate) fn observe_near(
        &self,
        figures: impl Fn() -> Option<NearFigures> + Send + Sync + 'static,
    ) {
        static CACHES: AtomicI64 = AtomicI64::new(0);
        let id = CACHES.fetch_add(1, Relaxed);
        // Caches of one server must differ: of equal attributes only one observation is kept.
        let mut attributes = self.0.server.clone();
        attributes.push(KeyValue::new("petrel.near_cache.id", id));
        let with = |key: &'static str, values: [&'static str; 2]| {
            values.map(|value| {
                let more = KeyValue::new(key, value);
                attributes.iter().cloned().chain([more]).collect::<Vec<KeyValue>>()
            })
        };
        let meter = global::meter_with_scope(scope());
        let figures = Arc::new(figures);
        let now = figures.clone();
        near_counter(
            meter.u64_observable_counter("redis.client.csc.requests").with_unit("{request}"),
            with("redis.client.csc.result", ["hit", "miss"]),
            move || now().map(|now| [now.hits, now.misses]),
        );
        let now = figures.clone();
        near_counter(
            meter.u64_observable_counter("redis.client.csc.evictions").with_unit("{eviction}"),
            with("redis.client.csc.reason", ["full", "invalidation"]),
            move || now().map(|now| [now.evictions, now.invalidations]),
        );
        let now = figures.clone();
        near_gauge(
            meter.u64_observable_gauge("redis.client.csc.items").with_unit("{item}"),
            attributes.clone(),
            move || now().map(|now| now.keys as u64),
        );
        near_gauge(
            meter.u64_observable_gauge("petrel.near_cache.size").with_unit("By"),
            attributes,
            move || figures().map(|now| now.bytes as u64),
        );
    }

    /// Records a connection made since `began`; it counts until the returned value is dropped.
    pub(crate) fn connected(&self, began: Instant) -> Connected {
        let pool = self.0.pool();
        self.0.connect_durations.record(began.elapsed().as_secs_f64(), &pool[..1]);
        self.0.connections.add(1, &pool);
        Connected(self.clone())
    }
}

/// A connection that is counted.
pub(crate) struct Connected(Telemetry);

impl Drop for Connected {
    fn drop(&mut self) {
        let inner = &*self.0.0;
        inner.connections.add(-1, &inner.pool());
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("place", &self.0.place).finish_non_exhaustive()
    }
}

impl Inner {
    /// Attributes of the connection pool: shared connections are all in use.
    fn pool(&self) -> [KeyValue; 2] {
        [
            KeyValue::new("db.client.connection.pool.name", shared(&self.place)),
            KeyValue::new("db.client.connection.state", "used"),
        ]
    }
}

impl Operation {
    /// The node of a cluster that a command was sent to.
    pub(crate) fn note_peer(&mut self, host: &str, port: u16) {
        self.span.set_attribute(KeyValue::new("network.peer.address", host.to_owned()));
        self.span.set_attribute(KeyValue::new("network.peer.port", i64::from(port)));
    }

    /// The reply has come, or an error. Only the first end counts.
    pub(crate) fn end(&mut self, error: Option<&Error>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let code = error.and_then(Error::code);
        self.record(error.map(error_type), code);
        if let Some(code) = code {
            self.span.set_attribute(KeyValue::new("db.response.status_code", code.to_owned()));
        }
        if let Some(error) = error {
            self.span.set_attribute(KeyValue::new("error.type", error_type(error)));
            self.span.set_status(Status::error(error.to_string()));
        }
        self.span.end();
    }

    /// Records the duration.
    fn record(&self, error_type: Option<Cow<'static, str>>, code: Option<&str>) {
        let inner = &*self.telemetry.0;
        let mut attributes = Vec::with_capacity(inner.server.len() + 3);
        attributes.extend_from_slice(&inner.server);
        attributes.push(KeyValue::new("db.operation.name", self.name.clone()));
        attributes.extend(error_type.map(|kind| KeyValue::new("error.type", kind)));
        attributes
            .extend(code.map(|code| KeyValue::new("db.response.status_code", code.to_owned())));
        inner.durations.record(self.began.elapsed().as_secs_f64(), &attributes);
    }
}

impl Drop for Operation {
    /// A call that is dropped before it has ended: the server may execute it nevertheless.
    fn drop(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            self.record(Some("cancelled".into()), None);
            self.span.set_attribute(KeyValue::new("error.type", "cancelled"));
            self.span.end();
        }
    }
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reads of a near cache by result, or keys that it has dropped by reason.
fn near_counter(
    counter: AsyncInstrumentBuilder<'_, ObservableCounter<u64>, u64>,
    attributes: [Vec<KeyValue>; 2],
    now: impl Fn() -> Option<[u64; 2]> + Send + Sync + 'static,
) {
    let observe = move |observer: &dyn AsyncInstrument<u64>| {
        for (value, attributes) in now().into_iter().flatten().zip(&attributes) {
            observer.observe(value, attributes);
        }
    };
    counter.with_callback(observe).build();
}

/// Current figures of a near cache.
fn near_gauge(
    gauge: AsyncInstrumentBuilder<'_, ObservableGauge<u64>, u64>,
    attributes: Vec<KeyValue>,
    now: impl Fn() -> Option<u64> + Send + Sync + 'static,
) {
    let observe = move |observer: &dyn AsyncInstrument<u64>| {
        if let Some(value) = now() {
            observer.observe(value, &attributes);
        }
    };
    gauge.with_callback(observe).build();
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("petrel-client").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// The command's name; of a command that the table does not have its first word, which is the only
/// one that is certain to be no argument.
fn name_of(command: &Command) -> Cow<'static, str> {
    match command.info.words {
        0 => Cow::Owned(command.name()),
        _ => Cow::Borrowed(command.info.name),
    }
}

/// A string that is shared by all attributes with it.
fn shared(text: &str) -> StringValue {
    StringValue::from(Arc::<str>::from(text))
}

/// The class of an error, of which there are few: the code of an error reply, or what happened.
fn error_type(error: &Error) -> Cow<'static, str> {
    Cow::Borrowed(match error.kind() {
        ErrorKind::Server { code, .. } => return Cow::Owned(code.clone()),
        ErrorKind::UnexpectedReply { .. } => "unexpected_reply",
        ErrorKind::Disconnected { .. } => "disconnected",
        ErrorKind::TimedOut { .. } => "timeout",
        ErrorKind::Connect(_) => "connect",
        ErrorKind::Configuration(_) => "configuration",
        ErrorKind::NeedsDedicated => "needs_dedicated",
        ErrorKind::Unanswered => "unanswered",
        ErrorKind::WatchedKeyChanged => "watched_key_changed",
        ErrorKind::Closed => "closed",
    })
}
