//! Definitions of indexes: auxiliary state, which the log, RDB files and replicas carry.

use crate::aux_values::AuxValue;
use crate::fail::{Fail, Outcome};
use petrel_search::index::schema::{
    DocumentOptions, FIELDS_MAX, Field, FieldKind, IndexFlag, Schema,
};
use petrel_search::text::Synonyms;
use petrel_search::vectors::{Algorithm, DIM_MAX, ELEMENTS, Metric, VectorSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of the encoding.
const VERSION: u8 = 1;

/// Number of the kind of VECTOR fields in the encoding.
const VECTOR: u64 = 16;

/// Database and name of an index or an alias.
pub type Name = (u16, Box<[u8]>);

/// All definitions of indexes, and other names of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    /// Number of the last index.
    pub last_id: u64,
    /// Indexes by database and name.
    pub indexes: BTreeMap<Name, Definition>,
    /// Names of indexes by database and alias.
    pub aliases: BTreeMap<Name, Box<[u8]>>,
}

/// The definition of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Number of the index, never used again.
    pub id: u64,
    /// The fields.
    pub schema: Arc<Schema>,
    /// Number of fields from which on keys that were there before are not indexed
    /// (`SKIPINITIALSCAN`); none if all are.
    pub skips_scan: bool,
}

impl Definitions {
    /// The name of an index, given that or an alias.
    pub fn name_of<'n>(&'n self, db: u16, name: &'n [u8]) -> &'n [u8] {
        self.aliases.get(&(db, name.into())).map_or(name, |name| name)
    }

    /// An index by its name or an alias.
    pub fn find(&self, db: u16, name: &[u8]) -> Option<&Definition> {
        self.indexes.get(&(db, self.name_of(db, name).into()))
    }

    /// Removes the indexes of a database, or of all.
    pub fn clear(&mut self, db: Option<u16>) {
        self.indexes.retain(|(of, _), _| db.is_some_and(|db| *of != db));
        self.aliases.retain(|(of, _), _| db.is_some_and(|db| *of != db));
    }

    /// Moves the indexes of two databases.
    pub fn swap(&mut self, a: u16, b: u16) {
        let moved = |db: u16| match db {
            db if db == a => b,
            db if db == b => a,
            db => db,
        };
        let indexes = std::mem::take(&mut self.indexes).into_iter();
        self.indexes = indexes.map(|((db, name), index)| ((moved(db), name), index)).collect();
        let aliases = std::mem::take(&mut self.aliases).into_iter();
        self.aliases = aliases.map(|((db, alias), name)| ((moved(db), alias), name)).collect();
    }
}

impl AuxValue for Definitions {
    const NAME: &'static str = "indexes";

    fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![VERSION]);
        out.number(self.last_id);
        out.number(self.indexes.len() as u64);
        for ((db, name), index) in &self.indexes {
            out.number(u64::from(*db));
            out.text(name);
            out.number(index.id);
            out.number(u64::from(index.skips_scan));
            out.schema(&index.schema);
        }
        out.number(self.aliases.len() as u64);
        for ((db, alias), name) in &self.aliases {
            out.number(u64::from(*db));
            out.text(alias);
            out.text(name);
        }
        let has_synonyms = |index: &Definition| *index.schema.synonyms != Synonyms::default();
        let synonymous = || self.indexes.iter().filter(|(_, index)| has_synonyms(index));
        if synonymous().next().is_some() {
            out.number(synonymous().count() as u64);
            synonymous().for_each(|(name, index)| out.synonyms(name, &index.schema.synonyms));
        }
        out.0
    }

    fn decode(bytes: &[u8]) -> Result<Self, Fail> {
        let malformed = || Fail::fixed("ERR the definitions of indexes are malformed");
        let [VERSION, rest @ ..] = bytes else { return Err(malformed()) };
        let mut reader = Reader(rest);
        let definitions = reader.definitions().ok_or_else(malformed)?;
        if reader.0.is_empty() { Ok(definitions) } else { Err(malformed()) }
    }

    fn heap_bytes(&self) -> usize {
        self.indexes.values().map(|index| index.schema.synonyms.footprint()).sum()
    }

    fn merge(&mut self, other: Self, replace: bool) -> Outcome {
        let present = |key: &(u16, Box<[u8]>)| self.indexes.contains_key(key);
        if !replace && other.indexes.keys().any(present) {
            return Err(Fail::fixed("ERR an index of this name exists already"));
        }
        for (key, mut index) in other.indexes {
            // Numbers of another server may be those of other indexes here.
            self.last_id += 1;
            index.id = self.last_id;
            self.indexes.insert(key, index);
        }
        self.aliases.extend(other.aliases);
        Ok(())
    }
}

