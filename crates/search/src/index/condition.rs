//! Conditions: a query, resolved against the schema of an index. They can be tested on any
//! document, and walked as rows ([`crate::index::cursor`]).

use crate::index::document::Document;
use crate::index::schema::{FieldKind, Schema, fold};
use crate::index::words::Words;
use crate::query::ast::{Node, NodeKind, NumericRange, Pattern, TagValue};
use crate::query::unescape;
use crate::structures::numbers::Range;
use std::ops::Bound;

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

/// A query that the schema does not allow: the text of the error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unsuitable(pub String);

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
            // Words are resolved by `Words`. Places, shapes, vectors are not indexed yet.
            NodeKind::Empty
            | NodeKind::Term(_)
            | NodeKind::Phrase(_)
            | NodeKind::Pattern(_)
            | NodeKind::Fuzzy { .. }
            | NodeKind::Geo(_)
            | NodeKind::GeoShape { .. }
            | NodeKind::Knn(_)
            | NodeKind::VectorRange(_) => Condition::Nothing,
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
                document.number(*field).is_some_and(|number| range.contains(number))
            }
            Condition::Tag { field, tests } => {
                document.any_tag(*field, &mut |tag| tests.iter().any(|test| test.passes(tag)))
            }
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
