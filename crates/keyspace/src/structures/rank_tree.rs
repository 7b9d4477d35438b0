//! Items in order of their scores, found by rank as fast as by score: a counted B+ tree.
//!
//! ```text
//! inner   [ score, first item, count, child ] ...          up to 32
//!              │                  │
//! leaves  [ item item item ]   [ item item item item ]     up to 64 items of 8 bytes
//! ```
//!
//! An item is eight bytes that refer to the rest: to a score, and to anything else that decides the
//! order. The tree never compares two items. Callers pass a predicate that is true for the items
//! before a place. Inner nodes hold scores for the predicate, so that items are read in the leaf
//! only.
//!
//! Before a node is split, its neighbours take as many items as they have room for, and two full
//! nodes become three (B*-tree: Knuth, The Art of Computer Programming, 6.2.4), except at either
//! end, where a full node is left full: leaves are about 85 % full after random insertions and 98 %
//! after ascending ones. Neighbours are merged if they fill at most three quarters of a node.

mod node;

pub use node::Scored;

use node::{Child, INNER_MAX, Inner, LEAF_MAX, Leaf, Node, NodeMut, NodeRef, Slots};
use petrel_heap::{Cache, usable};
use std::ops::Range;

/// First cursor of the relocation of nodes; smaller cursors relocate items.
pub const NODES: u64 = 1 << 63;

/// Ranks covered by one step of a relocation of nodes.
const RANKS_PER_MOVE: usize = 1024;

/// A sequence of items in an order defined by the caller.
pub struct RankTree<T> {
    root: Option<Node<T>>,
    len: usize,
    /// Bytes of all nodes.
    bytes: usize,
}

impl<T> Default for RankTree<T> {
    fn default() -> Self {
        RankTree { root: None, len: 0, bytes: 0 }
    }
}

impl<T: Scored> RankTree<T> {
    /// A tree of items that are already in order.
    pub fn from_sorted(items: &[T], cache: &mut Cache) -> Self {
        let mut bytes = 0;
        let mut level: Vec<Child<T>> = evenly(items.len(), LEAF_MAX)
            .map(|range| {
                let mut node = Node::leaf(cache);
                if let NodeMut::Leaf(leaf) = node.kind_mut() {
                    items[range].iter().for_each(|&item| leaf.push(item));
                }
                bytes += usable(node.size());
                Child::of(node)
            })
            .collect();
        while level.len() > 1 {
            let sizes: Vec<_> = evenly(level.len(), INNER_MAX).map(|range| range.len()).collect();
            let mut below = level.into_iter();
            level = Vec::with_capacity(sizes.len());
            for size in sizes {
                let mut node = Node::inner(cache);
                if let NodeMut::Inner(inner) = node.kind_mut() {
                    below.by_ref().take(size).for_each(|child| inner.push(child));
                }
                bytes += usable(node.size());
                level.push(Child::of(node));
            }
        }
        RankTree { root: level.pop().map(|child| child.node), len: items.len(), bytes }
    }

    /// Bytes of all nodes, rounded as the heap rounds.
    pub fn footprint(&self) -> usize {
        self.bytes
    }

    /// Number of items before a place: `before(score, item)` is true for them, and false from there
    /// on.
    #[inline]
    pub fn rank(&self, before: impl Fn(f64, T) -> bool) -> usize {
        let Some(mut node) = self.root.as_ref() else { return 0 };
        let mut rank = 0;
        loop {
            match node.kind() {
                NodeRef::Leaf(leaf) => return rank + place(leaf, &before),
                NodeRef::Inner(inner) => {
                    let at = child_before(inner, &before);
                    let children = inner.as_slice();
                    rank += children[..at].iter().map(|child| child.count).sum::<usize>();
                    node = &children[at].node;
                }
            }
        }
    }

    /// The item of a rank.
    #[inline]
    pub fn get(&self, rank: usize) -> Option<T> {
        self.run(rank).first().copied()
    }

    /// Items of one leaf, from a rank on.
    #[inline]
    pub fn run(&self, rank: usize) -> &[T] {
        let (leaf, at) = self.leaf_at(rank);
        leaf.get(at..).unwrap_or(&[])
    }

    /// Items of one leaf, up to and including a rank.
    #[inline]
    pub fn run_back(&self, rank: usize) -> &[T] {
        let (leaf, at) = self.leaf_at(rank);
        leaf.get(..=at).unwrap_or(&[])
    }

