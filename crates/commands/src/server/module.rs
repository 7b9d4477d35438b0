//! MODULE: there are no modules, and none can be loaded.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::server::help::help;
use crate::spec::{CommandSpec, Locks};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::container(
    &meta::MODULE,
    &[
        CommandSpec::new(&meta::MODULE_HELP, help).locking(Locks::Itself),
        CommandSpec::new(&meta::MODULE_LIST, list).locking(Locks::Itself),
        CommandSpec::new(&meta::MODULE_LOAD, refused).locking(Locks::Itself),
        CommandSpec::new(&meta::MODULE_LOADEX, refused).locking(Locks::Itself),
        CommandSpec::new(&meta::MODULE_UNLOAD, refused).locking(Locks::Itself),
    ],
)];

/// What every command that loads or unloads a module is answered, whatever the configuration
/// allows.
pub const NO_MODULES: Fail =
    Fail::fixed("ERR MODULE command not allowed. This server cannot load modules.");

/// `MODULE LIST`
fn list(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.reply.array(0);
    Ok(())
}

fn refused(_: &mut Ctx<'_>) -> Outcome {
    Err(NO_MODULES)
}
