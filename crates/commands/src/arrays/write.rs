//! Changes of arrays.

use super::{BYTES_PER_UNIT, index, look, unsigned, write_number};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_CHANGE, expect};
use petrel_keyspace::array::{self, INDEX_MAX, TYPE};

/// Bytes that a new element may take beside its text: a slice of its own.
const ELEMENT_BYTES: usize = 128;

const OVERFLOW: Fail = Fail::fixed("ERR array index overflow");
const INSERT_OVERFLOW: Fail = Fail::fixed("ERR insert index overflow");

/// Counts the growth by these texts, and moves a command with many to a helper.
macro_rules! hold {
    ($ctx:ident, $count:expr, $bytes:expr) => {{
        let (count, bytes): (usize, usize) = ($count, $bytes);
        expect(count * UNITS_PER_CHANGE + bytes / BYTES_PER_UNIT, $ctx.exec.units_here)?;
        $ctx.hold_growth(count * ELEMENT_BYTES + bytes)?
    }};
}

fn bytes_of(texts: &[&[u8]]) -> usize {
    texts.iter().map(|text| text.len()).sum()
}

fn reply_number(ctx: &mut Ctx<'_>, number: u64) -> Outcome {
    write_number(ctx.reply, number);
    Ok(())
}

/// `ARSET key index value...`
pub(super) fn set(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, texts) = (ctx.key(1), ctx.db(), &ctx.args()[3..]);
    let start = index(ctx.arg(2))?;
    let last = start.checked_add(texts.len() as u64 - 1);
    last.filter(|&last| last <= INDEX_MAX).ok_or(OVERFLOW)?;
    let _held = hold!(ctx, texts.len(), bytes_of(texts));
    let new = array::set(&mut ctx.exec.ks.slot(db, key, &TYPE)?, start, texts);
    reply_number(ctx, new.ok_or(OVERFLOW)?)
}

/// `ARMSET key <index value>...`
pub(super) fn set_pairs(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let (pairs, []) = ctx.args()[2..].as_chunks::<2>() else { return Err(ctx.wrong_arity()) };
    let pairs = pairs
        .iter()
        .map(|&[at, text]| Ok((index(at)?, text)))
        .collect::<Result<Vec<(u64, &[u8])>, Fail>>()?;
    let _held = hold!(ctx, pairs.len(), pairs.iter().map(|(_, text)| text.len()).sum());
    let new = array::set_pairs(&mut ctx.exec.ks.slot(db, key, &TYPE)?, &pairs);
    reply_number(ctx, new.ok_or(OVERFLOW)?)
}

/// `ARINSERT key value...`
pub(super) fn insert(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, texts) = (ctx.key(1), ctx.db(), &ctx.args()[2..]);
    let next = look(ctx)?.map_or(Some(0), |array| array.next_insert()).ok_or(INSERT_OVERFLOW)?;
    let last = next.checked_add(texts.len() as u64 - 1);
    last.filter(|&last| last <= INDEX_MAX).ok_or(INSERT_OVERFLOW)?;
    let _held = hold!(ctx, texts.len(), bytes_of(texts));
    let last = array::insert(&mut ctx.exec.ks.slot(db, key, &TYPE)?, texts);
    reply_number(ctx, last.ok_or(INSERT_OVERFLOW)?)
}

/// `ARRING key size value...`
pub(super) fn ring(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, texts) = (ctx.key(1), ctx.db(), &ctx.args()[3..]);
    let size = unsigned(ctx.arg(2)).ok_or(Fail::fixed("ERR invalid size"))?;
    if size == 0 {
        return Err(Fail::fixed("ERR size must be positive"));
    }
    let array = look(ctx)?;
    let moved = array.map_or(0, |array| array.ring_moves(size));
    // Moved elements are held twice.
    let moved_bytes = array.filter(|_| moved > 0).map_or(0, |array| array.allocated());
    let count = usize::try_from(moved).unwrap_or(usize::MAX).saturating_add(texts.len());
    expect(count.saturating_mul(2 * UNITS_PER_CHANGE), ctx.exec.units_here)?;
    let _held = hold!(ctx, texts.len(), bytes_of(texts) + 2 * moved_bytes);
    let last = array::ring(&mut ctx.exec.ks.slot(db, key, &TYPE)?, size, texts);
    reply_number(ctx, last.ok_or(INSERT_OVERFLOW)?)
}

/// `ARSEEK key index`
pub(super) fn seek(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let next = unsigned(ctx.arg(2)).ok_or(super::BAD_INDEX)?;
    let is_there = array::seek(&mut ctx.exec.ks.slot(db, key, &TYPE)?, next);
    ctx.number(is_there.into())
}

/// `ARDEL key index...`
pub(super) fn delete(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let indexes = ctx.args()[2..].iter().map(|text| index(text));
    let indexes = indexes.collect::<Result<Vec<u64>, Fail>>()?;
    expect(indexes.len() * UNITS_PER_CHANGE, ctx.exec.units_here)?;
    let removed = array::remove(&mut ctx.exec.ks.slot(db, key, &TYPE)?, &indexes);
    reply_number(ctx, removed)
}

/// `ARDELRANGE key <start end>...`
pub(super) fn delete_ranges(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, here) = (ctx.key(1), ctx.db(), ctx.exec.units_here);
    let (ranges, []) = ctx.args()[2..].as_chunks::<2>() else { return Err(ctx.wrong_arity()) };
    let ranges = ranges
        .iter()
        .map(|&[from, to]| Ok((index(from)?, index(to)?)))
        .collect::<Result<Vec<(u64, u64)>, Fail>>()?;
    if let Some(array) = look(ctx)? {
        let slices = ranges.iter().map(|&(one, other)| {
            // Counting takes time as well.
            array.slices_between(one.min(other), one.max(other)) + array.slices() / 128
        });
        let slices = slices.fold(0usize, usize::saturating_add);
        expect(slices.saturating_mul(UNITS_PER_CHANGE), here)?;
    }
    let removed = array::remove_ranges(&mut ctx.exec.ks.slot(db, key, &TYPE)?, &ranges);
    reply_number(ctx, removed)
}