    /// The items of a range of ranks, to be walked from either end.
    pub fn range(&self, ranks: Range<usize>) -> Iter<'_, T> {
        let end = ranks.end.min(self.len);
        Iter { tree: self, front: &[], back: &[], ranks: ranks.start.min(end)..end }
    }

    /// All items.
    pub fn iter(&self) -> Iter<'_, T> {
        self.range(0..self.len)
    }

    /// Inserts an item at the place given by `before`.
    pub fn insert(&mut self, item: T, before: impl Fn(f64, T) -> bool, cache: &mut Cache) {
        self.len += 1;
        let mut root = match self.root.take() {
            Some(root) => self.grown(root, cache),
            None => {
                let leaf = Node::leaf(cache);
                self.bytes += usable(leaf.size());
                leaf
            }
        };
        let mut node = &mut root;
        let mut edge = Edge { left: true, right: true };
        loop {
            match node.kind_mut() {
                NodeMut::Leaf(leaf) => {
                    let at = place(leaf, &before);
                    leaf.insert(at, item);
                    break;
                }
                NodeMut::Inner(inner) => {
                    let mut at = child_before(inner, &before);
                    if inner.as_slice()[at].node.is_full() {
                        self.bytes += make_room(inner, at, edge, &before, cache);
                        at = child_before(inner, &before);
                    }
                    edge = edge.below(at, inner.len());
                    let child = &mut inner.as_mut_slice()[at];
                    child.count += 1;
                    if !before(child.score, child.first) {
                        (child.score, child.first) = (item.score(), item);
                    }
                    node = &mut child.node;
                }
            }
        }
        self.root = Some(root);
    }

    /// Replaces the item of a rank, possibly with the same item after a change of its score.
    pub fn replace(&mut self, mut rank: usize, item: T) {
        let Some(mut node) = self.root.as_mut() else { return };
        loop {
            match node.kind_mut() {
                NodeMut::Leaf(leaf) => {
                    if let Some(slot) = leaf.as_mut_slice().get_mut(rank) {
                        *slot = item;
                    }
                    return;
                }
                NodeMut::Inner(inner) => {
                    let at = child_at(inner, &mut rank);
                    let child = &mut inner.as_mut_slice()[at];
                    if rank == 0 {
                        (child.score, child.first) = (item.score(), item);
                    }
                    node = &mut child.node;
                }
            }
        }
    }

    /// Removes the item of a rank.
    pub fn remove(&mut self, rank: usize, cache: &mut Cache) {
        self.remove_range(rank..rank + 1, cache, |_| {});
    }

    /// Removes the items of a range of ranks and passes each to a closure, in order.
    pub fn remove_range(
        &mut self,
        ranks: Range<usize>,
        cache: &mut Cache,
        mut each: impl FnMut(T),
    ) {
        let mut left = ranks.end.min(self.len).saturating_sub(ranks.start);
        while left > 0 {
            let Some(root) = &mut self.root else { return };
            let mut freed = 0;
            let removed = remove_run(root, ranks.start, left, cache, &mut freed, &mut each);
            self.len -= removed;
            self.bytes -= freed;
            left -= removed;
            self.lower(cache);
        }
    }

    /// Moves nodes on the paths to some ranks from `rank` on to fresh blocks if their address
    /// `is_marked`. Returns the next rank, none at the end.
    pub fn relocate(
        &mut self,
        rank: usize,
        is_marked: &dyn Fn(usize) -> bool,
        cache: &mut Cache,
    ) -> Option<usize> {
        let mut next = rank;
        while next < (rank + RANKS_PER_MOVE).min(self.len) {
            next = self.relocate_way(next, is_marked, cache);
        }
        (next < self.len).then_some(next)
    }

    /// Moves the nodes on the path to a rank to fresh blocks if their address `is_marked`; returns
    /// the rank behind the leaf.
    fn relocate_way(
        &mut self,
        rank: usize,
        is_marked: &dyn Fn(usize) -> bool,
        cache: &mut Cache,
    ) -> usize {
        let mut within = rank;
        let Some(mut node) = self.root.as_mut() else { return rank };
        loop {
            if is_marked(node.address()) {
                node.relocate(cache);
            }
            match node.kind_mut() {
                NodeMut::Leaf(leaf) => return rank - within + leaf.len(),
                NodeMut::Inner(inner) => {
                    let at = child_at(inner, &mut within);
                    node = &mut inner.as_mut_slice()[at].node;
                }
            }
        }
    }

    /// Frees all nodes; the caller frees the items.
    pub fn release(self, cache: &mut Cache) {
        if let Some(root) = self.root {
            root.free_all(cache);
        }
    }

    /// The leaf of a rank, and the index in it; an empty leaf if the rank does not exist.
    #[inline]
    fn leaf_at(&self, mut rank: usize) -> (&[T], usize) {
        let (Some(mut node), true) = (self.root.as_ref(), rank < self.len) else {
            return (&[], 0);
        };
        loop {
            match node.kind() {
                NodeRef::Leaf(leaf) => return (leaf.as_slice(), rank),
                NodeRef::Inner(inner) => {
                    let at = child_at(inner, &mut rank);
                    node = &inner.as_slice()[at].node;
                }
            }
        }
    }

    /// The root, below a new one if it is full, because a full node gets room through its parent.
    fn grown(&mut self, root: Node<T>, cache: &mut Cache) -> Node<T> {
        if !root.is_full() {
            return root;
        }
        let mut parent = Node::inner(cache);
        self.bytes += usable(parent.size());
        if let NodeMut::Inner(inner) = parent.kind_mut() {
            inner.push(Child::of(root));
        }
        parent
    }

    /// Removes roots with one child or none.
    fn lower(&mut self, cache: &mut Cache) {
        while let Some(mut root) = self.root.take() {
            let below = match root.kind_mut() {
                NodeMut::Inner(inner) if inner.len() == 1 => Some(inner.remove(0).node),
                NodeMut::Leaf(leaf) if leaf.len() == 0 => None,
                _ => {
                    self.root = Some(root);
                    return;
                }
            };
            self.bytes -= usable(root.size());
            root.free(cache);
            self.root = below;
        }
    }
}

