//! [`blocking::Client`](Client): the same commands for plain threads, without a runtime.
//!
//! ```text
//! thread ─ submit ─▶ Queue ─ no other writes: this thread sends for all that have submitted
//!                          ─ no other reads: this thread reads for all until its reply is there,
//!                            then hands reading over to a thread that still waits
//! ```
//!
//! A lone thread writes and reads by itself; there is no thread behind the client.

mod dedicated;
mod link;
#[cfg(feature = "tls")]
mod tls;
mod yielding;

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use petrel_resp::Value;

use crate::buffer::CommandBuffer;
use crate::error::{Error, ErrorKind, Result};
use crate::lane::{Failure, Outcome, Queue, Ticket};
use crate::options::Options;
use crate::pipeline::{Pipeline, Replies};
use crate::reply::FromReply;
use crate::request::{Command, Request, Target};
use crate::telemetry::Telemetry;
pub use dedicated::Dedicated;
use link::Link;
use yielding::Yielding;

/// A client of one server for plain threads. Cheap to clone; all clones share one connection:
/// commands of concurrent threads are sent together.
///
/// Like [`crate::Client`] it reconnects and repeats commands that only read. It supports TCP, TLS
/// and Unix sockets.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    /// Whether a lost connection is replaced.
    reconnects: bool,
    telemetry: Telemetry,
    state: Mutex<State>,
    /// Notified when a connection was made or could not be made, and when bytes in flight become
    /// fewer.
    changed: Condvar,
}

struct State {
    queue: Queue,
    link: Option<Arc<Link>>,
    is_connecting: bool,
    is_writing: bool,
    is_reading: bool,
    failures: u32,
    last_error: Option<String>,
    /// Empty, with the room of the batch that was sent last.
    spare: Vec<u8>,
    yielding: Yielding,
}

impl State {
    /// Whether this connection is the one in use. If it is not, others may be reading and writing.
    fn is_of(&self, link: &Arc<Link>) -> bool {
        self.link.as_ref().is_some_and(|current| Arc::ptr_eq(current, link))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Target for &Client {}

impl<C, R: FromReply> Request<&Client, C, R> {
    /// Sends the command and waits for its reply.
    pub fn run(self) -> Result<R> {
        self.target.shared.reply_to(self.command, |shared, command| {
            command.check_shared()?;
            let retries = if command.may_retry { shared.options.retries } else { 0 };
            let deadline = Deadline::after(command.timeout.or(shared.options.timeout));
            shared.call(command, deadline, retries)
        })
    }
}

impl Client {
    /// Connects by a URL; see [`Options::from_url`].
    pub fn connect(url: &str) -> Result<Self> {
        Self::with_options(Options::from_url(url)?)
    }

    /// Connects by options.
    pub fn with_options(options: Options) -> Result<Self> {
        Ok(Self { shared: Arc::new(Shared::open(options, true)?) })
    }

    /// Sends a pipeline and waits for its replies; errors of single commands are among them. If
    /// all of its commands only read, it is sent again when the connection is lost.
    pub fn run(&self, pipeline: Pipeline) -> Result<Replies> {
        self.shared.run_pipeline(pipeline, self.shared.options.retries)
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }
}

/// Commands in flight up to which each is written by itself, at once.
const IN_FLIGHT_WRITTEN_AT_ONCE: usize = 2;

/// Wakes a thread that waits for its reply.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Replies of a read, and the threads to wake.
#[derive(Default)]
struct Lists {
    replies: Vec<Value>,
    wakers: Vec<Waker>,
}

thread_local! {
    /// Empty, with the room that reads of this thread have needed.
    static LISTS: Cell<Lists> = const { Cell::new(Lists { replies: Vec::new(), wakers: Vec::new() }) };
    static WAKER: Waker = Waker::from(Arc::new(Parked(std::thread::current())));
}

/// Deadline of a call.
#[derive(Clone, Copy)]
struct Deadline {
    at: Option<Instant>,
    limit: Duration,
}

impl Deadline {
    fn after(limit: Option<Duration>) -> Self {
        let at = limit.and_then(|limit| Instant::now().checked_add(limit));
        Self { at, limit: limit.unwrap_or_default() }
    }

    /// Remaining time, or an error; `None` if there is no limit.
    fn left(&self, unconnected: Option<&str>) -> Result<Option<Duration>> {
        let Some(at) = self.at else { return Ok(None) };
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let unconnected = unconnected.map(ToOwned::to_owned);
            return Err(Error::new(ErrorKind::TimedOut { after: self.limit, unconnected }));
        }
        Ok(Some(left))
    }
}

impl Shared {
    /// With a connection.
    fn open(options: Options, reconnects: bool) -> Result<Self> {
        let telemetry = Telemetry::of(&options);
        let link = Arc::new(Link::open(&options, &telemetry)?);
        let state = State {
            queue: Queue::new(),
            link: Some(link),
            is_connecting: false,
            is_writing: false,
            is_reading: false,
            failures: 0,
            last_error: None,
            spare: Vec::new(),
            yielding: Yielding::default(),
        };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Ok(Shared { options, reconnects, telemetry, state, changed })
    }

