//! Petrel's server: workers, connections, configuration, and the commands that need them.

pub mod backup;
pub mod batch;
mod blocked;
pub mod client;
pub mod closing;
pub mod commands;
pub mod config;
pub mod conn;
mod habit;
pub mod host;
mod http;
mod intake;
pub mod listening;
pub mod log;
pub mod mailbox;
pub mod migrate;
pub mod monitor;
pub mod move_in;
mod oom;
pub mod process;
mod progress;
pub mod pubsub;
pub mod push;
pub mod review;
mod save_points;
pub mod server;
pub mod snapshot;
mod stand_in;
pub mod start;
mod timers;
pub mod tls;
pub mod tracking;
pub mod traffic;
pub mod users;
mod worker;

pub use start::{Running, start};
