//! Streams: XADD and its kin. Consumer groups: `groups.rs`, `read_group.rs`, `pending.rs`,
//! `claim.rs`.

mod add;
mod budget;
mod claim;
mod delete;
mod groups;
mod info;
mod pending;
mod produce;
mod range;
mod read;
mod read_group;
mod reading;
mod trim;

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::server::help::help;
use crate::spec::CommandSpec;
use petrel_keyspace::types::stream::{EntryRef, IdText, StreamId};
use petrel_resp::Reply;
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::XADD, add::xadd),
    CommandSpec::new(&meta::XTRIM, trim::xtrim),
    CommandSpec::new(&meta::XCFGSET, produce::xcfgset),
    CommandSpec::new(&meta::XIDMPRECORD, produce::xidmprecord),
    CommandSpec::new(&meta::XLEN, range::xlen),
    CommandSpec::new(&meta::XRANGE, range::xrange),
    CommandSpec::new(&meta::XREVRANGE, range::xrevrange),
    CommandSpec::new(&meta::XREAD, read::xread),
    CommandSpec::new(&meta::XREADGROUP, read_group::xreadgroup),
    CommandSpec::new(&meta::XDEL, delete::xdel),
    CommandSpec::new(&meta::XDELEX, delete::xdelex),
    CommandSpec::new(&meta::XACKDEL, delete::xackdel),
    CommandSpec::new(&meta::XSETID, add::xsetid),
    CommandSpec::new(&meta::XACK, pending::xack),
    CommandSpec::new(&meta::XNACK, pending::xnack),
    CommandSpec::new(&meta::XPENDING, pending::xpending),
    CommandSpec::new(&meta::XCLAIM, claim::xclaim),
    CommandSpec::new(&meta::XAUTOCLAIM, claim::xautoclaim),
    CommandSpec::container(&meta::XGROUP, GROUP_COMMANDS),
    CommandSpec::container(&meta::XINFO, INFO_COMMANDS),
];

static GROUP_COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::XGROUP_CREATE, groups::create),
    CommandSpec::new(&meta::XGROUP_CREATECONSUMER, groups::createconsumer),
    CommandSpec::new(&meta::XGROUP_DELCONSUMER, groups::delconsumer),
    CommandSpec::new(&meta::XGROUP_DESTROY, groups::destroy),
    CommandSpec::new(&meta::XGROUP_HELP, help),
    CommandSpec::new(&meta::XGROUP_SETID, groups::setid),
];

static INFO_COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::XINFO_CONSUMERS, info::consumers),
    CommandSpec::new(&meta::XINFO_GROUPS, info::groups),
    CommandSpec::new(&meta::XINFO_HELP, help),
    CommandSpec::new(&meta::XINFO_STREAM, info::stream),
];

const INVALID_ID: Fail = Fail::fixed("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: Fail = Fail::fixed("ERR invalid start ID for the interval");
const INVALID_END: Fail = Fail::fixed("ERR invalid end ID for the interval");

/// Maximum length of an ID's text.
const ID_LEN_MAX: usize = 127;

/// Parses `ms-seq`, or `ms` alone with `seq_if_missing`.
fn parse_id(text: &[u8], seq_if_missing: u64) -> Result<StreamId, Fail> {
    if text.len() > ID_LEN_MAX {
        return Err(INVALID_ID);
    }
    StreamId::parse(text, seq_if_missing).ok_or(INVALID_ID)
}

/// Parses all arguments of a range as IDs.
fn parse_ids(args: &[&[u8]]) -> Result<Vec<StreamId>, Fail> {
    args.iter().map(|text| parse_id(text, 0)).collect()
}

/// Parses the start of an interval: an ID, `-` or `+`; `(` before an ID excludes it.
fn parse_start(text: &[u8]) -> Result<StreamId, Fail> {
    match text {
        [b'(', rest @ ..] => parse_id(rest, 0)?.next().ok_or(INVALID_START),
        text => parse_bound(text, 0),
    }
}

/// Parses the end of an interval, likewise.
fn parse_end(text: &[u8]) -> Result<StreamId, Fail> {
    match text {
        [b'(', rest @ ..] => parse_id(rest, u64::MAX)?.previous().ok_or(INVALID_END),
        text => parse_bound(text, u64::MAX),
    }
}

fn parse_bound(text: &[u8], seq_if_missing: u64) -> Result<StreamId, Fail> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        text => parse_id(text, seq_if_missing),
    }
}

/// Writes an ID.
fn write_id(reply: &mut dyn Reply, id: StreamId) {
    reply.bulk(id.text(&mut IdText::default()));
}

/// Writes an entry: its ID and its fields.
fn write_entry(reply: &mut dyn Reply, entry: EntryRef<'_>) {
    reply.array(2);
    write_id(reply, entry.id);
    write_fields(reply, entry);
}

fn write_fields(reply: &mut dyn Reply, entry: EntryRef<'_>) {
    reply.array(2 * entry.fields.len());
    for (name, value) in entry.fields {
        reply.bulk(name.bytes(&mut itoa::Buffer::new()));
        reply.bulk(value.bytes(&mut itoa::Buffer::new()));
    }
}

/// Writes a number that may be unknown.
fn write_known(reply: &mut dyn Reply, n: Option<i64>) {
    match n {
        Some(n) => reply.integer(n),
        None => reply.null(),
    }
}

/// Error for a key or a group that does not exist.
fn no_such_group(ctx: &Ctx<'_>, key: usize, group: usize) -> Fail {
    let (key, group) = (ctx.arg(key), ctx.arg(group));
    Fail::new([b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"].concat())
}

/// Checks that the key at argument 1 is a stream with the group at argument 2.
fn check_group(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, group) = (ctx.key(1), ctx.db(), ctx.arg(2));
    let found = match ctx.exec.ks.read(db, key) {
        Some(view) => view.stream()?.groups().get(group).is_some(),
        None => false,
    };
    if found { Ok(()) } else { Err(no_such_group(ctx, 1, 2)) }
}

/// Error of a subcommand with wrong options.
fn wrong_subcommand(ctx: &Ctx<'_>) -> Fail {
    let container = ctx.arg(0).to_ascii_uppercase();
    let parts: [&[u8]; 5] = [
        b"ERR unknown subcommand or wrong number of arguments for '",
        ctx.arg(1),
        b"'. Try ",
        &container,
        b" HELP.",
    ];
    Fail::new(parts.concat())
}
