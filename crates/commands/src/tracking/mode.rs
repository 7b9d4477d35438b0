//! Tracking state of a connection (`CLIENT TRACKING`).

use petrel_keyspace::Reader;
use std::sync::Arc;

/// State of `CLIENT TRACKING ON`.
#[derive(Clone, Debug)]
pub struct Tracking {
    /// Identity of the connection in the tracking table.
    pub reader: Arc<Reader>,
    /// Reads to remember.
    pub mode: TrackingMode,
    /// `CLIENT CACHING`: the next command is treated opposite to the mode's default.
    pub caching: bool,
    /// Invalidations go to another connection (`REDIRECT`).
    pub redirects: bool,
    /// Number of the client, if it gets no invalidations of its own changes (`NOLOOP`).
    pub writer: Option<u64>,
}

/// Selection of reads to remember.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrackingMode {
    /// All reads.
    All,
    /// Only reads after `CLIENT CACHING YES`.
    OptIn,
    /// All reads except after `CLIENT CACHING NO`.
    OptOut,
    /// No reads: invalidations are sent for all keys with the client's prefixes (`BCAST`).
    Broadcast,
}

impl Tracking {
    /// Whether the next command's reads are remembered.
    pub fn remembers(&self) -> bool {
        match self.mode {
            TrackingMode::All => true,
            TrackingMode::OptIn => self.caching,
            TrackingMode::OptOut => !self.caching,
            TrackingMode::Broadcast => false,
        }
    }
}
