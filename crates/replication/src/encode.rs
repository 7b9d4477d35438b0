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
//! | `Custom` of a type unknown to Redis | `REPLCONF capa petrel-members`, `SREM key effect` |
//! | `CopyFrom` | `RENAME`, `COPY`; of a value type `RENAME`, `RESTORE` |
//! | `Store`, `CopyFrom` of such a type | `DEL`; likewise, `SMOVE from key effect` for a copy |
//! | `Aux` of state unknown to Redis | `REPLCONF capa petrel-members`, `ECHO effect` |
//! | `Clear` of all databases, of one | `FLUSHALL`, `FLUSHDB` |
//!
//! Changes of one element become the command of the effect's name; [`super::streams`] has streams.
//! Value types write their changes themselves ([`petrel_keyspace::custom::ValueType::commands`]). A
//! key of a type that Redis does not have is absent on its replicas: its effects are the last
//! argument of a command that changes nothing there, and which Petrel applies
//! ([`petrel_persistence::effects::hide`]) where `REPLCONF` announces it.
//! Every command has the same result on a replica with the primary's state: none fails, and none
//! depends on the time.

use crate::commands::{Arg, Batch, Commands, command, gather};
use crate::frame::HAS_EFFECTS;
use petrel_keyspace::custom::{CommandWriter, type_of_number};
use petrel_keyspace::types::list::End;
use petrel_keyspace::{Effect, HashRef, Published, Removal, StrRef, Type, View};
use petrel_persistence::effects::{hidden, hide, hide_aux};
use petrel_persistence::rdb::Dialect;
use petrel_persistence::value;
use std::ops::ControlFlow;

/// The version of RDB that hashes with expiring fields came with, and so the commands for them.
const FIELDS_EXPIRE_VERSION: u16 = 12;

/// The version of RDB that came with the channels of shards.
const SHARDED_VERSION: u16 = 10;

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

impl Understood {
    /// Whether replicas have no such type of value.
    fn lacks_type(&self, value: View<'_>) -> bool {
        matches!(value.type_of(), Type::Custom(of) if !value::is_of_redis(of, self.version_max))
    }
}

/// Writes the whole form of auxiliary state as commands for servers that load RDB of at most this
/// version; false if Redis has no such state.
pub type WriteAux = fn(&[u8], &[u8], u16, &mut dyn CommandWriter) -> bool;

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
        Commands::command(self, name, args);
    }
}

/// Selects database 0 before commands, if there are any.
struct InFirstDatabase<'c>(&'c mut Commands);

impl CommandWriter for InFirstDatabase<'_> {
    fn command(&mut self, name: &'static str, args: &[&[u8]]) {
        self.0.select(0);
        self.0.command(name, args);
    }
}

