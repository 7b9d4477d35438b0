//! A slice with many elements: a mask of its offsets, and a lane.

use crate::element::Element;
use crate::lane::{Ints, Lane};
use std::ops::ControlFlow;

/// Words of the mask.
const WORDS: usize = 4;

/// Elements of a slice.
#[derive(Clone, Debug)]
pub struct Many {
    mask: [u64; WORDS],
    lane: Lane,
}

/// The bits of a word from an offset to another, both in the word's range or beyond it.
fn bits_between(word: usize, lo: u8, hi: u8) -> u64 {
    let (first, last) = (word * 64, word * 64 + 63);
    let (lo, hi) = (usize::from(lo).max(first), usize::from(hi).min(last));
    if lo > hi { 0 } else { (u64::MAX << (lo - first)) & (u64::MAX >> (last - hi)) }
}

impl Many {
    /// Creates a slice of elements in order.
    pub fn of<'a>(elements: impl Iterator<Item = (u8, Element<'a>)>) -> Self {
        let mut many = Many { mask: [0; WORDS], lane: Lane::Ints(Ints::default()) };
        for (offset, element) in elements {
            many.set(offset, element);
        }
        many
    }

    pub fn len(&self) -> usize {
        self.mask.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn has(&self, offset: u8) -> bool {
        self.mask[usize::from(offset / 64)] >> (offset % 64) & 1 == 1
    }

    /// The number of elements before an offset.
    fn rank(&self, offset: u8) -> usize {
        let word = usize::from(offset / 64);
        let before = self.mask[word] & !(u64::MAX << (offset % 64));
        let words = self.mask[..word].iter().map(|word| word.count_ones() as usize);
        words.sum::<usize>() + before.count_ones() as usize
    }

    /// The number of elements from an offset to another.
    pub fn count_between(&self, lo: u8, hi: u8) -> usize {
        let words = self.mask.iter().enumerate();
        words.map(|(i, word)| (word & bits_between(i, lo, hi)).count_ones() as usize).sum()
    }

    pub fn get(&self, offset: u8) -> Option<Element<'_>> {
        self.has(offset).then(|| self.lane.get(self.rank(offset)))
    }

    /// Sets the element at an offset; returns whether there was none.
    pub fn set(&mut self, offset: u8, element: Element<'_>) -> bool {
        let is_new = !self.has(offset);
        self.lane.put(self.rank(offset), element, is_new);
        self.mask[usize::from(offset / 64)] |= 1 << (offset % 64);
        is_new
    }

    /// Removes the elements from an offset to another; returns their number.
    pub fn remove_between(&mut self, lo: u8, hi: u8) -> usize {
        let (from, count) = (self.rank(lo), self.count_between(lo, hi));
        if count > 0 {
            self.lane.remove(from..from + count);
            for (i, word) in self.mask.iter_mut().enumerate() {
                *word &= !bits_between(i, lo, hi);
            }
        }
        count
    }

    /// The last offset with an element.
    pub fn last(&self) -> Option<u8> {
        let (i, word) = self.mask.iter().enumerate().rfind(|(_, word)| **word != 0)?;
        Some((i * 64) as u8 + (63 - word.leading_zeros()) as u8)
    }

    /// Passes on the elements from an offset to another, or in reverse order.
    pub fn each<B>(
        &self,
        (lo, hi): (u8, u8),
        is_reverse: bool,
        take: &mut dyn FnMut(u8, Element<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let count = self.count_between(lo, hi);
        if count == 0 {
            return ControlFlow::Continue(());
        }
        let first = self.rank(lo);
        let mut offsets = [0; 256];
        for (place, offset) in offsets.iter_mut().zip((lo..=hi).filter(|&at| self.has(at))) {
            *place = offset;
        }
        let places = match &self.lane {
            Lane::Texts(texts) if count > 1 => Some((texts, texts.places())),
            _ => None,
        };
        for i in 0..count {
            let i = if is_reverse { count - 1 - i } else { i };
            let element = match &places {
                Some((texts, places)) => Element::Text(texts.at(places, first + i)),
                None => self.lane.get(first + i),
            };
            take(offsets[i], element)?;
        }
        ControlFlow::Continue(())
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> Self {
        Many { mask: self.mask, lane: self.lane.duplicate() }
    }

    /// Bytes of its blocks, its own not among them.
    pub fn allocated(&self) -> usize {
        self.lane.allocated()
    }

    /// Texts with blocks of their own.
    pub fn long(&self) -> usize {
        self.lane.long()
    }
}
