//! Starting and stopping: sockets, limits, workers, signals.

use crate::config::{Auto, Config, IoBackend, SharedConfig, sweep_beside};
use crate::durability::snapshot::sweep_parts;
use crate::event_loop::worker::Worker;
use crate::lifecycle::listening::{Listener, SocketFile, once_free};
use crate::lifecycle::process::Process;
use crate::observation::http;
use crate::server::Server;
use crate::users;
use petrel_commands::CommandSpec;
use petrel_net::{Driver, Epoll, Options, Uring};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Descriptors that are not connections: listeners, rings, event descriptors, log, standard
/// streams.
const DESCRIPTORS_RESERVED: u64 = 32;

/// Between two looks whether the workers have ended, while the server stops and before.
const LOOK: Duration = Duration::from_millis(2);
const LOOK_SELDOM: Duration = Duration::from_millis(100);

/// Server with running workers.
pub struct Running {
    /// The server.
    pub server: Arc<Server>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    _socket: Option<SocketFile>,
}

/// Binds the listeners and starts the workers.
///
/// # Errors
/// An address in use, an unusable socket path, a back-end that the kernel refuses: one line that
/// says which.
pub fn start(config: Arc<SharedConfig>, process: Box<dyn Process>) -> io::Result<Running> {
    start_with(config, process, &[])
}

/// Like [`start`], with more commands: those of value types that the host has added
/// ([`petrel_keyspace::custom::add_type`]).
///
/// # Errors
/// Those of [`start`].
pub fn start_with(
    config: Arc<SharedConfig>,
    process: Box<dyn Process>,
    families: &[&'static [CommandSpec]],
) -> io::Result<Running> {
    let snapshot = config.snapshot();
    // Errors in the names were reported when the configuration was loaded.
    let (registry, _) = crate::commands::registry_with(config.renames(), families);
    let server = Server::new(config, registry, process);
    let relay = crate::replication::out::Relay(Arc::downgrade(&server));
    server.replication.set_downstream(Some(Arc::new(relay)));
    server.configure_tls(&snapshot).map_err(io::Error::other)?;
    crate::tls::watch(Arc::downgrade(&server));
    if let Err(error) = server.oom_score.apply(&snapshot) {
        tracing::warn!("oom-score-adj has no effect: {error}");
    }
    users::load_at_start(&server, &snapshot, server.config.users())?;
    let open = || server.listening.lock().open(&snapshot);
    let (listeners, socket) = once_free(&*server.process, open)?;
    once_free(&*server.process, || http::start(&server, &snapshot))?;
    let options = driver_options(&server, &snapshot);
    // After the addresses are this server's own: another one here would have them.
    sweep_parts();
    let files = server.config.file().into_iter().chain(snapshot.aclfile.as_deref());
    files.for_each(sweep_beside);
    if let Some(bytes) = server.process.allocator_use() {
        server.figures.startup_bytes.store(bytes.allocated, Relaxed);
    }
    // Before the first client is served: until then commands must be refused.
    #[cfg(feature = "cluster")]
    let enlisted = crate::cluster::enlist(&server, &snapshot)?;
    server.begin_with_data(&snapshot)?;
    server.begin_following()?;
    #[cfg(feature = "cluster")]
    if let Some(enlisted) = enlisted {
        enlisted.join(&server)?;
    }
    let threads = match snapshot.io_backend {
        IoBackend::Epoll => spawn::<Epoll>(&server, &listeners, &options)?,
        IoBackend::IoUring => spawn::<Uring>(&server, &listeners, &options)?,
        IoBackend::Auto => match Uring::new(&options) {
            Ok(probe) => {
                drop(probe);
                spawn::<Uring>(&server, &listeners, &options)?
            }
            Err(error) => {
                tracing::info!("io_uring is not available ({error}); using epoll");
                spawn::<Epoll>(&server, &listeners, &options)?
            }
        },
    };
    let threads_text = if threads.len() == 1 { "thread" } else { "threads" };
    tracing::info!("{} worker {threads_text}, {} back-end", threads.len(), server.backend());
    Ok(Running { server, threads, _socket: socket })
}

impl Running {
    /// Waits until the server has stopped.
    ///
    /// # Errors
    /// If a worker's event loop failed, or the server could not go on for another reason.
    pub fn wait(self) -> io::Result<()> {
        let mut result = Ok(());
        if !self.await_threads() {
            // Nothing more can be done without what that worker holds.
            let why = self.server.failure.get();
            return why.map_or(Ok(()), |why| Err(io::Error::other(why.clone())));
        }
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => result = Err(error),
                Err(_) => result = Err(io::Error::other("a worker panicked")),
            }
        }
        self.server.end_following();
        self.server.cluster.get().into_iter().for_each(|member| member.end());
        self.server.await_saver();
        self.server.end_log();
        if let Err(error) = self.server.save_rest() {
            result = Err(io::Error::other(format!("the last changes are not saved: {error}")));
        }
        self.server.end_backups();
        if let Some(why) = self.server.failure.get() {
            result = Err(io::Error::other(why.clone()));
        }
        result
    }
}

impl Running {
    /// Waits until all workers have ended; false if one never will.
    fn await_threads(&self) -> bool {
        while !self.threads.iter().all(JoinHandle::is_finished) {
            if self.server.is_abandoned() {
                return false;
            }
            std::thread::sleep(if self.server.is_stopping() { LOOK } else { LOOK_SELDOM });
        }
        true
    }
}

