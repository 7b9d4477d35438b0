//! XINFO.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{Pacer, UNITS_PER_CHANGE, expect};
use crate::streams::groups::no_group;
use crate::streams::{write_entry, write_id, write_known, wrong_subcommand};
use petrel_keyspace::types::stream::{Consumer, EntryRef, Group, Producers, Stream, StreamId};
use petrel_resp::{Dialect, Reply};

/// Number of fields on a stream, and of fields that only Redis has.
const FIGURES: usize = 7;
const PRODUCER_FIGURES: usize = 6;

/// Default number of entries, and of pending entries per group and consumer, in XINFO STREAM FULL.
const SHOWN: usize = 10;

/// `XINFO STREAM key [FULL [COUNT count]]`
pub(super) fn stream(ctx: &mut Ctx<'_>) -> Outcome {
    let shown = match ctx.args().len() {
        3 => None,
        4 if ctx.is(3, "FULL") => Some(SHOWN),
        6 if ctx.is(3, "FULL") && ctx.is(4, "COUNT") => Some(match ctx.integer(5)? {
            ..0 => SHOWN,
            0 => usize::MAX,
            count => usize::try_from(count).unwrap_or(usize::MAX),
        }),
        _ => return Err(wrong_subcommand(ctx)),
    };
    let (key, db) = (ctx.key(2), ctx.db());
    if let Ok(Some(mut stream)) = ctx.exec.ks.stream_mut(db, key) {
        stream.forget_producers();
    }
    let (dialect, mut pacer) = (ctx.dialect(), ctx.exec.pacer());
    let view = ctx.exec.ks.read(db, key).ok_or(Fail::NO_SUCH_KEY)?;
    let stream = view.stream()?;
    if let Some(max) = shown {
        expect(full_len(stream, max).saturating_mul(UNITS_PER_CHANGE), ctx.exec.units_here)?;
    }
    let reply = &mut *ctx.reply;
    let more = if shown.is_some() { 2 } else { 3 };
    reply.map(more + dialect.choose(FIGURES + PRODUCER_FIGURES, FIGURES));
    figures(stream, reply);
    if !dialect.is_valkey() {
        producer_figures(stream, reply);
    }
    match shown {
        None => {
            field(reply, "groups", stream.groups().len() as i64);
            reply.bulk(b"first-entry");
            entry(reply, stream.range(StreamId::MIN, StreamId::MAX).next());
            reply.bulk(b"last-entry");
            entry(reply, stream.rev_range(StreamId::MIN, StreamId::MAX).next());
        }
        Some(max) => {
            reply.bulk(b"entries");
            let len = stream.count(StreamId::MIN, StreamId::MAX, max);
            reply.array(len);
            for entry in stream.range(StreamId::MIN, StreamId::MAX).take(len) {
                write_entry(reply, entry);
                pacer.pace_reply(UNITS_PER_CHANGE)?;
            }
            reply.bulk(b"groups");
            reply.array(stream.groups().len());
            for (name, group) in stream.groups().iter() {
                full_group(stream, dialect, (name, group), max, (reply, &mut pacer))?;
            }
        }
    }
    Ok(())
}

/// Number of entries and pending entries that XINFO STREAM FULL returns, with at most `max` each.
fn full_len(stream: &Stream, max: usize) -> usize {
    let pending = stream.groups().iter().map(|(_, group)| group.pending_len());
    // Each is returned for its group and for its consumer.
    pending.fold(max.min(stream.len() as usize), |sum, len| sum + 2 * len.min(max))
}

/// Writes the fields of both forms of XINFO STREAM: [`FIGURES`] fields.
fn figures(stream: &Stream, reply: &mut dyn Reply) {
    field(reply, "length", stream.len() as i64);
    field(reply, "radix-tree-keys", stream.nodes() as i64);
    field(reply, "radix-tree-nodes", stream.radix_nodes() as i64);
    id_field(reply, "last-generated-id", stream.last_id());
    id_field(reply, "max-deleted-entry-id", stream.max_deleted());
    field(reply, "entries-added", stream.added() as i64);
    id_field(reply, "recorded-first-entry-id", stream.first_id());
}

/// Writes the fields on idempotent producers (`IDMP`), which Valkey does not have:
/// [`PRODUCER_FIGURES`] fields.
fn producer_figures(stream: &Stream, reply: &mut dyn Reply) {
    let none = Producers::default();
    let producers = stream.producers().unwrap_or(&none);
    field(reply, "idmp-duration", producers.duration_s().into());
    field(reply, "idmp-maxsize", producers.ids_max().into());
    field(reply, "pids-tracked", producers.producers_len() as i64);
    field(reply, "iids-tracked", producers.ids_len() as i64);
    field(reply, "iids-added", producers.added() as i64);
    field(reply, "iids-duplicates", producers.duplicates() as i64);
}

