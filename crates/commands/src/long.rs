//! Long commands: they continue on a helper thread of the host, and their worker serves others.
//!
//! ```text
//!  worker   handler: Ctx::pace ── it has taken 20 ms, and has changed nothing: given up
//!           unlocked; its client waits, as for a key; handed to the helper threads
//!
//!  helper   executed again: admitted, locked ── handler: Ctx::pace
//!             nothing is held   out of the keyspace for a moment, now and then: FLUSHALL gets in
//!             stripes are held  an exclusive lock is wanted: given up, executed again after it
//!             the client is gone, was killed, or the server stops: ended
//!           the answer goes to the worker
//!
//!  others   commands that need a stripe of a helper go to the helpers, and are executed later
//! ```
//!
//! A handler with work that depends on the client counts it, before it changes anything or writes
//! to its reply. It passes on the error that it gets.
//!
//! | | holds | |
//! |---|---|---|
//! | [`Ctx::pace`] | nothing | in a loop, by the clock |
//! | [`Pacer::pace`] | stripes | in a loop, by the work; required where work grows with a product |
//! | [`expect`] | stripes | beforehand: the work is in proportion to one value |
//! | [`Pacer::pace_reply`] | stripes | in the loop that then writes the reply |
//!
//! Only on a helper, or inside a transaction or a script, may a loop that writes a reply be ended.
//! A change itself is not divided; its work is in proportion to the change.
//!
//! In a transaction or a script, which is an atomic whole, the command is executed again where it
//! is, as a part of a slow script (`inside.rs`), which serves others during a change too. On a
//! thread without helpers (a primary's stream, a file) and for commands that wait for keys nothing
//! is given up: the thread serves no one else.

mod held;
mod inside;
mod units;
mod whole;

pub use held::LongHeld;
pub(crate) use units::{
    MANY_ARGUMENTS, MOVE_UNITS, UNITS_PER_CHANGE, UNITS_PER_ITEM, expect, size_units,
};
pub(crate) use whole::Whole;

use crate::answer::{Answer, WaitEnd};
use crate::blocked::{Blocked, Helping};
use crate::blocking::{Awaited, Block};
use crate::ctx::{Ctx, Invocation};
use crate::execute::{Execution, Executor};
use crate::fail::{Fail, Outcome, PutOff};
use crate::host::Host;
use crate::moment::Moment;
use crate::scripting::running::Watched;
use crate::server::state::ServerState;
use crate::server::stats::Shared;
use crate::spec::{Command, Request};
use crate::unblock::Tried;
use petrel_keyspace::Signal;
use petrel_resp::Reply;
use petrel_table::{Flags, GateFlags, bits};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use units::{UNITS_PER_ARGUMENT, UNITS_PER_LOOK};

/// Time after which a command moves from its worker to a helper, where its work is not known
/// beforehand.
const MOVE_NANOS: u64 = 20_000_000;

/// Interval, in nanoseconds, at which a helper leaves the keyspace for a moment.
const BREATH_NANOS: u64 = 2_000_000;

/// Maximum number of times that a helper restarts its command because of an exclusive lock; then it
/// continues, and the lock's owner waits.
const RESTARTS_MAX: u32 = 16;

/// Pause of a worker before it retries a command that cannot be handed to a helper.
const RETRY_PAUSE: Duration = Duration::from_micros(100);

const ENDED: Fail = Fail::fixed("ERR the command was ended before it was done");

/// Outcomes of a command on a helper.
#[derive(Debug)]
pub enum Helped {
    /// Executed, with this answer.
    Answered(Answer),
    /// Executed, but the reply passed the output limit of its client, and was dropped.
    TooLong,
    /// Ended without an answer, by the end of its client or of the server.
    Ended,
    /// Given up for an exclusive lock, or held back by a pause.
    Again,
    /// Not executed yet: another helper holds a stripe that it needs.
    Blocked,
}

/// Counts the work of a command that holds stripes.
pub(crate) struct Pacer {
    left: usize,
    signals: Signals,
}

/// Signals that end a command.
enum Signals {
    /// None yet: it is given up when it takes long.
    None,
    Helper(HelperSignals),
    Inside(Rc<dyn Whole>),
}

/// Signals that end a helper's command.
struct HelperSignals {
    blocked: Arc<Blocked>,
    shared: Arc<Shared>,
    /// The signal of an exclusive lock; none if that has to wait.
    intent: Option<Signal>,
    /// The time since which the command itself holds the whole keyspace.
    owner_since: Option<Instant>,
    /// Entry among the running scripts, once it is slow.
    shown: Option<Arc<Watched>>,
}

