//! Cuckoo filters: like Bloom filters, but items can be deleted and are counted.

use super::{COPIED_FROM, CUCKOO_EXPANSION_MAX, SketchDefaults};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::expect;
use crate::spec::CommandSpec;
use petrel_keyspace::cuckoo::{
    self, AddError, Adding, Cuckoo, CuckooFilter, HEAD_LEN, LoadChunkError, Print, Reserve, TYPE,
    load_head, load_piece,
};
use petrel_keyspace::custom::{Loaded, Slot};
use petrel_keyspace::{Transient, parse_int};
use petrel_resp::Protocol;
use petrel_table::commands as meta;
use std::sync::atomic::Ordering::Relaxed;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::CF_RESERVE, reserve),
    CommandSpec::new(&meta::CF_ADD, |ctx| add(ctx, false)),
    CommandSpec::new(&meta::CF_ADDNX, |ctx| add(ctx, true)),
    CommandSpec::new(&meta::CF_INSERT, |ctx| insert(ctx, false)),
    CommandSpec::new(&meta::CF_INSERTNX, |ctx| insert(ctx, true)),
    CommandSpec::new(&meta::CF_EXISTS, exists),
    CommandSpec::new(&meta::CF_MEXISTS, mexists),
    CommandSpec::new(&meta::CF_COUNT, count),
    CommandSpec::new(&meta::CF_DEL, delete),
    CommandSpec::new(&meta::CF_COMPACT, compact),
    CommandSpec::new(&meta::CF_INFO, info),
    CommandSpec::new(&meta::CF_DEBUG, debug),
    CommandSpec::new(&meta::CF_SCANDUMP, scandump),
    CommandSpec::new(&meta::CF_LOADCHUNK, loadchunk),
];

/// Largest capacity that can be asked for.
const CAPACITY_MAX: i64 = 1 << 30;

/// Bytes of buckets that are read in a unit of work.
const PROBES_PER_UNIT: usize = 4;

const NOT_FOUND: Fail = Fail::fixed("ERR not found");
const EXISTS: Fail = Fail::fixed("ERR item exists");
const NOT_CREATED: Fail = Fail::fixed("ERR Could not create filter");
const POSITION: Fail = Fail::fixed("Invalid position");

impl From<AddError> for Fail {
    fn from(error: AddError) -> Self {
        match error {
            AddError::Full => Fail::fixed("Filter is full"),
            AddError::NoMore => Fail::fixed("Maximum expansions reached"),
        }
    }
}

impl From<LoadChunkError> for Fail {
    fn from(LoadChunkError: LoadChunkError) -> Self {
        Fail::fixed("Couldn't load chunk!")
    }
}

impl SketchDefaults {
    /// The properties of a cuckoo filter that is made without stating them.
    fn cuckoo(&self) -> Reserve {
        let bucket_size = self.cuckoo_bucket_size.load(Relaxed);
        Reserve {
            capacity: self.cuckoo_capacity.load(Relaxed).max(2 * u64::from(bucket_size)),
            bucket_size,
            iterations: self.cuckoo_iterations.load(Relaxed),
            expansion: self.cuckoo_expansion.load(Relaxed),
        }
    }
}

/// The filter of the first key, if it exists.
fn filter<'a>(ctx: &'a mut Ctx<'_>) -> Result<Option<&'a Cuckoo>, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let view = ctx.exec.ks.read(db, key);
    Ok(view.map(|view| view.custom::<CuckooFilter>()).transpose()?.map(CuckooFilter::cuckoo))
}

/// The way in which items are added.
fn adding(ctx: &Ctx<'_>, only_absent: bool) -> Adding {
    let most = ctx.exec.shared.sketches.cuckoo_filters.load(Relaxed) as usize;
    Adding { only_absent, most }
}

