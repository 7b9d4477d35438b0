//! Transfer of pending entries to another consumer: XCLAIM and XAUTOCLAIM.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_CHANGE, expect};
use crate::streams::{check_group, parse_id, parse_start, write_entry, write_id};
use petrel_keyspace::parse_int;
use petrel_keyspace::types::stream::{ConsumerId, Pending, StreamId, StreamMut};
use petrel_resp::Reply;
use petrel_table::options::{XautoclaimOption, XclaimOption};

/// Pending entries that XAUTOCLAIM scans per entry to claim.
const LOOKED_AT: usize = 10;
/// Entries looked at or written between two calls of the heap's breather.
const LOOKS_PER_BREATH: usize = 256;
/// Default number of entries that XAUTOCLAIM claims.
const COUNT: usize = 100;
/// Maximum number of entries to claim in one call.
const COUNT_MAX: i64 = i64::MAX / 16;

struct Options {
    /// Delivery time to set.
    delivered_ms: i64,
    retries: Option<u64>,
    force: bool,
    just_id: bool,
    last_id: Option<StreamId>,
}

/// `XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds]
/// [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]`
pub(super) fn xclaim(ctx: &mut Ctx<'_>) -> Outcome {
    const IDLE: Fail = Fail::fixed("ERR Invalid min-idle-time argument for XCLAIM");
    let (key, db, group, consumer) = (ctx.key(1), ctx.db(), ctx.arg(2), ctx.arg(3));
    check_group(ctx)?;
    let idle = parse_int(ctx.arg(4)).ok_or(IDLE)?.max(0);
    let args = ctx.args();
    let ids: Vec<StreamId> = args[5..].iter().map_while(|id| parse_id(id, 0).ok()).collect();
    let options = options(ctx, 5 + ids.len())?;
    let Some(stream) = ctx.exec.ks.stream_mut(db, key)? else { return Err(Fail::SYNTAX) };
    let now = stream.now_ms();
    let mut claims =
        Claims { stream, group, consumer, owner: None, ready: now.saturating_sub(idle) };
    claims.begin(options.last_id);
    let claimed: Vec<StreamId> = ids.into_iter().filter(|&id| claims.claim(id, &options)).collect();
    claims.finish(&claimed);
    claims.write(&claimed, options.just_id, ctx.reply);
    Ok(())
}

/// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`
pub(super) fn xautoclaim(ctx: &mut Ctx<'_>) -> Outcome {
    const IDLE: Fail = Fail::fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    let (key, db, group, consumer) = (ctx.key(1), ctx.db(), ctx.arg(2), ctx.arg(3));
    let idle = parse_int(ctx.arg(4)).ok_or(IDLE)?.max(0);
    let start = parse_start(ctx.arg(5))?;
    let (count, just_id) = auto_options(ctx)?;
    check_group(ctx)?;
    let view = ctx.exec.ks.view(db, key);
    let pending = match view.map(|view| view.stream()).transpose()? {
        Some(stream) => stream.groups().get(group).map_or(0, |group| group.pending_len()),
        None => 0,
    };
    let looks = count.saturating_mul(LOOKED_AT).min(pending);
    expect(looks * UNITS_PER_CHANGE, ctx.exec.units_here)?;
    let Some(stream) = ctx.exec.ks.stream_mut(db, key)? else { return Err(Fail::SYNTAX) };
    let now = stream.now_ms();
    let options =
        Options { delivered_ms: now, retries: None, force: false, just_id, last_id: None };
    let mut claims =
        Claims { stream, group, consumer, owner: None, ready: now.saturating_sub(idle) };
    claims.begin(None);
    let (mut claimed, mut gone) = (Vec::new(), Vec::new());
    let mut looked_at = count.saturating_mul(LOOKED_AT);
    let mut next = claims.next_pending(start);
    while let Some(id) = next {
        if looked_at == 0 || claimed.len() + gone.len() == count {
            break;
        }
        looked_at -= 1;
        if looked_at.is_multiple_of(LOOKS_PER_BREATH) {
            claims.stream.breathe();
        }
        if !claims.stream.contains(id) {
            claims.stream.remove_pending(group, id);
            gone.push(id);
        } else if claims.claim(id, &options) {
            claimed.push(id);
        }
        next = id.next().and_then(|start| claims.next_pending(start));
    }
    claims.finish(&claimed);
    ctx.reply.array(3);
    write_id(ctx.reply, next.unwrap_or_default());
    claims.write(&claimed, just_id, ctx.reply);
    ctx.reply.array(gone.len());
    for id in gone {
        write_id(ctx.reply, id);
    }
    Ok(())
}

