//! The command line: redis-cli's options, under its names.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::format::{Delimiters, Form};

/// Address and credentials of a server, and how to talk to it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Target {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path of a Unix socket, which is used in place of host and port.
    pub socket: Option<PathBuf>,
    /// TLS, if wanted.
    pub tls: Option<TlsOptions>,
    /// User of `AUTH`.
    pub user: Option<Vec<u8>>,
    /// Password of `AUTH`.
    pub password: Option<Vec<u8>>,
    /// Database.
    pub database: u32,
    /// Protocol.
    pub protocol: Protocol,
    /// Time limit of connecting.
    pub timeout: Option<Duration>,
}

/// Version of RESP to ask for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Protocol {
    /// RESP2, without `HELLO`, unless the form of output is better with RESP3.
    #[default]
    Default,
    /// RESP2, without `HELLO`.
    Two,
    /// RESP3.
    Three,
    /// RESP3 where the server has it.
    ThreeIfKnown,
}

/// Certificates of a TLS connection.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsOptions {
    /// Name that the certificate is for, if it is not the host.
    pub sni: Option<String>,
    /// File of trusted certificates.
    pub cacert: Option<PathBuf>,
    /// Directory of trusted certificates.
    pub cacertdir: Option<PathBuf>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
    /// File of the client's certificate.
    pub cert: Option<PathBuf>,
    /// File of its key.
    pub key: Option<PathBuf>,
}

/// Work to do.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// A command, or a session if there is none.
    #[default]
    Command,
    /// Prints a line of statistics per interval.
    Stat,
    /// Measures the time of `PING`.
    Latency,
    /// Likewise, with a line per interval.
    LatencyHistory,
    /// Measures the longest time that this process is not run; for this number of seconds.
    IntrinsicLatency(u64),
    /// Lists keys.
    Scan,
    /// Finds the keys with most elements.
    BigKeys,
    /// Finds the keys with most memory, by this number of samples per key.
    MemKeys(Option<u64>),
    /// Finds the keys with the highest LFU counters.
    HotKeys,
    /// Sends requests from standard input; gives up after this number of seconds without an
    /// answer.
    Pipe(u64),
    /// Executes the script of a file.
    Eval(PathBuf),
    /// Stores an RDB file of the server's data, or of its functions only.
    Rdb(PathBuf, Contents),
    /// Prints the commands that a replica is sent.
    Replica,
}

/// Contents of an RDB file to ask for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Contents {
    /// Keys and functions.
    All,
    /// Functions.
    Functions,
}

/// Input that becomes an argument of the command.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Stdin {
    /// None.
    #[default]
    Unused,
    /// The last argument.
    Last,
    /// In place of the argument that is this word.
    Tag(Vec<u8>),
}

/// A whole command line.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// The server.
    pub target: Target,
    /// Work to do.
    pub mode: Mode,
    /// Form of replies; by default that of a terminal or a pipe.
    pub form: Option<Form>,
    /// Delimiters of raw output.
    pub delimiters: Delimiters,
    /// Number of executions of a command; -1: without end.
    pub repeat: i64,
    /// Pause between executions, samples or lines.
    pub interval: Option<Duration>,
    /// Use of standard input.
    pub stdin: Stdin,
    /// Whether redirections of a cluster are followed.
    pub cluster: bool,
    /// Whether an error reply ends the program with code 1.
    pub fail_on_error: bool,
    /// Whether pushes are printed.
    pub show_pushes: Option<bool>,
    /// Whether a password is read from the terminal.
    pub ask_password: bool,
    /// Whether the warning of a password among the arguments is left out.
    pub no_auth_warning: bool,
    /// Whether the arguments of the command are quoted strings.
    pub quoted_input: bool,
    /// Pattern of keys.
    pub pattern: Option<Vec<u8>>,
    /// `COUNT` of `SCAN`.
    pub count: Option<u64>,
    /// Cursor at which `SCAN` starts.
    pub cursor: u64,
    /// Whether the password came from the command line.
    pub password_is_visible: bool,
    /// The command.
    pub command: Vec<Vec<u8>>,
}

/// Meaning of the arguments.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Parsed {
    /// Work with a server.
    Run(Box<Options>),
    /// The help text.
    Help,
    /// The version.
    Version,
}

