//! Walks of queries with words: rows of all kinds of conditions, with figures for scores.

use crate::index::condition::{Condition, Words, figures_of, tag_figures, union_weight};
use crate::index::contents::{Contents, Version};
use crate::index::cursor::{self, Ranges, tags_of};
use crate::index::field::FieldStore;
use crate::query::ast::{Node, NodeKind};
use crate::query::{BoxedRows, LeafFigures, OtherRows, Scoring, union};
use crate::structures::texts::Texts;

/// A step of a walk.
#[derive(Clone, Copy)]
pub(super) struct WordsWalk<'w> {
    pub words: &'w Words,
    pub contents: &'w Contents,
    pub ranges: &'w Ranges,
    /// Rows from this on are not tested.
    pub limit: u32,
    pub scoring: Scoring,
}

impl<'w> WordsWalk<'w> {
    /// Rows of a condition that is not on words.
    pub fn other(self, node: &Node, weight: f64) -> Option<BoxedRows<'w>> {
        let Self { words, contents, ranges, limit, scoring } = self;
        if node.kind == NodeKind::Everything {
            let visible = contents.documents().visible();
            return Some(Box::new(OtherRows {
                rows: Box::new(visible.cursor()),
                figures: LeafFigures { weight, ..LeafFigures::EVERYTHING },
                estimate: visible.len(),
            }));
        }
        let condition = words.leaf(node)?;
        if let Condition::Tag { field, tests } = condition {
            let Some(FieldStore::Tags(store)) = contents.field(*field) else { return None };
            let rows = tags_of(store, tests).into_iter().map(|id| -> BoxedRows<'w> {
                let set = store.tags().rows(id);
                Box::new(OtherRows {
                    rows: Box::new(set.cursor()),
                    figures: tag_figures(store, id, weight, &scoring),
                    estimate: set.len(),
                })
            });
            return union(rows.collect(), union_weight(tests, weight));
        }
        if *condition == Condition::Nothing {
            return None;
        }
        Some(Box::new(OtherRows {
            rows: cursor::rows(condition, contents, ranges, limit),
            figures: figures_of(condition, weight),
            estimate: cursor::estimate(condition, contents),
        }))
    }

    /// Rows of a condition that is not on words: that of an earlier version, if it matches.
    pub fn other_of_version(
        self,
        node: &Node,
        weight: f64,
        version: &Version,
    ) -> Option<BoxedRows<'w>> {
        let Self { words, contents, scoring, .. } = self;
        words.at_row(node, weight, version.row, &*version.values, &scoring, Some(contents))
    }
}

/// Upper bound of the number of rows that a walk visits, roughly.
pub(super) fn estimate(words: &Words, node: &Node, contents: &Contents, texts: &Texts) -> usize {
    let each = |children: &[Node]| -> Vec<usize> {
        children.iter().map(|child| estimate(words, child, contents, texts)).collect()
    };
    match &node.kind {
        NodeKind::Empty => 0,
        NodeKind::Term(term) => texts.terms().find(&term.text).map_or(0, |id| texts.frequency(id)),
        NodeKind::Intersection(children) | NodeKind::Phrase(children) => {
            each(children).into_iter().min().unwrap_or(0)
        }
        NodeKind::Union(children) => each(children).into_iter().sum(),
        _ => match words.leaf(node) {
            Some(condition) => cursor::estimate(condition, contents),
            None => contents.len(),
        },
    }
}
