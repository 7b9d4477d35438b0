//! Random members, and iteration with ZSCAN.

use super::{Listing, read};
use crate::arguments::random_count::{Draws, draw_repeated, draws};
use crate::arguments::scan::{self, Found, Options, Scanned};
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::long::UNITS_PER_ITEM;
use crate::spec::CommandSpec;
use petrel_keyspace::packed::Item;
use petrel_resp::DoubleBuffer;
use petrel_table::commands as meta;

/// The commands of this file.
pub static COMMANDS: &[CommandSpec] =
    &[CommandSpec::new(&meta::ZRANDMEMBER, zrandmember), CommandSpec::new(&meta::ZSCAN, zscan)];

/// `ZRANDMEMBER key [count [WITHSCORES]]`
fn zrandmember(ctx: &mut Ctx<'_>) -> Outcome {
    let args = ctx.args().len();
    let mut draws = if args == 2 { None } else { Some(draws(ctx, 2)?) };
    if args > 4 || args == 4 && !ctx.is(3, "WITHSCORES") {
        return Err(Fail::SYNTAX);
    }
    if args == 4 {
        draws = draws.map(Draws::of_pairs).transpose()?;
    }
    let (key, db, reply_max) = (ctx.key(1), ctx.db(), ctx.reply_max());
    let mut pacer = ctx.exec.pacer();
    let Executor { ks, random, .. } = &mut *ctx.exec;
    let Some(set) = read(ks, db, key)? else {
        match draws {
            Some(_) => ctx.reply.array(0),
            None => ctx.reply.null(),
        }
        return Ok(());
    };
    let count = match draws {
        Some(Draws::Distinct(count)) => count.min(set.len()),
        other => other.map_or(1, Draws::count),
    };
    pacer.pace(count.saturating_mul(UNITS_PER_ITEM))?;
    let reply = &mut *ctx.reply;
    let listing = Listing::with_scores(args == 4, reply);
    let mut random = || random.next();
    match draws {
        None => {
            set.draw(1, &mut random, &mut |member, score| listing.write(reply, member, score));
        }
        Some(Draws::Repeated(count)) => {
            listing.begin(reply, count);
            draw_repeated(count, reply_max, &mut pacer, |run| {
                let mut each = |member: Item<'_>, score| listing.write(reply, member, score);
                set.draw(run, &mut random, &mut each);
                reply.written()
            })?;
        }
        Some(Draws::Distinct(count)) => {
            listing.begin(reply, count.min(set.len()));
            set.sample(count, &mut random, &mut |member, score| {
                listing.write(reply, member, score);
            });
        }
    }
    Ok(())
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]`
fn zscan(ctx: &mut Ctx<'_>) -> Outcome {
    let cursor = scan::cursor(ctx, 2)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let options = Options::parse(ctx, 3, Scanned::Scores);
    let (mut found, mut pacer, mut ended) = (Found::default(), ctx.exec.pacer(), Ok(()));
    let Some(set) = read(&mut ctx.exec.ks, db, key)? else {
        return found.write_with_cursor(ctx, 0);
    };
    let options = options?;
    let mut number = DoubleBuffer::new();
    let cursor = set.scan(cursor, options.count, |member, score| {
        let mut scratch = itoa::Buffer::new();
        let member = member.bytes(&mut scratch);
        if options.admits_within(member, &mut pacer, &mut ended) {
            found.push(member);
            if !options.no_scores {
                found.push(number.format(score));
            }
        }
    });
    ended?;
    found.write_with_cursor(ctx, cursor)
}
