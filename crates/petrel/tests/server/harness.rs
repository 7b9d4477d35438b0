//! Starts servers, talks to them, and cleans up behind them.

use petrel_resp::{DecodeLimits, Decoder, Value, encode_command};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Timeout of any wait in these tests, generous enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Makes each function that takes a back-end a test per back-end.
macro_rules! with_each_backend {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            #[test]
            fn epoll() {
                super::$name("epoll");
            }

            #[test]
            fn io_uring() {
                if crate::harness::has_io_uring() {
                    super::$name("io_uring");
                }
            }
        }
    )* };
}
pub(crate) use with_each_backend;

/// Whether this kernel lets the io_uring back-end run; says so if not.
pub fn has_io_uring() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let has = Server::try_start(Scratch::new(), "io_uring", &[]).is_ok();
        if !has {
            println!("skipped: io_uring is refused here");
        }
        has
    })
}

/// A directory that goes when the test ends.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("petrel-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
            let path = std::env::temp_dir().join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Scratch(path),
                // A test that was killed has left it, and its process number is used again.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tools that start Redis, and systemd, wait for this.
pub const READY: &str = "Ready to accept connections";

/// The command that starts a server in a directory.
pub fn petrel(scratch: &Scratch) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_petrel"));
    command.current_dir(&scratch.0).stdin(Stdio::null());
    command
}

