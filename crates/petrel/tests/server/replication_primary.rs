//! A primary controlled by a test, and other servers as primaries.

use crate::harness::*;
use petrel_resp::{DecodeLimits, Decoder, Value};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A history's name.
pub const ID: &str = "0123456789abcdef0123456789abcdef01234567";
/// Another.
pub const OTHER_ID: &str = "fedcba9876543210fedcba9876543210fedcba98";
/// End mark of a copy without a length.
pub const MARK: &str = "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm";

/// A primary in the hands of the test.
pub struct Primary {
    listener: TcpListener,
    pub port: u16,
}

impl Primary {
    pub fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        Primary { listener, port }
    }

    /// The next connection of a replica.
    pub fn accept(&self) -> Attached {
        self.listener.set_nonblocking(true).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(Instant::now() < deadline, "no replica comes");
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Attached { stream, received: Vec::new(), said: Vec::new() }
    }

    /// Accepts the next connection up to its `PSYNC`; returns its arguments.
    pub fn greet(&self) -> (Attached, String) {
        let mut replica = self.accept();
        let asked = replica.greet();
        (replica, asked)
    }
}

/// A replica's connection.
pub struct Attached {
    stream: TcpStream,
    received: Vec<u8>,
    /// Requests of the replica before its `PSYNC`.
    pub said: Vec<String>,
}

impl Attached {
    /// Answers every request up to `PSYNC`; returns its arguments.
    pub fn greet(&mut self) -> String {
        loop {
            let request = self.request();
            match request.strip_prefix("PSYNC ") {
                Some(asked) => return asked.to_owned(),
                None => self.send(if request == "PING" { b"+PONG\r\n" } else { b"+OK\r\n" }),
            }
            self.said.push(request);
        }
    }

    /// The next command, its words parted by blanks. Empty lines are signs of life.
    pub fn request(&mut self) -> String {
        let mut decoder = Decoder::new(DecodeLimits::default());
        loop {
            let signs = self.received.iter().take_while(|&&byte| byte == b'\n').count();
            self.received.drain(..signs);
            let (consumed, value) = decoder.decode(&self.received).unwrap();
            self.received.drain(..consumed);
            if let Some(Value::Array(words)) = value {
                return words.iter().map(show).collect::<Vec<_>>().join(" ");
            }
            let mut chunk = [0; 4096];
            let len = self.stream.read(&mut chunk).unwrap();
            assert!(len > 0, "the replica has closed the connection");
            self.received.extend_from_slice(&chunk[..len]);
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // A replica may have had enough.
        let _ = self.stream.write_all(bytes);
    }

    /// Sends the same bytes again and again, on a thread, until the replica has closed the
    /// connection.
    pub fn flood(mut self, bytes: Vec<u8>) {
        std::thread::spawn(move || while self.stream.write_all(&bytes).is_ok() {});
    }

    /// Sends a copy by its length.
    pub fn copy(&mut self, id: &str, offset: i64, rdb: &[u8]) {
        self.send(format!("+FULLRESYNC {id} {offset}\r\n\n${}\r\n", rdb.len()).as_bytes());
        self.send(rdb);
    }

    /// Sends a copy up to a mark.
    pub fn copy_to_mark(&mut self, id: &str, offset: i64, rdb: &[u8]) {
        self.send(format!("+FULLRESYNC {id} {offset}\r\n\n\n$EOF:{MARK}\r\n").as_bytes());
        self.send(rdb);
        self.send(MARK.as_bytes());
    }

    /// Sends commands, a line each; how many bytes they are.
    pub fn commands(&mut self, lines: &[&str]) -> i64 {
        let bytes = encoded(lines);
        self.send(&bytes);
        bytes.len() as i64
    }

    /// Waits until the replica acknowledges everything up to an offset, and not more.
    pub fn await_ack(&mut self, offset: i64) {
        loop {
            let request = self.request();
            let acked = request.strip_prefix("REPLCONF ACK ").expect(&request);
            let acked: i64 = acked.split(' ').next().unwrap().parse().unwrap();
            assert!(acked <= offset, "{acked} is beyond {offset}");
            if acked == offset {
                return;
            }
        }
    }
}

/// Commands as they are sent, a line each.
pub fn encoded(lines: &[&str]) -> Vec<u8> {
    let words = |line: &&str| encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    lines.iter().flat_map(words).collect()
}

/// The snapshot of a server that has executed these commands.
pub fn snapshot_of(lines: &[&str]) -> Vec<u8> {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    for line in lines {
        client.call(&line.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(client.text(&["SAVE"]), "OK");
    std::fs::read(server.scratch.path("dump.rdb")).unwrap()
}

/// Product and version of a program.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    pub is_valkey: bool,
    pub number: (u32, u32),
}

impl Release {
    /// As the program says.
    pub fn of(program: &PathBuf) -> Self {
        let output = Command::new(program).arg("--version").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split(" v=").nth(1).unwrap_or_default();
        let mut numbers = version.split(['.', ' ']).map(|number| number.parse().unwrap_or(0));
        let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        println!("{} is {}", program.display(), text.split(" sha").next().unwrap_or_default());
        Release { is_valkey: text.starts_with("Valkey"), number }
    }

    /// Dialect in which Petrel computes the same digests as the server.
    pub fn dialect(self) -> &'static str {
        if self.is_valkey { "valkey" } else { "redis" }
    }

    /// Whether it knows fields of hashes that expire.
    pub fn expires_fields(self) -> bool {
        self.number >= if self.is_valkey { (9, 0) } else { (7, 4) }
    }

    /// The newest version of RDB that it loads, as `rdb-version` has it.
    pub fn rdb_version(self) -> &'static str {
        match self.number {
            _ if self.expires_fields() => "auto",
            (0..7, _) => "9",
            (7, 0..2) => "10",
            _ => "11",
        }
    }
}

