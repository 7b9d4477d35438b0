//! Contents of one field of an index, by its kind. A new kind is a variant of [`FieldStore`].

use crate::index::document::Value;
use crate::index::schema::{Field, FieldKind, fold, parse_number, split_tags};
use crate::structures::column::Column;
use crate::structures::id_set::IdSet;
use crate::structures::numbers::Numbers;
use crate::structures::tags::{TagId, Tags};
use crate::structures::vectors::Vectors;
use crate::vectors::VectorSpec;
use std::collections::HashMap;
use std::mem::size_of;

mod json;

/// Maximum bytes of a text in an error.
const MISFIT_MAX: usize = 128;

/// A value that does not fit the kind of its field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Misfit;

/// Contents of a field.
#[derive(Debug)]
pub enum FieldStore {
    /// Tags.
    Tags(TagStore),
    /// Numbers.
    Numbers(NumberStore),
    /// A text. Its words are in [`crate::index::texts`].
    Text(TextStore),
    /// Vectors.
    Vectors(VectorStore),
}

/// Contents of a VECTOR field.
#[derive(Debug)]
pub struct VectorStore {
    spec: VectorSpec,
    missing: Option<IdSet>,
    vectors: Vectors,
}

/// Contents of a TEXT field besides its words.
#[derive(Debug)]
pub struct TextStore {
    missing: Option<IdSet>,
    /// Value of each row to sort by, if documents can be sorted by the field.
    sort_keys: Option<Column<Option<Box<[u8]>>>>,
    is_unfolded: bool,
    /// Bytes that the column's values own.
    owned: usize,
}

/// Contents of a TAG field.
#[derive(Debug)]
pub struct TagStore {
    separator: u8,
    is_case_sensitive: bool,
    indexes_empty: bool,
    is_indexed: bool,
    /// Documents without the field, if they can be searched.
    missing: Option<IdSet>,
    tags: Tags,
    /// Tags of each row.
    of_rows: Column<TagIds>,
    /// Whole values of each row, if documents can be sorted by the field.
    texts: Option<Column<Option<Box<[u8]>>>>,
    is_unfolded: bool,
    /// Bytes that the columns' values own.
    owned: usize,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    folded: Vec<u8>,
    ids: Vec<TagId>,
}

/// The tags of a row.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
enum TagIds {
    /// The row lacks the field.
    #[default]
    Missing,
    /// A single tag.
    One(TagId),
    /// None or several tags, ascending.
    Many(Box<[TagId]>),
}

impl TagIds {
    fn slice(&self) -> &[TagId] {
        match self {
            TagIds::Missing => &[],
            TagIds::One(id) => std::slice::from_ref(id),
            TagIds::Many(ids) => ids,
        }
    }

    fn owned(&self) -> usize {
        match self {
            TagIds::Many(ids) => size_of_val(&**ids),
            _ => 0,
        }
    }
}

/// Contents of a NUMERIC field.
#[derive(Debug)]
pub struct NumberStore {
    is_indexed: bool,
    missing: Option<IdSet>,
    /// Number of each row, which it is sorted by; NaN if the row has none.
    of_rows: Column<Number>,
    numbers: Numbers,
    /// Numbers of JSON documents that have not exactly one, ascending.
    several: HashMap<u32, Box<[f64]>>,
    /// Bytes of the numbers in `several`.
    owned: usize,
}

#[derive(Clone, Copy, Debug)]
struct Number(f64);

impl Default for Number {
    fn default() -> Self {
        Number(f64::NAN)
    }
}

