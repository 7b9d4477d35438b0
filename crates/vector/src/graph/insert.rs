//! Insertion of nodes.
//!
//! Finding the neighbours of a new node changes nothing and takes almost all of the time
//! ([`Graph::plan`]); then the node is linked on all of its levels ([`Graph::insert`]).

use super::{Graph, LEVELS_MAX, Near, link_limit};
use crate::GoOn;
use crate::quantise::{EncodedRef, Query};

/// Minimum number of links that a node keeps when new nodes displace its links.
const LINKS_LEFT_MIN: usize = 2;

/// Bounds, reached only by sets with an unusual number of links: neighbours of a new node, nearest
/// first, that make room for it if they are full; links of such a neighbour, farthest first,
/// considered for removal; nearer links with which each of them is compared.
const DISPLACED_MAX: usize = 128;

/// Comparisons in the choice of neighbours between two calls of `go_on`.
const COMPARED_PER_LOOK: usize = 1024;

/// Links of a node to be inserted: by level, the lowest first. Valid for the graph as it was.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    level: usize,
    neighbours: Vec<Vec<Near>>,
}

impl Graph {
    /// Finds the neighbours of a new node with a level below [`LEVELS_MAX`], which replaces the
    /// node `old`; `ef` is the number of candidates on each level. None if `go_on` stops it.
    pub fn plan(
        &self,
        query: &Query,
        (level, old): (usize, Option<u32>),
        ef: usize,
        go_on: GoOn<'_>,
    ) -> Option<Plan> {
        let level = level.min(LEVELS_MAX - 1);
        let mut plan = Plan { level, neighbours: Vec::new() };
        let Some(mut at) = self.nearest_entry(query) else { return Some(plan) };
        let top = self.top_level();
        for above in (level + 1..=top).rev() {
            at = self.descend(query, at, above);
        }
        let mut from = vec![at];
        for on in (0..=level.min(top)).rev() {
            let links = usize::from(self.shape.links);
            let found = self.nearest_on(query, &from, on, ef.max(links), go_on)?;
            let others = found.iter().filter(|near| Some(near.node) != old);
            plan.neighbours.push(self.choose(others, links, go_on)?);
            from = found;
        }
        plan.neighbours.reverse();
        Some(plan)
    }

    /// Adapts a plan to changes since it was made: drops nodes that are gone, and compares the
    /// others again. False if too little is left of it.
    pub fn adapt(&self, query: &Query, plan: &mut Plan) -> bool {
        if self.is_empty() {
            plan.neighbours.clear();
            return true;
        }
        for (level, neighbours) in plan.neighbours.iter_mut().enumerate() {
            neighbours.retain(|near| self.contains(near.node) && self.level(near.node) >= level);
            for near in neighbours.iter_mut() {
                near.distance = self.distance_to(query, near.node);
            }
            neighbours.sort_unstable();
        }
        plan.neighbours.len() > plan.level.min(self.top_level())
            && plan.neighbours.iter().all(|neighbours| !neighbours.is_empty())
    }

    /// Inserts a node by a plan that was made for the present graph, or adapted to it.
    pub fn insert(&mut self, vector: EncodedRef<'_>, plan: &Plan) -> u32 {
        let node = self.occupy(vector, plan.level);
        for (level, neighbours) in plan.neighbours.iter().enumerate().rev() {
            for (nearer, near) in neighbours.iter().enumerate() {
                if nearer < DISPLACED_MAX || self.has_room(near.node, level) {
                    self.connect(node, near.node, near.distance, level);
                }
            }
            // All neighbours are full of nearer ones, but the node must be reachable.
            if let (true, Some(near)) = (self.links(node, level).is_empty(), neighbours.first()) {
                self.drop_farthest(near.node, level);
                self.link(node, near.node, level);
            }
        }
        if self.entry.is_none_or(|entry| self.level(entry) < plan.level) {
            self.entry = Some(node);
        }
        node
    }

