//! Errors in a configuration, as shown to an operator.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::names::Hint;
use super::value::Invalid;

/// Error in the configuration that prevents a start. `Display` is one line.
#[derive(Debug)]
pub struct ConfigError {
    /// Location of the error; `None` if it concerns the configuration as a whole.
    pub location: Option<Location>,
    /// The error.
    pub problem: Problem,
}

/// A place in the configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Location {
    /// The text it is in.
    pub source: Source,
    /// The line, from 1; 0 on the command line, which has none.
    pub line: usize,
}

/// A text that configuration is read from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Source {
    /// The options of the command line.
    CommandLine,
    /// Standard input.
    Stdin,
    /// A file, by the path under which it was named.
    File(PathBuf),
}

/// Kind of a configuration error.
#[derive(Debug)]
pub enum Problem {
    /// No parameter has this name.
    Unknown {
        /// The name as it was written.
        name: String,
        /// Suggestion of a similar name.
        hint: Hint,
    },
    /// The value does not fit the parameter.
    Invalid {
        /// The parameter.
        name: &'static str,
        /// The value as it was written, unless it is a secret.
        value: Option<String>,
        /// Reason that the value is invalid.
        reason: Invalid,
    },
    /// A quote is not closed.
    UnbalancedQuotes,
    /// An argument of the command line that belongs to no option.
    UnexpectedArgument(String),
    /// Arguments that a subcommand does not take.
    Usage {
        /// Name of the subcommand.
        subcommand: &'static str,
        /// Error, with what to write instead.
        reason: String,
    },
    /// A file cannot be read.
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// `rename-command` with anything but two names.
    RenameArguments,
    /// A command cannot be called so.
    Rename(String),
    /// `user` without a name.
    UserArguments,
    /// Two lines about one user.
    DuplicateUser(String),
    /// `include` without, or with more than, one path.
    IncludeArguments,
    /// A limit of this server on configuration files.
    Limit(&'static str),
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        let on_command_line =
            self.location.as_ref().is_some_and(|l| l.source == Source::CommandLine);
        let (dashes, kind) = if on_command_line { ("--", "option") } else { ("", "parameter") };
        match &self.problem {
            Problem::Unknown { name, hint } => {
                write!(f, "unknown {kind} '{dashes}{name}'")?;
                match hint {
                    Hint::DidYouMean(nearest) => write!(f, "; did you mean '{dashes}{nearest}'?"),
                    Hint::OfRedis => {
                        f.write_str("; Redis or Valkey have it, this version of Petrel does not")
                    }
                    Hint::None => f.write_str("; --help lists them all"),
                }
            }
            Problem::Invalid { name, value: Some(value), reason } => {
                write!(f, "{dashes}{name} '{value}': {reason}")
            }
            Problem::Invalid { name, value: None, reason } => write!(f, "{dashes}{name}: {reason}"),
            Problem::UnbalancedQuotes => f.write_str("unbalanced quotes"),
            Problem::UnexpectedArgument(argument) => {
                write!(f, "unexpected argument '{argument}'; see --help")
            }
            Problem::Usage { subcommand, reason } => {
                write!(f, "{subcommand}: {reason}; see petrel {subcommand} --help")
            }
            Problem::Read { path, error } => {
                write!(f, "cannot read '{}': {}", path.display(), reason(error))
            }
            Problem::RenameArguments => f.write_str("rename-command takes two names"),
            Problem::Rename(reason) => write!(f, "rename-command: {reason}"),
            Problem::UserArguments => f.write_str("user takes a name and rules"),
            Problem::DuplicateUser(name) => {
                write!(f, "Duplicate user '{}' found", name.escape_debug())
            }
            Problem::IncludeArguments => f.write_str("include takes one path"),
            Problem::Limit(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::CommandLine => f.write_str("command line"),
            Source::Stdin => write!(f, "stdin:{}", self.line),
            Source::File(path) => write!(f, "{}:{}", path.display(), self.line),
        }
    }
}

/// The system's words for an error, without the number that Rust appends.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
