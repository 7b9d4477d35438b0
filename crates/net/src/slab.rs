//! A dense table of connections in fixed chunks: growth neither moves nor doubles anything.

use crate::event::Slot;

/// Entries per chunk.
const CHUNK: usize = 1024;
/// Marks the end of the free list.
const NONE: u32 = u32::MAX;

/// Values by [`Slot`]. An index is reused last-freed-first, so live entries stay dense.
pub(crate) struct Slab<T> {
    chunks: Vec<Box<[Entry<T>]>>,
    free: u32,
    live: usize,
}

/// Odd generations are live, even ones free; a slot names a live generation only.
struct Entry<T> {
    generation: u32,
    next_free: u32,
    value: T,
}

impl<T: Default> Slab<T> {
    /// Bytes of a value, live or free.
    pub(crate) const ENTRY_BYTES: usize = size_of::<Entry<T>>();

    pub(crate) fn new() -> Slab<T> {
        Slab { chunks: Vec::new(), free: NONE, live: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Stores `value`. `None` when the index space below `limit` is used up.
    pub(crate) fn insert(&mut self, value: T, limit: u32) -> Option<Slot> {
        if self.live as u64 >= u64::from(limit) {
            return None;
        }
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let entry = self.entry_mut(index)?;
        entry.value = value;
        entry.generation = (entry.generation + 1) & Slot::GENERATION_MASK;
        let generation = entry.generation;
        self.free = entry.next_free;
        self.live += 1;
        Some(Slot::new(index, generation))
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        let index = slot.index();
        let entry = self.chunks.get(index / CHUNK)?.get(index % CHUNK)?;
        (entry.generation == slot.generation()).then_some(&entry.value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let entry = self.entry_mut(slot.index_u32())?;
        (entry.generation == slot.generation()).then_some(&mut entry.value)
    }

    /// Takes the value out; the slot is stale from here on.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let free = self.free;
        let entry = self.entry_mut(slot.index_u32())?;
        if entry.generation != slot.generation() {
            return None;
        }
        entry.generation = (entry.generation + 1) & Slot::GENERATION_MASK;
        entry.next_free = free;
        let value = std::mem::take(&mut entry.value);
        self.free = slot.index_u32();
        self.live -= 1;
        Some(value)
    }

    #[inline]
    fn entry_mut(&mut self, index: u32) -> Option<&mut Entry<T>> {
        let index = index as usize;
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    fn grow(&mut self) {
        let base = self.chunks.len() * CHUNK;
        let entry = |i: usize| Entry {
            generation: 0,
            next_free: if i + 1 < CHUNK { (base + i + 1) as u32 } else { NONE },
            value: T::default(),
        };
        self.chunks.push((0..CHUNK).map(entry).collect());
        self.free = base as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_dense_and_generations_tell_reuse() {
        let mut slab = Slab::new();
        let slots: Vec<Slot> = (0..3000).map(|i| slab.insert(i, NONE).unwrap()).collect();
        assert!(slots.iter().enumerate().all(|(i, s)| s.index() == i));
        assert_eq!(slab.remove(slots[7]), Some(7));
        assert_eq!(slab.remove(slots[7]), None);
        let again = slab.insert(70, NONE).unwrap();
        assert_eq!(again.index(), 7);
        assert_eq!(slab.get(slots[7]), None);
        assert_eq!(slab.get(again), Some(&70));
        assert_eq!(Slot::from_bits(again.to_bits() | 5 << 56), again);
    }

    #[test]
    fn the_limit_holds() {
        let mut slab = Slab::new();
        let first = slab.insert(1, 2).unwrap();
        slab.insert(2, 2).unwrap();
        assert!(slab.insert(3, 2).is_none());
        slab.remove(first);
        assert!(slab.insert(3, 2).is_some());
        assert_eq!(slab.len(), 2);
    }
}
