//! Interface between commands and the cluster: which node is the primary of a slot, and how to
//! forward commands to it. The server implements it.

use crate::answer::{Ticket, WaitEnd};
use crate::clock::Tick;
use crate::fail::{Fail, Outcome};
use crate::reply_slots::are_done;
use crate::shown::ShownSlots;

pub use petrel_keyspace::Call;

/// Number of a hash slot.
pub type HashSlot = u16;

/// The primary of a hash slot: the node that orders its changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Primary {
    /// This node.
    Here,
    /// The node of this number.
    At(u16),
    /// None at the moment: the primary is changing.
    Changing,
}

/// Rest of a transaction: commands that all primaries execute for their slots. The first primary
/// has executed them for the slots of the transaction's keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rest {
    /// Positions of the replies to these commands in the reply to the transaction.
    pub places: Vec<u32>,
    /// Calls of the other primaries. Their replies are parts of the transaction's reply, counted
    /// from 1.
    pub calls: Vec<Call>,
}

impl Rest {
    /// Whether the rest is to be executed: `reply` shows that the transaction was executed and that
    /// no such command failed.
    pub fn is_due(&self, reply: &[u8]) -> bool {
        are_done(reply, &self.places)
    }
}

/// Link to another member, as `CLUSTER LINKS` shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterLink {
    /// Name of the other member: 40 hexadecimal digits.
    pub node: String,
    /// Time of its creation, in Unix milliseconds.
    pub since_ms: i64,
    /// Bytes queued for sending.
    pub queued: usize,
}

/// Slots that are not served, because their owners have failed.
#[derive(Clone, Debug)]
pub struct UnservedFigures {
    /// Number of slots.
    pub slots: usize,
    /// The slots, such as `0-99 200`.
    pub ranges: String,
    /// Unix time in seconds at which they lost their owners; 0 if it is not known.
    pub since: u64,
    /// Name of the last owner, which they wait for; empty if it has returned without their data.
    pub awaited: String,
    /// Address of that node for clients.
    pub address: String,
}

/// Statistics of the traffic with another member, since the start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PeerFigures {
    /// Name of the other member: 40 hexadecimal digits.
    pub node: String,
    /// Whether there is a link.
    pub is_linked: bool,
    /// Number of positions in this node's lanes that the member has not applied yet.
    pub lag: u64,
    /// Bytes sent to it.
    pub sent: u64,
    /// Bytes received from it.
    pub received: u64,
    /// Commands forwarded to it.
    pub forwarded: u64,
    /// Commands executed here for its clients.
    pub served: u64,
}

/// Amount of cluster data on this node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HeldFigures {
    /// Hash slots held here.
    pub slots: u64,
    /// Hash slots that are being transferred to this node.
    pub slots_coming: u64,
    /// Copies of keys of other primaries taken since the start.
    pub copies_taken: u64,
    /// Commands that have read copies here.
    pub copies_read: u64,
    /// Keys that this node is the primary of and other members have copies of.
    pub keys_shared: u64,
}

/// Changes that a reply shows and that no other owner of their slots has applied yet.
pub trait UnsafeChanges: Send {
    /// Whether other owners have applied all of them.
    fn are_safe(&self) -> bool;

    /// Time after which a client does not wait for that any longer, in milliseconds.
    fn timeout_ms(&self) -> i64;
}

/// The cluster that the server is a member of.
pub trait Cluster: Send + Sync {
    /// The hash slot of a key.
    fn slot_of(&self, key: &[u8]) -> HashSlot;

    /// The primary of a slot. The result is valid until the thread ends its batch of commands.
    fn primary_of(&self, slot: HashSlot) -> Primary;

    /// Whether another node is known to have adopted the view that decides about primaries here, so
    /// that it does not redirect clients back.
    fn has_adopted(&self, _node: u16) -> bool {
        true
    }

    /// Whether every member holds all slots. The answer never changes while the server is a member.
    fn holds_all(&self) -> bool;

    /// Whether replies wait until another owner of their slots has the changes that they show. The
    /// answer never changes.
    fn waits_for_owners(&self) -> bool {
        false
    }

    /// The last changes of these slots that are not safe; none if a reply need not wait.
    fn unsafe_changes(&self, _: &ShownSlots) -> Option<Box<dyn UnsafeChanges>> {
        None
    }

    /// Notes that the command which this thread executes next reads or changes keys of these slots:
    /// its changes do not survive the death of this node without the changes that it has read.
    fn note_slots(&self, _: &[HashSlot]) {}

    /// Adds slots of keys that a script's command reads or changes.
    fn note_more_slots(&self, _: &[HashSlot]) {}

