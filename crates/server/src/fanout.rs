//! Pushes: messages of channels, invalidations of client-side caching, lines of `MONITOR`.

mod invalidation_delivery;
pub(crate) mod monitor_feed;
mod notifications;
mod pubsub;
mod push_delivery;
mod run_review;
mod tracking;

pub use run_review::reply_when_reviewed;
