//! Hits are read from their keys, under the locks of these. Each is tested again: it is returned as
//! it is then, if it still matches.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::query::Searched;
use crate::search::showing::Showing;
use crate::search::stored::{
    ROOT, Stored, field_value, named_path, path_value, read, sorted_value, with_document,
};
use petrel_json::{Path, Value as Json};
use petrel_keyspace::{HashRef, Keyspace};
use petrel_search::aggregate::value::Value;
use petrel_search::index::json::JsonPaths;
use petrel_search::index::schema::{Field, FieldKind, Schema, parse_number};
use petrel_search::index::search::{Found, Hit, SortKey};
use petrel_search::query::{Explanation, hamming};
use petrel_search::text::Language;
use std::ops::Range;

/// Work units of reading a hit.
const UNITS_PER_HIT: usize = 40;

/// A field of `RETURN`.
pub(super) struct Returned<'a> {
    /// Name in the index or in the hash.
    pub field: &'a [u8],
    /// Name in the reply.
    pub name: &'a [u8],
}

impl<'a> Returned<'a> {
    /// Parses `field [AS name] ...`.
    pub fn parse(words: &'a [&'a [u8]]) -> Result<Vec<Self>, Fail> {
        let (mut returned, mut at) = (Vec::new(), 0);
        while let Some(&field) = words.get(at) {
            at += 1;
            let mut name = field;
            if words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(b"AS")) {
                name = words
                    .get(at + 1)
                    .copied()
                    .ok_or(Fail::fixed("RETURN path AS name - must be accompanied with NAME"))?;
                at += 2;
            }
            returned.push(Returned { field, name });
        }
        Ok(returned)
    }
}

/// The results of a page.
#[derive(Default)]
pub(super) struct Loader {
    pub results: Vec<Loaded>,
    /// Names and values of all results.
    bytes: Vec<u8>,
    fields: Vec<Entry>,
    /// Paths of `RETURN` that are no fields of the index.
    paths: Vec<Option<Path>>,
    /// First byte of the value that is being written.
    begun: usize,
    /// Whether texts are marked or summarized later.
    marks_texts: bool,
}

/// A field of a result.
struct Entry {
    name: Range<usize>,
    part: Part,
    /// Number of the field in the index, if it is one.
    field: Option<u16>,
    /// Language of the document, if it states one.
    language: Option<Language>,
}

/// The value of a field of a result.
enum Part {
    Bytes(Range<usize>),
    Value(Value),
}

