//! Values of JSON documents in fields: any number of them in one row.

use super::{FieldStore, Misfit, NumberStore, Scratch, TagStore, TextStore};
use crate::index::document::Value;
use crate::index::json::{Listed, any_tag_of};
use crate::index::schema::fold;
use std::mem::{size_of, take};

impl FieldStore {
    /// Replaces the value of a row by a text, or by values of JSON documents; `None` removes it.
    ///
    /// # Errors
    /// If the value does not fit. It is removed then.
    pub fn set_stated(
        &mut self,
        row: u32,
        value: Option<&[u8]>,
        is_json: bool,
    ) -> Result<(), Misfit> {
        if is_json { self.set_listed(row, value) } else { self.set_text(row, value) }
    }

    /// The value that a text, or values of JSON documents, would have; uses a row that is not
    /// searched.
    pub fn converted(&mut self, row: u32, value: Option<&[u8]>, is_json: bool) -> Value {
        let set = self.set_stated(row, value, is_json);
        let value = if set.is_ok() { self.get(row) } else { Value::Misfit };
        self.set(row, &Value::Missing);
        self.set_missing(row, false);
        value
    }

    /// Replaces the value of a row by the values that a path has found ([`Listed`]); `None` removes
    /// it.
    ///
    /// # Errors
    /// If they do not fit. The value is removed then.
    pub fn set_listed(&mut self, row: u32, value: Option<&[u8]>) -> Result<(), Misfit> {
        let listed = value.map(Listed::read);
        let fits = !matches!(listed, Some(Listed::Misfit(_)));
        let listed = listed.filter(|_| fits);
        match self {
            FieldStore::Tags(store) => store.set_listed(row, listed),
            FieldStore::Numbers(store) => store.set_listed(row, listed),
            FieldStore::Places(store) => {
                let set = store.set_listed(row, listed);
                return if fits { set } else { Err(Misfit) };
            }
            FieldStore::Text(store) => store.set_listed(row, listed),
            // Definitions have no vectors of JSON documents.
            FieldStore::Vectors(store) => store.set(row, None),
        }
        if fits { Ok(()) } else { Err(Misfit) }
    }
}

/// The text to sort by.
fn first_text(listed: Option<Listed<'_>>) -> Option<Box<[u8]>> {
    let listed = listed.filter(|listed| listed.has_first())?;
    listed.texts().next().map(Into::into)
}

impl TagStore {
    fn set_listed(&mut self, row: u32, listed: Option<Listed<'_>>) {
        let Scratch { mut folded, mut ids } = take(&mut self.scratch);
        ids.clear();
        let (separator, indexes_empty) = (self.separator, self.indexes_empty);
        for text in listed.filter(|_| self.is_indexed).into_iter().flat_map(Listed::texts) {
            any_tag_of(text, separator, indexes_empty, &mut |tag| {
                fold(tag, self.is_case_sensitive, &mut folded);
                ids.push(self.tags.insert(&folded, row));
                false
            });
        }
        self.replace(row, listed.is_some(), &mut ids);
        if self.texts.is_some() {
            self.replace_text(row, first_text(listed));
        }
        self.scratch = Scratch { folded, ids };
    }
}

impl TextStore {
    pub(super) fn set_listed(&mut self, row: u32, listed: Option<Listed<'_>>) {
        let sort_key = first_text(listed).filter(|_| self.sort_keys.is_some());
        self.set(row, listed.is_some(), sort_key);
    }
}

impl NumberStore {
    /// Passes the numbers of a row to `each` until it returns true; returns whether it did.
    #[inline]
    pub fn any_number(&self, row: u32, each: &mut dyn FnMut(f64) -> bool) -> bool {
        match self.several.get(&row) {
            Some(numbers) => numbers.iter().any(|number| each(*number)),
            None => self.number(row).is_some_and(each),
        }
    }

    fn set_listed(&mut self, row: u32, listed: Option<Listed<'_>>) {
        let Some(listed) = listed else { return self.set(row, None) };
        let first = listed.numbers().next().filter(|_| listed.has_first());
        let mut numbers: Vec<f64> = listed.numbers().collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        self.set_list(row, first, &numbers);
    }

    /// Replaces the number to sort by, and all numbers of a row, which are distinct.
    pub(super) fn set_list(&mut self, row: u32, first: Option<f64>, numbers: &[f64]) {
        if first.is_some() && numbers.len() == 1 {
            return self.set(row, first);
        }
        self.set(row, None);
        self.set_column(row, first);
        if self.is_indexed {
            numbers.iter().for_each(|&number| {
                self.numbers.insert(number, row);
            });
        }
        self.owned += size_of_val(numbers);
        self.several.insert(row, numbers.into());
        if let Some(missing) = &mut self.missing {
            missing.remove(row);
        }
    }

    /// Removes the numbers of a row that has not exactly one; returns whether it was such a row.
    #[inline]
    pub(super) fn take_several(&mut self, row: u32) -> bool {
        if self.several.is_empty() {
            return false;
        }
        let Some(numbers) = self.several.remove(&row) else { return false };
        self.owned -= size_of_val(&*numbers);
        self.set_column(row, None);
        if self.is_indexed {
            numbers.iter().for_each(|&number| {
                self.numbers.remove(number, row);
            });
        }
        true
    }

    /// Bytes of the rows that have not exactly one number.
    pub(super) fn several_bytes(&self) -> usize {
        self.owned + self.several.capacity() * (size_of::<(u32, Box<[f64]>)>() + 1)
    }
}
