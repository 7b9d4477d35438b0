//! Extracts top-level attributes of a JSON object, parsing it only up to the last of them.

use super::{Names, Value};

/// Maximum nesting depth of arrays and objects.
const DEPTH_MAX: usize = 64;

/// The values of attributes, in the order of `names`, in one pass: the first of each name. None if
/// any is missing or an object, or the text is not JSON up to their end.
pub(super) fn select(json: &[u8], names: &Names) -> Option<Vec<Option<Value>>> {
    let mut values = vec![None; names.0.len()];
    let mut left = values.len();
    // The empty name matches no attribute; it sorts first.
    if left == 0 || names.0[0].is_empty() {
        return (left == 0).then_some(values);
    }
    let mut text = Text { rest: json };
    text.skip_spaces();
    text.take(b'{')?;
    loop {
        text.skip_spaces();
        let key = text.raw_string()?;
        text.skip_spaces();
        text.take(b':')?;
        text.skip_spaces();
        match names.place_of(key) {
            Some(place) if values[place].is_none() => {
                values[place] = Some(text.value(0)?);
                left -= 1;
                if left == 0 {
                    return Some(values);
                }
            }
            _ => text.pass_over()?,
        }
        text.skip_spaces();
        text.take(b',')?;
    }
}

struct Text<'a> {
    rest: &'a [u8],
}

impl<'a> Text<'a> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let (&first, rest) = self.rest.split_first()?;
        (first == byte).then(|| self.rest = rest)
    }

    /// A string in its source form, including escapes.
    fn raw_string(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let mut at = 0;
        loop {
            match self.rest.get(at)? {
                b'\\' => at += 2,
                b'"' => break,
                _ => at += 1,
            }
        }
        let text = &self.rest[..at];
        self.rest = &self.rest[at + 1..];
        Some(text)
    }

    fn number_text(&mut self) -> Option<&'a [u8]> {
        let first = *self.rest.first()?;
        if !first.is_ascii_digit() && !matches!(first, b'-' | b'+') {
            return None;
        }
        let is_part =
            |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+');
        let len = self.rest.iter().position(|byte| !is_part(byte)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(text)
    }

    /// `true`, `false` or `null`, not followed by a letter.
    fn word(&mut self) -> Option<Value> {
        let is_letter = |byte: &u8| byte.is_ascii_alphabetic();
        let len = self.rest.iter().position(|byte| !is_letter(byte)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        match word {
            b"true" => Some(Value::Number(1.0)),
            b"false" => Some(Value::Number(0.0)),
            b"null" => Some(Value::Null),
            _ => None,
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        match self.rest.first()? {
            b'"' => Some(Value::Text(unescape(self.raw_string()?))),
            b'[' => self.array(depth),
            b't' | b'f' | b'n' => self.word(),
            _ => super::run::number_of(self.number_text()?).map(Value::Number),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        if depth >= DEPTH_MAX {
            return None;
        }
        self.take(b'[')?;
        let mut values = Vec::new();
        self.skip_spaces();
        if self.take(b']').is_some() {
            return Some(Value::Tuple(values));
        }
        loop {
            self.skip_spaces();
            values.push(self.value(depth + 1)?);
            self.skip_spaces();
            if self.take(b']').is_some() {
                return Some(Value::Tuple(values));
            }
            self.take(b',')?;
        }
    }

    /// Skips a value.
    fn pass_over(&mut self) -> Option<()> {
        match self.rest.first()? {
            b'"' => self.raw_string().map(drop),
            b'{' | b'[' => self.pass_over_nested(),
            b't' | b'f' | b'n' => self.word().map(drop),
            _ => self.number_text().map(drop),
        }
    }

    /// Skips an object or an array, checking only that brackets match.
    fn pass_over_nested(&mut self) -> Option<()> {
        let mut open = Vec::new();
        loop {
            match *self.rest.first()? {
                b'"' => {
                    self.raw_string()?;
                    continue;
                }
                b'{' => open.push(b'}'),
                b'[' => open.push(b']'),
                close @ (b'}' | b']') if open.pop()? != close => return None,
                _ => {}
            }
            if open.len() > DEPTH_MAX {
                return None;
            }
            self.rest = &self.rest[1..];
            if open.is_empty() {
                return Some(());
            }
        }
    }
}

/// Resolves escapes of one letter; the backslash of others is dropped.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(&byte) = bytes.next() {
        text.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'b') => 8,
                Some(b'f') => 12,
                Some(&other) => other,
                None => break,
            },
            byte => byte,
        });
    }
    text
}
