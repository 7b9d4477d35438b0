//! Commands for the expiry of hash fields: HEXPIRE, HTTL and their variants, HPERSIST, HGETEX,
//! HSETEX, HGETDEL.

mod valkey;

use crate::arguments::expiry::Unit;
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::hashes::write_value;
use crate::keys::expire::Condition;
use crate::numbers::integer;
use crate::spec::CommandSpec;
use petrel_keyspace::{FieldExpiry, Naming, parse_int};
use petrel_table::commands as meta;
use petrel_table::options::{HashExpiryOption, HexpireOption, Options, Reader, Unread};
use std::ops::Range;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::HEXPIRE, |ctx| expire(ctx, Unit::Seconds)),
    CommandSpec::new(&meta::HPEXPIRE, |ctx| expire(ctx, Unit::Millis)),
    CommandSpec::new(&meta::HEXPIREAT, |ctx| expire(ctx, Unit::UnixSeconds)),
    CommandSpec::new(&meta::HPEXPIREAT, |ctx| expire(ctx, Unit::UnixMillis)),
    CommandSpec::new(&meta::HTTL, |ctx| report(ctx, Unit::Seconds)),
    CommandSpec::new(&meta::HPTTL, |ctx| report(ctx, Unit::Millis)),
    CommandSpec::new(&meta::HEXPIRETIME, |ctx| report(ctx, Unit::UnixSeconds)),
    CommandSpec::new(&meta::HPEXPIRETIME, |ctx| report(ctx, Unit::UnixMillis)),
    CommandSpec::new(&meta::HPERSIST, persist),
    CommandSpec::new(&meta::HGETDEL, hgetdel),
    CommandSpec::new(&meta::HGETEX, hgetex),
    CommandSpec::new(&meta::HSETEX, hsetex),
];

/// Maximum expiry of a field, in Unix milliseconds.
const EXPIRY_MAX: i64 = (1 << 46) - 1;

const FIELDS_AGAIN: Fail = Fail::fixed("ERR FIELDS keyword specified multiple times");
const TOO_FEW: Fail = Fail::fixed("ERR wrong number of arguments");

/// Reply for a missing field.
const MISSING: i64 = -2;
/// Reply for a field without an expiry.
const WITHOUT: i64 = -1;

fn unknown(argument: &[u8]) -> Fail {
    Fail::new([b"ERR unknown argument: ", argument].concat())
}

/// Parses the expiry of a field, in Unix milliseconds; it may be in the past.
fn moment(ctx: &Ctx<'_>, word: &[u8], unit: Unit) -> Result<i64, Fail> {
    let n = integer(word)?;
    if n < 0 {
        return Err(Fail::fixed("ERR invalid expire time, must be >= 0"));
    }
    let moment = unit.moment(n, ctx.exec.ks.now_ms()).filter(|&at| at <= EXPIRY_MAX);
    moment.ok_or_else(|| crate::arguments::expiry::invalid(ctx))
}

/// Whether the key exists. Returns an error if it is no hash.
fn exists(ctx: &mut Ctx<'_>, reads: bool) -> Result<bool, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let ks = &mut ctx.exec.ks;
    match if reads { ks.read(db, key) } else { ks.look(db, key) } {
        Some(view) => view.hash(0).map(|_| true).map_err(Fail::from),
        None => Ok(false),
    }
}