/// Another server; killed when dropped.
pub struct Peer {
    child: Child,
    pub port: u16,
    _scratch: Scratch,
}

impl Peer {
    /// The available servers: Petrel itself, those on the PATH, and the ones in
    /// `PETREL_TEST_PEERS`.
    pub fn programs() -> Vec<PathBuf> {
        let stated = std::env::var_os("PETREL_TEST_PEERS").unwrap_or_default();
        let stated = std::env::split_paths(&stated).filter(|path| !path.as_os_str().is_empty());
        let usual = ["redis-server", "valkey-server"].map(PathBuf::from);
        let own = PathBuf::from(env!("CARGO_BIN_EXE_petrel"));
        let runs = |path: &PathBuf| {
            let run = Command::new(path).arg("--version").stdout(Stdio::null()).status();
            run.is_ok_and(|status| status.success())
        };
        let others: Vec<_> = usual.into_iter().chain(stated).filter(runs).collect();
        if others.is_empty() {
            println!("skipped but for Petrel: no redis-server or valkey-server is installed");
        }
        [vec![own], others].concat()
    }

    /// Starts one that answers `DEBUG`.
    pub fn start_debugged(program: &PathBuf, args: &[&str]) -> Option<Self> {
        let debug = ["--enable-debug-command", "yes"];
        let debug = if Release::of(program).number >= (7, 0) { &debug[..] } else { &[] };
        Self::start(program, &[debug, args].concat())
    }

    /// Starts one; none if it does not take these arguments.
    pub fn start(program: &PathBuf, args: &[&str]) -> Option<Self> {
        let (scratch, port) = (Scratch::new(), free_port());
        let log = std::fs::File::create(scratch.path("stdout")).unwrap();
        let child = Command::new(program)
            .args(["--port", &port.to_string(), "--save", "", "--dir"])
            .arg(scratch.path("."))
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut peer = Peer { child, port, _scratch: scratch };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if peer.child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(Instant::now() < deadline, "{} does not start", program.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(peer)
    }

    pub fn connect(&self) -> Client {
        Client::tcp(self.port)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