    /// Whether some slot of this primary has an owner that has reached its memory limit.
    fn has_full_owners(&self) -> bool {
        false
    }

    /// Whether this node is the primary of a slot, and an owner of it has reached its memory limit.
    fn has_full_owner(&self, _slot: HashSlot) -> bool {
        false
    }

    /// Whether keys of a slot may be read here. The result is valid as long as that of
    /// [`Cluster::primary_of`].
    fn is_readable(&self, slot: HashSlot) -> bool;

    /// Whether copies of keys of a slot may be here although the slot is not readable. A copy may
    /// be read while its stripe is locked. A missing key may exist elsewhere.
    fn has_copies(&self, slot: HashSlot) -> bool;

    /// Whether clients hear of changes of keys that this node does not hold (`CLIENT TRACKING`).
    fn tracks_away(&self) -> bool {
        false
    }

    /// End of this node's lease on its slots. No member takes this node for failed before that, so
    /// it may order changes of the slots.
    fn lease_until(&self) -> Tick;

    /// Whether the lease has ended so recently that it is probably renewed at once, as after a
    /// pause of the process: commands are forwarded to this node itself, where they wait for that.
    fn awaits_lease(&self) -> bool {
        false
    }

    /// Error of commands that need data on a member that holds none
    /// ([`ServerState::Apart`](crate::ServerState::Apart)); `None` if the data are being
    /// transferred.
    fn lacks_data(&self) -> Option<Fail>;

    /// Reason why clients should connect to other members, if there is one.
    fn unready(&self) -> Option<&'static str>;

    /// The name of this node: 40 hexadecimal digits.
    fn id(&self) -> String;

    /// The reply of `CLUSTER INFO`: lines that end with CRLF.
    fn info(&self) -> String;

    /// The reply of `CLUSTER NODES`: one line for each member and each failed node.
    fn nodes(&self) -> String;

    /// Lets all members forget a failed node, by its name (`CLUSTER FORGET`). They agree on that
    /// later.
    ///
    /// # Errors
    /// Returns an error if no failed node has this name.
    fn forget(&self, id: &[u8]) -> Outcome;

    /// The operator's decision to give up what does not return (`CLUSTER FAILOVER TAKEOVER`): the
    /// last owners of slots without owners, or, without the majority, the other members. Takes
    /// effect later.
    ///
    /// # Errors
    /// Returns an error if there is nothing to give up.
    fn take_over(&self) -> Outcome {
        Err(Fail::NO_CLUSTER)
    }

    /// Slots without owners, by the node that they wait for.
    fn unserved(&self) -> Vec<UnservedFigures> {
        Vec::new()
    }

    /// The links to other members.
    fn links(&self) -> Vec<ClusterLink>;

    /// Statistics of the traffic with each other member.
    fn peers(&self) -> Vec<PeerFigures>;

    /// Amount of data on this node.
    fn held(&self) -> HeldFigures;

    /// Forwards commands to the primary of their slots, or to the agreement of all members if they
    /// have no slots. `rest` are the calls that follow a transaction, as parts of its reply. The
    /// reply is put into the client's [reply slot](crate::ReplySlots) of number `seq` later.
    ///
    /// # Errors
    /// Returns an error if too much is pending already; nothing was sent then.
    fn forward(
        &self,
        client: &Ticket,
        seq: u64,
        call: Call,
        rest: Option<Box<Rest>>,
    ) -> Result<(), Fail>;

    /// Hash slots of each primary, ascending; `None` while a primary is changing.
    fn slots_by_primary(&self) -> Option<Vec<Vec<HashSlot>>>;

    /// A hash slot of each primary, ascending; `None` while a primary changes.
    fn primaries(&self) -> Option<Vec<HashSlot>>;

    /// Number of other members that have applied all changes made by this node so far: the minimum
    /// over all slots that it is the primary of.
    fn members_in_step(&self) -> usize;

    /// Number of other members known to have all changes made by this node so far on disk, counted
    /// in the same way. Asks the members that it does not know this of.
    fn logs_in_step(&self) -> usize;

    /// Fingerprint of the assignment of primaries. It changes with high probability if a slot gets
    /// another primary or its primary restarts.
    fn mark_of_primaries(&self) -> u64;

    /// Ends a client's watches at the primary of a slot ([`Call::client`]).
    fn unwatch(&self, slot: HashSlot, client: u64);

    /// Ends the wait of a client's command at another node; the reply arrives like any other. `end`
    /// is `None` if the client has disconnected. Returns false if no such command waits.
    fn end_wait(&self, client: u64, end: Option<WaitEnd>) -> bool;
}
