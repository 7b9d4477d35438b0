//! Execution of commands. Every command of every path (socket, transaction, script, embedded) goes
//! through [`Executor::execute`], which alone checks, locks, runs and accounts.
//!
//! ```text
//!  prepare      look the name up, hash the first key, prefetch its stripe
//!  prefetch     prefetch the bucket, then the entries that the lookup will compare
//!  execute      admit: decide whether it runs (admit.rs); most commands do
//!               lock every stripe of the command's keys
//!               handler: reads, changes through mutators, writes the reply
//!               unlock, free replaced values
//!               account: calls, time, slow log
//! ```

use crate::acl::Seen;
use crate::apart_keys::ApartKeys;
use crate::aux_values::Draft;
use crate::blocked::{Helping, Unblocking};
use crate::clock::{Clock, Tick};
use crate::cluster::{Cluster, HashSlot};
use crate::ctx::{Ctx, Invocation};
use crate::fail::{Fail, Outcome};
use crate::host::Host;
use crate::long::{MANY_ARGUMENTS, MOVE_UNITS, Whole};
use crate::modes::Modes;
use crate::random::Random;
use crate::recent;
use crate::scripting::{FunctionThread, ScriptThread};
use crate::server::stats::{Shared, ThreadStats};
use crate::session::Transaction;
use crate::shown::ShownSlots;
use crate::spec::{Command, Flags, Handler, KeyShape, Locks, Registry, Request};
use bytes::Bytes;
use petrel_keyspace::{Cleared, Handle, KeyHash};
use petrel_table::keys::{InvalidKeys, KeyRef, key_positions};
use petrel_table::{KeyFlags, bits};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A recently resolved command.
type Recent = recent::Recent<Handler>;

/// State of a thread that executes commands.
pub struct Executor {
    /// Parsed JSON paths of this thread. Dropped before the handle, which counts their memory.
    pub(crate) paths: crate::json::PathCache,
    /// Handle of the keyspace.
    pub ks: Handle,
    /// State shared by all threads: slow log, error counts, statistics.
    pub shared: Arc<Shared>,
    /// This thread's statistics.
    pub stats: Arc<ThreadStats>,
    clock: Clock,
    /// End of the previous command, and so the begin of the current one.
    tick: Tick,
    /// Keys of the current command, by argument.
    located: Vec<(u32, KeyHash)>,
    key_refs: Vec<KeyRef>,
    /// Recycled allocation for the next `MULTI`.
    pub(crate) spare_transaction: Option<Box<Transaction>>,
    /// Hashes of the keys of the current transaction.
    pub(crate) transaction_keys: Vec<KeyHash>,
    /// Recycled allocation for the arguments of a transaction.
    pub(crate) transaction_args: Vec<&'static [u8]>,
    /// Flushed data to free once nothing is locked; true: in the background.
    cleared: Vec<(Cleared, bool)>,
    pub(crate) random: Random,
    recent: Option<Recent>,
    /// Recently resolved commands, by the first and last letters of their names.
    recents: [Option<Recent>; RECENTS],
    /// Cached permissions of the most recently checked user.
    pub(crate) seen: Option<Seen>,
    pub(crate) unblocking: Unblocking,
    /// Lua state for scripts, once the thread has run one; `None` while one runs.
    pub(crate) scripts: Option<Box<ScriptThread>>,
    /// Lua state for functions, likewise.
    pub(crate) functions: Option<Box<FunctionThread>>,
    /// Draft of auxiliary state. Commands that change such state work on it if it is set.
    pub(crate) draft: Option<Draft>,
    /// Keys of the current transaction, if it is executed apart from the keyspace.
    pub(crate) apart: Option<ApartKeys>,
    /// Flags of commands that [`Executor::admit`] looks at closely.
    pub(crate) special_flags: Flags,
    /// A script is calling commands.
    pub(crate) within_script: bool,
    /// Hash slot that the current script has used, if it may use one only ([`Moment::ONE_SLOT`]).
    pub(crate) one_slot: Option<HashSlot>,
    /// Hash slots of the current transaction, to which a command of all primaries is limited here.
    pub(crate) share: Option<Vec<HashSlot>>,
    /// Hash slots of keys shown to clients, where replies wait for other owners.
    pub shown: ShownSlots,
    /// Time since 1970 that `TIME` returns in the current script; `None` before the first call.
    pub(crate) script_time: Option<Duration>,
    /// Commands that scripts have called.
    pub script_calls: u64,
    /// The error of the current command was counted at its origin.
    pub(crate) is_error_counted: bool,
    /// Commands of this executor are not logged.
    is_unseen: bool,
    /// Units until the next check of the clock ([`Ctx::pace`]).
    pub(crate) units_left: usize,
    /// [`Executor::give_way`].
    pub(crate) gives_way: bool,
    /// Maximum of [`crate::long::expect`] for the running command, in units.
    pub(crate) units_here: usize,
    /// Units that a command may be expected to take on this thread, unless it cannot go elsewhere.
    pub(crate) move_units: usize,
    /// State of the running command on a helper.
    pub(crate) helping: Option<Helping>,
    /// The running transaction or script, once a command of it takes long.
    pub(crate) inside: Option<Rc<dyn Whole>>,
}

