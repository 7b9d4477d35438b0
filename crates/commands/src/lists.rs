//! Lists. Moves between lists and blocking pops: `moves.rs`.

pub(crate) mod moves;

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{Pacer, UNITS_PER_ITEM, expect};
use crate::numbers::integer;
use crate::spec::CommandSpec;
use petrel_keyspace::event::class;
use petrel_keyspace::parse_int;
use petrel_keyspace::types::list::{Element, End, ListRef};
use petrel_resp::Reply;
use petrel_table::commands as meta;
use petrel_table::options::LposOption;
use std::ops::Range;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::LPUSH, lpush),
    CommandSpec::new(&meta::RPUSH, rpush),
    CommandSpec::new(&meta::LPUSHX, lpushx),
    CommandSpec::new(&meta::RPUSHX, rpushx),
    CommandSpec::new(&meta::LPOP, lpop),
    CommandSpec::new(&meta::RPOP, rpop),
    CommandSpec::new(&meta::LLEN, llen),
    CommandSpec::new(&meta::LRANGE, lrange),
    CommandSpec::new(&meta::LINDEX, lindex),
    CommandSpec::new(&meta::LSET, lset),
    CommandSpec::new(&meta::LINSERT, linsert),
    CommandSpec::new(&meta::LREM, lrem),
    CommandSpec::new(&meta::LTRIM, ltrim),
    CommandSpec::new(&meta::LPOS, lpos),
];

/// Work units for passing over an element.
const UNITS_PER_LOOK: usize = 1;

/// Maximum length of an element, in bytes.
const ELEMENT_LEN_MAX: usize = u32::MAX as usize - 1024;

const NOT_POSITIVE: Fail = Fail::fixed("ERR value is out of range, must be positive");

/// Writes an element.
#[inline]
pub(crate) fn write_element(reply: &mut dyn Reply, element: &Element<'_>) {
    let mut digits = itoa::Buffer::new();
    let (first, second) = element.parts(&mut digits);
    reply.bulk_joined(first, second);
}

/// Rejects elements above the length limit of lists.
#[inline]
pub(crate) fn check_elements(elements: &[&[u8]]) -> Outcome {
    if elements.iter().any(|element| element.len() > ELEMENT_LEN_MAX) {
        return Err(Fail::fixed("ERR Element too large"));
    }
    Ok(())
}

/// Range of list elements: first and last, both counted from the end if negative.
fn span(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_front = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(len - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}

/// Position of `index`, counted from the end if negative.
fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index.saturating_add(len as i64) } else { index };
    usize::try_from(index).ok().filter(|&index| index < len)
}

/// `LPUSH key element [element ...]`
fn lpush(ctx: &mut Ctx<'_>) -> Outcome {
    push(ctx, End::Front)
}

/// `RPUSH key element [element ...]`
fn rpush(ctx: &mut Ctx<'_>) -> Outcome {
    push(ctx, End::Back)
}

#[inline]
fn push(ctx: &mut Ctx<'_>, end: End) -> Outcome {
    let (key, db, elements) = (ctx.key(1), ctx.db(), &ctx.args()[2..]);
    check_elements(elements)?;
    let len = ctx.exec.ks.list_push(db, key, end, elements)?;
    ctx.number(len as i64)
}

/// `LPUSHX key element [element ...]`
fn lpushx(ctx: &mut Ctx<'_>) -> Outcome {
    pushx(ctx, End::Front)
}

/// `RPUSHX key element [element ...]`
fn rpushx(ctx: &mut Ctx<'_>) -> Outcome {
    pushx(ctx, End::Back)
}

fn pushx(ctx: &mut Ctx<'_>, end: End) -> Outcome {
    let (key, db, elements) = (ctx.key(1), ctx.db(), &ctx.args()[2..]);
    check_elements(elements)?;
    let list = ctx.exec.ks.list_mut(db, key)?;
    let len = list.map_or(0, |mut list| list.push(end, elements));
    ctx.number(len as i64)
}

/// `LPOP key [count]`
fn lpop(ctx: &mut Ctx<'_>) -> Outcome {
    pop(ctx, End::Front)
}

/// `RPOP key [count]`
fn rpop(ctx: &mut Ctx<'_>) -> Outcome {
    pop(ctx, End::Back)
}