/// Splits `len` into the fewest ranges of at most `max`, of about equal lengths.
fn evenly(len: usize, max: usize) -> impl Iterator<Item = Range<usize>> {
    let parts = len.div_ceil(max);
    (0..parts).map(move |part| part * len / parts..(part + 1) * len / parts)
}

/// Ends of the tree at which a node lies.
#[derive(Clone, Copy)]
struct Edge {
    left: bool,
    right: bool,
}

impl Edge {
    /// The ends of the tree at which child `at` of `len` lies.
    fn below(self, at: usize, len: usize) -> Self {
        Edge { left: self.left && at == 0, right: self.right && at + 1 == len }
    }
}

/// The items of a leaf before a place.
#[inline]
fn place<T: Scored>(leaf: &Leaf<T>, before: &impl Fn(f64, T) -> bool) -> usize {
    leaf.as_slice().partition_point(|&item| before(item.score(), item))
}

/// The child that contains a place: the last that begins before it, or the first.
#[inline]
fn child_before<T: Scored>(inner: &Inner<T>, before: &impl Fn(f64, T) -> bool) -> usize {
    let beginning = |child: &Child<T>| before(child.score, child.first);
    inner.as_slice().partition_point(beginning).saturating_sub(1)
}

/// The child that contains a rank; the rank becomes relative to the child.
#[inline]
fn child_at<T>(inner: &Inner<T>, rank: &mut usize) -> usize {
    let mut at = 0;
    for child in inner.as_slice() {
        if *rank < child.count {
            break;
        }
        *rank -= child.count;
        at += 1;
    }
    at
}

impl<T: Scored> Child<T> {
    /// Summary of a node that is not empty.
    fn of(node: Node<T>) -> Self {
        let (score, first, count) = match node.kind() {
            NodeRef::Leaf(leaf) => {
                let first = leaf.as_slice()[0];
                (first.score(), first, leaf.len())
            }
            NodeRef::Inner(inner) => {
                let children = inner.as_slice();
                let count = children.iter().map(|child| child.count).sum();
                (children[0].score, children[0].first, count)
            }
        };
        Child { score, first, count, node }
    }

    /// Updates the summary from the node.
    fn refresh(&mut self) {
        match self.node.kind() {
            NodeRef::Leaf(leaf) => {
                if let Some(&first) = leaf.as_slice().first() {
                    (self.score, self.first) = (first.score(), first);
                }
                self.count = leaf.len();
            }
            NodeRef::Inner(inner) => {
                let children = inner.as_slice();
                if let Some(child) = children.first() {
                    (self.score, self.first) = (child.score, child.first);
                }
                self.count = children.iter().map(|child| child.count).sum();
            }
        }
    }
}

