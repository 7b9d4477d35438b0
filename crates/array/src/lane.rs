//! The lane of a slice with many elements: its elements by rank.
//!
//! While all of them are integers, a lane has their differences to a base, each in as many bytes as
//! the greatest needs. Else it has a byte for the length of each, short texts one after the other,
//! and long texts in blocks of their own, which a snapshot shares.

use crate::element::Element;
use crate::{allocated, block, few, give_back, reserve};
use std::sync::Arc;

/// The length of texts that have blocks of their own.
const LONG: u8 = u8::MAX;

/// Elements of a lane at most.
pub const LEN_MAX: usize = 256;

/// Elements by rank.
#[derive(Clone, Debug)]
pub enum Lane {
    /// Integers.
    Ints(Ints),
    /// Texts.
    Texts(Texts),
}

/// Integers, as differences to a base.
#[derive(Clone, Debug, Default)]
pub struct Ints {
    base: i64,
    /// Bytes of a difference.
    width: u8,
    len: u16,
    bytes: Vec<u8>,
}

/// Texts: lengths, the short ones, the long ones.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    lens: Vec<u8>,
    short: Vec<u8>,
    long: Vec<Arc<[u8]>>,
    /// Bytes of the blocks of long texts.
    long_bytes: usize,
}

/// Bytes of a difference.
fn width_of(difference: u64) -> u8 {
    (64 - difference.leading_zeros()).div_ceil(8) as u8
}

impl Ints {
    pub fn get(&self, rank: usize) -> i64 {
        let width = usize::from(self.width);
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(&self.bytes[rank * width..][..width]);
        self.base.wrapping_add_unsigned(u64::from_le_bytes(bytes))
    }

    fn fits(&self, number: i64) -> bool {
        number >= self.base && width_of(number.wrapping_sub(self.base) as u64) <= self.width
    }

    fn difference(&self, number: i64) -> [u8; 8] {
        (number.wrapping_sub(self.base) as u64).to_le_bytes()
    }

    /// Chooses base and width for these numbers, and stores them.
    fn store(&mut self, numbers: &[i64]) {
        let base = numbers.iter().copied().min().unwrap_or(0);
        let most = numbers.iter().copied().max().unwrap_or(0);
        self.base = base;
        self.width = width_of(most.wrapping_sub(base) as u64);
        self.len = numbers.len() as u16;
        self.bytes.clear();
        let width = usize::from(self.width);
        reserve(&mut self.bytes, numbers.len() * width);
        for &number in numbers {
            self.bytes.extend_from_slice(&self.difference(number)[..width]);
        }
    }

    fn all(&self) -> Vec<i64> {
        (0..usize::from(self.len)).map(|rank| self.get(rank)).collect()
    }

    /// Puts a number at a rank, in place of the one there or before it.
    fn put(&mut self, rank: usize, number: i64, is_new: bool) {
        if !self.fits(number) || self.len == 0 {
            let mut numbers = self.all();
            if is_new {
                numbers.insert(rank, number);
            } else {
                numbers[rank] = number;
            }
            return self.store(&numbers);
        }
        let width = usize::from(self.width);
        let difference = self.difference(number);
        if is_new {
            reserve(&mut self.bytes, width);
            let at = rank * width;
            self.bytes.splice(at..at, difference[..width].iter().copied());
            self.len += 1;
        } else {
            self.bytes[rank * width..][..width].copy_from_slice(&difference[..width]);
        }
    }

    fn remove(&mut self, ranks: std::ops::Range<usize>) {
        let width = usize::from(self.width);
        self.len -= ranks.len() as u16;
        self.bytes.drain(ranks.start * width..ranks.end * width);
        give_back(&mut self.bytes);
    }
}

/// Places of the texts of a lane.
pub struct Places<'a> {
    lens: &'a [u8],
    /// Offsets of short texts, by rank; numbers of long ones.
    starts: [u16; LEN_MAX],
}

impl Texts {
    /// The bytes of short texts, and the number of long ones, before a rank.
    fn before(&self, rank: usize) -> (usize, usize) {
        let long = self.lens[..rank].iter().filter(|&&len| len == LONG).count();
        let all: usize = self.lens[..rank].iter().map(|&len| usize::from(len)).sum();
        (all - long * usize::from(LONG), long)
    }

    pub fn get(&self, rank: usize) -> &[u8] {
        let (start, long) = self.before(rank);
        match self.lens[rank] {
            LONG => &self.long[long],
            len => &self.short[start..][..usize::from(len)],
        }
    }

