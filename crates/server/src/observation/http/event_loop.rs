//! The thread that serves all connections of the port.

use super::bridge::Bridge;
use super::connection::{Connection, Phase};
use super::console;
use super::exchange::{Answer, Request};
use super::metrics::{self, Exposition};
use super::probes::{Liveness, unready};
use crate::server::Server;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Connections at once. For one more, the oldest is closed.
pub const CONNECTIONS_MAX: usize = 64;

/// WebSockets of the console at once.
pub const BRIDGES_MAX: usize = 32;

/// A connection is not closed for another before it has had this long for its request. New ones
/// wait in the listener's backlog meanwhile.
const GRACE: Duration = Duration::from_millis(100);

/// Between two looks whether the server still runs.
const IDLE: Duration = Duration::from_millis(200);

/// Between two looks at what another thread does: a worker's turn, or metrics.
const STEP: Duration = Duration::from_millis(5);

/// Pause of accepting after the system refused to.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// All connections of the port.
pub struct EventLoop {
    server: Weak<Server>,
    listeners: Vec<TcpListener>,
    connections: Vec<Connection>,
    bridges: Vec<Bridge>,
    /// Whether connections speak TLS.
    is_tls: bool,
    /// Nothing is accepted before.
    accept_at: Instant,
    collector: Collector,
}

/// The collection of metrics, on a thread of its own. Requests that come during a run are answered
/// by the next one.
#[derive(Default)]
struct Collector {
    running: Option<Receiver<Exposition>>,
    /// Number of the run, or of the last one.
    run: u64,
}

impl EventLoop {
    pub fn new(server: Weak<Server>, listeners: Vec<TcpListener>, is_tls: bool) -> Self {
        let (connections, bridges) = (Vec::new(), Vec::new());
        let (accept_at, collector) = (Instant::now(), Collector::default());
        EventLoop { server, listeners, connections, bridges, is_tls, accept_at, collector }
    }

    /// Serves until the server stops.
    pub fn run(mut self) {
        while let Some(server) = self.server.upgrade().filter(|server| !server.is_stopping()) {
            self.turn(&server);
            drop(server);
            self.wait();
        }
    }

    /// Does what can be done without waiting.
    fn turn(&mut self, server: &Arc<Server>) {
        let now = Instant::now();
        if now >= self.accept_at {
            self.accept(server, now);
        }
        self.finish_collection(now);
        let run = self.collector.next_run();
        self.connections.retain_mut(|connection| {
            // A peer that has gone away has nothing to complain of.
            serve(connection, server, run, now).is_ok()
        });
        self.begin_collection(server, now);
        self.upgrade(server);
        self.bridges.retain_mut(|bridge| bridge.turn(now));
    }

    /// Turns connections into WebSockets.
    fn upgrade(&mut self, server: &Server) {
        let is_due = |one: &mut Connection| matches!(one.phase(), Phase::Upgrading(_));
        for connection in self.connections.extract_if(.., is_due) {
            let (stream, Phase::Upgrading(key)) = connection.into_parts() else { continue };
            let open = self.bridges.iter().filter(|bridge| !bridge.is_closed()).count();
            let refusal = (open >= BRIDGES_MAX).then_some("too many consoles are open");
            if self.bridges.len() < 2 * BRIDGES_MAX {
                self.bridges.extend(Bridge::new(stream, &key, server, refusal));
            }
        }
    }

    /// Accepts until no client is left or there are too many that are too young to be closed.
    fn accept(&mut self, server: &Server, now: Instant) {
        let tls = self.is_tls.then(|| server.tls.lock().clone()).flatten();
        for at in 0..self.listeners.len() {
            for _ in 0..CONNECTIONS_MAX {
                if self.connections.len() >= CONNECTIONS_MAX && !self.can_evict(now) {
                    return;
                }
                let stream = match self.listeners[at].accept() {
                    Ok((stream, _)) => stream,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // Others have taken all descriptors: one of the own ones is given up.
                    Err(_) => {
                        self.evict(now);
                        self.accept_at = now + ACCEPT_PAUSE;
                        return;
                    }
                };
                if self.connections.len() >= CONNECTIONS_MAX {
                    self.evict(now);
                }
                let tls = tls.as_ref().map(|settings| settings.handshake.clone());
                // Without certificates there is no answer that a client of TLS would read.
                if tls.is_some() || !self.is_tls {
                    self.connections.extend(Connection::new(stream, tls, now));
                }
            }
        }
    }

