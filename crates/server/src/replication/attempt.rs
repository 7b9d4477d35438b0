//! An attempt to replicate from a primary: its address, and whether it is still requested.

use crate::server::Server;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// An attempt to replicate from a primary.
pub(super) struct Link {
    pub server: Arc<Server>,
    pub(super) host: String,
    pub(super) port: u16,
    /// [`crate::state::replication::RequestedRole::number`] when it began.
    pub(super) request_number: u64,
}

impl Link {
    /// Fails if this primary is no longer to be followed.
    ///
    /// # Errors
    /// A line for the log.
    pub fn check_request(&self) -> Result<(), String> {
        check_request(&self.server, self.request_number)
    }
}

/// Fails if another role has been requested since the request with this number.
///
/// # Errors
/// A line for the log.
pub(super) fn check_request(server: &Server, number: u64) -> Result<(), String> {
    let now = server.replication.request_number.load(Acquire);
    match now == number && !server.is_stopping() {
        true => Ok(()),
        false => Err("it is no longer the requested primary".into()),
    }
}
