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
            // A literal alone, be it `false` or `null`, leaves everything in.
            Filter::Holds(Term::Literal(_)) => Ok(true),
            Filter::Holds(term) => {
                let mut is_any = false;
                term.each(node, root, work, &mut |_| is_any = true)?;
                Ok(is_any)
            }
            Filter::Compare(left, Comparison::NotEqual, right) => {
                Ok(!compare(left, Comparison::Equal, right, (node, root), work)?)
            }
            Filter::Compare(left, how, right) => compare(left, *how, right, (node, root), work),
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
        let (mut count, mut last) = (0, None);
        self.each(node, root, work, &mut |value| {
            count += 1;
            last = Some(value);
        })?;
        Ok(last.filter(|_| count == 1))
    }

    /// Calls for each value that it stands for.
    fn each<'d>(
        &'d self,
        node: Value<'d>,
        root: Value<'d>,
        work: &mut Work,
        visit: &mut dyn FnMut(Value<'d>),
    ) -> Result<(), TooMuchWork> {
        let (segments, from) = match self {
            Term::Current(segments) => (segments, node),
            Term::Root(segments) => (segments, root),
            Term::Literal(literal) => {
                visit(literal.root());
                return Ok(());
            }
        };
        find_below(segments, from, root, work, &mut |value, _| visit(value))
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
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order == Ordering::Equal,
            Comparison::NotEqual => order != Ordering::Equal,
            Comparison::Less => order == Ordering::Less,
            Comparison::LessOrEqual => order != Ordering::Greater,
            Comparison::Greater => order == Ordering::Greater,
            Comparison::GreaterOrEqual => order != Ordering::Less,
        }
    }

    /// Whether it holds of two values. Numbers, strings and booleans have an order, each among
    /// their own kind; containers are equal or not.
    fn holds_of(self, left: Value<'_>, right: Value<'_>) -> bool {
        match (left.kind(), right.kind()) {
            (Kind::Integer | Kind::Double, Kind::Integer | Kind::Double) => {
                let numbers = left.number().zip(right.number());
                numbers.is_some_and(|(left, right)| self.holds(left.compare(right)))
            }
            (Kind::String, Kind::String) => self.holds(left.string().cmp(&right.string())),
            (Kind::Boolean, Kind::Boolean) => self.holds(left.boolean().cmp(&right.boolean())),
            (Kind::Null, Kind::Null) => self.holds(Ordering::Equal),
            (a, b) => self == Comparison::Equal && a == b && left.is_same(right),
        }
    }
}

/// Whether a comparison holds of any value on the left with any on the right, as in RedisJSON (RFC
/// 9535 lets each side have one at most): of what is not there, nothing holds.
fn compare<'d>(
    left: &'d Term,
    how: Comparison,
    right: &'d Term,
    (node, root): (Value<'d>, Value<'d>),
    work: &mut Work,
) -> Result<bool, TooMuchWork> {
    let mut holds = false;
    if let Term::Literal(literal) = right {
        let literal = literal.root();
        left.each(node, root, work, &mut |left| holds |= how.holds_of(left, literal))?;
        return Ok(holds);
    }
    let (mut lefts, mut rights) = (Vec::new(), Vec::new());
    left.each(node, root, work, &mut |left| lefts.push(left))?;
    right.each(node, root, work, &mut |right| rights.push(right))?;
    for left in &lefts {
        for right in &rights {
            // What comparing two containers takes.
            let len = left.tape().len().min(right.tape().len());
            work.spend(1 + len as u64 / 16)?;
            if how.holds_of(*left, *right) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
