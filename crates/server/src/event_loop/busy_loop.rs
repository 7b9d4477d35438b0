//! Serves a worker's connections while the worker runs a slow script, or a transaction with commands
//! that take long, so that they get an answer meanwhile.
//!
//! ```text
//!  worker      a command runs a script ─ lends what its connections need ─ executes ───────────────── takes it back
//!                                                                            │ the script is slow
//!                                                                            ▼ now and then, from the interpreter's hook
//!                                                                              or a command that takes long
//!  stand-in                                              poll ─ read ─ answer: BUSY, or what may be done meanwhile
//! ```
//!
//! The same happens while another worker's script has the keyspace to itself for long: then the
//! worker stands by until it is let in.
//!
//! The stand-in is a worker with an executor of its own, which never touches the keyspace: the
//! worker may hold all of it. What would, such as the end of a connection that watches keys, is
//! left for the worker.

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

/// Between two tries to get in.
const STAND_BY_PAUSE: Duration = Duration::from_millis(5);

/// Memory for a script's input that is kept for the next.
const SCRIPT_INPUT_KEPT_MAX: usize = 16 * 1024;

/// What a worker has, unless it has lent it.
pub(crate) struct Lent<T>(Option<Box<T>>);

impl<T> Lent<T> {
    /// Not lent.
    pub fn new(value: T) -> Self {
        Lent(Some(Box::new(value)))
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_deref().expect("a worker that has lent does nothing but run the script")
    }
}

impl<T> DerefMut for Lent<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_deref_mut().expect("a worker that has lent does nothing but run the script")
    }
}

/// The connection whose script runs.
#[derive(Debug)]
pub(crate) struct Absent {
    slot: Slot,
    /// What it has sent meanwhile.
    input: Vec<u8>,
    /// It has ended meanwhile.
    has_ended: bool,
    /// What else has happened and is left for the worker.
    left: Vec<Event>,
}

impl Absent {
    fn new(slot: Slot) -> Self {
        Absent { slot, input: Vec::new(), has_ended: false, left: Vec::new() }
    }
}

impl<D: Driver> Worker<D> {
    /// Goes on with a connection whose next command runs a script, if it was stopped by that.
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

    /// Begins a batch, and lets the stand-in answer as long as a slow script keeps this worker out.
    pub(crate) fn begin(&mut self) {
        if !self.engine.exec.begin_unless_busy() {
            self.stand_by();
        }
    }

    /// No script runs here, but everybody who asks is to be answered as if one did until this
    /// worker is let in.
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
            if let Some(stand_in) = &mut *self.engine.host.stand_in.borrow_mut() {
                is_stopping = stand_in.attend(STAND_BY_PAUSE);
            }
        }
        let absent = self.take_back();
        self.traffic().now_does(Doing::Serving);
        self.own.events.extend(absent.left);
        drop(busy);
        // What is left to do before the end of the server is done inside, too.
        self.engine.exec.come_inside();
    }

    /// Executes what has arrived, if it begins with a script like the last one: what is known
    /// beforehand is parsed once.
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

    /// Executes something while the stand-in has what belongs to the connections.
    fn run_lending(
        &mut self,
        conn: &mut Conn,
        execute: impl FnOnce(&mut Self, &mut Conn) -> Progress,
    ) -> Progress {
        // What others have been told of becomes durable, however long this takes.
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

    /// Lends the stand-in what belongs to the connections.
    fn lend(&mut self, absent: Absent) {
        // Meanwhile no other thread sends it.
        self.send_held();
        let mut stand_in = match self.stand_in.take() {
            Some(stand_in) => stand_in,
            None => Box::new(self.another()),
        };
        stand_in.absent = Some(absent);
        self.exchange(&mut stand_in);
        self.engine.host.stand_in.replace(Some(stand_in));
    }

    /// Takes back what was lent.
    fn take_back(&mut self) -> Absent {
        let stand_in = self.engine.host.stand_in.take().map(StandIn::into_any);
        let stand_in = stand_in.and_then(|any| any.downcast::<Worker<D>>().ok());
        let mut stand_in = stand_in.expect("the host gives back what it was given");
        self.exchange(&mut stand_in);
        let absent = stand_in.absent.take();
        self.stand_in = Some(stand_in);
        absent.expect("only this takes it away")
    }

    /// A worker of the same number without connections, which takes this one's place.
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

    /// Exchanges all that belongs to connections.
    fn exchange(&mut self, other: &mut Self) {
        swap(&mut self.driver, &mut other.driver);
        swap(&mut self.own, &mut other.own);
    }

    /// Handles an event, unless it is left for the worker.
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
            // Its slot is used again at once, by who comes before the worker can release what it
            // held.
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
        // Connections left in the middle of their input, perhaps by this: a worker whose own script
        // is slow would not come to them before that ends.
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
