//! TIME: the clock of the server.

use crate::ctx::Ctx;
use crate::fail::Outcome;
use crate::spec::{CommandSpec, Locks};
use crate::table::server as meta;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::new(&meta::TIME, time).locking(Locks::Itself)];

/// `TIME`: the clock itself, not the thread's coarse one, but in a script: there it is one moment from beginning to end.
fn time(ctx: &mut Ctx<'_>) -> Outcome {
    let since = match ctx.exec.is_within_script() {
        true => Duration::from_millis(ctx.exec.ks.now_ms().max(0) as u64),
        false => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    };
    let mut digits = itoa::Buffer::new();
    ctx.reply.array(2);
    ctx.reply.bulk(digits.format(since.as_secs()).as_bytes());
    ctx.reply.bulk(digits.format(since.subsec_micros()).as_bytes());
    Ok(())
}
