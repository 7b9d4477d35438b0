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
//! A request that would be rejected anyway is not deferred, so that the client gets the error at
//! once.

mod copies;
mod owners;
pub(crate) mod pause;
pub(crate) mod placement;
mod redirect;
mod redis_cluster;
pub(crate) mod scripts;
pub(crate) mod server_state;
mod shares;
mod supported;
mod tracked;
mod turn_away;

use crate::cluster::Rest;
use crate::ctx::Invocation;
use crate::execute::{Execution, Executor};
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::modes::Modes;
use crate::moment::Moment;
use crate::scripting::only_reads;
use crate::session::Session;
use crate::spec::{Command, Request};
use crate::watches::watches_keys;
use petrel_resp::{Dialect, Protocol, Reply};
use petrel_table::{Flags, GateFlags, Group, bits};

/// Decision on a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Execute it.
    Run,
    /// Add it to the open transaction.
    Queue,
    /// Defer it until a pause ends.
    Hold,
    /// A slow script keeps the thread out of the keyspace, which it may need.
    Busy,
    /// Let the worker detach its driver and connections first: the request runs a script, or a
    /// transaction that may take long.
    Lend,
    /// Ignore it: it comes from a file or a primary, where its effects are other commands.
    Skip,
    /// Let other nodes of the cluster execute it.
    Forward(Box<placement::Forwarding>),
    /// Execute the transaction here, then let other nodes execute the rest. The bytes are appended
    /// after the reply.
    RunWithRest(Box<(Rest, Vec<u8>)>),
    /// Defer it until the reply slot of this number is done.
    Await(u64),
    /// Execute it if copies of its keys are here; otherwise forward it.
    TryCopies,
    /// Discard the transaction, because its watched keys may have changed.
    Abandon,
    /// Reply an error.
    Refuse(Fail),
}

/// Modes of connections that receive unsolicited messages.
const LISTENER: Modes = Modes::SUBSCRIBER.with(Modes::MONITOR);

/// Modes that need [`Executor::admit_closely`].
const SPECIAL_MODES: Modes = LISTENER.with(Modes::LOADER).with(Modes::REDIRECTABLE);