/// Number of recently resolved commands that are cached.
const RECENTS: usize = 16;

/// Maximum number of keys with client tracking prefetched before it is known whether they are
/// tracked.
const EARLY_MAX: usize = 8;

/// Maximum length of keys that [`Executor::guess`] hashes, since they are hashed again when used.
const GUESSED_MAX: usize = 256;

/// Result of [`Executor::execute`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Execution {
    /// The reply is written.
    Answered,
    /// Blocked: no reply yet; [`Host::wait`] was called.
    Waits,
    /// Not executed: deferred by a pause.
    Held,
    /// Not executed: it runs a script, or a transaction that may take long, and the worker has to
    /// detach its connections first.
    Lends,
    /// Not executed: a slow script is about to end, or the command was given up before it changed
    /// anything.
    NextTurn,
    /// Ignored: its effects are in the file or stream as other commands.
    Skipped,
    /// Forwarded to other nodes. The reply arrives in the last of the session's [reply
    /// slots](crate::ReplySlots), after all that was written before.
    Forwarded,
    /// Not executed: has to wait for replies of other nodes
    /// ([`ReplySlots::may_go_on`](crate::ReplySlots::may_go_on)).
    Awaits,
}

impl Executor {
    /// Creates an executor for the calling thread.
    pub fn new(ks: Handle, shared: Arc<Shared>) -> Self {
        let stats = shared.join();
        Self::with_stats(ks, shared, stats)
    }

    /// Creates an executor of commands that are not counted, logged or shown to `MONITOR`.
    pub fn unseen(ks: Handle, shared: Arc<Shared>) -> Self {
        let stats = Arc::new(ThreadStats::new(shared.registry.len()));
        Executor { is_unseen: true, ..Self::with_stats(ks, shared, stats) }
    }

