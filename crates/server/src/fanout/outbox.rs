//! Pushes: what a connection is sent without having asked for it just now. Messages of channels,
//! invalidations of cached keys, lines of `MONITOR`.
//!
//! ```text
//!  command on any worker ── host.push(client, push) ──▶ queue of the client's worker, one per worker
//!                                                             │ in the order in which it was filled
//!    the client's own command pushed it: after its reply  ◀───┤
//!    anyone else: before what a listener sent is executed ◀───┘ one send per connection and turn, by the driver
//!                 and at the end of the turn, or of a listener's batch (invalidations may wait for each other: `invalidation_queue.rs`)
//! ```
//!
//! A message to a channel of many subscribers costs as many sends, more than a turn should take:
//! unless it is large it is put beside the output of each, and sent to some of them in each turn.
//! So others wait less for it, and whoever is not sent it yet gets what is published meanwhile in
//! the same piece: messages that many publishers send one by one cost far less than so many sends
//! to everybody.
//!
//! Every push takes the queue, even to a connection of the same worker: so two pushes to one
//! connection arrive in the order in which they were sent, whoever sent them. Invalidations go past
//! it where it is empty. A push is encoded once and shared by reference until it is copied into the
//! connection's output; large ones are not copied at all.

use crate::client::Client;
use crate::event_loop::connection::Conn;
use crate::event_loop::worker::Worker;
use crate::fanout::invalidation_queue::{HELD_BYTES_MAX, Stale};
use crate::fanout::pubsub::{ChannelKind, Message};
use crate::host::ServerHost;
use crate::observation::counted::Counted;
use crate::server::Server;
use bytes::Bytes;
use parking_lot::Mutex;
use petrel_commands::{Replies, Session};
use petrel_net::{Driver, Output, Slot};
use petrel_resp::{Protocol, Reply, RespWriter};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU8, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Parts shorter than this are copied into the output; a piece more in a gathered write costs as
/// much.
const SHARED_LEN_MIN: usize = 16 * 1024;

/// Bytes of pushes that may wait for a worker that is busy with something else. Beyond them the
/// connections that listen there are closed: they would miss something without knowing.
const QUEUE_BYTES_MAX: usize = 256 << 20;

/// A worker leaves so many bytes of what its connections push for the end of the turn.
const LEFT_BYTES_MAX: usize = 16 << 20;

/// Memory for so many deliveries is kept from turn to turn.
const RETAINED_MAX: usize = 64;

/// A message to fewer subscribers of a worker is sent to all of them at once.
const MANY: usize = 64;

/// A message, encoded once for all that it is sent to.
#[derive(Clone, Debug)]
pub struct Push {
    /// A RESP3 push up to where `tail` begins, or all of what is sent as it is.
    head: Bytes,
    tail: Bytes,
    form: Form,
}

/// What becomes of a message in each protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// A push, and an array in RESP2.
    Push,
    /// A push, and nothing in RESP2.
    Resp3,
    /// The same in both.
    Raw,
}

impl Form {
    /// Appends a message of this form as a protocol has it.
    pub fn write(self, encoded: &[u8], protocol: Protocol, bytes: &mut Vec<u8>) {
        match (self, protocol) {
            (Form::Resp3, Protocol::Resp2) => {}
            (Form::Push, Protocol::Resp2) => {
                bytes.push(b'*');
                bytes.extend_from_slice(encoded.get(1..).unwrap_or_default());
            }
            _ => bytes.extend_from_slice(encoded),
        }
    }
}

