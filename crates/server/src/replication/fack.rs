//! Part of the primary's stream that is on this server's disk: the `FACK` that `WAITAOF` counts.

use std::collections::VecDeque;

/// Places of the stream that wait for the disk at once; the latest ones are taken together then.
const WAITING_MAX: usize = 64;

/// Offsets of the stream, and the log's epochs that contain the commands up to them.
#[derive(Debug, Default)]
pub(super) struct FackOffsets {
    /// The latest epoch that something of the stream was committed to.
    latest: u64,
    waiting: VecDeque<(u64, i64)>,
    /// The stream is on the disk up to here.
    offset: i64,
}

impl FackOffsets {
    /// A stream begins behind this offset: all before it is in epochs up to this one.
    pub fn begin(&mut self, epoch: u64, offset: i64) {
        *self = FackOffsets { latest: epoch, waiting: [(epoch, offset)].into(), offset: 0 };
    }

    /// The stream has been executed up to an offset, and committed to epochs up to this one; 0 if
    /// nothing was committed since the last call.
    pub fn executed(&mut self, epoch: u64, offset: i64) {
        self.latest = self.latest.max(epoch);
        let is_full = self.waiting.len() >= WAITING_MAX;
        match self.waiting.back_mut() {
            Some(last) if is_full || last.0 == self.latest => *last = (self.latest, offset),
            _ => self.waiting.push_back((self.latest, offset)),
        }
    }

    /// The offset up to which everything is on the disk, now that all epochs up to this one are.
    pub fn up_to(&mut self, durable: u64) -> i64 {
        while let Some(&(_, offset)) = self.waiting.front().filter(|(epoch, _)| *epoch <= durable) {
            self.offset = offset;
            self.waiting.pop_front();
        }
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_synced_with_the_epoch_of_what_is_before_it() {
        let mut synced = FackOffsets::default();
        synced.begin(4, 100);
        assert_eq!(synced.up_to(3), 0);
        synced.executed(0, 110);
        synced.executed(6, 150);
        synced.executed(0, 160);
        assert_eq!((synced.up_to(4), synced.up_to(5), synced.up_to(6)), (110, 110, 160));
        // What commits nothing is where the log already is.
        synced.executed(0, 190);
        assert_eq!(synced.up_to(6), 190);
    }

    #[test]
    fn a_disk_that_stands_still_costs_no_memory() {
        let mut synced = FackOffsets::default();
        (1..10_000).for_each(|n| synced.executed(n, n as i64));
        assert!(synced.waiting.len() <= WAITING_MAX);
        assert_eq!(synced.up_to(9_998), WAITING_MAX as i64 - 1);
        assert_eq!(synced.up_to(9_999), 9_999);
    }
}
