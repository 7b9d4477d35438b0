//! A run of a query: in steps, between which the index may change. The result is that of the
//! moment at which the run began.

use crate::index::condition::{Condition, Words};
use crate::index::contents::{Contents, Version};
use crate::index::cursor::{Ranges, rows};
use crate::index::distances::{Distance, VectorQuery};
use crate::index::document::Document;
use crate::index::field::FieldStore;
use crate::index::words::{WordsWalk, estimate};
use crate::query::ast::Node;
use crate::query::{
    BoxedRows, Explanation, GivenRows, LeafFigures, LeafKind, Memory, OtherRows, Scoring,
    TextSearch,
};
use crate::structures::texts::Texts;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

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
    /// Distances, and the number of nearest neighbours. With that, these are the result, nearest
    /// first; order and number of hits are not looked at.
    pub vectors: Arc<VectorQuery>,
}

/// Orders of results. Equal documents follow in the order of their rows, documents without a value
/// are last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// By row.
    Rows,
    /// By score, descending: that of the query's words, if it has any, else that of the document.
    Scores,
    /// By a field that has its values in the index.
    Field {
        /// The field.
        field: usize,
        /// Whether high values are first.
        is_descending: bool,
    },
    /// By a distance of the query.
    Distance {
        /// Number of the distance.
        number: usize,
        /// Whether high values are first.
        is_descending: bool,
    },
}

/// A found document.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The key.
    pub key: Box<[u8]>,
    /// Score by the query's words, if it has any, else that of the document.
    pub score: f64,
    /// Explanation of the score, if it was asked for.
    pub explanation: Option<Explanation>,
    /// Sequence number of the last change of the document.
    pub sequence: u64,
    /// The value that it was sorted by.
    pub sort_key: SortKey,
    /// The row.
    pub row: u32,
    /// Distance of a nearest neighbour.
    pub distance: Option<f64>,
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
    memory: Memory,
    /// Figures of the scores, from the first step on.
    scoring: Option<Scoring>,
    score_max: f64,
    top: BinaryHeap<Candidate>,
    order: Order,
    needed: usize,
    is_descending: bool,
    is_over: bool,
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
    /// The highest score, if scores were asked for.
    pub score_max: f64,
    /// The query has more terms than are searched at once; the result is not complete.
    pub has_too_many_terms: bool,
}

