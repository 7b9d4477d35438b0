//! A set as it was at one moment, and a set from an image.
//!
//! A snapshot shares the chunks of the set; changes after it copy those that they touch.

use super::texts::{Element, Texts};
use super::{Inner, VectorSet};
use crate::graph::{Chunk, LEVELS_MAX, Links, link_limit, place};
use crate::quantise::{EncodedRef, Shape};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What a set was when the snapshot was taken.
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
    /// What the set is now; it takes some nanoseconds for each thousand elements.
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
    /// What the vectors have in common.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether any has attributes.
    pub fn has_attributes(&self) -> bool {
        self.has_attributes
    }

    /// All of them, in portions: those at nodes from `at` on.
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
    /// Its number, from 0.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Its name.
    pub fn name(&self) -> &'s [u8] {
        self.element.name
    }

    /// Its attributes.
    pub fn attributes(&self) -> Option<&'s [u8]> {
        self.element.attributes
    }

    /// Its vector.
    pub fn vector(&self) -> EncodedRef<'s> {
        let (chunk, at) = place(self.node);
        self.snapshot.chunks[chunk].vector(at)
    }

    /// Its highest level.
    pub fn level(&self) -> usize {
        let (chunk, at) = place(self.node);
        self.snapshot.chunks[chunk].level(at)
    }

    /// Its links on a level.
    pub fn links(&self, level: usize) -> Links<'s> {
        let (chunk, at) = place(self.node);
        self.snapshot.chunks[chunk].links(at, level)
    }

    /// The farthest of them: its distance and its place among them; 0 and 0 if there are none.
    pub fn farthest(&self, level: usize) -> (f32, usize) {
        let shape = &self.snapshot.shape;
        let distance = |other: u32| {
            let (chunk, at) = place(other);
            shape.distance_between(self.vector(), self.snapshot.chunks[chunk].vector(at))
        };
        let distances = self.links(level).iter().map(distance).zip(0..);
        distances.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0))
    }

    /// Most links that it may have on a level.
    pub fn link_limit(&self, level: usize) -> usize {
        link_limit(&self.snapshot.shape, level)
    }
}

/// Why an image is no set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ImageError {
    /// Dimensions or links out of range.
    Shape,
    /// Two elements of one name.
    DoubledName,
    /// Two elements of one number.
    DoubledNumber,
    /// An element whose number is 0.
    NumberZero,
    /// A code that is longer or shorter than the shape says.
    CodeLength,
    /// An element with no levels, or too many.
    Levels,
    /// More links than there may be.
    LinkCount,
    /// A link to what is not there, not on that level, or the element itself.
    LinkTarget,
    /// Two links to one element.
    DoubledLink,
    /// A link that does not lead back.
    OneWayLink,
    /// No element.
    Empty,
    /// More elements than a set may have.
    TooMany,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageError::Shape => "vector set: dimensions or links out of range",
            ImageError::DoubledName => "vector set: two elements have the same name",
            ImageError::DoubledNumber => "vector set: two elements have the same number",
            ImageError::NumberZero => "vector set: an element has the number 0",
            ImageError::CodeLength => "vector set: a vector has the wrong length",
            ImageError::Levels => "vector set: an element has no levels, or too many",
            ImageError::LinkCount => "vector set: an element has too many links",
            ImageError::LinkTarget => "vector set: a link leads nowhere",
            ImageError::DoubledLink => "vector set: a link is there twice",
            ImageError::OneWayLink => "vector set: a link does not lead back",
            ImageError::Empty => "vector set: there are no elements",
            ImageError::TooMany => "vector set: there are too many elements",
        })
    }
}

impl std::error::Error for ImageError {}

/// An element of an image.
#[derive(Clone, Copy, Debug)]
pub struct NodeImage<'a> {
    /// Its number, by which links refer to it; not 0.
    pub number: u64,
    /// Its name.
    pub name: &'a [u8],
    /// Its attributes.
    pub attributes: Option<&'a [u8]>,
    /// Its vector.
    pub vector: EncodedRef<'a>,
    /// The numbers of what it is linked to: by level, the lowest first.
    pub levels: &'a [Vec<u64>],
}

/// Makes a set of the elements of an image. Memory grows with what was given, not with what an
/// image claims to hold.
pub struct Loader {
    inner: Inner,
    numbers: HashMap<u64, u32>,
    /// Number of links and the links, level by level, element by element.
    links: Vec<u64>,
    nodes: Vec<(u32, usize)>,
}

impl Loader {
    /// Begins a set.
    ///
    /// # Errors
    /// If the shape is not valid.
    pub fn new(shape: Shape, seed: u64) -> Result<Self, ImageError> {
        if !shape.is_valid() {
            return Err(ImageError::Shape);
        }
        let inner = Inner::new(shape, seed);
        Ok(Loader { inner, numbers: HashMap::new(), links: Vec::new(), nodes: Vec::new() })
    }

