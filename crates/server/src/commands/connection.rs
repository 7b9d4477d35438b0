//! The connection itself: PING, ECHO, HELLO, AUTH, QUIT, RESET, SELECT, READONLY, READWRITE.

use crate::client::Flag;
use crate::host::ServerHost;
use petrel_commands::acl::{DEFAULT_USER, DenialKind};
use petrel_commands::aux_state::NamedForm;
use petrel_commands::spec::Locks;
use petrel_commands::{
    CommandSpec, Ctx, Dialect, Fail, Modes, Outcome, Replies, VALKEY_VERSION, redis_version,
    transactions,
};
use petrel_keyspace::custom::number::Malformed;
use petrel_persistence::effects::hidden_aux;
use petrel_resp::Protocol;
use petrel_table::commands as meta;
use petrel_table::options::HelloOption;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::PING, ping),
    CommandSpec::new(&meta::ECHO, echo),
    CommandSpec::new(&meta::HELLO, hello),
    CommandSpec::new(&meta::AUTH, auth),
    CommandSpec::new(&meta::QUIT, quit),
    CommandSpec::new(&meta::RESET, reset).locking(Locks::Itself),
    CommandSpec::new(&meta::SELECT, select),
    CommandSpec::new(&meta::READONLY, readonly).locking(Locks::Itself),
    CommandSpec::new(&meta::READWRITE, readwrite).locking(Locks::Itself),
];

/// Milliseconds between two warnings about failed attempts to log in.
const LOGIN_WARNING_MS: i64 = 1000;

/// `PING [message]`
fn ping(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.session.is(Modes::SUBSCRIBER) && ctx.session.protocol == Protocol::Resp2 {
        return ping_as_message(ctx);
    }
    match ctx.args().len() {
        1 => ctx.reply.simple("PONG"),
        2 => ctx.reply.bulk(ctx.request.args[1]),
        _ => return Err(Fail::fixed("ERR wrong number of arguments for 'ping' command")),
    }
    Ok(())
}

/// A subscriber's PING, in the form of a message.
fn ping_as_message(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len() > 2 {
        return Err(ctx.wrong_arity());
    }
    ctx.reply.array(2);
    ctx.reply.bulk(b"pong");
    ctx.reply.bulk(ctx.request.args.get(1).copied().unwrap_or_default());
    Ok(())
}

/// `ECHO message`
fn echo(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.session.is(Modes::EFFECTS)
        && let Some(hidden) = hidden_aux(ctx.arg(1))
    {
        return load_hidden(ctx, hidden);
    }
    ctx.reply.bulk(ctx.request.args[1]);
    Ok(())
}

/// Replaces auxiliary state by that in an argument of a primary's stream.
#[cold]
fn load_hidden(ctx: &mut Ctx<'_>, hidden: Result<NamedForm, Malformed>) -> Outcome {
    let (name, form) = hidden.map_err(|_| Fail::fixed("ERR the bytes are no effects"))?;
    let exec = &mut *ctx.exec;
    let loaded = exec.shared.load_aux(&name, &form);
    loaded.map_err(|error| Fail::new(format!("ERR {error}")))?;
    exec.shared.record_aux(&mut exec.ks, &name);
    ctx.ok()
}

/// `SELECT index`
fn select(ctx: &mut Ctx<'_>) -> Outcome {
    let db = ctx.database(ctx.arg(1));
    if ctx.session.is(Modes::CLUSTER_CLIENT)
        && (db == Err(Fail::DB_OUT_OF_RANGE) || db.as_ref().is_ok_and(|db| *db != 0))
    {
        return Err(Fail::fixed("ERR SELECT is not allowed in cluster mode"));
    }
    ctx.session.db = db?;
    ctx.ok()
}

/// `READONLY`
fn readonly(ctx: &mut Ctx<'_>) -> Outcome {
    read_from_replicas(ctx, true)
}

/// `READWRITE`
fn readwrite(ctx: &mut Ctx<'_>) -> Outcome {
    read_from_replicas(ctx, false)
}

/// For clients of Redis Cluster: whether they read slots of which this node is a backup. Otherwise
/// there are no replicas to read from: Redis refuses to say that they will do,
/// Valkey notes it.
fn read_from_replicas(ctx: &mut Ctx<'_>, on: bool) -> Outcome {
    if ctx.session.is(Modes::CLUSTER_CLIENT) {
        ctx.session.set(Modes::READS_BACKUPS, on);
    } else if ctx.dialect() == Dialect::Redis {
        return Err(Fail::NO_CLUSTER);
    }
    ServerHost::of(ctx).client.set(Flag::ReadOnly, on);
    ctx.ok()
}

/// `QUIT`
fn quit(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.session.close = true;
    ctx.ok()
}

