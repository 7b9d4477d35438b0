//! The server as a member of a cluster: its workers execute commands for slots with this primary
//! and forward others; a thread of its own runs the protocol (`petrel_cluster`) and talks to other
//! members.
//!
//! ```text
//!  worker    gate: forward ── Call ──▶ agent ── EXEC ──▶ ... other members
//!            reply slot ◀── mailbox ──────── agent ◀── effects, ANSWER
//!            commits: the sink puts them into lanes, and wakes the agent, which sends them
//!  fabric    views, links ──────────────────▶ agent ◀── Pipe ──▶ ... other members
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `state` | state that the agent and the rest of the server share, and queues between them |
//! | `transport` | the interface between the agent and the membership: links and events |
//! | `settings` | the cluster's part of the configuration, and errors in it |
//! | `client_address` | addresses for clients, as members announce them |
//! | `fabric` | connection to the membership (`petrel_fabric`): its events, its links |
//! | `entry` | entry of a server into a cluster: start and end of the cluster thread |
//! | `rejoin` | the thread while the node is no member: joining and rejoining |
//! | `agent` | the thread while the node is a member: receiving and sending |
//! | `links` | the bytes of its links to other members |
//! | `phase` | phase of a member, and the origin of its data |
//! | `copy` | copies of a member's data, or of some slots': sent and received |
//! | `slots` | slots that the member gains and loses, if members hold only some |
//! | `aside` | files of a former incarnation, kept beside the present ones |
//! | `machine` | executor of commands that other members forward |
//! | `waiters` | commands of other members' clients that are blocked here |
//! | `remote_blocked` | commands of clients here that are blocked at other members |
//! | `jobs` | `FLUSHALL` and `WAIT`, which every primary executes for its slots |
//! | `full` | members that have reached `maxmemory` |
//! | `interests` | changes elsewhere that clients here want to hear of |
//! | `function_echoes` | changes of libraries that a client sends to every member |
//! | `functions` | function libraries, which all members agree on |
//! | `leave` | shutdown: other members take over its hash slots first |
//! | `interface` | the cluster as commands see it |
//! | `topology` | the nodes as clients of Redis Cluster see them |
//! | `info` | texts of `CLUSTER INFO` and `CLUSTER NODES` |

mod agent;
mod aside;
mod client_address;
mod copy;
mod entry;
mod fabric;
mod full;
mod function_echoes;
mod functions;
mod info;
mod interests;
mod interface;
mod jobs;
mod keepers;
mod leave;
mod links;
mod logs;
mod machine;
mod phase;
mod rejoin;
mod remote_blocked;
mod settings;
mod slots;
mod state;
mod topology;
mod transport;
mod waiters;

pub use client_address::ClientAddress;
pub use entry::start;
pub(crate) use fabric::enlist;
pub use state::membership::{Figures, Inbox, Membership, PeerCounts, State};
pub use transport::{Event, Hold, Link, MemberInfo, Pipe, Role, Transport};
