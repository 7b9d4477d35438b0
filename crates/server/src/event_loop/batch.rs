//! Executes a connection's input: commands are parsed ahead, their keys hashed and the needed cache
//! lines prefetched, then executed strictly in order.

use crate::client::Flag;
use crate::event_loop::connection::Conn;
use crate::event_loop::prefetch_estimate::Habit;
use crate::host::ServerHost;
use arrayvec::ArrayVec;
use bytes::Bytes;
use petrel_commands::spec::GateFlags;
use petrel_commands::{Answer, Command, Execution, Executor, Moment, Replies, ReplySlots, Request};
use petrel_keyspace::KeyHash;
use petrel_net::Output;
use petrel_resp::{Limits, Parsed, Reply, RespWriter, Resume, parse, recycle};
use std::sync::atomic::Ordering::Relaxed;

/// Commands parsed ahead.
const AHEAD: usize = 64;

/// Quota of all connections in one turn, in bytes of replies; each command counts as at least
/// [`COMMAND_COST`], so there are at most 2,048 commands. A turn bounds the wait of other clients.
const QUOTA: usize = 2 * 1024 * 1024;
const COMMAND_COST: isize = 1024;

/// Minimum quota of a connection, for usual pipelines.
const QUOTA_MIN: usize = 256 * 1024;

/// Buffers that every batch of a worker uses again.
#[derive(Default)]
struct Scratch {
    args: Vec<&'static [u8]>,
    /// End of each command: its last argument's index plus one, and its last byte plus one.
    ends: Vec<(usize, usize)>,
    shared: Vec<(usize, Bytes)>,
}

/// Milliseconds between two warnings of connections that speak HTTP.
const HTTP_WARNING_MS: i64 = 60_000;

/// Result of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes of the executed commands.
    pub consumed: usize,
    /// Reason that the batch ended.
    pub stop: Stop,
    /// Bytes of the last executed command.
    pub last: usize,
}

/// Reason that a batch ended.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// The rest is an incomplete command.
    Incomplete {
        /// Bytes that the command has at least.
        needed: usize,
        /// Position of the parser.
        resume: Resume,
    },
    /// The connection is to be closed once its output is written.
    Close,
    /// `CLIENT PAUSE` defers the next command.
    Paused,
    /// The quota is used up: resume in the next turn.
    Quota,
    /// The last command has no reply yet: it waits for a key.
    Waits,
    /// The next command runs a script, or a transaction that may take long; the worker needs a busy
    /// loop.
    Script,
    /// The next command depends on outstanding replies of other nodes.
    Away,
}

/// Executes a worker's commands.
pub struct Engine {
    /// The worker's executor.
    pub exec: Executor,
    /// The worker's host.
    pub host: ServerHost,
    limits: Limits,
    /// Bytes of output that an ordinary client may have.
    output_max: usize,
    /// Quota of each connection in this turn.
    quota: isize,
    scratch: Scratch,
    pub(crate) habit: Habit,
}

/// Bytes of an argument at most, whatever `proto-max-bulk-len` says: keys, fields and elements have
/// lengths of 32 bits.
const ARGUMENT_LEN_MAX: usize = u32::MAX as usize - 1024;

fn limits_of(host: &ServerHost) -> Limits {
    Limits::new((host.config.proto_max_bulk_len as usize).min(ARGUMENT_LEN_MAX))
}

impl Engine {
    /// An engine around an executor and its host.
    pub fn new(exec: Executor, host: ServerHost) -> Self {
        let limits = limits_of(&host);
        let (scratch, habit) = (Scratch::default(), Habit::default());
        let (output_max, quota) = (usize::MAX, QUOTA as isize);
        let mut engine = Engine { exec, host, limits, output_max, quota, scratch, habit };
        engine.reconfigure();
        engine
    }

    /// Applies changed parameters of the protocol.
    pub fn reconfigure(&mut self) {
        self.limits = limits_of(&self.host);
        self.limit_replies();
        self.exec.ks.set_events(self.host.wanted_events());
    }

    /// Updates the maximum output of a client, which depends on the memory limit.
    pub fn limit_replies(&mut self) {
        self.host.measure_reply_room();
        self.output_max = self.host.output_max(false, true);
    }

