//! Coverage: the indexes of a key, and their fields by the name of a hash's field.
//!
//! Most keys of a server are covered by no index: two bits decide that, of the first byte and of
//! the first two.

use crate::index::json::JsonPaths;
use crate::index::live::Live;
use crate::index::schema::{Field, LANGUAGE, Schema};
pub use crate::index::touched::Touched;
use petrel_json::Step;
use std::sync::Arc;

/// An index as threads see it, until its definition changes.
#[derive(Debug)]
pub struct Covering {
    /// Database of the index.
    pub db: u16,
    /// The index.
    pub live: Arc<Live>,
    /// Fields of the index.
    pub schema: Arc<Schema>,
    /// Paths of the fields, of JSON documents.
    pub paths: Option<Arc<JsonPaths>>,
    names: FieldNames,
}

impl Covering {
    /// An index of a database, with these fields.
    pub fn new(db: u16, live: Arc<Live>, schema: Arc<Schema>) -> Self {
        let paths = schema.is_json().then(|| Arc::new(JsonPaths::new(&schema)));
        let names = match paths {
            Some(_) => FieldNames::default(),
            None => FieldNames::new(&schema),
        };
        Covering { db, live, schema, paths, names }
    }

    /// The fields that a change of a JSON document at a place touches; without a place all of it
    /// has changed.
    pub fn touched_at(&self, place: Option<&[Step<'_>]>) -> Touched {
        match (&self.paths, place) {
            (None, _) => Touched::default(),
            (Some(_), None) => Touched::WHOLE,
            (Some(paths), Some(place)) => paths.touched(place),
        }
    }

    /// The fields that a change of a hash's field touches; none if it is not indexed.
    #[inline]
    pub fn touched(&self, name: &[u8]) -> Touched {
        self.names.touched(name)
    }
}

/// Fields of an index by the names of the hash's fields.
#[derive(Debug, Default)]
struct FieldNames {
    /// A bit for the length and the outer bytes of each name.
    filter: u64,
    /// Names in the order of their length and bytes.
    names: Box<[(Box<[u8]>, Touched)]>,
}

#[inline]
fn filter_bit(name: &[u8]) -> u64 {
    let outer = match name {
        [first, .., last] => u32::from(*first) + 7 * u32::from(*last),
        [byte] => 8 * u32::from(*byte),
        [] => 0,
    };
    1 << ((outer + 31 * name.len() as u32) & 63)
}

impl FieldNames {
    fn new(schema: &Schema) -> Self {
        let mut names: Vec<(Box<[u8]>, Touched)> = Vec::new();
        // The words of all texts are indexed at once.
        let texts = schema.texts().map(|number| number as u16).chain([LANGUAGE]);
        let texts = texts.fold(0, |bits, number| bits | Touched::field(number).0);
        for (name, number) in schema.watched() {
            let is_text = number == LANGUAGE
                || schema.fields.get(usize::from(number)).is_some_and(Field::is_searched_text);
            let touched = if is_text { Touched(texts) } else { Touched::field(number) };
            match names.iter_mut().find(|(other, _)| **other == *name) {
                Some((_, known)) => known.0 |= touched.0,
                None => names.push((name.into(), touched)),
            }
        }
        names.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        let filter = names.iter().fold(0, |filter, (name, _)| filter | filter_bit(name));
        FieldNames { filter, names: names.into() }
    }

    #[inline]
    fn touched(&self, name: &[u8]) -> Touched {
        if self.filter & filter_bit(name) == 0 {
            return Touched::default();
        }
        let found = self
            .names
            .binary_search_by(|(other, _)| (other.len(), &**other).cmp(&(name.len(), name)));
        found.map_or(Touched::default(), |at| self.names[at].1)
    }
}

/// The indexes of all databases. Immutable; a change of definitions makes a new view.
#[derive(Debug, Default)]
pub struct View {
    /// The indexes.
    pub indexes: Vec<Covering>,
    databases: Vec<Option<Box<Prefixes>>>,
}

impl View {
    /// A view of indexes.
    pub fn new(indexes: Vec<Covering>) -> Self {
        let mut databases: Vec<Option<Box<Prefixes>>> = Vec::new();
        for (at, index) in indexes.iter().enumerate() {
            let db = usize::from(index.db);
            if databases.len() <= db {
                databases.resize_with(db + 1, || None);
            }
            let prefixes = databases[db].get_or_insert_default();
            index.schema.prefixes.iter().for_each(|prefix| prefixes.add(prefix, at as u32));
        }
        databases.iter_mut().flatten().for_each(|prefixes| prefixes.compile());
        View { indexes, databases }
    }

