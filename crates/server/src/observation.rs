//! Observation of a running server other than `INFO`: HTTP, traffic, the state of each worker.

pub mod counted;
pub(crate) mod http;
pub(crate) mod recurring;
pub(crate) mod state;
pub mod traffic;
