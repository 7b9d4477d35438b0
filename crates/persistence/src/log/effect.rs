//! Effects as they stand in a record.
//!
//! ```text
//! effect  +------+----------+-------+-----+-- ... --+
//!         | kind | database | order | key | what    |
//!         +------+----------+-------+-----+-- ... --+
//! kind       lowest 6 bits: number of the row in [`ROWS`]; 0x40: it has its optional part;
//!            0x80: the database follows, which is that of the effect before else, and at first 0
//! order      difference to the order of the effect before
//! ```

use super::number::{Bytes, put, put_bytes, put_signed};
use super::{Malformed, old_kinds};
use crate::rdb::{Dialect, Writer};
use crate::record::{
    Byte, Flag, Number, Put, Row, Shape, Short, Signed, Size, Source, Take, Text, Texts, When, Word,
};
use crate::value::{NOTHING_EXPIRED, feed, form};
use petrel_keyspace::aux_state::{FUNCTIONS, is_name};
use petrel_keyspace::custom::{CustomChange, TypeNumber};
use petrel_keyspace::types::list::End;
use petrel_keyspace::types::stream::{StreamChange, StreamId};
use petrel_keyspace::{Effect, Encoded, Order, Removal, StrRef, View};

/// Bits of the kind that are the number.
const NUMBER: u8 = 0x3f;
/// Flag of the kind: the effect has its optional part.
const WITH: u8 = 0x40;
/// Flag of the kind: the database follows.
const DATABASE: u8 = 0x80;

/// Expiry, or another time, that may be missing.
type Time = When<WITH, Signed>;

