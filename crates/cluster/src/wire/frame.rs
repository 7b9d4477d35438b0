//! Frames: what a link carries, one after another.

use super::{LANES, VERSION};
use crate::slot_map::Node;
use crate::view::Identity;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put};

/// Bytes before a frame's body.
pub const HEADER_LEN: usize = 8;

mod kind {
    pub const HELLO: u8 = 1;
    pub const RESUME: u8 = 2;
    pub const BATCHES: u8 = 3;
    pub const FETCH: u8 = 4;
    pub const POSITIONS: u8 = 5;
    pub const COPY: u8 = 6;
    pub const COPY_END: u8 = 7;
    pub const CUT_OFF: u8 = 8;
    pub const FETCH_SLOTS: u8 = 9;
    pub const SLOTS_FOLLOW: u8 = 10;
}

/// In a frame of batches: the sender waits for what the receiver has applied, which is not to be
/// kept back until there is something else to be sent.
pub const ACKNOWLEDGE_AT_ONCE: u8 = 1;

/// The first frame of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// Who sends.
    pub identity: Identity,
}

/// A batch of one lane: what has changed since the last one of the link, and records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Batch<'a> {
    /// The position behind which it begins, in the first batch of a link; else it goes on behind
    /// the one before.
    pub from: Option<u64>,
    /// How many positions it has.
    pub count: u64,
    /// How many more positions of the receiver's lane the sender has applied than the batches
    /// before it on this link have said, if that is news.
    pub applied: Option<u64>,
    /// How many positions before the batch some member has not applied, if what all have is news.
    pub unstable: Option<u64>,
    /// The records, as [`super::take_with_gap`] reads them.
    pub records: &'a [u8],
}

/// What follows the head of a batch, whose lowest four bits are the lane.
mod has {
    pub const FROM: u8 = 0x10;
    pub const APPLIED: u8 = 0x20;
    pub const UNSTABLE: u8 = 0x40;
    /// The number of positions and the records; there are neither without it.
    pub const RECORDS: u8 = 0x80;
}

/// Whether the records of a batch are one record, with its length before it.
#[cfg(test)]
fn is_one(records: &[u8]) -> bool {
    let mut bytes = Bytes(records);
    bytes.bytes().is_ok() && bytes.0.is_empty()
}

/// What stands before the records of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchHead {
    /// As [`Batch::from`].
    pub from: Option<u64>,
    /// As [`Batch::count`].
    pub count: u64,
    /// As [`Batch::applied`].
    pub applied: Option<u64>,
    /// As [`Batch::unstable`].
    pub unstable: Option<u64>,
    /// Bytes of all records with their lengths.
    pub len: usize,
    /// They are one record, at the next position.
    pub is_one: bool,
}

/// Appends a batch to [`Frame::Batches`] but for its records, which follow.
pub(crate) fn put_batch_head(out: &mut Vec<u8>, lane: u8, head: &BatchHead) {
    let numbers =
        [(has::FROM, head.from), (has::APPLIED, head.applied), (has::UNSTABLE, head.unstable)];
    let present = numbers.iter().filter(|(_, number)| number.is_some());
    let first = if head.count == 0 { lane } else { lane | has::RECORDS };
    out.push(present.fold(first, |first, (flag, _)| first | flag));
    numbers.into_iter().filter_map(|(_, number)| number).for_each(|number| put(out, number));
    if head.is_one {
        put(out, 0);
    } else if head.count != 0 {
        put(out, head.count);
        put(out, head.len as u64);
    }
}

/// Appends a batch to [`Frame::Batches`].
#[cfg(test)]
pub fn put_batch(out: &mut Vec<u8>, lane: u8, batch: &Batch<'_>) {
    let Batch { from, count, applied, unstable, records } = *batch;
    let is_one = count == 1 && is_one(records);
    let head = BatchHead { from, count, applied, unstable, len: records.len(), is_one };
    put_batch_head(out, lane, &head);
    if count != 0 {
        out.extend_from_slice(records);
    }
}

/// Takes the next batch of [`Frame::Batches`], and its lane.
///
/// # Errors
/// If the bytes are none.
pub fn take_batch<'a>(batches: &mut &'a [u8]) -> Result<(u8, Batch<'a>), Malformed> {
    let mut bytes = Bytes(batches);
    let head = bytes.byte()?;
    let mut number = |flag: u8| {
        let is_there = head & flag != 0;
        is_there.then(|| bytes.number()).transpose()
    };
    let (from, applied) = (number(has::FROM)?, number(has::APPLIED)?);
    let unstable = number(has::UNSTABLE)?;
    let (mut count, mut records): (u64, &[u8]) = (0, &[]);
    if head & has::RECORDS != 0 {
        count = bytes.number()?;
        if count == 0 {
            // One record at the next position: its own length says where it ends.
            let all = bytes.0;
            bytes.bytes()?;
            (count, records) = (1, &all[..all.len() - bytes.0.len()]);
        } else {
            records = bytes.bytes()?;
        }
    }
    *batches = bytes.0;
    Ok((head & 0x0f, Batch { from, count, applied, unstable, records }))
}

