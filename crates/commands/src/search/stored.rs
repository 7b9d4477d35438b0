//! Documents as they are stored: hashes, and JSON values with the values of their paths.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::showing::Showing;
use petrel_json::{Format, Kind, Parse, Path, Value as Json, Values, Work, parse, print};
use petrel_keyspace::HashRef;
use petrel_resp::Reply;
use petrel_search::aggregate::value::{Several, Value, print_number};
use petrel_search::index::condition::Condition;
use petrel_search::index::distances::{Near, VectorQuery};
use petrel_search::index::document;
use petrel_search::index::json::{JsonPaths, StoredJson, float};
use petrel_search::index::schema::{Field, FieldKind, LANGUAGE, Schema};
use std::ops::ControlFlow;

/// Name of a whole JSON document.
pub(super) const ROOT: &[u8] = b"$";

/// A document of an index. Its key is locked.
pub(super) enum Stored<'d> {
    Hash(HashRef<'d>),
    Json(Json<'d>, &'d JsonPaths),
}

impl Stored<'_> {
    /// Whether it matches a query as it is.
    pub fn matches(&self, schema: &Schema, condition: &Condition) -> bool {
        match self {
            Stored::Hash(hash) => {
                let document = document::Stored { schema, get: reader(hash, schema) };
                document.fits() && condition.matches(&document)
            }
            Stored::Json(root, paths) => {
                let document = StoredJson { schema, paths, root: *root };
                document.fits() && condition.matches(&document)
            }
        }
    }

    /// Distance of its vector; none if there is none within the radius. JSON documents have no
    /// vectors.
    pub fn distance(&self, schema: &Schema, near: &Near) -> Option<f64> {
        match self {
            Stored::Hash(hash) => {
                near.distance(&document::Stored { schema, get: reader(hash, schema) })
            }
            Stored::Json(..) => None,
        }
    }

    /// Whether it may be a neighbour, if the query asks for these.
    pub fn is_neighbour(&self, schema: &Schema, vectors: &VectorQuery) -> bool {
        let first = vectors.distances.first();
        let distance = || first.and_then(|first| self.distance(schema, &first.near));
        vectors.neighbours.is_none() || distance().is_some()
    }

    /// Whether it has the distance with which it was found as a neighbour, if it was.
    pub fn has_distance(&self, schema: &Schema, vectors: &VectorQuery, found: Option<f64>) -> bool {
        let Some(found) = found else { return true };
        let first = vectors.distances.first();
        let now = first.and_then(|first| self.distance(schema, &first.near));
        now.is_some_and(|now| now.total_cmp(&found).is_eq())
    }

    /// Units of work of reading it.
    pub fn units(&self) -> usize {
        /// Bytes of a JSON document that are printed in a unit of work.
        const BYTES_PER_UNIT: usize = 64;
        match self {
            Stored::Hash(_) => 0,
            Stored::Json(root, _) => root.tape().len() / BYTES_PER_UNIT,
        }
    }
}

/// Calls `work` with the document of a key, under its lock; does nothing if there is none. `paths`
/// are those of an index of JSON documents.
///
/// # Errors
/// If a slow script holds the key.
pub(super) fn with_document(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    paths: Option<&JsonPaths>,
    work: impl FnOnce(&Stored<'_>),
) -> Outcome {
    let db = ctx.db();
    let gives_way = ctx.gives_way();
    let crate::Executor { ks, shared, .. } = &mut *ctx.exec;
    let key = ks.key(key);
    let nested = ks.holds_any();
    let is_kept = || shared.scripts.running.is_busy() || gives_way && shared.long.holds(key.hash);
    if !nested && !ks.lock_unless(key.hash, is_kept) {
        return Err(ctx.exec.kept_out());
    }
    let now_ms = ks.now_ms();
    let stored = ks.view(db, key).and_then(|view| match paths {
        None => view.hash(now_ms).ok().map(Stored::Hash),
        Some(paths) => Some(Stored::Json(view.json().ok()?, paths)),
    });
    let units = stored.as_ref().map_or(0, Stored::units);
    if let Some(stored) = stored {
        work(&stored);
    }
    if !nested {
        ks.unlock();
    }
    if units > 0 { ctx.pace(units) } else { Ok(()) }
}

/// Reads the fields of a schema from a hash.
#[allow(clippy::type_complexity)]
fn reader<'h>(
    hash: &'h HashRef<'_>,
    schema: &'h Schema,
) -> impl Fn(usize, &mut dyn FnMut(&[u8])) -> bool + 'h {
    move |number, each| {
        let language = schema.documents.language_field.as_deref();
        let name = match schema.fields.get(number) {
            Some(field) => Some(&*field.source),
            None => language.filter(|_| number == usize::from(LANGUAGE)),
        };
        name.is_some_and(|name| read(hash, name, each))
    }
}

