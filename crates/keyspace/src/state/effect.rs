//! Effects: the description of a write for the log, replicas, peers, `WATCH`, tracking and indexes.

use crate::state::order::{Epochs, Order, Origin};
use crate::structures::custom::{CustomChange, TypeNumber};
use crate::structures::list::End;
use crate::structures::stream::StreamChange;
use crate::structures::value::StrRef;
use crate::structures::view::View;

/// A change of one key (or of a whole database), deterministic: times are absolute, generated
/// values resolved.
///
/// Applying an effect with [`crate::Handle::apply`] makes the same change through the same
/// mutators.
///
/// Changes of a collection's elements are effects of their own. The removal of an emptied
/// collection is a separate [`Effect::Remove`].
#[derive(Clone, Copy, Debug)]
pub enum Effect<'a> {
    /// The key gets this string and this expiry, replacing any value.
    Put {
        /// The key.
        key: &'a [u8],
        /// New value.
        value: StrRef<'a>,
        /// Expiry in Unix milliseconds.
        expiry: Option<i64>,
    },
    /// The key gets a copy of this value of any type: after `RESTORE` and commands that store a
    /// whole collection.
    Store {
        /// The key.
        key: &'a [u8],
        /// New value, to be read before the sink returns.
        value: View<'a>,
        /// Expiry in Unix milliseconds.
        expiry: Option<i64>,
    },
    /// The key gets the value and expiry of another key's collection: after `COPY`, and after
    /// `RENAME` and `MOVE`, which remove the other key with an effect of its own. The value is not
    /// included: it is that of the other key at this effect's [`Order`], which is above all earlier
    /// ones of both keys' stripes, and below all later ones.
    CopyFrom {
        /// The key.
        key: &'a [u8],
        /// The database of the other key.
        from_db: u16,
        /// The other key.
        from: &'a [u8],
        /// Whether the other key is removed next, so that the value may be moved.
        moved: bool,
        /// The value, if a sink records the effect: receivers of the effect may lack the other key.
        /// Not needed to apply the effect.
        value: Option<View<'a>>,
    },
    /// The key is removed.
    Remove {
        /// The key.
        key: &'a [u8],
        /// Reason of the removal.
        why: Removal,
    },
    /// The key's expiry changed, its value did not.
    Expire {
        /// The key.
        key: &'a [u8],
        /// Expiry in Unix milliseconds; `None` after `PERSIST`.
        expiry: Option<i64>,
    },
    /// A number was added to an integer; expiry is kept. A missing key counts as 0.
    Add {
        /// The key.
        key: &'a [u8],
        /// The increment.
        delta: i64,
    },
    /// Bytes were written into a string from `offset` on, after padding it with zeros if it was
    /// shorter; expiry is kept.
    Write {
        /// The key.
        key: &'a [u8],
        /// Offset of the bytes.
        offset: usize,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A member of a sorted set gets this score; a missing key becomes a sorted set. Expiry is
    /// kept.
    ScorePut {
        /// The key.
        key: &'a [u8],
        /// The member.
        member: &'a [u8],
        /// New score; never NaN.
        score: f64,
    },
    /// A member of a sorted set is removed. The removal of the key with the last one is an effect
    /// of its own.
    ScoreRemove {
        /// The key.
        key: &'a [u8],
        /// The member.
        member: &'a [u8],
    },
    /// A member was added to a set. A missing key counts as an empty set.
    MemberAdd {
        /// The key.
        key: &'a [u8],
        /// The member.
        member: &'a [u8],
    },
    /// A member was removed from a set.
    MemberRemove {
        /// The key.
        key: &'a [u8],
        /// The member.
        member: &'a [u8],
    },
    /// An element was pushed at an end of a list, which was created if the key did not exist.
    ListPush {
        /// The key.
        key: &'a [u8],
        /// End of the list.
        end: End,
        /// The element.
        element: &'a [u8],
    },
    /// The element at an end of a list was removed.
    ListPop {
        /// The key.
        key: &'a [u8],
        /// End of the list.
        end: End,
    },
    /// An element of a list was replaced.
    ListSet {
        /// The key.
        key: &'a [u8],
        /// Index of the element.
        index: usize,
        /// The new element.
        element: &'a [u8],
    },
    /// An element was inserted into a list.
    ListInsert {
        /// The key.
        key: &'a [u8],
        /// Index of the element.
        index: usize,
        /// The element.
        element: &'a [u8],
        /// The element behind it, previously at its index; none at the end. Not needed to apply the
        /// effect.
        next: Option<&'a [u8]>,
    },
    /// An element of a list was removed.
    ListRemove {
        /// The key.
        key: &'a [u8],
        /// Index of the element.
        index: usize,
    },
    /// All elements of a list except a range were removed.
    ListTrim {
        /// The key.
        key: &'a [u8],
        /// Index of the first element that stays.
        from: usize,
        /// Number of elements that stay.
        len: usize,
    },
    /// A change of a stream.
    Stream {
        /// The key.
        key: &'a [u8],
        /// The change.
        change: StreamChange<'a>,
    },
    /// A value of a value type changed.
    Custom {
        /// The key.
        key: &'a [u8],
        /// The type.
        of: TypeNumber,
        /// The change, as the type encodes it.
        change: CustomChange<'a>,
    },
    /// A field of a hash gets this value and this expiry. A missing key counts as an empty hash.
    FieldPut {
        /// The key.
        key: &'a [u8],
        /// The field.
        field: &'a [u8],
        /// New value.
        value: &'a [u8],
        /// Expiry of the field in Unix milliseconds.
        expiry: Option<i64>,
    },
    /// The expiry of a field changed, its value did not.
    FieldExpire {
        /// The key.
        key: &'a [u8],
        /// The field.
        field: &'a [u8],
        /// Expiry of the field in Unix milliseconds; `None` after `HPERSIST`.
        expiry: Option<i64>,
    },
    /// A field was removed from a hash.
    FieldRemove {
        /// The key.
        key: &'a [u8],
        /// The field.
        field: &'a [u8],
        /// Whether a command removed it or it expired.
        why: Removal,
    },
    /// Auxiliary state: state that is no key, such as the function libraries. Any thread may record
    /// it. The [`EffectHead::order`] of these effects counts only the changes of the state of this
    /// name, and the highest is valid.
    Aux {
        /// Name of the state.
        name: &'a [u8],
        /// Whole form of the state; empty if there is nothing of it.
        bytes: &'a [u8],
    },
    /// Every key of the database is removed.
    Clear,
    /// The database was swapped with another.
    Swap {
        /// Number of the other database.
        with: u16,
    },
}

