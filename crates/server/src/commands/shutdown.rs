//! SHUTDOWN.

use crate::host::ServerHost;
use crate::lifecycle::stop::Manner;
use crate::server::Server;
use petrel_commands::spec::Locks;
use petrel_commands::{Block, CommandSpec, Ctx, Fail, Outcome};
use petrel_table::commands as meta;
use petrel_table::options::{Reader, ShutdownOption};
use std::sync::Arc;

/// `SHUTDOWN`.
pub const SHUTDOWN: CommandSpec =
    CommandSpec::new(&meta::SHUTDOWN, shutdown).locking(Locks::Itself);

/// Parsed arguments.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Options {
    nosave: bool,
    save: bool,
    now: bool,
    force: bool,
    abort: bool,
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`: answered by the end of the connection.
fn shutdown(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.exec.is_unblocking() {
        return match ServerHost::of(ctx).server.closing.is_pending() {
            true => wait(ctx),
            false => Err(NOT_STOPPING),
        };
    }
    let options = parse(ctx.args())?;
    if options.abort {
        return match ServerHost::of(ctx).server.closing.abort() {
            true => ctx.ok(),
            false => Err(Fail::fixed("ERR No shutdown in progress.")),
        };
    }
    let server = ServerHost::of(ctx).server.clone();
    let config = server.config.snapshot();
    let saves = options.save || !options.nosave && !config.save.is_empty();
    if !options.now && server.has_to_await_others(&config) {
        begin_closing(&server, Manner { saves, forces: options.force, waits: true })?;
        return wait(ctx);
    }
    server.end_scripts(saves);
    server.prepare_stop(&mut ctx.exec.ks, &config, saves, options.force).map_err(|_| {
        server.commands.scripts.running.end_none();
        NOT_STOPPING
    })?;
    let host = ServerHost::of(ctx);
    let address = host.client.address(&host.socket_path());
    tracing::info!("stopping: requested by the client at {address}");
    host.server.stop();
    host.server.process.leave();
    ctx.session.close = true;
    Ok(())
}

const NOT_STOPPING: Fail = Fail::fixed("ERR Errors trying to SHUTDOWN. Check logs.");

/// Lets a thread of its own wait for the replicas and stop the server.
fn begin_closing(server: &Arc<Server>, manner: Manner) -> Outcome {
    if !server.closing.request() {
        return Ok(());
    }
    let closing = server.clone();
    let work = move || closing.shut_down_as(manner);
    let thread = std::thread::Builder::new().name("petrel-closer".into());
    thread.spawn(work).map(drop).map_err(|error| {
        server.closing.abort();
        Fail::new(format!("ERR cannot start a thread that waits for replicas: {error}"))
    })
}

/// Waits for the end of the connection, or of the wish to stop.
fn wait(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.block(Block::for_time(|reply| reply.error(NOT_STOPPING.text())).polling())
}

fn parse<'a>(args: &'a [&'a [u8]]) -> Result<Options, Fail> {
    let mut options = Options::default();
    for option in Reader::new(args.get(1..).unwrap_or_default()) {
        match option? {
            ShutdownOption::Nosave => options.nosave = true,
            ShutdownOption::Save => options.save = true,
            ShutdownOption::Now => options.now = true,
            ShutdownOption::Force => options.force = true,
            ShutdownOption::Abort => options.abort = true,
        }
    }
    let alone = Options { abort: true, ..Options::default() };
    if options.abort && options != alone || options.save && options.nosave {
        return Err(Fail::SYNTAX);
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let accepted = |text: &str| parse(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        for text in ["shutdown", "shutdown NoSave now", "shutdown save force", "shutdown abort"] {
            assert!(accepted(text).is_ok(), "{text}");
        }
        for text in
            ["shutdown x", "shutdown save nosave", "shutdown abort now", "shutdown nosave abort"]
        {
            assert_eq!(accepted(text), Err(Fail::SYNTAX), "{text}");
        }
    }
}