/// A frame's body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Frame<'a> {
    /// The link begins.
    Hello(Hello),
    /// The lane is to go on behind this position, up to which everything has arrived.
    Resume {
        /// The position in the receiver's lane.
        received: u64,
    },
    /// Records of lanes, as [`take_batch`] reads them. In the place of the lane stands
    /// [`ACKNOWLEDGE_AT_ONCE`] or 0.
    Batches(&'a [u8]),
    /// The sender has no data, and asks for a copy of the receiver's.
    Fetch,
    /// Where the copy that follows stands, as [`super::Positions`] reads it.
    Positions(&'a [u8]),
    /// A part of the copy.
    Copy {
        /// Its bytes.
        part: &'a [u8],
        /// Whether it is the last one.
        is_last: bool,
    },
    /// The sender is to become a home of slots, and asks their primary for their data.
    FetchSlots {
        /// Which of its questions.
        number: u64,
        /// The slots, as `wire::positions::read_slots` reads them.
        slots: &'a [u8],
    },
    /// The data that were asked for follow.
    SlotsFollow {
        /// By which question.
        number: u64,
        /// The last forwarded commands of the slots, as `wire::positions::read_executed` reads
        /// them.
        executed: &'a [u8],
    },
    /// The receiver was too slow: it gets nothing more, and has to begin another life.
    CutOff,
}

/// Leaves room for what stands before a frame, whose body follows; where it begins.
pub(crate) fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    start
}

/// The batches of a frame were appended since it began.
pub(crate) fn end_batches(out: &mut [u8], start: usize, urgency: u8, epoch: u64) {
    end_frame(out, start, (kind::BATCHES, urgency), epoch);
}

fn end_frame(out: &mut [u8], start: usize, (kind, lane): (u8, u8), epoch: u64) {
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    out[start + 4] = kind;
    out[start + 5] = lane;
    out[start + 6..start + 8].copy_from_slice(&(epoch as u16).to_le_bytes());
}

/// Appends a frame, of a lane where it is of one; `epoch` is that of the sender's view.
pub fn put_frame(out: &mut Vec<u8>, lane: u8, epoch: u64, frame: &Frame<'_>) {
    let start = begin_frame(out);
    let kind = match *frame {
        Frame::Hello(Hello { identity }) => {
            put(out, VERSION);
            put(out, identity.node.0.into());
            put(out, identity.incarnation.into());
            kind::HELLO
        }
        Frame::Resume { received } => {
            put(out, received);
            kind::RESUME
        }
        Frame::Batches(batches) => {
            out.extend_from_slice(batches);
            kind::BATCHES
        }
        Frame::Fetch => kind::FETCH,
        Frame::CutOff => kind::CUT_OFF,
        Frame::FetchSlots { number, slots } => {
            put(out, number);
            out.extend_from_slice(slots);
            kind::FETCH_SLOTS
        }
        Frame::SlotsFollow { number, executed } => {
            put(out, number);
            out.extend_from_slice(executed);
            kind::SLOTS_FOLLOW
        }
        Frame::Positions(positions) => {
            out.extend_from_slice(positions);
            kind::POSITIONS
        }
        Frame::Copy { part, is_last } => {
            out.extend_from_slice(part);
            if is_last { kind::COPY_END } else { kind::COPY }
        }
    };
    end_frame(out, start, (kind, lane), epoch);
}

/// Room that is kept for the frames that come next.
const ROOM_MAX: usize = 1 << 20;

/// Puts frames together from the bytes of a link.
#[derive(Debug)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that were read.
    read: usize,
    len_max: usize,
}

impl FrameReader {
    /// A reader of frames of at most so many bytes.
    pub fn new(len_max: usize) -> Self {
        FrameReader { bytes: Vec::new(), read: 0, len_max }
    }

    /// Takes bytes as they arrive. What was read is forgotten.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(ROOM_MAX);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame with its lane and epoch, once all of it is there; it stays the next until
    /// [`FrameReader::consume`] is given its length, which comes first.
    ///
    /// # Errors
    /// If the bytes are no frame: the link is to be closed.
    pub fn next(&self) -> Result<Option<(usize, u8, u16, Frame<'_>)>, Malformed> {
        let bytes = &self.bytes[self.read..];
        let Some((len, rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let len = u32::from_le_bytes(*len) as usize;
        if len < HEADER_LEN - 4 || len > self.len_max {
            return Err(Malformed);
        }
        let Some(frame) = rest.get(..len) else { return Ok(None) };
        let (kind, lane) = (frame[0], frame[1]);
        let epoch = u16::from_le_bytes([frame[2], frame[3]]);
        if usize::from(lane) >= LANES {
            return Err(Malformed);
        }
        Ok(Some((4 + len, lane, epoch, take_body(kind, &frame[4..])?)))
    }

    /// Goes on behind a frame of so many bytes.
    pub fn consume(&mut self, len: usize) {
        self.read += len;
    }
}

fn take_body(kind: u8, body: &[u8]) -> Result<Frame<'_>, Malformed> {
    let mut bytes = Bytes(body);
    let frame = match kind {
        kind::HELLO => {
            if bytes.number()? != VERSION {
                return Err(Malformed);
            }
            let node = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
            let incarnation = u32::try_from(bytes.number()?).map_err(|_| Malformed)?;
            Frame::Hello(Hello { identity: Identity { node: Node(node), incarnation } })
        }
        kind::RESUME => Frame::Resume { received: bytes.number()? },
        kind::BATCHES => Frame::Batches(std::mem::take(&mut bytes.0)),
        kind::FETCH => Frame::Fetch,
        kind::CUT_OFF => Frame::CutOff,
        kind::FETCH_SLOTS => {
            let number = bytes.number()?;
            Frame::FetchSlots { number, slots: std::mem::take(&mut bytes.0) }
        }
        kind::SLOTS_FOLLOW => {
            let number = bytes.number()?;
            Frame::SlotsFollow { number, executed: std::mem::take(&mut bytes.0) }
        }
        kind::POSITIONS => Frame::Positions(std::mem::take(&mut bytes.0)),
        kind::COPY | kind::COPY_END => {
            let part = std::mem::take(&mut bytes.0);
            Frame::Copy { part, is_last: kind == kind::COPY_END }
        }
        _ => return Err(Malformed),
    };
    if bytes.0.is_empty() { Ok(frame) } else { Err(Malformed) }
}
