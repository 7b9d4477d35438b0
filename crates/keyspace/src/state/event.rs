//! Keyspace events, queued until the end of their command (`observers/events.rs`).

use std::cell::{Cell, RefCell};

/// Event classes, one bit each, with the letters of `notify-keyspace-events`.
pub mod class {
    /// `g`: commands of keys of any type.
    pub const GENERIC: u32 = 1 << 0;
    /// `$`: strings.
    pub const STRING: u32 = 1 << 1;
    /// `l`: lists.
    pub const LIST: u32 = 1 << 2;
    /// `s`: sets.
    pub const SET: u32 = 1 << 3;
    /// `h`: hashes.
    pub const HASH: u32 = 1 << 4;
    /// `z`: sorted sets.
    pub const SORTED_SET: u32 = 1 << 5;
    /// `x`: keys that expired.
    pub const EXPIRED: u32 = 1 << 6;
    /// `e`: keys that were evicted.
    pub const EVICTED: u32 = 1 << 7;
    /// `t`: streams.
    pub const STREAM: u32 = 1 << 8;
    /// `m`: reads of missing keys.
    pub const MISS: u32 = 1 << 9;
    /// `n`: new keys.
    pub const NEW: u32 = 1 << 10;
    /// `o`: keys with their whole value replaced.
    pub const OVERWRITTEN: u32 = 1 << 11;
    /// `c`: keys with a changed type.
    pub const TYPE_CHANGED: u32 = 1 << 12;
    /// `d`: types that are modules in Redis.
    pub const MODULE: u32 = 1 << 13;
    /// `a`: arrays.
    pub const ARRAY: u32 = 1 << 14;
    /// Not a class: record the names of hash fields too.
    pub const FIELDS: u32 = 1 << 31;
}

/// An event of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Event {
    /// Class: one bit of [`class`].
    pub class: u32,
    /// Name of the event, such as `lpush`.
    pub name: &'static str,
    /// The database.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// Fields of a hash, if [`class::FIELDS`] is set.
    pub fields: Vec<Box<[u8]>>,
}

/// Events queued until the end of their command.
#[derive(Default)]
pub(crate) struct Events {
    /// Bits of [`class`]: only these are recorded.
    pub(crate) wanted: Cell<u32>,
    /// Whether events are queued.
    pub(crate) pending: Cell<bool>,
    /// Event names of the running command.
    pub(crate) naming: Cell<Naming>,
    pub(crate) queue: RefCell<Vec<Event>>,
    /// Emptied keys. Their `del` events follow the other events.
    pub(crate) emptied: RefCell<Vec<(u16, Box<[u8]>)>>,
}

/// Event names chosen by a command.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Naming {
    /// Names from the effects.
    #[default]
    ByEffect,
    /// Changes of values get this name.
    As(&'static str),
    /// The command publishes all of its events.
    Stated,
}
