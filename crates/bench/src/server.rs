//! Servers to be measured: their programs, and how they are started, watched and ended.

mod cluster;
mod peer;
mod process;
mod setting;
mod sweep;

pub use cluster::{ClusterArgs, relay, run as run_cluster};
pub use peer::{CLUSTER, Chosen, IN_PROCESS, Peer, PeerArgs};
pub use process::Server;
pub use setting::{Setting, Transport, parse_copies};
pub use sweep::{TempDir, is_stopped, sweep_on_stop};
