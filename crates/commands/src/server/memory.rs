//! MEMORY USAGE. The server adds the other subcommands of MEMORY.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::numbers::integer;
use petrel_table::options::MemoryUsageOption;

/// Bytes of the table that a key takes on average: slots have eight bytes, and a table that grows
/// by half when it is seven eighths full is 73 % full on average.
const SLOT_SHARE: usize = 11;

/// `MEMORY USAGE key [SAMPLES count]`: bytes of key, value and their share of the table. Strings
/// need no samples.
pub fn usage(ctx: &mut Ctx<'_>) -> Outcome {
    for option in ctx.options(3) {
        let MemoryUsageOption::Samples(samples) = option?;
        if integer(samples)? < 0 {
            return Err(Fail::SYNTAX);
        }
    }
    let key = ctx.key(2);
    let found = ctx.exec.ks.peek(ctx.session.db, key);
    let bytes = found.map(|view| view.footprint() + view.shared_footprint() + SLOT_SHARE);
    ctx.exec.ks.count_read(bytes.is_some());
    match bytes {
        Some(bytes) => ctx.reply.integer(bytes as i64),
        None => ctx.reply.null(),
    }
    Ok(())
}
