//! Applies effects of a log, a replica's primary or a peer.

use crate::handle::Handle;
use crate::mutators::hashes::FieldExpiry;
use crate::mutators::strings::AddError;
use crate::state::effect::Effect;
use crate::state::order::Origin;
use crate::structures::form::WrongType;
use crate::structures::key_hash::Key;
use crate::structures::value::{StrRef, Value};
use std::fmt;
use std::mem::replace;

/// An effect that does not fit the present state, which is not the one in which it was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Misfit {
    /// The key; none for an effect of whole databases.
    pub key: Option<Vec<u8>>,
    /// Name of the effect's variant of [`Effect`].
    pub effect: String,
    /// Reason.
    pub why: &'static str,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.effect)?;
        if let Some(key) = &self.key {
            write!(f, " of key '{}'", key.escape_ascii())?;
        }
        write!(f, " does not fit: {}", self.why)
    }
}

impl std::error::Error for Misfit {}

/// Reason why an effect does not fit.
type Why = &'static str;

const WRONG_TYPE: Why = "the key holds a value of another type";
const NO_AUX: Why = "auxiliary state is not the keyspace's";
const NO_KEY: Why = "there is no such key";
const NO_ELEMENT: Why = "the list has no such element";

impl From<WrongType> for Why {
    fn from(_: WrongType) -> Self {
        WRONG_TYPE
    }
}

impl Handle {
    /// Makes exactly the change that an effect describes, through the same mutators: nothing
    /// expires meanwhile and no event is published. Sinks get it with its `origin`; `WATCH`,
    /// client-side caching and blocked clients are notified as for any change. The caller holds the
    /// key's stripe and that of its [`Effect::source`], or everything for an effect of whole
    /// databases.
    ///
    /// Adding a present element or removing an absent one is no error and changes nothing.
    ///
    /// # Errors
    /// If the effect does not fit the present state; nothing has changed then.
    /// [`Effect::Aux`] never fits: the keyspace has no auxiliary state, its host loads it.
    pub fn apply(&mut self, db: u16, effect: &Effect<'_>, origin: Origin) -> Result<(), Misfit> {
        let applied = self.on_behalf(origin, |handle| match effect.key() {
            Some(bytes) => handle.apply_to_key(db, handle.key(bytes), effect),
            None => handle.apply_to_databases(db, effect),
        });
        applied.map_err(|why| {
            let text = format!("{effect:?}");
            let name = text.split([' ', '{']).next().unwrap_or_default();
            Misfit { key: effect.key().map(Into::into), effect: name.into(), why }
        })
    }

    /// Makes changes of another origin, by mutators or [`Handle::build`]: nothing expires
    /// meanwhile, no event is published, and sinks get their effects with this origin.
    pub fn on_behalf<T>(&mut self, origin: Origin, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = replace(&mut self.observers.origin, origin);
        // Nothing has expired at this time.
        let now_ms = replace(&mut self.now_ms, 0);
        let wanted = self.mute_events();
        let changed = change(self);
        self.unmute_events(wanted);
        (self.observers.origin, self.now_ms) = (before, now_ms);
        changed
    }

    /// Sets the origin with which sinks get this thread's changes from now on. Its clock and its
    /// events are not affected.
    pub fn set_origin(&mut self, origin: Origin) {
        self.observers.origin = origin;
    }

    fn apply_to_databases(&mut self, db: u16, effect: &Effect<'_>) -> Result<(), Why> {
        let databases = self.keyspace().databases();
        match *effect {
            Effect::Clear if db < databases => drop(self.clear(Some(db))),
            Effect::Swap { with } if db < databases && with < databases => self.swap(db, with),
            Effect::Aux { .. } => return Err(NO_AUX),
            _ => return Err("there is no such database"),
        }
        Ok(())
    }

