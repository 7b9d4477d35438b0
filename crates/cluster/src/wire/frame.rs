//! Frames: the messages on a link.

use super::LANES;
use super::codecs::Greeting;
use crate::view::Identity;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put};
use petrel_persistence::record::{Flag, Number, Rest, Source, Whole};

/// Bytes before a frame's body.
pub const HEADER_LEN: usize = 8;

/// Flag of a frame of batches: acknowledge immediately, because the sender waits until the receiver
/// has applied its records.
pub const ACKNOWLEDGE_AT_ONCE: u8 = 1;

/// Flag in the same byte: the sender has reached its memory limit. Members that do not know it
/// acknowledge a little later.
pub const IS_FULL: u8 = 2;

/// Flag in the same byte: the sender knows [`Record::Interests`](super::Record::Interests), and the
/// records and fields that belong to it. Members that do not know the flag ignore it.
pub const KNOWS_INTERESTS: u8 = 4;

/// First frame of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// Identity of the sender.
    pub identity: Identity,
}

/// Batch of one lane: records, and the numbers that changed since the last batch on the link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Batch<'a> {
    /// Position after which it begins, in the first batch on a link; later ones continue the last
    /// batch.
    pub from: Option<u64>,
    /// Number of positions it covers.
    pub count: u64,
    /// Increase of the acknowledged position of the receiver's lane since the last batch, if any.
    pub applied: Option<u64>,
    /// Distance from the beginning of the batch back to the stable position, if that has changed.
    pub unstable: Option<u64>,
    /// The records, as [`super::take_with_gap`] reads them.
    pub records: &'a [u8],
}

/// Flags in the head of a batch; its low four bits are the lane.
mod has {
    pub const FROM: u8 = 0x10;
    pub const APPLIED: u8 = 0x20;
    pub const UNSTABLE: u8 = 0x40;
    /// Number of positions and records; without the flag there are none.
    pub const RECORDS: u8 = 0x80;
}

/// Whether the records of a batch are exactly one record with its length.
#[cfg(test)]
fn is_one(records: &[u8]) -> bool {
    let mut bytes = Bytes(records);
    bytes.bytes().is_ok() && bytes.0.is_empty()
}

/// Head of a batch.
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
    /// Bytes of all records including their lengths.
    pub len: usize,
    /// Whether there is one record, at the next position.
    pub is_one: bool,
}

/// Appends the head of a batch to [`Frame::Batches`]; its records follow.
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
/// If the bytes are malformed.
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
            // One record at the next position: its length delimits it.
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

/// Flag in the kind of a frame with a part of a copy: it is the last one.
const LAST: u8 = 1;

petrel_persistence::records! {
    /// Body of a frame.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    pub enum Frame<'a> {
        /// Opens the link.
        1 Hello(hello: Hello as Greeting);
        /// Requests a lane from the position after this one; everything before has arrived.
        2 Resume {
            /// The position in the receiver's lane.
            received: u64 as Number
        };
        /// Batches of lanes, as [`take_batch`] reads them. The byte for the lane is
        /// made of [`ACKNOWLEDGE_AT_ONCE`], [`IS_FULL`] and [`KNOWS_INTERESTS`].
        3 Batches(batches: &'a [u8] as Whole);
        /// Requests a copy of the receiver's data, because the sender has none.
        4 Fetch;
        /// Positions of the copy that follows, as [`super::positions::Positions`] reads it.
        5 Positions(positions: &'a [u8] as Whole);
        /// Part of a copy.
        6 Copy {
            /// The bytes.
            part: &'a [u8] as Rest,
            /// Whether it is the last one.
            is_last: bool as Flag<LAST>
        };
        /// Notifies the receiver that it lagged too far behind: it is sent nothing more, and has to
        /// rejoin.
        8 CutOff;
        /// Requests the data of slots from their primary, because the sender is to own them.
        9 FetchSlots {
            /// Number of the request.
            number: u64 as Number,
            /// The slots, as `wire::positions::read_slots` reads them.
            slots: &'a [u8] as Rest
        };
        /// Announces the requested data of slots.
        10 SlotsFollow {
            /// Number of the request.
            number: u64 as Number,
            /// The last forwarded commands of the slots, as `wire::positions::read_executed` reads
            /// them.
            executed: &'a [u8] as Rest
        };
    }
}

/// Reserves space for a frame's header and returns its offset; the body follows.
pub(crate) fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    start
}

/// Completes a frame to which batches were appended.
pub(crate) fn end_batches(out: &mut [u8], start: usize, flags: u8, epoch: u64) {
    end_frame(out, start, (numbers::Batches, flags), epoch);
}

fn end_frame(out: &mut [u8], start: usize, (kind, lane): (u8, u8), epoch: u64) {
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    out[start + 4] = kind;
    out[start + 5] = lane;
    out[start + 6..start + 8].copy_from_slice(&(epoch as u16).to_le_bytes());
}

/// Appends a frame. `lane` is 0 for frames without one; `epoch` is that of the sender's view.
pub fn put_frame(out: &mut Vec<u8>, lane: u8, epoch: u64, frame: &Frame<'_>) {
    let start = begin_frame(out);
    let kind = frame.number() | frame.put(out);
    end_frame(out, start, (kind, lane), epoch);
}

/// Maximum capacity retained for the following frames, in bytes.
const ROOM_MAX: usize = 1 << 20;

/// Assembles frames from the bytes of a link.
#[derive(Debug)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// Number of bytes already consumed.
    read: usize,
    len_max: usize,
}

impl FrameReader {
    /// Creates a reader of frames of at most `len_max` bytes.
    pub fn new(len_max: usize) -> Self {
        FrameReader { bytes: Vec::new(), read: 0, len_max }
    }

    /// Appends received bytes and discards consumed ones.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(ROOM_MAX);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete frame: its length, lane, epoch and body. It stays the next until
    /// [`FrameReader::consume`] is called with its length.
    ///
    /// # Errors
    /// If the bytes are malformed: the link has to be closed.
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

    /// Skips a frame of this length.
    pub fn consume(&mut self, len: usize) {
        self.read += len;
    }
}

fn take_body(kind: u8, body: &[u8]) -> Result<Frame<'_>, Malformed> {
    let is_last = kind == numbers::Copy | LAST;
    let (number, flags) = if is_last { (numbers::Copy, LAST) } else { (kind, 0) };
    let mut source = Source::new(body, flags);
    let frame = Frame::take(number, &mut source)?;
    source.end().map(|()| frame)
}
