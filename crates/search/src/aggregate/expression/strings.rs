//! Functions of texts.

use super::error::EvalError;
use super::functions::{Function, TEXT_MAX};
use crate::aggregate::value::Value;

type Result<T> = std::result::Result<T, EvalError>;

/// A text with changed ASCII letters; NULL for other values.
pub(super) fn change_case(value: &Value, change: fn(&u8) -> u8) -> Value {
    match value {
        Value::Text(text) => Value::Text(text.iter().map(change).collect()),
        _ => Value::Null,
    }
}

/// Number of places at which `part` begins in a text; they may overlap.
pub(super) fn count_places(text: &[u8], part: &[u8]) -> usize {
    if part.is_empty() {
        return text.len() + 1;
    }
    if part.len() > text.len() {
        return 0;
    }
    // Lengths of the longest borders of each prefix (Knuth, Morris, Pratt).
    let mut borders = vec![0usize; part.len()];
    let mut matched = 0;
    for at in 1..part.len() {
        while matched > 0 && part[at] != part[matched] {
            matched = borders[matched - 1];
        }
        matched += usize::from(part[at] == part[matched]);
        borders[at] = matched;
    }
    let (mut count, mut matched) = (0, 0);
    for &byte in text {
        while matched > 0 && byte != part[matched] {
            matched = borders[matched - 1];
        }
        matched += usize::from(byte == part[matched]);
        if matched == part.len() {
            count += 1;
            matched = borders[matched - 1];
        }
    }
    count
}

/// `substr(text, offset, length)`: a negative offset counts from the end, a negative length leaves
/// bytes at the end out.
pub(super) fn part(arguments: &[Value]) -> Result<Value> {
    let [Value::Text(text), rest @ ..] = arguments else {
        return Err(EvalError::new("Invalid type for substr. Expected string"));
    };
    let mut numbers = [0i64; 2];
    for (at, (number, value)) in numbers.iter_mut().zip(rest).enumerate() {
        let Value::Number(value) = value else {
            let test = "TYPE(v, RSValue_Number)";
            return Err(Function::Substr.bad_type(Some(value), at + 1, test));
        };
        *number = *value as i64;
    }
    let len = text.len() as i64;
    let [offset, count] = numbers;
    let offset = if offset < 0 { len.saturating_add(offset) } else { offset };
    if offset < 0 || offset > len {
        return Ok(Value::text(b""));
    }
    let rest = len - offset;
    let count = if count < 0 { rest.saturating_add(count) } else { count }.clamp(0, rest);
    // Both are within the text.
    Ok(Value::text(&text[offset as usize..(offset + count) as usize]))
}

/// `format(format, value, ...)`
pub(super) fn format(arguments: &[Value]) -> Result<Value> {
    let format = Function::Format.text(arguments, 0)?;
    let mut values = arguments[1..].iter();
    let mut text = Vec::new();
    let mut bytes = format.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            text.push(byte);
            continue;
        }
        match bytes.next() {
            None => return Err(EvalError::new("Bad format string!")),
            Some(b'%') => text.push(b'%'),
            Some(b's') => match values.next() {
                None => return Err(EvalError::new("Not enough arguments for format")),
                Some(Value::Null) => text.extend_from_slice(b"(null)"),
                Some(value) => value.print(&mut text),
            },
            Some(_) => return Err(EvalError::new("Unknown format specifier passed")),
        }
        if text.len() > TEXT_MAX {
            return Err(EvalError::new("Result of format is too long"));
        }
    }
    Ok(Value::text(&text))
}

/// `split(text, separators, strip)`
pub(super) fn split(arguments: &[Value]) -> Result<Value> {
    let text = Function::Split.text(arguments, 0)?;
    let option = |at: usize, default: &'static [u8]| match arguments.len() > at {
        true => Function::Split.text(arguments, at),
        false => Ok(default),
    };
    let (separators, strip) = (option(1, b",")?, option(2, b" ")?);
    let set = |bytes: &[u8]| {
        let mut set = [false; 256];
        bytes.iter().for_each(|&byte| set[usize::from(byte)] = true);
        set
    };
    let (separators, strip) = (set(separators), set(strip));
    let mut parts = Vec::new();
    for part in text.split(|&byte| separators[usize::from(byte)]) {
        let is_kept = |byte: &u8| !strip[usize::from(*byte)];
        let Some(start) = part.iter().position(is_kept) else { continue };
        let end = part.iter().rposition(is_kept).map_or(part.len(), |last| last + 1);
        parts.push(Value::text(&part[start..end]));
    }
    Ok(Value::Array(parts.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_may_overlap() {
        let cases = [("aaa", "a", 3), ("aaaa", "aa", 3), ("abc", "", 4), ("", "", 1), ("", "a", 0)];
        for (text, part, places) in cases {
            assert_eq!(count_places(text.as_bytes(), part.as_bytes()), places);
        }
        let long = vec![b'a'; 1 << 20];
        assert_eq!(count_places(&long, &long[..1 << 19]), (1 << 19) + 1);
    }
}
