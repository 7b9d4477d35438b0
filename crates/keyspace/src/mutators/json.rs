//! Changes of JSON documents in the keyspace, each with its effect.
//!
//! A document is packed into its entry up to [`PACKED_MAX`] bytes, and has an allocation of its own
//! beyond that, until it has shrunk to half.

use crate::handle::Handle;
use crate::state::effect::Effect;
use crate::structures::entry::{Entry, PACKED_MAX};
use crate::structures::form::{Form, Type, WrongType};
use crate::structures::json::{Json, JsonChange};
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::table::Position;
use crate::structures::view::View;
use petrel_json::{Change, Edit, Misfit, Op};

/// A document that has shrunk to so many bytes is packed again.
const REPACKED_MAX: usize = PACKED_MAX / 2;

/// Why a document cannot be changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JsonError {
    /// The key holds another type.
    WrongType,
    /// There is no such key.
    NoKey,
    /// The change does not fit the document.
    Misfit(Misfit),
}

impl From<WrongType> for JsonError {
    fn from(_: WrongType) -> Self {
        JsonError::WrongType
    }
}

impl From<Misfit> for JsonError {
    fn from(misfit: Misfit) -> Self {
        JsonError::Misfit(misfit)
    }
}

impl Handle {
    /// Makes a change of a JSON document that is given as its effect is.
    ///
    /// Tapes must be those of documents ([`petrel_json::check`]); the change borrows nothing from
    /// the key's own document.
    ///
    /// # Errors
    /// If the key holds another type or nothing, or the change does not fit the document; nothing
    /// has changed then.
    pub fn json_change(
        &mut self,
        db: u16,
        key: Key<'_>,
        change: JsonChange<'_>,
    ) -> Result<(), JsonError> {
        let found = self.find_type(db, key, Type::Json)?;
        match (change, found) {
            (JsonChange::Put { tape }, None) => self.json_insert(db, key, tape),
            (JsonChange::Put { tape }, Some(place)) => self.json_replace(db, key, place, tape),
            (JsonChange::At(_), None) => return Err(JsonError::NoKey),
            (JsonChange::At(change), Some(place)) => {
                self.json_edit(db, key, place, &change)?;
                if self.json_is_emptied(db, key, &change) {
                    return Ok(());
                }
            }
        }
        self.record(db, key, &Effect::Json { key: key.bytes, change });
        Ok(())
    }

    /// Whether a removal has left nothing in the root, which is recorded as a document then: a
    /// replica that is told to remove the last value removes the key, as `JSON.DEL` does.
    fn json_is_emptied(&mut self, db: u16, key: Key<'_>, change: &Change<'_>) -> bool {
        if !matches!((change.op, change.place), (Op::Remove { .. }, [_])) {
            return false;
        }
        let root = self.find(db, key).and_then(|(_, entry)| View::new(entry).json().ok());
        let Some(root) = root.filter(|root| root.is_empty()) else { return false };
        let change = JsonChange::Put { tape: root.tape() };
        self.record(db, key, &Effect::Json { key: key.bytes, change });
        true
    }

    fn json_insert(&mut self, db: u16, key: Key<'_>, tape: &[u8]) {
        if tape.len() <= PACKED_MAX {
            self.insert_packed(db, key, Form::Json, false, tape);
        } else {
            self.insert_large(db, key, Large::Json(Json::new(tape.to_vec())));
        }
    }

    fn json_replace(&mut self, db: u16, key: Key<'_>, (at, entry): (Position, Entry), tape: &[u8]) {
        match entry.packed() {
            Some(old) if tape.len() <= PACKED_MAX => {
                self.splice(db, key, (at, entry), 0, old.len(), tape);
            }
            Some(_) => {
                self.enlarge(db, key, (at, entry), Large::Json(Json::new(tape.to_vec())));
            }
            None if tape.len() <= REPACKED_MAX => {
                self.repack(db, key, (at, entry), Form::Json, false, tape);
            }
            None => self.change_json(db, key, entry, |json| json.replace(tape)),
        }
    }

    fn json_edit(
        &mut self,
        db: u16,
        key: Key<'_>,
        (at, entry): (Position, Entry),
        change: &Change<'_>,
    ) -> Result<(), JsonError> {
        let tape = View::new(entry).json()?.tape();
        let edit = Edit::of(tape, change)?;
        let len = tape.len().saturating_add_signed(edit.grows_by());
        match entry.packed_mut() {
            Some(packed) if len <= PACKED_MAX => {
                edit.write_headers(packed);
                let (from, removed) = (edit.range.start, edit.range.len());
                self.splice(db, key, (at, entry), from, removed, &edit.insert);
            }
            Some(packed) => {
                let mut tape = packed.to_vec();
                edit.apply(&mut tape);
                self.enlarge(db, key, (at, entry), Large::Json(Json::new(tape)));
            }
            None if len <= REPACKED_MAX => {
                let mut tape = tape.to_vec();
                edit.apply(&mut tape);
                self.repack(db, key, (at, entry), Form::Json, false, &tape);
            }
            None => self.change_json(db, key, entry, |json| json.edit(&edit)),
        }
        Ok(())
    }

    fn change_json(&mut self, db: u16, key: Key<'_>, entry: Entry, change: impl FnOnce(&mut Json)) {
        self.change_large(db, key, entry, |large, _| {
            if let Large::Json(json) = large {
                change(json);
            }
        });
    }

    /// Makes a change that an effect describes.
    ///
    /// # Errors
    /// What is in the way.
    pub(crate) fn apply_json(
        &mut self,
        db: u16,
        key: Key<'_>,
        change: JsonChange<'_>,
    ) -> Result<(), &'static str> {
        self.json_change(db, key, change).map_err(|error| match error {
            JsonError::WrongType => "the key holds a value of another type",
            JsonError::NoKey => "there is no such key",
            JsonError::Misfit(Misfit::NoPlace) => "the document has no such place",
            JsonError::Misfit(Misfit::TooDeep) => "the document would be nested too deep",
            JsonError::Misfit(Misfit::TooLong) => "the document would be too long",
        })
    }
}
