//! Numbers in strings: INCR, DECR and their like.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::CommandSpec;
use crate::table::strings as meta;
use petrel_keyspace::AddError;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::INCR, incr),
    CommandSpec::new(&meta::DECR, decr),
    CommandSpec::new(&meta::INCRBY, incrby),
    CommandSpec::new(&meta::DECRBY, decrby),
];

/// `INCR key`
fn incr(ctx: &mut Ctx<'_>) -> Outcome {
    add(ctx, 1)
}

/// `DECR key`
fn decr(ctx: &mut Ctx<'_>) -> Outcome {
    add(ctx, -1)
}

/// `INCRBY key increment`
fn incrby(ctx: &mut Ctx<'_>) -> Outcome {
    let delta = ctx.integer(2)?;
    add(ctx, delta)
}

/// `DECRBY key decrement`
fn decrby(ctx: &mut Ctx<'_>) -> Outcome {
    let delta = ctx.integer(2)?.checked_neg().ok_or(Fail::fixed("ERR decrement would overflow"))?;
    add(ctx, delta)
}

fn add(ctx: &mut Ctx<'_>, delta: i64) -> Outcome {
    let key = ctx.key(1);
    match ctx.exec.ks.add(ctx.session.db, key, delta) {
        Ok(sum) => ctx.number(sum),
        Err(AddError::NotAnInteger) => Err(Fail::NOT_AN_INTEGER),
        Err(AddError::Overflow) => Err(Fail::OVERFLOW),
    }
}
