//! Pushes: messages of channels, invalidations of client-side caching, lines of `MONITOR`.

pub mod invalidation_queue;
pub mod monitor;
pub mod outbox;
pub mod pubsub;
pub mod review;
pub mod tracking;