/// The value of a field of a result.
pub(super) enum Shown<'l> {
    Bytes(&'l [u8]),
    Value(&'l Value),
}

/// A result.
pub(super) struct Loaded {
    pub key: Box<[u8]>,
    pub score: f64,
    pub explanation: Option<Explanation>,
    pub sort_key: SortKey,
    pub payload: Option<Box<[u8]>>,
    fields: Range<usize>,
}

impl Loader {
    /// Whether fewer results were read than wanted.
    pub fn is_short(&self, wanted: usize) -> bool {
        self.results.len() < wanted
    }

    /// Names and values of a result.
    pub fn fields(&self, result: &Loaded) -> impl ExactSizeIterator<Item = (&[u8], Shown<'_>)> {
        let fields = self.fields[result.fields.clone()].iter();
        fields.map(|entry| {
            let shown = match &entry.part {
                Part::Bytes(bytes) => Shown::Bytes(&self.bytes[bytes.clone()]),
                Part::Value(value) => Shown::Value(value),
            };
            (&self.bytes[entry.name.clone()], shown)
        })
    }

    /// Number of values of all results.
    pub fn values(&self) -> usize {
        self.fields.len()
    }

    /// The field of a value, if it is one of the index.
    pub fn field_of(&self, at: usize) -> Option<usize> {
        self.fields[at].field.map(usize::from)
    }

    /// The language that the document of a value states.
    pub fn language_of(&self, at: usize) -> Option<Language> {
        self.fields[at].language
    }

    /// A value, if it is a text.
    pub fn text(&self, at: usize) -> Option<&[u8]> {
        match &self.fields[at].part {
            Part::Bytes(bytes) => Some(&self.bytes[bytes.clone()]),
            Part::Value(Value::Text(text)) => Some(text),
            Part::Value(_) => None,
        }
    }

    /// Bytes to which another value is added.
    pub fn begin_value(&mut self) -> &mut Vec<u8> {
        self.begun = self.bytes.len();
        &mut self.bytes
    }

    /// Replaces a value by the one that was added.
    pub fn end_value(&mut self, at: usize) {
        self.fields[at].part = Part::Bytes(self.begun..self.bytes.len());
    }

    /// Reads the results of the page.
    pub fn load(
        &mut self,
        ctx: &mut Ctx<'_>,
        searched: &Searched<'_, '_>,
        found: &Found,
    ) -> Outcome {
        let options = searched.options;
        self.marks_texts = options.highlights.is_any();
        let keyspace = ctx.exec.ks.keyspace().clone();
        let paths = searched.index.paths.clone();
        if paths.is_some() {
            let returned = options.returned.iter().flatten();
            self.paths = returned.map(|returned| named_path(returned.field)).collect();
        }
        for hit in found.hits.iter().skip(options.offset) {
            if self.results.len() == options.count {
                break;
            }
            let reads = !options.no_content || options.with_payloads;
            if !reads {
                self.results.push(Loaded::of(hit, 0..0));
                continue;
            }
            ctx.pace(UNITS_PER_HIT)?;
            let bits = ctx.exec.ks.hash(&hit.key).bits();
            with_document(ctx, &hit.key, paths.as_deref(), |stored| {
                let is_there = is_as_found(hit, bits, searched, &keyspace);
                if is_there || is_match(hit, stored, searched) {
                    match stored {
                        Stored::Hash(hash) => self.take(hit, (hash, stored), searched),
                        Stored::Json(root, paths) => self.take_json(hit, *root, paths, searched),
                    }
                }
            })?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        hit: &Hit,
        (hash, stored): (&HashRef<'_>, &Stored<'_>),
        searched: &Searched<'_, '_>,
    ) {
        let schema = &searched.index.schema;
        let start = self.fields.len();
        let options = searched.options;
        match &options.returned {
            _ if options.no_content => {}
            Some(returned) => {
                // As in Redis, distances come first.
                let distances = &searched.vectors.distances;
                for (number, distance) in distances.iter().enumerate() {
                    let own = returned.iter().filter(|it| *it.field == *distance.name);
                    own.for_each(|it| self.distance(number, stored, searched, it.name));
                }
                for Returned { field, name } in returned {
                    if searched.vectors.find(field).is_none() {
                        self.return_field(hit, hash, schema, field, name);
                    }
                }
            }
            None => {
                for (number, distance) in searched.vectors.distances.iter().enumerate() {
                    self.distance(number, stored, searched, &distance.name);
                }
                self.all_fields(hash, options.sort.map(|(name, _)| name), schema);
            }
        }
        if let Some(name) = &schema.documents.language_field {
            let mut language = None;
            read(hash, name, &mut |value| language = Language::of(value));
            self.fields[start..].iter_mut().for_each(|value| value.language = language);
        }
        let payload = schema.documents.payload_field.as_deref().and_then(|name| {
            let mut payload = None;
            read(hash, name, &mut |value: &[u8]| {
                payload = Some(value).filter(|value| !value.is_empty()).map(Into::into);
            });
            payload
        });
        let fields = start..self.fields.len();
        self.results.push(Loaded { payload, ..Loaded::of(hit, fields) });
    }

    fn push(&mut self, name: &[u8], value: &[u8], field: Option<usize>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let part = Part::Bytes(middle..self.bytes.len());
        self.push_part(start..middle, part, field);
    }

    fn push_part(&mut self, name: Range<usize>, part: Part, field: Option<usize>) {
        let field = field.and_then(|field| u16::try_from(field).ok());
        self.fields.push(Entry { name, part, field, language: None });
    }

    fn push_value(&mut self, name: &[u8], value: Option<Value>, field: Option<usize>) {
        let Some(value) = value else { return };
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.push_part(start..self.bytes.len(), Part::Value(value), field);
    }

    fn take_json(
        &mut self,
        hit: &Hit,
        root: Json<'_>,
        paths: &JsonPaths,
        searched: &Searched<'_, '_>,
    ) {
        let (options, schema) = (searched.options, &searched.index.schema);
        let (start, showing) = (self.fields.len(), options.showing());
        let field = |name: &[u8]| {
            let number = schema.field(name)?;
            Some((&schema.fields[number], paths.path(number)?))
        };
        match &options.returned {
            _ if options.no_content => {}
            Some(returned) => {
                for (at, Returned { field: source, name }) in returned.iter().enumerate() {
                    let value = match (field(source), self.paths.get(at)) {
                        (Some(field), _) => field_value(field, root, showing),
                        _ if *source == b"__key" => Some(Value::text(&hit.key)),
                        (_, Some(Some(path))) => path_value(path, root, showing),
                        _ => None,
                    };
                    self.push_value(name, value, schema.field(source));
                }
            }
            None => {
                if let Some((name, _)) = options.sort
                    && let Some(own) = field(name)
                {
                    let value = match own.0.is_sortable && showing == Showing::First {
                        true => sorted_value(own, root),
                        false => field_value(own, root, showing),
                    };
                    self.push_value(name, value, schema.field(name));
                }
                self.push_value(ROOT, whole(root, showing), None);
            }
        }
        self.results.push(Loaded::of(hit, start..self.fields.len()));
    }

    /// A distance of the query.
    fn distance(
        &mut self,
        number: usize,
        stored: &Stored<'_>,
        searched: &Searched<'_, '_>,
        name: &[u8],
    ) {
        let schema = &searched.index.schema;
        let distance = searched.vectors.distances.get(number);
        if let Some(distance) = distance.and_then(|it| stored.distance(schema, &it.near)) {
            self.push(name, returned_number(distance).as_bytes(), None);
        }
    }

    fn return_field(
        &mut self,
        hit: &Hit,
        hash: &HashRef<'_>,
        schema: &Schema,
        field: &[u8],
        name: &[u8],
    ) {
        let known = schema.field(field);
        let definition = known.map(|number| &schema.fields[number]);
        if field == b"__key" && definition.is_none() {
            return self.push(name, &hit.key, None);
        }
        let source = definition.map_or(field, |definition| &definition.source);
        let is_number = definition.is_some_and(|definition| definition.kind == FieldKind::Number);
        read(hash, source, &mut |value| match parse_number(value) {
            Some(number) if is_number => self.push(name, returned_number(number).as_bytes(), None),
            _ => self.push(name, value, known),
        });
    }

    /// All fields of a hash, that by which results are sorted first.
    fn all_fields(&mut self, hash: &HashRef<'_>, sort: Option<&[u8]>, schema: &Schema) {
        let sorted = sort.and_then(|name| schema.field(name));
        let sort = sorted.map(|number| &schema.fields[number]);
        if let Some(sort) = sort {
            read(hash, &sort.source, &mut |value| self.push(&sort.name, value, sorted));
        }
        let (mut name_scratch, mut scratch) = (itoa::Buffer::new(), itoa::Buffer::new());
        hash.each(&mut |field| {
            let name = field.name.bytes(&mut name_scratch);
            if sort.is_none_or(|sort| *sort.source != *name) {
                let is_it = |known: &Field| known.is_text() && *known.source == *name;
                let known = self.marks_texts.then(|| schema.fields.iter().position(is_it));
                let known = known.flatten();
                self.push(name, field.value.bytes(&mut scratch), known);
            }
        });
    }
}

/// A whole JSON document.
pub(super) fn whole(root: Json<'_>, showing: Showing) -> Option<Value> {
    path_value(&named_path(ROOT)?, root, showing)
}

impl Loaded {
    fn of(hit: &Hit, fields: Range<usize>) -> Self {
        Loaded {
            key: hit.key.clone(),
            score: hit.score,
            explanation: hit.explanation.clone(),
            sort_key: hit.sort_key.clone(),
            payload: None,
            fields,
        }
    }
}

/// Whether a document is as the query has found it. Its key is locked.
pub(super) fn is_as_found(
    hit: &Hit,
    hash: u64,
    searched: &Searched<'_, '_>,
    keyspace: &Keyspace,
) -> bool {
    if keyspace.indexes().fence.is_in_flight(hash, 0) {
        return false;
    }
    let contents = searched.index.live.read();
    let document = contents.documents().get(hit.row);
    document.is_some_and(|document| document.sequence == hit.sequence)
        && !contents.has_expiring_fields(hit.row)
}

/// Whether a document matches as it is stored. A neighbour has its distance still.
pub(super) fn is_match(hit: &Hit, stored: &Stored<'_>, searched: &Searched<'_, '_>) -> bool {
    let schema = &searched.index.schema;
    stored.matches(schema, &searched.condition)
        && stored.has_distance(schema, &searched.vectors, hit.distance)
}

/// Sorts hits by a field that is not in the index: its values are read from the keys.
pub(super) fn load_sorted(
    ctx: &mut Ctx<'_>,
    searched: &Searched<'_, '_>,
    found: &mut Found,
) -> Outcome {
    let Some((name, is_descending)) = searched.options.sort else { return Ok(()) };
    let Some(number) = searched.index.schema.field(name) else { return Ok(()) };
    let source = &searched.index.schema.fields[number].source;
    let (paths, showing) = (searched.index.paths.clone(), searched.options.showing());
    for hit in &mut found.hits {
        ctx.pace(UNITS_PER_HIT)?;
        let mut sort_key = SortKey::Missing;
        with_document(ctx, &hit.key, paths.as_deref(), |stored| match stored {
            Stored::Hash(hash) => {
                read(hash, source, &mut |value| sort_key = SortKey::Text(value.into()));
            }
            Stored::Json(root, paths) => {
                let path = paths.path(number);
                let value = path.and_then(|path| path_value(path, *root, showing));
                sort_key = value.map_or(SortKey::Missing, |value| sort_key_of(&value));
            }
        })?;
        hit.sort_key = sort_key;
    }
    found
        .hits
        .sort_by(|a, b| a.sort_key.compare(&b.sort_key, is_descending).then(a.row.cmp(&b.row)));
    Ok(())
}

fn sort_key_of(value: &Value) -> SortKey {
    match value.first() {
        Value::Number(number) => SortKey::Number(*number),
        Value::Text(text) => SortKey::Text((**text).into()),
        _ => SortKey::Missing,
    }
}

/// Compares the payloads of hits with that of the query (`SCORER HAMMING`), and sorts by that
/// unless results are sorted by a field.
pub(super) fn load_payload_scores(
    ctx: &mut Ctx<'_>,
    searched: &Searched<'_, '_>,
    found: &mut Found,
) -> Outcome {
    let options = searched.options;
    let name = searched.index.schema.documents.payload_field.as_deref();
    let own = options.payload.unwrap_or_default();
    for hit in &mut found.hits {
        ctx.pace(UNITS_PER_HIT)?;
        let mut payload = Vec::new();
        if let Some(name) = name {
            let paths = searched.index.paths.clone();
            with_document(ctx, &hit.key, paths.as_deref(), |stored| {
                if let Stored::Hash(hash) = stored {
                    read(hash, name, &mut |value| payload = value.to_vec());
                }
            })?;
        }
        hit.score = hamming(own, &payload);
        hit.explanation = options.explains_score.then(|| match hit.score > 0.0 {
            true => Explanation::of_text(format!(
                "String length is {}. Bit count is {:.0}. Result is (1 / count + 1) = {:.2}",
                own.len(),
                1.0 / hit.score - 1.0,
                hit.score
            )),
            false => Explanation::of_text("Payloads provided to scorer vary in length"),
        });
    }
    if options.sort.is_none() {
        found.hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row)));
    }
    Ok(())
}

/// A number as `RETURN` shows it.
fn returned_number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < i64::MAX as f64 {
        return (number as i64).to_string();
    }
    print_general(number, 12)
}

/// Prints a number with this number of significant digits, as `%.17g` of C does.
pub(super) fn print_general(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        let text = if number.is_nan() { "nan" } else { "inf" };
        return if number < 0.0 { format!("-{text}") } else { text.to_string() };
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_does() {
        let cases = [
            (0.1, 17, "0.10000000000000001"),
            (100000.0, 17, "100000"),
            (1e21, 17, "1e+21"),
            (12345678901234567.0, 17, "12345678901234568"),
            (1.23456789012345, 12, "1.23456789012"),
            (0.00001, 12, "1e-05"),
            (0.0, 17, "0"),
            (-2.5, 17, "-2.5"),
            (f64::NEG_INFINITY, 17, "-inf"),
        ];
        for (number, digits, text) in cases {
            assert_eq!(print_general(number, digits), text);
        }
        assert_eq!(returned_number(16.0), "16");
        assert_eq!(returned_number(1e21), "1e+21");
    }
}
