//! The agent: the thread that runs the cluster protocol while the node is a member. Each turn
//! handles received messages, then sends.
//!
//! The agent never blocks: bytes that a link does not take are kept (`links.rs`), and a command
//! with an unreachable primary is deferred (`deferred.rs`).

use super::full::ShownFull;
use super::interests::Interests;
use super::jobs::Job;
use super::links::Linked;
use super::logs::PendingWaits;
use super::machine::Machine;
use super::state::answering::Answering;
use super::state::copy::Copies;
use super::state::deferred::{Deferred, Forward, Routability, Waiting};
use super::state::membership::{Membership, State, count};
use super::state::slots::Slots;
use super::state::tasks::TaskReceiver;
use super::transport::{Event, Link, MemberInfo, Transport};
use crate::client::Client;
use crate::state::mailbox::{Message, RemoteReply};
use petrel_cluster::{
    Call, ClusterNode, Identity, Limits, NodeSet, Reply, Route, SLOTS, Slot, View,
};
use petrel_commands::Fail;
use petrel_net::Poll;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{
    Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence,
};
use std::time::{Duration, Instant};

/// Number of commands taken before anything is sent.
const TASKS_PER_TURN: usize = 256;

/// Until it is tried again what cannot be done at the moment.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// Between two looks whether the server is stopping.
const REST: Duration = Duration::from_millis(100);

/// Pause between two times of giving up free memory.
const COLLECT_EVERY: Duration = Duration::from_secs(1);

/// Time for which a link may be ahead of this member's view.
pub(super) const EARLY_MAX: Duration = Duration::from_secs(1);

/// Between two lines of the log about links to one member.
pub(super) const COMPLAINT_PAUSE: Duration = Duration::from_secs(10);

/// Resources that survive a rejoin: executor, transport, task queue, poller.
pub(super) struct AgentResources {
    pub machine: Machine,
    pub transport: Box<dyn Transport>,
    pub tasks: TaskReceiver,
    pub poll: Poll,
}

/// The beginning of a life.
pub(super) struct Admission {
    pub identity: Identity,
    pub view: Arc<View>,
    pub members: Arc<[MemberInfo]>,
}

/// Phase of a member (`phase.rs`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MemberPhase {
    /// The data are not known to be the cluster's, and no member is known that has them.
    Waiting,
    /// Fetching the data from a member (`copy.rs`).
    Fetching,
    /// Clients are served.
    Serving,
}

pub(super) struct Agent {
    pub(super) node: ClusterNode,
    pub(super) machine: Machine,
    pub(super) transport: Box<dyn Transport>,
    tasks: TaskReceiver,
    pub(super) poll: Poll,
    /// Readiness of the sockets after the last wait.
    pub(super) ready: Vec<bool>,
    pub(super) membership: Arc<Membership>,
    pub(super) phase: MemberPhase,
    /// The server is a member no longer.
    is_expelled: bool,
    /// Clients of forwarded commands.
    pub(super) waiting: HashMap<u64, Waiting>,
    last_token: u64,
    pub(super) deferred: Deferred,
    /// By the numbers of members.
    pub(super) linked: BTreeMap<u16, Linked>,
    /// Members without a link, since when, or since their commands were given up.
    pub(super) lost: BTreeMap<u16, Instant>,
    pub(super) copies: Copies,
    pub(super) slots: Slots,
    /// The epoch of the local log that is on the disk, as this turn has seen it.
    pub(super) durable: u64,
    /// Buffers for received bytes and for bytes to send.
    pub(super) received: Vec<u8>,
    /// See `received`.
    pub(super) sent: Vec<u8>,
    /// Something is to be looked at soon.
    copies_go_on: bool,
    /// Time of the last attempt of blocked commands that become ready by time alone.
    pub(super) polled: Option<Instant>,
    /// Time of the last log line about a closed link, by member.
    pub(super) complained: BTreeMap<u16, Instant>,
    /// Acknowledgements may have come, or owners have changed.
    pub(super) has_news: bool,
    /// Acknowledgements of other members.
    pub(super) answering: Answering,
    /// Members on other hosts.
    pub(super) elsewhere: NodeSet,
    /// Members without memory as logged.
    pub(super) shown_full: ShownFull,
    /// What other members were told that clients here want to hear of.
    pub(super) interests: Interests,
    /// Whether the other members were notified that this server keeps data on disk.
    keeps_data: bool,
    /// By worker.
    replies: Vec<Vec<RemoteReply>>,
    /// Time of the last [`Agent::collect_memory`].
    collected: Option<Instant>,
}

