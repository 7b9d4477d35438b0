//! Valkey's syntax for the expiry of hash fields. Options precede `FIELDS`, which is last, and
//! `HSETEX` may have a condition on the key.

use super::{ExOptions, Stated, Syntax, When, exists, is_fields};
use crate::arguments::expiry::{self, Unit};
use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::keys::expire::Condition;
use crate::numbers::integer;
use petrel_table::options::{HashExpiryOption, Reader};
use std::ops::Range;

const COUNT: Fail =
    Fail::fixed("ERR numfields should be greater than 0 and match the provided number of fields");

/// Parses the expiry of a field, in Unix milliseconds.
pub(super) fn moment(ctx: &Ctx<'_>, word: &[u8], unit: Unit) -> Result<i64, Fail> {
    let n = integer(word)?;
    let moment = unit.moment(n, ctx.exec.ks.now_ms()).filter(|_| n >= 0);
    moment.ok_or_else(|| expiry::invalid(ctx))
}

/// Argument range of the fields, with `width` arguments for each: from `first`, after their number,
/// to the end.
fn fields_from(
    ctx: &Ctx<'_>,
    first: usize,
    width: usize,
    bad_count: Fail,
) -> Result<Range<usize>, Fail> {
    let args = ctx.args().len();
    if first > args {
        return Err(bad_count);
    }
    let count = usize::try_from(ctx.integer(first - 1)?).unwrap_or(0);
    match count > 0 && count.checked_mul(width) == Some(args - first) {
        true => Ok(first..args),
        false => Err(bad_count),
    }
}

/// Argument range of the fields, for a command with only fields after its key.
pub(super) fn only_fields(ctx: &Ctx<'_>) -> Result<Range<usize>, Fail> {
    let reads = ctx.command.spec.meta.name.ends_with("ttl")
        || ctx.command.spec.meta.name.ends_with("expiretime");
    match ctx.is(2, "FIELDS") {
        true => fields_from(ctx, 4, 1, if reads { Fail::SYNTAX } else { COUNT }),
        false => Err(Fail::SYNTAX),
    }
}

/// Parses the options of `HEXPIRE` and its variants; several conditions are allowed.
pub(super) fn expire_options(ctx: &Ctx<'_>) -> Result<(Condition, Range<usize>), Fail> {
    let at = (3..ctx.args().len()).find(|&i| ctx.is(i, "FIELDS")).ok_or(COUNT)?;
    if at + 1 == ctx.args().len() {
        return Err(COUNT);
    }
    let options = Reader::new(&ctx.args()[3..at]);
    Ok((Condition::parse(options)?, fields_from(ctx, at + 2, 1, COUNT)?))
}

/// Parses the options of `HGETEX` and `HSETEX`, which may be repeated. The number of the expiry is
/// parsed last.
pub(super) fn ex_options(ctx: &mut Ctx<'_>, syntax: &Syntax) -> Result<ExOptions, Fail> {
    // Without `FIELDS` no other error is reported.
    if !(2..ctx.args().len() - 1).any(|i| ctx.is(i, "FIELDS")) {
        return Err(COUNT);
    }
    let (mut word, mut deadline) = (false, expiry::Stated::default());
    let (mut when, mut of_key) = (When::Always, When::Always);
    let demand = |before, stated| match syntax.conditional {
        true if before == When::Always || before == stated => Ok(stated),
        _ => Err(Fail::SYNTAX),
    };
    let mut options = ctx.options(2);
    let first = loop {
        match options.next().ok_or(COUNT)? {
            Ok(HashExpiryOption::Fields(_)) => break ctx.position(&options),
            Err(unread) if is_fields(unread.word()) => return Err(COUNT),
            Ok(HashExpiryOption::Ex(n)) if !word => deadline.state(Unit::Seconds, n)?,
            Ok(HashExpiryOption::Px(n)) if !word => deadline.state(Unit::Millis, n)?,
            Ok(HashExpiryOption::Exat(n)) if !word => deadline.state(Unit::UnixSeconds, n)?,
            Ok(HashExpiryOption::Pxat(n)) if !word => deadline.state(Unit::UnixMillis, n)?,
            Ok(HashExpiryOption::Persist) if syntax.word == Stated::Persist => word = true,
            Ok(HashExpiryOption::Keepttl) if syntax.word == Stated::Keep => word = true,
            Ok(HashExpiryOption::Fnx) => when = demand(when, When::Missing)?,
            Ok(HashExpiryOption::Fxx) => when = demand(when, When::There)?,
            Ok(HashExpiryOption::Nx) => of_key = demand(of_key, When::Missing)?,
            Ok(HashExpiryOption::Xx) => of_key = demand(of_key, When::There)?,
            _ => return Err(Fail::SYNTAX),
        }
        if word && deadline.is_some() {
            return Err(Fail::SYNTAX);
        }
    };
    let fields = fields_from(ctx, first, syntax.width, COUNT)?;
    exists(ctx, false)?;
    let expiry = match deadline.stated() {
        Some((unit, n)) => Stated::At(moment(ctx, n, unit)?),
        None if word => syntax.word,
        None => Stated::Nothing,
    };
    Ok(ExOptions { expiry, when, of_key, fields })
}
