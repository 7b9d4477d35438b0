//! Chunk of nodes, stored as arrays (structure of arrays).
//!
//! ```text
//! codes    | code | code | code | ...          of the length given by the shape
//! factors  | norm, range | ...
//! links    | n, a, b, c, ... | n, a, b, ... |  level 0: count, room for the maximum ([`links`])
//! heads    | generation, level or FREE | ...
//! upper    levels 1 and up, of the few nodes that have them
//! ```

use super::link_limit;
use super::links::{self, Links, PADDING, bits_of};
use crate::quantise::{EncodedRef, Factors, Shape};
use petrel_heap::prefetch;

/// Number of nodes of a chunk.
pub const CHUNK_LEN: usize = 1024;

/// Level of a number that is not a node.
const FREE: u32 = 0xff;

/// Bits of a head that hold the level; the generation is in the others.
const LEVEL_BITS: u32 = 8;

/// Maximum number of bytes of a code that are prefetched; the hardware prefetcher continues.
const PREFETCHED_MAX: usize = 512;

/// Bytes of a cache line.
const LINE: usize = 64;

/// At most [`CHUNK_LEN`] nodes.
#[derive(Clone, Debug)]
pub struct Chunk {
    code_bytes: usize,
    /// Bytes of a code that a walk reads, and how many of them are prefetched.
    walked: usize,
    prefetched: usize,
    /// Maximum number of links of a node on level 0, and on each other level.
    limits: [usize; 2],
    /// Bits of a link: enough for the greatest number linked so far.
    bits: u32,
    codes: Vec<u8>,
    factors: Vec<Factors>,
    links: Vec<u8>,
    heads: Vec<u32>,
    /// By node, in ascending order: its links level by level.
    upper: Vec<(u16, Box<[u8]>)>,
    /// Bytes of `upper`'s allocations.
    upper_bytes: usize,
}

impl Chunk {
    /// Creates an empty chunk for nodes from `first` on.
    pub fn new(shape: &Shape, first: u32) -> Self {
        Chunk {
            code_bytes: shape.code_bytes(),
            walked: shape.walked_bytes(),
            prefetched: shape.walked_bytes().min(PREFETCHED_MAX),
            limits: [link_limit(shape, 0), link_limit(shape, 1)],
            bits: bits_of(first | (CHUNK_LEN - 1) as u32),
            codes: Vec::new(),
            factors: Vec::new(),
            links: Vec::new(),
            heads: Vec::new(),
            upper: Vec::new(),
            upper_bytes: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.heads.len()
    }

    pub fn footprint(&self) -> usize {
        // Includes the two counters of its `Arc`.
        size_of::<Self>()
            + 2 * size_of::<usize>()
            + self.codes.capacity()
            + self.factors.capacity() * size_of::<Factors>()
            + self.links.capacity()
            + self.heads.capacity() * size_of::<u32>()
            + self.upper.capacity() * size_of::<(u16, Box<[u8]>)>()
            + self.upper_bytes
    }

    #[inline]
    pub fn is_node(&self, at: usize) -> bool {
        self.heads.get(at).is_some_and(|head| head & FREE != FREE)
    }

    #[inline]
    pub fn generation(&self, at: usize) -> u32 {
        self.heads[at] >> LEVEL_BITS
    }

    #[inline]
    pub fn level(&self, at: usize) -> usize {
        (self.heads[at] & FREE) as usize
    }

    #[inline]
    pub fn vector(&self, at: usize) -> EncodedRef<'_> {
        let from = at * self.code_bytes;
        EncodedRef { code: &self.codes[from..from + self.code_bytes], factors: self.factors[at] }
    }

    /// Prefetches the part of a node's vector that a walk reads.
    #[inline]
    pub fn prefetch_vector(&self, at: usize) {
        let from = self.codes.as_ptr().addr() + at * self.code_bytes;
        prefetch_lines(from, from + self.prefetched);
    }