impl Push {
    /// A push written by `build`, which begins with [`Reply::push`]. RESP2 gets the same as an
    /// array, so what follows the header must look the same in both protocols: bulk strings,
    /// integers and arrays do.
    pub fn new(build: impl FnOnce(&mut dyn Reply)) -> Self {
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        build(&mut RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3));
        debug_assert!(shared.is_empty(), "a push is written with `bulk`");
        debug_assert_eq!(bytes.first(), Some(&b'>'));
        Push { head: bytes.into(), tail: Bytes::new(), form: Form::Push }
    }

    /// A push in two parts, of which the first begins with the header of a RESP3 push.
    pub fn of_parts(head: Bytes, tail: Bytes) -> Self {
        debug_assert_eq!(head.first(), Some(&b'>'));
        Push { head, tail, form: Form::Push }
    }

    /// A message that is encoded already.
    pub(crate) fn of_form(encoded: Bytes, form: Form) -> Self {
        Push { head: encoded, tail: Bytes::new(), form }
    }

    /// A push that a connection of RESP2 does not get: one that has changed its protocol since it
    /// asked.
    pub fn of_resp3(encoded: Bytes) -> Self {
        debug_assert_eq!(encoded.first(), Some(&b'>'));
        Push { head: encoded, tail: Bytes::new(), form: Form::Resp3 }
    }

    /// Something that is RESP already and is sent as it is in both protocols, such as `+line`.
    pub fn raw(encoded: impl Into<Bytes>) -> Self {
        Push { head: encoded.into(), tail: Bytes::new(), form: Form::Raw }
    }

    /// The same for RESP2 and for RESP3.
    fn both(push: Push) -> [Push; 2] {
        [push.clone(), push]
    }

    /// The message as it is sent.
    pub fn to_bytes(&self, protocol: Protocol) -> Vec<u8> {
        let (mut bytes, mut shared) = (Vec::with_capacity(self.len()), Vec::new());
        self.write(protocol, &mut bytes, &mut shared);
        for (offset, part) in shared.into_iter().rev() {
            bytes.splice(offset..offset, part);
        }
        bytes
    }

    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the message to `bytes`; a large part is noted in `shared` with the offset where it
    /// belongs.
    pub fn write(&self, protocol: Protocol, bytes: &mut Vec<u8>, shared: &mut Vec<(usize, Bytes)>) {
        let mut head = self.head.clone();
        if self.form == Form::Resp3 && protocol == Protocol::Resp2 {
            return;
        }
        if self.form == Form::Push && protocol == Protocol::Resp2 && !head.is_empty() {
            bytes.push(b'*');
            head = head.slice(1..);
        }
        for part in [head, self.tail.clone()] {
            if part.len() < SHARED_LEN_MIN {
                bytes.extend_from_slice(&part);
            } else {
                shared.push((bytes.len(), part));
            }
        }
    }

    fn append_to(&self, protocol: Protocol, output: &mut Output) {
        let mut shared = Vec::new();
        self.write(protocol, &mut output.bytes, &mut shared);
        shared.into_iter().for_each(|(offset, part)| output.splice_at(offset, part));
    }
}

/// Whom a push is for: a slot is used again, so the connection's number goes with it.
#[derive(Clone, Copy, Debug)]
pub struct Recipient {
    slot: Slot,
    id: u64,
}

impl Recipient {
    /// The connection.
    pub fn of(client: &Client) -> Self {
        Self::new(client.slot, client.id)
    }

    /// The connection of this number at this place.
    pub fn new(slot: Slot, id: u64) -> Self {
        Recipient { slot, id }
    }

    /// The connection's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its place.
    pub fn slot(&self) -> Slot {
        self.slot
    }
}

/// A push on its way to connections of one worker.
#[derive(Debug)]
pub enum Delivery {
    /// To one connection.
    Client(Recipient, Push),
    /// To several, the same to each.
    Clients(Box<[Recipient]>, Push),
    /// To whoever is subscribed.
    Channel(Arc<Message>),
    /// Invalidations of keys.
    Stale(Stale),
}

impl Delivery {
    /// Bytes that it holds while it waits.
    fn footprint(&self) -> usize {
        match self {
            Delivery::Client(_, push) => size_of::<Delivery>() + push.len(),
            Delivery::Clients(to, push) => {
                size_of::<Delivery>() + push.len() + size_of_val::<[Recipient]>(to)
            }
            Delivery::Channel(message) => size_of::<Delivery>() + message.footprint(),
            Delivery::Stale(stale) => size_of::<Delivery>() + stale.footprint(),
        }
    }
}

/// The pushes on their way to the connections of one worker: on one cache line, which nothing else
/// is on that the worker changes.
#[derive(Default)]
#[repr(align(64))]
pub struct PushQueue {
    /// [`EMPTY`], [`FILLED`] or [`CALLED`].
    state: AtomicU8,
    waiting: Mutex<Waiting>,
}