impl FieldStore {
    /// Contents of a field before the first document.
    pub fn new(field: &Field) -> Self {
        let missing = (field.indexes_missing && !field.is_unindexed).then(IdSet::default);
        let is_indexed = !field.is_unindexed;
        match &field.kind {
            &FieldKind::Tag { separator, is_case_sensitive, .. } => FieldStore::Tags(TagStore {
                separator,
                is_case_sensitive,
                indexes_empty: field.indexes_empty,
                is_indexed,
                missing,
                tags: Tags::default(),
                of_rows: Column::default(),
                texts: field.is_sortable.then(Column::default),
                is_unfolded: field.is_unfolded,
                owned: 0,
                scratch: Scratch::default(),
            }),
            FieldKind::Number => FieldStore::Numbers(NumberStore {
                is_indexed,
                missing,
                of_rows: Column::default(),
                numbers: Numbers::default(),
                several: HashMap::new(),
                owned: 0,
            }),
            FieldKind::Text { .. } => FieldStore::Text(TextStore {
                missing,
                sort_keys: field.is_sortable.then(Column::default),
                is_unfolded: field.is_unfolded,
                owned: 0,
            }),
            FieldKind::Vector(spec) => FieldStore::Vectors(VectorStore {
                vectors: Vectors::new(spec.bytes()),
                spec: VectorSpec::clone(spec),
                missing,
            }),
        }
    }

    /// Replaces the value of a row by a text; `None` removes it.
    ///
    /// # Errors
    /// If the text does not fit. The value is removed then.
    pub fn set_text(&mut self, row: u32, text: Option<&[u8]>) -> Result<(), Misfit> {
        match self {
            FieldStore::Tags(store) => store.set_text(row, text),
            FieldStore::Numbers(store) => {
                let number = text.map(|text| parse_number(text).ok_or(Misfit)).transpose();
                store.set(row, number.unwrap_or(None));
                return number.map(|_| ());
            }
            FieldStore::Text(store) => store.set_text(row, text),
            FieldStore::Vectors(store) => return store.set_text(row, text),
        }
        Ok(())
    }

    /// Replaces the value of a row.
    pub fn set(&mut self, row: u32, value: &Value) {
        match self {
            FieldStore::Tags(store) => store.set(row, value),
            FieldStore::Numbers(store) => match value {
                Value::Number(number) => store.set(row, Some(*number)),
                Value::Numbers(first, numbers) => store.set_list(row, *first, numbers),
                _ => store.set(row, None),
            },
            FieldStore::Text(store) => match value {
                Value::Text(sort_key) => store.set(row, true, sort_key.clone()),
                _ => store.set(row, false, None),
            },
            FieldStore::Vectors(store) => match value {
                Value::Vector(vector) => store.set(row, Some(vector)),
                _ => store.set(row, None),
            },
        }
    }

    /// Moves the value of a row to a new row.
    pub fn rename(&mut self, row: u32, new: u32) {
        if let FieldStore::Vectors(store) = self {
            let is_missing = store.is_missing(row);
            store.vectors.rename(row, new);
            self.set_missing(row, false);
            return self.set_missing(new, is_missing);
        }
        let value = self.get(row);
        self.set(row, &Value::Missing);
        self.set_missing(row, false);
        self.set_missing(new, value == Value::Missing);
        self.set(new, &value);
    }

    /// The reason for which a text does not fit.
    pub fn misfit(&self, text: &[u8]) -> Vec<u8> {
        match self {
            FieldStore::Vectors(store) => {
                let (len, expected) = (text.len(), store.spec.bytes());
                let text =
                    format!("Could not add vector with blob size {len} (expected size {expected})");
                text.into_bytes()
            }
            _ => {
                let text = &text[..text.len().min(MISFIT_MAX)];
                [b"Invalid numeric value: '", text, b"'"].concat()
            }
        }
    }

    /// Lists a new row as one that lacks the field, or no longer.
    pub fn set_missing(&mut self, row: u32, is_missing: bool) {
        let missing = match self {
            FieldStore::Tags(store) => &mut store.missing,
            FieldStore::Numbers(store) => &mut store.missing,
            FieldStore::Text(store) => &mut store.missing,
            FieldStore::Vectors(store) => &mut store.missing,
        };
        if let Some(missing) = missing {
            match is_missing {
                true => missing.insert(row),
                false => missing.remove(row),
            };
        }
    }

