//! The log of effects: what makes a keyspace outlive the process, change by change.
//!
//! | file | holds |
//! |---|---|
//! | `format` | the frame of a log's files |
//! | `effect`, `old_kinds` | the bytes of an effect |
//! | `segment` | records in memory, with their checksum |
//! | `recorder` | records of one thread, on their way to the log |
//! | `pending`, `recover` | the file with that memory's pages, and records that a dead process left in it |
//! | `group` | the log's own threads: epochs, writing, syncing, records that outlive the process |
//! | `writer`, `storage` | blocks, and the storage that they are appended to |
//! | `manifest`, `directory`, `foreign` | files that make up a log; files of another server |
//! | `chain` | whether the files of a log follow on each other |
//! | `read`, `replay` | the way back in |

mod chain;
mod directory;
pub(crate) mod effect;
mod foreign;
mod format;
mod group;
mod manifest;
mod old_kinds;
mod pending;
mod read;
mod recorder;
mod recover;
mod replay;
mod segment;
mod storage;
mod writer;

#[cfg(test)]
mod holes;
#[cfg(test)]
mod recover_tests;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Piece, about_empty, check_base, check_len, check_names};
pub use directory::{Directory, is_full};
pub use format::{BlockHead, FileHead, is_log};
pub use group::{Events, Log, LogSource, Policy};
pub use manifest::{Entry, FileKind, Manifest, ManifestError};
pub use pending::Pending;
pub use read::{BlockReader, LogError, Lost};
pub use recorder::Recorder;
pub use recover::{Known, PendingEpoch, PendingError, Remains, append_pending, replay_pending};
pub use replay::{Replayed, replay};
pub use storage::{Storage, Sync, SystemFile};

pub use petrel_keyspace::custom::number;
pub use petrel_keyspace::custom::number::Malformed;
