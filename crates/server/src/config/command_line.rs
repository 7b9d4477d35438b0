//! The command line: `petrel [FILE] [--name value ...]... [-]`, or a subcommand.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::error::{ConfigError, Location, Problem, Source};
use super::line;
use super::load::Loader;
use super::renames::Rename;
use super::store::{ConfigFile, SharedConfig};
use super::subcommand::{CheckLine, PingLine, Subcommand, Topic};
use super::table::Param;

/// Parsed command line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Invocation {
    /// Print the help on this topic and leave.
    Help(Topic),
    /// Print the version and leave.
    Version,
    /// Tell whether these files are whole, and leave.
    Check(CheckLine),
    /// List the backups at this address, and leave.
    Backups(String),
    /// Ask a server whether it answers, and leave.
    Ping(PingLine),
    /// Execute commands at a server, as these arguments of `petrel cli` say, and leave.
    Cli(Vec<OsString>),
    /// Start the server.
    Start(CommandLine),
}

/// Sources of the configuration, in the order in which they apply.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CommandLine {
    /// Whether the defaults of the container image apply below all other sources.
    pub in_container: bool,
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// Whether standard input is read next.
    pub stdin: bool,
    /// The options, each a name and its values, which come last and so win.
    pub options: Vec<Vec<Vec<u8>>>,
}

impl Invocation {
    /// Reads the arguments behind the program's name. A subcommand's name in the first place is
    /// never a configuration file; `./check` is one.
    ///
    /// An option takes all arguments up to the next that begins with `--`; its first value may
    /// begin so itself (a password, say), except behind `--save` and `--cluster-create`, which may
    /// stand alone.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, ConfigError> {
        let mut args: Vec<_> = args.into_iter().map(OsStringExt::into_vec).collect();
        match args.first().map(Vec::as_slice) {
            Some(b"-h" | b"--help") => return Ok(Self::Help(Topic::All)),
            Some(b"-v" | b"--version") => return Ok(Self::Version),
            Some(word) => {
                if let Some(subcommand) = Subcommand::find(word) {
                    args.remove(0);
                    return subcommand.parse(args);
                }
            }
            None => {}
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
                Some(b"help") if is_complete(options) => return Ok(Self::Help(Topic::All)),
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

/// Name of the program that is the container image's entry point. Like the entry point of Redis's
/// image, it takes `redis-server ARGUMENT ...` as well as the arguments alone, and is not protected
/// unless the configuration says so: its clients are in other containers.
const ENTRY_POINT: &str = "petrel-entrypoint";
/// Programs that a command of the image may name.
const SERVERS: [&[u8]; 3] = [b"petrel", b"redis-server", b"valkey-server"];
/// Parameters with another default in the image.
const CONTAINER_DEFAULTS: [[&str; 2]; 1] = [["protected-mode", "no"]];

impl Invocation {
    /// Reads the arguments, the program's name included; returns the name that decides the dialect
    /// too.
    pub fn of_program(
        args: impl IntoIterator<Item = OsString>,
    ) -> (PathBuf, Result<Self, ConfigError>) {
        let mut args: Vec<_> = args.into_iter().collect();
        let mut name =
            PathBuf::from(if args.is_empty() { OsString::new() } else { args.remove(0) });
        let in_container = name.file_name().is_some_and(|name| name == ENTRY_POINT);
        if in_container {
            let is_server = |first: &OsString| SERVERS.contains(&first.as_encoded_bytes());
            name = match args.first().is_some_and(is_server) {
                true => args.remove(0).into(),
                false => "petrel".into(),
            };
        }
        let parsed = Self::parse(args).map(|invocation| match invocation {
            Self::Start(line) => Self::Start(CommandLine { in_container, ..line }),
            other => other,
        });
        (name, parsed)
    }
}

/// Checks renamed commands; returns an error for an invalid one.
pub type CheckRenames = fn(&[Rename]) -> Option<ConfigError>;

impl CommandLine {
    /// Reads all named files. Relative paths of files, of `include` and of `dir` start at the
    /// working directory of the process; `dir` is resolved but not entered. `check` validates
    /// renamed commands.
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
        let at = Location { source: Source::CommandLine, line: 0 };
        for option in CONTAINER_DEFAULTS.iter().filter(|_| self.in_container) {
            loader.directive(&option.map(|word| word.as_bytes().to_vec()), &at)?;
        }
        if let Some(file) = &self.file {
            loader.file(file)?;
        }
        if self.stdin {
            loader.stream(stdin, &Source::Stdin)?;
        }
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
