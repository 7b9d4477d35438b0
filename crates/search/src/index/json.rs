//! JSON documents: values of fields by their paths, as changes carry them and as conditions read
//! them.
//!
//! ```text
//! field  1, whether the first value is null, texts: each 4 bytes of length, then the text
//!        2, whether the first value is null, numbers of 8 bytes
//!        3, text of an error: the values do not fit the field
//! ```

use crate::index::document::Document;
use crate::index::schema::{Field, FieldKind, LANGUAGE, SCORE, Schema, fold, split_tags};
use crate::index::touched::Touched;
use petrel_json::{Kind, Number, Path, Step, Value, Work};
use std::ops::ControlFlow;

const TEXTS: u8 = 1;
const NUMBERS: u8 = 2;
const MISFIT: u8 = 3;

const NO_TEXT: &str = "TEXT/TAG fields can only contain strings or nulls";
const NO_NUMBER: &str = "NUMERIC fields can only contain numeric or nulls";
const TOO_MUCH: &str = "the path matches too much: use fewer '..' and '*'";
/// Error of an empty array, which has no value to sort by. Redis has no text for it.
const NOTHING_TO_SORT_BY: &str = "N/A";

/// Paths of the fields of an index.
#[derive(Debug)]
pub struct JsonPaths(Vec<FieldPath>);

/// Path of a field, or of the language or the score of documents.
#[derive(Debug)]
struct FieldPath {
    number: u16,
    /// None if it is no path: no document has the field.
    path: Option<Path>,
    /// Steps that all values are below; none for an index.
    leading: Vec<Option<Box<[u8]>>>,
    form: Form,
    is_sortable: bool,
    /// Fields to be read again if the values may have changed.
    touched: Touched,
}

/// Values that a field takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Numbers,
    /// Strings.
    Texts,
    /// Strings and booleans.
    Tags,
    /// The first value only, if it is a string.
    Language,
    /// The first value only, if it is a number.
    Score,
}

impl Form {
    fn of(kind: &FieldKind) -> Self {
        match kind {
            FieldKind::Number | FieldKind::Vector(_) => Form::Numbers,
            FieldKind::Text { .. } => Form::Texts,
            FieldKind::Tag { .. } => Form::Tags,
        }
    }
}

/// Parses the path of a field: none if it does not begin with `$`, computes values or has patterns,
/// which take too much memory.
pub fn parse_path(text: &[u8]) -> Option<Path> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.starts_with('$'))?;
    let path = Path::parse(text).ok()?;
    let is_plain = !path.is_legacy() && !path.is_projection() && !path.has_patterns();
    is_plain.then_some(path)
}

impl JsonPaths {
    /// The paths of a schema.
    pub fn new(schema: &Schema) -> Self {
        // The words of all texts are indexed at once.
        let texts = schema.texts().map(|number| number as u16).chain([LANGUAGE]);
        let texts = texts.fold(0, |bits, number| bits | Touched::field(number).0);
        let paths = schema.watched().map(|(source, number)| {
            let field = schema.fields.get(usize::from(number));
            let path = parse_path(source);
            let leading = path.as_ref().map(Path::leading_steps).unwrap_or_default();
            let is_text = number == LANGUAGE || field.is_some_and(Field::is_searched_text);
            FieldPath {
                number,
                leading: leading.into_iter().map(owned_step).collect(),
                path,
                form: match (number, field) {
                    (SCORE, _) => Form::Score,
                    (LANGUAGE, _) | (_, None) => Form::Language,
                    (_, Some(field)) => Form::of(&field.kind),
                },
                is_sortable: field.is_some_and(|field| field.is_sortable),
                touched: if is_text { Touched(texts) } else { Touched::field(number) },
            }
        });
        JsonPaths(paths.collect())
    }

