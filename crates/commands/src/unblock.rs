//! Unblocking clients that are blocked on keys.
//!
//! ```text
//!  handler finds nothing ── Ctx::block ── joins the queue of each key, under its lock
//!
//!  another command changes a key ── the key is ready ── executed, counted
//!  settle   for each ready key, while it may satisfy a blocked client:
//!             lock the stripes of all of the client's keys; is it still the first?
//!             execute its command; unless it blocks again: leave all queues, and send the
//!             reply to its worker
//!           unlock
//! ```
//!
//! * Every decision about a blocked client is made with the stripes of all of its keys locked. The
//!   client is either blocked or done, without a state in between, and misses no change of a key.
//! * The command that made a key ready keeps its locks until the key's blocked clients are served.
//!   If such a client has keys in other stripes, the locks have to be released first. The key then
//!   stays ready, and the next thread that locks it serves its clients before doing anything else
//!   ([`Executor::help`]). So no command gets between a push and the clients blocked on it.
//! * Served commands may make further keys ready; these are served in turn, without recursion. Each
//!   success removes a blocked client, so this ends.

use crate::admit::placement::add_slots;
use crate::answer::{Answer, WaitEnd};
use crate::blocked::{Blocked, Standing};
use crate::cluster::{Call, Primary};
use crate::execute::{Execution, Executor};
use crate::host::Host;
use crate::moment::Moment;
use crate::server::state::ServerState;
use crate::session::Session;
use crate::spec::{Command, Request};
use crate::tracking::mode::Tracking;
use petrel_keyspace::{Key, KeyHash, ReadyKey};
use petrel_resp::{Protocol, RespWriter};
use petrel_table::Place;
use std::sync::Arc;

/// Maximum number of blocked clients tried per command. The others are served in the thread's next
/// turn, or before by the next command that locks their key.
const TRIED_AT_ONCE: usize = 1024;

/// Blocked clients tried before the locks are offered to other threads.
const TRIED_PER_LOCK: usize = 16;

/// Result of trying a blocked client's command.
pub(crate) enum Tried {
    /// Executed: the reply.
    Served(Answer),
    /// Executed, but its reply was dropped for its length.
    Cut,
    /// The command would block again.
    WaitsOn,
    /// Not executed, because clients are paused.
    Held,
}

impl Executor {
    /// Whether the current command is one that was blocked and is executed again.
    pub fn is_unblocking(&self) -> bool {
        self.unblocking.active
    }

    /// Whether the current command was blocked, and its timeout has expired.
    pub(crate) fn is_last_try(&self) -> bool {
        self.unblocking.last
    }

    /// The current command replies later: its client blocks, or stays blocked.
    pub(crate) fn reply_comes_later(&mut self) {
        self.unblocking.is_waiting = true;
    }

    /// Adds a client to the queues of its keys. All of its stripes are locked.
    pub(crate) fn begin_wait(&mut self, blocked: &Arc<Blocked>) {
        for i in blocked.keys.clone() {
            let key = self.ks.key(blocked.arg(i));
            self.ks.wait_for(blocked.db, key, blocked.awaited, blocked.arrival, blocked.clone());
        }
        self.shared.count_blocked(1);
        self.unblocking.is_waiting = true;
    }

    /// Ends a block and replies to the client. False if it was served already. The thread is in a
    /// batch, and holds no locks or all.
    pub fn end_wait(&mut self, blocked: &Blocked, end: WaitEnd, host: &mut dyn Host) -> bool {
        if !self.give_up(blocked) {
            return false;
        }
        if blocked.tries_late && end == WaitEnd::Timeout {
            self.unblocking.last = true;
            let tried = self.execute_again(blocked, Moment::NONE, host);
            self.unblocking.last = false;
            if let Tried::Served(answer) = tried {
                host.answer(blocked, answer);
                return true;
            }
        }
        // A wait that is ended with an error has failed in Redis, and was rejected in Valkey.
        let (index, failed) = (blocked.command, end != WaitEnd::Timeout);
        let is_rejected = failed && self.shared.dialect().is_valkey();
        self.stats.called(index, blocked.nanos, failed && !is_rejected);
        if is_rejected {
            self.stats.rejected(index);
        }
        if let Some(fail) = end.fail() {
            self.shared.count_error(&fail);
        }
        let answer = self.late_reply(blocked, end);
        host.answer(blocked, answer);
        true
    }

