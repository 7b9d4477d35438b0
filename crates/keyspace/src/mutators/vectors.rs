//! Changes of vector sets in the keyspace, each with its effect.

use crate::handle::Handle;
use crate::state::effect::Effect;
use crate::structures::entry::Entry;
use crate::structures::form::{Type, WrongType};
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::vectors::{VectorChange, Vectors};
use crate::structures::view::View;
use petrel_vector::{NotInserted, VectorSet};

/// Why a vector cannot be put.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VectorError {
    /// The key holds another type.
    WrongType,
    /// The set's vectors are of another shape, or the shape is out of range.
    WrongShape,
    /// The set has as many elements as it may have.
    Full,
    /// The caller has ended it.
    Ended,
}

impl From<WrongType> for VectorError {
    fn from(_: WrongType) -> Self {
        VectorError::WrongType
    }
}

impl Handle {
    /// Makes a change of a vector set that is given as its effect is. Says whether an element is
    /// new ([`VectorChange::Put`]), or was there (the others).
    ///
    /// # Errors
    /// If the key holds another type, or the vector does not fit the set; nothing has changed then.
    pub fn vector_change(
        &mut self,
        db: u16,
        key: Key<'_>,
        change: VectorChange<'_>,
    ) -> Result<bool, VectorError> {
        self.vector_change_while(db, key, change, &mut |_| true)
    }

    /// Searches as long as `go_on`, which is called with the work since, in about ten nanoseconds,
    /// returns true.
    ///
    /// # Errors
    /// The same, and [`VectorError::Ended`]; nothing has changed then.
    pub fn vector_change_while(
        &mut self,
        db: u16,
        key: Key<'_>,
        change: VectorChange<'_>,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, VectorError> {
        match change {
            VectorChange::Put { .. } => self.vector_put(db, key, change, go_on),
            VectorChange::Remove { name } => {
                let is_removed = self.vector_alter(db, key, change, |set| set.remove(name))?;
                if is_removed && self.view(db, key).is_some_and(|view| is_empty(&view)) {
                    self.remove_emptied(db, key);
                }
                Ok(is_removed)
            }
            VectorChange::SetAttributes { name, attributes } => {
                let attributes = Some(attributes).filter(|text| !text.is_empty());
                Ok(self.vector_alter(db, key, change, |set| set.set_attributes(name, attributes))?)
            }
        }
    }

    fn vector_put(
        &mut self,
        db: u16,
        key: Key<'_>,
        change: VectorChange<'_>,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, VectorError> {
        let VectorChange::Put { shape, name, vector, attributes, ef, .. } = change else {
            return Ok(false);
        };
        if !shape.is_valid() || vector.code.len() != shape.code_bytes() {
            return Err(VectorError::WrongShape);
        }
        let entry = match self.find_type(db, key, Type::VectorSet)? {
            Some((_, entry)) => entry,
            None => {
                let seed = u64::from(key.hash.position()) << 32 | u64::from(key.hash.tag());
                let set = VectorSet::new(shape, seed);
                self.insert_large(db, key, Large::Vectors(Vectors::new(set)))
            }
        };
        let Some(Large::Vectors(vectors)) = entry.large() else {
            return Err(VectorError::WrongType);
        };
        if *vectors.set().shape() != shape {
            return Err(VectorError::WrongShape);
        }
        let is_new = self.change_vectors(db, key, entry, |set| {
            set.insert_while(name, vector, attributes, ef as usize, go_on)
        });
        let is_new =
            is_new.unwrap_or(Err(NotInserted::WrongShape)).map_err(|error| match error {
                NotInserted::WrongShape => VectorError::WrongShape,
                NotInserted::Full => VectorError::Full,
                NotInserted::Ended => VectorError::Ended,
            })?;
        self.record(db, key, &Effect::Vector { key: key.bytes, change });
        Ok(is_new)
    }

    /// Changes an element that is there, if it is.
    fn vector_alter(
        &mut self,
        db: u16,
        key: Key<'_>,
        change: VectorChange<'_>,
        alter: impl FnOnce(&VectorSet) -> bool,
    ) -> Result<bool, WrongType> {
        let Some((_, entry)) = self.find_type(db, key, Type::VectorSet)? else { return Ok(false) };
        let is_changed = self.change_vectors(db, key, entry, alter) == Some(true);
        if is_changed {
            self.record(db, key, &Effect::Vector { key: key.bytes, change });
        }
        Ok(is_changed)
    }

    fn change_vectors<T>(
        &mut self,
        db: u16,
        key: Key<'_>,
        entry: Entry,
        change: impl FnOnce(&VectorSet) -> T,
    ) -> Option<T> {
        let changed = self.change_large(db, key, entry, |large, _| match large {
            Large::Vectors(vectors) => Some(change(vectors.set())),
            _ => None,
        });
        changed.flatten()
    }

    /// Sets a key to a vector set, whatever it held before, without an expiry.
    pub fn vectors_store(&mut self, db: u16, key: Key<'_>, set: VectorSet) {
        let access = self.initial_access(key.hash);
        let large = Box::new(Large::Vectors(Vectors::new(set)));
        let entry = Entry::large_collection(&mut self.cache, key.bytes, large, None, access);
        self.put_entry(db, key, entry);
        let value = View::new(entry);
        self.record(db, key, &Effect::Store { key: key.bytes, value, expiry: None });
    }

    /// Makes a change that an effect describes.
    ///
    /// # Errors
    /// What is in the way.
    pub(crate) fn apply_vector(
        &mut self,
        db: u16,
        key: Key<'_>,
        change: VectorChange<'_>,
    ) -> Result<(), &'static str> {
        self.vector_change(db, key, change).map(drop).map_err(|error| match error {
            VectorError::WrongType => "the key holds a value of another type",
            VectorError::WrongShape => "the vectors of the set are of another shape",
            VectorError::Ended => "it was ended",
            VectorError::Full => "the set has as many elements as it may have",
        })
    }
}

fn is_empty(view: &View<'_>) -> bool {
    view.vectors().is_ok_and(|set| set.is_empty())
}
