//! Effects as they stand in a record.
//!
//! ```text
//! effect  +------+----------+-------+-----+-- ... --+
//!         | kind | database | order | key | what    |
//!         +------+----------+-------+-----+-- ... --+
//! kind       lowest 6 bits: which effect; 0x40: it has its optional part; 0x80: the database follows, which is that of the effect before
//!            else, and at first 0
//! order      difference to the order of the effect before
//! ```

use super::number::{Bytes, put, put_bytes, put_signed};
use super::{Malformed, old_kinds};
use crate::rdb::{Dialect, Writer};
use crate::value::{NOTHING_EXPIRED, feed, form};
use petrel_keyspace::custom::{CustomChange, TypeNumber};
use petrel_keyspace::types::list::End;
use petrel_keyspace::types::stream::{StreamChange, StreamId};
use petrel_keyspace::{Effect, Order, Removal, StrRef};

/// Flag of the kind: the effect has its optional part.
const WITH: u8 = 0x40;
/// Flag of the kind: the database follows.
const DATABASE: u8 = 0x80;

/// Kinds of effects.
mod kind {
    pub const PUT: u8 = 1;
    pub const PUT_INT: u8 = 2;
    pub const STORE: u8 = 3;
    pub const REMOVE: u8 = 4;
    pub const EXPIRE: u8 = 5;
    pub const ADD: u8 = 6;
    pub const WRITE: u8 = 7;
    pub const SCORE_PUT: u8 = 8;
    pub const SCORE_REMOVE: u8 = 9;
    pub const MEMBER_ADD: u8 = 10;
    pub const MEMBER_REMOVE: u8 = 11;
    pub const PUSH_FRONT: u8 = 12;
    pub const PUSH_BACK: u8 = 13;
    pub const POP_FRONT: u8 = 14;
    pub const POP_BACK: u8 = 15;
    pub const LIST_SET: u8 = 16;
    pub const LIST_INSERT: u8 = 17;
    pub const LIST_REMOVE: u8 = 18;
    pub const LIST_TRIM: u8 = 19;
    pub const FIELD_PUT: u8 = 20;
    pub const FIELD_EXPIRE: u8 = 21;
    pub const FIELD_REMOVE: u8 = 22;
    pub const CLEAR: u8 = 23;
    pub const SWAP: u8 = 24;
    pub const STREAM_ADD: u8 = 25;
    pub const STREAM_DELETE: u8 = 26;
    pub const STREAM_TRIM_ONE: u8 = 27;
    pub const STREAM_TRIM_UP_TO: u8 = 28;
    pub const STREAM_SET: u8 = 29;
    pub const GROUP: u8 = 30;
    pub const GROUP_REMOVE: u8 = 31;
    pub const CONSUMER: u8 = 32;
    pub const CONSUMER_REMOVE: u8 = 33;
    pub const PENDING: u8 = 34;
    pub const PENDING_REMOVE: u8 = 35;
    pub const PRODUCED: u8 = 36;
    pub const PRODUCERS: u8 = 37;
    /// No change of a key: the libraries of functions, all of them.
    pub const FUNCTIONS: u8 = 38;
    /// Optional part, without bytes of its own: the other key is removed next.
    pub const COPY_FROM: u8 = 39;
    /// Kinds 48 to 54 are those of `old_kinds`.
    pub const CUSTOM: u8 = 55;
}

/// State carried from one effect of a record to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// The database of the last effect.
    pub db: u16,
    /// The order of the last effect.
    pub order: Order,
}

/// A change as it stands in a log.
#[derive(Debug)]
pub enum Logged<'a> {
    /// An effect of a mutator.
    Effect(Effect<'a>),
    /// [`Effect::Store`], with the value as an RDB file has it.
    Store {
        /// The key.
        key: &'a [u8],
        /// Expiry in Unix milliseconds.
        expiry: Option<i64>,
        /// The value's type byte.
        type_byte: u8,
        /// The value.
        value: &'a [u8],
    },
}