    /// Like [`Executor::end_wait`], but returns false while a slow script holds the keys: the
    /// client stays blocked, and the thread may have left the keyspace. The thread holds no locks.
    pub fn end_wait_unless_busy(
        &mut self,
        blocked: &Blocked,
        end: WaitEnd,
        host: &mut dyn Host,
    ) -> bool {
        let locked = self.lock_unless_busy(blocked);
        if locked {
            self.end_wait(blocked, end, host);
            self.ks.unlock();
        }
        locked
    }

    /// Like [`Executor::give_up`], but returns `None` while a slow script holds the keys: the
    /// thread may have left the keyspace. The thread holds no locks.
    pub fn give_up_unless_busy(&mut self, blocked: &Blocked) -> Option<bool> {
        if !self.lock_unless_busy(blocked) {
            return None;
        }
        let waits = self.dismiss(blocked);
        self.ks.unlock();
        Some(waits)
    }

    fn lock_unless_busy(&mut self, blocked: &Blocked) -> bool {
        let shared = &self.shared;
        let is_kept = || shared.scripts.running.is_busy() || shared.long.any();
        self.ks.lock_many_unless(blocked.hashes.iter().copied(), is_kept)
    }

    /// Ends a wait without an answer, for a client that is gone. False if it has been answered
    /// already. The thread is in a batch, and holds nothing or everything.
    pub fn give_up(&mut self, blocked: &Blocked) -> bool {
        let nested = self.ks.holds_any();
        if !nested {
            self.ks.lock_many(blocked.hashes.iter().copied());
        }
        let waits = self.dismiss(blocked);
        if !nested {
            self.ks.unlock();
        }
        waits
    }

    /// Executes the command of a waiter though none of its keys has changed, and answers unless it
    /// waits on. The thread is in a batch and holds nothing.
    pub fn try_again(&mut self, blocked: &Blocked, host: &mut dyn Host) {
        self.lock_instead(Some(&blocked.hashes), host);
        if !blocked.is_over()
            && host.standing(blocked) == Standing::Here
            && !self.is_elsewhere(blocked)
            && let Tried::Served(answer) = self.execute_again(blocked, Moment::CLIENT, host)
        {
            self.dismiss(blocked);
            self.answer(blocked, answer, host);
        }
        self.settle(host);
    }

