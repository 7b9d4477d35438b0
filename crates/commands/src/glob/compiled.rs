//! Patterns compiled for long texts. The part after each star is searched in time linear in the
//! text, times at most a 64th of the length of a run of `?` and classes, up to a limit of the
//! caller.

use super::{Case, STARS_MAX, class_of, equal, fold};
use memchr::memmem;

/// Number of elements compared at once: one for each bit of a word.
const BLOCK: usize = 64;

/// Maximum number of elements that are compared one by one.
const FEW: usize = 8;

/// Set of bytes: one bit for each.
type Set = [u64; 4];

const ANY: Set = [u64::MAX; 4];

/// A pattern element that matches one byte.
#[derive(Clone, Copy, Debug)]
enum Element {
    /// This byte.
    Byte(u8),
    /// The bytes of the set with this number.
    Set(u32),
}

/// Part of a pattern between two stars, or between a star and an end of the pattern.
#[derive(Debug)]
enum Part {
    Bytes(Box<[u8]>),
    Elements(Box<[Element]>),
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Compiled {
    /// Number of stars plus one; adjacent stars count as one.
    parts: Vec<Part>,
    sets: Vec<Set>,
    /// Minimum length of a matching text, in bytes.
    len_min: usize,
    /// Whether the pattern has more stars than `STARS_MAX`, so that nothing matches.
    is_hopeless: bool,
}

impl Compiled {
    pub fn new(pattern: &[u8], case: Case) -> Self {
        let mut compiled =
            Compiled { parts: Vec::new(), sets: Vec::new(), len_min: 0, is_hopeless: false };
        let mut elements = Vec::new();
        let (mut at, mut stars) = (0, 0);
        while let Some(&first) = pattern.get(at) {
            if first == b'*' {
                while pattern.get(at) == Some(&b'*') {
                    at += 1;
                }
                compiled.end_part(&mut elements);
                stars += usize::from(at < pattern.len());
                continue;
            }
            let (element, length) = compiled.element(&pattern[at..], case);
            elements.push(element);
            at += length;
        }
        compiled.end_part(&mut elements);
        compiled.is_hopeless = stars > STARS_MAX;
        compiled
    }

    /// Parses the first element of a pattern; returns it and its length.
    fn element(&mut self, pattern: &[u8], case: Case) -> (Element, usize) {
        let (set, length) = match pattern {
            [b'?', ..] => (ANY, 1),
            [b'[', class @ ..] => {
                let (set, length) = class_set(class, case);
                (set, length + 1)
            }
            [b'\\', escaped, ..] => return (self.literal(*escaped, case), 2),
            [literal, ..] => return (self.literal(*literal, case), 1),
            [] => (ANY, 0),
        };
        (self.add(set), length)
    }

    fn literal(&mut self, byte: u8, case: Case) -> Element {
        if case == Case::Sensitive || !byte.is_ascii_alphabetic() {
            return Element::Byte(byte);
        }
        self.add(set_of(|other| equal(other, byte, case)))
    }

    fn add(&mut self, set: Set) -> Element {
        // Most patterns use a single set: that of the question mark.
        let known = self.sets.iter().rev().take(2).position(|known| *known == set);
        let number = match known {
            Some(back) => self.sets.len() - 1 - back,
            None => {
                self.sets.push(set);
                self.sets.len() - 1
            }
        };
        Element::Set(number as u32)
    }

    fn end_part(&mut self, elements: &mut Vec<Element>) {
        self.len_min += elements.len();
        let bytes = elements.iter().map(|element| match element {
            Element::Byte(byte) => Some(*byte),
            Element::Set(_) => None,
        });
        let part = match bytes.collect::<Option<Box<[u8]>>>() {
            Some(bytes) => Part::Bytes(bytes),
            None => Part::Elements(elements.as_slice().into()),
        };
        elements.clear();
        self.parts.push(part);
    }