    /// Has a command called, and turns its reply into a type.
    fn reply_to<R: FromReply>(
        &self,
        mut command: Command,
        call: impl FnOnce(&Self, Command) -> Result<Value>,
    ) -> Result<R> {
        command.resolve();
        let name = command.name();
        let mut operation = self.telemetry.begin(&command);
        let result = call(self, command).and_then(R::from_reply);
        let result = result.map_err(|error| error.of_command(&name));
        operation.end(result.as_ref().err());
        result
    }

    /// Sends a pipeline; repeats it up to `retries` times after a lost connection, if that is
    /// allowed.
    fn run_pipeline(&self, mut pipeline: Pipeline, retries: u32) -> Result<Replies> {
        pipeline.check()?;
        if pipeline.is_empty() {
            return Ok(Replies::default());
        }
        let mut operation = self.telemetry.begin_batch(&pipeline.commands, pipeline.is_transaction);
        let sending = pipeline.sending();
        let retries = if sending.may_retry { retries } else { 0 };
        let deadline = Deadline::after(sending.limit.or(self.options.timeout));
        let outcome = self.run(&sending.buffers, deadline, retries);
        let replies = sending.replies(outcome);
        operation.end(replies.as_ref().err());
        replies
    }

    fn call(&self, command: Command, deadline: Deadline, retries: u32) -> Result<Value> {
        match self.run(&[command.buffer], deadline, retries)? {
            Outcome::One(value) => Ok(value),
            _ => Err(Error::new(ErrorKind::Closed)),
        }
    }

    /// Sends commands, again after a lost connection if that is allowed; never returns a failure.
    fn run(
        &self,
        buffers: &[CommandBuffer],
        deadline: Deadline,
        mut retries: u32,
    ) -> Result<Outcome> {
        loop {
            match self.exchange(buffers, deadline)? {
                // Nothing of it was sent, so it is not sent twice.
                Outcome::Failed(Failure::NotSent) => {}
                Outcome::Failed(_) if retries > 0 => retries -= 1,
                Outcome::Failed(_) => {
                    let reason = self.state.lock().last_error.clone().unwrap_or_default();
                    let kind = ErrorKind::Disconnected { maybe_executed: true, reason };
                    return Err(Error::new(kind));
                }
                outcome => return Ok(outcome),
            }
        }
    }

    /// Submits commands, and sends and reads for others, too, until their outcome is there.
    fn exchange(&self, buffers: &[CommandBuffer], deadline: Deadline) -> Result<Outcome> {
        let (ticket, link) = self.submit(buffers, deadline)?;
        self.flush(&link);
        let waker = WAKER.with(Waker::clone);
        loop {
            let mut state = self.state.lock();
            if let Some(outcome) = state.queue.poll(&ticket, &waker) {
                return Ok(outcome);
            }
            let left = match deadline.left(None) {
                Ok(left) => left,
                Err(error) => {
                    state.queue.abandon(&ticket);
                    return Err(error);
                }
            };
            if state.is_reading || !state.is_of(&link) {
                drop(state);
                match left {
                    Some(left) => std::thread::park_timeout(left),
                    None => std::thread::park(),
                }
                continue;
            }
            state.is_reading = true;
            drop(state);
            self.read(&link, &ticket, deadline);
        }
    }

    /// Takes a place in the queue, once there is a connection and few enough bytes are in flight.
    fn submit(&self, buffers: &[CommandBuffer], deadline: Deadline) -> Result<(Ticket, Arc<Link>)> {
        let mut state = self.state.lock();
        loop {
            let link = match &state.link {
                Some(link) if state.queue.held_bytes() < self.options.bytes_in_flight_max => {
                    link.clone()
                }
                Some(_) => {
                    // Threads that receive replies make room.
                    let left = deadline.left(None)?.unwrap_or(Duration::from_secs(1));
                    self.changed.wait_for(&mut state, left);
                    continue;
                }
                None if !self.reconnects => {
                    let reason = state.last_error.clone().unwrap_or_default();
                    let kind = ErrorKind::Disconnected { maybe_executed: false, reason };
                    return Err(Error::new(kind));
                }
                None => {
                    let left = deadline.left(state.last_error.as_deref())?;
                    if state.is_connecting {
                        let left = left.unwrap_or(Duration::from_secs(1));
                        self.changed.wait_for(&mut state, left);
                    } else {
                        state.is_connecting = true;
                        let failures = state.failures;
                        drop(state);
                        self.reconnect(failures, left);
                        state = self.state.lock();
                    }
                    continue;
                }
            };
            let ticket = state.queue.submit(buffers.iter(), None);
            return Ok((ticket, link));
        }
    }

