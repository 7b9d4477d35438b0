//! Scalable Bloom filters: a chain of links, each a Bloom filter. After a full link comes a larger
//! one with half its error rate, so that the error rates of all add up to the stated one. An item
//! is in the filter if one of the links has it.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | the filter |
//! | `link` | one Bloom filter |
//! | `dump` | the form of `BF.SCANDUMP` |

mod dump;
mod link;

pub use dump::{ChunkError, PIECE_MAX};
pub use link::{Facts, Link};

use crate::hash::{murmur32, murmur64};
use link::SLOT_BYTES;

/// Links that a filter has at most. The error rate of a chain that grows reaches 0 before.
pub const LINKS_MAX: usize = 2048;

/// Option: hashes have 64 bits.
const WIDE: u32 = 4;
/// Option: the number of bits is not rounded up to a power of two.
const UNROUNDED: u32 = 1;
/// Option: the filter does not grow.
const FIXED: u32 = 8;
/// Options that are known: [`UNROUNDED`], 2 (the number of entries is a power of two), [`WIDE`],
/// [`FIXED`] and 16 (as 2).
const KNOWN: u32 = 0x1f;

/// The hashes of an item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hashes {
    a: u64,
    b: u64,
}

/// The reason for which an item cannot be added.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AddError {
    /// The filter is full and does not grow.
    Full,
    /// The next link would be too large, or its error rate 0.
    NoLink,
}

/// A scalable Bloom filter.
#[derive(Debug)]
pub struct Bloom {
    links: Vec<Link>,
    items: u64,
    options: u32,
    expansion: u32,
    /// Sum of [`Link::allocated`].
    allocated: usize,
    /// Sum of the hash functions of all links.
    probes: usize,
    snapshot: Option<Snapshot>,
}

/// Progress of a snapshot.
#[derive(Debug)]
struct Snapshot {
    link: usize,
    /// Whether the link's facts were handed out.
    in_bits: bool,
    /// Items of each link at the beginning.
    items: Vec<u64>,
}

/// A part of a filter, in the order in which they are written.
#[derive(Debug)]
pub enum Part<'a> {
    /// Beginning of a link: its properties.
    Link(Facts),
    /// Some bytes of its bits.
    Bits(&'a [u8]),
    /// The link's number of items, after its bits.
    Items(u64),
}

impl Bloom {
    /// Creates a filter for `entries` items; 0 as `expansion` makes one that does not grow. None if
    /// no such filter is possible.
    pub fn new(error: f64, entries: u64, expansion: u32, is_fixed: bool) -> Option<Self> {
        let options = UNROUNDED | WIDE | if is_fixed { FIXED } else { 0 };
        let error = if is_fixed { error } else { error * 0.5 };
        let link = Link::new(Facts::sized(error, entries)?)?;
        Bloom::from_links(vec![link], 0, options, expansion)
    }

    /// Creates a filter from its parts; none if they contradict themselves.
    pub fn from_links(
        mut links: Vec<Link>,
        items: u64,
        options: u32,
        expansion: u32,
    ) -> Option<Self> {
        let is_sound = !links.is_empty() && links.len() <= LINKS_MAX && options & !KNOWN == 0;
        links.shrink_to_fit();
        let (allocated, probes) =
            (links.iter().map(Link::allocated).sum(), Self::probes_of(&links));
        is_sound.then_some(Bloom {
            links,
            items,
            options,
            expansion,
            allocated,
            probes,
            snapshot: None,
        })
    }

    fn probes_of(links: &[Link]) -> usize {
        links.iter().map(|link| link.facts().hashes as usize).sum()
    }

    /// Number of items that were added.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Number of items for which the links are made.
    pub fn capacity(&self) -> u64 {
        self.links.iter().fold(0, |sum: u64, link| sum.wrapping_add(link.facts().entries))
    }

    /// The factor by which each link is larger than the one before.
    pub fn expansion(&self) -> u32 {
        self.expansion
    }

    /// Whether the filter does not grow.
    pub fn is_fixed(&self) -> bool {
        self.options & FIXED != 0
    }

    /// Options, as dumps have them.
    pub fn options(&self) -> u32 {
        self.options
    }

    /// Bits of a hash.
    pub fn hash_bits(&self) -> u32 {
        if self.options & WIDE != 0 { 64 } else { 32 }
    }

    /// The links, oldest first.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Bytes that Redis states as the size.
    pub fn size(&self) -> u64 {
        let bits: u64 = self.links.iter().map(|link| link.bytes() as u64).sum();
        32 + 64 * self.links.len() as u64 + bits
    }

    /// Bytes occupied, without the filter itself.
    pub fn allocated(&self) -> usize {
        self.allocated + crate::allocated(self.links.capacity() * size_of::<Link>())
    }

    /// Number of allocations, about.
    pub fn blocks(&self) -> usize {
        self.allocated / SLOT_BYTES + self.links.len()
    }

    /// Bits that looking an item up reads at most.
    pub fn probes(&self) -> usize {
        self.probes
    }