    /// Whether this thread has made keys ready and not yet served their blocked clients.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.ks.has_ready()
    }

    /// Whether blocked clients were not served because clients are paused.
    pub fn has_postponed(&self) -> bool {
        !self.unblocking.postponed.is_empty()
    }

    /// Serves clients blocked on keys that this thread made ready, up to a limit: after upkeep, and
    /// while [`Executor::has_ready`]. Commands do this themselves. The thread is in a batch.
    pub fn serve_ready(&mut self, host: &mut dyn Host) {
        self.settle(host);
    }

    /// Serves the clients that were held back by a pause, after its end. The thread is in a batch
    /// and holds no locks.
    pub fn serve_postponed(&mut self, host: &mut dyn Host) {
        for ready in std::mem::take(&mut self.unblocking.postponed) {
            let key = self.ks.key(&ready.key);
            self.ks.lock(key.hash);
            self.ks.make_ready(ready.db, key);
            self.ks.unlock();
        }
        self.settle(host);
    }

    /// Serves clients blocked on keys that this thread made ready, and releases all locks.
    #[cold]
    pub(crate) fn settle(&mut self, host: &mut dyn Host) {
        if self.ks.has_ready() {
            // The clock stands still in transactions and scripts. Blocked clients must not see keys
            // that have expired meanwhile.
            self.ks.refresh_clock();
        }
        let mut left = TRIED_AT_ONCE;
        while left > 0 {
            let Some(ready) = self.ks.next_ready() else { break };
            self.serve(&ready, &mut left, host);
        }
        self.ks.unlock();
    }

    /// Serves clients blocked on ready keys of the locked stripes, and releases all locks.
    #[cold]
    pub(crate) fn help(&mut self, host: &mut dyn Host) {
        while let Some(ready) = self.ks.held_ready() {
            self.serve(&ready, &mut usize::MAX.clone(), host);
        }
        self.settle(host);
    }

    /// Releases all locks and locks these stripes, or all: for a command that learns its keys from
    /// locked data, and has executed nothing yet.
    pub(crate) fn lock_instead(&mut self, hashes: Option<&[KeyHash]>, host: &mut dyn Host) {
        loop {
            self.ks.unlock();
            match hashes {
                Some(hashes) => self.ks.lock_many(hashes.iter().copied()),
                None => self.ks.lock_all(),
            }
            if !self.ks.holds_ready() {
                return;
            }
            self.help(host);
        }
    }

    /// Tries the clients blocked on a key, in order. Locks may be released on the way.
    fn serve(&mut self, ready: &ReadyKey, left: &mut usize, host: &mut dyn Host) {
        let key = self.ks.key(&ready.key);
        if !self.ks.holds(key.hash) {
            self.ks.unlock();
            self.ks.lock(key.hash);
        }
        let mut locked = TRIED_PER_LOCK;
        while let Some((arrival, waiter)) = self.ks.next_waiter(ready.db, key) {
            let Ok(blocked) = waiter.downcast::<Blocked>() else {
                // No other code adds entries to the queues.
                self.ks.leave(ready.db, key, arrival);
                continue;
            };
            if *left == 0 {
                return self.ks.serve_later(ready.clone());
            }
            let is_covered = blocked.hashes.iter().all(|&hash| self.ks.holds(hash));
            if locked == 0 || !is_covered {
                // The client may be gone or served once all stripes are locked.
                locked = TRIED_PER_LOCK;
                self.ks.unlock();
                self.yield_within();
                self.ks.lock_many(blocked.hashes.iter().copied());
                continue;
            }
            (*left, locked) = (*left - 1, locked - 1);
            self.try_waiter(&blocked, ready, key, host);
        }
    }

    /// Executes the command of a blocked client, with its stripes locked, and replies unless it
    /// blocks again.
    fn try_waiter(
        &mut self,
        blocked: &Blocked,
        ready: &ReadyKey,
        key: Key<'_>,
        host: &mut dyn Host,
    ) {
        if host.standing(blocked) == Standing::Gone {
            self.dismiss(blocked);
            return;
        }
        self.ks.begin_try(ready.db, key);
        let tried = match self.is_elsewhere(blocked) {
            // Another node is the primary of the keys now, and will serve the client.
            true => Tried::WaitsOn,
            false => {
                // A helper's own command, which made the key ready, has ended.
                let helping = self.helping.take();
                let tried = self.execute_again(blocked, Moment::CLIENT, host);
                self.helping = helping;
                tried
            }
        };
        if matches!(tried, Tried::Served(_)) {
            self.dismiss(blocked);
        }
        self.ks.end_try(ready.db, key, blocked.arrival);
        match tried {
            Tried::Served(answer) => self.answer(blocked, answer, host),
            // What waits for a key has no limit.
            Tried::Cut => {}
            Tried::Held if !self.unblocking.postponed.contains(ready) => {
                self.unblocking.postponed.push(ready.clone());
            }
            Tried::Held | Tried::WaitsOn => {}
        }
    }

    /// Replies to a blocked client after its command was executed under the held locks.
    fn answer(&mut self, blocked: &Blocked, answer: Answer, host: &mut dyn Host) {
        if host.answer(blocked, answer) {
            self.ks.commit_at_unlock();
        }
    }

    fn command_of(&self, blocked: &Blocked) -> Command {
        self.registry().command(blocked.command)
    }

    /// Whether another node has become the primary of the blocked client's keys since it blocked.
    pub fn is_elsewhere(&self, blocked: &Blocked) -> bool {
        let place = self.command_of(blocked).spec.place;
        if place == Place::Here
            || blocked.keys.is_empty()
            || !self.shared.is_in_state(ServerState::Clustered)
        {
            return false;
        }
        let Some(cluster) = self.shared.cluster.get() else { return false };
        if place == Place::Read && cluster.holds_all() {
            return false;
        }
        let mut keys = blocked.keys.clone().map(|i| cluster.slot_of(blocked.arg(i)));
        match place {
            Place::Read => keys.any(|slot| !cluster.is_readable(slot)),
            _ => keys.any(|slot| cluster.primary_of(slot) != Primary::Here),
        }
    }

    /// Builds the call that continues a block at the primary of its keys.
    pub fn call_again(&self, blocked: &Blocked) -> Call {
        let args = blocked.args();
        let mut slots = Vec::new();
        if let Some(cluster) = self.shared.cluster.get() {
            add_slots(self.command_of(blocked), &args, &**cluster, &mut slots);
        }
        let left = blocked.deadline.map(|at| at.saturating_sub(self.ks.now_ms()).max(0) as u64);
        Call {
            slots,
            db: blocked.db,
            resp3: blocked.protocol == Protocol::Resp3,
            wait_ms: left,
            commands: vec![args.iter().map(|arg| arg.to_vec()).collect()],
            ..Call::default()
        }
    }

    /// Prepares for the reply to a blocked command, which another thread may have served: it sends
    /// the reply before it commits, so this waits for its locks if the reply depends on the commit.
    /// Records the slots of the command's keys, which the reply shows. The executor is in a batch.
    pub fn note_served(&mut self, blocked: &Blocked) {
        let cluster = self.shared.cluster.get().filter(|all| all.waits_for_owners());
        if cluster.is_some() || self.ks.is_strict() {
            for i in blocked.keys.clone() {
                self.ks.lock(self.ks.hash(blocked.arg(i)));
                self.ks.unlock();
            }
        }
        let Some(cluster) = cluster else { return };
        let mut slots = Vec::new();
        add_slots(self.command_of(blocked), &blocked.args(), &**cluster, &mut slots);
        self.shown.add_each(&slots);
    }

    /// Reply to a blocked client that was not served: a timeout, or an error.
    pub fn late_reply(&self, blocked: &Blocked, end: WaitEnd) -> Answer {
        match end.fail() {
            None => Answer::new(blocked.protocol, blocked.late),
            Some(fail) => Answer::new(blocked.protocol, |reply| reply.error(fail.text())),
        }
    }

    /// Executes a blocked client's command on behalf of the client.
    pub(crate) fn execute_again(
        &mut self,
        blocked: &Blocked,
        moment: Moment,
        host: &mut dyn Host,
    ) -> Tried {
        let mut session = Session::new(true);
        session.db = blocked.db;
        session.protocol = blocked.protocol;
        session.modes = blocked.modes;
        if let Some(tracking) = &blocked.tracking {
            session.extras_mut().tracking = Some(Tracking::clone(tracking));
        }
        if let Some(user) = &blocked.user {
            session.become_user(Some(user.clone()));
        }
        session.access = blocked.access;
        let args = blocked.args();
        let command = Some(self.command_of(blocked));
        let request = Request { args: &args, command, hash: None, owner: None };
        let mut answer = Answer::default();
        self.unblocking.active = true;
        self.begin_before(blocked.nanos);
        let other = host.act_for(blocked.ticket().clone());
        let most = host.reply_max().filter(|_| blocked.is_moved).unwrap_or(usize::MAX);
        let mut reply = RespWriter::new(&mut answer.bytes, &mut answer.shared, blocked.protocol);
        reply = reply.limited(most);
        let execution = self.execute_at(moment, &request, &mut session, host, &mut reply);
        host.act_for(other);
        self.unblocking.active = false;
        match execution {
            Execution::Answered if reply.is_cut() => Tried::Cut,
            Execution::Answered => Tried::Served(answer),
            Execution::Waits => Tried::WaitsOn,
            Execution::Held
            | Execution::Lends
            | Execution::NextTurn
            | Execution::Skipped
            | Execution::Forwarded
            | Execution::Awaits => Tried::Held,
        }
    }

    /// Removes a blocked client from its queues; false if it was removed before. All of its stripes
    /// are locked.
    pub(crate) fn dismiss(&mut self, blocked: &Blocked) -> bool {
        if !blocked.end() {
            return false;
        }
        for i in blocked.keys.clone() {
            let key = self.ks.key(blocked.arg(i));
            self.ks.leave(blocked.db, key, blocked.arrival);
        }
        self.shared.count_blocked(-1);
        true
    }
}
