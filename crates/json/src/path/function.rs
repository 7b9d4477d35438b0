//! Functions of expressions: `length(@.a)`, which may be written `@.a.length()` too.

use super::expr::{Expr, Made, Scope};
use super::search::{item, resolve};
use crate::number::Number;
use crate::tape::{Document, Writer};
use crate::value::{Kind, Value};
use crate::work::{SearchError, Work};
use std::ops::ControlFlow;

/// A function; its arguments have the right number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Function {
    Length,
    Count,
    Value,
    Keys,
    Concat,
    Abs,
    Ceiling,
    Floor,
    First,
    Last,
    Index,
    Append,
    Min,
    Max,
    Average,
    Sum,
    /// `stddev`: of the population.
    Deviation,
    /// Another name, or another number of arguments: the result is nothing.
    Unknown,
}

type Called<'d> = Result<Made<'d>, SearchError>;

impl Function {
    /// The function of this name that takes this many arguments.
    pub fn of(name: &str, args: usize) -> Self {
        let (function, is_right) = match name {
            "length" => (Function::Length, args == 1),
            "count" => (Function::Count, args == 1),
            "value" => (Function::Value, args == 1),
            "keys" => (Function::Keys, args == 1),
            "concat" => (Function::Concat, args > 0),
            "abs" => (Function::Abs, args == 1),
            "ceiling" => (Function::Ceiling, args == 1),
            "floor" => (Function::Floor, args == 1),
            "first" => (Function::First, args == 1),
            "last" => (Function::Last, args == 1),
            "index" => (Function::Index, args == 2),
            "append" => (Function::Append, args == 2),
            "min" => (Function::Min, args == 1),
            "max" => (Function::Max, args == 1),
            "avg" => (Function::Average, args == 1),
            "sum" => (Function::Sum, args == 1),
            "stddev" => (Function::Deviation, args == 1),
            _ => (Function::Unknown, false),
        };
        if is_right { function } else { Function::Unknown }
    }

    pub fn call<'d>(self, args: &'d [Expr], scope: Scope<'d>, work: &mut Work) -> Called<'d> {
        let Some((first, rest)) = args.split_first() else { return Ok(Made::Nothing) };
        match self {
            Function::Unknown => Ok(Made::Nothing),
            Function::Length => length(first, scope, work),
            Function::Count => count(first, scope, work),
            Function::Value => value(first, scope, work),
            Function::Keys => keys(first, scope, work),
            Function::Concat => concat(args, scope, work),
            Function::Abs | Function::Ceiling | Function::Floor => {
                let number = first.number(scope, work)?.and_then(|number| self.rounded(number));
                Ok(number.map_or(Made::Nothing, Made::number))
            }
            Function::First => at(first, 0, scope, work),
            Function::Last => at(first, -1, scope, work),
            Function::Index => match rest[0].number(scope, work)?.and_then(as_integer) {
                Some(index) => at(first, index, scope, work),
                None => Ok(Made::Nothing),
            },
            Function::Append => append(first, &rest[0], scope, work),
            Function::Min
            | Function::Max
            | Function::Average
            | Function::Sum
            | Function::Deviation => self.aggregate(first, scope, work),
        }
    }

    /// The absolute or the rounded number; none if it is no signed integer of 64 bits.
    fn rounded(self, number: Number) -> Option<Number> {
        match (self, number) {
            (Function::Abs, Number::Integer(n)) => n.checked_abs().map(Number::Integer),
            (Function::Abs, Number::Double(n)) => Some(Number::Double(n.abs())),
            (Function::Ceiling, Number::Double(n)) => {
                as_integer(Number::Double(n.ceil())).map(Number::Integer)
            }
            (Function::Floor, Number::Double(n)) => {
                as_integer(Number::Double(n.floor())).map(Number::Integer)
            }
            (_, number) => Some(number),
        }
    }

