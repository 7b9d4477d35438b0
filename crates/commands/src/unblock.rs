//! Unblocking the clients that wait for keys.
//!
//! ```text
//!  handler finds nothing ── Ctx::block ── a place in the queue of each key, under its lock
//!
//!  another command changes a key ── the key is ready ── executed, counted
//!  settle   for each ready key, while a waiter may be served as the key is:
//!             the stripes of all of the waiter's keys are locked; is it still the first?
//!             its command is executed; if it does not wait again: out of all queues, and the
//!             answer to its worker
//!           unlock
//! ```
//!
//! * Everything about a waiter is decided with the stripes of all of its keys held: whoever serves
//!   it, and whoever ends its wait, finds it either waiting or gone. There is no state in between,
//!   and no change of a key can be missed.
//! * The locks of the command that made a key ready are kept until its waiters are served. Where a
//!   waiter has keys in other stripes they have to be let go before; the key then still says that
//!   it is ready, and whoever locks it first serves its waiters before doing anything else
//!   ([`Executor::help`]). So nobody comes between a push and those who waited for it.
//! * What a served command changes may make further keys ready; they are served in turn, without
//!   recursion. Each success takes a waiter away, so there is an end.

use crate::admit::Moment;
use crate::admit::placement::add_slots;
use crate::answer::{Answer, WaitEnd};
use crate::blocked::{Blocked, Standing};
use crate::cluster::{Home, RemoteCall};
use crate::execute::{Execution, Executor};
use crate::host::Host;
use crate::server::state::ServerState;
use crate::session::{Modes, Session};
use crate::spec::Request;
use crate::tracking::mode::Tracking;
use petrel_keyspace::{Key, KeyHash, ReadyKey};
use petrel_resp::{Protocol, RespWriter};
use petrel_table::Place;
use std::sync::Arc;

/// Waiters tried on behalf of one command at most; the others are served in the next turn of the
/// thread, or by whoever wants one of their keys before.
const TRIED_AT_ONCE: usize = 1024;

/// Waiters tried before others may have the locks.
const TRIED_PER_LOCK: usize = 16;

/// What became of a waiter's command.
pub(crate) enum Tried {
    /// It was executed: what to answer.
    Served(Answer),
    /// Executed, but its reply was dropped for its length.
    Cut,
    /// It found nothing again.
    WaitsOn,
    /// It was not executed: a pause holds it back.
    Held,
}

impl Executor {
    /// Whether a command that has waited is executed again.
    pub fn is_unblocking(&self) -> bool {
        self.unblocking.active
    }

    /// Whether the command in hand has waited, and its time is up.
    pub(crate) fn is_last_try(&self) -> bool {
        self.unblocking.last
    }

    /// The command in hand is answered later: its client waits, or goes on waiting.
    pub(crate) fn reply_comes_later(&mut self) {
        self.unblocking.is_waiting = true;
    }

    /// Puts a client into the queues of the keys that it waits for. All of its stripes are held.
    pub(crate) fn begin_wait(&mut self, blocked: &Arc<Blocked>) {
        for i in blocked.keys.clone() {
            let key = self.ks.key(blocked.arg(i));
            self.ks.wait_for(blocked.db, key, blocked.awaited, blocked.arrival, blocked.clone());
        }
        self.shared.count_blocked(1);
        self.unblocking.is_waiting = true;
    }

    /// Ends a wait and answers the client. False if it has been answered already. The thread is in
    /// a batch, and holds nothing or everything.
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
        let (index, failed) = (blocked.command.index, end != WaitEnd::Timeout);
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

    /// The same, unless a script that has run for long keeps the keys: false then, the client waits
    /// on, and the thread may be outside. The thread holds nothing.
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

    /// As [`Executor::give_up`]; none if a script that has run for long keeps the keys, and the
    /// thread may be outside then. The thread holds nothing.
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

