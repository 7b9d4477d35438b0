//! A running server process.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::cluster;
use super::peer::Peer;
use super::setting::{Setting, Transport};
use super::sweep::{self, TempDir};
use crate::sys::{self, free_port, text};
use crate::wire::{Endpoint, Protocol};
use rustix::process::Signal;

/// Longest time until a server answers.
const START_MAX: Duration = Duration::from_secs(20);

/// Resident memory rests if this many readings...
const READINGS: usize = 8;

/// ...at this interval...
const READ_EVERY: Duration = Duration::from_millis(250);

/// ...differ by less than this share.
const REST_TOLERANCE: f64 = 0.002;

/// A server is at rest if it takes less than this share of a processor...
const REST_SHARE: f64 = 0.03;

/// ...over this time...
const REST_WINDOW: Duration = Duration::from_millis(200);

/// ...within this time.
const REST_MAX: Duration = Duration::from_secs(60);

/// Longest path of a Unix socket, bytes (`sun_path` without its terminator).
const SOCKET_PATH_MAX: usize = 107;

/// A server that has answered; killed when dropped.
#[derive(Debug)]
pub struct Server {
    peer: Peer,
    setting: Setting,
    child: Child,
    endpoint: Endpoint,
    /// The processes that execute its commands: its own, or those of a cluster's nodes.
    processes: Vec<u32>,
    /// Endpoints of the server, or of the nodes.
    entrances: Vec<Endpoint>,
    directory: TempDir,
}

