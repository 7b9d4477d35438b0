//! What a handler is given.

use crate::blocking::{Answer, Blocked, Standing, Ticket};
use crate::execute::{Executor, Request};
use crate::fail::{Fail, Outcome};
use crate::registry::Command;
use crate::session::Session;
use petrel_keyspace::{BLOB_MIN, Cleared, Event, Handle, Key, KeyHash, Value};
use petrel_persistence::rdb::{self, Leniency};
use petrel_resp::{Dialect, Reply};
use std::any::Any;
use std::sync::Arc;

/// One call of a command.
pub struct Ctx<'a> {
    /// The arguments and what is known of them.
    pub request: &'a Request<'a>,
    /// The command being called.
    pub command: Command,
    /// The thread's keyspace handle and statistics.
    pub exec: &'a mut Executor,
    /// The connection's state.
    pub session: &'a mut Session,
    /// What runs the command: a server, or a program that embeds the commands.
    pub host: &'a mut dyn Host,
    /// Takes the reply.
    pub reply: &'a mut dyn Reply,
}

/// What `execute` asks of whoever runs it. Session commands reach their server through
/// [`Host::as_any`].
pub trait Host {
    /// The host itself.
    fn as_any(&mut self) -> &mut dyn Any;

    /// Whether a command that is protected by configuration (`DEBUG`) may run on this connection.
    fn admit_protected(&mut self, command: Command) -> Outcome;

    /// Address and name of the connection, for the slow log.
    fn client_label(&mut self) -> (String, String);

    /// The client of the command in hand as `CLIENT LIST` shows it, for the log of refusals.
    fn client_info(&mut self, _session: &Session) -> Vec<u8> {
        Vec::new()
    }

    /// Shows a command that has been executed, secrets replaced, to whoever observes all: only
    /// after [`Shared::observe`](crate::Shared::observe).
    fn show(&mut self, _db: u16, _in_script: bool, _args: &[&[u8]]) {}

    /// `proto-max-bulk-len`: bytes that a string may grow to.
    fn string_len_max(&self) -> usize;

    /// `client-query-buffer-limit`: bytes that one client may have queued.
    fn query_buffer_limit(&self) -> usize;

    /// Bytes of a reply at which the client of the command in hand is closed for having too much
    /// before it; none if it may have any number.
    fn reply_max(&self) -> Option<usize> {
        None
    }

    /// `lazyfree-lazy-user-flush`: whether a flush that does not say how frees in the background.
    fn flushes_in_background(&self) -> bool {
        false
    }

    /// The epoch up to which everything is durable, if there is a log.
    fn durable_epoch(&self) -> Option<u64> {
        None
    }

    /// The client of the command in hand is going to wait until this epoch is durable.
    fn want_durable(&mut self, _epoch: u64) {}

    /// Where the stream of changes that replicas are sent stands: everything that this thread has
    /// changed is before it. 0 if there is no stream.
    fn stream_offset(&self) -> u64 {
        0
    }

    /// How many replicas have executed everything before an offset of the stream, and how many have
    /// that on their disks.
    fn replicas_at(&self, _offset: u64) -> (usize, usize) {
        (0, 0)
    }

    /// The client of the command in hand is going to wait until replicas have acknowledged that
    /// offset: they are asked for it.
    fn want_acknowledged(&mut self, _offset: u64) {}

    /// Every database was flushed. Called with everything held; `is_all` if nothing else changes
    /// before it is let go of.
    fn flushed_all(&mut self, _ks: &mut Handle, _is_all: bool) {}

    /// What `RESTORE` does not check: `rdb-version-check`, `DEBUG SET-SKIP-CHECKSUM-VALIDATION`.
    fn leniency(&self) -> Leniency {
        Leniency::default()
    }

    /// `dump-dialect`: whose form `DUMP` writes where Redis and Valkey part.
    fn dump_dialect(&self) -> rdb::Dialect {
        rdb::Dialect::default()
    }

    /// Called now and then while a script runs for long: lets the host do meanwhile what cannot
    /// wait, without the keyspace. True if the script is to end, since there is no more to do.
    fn attend(&mut self) -> bool {
        false
    }

    /// Whether the client of the command in hand has closed its connection, as far as
    /// [`Host::attend`] has heard.
    fn client_has_left(&self) -> bool {
        false
    }

    /// Writes a line of a script to the log; `level` from 0 (debug) to 3 (warning).
    fn log(&mut self, _level: u8, _text: &str) {}

    /// Frees what an asynchronous flush removed, on a thread that has time for it.
    fn discard(&mut self, cleared: Cleared);

    /// Takes what those who cache are to be told ([`Handle::take_invalidations`]), which the client
    /// of the command in hand has changed. With `reply`, what that client itself is told is
    /// written there, before the reply to come; else it gets it after the reply, and after what
    /// else is done on behalf of the command. Stripes may be held.
    fn invalidate(&mut self, ks: &mut Handle, _reply: Option<&mut dyn Reply>) {
        ks.take_invalidations();
    }