/// Nothing is in the queue.
const EMPTY: u8 = 0;
/// Something is in it.
const FILLED: u8 = 1;
/// Something is in it, and the worker was woken for it or is about to be: it takes it then.
const CALLED: u8 = 2;

#[derive(Default)]
struct Waiting {
    deliveries: Vec<Delivery>,
    bytes: usize,
    /// Something was dropped because too much was waiting.
    overflowed: bool,
}

const _: () = assert!(size_of::<PushQueue>() == 64);

impl PushQueue {
    /// Adds a push.
    fn add(&self, delivery: Delivery) {
        let mut waiting = self.waiting.lock();
        if waiting.admit(delivery.footprint()) {
            waiting.deliveries.push(delivery);
        }
        self.note_filled();
    }

    /// Adds invalidations, to those that came last if nothing came since. They are empty then.
    pub(crate) fn add_stale(&self, stale: &mut Stale) {
        let mut waiting = self.waiting.lock();
        let is_admitted = waiting.admit(stale.footprint());
        match waiting.deliveries.last_mut() {
            _ if !is_admitted => *stale = Stale::default(),
            Some(Delivery::Stale(last)) => last.append(stale),
            _ => waiting.deliveries.push(Delivery::Stale(std::mem::take(stale))),
        }
        self.note_filled();
    }

    /// Something was added. The lock is held: who empties the queue at this moment takes what was
    /// added too.
    fn note_filled(&self) {
        if self.state.load(Relaxed) == EMPTY {
            self.state.store(FILLED, Release);
        }
    }

    /// Bytes of what waits in it.
    pub(crate) fn bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Whether something is in it.
    #[inline]
    fn is_filled(&self) -> bool {
        self.state.load(Acquire) != EMPTY
    }

    /// Whether the worker has to be woken for what is in it; the caller does so.
    fn has_to_be_called(&self) -> bool {
        self.state.load(Relaxed) == FILLED
            && self.state.compare_exchange(FILLED, CALLED, AcqRel, Relaxed).is_ok()
    }

    /// Takes what waits, in order, into `taken`, which is empty and whose memory the queue uses
    /// from then on; says whether something was dropped.
    fn take(&self, taken: &mut Vec<Delivery>) -> bool {
        if self.state.load(Acquire) == EMPTY || self.state.swap(EMPTY, AcqRel) == EMPTY {
            return false;
        }
        let mut waiting = self.waiting.lock();
        std::mem::swap(&mut waiting.deliveries, taken);
        waiting.bytes = 0;
        std::mem::take(&mut waiting.overflowed)
    }
}

impl Waiting {
    /// Counts so many bytes more, if there is room for them.
    fn admit(&mut self, bytes: usize) -> bool {
        self.overflowed |= self.bytes + bytes > QUEUE_BYTES_MAX;
        if !self.overflowed {
            self.bytes += bytes;
        }
        !self.overflowed
    }
}

impl Server {
    /// Sends a connection something that it did not ask for, from any thread.
    pub fn push(&self, client: &Client, push: Push) {
        let delivery = Delivery::Client(Recipient::of(client), push);
        self.deliver(usize::from(client.worker), delivery, true);
    }

    /// Leaves a push for the connections of a worker, which is woken if it may sleep.
    fn deliver(&self, worker: usize, delivery: Delivery, may_sleep: bool) {
        self.workers[worker].pushes.add(delivery);
        if may_sleep {
            self.call(worker);
        }
    }

    /// Wakes a worker that was left pushes, if it was not woken for them.
    pub(crate) fn call(&self, worker: usize) {
        if self.workers[worker].pushes.has_to_be_called() {
            self.workers[worker].wake();
        }
    }
}

/// What a worker's host knows of pushes.
#[derive(Default)]
pub struct PushDesk {
    /// A command of this worker has pushed something to a connection of this worker.
    pushed: bool,
    /// Taken from the queue, in order.
    pending: VecDeque<Pending>,
    /// For the connection in hand, after the reply of its command.
    own: Vec<Push>,
    /// Connections that were found beyond a limit while something was sent to many.
    doomed: Vec<Slot>,
    /// Something was dropped from the queue.
    overflowed: bool,
    /// Memory for what is taken from the queue.
    taken: Vec<Delivery>,
}

