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
    /// Fewer replicas than `min-replicas-to-write` are connected: writes are rejected.
    NotReplicated = 8,
    /// The server is a replica that rejects clients' writes (`replica-read-only`).
    ReadOnly = 16,
    /// The server is a replica without a link to its primary, and must not serve stale data
    /// (`replica-serve-stale-data no`).
    Stale = 32,
    /// The server is a member of a cluster: commands are executed at the homes of their keys.
    Clustered = 64,
    /// The server is configured as a cluster member, but has not joined or has not yet received the
    /// cluster's data: commands that need data are rejected.
    Apart = 128,
}
