//! Nearest neighbours of a query: their order in the result, and a second look at those that have
//! changed since they were found.

use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::search::load::{is_as_found, is_match};
use crate::search::query::Searched;
use crate::search::stored::{Stored, read, with_document};
use petrel_search::index::distances::VectorQuery;
use petrel_search::index::schema::{FieldKind, Schema, fold, parse_number};
use petrel_search::index::search::{Found, Hit, Order, SortKey};
use petrel_search::query::ast::{Knn, Node, NodeKind};
use std::sync::Arc;

/// Work units of reading a hit.
const UNITS_PER_HIT: usize = 40;

/// Takes the search for neighbours out of a query, which leaves the condition on documents.
pub(super) fn take_knn(tree: &mut Node) -> Option<Box<Knn>> {
    let everything = || Node::new(NodeKind::Everything);
    match std::mem::replace(&mut tree.kind, NodeKind::Everything) {
        NodeKind::Knn(mut knn) => {
            *tree = std::mem::replace(&mut knn.filter, everything());
            Some(knn)
        }
        kind => {
            tree.kind = kind;
            None
        }
    }
}

/// A query for some more neighbours.
pub(super) fn with_more(vectors: &Arc<VectorQuery>, more: usize) -> Arc<VectorQuery> {
    match vectors.neighbours {
        Some(count) if more > 0 => Arc::new(VectorQuery {
            neighbours: Some(count.saturating_add(more)),
            ..VectorQuery::clone(vectors)
        }),
        _ => vectors.clone(),
    }
}

/// Brings neighbours into the order of the result. With some more of them than wanted, those that
/// are gone are dropped first; returns false if too few are left.
pub(super) fn arrange(
    ctx: &mut Ctx<'_>,
    searched: &Searched<'_, '_>,
    found: &mut Found,
    more: usize,
) -> Result<bool, Fail> {
    let wanted = searched.vectors.neighbours.unwrap_or_default();
    let mut is_complete = true;
    if more > 0 {
        let len = found.hits.len();
        let mut kept = Vec::new();
        for hit in std::mem::take(&mut found.hits) {
            if kept.len() < wanted && is_there(ctx, &hit, searched)? {
                kept.push(hit);
            }
        }
        is_complete = kept.len() == wanted || len < wanted.saturating_add(more);
        found.hits = kept;
        found.total = found.hits.len();
    }
    let hits = &mut found.hits;
    match (searched.options.sort, searched.order) {
        (None, Order::Scores) => {
            hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
            hits.iter_mut().for_each(|hit| hit.sort_key = SortKey::Missing);
        }
        (None, _) => {
            hits.sort_by_key(|hit| hit.row);
            hits.iter_mut().for_each(|hit| hit.sort_key = SortKey::Missing);
        }
        (Some(_), Order::Distance { number: 0, is_descending: false }) => {}
        (Some((name, is_descending)), _) => {
            for hit in hits.iter_mut() {
                hit.sort_key = sort_key(ctx, searched, hit, name)?;
            }
            hits.sort_by(|a, b| {
                a.sort_key.compare(&b.sort_key, is_descending).then(a.row.cmp(&b.row))
            });
        }
    }
    Ok(is_complete)
}

/// Whether a neighbour has not changed since it was found, or still is one.
fn is_there(ctx: &mut Ctx<'_>, hit: &Hit, searched: &Searched<'_, '_>) -> Result<bool, Fail> {
    ctx.pace(UNITS_PER_HIT)?;
    let keyspace = ctx.exec.ks.keyspace().clone();
    let bits = ctx.exec.ks.hash(&hit.key).bits();
    if is_as_found(hit, bits, searched, &keyspace) {
        return Ok(true);
    }
    let mut is_there = false;
    with_document(ctx, &hit.key, searched.index.paths.as_deref(), |stored| {
        is_there = is_match(hit, stored, searched);
    })?;
    Ok(is_there)
}

/// The value of a neighbour to sort by, read from its key.
fn sort_key(
    ctx: &mut Ctx<'_>,
    searched: &Searched<'_, '_>,
    hit: &Hit,
    name: &[u8],
) -> Result<SortKey, Fail> {
    let schema = &searched.index.schema;
    let mut key = SortKey::Missing;
    if let (Order::Distance { number: 0, .. }, Some(distance)) = (searched.order, hit.distance) {
        return Ok(SortKey::Number(distance));
    }
    ctx.pace(UNITS_PER_HIT)?;
    with_document(ctx, &hit.key, None, |stored| {
        if let Order::Distance { number, .. } = searched.order {
            let distance = searched.vectors.distances.get(number);
            let distance = distance.and_then(|it| stored.distance(schema, &it.near));
            key = distance.map_or(SortKey::Missing, SortKey::Number);
        } else if let (Some(number), Stored::Hash(hash)) = (schema.field(name), stored) {
            let source = &schema.fields[number].source;
            read(hash, source, &mut |text| key = stored_key(schema, number, text));
        }
    })?;
    Ok(key)
}

/// A value to sort by, as the index has it.
fn stored_key(schema: &Schema, number: usize, text: &[u8]) -> SortKey {
    let field = &schema.fields[number];
    let keeps_case = match field.kind {
        FieldKind::Number => {
            return parse_number(text).map_or(SortKey::Missing, SortKey::Number);
        }
        FieldKind::Tag { is_case_sensitive, .. } => is_case_sensitive || field.is_unfolded,
        _ => field.is_unfolded,
    };
    let mut folded = Vec::new();
    fold(text, keeps_case || !field.is_sortable, &mut folded);
    SortKey::Text(folded.into())
}
