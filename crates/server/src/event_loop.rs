//! Workers: each has one thread, an event loop and its connections.

pub(crate) mod accepting;
pub(crate) mod backpressure;
pub mod batch;
pub(crate) mod blocked;
pub(crate) mod busy_loop;
pub mod connection;
pub mod mailbox;
pub(crate) mod prefetch_estimate;
pub(crate) mod read;
pub(crate) mod remote;
pub(crate) mod timers;
pub(crate) mod worker;
pub mod worker_link;
