//! Pops of members from either end, blocking or not.

use super::{Listing, look};
use crate::blocking::{Awaited, Block};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_CHANGE, expect};
use crate::numbers::integer;
use crate::spec::CommandSpec;
use petrel_keyspace::packed::Item;
use petrel_keyspace::types::sorted_set::Run;
use petrel_keyspace::{Key, Naming};
use petrel_resp::Reply;
use petrel_table::commands as meta;
use petrel_table::options::SortedSetPopOption;
use std::ops::Range;

/// The commands of this file.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::ZPOPMIN, |ctx| pop(ctx, End::Lowest)),
    CommandSpec::new(&meta::ZPOPMAX, |ctx| pop(ctx, End::Highest)),
    CommandSpec::new(&meta::ZMPOP, zmpop),
    CommandSpec::new(&meta::BZPOPMIN, |ctx| pop_or_wait(ctx, End::Lowest)),
    CommandSpec::new(&meta::BZPOPMAX, |ctx| pop_or_wait(ctx, End::Highest)),
    CommandSpec::new(&meta::BZMPOP, bzmpop),
];

/// End of the sorted set that members are popped from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Lowest,
    Highest,
}

/// Members to be popped.
struct Taken<'a> {
    run: Run<'a>,
    end: End,
}

impl Taken<'_> {
    /// Writes the members, outermost first.
    fn write(&self, listing: Listing, reply: &mut dyn Reply) {
        let write = |member: Item<'_>, score| listing.write(reply, member, score);
        match self.end {
            End::Lowest => self.run.each(write),
            End::Highest => self.run.each_back(write),
        }
    }
}

/// Pops up to `count` members from a key, after `write` has written them. False, with nothing
/// written, if there are none.
fn take(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    end: End,
    count: usize,
    write: impl FnOnce(&mut dyn Reply, &Taken<'_>),
) -> Result<bool, Fail> {
    let db = ctx.db();
    let Some(set) = look(&mut ctx.exec.ks, db, key)? else { return Ok(false) };
    let len = set.len();
    let count = count.min(len);
    expect(count * UNITS_PER_CHANGE, ctx.exec.units_here)?;
    let ranks = match end {
        End::Lowest => 0..count,
        End::Highest => len - count..len,
    };
    write(ctx.reply, &Taken { run: set.run(ranks.clone()), end });
    ctx.exec.ks.sorted_set_remove_range(db, key, ranks)?;
    Ok(true)
}

/// `ZPOPMIN key [count]`, `ZPOPMAX key [count]`
fn pop(ctx: &mut Ctx<'_>, end: End) -> Outcome {
    let (listing, count) = match ctx.args().len() {
        2 => (Listing::Flat, 1),
        3 => (Listing::with_scores(true, ctx.reply), positive(ctx, 2)?),
        _ => return Err(Fail::SYNTAX),
    };
    let key = ctx.key(1);
    let found = take(ctx, key, end, count, |reply, taken| {
        listing.begin(reply, taken.run.len());
        taken.write(listing, reply);
    })?;
    if !found {
        ctx.reply.array(0);
    }
    Ok(())
}

/// Parses a non-negative count.
fn positive(ctx: &Ctx<'_>, i: usize) -> Result<usize, Fail> {
    let count = ctx.integer(i).ok().and_then(|count| usize::try_from(count).ok());
    count.ok_or(Fail::fixed("ERR value is out of range, must be positive"))
}

/// Keys, end and count of `ZMPOP` and `BZMPOP`.
struct Choice {
    keys: Range<usize>,
    end: End,
    count: usize,
}

/// Parses `numkeys key [key ...] <MIN | MAX> [COUNT count]` from argument `from` on.
fn choice(ctx: &Ctx<'_>, from: usize) -> Result<Choice, Fail> {
    let at_least_1 = |word: &[u8], text| match integer(word).map(usize::try_from) {
        Ok(Ok(n @ 1..)) => Ok(n),
        _ => Err(Fail::fixed(text)),
    };
    let numkeys = at_least_1(ctx.arg(from), "ERR numkeys should be greater than 0")?;
    let args = ctx.args().len();
    let Some(at) = (from + 1).checked_add(numkeys).filter(|&at| at < args) else {
        return Err(Fail::SYNTAX);
    };
    let end = match () {
        _ if ctx.is(at, "MIN") => End::Lowest,
        _ if ctx.is(at, "MAX") => End::Highest,
        _ => return Err(Fail::SYNTAX),
    };
    let mut options = ctx.options(at + 1);
    let count = match options.next().transpose()? {
        None => 1,
        Some(SortedSetPopOption::Count(n)) => at_least_1(n, "ERR count should be greater than 0")?,
    };
    if options.left() > 0 {
        return Err(Fail::SYNTAX);
    }
    Ok(Choice { keys: from + 1..at, end, count })
}

/// Pops members from the first non-empty key.
fn take_first(ctx: &mut Ctx<'_>, choice: &Choice) -> Result<bool, Fail> {
    ctx.exec.ks.name_events(Naming::As(match choice.end {
        End::Lowest => "zpopmin",
        End::Highest => "zpopmax",
    }));
    for i in choice.keys.clone() {
        let key = ctx.key(i);
        let found = take(ctx, key, choice.end, choice.count, |reply, taken| {
            reply.array(2);
            reply.bulk(key.bytes);
            reply.array(taken.run.len());
            taken.write(Listing::Pairs, reply);
        })?;
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `ZMPOP numkeys key [key ...] <MIN | MAX> [COUNT count]`
fn zmpop(ctx: &mut Ctx<'_>) -> Outcome {
    let choice = choice(ctx, 1)?;
    if !take_first(ctx, &choice)? {
        ctx.reply.null_array();
    }
    Ok(())
}

/// `BZMPOP timeout numkeys key [key ...] <MIN | MAX> [COUNT count]`
fn bzmpop(ctx: &mut Ctx<'_>) -> Outcome {
    let choice = choice(ctx, 2)?;
    let deadline = ctx.timeout_seconds(1)?;
    if take_first(ctx, &choice)? {
        return Ok(());
    }
    ctx.block(Block::on(choice.keys, Awaited::SORTED_SET).until(deadline))
}

/// `BZPOPMIN key [key ...] timeout`, `BZPOPMAX key [key ...] timeout`
fn pop_or_wait(ctx: &mut Ctx<'_>, end: End) -> Outcome {
    let last = ctx.args().len() - 1;
    let deadline = ctx.timeout_seconds(last)?;
    for i in 1..last {
        let key = ctx.key(i);
        let found = take(ctx, key, end, 1, |reply, taken| {
            reply.array(3);
            reply.bulk(key.bytes);
            taken.write(Listing::Flat, reply);
        })?;
        if found {
            return Ok(());
        }
    }
    ctx.block(Block::on(1..last, Awaited::SORTED_SET).until(deadline))
}
