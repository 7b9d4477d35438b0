//! Snapshot of a dict, taken in portions between which the dict changes.
//!
//! As in the keyspace (`upkeep/image.rs`), each element has a stamp of one bit. Beginning flips the
//! dict's own stamp, which marks all present elements as not yet taken. New elements get the new
//! stamp and are not part of the snapshot. An element with the old stamp is copied before it is
//! changed or removed, and the original gets the new stamp. So the snapshot's elements are at every
//! moment the ones already taken, the ones with the old stamp and the copies. At the end every
//! element has the dict's stamp.

use crate::structures::dict::{Dict, Element};
use crate::structures::image::ImageId;
use crate::structures::walk::walk_some;
use petrel_heap::Cache;
use std::ops::ControlFlow;

/// Buckets per step: ten microseconds or so, plus the time to copy the elements.
const BUCKETS_AT_ONCE: usize = 32;

/// Progress of the snapshot.
pub(super) struct Taking {
    id: ImageId,
    /// Copies of elements that were changed or removed before they were taken.
    kept: Vec<Element>,
    /// Position of the walk: the segment, and the place in it.
    segment: usize,
    position: u32,
    /// Depth of that segment at the last step.
    depth: u32,
}

impl Dict {
    /// Begins a snapshot of the present elements.
    pub fn begin_image(&mut self, id: ImageId) {
        self.stamp ^= crate::structures::element::STAMP;
        let kept = Vec::new();
        let taking = Taking { id, kept, segment: 0, position: 0, depth: 0 };
        self.taking = Some(Box::new(taking));
    }

    /// The running snapshot, if any.
    pub fn image_id(&self) -> Option<ImageId> {
        self.taking.as_ref().map(|taking| taking.id)
    }

    /// Called before an element is changed in place.
    #[inline]
    pub fn before_change(&mut self, element: Element, cache: &mut Cache) {
        if self.taking.is_some() {
            self.keep(element, cache);
        }
    }

    #[cold]
    fn keep(&mut self, element: Element, cache: &mut Cache) {
        if let Some(taking) = &mut self.taking
            && element.stamp() != self.stamp
        {
            taking.kept.push(element.duplicate(cache));
            element.set_stamp(self.stamp);
        }
    }

    /// Passes elements of the snapshot to `take` until it has enough; false at the end, which ends
    /// the snapshot.
    pub fn continue_image(
        &mut self,
        cache: &mut Cache,
        take: &mut dyn FnMut(Element) -> ControlFlow<()>,
    ) -> bool {
        let Some(taking) = &mut self.taking else { return false };
        while let Some(element) = taking.kept.pop() {
            let enough = take(element).is_break();
            element.release(cache);
            if enough {
                return true;
            }
        }
        let Some(segment) = self.segments.get(taking.segment) else {
            self.taking = None;
            return false;
        };
        if taking.depth != segment.depth {
            // The segment was split, so the position is invalid. The elements moved to another
            // segment are still ahead, because new segments come last.
            (taking.depth, taking.position) = (segment.depth, 0);
        }
        let stamp = self.stamp;
        let next = walk_some(&segment.table, taking.position, BUCKETS_AT_ONCE, &mut |element| {
            if element.stamp() == stamp {
                return ControlFlow::Continue(());
            }
            element.set_stamp(stamp);
            take(element)
        });
        match next {
            Some(position) => taking.position = position,
            None => (taking.segment, taking.position) = (taking.segment + 1, 0),
        }
        true
    }

    /// Ends a snapshot that will not be continued, because the dict is freed.
    pub(super) fn end_image(&mut self, cache: &mut Cache) {
        if let Some(taking) = self.taking.take() {
            taking.kept.into_iter().for_each(|element| element.release(cache));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::bucket::Item as _;
    use crate::structures::key_hash::KeyHasher;
    use petrel_heap::Heap;
    use std::collections::BTreeSet;

    fn name(n: usize) -> Vec<u8> {
        format!("member:{n}").into_bytes()
    }

    #[test]
    fn elements_are_handed_out_once_though_segments_split_and_shrink() {
        const LEN: usize = 20_000;
        let heap = Heap::new();
        let mut cache = heap.cache();
        let mut dict = Dict::new(&KeyHasher::new(7, 12));
        let mut next = LEN;
        for n in 0..LEN {
            dict.insert(Element::member(&mut cache, &name(n)), &mut cache);
        }
        for round in 0..4 {
            let before: BTreeSet<Vec<u8>> = dict.iter().map(|it| it.key().to_vec()).collect();
            dict.begin_image(ImageId(0));
            let (mut taken, mut goes_on, mut portions) = (Vec::new(), true, 0);
            while goes_on {
                goes_on = dict.continue_image(&mut cache, &mut |element| {
                    taken.push(element.key().to_vec());
                    if taken.len() % 50 > 0 {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                });
                portions += 1;
                // Some rounds grow, some shrink.
                for n in 0..if round % 2 == 0 { 40 } else { 20 } {
                    dict.insert(Element::member(&mut cache, &name(next)), &mut cache);
                    next += 1;
                    let gone = name((next * 31 + n) % next);
                    if let Some((place, _)) =
                        dict.find(&gone).filter(|_| round % 2 == 1 || n % 8 == 0)
                    {
                        dict.remove(place, &mut cache).release(&mut cache);
                    }
                }
            }
            let distinct: BTreeSet<Vec<u8>> = taken.iter().cloned().collect();
            assert!(distinct == before && taken.len() == before.len(), "round {round}");
            assert!(portions > 100 && dict.iter().all(|element| element.stamp() == dict.stamp));
        }
        dict.release(&mut cache);
    }
}
