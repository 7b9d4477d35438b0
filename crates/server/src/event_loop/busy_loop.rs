//! Serves a worker's connections while the worker runs a slow script, or a transaction with long
//! commands, so that they are answered meanwhile.
//!
//! ```text
//!  worker     a command runs a script ─ detaches its connections ─ executes ─ takes them back
//!                                                                     │ the script is slow
//!                                      often, from the interpreter's  ▼
//!                                      hook or a long command
//!  busy loop                   poll ─ read ─ answer: BUSY, or execute commands without keys
//! ```
//!
//! The same happens while another worker's script has the whole keyspace for long: then the worker
//! runs its busy loop until the keyspace is free.
//!
//! The busy loop is a worker with an executor of its own that never touches the keyspace, since the
//! script may have locked all of it. Work that needs keys, such as the end of a connection that
//! watches some, is left for the worker.

use crate::client::Client;
use crate::event_loop::batch::{Progress, Stop};
use crate::event_loop::connection::Conn;
use crate::event_loop::read::hold;
use crate::event_loop::worker::Worker;
use crate::host::{BusyLoop, ServerHost};
use crate::observation::traffic::Doing;
use crate::state::mailbox::Message;
use petrel_commands::Executor;
use petrel_net::{Chunk, Driver, Endpoint, Event, Output, Slot};
use petrel_resp::{Resume, argument};
use std::any::Any;
use std::mem::swap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Pause between two attempts to enter the keyspace.
const STAND_BY_PAUSE: Duration = Duration::from_millis(5);

/// Memory kept for the next script's input.
const SCRIPT_INPUT_KEPT_MAX: usize = 16 * 1024;

/// A field that is moved to the busy loop while the worker runs a script.
pub(crate) struct Loaned<T>(Option<Box<T>>);

impl<T> Loaned<T> {
    /// Wraps a value that has not been moved.
    pub fn new(value: T) -> Self {
        Loaned(Some(Box::new(value)))
    }
}

impl<T> Deref for Loaned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().expect("a worker with a running busy loop only runs its script")
    }
}

impl<T> DerefMut for Loaned<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect("a worker with a running busy loop only runs its script")
    }
}

/// Connection with a running script.
#[derive(Debug)]
pub(crate) struct Detached {
    slot: Slot,
    /// Input received meanwhile.
    input: Vec<u8>,
    /// The connection has ended meanwhile.
    has_ended: bool,
    /// Other events left for the worker.
    left: Vec<Event>,
}

impl Detached {
    fn new(slot: Slot) -> Self {
        Detached { slot, input: Vec::new(), has_ended: false, left: Vec::new() }
    }
}

impl<D: Driver> Worker<D> {
    /// Runs the script with which a connection's input continues, if the batch ended there.
    #[inline]
    pub(crate) fn run_scripts(
        &mut self,
        conn: &mut Conn,
        progress: Progress,
        output: &mut Output,
    ) -> Progress {
        match (progress.stop, conn.input.take()) {
            (Stop::Script, Some(input)) => {
                self.run_detached(conn, |worker, conn| worker.execute_owned(conn, *input, output))
            }
            (_, input) => {
                conn.input = input;
                progress
            }
        }
    }

    /// Begins a batch, and runs the busy loop as long as a slow script blocks this worker.
    pub(crate) fn begin(&mut self) {
        if !self.engine.exec.begin_unless_busy() {
            self.run_busy_loop();
        }
    }

    /// Runs the busy loop without a script of this worker: clients get `BUSY` until this worker may
    /// enter the keyspace.
    #[cold]
    fn run_busy_loop(&mut self) {
        let shared = self.engine.exec.shared.clone();
        let busy = shared.scripts.running.appear_busy();
        self.detach(Detached::new(Slot::NOWHERE));
        self.traffic().now_does(Doing::Outside);
        let mut is_stopping = false;
        while !is_stopping {
            self.engine.exec.end();
            if self.engine.exec.begin_unless_busy() {
                break;
            }
            if let Some(busy_loop) = &mut *self.engine.host.busy_loop.borrow_mut() {
                is_stopping = busy_loop.poll_once(STAND_BY_PAUSE);
            }
        }
        let detached = self.reattach();
        self.traffic().now_does(Doing::Serving);
        self.own.events.extend(detached.left);
        drop(busy);
        // Work left for before a shutdown needs the keyspace too.
        self.engine.exec.come_inside();
    }

    /// Executes received input that begins with a script like the last one; the script's properties
    /// are looked up once.
    #[inline]
    pub(crate) fn run_script_at_once(
        &mut self,
        conn: &mut Conn,
        chunk: Chunk,
        output: &mut Output,
    ) -> Option<Progress> {
        // A stand-in runs none.
        if !self.engine.exec.was_script() || self.detached.is_some() {
            return None;
        }
        self.run_usual_script(conn, chunk, output)
    }

    #[inline(never)]
    fn run_usual_script(
        &mut self,
        conn: &mut Conn,
        chunk: Chunk,
        output: &mut Output,
    ) -> Option<Progress> {
        let data = self.driver.data(chunk);
        if !self.engine.exec.is_usual(argument(data, 0)?) {
            return None;
        }
        // The driver is lent, with the memory that this lies in.
        let mut bytes = std::mem::take(&mut self.script_input);
        bytes.extend_from_slice(data);
        let progress = self.run_detached(conn, |worker, conn| {
            let progress = worker.engine.run(conn, &bytes, Resume::default(), None, output);
            hold(conn, &bytes[progress.consumed..], progress);
            progress
        });
        bytes.clear();
        bytes.shrink_to(SCRIPT_INPUT_KEPT_MAX);
        self.script_input = bytes;
        Some(progress)
    }

