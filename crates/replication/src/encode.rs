//! Effects written as the commands that Redis propagates for such changes.
//!
//! | effect | command |
//! |---|---|
//! | `Put` | `SET key value [PXAT ms]` |
//! | `Store` | `RESTORE key ms payload REPLACE ABSTTL`; of a hash with expiring fields, `DEL` and commands that rebuild it |
//! | `Remove` | `DEL`; in Valkey's dialect `UNLINK` of expired and evicted keys |
//! | `Add`, `Write` | `INCR`, `DECR`, `INCRBY`; `SETRANGE` |
//! | `ListSet`, `ListTrim` | `LSET`, `LTRIM` |
//! | `ListInsert` in the middle | `LSET index mark`, `LINSERT BEFORE mark element`, `LSET index+1 neighbour` |
//! | `ListRemove` | `LSET index mark` for each, `LREM count mark` |
//! | `Custom` of a type that Redis does not have | `SREM key effect` |
//! | `Store`, `CopyFrom` of such a type | `DEL`; `SREM key effect`, `SMOVE from key effect` |
//! | `Clear` of all databases, of one | `FLUSHALL`, `FLUSHDB` |
//!
//! Changes of one element become the command of the effect's name; [`super::streams`] has streams.
//! Value types write their changes themselves ([`petrel_keyspace::custom::ValueType::commands`]). A
//! key of a type that Redis does not have is absent on its replicas: its effects are the last
//! argument of a command that changes nothing there, and which Petrel applies
//! ([`petrel_persistence::effects::hide`]).
//! Every command has the same result on a replica with the primary's state: none fails, and none
//! depends on the time.

use crate::commands::{Batch, Commands, put_arg, put_number};
use petrel_keyspace::custom::{CommandWriter, type_of_number};
use petrel_keyspace::types::list::End;
use petrel_keyspace::{Effect, HashRef, Published, Removal, StrRef, Type, View};
use petrel_persistence::effects::hide;
use petrel_persistence::rdb::Dialect;
use petrel_persistence::value;
use std::ops::ControlFlow;

/// The version of RDB that hashes with expiring fields came with, and so the commands for them.
const FIELDS_EXPIRE_VERSION: u16 = 12;

/// The version of RDB that came with functions, and with the channels of shards.
const FUNCTIONS_VERSION: u16 = 10;

/// Capabilities of the replicas.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Understood {
    /// Dialect of `RESTORE` payloads.
    pub dialect: Dialect,
    /// The newest version of RDB that they load: `rdb-version`.
    pub version_max: u16,
    /// Databases: a flush of all of them is one command.
    pub databases: u16,
}

/// Elements of a list that are removed together.
#[derive(Clone, Copy, Debug, Default)]
struct Marked {
    count: usize,
    /// The index of the last one when it was removed.
    last: usize,
    /// Each is behind the one before.
    ascends: bool,
}

impl CommandWriter for Commands {
    fn command(&mut self, name: &'static str, args: &[&[u8]]) {
        Commands::command(self, &[name], args);
    }
}

/// Writes the effects of a thread as commands.
#[derive(Debug)]
pub struct Encoder {
    pub(crate) commands: Commands,
    pub(crate) understood: Understood,
    /// An element that no list has: it marks a place for the next command.
    mark: Box<[u8]>,
    marked: Marked,
    /// Key of the list with marked elements.
    marked_key: Vec<u8>,
    /// Elements that are popped from an end of the list.
    popped: usize,
    /// Databases that are flushed, from the first one on.
    cleared: (u16, u16),
}

impl Encoder {
    /// An encoder for replicas that understand so much; `mark` is an element that no client can
    /// guess.
    pub fn new(understood: Understood, mark: &[u8]) -> Self {
        Encoder {
            commands: Commands::default(),
            understood,
            mark: mark.into(),
            marked: Marked::default(),
            marked_key: Vec::new(),
            popped: 0,
            cleared: (0, 0),
        }
    }

