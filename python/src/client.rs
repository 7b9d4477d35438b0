//! The client of a server or a cluster, for threads or for asyncio.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use petrel_client::{
    Address, ClusterOptions, Dedicated, Error, NearCache, NearCacheOptions, Options, Pipeline,
    ReadFrom, Replies, Result, SentinelOptions, Value, blocking,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use tokio::sync::OnceCell;

use crate::bridge::{Bridge, Make, Work};
use crate::command::{self, Command};
use crate::dedicated::Connection;
use crate::failure;
use crate::near::Cache;
use crate::pubsub::Subscription;
use crate::remote::{Remote, Role, Source};
use crate::runtime::{self, BoxFuture};
use crate::shape::Decoding;

/// Connections that are kept for commands that wait, such as `BLPOP`, when none of them does.
const IDLE_MAX: usize = 16;

/// What threads and tasks share of a client. It connects when it is first used.
pub(crate) struct Shared {
    source: Source,
    remote: OnceCell<Remote>,
    idle: Mutex<Vec<Dedicated>>,
    /// Through which locks are waited for.
    locks: OnceCell<NearCache>,
}

impl Shared {
    /// The client, connected.
    pub(crate) async fn remote(&self) -> Result<&Remote> {
        self.remote.get_or_try_init(|| self.source.connect()).await
    }

    /// The near cache that locks are waited for with.
    pub(crate) async fn locks(&self) -> Result<&NearCache> {
        let open = || async {
            self.remote().await?.server()?.near_cache(NearCacheOptions::default()).await
        };
        self.locks.get_or_try_init(open).await
    }

    /// Runs a command that waits, on a connection of its own. If the future is dropped the
    /// connection is closed, and with it the wait ends.
    async fn run_waiting(&self, command: petrel_client::Command) -> Result<Value> {
        let remote = self.remote().await?;
        if let Remote::Cluster(_) = remote {
            // The node depends on the key.
            let mut connection = remote.dedicated(command.first_key()).await?;
            return command.to(&mut connection).await;
        }
        let idle = self.idle.lock().pop();
        let mut connection = match idle {
            Some(mut connection) => {
                let mut probe = petrel_client::Command::named("PING");
                probe.push("");
                // The server may have closed it meanwhile.
                match probe.to(&mut connection).await {
                    Ok(_) => connection,
                    Err(_) => remote.dedicated(None).await?,
                }
            }
            None => remote.dedicated(None).await?,
        };
        let result = command.to(&mut connection).await;
        let is_usable = result.as_ref().map_or_else(|error| error.code().is_some(), |_| true);
        let mut idle = self.idle.lock();
        if is_usable && idle.len() < IDLE_MAX {
            idle.push(connection);
        }
        result
    }
}

/// A client of one server, or of a cluster.
#[pyclass(frozen, module = "petrel._petrel")]
pub(crate) struct Core {
    shared: Mutex<Option<Arc<Shared>>>,
    is_async: bool,
    decoding: Decoding,
    /// The client for threads, which has no thread of its own.
    threads: Mutex<Option<blocking::Client>>,
    bridge: Mutex<Option<Py<Bridge>>>,
}

