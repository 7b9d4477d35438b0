//! The cluster's protocol: which node holds which hash slot, in what order the changes of a slot
//! are seen, and what nodes send each other. No sockets, no clock and no randomness of its own:
//! the host hands in what has arrived and how late it is, and sends what it is given.

pub mod allocate;
pub mod slot;
pub mod slot_map;

pub use allocate::{Member, allocate};
pub use slot::{SLOTS, Slot, slot_of};
pub use slot_map::{Node, SlotMap, SlotRange};