/// Makes room for what adding `items` to the filter of the first key allocates. If there is no
/// filter, makes the one that is asked for.
///
/// # Errors
/// If the key holds another type or there is no filter, or the memory limit would be exceeded.
#[inline]
fn prepare(
    ctx: &mut Ctx<'_>,
    items: usize,
    most: usize,
    asked: Option<Reserve>,
) -> Result<Option<Transient>, Fail> {
    let (key, db, here) = (ctx.key(1), ctx.db(), ctx.exec.units_here);
    let slot = ctx.exec.ks.slot(db, key, &TYPE)?;
    let Some(held) = slot.held() else {
        let asked = asked.ok_or(NOT_FOUND)?;
        let cuckoo = asked.shape().and_then(Cuckoo::new).ok_or(NOT_CREATED)?;
        expect(cuckoo.probes_to_add().saturating_mul(items) / PROBES_PER_UNIT, here)?;
        let growth = ctx.hold_growth(cuckoo.growth(items, most))?;
        let mut slot = ctx.exec.ks.slot(db, key, &TYPE)?;
        return if cuckoo::reserve(&mut slot, asked) { Ok(growth) } else { Err(NOT_CREATED) };
    };
    let Some(filter) = held.get::<CuckooFilter>() else { return Ok(None) };
    let cuckoo = filter.cuckoo();
    expect(cuckoo.probes_to_add().saturating_mul(items) / PROBES_PER_UNIT, here)?;
    let growth = cuckoo.growth(items, most);
    ctx.hold_growth(growth)
}

/// The number behind a word of `CF.RESERVE`, if the word is there.
fn property(ctx: &Ctx<'_>, word: &str, (min, max): (i64, i64)) -> Result<Option<u16>, Fail> {
    let words = &ctx.args()[3..];
    let Some(at) = words.iter().position(|w| w.eq_ignore_ascii_case(word.as_bytes())) else {
        return Ok(None);
    };
    let number = words.get(at + 1).and_then(|text| parse_int(text));
    let number = number.ok_or_else(|| Fail::new(format!("Couldn't parse {word}")))?;
    let number = u16::try_from(number).ok().filter(|&n| (min..=max).contains(&n.into()));
    let outside = || Fail::new(format!("{word}: value must be in the range [{min}, {max}]"));
    number.map(Some).ok_or_else(outside)
}

/// `CF.RESERVE key capacity [BUCKETSIZE bucketsize] [MAXITERATIONS maxiterations] [EXPANSION
/// expansion]`
///
/// Redis looks for the words anywhere.
fn reserve(ctx: &mut Ctx<'_>) -> Outcome {
    const RANGE: Fail = Fail::fixed("Capacity must be in the range [2 * BUCKETSIZE, 1073741824]");
    if ctx.args().len().is_multiple_of(2) {
        return Err(ctx.wrong_arity());
    }
    let mut asked = ctx.exec.shared.sketches.cuckoo();
    let capacity = parse_int(ctx.arg(2)).ok_or(Fail::fixed("Bad capacity"))?;
    let iterations = property(ctx, "MAXITERATIONS", (1, u16::MAX.into()))?;
    asked.iterations = iterations.unwrap_or(asked.iterations);
    if let Some(size) = property(ctx, "BUCKETSIZE", (1, u8::MAX.into()))? {
        asked.bucket_size = size as u8;
    }
    let expansion = property(ctx, "EXPANSION", (0, CUCKOO_EXPANSION_MAX.into()))?;
    asked.expansion = expansion.unwrap_or(asked.expansion);
    let range = 2 * i64::from(asked.bucket_size)..=CAPACITY_MAX;
    asked.capacity = if range.contains(&capacity) { capacity as u64 } else { return Err(RANGE) };
    let (key, db) = (ctx.key(1), ctx.db());
    let mut slot = ctx.exec.ks.slot(db, key, &TYPE)?;
    if slot.held().is_some() {
        return Err(EXISTS);
    }
    if !cuckoo::reserve(&mut slot, asked) {
        return Err(NOT_CREATED);
    }
    ctx.ok()
}

