//! State machine of one node, without sockets, threads or a clock. Its host passes in received
//! bytes and agreed views, executes commands on request, and sends the bytes that the node
//! produces.
//!
//! ```text
//! a client's write   route: here     - execute - the sink appends the commit to lanes - reply
//!                    route: another  - forward ---- EXEC ---> executes it, once
//!                                      reply <-- apply, in order <-- effects, then ANSWER
//! a client's read    the keys are here: execute, whichever node is their primary
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `mod` | clients' commands: routing, forwarding, replies |
//! | `link` | frames received from and sent to other nodes |
//! | `apply` | applies the records of other nodes' lanes, in order |
//! | `chain`, `decide` | transactions of several primaries: loans, execution; decisions and parts |
//! | `serve` | executes commands that others have forwarded, at most once |
//! | `wait` | forwarded blocking commands |
//! | `view_change` | adopts views: changes of primary, joining and dead members |
//! | `copy` | the full copy with which a member joins (state transfer) |
//! | `durable` | which nodes have this node's changes on disk |
//! | `key_cache` | copies of keys that clients read here, without owning their slots |
//! | `forget_copies` | reports evicted copies to their primaries |
//! | `prefetch` | prefetches the keys of received records |
//! | `full` | members that have reached their memory limits |
//! | `interests` | changes that clients of other members want to hear of |
//! | `transfer` | state transfer of single slots, where members hold only some |

mod apply;
mod chain;
mod copy;
mod decide;
mod durable;
mod forget_copies;
mod full;
mod interests;
mod key_cache;
mod link;
mod prefetch;
mod serve;
mod transfer;
mod view_change;
mod wait;

pub use chain::Apart;
pub use copy::Fetch;
pub use link::{Acknowledge, LinkError, Received, SendOutcome};
pub use wait::Executed;

use crate::chains::Chains;
use crate::decisions::Decisions;
use crate::holdings::Holdings;
use crate::inbox::Inbox;
use crate::lanes::{LaneSource, Lanes, lane_of};
use crate::local_slots::LocalSlots;
use crate::mutation::is_endless;
use crate::origin::{Finished, HeldAnswer, LastExecuted, Origin, Sent, SlotQueue};
use crate::reconcile::{DeadMember, FormerPrimary, PastOwners, Stage};
use crate::slot::Slot;
use crate::slot_map::Node as Number;
use crate::view::{Identity, NodeSet, Primaries, View};
use crate::wire::{Exec, LANES, Record, Refusal, Tag, Texts, WaitEnd};
use copy::Copies;
use durable::Durable;
use link::Link;
use petrel_keyspace::{Call, Handle, KeyHash, Origin as EffectOrigin, Ownership, SinkSource};
pub use petrel_persistence::effects::GroupError;
use petrel_persistence::effects::apply_groups;
use std::collections::BTreeMap;
use std::sync::Arc;
use transfer::Transfers;

/// Outcome of a forwarded command at its primary.
enum Served {
    /// Dropped: this node is not the primary, or an earlier command is missing.
    Not,
    /// Executed before, by a node that has died; the reply is lost.
    Before,
    /// Executed, with this reply.
    Replied(Vec<u8>),
    /// Blocked on its keys, for at most this many milliseconds.
    Waits(Option<u64>),
}

/// Services that a node requires of its server.
pub trait Host {
    /// The keyspace handle of the calling thread, outside of any batch.
    fn handle(&mut self) -> &mut Handle;

    /// Executes a command or transaction that another node has forwarded; appends its reply, or
    /// blocks it.
    fn execute(&mut self, tag: Tag, call: &Call<&[u8]>, reply: &mut Vec<u8>) -> Executed;

    /// Ends the wait of a forwarded blocked command on request of its origin. Returns its reply, or
    /// none if it was executed already: then its answer is on its way.
    fn end_wait(&mut self, tag: Tag, end: WaitEnd) -> Option<Vec<u8>>;

