//! Servers to be measured: which there are, how they are started, watched and ended.

mod cluster;
mod peer;
mod process;
mod sweep;

pub use cluster::{ClusterArgs, NAME as CLUSTER, relay, run as run_cluster};
pub use peer::{Chosen, Peer, PeerArgs};
pub use process::{Server, Setting, Transport, free_port};
pub use sweep::{TempDir, is_stopped, sweep_on_stop};
