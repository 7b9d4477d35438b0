//! One node's part of the protocol, without sockets, threads or a clock: its host hands in what has
//! arrived and the views that were agreed on, executes what it is asked to, and sends what it is
//! given.
//!
//! ```text
//! a client's write   route: here     - execute - the sink puts the commit into lanes - reply
//!                    route: another  - forward ---- EXEC ---> execute there, once - effects, then ANSWER, in the lane
//!                                      reply <-- apply, in order <------------------'
//! a client's read    the keys are here: execute, whoever orders their changes
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `mod` | clients' commands: where they run, their way to another node, their replies |
//! | `link` | frames of other nodes, and for them |
//! | `apply` | the records of other nodes' lanes, in order |
//! | `serve` | commands that others have forwarded: executed at most once |
//! | `wait` | forwarded commands that wait for their keys |
//! | `adopt` | views: primaries that change, members that come or die |
//! | `copy` | a member that has no data yet, and the one that sends it a copy |
//! | `durable` | which nodes have on their disks what this one has changed |
//! | `near` | copies of keys that clients read here, though their homes are elsewhere |
//! | `transfer` | the same for some slots, where not every member holds all data |

mod adopt;
mod apply;
mod copy;
mod durable;
mod link;
mod near;
mod serve;
mod transfer;
mod unshare;
mod wait;

pub use copy::Fetch;
pub use link::{Acknowledge, LinkError, Received, SendOutcome};
pub use wait::Executed;

use crate::holdings::Holdings;
use crate::inbox::Inbox;
use crate::lanes::{LaneSource, Lanes, lane_of};
use crate::origin::{Call, Finished, LastExecuted, Origin, Sent};
use crate::own_slots::OwnSlots;
use crate::settle::{Fallen, Leaving, Stage};
use crate::slot::Slot;
use crate::slot_map::Node as Number;
use crate::view::{Identity, NodeSet, Primaries, View};
use crate::wire::{Exec, LANES, Record, Tag, WaitEnd};
use copy::Copies;
use durable::Durable;
use link::Link;
use petrel_keyspace::{Handle, Homes, KeyHash, SinkSource};
pub use petrel_persistence::effects::GroupError;
use serve::Served;
use std::collections::BTreeMap;
use std::sync::Arc;
use transfer::Transfers;

/// What a node asks of its server.
pub trait Host {
    /// The calling thread's way into the keyspace, in no batch.
    fn handle(&mut self) -> &mut Handle;

    /// Executes a command that another node has forwarded, or a transaction; appends its reply, or
    /// lets it wait.
    fn execute(&mut self, tag: Tag, exec: &Exec<'_>, reply: &mut Vec<u8>) -> Executed;

    /// The origin of a command that waits here asks for the end of its wait. Its reply, unless it
    /// has been executed already: then its answer is on its way.
    fn end_wait(&mut self, tag: Tag, end: WaitEnd) -> Option<Vec<u8>>;

    /// A client of a node, this one perhaps, watches keys here no longer ([`Exec::client`]).
    fn unwatch(&mut self, origin: Identity, client: u64);

    /// A change of another node could not be made here: the node's data differ from then on.
    fn differs(&mut self, from: Identity, error: GroupError);

    /// A client of another node has published a message.
    fn publish(&mut self, is_sharded: bool, channel: &[u8], payload: &[u8]);

    /// Adds the keys that a command has read, which was executed just now; none if it may have read
    /// others too.
    fn keys_read(&mut self, exec: &Exec<'_>, keys: &mut Vec<Vec<u8>>);

    /// Data of slots follow, by [`Host::copy`].
    fn copy_begins(&mut self);

    /// A part of the copy that this node has asked for; the last one ends it.
    fn copy(&mut self, part: &[u8], is_last: bool);
}

/// Where a command is executed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Route {
    /// Here: this node orders the changes of all its slots.
    Here,
    /// At another node.
    At(Number),
    /// Not yet: the primary of a slot is changing.
    Later,
    /// Nowhere: its slots have several primaries.
    Apart,
    /// Nowhere: nobody orders the changes of a slot.
    Nowhere,
}

/// What a client that has waited is answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reply {
    /// This.
    Bytes(Vec<u8>),
    /// The home of the key failed before it answered; the command may have been executed.
    Unknown,
    /// The slots of the command have got several primaries; it was not executed.
    Apart,
    /// The same of one that is no commit of its slots ([`Call::by_key`]): another try finds out
    /// which homes they have got.
    Moved,
    /// None yet: the command waits for its keys at their home, for so many milliseconds at most.
    Parked(Option<u64>),
    /// The command, which has waited at a home that is none any more; it was not executed, and is
    /// to be forwarded again.
    Again(Box<Call>),
}