    /// Makes one attempt to connect, after a pause that grows with failures.
    fn reconnect(&self, failures: u32, left: Option<Duration>) {
        if failures > 0 {
            let pause = self.options.backoff.delay(failures);
            std::thread::sleep(left.map_or(pause, |left| pause.min(left)));
        }
        let attempt = Link::open(&self.options, &self.telemetry);
        let mut state = self.state.lock();
        state.is_connecting = false;
        match attempt {
            Ok(link) => {
                state.queue.prepare_connection();
                (state.link, state.failures) = (Some(Arc::new(link)), 0);
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                state.last_error = Some(error.to_string());
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Sends the submitted commands of all threads, unless another thread is doing so. If commands
    /// are in flight, threads with new replies run first: their next commands join the same write.
    fn flush(&self, link: &Arc<Link>) {
        let mut state = self.state.lock();
        if !state.is_of(link) || state.is_writing || !state.queue.has_output() {
            return;
        }
        state.is_writing = true;
        if state.queue.in_flight() > IN_FLIGHT_WRITTEN_AT_ONCE && state.yielding.is_offered() {
            drop(state);
            let start = Instant::now();
            std::thread::yield_now();
            let away = start.elapsed();
            state = self.state.lock();
            state.yielding.took(away);
        }
        let mut bytes = std::mem::take(&mut state.spare);
        while state.is_of(link) && state.queue.has_output() {
            bytes.clear();
            state.queue.take_output(&mut bytes);
            // All of it may have arrived if the connection is lost in the middle.
            state.queue.note_sent(bytes.len());
            drop(state);
            let result = link.write(&bytes, || self.read_if_none_does(link));
            state = self.state.lock();
            if let Err(error) = result {
                return self.lose(link, state, &error.to_string());
            }
        }
        // Of another connection a thread of its own may be writing.
        if state.is_of(link) {
            state.is_writing = false;
            bytes.clear();
            state.spare = bytes;
        }
    }

    /// While a server does not take commands: it may wait for its replies to be read.
    fn read_if_none_does(&self, link: &Arc<Link>) {
        let mut state = self.state.lock();
        if state.is_reading || !state.is_of(link) {
            return;
        }
        state.is_reading = true;
        drop(state);
        let mut lists = Lists::default();
        let received = link.read(&mut lists.replies);
        self.deliver(link, received, &mut lists, |_| true);
    }

    /// Reads for all, as the one thread that reads, until this thread's reply is there, its
    /// deadline passes, or the connection is lost; then another thread reads.
    fn read(&self, link: &Arc<Link>, ticket: &Ticket, deadline: Deadline) {
        let mut lists = LISTS.take();
        let is_over = |queue: &Queue| queue.is_done(ticket) || deadline.left(None).is_err();
        loop {
            let received = link.read(&mut lists.replies);
            if self.deliver(link, received, &mut lists, is_over) {
                break;
            }
        }
        LISTS.set(lists);
    }

    /// Hands replies out. Returns true if this thread reads no more: `is_over` says so, or the
    /// connection is lost. A thread that waits for its reply is woken then, to read for all.
    fn deliver(
        &self,
        link: &Arc<Link>,
        received: io::Result<()>,
        lists: &mut Lists,
        is_over: impl FnOnce(&Queue) -> bool,
    ) -> bool {
        let Lists { replies, wakers } = lists;
        let mut state = self.state.lock();
        let failure = match received {
            Ok(()) => match state.queue.complete(replies, wakers) {
                true => None,
                false => Some("a reply to no request".to_owned()),
            },
            Err(error) => {
                replies.clear();
                Some(error.to_string())
            }
        };
        let hands_over = is_over(&state.queue);
        if hands_over {
            state.is_reading &= !state.is_of(link);
            // The first to be woken, so that replies are read while the others go on.
            if let Some(next) = state.queue.waiting() {
                wakers.insert(0, next);
            }
        }
        let is_lost = failure.is_some();
        match failure {
            Some(reason) => self.lose(link, state, &reason),
            None => drop(state),
        }
        self.changed.notify_all();
        wakers.drain(..).for_each(Waker::wake);
        hands_over || is_lost
    }

    /// Gives up a connection; its requests fail.
    fn lose(&self, link: &Arc<Link>, mut state: parking_lot::MutexGuard<'_, State>, reason: &str) {
        let mut wakers = Vec::new();
        if state.is_of(link) {
            link.shut_down();
            state.link = None;
            (state.is_reading, state.is_writing) = (false, false);
            state.last_error = Some(reason.to_owned());
            state.queue.disconnect(&mut Vec::new(), false, &mut wakers);
        }
        drop(state);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}
