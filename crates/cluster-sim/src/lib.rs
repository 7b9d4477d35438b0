//! Deterministic simulation of the cluster protocol on a faulty network.
//!
//! ```text
//! 3 to 12 nodes in one thread, each with a real keyspace, the real commands and the real protocol
//!
//! clients -> node - pipe -> node      a pipe delays and fragments bytes, stalls and breaks
//!            :                        an adversary pauses and kills nodes and moves slots; nodes
//!            :                        learn of it at different times
//!            '- every commit --> witness: the order of each slot, which explains every read
//! ```
//!
//! The seed determines a run. Deliberate faults ([`Fault`]) must be detected.
//!
//! | file | holds |
//! |---|---|
//! | `world` | a run: nodes, links, adversary, joining nodes, final comparison |
//! | `outcome` | statistics of a run |
//! | `machine` | keyspace and executor of a node |
//! | `connection`, `workload` | clients |
//! | `chains` | the checker of transactions of several primaries |
//! | `witness`, `content` | the checker: global history, and whether reads are explained by it |
//! | `link`, `random` | bytes in transit, random numbers |

mod chains;
mod connection;
mod content;
mod fault;
mod link;
mod machine;
mod names;
mod outcome;
mod random;
mod witness;
mod workload;
mod world;

pub use fault::{FAULTS, Fault};
pub use outcome::Outcome;
pub use random::Random;
pub use world::{Plan, run};
