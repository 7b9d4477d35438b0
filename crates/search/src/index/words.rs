//! Queries with words: resolved against a schema, walked with scores, tested on one document.

use crate::index::condition::{Condition, TagTest, Unsuitable};
use crate::index::contents::{Contents, Version};
use crate::index::cursor::{self, Ranges, tags_of};
use crate::index::document::Document;
use crate::index::field::{FieldStore, TagStore};
use crate::index::schema::{FieldKind, LANGUAGE, Schema};
use crate::index::texts::{DocumentTexts, TextRules};
use crate::query::ast::{FieldMask, Node, NodeKind, Pattern};
use crate::query::{
    BoxedRows, LeafFigures, LeafKind, Memory, OneRow, OtherRows, Scorer, Scoring, TextSearch, union,
};
use crate::structures::texts::Texts;
use std::collections::HashMap;
use std::sync::Arc;

/// A query with words.
#[derive(Clone, Debug)]
pub struct Words(Arc<Resolved>);

#[derive(Debug)]
struct Resolved {
    tree: Node,
    /// Conditions on other fields, by the address of their node.
    leaves: HashMap<usize, Condition>,
    rules: Arc<TextRules>,
    options: WordsOptions,
}

/// How documents are scored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WordsOptions {
    /// The scorer.
    pub scorer: Scorer,
    /// Hits have scores even if they are sorted by something else.
    pub needs_scores: bool,
    /// Scores are explained.
    pub explains: bool,
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        self.0.tree == other.0.tree && self.0.options == other.0.options
    }
}

impl Words {
    /// Resolves a syntax tree.
    ///
    /// # Errors
    /// If a field was defined without an option that the query needs.
    pub fn of(
        tree: Node,
        schema: &Schema,
        rules: Arc<TextRules>,
        options: WordsOptions,
    ) -> Result<Self, Unsuitable> {
        let mut resolved = Arc::new(Resolved { tree, leaves: HashMap::new(), rules, options });
        // The nodes stay where they are from now on.
        if let Some(own) = Arc::get_mut(&mut resolved) {
            let mut leaves = HashMap::new();
            resolve(&own.tree, schema, &mut leaves)?;
            own.leaves = leaves;
        }
        Ok(Words(resolved))
    }

    /// The options.
    pub fn options(&self) -> WordsOptions {
        self.0.options
    }

    /// The syntax tree.
    pub fn tree(&self) -> &Node {
        &self.0.tree
    }

    /// Whether a document matches, of which the texts are known.
    pub fn matches(&self, document: &(impl Document + ?Sized)) -> bool {
        let rules = &self.0.rules;
        let mut given: Vec<(u16, Vec<u8>)> = Vec::new();
        for number in rules.fields() {
            document.text(usize::from(number), &mut |text| given.push((number, text.into())));
        }
        let mut language: Option<Vec<u8>> = None;
        document.text(usize::from(LANGUAGE), &mut |text| language = Some(text.into()));
        let given: Vec<_> = given.iter().map(|(number, text)| (*number, &**text)).collect();
        let mut texts = rules.empty();
        rules.add(&mut texts, 0, DocumentTexts { texts: &given, language: language.as_deref() });
        let scoring = Scoring::new(Scorer::DocScore, &texts, 1);
        let memory = Memory::default();
        let others = |node: &Node, weight| self.at_row(node, weight, 0, document, &scoring, None);
        let search = TextSearch {
            texts: &texts,
            limit: u32::MAX,
            others: &others,
            scoring,
            memory: &memory,
        };
        search.rows(&self.0.tree).is_some_and(|rows| rows.current() == Some(0))
    }

    fn leaf(&self, node: &Node) -> Option<&Condition> {
        self.0.leaves.get(&std::ptr::from_ref(node).addr())
    }