/// Claim of a group's entries for a consumer.
struct Claims<'a> {
    stream: StreamMut<'a>,
    group: &'a [u8],
    consumer: &'a [u8],
    owner: Option<ConsumerId>,
    /// Entries delivered after this time are not idle enough.
    ready: i64,
}

impl Claims<'_> {
    /// Creates or updates the consumer, and advances the group to an ID.
    fn begin(&mut self, last_id: Option<StreamId>) {
        let group = self.stream.groups().get(self.group);
        let (last, read) = group
            .map_or((StreamId::MAX, None), |group| (group.last_delivered(), group.entries_read()));
        if let Some(id) = last_id.filter(|&id| id > last) {
            self.stream.put_group(self.group, id, read);
        }
        self.owner = self.stream.see_consumer(self.group, self.consumer);
    }

    /// Claims an entry if the options allow it. An entry that no longer exists stops being pending.
    fn claim(&mut self, id: StreamId, options: &Options) -> bool {
        let pending = self.stream.groups().get(self.group).and_then(|group| group.pending(id));
        if !self.stream.contains(id) {
            self.stream.remove_pending(self.group, id);
            return false;
        }
        let count = match pending {
            Some(Pending { owner: Some(_), delivered_ms, .. }) if delivered_ms > self.ready => {
                return false;
            }
            Some(pending) => pending.count,
            None if options.force => 1,
            None => return false,
        };
        let count = match options.retries {
            Some(retries) => retries,
            None if options.just_id => count,
            None => count.saturating_add(1).min(i64::MAX as u64),
        };
        let (owner, delivered_ms) = (self.owner, options.delivered_ms);
        self.stream.put_pending(self.group, id, Pending { owner, delivered_ms, count });
        true
    }

    fn finish(&mut self, claimed: &[StreamId]) {
        if !claimed.is_empty() {
            self.stream.mark_active(self.group, self.consumer);
        }
    }

    fn next_pending(&self, start: StreamId) -> Option<StreamId> {
        let group = self.stream.groups().get(self.group)?;
        group.pending_from(start).next().map(|(id, _)| id)
    }

    fn write(&mut self, ids: &[StreamId], just_id: bool, reply: &mut dyn Reply) {
        reply.array(ids.len());
        for (&id, number) in ids.iter().zip(1_usize..) {
            if number.is_multiple_of(LOOKS_PER_BREATH) {
                self.stream.breathe();
            }
            match self.stream.get(id) {
                Some(entry) if !just_id => write_entry(reply, entry),
                _ => write_id(reply, id),
            }
        }
    }
}

fn options(ctx: &Ctx<'_>, first: usize) -> Result<Options, Fail> {
    let now = ctx.exec.ks.now_ms();
    let mut options =
        Options { delivered_ms: now, retries: None, force: false, just_id: false, last_id: None };
    let number = |text: &[u8], option: &str| {
        let wrong = || Fail::new(format!("ERR Invalid {option} option argument for XCLAIM"));
        parse_int(text).ok_or_else(wrong)
    };
    for option in ctx.options(first) {
        match option {
            Ok(XclaimOption::Force) => options.force = true,
            Ok(XclaimOption::Justid) => options.just_id = true,
            Ok(XclaimOption::Idle(ms)) => {
                options.delivered_ms = now.wrapping_sub(number(ms, "IDLE")?);
            }
            Ok(XclaimOption::Time(ms)) => options.delivered_ms = number(ms, "TIME")?,
            Ok(XclaimOption::Retrycount(count)) => {
                options.retries = u64::try_from(number(count, "RETRYCOUNT")?).ok();
            }
            Ok(XclaimOption::Lastid(id)) => options.last_id = Some(parse_id(id, 0)?),
            Err(unread) => {
                let text = [b"ERR Unrecognized XCLAIM option '", unread.word(), b"'"].concat();
                return Err(Fail::new(text));
            }
        }
    }
    if !(0..=now).contains(&options.delivered_ms) {
        options.delivered_ms = now;
    }
    Ok(options)
}

fn auto_options(ctx: &Ctx<'_>) -> Result<(usize, bool), Fail> {
    const NOT_POSITIVE: Fail = Fail::fixed("ERR COUNT must be > 0");
    let (mut count, mut just_id) = (COUNT, false);
    for option in ctx.options(6) {
        match option? {
            XautoclaimOption::Count(n) => {
                let given = parse_int(n).filter(|count| (1..=COUNT_MAX).contains(count));
                count = given.ok_or(NOT_POSITIVE)? as usize;
            }
            XautoclaimOption::Justid => just_id = true,
        }
    }
    Ok((count, just_id))
}
