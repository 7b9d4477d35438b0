//! Nodes side by side: what a search reads of each lies in arrays.
//!
//! ```text
//! codes    | code | code | code | ...          as long as the shape says
//! factors  | norm, range | ...
//! links    | n, a, b, c, ... | n, a, b, ... |  level 0: a count of two bytes, room for the most links
//! heads    | generation, level or FREE | ...
//! upper    levels 1 and up, of the few nodes that have them
//! ```

use super::link_limit;
use super::links::{Links, NARROW_END, write};
use crate::quantise::{EncodedRef, Factors, Shape};
use petrel_heap::prefetch;

/// Nodes of a chunk.
pub const CHUNK_LEN: usize = 1024;

/// Instead of a level: the number is no node.
const FREE: u32 = 0xff;

/// Bits of a head that are the level; the generation is in the others.
const LEVEL_BITS: u32 = 8;

/// Bytes of a code that are asked for at most: the processor sees that more is read on.
const PREFETCHED_MAX: usize = 512;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of a count of links.
const COUNT_BYTES: usize = 2;

/// At most [`CHUNK_LEN`] nodes.
#[derive(Clone, Debug)]
pub struct Chunk {
    code_bytes: usize,
    /// Bytes of a code that a walk reads, and those of them that are asked for before it does.
    walked: usize,
    prefetched: usize,
    /// Most links of a node on level 0, and on each other.
    limits: [usize; 2],
    /// Bytes of a link.
    width: usize,
    codes: Vec<u8>,
    factors: Vec<Factors>,
    links: Vec<u8>,
    heads: Vec<u32>,
    /// By node, in ascending order.
    upper: Vec<(u16, Box<[u8]>)>,
    /// Bytes of `upper`'s allocations.
    upper_bytes: usize,
}

