//! Searching beside changes.

use super::VectorSet;
use super::lock::{RwLockReadGuard, hold};
use crate::GoOn;
use crate::filter::Filter;
use crate::graph::{Near, Walk};
use crate::quantise::Query;
use std::collections::BinaryHeap;

/// Nodes whose links a search follows before it lets writers go first.
pub(super) const NODES_PER_HOLD: usize = hold(256);

/// Nodes that a search which looks at all of them sees before it does; fewer if that takes long, in
/// about ten nanoseconds.
const SCANNED_PER_HOLD: usize = hold(4096);
const UNITS_PER_HOLD: usize = 65_536;

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Maximum number of elements.
    pub count: usize,
    /// Number of the nearest kept on the way (`EF`): more find better ones.
    pub ef: usize,
    /// The greatest distance, halved: 0 to 1.
    pub epsilon: Option<f64>,
    /// With a filter: how many nodes a walk follows the links of, at most.
    pub filter_ef: usize,
    /// Every element is looked at instead.
    pub exact: bool,
}

/// An element that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Its name.
    pub name: Box<[u8]>,
    /// Distance, 0 to 2.
    pub distance: f32,
    /// Its attributes.
    pub attributes: Option<Box<[u8]>>,
}

impl VectorSet {
    /// The elements nearest to a vector, nearest first. What is there from the beginning to the end
    /// is found as it would be if nothing changed meanwhile; what comes or goes meanwhile may be
    /// found or not.
    pub fn search(&self, query: &Query, search: &Search, filter: Option<&Filter>) -> Vec<Hit> {
        self.search_while(query, search, filter, &mut |_| true).unwrap_or_default()
    }

    /// Like [`Self::search`], but none if `go_on`, which is called while the set is not locked,
    /// ends it.
    pub fn search_while(
        &self,
        query: &Query,
        search: &Search,
        filter: Option<&Filter>,
        go_on: GoOn<'_>,
    ) -> Option<Vec<Hit>> {
        if !self.shape.takes(query) {
            return Some(Vec::new());
        }
        let mut inner = self.inner.read();
        let nearest = match search.exact {
            true => self.look_at_all(&mut inner, query, search.count, filter, go_on)?,
            false => match filter {
                Some(filter) => self.search_passing(&mut inner, query, search, filter, go_on)?,
                None => self.walk(&mut inner, query, search, go_on)?,
            },
        };
        let epsilon = search.epsilon.unwrap_or(f64::INFINITY);
        let hit = |near: Near| {
            let element = inner.element(near.node)?;
            let attributes = element.attributes.map(Into::into);
            Some(Hit { name: element.name.into(), distance: near.distance, attributes })
        };
        let is_near = |near: &Near| f64::from(near.distance) / 2.0 <= epsilon;
        Some(nearest.into_iter().take(search.count).filter(is_near).filter_map(hit).collect())
    }

    fn walk(
        &self,
        inner: &mut RwLockReadGuard<'_, super::Inner>,
        query: &Query,
        search: &Search,
        go_on: GoOn<'_>,
    ) -> Option<Vec<Near>> {
        let ef = search.ef.max(search.count).min(inner.graph.len());
        let mut walk = Walk::begin(&inner.graph, query, ef);
        loop {
            let nodes = walk.nodes_at_once(&inner.graph, NODES_PER_HOLD);
            if !walk.step(&inner.graph, query, nodes, &mut |_| true) {
                return Some(inner.graph.rank(query, walk.finish(), search.count));
            }
            walk.pause(&inner.graph);
            let units = nodes * inner.graph.node_units();
            if !RwLockReadGuard::unlocked(inner, || go_on(units)) {
                return None;
            }
            walk.resume(&inner.graph);
        }
    }

    fn look_at_all(
        &self,
        inner: &mut RwLockReadGuard<'_, super::Inner>,
        query: &Query,
        count: usize,
        filter: Option<&Filter>,
        go_on: GoOn<'_>,
    ) -> Option<Vec<Near>> {
        let mut best = BinaryHeap::new();
        let mut from = 0;
        let (mut done, units) = (0, self.shape.distance_units());
        while from < inner.graph.end() {
            // With a filter one by one: how long it takes depends on the attributes.
            let at_once = if filter.is_some() { 1 } else { UNITS_PER_HOLD / units };
            let to = from.saturating_add(at_once.clamp(1, SCANNED_PER_HOLD) as u32);
            let to = to.min(inner.graph.end());
            inner.graph.scan(query, from..to, count, &mut best, &mut |node| {
                filter.is_none_or(|filter| {
                    done += inner.filter_units(node, filter);
                    inner.passes(node, filter)
                })
            });
            done += (to - from) as usize * units;
            from = to;
            if done >= UNITS_PER_HOLD || at_once > 1 {
                if from < inner.graph.end() && !self.let_others_in(inner, &mut best, done, go_on) {
                    return None;
                }
                done = 0;
            }
        }
        Some(best.into_sorted_vec())
    }

    /// Unlocks for a moment and asks whether to go on; forgets elements that are gone after it.
    pub(super) fn let_others_in(
        &self,
        inner: &mut RwLockReadGuard<'_, super::Inner>,
        best: &mut BinaryHeap<Near>,
        units: usize,
        go_on: GoOn<'_>,
    ) -> bool {
        let changes = inner.graph.changes();
        let generation = |node| inner.graph.generation(node);
        let known: Vec<(Near, u32)> =
            best.iter().map(|&near| (near, generation(near.node))).collect();
        if !RwLockReadGuard::unlocked(inner, || go_on(units)) {
            return false;
        }
        if inner.graph.changes() != changes {
            let is_same = |&(near, generation): &(Near, u32)| {
                inner.graph.contains(near.node) && inner.graph.generation(near.node) == generation
            };
            *best = known.into_iter().filter(is_same).map(|(near, _)| near).collect();
        }
        true
    }
}

impl super::Inner {
    /// Units for applying a filter to a node, of about ten nanoseconds.
    pub(super) fn filter_units(&self, node: u32, filter: &Filter) -> usize {
        let attributes = self.element(node).and_then(|element| element.attributes);
        filter.units(attributes.map_or(0, <[u8]>::len))
    }

    pub(super) fn passes(&self, node: u32, filter: &Filter) -> bool {
        let attributes = self.element(node).and_then(|element| element.attributes);
        attributes.is_some_and(|attributes| filter.passes(attributes))
    }
}
