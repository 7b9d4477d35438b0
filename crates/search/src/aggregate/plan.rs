//! Plans: the steps of an aggregation with names resolved to slots of rows.

use crate::aggregate::expression::{self, Expression};
use crate::aggregate::group::Grouping;
use crate::aggregate::lookup::Lookup;
use crate::aggregate::reducer::{self, Reducer};
use crate::aggregate::sort::SortKeys;
use crate::aggregate::step::{Arrange, LoadedField, Reduce, Step};
use crate::aggregate::value::Value;
use crate::index::distances::VectorQuery;
use crate::index::schema::{FieldKind, Schema, fold, parse_number};
use std::collections::{HashMap, HashSet};

/// Name of the property that holds a document's key.
const KEY: &[u8] = b"__key";
/// Name of the property that holds a document's score.
const SCORE: &[u8] = b"__score";

/// A resolved aggregation.
#[derive(Debug)]
pub struct Plan {
    /// Fields with values in the index, and their slots.
    pub columns: Vec<(usize, usize)>,
    /// Slots of the query's distances.
    pub distances: Vec<usize>,
    /// Slot of the document's score.
    pub score: Option<usize>,
    /// Number of slots of a document's row.
    pub slots: usize,
    /// Whether documents are read before the first group or sort.
    pub reads_documents: bool,
    /// Whether rows have the keys of their documents.
    pub keeps_keys: bool,
    /// Number of results of a page without an order, or with an offset. A cursor is not over after
    /// that many.
    pub page: Option<usize>,
    /// Slot of the first property that results are sorted by.
    pub sort_key: Option<usize>,
    /// Names and slots of results.
    pub names: Vec<(Box<[u8]>, usize)>,
    pub(super) stages: Vec<Stage>,
}

/// A step of a plan.
#[derive(Debug)]
pub(super) enum Stage {
    Load(Load),
    Apply(Expression, usize),
    Filter(Expression),
    Sort {
        keys: SortKeys,
        most: usize,
    },
    Page {
        offset: usize,
        count: usize,
    },
    /// Counts rows and gives none: `LIMIT 0 0`.
    Count,
    /// The number of slots is that of the results.
    Group(Grouping, usize),
}

/// Values to read from a document.
#[derive(Debug, Default)]
pub struct Load {
    /// The values with their slots.
    pub fields: Vec<(Source, usize)>,
    /// For `LOAD *`, the names that have a slot, or are replaced by a computed value.
    pub all: Option<HashMap<Box<[u8]>, Option<usize>>>,
}

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The key.
    Key,
    /// A field of the index.
    Field(usize),
    /// A field of the hash.
    Name(Box<[u8]>),
}

impl Load {
    /// Whether the document is needed.
    pub fn reads(&self) -> bool {
        self.all.is_some() || self.fields.iter().any(|(source, _)| *source != Source::Key)
    }
}

/// The value of a field as its document has it.
pub fn loaded_value(schema: &Schema, field: usize, text: &[u8]) -> Value {
    match schema.fields[field].kind {
        FieldKind::Number => parse_number(text).map_or_else(|| Value::text(text), Value::Number),
        _ => Value::text(text),
    }
}

/// The value of a field as the index has it, made of its document's.
pub fn column_value(schema: &Schema, field: usize, text: &[u8]) -> Value {
    if keeps_text(schema, field) || matches!(schema.fields[field].kind, FieldKind::Number) {
        return loaded_value(schema, field, text);
    }
    let mut folded = Vec::new();
    fold(text, false, &mut folded);
    Value::text(&folded)
}

/// Whether the index has the values of a field. Of JSON documents it may lack others beside them.
fn has_column(schema: &Schema, field: usize) -> bool {
    let field = &schema.fields[field];
    field.is_sortable || matches!(field.kind, FieldKind::Number) && !schema.is_json()
}

/// Whether the index has the values of a field as its documents do.
fn keeps_text(schema: &Schema, field: usize) -> bool {
    let field = &schema.fields[field];
    let is_case_sensitive = match field.kind {
        FieldKind::Tag { is_case_sensitive, .. } => is_case_sensitive,
        _ => false,
    };
    field.is_unfolded || is_case_sensitive || schema.is_json()
}

