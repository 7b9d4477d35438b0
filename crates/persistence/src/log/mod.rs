//! The log of effects: what makes a keyspace outlive the process, change by change.
//!
//! | file | holds |
//! |---|---|
//! | `format` | the frame of a log's files |
//! | `number`, `effect` | the bytes of an effect |
//! | `segment` | records in memory, with their checksum |
//! | `recorder` | records of one thread, on their way to the log |
//! | `group` | the log's own threads: epochs, writing, syncing |
//! | `writer`, `storage` | blocks, and what they are appended to |
//! | `manifest`, `directory` | which files make up a log |
//! | `read`, `replay` | the way back in |

mod directory;
mod effect;
mod format;
mod group;
mod manifest;
mod number;
mod read;
mod recorder;
mod replay;
mod segment;
mod storage;
mod writer;

#[cfg(test)]
mod tests;

pub use directory::Directory;
pub use format::{BlockHead, FileHead, is_log};
pub use group::{Events, Log, LogSource, Policy};
pub use manifest::{Entry, Kind, Manifest, ManifestError};
pub use read::{BlockReader, LogError};
pub use recorder::Recorder;
pub use replay::{Replayed, replay};
pub use storage::{Storage, Sync, SystemFile};

/// Bytes that are not what belongs there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Malformed;
