//! Searches concurrent with changes.

use super::VectorSet;
use super::lock::{RwLockReadGuard, hold};
use crate::GoOn;
use crate::filter::Filter;
use crate::graph::{Near, Walk};
use crate::quantise::Query;
use std::collections::BinaryHeap;

/// Number of nodes that a search expands before it releases the lock.
pub(super) const NODES_PER_HOLD: usize = hold(256);

/// Number of nodes that an exact search compares before it releases the lock, and maximum work in
/// units of about ten nanoseconds.
const SCANNED_PER_HOLD: usize = hold(4096);
const UNITS_PER_HOLD: usize = 65_536;

/// Parameters of a search.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Maximum number of elements.
    pub count: usize,
    /// Number of candidates kept during the walk (`EF`): more improve recall.
    pub ef: usize,
    /// Maximum distance, halved: 0 to 1.
    pub epsilon: Option<f64>,
    /// With a filter: maximum number of nodes that a walk expands.
    pub filter_ef: usize,
    /// Compare every element instead of walking the graph.
    pub exact: bool,
}

/// An element of the result.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Name of the element.
    pub name: Box<[u8]>,
    /// Distance, 0 to 2.
    pub distance: f32,
    /// Attributes of the element.
    pub attributes: Option<Box<[u8]>>,
}

impl VectorSet {
    /// The elements nearest to a vector, nearest first. Elements present throughout the search are
    /// found as if nothing changed meanwhile; elements added or removed meanwhile may or may not be
    /// found.
    pub fn search(&self, query: &Query, search: &Search, filter: Option<&Filter>) -> Vec<Hit> {
        self.search_while(query, search, filter, &mut |_| true).unwrap_or_default()
    }

    /// Like [`Self::search`], but returns none once `go_on`, which is called while the set is
    /// unlocked, returns false.
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
            true => self.scan_all(&mut inner, query, search.count, filter, go_on)?,
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

    fn scan_all(
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
            // With a filter one by one, since its cost depends on the attributes.
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
                if from < inner.graph.end() && !self.yield_lock(inner, &mut best, done, go_on) {
                    return None;
                }
                done = 0;
            }
        }
        Some(best.into_sorted_vec())
    }

    /// Unlocks briefly and calls `go_on`; then drops elements that were removed meanwhile.
    pub(super) fn yield_lock(
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
