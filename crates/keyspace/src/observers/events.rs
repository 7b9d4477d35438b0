//! Keyspace events: a name for each change of a key, published to subscribers
//! (<https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/>).
//!
//! An effect describes a change; an event names its cause. Most names follow from the effect
//! (`ListPush` at the head is `lpush`, whichever command did it), some from the command, which sets
//! its own with [`Handle::name_events`] before it changes anything, and a few are published one by
//! one with [`Handle::event`].
//!
//! Events are queued in the handle, in order, until their command has finished:
//! [`Handle::take_events`].

use crate::handle::Handle;
use crate::state::effect::{Effect, Removal};
use crate::state::event::Event;
use crate::state::event::Naming;
use crate::state::event::class;
use crate::structures::custom::types::type_of_number;
use crate::structures::custom::{EventClass, TypeNumber};
use crate::structures::entry::Entry;
use crate::structures::form::Type;
use crate::structures::key_hash::Key;
use crate::structures::list::End;
use crate::structures::stream::StreamChange;
use crate::structures::table::Position;

/// Maximum number of fields named by one event; further ones are named by another event of the same
/// name.
const FIELDS_MAX: usize = 1 << 16;

impl Handle {
    /// Sets the classes of events to record (bits of [`class`]).
    pub fn set_events(&mut self, wanted: u32) {
        self.observers.events.wanted.set(wanted);
    }

    /// Whether any events are recorded.
    #[inline]
    pub fn notes_events(&self) -> bool {
        self.observers.events.wanted.get() != 0
    }

    /// Whether events of this class are recorded.
    #[inline]
    pub fn wants_event(&self, class: u32) -> bool {
        self.observers.events.wanted.get() & class != 0
    }

    /// Sets the event names of the running command.
    pub fn name_events(&mut self, naming: Naming) {
        self.observers.events.naming.set(naming);
    }

    /// Whether events are queued for publication.
    #[inline]
    pub fn has_events(&self) -> bool {
        self.observers.events.pending.get()
    }

