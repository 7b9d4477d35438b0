//! A set of named vectors, each with attributes.
//!
//! One lock: any number of searches read, and a writer finds the place of a new vector beside them;
//! only to link it does it stand alone, for some microseconds. A long search lets go of the lock
//! now and then ([`search`]). Writers come one at a time.

mod filtered;
pub mod image;
mod lock;
mod memo;
pub mod search;
#[cfg(test)]
mod tests;

use crate::graph::{CHUNK_LEN, Graph, place};
use crate::quantise::{Encoded, EncodedRef, Shape};
use lock::{RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bytes of an entry of a B-tree of names: a reference of 16, a number of 4, a share of the tree's
/// nodes, which are two thirds full.
const NAME_ENTRY_BYTES: usize = 32;

/// A set of vectors.
#[derive(Debug)]
pub struct VectorSet {
    shape: Shape,
    id: u64,
    inner: RwLock<Inner>,
    /// Bytes of all of it, as of the last change.
    bytes: AtomicUsize,
    len: AtomicUsize,
    memos: memo::Memos,
}

#[derive(Clone, Debug)]
struct Inner {
    graph: Graph,
    names: BTreeMap<Arc<[u8]>, u32>,
    /// By node, in chunks as the graph's.
    elements: Vec<Arc<Vec<Option<Element>>>>,
    element_bytes: usize,
    attributed: usize,
    /// How many vectors were ever inserted.
    inserted: u64,
}

/// What is at a node beside its vector.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    name: Arc<[u8]>,
    attributes: Option<Arc<[u8]>>,
}

/// What `VINFO` shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Info {
    /// What the vectors have in common.
    pub shape: Shape,
    /// Number of elements.
    pub len: usize,
    /// The highest level.
    pub top_level: usize,
    /// Elements with attributes.
    pub attributed: usize,
    /// A number that no other set of this process has.
    pub id: u64,
    /// How many vectors were ever inserted.
    pub inserted: u64,
}

/// A linked element: its name and the distance, 0 to 2.
pub type Linked = (Arc<[u8]>, f32);

impl Element {
    /// Bytes of its allocations, whose two counts lie before the text.
    fn bytes(&self) -> usize {
        let text = |text: &Arc<[u8]>| (2 * size_of::<usize>() + text.len()).next_multiple_of(8);
        text(&self.name) + self.attributes.as_ref().map_or(0, text)
    }
}

impl VectorSet {
    /// An empty set; its shape is [valid](Shape::is_valid). The seed decides the graph's levels.
    pub fn new(shape: Shape, seed: u64) -> Self {
        Self::with(Inner {
            graph: Graph::new(shape, seed),
            names: BTreeMap::new(),
            elements: Vec::new(),
            element_bytes: 0,
            attributed: 0,
            inserted: 0,
        })
    }

