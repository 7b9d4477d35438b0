//! TIME: the clock of the server.

use crate::ctx::Ctx;
use crate::fail::Outcome;
use crate::spec::{CommandSpec, Locks};
use crate::table::server as meta;
use std::time::{SystemTime, UNIX_EPOCH};

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::new(&meta::TIME, time).locking(Locks::Itself)];

/// `TIME`: the clock itself, not the thread's coarse one
fn time(ctx: &mut Ctx<'_>) -> Outcome {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut digits = itoa::Buffer::new();
    ctx.reply.array(2);
    ctx.reply.bulk(digits.format(since.as_secs()).as_bytes());
    ctx.reply.bulk(digits.format(since.subsec_micros()).as_bytes());
    Ok(())
}
