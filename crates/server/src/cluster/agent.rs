//! The agent: the thread that holds the cluster's protocol, in one life of the member. In each turn
//! it takes what has come, then sends what there is to be sent.
//!
//! It never waits: a transport that takes nothing more is offered the rest later, and a
//! command whose home is out of reach waits by itself (`deferred.rs`).

use super::away::Waiting;
use super::copy::Copies;
use super::deferred::{Deferred, Forward, Way};
use super::jobs::Job;
use super::lives::{Admission, Hands};
use super::logs::Owed;
use super::machine::Machine;
use super::slots::Slots;
use super::standing::Standing;
use super::{Backlogged, Event, Link, MemberInfo, Membership, State, Transport, count};
use crate::client::Client;
use crate::event_loop::mailbox::{Message, RemoteReply};
use crate::server::unix_ms;
use petrel_cluster::{
    Call, ClusterNode, Identity, Limits, Received, Reply, Route, SLOTS, Slot, View,
};
use petrel_commands::Fail;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// What is taken before anything is sent.
const TASKS_PER_TURN: usize = 256;

/// Bytes that are sent to a member at a time.
const SEND_BYTES: usize = 256 * 1024;

/// Until it is tried again what cannot be done at the moment.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// Between two looks whether the server is stopping.
const REST: Duration = Duration::from_millis(100);

/// How long a link may be ahead of the view of this member.
const EARLY_MAX: Duration = Duration::from_secs(1);

/// Between two lines of the log about links to one member.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(10);

/// What comes to the agent.
pub(super) enum Task {
    /// From the members' side of the process.
    Event(Event),
    /// A command of a client of this server.
    Forward { client: Arc<Client>, seq: u64, call: Call },
    /// There is something in the lanes.
    Wake,
}

pub(super) struct Agent {
    pub(super) node: ClusterNode,
    pub(super) machine: Machine,
    pub(super) transport: Box<dyn Transport>,
    tasks: Receiver<Task>,
    next: Option<Task>,
    pub(super) membership: Arc<Membership>,
    pub(super) standing: Standing,
    /// The server is a member no longer.
    is_expelled: bool,
    /// Clients of forwarded commands.
    pub(super) waiting: HashMap<u64, Waiting>,
    last_token: u64,
    pub(super) deferred: Deferred,
    pub(super) linked: BTreeMap<u16, Link>,
    pub(super) copies: Copies,
    pub(super) slots: Slots,
    /// What the transport did not take.
    pub(super) backlog: BTreeMap<u16, Vec<u8>>,
    /// Something is to be looked at soon.
    copies_go_on: bool,
    /// When commands that wait here, and that time alone may serve, were tried last.
    pub(super) polled: Option<Instant>,
    /// Links that are ahead of the view, and since when.
    early: BTreeMap<u16, Instant>,
    /// When a line of the log has last said that a link was closed.
    complained: BTreeMap<u16, Instant>,
    /// By worker.
    replies: Vec<Vec<RemoteReply>>,
}

impl Agent {
    /// The agent of a member that serves no client yet.
    pub fn new(hands: Hands, membership: Arc<Membership>, admission: Admission) -> Self {
        let Admission { identity, view, members } = admission;
        let has_data = membership.may_begin_with_own_data(identity, &view, &members);
        let (limits, own) = (Limits::default(), membership.own.clone());
        let node = ClusterNode::with(identity, View::clone(&view), limits, own);
        let node = if has_data { node } else { node.without_data() };
        let wake = membership.tasks.clone();
        // If it is full the agent is awake.
        node.lanes().wake_by(move || drop(wake.try_send(Task::Wake)));
        *membership.state.lock() = State { me: Some(identity), view, members, ..State::default() };
        let Hands { mut machine, transport, tasks } = hands;
        machine.own = identity;
        machine.lanes = Some(node.lanes().clone());
        machine.owed = Owed::default();
        *membership.lanes.write() = machine.lanes.clone();
        Agent {
            node,
            replies: machine.host.server.workers.iter().map(|_| Vec::new()).collect(),
            machine,
            transport,
            tasks,
            next: None,
            membership,
            standing: Standing::Waiting,
            is_expelled: false,
            waiting: HashMap::new(),
            last_token: 0,
            deferred: Deferred::default(),
            linked: BTreeMap::new(),
            copies: Copies::default(),
            slots: Slots::default(),
            backlog: BTreeMap::new(),
            copies_go_on: false,
            polled: None,
            early: BTreeMap::new(),
            complained: BTreeMap::new(),
        }
    }

