//! `rename-command` lines: commands that are called by other names, or not at all.

use super::error::{ConfigError, Location, Problem};

/// A command that is to be called otherwise.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rename {
    /// Location of the directive.
    pub location: Location,
    /// The name that the command has.
    pub from: Vec<u8>,
    /// The name that it gets; empty: none.
    pub to: Vec<u8>,
}

/// Whether a directive is one.
pub(super) fn is_rename(directive: &[Vec<u8>]) -> bool {
    directive.first().is_some_and(|name| name.eq_ignore_ascii_case(b"rename-command"))
}

/// Adds what such a line says behind its first word.
pub(super) fn add(
    renames: &mut Vec<Rename>,
    values: &[Vec<u8>],
    at: &Location,
) -> Result<(), ConfigError> {
    let [from, to] = values else {
        return Err(ConfigError { location: Some(at.clone()), problem: Problem::RenameArguments });
    };
    renames.push(Rename { location: at.clone(), from: from.clone(), to: to.clone() });
    Ok(())
}
