//! Changing lists.

use super::large::List;
use super::read::ListRef;
use super::small::{HEADER, Small, header};
use super::{End, Limit, listpack_len};
use crate::effect::{Effect, Removal};
use crate::entry::Entry;
use crate::handle::{Handle, Key};
use crate::packed::{Item, unpack};
use crate::table::Position;
use crate::types::{Form, Large, Type, WrongType};
use std::mem;
use std::ops::Range;

/// Most bytes of a small list.
const SMALL_MAX: usize = 2048;
/// A large list becomes a small one when its items have shrunk to this many bytes.
const SMALL_AGAIN: usize = SMALL_MAX / 4;

/// A list that exists, to be changed. Each change is recorded; a list that becomes empty is removed, and nothing may be
/// done with it after that but to ask for its length.
pub struct ListMut<'a, 'k> {
    handle: &'a mut Handle,
    db: u16,
    key: Key<'k>,
    at: Position,
    entry: Entry,
    is_gone: bool,
}

impl Handle {
    /// The list at a key, to be changed: a use of the key. None if the key does not exist.
    #[inline]
    pub fn list_mut<'a, 'k>(
        &'a mut self,
        db: u16,
        key: Key<'k>,
    ) -> Result<Option<ListMut<'a, 'k>>, WrongType> {
        let Some((at, entry)) = self.find_type(db, key, Type::List)? else { return Ok(None) };
        Ok(Some(ListMut { handle: self, db, key, at, entry, is_gone: false }))
    }

    /// Pushes elements, one after the other, at an end of a list, which is created if need be. Returns its new length.
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

    /// Makes the change that an effect on a list describes.
    pub(crate) fn apply_list(
        &mut self,
        db: u16,
        key: Key<'_>,
        effect: &Effect<'_>,
    ) -> Result<(), WrongType> {
        if let Effect::ListPush { end, element, .. } = *effect {
            return self.list_push(db, key, end, &[element]).map(|_| ());
        }
        let Some(mut list) = self.list_mut(db, key)? else { return Ok(()) };
        match *effect {
            Effect::ListPop { end, .. } => {
                list.pop(end, 1, |_| ());
            }
            Effect::ListSet { index, element, .. } => list.set(index, element),
            Effect::ListInsert { index, element, .. } => list.insert(index, element),
            Effect::ListRemove { index, .. } => list.remove(index),
            Effect::ListTrim { from, len, .. } => list.trim(from..from + len),
            _ => {}
        }
        Ok(())
    }

    fn list_create(&mut self, db: u16, key: Key<'_>, end: End, elements: &[&[u8]]) {
        if elements.is_empty() {
            return;
        }
        let limit = Limit::of(&self.ks.limits);
        let beyond = limit.is_exceeded_by(listpack_len(&[]), 0, elements);
        let mut bytes = mem::take(&mut self.scratch);
        bytes.clear();
        bytes.extend_from_slice(&header(elements.len(), 0));
        if pack_all(&mut bytes, end, elements, SMALL_MAX) {
            self.insert_packed(db, key, Form::List, beyond, &bytes);
        } else {
            let mut list = List::new();
            for element in elements {
                list.push(&mut self.cache, end, &Item::from_text(element));
            }
            list.set_quicklist(beyond);
            self.insert_large(db, key, Large::List(list));
        }
        self.scratch = bytes;
        self.record_pushes(db, key, end, elements);
    }

    #[inline]
    fn record_pushes(&mut self, db: u16, key: Key<'_>, end: End, elements: &[&[u8]]) {
        for element in elements {
            self.record(db, key, &Effect::ListPush { key: key.bytes, end, element });
        }
    }
}

