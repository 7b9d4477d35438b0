//! `CLIENT TRACKING`, as a connection remembers it.

use petrel_keyspace::Reader;
use std::sync::Arc;

/// `CLIENT TRACKING ON`.
#[derive(Clone, Debug)]
pub struct Tracking {
    /// The connection, as those who change keys know it.
    pub reader: Arc<Reader>,
    /// Which reads are remembered.
    pub mode: TrackingMode,
    /// `CLIENT CACHING`: the next command is the exception.
    pub caching: bool,
    /// Another connection is told of changes.
    pub redirects: bool,
}

/// Which reads of a connection are remembered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TrackingMode {
    /// All.
    All,
    /// Those that `CLIENT CACHING YES` announces.
    OptIn,
    /// All but those that `CLIENT CACHING NO` announces.
    OptOut,
    /// None: the connection is told of keys that it has not read.
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
