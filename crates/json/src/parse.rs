//! Text to tape. The grammar, its limits and its error texts are serde_json's, as RedisJSON's are.

use crate::float::FloatType;
use crate::tape::{BYTES_MAX, Document, Writer};
use crate::value::{Kind, Members, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Maximum depth of nested containers: the limit of serde_json, and so of RedisJSON.
pub const DEPTH_MAX: usize = 127;

/// Options of the parser.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parse {
    /// Arrays of nothing but numbers, at least one of them a double, become arrays of doubles,
    /// rounded to this type.
    pub floats: Option<FloatType>,
}

/// Syntax error with its position.
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
    if text.len() > BYTES_MAX {
        return Err(ParseError("the document would be too long".into()));
    }
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

/// Writes the visited values to a tape.
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

/// Objects of more members have the hashes of their names sorted to find doubled ones.
const FEW_MEMBERS: usize = 16;

/// Drops members replaced by later ones of the same name; `None` if all names differ.
fn distinct(body: &[u8], count: usize) -> Option<(usize, Vec<u8>)> {
    let is_distinct = match count {
        0..=FEW_MEMBERS => are_few_distinct(body),
        _ => are_distinct(body, count),
    };
    if is_distinct { None } else { Some(last_of_each(body, count)) }
}

fn are_few_distinct(body: &[u8]) -> bool {
    let (mut names, mut count): ([&[u8]; FEW_MEMBERS], _) = ([&[]; FEW_MEMBERS], 0);
    for (name, _) in Members::of_body(body) {
        if names[..count].contains(&name) {
            return false;
        }
        names[count] = name;
        count += 1;
    }
    true
}

/// Whether all names are distinct. Sorting takes 8 bytes per member, less than a member's text.
fn are_distinct(body: &[u8], count: usize) -> bool {
    let mut places = Vec::with_capacity(count);
    let mut members = Members::of_body(body);
    loop {
        let at = body.len() - members.rest().len();
        let Some((name, _)) = members.next() else { break };
        places.push(hash(name) << 32 | at as u64);
    }
    places.sort_unstable();
    let name = |place: &u64| Members::of_body(&body[*place as u32 as usize..]).next();
    places.chunk_by(|a, b| a >> 32 == b >> 32).all(|same| {
        if same.len() == 1 {
            return true;
        }
        let mut names: Vec<_> = same.iter().filter_map(name).map(|(name, _)| name).collect();
        names.sort_unstable();
        names.windows(2).all(|pair| pair[0] != pair[1])
    })
}

/// FNV-1a, folded to 32 bits.
fn hash(name: &[u8]) -> u64 {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ hash >> 32) & 0xffff_ffff
}

/// The members, of one name the last in the place of the first.
fn last_of_each(body: &[u8], count: usize) -> (usize, Vec<u8>) {
    let mut members: Vec<(&[u8], usize, &[u8])> = Vec::with_capacity(count);
    for (name, value) in Members::of_body(body) {
        members.push((name, members.len(), value.tape()));
    }
    members.sort_unstable();
    let mut kept: Vec<(usize, &[u8], &[u8])> = Vec::new();
    for same in members.chunk_by(|a, b| a.0 == b.0) {
        kept.push((same[0].1, same[0].0, same[same.len() - 1].2));
    }
    drop(members);
    kept.sort_unstable_by_key(|(place, ..)| *place);
    let mut writer = Writer::default();
    for (_, name, value) in &kept {
        writer.string(name);
        writer.out.extend_from_slice(value);
    }
    (kept.len(), writer.into_bytes())
}
