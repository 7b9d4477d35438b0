//! Strings: GET, SET and other commands on whole values. Ranges of a value: `parts.rs`; numbers:
//! `counters.rs`.

pub(crate) mod counters;
pub(crate) mod increx;
pub(crate) mod lcs;
pub(crate) mod parts;

use crate::arguments::expiry::{self, Stated, Unit};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::CommandSpec;
use petrel_keyspace::event::class;
use petrel_keyspace::{FieldExpiry as Expiry, Key, StrRef, Type, Value};
use petrel_resp::Reply;
use petrel_table::commands as meta;
use petrel_table::options::{DelexOption, GetexOption, SetOption};

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::GET, get),
    CommandSpec::new(&meta::SET, set),
    CommandSpec::new(&meta::SETNX, setnx),
    CommandSpec::new(&meta::SETEX, setex),
    CommandSpec::new(&meta::PSETEX, psetex),
    CommandSpec::new(&meta::GETSET, getset),
    CommandSpec::new(&meta::GETEX, getex),
    CommandSpec::new(&meta::GETDEL, getdel),
    CommandSpec::new(&meta::MGET, mget),
    CommandSpec::new(&meta::MSET, mset),
    CommandSpec::new(&meta::MSETNX, msetnx),
    CommandSpec::new(&meta::MSETEX, msetex),
    CommandSpec::new(&meta::DELEX, delex),
    CommandSpec::new(&meta::DELIFEQ, delifeq),
    CommandSpec::new(&meta::DIGEST, digest),
];

/// Writes a string value; a large one by reference.
#[inline]
pub(crate) fn write_string(reply: &mut dyn Reply, value: StrRef<'_>) {
    match value {
        StrRef::Bytes(bytes) => reply.bulk(bytes),
        StrRef::Int(n) => reply.bulk(itoa::Buffer::new().format(n).as_bytes()),
        StrRef::Blob(blob) => reply.shared(blob.clone()),
    }
}

