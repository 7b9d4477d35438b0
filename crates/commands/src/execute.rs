//! The one gate: every command of every path (socket, transaction, script, embedded) goes through
//! [`Executor::execute`], which alone checks, locks, runs and accounts.
//!
//! ```text
//!  prepare      look the name up, hash the first key, prefetch its stripe
//!  prefetch     prefetch the bucket, then the entries that the lookup will compare
//!  execute      admit: what becomes of it (admit.rs, above this file); mostly it runs
//!               lock every stripe of the command's keys
//!               handler: reads, changes through mutators, writes the reply
//!               unlock, free what was replaced
//!               account: calls, time, slow log
//! ```

use crate::acl::Seen;
use crate::blocked::{Helping, Unblocking};
use crate::clock::{Clock, Tick};
use crate::cluster::{Cluster, HashSlot};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::long::{Inside, MANY_ARGUMENTS, MOVE_UNITS};
use crate::random::Random;
use crate::recent;
use crate::scripting::libraries::List;
use crate::scripting::{FunctionThread, ScriptThread};
use crate::server::stats::{Shared, ThreadStats};
use crate::session::{Modes, Session, Transaction};
use crate::spec::{Command, Flags, Handler, KeyShape, Locks, Registry, Request};
use bytes::Bytes;
use petrel_keyspace::{Cleared, Handle, KeyHash};
use petrel_resp::Reply;
use petrel_table::KeyFlags;
use petrel_table::bits;
use petrel_table::keys::{InvalidKeys, KeyRef, key_positions};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A command that was looked up lately.
type Recent = recent::Recent<Handler>;

/// What one thread needs to execute commands.
pub struct Executor {
    /// Paths of JSON documents that this thread has parsed. Dropped before the handle by which they
    /// are counted.
    pub(crate) paths: crate::json::PathCache,
    /// The thread's way into the keyspace.
    pub ks: Handle,
    /// What all threads share: slow log, error counts, the threads' statistics.
    pub shared: Arc<Shared>,
    /// This thread's statistics.
    pub stats: Arc<ThreadStats>,
    clock: Clock,
    /// When the command before this one ended: where this one began.
    tick: Tick,
    /// Keys of the command in hand, by argument.
    located: Vec<(u32, KeyHash)>,
    key_refs: Vec<KeyRef>,
    /// A transaction for whoever opens the next.
    pub(crate) spare_transaction: Option<Box<Transaction>>,
    /// Hashes of the keys of the transaction in hand.
    pub(crate) transaction_keys: Vec<KeyHash>,
    /// Room for the arguments of a transaction.
    pub(crate) transaction_args: Vec<&'static [u8]>,
    /// What flushes removed, to be freed once nothing is locked; true: in the background.
    cleared: Vec<(Cleared, bool)>,
    pub(crate) random: Random,
    recent: Option<Recent>,
    /// Commands that were looked up lately, by the first and last letters of their names.
    recents: [Option<Recent>; RECENTS],
    /// What the user that was asked about last may do.
    pub(crate) seen: Option<Seen>,
    pub(crate) unblocking: Unblocking,
    /// What the thread has for running scripts, once it has run one; not while one runs.
    pub(crate) scripts: Option<Box<ScriptThread>>,
    /// The same for functions.
    pub(crate) functions: Option<Box<FunctionThread>>,
    /// What commands that change the libraries of functions work on instead, if it is there.
    pub(crate) draft: Option<List>,
    /// A script is calling commands, which are part of it.
    pub(crate) within_script: bool,
    /// The hash slot that the script in hand has written to, where one commit is of one slot.
    pub(crate) script_slot: Option<HashSlot>,
    /// The hash slots of the keys of the transaction in hand, if it has commands that every home
    /// executes for its share: these are the share that is part of it.
    pub(crate) share: Option<Vec<HashSlot>>,
    /// Since 1970, what `TIME` answers in the script in hand; none before the first.
    pub(crate) script_time: Option<Duration>,
    /// Commands that scripts have called.
    pub script_calls: u64,
    /// The error of the command in hand has been counted where it arose.
    pub(crate) is_error_counted: bool,
    /// Its commands are not logged.
    is_unseen: bool,
    /// Units until the next look at the clock ([`Ctx::pace`]).
    pub(crate) units_left: usize,
    /// [`Executor::give_way`].
    pub(crate) gives_way: bool,
    /// Units that the running command may be expected to take on this thread
    /// ([`crate::long::expect`]).
    pub(crate) units_here: usize,
    /// Units that a command may be expected to take on this thread, unless it cannot go elsewhere.
    pub(crate) move_units: usize,
    /// State of the running command on a helper.
    pub(crate) helping: Option<Helping>,
    /// The running transaction or script, once a command of it takes long.
    pub(crate) inside: Option<Rc<Inside>>,
}

