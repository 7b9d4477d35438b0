//! The append-only files of Redis and Valkey: commands as clients send them, one behind the other,
//! perhaps behind an RDB file.
//!
//! ```text
//! *3 CRLF $3 CRLF SET CRLF $1 CRLF k CRLF $1 CRLF v CRLF
//! #TS:1700000000 CRLF                                       a note: when what follows was written
//! *1 CRLF $5 CRLF MULTI CRLF  ...  *1 CRLF $4 CRLF EXEC CRLF
//! ```

mod check;
mod files;
mod read;

pub use check::{CommandCensus, Flaw, check_commands, holds_commands};
pub use files::{Found, find, of_manifest};
pub use read::{Command, CommandReader, ReadError};

/// Whether a file that begins so is an RDB file, behind which commands may follow.
pub fn begins_as_rdb(head: &[u8]) -> bool {
    head.starts_with(b"REDIS") || head.starts_with(b"VALKEY")
}