/// Writes the effects of a thread as commands.
#[derive(Debug)]
pub struct Encoder {
    pub(crate) commands: Commands,
    pub(crate) understood: Understood,
    write_aux: WriteAux,
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
    pub fn new(understood: Understood, mark: &[u8], write_aux: WriteAux) -> Self {
        Encoder {
            commands: Commands::default(),
            write_aux,
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

    /// Adds the whole form of auxiliary state: former state of this name is gone.
    fn aux(&mut self, name: &[u8], form: &[u8]) {
        self.settle();
        let out = &mut InFirstDatabase(&mut self.commands);
        if !(self.write_aux)(name, form, self.understood.version_max, out) {
            out.command("REPLCONF", &[b"capa", HAS_EFFECTS.as_bytes()]);
            out.command("ECHO", &[&hide_aux(name, form)]);
        }
    }

    /// Adds a message to subscribers: those of replicas get it from these.
    pub fn message(&mut self, message: &Published<'_>) {
        let &Published { db, is_sharded, channel, payload } = message;
        if is_sharded && self.understood.version_max < SHARDED_VERSION {
            return;
        }
        self.settle();
        self.commands.select(db);
        let name = if is_sharded { "SPUBLISH" } else { "PUBLISH" };
        command!(self.commands, name, channel, payload);
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
        let out = match expiry {
            None => self.commands.begin_with(b"*3\r\n$3\r\nSET\r\n"),
            Some(_) => self.commands.begin_with(b"*5\r\n$3\r\nSET\r\n"),
        };
        key.put(out);
        match value {
            StrRef::Bytes(bytes) => bytes.put(out),
            StrRef::Blob(blob) => (&blob[..]).put(out),
            StrRef::Int(n) => n.put(out),
        }
        if let Some(at) = expiry {
            "PXAT".put(out);
            at.put(out);
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
        if !matches!(effect, Effect::Clear | Effect::Aux { .. }) {
            self.commands.select(db);
        }
        self.write(db, effect, continues);
    }

    /// Writes an effect; one that `continues` what stands before it may say nothing more. Every
    /// effect has its arm: one that replicas are not sent would part them from their primary.
    fn write(&mut self, db: u16, effect: &Effect<'_>, continues: bool) {
        let commands = &mut self.commands;
        match *effect {
            Effect::Put { key, value, expiry } => self.put(key, value, expiry),
            Effect::Store { key, value, .. } if self.understood.lacks_type(value) => {
                commands.command("DEL", &[key]);
                self.hide(db, key, effect);
            }
            Effect::Store { key, value, expiry } => self.store(key, value, expiry),
            Effect::CopyFrom { key, from_db, from, value, moved } => match custom(value) {
                Some(value) if self.understood.lacks_type(value) => {
                    self.hide_copy((db, key), (from_db, from), effect);
                }
                Some(value) if !moved || from_db != db => self.store(key, value, value.expiry()),
                _ => self.copy((db, key), (from_db, from), moved),
            },
            Effect::Remove { .. } if continues => {}
            Effect::Remove { key, why } => self.remove(key, why),
            Effect::Expire { key, expiry: Some(at) } => command!(commands, "PEXPIREAT", key, at),
            Effect::Expire { key, expiry: None } => command!(commands, "PERSIST", key),
            Effect::Add { key, delta } => self.add_number(key, delta),
            // It makes the key, should there be none.
            Effect::Write { key, bytes: b"", .. } => command!(commands, "APPEND", key, ""),
            Effect::Write { key, offset, bytes } => {
                command!(commands, "SETRANGE", key, offset, bytes);
            }
            Effect::ListPush { key, end, element } => {
                gather!(commands, push_name(end), key, element);
            }
            Effect::ListPop { key, end } => {
                // The number of elements is written when all of them are known.
                gather!(commands, pop_name(end), key);
                self.popped += 1;
            }
            Effect::ListSet { key, index, element } => {
                command!(commands, "LSET", key, index, element);
            }
            Effect::ListInsert { key, index, element, next } => {
                self.insert(key, index, element, next);
            }
            Effect::ListRemove { key, index } => self.mark_element(key, index),
            Effect::ListTrim { key, from, len } => self.trim(key, from, len),
            Effect::ScorePut { key, member, score } => {
                gather!(commands, "ZADD", key, score, member);
            }
            Effect::ScoreRemove { key, member } => gather!(commands, "ZREM", key, member),
            Effect::MemberAdd { key, member } => gather!(commands, "SADD", key, member),
            Effect::MemberRemove { key, member } => self.remove_member(key, member),
            Effect::FieldPut { key, field, value, expiry } => {
                gather!(commands, "HSET", key, field, value);
                if expiry.is_some() {
                    self.expire_field(key, field, expiry);
                }
            }
            Effect::FieldExpire { key, field, expiry } => self.expire_field(key, field, expiry),
            Effect::FieldRemove { key, field, .. } => gather!(commands, "HDEL", key, field),
            Effect::Stream { key, change } => self.stream(key, change),
            Effect::Custom { key, of, change } => {
                let is_known = value::is_of_redis(of, self.understood.version_max);
                match type_of_number(of).and_then(|of| of.commands) {
                    Some(write) if is_known => write(key, change, commands),
                    _ => self.hide(db, key, effect),
                }
            }
            Effect::Aux { name, bytes } => self.aux(name, bytes),
            Effect::Clear => self.clear_database(db),
            Effect::Swap { with } => command!(commands, "SWAPDB", db, with),
        }
    }

    fn remove(&mut self, key: &[u8], why: Removal) {
        let is_own = matches!(why, Removal::Expired | Removal::Evicted);
        // Valkey's default for keys that it expires or evicts.
        let unlinks = is_own && self.understood.dialect == Dialect::Valkey;
        command!(self.commands, if unlinks { "UNLINK" } else { "DEL" }, key);
    }

    fn add_number(&mut self, key: &[u8], delta: i64) {
        match delta {
            1 => command!(self.commands, "INCR", key),
            -1 => command!(self.commands, "DECR", key),
            _ => command!(self.commands, "INCRBY", key, delta),
        }
    }

    /// A member that a replica could take for effects is written twice, as no client writes it.
    fn remove_member(&mut self, key: &[u8], member: &[u8]) {
        match hidden(member) {
            Some(_) => self.commands.command("SREM", &[key, member, member]),
            None => gather!(self.commands, "SREM", key, member),
        }
    }

    /// Writes an effect for replicas that know the type of its value; none at others.
    fn hide(&mut self, db: u16, key: &[u8], effect: &Effect<'_>) {
        self.announce_effects();
        self.commands.command("SREM", &[key, &hide(db, effect)]);
    }

    /// Likewise a copy of such a value.
    fn hide_copy(
        &mut self,
        (db, key): (u16, &[u8]),
        (from_db, from): (u16, &[u8]),
        effect: &Effect<'_>,
    ) {
        self.commands.command("DEL", &[key]);
        self.announce_effects();
        self.commands.select(from_db);
        self.commands.command("SMOVE", &[from, key, &hide(db, effect)]);
    }

    /// Writes the command by which a replica knows that members of this transaction are effects. It
    /// makes a transaction of the commit.
    fn announce_effects(&mut self) {
        command!(self.commands, "REPLCONF", "capa", HAS_EFFECTS);
    }

    /// The other key is removed by an effect of its own unless `RENAME` says it all.
    fn copy(&mut self, (db, key): (u16, &[u8]), (from_db, from): (u16, &[u8]), moved: bool) {
        if moved && from_db == db {
            return command!(self.commands, "RENAME", from, key);
        }
        self.commands.select(from_db);
        command!(self.commands, "COPY", from, key, "DB", db, "REPLACE");
    }

    /// A replica that knows nothing of it keeps the field until the primary removes it.
    fn expire_field(&mut self, key: &[u8], field: &[u8], expiry: Option<i64>) {
        if self.understood.version_max < FIELDS_EXPIRE_VERSION {
            return;
        }
        match expiry {
            Some(at) => command!(self.commands, "HPEXPIREAT", key, at, "FIELDS", "1", field),
            None => command!(self.commands, "HPERSIST", key, "FIELDS", "1", field),
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
        match value::dump_within(view, 0, dialect, value::least_common(version_max)) {
            Ok(payload) => {
                let (at, payload) = (expiry.unwrap_or(0), &payload[..]);
                command!(self.commands, "RESTORE", key, at, payload, "REPLACE", "ABSTTL");
            }
            Err(error) => debug_assert!(false, "{error}"),
        }
    }

    /// Redis and Valkey cannot read each other's payloads of a hash with expiring fields.
    fn store_fields(&mut self, key: &[u8], hash: HashRef<'_>, expiry: Option<i64>) {
        command!(self.commands, "DEL", key);
        let commands = &mut self.commands;
        let _ = hash.try_each(&mut |field| {
            let (mut name, mut value) = (itoa::Buffer::new(), itoa::Buffer::new());
            let (name, value) = (field.name.bytes(&mut name), field.value.bytes(&mut value));
            gather!(commands, "HSET", key, name, value);
            ControlFlow::Continue(())
        });
        let _ = hash.try_each(&mut |field| {
            if field.expiry.is_some() {
                self.expire_field(key, field.name.bytes(&mut itoa::Buffer::new()), field.expiry);
            }
            ControlFlow::Continue(())
        });
        if let Some(at) = expiry {
            command!(self.commands, "PEXPIREAT", key, at);
        }
    }

    fn insert(&mut self, key: &[u8], index: usize, element: &[u8], next: Option<&[u8]>) {
        let Some(next) = next.filter(|_| index > 0) else {
            let end = if next.is_none() { End::Back } else { End::Front };
            return gather!(self.commands, push_name(end), key, element);
        };
        command!(self.commands, "LSET", key, index, &self.mark[..]);
        command!(self.commands, "LINSERT", key, "BEFORE", &self.mark[..], element);
        command!(self.commands, "LSET", key, index + 1, next);
    }

    /// With nothing left the key is removed, which is an effect of its own.
    fn trim(&mut self, key: &[u8], from: usize, len: usize) {
        if len > 0 {
            command!(self.commands, "LTRIM", key, from, from + len - 1);
        }
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
        command!(self.commands, "LSET", key, place, &self.mark[..]);
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
            return command!(self.commands, "FLUSHALL");
        }
        let databases = u32::from(self.understood.databases).max(1);
        for db in u32::from(first)..u32::from(first) + u32::from(count) {
            self.commands.select((db % databases) as u16);
            command!(self.commands, "FLUSHDB");
        }
    }

    fn settle_list(&mut self) {
        if self.popped > 0 {
            let count = std::mem::take(&mut self.popped);
            if count > 1 {
                self.commands.end_with(count);
            }
            self.commands.end_gathering();
        }
        let Marked { count, .. } = std::mem::take(&mut self.marked);
        if count > 0 {
            command!(self.commands, "LREM", &self.marked_key[..], count, &self.mark[..]);
        }
    }
}

/// A copied value, if it is a value type's: Redis cannot copy most of these.
fn custom(value: Option<View<'_>>) -> Option<View<'_>> {
    value.filter(|value| matches!(value.type_of(), Type::Custom(_)))
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