impl<'a> Logged<'a> {
    /// The key that changes, if it is one.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Logged::Effect(effect) => effect.key(),
            Logged::Store { key, .. } => Some(key),
        }
    }
}

/// Appends what comes before every effect's own part.
#[inline]
fn put_head(out: &mut Vec<u8>, context: &mut Context, kind: u8, db: u16, order: Order) {
    if db == context.db {
        out.push(kind);
    } else {
        out.push(kind | DATABASE);
        put(out, db.into());
        context.db = db;
    }
    put_signed(out, order.0.wrapping_sub(context.order.0) as i64);
    context.order = order;
}

fn with(kind: u8, option: bool) -> u8 {
    if option { kind | WITH } else { kind }
}

fn put_id(out: &mut Vec<u8>, id: StreamId) {
    put(out, id.ms);
    put(out, id.seq);
}

/// Appends an effect.
#[inline]
pub fn put_effect(
    out: &mut Vec<u8>,
    context: &mut Context,
    db: u16,
    order: Order,
    effect: &Effect<'_>,
) {
    if let Effect::Put { key, value, expiry } = *effect {
        let bytes = match value {
            StrRef::Bytes(bytes) => Some(bytes),
            StrRef::Blob(blob) => Some(&blob[..]),
            StrRef::Int(_) => None,
        };
        let kind = if bytes.is_some() { kind::PUT } else { kind::PUT_INT };
        put_head(out, context, with(kind, expiry.is_some()), db, order);
        put_bytes(out, key);
        expiry.into_iter().for_each(|at| put_signed(out, at));
        match value {
            StrRef::Int(n) => put_signed(out, n),
            _ => put_bytes(out, bytes.unwrap_or_default()),
        }
    } else {
        put_other(out, context, db, order, effect);
    }
}

