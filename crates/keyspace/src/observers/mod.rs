//! Observers of changes: the sinks of effects, watched keys, blocked clients, client-side caching,
//! keyspace events.

mod documents;
pub(crate) mod events;
pub(crate) mod invalidation;
pub(crate) mod notify;
pub(crate) mod recording;
pub(crate) mod tracking;
pub(crate) mod waiting;
pub(crate) mod watch;
