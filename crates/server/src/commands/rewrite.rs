//! BGREWRITEAOF.

use crate::durability::log::Rewriting;
use crate::host::ServerHost;
use petrel_commands::spec::Locks;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_table::commands as meta;

/// `BGREWRITEAOF`.
pub const BGREWRITEAOF: CommandSpec =
    CommandSpec::new(&meta::BGREWRITEAOF, |ctx| ctx.without_data(rewrite)).locking(Locks::Itself);

fn rewrite(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    if ctx.exec.ks.holds_any() {
        // Inside a transaction: once that is over.
        server.durability.schedule_rewrite();
        ctx.reply.simple("Background append only file rewriting scheduled");
        return Ok(());
    }
    match server.begin_rewrite(&mut ctx.exec.ks) {
        Ok(Rewriting::Begun) => {
            ctx.reply.simple("Background append only file rewriting started");
            Ok(())
        }
        Ok(Rewriting::Scheduled) => {
            ctx.reply.simple("Background append only file rewriting scheduled");
            Ok(())
        }
        Ok(Rewriting::Already) => {
            Err(Fail::fixed("ERR Background append only file rewriting already in progress"))
        }
        Err(_) => Err(Fail::fixed(
            "ERR Can't execute an AOF background rewriting. Please check the server logs for more information.",
        )),
    }
}
