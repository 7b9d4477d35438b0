//! `floor`: a bare loop on the event-loop back-ends of the server, as the least that any server
//! with them can cost. It counts commands and answers `+OK`, or a value of one size to GET: always
//! the same, which stays in the cache, or from a random place of memory, as any store must.

mod counter;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use petrel_net::{
    Close, Driver, Epoll, Event, ListenerId, Options, Output, Slot, Uring, Waker, bind_tcp,
    bind_unix,
};

use crate::random::Random;
use counter::{Counter, FloorReply};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 4096;

/// Largest value answered to GET.
const REPLY_SIZE_MAX: u32 = 64 * 1024 * 1024;

/// Values from this size on are sent by reference, as the server sends them.
const SHARED_MIN: usize = 16 * 1024;

/// A back-end.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Backend {
    /// io_uring: multishot receive into provided buffers.
    Uring,
    /// epoll: one recv and one send per connection and turn.
    Epoll,
}

/// Run a bare loop server: it counts commands and answers +OK, and to GET a value of one size.
///
/// `matrix --servers floor-uring,floor-epoll` runs it beside the others. It ends on Ctrl-C.
#[derive(Clone, Debug, clap::Args)]
pub struct FloorArgs {
    /// Event-loop back-end
    #[arg(long, value_enum, default_value = "uring")]
    backend: Backend,

    /// Threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,

    /// Path of the Unix socket to listen on
    #[arg(long, value_name = "PATH")]
    unixsocket: Option<PathBuf>,

    /// TCP port on 127.0.0.1 to listen on
    #[arg(long)]
    port: Option<u16>,

    /// Size of the value answered to GET, bytes
    #[arg(long, default_value_t = 512, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(..=i64::from(REPLY_SIZE_MAX)))]
    reply_size: u32,

    /// Answer GET from a random place in this much memory, which no cache holds; 0: from one place
    #[arg(long, default_value_t = 0, value_name = "MB",
          value_parser = clap::value_parser!(u32).range(..=65_536))]
    memory: u32,

    /// io_uring: slots of each thread's own file table, to go past the limit on open files
    #[arg(long, value_name = "N")]
    direct_descriptors: Option<u32>,
}

/// Runs until the process is ended.
pub fn run(args: &FloorArgs) -> Result<(), String> {
    let mut listeners = Vec::new();
    if let Some(path) = &args.unixsocket {
        listeners.push(bind_unix(path, None, BACKLOG).map_err(|error| error.to_string())?);
    }
    if let Some(port) = args.port {
        listeners.push(bind_tcp("127.0.0.1", port, BACKLOG).map_err(|error| error.to_string())?);
    }
    if listeners.is_empty() {
        return Err("floor needs --unixsocket or --port".to_owned());
    }
    let done = match args.backend {
        Backend::Uring => serve::<Uring>(args, listeners),
        Backend::Epoll => serve::<Epoll>(args, listeners),
    };
    done.map_err(|error| format!("floor: {error}"))
}

/// Connections that the accepting thread has assigned to another.
#[derive(Debug, Default)]
struct Inbox(Mutex<Vec<OwnedFd>>);

impl Inbox {
    fn put(&self, socket: OwnedFd) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    }

    fn take(&self) -> Vec<OwnedFd> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The other threads, as the accepting one sees them.
type Others = Vec<(Arc<Inbox>, Waker)>;

/// Serves: the first thread accepts for all and assigns connections in turn.
fn serve<D: Driver>(args: &FloorArgs, listeners: Vec<OwnedFd>) -> io::Result<()> {
    let options = Options { direct_descriptors: args.direct_descriptors };
    let replies = Replies::new(args.reply_size as usize, args.memory as usize * 1_000_000);
    let (tell, hear) = mpsc::channel();
    for thread in 1..args.threads {
        let (tell, options) = (tell.clone(), options.clone());
        let random = Random::new(u64::from(thread) + 1);
        let replies = Replies { random, ..replies.clone() };
        thread::Builder::new().name("floor".to_owned()).spawn(move || {
            let inbox = Arc::new(Inbox::default());
            let made = D::new(&options);
            let report = made.as_ref().map(|driver| (Arc::clone(&inbox), driver.waker()));
            let report = report.map_err(|error| io::Error::new(error.kind(), error.to_string()));
            // The loop that hears ends when every sender is gone.
            let _ = tell.send(report);
            drop(tell);
            let Ok(driver) = made else { return };
            let worker = Worker { driver, replies, inbox, counters: Vec::new() };
            if let Err(error) = worker.run(&mut Others::new()) {
                eprintln!("floor: {error}");
                std::process::exit(1);
            }
        })?;
    }
    drop(tell);
    let mut others = hear.into_iter().collect::<io::Result<Others>>()?;
    let mut driver = D::new(&options)?;
    for (number, listener) in listeners.into_iter().enumerate() {
        driver.listen(Arc::new(listener), ListenerId(number as u32))?;
    }
    let worker = Worker { driver, replies, inbox: Arc::default(), counters: Vec::new() };
    worker.run(&mut others)
}