    /// Upper bound of the growth of [`Bloom::allocated`] by adding this many items.
    pub fn growth(&self, items: usize) -> usize {
        let Some(last) = self.links.last() else { return 0 };
        let mut bound = last.growth(items);
        let mut facts = last.facts();
        let mut left = items as u64 - facts.entries.saturating_sub(last.items()).min(items as u64);
        while left > 0 && !self.is_fixed() {
            let next = self.after(facts).and_then(Link::new);
            let Some(next) = next else { break };
            facts = next.facts();
            bound += next.growth(items) + size_of::<Link>();
            left = left.saturating_sub(facts.entries);
        }
        bound
    }

    /// The hashes of an item.
    #[inline]
    pub fn hashes(&self, item: &[u8]) -> Hashes {
        if self.options & WIDE != 0 {
            let a = murmur64(item, 0xc6a4_a793_5bd1_e995);
            return Hashes { a, b: murmur64(item, a) };
        }
        let a = murmur32(item, 0x9747_b28c);
        Hashes { a: a.into(), b: murmur32(item, a).into() }
    }

    /// Whether an item was added, or seems to have been.
    #[inline]
    pub fn contains(&self, hashes: Hashes) -> bool {
        self.links.iter().rev().any(|link| link.contains(hashes))
    }

    /// Reads what [`Bloom::contains`] will read in the newest link, for many items at once: the
    /// processor overlaps these reads.
    #[inline]
    pub fn touch(&self, items: &[Hashes]) {
        let Some(link) = self.links.last() else { return };
        std::hint::black_box(items.iter().fold(0, |sum, &hashes| sum ^ link.touch(hashes)));
    }

    /// Adds an item. Returns whether it was new.
    ///
    /// # Errors
    /// If it was new and there is no room.
    #[inline]
    pub fn add(&mut self, hashes: Hashes) -> Result<bool, AddError> {
        let (Some(newest), older) = (self.links.split_last_mut()).unzip() else {
            return Err(AddError::NoLink);
        };
        let older: &[Link] = older.unwrap_or_default();
        if newest.contains(hashes) || older.iter().rev().any(|link| link.contains(hashes)) {
            return Ok(false);
        }
        if newest.items() >= newest.facts().entries {
            self.grow()?;
        }
        let Some(newest) = self.links.last_mut() else { return Err(AddError::NoLink) };
        let before = newest.allocated();
        newest.add(hashes);
        self.allocated = self.allocated - before + newest.allocated();
        self.items = self.items.wrapping_add(1);
        Ok(true)
    }

    /// The facts of the link after one with these; none if no such link is possible.
    fn after(&self, facts: Facts) -> Option<Facts> {
        Facts::sized(facts.error * 0.5, facts.entries.checked_mul(self.expansion.into())?)
    }

    #[cold]
    fn grow(&mut self) -> Result<(), AddError> {
        if self.is_fixed() {
            return Err(AddError::Full);
        }
        let last = self.links.last().map(Link::facts);
        let link = last.and_then(|facts| self.after(facts)).and_then(Link::new);
        let link = link.filter(|_| self.links.len() < LINKS_MAX).ok_or(AddError::NoLink)?;
        self.probes += link.facts().hashes as usize;
        self.allocated += link.allocated();
        self.links.reserve_exact(1);
        self.links.push(link);
        Ok(())
    }

    /// A copy without a snapshot.
    pub fn duplicate(&self) -> Self {
        let links: Vec<Link> = self.links.iter().map(Link::duplicate).collect();
        let allocated = links.iter().map(Link::allocated).sum();
        Bloom { links, allocated, snapshot: None, ..*self }
    }

    /// Shows all parts to `visit`, in order.
    pub fn each_part(&self, visit: &mut dyn FnMut(Part<'_>)) {
        for link in &self.links {
            visit(Part::Link(link.facts()));
            link.each_page(&mut |bits| visit(Part::Bits(bits)));
            visit(Part::Items(link.items()));
        }
    }

    /// Begins a snapshot of the present filter.
    pub fn begin_snapshot(&mut self) {
        let items = self.links.iter_mut().map(Link::begin_snapshot).collect();
        self.snapshot = Some(Snapshot { link: 0, in_bits: false, items });
    }

    /// Shows the next part of the snapshot to `visit`; false at the end.
    pub fn next_part(&mut self, visit: &mut dyn FnMut(Part<'_>)) -> bool {
        let Some(snapshot) = &mut self.snapshot else { return false };
        let (Some(link), Some(&items)) =
            (self.links.get_mut(snapshot.link), snapshot.items.get(snapshot.link))
        else {
            self.snapshot = None;
            return false;
        };
        if !snapshot.in_bits {
            snapshot.in_bits = true;
            visit(Part::Link(link.facts()));
            return true;
        }
        let before = link.allocated();
        if !link.next_page(&mut |bits| visit(Part::Bits(bits))) {
            (snapshot.link, snapshot.in_bits) = (snapshot.link + 1, false);
            visit(Part::Items(items));
        }
        self.allocated = self.allocated - before + link.allocated();
        true
    }
}

#[cfg(test)]
mod tests;
