//! XDEL, XDELEX and XACKDEL.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::streams::parse_ids;
use crate::streams::pending::ids;
use petrel_keyspace::types::stream::{References, StreamId, StreamMut};
use petrel_table::options::StreamDeleteOption;
use std::ops::Range;

/// Result per entry, as in the replies.
const DELETED: i64 = 1;
const NOT_FOUND: i64 = -1;
const REFERRED_TO: i64 = 2;

/// `XDEL key id [id ...]`
pub(super) fn xdel(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, args) = (ctx.key(1), ctx.db(), ctx.args());
    let Some(mut stream) = ctx.exec.ks.stream_mut(db, key)? else { return ctx.number(0) };
    let ids = parse_ids(&args[2..])?;
    let deleted = ids.into_iter().filter(|&id| stream.delete(id)).count();
    ctx.reply.integer(deleted as i64);
    Ok(())
}

/// `XDELEX key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]`
pub(super) fn xdelex(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, args) = (ctx.key(1), ctx.db(), ctx.args());
    ctx.exec.ks.peek(db, key).map(|view| view.stream()).transpose()?;
    let (references, ids) = options(ctx, 2)?;
    let Some(mut stream) = ctx.exec.ks.stream_mut(db, key)? else {
        return none_found(ctx, ids.len());
    };
    let ids = parse_ids(&args[ids])?;
    ctx.reply.array(ids.len());
    for id in ids {
        ctx.reply.integer(delete(&mut stream, id, references));
    }
    Ok(())
}

/// `XACKDEL key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]`
pub(super) fn xackdel(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, args, group) = (ctx.key(1), ctx.db(), ctx.args(), ctx.arg(2));
    ctx.exec.ks.read(db, key).map(|view| view.stream()).transpose()?;
    let (references, ids) = options(ctx, 3)?;
    let stream = ctx.exec.ks.stream_mut(db, key)?;
    let Some(mut stream) = stream.filter(|stream| stream.groups().get(group).is_some()) else {
        return none_found(ctx, ids.len());
    };
    let ids = parse_ids(&args[ids])?;
    ctx.reply.array(ids.len());
    for id in ids {
        let outcome = if !stream.remove_pending(group, id) {
            NOT_FOUND
        } else {
            // A pending entry that was deleted before counts as deleted now.
            delete(&mut stream, id, references).max(DELETED)
        };
        ctx.reply.integer(outcome);
    }
    Ok(())
}

fn none_found(ctx: &mut Ctx<'_>, count: usize) -> Outcome {
    ctx.reply.array(count);
    for _ in 0..count {
        ctx.reply.integer(NOT_FOUND);
    }
    Ok(())
}

/// Deletes an entry, unless references to it prevent that.
fn delete(stream: &mut StreamMut<'_>, id: StreamId, references: References) -> i64 {
    match references {
        References::Acked if !stream.groups().have_acknowledged(id) => return REFERRED_TO,
        References::Delete => stream.remove_references(&[id]),
        _ => {}
    }
    if stream.delete(id) { DELETED } else { NOT_FOUND }
}

/// Parses the options from argument `from` on: the handling of references, and the range of the
/// IDs.
fn options(ctx: &Ctx<'_>, from: usize) -> Result<(References, Range<usize>), Fail> {
    const NOT_POSITIVE: Fail = Fail::fixed("ERR Number of IDs must be a positive integer");
    const NO_MATCH: Fail =
        Fail::fixed("ERR The `numids` parameter must match the number of arguments");
    let (mut references, mut found) = (None, None);
    let mut options = ctx.options(from);
    while let Some(option) = options.next() {
        let stated = match option? {
            StreamDeleteOption::Keepref => References::Keep,
            StreamDeleteOption::Delref => References::Delete,
            StreamDeleteOption::Acked => References::Acked,
            StreamDeleteOption::Ids(count) => {
                found = Some(ids(ctx, &mut options, count, NOT_POSITIVE, NO_MATCH)?);
                continue;
            }
        };
        if references.replace(stated).is_some() {
            return Err(Fail::SYNTAX);
        }
    }
    Ok((references.unwrap_or_default(), found.ok_or(Fail::SYNTAX)?))
}