    /// A condition on other fields than texts, as one row if a document fulfils it.
    fn at_row<'t>(
        &self,
        node: &Node,
        weight: f64,
        row: u32,
        document: &(impl Document + ?Sized),
        scoring: &Scoring,
        contents: Option<&'t Contents>,
    ) -> Option<BoxedRows<'t>> {
        let one = |figures| -> BoxedRows<'t> {
            Box::new(OtherRows { rows: Box::new(OneRow { row: Some(row) }), figures, estimate: 1 })
        };
        if node.kind == NodeKind::Everything {
            return Some(one(LeafFigures { weight, ..LeafFigures::EVERYTHING }));
        }
        let condition = self.leaf(node)?;
        let Condition::Tag { field, tests } = condition else {
            return condition.matches(document).then(|| one(figures_of(condition, weight)));
        };
        let store = contents.and_then(|contents| match contents.field(*field) {
            Some(FieldStore::Tags(store)) => Some(store),
            _ => None,
        });
        let mut rows = Vec::new();
        for test in tests {
            document.any_tag(*field, &mut |tag| {
                if test.passes(tag) {
                    let known = store.and_then(|store| Some((store, store.tags().find(tag)?)));
                    let figures = match known {
                        Some((store, id)) => tag_figures(store, id, weight, scoring),
                        None => LeafFigures { weight, ..LeafFigures::of(LeafKind::Term, b"") },
                    };
                    rows.push(one(figures));
                }
                false
            });
        }
        union(rows, union_weight(tests, weight))
    }

    /// Upper bound of the number of rows that a walk visits, roughly.
    pub(super) fn estimate(&self, contents: &Contents, texts: &Texts) -> usize {
        self.estimate_of(&self.0.tree, contents, texts)
    }

    fn estimate_of(&self, node: &Node, contents: &Contents, texts: &Texts) -> usize {
        let each = |children: &'_ [Node]| -> Vec<usize> {
            children.iter().map(|child| self.estimate_of(child, contents, texts)).collect()
        };
        match &node.kind {
            NodeKind::Empty => 0,
            NodeKind::Term(term) => {
                texts.terms().find(&term.text).map_or(0, |id| texts.frequency(id))
            }
            NodeKind::Intersection(children) | NodeKind::Phrase(children) => {
                each(children).into_iter().min().unwrap_or(0)
            }
            NodeKind::Union(children) => each(children).into_iter().sum(),
            _ => match self.leaf(node) {
                Some(condition) => cursor::estimate(condition, contents),
                None => contents.len(),
            },
        }
    }
}

/// Figures of a condition on something else than words and tags.
fn figures_of(condition: &Condition, weight: f64) -> LeafFigures<'static> {
    match condition {
        Condition::Missing { .. } => {
            LeafFigures { weight, ..LeafFigures::of(LeafKind::Absence, b"") }
        }
        _ => LeafFigures::of(LeafKind::Other, b""),
    }
}

fn tag_figures<'t>(
    store: &'t TagStore,
    id: u32,
    weight: f64,
    scoring: &Scoring,
) -> LeafFigures<'t> {
    let tags = store.tags();
    let factor = scoring.factor(tags.rows(id).len());
    LeafFigures { name: tags.text(id), kind: LeafKind::Term, factor, weight }
}

/// Weight of all tags of a condition together: as in Redis, beside that of each.
fn union_weight(tests: &[TagTest], weight: f64) -> f64 {
    if tests.len() > 1 { weight } else { 1.0 }
}

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

/// Resolves conditions on other fields than texts, and checks those on texts.
fn resolve(
    node: &Node,
    schema: &Schema,
    leaves: &mut HashMap<usize, Condition>,
) -> Result<(), Unsuitable> {
    match &node.kind {
        NodeKind::Empty | NodeKind::Everything | NodeKind::Fuzzy { .. } => {}
        NodeKind::Term(term) if term.text.is_empty() => check_empty(node.fields, schema)?,
        NodeKind::Pattern(Pattern::Suffix(_) | Pattern::Infix(_) | Pattern::Wildcard(_)) => {
            check_suffixes(node.fields, schema)?;
        }
        NodeKind::Term(_) | NodeKind::Pattern(_) => {}
        NodeKind::Intersection(children)
        | NodeKind::Phrase(children)
        | NodeKind::Union(children) => {
            children.iter().try_for_each(|child| resolve(child, schema, leaves))?;
        }
        NodeKind::Not(child) | NodeKind::Optional(child) => resolve(child, schema, leaves)?,
        _ => {
            leaves.insert(std::ptr::from_ref(node).addr(), Condition::of(node, schema)?);
        }
    }
    Ok(())
}

/// Whether any of the searched texts in `fields` fulfils a test.
fn any_text(
    fields: FieldMask,
    schema: &Schema,
    test: impl Fn(&crate::index::schema::Field) -> bool,
) -> bool {
    let texts = schema.texts().enumerate();
    let mut named = texts.filter(|(at, _)| fields.and(FieldMask::of(*at)) != FieldMask::NONE);
    named.any(|(_, number)| test(&schema.fields[number]))
}

fn check_empty(fields: FieldMask, schema: &Schema) -> Result<(), Unsuitable> {
    let is_named = fields != FieldMask::ALL && fields != FieldMask::NONE;
    match is_named && !any_text(fields, schema, |field| field.indexes_empty) {
        false => Ok(()),
        true => Err(Unsuitable(
            "Use `INDEXEMPTY` in field creation in order to index and query for empty strings"
                .into(),
        )),
    }
}

/// Suffixes are found without a trie; but fields without one are refused beside fields with one, as
/// in Redis.
fn check_suffixes(fields: FieldMask, schema: &Schema) -> Result<(), Unsuitable> {
    let has_trie = |field: &crate::index::schema::Field| {
        matches!(field.kind, FieldKind::Text { with_suffix_trie: true, .. })
    };
    let lacks_trie = |field: &crate::index::schema::Field| !has_trie(field);
    let is_refused = fields != FieldMask::ALL
        && any_text(FieldMask::ALL, schema, has_trie)
        && any_text(fields, schema, lacks_trie);
    match is_refused {
        true => Err(Unsuitable("Contains query on fields without WITHSUFFIXTRIE support".into())),
        false => Ok(()),
    }
}
