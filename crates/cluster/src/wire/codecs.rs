//! Codecs of the fields of records and frames, with their bounds checks.

use super::exec::{Exec, has_more, put_exec, take_exec};
use super::record::{
    Change, Changes, FIRST, LANE_LIST, MORE, Parts, Pieces, REPLIES, Refusal, Slots, Tag, Tags,
    Texts, WaitEnd,
};
use super::{Hello, LANES, VERSION};
use crate::slot::{SLOTS, Slot};
use crate::slot_map::Node;
use crate::view::Identity;
use petrel_keyspace::Call;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put, put_bytes};
use petrel_persistence::record::{Put, Shape, Source, Take};
use std::marker::PhantomData;

/// Maximum number of slots, commands or arguments in one record.
const COUNT_MAX: u64 = 1 << 20;

/// Appends an optional number.
pub(super) fn put_option(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(number.is_some().into());
    number.into_iter().for_each(|number| put(out, number));
}

pub(super) fn take_option(bytes: &mut Bytes<'_>) -> Result<Option<u64>, Malformed> {
    let has = bytes.byte()?;
    take_if(has, bytes)
}

pub(super) fn take_if(has: u8, bytes: &mut Bytes<'_>) -> Result<Option<u64>, Malformed> {
    match has {
        0 => Ok(None),
        1 => Ok(Some(bytes.number()?)),
        _ => Err(Malformed),
    }
}

pub(super) fn take_slot(bytes: &mut Bytes<'_>) -> Result<Slot, Malformed> {
    Slot::try_from(bytes.number()?).ok().filter(|slot| *slot < SLOTS).ok_or(Malformed)
}

/// Takes a number of elements that follow, `most` at most.
fn take_len(bytes: &mut Bytes<'_>, most: u64) -> Result<usize, Malformed> {
    let count = bytes.number()?;
    // Each element takes at least one byte.
    if count > most || count > bytes.0.len() as u64 {
        return Err(Malformed);
    }
    Ok(count as usize)
}

pub(super) fn take_count(bytes: &mut Bytes<'_>) -> Result<usize, Malformed> {
    take_len(bytes, COUNT_MAX)
}

/// Takes a list of at most `most` elements behind their number.
pub(super) fn take_list<T>(
    bytes: &mut Bytes<'_>,
    most: u64,
    mut take: impl FnMut(&mut Bytes<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    (0..take_len(bytes, most)?).map(|_| take(bytes)).collect()
}

pub(super) fn put_identity(out: &mut Vec<u8>, identity: Identity) {
    put(out, identity.node.0.into());
    put(out, identity.incarnation.into());
}

pub(super) fn take_identity(bytes: &mut Bytes<'_>) -> Result<Identity, Malformed> {
    let node = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
    let incarnation = u32::try_from(bytes.number()?).map_err(|_| Malformed)?;
    Ok(Identity { node: Node(node), incarnation })
}

pub(super) fn put_tag(out: &mut Vec<u8>, tag: Tag) {
    put_identity(out, tag.origin);
    put(out, tag.slot.into());
    put(out, tag.oseq);
}

pub(super) fn take_tag(bytes: &mut Bytes<'_>) -> Result<Tag, Malformed> {
    let origin = take_identity(bytes)?;
    Ok(Tag { origin, slot: take_slot(bytes)?, oseq: bytes.number()? })
}

pub(super) fn take_change<'a>(bytes: &mut Bytes<'a>) -> Result<Change<'a>, Malformed> {
    Ok(Change { slot: take_slot(bytes)?, back: bytes.number()?, group: bytes.bytes()? })
}

/// Takes `count` elements that `check` accepts, and returns their bytes.
fn take_each<'a>(
    bytes: &mut Bytes<'a>,
    count: u64,
    mut check: impl FnMut(&mut Bytes<'a>) -> Result<(), Malformed>,
) -> Result<&'a [u8], Malformed> {
    let all = bytes.0;
    for _ in 0..count {
        check(bytes)?;
    }
    Ok(&all[..all.len() - bytes.0.len()])
}

