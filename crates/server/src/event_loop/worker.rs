//! A worker: one thread with its own event loop and its share of the connections.
//!
//! A turn: poll (which writes output queued by the last turn, and waits) ── read the clock ── for
//! each connection with input: parse, execute, queue its replies ── messages from other workers ──
//! at intervals, upkeep.

mod safe_replies;
mod upkeep;

use crate::client::{CONNECTION_BYTES, Client, Flag};
use crate::config::OutputBufferLimit;
use crate::durability::log::ReplyGate;
use crate::event_loop::backpressure::Slow;
use crate::event_loop::batch::{Engine, Progress, Stop};
use crate::event_loop::busy_loop::{Detached, Loaned};
use crate::event_loop::connection::{Conn, READ_INTO_MIN};
use crate::event_loop::read::AHEAD;
use crate::event_loop::timers::{Deadlines, Timers};
use crate::host::ServerHost;
use crate::lifecycle::listening::Exchange;
use crate::observation::traffic::{self, Doing, Traffic};
use crate::server::Server;
use crate::state::mailbox::{Arrival, Mailbox, Message};
use crate::state::outgoing::OwnReplicas;
use crate::state::worker_link::WorkerLink;
use crate::tls::Secured;
use petrel_commands::{Executor, ReplySlots};
use petrel_net::{Close, Driver, Endpoint, Event, ListenerId, Slot};
use safe_replies::SafeWaits;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

/// Milliseconds until the next attempt to lock keys that a slow script has.
pub(crate) const RETRY_MS: i64 = 10;

/// Output below this is assumed to be written by the next poll.
const TAKEN_AT_ONCE: u64 = 16 * 1024;

/// Output limit of a connection that has never authenticated.
const STRANGERS_OUTPUT: OutputBufferLimit =
    OutputBufferLimit { hard_bytes: TAKEN_AT_ONCE + 1024, soft_bytes: 0, soft_seconds: 0 };

/// After a command of a length in this range, another one of that length is expected.
const EXPECTED: Range<usize> = READ_INTO_MIN..8 * 1024 * 1024;

/// State of a worker's connections, except the driver. The busy loop has it while the worker runs a
/// script.
#[derive(Default)]
pub(crate) struct ConnectionSet {
    pub(crate) conns: Vec<Option<Box<Conn>>>,
    /// Events to handle.
    pub(crate) events: VecDeque<Event>,
    /// Connections with input left when their turn ended.
    pub(crate) ready: VecDeque<Slot>,
    /// Messages taken before their turn.
    pub(crate) deferred: Vec<Message>,
    /// Connections paused by `CLIENT PAUSE`.
    pub(crate) paused: Vec<Slot>,
    /// Connections with commands that wait for their peers to read more output.
    pub(crate) slow: Slow,
    /// Connections with perhaps more output than one write takes.
    pub(crate) unsettled: Vec<Slot>,
    /// Connections accepted in this turn. They are added after its events: a slot is reused at
    /// once, and a connection may still be in its slot while its end is among the events.
    pub(crate) arrivals: Vec<Arrival>,
    /// Closed connections with keyspace state to release after a slow script. Their slots may have
    /// been reused. Boxed, as they were in the table.
    #[allow(clippy::vec_box)]
    pub(crate) closed: Vec<Box<Conn>>,
    pub(crate) timers: Timers,
    pub(crate) deadlines: Deadlines,
    /// Connections with blocked commands that are tried at intervals.
    pub(crate) polling: BTreeSet<u64>,
    /// Output that waits for other owners of hash slots.
    pub(crate) safe_waits: SafeWaits,
}

/// Driver that delays output until the changes that it depends on are durable, and then until
/// another owner of their hash slots has them.
type Gates<D> = ReplyGate<ReplyGate<D>>;

