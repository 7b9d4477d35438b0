//! Nearest neighbours by a walk over a graph.
//!
//! | documents that pass the condition | search |
//! |---|---|
//! | few: at most twice the distances of a walk without a condition | all of them are compared |
//! | at least 40 % | walk through all nodes, keeping passing ones |
//! | between | walk from passing node to passing node, over those between them |
//!
//! A walk that finds too few, or looks at too many nodes, gives way to the comparison of all.

use crate::index::condition::Condition;
use crate::index::contents::Contents;
use crate::index::cursor::estimate;
use crate::index::field::FieldStore;
use crate::index::search::Query;
use crate::structures::graph_vectors::GraphVectors;
use crate::vectors::Algorithm;
use petrel_vector::Walk;

/// Documents that are compared one by one, for each candidate of a walk.
const SCANNED_PER_EF: usize = if cfg!(test) { 2 } else { 64 };

/// Minimum share of passing documents for a walk through all nodes.
const SHARE_THROUGH_ALL: f64 = 0.4;

/// Nodes that a walk may expand, for each candidate.
const EXPANDED_PER_EF: usize = 8;

/// Nodes of which the share of passing ones is estimated.
const SAMPLES: u32 = 64;

/// Rows without vectors in the time of a node's links.
const ROWS_PER_NODE: u32 = 64;

/// A walk, between two steps of which the index may change.
pub(super) struct GraphWalk {
    walk: Walk,
    target: petrel_vector::Query,
    over_others: bool,
}

impl std::fmt::Debug for GraphWalk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphWalk").field("over_others", &self.over_others).finish_non_exhaustive()
    }
}

/// The graph of a query's neighbours, if there is one.
pub(super) fn graph_of<'c>(query: &Query, contents: &'c Contents) -> Option<&'c GraphVectors> {
    let field = query.vectors.distances.first()?.near.field;
    match contents.field(field) {
        Some(FieldStore::Vectors(store)) => store.graph(),
        _ => None,
    }
}

impl GraphWalk {
    /// Begins a walk, if it is the faster way. `passes` tells whether the document of a row is
    /// searched.
    pub fn begin(
        query: &Query,
        contents: &Contents,
        passes: &dyn Fn(u32) -> bool,
    ) -> Option<Box<Self>> {
        let vectors = &query.vectors;
        let near = &vectors.distances.first()?.near;
        let graph = graph_of(query, contents)?;
        let Algorithm::Hnsw(hnsw) = &near.vector.spec.algorithm else { return None };
        // Words are no part of the values of a row.
        let has_words = matches!(query.condition, Condition::Words(_));
        if has_words || vectors.is_brute_force || query.keys.is_some() {
            return None;
        }
        let ef = vectors.ef.unwrap_or(hnsw.ef_runtime);
        let ef = usize::try_from(ef).unwrap_or(usize::MAX).max(vectors.neighbours?);
        let ef = ef.min(graph.len());
        let few = ef.saturating_mul(SCANNED_PER_EF);
        if estimate(&query.condition, contents).min(graph.len()) <= few {
            return None;
        }
        let is_all = query.condition == Condition::Everything;
        let share = if is_all { 1.0 } else { share(graph, passes) };
        if share * graph.len() as f64 <= few as f64 {
            return None;
        }
        let target = graph.query(near.vector.prepared());
        let walk = match is_all {
            true => Walk::begin(graph.graph(), &target, ef),
            false => {
                let most = ef.saturating_mul(EXPANDED_PER_EF);
                Walk::begin_passing(graph.graph(), &target, ef, most)
            }
        };
        Some(Box::new(GraphWalk { walk, target, over_others: share < SHARE_THROUGH_ALL }))
    }

    /// Expands as many nodes as take the time of `rows` rows; returns whether there are more.
    pub fn step(
        &mut self,
        vectors: &GraphVectors,
        rows: u32,
        passes: &dyn Fn(u32) -> bool,
    ) -> bool {
        let graph = vectors.graph();
        self.walk.resume(graph);
        let most = (rows / ROWS_PER_NODE).max(1) as usize;
        let most = if self.over_others { most.div_ceil(8) } else { most };
        let nodes = self.walk.nodes_at_once(graph, most);
        let mut is_passing = |node| vectors.row(node).is_some_and(passes);
        let goes_on = match self.over_others {
            true => self.walk.step_over(graph, &self.target, nodes, &mut is_passing),
            false => self.walk.step(graph, &self.target, nodes, &mut is_passing),
        };
        if goes_on {
            self.walk.pause(graph);
        }
        goes_on
    }

    /// Rows of the found nodes, and whether the walk has ended by itself.
    pub fn finish(mut self, vectors: &GraphVectors) -> (Vec<u32>, bool) {
        let is_complete = !self.walk.is_exhausted();
        let found = self.walk.finish();
        (found.iter().filter_map(|near| vectors.row(near.node)).collect(), is_complete)
    }
}

/// Share of the nodes that pass, by some of them.
fn share(vectors: &GraphVectors, passes: &dyn Fn(u32) -> bool) -> f64 {
    let end = vectors.graph().end();
    let step = (end / SAMPLES).max(1);
    let rows = (0..end).step_by(step as usize).filter_map(|node| vectors.row(node));
    let (mut all, mut passing) = (0, 0);
    for row in rows {
        all += 1;
        passing += u32::from(passes(row));
    }
    f64::from(passing) / f64::from(all.max(1))
}
