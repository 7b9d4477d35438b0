//! HNSW graph over codes: nodes are numbers, links go both ways.
//!
//! ```text
//! level 2            5 ───────── 9          entry: a node of the highest level
//! level 1      2 ─── 5 ─── 7 ─── 9
//! level 0   0─1─2─3──5──6──7──8──9─10 ...   all nodes
//! ```
//!
//! A node has at most [`Shape::links`] links on a level, twice as many on level 0. Nodes are in
//! chunks ([`chunk`]) that snapshots share: a change copies a shared chunk. The graph has no locks;
//! [`crate::VectorSet`] has.

mod chunk;
mod insert;
mod links;
mod remove;
mod search;
#[cfg(test)]
mod tests;

pub use insert::Plan;
pub use links::Links;
pub use search::{Near, Walk};

use crate::quantise::{EncodedRef, Query, Shape};
pub(crate) use chunk::{CHUNK_LEN, Chunk};
use std::sync::Arc;

/// Maximum number of levels.
pub const LEVELS_MAX: usize = 16;

/// Maximum number of links of a node on a level.
pub fn link_limit(shape: &Shape, level: usize) -> usize {
    let links = usize::from(shape.links);
    if level == 0 { links * 2 } else { links }
}

/// A graph over the codes of a set.
#[derive(Clone, Debug)]
pub struct Graph {
    shape: Shape,
    chunks: Vec<Arc<Chunk>>,
    /// Numbers below the highest ever used that are not nodes.
    free: Vec<u32>,
    /// Entry point of searches: a node of the highest level.
    entry: Option<u32>,
    /// By level: number of nodes with this highest level.
    level_lens: [u32; LEVELS_MAX],
    len: u32,
    /// Bytes of the chunks.
    chunk_bytes: usize,
    /// Incremented by each change, so that a search that releases the lock detects changes.
    changes: u64,
    /// State of the generator of random levels.
    random: u64,
}

impl Graph {
    /// Creates an empty graph; the seed determines the levels of its nodes.
    pub fn new(shape: Shape, seed: u64) -> Self {
        Graph {
            shape,
            chunks: Vec::new(),
            free: Vec::new(),
            entry: None,
            level_lens: [0; LEVELS_MAX],
            len: 0,
            chunk_bytes: 0,
            changes: 0,
            random: seed,
        }
    }

    /// Properties that all its vectors share.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Exclusive upper bound of node numbers.
    pub fn end(&self) -> u32 {
        let last = self.chunks.last().map_or(0, |chunk| chunk.len());
        (self.chunks.len().saturating_sub(1) * CHUNK_LEN + last) as u32
    }

    /// The highest level of a node; 0 if there is none.
    pub fn top_level(&self) -> usize {
        self.entry.map_or(0, |entry| self.level(entry))
    }

    /// Counter incremented by each change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Bytes of memory.
    pub fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.chunk_bytes
            + self.chunks.capacity() * size_of::<Arc<Chunk>>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// Whether the number is a node.
    #[inline]
    pub fn contains(&self, node: u32) -> bool {
        let (chunk, at) = place(node);
        self.chunks.get(chunk).is_some_and(|chunk| chunk.is_node(at))
    }

    /// Number of times that the number was assigned: distinguishes a node from an earlier one.
    #[inline]
    pub fn generation(&self, node: u32) -> u32 {
        let (chunk, at) = place(node);
        self.chunks[chunk].generation(at)
    }

    /// The highest level of a node.
    #[inline]
    pub fn level(&self, node: u32) -> usize {
        let (chunk, at) = place(node);
        self.chunks[chunk].level(at)
    }

