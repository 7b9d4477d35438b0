//! The replication stream: the changes of the keyspace encoded as commands for replicas of Redis's
//! protocol, or as frames of effects for Petrel replicas; the backlog, from which a replica resumes
//! after a broken link; and the replies of a primary before its stream. No sockets.
//!
//! ```text
//! effects ─┬─ encode: commands ─┬─> backlog ──> replicas, from their offsets
//!          └─ frame: effects ───┘
//! ```

pub mod backlog;
mod commands;
pub mod encode;
pub mod frame;
pub mod primary;
mod streams;

pub use backlog::{Backlog, Lost, Piece, Reader};
pub use commands::Batch;
pub use encode::{Encoder, Understood, WriteAux};
pub use frame::{Frame, FrameWriter};
