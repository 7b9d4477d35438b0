//! Changes of values of value types in the keyspace, each with its effect.

use crate::handle::Handle;
use crate::state::effect::Effect;
use crate::structures::custom::held::Custom;
use crate::structures::custom::types::type_of_number;
use crate::structures::custom::unknown::{UNKNOWN, Unknown};
use crate::structures::custom::{
    CustomChange, CustomValue, Held, Loaded, Slot, TypeNumber, ValueType, Why,
};
use crate::structures::entry::Entry;
use crate::structures::form::{Form, Type, WrongType};
use crate::structures::json::change::{JsonChange, JsonError};
use crate::structures::key_hash::Key;
use crate::structures::large::Large;
use crate::structures::sizes::PACKED_MAX;
use crate::structures::table::Position;
use crate::structures::vectors::change::{VectorChange, VectorError};
use crate::structures::view::View;
use crate::structures::{json, vectors};
use std::any::Any;

/// Room for the bytes of a change that is kept for the next one.
const ROOM_KEPT: usize = 64 * 1024;

/// A key during a change, with the thread's handle. Its stripe is held.
pub struct KeySlot<'h, 'k> {
    handle: &'h mut Handle,
    db: u16,
    key: Key<'k>,
    of: &'static ValueType,
    entry: Option<Entry>,
    /// Position of the entry; none of one that was made since.
    position: Option<Position>,
}

impl Handle {
    /// Opens a key to change its value, which counts as a use of it. Its stripe is held.
    ///
    /// # Errors
    /// If it holds another type.
    #[inline]
    pub fn slot<'h, 'k>(
        &'h mut self,
        db: u16,
        key: Key<'k>,
        of: &'static ValueType,
    ) -> Result<KeySlot<'h, 'k>, WrongType> {
        let found = self.find_type(db, key, Type::Custom(of.number))?;
        let (position, entry) = found.unzip();
        Ok(KeySlot { handle: self, db, key, of, entry, position })
    }

    /// Makes a change that an effect carries. One of an unknown type, or of a value of an unknown
    /// type, is kept with the value.
    ///
    /// # Errors
    /// If the key holds another type, or the change does not fit the value.
    pub fn apply_custom(
        &mut self,
        db: u16,
        key: Key<'_>,
        number: TypeNumber,
        change: CustomChange<'_>,
    ) -> Result<(), Why> {
        let Some(of) = type_of_number(number) else {
            return self.keep_change(db, key, number, change);
        };
        if let Ok(mut slot) = self.slot(db, key, of) {
            return (of.apply)(&mut slot, change);
        }
        self.keep_change(db, key, number, change)
    }

    #[cold]
    fn keep_change(
        &mut self,
        db: u16,
        key: Key<'_>,
        number: TypeNumber,
        change: CustomChange<'_>,
    ) -> Result<(), Why> {
        let mut slot = self.slot(db, key, &UNKNOWN)?;
        if slot.held().is_none() {
            slot.put_boxed(Box::new(Unknown::default()));
        }
        slot.change(&mut |value: &mut dyn CustomValue| {
            if let Some(unknown) = (value as &mut dyn Any).downcast_mut::<Unknown>() {
                unknown.push(number, change);
            }
        });
        self.record(db, key, &Effect::Custom { key: key.bytes, of: number, change });
        Ok(())
    }

    /// Sets a key to a value that was loaded, whatever it held before, without an expiry.
    pub fn store_loaded(&mut self, db: u16, key: Key<'_>, of: &'static ValueType, value: Loaded) {
        self.put_loaded(db, key, of, value, None);
    }

    /// Sets a key to a value that was made, whatever it held before; it keeps its expiry.
    pub fn replace_loaded(&mut self, db: u16, key: Key<'_>, of: &'static ValueType, value: Loaded) {
        let expiry = self.view(db, key).and_then(|view| view.expiry());
        self.put_loaded(db, key, of, value, expiry);
    }

    fn put_loaded(
        &mut self,
        db: u16,
        key: Key<'_>,
        of: &'static ValueType,
        value: Loaded,
        expiry: Option<i64>,
    ) {
        let access = self.initial_access(key.hash);
        let entry = match value {
            Loaded::Packed(bytes) => {
                let (form, items) = packed_items(of.number, &bytes);
                let cache = &mut self.cache;
                Entry::packed_collection(cache, key.bytes, form, false, &items, expiry, access)
            }
            Loaded::Boxed(value) => {
                let large = Box::new(Large::Custom(Custom::new(of, value)));
                Entry::large_collection(&mut self.cache, key.bytes, large, expiry, access)
            }
        };
        self.put_entry(db, key, entry);
        let value = View::new(entry);
        self.record(db, key, &Effect::Store { key: key.bytes, value, expiry });
    }