    /// Ends the `WATCH` of a client of a node, perhaps this one ([`Call::client`]).
    fn unwatch(&mut self, origin: Identity, client: u64);

    /// Reports that a change of another node could not be applied: the data here diverge from now
    /// on.
    fn differs(&mut self, from: Identity, error: GroupError);

    /// Delivers a message that a client of another node has published.
    fn publish(&mut self, is_sharded: bool, channel: &[u8], payload: &[u8]);

    /// Adds the keys that the command just executed has read; none if it may have read others too.
    fn keys_read(&mut self, call: &Call<&[u8]>, keys: &mut Vec<Vec<u8>>);

    /// Takes what clients of another member want to hear of: classes of keyspace events, and
    /// prefixes of keys. Called several times for the same.
    fn interests(&mut self, _from: Identity, _events: u64, _prefixes: Texts<'_>) {}

    /// Invalidates a key that changed elsewhere for the clients here that have read it, or track
    /// its prefix. `writer`: the client here that changed it, if known.
    fn changed(&mut self, _is_broadcast: bool, _writer: Option<u64>, _db: u16, _key: &[u8]) {}

    /// Delivers a keyspace event of another member.
    fn event(&mut self, _db: u16, _name: &[u8], _key: &[u8], _fields: Texts<'_>) {}

    /// Attributes the pending invalidations to a client here, if there is one.
    fn invalidated_by(&mut self, _writer: Option<u64>) {}

    /// Announces data of slots, which [`Host::copy`] delivers.
    fn copy_begins(&mut self);

    /// Delivers a part of the copy that this node has requested. The last one completes it.
    fn copy(&mut self, part: &[u8], is_last: bool);

    /// Adds the keys of a transaction of several primaries, with their databases. False if it may
    /// use others too, or cannot be executed apart.
    fn keys_used(&mut self, _: &Call<&[u8]>, _: &mut Vec<(u16, Vec<u8>)>) -> bool {
        false
    }

    /// Executes a transaction in a scratch keyspace that has these keys alone, as groups of
    /// effects. None if it cannot be executed there.
    fn execute_apart(&mut self, _: Tag, _: &Call<&[u8]>, _: &[&[u8]]) -> Option<Apart> {
        None
    }

    /// Begins a loan: no thread begins another command of slots that [`LocalSlots`] does not give a
    /// primary. Returns a number for [`Host::may_lend`].
    fn begin_loan(&mut self) -> u64 {
        0
    }

    /// Whether all commands have ended that threads had begun before the loan of this number.
    fn may_lend(&mut self, _: u64) -> bool {
        true
    }

    /// Makes this node's part of a decision on a transaction, in one commit.
    ///
    /// # Errors
    /// If a change does not fit the present data. Those before it are made.
    fn apply_part(&mut self, _: Tag, groups: &[&[u8]]) -> Result<(), GroupError> {
        let handle = self.handle();
        handle.enter();
        let applied = apply_groups(handle, groups, EffectOrigin::LOCAL, &mut Vec::new());
        handle.exit();
        applied
    }
}

/// Routing decision for a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Route {
    /// This node executes it: it is the primary of all its slots.
    Here,
    /// Another node executes it.
    At(Number),
    /// Not routable now: the primary of a slot is changing.
    Later,
    /// Not routable: its slots have several primaries.
    Apart,
    /// Not routable: a slot has no primary.
    Nowhere,
}

/// Outcome of a forwarded command, for its client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// The reply.
    Bytes(Vec<u8>),
    /// The primary failed before it answered; the command may have been executed.
    Unknown,
    /// The slots of the command got several primaries; it was not executed. A retry finds the new
    /// primaries.
    Moved,
    /// No reply yet: the command is blocked at the primary, for at most this many milliseconds.
    Parked(Option<u64>),
    /// The command was blocked at a node that lost the slot. It was not executed; forward it again.
    Again(Box<Call>),
    /// The transaction of several primaries was not executed, for this reason.
    Refused(Refusal),
}