impl PushDesk {
    /// Whether connections are to be closed.
    fn is_overdue(&self) -> bool {
        self.overflowed || !self.doomed.is_empty()
    }
}

struct Pending {
    delivery: Delivery,
    /// The connection that has had it, if it was for it: its command was being executed.
    passed: Option<Slot>,
}

impl ServerHost {
    /// Sends a connection of any worker something that it did not ask for. To the connection whose
    /// command is being executed it goes after the reply.
    pub fn push(&mut self, client: &Client, push: Push) {
        self.deliver(usize::from(client.worker), Delivery::Client(Recipient::of(client), push));
    }

    /// Sends several connections the same: one message for each worker that has some of them.
    pub fn push_all<'c>(&mut self, clients: impl IntoIterator<Item = &'c Client>, push: &Push) {
        let mut by_worker: Vec<Vec<Recipient>> = vec![Vec::new(); self.server.workers.len()];
        for client in clients {
            by_worker[usize::from(client.worker)].push(Recipient::of(client));
        }
        for (worker, to) in by_worker.into_iter().enumerate().filter(|(_, to)| !to.is_empty()) {
            self.deliver(worker, Delivery::Clients(to.into(), push.clone()));
        }
    }

    /// Leaves a push for connections of a worker.
    pub fn deliver(&mut self, worker: usize, delivery: Delivery) {
        if self.has_changed_keys() {
            // Who is told something by it must not find what was changed before in its cache.
            self.send_invalidations();
        }
        let is_own = worker == self.worker();
        self.desk.pushed |= is_own;
        self.server.deliver(worker, delivery, !is_own);
    }

    /// Whether a command of this worker has pushed something that its own connection may have to
    /// get now.
    #[inline]
    pub fn has_pushed(&self) -> bool {
        self.desk.pushed
    }

    /// There is something to be pushed that the connection in hand may have to get now.
    pub(crate) fn note_push(&mut self) {
        self.desk.pushed = true;
    }

    /// Pushes something to the connection in hand, behind the reply of its command.
    pub(crate) fn push_own(&mut self, push: Push) {
        self.desk.pushed = true;
        self.desk.own.push(push);
    }

    /// The connection was found beyond a limit: it is closed once nobody walks the lists it is in.
    pub(crate) fn doom(&mut self, slot: Slot) {
        self.desk.doomed.push(slot);
    }

    /// Takes what is on its way to this worker's connections, and gives what is for the connection
    /// in hand to `own`.
    pub fn collect_pushes(&mut self, mut own: impl FnMut(&Push)) {
        self.send_invalidations();
        self.desk.pushed = false;
        self.desk.own.drain(..).for_each(|push| own(&push));
        let me = Recipient::of(&self.client);
        let mut taken = self.take_pushes();
        for delivery in taken.drain(..) {
            match &delivery {
                Delivery::Client(to, push) if to.id == me.id => own(push),
                Delivery::Clients(to, push) if to.iter().any(|to| to.id == me.id) => own(push),
                Delivery::Channel(message) => self.copies_of_mine(message, &mut own),
                Delivery::Stale(stale) => stale.pushes_to(me.id).for_each(|push| own(&push)),
                _ => {}
            }
            self.desk.pending.push_back(Pending { delivery, passed: Some(me.slot) });
        }
        self.keep_taken(taken);
    }

    /// Leaves what a command of the connection in hand has pushed for the end of the turn, if
    /// nothing of it can be for that connection itself, and it is not much.
    pub fn leave_pushes(&mut self) -> bool {
        let queue = &self.server.workers[self.worker()].pushes;
        if self.client.listens() || !self.desk.own.is_empty() || queue.bytes() > LEFT_BYTES_MAX {
            return false;
        }
        self.desk.pushed = false;
        true
    }

    /// Whether something is on its way to this worker's connections.
    #[inline]
    pub(crate) fn has_posted_pushes(&self) -> bool {
        self.server.workers[self.worker()].pushes.is_filled()
    }

    /// Takes what is on its way before the subscriptions of the connection in hand change: it is
    /// for those who are subscribed now. What is for the connection in hand waits until it is
    /// asked for, or for the end of its command.
    pub fn collect_before_change(&mut self) {
        let mut own = Vec::new();
        self.collect_pushes(|push| own.push(push.clone()));
        self.desk.pushed = !own.is_empty();
        self.desk.own = own;
    }

    /// What is for the connection in hand and may go before the reply of its command.
    pub fn take_own_pushes(&mut self) -> Vec<Push> {
        std::mem::take(&mut self.desk.own)
    }

    /// Gives the connection in hand its copies of a message: one for each way in which it is
    /// subscribed.
    fn copies_of_mine(&self, message: &Message, own: &mut impl FnMut(&Push)) {
        let Some(mine) = self.subscribers.of(self.client.id) else { return };
        if mine.contains(message.kind(), message.channel()) {
            own(&message.plain());
        }
        for pattern in
            message.patterns().iter().filter(|name| mine.contains(ChannelKind::Pattern, name))
        {
            own(&message.matched(pattern));
        }
    }

    /// Puts a push behind the answer of a connection that has waited, if that is on its way.
    fn put_behind_answer(&mut self, to: Recipient, push: &Push, session: &Session) -> bool {
        let answer = self.answers.iter_mut().find(|(_, id, _)| *id == to.id);
        let Some((_, _, answer)) = answer.filter(|_| session.replies == Replies::On) else {
            return false;
        };
        push.write(session.protocol, &mut answer.bytes, &mut answer.shared);
        true
    }

    /// Takes what is on its way, to be delivered next: in most turns nothing.
    #[inline]
    fn expect_pushes(&mut self) {
        if self.has_posted_pushes() {
            let mut taken = self.take_pushes();
            let pending = taken.drain(..).map(|delivery| Pending { delivery, passed: None });
            self.desk.pending.extend(pending);
            self.keep_taken(taken);
        }
    }

    fn take_pushes(&mut self) -> Vec<Delivery> {
        let mut taken = std::mem::take(&mut self.desk.taken);
        self.desk.overflowed |= self.server.workers[self.worker()].pushes.take(&mut taken);
        taken
    }

    /// Takes back the memory of what was taken.
    fn keep_taken(&mut self, mut taken: Vec<Delivery>) {
        taken.shrink_to(RETAINED_MAX);
        self.desk.taken = taken;
    }

    /// Whether pushes were collected that are not delivered yet.
    #[inline]
    pub fn has_pending_pushes(&self) -> bool {
        !self.desk.pending.is_empty()
    }
}