    /// Prefetches the remaining part of a node's vector.
    #[inline]
    pub fn prefetch_rest(&self, at: usize) {
        let from = self.codes.as_ptr().addr() + at * self.code_bytes;
        if self.walked < self.code_bytes {
            prefetch_lines(from + self.walked, from + self.code_bytes);
            prefetch(self.factors.as_ptr().addr() + at * size_of::<Factors>());
        }
    }

    /// Prefetches a node's links on level 0.
    #[inline]
    pub fn prefetch_links(&self, at: usize) {
        let from = self.links.as_ptr().addr() + at * self.stride(0);
        prefetch(from);
        prefetch(from + LINE);
    }

    /// Bytes of a node's links on a level.
    #[inline]
    fn stride(&self, level: usize) -> usize {
        links::stride(self.limits[level.min(1)], self.bits)
    }

    /// Index of a node's upper levels, or their insertion point.
    fn upper_at(&self, at: usize) -> Result<usize, usize> {
        self.upper.binary_search_by_key(&at, |(node, _)| usize::from(*node))
    }

    #[inline]
    pub fn links(&self, at: usize, level: usize) -> Links<'_> {
        let stride = self.stride(level);
        let bytes = match level.checked_sub(1) {
            None => self.links.get(at * stride..),
            Some(upper) => {
                let levels = self.upper_at(at).map_or(&[][..], |at| &self.upper[at].1);
                levels.get(upper * stride..).filter(|rest| rest.len() > PADDING)
            }
        };
        bytes.map_or(Links::NONE, |bytes| Links::new(bytes, self.bits))
    }

    /// Calls `change` with the bytes from a node's links on a level on, and the bits of a link.
    fn change_links(&mut self, at: usize, level: usize, change: impl FnOnce(&mut [u8], u32)) {
        let stride = self.stride(level);
        let bytes = match level.checked_sub(1) {
            None => self.links.get_mut(at * stride..),
            Some(upper) => match self.upper_at(at) {
                Ok(at) => self.upper[at].1.get_mut(upper * stride..),
                Err(_) => None,
            },
        };
        if let Some(bytes) = bytes {
            change(bytes, self.bits);
        }
    }

    pub fn add_link(&mut self, at: usize, level: usize, to: u32) {
        if bits_of(to) > self.bits {
            self.widen(bits_of(to));
        }
        self.change_links(at, level, |bytes, bits| links::push(bytes, bits, to));
    }

    pub fn remove_link(&mut self, at: usize, level: usize, to: u32) {
        self.change_links(at, level, |bytes, bits| links::remove(bytes, bits, to));
    }

    /// Increases the bits of links: once for each doubling of the nodes.
    fn widen(&mut self, bits: u32) {
        let (before, after) =
            ([self.stride(0), self.stride(1)], self.limits.map(|limit| links::stride(limit, bits)));
        let wider = |old: &[u8], new: &mut [u8], level: usize, count: usize| {
            for at in 0..count {
                let links = Links::new(&old[at * before[level]..], self.bits);
                links::write(&mut new[at * after[level]..], bits, links.iter());
            }
        };
        let mut links = Vec::with_capacity(self.heads.capacity() * after[0] + PADDING);
        links.resize(self.heads.len() * after[0] + PADDING, 0);
        wider(&self.links, &mut links, 0, self.heads.len());
        for (_, levels) in &mut self.upper {
            let count = (levels.len() - PADDING) / before[1];
            let mut new = vec![0; count * after[1] + PADDING].into_boxed_slice();
            wider(levels, &mut new, 1, count);
            self.upper_bytes = self.upper_bytes + new.len() - levels.len();
            *levels = new;
        }
        (self.links, self.bits) = (links, bits);
    }

    /// Turns a free number into a node.
    pub fn occupy(&mut self, at: usize, vector: EncodedRef<'_>, level: usize) {
        let from = at * self.code_bytes;
        self.codes[from..from + self.code_bytes].copy_from_slice(vector.code);
        self.factors[at] = vector.factors;
        self.change_links(at, 0, |bytes, bits| links::write(bytes, bits, std::iter::empty()));
        self.heads[at] = self.heads[at] & !FREE | level as u32;
        self.set_upper(at, level);
    }

    /// Appends a node with the next number.
    pub fn push(&mut self, vector: EncodedRef<'_>, level: usize) {
        self.grow();
        self.codes.extend_from_slice(vector.code);
        self.factors.push(vector.factors);
        self.heads.push(level as u32);
        self.links.resize(self.heads.len() * self.stride(0) + PADDING, 0);
        self.set_upper(self.heads.len() - 1, level);
    }

    /// Reserves room for a node: half as much again, but at most for a full chunk.
    fn grow(&mut self) {
        let len = self.heads.len();
        if len < self.heads.capacity() {
            return;
        }
        let more = (len / 2).max(1).min(CHUNK_LEN - len);
        self.codes.reserve_exact(more * self.code_bytes);
        self.factors.reserve_exact(more);
        let links = (len + more) * self.stride(0) + PADDING;
        self.links.reserve_exact(links - self.links.len());
        self.heads.reserve_exact(more);
    }

    /// Gives a node this many levels above the lowest, without links.
    fn set_upper(&mut self, at: usize, levels: usize) {
        let bytes = if levels == 0 { 0 } else { levels * self.stride(1) + PADDING };
        let empty: Box<[u8]> = vec![0; bytes].into();
        let added = empty.len();
        let removed = match (self.upper_at(at), levels) {
            (Ok(at), 0) => self.upper.remove(at).1.len(),
            (Ok(at), _) => std::mem::replace(&mut self.upper[at].1, empty).len(),
            (Err(_), 0) => 0,
            (Err(place), _) => {
                if self.upper.len() == self.upper.capacity() {
                    self.upper.reserve_exact(self.upper.len() / 4 + 1);
                }
                // Nodes of a chunk are numbered below `CHUNK_LEN`.
                self.upper.insert(place, (at as u16, empty));
                0
            }
        };
        self.upper_bytes = self.upper_bytes + added - removed;
    }

    /// Frees a number, which has no links.
    pub fn free(&mut self, at: usize) {
        self.set_upper(at, 0);
        let generation = self.generation(at).wrapping_add(1);
        self.heads[at] = generation << LEVEL_BITS | FREE;
    }
}

