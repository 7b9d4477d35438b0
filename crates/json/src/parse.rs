//! Text to tape. The grammar, its limits and its error texts are serde_json's, as RedisJSON's are.

use crate::float::FloatType;
use crate::tape::{Document, Writer};
use crate::value::{Kind, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// How deep containers may be nested: the limit of serde_json, which RedisJSON has too.
pub const DEPTH_MAX: usize = 127;

/// How text is parsed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parse {
    /// Arrays of nothing but numbers, at least one of them a double, become arrays of doubles,
    /// rounded to this type.
    pub floats: Option<FloatType>,
}

/// Text that is no document: what is wrong, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

/// Parses a document. Of members of one name the last counts, in the place of the first.
///
/// # Errors
/// If the text is not JSON, nested deeper than [`DEPTH_MAX`], or has numbers that a double does
/// not reach.
pub fn parse(text: &[u8], how: Parse) -> Result<Document, ParseError> {
    let mut writer = Writer::default();
    let text = std::str::from_utf8(text).map_err(|_| ParseError("invalid UTF-8".into()))?;
    // A tape is shorter than its text, apart from a few bytes for some doubles.
    writer.out.reserve(text.len().min(64 * 1024));
    let mut source = serde_json::Deserializer::from_str(text);
    let seed = Seed { writer: &mut writer, how };
    seed.deserialize(&mut source).and_then(|_| source.end()).map_err(error_of)?;
    Ok(writer.finish())
}

#[cold]
fn error_of(error: serde_json::Error) -> ParseError {
    ParseError(error.to_string())
}

/// Writes what it visits.
struct Seed<'w> {
    writer: &'w mut Writer,
    how: Parse,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.writer.null();
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.writer.boolean(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.writer.integer(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.writer.unsigned(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.writer.double(value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.writer.string(value.as_bytes());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Seed { writer, how } = self;
        let begun = writer.begin_array();
        let mut count = 0;
        while items.next_element_seed(Seed { writer, how })?.is_some() {
            count += 1;
        }
        if let Some(floats) = how.floats {
            let from = writer.body_of(&begun);
            if let Some(rounded) = rounded(&writer.out[from..], floats).map_err(A::Error::custom)? {
                writer.out.truncate(from);
                writer.out.extend(rounded);
            }
        }
        writer.end(begun, count);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Seed { writer, how } = self;
        let begun = writer.begin_object();
        let mut count = 0;
        while members.next_key_seed(Seed { writer, how })?.is_some() {
            members.next_value_seed(Seed { writer, how })?;
            count += 1;
        }
        let from = writer.body_of(&begun);
        if count > 1
            && let Some((distinct, members)) = distinct(&writer.out[from..], count)
        {
            writer.out.truncate(from);
            writer.out.extend(members);
            count = distinct;
        }
        writer.end(begun, count);
        Ok(())
    }
}

/// The elements rounded, integers too, if all are numbers.
fn rounded(body: &[u8], floats: FloatType) -> Result<Option<Vec<u8>>, String> {
    let mut rest = body;
    while !rest.is_empty() {
        let value = Value::new(rest);
        if !matches!(value.kind(), Kind::Double | Kind::Integer) {
            return Ok(None);
        }
        rest = &rest[value.tape().len()..];
    }
    let (mut rest, mut writer) = (body, Writer::default());
    while !rest.is_empty() {
        let value = Value::new(rest);
        let number = value.number().map_or(0.0, |number| number.as_f64());
        let rounded = floats
            .round(number)
            .ok_or_else(|| format!("value out of range for {}", floats.name()))?;
        writer.double(rounded);
        rest = &rest[value.tape().len()..];
    }
    Ok(Some(writer.into_bytes()))
}

/// The members without those that later ones of the same name replace; none if all names differ.
fn distinct(body: &[u8], count: usize) -> Option<(usize, Vec<u8>)> {
    let mut members: Vec<(&[u8], usize, &[u8])> = Vec::with_capacity(count);
    let mut rest = body;
    while !rest.is_empty() {
        let name = Value::new(rest);
        let value = Value::new(&rest[name.tape().len()..]);
        members.push((name.tape(), members.len(), value.tape()));
        rest = &rest[name.tape().len() + value.tape().len()..];
    }
    members.sort_unstable();
    if !members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    let mut kept: Vec<(usize, &[u8], &[u8])> = Vec::with_capacity(members.len());
    for same in members.chunk_by(|a, b| a.0 == b.0) {
        kept.push((same[0].1, same[0].0, same[same.len() - 1].2));
    }
    kept.sort_unstable_by_key(|(place, ..)| *place);
    let body = kept.iter().flat_map(|(_, name, value)| [*name, *value]).flatten().copied();
    Some((kept.len(), body.collect()))
}
