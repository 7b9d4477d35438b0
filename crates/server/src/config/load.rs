//! Reading configuration files, standard input and options into a [`Config`].

use petrel_commands::glob::{self, Case};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Location, Problem, Source, reason};
use super::params::Config;
use super::renames::{self, Rename};
use super::table::Param;
use super::user_line::{self, UserLine};
use super::value::{Invalid, Rule};
use super::{line, names};

/// Applies directives in order; later ones win.
pub(super) struct Loader<'a> {
    /// The configuration read so far.
    pub config: Config,
    /// The commands that are to have other names.
    pub renames: Vec<Rename>,
    /// The users that were named.
    pub users: Vec<UserLine>,
    /// Dropped directives that were read.
    pub dropped: Vec<&'static str>,
    /// A directive has set save points.
    has_points: bool,
    /// Base of relative paths in `include` and `dir`.
    base: &'a Path,
    depth: usize,
    files: usize,
}

impl<'a> Loader<'a> {
    /// Starts from the defaults.
    pub fn new(base: &'a Path) -> Self {
        Self {
            config: Config::default(),
            renames: Vec::new(),
            users: Vec::new(),
            dropped: Vec::new(),
            has_points: false,
            base,
            depth: 0,
            files: 0,
        }
    }

    /// Reads a file that the operator named; relative to the base.
    pub fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = read_file(&self.base.join(path))
            .map_err(|problem| ConfigError { location: None, problem: named(problem, path) })?;
        self.text(&text, &Source::File(path.to_path_buf()))
    }

    /// Reads a stream to its end.
    pub fn stream(&mut self, stream: &mut dyn Read, source: &Source) -> Result<(), ConfigError> {
        let text = read_limited(stream, Path::new("stdin"))
            .map_err(|problem| ConfigError { location: None, problem })?;
        self.text(&text, source)
    }

    /// Applies every line of `text`.
    pub fn text(&mut self, text: &[u8], source: &Source) -> Result<(), ConfigError> {
        for (index, raw) in text.split(|&b| b == b'\n').enumerate() {
            let location = || Location { source: source.clone(), line: index + 1 };
            match directive(raw) {
                Ok(None) => {}
                Ok(Some(args)) => self.directive(&args, &location())?,
                Err(problem) => {
                    return Err(ConfigError { location: Some(location()), problem });
                }
            }
        }
        Ok(())
    }

    /// Applies one directive: a name and its arguments. `args` is not empty.
    pub fn directive(&mut self, args: &[Vec<u8>], at: &Location) -> Result<(), ConfigError> {
        let fail = |problem| ConfigError { location: Some(at.clone()), problem };
        let (name, values) = (&args[0], &args[1..]);
        if name.eq_ignore_ascii_case(b"include") {
            return match values {
                [path] => self.include(path, at),
                _ => Err(fail(Problem::IncludeArguments)),
            };
        }
        if renames::is_rename(args) {
            return renames::add(&mut self.renames, values, at);
        }
        if user_line::is_user(args) {
            return user_line::add(&mut self.users, values, at);
        }
        let is_dropped = |dropped: &&&str| name.eq_ignore_ascii_case(dropped.as_bytes());
        if let Some(&name) = names::DROPPED.iter().find(is_dropped) {
            if values.len() != 1 {
                let reason = Invalid::new("wrong number of arguments");
                return Err(fail(Problem::Invalid { name, value: None, reason }));
            }
            if !self.dropped.contains(&name) {
                self.dropped.push(name);
            }
            return Ok(());
        }
        let Some(param) = Param::find(name) else {
            let name = String::from_utf8_lossy(name).into_owned();
            let hint = names::hint(&name);
            return Err(fail(Problem::Unknown { name, hint }));
        };
        let bare = param.bare().filter(|_| values.is_empty());
        let bare = bare.map(|value| vec![value.as_bytes().to_vec()]);
        let values = bare.as_deref().unwrap_or(values);
        let shown = || String::from_utf8_lossy(&values.join(&b' ')).into_owned();
        self.set(param, values).map_err(|reason| {
            let value = shown();
            let value = (!param.is_sensitive() && !values.is_empty()).then_some(value);
            fail(Problem::Invalid { name: param.name, value, reason })
        })
    }

    /// Returns the configuration, with the working directory made absolute.
    pub fn finish(mut self) -> Config {
        self.config.dir = absolute(&self.config.dir, self.base);
        self.config
    }

    /// Gives a parameter a value. Save points add up: the first directive replaces the default, and
    /// an empty one all.
    pub(super) fn set(&mut self, param: &Param, values: &[Vec<u8>]) -> Result<(), Invalid> {
        if param.rule == Rule::Points && self.has_points && !values.is_empty() {
            let before = self.config.save.clone();
            param.update(&mut self.config, values)?;
            if !self.config.save.is_empty() {
                self.config.save = before.and(&self.config.save);
            }
            return Ok(());
        }
        param.update(&mut self.config, values)?;
        match param.rule {
            Rule::Directory => resolve_dir(&mut self.config, self.base)?,
            Rule::Points => self.has_points = true,
            _ => {}
        }
        Ok(())
    }

    fn include(&mut self, pattern: &[u8], at: &Location) -> Result<(), ConfigError> {
        let fail = |problem| ConfigError { location: Some(at.clone()), problem };
        if self.depth == INCLUDE_DEPTH_MAX {
            return Err(fail(Problem::Limit("include is nested more than 16 deep")));
        }
        self.depth += 1;
        for path in expand(pattern, self.base).map_err(fail)? {
            self.files += 1;
            if self.files > INCLUDE_FILES_MAX {
                return Err(fail(Problem::Limit("more than 1000 files are included")));
            }
            let text = read_file(&self.base.join(&path)).map_err(|p| fail(named(p, &path)))?;
            self.text(&text, &Source::File(path))?;
        }
        self.depth -= 1;
        Ok(())
    }
}

