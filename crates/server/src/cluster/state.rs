//! State of a member, shared by the agent and the rest of the server, and the agent's queues.

pub(in crate::cluster) mod answering;
pub(in crate::cluster) mod copy;
pub(in crate::cluster) mod deferred;
mod events;
pub(in crate::cluster) mod functions;
pub(in crate::cluster) mod interests;
pub(in crate::cluster) mod known_logs;
pub mod membership;
pub(in crate::cluster) mod slots;
pub(in crate::cluster) mod tasks;
pub(in crate::cluster) mod waiters;
