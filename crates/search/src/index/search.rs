//! A run of a query: in steps, between which the index may change. The result is that of the
//! moment at which the run began.

use crate::index::condition::Condition;
use crate::index::contents::{Contents, Version};
use crate::index::cursor::{Ranges, rows};
use crate::index::field::FieldStore;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

/// Rows of the first step. Later ones are as long as time allows.
pub const FIRST_STEP: u32 = 16_384;

/// A query.
#[derive(Debug)]
pub struct Query {
    /// Condition on documents.
    pub condition: Condition,
    /// Keys of the documents, with their hashes; none for all.
    pub keys: Option<Vec<(u64, Box<[u8]>)>>,
    /// Order of the result.
    pub order: Order,
    /// Number of hits to return.
    pub needed: usize,
    /// Time in Unix milliseconds, by which documents expire.
    pub now_ms: i64,
}

/// Orders of results. Equal documents follow in the order of their rows, documents without a value
/// are last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// By row.
    Rows,
    /// By the score of the document, descending.
    Scores,
    /// By a field that has its values in the index.
    Field {
        /// The field.
        field: usize,
        /// Whether high values are first.
        is_descending: bool,
    },
}

/// A found document.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The key.
    pub key: Box<[u8]>,
    /// Score of the document.
    pub score: f32,
    /// The value that it was sorted by.
    pub sort_key: SortKey,
    /// The row.
    pub row: u32,
}

/// A value to sort by.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SortKey {
    /// A number.
    Number(f64),
    /// A text.
    Text(Box<[u8]>),
    /// The document lacks the field.
    #[default]
    Missing,
}

impl SortKey {
    /// Compares two values; missing ones are last in both directions.
    pub fn compare(&self, other: &Self, is_descending: bool) -> Ordering {
        let ordering = match (self, other) {
            (SortKey::Number(a), SortKey::Number(b)) => a.total_cmp(b),
            (SortKey::Text(a), SortKey::Text(b)) => a.cmp(b),
            (SortKey::Number(_), SortKey::Text(_)) => Ordering::Less,
            (SortKey::Text(_), SortKey::Number(_)) => Ordering::Greater,
            (SortKey::Missing, SortKey::Missing) => return Ordering::Equal,
            (SortKey::Missing, _) => return Ordering::Greater,
            (_, SortKey::Missing) => return Ordering::Less,
        };
        if is_descending { ordering.reverse() } else { ordering }
    }
}

/// A run of a query.
#[derive(Debug)]
pub struct Run<'q> {
    query: &'q Query,
    born: u64,
    /// Stamp of the contents that the run sees.
    stamp: u64,
    next: u32,
    total: usize,
    ranges: Ranges,
    top: BinaryHeap<Candidate>,
    is_descending: bool,
}

/// A hit in the heap of the best: the worst is the greatest.
#[derive(Debug)]
struct Candidate {
    hit: Hit,
    is_descending: bool,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.hit.sort_key.compare(&other.hit.sort_key, self.is_descending);
        order.then(self.hit.row.cmp(&other.hit.row))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Found {
    /// Number of documents that match.
    pub total: usize,
    /// The first of them.
    pub hits: Vec<Hit>,
}

impl<'q> Run<'q> {
    /// Begins a run that sees the present contents.
    pub fn new(query: &'q Query, contents: &Contents) -> Self {
        Run {
            query,
            born: contents.born(),
            stamp: contents.stamp(),
            next: 0,
            total: 0,
            ranges: Ranges::default(),
            top: BinaryHeap::new(),
            is_descending: match query.order {
                Order::Rows => false,
                Order::Scores => true,
                Order::Field { is_descending, .. } => is_descending,
            },
        }
    }

    /// Whether these are the contents that the run began with, and not those after a flush.
    pub fn is_of(&self, contents: &Contents) -> bool {
        self.born == contents.born()
    }

    /// The stamp of the contents that the run sees.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Walks about `len` rows further; returns whether the run is over. Between two steps the
    /// versions of the run's stamp are kept ([`Contents::clean`]).
    pub fn step(&mut self, contents: &Contents, len: u32) -> bool {
        if let Some(keys) = &self.query.keys {
            self.look_up(keys, contents);
            return true;
        }
        let rows_end = contents.documents().end();
        let end = self.next.saturating_add(len);
        // The cursors borrow the ranges, which outlive the step.
        let ranges = std::mem::take(&mut self.ranges);
        let mut cursor = rows(&self.query.condition, contents, &ranges, end);
        cursor.seek(self.next);
        while let Some(row) = cursor.current()
            && row < end
        {
            self.take_row(row, contents);
            cursor.advance();
        }
        let next = cursor.current().unwrap_or(u32::MAX).max(end);
        drop(cursor);
        self.ranges = ranges;
        // Rows of this step that have changed since the run began, as they were then.
        let walked = self.next..next;
        for version in contents.versions() {
            if walked.contains(&version.row) && self.query.condition.matches(&*version.values) {
                self.take_version(version);
            }
        }
        self.next = next;
        next >= rows_end
    }