impl HelperSignals {
    /// Treats a command that holds the whole keyspace for long like a slow script: other clients
    /// get `BUSY`, and can end it with `SCRIPT KILL`. Returns whether one did.
    fn is_killed_as_owner(&mut self) -> bool {
        let Some(since) = self.owner_since else { return false };
        let scripts = &self.shared.scripts;
        let slow_ms = scripts.slow_ms.load(Relaxed);
        if self.shown.is_none() && slow_ms > 0 && since.elapsed().as_millis() >= slow_ms.into() {
            let command = self.blocked.args().iter().map(|&arg| arg.into()).collect();
            self.shown = Some(scripts.running.begin_slow(command, since));
        }
        self.shown.as_ref().is_some_and(|shown| shown.is_killed())
    }
}

impl Drop for HelperSignals {
    fn drop(&mut self) {
        if let Some(shown) = self.shown.take() {
            self.shared.scripts.running.end(&shown);
        }
    }
}

impl Pacer {
    /// Counts work, in about ten nanoseconds. Called before anything is changed.
    ///
    /// # Errors
    /// If the command is to end here: it continues on a helper, or not at all.
    #[inline]
    pub fn pace(&mut self, units: usize) -> Outcome {
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => self.look(),
        }
    }

    /// Like [`Pacer::pace`] once a reply was begun: a command is ended only where the reply can be
    /// dropped, on a helper or in a transaction or script that takes long.
    ///
    /// # Errors
    /// If the command is to end here.
    #[inline]
    pub fn pace_reply(&mut self, units: usize) -> Outcome {
        if matches!(self.signals, Signals::None) { Ok(()) } else { self.pace(units) }
    }

    /// Like [`Pacer::pace_reply`], for closures: see [`Pacer::goes_on`].
    #[inline]
    pub fn reply_goes_on(&mut self, units: usize, ended: &mut Outcome) -> bool {
        matches!(self.signals, Signals::None) || self.goes_on(units, ended)
    }

    /// Like [`Pacer::pace`], for closures: leaves the error in `ended`, and returns whether to go
    /// on.
    #[inline]
    pub fn goes_on(&mut self, units: usize, ended: &mut Outcome) -> bool {
        if ended.is_ok() {
            *ended = self.pace(units);
        }
        ended.is_ok()
    }

    #[cold]
    fn look(&mut self) -> Outcome {
        self.left = UNITS_PER_LOOK;
        let signals = match &mut self.signals {
            Signals::None => return Err(Fail::PUT_OFF_EXPECTED),
            Signals::Inside(inside) => return inside.look(),
            Signals::Helper(signals) => signals,
        };
        let is_ended = signals.blocked.is_over() || signals.shared.long.is_ending();
        if is_ended || signals.is_killed_as_owner() {
            return Err(Fail::PUT_OFF_ENDED);
        }
        match &signals.intent {
            Some(intent) if intent.is_up() => Err(Fail::PUT_OFF_AGAIN),
            _ => Ok(()),
        }
    }
}