    /// Executes something while the busy loop has the connections.
    fn run_detached(
        &mut self,
        conn: &mut Conn,
        execute: impl FnOnce(&mut Self, &mut Conn) -> Progress,
    ) -> Progress {
        // Changes that clients know of become durable, however long this takes.
        self.engine.exec.ks.hand_over();
        self.detach(Detached::new(conn.slot));
        self.traffic().now_does(Doing::Script);
        let progress = execute(self, conn);
        self.traffic().now_does(Doing::Serving);
        let detached = self.reattach();
        if !detached.input.is_empty() {
            conn.keep(&detached.input, None);
        }
        conn.doomed |= detached.has_ended;
        self.own.events.extend(detached.left);
        match progress.stop {
            // What came meanwhile may hold more commands.
            Stop::Incomplete { .. } if conn.input.is_some() => {
                Progress { stop: Stop::Quota, ..progress }
            }
            _ => progress,
        }
    }

    /// Moves the connections to the busy loop.
    fn detach(&mut self, detached: Detached) {
        // Meanwhile no other thread sends it.
        self.send_held();
        let mut busy_loop = match self.busy_loop.take() {
            Some(busy_loop) => busy_loop,
            None => Box::new(self.another()),
        };
        busy_loop.detached = Some(detached);
        self.exchange(&mut busy_loop);
        self.engine.host.busy_loop.replace(Some(busy_loop));
    }

    /// Moves the connections back.
    fn reattach(&mut self) -> Detached {
        let busy_loop = self.engine.host.busy_loop.take().map(BusyLoop::into_any);
        let busy_loop = busy_loop.and_then(|any| any.downcast::<Worker<D>>().ok());
        let mut busy_loop = busy_loop.expect("the host returns the busy loop that it was given");
        self.exchange(&mut busy_loop);
        let detached = busy_loop.detached.take();
        self.busy_loop = Some(busy_loop);
        detached.expect("only the busy loop's start takes it")
    }

    /// Creates a busy loop: a worker of the same index without connections.
    fn another(&self) -> Self {
        let server = self.engine.host.server.clone();
        let exec = Executor::new(server.keyspace.attach(), server.commands.clone());
        let here = Endpoint::Unix;
        let nobody = Client::new(0, self.index as u16, Slot::NOWHERE, 0, -1, here.clone(), here);
        Self::idle(
            Loaned(None),
            Loaned(None),
            exec,
            ServerHost::new(server, Arc::new(nobody)),
            self.index,
        )
    }

    /// Swaps all fields that belong to connections.
    fn exchange(&mut self, other: &mut Self) {
        swap(&mut self.driver, &mut other.driver);
        swap(&mut self.own, &mut other.own);
    }

    /// Handles an event in the busy loop, unless it is left for the worker.
    fn handle_in_busy_loop(&mut self, event: Event) {
        let Some(detached) = &mut self.detached else { return self.handle(event) };
        match event {
            Event::Received { slot, chunk } if slot == detached.slot => {
                detached.input.extend_from_slice(self.driver.data(chunk));
            }
            Event::Filled { slot, buffer } if slot == detached.slot => {
                detached.input.extend_from_slice(&buffer);
            }
            // All that a connection has sent is handled in its order, in whichever way it came.
            Event::Received { .. }
            | Event::Filled { .. }
            | Event::Accepted { .. }
            | Event::AcceptFailed { .. } => self.handle(event),
            // The slot is reused at once, perhaps before the worker can release the old connection.
            Event::Closed { slot, .. } if slot == detached.slot => detached.has_ended = true,
            Event::Closed { slot, .. } => {
                if let Some(conn) = self.take(slot) {
                    self.close_later(conn);
                }
            }
            other => detached.left.push(other),
        }
    }
}

impl<D: Driver> BusyLoop for Worker<D> {
    fn poll_once(&mut self, timeout: Duration) -> bool {
        self.engine.exec.ks.refresh_clock();
        self.engine.host.begin_turn();
        while let Some(event) = self.own.events.pop_front() {
            self.handle_in_busy_loop(event);
        }
        // Resume connections left in the middle of their input: the worker itself would reach them
        // only after its script.
        self.resume_ready();
        if self.driver.below().is_holding() {
            self.send_durable();
        }
        if self.has_safe_waits() {
            self.send_safe();
        }
        let mut events = Vec::new();
        let timeout = if self.own.ready.is_empty() { timeout } else { Duration::ZERO };
        if self.driver.poll(Some(timeout), &mut events).is_ok() {
            events.into_iter().for_each(|event| self.handle_in_busy_loop(event));
        }
        for message in self.messages() {
            match message {
                Message::Adopt(arrival) => self.adopt(arrival),
                other => self.own.deferred.push(other),
            }
        }
        for arrival in std::mem::take(&mut self.own.arrivals) {
            self.adopt(arrival);
        }
        self.engine.host.server.is_stopping()
    }

    fn has_lost_client(&self) -> bool {
        self.detached.as_ref().is_some_and(|detached| detached.has_ended)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
