//! Top-k lists: the most frequent items of a stream.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::expect;
use crate::numbers::double;
use crate::sketches::COPIED_FROM;
use crate::spec::CommandSpec;
use petrel_keyspace::custom::Loaded;
use petrel_keyspace::parse_int;
use petrel_keyspace::top_k::{self, INCREMENT_MAX, Shape, TYPE, TopK, TopKList};
use petrel_resp::Reply;
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::TOPK_RESERVE, reserve),
    CommandSpec::new(&meta::TOPK_ADD, add),
    CommandSpec::new(&meta::TOPK_INCRBY, incr_by),
    CommandSpec::new(&meta::TOPK_QUERY, query),
    CommandSpec::new(&meta::TOPK_COUNT, count),
    CommandSpec::new(&meta::TOPK_LIST, list),
    CommandSpec::new(&meta::TOPK_INFO, info),
];

/// Units of work for one counter of an item: a hash, and a cache line.
const UNITS_PER_COUNTER: usize = 2;

/// Entries of the heap that are compared with an item in a unit of work.
const ENTRIES_PER_UNIT: usize = 8;

const NO_KEY: Fail = Fail::fixed("TopK: key does not exist");
const EXISTS: Fail = Fail::fixed("TopK: key already exists");
const TOO_LARGE: Fail = Fail::fixed("ERR Insufficient memory to create topk data structure");

/// Redis's answer in place of an item with an invalid increment.
const INCREMENT: &[u8] = b"TopK: increment must be an integer greater or equal to 0                            and smaller or equal to 100,000";

/// The list of the first key.
fn list_of<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a TopK, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let view = ctx.exec.ks.read(db, key).ok_or(NO_KEY)?;
    Ok(view.custom::<TopKList>()?.list())
}

/// Units for looking an item up.
fn item_units(list: &TopK) -> usize {
    let Shape { k, depth, .. } = list.shape();
    depth as usize * UNITS_PER_COUNTER + k as usize / ENTRIES_PER_UNIT + 1
}

/// Looks the items of a command up in the list of the first key.
fn look_up<R>(ctx: &mut Ctx<'_>, look: impl Fn(&TopK, &[u8]) -> R) -> Result<Vec<R>, Fail> {
    let (items, here, mut pacer) = (&ctx.args()[2..], ctx.exec.units_here, ctx.exec.pacer());
    let list = list_of(ctx)?;
    let each = item_units(list);
    expect(items.len().saturating_mul(each), here)?;
    let found = items.iter().map(|item| pacer.pace(each).map(|()| look(list, item)));
    found.collect()
}

/// The properties that the arguments of `TOPK.RESERVE` ask for.
fn shape(ctx: &Ctx<'_>) -> Result<Shape, Fail> {
    let number = |i: usize, fail: &'static str| {
        let number = parse_int(ctx.arg(i)).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
        number.ok_or(Fail::fixed(fail))
    };
    let k = number(2, "TopK: invalid k")?;
    if ctx.args().len() == 3 {
        return Ok(Shape { k, width: 8, depth: 7, decay: 0.9 });
    }
    let width = number(3, "TopK: invalid width")?;
    let depth = number(4, "TopK: invalid depth")?;
    let decay = double::parse(ctx.arg(5)).filter(|&decay| decay > 0.0 && decay <= 1.0);
    let decay = decay.ok_or(Fail::fixed("TopK: invalid decay value. must be '<= 1' & '> 0'"))?;
    Ok(Shape { k, width, depth, decay })
}

/// `TOPK.RESERVE key topk [width depth decay]`
fn reserve(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, here) = (ctx.key(1), ctx.db(), ctx.exec.units_here);
    if !matches!(ctx.args().len(), 3 | 6) {
        return Err(ctx.wrong_arity());
    }
    if ctx.exec.ks.look(db, key).is_some() {
        return Err(EXISTS);
    }
    let shape = shape(ctx)?;
    if shape.bytes().is_none() {
        return Err(TOO_LARGE);
    }
    expect(shape.k as usize / ENTRIES_PER_UNIT, here)?;
    let held = ctx.hold_growth(TopK::empty_bytes(shape))?;
    if !top_k::make(&mut ctx.exec.ks.slot(db, key, &TYPE)?, shape) {
        return Err(TOO_LARGE);
    }
    drop(held);
    ctx.ok()
}

/// Counts items in the list of the first key. Returns for each the item that it expels.
fn count_items(ctx: &mut Ctx<'_>, items: &[(&[u8], u32)]) -> Result<Vec<Option<Box<[u8]>>>, Fail> {
    let (key, db, here) = (ctx.key(1), ctx.db(), ctx.exec.units_here);
    let view = ctx.exec.ks.look(db, key).ok_or(NO_KEY)?;
    let list = view.custom::<TopKList>()?.list();
    // Each increment beyond the first is a draw for each counter of another item.
    let draws: usize = items.iter().map(|(_, times)| *times as usize).sum();
    let draws = draws.saturating_mul(list.shape().depth as usize * UNITS_PER_COUNTER);
    let units = item_units(list).saturating_mul(items.len()).saturating_add(draws);
    expect(units, here)?;
    let bytes = items.iter().map(|(item, _)| item.len()).sum();
    let growth = list.growth(items.len(), bytes);
    let copied = if units < COPIED_FROM { 0 } else { list.allocated() };
    let _held = ctx.hold_growth(growth + copied)?;
    let seed = ctx.exec.random.next();
    if units >= COPIED_FROM {
        return count_in_copy(ctx, items, seed);
    }
    Ok(top_k::add(&mut ctx.exec.ks.slot(db, key, &TYPE)?, items, seed))
}