impl Ctx<'_> {
    /// Counts work, in about ten nanoseconds. Called before anything is changed.
    ///
    /// # Errors
    /// If the command is to end here: it continues on a helper, or not at all.
    #[inline]
    pub fn pace(&mut self, units: usize) -> Outcome {
        match self.exec.units_left.checked_sub(units) {
            Some(left) => {
                self.exec.units_left = left;
                Ok(())
            }
            None => self.look_at_time(),
        }
    }

    /// Like [`Ctx::pace`], for closures: leaves the error in `ended`, and returns whether to go on.
    #[inline]
    pub(crate) fn goes_on(&mut self, units: usize, ended: &mut Outcome) -> bool {
        *ended = self.pace(units);
        ended.is_ok()
    }

    #[cold]
    fn look_at_time(&mut self) -> Outcome {
        let exec = &mut *self.exec;
        exec.units_left = UNITS_PER_LOOK;
        if exec.helping.is_some() {
            return exec.take_breath();
        }
        if let Some(inside) = &exec.inside {
            return inside.look();
        }
        let is_long = exec.nanos_so_far() >= MOVE_NANOS;
        if !is_long || !self.may_begin_inside() && !self.may_move(PutOff::Move) {
            // A command that holds nothing lets exclusive locks in all the same.
            self.exec.yield_within();
            return Ok(());
        }
        Err(Fail::PUT_OFF_MOVE)
    }

    /// Whether the command goes to the helpers if it needs a stripe that one of them holds. A
    /// command in a transaction or a script does not.
    pub(crate) fn gives_way(&self) -> bool {
        self.exec.gives_way && !self.session.in_exec && !self.exec.within_script
    }

    /// Executes a command with enough arguments to take long by themselves.
    #[cold]
    pub(crate) fn with_many_arguments(&mut self) -> Outcome {
        expect(self.args().len() * UNITS_PER_ARGUMENT, self.exec.units_here)?;
        (self.command.spec.handler)(self)
    }

    /// Executes the command once more, if it was given up for its expected work and cannot go
    /// elsewhere.
    #[cold]
    pub(crate) fn insist(&mut self, outcome: Outcome) -> Outcome {
        let is_expected = |fail: &Fail| fail.put_off() == Some(PutOff::Expected);
        let goes_elsewhere = |ctx: &mut Self| {
            ctx.exec.inside.is_none() && (ctx.may_begin_inside() || ctx.may_move(PutOff::Expected))
        };
        if !outcome.as_ref().is_err_and(is_expected) || goes_elsewhere(self) {
            return outcome;
        }
        let before = std::mem::replace(&mut self.exec.units_here, usize::MAX);
        let outcome = (self.command.spec.handler)(self);
        self.exec.units_here = before;
        outcome
    }

    /// Whether a helper may execute the command: it depends on nothing but its arguments and the
    /// keyspace, and its client can wait.
    fn may_move(&mut self, why: PutOff) -> bool {
        let spec = self.command.spec;
        let is_alone = spec.flags.intersects(bits!(Flags: READONLY, WRITE))
            || spec.gate.contains(GateFlags::MOVES);
        // A blocking command that finds something to do does not wait for keys.
        let may_wait = spec.flags.contains(Flags::BLOCKING) && why == PutOff::Move;
        let is_bound = may_wait
            || spec.flags.contains(Flags::SCRIPT_RUNNER)
            || spec.gate.contains(GateFlags::WATCHES)
            || spec.gate.contains(GateFlags::RUNS_QUEUE);
        let is_inside = self.session.in_exec || self.exec.within_script;
        // By then another member may have to execute it, and reply to the connection.
        let is_member = self.exec.shared.is_in_state(ServerState::Clustered);
        is_alone
            && !is_bound
            && !is_inside
            && !is_member
            && self.exec.gives_way
            && self.exec.helping.is_none()
            && !self.exec.is_unblocking()
            && self.host.has_helpers()
    }

    /// Hands the command to a helper; false if that is not possible.
    fn move_to_helper(&mut self, why: PutOff) -> bool {
        if !self.may_move(why) {
            return false;
        }
        let Some(ticket) = self.host.ticket() else { return false };
        let block = Block::on(0..0, Awaited::LIST);
        let blocked = Arc::new(Blocked::moved(self.blocked(block, ticket)));
        self.host.wait(&blocked);
        self.exec.shared.count_blocked(1);
        self.host.run_on_helper(&blocked);
        true
    }
}

impl Executor {
    /// Lets commands of this thread go to helpers when they take long, or need a stripe that a
    /// helper holds.
    pub fn give_way(&mut self) {
        self.gives_way = true;
    }

    /// Sets the units after which commands of this thread are given up; for tests.
    pub fn move_after(&mut self, units: usize) {
        (self.units_here, self.move_units) = (units, units);
    }

