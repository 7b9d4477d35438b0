//! CLUSTER, ASKING, CLUSTERSCAN: the answers of a server whose cluster mode is off.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::{CommandSpec, Locks};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::container(&meta::CLUSTER, &SUBCOMMANDS),
    CommandSpec::new(&meta::CLUSTERSCAN, disabled).locking(Locks::Itself),
    CommandSpec::new(&meta::ASKING, disabled).locking(Locks::Itself),
];

static SUBCOMMANDS: [CommandSpec; meta::CLUSTER_SUBCOMMANDS.len()] = {
    let mut specs = [const { CommandSpec::new(&meta::CLUSTER_SUBCOMMANDS[0], disabled) };
        meta::CLUSTER_SUBCOMMANDS.len()];
    let mut i = 0;
    while i < specs.len() {
        specs[i] = CommandSpec::new(&meta::CLUSTER_SUBCOMMANDS[i], disabled).locking(Locks::Itself);
        i += 1;
    }
    specs
};

fn disabled(_: &mut Ctx<'_>) -> Outcome {
    Err(Fail::NO_CLUSTER)
}
