//! The other servers: connections to them, kept for migrations that come soon after.

use crate::state::migrate::{Migration, Taken};
use petrel_commands::Fail;
use petrel_resp::{DecodeLimits, Decoder, Value, encode_command};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time for which an unused connection is kept.
const KEPT: Duration = Duration::from_secs(10);
/// Connections that are kept at most.
const KEPT_MAX: usize = 64;
/// Interval between two checks for unused connections.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Limits of replies: targets answer with statuses and errors.
const REPLY_LIMITS: DecodeLimits =
    DecodeLimits { depth_max: 2, bulk_len_max: 64 * 1024, values_max: 16 };

/// Failure of a connection to a target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Trouble {
    /// The target was not found, or did not answer the call in time.
    Connecting,
    /// Sending failed.
    Writing,
    /// No reply.
    Reading,
    /// The target replied with an error.
    Refused(Vec<u8>),
    /// The keys change faster than they can be sent.
    Unsteady,
    /// This server does not execute the migration any more.
    NotAdmitted(Fail),
    /// This server ends while a pause holds the migration back.
    Stopped,
}

impl Trouble {
    /// Error reply for the client.
    pub fn fail(self) -> Fail {
        match self {
            Trouble::Connecting => Fail::fixed("IOERR error or timeout connecting to the client"),
            Trouble::Writing => Fail::fixed("IOERR error or timeout writing to target instance"),
            Trouble::Reading => Fail::fixed("IOERR error or timeout reading to target instance"),
            Trouble::Refused(text) => {
                Fail::new([b"ERR Target instance replied with error: ", &text[..]].concat())
            }
            Trouble::Unsteady => {
                Fail::fixed("IOERR the keys change faster than they can be sent to target instance")
            }
            Trouble::NotAdmitted(fail) => fail,
            Trouble::Stopped => Fail::fixed("ERR The server is shutting down"),
        }
    }
}

/// A connection to a target.
#[derive(Debug)]
pub struct Target {
    name: (String, u16),
    stream: TcpStream,
    /// The database that is selected there.
    db: i64,
    /// Time of the last use.
    used: Instant,
}

impl Target {
    /// Sends commands and reads their replies, each of which is a success, or an error.
    pub fn call(&mut self, requests: &[&[&[u8]]]) -> Result<Vec<Taken>, Trouble> {
        let mut bytes = Vec::new();
        for request in requests {
            encode_command(request, &mut bytes);
        }
        self.stream.write_all(&bytes).map_err(|_| Trouble::Writing)?;
        drop(bytes);
        self.read_replies(requests.len())
    }

    fn read_replies(&mut self, count: usize) -> Result<Vec<Taken>, Trouble> {
        let mut decoder = Decoder::new(REPLY_LIMITS);
        let (mut replies, mut received) = (Vec::with_capacity(count), Vec::new());
        let mut chunk = [0; 4096];
        while replies.len() < count {
            let (consumed, reply) = decoder.decode(&received).map_err(|_| Trouble::Reading)?;
            received.drain(..consumed);
            match reply {
                Some(Value::Error(text)) => replies.push(Err(text.to_vec())),
                Some(_) => replies.push(Ok(())),
                None => match self.stream.read(&mut chunk) {
                    Ok(0) => return Err(Trouble::Reading),
                    Ok(len) => received.extend_from_slice(&chunk[..len]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return Err(Trouble::Reading),
                },
            }
        }
        // Bytes beyond the expected replies would be taken for later ones.
        if received.is_empty() { Ok(replies) } else { Err(Trouble::Reading) }
    }

    /// Whether the other end is still there, and has said nothing on its own.
    fn is_alive(&self) -> bool {
        let silent = self.stream.set_nonblocking(true).is_ok()
            && matches!(self.stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
        silent && self.stream.set_nonblocking(false).is_ok()
    }

    /// Makes the connection one of this migration.
    fn prepare(&mut self, migration: &Migration) -> Result<(), Trouble> {
        let timeout = Some(migration.timeout);
        let set = self.stream.set_read_timeout(timeout);
        set.and_then(|()| self.stream.set_write_timeout(timeout))
            .map_err(|_| Trouble::Connecting)?;
        if let Some(credentials) = &migration.credentials {
            let mut request = vec![&b"AUTH"[..]];
            request.extend(credentials.0.iter().map(|part| &part[..]));
            if let Some(Err(text)) = self.call(&[&request])?.pop() {
                return Err(Trouble::Refused(text));
            }
        }
        if self.db != migration.db {
            let db = migration.db.to_string();
            if let Some(Err(text)) = self.call(&[&[b"SELECT", db.as_bytes()]])?.pop() {
                return Err(Trouble::Refused(text));
            }
            self.db = migration.db;
        }
        Ok(())
    }
}

/// Connections that are kept.
pub struct Targets {
    kept: HashMap<(String, u16), Target>,
    /// Number of connections, for `INFO`.
    count: Arc<AtomicUsize>,
}

impl Targets {
    /// None yet.
    pub fn new(count: Arc<AtomicUsize>) -> Self {
        Targets { kept: HashMap::new(), count }
    }

    /// A connection to the target of a migration, authenticated and in the right database.
    pub fn connect(&mut self, migration: &Migration) -> Result<Target, Trouble> {
        let name = (migration.host.clone(), migration.port);
        let kept = self.kept.remove(&name).filter(Target::is_alive);
        self.publish();
        let mut target = match kept {
            Some(target) => target,
            None => {
                let stream = connect(&migration.host, migration.port, migration.timeout)?;
                Target { name, stream, db: 0, used: Instant::now() }
            }
        };
        target.prepare(migration)?;
        Ok(target)
    }

    /// Keeps a connection for the next migration.
    pub fn keep(&mut self, mut target: Target) {
        if self.kept.len() < KEPT_MAX {
            target.used = Instant::now();
            self.kept.insert(target.name.clone(), target);
        }
        self.publish();
    }

    /// Closes connections that were unused for too long.
    pub fn drop_idle(&mut self) {
        self.kept.retain(|_, target| target.used.elapsed() < KEPT);
        self.publish();
    }

    /// Time until the next check; `None` if no connection is kept.
    pub fn next_look(&self) -> Option<Duration> {
        (!self.kept.is_empty()).then_some(LOOK_EVERY)
    }

    fn publish(&self) {
        self.count.store(self.kept.len(), Relaxed);
    }
}

/// Tries each address that the name has.
fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStream, Trouble> {
    let addresses = (host, port).to_socket_addrs().map_err(|_| Trouble::Connecting)?;
    let mut trouble = Trouble::Connecting;
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                // Commands are written whole, so small ones need not wait.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => trouble = trouble_of(&error),
        }
    }
    Err(trouble)
}

/// Redis finds out only when it writes that there is no listener.
fn trouble_of(error: &io::Error) -> Trouble {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Trouble::Connecting,
        _ => Trouble::Writing,
    }
}
