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
use super::search::Search;
use super::{Inner, VectorSet};
use crate::filter::Filter;
use crate::graph::{Near, Walk};
use crate::quantise::Query;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Elements of which a search asks the filter, for each that it may look at.
const ASKED_PER_LOOK: usize = 16;

/// Elements that are looked at one by one, for each that a walk keeps on its way: about twice as
/// many distances as the walk takes.
const SCANNED_PER_EF: usize = 64;

/// From this share of passing elements on a walk goes through all.
const SHARE_THROUGH_ALL: f64 = 0.4;

/// Elements that are asked about, or looked at, before writers go first.
const NODES_PER_HOLD: usize = hold(2048);

/// A filter and what is known of it.
struct Known<'f> {
    filter: &'f Filter,
    memo: Arc<Memo>,
}

impl Known<'_> {
    fn passes(&self, inner: &Inner, node: u32) -> bool {
        self.memo.passes(inner, node, self.filter)
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
    ) -> Vec<Near> {
        let mut known = Known { filter, memo: self.memos.of(filter, inner.graph.end()) };
        self.ask(inner, &mut known, search.filter_ef.saturating_mul(ASKED_PER_LOOK));
        let ef = search.ef.max(search.count).min(inner.graph.len());
        let is_few = known.memo.passing() <= ef.saturating_mul(SCANNED_PER_EF);
        let is_all_known = known.memo.known() >= inner.names.len();
        let mut found = match is_few {
            true => self.look_at_passing(inner, query, &mut known, ef),
            false => Vec::new(),
        };
        if is_few && is_all_known {
            return found;
        }
        let over_others = is_all_known && known.share() < SHARE_THROUGH_ALL;
        found.extend(self.walk_to_passing(inner, query, search, &mut known, over_others));
        if found.len() < search.count && is_all_known {
            found.extend(self.look_at_passing(inner, query, &mut known, ef));
        }
        found.sort_unstable();
        found.dedup_by_key(|near| near.node);
        found
    }

    /// Lets writers go first; what is known is asked for anew.
    fn give_way(
        &self,
        inner: &mut RwLockReadGuard<'_, Inner>,
        known: &mut Known<'_>,
        best: &mut BinaryHeap<Near>,
    ) {
        self.let_writers_in(inner, best);
        known.memo = self.memos.of(known.filter, inner.graph.end());
    }

    /// Asks the filter about elements that it was not asked about, at most `max`.
    fn ask(&self, inner: &mut RwLockReadGuard<'_, Inner>, known: &mut Known<'_>, max: usize) {
        let (mut asked, mut at) = (0, 0);
        while known.memo.known() < inner.names.len() && asked < max {
            let next = known.memo.next_unknown(at).filter(|&node| node < inner.graph.end());
            let Some(node) = next else { return };
            at = node + 1;
            if !inner.graph.contains(node) {
                continue;
            }
            known.passes(inner, node);
            asked += 1;
            if asked.is_multiple_of(NODES_PER_HOLD) {
                self.give_way(inner, known, &mut BinaryHeap::new());
            }
        }
    }

    /// The nearest of those that are known to pass, by looking at each.
    fn look_at_passing(
        &self,
        inner: &mut RwLockReadGuard<'_, Inner>,
        query: &Query,
        known: &mut Known<'_>,
        count: usize,
    ) -> Vec<Near> {
        let mut best = BinaryHeap::new();
        let (mut looked, mut at) = (0usize, 0);
        while let Some(node) = known.memo.next_passing(at) {
            at = node + 1;
            inner.graph.keep_nearest(query, node, count, &mut best);
            looked += 1;
            if looked.is_multiple_of(NODES_PER_HOLD) {
                self.give_way(inner, known, &mut best);
            }
        }
        inner.graph.rank(query, best.into_sorted_vec(), count)
    }

    fn walk_to_passing(
        &self,
        inner: &mut RwLockReadGuard<'_, Inner>,
        query: &Query,
        search: &Search,
        known: &mut Known<'_>,
        over_others: bool,
    ) -> Vec<Near> {
        let ef = search.ef.max(search.count).min(inner.graph.len());
        let mut walk = Walk::begin_passing(&inner.graph, query, ef, search.filter_ef);
        loop {
            let graph = &inner.graph;
            let mut passes = |node| known.passes(inner, node);
            let goes_on = match over_others {
                true => walk.step_over(graph, query, super::search::NODES_PER_HOLD, &mut passes),
                false => walk.step(graph, query, super::search::NODES_PER_HOLD, &mut passes),
            };
            if !goes_on {
                return inner.graph.rank(query, walk.finish(), search.count);
            }
            walk.pause(&inner.graph);
            self.give_way(inner, known, &mut BinaryHeap::new());
            walk.resume(&inner.graph);
        }
    }
}