    /// Makes a change of a JSON document.
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
        json::change::make(&mut self.slot(db, key, &json::rdb::TYPE)?, change)
    }

    /// Makes a change of a vector set. Says whether an element is new ([`VectorChange::Put`]), or
    /// was there (the others).
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

    /// Like [`Handle::vector_change`], but searches as long as `go_on`, which is called with the
    /// work since, in about ten nanoseconds, returns true.
    ///
    /// # Errors
    /// Those of [`Handle::vector_change`], and [`VectorError::Ended`]; nothing has changed then.
    pub fn vector_change_while(
        &mut self,
        db: u16,
        key: Key<'_>,
        change: VectorChange<'_>,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, VectorError> {
        vectors::change::make(&mut self.slot(db, key, &vectors::rdb::TYPE)?, change, go_on)
    }
}

impl From<WrongType> for JsonError {
    fn from(_: WrongType) -> Self {
        JsonError::WrongType
    }
}

impl From<WrongType> for VectorError {
    fn from(_: WrongType) -> Self {
        VectorError::WrongType
    }
}

// Outlined calls of these were 2 % of a `JSON.SET`.
impl Slot for KeySlot<'_, '_> {
    #[inline(always)]
    fn held(&self) -> Option<Held<'_>> {
        self.entry.and_then(Entry::held)
    }

    fn seed(&self) -> u64 {
        seed_of(self.key)
    }

    fn put_boxed(&mut self, value: Box<dyn CustomValue>) {
        let large = Large::Custom(Custom::new(self.of, value));
        self.entry = Some(match self.place() {
            None => self.handle.insert_large(self.db, self.key, large),
            Some(place) => self.handle.enlarge(self.db, self.key, place, large),
        });
    }

    fn put_packed(&mut self, bytes: &[u8]) {
        let (form, items) = packed_items(self.of.number, bytes);
        self.entry = Some(match self.place() {
            None => self.handle.insert_packed(self.db, self.key, form, false, &items),
            Some(place) => self.handle.repack(self.db, self.key, place, form, false, &items),
        });
    }

    #[inline]
    fn change(&mut self, change: &mut dyn FnMut(&mut dyn CustomValue)) {
        let Some(entry) = self.entry else { return };
        self.handle.change_large(self.db, self.key, entry, |large, _| {
            if let Large::Custom(custom) = large {
                change(custom.value_mut());
            }
        });
    }

    #[inline(always)]
    fn splice(
        &mut self,
        at: usize,
        remove: usize,
        insert: &[u8],
        overwrite: &mut dyn FnMut(&mut [u8]),
    ) {
        let Some(place @ (_, entry)) = self.place() else { return };
        let Some(packed) = entry.packed_mut() else { return };
        let head = entry.form().packed_head();
        let at = head + at;
        let kept = packed.len().checked_sub(at).and_then(|behind| behind.checked_sub(remove));
        assert!(kept.is_some_and(|behind| at + insert.len() + behind <= PACKED_MAX));
        overwrite(&mut packed[head..]);
        self.entry = Some(self.handle.splice(self.db, self.key, place, at, remove, insert));
    }

    #[inline(always)]
    fn record(&mut self, op: u8, encode: &mut dyn FnMut(&mut Vec<u8>)) {
        let (handle, db, key, of) = (&mut *self.handle, self.db, self.key, self.of.number);
        let effect =
            |body| Effect::Custom { key: key.bytes, of, change: CustomChange { op, body } };
        // Indexes read the place of a change in a document.
        let is_read =
            of == TypeNumber::JSON && json::change::is_of_place(op) && handle.is_document(db, key);
        if !handle.has_sink() && !is_read {
            return handle.record(db, key, &effect(&[]));
        }
        let mut body = std::mem::take(&mut handle.observers.change);
        encode(&mut body);
        handle.record(db, key, &effect(&body));
        body.clear();
        body.shrink_to(ROOM_KEPT);
        handle.observers.change = body;
    }

    fn remove_emptied(&mut self) {
        self.handle.remove_emptied(self.db, self.key);
        (self.entry, self.position) = (None, None);
    }
}

impl KeySlot<'_, '_> {
    /// The entry and its position, which is looked up if the entry was made since.
    #[inline(always)]
    fn place(&mut self) -> Option<(Position, Entry)> {
        let entry = self.entry?;
        if self.position.is_none() {
            self.position = self.handle.find(self.db, self.key).map(|(at, _)| at);
        }
        self.position.map(|at| (at, entry))
    }
}

/// A number that random choices for a key's value may start from.
pub(crate) fn seed_of(key: Key<'_>) -> u64 {
    u64::from(key.hash.position()) << 32 | u64::from(key.hash.tag())
}

/// The form of a packed value, and its items: behind the number of the type, unless the form says
/// which it is.
fn packed_items(number: TypeNumber, bytes: &[u8]) -> (Form, std::borrow::Cow<'_, [u8]>) {
    let (form, items): (_, std::borrow::Cow<'_, [u8]>) = match number {
        TypeNumber::JSON => (Form::Json, bytes.into()),
        TypeNumber(number) => (Form::Custom, [&[number], bytes].concat().into()),
    };
    // A longer one would not fit the fields of an entry.
    assert!(items.len() <= PACKED_MAX, "a packed value of {} bytes", items.len());
    (form, items)
}
