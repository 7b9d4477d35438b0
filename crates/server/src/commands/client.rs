//! CLIENT.

mod filter;
mod tracking;

use crate::client::{Flag, Labels};
use crate::host::ServerHost;
use crate::host::client_line::describe;
use crate::pause::PauseReason;
use filter::{Filter, Verb};
use petrel_commands::server::help::help;
use petrel_commands::spec::Group;
use petrel_commands::{CommandSpec, Ctx, Fail, Modes, Outcome, Replies, WaitEnd};
use petrel_table::commands as meta;
use petrel_table::options::ClientSetinfoOption;
use std::sync::atomic::Ordering::Relaxed;

/// `CLIENT`.
pub const CLIENT: CommandSpec = CommandSpec::container(&meta::CLIENT, SUBCOMMANDS);

static SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::CLIENT_CACHING, tracking::caching),
    CommandSpec::new(&meta::CLIENT_CAPA, capa),
    CommandSpec::new(&meta::CLIENT_GETNAME, getname),
    CommandSpec::new(&meta::CLIENT_GETREDIR, tracking::getredir),
    CommandSpec::new(&meta::CLIENT_HELP, help),
    CommandSpec::new(&meta::CLIENT_ID, id),
    CommandSpec::new(&meta::CLIENT_INFO, info),
    CommandSpec::new(&meta::CLIENT_KILL, kill),
    CommandSpec::new(&meta::CLIENT_LIST, list),
    CommandSpec::new(&meta::CLIENT_NO_EVICT, no_evict),
    CommandSpec::new(&meta::CLIENT_IMPORT_SOURCE, import_source),
    CommandSpec::new(&meta::CLIENT_NO_TOUCH, no_touch),
    CommandSpec::new(&meta::CLIENT_PAUSE, pause),
    CommandSpec::new(&meta::CLIENT_REPLY, reply),
    CommandSpec::new(&meta::CLIENT_SETINFO, setinfo),
    CommandSpec::new(&meta::CLIENT_SETNAME, setname),
    CommandSpec::new(&meta::CLIENT_TRACKING, tracking::tracking),
    CommandSpec::new(&meta::CLIENT_TRACKINGINFO, tracking::trackinginfo),
    CommandSpec::new(&meta::CLIENT_UNBLOCK, unblock),
    CommandSpec::new(&meta::CLIENT_UNPAUSE, unpause),
];

/// Checks a name that a client gives itself: printable ASCII without spaces.
pub fn check_label(what: &str, label: &[u8]) -> Outcome {
    if label.iter().all(|&c| (b'!'..=b'~').contains(&c)) {
        return Ok(());
    }
    Err(Fail::new(format!("ERR {what} cannot contain spaces, newlines or special characters.")))
}

/// `CLIENT ID`
fn id(ctx: &mut Ctx<'_>) -> Outcome {
    let id = ServerHost::of(ctx).client.id;
    ctx.number(id as i64)
}

/// `CLIENT GETNAME`
fn getname(ctx: &mut Ctx<'_>) -> Outcome {
    let name = ServerHost::of(ctx).client.labels().name;
    if name.is_empty() {
        ctx.reply.null();
    } else {
        ctx.reply.bulk(&name);
    }
    Ok(())
}

/// Changes the attributes that the client sets itself, and counts the memory that it takes.
pub(super) fn relabel(ctx: &mut Ctx<'_>, change: impl FnOnce(&mut Labels)) {
    let client = ServerHost::of(ctx).client.clone();
    let before = client.label_bytes();
    client.relabel(change);
    ctx.exec.ks.count_foreign(client.label_bytes() as i64 - before as i64);
}

/// `CLIENT SETNAME connection-name`
fn setname(ctx: &mut Ctx<'_>) -> Outcome {
    let name = ctx.arg(2);
    check_label("Client names", name)?;
    relabel(ctx, |labels| labels.name = name.to_vec());
    ctx.ok()
}