impl Agent {
    /// The agent of a member that serves no client yet.
    pub fn new(
        resources: AgentResources,
        membership: Arc<Membership>,
        admission: Admission,
    ) -> Self {
        let Admission { identity, view, members } = admission;
        let has_data = membership.may_begin_with_own_data(identity, &view, &members);
        let acknowledge = membership.acknowledge;
        let (limits, own) = (Limits { acknowledge, ..Limits::default() }, membership.own.clone());
        let node = ClusterNode::with(identity, View::clone(&view), limits, own);
        let node = if has_data { node } else { node.without_data() };
        let waker = membership.waker.clone();
        node.lanes().wake_by(move || waker.wake());
        *membership.state.lock() = State { me: Some(identity), view, members, ..State::default() };
        let AgentResources { mut machine, transport, tasks, poll } = resources;
        machine.own = identity;
        machine.lanes = Some(node.lanes().clone());
        machine.pending_waits = PendingWaits::default();
        membership.known_logs.begin();
        *membership.lanes.write() = machine.lanes.clone();
        let mut interests = Interests::default();
        interests.note_view(identity, &[], node.view());
        machine.begin_life();
        Agent {
            node,
            interests,
            has_news: false,
            keeps_data: false,
            replies: machine.host.server.workers.iter().map(|_| Vec::new()).collect(),
            collected: None,
            machine,
            transport,
            tasks,
            poll,
            ready: Vec::new(),
            membership,
            phase: MemberPhase::Waiting,
            is_expelled: false,
            waiting: HashMap::new(),
            last_token: 0,
            deferred: Deferred::default(),
            linked: BTreeMap::new(),
            lost: BTreeMap::new(),
            copies: Copies::default(),
            slots: Slots::default(),
            durable: 0,
            received: Vec::new(),
            sent: Vec::new(),
            copies_go_on: false,
            polled: None,
            complained: BTreeMap::new(),
            answering: Answering::default(),
            elsewhere: NodeSet::default(),
            shown_full: ShownFull::default(),
        }
    }

    /// Until the server stops, or is a member no longer.
    pub fn run(&mut self) {
        self.admitted();
        self.note_hosts();
        while !self.machine.host.server.is_stopping() && !self.is_expelled {
            if !self.turn() {
                self.rest();
            }
        }
    }

    /// This member's identity.
    pub(super) fn identity(&self) -> Identity {
        self.node.identity()
    }

    /// Ends the membership; returns the resources for a rejoin. Clients waiting for another
    /// member's reply get an error; deferred commands have not been executed.
    pub fn end(mut self) -> AgentResources {
        self.stop_loading_slots();
        let tokens: Vec<u64> = self.waiting.keys().copied().collect();
        tokens.into_iter().for_each(|token| self.take_reply(token, Reply::Unknown));
        for forward in std::mem::take(&mut self.deferred).into_all() {
            self.refuse(&forward.client, forward.seq, &Fail::PRIMARY_CHANGING);
        }
        self.deliver_replies();
        let Agent { machine, transport, tasks, poll, .. } = self;
        AgentResources { machine, transport, tasks, poll }
    }

    /// Handles received messages and sends; returns whether there is more to do at once.
    fn turn(&mut self) -> bool {
        self.machine.begin_turn();
        self.note_keeping();
        let drains = self.membership.drain.is_wanted.load(Acquire);
        let (mut has_more, mut has_taken_all) = (false, false);
        // The commands of these clients are in the queue by now, or before it.
        let unwatched = std::mem::take(&mut *self.membership.unwatched.lock());
        for _ in 0..TASKS_PER_TURN {
            let Some(forward) = self.tasks.take() else {
                has_taken_all = true;
                break;
            };
            self.take_command(forward);
        }
        has_more |= !has_taken_all;
        while let Some(event) = self.membership.events.take() {
            self.take_event(event);
            if self.is_expelled {
                // What follows is the next life's, its admission too.
                return true;
            }
        }
        self.note_answering();
        self.note_full();
        self.attend_interests();
        // Other members' commands wait in the sockets until the lease is renewed.
        if !self.membership.is_renewing() {
            has_more |= self.receive_all();
        }
        if !self.deferred.is_empty() {
            self.retry_deferred();
        }
        self.close_early();
        self.give_up_lost();
        self.copies_go_on = self.go_on_with_copies();
        has_more |= self.go_on_with_slots();
        self.attend_waiters();
        self.look_at_log();
        has_more |= self.go_on_with_jobs();
        self.answer_logs();
        self.attend_known_logs();
        self.end_watches(unwatched, has_taken_all);
        self.attend_away();
        self.machine.end_turn();
        has_more |= self.send();
        self.deliver_replies();
        if drains && has_taken_all && self.is_drained() {
            self.membership.drain.is_over.store(true, Release);
        }
        if std::mem::take(&mut self.has_news) {
            self.wake_awaiting();
        }
        has_more
    }