/// Raises the descriptor limit, decides on direct descriptors and says how many connections will be
/// held.
fn driver_options(server: &Server, config: &Config) -> Options {
    let reserved = descriptors_reserved(config);
    let wanted = u64::from(config.maxclients) + reserved;
    let limit = raise_descriptor_limit(wanted);
    let workers = server.workers.len() as u64;
    let direct = match config.direct_descriptors {
        Auto::Yes => true,
        Auto::No => false,
        Auto::Auto => limit < wanted && config.io_backend != IoBackend::Epoll,
    };
    let (held, direct_descriptors) = if direct {
        // Each ring has a table of its own, bounded by the descriptor limit like the process's.
        let per_ring = (u64::from(config.maxclients).div_ceil(workers) + 64).min(limit);
        (workers * per_ring, Some(per_ring as u32))
    } else {
        (limit.saturating_sub(reserved), None)
    };
    server.direct_descriptors.store(direct, Relaxed);
    server.connections_possible.store(held as usize, Relaxed);
    let held = held.min(u64::from(config.maxclients));
    if held < u64::from(config.maxclients) {
        let way_past = match config.io_backend {
            IoBackend::Epoll => "let io-backend be io_uring",
            _ => "start more threads with direct-descriptors yes",
        };
        tracing::warn!(
            "maxclients is {}, but the limit of {limit} open files allows {held} connections; raise it with \
             `ulimit -n`, or {way_past}",
            config.maxclients
        );
    }
    server.connections_max.store(held as usize, Relaxed);
    Options { direct_descriptors }
}

/// Sets the maximum number of connections, raising the limit of descriptors if needed.
///
/// # Errors
/// The number that can be held, if it is less; nothing has changed then.
pub(crate) fn admit_connections(server: &Server, wanted: usize) -> Result<(), usize> {
    let mut possible = server.connections_possible.load(Relaxed);
    // Tables of rings have the size that they were made with.
    if wanted > possible && !server.direct_descriptors.load(Relaxed) {
        let reserved = descriptors_reserved(&server.config.snapshot());
        let limit = raise_descriptor_limit(wanted as u64 + reserved);
        possible = limit.saturating_sub(reserved) as usize;
        server.connections_possible.store(possible, Relaxed);
    }
    if wanted > possible {
        return Err(possible);
    }
    server.connections_max.store(wanted, Relaxed);
    Ok(())
}

/// Descriptors that are kept for other things than clients' connections.
fn descriptors_reserved(config: &Config) -> u64 {
    DESCRIPTORS_RESERVED + http::descriptors(config)
}

fn raise_descriptor_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let now = limit.current.unwrap_or(u64::MAX);
    if now < wanted {
        let raised = wanted.min(limit.maximum.unwrap_or(u64::MAX));
        let new = Rlimit { current: Some(raised), maximum: limit.maximum };
        if setrlimit(Resource::Nofile, new).is_ok() {
            return raised;
        }
    }
    now
}

fn spawn<D: Driver>(
    server: &Arc<Server>,
    listeners: &[Listener],
    options: &Options,
) -> io::Result<Vec<JoinHandle<io::Result<()>>>> {
    let (report, reports) = mpsc::channel();
    let (mut threads, mut starts) = (Vec::new(), Vec::new());
    for index in 0..server.workers.len() {
        let (server, options, report) = (server.clone(), options.clone(), report.clone());
        // The first worker accepts and hands connections to the worker with fewest.
        let listeners = if index == 0 { listeners.to_vec() } else { Vec::new() };
        let (start, started) = mpsc::sync_channel(1);
        starts.push(start);
        let name = format!("petrel-{index}");
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let mut worker = match build::<D>(server.clone(), index, listeners, &options) {
                Ok(worker) => worker,
                Err(error) => {
                    let _ = report.send(Err(error));
                    return Ok(());
                }
            };
            let _ = report.send(Ok(()));
            drop(report);
            // Accept only when every worker can receive connections; start only if all workers do.
            if started.recv().is_err() {
                return Ok(());
            }
            let _guard = Guard(server);
            let result = worker.run();
            if let Err(error) = &result {
                tracing::error!("worker {index} failed: {error}");
            }
            result
        })?;
        threads.push(thread);
    }
    drop(report);
    reports.into_iter().collect::<io::Result<()>>()?;
    for start in starts {
        // A worker waits at the other end of each.
        let _ = start.send(());
    }
    Ok(threads)
}

/// Ends the process with the first worker that ends while the server is not stopping: after an
/// error of its event loop, or a panic. The remaining workers could not serve every connection.
struct Guard(Arc<Server>);

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.0.is_stopping() {
            self.0.stop();
            self.0.process.leave();
        }
    }
}

/// Builds a worker on its own thread, which the ring demands.
fn build<D: Driver>(
    server: Arc<Server>,
    index: usize,
    listeners: Vec<Listener>,
    options: &Options,
) -> io::Result<Worker<D>> {
    let mut worker = Worker::new(server, index, D::new(options)?);
    for (id, listener) in listeners {
        worker.listen(listener, id)?;
    }
    Ok(worker)
}
