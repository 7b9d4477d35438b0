//! Snapshots of a set, and loading of a set from one.
//!
//! A snapshot shares the chunks of the set; later changes copy the chunks that they touch.

use super::texts::{Element, Texts};
use super::{Inner, VectorSet};
use crate::graph::{Chunk, LEVELS_MAX, Links, link_limit, place};
use crate::quantise::{EncodedRef, Shape};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// State of a set when the snapshot was taken.
#[derive(Clone, Debug)]
pub struct Snapshot {
    shape: Shape,
    chunks: Vec<Arc<Chunk>>,
    texts: Vec<Arc<Texts>>,
    len: usize,
    has_attributes: bool,
}

/// An element of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotNode<'s> {
    snapshot: &'s Snapshot,
    node: u32,
    element: Element<'s>,
}

impl VectorSet {
    /// Takes a snapshot; costs some nanoseconds per thousand elements.
    pub fn snapshot(&self) -> Snapshot {
        let inner = self.inner.read();
        Snapshot {
            shape: self.shape,
            chunks: inner.graph.chunks().to_vec(),
            texts: inner.texts.clone(),
            len: inner.names.len(),
            has_attributes: inner.attributed > 0,
        }
    }
}

impl Snapshot {
    /// Properties that all vectors share.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the snapshot is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether any element has attributes.
    pub fn has_attributes(&self) -> bool {
        self.has_attributes
    }

    /// The elements at nodes from `at` on, so that they can be read in chunks.
    pub fn nodes_from(&self, at: u32) -> impl Iterator<Item = SnapshotNode<'_>> {
        let end = self.texts.len() * crate::graph::CHUNK_LEN;
        (at..end as u32).filter_map(|node| {
            let (chunk, at) = place(node);
            let element = self.texts[chunk].get(at)?;
            Some(SnapshotNode { snapshot: self, node, element })
        })
    }
}

impl<'s> SnapshotNode<'s> {
    /// Number of the node, from 0.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Name of the element.
    pub fn name(&self) -> &'s [u8] {
        self.element.name
    }

    /// Attributes of the element.
    pub fn attributes(&self) -> Option<&'s [u8]> {
        self.element.attributes
    }

    /// Vector of the element.
    pub fn vector(&self) -> EncodedRef<'s> {
        let (chunk, at) = place(self.node);
        self.snapshot.chunks[chunk].vector(at)
    }

    /// Highest level of the node.
    pub fn level(&self) -> usize {
        let (chunk, at) = place(self.node);
        self.snapshot.chunks[chunk].level(at)
    }

    /// Links of the node on a level.
    pub fn links(&self, level: usize) -> Links<'s> {
        let (chunk, at) = place(self.node);
        self.snapshot.chunks[chunk].links(at, level)
    }

    /// Distance and index of the farthest link; 0 and 0 if there are none.
    pub fn farthest(&self, level: usize) -> (f32, usize) {
        let shape = &self.snapshot.shape;
        let distance = |other: u32| {
            let (chunk, at) = place(other);
            shape.distance_between(self.vector(), self.snapshot.chunks[chunk].vector(at))
        };
        let distances = self.links(level).iter().map(distance).zip(0..);
        distances.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0))
    }

    /// Maximum number of links of the node on a level.
    pub fn link_limit(&self, level: usize) -> usize {
        link_limit(&self.snapshot.shape, level)
    }
}

/// Reason that a snapshot cannot be loaded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LoadError {
    /// Dimensions or links out of range.
    Shape,
    /// Two elements have the same name.
    DoubledName,
    /// Two elements have the same number.
    DoubledNumber,
    /// An element has the number 0.
    NumberZero,
    /// A code has not the length given by the shape.
    CodeLength,
    /// An element has no levels, or too many.
    Levels,
    /// An element has too many links.
    LinkCount,
    /// A link to a missing element, to one without that level, or to the element itself.
    LinkTarget,
    /// Two links to the same element.
    DoubledLink,
    /// A link without its reverse.
    OneWayLink,
    /// No elements.
    Empty,
    /// Too many elements for a set.
    TooMany,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoadError::Shape => "vector set: dimensions or links out of range",
            LoadError::DoubledName => "vector set: two elements have the same name",
            LoadError::DoubledNumber => "vector set: two elements have the same number",
            LoadError::NumberZero => "vector set: an element has the number 0",
            LoadError::CodeLength => "vector set: a vector has the wrong length",
            LoadError::Levels => "vector set: an element has no levels, or too many",
            LoadError::LinkCount => "vector set: an element has too many links",
            LoadError::LinkTarget => "vector set: a link leads nowhere",
            LoadError::DoubledLink => "vector set: a link is there twice",
            LoadError::OneWayLink => "vector set: a link does not lead back",
            LoadError::Empty => "vector set: there are no elements",
            LoadError::TooMany => "vector set: there are too many elements",
        })
    }
}

impl std::error::Error for LoadError {}

/// An element of a snapshot to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotItem<'a> {
    /// Number to which links refer; not 0.
    pub number: u64,
    /// Name of the element.
    pub name: &'a [u8],
    /// Attributes of the element.
    pub attributes: Option<&'a [u8]>,
    /// Vector of the element.
    pub vector: EncodedRef<'a>,
    /// Numbers of the linked elements by level, the lowest first.
    pub levels: &'a [Vec<u64>],
}

