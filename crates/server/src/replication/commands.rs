//! REPLICAOF, SLAVEOF, ROLE, FAILOVER.

use super::failover::Wanted;
use super::info::shown_offset;
use super::roles::Assigned;
use crate::host::ServerHost;
use petrel_commands::spec::Locks;
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome, integer};
use petrel_table::commands as meta;
use petrel_table::options::{FailoverOption, Reader};

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::REPLICAOF, |ctx| ctx.without_data(replicaof)).locking(Locks::Itself),
    CommandSpec::new(&meta::SLAVEOF, |ctx| ctx.without_data(replicaof)).locking(Locks::Itself),
    CommandSpec::new(&meta::ROLE, |ctx| ctx.without_data(role)).locking(Locks::Itself),
    CommandSpec::new(&meta::FAILOVER, |ctx| ctx.without_data(failover)).locking(Locks::Itself),
];

const INVALID_PORT: Fail = Fail::fixed("ERR Invalid master port");

/// `REPLICAOF <host port | NO ONE>`: <https://redis.io/docs/latest/commands/replicaof/>.
fn replicaof(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.exec.shared.topology.get().is_some() {
        return Err(Fail::fixed("ERR REPLICAOF not allowed in cluster mode."));
    }
    let server = ServerHost::of(ctx).server.clone();
    if server.replication.failover.is_active() {
        return Err(Fail::fixed("ERR REPLICAOF not allowed while failing over."));
    }
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
        Err(error) => Err(Fail::new(format!("ERR cannot start the replication thread: {error}"))),
    }
}

/// `ROLE`: <https://redis.io/docs/latest/commands/role/>.
fn role(ctx: &mut Ctx<'_>) -> Outcome {
    let server = ServerHost::of(ctx).server.clone();
    if !ctx.exec.is_within_script() {
        server.settle_role(&mut ctx.exec.ks);
    }
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

/// Parsed arguments of `FAILOVER`.
#[derive(Debug, Eq, PartialEq)]
enum Request {
    Abort,
    Begin(Wanted),
}

/// `FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]`:
/// <https://redis.io/docs/latest/commands/failover/>.
fn failover(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.exec.shared.topology.get().is_some() {
        return Err(Fail::fixed(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        ));
    }
    let server = ServerHost::of(ctx).server.clone();
    let wanted = match parse(ctx.args())? {
        Request::Begin(wanted) => wanted,
        Request::Abort => {
            let ks = Some(&mut ctx.exec.ks);
            return match server.abort_failover("it was aborted", ks) {
                true => ctx.ok(),
                false => Err(Fail::fixed("ERR No failover in progress.")),
            };
        }
    };
    if server.replication.failover.is_active() {
        return Err(IN_PROGRESS);
    }
    server.settle_role(&mut ctx.exec.ks);
    if server.replication.is_replica() {
        return Err(Fail::fixed("ERR FAILOVER is not valid when server is a replica."));
    }
    let lines = server.outgoing.lines();
    if lines.is_empty() {
        return Err(Fail::fixed("ERR FAILOVER requires connected replicas."));
    }
    if wanted.force && (wanted.timeout_ms.is_none() || wanted.target.is_none()) {
        return Err(Fail::fixed(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ));
    }
    if let Some((host, port)) = &wanted.target {
        let found = lines.iter().find(|line| line.ip == *host && line.port == *port);
        let line =
            found.ok_or(Fail::fixed("ERR FAILOVER target HOST and PORT is not a replica."))?;
        if line.state != "online" {
            return Err(Fail::fixed("ERR FAILOVER target replica is not online."));
        }
    }
    match server.begin_failover(wanted) {
        Ok(true) => ctx.ok(),
        Ok(false) => Err(IN_PROGRESS),
        Err(error) => Err(Fail::new(format!("ERR cannot start the failover thread: {error}"))),
    }
}

const IN_PROGRESS: Fail = Fail::fixed("ERR FAILOVER already in progress.");

fn parse<'a>(args: &'a [&'a [u8]]) -> Result<Request, Fail> {
    let mut wanted = Wanted::default();
    for option in Reader::new(args.get(1..).unwrap_or_default()) {
        match option? {
            FailoverOption::Abort if args.len() == 2 => return Ok(Request::Abort),
            FailoverOption::Timeout(ms) if wanted.timeout_ms.is_none() => {
                let timeout = integer(ms)?;
                if timeout <= 0 {
                    return Err(Fail::fixed("ERR FAILOVER timeout must be greater than 0"));
                }
                wanted.timeout_ms = Some(timeout);
            }
            FailoverOption::To(host, port) if wanted.target.is_none() => {
                let port = u16::try_from(integer(port)?).map_err(|_| INVALID_PORT)?;
                wanted.target = Some((String::from_utf8_lossy(host).into_owned(), port));
            }
            FailoverOption::Force if !wanted.force => wanted.force = true,
            _ => return Err(Fail::SYNTAX),
        }
    }
    Ok(Request::Begin(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_failover() {
        let parsed = |line: &str| parse(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let target = Some(("host".to_owned(), 1));
        let whole = Wanted { target: target.clone(), force: true, timeout_ms: Some(5) };
        assert_eq!(parsed("failover abort"), Ok(Request::Abort));
        assert_eq!(parsed("failover"), Ok(Request::Begin(Wanted::default())));
        for line in ["failover TO host 1 FORCE TIMEOUT 5", "failover force timeout 5 to host 1"] {
            assert_eq!(parsed(line), Ok(Request::Begin(whole.clone())), "{line}");
        }
        for (line, error) in [
            ("failover abort timeout 5", Fail::SYNTAX),
            ("failover to host", Fail::SYNTAX),
            ("failover to host x", Fail::NOT_AN_INTEGER),
            ("failover to host 70000", INVALID_PORT),
            ("failover to a 1 to b 2", Fail::SYNTAX),
            ("failover timeout x", Fail::NOT_AN_INTEGER),
            ("failover timeout", Fail::SYNTAX),
            ("failover x", Fail::SYNTAX),
        ] {
            assert_eq!(parsed(line), Err(error), "{line}");
        }
        assert!(parsed("failover timeout 0 x").is_err());
    }
}