    /// Takes the hits of the last step, in the order of their rows: for queries that need all.
    pub fn take_hits(&mut self) -> Vec<Hit> {
        let hits = std::mem::take(&mut self.top).into_sorted_vec();
        hits.into_iter().map(|candidate| candidate.hit).collect()
    }

    /// The result so far.
    pub fn finish(self) -> Found {
        let hits = self.top.into_sorted_vec().into_iter().map(|candidate| candidate.hit);
        Found { total: self.total, hits: hits.collect() }
    }

    fn look_up(&mut self, keys: &[(u64, Box<[u8]>)], contents: &Contents) {
        let mut seen = HashSet::new();
        for (hash, key) in keys {
            let row = contents.documents().find(*hash, key);
            if let Some(row) = row
                && seen.insert(row)
                && contents.documents().visible().contains(row)
                && self.query.condition.matches(&contents.row(row))
            {
                self.take_row(row, contents);
            }
        }
    }

    fn take_row(&mut self, row: u32, contents: &Contents) {
        let Some(document) = contents.documents().get(row) else { return };
        if document.stamp > self.stamp || document.has_expired(self.query.now_ms) {
            return;
        }
        self.total += 1;
        if self.query.needed == 0 {
            return;
        }
        let sort_key = match self.query.order {
            Order::Rows => SortKey::Missing,
            Order::Scores => SortKey::Number(f64::from(document.score)),
            Order::Field { field, .. } => match contents.field(field) {
                Some(FieldStore::Numbers(store)) => {
                    store.number(row).map_or(SortKey::Missing, SortKey::Number)
                }
                Some(FieldStore::Tags(store)) => {
                    let text = store.text_of(row);
                    if self.is_beaten_by_text(text) {
                        return;
                    }
                    text.map_or(SortKey::Missing, |text| SortKey::Text(text.into()))
                }
                None => SortKey::Missing,
            },
        };
        let is_full = self.top.len() >= self.query.needed;
        if is_full && self.is_beaten(&sort_key, row) {
            return;
        }
        let hit = Hit { key: document.key.clone(), score: document.score, sort_key, row };
        self.keep(hit, is_full);
    }

    /// Whether a text is behind all hits of a full heap.
    fn is_beaten_by_text(&self, text: Option<&[u8]>) -> bool {
        if self.top.len() < self.query.needed {
            return false;
        }
        match (self.top.peek().map(|worst| &worst.hit.sort_key), text) {
            (Some(SortKey::Text(worst)), Some(text)) => match self.is_descending {
                true => *text < **worst,
                false => *text > **worst,
            },
            _ => false,
        }
    }

    fn is_beaten(&self, sort_key: &SortKey, row: u32) -> bool {
        self.top.peek().is_some_and(|worst| {
            let order = sort_key.compare(&worst.hit.sort_key, self.is_descending);
            order.then(row.cmp(&worst.hit.row)) != Ordering::Less
        })
    }

    fn keep(&mut self, hit: Hit, is_full: bool) {
        if is_full {
            self.top.pop();
        }
        self.top.push(Candidate { hit, is_descending: self.is_descending });
    }

    fn take_version(&mut self, version: &Version) {
        let has_expired = version.expiry.is_some_and(|at| at <= self.query.now_ms);
        if has_expired || !version.stamps.contains(&self.stamp) {
            return;
        }
        self.total += 1;
        if self.query.needed == 0 {
            return;
        }
        let sort_key = match self.query.order {
            Order::Rows => SortKey::Missing,
            Order::Scores => SortKey::Number(f64::from(version.score)),
            Order::Field { field, .. } => version.sort_key(field),
        };
        let is_full = self.top.len() >= self.query.needed;
        if !(is_full && self.is_beaten(&sort_key, version.row)) {
            let key = version.key.clone();
            self.keep(Hit { key, score: version.score, sort_key, row: version.row }, is_full);
        }
    }
}

impl Version {
    fn sort_key(&self, field: usize) -> SortKey {
        use crate::index::document::Value;
        match self.values.get(field) {
            Some(Value::Number(number)) => SortKey::Number(*number),
            Some(Value::Tags(_, Some(text))) => SortKey::Text(text.clone()),
            _ => SortKey::Missing,
        }
    }
}