#[pymethods]
impl Core {
    /// A client by a URL or an address, with options that go before what the URL says. `kind` is
    /// `server`, `cluster`, or, of a service that sentinels know, `primary` or `replica`.
    #[new]
    #[pyo3(signature = (is_async, kind, url, host, port, path, options))]
    #[allow(clippy::too_many_arguments, reason = "called by one function of the package")]
    fn new(
        is_async: bool,
        kind: &str,
        url: Option<&str>,
        host: &str,
        port: u16,
        path: Option<PathBuf>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let py = options.py();
        let is_tls = flag(options, "ssl")?;
        let mut made = match (url, path) {
            (Some(url), _) => Options::from_url(url).map_err(|error| failure::of(py, &error))?,
            (None, Some(path)) => Options::new(Address::Unix(path)),
            (None, None) if is_tls => Options::new(Address::Tls { host: host.to_owned(), port }),
            (None, None) => Options::new(Address::Tcp { host: host.to_owned(), port }),
        };
        let decoding = set_options(&mut made, options)?;
        let source = match kind {
            "cluster" => Source::Cluster(cluster_options(made, options)?),
            "primary" => Source::Sentinel(sentinel_options(made, options)?, Role::Primary),
            "replica" => Source::Sentinel(sentinel_options(made, options)?, Role::Replica),
            _ => Source::Server(made),
        };
        let shared = Shared {
            source,
            remote: OnceCell::new(),
            idle: Mutex::default(),
            locks: OnceCell::new(),
        };
        Ok(Self {
            shared: Mutex::new(Some(Arc::new(shared))),
            is_async,
            decoding,
            threads: Mutex::new(None),
            bridge: Mutex::new(None),
        })
    }

