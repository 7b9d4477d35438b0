//! Users in files: `aclfile`, and `user` lines of the configuration.
//!
//! Both hold lines such as `user alice on #hash ~key:* +@read`. A file is taken over as a whole or
//! not at all, and is written so that readers see the old or the new one, also after a crash.

use crate::config::{Config, UserLine, replace_file};
use crate::server::Server;
use petrel_commands::Fail;
use petrel_commands::acl::{Change, DEFAULT_USER, Permissions, SetError, join_selectors};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes that a file of users has at most.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Errors of a file that are reported, so that an operator can mend several at once.
const ERRORS_MAX: usize = 10;

/// Makes the users that the configuration names, or those of its file; without either the default
/// user alone, with the password that `requirepass` says.
///
/// # Errors
/// The error, with file and line.
pub fn load_at_start(server: &Server, config: &Config, lines: &[UserLine]) -> io::Result<()> {
    let (users, registry) = (&server.commands.users, &server.commands.registry);
    users.set_default_password(registry, config.requirepass.bytes());
    let refuse = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    let loaded = match (&config.aclfile, lines) {
        (None, []) => Ok(()),
        (None, lines) => match of_lines(server, lines) {
            Ok(read) => replace_all(server, read).map(drop),
            Err(error) => refuse(error),
        },
        (Some(path), []) => read(server, path).and_then(|read| replace_all(server, read)).map(drop),
        (Some(_), [line, ..]) => refuse(format!(
            "{}: users can be defined either in the configuration or in the aclfile, not in both",
            line.location
        )),
    };
    if loaded.is_ok() && config.requirepass.is_set() && users.are_open() {
        tracing::warn!(
            "requirepass has no effect: the configured users let every client be the default user"
        );
    }
    loaded
}

/// Lets the users be those of the file (`ACL LOAD`).
///
/// # Errors
/// The error in the file, or that there is none; nothing has changed then.
pub fn load(server: &Server) -> Result<Change, Fail> {
    let path = file(server)?;
    let loaded = read(server, &path).and_then(|users| replace_all(server, users));
    loaded.map_err(|error| {
        tracing::warn!("users were not loaded: {error}");
        Fail::new(format!(
            "ERR {error}. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
        ))
    })
}

/// Writes the users to the file (`ACL SAVE`).
///
/// # Errors
/// That there is no file, or that it cannot be written; it is as before then.
pub fn save(server: &Server) -> Result<(), Fail> {
    let path = file(server)?;
    let dialect = server.commands.dialect();
    let mut text = Vec::new();
    for user in server.commands.users.all() {
        text.extend_from_slice(&user.permissions().line(user.name(), dialect));
        text.push(b'\n');
    }
    replace_file(&path, &text).map_err(|error| {
        tracing::warn!("cannot write users to {}: {error}", path.display());
        Fail::fixed(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })
}

/// Every user as arguments of a `user` line, for `CONFIG REWRITE`; the default user only if it is
/// not what `requirepass` alone makes of it. None if users are kept in a file of their own.
pub fn lines(server: &Server, config: &Config) -> Option<Vec<Vec<Vec<u8>>>> {
    if config.aclfile.is_some() {
        return None;
    }
    let dialect = server.commands.dialect();
    let plain = default_user(server, config).line(DEFAULT_USER, dialect);
    let users = server.commands.users.all();
    let lines = users.iter().map(|user| user.permissions().line(user.name(), dialect));
    let lines = lines.filter(|line| *line != plain);
    Some(lines.map(|line| line.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect()).collect())
}

fn file(server: &Server) -> Result<PathBuf, Fail> {
    let path = server.config.snapshot().aclfile.clone();
    path.ok_or_else(|| {
        let name = server.commands.dialect().choose("Redis", "Valkey");
        Fail::new(format!(
            "ERR This {name} instance is not configured to use an ACL file. You may want to specify users via the \
             ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a {name} configuration file set) \
             in order to store users in the {name} configuration."
        ))
    })
}

type Read = BTreeMap<Vec<u8>, Permissions>;

/// The default user as `requirepass` alone makes it.
fn default_user(server: &Server, config: &Config) -> Permissions {
    let mut permissions = Permissions::everything(&server.commands.registry);
    permissions.set_password(config.requirepass.bytes());
    permissions
}

/// Lets these be the users. A default user that is not among them still asks for the password of
/// `requirepass`.
fn replace_all(server: &Server, mut read: Read) -> io::Result<Change> {
    let config = server.config.snapshot();
    read.entry(DEFAULT_USER.to_vec()).or_insert_with(|| default_user(server, &config));
    let changed = server.commands.users.replace_all(&server.commands.registry, read);
    changed.map_err(|error| io::Error::other(reason(&error)))
}

/// The users of a file.
fn read(server: &Server, path: &Path) -> io::Result<Read> {
    let in_file = |error: io::Error| {
        let path = path.display();
        let text = format!("cannot read {path}: {error}; aclfile names it, relative to dir");
        io::Error::new(error.kind(), text)
    };
    if std::fs::metadata(path).map_err(in_file)?.len() > FILE_BYTES_MAX {
        return Err(in_file(io::Error::other("it has more than 64 MiB")));
    }
    let text = std::fs::read(path).map_err(in_file)?;
    let (mut users, mut errors) = (Read::new(), Vec::new());
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        if let Err(error) = add_line(server, line, &mut users) {
            errors.push(format!("{}:{}: {error}", path.display(), index + 1));
        }
        if errors.len() == ERRORS_MAX {
            break;
        }
    }
    if errors.is_empty() { Ok(users) } else { Err(io::Error::other(errors.join(". "))) }
}

fn add_line(server: &Server, line: &[u8], users: &mut Read) -> Result<(), String> {
    let words: Vec<&[u8]> =
        line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    match words[..] {
        [b"user", name, ref rules @ ..] => add(server, name, rules, users),
        _ => Err("a line begins with the word user and a name".to_owned()),
    }
}

fn of_lines(server: &Server, lines: &[UserLine]) -> Result<Read, String> {
    let mut users = Read::new();
    for line in lines {
        let rules: Vec<&[u8]> = line.rules.iter().map(Vec::as_slice).collect();
        add(server, &line.name, &rules, &mut users)
            .map_err(|error| format!("{}: {error}", line.location))?;
    }
    Ok(users)
}

fn add(server: &Server, name: &[u8], rules: &[&[u8]], users: &mut Read) -> Result<(), String> {
    let shown = name.escape_ascii();
    if users.contains_key(name) {
        return Err(format!("Duplicate user '{shown}' found"));
    }
    let (own, registry) = (&server.commands.users, &server.commands.registry);
    let rules = join_selectors(rules).map_err(|open| {
        format!("user '{shown}': no parenthesis closes '{}'", open.escape_ascii())
    })?;
    let mut permissions = own.draft(registry);
    own.apply(registry, &mut permissions, &rules).map_err(|error| match &error {
        // A rule may hold a password.
        SetError::Rule(i, _) if rules[*i].starts_with(b">") || rules[*i].starts_with(b"<") => {
            format!("user '{shown}': {}", reason(&error))
        }
        SetError::Rule(i, _) => {
            format!("user '{shown}', rule '{}': {}", rules[*i].escape_ascii(), reason(&error))
        }
        _ => format!("user '{shown}': {}", reason(&error)),
    })?;
    users.insert(name.to_vec(), permissions);
    Ok(())
}

fn reason(error: &SetError) -> &'static str {
    match error {
        SetError::Rule(_, error) => error.text(),
        SetError::Name => "a name of a user has no blanks and is not empty",
        SetError::TooMany => "too many users",
    }
}