/// A worker, on its own thread.
pub struct Worker<D: Driver> {
    pub(crate) driver: Loaned<Secured<Gates<D>>>,
    pub(crate) own: Loaned<ConnectionSet>,
    pub(crate) engine: Engine,
    pub(crate) index: usize,
    /// The busy loop, which takes the worker's place during a script; none before the first script,
    /// nor while it runs.
    pub(crate) busy_loop: Option<Box<Worker<D>>>,
    /// Buffer for a script's input; empty between scripts.
    pub(crate) script_input: Vec<u8>,
    /// In a busy loop: the connection with the running script.
    pub(crate) detached: Option<Detached>,
    /// Connections that are receiving a large argument, or were; none of Unix sockets.
    pub(crate) filling: Vec<Slot>,
    /// Replicas connected to this worker.
    pub(crate) replicas: OwnReplicas,
    /// Buffers of a connection have grown since the last check of the memory of all clients.
    crowded: bool,
    polled_at: i64,
    upkeep_at: i64,
    /// The last round of upkeep left much work.
    upkeep_busy: bool,
    supervision_at: i64,
    /// Time of the last collection of this thread's free pages, and the count of `MEMORY PURGE`
    /// then.
    collected: (i64, u64),
}

impl<D: Driver> Worker<D> {
    /// A worker of `server`; its mailbox is open when this returns.
    pub fn new(server: Arc<Server>, index: usize, driver: D) -> Self {
        server.workers[index].open(Mailbox::new(driver.waker()), driver.name());
        let mut exec = Executor::new(server.keyspace.attach(), server.commands.clone());
        exec.give_way();
        let here = Endpoint::Unix;
        let nobody = Client::new(0, index as u16, Slot::NOWHERE, 0, -1, here.clone(), here);
        let host = ServerHost::new(server, Arc::new(nobody));
        let withheld = host.server.tls_writes_withheld.clone();
        let gates = ReplyGate::around(ReplyGate::around(driver));
        let driver = Loaned::new(Secured::around(gates, withheld));
        Self::idle(driver, Loaned::new(ConnectionSet::default()), exec, host, index)
    }

    /// A worker without connections.
    pub(crate) fn idle(
        driver: Loaned<Secured<Gates<D>>>,
        own: Loaned<ConnectionSet>,
        exec: Executor,
        host: ServerHost,
        index: usize,
    ) -> Self {
        Worker {
            driver,
            own,
            engine: Engine::new(exec, host),
            index,
            busy_loop: None,
            script_input: Vec::new(),
            detached: None,
            filling: Vec::new(),
            replicas: OwnReplicas::default(),
            crowded: false,
            polled_at: 0,
            upkeep_at: 0,
            upkeep_busy: false,
            supervision_at: 0,
            collected: (0, 0),
        }
    }

    /// Accepts on a listener.
    ///
    /// # Errors
    /// If the driver cannot watch it.
    pub fn listen(&mut self, listener: Arc<OwnedFd>, id: ListenerId) -> io::Result<()> {
        self.driver.listen(listener, id)
    }

