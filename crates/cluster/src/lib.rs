//! The cluster's protocol: which node holds which hash slot, in what order the changes of a slot
//! are seen, and what nodes send each other. No sockets, no clock and no randomness of its own:
//! the host hands in what has arrived and how late it is, and sends what it is given.
//!
//! ```text
//! slots -> lanes          16 of them; what a node tells others of a slot is in one order: effects, commands, answers
//! home order              the order in which a slot's primary has executed its writes; everybody applies that order
//! a node's reads          a prefix of it, with that node's own writes, for they are answered when they were applied there
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `slot`, `slot_map`, `allocate` | hash slots, and who has which |
//! | `view` | what all members agree on |
//! | `wire` | frames, batches and records as bytes |
//! | `lane`, `lanes` | what this node tells others, and the sink that puts commits there |
//! | `own_slots` | what all threads know of that |
//! | `holdings` | which slots' data this node has, where not every member has all |
//! | `directory` | which members have copies of keys, beside the homes |
//! | `inbox` | what others have told |
//! | `origin` | commands that wait for other nodes |
//! | `shorten` | effects that go back to where their command came from |
//! | `settle` | slots that have changed their primaries, and nodes that have died |
//! | `node` | all of it together |

pub mod allocate;
mod directory;
mod evicted;
mod holdings;
mod inbox;
mod lane;
pub mod lanes;
pub mod mutation;
pub mod node;
mod origin;
mod own_homes;
mod own_slots;
mod settle;
mod shorten;
pub mod slot;
pub mod slot_map;
pub mod view;
pub mod wire;

pub use allocate::{Member, allocate};
pub use lanes::{FROM_PEERS, Lanes, lane_of};
pub use node::{
    Acknowledge, Executed, Fetch, Host, Limits, LinkError, Node as ClusterNode, Received, Reply,
    Route, SendOutcome, TooMuch,
};
pub use origin::Call;
pub use own_homes::OwnHomes;
pub use own_slots::OwnSlots;
pub use slot::{SLOTS, Slot, SlotSet, slot_of};
pub use slot_map::{Node, SlotMap, SlotRange};
pub use view::{Identity, NodeSet, View};
