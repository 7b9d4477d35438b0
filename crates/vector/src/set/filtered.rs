//! Searching for elements that pass a filter.
//!
//! What the filter says is [remembered](super::memo), so that a filter which comes again costs a
//! bit for each element that is met. Then the share of passing elements decides:
//!
//! | passing | search |
//! |---|---|
//! | few: what a walk without a filter looks at, or twice that | each of them is looked at |
//! | from 40 % | a walk through all, which keeps what passes |
//! | between | a walk from passing to passing, over what lies between two of them |
//!
//! While not all is known, each search asks the filter for some thousands more, walks as far as
//! [`Search::filter_ef`] allows, and adds the nearest of what is known to pass.

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

/// Elements of which a search asks the filter, for each that it may look at.
const ASKED_PER_LOOK: usize = 16;

/// Elements that are looked at one by one, for each that a walk keeps on its way: about twice as
/// many distances as the walk takes.
const SCANNED_PER_EF: usize = 64;

/// From this share of passing elements on a walk goes through all.
const SHARE_THROUGH_ALL: f64 = 0.4;

/// Work, in about ten nanoseconds, before the lock is released for others.
const UNITS_PER_HOLD: usize = hold(65_536);

/// A filter and what is known of it.
struct Known<'f> {
    filter: &'f Filter,
    memo: Arc<Memo>,
    /// Work since the lock was last released for others, in about ten nanoseconds.
    done: Cell<usize>,
}

impl Known<'_> {
    fn passes(&self, inner: &Inner, node: u32) -> bool {
        if let Some(passes) = self.memo.known_of(node) {
            return passes;
        }
        self.note(inner.filter_units(node, self.filter));
        self.memo.ask(inner, node, self.filter)
    }

    fn note(&self, units: usize) {
        self.done.set(self.done.get() + units);
    }

    /// Elements that pass, of all.
    fn share(&self) -> f64 {
        self.memo.passing() as f64 / self.memo.known().max(1) as f64
    }
}

impl VectorSet {
    /// The nearest elements that pass, nearest first, at least [`Search::count`] if there are.
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
            true => self.look_at_passing(inner, query, &mut known, ef, go_on)?,
            false => Vec::new(),
        };
        if is_few && is_all_known {
            return Some(found);
        }
        let over_others = is_all_known && known.share() < SHARE_THROUGH_ALL;
        let walked = self.walk_to_passing(inner, query, search, &mut known, over_others, go_on);
        found.extend(walked?);
        if found.len() < search.count && is_all_known {
            found.extend(self.look_at_passing(inner, query, &mut known, ef, go_on)?);
        }
        found.sort_unstable();
        found.dedup_by_key(|near| near.node);
        Some(found)
    }

    /// Releases the lock for others; known values are read again. None if the search is ended.
    fn give_way(
        &self,
        inner: &mut RwLockReadGuard<'_, Inner>,
        known: &mut Known<'_>,
        best: &mut BinaryHeap<Near>,
        go_on: GoOn<'_>,
    ) -> Option<()> {
        if !self.let_others_in(inner, best, known.done.take(), go_on) {
            return None;
        }
        known.memo = self.memos.of(known.filter, inner.graph.end());
        Some(())
    }

    /// Asks the filter about elements that it was not asked about, at most `max`.
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
                self.give_way(inner, known, &mut BinaryHeap::new(), go_on)?;
            }
        }
        Some(())
    }

    /// The nearest of those that are known to pass, by looking at each.
    fn look_at_passing(
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
            known.note(self.shape.distance_units());
            if known.done.get() >= UNITS_PER_HOLD {
                self.give_way(inner, known, &mut best, go_on)?;
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
            known.note(nodes * graph.node_units());
            walk.pause(&inner.graph);
            self.give_way(inner, known, &mut BinaryHeap::new(), go_on)?;
            walk.resume(&inner.graph);
        }
    }
}
