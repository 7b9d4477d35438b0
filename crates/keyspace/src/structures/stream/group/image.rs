//! Snapshot of consumer groups, taken in portions between which they change.
//!
//! Consumers and last delivered IDs are copied when the snapshot begins. Pending entries are taken
//! by ID: before an entry beyond that position is changed, removed or added, its old state is kept.
//!
//! ```text
//! pending   | taken: may change freely | position | as it was, unless kept | ...
//! kept                                            | by ID: the old state, if there was one |
//! ```

use crate::structures::image::{ImageElement, TakeElement};
use crate::structures::stream::StreamId;
use crate::structures::stream::group::{Group, Groups, NOBODY, Pending, Slot, group_bytes};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, ControlFlow};

/// Pending entries taken at once.
const PENDING_AT_ONCE: usize = 1024;

/// A value excluded from copies: a clone is empty.
#[derive(Debug)]
pub(super) struct Apart<T>(Option<Box<T>>);

impl<T> Default for Apart<T> {
    fn default() -> Self {
        Apart(None)
    }
}

impl<T> Clone for Apart<T> {
    fn clone(&self) -> Self {
        Apart(None)
    }
}

/// Progress of the snapshot of a group's pending entries.
#[derive(Debug, Default)]
pub(super) struct PendingImage {
    /// The last entry taken.
    last: Option<StreamId>,
    /// Old state of later entries changed since.
    kept: BTreeMap<StreamId, Option<Slot>>,
}

/// Progress of the snapshot of a stream's groups.
#[derive(Debug)]
pub(super) struct GroupsImage {
    /// Groups not yet taken completely: the first is in progress if `is_begun`.
    heads: VecDeque<GroupHead>,
    is_begun: bool,
    /// Entries of that group that were given back, by their numbers in the queue.
    given_back: BTreeMap<u64, StreamId>,
    /// Groups removed during the snapshot.
    gone: BTreeMap<Box<[u8]>, Group>,
    /// Groups taken.
    done: Groups,
}

/// State of a group at the snapshot's begin, without its pending entries.
#[derive(Debug)]
pub struct GroupHead {
    name: Box<[u8]>,
    last_delivered: StreamId,
    entries_read: Option<u64>,
    consumers: Vec<ConsumerHead>,
    /// Index among the consumers by the number of a consumer's ID.
    places: Vec<u32>,
    pending_len: usize,
    nacked_len: usize,
}

/// State of a consumer at the snapshot's begin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConsumerHead {
    /// Consumer name.
    pub name: Box<[u8]>,
    /// Time of its last attempt to get entries, in Unix milliseconds.
    pub seen_ms: i64,
    /// Time at which it last got entries.
    pub active_ms: Option<i64>,
}

/// State of a pending entry at the snapshot's begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PendingHead {
    /// The entry.
    pub id: StreamId,
    /// Index of its consumer among those of the group; none if it was given back.
    pub owner: Option<usize>,
    /// Time of the last delivery, in Unix milliseconds; 0 if it was given back.
    pub delivered_ms: i64,
    /// Number of deliveries.
    pub count: u64,
}

impl GroupHead {
    fn of(name: &[u8], group: &Group) -> Self {
        let mut places = vec![NOBODY; group.consumers.len()];
        for (place, id) in group.names.values().enumerate() {
            places[id.0 as usize] = place as u32;
        }
        let consumers = group.consumers().map(|consumer| ConsumerHead {
            name: consumer.name.clone(),
            seen_ms: consumer.seen_ms,
            active_ms: consumer.active_ms,
        });
        GroupHead {
            name: name.into(),
            last_delivered: group.last_delivered,
            entries_read: group.entries_read,
            consumers: consumers.collect(),
            places,
            pending_len: group.pending.len(),
            nacked_len: group.nacked.len(),
        }
    }

    /// Group name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The greatest ID delivered to a consumer, or set by a command.
    pub fn last_delivered(&self) -> StreamId {
        self.last_delivered
    }

    /// Number of entries of the stream up to that one, if known.
    pub fn entries_read(&self) -> Option<u64> {
        self.entries_read
    }

    /// The consumers, by name.
    pub fn consumers(&self) -> &[ConsumerHead] {
        &self.consumers
    }

    /// Number of pending entries.
    pub fn pending_len(&self) -> usize {
        self.pending_len
    }

    /// Number of pending entries that were given back.
    pub fn nacked_len(&self) -> usize {
        self.nacked_len
    }

    fn pending(&self, id: StreamId, slot: Slot) -> PendingHead {
        let Pending { owner, delivered_ms, count } = slot.pending();
        let place = owner.and_then(|owner| self.places.get(owner.0 as usize));
        PendingHead { id, owner: place.map(|&place| place as usize), delivered_ms, count }
    }
}

impl Groups {
    /// Begins a snapshot of the present state.
    pub(in crate::structures::stream) fn begin_image(&mut self) {
        let heads = self.groups.iter().map(|(name, group)| GroupHead::of(name, group)).collect();
        for group in self.groups.values_mut() {
            group.image.0 = Some(Box::default());
        }
        self.image.0 = Some(Box::new(GroupsImage {
            heads,
            is_begun: false,
            given_back: BTreeMap::new(),
            gone: BTreeMap::new(),
            done: Groups::default(),
        }));
    }

    /// Called with a removed group.
    pub(super) fn removed(&mut self, name: &[u8], group: Group) {
        if let Some(image) = &mut self.image.0
            && group.image.0.is_some()
        {
            image.gone.insert(name.into(), group);
        }
    }

