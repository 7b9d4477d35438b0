//! Positions of a copy: how much of each member's lanes it contains.
//!
//! ```text
//! epoch | members: count, each: node, incarnation, 16 x (applied, last END's epoch, stable, tail)
//!       | a tail: count, each: position, record
//!       | tenures: count, each: slots, epoch
//!       | executed: count, each: node, incarnation, slot, sequence number of the last command
//!       | unless empty, marks: likewise, by executor and slot the number of the last decision
//! ```
//!
//! Numbers have variable length.

use super::codecs::{put_identity, take_identity, take_list, take_slot};
use super::{LANES, Record};
use crate::slot::{SLOTS, Slot, SlotSet};
use crate::view::{Identity, NODES_MAX};
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put, put_bytes};
use std::sync::Arc;

/// Position of a record, and the record.
pub(crate) type Placed = (u64, Arc<[u8]>);

/// Position of a member in a lane.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct LanePosition {
    /// Everything up to this position was applied.
    pub applied: u64,
    /// Epoch of the last applied `END`.
    pub end_epoch: u64,
    /// Stable position, as far as known.
    pub stable: u64,
    /// Ordered records up to `applied` that others may lack.
    pub tail: Vec<Placed>,
}

/// Positions of a member in all lanes of a node.
pub(crate) type LanePositions = [LanePosition; LANES];

/// Positions of a copy.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Positions {
    /// Epoch of the source's view.
    pub epoch: u64,
    /// All members of that view except the receiver.
    pub members: Vec<(Identity, LanePositions)>,
    /// Run-length encoded tenures: number of adjacent slots, and the epoch of their primary's
    /// appointment.
    pub tenures: Vec<(u64, u64)>,
    /// The last forwarded commands that are known to have been executed.
    pub executed: Vec<Executed>,
    /// Parts of decisions that the data contain: the last of each executor and slot.
    pub marks: Vec<Executed>,
}

impl Positions {
    /// Encodes the positions.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.epoch);
        put(&mut out, self.members.len() as u64);
        for (identity, lanes) in &self.members {
            put_identity(&mut out, *identity);
            for lane in lanes {
                put(&mut out, lane.applied);
                put(&mut out, lane.end_epoch);
                put(&mut out, lane.stable);
                put(&mut out, lane.tail.len() as u64);
                for (seq, record) in &lane.tail {
                    put(&mut out, *seq);
                    put_bytes(&mut out, record);
                }
            }
        }
        put(&mut out, self.tenures.len() as u64);
        for (count, epoch) in &self.tenures {
            put(&mut out, *count);
            put(&mut out, *epoch);
        }
        put_executed(&mut out, &self.executed);
        put_marks(&mut out, &self.marks);
        out
    }

    /// Decodes what [`Positions::encode`] has written.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub fn read(bytes: &[u8]) -> Result<Positions, Malformed> {
        let mut bytes = Bytes(bytes);
        let epoch = bytes.number()?;
        let members = take_list(&mut bytes, NODES_MAX.into(), |bytes| {
            let identity = take_identity(bytes)?;
            let mut lanes = LanePositions::default();
            for lane in &mut lanes {
                let (applied, end_epoch) = (bytes.number()?, bytes.number()?);
                let stable = bytes.number()?;
                let mut last = stable;
                let tail = take_list(bytes, u64::MAX, |bytes| {
                    let (seq, record) = (bytes.number()?, bytes.bytes()?);
                    Record::read(record)?;
                    let is_behind = seq > std::mem::replace(&mut last, seq) && seq <= applied;
                    is_behind.then(|| (seq, Arc::from(record))).ok_or(Malformed)
                })?;
                *lane = LanePosition { applied, end_epoch, stable, tail };
            }
            Ok((identity, lanes))
        })?;
        let slots = u64::from(SLOTS);
        let tenures = take_list(&mut bytes, slots, |bytes| Ok((bytes.number()?, bytes.number()?)))?;
        let executed = take_executed(&mut bytes)?;
        let marks = take_marks(&mut bytes)?;
        let all = tenures.iter().try_fold(0u64, |sum, (count, _)| sum.checked_add(*count));
        let is_whole = bytes.0.is_empty() && all == Some(slots);
        let positions = Positions { epoch, members, tenures, executed, marks };
        is_whole.then_some(positions).ok_or(Malformed)
    }
}

/// Origin, slot and sequence number of the last command known to have been executed.
pub(crate) type Executed = (Identity, Slot, u64);

/// Appends last commands: count, each: node, incarnation, slot, sequence number.
pub(crate) fn put_executed(out: &mut Vec<u8>, executed: &[Executed]) {
    put(out, executed.len() as u64);
    for (identity, slot, oseq) in executed {
        put_identity(out, *identity);
        put(out, (*slot).into());
        put(out, *oseq);
    }
}

fn take_executed(bytes: &mut Bytes<'_>) -> Result<Vec<Executed>, Malformed> {
    take_list(bytes, u64::from(SLOTS) * u64::from(NODES_MAX), |bytes| {
        Ok((take_identity(bytes)?, take_slot(bytes)?, bytes.number()?))
    })
}

