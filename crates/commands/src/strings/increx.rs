//! INCREX: a counter with bounds and an expiry, for example for rate limits.

use crate::arguments::expiry::{Stated, Unit};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::extended::Extended;
use crate::spec::CommandSpec;
use crate::strings::store;
use petrel_keyspace::Naming;
use petrel_keyspace::event::class;
use petrel_keyspace::{Key, StrRef, Value, parse_int};
use petrel_table::commands as meta;
use petrel_table::options::IncrexOption;
use std::cmp::Ordering;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::new(&meta::INCREX, increx)];

/// Increment of INCREX.
#[derive(Clone, Copy, Debug)]
enum Increment {
    Int(i64),
    Float(Extended),
}

/// Change of the expiry of a changed key.
#[derive(Clone, Copy, Debug)]
enum Expiry {
    Keep,
    Clear,
    At(i64),
    /// Only if the key has none.
    AtIfNone(i64),
}

impl Expiry {
    fn after(self, before: Option<i64>) -> Option<i64> {
        match self {
            Expiry::Keep => before,
            Expiry::Clear => None,
            Expiry::At(at) => Some(at),
            Expiry::AtIfNone(at) => before.or(Some(at)),
        }
    }
}

/// Options, before their operands are parsed.
#[derive(Default)]
struct Options<'a> {
    increment: Option<Increment>,
    saturate: bool,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    stated: Stated<'a>,
    persist: bool,
    if_none: bool,
}

/// `INCREX key [BYINT n | BYFLOAT n] [SATURATE] [LBOUND n] [UBOUND n] [EX s | PX ms | EXAT t | PXAT
/// t | PERSIST] [ENX]`
fn increx(ctx: &mut Ctx<'_>) -> Outcome {
    let options = options(ctx)?;
    match options.increment.unwrap_or(Increment::Int(1)) {
        Increment::Int(increment) => add_int(ctx, &options, increment),
        Increment::Float(increment) => add_float(ctx, &options, increment),
    }
}

fn options<'a>(ctx: &Ctx<'a>) -> Result<Options<'a>, Fail> {
    let mut options = Options::default();
    for option in ctx.options(2) {
        let Options { increment, saturate, lower, upper, stated, persist, if_none } = &mut options;
        let expires = *persist || stated.is_some();
        match option? {
            IncrexOption::Saturate if !*saturate => *saturate = true,
            IncrexOption::Enx if !*if_none => *if_none = true,
            IncrexOption::Persist if !expires => *persist = true,
            IncrexOption::Byint(n) if increment.is_none() => {
                let n = parse_int(n)
                    .ok_or(Fail::fixed("ERR Increment is not an integer or out of range"))?;
                *increment = Some(Increment::Int(n));
            }
            IncrexOption::Byfloat(n) if increment.is_none() => {
                *increment = Some(Increment::Float(float_increment(n)?));
            }
            IncrexOption::Lbound(n) if lower.is_none() => *lower = Some(n),
            IncrexOption::Ubound(n) if upper.is_none() => *upper = Some(n),
            IncrexOption::Ex(n) if !expires => stated.state(Unit::Seconds, n)?,
            IncrexOption::Px(n) if !expires => stated.state(Unit::Millis, n)?,
            IncrexOption::Exat(n) if !expires => stated.state(Unit::UnixSeconds, n)?,
            IncrexOption::Pxat(n) if !expires => stated.state(Unit::UnixMillis, n)?,
            _ => return Err(Fail::SYNTAX),
        }
    }
    if options.persist && options.if_none { Err(Fail::SYNTAX) } else { Ok(options) }
}

fn float_increment(text: &[u8]) -> Result<Extended, Fail> {
    let number = Extended::parse(text).ok_or(Fail::fixed("ERR Increment is not a valid float"))?;
    if !number.is_finite() {
        return Err(Fail::fixed("ERR BYFLOAT increment cannot be Infinity"));
    }
    Ok(number)
}

/// Parses the change of the expiry; called after the bounds are parsed, for Redis's order of
/// errors.
fn expiry(ctx: &Ctx<'_>, options: &Options<'_>) -> Result<Expiry, Fail> {
    match (options.stated.moment(ctx)?, options.if_none) {
        (None, true) => Err(Fail::fixed("ERR ENX flag requires an expiration")),
        (None, false) if options.persist => Ok(Expiry::Clear),
        (None, false) => Ok(Expiry::Keep),
        (Some(moment), false) => Ok(Expiry::At(moment)),
        (Some(moment), true) => Ok(Expiry::AtIfNone(moment)),
    }
}

const BOUNDS_CROSSED: Fail = Fail::fixed("ERR LBOUND can't be greater than UBOUND");

