//! What commands ask of the server, or of a program that embeds them.

use crate::answer::{Answer, Ticket};
use crate::blocked::{Blocked, Standing};
use crate::fail::Outcome;
use crate::session::Session;
use crate::spec::Command;
use petrel_keyspace::{Cleared, Event, Handle};
use petrel_persistence::rdb::{self, Leniency};
use petrel_resp::Reply;
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

/// Service to other clients while a script or a transaction runs for long.
pub trait Attendant {
    /// Called now and then: does what cannot wait, without the keyspace. True if the script is to
    /// end, since there is no more to do.
    fn attend(&self) -> bool;

    /// Gives up a script that has written and does not end though the server is to stop: its
    /// changes must not become visible or be kept. An attendant that can ensure this does not
    /// return.
    fn abandon(&self, script: &str);

    /// Whether the script's client was killed or has closed its connection, as far as
    /// [`Attendant::attend`] has noticed.
    fn has_lost_client(&self) -> bool;
}

/// What `execute` asks of its server or engine. Session commands reach their server through
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

    /// Shows a command that has been executed, secrets replaced, to MONITOR clients: only
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

    /// Whether everything that was committed by now, in the epoch `now`, is durable.
    fn is_all_durable(&self, _now: u64) -> bool {
        false
    }

    /// The epoch up to which every change that was acknowledged to a client is durable, if there
    /// is a log.
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

    /// A change of the role that has been asked for and is not made yet is made, unless something
    /// is held. The thread is in a batch, and runs no script.
    fn settle_role(&mut self, _ks: &mut Handle) {}

    /// Where the primary listens, `host:port`, if the client of the command in hand is to go there
    /// with it: this server follows that one, and the client has said that it can
    /// (`CLIENT CAPA redirect`). What only reads is answered here if the client wants that
    /// (`READONLY`).
    fn primary_for(&self, _only_reads: bool) -> Option<String> {
        None
    }

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

    /// The service to other clients while the command in hand runs for long.
    fn attendant(&self) -> Option<Rc<dyn Attendant>> {
        None
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

    /// Something happened to a key that is published to its subscribers. Called with locks
    /// held.
    fn notify(&mut self, _event: &Event) {}

    /// Names the client of the command in hand, so that it can be answered later; none if it cannot
    /// wait.
    fn ticket(&mut self) -> Option<Ticket> {
        None
    }

    /// Until when the client of the command in hand waits, in Unix milliseconds, if the command
    /// says so much: less, if it has waited elsewhere before.
    fn deadline(&mut self, said: Option<i64>) -> Option<i64> {
        said
    }

    /// The client of the command in hand is going to wait. Called with locks held, just before
    /// somebody may answer it.
    fn wait(&mut self, _blocked: &Arc<Blocked>) {}

    /// Whether a client that waits is still there; its command will be executed at once, unless a
    /// pause holds it back. Called with locks held.
    fn standing(&mut self, _blocked: &Blocked) -> Standing {
        Standing::Here
    }

    /// Lets the commands that follow be those of another client; returns whose they were.
    fn act_for(&mut self, client: Ticket) -> Ticket {
        client
    }

    /// Whether there are threads that execute for the clients of this one what takes long.
    fn has_helpers(&mut self) -> bool {
        false
    }

    /// Hands a command of a blocked client to a helper ([`Executor::help_with`]).
    ///
    /// [`Executor::help_with`]: crate::Executor::help_with
    fn run_on_helper(&mut self, _blocked: &Arc<Blocked>) {}

    /// Answers a client that waits, and does so no longer. Called with locks held. True if the
    /// answer goes out with what is committed when they are let go of, be it nothing.
    fn answer(&mut self, _blocked: &Blocked, _answer: Answer) -> bool {
        false
    }
}
