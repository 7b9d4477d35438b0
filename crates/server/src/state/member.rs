//! The cluster that the server is a member of, as its start and stop see it.

use petrel_keyspace::Event;
use std::time::Duration;

/// The server's membership of a cluster; `cluster/leave.rs` implements it.
pub trait Member: Send + Sync {
    /// Whether other members take over the hash slots of this one when it stops.
    fn has_to_leave(&self) -> bool;

    /// Gives this member's hash slots to others that have the data, as long as the stop
    /// `is_wanted`, for `patience` at most.
    fn hand_slots_over(&self, patience: Duration, is_wanted: &dyn Fn() -> bool);

    /// Takes the hash slots back: the server does not stop.
    fn take_slots_back(&self);

    /// Waits until clients' commands that were forwarded are answered, except blocked ones, for
    /// `patience` at most. No further command begins.
    fn drain(&self, patience: Duration);

    /// Leaves the cluster, within `patience`. The data are saved, and no client is served any more.
    fn leave(&self, patience: Duration);

    /// The fewest other owners of a slot of which this member is primary that have acknowledged all
    /// changes, or one of late: within `lag_max`. None if it is primary of no slot.
    fn owners_answering(&self, lag_max: Duration) -> Option<usize>;

    /// Whether this member is the primary of a key.
    fn orders(&self, key: &[u8]) -> bool;

    /// Whether another member tells of changes of keys with this prefix-tracked name, since this
    /// one does not own it.
    fn hears_elsewhere(&self, key: &[u8]) -> bool;

    /// Tells a member, by its number, that a key changed which its clients have read, or whose
    /// prefix they track (`true`). `writer`: its client that changed the key, if known.
    fn tell_changed(&self, member: (u16, bool), writer: Option<u64>, db: u16, key: &[u8]);

    /// Tells members, one bit each, of a keyspace event.
    fn tell_event(&self, members: u64, event: &Event);

    /// Waits for the end of the cluster's threads and links. The server is stopping.
    fn end(&self);
}