impl Reply {
    /// The error for the client, if the outcome is one.
    pub fn error(&self) -> Option<&'static str> {
        match self {
            Reply::Bytes(_) | Reply::Parked(_) | Reply::Again(_) => None,
            Reply::Unknown | Reply::Refused(Refusal::Before) => Some(
                "UNKNOWN The primary of the key failed before it answered; the command may have been executed",
            ),
            Reply::Moved | Reply::Refused(Refusal::Moved) => {
                Some("TRYAGAIN The primary of the key is changing")
            }
            Reply::Refused(Refusal::Busy) => {
                Some("TRYAGAIN The keys are used by another transaction")
            }
            Reply::Refused(Refusal::TooLarge) => {
                Some("ERR Keys of several members are too large for one transaction")
            }
            Reply::Refused(Refusal::Unsupported) => {
                Some("CROSSSLOT Keys of several members cannot be used together by this command")
            }
        }
    }
}

/// Error: too many bytes of forwarded commands are pending; the command was not accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooMuch;

/// Memory and time limits of a node.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes kept in all lanes until all members have applied them.
    pub backlog: usize,
    /// Bytes of forwarded commands that await their answers.
    pub forwarded: usize,
    /// Maximum size of a frame, in bytes.
    pub frame: usize,
    /// Bytes of records in a batch after which no further record is added.
    pub batch: usize,
    /// Bytes of records that may wait until this node's data are loaded.
    pub waiting: usize,
    /// Seconds after which a copy that no client has read is dropped at its next change.
    pub copy_idle: u32,
    /// Number of owners that have applied a change before a client sees it; at most the owners
    /// of its slot, and at most two.
    pub acknowledge: usize,
    /// Whether transactions of several primaries are executed: all members know their records.
    pub chains: bool,
    /// Bytes of the keys of such a transaction; half of the bytes that may wait at this node.
    pub chain: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let (backlog, forwarded, waiting) = (64 << 20, 64 << 20, 1 << 30);
        let (frame, batch, copy_idle, acknowledge) = (1 << 30, 60 << 10, 60, 1);
        let (chains, chain) = (false, 64 << 20);
        Limits { backlog, forwarded, frame, batch, waiting, copy_idle, acknowledge, chains, chain }
    }
}

/// A member of a cluster.
pub struct Node {
    identity: Identity,
    limits: Limits,
    lanes: Arc<Lanes>,
    local_slots: Arc<LocalSlots>,
    view: View,
    primaries: Primaries,
    links: BTreeMap<Number, Link>,
    /// Lanes of other members, and of dead members until all survivors have reconciled them.
    inboxes: BTreeMap<Identity, Vec<Inbox>>,
    former: Vec<FormerPrimary>,
    /// Owners in earlier views in which changes were ordered that were not applied here yet.
    past_owners: Vec<PastOwners>,
    dead: Vec<DeadMember>,
    origin: Origin,
    /// Slots with forwarded commands that may be sendable now.
    to_flush: Vec<Slot>,
    /// Commands with answers that wait for other lanes of the answering node, or for safe changes
    /// of this one.
    held: Vec<(Identity, Slot, u64)>,
    /// The last forwarded command of each origin and slot that is known to have been executed.
    executed: LastExecuted,
    /// Forwarded commands that wait until a slot's previous primary has ended.
    parked: Vec<(Identity, Slot, Arc<[u8]>)>,
    /// Something happened that any lane may have waited for.
    is_unblocked: bool,
    /// Members are asked to acknowledge immediately.
    wants_acks: bool,
    replies: Vec<(u64, Reply)>,
    hashes: Vec<KeyHash>,
    /// Databases and keys of received records.
    ahead: Vec<(u16, KeyHash)>,
    copies: Copies,
    /// Slots that this node holds. None where every member holds all.
    holdings: Option<Holdings>,
    transfers: Transfers,
    durable: Durable,
    /// Transactions of several primaries that use this node's slots.
    chains: Chains,
    decisions: Decisions,
    /// Members that have reached their memory limits: changes of their slots need room there.
    full: NodeSet,
    /// This node has reached its memory limit.
    is_full: bool,
    /// Members that know records of interests.
    knowing: NodeSet,
    /// Changes of keys that clients here have read may have been missed.
    has_missed: bool,
}

