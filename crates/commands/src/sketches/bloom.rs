//! Bloom filters: whether an item was added, with few false positives and no false negatives.

use super::{COPIED_FROM, EXPANSION_MAX, SketchDefaults, capacity, error_rate, six_digits};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::expect;
use crate::spec::CommandSpec;
use petrel_keyspace::bloom::{
    self, AddError, Bloom, ChunkError, Filter, Reserve, TYPE, load_head, load_piece,
};
use petrel_keyspace::custom::{Loaded, Slot};
use petrel_keyspace::{Transient, parse_int};
use petrel_resp::{Protocol, Reply};
use petrel_table::commands as meta;
use std::sync::atomic::Ordering::Relaxed;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::BF_RESERVE, reserve),
    CommandSpec::new(&meta::BF_ADD, add),
    CommandSpec::new(&meta::BF_MADD, madd),
    CommandSpec::new(&meta::BF_INSERT, insert),
    CommandSpec::new(&meta::BF_EXISTS, exists),
    CommandSpec::new(&meta::BF_MEXISTS, mexists),
    CommandSpec::new(&meta::BF_CARD, card),
    CommandSpec::new(&meta::BF_INFO, info),
    CommandSpec::new(&meta::BF_DEBUG, debug),
    CommandSpec::new(&meta::BF_SCANDUMP, scandump),
    CommandSpec::new(&meta::BF_LOADCHUNK, loadchunk),
];

/// The largest error rate; a higher one is taken as this.
const ERROR_MAX: f64 = 0.25;

/// Bits that are read in a unit of work.
const PROBES_PER_UNIT: usize = 3;

/// Number of items for which bits are prefetched together.
const ITEMS_AHEAD: usize = 16;

/// Arguments of `BF.RESERVE` at most.
const RESERVE_ARGS_MAX: usize = 7;

const NOT_FOUND: Fail = Fail::fixed("ERR not found");
const EXISTS: Fail = Fail::fixed("ERR item exists");
const NOT_CREATED: Fail = Fail::fixed("ERR could not create filter");
const BAD_DATA: Fail = Fail::fixed("ERR received bad data");

impl From<AddError> for Fail {
    fn from(error: AddError) -> Self {
        match error {
            AddError::Full => Fail::fixed("ERR non scaling filter is full"),
            AddError::NoLink => Fail::fixed("ERR problem inserting into filter"),
        }
    }
}

impl From<ChunkError> for Fail {
    fn from(error: ChunkError) -> Self {
        match error {
            ChunkError::Iterator => BAD_DATA,
            ChunkError::NoLink => Fail::fixed("ERR invalid offset - no link found"),
            ChunkError::TooLong => Fail::fixed("ERR invalid chunk - Too big for current filter"),
        }
    }
}

impl SketchDefaults {
    /// The properties of a Bloom filter that is made without stating them.
    fn bloom(&self) -> Reserve {
        let expansion = self.bloom_expansion.load(Relaxed);
        Reserve {
            error: f64::from_bits(self.bloom_error.load(Relaxed)).min(ERROR_MAX),
            entries: self.bloom_entries.load(Relaxed),
            expansion,
            is_fixed: expansion == 0,
        }
    }
}

/// Memory that is counted while a filter grows.
type Growth = Result<Option<Transient>, Fail>;

/// The filter of the first key, if it exists.
fn filter<'a>(ctx: &'a mut Ctx<'_>) -> Result<Option<&'a Bloom>, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let view = ctx.exec.ks.read(db, key);
    Ok(view.map(|view| view.custom::<Filter>()).transpose()?.map(Filter::bloom))
}

/// Units for looking items up in a filter, which may have many links.
fn units_for(bloom: &Bloom, items: usize) -> usize {
    bloom.probes().saturating_mul(items) / PROBES_PER_UNIT
}

/// Makes room for what adding `items` to the filter of the first key allocates. If there is no
/// filter, makes the one that is asked for.
///
/// # Errors
/// If the key holds another type or there is no filter, or the memory limit would be exceeded.
#[inline]
fn prepare(ctx: &mut Ctx<'_>, items: usize, asked: Option<Reserve>) -> Growth {
    let (key, db, here) = (ctx.key(1), ctx.db(), ctx.exec.units_here);
    let slot = ctx.exec.ks.slot(db, key, &TYPE)?;
    let Some(held) = slot.held() else { return create(ctx, items, asked.ok_or(NOT_FOUND)?) };
    let Some(filter) = held.get::<Filter>() else { return Ok(None) };
    expect(units_for(filter.bloom(), items), here)?;
    let growth = filter.bloom().growth(items);
    ctx.hold_growth(growth)
}