petrel_persistence::codecs! {
    /// A slot.
    SlotField: Slot => Slot, "number", |out, _flags, slot| put(out, slot.into()),
        |source| take_slot(&mut source.bytes), [0, SLOTS - 1, 300];
    /// Node and incarnation.
    IdentityField: Identity => Identity, "node, incarnation",
        |out, _flags, identity| put_identity(out, identity),
        |source| take_identity(&mut source.bytes), [SAMPLE_TAG.origin];
    /// Origin, slot and sequence number of a forwarded command.
    TagField: Tag => Tag, "node, incarnation, slot, sequence number",
        |out, _flags, tag| put_tag(out, tag), |source| take_tag(&mut source.bytes), [SAMPLE_TAG];
    /// Positions in several lanes, by ascending lane.
    PartList: Parts<'_> => Parts<'a>, "count, each: lane (byte), position",
        |out, _flags, parts| put_list(out, parts.iter().count(), parts.0),
        |source| take_parts(&mut source.bytes), [Parts(&[3, 5]), Parts(&[0, 1, 15, 0x80, 1])];
    /// Tags of forwarded commands.
    TagList: Tags<'_> => Tags<'a>, "count, each: a tag",
        |out, _flags, tags| put_list(out, tags.iter().count(), tags.0),
        |source| {
            let count = take_count(&mut source.bytes)?;
            take_each(&mut source.bytes, count as u64, |bytes| take_tag(bytes).map(drop)).map(Tags)
        },
        [Tags(&[1, 2, 3, 4]), Tags(&[1, 2, 3, 4, 5, 6, 7, 8])];
    /// Places of elided arguments.
    PieceList: Pieces<'_> => Pieces<'a>, "count, each: bytes since the one before, argument",
        |out, _flags, pieces| put_list(out, pieces.iter().count(), pieces.0),
        |source| {
            let count = take_count(&mut source.bytes)?;
            let two = |bytes: &mut Bytes<'_>| bytes.number().and(bytes.number()).map(drop);
            take_each(&mut source.bytes, count as u64, two).map(Pieces)
        },
        [Pieces(&[1, 2]), Pieces(&[0, 1, 0x80, 1, 2])];
    /// Changes of several slots.
    ChangeList: Changes<'_> => Changes<'a>, "count, each: slot, distance, effects (text)",
        |out, _flags, changes| put_list(out, changes.iter().count(), changes.0),
        |source| {
            let count = take_count(&mut source.bytes)?;
            take_each(&mut source.bytes, count as u64, |bytes| take_change(bytes).map(drop))
                .map(Changes)
        },
        [Changes(&[1, 2, 0]), Changes(&[0x80, 1, 0, 1, b'x', 3, 0x80, 1, 0])];
    /// Slots.
    SlotList: Slots<'_> => Slots<'a>, "count, slots",
        |out, _flags, slots| put_list(out, slots.iter().count(), slots.0),
        |source| {
            let count = take_count(&mut source.bytes)?;
            take_each(&mut source.bytes, count as u64, |bytes| take_slot(bytes).map(drop)).map(Slots)
        },
        [Slots(&[3]), Slots(&[0, 0x80, 1])];
    /// Texts.
    TextList: Texts<'_> => Texts<'a>, "count, texts",
        |out, _flags, texts| put_list(out, texts.iter().count(), texts.0),
        |source| {
            let count = take_count(&mut source.bytes)?;
            take_each(&mut source.bytes, count as u64, |bytes| bytes.bytes().map(drop)).map(Texts)
        },
        [Texts(&[]), Texts(&[0, 2, b'a', b'b'])];
    /// An optional number.
    Maybe: Option<u64> => Option<u64>, "byte 0, or byte 1 and a number",
        |out, _flags, number| put_option(out, number),
        |source| take_option(&mut source.bytes), [None, Some(0), Some(300)];
    /// Reason to end a wait.
    End: WaitEnd => WaitEnd, "byte: 0 timeout, 1 error, 2 gone",
        |out, _flags, end| out.push(end as u8),
        |source| match source.bytes.byte()? {
            0 => Ok(WaitEnd::Timeout),
            1 => Ok(WaitEnd::Error),
            2 => Ok(WaitEnd::Gone),
            _ => Err(Malformed),
        },
        [WaitEnd::Timeout, WaitEnd::Error, WaitEnd::Gone];
    /// A decision within another record.
    DecisionField: &[u8] => &'a [u8], "text",
        |out, _flags, decision| put_bytes(out, decision),
        |source| source.bytes.bytes(), [&b"d"[..], b"decision"];
    /// Reason to end an attempt of a transaction.
    Reason: Refusal => Refusal, "byte: 0 moved, 1 busy, 2 too large, 3 executed before, 4 unsupported",
        |out, _flags, reason| out.push(reason as u8),
        |source| match source.bytes.byte()? {
            0 => Ok(Refusal::Moved),
            1 => Ok(Refusal::Busy),
            2 => Ok(Refusal::TooLarge),
            3 => Ok(Refusal::Before),
            4 => Ok(Refusal::Unsupported),
            _ => Err(Malformed),
        },
        [Refusal::Moved, Refusal::Before, Refusal::Unsupported];
    /// A reply, up to the end of the record.
    Reply: Option<&[u8]> => Option<&'a [u8]>,
        "the rest; with flag 0x80 the index of a frequent reply (byte); with flag 0x20 none",
        |out, flags, reply| {
            let name = REPLIES.iter().position(|known| Some(*known) == reply);
            *flags |= if reply.is_none() { FIRST } else { 0 } | if name.is_some() { MORE } else { 0 };
            match name {
                Some(name) => out.push(name as u8),
                None => out.extend_from_slice(reply.unwrap_or_default()),
            }
        },
        |source| match (source.flag(FIRST), source.flag(MORE), source.rest()) {
            (true, false, []) => Ok(None),
            (false, true, &[name]) => REPLIES.get(usize::from(name)).copied().map(Some).ok_or(Malformed),
            (false, false, reply) => Ok(Some(reply)),
            _ => Err(Malformed),
        },
        [Some(REPLIES[1]), None, Some(b"+other\r\n")];
    /// Identity and protocol version of the sender.
    Greeting: &Hello => Hello, "protocol version, node, incarnation",
        |out, _flags, hello| {
            put(out, VERSION);
            put_identity(out, hello.identity);
        },
        |source| match source.bytes.number()? {
            VERSION => take_identity(&mut source.bytes).map(|identity| Hello { identity }),
            _ => Err(Malformed),
        },
        [&Hello { identity: SAMPLE_TAG.origin }];
    /// A forwarded command.
    ExecField: &Exec<'_> => Exec<'a>,
        "sequence number; 2 × distance to the first unanswered one, + 1 unless one slot follows; \
         [number of] slots; tenure; database; with flag 0x80 a byte (1: timeout follows, \
         2: wants copies, 4: tracks, 8: writer follows), [timeout], client (byte 0, or byte 1 \
         and a number), [writer]; with flag 0x20 \
         the number of commands; each: number of arguments, texts; flag 0x40: reply in RESP3",
        |out, flags, exec| {
            *flags |= if exec.call.is_transaction { FIRST } else { 0 };
            *flags |= if exec.call.resp3 { LANE_LIST } else { 0 };
            *flags |= if has_more(&exec.call) { MORE } else { 0 };
            put_exec(out, (exec.oseq, exec.first, exec.tenure), &exec.call);
        },
        |source| {
            let flags = (source.flag(FIRST), source.flag(LANE_LIST), source.flag(MORE));
            take_exec(&mut source.bytes, flags)
        },
        [&sample_exec(false), &sample_exec(true)];
}

