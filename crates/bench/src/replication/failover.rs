//! Failovers: the time without an acknowledged write.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use petrel_client::RawCommand;
use petrel_resp::encode_command;

use super::{PATIENCE, address};
use crate::experiment::Case;
use crate::result::{Measured, Measurement};
use crate::server::{Server, TempDir};
use crate::sys::{self, Guarded, free_port, text};
use crate::wire::{Endpoint, Stream, client, order, read_same};

/// Time of steady writes before and after a failover.
const STEADY: Duration = Duration::from_millis(500);

/// Interval of writes, and of attempts.
const WRITE_EVERY: Duration = Duration::from_millis(1);

/// Longest wait for a reply before the other server is tried.
const REPLY_MAX: Duration = Duration::from_secs(10);

/// Longest time until a sentinel knows both servers.
const DISCOVERY_MAX: Duration = Duration::from_secs(60);

/// Fails over by `FAILOVER`.
pub(super) fn by_command(server: &Server, replica: &Server) -> Measured {
    refused(server, replica, || {
        client(server.endpoint()).and_then(|admin| order(&admin, &[b"FAILOVER"])).map_err(text)
    })
}

/// Fails over by SIGKILL, with a sentinel.
pub(super) fn by_sentinel(server: &Server, replica: &Server) -> Measured {
    refused(server, replica, || {
        server.kill();
        Ok(())
    })
}

/// The longest time between two acknowledged writes, of a client that tries both servers in turn.
fn refused(
    server: &Server,
    replica: &Server,
    begin: impl FnOnce() -> Result<(), String>,
) -> Measured {
    let endpoints = [server.endpoint(), replica.endpoint()];
    let (mut at, mut stream) = (0, None);
    let (start, mut begin) = (Instant::now(), Some(begin));
    let (mut last, mut longest) = (start, Duration::ZERO);
    let mut moved: Option<Instant> = None;
    while moved.is_none_or(|moved| moved.elapsed() < STEADY) {
        if start.elapsed() > PATIENCE {
            return Err("no server takes the primary's place".to_owned());
        }
        if start.elapsed() >= STEADY
            && let Some(begin) = begin.take()
        {
            longest = Duration::ZERO;
            begin()?;
        }
        if write(&mut stream, endpoints[at]).is_ok() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
            if at == 1 {
                moved.get_or_insert(last);
            }
        } else {
            (stream, at) = (None, 1 - at);
        }
        thread::sleep(WRITE_EVERY);
    }
    Ok(Measurement::default().with("refused", 1000.0 * longest.as_secs_f64()))
}

fn write(connected: &mut Option<Stream>, endpoint: &Endpoint) -> io::Result<()> {
    let stream = match connected {
        Some(stream) => stream,
        None => {
            let new = endpoint.connect(None)?;
            new.set_read_timeout(REPLY_MAX)?;
            connected.insert(new)
        }
    };
    let mut request = Vec::new();
    encode_command(&[b"SET", b"replication-write", b"1"], &mut request);
    stream.write_all(&request)?;
    read_same(stream, b"+OK\r\n", 1)
}

/// A sentinel that watches a primary; killed when dropped.
#[derive(Debug)]
pub struct Sentinel {
    _child: Guarded,
    _directory: TempDir,
}

impl Sentinel {
    /// Whether there is such a program.
    pub(super) fn is_there(case: &Case<'_>) -> bool {
        let mut command = Command::new(case.get::<PathBuf>("sentinel"));
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// Starts a sentinel, and waits until it knows the replica.
    pub(super) fn start(case: &Case<'_>, server: &Server) -> Result<Sentinel, String> {
        let failed = |error: io::Error| format!("no sentinel: {error}");
        let (host, port) = address(server)?;
        let directory = TempDir::new().map_err(failed)?;
        let own = free_port().map_err(failed)?;
        let text = format!(
            "port {own}\nsentinel monitor it {host} {port} 1\nsentinel down-after-milliseconds it 1000\n\
             sentinel failover-timeout it 10000\n"
        );
        let file = directory.path().join("sentinel.conf");
        fs::write(&file, text).map_err(failed)?;
        let log = File::create(directory.path().join("log")).map_err(failed)?;
        let mut command = Command::new(case.get::<PathBuf>("sentinel"));
        // `redis-sentinel` is a sentinel by its name already.
        command.arg(&file).arg("--sentinel").current_dir(directory.path());
        command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
        let child = sys::die_with_parent(&mut command).spawn().map_err(failed)?;
        let sentinel = Sentinel { _child: Guarded(child), _directory: directory };
        let endpoint = Endpoint::Tcp(std::net::SocketAddrV4::new([127, 0, 0, 1].into(), own));
        let begin = Instant::now();
        loop {
            if knows_replica(&endpoint).unwrap_or(false) {
                return Ok(sentinel);
            }
            if begin.elapsed() > DISCOVERY_MAX {
                return Err("the sentinel does not find the replica".to_owned());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Whether a sentinel knows a replica with a link: it promotes no other.
fn knows_replica(endpoint: &Endpoint) -> petrel_client::Result<bool> {
    let client = client(endpoint)?;
    let replicas = client.command("SENTINEL").args(["REPLICAS", "it"]);
    let replicas: Vec<Vec<String>> = replicas.reply().run()?;
    let follows = |pair: &[String]| pair == ["master-link-status", "ok"];
    Ok(replicas.iter().any(|replica| replica.chunks(2).any(follows)))
}
