//! Commands on parts of strings: APPEND, GETRANGE, SETRANGE and STRLEN.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::CommandSpec;
use petrel_keyspace::{StrRef, View, WrongType};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::APPEND, append),
    CommandSpec::new(&meta::STRLEN, strlen),
    CommandSpec::new(&meta::GETRANGE, getrange),
    CommandSpec::new(&meta::SUBSTR, getrange),
    CommandSpec::new(&meta::SETRANGE, setrange),
];

/// `APPEND key value`
fn append(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, bytes) = (ctx.key(1), ctx.db(), ctx.arg(2));
    let Some(offset) = string_len(ctx.exec.ks.look(db, key))? else {
        let value = ctx.value(2);
        ctx.exec.ks.put(db, key, value, None);
        return ctx.number(bytes.len() as i64);
    };
    check_len(ctx, offset, bytes.len())?;
    let len = ctx.exec.ks.write_range(db, key, offset, bytes)?;
    ctx.number(len as i64)
}

/// `STRLEN key`
fn strlen(ctx: &mut Ctx<'_>) -> Outcome {
    let key = ctx.key(1);
    let len = string_len(ctx.exec.ks.read(ctx.session.db, key))?.unwrap_or(0);
    ctx.number(len as i64)
}

/// `GETRANGE key start end`, and `SUBSTR`, its older name
fn getrange(ctx: &mut Ctx<'_>) -> Outcome {
    let (start, end) = (ctx.integer(2)?, ctx.integer(3)?);
    let key = ctx.key(1);
    let Some(view) = ctx.exec.ks.read(ctx.session.db, key) else {
        ctx.reply.bulk(b"");
        return Ok(());
    };
    let value = view.string()?;
    let Some((from, to)) = span(start, end, value.len()) else {
        ctx.reply.bulk(b"");
        return Ok(());
    };
    match value {
        StrRef::Blob(blob) => ctx.reply.shared(blob.slice(from..to)),
        value => ctx.reply.bulk(&value.bytes(&mut itoa::Buffer::new())[from..to]),
    }
    Ok(())
}

/// Half-open range of the bytes from `start` to `end`, both counted from the end if negative;
/// `None` if it is empty. Positions before the value mean its first byte, unless both ends are
/// negative and in the wrong order.
fn span(start: i64, end: i64, len: usize) -> Option<(usize, usize)> {
    if start < 0 && end < 0 && start > end {
        return None;
    }
    let len = len as i64;
    let from_front = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (first, last) = (from_front(start), from_front(end).min(len - 1));
    (first <= last).then(|| (first as usize, last as usize + 1))
}

/// `SETRANGE key offset value`
fn setrange(ctx: &mut Ctx<'_>) -> Outcome {
    let offset = ctx.integer(2)?;
    let offset = usize::try_from(offset).map_err(|_| Fail::fixed("ERR offset is out of range"))?;
    let (key, db, bytes) = (ctx.key(1), ctx.db(), ctx.arg(3));
    let len = string_len(ctx.exec.ks.look(db, key))?.unwrap_or(0);
    if bytes.is_empty() {
        return ctx.number(len as i64);
    }
    check_len(ctx, offset, bytes.len())?;
    ctx.hold_growth(offset.saturating_sub(len))?;
    let len = ctx.exec.ks.write_range(db, key, offset, bytes)?;
    ctx.number(len as i64)
}

/// Length of the string at a key, if the key exists.
fn string_len(view: Option<View<'_>>) -> Result<Option<usize>, WrongType> {
    view.map(|view| view.string().map(|value| value.len())).transpose()
}

fn check_len(ctx: &Ctx<'_>, offset: usize, added: usize) -> Outcome {
    match offset.checked_add(added) {
        Some(len) if len <= ctx.host.string_len_max() => Ok(()),
        _ => Err(Fail::STRING_TOO_LONG),
    }
}