/// Builds a set from the elements of a snapshot. Memory grows with the data received, not with
/// announced sizes.
pub struct Loader {
    inner: Inner,
    numbers: HashMap<u64, u32>,
    /// For each element and level: number of links, and the links.
    links: Vec<u64>,
    nodes: Vec<(u32, usize)>,
}

impl Loader {
    /// Creates a loader.
    ///
    /// # Errors
    /// If the shape is not valid.
    pub fn new(shape: Shape, seed: u64) -> Result<Self, LoadError> {
        if !shape.is_valid() {
            return Err(LoadError::Shape);
        }
        let inner = Inner::new(shape, seed);
        Ok(Loader { inner, numbers: HashMap::new(), links: Vec::new(), nodes: Vec::new() })
    }

    /// Adds an element.
    ///
    /// # Errors
    /// If it does not fit the shape, or exists already.
    pub fn push(&mut self, item: &SnapshotItem<'_>) -> Result<(), LoadError> {
        let graph = &self.inner.graph;
        if item.vector.code.len() != graph.shape().code_bytes() {
            return Err(LoadError::CodeLength);
        }
        if item.number == 0 {
            return Err(LoadError::NumberZero);
        }
        if item.levels.is_empty() || item.levels.len() > LEVELS_MAX {
            return Err(LoadError::Levels);
        }
        let limits = (0..).map(|level| link_limit(graph.shape(), level));
        if item.levels.iter().zip(limits).any(|(links, limit)| links.len() > limit) {
            return Err(LoadError::LinkCount);
        }
        if graph.is_full() {
            return Err(LoadError::TooMany);
        }
        let Err(place) = self.inner.place_of(item.name) else {
            return Err(LoadError::DoubledName);
        };
        if self.numbers.contains_key(&item.number) {
            return Err(LoadError::DoubledNumber);
        }
        let node = self.inner.graph.insert_unlinked(item.vector, item.levels.len() - 1);
        self.numbers.insert(item.number, node);
        self.inner.put_at(place, node, item.name, item.attributes);
        for links in item.levels {
            self.links.push(links.len() as u64);
            self.links.extend(links);
        }
        self.nodes.push((node, item.levels.len()));
        Ok(())
    }

    /// Completes the set after all elements were added.
    ///
    /// # Errors
    /// If links do not go both ways or lead nowhere, or there are no elements.
    pub fn finish(self) -> Result<VectorSet, LoadError> {
        let Loader { mut inner, numbers, links, nodes } = self;
        if nodes.is_empty() {
            return Err(LoadError::Empty);
        }
        let mut links = links.into_iter();
        let mut sorted = SortedLinks::default();
        for &(node, levels) in &nodes {
            for level in 0..levels {
                let count = links.next().unwrap_or(0) as usize;
                let begin = sorted.links.len();
                for number in links.by_ref().take(count) {
                    let other = *numbers.get(&number).ok_or(LoadError::LinkTarget)?;
                    if other == node || inner.graph.level(other) < level {
                        return Err(LoadError::LinkTarget);
                    }
                    sorted.links.push(other);
                }
                if !inner.graph.set_links(node, level, &sorted.links[begin..]) {
                    return Err(LoadError::LinkCount);
                }
                sorted.end_level(begin)?;
            }
            sorted.end_node(node, levels);
        }
        if !sorted.all_bidirectional() {
            return Err(LoadError::OneWayLink);
        }
        Ok(VectorSet::with(inner))
    }
}

/// Links of all nodes, sorted for each node and level.
#[derive(Default)]
struct SortedLinks {
    links: Vec<u32>,
    /// Ends of the links of each level of each node.
    ends: Vec<usize>,
    /// Each node, the index of its first level in `ends`, and its number of levels.
    nodes: Vec<(u32, usize, usize)>,
}

impl SortedLinks {
    /// Ends the current node's next level, which has the links from `begin` on.
    fn end_level(&mut self, begin: usize) -> Result<(), LoadError> {
        let links = &mut self.links[begin..];
        links.sort_unstable();
        if links.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(LoadError::DoubledLink);
        }
        self.ends.push(self.links.len());
        Ok(())
    }

    fn end_node(&mut self, node: u32, levels: usize) {
        self.nodes.push((node, self.ends.len() - levels, levels));
    }

    /// Whether every link has its reverse. Nodes are visited in ascending order, and each is the
    /// next unmatched link of its neighbours: one step for each link.
    fn all_bidirectional(&mut self) -> bool {
        self.nodes.sort_unstable();
        let end = self.nodes.last().map_or(0, |&(node, ..)| node as usize + 1);
        let mut firsts = vec![0; end];
        self.nodes.iter().for_each(|&(node, first, _)| firsts[node as usize] = first);
        let begin = |place: usize| if place == 0 { 0 } else { self.ends[place - 1] };
        let mut next: Vec<usize> = (0..self.ends.len()).map(begin).collect();
        self.nodes.iter().all(|&(node, first, levels)| {
            (0..levels).all(|level| {
                self.links[begin(first + level)..self.ends[first + level]].iter().all(|&other| {
                    // The target has that level.
                    let place = firsts[other as usize] + level;
                    let is_next = next[place] < self.ends[place] && self.links[next[place]] == node;
                    next[place] += 1;
                    is_next
                })
            })
        })
    }
}
