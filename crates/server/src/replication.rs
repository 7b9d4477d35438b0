//! Replication: the primary of this server, and the id and offset under which replicas follow it.
//!
//! A *history* is the stream of changes of a data set, named by a replication id of 40 hexadecimal
//! digits; an offset counts its bytes. A promoted replica gives its history a new id and keeps the
//! old one up to the offset of the promotion, so that other replicas of the old primary can
//! continue without a copy:
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>.
//!
//! ```text
//! roles.rs      REPLICAOF: the change from primary to replica and back; the commands refused in
//!               each role
//! link.rs       the replication thread: connect ─ handshake ─ copy ─ stream, and again
//! attempt.rs    one such attempt
//! handshake.rs  the dialogue up to +FULLRESYNC or +CONTINUE
//! wire.rs       the connection to the primary, plain or TLS
//! copy.rs       full synchronisation: received into a file, checked, loaded; copy_stream.rs,
//!               without a file
//! rdb_aux.rs    position of a snapshot in the history
//! apply.rs      the primary's commands: executed like a client's, counted by the byte
//! frames.rs     the primary's frames: effects, applied as they were recorded; lanes.rs, by
//!               several threads
//! fack.rs       part of the stream that is on the disk
//! panic_recovery.rs  state after a link has panicked
//! failover.rs   FAILOVER: the role goes to a replica
//! out/          this server's replicas: the stream, copies, PSYNC
//! commands.rs   REPLICAOF, SLAVEOF, ROLE, FAILOVER;  info.rs  INFO replication
//! ```

mod apply;
mod attempt;
pub(crate) mod commands;
mod copy;
mod copy_stream;
mod fack;
mod failover;
mod frames;
mod handshake;
pub(crate) mod info;
mod lanes;
mod link;
mod panic_recovery;
pub(crate) mod rdb_aux;
mod roles;
mod wire;

pub mod out;
