//! SHUTDOWN.

use crate::host::ServerHost;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_table::commands as meta;

/// `SHUTDOWN`.
pub const SHUTDOWN: CommandSpec = CommandSpec::new(&meta::SHUTDOWN, shutdown);

/// What the arguments ask for.
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
    server
        .prepare_stop(&mut ctx.exec.ks, &config, saves, options.force)
        .map_err(|_| Fail::fixed("ERR Errors trying to SHUTDOWN. Check logs."))?;
    let host = ServerHost::of(ctx);
    let address = host.client.address(&host.socket_path());
    tracing::info!("stopping: asked to by the client at {address}");
    host.server.stop();
    host.server.process.leave();
    ctx.session.close = true;
    Ok(())
}

fn parse(args: &[&[u8]]) -> Result<Options, Fail> {
    let mut options = Options::default();
    for arg in &args[1..] {
        let option = match &arg.to_ascii_lowercase()[..] {
            b"nosave" => &mut options.nosave,
            b"save" => &mut options.save,
            b"now" => &mut options.now,
            b"force" => &mut options.force,
            b"abort" => &mut options.abort,
            _ => return Err(Fail::SYNTAX),
        };
        *option = true;
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