/// Time without a reply after which `--pipe` gives up, in seconds.
const PIPE_TIMEOUT: u64 = 30;

impl Options {
    /// The options without any argument.
    pub fn new() -> Self {
        let target = Target { host: "127.0.0.1".into(), port: 6379, ..Target::default() };
        Self { target, repeat: 1, ..Self::default() }
    }

    /// TLS's options, for one of them: they ask for TLS only with `--tls`.
    fn fill_in(&mut self, tls: Option<TlsOptions>) {
        if self.target.tls.is_some() {
            self.target.tls = tls;
        }
    }

    /// Reads `redis://user:password@host:port/database`, and `rediss://`, `petrel://` and
    /// `valkey://` likewise.
    fn read_uri(&mut self, uri: &[u8]) -> Result<(), String> {
        let uri = std::str::from_utf8(uri).map_err(|_| "-u: the URI is not UTF-8")?;
        let (scheme, rest) = uri.split_once("://").ok_or("-u: a URI is redis://HOST:PORT/DB")?;
        match scheme {
            "redis" | "valkey" | "petrel" => {}
            "rediss" | "valkeys" => self.target.tls = Some(TlsOptions::default()),
            _ => return Err(format!("-u: '{scheme}' is neither redis nor rediss")),
        }
        let (rest, _) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let address = match authority.rsplit_once('@') {
            Some((user, address)) => {
                let (user, password) = user.split_once(':').unwrap_or(("", user));
                self.target.user = Some(decoded(user)?).filter(|user| !user.is_empty());
                self.target.password = Some(decoded(password)?);
                self.password_is_visible = true;
                address
            }
            None => authority,
        };
        let (host, port) = split_address(address)?;
        if !host.is_empty() {
            self.target.host = host.to_owned();
        }
        if let Some(port) = port {
            self.target.port = port;
        }
        if !database.is_empty() {
            self.target.database = number("-u", database)?;
        }
        Ok(())
    }
}

/// Parts `HOST:PORT`; an IPv6 address stands in brackets.
fn split_address(address: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("-u: ']' is missing")?;
            (host, rest.strip_prefix(':'))
        }
        None => address.rsplit_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    Ok((host, port.map(|port| number("-u", port)).transpose()?))
}

/// Decodes `%HH`.
fn decoded(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.ok_or("-u: '%' is not followed by two hexadecimal digits")?);
        rest = &after[2..];
    }
    Ok(out)
}

fn number<N: std::str::FromStr>(option: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{option}: '{text}' is not a number in range"))
}

fn seconds(option: &str, text: &str) -> Result<Duration, String> {
    let seconds: f64 = number(option, text)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{option}: '{text}' is no time"))
}

/// Arguments, and the name of the option that is being read.
struct Words {
    args: std::vec::IntoIter<Vec<u8>>,
    option: String,
}

impl Words {
    fn value(&mut self) -> Result<Vec<u8>, String> {
        self.args.next().ok_or_else(|| format!("{} needs a value", self.option))
    }

    fn text(&mut self) -> Result<String, String> {
        let value = self.value()?;
        String::from_utf8(value).map_err(|_| format!("{}: the value is not UTF-8", self.option))
    }

    fn number<N: std::str::FromStr>(&mut self) -> Result<N, String> {
        number(&self.option.clone(), &self.text()?)
    }

    fn seconds(&mut self) -> Result<Duration, String> {
        seconds(&self.option.clone(), &self.text()?)
    }

    fn path(&mut self) -> Result<PathBuf, String> {
        Ok(OsString::from_vec(self.value()?).into())
    }
}