impl Plan {
    /// Resolves steps. Without columns, values of JSON documents are read from these, since the
    /// index has the first only.
    ///
    /// # Errors
    /// A text for the user.
    pub fn new(
        steps: &[Step<'_>],
        (schema, has_columns): (&Schema, bool),
        vectors: &VectorQuery,
        adds_scores: bool,
        results_max: usize,
    ) -> Result<Self, Vec<u8>> {
        let mut builder = Builder {
            schema,
            has_columns,
            lookup: Lookup::default(),
            is_grouped: false,
            columns: Vec::new(),
            stages: Vec::new(),
            implied: Load::default(),
            folded: HashSet::new(),
            computed: HashSet::new(),
            group: None,
            sort_key: None,
            page: None,
            slots: 0,
            results_max,
        };
        let distances = vectors.distances.iter().map(|distance| builder.lookup.set(&distance.name));
        let distances: Vec<usize> = distances.collect();
        builder.computed.extend(&distances);
        let score = adds_scores.then(|| builder.lookup.set(SCORE));
        for step in steps {
            builder.step(step)?;
        }
        builder.end_phase();
        let Builder { lookup, columns, stages, slots, sort_key, page, .. } = builder;
        let is_blocking =
            |stage: &Stage| matches!(stage, Stage::Sort { .. } | Stage::Group(..) | Stage::Count);
        let first = stages.iter().position(is_blocking).unwrap_or(stages.len());
        let reads = |stages: &[Stage]| {
            stages.iter().any(|stage| matches!(stage, Stage::Load(load) if load.reads()))
        };
        let loads = |stage: &Stage| matches!(stage, Stage::Load(_));
        Ok(Plan {
            columns,
            distances,
            score,
            slots,
            reads_documents: reads(&stages[..first]),
            keeps_keys: stages.iter().any(loads),
            sort_key,
            page,
            names: lookup.names().to_vec(),
            stages,
        })
    }
}

struct Builder<'s> {
    schema: &'s Schema,
    has_columns: bool,
    lookup: Lookup,
    /// Whether rows are groups, and no longer documents.
    is_grouped: bool,
    columns: Vec<(usize, usize)>,
    stages: Vec<Stage>,
    /// Values that a step needs and no `LOAD` names.
    implied: Load,
    /// Slots of folded values of the index.
    folded: HashSet<usize>,
    /// Slots of computed values.
    computed: HashSet<usize>,
    /// The last group step.
    group: Option<usize>,
    sort_key: Option<usize>,
    page: Option<usize>,
    slots: usize,
    results_max: usize,
}

