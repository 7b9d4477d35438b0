//! Filters: `?(@.price < 10 && @.name =~ "^The")`.

use super::expr::{Expr, Scope};
use super::function::{as_integer, size};
use crate::value::{Kind, Value};
use crate::work::{SearchError, Work, passing};
use std::cmp::Ordering;

/// A condition on a node.
#[derive(Debug)]
pub(super) enum Filter {
    Or(Vec<Filter>),
    And(Vec<Filter>),
    Not(Box<Filter>),
    Holds(Expr),
    Compare(Expr, Comparison, Expr),
    Relate(Expr, Relation, Expr),
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

/// Relation of a value to a sequence, or to a property of the value. It holds if it does for any
/// node on the left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Relation {
    /// The value is an element of the right side.
    In,
    /// Each element of the array is one of the right side.
    SubsetOf,
    /// An element of the array is one of the right side.
    AnyOf,
    /// The right side is the number of elements, members or characters.
    Size,
    /// The right side is whether that number is 0.
    Empty,
}

impl Filter {
    pub fn passes(&self, scope: Scope<'_>, work: &mut Work) -> Result<bool, SearchError> {
        work.spend(1)?;
        match self {
            Filter::Or(any) => {
                for filter in any {
                    if filter.passes(scope, work)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Filter::And(all) => {
                for filter in all {
                    if !filter.passes(scope, work)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Filter::Not(filter) => Ok(!filter.passes(scope, work)?),
            Filter::Holds(expr) => expr.holds(scope, work),
            Filter::Compare(left, Comparison::NotEqual, right) => {
                Ok(!compare(left, Comparison::Equal, right, scope, work)?)
            }
            Filter::Compare(left, how, right) => compare(left, *how, right, scope, work),
            Filter::Relate(left, how, right) => how.holds(left, right, scope, work),
        }
    }

    /// Bytes that compiled patterns take.
    pub fn footprint(&self) -> usize {
        match self {
            Filter::Or(all) | Filter::And(all) => all.iter().map(Filter::footprint).sum(),
            Filter::Not(filter) => filter.footprint(),
            Filter::Holds(expr) => expr.footprint(),
            Filter::Compare(left, _, right) | Filter::Relate(left, _, right) => {
                left.footprint() + right.footprint()
            }
        }
    }
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

impl Relation {
    fn holds(
        self,
        left: &Expr,
        right: &Expr,
        scope: Scope<'_>,
        work: &mut Work,
    ) -> Result<bool, SearchError> {
        if self == Relation::In {
            return left.any(scope, work, &mut |left, work| is_in(left, right, scope, work));
        }
        left.any_whole(scope, work, &mut |left, work| match self {
            Relation::Size => {
                let Some(size) = size(left, work)? else { return Ok(false) };
                right.any(scope, work, &mut |right, _| {
                    Ok(right.number().and_then(as_integer) == Some(size as i64))
                })
            }
            Relation::Empty => {
                let Some(size) = size(left, work)? else { return Ok(false) };
                right.any(scope, work, &mut |right, _| Ok(right.boolean() == Some(size == 0)))
            }
            _ => self.holds_of_array(left, right, scope, work),
        })
    }

    /// Whether all or any of the elements are in a sequence.
    fn holds_of_array(
        self,
        array: Value<'_>,
        sequence: &Expr,
        scope: Scope<'_>,
        work: &mut Work,
    ) -> Result<bool, SearchError> {
        let needs_all = self == Relation::SubsetOf;
        if array.kind() != Kind::Array {
            return Ok(false);
        }
        for element in array.items() {
            work.spend(passing(element.tape().len()))?;
            if is_in(element, sequence, scope, work)? != needs_all {
                return Ok(!needs_all);
            }
        }
        Ok(needs_all)
    }
}

/// Whether a value is an element of a sequence.
fn is_in(
    value: Value<'_>,
    sequence: &Expr,
    scope: Scope<'_>,
    work: &mut Work,
) -> Result<bool, SearchError> {
    let equal = Comparison::Equal;
    sequence.any_element(scope, work, &mut |element, work| equal.holds_of(value, element, work))
}

/// Whether a comparison holds for any pair of a left and a right value, as in RedisJSON (RFC 9535
/// allows at most one value on each side). A missing value never compares true.
fn compare(
    left: &Expr,
    how: Comparison,
    right: &Expr,
    scope: Scope<'_>,
    work: &mut Work,
) -> Result<bool, SearchError> {
    left.any(scope, work, &mut |left, work| {
        right.any(scope, work, &mut |right, work| how.holds_of(left, right, work))
    })
}
