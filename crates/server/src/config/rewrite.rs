//! CONFIG REWRITE: the present values, written into the configuration file.
//!
//! Comments, order and lines that still hold stay untouched. A line that no longer holds is
//! replaced where it stands, other lines of the same parameter go, and what no line says is
//! appended below a marker. The result is read back before it replaces the file: it gives exactly
//! the present values, includes considered.

use petrel_persistence::leftover;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Problem, Source, reason};
use super::line;
use super::load::{Loader, directive, read_file};
use super::params::{Config, PARAMS};
use super::store::ConfigFile;
use super::table::Param;
use super::user_line;
use super::value::Rule;

/// Reason that the file was not rewritten; it is unchanged. `Display` is an error reply with its
/// code.
#[derive(Debug)]
pub enum RewriteError {
    /// The server was started without a configuration file.
    NoFile,
    /// The file, or a temporary file beside it, cannot be read or written.
    Io(io::Error),
    /// The file, or one it includes, no longer is a configuration.
    Broken(ConfigError),
}

impl std::error::Error for RewriteError {}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str("ERR The server is running without a config file"),
            Self::Io(error) => write!(f, "ERR Rewriting config file: {}", reason(error)),
            Self::Broken(error) => write!(f, "ERR Rewriting config file: {error}"),
        }
    }
}

/// Extent of a rewritten file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Extent {
    /// The old lines, and parameters that differ from the defaults.
    Needed,
    /// Every parameter that may stand in a file.
    Everything,
}