/// Makes a filter at the first key, if it and `items` have room.
#[cold]
fn create(ctx: &mut Ctx<'_>, items: usize, asked: Reserve) -> Growth {
    let (key, db) = (ctx.key(1), ctx.db());
    let Reserve { error, entries, expansion, is_fixed } = asked;
    let bloom = Bloom::new(error, entries, expansion, is_fixed).ok_or(NOT_CREATED)?;
    let growth = ctx.hold_growth(bloom.growth(items))?;
    let mut slot = ctx.exec.ks.slot(db, key, &TYPE)?;
    if bloom::reserve(&mut slot, asked) { Ok(growth) } else { Err(NOT_CREATED) }
}

/// `BF.RESERVE key error_rate capacity [EXPANSION expansion] [NONSCALING]`
fn reserve(ctx: &mut Ctx<'_>) -> Outcome {
    const RATE: Fail = Fail::fixed("ERR error rate must be in the range (0.000000, 1.000000)");
    const CAPACITY: Fail = Fail::fixed("ERR capacity must be in the range [1, 1073741824]");
    const EXPANSION: Fail = Fail::fixed("ERR expansion must be in the range [0, 32768]");
    if ctx.args().len() > RESERVE_ARGS_MAX {
        return Err(ctx.wrong_arity());
    }
    let error = error_rate(ctx.arg(2)).ok_or(Fail::fixed("ERR bad error rate"))?;
    let error = error.map_err(|()| RATE)?.min(ERROR_MAX);
    let entries = parse_int(ctx.arg(3)).ok_or(Fail::fixed("ERR bad capacity"))?;
    let entries = capacity(entries).ok_or(CAPACITY)?;
    let words = &ctx.args()[4..];
    let find = |word: &str| words.iter().position(|w| w.eq_ignore_ascii_case(word.as_bytes()));
    let mut is_fixed = find("NONSCALING").is_some();
    let mut expansion = ctx.exec.shared.sketches.bloom().expansion;
    if let Some(at) = find("EXPANSION") {
        let text = words.get(at + 1).ok_or(Fail::fixed("ERR no expansion"))?;
        let stated = parse_int(text).ok_or(Fail::fixed("ERR bad expansion"))?;
        if is_fixed && stated != 0 {
            return Err(Fail::fixed("Nonscaling filters cannot expand"));
        }
        let stated = u32::try_from(stated).ok().filter(|&n| n <= EXPANSION_MAX);
        expansion = stated.ok_or(EXPANSION)?;
    }
    is_fixed |= expansion == 0;
    let (key, db) = (ctx.key(1), ctx.db());
    let mut slot = ctx.exec.ks.slot(db, key, &TYPE)?;
    if slot.held().is_some() {
        return Err(EXISTS);
    }
    if !bloom::reserve(&mut slot, Reserve { error, entries, expansion, is_fixed }) {
        return Err(NOT_CREATED);
    }
    ctx.ok()
}

/// `BF.ADD key item`
fn add(ctx: &mut Ctx<'_>) -> Outcome {
    let asked = ctx.exec.shared.sketches.bloom();
    let _growth = prepare(ctx, 1, Some(asked))?;
    let (key, db, item) = (ctx.key(1), ctx.db(), ctx.arg(2));
    let added = bloom::add_one(&mut ctx.exec.ks.slot(db, key, &TYPE)?, item);
    ctx.reply.boolean(added.ok_or(NOT_FOUND)??);
    Ok(())
}

/// `BF.MADD key item...`
fn madd(ctx: &mut Ctx<'_>) -> Outcome {
    let asked = ctx.exec.shared.sketches.bloom();
    add_from(ctx, 2, Some(asked))
}

/// Adds the items from argument `first` on, up to the first for which there is no room.
fn add_from(ctx: &mut Ctx<'_>, first: usize, asked: Option<Reserve>) -> Outcome {
    let items = &ctx.args()[first..];
    let _growth = prepare(ctx, items.len(), asked)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let added = match filter(ctx)?.map_or(0, |bloom| units_for(bloom, items.len())) {
        ..COPIED_FROM => bloom::add(&mut ctx.exec.ks.slot(db, key, &TYPE)?, items),
        _ => add_to_copy(ctx, items)?,
    };
    ctx.reply.array(added.len());
    for added in added {
        match added {
            Ok(is_new) => ctx.reply.boolean(is_new),
            Err(error) => ctx.reply.error(Fail::from(error).text()),
        }
    }
    Ok(())
}

