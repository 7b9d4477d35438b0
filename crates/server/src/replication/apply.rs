//! Applies the primary's stream in the order of its execution there: commands, and frames
//! ([`super::frames`]).
//!
//! Nothing expires on behalf of these commands: the primary sends a `DEL` when a key expires. The
//! offset advances over whole commands and whole transactions: after a link breaks within one, the
//! stream resumes before it.

use super::attempt::Link;
use super::fack::FackOffsets;
use super::frames::{Aside, Failures};
use super::lanes::{ApplyThreads, Place};
use crate::client::Client;
use crate::host::ServerHost;
use crate::relative_time::is_relative;
use crate::server::Server;
use crate::state::outgoing::Relayed;
use petrel_commands::acl::Users;
use petrel_commands::spec::{Flags, Group};
use petrel_commands::{
    Answer, Blocked, Command, Execution, Executor, Host, Modes, Outcome, Session, Standing, Ticket,
};
use petrel_keyspace::{Cleared, Event, Handle};
use petrel_net::{Endpoint, Slot};
use petrel_persistence::rdb::Leniency;
use petrel_replication::frame::{HAS_EFFECTS, MARK};
use petrel_resp::{Limits, Parsed, Protocol, Reply, RespWriter, Resume, parse, recycle};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Number of commands after which changes are published to clients and the offset is updated.
const COMMANDS_AT_ONCE: usize = 512;

/// Bytes of an argument at most: keys, fields and elements have lengths of 32 bits.
const ARGUMENT_LEN_MAX: usize = u32::MAX as usize - 1024;

/// Errors of commands that are logged one by one, for each link.
pub(super) const ERRORS_LOGGED: u64 = 10;

/// Bytes of room that are kept while nothing waits there.
const ROOM_MAX: usize = 1 << 20;

/// Executes the primary's commands.
pub(super) struct Applier {
    pub(super) exec: Executor,
    pub(super) session: Session,
    pub(super) host: PrimaryHost,
    pub(super) aside: Aside,
    pub(super) hands: ApplyThreads,
    /// Frames that are applied together; empty but while they are.
    pub(super) run: Vec<Place>,
    reply: Vec<u8>,
    args: Vec<&'static [u8]>,
    /// Received bytes: finished up to `counted`, not yet executed from `parsed` on.
    input: Vec<u8>,
    pub(super) counted: usize,
    pub(super) parsed: usize,
    resume: Resume,
    /// The input has been looked at and holds no whole command.
    pub(super) is_incomplete: bool,
    /// A primary has sent frames that are none: commands are asked for.
    pub(super) distrusts_frames: bool,
    /// The history that nothing can be gone on with, if there is one.
    pub(super) broken: Option<String>,
    /// Number of consecutive copies that turned out useless, because of their contents or the
    /// stream after them. The primary had to make each of them, so the pauses in between grow.
    pub(super) faults: u32,
    /// Commands that answered with an error here, or were not executed, since the stream began.
    errors: u64,
    synced: FackOffsets,
}

/// Result of executing some commands.
pub(super) struct Executed {
    /// Bytes of the input up to the end of the last whole command or transaction.
    pub whole: usize,
    /// Kind of the executed stream.
    pub relayed: Relayed,
    /// The database that is selected there.
    db: u16,
    /// Position in the input of a request for an acknowledgement.
    asked_at: Option<usize>,
}

impl Applier {
    /// Creates an applier for the calling thread.
    pub fn new(server: &Arc<Server>) -> Self {
        let mut session = Session::new(true);
        session.set(Modes::LOADER, true);
        session.become_user(Some(Users::nobody_above(&server.commands.registry)));
        let (exec, host) = Self::tools(server);
        Applier {
            exec,
            session,
            host,
            aside: Aside::default(),
            hands: ApplyThreads::default(),
            run: Vec::new(),
            reply: Vec::new(),
            args: Vec::new(),
            input: Vec::new(),
            counted: 0,
            parsed: 0,
            resume: Resume::default(),
            is_incomplete: false,
            distrusts_frames: false,
            broken: None,
            faults: 0,
            errors: 0,
            synced: FackOffsets::default(),
        }
    }

    /// Creates the executor and host with which a thread applies the primary's changes.
    pub fn tools(server: &Arc<Server>) -> (Executor, PrimaryHost) {
        let here = Endpoint::Unix;
        let nobody = Client::new(0, u16::MAX, Slot::NOWHERE, 0, -1, here.clone(), here);
        let host = ServerHost::new(server.clone(), Arc::new(nobody));
        let mut exec = Executor::new(server.keyspace.attach(), server.commands.clone());
        exec.ks.set_events(host.config.notify_keyspace_events.wanted());
        (exec, PrimaryHost(host))
    }

