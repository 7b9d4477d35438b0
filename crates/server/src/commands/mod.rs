//! Commands that need the server: connections, configuration, figures.

mod client;
mod config;
mod connection;
mod footprint;
mod info;
mod memory;

use petrel_commands::CommandSpec;

/// The families of session commands.
pub static FAMILIES: &[&[CommandSpec]] = &[connection::COMMANDS, SERVER];

static SERVER: &[CommandSpec] = &[client::CLIENT, config::CONFIG, info::INFO, memory::MEMORY];
