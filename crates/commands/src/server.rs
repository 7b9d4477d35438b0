//! Commands about the server itself, and their data: statistics, latency, slow commands, hot keys,
//! memory, the command table.

pub(crate) mod cluster;
pub(crate) mod command;
pub mod help;
pub mod hotkeys;
pub mod latency;
pub(crate) mod lolwut;
pub mod memory;
pub(crate) mod module;
pub mod redact;
pub mod replication;
pub mod slowlog;
pub mod state;
pub mod stats;
pub(crate) mod time;
