//! The cluster's protocol on a network that misbehaves.
//!
//! ```text
//! 3 to 12 nodes in one thread, each with a real keyspace, the real commands and the real protocol
//!
//! clients -> node - pipe -> node      a pipe delays, cuts bytes anywhere, stalls, breaks
//!            :                        an adversary pauses nodes, kills them, moves slots, and tells nobody at once
//!            '- every commit --> witness: the order of each slot; every read must be a prefix of it
//! ```
//!
//! A run follows from its seed alone. What is done wrong on purpose ([`Wrong`]) must be found.
//!
//! | file | holds |
//! |---|---|
//! | `world` | a run: nodes, links, the adversary, nodes that join, and rest |
//! | `outcome` | what a run has come to, in figures |
//! | `machine` | what a node executes with |
//! | `connection`, `workload` | clients |
//! | `witness`, `content` | what has really happened, and whether a read can be explained by it |
//! | `link`, `random` | bytes on their way, chance |

mod connection;
mod content;
mod link;
mod machine;
mod outcome;
mod random;
mod witness;
mod workload;
mod world;

pub use outcome::Outcome;
pub use random::Random;
pub use world::{Plan, WRONGS, Wrong, run};