/// Passes the value of a hash's field to `each`; false if there is none.
pub(super) fn read(hash: &HashRef<'_>, name: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
    let mut scratch = itoa::Buffer::new();
    let field = hash.get(name);
    field.map(|field| each(field.value.bytes(&mut scratch))).is_some()
}

/// Parses a path that a command names; none if it is no path to values of a document.
pub(super) fn named_path(name: &[u8]) -> Option<Path> {
    let text = std::str::from_utf8(name).ok().filter(|text| text.starts_with('$'))?;
    Path::parse(text).ok().filter(|path| !path.is_projection() && !path.is_legacy())
}

/// The values that a path has found.
struct Found<'d> {
    first: Json<'d>,
    count: usize,
    /// All of them, as text of an array.
    all: Vec<u8>,
}

fn find<'d>(path: &Path, root: Json<'d>, showing: Showing) -> Option<Found<'d>> {
    let (mut first, mut count, mut all) = (None, 0, Vec::new());
    let format = Format::default();
    let mut values = Values::begin(&format, 0, &mut all);
    let mut add = |value: Json<'d>| {
        first = first.or(Some(value));
        count += 1;
        if showing == Showing::All {
            values.add(value, &mut all);
        }
        showing == Showing::All
    };
    if path.is_static() {
        path.find_static(root).map(&mut add);
    } else {
        // A path that takes too long has no values.
        path.search(root, &mut Work::default(), &mut |value, _, _| match add(value) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
        .ok()?;
    }
    values.end(&mut all);
    // As in Redis, an empty array is no value from dialect 3 on.
    let is_none = |first: &Json<'_>| first.kind() == Kind::Array && first.is_empty();
    let first = first.filter(|first| showing == Showing::First || !is_none(first))?;
    Some(Found { first, count, all })
}

/// A JSON value as a value of a property: arrays and objects are text.
fn plain(value: Json<'_>) -> Value {
    match (value.kind(), value.number()) {
        (Kind::Null, _) => Value::Null,
        (Kind::Boolean, _) => Value::truth(value.boolean() == Some(true)),
        (_, Some(number)) => Value::Number(float(number)),
        (Kind::String, _) => Value::text(value.string().unwrap_or_default()),
        _ => {
            let mut text = Vec::new();
            print(value, &Format::default(), &mut text);
            Value::text(&text)
        }
    }
}

/// The value that stands for one: of an array the first.
fn representative(value: Json<'_>) -> Json<'_> {
    match value.kind() {
        Kind::Array => value.items().next().unwrap_or(value),
        _ => value,
    }
}

impl Found<'_> {
    fn shown(self, showing: Showing) -> Value {
        match showing {
            Showing::First => plain(self.first),
            Showing::All => Value::Several(
                Several { first: plain(representative(self.first)), text: self.all.into() }.into(),
            ),
        }
    }
}

/// The values of a path, as a property.
pub(super) fn path_value(path: &Path, root: Json<'_>, showing: Showing) -> Option<Value> {
    find(path, root, showing).map(|found| found.shown(showing))
}

