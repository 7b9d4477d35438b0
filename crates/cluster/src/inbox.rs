//! Received lane of another node: queued, applied, and kept while others may lack it.
//!
//! ```text
//! position   ... stable ... applied ... received
//!                [  tail  ) [    queue  )
//! ```
//!
//! The queue waits for other lanes, or for a former primary to be reconciled. The survivors of a
//! dead node exchange the tails of its lanes.

use crate::mutation::{Mutation, is_broken};
use crate::wire::positions::{LanePosition, Placed};
use crate::wire::{
    Batch, Record, check, is_effects, is_elided, is_kept, is_of_dead, is_ordered,
    may_hold_decision, put_record, take_with_gap,
};
use petrel_persistence::log::Malformed;
use std::collections::VecDeque;
use std::sync::Arc;

/// Received lane of another node.
#[derive(Default)]
pub(crate) struct Inbox {
    received: u64,
    queue: VecDeque<Placed>,
    tail: VecDeque<Placed>,
    stable: u64,
    /// Epoch of the last applied `END`.
    pub end_epoch: u64,
    /// Bytes in the queue.
    queued_bytes: usize,
    /// Nothing was received yet, and the first batch may begin at any position: after the records
    /// that the node appended before this one was a member.
    begins_anywhere: bool,
}

fn bytes_of(placed: &Placed) -> usize {
    placed.1.len() + size_of::<Placed>()
}

impl Inbox {
    /// Inbox for a node that was a member before this one.
    pub fn beginning_anywhere() -> Self {
        Inbox { begins_anywhere: true, ..Inbox::default() }
    }

    /// Everything up to this position has arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Everything up to this position was applied.
    pub fn applied(&self) -> u64 {
        self.queue.front().map_or(self.received, |(seq, _)| seq - 1)
    }

    /// Position of the next acknowledgement. While a copy is loaded (`waits`), received records
    /// count as applied: they are kept here.
    pub fn acknowledged(&self, waits: bool) -> u64 {
        let counts_all = waits || is_broken(Mutation::AcknowledgeEarly);
        if counts_all { self.received } else { self.applied() }
    }

    /// Starts the lane after the position that this node's data contain.
    pub fn begin_at(&mut self, position: LanePosition) {
        let LanePosition { applied: received, end_epoch, stable, tail } = position;
        *self = Inbox { received, stable, end_epoch, tail: tail.into(), ..Inbox::default() };
    }

    /// Position of this node in the lane, as sent to a joining member.
    pub fn position(&self) -> LanePosition {
        let (applied, tail) = (self.applied(), self.tail.iter().cloned().collect());
        LanePosition { applied, end_epoch: self.end_epoch, stable: self.stable, tail }
    }

    /// Bytes of the queued records.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Takes a batch. `restore` restores elided arguments; `each` is called with records about dead
    /// members, and with records that may hold decisions.
    ///
    /// # Errors
    /// If the records are malformed, or the batch does not continue the last one.
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
            if is_elided(&record) {
                record = restore(&Record::read(&record)?).ok_or(Malformed)?;
                if !is_ordered(&record) {
                    return Err(Malformed);
                }
            } else if is_kept(&record) {
                record = restore_kept(&record, &mut restore)?;
            }
            check(&record)?;
            taken.push((at, Arc::from(&record[..])));
        }
        let is_early = |record: &[u8]| is_of_dead(record) || may_hold_decision(record);
        for (_, record) in taken.iter().filter(|(_, record)| is_early(record)) {
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

    /// All members have applied everything up to this position.
    pub fn stable(&self) -> u64 {
        self.stable
    }

    /// The next record to apply.
    pub fn front(&self) -> Option<&Placed> {
        self.queue.front()
    }

    /// Removes the next record after it was applied.
    pub fn pop(&mut self) -> Option<Placed> {
        let placed = self.queue.pop_front()?;
        self.queued_bytes -= bytes_of(&placed);
        if is_ordered(&placed.1) && placed.0 > self.stable {
            self.tail.push_back(placed.clone());
        }
        Some(placed)
    }

    /// All known ordered records that others may lack.
    pub fn unstable(&self) -> impl Iterator<Item = &Placed> {
        let queued = self.queue.iter().filter(|(_, record)| is_ordered(record));
        self.tail.iter().chain(queued)
    }

    /// The queued records.
    pub fn queued(&self) -> impl Iterator<Item = &Placed> {
        self.queue.iter()
    }

    /// Replaces the queue of a dead node's lane by the records decided for it, up to `cut`.
    pub fn replace_queue(&mut self, queue: VecDeque<Placed>, cut: u64) {
        self.queued_bytes = queue.iter().map(bytes_of).sum();
        (self.queue, self.received) = (queue, cut);
    }
}

/// Restores the elided arguments of [`Record::Kept`].
fn restore_kept(
    kept: &[u8],
    mut restore: impl FnMut(&Record<'_>) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, Malformed> {
    let Record::Kept { back, record } = Record::read(kept)? else { return Err(Malformed) };
    let restored = match is_elided(record) {
        true => restore(&Record::read(record)?).ok_or(Malformed)?,
        false => record.to_vec(),
    };
    if !is_effects(&restored) {
        return Err(Malformed);
    }
    Record::read(&restored)?;
    let mut out = Vec::new();
    put_record(&mut out, &Record::Kept { back, record: &restored });
    Ok(out)
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
        // Wrong position, below the first, beyond the maximum.
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
