//! Interface from commands to the server, or to a program that embeds them.

use crate::answer::{Answer, Ticket};
use crate::blocked::{Blocked, Standing};
use crate::fail::Outcome;
use crate::session::Session;
use crate::spec::Command;
use crate::topology::Viewer;
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

    /// The client of the current command in the format of `CLIENT LIST`, for `ACL LOG`.
    fn client_info(&mut self, _session: &Session) -> Vec<u8> {
        Vec::new()
    }

    /// Shows an executed command to `MONITOR` clients, with secrets replaced. Called only after
    /// [`Shared::observe`](crate::Shared::observe).
    fn show(&mut self, _db: u16, _in_script: bool, _args: &[&[u8]]) {}

    /// `proto-max-bulk-len`: maximum length of a string in bytes.
    fn string_len_max(&self) -> usize;

    /// `client-query-buffer-limit`: maximum number of bytes that one client may have queued.
    fn query_buffer_limit(&self) -> usize;

    /// Size of a reply at which the current command's client exceeds its output buffer limit and is
    /// closed; `None` without a limit.
    fn reply_max(&self) -> Option<usize> {
        None
    }

    /// `lazyfree-lazy-user-flush`: default of a flush without `SYNC` or `ASYNC`; true: in the
    /// background.
    fn flushes_in_background(&self) -> bool {
        false
    }

    /// Whether all commits up to the current epoch `now` are durable.
    fn is_all_durable(&self, _now: u64) -> bool {
        false
    }

    /// The epoch up to which all acknowledged changes are durable; `None` without a log.
    fn durable_epoch(&self) -> Option<u64> {
        None
    }

    /// Announces that the client of the current command will wait until `epoch` is durable.
    fn want_durable(&mut self, _epoch: u64) {}

    /// Current offset of the replication stream. All changes of this thread are before it. 0
    /// without a stream.
    fn stream_offset(&self) -> u64 {
        0
    }

    /// Numbers of replicas that have executed everything before an offset of the stream, and that
    /// have it on disk.
    fn replicas_at(&self, _offset: u64) -> (usize, usize) {
        (0, 0)
    }

    /// Announces that the client of the current command will wait until replicas have acknowledged
    /// an offset; asks them to.
    fn want_acknowledged(&mut self, _offset: u64) {}

    /// Applies a role change that was deferred, unless stripes are held. The thread is in a batch
    /// and runs no script.
    fn settle_role(&mut self, _ks: &mut Handle) {}

    /// Address of the primary, `host:port`, if the current command's client is to be redirected
    /// there: this server is a replica, and the client supports it (`CLIENT CAPA redirect`). Reads
    /// are executed here if the client allows it (`READONLY`).
    fn primary_for(&self, _only_reads: bool) -> Option<String> {
        None
    }

    /// Properties of the current command's connection that decide which addresses of nodes it is
    /// shown.
    fn viewer(&self) -> Viewer {
        Viewer::default()
    }

    /// Called after a flush of all databases, with everything locked. `is_all`: nothing else
    /// changes before unlocking.
    fn flushed_all(&mut self, _ks: &mut Handle, _is_all: bool) {}

    /// Checks that `RESTORE` skips: `rdb-version-check`, `DEBUG SET-SKIP-CHECKSUM-VALIDATION`.
    fn leniency(&self) -> Leniency {
        Leniency::default()
    }

    /// `dump-dialect`: format of `DUMP` if those of Redis and Valkey differ.
    fn dump_dialect(&self) -> rdb::Dialect {
        rdb::Dialect::default()
    }

    /// The service to other clients while the command in hand runs for long.
    fn attendant(&self) -> Option<Rc<dyn Attendant>> {
        None
    }

    /// Writes a line of a script to the log; `level` from 0 (debug) to 3 (warning).
    fn log(&mut self, _level: u8, _text: &str) {}

    /// Frees the data of an asynchronous flush in the background.
    fn discard(&mut self, cleared: Cleared);

    /// Takes and delivers the invalidations of the current command
    /// ([`Handle::take_invalidations`]). With `reply`, those for its own client are written there,
    /// before the reply. Otherwise the client gets them after the reply and the other consequences
    /// of the command. Stripes may be held.
    fn invalidate(&mut self, ks: &mut Handle, _reply: Option<&mut dyn Reply>) {
        ks.take_invalidations();
    }

    /// Publishes a keyspace event of a key. Called with locks held.
    fn notify(&mut self, _event: &Event) {}

    /// Identifies the client of the current command for a later reply; `None` if it cannot be
    /// blocked.
    fn ticket(&mut self) -> Option<Ticket> {
        None
    }

    /// End of the current command's wait, in Unix milliseconds. `said` is the command's own
    /// deadline; the result may be earlier if the client has waited elsewhere before.
    fn deadline(&mut self, said: Option<i64>) -> Option<i64> {
        said
    }

    /// Announces that the client of the current command is blocked. Called with locks held, just
    /// before another thread may reply.
    fn wait(&mut self, _blocked: &Arc<Blocked>) {}

    /// Whether a blocked client is connected. Its command will be executed at once, unless a pause
    /// defers it. Called with locks held.
    fn standing(&mut self, _blocked: &Blocked) -> Standing {
        Standing::Here
    }

    /// Makes `client` the client of the following commands; returns the previous one.
    fn act_for(&mut self, client: Ticket) -> Ticket {
        client
    }

    /// Whether there are helper threads for long commands of this thread's clients.
    fn has_helpers(&mut self) -> bool {
        false
    }

    /// Passes a command of a blocked client to a helper thread ([`Executor::help_with`]).
    ///
    /// [`Executor::help_with`]: crate::Executor::help_with
    fn run_on_helper(&mut self, _blocked: &Arc<Blocked>) {}

    /// Replies to a blocked client and unblocks it. Called with locks held. Returns true if the
    /// reply is sent when they are unlocked and the changes, if any, are committed.
    fn answer(&mut self, _blocked: &Blocked, _answer: Answer) -> bool {
        false
    }
}