    /// Defers or ends a command that was given up, and has changed nothing.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_off(
        &mut self,
        why: PutOff,
        command: Command,
        invocation: Invocation<'_>,
    ) -> Execution {
        let Invocation { request, session, host, reply, .. } = invocation;
        if session.in_exec || self.within_script {
            // The script or transaction repeats or ends it.
            if why == PutOff::Ended {
                self.account(command, request.args, true, host);
            }
            return Execution::NextTurn;
        }
        if why == PutOff::Ended {
            self.shared.count_error(&ENDED);
            self.account(command, request.args, true, host);
            if let Some(helping) = &mut self.helping {
                helping.is_ended = true;
            }
            return Execution::NextTurn;
        }
        if why != PutOff::Again {
            let db = session.db;
            let mut ctx = Ctx { request, command, exec: self, session, host: &mut *host, reply };
            if ctx.move_to_helper(why) {
                self.begin_at(self.now());
                if self.shared.is_observed() {
                    // Shown when it begins to wait, not again when it is served.
                    self.show(command, request.args, db, host);
                }
                return Execution::Waits;
            }
            if self.helping.is_none() {
                std::thread::sleep(RETRY_PAUSE);
            }
        }
        self.begin_at(self.now());
        Execution::NextTurn
    }

    /// Counts the work of the running command.
    #[inline]
    pub(crate) fn pacer(&self) -> Pacer {
        if self.helping.is_some() {
            return self.helper_pacer();
        }
        match &self.inside {
            None => Pacer { left: self.units_here, signals: Signals::None },
            Some(inside) => {
                Pacer { left: UNITS_PER_LOOK, signals: Signals::Inside(inside.clone()) }
            }
        }
    }

    #[cold]
    fn helper_pacer(&self) -> Pacer {
        let signals = self.helping.as_ref().map(|helping| HelperSignals {
            blocked: helping.blocked.clone(),
            shared: self.shared.clone(),
            intent: (helping.restarts < RESTARTS_MAX).then(|| self.ks.signal()),
            owner_since: self.ks.holds_everything().then(Instant::now),
            shown: None,
        });
        Pacer { left: UNITS_PER_LOOK, signals: signals.map_or(Signals::None, Signals::Helper) }
    }

    /// Publishes the stripes that the running command has locked, if this is a helper.
    #[inline]
    pub(crate) fn mark_held(&mut self, request: &Request<'_>) {
        if self.helping.is_some() {
            self.mark_held_stripes(request);
        }
    }

    #[cold]
    fn mark_held_stripes(&mut self, request: &Request<'_>) {
        if !self.ks.holds_any() {
            return;
        }
        let hashes = self.locked_for(request);
        let Some(helping) = &mut self.helping else { return };
        let mut stripes: Vec<u32> = hashes.iter().map(|hash| hash.stripe()).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.iter().for_each(|&stripe| self.shared.long.add(stripe));
        helping.stripes = stripes;
    }

    /// Ends the command if it was signalled; leaves the keyspace for a moment if nothing is locked.
    fn take_breath(&mut self) -> Outcome {
        let Some(helping) = &self.helping else { return Ok(()) };
        if helping.blocked.is_over() || self.shared.long.is_ending() {
            return Err(Fail::PUT_OFF_ENDED);
        }
        if self.ks.holds_any() {
            let gives_up = self.ks.should_yield() && helping.restarts < RESTARTS_MAX;
            return if gives_up { Err(Fail::PUT_OFF_AGAIN) } else { Ok(()) };
        }
        let now = self.now();
        if self.nanos_between(helping.out_at, now) < BREATH_NANOS && !self.ks.should_yield() {
            return Ok(());
        }
        self.ks.exit();
        self.ks.enter();
        if let Some(helping) = &mut self.helping {
            helping.out_at = now;
        }
        Ok(())
    }

    /// Executes a command that was handed to a helper, on its thread, which is in a batch and holds
    /// nothing. `restarts`: the number of earlier attempts.
    pub fn help_with(
        &mut self,
        blocked: &Arc<Blocked>,
        restarts: u32,
        host: &mut dyn Host,
    ) -> Helped {
        if blocked.is_over() {
            return Helped::Ended;
        }
        let (blocked, out_at) = (blocked.clone(), self.now());
        let stripes = Vec::new();
        let is_ended = false;
        self.helping =
            Some(Helping { blocked: blocked.clone(), restarts, out_at, stripes, is_ended });
        let before = std::mem::replace(&mut self.units_here, usize::MAX);
        let tried = self.execute_again(&blocked, Moment::CLIENT, host);
        self.units_here = before;
        let helping = self.helping.take();
        let is_ended = helping.as_ref().is_some_and(|helping| helping.is_ended);
        for stripe in helping.into_iter().flat_map(|helping| helping.stripes) {
            self.shared.long.remove(stripe);
        }
        match tried {
            Tried::Served(answer) if self.dismiss(&blocked) => Helped::Answered(answer),
            Tried::Cut if self.dismiss(&blocked) => match blocked.is_unwanted {
                true => Helped::Answered(Answer::default()),
                false => Helped::TooLong,
            },
            Tried::Served(_) | Tried::Cut => Helped::Ended,
            Tried::WaitsOn if self.dismiss(&blocked) => {
                // The value that it found is gone: answer as after a timeout.
                Helped::Answered(self.late_reply(&blocked, WaitEnd::Timeout))
            }
            Tried::WaitsOn => Helped::Ended,
            Tried::Held if blocked.is_over() => Helped::Ended,
            Tried::Held if is_ended && self.dismiss(&blocked) => {
                let error = |reply: &mut dyn Reply| reply.error(ENDED.text());
                Helped::Answered(Answer::new(blocked.protocol, error))
            }
            Tried::Held => {
                let is_kept = blocked.args().iter().skip(1).any(|arg| {
                    // Any argument may be a key; a wrong guess only costs another attempt.
                    self.shared.long.holds(self.ks.hash(arg))
                });
                if is_kept { Helped::Blocked } else { Helped::Again }
            }
        }
    }
}
