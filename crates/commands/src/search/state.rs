//! State of the indexes that the server's threads share.

use crate::search::aggregate::Cursors;
use crate::search::settings::SearchSettings;
use petrel_keyspace::{Handle, Keyspace};
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
    /// Settings (`search-*`).
    pub settings: SearchSettings,
    pub(super) cursors: Cursors,
}

impl SearchState {
    /// Closes cursors that were not read in time, in Unix milliseconds.
    pub fn close_idle_cursors(&self, now_ms: i64, ks: &Handle) {
        self.cursors.close_idle(now_ms, ks);
    }
}