impl<D: Driver> Worker<D> {
    /// Delivers what has been pushed to this worker's connections: before the commands of a turn
    /// and at its end.
    pub(crate) fn deliver_pushes(&mut self) {
        let host = &mut self.engine.host;
        // What upkeep, and commands that were refused, did to keys.
        if self.engine.exec.ks.has_events() {
            self.engine.exec.publish_events(host);
        }
        if host.has_changed_keys() {
            host.send_invalidations();
        }
        if host.invalidations.is_broadcasting() {
            host.send_broadcasts();
        }
        host.desk.pushed = false;
        host.expect_pushes();
        host.call_workers();
        if host.has_pending_pushes() || host.desk.is_overdue() || host.held.is_ready() {
            // Who was served by another worker and told something by it has the answer first: it
            // was sent first.
            self.hear_answers();
            self.begin();
            self.deliver_pending();
            self.send_held_in_time();
            self.send_some_due();
            self.close_doomed();
            self.engine.exec.end();
        }
    }

    /// Delivers what is on its way before a connection is answered that may be told some of it. The
    /// executor is in a batch. Nothing is closed, since that may have to wait for a slow
    /// script, and what was received is still to be executed.
    #[cold]
    pub(crate) fn deliver_before(&mut self) {
        if self.absent.is_some() {
            // A stand-in has no subscribers.
            return;
        }
        self.engine.host.expect_pushes();
        self.hear_answers();
        self.deliver_expected();
    }