    /// The value of a row.
    pub fn get(&self, row: u32) -> Value {
        match self {
            FieldStore::Tags(store) => store.get(row),
            FieldStore::Numbers(store) => store.get(row),
            FieldStore::Text(store) => match store.is_missing(row) {
                true => Value::Missing,
                false => Value::Text(store.sort_key(row).map(Into::into)),
            },
            FieldStore::Vectors(store) => {
                store.get(row).map_or(Value::Missing, |vector| Value::Vector(vector.into()))
            }
        }
    }

    /// Whether a row lacks the field.
    pub fn is_missing(&self, row: u32) -> bool {
        match self {
            FieldStore::Tags(store) => {
                store.of_rows.get(row).is_none_or(|ids| *ids == TagIds::Missing)
            }
            FieldStore::Numbers(store) => {
                store.number(row).is_none() && !store.several.contains_key(&row)
            }
            FieldStore::Text(store) => store.is_missing(row),
            FieldStore::Vectors(store) => store.is_missing(row),
        }
    }

    /// Rows without the field, if they can be searched.
    pub fn missing(&self) -> Option<&IdSet> {
        match self {
            FieldStore::Tags(store) => store.missing.as_ref(),
            FieldStore::Numbers(store) => store.missing.as_ref(),
            FieldStore::Text(store) => store.missing.as_ref(),
            FieldStore::Vectors(store) => store.missing.as_ref(),
        }
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        let missing = self.missing().map_or(0, IdSet::footprint);
        missing
            + match self {
                FieldStore::Tags(store) => {
                    let texts = store.texts.as_ref().map_or(0, Column::footprint);
                    store.tags.footprint() + store.of_rows.footprint() + texts + store.owned
                }
                FieldStore::Numbers(store) => {
                    store.numbers.footprint() + store.of_rows.footprint() + store.several_bytes()
                }
                FieldStore::Text(store) => {
                    store.sort_keys.as_ref().map_or(0, Column::footprint) + store.owned
                }
                FieldStore::Vectors(store) => store.vectors.footprint(),
            }
    }

    /// Whether it holds vectors.
    pub fn is_vectors(&self) -> bool {
        matches!(self, FieldStore::Vectors(_))
    }

    /// Frees a page of rows that will not be used again.
    pub fn drop_page(&mut self, page: usize) {
        match self {
            FieldStore::Tags(store) => {
                store.of_rows.drop_page(page);
                if let Some(texts) = &mut store.texts {
                    texts.drop_page(page);
                }
            }
            FieldStore::Numbers(store) => store.of_rows.drop_page(page),
            FieldStore::Text(store) => {
                if let Some(sort_keys) = &mut store.sort_keys {
                    sort_keys.drop_page(page);
                }
            }
            FieldStore::Vectors(store) => store.vectors.drop_page(page),
        }
    }

    /// Number of entries of the inverted index.
    pub fn records(&self) -> usize {
        match self {
            FieldStore::Tags(store) => store.tags.len(),
            FieldStore::Numbers(store) => store.numbers.len(),
            FieldStore::Text(_) => 0,
            FieldStore::Vectors(store) => store.vectors.len(),
        }
    }
}

impl TextStore {
    /// The value of a row to sort by, if documents can be sorted by the field without being read.
    pub fn sort_key(&self, row: u32) -> Option<&[u8]> {
        self.sort_keys.as_ref()?.get(row)?.as_deref()
    }

    /// Whether a row is known to lack the field.
    fn is_missing(&self, row: u32) -> bool {
        match (&self.missing, &self.sort_keys) {
            (Some(missing), _) => missing.contains(row),
            (None, Some(_)) => self.sort_key(row).is_none(),
            (None, None) => false,
        }
    }