    /// Something happened to a key that is published to whoever listens for it. Called with locks
    /// held.
    fn notify(&mut self, _event: &Event) {}

    /// Names the client of the command in hand, so that it can be answered later; none if it cannot
    /// wait.
    fn ticket(&mut self) -> Option<Ticket> {
        None
    }

    /// The client of the command in hand is going to wait. Called with locks held, just before
    /// somebody may answer it.
    fn wait(&mut self, _blocked: &Arc<Blocked>) {}

    /// Whether a client that waits can be served; its command will be executed at once. Called with
    /// locks held.
    fn standing(&mut self, _blocked: &Blocked) -> Standing {
        Standing::Here
    }

    /// Lets the commands that follow be those of another client; returns whose they were.
    fn act_for(&mut self, client: Ticket) -> Ticket {
        client
    }

    /// Answers a client that waits, and does so no longer. Called with locks held.
    fn answer(&mut self, _blocked: &Blocked, _answer: Answer) {}
}

impl<'a> Ctx<'a> {
    /// Whose words are spoken.
    pub fn dialect(&self) -> Dialect {
        self.exec.shared.dialect()
    }

    /// The arguments, the name included.
    #[inline]
    pub fn args(&self) -> &'a [&'a [u8]] {
        self.request.args
    }

    /// Argument `i`.
    #[inline]
    pub fn arg(&self, i: usize) -> &'a [u8] {
        self.request.args[i]
    }

    /// The selected database.
    #[inline]
    pub fn db(&self) -> u16 {
        self.session.db
    }

    /// Argument `i` as a key.
    #[inline(always)]
    pub fn key(&self, i: usize) -> Key<'a> {
        let bytes = self.arg(i);
        let hash = match self.request.hash {
            Some(hash) if i == 1 => hash,
            _ => self.located_hash(i, bytes),
        };
        Key { bytes, hash }
    }

    /// The hash of a key of a command that may have several.
    #[inline(never)]
    fn located_hash(&self, i: usize, bytes: &[u8]) -> KeyHash {
        self.exec.located(i).unwrap_or_else(|| self.exec.ks.hash(bytes))
    }

    /// Argument `i` as a string value: an integer where the text is one, a shared blob where it is
    /// long.
    #[inline]
    pub fn value(&self, i: usize) -> Value<'a> {
        let bytes = self.arg(i);
        if bytes.len() < BLOB_MIN {
            return Value::from_text(bytes);
        }
        match self.request.owner {
            // Keeping the whole receive buffer alive pays only if the value is most of it.
            Some(owner) if bytes.len() >= owner.len() / 4 * 3 => {
                Value::Blob(owner.slice_ref(bytes))
            }
            _ => Value::Bytes(bytes),
        }
    }

    /// Argument `i` as an integer.
    #[inline]
    pub fn integer(&self, i: usize) -> Result<i64, Fail> {
        petrel_keyspace::parse_int(self.arg(i)).ok_or(Fail::NOT_AN_INTEGER)
    }

    /// [`Host::reply_max`], of which nothing holds for what a script is answered.
    pub fn reply_max(&self) -> Option<usize> {
        if self.exec.is_within_script() { None } else { self.host.reply_max() }
    }

    /// Argument `i` as the number of a database.
    pub fn database(&self, i: usize) -> Result<u16, Fail> {
        let number = self.integer(i)?;
        if i32::try_from(number).is_err() {
            return Err(Fail::fixed(
                "ERR value is out of range, value must between -2147483648 and 2147483647",
            ));
        }
        let databases = self.exec.ks.keyspace().databases();
        u16::try_from(number).ok().filter(|&db| db < databases).ok_or(Fail::DB_OUT_OF_RANGE)
    }

    /// Whether argument `i` is `word`, in any case.
    #[inline]
    pub fn is(&self, i: usize, word: &str) -> bool {
        self.arg(i).eq_ignore_ascii_case(word.as_bytes())
    }

    /// The error for a number of arguments that the command's arity admits, but nothing else.
    #[cold]
    pub fn wrong_arity(&self) -> Fail {
        let name = self.command.spec.meta.name;
        Fail::new(format!("ERR wrong number of arguments for '{name}' command"))
    }

    /// Notes an event of a key in the selected database.
    #[inline]
    pub fn event(&self, class: u32, name: &'static str, key: &[u8]) {
        self.exec.ks.event(class, name, self.session.db, key);
    }

    /// Writes `+OK`.
    #[inline]
    pub fn ok(&mut self) -> Outcome {
        self.reply.simple("OK");
        Ok(())
    }

    /// Writes an integer.
    #[inline]
    pub fn number(&mut self, n: i64) -> Outcome {
        self.reply.integer(n);
        Ok(())
    }
}
