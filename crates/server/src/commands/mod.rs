//! Commands that need the server: connections, configuration, figures.

mod acl;
mod backup;
pub mod client;
mod config;
pub(crate) mod connection;
mod debug;
mod footprint;
mod hotkeys;
pub(crate) mod info;
mod memory;
mod migrate;
mod pubsub;
mod rewrite;
mod save;
mod search_config;
mod shutdown;

use crate::config::{ConfigError, Problem, Rename};
use petrel_commands::{CommandSpec, Registry, Shared};

/// The families of session commands.
pub static FAMILIES: &[&[CommandSpec]] =
    &[connection::COMMANDS, pubsub::COMMANDS, crate::replication::commands::COMMANDS, SERVER];

static SERVER: &[CommandSpec] = &[
    acl::ACL,
    backup::BACKUP,
    client::CLIENT,
    config::CONFIG,
    debug::DEBUG,
    hotkeys::HOTKEYS,
    info::INFO,
    memory::MEMORY,
    migrate::MIGRATE,
    crate::fanout::monitor_feed::MONITOR,
    crate::replication::out::PSYNC,
    crate::replication::out::REPLCONF,
    crate::replication::out::SYNC,
    rewrite::BGREWRITEAOF,
    save::BGSAVE,
    save::LASTSAVE,
    save::SAVE,
    search_config::FT_CONFIG,
    shutdown::SHUTDOWN,
];

/// All commands with their configured names, and the first error in `rename-command` directives.
/// Directives after an invalid one are not applied.
pub fn registry(renames: &[Rename]) -> (Registry, Option<ConfigError>) {
    registry_with(renames, &[])
}

/// Like [`registry`], with the families of a host that embeds the server.
pub fn registry_with(
    renames: &[Rename],
    more: &[&'static [CommandSpec]],
) -> (Registry, Option<ConfigError>) {
    let mut registry = Registry::new(&[petrel_commands::FAMILIES, FAMILIES, more].concat());
    for Rename { location, from, to } in renames {
        if let Err(reason) = registry.rename(from, to) {
            let (location, problem) = (Some(location.clone()), Problem::Rename(reason));
            return (registry, Some(ConfigError { location, problem }));
        }
    }
    (registry, None)
}

/// Returns the first error in `rename-command` directives.
pub fn check_renames(renames: &[Rename]) -> Option<ConfigError> {
    registry(renames).1
}

/// Whether a server loads these libraries of functions from a file.
///
/// # Errors
/// Why not.
pub fn check_libraries(texts: &[Vec<u8>]) -> Result<(), String> {
    let added = Shared::new(registry(&[]).0).add_libraries(texts, false);
    added.map_err(|fail| String::from_utf8_lossy(fail.text()).into_owned())
}
