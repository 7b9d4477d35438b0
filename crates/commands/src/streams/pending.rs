//! Pending entries, delivered and not yet acknowledged: XACK, XNACK and XPENDING.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{Pacer, UNITS_PER_CHANGE, UNITS_PER_ITEM, expect};
use crate::numbers::integer;
use crate::streams::{check_group, no_such_group, parse_end, parse_ids, parse_start, write_id};
use petrel_keyspace::types::stream::{Group, Pending, StreamId};
use petrel_resp::Reply;
use petrel_table::options::{Options, Reader, XnackOption};
use std::ops::Range;

/// `XACK key group id [id ...]`
pub(super) fn xack(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, args, group) = (ctx.key(1), ctx.db(), ctx.args(), ctx.arg(2));
    ctx.exec.ks.read(db, key);
    let stream = ctx.exec.ks.stream_mut(db, key)?;
    let Some(mut stream) = stream.filter(|stream| stream.groups().get(group).is_some()) else {
        return ctx.number(0);
    };
    let ids = parse_ids(&args[3..])?;
    let acknowledged = ids.into_iter().filter(|&id| stream.remove_pending(group, id)).count();
    ctx.reply.integer(acknowledged as i64);
    Ok(())
}

/// Effect of XNACK on the delivery counter.
#[derive(Clone, Copy)]
enum Mode {
    Silent,
    Fail,
    Fatal,
}

struct Nack {
    mode: Mode,
    ids: Range<usize>,
    retries: Option<u64>,
    force: bool,
}

impl Nack {
    fn count(&self, before: u64) -> u64 {
        self.retries.unwrap_or(match self.mode {
            Mode::Silent => before.saturating_sub(1),
            Mode::Fail => before,
            Mode::Fatal => i64::MAX as u64,
        })
    }
}

/// `XNACK key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]`
pub(super) fn xnack(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, args, group) = (ctx.key(1), ctx.db(), ctx.args(), ctx.arg(2));
    check_group(ctx)?;
    let nack = nack(ctx)?;
    let ids = parse_ids(&args[nack.ids.clone()])?;
    let Some(mut stream) = ctx.exec.ks.stream_mut(db, key)? else {
        return Err(no_such_group(ctx, 1, 2));
    };
    let mut released = 0;
    for id in ids {
        let pending = stream.groups().get(group).and_then(|group| group.pending(id));
        let before = match pending {
            Some(pending) => pending.count,
            None if nack.force && stream.contains(id) => 0,
            None => continue,
        };
        let count = nack.count(before);
        stream.put_pending(group, id, Pending { owner: None, delivered_ms: 0, count });
        released += 1;
    }
    ctx.reply.integer(released);
    Ok(())
}

fn nack(ctx: &Ctx<'_>) -> Result<Nack, Fail> {
    const MODE: Fail = Fail::fixed("ERR mode must be SILENT, FAIL, or FATAL");
    const NOT_POSITIVE: Fail = Fail::fixed("ERR numids must be a positive integer");
    const NO_MATCH: Fail = Fail::fixed("ERR number of IDs doesn't match numids");
    const NEGATIVE: Fail = Fail::fixed("ERR Invalid RETRYCOUNT value, must be >= 0");
    const NO_IDS: Fail = Fail::fixed("ERR syntax error, expected IDS keyword");
    let mode = match () {
        () if ctx.is(3, "SILENT") => Mode::Silent,
        () if ctx.is(3, "FAIL") => Mode::Fail,
        () if ctx.is(3, "FATAL") => Mode::Fatal,
        () => return Err(MODE),
    };
    let mut nack = Nack { mode, ids: 0..0, retries: None, force: false };
    let mut options = ctx.options(4);
    while let Some(option) = options.next() {
        match option {
            Ok(XnackOption::Ids(count)) => {
                nack.ids = ids(ctx, &mut options, count, NOT_POSITIVE, NO_MATCH)?
            }
            Ok(XnackOption::Retrycount(count)) => {
                nack.retries = Some(u64::try_from(integer(count)?).map_err(|_| NEGATIVE)?);
            }
            Ok(XnackOption::Force) => nack.force = true,
            Err(unread) => {
                let text = [b"ERR Unrecognized XNACK option '", unread.word(), b"'"].concat();
                return Err(Fail::new(text));
            }
        }
    }
    if nack.ids.is_empty() { Err(NO_IDS) } else { Ok(nack) }
}

/// Parses `IDS numids id...`, and returns the range of the ID arguments. The errors are for a bad
/// number, and for a number that does not match.
pub(super) fn ids<'a, O: Options<'a>>(
    ctx: &Ctx<'a>,
    options: &mut Reader<'a, O>,
    count: &[u8],
    not_positive: Fail,
    no_match: Fail,
) -> Result<Range<usize>, Fail> {
    let count = integer(count).ok().and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|&count| count > 0).ok_or(not_positive)?;
    let first = ctx.position(options);
    options.words(count).ok_or(no_match)?;
    Ok(first..first + count)
}

