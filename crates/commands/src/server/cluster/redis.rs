//! CLUSTER with `cluster-enabled yes`: the subcommands of Redis. Changes of the cluster by hand
//! are rejected with errors that name the equivalent.

use super::{nodes, slot_keys};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::server::help::help_on;
use crate::topology::{ClusterNode, NodeHealth, Topology};
use petrel_keyspace::hash_slot::slot_of;
use petrel_keyspace::parse_int;

const NOT_A_REPLICA: Fail = Fail::fixed(
    "ERR You should send CLUSTER FAILOVER to a replica. No node is one here: SHUTDOWN hands the hash slots of a node \
     over, and a failed node is replaced by itself",
);

const NO_MEET: Fail = Fail::fixed(
    "ERR CLUSTER MEET cannot add that node: start its server with cluster-join and the bus address of a member",
);

const HAS_KEYS: Fail =
    Fail::fixed("ERR CLUSTER RESET can't be called with master nodes containing keys");

const NO_RESET: Fail = Fail::fixed(
    "ERR CLUSTER RESET is not supported: stop the server, and remove the directory cluster from its working directory",
);

/// Executes a subcommand.
pub(super) fn subcommand(ctx: &mut Ctx<'_>, topology: &dyn Topology) -> Outcome {
    match ctx.command.spec.meta.name {
        "slots" => nodes::slots(ctx, topology),
        "shards" => nodes::shards(ctx, topology),
        "nodes" => nodes::nodes(ctx, topology),
        "info" => ctx.reply.verbatim(b"txt", topology.info().as_bytes()),
        "myid" => ctx.reply.bulk(own(topology)?.id.as_bytes()),
        "myshardid" => ctx.reply.bulk(own(topology)?.shard_id().as_bytes()),
        "keyslot" => ctx.reply.integer(slot_of(ctx.arg(2)).into()),
        "countkeysinslot" => return slot_keys::count(ctx),
        "getkeysinslot" => return slot_keys::list(ctx),
        "slot-stats" => return slot_keys::statistics(ctx, topology),
        "links" => {
            let cluster = ctx.exec.shared.cluster.get().cloned();
            nodes::links(&cluster.map_or_else(Vec::new, |cluster| cluster.links()), ctx.reply);
        }
        "replicas" | "slaves" => {
            find(topology, ctx.arg(2))?;
            ctx.reply.array(0);
        }
        "count-failure-reports" => {
            let has_failed = find(topology, ctx.arg(2))?.health == NodeHealth::Failed;
            ctx.reply.integer(has_failed.into());
        }
        "help" => return help_on(ctx, |name| !is_by_hand(name)),
        _ => return change(ctx, topology),
    }
    Ok(())
}

/// Executes a subcommand that changes the cluster.
fn change(ctx: &mut Ctx<'_>, topology: &dyn Topology) -> Outcome {
    match ctx.command.spec.meta.name {
        "forget" => topology.forget(ctx.arg(2))?,
        "failover" => fail_over(ctx)?,
        "meet" => meet(ctx, topology)?,
        "reset" => return reset(ctx),
        // Every change of the cluster is stored before it takes effect.
        "saveconfig" => {}
        "bumpepoch" => {
            ctx.reply.simple(&format!("STILL {}", topology.epoch()));
            return Ok(());
        }
        name => {
            let name = name.to_ascii_uppercase();
            return Err(Fail::new(format!(
                "ERR CLUSTER {name} is not supported: the nodes assign the hash slots by themselves"
            )));
        }
    }
    ctx.ok()
}

/// Whether a subcommand assigns hash slots by hand, or makes replicas.
fn is_by_hand(name: &str) -> bool {
    const NAMES: [&str; 15] = [
        "addslots",
        "addslotsrange",
        "cancelslotmigrations",
        "delslots",
        "delslotsrange",
        "flushslot",
        "flushslots",
        "getslotmigrations",
        "migrateslots",
        "migration",
        "replicate",
        "reset",
        "set-config-epoch",
        "setslot",
        "syncslots",
    ];
    NAMES.contains(&name)
}

fn own(topology: &dyn Topology) -> Result<ClusterNode, Fail> {
    let own = topology.nodes().into_iter().find(|node| node.is_me);
    own.ok_or(Fail::fixed("ERR This node owns no hash slots: it is a witness, or not admitted yet"))
}

fn find(topology: &dyn Topology, id: &[u8]) -> Result<ClusterNode, Fail> {
    let found = topology.nodes().into_iter().find(|node| node.id.as_bytes() == id);
    found.ok_or_else(|| Fail::new([b"ERR Unknown node ", id].concat()))
}

/// `CLUSTER FAILOVER [FORCE | TAKEOVER]`
fn fail_over(ctx: &mut Ctx<'_>) -> Outcome {
    match ctx.args()[2..] {
        [] => Err(NOT_A_REPLICA),
        [option] if option.eq_ignore_ascii_case(b"force") => Err(NOT_A_REPLICA),
        [option] if option.eq_ignore_ascii_case(b"takeover") => {
            let cluster = ctx.exec.shared.cluster.get().cloned();
            cluster.ok_or(NOT_A_REPLICA)?.take_over()
        }
        _ => Err(Fail::SYNTAX),
    }
}

/// `CLUSTER MEET ip port [cluster-bus-port]`: does nothing if that node is a member already.
fn meet(ctx: &mut Ctx<'_>, topology: &dyn Topology) -> Outcome {
    let invalid = |what: &str, arg: &[u8]| {
        let arg = String::from_utf8_lossy(arg);
        Fail::new(format!("ERR Invalid {what} port specified: {arg}"))
    };
    let (host, port) = (ctx.arg(2), ctx.arg(3));
    let number = parse_int(port).ok_or_else(|| invalid("base", port))?;
    if let Some(&bus) = ctx.args().get(4) {
        parse_int(bus).ok_or_else(|| invalid("bus", bus))?;
    }
    let Ok(number) = u16::try_from(number) else {
        let host = String::from_utf8_lossy(host);
        return Err(Fail::new(format!("ERR Invalid node address specified: {host}:{number}")));
    };
    let viewer = ctx.host.viewer();
    let is_there = |node: &ClusterNode| {
        let has_host = node.ip_for(&viewer).as_bytes() == host || node.hostname.as_bytes() == host;
        has_host && [node.port, node.tls_port].contains(&number)
    };
    if topology.nodes().iter().any(is_there) { Ok(()) } else { Err(NO_MEET) }
}

/// `CLUSTER RESET [HARD | SOFT]`
fn reset(ctx: &mut Ctx<'_>) -> Outcome {
    match ctx.args()[2..] {
        [] => {}
        [kind] if kind.eq_ignore_ascii_case(b"hard") || kind.eq_ignore_ascii_case(b"soft") => {}
        _ => return Err(Fail::SYNTAX),
    }
    let keyspace = ctx.exec.ks.keyspace();
    let has_keys = (0..keyspace.databases()).any(|db| keyspace.db_stats(db).keys > 0);
    Err(if has_keys { HAS_KEYS } else { NO_RESET })
}
