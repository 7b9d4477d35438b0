//! The task that drives a connection: connects, reads, sends for many callers, connects again.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use petrel_resp::{Decoder, Protocol, Value};
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{Connection, Flushed, Lane, handshake};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use crate::request::Command;
use crate::telemetry::Connected;
use crate::transport::{Connector, Moved, Reader, Writer};

/// Bytes read at once; a longer reply grows the buffer for as long as it is read.
const READ_LEN: usize = 64 * 1024;

/// Reads in one turn of the driver; then others have theirs.
const READS_MAX: usize = 8;

/// Takes the pushes of a connection, in the order of the replies around them.
pub(crate) trait PushSink: Send + Sync {
    /// Receives a push: its kind, then its other items.
    fn push(&self, items: Vec<Value>);
    /// A reply, if the sink takes them.
    fn reply(&self, _reply: Value) {}
    /// Whether replies, too, are the sink's; the lane then has no requests.
    fn takes_replies(&self) -> bool {
        false
    }
    /// Whether nothing more should be read for now; when that ends the driver is to be woken.
    fn is_full(&self) -> bool {
        false
    }
    /// Commands to send, and have answered, before a connection is used. If one fails, so does the
    /// connection.
    fn opening(&self, _protocol: Protocol) -> Result<Vec<Command>> {
        Ok(Vec::new())
    }
    /// Called when a connection was made; returns commands to send, if the sink takes replies.
    fn connected(&self, _protocol: Protocol) -> Vec<Command> {
        Vec::new()
    }
    /// Called when the connection, and the server's state of it, is lost.
    fn disconnected(&self) {}
    /// Called when there will be no connection any more.
    fn closed(&self) {}
}

/// Starts the driver of a lane; `ready` is answered after the first attempt to connect.
pub(crate) fn spawn(
    lane: Arc<Lane>,
    options: Arc<Options>,
    connector: Connector,
    reconnect: bool,
    pushes: Option<Arc<dyn PushSink>>,
    ready: oneshot::Sender<Result<()>>,
) {
    let mut clock = interval(lane.tick);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let driver = Driver { lane, options, connector, reconnect, pushes, clock, wakers: Vec::new() };
    tokio::spawn(driver.run(ready));
}

struct Driver {
    lane: Arc<Lane>,
    options: Arc<Options>,
    connector: Connector,
    reconnect: bool,
    pushes: Option<Arc<dyn PushSink>>,
    clock: Interval,
    /// Callers to be woken, gathered while the lock is held.
    wakers: Vec<Waker>,
}

impl Drop for Driver {
    /// Also when the runtime is shut down.
    fn drop(&mut self) {
        self.close(None);
    }
}

