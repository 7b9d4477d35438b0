//! Commands of other members' clients that wait here for keys, in one queue with those of this
//! member's own clients. The home alone ends such a wait (`petrel_cluster`, `node/wait.rs`); a
//! worker that changes the key executes the command, and its answer goes into the lanes behind
//! what it has committed.

use super::Membership;
use super::agent::Agent;
use crate::client::Client;
use crate::host::AbsentClient;
use parking_lot::Mutex;
use petrel_cluster::lanes::{Served, note_served};
use petrel_cluster::wire::{Tag, WaitEnd};
use petrel_cluster::{Identity, Slot};
use petrel_commands::{Answer, Blocked, Shared, WaitEnd as End};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Between two tries of commands that time alone may serve.
const POLL_PAUSE: Duration = Duration::from_millis(100);

/// A command that waits here for another member's client.
#[derive(Clone)]
pub(super) struct Waiter {
    pub slots: Box<[Slot]>,
    pub blocked: Arc<Blocked>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Waiters {
    by_tag: Mutex<Waiting>,
    /// How many there are: asked after each turn.
    count: AtomicUsize,
    /// What counts them among clients here that wait, which they are not.
    shared: OnceLock<Arc<Shared>>,
}

#[derive(Default)]
struct Waiting {
    waiters: BTreeMap<Tag, Waiter>,
    /// When whose time is up, in Unix milliseconds.
    deadlines: BTreeSet<(i64, Tag)>,
    polling: BTreeSet<Tag>,
}

impl Waiters {
    /// They are those of this server.
    pub fn belong_to(&self, shared: Arc<Shared>) {
        let _ = self.shared.set(shared);
    }

    /// What this server's threads share.
    pub fn commands(&self) -> Option<&Arc<Shared>> {
        self.shared.get()
    }

    fn count_blocked(&self, delta: i64) {
        self.shared.get().into_iter().for_each(|shared| shared.count_blocked(delta));
    }

    fn add(&self, tag: Tag, waiter: Waiter) {
        let mut waiting = self.by_tag.lock();
        waiting.deadlines.extend(waiter.blocked.deadline().map(|at| (at, tag)));
        if waiter.blocked.polls() {
            waiting.polling.insert(tag);
        }
        waiting.waiters.insert(tag, waiter);
        self.count.store(waiting.waiters.len(), Relaxed);
        self.count_blocked(-1);
    }

    pub fn remove(&self, tag: Tag) -> Option<Waiter> {
        let mut waiting = self.by_tag.lock();
        let waiter = waiting.waiters.remove(&tag)?;
        if let Some(at) = waiter.blocked.deadline() {
            waiting.deadlines.remove(&(at, tag));
        }
        waiting.polling.remove(&tag);
        self.count.store(waiting.waiters.len(), Relaxed);
        self.count_blocked(1);
        Some(waiter)
    }

    fn find(&self, tag: Tag) -> Option<Waiter> {
        self.by_tag.lock().waiters.get(&tag).cloned()
    }

    /// Milliseconds until a command's time is up, if it ever is.
    pub fn left_ms(&self, tag: Tag, now_ms: i64) -> Option<u64> {
        let at = self.find(tag)?.blocked.deadline()?;
        Some(at.saturating_sub(now_ms).max(0) as u64)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Those of which this is so.
    fn those(&self, which: impl Fn(Tag, &Waiter) -> bool) -> Vec<(Tag, Waiter)> {
        let waiting = self.by_tag.lock();
        let all = waiting.waiters.iter().map(|(tag, waiter)| (*tag, waiter.clone()));
        all.filter(|(tag, waiter)| which(*tag, waiter)).collect()
    }

    fn due(&self, now_ms: i64) -> Option<Tag> {
        self.by_tag.lock().deadlines.first().filter(|(at, _)| *at <= now_ms).map(|(_, tag)| *tag)
    }

    fn next_deadline(&self) -> Option<i64> {
        self.by_tag.lock().deadlines.first().map(|(at, _)| *at)
    }

    fn polling(&self) -> Vec<Tag> {
        self.by_tag.lock().polling.iter().copied().collect()
    }
}

/// The client of a forwarded command, as the executor's host knows it.
pub(super) struct RemoteClient {
    pub tag: Tag,
    pub slots: Box<[Slot]>,
    /// Milliseconds that the command may still wait, if it has waited at another home.
    pub wait_ms: Option<u64>,
    /// In whose name it is executed.
    pub stand_in: Arc<Client>,
    pub membership: Arc<Membership>,
    pub own: Identity,
}

impl AbsentClient for RemoteClient {
    fn stand_in(&self) -> Arc<Client> {
        self.stand_in.clone()
    }

    fn wait_ms(&self) -> Option<u64> {
        self.wait_ms
    }

