//! XREADGROUP.
//!
//! Each stream is read either for new entries (`>`), before those for entries pending for long
//! (`CLAIM`), or for the consumer's own pending entries. The first two may find nothing, and block.

use crate::blocking::{Awaited, Block};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_CHANGE, expect};
use crate::streams::budget::entry_len;
use crate::streams::read::{begin, begin_stream};
use crate::streams::reading::{Reading, reading};
use crate::streams::{parse_id, write_entry, write_fields, write_id};
use petrel_keyspace::types::stream::{ConsumerId, Pending, StreamId, StreamMut};
use petrel_resp::Reply;

/// Entries delivered again between two calls of the heap's breather.
const ENTRIES_PER_BREATH: usize = 256;

/// Stream to read.
struct Part {
    key: usize,
    source: Source,
    /// Maximum number of entries; `None` if the stream is left out of the reply.
    count: Option<usize>,
}

enum Source {
    /// The consumer's pending entries above this ID.
    History(StreamId),
    /// New entries, if there are any.
    New { any: bool },
}

/// `XREADGROUP GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK
/// milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]`
pub(super) fn xreadgroup(ctx: &mut Ctx<'_>) -> Outcome {
    let reading = reading(ctx, true)?;
    let (group, consumer) = reading.group.unwrap_or_default();
    let db = ctx.db();
    let mut parts = Vec::with_capacity(reading.keys.len());
    for key in reading.keys.clone() {
        let source = source(ctx, &reading, key, group)?;
        let is_served = !matches!(source, Source::New { any: false });
        parts.push(Part { key, source, count: is_served.then_some(reading.count) });
    }
    if reading.budget.is_limited() {
        limit(ctx, &mut parts, &reading)?;
    }
    let served = parts.iter().filter(|part| part.count.is_some()).count();
    if served > 0 {
        expect(delivery_units(ctx, &parts, group), ctx.exec.units_here)?;
        begin(ctx.reply, served);
    }
    for part in &parts {
        let key = ctx.key(part.key);
        let Some(mut stream) = ctx.exec.ks.stream_mut(db, key)? else { continue };
        stream.see_consumer(group, consumer);
        let Some(count) = part.count else { continue };
        let mut delivery = Delivery { stream, group, consumer, count };
        match part.source {
            Source::History(after) => delivery.history(key.bytes, after, ctx.reply),
            Source::New { .. } => delivery.new_entries(key.bytes, &reading, ctx.reply),
        }
    }
    match reading.block {
        _ if served > 0 => Ok(()),
        Some(deadline) => {
            let block = Block::on(reading.keys, Awaited::STREAM.or_loss()).until(deadline);
            // Pending entries become claimable as time passes, without an event.
            ctx.block(if reading.claim.is_some() { block.polling() } else { block })
        }
        None => {
            ctx.reply.null_array();
            Ok(())
        }
    }
}

/// Estimates the units for delivering the entries of all parts.
fn delivery_units(ctx: &Ctx<'_>, parts: &[Part], group: &[u8]) -> usize {
    let wanted = parts.iter().filter_map(|part| part.count);
    let wanted = wanted.fold(0, usize::saturating_add).saturating_mul(UNITS_PER_CHANGE);
    if wanted < ctx.exec.units_here {
        return wanted;
    }
    let len = |part: &Part| {
        let stream = ctx.exec.ks.view(ctx.session.db, ctx.key(part.key))?.stream().ok()?;
        let pending = stream.groups().get(group)?.pending_len();
        Some(pending.max(stream.len() as usize).min(part.count?))
    };
    parts.iter().filter_map(len).sum::<usize>().saturating_mul(UNITS_PER_CHANGE)
}