/// The values of a field, as a property. In dialect 3 a single value of a SORTABLE field is shown
/// as it is, as in Redis.
pub(super) fn field_value(
    (field, path): (&Field, &Path),
    root: Json<'_>,
    showing: Showing,
) -> Option<Value> {
    let found = find(path, root, showing)?;
    let is_container = matches!(found.first.kind(), Kind::Array | Kind::Object);
    if showing == Showing::First || !field.is_sortable || found.count > 1 || is_container {
        return Some(found.shown(showing));
    }
    sorted_scalar(field, found.first)
}

/// The value that documents are sorted by, of a SORTABLE field.
pub(super) fn sorted_value((field, path): (&Field, &Path), root: Json<'_>) -> Option<Value> {
    let first = find(path, root, Showing::First)?.first;
    match first.kind() {
        Kind::Array => {
            let item = first.items().next()?;
            Some(sorted_scalar(field, item).unwrap_or(Value::Null))
        }
        _ => sorted_scalar(field, first),
    }
}

/// A scalar as the index sorts by it; none for null.
fn sorted_scalar(field: &Field, value: Json<'_>) -> Option<Value> {
    let is_tag = matches!(field.kind, FieldKind::Tag { .. });
    match (value.kind(), value.boolean()) {
        (Kind::Null, _) => None,
        (_, Some(is_true)) if is_tag => Some(Value::text(if is_true { b"true" } else { b"false" })),
        _ => Some(plain(value)),
    }
}

/// Writes the value of a property. `expands`: numbers and JSON values as replies (`FORMAT EXPAND`).
pub(super) fn write_value(reply: &mut dyn Reply, value: &Value, expands: bool) {
    match value {
        Value::Null => reply.null(),
        Value::Number(number) if expands => write_number(reply, *number),
        Value::Number(number) => reply.bulk(print_number(*number).as_bytes()),
        Value::Text(text) => reply.bulk(text),
        Value::Several(several) => match parse(&several.text, Parse::default()) {
            Ok(document) if expands => write_json(reply, document.root()),
            _ => reply.bulk(&several.text),
        },
        Value::Array(items) => {
            reply.array(items.len());
            items.iter().for_each(|item| write_value(reply, item, false));
        }
    }
}

fn write_number(reply: &mut dyn Reply, number: f64) {
    // Beyond, not every integer is a double.
    const INTEGERS: f64 = 9_007_199_254_740_992.0;
    match number.fract() == 0.0 && number.abs() <= INTEGERS {
        true => reply.integer(number as i64),
        false => reply.double(number),
    }
}

fn write_json(reply: &mut dyn Reply, value: Json<'_>) {
    match value.kind() {
        Kind::Array => {
            reply.array(value.len());
            value.items().for_each(|item| write_json(reply, item));
        }
        Kind::Object => {
            reply.map(value.len());
            value.members().for_each(|(name, value)| {
                reply.bulk(name);
                write_json(reply, value);
            });
        }
        Kind::Null => reply.null(),
        Kind::Boolean => reply.integer(i64::from(value.boolean() == Some(true))),
        Kind::String => reply.bulk(value.string().unwrap_or_default()),
        Kind::Integer => match value.number() {
            Some(petrel_json::Number::Integer(number)) => reply.integer(number),
            number => reply.double(number.map_or(0.0, float)),
        },
        Kind::Double => write_number(reply, value.number().map_or(0.0, float)),
    }
}

/// Rejects `FORMAT EXPAND` of indexes that it is not for.
pub(super) fn check_expand(schema: &Schema, showing: Showing) -> Outcome {
    match () {
        () if !schema.is_json() => Err(Fail::fixed("EXPAND format is only supported with JSON")),
        () if showing == Showing::First => {
            Err(Fail::fixed("EXPAND format requires dialect 3 or greater"))
        }
        () => Ok(()),
    }
}