    /// Runs a command: `run(command, argument, ...)`.
    #[pyo3(signature = (*call))]
    fn run<'py>(&self, call: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = call.py();
        let (template, arguments) = command::split(call)?;
        let mut command = template.get().with(arguments)?;
        let shared = self.shared(py)?;
        let waits = command.is_waiting();
        if !self.is_async {
            let reply = if waits {
                runtime::wait(py, Box::pin(async move { shared.run_waiting(command).await }))?
            } else {
                self.run_in_thread(py, shared, command)?
            };
            let reply = reply.map_err(|error| failure::of(py, &error))?;
            return template.get().convert(py, &reply, self.decoding).map(|it| it.into_bound(py));
        }
        let bridge = self.bridge(py)?;
        if waits {
            let future = Box::pin(async move { shared.run_waiting(command).await });
            return Bridge::start_long(
                &bridge,
                Work::Reply(future, template.unbind(), self.decoding),
            );
        }
        let future: BoxFuture<Result<Value>> = match shared.remote.get() {
            Some(remote) => {
                let remote = remote.clone();
                Box::pin(async move { remote.call(command).await })
            }
            None => Box::pin(async move { shared.remote().await?.call(command).await }),
        };
        Bridge::start(&bridge, Work::Reply(future, template.unbind(), self.decoding))
    }

    /// Sends commands, each `(command, argument, ...)`, in one piece; a list of their replies, with
    /// exceptions among them.
    fn pipeline(
        &self,
        py: Python<'_>,
        calls: Vec<Bound<'_, PyTuple>>,
        is_transaction: bool,
    ) -> PyResult<Py<PyAny>> {
        let (pipeline, templates) = pipeline_of(&calls, is_transaction)?;
        let (shared, decoding) = (self.shared(py)?, self.decoding);
        if !self.is_async
            && let Some(client) = self.threads(py, &shared)?
        {
            let replies = py.detach(|| client.run(pipeline));
            return converted(py, replies, &templates, decoding);
        }
        self.finish(
            py,
            Box::pin(async move {
                let replies = match shared.remote().await {
                    Ok(remote) => remote.run(pipeline).await,
                    Err(error) => Err(error),
                };
                made(move |py| converted(py, replies, &templates, decoding))
            }),
        )
    }

    /// Runs a command on each primary of a cluster, or on the one of that number only; a list of
    /// the replies.
    #[pyo3(signature = (call, only = None))]
    fn on_primaries(
        &self,
        call: &Bound<'_, PyTuple>,
        only: Option<usize>,
    ) -> PyResult<Py<PyAny>> {
        let py = call.py();
        let (template, arguments) = command::split(call)?;
        let command = template.get().with(arguments)?;
        let template = template.unbind();
        let (shared, decoding) = (self.shared(py)?, self.decoding);
        self.finish(
            py,
            Box::pin(async move {
                let replies = async {
                    let primaries = shared.remote().await?.primaries().await?;
                    let mut replies = Vec::new();
                    for (number, client) in primaries.iter().enumerate() {
                        if only.is_none_or(|only| only == number) {
                            replies.push(command.clone().to(client).await?);
                        }
                    }
                    Ok::<_, Error>(replies)
                }
                .await;
                made(move |py| {
                    let list = PyList::empty(py);
                    for reply in replies.map_err(|error| failure::of(py, &error))? {
                        list.append(template.get().convert(py, &reply, decoding)?)?;
                    }
                    Ok(list.into_any().unbind())
                })
            }),
        )
    }

    /// A connection that one caller has to itself; of a cluster to the node of a key.
    #[pyo3(signature = (key = None))]
    fn connection(
        this: &Bound<'_, Self>,
        key: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (py, core) = (this.py(), this.clone().unbind());
        let key = key.map(crate::argument::bytes).transpose()?;
        let shared = this.get().shared(py)?;
        this.get().finish(
            py,
            Box::pin(async move {
                let opened = match shared.remote().await {
                    Ok(remote) => remote.dedicated(key.as_deref()).await,
                    Err(error) => Err(error),
                };
                made(move |py| {
                    let dedicated = opened.map_err(|error| failure::of(py, &error))?;
                    Ok(Py::new(py, Connection::new(core, dedicated))?.into_any())
                })
            }),
        )
    }

    /// A connection that subscribes to channels.
    fn subscription(this: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, core) = (this.py(), this.clone().unbind());
        let shared = this.get().shared(py)?;
        this.get().finish(
            py,
            Box::pin(async move {
                let opened = match shared.remote().await {
                    Ok(remote) => remote.subscriber().await.map(Subscription::parts),
                    Err(error) => Err(error),
                };
                made(move |py| {
                    let parts = opened.map_err(|error| failure::of(py, &error))?;
                    Ok(Py::new(py, Subscription::new(core, parts))?.into_any())
                })
            }),
        )
    }

    /// A cache in the process. `ttl_max` is in seconds.
    #[pyo3(signature = (bytes_max, ttl_max, prefixes))]
    fn near_cache(
        this: &Bound<'_, Self>,
        bytes_max: usize,
        ttl_max: Option<f64>,
        prefixes: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (py, core) = (this.py(), this.clone().unbind());
        let shared = this.get().shared(py)?;
        let options = NearCacheOptions {
            bytes_max,
            ttl_max: ttl_max.map(|seconds| duration(py, seconds)).transpose()?,
            prefixes: prefixes.iter().map(crate::argument::bytes).collect::<PyResult<_>>()?,
        };
        this.get().finish(
            py,
            Box::pin(async move {
                let opened = match shared.remote().await {
                    Ok(remote) => remote.near_cache(options).await,
                    Err(error) => Err(error),
                };
                made(move |py| {
                    let cache = opened.map_err(|error| failure::of(py, &error))?;
                    Ok(Py::new(py, Cache::new(core, cache))?.into_any())
                })
            }),
        )
    }

    /// Waits for a lock, at most `wait` seconds, and holds it with leases of `ttl` seconds; `None`
    /// if it is held elsewhere for longer.
    #[pyo3(signature = (key, ttl, wait))]
    fn lock(
        this: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        ttl: f64,
        wait: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        crate::lock::acquire(this, key, ttl, wait)
    }

    /// Closes all connections; commands that wait for replies fail.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let (shared, threads) = (self.shared.lock().take(), self.threads.lock().take());
        // Ended by the thread of connections, which may be at work on them.
        py.detach(|| drop((shared, threads)));
        let bridge = self.bridge.lock().take();
        bridge.map_or(Ok(()), |bridge| bridge.call_method0(py, "close").map(drop))
    }
}

impl Core {
    pub(crate) fn shared(&self, py: Python<'_>) -> PyResult<Arc<Shared>> {
        let shared = self.shared.lock().clone();
        shared.ok_or_else(|| failure::new(py, "ConnectionError", "the client is closed", "", ""))
    }

    pub(crate) fn decoding(&self) -> Decoding {
        self.decoding
    }

    pub(crate) fn is_async(&self) -> bool {
        self.is_async
    }

