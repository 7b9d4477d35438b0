//! Running a filter.

use super::token::Operator;
use super::{Filter, Step, Value, json};

impl Filter {
    /// Whether an element with these attributes passes.
    pub fn passes(&self, attributes: &[u8]) -> bool {
        self.run(attributes).is_some_and(|value| value.is_true())
    }

    /// None if an attribute cannot be selected.
    fn run(&self, attributes: &[u8]) -> Option<Value> {
        let mut stack: Vec<Value> = Vec::with_capacity(4);
        for step in &self.program {
            match step {
                Step::Value(value) => stack.push(value.clone()),
                Step::Select(name) => stack.push(json::select(attributes, name)?),
                Step::Apply(Operator::Not) => {
                    let value = stack.pop()?;
                    stack.push(truth(!value.is_true()));
                }
                Step::Apply(operator) => {
                    let (right, left) = (stack.pop()?, stack.pop()?);
                    stack.push(apply(*operator, &left, &right));
                }
            }
        }
        stack.pop()
    }
}

fn truth(is_true: bool) -> Value {
    Value::Number(if is_true { 1.0 } else { 0.0 })
}

fn apply(operator: Operator, left: &Value, right: &Value) -> Value {
    let (a, b) = (left.number(), right.number());
    match operator {
        Operator::Or => truth(left.is_true() || right.is_true()),
        Operator::And => truth(left.is_true() && right.is_true()),
        Operator::Equal => truth(left.equals(right)),
        Operator::Unequal => truth(!left.equals(right)),
        Operator::In => truth(left.is_in(right)),
        Operator::Above => truth(a > b),
        Operator::AtLeast => truth(a >= b),
        Operator::Below => truth(a < b),
        Operator::AtMost => truth(a <= b),
        Operator::Add => Value::Number(a + b),
        Operator::Subtract => Value::Number(a - b),
        Operator::Multiply => Value::Number(a * b),
        Operator::Divide => Value::Number(a / b),
        Operator::Remainder => Value::Number(a % b),
        Operator::Power => Value::Number(a.powf(b)),
        // Applied where they are met.
        Operator::Not | Operator::Open | Operator::Close => Value::Null,
    }
}

impl Value {
    fn is_true(&self) -> bool {
        match self {
            Value::Number(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::Tuple(_) => true,
            Value::Null => false,
        }
    }

    fn number(&self) -> f64 {
        match self {
            Value::Number(number) => *number,
            Value::Text(text) => number_of(text).unwrap_or(0.0),
            Value::Tuple(_) | Value::Null => 0.0,
        }
    }

    #[allow(clippy::float_cmp)]
    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Null, _) | (_, Value::Null) => {
                matches!((self, other), (Value::Null, Value::Null))
            }
            _ => self.number() == other.number(),
        }
    }

    fn is_in(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Value::Tuple(values)) => values.iter().any(|value| self.equals(value)),
            (Value::Text(part), Value::Text(text)) => {
                part.is_empty() || text.windows(part.len()).any(|window| window == part)
            }
            _ => false,
        }
    }
}

/// The number that a text is, as C's `strtod` reads it; none if there is anything behind it.
pub(super) fn number_of(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    // What C takes for spaces.
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let unsigned = text.trim_start_matches(['-', '+']);
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let digits = hex.len() <= 13 && text.len() - unsigned.len() <= 1;
        let number = u64::from_str_radix(hex, 16).ok().filter(|_| digits)? as f64;
        return Some(if text.starts_with('-') { -number } else { number });
    }
    text.parse().ok()
}