/// Adds items to a copy of the filter of the first key, which then replaces it.
#[cold]
fn add_to_copy(ctx: &mut Ctx<'_>, items: &[&[u8]]) -> Result<Vec<Result<bool, AddError>>, Fail> {
    let (key, db, mut pacer) = (ctx.key(1), ctx.db(), ctx.exec.pacer());
    let copied = filter(ctx)?.map_or(0, Bloom::allocated);
    let _held = ctx.hold_growth(copied)?;
    let mut bloom = filter(ctx)?.ok_or(NOT_FOUND)?.duplicate();
    let mut added = Vec::with_capacity(items.len());
    for some in items.chunks(ITEMS_AHEAD) {
        pacer.pace(units_for(&bloom, some.len()))?;
        if !bloom::add_some(&mut bloom, some, &mut added) {
            break;
        }
    }
    if added.contains(&Ok(true)) {
        let value = Loaded::Boxed(Box::new(Filter::new(bloom)));
        ctx.exec.ks.replace_loaded(db, key, &TYPE, value);
    }
    Ok(added)
}

/// `BF.INSERT key [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING]
/// ITEMS item...`
///
/// Redis tells the words apart by some of their letters.
fn insert(ctx: &mut Ctx<'_>) -> Outcome {
    let mut asked = ctx.exec.shared.sketches.bloom();
    let (mut creates, mut i) = (true, 2);
    let letter = |word: &[u8], at: usize| word.get(at).map(u8::to_ascii_lowercase);
    loop {
        let Some(&word) = ctx.args().get(i) else { return Err(ctx.wrong_arity()) };
        i += 1;
        match (letter(word, 0), letter(word, 1), letter(word, 2)) {
            (Some(b'i'), ..) => break,
            (Some(b'n'), _, Some(b'c')) => creates = false,
            (Some(b'n'), ..) => asked.is_fixed = true,
            (Some(b'c' | b'e'), ..) => {
                let Some(&text) = ctx.args().get(i) else { return Err(ctx.wrong_arity()) };
                i += 1;
                set_property(&mut asked, word, text)?;
            }
            _ => return Err(Fail::fixed("Unknown argument received")),
        }
    }
    if i == ctx.args().len() {
        return Err(ctx.wrong_arity());
    }
    asked.is_fixed |= asked.expansion == 0;
    add_from(ctx, i, creates.then_some(asked))
}

/// Sets the property that a word of `BF.INSERT` names.
fn set_property(asked: &mut Reserve, word: &[u8], text: &[u8]) -> Outcome {
    if word[0].eq_ignore_ascii_case(&b'c') {
        let entries = parse_int(text).and_then(capacity);
        asked.entries = entries.ok_or(Fail::fixed("Bad capacity"))?;
    } else if word.get(1).is_some_and(|letter| letter.eq_ignore_ascii_case(&b'r')) {
        let error = error_rate(text).and_then(Result::ok);
        asked.error = error.ok_or(Fail::fixed("Bad error rate"))?.min(ERROR_MAX);
    } else {
        let expansion = parse_int(text).and_then(|n| u32::try_from(n).ok());
        let expansion = expansion.filter(|&n| n <= EXPANSION_MAX);
        asked.expansion = expansion.ok_or(Fail::fixed("Bad expansion"))?;
    }
    Ok(())
}

/// `BF.EXISTS key item`: no where Redis, too, does not look at the type.
fn exists(ctx: &mut Ctx<'_>) -> Outcome {
    let item = ctx.arg(2);
    let bloom = filter(ctx).ok().flatten();
    let is_there = bloom.is_some_and(|bloom| bloom.contains(bloom.hashes(item)));
    ctx.reply.boolean(is_there);
    Ok(())
}

/// `BF.MEXISTS key item...`
fn mexists(ctx: &mut Ctx<'_>) -> Outcome {
    let (items, here, mut pacer) = (&ctx.args()[2..], ctx.exec.units_here, ctx.exec.pacer());
    let mut found = Vec::with_capacity(items.len());
    if let Ok(Some(bloom)) = filter(ctx) {
        expect(units_for(bloom, items.len()), here)?;
        for some in items.chunks(ITEMS_AHEAD) {
            pacer.pace(units_for(bloom, some.len()))?;
            let hashes: Vec<_> = some.iter().map(|item| bloom.hashes(item)).collect();
            bloom.touch(&hashes);
            found.extend(hashes.into_iter().map(|hashes| bloom.contains(hashes)));
        }
    }
    found.resize(items.len(), false);
    ctx.reply.array(found.len());
    found.into_iter().for_each(|is_there| ctx.reply.boolean(is_there));
    Ok(())
}

