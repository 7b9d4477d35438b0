//! `user` lines. They are no parameters: each user has its own, and `ACL SETUSER` changes users.

use super::error::{ConfigError, Location, Problem};

/// A user as the configuration names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UserLine {
    /// Location of the line.
    pub location: Location,
    /// The name of the user.
    pub name: Vec<u8>,
    /// Rules after the name.
    pub rules: Vec<Vec<u8>>,
}

/// Whether a directive is one.
pub(super) fn is_user(directive: &[Vec<u8>]) -> bool {
    directive.first().is_some_and(|name| name.eq_ignore_ascii_case(b"user"))
}

/// Adds the user of a line, given its arguments.
pub(super) fn add(
    users: &mut Vec<UserLine>,
    values: &[Vec<u8>],
    at: &Location,
) -> Result<(), ConfigError> {
    let fail = |problem| ConfigError { location: Some(at.clone()), problem };
    let [name, rules @ ..] = values else { return Err(fail(Problem::UserArguments)) };
    if users.iter().any(|known| known.name == *name) {
        return Err(fail(Problem::DuplicateUser(String::from_utf8_lossy(name).into_owned())));
    }
    users.push(UserLine { location: at.clone(), name: name.clone(), rules: rules.to_vec() });
    Ok(())
}