/// Rewrites `file` so that it results in `config`. A deleted file is created.
pub(super) fn rewrite(
    file: &ConfigFile,
    config: &Config,
    users: Option<&[Vec<Vec<u8>>]>,
    extent: Extent,
) -> Result<(), RewriteError> {
    // Behind a symbolic link the file it points to is replaced, not the link.
    let path = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
    let old = match read_file(&path) {
        Ok(text) => text,
        Err(Problem::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(Problem::Read { error, .. }) => return Err(RewriteError::Io(error)),
        Err(problem) => {
            return Err(RewriteError::Broken(ConfigError { location: None, problem }));
        }
    };
    let new = compose(&old, config, users, file, extent).map_err(RewriteError::Broken)?;
    if new == old { Ok(()) } else { replace(&path, &new).map_err(RewriteError::Io) }
}

/// The text of the rewritten file.
fn compose(
    old: &[u8],
    config: &Config,
    users: Option<&[Vec<Vec<u8>>]>,
    file: &ConfigFile,
    extent: Extent,
) -> Result<Vec<u8>, ConfigError> {
    let mut lines: Vec<Line> =
        old.strip_suffix(b"\n").unwrap_or(old).split(|&b| b == b'\n').map(Line::read).collect();
    if old.is_empty() {
        lines.clear();
    }
    for param in PARAMS {
        update_lines(&mut lines, param, config, file);
    }
    let new_users = users.map_or(Vec::new(), |users| update_users(&mut lines, users));
    let mut text = Vec::new();
    for line in lines.iter().filter_map(|line| line.text.as_deref()) {
        text.extend(line);
        text.push(b'\n');
    }
    let mut loader = Loader::new(&file.base);
    loader.text(&text, &Source::File(file.path.clone()))?;
    let said = loader.finish();
    append(&mut text, config, &said);
    if extent == Extent::Everything {
        let unsaid = PARAMS.iter().filter(|param| !lines.iter().any(|line| line.is_about(param)));
        let silent = unsaid.filter(|param| param.same(config, &said));
        append_lines(&mut text, silent.map(|param| write_directive(param, config)).collect());
    }
    append_lines(&mut text, new_users);
    // A user that a file included above names cannot be named here as well.
    Loader::new(&file.base).text(&text, &Source::File(file.path.clone()))?;
    Ok(text)
}

/// A line of the file: its text (`None` once removed) and its directive, if it is one.
struct Line {
    text: Option<Vec<u8>>,
    param: Option<&'static Param>,
    args: Vec<Vec<u8>>,
}

impl Line {
    fn read(raw: &[u8]) -> Self {
        // A line that cannot be read is kept; reading the result back reports it.
        let args = directive(raw).ok().flatten().unwrap_or_default();
        let param = args.first().and_then(|name| Param::find(name));
        Self { text: Some(raw.to_vec()), param, args }
    }

    fn is_about(&self, param: &Param) -> bool {
        self.param.is_some_and(|own| own.name == param.name)
    }
}

/// Makes the lines of one parameter say its present value.
fn update_lines(lines: &mut [Line], param: &Param, config: &Config, file: &ConfigFile) {
    let own = || lines.iter().filter(|line| line.is_about(param));
    if own().next().is_none() {
        return;
    }
    let mut said = Loader::new(&file.base);
    let valid = own().all(|line| said.set(param, &line.args[1..]).is_ok());
    if valid && param.same(&said.finish(), config) {
        return;
    }
    let mut replacement = Some(write_directive(param, config));
    for line in lines.iter_mut().filter(|line| line.is_about(param)) {
        line.text = replacement.take();
    }
}

/// Updates the lines of users; returns lines for users without one.
fn update_users(lines: &mut [Line], users: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let mut missing: Vec<&Vec<Vec<u8>>> = users.iter().collect();
    for line in lines.iter_mut().filter(|line| user_line::is_user(&line.args)) {
        let now = missing.iter().position(|user| user.get(1) == line.args.get(1));
        let now = now.map(|at| missing.remove(at));
        if now != Some(&line.args) {
            line.text = now.map(|user| line::join(user));
        }
    }
    missing.into_iter().map(|user| line::join(user)).collect()
}

/// Appends what `text`, which gives `said`, does not give.
fn append(text: &mut Vec<u8>, config: &Config, said: &Config) {
    let missing = PARAMS.iter().filter(|param| !param.same(config, said));
    append_lines(text, missing.map(|param| write_directive(param, config)).collect());
}

/// Appends lines below the marker.
fn append_lines(text: &mut Vec<u8>, missing: Vec<Vec<u8>>) {
    if missing.is_empty() {
        return;
    }
    if !text.split(|&b| b == b'\n').any(|line| line.trim_ascii() == MARKER) {
        if !text.is_empty() {
            text.push(b'\n');
        }
        text.extend(MARKER);
        text.push(b'\n');
    }
    for line in missing {
        text.extend(line);
        text.push(b'\n');
    }
}

/// The line that gives a parameter its value; of save points, a line each.
fn write_directive(param: &Param, config: &Config) -> Vec<u8> {
    let directives = match param.rule {
        Rule::Points => config.save.directives(),
        _ => vec![param.arguments(config)],
    };
    let line = |args| line::join(&[vec![param.name.into()], args].concat());
    directives.into_iter().map(line).collect::<Vec<_>>().join(&b'\n')
}

/// Puts `text` in place of the file at once: readers see the old or the new, also after a crash.
///
/// # Errors
/// If the file, or a temporary one beside it, cannot be written; it is as before then.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path);
    sweep_beside(path);
    let written = write_synced(&temporary, path, text).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The error that counts is the first; a file left behind does no harm.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes temporary files of processes killed while they replaced this file.
pub fn sweep_beside(path: &Path) {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    leftover::sweep(directory.unwrap_or(Path::new(".")), &format!("{name}."), ".tmp", |_| true);
}

fn write_synced(temporary: &Path, original: &Path, text: &[u8]) -> io::Result<()> {
    // It may hold the password: no other user may read it before it has the original's mode.
    let mut options = File::options();
    let mut file = options.write(true).create_new(true).mode(0o600).open(temporary)?;
    let mut mode = NEW_FILE_MODE;
    if let Ok(metadata) = fs::metadata(original) {
        mode = metadata.permissions().mode() & 0o777;
        // Only root can give a file away; for others it stays the server's own.
        let _ = std::os::unix::fs::fchown(&file, Some(metadata.uid()), Some(metadata.gid()));
    }
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(text)?;
    file.sync_all()
}

fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

const MARKER: &[u8] = b"# Generated by CONFIG REWRITE";
const NEW_FILE_MODE: u32 = 0o600;
