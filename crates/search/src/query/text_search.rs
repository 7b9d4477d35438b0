//! The search in texts: from a syntax tree to the best documents.

use super::ast::{FieldMask, Node, NodeKind};
use super::explanation::Explanation;
use super::matching::{form_of, matching_terms, similar_terms};
use super::rows::{AllRows, AnyRows, BoxedRows, Counted, MaybeRows, TermRows, Window, WithoutRows};
use super::scores::{LeafFigures, LeafKind, Scoring};
use crate::structures::terms::TermId;
use crate::structures::texts::{Length, Texts};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;

/// Rows of a condition that is not on texts, and of `*`. `None`: no row.
pub type Others<'t> = &'t dyn Fn(&Node, f64) -> Option<BoxedRows<'t>>;

/// Maximum number of terms of a query, expansions of patterns included.
pub const TERMS_MAX: usize = 1 << 15;

/// Memory of a query in steps, so that all documents are scored alike.
#[derive(Debug, Default)]
pub struct Memory {
    /// Numbers of documents of terms.
    frequencies: RefCell<HashMap<TermId, usize>>,
    /// Terms of patterns, by the address of the condition.
    expansions: RefCell<HashMap<usize, Rc<[TermId]>>>,
    /// Terms of the present step.
    terms: Cell<usize>,
    is_exhausted: Cell<bool>,
}

impl Memory {
    /// Begins a step.
    pub fn begin(&self) {
        self.terms.set(0);
    }

    /// Whether the query has more terms than [`TERMS_MAX`].
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }
}

/// Texts, documents and scorer of a search.
#[derive(Clone, Copy)]
pub struct TextSearch<'t> {
    /// Texts of the index.
    pub texts: &'t Texts,
    /// Rows from this on are not tested: walks may pass some that do not match.
    pub limit: u32,
    /// Conditions on other fields.
    pub others: Others<'t>,
    /// The scorer.
    pub scoring: Scoring,
    /// The memory of the query.
    pub memory: &'t Memory,
}

/// A document found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The row of the document.
    pub row: u32,
    /// The score of the document.
    pub score: f64,
}

/// Order of results: the better first, then by row. The greatest is the last.
impl Ord for Hit {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Hit {}

impl<'t> TextSearch<'t> {
    /// The best `count` documents, and the number of all that match.
    pub fn best(
        &self,
        query: &Node,
        count: usize,
        is_visible: &dyn Fn(u32) -> bool,
        document_score: &dyn Fn(u32) -> f64,
    ) -> (usize, Vec<Hit>) {
        let mut total = 0;
        let mut best: BinaryHeap<Hit> = BinaryHeap::new();
        let Some(mut rows) = self.rows(query) else { return (0, Vec::new()) };
        while let Some(row) = rows.current() {
            if is_visible(row) {
                total += 1;
                if count > 0 {
                    let score = self.score(&mut rows, row, document_score(row));
                    let hit = Hit { row, score };
                    if best.len() < count {
                        best.push(hit);
                    } else if best.peek().is_some_and(|worst| hit < *worst) {
                        best.pop();
                        best.push(hit);
                    }
                }
            }
            rows.advance();
        }
        (total, best.into_sorted_vec())
    }

    /// The score of the current row.
    #[inline]
    pub fn score(&self, rows: &mut BoxedRows<'t>, row: u32, document_score: f64) -> f64 {
        let scorer = self.scoring.scorer;
        if !scorer.needs_words() {
            return scorer.finish(0.0, Length::default(), document_score, 1);
        }
        let length = self.texts.length(row);
        let sum = rows.score(&self.scoring, length);
        let distance = if scorer.needs_distance() { rows.distance() } else { 1 };
        scorer.finish(sum, length, document_score, distance)
    }

    /// Explains the score of the current row.
    pub fn explain(&self, rows: &mut BoxedRows<'t>, row: u32, document_score: f64) -> Explanation {
        let (scorer, length) = (self.scoring.scorer, self.texts.length(row));
        let words = rows.explain(&self.scoring, length);
        let sum = rows.score(&self.scoring, length);
        let distance = if scorer.needs_distance() { rows.distance() } else { 1 };
        Explanation::of_document(scorer, words, sum, length, document_score, distance)
    }

    /// A walk over the rows of a condition; rows that are not visible may be among them. `None`: no
    /// row.
    pub fn rows(&self, node: &Node) -> Option<BoxedRows<'t>> {
        self.weighted(node, node.attributes.weight)
    }