    /// Selects, among nodes in ascending order of distance, at most `limit` that lie in different
    /// directions: each nearer to the new node than to another that was chosen. The nearest of
    /// the rest fill up (arXiv 1603.09320, algorithm 4).
    fn choose<'n>(
        &self,
        found: impl Iterator<Item = &'n Near>,
        limit: usize,
        go_on: GoOn<'_>,
    ) -> Option<Vec<Near>> {
        let mut chosen: Vec<Near> = Vec::with_capacity(limit);
        let mut rest = Vec::new();
        let mut compared = 0;
        for near in found {
            if chosen.len() == limit {
                break;
            }
            compared += chosen.len();
            if compared >= COMPARED_PER_LOOK && !go_on(compared * self.shape.distance_units()) {
                return None;
            }
            compared %= COMPARED_PER_LOOK;
            let is_hidden =
                chosen.iter().any(|other| self.distance(near.node, other.node) < near.distance);
            if is_hidden { rest.push(*near) } else { chosen.push(*near) }
        }
        rest.truncate(limit - chosen.len());
        chosen.extend(rest);
        Some(chosen)
    }

    /// Links a new node to another. If that is full, one of its links makes room if the new one is
    /// better.
    fn connect(&mut self, node: u32, to: u32, distance: f32, level: usize) {
        if !self.has_room(node, level) {
            return;
        }
        if !self.has_room(to, level) {
            let Some(worse) = self.displaced_by(to, node, distance, level) else { return };
            self.unlink(to, worse, level);
        }
        self.link(node, to, level);
    }

    /// The link of a full node that a new one replaces; none if the new one is no better. Prefers
    /// the farthest link that is occluded by a nearer one, which may be the new one itself.
    fn displaced_by(&self, full: u32, new: u32, distance: f32, level: usize) -> Option<u32> {
        let links = self.links(full, level).iter();
        let mut all: Vec<Near> =
            links.map(|node| Near { distance: self.distance(full, node), node }).collect();
        all.push(Near { distance, node: new });
        all.sort_unstable();
        let may_go = |node: u32| node == new || self.links(node, level).len() > LINKS_LEFT_MIN;
        let is_hidden = |(at, near): (usize, &Near)| {
            let mut nearer = all[..at].iter().take(DISPLACED_MAX);
            nearer.any(|other| self.distance(near.node, other.node) < near.distance)
        };
        let of_all = || all.iter().enumerate().rev().filter(|(_, near)| may_go(near.node));
        let hidden = of_all().take(DISPLACED_MAX).find(|&it| is_hidden(it));
        let goes = hidden.or_else(|| of_all().next())?.1.node;
        (goes != new).then_some(goes)
    }

    /// Makes room at a full node by removing its farthest link.
    fn drop_farthest(&mut self, node: u32, level: usize) {
        if self.has_room(node, level) {
            return;
        }
        // The farthest neighbour that keeps enough other links, if there is one.
        let farthest = self.links(node, level).iter().max_by_key(|&other| {
            let keeps = self.links(other, level).len() > LINKS_LEFT_MIN;
            (keeps, Near { distance: self.distance(node, other), node: other })
        });
        if let Some(farthest) = farthest {
            self.unlink(node, farthest, level);
        }
    }

    /// Inserts a node of a snapshot, without links.
    pub(crate) fn insert_unlinked(&mut self, vector: EncodedRef<'_>, level: usize) -> u32 {
        let node = self.occupy(vector, level);
        if self.entry.is_none_or(|entry| self.level(entry) < level) {
            self.entry = Some(node);
        }
        node
    }

    /// Sets the links of a snapshot's node on a level; false if there are too many. The caller
    /// checks that they go both ways.
    pub(crate) fn set_links(&mut self, node: u32, level: usize, links: &[u32]) -> bool {
        if links.len() > link_limit(&self.shape, level) {
            return false;
        }
        for &link in links {
            self.change(node, |chunk, at| chunk.add_link(at, level, link));
        }
        true
    }
}
