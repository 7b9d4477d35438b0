//! SAVE, BGSAVE and LASTSAVE.

use crate::durability::snapshot::Begun;
use crate::host::ServerHost;
use crate::server::Server;
use petrel_commands::spec::Locks;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_table::commands as meta;
use petrel_table::options::BgsaveOption;
use std::sync::atomic::Ordering::Relaxed;

/// `SAVE`.
pub const SAVE: CommandSpec =
    CommandSpec::new(&meta::SAVE, |ctx| ctx.without_data(save)).locking(Locks::Itself);
/// `BGSAVE`.
pub const BGSAVE: CommandSpec =
    CommandSpec::new(&meta::BGSAVE, |ctx| ctx.without_data(save_in_background))
        .locking(Locks::Itself);
/// `LASTSAVE`.
pub const LASTSAVE: CommandSpec = CommandSpec::new(&meta::LASTSAVE, last_save);

const IN_PROGRESS: Fail = Fail::fixed("ERR Background save already in progress");
const BUSY: Fail = Fail::fixed(
    "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a BGSAVE \
     whenever possible.",
);

/// `BGSAVE [SCHEDULE | CANCEL]`
fn save_in_background(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let option = ctx.options(1).leading();
    match (ctx.args().len(), option) {
        (1, _) | (2, Some(BgsaveOption::Schedule)) => {}
        (2, Some(BgsaveOption::Cancel)) => return cancel(ctx, &server),
        _ => return Err(Fail::SYNTAX),
    }
    // A transaction ends before anything is begun for it.
    let begun = match ctx.session.in_exec {
        false => server.begin_save(&mut ctx.exec.ks),
        true if server.snapshot.is_saving() => Ok(Begun::AlreadySaving),
        true => Ok(Begun::ImageIsTaken),
    };
    match begun {
        Ok(Begun::Now) => ctx.reply.simple("Background saving started"),
        Ok(Begun::AlreadySaving) => return Err(IN_PROGRESS),
        Ok(Begun::ImageIsTaken) if ctx.session.in_exec || option.is_some() => {
            server.snapshot.scheduled.store(true, Relaxed);
            ctx.reply.simple("Background saving scheduled");
        }
        Ok(Begun::ImageIsTaken) => return Err(BUSY),
        Err(error) => return Err(Fail::new(format!("ERR saving failed: {error}"))),
    }
    Ok(())
}

fn cancel(ctx: &mut Ctx<'_>, server: &Server) -> Outcome {
    if server.snapshot.is_saving() {
        server.snapshot.give_up();
        ctx.reply.simple("Background saving cancelled");
    } else if server.snapshot.scheduled.swap(false, Relaxed) {
        ctx.reply.simple("Scheduled background saving cancelled");
    } else {
        return Err(Fail::fixed("ERR Background saving is currently not in progress or scheduled"));
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