    /// Takes the queued events, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.flush_emptied();
        self.observers.events.pending.set(false);
        self.observers.events.queue.take()
    }

    /// Records an event, if its class is wanted.
    #[inline]
    pub fn event(&self, class: u32, name: &'static str, db: u16, key: &[u8]) {
        if self.wants_event(class) {
            self.note_event(class, name, db, key);
        }
    }

    /// Records the `del` events of the keys emptied so far.
    pub fn flush_emptied(&self) {
        for (db, key) in self.observers.events.emptied.take() {
            self.event(class::GENERIC, "del", db, &key);
        }
    }

    /// Finds a key about to be replaced as a whole by a value of type `new`, and records the
    /// matching events, unless the command names its changes other than `set`.
    #[cold]
    pub(crate) fn find_overwritten(
        &mut self,
        db: u16,
        key: Key<'_>,
        new: Type,
    ) -> Option<(Position, Entry)> {
        let found = self.find_alive(db, key);
        if let Some((_, old)) = found
            && self.observers.events.naming.get() == Naming::ByEffect
        {
            self.overwritten(db, key, old.type_of(), new);
        }
        found
    }

    /// Records that a value built as a whole has replaced another, unless the command states its
    /// events.
    pub(crate) fn note_replaced(&self, db: u16, key: Key<'_>, old: Type, new: Type) {
        if self.notes_events() && self.observers.events.naming.get() != Naming::Stated {
            self.overwritten(db, key, old, new);
        }
    }

    /// Stops recording until [`Handle::unmute_events`] is called with the returned classes.
    pub(crate) fn mute_events(&self) -> u32 {
        self.observers.events.wanted.replace(0)
    }

    /// Restores the classes of events recorded before [`Handle::mute_events`].
    pub(crate) fn unmute_events(&self, wanted: u32) {
        self.observers.events.wanted.set(wanted);
    }

    /// Records that a value of type `old` was replaced as a whole by one of type `new`.
    pub fn overwritten(&self, db: u16, key: Key<'_>, old: Type, new: Type) {
        self.event(class::OVERWRITTEN, "overwritten", db, key.bytes);
        if old != new {
            self.event(class::TYPE_CHANGED, "type_changed", db, key.bytes);
        }
    }

    #[cold]
    fn note_event(&self, class: u32, name: &'static str, db: u16, key: &[u8]) {
        let event = Event { class, name, db, key: key.into(), fields: Vec::new() };
        self.observers.events.queue.borrow_mut().push(event);
        self.observers.events.pending.set(true);
    }

    /// Records an event about a field; consecutive ones of the same name are merged.
    fn note_field(&self, name: &'static str, db: u16, key: &[u8], field: &[u8]) {
        if !self.wants_event(class::HASH) {
            return;
        }
        let mut queue = self.observers.events.queue.borrow_mut();
        let goes_on = queue.last().is_some_and(|last| {
            last.name == name
                && last.db == db
                && *last.key == *key
                && last.fields.len() < FIELDS_MAX
        });
        if !goes_on {
            let event = Event { class: class::HASH, name, db, key: key.into(), fields: Vec::new() };
            queue.push(event);
        }
        if self.wants_event(class::FIELDS)
            && let Some(event) = queue.last_mut()
        {
            event.fields.push(field.into());
        }
        self.observers.events.pending.set(true);
    }

    /// Records an event about several fields of a hash.
    pub fn event_of_fields(&self, name: &'static str, db: u16, key: Key<'_>, fields: &[&[u8]]) {
        fields.iter().for_each(|field| self.note_field(name, db, key.bytes, field));
    }

    /// Records the events of fields that were set with their hash, under the name that setting them
    /// one by one would give.
    pub(crate) fn note_fields_set<'f>(
        &self,
        db: u16,
        key: Key<'_>,
        fields: impl Iterator<Item = &'f [u8]>,
    ) {
        if !self.notes_events() {
            return;
        }
        let name = match self.observers.events.naming.get() {
            Naming::Stated => return,
            Naming::As(name) => name,
            Naming::ByEffect => "hset",
        };
        fields.for_each(|field| self.note_field(name, db, key.bytes, field));
    }

    /// Records an event about an element; consecutive ones of the same name are merged.
    fn note_element(&self, class: u32, name: &'static str, db: u16, key: &[u8]) {
        let goes_on = self
            .observers
            .events
            .queue
            .borrow()
            .last()
            .is_some_and(|last| last.name == name && last.db == db && *last.key == *key);
        if !goes_on {
            self.event(class, name, db, key);
        }
    }

    /// Records the event of an effect.
    #[cold]
    pub(crate) fn note_effect(&self, db: u16, effect: &Effect<'_>) {
        let Some(key) = effect.key() else { return };
        if let Effect::Remove { why, .. } = effect {
            return self.note_removal(db, key, *why);
        }
        let naming = self.observers.events.naming.get();
        let name = |usual| match naming {
            Naming::As(name) => name,
            _ => usual,
        };
        if let Effect::FieldRemove { field, why, .. } = effect {
            return self.note_field(name_of_field_removal(*why, naming), db, key, field);
        }
        if naming == Naming::Stated {
            return;
        }
        let list = |name| self.note_element(class::LIST, name, db, key);
        match *effect {
            Effect::Put { .. } => self.event(class_of(name("set")), name("set"), db, key),
            // Commands that copy and rename publish their own events.
            Effect::CopyFrom { .. } => {}
            // A new empty stream, before its first entry or group.
            Effect::Store { .. } if naming == Naming::ByEffect => {}
            Effect::Store { value, .. } => {
                let name = name("store");
                self.event(class_of_store(name, value.type_of()), name, db, key);
            }
            Effect::Expire { expiry: Some(_), .. } => {
                self.event(class::GENERIC, "expire", db, key);
            }
            Effect::Expire { expiry: None, .. } => self.event(class::GENERIC, "persist", db, key),
            Effect::Add { .. } => self.event(class::STRING, "incrby", db, key),
            Effect::Write { .. } => self.note_element(class::STRING, name("set"), db, key),
            Effect::ScorePut { .. } => {
                self.note_element(class::SORTED_SET, name("zadd"), db, key);
            }
            Effect::ScoreRemove { .. } => {
                self.note_element(class::SORTED_SET, name("zrem"), db, key);
            }
            Effect::MemberAdd { .. } => self.note_element(class::SET, "sadd", db, key),
            Effect::MemberRemove { .. } => self.note_element(class::SET, name("srem"), db, key),
            Effect::ListPush { end: End::Front, .. } => list("lpush"),
            Effect::ListPush { end: End::Back, .. } => list("rpush"),
            Effect::ListPop { end: End::Front, .. } => list("lpop"),
            Effect::ListPop { end: End::Back, .. } => list("rpop"),
            Effect::ListSet { .. } => list("lset"),
            Effect::ListInsert { .. } => list("linsert"),
            Effect::ListRemove { .. } => list("lrem"),
            Effect::ListTrim { .. } => list(name("ltrim")),
            Effect::Stream { change, .. } => {
                if let Some(name) = name_of(change, naming) {
                    self.note_element(class::STREAM, name, db, key);
                }
            }
            Effect::Custom { of, change, .. } => self.note_custom(db, key, (of, change.op), name),
            Effect::FieldPut { field, .. } => self.note_field(name("hset"), db, key, field),
            Effect::FieldExpire { field, expiry, .. } => {
                let name = if expiry.is_some() { "hexpire" } else { "hpersist" };
                self.note_field(name, db, key, field);
            }
            Effect::FieldRemove { .. }
            | Effect::Remove { .. }
            | Effect::Aux { .. }
            | Effect::Clear
            | Effect::Swap { .. } => {}
        }
    }

    /// Notes the event of an operation of a value type, if it has one.
    fn note_custom(
        &self,
        db: u16,
        key: &[u8],
        (of, op): (TypeNumber, u8),
        name: impl Fn(&'static str) -> &'static str,
    ) {
        let Some(of) = type_of_number(of) else { return };
        let class = match of.shown.events {
            EventClass::Module => class::MODULE,
            EventClass::Array => class::ARRAY,
        };
        if let Some(usual) = (of.event)(op) {
            self.note_element(class, name(usual), db, key);
        }
    }

    fn note_removal(&self, db: u16, key: &[u8], why: Removal) {
        match why {
            Removal::Expired => self.event(class::EXPIRED, "expired", db, key),
            Removal::Evicted => self.event(class::EVICTED, "evicted", db, key),
            Removal::Emptied if self.wants_event(class::GENERIC) => {
                self.observers.events.emptied.borrow_mut().push((db, key.into()));
                self.observers.events.pending.set(true);
            }
            Removal::Deleted => match self.observers.events.naming.get() {
                Naming::Stated => {}
                Naming::As("expired") => self.event(class::EXPIRED, "expired", db, key),
                _ => self.event(class::GENERIC, "del", db, key),
            },
            Removal::Emptied => {}
        }
    }
}