    fn apply_copy(
        &mut self,
        (db, key): (u16, Key<'_>),
        (from_db, from): (u16, &[u8]),
        moved: bool,
    ) -> Result<(), Why> {
        let from = self.key(from);
        if from_db >= self.keyspace().databases() {
            return Err("there is no such database");
        }
        if !self.holds(from.hash) {
            return Err("the stripe of the other key is not held");
        }
        let found = match moved {
            true => self.rename(from_db, from, db, key),
            false => self.copy(from_db, from, db, key),
        };
        found.then_some(()).ok_or(NO_KEY)
    }

    fn apply_to_key(&mut self, db: u16, key: Key<'_>, effect: &Effect<'_>) -> Result<(), Why> {
        match *effect {
            Effect::Put { value, expiry, .. } => {
                let value = match value {
                    StrRef::Bytes(bytes) => Value::from_text(bytes),
                    StrRef::Int(n) => Value::Int(n),
                    StrRef::Blob(blob) => Value::Blob(blob.clone()),
                };
                self.put(db, key, value, expiry);
            }
            Effect::Store { value, expiry, .. } => self.store_copy(db, key, value, expiry),
            Effect::CopyFrom { from_db, from, moved, .. } => {
                self.apply_copy((db, key), (from_db, from), moved)?;
            }
            Effect::Remove { why, .. } => {
                if let Some((at, entry)) = self.find(db, key) {
                    self.remove_at(db, key, at, entry, why);
                }
            }
            Effect::Expire { expiry, .. } => {
                self.set_expiry(db, key, expiry).then_some(()).ok_or(NO_KEY)?;
            }
            Effect::Add { delta, .. } => {
                self.add(db, key, delta).map_err(|error| match error {
                    AddError::WrongType => WRONG_TYPE,
                    AddError::NotAnInteger => "the value is not an integer",
                    AddError::Overflow => "the sum is out of range",
                })?;
            }
            Effect::Write { offset, bytes, .. } => {
                offset.checked_add(bytes.len()).ok_or("the offset is out of range")?;
                self.write_range(db, key, offset, bytes)?;
            }
            Effect::ListPush { .. }
            | Effect::ListPop { .. }
            | Effect::ListSet { .. }
            | Effect::ListInsert { .. }
            | Effect::ListRemove { .. }
            | Effect::ListTrim { .. } => self.apply_to_list(db, key, effect)?,
            Effect::Stream { change, .. } => self.apply_stream(db, key, change)?,
            Effect::Custom { of, change, .. } => self.apply_custom(db, key, of, change)?,
            _ => self.apply_to_element(db, key, effect)?,
        }
        Ok(())
    }

    /// Applies effects of members and fields.
    fn apply_to_element(&mut self, db: u16, key: Key<'_>, effect: &Effect<'_>) -> Result<(), Why> {
        match *effect {
            Effect::ScorePut { member, score, .. } => {
                self.sorted_set_change(db, key, member, score, |_| Some(score))?;
            }
            Effect::ScoreRemove { member, .. } => {
                self.sorted_set_remove(db, key, member)?;
            }
            Effect::MemberAdd { member, .. } => {
                self.set_add(db, key, &[member])?;
            }
            Effect::MemberRemove { member, .. } => {
                self.set_remove(db, key, &[member])?;
            }
            Effect::FieldPut { field, value, expiry, .. } => {
                let expiry = expiry.map_or(FieldExpiry::Clear, FieldExpiry::At);
                self.hash_set(db, key, &[field, value], expiry)?;
            }
            Effect::FieldExpire { field, expiry, .. } => {
                let is_there = self.hash_set_expiry(db, key, field, expiry)?;
                is_there.then_some(()).ok_or("the hash has no such field")?;
            }
            Effect::FieldRemove { field, .. } => {
                self.hash_remove(db, key, &[field])?;
            }
            _ => {}
        }
        Ok(())
    }

    fn apply_to_list(&mut self, db: u16, key: Key<'_>, effect: &Effect<'_>) -> Result<(), Why> {
        if let Effect::ListPush { end, element, .. } = *effect {
            self.list_push(db, key, end, &[element])?;
            return Ok(());
        }
        let mut list = self.list_mut(db, key)?.ok_or(NO_KEY)?;
        let len = list.len();
        let within = |index: usize| if index < len { Ok(index) } else { Err(NO_ELEMENT) };
        match *effect {
            Effect::ListPop { end, .. } => {
                list.pop(end, 1, |_| ());
            }
            Effect::ListSet { index, element, .. } => list.set(within(index)?, element),
            Effect::ListInsert { index, element, .. } if index <= len => {
                list.insert(index, element)
            }
            Effect::ListRemove { index, .. } => list.remove(within(index)?),
            Effect::ListTrim { from, len: kept, .. } if from <= len && kept <= len - from => {
                list.trim(from..from + kept);
            }
            _ => return Err(NO_ELEMENT),
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