impl<T: Scored> Node<T> {
    fn slots(&self) -> usize {
        match self.kind() {
            NodeRef::Leaf(leaf) => leaf.len(),
            NodeRef::Inner(inner) => inner.len(),
        }
    }

    fn slots_max(&self) -> usize {
        match self.kind() {
            NodeRef::Leaf(_) => LEAF_MAX,
            NodeRef::Inner(_) => INNER_MAX,
        }
    }

    fn is_full(&self) -> bool {
        match self.kind() {
            NodeRef::Leaf(leaf) => leaf.is_full(),
            NodeRef::Inner(inner) => inner.is_full(),
        }
    }

    /// An empty node of the same kind.
    fn sibling(&self, cache: &mut Cache) -> Self {
        match self.kind() {
            NodeRef::Leaf(_) => Node::leaf(cache),
            NodeRef::Inner(_) => Node::inner(cache),
        }
    }

    /// Moves slots to (if `by` is positive) or from the neighbour on the right, which is of the
    /// same kind.
    fn shift(&mut self, by: isize, right: &mut Self) {
        match (self.kind_mut(), right.kind_mut()) {
            (NodeMut::Leaf(left), NodeMut::Leaf(right)) => shift(left, by, right),
            (NodeMut::Inner(left), NodeMut::Inner(right)) => shift(left, by, right),
            _ => unreachable!("all leaves are at the same depth"),
        }
    }

    fn free_all(mut self, cache: &mut Cache) {
        if let NodeMut::Inner(inner) = self.kind_mut() {
            while inner.len() > 0 {
                inner.remove(inner.len() - 1).node.free_all(cache);
            }
        }
        self.free(cache);
    }
}

fn shift<S, const MAX: usize>(left: &mut Slots<S, MAX>, by: isize, right: &mut Slots<S, MAX>) {
    if by >= 0 {
        left.shift_right(by.unsigned_abs(), right);
    } else {
        left.shift_left(by.unsigned_abs(), right);
    }
}

/// Makes room in the full child `at` of a node that is not full itself; returns the bytes of the
/// nodes added.
fn make_room<T: Scored>(
    inner: &mut Inner<T>,
    at: usize,
    edge: Edge,
    before: &impl Fn(f64, T) -> bool,
    cache: &mut Cache,
) -> usize {
    let children = inner.as_slice();
    let node = &children[at].node;
    let max = node.slots_max();
    if let Some(keep) = edge_split(node, edge.below(at, children.len()), before) {
        return split(inner, at, keep, cache);
    }
    let room = |at: usize| children.get(at).map_or(0, |child| max - child.node.slots());
    let left = at.checked_sub(1);
    let (room_left, room_right) = (left.map_or(0, room), room(at + 1));
    // With less room, the neighbour would soon be full again.
    if room_left.max(room_right) >= max / 16 {
        if room_right >= room_left {
            shift_children(inner, at, room_right.div_ceil(2) as isize);
        } else {
            shift_children(inner, at - 1, -(room_left.div_ceil(2) as isize));
        }
        return 0;
    }
    if children.len() == 1 {
        return split(inner, at, max / 2, cache);
    }
    // Two full nodes become three.
    let first = if at + 1 < children.len() { at } else { at - 1 };
    let added = split(inner, first, max - max / 3, cache);
    let surplus = children_slots(inner, first + 2) - 2 * max / 3;
    shift_children(inner, first + 1, -(surplus as isize));
    added
}

fn children_slots<T: Scored>(inner: &Inner<T>, at: usize) -> usize {
    inner.as_slice()[at].node.slots()
}

/// Number of slots to leave in a full node at an end of the tree, if the insertion is at that end.
fn edge_split<T: Scored>(
    node: &Node<T>,
    edge: Edge,
    before: &impl Fn(f64, T) -> bool,
) -> Option<usize> {
    let (first, last) = match node.kind() {
        NodeRef::Leaf(leaf) => {
            let items = leaf.as_slice();
            (items[0], items[items.len() - 1])
        }
        NodeRef::Inner(inner) => {
            let children = inner.as_slice();
            (children[0].first, children[children.len() - 1].first)
        }
    };
    if edge.right && before(last.score(), last) {
        Some(node.slots_max() - 1)
    } else if edge.left && !before(first.score(), first) {
        Some(1)
    } else {
        None
    }
}

