//! Routing of commands, and splitting of commands with keys of several slots.

use std::collections::BTreeMap;

use petrel_resp::Value;

use super::ReadFrom;
use super::slots::slot_of;
use crate::error::{Error, Result};
use crate::request::Command;

/// Destination of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// The slot of its key, if it has one.
    pub(super) slot: Option<u16>,
    /// Whether a replica will do.
    pub(super) may_read_replica: bool,
}

impl Route {
    pub(super) fn of(command: &Command, read_from: ReadFrom) -> Self {
        let slot = command.first_key().map(slot_of);
        let may_read_replica =
            slot.is_some() && command.info.is_readonly && read_from == ReadFrom::Replicas;
        Self { slot, may_read_replica }
    }
}

/// A part of a command: the same with the keys of one slot.
pub(super) struct Part {
    pub(super) command: Command,
    /// Indices of these keys in the command.
    pub(super) indices: Vec<usize>,
}

/// The parts of a command that consists of keys of several slots; `None` for other commands.
pub(super) fn split(command: &Command) -> Option<Vec<Part>> {
    if !matches!(command.info.name, "MGET" | "EXISTS" | "TOUCH" | "DEL" | "UNLINK") {
        return None;
    }
    let keys = || command.arguments().skip(1);
    let first = slot_of(keys().next()?);
    if keys().all(|key| slot_of(key) == first) {
        return None;
    }
    let mut parts: BTreeMap<u16, Part> = BTreeMap::new();
    for (index, key) in keys().enumerate() {
        let new = || Part { command: Command::new(command.info), indices: Vec::new() };
        let part = parts.entry(slot_of(key)).or_insert_with(new);
        part.command.buffer.push_argument(key);
        part.indices.push(index);
    }
    Some(parts.into_values().collect())
}

/// Joins the replies to the parts of a command; `indices` are the keys of each.
pub(super) fn merge(name: &str, indices: Vec<Vec<usize>>, replies: Vec<Value>) -> Result<Value> {
    if name != "MGET" {
        let mut sum = 0i64;
        for reply in replies {
            match reply {
                Value::Integer(count) => sum = sum.saturating_add(count),
                Value::Error(text) => return Err(Error::from_reply(&text)),
                other => return Err(Error::unexpected("an integer", &other)),
            }
        }
        return Ok(Value::Integer(sum));
    }
    let mut values = vec![Value::Null; indices.iter().map(Vec::len).sum()];
    for (indices, reply) in indices.into_iter().zip(replies) {
        match reply {
            Value::Array(items) if items.len() == indices.len() => {
                for (index, item) in indices.into_iter().zip(items) {
                    values[index] = item;
                }
            }
            Value::Error(text) => return Err(Error::from_reply(&text)),
            other => return Err(Error::unexpected("an array of a value for each key", &other)),
        }
    }
    Ok(Value::Array(values))
}
