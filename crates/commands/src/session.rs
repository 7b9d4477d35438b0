//! What a connection carries from command to command, as far as commands know.

use crate::registry::Command;
use petrel_keyspace::WatchedKey;
use petrel_resp::Protocol;

/// State of a connection that commands read and change. An idle connection keeps one, so it is small: what few
/// connections need lies behind a box.
#[derive(Debug)]
pub struct Session {
    /// Selected database.
    pub db: u16,
    /// Protocol that `HELLO` chose.
    pub protocol: Protocol,
    /// Whether commands that need authentication are admitted.
    pub authenticated: bool,
    /// `CLIENT NO-TOUCH`: reads do not count as use of a key.
    pub no_touch: bool,
    /// What becomes of replies (`CLIENT REPLY`).
    pub replies: Replies,
    /// Set while `EXEC` runs the queued commands.
    pub in_exec: bool,
    /// The connection is to be closed once its output is written.
    pub close: bool,
    /// What few connections need; none until something of it is.
    pub extras: Option<Box<Extras>>,
}

/// State of a connection that most never have.
#[derive(Debug, Default)]
pub struct Extras {
    /// An open `MULTI`, or watched keys.
    pub transaction: Option<Box<Transaction>>,
}

/// What becomes of the replies of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Replies {
    /// They are sent.
    #[default]
    On,
    /// They are dropped.
    Off,
    /// This one and the next are dropped: set by the command that asks for it.
    SkipNext,
    /// This one is dropped, unless the command turns replies on.
    Skip,
}

/// An open transaction, or watched keys waiting for one.
#[derive(Debug, Default)]
pub struct Transaction {
    /// True after `MULTI`.
    pub open: bool,
    /// A command could not be queued: `EXEC` will refuse.
    pub spoiled: bool,
    /// Commands in order.
    pub queued: Vec<Queued>,
    /// Bytes of the queued arguments.
    pub bytes: usize,
    /// Keys of `WATCH`.
    pub watched: Vec<WatchedKey>,
}

/// A command waiting for `EXEC`.
#[derive(Debug)]
pub struct Queued {
    /// The command.
    pub command: Command,
    /// Its arguments with the name.
    pub args: Vec<Box<[u8]>>,
}

impl Session {
    /// The state of a new connection.
    pub fn new(authenticated: bool) -> Self {
        Session {
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            no_touch: false,
            replies: Replies::On,
            in_exec: false,
            close: false,
            extras: None,
        }
    }

    /// Whether commands are being queued for `EXEC`.
    #[inline]
    pub fn in_multi(&self) -> bool {
        self.transaction().is_some_and(|transaction| transaction.open)
    }

    /// What few connections have, made if it is not there.
    pub fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// The transaction, if there is one.
    #[inline]
    pub fn transaction(&self) -> Option<&Transaction> {
        self.extras.as_ref()?.transaction.as_deref()
    }

    /// The transaction, made if there is none.
    pub fn transaction_mut(&mut self) -> &mut Transaction {
        self.extras_mut().transaction.get_or_insert_default()
    }

    /// The transaction if `MULTI` has opened it.
    pub fn open_transaction(&mut self) -> Option<&mut Transaction> {
        self.extras.as_mut()?.transaction.as_deref_mut().filter(|transaction| transaction.open)
    }

    /// Ends the transaction and gives it to the caller.
    pub fn take_transaction(&mut self) -> Option<Box<Transaction>> {
        self.extras.as_mut()?.transaction.take()
    }
}