    fn with(inner: Inner) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let set = VectorSet {
            shape: *inner.graph.shape(),
            id: IDS.fetch_add(1, Relaxed),
            bytes: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            inner: RwLock::new(inner),
            memos: memo::Memos::default(),
        };
        set.count(&set.inner.read());
        set
    }

    fn count(&self, inner: &Inner) {
        self.bytes.store(inner.footprint(), Relaxed);
        self.len.store(inner.names.len(), Relaxed);
    }

    /// A copy that shares nothing.
    pub fn duplicate(&self) -> Self {
        Self::with(self.inner.read().clone().separated())
    }

    /// What all vectors have in common.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, as of the last change.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + self.bytes.load(Relaxed)
    }

    /// What there is to know of it.
    pub fn info(&self) -> Info {
        let inner = self.inner.read();
        Info {
            shape: self.shape,
            len: inner.names.len(),
            top_level: inner.graph.top_level(),
            attributed: inner.attributed,
            id: self.id,
            inserted: inner.inserted,
        }
    }

    /// Whether there is such an element.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.inner.read().names.contains_key(name)
    }

    /// Adds an element or replaces its vector; `ef` is how many neighbours are looked at for it.
    /// Attributes are kept if none are given; empty ones remove them. True if it is new; none, and
    /// nothing done, if the code is not of the set's shape or there are four billion elements.
    pub fn insert(
        &self,
        name: &[u8],
        vector: EncodedRef<'_>,
        attributes: Option<&[u8]>,
        ef: usize,
    ) -> Option<bool> {
        if vector.code.len() != self.shape.code_bytes() {
            return None;
        }
        let mut inner = self.inner.upgradable_read();
        if inner.graph.is_full() {
            return None;
        }
        let mut kept = None;
        let old = inner.names.get(name).copied();
        if let Some(node) = old {
            kept = inner.element(node).and_then(|element| element.attributes.clone());
            let mut writer = RwLockUpgradableReadGuard::upgrade(inner);
            writer.remove(name, node);
            self.memos.forget(node);
            inner = RwLockWriteGuard::downgrade_to_upgradable(writer);
        }
        let attributes = match attributes {
            Some(b"") => None,
            Some(given) => Some(given.into()),
            None => kept,
        };
        let plan = inner.graph.plan(&self.shape.query_of(vector), inner.graph.next_level(), ef);
        let mut inner = RwLockUpgradableReadGuard::upgrade(inner);
        let node = inner.graph.insert(vector, &plan);
        inner.put(node, Element { name: name.into(), attributes });
        self.memos.forget(node);
        self.count(&inner);
        Some(old.is_none())
    }

    /// Removes an element; false if there was none.
    pub fn remove(&self, name: &[u8]) -> bool {
        let mut inner = self.inner.write();
        let Some(&node) = inner.names.get(name) else { return false };
        inner.remove(name, node);
        self.memos.forget(node);
        self.count(&inner);
        true
    }

    /// Sets the attributes of an element, or removes them; false if there is no such element.
    pub fn set_attributes(&self, name: &[u8], attributes: Option<&[u8]>) -> bool {
        let mut inner = self.inner.write();
        let Some(&node) = inner.names.get(name) else { return false };
        if let Some(mut element) = inner.take(node) {
            element.attributes = attributes.map(Into::into);
            inner.place(node, element);
        }
        self.memos.forget(node);
        self.count(&inner);
        true
    }

    /// The attributes of an element; none if there is no such element, or it has none.
    pub fn attributes(&self, name: &[u8]) -> Option<Arc<[u8]>> {
        let inner = self.inner.read();
        let node = *inner.names.get(name)?;
        inner.element(node)?.attributes.clone()
    }

    /// The vector of an element.
    pub fn vector(&self, name: &[u8]) -> Option<Encoded> {
        let inner = self.inner.read();
        let node = *inner.names.get(name)?;
        Some(inner.graph.vector(node).to_owned())
    }

    /// What an element is linked to, by level, the highest first.
    pub fn links(&self, name: &[u8]) -> Option<Vec<Vec<Linked>>> {
        let inner = self.inner.read();
        let node = *inner.names.get(name)?;
        let query = self.shape.query_of(inner.graph.vector(node));
        let linked = |other: u32| {
            let name = inner.element(other)?.name.clone();
            Some((name, inner.graph.distance_fine(&query, other)))
        };
        let level = |level| inner.graph.links(node, level).iter().filter_map(linked).collect();
        Some((0..=inner.graph.level(node)).rev().map(level).collect())
    }

    /// Elements in the order of their names; at most `max` of them.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, max: usize) -> Vec<Arc<[u8]>> {
        let is_empty = match (from, to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
            | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
            _ => false,
        };
        if is_empty {
            return Vec::new();
        }
        let inner = self.inner.read();
        let range = inner.names.range::<[u8], _>((from, to));
        range.take(max).map(|(name, _)| name.clone()).collect()
    }

    /// An element by chance; `below` draws a number below the one it is given.
    pub fn random(&self, below: &mut dyn FnMut(u64) -> u64) -> Option<Arc<[u8]>> {
        let inner = self.inner.read();
        let node = inner.random(below)?;
        inner.element(node).map(|element| element.name.clone())
    }

    /// Different elements by chance, `count` of them or all, and the nodes that they are at.
    pub fn sample(&self, count: usize, below: &mut dyn FnMut(u64) -> u64) -> Vec<Arc<[u8]>> {
        let inner = self.inner.read();
        let count = count.min(inner.names.len());
        let name = |node: u32| inner.element(node).map(|element| element.name.clone());
        if count < inner.names.len() / 3 {
            let mut drawn = HashSet::with_capacity(count);
            while drawn.len() < count {
                let Some(node) = inner.random(below) else { break };
                drawn.insert(node);
            }
            return drawn.into_iter().filter_map(name).collect();
        }
        let mut nodes: Vec<u32> = inner.names.values().copied().collect();
        for at in 0..count {
            // Within `nodes`, whose length is at least `count`.
            let other = at + below((nodes.len() - at) as u64) as usize;
            nodes.swap(at, other);
        }
        nodes.truncate(count);
        nodes.into_iter().filter_map(name).collect()
    }

    /// Calls `each` with every element: name, vector, attributes.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], EncodedRef<'_>, Option<&[u8]>)) {
        let inner = self.inner.read();
        for &node in inner.names.values() {
            if let Some(element) = inner.element(node) {
                each(&element.name, inner.graph.vector(node), element.attributes.as_deref());
            }
        }
    }
}