impl Reply {
    /// The error for a client that is not given bytes.
    pub fn error(&self) -> Option<&'static str> {
        match self {
            Reply::Bytes(_) | Reply::Parked(_) | Reply::Again(_) => None,
            Reply::Unknown => Some(
                "UNKNOWN The home of the key failed before it answered; the command may have been executed",
            ),
            Reply::Moved => Some("TRYAGAIN The home of the key is changing"),
            Reply::Apart => Some("CROSSSLOT Keys in request don't hash to the same slot"),
        }
    }
}

/// Too much waits for other nodes: the command was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooMuch;

/// What a node may keep.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all lanes that are kept until all members have applied them.
    pub backlog: usize,
    /// Bytes of commands whose clients wait.
    pub forwarded: usize,
    /// Bytes of a frame.
    pub frame: usize,
    /// Bytes of records in a batch, unless one alone has more.
    pub batch: usize,
    /// Bytes of records that wait for this node's data.
    pub waiting: usize,
    /// Seconds after which a copy that no client has read is not kept up to date any more.
    pub copy_idle: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let (backlog, forwarded, waiting) = (64 << 20, 64 << 20, 1 << 30);
        Limits { backlog, forwarded, frame: 1 << 30, batch: 60 << 10, waiting, copy_idle: 60 }
    }
}

/// A member of a cluster.
pub struct Node {
    identity: Identity,
    limits: Limits,
    lanes: Arc<Lanes>,
    own_slots: Arc<OwnSlots>,
    view: View,
    primaries: Primaries,
    links: BTreeMap<Number, Link>,
    /// The lanes of others, those of nodes that have died until all have settled them.
    inboxes: BTreeMap<Identity, Vec<Inbox>>,
    leaving: Vec<Leaving>,
    fallen: Vec<Fallen>,
    origin: Origin,
    /// Slots with commands that may be sent now.
    to_flush: Vec<Slot>,
    /// Commands whose answers wait for other lanes of the node that has answered.
    held: Vec<(Identity, Slot, u64)>,
    /// The last forwarded command of a slot that is known to have been executed.
    executed: LastExecuted,
    /// Commands that came before the end of a slot's last primary.
    parked: Vec<(Identity, Slot, Arc<[u8]>)>,
    /// Something has happened that all lanes may have waited for.
    is_unblocked: bool,
    /// Members are asked to acknowledge at once.
    wants_acks: bool,
    replies: Vec<(u64, Reply)>,
    hashes: Vec<KeyHash>,
    copies: Copies,
    /// The slots whose data are here. None where every member holds all.
    holdings: Option<Holdings>,
    transfers: Transfers,
    durable: Durable,
}

impl Node {
    /// A node that begins with a view of which it is a member, as all its members do, with the same
    /// data.
    pub fn new(identity: Identity, view: View, limits: Limits) -> Self {
        let own_slots = OwnSlots::default();
        own_slots.serve(true);
        Node::with(identity, view, limits, Arc::new(own_slots))
    }

