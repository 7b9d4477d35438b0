//! CONFIG.

use crate::config::{Change, Extent, Group, Refusal, RewriteError};
use crate::host::ServerHost;
use crate::lifecycle::start::admit_connections;
use crate::server::Server;
use crate::users;
use petrel_commands::server::help::help;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_table::commands as meta;
use std::sync::Arc;

/// `CONFIG`.
pub const CONFIG: CommandSpec = CommandSpec::container(&meta::CONFIG, SUBCOMMANDS);

static SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::CONFIG_GET, get),
    CommandSpec::new(&meta::CONFIG_SET, |ctx| ctx.without_data(set)),
    CommandSpec::new(&meta::CONFIG_REWRITE, rewrite),
    CommandSpec::new(&meta::CONFIG_RESETSTAT, resetstat),
    CommandSpec::new(&meta::CONFIG_HELP, help),
];

/// `CONFIG GET parameter [parameter ...]`
fn get(ctx: &mut Ctx<'_>) -> Outcome {
    let patterns = &ctx.args()[2..];
    let found = ServerHost::of(ctx).server.config.get(patterns);
    ctx.reply.map(found.len());
    for (name, value) in found {
        ctx.reply.bulk(&name);
        ctx.reply.bulk(&value);
    }
    Ok(())
}

/// `CONFIG SET parameter value [parameter value ...]`
fn set(ctx: &mut Ctx<'_>) -> Outcome {
    let (pairs, rest) = ctx.args()[2..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Fail::SYNTAX);
    }
    let pairs: Vec<_> = pairs.iter().map(|&[name, value]| (name, value)).collect();
    set_parameters(ctx, &pairs)?;
    ctx.ok()
}

/// Sets parameters, all or none.
///
/// # Errors
/// If a value is refused.
pub(super) fn set_parameters(ctx: &mut Ctx<'_>, pairs: &[(&[u8], &[u8])]) -> Outcome {
    let is_amid = ctx.exec.ks.holds_any() || ctx.exec.is_within_script();
    if is_amid && pairs.iter().any(|(name, _)| is_of_log(name)) {
        return Err(Fail::fixed(
            "ERR the log's parameters cannot be changed inside a transaction or a script",
        ));
    }
    let host = ServerHost::of(ctx);
    let (server, is_local) = (host.server.clone(), host.is_local());
    let changed = server.config.set(pairs, is_local, |change| apply(&server, change));
    changed.map_err(|error| Fail::new(error.to_string()))?;
    if !is_amid {
        follow_log(&server, ctx)?;
    }
    let host = ServerHost::of(ctx);
    host.refresh_config();
    let events = host.wanted_events();
    ctx.exec.ks.set_events(events);
    if !ctx.exec.ks.holds_any() {
        // Evict keys beyond a lowered limit at once.
        ctx.exec.make_room(0);
    }
    Ok(())
}

fn is_of_log(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"appendonly") || name.eq_ignore_ascii_case(b"appendfsync")
}

/// Turns the log on or off, or changes when it is synced, as the configuration has it now.
fn follow_log(server: &Arc<Server>, ctx: &mut Ctx<'_>) -> Outcome {
    server.reconfigure_log(&mut ctx.exec.ks).map_err(|why| {
        Fail::new(format!(
            "ERR CONFIG SET failed (possibly related to argument 'appendonly') - {why}"
        ))
    })
}

/// `CONFIG REWRITE`
fn rewrite(ctx: &mut Ctx<'_>) -> Outcome {
    rewrite_file(ctx, Extent::Needed)
}

/// Rewrites the configuration file.
pub fn rewrite_file(ctx: &mut Ctx<'_>, extent: Extent) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let users = users::lines(&server, &server.config.snapshot());
    if let Err(error) = server.config.rewrite(users.as_deref(), extent) {
        match &error {
            // Sentinel asks for it at each failover, whether there is a file or not.
            RewriteError::NoFile => tracing::debug!("there is no configuration file to rewrite"),
            error => tracing::warn!("the configuration file was not rewritten: {error}"),
        }
        return Err(Fail::new(error.to_string()));
    }
    tracing::info!("the configuration file was rewritten");
    ctx.ok()
}

