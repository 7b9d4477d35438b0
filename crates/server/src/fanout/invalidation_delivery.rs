//! Invalidations on their way: staged by commands, held for connections, and sent.

use crate::event_loop::connection::Conn;
use crate::event_loop::worker::Worker;
use crate::host::ServerHost;
use crate::state::invalidation_queue::{
    DUE_PART, DUE_SENDS, HELD_BYTES_MAX, Holding, Pause, SEND_PAUSE, SEND_PAUSE_MAX, Stale,
    WAKE_PAUSE,
};
use crate::state::outbox::{Form, Push, Recipient};
use bytes::Bytes;
use petrel_commands::{Answer, ReplySlots};
use petrel_net::{Driver, Output, Slot};
use petrel_resp::Protocol;
use std::num::NonZeroU64;

impl ServerHost {
    /// Takes staged invalidations for connections of this worker, unless earlier pushes to them are
    /// queued.
    #[inline]
    pub(crate) fn take_own_stale(&mut self) -> Option<Stale> {
        let own = self.worker();
        if self.held.staged[own].is_empty() || self.has_pending_pushes() || self.has_posted_pushes()
        {
            return None;
        }
        let spare = self.held.spares.pop().unwrap_or_default();
        Some(std::mem::replace(&mut self.held.staged[own], spare))
    }

    /// Moves staged invalidations to the queues of the workers, each of which handles them before
    /// its next commands.
    #[inline]
    pub(crate) fn post_stale(&mut self) {
        if self.held.staged_count > 0 {
            self.held.staged_count = 0;
            self.post_stale_but(None);
        }
    }

    /// Like [`Self::post_stale`], except for this worker.
    pub(crate) fn post_stale_to_others(&mut self) {
        self.post_stale_but(Some(self.worker()));
    }

    /// Moves staged invalidations to the queues of all workers except one. This host may belong to
    /// no worker.
    fn post_stale_but(&mut self, left: Option<usize>) {
        let own = self.worker();
        for worker in (0..self.held.staged.len()).filter(|&worker| left != Some(worker)) {
            let is_posted = self.post_stale_to(worker);
            if is_posted && worker != own && !self.held.uncalled.contains(&worker) {
                self.held.uncalled.push(worker);
            }
        }
    }

    /// Moves staged invalidations to the queue of a worker; returns whether there were any.
    #[inline]
    fn post_stale_to(&mut self, worker: usize) -> bool {
        let stale = &mut self.held.staged[worker];
        if stale.is_empty() {
            return false;
        }
        self.server.workers[worker].pushes.add_stale(stale);
        if stale.bytes.capacity() == 0 {
            *stale = self.held.spares.pop().unwrap_or_default();
        }
        true
    }

    /// Calls the workers that were left something, unless others were called just now.
    #[inline]
    pub(crate) fn call_workers(&mut self) {
        if !self.held.uncalled.is_empty() && self.held.call_pause.left().is_zero() {
            self.call_uncalled();
        }
    }

