//! Whole databases: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::{CommandSpec, Locks};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::DBSIZE, dbsize).locking(Locks::Itself),
    CommandSpec::new(&meta::FLUSHDB, flushdb).locking(Locks::Everything),
    CommandSpec::new(&meta::FLUSHALL, flushall).locking(Locks::Everything),
    CommandSpec::new(&meta::SWAPDB, swapdb).locking(Locks::Everything),
];

/// `DBSIZE`
fn dbsize(ctx: &mut Ctx<'_>) -> Outcome {
    let stats = ctx.exec.ks.keyspace().db_stats(ctx.session.db);
    ctx.number(stats.keys as i64)
}

/// `FLUSHDB [ASYNC | SYNC]`
fn flushdb(ctx: &mut Ctx<'_>) -> Outcome {
    let db = ctx.db();
    flush(ctx, Some(db))
}

/// `FLUSHALL [ASYNC | SYNC]`
fn flushall(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.exec.share.is_some() {
        return flush(ctx, None);
    }
    flush(ctx, None)?;
    let is_all = !ctx.session.in_exec && !ctx.exec.is_within_script();
    ctx.host.flushed_all(&mut ctx.exec.ks, is_all);
    Ok(())
}

/// Parses `ASYNC` (true) or `SYNC` (false); `None` without arguments.
///
/// # Errors
/// If they are no mode.
pub(crate) fn flush_mode(args: &[&[u8]]) -> Result<Option<bool>, Fail> {
    match args {
        [_] => Ok(None),
        [_, how] if how.eq_ignore_ascii_case(b"SYNC") => Ok(Some(false)),
        [_, how] if how.eq_ignore_ascii_case(b"ASYNC") => Ok(Some(true)),
        _ => Err(Fail::SYNTAX),
    }
}

fn flush(ctx: &mut Ctx<'_>, db: Option<u16>) -> Outcome {
    let in_background = flush_mode(ctx.args())?;
    if let Some(slots) = ctx.exec.share.take() {
        ctx.exec.remove_slots(&slots, db);
        ctx.exec.share = Some(slots);
        return ctx.ok();
    }
    let in_background = in_background.unwrap_or_else(|| ctx.host.flushes_in_background());
    let cleared = match db {
        Some(db) => ctx.exec.ks.clear(Some(db)),
        None => ctx.exec.ks.clear_all_from(ctx.session.db),
    };
    ctx.exec.discard_later(cleared, in_background);
    crate::search::forget_indexes(ctx, db)?;
    ctx.ok()
}

/// `SWAPDB index1 index2`
fn swapdb(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.admit_databases()?;
    let is_number = |i| ctx.integer(i).is_ok_and(|number| i32::try_from(number).is_ok());
    if !is_number(1) {
        return Err(Fail::fixed("ERR invalid first DB index"));
    }
    if !is_number(2) {
        return Err(Fail::fixed("ERR invalid second DB index"));
    }
    let (a, b) = (ctx.database(ctx.arg(1))?, ctx.database(ctx.arg(2))?);
    ctx.exec.ks.swap(a, b);
    crate::search::swap_indexes(ctx, a, b)?;
    ctx.ok()
}