/// Filter of XPENDING.
struct Filter<'a> {
    start: StreamId,
    end: StreamId,
    count: usize,
    idle: i64,
    consumer: Option<&'a [u8]>,
}

/// `XPENDING key group [[IDLE min-idle-time] start end count [consumer]]`
pub(super) fn xpending(ctx: &mut Ctx<'_>) -> Outcome {
    let filter = filter(ctx)?;
    let (key, db, name) = (ctx.key(1), ctx.session.db, ctx.arg(2));
    let (now, mut pacer) = (ctx.exec.ks.now_ms(), ctx.exec.pacer());
    let stream = match ctx.exec.ks.read(db, key) {
        Some(view) => Some(view.stream()?),
        None => None,
    };
    match (stream.and_then(|stream| stream.groups().get(name)), filter) {
        (Some(group), Some(filter)) => {
            let looks = if filter.idle > 0 { usize::MAX } else { filter.count };
            let looks = looks.min(group.pending_len());
            expect(looks * UNITS_PER_CHANGE, ctx.exec.units_here)?;
            list(group, &filter, now, (ctx.reply, &mut pacer))?;
        }
        (Some(group), None) => {
            expect(group.consumers().count() * UNITS_PER_ITEM, ctx.exec.units_here)?;
            summary(group, ctx.reply, &mut pacer)?;
        }
        (None, _) => return Err(no_such_group(ctx, 1, 2)),
    }
    Ok(())
}

fn filter<'a>(ctx: &Ctx<'a>) -> Result<Option<Filter<'a>>, Fail> {
    let len = ctx.args().len();
    if len == 3 {
        return Ok(None);
    }
    if !(6..=9).contains(&len) {
        return Err(Fail::SYNTAX);
    }
    let (mut first, mut idle) = (3, 0);
    if ctx.is(3, "IDLE") {
        idle = ctx.integer(4)?;
        if len < 8 {
            return Err(Fail::SYNTAX);
        }
        first = 5;
    }
    let count = usize::try_from(ctx.integer(first + 2)?).unwrap_or(0);
    let (start, end) = (parse_start(ctx.arg(first))?, parse_end(ctx.arg(first + 1))?);
    let consumer = (len > first + 3).then(|| ctx.arg(first + 3));
    Ok(Some(Filter { start, end, count, idle, consumer }))
}

fn summary(group: &Group, reply: &mut dyn Reply, pacer: &mut Pacer) -> Outcome {
    reply.array(4);
    reply.integer(group.pending_len() as i64);
    let first = group.pending_from(StreamId::MIN).next();
    let last = group.pending_from(StreamId::MIN).next_back();
    let (Some((first, _)), Some((last, _))) = (first, last) else {
        reply.null();
        reply.null();
        reply.null_array();
        return Ok(());
    };
    write_id(reply, first);
    write_id(reply, last);
    let with_pending = || group.consumers().filter(|consumer| consumer.pending_len() > 0);
    reply.array(with_pending().count());
    for consumer in with_pending() {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk(itoa::Buffer::new().format(consumer.pending_len()).as_bytes());
        pacer.pace_reply(UNITS_PER_ITEM)?;
    }
    Ok(())
}

fn list(
    group: &Group,
    filter: &Filter<'_>,
    now: i64,
    (reply, pacer): (&mut dyn Reply, &mut Pacer),
) -> Outcome {
    let mut ended = Ok(());
    let idle = |pending: &Pending| match pending.owner {
        Some(_) => (now - pending.delivered_ms).max(0),
        None => i64::MAX,
    };
    let listed = |entry: &(StreamId, Pending)| filter.idle == 0 || idle(&entry.1) >= filter.idle;
    let mut is_next =
        |id: StreamId| id <= filter.end && pacer.reply_goes_on(UNITS_PER_CHANGE, &mut ended);
    let found: Vec<(StreamId, Pending)> = match filter.consumer {
        Some(name) => {
            let consumer = group.consumer_id(name).and_then(|id| group.consumer(id));
            let ids = consumer.into_iter().flat_map(|consumer| consumer.pending(filter.start));
            ids.take_while(|&id| is_next(id))
                .filter_map(|id| group.pending(id).map(|pending| (id, pending)))
                .filter(listed)
                .take(filter.count)
                .collect()
        }
        None => group
            .pending_from(filter.start)
            .take_while(|&(id, _)| is_next(id))
            .filter(listed)
            .take(filter.count)
            .collect(),
    };
    ended?;
    reply.array(found.len());
    for (id, pending) in found {
        let owner = pending.owner.and_then(|owner| group.consumer(owner));
        reply.array(4);
        write_id(reply, id);
        reply.bulk(owner.map_or(b"", |owner| owner.name()));
        reply.integer(if owner.is_some() { idle(&pending) } else { -1 });
        reply.integer(pending.count as i64);
        pacer.pace_reply(UNITS_PER_ITEM)?;
    }
    Ok(())
}
