//! The cluster as the gate and the handlers know it: which node orders the changes of a key, and
//! the way to that node. What they ask is answered by the server.

use crate::answer::{Ticket, WaitEnd};
use crate::clock::Tick;
use crate::fail::{Fail, Outcome};
use crate::reply_slots::are_done;

/// Number of a hash slot.
pub type HashSlot = u16;

/// The node that orders the changes of a hash slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Home {
    /// This one.
    Here,
    /// The one of this number.
    At(u16),
    /// None at the moment: the primary is changing.
    Changing,
}

/// Commands that another node is to execute.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RemoteCall {
    /// The hash slots of the keys, each once, ascending; none if all members have to agree on what
    /// the command changes.
    pub slots: Vec<HashSlot>,
    /// The selected database.
    pub db: u16,
    /// Whether the reply is to be written in RESP3.
    pub resp3: bool,
    /// Whether the commands are a transaction; else there is one.
    pub is_transaction: bool,
    /// Milliseconds that it may still wait for its keys, if it has waited before.
    pub wait_ms: Option<u64>,
    /// Names the keys that its client watches at the other node, if it does: in the lowest 16 bits
    /// how many `WATCH`es were forwarded before, above them which client's they are.
    pub client: Option<u64>,
    /// Whether it is no commit of several slots: it only reads, or works on each key by itself.
    /// Said only where members do not hold all slots ([`Cluster::holds_all`]).
    pub by_key: bool,
    /// Whether copies of the keys that it reads are wanted here ([`Cluster::has_copies`]).
    pub wants_copies: bool,
    /// The commands, each with its name and arguments.
    pub commands: Vec<Vec<Vec<u8>>>,
    /// What homes are to execute once the transaction has been executed.
    pub rest: Option<Box<Rest>>,
}

/// What is left of a transaction once its home has executed it: some of its commands are executed
/// by all homes, each for its share, and it has done that of the slots of its keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rest {
    /// Where the replies to these commands stand in that to the transaction.
    pub places: Vec<u32>,
    /// What homes execute. The reply to each is part of the same whole as that to the transaction:
    /// the first is part 1.
    pub calls: Vec<RemoteCall>,
}

impl Rest {
    /// Whether it is to be executed: the transaction was, and not refused such a command.
    pub fn is_due(&self, reply: &[u8]) -> bool {
        are_done(reply, &self.places)
    }
}

/// A link to another member, as `CLUSTER LINKS` shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterLink {
    /// The other's name: 40 hexadecimal digits.
    pub node: String,
    /// Since when, in Unix milliseconds.
    pub since_ms: i64,
    /// Bytes that wait to be sent.
    pub queued: usize,
}

/// What a node and another member have to do with each other, in figures since the start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PeerFigures {
    /// The other's name: 40 hexadecimal digits.
    pub node: String,
    /// Whether there is a link.
    pub is_linked: bool,
    /// Positions of the lanes here that it has not applied.
    pub lag: u64,
    /// Bytes that were sent to it.
    pub sent: u64,
    /// Bytes that came from it.
    pub received: u64,
    /// Commands that were forwarded to it.
    pub forwarded: u64,
    /// Commands that were executed here for its clients.
    pub served: u64,
}

/// What a node holds of the cluster's data.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HeldFigures {
    /// Hash slots whose data are here.
    pub slots: u64,
    /// Hash slots whose data are on their way.
    pub slots_coming: u64,
    /// Copies of keys that were taken since the start, whose slots have their homes elsewhere.
    pub copies_taken: u64,
    /// Commands that have read copies here.
    pub copies_read: u64,
    /// Keys whose changes this node orders and that others have copies of.
    pub keys_shared: u64,
}

/// The cluster that the server is a member of.
pub trait Cluster: Send + Sync {
    /// The hash slot of a key.
    fn slot_of(&self, key: &[u8]) -> HashSlot;

    /// Who orders the changes of a slot. What it says holds until the thread has left its batch of
    /// commands.
    fn home_of(&self, slot: HashSlot) -> Home;

    /// Whether every member holds the data of all slots. It stays so while the server is a member.
    fn holds_all(&self) -> bool;

    /// Whether the keys of a slot may be read here. What it says holds as that of
    /// [`Cluster::home_of`] does.
    fn is_readable(&self, slot: HashSlot) -> bool;

    /// Whether keys of a slot that is not readable may be here as copies: one that is here, as long
    /// as its stripe is held, may be read; one that is not may be elsewhere.
    fn has_copies(&self, slot: HashSlot) -> bool;

    /// Until when this node may number changes of the slots whose home it is: no member takes it
    /// for dead before.
    fn lease_until(&self) -> Tick;

    /// The error of a command that needs data where there are none to be served
    /// ([`ServerState::Apart`](crate::ServerState::Apart)); none if they are still to come.
    fn lacks_data(&self) -> Option<Fail>;

    /// The reason for sending clients to other members, if there is one.
    fn unready(&self) -> Option<&'static str>;

    /// The name of this node: 40 hexadecimal digits.
    fn id(&self) -> String;

    /// What `CLUSTER INFO` says, in lines that end with CRLF.
    fn info(&self) -> String;

    /// The reply of `CLUSTER NODES`: a line for each member, and for each node that has failed.
    fn nodes(&self) -> String;

    /// Has all members forget a node that has failed, by its name (`CLUSTER FORGET`). They agree on
    /// that later.
    ///
    /// # Errors
    /// If no node of this name has failed.
    fn forget(&self, id: &[u8]) -> Outcome;

    /// The links to other members.
    fn links(&self) -> Vec<ClusterLink>;

    /// What there is between this node and each other member.
    fn peers(&self) -> Vec<PeerFigures>;

    /// What this node holds.
    fn held(&self) -> HeldFigures;

    /// Has commands executed by the node that orders the changes of their slots, or agreed on by
    /// all if they have none. The reply is put into the client's
    /// [reply slot](crate::ReplySlots) of number `seq` later.
    ///
    /// # Errors
    /// If too much is on its way already; nothing was sent then.
    fn forward(&self, client: &Ticket, seq: u64, call: RemoteCall) -> Result<(), Fail>;

    /// The hash slots of each node that orders the changes of some, ascending; none while a primary
    /// is changing.
    fn slots_of_homes(&self) -> Option<Vec<Vec<HashSlot>>>;

    /// The nodes that order the changes of some slots, ascending, each by one of these slots; none
    /// while a primary is changing.
    fn homes(&self) -> Option<Vec<HashSlot>>;

    /// How many other members have applied what this node has changed by now: the fewest of all
    /// hash slots whose changes it orders.
    fn members_in_step(&self) -> usize;

    /// How many other members are known to have on their disks what this node has changed by now,
    /// counted in the same way. Those that have not been asked yet are not known; they are asked.
    fn logs_in_step(&self) -> usize;

    /// A number of which another is likely if any slot has another home, or its home has begun
    /// anew.
    fn mark_of_homes(&self) -> u64;

    /// A client watches keys at the home of a slot no longer ([`RemoteCall::client`]).
    fn unwatch(&self, slot: HashSlot, client: u64);

    /// Asks for the end of the wait of a client's command at another node: its answer comes as that
    /// of every other. None: the client has gone. False if it does not wait.
    fn end_wait(&self, client: u64, end: Option<WaitEnd>) -> bool;
}
