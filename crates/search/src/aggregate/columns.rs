//! Rows of found documents, with the values that the index has of them.

use crate::aggregate::pipeline::Row;
use crate::aggregate::plan::Plan;
use crate::aggregate::value::Value;
use crate::index::contents::{Contents, Version};
use crate::index::distances::VectorQuery;
use crate::index::document;
use crate::index::field::FieldStore;
use crate::index::search::Hit;
use std::collections::HashMap;

/// Makes rows of the hits of a run, between two steps of which nothing has changed.
pub struct Columns<'c> {
    plan: &'c Plan,
    contents: &'c Contents,
    vectors: &'c VectorQuery,
    /// Stamp of the run.
    stamp: u64,
    /// Earlier versions by row, once one is needed.
    versions: Option<HashMap<u32, &'c Version>>,
}

impl<'c> Columns<'c> {
    /// Values as a run of this stamp sees them.
    pub fn new(
        plan: &'c Plan,
        contents: &'c Contents,
        vectors: &'c VectorQuery,
        stamp: u64,
    ) -> Self {
        Columns { plan, contents, vectors, stamp, versions: None }
    }

    /// The row of a hit.
    pub fn row(&mut self, hit: &Hit, score: f64) -> Row {
        let mut row = empty_row(self.plan, &hit.key, score);
        if self.plan.columns.is_empty() && self.plan.distances.is_empty() {
            return row;
        }
        let document = self.contents.documents().get(hit.row);
        let is_current = document
            .is_some_and(|document| document.stamp <= self.stamp && document.key == hit.key);
        let version = match is_current {
            true => None,
            false => self.version(hit.row),
        };
        for &(field, slot) in &self.plan.columns {
            row.values[slot] = match (is_current, version) {
                (true, _) => present(self.contents, field, hit.row),
                (false, Some(version)) => earlier(version, field),
                (false, None) => None,
            };
        }
        for (distance, &slot) in self.vectors.distances.iter().zip(&self.plan.distances) {
            let number = match (is_current, version) {
                (true, _) => distance.near.distance(&self.contents.row(hit.row)),
                (false, Some(version)) => distance.near.distance(&*version.values),
                (false, None) => None,
            };
            row.values[slot] = number.map(Value::Number);
        }
        row
    }

    fn version(&mut self, row: u32) -> Option<&'c Version> {
        let (contents, stamp) = (self.contents, self.stamp);
        let versions = self.versions.get_or_insert_with(|| {
            let versions = contents.versions().iter();
            let of_stamp = versions.filter(|version| version.stamps.contains(&stamp));
            of_stamp.map(|version| (version.row, version)).collect()
        });
        versions.get(&row).copied()
    }
}

/// A row without values of fields.
pub fn empty_row(plan: &Plan, key: &[u8], score: f64) -> Row {
    let mut row = Row { values: vec![None; plan.slots], score, ..Row::default() };
    if plan.keeps_keys {
        row.key = Some(key.into());
    }
    if let Some(slot) = plan.score {
        row.values[slot] = Some(Value::Number(score));
    }
    row
}

fn present(contents: &Contents, field: usize, row: u32) -> Option<Value> {
    match contents.field(field) {
        Some(FieldStore::Tags(store)) => store.text_of(row).map(Value::text),
        Some(FieldStore::Numbers(store)) => store.number(row).map(Value::Number),
        Some(FieldStore::Text(store)) => store.sort_key(row).map(Value::text),
        Some(FieldStore::Vectors(_)) | None => None,
    }
}

fn earlier(version: &Version, field: usize) -> Option<Value> {
    match version.values.get(field) {
        Some(document::Value::Number(number)) => Some(Value::Number(*number)),
        Some(document::Value::Tags(_, Some(text)) | document::Value::Text(Some(text))) => {
            Some(Value::text(text))
        }
        _ => None,
    }
}
