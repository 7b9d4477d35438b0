//! ACL: users, their rules, and the log of refused commands.

mod log;

use crate::fanout::reply_when_reviewed;
use crate::host::ServerHost;
use crate::users;
use petrel_commands::acl::{Call, Denial, Reason, Selector, SetError, User, join_selectors};
use petrel_commands::server::help::help;
use petrel_commands::spec::{Categories, Locks};
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_resp::Reply;
use petrel_table::commands as meta;
use std::sync::Arc;

/// `ACL`.
pub const ACL: CommandSpec = CommandSpec::container(&meta::ACL, SUBCOMMANDS);

static SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::ACL_CAT, cat),
    CommandSpec::new(&meta::ACL_DELUSER, deluser),
    CommandSpec::new(&meta::ACL_DRYRUN, dryrun),
    CommandSpec::new(&meta::ACL_GETUSER, getuser),
    CommandSpec::new(&meta::ACL_GENPASS, genpass),
    CommandSpec::new(&meta::ACL_LIST, list),
    CommandSpec::new(&meta::ACL_LOAD, load).locking(Locks::Itself),
    CommandSpec::new(&meta::ACL_LOG, log::log),
    CommandSpec::new(&meta::ACL_SAVE, save).locking(Locks::Itself),
    CommandSpec::new(&meta::ACL_SETUSER, setuser),
    CommandSpec::new(&meta::ACL_USERS, users),
    CommandSpec::new(&meta::ACL_WHOAMI, whoami),
    CommandSpec::new(&meta::ACL_HELP, help),
];

/// Default and maximum number of bits of a password drawn by `GENPASS`.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

/// `ACL CAT [category]`
fn cat(ctx: &mut Ctx<'_>) -> Outcome {
    let names: Vec<String> = match *ctx.args() {
        [_, _] => Categories::FULL.names().map(str::to_owned).collect(),
        [_, _, name] => {
            let category = Categories::from_name(name)
                .ok_or_else(|| quoting("ERR Unknown category '", name, "'"))?;
            let registry = ctx.exec.registry();
            let members =
                registry.all().filter(|one| one.spec.meta.categories().contains(category));
            members.map(|member| registry.full_name(member.index).to_owned()).collect()
        }
        _ => return Err(malformed(ctx)),
    };
    ctx.reply.array(names.len());
    names.iter().for_each(|name| ctx.reply.bulk(name.as_bytes()));
    Ok(())
}

/// `ACL WHOAMI`
fn whoami(ctx: &mut Ctx<'_>) -> Outcome {
    let name = ctx.exec.user(ctx.session).map(|user| user.name().to_vec());
    ctx.reply.bulk(&name.unwrap_or_default());
    Ok(())
}

/// `ACL USERS`
fn users(ctx: &mut Ctx<'_>) -> Outcome {
    let users = ctx.exec.shared.users.all();
    ctx.reply.array(users.len());
    users.iter().for_each(|user| ctx.reply.bulk(user.name()));
    Ok(())
}

/// `ACL LIST`
fn list(ctx: &mut Ctx<'_>) -> Outcome {
    let users = ctx.exec.shared.users.all();
    ctx.reply.array(users.len());
    let dialect = ctx.dialect();
    let line = |user: &User| user.permissions().line(user.name(), dialect);
    users.iter().for_each(|user| ctx.reply.bulk(&line(user)));
    Ok(())
}

/// `ACL GETUSER username`
fn getuser(ctx: &mut Ctx<'_>) -> Outcome {
    let Some(user) = ctx.exec.shared.users.find(ctx.arg(2)) else {
        ctx.reply.null();
        return Ok(());
    };
    let permissions = user.permissions();
    let dialect = ctx.dialect();
    let reply = &mut *ctx.reply;
    // Redis's fields, and one for permissions that Redis does not have.
    let with_databases = dialect.is_valkey()
        || permissions.all_selectors().any(|selector| selector.is_restricted_to_databases());
    reply.map(6 + usize::from(with_databases));
    reply.bulk(b"flags");
    let flags = permissions.flags(dialect);
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(permissions.passwords().len());
    permissions.passwords().iter().for_each(|hash| reply.bulk(hash.hex().as_bytes()));
    write_selector(reply, permissions.root(), with_databases);
    reply.bulk(b"selectors");
    reply.array(permissions.selectors().len());
    for selector in permissions.selectors() {
        reply.map(3 + usize::from(with_databases));
        write_selector(reply, selector, with_databases);
    }
    Ok(())
}

/// Three or four fields of a map.
fn write_selector(reply: &mut dyn Reply, selector: &Selector, with_databases: bool) {
    let fields: [(&[u8], Vec<u8>); 4] = [
        (b"commands", selector.commands_text().into_bytes()),
        (b"keys", selector.keys_text()),
        (b"channels", selector.channels_text()),
        (b"databases", selector.databases_text().into_bytes()),
    ];
    for (name, value) in fields.into_iter().take(3 + usize::from(with_databases)) {
        reply.bulk(name);
        reply.bulk(&value);
    }
}