#[inline]
fn pop(ctx: &mut Ctx<'_>, end: End) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    if ctx.args().len() > 2 {
        return pop_many(ctx, end);
    }
    let reply = &mut *ctx.reply;
    match ctx.exec.ks.list_mut(db, key)? {
        Some(mut list) => {
            list.pop(end, 1, |element| write_element(reply, &element));
        }
        None => reply.null(),
    }
    Ok(())
}

fn pop_many(ctx: &mut Ctx<'_>, end: End) -> Outcome {
    if ctx.args().len() > 3 {
        return Err(Fail::new(ctx.exec.registry().arity_error(ctx.command.index)));
    }
    let count = ctx.integer(2).ok().and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or(NOT_POSITIVE)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let reply = &mut *ctx.reply;
    match ctx.exec.ks.list_mut(db, key)? {
        Some(mut list) => {
            expect(count.min(list.len()) * UNITS_PER_ITEM, ctx.exec.units_here)?;
            reply.array(count.min(list.len()));
            list.pop(end, count, |element| write_element(reply, &element));
        }
        None => reply.null_array(),
    }
    Ok(())
}

/// `LLEN key`
fn llen(ctx: &mut Ctx<'_>) -> Outcome {
    let key = ctx.key(1);
    let len = match ctx.exec.ks.read(ctx.session.db, key) {
        Some(view) => view.list()?.len(),
        None => 0,
    };
    ctx.number(len as i64)
}

/// `LRANGE key start stop`
fn lrange(ctx: &mut Ctx<'_>) -> Outcome {
    let (start, stop) = (ctx.integer(2)?, ctx.integer(3)?);
    let (key, mut pacer) = (ctx.key(1), ctx.exec.pacer());
    let Some(view) = ctx.exec.ks.read(ctx.session.db, key) else {
        ctx.reply.array(0);
        return Ok(());
    };
    let list = view.list()?;
    let span = span(start, stop, list.len());
    expect(span.len() * UNITS_PER_ITEM, ctx.exec.units_here)?;
    ctx.reply.array(span.len());
    for element in list.iter_from(span.start).take(span.len()) {
        write_element(ctx.reply, &element);
        pacer.pace_reply(UNITS_PER_ITEM)?;
    }
    Ok(())
}

/// `LINDEX key index`
fn lindex(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, index) = (ctx.key(1), ctx.integer(2));
    let Some(view) = ctx.exec.ks.read(ctx.session.db, key) else {
        ctx.reply.null();
        return Ok(());
    };
    let list = view.list()?;
    // Redis does not check the index if the key does not exist.
    match place(index?, list.len()).and_then(|index| list.get(index)) {
        Some(element) => write_element(ctx.reply, &element),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// `LSET key index element`
fn lset(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, index, element) = (ctx.key(1), ctx.db(), ctx.integer(2), ctx.arg(3));
    check_elements(&[element])?;
    let mut list = ctx.exec.ks.list_mut(db, key)?.ok_or(Fail::NO_SUCH_KEY)?;
    let index = place(index?, list.len()).ok_or(Fail::fixed("ERR index out of range"))?;
    list.set(index, element);
    ctx.ok()
}

/// `LINSERT key BEFORE | AFTER pivot element`
fn linsert(ctx: &mut Ctx<'_>) -> Outcome {
    let behind = match () {
        () if ctx.is(2, "BEFORE") => 0,
        () if ctx.is(2, "AFTER") => 1,
        () => return Err(Fail::SYNTAX),
    };
    let (key, db, pivot, element) = (ctx.key(1), ctx.db(), ctx.arg(3), ctx.arg(4));
    check_elements(&[element])?;
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let Some(mut list) = ctx.exec.ks.list_mut(db, key)? else { return ctx.number(0) };
    expect(list.len() * UNITS_PER_LOOK, ctx.exec.units_here)?;
    let mut found = None;
    let first = |index| {
        found = Some(index);
        false
    };
    list.read().find(pivot, End::Front, usize::MAX, first, &mut |count| {
        pacer.reply_goes_on(count * UNITS_PER_LOOK, &mut ended)
    });
    ended?;
    let Some(index) = found else { return ctx.number(-1) };
    list.insert(index + behind, element);
    let len = list.len();
    ctx.number(len as i64)
}

