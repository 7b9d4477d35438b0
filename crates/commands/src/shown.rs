//! Hash slots of the keys that a thread's commands have shown to clients.
//!
//! In a cluster where replies wait until another owner has the changes that they show, the thread's
//! server takes these slots after each batch, and delays the batch's replies by them.

use crate::cluster::HashSlot;

/// Number of entries from which on duplicates are removed.
const ENTRIES: usize = 256;

/// A list of hash slots with few duplicates.
#[derive(Debug, Default)]
pub struct ShownSlots {
    slots: Vec<HashSlot>,
    /// Length at which duplicates are removed next.
    limit: usize,
    /// Every slot, besides those in the list.
    is_all: bool,
}

impl ShownSlots {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && !self.is_all
    }

    /// The slots; none if it is every slot.
    pub fn slots(&self) -> Option<&[HashSlot]> {
        (!self.is_all).then_some(&self.slots)
    }

    /// Removes all slots.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.is_all = false;
    }

    #[inline]
    pub(crate) fn add(&mut self, slot: HashSlot) {
        if self.slots.last() != Some(&slot) {
            self.slots.push(slot);
            if self.slots.len() >= self.limit.max(ENTRIES) {
                self.remove_duplicates();
            }
        }
    }

    pub(crate) fn add_each(&mut self, slots: &[HashSlot]) {
        slots.iter().for_each(|slot| self.add(*slot));
    }

    pub(crate) fn add_all(&mut self) {
        self.is_all = true;
    }

    /// The list has at most twice as many entries as there are slots.
    #[cold]
    fn remove_duplicates(&mut self) {
        self.slots.sort_unstable();
        self.slots.dedup();
        self.limit = self.slots.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_kept_once() {
        let mut shown = ShownSlots::default();
        assert!(shown.is_empty());
        for n in 0..10_000 {
            shown.add(n % 300);
            assert!(shown.slots.len() <= 600);
        }
        let mut slots = shown.slots().unwrap().to_vec();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots, (0..300).collect::<Vec<_>>());
        shown.add_all();
        assert_eq!(shown.slots(), None);
        shown.clear();
        assert!(shown.is_empty());
    }
}
