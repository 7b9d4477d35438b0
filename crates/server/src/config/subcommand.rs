//! Subcommands of the program: `petrel version`, `help`, `check`, `backups`, `ping` and
//! `cli`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use super::command_line::Invocation;
use super::error::{ConfigError, Problem};
use super::table::Param;

/// A word in the place of the configuration file that does something else than starting a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Subcommand {
    /// Prints the version.
    Version,
    /// Prints help.
    Help,
    /// Verifies files.
    Check,
    /// Lists backups in an object store.
    Backups,
    /// Asks a server whether it answers.
    Ping,
    /// Executes commands at a server; reads its own arguments.
    Cli,
}

/// Topic of a help text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Topic {
    /// The command line and all parameters.
    All,
    /// A subcommand.
    Subcommand(Subcommand),
    /// A parameter, by its name.
    Parameter(&'static str),
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

/// Arguments of `petrel ping`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PingLine {
    /// The server.
    pub target: Target,
    /// Maximum time for the connection and the answer together.
    pub timeout: Duration,
}

/// Address of a server to ask.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// Host and port of Redis's protocol.
    Tcp(String),
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// Host and port of HTTP, and the path there.
    Http(String, String),
}

/// Cuts off an incomplete end.
const FIX: &str = "--fix";
/// Also cuts off everything after a damaged place.
const CUT: &str = "--cut";
/// Sets the time limit of `ping`.
const TIMEOUT: &str = "--timeout";

/// The address that `ping` asks unless one is given.
const DEFAULT_ADDRESS: &str = "127.0.0.1:6379";
/// Default time limit of `ping`. Below the 5 seconds that container health checks are given.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum time limit of `ping`, in seconds: an hour, so that no check hangs for days.
const TIMEOUT_MAX: f64 = 3600.0;

/// Long options of `cli`, for completions and the manual page.
const CLI_OPTIONS: &[(&str, &str)] = &[
    ("--askpass", "read the password from the terminal"),
    ("--bigkeys", "find the keys with most elements"),
    ("--cacert", "file of trusted certificates"),
    ("--cacertdir", "directory of trusted certificates"),
    ("--cert", "file of the client's certificate"),
    ("--count", "COUNT of SCAN"),
    ("--csv", "print replies as CSV"),
    ("--cursor", "first cursor of SCAN"),
    ("--eval", "execute the script of a file"),
    ("--functions-rdb", "store the server's functions as an RDB file"),
    ("--hotkeys", "find the keys with the highest LFU counters"),
    ("--insecure", "accept any certificate"),
    (
        "--intrinsic-latency",
        "measure for this number of seconds how long the machine does not run a process",
    ),
    ("--json", "print replies as JSON"),
    ("--key", "file of the client's key"),
    ("--latency", "measure the time of PING"),
    ("--latency-history", "measure the time of PING, a line per interval"),
    ("--memkeys", "find the keys with most memory"),
    ("--memkeys-samples", "find the keys with most memory, from this number of samples per key"),
    ("--no-auth-warning", "do not warn of a password among the arguments"),
    ("--no-raw", "print replies with their types"),
    ("--pass", "password"),
    ("--pattern", "pattern of keys"),
    ("--pipe", "send requests from standard input"),
    ("--pipe-timeout", "seconds to wait for the last reply"),
    ("--quoted-input", "take the arguments as quoted strings"),
    ("--quoted-json", "print replies as JSON in ASCII"),
    ("--quoted-pattern", "pattern of keys, as a quoted string"),
    ("--raw", "print replies as bytes"),
    ("--rdb", "store the server's data as an RDB file"),
    ("--replica", "print the commands that a replica is sent"),
    ("--scan", "list the keys"),
    ("--show-pushes", "print pushes of RESP3: yes or no"),
    ("--sni", "name in the server's certificate"),
    ("--stat", "print a line of statistics per interval"),
    ("--tls", "connect by TLS"),
    ("--user", "user of the password"),
    ("--version", "print the version"),
];

/// Whether a value follows the option of a subcommand.
pub(super) fn takes_value(option: &str) -> bool {
    const OPTIONS: [&str; 19] = [
        TIMEOUT,
        "--cacert",
        "--cacertdir",
        "--cert",
        "--count",
        "--cursor",
        "--eval",
        "--functions-rdb",
        "--intrinsic-latency",
        "--key",
        "--memkeys-samples",
        "--pass",
        "--pattern",
        "--pipe-timeout",
        "--quoted-pattern",
        "--rdb",
        "--show-pushes",
        "--sni",
        "--user",
    ];
    OPTIONS.contains(&option)
}

impl Subcommand {
    /// Every subcommand, in the order of the help.
    pub const ALL: [Self; 6] =
        [Self::Cli, Self::Check, Self::Backups, Self::Ping, Self::Version, Self::Help];