fn put_other(out: &mut Vec<u8>, context: &mut Context, db: u16, order: Order, effect: &Effect<'_>) {
    let head = |out: &mut Vec<u8>, context: &mut Context, kind: u8, key: &[u8]| {
        put_head(out, context, kind, db, order);
        put_bytes(out, key);
    };
    // A key and one string.
    let pair = |out: &mut Vec<u8>, context: &mut Context, kind: u8, key: &[u8], text: &[u8]| {
        head(out, context, kind, key);
        put_bytes(out, text);
    };
    match *effect {
        // Handled where it costs least.
        Effect::Put { .. } => {}
        Effect::Store { key, value, expiry } => {
            let form = form(value, NOTHING_EXPIRED, Dialect::Redis);
            head(out, context, with(kind::STORE, expiry.is_some()), key);
            expiry.into_iter().for_each(|at| put_signed(out, at));
            out.push(form.type_byte());
            // The value's length, which is known afterwards.
            let at = out.len();
            out.extend_from_slice(&[0; 8]);
            let mut writer = Writer::new(out, form, false);
            // It is a value of the keyspace, of the form that was asked for it.
            let fed = feed(value, NOTHING_EXPIRED, &mut writer).and_then(|()| writer.finish());
            debug_assert!(fed.is_ok(), "{fed:?}");
            let len = (out.len() - at - 8) as u64;
            out[at..at + 8].copy_from_slice(&len.to_le_bytes());
        }
        Effect::CopyFrom { key, from_db, from, moved, .. } => {
            head(out, context, with(kind::COPY_FROM, moved), key);
            put(out, from_db.into());
            put_bytes(out, from);
        }
        Effect::Remove { key, .. } => head(out, context, kind::REMOVE, key),
        Effect::Expire { key, expiry } => {
            head(out, context, with(kind::EXPIRE, expiry.is_some()), key);
            expiry.into_iter().for_each(|at| put_signed(out, at));
        }
        Effect::Add { key, delta } => {
            head(out, context, kind::ADD, key);
            put_signed(out, delta);
        }
        Effect::Write { key, offset, bytes } => {
            head(out, context, kind::WRITE, key);
            put(out, offset as u64);
            put_bytes(out, bytes);
        }
        Effect::ScorePut { key, member, score } => {
            pair(out, context, kind::SCORE_PUT, key, member);
            out.extend_from_slice(&score.to_bits().to_le_bytes());
        }
        Effect::ScoreRemove { key, member } => {
            pair(out, context, kind::SCORE_REMOVE, key, member);
        }
        Effect::MemberAdd { key, member } => pair(out, context, kind::MEMBER_ADD, key, member),
        Effect::MemberRemove { key, member } => {
            pair(out, context, kind::MEMBER_REMOVE, key, member);
        }
        Effect::ListPush { key, end, element } => {
            let kind = if end == End::Front { kind::PUSH_FRONT } else { kind::PUSH_BACK };
            pair(out, context, kind, key, element);
        }
        Effect::ListPop { key, end } => {
            let kind = if end == End::Front { kind::POP_FRONT } else { kind::POP_BACK };
            head(out, context, kind, key);
        }
        Effect::ListSet { key, index, element } => {
            head(out, context, kind::LIST_SET, key);
            put(out, index as u64);
            put_bytes(out, element);
        }
        Effect::ListInsert { key, index, element, .. } => {
            head(out, context, kind::LIST_INSERT, key);
            put(out, index as u64);
            put_bytes(out, element);
        }
        Effect::ListRemove { key, index } => {
            head(out, context, kind::LIST_REMOVE, key);
            put(out, index as u64);
        }
        Effect::ListTrim { key, from, len } => {
            head(out, context, kind::LIST_TRIM, key);
            put(out, from as u64);
            put(out, len as u64);
        }
        Effect::Stream { key, change } => {
            let (kind, option) = stream_kind(&change);
            head(out, context, with(kind, option), key);
            put_stream_change(out, &change);
        }
        Effect::Custom { key, of, change } => {
            head(out, context, kind::CUSTOM, key);
            out.extend_from_slice(&[of.0, change.op]);
            put_bytes(out, change.body);
        }
        Effect::FieldPut { key, field, value, expiry } => {
            pair(out, context, with(kind::FIELD_PUT, expiry.is_some()), key, field);
            put_bytes(out, value);
            expiry.into_iter().for_each(|at| put_signed(out, at));
        }
        Effect::FieldExpire { key, field, expiry } => {
            pair(out, context, with(kind::FIELD_EXPIRE, expiry.is_some()), key, field);
            expiry.into_iter().for_each(|at| put_signed(out, at));
        }
        Effect::FieldRemove { key, field, .. } => {
            pair(out, context, kind::FIELD_REMOVE, key, field);
        }
        Effect::Functions { sources } => {
            put_head(out, context, kind::FUNCTIONS, context.db, order);
            put(out, sources.len() as u64);
            sources.iter().for_each(|source| put_bytes(out, source));
        }
        Effect::Clear => put_head(out, context, kind::CLEAR, db, order),
        Effect::Swap { with } => {
            put_head(out, context, kind::SWAP, db, order);
            put(out, with.into());
        }
    }
}

/// The kind of a stream's change, and whether it has its optional part.
fn stream_kind(change: &StreamChange<'_>) -> (u8, bool) {
    match change {
        StreamChange::Add { .. } => (kind::STREAM_ADD, false),
        StreamChange::Delete { .. } => (kind::STREAM_DELETE, false),
        StreamChange::TrimOne { .. } => (kind::STREAM_TRIM_ONE, false),
        StreamChange::TrimUpTo { .. } => (kind::STREAM_TRIM_UP_TO, false),
        StreamChange::Set { .. } => (kind::STREAM_SET, false),
        StreamChange::Group { read, .. } => (kind::GROUP, read.is_some()),
        StreamChange::GroupRemove { .. } => (kind::GROUP_REMOVE, false),
        StreamChange::Consumer { active_ms, .. } => (kind::CONSUMER, active_ms.is_some()),
        StreamChange::ConsumerRemove { .. } => (kind::CONSUMER_REMOVE, false),
        StreamChange::Pending { consumer, .. } => (kind::PENDING, consumer.is_some()),
        StreamChange::PendingRemove { .. } => (kind::PENDING_REMOVE, false),
        StreamChange::Produced { .. } => (kind::PRODUCED, false),
        StreamChange::Producers { .. } => (kind::PRODUCERS, false),
    }
}

