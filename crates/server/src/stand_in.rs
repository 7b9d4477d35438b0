//! Whoever takes a worker's place while it runs a script, so that others get an answer when that takes long.
//!
//! ```text
//!  worker      a command runs a script ─ lends what its connections need ─ executes ───────────────── takes it back
//!                                                                            │ the script is slow
//!                                                                            ▼ now and then, from the interpreter's hook
//!  stand-in                                              poll ─ read ─ answer: BUSY, or what may be done meanwhile
//! ```
//!
//! The stand-in is a worker with an executor of its own, which never touches the keyspace: the worker may hold all of it. What
//! would, such as the end of a connection that watches keys, is left for the worker.

use crate::batch::{Progress, Stop};
use crate::client::Client;
use crate::conn::{Conn, Input};
use crate::host::ServerHost;
use crate::mailbox::Message;
use crate::worker::Worker;
use petrel_commands::Executor;
use petrel_net::{Driver, Endpoint, Event, Output, Slot};
use std::any::Any;
use std::mem::swap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

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
    /// What else has happened and is left for the worker.
    left: Vec<Event>,
}

/// A stand-in, whatever its driver.
pub(crate) trait StandIn {
    /// Does what cannot wait; true if the server is stopping.
    fn attend(&mut self) -> bool;

    /// The stand-in itself.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
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
            (Stop::Script, Some(input)) => self.run_lending(conn, *input, output),
            (_, input) => {
                conn.input = input;
                progress
            }
        }
    }

    fn run_lending(&mut self, conn: &mut Conn, input: Input, output: &mut Output) -> Progress {
        let mut stand_in = match self.stand_in.take() {
            Some(stand_in) => stand_in,
            None => Box::new(self.another()),
        };
        // While the script runs nobody else sends it.
        self.send_held();
        stand_in.absent = Some(Absent { slot: conn.slot, input: Vec::new(), left: Vec::new() });
        self.exchange(&mut stand_in);
        self.engine.host.stand_in = Some(stand_in);
        let progress = self.execute_owned(conn, input, output);
        let stand_in = self.engine.host.stand_in.take().map(StandIn::into_any);
        let stand_in = stand_in.and_then(|any| any.downcast::<Worker<D>>().ok());
        let mut stand_in = stand_in.expect("the host gives back what it was given");
        self.exchange(&mut stand_in);
        if let Some(absent) = stand_in.absent.take() {
            if !absent.input.is_empty() {
                conn.keep(&absent.input, None);
            }
            self.events.extend(absent.left);
        }
        self.stand_in = Some(stand_in);
        match progress.stop {
            // What came meanwhile may hold more commands.
            Stop::Incomplete { .. } if conn.input.is_some() => {
                Progress { stop: Stop::Quota, ..progress }
            }
            _ => progress,
        }
    }

    /// A worker of the same number without connections, which takes this one's place.
    fn another(&self) -> Self {
        let server = self.engine.host.server.clone();
        let exec = Executor::new(server.keyspace.attach(), server.commands.clone());
        let here = Endpoint::Unix;
        let nobody = Client::new(0, self.index as u16, Slot::NOWHERE, 0, -1, here.clone(), here);
        Self::idle(Lent(None), exec, ServerHost::new(server, Arc::new(nobody)), self.index)
    }

    /// Exchanges all that belongs to connections.
    fn exchange(&mut self, other: &mut Self) {
        swap(&mut self.driver, &mut other.driver);
        swap(&mut self.conns, &mut other.conns);
        swap(&mut self.events, &mut other.events);
        swap(&mut self.ready, &mut other.ready);
        swap(&mut self.heard, &mut other.heard);
        swap(&mut self.paused, &mut other.paused);
        swap(&mut self.unsettled, &mut other.unsettled);
        swap(&mut self.arrivals, &mut other.arrivals);
        swap(&mut self.timers, &mut other.timers);
        swap(&mut self.deadlines, &mut other.deadlines);
        swap(&mut self.polling, &mut other.polling);
    }

    /// Handles an event, unless it is left for the worker.
    fn handle_instead(&mut self, event: Event) {
        let Some(absent) = &mut self.absent else { return self.handle(event) };
        match event {
            Event::Received { slot, chunk } if slot == absent.slot => {
                absent.input.extend_from_slice(self.driver.data(chunk));
            }
            Event::Received { .. } | Event::Accepted { .. } | Event::AcceptFailed { .. } => {
                self.handle(event);
            }
            other => absent.left.push(other),
        }
    }
}

impl<D: Driver> StandIn for Worker<D> {
    fn attend(&mut self) -> bool {
        self.engine.exec.ks.refresh_clock();
        self.engine.host.begin_turn();
        while let Some(event) = self.events.pop_front() {
            self.handle_instead(event);
        }
        let mut events = Vec::new();
        if self.driver.poll(Some(Duration::ZERO), &mut events).is_ok() {
            events.into_iter().for_each(|event| self.handle_instead(event));
        }
        // A slot is used again at once: nobody is adopted while the end of a connection is to be handled.
        let ended = |event: &Event| matches!(event, Event::Closed { .. } | Event::HungUp { .. });
        let is_open = self.absent.as_ref().is_none_or(|absent| !absent.left.iter().any(ended));
        for message in self.messages() {
            match message {
                Message::Adopt { listener, socket, id } if is_open => {
                    self.adopt(listener, socket, id);
                }
                other => self.heard.push(other),
            }
        }
        if is_open {
            for (listener, socket, id) in std::mem::take(&mut self.arrivals) {
                self.adopt(listener, socket, id);
            }
        }
        self.engine.host.server.is_stopping()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
