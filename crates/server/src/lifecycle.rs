//! Start and shutdown: sockets, signals, the interface to the process.

pub mod listening;
pub(crate) mod oom;
pub mod process;
pub(crate) mod processors;
pub(crate) mod start;
pub(crate) mod stop;
