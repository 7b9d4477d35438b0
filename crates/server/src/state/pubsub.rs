//! Publish/subscribe: subscriptions, and the delivery of messages.
//!
//! ```text
//!  PUBLISH ── Directory: workers and their number of subscribers ── one message into each queue
//!                │ the channel's shard stays locked meanwhile             │
//!                ▼                                                        ▼
//!          the reply: a count                   worker: Subscribers ── one send per subscriber
//! ```
//!
//! A thread that publishes to a channel, subscribes to it or leaves it holds the lock of the
//! channel's shard. So messages of a channel enter all queues in one order, and a worker that first
//! empties its queue and then changes its table delivers a message to exactly the subscribers
//! counted.

mod directory;
mod message;
pub(crate) mod subscribers;

pub use directory::Directory;
pub use message::Message;
pub use subscribers::{Subscribers, Subscriptions};

use std::sync::Arc;

/// A name of a channel, or a pattern of names.
pub type Name = Arc<[u8]>;

/// Kind of a subscription.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum ChannelKind {
    /// A channel of the whole deployment (`SUBSCRIBE`).
    Channel,
    /// A channel of a shard (`SSUBSCRIBE`).
    Shard,
    /// Channels with names that match (`PSUBSCRIBE`).
    Pattern,
}

impl ChannelKind {
    /// Every kind.
    pub const ALL: [ChannelKind; 3] =
        [ChannelKind::Channel, ChannelKind::Shard, ChannelKind::Pattern];
}
