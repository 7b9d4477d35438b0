//! Read access to a key's value.

use crate::structures::bucket::Item as _;
use crate::structures::custom::{CustomValue, Held};
use crate::structures::entry::{Entry, Kind};
use crate::structures::form::{Form, Type, WrongType};
use crate::structures::hash::schema::share;
use crate::structures::json::Json;
use crate::structures::large::Large;
use crate::structures::stream::Stream;
use crate::structures::value::StrRef;
use crate::structures::vectors::Vectors;
use petrel_json::Value;
use petrel_vector::VectorSet;
use std::marker::PhantomData;
use std::sync::Arc;

/// A borrowed value of a key, valid until a change.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(crate) entry: Entry,
    alive: PhantomData<&'a ()>,
}

impl<'a> View<'a> {
    pub(crate) fn new(entry: Entry) -> Self {
        View { entry, alive: PhantomData }
    }

    /// The key.
    pub fn key(&self) -> &'a [u8] {
        self.entry.key()
    }

    /// Representation of the value.
    pub fn kind(&self) -> Kind {
        self.entry.kind()
    }

    /// The string.
    #[inline]
    pub fn string(&self) -> Result<StrRef<'a>, WrongType> {
        self.entry.string().ok_or(WrongType)
    }

    /// The stream.
    #[inline]
    pub fn stream(&self) -> Result<&'a Stream, WrongType> {
        match self.entry.large() {
            Some(Large::Stream(stream)) => Ok(stream),
            _ => Err(WrongType),
        }
    }

    /// The vector set. Long searches keep a reference and unlock the stripe.
    #[inline]
    pub fn vectors(&self) -> Result<&'a Arc<VectorSet>, WrongType> {
        match self.entry.large() {
            Some(Large::Custom(custom)) => custom.get().map(Vectors::set).ok_or(WrongType),
            _ => Err(WrongType),
        }
    }

    /// The JSON document.
    #[inline]
    pub fn json(&self) -> Result<Value<'a>, WrongType> {
        match (self.entry.packed_form(), self.entry.large()) {
            (Some(Form::Json), _) => self.entry.packed().map(Value::new).ok_or(WrongType),
            (None, Some(Large::Custom(custom))) => {
                custom.get().map(Json::tape).map(Value::new).ok_or(WrongType)
            }
            _ => Err(WrongType),
        }
    }

    /// The structure of a value of a value type that is not packed.
    ///
    /// # Errors
    /// If it is of another type, or packed.
    #[inline]
    pub fn custom<T: CustomValue>(&self) -> Result<&'a T, WrongType> {
        self.held().and_then(Held::get).ok_or(WrongType)
    }

    /// The value, of a value type.
    #[inline]
    pub fn held(&self) -> Option<Held<'a>> {
        self.entry.held()
    }

    /// The type of the value.
    pub fn type_of(&self) -> Type {
        self.entry.type_of()
    }

    /// Expiry as Unix time in milliseconds.
    pub fn expiry(&self) -> Option<i64> {
        self.entry.expiry()
    }

    /// The answer of `OBJECT ENCODING`.
    pub fn encoding(&self) -> &'static str {
        self.entry.encoding()
    }

    /// Bytes of key and value, without their table slot.
    pub fn footprint(&self) -> usize {
        self.entry.footprint()
    }

    /// Whether it is a compact hash, and if so whether it has passed the thresholds of a listpack.
    pub fn compact_hash(&self) -> Option<bool> {
        self.entry.is_compact().then(|| self.entry.is_beyond())
    }

    /// Bytes of the value that it shares with other keys, divided by their number.
    pub fn shared_footprint(&self) -> usize {
        let schema = self.entry.schema();
        // The reference made here counts as well.
        schema.map_or(0, |schema| share(&schema, Arc::strong_count(&schema) - 1))
    }

    pub(crate) fn access(&self) -> u32 {
        self.entry.access()
    }

    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View")
            .field("key", &self.key())
            .field("type", &self.type_of())
            .field("expiry", &self.expiry())
            .finish()
    }
}
