//! SAVE, BGSAVE and LASTSAVE.

use crate::host::ServerHost;
use petrel_commands::spec::Locks;
use petrel_commands::table::server as meta;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use std::sync::atomic::Ordering::Relaxed;

/// `SAVE`.
pub const SAVE: CommandSpec = CommandSpec::new(&meta::SAVE, save).locking(Locks::Itself);
/// `BGSAVE`.
pub const BGSAVE: CommandSpec =
    CommandSpec::new(&meta::BGSAVE, save_in_background).locking(Locks::Itself);
/// `LASTSAVE`.
pub const LASTSAVE: CommandSpec = CommandSpec::new(&meta::LASTSAVE, last_save);

const IN_PROGRESS: Fail = Fail::fixed("ERR Background save already in progress");

/// `BGSAVE [SCHEDULE | CANCEL]`: nothing else runs that it would have to wait for.
fn save_in_background(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let option = if ctx.args().len() == 2 { ctx.arg(1).to_ascii_uppercase() } else { Vec::new() };
    match (ctx.args().len(), &option[..]) {
        (1, _) | (2, b"SCHEDULE") => {}
        (2, b"CANCEL") if server.snapshot.is_saving() => {
            server.snapshot.cancelled.store(true, Relaxed);
            ctx.reply.simple("Background saving cancelled");
            return Ok(());
        }
        (2, b"CANCEL") => {
            return Err(Fail::fixed(
                "ERR Background saving is currently not in progress or scheduled",
            ));
        }
        _ => return Err(Fail::SYNTAX),
    }
    match server.begin_save(&mut ctx.exec.ks) {
        Ok(true) => ctx.reply.simple("Background saving started"),
        Ok(false) => return Err(IN_PROGRESS),
        Err(error) => return Err(Fail::new(format!("ERR saving failed: {error}"))),
    }
    Ok(())
}

/// `SAVE`
fn save(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    if server.snapshot.is_saving() {
        return Err(IN_PROGRESS);
    }
    let saved = server.save(&mut ctx.exec.ks, &server.config.snapshot());
    saved.map_err(|error| Fail::new(format!("ERR saving failed: {error}")))?;
    ctx.ok()
}

/// `LASTSAVE`
fn last_save(ctx: &mut Ctx<'_>) -> Outcome {
    let at = ServerHost::of(ctx).server.snapshot.saved_at.load(Relaxed);
    ctx.number(at)
}
