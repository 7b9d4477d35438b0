//! Filters: `?(@.price < 10 && @.name =~ "^The")`.

use super::pattern::Pattern;
use super::search::{find_below, find_static};
use super::{Segment, is_static};
use crate::tape::Document;
use crate::value::{Kind, Value};
use crate::work::{SearchError, Work};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::OnceLock;

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
    Matches(Term, Term, Compiled),
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

/// A pattern that is written out in the path, compiled when it is first wanted; none if it is none.
pub(super) type Compiled = OnceLock<Option<Box<Pattern>>>;

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
    ) -> Result<bool, SearchError> {
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
            Filter::Holds(term) => term.any(node, root, work, &mut |_, _| Ok(true)),
            Filter::Compare(left, Comparison::NotEqual, right) => {
                Ok(!compare(left, Comparison::Equal, right, (node, root), work)?)
            }
            Filter::Compare(left, how, right) => compare(left, *how, right, (node, root), work),
            Filter::Matches(left, pattern, compiled) => {
                let Some(text) = left.value(node, root, work)?.and_then(Value::string) else {
                    return Ok(false);
                };
                if let Term::Literal(literal) = pattern {
                    let pattern = match compiled.get() {
                        Some(pattern) => pattern,
                        None => {
                            let pattern = compile(literal.root(), work)?;
                            compiled.get_or_init(|| pattern.map(Box::new))
                        }
                    };
                    return pattern.as_ref().map_or(Ok(false), |it| it.matches(text, work));
                }
                let Some(pattern) = pattern.value(node, root, work)? else { return Ok(false) };
                compile(pattern, work)?.map_or(Ok(false), |it| it.matches(text, work))
            }
        }
    }

    /// Bytes that compiled patterns take.
    pub fn footprint(&self) -> usize {
        match self {
            Filter::Or(all) | Filter::And(all) => all.iter().map(Filter::footprint).sum(),
            Filter::Not(filter) => filter.footprint(),
            Filter::Holds(term) => term.footprint(),
            Filter::Compare(left, _, right) => left.footprint() + right.footprint(),
            Filter::Matches(left, right, compiled) => {
                let compiled =
                    compiled.get().and_then(Option::as_deref).map_or(0, Pattern::footprint);
                left.footprint() + right.footprint() + compiled
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
    ) -> Result<Option<Value<'d>>, SearchError> {
        let (mut is_one, mut last) = (true, None);
        self.each(node, root, work, &mut |value, _| {
            is_one = last.is_none();
            last = Some(value);
            if is_one { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(last.filter(|_| is_one))
    }

    /// Whether a test passes for any value that it stands for; no more are tried then.
    fn any<'d>(
        &'d self,
        node: Value<'d>,
        root: Value<'d>,
        work: &mut Work,
        test: &mut dyn FnMut(Value<'d>, &mut Work) -> Result<bool, SearchError>,
    ) -> Result<bool, SearchError> {
        let mut passes = Ok(false);
        self.each(node, root, work, &mut |value, work| {
            passes = test(value, work);
            if passes == Ok(false) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        passes
    }

    /// Calls for each value that it stands for, until that is enough.
    fn each<'d>(
        &'d self,
        node: Value<'d>,
        root: Value<'d>,
        work: &mut Work,
        visit: &mut dyn FnMut(Value<'d>, &mut Work) -> ControlFlow<()>,
    ) -> Result<(), SearchError> {
        let (segments, from) = match self {
            Term::Current(segments) => (segments, node),
            Term::Root(segments) => (segments, root),
            Term::Literal(literal) => {
                let _ = visit(literal.root(), work);
                return Ok(());
            }
        };
        if is_static(segments) {
            if let Some(value) = find_static(segments, from, work)? {
                let _ = visit(value, work);
            }
            return Ok(());
        }
        find_below(segments, from, root, work, &mut |value, _, work| visit(value, work))
    }

    fn footprint(&self) -> usize {
        match self {
            Term::Literal(_) => 0,
            Term::Current(segments) | Term::Root(segments) => super::footprint(segments),
        }
    }
}

fn compile(pattern: Value<'_>, work: &mut Work) -> Result<Option<Pattern>, SearchError> {
    pattern.string().map_or(Ok(None), |text| Pattern::compile(text, work))
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
    fn holds_of(
        self,
        left: Value<'_>,
        right: Value<'_>,
        work: &mut Work,
    ) -> Result<bool, SearchError> {
        work.spend(1)?;
        Ok(match (left.kind(), right.kind()) {
            (Kind::Integer | Kind::Double, Kind::Integer | Kind::Double) => {
                let numbers = left.number().zip(right.number());
                numbers.is_some_and(|(left, right)| self.holds(left.compare(right)))
            }
            (Kind::String, Kind::String) => {
                work.spend_bytes(left.tape().len().min(right.tape().len()))?;
                self.holds(left.string().cmp(&right.string()))
            }
            (Kind::Boolean, Kind::Boolean) => self.holds(left.boolean().cmp(&right.boolean())),
            (Kind::Null, Kind::Null) => self.holds(Ordering::Equal),
            (a, b) => self == Comparison::Equal && a == b && left.is_same_within(right, work)?,
        })
    }
}

/// Whether a comparison holds for any pair of a left and a right value, as in RedisJSON (RFC 9535
/// allows at most one value on each side). A missing value never compares true.
fn compare<'d>(
    left: &'d Term,
    how: Comparison,
    right: &'d Term,
    (node, root): (Value<'d>, Value<'d>),
    work: &mut Work,
) -> Result<bool, SearchError> {
    left.any(node, root, work, &mut |left, work| {
        right.any(node, root, work, &mut |right, work| how.holds_of(left, right, work))
    })
}
