//! Expiry arguments: seconds or milliseconds, relative or as Unix time.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::integer;

/// Unit of an expiry argument.
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
    /// Absolute expiry in Unix milliseconds; `None` if it does not fit 64 bits.
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

/// Expiry option with an unparsed number, since a syntax error is reported before a bad number. The
/// last one of a repeated option counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Stated<'a>(Option<(Unit, &'a [u8])>);

impl<'a> Stated<'a> {
    /// Takes an option. Options in two different units are an error.
    pub fn state(&mut self, unit: Unit, number: &'a [u8]) -> Outcome {
        if self.0.is_some_and(|(before, _)| before != unit) {
            return Err(Fail::SYNTAX);
        }
        self.0 = Some((unit, number));
        Ok(())
    }

    /// The unit and the number.
    pub fn stated(self) -> Option<(Unit, &'a [u8])> {
        self.0
    }

    /// Whether an option was given.
    pub fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// Absolute expiry in Unix milliseconds; `None` without an option.
    pub fn moment(self, ctx: &Ctx<'_>) -> Result<Option<i64>, Fail> {
        self.0.map(|(unit, number)| positive(ctx, number, unit)).transpose()
    }
}

/// Parses an expiry of `SET` and similar commands, which has to be positive.
pub(crate) fn positive(ctx: &Ctx<'_>, word: &[u8], unit: Unit) -> Result<i64, Fail> {
    match integer(word)? {
        n if n > 0 => unit.moment(n, ctx.exec.ks.now_ms()).ok_or_else(|| invalid(ctx)),
        _ => Err(invalid(ctx)),
    }
}

/// Parses argument `i` as an expiry of `EXPIRE` and similar commands, which may be in the past.
pub(crate) fn any(ctx: &Ctx<'_>, i: usize, unit: Unit) -> Result<i64, Fail> {
    let n = ctx.integer(i)?;
    unit.moment(n, ctx.exec.ks.now_ms()).ok_or_else(|| invalid(ctx))
}

/// Error of an expiry that is out of range.
pub(crate) fn invalid(ctx: &Ctx<'_>) -> Fail {
    Fail::new(format!("ERR invalid expire time in '{}' command", ctx.command.spec.meta.name))
}
