//! Builds values of a keyspace from the items fed to a sink.

use super::stream::StreamBuilder;
use crate::rdb::{
    Consumer, CustomItem, Error, Group, Item, Pending, Producers, Shape, StreamId, StreamState,
    ValueSink,
};
use petrel_keyspace::custom::{CustomChange, Held, Loaded, TypeNumber, ValueType, type_of_number};
use petrel_keyspace::types::list::End;
use petrel_keyspace::{FieldExpiry, Handle, Key, Value, WrongType};

pub(super) const TWICE: Error = Error::Refused("an element is there twice");

/// Locks the stripe of the key being built when needed, and unlocks it in between.
pub(crate) trait Hold {
    /// Holds the stripe from now on, if it is not held.
    ///
    /// # Errors
    /// If the value that was begun is not there any more; the stripe is held all the same.
    fn hold(&mut self, handle: &mut Handle) -> Result<(), Error>;

    /// Something was added to the value; the stripe may be unlocked.
    fn made(&mut self, handle: &mut Handle);
}

/// Builds the value of a key that does not exist; its stripe is locked. Meant for
/// [`Handle::build`]: if an item is refused, the partial value is to be discarded.
pub struct Builder<'h, 'k> {
    handle: &'h mut Handle,
    db: u16,
    key: Key<'k>,
    /// Elements are members of a set.
    is_set: bool,
    /// Fields that have expired are part of the value.
    keeps_expired: bool,
    /// Values of unknown modules are refused.
    refuses_unknown: bool,
    /// Fields were left out because they have expired.
    left_out: bool,
    /// A count that was stated wrongly.
    recounted: Option<&'static str>,
    /// Another redundant number that was stated wrongly.
    corrected: Option<&'static str>,
    /// The hash is made compact at its end, beyond the thresholds of a listpack or not.
    compact: Option<bool>,
    /// A stream is made apart from the key.
    stream: Option<StreamBuilder>,
    /// The stripe is not held all the while.
    holds: Option<&'h mut (dyn Hold + 'h)>,
}

impl<'h, 'k> Builder<'h, 'k> {
    /// A builder of the value at a key.
    pub fn new(handle: &'h mut Handle, db: u16, key: Key<'k>) -> Self {
        Builder {
            handle,
            db,
            key,
            is_set: false,
            keeps_expired: false,
            refuses_unknown: false,
            left_out: false,
            recounted: None,
            corrected: None,
            compact: None,
            stream: None,
            holds: None,
        }
    }

    /// Keeps expired fields, which are removed later like those of any other hash.
    pub fn keeping_expired(self) -> Self {
        Builder { keeps_expired: true, ..self }
    }

    /// Refuses values of unknown modules.
    pub fn refusing_unknown(self) -> Self {
        Builder { refuses_unknown: true, ..self }
    }

    /// Builds outside of [`Handle::build`], with the stripe locked only at intervals: every element
    /// is a change of its own.
    pub(crate) fn holding(self, holds: &'h mut (dyn Hold + 'h)) -> Self {
        Builder { holds: Some(holds), ..self }
    }

    /// Holds the stripe from now on, if it is not held.
    pub(crate) fn hold(&mut self) -> Result<(), Error> {
        match &mut self.holds {
            Some(holds) => holds.hold(self.handle),
            None => Ok(()),
        }
    }

    /// Something was added to the value.
    #[inline]
    fn made(&mut self) {
        if let Some(holds) = &mut self.holds {
            holds.made(self.handle);
        }
    }

    /// The redundant number that the bytes stated wrongly, if any.
    pub fn wrongly_stated(&self) -> Option<&'static str> {
        self.recounted.or(self.corrected)
    }

    /// The count that the bytes stated wrongly, if any.
    pub fn miscounted(&self) -> Option<&'static str> {
        self.recounted
    }

    /// Completes the value. Returns whether anything is left of it: a hash with only expired fields
    /// is nothing.
    pub fn finish(self) -> bool {
        if let Some(stream) = self.stream {
            self.handle.stream_store(self.db, self.key, stream.finish());
        }
        if let (Some(beyond), None) = (self.compact, &self.holds) {
            self.handle.hash_share(self.db, self.key, beyond, true);
        }
        !self.left_out || self.handle.view(self.db, self.key).is_some()
    }

    fn stream(&mut self) -> Result<&mut StreamBuilder, Error> {
        self.stream.as_mut().ok_or(Error::Refused("a stream that has not begun"))
    }
}

fn wrong_type(_: WrongType) -> Error {
    Error::Refused("a value of two types")
}

fn new(is_new: bool) -> Result<(), Error> {
    if is_new { Ok(()) } else { Err(TWICE) }
}

impl ValueSink for Builder<'_, '_> {
    fn string(&mut self, value: Item<'_>) -> Result<(), Error> {
        let value = match value {
            Item::Text(text) => Value::from_text(text),
            Item::Int(n) => Value::Int(n),
        };
        self.hold()?;
        self.handle.put(self.db, self.key, value, None);
        Ok(())
    }

