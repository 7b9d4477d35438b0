//! A change of a stream, as described by an effect.

use super::id::StreamId;

/// Change of a stream. Applying it creates an absent stream.
#[derive(Clone, Copy, Debug)]
pub enum StreamChange<'a> {
    /// An entry was appended.
    Add {
        /// ID of the entry.
        id: StreamId,
        /// Names and values in turn.
        fields: &'a [&'a [u8]],
    },
    /// An entry was deleted.
    Delete {
        /// ID of the entry.
        id: StreamId,
    },
    /// An entry between others was trimmed: the greatest ID of a deleted entry stays the same.
    TrimOne {
        /// ID of the entry.
        id: StreamId,
    },
    /// All entries up to an ID were trimmed.
    TrimUpTo {
        /// The ID.
        id: StreamId,
    },
    /// The stream's last ID and counters were set.
    Set {
        /// The greatest ID that an entry ever had.
        last_id: StreamId,
        /// Number of entries ever added.
        added: u64,
        /// The greatest ID of a deleted entry.
        max_deleted: StreamId,
    },
    /// A consumer group was created, or its position set.
    Group {
        /// The group.
        group: &'a [u8],
        /// The greatest ID that was delivered.
        last_delivered: StreamId,
        /// Number of entries up to that one.
        read: Option<u64>,
        /// Whether the group was created. Applying an effect determines that itself.
        is_new: bool,
    },
    /// A consumer group was removed.
    GroupRemove {
        /// The group.
        group: &'a [u8],
    },
    /// A consumer was created, or its times updated.
    Consumer {
        /// The group.
        group: &'a [u8],
        /// The consumer.
        consumer: &'a [u8],
        /// Time of its last attempt to get entries, in Unix milliseconds.
        seen_ms: i64,
        /// Time at which it last got entries.
        active_ms: Option<i64>,
    },
    /// A consumer was removed, with its pending entries.
    ConsumerRemove {
        /// The group.
        group: &'a [u8],
        /// The consumer.
        consumer: &'a [u8],
    },
    /// The state of a pending entry was set.
    Pending {
        /// The group.
        group: &'a [u8],
        /// The entry.
        id: StreamId,
        /// The owning consumer, which belongs to the group; none after it was given back.
        consumer: Option<&'a [u8]>,
        /// Time of the delivery.
        delivered_ms: i64,
        /// Number of deliveries.
        count: u64,
    },
    /// An entry is no longer pending.
    PendingRemove {
        /// The group.
        group: &'a [u8],
        /// The entry.
        id: StreamId,
    },
    /// A producer's ID was added for an entry.
    Produced {
        /// The producer.
        producer: &'a [u8],
        /// The producer's ID.
        own_id: &'a [u8],
        /// The entry.
        id: StreamId,
    },
    /// Retention time and number of producers' IDs were set.
    Producers {
        /// Retention time in seconds.
        duration_s: u32,
        /// Number of IDs per producer.
        ids_max: u32,
    },
}

impl StreamChange<'_> {
    /// Whether entries or producers' IDs were added or removed, rather than groups or counters
    /// changed.
    pub(crate) fn modifies_entries(&self) -> bool {
        match self {
            StreamChange::Add { .. }
            | StreamChange::Delete { .. }
            | StreamChange::TrimOne { .. }
            | StreamChange::TrimUpTo { .. }
            | StreamChange::Produced { .. }
            | StreamChange::Producers { .. } => true,
            StreamChange::Set { .. }
            | StreamChange::Group { .. }
            | StreamChange::GroupRemove { .. }
            | StreamChange::Consumer { .. }
            | StreamChange::ConsumerRemove { .. }
            | StreamChange::Pending { .. }
            | StreamChange::PendingRemove { .. } => false,
        }
    }
}