/// Reads the arguments behind the program's name.
///
/// # Errors
/// Says in a line which argument is wrong.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Parsed, String> {
    let args: Vec<Vec<u8>> = args.into_iter().map(OsStringExt::into_vec).collect();
    let mut words = Words { args: args.into_iter(), option: String::new() };
    let mut options = Options::new();
    let mut tls = TlsOptions::default();
    while let Some(arg) = words.args.next() {
        if arg.first() != Some(&b'-') || arg.len() < 2 {
            options.command = std::iter::once(arg).chain(words.args.by_ref()).collect();
            break;
        }
        words.option = String::from_utf8_lossy(&arg).into_owned();
        match &*words.option.clone() {
            "--help" => return Ok(Parsed::Help),
            "-v" | "--version" => return Ok(Parsed::Version),
            option => {
                let known = connection(option, &mut words, &mut options, &mut tls)?
                    || output(option, &mut words, &mut options)?
                    || mode(option, &mut words, &mut options)?;
                if !known {
                    return Err(format!("unknown option '{option}'"));
                }
            }
        }
    }
    if options.target.password.is_none() && !options.ask_password {
        let variable = std::env::var_os("REDISCLI_AUTH").map(OsStringExt::into_vec);
        options.target.password = variable.filter(|password| !password.is_empty());
    }
    options.fill_in(Some(tls));
    check(&options)?;
    Ok(Parsed::Run(Box::new(options)))
}

fn check(options: &Options) -> Result<(), String> {
    if options.target.user.is_some() && options.target.password.is_none() && !options.ask_password {
        return Err("--user needs a password: -a, --askpass or REDISCLI_AUTH".into());
    }
    if options.stdin != Stdin::Unused && options.command.is_empty() {
        return Err("-x and -X need a command".into());
    }
    if let Stdin::Tag(tag) = &options.stdin
        && !options.command.contains(tag)
    {
        let tag = String::from_utf8_lossy(tag);
        return Err(format!("-X: no argument of the command is '{tag}'"));
    }
    Ok(())
}

