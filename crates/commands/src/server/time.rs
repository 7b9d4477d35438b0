//! TIME: the clock of the server.

use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::Outcome;
use crate::spec::{CommandSpec, Locks};
use petrel_table::commands as meta;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::new(&meta::TIME, time).locking(Locks::Itself)];

/// `TIME`: the exact clock instead of the thread's coarse one. In a script, time stands still until
/// the script is slow.
fn time(ctx: &mut Ctx<'_>) -> Outcome {
    let since = if ctx.exec.is_within_script() { ctx.exec.script_time() } else { time_of_day() };
    let mut digits = itoa::Buffer::new();
    ctx.reply.array(2);
    ctx.reply.bulk(digits.format(since.as_secs()).as_bytes());
    ctx.reply.bulk(digits.format(since.subsec_micros()).as_bytes());
    Ok(())
}

/// Time since 1970.
pub(crate) fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Executor {
    /// Time for scripts: stands still within the millisecond used for expiry, until the script is
    /// slow.
    fn script_time(&mut self) -> Duration {
        let begin = Duration::from_millis(self.ks.now_ms().max(0) as u64);
        let end = begin + Duration::from_micros(999);
        *self.script_time.get_or_insert_with(|| time_of_day().clamp(begin, end))
    }
}