/// `CF.ADD key item`, `CF.ADDNX key item`
fn add(ctx: &mut Ctx<'_>, only_absent: bool) -> Outcome {
    let (asked, how) = (ctx.exec.shared.sketches.cuckoo(), adding(ctx, only_absent));
    let _growth = prepare(ctx, 1, how.most, Some(asked))?;
    let (key, db, item) = (ctx.key(1), ctx.db(), ctx.arg(2));
    let added = cuckoo::add_one(&mut ctx.exec.ks.slot(db, key, &TYPE)?, item, how);
    ctx.reply.boolean(added.ok_or(NOT_FOUND)??);
    Ok(())
}

/// `CF.INSERT key [CAPACITY capacity] [NOCREATE] ITEMS item...`, `CF.INSERTNX ...`
///
/// Redis tells the words apart by their first letters.
fn insert(ctx: &mut Ctx<'_>, only_absent: bool) -> Outcome {
    let mut asked = ctx.exec.shared.sketches.cuckoo();
    let (mut creates, mut i) = (true, 2);
    loop {
        let Some(&word) = ctx.args().get(i) else { return Err(ctx.wrong_arity()) };
        i += 1;
        match word.first().map(u8::to_ascii_lowercase) {
            Some(b'i') => break,
            Some(b'n') => creates = false,
            Some(b'c') => {
                let Some(&text) = ctx.args().get(i) else { return Err(ctx.wrong_arity()) };
                i += 1;
                let capacity = parse_int(text).ok_or(Fail::fixed("Bad capacity"))?;
                let range = 2 * i64::from(asked.bucket_size)..=CAPACITY_MAX;
                asked.capacity = if range.contains(&capacity) {
                    capacity as u64
                } else {
                    return Err(Fail::fixed(
                        "Capacity must be in the range [cf-bucket-size * 2, 1073741824]",
                    ));
                };
            }
            _ => return Err(Fail::fixed("Unknown argument received")),
        }
    }
    let items = &ctx.args()[i..];
    if items.is_empty() {
        return Err(ctx.wrong_arity());
    }
    let how = adding(ctx, only_absent);
    let _growth = prepare(ctx, items.len(), how.most, creates.then_some(asked))?;
    let (key, db) = (ctx.key(1), ctx.db());
    let units = |cuckoo: &Cuckoo| cuckoo.probes_to_add().saturating_mul(items.len());
    let added = match filter(ctx)?.map_or(0, units) / PROBES_PER_UNIT {
        ..COPIED_FROM => cuckoo::add(&mut ctx.exec.ks.slot(db, key, &TYPE)?, items, how),
        _ => add_to_copy(ctx, items, how)?,
    };
    let is_resp3 = ctx.reply.protocol() == Protocol::Resp3;
    ctx.reply.array(added.len());
    for added in added {
        match added {
            Ok(is_new) if only_absent => ctx.reply.integer(is_new.into()),
            Ok(is_new) => ctx.reply.boolean(is_new),
            Err(_) if is_resp3 && !only_absent => ctx.reply.boolean(false),
            Err(_) => ctx.reply.integer(-1),
        }
    }
    Ok(())
}

/// Adds items to a copy of the filter of the first key, which then replaces it.
#[cold]
fn add_to_copy(
    ctx: &mut Ctx<'_>,
    items: &[&[u8]],
    how: Adding,
) -> Result<Vec<Result<bool, AddError>>, Fail> {
    let mut pacer = ctx.exec.pacer();
    let mut cuckoo = copied(ctx)?;
    let mut added = Vec::with_capacity(items.len());
    for item in items.chunks(1) {
        pacer.pace(cuckoo.probes_to_add() / PROBES_PER_UNIT)?;
        cuckoo::add_some(&mut cuckoo, item, how, &mut added);
    }
    if added.contains(&Ok(true)) {
        replace(ctx, cuckoo);
    }
    Ok(added)
}

/// A copy of the filter of the first key, for a change that takes long.
fn copied(ctx: &mut Ctx<'_>) -> Result<Cuckoo, Fail> {
    let bytes = filter_to_change(ctx).map_or(0, Cuckoo::allocated);
    let _held = ctx.hold_growth(bytes)?;
    Ok(filter_to_change(ctx).ok_or(NOT_FOUND)?.duplicate())
}

