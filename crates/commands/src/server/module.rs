//! MODULE: none can be loaded; modules with built-in commands are listed.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::redis_version;
use crate::server::help::help;
use crate::spec::{CommandSpec, Locks};
use petrel_resp::Dialect;
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

/// Error of every command that loads or unloads a module, whatever the configuration allows.
pub const NO_MODULES: Fail =
    Fail::fixed("ERR MODULE command not allowed. This server cannot load modules.");

/// Modules of Redis and Valkey with built-in commands, and their versions. Client programs detect
/// the commands by these names.
pub fn built_in_modules(dialect: Dialect) -> [(&'static str, u32); 4] {
    let numbers = redis_version(dialect).split('.').map(|part| part.parse().unwrap_or(0));
    let version = numbers.fold(0, |all: u32, number: u32| 100 * all + number);
    // Modules had versions of their own until Redis 8, and have them in Valkey.
    let json = dialect.choose(("ReJSON", version), ("json", 10_000));
    let [bloom, search] = ["bf", "search"].map(|name| (name, dialect.choose(version, 10_000)));
    [("vectorset", 1), json, bloom, search]
}

/// `MODULE LIST`
fn list(ctx: &mut Ctx<'_>) -> Outcome {
    let modules = built_in_modules(ctx.exec.shared.dialect());
    ctx.reply.array(modules.len());
    for (name, version) in modules {
        ctx.reply.map(4);
        ctx.reply.bulk(b"name");
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.bulk(b"ver");
        ctx.reply.integer(version.into());
        ctx.reply.bulk(b"path");
        ctx.reply.bulk(b"");
        ctx.reply.bulk(b"args");
        ctx.reply.array(0);
    }
    Ok(())
}

fn refused(_: &mut Ctx<'_>) -> Outcome {
    Err(NO_MODULES)
}