    /// The word that calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Help => "help",
            Self::Check => "check",
            Self::Backups => "backups",
            Self::Ping => "ping",
            Self::Cli => "cli",
        }
    }

    /// Arguments, as a usage line shows them.
    pub fn arguments(self) -> &'static str {
        match self {
            Self::Version => "",
            Self::Help => "[SUBCOMMAND | PARAMETER]",
            Self::Check => "[--fix | --cut] FILE-OR-DIRECTORY ...",
            Self::Backups => "URL",
            Self::Ping => "[--timeout SECONDS] [ADDRESS]",
            Self::Cli => "[OPTION ...] [COMMAND [ARGUMENT ...]]",
        }
    }

    /// Options, each with a description.
    pub fn options(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Check => &[
                (FIX, "cut off an end that is not whole"),
                (CUT, "cut off an end that is not whole, or everything after a damaged place"),
            ],
            Self::Ping => &[(TIMEOUT, "maximum time for connection and answer, in seconds (3)")],
            Self::Cli => CLI_OPTIONS,
            _ => &[],
        }
    }

    /// Description of one line.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Version => "print the versions of Petrel and of the server that it replaces",
            Self::Help => "print this help, or that of a subcommand or of a parameter",
            Self::Check => "tell whether files are whole, and what they hold",
            Self::Backups => "list the backups in an object store",
            Self::Ping => "ask a server whether it answers, for health checks without a shell",
            Self::Cli => "execute commands at a server, with the options of redis-cli",
        }
    }

    /// Description, in paragraphs of unwrapped text.
    pub fn description(self) -> &'static [&'static str] {
        match self {
            Self::Version => &[
                "The first line names Petrel, its version and the commit that it was built from. The \
                 second is that of redis-server --version, for tools that read it. A program called \
                 redis-server or valkey-server prints only the line of that server.",
            ],
            Self::Help => &[
                "Without an argument: the command line, and every parameter with its default. With the \
                 name of a parameter: its values, its default, and whether it can change at runtime.",
            ],
            Self::Check => &[
                "Verifies RDB files, append-only files of Redis, Valkey and Petrel, manifests, and the \
                 files that a manifest names. Of a directory, its manifests are checked; without one, \
                 its RDB and append-only files. Nothing is changed without --fix or --cut.",
                "--cut keeps what it cuts off in a file beside. Stop the server before: files in use may \
                 end in a write that is under way.",
                "The exit code is 0 if every file is whole or was repaired, else 1.",
            ],
            Self::Backups => &[
                "URL is a value of backup-store: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, \
                 az://CONTAINER/PREFIX or file:///DIRECTORY. Credentials are taken from the environment, \
                 as by the server.",
                "Each line is a name for restore-from: petrel --restore-from URL@NAME.",
            ],
            Self::Ping => &[
                "ADDRESS is HOST:PORT (127.0.0.1:6379 if it is left out), the path of a Unix socket, or \
                 http://HOST:PORT/PATH at a server's http-port, where /health and /ready are answered.",
                "The exit code is 0 if the server answers PONG or, over HTTP, with status 200; else 1, \
                 with the answer on standard error. A server that asks for a password has answered too, \
                 but does not say whether its data is loaded: set REDISCLI_AUTH (and REDISCLI_USER) in \
                 the environment, or ask /ready. A server with tls-port alone is asked by http-port or \
                 unixsocket.",
            ],
            Self::Cli => &[
                "Executes COMMAND at a server, 127.0.0.1:6379 unless -h HOST, -p PORT, -s SOCKET or -u URI \
                 name another, and prints its reply. Without a command it reads commands: with completion, \
                 hints and help on a terminal, else a line each.",
                "Options stand before the command and are those of redis-cli: -a PASSWORD (better: \
                 REDISCLI_AUTH in the environment), -n DATABASE, -2 and -3 for the protocol, -c to follow a \
                 cluster's redirections, -r TIMES, -i SECONDS, -x and -X TAG for an argument from standard \
                 input, -e to exit with code 1 after an error. petrel cli --help lists them all.",
            ],
        }
    }

    /// Finds a subcommand by its word.
    pub fn find(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|subcommand| subcommand.name().as_bytes() == word)
    }

    /// Reads the arguments behind its name.
    pub(super) fn parse(self, args: Vec<Vec<u8>>) -> Result<Invocation, ConfigError> {
        if self == Self::Cli {
            let args = args.into_iter().map(OsString::from_vec).collect();
            return Ok(Invocation::Cli(args));
        }
        let own = args.iter().take_while(|arg| *arg != b"--");
        if own.clone().any(|arg| arg == b"--help" || arg == b"-h") {
            return Ok(Invocation::Help(Topic::Subcommand(self)));
        }
        let mut words = Words { subcommand: self, args: args.into_iter(), only_operands: false };
        match self {
            Self::Version => {
                let none = words.at_most_one("no arguments", 0)?;
                debug_assert!(none.is_none());
                Ok(Invocation::Version)
            }
            Self::Help => {
                let word = words.at_most_one("one name", 1)?;
                Ok(Invocation::Help(word.map_or(Ok(Topic::All), |word| self.topic(&word))?))
            }
            Self::Check => self.check(words),
            Self::Backups => match words.at_most_one("one URL", 1)? {
                Some(url) => Ok(Invocation::Backups(lossy(url))),
                None => Err(self.usage("of which store? Usage: petrel backups URL")),
            },
            Self::Ping => self.ping(words),
            Self::Cli => unreachable!("its arguments are its own"),
        }
    }

    fn topic(self, word: &[u8]) -> Result<Topic, ConfigError> {
        let name = word.strip_prefix(b"--").unwrap_or(word);
        if let Some(subcommand) = Self::find(name) {
            return Ok(Topic::Subcommand(subcommand));
        }
        let param = Param::find(name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            let word = String::from_utf8_lossy(word);
            self.usage(format!("no parameter and no subcommand ({names}) is named '{word}'"))
        })?;
        Ok(Topic::Parameter(param.name))
    }

    fn check(self, mut words: Words) -> Result<Invocation, ConfigError> {
        let mut line = CheckLine::default();
        while let Some(word) = words.next()? {
            match word {
                Word::Option(name) if name == FIX => line.cut = line.cut.max(Cut::End),
                Word::Option(name) if name == CUT => line.cut = Cut::Damage,
                Word::Option(name) => return Err(words.unknown(&name)),
                Word::Operand(path) => line.paths.push(OsString::from_vec(path).into()),
            }
        }
        if line.paths.is_empty() {
            let usage = format!("no file given. Usage: petrel check {}", self.arguments());
            return Err(self.usage(usage));
        }
        Ok(Invocation::Check(line))
    }

    fn ping(self, mut words: Words) -> Result<Invocation, ConfigError> {
        let mut timeout = DEFAULT_TIMEOUT;
        let mut address = None;
        while let Some(word) = words.next()? {
            match word {
                Word::Option(name) if name == TIMEOUT => {
                    let value = lossy(words.args.next().unwrap_or_default());
                    let seconds = value.parse().ok().filter(|s| (0.001..=TIMEOUT_MAX).contains(s));
                    let seconds = seconds.ok_or_else(|| {
                        self.usage(format!(
                            "{TIMEOUT} '{value}': not between 0.001 and 3600 seconds"
                        ))
                    })?;
                    timeout = Duration::from_secs_f64(seconds);
                }
                Word::Option(name) => return Err(words.unknown(&name)),
                Word::Operand(_) if address.is_some() => {
                    return Err(self.usage("it takes one address"));
                }
                Word::Operand(word) => address = Some(word),
            }
        }
        let address = address.unwrap_or_else(|| DEFAULT_ADDRESS.into());
        Ok(Invocation::Ping(PingLine { target: self.target(address)?, timeout }))
    }

    fn target(self, address: Vec<u8>) -> Result<Target, ConfigError> {
        let has_port = |text: &str| {
            text.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
            })
        };
        if let Some(rest) = address.strip_prefix(b"http://") {
            let rest = String::from_utf8_lossy(rest);
            let (host, path) = rest.split_once('/').unwrap_or((&rest, "health"));
            // Neither may end the request's line.
            let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic());
            if !has_port(host) || !is_plain {
                let text = format!("'http://{rest}' is not http://HOST:PORT/PATH");
                return Err(self.usage(text));
            }
            return Ok(Target::Http(host.to_owned(), format!("/{path}")));
        }
        if address.contains(&b'/') {
            return Ok(Target::Unix(OsString::from_vec(address).into()));
        }
        let text = lossy(address);
        if !has_port(&text) {
            return Err(self.usage(format!(
                "'{text}' is not HOST:PORT; the path of a Unix socket has a slash, such as ./{text}"
            )));
        }
        Ok(Target::Tcp(text))
    }

    fn usage(self, reason: impl Into<String>) -> ConfigError {
        let problem = Problem::Usage { subcommand: self.name(), reason: reason.into() };
        ConfigError { location: None, problem }
    }
}

