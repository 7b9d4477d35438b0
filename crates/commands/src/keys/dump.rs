//! DUMP and RESTORE: values in the serialization format of Redis and Valkey.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{expect, size_units};
use crate::numbers::integer;
use crate::spec::CommandSpec;
use petrel_keyspace::event::class;
use petrel_keyspace::{Key, Type};
use petrel_persistence::rdb::{Error, compressed_len};
use petrel_persistence::value;
use petrel_table::commands as meta;
use petrel_table::options::RestoreOption;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] =
    &[CommandSpec::new(&meta::DUMP, dump), CommandSpec::new(&meta::RESTORE, restore)];

/// Payload bytes that are written or restored per unit of work.
const BYTES_PER_UNIT: usize = 4;

const BAD_FRAME: Fail = Fail::fixed("ERR DUMP payload version or checksum are wrong");
const BAD_FORMAT: Fail = Fail::fixed("ERR Bad data format");
const BUSY_KEY: Fail = Fail::fixed("BUSYKEY Target key name already exists.");

/// `DUMP key`
fn dump(ctx: &mut Ctx<'_>) -> Outcome {
    let key = ctx.key(1);
    let dialect = ctx.host.dump_dialect();
    let (mut pacer, mut ended) = (ctx.exec.pacer(), Ok(()));
    let Some(view) = ctx.exec.ks.read(ctx.session.db, key) else {
        ctx.reply.null();
        return Ok(());
    };
    expect(size_units(view), ctx.exec.units_here)?;
    // Expired hash fields are included until they are removed.
    let payload = value::dump_paced(view, 0, dialect, &mut |bytes| {
        pacer.reply_goes_on(bytes / BYTES_PER_UNIT, &mut ended)
    });
    ended?;
    let payload = payload.map_err(|error| Fail::new(format!("ERR {error}")))?;
    ctx.reply.shared(payload.unwrap_or_default().into());
    Ok(())
}

/// `IDLETIME` or `FREQ` of RESTORE, used if the eviction policy keeps it.
#[derive(Clone, Copy, Debug)]
enum Use {
    Unstated,
    IdleSeconds(u64),
    Frequency(u8),
}

struct RestoreOptions {
    replace: bool,
    absolute: bool,
    used: Use,
}

/// `RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
fn restore(ctx: &mut Ctx<'_>) -> Outcome {
    let options = restore_options(ctx)?;
    let (key, db) = (ctx.key(1), ctx.db());
    if !options.replace && ctx.exec.ks.peek(db, key).is_some() {
        return Err(BUSY_KEY);
    }
    let ttl = ctx.integer(2)?;
    if ttl < 0 {
        return Err(Fail::fixed("ERR Invalid TTL value, must be >= 0"));
    }
    let now = ctx.exec.ks.now_ms();
    let expiry = match (ttl, options.absolute) {
        (0, _) => None,
        (ttl, true) => Some(ttl),
        // A time beyond the range of the clock wraps into the past, as in Redis.
        (ttl, false) => Some(now.wrapping_add(ttl)),
    };
    let payload = ctx.arg(3);
    let expanded = usize::try_from(compressed_len(payload)).unwrap_or(usize::MAX);
    let bytes = payload.len().saturating_add(expanded);
    expect(bytes / BYTES_PER_UNIT, ctx.exec.units_here)?;
    // The memory limit admitted the payload, as an argument.
    drop(ctx.hold_growth(expanded)?);
    let leniency = ctx.host.leniency();
    let before = match ctx.exec.ks.notes_events() {
        true => ctx.exec.ks.peek(db, key).map(|old| old.type_of()),
        false => None,
    };
    value::restore(&mut ctx.exec.ks, db, key, expiry, payload, leniency).map_err(refusal)?;
    if ctx.exec.ks.notes_events() {
        tell_restored(ctx, key, before);
    }
    match options.used {
        Use::Unstated => {}
        Use::IdleSeconds(seconds) => {
            ctx.exec.ks.set_idle_seconds(db, key, seconds);
        }
        Use::Frequency(frequency) => {
            ctx.exec.ks.set_frequency(db, key, frequency);
        }
    }
    ctx.ok()
}

/// Publishes the events of a restored key; `before` is the type of the value that it replaced.
fn tell_restored(ctx: &mut Ctx<'_>, key: Key<'_>, before: Option<Type>) {
    let db = ctx.db();
    let ks = &mut ctx.exec.ks;
    match (before, ks.peek(db, key).map(|new| new.type_of())) {
        (Some(before), Some(after)) => {
            ks.event(class::NEW, "new", db, key.bytes);
            ks.event(class::GENERIC, "restore", db, key.bytes);
            ks.overwritten(db, key, before, after);
        }
        (None, Some(_)) => ks.event(class::GENERIC, "restore", db, key.bytes),
        (Some(_), None) => ks.event(class::GENERIC, "del", db, key.bytes),
        (None, None) => {}
    }
}

fn restore_options(ctx: &Ctx<'_>) -> Result<RestoreOptions, Fail> {
    let mut options = RestoreOptions { replace: false, absolute: false, used: Use::Unstated };
    for option in ctx.options(4) {
        match option? {
            RestoreOption::Replace => options.replace = true,
            RestoreOption::Absttl => options.absolute = true,
            RestoreOption::Idletime(n) if !matches!(options.used, Use::Frequency(_)) => {
                let seconds = u64::try_from(integer(n)?)
                    .map_err(|_| Fail::fixed("ERR Invalid IDLETIME value, must be >= 0"))?;
                options.used = Use::IdleSeconds(seconds);
            }
            RestoreOption::Freq(n) if !matches!(options.used, Use::IdleSeconds(_)) => {
                let frequency = u8::try_from(integer(n)?)
                    .map_err(|_| Fail::fixed("ERR Invalid FREQ value, must be >= 0 and <= 255"))?;
                options.used = Use::Frequency(frequency);
            }
            RestoreOption::Idletime(_) | RestoreOption::Freq(_) => return Err(Fail::SYNTAX),
        }
    }
    Ok(options)
}

/// The error of a payload that cannot be restored.
fn refusal(error: Error) -> Fail {
    match error {
        Error::Frame => BAD_FRAME,
        Error::Truncated | Error::Malformed(_) | Error::Refused(_) => BAD_FORMAT,
        Error::Unsupported(what) => Fail::new(format!("ERR Bad data format: {what}")),
    }
}