    /// Places of all texts, for [`Texts::at`]: less work than [`Texts::get`] of several.
    pub fn places(&self) -> Places<'_> {
        let mut starts = [0; LEN_MAX];
        let (mut start, mut long) = (0, 0);
        for (place, &len) in starts.iter_mut().zip(&self.lens) {
            if len == LONG {
                *place = long;
                long += 1;
            } else {
                *place = start;
                start += u16::from(len);
            }
        }
        Places { lens: &self.lens, starts }
    }

    pub fn at(&self, places: &Places<'_>, rank: usize) -> &[u8] {
        let start = usize::from(places.starts[rank]);
        match places.lens[rank] {
            LONG => &self.long[start],
            len => &self.short[start..][..usize::from(len)],
        }
    }

    /// Puts a text at a rank, in place of the one there or before it.
    fn put(&mut self, rank: usize, text: &[u8], is_new: bool) {
        let is_long = text.len() > few::TEXT_MAX;
        let len = if is_long { LONG } else { text.len() as u8 };
        if !is_new && self.lens[rank] == len && !is_long {
            let (start, _) = self.before(rank);
            self.short[start..][..text.len()].copy_from_slice(text);
            return;
        }
        if !is_new {
            self.remove_texts(rank..rank + 1);
        }
        let (start, long) = self.before(rank);
        if is_long {
            reserve(&mut self.long, 1);
            self.long.insert(long, text.into());
            self.long_bytes += long_block(text.len());
        } else {
            reserve(&mut self.short, text.len());
            self.short.splice(start..start, text.iter().copied());
            give_back(&mut self.short);
        }
        if is_new {
            reserve(&mut self.lens, 1);
            self.lens.insert(rank, len);
        } else {
            self.lens[rank] = len;
        }
    }

    /// Removes texts, but not their lengths.
    fn remove_texts(&mut self, ranks: std::ops::Range<usize>) {
        let (from, until) = (self.before(ranks.start), self.before(ranks.end));
        self.short.drain(from.0..until.0);
        for text in self.long.drain(from.1..until.1) {
            self.long_bytes -= long_block(text.len());
        }
    }

    fn remove(&mut self, ranks: std::ops::Range<usize>) {
        self.remove_texts(ranks.clone());
        self.lens.drain(ranks);
        give_back(&mut self.lens);
        give_back(&mut self.short);
        give_back(&mut self.long);
    }
}

/// Bytes of the block of a long text, with its two counts of references.
fn long_block(len: usize) -> usize {
    allocated(len + 2 * size_of::<usize>())
}

impl Lane {
    /// The element at a rank.
    #[inline]
    pub fn get(&self, rank: usize) -> Element<'_> {
        match self {
            Lane::Ints(ints) => Element::Int(ints.get(rank)),
            Lane::Texts(texts) => Element::Text(texts.get(rank)),
        }
    }

    /// Puts an element at a rank, in place of the one there or before it.
    pub fn put(&mut self, rank: usize, element: Element<'_>, is_new: bool) {
        if let Lane::Ints(ints) = self {
            match element {
                Element::Int(number) => return ints.put(rank, number, is_new),
                Element::Text(_) => *self = Lane::Texts(ints.to_texts()),
            }
        }
        if let Lane::Texts(texts) = self {
            element.with_text(|text| texts.put(rank, text, is_new));
        }
    }

    /// Removes elements.
    pub fn remove(&mut self, ranks: std::ops::Range<usize>) {
        match self {
            Lane::Ints(ints) => ints.remove(ranks),
            Lane::Texts(texts) => texts.remove(ranks),
        }
    }

    /// Bytes of its blocks.
    pub fn allocated(&self) -> usize {
        match self {
            Lane::Ints(ints) => block(&ints.bytes),
            Lane::Texts(texts) => {
                block(&texts.lens) + block(&texts.short) + block(&texts.long) + texts.long_bytes
            }
        }
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> Self {
        let mut lane = self.clone();
        if let Lane::Texts(texts) = &mut lane {
            texts.long.iter_mut().for_each(|text| *text = Arc::from(&text[..]));
        }
        lane
    }

    /// Texts with blocks of their own.
    pub fn long(&self) -> usize {
        match self {
            Lane::Ints(_) => 0,
            Lane::Texts(texts) => texts.long.len(),
        }
    }
}

impl Ints {
    fn to_texts(&self) -> Texts {
        let mut texts = Texts::default();
        for (rank, number) in self.all().into_iter().enumerate() {
            Element::Int(number).with_text(|text| texts.put(rank, text, true));
        }
        texts
    }
}