/// Appends the packed form of elements that are pushed one after the other at an end; false, when some are missing, if
/// that makes more than `most` bytes.
#[inline]
fn pack_all(bytes: &mut Vec<u8>, end: End, elements: &[&[u8]], most: usize) -> bool {
    let mut pack = |element: &&[u8]| {
        let parts = Item::from_text(element).parts();
        let fits = bytes.len() + parts.packed_len() <= most;
        if fits {
            bytes.extend_from_slice(parts.head());
            bytes.extend_from_slice(parts.tail);
        }
        fits
    };
    match end {
        End::Back => elements.iter().all(&mut pack),
        End::Front => elements.iter().rev().all(&mut pack),
    }
}

impl<'k> ListMut<'_, 'k> {
    /// The list as it is now.
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

    /// Whether it has become empty, and is gone.
    pub fn is_empty(&self) -> bool {
        self.is_gone
    }

    /// Pushes elements, one after the other, at an end. Returns the new length.
    #[inline]
    pub fn push(&mut self, end: End, elements: &[&[u8]]) -> usize {
        self.prepare_growth(elements);
        if self.large().is_some() || !self.push_small(end, elements) {
            self.enlarge();
            self.change_large(|list, handle| {
                for element in elements {
                    list.push(&mut handle.cache, end, &Item::from_text(element));
                }
            });
        }
        self.handle.record_pushes(self.db, self.key, end, elements);
        self.len()
    }

    /// Pushes onto a small list; false, when nothing was done, if it would be too long.
    #[inline]
    fn push_small(&mut self, end: End, elements: &[&[u8]]) -> bool {
        let old = self.small();
        let (len, hint, held) = (old.len(), old.hint(), HEADER + old.items().len());
        let mut bytes = mem::take(&mut self.handle.scratch);
        bytes.clear();
        let fits = pack_all(&mut bytes, end, elements, SMALL_MAX - held.min(SMALL_MAX));
        if fits {
            let (offset, hint) = match end {
                End::Front if hint > 0 => (HEADER, hint + bytes.len()),
                End::Front => (HEADER, 0),
                End::Back => (held, hint),
            };
            self.splice(offset, 0, &bytes, header(len + elements.len(), hint));
        }
        self.handle.scratch = bytes;
        fits
    }

    /// Removes up to `count` elements from an end and shows each to `take`; returns how many.
    #[inline]
    pub fn pop(&mut self, end: End, count: usize, mut take: impl FnMut(Item<'_>)) -> usize {
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
    fn pop_small(&mut self, end: End, len: usize, count: usize, mut take: impl FnMut(Item<'_>)) {
        let list = self.small();
        let items = list.items();
        let (span, hint) = match end {
            End::Front => {
                let mut rest = items;
                for _ in 0..count {
                    let (item, behind) = unpack(rest);
                    take(item);
                    rest = behind;
                }
                let cut = items.len() - rest.len();
                (0..cut, list.hint().saturating_sub(cut))
            }
            End::Back if count == 1 => {
                let (at, hint) = list.last_at();
                take(unpack(&items[at..]).0);
                (at..items.len(), hint)
            }
            End::Back => {
                let offsets = list.offsets(len);
                let popped = &offsets[len - count..];
                popped.iter().rev().for_each(|&at| take(unpack(&items[at as usize..]).0));
                (popped.first().map_or(0, |&at| at as usize)..items.len(), 0)
            }
        };
        if count < len {
            // A hint must be before an item.
            let hint = if hint < items.len() - span.len() { hint } else { 0 };
            self.splice(HEADER + span.start, span.len(), &[], header(len - count, hint));
        }
    }

    /// Replaces the element at `index`, if there is one.
    pub fn set(&mut self, index: usize, element: &[u8]) {
        if index >= self.len() {
            return;
        }
        self.prepare_growth(&[element]);
        let item = Item::from_text(element);
        if self.large().is_none() {
            let list = self.small();
            let span = list.span(index..index + 1);
            if !self.splice_small(span, 0, &item) {
                self.enlarge();
            }
        }
        // A small list that was changed is small still.
        self.change_large(|list, handle| list.set(&mut handle.cache, index, &item));
        let effect = Effect::ListSet { key: self.key.bytes, index, element };
        self.handle.record(self.db, self.key, &effect);
        self.settle(false);
    }

    /// Inserts an element before the one at `index`, or at the end.
    pub fn insert(&mut self, index: usize, element: &[u8]) {
        let index = index.min(self.len());
        self.prepare_growth(&[element]);
        let item = Item::from_text(element);
        let is_done = self.large().is_none() && {
            let span = self.small().span(index..index);
            self.splice_small(span, 1, &item)
        };
        if !is_done {
            self.enlarge();
            self.change_large(|list, handle| list.insert(&mut handle.cache, index, &item));
        }
        let effect = Effect::ListInsert { key: self.key.bytes, index, element };
        self.handle.record(self.db, self.key, &effect);
    }

    /// Puts an item in the place of some bytes of a small list's items; false if it would be too long.
    fn splice_small(&mut self, span: Range<usize>, more: usize, item: &Item<'_>) -> bool {
        let list = self.small();
        let held = HEADER + list.items().len();
        if held - span.len() + item.packed_len() > SMALL_MAX {
            return false;
        }
        let hint = if list.hint() <= span.start { list.hint() } else { 0 };
        let mut bytes = mem::take(&mut self.handle.scratch);
        bytes.clear();
        item.pack(&mut bytes);
        let header = header(list.len() + more, hint);
        self.splice(HEADER + span.start, span.len(), &bytes, header);
        self.handle.scratch = bytes;
        true
    }

    /// Removes elements that equal `element`, at most `limit`, from the first on or from the last on; returns how many.
    pub fn remove_equal(&mut self, element: &[u8], from: End, limit: usize) -> usize {
        let len = self.len();
        let mut packed = Vec::new();
        Item::from_text(element).pack(&mut packed);
        let is_heard = self.handle.sink.is_some();
        let (mut removed, mut last) = (Vec::new(), 0);
        let mut note = |index| {
            last = index;
            if is_heard {
                removed.push(index);
            }
        };
        let count = if self.large().is_some() {
            let changed = self.change_large(|list, handle| {
                list.remove_equal(&mut handle.cache, &packed, from, limit, &mut note)
            });
            changed.unwrap_or(0)
        } else {
            self.remove_equal_small(&packed, from, limit, &mut note)
        };
        if count > 0 && !is_heard {
            // Who watches the key hears of it once.
            removed.push(last);
        }
        for index in removed {
            let effect = Effect::ListRemove { key: self.key.bytes, index };
            self.handle.record(self.db, self.key, &effect);
        }
        if count > 0 {
            self.settle(count == len);
        }
        count
    }

    fn remove_equal_small(
        &mut self,
        packed: &[u8],
        from: End,
        limit: usize,
        note: &mut impl FnMut(usize),
    ) -> usize {
        let list = self.small();
        let (len, items) = (list.len(), list.items());
        let offsets = list.offsets(len);
        let is_equal = |&number: &usize| items[offsets[number] as usize..].starts_with(packed);
        let mut numbers: Vec<usize> = match from {
            End::Front => (0..len).filter(is_equal).take(limit).collect(),
            End::Back => (0..len).rev().filter(is_equal).take(limit).collect(),
        };
        for (gone, &number) in numbers.iter().enumerate() {
            // Those that went before it no longer count.
            note(if from == End::Front { number - gone } else { number });
        }
        numbers.sort_unstable();
        let mut kept = Vec::with_capacity(HEADER + items.len());
        kept.extend_from_slice(&header(len - numbers.len(), 0));
        let mut begin = 0;
        for &number in &numbers {
            let at = offsets[number] as usize;
            kept.extend_from_slice(&items[begin..at]);
            begin = at + packed.len();
        }
        kept.extend_from_slice(&items[begin..]);
        if !numbers.is_empty() && numbers.len() < len {
            self.repack(self.entry.is_beyond(), &kept);
        }
        numbers.len()
    }

    /// Removes the element at `index`, if there is one.
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
            let list = self.small();
            let span = list.span(index..index + 1);
            self.splice(HEADER + span.start, span.len(), &[], header(len - 1, 0));
        }
        let effect = Effect::ListRemove { key: self.key.bytes, index };
        self.handle.record(self.db, self.key, &effect);
        self.settle(len == 1);
    }

    /// Removes all elements but those of `range`.
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
                            handle.bury_part(Large::List(removed));
                        }
                    }
                });
            } else {
                let items = self.small().items();
                let kept = &items[self.small().span(range.clone())];
                let mut bytes = Vec::with_capacity(HEADER + kept.len());
                bytes.extend_from_slice(&header(range.len(), 0));
                bytes.extend_from_slice(kept);
                self.repack(self.entry.is_beyond(), &bytes);
            }
        }
        let effect = Effect::ListTrim { key: self.key.bytes, from: range.start, len: range.len() };
        self.handle.record(self.db, self.key, &effect);
        self.settle(range.is_empty());
    }

    /// Removes the key if the list `is_gone`; else makes it what a list of its length is.
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
                if limit.half().allows(listpack_len(list.items()), list.len()) {
                    self.entry.set_packed_form(Form::List, false);
                }
            }
            return;
        };
        list.shrink_encoding(limit);
        if let Some(items) = list.small(SMALL_AGAIN) {
            let mut bytes = Vec::with_capacity(HEADER + items.len());
            bytes.extend_from_slice(&header(list.len(), 0));
            bytes.extend_from_slice(items);
            self.repack(list.is_quicklist(), &bytes);
        }
    }

    /// Makes the list a quicklist if that is what Redis calls it with these elements on top.
    #[inline]
    fn prepare_growth(&mut self, elements: &[&[u8]]) {
        let limit = Limit::of(&self.handle.ks.limits);
        if let Some(list) = self.large_mut() {
            return list.grow_encoding(limit, elements);
        }
        if self.entry.is_beyond() {
            return;
        }
        let list = self.small();
        if limit.may_be_exceeded(list.items().len(), list.len(), elements)
            && limit.is_exceeded_by(listpack_len(list.items()), list.len(), elements)
        {
            self.entry.set_packed_form(Form::List, true);
        }
    }

    /// Makes a small list a large one.
    fn enlarge(&mut self) {
        if self.large().is_some() {
            return;
        }
        let small = self.small();
        let mut list = List::from_items(&mut self.handle.cache, small.items());
        list.set_quicklist(self.entry.is_beyond());
        let place = (self.at, self.entry);
        self.entry = self.handle.enlarge(self.db, self.key, place, Large::List(list));
    }

    /// Puts a small list in the place of what is there.
    fn repack(&mut self, beyond: bool, bytes: &[u8]) {
        let place = (self.at, self.entry);
        self.entry = self.handle.repack(self.db, self.key, place, Form::List, beyond, bytes);
    }

    /// Replaces bytes of a small list, and what they begin with.
    #[inline]
    fn splice(&mut self, at: usize, remove: usize, insert: &[u8], header: [u8; HEADER]) {
        let place = (self.at, self.entry);
        self.entry = self.handle.splice(self.db, self.key, place, at, remove, insert);
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

    /// The list, if it is small; of a large one this is an empty list.
    #[inline]
    fn small<'b>(&self) -> Small<'b> {
        Small::new(self.entry.packed().unwrap_or(&[0; HEADER]))
    }

    #[inline]
    fn large<'b>(&self) -> Option<&'b List> {
        match self.entry.large() {
            Some(Large::List(list)) => Some(list),
            _ => None,
        }
    }

    #[inline]
    fn large_mut<'b>(&mut self) -> Option<&'b mut List> {
        match self.entry.large_mut() {
            Some(Large::List(list)) => Some(list),
            _ => None,
        }
    }
}