    /// Reports once that this server keeps data on disk: its slots do not start empty elsewhere.
    fn note_keeping(&mut self) {
        let config = &self.machine.host.config;
        if !self.keeps_data && (config.appendonly || !config.save.is_empty()) {
            self.keeps_data = true;
            self.transport.keeps_data();
        }
    }

    /// Whether no client waits for a reply that depends on other members, except blocked ones.
    fn is_drained(&self) -> bool {
        let workers = &self.machine.host.server.workers;
        self.deferred.is_empty()
            && self.waiting.values().all(|waiting| waiting.is_parked)
            && !workers.iter().any(|worker| worker.awaits_owners.load(Relaxed))
    }

    /// Wakes workers with output that waits for other owners.
    fn wake_awaiting(&self) {
        fence(SeqCst);
        let workers = self.machine.host.server.workers.iter();
        let awaiting = workers.filter(|worker| worker.awaits_owners.load(Relaxed));
        awaiting.for_each(|worker| worker.wake());
    }

    /// Waits for something to do.
    fn rest(&mut self) {
        self.node.lanes().rest(true);
        let is_waiting = |linked: &Linked| linked.is_early() || linked.pipe.is_blocked();
        let has_to_retry =
            !self.deferred.is_empty() || self.linked.values().any(is_waiting) || self.copies_go_on;
        let has_to_retry = has_to_retry || self.membership.is_renewing();
        let pause = if has_to_retry {
            RETRY_PAUSE
        } else {
            self.rest_of_logs(self.rest_of_jobs(self.rest_of_waits(REST)))
        };
        // A commit before this check does not wake the agent.
        let pause = if self.send() { Duration::ZERO } else { self.rest_of_acks(pause) };
        self.wait(pause);
        self.node.lanes().rest(false);
        self.collect_memory();
        // What other threads have ready goes out with it.
        self.poll.give_turn();
    }