/// Splits a line of a file; `None` for one that says nothing.
pub(super) fn directive(line: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Problem> {
    let line = line.trim_ascii();
    if line.is_empty() || line[0] == b'#' {
        return Ok(None);
    }
    let args = line::split(line).map_err(|_| Problem::UnbalancedQuotes)?;
    Ok(Some(args).filter(|args| !args.is_empty()))
}

/// Makes the working directory absolute and asserts that it exists.
pub(super) fn resolve_dir(config: &mut Config, base: &Path) -> Result<(), Invalid> {
    let dir = absolute(&config.dir, base);
    match fs::metadata(&dir) {
        Ok(metadata) if metadata.is_dir() => {
            config.dir = dir;
            Ok(())
        }
        Ok(_) => Err(Invalid::new("Not a directory")),
        Err(error) => Err(reason(&error).into()),
    }
}

/// Reads a file whole, up to a limit.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Problem> {
    let mut file =
        fs::File::open(path).map_err(|error| Problem::Read { path: path.to_path_buf(), error })?;
    read_limited(&mut file, path)
}

fn read_limited(stream: &mut dyn Read, path: &Path) -> Result<Vec<u8>, Problem> {
    let mut text = Vec::new();
    stream
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|error| Problem::Read { path: path.to_path_buf(), error })?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(Problem::Limit("a configuration file has more than 16 MiB")),
        false => Ok(text),
    }
}

/// Replaces the path in an error by the one that the operator wrote.
fn named(problem: Problem, path: &Path) -> Problem {
    match problem {
        Problem::Read { error, .. } => Problem::Read { path: path.to_path_buf(), error },
        other => other,
    }
}

fn absolute(path: &Path, base: &Path) -> PathBuf {
    base.join(path).components().collect()
}

/// The files that an `include` names, sorted. A pattern may match none.
fn expand(pattern: &[u8], base: &Path) -> Result<Vec<PathBuf>, Problem> {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(pattern));
    if !glob::is_pattern(pattern) {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = vec![PathBuf::new()];
    for component in path.components() {
        let name = component.as_os_str();
        if !glob::is_pattern(name.as_bytes()) {
            found.iter_mut().for_each(|path| path.push(name));
            continue;
        }
        let mut deeper = Vec::new();
        for directory in found {
            deeper.extend(
                matching_entries(&base.join(&directory), name.as_bytes())
                    .map(|entry| directory.join(entry)),
            );
        }
        if deeper.len() > INCLUDE_FILES_MAX {
            return Err(Problem::Limit("an include matches more than 1000 files"));
        }
        deeper.sort();
        found = deeper;
    }
    found.retain(|path| base.join(path).exists());
    Ok(found)
}

/// Names in a directory that match; hidden ones only if the pattern says so.
fn matching_entries(directory: &Path, pattern: &[u8]) -> impl Iterator<Item = std::ffi::OsString> {
    use std::os::unix::ffi::OsStrExt;
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).filter(move |name| {
        let name = name.as_bytes();
        (name[0] != b'.' || pattern[0] == b'.') && glob::matches(pattern, name, Case::Sensitive)
    })
}

const FILE_BYTES_MAX: u64 = 16 << 20;
const INCLUDE_DEPTH_MAX: usize = 16;
const INCLUDE_FILES_MAX: usize = 1000;
