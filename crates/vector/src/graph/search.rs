//! Search: greedy walks from node to node towards a vector.

use super::{CHUNK_LEN, Graph};
use crate::GoOn;
use crate::quantise::Query;
use std::cell::RefCell;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Maximum number of nodes expanded between two calls of `go_on`, and maximum work
/// ([`Graph::node_units`]): half a millisecond.
const NODES_AT_ONCE: usize = 256;
const UNITS_AT_ONCE: usize = 65_536;

/// A node and its distance.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    /// From 0 to 2, never NaN.
    pub distance: f32,
    /// The node.
    pub node: u32,
}

impl Ord for Near {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // Among equally distant nodes the later one comes first.
        self.distance.total_cmp(&other.distance).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Near {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Near {}

/// Visited nodes of a walk: a stamp for each node, so that nothing is cleared between two walks.
#[derive(Default)]
struct Visited {
    stamps: Vec<u8>,
    stamp: u8,
}

impl Visited {
    fn begin(&mut self, nodes: usize) {
        if self.stamps.len() < nodes {
            self.stamps.resize(nodes.next_multiple_of(CHUNK_LEN), 0);
        }
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 {
            self.stamps.fill(0);
            self.stamp = 1;
        }
    }

    /// Marks a node; false if it was visited before.
    #[inline]
    fn insert(&mut self, node: u32) -> bool {
        match self.stamps.get_mut(node as usize) {
            Some(stamp) => std::mem::replace(stamp, self.stamp) != self.stamp,
            // A node that was inserted while the walk had released the lock.
            None => {
                self.stamps.resize((node as usize + 1).next_multiple_of(CHUNK_LEN), 0);
                self.stamps[node as usize] = self.stamp;
                true
            }
        }
    }
}

thread_local! {
    /// Visited set of an ended walk, for reuse by this thread.
    static SPARE: RefCell<Visited> = RefCell::default();
}

/// A walk over the lowest level, which can be interrupted: between two [steps](Walk::step) the
/// graph may change.
pub struct Walk {
    visited: Visited,
    /// Nodes to expand, nearest first.
    ahead: BinaryHeap<Reverse<Near>>,
    /// The nearest passing nodes, farthest first.
    best: BinaryHeap<Near>,
    /// The nearest visited nodes, expanded or not, farthest first. If all nodes count, nodes beyond
    /// them need not be expanded.
    met: BinaryHeap<Near>,
    all_count: bool,
    ef: usize,
    /// Number of nodes that may still be expanded.
    budget: usize,
    /// Neighbours of the expanded node that were not visited before.
    fresh: Vec<u32>,
    /// [`Graph::changes`] at the last pause, and the generations of the nodes in the heaps.
    changes: u64,
    generations: Vec<(u32, u32)>,
}

impl Drop for Walk {
    fn drop(&mut self) {
        let visited = std::mem::take(&mut self.visited);
        SPARE.with(|spare| {
            let Ok(mut spare) = spare.try_borrow_mut() else { return };
            if spare.stamps.len() <= visited.stamps.len() {
                *spare = visited;
            }
        });
    }
}

impl Walk {
    /// Begins a search for the `ef` nearest nodes.
    pub fn begin(graph: &Graph, query: &Query, ef: usize) -> Self {
        Walk::new(graph, ef, usize::MAX).enter(graph, query)
    }

    /// Begins a search for the `ef` nearest passing nodes, which expands at most `budget` nodes.
    pub fn begin_passing(graph: &Graph, query: &Query, ef: usize, budget: usize) -> Self {
        let mut walk = Walk::new(graph, ef, budget);
        walk.all_count = false;
        walk.enter(graph, query)
    }

    fn enter(mut self, graph: &Graph, query: &Query) -> Self {
        if let Some(mut at) = graph.nearest_entry(query) {
            for level in (1..=graph.top_level()).rev() {
                at = graph.descend(query, at, level);
            }
            self.visited.insert(at.node);
            self.follow(at);
        }
        self
    }

    fn new(graph: &Graph, ef: usize, budget: usize) -> Self {
        let mut visited =
            SPARE.with(|spare| spare.try_borrow_mut().map(|mut it| std::mem::take(&mut *it)));
        let mut visited = visited.as_mut().map(std::mem::take).unwrap_or_default();
        visited.begin(graph.end() as usize);
        Walk {
            visited,
            ahead: BinaryHeap::new(),
            best: BinaryHeap::new(),
            met: BinaryHeap::new(),
            all_count: true,
            ef: ef.max(1),
            budget,
            fresh: Vec::new(),
            changes: graph.changes(),
            generations: Vec::new(),
        }
    }

    /// Expands up to `nodes` nodes of the lowest level; false at the end. `passes` selects the
    /// nodes that count: all of them, unless [`Walk::begin_passing`] has begun the walk. The others
    /// are only expanded.
    pub fn step(
        &mut self,
        graph: &Graph,
        query: &Query,
        nodes: usize,
        passes: &mut dyn FnMut(u32) -> bool,
    ) -> bool {
        self.step_on(graph, query, 0, nodes, passes)
    }

    fn step_on(
        &mut self,
        graph: &Graph,
        query: &Query,
        level: usize,
        nodes: usize,
        passes: &mut dyn FnMut(u32) -> bool,
    ) -> bool {
        for _ in 0..nodes {
            let Some(Reverse(near)) = self.ahead.pop() else { return false };
            if self.budget == 0 || self.is_too_far(near.distance) {
                return false;
            }
            self.budget -= 1;
            if passes(near.node) {
                self.keep(near);
            }
            for node in graph.links(near.node, level).iter() {
                self.find(graph, node);
            }
            self.visit_fresh(graph, query);
        }
        true
    }

    /// Like [`Walk::step`], but from passing nodes to passing nodes: a neighbour that does not pass
    /// is replaced by its own passing neighbours, until there are as many as a node has links
    /// (after ACORN, arXiv 2403.04871).
    pub fn step_over(
        &mut self,
        graph: &Graph,
        query: &Query,
        nodes: usize,
        passes: &mut dyn FnMut(u32) -> bool,
    ) -> bool {
        let most = super::link_limit(graph.shape(), 0);
        for _ in 0..nodes {
            let Some(Reverse(near)) = self.ahead.pop() else { return false };
            if self.budget == 0 || self.is_too_far(near.distance) {
                return false;
            }
            self.budget -= 1;
            if passes(near.node) {
                self.keep(near);
            }
            let (mut met, mut others) = (0, Vec::new());
            for node in graph.links(near.node, 0).iter() {
                if !passes(node) {
                    others.push(node);
                    continue;
                }
                met += 1;
                self.find(graph, node);
            }
            for other in others {
                if met >= most {
                    break;
                }
                // Its neighbours were considered before, from another node linked to it.
                if !self.visited.insert(other) {
                    continue;
                }
                for node in graph.links(other, 0).iter() {
                    if passes(node) {
                        met += 1;
                        self.find(graph, node);
                    }
                }
            }
            self.visit_fresh(graph, query);
        }
        true
    }

    /// Marks a new neighbour and prefetches its vector: all neighbours of a node are prefetched
    /// before the first one is compared.
    #[inline]
    fn find(&mut self, graph: &Graph, node: u32) {
        if self.visited.insert(node) {
            graph.prefetch_vector(node);
            self.fresh.push(node);
        }
    }

    /// Compares the new neighbours with the query; near enough ones are expanded later.
    fn visit_fresh(&mut self, graph: &Graph, query: &Query) {
        if let Some(Reverse(next)) = self.ahead.peek() {
            graph.prefetch_links(next.node);
        }
        let mut fresh = std::mem::take(&mut self.fresh);
        for node in fresh.drain(..) {
            let near = Near { distance: graph.distance_to(query, node), node };
            if !self.is_too_far(near.distance) {
                if self.ahead.peek().is_none_or(|next| near < next.0) {
                    graph.prefetch_links(node);
                }
                self.follow(near);
            }
        }
        self.fresh = fresh;
    }

    /// Queues a node for expansion, unless enough nearer ones were visited.
    #[inline]
    fn follow(&mut self, near: Near) {
        if self.all_count {
            if self.met.len() < self.ef {
                self.met.push(near);
            } else if let Some(mut last) = self.met.peek_mut() {
                if near.distance > last.distance {
                    return;
                }
                *last = near;
            }
        }
        self.ahead.push(Reverse(near));
    }

    #[inline]
    fn keep(&mut self, near: Near) {
        self.best.push(near);
        if self.best.len() > self.ef {
            self.best.pop();
        }
    }

    fn is_too_far(&self, distance: f32) -> bool {
        self.best.len() >= self.ef && self.best.peek().is_some_and(|last| distance > last.distance)
    }

    /// Whether the walk ended since it had expanded as many nodes as it may.
    pub fn is_exhausted(&self) -> bool {
        self.budget == 0
    }

    /// Number of nodes for the next step: greater if many are kept, so that [pauses](Walk::pause)
    /// take a bounded share of the time.
    pub fn nodes_at_once(&self, graph: &Graph, most: usize) -> usize {
        graph.nodes_at_once(most).max((self.ahead.len() + self.best.len()) / 8)
    }

    /// Prepares for changes of the graph; call [`Walk::resume`] after them.
    pub fn pause(&mut self, graph: &Graph) {
        let nodes = self.ahead.iter().map(|near| near.0.node);
        let nodes = nodes.chain(self.best.iter().map(|near| near.node));
        self.generations = nodes.map(|node| (node, graph.generation(node))).collect();
        self.changes = graph.changes();
    }

    /// Drops nodes that were removed or replaced meanwhile.
    pub fn resume(&mut self, graph: &Graph) {
        if self.changes == graph.changes() {
            return;
        }
        let mut known = std::mem::take(&mut self.generations);
        known.sort_unstable();
        let is_same = |node: u32| {
            let before = known.binary_search_by_key(&node, |&(node, _)| node);
            let is_node = graph.contains(node);
            is_node && before.is_ok_and(|at| known[at].1 == graph.generation(node))
        };
        self.ahead.retain(|near| is_same(near.0.node));
        self.best.retain(|near| is_same(near.node));
        self.met.retain(|near| is_same(near.node));
    }

    /// The result, nearest first.
    pub fn finish(&mut self) -> Vec<Near> {
        std::mem::take(&mut self.best).into_sorted_vec()
    }
}

impl Graph {
    pub(super) fn nearest_entry(&self, query: &Query) -> Option<Near> {
        let node = self.entry?;
        Some(Near { distance: self.distance_to(query, node), node })
    }

    /// Greedy descent: moves to the nearest neighbour on a level as long as it is nearer.
    pub(super) fn descend(&self, query: &Query, from: Near, level: usize) -> Near {
        let mut at = from;
        loop {
            let links = self.links(at.node, level).iter();
            links.clone().for_each(|node| self.prefetch_vector(node));
            let next = links.map(|node| Near { distance: self.distance_to(query, node), node });
            match next.min() {
                Some(next) if next.distance < at.distance => at = next,
                _ => return at,
            }
        }
    }

    /// The nearest nodes of a level, nearest first; none if `go_on` stops it.
    pub(super) fn nearest_on(
        &self,
        query: &Query,
        from: &[Near],
        level: usize,
        ef: usize,
        go_on: GoOn<'_>,
    ) -> Option<Vec<Near>> {
        let mut walk = Walk::new(self, ef, usize::MAX);
        for &near in from {
            if walk.visited.insert(near.node) {
                walk.follow(near);
            }
        }
        let nodes = self.nodes_at_once(NODES_AT_ONCE);
        while walk.step_on(self, query, level, nodes, &mut |_| true) {
            if !go_on(nodes * self.node_units()) {
                return None;
            }
        }
        Some(walk.finish())
    }

    /// Units for expanding one node of the lowest level, of about ten nanoseconds.
    pub fn node_units(&self) -> usize {
        super::link_limit(&self.shape, 0) * self.shape.distance_units()
    }

    /// Number of nodes to expand at once: at most `most`, fewer if each takes long.
    pub fn nodes_at_once(&self, most: usize) -> usize {
        (UNITS_AT_ONCE / self.node_units()).clamp(1, most)
    }

    /// Ranks the result of a walk by the complete codes and keeps the nearest `count`. Nodes that
    /// cannot be among them by the error bound are not compared again.
    pub fn rank(&self, query: &Query, found: Vec<Near>, count: usize) -> Vec<Near> {
        let mut best = BinaryHeap::with_capacity(count.min(found.len()) + 1);
        for near in &found {
            self.prefetch_rest(near.node);
        }
        for near in found {
            let Some(error) = self.shape.error_bound(self.vector(near.node)) else {
                best.push(near);
                continue;
            };
            let farthest = best.peek().filter(|_| best.len() >= count);
            if farthest.is_some_and(|last: &Near| near.distance - error > last.distance) {
                continue;
            }
            best.push(Near { distance: self.distance_fine(query, near.node), ..near });
            if best.len() > count {
                best.pop();
            }
        }
        best.into_sorted_vec()
    }

    /// Adds a node to the `count` nearest if it is one of them by the part of the code that walks
    /// read.
    #[inline]
    pub fn keep_nearest(
        &self,
        query: &Query,
        node: u32,
        count: usize,
        best: &mut BinaryHeap<Near>,
    ) {
        let near = Near { distance: self.distance_to(query, node), node };
        if best.len() < count {
            best.push(near);
        } else if let Some(mut last) = best.peek_mut()
            && near < *last
        {
            *last = near;
        }
    }

    /// Finds the `count` nearest passing nodes within `nodes` by comparing each.
    pub fn scan(
        &self,
        query: &Query,
        nodes: std::ops::Range<u32>,
        count: usize,
        best: &mut BinaryHeap<Near>,
        passes: &mut dyn FnMut(u32) -> bool,
    ) {
        for node in nodes {
            if !self.contains(node) {
                continue;
            }
            let near = Near { distance: self.distance_fine(query, node), node };
            let is_better = best.len() < count || best.peek().is_some_and(|last| near < *last);
            if is_better && passes(node) {
                best.push(near);
                if best.len() > count {
                    best.pop();
                }
            }
        }
    }
}
