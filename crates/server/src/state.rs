//! State that the parts of the server share: what [`Server`](crate::server::Server) consists of.
//! Each file holds one part's types; what uses them together with the server is in that part's own
//! folder.
//!
//! | file | used by |
//! |---|---|
//! | `worker_link`, `mailbox`, `blocked`, `helpers` | `event_loop/`, `helpers.rs` |
//! | `outbox`, `pubsub`, `tracking`, `invalidation_queue`, `monitor`, `review` | `fanout/` |
//! | `log`, `snapshot`, `backups` | `durability/` |
//! | `replication`, `outgoing` | `replication/` |
//! | `figures`, `reaper` | all of them |
//! | `member` | `cluster/` |
//! | `migrate`, `shutdown` | `migrate/`, `lifecycle/stop.rs` |

#[cfg_attr(not(feature = "object-store"), path = "state/backups_absent.rs")]
pub mod backups;
pub(crate) mod blocked;
pub mod figures;
pub(crate) mod helpers;
pub mod invalidation_queue;
pub mod log;
pub mod mailbox;
pub mod member;
pub mod migrate;
pub mod monitor;
pub mod online_backup;
pub mod outbox;
pub mod outgoing;
pub mod pubsub;
pub mod reaper;
pub mod replication;
pub mod review;
pub mod shutdown;
pub mod snapshot;
pub mod tracking;
pub mod worker_link;