/// Moves slots from child `at` to the next one, or back if `by` is negative.
fn shift_children<T: Scored>(inner: &mut Inner<T>, at: usize, by: isize) {
    if let [left, right, ..] = &mut inner.as_mut_slice()[at..] {
        left.node.shift(by, &mut right.node);
        left.refresh();
        right.refresh();
    }
}

/// Moves all but `keep` slots of child `at` to a new child after it; returns the bytes of that
/// child.
fn split<T: Scored>(inner: &mut Inner<T>, at: usize, keep: usize, cache: &mut Cache) -> usize {
    let child = &mut inner.as_mut_slice()[at];
    let mut node = child.node.sibling(cache);
    let bytes = usable(node.size());
    let surplus = child.node.slots() - keep;
    child.node.shift(surplus as isize, &mut node);
    child.refresh();
    inner.insert(at + 1, Child::of(node));
    bytes
}

/// Removes up to `max` items of one leaf from a rank on, and returns their number. Adds the bytes
/// of freed nodes to `freed`.
fn remove_run<T: Scored>(
    node: &mut Node<T>,
    mut rank: usize,
    max: usize,
    cache: &mut Cache,
    freed: &mut usize,
    each: &mut impl FnMut(T),
) -> usize {
    match node.kind_mut() {
        NodeMut::Leaf(leaf) => {
            let n = max.min(leaf.len() - rank);
            leaf.as_slice()[rank..rank + n].iter().for_each(|&item| each(item));
            leaf.discard(rank, n);
            n
        }
        NodeMut::Inner(inner) => {
            let at = child_at(inner, &mut rank);
            let child = &mut inner.as_mut_slice()[at];
            let removed = remove_run(&mut child.node, rank, max, cache, freed, each);
            child.refresh();
            if child.node.slots() == 0 {
                let node = inner.remove(at).node;
                *freed += usable(node.size());
                node.free(cache);
            } else {
                *freed += merge_around(inner, at, cache);
            }
            removed
        }
    }
}

/// Merges child `at` with a neighbour if they fit one node with room to spare; returns the bytes
/// freed.
fn merge_around<T: Scored>(inner: &mut Inner<T>, at: usize, cache: &mut Cache) -> usize {
    let children = inner.as_slice();
    let node = &children[at].node;
    let (slots, max) = (node.slots(), node.slots_max());
    let fits =
        |at: usize| children.get(at).is_some_and(|child| child.node.slots() + slots <= max / 4 * 3);
    let left = match at.checked_sub(1) {
        Some(left) if fits(left) => left,
        _ if fits(at + 1) => at,
        _ => return 0,
    };
    let moved = children_slots(inner, left + 1);
    shift_children(inner, left, -(moved as isize));
    let node = inner.remove(left + 1).node;
    let bytes = usable(node.size());
    node.free(cache);
    bytes
}

/// Iterates over a range of ranks, leaf by leaf.
pub struct Iter<'a, T> {
    tree: &'a RankTree<T>,
    /// Items of leaves already read, before `ranks.start` and after `ranks.end`, but not yet
    /// returned; never both of one leaf.
    front: &'a [T],
    back: &'a [T],
    /// Ranks not yet read.
    ranks: Range<usize>,
}

impl<T: Scored> Iterator for Iter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.front.is_empty() {
            if self.ranks.is_empty() {
                let (&item, rest) = self.back.split_first()?;
                self.back = rest;
                return Some(item);
            }
            let run = self.tree.run(self.ranks.start);
            self.front = &run[..run.len().min(self.ranks.len())];
            self.ranks.start += self.front.len();
        }
        let (&item, rest) = self.front.split_first()?;
        self.front = rest;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.front.len() + self.ranks.len() + self.back.len();
        (len, Some(len))
    }
}

impl<T: Scored> DoubleEndedIterator for Iter<'_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<T> {
        if self.back.is_empty() {
            if self.ranks.is_empty() {
                let (&item, rest) = self.front.split_last()?;
                self.front = rest;
                return Some(item);
            }
            let run = self.tree.run_back(self.ranks.end - 1);
            self.back = &run[run.len() - run.len().min(self.ranks.len())..];
            self.ranks.end -= self.back.len();
        }
        let (&item, rest) = self.back.split_last()?;
        self.back = rest;
        Some(item)
    }
}

impl<T: Scored> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests;
