//! The run of a plan: rows in, results out. It can rest after any row, and owns all it needs.

use crate::aggregate::expression::evaluate;
use crate::aggregate::group::Groups;
use crate::aggregate::plan::{Load, Plan, Source, Stage};
use crate::aggregate::sort::Sorter;
use crate::aggregate::value::Value;
use std::collections::{HashMap, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

/// Number of names of `LOAD *` in a common order of all rows.
const ORDERED_NAMES_MAX: usize = 1024;

/// A row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Values by slot.
    pub values: Vec<Option<Value>>,
    /// Further fields of the document (`LOAD *`).
    pub extra: Vec<(Box<[u8]>, Value)>,
    /// Key of the document; none if no step needs it.
    pub key: Option<Arc<[u8]>>,
    /// Score of the document.
    pub score: f64,
    /// Number of the row among those of its step.
    pub number: u64,
}

impl Row {
    /// Bytes of the row.
    pub fn footprint(&self) -> usize {
        let values = self.values.iter().flatten().map(Value::footprint).sum::<usize>();
        let extra = self
            .extra
            .iter()
            .map(|(name, value)| name.len() + value.footprint() + size_of::<(Box<[u8]>, Value)>());
        size_of::<Self>()
            + self.values.capacity() * size_of::<Option<Value>>()
            + values
            + extra.sum::<usize>()
            + self.key.as_ref().map_or(0, |key| key.len() + 2 * size_of::<usize>())
    }
}

/// Reads documents.
pub trait Documents {
    /// Reasons for which the run stops.
    type Error;

    /// Reads values of the row's document; false if it is gone.
    ///
    /// # Errors
    /// The run stops.
    fn load(&mut self, load: &Load, row: &mut Row) -> Result<bool, Self::Error>;
}

/// A running plan.
#[derive(Debug)]
pub struct Pipeline {
    /// The plan.
    pub plan: Arc<Plan>,
    states: Vec<State>,
    /// The stage that gives rows; none while documents do.
    giving: Option<usize>,
    /// Rows that reached the end.
    results: VecDeque<Row>,
    /// Rows that were counted since the last reply.
    total: usize,
    /// The count at the first result since the last reply.
    shown_total: Option<usize>,
    error: Option<Vec<u8>>,
    /// A row that waits at a stage, since its document could not be read.
    waiting: Option<(Row, usize)>,
    is_full: bool,
    is_over: bool,
    rows: u64,
    order: HashMap<Box<[u8]>, usize>,
    /// Bytes of groups, sorted rows and results.
    bytes: i64,
}

#[derive(Debug)]
enum State {
    None,
    Page { skipped: usize, passed: usize },
    Sort(Sorter),
    Group(Groups),
}

impl Pipeline {
    /// A run before the first row.
    pub fn new(plan: Arc<Plan>) -> Self {
        let states = plan.stages.iter().map(|stage| match stage {
            Stage::Page { .. } => State::Page { skipped: 0, passed: 0 },
            Stage::Sort { .. } => State::Sort(Sorter::new()),
            Stage::Group(..) => State::Group(Groups::default()),
            _ => State::None,
        });
        Pipeline {
            states: states.collect(),
            plan,
            giving: None,
            results: VecDeque::new(),
            total: 0,
            shown_total: None,
            error: None,
            waiting: None,
            is_full: false,
            is_over: false,
            rows: 0,
            order: HashMap::new(),
            bytes: 0,
        }
    }

    /// Whether documents are taken.
    pub fn takes_documents(&self) -> bool {
        self.giving.is_none() && !self.is_over
    }

    /// Whether nothing is left but results that are ready.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Number of results that are ready.
    pub fn ready(&self) -> usize {
        self.results.len()
    }

    /// The error that ended the run.
    pub fn error(&self) -> Option<&[u8]> {
        self.error.as_deref()
    }

    /// Bytes that the run holds.
    pub fn footprint(&self) -> i64 {
        let names = self.order.len() * (size_of::<(Box<[u8]>, usize)>() + 16);
        let groups = self.states.iter().map(|state| match state {
            State::Group(groups) => groups.bytes as i64,
            _ => 0,
        });
        self.bytes + names as i64 + groups.sum::<i64>()
    }

    /// Takes the count that a reply shows first, and resets it.
    pub fn take_total(&mut self) -> usize {
        let total = self.shown_total.take().unwrap_or(self.total);
        self.total = 0;
        total
    }

    /// Takes the next result.
    pub fn take_result(&mut self) -> Option<Row> {
        let row = self.results.pop_front()?;
        self.bytes -= row.footprint() as i64;
        Some(row)
    }

    /// Adds a document's row.
    ///
    /// # Errors
    /// If a document cannot be read.
    pub fn push<D: Documents>(&mut self, mut row: Row, documents: &mut D) -> Result<(), D::Error> {
        self.resume(documents)?;
        if !self.takes_documents() {
            return Ok(());
        }
        self.total += 1;
        row.number = self.rows;
        self.rows += 1;
        self.pass(row, 0, documents)?;
        self.settle();
        Ok(())
    }

    /// Passes the waiting row on.
    fn resume<D: Documents>(&mut self, documents: &mut D) -> Result<(), D::Error> {
        if let Some((row, at)) = self.waiting.take() {
            self.pass(row, at, documents)?;
            self.settle();
        }
        Ok(())
    }

    /// Continues with the next group or sort once a `LIMIT` lets no more rows pass.
    fn settle(&mut self) {
        if self.is_full && !self.is_over {
            self.end_giving();
        }
    }

    /// No document follows.
    pub fn end_documents(&mut self) {
        if self.takes_documents() {
            self.end_giving();
        }
    }