/// Reads an option of the connection; `false` if it is none.
fn connection(
    option: &str,
    words: &mut Words,
    options: &mut Options,
    tls: &mut TlsOptions,
) -> Result<bool, String> {
    let target = &mut options.target;
    match option {
        "-h" => target.host = words.text()?,
        "-p" => target.port = words.number()?,
        "-s" => target.socket = Some(words.path()?),
        "-a" | "--pass" => {
            target.password = Some(words.value()?);
            options.password_is_visible = true;
        }
        "--user" => target.user = Some(words.value()?),
        "--askpass" => options.ask_password = true,
        "--no-auth-warning" => options.no_auth_warning = true,
        "-u" => {
            let uri = words.value()?;
            options.read_uri(&uri)?;
        }
        "-n" => target.database = words.number()?,
        "-2" => target.protocol = Protocol::Two,
        "-3" => target.protocol = Protocol::Three,
        "-t" => target.timeout = Some(words.seconds()?),
        "-c" => options.cluster = true,
        "--tls" => target.tls = Some(TlsOptions::default()),
        "--sni" => tls.sni = Some(words.text()?),
        "--cacert" => tls.cacert = Some(words.path()?),
        "--cacertdir" => tls.cacertdir = Some(words.path()?),
        "--insecure" => tls.insecure = true,
        "--cert" => tls.cert = Some(words.path()?),
        "--key" => tls.key = Some(words.path()?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Reads an option of commands and their output; `false` if it is none.
fn output(option: &str, words: &mut Words, options: &mut Options) -> Result<bool, String> {
    match option {
        "--raw" => options.form = Some(Form::Raw),
        "--no-raw" => options.form = Some(Form::Typed),
        "--csv" => options.form = Some(Form::Csv),
        "--json" | "--quoted-json" => {
            let form = if option == "--json" { Form::Json } else { Form::QuotedJson };
            options.form = Some(form);
            if options.target.protocol == Protocol::Default {
                options.target.protocol = Protocol::ThreeIfKnown;
            }
        }
        "-d" => options.delimiters.elements = words.value()?,
        "-D" => options.delimiters.replies = words.value()?,
        "-r" => options.repeat = words.number()?,
        "-i" => options.interval = Some(words.seconds()?),
        "-x" => options.stdin = Stdin::Last,
        "-X" => options.stdin = Stdin::Tag(words.value()?),
        "-e" => options.fail_on_error = true,
        "--quoted-input" => options.quoted_input = true,
        "--show-pushes" => match &*words.text()?.to_ascii_lowercase() {
            "y" | "yes" => options.show_pushes = Some(true),
            "n" | "no" => options.show_pushes = Some(false),
            other => return Err(format!("--show-pushes: '{other}' is neither yes nor no")),
        },
        _ => return Ok(false),
    }
    Ok(true)
}

/// Reads an option that does other work than executing a command; `false` if it is none.
fn mode(option: &str, words: &mut Words, options: &mut Options) -> Result<bool, String> {
    let mode = match option {
        "--stat" => Mode::Stat,
        "--latency" => Mode::Latency,
        "--latency-history" => Mode::LatencyHistory,
        "--intrinsic-latency" => Mode::IntrinsicLatency(words.number()?),
        "--scan" => Mode::Scan,
        "--bigkeys" => Mode::BigKeys,
        "--memkeys" => Mode::MemKeys(None),
        "--memkeys-samples" => Mode::MemKeys(Some(words.number()?)),
        "--hotkeys" => Mode::HotKeys,
        "--pipe" => match options.mode {
            Mode::Pipe(timeout) => Mode::Pipe(timeout),
            _ => Mode::Pipe(PIPE_TIMEOUT),
        },
        "--pipe-timeout" => Mode::Pipe(words.number()?),
        "--eval" => Mode::Eval(words.path()?),
        "--rdb" => Mode::Rdb(words.path()?, Contents::All),
        "--functions-rdb" => Mode::Rdb(words.path()?, Contents::Functions),
        "--replica" | "--slave" => Mode::Replica,
        "--pattern" => {
            options.pattern = Some(words.value()?);
            return Ok(true);
        }
        "--quoted-pattern" => {
            let word = words.value()?;
            options.pattern = Some(unquoted(&word).ok_or("--quoted-pattern: wrong quotes")?);
            return Ok(true);
        }
        "--count" => {
            options.count = Some(words.number()?);
            return Ok(true);
        }
        "--cursor" => {
            options.cursor = words.number()?;
            return Ok(true);
        }
        _ => return Ok(false),
    };
    options.mode = mode;
    Ok(true)
}

/// Reads a word that may be quoted.
pub fn unquoted(word: &[u8]) -> Option<Vec<u8>> {
    let mut words = petrel_resp::split_words(word).ok()?;
    (words.len() == 1).then(|| words.remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        match parse(line.split_whitespace().map(OsString::from))? {
            Parsed::Run(options) => Ok(*options),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn options_end_at_the_command() {
        let options = read("-h a -p 7 -n 3 -3 --csv -r 2 set -p 8").unwrap();
        assert_eq!((&*options.target.host, options.target.port), ("a", 7));
        assert_eq!((options.target.database, options.target.protocol), (3, Protocol::Three));
        assert_eq!((options.form, options.repeat), (Some(Form::Csv), 2));
        assert_eq!(options.command, [&b"set"[..], b"-p", b"8"]);
        // A negative number is an argument of the command.
        assert_eq!(read("incrby k -1").unwrap().command.len(), 3);
        assert_eq!(read("--json get k").unwrap().target.protocol, Protocol::ThreeIfKnown);
    }

    #[test]
    fn uris() {
        let options = read("-u rediss://me:p%40ss@[::1]:7/2 --insecure ping").unwrap();
        let target = options.target;
        assert_eq!((&*target.host, target.port, target.database), ("::1", 7, 2));
        assert_eq!(target.user.as_deref(), Some(&b"me"[..]));
        assert_eq!(target.password.as_deref(), Some(&b"p@ss"[..]));
        assert!(target.tls.unwrap().insecure);
        let target = read("-u redis://secret@h").unwrap().target;
        assert_eq!((target.user, target.password), (None, Some(b"secret".to_vec())));
        for wrong in ["http://a", "redis//a", "redis://a:b", "redis://a%4", "redis://a/x"] {
            let line = format!("-u {}", wrong.replace("a%4", "a%4@h"));
            assert!(read(&line).unwrap_err().starts_with("-u: "), "{wrong}");
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (line, expected) in [
            ("-p", "-p needs a value"),
            ("-p 99999", "-p: '99999' is not a number in range"),
            ("-i -1 ping", "-i: '-1' is no time"),
            ("--nosuch", "unknown option '--nosuch'"),
            ("--show-pushes maybe", "--show-pushes: 'maybe' is neither yes nor no"),
            ("-X t get k", "-X: no argument of the command is 't'"),
            ("-x", "-x and -X need a command"),
        ] {
            assert_eq!(read(line).unwrap_err(), expected, "{line}");
        }
        assert_eq!(parse(["--help".into()]), Ok(Parsed::Help));
    }
}
