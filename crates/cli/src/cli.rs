//! A command line's connection, output and redirections.

use std::io::{self, IsTerminal, Write};

use petrel_resp::Value;

use crate::connection::{Connection, reason, shown};
use crate::format::{Form, format};
use crate::options::Options;

/// Redirections that one command follows, so that two nodes that name each other end it.
const REDIRECTIONS_MAX: usize = 16;

/// State between commands.
pub struct Cli {
    /// The command line.
    pub options: Options,
    /// The connection, if there is one.
    pub connection: Option<Connection>,
    /// Whether commands are queued by `MULTI`.
    pub in_transaction: bool,
    /// Whether a person types.
    pub is_interactive: bool,
}

/// End of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The reply is printed.
    Done,
    /// The reply is an error.
    Failed,
    /// The server was asked to close the connection.
    Quit,
}

impl Cli {
    /// A command line without a connection yet.
    pub fn new(options: Options) -> Self {
        Self { options, connection: None, in_transaction: false, is_interactive: false }
    }

    /// Form of replies.
    pub fn form(&self) -> Form {
        let is_terminal = io::stdout().is_terminal();
        self.options.form.unwrap_or(if is_terminal { Form::Typed } else { Form::Raw })
    }

    /// The connection, opened if there is none.
    ///
    /// # Errors
    /// Says why there is none.
    pub fn connection(&mut self) -> Result<&mut Connection, String> {
        // The server may have closed it since the last command.
        if self.connection.as_mut().is_some_and(Connection::is_closed) {
            self.disconnect();
        }
        if self.connection.is_none() {
            self.connection = Some(Connection::open(&self.options.target)?);
        }
        self.connection.as_mut().ok_or_else(|| "not connected".into())
    }

    /// Drops the connection.
    pub fn disconnect(&mut self) {
        self.connection = None;
        self.in_transaction = false;
    }

    /// Executes a command and prints its replies.
    ///
    /// # Errors
    /// Says that the connection failed, in a line.
    pub fn execute(&mut self, args: &[Vec<u8>]) -> Result<Outcome, String> {
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let name = words[0].to_ascii_uppercase();
        match &name[..] {
            b"MONITOR" => return self.follow(&words, Follow::Lines),
            b"SUBSCRIBE" | b"PSUBSCRIBE" | b"SSUBSCRIBE" => {
                return self.follow(&words, Follow::Messages);
            }
            b"SYNC" | b"PSYNC" => return Err("use --replica or --rdb for the stream".into()),
            _ => {}
        }
        let Some(reply) = self.ask_unless_stopped(&name, &words)? else {
            return Ok(Outcome::Done);
        };
        self.print_pushes();
        match &reply {
            Value::Error(text) if self.options.fail_on_error && !self.is_interactive => {
                eprintln!("{}", String::from_utf8_lossy(text));
            }
            reply => self.print(reply),
        }
        self.note(&name, &words, &reply);
        match reply {
            Value::Error(_) => Ok(Outcome::Failed),
            _ if name == b"QUIT" => {
                self.disconnect();
                Ok(Outcome::Quit)
            }
            _ => Ok(Outcome::Done),
        }
    }

    /// Sends a command as `ask` does; none if `SHUTDOWN` ended the server.
    fn ask_unless_stopped(
        &mut self,
        name: &[u8],
        words: &[&[u8]],
    ) -> Result<Option<Value>, String> {
        if name != b"SHUTDOWN" {
            return self.ask(words).map(Some);
        }
        match self.connection()?.call(words) {
            Err(error) if is_closed(&error) => {
                self.disconnect();
                Ok(None)
            }
            result => result.map(Some).map_err(|error| self.failed(&error)),
        }
    }