    /// Drops all that has not become a result.
    pub fn end(&mut self) {
        self.is_over = true;
        self.states.iter_mut().for_each(|state| *state = State::None);
        self.bytes = self.results.iter().map(|row| row.footprint() as i64).sum();
    }

    /// Moves up to `most` rows out of a group or sort, until `wanted` results are ready. Returns
    /// whether there is more to do.
    ///
    /// # Errors
    /// If a document cannot be read.
    pub fn step<D: Documents>(
        &mut self,
        wanted: usize,
        most: usize,
        documents: &mut D,
    ) -> Result<bool, D::Error> {
        self.resume(documents)?;
        for _ in 0..most {
            let Some(at) = self.giving.filter(|_| !self.is_over) else { return Ok(false) };
            if self.results.len() >= wanted {
                return Ok(false);
            }
            match self.take_from(at) {
                Some(row) => self.pass(row, at + 1, documents)?,
                None => self.is_full = true,
            }
            self.settle();
        }
        Ok(!self.is_over && self.results.len() < wanted)
    }

    fn take_from(&mut self, at: usize) -> Option<Row> {
        match (&mut self.states[at], &self.plan.stages[at]) {
            (State::Sort(sorter), _) => {
                let row = sorter.take()?;
                self.bytes -= row.footprint() as i64;
                Some(row)
            }
            (State::Group(groups), Stage::Group(grouping, slots)) => {
                let mut values = groups.take(grouping)?;
                values.resize(*slots, None);
                self.rows += 1;
                Some(Row { values, number: self.rows, ..Row::default() })
            }
            _ => None,
        }
    }

    /// The next group or sort gives its rows, or the run is over.
    fn end_giving(&mut self) {
        self.is_full = false;
        let next = self.giving.map_or(0, |at| at + 1);
        if let Some(at) = self.giving {
            self.states[at] = State::None;
        }
        let is_blocking = |state: &State| matches!(state, State::Sort(_) | State::Group(_));
        let counts = |stage: &Stage| matches!(stage, Stage::Count);
        let found = (next..self.states.len())
            .find(|&at| is_blocking(&self.states[at]) || counts(&self.plan.stages[at]));
        match found {
            Some(at) if counts(&self.plan.stages[at]) => {
                let is_group = |stage: &Stage| matches!(stage, Stage::Group(..));
                if self.plan.stages[at..].iter().any(is_group) {
                    self.total = 0;
                }
                self.end();
            }
            Some(at) => {
                if let State::Group(groups) = &self.states[at] {
                    self.total = groups.len();
                }
                self.giving = Some(at);
            }
            None => self.is_over = true,
        }
    }

    fn fail(&mut self, error: Vec<u8>) {
        self.error = Some(error);
        self.end();
    }

    /// Passes a row through the stages from `first` on.
    fn pass<D: Documents>(
        &mut self,
        mut row: Row,
        first: usize,
        documents: &mut D,
    ) -> Result<(), D::Error> {
        let plan = self.plan.clone();
        for (at, stage) in plan.stages.iter().enumerate().skip(first) {
            match (stage, &mut self.states[at]) {
                (Stage::Load(load), _) => match load_row(load, &mut row, documents) {
                    Ok(true) => self.order_extra(&mut row),
                    Ok(false) => return Ok(()),
                    Err(error) => {
                        self.waiting = Some((row, at));
                        return Err(error);
                    }
                },
                (Stage::Apply(expression, slot), _) => match evaluate(expression, &row.values) {
                    Ok(value) => row.values[*slot] = Some(value),
                    Err(error) => {
                        self.fail(error.0);
                        return Ok(());
                    }
                },
                (Stage::Filter(expression), _) => match evaluate(expression, &row.values) {
                    Ok(value) if value.is_true() => {}
                    Ok(_) => return Ok(()),
                    Err(error) => {
                        self.fail(error.0);
                        return Ok(());
                    }
                },
                (Stage::Page { offset, count }, State::Page { skipped, passed }) => {
                    if *skipped < *offset {
                        *skipped += 1;
                        return Ok(());
                    }
                    *passed += 1;
                    self.is_full |= *passed >= *count;
                }
                (Stage::Sort { keys, most }, State::Sort(sorter)) => {
                    self.bytes += sorter.add(row, keys, *most);
                    return Ok(());
                }
                (Stage::Group(grouping, _), State::Group(groups)) => {
                    if let Err(error) = groups.add(grouping, &row.values) {
                        self.fail(error);
                    }
                    return Ok(());
                }
                // Counted, or after the end.
                _ => return Ok(()),
            }
        }
        self.shown_total.get_or_insert(self.total);
        self.bytes += row.footprint() as i64;
        self.results.push_back(row);
        Ok(())
    }

    /// Fields of `LOAD *` have the order in which they were first seen.
    fn order_extra(&mut self, row: &mut Row) {
        for (name, _) in &row.extra {
            if self.order.len() < ORDERED_NAMES_MAX && !self.order.contains_key(name) {
                self.order.insert(name.clone(), self.order.len());
            }
        }
        let place = |name: &[u8]| self.order.get(name).copied().unwrap_or(usize::MAX);
        row.extra.sort_by_key(|(name, _)| place(name));
    }
}

fn load_row<D: Documents>(load: &Load, row: &mut Row, documents: &mut D) -> Result<bool, D::Error> {
    for (source, slot) in &load.fields {
        if *source == Source::Key {
            row.values[*slot] = row.key.as_ref().map(|key| Value::Text(key.clone()));
        }
    }
    match load.reads() {
        true => documents.load(load, row),
        false => Ok(true),
    }
}