/// `BF.CARD key`
fn card(ctx: &mut Ctx<'_>) -> Outcome {
    let items = filter(ctx)?.map_or(0, Bloom::items);
    ctx.number(items.cast_signed())
}

/// Names of the figures of `BF.INFO`, and the words that ask for one alone.
const FIGURES: [(&str, &str); 5] = [
    ("CAPACITY", "Capacity"),
    ("SIZE", "Size"),
    ("FILTERS", "Number of filters"),
    ("ITEMS", "Number of items inserted"),
    ("EXPANSION", "Expansion rate"),
];

/// The figures of `BF.INFO`.
fn figures(bloom: &Bloom) -> [Option<u64>; FIGURES.len()] {
    [
        Some(bloom.capacity()),
        Some(bloom.size()),
        Some(bloom.links().len() as u64),
        Some(bloom.items()),
        (!bloom.is_fixed()).then(|| bloom.expansion().into()),
    ]
}

fn write_figure(figure: Option<u64>, reply: &mut dyn Reply) {
    match figure {
        Some(n) => reply.integer(n.cast_signed()),
        None => reply.null(),
    }
}

/// `BF.INFO key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]`
fn info(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len() > 3 {
        return Err(ctx.wrong_arity());
    }
    let figures = figures(filter(ctx)?.ok_or(NOT_FOUND)?);
    let Some(word) = ctx.args().get(2) else {
        ctx.reply.map(FIGURES.len());
        for ((_, name), figure) in FIGURES.into_iter().zip(figures) {
            ctx.reply.simple(name);
            write_figure(figure, ctx.reply);
        }
        return Ok(());
    };
    let at = FIGURES.iter().position(|(own, _)| own.as_bytes().eq_ignore_ascii_case(word));
    let at = at.ok_or(Fail::fixed("Invalid information value"))?;
    if ctx.reply.protocol() == Protocol::Resp3 {
        ctx.reply.map(1);
        ctx.reply.simple(FIGURES[at].1);
    } else {
        ctx.reply.array(1);
    }
    write_figure(figures[at], ctx.reply);
    Ok(())
}

/// `BF.DEBUG key`
fn debug(ctx: &mut Ctx<'_>) -> Outcome {
    let bloom = filter(ctx)?.ok_or(NOT_FOUND)?;
    let width = bloom.hash_bits();
    let mut lines = vec![format!("size:{}", bloom.items())];
    for link in bloom.links() {
        let facts = link.facts();
        lines.push(format!(
            "bytes:{} bits:{} hashes:{} hashwidth:{width} capacity:{} size:{} ratio:{}",
            link.bytes(),
            facts.bits,
            facts.hashes,
            facts.entries,
            link.items(),
            six_digits(facts.error),
        ));
    }
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.bulk(line.as_bytes()));
    Ok(())
}

/// `BF.SCANDUMP key iterator`
fn scandump(ctx: &mut Ctx<'_>) -> Outcome {
    let iterator = parse_int(ctx.arg(2));
    let bloom = filter(ctx)?.ok_or(NOT_FOUND)?;
    let iterator = iterator.ok_or(Fail::fixed("Second argument must be numeric"))?;
    let (next, piece) = match iterator {
        0 => (1, bloom.head()),
        iterator => bloom.piece(iterator).unwrap_or_default(),
    };
    ctx.reply.array(2);
    ctx.reply.integer(next);
    ctx.reply.bulk(&piece);
    Ok(())
}

/// `BF.LOADCHUNK key iterator data`
fn loadchunk(ctx: &mut Ctx<'_>) -> Outcome {
    let iterator = parse_int(ctx.arg(2));
    let iterator = iterator.ok_or(Fail::fixed("ERR Second argument must be numeric"))?;
    let (key, db, data) = (ctx.key(1), ctx.db(), ctx.arg(3));
    let mut slot = ctx.exec.ks.slot(db, key, &TYPE)?;
    let Some(held) = slot.held() else {
        return match iterator {
            1 if load_head(&mut slot, data) => ctx.ok(),
            1 => Err(BAD_DATA),
            _ => Err(NOT_FOUND),
        };
    };
    let bloom = held.get::<Filter>().map(Filter::bloom);
    let bound = bloom.map_or(0, |bloom| bloom.piece_growth(iterator, data.len()));
    let _held = ctx.hold_growth(bound)?;
    load_piece(&mut ctx.exec.ks.slot(db, key, &TYPE)?, iterator, data)?;
    ctx.ok()
}
