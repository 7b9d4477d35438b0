//! `FT.CREATE` and `FT.ALTER`: definitions from arguments.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers;
use crate::search::arguments::Arguments;
use crate::search::definitions::{Definition, Definitions};
use crate::search::open::{change_definitions, name_argument, refuse_in_cluster};
use crate::search::vector_field;
use petrel_search::index::json::parse_path;
use petrel_search::index::schema::{
    DocumentOptions, FIELDS_MAX, Field, FieldKind, IndexFlag, Schema, TEXT_FIELDS_MAX,
};
use std::sync::Arc;

/// Texts that an index may get without `MAXTEXTFIELDS`.
const FEW_TEXTS: usize = 32;

/// Languages that Redis stems.
const LANGUAGES: [&str; 29] = [
    "arabic",
    "armenian",
    "basque",
    "catalan",
    "chinese",
    "danish",
    "dutch",
    "english",
    "finnish",
    "french",
    "german",
    "greek",
    "hindi",
    "hungarian",
    "indonesian",
    "irish",
    "italian",
    "lithuanian",
    "nepali",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "serbian",
    "spanish",
    "swedish",
    "tamil",
    "turkish",
    "yiddish",
];

/// Values of `PHONETIC`.
const MATCHERS: [&str; 4] = ["dm:en", "dm:fr", "dm:pt", "dm:es"];

const BAD_MATCHER: &str = "Matcher Format: <2 chars algorithm>:<2 chars language>. Support \
    algorithms: double metaphone (dm). Supported languages: English (en), French (fr), Portuguese \
    (pt) and Spanish (es)";

/// Whether Redis knows a language.
pub(super) fn is_language(name: &[u8]) -> bool {
    LANGUAGES.iter().any(|language| name.eq_ignore_ascii_case(language.as_bytes()))
}

/// `FT.CREATE index [ON HASH] [PREFIX count prefix ...] ... SCHEMA field ...`
pub(super) fn create(ctx: &mut Ctx<'_>) -> Outcome {
    refuse_in_cluster(ctx)?;
    let name = name_argument(ctx)?;
    let db = ctx.db();
    if ctx.args().len() < 5 {
        return Err(ctx.wrong_arity());
    }
    let exists = |all: &Definitions| all.indexes.contains_key(&(db, name.into()));
    if exists(&ctx.exec.aux::<Definitions>()) {
        return Err(Fail::fixed("Index already exists"));
    }
    let mut arguments = Arguments::new(&ctx.args()[2..]);
    let (mut schema, skips_scan) = options(&mut arguments)?;
    if arguments.is_empty() {
        return Err(Fail::fixed("Fields arguments are missing"));
    }
    fields(&mut arguments, &mut schema)?;
    check_paths(name, &schema)?;
    check_texts(&schema)?;
    if schema.texts().count() > FEW_TEXTS && !schema.has_flag(IndexFlag::MaxTextFields) {
        schema.flags.push(IndexFlag::MaxTextFields);
    }
    change_definitions(ctx, |all| {
        if exists(all) {
            return Err(Fail::fixed("Index already exists"));
        }
        all.last_id += 1;
        let definition = Definition { id: all.last_id, schema: Arc::new(schema), skips_scan };
        all.indexes.insert((db, name.into()), definition);
        Ok(())
    })?;
    ctx.ok()
}

