//! `petrel cli`: a command line for servers that speak RESP, with redis-cli's options and forms of
//! output.
//!
//! | file | holds |
//! |---|---|
//! | `options` | the arguments |
//! | `connection`, `tls` | a connection that waits for its replies |
//! | `format`, `quote` | replies as text |
//! | `cli` | a command, its redirections, the state of the connection |
//! | `session`, `docs` | the interactive session: help, hints, completion by the command table |
//! | `modes` | `--stat`, `--latency`, `--scan`, `--bigkeys`, `--pipe`, `--rdb` and their like |

mod cli;
mod connection;
mod docs;
mod format;
mod modes;
mod options;
mod quote;
mod session;
mod tls;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;

use cli::{Cli, Outcome};
use options::{Mode, Options, Parsed, Protocol, Stdin, unquoted};

/// The help text.
pub const HELP: &str = include_str!("help.txt");

/// Runs the command line behind `petrel cli`; `version` is printed by `--version`.
pub fn run(args: impl IntoIterator<Item = OsString>, version: &str) -> ExitCode {
    let options = match options::parse(args) {
        Ok(Parsed::Run(options)) => *options,
        Ok(Parsed::Help) => return shown(HELP),
        Ok(Parsed::Version) => return shown(&format!("{version}\n")),
        Err(error) => return failed(&format!("{error}; see petrel cli --help")),
    };
    match work(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    }
}

fn shown(text: &str) -> ExitCode {
    // The reader that closed the pipe has read enough.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn failed(error: &str) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

/// Does the work; `false` if it is to end with code 1 without a further line.
fn work(mut options: Options) -> Result<bool, String> {
    if let Mode::IntrinsicLatency(seconds) = options.mode {
        modes::intrinsic_latency(seconds);
        return Ok(true);
    }
    if options.ask_password {
        options.target.password = Some(ask_password()?);
    } else if options.password_is_visible && !options.no_auth_warning {
        eprintln!(
            "Warning: Using a password with '-a' or '-u' option on the command line interface may \
             not be safe."
        );
    }
    // These read more than replies.
    if matches!(options.mode, Mode::Rdb(..) | Mode::Replica | Mode::Pipe(_)) {
        options.target.protocol = Protocol::Two;
    }
    let mode = options.mode.clone();
    let mut cli = Cli::new(options);
    let done = match mode {
        Mode::Command if cli.options.command.is_empty() => {
            let has_failed = session::run(&mut cli)?;
            return Ok(!(has_failed && cli.options.fail_on_error));
        }
        Mode::Command => return command(&mut cli),
        Mode::Eval(path) => {
            let script = std::fs::read(&path)
                .map_err(|error| format!("{}: {}", path.display(), connection::reason(&error)))?;
            cli.options.command = eval(script, std::mem::take(&mut cli.options.command));
            return command(&mut cli);
        }
        Mode::Pipe(timeout) => return modes::pipe(&mut cli, timeout),
        Mode::Stat => modes::stat(&mut cli),
        Mode::Latency => modes::latency(&mut cli, false),
        Mode::LatencyHistory => modes::latency(&mut cli, true),
        Mode::Scan => modes::scan(&mut cli),
        Mode::BigKeys => modes::big_keys(&mut cli),
        Mode::MemKeys(samples) => modes::memory_of_keys(&mut cli, samples),
        Mode::HotKeys => modes::hot_keys(&mut cli),
        Mode::Rdb(path, contents) => modes::rdb(&mut cli, &path, contents),
        Mode::Replica => modes::replica(&mut cli),
        Mode::IntrinsicLatency(_) => Ok(()),
    };
    done.map(|()| true)
}

/// The command that executes a script: keys, a comma, arguments.
fn eval(script: Vec<u8>, words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let keys = words.iter().position(|word| word == b",").unwrap_or(words.len());
    let mut command = vec![b"EVAL".to_vec(), script, keys.to_string().into_bytes()];
    command.extend(words.into_iter().enumerate().filter(|(i, _)| *i != keys).map(|(_, word)| word));
    command
}

/// Executes the command of the arguments as often as they say.
fn command(cli: &mut Cli) -> Result<bool, String> {
    let mut words = std::mem::take(&mut cli.options.command);
    if cli.options.quoted_input {
        for word in &mut words {
            *word = unquoted(word).ok_or("--quoted-input: wrong quotes")?;
        }
    }
    match &cli.options.stdin {
        Stdin::Unused => {}
        Stdin::Last => words.push(read_stdin()?),
        Stdin::Tag(tag) => {
            let place = words.iter().rposition(|word| word == tag);
            words[place.ok_or("-X: no argument is the tag")?] = read_stdin()?;
        }
    }
    let mut left = cli.options.repeat;
    let mut is_whole = true;
    while left != 0 {
        match cli.execute(&words)? {
            Outcome::Done => {}
            Outcome::Failed => is_whole = false,
            Outcome::Quit => break,
        }
        if !is_whole && cli.options.fail_on_error {
            return Ok(false);
        }
        // A negative number never ends.
        left = if left > 0 { left - 1 } else { left };
        if let Some(interval) = cli.options.interval.filter(|_| left != 0) {
            std::thread::sleep(interval);
        }
    }
    Ok(true)
}

fn read_stdin() -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Reads a password from the terminal, which does not show it.
fn ask_password() -> Result<Vec<u8>, String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let stdin = io::stdin();
    eprint!("Please input password: ");
    let before = stdin.is_terminal().then(|| tcgetattr(&stdin)).transpose();
    let before = before.map_err(|error| error.to_string())?;
    if let Some(before) = &before {
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO;
        tcsetattr(&stdin, OptionalActions::Now, &silent).map_err(|error| error.to_string())?;
    }
    let mut line = String::new();
    let read = stdin.read_line(&mut line);
    if let Some(before) = &before {
        tcsetattr(&stdin, OptionalActions::Now, before).map_err(|error| error.to_string())?;
    }
    eprintln!();
    read.map_err(|error| error.to_string())?;
    Ok(line.trim_end_matches(['\r', '\n']).as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_keys_before_a_comma() {
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let command = eval(b"s".to_vec(), words("a b , c"));
        assert_eq!(command, [&b"EVAL"[..], b"s", b"2", b"a", b"b", b"c"]);
        assert_eq!(eval(b"s".to_vec(), words(", c"))[2..], [&b"0"[..], b"c"]);
        assert_eq!(eval(b"s".to_vec(), words("a"))[2..], [&b"1"[..], b"a"]);
    }
}
