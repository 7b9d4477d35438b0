//! Hash commands. Those for the expiry of fields are in `hashes/expiry.rs`.

pub(crate) mod expiry;
pub(crate) mod fieldsets;
pub(crate) mod import;

use crate::arguments::random_count::{Draws, draw_repeated, draws};
use crate::arguments::scan::{self, Found, Options, Scanned};
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::hashes::expiry::tell_expired;
use crate::long::{UNITS_PER_ITEM, expect};
use crate::numbers::extended::Extended;
use crate::sets::write_item;
use crate::spec::CommandSpec;
use petrel_keyspace::packed::Item;
use petrel_keyspace::{Field, FieldExpiry, parse_int};
use petrel_resp::{Protocol, Reply};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::HSET, hset),
    CommandSpec::new(&meta::HSETNX, hsetnx),
    CommandSpec::new(&meta::HMSET, hmset),
    CommandSpec::new(&meta::HGET, hget),
    CommandSpec::new(&meta::HMGET, hmget),
    CommandSpec::new(&meta::HGETALL, hgetall),
    CommandSpec::new(&meta::HKEYS, hkeys),
    CommandSpec::new(&meta::HVALS, hvals),
    CommandSpec::new(&meta::HDEL, hdel),
    CommandSpec::new(&meta::HEXISTS, hexists),
    CommandSpec::new(&meta::HLEN, hlen),
    CommandSpec::new(&meta::HSTRLEN, hstrlen),
    CommandSpec::new(&meta::HINCRBY, hincrby),
    CommandSpec::new(&meta::HINCRBYFLOAT, hincrbyfloat),
    CommandSpec::new(&meta::HRANDFIELD, hrandfield),
    CommandSpec::new(&meta::HSCAN, hscan),
];

/// `HSET key field value [field value ...]`
fn hset(ctx: &mut Ctx<'_>) -> Outcome {
    let added = set_pairs(ctx)?;
    ctx.number(added as i64)
}

/// `HMSET key field value [field value ...]`
fn hmset(ctx: &mut Ctx<'_>) -> Outcome {
    set_pairs(ctx)?;
    ctx.ok()
}

#[inline]
fn set_pairs(ctx: &mut Ctx<'_>) -> Result<usize, Fail> {
    let pairs = &ctx.args()[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(ctx.wrong_arity());
    }
    let (key, db) = (ctx.key(1), ctx.db());
    if ctx.exec.ks.notes_events() {
        let names: Vec<&[u8]> = pairs.iter().copied().step_by(2).collect();
        tell_lapsed(ctx, &names);
    }
    Ok(ctx.exec.ks.hash_set(db, key, pairs, FieldExpiry::Clear)?)
}

/// `HSETNX key field value`
fn hsetnx(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let exists = look_up(ctx, ctx.arg(2))?.is_some();
    if !exists {
        ctx.exec.ks.hash_set(db, key, &ctx.args()[2..], FieldExpiry::Clear)?;
    }
    ctx.number(i64::from(!exists))
}

/// Looks a field up for a write command.
fn look_up<'c>(ctx: &'c mut Ctx<'_>, name: &[u8]) -> Result<Option<Field<'c>>, Fail> {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.now_ms());
    if ctx.exec.ks.notes_events() {
        // The event of the expiry precedes the events of the command.
        drop_read(ctx, &[name]);
        ctx.exec.ks.flush_emptied();
        tell_lapsed(ctx, &[name]);
    }
    match ctx.exec.ks.look(db, key) {
        Some(view) => Ok(view.hash(now)?.get(name)),
        None => Ok(None),
    }
}

/// Publishes the expiry of fields that are about to be set, in Valkey's dialect.
#[cold]
fn tell_lapsed(ctx: &mut Ctx<'_>, fields: &[&[u8]]) {
    if ctx.dialect().is_valkey() {
        tell_expired(ctx, fields);
    }
}

/// `HGET key field`
fn hget(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.fields_now());
    let Some(view) = ctx.exec.ks.read(db, key) else {
        ctx.reply.null();
        return Ok(());
    };
    let hash = view.hash(now)?;
    let field = hash.get(ctx.request.args[2]);
    write_value(ctx.reply, field);
    if field.is_none() && hash.has_expired() {
        drop_read(ctx, &ctx.request.args[2..]);
    }
    Ok(())
}

/// Writes the value of a field, or a null if it does not exist.
#[inline]
pub(crate) fn write_value(reply: &mut dyn Reply, field: Option<Field<'_>>) {
    match field {
        Some(field) => write_item(reply, field.value),
        None => reply.null(),
    }
}

