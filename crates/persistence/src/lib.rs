//! Values as bytes that outlive the process. Nothing here knows sockets.
//!
//! ```text
//! keyspace ── values ───> rdb: DUMP, dump.rdb, the base of the log ──> load ──> keyspace
//!     └────── effects ──> log: blocks of epochs ─────────────────────> recover ────^
//!             append-only files of Redis ──> aof ──> commands ─────────────────────┘
//! ```
//!
//! [`rdb`] reads and writes the serialisation of Redis and Valkey: the payloads of `DUMP` and
//! `RESTORE`, and RDB files. [`value`] joins it to a keyspace, [`save`] and [`load`] do so for a
//! whole one. [`aof`] reads the append-only files of Redis and Valkey. [`record`] declares records
//! of the log and of the cluster.

pub mod aof;
mod check;
mod direct;
pub mod effects;
mod image;
pub mod leftover;
mod load;
pub mod log;
mod mapping;
mod mend;
mod paced;
pub mod rdb;
pub mod record;
mod save;
mod turns;
pub mod value;

pub use check::{Census, check};
pub use image::{Image, KeyFilter};
pub use load::{
    AUX_COMPACT, LoadFrom, LoadOptions, Loaded, Progress, Settle, UNKNOWN_LEN, load, load_from,
};
pub use mend::{CheckFunctions, LeftOut, Mended, Outputs, mend};
pub use paced::PacedFile;
pub use save::save;