/// Cuts the non-empty parts to the budget of the reply.
fn limit(ctx: &mut Ctx<'_>, parts: &mut [Part], reading: &Reading<'_>) -> Outcome {
    let (group, consumer) = reading.group.unwrap_or_default();
    let mut budget = reading.budget;
    for part in parts.iter_mut().filter(|part| part.count.is_some()) {
        let key = ctx.key(part.key);
        part.count = None;
        if budget.is_spent() {
            continue;
        }
        let Some(stream) = ctx.exec.ks.stream_mut(ctx.session.db, key)? else { continue };
        let mut delivery = Delivery { stream, group, consumer, count: reading.count };
        let ids = match part.source {
            Source::History(after) => delivery.pending_above(after),
            Source::New { .. } => {
                let mut ids = delivery.claimable(reading);
                let rest = delivery.count - ids.len();
                ids.extend(
                    delivery
                        .stream
                        .range(delivery.start(), StreamId::MAX)
                        .take(rest)
                        .map(|entry| entry.id),
                );
                ids
            }
        };
        let sizes = ids.iter().map(|&id| delivery.stream.get(id).map_or(0, entry_len));
        let taken = budget.take(key.bytes, sizes);
        part.count = (taken > 0 || ids.is_empty()).then_some(taken);
    }
    Ok(())
}

/// Determines the entries to read from a key.
fn source(
    ctx: &mut Ctx<'_>,
    reading: &Reading<'_>,
    key: usize,
    group: &[u8],
) -> Result<Source, Fail> {
    const DOLLAR: Fail = Fail::fixed(
        "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
         specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
    );
    const PLUS: Fail = Fail::fixed(
        "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
         specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.",
    );
    let missing = || {
        let parts: [&[u8]; 5] = [
            b"NOGROUP No such key '",
            ctx.request.args[key],
            b"' or consumer group '",
            group,
            b"' in XREADGROUP with GROUP option",
        ];
        Fail::new(parts.concat())
    };
    let id = ctx.arg(reading.id(key));
    let (db, at) = (ctx.db(), ctx.key(key));
    let view = ctx.exec.ks.read(db, at).ok_or_else(missing)?;
    let stream = view.stream()?;
    let found = stream.groups().get(group).ok_or_else(missing)?;
    match id {
        b">" => {}
        b"$" => return Err(DOLLAR),
        b"+" => return Err(PLUS),
        id => match parse_id(id, 0)? {
            // No entry can follow the maximum ID; it means the new entries, like `>`.
            StreamId::MAX => {}
            after => return Ok(Source::History(after)),
        },
    }
    if stream.last_entry_id() > found.last_delivered() {
        return Ok(Source::New { any: true });
    }
    let Some(idle) = reading.claim.filter(|_| found.pending_len() > 0) else {
        return Ok(Source::New { any: false });
    };
    let Some(mut stream) = ctx.exec.ks.stream_mut(db, at)? else { return Err(missing()) };
    Ok(Source::New { any: !claimable(&mut stream, group, idle, 1).is_empty() })
}

/// Existing pending entries of a group that have been idle for at least `idle` ms, longest idle
/// first.
fn claimable(stream: &mut StreamMut<'_>, group: &[u8], idle: i64, max: usize) -> Vec<StreamId> {
    stream.order_by_time(group);
    let until = stream.now_ms().saturating_sub(idle);
    let Some(group) = stream.groups().get(group) else { return Vec::new() };
    group.claimable(until).filter(|&id| stream.contains(id)).take(max).collect()
}

/// Delivery of one stream's entries to a consumer of a group.
struct Delivery<'a> {
    stream: StreamMut<'a>,
    group: &'a [u8],
    consumer: &'a [u8],
    count: usize,
}

