//! Commands that take long: they go on on a helper thread of the host, and their worker serves others.
//!
//! ```text
//!  worker   handler: Ctx::pace ── it has taken 20 ms, and has changed nothing: given up
//!           unlocked; its client waits, as for a key; handed to the helper threads
//!
//!  helper   executed anew: admitted, locked ── handler: Ctx::pace
//!             nothing is held   out of the keyspace for a moment, now and then: FLUSHALL gets in
//!             stripes are held  somebody wants the whole keyspace: given up, and executed once more after it
//!             the client is gone, was killed, or the server stops: ended
//!           the answer goes to the worker
//!
//!  others   what wants a stripe that a helper holds goes to the helpers as well, and is executed there later
//! ```
//!
//! A handler whose work a client decides says how much it is, before it changes anything or writes to
//! its reply. An error that it gets is to be passed on as it is.
//!
//! | | holds | |
//! |---|---|---|
//! | [`Ctx::pace`] | nothing | in a loop, by the clock |
//! | [`Pacer::pace`] | stripes | in a loop, by the work; what grows with a product has to |
//! | [`expect`] | stripes | beforehand: the work is in proportion to one value |
//!
//! Only on a helper may a loop that writes a reply be ended ([`Pacer::pace_reply`]). What a change
//! itself takes is not divided; it is in proportion to what is changed.
//!
//! In a transaction or a script, on a thread without helpers (a primary's stream, a file) and for
//! commands that wait for keys nothing is given up: there the work is part of what is atomic, or
//! nobody else is served by the thread.