/// Prefetches the cache lines of an address range.
#[inline]
fn prefetch_lines(from: usize, end: usize) {
    // Steps from line start to line start: unaligned steps could miss the last line.
    (from & !(LINE - 1)..end).step_by(LINE).for_each(prefetch);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantise::Quantisation;

    #[test]
    fn links_to_larger_numbers_widen_a_chunk() {
        let quantisation = Quantisation::Q8;
        let shape = Shape { dim: 3, quantisation, links: 4, input_dim: None, seed: 0 };
        let mut chunk = Chunk::new(&shape, 3072);
        assert_eq!(chunk.bits, 12);
        let vector = EncodedRef { code: &[1, 2, 3], factors: Factors::default() };
        (0..5).for_each(|at| chunk.push(vector, at % 3));
        let links = |chunk: &Chunk| -> Vec<Vec<u32>> {
            let of = |at: usize, level| chunk.links(at, level).iter().collect();
            (0..5).flat_map(|at| (0..=at % 3).map(move |level| of(at, level))).collect()
        };
        for at in 0..5 {
            for level in 0..=at % 3 {
                (0..4).for_each(|link| chunk.add_link(at, level, link + 0xff0));
            }
        }
        let mut expected = links(&chunk);
        for (to, bits) in [(0x1000, 13), (0x0fff_ffff, 28), (0x1fff, 28), (u32::MAX, 32)] {
            let gone = expected[4].remove(1);
            chunk.remove_link(2, 1, gone);
            chunk.add_link(2, 1, to);
            expected[4].push(to);
            assert_eq!(links(&chunk), expected);
            let upper: usize = chunk.upper.iter().map(|(_, levels)| levels.len()).sum();
            assert_eq!((chunk.bits, upper), (bits, chunk.upper_bytes));
            let room = chunk.heads.capacity() * chunk.stride(0) + PADDING;
            assert_eq!(room, chunk.links.capacity());
        }
        assert!(chunk.links(0, 1).is_empty() && chunk.links(1, 2).is_empty());
    }
}