crate::records! {
    rows ROWS, put put_body(&Effect<'_>), take take_body -> Logged<'r> as Logged::Effect;
    hot {
        2 "the key holds an integer" (Effect::Put { key, value: StrRef::Int(value), expiry })
            [key: Text, expiry: Time, value: Signed];
        1 "the key holds a string" (Effect::Put { key, value, expiry })
            [key: Text, expiry: Time, value: Str];
    }
    cold {
        3 "the key holds a collection" (Effect::Store { key, value, expiry })
            => Logged::Store { key, expiry, type_byte: value.0, value: value.1 },
            [key: Text, expiry: Time, value: Stored];
        4 "the key is removed" (Effect::Remove { key, .. })
            => Logged::Effect(Effect::Remove { key, why: Removal::Deleted }), [key: Text];
        5 "expiry of the key" (Effect::Expire { key, expiry }) [key: Text, expiry: Time];
        6 "added to an integer" (Effect::Add { key, delta }) [key: Text, delta: Signed];
        7 "written into a string" (Effect::Write { key, offset, bytes })
            [key: Text, offset: Offset, bytes: Text] if can_be_had(offset, bytes.len());
        8 "member of a sorted set put" (Effect::ScorePut { key, member, score })
            [key: Text, member: Text, score: Score];
        9 "member of a sorted set removed" (Effect::ScoreRemove { key, member })
            [key: Text, member: Text];
        10 "member of a set added" (Effect::MemberAdd { key, member }) [key: Text, member: Text];
        11 "member of a set removed" (Effect::MemberRemove { key, member })
            [key: Text, member: Text];
        12 "pushed at the front of a list" (Effect::ListPush { key, end: End::Front, element })
            [key: Text, element: Text];
        13 "pushed at the back of a list" (Effect::ListPush { key, end: End::Back, element })
            [key: Text, element: Text];
        14 "popped from the front of a list" (Effect::ListPop { key, end: End::Front })
            [key: Text];
        15 "popped from the back of a list" (Effect::ListPop { key, end: End::Back }) [key: Text];
        16 "element of a list replaced" (Effect::ListSet { key, index, element })
            [key: Text, index: Size, element: Text];
        17 "element of a list inserted" (Effect::ListInsert { key, index, element, .. })
            => Logged::Effect(Effect::ListInsert { key, index, element, next: None }),
            [key: Text, index: Size, element: Text];
        18 "element of a list removed" (Effect::ListRemove { key, index })
            [key: Text, index: Size];
        19 "elements of a list removed except a range" (Effect::ListTrim { key, from, len })
            [key: Text, from: Size, len: Size];
        20 "field of a hash put" (Effect::FieldPut { key, field, value, expiry })
            [key: Text, field: Text, value: Text, expiry: Time];
        21 "expiry of a field" (Effect::FieldExpire { key, field, expiry })
            [key: Text, field: Text, expiry: Time];
        22 "field of a hash removed" (Effect::FieldRemove { key, field, .. })
            => Logged::Effect(Effect::FieldRemove { key, field, why: Removal::Deleted }),
            [key: Text, field: Text];
        23 "all keys of the database removed" (Effect::Clear) [];
        24 "the database swapped" (Effect::Swap { with }) [with: Short];
        25 "entry of a stream added"
            (Effect::Stream { key, change: StreamChange::Add { id, fields } })
            [key: Text, id: Id, fields: Texts];
        26 "entry of a stream deleted" (Effect::Stream { key, change: StreamChange::Delete { id } })
            [key: Text, id: Id];
        27 "entry of a stream trimmed"
            (Effect::Stream { key, change: StreamChange::TrimOne { id } }) [key: Text, id: Id];
        28 "entries up to this one trimmed"
            (Effect::Stream { key, change: StreamChange::TrimUpTo { id } }) [key: Text, id: Id];
        29 "last ID and counters of a stream"
            (Effect::Stream { key, change: StreamChange::Set { last_id, added, max_deleted } })
            [key: Text, last_id: Id, added: Number, max_deleted: Id];
        30 "consumer group set"
            (Effect::Stream { key, change: StreamChange::Group { group, last_delivered, read, .. } })
            => Logged::Effect(Effect::Stream {
                key, change: StreamChange::Group { group, last_delivered, read, is_new: false },
            }),
            [key: Text, group: Text, last_delivered: Id, read: When<WITH, Number>];
        31 "consumer group removed"
            (Effect::Stream { key, change: StreamChange::GroupRemove { group } })
            [key: Text, group: Text];
        32 "times of a consumer"
            (Effect::Stream {
                key, change: StreamChange::Consumer { group, consumer, seen_ms, active_ms }
            })
            [key: Text, group: Text, consumer: Text, seen_ms: Signed, active_ms: Time];
        33 "consumer removed"
            (Effect::Stream { key, change: StreamChange::ConsumerRemove { group, consumer } })
            [key: Text, group: Text, consumer: Text];
        34 "entry pending"
            (Effect::Stream {
                key, change: StreamChange::Pending { group, id, consumer, delivered_ms, count }
            })
            [
                key: Text, group: Text, id: Id, consumer: When<WITH, Text>, delivered_ms: Signed,
                count: Number
            ];
        35 "entry no longer pending"
            (Effect::Stream { key, change: StreamChange::PendingRemove { group, id } })
            [key: Text, group: Text, id: Id];
        36 "ID of a producer for an entry"
            (Effect::Stream { key, change: StreamChange::Produced { producer, own_id, id } })
            [key: Text, producer: Text, own_id: Text, id: Id];
        37 "how long and how many of these are kept"
            (Effect::Stream { key, change: StreamChange::Producers { duration_s, ids_max } })
            [key: Text, duration_s: Word, ids_max: Word];
        38 "all function libraries; the order is the number of the change"
            (Effect::Aux { name: FUNCTIONS, bytes: sources }) [sources: Libraries];
        39 "copy of another key, which is removed next if moved"
            (Effect::CopyFrom { key, from_db, from, moved, .. })
            => Logged::Effect(Effect::CopyFrom { key, from_db, from, moved, value: None }),
            [key: Text, from_db: Short, from: Text, moved: Flag<WITH>];
        40 "auxiliary state; the order is the number of the change"
            (Effect::Aux { name, bytes: form }) [name: Name, form: Text];
        55 "value of a value type changed" (Effect::Custom { key, of: TypeNumber(of), change })
            [key: Text, of: Byte, change: Change];
    }
}

crate::codecs! {
    /// The value of a string.
    Str: StrRef<'_> => StrRef<'a>, "text",
        |out, _flags, value| match value {
            StrRef::Bytes(bytes) => put_bytes(out, bytes),
            StrRef::Blob(blob) => put_bytes(out, blob),
            StrRef::Int(n) => put_bytes(out, itoa::Buffer::new().format(n).as_bytes()),
        },
        |source| source.bytes.bytes().map(StrRef::Bytes),
        [StrRef::Bytes(b"text"), StrRef::Bytes(b""), StrRef::Bytes(&[b'x'; 200])];
    /// ID of an entry of a stream.
    Id: StreamId => StreamId, "two numbers",
        |out, _flags, id| {
            put(out, id.ms);
            put(out, id.seq);
        },
        |source| Ok(StreamId { ms: source.bytes.number()?, seq: source.bytes.number()? }),
        [StreamId { ms: 300, seq: 1 }, StreamId::MIN, StreamId { ms: u64::MAX, seq: u64::MAX }];
    /// A score.
    Score: f64 => f64, "8 bytes, IEEE 754, not NaN",
        |out, _flags, score| out.extend_from_slice(&score.to_bits().to_le_bytes()),
        |source| match f64::from_bits(source.bytes.fixed()?) {
            score if score.is_nan() => Err(Malformed),
            score => Ok(score),
        },
        [1.5, f64::INFINITY, -0.0, f64::MIN];
    /// Offset in a string.
    Offset: usize => usize, "number; the string ends at 2^36 at most",
        |out, _flags, offset| put(out, offset as u64),
        |source| source.bytes.size(), [0, 1, 1 << 20];
    /// Source texts of function libraries ([`petrel_keyspace::aux_state::texts`]).
    Libraries: &[u8] => &'a [u8], "number, texts",
        |out, _flags, bytes| out.extend_from_slice(if bytes.is_empty() { &[0] } else { bytes }),
        |source| {
            let all = source.bytes.0;
            for _ in 0..source.bytes.number()? {
                source.bytes.bytes()?;
            }
            Ok(&all[..all.len() - source.bytes.0.len()])
        },
        [&[2, 3, b'o', b'n', b'e', 0][..], &[0], &[1, 1, b'x']];
    /// Name of auxiliary state; function libraries have a row of their own.
    Name: &[u8] => &'a [u8], "text, 1 to 255 bytes", |out, _flags, name| put_bytes(out, name),
        |source| match source.bytes.bytes()? {
            name if is_name(name) && name != FUNCTIONS => Ok(name),
            _ => Err(Malformed),
        },
        [&b"indexes"[..], &[b'x'; 255], &[0]];
    /// A change of a value of a value type.
    Change: CustomChange<'_> => CustomChange<'a>, "operation (byte), arguments (text)",
        |out, _flags, change| {
            out.push(change.op);
            put_bytes(out, change.body);
        },
        |source| Ok(CustomChange { op: source.bytes.byte()?, body: source.bytes.bytes()? }),
        [CustomChange { op: 0, body: b"" }, CustomChange { op: 200, body: b"arguments" }];
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

    /// The other key from which the value is taken ([`Effect::source`]).
    pub fn source(&self) -> Option<(u16, &'a [u8])> {
        match self {
            Logged::Effect(effect) => effect.source(),
            Logged::Store { .. } => None,
        }
    }
}

/// Appends what comes before every effect's own part. Returns the place of the kind, which is set
/// afterwards.
#[inline]
fn begin(out: &mut Vec<u8>, context: &mut Context, db: u16, order: Order) -> usize {
    let at = out.len();
    if db == context.db {
        out.push(0);
    } else {
        out.push(DATABASE);
        put(out, db.into());
        context.db = db;
    }
    put_signed(out, order.0.wrapping_sub(context.order.0) as i64);
    context.order = order;
    at
}

/// Appends an effect, and returns its bytes for other sinks.
#[inline]
pub fn put_effect<'o>(
    out: &'o mut Vec<u8>,
    context: &mut Context,
    db: u16,
    order: Order,
    effect: &Effect<'_>,
) -> Encoded<'o> {
    let before = *context;
    let at = begin(out, context, db, order);
    let body_at = out.len();
    let kind = put_body(out, effect);
    debug_assert!(kind & DATABASE == 0 && kind & NUMBER != 0, "{effect:?}");
    out[at] |= kind;
    debug_assert!(is_readable(&out[at..], before, (db, order)), "{effect:?}");
    Encoded { kind, body: &out[body_at..] }
}

