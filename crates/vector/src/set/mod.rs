//! A set of named vectors, each with attributes.
//!
//! A reader-writer lock guards the set. Any number of searches read, and a writer plans the links
//! of a new vector beside them; it is exclusive only while linking, for some microseconds. Long
//! searches release the lock regularly ([`search`]). Writers run one at a time.

mod filtered;
mod lock;
mod memo;
mod names;
pub mod search;
pub mod snapshot;
#[cfg(test)]
mod tests;
mod texts;

use crate::GoOn;
use crate::graph::{Graph, place};
use crate::quantise::{Encoded, EncodedRef, Shape};
use lock::{RwLock, RwLockUpgradableReadGuard};
use names::{Names, Place};
use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use texts::{Element, Texts};

/// A set of vectors.
#[derive(Debug)]
pub struct VectorSet {
    shape: Shape,
    id: u64,
    inner: RwLock<Inner>,
    /// Memory in bytes, as of the last change.
    bytes: AtomicUsize,
    len: AtomicUsize,
    memos: memo::Memos,
}

#[derive(Clone, Debug)]
struct Inner {
    graph: Graph,
    names: Names,
    /// By node, in chunks like the graph's.
    texts: Vec<Arc<Texts>>,
    /// Bytes of `texts`.
    text_bytes: usize,
    attributed: usize,
    /// Number of vectors ever inserted.
    inserted: u64,
}

/// Properties shown by `VINFO`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Info {
    /// Properties that all vectors share.
    pub shape: Shape,
    /// Number of elements.
    pub len: usize,
    /// The highest level.
    pub top_level: usize,
    /// Elements with attributes.
    pub attributed: usize,
    /// Number that is unique within this process.
    pub id: u64,
    /// Number of vectors ever inserted.
    pub inserted: u64,
}

/// Reason that an element was not added.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotInserted {
    /// The code does not have the set's shape.
    WrongShape,
    /// The set has the maximum number of elements.
    Full,
    /// The caller has stopped it.
    Ended,
}

/// A linked element: its name and the distance, 0 to 2.
pub type Linked = (Box<[u8]>, f32);

impl VectorSet {
    /// Creates an empty set; the shape is [valid](Shape::is_valid). The seed determines the graph's
    /// levels.
    pub fn new(shape: Shape, seed: u64) -> Self {
        Self::with(Inner::new(shape, seed))
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

    /// A deep copy.
    pub fn duplicate(&self) -> Self {
        Self::with(self.inner.read().clone().deep_copy())
    }

    /// Properties that all vectors share.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory in bytes, as of the last change.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + self.bytes.load(Relaxed)
    }

    /// Properties of the set.
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

