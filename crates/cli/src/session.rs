//! The interactive session: lines, history, hints.

use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::cli::{Cli, Outcome};
use crate::connection::shown;
use crate::docs::{self, Entry};

/// Lines kept in the history.
const HISTORY_LEN: usize = 1000;

/// Continuation after a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Line,
    End,
}

/// Reads commands until the end of the input, or `quit`. Returns whether the last one failed.
pub fn run(cli: &mut Cli) -> Result<bool, String> {
    if !io::stdin().is_terminal() {
        return run_lines(cli);
    }
    cli.is_interactive = true;
    if let Err(error) = cli.connection() {
        eprintln!("{error}");
    }
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(HISTORY_LEN)
        .map_err(|error| error.to_string())?
        .build();
    let mut editor: Editor<Words, DefaultHistory> =
        Editor::with_config(config).map_err(|error| error.to_string())?;
    editor.set_helper(Some(Words { entries: docs::entries(), has_hints: true }));
    let file = history_file();
    if let Some(file) = &file {
        // There is none at first.
        let _ = editor.load_history(file);
    }
    let mut failed = false;
    loop {
        let line = match editor.readline(&prompt(cli)) {
            Ok(line) => line,
            // An empty line ends as in redis-cli.
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => break,
            Err(error) => return Err(error.to_string()),
        };
        if is_remembered(&line) {
            let _ = editor.add_history_entry(line.trim());
            if let Some(file) = &file {
                let _ = editor.save_history(file);
            }
        }
        match setting(&line) {
            Some(Ok(has_hints)) => {
                if let Some(words) = editor.helper_mut() {
                    words.has_hints = has_hints;
                }
                continue;
            }
            Some(Err(text)) => {
                println!("{text}");
                continue;
            }
            None => {}
        }
        let (next, line_failed) = evaluate(cli, line.as_bytes());
        failed = line_failed;
        if next == Next::End {
            break;
        }
    }
    Ok(failed)
}

/// Executes the lines of a file or pipe.
fn run_lines(cli: &mut Cli) -> Result<bool, String> {
    let mut failed = false;
    cli.connection()?;
    for line in io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| error.to_string())?;
        let (next, line_failed) = evaluate(cli, &line);
        failed |= line_failed;
        if next == Next::End || (failed && cli.options.fail_on_error) {
            break;
        }
    }
    Ok(failed)
}

/// The prompt: address, database, transaction.
fn prompt(cli: &Cli) -> String {
    if cli.connection.is_none() {
        return "not connected> ".into();
    }
    let target = &cli.options.target;
    let database = match target.database {
        0 => String::new(),
        database => format!("[{database}]"),
    };
    let transaction = if cli.in_transaction { "(TX)" } else { "" };
    format!("{}{database}{transaction}> ", shown(target))
}

/// `PETREL_HISTFILE`, or a file in the home directory.
fn history_file() -> Option<PathBuf> {
    if let Some(file) = std::env::var_os("PETREL_HISTFILE") {
        return (!file.is_empty()).then(|| file.into());
    }
    Some(PathBuf::from(std::env::var_os("HOME")?).join(".petrel_history"))
}

/// Whether a line may be written to the history: it holds no password.
fn is_remembered(line: &str) -> bool {
    let words: Vec<_> = line.split_whitespace().map(str::to_ascii_lowercase).collect();
    let has = |word: &str| words.iter().any(|other| other == word);
    match words.first().map(String::as_str) {
        None | Some("auth") => false,
        Some("acl") => !has("setuser"),
        Some("hello") => !has("auth"),
        Some("migrate") => !has("auth") && !has("auth2"),
        Some("config") => ![
            "requirepass",
            "masterauth",
            "primaryauth",
            "masteruser",
            "primaryuser",
            "tls-key-file-pass",
        ]
        .iter()
        .any(|word| has(word)),
        Some("sentinel") => !has("auth-pass"),
        Some(_) => true,
    }
}

