//! HOTKEYS: <https://redis.io/docs/latest/commands/hotkeys-start/>.

use crate::host::ServerHost;
use crate::lifecycle::process::{CpuTime, Whose, cpu_time};
use crate::server::Server;
use crate::unix_time::unix_ms;
use petrel_commands::server::help::help;
use petrel_commands::server::hotkeys::{Collection, Top, Wish};
use petrel_commands::server::stats::Observer;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_resp::Reply;
use petrel_table::commands as meta;
use std::sync::atomic::Ordering::Relaxed;

/// `HOTKEYS`.
pub const HOTKEYS: CommandSpec = CommandSpec::container(
    &meta::HOTKEYS,
    &[
        CommandSpec::new(&meta::HOTKEYS_GET, get),
        CommandSpec::new(&meta::HOTKEYS_HELP, help),
        CommandSpec::new(&meta::HOTKEYS_RESET, reset),
        CommandSpec::new(&meta::HOTKEYS_START, start),
        CommandSpec::new(&meta::HOTKEYS_STOP, stop),
    ],
);

const KEYS: usize = 10;
const KEYS_MAX: i64 = 64;
const SECONDS_MAX: i64 = 1_000_000;
const HASH_SLOTS: i64 = 16_384;

/// `HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio]`
fn start(ctx: &mut Ctx<'_>) -> Outcome {
    let wish = parse(ctx)?;
    let server = ServerHost::of(ctx).server.clone();
    if !server.commands.hotkeys.start(wish, unix_ms()) {
        return Err(Fail::fixed("ERR hotkey tracking session already in progress"));
    }
    let CpuTime { system, user } = cpu_time(Whose::Process);
    for (figure, seconds) in server.figures.hotkeys_cpu_us.iter().zip([user, system]) {
        figure.store((seconds * 1e6) as u64, Relaxed);
    }
    server.commands.observe(Observer::Hotkeys, true);
    ctx.ok()
}

fn parse(ctx: &Ctx<'_>) -> Result<Wish, Fail> {
    let args = ctx.args().len();
    if args < 4 || !ctx.is(2, "METRICS") {
        return Err(Fail::fixed("ERR METRICS parameter is required"));
    }
    let count = ctx.integer(3).ok().filter(|count| (1..=2).contains(count));
    let count = count.ok_or(Fail::fixed("ERR METRICS count must be > 0 and <= 2"))? as usize;
    if args < 4 + count {
        return Err(Fail::fixed(
            "ERR METRICS count does not match number of metric types provided",
        ));
    }
    let mut wish = Wish { time: false, bytes: false, keys: KEYS, ratio: 1, millis_max: None };
    for i in 4..4 + count {
        if ctx.is(i, "CPU") {
            if std::mem::replace(&mut wish.time, true) {
                return Err(Fail::fixed("ERR METRICS CPU defined more than once!"));
            }
        } else if ctx.is(i, "NET") && std::mem::replace(&mut wish.bytes, true) {
            return Err(Fail::fixed("ERR METRICS NET defined more than once!"));
        }
    }
    // A metric that is not known may be known to a later release.
    if !wish.time && !wish.bytes {
        return Err(Fail::fixed("ERR METRICS no valid metrics passed. Supported: CPU|NET"));
    }
    let number = |i, least, most, refusal| match ctx.integer(i) {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(Fail::fixed(refusal)),
    };
    for i in (4 + count..args).step_by(2) {
        let has_value = i + 1 < args;
        if ctx.is(i, "SLOTS") {
            return Err(Fail::fixed("ERR SLOTS parameter cannot be used in non-cluster mode"));
        } else if ctx.is(i, "COUNT") && has_value {
            let refusal = "ERR COUNT must be between 1 and 64";
            wish.keys = number(i + 1, 1, KEYS_MAX, refusal)? as usize;
        } else if ctx.is(i, "DURATION") && has_value {
            let refusal = "ERR DURATION must be between 1 and 1000000";
            wish.millis_max = Some(number(i + 1, 1, SECONDS_MAX, refusal)? * 1000);
        } else if ctx.is(i, "SAMPLE") && has_value {
            wish.ratio = number(i + 1, 1, i64::MAX, "ERR SAMPLE ratio must be positive")? as u64;
        } else {
            return Err(Fail::SYNTAX);
        }
    }
    Ok(wish)
}

/// `HOTKEYS STOP`
fn stop(ctx: &mut Ctx<'_>) -> Outcome {
    let shared = ctx.exec.shared.clone();
    let stopped = shared.hotkeys.stop(unix_ms());
    shared.observe(Observer::Hotkeys, false);
    if stopped {
        return ctx.ok();
    }
    ctx.reply.null();
    Ok(())
}

/// `HOTKEYS RESET`
fn reset(ctx: &mut Ctx<'_>) -> Outcome {
    if !ctx.exec.shared.hotkeys.forget(unix_ms()) {
        return Err(Fail::fixed("ERR hotkey tracking session in progress, stop tracking first"));
    }
    ctx.ok()
}

/// `HOTKEYS GET`
fn get(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let reply = &mut *ctx.reply;
    let shown = server.commands.hotkeys.look(|collection, totals| {
        reply.array(1);
        show(collection, totals, &server, reply);
    });
    if shown.is_none() {
        ctx.reply.null();
    }
    Ok(())
}

fn show(collection: &mut Collection, totals: [u64; 2], server: &Server, reply: &mut dyn Reply) {
    let now = unix_ms();
    let is_active = collection.is_active(now);
    let Collection { wish, began_at, ended_at, times, sizes } = collection;
    let number = |reply: &mut dyn Reply, name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    };
    reply.map(7 + 3 * usize::from(wish.time) + 2 * usize::from(wish.bytes));
    number(reply, "tracking-active", is_active.into());
    number(reply, "sample-ratio", wish.ratio as i64);
    reply.bulk(b"selected-slots");
    reply.array(1);
    reply.array(2);
    reply.integer(0);
    reply.integer(HASH_SLOTS - 1);
    number(reply, "all-commands-all-slots-us", (totals[0] / 1000) as i64);
    number(reply, "net-bytes-all-commands-all-slots", totals[1] as i64);
    number(reply, "collection-start-time-unix-ms", *began_at);
    number(reply, "collection-duration-ms", ended_at.unwrap_or(now) - *began_at);
    if wish.time {
        let CpuTime { system, user } = cpu_time(Whose::Process);
        let begins = &server.figures.hotkeys_cpu_us;
        for (name, seconds, begin) in [
            ("total-cpu-time-user-ms", user, &begins[0]),
            ("total-cpu-time-sys-ms", system, &begins[1]),
        ] {
            let micros = ((seconds * 1e6) as u64).saturating_sub(begin.load(Relaxed));
            number(reply, name, (micros / 1000) as i64);
        }
    }
    if wish.bytes {
        number(reply, "total-net-bytes", totals[1] as i64);
    }
    if wish.time {
        reply.bulk(b"by-cpu-time-us");
        list(times, 1000, reply);
    }
    if wish.bytes {
        reply.bulk(b"by-net-bytes");
        list(sizes, 1, reply);
    }
}

/// Writes keys and their sums, divided by `unit`.
fn list(top: &Top, unit: u64, reply: &mut dyn Reply) {
    let heaviest = top.heaviest();
    reply.array(2 * heaviest.len());
    for (key, sum) in heaviest {
        reply.bulk(key);
        reply.integer(sum.div_ceil(unit) as i64);
    }
}