impl<'a> Effect<'a> {
    /// The key that changed; none for effects of whole databases or auxiliary state.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Effect::Put { key, .. }
            | Effect::Store { key, .. }
            | Effect::CopyFrom { key, .. }
            | Effect::Remove { key, .. }
            | Effect::Expire { key, .. }
            | Effect::Add { key, .. }
            | Effect::Write { key, .. }
            | Effect::ScorePut { key, .. }
            | Effect::ScoreRemove { key, .. }
            | Effect::MemberAdd { key, .. }
            | Effect::MemberRemove { key, .. }
            | Effect::ListPush { key, .. }
            | Effect::ListPop { key, .. }
            | Effect::ListSet { key, .. }
            | Effect::ListInsert { key, .. }
            | Effect::ListRemove { key, .. }
            | Effect::ListTrim { key, .. }
            | Effect::Stream { key, .. }
            | Effect::Custom { key, .. }
            | Effect::FieldPut { key, .. }
            | Effect::FieldExpire { key, .. }
            | Effect::FieldRemove { key, .. } => Some(key),
            Effect::Aux { .. } | Effect::Clear | Effect::Swap { .. } => None,
        }
    }

    /// The other key from which the value is taken, with its database: the stripe of that key must
    /// also be held to apply the effect.
    pub fn source(&self) -> Option<(u16, &'a [u8])> {
        match *self {
            Effect::CopyFrom { from_db, from, .. } => Some((from_db, from)),
            _ => None,
        }
    }

    /// Whether the key counts as modified for `WATCH`. As in Redis it does not if only a stream's
    /// consumer groups or its counters have changed: active consumers would abort every
    /// transaction.
    pub(crate) fn modifies_value(&self) -> bool {
        !matches!(self, Effect::Stream { change, .. } if !change.modifies_entries())
    }
}

/// Reason for the removal of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Removal {
    /// Removed by a command.
    Deleted,
    /// The last element was removed.
    Emptied,
    /// The time to live had passed.
    Expired,
    /// Evicted to stay under the memory limit.
    Evicted,
}

/// Database, order and origin of an effect.
#[derive(Clone, Copy, Debug)]
pub struct EffectHead {
    /// The database.
    pub db: u16,
    /// Position among the effects of the key's stripe.
    pub order: Order,
    /// Process that first made the effect.
    pub origin: Origin,
}

/// Bytes of an effect without database and order, which a sink has written and sinks of the same
/// encoding copy (that of `petrel_persistence::log`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Encoded<'a> {
    /// Number and flags of the effect.
    pub kind: u8,
    /// Fields of the effect.
    pub body: &'a [u8],
}

/// A message to the subscribers of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Published<'m> {
    /// The database that its publisher has selected.
    pub db: u16,
    /// Whether the channel is a shard channel.
    pub is_sharded: bool,
    /// The channel.
    pub channel: &'m [u8],
    /// The message itself.
    pub payload: &'m [u8],
}

/// A consumer of effects. It is called under the key's stripe lock, on the thread of the change: it
/// copies the data it needs and returns.
pub trait EffectSink: Send {
    /// Takes one effect.
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>);

    /// Like [`EffectSink::record`], for one of several sinks. `encoded` are the bytes if an earlier
    /// sink has encoded the effect; the bytes are returned for later ones, so that each effect is
    /// encoded once.
    fn record_encoded<'s>(
        &'s mut self,
        head: EffectHead,
        effect: &Effect<'_>,
        encoded: Option<Encoded<'s>>,
    ) -> Option<Encoded<'s>> {
        self.record(head, effect);
        encoded
    }

    /// Takes a message to subscribers, which belongs to the same commit as the surrounding effects
    /// but changes nothing; false if this sink does not use it.
    fn message(&mut self, message: &Published<'_>) -> bool {
        let _ = message;
        false
    }

    /// Commits all effects since the last call. They were made under locks about to be released, so
    /// no other thread has seen a part of them. They belong to the returned epoch; with `alone`, to
    /// an epoch of their own: everything is held then. Called for the sink that owns epochs
    /// ([`crate::SinkSource::owns_epochs`]), or for the first if none does.
    fn commit(&mut self, epochs: &Epochs, alone: bool) -> u64 {
        let epoch = epochs.now();
        self.committed(epoch, alone);
        epoch
    }

    /// Like [`EffectSink::commit`], for every other sink, with the epoch already chosen.
    fn committed(&mut self, epoch: u64, alone: bool) {
        let _ = (epoch, alone);
    }

    /// The thread has ended a batch: the sink passes the committed changes on, so that they no
    /// longer depend on this thread.
    fn hand_over(&mut self) {}
}

impl<F: FnMut(u16, &Effect<'_>) + Send> EffectSink for F {
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        self(head.db, effect);
    }
}
