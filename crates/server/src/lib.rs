//! Petrel's server: workers, connections, configuration, and the commands that need them.
//!
//! Files import from their own floor and those below:
//!
//! ```text
//! start    lifecycle/start.rs: listens, starts workers and threads
//! work     event_loop/, commands/, fanout/, durability/, replication/, cluster/, migrate/,
//!          helpers.rs: the server's work, in methods of Server, ServerHost and Worker
//! host     host.rs: the server and the connection whose command is executed, as commands see them
//! server   server.rs: what all workers share
//! state    what each room of the work floor keeps in the server: its `state.rs`, or types that
//!          take what they need as arguments (fanout/, event_loop/worker_link.rs,
//!          replication/mod.rs, cluster/mod.rs)
//! base     config/, client.rs, tls/settings.rs, observation/traffic.rs, lifecycle/listening.rs,
//!          unix_time.rs
//! ```

pub mod client;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod commands;
pub mod config;
pub mod durability;
pub mod event_loop;
pub mod fanout;
mod helpers;
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

pub use lifecycle::start::{Running, start, start_with};
