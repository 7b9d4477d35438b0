//! Filters: `?(@.price < 10 && @.name =~ "^The")`.

use super::search::{Work, find_below};
use super::{Segment, TooMuchWork};
use crate::tape::Document;
use crate::value::{Kind, Value};
use regex::bytes::{Regex, RegexBuilder};
use std::cmp::Ordering;
use std::sync::OnceLock;

/// The most memory in bytes that a compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// What compiling a pattern takes, in nodes that could be looked at meanwhile.
const PATTERN_WORK: u64 = 10_000;

/// A condition on a node.
#[derive(Debug)]
pub(super) enum Filter {
    Or(Vec<Filter>),
    And(Vec<Filter>),
    Not(Box<Filter>),
    /// A path that finds something, a literal that is true.
    Holds(Term),
    Compare(Term, Comparison, Term),
    /// The left side, a string, has a part that the pattern on the right matches.
    Matches(Term, Term, OnceLock<Option<Regex>>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A side of a comparison.
#[derive(Debug)]
pub(super) enum Term {
    Literal(Document),
    /// From the node that is being looked at.
    Current(Vec<Segment>),
    /// From the root of the document.
    Root(Vec<Segment>),
}

impl Filter {
    pub fn passes<'d>(
        &self,
        node: Value<'d>,
        root: Value<'d>,
        work: &mut Work,
    ) -> Result<bool, TooMuchWork> {
        work.spend(1)?;
        match self {
            Filter::Or(any) => {
                for filter in any {
                    if filter.passes(node, root, work)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Filter::And(all) => {
                for filter in all {
                    if !filter.passes(node, root, work)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Filter::Not(filter) => Ok(!filter.passes(node, root, work)?),
            Filter::Holds(Term::Literal(literal)) => Ok(literal.root().boolean() == Some(true)),
            Filter::Holds(term) => Ok(term.count(node, root, work)?.0 > 0),
            Filter::Compare(left, how, right) => {
                let (left, right) = (left.value(node, root, work)?, right.value(node, root, work)?);
                Ok(compare(left, *how, right, work)?)
            }
            Filter::Matches(left, pattern, compiled) => {
                let Some(text) = left.value(node, root, work)?.and_then(Value::string) else {
                    return Ok(false);
                };
                work.spend(text.len() as u64 / 16)?;
                if let Term::Literal(literal) = pattern {
                    let compiled = compiled.get_or_init(|| compile(literal.root()));
                    return Ok(compiled.as_ref().is_some_and(|pattern| pattern.is_match(text)));
                }
                work.spend(PATTERN_WORK)?;
                let pattern = pattern.value(node, root, work)?.and_then(compile);
                Ok(pattern.is_some_and(|pattern| pattern.is_match(text)))
            }
        }
    }
}

impl Term {
    /// The one value that it stands for; none if there are more or none.
    fn value<'d>(
        &'d self,
        node: Value<'d>,
        root: Value<'d>,
        work: &mut Work,
    ) -> Result<Option<Value<'d>>, TooMuchWork> {
        match self {
            Term::Literal(literal) => Ok(Some(literal.root())),
            _ => Ok(match self.count(node, root, work)? {
                (1, value) => value,
                _ => None,
            }),
        }
    }

    /// How many values its path finds, and the last of them.
    fn count<'d>(
        &self,
        node: Value<'d>,
        root: Value<'d>,
        work: &mut Work,
    ) -> Result<(usize, Option<Value<'d>>), TooMuchWork> {
        let (segments, from) = match self {
            Term::Current(segments) => (segments, node),
            Term::Root(segments) => (segments, root),
            Term::Literal(_) => return Ok((0, None)),
        };
        let (mut count, mut last) = (0, None);
        find_below(segments, from, root, work, &mut |value, _| {
            count += 1;
            last = Some(value);
        })?;
        Ok((count, last))
    }
}

fn compile(pattern: Value<'_>) -> Option<Regex> {
    let pattern = std::str::from_utf8(pattern.string()?).ok()?;
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
        .ok()
}

impl Comparison {
    /// Whether it holds of what has no order: what is equal is also less or equal.
    fn holds_without_order(self, is_equal: bool) -> bool {
        match self {
            Comparison::NotEqual => !is_equal,
            Comparison::Less | Comparison::Greater => false,
            Comparison::Equal | Comparison::LessOrEqual | Comparison::GreaterOrEqual => is_equal,
        }
    }
}

/// Values of different kinds are not equal, and what is not there equals nothing but what is not
/// there either. Only numbers and strings have an order (RFC 9535, section 2.3.5.2.2).
fn compare(
    left: Option<Value<'_>>,
    how: Comparison,
    right: Option<Value<'_>>,
    work: &mut Work,
) -> Result<bool, TooMuchWork> {
    let (Some(left), Some(right)) = (left, right) else {
        return Ok(how.holds_without_order(left.is_none() && right.is_none()));
    };
    let order = match (left.kind(), right.kind()) {
        (Kind::Integer | Kind::Double, Kind::Integer | Kind::Double) => {
            left.number().zip(right.number()).map(|(left, right)| left.compare(right))
        }
        (Kind::String, Kind::String) => Some(left.string().cmp(&right.string())),
        (a, b) => {
            work.spend(left.tape().len().min(right.tape().len()) as u64)?;
            let is_equal = a == b && left.is_same(right);
            return Ok(how.holds_without_order(is_equal));
        }
    };
    let Some(order) = order else { return Ok(false) };
    Ok(match how {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    })
}