/// Whether a reader takes the bytes as one effect of this database and order. A fuzzer's reader
/// refuses some (`STRING_LEN_MAX`).
fn is_readable(effect: &[u8], mut context: Context, (db, order): (u16, Order)) -> bool {
    let mut bytes = Bytes(effect);
    let read = take_effect(&mut bytes, &mut context, |read_db, _| read_db == db);
    cfg!(fuzzing) || read == Ok(true) && bytes.0.is_empty() && context.order == order
}

/// Appends an effect that another sink has encoded.
#[inline]
pub fn put_encoded(
    out: &mut Vec<u8>,
    context: &mut Context,
    db: u16,
    order: Order,
    encoded: Encoded<'_>,
) {
    let at = begin(out, context, db, order);
    debug_assert!(encoded.kind & DATABASE == 0, "{encoded:?}");
    out[at] |= encoded.kind;
    out.extend_from_slice(encoded.body);
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
    let kind = bytes.byte()?;
    if kind & DATABASE != 0 {
        context.db = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
    }
    context.order = Order(context.order.0.wrapping_add(bytes.signed()? as u64));
    let mut room = Vec::new();
    let mut source = Source { bytes: *bytes, flags: kind & WITH, texts: Some(&mut room) };
    let logged = match kind & NUMBER {
        number if old_kinds::NUMBERS.contains(&number) => {
            let (key, has_option) = (source.bytes.bytes()?, source.flag(WITH));
            let (of, change) = old_kinds::take(number, has_option, &mut source.bytes)?;
            Logged::Effect(Effect::Custom { key, of, change })
        }
        number => take_body(number, &mut source)?,
    };
    *bytes = source.bytes;
    // An optional part that this kind does not have.
    if source.flags != 0 {
        return Err(Malformed);
    }
    Ok(visit(context.db, logged))
}

