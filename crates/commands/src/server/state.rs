//! States of the server that the gate goes by.

/// A state of the server in which it refuses commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum ServerState {
    /// Data is being loaded: what needs it is refused.
    Loading = 1,
    /// Saving in the background failed, and is meant to be relied upon: writes are refused.
    NotSaved = 2,
    /// The log cannot be written: writes are refused.
    NotLogged = 4,
    /// There are fewer replicas than writes are meant to reach (`min-replicas-to-write`): writes
    /// are refused.
    NotReplicated = 8,
    /// The server follows another, whose writes alone are executed (`replica-read-only`).
    ReadOnly = 16,
    /// The server follows another, has no link to it, and is not to show data that may be old
    /// (`replica-serve-stale-data no`).
    Stale = 32,
    /// The server is a member of a cluster: commands are executed where their keys have their home.
    Clustered = 64,
    /// The server is to be a member of a cluster, and is none at the moment, or has not got the
    /// cluster's data yet: what needs them is refused.
    Apart = 128,
}