/// `HMGET key field [field ...]`
fn hmget(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.fields_now());
    let hash = ctx.exec.ks.read(db, key).map(|view| view.hash(now)).transpose()?;
    let fields = &ctx.request.args[2..];
    ctx.reply.array(fields.len());
    for field in fields {
        write_value(ctx.reply, hash.and_then(|hash| hash.get(field)));
    }
    if hash.is_some_and(|hash| hash.has_expired()) {
        drop_read(ctx, fields);
    }
    Ok(())
}

/// Removes the expired ones of the fields that a command has read. Valkey leaves that to the sweep.
fn drop_read(ctx: &mut Ctx<'_>, fields: &[&[u8]]) {
    let (key, db) = (ctx.key(1), ctx.db());
    if !ctx.dialect().is_valkey() {
        ctx.exec.ks.hash_drop_expired(db, key, fields);
    }
}

/// Part of each field to return.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Part {
    Both,
    Names,
    Values,
}

/// `HGETALL key`
fn hgetall(ctx: &mut Ctx<'_>) -> Outcome {
    all(ctx, Part::Both)
}

/// `HKEYS key`
fn hkeys(ctx: &mut Ctx<'_>) -> Outcome {
    all(ctx, Part::Names)
}

/// `HVALS key`
fn hvals(ctx: &mut Ctx<'_>) -> Outcome {
    all(ctx, Part::Values)
}

fn all(ctx: &mut Ctx<'_>, part: Part) -> Outcome {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.fields_now());
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let hash = ctx.exec.ks.read(db, key).map(|view| view.hash(now)).transpose()?;
    let len = hash.map_or(0, |hash| hash.alive());
    expect(len * UNITS_PER_ITEM, ctx.exec.units_here)?;
    match part {
        Part::Both => ctx.reply.map(len),
        Part::Names | Part::Values => ctx.reply.array(len),
    }
    let Some(hash) = hash else { return Ok(()) };
    hash.each(&mut |field| {
        if !pacer.reply_goes_on(UNITS_PER_ITEM, &mut ended) {
            return;
        }
        if part != Part::Values {
            write_item(ctx.reply, field.name);
        }
        if part != Part::Names {
            write_item(ctx.reply, field.value);
        }
    });
    ended
}

/// `HDEL key field [field ...]`
fn hdel(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let fields = &ctx.args()[2..];
    let removed = match ctx.dialect().is_valkey() {
        true => remove_alive(ctx, fields)?,
        false => ctx.exec.ks.hash_remove(db, key, fields)?,
    };
    ctx.number(removed as i64)
}

/// Removes the fields that have not expired; returns their number.
fn remove_alive(ctx: &mut Ctx<'_>, fields: &[&[u8]]) -> Result<usize, Fail> {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.fields_now());
    let hash = ctx.exec.ks.look(db, key).map(|view| view.hash(now)).transpose()?;
    let Some(hash) = hash.filter(|hash| hash.has_expired()) else {
        return Ok(ctx.exec.ks.hash_remove(db, key, fields)?);
    };
    let alive: Vec<&[u8]> =
        fields.iter().copied().filter(|field| !hash.is_expired(field)).collect();
    Ok(ctx.exec.ks.hash_remove(db, key, &alive)?)
}

/// `HEXISTS key field`
fn hexists(ctx: &mut Ctx<'_>) -> Outcome {
    let len = value_len(ctx)?;
    ctx.number(i64::from(len.is_some()))
}

/// `HSTRLEN key field`
fn hstrlen(ctx: &mut Ctx<'_>) -> Outcome {
    let len = value_len(ctx)?;
    ctx.number(len.unwrap_or(0) as i64)
}

/// Length of the value of the field in argument 2, if it exists.
fn value_len(ctx: &mut Ctx<'_>) -> Result<Option<usize>, Fail> {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.fields_now());
    let Some(view) = ctx.exec.ks.read(db, key) else { return Ok(None) };
    let hash = view.hash(now)?;
    let len = hash.get(ctx.request.args[2]).map(|field| field.value.text_len());
    if len.is_none() && hash.has_expired() {
        drop_read(ctx, &ctx.request.args[2..]);
    }
    Ok(len)
}

/// `HLEN key`
fn hlen(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.now_ms());
    let len = match ctx.exec.ks.read(db, key) {
        Some(view) => view.hash(now)?.len(),
        None => 0,
    };
    ctx.number(len as i64)
}

/// `HINCRBY key field increment`
fn hincrby(ctx: &mut Ctx<'_>) -> Outcome {
    let increment = ctx.integer(3)?;
    let old = match look_up(ctx, ctx.arg(2))?.map(|field| field.value) {
        None => Some(0),
        Some(Item::Int(n)) => Some(n),
        Some(value) => parse_int(value.bytes(&mut itoa::Buffer::new())),
    };
    let old = old.ok_or(Fail::fixed("ERR hash value is not an integer"))?;
    let sum = old.checked_add(increment).ok_or(Fail::OVERFLOW)?;
    put_number(ctx, itoa::Buffer::new().format(sum).as_bytes())?;
    ctx.number(sum)
}