    /// Delivers what was collected amid a batch, before another connection's commands. The executor
    /// is in a batch.
    pub(crate) fn deliver_pending(&mut self) {
        if std::mem::take(&mut self.engine.host.desk.overflowed) {
            self.close_listeners();
        }
        self.deliver_expected();
        self.close_doomed();
    }

    fn deliver_expected(&mut self) {
        while let Some(Pending { delivery, passed }) = self.engine.host.desk.pending.pop_front() {
            match delivery {
                Delivery::Client(to, push) => self.send_push(to, &push, passed),
                Delivery::Clients(to, push) => {
                    to.iter().for_each(|&to| self.send_push(to, &push, passed));
                }
                Delivery::Channel(message) => self.send_message(message, passed),
                Delivery::Stale(stale) => {
                    self.hold(&stale, passed);
                    self.engine.host.held.recycle(stale);
                }
            }
        }
    }

    fn close_doomed(&mut self) {
        // Only now, for a list of listeners must not change while it is walked.
        for slot in std::mem::take(&mut self.engine.host.desk.doomed) {
            if let Some(conn) = self.take(slot) {
                self.settle(conn);
            }
        }
    }

    /// Sends a message, and those behind it that go to the same subscribers, to each subscriber at
    /// once.
    fn send_message(&mut self, message: Arc<Message>, passed: Option<Slot>) {
        let mut run = vec![message];
        let pending = &mut self.engine.host.desk.pending;
        while let Some(Pending { delivery: Delivery::Channel(next), passed: its }) = pending.front()
            && *its == passed
            && run[0].shares_audience(next)
        {
            run.push(next.clone());
            pending.pop_front();
        }
        let message = &run[0];
        let pushes = match &run[..] {
            [one] => Push::both(one.plain()),
            more => Message::joined(more.iter().map(|message| &**message)),
        };
        self.send_to_listeners(message.kind(), message.channel(), &pushes, passed);
        for pattern in message.patterns() {
            let matched = Push::both(message.matched(pattern));
            self.send_to_listeners(ChannelKind::Pattern, pattern, &matched, passed);
        }
    }

    fn send_to_listeners(
        &mut self,
        kind: ChannelKind,
        name: &[u8],
        pushes: &[Push; 2],
        passed: Option<Slot>,
    ) {
        let listeners = self.engine.host.subscribers.take(kind, name);
        let is_long = listeners.len() > MANY;
        for &to in &listeners {
            self.send_either(to, pushes, passed, is_long);
        }
        self.engine.host.subscribers.put_back(kind, name, listeners);
    }

    pub(crate) fn send_push(&mut self, to: Recipient, push: &Push, passed: Option<Slot>) {
        self.send_either(to, &Push::both(push.clone()), passed, false);
    }

    /// Sends a connection the push of its protocol, unless it has been passed it; in one of the
    /// next turns, if it is one of many.
    fn send_either(
        &mut self,
        to: Recipient,
        pushes: &[Push; 2],
        passed: Option<Slot>,
        one_of_many: bool,
    ) {
        if passed == Some(to.slot) {
            return;
        }
        let Some(conn) = self.take(to.slot) else { return };
        let protocol = conn.session.protocol;
        let push = &pushes[usize::from(protocol == Protocol::Resp3)];
        if conn.blocked && self.engine.host.put_behind_answer(to, push, &conn.session) {
            return self.put(conn);
        }
        if conn.client.id != to.id {
            return self.put(conn);
        }
        let mut output = self.output_for(to.slot);
        push.append_to(protocol, &mut output);
        if one_of_many && output.len() < HELD_BYTES_MAX {
            self.put(conn);
            return self.make_due(to.slot, output);
        }
        self.send_output(conn, output);
    }