/// `CLIENT SETINFO <LIB-NAME libname | LIB-VER libver>`
fn setinfo(ctx: &mut Ctx<'_>) -> Outcome {
    let named = String::from_utf8_lossy(ctx.arg(2));
    match ctx.options(2).leading() {
        Some(ClientSetinfoOption::LibName(name)) => {
            check_label(&named, name)?;
            relabel(ctx, |labels| labels.lib_name = name.to_vec());
        }
        Some(ClientSetinfoOption::LibVer(version)) => {
            check_label(&named, version)?;
            relabel(ctx, |labels| labels.lib_version = version.to_vec());
        }
        None => {
            let option = ctx.arg(2);
            return Err(Fail::new([b"ERR Unrecognized option '", option, b"'"].concat()));
        }
    }
    ctx.ok()
}

/// `CLIENT CAPA capability [capability ...]`. Unknown capabilities are ignored.
fn capa(ctx: &mut Ctx<'_>) -> Outcome {
    let is_redirect = |name: &&[u8]| name.eq_ignore_ascii_case(b"redirect");
    if ctx.args()[2..].iter().any(is_redirect) {
        ServerHost::of(ctx).client.set(Flag::Redirectable, true);
        ctx.session.set(Modes::REDIRECTABLE, true);
    }
    ctx.ok()
}

/// `CLIENT INFO`
fn info(ctx: &mut Ctx<'_>) -> Outcome {
    show_self(ctx);
    let host = ServerHost::of(ctx);
    let mut text = Vec::new();
    describe(&host.client, &host.server, &host.socket_path(), &mut text);
    ctx.reply.verbatim(b"txt", &text);
    Ok(())
}

/// `CLIENT LIST [filter value ...]`
fn list(ctx: &mut Ctx<'_>) -> Outcome {
    show_self(ctx);
    let filter = Filter::parse(ctx, 2, Verb::List)?;
    let room = ctx.reply.room_left();
    let host = ServerHost::of(ctx);
    let path = host.socket_path();
    let mut text = Vec::new();
    for client in filter.candidates(&host.server, &host.client) {
        if filter.admits(&client, &host.server, &host.client, &path) {
            describe(&client, &host.server, &path, &mut text);
        }
        if text.len() > room {
            ctx.reply.refuse();
            return Ok(());
        }
    }
    ctx.reply.verbatim(b"txt", &text);
    Ok(())
}

/// `CLIENT KILL <ip:port | filter value [filter value ...]>`
fn kill(ctx: &mut Ctx<'_>) -> Outcome {
    let filter = match *ctx.args() {
        [_, _, address] => Filter::address(address),
        _ => Filter::parse(ctx, 2, Verb::Kill)?,
    };
    let is_old = ctx.args().len() == 3;
    let host = ServerHost::of(ctx);
    let path = host.socket_path();
    let (mut killed, mut suicide) = (0, false);
    for client in filter.candidates(&host.server, &host.client) {
        if !filter.admits(&client, &host.server, &host.client, &path) {
            continue;
        }
        killed += 1;
        if client.id == host.client.id {
            suicide = true;
        } else {
            host.server.kill(&client);
        }
        if is_old {
            break;
        }
    }
    ctx.session.close |= suicide;
    match (is_old, killed) {
        (true, 0) => Err(Fail::fixed("ERR No such client")),
        (true, _) => ctx.ok(),
        (false, _) => ctx.number(killed),
    }
}

