//! Forwarded commands.

use super::codecs::{put_option, take_count, take_if, take_option, take_slot};
use crate::slot::Slot;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put, put_bytes};

/// Flag in the byte that says whether a timeout follows: [`Exec::by_key`].
const BY_KEY: u8 = 2;
/// Flag in the same byte: [`Exec::wants_copies`].
const WANTS_COPIES: u8 = 4;

/// A forwarded command, to be executed by the primary of its keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exec<'a> {
    /// Sequence number among the origin's commands of the first slot.
    pub oseq: u64,
    /// Sequence number of the origin's first unanswered command of the slot; earlier ones need not
    /// be known here.
    pub first: u64,
    /// The slots of its keys; its order is that of the first.
    pub slots: Vec<Slot>,
    /// The latest epoch in which a primary of one of the slots was appointed.
    pub tenure: u64,
    /// The selected database.
    pub db: u16,
    /// Whether the reply is to be written in RESP3.
    pub resp3: bool,
    /// Whether the commands form a transaction; otherwise there is only one.
    pub is_transaction: bool,
    /// Remaining timeout in milliseconds, if it was blocked at another primary before.
    pub wait_ms: Option<u64>,
    /// Identifies the keys that the origin's client watches at the primary, if any.
    pub client: Option<u64>,
    /// Whether it is no atomic commit of several slots: it only reads, or works on each key by
    /// itself.
    pub by_key: bool,
    /// Whether the origin wants copies of the keys that it reads ([`Record::Copy`]).
    pub wants_copies: bool,
    /// The commands, each with its name and arguments.
    pub commands: Vec<Vec<&'a [u8]>>,
}

pub(super) fn has_more(exec: &Exec<'_>) -> bool {
    exec.wait_ms.is_some() || exec.client.is_some() || exec.by_key || exec.wants_copies
}

pub(super) fn put_exec(out: &mut Vec<u8>, exec: &Exec<'_>) {
    put(out, exec.oseq);
    // The lowest bit: the number of slots is not 1.
    let is_one = exec.slots.len() == 1;
    put(out, (exec.oseq - exec.first) << 1 | u64::from(!is_one));
    if !is_one {
        put(out, exec.slots.len() as u64);
    }
    exec.slots.iter().for_each(|&slot| put(out, slot.into()));
    put(out, exec.tenure);
    put(out, exec.db.into());
    if has_more(exec) {
        let at = out.len();
        put_option(out, exec.wait_ms);
        out[at] |= if exec.by_key { BY_KEY } else { 0 };
        out[at] |= if exec.wants_copies { WANTS_COPIES } else { 0 };
        put_option(out, exec.client);
    }
    if exec.is_transaction {
        put(out, exec.commands.len() as u64);
    }
    for command in &exec.commands {
        put(out, command.len() as u64);
        command.iter().for_each(|arg| put_bytes(out, arg));
    }
}

pub(super) fn take_exec<'a>(
    bytes: &mut Bytes<'a>,
    (is_transaction, resp3, has_more): (bool, bool, bool),
) -> Result<Exec<'a>, Malformed> {
    let (oseq, before) = (bytes.number()?, bytes.number()?);
    let first = oseq.checked_sub(before >> 1).filter(|&first| first > 0).ok_or(Malformed)?;
    let count = if before & 1 == 0 { 1 } else { take_count(bytes)? };
    let slots = (0..count).map(|_| take_slot(bytes)).collect::<Result<Vec<_>, _>>()?;
    let tenure = bytes.number()?;
    let db = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
    let (mut wait_ms, mut client) = (None, None);
    let (mut by_key, mut wants_copies) = (false, false);
    if has_more {
        let has = bytes.byte()?;
        (by_key, wants_copies) = (has & BY_KEY != 0, has & WANTS_COPIES != 0);
        wait_ms = take_if(has & !(BY_KEY | WANTS_COPIES), bytes)?;
        client = take_option(bytes)?;
        if wait_ms.is_none() && client.is_none() && !by_key && !wants_copies {
            return Err(Malformed);
        }
    }
    let count = if is_transaction { take_count(bytes)? } else { 1 };
    let mut commands = Vec::new();
    for _ in 0..count {
        let args = take_count(bytes)?;
        let command = (0..args).map(|_| bytes.bytes()).collect::<Result<Vec<_>, _>>()?;
        commands.push(command);
    }
    if slots.is_empty() || commands.iter().any(Vec::is_empty) {
        return Err(Malformed);
    }
    Ok(Exec {
        oseq,
        first,
        slots,
        tenure,
        db,
        resp3,
        is_transaction,
        wait_ms,
        client,
        by_key,
        wants_copies,
        commands,
    })
}
