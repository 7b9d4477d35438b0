//! DEBUG: what test suites need to look inside and to provoke.

mod digest;
mod object;
mod reload;

use super::config::rewrite_file;
use crate::client::Flag;
use crate::config::{Extent, parse_memory};
use crate::host::ServerHost;
use petrel_commands::server::help::help;
use petrel_commands::spec::{Handler, Locks};
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_keyspace::Value;
use petrel_resp::Protocol;
use petrel_table::commands as meta;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// `DEBUG`.
pub const DEBUG: CommandSpec = CommandSpec::new(&meta::DEBUG, debug).locking(Locks::Itself);

/// Subcommands with the number of arguments that follow them, least and most.
const SUBCOMMANDS: &[(&str, usize, usize, Handler)] = &[
    ("CHANGE-REPL-ID", 0, 0, change_repl_id),
    ("CLIENT-ENFORCE-REPLY-LIST", 1, 1, enforce_reply_list),
    ("CONFIG-REWRITE-FORCE-ALL", 0, 0, rewrite_everything),
    ("DIGEST", 0, 0, digest::dataset),
    ("DIGEST-VALUE", 1, usize::MAX, digest::values),
    ("ERROR", 1, 1, error),
    ("FORCE-TLS-WRITE-ERROR", 1, 1, force_tls_write_error),
    ("HELP", 0, 0, help),
    ("HTSTATS", 1, 2, object::tables),
    ("KEYSIZES-HIST-ASSERT", 1, 1, assert_key_sizes),
    ("LISTPACK", 1, 1, object::listpack),
    ("LOADAOF", 0, 0, reload::load_log),
    ("LOG", 1, 1, log),
    ("OBJECT", 1, 1, object::object),
    ("PAUSE-CRON", 1, 1, pause_cron),
    ("POPULATE", 1, 3, populate),
    ("PROTECT-CLIENT", 1, 1, protect_client),
    ("PROTOCOL", 1, 1, protocol),
    ("QUICKLIST-PACKED-THRESHOLD", 1, 1, quicklist_packed_threshold),
    ("RELOAD", 0, usize::MAX, reload::reload),
    ("REPLYBUFFER", 2, 2, replybuffer),
    ("SET-ACTIVE-EXPIRE", 1, 1, set_active_expire),
    ("SET-ALLOW-ACCESS-EXPIRED", 1, 1, set_allow_access_expired),
    ("SET-DISABLE-DENY-SCRIPTS", 1, 1, set_disable_deny_scripts),
    ("SET-SKIP-CHECKSUM-VALIDATION", 1, 1, set_skip_checksum_validation),
    ("SLEEP", 1, 1, sleep),
];

/// Subcommands that change the data, refused during a load.
const CHANGING: &[&str] = &["LOADAOF", "POPULATE", "RELOAD"];

/// Longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// `DEBUG subcommand [argument ...]`
fn debug(ctx: &mut Ctx<'_>) -> Outcome {
    let arguments = ctx.args().len() - 2;
    let called = SUBCOMMANDS
        .iter()
        .find(|(name, least, most, _)| ctx.is(1, name) && (*least..=*most).contains(&arguments));
    let shared = ServerHost::of(ctx).server.commands.clone();
    match called {
        Some((name, ..)) if shared.is_loading() && CHANGING.contains(name) => {
            Err(Fail::loading(shared.dialect()))
        }
        Some((_, _, _, run)) => run(ctx),
        None => {
            let name = String::from_utf8_lossy(ctx.arg(1));
            Err(Fail::new(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP."
            )))
        }
    }
}

/// `DEBUG CHANGE-REPL-ID`
fn change_repl_id(ctx: &mut Ctx<'_>) -> Outcome {
    ServerHost::of(ctx).server.replication.renew_ids();
    ctx.ok()
}

/// `DEBUG CLIENT-ENFORCE-REPLY-LIST <0 | 1>`: whether any reply counts as large for the output
/// limit of unauthenticated clients.
fn enforce_reply_list(ctx: &mut Ctx<'_>) -> Outcome {
    let on = ctx.integer(2).unwrap_or(0) != 0;
    ServerHost::of(ctx).server.replies_count_as_large.store(on, Relaxed);
    ctx.ok()
}

