//! [`Message`]s, and what can be subscribed to.

use bytes::Bytes;

/// A message of a channel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Message {
    /// Kind of the subscription.
    pub kind: ChannelKind,
    /// The pattern that matched, of a subscription by pattern.
    pub pattern: Option<Bytes>,
    /// The channel.
    pub channel: Bytes,
    /// Payload of the message.
    pub payload: Bytes,
}

/// Kinds of subscriptions.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ChannelKind {
    /// Channels by name.
    Channel,
    /// Channels by pattern.
    Pattern,
    /// Channels of a shard.
    Shard,
}

impl ChannelKind {
    pub(super) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];

    pub(super) fn subscribe(self) -> &'static str {
        match self {
            Self::Channel => "SUBSCRIBE",
            Self::Pattern => "PSUBSCRIBE",
            Self::Shard => "SSUBSCRIBE",
        }
    }

    pub(super) fn unsubscribe(self) -> &'static str {
        match self {
            Self::Channel => "UNSUBSCRIBE",
            Self::Pattern => "PUNSUBSCRIBE",
            Self::Shard => "SUNSUBSCRIBE",
        }
    }
}
