//! Snapshot of a list, taken in portions between which the list changes.
//!
//! The snapshot's elements not yet taken are, in order:
//!
//! ```text
//! due        elements popped from the front before they were taken
//! live       `left` elements of the list from `next` on; of replaced ones, their old values
//! popped     elements popped from the back, the last popped first
//! ```
//!
//! Elements before `next` were taken or are new; those behind the live ones are new. Pushes, pops
//! and replacements maintain this at little cost. Changes in the middle walk the list anyway:
//! they first *freeze* the elements, that is, the live ones are then read from a copy of the list
//! that does not change.

use crate::structures::image::ImageId;
use crate::structures::list::End;
use crate::structures::list::large::List;
use petrel_heap::Cache;
use std::collections::{HashMap, VecDeque};
use std::ops::{ControlFlow, Range};

/// Elements per step: ten microseconds or so, plus the time to copy them.
const AT_ONCE: usize = 256;

/// Maximum number of elements set aside one by one; more are frozen.
const ASIDE_MAX: usize = 4096;

/// Progress of the snapshot.
#[derive(Debug)]
pub(super) struct Taking {
    id: ImageId,
    due: VecDeque<Vec<u8>>,
    next: usize,
    left: usize,
    /// Number of snapshot elements before the live ones.
    passed: usize,
    /// Old values of replaced live elements, by their number in the snapshot.
    replaced: HashMap<usize, Vec<u8>>,
    popped: Vec<Vec<u8>>,
    /// The frozen copy of the list with the live elements; none while they are in the list itself.
    frozen: Option<List>,
}

impl Taking {
    /// Range of the live elements in their list.
    fn live(&self) -> Range<usize> {
        self.next..self.next + self.left
    }

    /// Removes the first `count` elements from the live ones.
    fn pass(&mut self, count: usize) {
        self.left -= count;
        self.passed += count;
    }

    /// Old value of the live element at an index of the list.
    fn aside(&mut self, index: usize, now: Vec<u8>) -> Vec<u8> {
        self.replaced.remove(&(self.passed + index - self.next)).unwrap_or(now)
    }
}

/// Called before each change while a snapshot is being taken. Does nothing once the live elements
/// are frozen.
impl List {
    fn taking_of_self(&mut self) -> Option<&mut Taking> {
        self.taking.as_deref_mut().filter(|taking| taking.frozen.is_none())
    }

    /// Begins a snapshot of the present elements.
    pub fn begin_image(&mut self, id: ImageId) {
        self.taking = Some(Box::new(Taking {
            id,
            due: VecDeque::new(),
            next: 0,
            left: self.len(),
            passed: 0,
            replaced: HashMap::new(),
            popped: Vec::new(),
            frozen: None,
        }));
    }

    /// The running snapshot, if any.
    pub fn image_id(&self) -> Option<ImageId> {
        self.taking.as_ref().map(|taking| taking.id)
    }

    #[cold]
    pub(super) fn before_push(&mut self, end: End) {
        if let Some(taking) = self.taking_of_self()
            && end == End::Front
        {
            taking.next += 1;
        }
    }

    #[cold]
    pub(super) fn before_pop(&mut self, end: End) {
        if let Some(last) = self.len().checked_sub(1) {
            let index = if end == End::Front { 0 } else { last };
            self.set_aside(index..index + 1);
        }
    }

    #[cold]
    pub(super) fn before_set(&mut self, index: usize) {
        let text = self.get(index).map(|element| element.to_vec());
        if let (Some(taking), Some(text)) = (self.taking_of_self(), text)
            && taking.live().contains(&index)
        {
            taking.replaced.entry(taking.passed + index - taking.next).or_insert(text);
        }
    }

    #[cold]
    pub(super) fn before_insert(&mut self, index: usize, cache: &mut Cache) {
        let Some(taking) = self.taking_of_self() else { return };
        let live = taking.live();
        if index <= live.start {
            taking.next += 1;
        } else if index < live.end {
            self.freeze(cache);
        }
    }

    #[cold]
    pub(super) fn before_remove(&mut self, range: Range<usize>, cache: &mut Cache) {
        let Some(taking) = self.taking_of_self() else { return };
        let live = taking.live();
        let within = range.start.max(live.start)..range.end.min(live.end);
        let is_inside = live.start < within.start && within.end < live.end;
        if !within.is_empty() && (is_inside || within.len() > ASIDE_MAX) {
            return self.freeze(cache);
        }
        self.set_aside(range);
    }

    /// Sets aside the live elements of a range to be removed; they are the first or the last live
    /// ones.
    fn set_aside(&mut self, range: Range<usize>) {
        let Some(mut taking) = self.taking.take_if(|taking| taking.frozen.is_none()) else {
            return;
        };
        let live = taking.live();
        let within = range.start.max(live.start)..range.end.min(live.end);
        if !within.is_empty() {
            let elements = self.iter_from(within.start).take(within.len());
            let texts = elements.zip(within.clone());
            let texts: Vec<Vec<u8>> =
                texts.map(|(element, index)| taking.aside(index, element.to_vec())).collect();
            if within.start == live.start {
                taking.pass(within.len());
                taking.due.extend(texts);
            } else {
                taking.left -= within.len();
                taking.popped.extend(texts.into_iter().rev());
            }
        }
        // A removal before the live elements shifts them to the front.
        taking.next -= range.end.min(live.start).saturating_sub(range.start);
        self.taking = Some(taking);
    }

    /// Freezes the live elements in a copy of the list.
    #[cold]
    pub(super) fn freeze(&mut self, cache: &mut Cache) {
        let is_live = self.taking_of_self().is_some_and(|taking| !taking.live().is_empty());
        if is_live {
            let copy = self.duplicate(cache);
            if let Some(taking) = &mut self.taking {
                taking.frozen = Some(copy);
            }
        }
    }
}

/// Taking the snapshot.
impl List {
    /// Passes the next elements of the snapshot to `take` until it has enough; false at the end,
    /// which ends the snapshot.
    pub fn continue_image(
        &mut self,
        cache: &mut Cache,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> bool {
        let Some(mut taking) = self.taking.take() else { return false };
        let is_done = self.take_some(&mut taking, take).is_continue();
        self.taking = Some(taking);
        if is_done {
            self.end_image(cache);
        }
        !is_done
    }

    fn take_some(
        &self,
        taking: &mut Taking,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while let Some(text) = taking.due.pop_front() {
            take(&text)?;
        }
        let mut frozen = taking.frozen.take();
        let walked = self.take_live(frozen.as_ref().unwrap_or(self), taking, take);
        std::mem::swap(&mut taking.frozen, &mut frozen);
        walked?;
        while let Some(text) = taking.popped.pop() {
            take(&text)?;
        }
        ControlFlow::Continue(())
    }

    fn take_live(
        &self,
        list: &List,
        taking: &mut Taking,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let count = taking.left.min(AT_ONCE);
        let mut text = Vec::new();
        for element in list.iter_from(taking.next).take(count) {
            text.clear();
            match taking.replaced.remove(&taking.passed) {
                Some(replaced) => text = replaced,
                None => element.append_to(&mut text),
            }
            taking.next += 1;
            taking.pass(1);
            take(&text)?;
        }
        if taking.left > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(super) fn end_image(&mut self, cache: &mut Cache) {
        if let Some(frozen) = self.taking.take().and_then(|taking| taking.frozen) {
            frozen.release(cache);
        }
    }
}