    /// The fields that a change at a place of the document may touch.
    pub fn touched(&self, place: &[Step<'_>]) -> Touched {
        let touched = self.0.iter().filter(|path| path.path.is_some() && path.meets(place));
        Touched(touched.fold(0, |bits, path| bits | path.touched.0))
    }

    fn get(&self, number: u16) -> Option<&FieldPath> {
        // Fields come first, by their number.
        let own = self.0.get(usize::from(number)).filter(|path| path.number == number);
        own.or_else(|| self.0.iter().rev().find(|path| path.number == number))
    }

    /// The path of a field.
    pub fn path(&self, number: usize) -> Option<&Path> {
        self.get(u16::try_from(number).ok()?)?.path.as_ref()
    }

    /// Whether the values of a field have an order: the path names each step.
    pub fn is_ordered(&self, number: usize) -> bool {
        self.path(number).is_none_or(Path::is_static)
    }

    /// Numbers of the fields, with those of [`Schema::watched`].
    pub fn numbers(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().map(|path| path.number)
    }

    /// Appends the values of a field as [`Listed`] reads them, or the text of the language or the
    /// score. False if the document lacks the field.
    pub fn list(&self, number: u16, root: Value<'_>, work: &mut Work, out: &mut Vec<u8>) -> bool {
        match self.get(number) {
            Some(path) => path.list(root, work, out),
            None => false,
        }
    }
}

fn owned_step(step: Step<'_>) -> Option<Box<[u8]>> {
    match step {
        Step::Name(name) => Some(name.into()),
        Step::Index(_) => None,
    }
}

impl FieldPath {
    /// Whether values may be at or below a place, or above it. Elements move, so that indexes mean
    /// nothing.
    fn meets(&self, place: &[Step<'_>]) -> bool {
        self.leading.iter().zip(place).all(|(own, step)| match (own, step) {
            (Some(own), Step::Name(name)) => **own == **name,
            (None, Step::Index(_)) => true,
            _ => false,
        })
    }

    fn list(&self, root: Value<'_>, work: &mut Work, out: &mut Vec<u8>) -> bool {
        let Some(path) = &self.path else { return false };
        let mut listing = Listing { form: self.form, first: None, count: 0, start: out.len(), out };
        let is_single = matches!(self.form, Form::Language | Form::Score);
        let searched = if path.is_static() {
            listing.first = path.find_static(root);
            listing.count = usize::from(listing.first.is_some());
            Ok(())
        } else {
            path.search(root, work, &mut |value, _, _| match listing.add(value) && !is_single {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        };
        if searched.is_err() {
            listing.misfit(TOO_MUCH);
            return true;
        }
        match (listing.count, listing.first) {
            (0, _) | (_, None) => false,
            (_, Some(value)) if is_single => listing.property(value),
            (1, Some(value)) => {
                listing.single(value, self.is_sortable);
                true
            }
            _ => true,
        }
    }
}

/// Values that a path has found so far.
struct Listing<'o, 'd> {
    form: Form,
    first: Option<Value<'d>>,
    count: usize,
    /// Length of `out` at the beginning.
    start: usize,
    out: &'o mut Vec<u8>,
}

impl<'d> Listing<'_, 'd> {
    /// Adds a value; false if nothing else matters.
    fn add(&mut self, value: Value<'d>) -> bool {
        self.count += 1;
        let Some(first) = self.first else {
            self.first = Some(value);
            return true;
        };
        if self.count == 2 {
            self.begin(first.kind() == Kind::Null);
            if !self.element(first) {
                return false;
            }
        }
        self.element(value)
    }

    fn begin(&mut self, is_null: bool) {
        let tag = if self.form == Form::Numbers { NUMBERS } else { TEXTS };
        self.out.extend([tag, u8::from(is_null)]);
    }

    fn misfit(&mut self, text: &str) {
        self.out.truncate(self.start);
        self.out.push(MISFIT);
        self.out.extend_from_slice(text.as_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        // No document is longer.
        self.out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.out.extend_from_slice(text);
    }

    fn number(&mut self, number: Number) {
        self.out.extend_from_slice(&float(number).to_le_bytes());
    }

    /// Adds one of several values; false if it does not fit.
    fn element(&mut self, value: Value<'_>) -> bool {
        match (self.form, value.string(), value.number()) {
            _ if value.kind() == Kind::Null => {}
            (Form::Numbers, _, Some(number)) => self.number(number),
            (Form::Texts | Form::Tags, Some(text), _) => self.text(text),
            (form, ..) => {
                self.misfit(if form == Form::Numbers { NO_NUMBER } else { NO_TEXT });
                return false;
            }
        }
        true
    }

    /// Adds the only value.
    fn single(&mut self, value: Value<'_>, is_sortable: bool) {
        match value.kind() {
            Kind::Array if value.is_empty() && is_sortable => self.misfit(NOTHING_TO_SORT_BY),
            Kind::Array => {
                let first = value.items().next();
                self.begin(first.is_some_and(|first| first.kind() == Kind::Null));
                let _ = value.items().all(|item| self.element(item));
            }
            Kind::Null => self.begin(true),
            Kind::Boolean if self.form == Form::Tags => {
                self.begin(false);
                let is_true = value.boolean() == Some(true);
                self.text(if is_true { b"true" } else { b"false" });
            }
            kind => {
                let error = match kind {
                    Kind::String if self.form == Form::Numbers => {
                        "Invalid JSON type: String type can represent only TEXT, TAG, GEO or \
                         GEOMETRY field"
                    }
                    Kind::Integer | Kind::Double if self.form != Form::Numbers => {
                        "Invalid JSON type: Numeric type can represent only NUMERIC field"
                    }
                    Kind::Boolean => {
                        "Invalid JSON type: Boolean type can be represent only TAG field"
                    }
                    Kind::Object => {
                        "Invalid JSON type: Object type can represent only GEOMETRY fields"
                    }
                    _ => {
                        self.begin(false);
                        self.element(value);
                        return;
                    }
                };
                self.misfit(error);
            }
        }
    }

    /// Adds the language or the score of a document as text; false if the value is none.
    fn property(&mut self, value: Value<'_>) -> bool {
        match (self.form, value.string(), value.number()) {
            (Form::Language, Some(text), _) => self.out.extend_from_slice(text),
            (Form::Score, _, Some(number)) => {
                self.out.extend_from_slice(float(number).to_string().as_bytes());
            }
            _ => return false,
        }
        true
    }
}

/// A JSON number as a double.
pub fn float(number: Number) -> f64 {
    match number {
        Number::Integer(number) => number as f64,
        Number::Unsigned(number) => number as f64,
        Number::Double(number) => number,
    }
}

/// The values of a field.
#[derive(Clone, Copy, Debug)]
pub enum Listed<'b> {
    /// Texts of a TEXT or TAG field.
    Texts(List<'b>),
    /// Numbers of a NUMERIC field.
    Numbers(List<'b>),
    /// The values do not fit, with the text of the error.
    Misfit(&'b [u8]),
}

/// Several values.
#[derive(Clone, Copy, Debug)]
pub struct List<'b> {
    /// The first value is null: documents without a value to sort by.
    is_first_null: bool,
    rest: &'b [u8],
}

impl<'b> Listed<'b> {
    /// Reads what [`JsonPaths::list`] has written.
    pub fn read(bytes: &'b [u8]) -> Self {
        match bytes {
            [TEXTS, first, rest @ ..] => Listed::Texts(List { is_first_null: *first != 0, rest }),
            [NUMBERS, first, rest @ ..] => {
                Listed::Numbers(List { is_first_null: *first != 0, rest })
            }
            [_, text @ ..] => Listed::Misfit(text),
            [] => Listed::Misfit(b""),
        }
    }

    /// The texts; none of other values.
    pub fn texts(self) -> impl Iterator<Item = &'b [u8]> {
        let mut rest = match self {
            Listed::Texts(list) => list.rest,
            _ => &[],
        };
        std::iter::from_fn(move || {
            let (len, behind) = rest.split_first_chunk::<4>()?;
            let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = behind;
            Some(text)
        })
    }

    /// The numbers; none of other values.
    pub fn numbers(self) -> impl Iterator<Item = f64> + 'b {
        let (chunks, _) = match self {
            Listed::Numbers(list) => list.rest.as_chunks::<8>(),
            _ => [].as_chunks::<8>(),
        };
        chunks.iter().map(|bytes| f64::from_le_bytes(*bytes))
    }

    /// Whether the first value is one to sort by.
    pub fn has_first(self) -> bool {
        match self {
            Listed::Texts(list) | Listed::Numbers(list) => !list.is_first_null,
            Listed::Misfit(_) => false,
        }
    }
}

/// Passes the tags of a string to `each` until it returns true; returns whether it did.
pub fn any_tag_of(
    text: &[u8],
    separator: u8,
    indexes_empty: bool,
    each: &mut dyn FnMut(&[u8]) -> bool,
) -> bool {
    if separator == 0 {
        return each(text);
    }
    split_tags(text, separator).filter(|tag| indexes_empty || !tag.is_empty()).any(each)
}

/// A JSON document as it is stored.
pub struct StoredJson<'s> {
    /// The schema.
    pub schema: &'s Schema,
    /// Paths of the fields.
    pub paths: &'s JsonPaths,
    /// The document.
    pub root: Value<'s>,
}

impl StoredJson<'_> {
    /// Whether every value fits its field's kind.
    pub fn fits(&self) -> bool {
        let misfits = |listed: Listed<'_>| matches!(listed, Listed::Misfit(_));
        (0..self.schema.fields.len()).all(|field| !self.with_values(field, misfits, false))
    }

