//! Errors: [`Error`] and [`ErrorKind`].

use std::fmt;
use std::time::Duration;

use petrel_resp::Value;

/// Result of a command.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of a command or a connection. Names the command but none of its arguments, so that no
/// password and no value gets into a log.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    /// In upper case, with the container's name of a subcommand; empty if no command is concerned.
    command: String,
}

/// The kinds of [`Error`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server answered with an error: its first word, such as `WRONGTYPE`, and the whole text.
    Server {
        /// The first word.
        code: String,
        /// The whole text, the first word included.
        message: String,
    },
    /// The reply is not of the type that was asked for.
    UnexpectedReply {
        /// Expected type.
        expected: &'static str,
        /// The RESP type that came.
        received: &'static str,
    },
    /// The connection was lost. If `maybe_executed`, the server may have executed the command.
    Disconnected {
        /// Whether a part of the command was handed to the operating system.
        maybe_executed: bool,
        /// Reason why the connection ended.
        reason: String,
    },
    /// No reply came in time; the server may execute the command nevertheless.
    TimedOut {
        /// The time that was allowed.
        after: Duration,
        /// Reason why there is no connection, if there is none.
        unconnected: Option<String>,
    },
    /// The connection could not be made: refused, name not found, TLS, credentials.
    Connect(String),
    /// A URL or an option makes no sense.
    Configuration(String),
    /// The command changes or waits on its connection, and needs one of its own: see
    /// [`Client::dedicated`](crate::Client::dedicated).
    NeedsDedicated,
    /// The command is not answered by one reply: messages come by
    /// [`Client::subscriber`](crate::Client::subscriber).
    Unanswered,
    /// The transaction was not executed: a watched key had changed.
    WatchedKeyChanged,
    /// The client was closed, or the runtime that drives it was shut down.
    Closed,
}

impl From<ErrorKind> for Error {
    /// The error of this kind, of no command in particular.
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, command: String::new() }))
    }

    /// The error of a call on a closed client.
    pub fn closed() -> Self {
        Self::new(ErrorKind::Closed)
    }

    /// Sets the name of the command; a name set before stays.
    pub(crate) fn of_command(mut self, command: &str) -> Self {
        if self.0.command.is_empty() {
            self.0.command = command.to_owned();
        }
        self
    }

    /// An error reply. Only the text up to the arguments of an unknown command is kept, since the
    /// server repeats arguments there.
    pub(crate) fn from_reply(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let message = match text.find(", with args beginning with:") {
            Some(end) => text[..end].to_owned(),
            None => text.into_owned(),
        };
        let code = message.split(' ').next().unwrap_or_default().to_owned();
        Self::new(ErrorKind::Server { code, message })
    }

    pub(crate) fn unexpected(expected: &'static str, received: &Value) -> Self {
        Self::new(ErrorKind::UnexpectedReply { expected, received: type_name(received) })
    }

    /// Kind of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The command concerned, in upper case, or an empty string.
    pub fn command(&self) -> &str {
        &self.0.command
    }

    /// The first word of an error reply, such as `WRONGTYPE`.
    pub fn code(&self) -> Option<&str> {
        match &self.0.kind {
            ErrorKind::Server { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Whether no reply came because the connection was lost or never made.
    pub fn is_disconnected(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Disconnected { .. } | ErrorKind::Connect(_))
    }

    /// Whether no reply came in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.kind, ErrorKind::TimedOut { .. })
    }
}

/// The name of a reply's RESP type.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Simple(_) => "a status",
        Value::Error(_) => "an error",
        Value::Integer(_) => "an integer",
        Value::Bulk(_) => "a string",
        Value::Null | Value::NullArray => "null",
        Value::Array(_) => "an array",
        Value::Map(_) => "a map",
        Value::Set(_) => "a set",
        Value::Push(_) => "a push",
        Value::Double(_) => "a double",
        Value::Boolean(_) => "a boolean",
        Value::Verbatim { .. } => "a verbatim string",
        Value::BigNumber(_) => "a big number",
        Value::Attribute { .. } => "a reply with attributes",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.command.is_empty() {
            write!(f, "{}: ", self.0.command)?;
        }
        match &self.0.kind {
            ErrorKind::Server { message, .. } => f.write_str(message),
            ErrorKind::UnexpectedReply { expected, received } => {
                write!(f, "the reply is {received}, not {expected}")
            }
            ErrorKind::Disconnected { maybe_executed, reason } => {
                write!(f, "connection lost ({reason}); ")?;
                f.write_str(match maybe_executed {
                    true => "the server may have executed the command",
                    false => "the command was not executed",
                })
            }
            ErrorKind::TimedOut { after, unconnected: None } => {
                write!(f, "no reply within {} ms", after.as_millis())
            }
            ErrorKind::TimedOut { after, unconnected: Some(reason) } => {
                write!(f, "not connected for {} ms: {reason}", after.as_millis())
            }
            ErrorKind::Connect(reason) => write!(f, "cannot connect: {reason}"),
            ErrorKind::Configuration(text) => f.write_str(text),
            ErrorKind::NeedsDedicated => {
                f.write_str("changes or waits on its connection: use a dedicated connection")
            }
            ErrorKind::Unanswered => {
                f.write_str("not answered by one reply: use a subscriber for messages")
            }
            ErrorKind::WatchedKeyChanged => f.write_str("a watched key changed"),
            ErrorKind::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for Error {}
