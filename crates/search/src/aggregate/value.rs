//! Values of rows: numbers, texts, arrays and NULL. A field that a document lacks is no value.

use std::cmp::Ordering;
use std::mem::size_of;
use std::sync::Arc;

/// Nested arrays are at most this deep.
const DEPTH_MAX: usize = 8;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The result of a function without a result.
    Null,
    /// A number.
    Number(f64),
    /// Bytes.
    Text(Arc<[u8]>),
    /// Several values.
    Array(Arc<[Value]>),
    /// Values of a JSON path that are shown together, of which the first counts.
    Several(Arc<Several>),
}

/// Values of a JSON path.
#[derive(Clone, Debug, PartialEq)]
pub struct Several {
    /// The value that expressions, groups and orders use.
    pub first: Value,
    /// All values, as text of a JSON array.
    pub text: Box<[u8]>,
}

impl Value {
    /// A text.
    pub fn text(bytes: &[u8]) -> Self {
        Value::Text(bytes.into())
    }

    /// The value that counts: the first of several.
    pub fn first(&self) -> &Self {
        match self {
            Value::Several(several) => &several.first,
            value => value,
        }
    }

    /// 1 for true, 0 for false.
    pub fn truth(is_true: bool) -> Self {
        Value::Number(if is_true { 1.0 } else { 0.0 })
    }

    /// Whether a condition with this value holds.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Number(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Several(several) => several.first.is_true(),
        }
    }

    /// The number of a number, or of a text that is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(text) => parse_number(text),
            Value::Several(several) => several.first.number(),
            Value::Null | Value::Array(_) => None,
        }
    }

    /// Compares two values. A number and a text are compared as numbers.
    ///
    /// # Errors
    /// The text that is no number, if one is beside a number.
    pub fn compare(&self, other: &Self) -> Result<Ordering, Arc<[u8]>> {
        let numbers = |a: f64, b: f64| {
            if a > b {
                Ordering::Greater
            } else if a < b {
                Ordering::Less
            } else {
                Ordering::Equal
            }
        };
        Ok(match (self.first(), other.first()) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => Ordering::Less,
            (_, Value::Null) => Ordering::Greater,
            (Value::Number(a), Value::Number(b)) => numbers(*a, *b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Array(a), Value::Array(b)) => compare_arrays(a, b),
            (Value::Number(a), other) => numbers(*a, other.number().ok_or(other.shown())?),
            (other, Value::Number(b)) => numbers(other.number().ok_or(other.shown())?, *b),
            (Value::Array(_), Value::Text(b)) => [][..].cmp(b),
            (Value::Text(a), Value::Array(_)) => (**a).cmp(&[]),
            // The first of several is a single one.
            (Value::Several(_), _) | (_, Value::Several(_)) => Ordering::Equal,
        })
    }

    /// Like [`Value::compare`], for sorting: a text that is no number is compared with the text of
    /// a number.
    pub fn order(&self, other: &Self) -> Ordering {
        self.compare(other).unwrap_or_else(|_| {
            let mut texts = [Vec::new(), Vec::new()];
            self.print(&mut texts[0]);
            other.print(&mut texts[1]);
            texts[0].cmp(&texts[1])
        })
    }

    /// Whether two values are equal, as `==` of an expression tests it.
    pub fn equals(&self, other: &Self) -> bool {
        self.compare(other) == Ok(Ordering::Equal)
    }

    /// Appends the value as text; arrays have none.
    pub fn print(&self, out: &mut Vec<u8>) {
        match self {
            Value::Number(number) => out.extend_from_slice(print_number(*number).as_bytes()),
            Value::Text(text) => out.extend_from_slice(text),
            Value::Several(several) => several.first.print(out),
            Value::Null | Value::Array(_) => {}
        }
    }

    fn shown(&self) -> Arc<[u8]> {
        match self {
            Value::Text(text) => text.clone(),
            _ => (&b"(null)"[..]).into(),
        }
    }

    /// Appends bytes that are equal for equal values only.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(0),
            Value::Number(number) => {
                // Both zeros are equal, and so are all values that are no numbers.
                let number = if *number == 0.0 { 0.0 } else { *number };
                let number = if number.is_nan() { f64::NAN } else { number };
                out.push(1);
                out.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            Value::Text(text) => {
                out.push(2);
                out.extend_from_slice(&(text.len() as u64).to_le_bytes());
                out.extend_from_slice(text);
            }
            Value::Array(items) => {
                out.push(3);
                out.extend_from_slice(&(items.len() as u64).to_le_bytes());
                items.iter().for_each(|item| item.encode(out));
            }
            Value::Several(several) => several.first.encode(out),
        }
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        match self {
            Value::Null | Value::Number(_) => 0,
            Value::Text(text) => text.len() + 2 * size_of::<usize>(),
            Value::Several(several) => {
                several.first.footprint() + several.text.len() + size_of::<Several>()
            }
            Value::Array(items) => {
                items.iter().map(|item| item.footprint() + size_of::<Value>()).sum::<usize>()
                    + 2 * size_of::<usize>()
            }
        }
    }

    /// Whether arrays are nested too deeply to be kept.
    pub fn is_too_deep(&self) -> bool {
        fn depth(value: &Value, left: usize) -> bool {
            match value {
                Value::Array(_) if left == 0 => true,
                Value::Array(items) => items.iter().any(|item| depth(item, left - 1)),
                _ => false,
            }
        }
        depth(self, DEPTH_MAX)
    }
}