impl Chunk {
    pub fn new(shape: &Shape) -> Self {
        Chunk {
            code_bytes: shape.code_bytes(),
            walked: shape.walked_bytes(),
            prefetched: shape.walked_bytes().min(PREFETCHED_MAX),
            limits: [link_limit(shape, 0), link_limit(shape, 1)],
            width: 3,
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
        // Two counts of an `Arc` lie before it.
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

    /// Asks for what a walk reads of a node's vector.
    #[inline]
    pub fn prefetch_vector(&self, at: usize) {
        let from = self.codes.as_ptr().addr() + at * self.code_bytes;
        prefetch_lines(from, from + self.prefetched);
    }

    /// Asks for what a walk does not read of a node's vector.
    #[inline]
    pub fn prefetch_rest(&self, at: usize) {
        let from = self.codes.as_ptr().addr() + at * self.code_bytes;
        if self.walked < self.code_bytes {
            prefetch_lines(from + self.walked, from + self.code_bytes);
            prefetch(self.factors.as_ptr().addr() + at * size_of::<Factors>());
        }
    }

    /// Asks for a node's links on level 0.
    #[inline]
    pub fn prefetch_links(&self, at: usize) {
        let from = self.links.as_ptr().addr() + at * self.stride(0);
        prefetch(from);
        prefetch(from + LINE);
    }

    /// Bytes of a node's links on a level.
    #[inline]
    fn stride(&self, level: usize) -> usize {
        COUNT_BYTES + self.limits[level.min(1)] * self.width
    }

    /// Where the levels above the lowest of a node are, or would be.
    fn upper_at(&self, at: usize) -> Result<usize, usize> {
        self.upper.binary_search_by_key(&at, |(node, _)| usize::from(*node))
    }

    #[inline]
    pub fn links(&self, at: usize, level: usize) -> Links<'_> {
        let stride = self.stride(level);
        let bytes = match level.checked_sub(1) {
            None => &self.links[at * stride..(at + 1) * stride],
            Some(upper) => {
                let levels = self.upper_at(at).map_or(&[][..], |at| &self.upper[at].1);
                levels.get(upper * stride..(upper + 1) * stride).unwrap_or(&[0; COUNT_BYTES])
            }
        };
        let len = usize::from(bytes[0]) | usize::from(bytes[1]) << 8;
        Links::new(&bytes[COUNT_BYTES..COUNT_BYTES + len * self.width], self.width)
    }

    /// Calls `change` with the room for a node's links on a level, and their number, which it
    /// returns anew.
    fn change_links(
        &mut self,
        at: usize,
        level: usize,
        change: impl FnOnce(&mut [u8], usize) -> usize,
    ) {
        let stride = self.stride(level);
        let bytes = match level.checked_sub(1) {
            None => &mut self.links[at * stride..(at + 1) * stride],
            Some(upper) => match self.upper_at(at) {
                Ok(at) => &mut self.upper[at].1[upper * stride..(upper + 1) * stride],
                Err(_) => return,
            },
        };
        let (count, links) = bytes.split_at_mut(COUNT_BYTES);
        let len = change(links, usize::from(count[0]) | usize::from(count[1]) << 8);
        write(count, len as u32);
    }

    pub fn add_link(&mut self, at: usize, level: usize, to: u32) {
        if to >= NARROW_END && self.width == 3 {
            self.widen();
        }
        let width = self.width;
        self.change_links(at, level, |links, len| {
            write(&mut links[len * width..(len + 1) * width], to);
            len + 1
        });
    }

    pub fn remove_link(&mut self, at: usize, level: usize, to: u32) {
        let width = self.width;
        let index = self.links(at, level).iter().position(|link| link == to);
        if let Some(index) = index {
            self.change_links(at, level, |links, len| {
                links.copy_within((index + 1) * width..len * width, index * width);
                len - 1
            });
        }
    }

    /// Makes links four bytes wide.
    fn widen(&mut self) {
        let old = self.clone();
        self.width = 4;
        self.links = vec![0; self.stride(0) * self.heads.len()];
        self.links.reserve_exact((self.heads.capacity() - self.heads.len()) * self.stride(0));
        for (node, levels) in &old.upper {
            let count = levels.len() / old.stride(1);
            self.set_upper(usize::from(*node), count);
        }
        for at in 0..old.heads.len() {
            let top = old.upper_at(at).map_or(0, |it| old.upper[it].1.len() / old.stride(1));
            for level in 0..=top {
                old.links(at, level).iter().for_each(|link| self.add_link(at, level, link));
            }
        }
    }

    /// Makes a node of a number that was one before.
    pub fn occupy(&mut self, at: usize, vector: EncodedRef<'_>, level: usize) {
        let from = at * self.code_bytes;
        self.codes[from..from + self.code_bytes].copy_from_slice(vector.code);
        self.factors[at] = vector.factors;
        self.change_links(at, 0, |_, _| 0);
        self.heads[at] = self.heads[at] & !FREE | level as u32;
        self.set_upper(at, level);
    }

    /// Makes a node of the next number.
    pub fn push(&mut self, vector: EncodedRef<'_>, level: usize) {
        self.grow();
        self.codes.extend_from_slice(vector.code);
        self.factors.push(vector.factors);
        self.links.resize(self.links.len() + self.stride(0), 0);
        self.heads.push(level as u32);
        self.set_upper(self.heads.len() - 1, level);
    }

    /// Makes room for a node: for half as many again, and never for more than there may be.
    fn grow(&mut self) {
        let len = self.heads.len();
        if len < self.heads.capacity() {
            return;
        }
        let more = (len / 2).max(1).min(CHUNK_LEN - len);
        self.codes.reserve_exact(more * self.code_bytes);
        self.factors.reserve_exact(more);
        self.links.reserve_exact(more * self.stride(0));
        self.heads.reserve_exact(more);
    }

    /// Gives a node this many levels above the lowest, without links.
    fn set_upper(&mut self, at: usize, levels: usize) {
        let empty: Box<[u8]> = vec![0; levels * self.stride(1)].into();
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

    /// The number is no node from now on; it has no links.
    pub fn free(&mut self, at: usize) {
        self.set_upper(at, 0);
        let generation = self.generation(at).wrapping_add(1);
        self.heads[at] = generation << LEVEL_BITS | FREE;
    }
}

/// Asks for the cache lines of the addresses from `from` to `end`.
#[inline]
fn prefetch_lines(from: usize, end: usize) {
    // The first line begins where an address is a multiple of a line: a step of a line from
    // elsewhere could miss the last one.
    (from & !(LINE - 1)..end).step_by(LINE).for_each(prefetch);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantise::Quantisation;

    #[test]
    fn links_to_large_numbers_widen_a_chunk() {
        let quantisation = Quantisation::Q8;
        let shape = Shape { dim: 3, quantisation, links: 4, input_dim: None, seed: 0 };
        let mut chunk = Chunk::new(&shape);
        let vector = EncodedRef { code: &[1, 2, 3], factors: Factors::default() };
        (0..5).for_each(|at| chunk.push(vector, at % 3));
        let links = |chunk: &Chunk| -> Vec<Vec<u32>> {
            let of = |at: usize, level| chunk.links(at, level).iter().collect();
            (0..5).flat_map(|at| (0..=at % 3).map(move |level| of(at, level))).collect()
        };
        for at in 0..5 {
            for level in 0..=at % 3 {
                (0..4).for_each(|link| chunk.add_link(at, level, link + 0x00ff_fff0));
            }
        }
        let mut expected = links(&chunk);
        chunk.remove_link(2, 1, 0x00ff_fff1);
        chunk.add_link(2, 1, 0x0100_0001);
        expected[4] = vec![0x00ff_fff0, 0x00ff_fff2, 0x00ff_fff3, 0x0100_0001];
        assert_eq!(links(&chunk), expected);
        let upper: usize = chunk.upper.iter().map(|(_, levels)| levels.len()).sum();
        assert_eq!((chunk.width, upper), (4, chunk.upper_bytes));
        assert_eq!(chunk.heads.capacity() * chunk.stride(0), chunk.links.capacity());
    }
}