impl Node {
    /// Creates a node with its first view, in which it is a member and has the same data as all
    /// members.
    pub fn new(identity: Identity, view: View, limits: Limits) -> Self {
        let local_slots = LocalSlots::default();
        local_slots.serve(true);
        Node::with(identity, view, limits, Arc::new(local_slots))
    }

    /// Like [`Node::new`], with the placement that other threads share, perhaps from a previous
    /// incarnation.
    pub fn with(
        identity: Identity,
        view: View,
        limits: Limits,
        local_slots: Arc<LocalSlots>,
    ) -> Self {
        local_slots.begin(identity.node, view.incoming.is_none());
        view.members.iter().for_each(|member| local_slots.note_adopted(member.node, view.epoch));
        let others = others(&view, identity);
        let inbox = |_| Inbox::default();
        let inboxes = view.members.iter().filter(|member| **member != identity);
        let inboxes = inboxes.map(|member| (*member, (0..LANES).map(inbox).collect())).collect();
        let node = Node {
            identity,
            limits,
            lanes: Lanes::new(identity, &view, others, (limits.backlog, limits.acknowledge > 1)),
            local_slots,
            holdings: view.incoming.as_ref().map(|_| Holdings::new(&view, identity)),
            transfers: Transfers::default(),
            durable: Durable::default(),
            primaries: Primaries::of(&view),
            view,
            links: BTreeMap::new(),
            inboxes,
            former: Vec::new(),
            past_owners: Vec::new(),
            dead: Vec::new(),
            origin: Origin::default(),
            to_flush: Vec::new(),
            held: Vec::new(),
            executed: LastExecuted::default(),
            parked: Vec::new(),
            is_unblocked: false,
            wants_acks: false,
            replies: Vec::new(),
            hashes: Vec::new(),
            ahead: Vec::new(),
            copies: Copies::default(),
            chains: Chains::default(),
            decisions: Decisions::default(),
            full: NodeSet::default(),
            is_full: false,
            knowing: NodeSet::default(),
            has_missed: false,
        };
        node.update_slots();
        node
    }

    /// This node's identity.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The last adopted view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The lanes, for statistics.
    pub fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// The source of sinks for the threads of the keyspace.
    pub fn sinks(&self) -> Arc<dyn SinkSource> {
        Arc::new(LaneSource(self.lanes.clone()))
    }

    /// Tells the keyspace which keys expire here: those of which this node is primary.
    pub fn ownership(&self) -> Arc<dyn Ownership> {
        self.local_slots.clone()
    }

    /// The placement of all slots, shared with other threads.
    pub fn local_slots(&self) -> Arc<LocalSlots> {
        self.local_slots.clone()
    }

    /// Whether everything that former primaries ordered, whether demoted or dead, was applied.
    pub fn is_reconciled(&self) -> bool {
        self.former.is_empty() && self.dead.iter().all(|dead| dead.stage == Stage::Reconciled)
    }

    /// Routes a command that writes keys of these slots.
    pub fn route(&self, slots: &[Slot]) -> Route {
        let mut primaries = slots.iter().map(|&slot| self.primaries.of_slot(slot));
        let first = match primaries.next() {
            Some(Some(first)) => first,
            Some(None) => return Route::Nowhere,
            None => return Route::Here,
        };
        for primary in primaries {
            match primary {
                None => return Route::Nowhere,
                Some(primary) if primary != first => return Route::Apart,
                Some(_) => {}
            }
        }
        if first != self.identity.node {
            return Route::At(first);
        }
        if self.may_order(slots) { Route::Here } else { Route::Later }
    }

    /// Whether transactions of several primaries are executed.
    pub fn has_chains(&self) -> bool {
        self.limits.chains
    }

