//! Workers: each has one thread, an event loop and its connections.

pub(crate) mod accepting;
mod answers;
pub(crate) mod backpressure;
pub mod batch;
pub(crate) mod busy_loop;
pub mod connection;
pub(crate) mod prefetch_estimate;
pub(crate) mod read;
pub(crate) mod remote;
pub(crate) mod timers;
pub(crate) mod worker;
