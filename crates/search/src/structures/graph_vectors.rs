//! Vectors of rows as nodes of a graph (HNSW).
//!
//! ```text
//! row -> node: column     node -> row: list     node -> links and 32-bit vector: graph
//!                                               node -> vector of another format: blocks
//! ```
//!
//! A node stays where it is when its document moves to another row.

use crate::structures::column::Column;
use petrel_vector::{
    Element, Encoded, EncodedRef, Factors, Graph, Plan, Quantisation, Query, Shape,
};
use std::mem::size_of;

/// Row of a number that is no node.
const NO_ROW: u32 = u32::MAX;

/// Nodes of a block of vectors.
const BLOCK_LEN: usize = 256;

/// Bounds of the number of links of a node.
const LINKS_MIN: u64 = 4;
const LINKS_MAX: u64 = 512;

/// Bound of the candidates for links of a new node.
const CANDIDATES_MAX: u64 = 4096;

/// Vectors of equal length by row, linked with their neighbours.
#[derive(Debug)]
pub struct GraphVectors {
    element: Element,
    /// Bytes of a vector.
    len: usize,
    graph: Graph,
    /// Number of candidates for links of a new node.
    candidates: usize,
    /// Node of each row plus one; 0 if there is none.
    nodes: Column<u32>,
    /// Row of each node.
    rows: Vec<u32>,
    /// Vectors by node, if the graph has them in another format.
    blocks: Vec<Box<[u8]>>,
    /// Links of vectors that are about to be inserted.
    plans: Vec<Planned>,
}

/// Links of a vector that is about to be inserted.
#[derive(Debug)]
pub struct Planned {
    vector: Box<[u8]>,
    plan: Plan,
}

/// Options of a graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphOptions {
    /// Format of a component.
    pub element: Element,
    /// Number of components.
    pub dim: u32,
    /// Whether distances are squares of Euclidean ones, else 1 minus the product.
    pub is_square: bool,
    /// Number of links of a node on upper levels.
    pub links: u64,
    /// Number of candidates for links of a new node.
    pub candidates: u64,
}

