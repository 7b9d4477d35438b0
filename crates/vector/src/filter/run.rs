//! Evaluation of filters.

use super::token::Operator;
use super::{Filter, Step, Value, json};

/// Maximum work for one element: compared values, and each eight bytes of compared strings.
pub(super) const WORK_MAX: usize = 1 << 24;

/// A value on the stack.
enum Operand<'v> {
    /// A value of the program or the attributes.
    Held(&'v Value),
    /// A result.
    Made(Value),
}

impl Operand<'_> {
    fn get(&self) -> &Value {
        match self {
            Operand::Held(value) => value,
            Operand::Made(value) => value,
        }
    }
}

impl Filter {
    /// Whether an element with these attributes passes.
    pub fn passes(&self, attributes: &[u8]) -> bool {
        self.run(attributes).unwrap_or(false)
    }

    /// None if an attribute cannot be selected, or the evaluation takes too long.
    fn run(&self, attributes: &[u8]) -> Option<bool> {
        let selected = json::select(attributes, &self.names)?;
        let mut stack: Vec<Operand<'_>> = Vec::with_capacity(4);
        let mut left = WORK_MAX;
        for step in &self.program {
            match step {
                Step::Value(value) => stack.push(Operand::Held(value)),
                Step::Select(place) => stack.push(Operand::Held(selected[*place].as_ref()?)),
                Step::Apply(Operator::Not) => {
                    let value = stack.pop()?;
                    stack.push(Operand::Made(truth(!value.get().is_true())));
                }
                Step::Apply(operator) => {
                    let (right, left_operand) = (stack.pop()?, stack.pop()?);
                    let (a, b) = (left_operand.get(), right.get());
                    left = left.checked_sub(work(*operator, a, b))?;
                    let result = apply(*operator, a, b);
                    stack.push(Operand::Made(result));
                }
            }
        }
        Some(stack.pop()?.get().is_true())
    }
}

fn truth(is_true: bool) -> Value {
    Value::Number(if is_true { 1.0 } else { 0.0 })
}

/// Cost of applying an operator, in units.
fn work(operator: Operator, left: &Value, right: &Value) -> usize {
    let of_text = |value: &Value| match value {
        Value::Text(text) => text.len() / 8,
        _ => 0,
    };
    match right {
        // Only test whether a string is empty.
        _ if matches!(operator, Operator::And | Operator::Or) => 1,
        // A string is parsed as a number for each comparison.
        Value::Tuple(values) if operator == Operator::In => {
            let each = 1 + of_text(left);
            values.iter().map(|value| each + of_text(value)).sum()
        }
        _ => of_text(left) + of_text(right),
    }
}

fn apply(operator: Operator, left: &Value, right: &Value) -> Value {
    let of_numbers =
        |apply: fn(f64, f64) -> f64| Value::Number(apply(left.number(), right.number()));
    let holds = |compare: fn(&f64, &f64) -> bool| truth(compare(&left.number(), &right.number()));
    match operator {
        Operator::Or => truth(left.is_true() || right.is_true()),
        Operator::And => truth(left.is_true() && right.is_true()),
        Operator::Equal => truth(left.equals(right)),
        Operator::Unequal => truth(!left.equals(right)),
        Operator::In => truth(left.is_in(right)),
        Operator::Above => holds(f64::gt),
        Operator::AtLeast => holds(f64::ge),
        Operator::Below => holds(f64::lt),
        Operator::AtMost => holds(f64::le),
        Operator::Add => of_numbers(|a, b| a + b),
        Operator::Subtract => of_numbers(|a, b| a - b),
        Operator::Multiply => of_numbers(|a, b| a * b),
        Operator::Divide => of_numbers(|a, b| a / b),
        Operator::Remainder => of_numbers(|a, b| a % b),
        Operator::Power => of_numbers(f64::powf),
        // Handled in other places.
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
            (Value::Text(part), Value::Text(text)) => memchr::memmem::find(text, part).is_some(),
            _ => false,
        }
    }
}

/// The number that a text represents for C's `strtod`; none if other characters follow.
pub(super) fn number_of(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    // White space according to C.
    let text = text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    let unsigned = text.trim_start_matches(['-', '+']);
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let digits = hex.len() <= 13 && text.len() - unsigned.len() <= 1;
        let number = u64::from_str_radix(hex, 16).ok().filter(|_| digits)? as f64;
        return Some(if text.starts_with('-') { -number } else { number });
    }
    text.parse().ok()
}
