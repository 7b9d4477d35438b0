//! Observation of a running server other than `INFO`: HTTP, traffic, the state of each worker.

pub(crate) mod http;
pub mod pluralized;
pub(crate) mod rate_limited_log;
pub(crate) mod state;
pub mod traffic;