/// Encodes parts of a whole form.
pub(super) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text);
    }

    fn texts(&mut self, texts: &[Box<[u8]>]) {
        self.number(texts.len() as u64);
        texts.iter().for_each(|text| self.text(text));
    }

    /// A text that may be absent.
    fn option(&mut self, text: Option<&[u8]>) {
        self.number(text.map_or(0, |text| text.len() as u64 + 1));
        self.0.extend_from_slice(text.unwrap_or_default());
    }

    fn synonyms(&mut self, (db, name): &Name, synonyms: &Synonyms) {
        self.number(u64::from(*db));
        self.text(name);
        self.number(synonyms.scans);
        self.number(synonyms.iter().len() as u64);
        for (word, groups) in synonyms.iter() {
            self.text(word);
            self.texts(groups);
        }
    }

    fn schema(&mut self, schema: &Schema) {
        self.texts(&schema.prefixes);
        let DocumentOptions { language, language_field, score, score_field, payload_field } =
            &schema.documents;
        for text in [language, language_field, score_field, payload_field] {
            self.option(text.as_deref());
        }
        self.option(score.map(f64::to_le_bytes).as_ref().map(|bytes| &bytes[..]));
        let is_set = |flag: &IndexFlag| schema.flags.contains(flag);
        let flags = IndexFlag::ALL.iter().enumerate().filter(|(_, flag)| is_set(flag));
        self.number(flags.fold(0, |bits, (bit, _)| bits | 1 << bit));
        self.number(u64::from(schema.stop_words.is_some()));
        self.texts(schema.stop_words.as_deref().unwrap_or_default());
        self.number(schema.temporary_s);
        self.number(schema.fields.len() as u64);
        schema.fields.iter().for_each(|field| self.field(field));
    }

    fn field(&mut self, field: &Field) {
        self.text(&field.source);
        self.text(&field.name);
        let flags = [
            field.is_sortable,
            field.is_unfolded,
            field.is_unindexed,
            field.indexes_empty,
            field.indexes_missing,
        ];
        let flags = flags.iter().enumerate();
        self.number(flags.fold(0, |bits, (bit, &on)| bits | u64::from(on) << bit));
        match &field.kind {
            &FieldKind::Tag { separator, is_case_sensitive, with_suffix_trie } => {
                self.number(1);
                self.0.push(separator);
                self.number(u64::from(is_case_sensitive) | u64::from(with_suffix_trie) << 1);
            }
            FieldKind::Number => self.number(2),
            &FieldKind::Text { weight, is_unstemmed, with_suffix_trie } => {
                self.number(3);
                self.0.extend_from_slice(&weight.to_le_bytes());
                self.number(u64::from(is_unstemmed) | u64::from(with_suffix_trie) << 1);
            }
            FieldKind::Vector(spec) => self.vector(spec),
        }
    }
}

impl Writer {
    fn vector(&mut self, spec: &VectorSpec) {
        self.number(VECTOR);
        self.number(match spec.algorithm {
            Algorithm::Flat => 0,
        });
        let element = ELEMENTS.iter().position(|(_, element)| *element == spec.element);
        let metric = Metric::ALL.iter().position(|metric| *metric == spec.metric);
        self.number(element.unwrap_or_default() as u64);
        self.number(metric.unwrap_or_default() as u64);
        self.number(u64::from(spec.dim));
    }
}

