//! What has arrived of another node's lane: received, applied, and kept while others may lack it.
//!
//! ```text
//! position   ... stable ... applied ... received
//!                [  tail  ) [    queue  )
//! ```
//!
//! The queue waits for other lanes, or for slots whose primary has changed. The tail is what the
//! survivors of the node tell each other.

use crate::mutation::{Mutation, is_broken};
use crate::wire::positions::{LanePosition, Placed};
use crate::wire::{Batch, Record, take_with_gap};
use petrel_persistence::log::Malformed;
use std::collections::VecDeque;

/// One lane of another node.
#[derive(Default)]
pub(crate) struct Inbox {
    received: u64,
    queue: VecDeque<Placed>,
    tail: VecDeque<Placed>,
    stable: u64,
    /// What was told its node last.
    told: u64,
    /// The epoch of the last end that was applied.
    pub end_epoch: u64,
    /// Bytes of the queue.
    queued_bytes: usize,
    /// Nothing has come yet, and what comes first may begin anywhere: behind what its node had
    /// numbered before this one was a member.
    begins_anywhere: bool,
}

fn bytes_of(placed: &Placed) -> usize {
    placed.1.len() + size_of::<Placed>()
}

/// Whether a record belongs to the order of changes, and not to two nodes alone.
pub(crate) fn is_ordered(record: &Record<'_>) -> bool {
    matches!(record, Record::Effects { .. } | Record::Part { .. } | Record::End { .. })
}

impl Inbox {
    /// That of a node which was a member before this one.
    pub fn beginning_anywhere() -> Self {
        Inbox { begins_anywhere: true, ..Inbox::default() }
    }

    /// The position up to which everything has arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The position up to which everything was applied.
    pub fn applied(&self) -> u64 {
        self.queue.front().map_or(self.received, |(seq, _)| seq - 1)
    }

    /// What the next acknowledgement says, and whether that is news. What `waits` for data counts
    /// as applied: it is kept here until it is.
    pub fn news(&self, waits: bool) -> (u64, bool) {
        let counts_all = waits || is_broken(Mutation::AcknowledgeEarly);
        let applied = if counts_all { self.received } else { self.applied() };
        (applied, applied > self.told)
    }

    /// The lane begins behind the position up to which this node's data hold it.
    pub fn begin_at(&mut self, position: LanePosition) {
        let LanePosition { applied: received, end_epoch, stable, tail } = position;
        *self = Inbox { received, stable, end_epoch, tail: tail.into(), ..Inbox::default() };
    }

    /// How far this node is in the lane.
    pub fn position(&self) -> LanePosition {
        let (applied, tail) = (self.applied(), self.tail.iter().cloned().collect());
        LanePosition { applied, end_epoch: self.end_epoch, stable: self.stable, tail }
    }

    /// Bytes of the records that wait.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// The node was told.
    pub fn tell(&mut self, applied: u64) {
        self.told = applied;
    }

    /// Takes a batch; `each` sees the records, which are queued if it says so.
    ///
    /// # Errors
    /// If the bytes are no records, or the batch does not begin where the last one ended.
    pub fn take(
        &mut self,
        batch: &Batch<'_>,
        mut each: impl FnMut(u64, &Record<'_>),
    ) -> Result<(), Malformed> {
        if batch.from != self.received && !self.begins_anywhere {
            return Err(Malformed);
        }
        let (mut records, mut record, mut at) = (batch.records, Vec::new(), batch.from);
        let mut taken: Vec<Placed> = Vec::new();
        while !records.is_empty() {
            let gap = take_with_gap(&mut records, &mut record)?;
            at = at.checked_add(gap).filter(|&at| at <= batch.upto).ok_or(Malformed)?;
            Record::read(&record)?;
            taken.push((at, Box::from(&record[..])));
        }
        for (at, record) in &taken {
            each(*at, &Record::read(record)?);
        }
        self.begins_anywhere = false;
        self.queued_bytes += taken.iter().map(bytes_of).sum::<usize>();
        self.queue.extend(taken);
        self.received = batch.upto;
        self.stable = self.stable.max(batch.stable);
        while self.tail.front().is_some_and(|(seq, _)| *seq <= self.stable) {
            self.tail.pop_front();
        }
        Ok(())
    }

    /// The record that is to be applied next.
    pub fn front(&self) -> Option<(u64, &[u8])> {
        self.queue.front().map(|(seq, record)| (*seq, &record[..]))
    }

    /// The record that is next was applied.
    pub fn pop(&mut self) -> Option<Placed> {
        let placed = self.queue.pop_front()?;
        self.queued_bytes -= bytes_of(&placed);
        let is_ordered = Record::read(&placed.1).is_ok_and(|record| is_ordered(&record));
        if is_ordered && placed.0 > self.stable {
            self.tail.push_back(placed.clone());
        }
        Some(placed)
    }

    /// All that is known of the order of changes that others may lack.
    pub fn unstable(&self) -> impl Iterator<Item = &Placed> {
        let queued = self
            .queue
            .iter()
            .filter(|(_, record)| Record::read(record).is_ok_and(|record| is_ordered(&record)));
        self.tail.iter().chain(queued)
    }

    /// What waits.
    pub fn queued(&self) -> impl Iterator<Item = &Placed> {
        self.queue.iter()
    }

    /// The node is gone: from now on this is what remains to be applied, up to `cut`.
    pub fn replace_queue(&mut self, queue: VecDeque<Placed>, cut: u64) {
        self.queued_bytes = queue.iter().map(bytes_of).sum();
        (self.queue, self.received) = (queue, cut);
    }
}