    /// The history that this server has, and how many bytes of it; none if it needs a copy.
    pub fn history(&self, server: &Server) -> Option<(String, i64)> {
        let replication = &server.replication;
        let id = replication.ids().id;
        (self.broken.as_ref() != Some(&id)).then(|| (id, replication.offset()))
    }

    /// Begins a new history, with `db` as the stream's selected database.
    pub fn begin_history(&mut self, db: u16) {
        let replication = &self.host.0.server.replication;
        replication.stream_db.store(db, Relaxed);
        replication.is_broken.store(false, Relaxed);
        self.broken = None;
    }

    /// A stream begins behind the offset, with these bytes.
    pub fn begin_stream(&mut self, received: Vec<u8>) {
        self.exec.begin();
        petrel_commands::transactions::abandon(&mut self.exec, &mut self.session);
        self.exec.end();
        self.session.set(Modes::EFFECTS, false);
        self.session.db = self.host.0.server.replication.stream_db.load(Relaxed);
        self.input = received;
        (self.counted, self.parsed) = (0, 0);
        (self.resume, self.errors) = (Resume::default(), 0);
        self.is_incomplete = false;
        let server = &self.host.0.server;
        let epoch = server.keyspace.epochs().now();
        self.synced.begin(epoch, server.replication.offset());
        if let Some(log) = server.durability.log() {
            log.want(epoch);
        }
    }

    /// Takes received bytes.
    pub fn take_from(&mut self, received: &mut Vec<u8>) {
        if self.input.is_empty() {
            std::mem::swap(&mut self.input, received);
        } else {
            self.input.append(received);
        }
        self.is_incomplete = false;
    }

    /// Whether there may be something to execute.
    pub fn has_whole_commands(&self) -> bool {
        !self.is_incomplete
    }

    /// The offset up to which the stream is on this server's disk; none without a log.
    pub fn synced(&mut self) -> Option<i64> {
        let log = self.host.0.server.durability.log()?;
        Some(self.synced.up_to(log.durable()))
    }

    /// `REPLCONF ACK`, with the offset on the disk if there is a log.
    pub fn acknowledgement(&mut self, offset: i64) -> Vec<u8> {
        let (offset, synced) = (offset.to_string(), self.synced().map(|synced| synced.to_string()));
        let mut words = vec![&b"REPLCONF"[..], b"ACK", offset.as_bytes()];
        if let Some(synced) = &synced {
            words.extend([&b"FACK"[..], synced.as_bytes()]);
        }
        let mut bytes = Vec::new();
        petrel_resp::encode_command(&words, &mut bytes);
        bytes
    }

    /// Removes every key, and frees them in the background or here. The thread is in no batch.
    pub fn clear(&mut self, in_background: bool) {
        self.exec.begin();
        self.exec.ks.lock_all();
        let cleared = self.exec.ks.clear(None);
        self.exec.ks.unlock();
        self.exec.end();
        self.tell_others();
        if in_background { self.host.0.server.reaper.reap(cleared) } else { drop(cleared) }
    }

    /// Executes some of the received stream; returns the offset up to which an acknowledgement is
    /// requested, if one is.
    ///
    /// # Errors
    /// If the received bytes are no stream of commands, or the link is no longer wanted.
    pub fn execute_received(&mut self, link: &Link) -> Result<Option<i64>, String> {
        let server = link.server.clone();
        let replication = &server.replication;
        replication.give_way_at_a_point();
        let _applying = replication.applying.lock();
        link.check_request()?;
        self.host.begin_turn(&mut self.exec);
        let input = Arc::new(std::mem::take(&mut self.input));
        self.exec.begin();
        replication.is_amid.store(true, Relaxed);
        let executed = self.execute_some(&input, link);
        let asked = match &executed {
            Ok(Executed { whole, relayed, db, asked_at }) => {
                let done = &input[self.counted..*whole];
                let before = replication.offset.fetch_add(done.len() as i64, Relaxed);
                replication.stream_db.store(*db, Relaxed);
                if !done.is_empty() {
                    replication.tell_downstream(|downstream| downstream.relay(done, *relayed));
                }
                asked_at.map(|at| before + (at - self.counted) as i64)
            }
            Err(_) => {
                replication.is_broken.store(true, Relaxed);
                None
            }
        };
        replication.is_amid.store(false, Relaxed);
        self.exec.end();
        let epoch = self.exec.ks.take_need().max(self.hands.epoch);
        self.synced.executed(epoch, replication.offset());
        // No other thread refers to it any more, unless one panicked.
        self.input = Arc::unwrap_or_clone(input);
        self.tell_others();
        let executed = executed.inspect_err(|_| {
            // The fault is in the primary's stream, or was introduced on the way.
            self.broken = Some(replication.ids().id);
            self.faults += 1;
        })?;
        self.count_up_to(executed.whole);
        let longest = self.longest();
        if self.is_incomplete && self.input.len() - self.counted > longest {
            return Err(format!(
                "a command or transaction has more than {longest} bytes (client-query-buffer-limit and \
                 proto-max-bulk-len)"
            ));
        }
        Ok(asked)
    }