    /// The bridge to the event loop that is running.
    pub(crate) fn bridge<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Bridge>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let running = RUNNING.get_or_try_init(py, || {
            Ok::<_, PyErr>(py.import("asyncio")?.getattr("get_running_loop")?.unbind())
        })?;
        let running = running.bind(py).call0()?;
        let known = self.bridge.lock().as_ref().map(|bridge| bridge.clone_ref(py));
        if let Some(bridge) = known
            && bridge.get().is_of(&running)
        {
            return Ok(bridge.into_bound(py));
        }
        let bridge = Bridge::open(&running)?;
        *self.bridge.lock() = Some(bridge.clone().unbind());
        Ok(bridge)
    }

    /// Waits for what a future makes, or returns an awaitable of it.
    pub(crate) fn finish(&self, py: Python<'_>, future: BoxFuture<Make>) -> PyResult<Py<PyAny>> {
        if self.is_async {
            let bridge = self.bridge(py)?;
            return Bridge::start_long(&bridge, Work::Other(future)).map(Bound::unbind);
        }
        runtime::wait(py, future)?(py)
    }

    /// The client for threads; none of a cluster, or if the server is reached by TLS.
    fn threads(&self, py: Python<'_>, shared: &Shared) -> PyResult<Option<blocking::Client>> {
        let Some(options) = shared.source.of_threads() else { return Ok(None) };
        if let Some(client) = &*self.threads.lock() {
            return Ok(Some(client.clone()));
        }
        let client = py.detach(|| {
            let mut threads = self.threads.lock();
            if let Some(client) = &*threads {
                return Ok(client.clone());
            }
            let client = blocking::Client::with_options(options.clone())?;
            *threads = Some(client.clone());
            Ok::<_, Error>(client)
        });
        client.map(Some).map_err(|error| failure::of(py, &error))
    }

    fn run_in_thread(
        &self,
        py: Python<'_>,
        shared: Arc<Shared>,
        command: petrel_client::Command,
    ) -> PyResult<Result<Value>> {
        match self.threads(py, &shared)? {
            Some(client) => Ok(py.detach(|| command.to(&client).run())),
            None => {
                let call = async move { shared.remote().await?.call(command).await };
                runtime::wait(py, Box::pin(call))
            }
        }
    }
}

/// Wraps what makes an object once the interpreter is there.
pub(crate) fn made(make: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static) -> Make {
    Box::new(make)
}

/// A pipeline of calls, and their commands for the replies.
pub(crate) fn pipeline_of(
    calls: &[Bound<'_, PyTuple>],
    is_transaction: bool,
) -> PyResult<(Pipeline, Vec<Py<Command>>)> {
    let mut pipeline = if is_transaction { Pipeline::transaction() } else { Pipeline::new() };
    let mut templates = Vec::with_capacity(calls.len());
    for call in calls {
        let (template, arguments) = command::split(call)?;
        template.get().with(arguments)?.to(&mut pipeline).queue();
        templates.push(template.unbind());
    }
    Ok((pipeline, templates))
}

/// The replies to a pipeline as a list.
pub(crate) fn converted(
    py: Python<'_>,
    replies: Result<Replies>,
    templates: &[Py<Command>],
    decoding: Decoding,
) -> PyResult<Py<PyAny>> {
    let replies = replies.map_err(|error| failure::of(py, &error))?.into_values();
    let list = PyList::empty(py);
    for (reply, template) in replies.iter().zip(templates) {
        match reply {
            Value::Error(_) => list.append(crate::shape::error_of(py, reply))?,
            reply => list.append(template.get().convert(py, reply, decoding)?)?,
        }
    }
    Ok(list.into_any().unbind())
}

/// Seconds as a duration.
pub(crate) fn duration(py: Python<'_>, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        failure::new(py, "DataError", "a time is a number of seconds from 0 on", "", "")
    })
}

