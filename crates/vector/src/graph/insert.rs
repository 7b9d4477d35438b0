//! New nodes.
//!
//! Where a node is to be linked is found first, which changes nothing and takes nearly all of the
//! time ([`Graph::plan`]); then it is linked on all of its levels ([`Graph::insert`]).

use super::{Graph, LEVELS_MAX, Near, link_limit};
use crate::GoOn;
use crate::quantise::{EncodedRef, Query};

/// Links that a node is left with when others crowd it out.
const LINKS_LEFT_MIN: usize = 2;

/// Neighbours of a new node, the nearest first, that make room for it if they are full; and the
/// links of such a neighbour, the farthest first, that may have to, and the nearer ones that each
/// of them is compared with. Only sets with more links than any use needs notice these bounds.
const CROWDED_MAX: usize = 128;

/// Comparisons of the choice of neighbours between two questions whether to go on.
const COMPARED_PER_LOOK: usize = 1024;

/// Where a node is to be linked: by level, the lowest first. It holds for the graph as it was.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    level: usize,
    neighbours: Vec<Vec<Near>>,
}

impl Graph {
    /// Looks for the neighbours of a new node with a level below [`LEVELS_MAX`], which is to take
    /// the place of the node `old`; `ef` is how many are looked at on each level. None if `go_on`
    /// ends it.
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

    /// Inserts a node where the plan says, which was made for the graph as it is.
    pub fn insert(&mut self, vector: EncodedRef<'_>, plan: &Plan) -> u32 {
        let node = self.occupy(vector, plan.level);
        for (level, neighbours) in plan.neighbours.iter().enumerate().rev() {
            for (nearer, near) in neighbours.iter().enumerate() {
                if nearer < CROWDED_MAX || self.has_room(near.node, level) {
                    self.connect(node, near.node, near.distance, level);
                }
            }
            // All of them are full of better ones: none of them may be out of reach.
            if let (true, Some(near)) = (self.links(node, level).is_empty(), neighbours.first()) {
                self.crowd_out_farthest(near.node, level);
                self.link(node, near.node, level);
            }
        }
        if self.entry.is_none_or(|entry| self.level(entry) < plan.level) {
            self.entry = Some(node);
        }
        node
    }

    /// Of nodes in ascending order of their distance, at most `limit` that lie in different
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

    /// Links a new node to another. If that one is full, one of its links makes room if the new one
    /// is better.
    fn connect(&mut self, node: u32, to: u32, distance: f32, level: usize) {
        if !self.has_room(node, level) {
            return;
        }
        if !self.has_room(to, level) {
            let Some(worse) = self.crowded_out(to, node, distance, level) else { return };
            self.unlink(to, worse, level);
        }
        self.link(node, to, level);
    }

    /// Which link of a full node a new one is to take the place of; none if it is no better. The
    /// farthest that is hidden by a nearer one goes first, which may be the new one itself.
    fn crowded_out(&self, full: u32, new: u32, distance: f32, level: usize) -> Option<u32> {
        let links = self.links(full, level).iter();
        let mut all: Vec<Near> =
            links.map(|node| Near { distance: self.distance(full, node), node }).collect();
        all.push(Near { distance, node: new });
        all.sort_unstable();
        let may_go = |node: u32| node == new || self.links(node, level).len() > LINKS_LEFT_MIN;
        let is_hidden = |(at, near): (usize, &Near)| {
            let mut nearer = all[..at].iter().take(CROWDED_MAX);
            nearer.any(|other| self.distance(near.node, other.node) < near.distance)
        };
        let of_all = || all.iter().enumerate().rev().filter(|(_, near)| may_go(near.node));
        let hidden = of_all().take(CROWDED_MAX).find(|&it| is_hidden(it));
        let goes = hidden.or_else(|| of_all().next())?.1.node;
        (goes != new).then_some(goes)
    }

    /// Makes room at a node by undoing its farthest link, if it has none.
    fn crowd_out_farthest(&mut self, node: u32, level: usize) {
        if self.has_room(node, level) {
            return;
        }
        // The farthest of those that keep enough others, if there is one.
        let farthest = self.links(node, level).iter().max_by_key(|&other| {
            let keeps = self.links(other, level).len() > LINKS_LEFT_MIN;
            (keeps, Near { distance: self.distance(node, other), node: other })
        });
        if let Some(farthest) = farthest {
            self.unlink(node, farthest, level);
        }
    }

    /// Inserts a node of an image, without links.
    pub(crate) fn insert_unlinked(&mut self, vector: EncodedRef<'_>, level: usize) -> u32 {
        let node = self.occupy(vector, level);
        if self.entry.is_none_or(|entry| self.level(entry) < level) {
            self.entry = Some(node);
        }
        node
    }

    /// Sets the links of a node of an image on a level; false if there are too many. That they go
    /// both ways is the caller's to check.
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
