//! Bloom filter of a chain.

use super::Hashes;
use crate::pages::Pages;

/// Bytes of a block that is freed about as fast as any other.
pub(super) const SLOT_BYTES: usize = 4096;

/// The square of the natural logarithm of 2, to the digits that RedisBloom has.
const LN_2_SQUARED: f64 = 0.480_453_013_918_201;
/// The natural logarithm of 2, likewise.
#[allow(clippy::approx_constant, reason = "other digits give other filters")]
const LN_2: f64 = 0.693_147_180_559_945;

/// Hash functions that a link has at most: with the smallest error rate of all it is 1,075.
const HASHES_MAX: u32 = 1100;

/// Properties of a link, without its bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Number of items for which it is made.
    pub entries: u64,
    /// Share of absent items that it seems to have.
    pub error: f64,
    /// Number of hash functions.
    pub hashes: u32,
    /// Bits per item.
    pub bits_per_entry: f64,
    /// Number of bits.
    pub bits: u64,
    /// The number of bits as a power of two, in filters that have such a number; else 0.
    pub exponent: u8,
}

impl Facts {
    /// The facts of a link of this size; none if no such link is possible.
    pub fn sized(error: f64, entries: u64) -> Option<Self> {
        if !(error > 0.0 && error < 1.0) || entries == 0 {
            return None;
        }
        let bits_per_entry = -error.ln() / LN_2_SQUARED;
        let bits = (entries as f64 * bits_per_entry) as u64;
        Some(Facts {
            entries,
            error,
            hashes: (LN_2 * bits_per_entry).ceil() as u32,
            bits_per_entry,
            bits: bits.max(1).checked_next_multiple_of(64)?,
            exponent: 0,
        })
    }

    fn is_sound(&self) -> bool {
        let is_power =
            self.exponent == 0 || 1u64.checked_shl(self.exponent.into()) == Some(self.bits);
        self.error > 0.0
            && self.error < 1.0
            && (1..=HASHES_MAX).contains(&self.hashes)
            && self.bits_per_entry > 0.0
            && self.bits_per_entry.is_finite()
            && self.bits > 0
            && is_power
    }
}

/// A Bloom filter.
#[derive(Debug)]
pub struct Link {
    facts: Facts,
    items: u64,
    /// 2^64 modulo the number of bits.
    wrap: u64,
    bits: Pages,
}

/// The places of an item's bits: `(a + i * b) mod bits`, where sum and product wrap at 64 bits.
struct Places {
    left: u32,
    /// The next place.
    place: u64,
    /// `a + i * b`, to see when it wraps.
    sum: u64,
    b: u64,
    /// `b mod bits`.
    step: u64,
    bits: u64,
    wrap: u64,
}

impl Iterator for Places {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let place = self.place;
        let (sum, has_wrapped) = self.sum.overflowing_add(self.b);
        let mut next = place + self.step;
        if next >= self.bits {
            next -= self.bits;
        }
        if has_wrapped {
            next = if next >= self.wrap { next - self.wrap } else { next + self.bits - self.wrap };
        }
        (self.sum, self.place) = (sum, next);
        Some(place)
    }
}

/// The byte and the bit in it.
#[inline]
fn split(place: u64) -> (usize, u8) {
    ((place >> 3) as usize, 1 << (place & 7))
}

impl Link {
    /// A link without items; none if it would be too large, or the facts contradict themselves.
    pub fn new(facts: Facts) -> Option<Self> {
        let bytes = usize::try_from(facts.bits.div_ceil(8)).ok()?;
        Link::with_bits(facts, Pages::new(bytes)?)
    }

    /// A link of these bits; none if they are too many, or do not fit the facts.
    pub fn from_bytes(facts: Facts, bytes: &[u8]) -> Option<Self> {
        Link::with_bits(facts, Pages::from_bytes(bytes)?)
    }

    fn with_bits(facts: Facts, bits: Pages) -> Option<Self> {
        if !facts.is_sound() || facts.bits.div_ceil(8) != bits.len() as u64 {
            return None;
        }
        let wrap = (u64::MAX % facts.bits + 1) % facts.bits;
        Some(Link { facts, items: 0, wrap, bits })
    }

    /// Facts beside the bits.
    #[inline]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Number of items.
    #[inline]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Number of bytes that the bits take.
    pub fn bytes(&self) -> usize {
        self.bits.len()
    }

    /// Sets the number of items of a link that is being loaded.
    pub fn set_items(&mut self, items: u64) {
        self.items = items;
    }

    pub(super) fn bits(&self) -> &Pages {
        &self.bits
    }

    pub(super) fn bits_mut(&mut self) -> &mut Pages {
        &mut self.bits
    }

    #[inline]
    pub(super) fn allocated(&self) -> usize {
        self.bits.allocated()
    }

    pub(super) fn growth(&self, items: usize) -> usize {
        self.bits.growth(items.saturating_mul(self.facts.hashes as usize))
    }

    #[inline]
    fn places(&self, hashes: Hashes) -> Places {
        let bits = self.facts.bits;
        Places {
            left: self.facts.hashes,
            place: hashes.a % bits,
            sum: hashes.a,
            b: hashes.b,
            step: hashes.b % bits,
            bits,
            wrap: self.wrap,
        }
    }

    #[inline]
    pub(super) fn contains(&self, hashes: Hashes) -> bool {
        self.places(hashes).all(|place| {
            let (byte, bit) = split(place);
            self.bits.get(byte) & bit != 0
        })
    }

    /// Reads the bytes of an item's first bits.
    #[inline]
    pub(super) fn touch(&self, hashes: Hashes) -> u8 {
        self.places(hashes).take(16).fold(0, |sum, place| sum ^ self.bits.get(split(place).0))
    }

    #[inline]
    pub(super) fn add(&mut self, hashes: Hashes) {
        for place in self.places(hashes) {
            let (byte, bit) = split(place);
            if self.bits.get(byte) & bit == 0 {
                *self.bits.get_mut(byte) |= bit;
            }
        }
        self.items = self.items.saturating_add(1);
    }

    #[cfg(test)]
    pub(super) fn places_of(&self, hashes: Hashes, visit: &mut dyn FnMut(u64)) {
        self.places(hashes).for_each(visit);
    }

    pub(super) fn duplicate(&self) -> Self {
        Link { bits: self.bits.duplicate(), ..*self }
    }

    pub(super) fn each_page(&self, visit: &mut dyn FnMut(&[u8])) {
        self.bits.each_page(visit);
    }

    pub(super) fn begin_snapshot(&mut self) -> u64 {
        self.bits.begin_snapshot();
        self.items
    }

    pub(super) fn next_page(&mut self, visit: &mut dyn FnMut(&[u8])) -> bool {
        self.bits.next_page(visit)
    }
}