/// Arguments of a subcommand; `--` ends the options.
struct Words {
    subcommand: Subcommand,
    args: std::vec::IntoIter<Vec<u8>>,
    only_operands: bool,
}

/// An argument.
enum Word {
    Option(String),
    Operand(Vec<u8>),
}

impl Words {
    fn next(&mut self) -> Result<Option<Word>, ConfigError> {
        let Some(arg) = self.args.next() else { return Ok(None) };
        if self.only_operands || arg.len() < 2 || arg[0] != b'-' {
            return Ok(Some(Word::Operand(arg)));
        }
        if arg == b"--" {
            self.only_operands = true;
            return self.next();
        }
        Ok(Some(Word::Option(lossy(arg))))
    }

    /// The only operand, of a subcommand that has no options and takes `limit` operands.
    fn at_most_one(&mut self, takes: &str, limit: usize) -> Result<Option<Vec<u8>>, ConfigError> {
        let mut found = Vec::new();
        while let Some(word) = self.next()? {
            match word {
                Word::Option(name) if self.subcommand != Subcommand::Help => {
                    return Err(self.unknown(&name));
                }
                Word::Option(name) => found.push(name.into_bytes()),
                Word::Operand(word) => found.push(word),
            }
        }
        if found.len() > limit {
            let name = self.subcommand.name();
            let text =
                format!("it takes {takes}; a configuration file named {name} is given as ./{name}");
            return Err(self.subcommand.usage(text));
        }
        Ok(found.pop())
    }