/// Counts items in a copy of the list, which then replaces it.
#[cold]
fn count_in_copy(
    ctx: &mut Ctx<'_>,
    items: &[(&[u8], u32)],
    seed: u64,
) -> Result<Vec<Option<Box<[u8]>>>, Fail> {
    let (key, db, mut pacer) = (ctx.key(1), ctx.db(), ctx.exec.pacer());
    let mut list = list_of(ctx)?.duplicate();
    let each = item_units(&list);
    let mut expelled = Vec::with_capacity(items.len());
    for (i, (item, times)) in items.iter().enumerate() {
        let mut ended = pacer.pace(each);
        let mut goes_on = |draws| pacer.goes_on(draws * UNITS_PER_COUNTER, &mut ended);
        expelled.push(list.add_while(item, *times, seed.wrapping_add(i as u64), &mut goes_on));
        ended?;
    }
    let value = Loaded::Boxed(Box::new(TopKList::new(list)));
    ctx.exec.ks.replace_loaded(db, key, &TYPE, value);
    Ok(expelled)
}

fn write_expelled(expelled: Option<Box<[u8]>>, reply: &mut dyn Reply) {
    match expelled {
        Some(item) => reply.bulk(&item),
        None => reply.null(),
    }
}

/// `TOPK.ADD key item...`
fn add(ctx: &mut Ctx<'_>) -> Outcome {
    let items: Vec<_> = ctx.args()[2..].iter().map(|&item| (item, 1)).collect();
    let expelled = count_items(ctx, &items)?;
    ctx.reply.array(expelled.len());
    expelled.into_iter().for_each(|item| write_expelled(item, ctx.reply));
    Ok(())
}

/// `TOPK.INCRBY key <item increment>...`
///
/// An item with an invalid increment is answered with an error; the others are counted.
fn incr_by(ctx: &mut Ctx<'_>) -> Outcome {
    if !ctx.args().len().is_multiple_of(2) {
        return Err(ctx.wrong_arity());
    }
    let pairs = ctx.args()[2..].as_chunks::<2>().0;
    let times = |text: &[u8]| {
        let times = parse_int(text).and_then(|n| u32::try_from(n).ok());
        times.filter(|&times| times <= INCREMENT_MAX)
    };
    let asked: Vec<_> = pairs.iter().map(|&[item, text]| (item, times(text))).collect();
    let items: Vec<_> = asked.iter().filter_map(|&(item, times)| Some((item, times?))).collect();
    let mut expelled = count_items(ctx, &items)?.into_iter();
    ctx.reply.array(asked.len());
    for (_, times) in asked {
        match times {
            Some(_) => write_expelled(expelled.next().flatten(), ctx.reply),
            None => ctx.reply.error(INCREMENT),
        }
    }
    Ok(())
}

/// `TOPK.QUERY key item...`
fn query(ctx: &mut Ctx<'_>) -> Outcome {
    let found = look_up(ctx, TopK::contains)?;
    ctx.reply.array(found.len());
    found.into_iter().for_each(|is_there| ctx.reply.boolean(is_there));
    Ok(())
}

/// `TOPK.COUNT key item...`
fn count(ctx: &mut Ctx<'_>) -> Outcome {
    let counts = look_up(ctx, TopK::count)?;
    ctx.reply.array(counts.len());
    counts.into_iter().for_each(|count| ctx.reply.integer(count.into()));
    Ok(())
}

/// `TOPK.LIST key [WITHCOUNT]`
fn list(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, here) = (ctx.key(1), ctx.db(), ctx.exec.units_here);
    let with_count = ctx.args().len() == 3;
    if ctx.args().len() > 3 {
        return Err(ctx.wrong_arity());
    }
    if with_count && !ctx.is(2, "WITHCOUNT") {
        return Err(Fail::fixed("WITHCOUNT keyword expected"));
    }
    expect(list_of(ctx)?.heap().len() * UNITS_PER_COUNTER, here)?;
    let Ctx { exec, reply, .. } = ctx;
    let Some(view) = exec.ks.view(db, key) else { return Err(NO_KEY) };
    let heap = view.custom::<TopKList>()?.list().heap();
    let items = heap.iter().filter_map(|entry| Some((entry.item()?, entry.count())));
    let mut items: Vec<_> = items.filter(|&(_, count)| count > 0).collect();
    items.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    reply.array(items.len() * if with_count { 2 } else { 1 });
    for (item, count) in items {
        reply.bulk(item);
        if with_count {
            reply.integer(count.into());
        }
    }
    Ok(())
}

/// `TOPK.INFO key`
fn info(ctx: &mut Ctx<'_>) -> Outcome {
    let Shape { k, width, depth, decay } = list_of(ctx)?.shape();
    ctx.reply.map(4);
    for (name, figure) in [("k", k), ("width", width), ("depth", depth)] {
        ctx.reply.simple(name);
        ctx.reply.integer(figure.into());
    }
    ctx.reply.simple("decay");
    ctx.reply.double(decay);
    Ok(())
}