    /// Gives up free pages of this thread's general allocator: a view takes megabytes for a moment.
    fn collect_memory(&mut self) {
        let now = Instant::now();
        if self.collected.is_none_or(|last| now.duration_since(last) >= COLLECT_EVERY) {
            self.machine.host.server.process.collect_thread();
            self.collected = Some(now);
        }
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Admitted(identity, ..) => {
                tracing::error!("member {} is admitted before it has gone", identity.node.0);
            }
            Event::Expelled => self.is_expelled = true,
            Event::View(view, members) => self.adopt(&view, members),
            Event::LinkUp(link, pipe) => self.link_up(link, pipe),
            Event::LinkDown(link) => self.link_down(link),
        }
    }

    /// Adopts the next view, between the commands of all workers.
    fn adopt(&mut self, view: &View, members: Arc<[MemberInfo]>) {
        if view.epoch <= self.node.view().epoch {
            return;
        }
        self.has_news = true;
        let (me, own) = (self.identity().node, self.node.local_slots());
        // If all members hold everything, readability does not change.
        let here = |slot: Slot| (own.primary(slot) == Some(me), own.is_readable(slot));
        let before: Vec<(bool, bool)> = (0..SLOTS).map(here).collect();
        self.machine.exec.begin();
        self.machine.exec.ks.lock_all();
        let dismissed = self.dismiss_waiters(|tag, waiter| {
            let mut primaries = waiter.slots.iter().map(|&slot| view.slots.primary(slot));
            view.member(tag.origin.node) != Some(tag.origin)
                || primaries.any(|primary| primary != Some(me))
        });
        let readable = |&slot: &Slot| own.is_readable(slot);
        let read: Vec<Slot> = (0..SLOTS).filter(readable).collect();
        let former = self.node.view().members.clone();
        let is_adopted = self.node.begin_view(view.clone());
        let has_missed = self.node.has_missed_changes() || !read.iter().all(readable);
        self.interests.note_view(self.identity(), &former, self.node.view());
        self.note_tracking();
        self.machine.exec.ks.unlock();
        self.machine.exec.end();
        self.note_readers(&former, has_missed);
        self.send_back(dismissed);
        self.machine.drop_watches(|origin, slots| {
            let mut primaries = slots.iter().map(|&slot| view.slots.primary(slot));
            view.member(origin.node) != Some(origin) || primaries.any(|primary| primary != Some(me))
        });
        let jobs = &mut self.machine.jobs;
        jobs.retain(|job| view.member(job.tag.origin.node) == Some(job.tag.origin));
        jobs.iter_mut().for_each(Job::note_view);
        if !is_adopted {
            tracing::error!("view {} cannot follow {} here", view.epoch, self.node.view().epoch);
            return self.transport.rejoin(self.identity());
        }
        self.node.resume_pending(&mut self.machine);
        let is_gone = |link: &Link| view.member(link.peer.node) != Some(link.peer);
        self.links().into_iter().filter(is_gone).for_each(|link| self.close(link));
        {
            let mut state = self.membership.state.lock();
            (state.view, state.members) = (Arc::new(view.clone()), members);
        }
        let is_lost = |(slot, was): (Slot, (bool, bool))| {
            let is = here(slot);
            was.0 && !is.0 || was.1 && !is.1
        };
        self.note_hosts();
        if (0..SLOTS).zip(before).any(is_lost) {
            // Clients that wait here for keys of such slots would wait at the wrong place.
            let server = &self.machine.host.server;
            (0..server.workers.len()).for_each(|worker| server.tell(worker, Message::Moved));
        }
        self.links().into_iter().for_each(|link| self.receive(link, &[]));
        self.stand_in_view();
    }

    /// Whether a command can be sent to the primary of its slots, or executed if that is here.
    fn routability(&self, call: &Call) -> Routability {
        match self.node.route(&call.slots) {
            Route::Here if self.membership.is_renewing() => {
                Routability::Closed(Fail::SLOT_UNSERVED)
            }
            Route::Here | Route::Apart => Routability::Open,
            Route::At(primary) if self.node.is_linked(primary) => Routability::Open,
            Route::At(_) => Routability::Closed(Fail::PRIMARY_UNREACHABLE),
            Route::Later => Routability::Closed(Fail::PRIMARY_CHANGING),
            Route::Nowhere => Routability::Closed(Fail::SLOT_UNSERVED),
        }
    }

    pub(super) fn take_command(&mut self, forward: Forward) {
        let way = self.routability(&forward.call);
        match way {
            Routability::Open if !self.deferred.holds(&forward.call.slots) => {
                return self.forward(forward);
            }
            // Nothing changes soon without a majority.
            Routability::Closed(fail)
                if !self.membership.has_lease() && !self.membership.is_renewing() =>
            {
                return self.turn_back(&forward, &fail);
            }
            _ => {}
        }
        if let Err(refused) = self.deferred.add(Instant::now(), forward) {
            self.turn_back(&refused, &Fail::TOO_MUCH_FORWARDED);
        }
    }

    /// Refuses a command that was not sent. The keys that its client has watched for it are watched
    /// in vain.
    fn turn_back(&mut self, forward: &Forward, fail: &Fail) {
        let Call { is_transaction, client, ref slots, .. } = forward.call;
        if let (true, Some(client), Some(&slot)) = (is_transaction, client, slots.first()) {
            self.node.unwatch(slot, client, &mut self.machine);
        }
        self.refuse(&forward.client, forward.seq, fail);
    }

    fn retry_deferred(&mut self) {
        let mut deferred = std::mem::take(&mut self.deferred);
        for (forward, fail) in deferred.take(Instant::now(), |call| self.routability(call)) {
            match fail {
                None => self.forward(forward),
                Some(fail) => self.turn_back(&forward, &fail),
            }
        }
        self.deferred = deferred;
    }

    fn forward(&mut self, Forward { client, seq, call, rest }: Forward) {
        self.attend_interests();
        self.last_token += 1;
        let token = self.last_token;
        let primary = self.node.route(&call.slots);
        match self.node.forward(token, call, &mut self.machine) {
            Ok(_) => {
                count(&self.membership.figures.forwarded, 1);
                if let Route::At(primary) = primary {
                    count(&self.membership.figures.peer(primary.0).forwarded, 1);
                }
                let waiting = Waiting::new(client, seq);
                self.waiting.insert(token, Waiting { rest, ..waiting });
            }
            Err(_) => self.refuse(&client, seq, &Fail::TOO_MUCH_FORWARDED),
        }
    }

    pub(super) fn refuse(&mut self, client: &Client, seq: u64, fail: &Fail) {
        self.leave(client, seq, fail.to_reply());
    }

    pub(super) fn reply(&mut self, client: &Client, seq: u64, reply: Reply) {
        let bytes = match reply.error() {
            Some(error) => format!("-{error}\r\n").into_bytes(),
            None => match reply {
                Reply::Bytes(bytes) => bytes,
                _ => Vec::new(),
            },
        };
        self.leave(client, seq, bytes);
    }

    fn leave(&mut self, client: &Client, seq: u64, reply: Vec<u8>) {
        if let Some(replies) = self.replies.get_mut(usize::from(client.worker)) {
            replies.push(RemoteReply { slot: client.slot, id: client.id, seq, reply });
        }
    }

    fn deliver_replies(&mut self) {
        for (worker, replies) in self.replies.iter_mut().enumerate() {
            if !replies.is_empty() {
                let replies = Message::Remote(std::mem::take(replies));
                self.machine.host.server.tell(worker, replies);
            }
        }
    }
}
