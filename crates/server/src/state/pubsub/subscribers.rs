//! Subscribers of a worker, by channel, and the subscriptions of each connection.

use super::{ChannelKind, Name};
use crate::state::outbox::Recipient;
use foldhash::quality::RandomState;
use std::collections::HashMap;

/// Names that one connection may be subscribed to, of each kind.
pub const SUBSCRIPTIONS_MAX: usize = 1 << 20;

/// Bytes that a subscription takes beside its name: its entries in three tables.
const SUBSCRIPTION_BYTES: usize = 128;

/// Tables are made smaller when they are mostly empty and have room for more than this.
const RETAINED_MAX: usize = 1024;

type Map<K, V> = HashMap<K, V, RandomState>;

/// Subscribers among the connections of a worker.
#[derive(Default)]
pub struct Subscribers {
    /// By kind and name; no subscriber is unknown to `by_client`.
    listeners: [Map<Name, Vec<Recipient>>; 3],
    /// By the connection's number.
    by_client: Map<u64, Subscriptions>,
}

/// Subscriptions of a connection by kind, with its place in each list of subscribers.
#[derive(Default)]
pub struct Subscriptions {
    places: [Map<Name, u32>; 3],
    bytes: usize,
}

impl Subscriptions {
    /// Number of names of a kind.
    pub fn len(&self, kind: ChannelKind) -> usize {
        self.places[kind as usize].len()
    }

    /// Whether it is subscribed to this.
    pub fn contains(&self, kind: ChannelKind, name: &[u8]) -> bool {
        self.places[kind as usize].contains_key(name)
    }

    /// The names of a kind.
    pub fn names(&self, kind: ChannelKind) -> Vec<Name> {
        self.places[kind as usize].keys().cloned().collect()
    }

    /// Bytes that the subscriptions take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.iter().all(Map::is_empty)
    }
}

impl Subscribers {
    /// Subscriptions of a connection, if it has any.
    pub fn of(&self, id: u64) -> Option<&Subscriptions> {
        self.by_client.get(&id)
    }

    /// Subscribes a connection to a name that it is not subscribed to.
    pub fn add(&mut self, kind: ChannelKind, name: Name, client: Recipient) {
        let listeners = self.listeners[kind as usize].entry(name.clone()).or_default();
        let own = self.by_client.entry(client.id()).or_default();
        own.bytes += name.len() + SUBSCRIPTION_BYTES;
        own.places[kind as usize].insert(name, listeners.len() as u32);
        listeners.push(client);
    }

    /// Ends a subscription; false if there is none.
    pub fn remove(&mut self, kind: ChannelKind, name: &[u8], id: u64) -> bool {
        let Some(own) = self.by_client.get_mut(&id) else { return false };
        let Some(place) = own.places[kind as usize].remove(name) else { return false };
        own.bytes = own.bytes.saturating_sub(name.len() + SUBSCRIPTION_BYTES);
        if own.is_empty() {
            self.by_client.remove(&id);
            shrink(&mut self.by_client);
        }
        let table = &mut self.listeners[kind as usize];
        let Some(listeners) = table.get_mut(name) else { return true };
        listeners.swap_remove(place as usize);
        if let Some(moved) = listeners.get(place as usize)
            && let Some(its) = self.by_client.get_mut(&moved.id())
            && let Some(its_place) = its.places[kind as usize].get_mut(name)
        {
            *its_place = place;
        }
        if listeners.is_empty() {
            table.remove(name);
            shrink(table);
        } else if listeners.capacity() > RETAINED_MAX && listeners.len() < listeners.capacity() / 8
        {
            listeners.shrink_to(listeners.len() * 2);
        }
        true
    }

    /// The listeners of a name, taken out while they are sent something: no subscriber may come or
    /// go until they are put back.
    pub fn take(&mut self, kind: ChannelKind, name: &[u8]) -> Vec<Recipient> {
        self.listeners[kind as usize].get_mut(name).map(std::mem::take).unwrap_or_default()
    }

    /// Puts a taken list back.
    pub fn put_back(&mut self, kind: ChannelKind, name: &[u8], listeners: Vec<Recipient>) {
        if let Some(place) = self.listeners[kind as usize].get_mut(name) {
            *place = listeners;
        }
    }
}

fn shrink<K: Eq + std::hash::Hash, V>(map: &mut Map<K, V>) {
    if map.capacity() > RETAINED_MAX && map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_net::Slot;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn name(n: u8) -> Name {
        Name::from(&[n][..])
    }

    proptest! {
        /// As subscribers come and go, each name has exactly its listeners.
        #[test]
        fn listeners_are_who_subscribed(
            steps in prop::collection::vec((any::<bool>(), 0u8..4, 0u64..6), 0..200),
        ) {
            let mut subscribers = Subscribers::default();
            let mut model = BTreeSet::new();
            for (comes, channel, id) in steps {
                if comes && model.insert((channel, id)) {
                    let to = Recipient::new(Slot::NOWHERE, id);
                    subscribers.add(ChannelKind::Channel, name(channel), to);
                } else if !comes {
                    let removed = subscribers.remove(ChannelKind::Channel, &[channel], id);
                    prop_assert_eq!(removed, model.remove(&(channel, id)));
                }
            }
            for channel in 0..4 {
                let listeners = subscribers.take(ChannelKind::Channel, &[channel]);
                let ids: BTreeSet<_> = listeners.iter().map(|to| (channel, to.id())).collect();
                prop_assert_eq!(ids.len(), listeners.len());
                let expected = model.iter().filter(|(of, _)| *of == channel).copied().collect();
                prop_assert_eq!(ids, expected);
                subscribers.put_back(ChannelKind::Channel, &[channel], listeners);
            }
            for id in 0..6 {
                let expected = model.iter().filter(|(_, of)| *of == id).count();
                prop_assert_eq!(subscribers.of(id).map_or(0, |own| own.len(ChannelKind::Channel)), expected);
            }
        }
    }
}
