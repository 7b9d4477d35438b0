//! Expressions: operands of filters, and projections such as `$.a + 1`.
//!
//! An operand that cannot be evaluated is nothing: comparisons with it are false, and a projection
//! has no values. A query may stand for several nodes: relations hold if they hold for any of them.

use super::function::Function;
use super::pattern::Pattern;
use super::search::{find_below, find_static};
use super::{Segment, is_static};
use crate::number::Number;
use crate::tape::{Document, Writer};
use crate::value::{Kind, Value};
use crate::work::{SearchError, Work, passing};
use std::ops::ControlFlow;
use std::sync::OnceLock;

/// An operand of a filter, or a projection.
#[derive(Debug)]
pub(super) enum Expr {
    Literal(Document),
    /// Query from the node that is being looked at.
    Current(Vec<Segment>),
    /// Query from the root of the document.
    Root(Vec<Segment>),
    /// The number, or its negative.
    Sign(Sign, Box<Expr>),
    Arithmetic(Operator, Box<(Expr, Expr)>),
    Match(Box<Match>),
    Call(Function, Vec<Expr>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Test of a string by a pattern.
#[derive(Debug)]
pub(super) struct Match {
    pub text: Expr,
    pub pattern: Expr,
    /// The pattern matches the whole string instead of a part.
    pub is_whole: bool,
    pub compiled: Compiled,
}

/// A pattern that is written out in the path, compiled when it is first wanted; none if it is none.
pub(super) type Compiled = OnceLock<Option<Box<Pattern>>>;

/// The node that a filter looks at, and the root of its document.
#[derive(Clone, Copy)]
pub(super) struct Scope<'d> {
    pub node: Value<'d>,
    pub root: Value<'d>,
}

/// Result of an expression.
pub(super) enum Made<'d> {
    Nothing,
    /// A query with several nodes.
    Several,
    /// A value of the document or of a literal.
    Node(Value<'d>),
    /// A computed value.
    New(Document),
    /// Computed values: elements of an array.
    List(Document),
}

/// Callback for values; returns whether that is enough.
pub(super) type Each<'v> = dyn FnMut(Value<'_>, &mut Work) -> ControlFlow<()> + 'v;

/// Test of a value.
type Test<'v> = dyn FnMut(Value<'_>, &mut Work) -> Result<bool, SearchError> + 'v;

impl Made<'_> {
    /// The one value.
    pub fn value(&self) -> Option<Value<'_>> {
        match self {
            Made::Node(value) => Some(*value),
            Made::New(document) => Some(document.root()),
            Made::Nothing | Made::Several | Made::List(_) => None,
        }
    }

    pub fn boolean(value: bool) -> Self {
        let mut writer = Writer::default();
        writer.boolean(value);
        Made::New(writer.finish())
    }

    /// A number; nothing if it is infinite or no number.
    pub fn number(number: Number) -> Self {
        if let Number::Double(double) = number
            && !double.is_finite()
        {
            return Made::Nothing;
        }
        let mut writer = Writer::default();
        number.write(&mut writer);
        Made::New(writer.finish())
    }

    /// The values of a projection, as an array.
    pub fn into_list(self) -> Document {
        let made = match self {
            Made::List(list) => return list,
            made => made,
        };
        let (mut writer, value) = (Writer::default(), made.value());
        let begun = writer.begin_array();
        value.inspect(|value| writer.value(*value));
        writer.end(begun, usize::from(value.is_some()));
        writer.finish()
    }
}

impl Expr {
    /// Whether it selects nodes of the document.
    pub fn is_query(&self) -> bool {
        matches!(self, Expr::Current(_) | Expr::Root(_))
    }

    /// Calls for each node of a query, until that is enough.
    pub fn nodes<'d>(
        &'d self,
        scope: Scope<'d>,
        work: &mut Work,
        visit: &mut dyn FnMut(Value<'d>, &mut Work) -> ControlFlow<()>,
    ) -> Result<(), SearchError> {
        let (segments, from) = match self {
            Expr::Current(segments) => (segments, scope.node),
            Expr::Root(segments) => (segments, scope.root),
            _ => return Ok(()),
        };
        if is_static(segments) {
            if let Some(value) = find_static(segments, from, work)? {
                let _ = visit(value, work);
            }
            return Ok(());
        }
        find_below(segments, from, scope.root, work, &mut |value, _, work| visit(value, work))
    }

