//! Serves a worker's connections while the worker runs a slow script, so that they are answered
//! meanwhile.
//!
//! ```text
//!  worker      a command runs a script ─ lends what its connections need ─ executes ───────────────── takes it back
//!                                                                            │ the script is slow
//!                                                                            ▼ now and then, from the interpreter's hook
//!  stand-in                                              poll ─ read ─ answer: BUSY, or what may be done meanwhile
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
use crate::event_loop::mailbox::Message;
use crate::event_loop::read::hold;
use crate::event_loop::worker::Worker;
use crate::host::{ServerHost, StandIn};
use crate::observation::traffic::Doing;
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
pub(crate) struct Lent<T>(Option<Box<T>>);

impl<T> Lent<T> {
    /// Wraps a value that has not been moved.
    pub fn new(value: T) -> Self {
        Lent(Some(Box::new(value)))
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().expect("a worker with a running busy loop only runs its script")
    }
}

impl<T> DerefMut for Lent<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect("a worker with a running busy loop only runs its script")
    }
}

/// Connection with a running script.
#[derive(Debug)]
pub(crate) struct Absent {
    slot: Slot,
    /// Input received meanwhile.
    input: Vec<u8>,
    /// The connection has ended meanwhile.
    has_ended: bool,
    /// Other events left for the worker.
    left: Vec<Event>,
}

impl Absent {
    fn new(slot: Slot) -> Self {
        Absent { slot, input: Vec::new(), has_ended: false, left: Vec::new() }
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
                self.run_lending(conn, |worker, conn| worker.execute_owned(conn, *input, output))
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
            self.stand_by();
        }
    }

    /// Runs the busy loop without a script of this worker: clients get `BUSY` until this worker may
    /// enter the keyspace.
    #[cold]
    fn stand_by(&mut self) {
        let shared = self.engine.exec.shared.clone();
        let busy = shared.scripts.running.appear_busy();
        self.lend(Absent::new(Slot::NOWHERE));
        self.traffic().now_does(Doing::Outside);
        let mut is_stopping = false;
        while !is_stopping {
            self.engine.exec.end();
            if self.engine.exec.begin_unless_busy() {
                break;
            }
            if let Some(stand_in) = &mut self.engine.host.stand_in {
                is_stopping = stand_in.attend(STAND_BY_PAUSE);
            }
        }
        let absent = self.take_back();
        self.traffic().now_does(Doing::Serving);
        self.own.events.extend(absent.left);
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
        if !self.engine.exec.was_script() || self.absent.is_some() {
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
        let progress = self.run_lending(conn, |worker, conn| {
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
    fn run_lending(
        &mut self,
        conn: &mut Conn,
        execute: impl FnOnce(&mut Self, &mut Conn) -> Progress,
    ) -> Progress {
        // Changes that clients know of become durable, however long this takes.
        self.engine.exec.ks.hand_over();
        self.lend(Absent::new(conn.slot));
        self.traffic().now_does(Doing::Script);
        let progress = execute(self, conn);
        self.traffic().now_does(Doing::Serving);
        let absent = self.take_back();
        if !absent.input.is_empty() {
            conn.keep(&absent.input, None);
        }
        conn.doomed |= absent.has_ended;
        self.own.events.extend(absent.left);
        match progress.stop {
            // What came meanwhile may hold more commands.
            Stop::Incomplete { .. } if conn.input.is_some() => {
                Progress { stop: Stop::Quota, ..progress }
            }
            _ => progress,
        }
    }

    /// Moves the connections to the busy loop.
    fn lend(&mut self, absent: Absent) {
        // Meanwhile no other thread sends it.
        self.send_held();
        let mut stand_in = match self.stand_in.take() {
            Some(stand_in) => stand_in,
            None => Box::new(self.another()),
        };
        stand_in.absent = Some(absent);
        self.exchange(&mut stand_in);
        self.engine.host.stand_in = Some(stand_in);
    }

    /// Moves the connections back.
    fn take_back(&mut self) -> Absent {
        let stand_in = self.engine.host.stand_in.take().map(StandIn::into_any);
        let stand_in = stand_in.and_then(|any| any.downcast::<Worker<D>>().ok());
        let mut stand_in = stand_in.expect("the host returns the busy loop that it was given");
        self.exchange(&mut stand_in);
        let absent = stand_in.absent.take();
        self.stand_in = Some(stand_in);
        absent.expect("only the busy loop's start takes it")
    }

    /// Creates a busy loop: a worker of the same index without connections.
    fn another(&self) -> Self {
        let server = self.engine.host.server.clone();
        let exec = Executor::new(server.keyspace.attach(), server.commands.clone());
        let here = Endpoint::Unix;
        let nobody = Client::new(0, self.index as u16, Slot::NOWHERE, 0, -1, here.clone(), here);
        Self::idle(
            Lent(None),
            Lent(None),
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
    fn handle_instead(&mut self, event: Event) {
        let Some(absent) = &mut self.absent else { return self.handle(event) };
        match event {
            Event::Received { slot, chunk } if slot == absent.slot => {
                absent.input.extend_from_slice(self.driver.data(chunk));
            }
            Event::Filled { slot, buffer } if slot == absent.slot => {
                absent.input.extend_from_slice(&buffer);
            }
            // All that a connection has sent is handled in its order, in whichever way it came.
            Event::Received { .. }
            | Event::Filled { .. }
            | Event::Accepted { .. }
            | Event::AcceptFailed { .. } => self.handle(event),
            // The slot is reused at once, perhaps before the worker can release the old connection.
            Event::Closed { slot, .. } if slot == absent.slot => absent.has_ended = true,
            Event::Closed { slot, .. } => {
                if let Some(conn) = self.take(slot) {
                    self.depart(conn);
                }
            }
            other => absent.left.push(other),
        }
    }
}

impl<D: Driver> StandIn for Worker<D> {
    fn attend(&mut self, timeout: Duration) -> bool {
        self.engine.exec.ks.refresh_clock();
        self.engine.host.begin_turn();
        while let Some(event) = self.own.events.pop_front() {
            self.handle_instead(event);
        }
        // Resume connections left in the middle of their input: the worker itself would reach them
        // only after its script.
        self.go_on();
        if self.driver.below().is_holding() {
            self.send_durable();
        }
        let mut events = Vec::new();
        let timeout = if self.own.ready.is_empty() { timeout } else { Duration::ZERO };
        if self.driver.poll(Some(timeout), &mut events).is_ok() {
            events.into_iter().for_each(|event| self.handle_instead(event));
        }
        for message in self.messages() {
            match message {
                Message::Adopt { listener, socket, id } => self.adopt(listener, socket, id),
                other => self.own.heard.push(other),
            }
        }
        for (listener, socket, id) in std::mem::take(&mut self.own.arrivals) {
            self.adopt(listener, socket, id);
        }
        self.engine.host.server.is_stopping()
    }

    fn has_lost_absent(&self) -> bool {
        self.absent.as_ref().is_some_and(|absent| absent.has_ended)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
