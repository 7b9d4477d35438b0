//! Commands that need the server: connections, configuration, figures.

mod acl;
pub mod client;
mod config;
pub(crate) mod connection;
mod debug;
mod footprint;
pub(crate) mod info;
mod memory;
mod migrate;
mod pubsub;
mod save;
mod shutdown;

use petrel_commands::CommandSpec;

/// The families of session commands.
pub static FAMILIES: &[&[CommandSpec]] = &[connection::COMMANDS, pubsub::COMMANDS, SERVER];

static SERVER: &[CommandSpec] = &[
    acl::ACL,
    client::CLIENT,
    config::CONFIG,
    debug::DEBUG,
    info::INFO,
    memory::MEMORY,
    migrate::MIGRATE,
    crate::monitor::MONITOR,
    save::LASTSAVE,
    save::SAVE,
    shutdown::SHUTDOWN,
];
