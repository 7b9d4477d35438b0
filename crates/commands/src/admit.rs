//! The gate: what becomes of each request, from a client, a script, a file or a primary.
//!
//! ```text
//!  a client  ─┐                        ┌─ Run
//!  EXEC       │   Executor::admit      ├─ Queue    MULTI is open
//!  a script   ├─  request, session,  ──┼─ Hold     a pause                      (admit/pause.rs)
//!  a blocked  │   moment               ├─ Busy     a slow script keeps others out
//!  client     │                        ├─ Lend     a script, a long transaction: the worker lends
//!                                         its connections
//!  MIGRATE    │                        ├─ Skip     of a file or a primary's stream, for others
//!  a file     │                        ├─ Forward  another node executes it   (admit/placement.rs)
//!  a primary ─┘                        ├─ Await    replies of other nodes come before it
//!                                      └─ Refuse   unknown, arity, login, ACL, memory, state of
//!                                                  the server             (admit/server_state.rs)
//! ```
//!
//! What will be refused anyway is not held back, so that the client hears of it at once.

mod copies;
pub(crate) mod pause;
pub(crate) mod placement;
mod redirect;
pub(crate) mod scripts;
pub(crate) mod server_state;
mod shares;
mod turn_away;

use crate::cluster::Rest;
use crate::execute::{Execution, Executor};
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::scripting::only_reads;
use crate::session::{Modes, Session};
use crate::spec::{Command, Request};
use crate::watches::watches_keys;
use petrel_resp::{Dialect, Protocol, Reply};
use petrel_table::{Flags, GateFlags, Group, bits, bitset};

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It is executed.
    Run,
    /// It joins the open transaction.
    Queue,
    /// It waits for the end of a pause.
    Hold,
    /// A slow script keeps the thread out of the keyspace, which it may need.
    Busy,
    /// It runs a script or a transaction that may take long, for which the worker has to lend its
    /// driver and its connections first.
    Lend,
    /// It came from a file or a primary, which says in other commands what it did.
    Skip,
    /// Other nodes of the cluster execute it.
    Forward(Box<placement::Forwarding>),
    /// It executes a transaction; then other nodes execute the rest of that. With what the client is
    /// sent behind the reply.
    RunWithRest(Box<(Rest, Vec<u8>)>),
    /// It waits until the reply slot of this number is gone.
    Await(u64),
    /// It reads keys that may be here as copies; if they are not, other nodes execute it.
    TryCopies,
    /// It executes a transaction, of which nothing becomes: what it watches may have changed.
    Abandon,
    /// It is answered with an error.
    Refuse(Fail),
}

bitset! {
    /// What holds of a request besides the states of its session and of the server.
    Moment: u8 {
        /// A client sent it, now or before it was blocked: a pause holds it back.
        CLIENT = 0 "client",
        /// The worker can lend its driver and its connections to a script.
        LENDS = 1 "lends",
        /// A slow script keeps the thread out of the keyspace.
        KEPT_OUT = 2 "kept_out",
        /// A script calls it.
        IN_SCRIPT = 3 "in_script",
        /// That script may not write.
        READ_ONLY = 4 "read_only",
        /// That script has changed nothing yet, and there was no memory left when it began.
        NO_MEMORY = 5 "no_memory",
        /// Whether that script has written: later state changes of the server do not end it.
        HAS_WRITTEN = 6 "has_written",
    }
}

/// Modes of connections that are sent what they have not asked for.
const LISTENER: Modes = Modes::SUBSCRIBER.with(Modes::MONITOR);

/// Modes in which other rules hold.
const SPECIAL_MODES: Modes = LISTENER.with(Modes::LOADER).with(Modes::REDIRECTABLE);

/// Moments at which other rules hold.
const SPECIAL_MOMENTS: Moment = Moment::KEPT_OUT.with(Moment::IN_SCRIPT);