/// Runs a server that is not expected to start. One that does is killed after five minutes.
pub fn run_to_end(scratch: &Scratch, args: &[&str]) -> Output {
    let mut command = petrel(scratch);
    let child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (id, (ended, running)) = (child.id(), mpsc::channel::<()>());
    std::thread::spawn(move || {
        if running.recv_timeout(Duration::from_secs(300)) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: sends a signal.
            unsafe { libc::kill(id as libc::pid_t, libc::SIGKILL) };
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    output
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    pub scratch: Scratch,
}

impl Server {
    /// Two threads, a Unix socket, no TCP unless the arguments say otherwise.
    pub fn start(backend: &str, args: &[&str]) -> Self {
        Self::start_in(Scratch::new(), backend, args)
    }

    pub fn start_in(scratch: Scratch, backend: &str, args: &[&str]) -> Self {
        Self::start_with(scratch, backend, args, &[])
    }

    /// Starts a server without waiting for its data; it may not report when they are loaded.
    pub fn start_unready(scratch: Scratch, backend: &str, args: &[&str]) -> Self {
        Self::try_start(scratch, backend, args).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server with additional environment variables.
    pub fn start_with(
        scratch: Scratch,
        backend: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = petrel(&scratch);
        command.envs(variables.iter().copied());
        Self::try_start_by(command, scratch, backend, args)
            .unwrap_or_else(|error| panic!("{error}"))
            .ready()
    }

    /// Starts the server under this program name.
    pub fn start_as(name: &str, backend: &str, args: &[&str]) -> Self {
        let scratch = Scratch::new();
        let mut command = petrel(&scratch);
        command.arg0(name);
        Self::try_start_by(command, scratch, backend, args)
            .unwrap_or_else(|error| panic!("{error}"))
            .ready()
    }

    /// Starts the server through another command.
    pub fn start_by(command: Command, scratch: Scratch, backend: &str, args: &[&str]) -> Self {
        Self::try_start_by(command, scratch, backend, args)
            .unwrap_or_else(|error| panic!("{error}"))
            .ready()
    }

    fn try_start(scratch: Scratch, backend: &str, args: &[&str]) -> Result<Self, String> {
        Self::try_start_by(petrel(&scratch), scratch, backend, args)
    }

    fn try_start_by(
        mut command: Command,
        scratch: Scratch,
        backend: &str,
        args: &[&str],
    ) -> Result<Self, String> {
        let log = std::fs::File::create(scratch.path("stdout")).unwrap();
        // Nothing is saved unless the arguments say so.
        let usual = "--port 0 --unixsocket s --threads 2 --save --io-backend".split(' ');
        let usual = usual.chain([backend]);
        let file = args.first().filter(|first| !first.starts_with("--"));
        let child = command
            .args(file)
            .args(usual)
            .args(&args[usize::from(file.is_some())..])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Server { child, scratch };
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(server.socket()).is_err() {
            if server.child.try_wait().unwrap().is_some() || Instant::now() > deadline {
                return Err(server.output());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Waits until the data are loaded: a server listens before, and ends if its files are changed
    /// while it reads them.
    fn ready(mut self) -> Self {
        let deadline = Instant::now() + PATIENCE;
        while !self.output().contains(READY) {
            let ended = self.child.try_wait().unwrap().is_some();
            assert!(!ended && Instant::now() < deadline, "not ready: {}", self.output());
            std::thread::sleep(Duration::from_millis(5));
        }
        self
    }

    /// The directory of a server that has ended, for the next one.
    pub fn into_scratch(mut self) -> Scratch {
        std::mem::replace(&mut self.scratch, Scratch::new())
    }

    pub fn socket(&self) -> PathBuf {
        self.scratch.path("s")
    }

    /// Contents of its standard streams.
    pub fn output(&self) -> String {
        std::fs::read_to_string(self.scratch.path("stdout")).unwrap_or_default()
    }

    pub fn connect(&self) -> Client {
        let stream = UnixStream::connect(self.socket());
        let stream =
            stream.unwrap_or_else(|error| panic!("{error}; it printed: {}", self.output()));
        Client::new(Stream::Unix(stream))
    }

    pub fn pid(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: a signal to a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    /// Limits the size of its files from now on.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let (pid, none) = (self.child.id() as libc::pid_t, std::ptr::null_mut());
        // SAFETY: a child that has not been waited for, and valid limits.
        unsafe {
            assert_eq!(libc::prlimit(pid, libc::RLIMIT_FSIZE, std::ptr::null(), &mut limit), 0);
            limit.rlim_cur = bytes.unwrap_or(limit.rlim_max);
            assert_eq!(libc::prlimit(pid, libc::RLIMIT_FSIZE, &limit, none), 0);
        }
    }

    /// Waits for the end; the exit code.
    pub fn exit_code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "the server does not end: {}", self.output());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the server, and starts it again with its files.
    pub fn killed_and_started(mut self, args: &[&str]) -> (Server, Client) {
        self.signal(libc::SIGKILL);
        self.exit_code();
        let _ = std::fs::remove_file(self.socket());
        let server = Server::start_in(self.into_scratch(), "epoll", args);
        let mut client = server.connect();
        eventually("the data", || client.text(&["PING"]) == "PONG");
        (server, client)
    }

    /// A field of `INFO`, as a number.
    pub fn info(&self, field: &str) -> i64 {
        let text = self.connect().text(&["INFO", "everything"]);
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{field} in {text}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection.
pub struct Client {
    stream: Stream,
    received: Vec<u8>,
}

impl Client {
    fn new(stream: Stream) -> Self {
        let patience = Some(PATIENCE);
        match &stream {
            Stream::Unix(unix) => {
                unix.set_read_timeout(patience).and_then(|()| unix.set_write_timeout(patience))
            }
            Stream::Tcp(tcp) => {
                tcp.set_read_timeout(patience).and_then(|()| tcp.set_write_timeout(patience))
            }
        }
        .unwrap();
        Client { stream, received: Vec::new() }
    }

    #[cfg(feature = "cluster")]
    pub fn unix(socket: &Path) -> std::io::Result<Self> {
        Ok(Self::new(Stream::Unix(UnixStream::connect(socket)?)))
    }

    pub fn tcp(port: u16) -> Self {
        Self::try_tcp(port).unwrap()
    }

    pub fn try_tcp(port: u16) -> std::io::Result<Self> {
        Ok(Self::new(Stream::Tcp(TcpStream::connect(("127.0.0.1", port))?)))
    }

    /// Sends bytes. Returns false if the connection is closed, and panics if the server does not
    /// read.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        let sent = match &mut self.stream {
            Stream::Unix(unix) => unix.write_all(bytes),
            Stream::Tcp(tcp) => tcp.write_all(bytes),
        };
        let is_late = sent.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(!is_late, "the server reads nothing");
        sent.is_ok()
    }

    /// Sets the maximum time for the next bytes to arrive.
    pub fn set_patience(&self, patience: Duration) {
        match &self.stream {
            Stream::Unix(unix) => unix.set_read_timeout(Some(patience)),
            Stream::Tcp(tcp) => tcp.set_read_timeout(Some(patience)),
        }
        .unwrap();
    }

    /// Says that nothing more will be sent, and goes on to read.
    pub fn end_sending(&self) {
        match &self.stream {
            Stream::Unix(unix) => unix.shutdown(Shutdown::Write),
            Stream::Tcp(tcp) => tcp.shutdown(Shutdown::Write),
        }
        .unwrap();
    }

    pub fn send(&mut self, args: &[&str]) {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        self.send_bytes(&encode(&args));
    }

    /// The next reply; none if the connection was closed.
    pub fn receive(&mut self) -> Option<Value> {
        let mut decoder = Decoder::new(DecodeLimits::default());
        loop {
            let (consumed, value) = decoder.decode(&self.received).unwrap();
            self.received.drain(..consumed);
            if value.is_some() {
                return value;
            }
            if !self.read_some() {
                return None;
            }
        }
    }

    fn read_some(&mut self) -> bool {
        let mut chunk = vec![0; 1 << 16];
        let count = match &mut self.stream {
            Stream::Unix(unix) => unix.read(&mut chunk),
            Stream::Tcp(tcp) => tcp.read(&mut chunk),
        };
        match count {
            Ok(0) => false,
            Ok(count) => {
                self.received.extend_from_slice(&chunk[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no reply: {error}"),
        }
    }

    /// Whether nothing arrives for a moment.
    pub fn is_silent(&mut self, moment: Duration) -> bool {
        let Stream::Unix(unix) = &self.stream else { panic!("for Unix sockets") };
        unix.set_read_timeout(Some(moment)).unwrap();
        let mut byte = [0; 1];
        let silent = (&*unix).read(&mut byte).is_err();
        unix.set_read_timeout(Some(PATIENCE)).unwrap();
        silent
    }

    /// The next reply, if it begins to arrive within a moment.
    pub fn receive_within(&mut self, moment: Duration) -> Option<Value> {
        let fd = match &self.stream {
            Stream::Unix(unix) => unix.as_raw_fd(),
            Stream::Tcp(tcp) => tcp.as_raw_fd(),
        };
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which is open.
        let ready = unsafe { libc::poll(&mut poll, 1, moment.as_millis() as libc::c_int) };
        if ready > 0 || !self.received.is_empty() { self.receive() } else { None }
    }

    pub fn call(&mut self, args: &[&str]) -> Value {
        self.send(args);
        self.receive().unwrap_or_else(|| panic!("closed instead of answering {args:?}"))
    }

    /// The text of a reply.
    pub fn text(&mut self, args: &[&str]) -> String {
        show(&self.call(args))
    }

    /// Closes the sending side.
    pub fn stop_sending(&self) {
        match &self.stream {
            Stream::Unix(unix) => unix.shutdown(Shutdown::Write),
            Stream::Tcp(tcp) => tcp.shutdown(Shutdown::Write),
        }
        .unwrap();
    }

    /// Everything up to the end of the connection.
    pub fn read_to_end(&mut self) -> String {
        while self.read_some() {}
        String::from_utf8_lossy(&std::mem::take(&mut self.received)).into_owned()
    }
}

impl Drop for Client {
    /// Ends the connection, which another test that is about to start a server may have inherited
    /// for a moment.
    fn drop(&mut self) {
        let _ = match &self.stream {
            Stream::Unix(unix) => unix.shutdown(Shutdown::Both),
            Stream::Tcp(tcp) => tcp.shutdown(Shutdown::Both),
        };
    }
}

/// A reply as text: strings as they are, aggregates in brackets.
pub fn show(value: &Value) -> String {
    match value {
        Value::Integer(n) => n.to_string(),
        Value::Null | Value::NullArray => "nil".into(),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(" "))
        }
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}:{}", show(key), show(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "))
        }
        other => match other.as_bytes() {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None => format!("{other:?}"),
        },
    }
}

pub fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(args, &mut bytes);
    bytes
}

/// Waits until something is so.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not so after a while: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A TCP port that is free at this moment.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