/// Replaces the filter of the first key.
fn replace(ctx: &mut Ctx<'_>, cuckoo: Cuckoo) {
    let (key, db) = (ctx.key(1), ctx.db());
    let value = Loaded::Boxed(Box::new(CuckooFilter::new(cuckoo)));
    ctx.exec.ks.replace_loaded(db, key, &TYPE, value);
}

/// `CF.EXISTS key item`: no where Redis, too, does not look at the type.
fn exists(ctx: &mut Ctx<'_>) -> Outcome {
    let (item, here) = (ctx.arg(2), ctx.exec.units_here);
    let cuckoo = filter(ctx).ok().flatten();
    expect(cuckoo.map_or(0, Cuckoo::probes) / PROBES_PER_UNIT, here)?;
    let is_there = cuckoo.is_some_and(|cuckoo| cuckoo.contains(Print::of(item)));
    ctx.reply.boolean(is_there);
    Ok(())
}

/// `CF.MEXISTS key item...`
fn mexists(ctx: &mut Ctx<'_>) -> Outcome {
    const ITEMS_AHEAD: usize = 16;
    let (items, here, mut pacer) = (&ctx.args()[2..], ctx.exec.units_here, ctx.exec.pacer());
    let mut found = Vec::with_capacity(items.len());
    if let Ok(Some(cuckoo)) = filter(ctx) {
        expect(cuckoo.probes().saturating_mul(items.len()) / PROBES_PER_UNIT, here)?;
        for some in items.chunks(ITEMS_AHEAD) {
            pacer.pace(cuckoo.probes().saturating_mul(some.len()) / PROBES_PER_UNIT)?;
            let prints: Vec<_> = some.iter().map(|item| Print::of(item)).collect();
            cuckoo.touch(&prints);
            found.extend(prints.into_iter().map(|print| cuckoo.contains(print)));
        }
    }
    found.resize(items.len(), false);
    ctx.reply.array(found.len());
    found.into_iter().for_each(|is_there| ctx.reply.boolean(is_there));
    Ok(())
}

/// `CF.COUNT key item`
fn count(ctx: &mut Ctx<'_>) -> Outcome {
    let (item, here) = (ctx.arg(2), ctx.exec.units_here);
    let cuckoo = filter(ctx).ok().flatten();
    expect(cuckoo.map_or(0, Cuckoo::probes) / PROBES_PER_UNIT, here)?;
    let count = cuckoo.map_or(0, |cuckoo| cuckoo.count(Print::of(item)));
    ctx.number(count.cast_signed())
}

/// The filter of the first key, which is to be changed.
fn filter_to_change<'a>(ctx: &'a mut Ctx<'_>) -> Option<&'a Cuckoo> {
    let (key, db) = (ctx.key(1), ctx.db());
    let view = ctx.exec.ks.look(db, key)?;
    Some(view.custom::<CuckooFilter>().ok()?.cuckoo())
}

/// `CF.DEL key item`
fn delete(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, item, here) = (ctx.key(1), ctx.db(), ctx.arg(2), ctx.exec.units_here);
    let cuckoo = filter_to_change(ctx).ok_or(Fail::fixed("Not found"))?;
    expect(cuckoo.probes() / PROBES_PER_UNIT, here)?;
    if cuckoo.is_compacted_by_deletion() && cuckoo.contains(Print::of(item)) {
        expect(cuckoo.probes_to_compact() / PROBES_PER_UNIT, here)?;
    }
    let was_there = cuckoo::delete(&mut ctx.exec.ks.slot(db, key, &TYPE)?, item);
    ctx.reply.boolean(was_there);
    Ok(())
}