    /// Like [`Self::rows`], with another weight than the condition's own.
    fn weighted(&self, node: &Node, weight: f64) -> Option<BoxedRows<'t>> {
        match &node.kind {
            NodeKind::Empty => None,
            NodeKind::Term(term) => {
                let id = self.texts.terms().find(&form_of(term))?;
                self.term(id, node.fields, weight)
            }
            NodeKind::Pattern(pattern) => {
                self.any(node, weight, || matching_terms(self.texts, pattern))
            }
            NodeKind::Fuzzy { text, distance } => {
                self.any(node, weight, || similar_terms(self.texts, text, *distance))
            }
            NodeKind::Intersection(_) | NodeKind::Phrase(_) => {
                self.joined(node, weight, Vec::new())
            }
            NodeKind::Union(children) => {
                let rows = children.iter().filter_map(|child| self.rows(child)).collect();
                union(rows, weight)
            }
            NodeKind::Not(child) => {
                let (all, child) = (self.every()?, self.rows(child));
                Some(Box::new(WithoutRows::new(all, child, weight, self.limit)))
            }
            NodeKind::Optional(child) => {
                // The weight of the child does not count, as in Redis.
                let child = self.weighted(child, weight);
                Some(Box::new(MaybeRows { all: self.every()?, child }))
            }
            _ => (self.others)(node, weight),
        }
    }

    /// A walk over the rows of a condition that are among given ones.
    pub fn rows_among(&self, given: BoxedRows<'t>, node: &Node) -> Option<BoxedRows<'t>> {
        match &node.kind {
            NodeKind::Intersection(_) | NodeKind::Phrase(_) => {
                self.joined(node, node.attributes.weight, vec![given])
            }
            _ => {
                let rows = vec![given, self.rows(node)?];
                Some(Box::new(AllRows::new(rows, None, 1.0, self.limit)))
            }
        }
    }

    /// Like [`Self::rows`] for an intersection, with further children.
    fn joined(
        &self,
        node: &Node,
        weight: f64,
        mut rows: Vec<BoxedRows<'t>>,
    ) -> Option<BoxedRows<'t>> {
        let (children, window) = match &node.kind {
            NodeKind::Intersection(children) => (children, window(node)),
            NodeKind::Phrase(children) => {
                (children, Some(Window { slop: Some(0), in_order: true }))
            }
            _ => return None,
        };
        for child in children {
            rows.push(self.rows(child)?);
        }
        let window = window.filter(|_| self.texts.has_positions());
        match rows.len() {
            0 => None,
            1 => rows.pop(),
            _ => Some(Box::new(AllRows::new(rows, window, weight, self.limit))),
        }
    }

    fn every(&self) -> Option<BoxedRows<'t>> {
        (self.others)(&Node::new(NodeKind::Everything), 1.0)
    }

    fn term(&self, id: TermId, fields: FieldMask, weight: f64) -> Option<BoxedRows<'t>> {
        let present = self.texts.frequency(id);
        if present == 0 || fields == FieldMask::NONE {
            return None;
        }
        let memory = self.memory;
        memory.terms.set(memory.terms.get() + 1);
        if memory.terms.get() > TERMS_MAX {
            memory.is_exhausted.set(true);
            return None;
        }
        let frequency = *memory.frequencies.borrow_mut().entry(id).or_insert(present);
        let fields = (fields != FieldMask::ALL && self.texts.has_fields()).then_some(fields.0);
        let factor = self.scoring.factor(frequency);
        let name = self.texts.terms().text(id);
        let figures = LeafFigures { name, kind: LeafKind::Term, factor, weight };
        let cursor = self.texts.cursor(id)?;
        Some(Box::new(TermRows::new(cursor, fields, figures, present, self.limit)))
    }

    fn any(
        &self,
        node: &Node,
        weight: f64,
        expand: impl FnOnce() -> Vec<TermId>,
    ) -> Option<BoxedRows<'t>> {
        let at = std::ptr::from_ref(node).addr();
        let known = self.memory.expansions.borrow().get(&at).cloned();
        let ids = known.unwrap_or_else(|| {
            let mut ids = expand();
            ids.sort_by_key(|&id| self.texts.terms().text(id));
            let ids: Rc<[TermId]> = ids.into();
            self.memory.expansions.borrow_mut().insert(at, ids.clone());
            ids
        });
        let rows: Vec<_> = ids.iter().filter_map(|&id| self.term(id, node.fields, 1.0)).collect();
        if rows.is_empty() {
            return None;
        }
        Some(Box::new(AnyRows::new(rows, weight, Counted::First)))
    }
}

/// A walk over the rows of any of several walks.
pub fn union(mut rows: Vec<BoxedRows<'_>>, weight: f64) -> Option<BoxedRows<'_>> {
    if rows.is_empty() {
        return None;
    }
    if rows.len() == 1 && weight == 1.0 {
        return rows.pop();
    }
    Some(Box::new(AnyRows::new(rows, weight, Counted::All)))
}

fn window(node: &Node) -> Option<Window> {
    let in_order = node.attributes.in_order.unwrap_or(false);
    let slop = node.attributes.slop;
    (slop.is_some() || in_order).then_some(Window { slop, in_order })
}
