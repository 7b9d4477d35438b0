//! Effects of a keyspace by slot: the changes of a transaction in a scratch keyspace.

use crate::lanes::FROM_PEERS;
use crate::slot::{Slot, slot_of};
use parking_lot::Mutex;
use petrel_keyspace::{Effect, EffectHead, EffectSink, Published, SinkSource};
use petrel_persistence::effects::GroupWriter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Collects the effects of a keyspace's threads by slot.
#[derive(Clone, Default)]
pub struct Collector(Arc<Mutex<Collected>>);

#[derive(Default)]
struct Collected {
    groups: BTreeMap<Slot, GroupWriter>,
    has_others: bool,
}

/// Error: there are effects without a slot, or published messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotOfSlots;

impl Collector {
    /// Takes the effects since the last call, by slot.
    ///
    /// # Errors
    /// If some are not of a slot.
    pub fn take(&self) -> Result<Vec<(Slot, Vec<u8>)>, NotOfSlots> {
        let Collected { groups, has_others } = std::mem::take(&mut *self.0.lock());
        let bytes =
            |(slot, mut group): (Slot, GroupWriter)| (slot, std::mem::take(group.bytes_mut()));
        if has_others { Err(NotOfSlots) } else { Ok(groups.into_iter().map(bytes).collect()) }
    }
}

impl SinkSource for Collector {
    fn sink(&self) -> Box<dyn EffectSink> {
        Box::new(self.clone())
    }
}

impl EffectSink for Collector {
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        if head.origin == FROM_PEERS {
            return;
        }
        let mut collected = self.0.lock();
        let Some(key) = effect.key() else {
            collected.has_others = true;
            return;
        };
        let slot = slot_of(key);
        let group = collected.groups.entry(slot).or_default();
        match *effect {
            // The slot's primary may lack the other key.
            Effect::CopyFrom { key, from, value: Some(value), .. } if slot_of(from) != slot => {
                group.add(head.db, &Effect::Store { key, value, expiry: value.expiry() });
            }
            _ => group.add(head.db, effect),
        }
    }

    fn message(&mut self, _: &Published<'_>) -> bool {
        self.0.lock().has_others = true;
        true
    }

    fn committed(&mut self, _: u64, _: bool) {}
}