    /// The same with what other threads know of it, perhaps from a life before.
    pub fn with(identity: Identity, view: View, limits: Limits, own_slots: Arc<OwnSlots>) -> Self {
        own_slots.begin(identity.node, view.incoming.is_none());
        let others = others(&view, identity);
        let inbox = |_| Inbox::default();
        let inboxes = view.members.iter().filter(|member| **member != identity);
        let inboxes = inboxes.map(|member| (*member, (0..LANES).map(inbox).collect())).collect();
        let node = Node {
            identity,
            limits,
            lanes: Lanes::new(identity, &view, others, limits.backlog),
            own_slots,
            holdings: view.incoming.as_ref().map(|_| Holdings::new(&view, identity)),
            transfers: Transfers::default(),
            durable: Durable::default(),
            primaries: Primaries::of(&view),
            view,
            links: BTreeMap::new(),
            inboxes,
            leaving: Vec::new(),
            fallen: Vec::new(),
            origin: Origin::default(),
            to_flush: Vec::new(),
            held: Vec::new(),
            executed: LastExecuted::default(),
            parked: Vec::new(),
            is_unblocked: false,
            wants_acks: false,
            replies: Vec::new(),
            hashes: Vec::new(),
            copies: Copies::default(),
        };
        node.tell_removers();
        node
    }

    /// Who this is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The view that was adopted last.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The lanes, for their figures.
    pub fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// What gives every thread of the keyspace its sink.
    pub fn sinks(&self) -> Arc<dyn SinkSource> {
        Arc::new(LaneSource(self.lanes.clone()))
    }

    /// What tells the keyspace which keys expire here.
    pub fn homes(&self) -> Arc<dyn Homes> {
        self.own_slots.clone()
    }

    /// The homes of all slots, for other threads.
    pub fn own_slots(&self) -> Arc<OwnSlots> {
        self.own_slots.clone()
    }

    /// Bytes of forwarded commands whose clients wait.
    pub fn forwarded_bytes(&self) -> usize {
        self.origin.bytes()
    }

    /// Whether everything that primaries had numbered who lost slots, or died, was applied.
    pub fn is_settled(&self) -> bool {
        self.leaving.is_empty() && self.fallen.iter().all(|fallen| fallen.stage == Stage::Settled)
    }

    /// Where a command with keys of these slots is executed, if it is not one that only reads.
    pub fn route(&self, slots: &[Slot]) -> Route {
        self.route_of(slots, false)
    }

    /// The same of a call ([`Call::by_key`]).
    pub fn route_of(&self, slots: &[Slot], by_key: bool) -> Route {
        let mut primaries = slots.iter().map(|&slot| self.primaries.of_slot(slot));
        let first = match primaries.next() {
            Some(Some(first)) => first,
            Some(None) => return Route::Nowhere,
            None => return Route::Here,
        };
        // What reaches other homes together is of one slot.
        if slots.len() > 1 && !by_key && self.holdings.is_some() {
            return Route::Apart;
        }
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
        if self.may_number(slots) { Route::Here } else { Route::Later }
    }

    /// Where a command that only reads keys of these slots is executed.
    pub fn route_read(&self, slots: &[Slot]) -> Route {
        match slots.iter().all(|&slot| self.is_readable(slot)) {
            true => Route::Here,
            false => self.route_of(slots, true),
        }
    }

    /// Whether the keys of these slots that are here may be read here: their slots' or copies.
    pub fn may_read_copies(&self, slots: &[Slot]) -> bool {
        slots.iter().all(|&slot| self.is_readable(slot) || self.takes_copies(slot))
    }

    /// Whether all that earlier primaries of the slots have numbered was applied.
    fn may_number(&self, slots: &[Slot]) -> bool {
        let is_held = |&slot: &Slot| self.leaving.iter().any(|leaving| leaving.holds(slot));
        let has_data = self.copies.fetch.is_none();
        crate::mutation::is_broken(crate::mutation::Mutation::NumberEarly)
            || has_data && !slots.iter().any(is_held) && self.may_hold(slots)
    }

    /// Whether nothing is to be removed first of slots whose primary this node is.
    fn may_hold(&self, slots: &[Slot]) -> bool {
        let me = Some(self.identity.node);
        slots.iter().all(|&slot| self.primaries.of_slot(slot) != me || self.holds(slot))
    }

