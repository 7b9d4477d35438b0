//! Typed commands, made by the build script from the command table: traits with a method for each
//! command, and methods for the options of each.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use petrel_resp::Value;

use crate::argument::{ArgWriter, ToArg};
use crate::buffer::CommandBuffer;
use crate::request::{Command, DedicatedTarget, Request, Target};
use crate::table::TABLE;

/// An entry of a stream: its ID, and its fields with their values. An entry that was deleted after
/// it was delivered has no fields.
pub type StreamEntry = (String, Vec<(Bytes, Bytes)>);

fn write(to: &mut CommandBuffer, argument: &impl ToArg) {
    argument.write_arg(&mut ArgWriter(to));
}

/// Writes the first of each pair, then the second of each.
fn pairs_apart(to: &mut CommandBuffer, pairs: impl IntoIterator<Item = (impl ToArg, impl ToArg)>) {
    let mut seconds = Vec::new();
    for (first, second) in pairs {
        write(to, &first);
        seconds.push(second);
    }
    seconds.iter().for_each(|second| write(to, second));
}

include!(concat!(env!("OUT_DIR"), "/typed.rs"));