/// Reads `:set hints` and `:set nohints`.
fn setting(line: &str) -> Option<Result<bool, String>> {
    let words: Vec<_> = line.split_whitespace().collect();
    let first = words.first()?;
    if !first.starts_with(':') {
        return None;
    }
    Some(match words[..] {
        [":set", "hints"] => Ok(true),
        [":set", "nohints"] => Ok(false),
        _ => Err("unknown setting: there are :set hints and :set nohints".into()),
    })
}

/// Executes a line; whether it was the last, and whether it failed.
fn evaluate(cli: &mut Cli, line: &[u8]) -> (Next, bool) {
    let Ok(mut words) = petrel_resp::split_words(line) else {
        println!("Invalid argument(s)");
        return (Next::Line, true);
    };
    if words.is_empty() {
        return (Next::Line, false);
    }
    let mut repeat = 1;
    if words.len() > 1
        && let Some(times) = std::str::from_utf8(&words[0]).ok().and_then(|word| word.parse().ok())
    {
        let times: u64 = times;
        repeat = times;
        words.remove(0);
    }
    if let Some(next) = local(cli, &words) {
        return (next, false);
    }
    for _ in 0..repeat {
        match cli.execute(&words) {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Failed) => return (Next::Line, true),
            Ok(Outcome::Quit) => return (Next::End, false),
            Err(error) => {
                eprintln!("Error: {error}");
                return (Next::Line, true);
            }
        }
    }
    (Next::Line, false)
}

/// Executes a command of the session itself, such as `help`.
fn local(cli: &mut Cli, words: &[Vec<u8>]) -> Option<Next> {
    let texts: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let texts: Vec<&str> = texts.iter().map(Cow::as_ref).collect();
    match (&*texts[0].to_ascii_lowercase(), &texts[1..]) {
        ("quit" | "exit", []) => Some(Next::End),
        ("help" | "?", topic) => {
            print!("{}", docs::help(&docs::entries(), topic));
            Some(Next::Line)
        }
        ("clear", []) => {
            print!("\x1b[H\x1b[2J");
            Some(Next::Line)
        }
        ("connect", [host, port]) => {
            match port.parse() {
                Ok(port) => connect(cli, host, port),
                Err(_) => println!("connect: '{port}' is not a port"),
            }
            Some(Next::Line)
        }
        _ => None,
    }
}

fn connect(cli: &mut Cli, host: &str, port: u16) {
    let target = &mut cli.options.target;
    (target.host, target.port, target.socket) = (host.to_owned(), port, None);
    cli.disconnect();
    if let Err(error) = cli.connection() {
        println!("{error}");
    }
}

/// Completion and hints of a line.
struct Words {
    entries: Vec<Entry>,
    has_hints: bool,
}

impl Helper for Words {}
impl Validator for Words {}

impl Highlighter for Words {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[90m{hint}\x1b[0m"))
    }
}

impl Hinter for Words {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, _: &Context<'_>) -> Option<String> {
        if !self.has_hints || position < line.len() || line.trim().is_empty() {
            return None;
        }
        let words: Vec<_> = line.split_whitespace().collect();
        let hint = docs::hint(&self.entries, &words)?;
        let blank = if line.ends_with(' ') { "" } else { " " };
        Some(format!("{blank}{hint}"))
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..position];
        let start = typed.rfind(' ').map_or(0, |blank| blank + 1);
        let before: Vec<_> = typed[..start].split_whitespace().collect();
        let found = docs::complete(&self.entries, &before, &typed[start..]);
        let pair = |word: String| Pair { display: word.clone(), replacement: word + " " };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_stay_out_of_the_history() {
        for line in [
            "AUTH x",
            "auth u p",
            "acl SETUSER a >p",
            "hello 3 AUTH u p",
            "CONFIG SET requirepass x",
            "migrate h 1 k 0 5 AUTH p",
            "  ",
        ] {
            assert!(!is_remembered(line), "{line}");
        }
        assert!(is_remembered("config get maxmemory"));
        assert!(is_remembered("set auth 1"));
    }

    #[test]
    fn settings() {
        assert_eq!(setting("get k"), None);
        assert_eq!(setting(":set nohints"), Some(Ok(false)));
        assert!(setting(":set x").unwrap().is_err());
    }
}