/// `GET key`
fn get(ctx: &mut Ctx<'_>) -> Outcome {
    let key = ctx.key(1);
    match ctx.exec.ks.read(ctx.session.db, key) {
        Some(view) => write_string(ctx.reply, view.string()?),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// Condition of `SET` or `DELEX`.
#[derive(Clone, Copy, Debug)]
enum Condition<'a> {
    Always,
    Missing,
    Present,
    Equal(&'a [u8]),
    NotEqual(&'a [u8]),
    DigestEqual(&'a [u8]),
    DigestNotEqual(&'a [u8]),
}

impl<'a> Condition<'a> {
    /// Combines two conditions: only `NX` and `XX` may be repeated.
    fn join(&mut self, other: Self) -> Outcome {
        match (*self, other) {
            (Condition::Always, _)
            | (Condition::Missing, Condition::Missing)
            | (Condition::Present, Condition::Present) => *self = other,
            _ => return Err(Fail::SYNTAX),
        }
        Ok(())
    }

    /// Whether the condition depends on the value, not only on whether the key exists.
    fn reads_value(self) -> bool {
        !matches!(self, Condition::Always | Condition::Missing | Condition::Present)
    }

    /// Whether a condition that [does not read the value](Self::reads_value) holds.
    fn holds_for(self, exists: bool) -> bool {
        match self {
            Condition::Missing => !exists,
            Condition::Present => exists,
            _ => true,
        }
    }

    /// Whether the condition holds for a value. A digest is parsed only if there is a value to
    /// compare.
    fn holds(self, old: Option<StrRef<'_>>) -> Result<bool, Fail> {
        let equals =
            |with: &[u8]| old.is_some_and(|old| old.bytes(&mut itoa::Buffer::new()) == with);
        let digests = |with| old.map_or(Ok(false), |old| has_digest(old, with));
        Ok(match self {
            Condition::Always | Condition::Missing | Condition::Present => {
                self.holds_for(old.is_some())
            }
            Condition::Equal(with) => equals(with),
            Condition::NotEqual(with) => !equals(with),
            Condition::DigestEqual(with) => digests(with)?,
            Condition::DigestNotEqual(with) => !digests(with)?,
        })
    }
}

struct SetOptions<'a> {
    condition: Condition<'a>,
    get: bool,
    expiry: Expiry,
}

impl Default for SetOptions<'_> {
    fn default() -> Self {
        SetOptions { condition: Condition::Always, get: false, expiry: Expiry::Clear }
    }
}

/// `SET key value [NX | XX | IFEQ v | IFNE v | IFDEQ d | IFDNE d] [GET] [EX s | PX ms | EXAT t |
/// PXAT t | KEEPTTL]`
fn set(ctx: &mut Ctx<'_>) -> Outcome {
    let key = ctx.key(1);
    if ctx.args().len() == 3 {
        let value = ctx.value(2);
        ctx.exec.ks.put(ctx.session.db, key, value, None);
        return ctx.ok();
    }
    let options = set_options(ctx, 3)?;
    set_with(ctx, key, &options)
}

fn set_options<'a>(ctx: &Ctx<'a>, from: usize) -> Result<SetOptions<'a>, Fail> {
    let mut options = SetOptions::default();
    let mut stated = Stated::default();
    for option in ctx.options(from) {
        match option? {
            SetOption::Nx => options.condition.join(Condition::Missing)?,
            SetOption::Xx => options.condition.join(Condition::Present)?,
            SetOption::Ifeq(with) => options.condition.join(Condition::Equal(with))?,
            SetOption::Ifne(with) => options.condition.join(Condition::NotEqual(with))?,
            SetOption::Ifdeq(with) => options.condition.join(Condition::DigestEqual(with))?,
            SetOption::Ifdne(with) => options.condition.join(Condition::DigestNotEqual(with))?,
            SetOption::Get => options.get = true,
            SetOption::Keepttl => options.expiry = Expiry::Keep,
            SetOption::Ex(n) => stated.state(Unit::Seconds, n)?,
            SetOption::Px(n) => stated.state(Unit::Millis, n)?,
            SetOption::Exat(n) => stated.state(Unit::UnixSeconds, n)?,
            SetOption::Pxat(n) => stated.state(Unit::UnixMillis, n)?,
        }
    }
    if options.expiry == Expiry::Keep && stated.is_some() {
        return Err(Fail::SYNTAX);
    }
    if let Some(moment) = stated.moment(ctx)? {
        options.expiry = Expiry::At(moment);
    }
    Ok(options)
}

fn set_with(ctx: &mut Ctx<'_>, key: Key<'_>, options: &SetOptions<'_>) -> Outcome {
    let value = ctx.value(2);
    let db = ctx.session.db;
    let ks = &mut ctx.exec.ks;
    let old = ks.look(db, key);
    let string = old.map(|old| old.string()).transpose();
    let holds = if options.get || options.condition.reads_value() {
        options.condition.holds(string?)?
    } else {
        options.condition.holds_for(old.is_some())
    };
    let kept = old.and_then(|old| old.expiry());
    let found = old.is_some();
    if options.get {
        match old {
            Some(old) => write_string(ctx.reply, old.string()?),
            None => ctx.reply.null(),
        }
        ks.count_read(found);
        if !found {
            ks.event(class::MISS, "keymiss", db, key.bytes);
        }
    }
    if holds {
        let expiry = match options.expiry {
            Expiry::Clear => None,
            Expiry::Keep => kept,
            Expiry::At(at) => Some(at),
        };
        if store(ctx, key, value, expiry) && matches!(options.expiry, Expiry::At(_)) {
            ctx.event(class::GENERIC, "expire", key.bytes);
        }
    }
    match (options.get, holds) {
        (true, _) => {}
        (false, true) => ctx.reply.simple("OK"),
        (false, false) => ctx.reply.null(),
    }
    Ok(())
}

/// Sets a key, and returns whether it is set. An expiry in the past deletes the key, which counts
/// as a change.
pub(crate) fn store(
    ctx: &mut Ctx<'_>,
    key: Key<'_>,
    value: Value<'_>,
    expiry: Option<i64>,
) -> bool {
    let db = ctx.session.db;
    let is_past = expiry.is_some_and(|at| at <= ctx.exec.ks.now_ms());
    let is_past = is_past && !ctx.exec.ks.keeps_expired();
    if is_past {
        ctx.exec.ks.remove(db, key);
        ctx.exec.ks.count_expired();
    } else {
        ctx.exec.ks.put(db, key, value, expiry);
    }
    !is_past
}

/// `SETNX key value`
fn setnx(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    if ctx.exec.ks.look(db, key).is_some() {
        return ctx.number(0);
    }
    let value = ctx.value(2);
    ctx.exec.ks.put(db, key, value, None);
    ctx.number(1)
}

/// `SETEX key seconds value`
fn setex(ctx: &mut Ctx<'_>) -> Outcome {
    set_expiring(ctx, Unit::Seconds)
}

/// `PSETEX key milliseconds value`
fn psetex(ctx: &mut Ctx<'_>) -> Outcome {
    set_expiring(ctx, Unit::Millis)
}

fn set_expiring(ctx: &mut Ctx<'_>, unit: Unit) -> Outcome {
    let expiry = expiry::positive(ctx, ctx.arg(2), unit)?;
    let (key, value) = (ctx.key(1), ctx.value(3));
    if store(ctx, key, value, Some(expiry)) {
        ctx.event(class::GENERIC, "expire", key.bytes);
    }
    ctx.ok()
}

/// `GETSET key value`
fn getset(ctx: &mut Ctx<'_>) -> Outcome {
    get(ctx)?;
    let (key, value) = (ctx.key(1), ctx.value(2));
    ctx.exec.ks.put(ctx.session.db, key, value, None);
    Ok(())
}

/// `GETEX key [EX s | PX ms | EXAT t | PXAT t | PERSIST]`
fn getex(ctx: &mut Ctx<'_>) -> Outcome {
    let (stated, persist) = getex_options(ctx)?;
    let mut expiry = stated.moment(ctx);
    let (key, db) = (ctx.key(1), ctx.db());
    if ctx.dialect().is_valkey() {
        expiry = Ok(expiry?);
    }
    let Some(view) = ctx.exec.ks.read(db, key) else {
        ctx.reply.null();
        return Ok(());
    };
    // If the key does not exist, Redis does not check the expiry; Valkey has checked it before.
    let value = view.string()?;
    let expiry = expiry?;
    let had_expiry = view.expiry().is_some();
    write_string(ctx.reply, value);
    if expiry.is_some() || had_expiry && persist {
        ctx.exec.ks.set_expiry(db, key, expiry);
    }
    Ok(())
}

/// Parses the expiry, and whether `PERSIST` is given.
fn getex_options<'a>(ctx: &Ctx<'a>) -> Result<(Stated<'a>, bool), Fail> {
    let (mut stated, mut persist) = (Stated::default(), false);
    for option in ctx.options(2) {
        match option? {
            GetexOption::Ex(n) => stated.state(Unit::Seconds, n)?,
            GetexOption::Px(n) => stated.state(Unit::Millis, n)?,
            GetexOption::Exat(n) => stated.state(Unit::UnixSeconds, n)?,
            GetexOption::Pxat(n) => stated.state(Unit::UnixMillis, n)?,
            GetexOption::Persist => persist = true,
        }
    }
    if persist && stated.is_some() { Err(Fail::SYNTAX) } else { Ok((stated, persist)) }
}

