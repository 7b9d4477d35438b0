//! Count-min sketches: how often items came, never too low.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::expect;
use crate::numbers::double;
use crate::sketches::COPIED_FROM;
use crate::spec::CommandSpec;
use petrel_keyspace::count_min::{self, CountMin, Overflow, Sketch, TYPE};
use petrel_keyspace::custom::Loaded;
use petrel_keyspace::parse_int;
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::CMS_INITBYDIM, init_by_dim),
    CommandSpec::new(&meta::CMS_INITBYPROB, init_by_prob),
    CommandSpec::new(&meta::CMS_INCRBY, incr_by),
    CommandSpec::new(&meta::CMS_QUERY, query),
    CommandSpec::new(&meta::CMS_MERGE, merge),
    CommandSpec::new(&meta::CMS_INFO, info),
];

/// Units of work for one counter of an item: a hash, and a cache line.
const UNITS_PER_COUNTER: usize = 2;

/// Bytes of counters that are merged in a unit of work.
const BYTES_MERGED_PER_UNIT: usize = 8;

const NO_KEY: Fail = Fail::fixed("CMS: key does not exist");
const EXISTS: Fail = Fail::fixed("CMS: key already exists");
const INVALID: Fail = Fail::fixed("CMS: invalid init arguments");
const TOO_LARGE: Fail = Fail::fixed("CMS: Insufficient memory to create the key");
const UNEQUAL: Fail = Fail::fixed("CMS: width/depth is not equal");

/// The sketch of key `i`.
fn sketch<'a>(ctx: &'a mut Ctx<'_>, i: usize) -> Result<&'a CountMin, Fail> {
    let (key, db) = (ctx.key(i), ctx.db());
    let view = ctx.exec.ks.read(db, key).ok_or(NO_KEY)?;
    Ok(view.custom::<Sketch>()?.sketch())
}

/// The sketch of the first key, which is to be changed.
fn sketch_to_change<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a CountMin, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let view = ctx.exec.ks.look(db, key).ok_or(NO_KEY)?;
    Ok(view.custom::<Sketch>()?.sketch())
}

/// Units for the counters of an item.
fn item_units(sketch: &CountMin) -> usize {
    sketch.depth() as usize * UNITS_PER_COUNTER
}

/// Checks that the first key holds nothing.
fn expect_absent(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    if ctx.exec.ks.look(db, key).is_some() { Err(EXISTS) } else { Ok(()) }
}

/// Makes a sketch at the first key.
fn make(ctx: &mut Ctx<'_>, width: u64, depth: u64) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    if count_min::make(&mut ctx.exec.ks.slot(db, key, &TYPE)?, width, depth) {
        return ctx.ok();
    }
    let counters = width.checked_mul(depth).filter(|&counters| i64::try_from(counters).is_ok());
    Err(if counters.is_some_and(|counters| counters > 0) { TOO_LARGE } else { INVALID })
}

/// `CMS.INITBYDIM key width depth`
fn init_by_dim(ctx: &mut Ctx<'_>) -> Outcome {
    expect_absent(ctx)?;
    let size = |text: &[u8]| parse_int(text).and_then(|n| u64::try_from(n).ok()).filter(|&n| n > 0);
    let width = size(ctx.arg(2)).ok_or(Fail::fixed("CMS: invalid width"))?;
    let depth = size(ctx.arg(3)).ok_or(Fail::fixed("CMS: invalid depth"))?;
    make(ctx, width, depth)
}

/// `CMS.INITBYPROB key error probability`
fn init_by_prob(ctx: &mut Ctx<'_>) -> Outcome {
    expect_absent(ctx)?;
    let share = |text: &[u8]| double::parse(text).filter(|&x| x > 0.0 && x < 1.0);
    let error = share(ctx.arg(2)).ok_or(Fail::fixed("CMS: invalid overestimation value"))?;
    let probability = share(ctx.arg(3)).ok_or(Fail::fixed("CMS: invalid prob value"))?;
    let (width, depth) = CountMin::dimensions(error, probability).ok_or(INVALID)?;
    make(ctx, width, depth)
}

/// `CMS.INCRBY key <item increment>...`
fn incr_by(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, here) = (ctx.key(1), ctx.db(), ctx.exec.units_here);
    if !ctx.args().len().is_multiple_of(2) {
        return Err(ctx.wrong_arity());
    }
    let pairs = ctx.args()[2..].as_chunks::<2>().0;
    let found = sketch_to_change(ctx)?;
    let units = pairs.len().saturating_mul(item_units(found));
    expect(units, here)?;
    let copied = if units < COPIED_FROM { 0 } else { found.allocated() };
    let growth = found.growth(pairs.len()) + copied;
    let times = |text: &[u8]| {
        let number = parse_int(text).ok_or(Fail::fixed("CMS: Cannot parse number"))?;
        u64::try_from(number).map_err(|_| Fail::fixed("CMS: Number cannot be negative"))
    };
    let items = pairs.iter().map(|&[item, text]| times(text).map(|times| (item, times)));
    let items = items.collect::<Result<Vec<_>, Fail>>()?;
    let _held = ctx.hold_growth(growth)?;
    let counts = match units {
        ..COPIED_FROM => count_min::increment(&mut ctx.exec.ks.slot(db, key, &TYPE)?, &items),
        _ => increment_copy(ctx, &items)?,
    };
    ctx.reply.array(counts.len());
    for count in counts {
        match count {
            u32::MAX => ctx.reply.error(b"CMS: INCRBY overflow"),
            count => ctx.reply.integer(count.into()),
        }
    }
    Ok(())
}