    /// Bytes that one command or transaction may have.
    pub(super) fn longest(&self) -> usize {
        let config = &self.host.0.config;
        config.client_query_buffer_limit.saturating_add(config.proto_max_bulk_len) as usize
    }

    /// Is done with the input up to there. What follows is moved to the front once it is no longer
    /// than what went before it, so that short commands do not move much each.
    fn count_up_to(&mut self, end: usize) {
        self.counted = end;
        if end == self.input.len() {
            self.input.clear();
            self.input.shrink_to(ROOM_MAX);
        } else if end >= self.input.len() - end {
            self.input.drain(..end);
        } else {
            return;
        }
        self.parsed -= end;
        self.counted = 0;
    }

    fn execute_some(&mut self, input: &Arc<Vec<u8>>, link: &Link) -> Result<Executed, String> {
        let limits = Limits::new(ARGUMENT_LEN_MAX);
        let number = link.server.replication.request_number.load(Acquire);
        let db = link.server.replication.stream_db.load(Relaxed);
        let relayed = Relayed::default();
        let from = self.counted;
        let mut executed = Executed { whole: from, relayed, db, asked_at: None };
        for _ in 0..COMMANDS_AT_ONCE {
            let is_wanted = link.server.replication.request_number.load(Acquire) == number;
            let gives_way =
                self.exec.ks.should_yield() || link.server.replication.is_point_wanted();
            if !is_wanted || gives_way && executed.whole > from {
                break;
            }
            if input.get(self.parsed) == Some(&MARK) {
                if self.apply_next(input, link, &mut executed)? { continue } else { break }
            }
            let mut args = recycle(std::mem::take(&mut self.args));
            let parsed = parse(&input[self.parsed..], &limits, &mut args, &mut self.resume);
            let at = self.parsed;
            match parsed {
                // Another thread may enter before it, and must find the executed commands counted.
                Parsed::Command { .. } if executed.whole > from && may_hold_everything(&args) => {
                    break;
                }
                Parsed::Command { consumed } => {
                    self.parsed += consumed;
                    if is_question(&args) {
                        executed.asked_at = Some(at);
                    } else if announces_effects(&args) {
                        // Only a transaction cannot be parted from its announcement.
                        let is_petrel = link.server.replication.link.is_petrel.load(Relaxed);
                        self.session.set(Modes::EFFECTS, is_petrel && self.session.in_multi());
                    } else {
                        if self.execute(&args, link) {
                            executed.relayed.frames = Some(false);
                        }
                    }
                }
                Parsed::Empty { consumed } => self.parsed += consumed,
                Parsed::Incomplete { .. } => {
                    self.is_incomplete = true;
                    break;
                }
                Parsed::Inline { .. } | Parsed::Error(_) => {
                    let rest = &input[at..];
                    return Err(format!(
                        "its stream holds no command where one should be, but '{}'; a new copy is needed",
                        super::handshake::shown(&rest[..rest.len().min(64)])
                    ));
                }
            }
            self.args = recycle(args);
            if !self.session.in_multi() {
                self.session.set(Modes::EFFECTS, false);
                (executed.whole, executed.db) = (self.parsed, self.session.db);
            }
            if executed.asked_at.is_some() {
                break;
            }
        }
        Ok(executed)
    }

    /// Executes a command; whether it is one that changes data.
    fn execute(&mut self, args: &[&[u8]], link: &Link) -> bool {
        self.exec.ks.refresh_clock();
        // The keys; the fields of hashes go by the clock alone.
        self.exec.ks.see_expired(true);
        let request = self.exec.prepare(args, None);
        let Some(command) = request.command else {
            self.note_error(link, args, b"it is unknown, and was skipped");
            return true;
        };
        if !goes_by_clock(command, args) {
            self.exec.ks.ignore_expiry();
        }
        self.reply.clear();
        let (mut values, session) = (Vec::new(), &mut self.session);
        let mut reply = RespWriter::new(&mut self.reply, &mut values, Protocol::Resp2);
        let done = self.exec.execute(&request, session, &mut self.host, &mut reply);
        if done == Execution::Waits {
            self.note_error(link, args, b"it would block");
        } else if self.reply.starts_with(b"-") {
            let error = std::mem::take(&mut self.reply);
            self.note_error(link, args, error.trim_ascii());
            self.reply = error;
        }
        command.spec.flags.contains(Flags::WRITE)
            || command.spec.flags.contains(Flags::SCRIPT_RUNNER)
    }

