//! Sets: adding, removing, drawing and reading members. Unions, intersections and differences:
//! `sets/algebra.rs`.

pub(crate) mod algebra;

use crate::arguments::random_count::{Draws, draw_repeated, draws};
use crate::arguments::scan::{self, Found, Options, Scanned};
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::long::{UNITS_PER_CHANGE, UNITS_PER_ITEM, expect};
use crate::modes::Modes;
use crate::spec::CommandSpec;
use petrel_keyspace::packed::Item;
use petrel_persistence::effects;
use petrel_resp::Reply;
use petrel_table::commands as meta;
use std::ops::Range;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::SADD, sadd),
    CommandSpec::new(&meta::SREM, srem),
    CommandSpec::new(&meta::SMEMBERS, smembers),
    CommandSpec::new(&meta::SISMEMBER, sismember),
    CommandSpec::new(&meta::SMISMEMBER, smismember),
    CommandSpec::new(&meta::SCARD, scard),
    CommandSpec::new(&meta::SPOP, spop),
    CommandSpec::new(&meta::SRANDMEMBER, srandmember),
    CommandSpec::new(&meta::SMOVE, smove),
    CommandSpec::new(&meta::SSCAN, sscan),
];

/// Writes an item of a collection.
#[inline]
pub(crate) fn write_item(reply: &mut dyn Reply, item: Item<'_>) {
    reply.bulk(item.bytes(&mut itoa::Buffer::new()));
}

/// `SADD key member [member ...]`
fn sadd(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let added = ctx.exec.ks.set_add(db, key, &ctx.args()[2..])?;
    ctx.number(added as i64)
}

/// Applies the effects in the last argument of a command of a primary's stream
/// ([`petrel_persistence::effects::hide`]); none if there are none. Its keys are locked.
#[inline]
fn apply_hidden(ctx: &mut Ctx<'_>, keys: Range<usize>) -> Option<Outcome> {
    match ctx.session.is(Modes::EFFECTS) {
        true => apply_hidden_group(ctx, keys),
        false => None,
    }
}

#[cold]
fn apply_hidden_group(ctx: &mut Ctx<'_>, keys: Range<usize>) -> Option<Outcome> {
    let args = ctx.args();
    // A primary writes a member of a client with this prefix twice.
    let [member] = args.get(keys.end..)? else { return None };
    let group = effects::hidden(member)?;
    let applied = effects::apply_hidden(&mut ctx.exec.ks, group, &args[keys]);
    Some(match applied {
        Ok(()) => ctx.number(0),
        Err(error) => Err(Fail::new(format!("ERR {error}"))),
    })
}

/// `SREM key member [member ...]`
fn srem(ctx: &mut Ctx<'_>) -> Outcome {
    if let Some(outcome) = apply_hidden(ctx, 1..2) {
        return outcome;
    }
    let (key, db) = (ctx.key(1), ctx.db());
    let removed = ctx.exec.ks.set_remove(db, key, &ctx.args()[2..])?;
    ctx.number(removed as i64)
}

/// `SMEMBERS key`
fn smembers(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, mut pacer) = (ctx.key(1), ctx.db(), ctx.exec.pacer());
    let Some(view) = ctx.exec.ks.read(db, key) else {
        ctx.reply.set(0);
        return Ok(());
    };
    let (set, mut ended) = (view.set()?, Ok(()));
    expect(set.len() * UNITS_PER_ITEM, ctx.exec.units_here)?;
    ctx.reply.set(set.len());
    set.each(&mut |member| {
        if pacer.reply_goes_on(UNITS_PER_ITEM, &mut ended) {
            write_item(ctx.reply, member);
        }
    });
    ended
}

/// `SISMEMBER key member`
fn sismember(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let is_member = match ctx.exec.ks.read(db, key) {
        Some(view) => view.set()?.contains(ctx.request.args[2]),
        None => false,
    };
    ctx.number(i64::from(is_member))
}

