//! Removal of nodes: their neighbours are linked with each other.

use super::{Graph, Near};

/// Maximum number of neighbours of a removed node with which each neighbour is compared.
const COMPARED_MAX: usize = 128;

impl Graph {
    /// Removes a node and its links; the number may be reused.
    pub fn remove(&mut self, node: u32) {
        let top = self.level(node);
        let entry_next = self.entry_without(node);
        for level in 0..=top {
            let neighbours: Vec<u32> = self.links(node, level).iter().collect();
            for &neighbour in &neighbours {
                self.unlink(node, neighbour, level);
            }
            self.repair(&neighbours, level);
        }
        self.change(node, |chunk, at| chunk.free(at));
        self.free.push(node);
        self.changes += 1;
        self.len -= 1;
        self.level_lens[top] -= 1;
        self.entry = entry_next;
    }

    /// Entry point of searches after a node is removed.
    fn entry_without(&self, node: u32) -> Option<u32> {
        if self.entry != Some(node) {
            return self.entry;
        }
        let top = self.level(node);
        let others = |level: usize| self.level_lens[level] - u32::from(level == top);
        let highest = (0..=top).rev().find(|&level| others(level) > 0)?;
        let is_it = |&other: &u32| other != node && self.level(other) == highest;
        let links = self.links(node, highest).iter().find(is_it);
        links.or_else(|| (0..self.end()).find(|other| self.contains(*other) && is_it(other)))
    }

    /// Links nodes that have lost a neighbour with each other, nearest pairs first: each node once,
    /// nodes with too few links twice. Each is compared with the next [`COMPARED_MAX`] nodes, which
    /// are all unless the number of links is unusual.
    fn repair(&mut self, nodes: &[u32], level: usize) {
        let pairs = self.unlinked_pairs(nodes, level);
        let few = usize::from(self.shape.links / 4).max(2);
        let mut gained = vec![0usize; nodes.len()];
        for (near, a, b) in pairs {
            let is_poor = |at: usize| self.links(nodes[at], level).len() < few;
            let wants = |at: usize| gained[at] == 0 || (gained[at] < 2 && is_poor(at));
            let is_wanted = wants(a) || wants(b);
            if is_wanted && self.has_room(nodes[a], level) && self.has_room(near.node, level) {
                self.link(nodes[a], near.node, level);
                gained[a] += 1;
                gained[b] += 1;
            }
        }
    }

    /// Pairs of unlinked nodes, nearest first: the second node, and the indexes of both in `nodes`.
    fn unlinked_pairs(&self, nodes: &[u32], level: usize) -> Vec<(Near, usize, usize)> {
        let mut pairs = Vec::new();
        // With many nodes: a bit for each neighbour of the current one.
        let is_many = nodes.len() > COMPARED_MAX;
        let mut linked = vec![0u64; if is_many { self.end() as usize / 64 + 1 } else { 0 }];
        for (at, &a) in nodes.iter().enumerate() {
            let links = self.links(a, level);
            if is_many {
                links.iter().for_each(|node| linked[node as usize / 64] |= 1 << (node % 64));
            }
            let others = nodes.iter().enumerate().skip(at + 1).take(COMPARED_MAX);
            for (other, &b) in others {
                let is_linked = match is_many {
                    true => linked[b as usize / 64] >> (b % 64) & 1 != 0,
                    false => links.contains(b),
                };
                if !is_linked {
                    pairs.push((Near { distance: self.distance(a, b), node: b }, at, other));
                }
            }
            if is_many {
                links.iter().for_each(|node| linked[node as usize / 64] = 0);
            }
        }
        pairs.sort_unstable_by_key(|&(near, at, _)| (near, nodes[at]));
        pairs
    }
}
