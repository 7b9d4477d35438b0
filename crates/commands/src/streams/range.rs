//! XLEN, XRANGE and XREVRANGE.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_CHANGE, expect};
use crate::numbers::integer;
use crate::streams::{parse_end, parse_start, write_entry};
use petrel_table::options::StreamRangeOption;

/// `XLEN key`
pub(super) fn xlen(ctx: &mut Ctx<'_>) -> Outcome {
    let key = ctx.key(1);
    let len = match ctx.exec.ks.read(ctx.session.db, key) {
        Some(view) => view.stream()?.len(),
        None => 0,
    };
    ctx.number(len as i64)
}

/// `XRANGE key start end [COUNT count]`
pub(super) fn xrange(ctx: &mut Ctx<'_>) -> Outcome {
    range(ctx, 2, 3, false)
}

/// `XREVRANGE key end start [COUNT count]`
pub(super) fn xrevrange(ctx: &mut Ctx<'_>) -> Outcome {
    range(ctx, 3, 2, true)
}

fn range(ctx: &mut Ctx<'_>, start: usize, end: usize, reverse: bool) -> Outcome {
    let (start, end) = (parse_start(ctx.arg(start))?, parse_end(ctx.arg(end))?);
    let max = count(ctx)?;
    let (key, mut pacer) = (ctx.key(1), ctx.exec.pacer());
    let Some(view) = ctx.exec.ks.read(ctx.session.db, key) else {
        ctx.reply.array(0);
        return Ok(());
    };
    let stream = view.stream()?;
    let len = match max {
        Some(0) => {
            ctx.reply.null_array();
            return Ok(());
        }
        Some(max) => stream.count(start, end, max),
        None => stream.count(start, end, usize::MAX),
    };
    expect(len * UNITS_PER_CHANGE, ctx.exec.units_here)?;
    ctx.reply.array(len);
    if reverse {
        for entry in stream.rev_range(start, end).take(len) {
            write_entry(ctx.reply, entry);
            pacer.pace_reply(UNITS_PER_CHANGE)?;
        }
    } else {
        for entry in stream.range(start, end).take(len) {
            write_entry(ctx.reply, entry);
            pacer.pace_reply(UNITS_PER_CHANGE)?;
        }
    }
    Ok(())
}

/// Parses `COUNT`, if given; a negative count means 0.
fn count(ctx: &Ctx<'_>) -> Result<Option<usize>, Fail> {
    let mut count = None;
    for option in ctx.options(4) {
        let StreamRangeOption::Count(stated) = option?;
        count = Some(usize::try_from(integer(stated)?).unwrap_or(0));
    }
    Ok(count)
}
