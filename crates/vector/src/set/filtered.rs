//! Filtered search.
//!
//! Results of the filter are [memoised](super::memo), so a repeated filter costs one bit test for
//! each visited element. The strategy depends on the selectivity:
//!
//! | passing elements | search |
//! |---|---|
//! | few: up to about twice the distances of an unfiltered walk | brute-force scan of them |
//! | at least 40 % | walk through all nodes, keeping passing ones |
//! | between | walk from passing node to passing node, over those between them |
//!
//! While not all results are memoised, each search evaluates the filter for some thousands more,
//! walks as far as [`Search::filter_ef`] allows, and adds the nearest elements that are known to
//! pass.

use super::lock::{RwLockReadGuard, hold};
use super::memo::Memo;
use super::search::{NODES_PER_HOLD, Search};
use super::{Inner, VectorSet};
use crate::GoOn;
use crate::filter::Filter;
use crate::graph::{Near, Walk};
use crate::quantise::Query;
use std::cell::Cell;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Number of elements for which a search evaluates the filter, for each node that it may expand.
const ASKED_PER_LOOK: usize = 16;

/// Number of elements scanned by brute force, for each candidate that a walk keeps: about twice as
/// many distances as the walk computes.
const SCANNED_PER_EF: usize = 64;

/// Minimum share of passing elements for a walk through all nodes.
const SHARE_THROUGH_ALL: f64 = 0.4;

/// Work before the lock is released, in units of about ten nanoseconds.
const UNITS_PER_HOLD: usize = hold(65_536);

/// A filter and its memoised results.
struct Known<'f> {
    filter: &'f Filter,
    memo: Arc<Memo>,
    /// Work since the lock was last released, in units of about ten nanoseconds.
    done: Cell<usize>,
}

impl Known<'_> {
    fn passes(&self, inner: &Inner, node: u32) -> bool {
        if let Some(passes) = self.memo.known_of(node) {
            return passes;
        }
        self.count_work(inner.filter_units(node, self.filter));
        self.memo.ask(inner, node, self.filter)
    }

    fn count_work(&self, units: usize) {
        self.done.set(self.done.get() + units);
    }

    /// Share of elements that pass.
    fn share(&self) -> f64 {
        self.memo.passing() as f64 / self.memo.known().max(1) as f64
    }
}

impl VectorSet {
    /// The nearest passing elements, nearest first; at least [`Search::count`] if that many pass.
    pub(super) fn search_passing(
        &self,
        inner: &mut RwLockReadGuard<'_, Inner>,
        query: &Query,
        search: &Search,
        filter: &Filter,
        go_on: GoOn<'_>,
    ) -> Option<Vec<Near>> {
        let memo = self.memos.of(filter, inner.graph.end());
        let mut known = Known { filter, memo, done: Cell::new(0) };
        self.ask(inner, &mut known, search.filter_ef.saturating_mul(ASKED_PER_LOOK), go_on)?;
        let ef = search.ef.max(search.count).min(inner.graph.len());
        let is_few = known.memo.passing() <= ef.saturating_mul(SCANNED_PER_EF);
        let is_all_known = known.memo.known() >= inner.names.len();
        let mut found = match is_few {
            true => self.scan_passing(inner, query, &mut known, ef, go_on)?,
            false => Vec::new(),
        };
        if is_few && is_all_known {
            return Some(found);
        }
        let over_others = is_all_known && known.share() < SHARE_THROUGH_ALL;
        let walked = self.walk_to_passing(inner, query, search, &mut known, over_others, go_on);
        found.extend(walked?);
        if found.len() < search.count && is_all_known {
            found.extend(self.scan_passing(inner, query, &mut known, ef, go_on)?);
        }
        found.sort_unstable();
        found.dedup_by_key(|near| near.node);
        Some(found)
    }

    /// Releases the lock briefly and reloads the memo. None if the search is stopped.
    fn yield_and_reload(
        &self,
        inner: &mut RwLockReadGuard<'_, Inner>,
        known: &mut Known<'_>,
        best: &mut BinaryHeap<Near>,
        go_on: GoOn<'_>,
    ) -> Option<()> {
        if !self.yield_lock(inner, best, known.done.take(), go_on) {
            return None;
        }
        known.memo = self.memos.of(known.filter, inner.graph.end());
        Some(())
    }

    /// Evaluates the filter for elements without a memoised result, at most `max`.
    fn ask(
        &self,
        inner: &mut RwLockReadGuard<'_, Inner>,
        known: &mut Known<'_>,
        max: usize,
        go_on: GoOn<'_>,
    ) -> Option<()> {
        let (mut asked, mut at) = (0, 0);
        while known.memo.known() < inner.names.len() && asked < max {
            let next = known.memo.next_unknown(at).filter(|&node| node < inner.graph.end());
            let Some(node) = next else { break };
            at = node + 1;
            if !inner.graph.contains(node) {
                continue;
            }
            known.passes(inner, node);
            asked += 1;
            if known.done.get() >= UNITS_PER_HOLD {
                self.yield_and_reload(inner, known, &mut BinaryHeap::new(), go_on)?;
            }
        }
        Some(())
    }

    /// The nearest of the elements that are known to pass, by comparing each.
    fn scan_passing(
        &self,
        inner: &mut RwLockReadGuard<'_, Inner>,
        query: &Query,
        known: &mut Known<'_>,
        count: usize,
        go_on: GoOn<'_>,
    ) -> Option<Vec<Near>> {
        let mut best = BinaryHeap::new();
        let mut at = 0;
        while let Some(node) = known.memo.next_passing(at) {
            at = node + 1;
            inner.graph.keep_nearest(query, node, count, &mut best);
            known.count_work(self.shape.distance_units());
            if known.done.get() >= UNITS_PER_HOLD {
                self.yield_and_reload(inner, known, &mut best, go_on)?;
            }
        }
        Some(inner.graph.rank(query, best.into_sorted_vec(), count))
    }

    fn walk_to_passing(
        &self,
        inner: &mut RwLockReadGuard<'_, Inner>,
        query: &Query,
        search: &Search,
        known: &mut Known<'_>,
        over_others: bool,
        go_on: GoOn<'_>,
    ) -> Option<Vec<Near>> {
        let ef = search.ef.max(search.count).min(inner.graph.len());
        let mut walk = Walk::begin_passing(&inner.graph, query, ef, search.filter_ef);
        loop {
            let graph = &inner.graph;
            let nodes = match over_others {
                // Each may lead over all of its neighbours to theirs.
                true => walk.nodes_at_once(graph, graph.nodes_at_once(NODES_PER_HOLD / 8)),
                false => walk.nodes_at_once(graph, NODES_PER_HOLD),
            };
            let mut passes = |node| known.passes(inner, node);
            let goes_on = match over_others {
                true => walk.step_over(graph, query, nodes, &mut passes),
                false => walk.step(graph, query, nodes, &mut passes),
            };
            if !goes_on {
                return Some(graph.rank(query, walk.finish(), search.count));
            }
            known.count_work(nodes * graph.node_units());
            walk.pause(&inner.graph);
            self.yield_and_reload(inner, known, &mut BinaryHeap::new(), go_on)?;
            walk.resume(&inner.graph);
        }
    }
}
