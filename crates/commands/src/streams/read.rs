//! XREAD.

use crate::blocking::{Awaited, Block};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::UNITS_PER_CHANGE;
use crate::streams::budget::{Budget, entry_len};
use crate::streams::reading::{Reading, reading};
use crate::streams::{parse_id, write_entry};
use petrel_keyspace::types::stream::{EntryRef, Stream, StreamId};
use petrel_resp::{Protocol, Reply};

const FOR_GROUPS_ONLY: Fail = Fail::fixed(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
);

/// Stream to read.
struct Part {
    key: usize,
    /// Entries above this ID.
    after: StreamId,
    len: usize,
}

/// `XREAD [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key [key
/// ...] id [id ...]`
pub(super) fn xread(ctx: &mut Ctx<'_>) -> Outcome {
    let reading = reading(ctx, false)?;
    let db = ctx.db();
    let mut parts = Vec::with_capacity(reading.keys.len());
    for key in reading.keys.clone() {
        let view = ctx.exec.ks.read(db, ctx.key(key));
        let stream = view.map(|view| view.stream()).transpose()?;
        let id = ctx.request.args[reading.id(key)];
        parts.push(part(stream, key, id, reading.count)?);
    }
    if reading.budget.is_limited() {
        limit(ctx, &mut parts, reading.budget)?;
    }
    let served = parts.iter().filter(|part| part.len > 0).count();
    if served == 0 {
        return wait(ctx, &reading, &parts);
    }
    // The same stream may be named many times.
    let (mut pacer, entries) = (ctx.exec.pacer(), parts.iter().map(|part| part.len));
    pacer.pace(entries.sum::<usize>().saturating_mul(UNITS_PER_CHANGE))?;
    begin(ctx.reply, served);
    for part in parts.iter().filter(|part| part.len > 0) {
        let Some(view) = ctx.exec.ks.view(db, ctx.key(part.key)) else { continue };
        begin_stream(ctx.reply, ctx.request.args[part.key], part.len);
        for entry in part.entries(view.stream()?) {
            write_entry(ctx.reply, entry);
            pacer.pace_reply(UNITS_PER_CHANGE)?;
        }
    }
    Ok(())
}

impl Part {
    fn entries<'a>(&self, stream: &'a Stream) -> impl Iterator<Item = EntryRef<'a>> + use<'a> {
        let start = self.after.next().unwrap_or(StreamId::MAX);
        stream.range(start, StreamId::MAX).take(self.len)
    }
}

/// Cuts the parts to the budget of the reply.
fn limit(ctx: &mut Ctx<'_>, parts: &mut [Part], mut budget: Budget) -> Outcome {
    for part in parts {
        let key = ctx.key(part.key);
        let Some(view) = ctx.exec.ks.view(ctx.session.db, key) else { continue };
        part.len = if budget.is_spent() {
            0
        } else {
            budget.take(key.bytes, part.entries(view.stream()?).map(entry_len))
        };
    }
    Ok(())
}

fn part(stream: Option<&Stream>, key: usize, id: &[u8], count: usize) -> Result<Part, Fail> {
    let last = stream.map_or(StreamId::MIN, |stream| stream.last_id());
    let (after, count) = match id {
        b"$" => (last, count),
        // The last entry; in an empty stream, new entries.
        b"+" => match stream.map(|stream| stream.last_entry_id()) {
            Some(id) if id != StreamId::MIN => (id.previous().unwrap_or_default(), 1),
            _ => (last, count),
        },
        b">" => return Err(FOR_GROUPS_ONLY),
        id => (parse_id(id, 0)?, count),
    };
    let len = match (stream, after.next()) {
        (Some(stream), Some(start)) => stream.count(start, StreamId::MAX, count),
        _ => 0,
    };
    Ok(Part { key, after, len })
}

fn wait(ctx: &mut Ctx<'_>, reading: &Reading<'_>, parts: &[Part]) -> Outcome {
    let Some(deadline) = reading.block else {
        ctx.reply.null_array();
        return Ok(());
    };
    let mut block = Block::on(reading.keys.clone(), Awaited::STREAM).until(deadline);
    for part in parts {
        let id = reading.id(part.key);
        if matches!(ctx.arg(id), b"$" | b"+") {
            block = block.replacing(id, part.after.to_string().into_bytes());
        }
    }
    ctx.block(block)
}

/// Begins the reply for several streams.
pub(super) fn begin(reply: &mut dyn Reply, streams: usize) {
    match reply.protocol() {
        Protocol::Resp2 => reply.array(streams),
        Protocol::Resp3 => reply.map(streams),
    }
}

/// Begins the part of one stream.
pub(super) fn begin_stream(reply: &mut dyn Reply, key: &[u8], len: usize) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key);
    reply.array(len);
}
