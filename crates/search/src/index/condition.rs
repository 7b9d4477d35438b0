//! Conditions: a query, resolved against the schema of an index. They can be tested on any
//! document, and walked as rows ([`crate::index::cursor`], [`crate::index::words`]).

use crate::index::contents::Contents;
use crate::index::distances::{Near, near_of};
use crate::index::document::Document;
use crate::index::field::{FieldStore, TagStore};
use crate::index::schema::{Field, FieldKind, LANGUAGE, Schema, Unsuitable, fold};
use crate::index::texts::{DocumentTexts, TextRules};
use crate::query::ast::{FieldMask, Node, NodeKind, NumericRange, Pattern, TagValue};
use crate::query::{
    BoxedRows, LeafFigures, LeafKind, Memory, OneRow, OtherRows, Scorer, Scoring, TextSearch,
    unescape, union,
};
use crate::structures::numbers::Range;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

/// Minimum length of a prefix, a suffix or an infix (`MINPREFIX`).
const AFFIX_MIN: usize = 2;

/// A condition on a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// No document.
    Nothing,
    /// Every document.
    Everything,
    /// The number of a field is in a range.
    Number {
        /// The field.
        field: usize,
        /// The range.
        range: Range,
    },
    /// A tag of a field passes any of the tests.
    Tag {
        /// The field.
        field: usize,
        /// The tests.
        tests: Vec<TagTest>,
    },
    /// A vector is within a radius.
    Near(Near),
    /// The document lacks a field.
    Missing {
        /// The field.
        field: usize,
    },
    /// All of these.
    All(Vec<Condition>),
    /// Any of these.
    Any(Vec<Condition>),
    /// Not this.
    Not(Box<Condition>),
    /// A query with words, of which parts may be other conditions. It is no part of another one.
    Words(Words),
}

/// A test of a folded tag.
#[derive(Clone, Debug, PartialEq)]
pub enum TagTest {
    /// Equal to this tag.
    Is(Box<[u8]>),
    /// Matched by a pattern.
    Matches(Pattern),
}

impl Condition {
    /// Resolves a syntax tree.
    ///
    /// # Errors
    /// If a field was defined without an option that the query needs.
    pub fn of(node: &Node, schema: &Schema) -> Result<Self, Unsuitable> {
        let each = |nodes: &[Node]| -> Result<Vec<Self>, Unsuitable> {
            nodes.iter().map(|node| Condition::of(node, schema)).collect()
        };
        Ok(match &node.kind {
            NodeKind::Everything => Condition::Everything,
            NodeKind::Intersection(nodes) => Condition::All(each(nodes)?),
            NodeKind::Union(nodes) => Condition::Any(each(nodes)?),
            NodeKind::Not(node) => Condition::Not(Condition::of(node, schema)?.into()),
            NodeKind::Optional(node) => {
                // Its errors count; it decides about scores only.
                Condition::of(node, schema)?;
                Condition::Everything
            }
            NodeKind::Tag { field, values } => Self::of_tags(field, values, schema)?,
            NodeKind::Numeric(range) => Self::of_range(range, schema),
            NodeKind::Missing { field } => Self::of_missing(field, schema)?,
            NodeKind::VectorRange(range) => {
                near_of(range, schema)?.map_or(Condition::Nothing, Condition::Near)
            }
            // Words are resolved by `Words`, neighbours by `VectorQuery`. Places and shapes are not
            // indexed yet.
            NodeKind::Empty
            | NodeKind::Term(_)
            | NodeKind::Phrase(_)
            | NodeKind::Pattern(_)
            | NodeKind::Fuzzy { .. }
            | NodeKind::Geo(_)
            | NodeKind::GeoShape { .. }
            | NodeKind::Knn(_) => Condition::Nothing,
        })
    }

    /// A range of a NUMERIC field; nothing if there is no such field.
    pub fn of_range(range: &NumericRange, schema: &Schema) -> Self {
        let is_number = |&number: &usize| {
            let field = &schema.fields[number];
            field.kind == FieldKind::Number && !field.is_unindexed
        };
        let bound = |value, includes| match includes {
            true => Bound::Included(value),
            false => Bound::Excluded(value),
        };
        match schema.field(&range.field).filter(is_number) {
            Some(field) => Condition::Number {
                field,
                range: Range {
                    min: bound(range.min, range.includes_min),
                    max: bound(range.max, range.includes_max),
                },
            },
            None => Condition::Nothing,
        }
    }

    fn of_tags(name: &[u8], values: &[TagValue], schema: &Schema) -> Result<Self, Unsuitable> {
        let Some(number) = schema.field(name) else { return Ok(Condition::Nothing) };
        let field = &schema.fields[number];
        let FieldKind::Tag { is_case_sensitive, .. } = field.kind else {
            return Ok(Condition::Nothing);
        };
        let (mut tests, mut folded) = (Vec::new(), Vec::new());
        for value in values {
            if let TagValue::Pattern(pattern) = value {
                tests.extend(folded_pattern(pattern, is_case_sensitive).map(TagTest::Matches));
                continue;
            }
            let tag = value.exact().unwrap_or_default();
            if tag.is_empty() && !field.indexes_empty {
                return Err(Unsuitable(
                    "Use `INDEXEMPTY` in field creation in order to index and query for empty strings"
                        .into(),
                ));
            }
            // Redis folds tags of several words even where case matters.
            let keeps_case = is_case_sensitive && !matches!(value, TagValue::Words(_));
            fold(&tag, keeps_case, &mut folded);
            tests.push(TagTest::Is(folded.as_slice().into()));
        }
        match field.is_unindexed {
            true => Ok(Condition::Nothing),
            false => Ok(Condition::Tag { field: number, tests }),
        }
    }