/// `DEBUG CONFIG-REWRITE-FORCE-ALL`
fn rewrite_everything(ctx: &mut Ctx<'_>) -> Outcome {
    rewrite_file(ctx, Extent::Everything)
}

/// `DEBUG PROTECT-CLIENT client-id`: from now on the server closes this connection no more.
fn protect_client(ctx: &mut Ctx<'_>) -> Outcome {
    let id = ctx.integer(2)?;
    let server = &ServerHost::of(ctx).server;
    let client = u64::try_from(id).ok().and_then(|id| server.client(id));
    let client = client.ok_or(Fail::fixed("ERR No such client"))?;
    client.set(Flag::Protected, true);
    ctx.ok()
}

/// `DEBUG REPLYBUFFER <PEAK-RESET-TIME <milliseconds | NEVER | RESET> | RESIZING <0 | 1>>`: when
/// the buffers that connections have for replies change their size. Here no connection has one.
fn replybuffer(ctx: &mut Ctx<'_>) -> Outcome {
    let is_number = ctx.integer(3).is_ok();
    let is_word = ctx.is(3, "NEVER") || ctx.is(3, "RESET");
    if ctx.is(2, "PEAK-RESET-TIME") && (is_number || is_word) || ctx.is(2, "RESIZING") && is_number
    {
        return ctx.ok();
    }
    Err(Fail::SYNTAX)
}

/// `DEBUG ERROR message`
fn error(ctx: &mut Ctx<'_>) -> Outcome {
    Err(Fail::new(ctx.arg(2)))
}

/// `DEBUG FORCE-TLS-WRITE-ERROR <0 | 1>`: what TLS connections are to be sent waits for as long as
/// it is on, as if their peers took nothing.
fn force_tls_write_error(ctx: &mut Ctx<'_>) -> Outcome {
    let on = ctx.integer(2).unwrap_or(0) != 0;
    ServerHost::of(ctx).server.tls_writes_withheld.store(on, Relaxed);
    ctx.ok()
}

/// `DEBUG LOG message`
fn log(ctx: &mut Ctx<'_>) -> Outcome {
    tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(ctx.arg(2)));
    ctx.ok()
}

/// `DEBUG SLEEP seconds`: no command is served meanwhile, since the whole keyspace is locked;
/// within a script, its locks are kept, and its clock does not advance. An invalid number counts as
/// 0.
fn sleep(ctx: &mut Ctx<'_>) -> Outcome {
    let seconds = str::from_utf8(ctx.arg(2)).ok().and_then(|text| text.parse::<f64>().ok());
    let pause = Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or_default();
    let is_script = ctx.exec.is_within_script();
    // Inside EXEC everything is held already, and stays so.
    let locks = !is_script && !ctx.exec.ks.holds_any();
    if locks {
        let running = &ctx.exec.shared.scripts.running;
        if !ctx.exec.ks.lock_all_unless(|| running.is_busy()) {
            return Err(running.busy(ctx.exec.shared.dialect()));
        }
    }
    std::thread::sleep(pause.min(SLEEP_MAX));
    if locks {
        ctx.exec.ks.unlock();
        ctx.exec.ks.refresh_clock();
    }
    ctx.ok()
}

/// `DEBUG QUICKLIST-PACKED-THRESHOLD size`: from which size on an element has a node of its own in
/// Redis. Here that follows from the size of chunks.
fn quicklist_packed_threshold(ctx: &mut Ctx<'_>) -> Outcome {
    match parse_memory(ctx.arg(2)) {
        Some(bytes) if bytes < 1 << 32 => ctx.ok(),
        _ => Err(Fail::fixed(
            "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
        )),
    }
}

/// `DEBUG KEYSIZES-HIST-ASSERT <0 | 1>`: in Redis, whether each command checks the histogram of
/// sizes against the keys. Here it is counted whenever `INFO` asks for it, so it cannot be wrong.
fn assert_key_sizes(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.integer(2)?;
    ctx.ok()
}