impl Server {
    /// Starts a server and waits until it answers. The error is one line that ends with the output
    /// of the server.
    pub fn start(peer: &Peer, setting: &Setting) -> Result<Server, String> {
        let failed = |what: String| format!("{} did not start: {what}", peer.name);
        let directory = TempDir::new().map_err(|error| failed(error.to_string()))?;
        let own = setting.clone();
        let mut setting = setting.clone();
        if peer.names_its_nodes() {
            // By their ports.
            setting.transport = Transport::Tcp;
        }
        setting.socket = directory.path().join("s");
        setting.port = free_port().map_err(|error| failed(error.to_string()))?;
        setting.directory = directory.path().to_owned();
        if setting.socket.as_os_str().len() > SOCKET_PATH_MAX {
            let path = setting.socket.display();
            return Err(failed(format!("{path} is too long for a Unix socket; set TMPDIR")));
        }
        if setting.transport == Transport::Tls {
            write_certificate(directory.path()).map_err(failed)?;
        }
        let (program, words) = peer.command(&setting)?;
        let log = directory.path().join("log");
        let child = spawn(&program, &words, directory.path(), &log)
            .map_err(|error| failed(format!("{}: {error}", program.display())))?;
        sweep::add_process(child.id());
        let endpoint = match setting.transport {
            Transport::Unix => Endpoint::Unix(setting.socket.clone()),
            Transport::Tcp => Endpoint::Tcp(SocketAddrV4::new(Ipv4Addr::LOCALHOST, setting.port)),
            Transport::Tls => {
                let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, setting.port);
                Endpoint::Tls(address, directory.path().join("server.crt"))
            }
        };
        let peer = peer.clone();
        let (processes, entrances) = (vec![child.id()], vec![endpoint.clone()]);
        let mut server =
            Server { peer, setting: own, child, endpoint, processes, entrances, directory };
        server.wait_until_ready(&log)?;
        server.find_nodes()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, log: &Path) -> Result<(), String> {
        let (begin, nodes) = (Instant::now(), u32::from(self.setting.nodes + self.setting.caches));
        // The nodes of a cluster start one after the other.
        let limit = if self.peer.is_cluster() { START_MAX * nodes } else { START_MAX };
        loop {
            let is_there = ping(&self.endpoint, self.peer.protocol()).is_ok();
            if is_there
                && (!self.peer.is_cluster() || cluster::nodes(self.directory.path()).is_some())
            {
                return Ok(());
            }
            let status = self.child.try_wait().ok().flatten();
            if status.is_some() || begin.elapsed() > limit {
                let why = match status {
                    Some(status) => status.to_string(),
                    None => format!("no answer in {} s", limit.as_secs()),
                };
                let said = last_words(log);
                return Err(format!("{} did not start ({why}): {said}", self.peer.name));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Finds the nodes of a cluster: their processes and endpoints.
    fn find_nodes(&mut self) -> Result<(), String> {
        if !self.peer.is_cluster() {
            return Ok(());
        }
        self.processes = sys::children(self.pid());
        if self.processes.len() != usize::from(self.setting.nodes + self.setting.caches) {
            return Err(format!("{} did not start: a node is gone", self.peer.name));
        }
        // The nodes of a Redis Cluster send clients on.
        if !self.peer.names_its_nodes() {
            let endpoint = |(port, socket): (u16, PathBuf)| match self.endpoint {
                Endpoint::Unix(_) => Endpoint::Unix(socket),
                _ => Endpoint::Tcp(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)),
            };
            let nodes = cluster::nodes(self.directory.path()).unwrap_or_default();
            self.entrances = nodes.into_iter().map(endpoint).collect();
        }
        Ok(())
    }

    /// The server's program.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Starts another server like this one, without its data.
    pub fn fresh(&self) -> Result<Server, String> {
        Server::start(&self.peer, &self.setting)
    }

    /// Setting of its start, without paths and port.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Endpoint of the server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Process of the server; of a cluster, the one that holds the nodes.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The processes that execute its commands: its own, or those of a cluster's nodes.
    pub fn processes(&self) -> &[u32] {
        &self.processes
    }

    /// Endpoints for clients: one, or those of a cluster that serves all keys at each node.
    pub fn entrances(&self) -> &[Endpoint] {
        &self.entrances
    }

    /// Endpoint of a cluster's near cache, if it has one, and its process.
    pub fn cache(&self) -> Option<(&Endpoint, u32)> {
        let last = self.entrances.last().zip(self.processes.last().copied());
        last.filter(|_| self.peer.is_cluster() && self.setting.caches > 0)
    }

    /// Bytes sent between the nodes of a cluster, if they are counted.
    pub fn carried_between_nodes(&self) -> Result<u64, String> {
        cluster::carried(self.directory.path()).map_err(|error| format!("its relays: {error}"))
    }

    /// CPU time of all its processes so far, nanoseconds.
    pub fn cpu_ns(&self) -> Result<u64, String> {
        let times = self.processes.iter().map(|pid| sys::process_cpu_ns(*pid));
        times.sum::<io::Result<u64>>().map_err(|error| error.to_string())
    }

    /// Waits until the server is idle: memory of removed values is freed, for example.
    pub fn wait_for_rest(&self) -> Result<(), String> {
        let begin = Instant::now();
        while begin.elapsed() < REST_MAX {
            let (cpu, since) = (self.cpu_ns()?, Instant::now());
            thread::sleep(REST_WINDOW);
            if ((self.cpu_ns()? - cpu) as f64) < REST_SHARE * since.elapsed().as_nanos() as f64 {
                return Ok(());
            }
        }
        Err("it does not come to rest".to_owned())
    }

    /// Resident memory in bytes, of all nodes of a cluster, counted page by page (the kernel's
    /// running totals may be off by some hundred kilobytes).
    pub fn rss(&self) -> Result<u64, String> {
        self.processes.iter().map(|pid| sys::resident_bytes(*pid)).sum()
    }

    /// Resident memory in bytes, and private memory of child processes: pages that either has
    /// written since the fork.
    pub fn memory_with_children(&self) -> Result<u64, String> {
        let children = sys::children(self.pid()).into_iter();
        // A child that has ended meanwhile has no memory.
        let own: u64 = children.map(|child| sys::private_bytes(child).unwrap_or(0)).sum();
        Ok(self.rss()? + own)
    }

    /// Resident memory once it has rested for eight readings (two seconds), after `limit` at most;
    /// and the time until it rested.
    pub fn rss_at_rest(&self, limit: Duration) -> Result<(u64, Duration), String> {
        let begin = Instant::now();
        let mut level = self.rss()?;
        let mut moved = Duration::ZERO;
        let mut still = 0;
        while still < READINGS && begin.elapsed() < limit {
            thread::sleep(READ_EVERY);
            let now = self.rss()?;
            if now.abs_diff(level) as f64 > level as f64 * REST_TOLERANCE {
                (level, moved, still) = (now, begin.elapsed(), 0);
            } else {
                still += 1;
            }
        }
        Ok((self.rss()?, moved))
    }

    /// Ends the process as a failing machine would (SIGKILL).
    pub fn kill(&self) {
        sys::signal(self.pid(), Signal::KILL);
    }

    /// Stops the process (SIGSTOP), so that it uses no CPU until [`Server::resume`]. The nodes of
    /// a cluster continue: they would take each other for dead.
    pub fn pause(&self) {
        if !self.peer.is_cluster() {
            sys::signal(self.pid(), Signal::STOP);
        }
    }

    /// Resumes a paused process.
    pub fn resume(&self) {
        sys::signal(self.pid(), Signal::CONT);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        sweep::remove_process(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(program: &Path, words: &[String], directory: &Path, log: &Path) -> io::Result<Child> {
    let out = File::create(log)?;
    let mut command = Command::new(program);
    command
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(out.try_clone()?)
        .stdout(out);
    sys::die_with_parent(&mut command).spawn()
}

/// Sends one request and reads one line of its reply.
fn ping(endpoint: &Endpoint, protocol: Protocol) -> io::Result<()> {
    let mut stream = endpoint.connect(None)?;
    stream.set_read_timeout(Duration::from_secs(2))?;
    let (request, reply) = protocol.ping();
    stream.write_all(request)?;
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got)?;
    if got == reply { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Writes `server.crt` and `server.key`, signed by itself, for `localhost`.
fn write_certificate(directory: &Path) -> Result<(), String> {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(text)?;
    let files = [("server.crt", pair.cert.pem()), ("server.key", pair.signing_key.serialize_pem())];
    for (name, text) in files {
        fs::write(directory.join(name), text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Last lines of a server's output, on one line.
fn last_words(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "it printed nothing".to_owned();
    }
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_fails_says_why_in_one_line() {
        let peer: Peer = "bad=sh -c 'echo cannot listen on {port} >&2; exit 3'".parse().unwrap();
        let error = Server::start(&peer, &Setting::new(1, Transport::Unix, 10)).unwrap_err();
        assert!(error.contains("bad did not start (exit status: 3): cannot listen"), "{error}");
        assert!(!error.contains('\n'));
        let peer: Peer = "none=/nowhere/server {port}".parse().unwrap();
        let error = Server::start(&peer, &Setting::new(1, Transport::Tcp, 10)).unwrap_err();
        assert!(error.contains("/nowhere/server"), "{error}");
    }

    #[test]
    fn a_peer_starts_answers_and_is_gone_afterwards() {
        let peer = "redis=redis-server --port {port} --unixsocket {sock} --save '' --dir {dir}";
        let peer: Peer = peer.parse().unwrap();
        if Command::new("redis-server").arg("--version").output().is_err() {
            eprintln!("skipped: no redis-server on PATH");
            return;
        }
        for transport in [Transport::Unix, Transport::Tcp] {
            let server = Server::start(&peer, &Setting::new(1, transport, 10)).unwrap();
            let endpoint = server.endpoint().clone();
            assert!(server.rss().unwrap() > 1_000_000);
            assert!(sys::process_cpu_ns(server.pid()).unwrap() > 0);
            drop(server);
            assert!(ping(&endpoint, Protocol::Resp).is_err());
        }
    }
}
