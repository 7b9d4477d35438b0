//! Expiry as commands write it: seconds or milliseconds, from now or as Unix time.

use crate::ctx::Ctx;
use crate::fail::Fail;

/// How an argument states an expiry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    /// Seconds from now (`EX`, `EXPIRE`).
    Seconds,
    /// Milliseconds from now (`PX`, `PEXPIRE`).
    Millis,
    /// Unix time in seconds (`EXAT`, `EXPIREAT`).
    UnixSeconds,
    /// Unix time in milliseconds (`PXAT`, `PEXPIREAT`).
    UnixMillis,
}

impl Unit {
    /// The unit of an option of `SET` and `GETEX`.
    pub fn from_option(option: &[u8]) -> Option<Self> {
        let units = [
            ("EX", Unit::Seconds),
            ("PX", Unit::Millis),
            ("EXAT", Unit::UnixSeconds),
            ("PXAT", Unit::UnixMillis),
        ];
        units
            .iter()
            .find(|(name, _)| option.eq_ignore_ascii_case(name.as_bytes()))
            .map(|&(_, unit)| unit)
    }

    /// The moment in Unix milliseconds; none if it does not fit 64 bits.
    pub fn moment(self, n: i64, now_ms: i64) -> Option<i64> {
        let millis = match self {
            Unit::Seconds | Unit::UnixSeconds => n.checked_mul(1000)?,
            Unit::Millis | Unit::UnixMillis => n,
        };
        match self {
            Unit::Seconds | Unit::Millis => millis.checked_add(now_ms),
            Unit::UnixSeconds | Unit::UnixMillis => Some(millis),
        }
    }
}

/// The expiry that an option states, its number unread: bad syntax is reported before a bad number,
/// and of an option that is repeated the last one counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stated {
    unit: Unit,
    argument: usize,
}

impl Stated {
    /// Argument `i` as an option with its number after it, both before `to`; none where `before`
    /// states another unit.
    pub fn option(ctx: &Ctx<'_>, i: usize, to: usize, before: Option<Stated>) -> Option<Self> {
        let unit = Unit::from_option(ctx.arg(i))?;
        let fits = i + 1 < to && before.is_none_or(|before| before.unit == unit);
        fits.then_some(Stated { unit, argument: i + 1 })
    }

    /// The moment in Unix milliseconds.
    pub fn moment(self, ctx: &Ctx<'_>) -> Result<i64, Fail> {
        positive(ctx, self.argument, self.unit)
    }
}

/// Argument `i` as the expiry that `SET` and its like demand: above 0.
pub(crate) fn positive(ctx: &Ctx<'_>, i: usize, unit: Unit) -> Result<i64, Fail> {
    match ctx.integer(i)? {
        n if n > 0 => unit.moment(n, ctx.exec.ks.now_ms()).ok_or_else(|| invalid(ctx)),
        _ => Err(invalid(ctx)),
    }
}

/// Argument `i` as the expiry of `EXPIRE` and its like, which may lie in the past.
pub(crate) fn any(ctx: &Ctx<'_>, i: usize, unit: Unit) -> Result<i64, Fail> {
    let n = ctx.integer(i)?;
    unit.moment(n, ctx.exec.ks.now_ms()).ok_or_else(|| invalid(ctx))
}

/// The error of an expiry that is too far away, or not far enough.
pub(crate) fn invalid(ctx: &Ctx<'_>) -> Fail {
    Fail::new(format!("ERR invalid expire time in '{}' command", ctx.command.spec.meta.name))
}
