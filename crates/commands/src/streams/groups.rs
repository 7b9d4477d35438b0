//! XGROUP.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::integer;
use crate::streams::{parse_bound, parse_id, wrong_subcommand};
use petrel_keyspace::types::stream::{Stream, StreamId, StreamMut};
use petrel_table::options::StreamGroupOption;

const NO_KEY: Fail = Fail::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
);

/// Maximum number of words, including the command name.
const CREATE_WORDS_MAX: usize = 8;
const SETID_WORDS_MAX: usize = 7;

struct Options {
    mkstream: bool,
    read: Option<u64>,
}

/// `XGROUP CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read]`
pub(super) fn create(ctx: &mut Ctx<'_>) -> Outcome {
    const BUSY: Fail = Fail::fixed("BUSYGROUP Consumer Group name already exists");
    let options = options(ctx, true)?;
    let (key, db, group, id) = (ctx.key(2), ctx.db(), ctx.arg(3), ctx.arg(4));
    let known = match ctx.exec.ks.look(db, key) {
        Some(view) => Some(view.stream()?),
        None if options.mkstream => None,
        None => return Err(NO_KEY),
    };
    let id = position(known.unwrap_or(&Stream::new()), id)?;
    if known.is_some_and(|stream| stream.groups().get(group).is_some()) {
        return Err(BUSY);
    }
    let is_new = known.is_none();
    let Some(mut stream) = ctx.exec.ks.open_stream(db, key, true)? else { return Err(NO_KEY) };
    if is_new {
        stream.set(StreamId::MIN, 0, StreamId::MIN);
    }
    let read = options.read.map(|read| read.min(stream.added()));
    stream.put_group(group, id, read);
    drop(stream);
    if is_new {
        ctx.exec.ks.signal_modified(db, key);
    }
    ctx.ok()
}

/// `XGROUP SETID key group <id | $> [ENTRIESREAD entries-read]`
pub(super) fn setid(ctx: &mut Ctx<'_>) -> Outcome {
    let options = options(ctx, false)?;
    let (group, id) = (ctx.arg(3), ctx.arg(4));
    let mut stream = existing(ctx)?;
    let id = match id {
        b"-" | b"+" => parse_bound(id, 0)?,
        id => position(&stream, id)?,
    };
    let read = options.read.map(|read| read.min(stream.added()));
    stream.put_group(group, id, read);
    drop(stream);
    ctx.ok()
}

/// `XGROUP DESTROY key group`
pub(super) fn destroy(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, group) = (ctx.key(2), ctx.db(), ctx.arg(3));
    let mut stream = ctx.exec.ks.stream_mut(db, key)?.ok_or(NO_KEY)?;
    let removed = stream.remove_group(group);
    drop(stream);
    ctx.number(removed.into())
}

/// `XGROUP CREATECONSUMER key group consumer`
pub(super) fn createconsumer(ctx: &mut Ctx<'_>) -> Outcome {
    let (group, consumer) = (ctx.arg(3), ctx.arg(4));
    let mut stream = existing(ctx)?;
    let known = stream.groups().get(group).and_then(|group| group.consumer_id(consumer));
    if known.is_none() {
        stream.see_consumer(group, consumer);
    }
    drop(stream);
    ctx.number(known.is_none().into())
}

/// `XGROUP DELCONSUMER key group consumer`
pub(super) fn delconsumer(ctx: &mut Ctx<'_>) -> Outcome {
    let (group, consumer) = (ctx.arg(3), ctx.arg(4));
    let mut stream = existing(ctx)?;
    let pending = stream.remove_consumer(group, consumer).unwrap_or(0);
    drop(stream);
    ctx.number(pending as i64)
}

/// The stream at the key, if it has the group.
fn existing<'c>(ctx: &'c mut Ctx<'_>) -> Result<StreamMut<'c>, Fail> {
    let (key, db, group) = (ctx.key(2), ctx.db(), ctx.arg(3));
    let stream = ctx.exec.ks.stream_mut(db, key)?.ok_or(NO_KEY)?;
    if stream.groups().get(group).is_none() {
        return Err(no_group(key.bytes, group));
    }
    Ok(stream)
}

/// Error of a missing group in an existing stream.
pub(super) fn no_group(key: &[u8], group: &[u8]) -> Fail {
    let parts: [&[u8]; 5] =
        [b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"];
    Fail::new(parts.concat())
}

/// Parses the ID up to which a group counts as having read.
fn position(stream: &Stream, id: &[u8]) -> Result<StreamId, Fail> {
    match id {
        b"$" => Ok(stream.last_id()),
        id => parse_id(id, 0),
    }
}

fn options(ctx: &Ctx<'_>, creates: bool) -> Result<Options, Fail> {
    const NEGATIVE: Fail = Fail::fixed("ERR value for ENTRIESREAD must be positive or -1");
    if ctx.args().len() > if creates { CREATE_WORDS_MAX } else { SETID_WORDS_MAX } {
        return Err(wrong_subcommand(ctx));
    }
    let mut options = Options { mkstream: false, read: None };
    for option in ctx.options(5) {
        match option {
            Ok(StreamGroupOption::Mkstream) if creates => options.mkstream = true,
            Ok(StreamGroupOption::Entriesread(read)) => {
                options.read = match integer(read)? {
                    -1 => None,
                    read => Some(u64::try_from(read).map_err(|_| NEGATIVE)?),
                };
            }
            _ => return Err(wrong_subcommand(ctx)),
        }
    }
    Ok(options)
}