impl Inner {
    /// Copies what a snapshot still shares.
    fn separated(mut self) -> Self {
        self.graph.separate();
        for chunk in &mut self.elements {
            let copies = chunk.iter().map(|element| element.as_ref().map(Element::copy));
            self.element_bytes -= chunk.capacity() * size_of::<Option<Element>>();
            *chunk = Arc::new(copies.collect());
            self.element_bytes += chunk.capacity() * size_of::<Option<Element>>();
        }
        self.names = self
            .names
            .values()
            .filter_map(|&node| self.element(node).map(|element| (element.name.clone(), node)))
            .collect();
        self
    }

    fn footprint(&self) -> usize {
        let of_chunk = size_of::<Vec<Option<Element>>>() + 2 * size_of::<usize>();
        size_of::<Self>()
            + self.graph.footprint()
            + self.names.len() * NAME_ENTRY_BYTES
            + self.elements.capacity() * size_of::<Arc<Vec<Option<Element>>>>()
            + self.elements.len() * of_chunk
            + self.element_bytes
    }

    fn element(&self, node: u32) -> Option<&Element> {
        let (chunk, at) = place(node);
        self.elements.get(chunk)?.get(at)?.as_ref()
    }

    /// Puts a new element at its node.
    fn put(&mut self, node: u32, element: Element) {
        self.inserted += 1;
        self.names.insert(element.name.clone(), node);
        self.place(node, element);
    }

    fn place(&mut self, node: u32, element: Element) {
        let (chunk, at) = place(node);
        while self.elements.len() <= chunk {
            self.elements.push(Arc::default());
        }
        self.attributed += usize::from(element.attributes.is_some());
        self.element_bytes += element.bytes();
        let before = self.elements[chunk].capacity();
        let elements = Arc::make_mut(&mut self.elements[chunk]);
        while elements.len() <= at {
            if elements.len() == elements.capacity() {
                let more = (elements.len() / 2).max(1).min(CHUNK_LEN - elements.len());
                elements.reserve_exact(more);
            }
            elements.push(None);
        }
        elements[at] = Some(element);
        // A copy has no room to spare.
        let of_one = size_of::<Option<Element>>();
        self.element_bytes = self.element_bytes + elements.capacity() * of_one - before * of_one;
    }

    fn take(&mut self, node: u32) -> Option<Element> {
        let (chunk, at) = place(node);
        let elements = self.elements.get_mut(chunk)?;
        let before = elements.capacity();
        let elements = Arc::make_mut(elements);
        let lost = before - elements.capacity();
        let element = elements.get_mut(at)?.take()?;
        // A copy has no room to spare.
        self.element_bytes -= lost * size_of::<Option<Element>>();
        self.element_bytes -= element.bytes();
        self.attributed -= usize::from(element.attributes.is_some());
        Some(element)
    }

    fn remove(&mut self, name: &[u8], node: u32) {
        self.names.remove(name);
        self.take(node);
        self.graph.remove(node);
    }

    fn random(&self, below: &mut dyn FnMut(u64) -> u64) -> Option<u32> {
        let end = self.graph.end();
        if self.names.is_empty() {
            return None;
        }
        // Where few numbers are nodes, the next one after a number that is none.
        let mut node = 0;
        for _ in 0..64 {
            node = below(u64::from(end)) as u32;
            if self.graph.contains(node) {
                return Some(node);
            }
        }
        (node..end).chain(0..node).find(|&node| self.graph.contains(node))
    }
}

impl Element {
    fn copy(&self) -> Self {
        let text = |text: &Arc<[u8]>| Arc::from(&text[..]);
        Element { name: text(&self.name), attributes: self.attributes.as_ref().map(text) }
    }
}