impl Executor {
    /// Executes one command, and writes exactly one reply if it is [answered](Execution::Answered).
    #[inline]
    pub fn execute(
        &mut self,
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Execution {
        self.execute_at(Moment::NONE, request, session, host, reply)
    }

    /// The same at a moment at which it may have to be put off.
    #[inline]
    pub fn execute_at(
        &mut self,
        moment: Moment,
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Execution {
        if session.extras.is_some() && session.tracks_or_imports() {
            return self.execute_apart(moment, request, session, host, reply);
        }
        self.execute_one(moment, request, session, host, reply)
    }

    #[inline]
    pub(crate) fn execute_one(
        &mut self,
        moment: Moment,
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Execution {
        let nested = self.within_script || self.ks.holds_any();
        match self.admit(request, session, (moment, nested), host, reply) {
            Verdict::Run => self.execute_admitted(nested, request, session, host, reply),
            Verdict::TryCopies => self.execute_of_copies(request, session, host, reply),
            verdict => self.turn_away(verdict, request, session, host, reply),
        }
    }

    /// Decides what becomes of a request. `nested`: what it needs is locked, since it is part of a
    /// transaction or a script, or its client was blocked.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        request: &Request<'_>,
        session: &Session,
        (moment, nested): (Moment, bool),
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Verdict {
        let Some(command) = request.command else {
            return Verdict::Refuse(self.unknown(request.args, session, moment));
        };
        let spec = command.spec;
        let is_special = self.shared.refuses_some()
            | self.restricts(session)
            | session.extras.is_some()
            | session.modes.intersects(SPECIAL_MODES)
            | spec.flags.intersects(bits!(Flags: PROTECTED, NO_MULTI, SCRIPT_RUNNER))
            | moment.intersects(SPECIAL_MOMENTS)
            | self.shared.pause.is_active(self.ks.now_ms());
        if is_special {
            return self.admit_closely(command, request, session, (moment, nested), host, reply);
        }
        if !spec.accepts(request.args.len()) {
            return Verdict::Refuse(self.wrong_arity(command, session, moment));
        }
        if spec.flags.contains(Flags::DENYOOM)
            && !nested
            && let Err(fail) = self.admit_memory(request.args, host, reply)
        {
            return Verdict::Refuse(fail);
        }
        Verdict::Run
    }

    /// The same where the session, the server or the moment is not what it mostly is.
    #[inline(never)]
    fn admit_closely(
        &mut self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
        (moment, nested): (Moment, bool),
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Verdict {
        if session.is(Modes::LOADER) && !session.in_exec && !is_replayed(command) {
            return Verdict::Skip;
        }
        if moment.contains(Moment::CLIENT)
            && let Some(verdict) = self.postpone(command, request, session, moment)
        {
            return verdict;
        }
        match self.admit_call(command, request.args, session, (moment, nested), host, reply) {
            Err(fail) => Verdict::Refuse(fail),
            Ok(()) if !joins_queue(command, session) => {
                self.place(command, request, session, (moment, nested), host)
            }
            Ok(()) if self.spoils_queue(command) => Verdict::Refuse(self.not_inside(command)),
            Ok(()) => match self.admit_queued(command) {
                Ok(()) => Verdict::Queue,
                Err(fail) => Verdict::Refuse(fail),
            },
        }
    }

    /// Why a client's request is not looked at now, if it is not.
    fn postpone(
        &self,
        command: Command,
        request: &Request<'_>,
        session: &Session,
        moment: Moment,
    ) -> Option<Verdict> {
        if self.is_held_back(command, request, session) {
            return Some(Verdict::Hold);
        }
        if moment.contains(Moment::KEPT_OUT) {
            let is_refused =
                is_admissible(command, request, session) && !is_allowed_busy(command, session);
            return is_refused.then_some(Verdict::Busy);
        }
        (moment.contains(Moment::LENDS) && may_run_long(command, session)).then_some(Verdict::Lend)
    }

    /// Whether a pause holds a client's request back. What will be refused, or is only queued, is
    /// not.
    fn is_held_back(&self, command: Command, request: &Request<'_>, session: &Session) -> bool {
        let Some(writes_only) = self.shared.pause.active(self.ks.now_ms()) else { return false };
        let gate = command.spec.gate;
        let queues = session.in_multi() && !gate.contains(GateFlags::RUNS_QUEUE);
        is_admissible(command, request, session)
            && !queues
            && !gate.contains(GateFlags::RUNS_IN_PAUSE)
            && (!writes_only || self.may_write(command, request, session))
    }

    /// Whether a request is held back where writes are: it may change something here or elsewhere.
    fn may_write(&self, command: Command, request: &Request<'_>, session: &Session) -> bool {
        let may_write = |command: Command, args: &[&[u8]]| {
            command.spec.flags.intersects(bits!(Flags: WRITE, MAY_REPLICATE))
                && !only_reads(command, args, &self.shared)
        };
        match session.queue_run_by(command) {
            None => may_write(command, request.args),
            Some(queue) => {
                let args = queue.args();
                let queued = queue.requests(&args);
                queued.into_iter().any(|one| may_write(one.command.unwrap_or(command), one.args))
            }
        }
    }

    /// Refuses a call that the session may not make, or that cannot be executed in the states that
    /// the server is in.
    #[inline]
    fn admit_call(
        &mut self,
        command: Command,
        args: &[&[u8]],
        session: &Session,
        (moment, nested): (Moment, bool),
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Outcome {
        let spec = command.spec;
        if !spec.accepts(args.len()) {
            return Err(self.wrong_arity(command, session, moment));
        }
        if moment.contains(Moment::IN_SCRIPT) {
            self.admit_from_script(command, moment)?;
        }
        let is_restricted = self.restricts(session);
        if is_restricted || spec.flags.intersects(bits!(Flags: PROTECTED, NO_MULTI)) {
            self.admit_some(command, args, session, host, is_restricted)?;
        }
        if session.is(Modes::REDIRECTABLE) {
            self.admit_redirectable(command, session, host)?;
        }
        if self.shared.refuses_some() && !moment.contains(Moment::HAS_WRITTEN) {
            self.admit_in_state(command, args, session, host, reply)?;
        }
        // What a primary has executed is executed, whatever it takes.
        if spec.flags.contains(Flags::DENYOOM) && !nested && !session.is(Modes::LOADER) {
            self.admit_memory(args, host, reply)?;
        }
        if session.modes.intersects(LISTENER) {
            self.admit_listener(command, session)?;
        }
        Ok(())
    }

    /// Refuses a command that would need memory where there is none.
    #[inline(always)]
    fn admit_memory(
        &mut self,
        args: &[&[u8]],
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Outcome {
        let needed = args.iter().map(|arg| arg.len()).sum();
        let has_room = self.make_room(needed);
        if self.ks.has_invalidations() {
            host.invalidate(&mut self.ks, Some(reply));
        }
        if has_room { Ok(()) } else { Err(Fail::OUT_OF_MEMORY) }
    }

    /// The error of a name that no command has.
    #[cold]
    fn unknown(&self, args: &[&[u8]], session: &Session, moment: Moment) -> Fail {
        if moment.contains(Moment::IN_SCRIPT) {
            return scripts::unknown(self.shared.dialect());
        }
        match self.conceals_commands(session) {
            true => Fail::NO_AUTH,
            false => Fail::new(self.registry().unknown_error(args)),
        }
    }

    /// The error of a wrong number of arguments.
    #[cold]
    fn wrong_arity(&self, command: Command, session: &Session, moment: Moment) -> Fail {
        if moment.contains(Moment::IN_SCRIPT) {
            return scripts::wrong_arity(self.shared.dialect());
        }
        let needs_login = !command.spec.flags.contains(Flags::NO_AUTH);
        if needs_login && self.conceals_commands(session) {
            return Fail::NO_AUTH;
        }
        Fail::new(self.registry().arity_error(command.index))
    }

    /// Valkey says nothing of commands to a client that has not logged in.
    fn conceals_commands(&self, session: &Session) -> bool {
        !session.is_authenticated() && self.shared.dialect().is_valkey()
    }

    /// What a connection may send that is sent messages.
    #[cold]
    fn admit_listener(&self, command: Command, session: &Session) -> Outcome {
        if session.is(Modes::SUBSCRIBER) {
            self.admit_subscriber(command, session)?;
        }
        let touches_keys = bits!(Flags: WRITE, READONLY, MAY_REPLICATE);
        if session.is(Modes::MONITOR) && command.spec.flags.intersects(touches_keys) {
            return Err(Fail::fixed("ERR Replica can't interact with the keyspace"));
        }
        Ok(())
    }

    /// A connection that speaks RESP2 cannot tell messages from replies: while it is subscribed it
    /// may send only what is answered in a way that it can.
    fn admit_subscriber(&self, command: Command, session: &Session) -> Outcome {
        if session.protocol == Protocol::Resp3
            || session.in_exec
            || command.spec.gate.contains(GateFlags::FOR_SUBSCRIBERS)
        {
            return Ok(());
        }
        let name = self.registry().full_name(command.index);
        Err(Fail::new(format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        )))
    }

    /// What not every session may do, and what not every moment allows.
    fn admit_some(
        &mut self,
        command: Command,
        args: &[&[u8]],
        session: &Session,
        host: &mut dyn Host,
        is_restricted: bool,
    ) -> Outcome {
        let flags = command.spec.flags;
        if !session.is_authenticated() && !flags.contains(Flags::NO_AUTH) {
            return Err(Fail::NO_AUTH);
        }
        if flags.contains(Flags::PROTECTED) {
            host.admit_protected(command)?;
        }
        if flags.contains(Flags::NO_MULTI) && session.in_multi() {
            return Err(self.not_inside(command));
        }
        if is_restricted {
            self.admit_user(command, args, session, host)?;
        }
        Ok(())
    }

    /// The error of a command that may not be part of a transaction.
    #[cold]
    pub(crate) fn not_inside(&self, command: Command) -> Fail {
        match self.shared.dialect() {
            Dialect::Redis => Fail::fixed("ERR Command not allowed inside a transaction"),
            Dialect::Valkey => Fail::new(format!(
                "ERR Command '{}' not allowed inside a transaction",
                self.registry().full_name(command.index)
            )),
        }
    }

    /// Whether a command spoils a transaction instead of joining it.
    fn spoils_queue(&self, command: Command) -> bool {
        command.spec.gate.contains(GateFlags::NO_MULTI_IN_VALKEY)
            && self.shared.dialect().is_valkey()
    }
}

/// Whether a call meets the arity of its command and its session has logged in as far as that one
/// needs it.
fn is_admissible(command: Command, request: &Request<'_>, session: &Session) -> bool {
    command.spec.accepts(request.args.len())
        && (session.is_authenticated() || command.spec.flags.contains(Flags::NO_AUTH))
}

/// Whether a command joins the open transaction of its session.
fn joins_queue(command: Command, session: &Session) -> bool {
    session.in_multi() && !session.in_exec && !command.spec.gate.contains(GateFlags::RUNS_IN_MULTI)
}

/// Whether a command is executed while a slow script keeps others out: it needs no lock of a key.
fn is_allowed_busy(command: Command, session: &Session) -> bool {
    let gate = command.spec.gate;
    command.spec.flags.contains(Flags::ALLOW_BUSY)
        && !gate.contains(GateFlags::WATCHES)
        && !(gate.contains(GateFlags::ENDS_WATCHES) && watches_keys(session))
}

/// Whether a command runs a script, or a transaction that may take as long as one.
fn may_run_long(command: Command, session: &Session) -> bool {
    match session.open_transaction_queue() {
        None => command.spec.flags.contains(Flags::SCRIPT_RUNNER),
        Some(queue) => command.spec.gate.contains(GateFlags::RUNS_QUEUE) && queue.takes_long(),
    }
}

/// Whether a command of a file or of a primary's stream is executed: it changes data, or says how
/// those behind it are to be understood. Nothing else there is obeyed.
fn is_replayed(command: Command) -> bool {
    let spec = command.spec;
    let changes_data = spec.flags.intersects(bits!(Flags: WRITE, MAY_REPLICATE))
        || spec.meta.group == Group::Scripting;
    spec.gate.contains(GateFlags::FRAMES_STREAM)
        || changes_data && !spec.gate.contains(GateFlags::NOT_IN_STREAMS)
}
