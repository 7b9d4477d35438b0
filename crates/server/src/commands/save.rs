//! SAVE and LASTSAVE.

use crate::host::ServerHost;
use petrel_commands::spec::Locks;
use petrel_commands::table::server as meta;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use std::sync::atomic::Ordering::Relaxed;

/// `SAVE`.
pub const SAVE: CommandSpec = CommandSpec::new(&meta::SAVE, save).locking(Locks::Itself);
/// `LASTSAVE`.
pub const LASTSAVE: CommandSpec = CommandSpec::new(&meta::LASTSAVE, last_save);

/// `SAVE`
fn save(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let saved = server.save(&mut ctx.exec.ks, &server.config.snapshot());
    saved.map_err(|error| Fail::new(format!("ERR saving failed: {error}")))?;
    ctx.ok()
}

/// `LASTSAVE`
fn last_save(ctx: &mut Ctx<'_>) -> Outcome {
    let at = ServerHost::of(ctx).server.snapshot.saved_at.load(Relaxed);
    ctx.number(at)
}