    /// Routes a command that only reads keys of these slots.
    pub fn route_read(&self, slots: &[Slot]) -> Route {
        match slots.iter().all(|&slot| self.is_readable(slot)) {
            true => Route::Here,
            false => self.route(slots),
        }
    }

    /// Whether keys of these slots that are present may be read here, as owned data or as copies.
    pub fn may_read_copies(&self, slots: &[Slot]) -> bool {
        slots.iter().all(|&slot| self.is_readable(slot) || self.takes_copies(slot))
    }

    /// Whether this node, as primary, may order changes of the slots: everything that earlier
    /// primaries ordered was applied, and they are not on loan.
    fn may_order(&self, slots: &[Slot]) -> bool {
        self.is_settled(slots) && !slots.iter().any(|&slot| self.is_lent(slot))
    }

    /// Whether everything that earlier primaries of the slots ordered was applied.
    fn is_settled(&self, slots: &[Slot]) -> bool {
        let is_held = |&slot: &Slot| self.former.iter().any(|former| former.holds(slot));
        let has_data = self.copies.fetch.is_none();
        crate::mutation::is_broken(crate::mutation::Mutation::OrderEarly)
            || has_data && !slots.iter().any(is_held) && self.may_hold(slots)
    }

    /// Whether no leftover data of the slots has to be removed before this node may be their
    /// primary.
    fn may_hold(&self, slots: &[Slot]) -> bool {
        let me = Some(self.identity.node);
        slots.iter().all(|&slot| self.primaries.of_slot(slot) != me || self.holds(slot))
    }

    /// Forwards a command to the primary of its keys, once there is one. [`Node::take_replies`]
    /// returns its reply with `token`. Returns its sequence number among this node's commands of
    /// the first slot.
    ///
    /// # Errors
    /// If too many bytes of commands are pending.
    pub fn forward(&mut self, token: u64, call: Call, host: &mut dyn Host) -> Result<u64, TooMuch> {
        if self.origin.bytes() >= self.limits.forwarded {
            return Err(TooMuch);
        }
        self.to_flush.extend(call.slots.first());
        let oseq = self.origin.add(token, call);
        self.flush(host);
        Ok(oseq)
    }