/// `RESET`
fn reset(ctx: &mut Ctx<'_>) -> Outcome {
    transactions::abandon(ctx.exec, ctx.session);
    let host = ServerHost::of(ctx);
    let authenticated = host.server.commands.users.are_open();
    let (server, client) = (host.server.clone(), host.client.clone());
    server.remove_monitor(&client);
    let grown = host.forget_subscriber(&client);
    server.trackers.untrack(&server.keyspace, &client, ctx.session);
    ctx.exec.ks.count_foreign(grown);
    ctx.exec.ks.count_foreign(-(client.label_bytes() as i64));
    client.unname();
    ctx.exec.ks.count_foreign(client.label_bytes() as i64);
    client.show_user(None);
    client.set(Flag::NoEvict, false);
    client.set(Flag::NoTouch, false);
    client.set(Flag::Importer, false);
    client.set(Flag::ReadOnly, false);
    client.set(Flag::Authenticated, authenticated);
    client.set(Flag::Resp3, false);
    let session = &mut ctx.session;
    session.db = 0;
    session.protocol = Protocol::Resp2;
    session.log_out();
    if authenticated {
        session.become_user(None);
    }
    // RESET keeps the client's capabilities.
    let kept = [Modes::REDIRECTABLE, Modes::CLUSTER_CLIENT].map(|mode| (mode, session.is(mode)));
    session.modes = Modes::NONE;
    kept.into_iter().for_each(|(mode, on)| session.set(mode, on));
    session.replies = Replies::On;
    session.set_imports(false);
    session.take_fieldsets();
    ctx.reply.set_protocol(Protocol::Resp2);
    ctx.reply.simple("RESET");
    Ok(())
}

/// `AUTH [username] password`
fn auth(ctx: &mut Ctx<'_>) -> Outcome {
    let (user, password) = match *ctx.args() {
        [_, password] => (DEFAULT_USER, password),
        [_, user, password] => (user, password),
        _ => return Err(Fail::SYNTAX),
    };
    let default = ctx.exec.shared.users.default_user();
    if ctx.args().len() == 2 && default.permissions().need_no_password() {
        return Err(Fail::fixed(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        ));
    }
    authenticate(ctx, user, password)?;
    ctx.ok()
}

fn authenticate(ctx: &mut Ctx<'_>, name: &[u8], password: &[u8]) -> Outcome {
    let Some(user) = ctx.exec.shared.users.authenticate(name, password) else {
        return Err(refuse_login(ctx, name));
    };
    let user = Some(user).filter(|user| user.name() != DEFAULT_USER);
    let client = ServerHost::of(ctx).client.clone();
    client.set(Flag::Authenticated, true);
    client.set(Flag::LoggedIn, true);
    client.show_user(user.clone());
    ctx.session.become_user(user);
    Ok(())
}

/// Counts and logs a failed attempt to log in; of many in a second the server's log tells one.
#[cold]
fn refuse_login(ctx: &mut Ctx<'_>, name: &[u8]) -> Fail {
    let (object, now) = (ctx.arg(0).to_vec(), ctx.exec.ks.now_ms());
    ctx.exec.note_refusal(DenialKind::Login, object, name, ctx.session, ctx.host);
    let host = ServerHost::of(ctx);
    if let Some(suppressed) = host.server.figures.failed_logins.happened(now, LOGIN_WARNING_MS) {
        let address = host.client.address(&host.socket_path());
        tracing::warn!("login failed for a client at {address}{suppressed}");
    }
    Fail::fixed("WRONGPASS invalid username-password pair or user is disabled.")
}

/// `HELLO [protover [AUTH username password] [SETNAME clientname]]`
fn hello(ctx: &mut Ctx<'_>) -> Outcome {
    let protocol = match ctx.args().get(1) {
        None => ctx.session.protocol,
        Some(_) => match ctx.integer(1) {
            Ok(2) => Protocol::Resp2,
            Ok(3) => Protocol::Resp3,
            Ok(_) => return Err(Fail::fixed("NOPROTO unsupported protocol version")),
            Err(_) => {
                return Err(Fail::fixed("ERR Protocol version is not an integer or out of range"));
            }
        },
    };
    let (mut credentials, mut name) = (None, None);
    for option in ctx.options(2) {
        match option {
            Ok(HelloOption::Auth(user, password)) => credentials = Some((user, password)),
            Ok(HelloOption::Setname(label)) => {
                super::client::check_label("Client names", label)?;
                name = Some(label);
            }
            Err(unread) => {
                let option = String::from_utf8_lossy(unread.word());
                return Err(Fail::new(format!("ERR Syntax error in HELLO option '{option}'")));
            }
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(ctx, user, password)?;
    }
    if !ctx.session.is_authenticated() {
        return Err(Fail::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time",
        ));
    }
    if let Some(name) = name {
        super::client::relabel(ctx, |labels| labels.name = name.to_vec());
    }
    let client = ServerHost::of(ctx).client.clone();
    client.set(Flag::Resp3, protocol == Protocol::Resp3);
    ctx.session.protocol = protocol;
    ctx.reply.set_protocol(protocol);
    introduce(ctx, protocol);
    Ok(())
}

fn introduce(ctx: &mut Ctx<'_>, protocol: Protocol) {
    let (dialect, identity) = (ctx.dialect(), ctx.exec.shared.identity());
    let (name, version) =
        identity.choose(("redis", redis_version(dialect)), ("valkey", VALKEY_VERSION));
    let host = ServerHost::of(ctx);
    let id = host.client.id;
    let role = if host.server.replication.is_replica() { "replica" } else { "master" };
    let zone = host.config.availability_zone.lossy().into_owned();
    let shows_zone = dialect.is_valkey() && !zone.is_empty();
    let reply = &mut ctx.reply;
    reply.map(7 + usize::from(shows_zone));
    for (field, value) in [("server", name), ("version", version)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(id as i64);
    let is_cluster_client = ctx.session.is(Modes::CLUSTER_CLIENT);
    let mode = if is_cluster_client { "cluster" } else { "standalone" };
    for (field, value) in [("mode", mode), ("role", role)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    if shows_zone {
        reply.bulk(b"availability_zone");
        reply.bulk(zone.as_bytes());
    }
}