    /// Divides the quota of a turn among this many connections.
    #[inline]
    pub(crate) fn share_turn(&mut self, connections: usize) {
        self.quota = (QUOTA / connections.max(1)).max(QUOTA_MIN) as isize;
    }

    /// Evicts keys if buffers of clients have grown beyond the memory limit: commands that only
    /// read do not make room. No reply depends on it.
    pub(crate) fn make_room_for_buffers(&mut self) {
        let Engine { exec, host, .. } = self;
        let (is_apart, need) = (exec.ks.is_outside(), exec.ks.take_need());
        if !is_apart || exec.begin_unless_busy() {
            exec.make_room(0);
        }
        if is_apart {
            exec.end();
        }
        host.take_upkeep_invalidations(&mut exec.ks);
        exec.ks.take_need();
        exec.ks.note_need(need);
    }

    /// Executes the whole commands at the beginning of `bytes`, which `conn` has sent, and writes
    /// their replies to `output`. `owner` is the allocation that `bytes` fill, if a large value
    /// may keep it. The executor is in a batch.
    pub fn run(
        &mut self,
        conn: &mut Conn,
        bytes: &[u8],
        resume: Resume,
        owner: Option<&Bytes>,
        output: &mut Output,
    ) -> Progress {
        std::mem::swap(&mut self.host.client, &mut conn.client);
        let replied = output.bytes.len();
        let shared_bytes = output.len() - replied;
        let unsent = conn.client.output_bytes.load(Relaxed) as usize;
        let lends = self.host.busy_loop.borrow().is_none();
        let mut batch = Batch {
            lines: self.habit.lines(),
            large: self.exec.shared.large_bytes(),
            moment: if lends { Moment::CLIENT.with(Moment::LENDS) } else { Moment::CLIENT },
            exec: &mut self.exec,
            host: &mut self.host,
            scratch: &mut self.scratch,
            output,
            limits: self.limits,
            quota: self.quota,
            unsent,
            shared_bytes,
            output_max: self.output_max.saturating_sub(unsent),
            end: 0,
            executed: 0,
            last: 0,
        };
        batch.set_shared_bytes(shared_bytes);
        let progress = batch.run(conn, bytes, resume, owner);
        let executed = batch.executed;
        if conn.session.extras.is_some() {
            conn.hold_replies(output);
        }
        self.habit.note(executed, progress.consumed + output.bytes.len().saturating_sub(replied));
        let nested = std::mem::take(&mut self.exec.script_calls);
        self.host.publish(&conn.session, executed, nested);
        self.host.server.workers[self.host.worker()].traffic.count_batch(executed);
        std::mem::swap(&mut self.host.client, &mut conn.client);
        progress
    }
}

struct Batch<'w> {
    exec: &'w mut Executor,
    host: &'w mut ServerHost,
    scratch: &'w mut Scratch,
    output: &'w mut Output,
    limits: Limits,
    /// Rest of this turn's quota; the last command may exceed it.
    quota: isize,
    /// Bytes of earlier output that the peer has not taken.
    unsent: usize,
    /// Bytes of this batch's output that lie elsewhere.
    shared_bytes: usize,
    /// Bytes that the output of an ordinary client may have.
    output_max: usize,
    /// Maximum length of `output.bytes` of an ordinary client: `output_max` without `shared_bytes`.
    end: usize,
    /// Commands executed so far.
    executed: u64,
    /// Bytes of the last of them.
    last: usize,
    /// State valid for every command of the batch, unless a slow script blocks this worker.
    moment: Moment,
    /// Bytes of a command or its reply from which on it may have to be logged.
    large: u64,
    /// Cache lines of an entry to prefetch.
    lines: usize,
}

/// Parses at most `most` commands, from an offset on: their arguments, and the end of each. Returns
/// the parser's result if something other than a command follows before.
#[inline]
fn parse_ahead<'b>(
    (bytes, mut parsed): (&'b [u8], usize),
    limits: &Limits,
    most: usize,
    args: &mut Vec<&'b [u8]>,
    ends: &mut Vec<(usize, usize)>,
    resume: &mut Resume,
) -> Option<Parsed> {
    while ends.len() < most {
        match parse(&bytes[parsed..], limits, args, resume) {
            Parsed::Command { consumed } | Parsed::Empty { consumed } => {
                parsed += consumed;
                ends.push((args.len(), parsed));
            }
            other => return Some(other),
        }
    }
    None
}

