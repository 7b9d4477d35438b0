//! Error replies of commands, in Redis's words.

use petrel_keyspace::{CombineError, OutOfMemory, WrongType};
use petrel_resp::Dialect;
use petrel_table::options::Unread;
use std::borrow::Cow;

/// An error reply: the text with its code (`ERR`, `WRONGTYPE`), without the leading dash.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fail(Kind);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Kind {
    /// An error to reply.
    Error(Cow<'static, [u8]>),
    /// An aborted command, without a reply.
    PutOff(PutOff),
}

/// Reason for aborting a command that has changed nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PutOff {
    /// The command takes long, or needs a stripe that a helper holds.
    Move,
    /// The command is expected to take long.
    Expected,
    /// Another thread waits for the exclusive lock of the keyspace.
    Again,
    /// The command was ended.
    Ended,
}

/// Result of a handler. On success it has written its reply; on failure it has written nothing.
pub type Outcome = Result<(), Fail>;

/// Codes of the errors that redirect a client to another server.
const REDIRECT: &str = "REDIRECT ";
const MOVED: &str = "MOVED ";

impl Fail {
    /// Arguments that do not fit the command's syntax.
    pub const SYNTAX: Fail = Fail::fixed("ERR syntax error");
    /// An argument or a value that is no 64-bit integer.
    pub const NOT_AN_INTEGER: Fail = Fail::fixed("ERR value is not an integer or out of range");
    /// An argument or a value that is no number.
    pub const NOT_A_FLOAT: Fail = Fail::fixed("ERR value is not a valid float");
    /// A sum that does not fit 64 bits.
    pub const OVERFLOW: Fail = Fail::fixed("ERR increment or decrement would overflow");
    /// A key of another type than the command works on.
    pub const WRONG_TYPE: Fail =
        Fail::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// A key that must exist and does not.
    pub const NO_SUCH_KEY: Fail = Fail::fixed("ERR no such key");
    /// A string beyond `proto-max-bulk-len`.
    pub const STRING_TOO_LONG: Fail =
        Fail::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    /// A database number out of range.
    pub const DB_OUT_OF_RANGE: Fail = Fail::fixed("ERR DB index is out of range");
    /// A write that needs memory when the limit is reached.
    pub const OUT_OF_MEMORY: Fail =
        Fail::fixed("OOM command not allowed when used memory > 'maxmemory'.");
    /// A command of a connection that must authenticate first.
    pub const NO_AUTH: Fail = Fail::fixed("NOAUTH Authentication required.");

    /// A write when fewer than `min-replicas-to-write` replicas are connected.
    pub const TOO_FEW_REPLICAS: Fail = Fail::fixed("NOREPLICAS Not enough good replicas to write.");

    /// A write by a client of a replica.
    pub const READ_ONLY: Fail =
        Fail::fixed("READONLY You can't write against a read only replica.");

    /// Redirects the client to the primary at `address` (`host:port`).
    pub fn redirect(address: &str) -> Self {
        Fail::new(format!("{REDIRECT}{address}"))
    }

    /// Whether the error redirects the client to another server.
    pub(crate) fn is_redirection(&self) -> bool {
        [REDIRECT, MOVED].iter().any(|code| self.text().starts_with(code.as_bytes()))
    }

    /// A command that needs fresh data, on a replica that has lost its primary.
    pub const MASTER_DOWN: Fail = Fail::fixed(
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    );

    /// A command on keys of several hash slots, of a client that speaks Redis Cluster's protocol.
    pub const CROSS_SLOT: Fail =
        Fail::fixed("CROSSSLOT Keys in request don't hash to the same slot");
    /// A command on several keys of different primaries, if it does not work on each key by itself.
    pub const SEVERAL_PRIMARIES: Fail = Fail::fixed(
        "CROSSSLOT Keys in request belong to several members of the cluster: let them share a hash tag, as {user}:a and {user}:b",
    );
    /// A command on keys of a slot that changes its primary.
    pub const PRIMARY_CHANGING: Fail = Fail::fixed("TRYAGAIN The primary of the key is changing");
    /// A command to be forwarded while too many are pending.
    pub const TOO_MUCH_FORWARDED: Fail =
        Fail::fixed("TRYAGAIN Too many writes wait for their primaries");
    /// A command on keys of an unreachable primary.
    pub const PRIMARY_UNREACHABLE: Fail =
        Fail::fixed("CLUSTERDOWN The primary of the key cannot be reached");
    /// A command on a hash slot without a primary.
    pub const SLOT_UNSERVED: Fail = Fail::fixed("CLUSTERDOWN Hash slot not served");
    /// A command that needs data, on a member without data.
    pub const WITNESS: Fail = Fail::fixed(
        "CLUSTERDOWN This node is a witness: it votes and holds no data. Connect to another member of the cluster",
    );

