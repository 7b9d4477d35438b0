//! Single elements, ranges, and figures.

use super::{BYTES_PER_UNIT, beside, index, read, unsigned, write_element, write_number};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_ITEM, expect};
use petrel_keyspace::array::{Array, Element, SliceFigures};
use petrel_resp::Reply;
use petrel_table::options::{ArinfoOption, ArlastitemsOption, ArscanOption};
use std::ops::ControlFlow;

/// Positions that a reply may have.
const POSITIONS_MAX: u64 = 1_000_000;

/// Indexes of a slice in Redis: `ARINFO` shows figures of such slices.
const SLICE_SIZE: u64 = 4096;

/// Elements from which on Redis's slices are dense.
const DENSE_MIN: u64 = 10;

/// Units for counting the elements of a slice of ours.
const UNITS_PER_SLICE: usize = 16;

/// Units for writing an element.
fn units_of(element: Element<'_>) -> usize {
    match element {
        Element::Int(_) => UNITS_PER_ITEM,
        Element::Text(text) => UNITS_PER_ITEM + text.len() / BYTES_PER_UNIT,
    }
}

/// `ARGET key index`
pub(super) fn get(ctx: &mut Ctx<'_>) -> Outcome {
    let text = ctx.arg(2);
    read(ctx)?;
    let index = index(text)?;
    let (array, reply) = beside(ctx)?;
    write_element(reply, array.and_then(|array| array.get(index)));
    Ok(())
}

/// `ARMGET key index...`
pub(super) fn get_several(ctx: &mut Ctx<'_>) -> Outcome {
    let texts = &ctx.args()[2..];
    read(ctx)?;
    let indexes = texts.iter().map(|text| index(text)).collect::<Result<Vec<u64>, Fail>>()?;
    expect(indexes.len() * UNITS_PER_ITEM, ctx.exec.units_here)?;
    let mut pacer = ctx.exec.pacer();
    let (array, reply) = beside(ctx)?;
    reply.array(indexes.len());
    for index in indexes {
        let element = array.and_then(|array| array.get(index));
        pacer.pace_reply(element.map_or(1, units_of))?;
        write_element(reply, element);
    }
    Ok(())
}

/// `ARGETRANGE key start end`
pub(super) fn get_range(ctx: &mut Ctx<'_>) -> Outcome {
    let (start, end) = (index(ctx.arg(2))?, index(ctx.arg(3))?);
    if start.abs_diff(end) >= POSITIONS_MAX {
        return Err(Fail::fixed("ERR range exceeds maximum of 1000000 items"));
    }
    let positions = start.abs_diff(end) as usize + 1;
    read(ctx)?;
    expect(positions * UNITS_PER_ITEM, ctx.exec.units_here)?;
    let mut pacer = ctx.exec.pacer();
    let (array, reply) = beside(ctx)?;
    reply.array(positions);
    write_positions(array, (start, end), reply, &mut |units| pacer.pace_reply(units))
}

/// Writes the elements from a position to another, and nulls where there are none.
fn write_positions(
    array: Option<&Array>,
    (start, end): (u64, u64),
    reply: &mut dyn Reply,
    pace: &mut dyn FnMut(usize) -> Outcome,
) -> Outcome {
    let mut written = 0;
    let written_up_to = |written: &mut u64, place: u64, reply: &mut dyn Reply| {
        for _ in *written..place {
            reply.null();
        }
        *written = place;
    };
    let ended = array.map(|array| {
        array.each(start, end, &mut |index, element| {
            written_up_to(&mut written, start.abs_diff(index), reply);
            write_element(reply, Some(element));
            written += 1;
            match pace(units_of(element)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(fail) => ControlFlow::Break(fail),
            }
        })
    });
    if let Some(ControlFlow::Break(fail)) = ended {
        return Err(fail);
    }
    written_up_to(&mut written, start.abs_diff(end) + 1, reply);
    Ok(())
}

/// Parses the operand of `LIMIT`.
pub(super) fn limit(text: &[u8]) -> Result<u64, Fail> {
    const NOT_POSITIVE: Fail = Fail::fixed("ERR LIMIT must be positive");
    unsigned(text).filter(|&limit| limit > 0).ok_or(NOT_POSITIVE)
}

/// `ARSCAN key start end [LIMIT limit]`
pub(super) fn scan(ctx: &mut Ctx<'_>) -> Outcome {
    let (start, end) = (index(ctx.arg(2))?, index(ctx.arg(3))?);
    let mut most = u64::MAX;
    for option in ctx.options(4) {
        let ArscanOption::Limit(text) = option?;
        most = limit(text)?;
    }
    let (lo, hi) = (start.min(end), start.max(end));
    let here = ctx.exec.units_here;
    let Some(array) = read(ctx)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let slices = array.slices_between(lo, hi).saturating_mul(UNITS_PER_SLICE);
    expect(slices.min(usize::try_from(most).unwrap_or(usize::MAX)), here)?;
    let mut left = if most == u64::MAX {
        array.count_between(lo, hi)
    } else {
        bounded(array, start, end, most)
    };
    expect(usize::try_from(left).unwrap_or(usize::MAX).saturating_mul(UNITS_PER_ITEM), here)?;
    let mut pacer = ctx.exec.pacer();
    let (Some(array), reply) = beside(ctx)? else { return Ok(()) };
    reply.array(left as usize);
    let ended = array.each(start, end, &mut |index, element| {
        if left == 0 {
            return ControlFlow::Break(Ok(()));
        }
        left -= 1;
        write_pair(reply, index, Some(element));
        match pacer.pace_reply(units_of(element)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fail) => ControlFlow::Break(Err(fail)),
        }
    });
    ended.break_value().unwrap_or(Ok(()))
}

