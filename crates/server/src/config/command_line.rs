//! The command line: `petrel [FILE] [--name value ...]... [-]`.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Location, Problem, Source};
use super::line;
use super::load::Loader;
use super::renames::Rename;
use super::store::{ConfigFile, SharedConfig};
use super::table::Param;

/// Parsed command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Invocation {
    /// Print the help and leave.
    Help,
    /// Print the version and leave.
    Version,
    /// Tell whether these files are whole, and leave.
    Check(CheckLine),
    /// List the backups at this address, which may have been left out, and leave.
    Backups(Option<String>),
    /// Start the server.
    Start(CommandLine),
}

/// Arguments of `petrel check`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CheckLine {
    /// The files and directories.
    pub paths: Vec<PathBuf>,
    /// Parts to cut off.
    pub cut: Cut,
}

/// Parts of a file that `petrel check` may cut off.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Cut {
    /// Nothing.
    #[default]
    Nothing,
    /// An end that is not whole, such as a machine leaves that stops: `--fix`.
    End,
    /// An incomplete end, and everything after a damaged place of a file of Petrel's log: `--cut`.
    Damage,
}

/// Cuts off an incomplete end.
const FIX: &[u8] = b"--fix";
/// Also cuts off everything after a damaged place.
const CUT: &[u8] = b"--cut";

/// Sources of the configuration, in the order in which they apply.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CommandLine {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Whether standard input is read next.
    pub stdin: bool,
    /// The options, each a name and its values, which come last and so win.
    pub options: Vec<Vec<Vec<u8>>>,
}

impl Invocation {
    /// Reads the arguments behind the program's name.
    ///
    /// An option takes all arguments up to the next that begins with `--`; its first value may
    /// begin so itself (a password, say), except behind `--save` and `--cluster-create`, which may
    /// stand alone.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, ConfigError> {
        let mut args: Vec<_> = args.into_iter().map(OsStringExt::into_vec).collect();
        match args.first().map(Vec::as_slice) {
            Some(b"-h" | b"--help") => return Ok(Self::Help),
            Some(b"-v" | b"--version") => return Ok(Self::Version),
            // Followed by an option, `check` is the name of a configuration file.
            Some(b"check")
                if args.get(1).is_none_or(|file| {
                    [FIX, CUT].contains(&&file[..]) || !file.starts_with(b"-")
                }) =>
            {
                let cut = match () {
                    () if args.iter().any(|arg| arg == CUT) => Cut::Damage,
                    () if args.iter().any(|arg| arg == FIX) => Cut::End,
                    () => Cut::Nothing,
                };
                let paths = args.into_iter().skip(1).filter(|arg| arg != FIX && arg != CUT);
                let paths = paths.map(|path| OsString::from_vec(path).into()).collect();
                return Ok(Self::Check(CheckLine { paths, cut }));
            }
            Some(b"backups")
                if args.len() <= 2 && args.get(1).is_none_or(|url| !url.starts_with(b"-")) =>
            {
                let url = args.get(1).map(|url| String::from_utf8_lossy(url).into_owned());
                return Ok(Self::Backups(url));
            }
            _ => {}
        }
        let mut command = CommandLine::default();
        if args.last().is_some_and(|last| last == b"-") {
            command.stdin = true;
            args.pop();
        }
        if args.first().is_some_and(|first| first == b"-") {
            command.stdin = true;
            args.remove(0);
        } else if args.first().is_some_and(|first| !first.starts_with(b"-")) {
            command.file = Some(OsString::from_vec(args.remove(0)).into());
        }
        for arg in args {
            let options = &mut command.options;
            match arg.strip_prefix(b"--") {
                Some(b"") => {}
                Some(b"help") if is_complete(options) => return Ok(Self::Help),
                Some(b"version") if is_complete(options) => return Ok(Self::Version),
                Some(name) if is_complete(options) => options.push(start_option(name)?),
                _ => match options.last_mut() {
                    Some(option) => option.push(arg),
                    None => return Err(unexpected(&arg)),
                },
            }
        }
        Ok(Self::Start(command))
    }
}

/// Checks renamed commands; returns an error for an invalid one.
pub type CheckRenames = fn(&[Rename]) -> Option<ConfigError>;

impl CommandLine {
    /// Reads all named files. Relative paths start at the working directory of the process; `dir`
    /// is resolved but not entered. `check` validates renamed commands.
    pub fn load(&self, check: CheckRenames) -> Result<SharedConfig, ConfigError> {
        let base = std::env::current_dir().map_err(|error| ConfigError {
            location: None,
            problem: Problem::Read { path: ".".into(), error },
        })?;
        self.load_from(&base, &mut std::io::stdin(), check)
    }

    pub(super) fn load_from(
        &self,
        base: &Path,
        stdin: &mut dyn Read,
        check: CheckRenames,
    ) -> Result<SharedConfig, ConfigError> {
        let mut loader = Loader::new(base);
        if let Some(file) = &self.file {
            loader.file(file)?;
        }
        if self.stdin {
            loader.stream(stdin, &Source::Stdin)?;
        }
        let at = Location { source: Source::CommandLine, line: 0 };
        for option in &self.options {
            loader.directive(option, &at)?;
        }
        let file = self.file.as_ref().map(|file| ConfigFile::new(file, base));
        let users = std::mem::take(&mut loader.users);
        let renames = std::mem::take(&mut loader.renames);
        let dropped = std::mem::take(&mut loader.dropped);
        if let Some(error) = check(&renames) {
            return Err(error);
        }
        let shared = SharedConfig::new(loader.finish(), file);
        Ok(shared.with_users(users).with_renames(renames).with_dropped(dropped))
    }
}

/// Whether the last option has all its arguments, so that `--` begins another.
fn is_complete(options: &[Vec<Vec<u8>>]) -> bool {
    options.last().is_none_or(|option| option.len() > 1 || may_stand_alone(&option[0]))
}

fn may_stand_alone(name: &[u8]) -> bool {
    Param::find(name).is_some_and(|param| param.bare().is_some())
}

/// `name`, `name=value`, or a whole directive in one argument.
fn start_option(text: &[u8]) -> Result<Vec<Vec<u8>>, ConfigError> {
    let name_length = text.iter().take_while(|b| !b.is_ascii_whitespace() && **b != b'=').count();
    let (name, rest) = text.split_at(name_length);
    match rest {
        [] => Ok(vec![name.to_vec()]),
        [b'=', value @ ..] => Ok(vec![name.to_vec(), value.to_vec()]),
        _ => line::split(text).map_err(|_| ConfigError {
            location: Some(Location { source: Source::CommandLine, line: 0 }),
            problem: Problem::UnbalancedQuotes,
        }),
    }
}

fn unexpected(argument: &[u8]) -> ConfigError {
    ConfigError {
        location: Some(Location { source: Source::CommandLine, line: 0 }),
        problem: Problem::UnexpectedArgument(String::from_utf8_lossy(argument).into_owned()),
    }
}
