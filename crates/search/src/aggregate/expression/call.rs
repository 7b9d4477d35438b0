//! Calls of functions. Unless said otherwise, an argument of another type than the function takes
//! is an error.

use super::error::EvalError;
use super::eval::evaluate;
use super::functions::Function;
use super::{Expression, geo, strings, time};
use crate::aggregate::value::Value;

type Result<T> = std::result::Result<T, EvalError>;

/// Calls a function.
pub(super) fn call(
    function: Function,
    arguments: &[Expression],
    row: &[Option<Value>],
) -> Result<Value> {
    match (function, arguments) {
        (Function::Exists, [Expression::Property(slot, _)]) => {
            return Ok(Value::truth(matches!(row.get(*slot), Some(Some(_)))));
        }
        (Function::Case, [condition, then, otherwise]) => {
            let is_true = evaluate(condition, row)?.is_true();
            return evaluate(if is_true { then } else { otherwise }, row);
        }
        _ => {}
    }
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(evaluate(argument, row)?);
    }
    if !function.takes(values.len()) {
        return Err(function.bad_count());
    }
    let arguments = &values[..];
    match function {
        Function::Log
        | Function::Log2
        | Function::Exp
        | Function::Ceil
        | Function::Floor
        | Function::Abs
        | Function::Sqrt => Ok(Value::Number(mathematical(function, &arguments[0]))),
        Function::Upper => Ok(strings::change_case(&arguments[0], u8::to_ascii_uppercase)),
        Function::Lower => Ok(strings::change_case(&arguments[0], u8::to_ascii_lowercase)),
        Function::StartsWith => {
            let (text, start) = (function.text(arguments, 0)?, function.text(arguments, 1)?);
            Ok(Value::truth(text.starts_with(start)))
        }
        Function::Contains => {
            let (text, part) = (function.text(arguments, 0)?, function.text(arguments, 1)?);
            Ok(Value::Number(strings::count_places(text, part) as f64))
        }
        Function::StrLen => Ok(Value::Number(function.text(arguments, 0)?.len() as f64)),
        Function::Substr => strings::part(arguments),
        Function::Format => strings::format(arguments),
        Function::Split => strings::split(arguments),
        Function::MatchedTerms => Ok(Value::Null),
        Function::ToNumber => to_number(&arguments[0]),
        Function::ToStr => {
            let mut text = Vec::new();
            arguments[0].print(&mut text);
            Ok(Value::text(&text))
        }
        Function::TimeFmt => time::print(arguments),
        Function::ParseTime => time::parse(arguments),
        Function::GeoDistance => geo::distance(arguments, || function.bad_count()),
        Function::Exists => Ok(Value::truth(true)),
        // Its arguments were counted, so it has been evaluated.
        Function::Case => Err(function.bad_count()),
        _ => Ok(time::part(function, &arguments[0])),
    }
}

fn mathematical(function: Function, argument: &Value) -> f64 {
    let Some(x) = argument.number() else { return f64::NAN };
    // The sign of the processor, as in Redis.
    let undefined = -f64::NAN.abs();
    match function {
        Function::Log | Function::Log2 | Function::Sqrt if x < 0.0 => undefined,
        Function::Log => x.ln(),
        Function::Log2 => x.log2(),
        Function::Exp => x.exp(),
        Function::Ceil => x.ceil(),
        Function::Floor => x.floor(),
        Function::Abs => x.abs(),
        _ => x.sqrt(),
    }
}

fn to_number(value: &Value) -> Result<Value> {
    let text = match value {
        Value::Number(_) => return Ok(value.clone()),
        Value::Text(text) => &**text,
        Value::Null | Value::Array(_) | Value::Several(_) => b"(null)",
    };
    let number = value.number().map(Value::Number);
    number.ok_or_else(|| EvalError([b"to_number: cannot convert string '", text, b"'"].concat()))
}