fn put_stream_change(out: &mut Vec<u8>, change: &StreamChange<'_>) {
    match *change {
        StreamChange::Add { id, fields } => {
            put_id(out, id);
            put(out, fields.len() as u64);
            fields.iter().for_each(|text| put_bytes(out, text));
        }
        StreamChange::Delete { id }
        | StreamChange::TrimOne { id }
        | StreamChange::TrimUpTo { id } => put_id(out, id),
        StreamChange::Set { last_id, added, max_deleted } => {
            put_id(out, last_id);
            put(out, added);
            put_id(out, max_deleted);
        }
        StreamChange::Group { group, last_delivered, read, .. } => {
            put_bytes(out, group);
            put_id(out, last_delivered);
            read.into_iter().for_each(|read| put(out, read));
        }
        StreamChange::GroupRemove { group } => put_bytes(out, group),
        StreamChange::Consumer { group, consumer, seen_ms, active_ms } => {
            put_bytes(out, group);
            put_bytes(out, consumer);
            put_signed(out, seen_ms);
            active_ms.into_iter().for_each(|at| put_signed(out, at));
        }
        StreamChange::ConsumerRemove { group, consumer } => {
            put_bytes(out, group);
            put_bytes(out, consumer);
        }
        StreamChange::Pending { group, id, consumer, delivered_ms, count } => {
            put_bytes(out, group);
            put_id(out, id);
            consumer.into_iter().for_each(|consumer| put_bytes(out, consumer));
            put_signed(out, delivered_ms);
            put(out, count);
        }
        StreamChange::PendingRemove { group, id } => {
            put_bytes(out, group);
            put_id(out, id);
        }
        StreamChange::Produced { producer, own_id, id } => {
            put_bytes(out, producer);
            put_bytes(out, own_id);
            put_id(out, id);
        }
        StreamChange::Producers { duration_s, ids_max } => {
            put(out, duration_s.into());
            put(out, ids_max.into());
        }
    }
}

