//! `FT.CURSOR`, and the limit of cursors.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers;
use crate::search::aggregate::job::Job;
use crate::search::open::{NO_PERMISSION, may_read, refuse_in_cluster};

const NOT_FOUND: Fail = Fail::fixed("Cursor not found");
const DROPPED: Fail = Fail::fixed("The index was dropped while the cursor was idle");

/// Rejects a command that would make one cursor of an index too many.
pub(super) fn refuse_more(ctx: &Ctx<'_>, index: u64) -> Outcome {
    let search = &ctx.exec.shared.search;
    search.cursors.close_idle(ctx.exec.ks.now_ms(), &ctx.exec.ks);
    match search.cursors.count(index) >= search.settings.cursors_max() {
        true => Err(Fail::fixed("Too many cursors allocated for index")),
        false => Ok(()),
    }
}

/// Takes a cursor, unless the user may not read its index.
fn take(ctx: &mut Ctx<'_>, id: u64, missing: Fail) -> Result<Job, Fail> {
    let shared = ctx.exec.shared.clone();
    let cursors = &shared.search.cursors;
    cursors.close_idle(ctx.exec.ks.now_ms(), &ctx.exec.ks);
    let schema = cursors.schema(id, ctx.db()).ok_or(missing.clone())?;
    if !may_read(ctx, &schema.prefixes) {
        return Err(NO_PERMISSION);
    }
    cursors.take(id).ok_or(missing)
}

/// `FT.CURSOR READ index id [COUNT n]`, `FT.CURSOR DEL index id`, `FT.CURSOR GC index id`
pub(in crate::search) fn cursor(ctx: &mut Ctx<'_>) -> Outcome {
    let [_, action, _, number, options @ ..] = ctx.args() else { return Err(ctx.wrong_arity()) };
    refuse_in_cluster(ctx)?;
    let id = || -> Result<u64, Fail> {
        let id = numbers::integer(number).map_err(|_| Fail::fixed("Bad cursor ID"))?;
        Ok(u64::try_from(id).unwrap_or(0))
    };
    match action.to_ascii_uppercase().as_slice() {
        b"READ" => read(ctx, id()?, options),
        b"DEL" => delete(ctx, id()?),
        // Idle cursors are closed in time.
        b"GC" => ctx.number(0),
        _ => Err(Fail::fixed("Unknown subcommand")),
    }
}

fn read(ctx: &mut Ctx<'_>, id: u64, options: &[&[u8]]) -> Outcome {
    let count = match options {
        [word, count, ..] if word.eq_ignore_ascii_case(b"COUNT") => {
            let bad = Fail::fixed("Bad value for COUNT");
            let count = numbers::integer(count).map_err(|_| bad)?;
            usize::try_from(count).ok().filter(|&count| count > 0)
        }
        _ => None,
    };
    let shared = ctx.exec.shared.clone();
    let cursors = &shared.search.cursors;
    let mut job = take(ctx, id, NOT_FOUND)?;
    if job.live.is_dropped() {
        job.release(&ctx.exec.ks);
        return Err(DROPPED);
    }
    let default = job.chunk;
    if count.is_some() {
        job.chunk = count;
    }
    job.begin_read();
    let outcome = job.finish_chunk(ctx).and_then(|()| job.answer(ctx, Some(id)));
    job.chunk = default;
    match outcome {
        Ok(true) => cursors.keep(job, ctx.exec.ks.now_ms()),
        // The command begins again elsewhere, or its client has gone.
        Err(fail) if fail.put_off().is_some() => {
            cursors.keep(job, ctx.exec.ks.now_ms());
            return Err(fail);
        }
        Ok(false) => job.release(&ctx.exec.ks),
        Err(fail) => {
            job.release(&ctx.exec.ks);
            return Err(fail);
        }
    }
    Ok(())
}

fn delete(ctx: &mut Ctx<'_>, id: u64) -> Outcome {
    let mut job = take(ctx, id, Fail::fixed("Cursor does not exist"))?;
    job.release(&ctx.exec.ks);
    ctx.ok()
}