/// A call that was given up before it changed anything.
pub(crate) struct PutOffCall<'a> {
    pub command: Command,
    pub request: &'a Request<'a>,
    pub session: &'a mut Session,
    pub host: &'a mut dyn Host,
    pub reply: &'a mut dyn Reply,
}

/// Commands that are remembered.
const RECENTS: usize = 16;

/// Keys for which their readers are asked for before it is known whether they have any.
const EARLY_MAX: usize = 8;

/// Longer keys are not hashed for a guess: they are hashed once more when they are used.
const GUESSED_MAX: usize = 256;

/// What became of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Execution {
    /// It has its reply.
    Answered,
    /// It waits, and has no reply yet: its host was told ([`Host::wait`]).
    Waits,
    /// It was not executed: a pause holds it back.
    Held,
    /// It was not executed: it runs a script or a transaction that may take long, for which its
    /// worker is to lend its connections.
    Lends,
    /// It was not executed, because of a slow script that is over in a moment; or it was given up,
    /// and has changed nothing.
    NextTurn,
    /// It was not executed and is not to be: what it did stands elsewhere in its file or stream.
    Skipped,
    /// Other nodes execute it: its reply comes into the last of the session's
    /// [reply slots](crate::ReplySlots), behind all that was written before.
    Forwarded,
    /// It was not executed: it comes behind replies of other nodes
    /// ([`ReplySlots::may_go_on`](crate::ReplySlots::may_go_on)).
    Awaits,
}

impl Executor {
    /// An executor for the calling thread.
    pub fn new(ks: Handle, shared: Arc<Shared>) -> Self {
        let stats = shared.join();
        Self::with_stats(ks, shared, stats)
    }

    /// An executor whose commands are those of nobody: they are not counted, logged or shown.
    pub fn unseen(ks: Handle, shared: Arc<Shared>) -> Self {
        let stats = Arc::new(ThreadStats::new(shared.registry.len()));
        Executor { is_unseen: true, ..Self::with_stats(ks, shared, stats) }
    }

    fn with_stats(ks: Handle, shared: Arc<Shared>, stats: Arc<ThreadStats>) -> Self {
        let clock = Clock::get();
        let seed = ks.now_ms() as u64 ^ (Arc::as_ptr(&stats) as u64).rotate_left(32);
        Executor {
            paths: Default::default(),
            ks,
            shared,
            stats,
            clock,
            tick: clock.now(),
            located: Vec::new(),
            key_refs: Vec::new(),
            spare_transaction: None,
            transaction_keys: Vec::new(),
            transaction_args: Vec::new(),
            cleared: Vec::new(),
            random: Random::new(seed),
            recent: None,
            recents: [None; RECENTS],
            seen: None,
            unblocking: Unblocking::default(),
            scripts: None,
            functions: None,
            draft: None,
            within_script: false,
            script_slot: None,
            share: None,
            script_time: None,
            script_calls: 0,
            is_error_counted: false,
            is_unseen: false,
            units_left: 0,
            gives_way: false,
            units_here: MOVE_UNITS,
            move_units: MOVE_UNITS,
            helping: None,
            inside: None,
        }
    }

    /// Every command that exists.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// Begins a batch of commands.
    #[inline]
    pub fn begin(&mut self) {
        self.ks.enter();
        self.tick = self.clock.now();
    }

