//! BACKUP.

use crate::durability::online_backup::BackupError;
use crate::host::ServerHost;
use crate::server::Server;
use petrel_commands::server::help::help;
use petrel_commands::spec::Locks;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_table::commands as meta;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// `BACKUP`.
pub const BACKUP: CommandSpec = CommandSpec::container(&meta::BACKUP, SUBCOMMANDS);

static SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::BACKUP_START, start).locking(Locks::Itself),
    CommandSpec::new(&meta::BACKUP_SEAL, |ctx| ctx.without_data(seal)).locking(Locks::Itself),
    CommandSpec::new(&meta::BACKUP_STATUS, status).locking(Locks::Itself),
    CommandSpec::new(&meta::BACKUP_LIST, list).locking(Locks::Itself),
    CommandSpec::new(&meta::BACKUP_ABORT, abort).locking(Locks::Itself),
    CommandSpec::new(&meta::BACKUP_CLEANUP, cleanup).locking(Locks::Itself),
    CommandSpec::new(&meta::BACKUP_HELP, help).locking(Locks::Itself),
];

impl From<BackupError> for Fail {
    fn from(error: BackupError) -> Self {
        Fail::new(format!("ERR {error}"))
    }
}

fn server(ctx: &mut Ctx<'_>) -> Arc<Server> {
    ServerHost::of(ctx).server.clone()
}

/// `BACKUP START`
fn start(ctx: &mut Ctx<'_>) -> Outcome {
    server(ctx).start_backup()?;
    ctx.ok()
}

/// `BACKUP SEAL`: at the end of a transaction that it is in.
fn seal(ctx: &mut Ctx<'_>) -> Outcome {
    let server = server(ctx);
    server.begin_backup_seal()?;
    let call = if ctx.exec.ks.holds_any() { None } else { ctx.offload().ok() };
    let Some(call) = call else {
        server.seal_backup_later();
        return ctx.ok();
    };
    server.seal_backup(Some((call, ServerHost::of(ctx).client.clone())));
    Ok(())
}

/// `BACKUP STATUS`
fn status(ctx: &mut Ctx<'_>) -> Outcome {
    let server = server(ctx);
    let backup = server.online_backup.lock();
    ctx.reply.map(4);
    for (name, text) in [("state", backup.phase().name()), ("error", backup.error())] {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.bulk(text.as_bytes());
    }
    for (name, time) in [("start_time", backup.started_at()), ("end_time", backup.ended_at())] {
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.integer(time);
    }
    Ok(())
}

/// `BACKUP LIST`
fn list(ctx: &mut Ctx<'_>) -> Outcome {
    let server = server(ctx);
    let backup = server.online_backup.lock();
    ctx.reply.array(backup.files().len());
    backup.files().iter().for_each(|path| ctx.reply.bulk(path.as_os_str().as_bytes()));
    Ok(())
}

/// `BACKUP ABORT`
fn abort(ctx: &mut Ctx<'_>) -> Outcome {
    server(ctx).abort_backup()?;
    ctx.ok()
}

/// `BACKUP CLEANUP`
fn cleanup(ctx: &mut Ctx<'_>) -> Outcome {
    server(ctx).clean_up_backup()?;
    ctx.ok()
}