    /// Until the server stops, or is a member no longer.
    pub fn run(&mut self) {
        self.admitted();
        while !self.machine.host.server.is_stopping() && !self.is_expelled {
            if !self.turn() {
                self.rest();
            }
        }
    }

    /// Who this member is.
    pub(super) fn identity(&self) -> Identity {
        self.node.identity()
    }

    /// What remains of this life for the next one. A client that waits for another member's reply
    /// hears that it will not come; nothing of what has waited here was executed.
    pub fn end(mut self) -> Hands {
        self.stop_loading_slots();
        let tokens: Vec<u64> = self.waiting.keys().copied().collect();
        tokens.into_iter().for_each(|token| self.take_reply(token, Reply::Unknown));
        for forward in std::mem::take(&mut self.deferred).into_all() {
            self.refuse(&forward.client, forward.seq, &Fail::HOME_CHANGING);
        }
        self.deliver_replies();
        let Agent { machine, transport, tasks, .. } = self;
        Hands { machine, transport, tasks }
    }

    /// Takes what has come, and sends; false if there was nothing to do.
    fn turn(&mut self) -> bool {
        self.machine.begin_turn();
        let (mut has_worked, mut has_taken_all) = (false, false);
        // The commands of these clients are in the queue by now, or before it.
        let unwatched = std::mem::take(&mut *self.membership.unwatched.lock());
        for _ in 0..TASKS_PER_TURN {
            let next = self.next.take().or_else(|| self.tasks.try_recv().ok());
            let Some(task) = next else {
                has_taken_all = true;
                break;
            };
            has_worked = true;
            match task {
                Task::Event(event) => self.take_event(event),
                Task::Forward { client, seq, call } => {
                    self.take_command(Forward { client, seq, call });
                }
                Task::Wake => {}
            }
            if self.is_expelled {
                // What follows is the next life's, its admission too.
                return true;
            }
        }
        for _ in 0..TASKS_PER_TURN {
            let Some(event) = self.membership.events.take() else { break };
            has_worked = true;
            self.take_event(event);
            if self.is_expelled {
                return true;
            }
        }
        for link in self.membership.events.resumable() {
            self.transport.resume(link);
        }
        if !self.deferred.is_empty() {
            self.retry_deferred();
        }
        self.close_early();
        self.copies_go_on = self.go_on_with_copies();
        has_worked |= self.go_on_with_slots();
        self.attend_waiters();
        has_worked |= self.go_on_with_jobs();
        self.answer_logs();
        self.end_watches(unwatched, has_taken_all);
        self.attend_away();
        self.machine.end_turn();
        let has_sent = self.send();
        self.deliver_replies();
        has_worked | has_sent
    }