    /// Whether the element exists.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.inner.read().find(name).is_some()
    }

    /// Adds an element or replaces its vector; `ef` is the number of candidate neighbours. Without
    /// attributes the present ones are kept; empty ones remove them. True if the element is new;
    /// none, and nothing is done, if the code is not of the set's shape or there are four billion
    /// elements.
    pub fn insert(
        &self,
        name: &[u8],
        vector: EncodedRef<'_>,
        attributes: Option<&[u8]>,
        ef: usize,
    ) -> Option<bool> {
        self.insert_while(name, vector, attributes, ef, &mut |_| true).ok()
    }

    /// Like [`Self::insert`], but stops once `go_on` returns false. It is called while readers, but
    /// no writers, may run.
    ///
    /// # Errors
    /// If the code is not of the set's shape, there are four billion elements, or `go_on`
    /// stops it: then nothing is done.
    pub fn insert_while(
        &self,
        name: &[u8],
        vector: EncodedRef<'_>,
        attributes: Option<&[u8]>,
        ef: usize,
        go_on: GoOn<'_>,
    ) -> Result<bool, NotInserted> {
        if vector.code.len() != self.shape.code_bytes() {
            return Err(NotInserted::WrongShape);
        }
        let inner = self.inner.upgradable_read();
        if inner.graph.is_full() {
            return Err(NotInserted::Full);
        }
        let old = inner.find(name);
        let kept = old.and_then(|(node, _)| inner.element(node)?.attributes.map(Box::<[u8]>::from));
        let attributes = attributes.or(kept.as_deref());
        let at = (inner.graph.next_level(), old.map(|(node, _)| node));
        let plan = inner.graph.plan(&self.shape.query_of(vector), at, ef, go_on);
        let plan = plan.ok_or(NotInserted::Ended)?;
        let mut inner = RwLockUpgradableReadGuard::upgrade(inner);
        if let Some((node, place)) = old {
            inner.remove(node, place);
            self.memos.forget(node);
        }
        let node = inner.graph.insert(vector, &plan);
        inner.put(node, name, attributes);
        self.memos.forget(node);
        self.count(&inner);
        Ok(old.is_none())
    }

    /// Removes an element; false if it did not exist.
    pub fn remove(&self, name: &[u8]) -> bool {
        let mut inner = self.inner.write();
        let Some((node, place)) = inner.find(name) else { return false };
        inner.remove(node, place);
        self.memos.forget(node);
        self.count(&inner);
        true
    }

    /// Sets or removes the attributes of an element; false if it does not exist.
    pub fn set_attributes(&self, name: &[u8], attributes: Option<&[u8]>) -> bool {
        let mut inner = self.inner.write();
        let Some((node, _)) = inner.find(name) else { return false };
        inner.change_text(node, |texts, at| texts.put(at, name, attributes));
        self.memos.forget(node);
        self.count(&inner);
        true
    }

    /// The attributes of an element, if it exists and has any.
    pub fn attributes(&self, name: &[u8]) -> Option<Box<[u8]>> {
        let inner = self.inner.read();
        let (node, _) = inner.find(name)?;
        inner.element(node)?.attributes.map(Into::into)
    }

    /// The vector of an element.
    pub fn vector(&self, name: &[u8]) -> Option<Encoded> {
        let inner = self.inner.read();
        let (node, _) = inner.find(name)?;
        Some(inner.graph.vector(node).to_owned())
    }

    /// The neighbours of an element by level, the highest first.
    pub fn links(&self, name: &[u8]) -> Option<Vec<Vec<Linked>>> {
        let inner = self.inner.read();
        let (node, _) = inner.find(name)?;
        let query = self.shape.query_of(inner.graph.vector(node));
        let linked = |other: u32| {
            let name = inner.element(other)?.name.into();
            Some((name, inner.graph.distance_fine(&query, other)))
        };
        let level = |level| inner.graph.links(node, level).iter().filter_map(linked).collect();
        Some((0..=inner.graph.level(node)).rev().map(level).collect())
    }

    /// Elements in order of their names, at most `max` of them.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, max: usize) -> Vec<Box<[u8]>> {
        let inner = self.inner.read();
        let from = match from {
            Bound::Unbounded => Place::default(),
            Bound::Included(name) => inner.place_of(name).unwrap_or_else(|place| place),
            Bound::Excluded(name) => inner.place_of(name).map_or_else(|place| place, Place::next),
        };
        let is_within = |name: &&[u8]| match to {
            Bound::Unbounded => true,
            Bound::Included(last) => *name <= last,
            Bound::Excluded(end) => *name < end,
        };
        let names = inner.names.from(from).map(|node| inner.name(node));
        names.take_while(is_within).take(max).map(Into::into).collect()
    }

    /// A random element; `below` draws a number below its argument.
    pub fn random(&self, below: &mut dyn FnMut(u64) -> u64) -> Option<Box<[u8]>> {
        let inner = self.inner.read();
        let node = inner.random(below)?;
        inner.element(node).map(|element| element.name.into())
    }

    /// Up to `count` distinct random elements.
    pub fn sample(&self, count: usize, below: &mut dyn FnMut(u64) -> u64) -> Vec<Box<[u8]>> {
        let inner = self.inner.read();
        let count = count.min(inner.names.len());
        let name = |node: u32| inner.element(node).map(|element| element.name.into());
        if count < inner.names.len() / 3 {
            let mut drawn = HashSet::with_capacity(count);
            while drawn.len() < count {
                let Some(node) = inner.random(below) else { break };
                drawn.insert(node);
            }
            return drawn.into_iter().filter_map(name).collect();
        }
        let mut nodes: Vec<u32> = inner.names.iter().collect();
        for at in 0..count {
            // In bounds, since `nodes` has at least `count` elements.
            let other = at + below((nodes.len() - at) as u64) as usize;
            nodes.swap(at, other);
        }
        nodes.truncate(count);
        nodes.into_iter().filter_map(name).collect()
    }

    /// Calls `each` with every element: name, vector, attributes.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], EncodedRef<'_>, Option<&[u8]>)) {
        let inner = self.inner.read();
        for node in inner.names.iter() {
            if let Some(element) = inner.element(node) {
                each(element.name, inner.graph.vector(node), element.attributes);
            }
        }
    }
}

