//! MONITOR: connections that are sent every command that is executed, on any worker, as a line.
//!
//! ```text
//! +1700000000.123456 [0 127.0.0.1:54321] "SET" "key" "value"
//! ```
//!
//! While no connection monitors, a command costs one branch for it
//! ([`petrel_commands::Shared::is_observed`]). Lines are written once for all connections that
//! monitor. Those of one worker are in the order of their commands; lines of several workers may
//! come in another order than their times say.

use crate::client::Client;
use parking_lot::Mutex;
use std::sync::Arc;

/// The connections that monitor.
#[derive(Default)]
pub struct Monitors {
    pub(crate) clients: Mutex<Vec<Arc<Client>>>,
}