/// The answers, made once.
#[derive(Clone, Debug)]
struct Replies {
    /// Header of a value of `size` bytes.
    header: Bytes,
    size: usize,
    /// Memory from which values are sent.
    memory: Bytes,
    random: Random,
}

/// Values begin at multiples of a cache line.
const LINE: usize = 64;

impl Replies {
    /// Makes replies with values of `size` bytes, anywhere in `memory` bytes of resident memory.
    fn new(size: usize, memory: usize) -> Replies {
        let header = Bytes::from(format!("${size}\r\n"));
        let memory = Bytes::from(vec![b'x'; memory.max(size)]);
        Replies { header, size, memory, random: Random::new(1) }
    }

    #[inline]
    fn put(&mut self, kind: FloorReply, output: &mut Output) {
        match kind {
            FloorReply::Write => output.bytes.extend_from_slice(b"+OK\r\n"),
            FloorReply::Get => self.put_value(output),
            FloorReply::Ping => output.bytes.extend_from_slice(b"+PONG\r\n"),
        }
    }

    #[inline]
    fn put_value(&mut self, output: &mut Output) {
        let places = (self.memory.len() - self.size) / LINE + 1;
        let from = if places > 1 { self.random.below(places as u64) as usize * LINE } else { 0 };
        output.bytes.extend_from_slice(&self.header);
        match self.size < SHARED_MIN {
            true => output.bytes.extend_from_slice(&self.memory[from..from + self.size]),
            false => output.splice(self.memory.slice(from..from + self.size)),
        }
        output.bytes.extend_from_slice(b"\r\n");
    }
}

#[derive(Debug)]
struct Worker<D> {
    driver: D,
    replies: Replies,
    inbox: Arc<Inbox>,
    /// By slot index.
    counters: Vec<Counter>,
}

impl<D: Driver> Worker<D> {
    fn run(mut self, others: &mut Others) -> io::Result<()> {
        let mut events = Vec::new();
        let mut turn = 0;
        loop {
            self.driver.poll(None, &mut events)?;
            for event in events.drain(..) {
                match event {
                    Event::Received { slot, chunk } => {
                        let mut output = self.driver.output();
                        let counter = &mut self.counters[slot.index()];
                        let fed = counter.feed(self.driver.data(chunk), |kind| {
                            self.replies.put(kind, &mut output);
                        });
                        self.driver.send(slot, output);
                        if fed.is_err() {
                            self.driver.close(slot, Close::AfterFlush);
                        }
                    }
                    Event::Accepted { socket, .. } => {
                        turn = (turn + 1) % (others.len() + 1);
                        match others.get(turn) {
                            Some((inbox, waker)) => {
                                inbox.put(socket);
                                waker.wake();
                            }
                            None => self.adopt(socket),
                        }
                    }
                    Event::Woken => {
                        for socket in self.inbox.take() {
                            self.adopt(socket);
                        }
                    }
                    Event::AcceptFailed { error, .. } => eprintln!("floor: accept: {error}"),
                    _ => {}
                }
            }
        }
    }

    fn adopt(&mut self, socket: OwnedFd) {
        match self.driver.adopt(socket) {
            Ok(slot) => self.begin(slot),
            Err(error) => eprintln!("floor: {error}"),
        }
    }

    fn begin(&mut self, slot: Slot) {
        if self.counters.len() <= slot.index() {
            self.counters.resize(slot.index() + 1, Counter::default());
        }
        self.counters[slot.index()] = Counter::default();
    }
}