    /// Sends a command to the home of its keys, once there is one. The client that `token` stands
    /// for has its reply among [`Node::take_replies`] later. Its place among this node's commands
    /// of the first slot.
    ///
    /// # Errors
    /// If too much waits already.
    pub fn forward(&mut self, token: u64, call: Call, host: &mut dyn Host) -> Result<u64, TooMuch> {
        if self.origin.bytes() >= self.limits.forwarded {
            return Err(TooMuch);
        }
        self.to_flush.extend(call.slots.first());
        let oseq = self.origin.add(token, call);
        self.flush(host);
        Ok(oseq)
    }

    /// Replies that are due.
    pub fn take_replies(&mut self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut self.replies)
    }

    /// Sends what can be sent of the commands of the slots of which something has changed.
    fn flush(&mut self, host: &mut dyn Host) {
        while let Some(slot) = self.to_flush.pop() {
            while self.flush_one(slot, host) {}
        }
    }

    /// Sends the first command of a slot that was not sent; false if there is none, or it waits.
    fn flush_one(&mut self, slot: Slot, host: &mut dyn Host) -> bool {
        let Some(queue) = self.origin.queues.get(&slot) else { return false };
        let unsent =
            |flight: &&crate::origin::Flight| flight.sent.is_none() && flight.answer.is_none();
        let Some(flight) = queue.flights.iter().find(unsent) else { return false };
        let oseq = flight.oseq;
        if flight.is_given_up {
            // It was not executed where it was sent, and is not to be sent again.
            self.origin.finish(slot, oseq);
            return true;
        }
        let tenures = flight.call.slots.iter().map(|&slot| self.primaries.tenure(slot));
        let exec = flight.call.exec(oseq, queue.first(), tenures.max().unwrap_or(0));
        let home = match self.route_of(&exec.slots, exec.by_key) {
            // Commands of a slot that is changing its primary wait for what that has answered.
            _ if !self.may_number(&exec.slots) => return false,
            Route::Later | Route::Nowhere => return false,
            Route::Apart => {
                let reply = if exec.by_key { Reply::Moved } else { Reply::Apart };
                self.finish(slot, oseq, reply);
                return true;
            }
            Route::At(home) => home,
            Route::Here => {
                let call = flight.call.clone();
                let exec = call.exec(exec.oseq, exec.first, exec.tenure);
                let served = self.serve(self.identity, &exec, None, host);
                match served {
                    Served::Replied(reply) => self.finish(slot, oseq, Reply::Bytes(reply)),
                    Served::Waits(left_ms) => self.park(self.identity, (slot, oseq), left_ms),
                    Served::Before => self.finish(slot, oseq, Reply::Unknown),
                    Served::Not => return false,
                }
                return true;
            }
        };
        let to = Some(NodeSet::of(home));
        let position = self.lanes.push(lane_of(slot), to, &Record::Exec(exec));
        let epoch = self.view.epoch;
        let queue = self.origin.queues.get_mut(&slot);
        if let Some(flight) = queue.and_then(|queue| queue.find(oseq)) {
            flight.sent = Some(Sent { to: home, epoch, position });
        }
        true
    }

    /// The client of a forwarded command is answered.
    fn finish(&mut self, slot: Slot, oseq: u64, reply: Reply) {
        match self.origin.finish(slot, oseq) {
            Some(Finished::Waits(token)) => self.replies.push((token, reply)),
            // Its client has not heard that it watches keys there.
            Some(Finished::GivenUp { watches: Some(watches), is_transaction: false }) => {
                self.end_watches_at(slot, watches);
            }
            Some(Finished::GivenUp { .. }) | None => {}
        }
    }

    /// A client does not watch keys at a node any more.
    fn end_watches_at(&mut self, slot: Slot, (home, client): (Number, u64)) {
        let to = Some(NodeSet::of(home));
        self.lanes.push(lane_of(slot), to, &Record::Unwatch { client });
    }

    /// The members that were there before a view.
    fn members_since(&self, epoch: u64) -> NodeSet {
        let members = self.view.members.iter();
        members
            .filter(|member| self.copies.joined(**member) < epoch)
            .map(|member| member.node)
            .collect()
    }
}

/// The members of a view but one.
fn others(view: &View, identity: Identity) -> NodeSet {
    let members = view.members.iter().filter(|member| **member != identity);
    members.map(|member| member.node).collect()
}
