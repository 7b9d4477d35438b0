//! Forwarded commands.

use super::codecs::{put_option, take_count, take_if, take_option, take_slot};
use crate::slot::Slot;
use petrel_keyspace::Call;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put, put_bytes};

/// Flag in the byte that says whether a timeout follows: [`Call::wants_copies`].
const WANTS_COPIES: u8 = 2;
/// Flag in the same byte: [`Call::tracks`].
const TRACKS: u8 = 4;
/// Flag in the same byte: [`Call::writer`] follows, behind the client.
const HAS_WRITER: u8 = 8;

/// A forwarded command, to be executed by the primary of its keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exec<'a> {
    /// Sequence number among the origin's commands of the first slot.
    pub oseq: u64,
    /// Sequence number of the origin's first unanswered command of the slot; earlier ones need not
    /// be known here.
    pub first: u64,
    /// The latest epoch in which a primary of one of the slots was appointed.
    pub tenure: u64,
    /// The command.
    pub call: Call<&'a [u8]>,
}

pub(super) fn has_more<A>(call: &Call<A>) -> bool {
    call.wait_ms.is_some()
        || call.client.is_some()
        || call.wants_copies
        || call.tracks
        || call.writer.is_some()
}

/// Appends the body of a forwarded command, with the sequence numbers and the tenure of [`Exec`].
pub(super) fn put_exec<A: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    (oseq, first, tenure): (u64, u64, u64),
    call: &Call<A>,
) {
    put(out, oseq);
    // The lowest bit: the number of slots is not 1.
    let is_one = call.slots.len() == 1;
    put(out, (oseq - first) << 1 | u64::from(!is_one));
    if !is_one {
        put(out, call.slots.len() as u64);
    }
    call.slots.iter().for_each(|&slot| put(out, slot.into()));
    put(out, tenure);
    put(out, call.db.into());
    if has_more(call) {
        let at = out.len();
        put_option(out, call.wait_ms);
        let flag = |on: bool, flag: u8| if on { flag } else { 0 };
        out[at] |= flag(call.wants_copies, WANTS_COPIES)
            | flag(call.tracks, TRACKS)
            | flag(call.writer.is_some(), HAS_WRITER);
        put_option(out, call.client);
        call.writer.into_iter().for_each(|writer| put(out, writer));
    }
    if call.is_transaction {
        put(out, call.commands.len() as u64);
    }
    for command in &call.commands {
        put(out, command.len() as u64);
        command.iter().for_each(|arg| put_bytes(out, arg.as_ref()));
    }
}

/// Takes the body of a forwarded command.
pub(super) fn take_exec<'a>(
    bytes: &mut Bytes<'a>,
    flags: (bool, bool, bool),
) -> Result<Exec<'a>, Malformed> {
    let (mut slots, mut commands) = (Vec::new(), Vec::<Vec<&[u8]>>::new());
    let mut exec = walk_exec(
        bytes,
        flags,
        |slot| slots.push(slot),
        |(command, _), arg| {
            if command == commands.len() {
                commands.push(Vec::new());
            }
            commands[command].push(arg);
        },
    )?;
    (exec.call.slots, exec.call.commands) = (slots, commands);
    Ok(exec)
}

/// Checks the body of a forwarded command, and returns its database and its second word, which most
/// often is its key.
pub(super) fn check_exec<'a>(
    bytes: &mut Bytes<'a>,
    flags: (bool, bool, bool),
) -> Result<(u16, &'a [u8]), Malformed> {
    let mut key: &[u8] = &[];
    let exec = walk_exec(
        bytes,
        flags,
        |_| {},
        |place, arg| {
            if place == (0, 1) {
                key = arg;
            }
        },
    )?;
    Ok((exec.call.db, key))
}

/// Passes the slots and the arguments of a forwarded command, with the numbers of the command and
/// of the argument, to functions, and returns everything else.
fn walk_exec<'a>(
    bytes: &mut Bytes<'a>,
    (is_transaction, resp3, has_more): (bool, bool, bool),
    mut slot: impl FnMut(Slot),
    mut arg: impl FnMut((usize, usize), &'a [u8]),
) -> Result<Exec<'a>, Malformed> {
    let (oseq, before) = (bytes.number()?, bytes.number()?);
    let first = oseq.checked_sub(before >> 1).filter(|&first| first > 0).ok_or(Malformed)?;
    let count = if before & 1 == 0 { 1 } else { take_count(bytes)? };
    for _ in 0..count {
        slot(take_slot(bytes)?);
    }
    let slots_count = count;
    let tenure = bytes.number()?;
    let db = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
    let mut more = More::default();
    if has_more {
        more = More::take(bytes)?;
    }
    let count = if is_transaction { take_count(bytes)? } else { 1 };
    for command in 0..count {
        let args = take_count(bytes)?;
        if args == 0 {
            return Err(Malformed);
        }
        for at in 0..args {
            arg((command, at), bytes.bytes()?);
        }
    }
    if slots_count == 0 {
        return Err(Malformed);
    }
    let (slots, commands) = (Vec::new(), Vec::new());
    let More { wait_ms, client, wants_copies, tracks, writer } = more;
    let call = Call {
        slots,
        db,
        resp3,
        is_transaction,
        wait_ms,
        client,
        wants_copies,
        tracks,
        writer,
        commands,
    };
    Ok(Exec { oseq, first, tenure, call })
}

/// Fields that most calls leave out.
#[derive(Default, PartialEq)]
struct More {
    wait_ms: Option<u64>,
    client: Option<u64>,
    wants_copies: bool,
    tracks: bool,
    writer: Option<u64>,
}

impl More {
    fn take(bytes: &mut Bytes<'_>) -> Result<Self, Malformed> {
        let has = bytes.byte()?;
        let more = More {
            wants_copies: has & WANTS_COPIES != 0,
            tracks: has & TRACKS != 0,
            wait_ms: take_if(has & !(WANTS_COPIES | TRACKS | HAS_WRITER), bytes)?,
            client: take_option(bytes)?,
            writer: take_if(u8::from(has & HAS_WRITER != 0), bytes)?,
        };
        if more == More::default() { Err(Malformed) } else { Ok(more) }
    }
}
