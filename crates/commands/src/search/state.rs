//! State of the indexes that the server's threads share.

use petrel_keyspace::Keyspace;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

/// State of the indexes that the server's threads share.
#[derive(Default)]
pub struct SearchState {
    pub(super) keyspace: OnceLock<Arc<Keyspace>>,
    /// Serializes changes of the view.
    pub(super) following: Mutex<()>,
    /// Data is being loaded: there are no indexes until it is there.
    pub(super) is_suspended: AtomicBool,
}