    /// A change that all members have to agree on, while their majority cannot be reached.
    pub const NO_MAJORITY: Fail =
        Fail::fixed("CLUSTERDOWN The majority of the members cannot be reached");
    /// `CLUSTER FORGET` of the node that it is sent to.
    pub const FORGET_ME: Fail = Fail::fixed("ERR I tried hard but I can't forget myself...");
    /// A cluster command on a server that is not in cluster mode.
    pub const NO_CLUSTER: Fail = Fail::fixed("ERR This instance has cluster support disabled");

    /// A command that needs the data while they are being loaded.
    pub fn loading(dialect: Dialect) -> Self {
        Fail::fixed(dialect.choose(
            "LOADING Redis is loading the dataset in memory",
            "LOADING Valkey is loading the dataset in memory",
        ))
    }

    /// A write while saving fails ([`ServerState::NotSaved`](crate::ServerState::NotSaved)).
    pub fn not_saved(dialect: Dialect) -> Self {
        let name = dialect.choose("Redis", "Valkey");
        Fail::new(format!(
            "MISCONF {name} is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands \
             that may modify the data set are disabled, because this instance is configured to report errors during \
             writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the {name} logs for \
             details about the RDB error."
        ))
    }

    /// Aborts the command; a helper thread executes it.
    pub(crate) const PUT_OFF_MOVE: Fail = Fail(Kind::PutOff(PutOff::Move));
    /// Aborts the command because a thread waits for the exclusive lock; it is executed again.
    pub(crate) const PUT_OFF_AGAIN: Fail = Fail(Kind::PutOff(PutOff::Again));
    /// Aborts the command for good, maybe within its reply.
    pub(crate) const PUT_OFF_ENDED: Fail = Fail(Kind::PutOff(PutOff::Ended));
    /// Aborts the command before it begins; a helper thread executes it, if possible.
    pub(crate) const PUT_OFF_EXPECTED: Fail = Fail(Kind::PutOff(PutOff::Expected));

    /// The reason, if the command was aborted.
    pub(crate) fn put_off(&self) -> Option<PutOff> {
        match self.0 {
            Kind::PutOff(why) => Some(why),
            Kind::Error(_) => None,
        }
    }

    /// Creates an error with a static text.
    pub const fn fixed(text: &'static str) -> Self {
        Fail(Kind::Error(Cow::Borrowed(text.as_bytes())))
    }

    /// Creates an error with a formatted text.
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Fail(Kind::Error(Cow::Owned(text.into())))
    }

    /// The error reply: the same in RESP2 and RESP3.
    pub fn to_reply(&self) -> Vec<u8> {
        [b"-", self.text(), b"\r\n"].concat()
    }

    /// The text with its code.
    pub fn text(&self) -> &[u8] {
        match &self.0 {
            Kind::Error(text) => text,
            Kind::PutOff(_) => b"ERR the command was put off",
        }
    }

    /// The code: the first word, by which `INFO errorstats` counts.
    pub fn code(&self) -> &[u8] {
        self.text().split(|c| matches!(c, b' ' | b'\r' | b'\n')).next().unwrap_or_default()
    }
}

/// Syntax error for an unknown option, or an option without its operands.
impl From<Unread<'_>> for Fail {
    fn from(_: Unread<'_>) -> Self {
        Fail::SYNTAX
    }
}

impl From<OutOfMemory> for Fail {
    fn from(_: OutOfMemory) -> Self {
        Fail::OUT_OF_MEMORY
    }
}

impl From<CombineError> for Fail {
    fn from(error: CombineError) -> Self {
        match error {
            CombineError::WrongType => Fail::WRONG_TYPE,
            CombineError::OutOfMemory => Fail::OUT_OF_MEMORY,
        }
    }
}

impl From<WrongType> for Fail {
    fn from(_: WrongType) -> Self {
        Fail::WRONG_TYPE
    }
}