/// `CONFIG RESETSTAT`
fn resetstat(ctx: &mut Ctx<'_>) -> Outcome {
    ServerHost::of(ctx).server.reset_statistics();
    ctx.ok()
}

/// Makes the server act on a change. What can be refused comes first, and is undone if something
/// behind it is refused.
fn apply(server: &Server, change: &Change<'_>) -> Result<(), Refusal> {
    let steps: [Step; 5] =
        [enter_directory, admit_clients, adjust_oom_score, configure_tls, listen];
    for (i, step) in steps.iter().enumerate() {
        if let Err(refusal) = step(server, change) {
            let back = Change { old: change.new, new: change.old, params: change.params };
            for done in &steps[..i] {
                // As it was a moment ago; if that is gone since, the new one is no worse.
                let _ = done(server, &back);
            }
            return Err(refusal);
        }
    }
    if changes(change, "requirepass") {
        let (users, registry) = (&server.commands.users, &server.commands.registry);
        users.set_default_password(registry, change.new.requirepass.bytes());
    }
    if ["loglevel", "log-format", "log-timestamp-format"].iter().any(|name| changes(change, name)) {
        server.process.configure_log(change.new);
    }
    if ["proc-title-template", "bind", "port", "tls-port"].iter().any(|name| changes(change, name))
    {
        server.process.set_title(change.new);
    }
    server.apply(change.new);
    Ok(())
}

type Step = fn(&Server, &Change<'_>) -> Result<(), Refusal>;

fn changes(change: &Change<'_>, name: &str) -> bool {
    change.params.iter().any(|param| param.name == name)
}

fn enter_directory(_: &Server, change: &Change<'_>) -> Result<(), Refusal> {
    if !changes(change, "dir") {
        return Ok(());
    }
    std::env::set_current_dir(&change.new.dir)
        .map_err(|error| Refusal { name: "dir", reason: error.to_string() })
}

fn admit_clients(server: &Server, change: &Change<'_>) -> Result<(), Refusal> {
    if !changes(change, "maxclients") {
        return Ok(());
    }
    admit_connections(server, change.new.maxclients as usize).map_err(|possible| Refusal {
        name: "maxclients",
        reason: format!(
            "The operating system is not able to handle the specified number of clients, try with {possible}"
        ),
    })
}

fn adjust_oom_score(server: &Server, change: &Change<'_>) -> Result<(), Refusal> {
    let names = ["oom-score-adj", "oom-score-adj-values"];
    let Some(name) = names.into_iter().find(|name| changes(change, name)) else { return Ok(()) };
    server.oom_score.apply(change.new).map_err(|error| {
        tracing::warn!("the OOM score was not set: {error}");
        let reason = "Failed to set current oom_score_adj. Check server logs.".into();
        Refusal { name, reason }
    })
}

const NO_PORT: &str = "Unable to listen on this port. Check server logs.";

fn configure_tls(server: &Server, change: &Change<'_>) -> Result<(), Refusal> {
    let Some(changed) = change.params.iter().find(|param| param.group == Group::Tls) else {
        return Ok(());
    };
    server.configure_tls(change.new).map_err(|trouble| {
        tracing::warn!("{trouble}");
        // Name the invalid parameter if it is among the changed ones.
        let at_fault = change.params.iter().find(|param| param.name == trouble.name);
        let name = at_fault.unwrap_or(changed).name;
        Refusal { name, reason: "Unable to update TLS configuration. Check server logs.".into() }
    })
}

fn listen(server: &Server, change: &Change<'_>) -> Result<(), Refusal> {
    let (name, reason) = match () {
        () if changes(change, "bind") => ("bind", "Failed to bind to specified addresses."),
        () if changes(change, "port") => ("port", NO_PORT),
        () if changes(change, "tls-port") => ("tls-port", NO_PORT),
        () => return Ok(()),
    };
    server.listen(change.new).map_err(|error| {
        tracing::warn!("{error}");
        Refusal { name, reason: reason.to_owned() }
    })
}
