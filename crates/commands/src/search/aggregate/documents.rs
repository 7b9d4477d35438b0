//! Values of rows, read from documents under their locks. A document that no longer matches is
//! gone.

use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::search::aggregate::job::Found;
use crate::search::load::whole;
use crate::search::stored::{
    ROOT, Stored, field_value, path_value, read, sorted_value, with_document,
};
use petrel_json::{Path, Value as Json};
use petrel_keyspace::HashRef;
use petrel_search::aggregate::columns::empty_row;
use petrel_search::aggregate::pipeline::{Documents, Row};
use petrel_search::aggregate::plan::{Load, Plan, Source, column_value, loaded_value};
use petrel_search::aggregate::value::Value;
use petrel_search::index::json::JsonPaths;
use petrel_search::index::schema::Schema;
use std::sync::Arc;

/// Work units of reading a document.
const UNITS_PER_DOCUMENT: usize = 40;

/// Reads the documents of a job.
pub(super) struct Reader<'r, 'c, 'x> {
    pub ctx: &'r mut Ctx<'c>,
    pub found: Found<'x>,
}

impl Documents for Reader<'_, '_, '_> {
    type Error = Fail;

    fn load(&mut self, load: &Load, row: &mut Row) -> Result<bool, Fail> {
        let Some(key) = row.key.clone() else { return Ok(false) };
        let found = self.found;
        let named = self.named_paths(load);
        self.with_matching(&key, |stored| match stored {
            Stored::Hash(hash) => load_hash(hash, found.schema, load, row),
            Stored::Json(root, paths) => load_json(*root, paths, found, (load, &named), row),
        })
    }
}

/// Values of a hash.
fn load_hash(hash: &HashRef<'_>, schema: &Schema, load: &Load, row: &mut Row) {
    for (source, slot) in &load.fields {
        let value = match source {
            Source::Key => continue,
            Source::Field(field) => {
                let source = &schema.fields[*field].source;
                value_of(hash, source, |text| loaded_value(schema, *field, text))
            }
            Source::Name(name) => value_of(hash, name, Value::text),
        };
        row.values[*slot] = value;
    }
    if let Some(named) = &load.all {
        row.extra.clear();
        let (mut names, mut values) = (itoa::Buffer::new(), itoa::Buffer::new());
        hash.each(&mut |field| {
            let name = field.name.bytes(&mut names);
            let value = || Value::text(field.value.bytes(&mut values));
            match named.get(name) {
                Some(Some(slot)) => row.values[*slot] = Some({ value }()),
                // A computed value has the name.
                Some(None) => {}
                None => row.extra.push((name.into(), { value }())),
            }
        });
    }
}

/// Values of a JSON document. `named`: paths that are no fields.
fn load_json(
    root: Json<'_>,
    paths: &JsonPaths,
    found: Found<'_>,
    (load, named): (&Load, &[Option<Arc<Path>>]),
    row: &mut Row,
) {
    let showing = found.showing;
    for (at, (source, slot)) in load.fields.iter().enumerate() {
        row.values[*slot] = match (source, named.get(at)) {
            (Source::Key, _) => continue,
            (Source::Field(field), _) => paths
                .path(*field)
                .and_then(|path| field_value((&found.schema.fields[*field], path), root, showing)),
            (Source::Name(_), Some(Some(path))) => path_value(path, root, showing),
            (Source::Name(_), _) => None,
        };
    }
    if let Some(named) = &load.all {
        row.extra.clear();
        let value = whole(root, showing);
        match (named.get(ROOT), value) {
            (Some(Some(slot)), value) => row.values[*slot] = value,
            (None, Some(value)) => row.extra.push((ROOT.into(), value)),
            _ => {}
        }
    }
}

impl Reader<'_, '_, '_> {
    /// Paths of JSON documents that are named and no fields.
    fn named_paths(&mut self, load: &Load) -> Vec<Option<Arc<Path>>> {
        if self.found.paths.is_none() {
            return Vec::new();
        }
        let cache = &mut self.ctx.exec.paths;
        let parsed = load.fields.iter().map(|(source, _)| match source {
            Source::Name(name) if name.starts_with(b"$") => {
                let path = cache.parse(std::str::from_utf8(name).ok()?).ok()?;
                Some(path).filter(|path| !path.is_projection() && !path.is_legacy())
            }
            _ => None,
        });
        parsed.collect()
    }

    /// The row of a document, with the index's values computed from the document.
    pub fn row(&mut self, plan: &Plan, key: &[u8], score: f64) -> Result<Option<Row>, Fail> {
        let mut row = empty_row(plan, key, score);
        let Found { schema, vectors, .. } = self.found;
        let is_there = self.with_matching(key, |stored| {
            for &(field, slot) in &plan.columns {
                let definition = &schema.fields[field];
                row.values[slot] = match stored {
                    Stored::Hash(hash) => {
                        value_of(hash, &definition.source, |text| column_value(schema, field, text))
                    }
                    Stored::Json(root, paths) => {
                        paths.path(field).and_then(|path| sorted_value((definition, path), *root))
                    }
                };
            }
            for (distance, &slot) in vectors.distances.iter().zip(&plan.distances) {
                row.values[slot] = stored.distance(schema, &distance.near).map(Value::Number);
            }
        })?;
        Ok(is_there.then_some(row))
    }

    /// Calls `work` with a document that matches; returns whether it does.
    fn with_matching(&mut self, key: &[u8], work: impl FnOnce(&Stored<'_>)) -> Result<bool, Fail> {
        self.ctx.pace(UNITS_PER_DOCUMENT)?;
        let Found { schema, condition, vectors, paths, .. } = self.found;
        let mut matches = false;
        with_document(self.ctx, key, paths, |stored| {
            matches = stored.matches(schema, condition) && stored.is_neighbour(schema, vectors);
            if matches {
                work(stored);
            }
        })?;
        Ok(matches)
    }
}

fn value_of(hash: &HashRef<'_>, name: &[u8], make: impl FnOnce(&[u8]) -> Value) -> Option<Value> {
    let (mut value, mut make) = (None, Some(make));
    read(hash, name, &mut |text| value = make.take().map(|make| make(text)));
    value
}