    /// Positions in [`View::indexes`] of the indexes that cover a key of a database.
    #[inline]
    pub fn covering(&self, db: u16, key: &[u8]) -> &[u32] {
        match self.databases.get(usize::from(db)) {
            Some(Some(prefixes)) => prefixes.covering(key),
            _ => &[],
        }
    }
}

/// The prefixes of a database.
#[derive(Debug, Default)]
struct Prefixes {
    /// Bits of the first bytes of all prefixes.
    first: [u64; 4],
    /// Bits of the first two bytes of all prefixes; every second byte for prefixes of one byte.
    pairs: [u64; 4],
    /// Indexes of an empty prefix.
    of_all: Vec<u32>,
    /// Prefixes by their first byte, longest first, each with the indexes of all its own prefixes.
    by_first: Vec<Prefix>,
    /// Range of `by_first` of each first byte.
    ranges: Vec<(u32, u32)>,
}

#[derive(Debug)]
struct Prefix {
    /// The first eight bytes, and their mask if the prefix is shorter.
    word: u64,
    mask: u64,
    text: Box<[u8]>,
    indexes: Vec<u32>,
}

#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

#[inline]
fn has(bits: &[u64; 4], bit: u8) -> bool {
    bits[usize::from(bit >> 6)] >> (bit & 63) & 1 == 1
}

fn set(bits: &mut [u64; 4], bit: u8) {
    bits[usize::from(bit >> 6)] |= 1 << (bit & 63);
}

/// A byte of the first two bytes of a key.
#[inline]
fn pair(first: u8, second: u8) -> u8 {
    first.wrapping_mul(31).wrapping_add(second)
}

impl Prefixes {
    fn add(&mut self, text: &[u8], index: u32) {
        if text.is_empty() {
            self.of_all.push(index);
            return;
        }
        match self.by_first.iter_mut().find(|prefix| *prefix.text == *text) {
            Some(prefix) => prefix.indexes.push(index),
            None => {
                let mask = u64::MAX >> (64 - 8 * text.len().min(8));
                let word = word_of(text) & mask;
                self.by_first.push(Prefix { word, mask, text: text.into(), indexes: vec![index] });
            }
        }
    }

    fn compile(&mut self) {
        self.of_all.sort_unstable();
        self.of_all.dedup();
        let own: Vec<(Box<[u8]>, Vec<u32>)> = self
            .by_first
            .iter()
            .map(|prefix| (prefix.text.clone(), prefix.indexes.clone()))
            .collect();
        for prefix in &mut self.by_first {
            for (text, indexes) in &own {
                if prefix.text.starts_with(text) {
                    prefix.indexes.extend(indexes);
                }
            }
            prefix.indexes.extend(&self.of_all);
            prefix.indexes.sort_unstable();
            prefix.indexes.dedup();
            let first = prefix.text[0];
            set(&mut self.first, first);
            match prefix.text.get(1) {
                Some(&second) => set(&mut self.pairs, pair(first, second)),
                None => self.pairs = [u64::MAX; 4],
            }
        }
        self.by_first.sort_by(|a, b| {
            (a.text[0], b.text.len(), &a.text).cmp(&(b.text[0], a.text.len(), &b.text))
        });
        self.ranges = (0..=u8::MAX)
            .map(|byte| {
                let from = self.by_first.partition_point(|prefix| prefix.text[0] < byte);
                let to = self.by_first.partition_point(|prefix| prefix.text[0] <= byte);
                (from as u32, to as u32)
            })
            .collect();
    }

    #[inline]
    fn covering(&self, key: &[u8]) -> &[u32] {
        let may_match = match key {
            [first, second, ..] => {
                has(&self.first, *first) && has(&self.pairs, pair(*first, *second))
            }
            [first] => has(&self.first, *first),
            [] => false,
        };
        if may_match { self.longest(key) } else { &self.of_all }
    }

    fn longest(&self, key: &[u8]) -> &[u32] {
        let word = word_of(key);
        let (from, to) = self.ranges[usize::from(key[0])];
        for prefix in &self.by_first[from as usize..to as usize] {
            if word & prefix.mask == prefix.word && key.starts_with(&prefix.text) {
                return &prefix.indexes;
            }
        }
        &self.of_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_is_covered_by_its_prefixes(
            prefixes in prop::collection::vec("[a-c:]{0,10}", 0..12),
            keys in prop::collection::vec("[a-c:]{0,14}", 1..30),
        ) {
            let mut compiled = Prefixes::default();
            for (at, prefix) in prefixes.iter().enumerate() {
                // Several prefixes belong to one index.
                compiled.add(prefix.as_bytes(), at as u32 / 2);
            }
            compiled.compile();
            for key in keys {
                let mut expected: Vec<u32> = prefixes
                    .iter()
                    .enumerate()
                    .filter(|(_, prefix)| key.starts_with(prefix.as_str()))
                    .map(|(at, _)| at as u32 / 2)
                    .collect();
                expected.dedup();
                prop_assert_eq!(compiled.covering(key.as_bytes()), &expected[..], "{}", key);
            }
        }
    }
}