    /// Calls `work` with the values of a field; `missing` if the document lacks it.
    fn with_values<R>(&self, field: usize, work: impl FnOnce(Listed<'_>) -> R, missing: R) -> R {
        let mut bytes = Vec::new();
        let is_there = self.paths.list(field as u16, self.root, &mut Work::default(), &mut bytes);
        if is_there { work(Listed::read(&bytes)) } else { missing }
    }
}

impl Document for StoredJson<'_> {
    fn any_number(&self, field: usize, each: &mut dyn FnMut(f64) -> bool) -> bool {
        self.with_values(field, |listed| listed.numbers().any(each), false)
    }

    fn any_tag(&self, field: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let definition = &self.schema.fields[field];
        let FieldKind::Tag { separator, is_case_sensitive, .. } = definition.kind else {
            return false;
        };
        let mut folded = Vec::new();
        let mut each = |tag: &[u8]| {
            fold(tag, is_case_sensitive, &mut folded);
            each(&folded)
        };
        let is_empty = definition.indexes_empty;
        let any = |listed: Listed<'_>| {
            listed.texts().any(|text| any_tag_of(text, separator, is_empty, &mut each))
        };
        self.with_values(field, any, false)
    }

    fn is_missing(&self, field: usize) -> bool {
        self.with_values(field, |_| false, true)
    }