/// `CF.COMPACT key`
fn compact(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, here) = (ctx.key(1), ctx.db(), ctx.exec.units_here);
    let cuckoo = filter_to_change(ctx).ok_or(Fail::fixed("Cuckoo filter was not found"))?;
    let units = cuckoo.probes_to_compact() / PROBES_PER_UNIT;
    expect(units, here)?;
    if units < COPIED_FROM {
        cuckoo::compact(&mut ctx.exec.ks.slot(db, key, &TYPE)?);
        return ctx.ok();
    }
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let mut cuckoo = copied(ctx)?;
    let mut is_wanted = |bytes| pacer.goes_on(bytes / PROBES_PER_UNIT, &mut ended);
    cuckoo.compact_while(true, &mut is_wanted);
    ended?;
    replace(ctx, cuckoo);
    ctx.ok()
}

/// `CF.INFO key`
fn info(ctx: &mut Ctx<'_>) -> Outcome {
    let cuckoo = filter(ctx)?.ok_or(NOT_FOUND)?;
    let shape = cuckoo.shape();
    let figures = [
        ("Size", cuckoo.size()),
        ("Number of buckets", shape.buckets),
        ("Number of filters", cuckoo.filters() as u64),
        ("Number of items inserted", cuckoo.items()),
        ("Number of items deleted", cuckoo.deletes()),
        ("Bucket size", shape.bucket_size.into()),
        ("Expansion rate", shape.expansion.into()),
        ("Max iterations", shape.iterations.into()),
    ];
    ctx.reply.map(figures.len());
    for (name, figure) in figures {
        ctx.reply.simple(name);
        ctx.reply.integer(figure.cast_signed());
    }
    Ok(())
}

/// `CF.DEBUG key`
fn debug(ctx: &mut Ctx<'_>) -> Outcome {
    let cuckoo = filter(ctx)?.ok_or(NOT_FOUND)?;
    let shape = cuckoo.shape();
    let line = format!(
        "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
        shape.bucket_size,
        shape.buckets,
        cuckoo.items(),
        cuckoo.deletes(),
        cuckoo.filters(),
        shape.iterations,
        shape.expansion,
    );
    ctx.reply.bulk(line.as_bytes());
    Ok(())
}

/// `CF.SCANDUMP key iterator`
fn scandump(ctx: &mut Ctx<'_>) -> Outcome {
    let iterator = parse_int(ctx.arg(2)).filter(|&iterator| iterator >= 0).ok_or(POSITION)?;
    let cuckoo = filter(ctx)?.ok_or(NOT_FOUND)?;
    let piece = match iterator {
        _ if cuckoo.items() == 0 => None,
        0 => Some((1, cuckoo.head())),
        iterator => cuckoo.piece(iterator),
    };
    ctx.reply.array(2);
    match piece {
        Some((next, piece)) => {
            ctx.reply.integer(next);
            ctx.reply.bulk(&piece);
        }
        None => {
            ctx.reply.integer(0);
            ctx.reply.null();
        }
    }
    Ok(())
}

/// `CF.LOADCHUNK key iterator data`
fn loadchunk(ctx: &mut Ctx<'_>) -> Outcome {
    let iterator = parse_int(ctx.arg(2)).filter(|&iterator| iterator != 0).ok_or(POSITION)?;
    let (key, db, data) = (ctx.key(1), ctx.db(), ctx.arg(3));
    let slot = ctx.exec.ks.slot(db, key, &TYPE)?;
    let Some(held) = slot.held() else {
        if iterator != 1 {
            return Err(NOT_FOUND);
        }
        let _held = ctx.hold_growth(Cuckoo::head_growth(data))?;
        return match load_head(&mut ctx.exec.ks.slot(db, key, &TYPE)?, data) {
            true => ctx.ok(),
            false if data.len() != HEAD_LEN => Err(Fail::fixed("Invalid header")),
            false => Err(Fail::fixed("Couldn't create filter!")),
        };
    };
    if iterator == 1 {
        return Err(EXISTS);
    }
    let cuckoo = held.get::<CuckooFilter>().map(CuckooFilter::cuckoo);
    let bound = cuckoo.map_or(0, |cuckoo| cuckoo.piece_growth(iterator, data.len()));
    let _held = ctx.hold_growth(bound)?;
    load_piece(&mut ctx.exec.ks.slot(db, key, &TYPE)?, iterator, data)?;
    ctx.ok()
}
