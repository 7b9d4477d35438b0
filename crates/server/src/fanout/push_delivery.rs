//! Pushes on their way: into the queue of a worker, and from it to connections.

use crate::client::Client;
use crate::event_loop::connection::Conn;
use crate::event_loop::worker::Worker;
use crate::host::ServerHost;
use crate::observation::pluralized::Pluralized;
use crate::server::Server;
use crate::state::invalidation_queue::HELD_BYTES_MAX;
use crate::state::outbox::{
    Delivery, LEFT_BYTES_MAX, MANY, Pending, Push, QUEUE_BYTES_MAX, RETAINED_MAX, Recipient,
};
use crate::state::pubsub::{ChannelKind, Message};
use petrel_commands::{Replies, ReplySlots, Session};
use petrel_net::{Driver, Slot};
use petrel_resp::Protocol;
use std::sync::Arc;

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

impl ServerHost {
    /// Sends a push to a connection of any worker. The connection that is executing the current
    /// command gets it after the reply.
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
            // A receiver must not find a stale value in its cache after the push.
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

    /// Records that the current connection may have a push to get now.
    pub(crate) fn note_push(&mut self) {
        self.desk.pushed = true;
    }

    /// Pushes something to the connection being served, behind the reply of its command.
    pub(crate) fn push_own(&mut self, push: Push) {
        self.desk.pushed = true;
        self.desk.own.push(push);
    }

    /// The connection was found beyond a limit: it is closed once no thread walks the lists it is
    /// in.
    pub(crate) fn doom(&mut self, slot: Slot) {
        self.desk.doomed.push(slot);
    }

    /// Takes queued pushes to this worker's connections, and passes pushes to the current
    /// connection to `own`.
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

    /// Leaves pushes of the current command for the end of the turn, if none can be for the current
    /// connection and they are few. Returns whether it did.
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

    /// Takes queued pushes before the current connection's subscriptions change: they are for
    /// present subscribers. Pushes to the current connection wait until they are taken, or for the
    /// end of its command.
    pub fn collect_before_change(&mut self) {
        let mut own = Vec::new();
        self.collect_pushes(|push| own.push(push.clone()));
        self.desk.pushed = !own.is_empty();
        self.desk.own = own;
    }

    /// Pushes to the current connection that may precede the reply of its command.
    pub fn take_own_pushes(&mut self) -> Vec<Push> {
        std::mem::take(&mut self.desk.own)
    }

    /// Gives the connection being served its copies of a message: one for each way in which it is
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

    /// Takes queued pushes for delivery; in most turns there are none.
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

    /// Takes back the buffer.
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
    /// Delivers pushes to this worker's connections: before the commands of a turn and at its end.
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
            // A blocked client served by another worker gets its reply first: it was sent before
            // the push.
            self.handle_replies();
            self.begin();
            self.deliver_pending();
            self.send_held_in_time();
            self.send_some_due();
            self.close_doomed();
            self.engine.exec.end();
        }
    }

    /// Delivers queued pushes before a connection that may get some of them is answered. The
    /// executor is in a batch. No connection is closed, since that may have to wait for a slow
    /// script, and received input is still to be executed.
    #[cold]
    pub(crate) fn deliver_before(&mut self) {
        if self.detached.is_some() {
            // A stand-in has no subscribers.
            return;
        }
        self.engine.host.expect_pushes();
        self.handle_replies();
        self.deliver_expected();
    }

    /// Delivers pushes collected in the middle of a batch, before another connection's commands.
    /// The executor is in a batch.
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
        if conn.session.reply_slots().is_some_and(ReplySlots::delays_invalidations) {
            let mut output = self.driver.output();
            push.append_to(protocol, &mut output);
            let mut conn = conn;
            conn.hold_replies(&mut output);
            self.driver.recycle(output);
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
            Pluralized(slots.len() as u64, "client")
        );
        slots.into_iter().for_each(|slot| self.forget(slot));
    }
}
