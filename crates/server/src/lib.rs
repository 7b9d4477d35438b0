//! Petrel's server: workers, connections, configuration, and the commands that need them.
//!
//! Files import from their own floor and those below:
//!
//! ```text
//! start    lifecycle/start.rs: listens, starts workers and threads
//! work     event_loop/, commands/, fanout/, durability/, replication/, cluster/, migrate/,
//!          observation/, lifecycle/stop.rs, helpers.rs: the server's work, in methods of Server,
//!          ServerHost and Worker
//! host     host.rs: the server and the connection, as the command that is executed sees them
//! server   server.rs: shared by all workers
//! state    state/: the parts of the server's state. The cluster's own state (cluster/state/) is
//!          above, behind the trait state/member.rs
//! base     config/, client.rs, tls/settings.rs, observation/traffic.rs, lifecycle/listening.rs,
//!          unix_time.rs, relative_time.rs
//! ```

#[macro_use]
mod delegate;

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
mod relative_time;
pub mod replication;
pub mod server;
pub mod state;
pub mod tls;
pub mod unix_time;
pub mod users;

pub use lifecycle::start::{Running, start, start_with};