fn compare_arrays(a: &[Value], b: &[Value]) -> Ordering {
    let mut orders = a.iter().zip(b).map(|(a, b)| a.order(b));
    let unequal = orders.find(|&order| order != Ordering::Equal);
    unequal.unwrap_or(a.len().cmp(&b.len()))
}

/// Reads a number as C does: decimal or hexadecimal, blanks before it, nothing after it. An empty
/// text is 0.
pub fn parse_number(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let text = std::str::from_utf8(text).ok()?.trim_ascii_start();
    let (is_negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = match digits.as_bytes() {
        [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(rest)?,
        [b'-' | b'+', ..] => return None,
        _ => digits.parse::<f64>().ok()?,
    };
    Some(if is_negative { -magnitude } else { magnitude })
}

fn parse_hexadecimal(digits: &[u8]) -> Option<f64> {
    if digits.is_empty() || digits.len() > 256 {
        return None;
    }
    let mut number = 0.0f64;
    for &digit in digits {
        number = number * 16.0 + f64::from(char::from(digit).to_digit(16)?);
    }
    Some(number)
}

/// Prints a number as replies show it: integers whole, others with 12 significant digits.
pub fn print_number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < i64::MAX as f64 {
        return (number as i64).to_string();
    }
    if !number.is_finite() {
        let text = if number.is_nan() { "nan" } else { "inf" };
        return if number.is_sign_negative() { format!("-{text}") } else { text.to_string() };
    }
    let scientific = format!("{number:.11e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if !(-4..12).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(11 - exponent).unwrap_or(0);
    trimmed(&format!("{number:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_replies_show_them() {
        let cases = [
            (1.0, "1"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.333333333333"),
            (1e17, "100000000000000000"),
            (1e20, "1e+20"),
            (1e-7, "1e-07"),
            (-0.0, "0"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
            (1.23456789012345, "1.23456789012"),
        ];
        for (number, text) in cases {
            assert_eq!(print_number(number), text);
        }
    }

    #[test]
    fn texts_beside_numbers_are_numbers() {
        let (text, number) = (Value::text, Value::Number);
        assert!(text(b"01").equals(&number(1.0)));
        assert!(text(b"0x10").equals(&number(16.0)));
        assert!(text(b"").equals(&number(0.0)));
        assert!(!text(b"1 ").equals(&number(1.0)));
        assert!(text(b"a").compare(&number(1.0)).is_err());
        assert_eq!(text(b"10").compare(&text(b"9")), Ok(Ordering::Less));
        assert_eq!(text(b"10").compare(&number(9.0)), Ok(Ordering::Greater));
        assert_eq!(Value::Null.compare(&number(0.0)), Ok(Ordering::Less));
    }

    #[test]
    fn nested_arrays_are_bounded() {
        let mut value = Value::Null;
        for _ in 0..DEPTH_MAX {
            value = Value::Array([value].into());
            assert!(!value.is_too_deep());
        }
        assert!(Value::Array([value].into()).is_too_deep());
    }
}
