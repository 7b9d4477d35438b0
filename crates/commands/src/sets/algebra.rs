//! Unions, intersections and differences of sets: returned, stored and counted.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::integer;
use crate::sets::write_item;
use crate::spec::CommandSpec;
use petrel_keyspace::{Key, SetOperation};
use petrel_table::commands as meta;
use petrel_table::options::SetCountOption;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::SINTER, |ctx| combine(ctx, SetOperation::Intersection)),
    CommandSpec::new(&meta::SINTERSTORE, |ctx| store(ctx, SetOperation::Intersection)),
    CommandSpec::new(&meta::SINTERCARD, |ctx| count(ctx, SetOperation::Intersection)),
    CommandSpec::new(&meta::SUNION, |ctx| combine(ctx, SetOperation::Union)),
    CommandSpec::new(&meta::SUNIONSTORE, |ctx| store(ctx, SetOperation::Union)),
    CommandSpec::new(&meta::SUNIONCARD, |ctx| count(ctx, SetOperation::Union)),
    CommandSpec::new(&meta::SDIFF, |ctx| combine(ctx, SetOperation::Difference)),
    CommandSpec::new(&meta::SDIFFSTORE, |ctx| store(ctx, SetOperation::Difference)),
    CommandSpec::new(&meta::SDIFFCARD, |ctx| count(ctx, SetOperation::Difference)),
];

fn keys<'a>(ctx: &Ctx<'a>, from: usize, to: usize) -> Vec<Key<'a>> {
    (from..to).map(|i| ctx.key(i)).collect()
}

/// `SINTER key [key ...]`, `SUNION` and `SDIFF` likewise
fn combine(ctx: &mut Ctx<'_>, operation: SetOperation) -> Outcome {
    let keys = keys(ctx, 1, ctx.args().len());
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let mut go_on = |units| pacer.goes_on(units, &mut ended);
    let combined = ctx.exec.ks.set_combine(ctx.session.db, operation, &keys, &mut go_on);
    let (members, _held) = combined?;
    ended?;
    ctx.reply.set(members.len());
    for member in members {
        if ctx.reply.is_dropped() {
            break;
        }
        write_item(ctx.reply, member);
        pacer.pace_reply(1)?;
    }
    Ok(())
}

/// `SINTERSTORE destination key [key ...]`, `SUNIONSTORE` and `SDIFFSTORE` likewise
fn store(ctx: &mut Ctx<'_>, operation: SetOperation) -> Outcome {
    let (destination, sources) = (ctx.key(1), keys(ctx, 2, ctx.args().len()));
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let mut go_on = |units| pacer.goes_on(units, &mut ended);
    let len =
        ctx.exec.ks.set_store(ctx.session.db, destination, operation, &sources, &mut go_on)?;
    ended?;
    ctx.number(len.unwrap_or(0) as i64)
}

/// `SINTERCARD numkeys key [key ...] [LIMIT limit]`, `SDIFFCARD` likewise, `SUNIONCARD` also with
/// `[APPROX]`
fn count(ctx: &mut Ctx<'_>, operation: SetOperation) -> Outcome {
    let args = ctx.args().len();
    let end = match ctx.integer(1) {
        Ok(keys @ 1..) => usize::try_from(keys).ok().and_then(|keys| keys.checked_add(2)),
        _ => return Err(Fail::fixed("ERR numkeys should be greater than 0")),
    };
    let Some(end) = end.filter(|&end| end <= args) else {
        return Err(Fail::fixed("ERR Number of keys can't be greater than number of args"));
    };
    let mut limit = 0;
    for option in ctx.options(end) {
        match option? {
            SetCountOption::Limit(stated) => {
                let stated = integer(stated).ok().and_then(|limit| usize::try_from(limit).ok());
                limit = stated.ok_or(Fail::fixed("ERR LIMIT can't be negative"))?;
            }
            // An exact count satisfies a request for an estimate.
            SetCountOption::Approx if operation == SetOperation::Union => {}
            SetCountOption::Approx => return Err(Fail::SYNTAX),
        }
    }
    let keys = keys(ctx, 2, end);
    let limit = if limit == 0 { usize::MAX } else { limit };
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let mut go_on = |units| pacer.goes_on(units, &mut ended);
    let count = ctx.exec.ks.set_count(ctx.session.db, operation, &keys, limit, &mut go_on)?;
    ended?;
    ctx.number(count as i64)
}
