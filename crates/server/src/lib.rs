//! Petrel's server: workers, connections, configuration, and the commands that need them.

pub mod client;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod commands;
pub mod config;
pub mod durability;
pub mod event_loop;
pub mod fanout;
pub mod host;
pub mod lifecycle;
pub mod migrate;
pub mod observation;
pub mod pause;
mod random_id;
pub mod replication;
pub mod server;
pub mod tls;
pub mod unix_time;
pub mod users;

pub use lifecycle::start::{Running, start};