impl Builder<'_> {
    fn step(&mut self, step: &Step<'_>) -> Result<(), Vec<u8>> {
        match step {
            Step::Load(fields) => self.load(fields),
            Step::LoadAll => {
                self.refuse_load()?;
                let all = Some(HashMap::new());
                self.stages.push(Stage::Load(Load { fields: Vec::new(), all }));
                Ok(())
            }
            Step::Group { by, reducers } => self.group(by, reducers),
            Step::Arrange(arrange) => self.arrange(arrange),
            Step::Apply { expression, name } => {
                let expression = self.expression(expression)?;
                let slot = self.lookup.set(name);
                self.computed.insert(slot);
                self.stages.push(Stage::Apply(expression, slot));
                Ok(())
            }
            Step::Filter(expression) => {
                let expression = self.expression(expression)?;
                self.stages.push(Stage::Filter(expression));
                Ok(())
            }
        }
    }

    fn refuse_load(&self) -> Result<(), Vec<u8>> {
        match self.is_grouped {
            true => Err(b"LOAD cannot be applied after projectors or reducers".to_vec()),
            false => Ok(()),
        }
    }

    fn load(&mut self, fields: &[LoadedField<'_>]) -> Result<(), Vec<u8>> {
        self.refuse_load()?;
        let mut load = Load::default();
        for LoadedField { field, name } in fields {
            if let Some(slot) = self.lookup.find(name)
                && !self.folded.contains(&slot)
            {
                continue;
            }
            let number = self.schema.field(field);
            let slot = self.lookup.set(name);
            match number {
                Some(number) if self.schema.is_json() => {
                    load.fields.push((Source::Field(number), slot));
                }
                Some(number) if matches!(self.schema.fields[number].kind, FieldKind::Number) => {
                    self.columns.push((number, slot));
                }
                Some(number)
                    if self.schema.fields[number].is_sortable
                        && keeps_text(self.schema, number) =>
                {
                    self.columns.push((number, slot));
                }
                Some(number) => load.fields.push((Source::Field(number), slot)),
                None if *field == KEY => load.fields.push((Source::Key, slot)),
                None => load.fields.push((Source::Name((*field).into()), slot)),
            }
        }
        if !load.fields.is_empty() {
            self.stages.push(Stage::Load(load));
        }
        Ok(())
    }

    /// The slot of a property; its value is loaded if it must be.
    fn property(&mut self, name: &[u8]) -> Option<usize> {
        if let Some(slot) = self.lookup.find(name) {
            return Some(slot);
        }
        if self.is_grouped {
            return None;
        }
        let field = self.schema.field(name)?;
        Some(match self.has_column(field) {
            true => self.column(name, field),
            false => {
                let slot = self.lookup.set(name);
                self.implied.fields.push((Source::Field(field), slot));
                slot
            }
        })
    }

    fn has_column(&self, field: usize) -> bool {
        has_column(self.schema, field) && (self.has_columns || !self.schema.is_json())
    }

    fn column(&mut self, name: &[u8], field: usize) -> usize {
        let slot = self.lookup.set(name);
        self.columns.push((field, slot));
        let is_number = matches!(self.schema.fields[field].kind, FieldKind::Number);
        if !is_number && !keeps_text(self.schema, field) {
            self.folded.insert(slot);
        }
        slot
    }

    /// Adds a step that loads implied values.
    fn load_implied(&mut self) {
        let load = std::mem::take(&mut self.implied);
        if !load.fields.is_empty() {
            self.stages.push(Stage::Load(load));
        }
    }

    fn expression(&mut self, text: &[u8]) -> Result<Expression, Vec<u8>> {
        // Values are not loaded for expressions.
        let schema = self.schema;
        expression::parse(text, &mut |name| {
            let known = self.lookup.find(name);
            known.or_else(|| {
                let field = schema.field(name).filter(|_| !self.is_grouped)?;
                schema.fields[field].is_sortable.then(|| self.column(name, field))
            })
        })
    }

    fn arrange(&mut self, arrange: &Arrange<'_>) -> Result<(), Vec<u8>> {
        let (offset, count) = arrange.page();
        let count = count.min(self.results_max);
        if let Some(names) = &arrange.sort {
            let mut keys = Vec::with_capacity(names.len());
            for &(name, is_descending) in names {
                let slot = self
                    .property(name)
                    .ok_or_else(|| [b"Property `", name, b"` not loaded nor in schema"].concat())?;
                keys.push((slot, is_descending));
            }
            self.load_implied();
            self.sort_key = keys.first().map(|&(slot, _)| slot);
            if count > 0 {
                let most = offset.saturating_add(count);
                self.stages.push(Stage::Sort { keys: keys.into(), most });
            }
        }
        self.page = (arrange.sort.is_none() || offset > 0).then_some(count);
        self.stages.push(match count {
            0 => Stage::Count,
            _ => Stage::Page { offset, count },
        });
        Ok(())
    }

    fn group(&mut self, by: &[&[u8]], reducers: &[Reduce<'_>]) -> Result<(), Vec<u8>> {
        let mut after = Lookup::default();
        let twice = |name: &[u8]| [b"Property `", name, b"` specified more than once"].concat();
        let mut slots = Vec::with_capacity(by.len());
        for name in by {
            let slot = self.property(name);
            slots.push(slot.ok_or_else(|| [b"No such property `", *name, b"`"].concat())?);
            if after.find(name).is_some() {
                return Err(twice(name));
            }
            after.set(name);
        }
        let mut resolved: Vec<Reducer> = Vec::with_capacity(reducers.len());
        for reduce in reducers {
            resolved.push(reducer::resolve(reduce.function, reduce.arguments, &mut |name| {
                let name = name.strip_prefix(b"@").unwrap_or(name);
                self.property(name).ok_or_else(|| {
                    [b"Property `", name, b"` not present in document or pipeline"].concat()
                })
            })?);
            let name = reduce.name.map_or_else(|| generated_name(reduce), <[u8]>::to_vec);
            if after.find(&name).is_some() {
                return Err(twice(&name));
            }
            after.set(&name);
        }
        self.load_implied();
        self.end_phase();
        self.group = Some(self.stages.len());
        self.stages.push(Stage::Group(Grouping { by: slots, reducers: resolved }, 0));
        self.lookup = after;
        (self.sort_key, self.page) = (None, None);
        self.is_grouped = true;
        Ok(())
    }

    /// Ends a run of steps with the same slots.
    fn end_phase(&mut self) {
        let slots = self.lookup.slots();
        match self.group {
            None => self.slots = slots,
            Some(at) => {
                if let Some(Stage::Group(_, after)) = self.stages.get_mut(at) {
                    *after = slots;
                }
            }
        }
        if !self.is_grouped {
            let names = self.lookup.names().iter();
            let all: HashMap<Box<[u8]>, Option<usize>> = names
                .map(|(name, slot)| {
                    (name.clone(), Some(*slot).filter(|slot| !self.computed.contains(slot)))
                })
                .collect();
            for stage in &mut self.stages {
                if let Stage::Load(Load { all: Some(named), .. }) = stage {
                    *named = all.clone();
                }
            }
        }
    }
}

/// Name of the result of a reducer without `AS`.
fn generated_name(reduce: &Reduce<'_>) -> Vec<u8> {
    let mut name = b"__generated_alias".to_vec();
    name.extend_from_slice(reduce.function);
    for (number, argument) in reduce.arguments.iter().enumerate() {
        if number > 0 {
            name.push(b',');
        }
        name.extend_from_slice(argument.strip_prefix(b"@").unwrap_or(argument));
    }
    name.make_ascii_lowercase();
    name
}