    fn text(&self, field: usize, each: &mut dyn FnMut(&[u8])) {
        if field == usize::from(LANGUAGE) {
            let mut text = Vec::new();
            if self.paths.list(LANGUAGE, self.root, &mut Work::default(), &mut text) {
                each(&text);
            }
            return;
        }
        self.with_values(field, |listed| listed.texts().for_each(each), ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_json::{Parse, parse};

    fn path(text: &str, form: Form) -> FieldPath {
        let path = parse_path(text.as_bytes()).unwrap();
        let leading = path.leading_steps().into_iter().map(owned_step).collect();
        let touched = Touched::default();
        FieldPath { number: 0, path: Some(path), leading, form, is_sortable: true, touched }
    }

    fn shown(text: &str, form: Form, document: &str) -> String {
        let document = parse(document.as_bytes(), Parse::default()).unwrap();
        let mut bytes = Vec::new();
        if !path(text, form).list(document.root(), &mut Work::default(), &mut bytes) {
            return "missing".into();
        }
        let listed = Listed::read(&bytes);
        let first = if listed.has_first() { "" } else { "null " };
        match listed {
            Listed::Misfit(text) => String::from_utf8_lossy(text).into_owned(),
            Listed::Texts(_) => {
                let texts = listed.texts().map(String::from_utf8_lossy);
                format!("{first}{:?}", texts.collect::<Vec<_>>())
            }
            Listed::Numbers(_) => format!("{first}{:?}", listed.numbers().collect::<Vec<_>>()),
        }
    }

    #[test]
    fn values_are_listed_by_kind() {
        let cases = [
            ("$.a", Form::Texts, r#"{"a":"x"}"#, r#"["x"]"#),
            ("$.a", Form::Texts, r#"{"a":["x",null,"y"]}"#, r#"["x", "y"]"#),
            ("$.a", Form::Texts, r#"{"a":[null,"y"]}"#, r#"null ["y"]"#),
            ("$.a", Form::Texts, r#"{"a":null}"#, "null []"),
            ("$.a", Form::Texts, r#"{"b":1}"#, "missing"),
            ("$.a", Form::Texts, r#"{"a":["x",1]}"#, NO_TEXT),
            ("$.a", Form::Tags, r#"{"a":true}"#, r#"["true"]"#),
            ("$.a", Form::Tags, r#"{"a":[true]}"#, NO_TEXT),
            ("$.a[*]", Form::Tags, r#"{"a":[true]}"#, r#"["true"]"#),
            ("$.a[*]", Form::Tags, r#"{"a":[true,"x"]}"#, NO_TEXT),
            ("$.a[*]", Form::Tags, r#"{"a":[]}"#, "missing"),
            ("$.a", Form::Tags, r#"{"a":[]}"#, NOTHING_TO_SORT_BY),
            ("$.a[*]", Form::Numbers, r#"{"a":[1,null,2.5]}"#, "[1.0, 2.5]"),
            ("$.a[*]", Form::Numbers, r#"{"a":[[1]]}"#, "[1.0]"),
            ("$.a[*]", Form::Numbers, r#"{"a":[[1],2]}"#, NO_NUMBER),
            ("$..a", Form::Numbers, r#"[{"a":null},{"a":3}]"#, "null [3.0]"),
        ];
        for (text, form, document, expected) in cases {
            assert_eq!(shown(text, form, document), expected, "{text} {document}");
        }
        let text = shown("$.a", Form::Numbers, r#"{"a":{}}"#);
        assert!(text.contains("Object type"), "{text}");
    }

    #[test]
    fn suspended_queries_see_the_numbers_that_were_there() {
        use crate::index::contents::{Applying, Change, ChangeKind, Contents, Extent, FieldChange};
        use crate::index::document::Value as Kept;
        use crate::index::schema::{DocumentOptions, IndexFlag};
        let field = Field {
            source: (*b"$.a").into(),
            name: (*b"a").into(),
            kind: FieldKind::Number,
            is_sortable: false,
            is_unfolded: false,
            is_unindexed: false,
            indexes_empty: false,
            indexes_missing: true,
        };
        let schema = Schema {
            prefixes: vec![Box::default()],
            fields: vec![field],
            documents: DocumentOptions::default(),
            flags: vec![IndexFlag::Json],
            stop_words: None,
            temporary_s: 0,
            synonyms: Default::default(),
        };
        let paths = JsonPaths::new(&schema);
        let mut contents = Contents::new(&schema, 0);
        let empty = contents.footprint();
        let put = |contents: &mut Contents, sequence: u64, document: &str| {
            let document = parse(document.as_bytes(), Parse::default()).unwrap();
            let mut bytes = Vec::new();
            let is_there = paths.list(0, document.root(), &mut Work::default(), &mut bytes);
            let value = is_there.then_some(0..bytes.len());
            let fields = [FieldChange { number: 0, value, expiry: None }];
            let extent = Extent::Whole;
            let kind = ChangeKind::Put { extent, expiry: None, fields: &fields, bytes: &bytes };
            let change = Change { key: b"k", hash: 1, sequence, kind };
            contents.begin();
            let snapshot = Some(contents.stamp() - 1);
            contents.apply(&change, Applying { snapshot, in_flight: false });
        };
        let documents = [
            (r#"{"a":[3,1,3]}"#, Kept::Numbers(Some(3.0), [1.0, 3.0].into())),
            (r#"{"a":[null,2]}"#, Kept::Numbers(None, [2.0].into())),
            (r#"{"a":null}"#, Kept::Numbers(None, [].into())),
            (r#"{"a":[5]}"#, Kept::Number(5.0)),
            (r#"{"b":1}"#, Kept::Missing),
            (r#"{"a":7}"#, Kept::Number(7.0)),
        ];
        for (sequence, (document, _)) in (1..).zip(&documents) {
            put(&mut contents, sequence, document);
            let store = contents.field(0).unwrap();
            assert_eq!(store.get(0), documents[sequence as usize - 1].1, "{document}");
            assert_eq!(store.is_missing(0), *document == r#"{"b":1}"#, "{document}");
            assert_eq!(store.missing().unwrap().contains(0), store.is_missing(0), "{document}");
        }
        let versions = contents.versions().iter().map(|version| version.values[0].clone());
        let before: Vec<Kept> = documents[..5].iter().map(|(_, value)| value.clone()).collect();
        assert_eq!(versions.collect::<Vec<_>>(), before);
        contents.begin();
        let remove = Change { key: b"k", hash: 1, sequence: 9, kind: ChangeKind::Remove };
        contents.apply(&remove, Applying { snapshot: None, in_flight: false });
        contents.clean(None, |_| false);
        assert!(contents.field(0).unwrap().records() == 0);
        assert!(contents.footprint() >= empty);
    }

    #[test]
    fn a_change_touches_paths_that_meet_its_place() {
        let name = |name: &'static str| Step::Name(name.as_bytes());
        let cases = [
            ("$.a.b", vec![name("a")], true),
            ("$.a.b", vec![name("a"), name("b"), name("c")], true),
            ("$.a.b", vec![name("a"), name("c")], false),
            ("$.a[3]", vec![name("a"), Step::Index(0)], true),
            ("$.a[*].b", vec![name("a"), Step::Index(0), name("c")], true),
            ("$.a[*].b", vec![name("b")], false),
            ("$..b", vec![name("a")], true),
            ("$.a[?(@.b>$.c)]", vec![name("c")], true),
            ("$", vec![name("c")], true),
        ];
        for (text, place, meets) in cases {
            assert_eq!(path(text, Form::Texts).meets(&place), meets, "{text} {place:?}");
        }
    }
}
