//! Backups in object stores: S3, Google Cloud Storage, Azure, or a directory.
//!
//! ```text
//! PREFIX/20261121T200301.123Z/dump.rdb    the file, byte for byte
//! PREFIX/20261121T200301.123Z/manifest    its files with sizes and SHA-256: written last
//! PREFIX/20261121T200301.123Z-log/        a log: its base, its complete files, its index;
//!                                         the manifest is replaced as the log grows
//! ```
//!
//! A backup is complete once its manifest is there, so an incomplete upload is never taken
//! for one. Names are times (UTC) and sort by age. The server's side is [`Shipper`], a thread that
//! uploads; [`restore`] and [`list`] are for the start of a server, and use the
//! calling thread.

mod catalog;
mod download;
mod error;
mod job;
mod manifest;
mod name;
mod place;
mod restore;
mod shipper;
mod target;
mod upload;

pub use catalog::Listed;
pub use error::Error;
pub use job::LogState;
pub use name::{BackupKind, Name};
pub use restore::{LogTarget, RestoreTarget, Restored, list, restore};
pub use shipper::{Figures, Options, Shipper};
pub use target::Source;

/// The object of a backup that holds the snapshot.
pub const SNAPSHOT: &str = "dump.rdb";

/// Bytes that are sent or fetched by one request, unless the file is so large that a store would
/// not take this many parts.
const PART_BYTES: u64 = 8 << 20;
