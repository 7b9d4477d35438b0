//! SLOWLOG, and Valkey's COMMANDLOG, which also covers large requests and replies:
//! <https://valkey.io/commands/commandlog-get/>.

use super::{CommandLog, LogEntry};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::server::help::help;
use crate::server::stats::Shared;
use crate::spec::{CommandSpec, Locks};
use petrel_resp::Dialect;
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::container(
        &meta::SLOWLOG,
        &[
            CommandSpec::new(&meta::SLOWLOG_GET, get).locking(Locks::Itself),
            CommandSpec::new(&meta::SLOWLOG_HELP, help).locking(Locks::Itself),
            CommandSpec::new(&meta::SLOWLOG_LEN, len).locking(Locks::Itself),
            CommandSpec::new(&meta::SLOWLOG_RESET, reset).locking(Locks::Itself),
        ],
    ),
    CommandSpec::container(
        &meta::COMMANDLOG,
        &[
            CommandSpec::new(&meta::COMMANDLOG_GET, get_of).locking(Locks::Itself),
            CommandSpec::new(&meta::COMMANDLOG_HELP, help).locking(Locks::Itself),
            CommandSpec::new(&meta::COMMANDLOG_LEN, len_of).locking(Locks::Itself),
            CommandSpec::new(&meta::COMMANDLOG_RESET, reset_of).locking(Locks::Itself),
        ],
    ),
];

/// Default number of entries that `SLOWLOG GET` returns.
const COUNT: usize = 10;

/// `SLOWLOG GET [count]`: -1 for all
fn get(ctx: &mut Ctx<'_>) -> Outcome {
    let count = match ctx.args().len() {
        2 => COUNT,
        3 => count(ctx)?,
        _ => {
            let name = ctx.arg(1);
            let text: [&[u8]; 3] = [
                b"ERR unknown subcommand or wrong number of arguments for '",
                name,
                b"'. Try SLOWLOG HELP.",
            ];
            return Err(Fail::new(text.concat()));
        }
    };
    let entries = ctx.exec.shared.slowlog.newest(count);
    // Valkey has no number of arguments.
    let counts = ctx.dialect() == Dialect::Redis;
    write(ctx, &entries, counts)
}

/// Argument 2 as a number of entries.
fn count(ctx: &Ctx<'_>) -> Result<usize, Fail> {
    match ctx.integer(2) {
        Ok(-1) => Ok(usize::MAX),
        Ok(count @ 0..) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(Fail::fixed("ERR count should be greater than or equal to -1")),
    }
}

fn write(ctx: &mut Ctx<'_>, entries: &[LogEntry], counts: bool) -> Outcome {
    ctx.reply.array(entries.len());
    for entry in entries {
        write_entry(ctx, entry, counts);
    }
    Ok(())
}

fn write_entry(ctx: &mut Ctx<'_>, entry: &LogEntry, counts: bool) {
    ctx.reply.array(6 + usize::from(counts));
    ctx.reply.integer(entry.id as i64);
    ctx.reply.integer(entry.at as i64);
    ctx.reply.integer(entry.cost as i64);
    ctx.reply.array(entry.args.len());
    for arg in &entry.args {
        ctx.reply.bulk(arg);
    }
    ctx.reply.bulk(entry.address.as_bytes());
    ctx.reply.bulk(entry.name.as_bytes());
    if counts {
        ctx.reply.integer(entry.arg_count as i64);
    }
}

/// `SLOWLOG LEN`
fn len(ctx: &mut Ctx<'_>) -> Outcome {
    let len = ctx.exec.shared.slowlog.len();
    ctx.number(len as i64)
}

/// `SLOWLOG RESET`
fn reset(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.exec.shared.slowlog.clear();
    ctx.ok()
}

/// `COMMANDLOG GET count <SLOW | LARGE-REQUEST | LARGE-REPLY>`: -1 for all
fn get_of(ctx: &mut Ctx<'_>) -> Outcome {
    let count = count(ctx)?;
    let entries = log(ctx, 3)?(&ctx.exec.shared).newest(count);
    write(ctx, &entries, false)
}

/// `COMMANDLOG LEN <SLOW | LARGE-REQUEST | LARGE-REPLY>`
fn len_of(ctx: &mut Ctx<'_>) -> Outcome {
    let len = log(ctx, 2)?(&ctx.exec.shared).len();
    ctx.number(len as i64)
}

/// `COMMANDLOG RESET <SLOW | LARGE-REQUEST | LARGE-REPLY>`
fn reset_of(ctx: &mut Ctx<'_>) -> Outcome {
    log(ctx, 2)?(&ctx.exec.shared).clear();
    ctx.ok()
}

/// The log that argument `i` names.
fn log(ctx: &Ctx<'_>, i: usize) -> Result<fn(&Shared) -> &CommandLog, Fail> {
    match () {
        () if ctx.is(i, "SLOW") => Ok(|shared| &shared.slowlog),
        () if ctx.is(i, "LARGE-REQUEST") => Ok(|shared| &shared.large_requests),
        () if ctx.is(i, "LARGE-REPLY") => Ok(|shared| &shared.large_replies),
        () => Err(Fail::fixed(
            "ERR type should be one of the following: slow, large-request, large-reply",
        )),
    }
}