    /// Takes an element.
    ///
    /// # Errors
    /// If it does not fit the shape, or is there already.
    pub fn push(&mut self, image: &NodeImage<'_>) -> Result<(), ImageError> {
        let graph = &self.inner.graph;
        if image.vector.code.len() != graph.shape().code_bytes() {
            return Err(ImageError::CodeLength);
        }
        if image.number == 0 {
            return Err(ImageError::NumberZero);
        }
        if image.levels.is_empty() || image.levels.len() > LEVELS_MAX {
            return Err(ImageError::Levels);
        }
        let limits = (0..).map(|level| link_limit(graph.shape(), level));
        if image.levels.iter().zip(limits).any(|(links, limit)| links.len() > limit) {
            return Err(ImageError::LinkCount);
        }
        if graph.is_full() {
            return Err(ImageError::TooMany);
        }
        let Err(place) = self.inner.place_of(image.name) else {
            return Err(ImageError::DoubledName);
        };
        if self.numbers.contains_key(&image.number) {
            return Err(ImageError::DoubledNumber);
        }
        let node = self.inner.graph.insert_unlinked(image.vector, image.levels.len() - 1);
        self.numbers.insert(image.number, node);
        self.inner.put_at(place, node, image.name, image.attributes);
        for links in image.levels {
            self.links.push(links.len() as u64);
            self.links.extend(links);
        }
        self.nodes.push((node, image.levels.len()));
        Ok(())
    }

    /// The set, when all elements were given.
    ///
    /// # Errors
    /// If links do not go both ways, or lead nowhere, or there is no element.
    pub fn finish(self) -> Result<VectorSet, ImageError> {
        let Loader { mut inner, numbers, links, nodes } = self;
        if nodes.is_empty() {
            return Err(ImageError::Empty);
        }
        let mut links = links.into_iter();
        let mut sorted = SortedLinks::default();
        for &(node, levels) in &nodes {
            for level in 0..levels {
                let count = links.next().unwrap_or(0) as usize;
                let begin = sorted.links.len();
                for number in links.by_ref().take(count) {
                    let other = *numbers.get(&number).ok_or(ImageError::LinkTarget)?;
                    if other == node || inner.graph.level(other) < level {
                        return Err(ImageError::LinkTarget);
                    }
                    sorted.links.push(other);
                }
                if !inner.graph.set_links(node, level, &sorted.links[begin..]) {
                    return Err(ImageError::LinkCount);
                }
                sorted.end_level(begin)?;
            }
            sorted.end_node(node, levels);
        }
        if !sorted.all_lead_back() {
            return Err(ImageError::OneWayLink);
        }
        Ok(VectorSet::with(inner))
    }
}

/// The links of all nodes, those of a node on a level in ascending order.
#[derive(Default)]
struct SortedLinks {
    links: Vec<u32>,
    /// Ends of the links of each level of each node.
    ends: Vec<usize>,
    /// Each node with its first level, by its place in `ends`, and how many levels it has.
    nodes: Vec<(u32, usize, usize)>,
}

impl SortedLinks {
    /// The links from `begin` on are those of the next level of the current node.
    fn end_level(&mut self, begin: usize) -> Result<(), ImageError> {
        let links = &mut self.links[begin..];
        links.sort_unstable();
        if links.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(ImageError::DoubledLink);
        }
        self.ends.push(self.links.len());
        Ok(())
    }

    fn end_node(&mut self, node: u32, levels: usize) {
        self.nodes.push((node, self.ends.len() - levels, levels));
    }

    /// Whether every link leads back. Nodes are visited in ascending order, and each is the next
    /// one among the links of its neighbours: one step for each link.
    fn all_lead_back(&mut self) -> bool {
        self.nodes.sort_unstable();
        let end = self.nodes.last().map_or(0, |&(node, ..)| node as usize + 1);
        let mut firsts = vec![0; end];
        self.nodes.iter().for_each(|&(node, first, _)| firsts[node as usize] = first);
        let begin = |place: usize| if place == 0 { 0 } else { self.ends[place - 1] };
        let mut next: Vec<usize> = (0..self.ends.len()).map(begin).collect();
        self.nodes.iter().all(|&(node, first, levels)| {
            (0..levels).all(|level| {
                self.links[begin(first + level)..self.ends[first + level]].iter().all(|&other| {
                    // Its target has that level.
                    let place = firsts[other as usize] + level;
                    let is_next = next[place] < self.ends[place] && self.links[next[place]] == node;
                    next[place] += 1;
                    is_next
                })
            })
        })
    }
}