    #[cold]
    fn note_error(&mut self, link: &Link, args: &[&[u8]], error: &[u8]) {
        let name = super::handshake::shown(args[0]);
        let error = String::from_utf8_lossy(error);
        let key = args.get(1).copied().unwrap_or_default();
        self.note_failure(link, ("command", &name), key, &error);
    }

    /// Logs something that the primary did and that was not done here as it was there, and stops
    /// the server if `propagation-error-behavior` says so.
    #[cold]
    pub(super) fn note_failure(
        &mut self,
        link: &Link,
        (kind, name): (&str, &str),
        key: &[u8],
        error: &str,
    ) {
        self.errors += 1;
        if self.host.0.config.replication.propagation_error_behavior.word() != "ignore" {
            let why = "propagation-error-behavior";
            link.server.fail(format!("the primary's {kind} '{name}' fails here ({why}): {error}"));
        }
        if self.errors <= ERRORS_LOGGED {
            let key = super::handshake::shown(key);
            let offset = link.server.replication.offset();
            tracing::error!(
                "the primary's {kind} fails here, so that the data may differ: '{name}' '{key}' after byte {offset}: {error}"
            );
        }
    }

    /// Records failures of some commits.
    pub(super) fn note_failures(&mut self, link: &Link, failures: Failures) {
        for (name, key, why) in failures.first {
            self.note_failure(link, ("effect", &name), &key.unwrap_or_default(), &why);
        }
        self.errors += failures.more;
    }

    fn tell_others(&mut self) {
        tell_others(&mut self.exec, &mut self.host);
    }
}

/// Sends keyspace events and invalidations of the changes.
pub(super) fn tell_others(exec: &mut Executor, PrimaryHost(host): &mut PrimaryHost) {
    host.take_upkeep_invalidations(&mut exec.ks);
    host.send_invalidations();
    host.send_broadcasts();
    host.call_workers();
}

/// Whether a command may wait for the whole keyspace. Another thread, such as a snapshot's, may
/// lock it meanwhile, and must find the executed commands counted.
fn may_hold_everything(args: &[&[u8]]) -> bool {
    const NAMES: [&str; 8] =
        ["exec", "flushall", "flushdb", "swapdb", "function", "eval", "evalsha", "fcall"];
    args.first().is_some_and(|name| {
        NAMES.iter().any(|candidate| name.eq_ignore_ascii_case(candidate.as_bytes()))
    })
}

/// `REPLCONF GETACK`.
fn is_question(args: &[&[u8]]) -> bool {
    args.len() >= 2
        && args[0].eq_ignore_ascii_case(b"replconf")
        && args[1].eq_ignore_ascii_case(b"getack")
}

/// Whether a command is `REPLCONF capa petrel-members`.
fn announces_effects(args: &[&[u8]]) -> bool {
    let words = ["replconf", "capa", HAS_EFFECTS];
    args.len() == words.len()
        && args.iter().zip(words).all(|(arg, word)| arg.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether a command says a time that counts from when it is executed, or notes when it was. A
/// primary sends most with the times of its clock.
fn goes_by_clock(command: Command, args: &[&[u8]]) -> bool {
    is_relative(command, args) || command.spec.meta.group == Group::Stream
}

/// The host of the primary's commands, which are no connection's of a worker.
pub(super) struct PrimaryHost(pub(super) ServerHost);

impl PrimaryHost {
    /// A turn of the thread that it is of begins.
    pub(super) fn begin_turn(&mut self, exec: &mut Executor) {
        if self.0.begin_turn() {
            exec.ks.set_events(self.0.config.notify_keyspace_events.wanted());
        }
    }
}

impl Host for PrimaryHost {
    delegate_trusted_host!(0);
    delegate! { 0:
        fn show(&mut self, db: u16, in_script: bool, args: &[&[u8]]);
        fn flushes_in_background(&self) -> bool;
        fn flushed_all(&mut self, ks: &mut Handle, is_all: bool);
        fn notify(&mut self, event: &Event);
        fn standing(&mut self, blocked: &Blocked) -> Standing;
        fn act_for(&mut self, client: Ticket) -> Ticket;
        fn answer(&mut self, blocked: &Blocked, answer: Answer) -> bool;
    }

    fn client_label(&mut self) -> (String, String) {
        (String::new(), "primary".into())
    }

    fn invalidate(&mut self, ks: &mut Handle, _: Option<&mut dyn Reply>) {
        self.0.invalidate(ks, None);
    }
}
