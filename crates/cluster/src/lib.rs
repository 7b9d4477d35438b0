//! Cluster protocol: placement of hash slots, primary-backup replication of each slot, forwarding
//! of commands, and copies of keys. It has no sockets, no clock and no randomness: the host passes
//! in received bytes and agreed views, and sends the bytes that the protocol produces.
//!
//! ```text
//! slots  -> lanes      16 per node; all records about a slot are in one lane, in one order:
//!                      effects, forwarded commands, answers
//! slot order           the order in which the primary executed its writes; every owner applies it
//! reads at a node      a prefix of the slot order, including the node's own writes: a forwarded
//!                      write is answered only after it was applied at the origin
//! ```
//!
//! The protocol is specified in `docs/internals/cluster-protocol.md`.
//!
//! | file | holds |
//! |---|---|
//! | `slot`, `slot_map`, `allocate` | hash slots, the map from slots to owners, placement |
//! | `view` | the agreed configuration: epoch, members, owners |
//! | `wire` | encoding of frames, batches and records |
//! | `lane`, `lanes` | this node's outgoing logs, and the sink that appends commits to them |
//! | `local_slots`, `slot_owners` | placement as seen by all threads of the node |
//! | `holdings` | which slots' data this node has (with fewer owners than members) |
//! | `directory`, `evicted` | which members have copies of keys; copies that were evicted here |
//! | `inbox` | received lanes of other nodes |
//! | `origin` | forwarded commands that await their answers |
//! | `extents`, `election` | how far the data of a log go; which log a slot continues with |
//! | `elide_args` | removes arguments from effects that return to the command's origin |
//! | `chains`, `decisions`, `scratch` | transactions of several primaries |
//! | `reconcile`, `owners_recovery` | changes of primary, and recovery of a dead member's records |
//! | `node` | the state machine that combines all of these |

pub mod allocate;
mod chains;
mod decisions;
mod directory;
mod election;
mod elide_args;
mod evicted;
pub mod extents;
mod holdings;
mod inbox;
mod lane;
pub mod lanes;
mod local_slots;
pub mod mutation;
pub mod node;
mod origin;
mod owners_recovery;
mod reconcile;
mod safe;
mod scratch;
pub mod slot;
pub mod slot_map;
mod slot_owners;
pub mod view;
pub mod wire;

pub use allocate::{Member, allocate};
pub use election::{Elected, PastOwners, elect};
pub use extents::{EXTENTS, Extent, Extents};
pub use lanes::{FROM_PEERS, Lanes, lane_of};
pub use local_slots::LocalSlots;
pub use node::{
    Acknowledge, Apart, Executed, ExtentChanges, Fetch, Host, Limits, LinkError,
    Node as ClusterNode, Received, Reply, Route, SendOutcome, TooMuch,
};
pub use petrel_keyspace::Call;
pub use safe::Need;
pub use scratch::{Collector, NotOfSlots};
pub use slot::{SLOTS, Slot, SlotSet, slot_of};
pub use slot_map::{Node, SlotMap, SlotRange};
pub use slot_owners::SlotOwners;
pub use view::{Identity, NodeSet, View};
