//! REPLICAOF, SLAVEOF, ROLE.

use super::info::shown_offset;
use super::roles::Assigned;
use crate::host::ServerHost;
use petrel_commands::spec::Locks;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::REPLICAOF, replicaof).locking(Locks::Itself),
    CommandSpec::new(&meta::SLAVEOF, replicaof).locking(Locks::Itself),
    CommandSpec::new(&meta::ROLE, role).locking(Locks::Itself),
];

const INVALID_PORT: Fail = Fail::fixed("ERR Invalid master port");

/// `REPLICAOF <host port | NO ONE>`: <https://redis.io/docs/latest/commands/replicaof/>.
fn replicaof(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let primary = if ctx.is(1, "NO") && ctx.is(2, "ONE") {
        None
    } else {
        let port = ctx.integer(2).ok().and_then(|port| u16::try_from(port).ok());
        let port = port.ok_or(INVALID_PORT)?;
        Some((String::from_utf8_lossy(ctx.arg(1)).into_owned(), port))
    };
    let is_following = primary.is_some();
    let followed = server.follow(primary, &mut ctx.exec.ks);
    match followed {
        Ok(Assigned::Unchanged) if is_following => {
            ctx.reply.simple("OK Already connected to specified master");
            Ok(())
        }
        Ok(_) => ctx.ok(),
        Err(error) => {
            Err(Fail::new(format!("ERR the system allows no thread to follow a primary: {error}")))
        }
    }
}

/// `ROLE`: <https://redis.io/docs/latest/commands/role/>.
fn role(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    let replication = &server.replication;
    match replication.primary().filter(|_| replication.is_replica()) {
        Some((host, port)) => {
            let state = replication.link.state();
            ctx.reply.array(5);
            ctx.reply.bulk(b"slave");
            ctx.reply.bulk(host.as_bytes());
            ctx.reply.integer(i64::from(port));
            ctx.reply.bulk(state.word().as_bytes());
            ctx.reply.integer(shown_offset(replication));
        }
        None => {
            ctx.reply.array(3);
            ctx.reply.bulk(b"master");
            ctx.reply.integer(replication.offset());
            let lines = server.outgoing.lines();
            let online = || lines.iter().filter(|line| line.state == "online");
            ctx.reply.array(online().count());
            for line in online() {
                ctx.reply.array(3);
                ctx.reply.bulk(line.ip.as_bytes());
                ctx.reply.bulk(line.port.to_string().as_bytes());
                ctx.reply.bulk(line.offset.to_string().as_bytes());
            }
        }
    }
    Ok(())
}