/// Reads the next effect and shows it to `visit`, with its database; the context has its order
/// then.
///
/// # Errors
/// If the bytes are no effect.
pub fn take_effect<'a, T>(
    bytes: &mut Bytes<'a>,
    context: &mut Context,
    visit: impl FnOnce(u16, Logged<'_>) -> T,
) -> Result<T, Malformed> {
    let head = bytes.byte()?;
    let (which, has_option) = (head & 0x3f, head & WITH != 0);
    if head & DATABASE != 0 {
        context.db = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
    }
    context.order = Order(context.order.0.wrapping_add(bytes.signed()? as u64));
    let db = context.db;
    match which {
        kind::CLEAR => return Ok(visit(db, Logged::Effect(Effect::Clear))),
        kind::SWAP => {
            let with = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
            return Ok(visit(db, Logged::Effect(Effect::Swap { with })));
        }
        kind::FUNCTIONS => {
            let count = bytes.number()?;
            let sources = (0..count).map(|_| bytes.bytes()).collect::<Result<Vec<_>, _>>()?;
            return Ok(visit(db, Logged::Effect(Effect::Functions { sources: &sources })));
        }
        _ => {}
    }
    let key = bytes.bytes()?;
    let effect = match which {
        kind::PUT => {
            let expiry = option(bytes, has_option)?;
            Effect::Put { key, value: StrRef::Bytes(bytes.bytes()?), expiry }
        }
        kind::PUT_INT => {
            let expiry = option(bytes, has_option)?;
            Effect::Put { key, value: StrRef::Int(bytes.signed()?), expiry }
        }
        kind::STORE => {
            let expiry = option(bytes, has_option)?;
            let type_byte = bytes.byte()?;
            let len = usize::try_from(bytes.fixed()?).map_err(|_| Malformed)?;
            let value = bytes.take(len)?;
            return Ok(visit(db, Logged::Store { key, expiry, type_byte, value }));
        }
        kind::COPY_FROM => {
            let from_db = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
            Effect::CopyFrom { key, from_db, from: bytes.bytes()?, moved: has_option, of: None }
        }
        kind::REMOVE => Effect::Remove { key, why: Removal::Deleted },
        kind::EXPIRE => Effect::Expire { key, expiry: option(bytes, has_option)? },
        kind::ADD => Effect::Add { key, delta: bytes.signed()? },
        kind::WRITE => {
            let (offset, bytes) = (size(bytes)?, bytes.bytes()?);
            let end = offset.checked_add(bytes.len()).filter(|&end| end <= STRING_LEN_MAX);
            let end = end.filter(|&end| can_be_had(end));
            end.map(|_| Effect::Write { key, offset, bytes }).ok_or(Malformed)?
        }
        kind::SCORE_PUT => {
            let member = bytes.bytes()?;
            let score = f64::from_bits(bytes.fixed()?);
            if score.is_nan() {
                return Err(Malformed);
            }
            Effect::ScorePut { key, member, score }
        }
        kind::SCORE_REMOVE => Effect::ScoreRemove { key, member: bytes.bytes()? },
        kind::MEMBER_ADD => Effect::MemberAdd { key, member: bytes.bytes()? },
        kind::MEMBER_REMOVE => Effect::MemberRemove { key, member: bytes.bytes()? },
        kind::PUSH_FRONT => Effect::ListPush { key, end: End::Front, element: bytes.bytes()? },
        kind::PUSH_BACK => Effect::ListPush { key, end: End::Back, element: bytes.bytes()? },
        kind::POP_FRONT => Effect::ListPop { key, end: End::Front },
        kind::POP_BACK => Effect::ListPop { key, end: End::Back },
        kind::LIST_SET => Effect::ListSet { key, index: size(bytes)?, element: bytes.bytes()? },
        kind::LIST_INSERT => {
            Effect::ListInsert { key, index: size(bytes)?, element: bytes.bytes()?, next: None }
        }
        kind::LIST_REMOVE => Effect::ListRemove { key, index: size(bytes)? },
        kind::LIST_TRIM => Effect::ListTrim { key, from: size(bytes)?, len: size(bytes)? },
        kind::FIELD_PUT => {
            let (field, value) = (bytes.bytes()?, bytes.bytes()?);
            Effect::FieldPut { key, field, value, expiry: option(bytes, has_option)? }
        }
        kind::FIELD_EXPIRE => {
            let field = bytes.bytes()?;
            Effect::FieldExpire { key, field, expiry: option(bytes, has_option)? }
        }
        kind::FIELD_REMOVE => {
            Effect::FieldRemove { key, field: bytes.bytes()?, why: Removal::Deleted }
        }
        kind::STREAM_ADD => {
            let id = take_id(bytes)?;
            let count = bytes.number()?;
            let fields = (0..count).map(|_| bytes.bytes()).collect::<Result<Vec<_>, _>>()?;
            let change = StreamChange::Add { id, fields: &fields };
            return Ok(visit(db, Logged::Effect(Effect::Stream { key, change })));
        }
        kind::CUSTOM => {
            let (of, op) = (TypeNumber(bytes.byte()?), bytes.byte()?);
            let change = CustomChange { op, body: bytes.bytes()? };
            Effect::Custom { key, of, change }
        }
        _ => match old_kinds::take(which, has_option, bytes)? {
            Some((of, change)) => Effect::Custom { key, of, change },
            None => Effect::Stream { key, change: take_stream_change(bytes, which, has_option)? },
        },
    };
    Ok(visit(db, Logged::Effect(effect)))
}