    /// A figure of the numbers of a sequence; nothing if it is empty or has other values.
    fn aggregate<'d>(self, of: &'d Expr, scope: Scope<'d>, work: &mut Work) -> Called<'d> {
        let (mut count, mut sum) = (0u64, 0.0);
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        let is_numeric = each_number(of, scope, work, &mut |number| {
            count += 1;
            sum += number;
            (least, most) = (number.min(least), number.max(most));
        })?;
        if !is_numeric || count == 0 {
            return Ok(Made::Nothing);
        }
        let mean = sum / count as f64;
        let result = match self {
            Function::Min => least,
            Function::Max => most,
            Function::Average => mean,
            Function::Deviation => {
                let mut squares = 0.0;
                each_number(of, scope, work, &mut |number| squares += (number - mean).powi(2))?;
                (squares / count as f64).sqrt()
            }
            _ => sum,
        };
        Ok(Made::number(Number::Double(result)))
    }
}

/// The integer that a number is when its fraction is cut off.
pub(super) fn as_integer(number: Number) -> Option<i64> {
    match number {
        Number::Integer(n) => Some(n),
        Number::Unsigned(_) => None,
        // Both bounds are exact, the upper one is no integer of 64 bits.
        Number::Double(n) => {
            (n >= i64::MIN as f64 && n < -(i64::MIN as f64)).then_some(n.trunc() as i64)
        }
    }
}

/// Calls for each number of a sequence; returns false if it is none, or has another value.
fn each_number(
    of: &Expr,
    scope: Scope<'_>,
    work: &mut Work,
    visit: &mut dyn FnMut(f64),
) -> Result<bool, SearchError> {
    let mut is_numeric = true;
    let is_sequence = of.elements(scope, work, &mut |value, _| match value.number() {
        Some(number) => {
            visit(number.as_f64());
            ControlFlow::Continue(())
        }
        None => {
            is_numeric = false;
            ControlFlow::Break(())
        }
    })?;
    Ok(is_sequence && is_numeric)
}

/// Number of elements, members or characters of a value.
pub(super) fn size(value: Value<'_>, work: &mut Work) -> Result<Option<usize>, SearchError> {
    Ok(match value.kind() {
        Kind::Array | Kind::Object => Some(value.len()),
        Kind::String => {
            work.spend_bytes(value.tape().len())?;
            let text = value.string().unwrap_or_default();
            // All bytes except continuations of a character.
            Some(text.iter().filter(|byte| **byte & 0xc0 != 0x80).count())
        }
        _ => None,
    })
}

fn integer<'d>(number: usize) -> Made<'d> {
    Made::number(Number::Integer(number as i64))
}

fn length<'d>(of: &'d Expr, scope: Scope<'d>, work: &mut Work) -> Called<'d> {
    let made = of.evaluate(scope, work)?;
    let size = match &made {
        Made::List(list) => Some(list.root().len()),
        made => made.value().map_or(Ok(None), |value| size(value, work))?,
    };
    Ok(size.map_or(Made::Nothing, integer))
}

