//! Workers: one thread each with an event loop, its connections, and what their input becomes.

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