impl Inner {
    fn new(shape: Shape, seed: u64) -> Self {
        Inner {
            graph: Graph::new(shape, seed),
            names: Names::default(),
            texts: Vec::new(),
            text_bytes: 0,
            attributed: 0,
            inserted: 0,
        }
    }

    /// Copies chunks that are shared with a snapshot.
    fn deep_copy(mut self) -> Self {
        self.graph.unshare();
        for chunk in &mut self.texts {
            *chunk = Arc::new(chunk.deep_copy());
        }
        self.text_bytes = self.texts.iter().map(|chunk| chunk.footprint()).sum();
        self
    }

    fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.graph.footprint()
            + self.names.footprint()
            + self.texts.capacity() * size_of::<Arc<Texts>>()
            + self.text_bytes
    }

    fn element(&self, node: u32) -> Option<Element<'_>> {
        let (chunk, at) = place(node);
        self.texts.get(chunk)?.get(at)
    }

    /// The name of a node; empty for a free number.
    fn name(&self, node: u32) -> &[u8] {
        self.element(node).map_or(b"", |element| element.name)
    }

    /// Position of a name in their order, or its insertion point.
    fn place_of(&self, name: &[u8]) -> Result<Place, Place> {
        self.names.find(|node| self.name(node).cmp(name))
    }

    /// The node of a name, and its position.
    fn find(&self, name: &[u8]) -> Option<(u32, Place)> {
        let place = self.place_of(name).ok()?;
        Some((self.names.at(place), place))
    }

    /// Stores a new element at its node; its name is not in the set.
    fn put(&mut self, node: u32, name: &[u8], attributes: Option<&[u8]>) {
        let place = self.place_of(name).unwrap_or_else(|place| place);
        self.put_at(place, node, name, attributes);
    }

    /// Like [`Inner::put`], with a known position of the name.
    fn put_at(&mut self, place: Place, node: u32, name: &[u8], attributes: Option<&[u8]>) {
        self.inserted += 1;
        self.names.insert(place, node);
        self.change_text(node, |texts, at| texts.put(at, name, attributes));
    }

    /// Changes the text of a node, in a copy of its chunk if a snapshot shares it, and accounts for
    /// it.
    fn change_text(&mut self, node: u32, change: impl FnOnce(&mut Texts, usize)) {
        let (chunk, at) = place(node);
        while self.texts.len() <= chunk {
            let texts = Texts::default();
            self.text_bytes += texts.footprint();
            self.texts.push(Arc::new(texts));
        }
        let attributed = |texts: &Texts| {
            usize::from(texts.get(at).is_some_and(|element| element.attributes.is_some()))
        };
        self.text_bytes -= self.texts[chunk].footprint();
        self.attributed -= attributed(&self.texts[chunk]);
        let texts = Arc::make_mut(&mut self.texts[chunk]);
        change(texts, at);
        self.text_bytes += texts.footprint();
        self.attributed += attributed(texts);
    }

    /// Removes an element with its name's position.
    fn remove(&mut self, node: u32, place: Place) {
        self.names.remove(place);
        self.change_text(node, |texts, at| {
            texts.remove(at);
        });
        self.graph.remove(node);
    }

    fn random(&self, below: &mut dyn FnMut(u64) -> u64) -> Option<u32> {
        let end = self.graph.end();
        if self.names.is_empty() {
            return None;
        }
        // If few numbers are nodes, take the next one after a free number.
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