    /// Sends a command, following redirections with `-c`.
    fn ask(&mut self, words: &[&[u8]]) -> Result<Value, String> {
        let mut reply = self.call(words)?;
        for _ in 0..REDIRECTIONS_MAX {
            let Some(redirection) = self.redirection(&reply) else { break };
            if self.is_interactive {
                let Redirection { slot, host, port, .. } = &redirection;
                println!("-> Redirected to slot [{slot}] located at {host}:{port}");
            }
            self.disconnect();
            (self.options.target.host, self.options.target.port) =
                (redirection.host, redirection.port);
            if redirection.is_asking {
                self.call(&[b"ASKING"])?;
            }
            reply = self.call(words)?;
        }
        Ok(reply)
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// Says that the connection failed, and drops it: whether the command was executed is unknown.
    pub fn call(&mut self, words: &[&[u8]]) -> Result<Value, String> {
        let result = self.connection()?.call(words);
        result.map_err(|error| self.failed(&error))
    }

    /// Drops the connection, and says why.
    pub fn failed(&mut self, error: &io::Error) -> String {
        self.disconnect();
        format!("{}: {}", shown(&self.options.target), reason(error))
    }

    fn redirection(&self, reply: &Value) -> Option<Redirection> {
        match reply {
            Value::Error(text) if self.options.cluster => {
                Redirection::read(std::str::from_utf8(text).ok()?, &self.options.target.host)
            }
            _ => None,
        }
    }

    /// Prints an endless stream of messages or commands.
    fn follow(&mut self, words: &[&[u8]], kind: Follow) -> Result<Outcome, String> {
        let result = self.connection()?.send(words);
        result.map_err(|error| self.failed(&error))?;
        if self.is_interactive {
            println!("Reading {} (press Ctrl-C to quit)", kind.name());
        }
        loop {
            let Some(connection) = self.connection.as_mut() else { return Ok(Outcome::Done) };
            let value = connection.receive_any().map_err(|error| self.failed(&error))?;
            self.print(&value);
            if let Value::Error(_) = value {
                return Ok(Outcome::Failed);
            }
        }
    }

    /// Prints a reply. A closed output ends the program, as it would end any filter.
    pub fn print(&self, value: &Value) {
        let text = format(value, self.form(), &self.options.delimiters);
        let mut out = io::stdout().lock();
        if out.write_all(&text).and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    }

    fn print_pushes(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let pushes = std::mem::take(&mut connection.pushes);
        if self.options.show_pushes.unwrap_or_else(|| io::stdout().is_terminal()) {
            pushes.iter().for_each(|push| self.print(push));
        }
    }

    /// Follows a command's effect on the connection.
    fn note(&mut self, name: &[u8], words: &[&[u8]], reply: &Value) {
        let is_error = matches!(reply, Value::Error(_));
        match name {
            b"MULTI" if !is_error => self.in_transaction = true,
            // A transaction that is aborted has ended as well.
            b"EXEC" | b"DISCARD" | b"RESET" => self.in_transaction = false,
            _ if is_error => {}
            b"SELECT" if !self.in_transaction => {
                let database = words.get(1).and_then(|word| std::str::from_utf8(word).ok());
                if let Some(database) = database.and_then(|word| word.parse().ok()) {
                    self.options.target.database = database;
                }
            }
            b"AUTH" => {
                let (user, password) = match words {
                    [_, password] => (None, password),
                    [_, user, password] => (Some(user.to_vec()), password),
                    _ => return,
                };
                self.options.target.user = user;
                self.options.target.password = Some(password.to_vec());
            }
            _ => {}
        }
    }
}

/// Whether the other end has closed the connection.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// Kind of an endless output.
#[derive(Clone, Copy)]
enum Follow {
    Lines,
    Messages,
}

impl Follow {
    fn name(self) -> &'static str {
        match self {
            Self::Lines => "commands",
            Self::Messages => "messages",
        }
    }
}

/// Address that a cluster's node names for a command.
#[derive(Debug, Eq, PartialEq)]
struct Redirection {
    is_asking: bool,
    slot: u16,
    host: String,
    port: u16,
}

impl Redirection {
    /// Reads `MOVED SLOT HOST:PORT` or `ASK SLOT HOST:PORT`. A node without a host is the one that
    /// was asked, at another port.
    fn read(text: &str, asked: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let is_asking = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = if host.is_empty() { asked } else { host };
        Some(Self { is_asking, slot, host: host.to_owned(), port: port.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections() {
        let read = |text| Redirection::read(text, "here");
        let there = |is_asking, host: &str| {
            Some(Redirection { is_asking, slot: 7, host: host.into(), port: 6380 })
        };
        assert_eq!(read("MOVED 7 10.0.0.1:6380"), there(false, "10.0.0.1"));
        assert_eq!(read("ASK 7 ::1:6380"), there(true, "::1"));
        assert_eq!(read("MOVED 7 :6380"), there(false, "here"));
        assert_eq!(read("ERR MOVED 7 a:1"), None);
        assert_eq!(read("MOVED x a:1"), None);
        assert_eq!(read("MOVED 7 a"), None);
    }
}