    /// Closes every connection that may have missed a push.
    fn close_listeners(&mut self) {
        let listens = |conn: &&Conn| conn.client.listens();
        let slots: Vec<Slot> = self.connections().filter(listens).map(|conn| conn.slot).collect();
        tracing::warn!(
            "{} closed: {QUEUE_BYTES_MAX} bytes of messages wait for a worker",
            Counted(slots.len() as u64, "client")
        );
        slots.into_iter().for_each(|slot| self.forget(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn written(push: &Push, protocol: Protocol) -> Vec<u8> {
        [b"before", &push.to_bytes(protocol)[..]].concat()
    }

    #[test]
    fn each_protocol_gets_its_form() {
        let push = Push::new(|reply| {
            reply.push(2);
            reply.bulk(b"invalidate");
            reply.array(1);
            reply.bulk(b"key");
        });
        let body = "2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n";
        assert_eq!(written(&push, Protocol::Resp3), format!("before>{body}").as_bytes());
        assert_eq!(written(&push, Protocol::Resp2), format!("before*{body}").as_bytes());
        let line = Push::raw("+OK\r\n");
        assert_eq!(written(&line, Protocol::Resp2), b"before+OK\r\n");
        assert_eq!(written(&line, Protocol::Resp3), b"before+OK\r\n");
    }

    #[test]
    fn large_parts_are_shared_and_in_their_place() {
        let large = Bytes::from(vec![b'x'; SHARED_LEN_MIN]);
        let push = Push::of_parts(Bytes::from_static(b">2\r\n"), large.clone());
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        push.write(Protocol::Resp2, &mut bytes, &mut shared);
        assert_eq!(bytes, b"*2\r\n");
        assert_eq!(shared.len(), 1);
        assert_eq!(shared[0].1.as_ptr(), large.as_ptr());
        assert_eq!(written(&push, Protocol::Resp3), [b"before>2\r\n", &large[..]].concat());
    }

    #[test]
    fn a_queue_is_bounded_and_wakes_once() {
        let queue = PushQueue::default();
        let to = Recipient { slot: Slot::NOWHERE, id: 1 };
        let push = Push::raw(vec![0; QUEUE_BYTES_MAX / 8]);
        assert!(!queue.has_to_be_called());
        queue.add(Delivery::Client(to, push.clone()));
        assert!(queue.has_to_be_called());
        for _ in 0..20 {
            queue.add(Delivery::Client(to, push.clone()));
            assert!(!queue.has_to_be_called());
        }
        let mut taken = Vec::new();
        assert_eq!((queue.take(&mut taken), taken.len()), (true, 7));
        taken.clear();
        assert_eq!((queue.take(&mut taken), taken.len()), (false, 0));
        queue.add(Delivery::Client(to, push));
        assert!(queue.has_to_be_called());
        assert_eq!((queue.take(&mut taken), taken.len()), (false, 1));
    }

    /// A worker takes what is there whenever it comes by, and sleeps until it is called where there
    /// was nothing.
    #[test]
    fn a_sleeping_worker_is_called_for_whatever_is_added() {
        const ROUNDS: usize = 30_000;
        let queue = PushQueue::default();
        let (call, called) = std::sync::mpsc::channel();
        let taken = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (queue, taken) = (&queue, &taken);
            scope.spawn(move || {
                let mut deliveries = Vec::new();
                while taken.load(Acquire) < ROUNDS {
                    // Turns that have other reasons.
                    for _ in 0..taken.load(Relaxed) % 64 {
                        queue.take(&mut deliveries);
                        taken.fetch_add(deliveries.drain(..).count(), Release);
                        std::hint::spin_loop();
                    }
                    queue.take(&mut deliveries);
                    if deliveries.is_empty() && taken.load(Acquire) < ROUNDS {
                        let called = called.recv_timeout(Duration::from_secs(20));
                        called.expect("called for what was added");
                    }
                    taken.fetch_add(deliveries.drain(..).count(), Release);
                }
            });
            let to = Recipient { slot: Slot::NOWHERE, id: 1 };
            for round in 0..ROUNDS {
                queue.add(Delivery::Client(to, Push::raw("+\r\n")));
                if queue.has_to_be_called() && call.send(()).is_err() {
                    return;
                }
                let since = Instant::now();
                while taken.load(Acquire) <= round && since.elapsed() < Duration::from_secs(30) {
                    std::thread::yield_now();
                }
            }
        });
        assert_eq!(taken.into_inner(), ROUNDS);
    }
}
