//! SLOWLOG.

use super::SlowEntry;
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::help::help;
use crate::spec::{CommandSpec, Locks};
use crate::table::slowlog as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::container(
    &meta::SLOWLOG,
    &[
        CommandSpec::new(&meta::GET, get).locking(Locks::Itself),
        CommandSpec::new(&meta::HELP, help).locking(Locks::Itself),
        CommandSpec::new(&meta::LEN, len).locking(Locks::Itself),
        CommandSpec::new(&meta::RESET, reset).locking(Locks::Itself),
    ],
)];

/// Entries that `SLOWLOG GET` answers unless told otherwise.
const COUNT: usize = 10;

/// `SLOWLOG GET [count]`: -1 for all
fn get(ctx: &mut Ctx<'_>) -> Outcome {
    let count = match ctx.args().len() {
        2 => COUNT,
        3 => match ctx.integer(2) {
            Ok(-1) => usize::MAX,
            Ok(count @ 0..) => usize::try_from(count).unwrap_or(usize::MAX),
            _ => {
                return Err(Fail::fixed("ERR count should be greater than or equal to -1"));
            }
        },
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
    ctx.reply.array(entries.len());
    for entry in &entries {
        write_entry(ctx, entry);
    }
    Ok(())
}

fn write_entry(ctx: &mut Ctx<'_>, entry: &SlowEntry) {
    ctx.reply.array(6);
    ctx.reply.integer(entry.id as i64);
    ctx.reply.integer(entry.at as i64);
    ctx.reply.integer(entry.micros as i64);
    ctx.reply.array(entry.args.len());
    for arg in &entry.args {
        ctx.reply.bulk(arg);
    }
    ctx.reply.bulk(entry.address.as_bytes());
    ctx.reply.bulk(entry.name.as_bytes());
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
