//! COMMAND and its subcommands, generated from the command table.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::glob::{self, Case};
use crate::long::expect;
use crate::server::help::help;
use crate::spec::{Categories, Command, CommandSpec};
use petrel_table::bits;
use petrel_table::commands as meta;
use petrel_table::keys::{InvalidKeys, KeyRef, key_positions};
use petrel_table::options::CommandListOption;

mod docs;
mod info;
#[cfg(test)]
mod tests;

use info::names;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] =
    &[CommandSpec::with_subcommands(&meta::COMMAND, all_info, SUBCOMMANDS)];

static SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::COMMAND_COUNT, count),
    CommandSpec::new(&meta::COMMAND_DOCS, docs),
    CommandSpec::new(&meta::COMMAND_GETKEYS, getkeys),
    CommandSpec::new(&meta::COMMAND_GETKEYSANDFLAGS, getkeysandflags),
    CommandSpec::new(&meta::COMMAND_HELP, help),
    CommandSpec::new(&meta::COMMAND_INFO, info),
    CommandSpec::new(&meta::COMMAND_LIST, list),
];

/// Units for the description of a command, with its arguments and subcommands.
const UNITS_PER_DESCRIPTION: usize = 800;

const INVALID_COMMAND: Fail = Fail::fixed("ERR Invalid command specified");
const INVALID_COUNT: Fail = Fail::fixed("ERR Invalid number of arguments specified for command");
const INVALID_ARGUMENTS: Fail = Fail::fixed(InvalidKeys::MESSAGE);
const NO_KEYS: Fail = Fail::fixed("ERR The command has no key arguments");

/// `COMMAND`
fn all_info(ctx: &mut Ctx<'_>) -> Outcome {
    let (registry, dialect) = (ctx.exec.registry(), ctx.exec.shared.dialect());
    ctx.reply.array(registry.commands().count());
    for command in registry.commands() {
        info::describe(registry, dialect, command, ctx.reply);
    }
    Ok(())
}

/// `COMMAND COUNT`
fn count(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.reply.integer(ctx.exec.registry().commands().count() as i64);
    Ok(())
}

/// `COMMAND INFO [command-name [command-name ...]]`
fn info(ctx: &mut Ctx<'_>) -> Outcome {
    let wanted = &ctx.args()[2..];
    if wanted.is_empty() {
        return all_info(ctx);
    }
    expect(wanted.len() * UNITS_PER_DESCRIPTION, ctx.exec.units_here)?;
    let (registry, mut pacer) = (ctx.exec.registry(), ctx.exec.pacer());
    let dialect = ctx.exec.shared.dialect();
    ctx.reply.array(wanted.len());
    for name in wanted {
        if ctx.reply.is_dropped() {
            break;
        }
        pacer.pace_reply(UNITS_PER_DESCRIPTION)?;
        match registry.find_full(name) {
            Some(command) => info::describe(registry, dialect, command, ctx.reply),
            None => ctx.reply.null(),
        }
    }
    Ok(())
}

/// `COMMAND DOCS [command-name [command-name ...]]`
fn docs(ctx: &mut Ctx<'_>) -> Outcome {
    let wanted = &ctx.args()[2..];
    expect(wanted.len() * UNITS_PER_DESCRIPTION, ctx.exec.units_here)?;
    let (registry, mut pacer) = (ctx.exec.registry(), ctx.exec.pacer());
    if wanted.is_empty() {
        ctx.reply.map(registry.commands().count());
        for command in registry.commands() {
            docs::describe(registry, command, ctx.reply);
        }
        return Ok(());
    }
    let known = || wanted.iter().filter_map(|name| registry.find_full(name));
    ctx.reply.map(known().count());
    for command in known() {
        if ctx.reply.is_dropped() {
            break;
        }
        pacer.pace_reply(UNITS_PER_DESCRIPTION)?;
        docs::describe(registry, command, ctx.reply);
    }
    Ok(())
}

/// `COMMAND LIST [FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]`
fn list(ctx: &mut Ctx<'_>) -> Outcome {
    let args = ctx.args();
    let filter = match args.len() {
        2 => Filter::All,
        5 => {
            let mut options = ctx.options(2);
            match (options.leading(), options.leading()) {
                (Some(CommandListOption::Filterby), Some(CommandListOption::Module(_))) => {
                    Filter::Nothing
                }
                (Some(CommandListOption::Filterby), Some(CommandListOption::Aclcat(name))) => {
                    Categories::from_name(name).map_or(Filter::Nothing, Filter::Category)
                }
                (Some(CommandListOption::Filterby), Some(CommandListOption::Pattern(pattern))) => {
                    Filter::Pattern(pattern)
                }
                _ => return Err(Fail::SYNTAX),
            }
        }
        _ => return Err(Fail::SYNTAX),
    };

    let registry = ctx.exec.registry();
    let named = registry.all().map(|command| (command, registry.full_name(command.index)));
    let listed: Vec<&str> = named
        .filter(|(command, name)| filter.keeps(*command, name))
        .map(|(_, name)| name)
        .collect();
    ctx.reply.array(listed.len());
    for name in listed {
        ctx.reply.bulk(name.as_bytes());
    }
    Ok(())
}

/// Filter of `COMMAND LIST`.
enum Filter<'a> {
    All,
    /// Commands of a module (there are none), or of an unknown category.
    Nothing,
    Category(Categories),
    Pattern(&'a [u8]),
}

impl Filter<'_> {
    fn keeps(&self, command: Command, full_name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Category(category) => command.spec.meta.categories().contains(*category),
            Self::Pattern(pattern) => {
                glob::matches(pattern, full_name.as_bytes(), Case::Insensitive)
            }
        }
    }
}

/// `COMMAND GETKEYS command [arg [arg ...]]`
fn getkeys(ctx: &mut Ctx<'_>) -> Outcome {
    let call = &ctx.args()[2..];
    let keys = keys_of(ctx, call)?;
    ctx.reply.array(keys.len());
    for key in keys {
        ctx.reply.bulk(call[key.index as usize]);
    }
    Ok(())
}

/// `COMMAND GETKEYSANDFLAGS command [arg [arg ...]]`
fn getkeysandflags(ctx: &mut Ctx<'_>) -> Outcome {
    let call = &ctx.args()[2..];
    let keys = keys_of(ctx, call)?;
    ctx.reply.array(keys.len());
    for key in keys {
        ctx.reply.array(2);
        ctx.reply.bulk(call[key.index as usize]);
        names(ctx.reply, key.flags.names());
    }
    Ok(())
}

/// The keys of a whole call. None are found only where the command allows that.
fn keys_of(ctx: &Ctx<'_>, call: &[&[u8]]) -> Result<Vec<KeyRef>, Fail> {
    let command = ctx.exec.registry().resolve(call).ok_or(INVALID_COMMAND)?;
    let specs = command.spec.meta.keys;
    if specs.iter().all(|spec| spec.flags.contains(bits!(KeyFlags: NOT_KEY))) {
        return Err(NO_KEYS);
    }
    if !command.spec.accepts(call.len()) {
        return Err(INVALID_COUNT);
    }
    let mut keys = Vec::new();
    let found = key_positions(specs, call, &mut keys);
    if found.is_ok() && !keys.is_empty() {
        return Ok(keys);
    }
    if command.spec.flags.contains(bits!(Flags: NO_MANDATORY_KEYS)) {
        return Ok(Vec::new());
    }
    Err(INVALID_ARGUMENTS)
}