/// Appends marks, unless there are none: earlier versions know none.
pub(crate) fn put_marks(out: &mut Vec<u8>, marks: &[Executed]) {
    if !marks.is_empty() {
        put_executed(out, marks);
    }
}

fn take_marks(bytes: &mut Bytes<'_>) -> Result<Vec<Executed>, Malformed> {
    let marks = if bytes.0.is_empty() { return Ok(Vec::new()) } else { take_executed(bytes)? };
    if marks.is_empty() { Err(Malformed) } else { Ok(marks) }
}

/// Decodes what [`put_executed`] and [`put_marks`] have written.
///
/// # Errors
/// If the bytes are malformed.
pub(crate) fn read_executed(bytes: &[u8]) -> Result<[Vec<Executed>; 2], Malformed> {
    let mut bytes = Bytes(bytes);
    let (executed, marks) = (take_executed(&mut bytes)?, take_marks(&mut bytes)?);
    if bytes.0.is_empty() { Ok([executed, marks]) } else { Err(Malformed) }
}

/// Appends slots: number of ranges, each: first, last.
pub(crate) fn put_slots(out: &mut Vec<u8>, slots: &SlotSet) {
    let ranges = slots.ranges();
    put(out, ranges.len() as u64);
    for (first, last) in ranges {
        put(out, first.into());
        put(out, last.into());
    }
}

/// Decodes what [`put_slots`] has written.
///
/// # Errors
/// If the bytes are malformed.
pub(crate) fn read_slots(bytes: &[u8]) -> Result<SlotSet, Malformed> {
    let mut bytes = Bytes(bytes);
    let ranges = take_list(&mut bytes, SLOTS.into(), |bytes| {
        let (first, last) = (take_slot(bytes)?, take_slot(bytes)?);
        if first <= last { Ok(first..=last) } else { Err(Malformed) }
    })?;
    let is_ascending = ranges.windows(2).all(|two| two[0].end() < two[1].start());
    let is_whole = bytes.0.is_empty() && is_ascending;
    is_whole.then(|| ranges.into_iter().flatten().collect()).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot_map::Node;
    use crate::wire::put_record;

    #[test]
    fn slots_and_last_commands_are_read_as_they_were_written_and_nothing_else_is() {
        let identity = Identity { node: Node(3), incarnation: 7 };
        let executed = vec![(identity, 5, 9), (identity, SLOTS - 1, u64::MAX)];
        let slots: SlotSet = [0, 1, 5, SLOTS - 1].into_iter().collect();
        let (mut one, mut other) = (Vec::new(), Vec::new());
        put_executed(&mut one, &executed);
        assert_eq!(read_executed(&one), Ok([executed.clone(), Vec::new()]));
        let whole = one.len();
        put_marks(&mut one, &executed[1..]);
        put_slots(&mut other, &slots);
        let marks = executed[1..].to_vec();
        assert_eq!((read_executed(&one), read_slots(&other)), (Ok([executed, marks]), Ok(slots)));
        for len in (0..one.len()).filter(|len| *len != whole) {
            assert!(read_executed(&one[..len]).is_err(), "{len} of {} bytes", one.len());
        }
        for len in 0..other.len() {
            assert!(read_slots(&other[..len]).is_err(), "{len} of {} bytes", other.len());
        }
        // Backwards, overlapping, beyond the last.
        assert!(read_slots(&[1, 2, 1]).is_err() && read_slots(&[2, 1, 3, 3, 4]).is_err());
        assert!(read_slots(&[1, 0, 0x80, 0x80, 1]).is_err());
    }

    #[test]
    fn positions_are_read_as_they_were_written_and_nothing_else_is() {
        let identity = Identity { node: Node(3), incarnation: 7 };
        let mut record = Vec::new();
        put_record(&mut record, &Record::End { epoch: 3 });
        let lanes = std::array::from_fn(|lane| LanePosition {
            applied: lane as u64 * 1000,
            end_epoch: lane as u64,
            stable: lane as u64 * 900,
            tail: (1..lane as u64).map(|at| (lane as u64 * 900 + at, record[..].into())).collect(),
        });
        let positions = Positions {
            epoch: 12,
            members: vec![(identity, lanes)],
            tenures: vec![(16_000, 1), (384, 12)],
            executed: vec![(identity, 5, 9), (identity, SLOTS - 1, u64::MAX)],
            marks: Vec::new(),
        };
        let whole = positions.encode().len();
        let positions = Positions { marks: vec![(identity, 7, 3)], ..positions };
        let bytes = positions.encode();
        assert_eq!(Positions::read(&bytes), Ok(positions));
        for len in (0..bytes.len()).filter(|len| *len != whole) {
            assert!(Positions::read(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
        assert!(Positions::read(&[&bytes[..], &[0]].concat()).is_err());
        let few = Positions { tenures: vec![(1, 1)], ..Positions::default() };
        assert!(Positions::read(&few.encode()).is_err());
    }
}