impl Driver {
    async fn run(mut self, ready: oneshot::Sender<Result<()>>) {
        let mut ready = Some(ready);
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let attempt = self.connect().await;
            let Some(attempt) = attempt else { return };
            match attempt {
                Err(error) if ready.is_some() || !self.reconnect => {
                    self.close(Some(error.clone()));
                    ready.take().map(|ready| ready.send(Err(error)));
                    return;
                }
                Err(error) => {
                    failures += 1;
                    self.lane.state.lock().connection = Connection::Down(Some(error.to_string()));
                }
                Ok(mut io) => {
                    failures = 0;
                    self.begin(&io);
                    let counted = self.lane.telemetry.connected(began);
                    ready.take().map(|ready| ready.send(Ok(())));
                    let Some(reason) = self.serve(&mut io, counted).await else {
                        return self.close(None);
                    };
                    self.lose(reason);
                    if !self.reconnect {
                        return self.close(None);
                    }
                    // The first attempt is made after a jittered moment, too: the server may have
                    // closed many connections at once.
                    failures += 1;
                }
            }
            let delay = self.options.backoff.delay(failures);
            if self.with_clock(tokio::time::sleep(delay)).await.is_none() {
                return;
            }
        }
    }

    /// Makes one attempt to connect; `None` if the lane was closed meanwhile.
    async fn connect(&mut self) -> Option<Result<Io>> {
        let (connector, options) = (self.connector.clone(), self.options.clone());
        let pushes = self.pushes.clone();
        let attempt = async move {
            let connect = async {
                let (mut reader, mut writer, terms) =
                    connector.connect(&options).await.map_err(connect_error)?;
                let protocol = handshake::introduce(
                    &options,
                    &mut (&mut reader, &mut writer),
                    terms.role,
                    pushes.as_deref(),
                )
                .await?;
                let io = Io::new(reader, writer, protocol, &options);
                Ok(Io { moved: terms.moved, ..io })
            };
            match tokio::time::timeout(options.connect_timeout, connect).await {
                Ok(result) => result,
                Err(_) => Err(connect_error(format_args!(
                    "not done within {} ms",
                    options.connect_timeout.as_millis()
                ))),
            }
        };
        self.with_clock(attempt).await
    }

    /// Runs a future while the clock goes on; `None` if the lane is closed.
    async fn with_clock<F: Future>(&mut self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if self.is_closing(cx) {
                self.close(None);
                return Poll::Ready(None);
            }
            self.poll_clock(cx);
            future.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Whether all handles are dropped; otherwise registers the waker.
    fn is_closing(&self, cx: &Context<'_>) -> bool {
        let mut state = self.lane.state.lock();
        match &mut state.driver {
            Some(waker) => waker.clone_from(cx.waker()),
            None => state.driver = Some(cx.waker().clone()),
        }
        state.closing
    }

    fn poll_clock(&mut self, cx: &mut Context<'_>) {
        while self.clock.poll_tick(cx).is_ready() {
            let mut state = self.lane.state.lock();
            let goes_on = state.queue.tick(&mut self.wakers);
            drop(state);
            self.wake_all();
            let mut state = self.lane.state.lock();
            state.ticking = goes_on || !matches!(state.connection, Connection::Up);
        }
    }

    fn wake_all(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }

    /// Lets callers use a connection that has been made.
    fn begin(&self, io: &Io) {
        let first = self.pushes.as_ref().map(|pushes| pushes.connected(io.protocol));
        let mut state = self.lane.state.lock();
        state.queue.prepare_connection();
        for command in first.unwrap_or_default() {
            state.queue.append_unanswered(&command.buffer);
        }
        state.connection = Connection::Up;
        state.direct = io.writer.direct();
    }

    /// Gives up a connection.
    fn lose(&mut self, reason: String) {
        if let Some(pushes) = &self.pushes {
            pushes.disconnected();
        }
        loop {
            let mut state = self.lane.state.lock();
            state.direct = None;
            if state.writing {
                // A caller is in the middle of a write that does not wait.
                drop(state);
                std::thread::yield_now();
                continue;
            }
            let sent = std::mem::take(&mut state.unsent_at);
            let mut unsent = std::mem::take(&mut state.unsent);
            unsent.drain(..sent);
            state.driver_awake = true;
            state.ticking = true;
            state.connection = match self.reconnect {
                true => Connection::Down(Some(reason)),
                false => Connection::Closed(Some(Error::new(ErrorKind::Disconnected {
                    maybe_executed: false,
                    reason,
                }))),
            };
            state.queue.disconnect(&mut unsent, self.reconnect, &mut self.wakers);
            self.lane.release_space(&mut state);
            break;
        }
        self.wake_all();
    }

    /// Ends the lane for good.
    fn close(&mut self, error: Option<Error>) {
        let mut state = self.lane.state.lock();
        if !matches!(state.connection, Connection::Closed(_)) {
            state.connection = Connection::Closed(error);
        }
        state.direct = None;
        state.queue.close(&mut self.wakers);
        state.waiting_for_space = false;
        drop(state);
        self.lane.space.notify_waiters();
        self.wake_all();
        if let Some(pushes) = &self.pushes {
            pushes.closed();
        }
    }

    /// Serves callers until the connection ends, for a reason, or until all handles are gone.
    async fn serve(&mut self, io: &mut Io, _counted: Connected) -> Option<String> {
        // The output of callers that came before the connection goes out first.
        let mut gathered = true;
        poll_fn(|cx| {
            if self.is_closing(cx) {
                return Poll::Ready(None);
            }
            if io.moved.as_mut().is_some_and(|moved| moved.as_mut().poll(cx).is_ready()) {
                return Poll::Ready(Some("the server that was asked for is another one".into()));
            }
            match self.turn(io, &mut gathered, cx) {
                Ok(()) => Poll::Pending,
                Err(reason) => Poll::Ready(Some(reason)),
            }
        })
        .await
    }

    /// Reads, wakes callers, and writes. `gathered` says whether callers had their turn since.
    fn turn(
        &mut self,
        io: &mut Io,
        gathered: &mut bool,
        cx: &mut Context<'_>,
    ) -> std::result::Result<(), String> {
        if self.lane.state.lock().ticking {
            self.poll_clock(cx);
        }
        let mut may_write = std::mem::take(gathered);
        for _ in 0..READS_MAX {
            if may_write {
                self.write(io, cx).map_err(|error| error.to_string())?;
            }
            may_write = false;
            if self.pushes.as_ref().is_some_and(|pushes| pushes.is_full()) {
                self.park(io, gathered, cx);
                return Ok(());
            }
            match io.fill(cx) {
                Poll::Pending => {
                    self.park(io, gathered, cx);
                    return Ok(());
                }
                Poll::Ready(Ok(0)) => return Err("closed by the server".into()),
                Poll::Ready(Err(error)) => return Err(error.to_string()),
                Poll::Ready(Ok(_)) => {}
            }
            self.deliver(io)?;
        }
        *gathered = true;
        self.lane.state.lock().driver_awake = true;
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Nothing is left to read: waits for more, or lets callers run before their output is sent.
    fn park(&mut self, io: &mut Io, gathered: &mut bool, cx: &mut Context<'_>) {
        let mut state = self.lane.state.lock();
        let is_blocked = !state.unsent.is_empty() && !state.writing;
        let callers_run = std::mem::take(&mut io.has_woken);
        if callers_run || (state.queue.has_output() && !is_blocked && !state.writing) {
            state.driver_awake = true;
            *gathered = true;
            drop(state);
            cx.waker().wake_by_ref();
        } else {
            // While the socket takes nothing, its readiness is what wakes the driver.
            state.driver_awake = is_blocked;
            *gathered = is_blocked;
        }
    }

    /// Takes the replies read and wakes their callers.
    fn deliver(&mut self, io: &mut Io) -> std::result::Result<(), String> {
        io.decode(self.pushes.as_deref())?;
        if io.replies.is_empty() {
            return Ok(());
        }
        let mut state = self.lane.state.lock();
        // Set before callers are woken, so that they do not wake the driver in turn.
        let is_batch = state.queue.in_flight() > 1;
        state.driver_awake |= is_batch;
        io.has_woken |= is_batch;
        let is_sound = state.queue.complete(&mut io.replies, &mut self.wakers);
        self.lane.release_space(&mut state);
        drop(state);
        self.wake_all();
        if is_sound { Ok(()) } else { Err("a reply to no request".into()) }
    }

    fn write(&mut self, io: &mut Io, cx: &mut Context<'_>) -> io::Result<()> {
        let mut failure = None;
        loop {
            let state = self.lane.state.lock();
            let (state, flushed) =
                self.lane.write_once(state, |bytes| match io.writer.poll_write(cx, bytes) {
                    Poll::Ready(Ok(written)) => Poll::Ready(written),
                    Poll::Ready(Err(error)) => {
                        failure = Some(error);
                        Poll::Pending
                    }
                    Poll::Pending => Poll::Pending,
                });
            drop(state);
            if let Some(error) = failure {
                return Err(error);
            }
            if flushed != Flushed::More {
                break;
            }
        }
        match io.writer.poll_flush(cx) {
            Poll::Ready(result) => result,
            Poll::Pending => Ok(()),
        }
    }
}

fn connect_error(reason: impl ToString) -> Error {
    Error::new(ErrorKind::Connect(reason.to_string()))
}

/// Both halves of a connection, and the bytes read.
struct Io {
    reader: Reader,
    writer: Writer,
    protocol: Protocol,
    /// Resolves when the connection is to be closed.
    moved: Option<Moved>,
    decoder: Decoder,
    /// Read and not decoded: `room[begin..end]`.
    room: Vec<u8>,
    begin: usize,
    end: usize,
    replies: Vec<Value>,
    /// Whether callers were woken that may submit more.
    has_woken: bool,
}

impl Io {
    fn new(reader: Reader, writer: Writer, protocol: Protocol, options: &Options) -> Self {
        let decoder = Decoder::new(handshake::limits(options));
        Self {
            reader,
            writer,
            protocol,
            moved: None,
            decoder,
            room: vec![0; READ_LEN],
            begin: 0,
            end: 0,
            replies: Vec::new(),
            has_woken: false,
        }
    }

    /// Reads once; 0 at the end of the stream.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
            if self.room.len() > READ_LEN {
                self.room = vec![0; READ_LEN];
            }
        } else if self.end == self.room.len() {
            if self.begin > 0 {
                self.room.copy_within(self.begin..self.end, 0);
                (self.begin, self.end) = (0, self.end - self.begin);
            } else {
                // Grows by half, so that memory follows the received part of a long string.
                self.room.resize(self.room.len() + self.room.len() / 2, 0);
            }
        }
        let read = self.reader.poll_read(cx, &mut self.room[self.end..]);
        if let Poll::Ready(Ok(count)) = read {
            self.end += count;
        }
        read
    }

    /// Decodes the bytes read, and hands over pushes.
    fn decode(&mut self, pushes: Option<&dyn PushSink>) -> std::result::Result<(), String> {
        loop {
            let unread = &self.room[self.begin..self.end];
            let (consumed, value) =
                self.decoder.decode(unread).map_err(|error| error.to_string())?;
            self.begin += consumed;
            match value {
                None => return Ok(()),
                Some(Value::Push(items)) => {
                    if let Some(pushes) = pushes {
                        pushes.push(items);
                    }
                }
                Some(value) => {
                    let value = match value {
                        Value::Attribute { value, .. } => *value,
                        value => value,
                    };
                    match pushes.filter(|pushes| pushes.takes_replies()) {
                        Some(pushes) => pushes.reply(value),
                        None => self.replies.push(value),
                    }
                }
            }
        }
    }
}
