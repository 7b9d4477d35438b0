//! Forwarded commands.

use super::codecs::{put_option, take_count, take_if, take_option, take_slot};
use crate::slot::Slot;
use petrel_keyspace::Call;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put, put_bytes};

/// Flag in the byte that says whether a timeout follows: [`Call::wants_copies`].
const WANTS_COPIES: u8 = 2;

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
    call.wait_ms.is_some() || call.client.is_some() || call.wants_copies
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
        out[at] |= if call.wants_copies { WANTS_COPIES } else { 0 };
        put_option(out, call.client);
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
    let (mut wait_ms, mut client, mut wants_copies) = (None, None, false);
    if has_more {
        let has = bytes.byte()?;
        wants_copies = has & WANTS_COPIES != 0;
        wait_ms = take_if(has & !WANTS_COPIES, bytes)?;
        client = take_option(bytes)?;
        if wait_ms.is_none() && client.is_none() && !wants_copies {
            return Err(Malformed);
        }
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
    let call = Call { slots, db, resp3, is_transaction, wait_ms, client, wants_copies, commands };
    Ok(Exec { oseq, first, tenure, call })
}
