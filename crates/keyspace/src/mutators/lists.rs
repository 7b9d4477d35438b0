//! Mutators of lists.

use crate::handle::Handle;
use crate::state::effect::{Effect, Removal};
use crate::structures::entry::Entry;
use crate::structures::form::{Form, Type, WrongType};
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::list::End;
use crate::structures::list::encoding::{LISTPACK_FRAME, Limit, listpack_len};
use crate::structures::list::large::List;
use crate::structures::list::read::ListRef;
use crate::structures::list::run::{Element, Packing, Run, Texts};
use crate::structures::list::small::{self, HEADER, Small, header};
use crate::structures::table::Position;
use std::mem;
use std::ops::Range;

/// Maximum size of a small list, in bytes.
const SMALL_MAX: usize = 2048;
/// Maximum total length of elements for which packing a small list is tried.
const TEXT_MAX: usize = 32 * SMALL_MAX;
/// A large list becomes a small one when its items have shrunk to this many bytes.
const SMALL_AGAIN: usize = SMALL_MAX / 4;

/// Effects of one command between two calls of the heap's breather.
const EFFECTS_PER_BREATH: usize = 256;

/// An existing list, to be changed. Each change is recorded; an emptied list is removed, and
/// afterwards only its length may be read.
pub struct ListMut<'a, 'k> {
    handle: &'a mut Handle,
    db: u16,
    key: Key<'k>,
    at: Position,
    entry: Entry,
    is_gone: bool,
}

impl Handle {
    /// The list at a key, to be changed, which counts as a use of the key. None if the key does not
    /// exist.
    #[inline]
    pub fn list_mut<'a, 'k>(
        &'a mut self,
        db: u16,
        key: Key<'k>,
    ) -> Result<Option<ListMut<'a, 'k>>, WrongType> {
        let Some((at, entry)) = self.find_type(db, key, Type::List)? else { return Ok(None) };
        Ok(Some(ListMut { handle: self, db, key, at, entry, is_gone: false }))
    }

    /// Pushes elements, one after the other, at an end of a list, which is created if necessary.
    /// Returns its new length.
    #[inline]
    pub fn list_push(
        &mut self,
        db: u16,
        key: Key<'_>,
        end: End,
        elements: &[&[u8]],
    ) -> Result<usize, WrongType> {
        if let Some(mut list) = self.list_mut(db, key)? {
            return Ok(list.push(end, elements));
        }
        self.list_create(db, key, end, elements);
        Ok(elements.len())
    }

    fn list_create(&mut self, db: u16, key: Key<'_>, end: End, elements: &[&[u8]]) {
        if elements.is_empty() {
            return;
        }
        let limit = Limit::of(&self.ks.limits);
        let beyond = limit.is_exceeded_by(LISTPACK_FRAME, 0, elements);
        let packing = packed_if_small(elements, end);
        if let Some(packing) = packing {
            let mut bytes = mem::take(&mut self.scratch);
            bytes.clear();
            small::write(&mut bytes, packing.count, packing.run());
            self.insert_packed(db, key, Form::List, beyond, &bytes);
            bytes.clear();
            self.scratch = bytes;
        } else {
            let mut list = List::new();
            for element in elements {
                list.push(&mut self.cache, end, element);
            }
            list.set_quicklist(beyond);
            self.insert_large(db, key, Large::List(list));
        }
        self.record_pushes(db, key, end, elements);
    }

    #[inline]
    fn record_pushes(&mut self, db: u16, key: Key<'_>, end: End, elements: &[&[u8]]) {
        if !self.is_observed(key) {
            return self.counters.changes.add(elements.len() as i64);
        }
        for element in elements {
            self.record(db, key, &Effect::ListPush { key: key.bytes, end, element });
        }
    }
}

/// Result of a push onto a small list.
enum Pushed {
    Done,
    /// Nothing was done: the list would be too long.
    TooLong,
    /// Nothing was done: an element does not fit the run's layout, so the list must be repacked.
    Unlike,
}

/// Whether packed elements fit a small list. Each takes at least a byte.
fn is_small(packing: &Packing) -> bool {
    small::len_of(packing) <= SMALL_MAX && packing.count <= SMALL_MAX
}

/// Whether packing the elements as a small list is worth trying.
fn may_be_small(elements: &[&[u8]]) -> bool {
    elements.iter().map(|element| element.len()).sum::<usize>() <= TEXT_MAX
}

