//! Schemas: the fields of an index and its options, as `FT.CREATE` states them.

use crate::query::Fields;
pub use crate::structures::numbers::parse_number;
use crate::text::Synonyms;
use crate::vectors::{Algorithm, VectorSpec};
use std::sync::Arc;

/// Maximum number of fields of an index.
pub const FIELDS_MAX: usize = 1024;

/// Maximum number of searched TEXT fields of an index.
pub const TEXT_FIELDS_MAX: usize = 128;

/// Number of the field with the score of a document ([`Schema::watched`]).
pub const SCORE: u16 = u16::MAX;

/// Number of the field with the language of a document ([`Schema::watched`]).
pub const LANGUAGE: u16 = u16::MAX - 1;

/// A query that the schema does not allow: the text of the error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unsuitable(pub String);

/// Definition of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Prefixes of the keys that the index covers; an empty one covers every key.
    pub prefixes: Vec<Box<[u8]>>,
    /// The fields, in the order of the definition.
    pub fields: Vec<Field>,
    /// Properties of documents.
    pub documents: DocumentOptions,
    /// Flags of the index: `NOOFFSETS`, `NOHL`, `NOFIELDS`, `NOFREQS`, `MAXTEXTFIELDS`.
    pub flags: Vec<IndexFlag>,
    /// Stop words; none for the default list.
    pub stop_words: Option<Vec<Box<[u8]>>>,
    /// Synonyms of words.
    pub synonyms: Arc<Synonyms>,
    /// Seconds without a use after which the index is dropped; 0 for never.
    pub temporary_s: u64,
}

/// Flags of an index, which matter to texts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IndexFlag {
    /// Positions of words are not stored.
    NoOffsets,
    /// Nothing is stored for highlighting.
    NoHighlight,
    /// Words are not stored by field.
    NoFields,
    /// Frequencies of words are not stored.
    NoFrequencies,
    /// More than 32 texts may be added later.
    MaxTextFields,
    /// Documents without indexed fields are found too.
    IndexAll,
    /// Documents are JSON values, and sources of fields are paths.
    Json,
}

impl IndexFlag {
    /// Every flag.
    pub const ALL: [Self; 7] = [
        Self::NoOffsets,
        Self::NoHighlight,
        Self::NoFields,
        Self::NoFrequencies,
        Self::MaxTextFields,
        Self::IndexAll,
        Self::Json,
    ];
}

/// Properties of documents that the index reads from fields, or that all documents have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentOptions {
    /// Language of all documents, in lower case.
    pub language: Option<Box<[u8]>>,
    /// Field with the language of a document.
    pub language_field: Option<Box<[u8]>>,
    /// Score of a document; 1 if none.
    pub score: Option<f64>,
    /// Field with the score of a document.
    pub score_field: Option<Box<[u8]>>,
    /// Field with the payload of a document.
    pub payload_field: Option<Box<[u8]>>,
}

/// A field of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Name of the hash's field, or a path of JSON documents.
    pub source: Box<[u8]>,
    /// Name in queries.
    pub name: Box<[u8]>,
    /// Kind, with the options of the kind.
    pub kind: FieldKind,
    /// Documents can be sorted by the field without being read (`SORTABLE`).
    pub is_sortable: bool,
    /// Sorted without folding (`UNF`).
    pub is_unfolded: bool,
    /// Not searched, only returned or sorted by (`NOINDEX`).
    pub is_unindexed: bool,
    /// Empty values are indexed (`INDEXEMPTY`).
    pub indexes_empty: bool,
    /// Documents without the field can be searched (`INDEXMISSING`).
    pub indexes_missing: bool,
}

/// Kinds of fields.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// Whole values: categories, identifiers.
    Tag {
        /// Character between the tags of a value; 0 of JSON documents: a value is one tag.
        separator: u8,
        /// Whether upper and lower case differ.
        is_case_sensitive: bool,
        /// A trie of suffixes was asked for; searches for suffixes do not need it.
        with_suffix_trie: bool,
    },
    /// A number.
    Number,
    /// A place on the earth.
    Geo,
    /// A text, searched by its words.
    Text {
        /// Factor of the frequency of its words.
        weight: f64,
        /// Words are not indexed by their stem (`NOSTEM`).
        is_unstemmed: bool,
        /// A trie of suffixes was asked for.
        with_suffix_trie: bool,
    },
    /// A vector, searched by its distance.
    Vector(Box<VectorSpec>),
}