/// Counts items in a copy of the sketch of the first key, which then replaces it.
#[cold]
fn increment_copy(ctx: &mut Ctx<'_>, items: &[(&[u8], u64)]) -> Result<Vec<u32>, Fail> {
    let (key, db, mut pacer) = (ctx.key(1), ctx.db(), ctx.exec.pacer());
    let mut sketch = sketch_to_change(ctx)?.duplicate();
    let each = item_units(&sketch);
    let counts = items.iter().map(|(item, times)| {
        pacer.pace(each)?;
        Ok(sketch.increment(item, *times))
    });
    let counts = counts.collect::<Result<_, Fail>>()?;
    let value = Loaded::Boxed(Box::new(Sketch::new(sketch)));
    ctx.exec.ks.replace_loaded(db, key, &TYPE, value);
    Ok(counts)
}

/// `CMS.QUERY key item...`
fn query(ctx: &mut Ctx<'_>) -> Outcome {
    let (items, here, mut pacer) = (&ctx.args()[2..], ctx.exec.units_here, ctx.exec.pacer());
    let sketch = sketch(ctx, 1)?;
    let each = item_units(sketch);
    expect(items.len().saturating_mul(each), here)?;
    let counts = items.iter().map(|item| pacer.pace(each).map(|()| sketch.query(item)));
    let counts = counts.collect::<Result<Vec<u32>, Fail>>()?;
    ctx.reply.array(counts.len());
    counts.into_iter().for_each(|count| ctx.reply.integer(count.into()));
    Ok(())
}

/// The number of sources of `CMS.MERGE`, and their weights.
fn sources(ctx: &Ctx<'_>) -> Result<(usize, Vec<i64>), Fail> {
    let count = parse_int(ctx.arg(2)).ok_or(Fail::fixed("CMS: invalid numkeys"))?;
    if count < 1 {
        return Err(Fail::fixed("CMS: Number of keys must be positive"));
    }
    let (count, words) = (usize::try_from(count).unwrap_or(usize::MAX), &ctx.args()[3..]);
    let Some(at) = words.iter().position(|word| word.eq_ignore_ascii_case(b"WEIGHTS")) else {
        let is_right = words.len() == count;
        return match is_right {
            true => Ok((count, vec![1; count])),
            false => Err(Fail::fixed("CMS: wrong number of keys")),
        };
    };
    let weights = &words[at + 1..];
    if at != count || weights.len() != count {
        return Err(Fail::fixed("CMS: wrong number of keys/weights"));
    }
    let weights = weights.iter().map(|text| parse_int(text)).collect::<Option<_>>();
    Ok((count, weights.ok_or(Fail::fixed("CMS: invalid weight value"))?))
}

/// `CMS.MERGE destination numkeys source... [WEIGHTS weight...]`
fn merge(ctx: &mut Ctx<'_>) -> Outcome {
    let (db, here) = (ctx.db(), ctx.exec.units_here);
    // The keys are locked only if there are as many as are announced.
    let (count, weights) = sources(ctx)?;
    let target = sketch_to_change(ctx)?;
    let (dimensions, bytes) = ((target.width(), target.depth()), target.bytes());
    expect(bytes / BYTES_MERGED_PER_UNIT * count, here)?;
    for i in 3..3 + count {
        let source = sketch(ctx, i)?;
        if (source.width(), source.depth()) != dimensions {
            return Err(UNEQUAL);
        }
    }
    let held = ctx.hold_growth(bytes)?;
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let mut goes_on = |bytes| pacer.goes_on(bytes / BYTES_MERGED_PER_UNIT, &mut ended);
    let merged = {
        let keys: Vec<_> = (3..3 + count).map(|i| ctx.key(i)).collect();
        let ks = &ctx.exec.ks;
        let sources: Option<Vec<_>> = keys
            .iter()
            .enumerate()
            .map(|(i, &key)| {
                let sketch = ks.view(db, key)?.custom::<Sketch>().ok()?.sketch();
                Some((sketch, weights[i]))
            })
            .collect();
        CountMin::merged(dimensions, &sources.ok_or(NO_KEY)?, &mut goes_on)
    };
    ended?;
    let merged = merged.map_err(|Overflow| Fail::fixed("CMS: MERGE overflow"))?;
    let value = Loaded::Boxed(Box::new(Sketch::new(merged)));
    let key = ctx.key(1);
    ctx.exec.ks.replace_loaded(db, key, &TYPE, value);
    drop(held);
    ctx.ok()
}

/// `CMS.INFO key`
fn info(ctx: &mut Ctx<'_>) -> Outcome {
    let sketch = sketch(ctx, 1)?;
    let figures = [
        ("width", sketch.width().into()),
        ("depth", sketch.depth().into()),
        ("count", sketch.count().cast_signed()),
    ];
    ctx.reply.map(figures.len());
    for (name, figure) in figures {
        ctx.reply.simple(name);
        ctx.reply.integer(figure);
    }
    Ok(())
}