/// `HINCRBYFLOAT key field increment`
fn hincrbyfloat(ctx: &mut Ctx<'_>) -> Outcome {
    let increment = Extended::parse(ctx.arg(3)).ok_or(Fail::NOT_A_FLOAT)?;
    if !increment.is_finite() {
        return Err(Fail::fixed("ERR value is NaN or Infinity"));
    }
    let old = match look_up(ctx, ctx.arg(2))?.map(|field| field.value) {
        None => Some(Extended::from(0)),
        Some(Item::Int(n)) => Some(Extended::from(n)),
        Some(value) => Extended::parse(value.bytes(&mut itoa::Buffer::new())),
    };
    let old = old.ok_or(Fail::fixed("ERR hash value is not a float"))?;
    let text = old.add(increment).print();
    let text = text.ok_or(Fail::fixed("ERR increment would produce NaN or Infinity"))?;
    put_number(ctx, &text)?;
    ctx.reply.bulk(&text);
    Ok(())
}

/// Sets the field in argument 2 to the text of a number and keeps its expiry.
fn put_number(ctx: &mut Ctx<'_>, text: &[u8]) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    ctx.exec.ks.hash_set(db, key, &[ctx.arg(2), text], FieldExpiry::Keep)?;
    Ok(())
}

/// `HRANDFIELD key [count [WITHVALUES]]`
fn hrandfield(ctx: &mut Ctx<'_>) -> Outcome {
    let mut draws = if ctx.args().len() > 2 { Some(draws(ctx, 2)?) } else { None };
    let with_values = match ctx.args().len() {
        0..=3 => false,
        4 if ctx.is(3, "WITHVALUES") => true,
        _ => return Err(Fail::SYNTAX),
    };
    if with_values {
        draws = draws.map(Draws::of_pairs).transpose()?;
    }
    let (key, db, reply_max) = (ctx.key(1), ctx.db(), ctx.reply_max());
    let drops = !ctx.dialect().is_valkey();
    let mut pacer = ctx.exec.pacer();
    let Executor { ks, random, .. } = &mut *ctx.exec;
    let now = ks.fields_now();
    if drops {
        ks.hash_drop_some_expired(db, key);
    }
    let Some(view) = ks.read(db, key) else {
        match draws {
            Some(_) => ctx.reply.array(0),
            None => ctx.reply.null(),
        }
        return Ok(());
    };
    let hash = view.hash(now)?;
    let (is_one, alive) = (draws.is_none(), hash.alive());
    let draws = match draws {
        None if alive == 0 => {
            ctx.reply.null();
            return Ok(());
        }
        None => Draws::Repeated(1),
        Some(Draws::Distinct(count)) => Draws::Distinct(count.min(alive)),
        Some(Draws::Repeated(_)) if alive == 0 => Draws::Repeated(0),
        Some(repeated) => repeated,
    };
    pacer.pace(draws.count().saturating_mul(UNITS_PER_ITEM))?;
    let (mut random, reply) = (|| random.next(), &mut *ctx.reply);
    let in_pairs = with_values && reply.protocol() == Protocol::Resp3;
    if !is_one {
        let flat = if with_values && !in_pairs { 2 } else { 1 };
        reply.array(draws.count() * flat);
    }
    let each = |reply: &mut dyn Reply, field: Field<'_>| {
        if in_pairs {
            reply.array(2);
        }
        write_item(reply, field.name);
        if with_values {
            write_item(reply, field.value);
        }
    };
    match draws {
        Draws::Distinct(count) => hash.sample(count, &mut random, &mut |field| each(reply, field)),
        Draws::Repeated(count) => draw_repeated(count, reply_max, &mut pacer, |run| {
            hash.draw(run, &mut random, &mut |field| each(reply, field));
            reply.written()
        })?,
    }
    Ok(())
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`
fn hscan(ctx: &mut Ctx<'_>) -> Outcome {
    let cursor = scan::cursor(ctx, 2)?;
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.fields_now());
    let options = Options::parse(ctx, 3, Scanned::Fields);
    let (mut found, mut pacer, mut ended) = (Found::default(), ctx.exec.pacer(), Ok(()));
    let Some(view) = ctx.exec.ks.read(db, key) else { return found.write_with_cursor(ctx, 0) };
    let hash = view.hash(now)?;
    let options = options?;
    let cursor = hash.scan(cursor, options.count, &mut |field| {
        let mut scratch = itoa::Buffer::new();
        let name = field.name.bytes(&mut scratch);
        if options.admits_within(name, &mut pacer, &mut ended) {
            found.push(name);
            if !options.no_values {
                found.push(field.value.bytes(&mut itoa::Buffer::new()));
            }
        }
    });
    ended?;
    found.write_with_cursor(ctx, cursor)
}