    pub fn evaluate<'d>(
        &'d self,
        scope: Scope<'d>,
        work: &mut Work,
    ) -> Result<Made<'d>, SearchError> {
        work.spend(1)?;
        match self {
            Expr::Literal(literal) => Ok(Made::Node(literal.root())),
            Expr::Current(_) | Expr::Root(_) => self.only_node(scope, work),
            Expr::Sign(sign, operand) => {
                let number = operand.number(scope, work)?;
                Ok(number.map_or(Made::Nothing, |number| Made::number(sign.apply(number))))
            }
            Expr::Arithmetic(operator, sides) => {
                let numbers = sides.0.number(scope, work)?.zip(sides.1.number(scope, work)?);
                let result = numbers.and_then(|(left, right)| operator.apply(left, right));
                Ok(result.map_or(Made::Nothing, Made::number))
            }
            Expr::Match(test) => test.passes(scope, work).map(Made::boolean),
            Expr::Call(function, args) => function.call(args, scope, work),
        }
    }

    fn only_node<'d>(&'d self, scope: Scope<'d>, work: &mut Work) -> Result<Made<'d>, SearchError> {
        let (mut is_one, mut last) = (true, None);
        self.nodes(scope, work, &mut |value, _| {
            is_one = last.is_none();
            last = Some(value);
            if is_one { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(match last {
            None => Made::Nothing,
            Some(node) if is_one => Made::Node(node),
            Some(_) => Made::Several,
        })
    }

    /// The number that it stands for.
    pub fn number(&self, scope: Scope<'_>, work: &mut Work) -> Result<Option<Number>, SearchError> {
        Ok(self.evaluate(scope, work)?.value().and_then(Value::number))
    }

    /// Calls for each value that it stands for, until that is enough.
    pub fn each<'d>(
        &'d self,
        scope: Scope<'d>,
        work: &mut Work,
        visit: &mut Each<'_>,
    ) -> Result<(), SearchError> {
        if self.is_query() {
            return self.nodes(scope, work, &mut |value, work| visit(value, work));
        }
        match self.evaluate(scope, work)? {
            Made::List(list) => items(list.root(), work, visit).map(drop),
            made => {
                let _ = made.value().map(|value| visit(value, work));
                Ok(())
            }
        }
    }

    /// Calls for each element of the sequence that it stands for, until that is enough: elements
    /// of one array, or several nodes. Returns false if it stands for none.
    pub fn elements<'d>(
        &'d self,
        scope: Scope<'d>,
        work: &mut Work,
        visit: &mut Each<'_>,
    ) -> Result<bool, SearchError> {
        if !self.is_query() {
            return match self.evaluate(scope, work)? {
                Made::List(list) => items(list.root(), work, visit),
                made => made.value().map_or(Ok(false), |value| items(value, work, visit)),
            };
        }
        let (mut first, mut count) = (None, 0u64);
        self.nodes(scope, work, &mut |value, work| {
            count += 1;
            match (count, first) {
                (1, _) => {
                    first = Some(value);
                    ControlFlow::Continue(())
                }
                (2, Some(first)) => {
                    visit(first, work)?;
                    visit(value, work)
                }
                _ => visit(value, work),
            }
        })?;
        match (count, first) {
            (1, Some(value)) => items(value, work, visit),
            (count, _) => Ok(count > 0),
        }
    }

    /// Whether a test passes for any value that it stands for; no more are tried then.
    pub fn any(
        &self,
        scope: Scope<'_>,
        work: &mut Work,
        test: &mut Test<'_>,
    ) -> Result<bool, SearchError> {
        let mut passes = Ok(false);
        self.each(scope, work, &mut |value, work| tried(&mut passes, test(value, work)))?;
        passes
    }

    /// Whether a test passes for any node that it stands for, or for the one value; a computed list
    /// is one.
    pub fn any_whole(
        &self,
        scope: Scope<'_>,
        work: &mut Work,
        test: &mut Test<'_>,
    ) -> Result<bool, SearchError> {
        if self.is_query() {
            return self.any(scope, work, test);
        }
        match self.evaluate(scope, work)? {
            Made::List(list) => test(list.root(), work),
            made => made.value().map_or(Ok(false), |value| test(value, work)),
        }
    }

    /// Whether a test passes for any element of the sequence that it stands for.
    pub fn any_element(
        &self,
        scope: Scope<'_>,
        work: &mut Work,
        test: &mut Test<'_>,
    ) -> Result<bool, SearchError> {
        let mut passes = Ok(false);
        self.elements(scope, work, &mut |value, work| tried(&mut passes, test(value, work)))?;
        passes
    }

    /// Whether it holds as a condition: a boolean that is true, a query with nodes, a list with
    /// elements, any other value.
    pub fn holds(&self, scope: Scope<'_>, work: &mut Work) -> Result<bool, SearchError> {
        match self {
            Expr::Literal(literal) => Ok(literal.root().boolean() != Some(false)),
            Expr::Current(_) | Expr::Root(_) => self.any(scope, work, &mut |_, _| Ok(true)),
            _ => Ok(match self.evaluate(scope, work)? {
                Made::Nothing | Made::Several => false,
                Made::Node(_) => true,
                Made::New(value) => value.root().boolean() != Some(false),
                Made::List(list) => !list.root().is_empty(),
            }),
        }
    }

    /// Bytes that compiled patterns take.
    pub fn footprint(&self) -> usize {
        match self {
            Expr::Literal(_) => 0,
            Expr::Current(segments) | Expr::Root(segments) => super::footprint(segments),
            Expr::Sign(_, operand) => operand.footprint(),
            Expr::Arithmetic(_, sides) => sides.0.footprint() + sides.1.footprint(),
            Expr::Call(_, args) => args.iter().map(Expr::footprint).sum(),
            Expr::Match(test) => {
                let compiled = test.compiled.get().and_then(Option::as_deref);
                let compiled = compiled.map_or(0, Pattern::footprint);
                test.text.footprint() + test.pattern.footprint() + compiled
            }
        }
    }
}