    fn with_stats(ks: Handle, shared: Arc<Shared>, stats: Arc<ThreadStats>) -> Self {
        shared.index_keyspace(ks.keyspace());
        let clock = Clock::get();
        let special_flags = shared.special_flags();
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
            apart: None,
            special_flags,
            within_script: false,
            one_slot: None,
            shown: ShownSlots::default(),
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

    /// Like [`Executor::begin`], but returns false if a slow script holds the keyspace. The batch
    /// has begun then, but commands that touch keys must not be executed in it.
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

    /// Whether this node has the lease for changes, as of the end of the last command or the begin
    /// of the batch.
    #[inline]
    pub fn has_lease(&self, cluster: &dyn Cluster) -> bool {
        self.tick < cluster.lease_until()
    }

    /// Nanoseconds from a [tick](Executor::tick) to the end of the last command.
    #[inline]
    pub fn nanos_of_commands(&self, tick: Tick) -> u64 {
        self.clock.nanos(tick, self.tick)
    }

    /// Enters the keyspace if this thread has left it within a batch. Waits even for a slow script.
    pub fn come_inside(&mut self) {
        if self.ks.is_outside() {
            self.end();
            self.begin();
        }
    }

    /// Yields to a thread that waits for the exclusive lock, between two commands of a batch.
    /// Returns false if a slow script holds the keyspace; commands that touch keys must not be
    /// executed then.
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

    /// Resolves the command, hashes its first key and prefetches that key's stripe.
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

    /// Hash of the command's only key, or of the first of several keys if its position is known.
    /// Prefetches its stripe.
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

    /// Whether the last prepared command runs a script.
    #[inline]
    pub fn was_script(&self) -> bool {
        self.recent.is_some_and(Recent::runs_script)
    }

    /// Whether this is the name of the last prepared command.
    #[inline]
    pub fn is_usual(&self, name: &[u8]) -> bool {
        self.recent.is_some_and(|recent| recent.command(name).is_some())
    }

    /// Index of the first key, if the next command is the same as the last one.
    #[inline]
    pub fn usual_key(&self) -> usize {
        self.recent.and_then(Recent::first_key).unwrap_or(1)
    }

    /// Like [`Executor::prepare`], for a command that a script calls.
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

    /// Prefetches the buckets of the keys of upcoming commands, then `lines` cache lines of the
    /// entries that their lookups will compare. Each is requested long before it is used. Client
    /// tracking is prefetched for keys with a slot marked as tracked; for a few keys already before
    /// their slots are known.
    #[inline]
    pub fn prefetch(&self, db: u16, hashes: impl Iterator<Item = KeyHash> + Clone, lines: usize) {
        // Useless for a thread that a slow script keeps out of the keyspace, and for a busy loop.
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

    /// Executes an admitted command (`admit.rs`).
    #[inline]
    pub(crate) fn execute_admitted(
        &mut self,
        mut invocation: Invocation<'_>,
        nested: bool,
    ) -> Execution {
        let Some(command) = invocation.request.command else { return Execution::Answered };
        let written_before = self.shared.is_observed().then(|| invocation.reply.written());
        let outcome = self.run(command, invocation.lend(), nested);
        let Invocation { request, session, host, reply, moment } = invocation;
        let waits = self.unblocking.waits();
        if waits {
            self.ks.release_kept();
            self.tick = self.clock.now();
            // Shown to `MONITOR` when it blocks, not again when it is served.
            if written_before.is_some() {
                self.show(command, request.args, session.db, host);
            }
        } else {
            let failed = outcome.is_err();
            if let Err(fail) = outcome {
                self.ks.release_kept();
                if let Some(why) = fail.put_off() {
                    let invocation = Invocation { request, session, host, reply, moment };
                    return self.put_off(why, command, invocation);
                }
                if !std::mem::take(&mut self.is_error_counted) {
                    self.shared.count_error(&fail);
                }
                reply.error(fail.text());
            }
            let nanos = self.account(command, request.args, failed, host);
            if let Some(before) = written_before {
                self.ks.release_kept();
                self.show(command, request.args, session.db, host);
                let replied = reply.written().saturating_sub(before);
                self.note_keys(command, request.args, nanos, replied);
            }
        }
        if self.ks.has_invalidations() {
            self.ks.release_kept();
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

    /// Resolves a command, first among the recent ones.
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
        // Subcommands are identified by two words, so neither they nor their containers are cached
        // by name.
        let is_whole =
            command.spec.subcommands.is_empty() && !self.registry().is_subcommand(command);
        let recent = if is_whole { Recent::new(command, name) } else { None };
        if recent.is_some() {
            self.recents[place] = recent;
        }
        Some((command, recent))
    }

    /// Whether the current command was called by a script, for which time stands still.
    pub fn is_within_script(&self) -> bool {
        self.within_script
    }

    /// Seeds the random numbers, for simulations.
    pub fn seed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// Frees excess memory after commands with many keys. Called now and then, outside of commands.
    pub fn trim(&mut self) {
        /// Number of keys that buffers keep room for.
        const KEYS_KEPT: usize = 1024;
        self.located.shrink_to(KEYS_KEPT.max(self.located.len()));
        self.key_refs.clear();
        self.key_refs.shrink_to(KEYS_KEPT);
        self.transaction_keys.shrink_to(KEYS_KEPT);
        self.transaction_args.shrink_to(KEYS_KEPT);
    }

    /// Frees the thread's caches (`MEMORY PURGE`).
    pub fn clear_caches(&mut self) {
        self.paths.clear();
    }

    /// A random number; good enough to choose keys, not for secrets.
    pub fn random(&mut self) -> u64 {
        self.random.next()
    }

    /// Yields to a thread that waits for the exclusive lock, within a command that holds no stripe.
    /// The wait counts as the command's time.
    pub fn yield_within(&mut self) {
        if !self.ks.holds_any() && self.ks.should_yield() {
            self.ks.exit();
            self.ks.enter();
        }
    }

    /// Like [`Executor::yield_within`], but returns false if a slow script holds the keyspace; the
    /// command has to end then.
    pub fn yield_within_unless_busy(&mut self) -> bool {
        if self.ks.holds_any() || !self.ks.should_yield() {
            return true;
        }
        self.ks.exit();
        let running = &self.shared.scripts.running;
        self.ks.enter_unless(|| running.is_busy())
    }

    /// Frees flushed data after the command has unlocked: immediately, or by the host in the
    /// background.
    pub(crate) fn discard_later(&mut self, cleared: Cleared, in_background: bool) {
        self.cleared.push((cleared, in_background));
    }

    /// Evicts to make room for about `needed` bytes if the memory limit is reached; false if that
    /// fails. No stripe is held.
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

    /// Locked keys of the current command, by argument; empty for a command with one key at a known
    /// position.
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
    fn run(&mut self, command: Command, invocation: Invocation<'_>, nested: bool) -> Outcome {
        let Invocation { request, session, host, reply, .. } = invocation;
        if nested {
            self.located.clear();
        } else {
            self.lock(command, request, host)?;
            self.mark_held(request);
        }
        self.ks.set_touch(!session.is(Modes::NO_TOUCH));
        let tracks = session.extras.is_some() && command.spec.flags.contains(Flags::READONLY);
        if tracks && command.spec.locks == Locks::Itself {
            // The handler locks by itself, so a key may change before it returns. Therefore the
            // reads are tracked before, too.
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
        // Clients blocked on changed keys are served before unlocking, except after commands that
        // lock the whole keyspace.
        if !nested && (!self.ks.has_ready() || !self.cleared.is_empty()) {
            self.ks.unlock();
            self.discard_cleared(host);
        }
        outcome
    }

    /// Unlocks, and so publishes the changes, before the reply of the current command is complete.
    /// Serves clients blocked on changed keys first, as at the end of a command.
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

    #[inline]
    fn discard_cleared(&mut self, host: &mut dyn Host) {
        while let Some((cleared, in_background)) = self.cleared.pop() {
            if in_background {
                host.discard(cleared);
            }
        }
    }

    /// Locks the stripes that the command needs, and serves clients that are ready there first.
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

    /// Locks the stripes that the command needs, before it executes anything. Returns `BUSY` if a
    /// script that holds the keyspace turns out to be slow.
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
            (Locks::Itself, _) => {
                self.ks.release_kept();
                self.located.clear();
            }
        }
        Ok(())
    }

    fn lock_keys(&mut self, command: Command, args: &[&[u8]]) -> Outcome {
        self.ks.release_kept();
        self.located.clear();
        if command.spec.keys == KeyShape::None {
            return Ok(());
        }
        self.key_refs.clear();
        // An invalid number of keys is left to the handler, which returns the command's own error.
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
        if self.ks.lock_many_unless(hashes, is_kept) { Ok(()) } else { Err(self.kept_out()) }
    }

    /// The outcome of a command if a slow script or a helper thread holds its keys.
    #[cold]
    pub(crate) fn kept_out(&self) -> Fail {
        let running = &self.shared.scripts.running;
        match running.is_busy() || !self.gives_way {
            true => running.busy(self.shared.dialect()),
            false => Fail::PUT_OFF_MOVE,
        }
    }

    /// Hashes of all keys of the current command, which was not called by another.
    pub(crate) fn locked_for(&self, request: &Request<'_>) -> Box<[KeyHash]> {
        match request.hash {
            Some(hash) => [hash].into(),
            None => self.located.iter().map(|&(_, hash)| hash).collect(),
        }
    }

    /// Nanoseconds since the current command began.
    pub(crate) fn nanos_so_far(&self) -> u64 {
        self.clock.nanos(self.tick, self.clock.now())
    }

    /// Begin of the current command or batch.
    #[inline]
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The clock of ticks.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Sets the begin of the current command, which has executed others meanwhile.
    pub(crate) fn begin_at(&mut self, tick: Tick) {
        self.tick = tick;
    }

    /// The current tick.
    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Nanoseconds between two ticks.
    #[inline]
    pub(crate) fn nanos_between(&self, from: Tick, to: Tick) -> u64 {
        self.clock.nanos(from, to)
    }

    /// Sets the begin of the next command to `nanos` nanoseconds ago.
    pub(crate) fn begin_before(&mut self, nanos: u64) {
        self.tick = self.clock.before(self.clock.now(), nanos);
    }

    /// Counts a command; returns its duration in nanoseconds.
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

    /// Like [`Executor::account`], for a call that began on another thread and was shown to
    /// `MONITOR` there.
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
        self.ks.release_kept();
        if !self.is_unseen {
            self.shared.note_slow(command, args, nanos, host);
        }
    }

    /// Adds a command's cost to its keys, for `HOTKEYS`. The cost of a script includes its calls.
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

    /// Shows a command to `MONITOR` clients, unless it is hidden from them or was shown when it
    /// blocked.
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
