//! Server states that the command gate checks.

/// State of the server that rejects commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum ServerState {
    /// Data is being loaded: commands that need it are rejected.
    Loading = 1,
    /// The last background save failed, with `stop-writes-on-bgsave-error`: writes are rejected.
    NotSaved = 2,
    /// The log cannot be written: writes are rejected.
    NotLogged = 4,
    /// Fewer replicas than `min-replicas-to-write` are connected: writes are rejected.
    NotReplicated = 8,
    /// The server is a replica that rejects clients' writes (`replica-read-only`).
    ReadOnly = 16,
    /// The server is a replica without a link to its primary, and must not serve stale data
    /// (`replica-serve-stale-data no`).
    Stale = 32,
    /// The server is a member of a cluster: commands are executed at the primaries of their keys.
    Clustered = 64,
    /// The server is configured as a cluster member, but has not joined or has not yet received the
    /// cluster's data: commands that need data are rejected.
    Apart = 128,
}
