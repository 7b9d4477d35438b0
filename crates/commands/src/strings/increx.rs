//! INCREX: a counter with bounds and an expiry, as for rate limits.

use crate::arguments::expiry::Stated;
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::extended::Extended;
use crate::spec::CommandSpec;
use crate::strings::store;
use petrel_keyspace::Naming;
use petrel_keyspace::event::class;
use petrel_keyspace::{Key, StrRef, Value, parse_int};
use petrel_table::commands as meta;
use std::cmp::Ordering;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::new(&meta::INCREX, increx)];

/// What is added.
#[derive(Clone, Copy, Debug)]
enum Increment {
    Int(i64),
    Float(Extended),
}

/// What becomes of the expiry of a key that is changed.
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

/// The options, as far as they are read before what they say.
#[derive(Default)]
struct Options {
    increment: Option<Increment>,
    saturate: bool,
    /// The arguments that hold the bounds.
    lower: Option<usize>,
    upper: Option<usize>,
    stated: Option<Stated>,
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

fn options(ctx: &Ctx<'_>) -> Result<Options, Fail> {
    let mut options = Options::default();
    let to = ctx.args().len();
    let mut i = 2;
    while i < to {
        let has_value = i + 1 < to;
        if ctx.is(i, "SATURATE") && !options.saturate {
            options.saturate = true;
        } else if ctx.is(i, "ENX") && !options.if_none {
            options.if_none = true;
        } else if ctx.is(i, "PERSIST") && !options.persist && options.stated.is_none() {
            options.persist = true;
        } else if ctx.is(i, "BYINT") && has_value && options.increment.is_none() {
            let n = ctx
                .integer(i + 1)
                .map_err(|_| Fail::fixed("ERR Increment is not an integer or out of range"))?;
            options.increment = Some(Increment::Int(n));
            i += 1;
        } else if ctx.is(i, "BYFLOAT") && has_value && options.increment.is_none() {
            options.increment = Some(Increment::Float(float_increment(ctx.arg(i + 1))?));
            i += 1;
        } else if ctx.is(i, "LBOUND") && has_value && options.lower.is_none() {
            options.lower = Some(i + 1);
            i += 1;
        } else if ctx.is(i, "UBOUND") && has_value && options.upper.is_none() {
            options.upper = Some(i + 1);
            i += 1;
        } else if !options.persist && options.stated.is_none() {
            options.stated = Some(Stated::option(ctx, i, to, None).ok_or(Fail::SYNTAX)?);
            i += 1;
        } else {
            return Err(Fail::SYNTAX);
        }
        i += 1;
    }
    if options.persist && options.if_none { Err(Fail::SYNTAX) } else { Ok(options) }
}

fn float_increment(text: &[u8]) -> Result<Extended, Fail> {
    let number = Extended::parse(text).ok_or(Fail::fixed("ERR Increment is not a valid float"))?;
    if number.is_infinite() {
        return Err(Fail::fixed("ERR BYFLOAT increment cannot be Infinity"));
    }
    Ok(number)
}

/// What becomes of the expiry; read after the bounds.
fn expiry(ctx: &Ctx<'_>, options: &Options) -> Result<Expiry, Fail> {
    match (options.stated, options.if_none) {
        (None, true) => Err(Fail::fixed("ERR ENX flag requires an expiration")),
        (None, false) if options.persist => Ok(Expiry::Clear),
        (None, false) => Ok(Expiry::Keep),
        (Some(stated), false) => stated.moment(ctx).map(Expiry::At),
        (Some(stated), true) => stated.moment(ctx).map(Expiry::AtIfNone),
    }
}

const BOUNDS_CROSSED: Fail = Fail::fixed("ERR LBOUND can't be greater than UBOUND");

fn add_int(ctx: &mut Ctx<'_>, options: &Options, increment: i64) -> Outcome {
    let bound = |argument: Option<usize>, usual, wrong| match argument {
        None => Ok(usual),
        Some(i) => parse_int(ctx.arg(i)).ok_or(Fail::fixed(wrong)),
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
        // The sum has been checked, and so has the value.
        let _ = ctx.exec.ks.add(db, key, applied);
    } else {
        store(ctx, key, Value::Int(new), after);
    }
    tell_expiry(ctx, expiry, before);
    reply_ints(ctx, new, applied)
}

/// Tells what became of the expiry, of a key that is still there.
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

fn add_float(ctx: &mut Ctx<'_>, options: &Options, increment: Extended) -> Outcome {
    let bound = |argument: Option<usize>, usual, wrong| match argument {
        None => Ok(usual),
        Some(i) => Extended::parse(ctx.arg(i)).ok_or(Fail::fixed(wrong)),
    };
    let least = Extended::MAX.opposite();
    let lower = bound(options.lower, least, "ERR LBOUND is not a valid float")?;
    let upper = bound(options.upper, Extended::MAX, "ERR UBOUND is not a valid float")?;
    if lower.compare(upper) == Ordering::Greater {
        return Err(BOUNDS_CROSSED);
    }
    let expiry = expiry(ctx, options)?;
    let key = ctx.key(1);
    let (old, before) = float_at(ctx, key)?;
    // A sum beyond all numbers is beyond every bound but infinity.
    let beyond = Extended::Infinite { negative: increment.is_negative() };
    let sum = old.add(increment).unwrap_or(beyond);
    let is_within = !sum.is_infinite()
        && sum.compare(lower) != Ordering::Less
        && sum.compare(upper) != Ordering::Greater;
    let new = match () {
        () if is_within => sum,
        () if !options.saturate => return reply_floats(ctx, old, Extended::from(0)),
        () if sum.compare(lower) == Ordering::Less => lower,
        () => upper,
    };
    const TOO_FAR: Fail = Fail::fixed("ERR applied increment would be Infinity");
    let applied = new.add(old.opposite()).ok_or(TOO_FAR)?;
    let text = new.print().ok_or(TOO_FAR)?;
    ctx.exec.ks.name_events(Naming::As("incrbyfloat"));
    store(ctx, key, Value::Bytes(&text), expiry.after(before));
    tell_expiry(ctx, expiry, before);
    reply_floats(ctx, new, applied)
}

/// The number at a key, 0 if there is none, and the key's expiry.
fn float_at(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<(Extended, Option<i64>), Fail> {
    let Some(view) = ctx.exec.ks.look(ctx.session.db, key) else {
        return Ok((Extended::from(0), None));
    };
    let number = match view.string()? {
        StrRef::Int(n) => Extended::from(n),
        text => Extended::parse(text.bytes(&mut itoa::Buffer::new())).ok_or(Fail::NOT_A_FLOAT)?,
    };
    if number.is_infinite() {
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
