//! The replication stream of Petrel, as Redis's replicas read it: the changes of the keyspace
//! written as commands, or as frames of effects for Petrels; the bytes of the stream that are kept
//! so that a replica whose link broke can go on where it was; and what a primary sends before its
//! own. No sockets.

pub mod backlog;
mod commands;
pub mod encode;
pub mod frame;
mod json;
pub mod primary;
mod streams;
mod vectors;

pub use backlog::{Backlog, Lost, Piece, Reader};
pub use commands::Batch;
pub use encode::{Encoder, Understood};
pub use frame::{Frame, FrameWriter};