    /// Takes the replies that are due.
    pub fn take_replies(&mut self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut self.replies)
    }

    /// Sends all sendable commands of the slots in `to_flush`.
    fn flush(&mut self, host: &mut dyn Host) {
        let mut apart = Vec::new();
        while let Some(slot) = self.to_flush.pop() {
            while self.flush_one(slot, host) && !is_endless() {}
            if self.is_apart(slot) {
                apart.push(slot);
            }
        }
        self.to_flush = apart;
    }

    /// Whether the first unsent command of a slot cannot be sent, because its slots have several
    /// primaries. It is refused once all before it have their answers: else those behind it, which
    /// were sent together with these, would seem to follow a command that was lost.
    fn is_apart(&self, slot: Slot) -> bool {
        let unsent = self.origin.queues.get(&slot).and_then(SlotQueue::unsent);
        unsent.is_some_and(|flight| self.route(&flight.call.slots) == Route::Apart)
    }

    /// Sends the first unsent command of a slot; false if there is none, or it has to wait.
    fn flush_one(&mut self, slot: Slot, host: &mut dyn Host) -> bool {
        let Some(queue) = self.origin.queues.get(&slot) else { return false };
        let Some(flight) = queue.unsent() else { return false };
        let oseq = flight.oseq;
        if queue.is_behind_chain(oseq) {
            return false;
        }
        if flight.is_given_up {
            // It was not executed at the node to which it was sent, and its client was already
            // answered.
            self.origin.finish(slot, oseq);
            return true;
        }
        let tenures = flight.call.slots.iter().map(|&slot| self.primaries.tenure(slot));
        let (first, tenure) = (queue.first(), tenures.max().unwrap_or(0));
        let call = &flight.call;
        let primary = match self.route(&call.slots) {
            // While a slot's primary changes, its commands wait for the answers of the previous
            // one.
            _ if !self.is_settled(&call.slots) => return false,
            Route::Apart if first == oseq && self.may_chain(flight) => {
                return self.start_chain((slot, oseq));
            }
            _ if !self.may_order(&call.slots) => return false,
            Route::Later | Route::Nowhere => return false,
            Route::Apart if first < oseq => return false,
            Route::Apart => {
                let may_be_executed =
                    flight.was_lost || self.executed.known(self.identity, slot) >= oseq;
                let reply = if may_be_executed { Reply::Unknown } else { Reply::Moved };
                self.finish(slot, oseq, reply);
                return true;
            }
            Route::At(primary) => primary,
            Route::Here => {
                let call = call.clone();
                let exec = Exec { oseq, first, tenure, call: call.borrowed() };
                let served = self.serve(self.identity, &exec, None, host);
                match served {
                    Served::Replied(reply) => self.answer_here((slot, oseq), &call.slots, reply),
                    Served::Waits(left_ms) => self.park(self.identity, (slot, oseq), left_ms),
                    Served::Before => self.finish(slot, oseq, Reply::Unknown),
                    Served::Not => return false,
                }
                return true;
            }
        };
        let to = Some(NodeSet::of(primary));
        let plain = self.known_to(primary, call);
        let call = plain.as_ref().unwrap_or(call);
        let position = self.lanes.push_exec(lane_of(slot), to, (oseq, first, tenure), call);
        let epoch = self.view.epoch;
        let queue = self.origin.queues.get_mut(&slot);
        if let Some(flight) = queue.and_then(|queue| queue.find(oseq)) {
            flight.sent = Some(Sent { to: primary, epoch, position });
        }
        true
    }

    /// Answers a command of a client here that this node has executed, once the changes that it
    /// has seen are safe.
    fn answer_here(&mut self, (slot, oseq): (Slot, u64), slots: &[Slot], reply: Vec<u8>) {
        let (from, needs) = (self.identity, self.lanes.needs_of(slots));
        let queue = self.origin.queues.get_mut(&slot);
        if let Some(flight) = queue.and_then(|queue| queue.find(oseq)) {
            let (waits, reply) = (Vec::new(), Some(reply));
            flight.answer = Some(HeldAnswer { from, waits, needs, reply });
            self.deliver(from, slot, oseq);
        }
    }

    /// Delivers an answer, or keeps it until it can be.
    fn deliver(&mut self, from: Identity, slot: Slot, oseq: u64) {
        if !self.answer(slot, oseq) {
            self.held.push((from, slot, oseq));
        }
    }

    /// Answers the client of a forwarded command.
    fn finish(&mut self, slot: Slot, oseq: u64, reply: Reply) {
        match self.origin.finish(slot, oseq) {
            Some(Finished::Waits(token)) => self.replies.push((token, reply)),
            // Its client never learned that it watches keys there.
            Some(Finished::GivenUp { watches: Some(watches), is_transaction: false }) => {
                self.end_watches_at(slot, watches);
            }
            Some(Finished::GivenUp { .. }) | None => {}
        }
    }

    /// Ends a client's `WATCH` at another node.
    fn end_watches_at(&mut self, slot: Slot, (primary, client): (Number, u64)) {
        let to = Some(NodeSet::of(primary));
        self.lanes.push(lane_of(slot), to, &Record::Unwatch { client });
    }

    /// Whether the present view has this incarnation of a node.
    fn is_member(&self, identity: Identity) -> bool {
        self.view.member(identity.node) == Some(identity)
    }

    /// The members that joined before a view.
    fn members_since(&self, epoch: u64) -> NodeSet {
        let members = self.view.members.iter();
        members
            .filter(|member| self.copies.joined(**member) < epoch)
            .map(|member| member.node)
            .collect()
    }
}

/// All members of a view except one.
fn others(view: &View, identity: Identity) -> NodeSet {
    let members = view.members.iter().filter(|member| **member != identity);
    members.map(|member| member.node).collect()
}
