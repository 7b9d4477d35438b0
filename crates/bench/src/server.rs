//! Servers to be measured: which there are, how they are started, watched and ended.

mod peer;
mod process;
mod sweep;

pub use peer::{Peer, PeerArgs};
pub use process::{Server, Setting, Transport};
pub use sweep::{is_stopped, sweep_on_stop};