    fn set_text(&mut self, row: u32, text: Option<&[u8]>) {
        let has_key = self.sort_keys.is_some();
        let sort_key = text.filter(|_| has_key).map(|text| match self.is_unfolded {
            true => text.into(),
            false => {
                let mut folded = Vec::new();
                fold(text, false, &mut folded);
                folded.into_boxed_slice()
            }
        });
        self.set(row, text.is_some(), sort_key);
    }

    fn set(&mut self, row: u32, is_present: bool, sort_key: Option<Box<[u8]>>) {
        if let Some(missing) = &mut self.missing {
            match is_present {
                true => missing.remove(row),
                false => missing.insert(row),
            };
        }
        let Some(sort_keys) = &mut self.sort_keys else { return };
        if sort_key.is_none() && sort_keys.get(row).is_none_or(Option::is_none) {
            return;
        }
        self.owned += sort_key.as_ref().map_or(0, |text| text.len());
        let old = std::mem::replace(sort_keys.get_mut(row), sort_key);
        self.owned -= old.map_or(0, |text| text.len());
    }
}

impl TagStore {
    /// The tags, with their rows.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Whether the field can be searched.
    pub fn is_indexed(&self) -> bool {
        self.is_indexed
    }

    /// The tags of a row.
    pub fn tags_of(&self, row: u32) -> impl Iterator<Item = &[u8]> {
        let ids = self.of_rows.get(row).map_or(&[][..], TagIds::slice);
        ids.iter().map(|&id| &**self.tags.text(id))
    }

    /// The whole value of a row, if documents can be sorted by the field without being read.
    pub fn text_of(&self, row: u32) -> Option<&[u8]> {
        self.texts.as_ref()?.get(row)?.as_deref()
    }

    fn set_text(&mut self, row: u32, text: Option<&[u8]>) {
        let Scratch { mut folded, mut ids } = std::mem::take(&mut self.scratch);
        ids.clear();
        if self.is_indexed
            && let Some(text) = text
        {
            for tag in split_tags(text, self.separator) {
                if self.indexes_empty || !tag.is_empty() {
                    fold(tag, self.is_case_sensitive, &mut folded);
                    ids.push(self.tags.insert(&folded, row));
                }
            }
        }
        self.replace(row, text.is_some(), &mut ids);
        if self.texts.is_some() {
            let keeps_case = self.is_unfolded || self.is_case_sensitive;
            let text = text.map(|text| match keeps_case {
                true => text.into(),
                false => {
                    fold(text, false, &mut folded);
                    folded.as_slice().into()
                }
            });
            self.replace_text(row, text);
        }
        self.scratch = Scratch { folded, ids };
    }

    fn set(&mut self, row: u32, value: &Value) {
        let (tags, text) = match value {
            Value::Tags(tags, text) => (Some(&**tags), text.clone()),
            _ => (None, None),
        };
        let mut ids: Vec<TagId> =
            tags.unwrap_or_default().iter().map(|tag| self.tags.insert(tag, row)).collect();
        self.replace(row, tags.is_some(), &mut ids);
        self.replace_text(row, text);
    }

    /// Replaces the tags of a row; the row was added to the new ones.
    fn replace(&mut self, row: u32, is_present: bool, ids: &mut Vec<TagId>) {
        ids.sort_unstable();
        ids.dedup();
        let new = match ids[..] {
            _ if !is_present => TagIds::Missing,
            [id] => TagIds::One(id),
            _ => TagIds::Many((&ids[..]).into()),
        };
        if new == TagIds::Missing && self.of_rows.get(row).is_none_or(|old| *old == new) {
            return;
        }
        self.owned += new.owned();
        let old = std::mem::replace(self.of_rows.get_mut(row), new);
        self.owned -= old.owned();
        for &id in old.slice() {
            if ids.binary_search(&id).is_err() {
                self.tags.remove(id, row);
            }
        }
        if let Some(missing) = &mut self.missing {
            match is_present {
                true => missing.remove(row),
                false => missing.insert(row),
            };
        }
    }