    /// Whether nothing has been added since the last commit.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Adds an effect on a database.
    #[inline]
    pub fn add(&mut self, db: u16, effect: &Effect<'_>) {
        if let Effect::Put { key, value, expiry } = *effect {
            self.settle();
            self.commands.select(db);
            self.put(key, value, expiry);
        } else {
            self.add_other(db, effect);
        }
    }

    /// Adds the sources of all libraries of functions: others are gone.
    pub fn functions<'a>(&mut self, sources: impl Iterator<Item = &'a [u8]>) {
        if self.understood.version_max < FUNCTIONS_VERSION {
            return;
        }
        self.settle();
        self.commands.select(0);
        self.commands.command(&["FUNCTION", "FLUSH"], &[]);
        sources.for_each(|source| self.commands.command(&["FUNCTION", "LOAD"], &[source]));
    }

    /// Adds a message to subscribers: those of replicas get it from these.
    pub fn message(&mut self, message: &Published<'_>) {
        let &Published { db, is_sharded, channel, payload } = message;
        if is_sharded && self.understood.version_max < FUNCTIONS_VERSION {
            return;
        }
        self.settle();
        self.commands.select(db);
        let name = if is_sharded { "SPUBLISH" } else { "PUBLISH" };
        self.commands.command(&[name], &[channel, payload]);
    }

    /// The commands of the effects since the last commit; none if there is nothing to be said.
    /// They are to be taken or copied before the next effect.
    #[inline]
    pub fn finish(&mut self) -> Option<Batch<'_>> {
        self.settle();
        if self.commands.is_empty() {
            return None;
        }
        Some(self.commands.finish())
    }

    /// Begins the next commit.
    #[inline]
    pub fn clear(&mut self) {
        self.commands.clear();
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: StrRef<'_>, expiry: Option<i64>) {
        let out = self.commands.begin(&["SET"], if expiry.is_some() { 5 } else { 3 });
        put_arg(out, key);
        match value {
            StrRef::Bytes(bytes) => put_arg(out, bytes),
            StrRef::Blob(blob) => put_arg(out, blob),
            StrRef::Int(n) => put_number(out, n),
        }
        if let Some(at) = expiry {
            put_arg(out, b"PXAT");
            put_number(out, at);
        }
    }

    fn add_other(&mut self, db: u16, effect: &Effect<'_>) {
        if !matches!(effect, Effect::Clear) {
            self.settle_clears();
        }
        let continues = match *effect {
            Effect::ListPop { key, end } => self.gathers(db, pop_name(end), key),
            Effect::ListRemove { key, index } => self.continues_removal(db, key, index),
            Effect::Remove { key, why: Removal::Emptied } => self.is_emptied(db, key),
            _ => false,
        };
        if !continues {
            self.settle_list();
        }
        if !matches!(effect, Effect::Clear | Effect::Functions { .. }) {
            self.commands.select(db);
        }
        self.write(db, effect, continues);
    }

    /// Writes an effect; one that `continues` what stands before it may say nothing more. Every
    /// effect has its arm: one that replicas are not sent would part them from their primary.
    fn write(&mut self, db: u16, effect: &Effect<'_>, continues: bool) {
        let mut digits = itoa::Buffer::new();
        let commands = &mut self.commands;
        match *effect {
            Effect::Put { key, value, expiry } => self.put(key, value, expiry),
            Effect::Store { key, value, .. } if is_unknown_to_redis(value) => {
                commands.command(&["DEL"], &[key]);
                commands.command(&["SREM"], &[key, &hide(db, effect)]);
            }
            Effect::Store { key, value, expiry } => self.store(key, value, expiry),
            Effect::CopyFrom { key, from_db, from, of: Some(of), .. }
                if !value::is_of_redis(of) =>
            {
                commands.command(&["DEL"], &[key]);
                commands.select(from_db);
                commands.command(&["SMOVE"], &[from, key, &hide(db, effect)]);
            }
            Effect::CopyFrom { key, from_db, from, moved, .. } => {
                self.copy((db, key), (from_db, from), moved);
            }
            Effect::Remove { .. } if continues => {}
            Effect::Remove { key, why } => {
                let is_own = matches!(why, Removal::Expired | Removal::Evicted);
                // Valkey's default for keys that it expires or evicts.
                let unlinks = is_own && self.understood.dialect == Dialect::Valkey;
                commands.command(&[if unlinks { "UNLINK" } else { "DEL" }], &[key]);
            }
            Effect::Expire { key, expiry: Some(at) } => {
                commands.command(&["PEXPIREAT"], &[key, digits.format(at).as_bytes()]);
            }
            Effect::Expire { key, expiry: None } => commands.command(&["PERSIST"], &[key]),
            Effect::Add { key, delta: 1 } => commands.command(&["INCR"], &[key]),
            Effect::Add { key, delta: -1 } => commands.command(&["DECR"], &[key]),
            Effect::Add { key, delta } => {
                commands.command(&["INCRBY"], &[key, digits.format(delta).as_bytes()]);
            }
            // It makes the key, should there be none.
            Effect::Write { key, bytes: b"", .. } => commands.command(&["APPEND"], &[key, b""]),
            Effect::Write { key, offset, bytes } => {
                let offset = digits.format(offset).as_bytes();
                commands.command(&["SETRANGE"], &[key, offset, bytes]);
            }
            Effect::ListPush { key, end, element } => {
                commands.gather(push_name(end), key, &[element])
            }
            Effect::ListPop { key, end } => {
                // The number of elements is written when all of them are known.
                commands.gather(pop_name(end), key, &[]);
                self.popped += 1;
            }
            Effect::ListSet { key, index, element } => {
                commands.command(&["LSET"], &[key, digits.format(index).as_bytes(), element]);
            }
            Effect::ListInsert { key, index, element, next } => {
                self.insert(key, index, element, next);
            }
            Effect::ListRemove { key, index } => self.mark_element(key, index),
            Effect::ListTrim { key, from, len } => self.trim(key, from, len),
            Effect::ScorePut { key, member, score } => {
                // The shortest text that is read as the same number.
                let mut digits = ryu::Buffer::new();
                commands.gather("ZADD", key, &[digits.format(score).as_bytes(), member]);
            }
            Effect::ScoreRemove { key, member } => commands.gather("ZREM", key, &[member]),
            Effect::MemberAdd { key, member } => commands.gather("SADD", key, &[member]),
            Effect::MemberRemove { key, member } => commands.gather("SREM", key, &[member]),
            Effect::FieldPut { key, field, value, expiry } => {
                commands.gather("HSET", key, &[field, value]);
                if expiry.is_some() {
                    self.expire_field(key, field, expiry);
                }
            }
            Effect::FieldExpire { key, field, expiry } => self.expire_field(key, field, expiry),
            Effect::FieldRemove { key, field, .. } => commands.gather("HDEL", key, &[field]),
            Effect::Stream { key, change } => self.stream(key, change),
            Effect::Custom { key, of, change } => {
                match type_of_number(of).and_then(|of| of.commands) {
                    Some(write) => write(key, change, commands),
                    None => commands.command(&["SREM"], &[key, &hide(db, effect)]),
                }
            }
            Effect::Functions { sources } => self.functions(sources.iter().copied()),
            Effect::Clear => self.clear_database(db),
            Effect::Swap { with } => {
                let mut more = itoa::Buffer::new();
                let databases = [digits.format(db).as_bytes(), more.format(with).as_bytes()];
                commands.command(&["SWAPDB"], &databases);
            }
        }
    }

    /// The other key is removed by an effect of its own unless `RENAME` says it all.
    fn copy(&mut self, (db, key): (u16, &[u8]), (from_db, from): (u16, &[u8]), moved: bool) {
        if moved && from_db == db {
            return self.commands.command(&["RENAME"], &[from, key]);
        }
        let mut digits = itoa::Buffer::new();
        let to_db = digits.format(db).as_bytes();
        self.commands.select(from_db);
        self.commands.command(&["COPY"], &[from, key, b"DB", to_db, b"REPLACE"]);
    }

    /// A replica that knows nothing of it keeps the field until the primary removes it.
    fn expire_field(&mut self, key: &[u8], field: &[u8], expiry: Option<i64>) {
        if self.understood.version_max < FIELDS_EXPIRE_VERSION {
            return;
        }
        match expiry {
            Some(at) => {
                let mut digits = itoa::Buffer::new();
                let at = digits.format(at).as_bytes();
                self.commands.command(&["HPEXPIREAT"], &[key, at, b"FIELDS", b"1", field]);
            }
            None => self.commands.command(&["HPERSIST"], &[key, b"FIELDS", b"1", field]),
        }
    }

    fn store(&mut self, key: &[u8], view: View<'_>, expiry: Option<i64>) {
        let hash = (view.type_of() == Type::Hash).then(|| view.hash(0).ok()).flatten();
        if let Some(hash) = hash.filter(|hash| hash.earliest_expiry().is_some()) {
            return self.store_fields(key, hash, expiry);
        }
        let Understood { dialect, version_max, .. } = self.understood;
        // All that the value has: what expires is removed by effects of its own. It is a value of
        // the keyspace, so that its payload can be made.
        match value::dump_within(view, 0, dialect, version_max) {
            Ok(payload) => {
                let mut digits = itoa::Buffer::new();
                let at = digits.format(expiry.unwrap_or(0)).as_bytes();
                let args = [key, at, &payload, b"REPLACE", b"ABSTTL"];
                self.commands.command(&["RESTORE"], &args);
            }
            Err(error) => debug_assert!(false, "{error}"),
        }
    }

    /// Redis and Valkey cannot read each other's payloads of a hash with expiring fields.
    fn store_fields(&mut self, key: &[u8], hash: HashRef<'_>, expiry: Option<i64>) {
        self.commands.command(&["DEL"], &[key]);
        let commands = &mut self.commands;
        let _ = hash.try_each(&mut |field| {
            let (mut name, mut value) = (itoa::Buffer::new(), itoa::Buffer::new());
            let pair = [field.name.bytes(&mut name), field.value.bytes(&mut value)];
            commands.gather("HSET", key, &pair);
            ControlFlow::Continue(())
        });
        let _ = hash.try_each(&mut |field| {
            if field.expiry.is_some() {
                self.expire_field(key, field.name.bytes(&mut itoa::Buffer::new()), field.expiry);
            }
            ControlFlow::Continue(())
        });
        if let Some(at) = expiry {
            let mut digits = itoa::Buffer::new();
            self.commands.command(&["PEXPIREAT"], &[key, digits.format(at).as_bytes()]);
        }
    }

    fn insert(&mut self, key: &[u8], index: usize, element: &[u8], next: Option<&[u8]>) {
        let Some(next) = next.filter(|_| index > 0) else {
            let end = if next.is_none() { End::Back } else { End::Front };
            return self.commands.gather(push_name(end), key, &[element]);
        };
        let (mut digits, mut more) = (itoa::Buffer::new(), itoa::Buffer::new());
        let at = digits.format(index).as_bytes();
        self.commands.command(&["LSET"], &[key, at, &self.mark]);
        self.commands.command(&["LINSERT"], &[key, b"BEFORE", &self.mark, element]);
        let behind = more.format(index + 1).as_bytes();
        self.commands.command(&["LSET"], &[key, behind, next]);
    }

    /// With nothing left the key is removed, which is an effect of its own.
    fn trim(&mut self, key: &[u8], from: usize, len: usize) {
        if len == 0 {
            return;
        }
        let (mut digits, mut more) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (from, last) = (digits.format(from), more.format(from + len - 1));
        self.commands.command(&["LTRIM"], &[key, from.as_bytes(), last.as_bytes()]);
    }

    /// Whether the removal of a list element joins the marked ones. All marked elements are still
    /// in the list, so the index is that before the first removal.
    fn continues_removal(&self, db: u16, key: &[u8], index: usize) -> bool {
        let Marked { count, last, ascends } = self.marked;
        let is_same = count > 0 && self.marked_key == key && self.commands.is_at(db);
        is_same && (count == 1 || ascends == (index >= last))
    }

    fn mark_element(&mut self, key: &[u8], index: usize) {
        let Marked { count, last, .. } = self.marked;
        let ascends = count > 0 && index >= last;
        let place = if ascends { index + count } else { index };
        if count == 0 {
            self.marked_key.clear();
            self.marked_key.extend_from_slice(key);
        }
        self.marked = Marked { count: count + 1, last: index, ascends };
        let mut digits = itoa::Buffer::new();
        self.commands.command(&["LSET"], &[key, digits.format(place).as_bytes(), &self.mark]);
    }

    /// Whether the last removal emptied the key, so that a replica has removed it. A hash may hold
    /// more: expired fields.
    fn is_emptied(&self, db: u16, key: &[u8]) -> bool {
        self.marked.count > 0 && self.marked_key == key && self.commands.is_at(db)
            || ["SREM", "ZREM", "LPOP", "RPOP"].iter().any(|name| self.gathers(db, name, key))
    }

    fn gathers(&self, db: u16, name: &str, key: &[u8]) -> bool {
        self.commands.is_at(db) && self.commands.gathers(name, key)
    }

    fn clear_database(&mut self, db: u16) {
        let (first, count) = self.cleared;
        let databases = u32::from(self.understood.databases).max(1);
        let next = (u32::from(first) + u32::from(count)) % databases;
        // Each of them once: another round is another command.
        if count > 0 && u32::from(count) < databases && u32::from(db) == next {
            self.cleared = (first, count + 1);
        } else {
            self.settle_clears();
            self.cleared = (db, 1);
        }
    }

    /// Completes what more effects could have been part of.
    #[inline]
    fn settle(&mut self) {
        if self.cleared.1 > 0 {
            self.settle_clears();
        }
        if self.popped + self.marked.count > 0 {
            self.settle_list();
        }
    }

    fn settle_clears(&mut self) {
        let (first, count) = std::mem::take(&mut self.cleared);
        if count > 1 && count == self.understood.databases {
            // It names none, but tools and tests that read a stream expect the client's before it.
            self.commands.select(first);
            return self.commands.command(&["FLUSHALL"], &[]);
        }
        let databases = u32::from(self.understood.databases).max(1);
        for db in u32::from(first)..u32::from(first) + u32::from(count) {
            self.commands.select((db % databases) as u16);
            self.commands.command(&["FLUSHDB"], &[]);
        }
    }

    fn settle_list(&mut self) {
        if self.popped > 0 {
            let count = std::mem::take(&mut self.popped);
            if count > 1 {
                self.commands.end_with(itoa::Buffer::new().format(count).as_bytes());
            }
            self.commands.end_gathering();
        }
        let Marked { count, .. } = std::mem::take(&mut self.marked);
        if count > 0 {
            let mut digits = itoa::Buffer::new();
            let count = digits.format(count).as_bytes();
            self.commands.command(&["LREM"], &[&self.marked_key, count, &self.mark]);
        }
    }
}

fn is_unknown_to_redis(value: View<'_>) -> bool {
    matches!(value.type_of(), Type::Custom(of) if !value::is_of_redis(of))
}

fn push_name(end: End) -> &'static str {
    if end == End::Front { "LPUSH" } else { "RPUSH" }
}

fn pop_name(end: End) -> &'static str {
    if end == End::Front { "LPOP" } else { "RPOP" }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