    /// The vector of a node.
    #[inline]
    pub fn vector(&self, node: u32) -> EncodedRef<'_> {
        let (chunk, at) = place(node);
        self.chunks[chunk].vector(at)
    }

    /// The links of a node on a level, at most its highest.
    #[inline]
    pub fn links(&self, node: u32, level: usize) -> Links<'_> {
        let (chunk, at) = place(node);
        self.chunks[chunk].links(at, level)
    }

    /// Prefetches the part of a node's vector that a walk reads.
    #[inline]
    fn prefetch_vector(&self, node: u32) {
        let (chunk, at) = place(node);
        self.chunks[chunk].prefetch_vector(at);
    }

    /// Prefetches the remaining part of a node's vector.
    #[inline]
    fn prefetch_rest(&self, node: u32) {
        let (chunk, at) = place(node);
        self.chunks[chunk].prefetch_rest(at);
    }

    /// Prefetches the links of a node on level 0.
    #[inline]
    fn prefetch_links(&self, node: u32) {
        let (chunk, at) = place(node);
        self.chunks[chunk].prefetch_links(at);
    }

    /// Distance of two nodes; NaN counts as the greatest distance.
    #[inline]
    pub(crate) fn distance(&self, a: u32, b: u32) -> f32 {
        number(self.shape.distance_between(self.vector(a), self.vector(b)))
    }

    #[inline]
    pub(crate) fn distance_to(&self, query: &Query, node: u32) -> f32 {
        number(self.shape.distance(query, self.vector(node)))
    }

    #[inline]
    pub(crate) fn distance_fine(&self, query: &Query, node: u32) -> f32 {
        number(self.shape.distance_fine(query, self.vector(node)))
    }

    pub(crate) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// Changes the chunk of a node, or a copy if a snapshot shares it, and accounts for its growth.
    fn change<T>(&mut self, node: u32, change: impl FnOnce(&mut Chunk, usize) -> T) -> T {
        let (chunk, at) = place(node);
        let before = self.chunks[chunk].footprint();
        let chunk = Arc::make_mut(&mut self.chunks[chunk]);
        let result = change(chunk, at);
        self.chunk_bytes = self.chunk_bytes + chunk.footprint() - before;
        result
    }

    /// Links two nodes both ways; both have room.
    fn link(&mut self, a: u32, b: u32, level: usize) {
        debug_assert!(a != b && !self.links(a, level).contains(b));
        self.change(a, |chunk, at| chunk.add_link(at, level, b));
        self.change(b, |chunk, at| chunk.add_link(at, level, a));
    }

    /// Removes a link, both ways.
    fn unlink(&mut self, a: u32, b: u32, level: usize) {
        self.change(a, |chunk, at| chunk.remove_link(at, level, b));
        self.change(b, |chunk, at| chunk.remove_link(at, level, a));
    }

    #[inline]
    fn has_room(&self, node: u32, level: usize) -> bool {
        self.links(node, level).len() < link_limit(&self.shape, level)
    }

    /// Turns a free number into a node without links.
    fn occupy(&mut self, vector: EncodedRef<'_>, level: usize) -> u32 {
        self.random = self.random.wrapping_add(RANDOM_STEP);
        self.changes += 1;
        self.len += 1;
        self.level_lens[level] += 1;
        let shape = self.shape;
        if let Some(node) = self.free.pop() {
            self.change(node, |chunk, at| chunk.occupy(at, vector, level));
            return node;
        }
        let node = self.end();
        if (node as usize).is_multiple_of(CHUNK_LEN) {
            let chunk = Chunk::new(&shape, node);
            self.chunk_bytes += chunk.footprint();
            self.chunks.push(Arc::new(chunk));
        }
        self.change(node, |chunk, _| chunk.push(vector, level));
        node
    }

    /// Whether the maximum number of nodes is reached.
    pub fn is_full(&self) -> bool {
        self.free.is_empty() && self.end() >= u32::MAX - 1
    }

    /// Level of the next inserted node: each level is less frequent than the one below by the
    /// number of links per node, at most 16.
    pub fn next_level(&self) -> usize {
        self.level_of(self.random.wrapping_add(RANDOM_STEP))
    }

    /// Level of a node by a number, which need not be random: it is mixed.
    pub fn level_of(&self, number: u64) -> usize {
        let rarer = u64::from(self.shape.links.min(16)).next_power_of_two();
        let mut drawn = mix(number);
        let mut level = 0;
        while level + 1 < LEVELS_MAX && drawn.is_multiple_of(rarer) {
            level += 1;
            drawn /= rarer;
        }
        level
    }

    /// Copies chunks that are shared with a snapshot.
    pub(crate) fn unshare(&mut self) {
        for chunk in &mut self.chunks {
            *chunk = Arc::new(Chunk::clone(chunk));
        }
        self.chunk_bytes = self.chunks.iter().map(|chunk| chunk.footprint()).sum();
    }
}

/// Increment of splitmix64's state.
const RANDOM_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Output function of splitmix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The greatest possible distance.
const FARTHEST: f32 = 2.0;

#[inline]
fn number(distance: f32) -> f32 {
    if distance.is_nan() { FARTHEST } else { distance }
}

#[inline]
pub(crate) fn place(node: u32) -> (usize, usize) {
    (node as usize / CHUNK_LEN, node as usize % CHUNK_LEN)
}