    /// Whether keys are ready whose waiters this thread has yet to serve.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.ks.has_ready()
    }

    /// Whether there are waiters whom a pause kept from being served.
    pub fn has_postponed(&self) -> bool {
        !self.unblocking.postponed.is_empty()
    }

    /// Serves those who wait for keys that this thread made ready, as far as it goes at once: after
    /// upkeep, and while [`Executor::has_ready`]. After a command it happens by itself. The
    /// thread is in a batch.
    pub fn serve_ready(&mut self, host: &mut dyn Host) {
        self.settle(host);
    }

    /// Serves those whom a pause held back, now that it is over. The thread is in a batch and holds
    /// nothing.
    pub fn serve_postponed(&mut self, host: &mut dyn Host) {
        for ready in std::mem::take(&mut self.unblocking.postponed) {
            let key = self.ks.key(&ready.key);
            self.ks.lock(key.hash);
            self.ks.make_ready(ready.db, key);
            self.ks.unlock();
        }
        self.settle(host);
    }

    /// Serves those who wait for keys that this thread made ready; nothing is held afterwards.
    #[cold]
    pub(crate) fn settle(&mut self, host: &mut dyn Host) {
        if self.ks.has_ready() {
            // In a transaction or a script time stood still; what has expired by now is not there
            // for who waited.
            self.ks.refresh_clock();
        }
        let mut left = TRIED_AT_ONCE;
        while left > 0 {
            let Some(ready) = self.ks.next_ready() else { break };
            self.serve(&ready, &mut left, host);
        }
        self.ks.unlock();
    }

    /// Serves those who wait for ready keys of the stripes that are held; nothing is held
    /// afterwards.
    #[cold]
    pub(crate) fn help(&mut self, host: &mut dyn Host) {
        while let Some(ready) = self.ks.held_ready() {
            self.serve(&ready, &mut usize::MAX.clone(), host);
        }
        self.settle(host);
    }

    /// Lets go of what is held and locks these stripes instead, or all: for a command that finds
    /// its keys in what it has locked, and has executed nothing yet.
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

    /// Tries those who wait for a key, in order. What is held may be let go of on the way.
    fn serve(&mut self, ready: &ReadyKey, left: &mut usize, host: &mut dyn Host) {
        let key = self.ks.key(&ready.key);
        if !self.ks.holds(key.hash) {
            self.ks.unlock();
            self.ks.lock(key.hash);
        }
        let mut locked = TRIED_PER_LOCK;
        while let Some((arrival, waiter)) = self.ks.next_waiter(ready.db, key) {
            let Ok(blocked) = waiter.downcast::<Blocked>() else {
                // Nobody else puts waiters into the queues.
                self.ks.leave(ready.db, key, arrival);
                continue;
            };
            if *left == 0 {
                return self.ks.serve_later(ready.clone());
            }
            let is_covered = blocked.hashes.iter().all(|&hash| self.ks.holds(hash));
            if locked == 0 || !is_covered {
                // By the time that all are locked it may be gone, or have been tried.
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

    /// Executes the command of a waiter, whose stripes are held, and answers unless it waits again.
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
            // What has come is another node's to give away; the waiter is about to go there.
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

    /// Answers a waiter whose command was executed under the locks that are held.
    fn answer(&mut self, blocked: &Blocked, answer: Answer, host: &mut dyn Host) {
        if host.answer(blocked, answer) {
            self.ks.commit_at_unlock();
        }
    }

    /// Whether what a waiter waits for is another node's to give away: its keys have got another
    /// home since the wait began.
    pub fn is_elsewhere(&self, blocked: &Blocked) -> bool {
        let place = blocked.command.spec.place;
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
            _ => keys.any(|slot| cluster.home_of(slot) != Home::Here),
        }
    }

    /// The call that lets a waiter, whose wait here has ended, go on at the home of its keys.
    pub fn call_again(&self, blocked: &Blocked) -> RemoteCall {
        let args = blocked.args();
        let (mut slots, mut by_key) = (Vec::new(), false);
        if let Some(cluster) = self.shared.cluster.get() {
            add_slots(blocked.command, &args, &**cluster, &mut slots);
            by_key = slots.len() > 1 && !cluster.holds_all();
        }
        let left = blocked.deadline.map(|at| at.saturating_sub(self.ks.now_ms()).max(0) as u64);
        RemoteCall {
            slots,
            db: blocked.db,
            resp3: blocked.protocol == Protocol::Resp3,
            wait_ms: left,
            by_key,
            commands: vec![args.iter().map(|arg| arg.to_vec()).collect()],
            ..RemoteCall::default()
        }
    }

    /// The reply to a waiter whose wait has ended in another way than by what it waited for.
    pub fn late_reply(&self, blocked: &Blocked, end: WaitEnd) -> Answer {
        match end.fail() {
            None => Answer::new(blocked.protocol, blocked.late),
            Some(fail) => Answer::new(blocked.protocol, |reply| reply.error(fail.text())),
        }
    }

    /// Executes a waiter's command in the name of its client.
    pub(crate) fn execute_again(
        &mut self,
        blocked: &Blocked,
        moment: Moment,
        host: &mut dyn Host,
    ) -> Tried {
        let mut session = Session::new(true);
        session.db = blocked.db;
        session.protocol = blocked.protocol;
        session.set(Modes::NO_TOUCH, blocked.no_touch);
        if let Some(tracking) = &blocked.tracking {
            session.extras_mut().tracking = Some(Tracking::clone(tracking));
        }
        if let Some(user) = &blocked.user {
            session.become_user(Some(user.clone()));
        }
        session.access = blocked.access;
        let args = blocked.args();
        let request =
            Request { args: &args, command: Some(blocked.command), hash: None, owner: None };
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

    /// Takes a waiter out of its queues for good; false if somebody has before. All of its stripes
    /// are held.
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