    /// The same, unless a script that has run for long keeps others out: false then. The batch has
    /// begun all the same, but nothing may be executed in it that touches keys.
    #[inline]
    pub fn begin_unless_busy(&mut self) -> bool {
        let running = &self.shared.scripts.running;
        let is_inside = self.ks.enter_unless(|| running.is_busy());
        self.tick = self.clock.now();
        is_inside
    }

    /// Ends a batch of commands.
    #[inline]
    pub fn end(&mut self) {
        self.ks.exit();
    }

    /// Whether this node may number changes, as of the end of the last command or the beginning of
    /// the batch.
    #[inline]
    pub fn has_lease(&self, cluster: &dyn Cluster) -> bool {
        self.tick < cluster.lease_until()
    }

    /// Nanoseconds from a [tick](Executor::tick) to the latest: the end of the last command.
    #[inline]
    pub fn nanos_of_commands(&self, tick: Tick) -> u64 {
        self.clock.nanos(tick, self.tick)
    }

    /// Waits until this thread is inside, if it is outside amid a batch: for what has to be done
    /// with keys, busy or not.
    pub fn come_inside(&mut self) {
        if self.ks.is_outside() {
            self.end();
            self.begin();
        }
    }

    /// Lets a thread that waits for the whole keyspace go first, between two commands of a batch;
    /// unless a script that has run for long keeps this thread out: false then, and nothing may
    /// be executed that touches keys.
    #[inline]
    pub fn yield_unless_busy(&mut self) -> bool {
        if !self.ks.should_yield() {
            return true;
        }
        self.end();
        let is_inside = self.begin_unless_busy();
        self.ks.refresh_clock();
        is_inside
    }