use crate::admit::Moment;
use crate::answer::{Answer, WaitEnd};
use crate::blocked::Blocked;
use crate::blocking::{Awaited, Block};
use crate::clock::Tick;
use crate::ctx::Ctx;
use crate::execute::{Execution, Executor};
use crate::fail::{Fail, Outcome, PutOff};
use crate::host::Host;
use crate::scripting::running::Watched;
use crate::server::state::ServerState;
use crate::server::stats::Shared;
use crate::spec::{Command, Request};
use crate::unblock::Tried;
use petrel_keyspace::{KeyHash, Signal, Type, View};
use petrel_resp::Reply;
use petrel_table::{Flags, GateFlags, bits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What it takes to return an item of a collection, and to remove or copy one.
pub(crate) const UNITS_PER_ITEM: usize = 6;
pub(crate) const UNITS_PER_CHANGE: usize = 30;

/// Bytes that are looked at or copied in about ten nanoseconds.
pub(crate) const BYTES_PER_UNIT: usize = 64;

/// How much longer a unit of work takes where nothing was optimised.
const SLOWER: usize = if cfg!(debug_assertions) { 16 } else { 1 };

/// What a command may do between two looks at the time, in about ten nanoseconds.
const UNITS_PER_LOOK: usize = 32_768 / SLOWER;

/// What a command takes on its worker before it goes on elsewhere; and the same in units, where it is
/// known beforehand.
const MOVE_NANOS: u64 = 20_000_000;
pub(crate) const MOVE_UNITS: usize = 2_000_000 / SLOWER;

/// What a command takes for each of very many arguments, and from how many on that is looked at.
const UNITS_PER_ARGUMENT: usize = 64;
pub(crate) const MANY_ARGUMENTS: usize = MOVE_UNITS / UNITS_PER_ARGUMENT;

/// Between two moments at which a helper is out of the keyspace.
const BREATH_NANOS: u64 = 2_000_000;

/// So often a helper begins anew because somebody wants the whole keyspace; then it goes on, and the
/// others wait.
const RESTARTS_MAX: u32 = 16;

/// How long a worker waits before it tries again what cannot be handed to a helper.
const RETRY_PAUSE: Duration = Duration::from_micros(100);

/// Most stripes of a keyspace.
const STRIPES_MAX: usize = 1 << 16;

const ENDED: Fail = Fail::fixed("ERR the command was ended before it was done");

/// The stripes that helpers hold, and whether what they do is to end.
#[derive(Debug)]
pub struct LongHeld {
    is_ending: AtomicBool,
    count: AtomicUsize,
    stripes: Box<[AtomicU64]>,
}

impl Default for LongHeld {
    fn default() -> Self {
        let stripes = (0..STRIPES_MAX / 64).map(|_| AtomicU64::new(0)).collect();
        LongHeld { is_ending: AtomicBool::new(false), count: AtomicUsize::new(0), stripes }
    }
}

impl LongHeld {
    /// Ends what helpers do, since the server stops.
    pub fn end(&self) {
        self.is_ending.store(true, Relaxed);
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// Whether a helper holds a stripe.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether a helper holds the stripe of a key.
    pub(crate) fn holds(&self, hash: KeyHash) -> bool {
        let stripe = hash.stripe() as usize;
        self.any() && self.stripes[stripe / 64].load(Relaxed) >> (stripe % 64) & 1 != 0
    }

    fn add(&self, stripe: u32) {
        let bit = 1 << (stripe % 64);
        self.stripes[stripe as usize / 64].fetch_or(bit, Relaxed);
        self.count.fetch_add(1, Relaxed);
    }

    fn remove(&self, stripe: u32) {
        let bit: u64 = 1 << (stripe % 64);
        self.stripes[stripe as usize / 64].fetch_and(!bit, Relaxed);
        self.count.fetch_sub(1, Relaxed);
    }
}

/// What a helper's executor knows of the command in hand.
pub(crate) struct Helping {
    blocked: Arc<Blocked>,
    restarts: u32,
    /// When the thread was last out of the keyspace.
    out_at: Tick,
    /// The stripes that it holds, as others see them.
    stripes: Vec<u32>,
    /// It was ended.
    is_ended: bool,
}

/// What became of a command that a helper was handed.
#[derive(Debug)]
pub enum Helped {
    /// What to answer.
    Answered(Answer),
    /// The same, but the reply passed the limit of its client's output, and was dropped.
    TooLong,
    /// Nothing: it has been ended, by the end of its client or of the server.
    Ended,
    /// It was given up for somebody else, or a pause holds it back.
    Again,
    /// Another helper holds a stripe that it wants.
    Blocked,
}

/// Counts the work of a command that holds stripes.
pub(crate) struct Pacer {
    left: usize,
    is_helper: bool,
    signals: Option<Signals>,
}

/// What may end a helper's command.
struct Signals {
    blocked: Arc<Blocked>,
    shared: Arc<Shared>,
    /// Somebody wants the whole keyspace; none if that is to wait.
    intent: Option<Signal>,
    /// It holds the whole keyspace itself: since when.
    owner_since: Option<Instant>,
    /// What others see of that, once it is slow.
    shown: Option<Arc<Watched>>,
}

impl Signals {
    /// A command that holds the whole keyspace for long is to others what a slow script is: they are
    /// answered `BUSY`, and end it with `SCRIPT KILL`. True if somebody does.
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

impl Drop for Signals {
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
    /// If the command is to end here: it goes on elsewhere, or not at all.
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

    /// The same once a reply was begun: it goes on unless this is a helper, which drops the reply.
    ///
    /// # Errors
    /// If the command is to end here.
    #[inline]
    pub fn pace_reply(&mut self, units: usize) -> Outcome {
        if self.is_helper { self.pace(units) } else { Ok(()) }
    }

    /// [`Pacer::pace`] for what takes a closure: the error is left in `ended`.
    #[inline]
    pub fn goes_on(&mut self, units: usize, ended: &mut Outcome) -> bool {
        if ended.is_ok() {
            *ended = self.pace(units);
        }
        ended.is_ok()
    }

    #[cold]
    fn look(&mut self) -> Outcome {
        let Some(signals) = &mut self.signals else { return Err(Fail::PUT_OFF_EXPECTED) };
        self.left = UNITS_PER_LOOK;
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

/// Says what a command is going to take, in about ten nanoseconds, where that is known beforehand;
/// `here`: [`Executor::units_here`].
///
/// # Errors
/// If it goes on elsewhere.
#[inline]
pub(crate) fn expect(units: usize, here: usize) -> Outcome {
    if units < here { Ok(()) } else { Err(Fail::PUT_OFF_EXPECTED) }
}

/// What it takes to go through a value and copy it, in about ten nanoseconds.
pub(crate) fn size_units(view: View<'_>) -> usize {
    let items = match view.type_of() {
        Type::String => view.string().map(|string| string.len() / BYTES_PER_UNIT),
        Type::List => view.list().map(|list| list.len() * UNITS_PER_ITEM),
        Type::Set => view.set().map(|set| set.len() * UNITS_PER_CHANGE),
        Type::SortedSet => view.sorted_set().map(|set| set.len() * UNITS_PER_CHANGE),
        Type::Hash => view.hash(0).map(|hash| hash.len() * UNITS_PER_CHANGE),
        Type::Stream => view.stream().map(|stream| stream.len() as usize * UNITS_PER_ITEM),
        Type::VectorSet => view.vectors().map(|set| set.footprint() / 8),
        Type::Json => Ok(0),
    };
    items.unwrap_or(0)
}

impl Ctx<'_> {
    /// Counts work, in about ten nanoseconds. Called before anything is changed.
    ///
    /// # Errors
    /// If the command is to end here: it goes on elsewhere, or not at all.
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

    /// Whether to go on, for what takes a closure: [`Ctx::pace`], with the error left in `ended`.
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
        if exec.nanos_so_far() < MOVE_NANOS || !self.may_move(PutOff::Move) {
            // Who holds nothing lets others in all the same.
            self.exec.yield_within();
            return Ok(());
        }
        Err(Fail::PUT_OFF_MOVE)
    }

    /// Whether the command goes to the helpers if one of them holds what it wants. Part of a
    /// transaction or a script it does not.
    pub(crate) fn gives_way(&self) -> bool {
        self.exec.gives_way && !self.session.in_exec && !self.exec.within_script
    }

    /// Executes a command with so many arguments that they alone take long.
    #[cold]
    pub(crate) fn with_many_arguments(&mut self) -> Outcome {
        expect(self.args().len() * UNITS_PER_ARGUMENT, self.exec.units_here)?;
        (self.command.spec.handler)(self)
    }

    /// Executes the command once more, if it was given up for what it was expected to take and
    /// cannot go elsewhere.
    #[cold]
    pub(crate) fn insist(&mut self, outcome: Outcome) -> Outcome {
        let is_expected = |fail: &Fail| fail.put_off() == Some(PutOff::Expected);
        if !outcome.as_ref().is_err_and(is_expected) || self.may_move(PutOff::Expected) {
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
        let works_on_keys = spec.flags.intersects(bits!(Flags: READONLY, WRITE));
        // What finds something to do does not wait for keys.
        let may_wait = spec.flags.contains(Flags::BLOCKING) && why == PutOff::Move;
        let is_bound = may_wait
            || spec.flags.contains(Flags::SCRIPT_RUNNER)
            || spec.gate.contains(GateFlags::WATCHES)
            || spec.gate.contains(GateFlags::RUNS_QUEUE);
        let is_inside = self.session.in_exec || self.exec.within_script;
        // Another member may have to execute it by then, which answers to the connection.
        let is_member = self.exec.shared.is_in_state(ServerState::Clustered);
        works_on_keys
            && !is_bound
            && !is_inside
            && !is_member
            && self.exec.gives_way
            && self.exec.helping.is_none()
            && !self.exec.is_unblocking()
            && self.host.has_helpers()
    }

    /// Hands the command to a helper; false if that cannot be.
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
    /// Lets commands of this thread go to helpers when they take long, or when they want what a
    /// helper holds.
    pub fn give_way(&mut self) {
        self.gives_way = true;
    }

    /// Lets commands be given up that take more than this, in about ten nanoseconds: for tests.
    pub fn move_after(&mut self, units: usize) {
        self.units_here = units;
    }

    /// What a command comes to that was given up, and has changed nothing.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_off(&mut self, why: PutOff, mut ctx: PutOffCall<'_>) -> Execution {
        let PutOffCall { command, request, session, host, reply } = &mut ctx;
        let (command, request) = (*command, *request);
        if why == PutOff::Ended {
            self.shared.count_error(&ENDED);
            self.account(command, request.args, true, *host);
            if let Some(helping) = &mut self.helping {
                helping.is_ended = true;
            }
            return Execution::NextTurn;
        }
        if why != PutOff::Again {
            let db = session.db;
            let mut ctx = Ctx { request, command, exec: self, session, host: *host, reply: *reply };
            if ctx.move_to_helper(why) {
                self.begin_at(self.now());
                if self.shared.is_observed() {
                    // When it begins to wait, not again when it is served.
                    self.show(command, request.args, db, *host);
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

    /// Counts the work of the command in hand.
    #[inline]
    pub(crate) fn pacer(&self) -> Pacer {
        if self.helping.is_some() {
            return self.helper_pacer();
        }
        Pacer { left: self.units_here, is_helper: false, signals: None }
    }

    #[cold]
    fn helper_pacer(&self) -> Pacer {
        let signals = self.helping.as_ref().map(|helping| Signals {
            blocked: helping.blocked.clone(),
            shared: self.shared.clone(),
            intent: (helping.restarts < RESTARTS_MAX).then(|| self.ks.signal()),
            owner_since: self.ks.holds_everything().then(Instant::now),
            shown: None,
        });
        Pacer { left: UNITS_PER_LOOK, is_helper: true, signals }
    }

    /// Marks what the command in hand has locked, if this is a helper.
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

    /// What a helper does now and then.
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
    /// nothing. `restarts`: how often that has been tried.
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
                // What it found is gone: as if its time were up.
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
                    // Any argument may be a key; to be wrong is to try again.
                    self.shared.long.holds(self.ks.hash(arg))
                });
                if is_kept { Helped::Blocked } else { Helped::Again }
            }
        }
    }
}

/// A call that was given up.
pub(crate) struct PutOffCall<'a> {
    pub command: Command,
    pub request: &'a Request<'a>,
    pub session: &'a mut crate::session::Session,
    pub host: &'a mut dyn Host,
    pub reply: &'a mut dyn Reply,
}