    /// Passes some of the snapshot to `take`: each group, its pending entries, and its entries
    /// given back in their order. False at the end.
    pub(in crate::structures::stream) fn continue_image(
        &mut self,
        take: &mut TakeElement<'_>,
    ) -> bool {
        let Some(image) = &mut self.image.0 else { return false };
        let Some(head) = image.heads.front() else { return false };
        if !std::mem::replace(&mut image.is_begun, true)
            && take(ImageElement::Group(head)).is_break()
        {
            return true;
        }
        let gone = image.gone.get_mut(&head.name);
        let Some(group) = gone.or_else(|| self.groups.get_mut(&head.name)) else { return false };
        let given_back = &mut image.given_back;
        let goes_on = group.continue_image(&mut |id, slot| {
            if slot.owner == NOBODY {
                given_back.insert(slot.delivered_ms as u64, id);
            }
            take(ImageElement::Pending(head.pending(id, slot)))
        });
        if goes_on {
            return true;
        }
        for _ in 0..PENDING_AT_ONCE {
            let Some((_, id)) = image.given_back.pop_first() else { break };
            if take(ImageElement::GivenBack(id)).is_break() {
                break;
            }
        }
        if !image.given_back.is_empty() {
            return true;
        }
        group.image.0 = None;
        if let Some((name, group)) = image.gone.remove_entry(&head.name) {
            image.done.bytes += group_bytes(&name) + group.bytes;
            image.done.groups.insert(name, group);
        }
        image.heads.pop_front();
        image.is_begun = false;
        !image.heads.is_empty()
    }

    /// Ends the snapshot; returns the groups owned only by it, to be freed.
    pub(in crate::structures::stream) fn end_image(&mut self) -> Groups {
        self.image.0.take().map_or_else(Groups::default, |image| image.done)
    }
}

impl Group {
    /// Called before a pending entry is changed, removed or added.
    #[inline]
    pub(super) fn before_change(&mut self, id: StreamId) {
        if let Some(image) = &mut self.image.0
            && image.last.is_none_or(|last| id > last)
        {
            let pending = &self.pending;
            image.kept.entry(id).or_insert_with(|| pending.get(&id).copied());
        }
    }

    /// Passes the next pending entries of the snapshot to `take` until it has enough; false at the
    /// end.
    fn continue_image(&mut self, take: &mut dyn FnMut(StreamId, Slot) -> ControlFlow<()>) -> bool {
        let Some(image) = &mut self.image.0 else { return false };
        let start = image.last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut there = self.pending.range((start, Bound::Unbounded)).peekable();
        for _ in 0..PENDING_AT_ONCE {
            let kept = image.kept.first_key_value().map(|(&id, _)| id);
            let next = there.peek().map(|&(&id, _)| id);
            let Some(id) = kept.into_iter().chain(next).min() else { return false };
            let now = there.next_if(|&(&at, _)| at == id).map(|(_, &slot)| slot);
            let was = if kept == Some(id) {
                image.kept.pop_first().and_then(|(_, was)| was)
            } else {
                now
            };
            image.last = Some(id);
            if was.is_some_and(|slot| take(id, slot).is_break()) {
                return true;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> StreamId {
        StreamId::new(n, 0)
    }

    /// Takes one portion: numbers of pending entries, and of entries given back as negative
    /// numbers.
    fn portion(groups: &mut Groups) -> (Vec<i64>, bool) {
        let mut taken = Vec::new();
        let goes_on = groups.continue_image(&mut |element| {
            match element {
                ImageElement::Pending(pending) => taken.push(pending.id.ms as i64),
                ImageElement::GivenBack(id) => taken.push(-(id.ms as i64)),
                ImageElement::Group(_) => {}
                other => panic!("{other:?}"),
            }
            ControlFlow::Continue(())
        });
        (taken, goes_on)
    }

    #[test]
    fn pending_entries_come_in_portions_and_as_they_were() {
        let (mut groups, many) = (Groups::default(), 3 * PENDING_AT_ONCE as u64);
        groups.put(b"g", id(0), None);
        let owner = groups.change(b"g", |group| group.put_consumer(b"c", 1, None));
        let [owned, given_back] =
            [owner, None].map(|owner| Pending { owner, delivered_ms: 1, count: 1 });
        groups.change(b"g", |group| {
            (1..=many).for_each(|n| group.put_pending(id(2 * n), owned));
            (1..=many).rev().step_by(3).for_each(|n| group.put_pending(id(2 * n), given_back));
        });
        let all: Vec<i64> = (1..=many as i64).map(|n| 2 * n).collect();
        let queue: Vec<i64> = (1..=many as i64).rev().step_by(3).map(|n| -2 * n).collect();
        groups.begin_image();
        let (mut taken, mut goes_on) = portion(&mut groups);
        assert_eq!((taken.len(), goes_on), (PENDING_AT_ONCE, true));
        // The copy and the group that takes its name are not part of the snapshot.
        let copy = groups.clone();
        groups.change(b"g", |group| {
            (1..=many).for_each(|n| {
                group.put_pending(id(2 * n + 1), owned);
                group.remove_pending(id(2 * n));
            });
        });
        groups.remove(b"g");
        groups.put(b"g", id(7), None);
        while goes_on {
            let (more, on) = portion(&mut groups);
            assert!(more.len() <= 2 * PENDING_AT_ONCE);
            (taken, goes_on) = ([taken, more].concat(), on);
        }
        assert!(taken == [all, queue].concat());
        assert_eq!(groups.end_image().len(), 1, "what was removed is left to be freed");
        assert_eq!(copy.get(b"g").map(Group::pending_len), Some(many as usize));
        assert_eq!(groups.get(b"g").map(Group::pending_len), Some(0));
    }
}