    /// Looks the command up and hashes its first key, whose stripe is on its way into the cache
    /// afterwards.
    #[inline(always)]
    pub fn prepare<'a>(&mut self, args: &'a [&'a [u8]], owner: Option<&'a Bytes>) -> Request<'a> {
        let recent = self.recent.and_then(|recent| recent.command(args.first()?));
        let command = recent.or_else(|| self.resolve(args));
        let hash = match command {
            Some(command) if command.spec.keys == KeyShape::First && args.len() > 1 => {
                let hash = self.ks.hash(args[1]);
                self.ks.prefetch_stripe(hash);
                Some(hash)
            }
            _ => None,
        };
        Request { args, command, hash, owner }
    }

    /// Hash of a key that the command is going to touch, whose stripe is on its way into the cache
    /// afterwards: its only one, or the first of several where its place says which that is.
    #[inline]
    pub fn guess(&self, request: &Request<'_>) -> Option<KeyHash> {
        request.hash.or_else(|| self.first_of_several(request))
    }

    #[inline(never)]
    fn first_of_several(&self, request: &Request<'_>) -> Option<KeyHash> {
        let spec = request.command?.spec.meta.keys.first()?;
        let key = request.args.get(spec.first()?)?;
        if spec.flags.contains(KeyFlags::NOT_KEY) || key.len() > GUESSED_MAX {
            return None;
        }
        let hash = self.ks.hash(key);
        self.ks.prefetch_stripe(hash);
        Some(hash)
    }

    /// Whether the last command that was prepared runs a script.
    #[inline]
    pub fn was_script(&self) -> bool {
        self.recent.is_some_and(Recent::runs_script)
    }

    /// Whether this is the name of the last command that was prepared.
    #[inline]
    pub fn is_usual(&self, name: &[u8]) -> bool {
        self.recent.is_some_and(|recent| recent.command(name).is_some())
    }

    /// Which argument is the first key, if the next command is like the last one.
    #[inline]
    pub fn usual_key(&self) -> usize {
        self.recent.and_then(Recent::first_key).unwrap_or(1)
    }

    /// The same for a command that a script calls.
    #[inline]
    pub(crate) fn prepare_within<'a>(&mut self, args: &'a [&'a [u8]]) -> Request<'a> {
        let command = self.look_up(args).map(|(command, _)| command);
        let hash = match command {
            Some(command) if command.spec.keys == KeyShape::First && args.len() > 1 => {
                Some(self.ks.hash(args[1]))
            }
            _ => None,
        };
        Request { args, command, hash, owner: None }
    }

    /// Prefetches, for the keys of commands that are about to be executed, first the buckets and
    /// then so many cache lines of the entries that their lookups will compare: each is asked
    /// for long before it is used. Who has read a key is asked for once its slot says that
    /// somebody has; for few keys at once, whose commands do not wait for that.
    #[inline]
    pub fn prefetch(&self, db: u16, hashes: impl Iterator<Item = KeyHash> + Clone, lines: usize) {
        // A thread that a slow script keeps out, or the stand-in of one, has no use for them.
        let Some(peek) = self.ks.peeker() else { return };
        let is_early = self.ks.tracks() && hashes.clone().nth(EARLY_MAX).is_none();
        for hash in hashes.clone() {
            peek.prefetch_bucket(db, hash);
            if is_early {
                peek.prefetch_readers(hash);
            }
        }
        for hash in hashes {
            peek.prefetch_entry(db, hash, lines);
        }
    }

    /// Executes a command that was let in (admit.rs).
    #[inline]
    pub(crate) fn execute_admitted(
        &mut self,
        nested: bool,
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
    ) -> Execution {
        let Some(command) = request.command else { return Execution::Answered };
        let written_before = self.shared.is_observed().then(|| reply.written());
        let outcome = self.run(command, request, session, host, reply, nested);
        let waits = self.unblocking.waits();
        if waits {
            self.tick = self.clock.now();
            // Shown when it begins to wait, not again when it is served.
            if written_before.is_some() {
                self.show(command, request.args, session.db, host);
            }
        } else {
            let failed = outcome.is_err();
            if let Err(fail) = outcome {
                if let Some(why) = fail.put_off() {
                    let call = PutOffCall { command, request, session, host, reply };
                    return self.put_off(why, call);
                }
                if !std::mem::take(&mut self.is_error_counted) {
                    self.shared.count_error(&fail);
                }
                reply.error(fail.text());
            }
            let nanos = self.account(command, request.args, failed, host);
            if let Some(before) = written_before {
                self.show(command, request.args, session.db, host);
                let replied = reply.written().saturating_sub(before);
                self.note_keys(command, request.args, nanos, replied);
            }
        }
        if self.ks.has_invalidations() {
            host.invalidate(&mut self.ks, None);
        }
        if self.ks.has_ready() && !nested {
            self.settle(host);
        }
        if waits { Execution::Waits } else { Execution::Answered }
    }

    #[inline(never)]
    fn resolve(&mut self, args: &[&[u8]]) -> Option<Command> {
        let (command, recent) = self.look_up(args)?;
        if recent.is_some() {
            self.recent = recent;
        }
        Some(command)
    }

    /// Looks a command up, first among those that were of late.
    #[inline]
    fn look_up(&mut self, args: &[&[u8]]) -> Option<(Command, Option<Recent>)> {
        let name = *args.first()?;
        let letter = |at: Option<&u8>| usize::from(at.map_or(0, |letter| letter & 31));
        let place = (letter(name.first()) * 7 + letter(name.last()) + name.len()) % RECENTS;
        let recent = self.recents[place];
        if let Some(command) = recent.and_then(|recent| recent.command(name)) {
            return Some((command, recent));
        }
        let command = self.registry().resolve(args)?;
        // A subcommand is found by two words, which is not worth remembering; nor does a
        // container's name say enough.
        let is_whole =
            command.spec.subcommands.is_empty() && !self.registry().is_subcommand(command);
        let recent = if is_whole { Recent::new(command, name) } else { None };
        if recent.is_some() {
            self.recents[place] = recent;
        }
        Some((command, recent))
    }

    /// Whether the command in hand was called by a script, for which time stands still.
    pub fn is_within_script(&self) -> bool {
        self.within_script
    }

    /// Begins the numbers drawn at random anew, so that they follow from the seed: for simulations.
    pub fn seed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// Frees memory that commands of many keys have left behind. Called now and then, outside of
    /// commands.
    pub fn trim(&mut self) {
        /// Keys for which there is room at any time.
        const KEYS_KEPT: usize = 1024;
        self.located.shrink_to(KEYS_KEPT.max(self.located.len()));
        self.key_refs.clear();
        self.key_refs.shrink_to(KEYS_KEPT);
        self.transaction_keys.shrink_to(KEYS_KEPT);
        self.transaction_args.shrink_to(KEYS_KEPT);
    }

    /// Frees what this thread keeps for commands to come, though it may be wanted again
    /// (`MEMORY PURGE`).
    pub fn clear_caches(&mut self) {
        self.paths.clear();
    }

    /// A number drawn at random; good enough to choose keys, not for secrets.
    pub fn random(&mut self) -> u64 {
        self.random.next()
    }

    /// Lets a thread that waits for the whole keyspace go first, amid a command that holds nothing
    /// at this moment. The wait is part of the command's time.
    pub fn yield_within(&mut self) {
        if !self.ks.holds_any() && self.ks.should_yield() {
            self.ks.exit();
            self.ks.enter();
        }
    }

    /// The same, unless a script that has run for long keeps this thread out: false then, and the
    /// command is to end.
    pub fn yield_within_unless_busy(&mut self) -> bool {
        if self.ks.holds_any() || !self.ks.should_yield() {
            return true;
        }
        self.ks.exit();
        let running = &self.shared.scripts.running;
        self.ks.enter_unless(|| running.is_busy())
    }

    /// Frees what a flush removed once the command has unlocked: on the spot, or by the host in the
    /// background.
    pub(crate) fn discard_later(&mut self, cleared: Cleared, in_background: bool) {
        self.cleared.push((cleared, in_background));
    }

    /// Makes room for about `needed` bytes if the memory limit is reached; false if there is none
    /// to be had. No stripe is held.
    #[inline]
    pub fn make_room(&mut self, needed: usize) -> bool {
        self.ks.make_room(needed)
    }

    /// The hash of the key at argument `index`, if it is known from locking.
    #[inline]
    pub(crate) fn located(&self, index: usize) -> Option<KeyHash> {
        let at = self.located.binary_search_by_key(&(index as u32), |&(index, _)| index).ok()?;
        Some(self.located[at].1)
    }

    /// The keys of the command in hand that are locked, by argument; none of a command with one key
    /// at a known place.
    pub(crate) fn locked_keys(&self) -> &[(u32, KeyHash)] {
        &self.located
    }

    /// Adds the hashes of the keys of one command to `hashes`.
    pub(crate) fn hash_keys(
        &mut self,
        command: Command,
        args: &[&[u8]],
        hashes: &mut Vec<KeyHash>,
    ) -> Result<(), InvalidKeys> {
        self.key_refs.clear();
        key_positions(command.spec.meta.keys, args, &mut self.key_refs)?;
        hashes.extend(self.key_refs.iter().map(|key| self.ks.hash(args[key.index as usize])));
        Ok(())
    }

    #[inline]
    fn run(
        &mut self,
        command: Command,
        request: &Request<'_>,
        session: &mut Session,
        host: &mut dyn Host,
        reply: &mut dyn Reply,
        nested: bool,
    ) -> Outcome {
        if nested {
            self.located.clear();
        } else {
            self.lock(command, request, host)?;
            self.mark_held(request);
        }
        self.ks.set_touch(!session.is(Modes::NO_TOUCH));
        let tracks = session.extras.is_some() && command.spec.flags.contains(Flags::READONLY);
        if tracks && command.spec.locks == Locks::Itself {
            // What it reads it reads under locks of its own, and it may have changed by the time
            // that the handler returns.
            self.remember_reads(command, request, session);
        }
        let notes_events = self.ks.notes_events();
        if notes_events {
            self.begin_events(command);
        }
        let mut ctx = Ctx { request, command, exec: self, session, host, reply };
        let mut outcome = match request.args.len() < MANY_ARGUMENTS {
            true => (command.spec.handler)(&mut ctx),
            false => ctx.with_many_arguments(),
        };
        if outcome.is_err() {
            outcome = ctx.insist(outcome);
        }
        if notes_events && self.ks.has_events() {
            self.publish_events(host);
        }
        if tracks {
            self.remember_reads(command, request, session);
        }
        // Whoever waits for a key that has changed is served before the locks are let go of, but
        // for those of everybody.
        if !nested && (!self.ks.has_ready() || !self.cleared.is_empty()) {
            self.ks.unlock();
            if command.spec.locks != Locks::Keys {
                self.discard_cleared(host);
            }
        }
        outcome
    }

    /// Lets others have what is locked, and see what has changed, before the reply of the command
    /// in hand is complete. As at its end, whoever waits for a key that has changed is served
    /// before.
    pub(crate) fn commit_early(&mut self, host: &mut dyn Host) {
        if !self.ks.has_ready() || !self.cleared.is_empty() {
            self.ks.unlock();
            self.discard_cleared(host);
        }
        if self.ks.has_invalidations() {
            host.invalidate(&mut self.ks, None);
        }
        if self.ks.has_ready() {
            self.settle(host);
        }
    }

    fn discard_cleared(&mut self, host: &mut dyn Host) {
        for (cleared, in_background) in self.cleared.drain(..) {
            if in_background {
                host.discard(cleared);
            }
        }
    }

    /// Locks what the command needs, and serves first whoever is to be served there before.
    #[inline]
    pub(crate) fn lock(
        &mut self,
        command: Command,
        request: &Request<'_>,
        host: &mut dyn Host,
    ) -> Outcome {
        loop {
            self.lock_once(command, request)?;
            if !self.ks.holds_ready() {
                return Ok(());
            }
            self.help(host);
        }
    }

    /// Locks what the command needs; it has executed nothing yet. Whoever waits for a script that
    /// turns out to run for long is answered so.
    #[inline]
    fn lock_once(&mut self, command: Command, request: &Request<'_>) -> Outcome {
        match (command.spec.locks, request.hash) {
            (Locks::Keys, Some(hash)) => {
                let shared = &self.shared;
                let gives_way = self.gives_way;
                let is_kept =
                    || shared.scripts.running.is_busy() || gives_way && shared.long.holds(hash);
                if !self.ks.lock_unless(hash, is_kept) {
                    return Err(self.kept_out());
                }
            }
            (Locks::Keys, None) => return self.lock_keys(command, request.args),
            (Locks::Everything, _) => {
                self.located.clear();
                let running = &self.shared.scripts.running;
                if !self.ks.lock_all_unless(|| running.is_busy()) {
                    return Err(running.busy(self.shared.dialect()));
                }
            }
            (Locks::Itself, _) => self.located.clear(),
        }
        Ok(())
    }

    fn lock_keys(&mut self, command: Command, args: &[&[u8]]) -> Outcome {
        self.located.clear();
        if command.spec.keys == KeyShape::None {
            return Ok(());
        }
        self.key_refs.clear();
        // A count of keys that makes no sense is the handler's to refuse, in the command's own
        // words.
        if key_positions(command.spec.meta.keys, args, &mut self.key_refs).is_err() {
            self.key_refs.clear();
        }
        let ks = &self.ks;
        self.located
            .extend(self.key_refs.iter().map(|key| (key.index, ks.hash(args[key.index as usize]))));
        self.located.sort_unstable_by_key(|&(index, _)| index);
        let (shared, located) = (&self.shared, &self.located);
        let gives_way = self.gives_way;
        let is_kept = || {
            shared.scripts.running.is_busy()
                || gives_way && located.iter().any(|&(_, hash)| shared.long.holds(hash))
        };
        let hashes = located.iter().map(|&(_, hash)| hash);
        match self.ks.lock_many_unless(hashes, is_kept) {
            true => Ok(()),
            false => Err(self.kept_out()),
        }
    }

    /// The outcome of a command with keys that a slow script or a helper holds.
    #[cold]
    pub(crate) fn kept_out(&self) -> Fail {
        let running = &self.shared.scripts.running;
        match running.is_busy() || !self.gives_way {
            true => running.busy(self.shared.dialect()),
            false => Fail::PUT_OFF_MOVE,
        }
    }

    /// Hashes of all keys of a command that is being executed and was not called by another.
    pub(crate) fn locked_for(&self, request: &Request<'_>) -> Box<[KeyHash]> {
        match request.hash {
            Some(hash) => [hash].into(),
            None => self.located.iter().map(|&(_, hash)| hash).collect(),
        }
    }

    /// Nanoseconds since the command in hand began.
    pub(crate) fn nanos_so_far(&self) -> u64 {
        self.clock.nanos(self.tick, self.clock.now())
    }

    /// When the command in hand began, or the batch.
    #[inline]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The clock of ticks.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Lets the command in hand have begun then, though it called others meanwhile.
    pub(crate) fn begin_at(&mut self, tick: Tick) {
        self.tick = tick;
    }

    /// This moment.
    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Nanoseconds between two moments.
    #[inline]
    pub(crate) fn nanos_between(&self, from: Tick, to: Tick) -> u64 {
        self.clock.nanos(from, to)
    }

    /// Lets the next command begin so many nanoseconds ago.
    pub(crate) fn begin_before(&mut self, nanos: u64) {
        self.tick = self.clock.before(self.clock.now(), nanos);
    }

    /// Counts a command; returns the nanoseconds that it took.
    #[inline]
    pub(crate) fn account(
        &mut self,
        command: Command,
        args: &[&[u8]],
        failed: bool,
        host: &mut dyn Host,
    ) -> u64 {
        let now = self.clock.now();
        let nanos = self.clock.nanos(self.tick, now);
        self.tick = now;
        self.stats.called(command.index, nanos, failed);
        if nanos >= self.shared.slow_nanos() {
            self.note_slow(command, args, nanos, host);
        }
        nanos
    }

    /// The same for a call that was begun on another thread, and shown to `MONITOR` there.
    pub(crate) fn account_offloaded(
        &mut self,
        command: Command,
        args: &[&[u8]],
        failed: bool,
        replied: usize,
        host: &mut dyn Host,
    ) {
        let nanos = self.account(command, args, failed, host);
        if self.shared.is_observed() {
            self.note_keys(command, args, nanos, replied);
        }
    }

    #[cold]
    fn note_slow(&mut self, command: Command, args: &[&[u8]], nanos: u64, host: &mut dyn Host) {
        if !self.is_unseen {
            self.shared.note_slow(command, args, nanos, host);
        }
    }

    /// Notes what a command has cost its keys, for `HOTKEYS`. What a script calls is part of what
    /// the script costs.
    #[cold]
    fn note_keys(&mut self, command: Command, args: &[&[u8]], nanos: u64, replied: usize) {
        if self.is_unseen || self.within_script || !self.shared.hotkeys.is_collecting() {
            return;
        }
        self.key_refs.clear();
        if key_positions(command.spec.meta.keys, args, &mut self.key_refs).is_err() {
            return;
        }
        let sent: usize = args.iter().map(|arg| encoded_len(arg.len())).sum();
        let bytes = header_len(args.len()) + sent + replied;
        let keys = self.key_refs.iter().map(|key| args[key.index as usize]);
        self.shared.hotkeys.note(keys, (nanos, bytes as u64), self.ks.now_ms());
    }

    /// Shows a command to those who observe all, unless it is one that nobody is to see, or has
    /// been shown when it began to wait.
    #[cold]
    pub(crate) fn show(&self, command: Command, args: &[&[u8]], db: u16, host: &mut dyn Host) {
        let is_hidden = command.spec.flags.intersects(bits!(Flags: SKIP_MONITOR, ADMIN));
        if !is_hidden && !self.is_unblocking() && self.shared.is_monitored() {
            self.shared.show(command, args, (db, self.within_script), host);
        }
    }
}

/// Bytes of a bulk string of `len` bytes, as a client sends it.
fn encoded_len(len: usize) -> usize {
    header_len(len) + len + 2
}

/// Bytes of a number with its type and the end of its line.
fn header_len(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 4
}