/// Whether the key holds a hash, and the arguments parsed by `parse`. Redis checks the key first,
/// Valkey last.
fn with_key<T>(
    ctx: &mut Ctx<'_>,
    reads: bool,
    parse: impl FnOnce(&mut Ctx<'_>) -> Result<T, Fail>,
) -> Result<(bool, T), Fail> {
    if ctx.dialect().is_valkey() {
        let parsed = parse(ctx)?;
        return Ok((exists(ctx, reads)?, parsed));
    }
    Ok((exists(ctx, reads)?, parse(ctx)?))
}

/// Expiry of a field: `None` if the field is missing, `Some(None)` if it has no expiry.
fn expiry_of(ctx: &mut Ctx<'_>, field: &[u8]) -> Option<Option<i64>> {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.fields_now());
    let hash = ctx.exec.ks.peek(db, key)?.hash(now).ok()?;
    hash.get(field).map(|field| field.expiry)
}

/// Argument range of the fields, for a command with only `FIELDS numfields field ...` after its
/// key.
fn only_fields(ctx: &mut Ctx<'_>) -> Result<Range<usize>, Fail> {
    if ctx.dialect().is_valkey() {
        return valkey::only_fields(ctx);
    }
    let args = ctx.args().len();
    if !ctx.is(2, "FIELDS") {
        return Err(Fail::fixed(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = match ctx.integer(3) {
        Ok(count @ 1..) => count,
        _ => return Err(Fail::fixed("ERR Number of fields must be a positive integer")),
    };
    if usize::try_from(count) != Ok(args - 4) {
        return Err(Fail::fixed(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(4..args)
}

/// Argument range of the fields after `FIELDS numfields`, with `width` arguments for each field.
fn fields_of<'a, O: Options<'a>>(
    ctx: &Ctx<'a>,
    options: &mut Reader<'a, O>,
    count: &[u8],
    width: usize,
    bad_count: Fail,
) -> Result<Range<usize>, Fail> {
    let count = parse_int(count).and_then(|count| i32::try_from(count).ok());
    let Some(count) = count.filter(|&count| count > 0) else { return Err(bad_count) };
    let (first, args) = (ctx.position(options), count as usize * width);
    options.words(args).ok_or(TOO_FEW)?;
    Ok(first..first + args)
}

/// `HEXPIRE key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]`, and in the other
/// units `HPEXPIRE`, `HEXPIREAT` and `HPEXPIREAT`
fn expire(ctx: &mut Ctx<'_>, unit: Unit) -> Outcome {
    let (exists, (at, (condition, fields))) = with_key(ctx, false, |ctx| {
        if ctx.dialect().is_valkey() {
            let options = valkey::expire_options(ctx)?;
            return Ok((valkey::moment(ctx, ctx.arg(2), unit)?, options));
        }
        Ok((moment(ctx, ctx.arg(2), unit)?, expire_options(ctx)?))
    })?;
    ctx.reply.array(fields.len());
    for i in fields {
        let field = ctx.arg(i);
        let done = if exists { expire_field(ctx, field, at, &condition)? } else { MISSING };
        ctx.reply.integer(done);
    }
    Ok(())
}

fn expire_options(ctx: &Ctx<'_>) -> Result<(Condition, Range<usize>), Fail> {
    let (mut condition, mut fields) = (Condition::default(), None);
    let mut options = ctx.options(3);
    while let Some(option) = options.next() {
        let stated = match option {
            Ok(HexpireOption::Fields(_)) | Err(Unread::Incomplete(_)) if fields.is_some() => {
                return Err(FIELDS_AGAIN);
            }
            Ok(HexpireOption::Fields(count)) if options.left() > 0 => {
                let bad_count = Fail::fixed("ERR Parameter `numFields` should be greater than 0");
                fields = Some(fields_of(ctx, &mut options, count, 1, bad_count)?);
                continue;
            }
            Ok(HexpireOption::Fields(_)) | Err(Unread::Incomplete(_)) => {
                return Err(Fail::fixed(
                    "ERR FIELDS requires at least numfields and one field argument",
                ));
            }
            Ok(HexpireOption::Nx) => Condition::NX,
            Ok(HexpireOption::Xx) => Condition::XX,
            Ok(HexpireOption::Gt) => Condition::GT,
            Ok(HexpireOption::Lt) => Condition::LT,
            Err(Unread::Unknown(word)) => return Err(unknown(word)),
        };
        if condition != Condition::default() && condition != stated {
            return Err(Fail::fixed("ERR Multiple condition flags specified"));
        }
        condition = stated;
    }
    Ok((condition, fields.ok_or(Fail::fixed("ERR missing FIELDS argument"))?))
}

/// Sets the expiry of one field and returns the reply: `MISSING`, 0 if the condition does not hold,
/// 1 if the expiry is set, 2 if it was in the past and the field is removed.
fn expire_field(
    ctx: &mut Ctx<'_>,
    field: &[u8],
    at: i64,
    condition: &Condition,
) -> Result<i64, Fail> {
    let Some(old) = expiry_of(ctx, field) else { return Ok(MISSING) };
    if !condition.holds(old, at) {
        return Ok(0);
    }
    let (key, db) = (ctx.key(1), ctx.db());
    if at <= ctx.exec.ks.now_ms() && !ctx.exec.ks.keeps_expired() {
        expire_now(ctx, &[field])?;
        return Ok(2);
    }
    ctx.exec.ks.hash_set_expiry(db, key, field, Some(at))?;
    Ok(1)
}

/// Removes fields that are given an expiry in the past, and counts them as expired. Redis publishes
/// `hdel`, Valkey `hexpired`.
fn expire_now(ctx: &mut Ctx<'_>, fields: &[&[u8]]) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    if ctx.dialect().is_valkey() {
        ctx.exec.ks.name_events(Naming::As("hexpired"));
    }
    let removed = ctx.exec.ks.hash_remove(db, key, fields);
    ctx.exec.ks.name_events(Naming::ByEffect);
    removed?;
    ctx.exec.ks.count_expired_fields(fields.len());
    Ok(())
}

/// `HTTL key FIELDS numfields field [field ...]`, and in the other units `HPTTL`, `HEXPIRETIME` and
/// `HPEXPIRETIME`
fn report(ctx: &mut Ctx<'_>, unit: Unit) -> Outcome {
    let (_, fields) = with_key(ctx, true, only_fields)?;
    let now = ctx.exec.ks.now_ms();
    ctx.reply.array(fields.len());
    for i in fields {
        let answer = match expiry_of(ctx, ctx.arg(i)) {
            None => MISSING,
            Some(None) => WITHOUT,
            Some(Some(at)) => match unit {
                Unit::Seconds => (at - now).max(0).saturating_add(999) / 1000,
                Unit::Millis => (at - now).max(0),
                Unit::UnixSeconds => at.saturating_add(999) / 1000,
                Unit::UnixMillis => at,
            },
        };
        ctx.reply.integer(answer);
    }
    Ok(())
}

/// `HPERSIST key FIELDS numfields field [field ...]`
fn persist(ctx: &mut Ctx<'_>) -> Outcome {
    let (_, fields) = with_key(ctx, false, only_fields)?;
    let (key, db) = (ctx.key(1), ctx.db());
    ctx.reply.array(fields.len());
    for i in fields {
        let field = ctx.arg(i);
        let answer = match expiry_of(ctx, field) {
            None => MISSING,
            Some(None) => WITHOUT,
            Some(Some(_)) => {
                ctx.exec.ks.hash_set_expiry(db, key, field, None)?;
                1
            }
        };
        ctx.reply.integer(answer);
    }
    Ok(())
}

/// `HGETDEL key FIELDS numfields field [field ...]`
fn hgetdel(ctx: &mut Ctx<'_>) -> Outcome {
    let (_, fields) = with_key(ctx, false, only_fields)?;
    let (key, db) = (ctx.key(1), ctx.db());
    drop_expired_first(ctx, fields.clone());
    ctx.reply.array(fields.len());
    for i in fields {
        let field = ctx.arg(i);
        write_field(ctx, field);
        if !ctx.dialect().is_valkey() || expiry_of(ctx, field).is_some() {
            ctx.exec.ks.hash_remove(db, key, &[field])?;
        }
    }
    Ok(())
}

/// Removes expired fields before the command changes the others, if an event, a watch or tracking
/// is affected. Valkey leaves that to the sweep.
fn drop_expired_first(ctx: &mut Ctx<'_>, fields: Range<usize>) {
    if ctx.exec.ks.notes_events() && !ctx.dialect().is_valkey() {
        let (key, db) = (ctx.key(1), ctx.db());
        ctx.exec.ks.hash_drop_expired(db, key, &ctx.args()[fields]);
    }
}

/// Publishes the expiry of fields that are about to be set again.
pub(crate) fn tell_expired(ctx: &mut Ctx<'_>, fields: &[&[u8]]) {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.now_ms());
    let ks = &mut ctx.exec.ks;
    if !ks.notes_events() {
        return;
    }
    let hash = ks.view(db, key).and_then(|view| view.hash(now).ok());
    let expired = |field: &&&[u8]| hash.is_some_and(|hash| hash.is_expired(field));
    let expired: Vec<&[u8]> = fields.iter().filter(expired).copied().collect();
    ks.event_of_fields("hexpired", db, key, &expired);
}

/// Writes the value of a field, or a null if it does not exist.
fn write_field(ctx: &mut Ctx<'_>, field: &[u8]) {
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.fields_now());
    let hash = ctx.exec.ks.peek(db, key).and_then(|view| view.hash(now).ok());
    write_value(ctx.reply, hash.and_then(|hash| hash.get(field)));
}

/// Expiry option of `HGETEX` and `HSETEX`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stated {
    Nothing,
    At(i64),
    Persist,
    Keep,
}

/// Condition of `HSETEX` on the existence of fields or of the key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum When {
    Always,
    Missing,
    There,
}

/// Differences between the options of `HGETEX` and `HSETEX`.
struct Syntax {
    /// The option without an expiry: `PERSIST` or `KEEPTTL`.
    word: Stated,
    /// Whether `FNX` and `FXX` are options.
    conditional: bool,
    /// Number of arguments for each field.
    width: usize,
    /// Error of two expiry options.
    ambiguous: Fail,
}

const HGETEX: Syntax = Syntax {
    word: Stated::Persist,
    conditional: false,
    width: 1,
    ambiguous: Fail::fixed(
        "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
    ),
};

const HSETEX: Syntax = Syntax {
    word: Stated::Keep,
    conditional: true,
    width: 2,
    ambiguous: Fail::fixed(
        "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
    ),
};

struct ExOptions {
    expiry: Stated,
    /// Condition on each field.
    when: When,
    /// Condition on the key.
    of_key: When,
    fields: Range<usize>,
}

/// Whether a word is `FIELDS`, which precedes the fields.
fn is_fields(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"FIELDS")
}

/// Parses the options from argument 2 on, which may be before or after the fields.
fn ex_options(ctx: &mut Ctx<'_>, syntax: &Syntax) -> Result<ExOptions, Fail> {
    if ctx.dialect().is_valkey() {
        return valkey::ex_options(ctx, syntax);
    }
    let (mut expiry, mut when, mut fields) = (Stated::Nothing, When::Always, None);
    let only = |before, stated| match before {
        Stated::Nothing => Ok(stated),
        _ => Err(syntax.ambiguous.clone()),
    };
    let deadline = |before, unit, n| {
        only(before, Stated::Nothing)?;
        moment(ctx, n, unit).map(Stated::At)
    };
    let demand = |before, stated| match before {
        When::Always => Ok(stated),
        _ => Err(Fail::fixed("ERR Only one of FXX or FNX arguments can be specified")),
    };
    let mut options = ctx.options(2);
    while let Some((word, option)) = options.spelled() {
        match option {
            Ok(HashExpiryOption::Ex(n)) => expiry = deadline(expiry, Unit::Seconds, n)?,
            Ok(HashExpiryOption::Px(n)) => expiry = deadline(expiry, Unit::Millis, n)?,
            Ok(HashExpiryOption::Exat(n)) => expiry = deadline(expiry, Unit::UnixSeconds, n)?,
            Ok(HashExpiryOption::Pxat(n)) => expiry = deadline(expiry, Unit::UnixMillis, n)?,
            Ok(HashExpiryOption::Persist) if syntax.word == Stated::Persist => {
                expiry = only(expiry, Stated::Persist)?;
            }
            Ok(HashExpiryOption::Keepttl) if syntax.word == Stated::Keep => {
                expiry = only(expiry, Stated::Keep)?;
            }
            Ok(HashExpiryOption::Fnx) if syntax.conditional => when = demand(when, When::Missing)?,
            Ok(HashExpiryOption::Fxx) if syntax.conditional => when = demand(when, When::There)?,
            Ok(HashExpiryOption::Fields(count)) if fields.is_none() => {
                let bad_count = Fail::fixed("ERR invalid number of fields");
                fields = Some(fields_of(ctx, &mut options, count, syntax.width, bad_count)?);
            }
            Ok(HashExpiryOption::Fields(_)) => return Err(FIELDS_AGAIN),
            Err(Unread::Incomplete(_)) if is_fields(word) => {
                return Err(if fields.is_some() { FIELDS_AGAIN } else { ctx.wrong_arity() });
            }
            Err(Unread::Incomplete(_)) => {
                only(expiry, Stated::Nothing)?;
                return Err(Fail::fixed("ERR missing expire time"));
            }
            _ => return Err(unknown(word)),
        }
    }
    let fields = fields.ok_or(Fail::fixed("ERR missing FIELDS argument"))?;
    Ok(ExOptions { expiry, when, of_key: When::Always, fields })
}

/// `HGETEX key [EX s | PX ms | EXAT t | PXAT t | PERSIST] FIELDS numfields field [field ...]`
fn hgetex(ctx: &mut Ctx<'_>) -> Outcome {
    let (_, options) = with_key(ctx, false, |ctx| ex_options(ctx, &HGETEX))?;
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.now_ms());
    drop_expired_first(ctx, options.fields.clone());
    ctx.reply.array(options.fields.len());
    for i in options.fields {
        let field = ctx.arg(i);
        write_field(ctx, field);
        let (expiry, is_valkey) = (expiry_of(ctx, field), ctx.dialect().is_valkey());
        let ks = &mut ctx.exec.ks;
        match (options.expiry, expiry) {
            (_, None) if is_valkey => {}
            (_, None) => ks.hash_drop_expired(db, key, &[field]),
            (Stated::At(at), _) if at <= now && !ks.keeps_expired() => expire_now(ctx, &[field])?,
            (Stated::At(at), _) => {
                ks.hash_set_expiry(db, key, field, Some(at))?;
            }
            (Stated::Persist, Some(Some(_))) => {
                ks.hash_set_expiry(db, key, field, None)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// `HSETEX key [FNX | FXX] [EX s | PX ms | EXAT t | PXAT t | KEEPTTL] FIELDS numfields field value
/// [field value ...]`
fn hsetex(ctx: &mut Ctx<'_>) -> Outcome {
    let options = ex_options(ctx, &HSETEX)?;
    let exists = exists(ctx, false)?;
    if options.of_key == When::Missing && exists || options.of_key == When::There && !exists {
        return ctx.number(0);
    }
    let (key, db, now) = (ctx.key(1), ctx.db(), ctx.exec.ks.now_ms());
    let pairs = &ctx.args()[options.fields];
    let all: Vec<&[u8]> = pairs.iter().copied().step_by(2).collect();
    let mut names = all.iter();
    let acts = match options.when {
        When::Always => true,
        When::Missing => names.all(|name| expiry_of(ctx, name).is_none()),
        When::There => names.all(|name| expiry_of(ctx, name).is_some()),
    };
    let is_conditional = options.when != When::Always;
    match ctx.dialect().is_valkey() {
        true if acts => tell_expired(ctx, &all),
        false if acts && is_conditional => tell_expired(ctx, &all),
        false if is_conditional => ctx.exec.ks.hash_drop_expired(db, key, &all),
        _ => {}
    }
    if !acts {
        return ctx.number(0);
    }
    let expiry = match options.expiry {
        Stated::At(at) if at <= now && !ctx.exec.ks.keeps_expired() => {
            if ctx.exec.ks.notes_events() {
                // Publishes that each field was set before it is removed.
                ctx.exec.ks.hash_set(db, key, pairs, FieldExpiry::Clear)?;
                if ctx.dialect().is_valkey() {
                    ctx.exec.ks.event_of_fields("hexpire", db, key, &all);
                }
            }
            expire_now(ctx, &all)?;
            return ctx.number(1);
        }
        Stated::At(at) => FieldExpiry::At(at),
        Stated::Keep => FieldExpiry::Keep,
        Stated::Nothing | Stated::Persist => FieldExpiry::Clear,
    };
    ctx.exec.ks.hash_set(db, key, pairs, expiry)?;
    if matches!(expiry, FieldExpiry::At(_)) {
        ctx.exec.ks.event_of_fields("hexpire", db, key, &all);
    }
    ctx.number(1)
}
