//! Expiry of keys: EXPIRE and its like, TTL and its like, PERSIST.

use crate::arguments::expiry::{self, Unit};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::CommandSpec;
use petrel_keyspace::event::class;
use petrel_table::commands as meta;
use petrel_table::options::{ExpireOption, Reader};

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::EXPIRE, |ctx| expire(ctx, Unit::Seconds)),
    CommandSpec::new(&meta::PEXPIRE, |ctx| expire(ctx, Unit::Millis)),
    CommandSpec::new(&meta::EXPIREAT, |ctx| expire(ctx, Unit::UnixSeconds)),
    CommandSpec::new(&meta::PEXPIREAT, |ctx| expire(ctx, Unit::UnixMillis)),
    CommandSpec::new(&meta::TTL, |ctx| report(ctx, Unit::Seconds)),
    CommandSpec::new(&meta::PTTL, |ctx| report(ctx, Unit::Millis)),
    CommandSpec::new(&meta::EXPIRETIME, |ctx| report(ctx, Unit::UnixSeconds)),
    CommandSpec::new(&meta::PEXPIRETIME, |ctx| report(ctx, Unit::UnixMillis)),
    CommandSpec::new(&meta::PERSIST, persist),
];

/// Conditions of `EXPIRE`; they may be combined.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Condition {
    /// Only without an expiry.
    nx: bool,
    /// Only with an expiry.
    xx: bool,
    /// Only if later than the current expiry; no expiry counts as infinite.
    gt: bool,
    /// Only if earlier than the current expiry; no expiry counts as infinite.
    lt: bool,
}

impl Condition {
    /// Condition of `NX`.
    pub const NX: Self = Condition { nx: true, ..Self::NONE };
    /// Condition of `XX`.
    pub const XX: Self = Condition { xx: true, ..Self::NONE };
    /// Condition of `GT`.
    pub const GT: Self = Condition { gt: true, ..Self::NONE };
    /// Condition of `LT`.
    pub const LT: Self = Condition { lt: true, ..Self::NONE };

    const NONE: Self = Condition { nx: false, xx: false, gt: false, lt: false };

    /// Combines two conditions.
    fn and(self, other: Self) -> Self {
        Condition {
            nx: self.nx || other.nx,
            xx: self.xx || other.xx,
            gt: self.gt || other.gt,
            lt: self.lt || other.lt,
        }
    }

    /// Parses the conditions, which must be compatible.
    pub fn parse(options: Reader<'_, ExpireOption>) -> Result<Self, Fail> {
        let mut condition = Condition::default();
        for option in options {
            condition = condition.and(match option {
                Ok(ExpireOption::Nx) => Self::NX,
                Ok(ExpireOption::Xx) => Self::XX,
                Ok(ExpireOption::Gt) => Self::GT,
                Ok(ExpireOption::Lt) => Self::LT,
                Err(unread) => {
                    return Err(Fail::new([b"ERR Unsupported option ", unread.word()].concat()));
                }
            });
        }
        let Condition { nx, xx, gt, lt } = condition;
        if nx && (xx || gt || lt) {
            return Err(Fail::fixed(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if gt && lt {
            return Err(Fail::fixed("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(condition)
    }

    /// Whether an expiry may replace the current one.
    pub fn holds(&self, old: Option<i64>, new: i64) -> bool {
        let forbidden = self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && old.is_none_or(|old| new <= old)
            || self.lt && old.is_some_and(|old| new >= old);
        !forbidden
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`, and in the other units `PEXPIRE`, `EXPIREAT` and
/// `PEXPIREAT`
fn expire(ctx: &mut Ctx<'_>, unit: Unit) -> Outcome {
    let condition = Condition::parse(ctx.options(3))?;
    let new = expiry::any(ctx, 2, unit)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let acts = match ctx.exec.ks.look(db, key) {
        Some(view) => condition.holds(view.expiry(), new),
        None => false,
    };
    if acts {
        ctx.exec.ks.set_expiry(db, key, Some(new));
    }
    ctx.number(i64::from(acts))
}

/// `TTL key`, and in the other units `PTTL`, `EXPIRETIME` and `PEXPIRETIME`: -1 without an expiry,
/// -2 without a key
fn report(ctx: &mut Ctx<'_>, unit: Unit) -> Outcome {
    let key = ctx.key(1);
    let expiry = ctx.exec.ks.peek(ctx.session.db, key).map(|view| view.expiry());
    ctx.exec.ks.count_read(expiry.is_some());
    if expiry.is_none() {
        ctx.event(class::MISS, "keymiss", key.bytes);
    }
    let Some(expiry) = expiry else { return ctx.number(-2) };
    let Some(at) = expiry else { return ctx.number(-1) };
    let left = at.saturating_sub(ctx.exec.ks.now_ms()).max(0);
    ctx.number(match unit {
        Unit::Seconds => rounded_seconds(left),
        Unit::Millis => left,
        Unit::UnixSeconds => rounded_seconds(at),
        Unit::UnixMillis => at,
    })
}

fn rounded_seconds(millis: i64) -> i64 {
    millis / 1000 + i64::from(millis % 1000 >= 500)
}

/// `PERSIST key`
fn persist(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let acts = ctx.exec.ks.look(db, key).is_some_and(|view| view.expiry().is_some());
    if acts {
        ctx.exec.ks.set_expiry(db, key, None);
    }
    ctx.number(i64::from(acts))
}