/// `DEBUG SET-ALLOW-ACCESS-EXPIRED <0 | 1>`: what would expire from now on is there for as long as
/// it is on.
fn set_allow_access_expired(ctx: &mut Ctx<'_>) -> Outcome {
    let on = ctx.integer(2).unwrap_or(0) != 0;
    let keyspace = ServerHost::of(ctx).server.keyspace.clone();
    keyspace.stop_clock(if on { ctx.exec.ks.now_ms() } else { 0 });
    ctx.exec.ks.refresh_clock();
    ctx.ok()
}

/// `DEBUG SET-ACTIVE-EXPIRE <0 | 1>`
fn set_active_expire(ctx: &mut Ctx<'_>) -> Outcome {
    let on = ctx.integer(2).unwrap_or(0) != 0;
    ServerHost::of(ctx).server.active_expire.store(on, Relaxed);
    ctx.ok()
}

/// `DEBUG SET-DISABLE-DENY-SCRIPTS <0 | 1>`
fn set_disable_deny_scripts(ctx: &mut Ctx<'_>) -> Outcome {
    let on = ctx.integer(2).unwrap_or(0) != 0;
    ctx.exec.shared.scripts.allows_everything.store(on, Relaxed);
    ctx.ok()
}

/// `DEBUG PAUSE-CRON <0 | 1>`
fn pause_cron(ctx: &mut Ctx<'_>) -> Outcome {
    let paused = ctx.integer(2).unwrap_or(0) != 0;
    ServerHost::of(ctx).server.upkeep_paused.store(paused, Relaxed);
    ctx.ok()
}

/// `DEBUG SET-SKIP-CHECKSUM-VALIDATION <0 | 1>`
fn set_skip_checksum_validation(ctx: &mut Ctx<'_>) -> Outcome {
    let skip = ctx.integer(2).unwrap_or(0) != 0;
    ServerHost::of(ctx).server.any_checksum.store(skip, Relaxed);
    ctx.ok()
}

/// `DEBUG POPULATE count [prefix] [size]`: creates strings `prefix:0`, `prefix:1`, ...; existing
/// keys are not changed.
fn populate(ctx: &mut Ctx<'_>) -> Outcome {
    let number = |ctx: &Ctx<'_>, i: usize| {
        let n = ctx.integer(i).ok().filter(|&n| n >= 0);
        n.ok_or(Fail::fixed("ERR value is out of range, must be positive"))
    };
    let count = number(ctx, 2)?;
    let prefix = if ctx.args().len() > 3 { ctx.arg(3) } else { b"key" };
    let size = if ctx.args().len() > 4 { number(ctx, 4)? as usize } else { 0 };
    if size > ServerHost::of(ctx).config.proto_max_bulk_len as usize {
        return Err(Fail::STRING_TOO_LONG);
    }
    let db = ctx.session.db;
    for i in 0..count {
        let name = [prefix, format!(":{i}").as_bytes()].concat();
        let mut value = format!("value:{i}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        if ctx.exec.ks.should_yield() && !ctx.exec.ks.holds_any() {
            ctx.exec.ks.exit();
            ctx.exec.ks.enter();
        }
        let key = ctx.exec.ks.key(&name);
        let locks = !ctx.exec.ks.holds_any();
        if locks {
            ctx.exec.ks.lock(key.hash);
        }
        if ctx.exec.ks.peek(db, key).is_none() {
            ctx.exec.ks.put(db, key, Value::from_text(&value), None);
        }
        if locks {
            ctx.exec.ks.unlock();
        }
    }
    ctx.ok()
}

/// The double in replies of `DEBUG PROTOCOL`. It is not meant to be pi.
#[allow(clippy::approx_constant)]
const PROTOCOL_DOUBLE: f64 = 3.141;

/// `DEBUG PROTOCOL type`: a reply of each type, the same that Redis answers.
fn protocol(ctx: &mut Ctx<'_>) -> Outcome {
    let resp3 = ctx.reply.protocol() == Protocol::Resp3;
    let reply = &mut *ctx.reply;
    match &ctx.request.args[2].to_ascii_lowercase()[..] {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(PROTOCOL_DOUBLE),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.integer(n);
                reply.boolean(n == 1);
            }
        }
        b"push" if !resp3 => {
            return Err(Fail::fixed("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            // A push comes between replies, so one of these is the reply to the command.
            reply.bulk(b"Some real reply following the push reply");
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.integer(42);
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => {
            return Err(Fail::fixed(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}
