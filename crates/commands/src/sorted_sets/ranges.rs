//! Commands on ranges: returning, storing, counting and removing.

use super::bounds::Bounds;
use super::{Gathered, Listing, look, read};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_CHANGE, UNITS_PER_ITEM, expect};
use crate::numbers::integer;
use crate::spec::CommandSpec;
use petrel_keyspace::packed::Item;
use petrel_keyspace::types::sorted_set::{Part, Run, SortedSetRef};
use petrel_table::commands as meta;
use petrel_table::options::SortedSetRangeOption;

/// The commands of this file.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::ZRANGE, zrange),
    CommandSpec::new(&meta::ZRANGESTORE, zrangestore),
    CommandSpec::new(&meta::ZREVRANGE, |ctx| list(ctx, Some(By::Rank), Some(true))),
    CommandSpec::new(&meta::ZRANGEBYSCORE, |ctx| list(ctx, Some(By::Score), Some(false))),
    CommandSpec::new(&meta::ZREVRANGEBYSCORE, |ctx| list(ctx, Some(By::Score), Some(true))),
    CommandSpec::new(&meta::ZRANGEBYLEX, |ctx| list(ctx, Some(By::Member), Some(false))),
    CommandSpec::new(&meta::ZREVRANGEBYLEX, |ctx| list(ctx, Some(By::Member), Some(true))),
    CommandSpec::new(&meta::ZCOUNT, |ctx| count(ctx, By::Score)),
    CommandSpec::new(&meta::ZLEXCOUNT, |ctx| count(ctx, By::Member)),
    CommandSpec::new(&meta::ZREMRANGEBYRANK, |ctx| remove(ctx, By::Rank)),
    CommandSpec::new(&meta::ZREMRANGEBYSCORE, |ctx| remove(ctx, By::Score)),
    CommandSpec::new(&meta::ZREMRANGEBYLEX, |ctx| remove(ctx, By::Member)),
];

/// Type of a range's bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum By {
    Rank,
    Score,
    Member,
}

impl By {
    fn bounds<'a>(self, min: &'a [u8], max: &'a [u8]) -> Result<Bounds<'a>, Fail> {
        match self {
            By::Rank => Bounds::ranks(min, max),
            By::Score => Bounds::scores(min, max),
            By::Member => Bounds::members(min, max),
        }
    }
}

/// Range arguments of a command.
struct Asked<'a> {
    bounds: Bounds<'a>,
    reverse: bool,
    scores: bool,
    /// `LIMIT`: members to skip, and maximum number to return; negative: all.
    limit: Option<(i64, i64)>,
}