/// `LREM key count element`
fn lrem(ctx: &mut Ctx<'_>) -> Outcome {
    let count = signed(ctx.arg(2))?;
    let (key, db, element) = (ctx.key(1), ctx.db(), ctx.arg(3));
    let Some(mut list) = ctx.exec.ks.list_mut(db, key)? else { return ctx.number(0) };
    expect(list.len() * UNITS_PER_ITEM, ctx.exec.units_here)?;
    let from = if count < 0 { End::Back } else { End::Front };
    let limit = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    let removed = list.remove_equal(element, from, limit);
    ctx.number(removed as i64)
}

/// Parses an integer that can be negated.
fn signed(word: &[u8]) -> Result<i64, Fail> {
    match integer(word)? {
        i64::MIN => Err(Fail::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        )),
        n => Ok(n),
    }
}

/// `LTRIM key start stop`
fn ltrim(ctx: &mut Ctx<'_>) -> Outcome {
    let (start, stop) = (ctx.integer(2)?, ctx.integer(3)?);
    let (key, db) = (ctx.key(1), ctx.db());
    if let Some(mut list) = ctx.exec.ks.list_mut(db, key)? {
        let (before, span) = (list.len(), span(start, stop, list.len()));
        expect((before - span.len()) * UNITS_PER_LOOK, ctx.exec.units_here)?;
        list.trim(span.clone());
        if span.len() == before {
            // Nothing has changed, but Redis aborts transactions that watch the key.
            ctx.exec.ks.signal_modified(db, key);
            ctx.event(class::LIST, "ltrim", key.bytes);
        }
    }
    ctx.ok()
}

/// Arguments of `LPOS`.
struct Search {
    /// Matches to skip.
    skip: usize,
    from: End,
    /// Maximum number of matches; `None`: one, not in an array.
    count: Option<usize>,
    /// Maximum number of compared elements.
    most: usize,
}

/// `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`
fn lpos(ctx: &mut Ctx<'_>) -> Outcome {
    let search = search(ctx)?;
    let (key, element, mut pacer) = (ctx.key(1), ctx.arg(2), ctx.exec.pacer());
    let places = match ctx.exec.ks.read(ctx.session.db, key) {
        Some(view) => {
            let list = view.list()?;
            let looks = list.len().min(search.most);
            expect(looks * UNITS_PER_LOOK, ctx.exec.units_here)?;
            places(list, element, &search, &mut pacer)?
        }
        None => Vec::new(),
    };
    match (search.count, places.first()) {
        (None, None) => ctx.reply.null(),
        (None, Some(&place)) => ctx.reply.integer(place as i64),
        (Some(_), _) => {
            ctx.reply.array(places.len());
            places.iter().for_each(|&place| ctx.reply.integer(place as i64));
        }
    }
    Ok(())
}

fn search(ctx: &Ctx<'_>) -> Result<Search, Fail> {
    let mut search = Search { skip: 0, from: End::Front, count: None, most: usize::MAX };
    for option in ctx.options(3) {
        match option? {
            LposOption::Rank(rank) => {
                let rank = signed(rank)?;
                if rank == 0 {
                    return Err(Fail::fixed(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                    ));
                }
                search.from = if rank < 0 { End::Back } else { End::Front };
                search.skip = (rank.unsigned_abs() - 1) as usize;
            }
            LposOption::Count(count) => {
                search.count = Some(at_least_zero(count, "ERR COUNT can't be negative")?);
            }
            LposOption::Maxlen(most) => {
                search.most = at_least_zero(most, "ERR MAXLEN can't be negative")?;
            }
        }
    }
    Ok(search)
}

/// Parses a non-negative number; 0 means no limit.
fn at_least_zero(word: &[u8], otherwise: &'static str) -> Result<usize, Fail> {
    let n = parse_int(word).and_then(|n| usize::try_from(n).ok());
    n.map(|n| if n == 0 { usize::MAX } else { n }).ok_or(Fail::fixed(otherwise))
}

fn places(
    list: ListRef<'_>,
    element: &[u8],
    search: &Search,
    pacer: &mut Pacer,
) -> Result<Vec<usize>, Fail> {
    let count = search.count.unwrap_or(1);
    let (mut places, mut skip, mut ended) = (Vec::new(), search.skip, Ok(()));
    let found = |place| {
        if skip > 0 {
            skip -= 1;
        } else {
            places.push(place);
        }
        places.len() < count
    };
    list.find(element, search.from, search.most, found, &mut |count| {
        pacer.reply_goes_on(count * UNITS_PER_LOOK, &mut ended)
    });
    ended.map(|()| places)
}