fn full_group(
    stream: &Stream,
    dialect: Dialect,
    (name, group): (&[u8], &Group),
    max: usize,
    (reply, pacer): (&mut dyn Reply, &mut Pacer),
) -> Outcome {
    reply.map(dialect.choose(8, 7));
    reply.bulk(b"name");
    reply.bulk(name);
    id_field(reply, "last-delivered-id", group.last_delivered());
    progress(stream, dialect, group, reply);
    field(reply, "pel-count", group.pending_len() as i64);
    if !dialect.is_valkey() {
        field(reply, "nacked-count", group.nacked_len() as i64);
    }
    reply.bulk(b"pending");
    reply.array(group.pending_len().min(max));
    for (id, pending) in group.pending_from(StreamId::MIN).take(max) {
        let owner = pending.owner.and_then(|owner| group.consumer(owner));
        reply.array(4);
        write_id(reply, id);
        reply.bulk(owner.map_or(b"", |owner| owner.name()));
        reply.integer(pending.delivered_ms);
        reply.integer(pending.count as i64);
        pacer.pace_reply(UNITS_PER_CHANGE)?;
    }
    reply.bulk(b"consumers");
    reply.array(group.consumers_len());
    group.consumers().try_for_each(|consumer| full_consumer(group, consumer, max, (reply, pacer)))
}

fn full_consumer(
    group: &Group,
    consumer: &Consumer,
    max: usize,
    (reply, pacer): (&mut dyn Reply, &mut Pacer),
) -> Outcome {
    reply.map(5);
    reply.bulk(b"name");
    reply.bulk(consumer.name());
    field(reply, "seen-time", consumer.seen_ms());
    field(reply, "active-time", consumer.active_ms().unwrap_or(-1));
    field(reply, "pel-count", consumer.pending_len() as i64);
    reply.bulk(b"pending");
    reply.array(consumer.pending_len().min(max));
    for id in consumer.pending(StreamId::MIN).take(max) {
        let (delivered_ms, count) =
            group.pending(id).map_or((0, 0), |pending| (pending.delivered_ms, pending.count));
        reply.array(3);
        write_id(reply, id);
        reply.integer(delivered_ms);
        reply.integer(count as i64);
        pacer.pace_reply(UNITS_PER_CHANGE)?;
    }
    Ok(())
}

/// `XINFO GROUPS key`
pub(super) fn groups(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, dialect) = (ctx.key(2), ctx.dialect());
    let view = ctx.exec.ks.read(ctx.session.db, key).ok_or(Fail::NO_SUCH_KEY)?;
    let stream = view.stream()?;
    let reply = &mut *ctx.reply;
    reply.array(stream.groups().len());
    for (name, group) in stream.groups().iter() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        field(reply, "consumers", group.consumers_len() as i64);
        field(reply, "pending", group.pending_len() as i64);
        id_field(reply, "last-delivered-id", group.last_delivered());
        progress(stream, dialect, group, reply);
    }
    Ok(())
}

/// `XINFO CONSUMERS key group`
pub(super) fn consumers(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, name) = (ctx.key(2), ctx.arg(3));
    let now = ctx.exec.ks.now_ms();
    let view = ctx.exec.ks.read(ctx.session.db, key).ok_or(Fail::NO_SUCH_KEY)?;
    let Some(group) = view.stream()?.groups().get(name) else {
        return Err(no_group(key.bytes, name));
    };
    let reply = &mut *ctx.reply;
    reply.array(group.consumers_len());
    for consumer in group.consumers() {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(consumer.name());
        field(reply, "pending", consumer.pending_len() as i64);
        field(reply, "idle", (now - consumer.seen_ms()).max(0));
        let inactive = consumer.active_ms().map_or(-1, |active| (now - active).max(0));
        field(reply, "inactive", inactive);
    }
    Ok(())
}

/// Writes the number of entries that a group has read, and its lag. Entries trimmed before they
/// were read count as lag for Valkey if the number of read entries is known, but not for Redis.
fn progress(stream: &Stream, dialect: Dialect, group: &Group, reply: &mut dyn Reply) {
    reply.bulk(b"entries-read");
    write_known(reply, group.entries_read().map(|read| read as i64));
    reply.bulk(b"lag");
    let lag = match dialect {
        Dialect::Redis => stream.lag(group),
        Dialect::Valkey => stream.lag_with_trimmed(group),
    };
    write_known(reply, lag);
}

fn entry(reply: &mut dyn Reply, entry: Option<EntryRef<'_>>) {
    match entry {
        Some(entry) => write_entry(reply, entry),
        None => reply.null(),
    }
}

fn field(reply: &mut dyn Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(value);
}

fn id_field(reply: &mut dyn Reply, name: &str, id: StreamId) {
    reply.bulk(name.as_bytes());
    write_id(reply, id);
}