/// The number of elements of a range, counted up to `most`.
fn bounded(array: &Array, start: u64, end: u64, most: u64) -> u64 {
    let mut count = 0;
    let _ = array.each(start, end, &mut |_, _| {
        count += 1;
        if count >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    count
}

/// Writes an index with its element.
pub(super) fn write_pair(reply: &mut dyn Reply, index: u64, element: Option<Element<'_>>) {
    reply.array(2);
    write_number(reply, index);
    write_element(reply, element);
}

/// `ARLASTITEMS key count [REV]`
pub(super) fn last_items(ctx: &mut Ctx<'_>) -> Outcome {
    let count = unsigned(ctx.arg(2)).ok_or(Fail::fixed("ERR invalid COUNT"))?;
    let mut is_newest_first = false;
    for option in ctx.options(3) {
        let ArlastitemsOption::Rev = option?;
        is_newest_first = true;
    }
    let positions = read(ctx)?.map(|array| array.last_positions(count)).unwrap_or_default();
    let ranges = positions.into_iter().flatten();
    let total: u64 = ranges.clone().map(|(from, to)| from - to + 1).sum();
    if total > POSITIONS_MAX {
        return Err(Fail::fixed("ERR count exceeds maximum of 1000000 items"));
    }
    expect(total as usize * UNITS_PER_ITEM, ctx.exec.units_here)?;
    let mut pacer = ctx.exec.pacer();
    let (array, reply) = beside(ctx)?;
    reply.array(total as usize);
    let mut write =
        |range| write_positions(array, range, &mut *reply, &mut |units| pacer.pace_reply(units));
    if is_newest_first {
        ranges.into_iter().try_for_each(write)
    } else {
        ranges.rev().try_for_each(|(from, to)| write((to, from)))
    }
}

/// `ARLEN key`
pub(super) fn len(ctx: &mut Ctx<'_>) -> Outcome {
    let len = read(ctx)?.map_or(0, Array::len);
    write_number(ctx.reply, len);
    Ok(())
}

/// `ARCOUNT key`
pub(super) fn count(ctx: &mut Ctx<'_>) -> Outcome {
    let count = read(ctx)?.map_or(0, Array::count);
    write_number(ctx.reply, count);
    Ok(())
}

/// `ARNEXT key`
pub(super) fn next(ctx: &mut Ctx<'_>) -> Outcome {
    match read(ctx)?.map_or(Some(0), Array::next_insert) {
        Some(next) => write_number(ctx.reply, next),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// `ARINFO key [FULL]`
pub(super) fn info(ctx: &mut Ctx<'_>) -> Outcome {
    let mut is_full = false;
    for option in ctx.options(2) {
        let ArinfoOption::Full = option?;
        is_full = true;
    }
    let (here, mut pacer) = (ctx.exec.units_here, ctx.exec.pacer());
    let array = read(ctx)?.ok_or(Fail::NO_SUCH_KEY)?;
    let slices = array.slices();
    let figures = match is_full {
        true => {
            expect(slices.saturating_mul(UNITS_PER_SLICE), here)?;
            let mut look = || match pacer.pace(UNITS_PER_SLICE) {
                Ok(()) => ControlFlow::Continue(()),
                Err(fail) => ControlFlow::Break(fail),
            };
            match array.figures(SLICE_SIZE, DENSE_MIN, &mut look) {
                ControlFlow::Continue(figures) => Some(figures),
                ControlFlow::Break(fail) => return Err(fail),
            }
        }
        false => None,
    };
    let facts = [
        ("count", array.count()),
        ("len", array.len()),
        ("next-insert-index", array.next_insert().unwrap_or(0)),
        ("slices", slices as u64),
        ("directory-size", slices as u64),
        ("super-dir-entries", 0),
        ("slice-size", SLICE_SIZE),
    ];
    let reply = &mut *ctx.reply;
    reply.map(facts.len() + if is_full { 5 } else { 0 });
    for (name, number) in facts {
        reply.bulk(name.as_bytes());
        write_number(reply, number);
    }
    if let Some(figures) = figures {
        write_figures(reply, &figures);
    }
    Ok(())
}

fn write_figures(reply: &mut dyn Reply, figures: &SliceFigures) {
    let average = |sum: u64, of: u64| if of == 0 { 0.0 } else { sum as f64 / of as f64 };
    for (name, number) in [("dense-slices", figures.dense), ("sparse-slices", figures.sparse)] {
        reply.bulk(name.as_bytes());
        write_number(reply, number);
    }
    for (name, number) in [
        ("avg-dense-size", average(figures.dense_positions, figures.dense)),
        ("avg-dense-fill", average(figures.dense_elements, figures.dense_positions)),
        ("avg-sparse-size", average(figures.sparse_positions, figures.sparse)),
    ] {
        reply.bulk(name.as_bytes());
        reply.double(number);
    }
}