impl<'a> Asked<'a> {
    /// Parses bounds and options from argument `from` on. Options that the command implies are not
    /// accepted.
    #[inline]
    fn parse(
        ctx: &Ctx<'a>,
        from: usize,
        implied_by: Option<By>,
        implied_reverse: Option<bool>,
        stores: bool,
    ) -> Result<Self, Fail> {
        let (mut by, mut reverse) = (implied_by, implied_reverse);
        let (mut scores, mut limit) = (false, None);
        for option in ctx.options(from + 2) {
            match option? {
                SortedSetRangeOption::Withscores if !stores => scores = true,
                SortedSetRangeOption::Limit(offset, count) => {
                    limit = Some((integer(offset)?, integer(count)?));
                }
                SortedSetRangeOption::Rev if implied_reverse.is_none() => reverse = Some(true),
                SortedSetRangeOption::Byscore if implied_by.is_none() => by = Some(By::Score),
                SortedSetRangeOption::Bylex if implied_by.is_none() => by = Some(By::Member),
                _ => return Err(Fail::SYNTAX),
            }
        }
        let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
        if by == By::Rank && limit.is_some_and(|(_, count)| count != -1) {
            return Err(Fail::fixed(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if by == By::Member && scores {
            return Err(Fail::fixed(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (first, second) = (ctx.arg(from), ctx.arg(from + 1));
        let bounds = if reverse && by != By::Rank {
            by.bounds(second, first)?
        } else {
            by.bounds(first, second)?
        };
        let limit = limit.filter(|_| by != By::Rank);
        Ok(Asked { bounds, reverse, scores, limit })
    }

    /// Selected members, lowest first.
    #[inline]
    fn run_of<'s>(&self, set: &SortedSetRef<'s>) -> Run<'s> {
        let wanted = |count: i64| usize::try_from(count).unwrap_or(usize::MAX);
        let (skip, take) =
            self.limit.map_or((0, usize::MAX), |(skip, take)| (wanted(skip), wanted(take)));
        self.bounds.run_of(set, Part { skip, take, from_end: self.reverse })
    }
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
fn zrange(ctx: &mut Ctx<'_>) -> Outcome {
    list(ctx, None, None)
}

/// `ZRANGE`, and the older commands that imply some of its options.
fn list(ctx: &mut Ctx<'_>, by: Option<By>, reverse: Option<bool>) -> Outcome {
    let asked = Asked::parse(ctx, 2, by, reverse, false)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let Some(set) = read(&mut ctx.exec.ks, db, key)? else {
        ctx.reply.array(0);
        return Ok(());
    };
    let run = asked.run_of(&set);
    expect(run.len() * UNITS_PER_ITEM, ctx.exec.units_here)?;
    let reply = &mut *ctx.reply;
    let listing = Listing::with_scores(asked.scores, reply);
    listing.begin(reply, run.len());
    let write = |member: Item<'_>, score| {
        if pacer.reply_goes_on(UNITS_PER_ITEM, &mut ended) {
            listing.write(reply, member, score);
        }
    };
    if asked.reverse {
        run.each_back(write);
    } else {
        run.each(write);
    }
    ended
}

/// `ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
fn zrangestore(ctx: &mut Ctx<'_>) -> Outcome {
    let asked = Asked::parse(ctx, 3, None, None, true)?;
    let (destination, source, db) = (ctx.key(1), ctx.key(2), ctx.db());
    let (mut gathered, mut pacer, mut ended) = (Gathered::default(), ctx.exec.pacer(), Ok(()));
    if let Some(set) = read(&mut ctx.exec.ks, db, source)? {
        let run = asked.run_of(&set);
        expect(run.len() * 2 * UNITS_PER_CHANGE, ctx.exec.units_here)?;
        run.each(|member, score| {
            if pacer.reply_goes_on(UNITS_PER_CHANGE, &mut ended) {
                gathered.push(member, score);
            }
        });
    }
    ended?;
    let len = gathered.store(&mut ctx.exec.ks, db, destination);
    ctx.number(len as i64)
}

/// `ZCOUNT key min max`, `ZLEXCOUNT key min max`
fn count(ctx: &mut Ctx<'_>, by: By) -> Outcome {
    let bounds = by.bounds(ctx.arg(2), ctx.arg(3))?;
    let (key, db) = (ctx.key(1), ctx.db());
    let set = read(&mut ctx.exec.ks, db, key)?;
    let count = set.map_or(0, |set| bounds.ranks_of(&set).len());
    ctx.number(count as i64)
}

/// `ZREMRANGEBYRANK key start stop`, `ZREMRANGEBYSCORE key min max`, `ZREMRANGEBYLEX key min max`
fn remove(ctx: &mut Ctx<'_>, by: By) -> Outcome {
    let bounds = by.bounds(ctx.arg(2), ctx.arg(3))?;
    let (key, db) = (ctx.key(1), ctx.db());
    let set = look(&mut ctx.exec.ks, db, key)?;
    let ranks = set.map_or(0..0, |set| bounds.ranks_of(&set));
    let removed = ranks.len();
    if removed > 0 {
        expect(removed * UNITS_PER_CHANGE, ctx.exec.units_here)?;
        ctx.exec.ks.sorted_set_remove_range(db, key, ranks)?;
    }
    ctx.number(removed as i64)
}