    fn of_missing(name: &[u8], schema: &Schema) -> Result<Self, Unsuitable> {
        let Some(field) = schema.field(name) else { return Ok(Condition::Nothing) };
        if !schema.fields[field].indexes_missing {
            let name = String::from_utf8_lossy(name);
            return Err(Unsuitable(format!(
                "'ismissing' requires field '{name}' to be defined with 'INDEXMISSING'"
            )));
        }
        Ok(Condition::Missing { field })
    }

    /// Whether a document fulfils the condition.
    pub fn matches(&self, document: &(impl Document + ?Sized)) -> bool {
        match self {
            Condition::Nothing => false,
            Condition::Everything => true,
            Condition::Number { field, range } => {
                document.any_number(*field, &mut |number| range.contains(number))
            }
            Condition::Tag { field, tests } => {
                document.any_tag(*field, &mut |tag| tests.iter().any(|test| test.passes(tag)))
            }
            Condition::Near(near) => near.distance(document).is_some(),
            Condition::Missing { field } => document.is_missing(*field),
            Condition::All(conditions) => {
                conditions.iter().all(|condition| condition.matches(document))
            }
            Condition::Any(conditions) => {
                conditions.iter().any(|condition| condition.matches(document))
            }
            Condition::Not(condition) => !condition.matches(document),
            Condition::Words(words) => words.matches(document),
        }
    }
}

impl TagTest {
    /// Whether a folded tag passes.
    pub fn passes(&self, tag: &[u8]) -> bool {
        match self {
            TagTest::Is(text) => **text == *tag,
            TagTest::Matches(Pattern::Prefix(text)) => tag.starts_with(text),
            TagTest::Matches(Pattern::Suffix(text)) => tag.ends_with(text),
            TagTest::Matches(Pattern::Infix(text)) => memchr::memmem::find(tag, text).is_some(),
            TagTest::Matches(Pattern::Wildcard(text)) => matches_wildcard(text, tag),
        }
    }
}

/// Folds the text of a pattern; none if it is too short.
fn folded_pattern(pattern: &Pattern, is_case_sensitive: bool) -> Option<Pattern> {
    let folded = |text: &[u8]| {
        let mut folded = Vec::new();
        fold(text, is_case_sensitive, &mut folded);
        folded.into_boxed_slice()
    };
    let affix = |text: &[u8]| Some(folded(&unescape(text))).filter(|text| text.len() >= AFFIX_MIN);
    Some(match pattern {
        Pattern::Prefix(text) => Pattern::Prefix(affix(text)?),
        Pattern::Suffix(text) => Pattern::Suffix(affix(text)?),
        Pattern::Infix(text) => Pattern::Infix(affix(text)?),
        Pattern::Wildcard(text) => Pattern::Wildcard(folded(text)),
    })
}

/// Whether a text matches a pattern of `*`, `?` and escaped bytes; time is at most their product.
fn matches_wildcard(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where to resume after the last star.
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        let literal = match pattern.get(at..) {
            Some([b'*', ..]) => {
                star = Some((at + 1, seen));
                at += 1;
                continue;
            }
            Some([b'?', ..]) => Some((text[seen], 1)),
            Some([b'\\', byte, ..]) => Some((*byte, 2)),
            Some([byte, ..]) => Some((*byte, 1)),
            _ => None,
        };
        match (literal, star) {
            (Some((byte, len)), _) if byte == text[seen] => {
                at += len;
                seen += 1;
            }
            (_, Some((behind, from))) => {
                star = Some((behind, from + 1));
                (at, seen) = (behind, from + 1);
            }
            _ => return false,
        }
    }
    pattern[at.min(pattern.len())..].iter().all(|&byte| byte == b'*')
}

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

/// Options of the scores.
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

    /// A condition on other fields than texts, by its node.
    pub(super) fn leaf(&self, node: &Node) -> Option<&Condition> {
        self.0.leaves.get(&std::ptr::from_ref(node).addr())
    }

    /// A condition on other fields than texts, as one row if a document fulfils it.
    pub(super) fn at_row<'t>(
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
}

/// Figures of a condition on something else than words and tags.
pub(super) fn figures_of(condition: &Condition, weight: f64) -> LeafFigures<'static> {
    match condition {
        Condition::Missing { .. } | Condition::Near(_) => {
            LeafFigures { weight, ..LeafFigures::of(LeafKind::Absence, b"") }
        }
        _ => LeafFigures::of(LeafKind::Other, b""),
    }
}

pub(super) fn tag_figures<'t>(
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
pub(super) fn union_weight(tests: &[TagTest], weight: f64) -> f64 {
    if tests.len() > 1 { weight } else { 1.0 }
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
fn any_text(fields: FieldMask, schema: &Schema, test: impl Fn(&Field) -> bool) -> bool {
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
    let has_trie =
        |field: &Field| matches!(field.kind, FieldKind::Text { with_suffix_trie: true, .. });
    let lacks_trie = |field: &Field| !has_trie(field);
    let is_refused = fields != FieldMask::ALL
        && any_text(FieldMask::ALL, schema, has_trie)
        && any_text(fields, schema, lacks_trie);
    match is_refused {
        true => Err(Unsuitable("Contains query on fields without WITHSUFFIXTRIE support".into())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_whole_tags() {
        let cases = [
            ("a*", "abc", true),
            ("a*c", "abc", true),
            ("a*d", "abc", false),
            ("?b?", "abc", true),
            ("?b", "abc", false),
            ("*b*", "abc", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a**bc", "abc", true),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaa", false),
        ];
        for (pattern, text, matches) in cases {
            assert_eq!(
                matches_wildcard(pattern.as_bytes(), text.as_bytes()),
                matches,
                "{pattern} {text}"
            );
        }
    }
}