impl Batch<'_> {
    fn run(
        &mut self,
        conn: &mut Conn,
        bytes: &[u8],
        mut resume: Resume,
        owner: Option<&Bytes>,
    ) -> Progress {
        let mut args = recycle(std::mem::take(&mut self.scratch.args));
        let mut ends = std::mem::take(&mut self.scratch.ends);
        let mut consumed = 0;
        if !conn.session.is_authenticated() && self.host.server.commands.users.are_open() {
            conn.session.become_user(None);
            conn.client.set(Flag::Authenticated, true);
        }
        let stop = loop {
            args.clear();
            ends.clear();
            // Before authentication each command may change the limits of the next.
            let (limits, most) = match conn.session.is_authenticated() {
                true => (self.limits, AHEAD),
                false => (self.limits.unauthenticated(), 1),
            };
            let rest = (bytes, consumed);
            let end = parse_ahead(rest, &limits, most, &mut args, &mut ends, &mut resume);
            if let Some(stop) = self.execute(conn, &args, &ends, &mut consumed, owner) {
                break stop;
            }
            match end {
                None => {}
                Some(Parsed::Inline { consumed: len, args }) => {
                    let stopped = self.execute_inline(conn, &args, len);
                    let is_left = matches!(
                        stopped,
                        Some(Stop::Paused | Stop::Quota | Stop::Script | Stop::Away)
                    );
                    if !is_left {
                        consumed += len;
                    }
                    if let Some(stop) = stopped {
                        break stop;
                    }
                }
                Some(Parsed::Error(error)) => {
                    if let Some(last) = conn.session.reply_slots().and_then(ReplySlots::last) {
                        // Its error is the last that is sent.
                        conn.session.reply_slots_mut().wait_for(last);
                        break Stop::Away;
                    }
                    self.writer(conn).error(&error.text());
                    break Stop::Close;
                }
                Some(Parsed::Incomplete { needed }) => break Stop::Incomplete { needed, resume },
                Some(Parsed::Command { .. } | Parsed::Empty { .. }) => {}
            }
        };
        self.splice();
        self.scratch.args = recycle(args);
        self.scratch.ends = ends;
        Progress { consumed, stop, last: self.last }
    }

    fn execute(
        &mut self,
        conn: &mut Conn,
        args: &[&[u8]],
        ends: &[(usize, usize)],
        consumed: &mut usize,
        owner: Option<&Bytes>,
    ) -> Option<Stop> {
        let mut requests: ArrayVec<Request<'_>, AHEAD> = ArrayVec::new();
        let mut first = 0;
        for &(last, _) in ends {
            requests.push(self.exec.prepare(&args[first..last], owner));
            first = last;
        }
        if requests.len() > 1 {
            let guess = |request| self.exec.guess(request);
            let hashes: ArrayVec<KeyHash, AHEAD> = requests.iter().filter_map(guess).collect();
            self.exec.prefetch(conn.session.db, hashes.iter().copied(), self.lines);
        }
        self.exec.ks.keep();
        let stop = self.execute_prepared(conn, &requests, ends, consumed);
        self.exec.ks.keep_no_more();
        stop
    }

    fn execute_prepared(
        &mut self,
        conn: &mut Conn,
        requests: &[Request<'_>],
        ends: &[(usize, usize)],
        consumed: &mut usize,
    ) -> Option<Stop> {
        for (request, &(_, end)) in requests.iter().zip(ends) {
            if !request.args.is_empty()
                && let Some(stop) = self.execute_one(conn, request, end - *consumed)
            {
                if matches!(stop, Stop::Close | Stop::Waits) {
                    *consumed = end;
                }
                return Some(stop);
            }
            *consumed = end;
        }
        None
    }

    fn execute_inline(&mut self, conn: &mut Conn, args: &[Vec<u8>], len: usize) -> Option<Stop> {
        let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
        let request = self.exec.prepare(&args, None);
        self.execute_one(conn, &request, len)
    }

    /// Executes a command of `len` bytes. `Paused`, `Quota`, `Script` and `Away` mean that it was
    /// not executed.
    #[inline]
    fn execute_one(&mut self, conn: &mut Conn, request: &Request<'_>, len: usize) -> Option<Stop> {
        if self.quota <= 0 {
            return Some(Stop::Quota);
        }
        let moment = self.moment();
        let replies = conn.session.replies;
        if replies == Replies::SkipNext {
            conn.session.replies = Replies::Skip;
        }
        if let Some(command) = request.command {
            self.host.client.last_command.store(command.index, Relaxed);
        } else if speaks_http(request) {
            return Some(self.refuse_http());
        }
        let before = (self.output.bytes.len(), self.scratch.shared.len());
        let end = self.output_end();
        let mut writer = RespWriter::new(
            &mut self.output.bytes,
            &mut self.scratch.shared,
            conn.session.protocol,
        )
        .limited(end);
        let execution =
            self.exec.execute_at(moment, request, &mut conn.session, self.host, &mut writer);
        let is_cut = writer.is_cut();
        if execution != Execution::Answered {
            if execution == Execution::Forwarded {
                return self.hold_replies(conn, len);
            }
            return stopped_by(execution, conn, replies);
        }
        self.executed += 1;
        self.last = len;
        let replied = self.output.bytes.len() - before.0;
        self.quota -= COMMAND_COST + replied as isize;
        if (len.max(replied) as u64 >= self.large) | (self.scratch.shared.len() > before.1) | is_cut
        {
            self.note_large(request, len, replied, before.1);
            if is_cut && conn.session.replies == Replies::On {
                return Some(self.refuse_output(conn));
            }
        }
        if conn.session.replies != Replies::On {
            if conn.session.replies == Replies::Skip {
                conn.session.replies = Replies::On;
            }
            if !request.command.is_some_and(answers_by_push) {
                self.output.bytes.truncate(before.0);
                let dropped = self.scratch.shared.drain(before.1..);
                let dropped = dropped.map(|(_, value)| value.len()).sum::<usize>();
                self.set_shared_bytes(self.shared_bytes - dropped);
            }
        }
        if self.host.has_pushed() && self.pass_pushes(conn) {
            return Some(self.refuse_output(conn));
        }
        (conn.session.close || conn.closing).then_some(Stop::Close)
    }

    /// Begins a reply slot for a command executed by other nodes: earlier replies go before it.
    #[cold]
    fn hold_replies(&mut self, conn: &mut Conn, len: usize) -> Option<Stop> {
        self.executed += 1;
        self.last = len;
        self.quota -= COMMAND_COST;
        self.splice();
        let (bytes, shared) = self.output.take();
        if !bytes.is_empty() || !shared.is_empty() {
            conn.session.reply_slots_mut().hold(Answer { bytes, shared }, true);
        }
        self.set_shared_bytes(0);
        if conn.session.replies == Replies::Skip {
            conn.session.replies = Replies::On;
        }
        None
    }

    /// Maximum length of `output`, so that the client's total output is within the limit of its
    /// class. A replica gets no replies: they would break its replication stream.
    #[inline]
    fn output_end(&self) -> usize {
        const UNUSUAL: u32 = Flag::PubSub as u32 | Flag::NoEvict as u32 | Flag::Replica as u32;
        let flags = self.host.client.flags.load(Relaxed);
        if flags & UNUSUAL == 0 { self.end } else { self.unusual_output_end() }
    }

    #[cold]
    fn unusual_output_end(&self) -> usize {
        let client = &self.host.client;
        if client.has(Flag::Replica) {
            return self.output.bytes.len();
        }
        let most = self.host.output_max(client.has(Flag::PubSub), !client.has(Flag::NoEvict));
        most.saturating_sub(self.unsent).saturating_sub(self.shared_bytes)
    }

    /// Sets the number of bytes of this batch's output that are outside of `output.bytes`.
    #[inline]
    fn set_shared_bytes(&mut self, bytes: usize) {
        self.shared_bytes = bytes;
        self.end = self.output_max.saturating_sub(bytes);
    }

    /// Closes a connection with a reply beyond a limit: nothing more is executed or sent.
    #[cold]
    fn refuse_output(&mut self, conn: &mut Conn) -> Stop {
        let (server, client) = (&self.host.server, &self.host.client);
        if client.has(Flag::Replica) {
            self.host.warn_of_reply(client);
        } else {
            let bytes = self.unsent + self.output.bytes.len() + self.shared_bytes;
            server.note_output_limit(client, bytes as u64);
        }
        conn.doomed = true;
        Stop::Close
    }

    /// Closes a connection that speaks HTTP without executing anything more: a page in a browser
    /// may make it send requests with commands in their bodies.
    #[cold]
    fn refuse_http(&mut self) -> Stop {
        let (host, now) = (&self.host, self.exec.ks.now_ms());
        if let Some(suppressed) = host.server.figures.http_attempts.happened(now, HTTP_WARNING_MS) {
            let address = host.client.address(&host.socket_path());
            tracing::warn!(
                "possible attack: the client at {address} sends HTTP to the command port, perhaps from a misused browser; it is closed{suppressed}"
            );
        }
        Stop::Close
    }

    /// Logs a large command, or one with a large reply; values from `shared` on are counted too.
    #[cold]
    fn note_large(&mut self, request: &Request<'_>, len: usize, replied: usize, shared: usize) {
        let values: usize =
            self.scratch.shared[shared..].iter().map(|(_, value)| value.len()).sum();
        let Some(command) = request.command else { return };
        self.set_shared_bytes(self.shared_bytes + values);
        self.quota = self.quota.saturating_sub_unsigned(values);
        let bytes = (len as u64, (replied + values) as u64);
        self.exec.shared.note_large(command, request.args, bytes, self.host);
    }

    /// Appends pushes of the connection's own command after its reply. Pushes for other clients are
    /// sent at the end of the turn. Returns true if the output exceeds the connection's limit.
    #[cold]
    fn pass_pushes(&mut self, conn: &Conn) -> bool {
        let end = self.output_end();
        let Batch { host, output, scratch, .. } = self;
        if host.leave_pushes() {
            return false;
        }
        let mut room = end.saturating_sub(output.bytes.len());
        let (before, shared, mut is_cut) = (room, scratch.shared.len(), false);
        host.collect_pushes(|push| match room.checked_sub(push.len()) {
            None => is_cut = true,
            Some(left) => {
                room = left;
                push.write(conn.session.protocol, &mut output.bytes, &mut scratch.shared);
            }
        });
        let values = scratch.shared[shared..].iter().map(|(_, value)| value.len());
        let shared_bytes = self.shared_bytes + values.sum::<usize>();
        self.set_shared_bytes(shared_bytes);
        self.quota = self.quota.saturating_sub_unsigned(before - room);
        is_cut
    }

    /// Returns the state for the next command. A long script may block this worker: commands that
    /// need no keys are executed nevertheless.
    #[inline]
    fn moment(&mut self) -> Moment {
        if self.exec.shared.scripts.running.is_busy() || !self.exec.yield_unless_busy() {
            return Moment::CLIENT.with(Moment::KEPT_OUT);
        }
        self.moment
    }

    fn writer(&mut self, conn: &Conn) -> RespWriter<'_> {
        RespWriter::new(&mut self.output.bytes, &mut self.scratch.shared, conn.session.protocol)
    }

    /// Hands large values to the output, by reference.
    fn splice(&mut self) {
        for (offset, value) in self.scratch.shared.drain(..) {
            self.output.splice_at(offset, value);
        }
    }
}

/// Whether an unknown command is a line of an HTTP request that can bring commands: the first of a
/// `POST`, or the header that none is without.
#[cold]
fn speaks_http(request: &Request<'_>) -> bool {
    let name = request.args.first().copied().unwrap_or_default();
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// Maps an unanswered command to the reason that the batch ends. `replies` is restored if the
/// command was not executed.
#[cold]
fn stopped_by(execution: Execution, conn: &mut Conn, replies: Replies) -> Option<Stop> {
    let stop = match execution {
        Execution::Answered | Execution::Skipped | Execution::Forwarded => return None,
        // Counted with its answer.
        Execution::Waits => return Some(Stop::Waits),
        Execution::Held => Stop::Paused,
        Execution::Lends => Stop::Script,
        Execution::NextTurn => Stop::Quota,
        Execution::Awaits => Stop::Away,
    };
    conn.session.replies = replies;
    Some(stop)
}

/// Whether a command answers by pushes, which are sent even if the client wants no replies.
fn answers_by_push(command: Command) -> bool {
    command.spec.gate.contains(GateFlags::ANSWERS_BY_PUSH)
}
