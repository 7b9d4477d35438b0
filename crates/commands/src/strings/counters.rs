//! Numbers in strings: INCR, DECR and their like.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::extended::Extended;
use crate::spec::CommandSpec;
use petrel_keyspace::{AddError, StrRef, Value};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::INCR, incr),
    CommandSpec::new(&meta::DECR, decr),
    CommandSpec::new(&meta::INCRBY, incrby),
    CommandSpec::new(&meta::DECRBY, decrby),
    CommandSpec::new(&meta::INCRBYFLOAT, incrbyfloat),
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

/// `INCRBYFLOAT key increment`
fn incrbyfloat(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let old = ctx.exec.ks.look(db, key);
    let expiry = old.and_then(|old| old.expiry());
    let number = match old.map(|old| old.string()).transpose()? {
        None => Some(Extended::from(0)),
        Some(StrRef::Int(n)) => Some(Extended::from(n)),
        Some(StrRef::Bytes(text)) => Extended::parse(text),
        Some(StrRef::Blob(text)) => Extended::parse(text),
    };
    let number = number.ok_or(Fail::NOT_A_FLOAT)?;
    let increment = Extended::parse(ctx.arg(2)).ok_or(Fail::NOT_A_FLOAT)?;
    let text = number.add(increment).print();
    let text = text.ok_or(Fail::fixed("ERR increment would produce NaN or Infinity"))?;
    ctx.exec.ks.put(db, key, Value::Bytes(&text), expiry);
    ctx.reply.bulk(&text);
    Ok(())
}

fn add(ctx: &mut Ctx<'_>, delta: i64) -> Outcome {
    let key = ctx.key(1);
    match ctx.exec.ks.add(ctx.session.db, key, delta) {
        Ok(sum) => ctx.number(sum),
        Err(AddError::WrongType) => Err(Fail::WRONG_TYPE),
        Err(AddError::NotAnInteger) => Err(Fail::NOT_AN_INTEGER),
        Err(AddError::Overflow) => Err(Fail::OVERFLOW),
    }
}