    fn begin(&mut self, shape: Shape) -> Result<(), Error> {
        self.is_set = matches!(shape, Shape::Set { .. });
        if matches!(shape, Shape::Stream { .. }) {
            self.stream = Some(StreamBuilder::new(self.handle.keyspace().limits()));
        }
        Ok(())
    }

    fn compact(&mut self, beyond: bool) {
        self.compact = Some(beyond);
    }

    fn element(&mut self, element: Item<'_>) -> Result<(), Error> {
        let mut scratch = itoa::Buffer::new();
        let text = element.bytes(&mut scratch);
        self.hold()?;
        if self.is_set {
            let added = self.handle.set_add(self.db, self.key, &[text]).map_err(wrong_type)?;
            new(added == 1)?;
        } else {
            self.handle.list_push(self.db, self.key, End::Back, &[text]).map_err(wrong_type)?;
        }
        self.made();
        Ok(())
    }

    fn scored(&mut self, member: Item<'_>, score: f64) -> Result<(), Error> {
        let mut scratch = itoa::Buffer::new();
        let member = member.bytes(&mut scratch);
        self.hold()?;
        let change =
            self.handle.sorted_set_load(self.db, self.key, member, score).map_err(wrong_type)?;
        new(change.old.is_none())?;
        self.made();
        Ok(())
    }

    fn field(
        &mut self,
        field: Item<'_>,
        value: Item<'_>,
        expiry: Option<i64>,
    ) -> Result<(), Error> {
        if !self.keeps_expired && expiry.is_some_and(|at| at <= self.handle.now_ms()) {
            self.left_out = true;
            return Ok(());
        }
        let expiry = expiry.map_or(FieldExpiry::Clear, FieldExpiry::At);
        let mut scratch = [itoa::Buffer::new(), itoa::Buffer::new()];
        let [of_field, of_value] = &mut scratch;
        let pair = [field.bytes(of_field), value.bytes(of_value)];
        self.hold()?;
        let added = self.handle.hash_load(self.db, self.key, &pair, expiry).map_err(wrong_type)?;
        new(added == 1)?;
        self.made();
        Ok(())
    }

    fn custom(&mut self, of: &'static ValueType, value: CustomItem<'_>) -> Result<(), Error> {
        let value = match value {
            CustomItem::Loaded(loaded) => loaded,
            CustomItem::Held(Held::Packed(bytes)) => Loaded::Packed(bytes.to_vec()),
            CustomItem::Held(Held::Boxed(value)) => Loaded::Boxed(value.duplicate()),
        };
        self.hold()?;
        self.handle.store_loaded(self.db, self.key, of, value);
        Ok(())
    }

    fn change(&mut self, of: TypeNumber, change: CustomChange<'_>) -> Result<(), Error> {
        if self.refuses_unknown && type_of_number(of).is_none() {
            return Err(Error::Unsupported("the value is of an unknown type"));
        }
        self.hold()?;
        self.handle.apply_custom(self.db, self.key, of, change).map_err(Error::Refused)?;
        self.made();
        Ok(())
    }

    fn keeps_unknown(&self) -> bool {
        !self.refuses_unknown
    }

    fn seed(&self) -> u64 {
        u64::from(self.key.hash.position()) << 32 | u64::from(self.key.hash.tag())
    }

    fn entry(&mut self, id: StreamId, fields: &[Item<'_>]) -> Result<(), Error> {
        self.stream()?.entry(id, fields)
    }

    fn state(&mut self, state: &StreamState) -> Result<(), Error> {
        self.stream()?.state(state)
    }

    fn group(&mut self, group: &Group<'_>) -> Result<(), Error> {
        self.stream()?.group(group)
    }

    fn consumer(&mut self, consumer: &Consumer<'_>) -> Result<(), Error> {
        self.stream()?.consumer(consumer)
    }

    fn pending(&mut self, pending: &Pending) -> Result<(), Error> {
        self.stream()?.pending(pending)
    }

    fn given_back(&mut self, id: StreamId) -> Result<(), Error> {
        self.stream()?.given_back(id)
    }

    fn producers(&mut self, producers: &Producers) -> Result<(), Error> {
        self.stream()?.producers(producers)
    }

    fn producer(&mut self, name: &[u8], _entries: usize) -> Result<(), Error> {
        self.stream()?.producer(name);
        Ok(())
    }

    fn produced(&mut self, id: &[u8], entry: StreamId) -> Result<(), Error> {
        self.stream()?.produced(id, entry)
    }

    fn recounted(&mut self, what: &'static str) {
        self.recounted.get_or_insert(what);
    }

    fn corrected(&mut self, what: &'static str) {
        self.corrected.get_or_insert(what);
    }

    fn counters(&mut self, added: u64, duplicates: u64) -> Result<(), Error> {
        self.stream()?.counters(added, duplicates);
        Ok(())
    }
}
