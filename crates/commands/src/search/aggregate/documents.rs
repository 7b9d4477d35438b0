//! Values of rows, read from hashes under their locks. A document that no longer matches is gone.

use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::search::aggregate::job::Found;
use crate::search::load::{read, reader, with_hash};
use petrel_keyspace::HashRef;
use petrel_search::aggregate::columns::empty_row;
use petrel_search::aggregate::pipeline::{Documents, Row};
use petrel_search::aggregate::plan::{Load, Plan, Source, column_value, loaded_value};
use petrel_search::aggregate::value::Value;
use petrel_search::index::document::Stored;

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
        let schema = self.found.schema;
        self.with_document(&key, |hash| {
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
        })
    }
}

impl Reader<'_, '_, '_> {
    /// The row of a document, with the index's values computed from the hash.
    pub fn row(&mut self, plan: &Plan, key: &[u8], score: f64) -> Result<Option<Row>, Fail> {
        let mut row = empty_row(plan, key, score);
        let Found { schema, vectors, .. } = self.found;
        let is_there = self.with_document(key, |hash| {
            for &(field, slot) in &plan.columns {
                let source = &schema.fields[field].source;
                row.values[slot] = value_of(hash, source, |text| column_value(schema, field, text));
            }
            let document = Stored { schema, get: reader(hash, schema) };
            for (distance, &slot) in vectors.distances.iter().zip(&plan.distances) {
                row.values[slot] = distance.near.distance(&document).map(Value::Number);
            }
        })?;
        Ok(is_there.then_some(row))
    }

    /// Calls `work` with the hash of a document that matches; returns whether it does.
    fn with_document(&mut self, key: &[u8], work: impl FnOnce(&HashRef<'_>)) -> Result<bool, Fail> {
        self.ctx.pace(UNITS_PER_DOCUMENT)?;
        let Found { schema, condition, vectors } = self.found;
        let mut matches = false;
        with_hash(self.ctx, key, |hash| {
            let document = Stored { schema, get: reader(hash, schema) };
            matches = document.fits() && condition.matches(&document);
            matches &= vectors.has_neighbour(&document);
            if matches {
                work(hash);
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
