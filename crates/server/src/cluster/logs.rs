//! `WAITAOF`: changes on the disks of members. The primary of the changes requests it in its lanes,
//! after the changes (`petrel_cluster`, `node/durable.rs`); a member without a log never replies.
//!
//! The log that counts as the local one is that of the member which the client speaks to, where
//! that holds the slot, else the home's: whatever is counted is another copy on another disk.

use super::agent::Agent;
use super::jobs::Work;
use parking_lot::Mutex;
use petrel_cluster::wire::LANES;
use petrel_cluster::{Identity, Lanes, Node, NodeSet, SlotOwners};
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

/// Whether the local log has it, and how many others do: the least over the slots that `me` orders,
/// if they have homes of their own.
fn count(own: &SlotOwners, me: Node, asked: Node, durable: NodeSet) -> (i64, i64) {
    let of = |homes: NodeSet, local: Node| {
        let others = NodeSet(homes.0 & durable.0).without(local);
        (i64::from(durable.contains(local)), i64::from(others.0.count_ones()))
    };
    let counts = own.sets().map(|homes| of(homes, if homes.contains(asked) { asked } else { me }));
    let least =
        |(local, others): (i64, i64), more: (i64, i64)| (local.min(more.0), others.min(more.1));
    counts.reduce(least).unwrap_or_else(|| of(NodeSet(u64::MAX), asked))
}

/// Known state of the other members' logs, for transactions, which do not wait.
#[derive(Default)]
pub(super) struct KnownLogs(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The last question, in this life of the member; 0 if it says nothing any more.
    number: u64,
    /// The epoch of the view in which it was asked: another may have other members.
    epoch: u64,
    /// Positions of the lanes at the time of the request, which covers the changes before them.
    positions: [u64; LANES],
    /// Members that have answered it.
    durable: NodeSet,
    /// A newer request is wanted.
    is_wanted: bool,
}

impl KnownLogs {
    /// Number of other members that have the present changes on their disks, counted like
    /// `WAITAOF`. If that was not requested yet, the number is 0, and a request is scheduled.
    pub fn count(&self, me: Node, lanes: &Lanes, wake: impl FnOnce()) -> usize {
        let mut known = self.0.lock();
        let changed = lanes.changed_positions();
        let is_asked =
            known.number > 0 && changed.iter().zip(known.positions).all(|(at, to)| *at <= to);
        if !is_asked {
            if !std::mem::replace(&mut known.is_wanted, true) {
                wake();
            }
            return 0;
        }
        count(&lanes.slot_owners(), me, me, known.durable).1 as usize
    }

    /// A life of the member begins: its lanes are others.
    pub fn begin(&self) {
        *self.0.lock() = Known::default();
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
    use petrel_cluster::{SlotMap, View};

    fn set(nodes: &[u16]) -> NodeSet {
        nodes.iter().map(|&node| Node(node)).collect()
    }

    #[test]
    fn each_disk_counts_once() {
        let identity = |node| Identity { node: Node(node), incarnation: 1 };
        let slots = SlotMap::collect(|slot| match slot {
            0..8192 => &[Node(0), Node(1)],
            _ => &[Node(0), Node(2)],
        });
        let members = (0..4).map(identity).collect();
        let few = View { epoch: 1, members, slots, incoming: Some(SlotMap::collect(|_| &[])) };
        let few = SlotOwners::of(Node(0), &few);
        let all = SlotOwners::default();
        let (home, other, none) = (Node(0), Node(1), Node(3));
        for (durable, asked, of_few, of_all) in [
            (&[0, 1, 2, 3][..], home, (1, 1), (1, 3)),
            (&[0, 1, 2, 3], other, (1, 1), (1, 3)),
            (&[0, 1, 2, 3], none, (1, 1), (1, 3)),
            (&[0, 1], home, (1, 0), (1, 1)),
            (&[1, 2], home, (0, 1), (0, 2)),
            (&[1, 2], other, (0, 0), (1, 1)),
            (&[3], none, (0, 0), (1, 0)),
            (&[], none, (0, 0), (0, 0)),
        ] {
            assert_eq!(count(&few, home, asked, set(durable)), of_few, "{durable:?} {asked:?}");
            assert_eq!(count(&all, home, asked, set(durable)), of_all, "{durable:?} {asked:?}");
        }
    }

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