/// `FT.ALTER index [SKIPINITIALSCAN] SCHEMA ADD field ...`
pub(super) fn alter(ctx: &mut Ctx<'_>) -> Outcome {
    refuse_in_cluster(ctx)?;
    let name = name_argument(ctx)?;
    let db = ctx.db();
    if ctx.args().len() < 6 {
        return Err(ctx.wrong_arity());
    }
    let unknown = Fail::fixed("Unknown index name");
    if ctx.exec.aux::<Definitions>().find(db, name).is_none() {
        return Err(unknown);
    }
    let mut arguments = Arguments::new(&ctx.args()[2..]);
    let skips_scan = arguments.take("SKIPINITIALSCAN");
    if !arguments.take("SCHEMA") {
        return Err(Fail::fixed("ALTER must be followed by SCHEMA"));
    }
    if !arguments.take("ADD") {
        return Err(Fail::fixed("Unknown action passed to ALTER SCHEMA"));
    }
    if arguments.is_empty() {
        return Err(Fail::fixed("No fields provided"));
    }
    change_definitions(ctx, |all| {
        let own = all.name_of(db, name).into();
        let Some(definition) = all.indexes.get_mut(&(db, own)) else {
            return Err(unknown);
        };
        let mut schema = Schema::clone(&definition.schema);
        fields(&mut arguments, &mut schema)?;
        check_texts(&schema)?;
        if schema.texts().count() > FEW_TEXTS
            && !definition.schema.has_flag(IndexFlag::MaxTextFields)
        {
            return Err(Fail::fixed(
                "Cannot add more fields. Declare index with wide fields to allow adding unlimited \
                 fields",
            ));
        }
        definition.schema = Arc::new(schema);
        definition.skips_scan = skips_scan;
        Ok(())
    })?;
    ctx.ok()
}

/// Checks the paths of JSON documents that have another name. As in Redis, others just find nothing
/// if they are no paths.
fn check_paths(index: &[u8], schema: &Schema) -> Outcome {
    let is_bad = |field: &&Field| field.name != field.source && parse_path(&field.source).is_none();
    match schema.fields.iter().filter(|_| schema.is_json()).find(is_bad) {
        None => Ok(()),
        Some(Field { source, name, .. }) => {
            let parts: [&[u8]; 7] = [
                b"Invalid JSONPath '",
                source,
                b"' in attribute '",
                name,
                b"' in index '",
                index,
                b"'",
            ];
            Err(Fail::new(parts.concat()))
        }
    }
}

/// Checks the texts of a schema.
fn check_texts(schema: &Schema) -> Outcome {
    let count = schema.texts().count();
    if count > TEXT_FIELDS_MAX {
        return Err(Fail::fixed("Schema is limited to 128 TEXT fields"));
    }
    if count > 0 && schema.documents.language.as_deref() == Some(b"chinese") {
        return Err(Fail::fixed("ERR LANGUAGE chinese is not supported yet"));
    }
    Ok(())
}

/// The options before `SCHEMA`, and whether present keys are not indexed.
fn options(arguments: &mut Arguments<'_>) -> Result<(Schema, bool), Fail> {
    let mut schema = Schema {
        prefixes: vec![Box::default()],
        fields: Vec::new(),
        documents: DocumentOptions::default(),
        flags: Vec::new(),
        stop_words: None,
        synonyms: Arc::default(),
        temporary_s: 0,
    };
    let mut skips_scan = false;
    while let Some(word) = arguments.next() {
        match &*word.to_ascii_uppercase() {
            b"SCHEMA" => return Ok((schema, skips_scan)),
            b"ON" => on(arguments.value("ON")?, &mut schema.flags)?,
            b"PREFIX" => {
                let prefixes = arguments.list("PREFIX")?;
                if !prefixes.is_empty() {
                    schema.prefixes = prefixes.iter().map(|&prefix| prefix.into()).collect();
                }
            }
            b"FILTER" => return Err(Fail::fixed("ERR FILTER is not supported yet")),
            b"STOPWORDS" => {
                let words = arguments.list("STOPWORDS")?;
                schema.stop_words = Some(words.iter().map(|&word| word.into()).collect());
            }
            b"TEMPORARY" => return Err(Fail::fixed("ERR TEMPORARY is not supported yet")),
            b"SKIPINITIALSCAN" => skips_scan = true,
            b"INDEXALL" => index_all(arguments.value("INDEXALL")?, &mut schema.flags)?,
            upper => match flag(upper) {
                Some(flag) => schema.flags.push(flag),
                None => document_option(word, upper, arguments, &mut schema.documents)?,
            },
        }
    }
    Err(Fail::fixed("No schema found"))
}

