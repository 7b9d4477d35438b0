//! Publish and subscribe.

use crate::bitset::bits;
use crate::spec::{Arg, Channels, Group, KeyFlags, KeySpec, Meta};

/// A channel that is routed like a key, and is none.
const ONE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::NOT_KEY)];

/// As many of them as there are arguments.
const MANY: &[KeySpec] = &[KeySpec::range(1, -1, 1, KeyFlags::NOT_KEY)];
/// `SUBSCRIBE`.
pub const SUBSCRIBE: Meta = Meta {
    flags: bits!(Flags: DENYOOM, PUBSUB, NOSCRIPT, LOADING, STALE),
    channels: Channels::All,
    summary: "Begins to listen to channels.",
    complexity: "O(N) where N is the number of channels",
    arguments: &[Arg::string("channel").many()],
    ..Meta::new("subscribe", -2, Group::PubSub, "2.0.0")
};

/// `PSUBSCRIBE`.
pub const PSUBSCRIBE: Meta = Meta {
    flags: bits!(Flags: DENYOOM, PUBSUB, NOSCRIPT, LOADING, STALE),
    channels: Channels::Patterns,
    summary: "Begins to listen to all channels that match patterns.",
    complexity: "O(N) where N is the number of patterns",
    arguments: &[Arg::pattern("pattern").many()],
    ..Meta::new("psubscribe", -2, Group::PubSub, "2.0.0")
};

/// `SSUBSCRIBE`.
pub const SSUBSCRIBE: Meta = Meta {
    flags: bits!(Flags: DENYOOM, PUBSUB, NOSCRIPT, LOADING, STALE),
    channels: Channels::All,
    keys: MANY,
    summary: "Begins to listen to channels of the shard.",
    complexity: "O(N) where N is the number of channels",
    arguments: &[Arg::string("shardchannel").many()],
    ..Meta::new("ssubscribe", -2, Group::PubSub, "7.0.0")
};

/// `UNSUBSCRIBE`.
pub const UNSUBSCRIBE: Meta = Meta {
    flags: bits!(Flags: PUBSUB, NOSCRIPT, LOADING, STALE),
    summary: "Listens no longer to channels, or to any.",
    complexity: "O(N) where N is the number of channels",
    arguments: &[Arg::string("channel").opt().many()],
    ..Meta::new("unsubscribe", -1, Group::PubSub, "2.0.0")
};

/// `PUNSUBSCRIBE`.
pub const PUNSUBSCRIBE: Meta = Meta {
    flags: bits!(Flags: PUBSUB, NOSCRIPT, LOADING, STALE),
    summary: "Listens no longer by patterns, or by any.",
    complexity: "O(N) where N is the number of patterns",
    arguments: &[Arg::pattern("pattern").opt().many()],
    ..Meta::new("punsubscribe", -1, Group::PubSub, "2.0.0")
};

/// `SUNSUBSCRIBE`.
pub const SUNSUBSCRIBE: Meta = Meta {
    flags: bits!(Flags: PUBSUB, NOSCRIPT, LOADING, STALE),
    keys: MANY,
    summary: "Listens no longer to channels of the shard, or to any.",
    complexity: "O(N) where N is the number of channels",
    arguments: &[Arg::string("shardchannel").opt().many()],
    ..Meta::new("sunsubscribe", -1, Group::PubSub, "7.0.0")
};

/// `PUBLISH`.
pub const PUBLISH: Meta = Meta {
    flags: bits!(Flags: PUBSUB, LOADING, STALE, FAST, MAY_REPLICATE),
    channels: Channels::First,
    summary: "Sends a message to whoever listens to a channel.",
    complexity: "O(N+M) where N is the number of subscribers of the channel and M that of all patterns",
    arguments: &[Arg::string("channel"), Arg::string("message")],
    ..Meta::new("publish", 3, Group::PubSub, "2.0.0")
};

/// `SPUBLISH`.
pub const SPUBLISH: Meta = Meta {
    flags: bits!(Flags: PUBSUB, LOADING, STALE, FAST, MAY_REPLICATE),
    channels: Channels::First,
    keys: ONE,
    summary: "Sends a message to whoever listens to a channel of the shard.",
    complexity: "O(N) where N is the number of subscribers of the channel",
    arguments: &[Arg::string("shardchannel"), Arg::string("message")],
    ..Meta::new("spublish", 3, Group::PubSub, "7.0.0")
};

/// `PUBSUB`.
pub const PUBSUB: Meta = Meta {
    summary: "Tells of channels and their subscribers.",
    complexity: "Depends on subcommand.",
    ..Meta::new("pubsub", -2, Group::PubSub, "2.8.0")
};

/// `PUBSUB CHANNELS`.
pub const CHANNELS: Meta = Meta {
    flags: bits!(Flags: PUBSUB, LOADING, STALE),
    summary: "Lists the channels that have subscribers.",
    complexity: "O(N) where N is the number of channels",
    arguments: &[Arg::pattern("pattern").opt()],
    ..Meta::new("channels", -2, Group::PubSub, "2.8.0")
};

/// `PUBSUB NUMPAT`.
pub const NUMPAT: Meta = Meta {
    flags: bits!(Flags: PUBSUB, LOADING, STALE),
    summary: "Counts the patterns that have subscribers.",
    ..Meta::new("numpat", 2, Group::PubSub, "2.8.0")
};

/// `PUBSUB NUMSUB`.
pub const NUMSUB: Meta = Meta {
    flags: bits!(Flags: PUBSUB, LOADING, STALE),
    summary: "Counts the subscribers of channels.",
    complexity: "O(N) where N is the number of channels asked for",
    arguments: &[Arg::string("channel").opt().many()],
    ..Meta::new("numsub", -2, Group::PubSub, "2.8.0")
};

/// `PUBSUB SHARDCHANNELS`.
pub const SHARDCHANNELS: Meta = Meta {
    flags: bits!(Flags: PUBSUB, LOADING, STALE),
    summary: "Lists the channels of the shard that have subscribers.",
    complexity: "O(N) where N is the number of channels",
    arguments: &[Arg::pattern("pattern").opt()],
    ..Meta::new("shardchannels", -2, Group::PubSub, "7.0.0")
};

/// `PUBSUB SHARDNUMSUB`.
pub const SHARDNUMSUB: Meta = Meta {
    flags: bits!(Flags: PUBSUB, LOADING, STALE),
    summary: "Counts the subscribers of channels of the shard.",
    complexity: "O(N) where N is the number of channels asked for",
    arguments: &[Arg::string("shardchannel").opt().many()],
    ..Meta::new("shardnumsub", -2, Group::PubSub, "7.0.0")
};

/// `PUBSUB HELP`.
pub const HELP: Meta = Meta {
    flags: bits!(Flags: LOADING, STALE),
    summary: "Lists the subcommands.",
    ..Meta::new("help", 2, Group::PubSub, "6.2.0")
};