impl FieldKind {
    /// Name in `FT.CREATE` and `FT.INFO`.
    pub fn name(&self) -> &'static str {
        match self {
            FieldKind::Tag { .. } => "TAG",
            FieldKind::Number => "NUMERIC",
            FieldKind::Geo => "GEO",
            FieldKind::Text { .. } => "TEXT",
            FieldKind::Vector(_) => "VECTOR",
        }
    }
}

impl Schema {
    /// The number of the field with a name in queries.
    pub fn field(&self, name: &[u8]) -> Option<usize> {
        self.fields.iter().position(|field| *field.name == *name)
    }

    /// Whether the index covers a key of its database.
    pub fn covers(&self, key: &[u8]) -> bool {
        self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }

    /// Names of the hash's fields of which a change matters, with the number of the index's field,
    /// [`SCORE`] or [`LANGUAGE`].
    pub fn watched(&self) -> impl Iterator<Item = (&[u8], u16)> {
        let fields = self.fields.iter().enumerate();
        let fields = fields.map(|(number, field)| (&*field.source, number as u16));
        let score = self.documents.score_field.as_deref();
        let language = self.documents.language_field.as_deref().filter(|_| self.has_texts());
        let others = [(score, SCORE), (language, LANGUAGE)];
        fields.chain(others.into_iter().filter_map(|(name, number)| Some((name?, number))))
    }

    /// Searched TEXT fields, by their number among the fields. Their order is that of the bits of a
    /// [`crate::query::ast::FieldMask`].
    pub fn texts(&self) -> impl Iterator<Item = usize> {
        let fields = self.fields.iter().enumerate();
        fields.filter(|(_, field)| field.is_searched_text()).map(|(number, _)| number)
    }

    /// Whether vectors are linked with each other.
    pub fn links_vectors(&self) -> bool {
        let is_graph = |spec: &VectorSpec| matches!(spec.algorithm, Algorithm::Hnsw(_));
        let is_linked =
            |field: &Field| matches!(&field.kind, FieldKind::Vector(spec) if is_graph(spec));
        self.fields.iter().any(is_linked)
    }

    /// Whether any text can be searched.
    pub fn has_texts(&self) -> bool {
        self.fields.iter().any(Field::is_searched_text)
    }

    /// Whether the documents are JSON values.
    pub fn is_json(&self) -> bool {
        self.has_flag(IndexFlag::Json)
    }

    /// Whether the index has a flag.
    pub fn has_flag(&self, flag: IndexFlag) -> bool {
        self.flags.contains(&flag)
    }
}

impl Field {
    /// Whether it is a text.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, FieldKind::Text { .. })
    }

    /// Whether its words are searched.
    pub fn is_searched_text(&self) -> bool {
        self.is_text() && !self.is_unindexed
    }
}

impl Fields for Schema {
    fn text_field(&self, name: &[u8]) -> Option<usize> {
        self.texts().position(|number| *self.fields[number].name == *name)
    }

    fn text_name(&self, number: usize) -> Option<&[u8]> {
        self.texts().nth(number).map(|number| &*self.fields[number].name)
    }
}

/// Folds a tag: lower case, unless the field is case sensitive.
pub fn fold(tag: &[u8], is_case_sensitive: bool, out: &mut Vec<u8>) {
    out.clear();
    if is_case_sensitive {
        out.extend_from_slice(tag);
    } else if tag.is_ascii() {
        out.extend(tag.iter().map(u8::to_ascii_lowercase));
    } else {
        match std::str::from_utf8(tag) {
            Ok(text) => out.extend_from_slice(text.to_lowercase().as_bytes()),
            Err(_) => out.extend(tag.iter().map(u8::to_ascii_lowercase)),
        }
    }
}

/// Splits a value into its tags, without white space around them.
pub fn split_tags(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    value.split(move |&byte| byte == separator).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_redis() {
        let cases: [(&str, Option<f64>); 12] = [
            ("0x10", Some(16.0)),
            ("0x", None),
            ("1", Some(1.0)),
            ("-2.5e3", Some(-2500.0)),
            ("inf", Some(f64::INFINITY)),
            ("-INF", Some(f64::NEG_INFINITY)),
            ("1e400", None),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("x", None),
        ];
        for (text, number) in cases {
            assert_eq!(parse_number(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn tags_are_trimmed_and_folded() {
        let tags: Vec<_> = split_tags(b" a, B c ,,d", b',').collect();
        assert_eq!(tags, [&b"a"[..], b"B c", b"", b"d"]);
        let mut out = Vec::new();
        fold("B\u{c4}".as_bytes(), false, &mut out);
        assert_eq!(out, "b\u{e4}".as_bytes());
        fold(b"B", true, &mut out);
        assert_eq!(out, b"B");
    }
}