/// Maximum length of a string: a few damaged bytes must not request more memory. (A fuzzer reports
/// gigabytes as a fault.)
const STRING_LEN_MAX: usize = if cfg!(fuzzing) { TRIED_FROM } else { 1 << 36 };

/// Length from which an allocation is tried first: a failed one would abort the process.
const TRIED_FROM: usize = 1 << 28;

/// Whether a string may get as long as these two together, and the system has memory for it.
fn can_be_had(offset: usize, len: usize) -> bool {
    offset.checked_add(len).is_some_and(|end| {
        let is_tried = (TRIED_FROM..=STRING_LEN_MAX).contains(&end);
        end < TRIED_FROM || is_tried && Vec::<u8>::new().try_reserve_exact(end).is_ok()
    })
}

/// A collection as an RDB file has it, without compression.
struct Stored;

impl Put<View<'_>> for Stored {
    fn put(out: &mut Vec<u8>, _: &mut u8, value: View<'_>) {
        let form = form(value, NOTHING_EXPIRED, Dialect::Redis);
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
}

impl<'a> Take<'_, 'a> for Stored {
    type Value = (u8, &'a [u8]);

    fn take(source: &mut Source<'_, 'a>) -> Result<(u8, &'a [u8]), Malformed> {
        let type_byte = source.bytes.byte()?;
        let len = usize::try_from(source.bytes.fixed()?).map_err(|_| Malformed)?;
        Ok((type_byte, source.bytes.take(len)?))
    }
}

impl Shape for Stored {
    fn describe(_: &str) -> String {
        "type byte of RDB, length (8 bytes), value as in RDB, without compression".into()
    }

    fn sample(out: &mut Vec<u8>, _: &mut u8, _: usize) {
        // A list of one element, in a quicklist of one plain node.
        out.push(18);
        out.extend_from_slice(&4u64.to_le_bytes());
        out.extend_from_slice(&[1, 1, 1, b'e']);
    }
}

/// The `round`-th sample of a kind of effect, as the only one of a group.
pub(crate) fn sample(row: &Row, round: usize) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    bytes[0] = (row.sample)(&mut bytes, round);
    bytes
}

#[cfg(test)]
#[path = "effect_tests.rs"]
mod tests;