impl Delivery<'_> {
    /// Delivers the consumer's pending entries above an ID again.
    fn history(&mut self, key: &[u8], after: StreamId, reply: &mut dyn Reply) {
        let (owner, ids) = (self.owner(), self.pending_above(after));
        begin_stream(reply, key, ids.len());
        for (id, number) in ids.into_iter().zip(1_usize..) {
            if number.is_multiple_of(ENTRIES_PER_BREATH) {
                self.stream.breathe();
            }
            if let Some(entry) = self.stream.get(id) {
                write_entry(reply, entry);
                self.deliver_again(id, owner);
            } else {
                reply.array(2);
                write_id(reply, id);
                reply.null_array();
            }
        }
    }

    /// Delivers claimable pending entries, if requested, and then new entries.
    fn new_entries(&mut self, key: &[u8], reading: &Reading<'_>, reply: &mut dyn Reply) {
        let owner = self.owner();
        let claimed = self.claimable(reading);
        let (last, start) = (self.last_delivered(), self.start());
        let len = match last {
            StreamId::MAX => 0,
            _ => self.stream.count(start, StreamId::MAX, self.count - claimed.len()),
        };
        begin_stream(reply, key, claimed.len() + len);
        for &id in &claimed {
            self.claim(id, owner, reply);
        }
        let mut ids = Vec::with_capacity(len);
        for entry in self.stream.range(start, StreamId::MAX).take(len) {
            if reading.claim.is_some() {
                reply.array(4);
                write_id(reply, entry.id);
                write_fields(reply, entry);
                reply.integer(0);
                reply.integer(0);
            } else {
                write_entry(reply, entry);
            }
            ids.push(entry.id);
        }
        self.advance(&ids);
        if !reading.noack {
            for &id in &ids {
                self.put(id, owner, 1);
            }
        }
        // With `NOACK`, a consumer is only marked active if it claimed entries.
        if !claimed.is_empty() || !reading.noack {
            self.stream.mark_active(self.group, self.consumer);
        }
    }

    /// IDs of the consumer's pending entries above an ID.
    fn pending_above(&self, after: StreamId) -> Vec<StreamId> {
        let group = self.stream.groups().get(self.group);
        let consumer = self.owner().and_then(|owner| group?.consumer(owner));
        match (consumer, after.next()) {
            (Some(consumer), Some(start)) => consumer.pending(start).take(self.count).collect(),
            _ => Vec::new(),
        }
    }

    /// IDs of claimable pending entries, if `CLAIM` was given.
    fn claimable(&mut self, reading: &Reading<'_>) -> Vec<StreamId> {
        match reading.claim {
            Some(idle) => claimable(&mut self.stream, self.group, idle, self.count),
            None => Vec::new(),
        }
    }

    /// ID of the first entry that is new to the group.
    fn start(&self) -> StreamId {
        self.last_delivered().next().unwrap_or(StreamId::MAX)
    }

    /// ID of the consumer, if it exists.
    fn owner(&self) -> Option<ConsumerId> {
        self.stream.groups().get(self.group)?.consumer_id(self.consumer)
    }

    fn last_delivered(&self) -> StreamId {
        let group = self.stream.groups().get(self.group);
        group.map_or(StreamId::MAX, |group| group.last_delivered())
    }

    /// Advances the group past these new entries.
    fn advance(&mut self, ids: &[StreamId]) {
        let (Some(group), Some(&last)) = (self.stream.groups().get(self.group), ids.last()) else {
            return;
        };
        let read = self.stream.read_after(group, ids);
        self.stream.put_group(self.group, last, read);
    }

    /// Delivers a pending entry to the consumer, with its idle time and its number of deliveries.
    fn claim(&mut self, id: StreamId, owner: Option<ConsumerId>, reply: &mut dyn Reply) {
        let pending = self.pending(id);
        let Some(entry) = self.stream.get(id) else { return };
        reply.array(4);
        write_id(reply, id);
        write_fields(reply, entry);
        let (delivered, count) = pending.map_or((0, 0), |p| (p.delivered_ms, p.count));
        reply.integer((self.stream.now_ms() - delivered).max(0));
        reply.integer(count as i64);
        self.put(id, owner, count.saturating_add(1).min(i64::MAX as u64));
    }

    fn deliver_again(&mut self, id: StreamId, owner: Option<ConsumerId>) {
        let count = self.pending(id).map_or(0, |pending| pending.count);
        self.put(id, owner, count.saturating_add(1).min(i64::MAX as u64));
    }

    fn pending(&self, id: StreamId) -> Option<Pending> {
        self.stream.groups().get(self.group)?.pending(id)
    }

    fn put(&mut self, id: StreamId, owner: Option<ConsumerId>, count: u64) {
        let delivered_ms = self.stream.now_ms();
        self.stream.deliver(self.group, id, Pending { owner, delivered_ms, count });
    }
}