    fn replace_text(&mut self, row: u32, text: Option<Box<[u8]>>) {
        let Some(texts) = &mut self.texts else { return };
        if text.is_none() && texts.get(row).is_none_or(Option::is_none) {
            return;
        }
        self.owned += text.as_ref().map_or(0, |text| text.len());
        let old = std::mem::replace(texts.get_mut(row), text);
        self.owned -= old.map_or(0, |text| text.len());
    }

    fn get(&self, row: u32) -> Value {
        match self.of_rows.get(row) {
            None | Some(TagIds::Missing) => Value::Missing,
            Some(ids) => {
                let tags = ids.slice().iter().map(|&id| self.tags.text(id).clone()).collect();
                Value::Tags(tags, self.text_of(row).map(Into::into))
            }
        }
    }
}

impl NumberStore {
    /// Pairs of a number and a row.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Whether the field can be searched.
    pub fn is_indexed(&self) -> bool {
        self.is_indexed
    }

    /// The number of a row that it is sorted by.
    #[inline]
    pub fn number(&self, row: u32) -> Option<f64> {
        self.of_rows.get(row).map(|number| number.0).filter(|number| !number.is_nan())
    }

    fn get(&self, row: u32) -> Value {
        let number = self.number(row);
        match self.several.get(&row) {
            Some(numbers) => Value::Numbers(number, numbers.clone()),
            None => number.map_or(Value::Missing, Value::Number),
        }
    }

    fn set_column(&mut self, row: u32, number: Option<f64>) {
        if number.is_some() || self.number(row).is_some() {
            *self.of_rows.get_mut(row) = Number(number.unwrap_or(f64::NAN));
        }
    }

    fn set(&mut self, row: u32, number: Option<f64>) {
        let had_several = self.take_several(row);
        let old = self.number(row);
        if old == number && !had_several {
            return;
        }
        self.set_column(row, number);
        if self.is_indexed {
            if let Some(old) = old {
                self.numbers.remove(old, row);
            }
            if let Some(number) = number {
                self.numbers.insert(number, row);
            }
        }
        if let Some(missing) = &mut self.missing {
            match number.is_none() {
                true => missing.insert(row),
                false => missing.remove(row),
            };
        }
    }
}

impl VectorStore {
    /// The vector of a row, in the form in which it is compared.
    #[inline]
    pub fn get(&self, row: u32) -> Option<&[u8]> {
        self.vectors.get(row)
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.vectors.len()
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.vectors.is_empty()
    }

    fn is_missing(&self, row: u32) -> bool {
        self.vectors.get(row).is_none()
    }

    fn set_text(&mut self, row: u32, text: Option<&[u8]>) -> Result<(), Misfit> {
        let Some(text) = text else {
            self.set(row, None);
            return Ok(());
        };
        let spec = self.spec.clone();
        match spec.prepare(text, |vector| self.set(row, Some(vector))) {
            true => Ok(()),
            false => {
                self.set(row, None);
                Err(Misfit)
            }
        }
    }

    fn set(&mut self, row: u32, vector: Option<&[u8]>) {
        match vector {
            Some(vector) => self.vectors.set(row, vector),
            None => {
                self.vectors.remove(row);
            }
        }
        if let Some(missing) = &mut self.missing {
            match vector.is_none() {
                true => missing.insert(row),
                false => missing.remove(row),
            };
        }
    }
}

/// Bytes of a value on the heap.
pub fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Tags(tags, text) => {
            // Texts of tags are shared with the index most of the time.
            tags.len() * size_of::<std::sync::Arc<[u8]>>()
                + text.as_ref().map_or(0, |text| text.len())
        }
        Value::Text(sort_key) => sort_key.as_ref().map_or(0, |text| text.len()),
        Value::Vector(vector) => vector.len() + 2 * size_of::<usize>(),
        Value::Numbers(_, numbers) => size_of_val(&**numbers),
        _ => 0,
    }
}