/// Moments that need [`Executor::admit_closely`].
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

    /// Like [`Executor::execute`], with a moment that may defer the command.
    #[inline]
    pub fn execute_at(
        &mut self,
        moment: Moment,
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Execution {
        let invocation = Invocation { request, session, host, reply, moment };
        if invocation.session.extras.is_some() && invocation.session.tracks_or_imports() {
            return self.execute_apart(invocation);
        }
        self.execute_one(invocation)
    }

    #[inline]
    pub(crate) fn execute_one(&mut self, mut invocation: Invocation<'_>) -> Execution {
        let nested = self.within_script || self.ks.holds_any();
        match self.admit(invocation.lend(), nested) {
            runs @ Verdict::Run => {
                // It holds nothing, but its destructor would be called.
                std::mem::forget(runs);
                self.execute_admitted(invocation, nested)
            }
            Verdict::TryCopies => self.execute_of_copies(invocation),
            verdict => self.turn_away(verdict, invocation),
        }
    }

    /// Decides on a request. `nested`: the locks that it needs are held already, because it is part
    /// of a transaction or a script, or its client was blocked.
    #[inline]
    pub(crate) fn admit(&mut self, invocation: Invocation<'_>, nested: bool) -> Verdict {
        let Invocation { request, session, host, reply, moment } = invocation;
        let Some(command) = request.command else {
            return Verdict::Refuse(self.unknown(request.args, session, moment));
        };
        let spec = command.spec;
        let is_special = self.shared.refuses_some()
            | self.restricts(session)
            | session.extras.is_some()
            | session.modes.intersects(SPECIAL_MODES)
            | spec.flags.intersects(self.special_flags)
            | moment.intersects(SPECIAL_MOMENTS)
            | self.shared.pause.is_active(self.ks.now_ms());
        if is_special {
            let invocation = Invocation { request, session, host, reply, moment };
            return self.admit_closely(command, invocation, nested);
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

    /// Like [`Executor::admit`], for an unusual session, server state or moment.
    #[inline(never)]
    fn admit_closely(
        &mut self,
        command: Command,
        mut invocation: Invocation<'_>,
        nested: bool,
    ) -> Verdict {
        self.ks.release_kept();
        let Invocation { request, moment, .. } = invocation;
        let session = &*invocation.session;
        let joins_queue = joins_queue(command, session);
        if session.is(Modes::LOADER) && !session.in_exec && !is_replayed(command) {
            return Verdict::Skip;
        }
        if moment.contains(Moment::CLIENT)
            && let Some(verdict) = self.postpone(command, request, session, moment)
        {
            return verdict;
        }
        match self.admit_call(command, invocation.lend(), nested) {
            Err(fail) => Verdict::Refuse(fail),
            Ok(()) if !joins_queue => self.place(command, invocation, nested),
            Ok(()) if self.spoils_queue(command) => Verdict::Refuse(self.not_inside(command)),
            Ok(()) => {
                match self.admit_queued(command, request, &*invocation.session, &*invocation.host) {
                    Ok(()) => Verdict::Queue,
                    Err(fail) => Verdict::Refuse(fail),
                }
            }
        }
    }

    /// Reason to defer a client's request, if there is one.
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

    /// Whether a pause defers a client's request. Requests that are rejected or only queued are not
    /// deferred.
    fn is_held_back(&self, command: Command, request: &Request<'_>, session: &Session) -> bool {
        let Some(writes_only) = self.shared.pause.active(self.ks.now_ms()) else { return false };
        let gate = command.spec.gate;
        let queues = session.in_multi() && !gate.contains(GateFlags::RUNS_QUEUE);
        is_admissible(command, request, session)
            && !queues
            && !gate.contains(GateFlags::RUNS_IN_PAUSE)
            && (!writes_only || self.may_write(command, request, session))
    }

    /// Whether a pause of writes applies to a request: it may change data or reach other clients.
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

    /// Rejects a call that the session may not make, or that the server's states do not allow.
    #[inline]
    fn admit_call(
        &mut self,
        command: Command,
        mut invocation: Invocation<'_>,
        nested: bool,
    ) -> Outcome {
        let (args, moment) = (invocation.request.args, invocation.moment);
        let spec = command.spec;
        if !spec.accepts(args.len()) {
            return Err(self.wrong_arity(command, invocation.session, moment));
        }
        if moment.contains(Moment::IN_SCRIPT) {
            self.admit_from_script(command, moment)?;
        }
        let is_restricted = self.restricts(invocation.session);
        if is_restricted || spec.flags.intersects(bits!(Flags: PROTECTED, NO_MULTI)) {
            self.admit_some(command, invocation.lend(), is_restricted)?;
        }
        if invocation.session.is(Modes::REDIRECTABLE) {
            self.admit_redirectable(command, invocation.session, invocation.host)?;
        }
        if self.shared.refuses_some() && !moment.contains(Moment::HAS_WRITTEN) {
            self.admit_in_state(command, invocation.lend())?;
        }
        let Invocation { session, host, reply, .. } = invocation;
        // Commands from a primary are executed without regard to the memory limit.
        if spec.flags.contains(Flags::DENYOOM) && !nested && !session.is(Modes::LOADER) {
            self.admit_memory(args, host, reply)?;
            self.admit_at_owners(command, args)?;
        }
        if session.modes.intersects(LISTENER) {
            self.admit_listener(command, session)?;
        }
        Ok(())
    }

    /// Rejects a command that needs memory if the limit is reached.
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

    /// Error of an unknown command.
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

    /// Error of a wrong number of arguments.
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

    /// Whether command names are concealed: Valkey does so for clients that have not logged in.
    fn conceals_commands(&self, session: &Session) -> bool {
        !session.is_authenticated() && self.shared.dialect().is_valkey()
    }

    /// Rejects commands that a connection in subscriber or monitor mode may not send.
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

    /// Rejects commands that a subscribed RESP2 connection may not send, since their replies cannot
    /// be distinguished from messages.
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

    /// Rejects commands that the session's login, the configuration, a transaction or the ACL does
    /// not allow.
    fn admit_some(
        &mut self,
        command: Command,
        invocation: Invocation<'_>,
        is_restricted: bool,
    ) -> Outcome {
        let Invocation { request, session, host, .. } = invocation;
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
            self.admit_user(command, request.args, session, host)?;
        }
        Ok(())
    }

    /// Error of a command that is not allowed in a transaction.
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

    /// Whether a command aborts a transaction instead of joining it.
    fn spoils_queue(&self, command: Command) -> bool {
        command.spec.gate.contains(GateFlags::NO_MULTI_IN_VALKEY)
            && self.shared.dialect().is_valkey()
    }
}

/// Whether a call matches the arity and the session is logged in, if the command needs that.
fn is_admissible(command: Command, request: &Request<'_>, session: &Session) -> bool {
    command.spec.accepts(request.args.len())
        && (session.is_authenticated() || command.spec.flags.contains(Flags::NO_AUTH))
}

/// Whether a command joins the open transaction of its session.
fn joins_queue(command: Command, session: &Session) -> bool {
    session.in_multi() && !session.in_exec && !command.spec.gate.contains(GateFlags::RUNS_IN_MULTI)
}

/// Whether a command is executed while a slow script holds the keyspace: it needs no lock of a key.
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

/// Whether a command from a file or a primary's stream is executed: it changes data, or defines how
/// later commands are read. All others are ignored.
fn is_replayed(command: Command) -> bool {
    let spec = command.spec;
    let changes_data = spec.flags.intersects(bits!(Flags: WRITE, MAY_REPLICATE))
        || spec.meta.group == Group::Scripting;
    spec.gate.contains(GateFlags::FRAMES_STREAM)
        || changes_data && !spec.gate.contains(GateFlags::NOT_IN_STREAMS)
}