/// Number of nodes of a query, or of computed values.
fn count<'d>(of: &'d Expr, scope: Scope<'d>, work: &mut Work) -> Called<'d> {
    let mut count = 0;
    of.each(scope, work, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(integer(count))
}

fn value<'d>(of: &'d Expr, scope: Scope<'d>, work: &mut Work) -> Called<'d> {
    Ok(match of.evaluate(scope, work)? {
        Made::List(list) if list.root().len() == 1 => {
            list.root().item(0).map_or(Made::Nothing, |item| Made::New(Document::of(item)))
        }
        Made::List(_) | Made::Several => Made::Nothing,
        made => made,
    })
}

/// Names of the members of all objects.
fn keys<'d>(of: &'d Expr, scope: Scope<'d>, work: &mut Work) -> Called<'d> {
    let (mut list, mut values, mut objects, mut failed) = (List::begin(), 0u64, 0u64, Ok(()));
    of.each(scope, work, &mut |value, work| {
        values += 1;
        objects += u64::from(value.kind() == Kind::Object);
        for (name, _) in value.members() {
            failed = list.add(name.len(), work, |writer| writer.string(name));
            if failed.is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    failed?;
    Ok(if values > 1 || objects > 0 { list.end() } else { Made::Nothing })
}

fn concat<'d>(args: &'d [Expr], scope: Scope<'d>, work: &mut Work) -> Called<'d> {
    let mut joined = Vec::new();
    for arg in args {
        let made = arg.evaluate(scope, work)?;
        let Some(text) = made.value().and_then(Value::string) else { return Ok(Made::Nothing) };
        work.spend(text.len() as u64)?;
        joined.extend_from_slice(text);
    }
    let mut writer = Writer::default();
    writer.string(&joined);
    Ok(Made::New(writer.finish()))
}

/// The element at an index of a sequence, counted from the end if that is negative.
fn at<'d>(of: &'d Expr, index: i64, scope: Scope<'d>, work: &mut Work) -> Called<'d> {
    let element = |array, work: &mut Work| {
        let found = item(array, index, work)?;
        Ok(found.map_or(Made::Nothing, |(_, item)| Made::Node(item)))
    };
    match of.evaluate(scope, work)? {
        Made::Node(array) => element(array, work),
        Made::List(list) => Ok(match item(list.root(), index, work)? {
            Some((_, item)) => {
                work.spend(item.tape().len() as u64)?;
                Made::New(Document::of(item))
            }
            None => Made::Nothing,
        }),
        Made::Several => {
            let (mut count, mut found) = (0, None);
            of.nodes(scope, work, &mut |_, _| {
                count += 1;
                ControlFlow::Continue(())
            })?;
            let Some(mut left) = resolve(index, count) else { return Ok(Made::Nothing) };
            of.nodes(scope, work, &mut |value, _| {
                if left == 0 {
                    found = Some(value);
                    return ControlFlow::Break(());
                }
                left -= 1;
                ControlFlow::Continue(())
            })?;
            Ok(found.map_or(Made::Nothing, Made::Node))
        }
        // No array is computed.
        Made::Nothing | Made::New(_) => Ok(Made::Nothing),
    }
}

/// The elements of a sequence, or the one value, and another one.
fn append<'d>(to: &'d Expr, with: &'d Expr, scope: Scope<'d>, work: &mut Work) -> Called<'d> {
    let last = match with.evaluate(scope, work)? {
        Made::Nothing => return Ok(Made::Nothing),
        Made::Several => {
            let mut nodes = List::begin();
            nodes.add_each(work, |work, visit| with.each(scope, work, visit))?;
            nodes.end()
        }
        made => made,
    };
    let mut list = List::begin();
    let is_sequence = list.add_each(work, |work, visit| to.elements(scope, work, visit))?;
    if !is_sequence && let Some(value) = to.evaluate(scope, work)?.value() {
        list.add_value(value, work)?;
    }
    match &last {
        Made::List(whole) => list.add_value(whole.root(), work)?,
        made => made.value().map_or(Ok(()), |value| list.add_value(value, work))?,
    }
    Ok(list.end())
}

/// A list that is being made. Its bytes are steps, so that it takes no more memory than those.
struct List {
    writer: Writer,
    begun: crate::tape::Begun,
    count: usize,
}

impl List {
    fn begin() -> Self {
        let mut writer = Writer::default();
        let begun = writer.begin_array();
        List { writer, begun, count: 0 }
    }

    fn add(
        &mut self,
        bytes: usize,
        work: &mut Work,
        write: impl FnOnce(&mut Writer),
    ) -> Result<(), SearchError> {
        work.spend(1 + bytes as u64)?;
        write(&mut self.writer);
        self.count += 1;
        Ok(())
    }

    fn add_value(&mut self, value: Value<'_>, work: &mut Work) -> Result<(), SearchError> {
        self.add(value.tape().len(), work, |writer| writer.value(value))
    }

    /// Adds each value that `values` calls for.
    fn add_each<T>(
        &mut self,
        work: &mut Work,
        values: impl FnOnce(&mut Work, &mut super::expr::Each<'_>) -> Result<T, SearchError>,
    ) -> Result<T, SearchError> {
        let mut added = Ok(());
        let result = values(work, &mut |value, work| {
            added = self.add_value(value, work);
            if added.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        added.map(|()| result)
    }

    fn end<'d>(mut self) -> Made<'d> {
        self.writer.end(self.begun, self.count);
        Made::List(self.writer.finish())
    }
}