/// Options of a cluster: those of each node, and how the nodes are used.
fn cluster_options(node: Options, options: &Bound<'_, PyDict>) -> PyResult<ClusterOptions> {
    let mut made = ClusterOptions::new(node);
    if flag(options, "read_from_replicas")? {
        made.read_from = ReadFrom::Replicas;
    }
    for (host, port) in option::<Vec<(String, u16)>>(options, "startup_nodes")?.unwrap_or_default()
    {
        made.seeds.push(match made.node.address {
            Address::Tls { .. } => Address::Tls { host, port },
            _ => Address::Tcp { host, port },
        });
    }
    Ok(made)
}

/// Options of a service that sentinels know.
fn sentinel_options(node: Options, options: &Bound<'_, PyDict>) -> PyResult<SentinelOptions> {
    let sentinels = option::<Vec<(String, u16)>>(options, "sentinels")?.unwrap_or_default();
    let text = |name: &str| option::<String>(options, name);
    let (username, password) = (text("sentinel_username")?, text("sentinel_password")?);
    let sentinel = |(host, port)| {
        let mut made = Options::new(Address::Tcp { host, port });
        made.username = username.clone();
        made.password = password.clone().map(Into::into);
        made.connect_timeout = node.connect_timeout;
        made
    };
    Ok(SentinelOptions {
        service: text("service_name")?.unwrap_or_default(),
        sentinels: sentinels.into_iter().map(sentinel).collect(),
        node: node.clone(),
    })
}

fn option<'py, T>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    match options.get_item(name)? {
        Some(value) if !value.is_none() => value.extract().map(Some),
        _ => Ok(None),
    }
}

fn flag(options: &Bound<'_, PyDict>, name: &str) -> PyResult<bool> {
    Ok(option(options, name)?.unwrap_or(false))
}

/// Applies the options that are not `None`; returns what becomes of strings.
fn set_options(made: &mut Options, options: &Bound<'_, PyDict>) -> PyResult<Decoding> {
    let py = options.py();
    let text = |name: &str| option::<String>(options, name);
    let seconds = |name: &str| {
        let seconds = option::<f64>(options, name)?;
        seconds.map(|seconds| duration(py, seconds)).transpose()
    };
    if let Some(username) = text("username")? {
        made.username = Some(username);
    }
    if let Some(password) = text("password")? {
        made.password = Some(password.into());
    }
    if let Some(name) = text("client_name")? {
        made.name = Some(name);
    }
    if let Some(database) = option(options, "db")? {
        made.database = database;
    }
    match option::<u32>(options, "protocol")? {
        None => {}
        Some(protocol @ (2 | 3)) => made.force_resp2 = protocol == 2,
        Some(_) => return Err(failure::new(py, "DataError", "protocol is 2 or 3", "", "")),
    }
    if let Some(limit) = seconds("socket_timeout")? {
        made.timeout = (!limit.is_zero()).then_some(limit);
    }
    if let Some(limit) = seconds("socket_connect_timeout")? {
        made.connect_timeout = limit;
    }
    if let Some(retries) = option(options, "retries")? {
        made.retries = retries;
    }
    if let Some(connections) = option(options, "connections")? {
        made.connections = connections;
    }
    if let Some(bytes) = option(options, "bytes_in_flight_max")? {
        made.bytes_in_flight_max = bytes;
    }
    if let Some(path) = option::<PathBuf>(options, "ssl_ca_certs")? {
        made.tls_roots_pem = Some(std::fs::read(path)?);
    }
    if !flag(options, "decode_responses")? {
        return Ok(Decoding::Bytes);
    }
    match text("encoding_errors")?.as_deref() {
        None | Some("strict") => Ok(Decoding::Strict),
        Some("replace") => Ok(Decoding::Replace),
        Some("surrogateescape") => Ok(Decoding::SurrogateEscape),
        Some("ignore") => Ok(Decoding::Ignore),
        Some(_) => {
            let text = "encoding_errors is strict, replace, surrogateescape or ignore";
            Err(failure::new(py, "DataError", text, "", ""))
        }
    }
}