/// `GETDEL key`
fn getdel(ctx: &mut Ctx<'_>) -> Outcome {
    get(ctx)?;
    let key = ctx.key(1);
    ctx.exec.ks.remove(ctx.session.db, key);
    Ok(())
}

/// `MGET key [key ...]`
fn mget(ctx: &mut Ctx<'_>) -> Outcome {
    let db = ctx.db();
    ctx.reply.array(ctx.args().len() - 1);
    for i in 1..ctx.args().len() {
        let key = ctx.key(i);
        match ctx.exec.ks.read(db, key) {
            Some(view) => match view.string() {
                Ok(value) => write_string(ctx.reply, value),
                Err(_) => ctx.reply.null(),
            },
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

/// `MSET key value [key value ...]`
fn mset(ctx: &mut Ctx<'_>) -> Outcome {
    check_pairs(ctx)?;
    set_pairs(ctx, 1, ctx.args().len());
    ctx.ok()
}

/// `MSETNX key value [key value ...]`
fn msetnx(ctx: &mut Ctx<'_>) -> Outcome {
    check_pairs(ctx)?;
    if any_exists(ctx, 1, ctx.args().len()) {
        return ctx.number(0);
    }
    set_pairs(ctx, 1, ctx.args().len());
    ctx.number(1)
}

/// `MSETEX numkeys key value [key value ...] [NX | XX] [EX s | PX ms | EXAT t | PXAT t | KEEPTTL]`
fn msetex(ctx: &mut Ctx<'_>) -> Outcome {
    let pairs = ctx.integer(1).ok().and_then(|pairs| i32::try_from(pairs).ok());
    let dialect = ctx.dialect();
    let Some(pairs) = pairs.filter(|&pairs| pairs > 0) else {
        return Err(Fail::fixed(
            dialect
                .choose("ERR invalid numkeys value", "ERR invalid numkeys value or out of range"),
        ));
    };
    let end = match pairs as usize * 2 + 2 {
        end if end <= ctx.args().len() => end,
        _ if dialect.is_valkey() => return Err(Fail::SYNTAX),
        _ => return Err(Fail::fixed("ERR wrong number of key-value pairs")),
    };
    let options = set_options(ctx, end)?;
    let acts = match options.condition {
        _ if options.get => return Err(Fail::SYNTAX),
        Condition::Always => true,
        Condition::Missing => !any_exists(ctx, 2, end),
        Condition::Present => (2..end).step_by(2).all(|i| exists(ctx, i)),
        _ => return Err(Fail::SYNTAX),
    };
    for i in (2..end).step_by(2).take_while(|_| acts) {
        set_and_tell(ctx, i, options.expiry);
    }
    ctx.number(i64::from(acts))
}

fn check_pairs(ctx: &Ctx<'_>) -> Outcome {
    if ctx.args().len().is_multiple_of(2) {
        return Err(ctx.wrong_arity());
    }
    Ok(())
}

fn exists(ctx: &mut Ctx<'_>, i: usize) -> bool {
    let key = ctx.key(i);
    ctx.exec.ks.look(ctx.session.db, key).is_some()
}

fn any_exists(ctx: &mut Ctx<'_>, from: usize, to: usize) -> bool {
    (from..to).step_by(2).any(|i| exists(ctx, i))
}

fn set_pairs(ctx: &mut Ctx<'_>, from: usize, to: usize) {
    for i in (from..to).step_by(2) {
        let (key, value) = (ctx.key(i), ctx.value(i + 1));
        ctx.exec.ks.put(ctx.session.db, key, value, None);
    }
}

/// Sets one key for `MSETEX`, which publishes the event of the expiry before that of the value; in
/// Valkey's dialect after it.
fn set_and_tell(ctx: &mut Ctx<'_>, i: usize, expiry: Expiry) {
    let (key, value, db) = (ctx.key(i), ctx.value(i + 1), ctx.db());
    let old = ctx.exec.ks.peek(db, key).map(|view| (view.type_of(), view.expiry()));
    let moment = match expiry {
        Expiry::Clear => None,
        Expiry::At(at) => Some(at),
        Expiry::Keep => old.and_then(|(_, expiry)| expiry),
    };
    if let Some((old, _)) = old {
        ctx.exec.ks.overwritten(db, key, old, Type::String);
    }
    if !store(ctx, key, value, moment) {
        if old.is_some() {
            ctx.event(class::GENERIC, "del", key.bytes);
        }
        return;
    }
    let (expires, value_first) = (matches!(expiry, Expiry::At(_)), ctx.dialect().is_valkey());
    if expires && !value_first {
        ctx.event(class::GENERIC, "expire", key.bytes);
    }
    ctx.event(class::STRING, "set", key.bytes);
    if expires && value_first {
        ctx.event(class::GENERIC, "expire", key.bytes);
    }
}

/// `DELEX key [IFEQ v | IFNE v | IFDEQ d | IFDNE d]`
fn delex(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    if ctx.args().len() == 2 {
        return remove_if(ctx, Condition::Always);
    }
    if ctx.args().len() != 4 {
        return Err(ctx.wrong_arity());
    }
    // The condition is parsed only if the key exists.
    let Some(old) = ctx.exec.ks.look(db, key) else { return ctx.number(0) };
    if old.string().is_err() {
        return Err(Fail::fixed("ERR Key should be of string type if conditions are specified"));
    }
    let condition = match ctx.options(2).leading() {
        Some(DelexOption::Ifeq(with)) => Condition::Equal(with),
        Some(DelexOption::Ifne(with)) => Condition::NotEqual(with),
        Some(DelexOption::Ifdeq(with)) => Condition::DigestEqual(with),
        Some(DelexOption::Ifdne(with)) => Condition::DigestNotEqual(with),
        None => {
            return Err(Fail::fixed("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"));
        }
    };
    remove_if(ctx, condition)
}

/// `DELIFEQ key value`
fn delifeq(ctx: &mut Ctx<'_>) -> Outcome {
    let with = ctx.arg(2);
    remove_if(ctx, Condition::Equal(with))
}

fn remove_if(ctx: &mut Ctx<'_>, condition: Condition<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let acts = match ctx.exec.ks.look(db, key) {
        Some(old) if condition.reads_value() => condition.holds(Some(old.string()?))?,
        old => old.is_some(),
    };
    if acts {
        ctx.exec.ks.remove(db, key);
    }
    ctx.number(i64::from(acts))
}

/// `DIGEST key`
fn digest(ctx: &mut Ctx<'_>) -> Outcome {
    let key = ctx.key(1);
    match ctx.exec.ks.read(ctx.session.db, key) {
        Some(view) => ctx.reply.bulk(format!("{:016x}", digest_of(view.string()?)).as_bytes()),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// XXH3-64 of the value, as the `DIGEST` command page defines it.
fn digest_of(value: StrRef<'_>) -> u64 {
    twox_hash::XxHash3_64::oneshot(value.bytes(&mut itoa::Buffer::new()))
}

/// Whether a value has the digest `text`, 16 hexadecimal digits of either case.
fn has_digest(value: StrRef<'_>, text: &[u8]) -> Result<bool, Fail> {
    let text: &[u8; 16] = text
        .try_into()
        .map_err(|_| Fail::fixed("ERR must be exactly 16 hexadecimal characters"))?;
    let digest = format!("{:016x}", digest_of(value));
    Ok(digest.as_bytes().eq_ignore_ascii_case(text))
}
