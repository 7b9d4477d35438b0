//! Nodes that go: their neighbours are linked with each other.

use super::{Graph, Near};

impl Graph {
    /// Removes a node and its links; the number may be given to another.
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

    /// Where searches begin when a node is gone.
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

    /// Links nodes that have lost a neighbour with each other, the nearest pairs first, each once
    /// and those that have too few links twice.
    fn repair(&mut self, nodes: &[u32], level: usize) {
        let mut pairs = Vec::new();
        for (i, &a) in nodes.iter().enumerate() {
            for &b in &nodes[i + 1..] {
                if !self.links(a, level).contains(b) {
                    pairs.push((Near { distance: self.distance(a, b), node: b }, a));
                }
            }
        }
        pairs.sort_unstable();
        let few = usize::from(self.shape.links / 4).max(2);
        let mut gained = vec![0usize; nodes.len()];
        for (near, a) in pairs {
            let b = near.node;
            let place = |node| nodes.iter().position(|&it| it == node).unwrap_or_default();
            let (at_a, at_b) = (place(a), place(b));
            let is_poor = |node: u32| self.links(node, level).len() < few;
            let wants = |node, gained: usize| gained == 0 || (gained < 2 && is_poor(node));
            let is_wanted = wants(a, gained[at_a]) || wants(b, gained[at_b]);
            if is_wanted && self.has_room(a, level) && self.has_room(b, level) {
                self.link(a, b, level);
                gained[at_a] += 1;
                gained[at_b] += 1;
            }
        }
    }
}