/// `CLIENT PAUSE timeout [WRITE | ALL]`
fn pause(ctx: &mut Ctx<'_>) -> Outcome {
    let writes_only = match ctx.args().len() {
        3 => false,
        4 if ctx.is(3, "WRITE") => true,
        4 if ctx.is(3, "ALL") => false,
        4 => return Err(Fail::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(malformed(ctx)),
    };
    let millis =
        ctx.integer(2).map_err(|_| Fail::fixed("ERR timeout is not an integer or out of range"))?;
    if millis < 0 {
        return Err(Fail::fixed("ERR timeout is negative"));
    }
    let now = ctx.exec.ks.now_ms();
    let until = now.checked_add(millis).ok_or(Fail::fixed("ERR timeout is out of range"))?;
    let server = &ServerHost::of(ctx).server;
    server.pause_clients(PauseReason::Command, now, until, writes_only);
    ctx.ok()
}

/// `CLIENT UNPAUSE`
fn unpause(ctx: &mut Ctx<'_>) -> Outcome {
    ServerHost::of(ctx).server.unpause(PauseReason::Command);
    ctx.ok()
}

/// `CLIENT REPLY <ON | OFF | SKIP>`: the batch drops the replies of a connection that wants none.
fn reply(ctx: &mut Ctx<'_>) -> Outcome {
    let replies = if ctx.is(2, "ON") {
        Replies::On
    } else if ctx.is(2, "OFF") {
        Replies::Off
    } else if ctx.is(2, "SKIP") {
        // Where nothing is answered there is nothing to skip.
        if ctx.session.replies == Replies::Off { Replies::Off } else { Replies::SkipNext }
    } else {
        return Err(Fail::SYNTAX);
    };
    ctx.session.replies = replies;
    ctx.ok()
}

/// `CLIENT NO-EVICT <ON | OFF>`
fn no_evict(ctx: &mut Ctx<'_>) -> Outcome {
    let on = on_or_off(ctx)?;
    ServerHost::of(ctx).client.set(Flag::NoEvict, on);
    ctx.ok()
}

/// `CLIENT NO-TOUCH <ON | OFF>`
fn no_touch(ctx: &mut Ctx<'_>) -> Outcome {
    let on = on_or_off(ctx)?;
    ServerHost::of(ctx).client.set(Flag::NoTouch, on);
    ctx.session.set(Modes::NO_TOUCH, on);
    ctx.ok()
}

/// `CLIENT IMPORT-SOURCE <ON | OFF>`: whether this connection sees expired keys that `import-mode`
/// keeps.
fn import_source(ctx: &mut Ctx<'_>) -> Outcome {
    let on = on_or_off(ctx)?;
    let host = ServerHost::of(ctx);
    if on && !host.server.config.snapshot().import_mode {
        return Err(Fail::fixed("ERR Server is not in import mode"));
    }
    host.client.set(Flag::Importer, on);
    ctx.session.set_imports(on);
    ctx.ok()
}

fn on_or_off(ctx: &Ctx<'_>) -> Result<bool, Fail> {
    match ctx.is(2, "ON") {
        true => Ok(true),
        false if ctx.is(2, "OFF") => Ok(false),
        false => Err(Fail::SYNTAX),
    }
}

/// `CLIENT UNBLOCK client-id [TIMEOUT | ERROR]`
fn unblock(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len() > 4 {
        return Err(malformed(ctx));
    }
    let end = if ctx.args().len() == 3 || ctx.is(3, "TIMEOUT") {
        WaitEnd::Timeout
    } else if ctx.is(3, "ERROR") {
        WaitEnd::Error
    } else {
        return Err(Fail::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    };
    let id = ctx.integer(2)?;
    let server = ServerHost::of(ctx).server.clone();
    let blocked = u64::try_from(id).ok().and_then(|id| server.blocked(id));
    if blocked.as_ref().is_some_and(|blocked| blocked.is_moved()) {
        // It does not wait for a key.
        return ctx.number(0);
    }
    let ended = match blocked {
        Some(blocked) => ctx.exec.end_wait(&blocked, end, ctx.host),
        // It may wait at another member of the cluster.
        None => u64::try_from(id).is_ok_and(|id| {
            let cluster = ctx.exec.shared.cluster.get();
            cluster.is_some_and(|cluster| cluster.end_wait(id, Some(end)))
        }),
    };
    ctx.number(ended.into())
}

/// The error of more arguments than a subcommand takes.
fn malformed(ctx: &Ctx<'_>) -> Fail {
    let name = String::from_utf8_lossy(ctx.arg(1));
    Fail::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLIENT HELP."
    ))
}

/// Updates the shared state of the caller's connection in the middle of a batch.
fn show_self(ctx: &mut Ctx<'_>) {
    debug_assert_eq!(ctx.command.spec.meta.group, Group::Connection);
    let ServerHost { client, server, .. } = ServerHost::of(ctx);
    client.active_at.store(server.uptime_seconds(), Relaxed);
    if let Some(host) = ctx.host.as_any().downcast_ref::<ServerHost>() {
        host.publish(ctx.session, 0, 0);
    }
}
