//! Nodes side by side: what a search reads of each lies in arrays.
//!
//! ```text
//! codes    | code | code | code | ...          as long as the shape says
//! factors  | norm, range | ...
//! links    | n, a, b, c, ... | n, a, b, ... |  level 0: a count and room for the most links
//! heads    | generation, level or FREE | ...
//! upper    levels 1 and up, of the few nodes that have them
//! ```

use super::link_limit;
use crate::quantise::{EncodedRef, Factors, Shape};

/// Nodes of a chunk.
pub const CHUNK_LEN: usize = 1024;

/// Instead of a level: the number is no node.
const FREE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
struct Head {
    generation: u32,
    level: u8,
}

/// At most [`CHUNK_LEN`] nodes.
#[derive(Clone, Debug)]
pub struct Chunk {
    code_bytes: usize,
    /// Words of a node's links on level 0, and on each other.
    strides: [usize; 2],
    codes: Vec<u8>,
    factors: Vec<Factors>,
    links: Vec<u32>,
    heads: Vec<Head>,
    upper: Vec<Box<[u32]>>,
    /// Bytes of `upper`'s allocations.
    upper_bytes: usize,
}

impl Chunk {
    pub fn new(shape: &Shape) -> Self {
        Chunk {
            code_bytes: shape.code_bytes(),
            strides: [link_limit(shape, 0) + 1, link_limit(shape, 1) + 1],
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
            + self.links.capacity() * size_of::<u32>()
            + self.heads.capacity() * size_of::<Head>()
            + self.upper.capacity() * size_of::<Box<[u32]>>()
            + self.upper_bytes
    }

    #[inline]
    pub fn is_node(&self, at: usize) -> bool {
        self.heads.get(at).is_some_and(|head| head.level != FREE)
    }

    #[inline]
    pub fn generation(&self, at: usize) -> u32 {
        self.heads[at].generation
    }

    #[inline]
    pub fn level(&self, at: usize) -> usize {
        usize::from(self.heads[at].level)
    }

    #[inline]
    pub fn vector(&self, at: usize) -> EncodedRef<'_> {
        let from = at * self.code_bytes;
        EncodedRef { code: &self.codes[from..from + self.code_bytes], factors: self.factors[at] }
    }

    #[inline]
    pub fn links(&self, at: usize, level: usize) -> &[u32] {
        let words = match level.checked_sub(1) {
            None => &self.links[at * self.strides[0]..],
            Some(upper) => &self.upper[at][upper * self.strides[1]..],
        };
        &words[1..1 + words[0] as usize]
    }

    fn words_mut(&mut self, at: usize, level: usize) -> &mut [u32] {
        let [lowest, other] = self.strides;
        match level.checked_sub(1) {
            None => &mut self.links[at * lowest..(at + 1) * lowest],
            Some(upper) => &mut self.upper[at][upper * other..(upper + 1) * other],
        }
    }

    pub fn add_link(&mut self, at: usize, level: usize, to: u32) {
        let words = self.words_mut(at, level);
        words[0] += 1;
        words[words[0] as usize] = to;
    }

    pub fn remove_link(&mut self, at: usize, level: usize, to: u32) {
        let words = self.words_mut(at, level);
        let len = words[0] as usize;
        if let Some(index) = words[1..=len].iter().position(|&link| link == to) {
            words.copy_within(index + 2..=len, index + 1);
            words[0] -= 1;
        }
    }

    /// Makes a node of a number that was one before.
    pub fn occupy(&mut self, at: usize, vector: EncodedRef<'_>, level: usize) {
        let from = at * self.code_bytes;
        self.codes[from..from + self.code_bytes].copy_from_slice(vector.code);
        self.factors[at] = vector.factors;
        self.words_mut(at, 0)[0] = 0;
        self.heads[at].level = level as u8;
        self.set_upper(at, level);
    }

    /// Makes a node of the next number.
    pub fn push(&mut self, vector: EncodedRef<'_>, level: usize) {
        self.grow();
        self.codes.extend_from_slice(vector.code);
        self.factors.push(vector.factors);
        self.links.resize(self.links.len() + self.strides[0], 0);
        self.heads.push(Head { generation: 0, level: level as u8 });
        self.upper.push(Box::default());
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
        self.links.reserve_exact(more * self.strides[0]);
        self.heads.reserve_exact(more);
        self.upper.reserve_exact(more);
    }

    fn set_upper(&mut self, at: usize, levels: usize) {
        self.upper_bytes -= size_of_val::<[u32]>(&self.upper[at]);
        self.upper[at] = vec![0; levels * self.strides[1]].into();
        self.upper_bytes += size_of_val::<[u32]>(&self.upper[at]);
    }

    /// The number is no node from now on; it has no links.
    pub fn free(&mut self, at: usize) {
        self.set_upper(at, 0);
        let head = &mut self.heads[at];
        (head.generation, head.level) = (head.generation.wrapping_add(1), FREE);
    }
}
