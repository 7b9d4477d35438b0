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
use crate::wire::{Batch, Record, is_of_dead, is_ordered, is_shortened, take_with_gap};
use petrel_persistence::log::Malformed;
use std::collections::VecDeque;
use std::sync::Arc;

/// One lane of another node.
#[derive(Default)]
pub(crate) struct Inbox {
    received: u64,
    queue: VecDeque<Placed>,
    tail: VecDeque<Placed>,
    stable: u64,
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

    /// What the next acknowledgement says. What `waits` for data counts as applied: it is kept here
    /// until it is.
    pub fn acknowledged(&self, waits: bool) -> u64 {
        let counts_all = waits || is_broken(Mutation::AcknowledgeEarly);
        if counts_all { self.received } else { self.applied() }
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

    /// Takes a batch; `restore` makes records whole that were shortened, `each` sees what records
    /// say of nodes that have died.
    ///
    /// # Errors
    /// If the bytes are no records, or the batch does not begin where the last one ended.
    pub fn take(
        &mut self,
        batch: &Batch<'_>,
        mut restore: impl FnMut(&Record<'_>) -> Option<Vec<u8>>,
        mut each: impl FnMut(&Record<'_>),
    ) -> Result<(), Malformed> {
        let from = match batch.from {
            Some(from) if from == self.received || self.begins_anywhere => from,
            None if !self.begins_anywhere => self.received,
            _ => return Err(Malformed),
        };
        let upto = from.checked_add(batch.count).ok_or(Malformed)?;
        let stable = match batch.unstable {
            Some(unstable) => from.checked_sub(unstable).ok_or(Malformed)?,
            None => 0,
        };
        let (mut records, mut record, mut at) = (batch.records, Vec::new(), from);
        let mut taken: Vec<Placed> = Vec::new();
        while !records.is_empty() {
            let gap = take_with_gap(&mut records, &mut record)?;
            at = at.checked_add(gap).filter(|&at| at <= upto).ok_or(Malformed)?;
            if is_shortened(&record) {
                record = restore(&Record::read(&record)?).ok_or(Malformed)?;
                if !is_ordered(&record) {
                    return Err(Malformed);
                }
            }
            Record::read(&record)?;
            taken.push((at, Arc::from(&record[..])));
        }
        for (_, record) in taken.iter().filter(|(_, record)| is_of_dead(record)) {
            each(&Record::read(record)?);
        }
        self.begins_anywhere = false;
        self.queued_bytes += taken.iter().map(bytes_of).sum::<usize>();
        self.queue.extend(taken);
        self.received = upto;
        self.stable = self.stable.max(stable);
        while self.tail.front().is_some_and(|(seq, _)| *seq <= self.stable) {
            self.tail.pop_front();
        }
        Ok(())
    }

    /// The record that is to be applied next.
    pub fn front(&self) -> Option<&Placed> {
        self.queue.front()
    }

    /// The record that is next was applied.
    pub fn pop(&mut self) -> Option<Placed> {
        let placed = self.queue.pop_front()?;
        self.queued_bytes -= bytes_of(&placed);
        if is_ordered(&placed.1) && placed.0 > self.stable {
            self.tail.push_back(placed.clone());
        }
        Some(placed)
    }

    /// All that is known of the order of changes that others may lack.
    pub fn unstable(&self) -> impl Iterator<Item = &Placed> {
        let queued = self.queue.iter().filter(|(_, record)| is_ordered(record));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{put_record, put_with_gap};

    #[test]
    fn batches_go_on_where_the_last_one_ended() {
        let (mut record, mut records) = (Vec::new(), Vec::new());
        put_record(&mut record, &Record::End { epoch: 7 });
        put_with_gap(&mut records, 2, &record);
        let batch =
            |from, unstable| Batch { from, count: 3, applied: None, unstable, records: &records };
        let take = |inbox: &mut Inbox, from, unstable| {
            inbox.take(&batch(from, unstable), |_| None, |_| {}).map(|()| inbox.received())
        };
        let mut inbox = Inbox::default();
        assert_eq!(take(&mut inbox, Some(0), Some(0)), Ok(3));
        assert_eq!(take(&mut inbox, None, None), Ok(6));
        assert_eq!(inbox.front().map(|(seq, _)| *seq), Some(2));
        // Elsewhere, before the first position, and beyond the last.
        for (from, unstable) in [(Some(5), None), (None, Some(7)), (Some(u64::MAX - 1), None)] {
            assert_eq!(take(&mut inbox, from, unstable), Err(Malformed));
        }
        let mut later = Inbox::beginning_anywhere();
        assert_eq!(take(&mut later, None, None), Err(Malformed));
        assert_eq!(take(&mut later, Some(u64::MAX - 1), None), Err(Malformed));
        assert_eq!(take(&mut later, Some(100), Some(50)), Ok(103));
        assert_eq!(take(&mut later, None, Some(103)), Ok(106));
    }
}
