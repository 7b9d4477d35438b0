//! Starting and stopping: sockets, signals, what the process is asked for.

pub mod listening;
pub(crate) mod oom;
pub mod process;
pub mod shutdown;
pub(crate) mod start;