    /// The connection that is closed for a new one: the oldest that waits for no metrics, else the
    /// oldest.
    fn victim(&self) -> Option<usize> {
        let is_busy = |connection: &Connection| {
            matches!(connection.phase(), Phase::Probing { .. } | Phase::Collecting { .. })
        };
        let now = Instant::now();
        let all = self.connections.iter().enumerate();
        let oldest = all.max_by_key(|(_, one)| (!is_busy(one), one.age(now)));
        oldest.map(|(at, _)| at)
    }

    fn can_evict(&self, now: Instant) -> bool {
        self.victim().is_some_and(|at| self.connections[at].age(now) >= GRACE)
    }

    fn evict(&mut self, now: Instant) {
        if self.can_evict(now)
            && let Some(at) = self.victim()
        {
            self.connections.remove(at);
        }
    }

    /// Answers connections that wait for the metrics that have been collected.
    fn finish_collection(&mut self, now: Instant) {
        let Some(running) = &self.collector.running else { return };
        let [plain, open] = match running.try_recv() {
            Ok(Exposition { plain, open }) => {
                [Answer::metrics(plain, false), Answer::metrics(open, true)]
            }
            Err(mpsc::TryRecvError::Empty) => return,
            Err(mpsc::TryRecvError::Disconnected) => {
                [(); 2].map(|()| Answer::unavailable("no metrics"))
            }
        };
        self.collector.running = None;
        let done = self.collector.run;
        self.connections.retain_mut(|connection| match *connection.phase() {
            Phase::Collecting { is_head, is_open, run } if run == done => {
                let answer = if is_open { &open } else { &plain };
                connection.answer(answer, is_head, now).is_ok()
            }
            _ => true,
        });
    }

    /// Collects metrics if anybody waits for them.
    fn begin_collection(&mut self, server: &Arc<Server>, now: Instant) {
        let run = self.collector.next_run();
        let waits = |connection: &Connection| matches!(connection.phase(), Phase::Collecting { run: theirs, .. } if *theirs == run);
        if self.collector.running.is_some() || !self.connections.iter().any(waits) {
            return;
        }
        let (done, running) = mpsc::sync_channel(1);
        let server = server.clone();
        // No connection may be left that waits for it.
        let collect = move || drop(done.send(metrics::collect(&server)));
        let thread = std::thread::Builder::new().name("petrel-metrics".into());
        if let Err(error) = thread.spawn(collect) {
            tracing::warn!("no thread to collect metrics: {error}");
            let answer = Answer::unavailable("no thread to collect metrics");
            self.connections.retain_mut(|connection| match *connection.phase() {
                Phase::Collecting { is_head, .. } => {
                    connection.answer(&answer, is_head, now).is_ok()
                }
                _ => true,
            });
            return;
        }
        self.collector.running = Some(running);
        self.collector.run = run;
    }

    /// Waits until something can be done.
    fn wait(&mut self) {
        let now = Instant::now();
        let is_full = self.connections.len() >= CONNECTIONS_MAX && !self.can_evict(now);
        let accepts = now >= self.accept_at && !is_full;
        let steps = |one: &Connection| one.interest().is_empty();
        let timeout = match (accepts, self.connections.iter().any(steps)) {
            _ if self.bridges.iter().any(Bridge::is_behind) => Duration::ZERO,
            (_, true) => STEP,
            (false, _) => ACCEPT_PAUSE,
            (true, false) => IDLE,
        };
        let listeners = self.listeners.iter().filter(|_| accepts);
        let mut fds: Vec<PollFd<'_>> =
            listeners.map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        fds.extend(self.connections.iter().map(|one| PollFd::new(one.socket(), one.interest())));
        fds.extend(self.bridges.iter().flat_map(Bridge::interest));
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as _ };
        if poll(&mut fds, Some(&timeout)).is_err() {
            // Interrupted, or the kernel has no memory: not at once again.
            std::thread::sleep(STEP);
        }
        let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        let end = fds.len() - 2 * self.bridges.len();
        let gone: Vec<bool> = fds[end - self.connections.len()..end]
            .iter()
            .map(|fd| fd.revents().intersects(gone) && !fd.revents().contains(PollFlags::IN))
            .collect();
        let mut gone = gone.into_iter();
        self.connections.retain(|_| !gone.next().unwrap_or_default());
    }
}