/// `SMISMEMBER key member [member ...]`
fn smismember(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, members) = (ctx.key(1), ctx.db(), &ctx.args()[2..]);
    let set = match ctx.exec.ks.read(db, key) {
        Some(view) => Some(view.set()?),
        None => None,
    };
    ctx.reply.array(members.len());
    for member in members {
        ctx.reply.integer(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

/// `SCARD key`
fn scard(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let len = match ctx.exec.ks.read(db, key) {
        Some(view) => view.set()?.len(),
        None => 0,
    };
    ctx.number(len as i64)
}

/// `SPOP key [count]`
fn spop(ctx: &mut Ctx<'_>) -> Outcome {
    let count = match ctx.args().len() {
        2 => None,
        3 => Some(pop_count(ctx)?),
        _ => return Err(Fail::SYNTAX),
    };
    let (key, db) = (ctx.key(1), ctx.db());
    let len = match ctx.exec.ks.look(db, key) {
        Some(view) => view.set()?.len(),
        None => 0,
    };
    expect(count.unwrap_or(1).min(len) * UNITS_PER_CHANGE, ctx.exec.units_here)?;
    match count {
        Some(count) => ctx.reply.set(count.min(len)),
        None if len == 0 => ctx.reply.null(),
        None => {}
    }
    let Executor { ks, random, .. } = &mut *ctx.exec;
    ks.set_pop(db, key, count.unwrap_or(1), &mut || random.next(), &mut |member| {
        ctx.reply.bulk(member);
    })?;
    Ok(())
}

fn pop_count(ctx: &Ctx<'_>) -> Result<usize, Fail> {
    let count = ctx.integer(2).ok().and_then(|count| usize::try_from(count).ok());
    count.ok_or(Fail::fixed("ERR value is out of range, must be positive"))
}

/// `SRANDMEMBER key [count]`
fn srandmember(ctx: &mut Ctx<'_>) -> Outcome {
    let draws = match ctx.args().len() {
        2 => None,
        3 => Some(draws(ctx, 2)?),
        _ => return Err(Fail::SYNTAX),
    };
    let (key, db, reply_max) = (ctx.key(1), ctx.db(), ctx.reply_max());
    let mut pacer = ctx.exec.pacer();
    let Executor { ks, random, .. } = &mut *ctx.exec;
    let Some(view) = ks.read(db, key) else {
        match draws {
            Some(_) => ctx.reply.array(0),
            None => ctx.reply.null(),
        }
        return Ok(());
    };
    let set = view.set()?;
    let draws = match draws {
        None => Draws::Repeated(1),
        Some(Draws::Distinct(count)) => Draws::Distinct(count.min(set.len())),
        Some(repeated) => repeated,
    };
    pacer.pace(draws.count().saturating_mul(UNITS_PER_ITEM))?;
    let (mut random, reply) = (|| random.next(), &mut *ctx.reply);
    if ctx.request.args.len() > 2 {
        reply.array(draws.count());
    }
    match draws {
        Draws::Distinct(count) => {
            set.sample(count, &mut random, &mut |member| write_item(reply, member));
        }
        Draws::Repeated(count) => draw_repeated(count, reply_max, &mut pacer, |run| {
            set.draw(run, &mut random, &mut |member| write_item(reply, member));
            reply.written()
        })?,
    }
    Ok(())
}

/// `SMOVE source destination member`
fn smove(ctx: &mut Ctx<'_>) -> Outcome {
    if let Some(outcome) = apply_hidden(ctx, 1..3) {
        return outcome;
    }
    let (source, destination, db) = (ctx.key(1), ctx.key(2), ctx.db());
    let member = ctx.arg(3);
    let is_member = match ctx.exec.ks.look(db, source) {
        Some(view) => view.set()?.contains(member),
        None => return ctx.number(0),
    };
    if let Some(view) = ctx.exec.ks.look(db, destination) {
        view.set()?;
    }
    if is_member && source.bytes != destination.bytes {
        ctx.exec.ks.set_remove(db, source, &[member])?;
        ctx.exec.ks.flush_emptied();
        ctx.exec.ks.set_add(db, destination, &[member])?;
    }
    ctx.number(i64::from(is_member))
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
fn sscan(ctx: &mut Ctx<'_>) -> Outcome {
    let cursor = scan::cursor(ctx, 2)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let options = Options::parse(ctx, 3, Scanned::Members);
    let (mut found, mut pacer, mut ended) = (Found::default(), ctx.exec.pacer(), Ok(()));
    let Some(view) = ctx.exec.ks.read(db, key) else { return found.write_with_cursor(ctx, 0) };
    let set = view.set()?;
    let options = options?;
    let cursor = set.scan(cursor, options.count, &mut |member| {
        let mut scratch = itoa::Buffer::new();
        let member = member.bytes(&mut scratch);
        if options.admits_within(member, &mut pacer, &mut ended) {
            found.push(member);
        }
    });
    ended?;
    found.write_with_cursor(ctx, cursor)
}
