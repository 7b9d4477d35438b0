//! CLUSTER, ASKING, CLUSTERSCAN: information on the cluster, and the replies of a server outside of
//! any cluster.

mod nodes;
mod redis;
mod slot_keys;

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::modes::Modes;
use crate::server::help::help_on;
use crate::spec::{CommandSpec, Locks};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::container(&meta::CLUSTER, &SUBCOMMANDS),
    CommandSpec::new(&meta::CLUSTERSCAN, disabled).locking(Locks::Itself),
    CommandSpec::new(&meta::ASKING, asking).locking(Locks::Itself),
];

static SUBCOMMANDS: [CommandSpec; meta::CLUSTER_SUBCOMMANDS.len()] = {
    let mut specs = [const { CommandSpec::new(&meta::CLUSTER_SUBCOMMANDS[0], subcommand) };
        meta::CLUSTER_SUBCOMMANDS.len()];
    let mut i = 0;
    while i < specs.len() {
        specs[i] =
            CommandSpec::new(&meta::CLUSTER_SUBCOMMANDS[i], subcommand).locking(Locks::Itself);
        i += 1;
    }
    specs
};

/// Subcommands that a member of a cluster answers; slots are placed by the cluster itself.
const SERVED: [&str; 7] = ["failover", "forget", "info", "keyslot", "links", "myid", "nodes"];

/// `ASKING`. Hash slots move without `-ASK`: the primary serves a slot until the next one does.
fn asking(ctx: &mut Ctx<'_>) -> Outcome {
    match ctx.session.is(Modes::CLUSTER_CLIENT) {
        true => ctx.ok(),
        false => Err(Fail::NO_CLUSTER),
    }
}

fn disabled(_: &mut Ctx<'_>) -> Outcome {
    Err(Fail::NO_CLUSTER)
}

/// Error of `CLUSTER FAILOVER` without `TAKEOVER`.
const ONLY_TAKEOVER: Fail = Fail::fixed(
    "ERR CLUSTER FAILOVER needs TAKEOVER here: a primary that has failed is replaced without it",
);

/// `CLUSTER FAILOVER`, `FORGET`, `HELP`, `INFO`, `KEYSLOT`, `LINKS`, `MYID` and `NODES`.
fn subcommand(ctx: &mut Ctx<'_>) -> Outcome {
    if let Some(topology) = ctx.exec.shared.topology.get().cloned() {
        return redis::subcommand(ctx, &*topology);
    }
    let Some(cluster) = ctx.exec.shared.cluster.get().cloned() else { return disabled(ctx) };
    match ctx.command.spec.meta.name {
        "help" => return help_on(ctx, |name| SERVED.contains(&name)),
        "failover" => {
            match ctx.args()[2..] {
                [] => return Err(ONLY_TAKEOVER),
                [option] if option.eq_ignore_ascii_case(b"force") => return Err(ONLY_TAKEOVER),
                [option] if option.eq_ignore_ascii_case(b"takeover") => cluster.take_over()?,
                _ => return Err(Fail::SYNTAX),
            }
            return ctx.ok();
        }
        "forget" => {
            cluster.forget(ctx.arg(2))?;
            return ctx.ok();
        }
        "info" => ctx.reply.verbatim(b"txt", cluster.info().as_bytes()),
        "keyslot" => ctx.reply.integer(cluster.slot_of(ctx.arg(2)).into()),
        "links" => nodes::links(&cluster.links(), ctx.reply),
        "myid" => ctx.reply.bulk(cluster.id().as_bytes()),
        "nodes" => ctx.reply.verbatim(b"txt", cluster.nodes().as_bytes()),
        name => {
            let name = name.to_ascii_uppercase();
            return Err(Fail::new(format!("ERR CLUSTER {name} is not supported")));
        }
    }
    Ok(())
}