    /// Waits for something to do.
    fn rest(&mut self) {
        self.node.lanes().rest(true);
        let has_to_retry = !self.deferred.is_empty()
            || !self.backlog.is_empty()
            || !self.early.is_empty()
            || self.copies_go_on;
        let pause = if has_to_retry {
            RETRY_PAUSE
        } else {
            self.rest_of_logs(self.rest_of_jobs(self.rest_of_waits(REST)))
        };
        // Commits before this look do not wake the agent.
        if !self.send() {
            self.next = self.tasks.recv_timeout(pause).ok();
            // What other threads have ready goes out with it.
            std::thread::yield_now();
        }
        self.node.lanes().rest(false);
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Admitted(identity, ..) => {
                tracing::error!("member {} is admitted before it has gone", identity.node.0);
            }
            Event::Expelled => self.is_expelled = true,
            Event::View(view, members) => self.adopt(&view, members),
            Event::LinkUp(link) => {
                self.forget_link(link);
                self.node.link(link.peer.node);
                if self.node.is_linked(link.peer.node) {
                    self.linked.insert(link.peer.node.0, link);
                    self.show_links();
                }
            }
            Event::LinkDown(link) => {
                if self.is_current(link) {
                    self.node.unlink(link.peer.node);
                    self.forget_link(link);
                    self.show_links();
                }
            }
            Event::Frame(link, bytes) => {
                if self.is_current(link) {
                    let figures = &self.membership.figures;
                    count(&figures.received, bytes.len());
                    count(&figures.peer(link.peer.node.0).received, bytes.len());
                    self.receive(link, &bytes);
                }
            }
        }
    }

    fn is_current(&self, link: Link) -> bool {
        self.linked.get(&link.peer.node.0) == Some(&link)
    }

    fn forget_link(&mut self, link: Link) {
        let before = self.linked.remove(&link.peer.node.0);
        before.into_iter().for_each(|before| self.part_from_waiters_of(before.peer));
        self.backlog.remove(&link.peer.node.0);
        self.early.remove(&link.peer.node.0);
    }

    fn show_links(&self) {
        let linked = &mut self.membership.state.lock().linked;
        let before = std::mem::take(linked);
        *linked = self
            .linked
            .values()
            .map(|link| {
                let known = before.iter().find(|(peer, _)| *peer == link.peer);
                known.copied().unwrap_or_else(|| (link.peer, unix_ms()))
            })
            .collect();
    }

    fn receive(&mut self, link: Link, bytes: &[u8]) {
        let node = link.peer.node;
        match self.node.receive(node, bytes, &mut self.machine) {
            Ok(Received::All) => drop(self.early.remove(&node.0)),
            Ok(Received::Early) => {
                self.early.entry(node.0).or_insert_with(Instant::now);
            }
            Err(error) => {
                self.complain(link, &error.to_string());
                self.close(link);
            }
        }
    }

    pub(super) fn close(&mut self, link: Link) {
        self.node.unlink(link.peer.node);
        self.forget_link(link);
        self.show_links();
        self.transport.close(link);
    }

    /// Closes links that have waited for long for a view: what they send would have to be kept.
    fn close_early(&mut self) {
        let is_late = |since: &Instant| since.elapsed() >= EARLY_MAX;
        let late = self.early.iter().find(|(_, since)| is_late(since)).map(|(node, _)| *node);
        if let Some(link) = late.and_then(|node| self.linked.get(&node).copied()) {
            self.complain(link, "it is ahead of the view here");
            self.close(link);
        }
    }

    /// Says why a link is closed, unless that was said of the member a moment ago: links come back.
    fn complain(&mut self, link: Link, why: &str) {
        let (number, now) = (link.peer.node.0, Instant::now());
        let last = self.complained.get(&number);
        if last.is_none_or(|last| now.duration_since(*last) >= COMPLAINT_PAUSE) {
            tracing::warn!("cluster: the link to member {number} is closed: {why}");
            self.complained.insert(number, now);
        }
    }

    /// Adopts the next view, between the commands of all workers.
    fn adopt(&mut self, view: &View, members: Arc<[MemberInfo]>) {
        if view.epoch <= self.node.view().epoch {
            return;
        }
        let (me, own) = (self.identity().node, self.node.own_slots());
        // Where all hold everything, what is read is here before and after.
        let here = |slot: Slot| (own.home(slot) == Some(me), own.is_readable(slot));
        let before: Vec<(bool, bool)> = (0..SLOTS).map(here).collect();
        self.machine.exec.begin();
        self.machine.exec.ks.lock_all();
        let dismissed = self.dismiss_waiters(|tag, waiter| {
            let mut homes = waiter.slots.iter().map(|&slot| view.slots.primary(slot));
            view.member(tag.origin.node) != Some(tag.origin) || homes.any(|home| home != Some(me))
        });
        let readable = |&slot: &Slot| own.is_readable(slot);
        let read: Vec<Slot> = (0..SLOTS).filter(readable).collect();
        let is_adopted = self.node.begin_view(view.clone());
        if !read.iter().all(readable) {
            // Clients may have cached that such a slot has no key of a name.
            self.machine.exec.ks.forget_all_readers();
        }
        self.machine.exec.ks.unlock();
        self.machine.exec.end();
        self.send_back(dismissed);
        self.machine.drop_watches(|origin, slots| {
            let mut homes = slots.iter().map(|&slot| view.slots.primary(slot));
            view.member(origin.node) != Some(origin) || homes.any(|home| home != Some(me))
        });
        let jobs = &mut self.machine.jobs;
        jobs.retain(|job| view.member(job.tag.origin.node) == Some(job.tag.origin));
        jobs.iter_mut().for_each(Job::note_view);
        if !is_adopted {
            tracing::error!("view {} cannot follow {} here", view.epoch, self.node.view().epoch);
            return self.transport.rejoin(self.identity());
        }
        self.node.go_on(&mut self.machine);
        let is_gone = |link: &Link| view.member(link.peer.node) != Some(link.peer);
        let gone: Vec<Link> = self.linked.values().copied().filter(is_gone).collect();
        gone.into_iter().for_each(|link| self.close(link));
        {
            let mut state = self.membership.state.lock();
            (state.view, state.members) = (Arc::new(view.clone()), members);
        }
        let is_lost = |(slot, was): (Slot, (bool, bool))| {
            let is = here(slot);
            was.0 && !is.0 || was.1 && !is.1
        };
        if (0..SLOTS).zip(before).any(is_lost) {
            // Clients that wait here for keys of such slots would wait at the wrong place.
            let server = &self.machine.host.server;
            (0..server.workers.len()).for_each(|worker| server.tell(worker, Message::Moved));
        }
        for link in self.linked.values().copied().collect::<Vec<_>>() {
            self.receive(link, &[]);
        }
        self.stand_in_view();
    }

    /// Whether a command can be sent to the home of its slots, or executed if that is here.
    fn way(&self, call: &Call) -> Way {
        match self.node.route_of(&call.slots, call.by_key) {
            Route::Here | Route::Apart => Way::Open,
            Route::At(home) if self.node.is_linked(home) => Way::Open,
            Route::At(_) => Way::Closed(Fail::HOME_UNREACHABLE),
            Route::Later => Way::Closed(Fail::HOME_CHANGING),
            Route::Nowhere => Way::Closed(Fail::SLOT_UNSERVED),
        }
    }

    fn take_command(&mut self, forward: Forward) {
        let slots = &forward.call.slots;
        if !self.deferred.holds(slots) && matches!(self.way(&forward.call), Way::Open) {
            return self.forward(forward);
        }
        if let Err(refused) = self.deferred.add(Instant::now(), forward) {
            self.refuse(&refused.client, refused.seq, &Fail::TOO_MUCH_FORWARDED);
        }
    }

    fn retry_deferred(&mut self) {
        let mut deferred = std::mem::take(&mut self.deferred);
        for (forward, fail) in deferred.take(Instant::now(), |call| self.way(call)) {
            match fail {
                None => self.forward(forward),
                Some(fail) => self.refuse(&forward.client, forward.seq, &fail),
            }
        }
        self.deferred = deferred;
    }

    fn forward(&mut self, Forward { client, seq, call }: Forward) {
        self.last_token += 1;
        let token = self.last_token;
        let home = self.node.route_of(&call.slots, call.by_key);
        let is_share = call.slots.len() > 1 && !call.is_transaction && {
            let args = call.commands.first().map(Vec::as_slice).unwrap_or_default();
            self.machine.is_share(&args.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        match self.node.forward(token, call, &mut self.machine) {
            Ok(_) => {
                count(&self.membership.figures.forwarded, 1);
                if let Route::At(home) = home {
                    count(&self.membership.figures.peer(home.0).forwarded, 1);
                }
                self.waiting.insert(token, Waiting::new(client, seq, is_share));
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

    /// Sends members what there is for them; false if there was nothing, or they take nothing.
    fn send(&mut self) -> bool {
        let mut has_sent = false;
        for (&number, &link) in &self.linked {
            let mut bytes = self.backlog.remove(&number).unwrap_or_default();
            if bytes.is_empty() && !self.node.send(link.peer.node, SEND_BYTES, &mut bytes) {
                continue;
            }
            let len = bytes.len();
            match self.transport.send(link, bytes) {
                Ok(()) => {
                    has_sent = true;
                    count(&self.membership.figures.sent, len);
                    count(&self.membership.figures.peer(number).sent, len);
                }
                Err(Backlogged(bytes)) => drop(self.backlog.insert(number, bytes)),
            }
        }
        has_sent
    }
}
