//! The search in texts: from a syntax tree to the best documents.

use super::ast::{FieldMask, Node, NodeKind};
use super::matching::{dictionary_form, matching_terms, similar_terms};
use super::rows::{
    AllRows, AnyRows, BoxedRows, Counted, EveryRow, MaybeRows, OtherRows, Rows, TermRows, Window,
    WithoutRows,
};
use super::scores::Scoring;
use crate::structures::terms::TermId;
use crate::structures::texts::Texts;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Rows of a condition that is not on texts, and an upper bound of their number. `None`: no row.
pub type Others<'t> = &'t dyn Fn(&Node) -> Option<(Box<dyn Rows + 't>, usize)>;

/// Texts, documents and scorer of a search.
#[derive(Clone, Copy)]
pub struct TextSearch<'t> {
    /// Texts of the index.
    pub texts: &'t Texts,
    /// Upper bound of the rows.
    pub end: u32,
    /// Whether a row is a document that the query sees.
    pub is_visible: &'t dyn Fn(u32) -> bool,
    /// Score of a document.
    pub document_score: &'t dyn Fn(u32) -> f64,
    /// Conditions on other fields.
    pub others: Others<'t>,
    /// The scorer.
    pub scoring: Scoring,
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
    /// The best `count` documents, and the number of all that match. `go_on` is asked now and then
    /// whether to continue; the best so far are returned if not.
    pub fn best(
        &self,
        query: &Node,
        count: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> (usize, Vec<Hit>) {
        let mut total = 0;
        let mut best: BinaryHeap<Hit> = BinaryHeap::new();
        let Some(mut rows) = self.rows(query) else { return (0, Vec::new()) };
        let mut steps = 0u32;
        while let Some(row) = rows.current() {
            steps += 1;
            if steps.is_multiple_of(4096) && !go_on() {
                break;
            }
            if (self.is_visible)(row) {
                total += 1;
                if count > 0 {
                    let hit = Hit { row, score: self.score(&mut rows, row) };
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
    pub fn score(&self, rows: &mut BoxedRows<'t>, row: u32) -> f64 {
        let length = self.texts.length(row);
        let scorer = self.scoring.scorer;
        let sum = rows.score(&self.scoring, length);
        let distance = if scorer.needs_distance() { rows.distance() } else { 1 };
        scorer.finish(sum, length, (self.document_score)(row), distance)
    }

    /// A walk over the rows of a condition; rows that are not visible may be among them. `None`: no
    /// row.
    pub fn rows(&self, node: &Node) -> Option<BoxedRows<'t>> {
        let weight = node.attributes.weight;
        match &node.kind {
            NodeKind::Empty => None,
            NodeKind::Everything => Some(Box::new(self.every())),
            NodeKind::Term(term) => {
                let id = self.texts.terms().find(&dictionary_form(&term.text))?;
                self.term(id, node.fields, weight)
            }
            NodeKind::Pattern(pattern) => {
                self.any(&matching_terms(self.texts, pattern), node.fields, weight)
            }
            NodeKind::Fuzzy { text, distance } => {
                self.any(&similar_terms(self.texts, text, *distance), node.fields, weight)
            }
            NodeKind::Intersection(children) => {
                let window = window(node);
                self.all(children, window, weight)
            }
            NodeKind::Phrase(children) => {
                self.all(children, Some(Window { slop: Some(0), in_order: true }), weight)
            }
            NodeKind::Union(children) => {
                let rows = children.iter().filter_map(|child| self.rows(child)).collect();
                union(rows, weight, Counted::All)
            }
            NodeKind::Not(child) => Some(match self.rows(child) {
                Some(rows) => Box::new(WithoutRows::new(self.every(), rows)),
                None => Box::new(self.every()),
            }),
            NodeKind::Optional(child) => Some(match self.rows(child) {
                Some(child) => Box::new(MaybeRows { all: self.every(), child }),
                None => Box::new(self.every()),
            }),
            _ => {
                let (rows, estimate) = (self.others)(node)?;
                Some(Box::new(OtherRows { rows, estimate }))
            }
        }
    }

    fn every(&self) -> EveryRow<'t> {
        EveryRow::new(self.end, self.is_visible)
    }

    fn term(&self, id: TermId, fields: FieldMask, weight: f64) -> Option<BoxedRows<'t>> {
        let frequency = self.texts.frequency(id);
        if frequency == 0 || fields == FieldMask::NONE {
            return None;
        }
        let fields = (fields != FieldMask::ALL).then_some(fields.0);
        let factor = self.scoring.factor(frequency);
        let cursor = self.texts.cursor(id)?;
        Some(Box::new(TermRows::new(cursor, fields, factor, weight, frequency)))
    }

    fn any(&self, ids: &[TermId], fields: FieldMask, weight: f64) -> Option<BoxedRows<'t>> {
        let mut ids = ids.to_vec();
        ids.sort_by_key(|&id| self.texts.terms().text(id));
        let rows = ids.iter().filter_map(|&id| self.term(id, fields, 1.0)).collect();
        union(rows, weight, Counted::First)
    }

    fn all(&self, children: &[Node], window: Option<Window>, weight: f64) -> Option<BoxedRows<'t>> {
        let rows: Option<Vec<_>> = children.iter().map(|child| self.rows(child)).collect();
        let mut rows = rows?;
        match rows.len() {
            0 => None,
            1 => rows.pop(),
            _ => Some(Box::new(AllRows::new(rows, window, weight))),
        }
    }
}

fn union(mut rows: Vec<BoxedRows<'_>>, weight: f64, counted: Counted) -> Option<BoxedRows<'_>> {
    if rows.is_empty() {
        return None;
    }
    if rows.len() == 1 && weight == 1.0 {
        return rows.pop();
    }
    Some(Box::new(AnyRows::new(rows, weight, counted)))
}

fn window(node: &Node) -> Option<Window> {
    let in_order = node.attributes.in_order.unwrap_or(false);
    let slop = node.attributes.slop;
    (slop.is_some() || in_order).then_some(Window { slop, in_order })
}