    /// Whether the whole of `text` matches. No match after `work` steps.
    pub fn matches(&self, text: &[u8], work: &mut usize) -> bool {
        if self.is_hopeless || text.len() < self.len_min {
            return false;
        }
        let [first, between @ .., last] = &self.parts[..] else {
            return self.parts[0].len() == text.len() && self.is_at(&self.parts[0], text, 0);
        };
        // `text` is at least `len_min` long, so the first and the last part do not overlap.
        let end = text.len() - last.len();
        if !self.is_at(first, text, 0) || !self.is_at(last, text, end) {
            return false;
        }
        let mut rest = &text[first.len()..end];
        // The first match of each part is the best one, since it leaves most text for the others.
        between.iter().all(|part| match self.find(part, rest, work) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    }

    fn accepts(&self, element: Element, byte: u8) -> bool {
        match element {
            Element::Byte(literal) => literal == byte,
            Element::Set(number) => contains(&self.sets[number as usize], byte),
        }
    }

    fn is_at(&self, part: &Part, text: &[u8], at: usize) -> bool {
        match part {
            Part::Bytes(bytes) => text[at..].starts_with(bytes),
            Part::Elements(elements) => self.are_at(elements, &text[at..]),
        }
    }

    /// Whether elements match the beginning of a text, which is long enough.
    fn are_at(&self, elements: &[Element], text: &[u8]) -> bool {
        elements.iter().zip(text).all(|(&element, &byte)| self.accepts(element, byte))
    }

    /// Position of the first match of a part in `text`.
    fn find(&self, part: &Part, text: &[u8], work: &mut usize) -> Option<usize> {
        let last = text.len().checked_sub(part.len())?;
        match part {
            Part::Bytes(bytes) => memmem::find(text, bytes),
            Part::Elements(elements) if elements.len() <= FEW || last <= BLOCK => {
                (0..=last).find(|&at| self.is_at(part, text, at))
            }
            Part::Elements(elements) => self.find_long(elements, text, last, work),
        }
    }

    /// Position of the first match of many elements in `text`, at most `last`. For each block of
    /// elements a bit-parallel scan finds all its positions; positions that do not match all blocks
    /// so far are dropped. Once few are left, they are checked one by one.
    fn find_long(
        &self,
        elements: &[Element],
        text: &[u8],
        last: usize,
        work: &mut usize,
    ) -> Option<usize> {
        let mut places = vec![u64::MAX; last / BLOCK + 1];
        for (number, block) in elements.chunks(BLOCK).enumerate() {
            *work = work.checked_sub(last + 256 * BLOCK)?;
            let masks = self.masks(block);
            let (skipped, found_at) = (number * BLOCK, block.len() - 1);
            let mut here = vec![0; places.len()];
            let mut state = 0u64;
            for (at, &byte) in text[skipped..skipped + last + block.len()].iter().enumerate() {
                state = (state << 1 | 1) & masks[usize::from(byte)];
                if state >> found_at & 1 != 0 {
                    let place = at - found_at;
                    here[place / BLOCK] |= 1 << (place % BLOCK);
                }
            }
            let mut left = 0;
            for (place, here) in places.iter_mut().zip(here) {
                *place &= here;
                left += place.count_ones() as usize;
            }
            let done = skipped + block.len();
            let rest = &elements[done..];
            if left.saturating_mul(rest.len()) <= last {
                return places_of(&places).find(|at| self.are_at(rest, &text[at + done..]));
            }
        }
        places_of(&places).next()
    }

    /// For each byte, a mask of the block's elements that match it.
    fn masks(&self, block: &[Element]) -> [u64; 256] {
        let mut masks = [0; 256];
        for (bit, &element) in block.iter().enumerate() {
            match element {
                Element::Byte(byte) => masks[usize::from(byte)] |= 1 << bit,
                Element::Set(number) => {
                    let set = &self.sets[number as usize];
                    (0..=u8::MAX).filter(|&byte| contains(set, byte)).for_each(|byte| {
                        masks[usize::from(byte)] |= 1 << bit;
                    });
                }
            }
        }
        masks
    }
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Part::Bytes(bytes) => bytes.len(),
            Part::Elements(elements) => elements.len(),
        }
    }
}

/// Positions of set bits, ascending.
fn places_of(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(index, &word)| {
        let bits = std::iter::successors(Some(word), |&left| Some(left & left.wrapping_sub(1)));
        let bits = bits.take_while(|&left| left != 0);
        bits.map(move |left| index * BLOCK + left.trailing_zeros() as usize)
    })
}

fn contains(set: &Set, byte: u8) -> bool {
    set[usize::from(byte / 64)] >> (byte % 64) & 1 != 0
}

fn set_of(is_in: impl Fn(u8) -> bool) -> Set {
    let mut set = [0; 4];
    for byte in (0..=u8::MAX).filter(|&byte| is_in(byte)) {
        set[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
    set
}

/// The set of bytes that a class matches, and the class's length.
fn class_set(class: &[u8], case: Case) -> (Set, usize) {
    let mut folded: Set = [0; 4];
    let (negated, length) = class_of(class, case, |low, high| {
        for byte in low..=high {
            folded[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
    });
    (set_of(|byte| contains(&folded, fold(byte, case)) != negated), length)
}