impl<'q> Run<'q> {
    /// Begins a run that sees the present contents.
    pub fn new(query: &'q Query, contents: &Contents) -> Self {
        let (order, needed) = match query.vectors.neighbours {
            Some(count) => (Order::Distance { number: 0, is_descending: false }, count),
            None => (query.order, query.needed),
        };
        Run {
            query,
            born: contents.born(),
            stamp: contents.stamp(),
            next: 0,
            total: 0,
            ranges: Ranges::default(),
            memory: Memory::default(),
            scoring: None,
            score_max: 0.0,
            top: BinaryHeap::new(),
            order,
            needed,
            is_descending: match order {
                Order::Rows => false,
                Order::Scores => true,
                Order::Field { is_descending, .. } | Order::Distance { is_descending, .. } => {
                    is_descending
                }
            },
            is_over: false,
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
        self.is_over = self.walk(contents, len);
        self.is_over
    }

    fn walk(&mut self, contents: &Contents, len: u32) -> bool {
        if let Condition::Words(words) = &self.query.condition {
            return self.step_words(words, contents, len);
        }
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
                self.take_version(version, None);
            }
        }
        self.next = next;
        next >= rows_end
    }

    /// Takes the hits of the last step, in the order of their rows: for queries that need all.
    /// Nearest neighbours are known after the last step only.
    pub fn take_hits(&mut self) -> Vec<Hit> {
        if self.query.vectors.neighbours.is_some() && !self.is_over {
            return Vec::new();
        }
        let hits = std::mem::take(&mut self.top).into_sorted_vec();
        hits.into_iter().map(|candidate| candidate.hit).collect()
    }

    /// Like [`Self::step`], for a query with words.
    fn step_words(&mut self, words: &Words, contents: &Contents, len: u32) -> bool {
        let Some(index) = contents.texts() else { return true };
        let texts = index.texts();
        let scorer = words.options().scorer;
        let scoring =
            *self.scoring.get_or_insert_with(|| Scoring::new(scorer, texts, contents.len()));
        let rows_end = contents.documents().end();
        let keyed = self.query.keys.as_ref().map(|keys| rows_of(keys, contents));
        let limit = match &keyed {
            Some(rows) => rows.last().map_or(0, |row| row + 1),
            None => self.limit_of(words, contents, texts, len),
        };
        let (memory, ranges) = (std::mem::take(&mut self.memory), std::mem::take(&mut self.ranges));
        memory.begin();
        let walk = WordsWalk { words, contents, ranges: &ranges, limit, scoring };
        let others = |node: &Node, weight| walk.other(node, weight);
        let search = TextSearch { texts, limit, others: &others, scoring, memory: &memory };
        let mut next = u32::MAX;
        if let Some(mut rows) = match &keyed {
            Some(rows) => search.rows_among(given(rows), words.tree()),
            None => search.rows(words.tree()),
        } {
            next = self.take_rows(&mut rows, &search, walk);
        }
        let walked = self.next..next.max(limit);
        if keyed.is_none() {
            for version in contents.versions().iter().filter(|one| walked.contains(&one.row)) {
                self.take_version_of_words(version, walk, &memory);
            }
        }
        (self.memory, self.ranges) = (memory, ranges);
        self.next = walked.end;
        keyed.is_some() || walked.end >= rows_end || self.memory.is_exhausted()
    }

    /// The end of a step of about `len` visited rows.
    fn limit_of(&self, words: &Words, contents: &Contents, texts: &Texts, len: u32) -> u32 {
        let rows_end = contents.documents().end();
        if rows_end - self.next.min(rows_end) <= len {
            return u32::MAX;
        }
        let visited = estimate(words, words.tree(), contents, texts).max(1) as u64;
        let span = u64::from(len) * u64::from(rows_end) / visited;
        self.next.saturating_add(u32::try_from(span).unwrap_or(u32::MAX).max(len))
    }

    /// Takes the rows of a step; returns the first one behind it.
    fn take_rows<'w>(
        &mut self,
        rows: &mut BoxedRows<'w>,
        search: &TextSearch<'w>,
        walk: WordsWalk<'w>,
    ) -> u32 {
        rows.seek(self.next);
        while let Some(row) = rows.current()
            && row < walk.limit
        {
            self.take_scored(row, rows, search, walk);
            rows.advance();
        }
        rows.current().unwrap_or(u32::MAX)
    }

    fn take_scored<'w>(
        &mut self,
        row: u32,
        rows: &mut BoxedRows<'w>,
        search: &TextSearch<'w>,
        walk: WordsWalk<'w>,
    ) {
        let documents = walk.contents.documents();
        if !documents.visible().contains(row) {
            return;
        }
        // Nothing has changed since the run began, in most cases.
        let is_new = walk.contents.stamp() == self.stamp && !documents.has_expiries();
        if !is_new
            && documents.get(row).is_none_or(|document| {
                document.stamp > self.stamp || document.has_expired(self.query.now_ms)
            })
        {
            return;
        }
        self.total += 1;
        if self.needed == 0 {
            return;
        }
        let options = walk.words.options();
        let mut score = 0.0;
        if self.query.order == Order::Scores || options.needs_scores {
            let document_score = match documents.has_scores() {
                true => documents.get(row).map_or(0.0, |document| document.score),
                false => walk.contents.default_score(),
            };
            score = search.score(rows, row, f64::from(document_score));
            self.score_max = self.score_max.max(score);
        }
        let explain = |rows: &mut BoxedRows<'w>, document_score: f32| {
            options.explains.then(|| search.explain(rows, row, f64::from(document_score)))
        };
        self.offer(row, score, walk.contents, &mut |document_score| explain(rows, document_score));
    }

    fn take_version_of_words(&mut self, version: &Version, walk: WordsWalk<'_>, memory: &Memory) {
        let Some(index) = walk.contents.texts() else { return };
        let others = |node: &Node, weight| walk.other_of_version(node, weight, version);
        let WordsWalk { scoring, .. } = walk;
        let texts = index.texts();
        let limit = u32::MAX;
        let search = TextSearch { texts, limit, others: &others, scoring, memory };
        let Some(mut rows) = search.rows(walk.words.tree()) else { return };
        rows.seek(version.row);
        if rows.current() == Some(version.row) {
            let document_score = f64::from(version.score);
            let score = search.score(&mut rows, version.row, document_score);
            let explains = walk.words.options().explains;
            let explanation =
                explains.then(|| search.explain(&mut rows, version.row, document_score));
            self.take_version(version, Some((score, explanation)));
        }
    }

    /// The result so far.
    pub fn finish(self) -> Found {
        let hits = self.top.into_sorted_vec().into_iter().map(|candidate| candidate.hit);
        let has_too_many_terms = self.memory.is_exhausted();
        let score_max = self.score_max;
        let hits: Vec<Hit> = hits.collect();
        let total = match self.query.vectors.neighbours {
            Some(_) => hits.len(),
            None => self.total,
        };
        Found { total, hits, score_max, has_too_many_terms }
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
        if self.needed > 0 {
            let score = f64::from(document.score);
            self.offer(row, score, contents, &mut |_| None);
        }
    }

    /// Keeps a row if it is among the best so far. `explain` is given the document's own score.
    fn offer(
        &mut self,
        row: u32,
        score: f64,
        contents: &Contents,
        explain: &mut dyn FnMut(f32) -> Option<Explanation>,
    ) {
        let sort_key = match self.order {
            Order::Rows => SortKey::Missing,
            Order::Scores => SortKey::Number(score),
            Order::Distance { number, .. } => match self.distance(number, &contents.row(row)) {
                Some(key) => key,
                None => return,
            },
            Order::Field { field, .. } => match contents.field(field) {
                Some(FieldStore::Numbers(store)) => {
                    store.number(row).map_or(SortKey::Missing, SortKey::Number)
                }
                Some(FieldStore::Tags(store)) => match self.text_key(store.text_of(row)) {
                    Some(key) => key,
                    None => return,
                },
                Some(FieldStore::Text(store)) => match self.text_key(store.sort_key(row)) {
                    Some(key) => key,
                    None => return,
                },
                Some(FieldStore::Vectors(_)) | None => SortKey::Missing,
            },
        };
        let is_full = self.top.len() >= self.needed;
        if is_full && self.is_beaten(&sort_key, row) {
            return;
        }
        let Some(document) = contents.documents().get(row) else { return };
        let explanation = explain(document.score);
        let (key, sequence) = (document.key.clone(), document.sequence);
        let distance = self.neighbour_distance(&sort_key);
        self.keep(Hit { key, score, explanation, sequence, sort_key, row, distance }, is_full);
    }

    /// A distance to sort by; none if the document is no neighbour.
    fn distance(&self, number: usize, document: &(impl Document + ?Sized)) -> Option<SortKey> {
        let distance = self.query.vectors.distances.get(number);
        let distance = distance.and_then(|Distance { near, .. }| near.distance(document));
        match (distance, self.query.vectors.neighbours) {
            (Some(distance), _) => Some(SortKey::Number(distance)),
            (None, None) => Some(SortKey::Missing),
            (None, Some(_)) => None,
        }
    }

    fn neighbour_distance(&self, sort_key: &SortKey) -> Option<f64> {
        match (self.query.vectors.neighbours, sort_key) {
            (Some(_), SortKey::Number(distance)) => Some(*distance),
            _ => None,
        }
    }

    /// A text to sort by; none if it is behind all hits of a full heap.
    fn text_key(&self, text: Option<&[u8]>) -> Option<SortKey> {
        if self.is_beaten_by_text(text) {
            return None;
        }
        Some(text.map_or(SortKey::Missing, |text| SortKey::Text(text.into())))
    }

    /// Whether a text is behind all hits of a full heap.
    fn is_beaten_by_text(&self, text: Option<&[u8]>) -> bool {
        if self.top.len() < self.needed {
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

    /// Takes an earlier version of a document. Without a score, that of the document counts.
    fn take_version(&mut self, version: &Version, scored: Option<(f64, Option<Explanation>)>) {
        let has_expired = version.expiry.is_some_and(|at| at <= self.query.now_ms);
        if has_expired || !version.stamps.contains(&self.stamp) {
            return;
        }
        self.total += 1;
        if self.needed == 0 {
            return;
        }
        let (score, explanation) = scored.unwrap_or((f64::from(version.score), None));
        let sort_key = match self.order {
            Order::Rows => SortKey::Missing,
            Order::Scores => SortKey::Number(score),
            Order::Distance { number, .. } => match self.distance(number, &*version.values) {
                Some(key) => key,
                None => return,
            },
            Order::Field { field, .. } => version.sort_key(field),
        };
        let is_full = self.top.len() >= self.needed;
        if !(is_full && self.is_beaten(&sort_key, version.row)) {
            let key = version.key.clone();
            // The document has changed since: it is tested again when it is read.
            let (row, sequence) = (version.row, 0);
            let distance = self.neighbour_distance(&sort_key);
            self.keep(Hit { key, score, explanation, sequence, sort_key, row, distance }, is_full);
        }
    }
}

/// A walk over given rows, which score nothing.
fn given(rows: &[u32]) -> BoxedRows<'_> {
    Box::new(OtherRows {
        rows: Box::new(GivenRows { rows }),
        figures: LeafFigures::of(LeafKind::Absence, b""),
        estimate: rows.len(),
    })
}

/// Rows of keys that queries can see, ascending.
fn rows_of(keys: &[(u64, Box<[u8]>)], contents: &Contents) -> Vec<u32> {
    let documents = contents.documents();
    let rows = keys.iter().filter_map(|(hash, key)| documents.find(*hash, key));
    let mut rows: Vec<u32> = rows.filter(|&row| documents.visible().contains(row)).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

impl Version {
    fn sort_key(&self, field: usize) -> SortKey {
        use crate::index::document::Value;
        match self.values.get(field) {
            Some(Value::Number(number) | Value::Numbers(Some(number), _)) => {
                SortKey::Number(*number)
            }
            Some(Value::Tags(_, Some(text)) | Value::Text(Some(text))) => {
                SortKey::Text(text.clone())
            }
            _ => SortKey::Missing,
        }
    }
}