fn option(bytes: &mut Bytes<'_>, there: bool) -> Result<Option<i64>, Malformed> {
    if there { bytes.signed().map(Some) } else { Ok(None) }
}

/// Maximum length of a string: a few damaged bytes must not request more memory. (A fuzzer reports
/// gigabytes as a fault.)
const STRING_LEN_MAX: usize = if cfg!(fuzzing) { TRIED_FROM } else { 1 << 36 };

/// Length from which an allocation is tried first: a failed one would abort the process.
const TRIED_FROM: usize = 1 << 28;

/// Whether the system has memory for a string of `len` bytes.
fn can_be_had(len: usize) -> bool {
    len < TRIED_FROM || Vec::<u8>::new().try_reserve_exact(len).is_ok()
}

fn size(bytes: &mut Bytes<'_>) -> Result<usize, Malformed> {
    usize::try_from(bytes.number()?).map_err(|_| Malformed)
}

fn take_id(bytes: &mut Bytes<'_>) -> Result<StreamId, Malformed> {
    Ok(StreamId { ms: bytes.number()?, seq: bytes.number()? })
}

fn take_stream_change<'a>(
    bytes: &mut Bytes<'a>,
    which: u8,
    has_option: bool,
) -> Result<StreamChange<'a>, Malformed> {
    Ok(match which {
        kind::STREAM_DELETE => StreamChange::Delete { id: take_id(bytes)? },
        kind::STREAM_TRIM_ONE => StreamChange::TrimOne { id: take_id(bytes)? },
        kind::STREAM_TRIM_UP_TO => StreamChange::TrimUpTo { id: take_id(bytes)? },
        kind::STREAM_SET => StreamChange::Set {
            last_id: take_id(bytes)?,
            added: bytes.number()?,
            max_deleted: take_id(bytes)?,
        },
        kind::GROUP => StreamChange::Group {
            group: bytes.bytes()?,
            last_delivered: take_id(bytes)?,
            read: if has_option { Some(bytes.number()?) } else { None },
            is_new: false,
        },
        kind::GROUP_REMOVE => StreamChange::GroupRemove { group: bytes.bytes()? },
        kind::CONSUMER => StreamChange::Consumer {
            group: bytes.bytes()?,
            consumer: bytes.bytes()?,
            seen_ms: bytes.signed()?,
            active_ms: option(bytes, has_option)?,
        },
        kind::CONSUMER_REMOVE => {
            StreamChange::ConsumerRemove { group: bytes.bytes()?, consumer: bytes.bytes()? }
        }
        kind::PENDING => StreamChange::Pending {
            group: bytes.bytes()?,
            id: take_id(bytes)?,
            consumer: if has_option { Some(bytes.bytes()?) } else { None },
            delivered_ms: bytes.signed()?,
            count: bytes.number()?,
        },
        kind::PENDING_REMOVE => {
            StreamChange::PendingRemove { group: bytes.bytes()?, id: take_id(bytes)? }
        }
        kind::PRODUCED => StreamChange::Produced {
            producer: bytes.bytes()?,
            own_id: bytes.bytes()?,
            id: take_id(bytes)?,
        },
        kind::PRODUCERS => StreamChange::Producers {
            duration_s: u32::try_from(bytes.number()?).map_err(|_| Malformed)?,
            ids_max: u32::try_from(bytes.number()?).map_err(|_| Malformed)?,
        },
        _ => return Err(Malformed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_of_any_length_is_not_made_because_some_bytes_say_so() {
        for (offset, is_read) in [(3, true), (1 << 42, false), (usize::MAX, false)] {
            let (mut out, effect) =
                (Vec::new(), Effect::Write { key: b"k", offset, bytes: b"text" });
            put_effect(&mut out, &mut Context::default(), 0, Order(1), &effect);
            let read = take_effect(&mut Bytes(&out), &mut Context::default(), |_, _| ());
            assert_eq!(read.is_ok(), is_read, "{offset}");
        }
    }
}