fn on(kind: &[u8], flags: &mut Vec<IndexFlag>) -> Outcome {
    flags.retain(|flag| *flag != IndexFlag::Json);
    match () {
        () if kind.eq_ignore_ascii_case(b"HASH") => Ok(()),
        () if kind.eq_ignore_ascii_case(b"JSON") => {
            flags.push(IndexFlag::Json);
            Ok(())
        }
        () => Err(Fail::new([b"Invalid rule type: ", kind].concat())),
    }
}

fn index_all(word: &[u8], flags: &mut Vec<IndexFlag>) -> Outcome {
    match () {
        () if word.eq_ignore_ascii_case(b"ENABLE") => flags.push(IndexFlag::IndexAll),
        () if word.eq_ignore_ascii_case(b"DISABLE") => {}
        () => return Err(Fail::fixed("Bad arguments for INDEXALL: Unknown argument")),
    }
    Ok(())
}

fn flag(upper: &[u8]) -> Option<IndexFlag> {
    Some(match upper {
        b"NOOFFSETS" => IndexFlag::NoOffsets,
        b"NOHL" => IndexFlag::NoHighlight,
        b"NOFIELDS" => IndexFlag::NoFields,
        b"NOFREQS" => IndexFlag::NoFrequencies,
        b"MAXTEXTFIELDS" => IndexFlag::MaxTextFields,
        _ => return None,
    })
}

fn document_option(
    word: &[u8],
    upper: &[u8],
    arguments: &mut Arguments<'_>,
    documents: &mut DocumentOptions,
) -> Outcome {
    let mut name = |option| arguments.value(option).map(|name| Some(name.into()));
    match upper {
        b"LANGUAGE" => {
            let language = arguments.value("LANGUAGE")?;
            if !is_language(language) {
                return Err(Fail::fixed("Invalid language"));
            }
            documents.language = Some(language.to_ascii_lowercase().into());
        }
        b"LANGUAGE_FIELD" => documents.language_field = name("LANGUAGE_FIELD")?,
        b"SCORE" => {
            let score = numbers::double::parse(arguments.value("SCORE")?);
            let score = score.filter(|score| (0.0..=1.0).contains(score));
            documents.score = Some(score.ok_or(Fail::fixed("Invalid score"))?);
        }
        b"SCORE_FIELD" => documents.score_field = name("SCORE_FIELD")?,
        b"PAYLOAD_FIELD" => documents.payload_field = name("PAYLOAD_FIELD")?,
        _ => return Err(Fail::new([b"Unknown argument `", word, b"`"].concat())),
    }
    Ok(())
}

/// The fields up to the end of the arguments.
fn fields(arguments: &mut Arguments<'_>, schema: &mut Schema) -> Outcome {
    let is_json = schema.is_json();
    let fields = &mut schema.fields;
    while let Some(source) = arguments.next() {
        let field = field(source, arguments, is_json)?;
        if fields.iter().any(|other| other.name == field.name) {
            return Err(Fail::new([b"Duplicate field in schema - ", &*field.name].concat()));
        }
        if fields.len() == FIELDS_MAX {
            return Err(Fail::fixed("Schema is limited to 1024 fields"));
        }
        fields.push(field);
    }
    Ok(())
}

