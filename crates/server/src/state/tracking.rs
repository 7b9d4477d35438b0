//! Client-side caching: the connections that track keys, and the invalidations to be sent to them
//! (`fanout/tracking.rs`).

pub(crate) mod pending;
mod routes;
pub(crate) mod tracker;
pub(crate) mod writers;

pub use pending::Invalidations;
pub use tracker::{Options, Tracker, Trackers};