/// Elements, pushed one after the other at an end, as a small list; none if they are too long.
fn packed_if_small(elements: &[&[u8]], end: End) -> Option<Packing> {
    if !may_be_small(elements) {
        return None;
    }
    let packing = match end {
        End::Back => Packing::of(elements.iter().copied()),
        End::Front => Packing::of(elements.iter().rev().copied()),
    };
    is_small(&packing).then_some(packing)
}

impl<'k> ListMut<'_, 'k> {
    /// The present list.
    #[inline]
    pub fn read(&self) -> ListRef<'_> {
        match self.large() {
            Some(list) => ListRef::large(list),
            None => ListRef::small(self.small()),
        }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        if self.is_gone { 0 } else { self.read().len() }
    }

    /// Whether it has become empty, and its key was removed.
    pub fn is_empty(&self) -> bool {
        self.is_gone
    }

    /// Pushes elements, one after the other, at an end. Returns the new length.
    #[inline]
    pub fn push(&mut self, end: End, elements: &[&[u8]]) -> usize {
        let len = match self.entry.packed() {
            Some(bytes) => self.push_small(Small::new(bytes), end, elements),
            None => None,
        };
        let len = len.unwrap_or_else(|| self.push_large(end, elements));
        self.handle.record_pushes(self.db, self.key, end, elements);
        len
    }

    #[inline(never)]
    fn push_large(&mut self, end: End, elements: &[&[u8]]) -> usize {
        self.prepare_growth(elements);
        self.enlarge();
        self.change_large(|list, handle| {
            for element in elements {
                list.push(&mut handle.cache, end, element);
            }
        });
        self.len()
    }

    /// Pushes onto a small list and returns the new length; none, with nothing changed, if it would
    /// be too long.
    #[inline]
    fn push_small(&mut self, list: Small<'_>, end: End, elements: &[&[u8]]) -> Option<usize> {
        let (len, run) = (list.len(), list.run());
        self.prepare_growth_small(len, run, elements);
        let pushed = match elements {
            [element] => self.push_one_small(list, run, end, element),
            _ => self.push_many_small(list, run, end, elements),
        };
        let is_pushed = match pushed {
            Pushed::Done => true,
            Pushed::TooLong => false,
            Pushed::Unlike => may_be_small(elements) && self.pack_anew(end, elements),
        };
        is_pushed.then_some(len + elements.len())
    }

    #[inline]
    fn push_one_small(
        &mut self,
        list: Small<'_>,
        run: Run<'_>,
        end: End,
        element: &[u8],
    ) -> Pushed {
        let Some(item) = run.admit(list.len(), element) else { return Pushed::Unlike };
        let (head, tail) = run.layout.held(&item);
        let held = head.len() + tail.len();
        if list.byte_len() + held > SMALL_MAX {
            return Pushed::TooLong;
        }
        let (offset, header) = list.grown(run, end, 1, held);
        self.splice_with(offset, 0, [head, tail], header);
        Pushed::Done
    }

    #[inline(never)]
    fn push_many_small(
        &mut self,
        list: Small<'_>,
        run: Run<'_>,
        end: End,
        elements: &[&[u8]],
    ) -> Pushed {
        let room = SMALL_MAX.saturating_sub(list.byte_len());
        let mut bytes = mem::take(&mut self.handle.scratch);
        bytes.clear();
        let mut pushed = Pushed::Done;
        let mut pack = |element: &&[u8]| {
            let Some(item) = run.admit(list.len(), element) else {
                pushed = Pushed::Unlike;
                return false;
            };
            let (head, tail) = run.layout.held(&item);
            bytes.extend_from_slice(head);
            bytes.extend_from_slice(tail);
            if bytes.len() > room {
                pushed = Pushed::TooLong;
            }
            bytes.len() <= room
        };
        let fits = match end {
            End::Back => elements.iter().all(&mut pack),
            End::Front => elements.iter().rev().all(&mut pack),
        };
        if fits {
            let (offset, header) = list.grown(run, end, elements.len(), bytes.len());
            self.splice(offset, 0, &bytes, header);
        }
        bytes.clear();
        self.handle.scratch = bytes;
        pushed
    }

    /// Repacks a small list with these elements added; false if it would be too long.
    #[cold]
    fn pack_anew(&mut self, end: End, elements: &[&[u8]]) -> bool {
        let run = self.small().run();
        let (front, back) = match end {
            End::Front => (elements, &[][..]),
            End::Back => (&[][..], elements),
        };
        let (front, back) = (front.iter().rev().copied(), back.iter().copied());
        if run.prefix.is_empty() {
            let mut texts = Texts::default();
            front.for_each(|element| texts.push(element));
            texts.extend(run);
            back.for_each(|element| texts.push(element));
            return self.replace_small(&Packing::of(texts.iter()));
        }
        self.replace_small(&Packing::around(run, front, back))
    }

    /// Replaces the elements of a small list; false if it would be too long.
    fn replace_small(&mut self, packing: &Packing) -> bool {
        let fits = is_small(packing);
        if fits {
            self.repack_run(self.entry.is_beyond(), packing.count, packing.run());
        }
        fits
    }

    /// Removes up to `count` elements from an end and passes each to `take`; returns the number
    /// removed.
    #[inline]
    pub fn pop(&mut self, end: End, count: usize, mut take: impl FnMut(Element<'_>)) -> usize {
        let len = self.len();
        let count = count.min(len);
        if count == 0 {
            return 0;
        }
        if self.large().is_some() {
            self.change_large(|list, handle| {
                for _ in 0..count {
                    list.pop(&mut handle.cache, end, &mut take);
                }
            });
        } else {
            self.pop_small(end, len, count, take);
        }
        for _ in 0..count {
            let effect = Effect::ListPop { key: self.key.bytes, end };
            self.handle.record(self.db, self.key, &effect);
        }
        self.settle(count == len);
        count
    }

    #[inline]
    fn pop_small(&mut self, end: End, len: usize, count: usize, mut take: impl FnMut(Element<'_>)) {
        let (run, items_at) = (self.small().run(), self.small().items_at());
        let (span, layout) = match end {
            End::Front => {
                run.elements(0).take(count).for_each(take);
                let cut = run.offset(count);
                (0..cut, run.layout.with_hint(run.layout.hint().saturating_sub(cut)))
            }
            End::Back if count == 1 => {
                let (at, layout) = run.last();
                take(run.at(at));
                (at..run.bytes.len(), layout)
            }
            End::Back => {
                let offsets = run.offsets(len);
                let popped = &offsets[len - count..];
                popped.iter().rev().for_each(|&at| take(run.at(at as usize)));
                let from = popped.first().map_or(0, |&at| at as usize);
                (from..run.bytes.len(), run.layout.with_hint(0))
            }
        };
        if count < len {
            // A hint must be the offset of an item.
            let is_sound = layout.hint() < run.bytes.len() - span.len();
            let layout = if is_sound { layout } else { layout.with_hint(0) };
            let header = header(len - count, layout);
            self.splice(items_at + span.start, span.len(), &[], header);
        }
    }

    /// Replaces the element at `index`, if it exists.
    pub fn set(&mut self, index: usize, element: &[u8]) {
        if index >= self.len() {
            return;
        }
        self.prepare_growth(&[element]);
        if !self.put_small(index..index + 1, element) {
            self.enlarge();
            self.change_large(|list, handle| list.set(&mut handle.cache, index, element));
        }
        let effect = Effect::ListSet { key: self.key.bytes, index, element };
        self.handle.record(self.db, self.key, &effect);
        self.settle(false);
    }

    /// Inserts an element before the one at `index`, or at the end.
    pub fn insert(&mut self, index: usize, element: &[u8]) {
        let index = index.min(self.len());
        let next = self.handle.observers.sink.is_some().then(|| self.read().get(index)).flatten();
        let next = next.map(|next| {
            let mut digits = itoa::Buffer::new();
            let (prefix, rest) = next.parts(&mut digits);
            [prefix, rest].concat()
        });
        self.prepare_growth(&[element]);
        if !self.put_small(index..index, element) {
            self.enlarge();
            self.change_large(|list, handle| list.insert(&mut handle.cache, index, element));
        }
        let effect =
            Effect::ListInsert { key: self.key.bytes, index, element, next: next.as_deref() };
        self.handle.record(self.db, self.key, &effect);
    }

    /// Replaces a range of a small list with an element; false, with nothing changed, if the list
    /// is large or would be too long.
    fn put_small(&mut self, range: Range<usize>, element: &[u8]) -> bool {
        if self.large().is_some() || element.len() > SMALL_MAX {
            return false;
        }
        let list = self.small();
        let (len, run) = (list.len(), list.run());
        let Some(item) = run.admit(len, element) else {
            let mut texts = Texts::default();
            texts.extend(run.slice(run.span(0..range.start)));
            texts.push(element);
            texts.extend(run.slice(run.span(range.end..len)));
            return self.replace_small(&Packing::of(texts.iter()));
        };
        let span = run.span(range.clone());
        let end = list.items_at() + run.bytes.len() - span.len() + run.layout.held_len(&item);
        if end > SMALL_MAX {
            return false;
        }
        let hint = if run.layout.hint() <= span.start { run.layout.hint() } else { 0 };
        let header = header(len + 1 - range.len(), run.layout.with_hint(hint));
        let mut bytes = mem::take(&mut self.handle.scratch);
        bytes.clear();
        let (head, tail) = run.layout.held(&item);
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(tail);
        self.splice(list.items_at() + span.start, span.len(), &bytes, header);
        bytes.clear();
        self.handle.scratch = bytes;
        true
    }

    /// Removes at most `limit` elements equal to `element`, beginning at an end; returns the number
    /// removed.
    pub fn remove_equal(&mut self, element: &[u8], from: End, limit: usize) -> usize {
        let len = self.len();
        let is_heard = self.handle.observers.sink.is_some();
        let (mut removed, mut last) = (Vec::new(), 0);
        let mut note = |index| {
            last = index;
            if is_heard {
                removed.push(index);
            }
        };
        let count = if self.large().is_some() {
            let changed = self.change_large(|list, handle| {
                list.remove_equal(&mut handle.cache, element, from, limit, &mut note)
            });
            changed.unwrap_or(0)
        } else {
            self.remove_equal_small(element, from, limit, &mut note)
        };
        if count > 0 && !is_heard {
            // Without a sink one effect is enough to notify the other observers.
            removed.push(last);
        }
        for (index, number) in removed.into_iter().zip(1_usize..) {
            let effect = Effect::ListRemove { key: self.key.bytes, index };
            self.handle.record(self.db, self.key, &effect);
            if number.is_multiple_of(EFFECTS_PER_BREATH) {
                self.handle.cache.breathe();
            }
        }
        if count > 0 {
            self.settle(count == len);
        }
        count
    }

    fn remove_equal_small(
        &mut self,
        element: &[u8],
        from: End,
        limit: usize,
        note: &mut impl FnMut(usize),
    ) -> usize {
        let (len, run) = (self.small().len(), self.small().run());
        let mut numbers = Vec::new();
        run.find(element, |number| {
            numbers.push(number);
            true
        });
        match from {
            End::Front => numbers.truncate(limit),
            End::Back => drop(numbers.drain(..numbers.len().saturating_sub(limit))),
        }
        match from {
            // The effects are applied in turn: each removal shifts the following indexes.
            End::Front => numbers.iter().enumerate().for_each(|(gone, at)| note(at - gone)),
            End::Back => numbers.iter().rev().for_each(|&at| note(at)),
        }
        if !numbers.is_empty() && numbers.len() < len {
            let mut kept = Vec::with_capacity(run.bytes.len());
            let mut begin = 0;
            for &number in &numbers {
                let span = run.span(number..number + 1);
                kept.extend_from_slice(&run.bytes[begin..span.start]);
                begin = span.end;
            }
            kept.extend_from_slice(&run.bytes[begin..]);
            let kept = Run { bytes: &kept, ..run };
            self.repack_run(self.entry.is_beyond(), len - numbers.len(), kept);
        }
        numbers.len()
    }

    /// Removes the element at `index`, if it exists.
    pub fn remove(&mut self, index: usize) {
        let len = self.len();
        if index >= len {
            return;
        }
        if len > 1 && self.large().is_some() {
            self.change_large(|list, handle| {
                let removed = list.remove_range(&mut handle.cache, index..index + 1);
                removed.release(&mut handle.cache);
            });
        } else if len > 1 {
            let (run, items_at) = (self.small().run(), self.small().items_at());
            let span = run.span(index..index + 1);
            let header = header(len - 1, run.layout.with_hint(0));
            self.splice(items_at + span.start, span.len(), &[], header);
        }
        let effect = Effect::ListRemove { key: self.key.bytes, index };
        self.handle.record(self.db, self.key, &effect);
        self.settle(len == 1);
    }

    /// Removes all elements except those of `range`.
    pub fn trim(&mut self, range: Range<usize>) {
        let len = self.len();
        let range = range.start.min(len)..range.end.min(len).max(range.start.min(len));
        if range.len() == len {
            return;
        }
        if !range.is_empty() {
            if self.large().is_some() {
                self.change_large(|list, handle| {
                    for cut in [range.end..len, 0..range.start] {
                        let removed = list.remove_range(&mut handle.cache, cut);
                        if removed.chunks() > 0 {
                            handle.free_part_later(Large::List(removed));
                        }
                    }
                });
            } else {
                let run = self.small().run();
                let kept = run.slice(run.span(range.clone()));
                self.repack_run(self.entry.is_beyond(), range.len(), kept);
            }
        }
        let effect = Effect::ListTrim { key: self.key.bytes, from: range.start, len: range.len() };
        self.handle.record(self.db, self.key, &effect);
        self.settle(range.is_empty());
    }

    /// Removes the key if the list `is_gone`; otherwise converts the list to the form of its
    /// length.
    #[inline]
    fn settle(&mut self, is_gone: bool) {
        self.is_gone = is_gone;
        if is_gone {
            let why = Removal::Emptied;
            return self.handle.remove_at(self.db, self.key, self.at, self.entry, why);
        }
        let limit = Limit::of(&self.handle.ks.limits);
        let Some(list) = self.large_mut() else {
            if self.entry.is_beyond() {
                let list = self.small();
                if limit.half().allows(listpack_len(list.run()), list.len()) {
                    self.entry.set_packed_form(Form::List, false);
                }
            }
            return;
        };
        list.shrink_encoding(limit);
        if let Some(run) = list.small(SMALL_AGAIN) {
            self.repack_run(list.is_quicklist(), list.len(), run);
        }
    }

    /// Makes the list a quicklist if Redis would do so with these additional elements.
    fn prepare_growth(&mut self, elements: &[&[u8]]) {
        let limit = Limit::of(&self.handle.ks.limits);
        if let Some(list) = self.large_mut() {
            return list.grow_encoding(limit, elements);
        }
        let list = self.small();
        self.prepare_growth_small(list.len(), list.run(), elements);
    }

    /// Like `prepare_growth`, for a small list of `len` elements.
    #[inline]
    fn prepare_growth_small(&mut self, len: usize, run: Run<'_>, elements: &[&[u8]]) {
        let limit = Limit::of(&self.handle.ks.limits);
        if limit.may_be_exceeded(run, len, elements) {
            self.note_growth(limit, elements);
        }
    }

    #[inline(never)]
    fn note_growth(&mut self, limit: Limit, elements: &[&[u8]]) {
        let list = self.small();
        if !self.entry.is_beyond()
            && limit.is_exceeded_by(listpack_len(list.run()), list.len(), elements)
        {
            self.entry.set_packed_form(Form::List, true);
        }
    }

    /// Converts a small list to a large one.
    fn enlarge(&mut self) {
        if self.large().is_some() {
            return;
        }
        let small = self.small();
        let mut list = List::from_run(&mut self.handle.cache, small.run());
        list.set_quicklist(self.entry.is_beyond());
        let place = (self.at, self.entry);
        self.entry = self.handle.enlarge(self.db, self.key, place, Large::List(list));
    }

    /// Replaces the value with a small list of this run.
    fn repack_run(&mut self, beyond: bool, len: usize, run: Run<'_>) {
        let mut bytes = Vec::with_capacity(HEADER + 1 + run.prefix.len() + run.bytes.len());
        small::write(&mut bytes, len, run);
        let place = (self.at, self.entry);
        self.entry = self.handle.repack(self.db, self.key, place, Form::List, beyond, &bytes);
    }

    /// Replaces bytes of a small list, and its header.
    fn splice(&mut self, at: usize, remove: usize, insert: &[u8], header: [u8; HEADER]) {
        self.splice_with(at, remove, [insert], header);
    }

    #[inline]
    fn splice_with<const N: usize>(
        &mut self,
        at: usize,
        remove: usize,
        insert: [&[u8]; N],
        header: [u8; HEADER],
    ) {
        let place = (self.at, self.entry);
        self.entry = self.handle.splice_with(self.db, self.key, place, at, remove, insert);
        if let Some(bytes) = self.entry.packed_mut() {
            bytes[..HEADER].copy_from_slice(&header);
        }
    }

    #[inline]
    fn change_large<T>(&mut self, change: impl FnOnce(&mut List, &mut Handle) -> T) -> Option<T> {
        let list = self.large_mut()?;
        let before = list.footprint() as i64;
        let result = change(list, self.handle);
        let grown = list.footprint() as i64 - before;
        if grown != 0 {
            self.handle.reweigh(self.db, self.key, grown);
        }
        Some(result)
    }

    /// The list, if it is small; an empty list otherwise.
    #[inline]
    fn small<'b>(&self) -> Small<'b> {
        Small::new(self.entry.packed().unwrap_or(&[0; HEADER]))
    }

    #[inline]
    fn large<'b>(&self) -> Option<&'b List> {
        if let Some(Large::List(list)) = self.entry.large() { Some(list) } else { None }
    }

    #[inline]
    fn large_mut<'b>(&mut self) -> Option<&'b mut List> {
        if let Some(Large::List(list)) = self.entry.large_mut() { Some(list) } else { None }
    }
}