/// Reads what may be forged: each method returns none at its end or for what cannot be.
pub(super) struct Reader<'b>(pub &'b [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number of parts of at least one byte each.
    pub fn len(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|&len| len <= self.0.len())
    }

    pub fn text(&mut self) -> Option<Box<[u8]>> {
        let len = self.len()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text.into())
    }

    pub fn texts(&mut self) -> Option<Vec<Box<[u8]>>> {
        let len = self.len()?;
        (0..len).map(|_| self.text()).collect()
    }

    #[allow(clippy::option_option)]
    fn option(&mut self) -> Option<Option<Box<[u8]>>> {
        let len = usize::try_from(self.number()?).ok()?;
        let Some(len) = len.checked_sub(1) else { return Some(None) };
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(Some(text.into()))
    }

    pub fn db(&mut self) -> Option<u16> {
        u16::try_from(self.number()?).ok()
    }

    fn definitions(&mut self) -> Option<Definitions> {
        let mut definitions = Definitions { last_id: self.number()?, ..Definitions::default() };
        for _ in 0..self.len()? {
            let key = (self.db()?, self.text()?);
            let id = self.number()?;
            let skips_scan = self.number()? != 0;
            let schema = Arc::new(self.schema()?);
            definitions.last_id = definitions.last_id.max(id);
            definitions.indexes.insert(key, Definition { id, schema, skips_scan });
        }
        for _ in 0..self.len()? {
            let key = (self.db()?, self.text()?);
            let name = self.text()?;
            definitions.aliases.insert(key, name);
        }
        let len = if self.0.is_empty() { 0 } else { self.len()? };
        for _ in 0..len {
            let key = (self.db()?, self.text()?);
            let synonyms = Arc::new(self.synonyms()?);
            let definition = definitions.indexes.get_mut(&key)?;
            Arc::make_mut(&mut definition.schema).synonyms = synonyms;
        }
        Some(definitions)
    }

    fn synonyms(&mut self) -> Option<Synonyms> {
        let mut synonyms = Synonyms::default();
        synonyms.scans = self.number()?;
        for _ in 0..self.len()? {
            let word = self.text()?;
            self.texts()?.iter().for_each(|group| synonyms.add(group, &word));
        }
        Some(synonyms)
    }

    fn schema(&mut self) -> Option<Schema> {
        let prefixes = self.texts()?;
        let mut texts = [None, None, None, None];
        for text in &mut texts {
            *text = self.option()?;
        }
        let [language, language_field, score_field, payload_field] = texts;
        let score = match self.option()? {
            Some(bytes) => Some(f64::from_le_bytes((*bytes).try_into().ok()?)),
            None => None,
        };
        let bits = self.number()?;
        let flags = IndexFlag::ALL.into_iter().enumerate();
        let flags = flags.filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, flag)| flag).collect();
        let has_stop_words = self.number()? != 0;
        let stop_words = Some(self.texts()?).filter(|_| has_stop_words);
        let temporary_s = self.number()?;
        let len = self.len().filter(|&len| len <= FIELDS_MAX)?;
        let fields = (0..len).map(|_| self.field()).collect::<Option<_>>()?;
        let documents =
            DocumentOptions { language, language_field, score, score_field, payload_field };
        let synonyms = Arc::default();
        Some(Schema { prefixes, fields, documents, flags, stop_words, synonyms, temporary_s })
    }

    fn vector(&mut self) -> Option<VectorSpec> {
        let algorithm = match self.number()? {
            0 => Algorithm::Flat,
            _ => return None,
        };
        let (_, element) = *ELEMENTS.get(usize::try_from(self.number()?).ok()?)?;
        let metric = *Metric::ALL.get(usize::try_from(self.number()?).ok()?)?;
        let dim = u32::try_from(self.number()?).ok()?;
        let is_valid = (1..=DIM_MAX).contains(&(dim as usize));
        is_valid.then_some(VectorSpec { algorithm, element, dim, metric })
    }

    fn field(&mut self) -> Option<Field> {
        let (source, name) = (self.text()?, self.text()?);
        let bits = self.number()?;
        let kind = match self.number()? {
            1 => {
                let separator = self.byte()?;
                let options = self.number()?;
                FieldKind::Tag {
                    separator,
                    is_case_sensitive: options & 1 != 0,
                    with_suffix_trie: options & 2 != 0,
                }
            }
            2 => FieldKind::Number,
            3 => {
                let (weight, rest) = self.0.split_first_chunk::<8>()?;
                self.0 = rest;
                let options = self.number()?;
                FieldKind::Text {
                    weight: f64::from_le_bytes(*weight),
                    is_unstemmed: options & 1 != 0,
                    with_suffix_trie: options & 2 != 0,
                }
            }
            VECTOR => FieldKind::Vector(Box::new(self.vector()?)),
            _ => return None,
        };
        Some(Field {
            source,
            name,
            kind,
            is_sortable: bits & 1 != 0,
            is_unfolded: bits & 2 != 0,
            is_unindexed: bits & 4 != 0,
            indexes_empty: bits & 8 != 0,
            indexes_missing: bits & 16 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definitions() -> Definitions {
        let field = |name: &[u8], kind| Field {
            source: name.into(),
            name: [name, b"2"].concat().into(),
            kind,
            is_sortable: true,
            is_unfolded: false,
            is_unindexed: true,
            indexes_empty: false,
            indexes_missing: true,
        };
        let mut synonyms = Synonyms::default();
        synonyms.scans = 3;
        synonyms.add(b"g", b"boy");
        synonyms.add(b"h", b"boy");
        let tag =
            FieldKind::Tag { separator: b';', is_case_sensitive: true, with_suffix_trie: false };
        let schema = Schema {
            prefixes: vec![(*b"a:").into(), Box::default()],
            fields: vec![
                field(b"t", tag),
                field(b"n", FieldKind::Number),
                field(
                    b"w",
                    FieldKind::Text { weight: 2.5, is_unstemmed: true, with_suffix_trie: false },
                ),
                field(
                    b"v",
                    FieldKind::Vector(Box::new(VectorSpec {
                        algorithm: Algorithm::Flat,
                        element: ELEMENTS[2].1,
                        dim: 300,
                        metric: Metric::Cosine,
                    })),
                ),
            ],
            documents: DocumentOptions {
                score: Some(0.5),
                language: Some((*b"german").into()),
                ..DocumentOptions::default()
            },
            flags: vec![IndexFlag::NoHighlight, IndexFlag::IndexAll],
            stop_words: Some(Vec::new()),
            synonyms: Arc::new(synonyms),
            temporary_s: 300,
        };
        let index = Definition { id: 7, schema: Arc::new(schema), skips_scan: true };
        Definitions {
            last_id: 9,
            indexes: [((3, (*b"i").into()), index)].into(),
            aliases: [((3, (*b"j").into()), (*b"i").into())].into(),
        }
    }

    #[test]
    fn definitions_are_read_as_written() {
        let definitions = definitions();
        let bytes = definitions.encode();
        assert_eq!(Definitions::decode(&bytes), Ok(definitions));
        // Nothing shorter is valid, and nothing panics.
        for len in 0..bytes.len() {
            // A form that ends before the synonyms is an older one.
            let shorter = Definitions::decode(&bytes[..len]);
            let is_older = |all: &Definitions| {
                all.indexes.values().all(|index| index.schema.synonyms.is_empty())
            };
            assert!(shorter.is_err() || shorter.is_ok_and(|all| is_older(&all)));
        }
        for at in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[at] ^= 0x55;
            let _ = Definitions::decode(&forged);
        }
    }

    #[test]
    fn indexes_follow_their_database() {
        let mut all = definitions();
        assert!(all.find(3, b"j").is_some() && all.find(0, b"j").is_none());
        all.swap(3, 0);
        assert!(all.find(0, b"j").is_some() && all.find(3, b"i").is_none());
        let mut merged = all.clone();
        assert!(merged.merge(all.clone(), false).is_err());
        merged.merge(all.clone(), true).unwrap();
        assert_eq!(merged.find(0, b"i").unwrap().id, 10);
        all.clear(Some(1));
        assert!(all.find(0, b"i").is_some());
        all.clear(None);
        assert_eq!(all, Definitions { last_id: 9, ..Definitions::default() });
    }
}