    fn unknown(&self, option: &str) -> ConfigError {
        let name = self.subcommand.name();
        self.subcommand.usage(format!(
            "unknown option '{option}'; a configuration file named {name} is given as ./{name}"
        ))
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invoke(args: &[&str]) -> Result<Invocation, ConfigError> {
        Invocation::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn a_subcommand_is_no_file_unless_it_is_given_as_a_path() {
        let line = |paths: &[&str], cut| {
            let paths = paths.iter().map(PathBuf::from).collect();
            Invocation::Check(CheckLine { paths, cut })
        };
        assert_eq!(invoke(&["check", "a", "b"]).unwrap(), line(&["a", "b"], Cut::Nothing));
        assert_eq!(invoke(&["check", "a", "--fix"]).unwrap(), line(&["a"], Cut::End));
        assert_eq!(invoke(&["check", "--cut", "--fix", "a"]).unwrap(), line(&["a"], Cut::Damage));
        let dashed = line(&["--fix", "-h"], Cut::Nothing);
        assert_eq!(invoke(&["check", "--", "--fix", "-h"]).unwrap(), dashed);
        for name in Subcommand::ALL.map(Subcommand::name) {
            let file = format!("./{name}");
            match invoke(&[&file, "--port", "1"]).unwrap() {
                Invocation::Start(command) => assert_eq!(command.file, Some(file.into())),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(invoke(&["backups", "s3://b"]).unwrap(), Invocation::Backups("s3://b".into()));
        for (args, expected) in [
            (
                "check",
                "check: no file given. Usage: petrel check [--fix | --cut] FILE-OR-DIRECTORY",
            ),
            (
                "check --port 1",
                "unknown option '--port'; a configuration file named check is given as ./check",
            ),
            (
                "version --port 1",
                "unknown option '--port'; a configuration file named version is given as ./version",
            ),
            ("version x", "version: it takes no arguments; a configuration file"),
            ("backups", "backups: of which store? Usage: petrel backups URL"),
            ("backups a b", "backups: it takes one URL"),
            (
                "help nosuch",
                "no parameter and no subcommand (cli, check, backups, ping, version, help) is named 'nosuch'",
            ),
        ] {
            let error = invoke(&args.split(' ').collect::<Vec<_>>()).unwrap_err().to_string();
            let name = args.split(' ').next().unwrap();
            assert!(error.contains(expected), "{error}");
            assert!(error.ends_with(&format!("; see petrel {name} --help")), "{error}");
        }
    }

    #[test]
    fn ping_takes_an_address_of_each_kind() {
        let target = |args: &[&str]| match invoke(&[&["ping"], args].concat()) {
            Ok(Invocation::Ping(line)) => Ok((line.target, line.timeout.as_millis())),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        };
        let tcp = |text: &str| Target::Tcp(text.into());
        assert_eq!(target(&[]), Ok((tcp("127.0.0.1:6379"), 3000)));
        assert_eq!(target(&["--timeout", "0.5", "[::1]:1"]), Ok((tcp("[::1]:1"), 500)));
        assert_eq!(target(&["./s"]), Ok((Target::Unix("./s".into()), 3000)));
        let http = |host: &str, path: &str| Target::Http(host.into(), path.into());
        assert_eq!(target(&["http://h:1/ready"]), Ok((http("h:1", "/ready"), 3000)));
        assert_eq!(target(&["http://h:1"]), Ok((http("h:1", "/health"), 3000)));
        for bad in ["s", "h:", ":1", "h:0", "h:70000", "http://h/health", "http://h:1/a\nb", "-x"] {
            assert!(target(&[bad]).is_err(), "{bad}");
        }
        for bad in ["0", "-1", "x", "nan", "3601", ""] {
            assert!(target(&["--timeout", bad]).unwrap_err().contains("--timeout"), "{bad}");
        }
        assert!(target(&["a:1", "b:1"]).unwrap_err().contains("one address"));
    }
}