    fn wait(&self, blocked: &Arc<Blocked>) {
        let waiter = Waiter { slots: self.slots.clone(), blocked: blocked.clone() };
        self.membership.waiters.add(self.tag, waiter);
    }

    fn answer(&self, answer: Answer) -> bool {
        self.membership.waiters.remove(self.tag);
        let Answer { mut bytes, mut shared } = answer;
        super::machine::splice(&mut bytes, &mut shared);
        let RemoteClient { tag, slots, .. } = self;
        if tag.origin != self.own {
            note_served(Served { tag: *tag, slots: slots.clone(), reply: bytes });
            return true;
        }
        // It was forwarded when its home was another member, and is here now.
        self.membership.ended.lock().push((*tag, bytes));
        self.membership.waker.wake();
        false
    }
}

impl Agent {
    /// What there is to be done for commands that wait here, in each turn.
    pub(super) fn attend_waiters(&mut self) {
        for (tag, reply) in std::mem::take(&mut *self.membership.ended.lock()) {
            self.node.end_of_wait(tag, &[tag.slot], Some(reply));
        }
        if self.membership.waiters.len() == 0 {
            return;
        }
        let now_ms = self.machine.exec.ks.now_ms();
        while let Some(tag) = self.membership.waiters.due(now_ms) {
            let Some(waiter) = self.membership.waiters.find(tag) else { break };
            let reply = self.machine.end_wait_here(tag, WaitEnd::Timeout);
            if let Some(reply) = reply {
                self.node.end_of_wait(tag, &waiter.slots, Some(reply));
            }
        }
        if self.polled.is_none_or(|at| at.elapsed() >= POLL_PAUSE) {
            self.polled = Some(Instant::now());
            let polling = self.membership.waiters.polling();
            let polling = polling.into_iter().filter_map(|tag| self.membership.waiters.find(tag));
            for waiter in polling.collect::<Vec<_>>() {
                let machine = &mut self.machine;
                machine.exec.begin();
                machine.exec.try_again(&waiter.blocked, &mut machine.host);
                machine.exec.end();
                machine.note_need();
            }
        }
    }

    /// For how long at most the thread may rest, so that waits end in time.
    pub(super) fn rest_of_waits(&self, rest: Duration) -> Duration {
        if self.membership.waiters.len() == 0 {
            return rest;
        }
        let now_ms = self.machine.exec.ks.now_ms();
        let next = self.membership.waiters.next_deadline();
        let left = next.map_or(rest, |at| Duration::from_millis((at - now_ms).max(1) as u64));
        match self.membership.waiters.polling().is_empty() {
            true => rest.min(left),
            false => rest.min(left).min(POLL_PAUSE),
        }
    }

    /// Takes waiters out of the queues of their keys, which another home may serve from now on;
    /// the thread may hold everything. Those that were still waiting.
    pub(super) fn dismiss_waiters(
        &mut self,
        which: impl Fn(Tag, &Waiter) -> bool,
    ) -> Vec<(Tag, Waiter)> {
        let those = self.membership.waiters.those(which);
        let exec = &mut self.machine.exec;
        let waiters = &self.membership.waiters;
        let dismissed = those.into_iter().filter(|(tag, waiter)| {
            exec.give_up(&waiter.blocked) && waiters.remove(*tag).is_some()
        });
        dismissed.collect()
    }

    /// The link to a member has ended, perhaps with it: nothing more is taken for its clients. They
    /// come back once it has heard of that.
    pub(super) fn part_from_waiters_of(&mut self, origin: Identity) {
        if self.membership.waiters.len() == 0 {
            return;
        }
        self.machine.exec.begin();
        let dismissed = self.dismiss_waiters(|tag, _| tag.origin == origin);
        self.machine.exec.end();
        self.send_back(dismissed);
    }

    /// Tells origins that their commands were not executed, and are to be forwarded again.
    pub(super) fn send_back(&mut self, dismissed: Vec<(Tag, Waiter)>) {
        for (tag, waiter) in dismissed {
            self.node.end_of_wait(tag, &waiter.slots, None);
        }
    }
}

impl super::machine::Machine {
    /// Ends a wait here; the reply, unless the command has been executed.
    pub(super) fn end_wait_here(&mut self, tag: Tag, end: WaitEnd) -> Option<Vec<u8>> {
        let waiter = self.membership.waiters.find(tag)?;
        self.exec.begin();
        let is_over = !self.exec.give_up(&waiter.blocked);
        self.exec.end();
        if is_over {
            return None;
        }
        self.membership.waiters.remove(tag);
        let answer = match end {
            WaitEnd::Timeout => self.exec.late_reply(&waiter.blocked, End::Timeout),
            WaitEnd::Error => self.exec.late_reply(&waiter.blocked, End::Error),
            // No client would read it.
            WaitEnd::Gone => Answer::default(),
        };
        Some(answer.bytes)
    }
}