/// Notes the result of a test; more values are tried unless it has passed or failed.
fn tried(
    passes: &mut Result<bool, SearchError>,
    result: Result<bool, SearchError>,
) -> ControlFlow<()> {
    *passes = result;
    if *passes == Ok(false) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Calls for each element of an array, until that is enough; false if it is none.
fn items(value: Value<'_>, work: &mut Work, visit: &mut Each<'_>) -> Result<bool, SearchError> {
    if value.kind() != Kind::Array {
        return Ok(false);
    }
    for item in value.items() {
        work.spend(1 + passing(item.tape().len()))?;
        if visit(item, work).is_break() {
            break;
        }
    }
    Ok(true)
}

impl Match {
    /// Whether the text is a string that the pattern matches.
    fn passes(&self, scope: Scope<'_>, work: &mut Work) -> Result<bool, SearchError> {
        let text = self.text.evaluate(scope, work)?;
        let Some(text) = text.value().and_then(Value::string) else { return Ok(false) };
        if let Expr::Literal(literal) = &self.pattern {
            let pattern = match self.compiled.get() {
                Some(pattern) => pattern,
                None => {
                    let pattern = self.compile(literal.root(), work)?;
                    self.compiled.get_or_init(|| pattern.map(Box::new))
                }
            };
            return pattern.as_ref().map_or(Ok(false), |it| it.matches(text, work));
        }
        let pattern = self.pattern.evaluate(scope, work)?;
        let Some(pattern) = pattern.value() else { return Ok(false) };
        self.compile(pattern, work)?.map_or(Ok(false), |it| it.matches(text, work))
    }

    fn compile(&self, pattern: Value<'_>, work: &mut Work) -> Result<Option<Pattern>, SearchError> {
        let text = pattern.string();
        text.map_or(Ok(None), |text| Pattern::compile(text, self.is_whole, work))
    }
}

impl Sign {
    fn apply(self, number: Number) -> Number {
        match (self, number) {
            (Sign::Plus, number) => number,
            (Sign::Minus, Number::Integer(n)) => {
                n.checked_neg().map_or(Number::Double(-(n as f64)), Number::Integer)
            }
            (Sign::Minus, number) => Number::Double(-number.as_f64()),
        }
    }
}

impl Operator {
    /// The result: an integer if both are signed integers and it fits, except of quotients.
    fn apply(self, left: Number, right: Number) -> Option<Number> {
        if let (Number::Integer(a), Number::Integer(b)) = (left, right) {
            let result = match self {
                Operator::Add => a.checked_add(b),
                Operator::Subtract => a.checked_sub(b),
                Operator::Multiply => a.checked_mul(b),
                Operator::Divide => None,
                // Nothing for a divisor of 0, and for the one quotient that overflows.
                Operator::Remainder => return a.checked_rem(b).map(Number::Integer),
            };
            if result.is_some() {
                return result.map(Number::Integer);
            }
        }
        let (a, b) = (left.as_f64(), right.as_f64());
        if b == 0.0 && matches!(self, Operator::Divide | Operator::Remainder) {
            return None;
        }
        Some(Number::Double(match self {
            Operator::Add => a + b,
            Operator::Subtract => a - b,
            Operator::Multiply => a * b,
            Operator::Divide => a / b,
            Operator::Remainder => a % b,
        }))
    }
}
