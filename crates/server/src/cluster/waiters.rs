//! Commands of other members' clients that are blocked here, in one queue with this member's own
//! clients. The primary alone ends such a wait (`petrel_cluster`, `node/wait.rs`); a worker that
//! changes the key executes the command, and its reply goes into the lanes after its changes.

mod remote;

pub(super) use remote::{RemoteClient, splice};

use super::agent::Agent;
use super::machine::Machine;
use super::state::waiters::Waiter;
use petrel_cluster::Identity;
use petrel_cluster::wire::{Tag, WaitEnd};
use petrel_commands::{Answer, WaitEnd as End};
use std::time::{Duration, Instant};

/// Between two tries of commands that time alone may serve.
const POLL_PAUSE: Duration = Duration::from_millis(100);

impl Agent {
    /// Handles commands that are blocked here, in each turn.
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

    /// Removes waiters from the queues of their keys, which another primary may serve from now on.
    /// The thread may have locked the whole keyspace. Returns the ones that were still waiting.
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

    /// Ends waits for clients of a member with a broken link, since the member may have failed:
    /// nothing more is taken for them. If it has not, it sends them again once it notices.
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

impl Machine {
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