/// `ACL SETUSER username [rule [rule ...]]`
fn setuser(ctx: &mut Ctx<'_>) -> Outcome {
    let args = ctx.args();
    let rules = join_selectors(&args[3..]).map_err(|open| {
        quoting("ERR Unmatched parenthesis in acl selector starting at '", open, "'.")
    })?;
    let shared = ctx.exec.shared.clone();
    let set = shared.users.set(&shared.registry, args[2], &rules);
    let user = set.map_err(|error| match error {
        SetError::Rule(i, error) => {
            let reason = format!("': {}", error.text());
            quoting("ERR Error in ACL SETUSER modifier '", &rules[i], &reason)
        }
        SetError::Name => Fail::fixed("ERR Usernames can't contain spaces or null characters"),
        SetError::TooMany => Fail::fixed("ERR too many users"),
    })?;
    reply_when_reviewed(ctx, vec![user])
}

/// `ACL DELUSER username [username ...]`
fn deluser(ctx: &mut Ctx<'_>) -> Outcome {
    let names = &ctx.args()[2..];
    if names.contains(&petrel_commands::acl::DEFAULT_USER) {
        return Err(Fail::fixed("ERR The 'default' user cannot be removed"));
    }
    let shared = ctx.exec.shared.clone();
    let removed: Vec<Arc<User>> =
        names.iter().filter_map(|name| shared.users.remove(&shared.registry, name)).collect();
    close_connections(ctx, &removed);
    ctx.number(removed.len() as i64)
}

/// `ACL LOAD`
fn load(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let change = users::load(&server)?;
    close_connections(ctx, &change.removed);
    reply_when_reviewed(ctx, change.changed)
}

/// `ACL SAVE`
fn save(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    users::save(&server)?;
    ctx.ok()
}

/// `ACL DRYRUN username command [arg [arg ...]]`
fn dryrun(ctx: &mut Ctx<'_>) -> Outcome {
    let (name, args) = (ctx.arg(2), &ctx.args()[3..]);
    let user = ctx.exec.shared.users.find(name);
    let user = user.ok_or_else(|| quoting("ERR User '", name, "' not found"))?;
    let registry = ctx.exec.registry();
    let command = registry.resolve(args);
    let command = command.ok_or_else(|| quoting("ERR Command '", args[0], "' not found"))?;
    if !command.spec.accepts(args.len()) {
        return Err(Fail::new(registry.arity_error(command.index)));
    }
    let databases = ctx.exec.ks.keyspace().databases();
    let call = Call { command, args, db: ctx.db(), databases };
    match user.permissions().check(&call) {
        Ok(()) => ctx.reply.simple("OK"),
        Err(denial) => {
            let full_name = registry.full_name(command.index).to_owned();
            ctx.reply.bulk(&explain(denial, name, args, &full_name));
        }
    }
    Ok(())
}

fn explain(denial: Denial, user: &[u8], args: &[&[u8]], full_name: &str) -> Vec<u8> {
    let object = args[denial.index];
    let (what, object, end): (&[u8], &[u8], &[u8]) = match denial.reason {
        Reason::Command => (b"run the '", full_name.as_bytes(), b"' command"),
        Reason::Key => (b"access the '", object, b"' key"),
        Reason::Channel => (b"access the '", object, b"' channel"),
        Reason::Database => (b"access database ", object, b""),
    };
    [b"User ", user, b" has no permissions to ", what, object, end].concat()
}

/// `ACL GENPASS [bits]`
fn genpass(ctx: &mut Ctx<'_>) -> Outcome {
    let bits = match ctx.args().len() {
        2 => PASSWORD_BITS,
        3 => ctx.integer(2)?,
        _ => return Err(malformed(ctx)),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(Fail::new(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {PASSWORD_BITS_MAX}"
        )));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    getrandom::fill(&mut bytes).map_err(|error| {
        Fail::new(format!("ERR cannot get random numbers from the system: {error}"))
    })?;
    let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    ctx.reply.bulk(&password.as_bytes()[..digits]);
    Ok(())
}

/// Closes the connections of users that are gone, the caller's once it has its reply.
fn close_connections(ctx: &mut Ctx<'_>, removed: &[Arc<User>]) {
    if removed.is_empty() {
        return;
    }
    let host = ServerHost::of(ctx);
    let (server, caller) = (host.server.clone(), host.client.id);
    let is_gone = |user: Option<Arc<User>>| {
        user.is_some_and(|user| removed.iter().any(|gone| Arc::ptr_eq(gone, &user)))
    };
    for client in server.clients() {
        if !is_gone(client.user()) {
            continue;
        }
        if client.id == caller {
            ctx.session.close = true;
        } else {
            server.kill(&client);
        }
    }
}

fn malformed(ctx: &Ctx<'_>) -> Fail {
    quoting(
        "ERR unknown subcommand or wrong number of arguments for '",
        ctx.arg(1),
        "'. Try ACL HELP.",
    )
}

fn quoting(before: &str, quoted: &[u8], behind: &str) -> Fail {
    Fail::new([before.as_bytes(), quoted, behind.as_bytes()].concat())
}