impl Collector {
    /// The run with the metrics for a request that arrives now.
    fn next_run(&self) -> u64 {
        self.run + 1
    }
}

/// Does the step that a connection waits for.
///
/// # Errors
/// When it has ended, or its time is over.
fn serve(connection: &mut Connection, server: &Server, run: u64, now: Instant) -> io::Result<()> {
    match connection.phase() {
        Phase::Reading(_) => {
            if let Some(request) = connection.read()? {
                begin(connection, request, server, run, now)?;
            }
        }
        Phase::Probing { is_head, liveness } => {
            if let Some(result) = liveness.result(server, now) {
                let (answer, is_head) = (of_liveness(result), *is_head);
                connection.answer(&answer, is_head, now)?;
            }
        }
        Phase::Collecting { is_head, .. } if connection.is_overdue(now) => {
            let is_head = *is_head;
            connection.answer(&Answer::unavailable("the metrics take too long"), is_head, now)?;
        }
        Phase::Collecting { .. } | Phase::Upgrading(_) => {}
        Phase::Writing(..) => connection.write(now)?,
        Phase::Closing => connection.drain()?,
    }
    if connection.is_overdue(now) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

/// Answers a request, or begins to work its answer out.
fn begin(
    connection: &mut Connection,
    request: Result<Request, &'static str>,
    server: &Server,
    run: u64,
    now: Instant,
) -> io::Result<()> {
    let request = match request {
        Ok(request) => request,
        Err(status) => return connection.answer(&Answer::refused(status), false, now),
    };
    let (is_head, is_open) = (request.is_head, request.is_open);
    let answer = match &*request.path {
        "/metrics" => {
            connection.enter(Phase::Collecting { is_head, is_open, run }, now);
            return Ok(());
        }
        "/health" => match Liveness::watch(server, now) {
            Some(liveness) => {
                connection.enter(Phase::Probing { is_head, liveness }, now);
                return Ok(());
            }
            None => Answer::ok("starting"),
        },
        "/ready" => match unready(server) {
            None => Answer::ok("ready"),
            Some(why) => Answer::unavailable(&why),
        },
        path if path.starts_with("/console") => match of_console(connection, request)? {
            Some(answer) => answer,
            None => return Ok(()),
        },
        _ => Answer::not_found(),
    };
    connection.answer(&answer, is_head, now)
}

/// Answers a request for the console, or turns the connection into a WebSocket.
///
/// # Errors
/// Fails when the connection has ended.
fn of_console(connection: &mut Connection, request: Request) -> io::Result<Option<Answer>> {
    let (peer, is_tls) = connection.peer()?;
    if let Some(why) = console::refusal(&request, peer, is_tls) {
        return Ok(Some(Answer::forbidden(why)));
    }
    if request.path != console::SOCKET {
        return Ok(Some(console::page(&request.path).unwrap_or_else(Answer::not_found)));
    }
    let Some(key) = request.websocket_key else {
        return Ok(Some(Answer::refused("426 Upgrade Required")));
    };
    connection.enter(Phase::Upgrading(key), Instant::now());
    Ok(None)
}

fn of_liveness(result: Result<(), usize>) -> Answer {
    match result {
        Ok(()) => Answer::ok("ok"),
        Err(worker) => Answer::unavailable(&format!("worker {worker} is stuck")),
    }
}