fn field(source: &[u8], arguments: &mut Arguments<'_>, is_json: bool) -> Result<Field, Fail> {
    let mut name = source;
    if arguments.take("AS") {
        name = arguments.next().ok_or(Fail::fixed("AS requires an argument"))?;
    }
    let no_type = || Fail::new([b"Field `", source, b"` does not have a type"].concat());
    let kind = arguments.next().ok_or_else(no_type)?;
    let mut field = Field {
        source: source.into(),
        name: name.into(),
        kind: FieldKind::Number,
        is_sortable: false,
        is_unfolded: false,
        is_unindexed: false,
        indexes_empty: false,
        indexes_missing: false,
    };
    match &*kind.to_ascii_uppercase() {
        b"NUMERIC" => field.indexes_missing = arguments.take("INDEXMISSING"),
        b"TAG" => tag_options(arguments, &mut field, if is_json { 0 } else { b',' })?,
        b"TEXT" => text_options(arguments, &mut field)?,
        b"VECTOR" if is_json => {
            return Err(Fail::fixed("ERR VECTOR fields of JSON documents are not supported yet"));
        }
        b"VECTOR" => {
            field.kind = FieldKind::Vector(Box::new(vector_field::spec(arguments)?));
            field.indexes_missing = arguments.take("INDEXMISSING");
            return Ok(field);
        }
        b"GEO" | b"GEOSHAPE" => {
            let kind = String::from_utf8_lossy(kind).to_uppercase();
            return Err(Fail::new(format!("ERR fields of type {kind} are not supported yet")));
        }
        _ => return Err(Fail::new([b"Invalid field type for field `", source, b"`"].concat())),
    }
    loop {
        match () {
            () if arguments.take("SORTABLE") => {
                field.is_sortable = true;
                field.is_unfolded = arguments.take("UNF") || kind.eq_ignore_ascii_case(b"NUMERIC");
            }
            () if arguments.take("NOINDEX") => field.is_unindexed = true,
            () => break,
        }
    }
    if field.is_unindexed && field.indexes_missing {
        let text = b"` cannot be defined with both `NOINDEX` and `INDEXMISSING`'";
        return Err(Fail::new([b"'Field `", source, text].concat()));
    }
    Ok(field)
}

fn tag_options(arguments: &mut Arguments<'_>, field: &mut Field, separator: u8) -> Outcome {
    let (mut separator, mut is_case_sensitive, mut with_suffix_trie) = (separator, false, false);
    loop {
        match () {
            () if arguments.take("SEPARATOR") => {
                let text = arguments.next().ok_or(Fail::fixed("SEPARATOR requires an argument"))?;
                let [byte] = text else {
                    let parts: [&[u8]; 3] =
                        [b"Tag separator must be a single character. Got `", text, b"`"];
                    return Err(Fail::new(parts.concat()));
                };
                separator = *byte;
            }
            () if arguments.take("CASESENSITIVE") => is_case_sensitive = true,
            () if arguments.take("WITHSUFFIXTRIE") => with_suffix_trie = true,
            () if arguments.take("INDEXEMPTY") => field.indexes_empty = true,
            () if arguments.take("INDEXMISSING") => field.indexes_missing = true,
            () => break,
        }
    }
    field.kind = FieldKind::Tag { separator, is_case_sensitive, with_suffix_trie };
    Ok(())
}

fn text_options(arguments: &mut Arguments<'_>, field: &mut Field) -> Outcome {
    let (mut weight, mut is_unstemmed, mut with_suffix_trie) = (1.0, false, false);
    loop {
        match () {
            () if arguments.take("NOSTEM") => is_unstemmed = true,
            () if arguments.take("WEIGHT") => {
                let number = arguments.next().and_then(numbers::double::parse);
                let bad = "Bad arguments for weight: Could not convert argument to expected type";
                weight = number.ok_or(Fail::fixed(bad))?;
            }
            () if arguments.take("PHONETIC") => {
                let matcher =
                    arguments.next().ok_or(Fail::fixed("PHONETIC requires an argument"))?;
                return Err(match MATCHERS.iter().any(|known| known.as_bytes() == matcher) {
                    true => Fail::fixed("ERR PHONETIC is not supported yet"),
                    false => Fail::fixed(BAD_MATCHER),
                });
            }
            () if arguments.take("WITHSUFFIXTRIE") => with_suffix_trie = true,
            () if arguments.take("INDEXEMPTY") => field.indexes_empty = true,
            () if arguments.take("INDEXMISSING") => field.indexes_missing = true,
            () => break,
        }
    }
    field.kind = FieldKind::Text { weight, is_unstemmed, with_suffix_trie };
    Ok(())
}
