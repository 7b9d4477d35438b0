//! Evaluation of expressions on rows.

use super::call::call;
use super::error::EvalError;
use super::{Expression, Operator};
use crate::aggregate::value::Value;
use std::cmp::Ordering;

/// Evaluates an expression on the slots of a row.
///
/// # Errors
/// If a value is missing or does not fit.
pub fn evaluate(expression: &Expression, row: &[Option<Value>]) -> Result<Value, EvalError> {
    match expression {
        Expression::Literal(value) => Ok(value.clone()),
        Expression::Property(slot, name) => match row.get(*slot) {
            Some(Some(value)) => Ok(value.first().clone()),
            _ => {
                let text = b": has no value, consider using EXISTS if applicable";
                Err(EvalError([&**name, text].concat()))
            }
        },
        Expression::Not(inner) => Ok(Value::truth(!evaluate(inner, row)?.is_true())),
        Expression::Chain(first, rest) => {
            let mut value = evaluate(first, row)?;
            for (operator, right) in rest {
                value = apply(*operator, &value, right, row)?;
            }
            Ok(value)
        }
        Expression::Call(function, arguments) => call(*function, arguments, row),
    }
}

fn apply(
    operator: Operator,
    left: &Value,
    right: &Expression,
    row: &[Option<Value>],
) -> Result<Value, EvalError> {
    match operator {
        // The right side is evaluated only if it decides.
        Operator::Or if left.is_true() => return Ok(Value::truth(true)),
        Operator::And if !left.is_true() => return Ok(Value::truth(false)),
        _ => {}
    }
    let right = evaluate(right, row)?;
    match operator {
        Operator::Or | Operator::And => Ok(Value::truth(right.is_true())),
        Operator::Equal => Ok(Value::truth(left.equals(&right))),
        Operator::NotEqual => Ok(Value::truth(!left.equals(&right))),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            compare(operator, left, &right)
        }
        _ => arithmetic(operator, left, &right),
    }
}

fn compare(operator: Operator, left: &Value, right: &Value) -> Result<Value, EvalError> {
    let order = left.compare(right).map_err(|text| {
        EvalError([b"Error converting string '", &*text, b"' to number"].concat())
    })?;
    // Arrays are equal or not; none is the lesser one.
    let is_equal = order == Ordering::Equal;
    let is_ordered = !matches!((left, right), (Value::Array(_), Value::Array(_)));
    Ok(Value::truth(match operator {
        Operator::Less => is_ordered && order == Ordering::Less,
        Operator::LessOrEqual => is_equal || is_ordered && order == Ordering::Less,
        Operator::Greater => is_ordered && order == Ordering::Greater,
        _ => is_equal || is_ordered && order == Ordering::Greater,
    }))
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result<Value, EvalError> {
    let number = |value: &Value| {
        value.number().ok_or_else(|| EvalError::new("Could not convert value to a number"))
    };
    let (a, b) = (number(left)?, number(right)?);
    Ok(Value::Number(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide if b == 0.0 => f64::NAN,
        Operator::Divide => a / b,
        // The remainder is that of whole numbers.
        Operator::Modulo if b as i64 == 0 => f64::NAN,
        Operator::Modulo => (a as i64).wrapping_rem(b as i64) as f64,
        _ => a.powf(b),
    }))
}