/// A mixture of a vector's bytes.
fn number_of(vector: &[u8]) -> u64 {
    let words = vector.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(0, |mixed: u64, word| {
        (mixed.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

impl GraphVectors {
    /// No vectors.
    pub fn new(options: &GraphOptions) -> Self {
        let links = options.links.clamp(LINKS_MIN, LINKS_MAX) as u16;
        let quantisation = match options.is_square {
            true => Quantisation::Squares,
            false => Quantisation::Products,
        };
        let shape = Shape { dim: options.dim, quantisation, links, input_dim: None, seed: 0 };
        GraphVectors {
            element: options.element,
            len: options.dim as usize * options.element.bytes(),
            graph: Graph::new(shape, 0),
            candidates: options.candidates.clamp(1, CANDIDATES_MAX) as usize,
            nodes: Column::default(),
            rows: Vec::new(),
            blocks: Vec::new(),
            plans: Vec::new(),
        }
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Row of a node.
    #[inline]
    pub fn row(&self, node: u32) -> Option<u32> {
        self.rows.get(node as usize).copied().filter(|&row| row != NO_ROW)
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.graph.len()
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.graph.is_empty()
    }

    fn node(&self, row: u32) -> Option<u32> {
        self.nodes.get(row)?.checked_sub(1)
    }

    /// The vector of a row.
    #[inline]
    pub fn get(&self, row: u32) -> Option<&[u8]> {
        let node = self.node(row)?;
        if self.element == Element::F32 {
            return Some(self.graph.vector(node).code);
        }
        let (block, at) = (node as usize / BLOCK_LEN, node as usize % BLOCK_LEN * self.len);
        self.blocks.get(block)?.get(at..at + self.len)
    }

    /// A vector as the graph compares it.
    pub fn query(&self, vector: &[u8]) -> Query {
        self.graph.shape().query_of(self.encoded(vector).as_ref())
    }

    fn encoded(&self, vector: &[u8]) -> Encoded {
        let code = match self.element {
            Element::F32 => vector.into(),
            _ => self.element.floats(vector).iter().flat_map(|x| x.to_le_bytes()).collect(),
        };
        Encoded { code, factors: Factors { norm: 1.0, range: 0.0 } }
    }

    /// Finds the links of a vector that is about to be set for a row.
    pub fn plan(&self, vector: &[u8]) -> Planned {
        let level = self.graph.level_of(number_of(vector));
        let query = self.query(vector);
        let plan = self.graph.plan(&query, (level, None), self.candidates, &mut |_| true);
        Planned { vector: vector.into(), plan: plan.unwrap_or_default() }
    }

    /// Whether a row has this vector already.
    pub fn has(&self, row: u32, vector: &[u8]) -> bool {
        self.get(row).is_some_and(|own| own == vector)
    }

    /// Takes links of a vector that is about to be set; none to forget unused ones.
    pub fn expect(&mut self, planned: Option<Planned>) {
        match planned {
            Some(planned) => self.plans.push(planned),
            None => self.plans = Vec::new(),
        }
    }

    /// Sets the vector of a row; false if there are as many as can be.
    pub fn set(&mut self, row: u32, vector: &[u8]) -> bool {
        debug_assert_eq!(vector.len(), self.len);
        let known = self.plans.iter().position(|planned| *planned.vector == *vector);
        let known = known.map(|at| self.plans.swap_remove(at).plan);
        if self.has(row, vector) {
            return true;
        }
        self.remove(row);
        if self.graph.is_full() {
            return false;
        }
        let encoded = self.encoded(vector);
        let query = self.graph.shape().query_of(encoded.as_ref());
        let mut plan = known.unwrap_or_default();
        if !self.graph.adapt(&query, &mut plan) {
            plan = self.plan(vector).plan;
        }
        let node = self.insert(encoded.as_ref(), &plan);
        if self.element != Element::F32 {
            self.keep(node, vector);
        }
        *self.nodes.get_mut(row) = node + 1;
        self.rows[node as usize] = row;
        true
    }

    fn insert(&mut self, vector: EncodedRef<'_>, plan: &Plan) -> u32 {
        let node = self.graph.insert(vector, plan);
        if self.rows.len() <= node as usize {
            self.rows.resize(node as usize + 1, NO_ROW);
        }
        node
    }

    fn keep(&mut self, node: u32, vector: &[u8]) {
        let (block, at) = (node as usize / BLOCK_LEN, node as usize % BLOCK_LEN * self.len);
        while self.blocks.len() <= block {
            self.blocks.push(vec![0; BLOCK_LEN * self.len].into());
        }
        self.blocks[block][at..at + self.len].copy_from_slice(vector);
    }

    /// Removes the vector of a row; returns whether there was one.
    pub fn remove(&mut self, row: u32) -> bool {
        let Some(node) = self.node(row) else { return false };
        *self.nodes.get_mut(row) = 0;
        self.rows[node as usize] = NO_ROW;
        self.graph.remove(node);
        true
    }

    /// Moves the vector of a row to a row without one.
    pub fn rename(&mut self, row: u32, new: u32) {
        let Some(node) = self.node(row) else { return };
        *self.nodes.get_mut(row) = 0;
        *self.nodes.get_mut(new) = node + 1;
        self.rows[node as usize] = new;
    }

    /// Frees a page of rows that will not be used again.
    pub fn drop_page(&mut self, page: usize) {
        self.nodes.drop_page(page);
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.graph.footprint()
            + self.nodes.footprint()
            + self.rows.capacity() * size_of::<u32>()
            + self.blocks.capacity() * size_of::<Box<[u8]>>()
            + self.blocks.len() * BLOCK_LEN * self.len
    }
}
