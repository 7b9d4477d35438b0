//! How Valkey writes what expires of a hash: the options stand before `FIELDS`, which ends the
//! command, and `HSETEX` may demand something of the key.

use super::{ExOptions, Stated, Syntax, When, exists};
use crate::arguments::expiry::{self, Unit};
use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::keys::expire::Condition;
use std::ops::Range;

const COUNT: Fail =
    Fail::fixed("ERR numfields should be greater than 0 and match the provided number of fields");

/// Argument `i` as the expiry of a field, in Unix milliseconds.
pub(super) fn moment(ctx: &Ctx<'_>, i: usize, unit: Unit) -> Result<i64, Fail> {
    let n = ctx.integer(i)?;
    let moment = unit.moment(n, ctx.exec.ks.now_ms()).filter(|_| n >= 0);
    moment.ok_or_else(|| expiry::invalid(ctx))
}

/// Where the fields are, each of `width` arguments, that `FIELDS` at argument `i` announces; they
/// end the command.
fn fields_at(ctx: &Ctx<'_>, i: usize, width: usize, bad_count: Fail) -> Result<Range<usize>, Fail> {
    let (first, args) = (i + 2, ctx.args().len());
    if first > args {
        return Err(bad_count);
    }
    let count = usize::try_from(ctx.integer(i + 1)?).unwrap_or(0);
    match count > 0 && count.checked_mul(width) == Some(args - first) {
        true => Ok(first..args),
        false => Err(bad_count),
    }
}

/// Where the fields are of a command that has nothing but fields after its key.
pub(super) fn only_fields(ctx: &Ctx<'_>) -> Result<Range<usize>, Fail> {
    let reads = ctx.command.spec.meta.name.ends_with("ttl")
        || ctx.command.spec.meta.name.ends_with("expiretime");
    match ctx.is(2, "FIELDS") {
        true => fields_at(ctx, 2, 1, if reads { Fail::SYNTAX } else { COUNT }),
        false => Err(Fail::SYNTAX),
    }
}

/// The options of `HEXPIRE` and its like; several demands may be made at once.
pub(super) fn expire_options(ctx: &Ctx<'_>) -> Result<(Condition, Range<usize>), Fail> {
    let at = (3..ctx.args().len()).find(|&i| ctx.is(i, "FIELDS")).ok_or(COUNT)?;
    if at + 1 == ctx.args().len() {
        return Err(COUNT);
    }
    Ok((Condition::parse(ctx, 3..at)?, fields_at(ctx, at, 1, COUNT)?))
}

/// The options of `HGETEX` and `HSETEX`, each of which may be repeated. The number of the expiry is
/// read at last.
pub(super) fn ex_options(ctx: &mut Ctx<'_>, syntax: &Syntax) -> Result<ExOptions, Fail> {
    let args = ctx.args().len();
    // Without what ends the command nothing else is looked at.
    if !(2..args - 1).any(|i| ctx.is(i, "FIELDS")) {
        return Err(COUNT);
    }
    let (mut word, mut deadline): (bool, Option<(Unit, usize)>) = (false, None);
    let (mut when, mut of_key) = (When::Always, When::Always);
    let mut i = 2;
    while i < args && !ctx.is(i, "FIELDS") {
        let demand = |missing: &str, there: &str| match () {
            _ if !syntax.conditional => When::Always,
            _ if ctx.is(i, missing) => When::Missing,
            _ if ctx.is(i, there) => When::There,
            _ => When::Always,
        };
        let (of_fields, of_it) = (demand("FNX", "FXX"), demand("NX", "XX"));
        let fits = |stated: When, new: When| {
            new != When::Always && (stated == When::Always || stated == new)
        };
        match Unit::from_option(ctx.arg(i)) {
            Some(unit)
                if !word && deadline.is_none_or(|stated| stated.0 == unit) && i + 1 < args =>
            {
                i += 1;
                deadline = Some((unit, i));
            }
            None if ctx.is(i, syntax.word.0) && deadline.is_none() => word = true,
            None if fits(when, of_fields) => when = of_fields,
            None if fits(of_key, of_it) => of_key = of_it,
            _ => return Err(Fail::SYNTAX),
        }
        i += 1;
    }
    let fields = fields_at(ctx, i, syntax.width, COUNT)?;
    exists(ctx, false)?;
    let expiry = match deadline {
        Some((unit, i)) => Stated::At(moment(ctx, i, unit)?),
        None if word => syntax.word.1,
        None => Stated::Nothing,
    };
    Ok(ExOptions { expiry, when, of_key, fields })
}
