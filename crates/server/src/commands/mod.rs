//! Commands that need the server: connections, configuration, figures.

mod client;
mod connection;

use petrel_commands::CommandSpec;

/// The families of session commands.
pub static FAMILIES: &[&[CommandSpec]] = &[connection::COMMANDS];