    /// Serves until the server stops.
    ///
    /// # Errors
    /// If the event loop itself fails.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::new();
        while !self.engine.host.server.is_stopping() {
            self.release_delayed();
            // Compute the timeout afterwards: replies may have been queued.
            let timeout = match (self.replicas_sleep(), self.timeout()) {
                (Some(until_fed), Some(timeout)) => Some(timeout.min(until_fed)),
                (until_fed, timeout) => until_fed.or(timeout),
            };
            self.traffic().now_does(Doing::Polling);
            self.driver.poll(timeout, &mut events)?;
            self.replicas_awake();
            self.traffic().now_does(Doing::Serving);
            self.own.events.extend(events.drain(..));
            if !self.own.unsettled.is_empty() {
                self.settle_outputs();
            }
            if self.driver.has_established() {
                self.finish_handshakes();
            }
            if self.engine.host.begin_turn() {
                self.reconfigure();
            }
            // A client that has seen the reply of a command gets its pushes before replies to later
            // commands.
            self.deliver_pushes();
            self.enforce_memory_limit();
            self.begin();
            // Refresh the clock inside the batch: another thread may have held the keyspace for
            // long.
            self.engine.exec.ks.refresh_clock();
            let began = self.engine.exec.tick();
            self.engine.share_turn(self.own.events.len() + self.own.ready.len());
            let commands = self.traffic().pipelined.load(Relaxed);
            for n in 0.. {
                if n % AHEAD == 0 {
                    self.look_ahead();
                }
                let Some(event) = self.own.events.pop_front() else { break };
                self.handle(event);
                if self.engine.exec.ks.is_outside() {
                    // A slow script keeps this worker out: the rest is the stand-in's.
                    self.engine.exec.end();
                    self.begin();
                }
            }
            if !self.own.closed.is_empty() || !self.own.arrivals.is_empty() {
                self.close_and_accept();
            }
            self.resume_ready();
            self.engine.exec.end();
            // Before the messages, of which a client's end is one: its replies are not sent any
            // more then.
            self.enforce_memory_limit();
            self.handle_messages();
            self.traffic().count_turn(self.engine.exec.nanos_of_commands(began), commands);
            if self.engine.exec.ks.now_ms() >= self.upkeep_at {
                self.traffic().now_does(Doing::Upkeep);
                self.upkeep();
            }
            self.poll_blocked();
            self.deliver_pushes();
            self.feed_replicas();
            self.enforce_memory_limit();
        }
        self.shut_down();
        Ok(())
    }

    /// Sends delayed output that need not wait any longer.
    #[inline]
    fn release_delayed(&mut self) {
        if self.driver.below().is_holding() || self.link().holds.load(Relaxed) {
            self.release_durable();
        }
        if self.has_safe_waits() {
            self.send_safe();
        }
    }

    fn handle_messages(&mut self) {
        let deferred = std::mem::take(&mut self.own.deferred);
        let come = self.messages();
        if !deferred.is_empty() || !come.is_empty() {
            deferred.into_iter().chain(come).for_each(|message| self.handle_message(message));
        }
    }

    /// Evicts clients if together they hold too much memory, and keys if buffers have grown beyond
    /// `maxmemory`.
    pub(crate) fn enforce_memory_limit(&mut self) {
        if std::mem::take(&mut self.crowded) {
            self.engine.host.server.evict_crowd(&self.engine.host.config);
            if self.detached.is_none() {
                self.engine.make_room_for_buffers();
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let answers = !self.engine.host.answers.is_empty() || !self.own.deferred.is_empty();
        // Events left by the busy loop at the end of a turn.
        let left = !self.own.events.is_empty() || !self.own.arrivals.is_empty();
        if !self.own.ready.is_empty() || self.engine.exec.has_ready() || answers || left {
            return Some(Duration::ZERO);
        }
        let now = self.engine.exec.ks.now_ms();
        let mut next = self.upkeep_at.min(self.own.deadlines.next_ms().unwrap_or(i64::MAX));
        next = next.min(self.own.slow.next_ms().unwrap_or(i64::MAX));
        if !self.own.paused.is_empty() || self.engine.exec.has_postponed() {
            next = next.min(self.engine.host.server.commands.pause.until_ms());
        }
        let longest = if self.own.closed.is_empty() { 1000 } else { RETRY_MS };
        let timeout = Duration::from_millis((next - now).clamp(0, longest) as u64);
        Some(self.engine.host.held.timeout().map_or(timeout, |held| held.min(timeout)))
    }

    pub(crate) fn handle(&mut self, event: Event) {
        match event {
            Event::Received { slot, chunk } => self.received(slot, chunk),
            Event::Filled { slot, buffer } => self.filled(slot, buffer),
            Event::Accepted { listener, socket } => self.accepted(listener, socket),
            // Its commands arrived before its end, and it may still read the replies.
            Event::HungUp { slot } if self.conn(slot).is_some_and(Conn::goes_on) => {}
            Event::Closed { slot, .. } | Event::HungUp { slot } => self.forget(slot),
            Event::Drained { slot } => self.drained(slot),
            Event::AcceptFailed { error, .. } => {
                tracing::warn!("cannot accept connections: {error}")
            }
            Event::Woken => {}
        }
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.engine.host.server.workers[self.index].traffic
    }

    /// Updates the size of the connection's buffers; most are empty before and after.
    #[inline(always)]
    pub(crate) fn count_buffers(&mut self, conn: &Conn) {
        let client = &conn.client;
        let input = conn.input_held() as u64;
        let output = u64::from(client.output_bytes.load(Relaxed));
        let queued = u64::from(client.queued_bytes.load(Relaxed));
        let waiting = if conn.blocked { self.waiting_bytes(conn) } else { 0 };
        let tracking = self.engine.host.server.trackers.footprint(client);
        let now = input + output + queued + waiting + tracking;
        let before = u64::from(client.buffered.load(Relaxed));
        let now = now.min(u64::from(u32::MAX));
        if before != now {
            self.note_buffers(client, (before, now), input, output);
        }
    }

    #[inline(never)]
    fn note_buffers(
        &mut self,
        client: &Client,
        (before, now): (u64, u64),
        input: u64,
        output: u64,
    ) {
        client.buffered.store(now as u32, Relaxed);
        client.input_bytes.store(input as u32, Relaxed);
        self.crowded |= now > before;
        self.engine.exec.ks.count_foreign(now as i64 - before as i64);
        let traffic = self.traffic();
        traffic.buffered.fetch_add(now as i64 - before as i64, Relaxed);
        traffic::raise(&traffic.input_peak, input);
        traffic::raise(&traffic.output_peak, output);
    }

    /// Queues the replies and decides how the connection goes on.
    pub(crate) fn finish(
        &mut self,
        mut conn: Box<Conn>,
        progress: Progress,
        output: petrel_net::Output,
    ) {
        let slot = conn.slot;
        if conn.doomed {
            // It ended while its script ran, or is to.
            self.driver.recycle(output);
            self.driver.close(slot, Close::Now);
            self.close_later(conn);
            return self.end_batch();
        }
        conn.client.active_at.store(self.seconds(), Relaxed);
        if self.engine.exec.ks.is_strict() {
            self.hold_until_durable(slot);
        }
        if !self.engine.exec.shown.is_empty() {
            self.hold_until_safe(slot);
        }
        // Pushes about changes of this batch have been queued at the workers of their clients.
        self.engine.host.end_batch();
        if output.is_empty() {
            self.send_due(&mut conn, output);
        } else {
            self.count_sent(&conn, output.len());
            self.driver.send(slot, output);
        }
        match progress.stop {
            Stop::Close => self.driver.close(slot, Close::AfterFlush),
            Stop::Quota | Stop::Script => self.list(&mut conn, false),
            Stop::Paused => self.list(&mut conn, true),
            Stop::Away => self.await_replies(&mut conn),
            Stop::Waits => self.begin_wait(&conn),
            Stop::Incomplete { needed, .. } => {
                self.read_on(&mut conn, needed);
                if conn.input.is_none() && EXPECTED.contains(&progress.last) {
                    self.driver.expect_input(slot, progress.last);
                }
            }
        }
        self.check_output(&mut conn);
        self.settle(conn);
        self.enforce_memory_limit();
        self.end_batch();
    }

    /// Sends pushes about a batch's changes to this worker's clients, after the batch's own
    /// connection is back in the table.
    fn end_batch(&mut self) {
        self.engine.host.end_batch();
        if self.detached.is_none()
            && let Some(stale) = self.engine.host.take_own_stale()
        {
            self.hold(&stale, None);
            self.engine.host.held.recycle(stale);
        }
        self.engine.host.post_stale();
        if self.engine.host.has_pending_pushes() {
            self.deliver_pending();
        }
    }

    /// Delays the connection's output until the changes it depends on are durable.
    #[cold]
    fn hold_until_durable(&mut self, slot: Slot) {
        let need = self.engine.exec.ks.take_need();
        if need > 0 {
            self.driver.below().hold(slot, need);
        }
    }

    /// Sends delayed output that is durable now, and serves clients blocked on that (`WAITAOF`).
    fn release_durable(&mut self) {
        self.send_durable();
        if !self.own.polling.is_empty() {
            self.begin();
            self.poll_waiting();
            self.engine.exec.end();
        }
        if !self.driver.below().is_holding() && self.own.polling.is_empty() {
            self.link().holds.store(false, SeqCst);
        }
    }

    /// Sends delayed output that is durable now.
    pub(crate) fn send_durable(&mut self) {
        // Before the look: whatever becomes durable after it wakes this worker.
        self.link().holds.store(true, SeqCst);
        let log = self.engine.host.server.durability.log();
        self.driver.below().release(log.map_or(u64::MAX, |log| log.durable()));
    }

    fn link(&self) -> &WorkerLink {
        &self.engine.host.server.workers[self.index]
    }

    pub(crate) fn count_sent(&self, conn: &Conn, bytes: usize) {
        traffic::add(&conn.client.sent, bytes as u64);
        traffic::add(&self.traffic().sent, bytes as u64);
        traffic::add(&self.traffic().writes, 1);
    }

    /// Puts a connection back, or closes it if it is beyond a limit.
    pub(crate) fn settle(&mut self, conn: Box<Conn>) {
        if conn.doomed {
            self.driver.close(conn.slot, Close::Now);
            if self.detached.is_some() {
                // A stand-in does not touch the keyspace.
                return self.close_later(conn);
            }
            return self.dismiss(conn);
        }
        self.put(conn);
    }

    /// Marks a connection to resume once replies of other nodes arrive ([`Worker::take_remote`]).
    fn await_replies(&mut self, conn: &mut Conn) {
        conn.listed = true;
        self.driver.pause_reading(conn.slot);
    }

    fn list(&mut self, conn: &mut Conn, paused: bool) {
        if !conn.listed {
            conn.listed = true;
            conn.client.set(Flag::Paused, paused);
            self.driver.pause_reading(conn.slot);
            if paused {
                self.own.paused.push(conn.slot)
            } else {
                self.own.ready.push_back(conn.slot)
            }
            self.traffic().paused.store(self.own.paused.len(), Relaxed);
        }
    }

    /// Resumes connections that were left in the middle of their input.
    pub(crate) fn resume_ready(&mut self) {
        if !self.own.paused.is_empty()
            && self.engine.host.server.commands.pause.active(self.engine.exec.ks.now_ms()).is_none()
        {
            let ConnectionSet { ready, paused, .. } = &mut *self.own;
            ready.extend(paused.drain(..));
            self.traffic().paused.store(0, Relaxed);
        }
        if self.own.slow.next_ms().is_some() {
            self.look_at_slow();
        }
        // One by one: a slow script of one of them lends the others to the stand-in.
        for _ in 0..self.own.ready.len() {
            let Some(slot) = self.own.ready.pop_front() else { break };
            let Some(mut conn) = self.take_up_to_date(slot) else { continue };
            if self.waits_for_reader(&mut conn) {
                self.put(conn);
                continue;
            }
            conn.listed = false;
            conn.client.set(Flag::Paused, false);
            self.driver.resume_reading(slot);
            match conn.input.take() {
                Some(input) => self.execute_input(conn, *input),
                None => self.put(conn),
            }
        }
    }

    /// Ends a connection that is closed or to be closed.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(conn) = self.take(slot) {
            self.dismiss(conn);
            self.driver.close(slot, Close::Now);
        }
    }

    /// Releases the keyspace state of a closed connection; later, if a slow script has the keys.
    pub(crate) fn dismiss(&mut self, mut conn: Box<Conn>) {
        if self.release(&mut conn) {
            return self.discard(&conn);
        }
        self.close_later(conn);
        if self.engine.exec.ks.is_outside() {
            self.engine.exec.end();
            self.begin();
        }
    }

    /// Queues a closed connection for later release; nothing more is done for it.
    pub(crate) fn close_later(&mut self, conn: Box<Conn>) {
        conn.client.set(Flag::Killed, true);
        self.own.closed.push(conn);
    }

    fn discard(&mut self, conn: &Conn) {
        conn.client.set(Flag::Gone, true);
        if conn.session.reply_slots().is_some_and(ReplySlots::is_held_up)
            && let Some(cluster) = self.engine.host.server.commands.cluster.get()
        {
            cluster.end_wait(conn.client.id, None);
        }
        if conn.client.has(Flag::Replica) || conn.client.has(Flag::Handshake) {
            self.engine.host.server.outgoing.remove(&conn.client);
        }
        let link = &self.engine.host.server.workers[self.index];
        link.clients.remove(&conn.client);
        link.load.fetch_sub(1, Relaxed);
        let buffered = conn.client.buffered.swap(0, Relaxed);
        link.traffic.buffered.fetch_sub(buffered as i64, Relaxed);
        let labels = conn.client.label_bytes() as i64;
        self.engine.exec.ks.count_foreign(-(CONNECTION_BYTES as i64 + labels + buffered as i64));
        link.traffic.watch(conn.client.watching.swap(0, Relaxed), 0);
    }

    /// Checks how much of large outputs the poll has written.
    fn settle_outputs(&mut self) {
        for slot in std::mem::take(&mut self.own.unsettled) {
            if let Some(conn) = self.take(slot) {
                conn.client.show_output(self.driver.unsent(slot));
                self.put(conn);
            }
        }
    }

    fn drained(&mut self, slot: Slot) {
        if let Some(mut conn) = self.take(slot) {
            conn.soft_since = 0;
            conn.client.output_bytes.store(0, Relaxed);
            self.put(conn);
            self.forget_slow(slot);
        }
    }

    /// Closes a connection with too much unread output: at once above the hard limit, after some
    /// time above the soft one.
    pub(crate) fn check_output(&mut self, conn: &mut Conn) {
        if conn.client.has(Flag::Replica) {
            // Its limit counts what waits for it in the backlog as well.
            return;
        }
        let unsent = self.driver.unsent(conn.slot) as u64;
        let limits = &self.engine.host.config.client_output_buffer_limit;
        let is_stranger = !conn.session.is_authenticated() && !conn.client.has(Flag::LoggedIn);
        let server = &self.engine.host.server;
        let unsent = match is_stranger && server.replies_count_as_large.load(Relaxed) {
            true if unsent > 0 => unsent + STRANGERS_OUTPUT.hard_bytes,
            _ => unsent,
        };
        let limit = match conn.client.has(Flag::PubSub) {
            _ if is_stranger => STRANGERS_OUTPUT,
            true => limits.pubsub,
            false => limits.normal,
        };
        let OutputBufferLimit { hard_bytes, soft_bytes, soft_seconds } = limit;
        let above_soft = soft_bytes > 0 && unsent >= soft_bytes;
        let above_hard = hard_bytes > 0 && unsent >= hard_bytes;
        let known = conn.client.output_bytes.load(Relaxed) != 0 || conn.soft_since != 0;
        if unsent < TAKEN_AT_ONCE && !known && !above_soft && !above_hard {
            return;
        }
        conn.client.show_output(unsent as usize);
        self.own.unsettled.push(conn.slot);
        let now = self.seconds() + 1;
        if !above_soft {
            conn.soft_since = 0;
        } else if conn.soft_since == 0 {
            conn.soft_since = now;
            let due = self.engine.exec.ks.now_ms() + (soft_seconds as i64 + 1) * 1000;
            self.own.timers.set(due, conn.slot);
        }
        let too_long = above_soft && u64::from(now - conn.soft_since) > soft_seconds;
        if above_hard || too_long {
            server.note_output_limit(&conn.client, unsent);
            conn.doomed = true;
        }
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.engine.host.server.workers[self.index].messages()
    }

    /// Takes messages, and handles only replies before the end of the turn.
    pub(crate) fn handle_replies(&mut self) {
        for message in self.messages() {
            match message {
                Message::Answer { .. } => self.handle_message(message),
                other => self.own.deferred.push(other),
            }
        }
    }

    fn handle_message(&mut self, message: Message) {
        match message {
            Message::Adopt(arrival) => self.adopt(arrival),
            Message::Kill { slot } => {
                self.begin();
                self.kill(slot);
                self.engine.exec.end();
            }
            Message::Answer { slot, id, answer } => {
                self.engine.host.answers.push_back((slot, id, answer));
            }
            Message::Review(review) => self.review(&review),
            Message::Listen(exchange) => self.listen_otherwise(exchange),
            Message::Demoted => self.end_waits(),
            Message::Moved => self.move_waits(),
            Message::Remote(replies) => self.take_remote(replies),
            Message::Unpause | Message::Stop => {}
        }
    }

    fn listen_otherwise(&mut self, exchange: Exchange) {
        exchange.closed.into_iter().for_each(|id| self.driver.unlisten(id));
        for (id, listener) in exchange.opened {
            if let Err(error) = self.driver.listen(listener, id) {
                tracing::error!("cannot accept connections: {error}");
            }
        }
    }

    fn kill(&mut self, slot: Slot) {
        let is_killed = |conn: &Conn| conn.client.has(Flag::Killed);
        if self.conn(slot).is_some_and(is_killed) {
            self.forget(slot);
        }
    }

    /// Applies changes made by `CONFIG SET`.
    fn reconfigure(&mut self) {
        self.engine.reconfigure();
        self.engine.host.server.evict_crowd(&self.engine.host.config);
        for slot in self.own.conns.iter().flatten().map(|conn| conn.slot).collect::<Vec<_>>() {
            self.watch_idleness_of(slot);
        }
    }

    pub(crate) fn watch_idleness_of(&mut self, slot: Slot) {
        let timeout = self.engine.host.config.timeout;
        if timeout > 0 {
            self.own.timers.set(self.engine.exec.ks.now_ms() + i64::from(timeout) * 1000, slot);
        }
    }

    pub(crate) fn seconds(&self) -> u32 {
        ((self.engine.exec.ks.now_ms() - self.engine.host.server.started_unix_ms).max(0) / 1000)
            as u32
    }

    fn shut_down(&mut self) {
        let mut events = Vec::new();
        self.send_held();
        self.feed_replicas();
        for slot in self.own.conns.iter().flatten().map(|conn| conn.slot).collect::<Vec<_>>() {
            self.driver.close(slot, Close::AfterFlush);
        }
        // One poll writes as much as the kernel takes at once, without waiting.
        let _ = self.driver.poll(Some(Duration::ZERO), &mut events);
    }

    /// This worker's connections, except the current one.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Conn> {
        self.own.conns.iter().flatten().map(|conn| &**conn)
    }

    pub(crate) fn conn(&self, slot: Slot) -> Option<&Conn> {
        self.own.conns.get(slot.index())?.as_deref().filter(|conn| conn.slot == slot)
    }

    /// A connection in the table.
    pub(crate) fn conn_mut(&mut self, slot: Slot) -> Option<&mut Conn> {
        let conn = self.own.conns.get_mut(slot.index())?;
        conn.as_deref_mut().filter(|conn| conn.slot == slot)
    }

    /// Takes a connection out of the table to use it beside the rest of the worker.
    #[inline]
    pub(crate) fn take(&mut self, slot: Slot) -> Option<Box<Conn>> {
        let place = self.own.conns.get_mut(slot.index())?;
        if place.as_ref().is_some_and(|conn| conn.slot == slot) { place.take() } else { None }
    }

    /// Puts a connection back; if the driver has closed its slot meanwhile, it is dropped.
    #[inline]
    pub(crate) fn put(&mut self, conn: Box<Conn>) {
        self.count_buffers(&conn);
        let index = conn.slot.index();
        if index >= self.own.conns.len() {
            self.own.conns.resize_with(index + 1, || None);
        }
        self.own.conns[index] = Some(conn);
    }
}
