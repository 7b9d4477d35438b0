//! `WAITAOF`: changes on the disks of members. The primary of the changes requests it in its lanes,
//! after the changes (`petrel_cluster`, `node/durable.rs`); a member without a log never replies.
//!
//! The log that counts as the local one is that of the member which the client speaks to, where
//! that holds the slot, else the primary's: whatever is counted is another copy on another disk.

use super::agent::Agent;
use super::jobs::Work;
use super::state::known_logs::{Known, count};
use petrel_cluster::{Identity, Node};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Interval between two checks whether the log has written an awaited epoch.
const LOG_PAUSE: Duration = Duration::from_millis(2);

/// Questions of one member that are kept apart: the last of them stands for those behind it, too.
const PENDING_WAITS_MAX: usize = 256;

/// Condition of a `WAITAOF` at a primary.
pub(super) struct Logs {
    is_local_wanted: bool,
    others_wanted: i64,
    /// The member that its client speaks to.
    asked: Node,
    /// The epoch of this member's log with which all is there.
    epoch: u64,
    /// The question to the other members, and the epoch of the view in which they were asked.
    question: Option<(u64, u64)>,
}

impl Logs {
    pub fn new((is_local_wanted, others_wanted): (bool, i64), asked: Node, epoch: u64) -> Self {
        Logs { is_local_wanted, others_wanted, asked, epoch, question: None }
    }

    /// Whether these numbers of logs are enough.
    pub fn is_enough(&self, (local, others): (i64, i64)) -> bool {
        (!self.is_local_wanted || local > 0) && others >= self.others_wanted
    }
}

/// Questions of other members, each with the epoch of the log here that answers it, in their order.
#[derive(Default)]
pub(super) struct PendingWaits(BTreeMap<Identity, VecDeque<(u64, u64)>>);

impl PendingWaits {
    fn add(&mut self, from: Identity, number: u64, epoch: u64) {
        let pending_waits = self.0.entry(from).or_default();
        // The answer to a later one is one to those before it.
        if pending_waits.len() >= PENDING_WAITS_MAX {
            pending_waits.pop_back();
        }
        pending_waits.push_back((number, epoch));
    }

    /// The last question of each member that is answered by this epoch.
    fn take(&mut self, durable: u64) -> Vec<(Identity, u64)> {
        let mut answered = Vec::new();
        self.0.retain(|from, pending_waits| {
            let mut last = None;
            while let Some((number, _)) =
                pending_waits.front().filter(|(_, epoch)| *epoch <= durable)
            {
                last = Some(*number);
                pending_waits.pop_front();
            }
            answered.extend(last.map(|number| (*from, number)));
            !pending_waits.is_empty()
        });
        answered
    }

    /// The last epoch that is waited for.
    fn last_epoch(&self) -> Option<u64> {
        self.0
            .values()
            .filter_map(|pending_waits| pending_waits.back())
            .map(|(_, epoch)| *epoch)
            .max()
    }
}

impl Agent {
    /// Updates the known state of the other members' logs, and sends a request if a transaction
    /// wants one.
    pub(super) fn attend_known_logs(&mut self) {
        let membership = self.membership.clone();
        let mut known = membership.known_logs.0.lock();
        let epoch = self.node.view().epoch;
        if known.is_wanted {
            let positions = self.node.lanes().positions();
            let number = self.node.ask_durable();
            *known = Known { number, epoch, positions, ..Known::default() };
            if let Some(log) = self.machine.host.server.durability.log() {
                log.want(self.machine.exec.ks.keyspace().epochs().now());
            }
        } else if known.epoch != epoch {
            known.number = 0;
        } else if known.number > 0 {
            known.durable = self.node.durable_at(known.number);
        }
    }

    /// Sends other members a request for all `WAITAOF` of this turn together, and again in another
    /// view, which may have other members.
    pub(super) fn ask_logs(&mut self) {
        let view = self.node.view().epoch;
        let is_new = |logs: &Logs| logs.question.is_none_or(|(_, epoch)| epoch != view);
        let all = |work: &Work| matches!(work, Work::Logs { logs, .. } if is_new(logs));
        if !self.machine.jobs.iter().any(|job| all(&job.work)) {
            return;
        }
        let number = self.node.ask_durable();
        let mut last = 0;
        for job in &mut self.machine.jobs {
            if let Work::Logs { logs, .. } = &mut job.work
                && is_new(logs)
            {
                logs.question = Some((number, view));
                last = last.max(logs.epoch);
            }
        }
        if let Some(log) = self.machine.host.server.durability.log() {
            log.want(last);
        }
    }

    /// Looks how much of the local log is on the disk, which this turn goes by.
    pub(super) fn look_at_log(&mut self) {
        let log = self.machine.host.server.durability.log();
        self.durable = log.map_or(0, |log| log.durable());
    }

    /// Number of logs that fulfil the condition: the local one, and others.
    pub(super) fn count_logs(&self, logs: &Logs) -> (i64, i64) {
        let me = self.identity().node;
        let number = logs.question.map_or(u64::MAX, |(number, _)| number);
        let mut durable = self.node.durable_at(number);
        if self.machine.host.server.durability.log().is_some() && self.durable >= logs.epoch {
            durable = durable.with(me);
        }
        count(&self.node.lanes().slot_owners(), me, logs.asked, durable)
    }

    /// Replies to requests of other members that are fulfilled.
    pub(super) fn answer_logs(&mut self) {
        let asked = self.node.take_durable_asked();
        let log = self.machine.host.server.durability.log();
        if !asked.is_empty() {
            let epoch = self.machine.exec.ks.keyspace().epochs().now();
            log.iter().for_each(|log| log.want(epoch));
            asked
                .into_iter()
                .for_each(|(from, number)| self.machine.pending_waits.add(from, number, epoch));
        }
        if log.is_none() {
            return;
        }
        for (to, number) in self.machine.pending_waits.take(self.durable) {
            self.node.answer_durable(to, number);
        }
    }

    /// Maximum time for which the thread may wait, so that it notices progress of the log.
    pub(super) fn rest_of_logs(&self, rest: Duration) -> Duration {
        let waited = self.machine.jobs.iter().filter_map(|job| match &job.work {
            Work::Logs { logs, .. } => Some(logs.epoch),
            _ => None,
        });
        let Some(last) = waited.chain(self.machine.pending_waits.last_epoch()).max() else {
            return rest;
        };
        let log = self.machine.host.server.durability.log();
        let durable = log.map_or(0, |log| log.durable());
        match self.durable < last {
            // This turn has not seen it yet.
            true if durable > self.durable => Duration::ZERO,
            true => rest.min(LOG_PAUSE),
            false => rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_question_stands_for_those_that_have_no_place() {
        let from = Identity { node: Node(1), incarnation: 1 };
        let mut pending_waits = PendingWaits::default();
        for number in 1..=PENDING_WAITS_MAX as u64 + 5 {
            pending_waits.add(from, number, number);
        }
        assert_eq!(pending_waits.0[&from].len(), PENDING_WAITS_MAX);
        assert_eq!((pending_waits.take(0), pending_waits.take(2)), (vec![], vec![(from, 2)]));
        assert_eq!(pending_waits.take(u64::MAX), [(from, PENDING_WAITS_MAX as u64 + 5)]);
        assert!(pending_waits.0.is_empty());
    }
}