fn sample_exec(is_long: bool) -> Exec<'static> {
    Exec {
        oseq: 300,
        first: 299,
        tenure: 5,
        call: Call {
            slots: vec![1; 1 + usize::from(is_long)],
            db: 1,
            resp3: is_long,
            is_transaction: is_long,
            wait_ms: is_long.then_some(1000),
            client: is_long.then_some(7),
            wants_copies: is_long,
            tracks: is_long,
            writer: is_long.then_some(300),
            commands: vec![vec![&b"SET"[..], b"key", b"value"]; 1 + usize::from(is_long)],
        },
    }
}

const SAMPLE_TAG: Tag =
    Tag { origin: Identity { node: Node(300), incarnation: 5 }, slot: 16_383, oseq: 200 };

fn put_list(out: &mut Vec<u8>, count: usize, elements: &[u8]) {
    put(out, count as u64);
    out.extend_from_slice(elements);
}

fn take_parts<'a>(bytes: &mut Bytes<'a>) -> Result<Parts<'a>, Malformed> {
    let (count, mut next) = (bytes.number()?, 0);
    let part = |bytes: &mut Bytes<'a>| {
        let lane = usize::from(bytes.byte()?);
        let is_right = (next..LANES).contains(&lane);
        next = lane + 1;
        if is_right { bytes.number().map(drop) } else { Err(Malformed) }
    };
    take_each(bytes, count, part).map(Parts)
}

/// A list that is there if a flag of the record is set; it is not empty then.
pub struct WhenAny<const FLAG: u8, C>(PhantomData<C>);

impl<const FLAG: u8, T: Default + PartialEq, C: Put<T>> Put<T> for WhenAny<FLAG, C> {
    fn put(out: &mut Vec<u8>, flags: &mut u8, value: T) {
        if value != T::default() {
            *flags |= FLAG;
            C::put(out, flags, value);
        }
    }
}

impl<'r, 'a, const FLAG: u8, C> Take<'r, 'a> for WhenAny<FLAG, C>
where
    C: Take<'r, 'a>,
    C::Value: Default + PartialEq,
{
    type Value = C::Value;

    fn take(source: &mut Source<'r, 'a>) -> Result<C::Value, Malformed> {
        if !source.flag(FLAG) {
            return Ok(C::Value::default());
        }
        let list = C::take(source)?;
        if list == C::Value::default() { Err(Malformed) } else { Ok(list) }
    }
}

impl<const FLAG: u8, C: Shape> Shape for WhenAny<FLAG, C> {
    fn describe(name: &str) -> String {
        format!("[{}]", C::describe(name))
    }

    fn sample(out: &mut Vec<u8>, flags: &mut u8, round: usize) {
        if !round.is_multiple_of(3) {
            *flags |= FLAG;
            C::sample(out, flags, round);
        }
    }
}