fn add_int(ctx: &mut Ctx<'_>, options: &Options<'_>, increment: i64) -> Outcome {
    let bound = |stated: Option<&[u8]>, usual, wrong| match stated {
        None => Ok(usual),
        Some(n) => parse_int(n).ok_or(Fail::fixed(wrong)),
    };
    let lower = bound(options.lower, i64::MIN, "ERR LBOUND is not an integer or out of range")?;
    let upper = bound(options.upper, i64::MAX, "ERR UBOUND is not an integer or out of range")?;
    if lower > upper {
        return Err(BOUNDS_CROSSED);
    }
    let expiry = expiry(ctx, options)?;
    let (key, db) = (ctx.key(1), ctx.db());
    let view = ctx.exec.ks.look(db, key);
    let before = view.and_then(|view| view.expiry());
    let old = match view.map(|view| view.string()).transpose()? {
        None => 0,
        Some(StrRef::Int(n)) => n,
        Some(text) => {
            parse_int(text.bytes(&mut itoa::Buffer::new())).ok_or(Fail::NOT_AN_INTEGER)?
        }
    };
    let sum = i128::from(old) + i128::from(increment);
    let new = sum.clamp(lower.into(), upper.into()) as i64;
    if i128::from(new) != sum && !options.saturate {
        return reply_ints(ctx, old, 0);
    }
    let applied = i128::from(new) - i128::from(old);
    let applied =
        i64::try_from(applied).map_err(|_| Fail::fixed("ERR applied increment would overflow"))?;
    let after = expiry.after(before);
    if after == before {
        // Both the value and the sum have been checked.
        let _ = ctx.exec.ks.add(db, key, applied);
    } else {
        store(ctx, key, Value::Int(new), after);
    }
    tell_expiry(ctx, expiry, before);
    reply_ints(ctx, new, applied)
}

/// Publishes the event of the expiry of an existing key.
fn tell_expiry(ctx: &mut Ctx<'_>, expiry: Expiry, before: Option<i64>) {
    let (key, db) = (ctx.key(1), ctx.db());
    let ks = &mut ctx.exec.ks;
    let name = match (expiry, before) {
        (Expiry::At(_), _) | (Expiry::AtIfNone(_), None) => "expire",
        (Expiry::Clear, Some(_)) => "persist",
        _ => return,
    };
    if ks.notes_events() && ks.peek(db, key).is_some() {
        ks.event(class::GENERIC, name, db, key.bytes);
    }
}

fn reply_ints(ctx: &mut Ctx<'_>, value: i64, applied: i64) -> Outcome {
    ctx.reply.array(2);
    ctx.reply.integer(value);
    ctx.reply.integer(applied);
    Ok(())
}

fn add_float(ctx: &mut Ctx<'_>, options: &Options<'_>, increment: Extended) -> Outcome {
    let bound = |stated: Option<&[u8]>, usual, wrong| match stated {
        None => Ok(usual),
        Some(n) => Extended::parse(n).ok_or(Fail::fixed(wrong)),
    };
    let (least, greatest) = (Extended::limit(true), Extended::limit(false));
    let lower = bound(options.lower, least, "ERR LBOUND is not a valid float")?;
    let upper = bound(options.upper, greatest, "ERR UBOUND is not a valid float")?;
    if lower.compare(upper) == Ordering::Greater {
        return Err(BOUNDS_CROSSED);
    }
    let expiry = expiry(ctx, options)?;
    let key = ctx.key(1);
    let (old, before) = float_at(ctx, key)?;
    // An overflowing sum is infinite, beyond every finite bound.
    let sum = old.add(increment);
    let is_within = sum.is_finite()
        && sum.compare(lower) != Ordering::Less
        && sum.compare(upper) != Ordering::Greater;
    let new = match () {
        () if is_within => sum,
        () if !options.saturate => return reply_floats(ctx, old, Extended::from(0)),
        () if sum.compare(lower) == Ordering::Less => lower,
        () => upper,
    };
    const TOO_FAR: Fail = Fail::fixed("ERR applied increment would be Infinity");
    let applied = new.subtract(old);
    let text = new.print().filter(|_| applied.is_finite()).ok_or(TOO_FAR)?;
    ctx.exec.ks.name_events(Naming::As("incrbyfloat"));
    store(ctx, key, Value::Bytes(&text), expiry.after(before));
    tell_expiry(ctx, expiry, before);
    reply_floats(ctx, new, applied)
}

/// The number at a key (0 if it does not exist), and the key's expiry.
fn float_at(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<(Extended, Option<i64>), Fail> {
    let Some(view) = ctx.exec.ks.look(ctx.session.db, key) else {
        return Ok((Extended::from(0), None));
    };
    let number = match view.string()? {
        StrRef::Int(n) => Extended::from(n),
        text => Extended::parse(text.bytes(&mut itoa::Buffer::new())).ok_or(Fail::NOT_A_FLOAT)?,
    };
    if !number.is_finite() {
        return Err(Fail::fixed("ERR value cannot be Infinity"));
    }
    Ok((number, view.expiry()))
}

fn reply_floats(ctx: &mut Ctx<'_>, value: Extended, applied: Extended) -> Outcome {
    ctx.reply.array(2);
    for number in [value, applied] {
        ctx.reply.decimal(&number.print().unwrap_or_default());
    }
    Ok(())
}