    #[cold]
    fn call_uncalled(&mut self) {
        self.held.call_pause = Pause::begin(WAKE_PAUSE);
        for worker in self.held.uncalled.drain(..) {
            self.server.call(worker);
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Returns an output for a connection, which begins with its held invalidations.
    #[inline]
    pub(crate) fn output_for(&mut self, slot: Slot) -> Output {
        if self.engine.host.held.any()
            && let Some(held) = self.engine.host.held.take(slot)
        {
            return held;
        }
        self.driver.output()
    }

    /// Takes over what arrived for connections of this worker.
    pub(crate) fn hold(&mut self, stale: &Stale, passed: Option<Slot>) {
        for mark in stale.marks.iter().filter(|mark| passed != Some(mark.to.slot())) {
            if mark.form == Form::Resp3
                && let Some(output) = self.engine.host.held.known(mark.to)
            {
                output.bytes.extend_from_slice(stale.encoded(mark));
                if output.len() >= HELD_BYTES_MAX {
                    self.send_held_to(mark.to.slot());
                }
                continue;
            }
            let Some(conn) =
                self.conn(mark.to.slot()).filter(|conn| conn.client.id == mark.to.id())
            else {
                continue;
            };
            let (blocked, protocol) = (conn.blocked, conn.session.protocol);
            let speaks_resp3 =
                NonZeroU64::new(mark.to.id()).filter(|_| protocol == Protocol::Resp3);
            let encoded = stale.encoded(mark);
            if blocked {
                // Its answer may be on its way: the thread that served it sent that before, and it
                // goes first.
                self.handle_replies();
                let push = Push::of_form(Bytes::copy_from_slice(encoded), mark.form);
                self.send_push(mark.to, &push, None);
                continue;
            }
            let slot = mark.to.slot();
            if conn.session.reply_slots().is_some_and(ReplySlots::delays_invalidations) {
                self.delay(mark.to, |_, out| mark.form.write(encoded, protocol, out));
                continue;
            }
            let Worker { driver, engine, .. } = self;
            let (output, other) = engine.host.held.output(slot, speaks_resp3, || driver.output());
            mark.form.write(encoded, protocol, &mut output.bytes);
            let is_enough = output.len() >= HELD_BYTES_MAX;
            if let Some(other) = other {
                self.driver.recycle(other);
            }
            if is_enough {
                self.send_held_to(slot);
            }
        }
    }

    /// Queues a push of a connection behind the pending reply of another node.
    pub(crate) fn delay(&mut self, to: Recipient, write: impl FnOnce(Protocol, &mut Vec<u8>)) {
        let Some(conn) = self.conn_mut(to.slot()).filter(|conn| conn.client.id == to.id()) else {
            return;
        };
        let mut bytes = Vec::new();
        write(conn.session.protocol, &mut bytes);
        let slots = conn.session.extras.as_mut().and_then(|extras| extras.slots.as_mut());
        slots.into_iter().for_each(|slots| {
            slots.hold(Answer { bytes: std::mem::take(&mut bytes), shared: Vec::new() }, false);
        });
    }

    /// Sends held invalidations, unless the pause after the last sending is not over.
    pub(crate) fn send_held_in_time(&mut self) {
        if self.engine.host.held.may_send() {
            self.send_listed();
        }
    }

    /// Has a connection be sent something in one of the next turns. It is all that is held for it.
    pub(crate) fn make_due(&mut self, slot: Slot, output: Output) {
        if let Some(other) = self.engine.host.held.hold_due(slot, output) {
            self.driver.recycle(other);
        }
    }

    /// Sends some of the due output.
    pub(crate) fn send_some_due(&mut self) {
        for _ in 0..DUE_SENDS.max(self.engine.host.held.due.len() / DUE_PART) {
            let held = &mut self.engine.host.held;
            let Some(index) = held.due.pop_front() else { return };
            let place = &mut held.places[index];
            place.is_due = false;
            if let Some(Holding { slot, output, .. }) = place.held.take() {
                self.send_taken(slot, output);
            }
        }
    }

    /// Sends all that is held.
    pub(crate) fn send_held(&mut self) {
        while !self.engine.host.held.due.is_empty() {
            self.send_some_due();
        }
        if !self.engine.host.held.listed.is_empty() {
            self.send_listed();
        }
    }

    /// Sends the invalidations that are held.
    fn send_listed(&mut self) {
        let mut listed = std::mem::take(&mut self.engine.host.held.listed);
        let mut sends = 0;
        for index in listed.drain(..) {
            let place = &mut self.engine.host.held.places[index];
            place.is_listed = false;
            if let Some(Holding { slot, output, .. }) = place.held.take() {
                sends += 1;
                self.send_taken(slot, output);
            }
        }
        self.engine.host.held.listed = listed;
        let length = SEND_PAUSE.saturating_mul(sends).min(SEND_PAUSE_MAX);
        self.engine.host.held.send_pause = Pause::begin(length);
    }

    fn send_held_to(&mut self, slot: Slot) {
        if let Some(output) = self.engine.host.held.take(slot) {
            self.send_taken(slot, output);
        }
    }

    fn send_taken(&mut self, slot: Slot, output: Output) {
        match self.take(slot) {
            Some(conn) => self.send_output(conn, output),
            None => self.driver.recycle(output),
        }
    }

    /// Sends a connection output other than replies.
    pub(crate) fn send_output(&mut self, mut conn: Box<Conn>, output: Output) {
        if output.is_empty() || conn.closing || conn.doomed {
            self.driver.recycle(output);
            return self.put(conn);
        }
        self.count_sent(&conn, output.len());
        self.driver.send(conn.slot, output);
        self.check_output(&mut conn);
        if conn.doomed {
            self.engine.host.doom(conn.slot);
        }
        self.put(conn);
    }
}