/// The event class of an event that sets a whole string.
fn class_of(name: &str) -> u32 {
    if name == "restore" { class::GENERIC } else { class::STRING }
}

/// The event of a field's removal.
fn name_of_field_removal(why: Removal, naming: Naming) -> &'static str {
    match naming {
        Naming::As(name @ ("hdel" | "hexpired")) => name,
        _ if why == Removal::Expired => "hexpired",
        _ => "hdel",
    }
}

/// The event class of an event that stores a whole value.
fn class_of_store(name: &str, kind: Type) -> u32 {
    match name {
        "restore" => class::GENERIC,
        "sortstore" => class::LIST,
        _ => class_of_type(kind),
    }
}

fn class_of_type(of: Type) -> u32 {
    match of {
        Type::String => class::STRING,
        Type::List => class::LIST,
        Type::Set => class::SET,
        Type::SortedSet => class::SORTED_SET,
        Type::Hash => class::HASH,
        Type::Stream => class::STREAM,
        // Of a copy and the like, which have no class of their own.
        Type::Custom(_) => class::GENERIC,
    }
}

/// Event name of a change of a stream; none for changes without an event.
fn name_of(change: StreamChange<'_>, naming: Naming) -> Option<&'static str> {
    Some(match change {
        StreamChange::Add { .. } => "xadd",
        StreamChange::Delete { .. } => "xdel",
        StreamChange::TrimOne { .. } | StreamChange::TrimUpTo { .. } => "xtrim",
        StreamChange::Set { .. } if naming == Naming::As("xsetid") => "xsetid",
        StreamChange::Group { .. } => match naming {
            Naming::As(name @ ("xgroup-create" | "xgroup-setid")) => name,
            _ => return None,
        },
        StreamChange::GroupRemove { .. } => "xgroup-destroy",
        StreamChange::Consumer { active_ms: None, .. } => "xgroup-createconsumer",
        StreamChange::ConsumerRemove { .. } => "xgroup-delconsumer",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutators::hashes::FieldExpiry;
    use crate::{Keyspace, Options, Value};

    /// Names of the events of a change, with all classes wanted.
    fn names(change: impl FnOnce(&mut Handle)) -> Vec<String> {
        let mut handle = Keyspace::new(&Options::default()).attach();
        handle.set_events(u32::MAX);
        handle.enter();
        handle.lock_all();
        change(&mut handle);
        handle.unlock();
        handle.exit();
        let events = handle.take_events();
        assert!(!handle.has_events());
        events
            .iter()
            .map(|event| {
                let fields = event.fields.iter().map(|field| String::from_utf8_lossy(field));
                let fields: String = fields.map(|field| format!(" {field}")).collect();
                format!("{} {}{fields}", event.name, String::from_utf8_lossy(&event.key))
            })
            .collect()
    }

    #[test]
    fn names_follow_from_effects_and_commands() {
        let made = names(|ks| {
            let key = ks.key(b"k");
            ks.put(0, key, Value::Int(1), None);
            ks.name_events(Naming::As("append"));
            let _ = ks.write_range(0, key, 0, b"xy");
            ks.name_events(Naming::ByEffect);
            ks.set_expiry(0, key, Some(i64::MAX));
            ks.remove(0, key);
        });
        assert_eq!(made, ["new k", "set k", "append k", "expire k", "del k"]);
    }

    #[test]
    fn an_emptied_key_is_told_of_last() {
        let made = names(|ks| {
            let key = ks.key(b"h");
            let pairs: [&[u8]; 4] = [b"f", b"1", b"g", b"2"];
            ks.hash_set(0, key, &pairs, FieldExpiry::Clear).unwrap();
            ks.hash_remove(0, key, &[b"f", b"g"]).unwrap();
            ks.event(class::HASH, "later", 0, b"h");
        });
        assert_eq!(made, ["new h", "hset h f g", "hdel h f g", "later h", "del h"]);
    }

    #[test]
    fn nothing_is_noted_that_nobody_wants() {
        let mut handle = Keyspace::new(&Options::default()).attach();
        handle.set_events(class::EXPIRED);
        handle.enter();
        handle.lock_all();
        let key = handle.key(b"k");
        handle.put(0, key, Value::Int(1), None);
        handle.remove(0, key);
        assert!(!handle.has_events());
        handle.put(0, key, Value::Int(1), Some(1));
        assert!(handle.read(0, key).is_none());
        handle.unlock();
        handle.exit();
        assert_eq!(handle.take_events().len(), 1);
    }
}
