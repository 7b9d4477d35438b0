//! Frames: the commits of a stream to replicas that all read effects. Frames take the place of
//! commands, between commands that change nothing (`PING`, `PUBLISH`), in one stream with one
//! offset.
//!
//! ```text
//! frame   +------+------+--------+-- ... --+
//!         | 0xef | lane | length | effects |    one commit: a command, a transaction, a script
//!         +------+------+--------+-- ... --+
//! lane       0 to 15: the hash slots of all its keys end in these four bits; 16: others;
//!            17: whole databases, auxiliary state;
//!            18: no commit, but a byte: changes are written as commands (0) or frames (1) from here on
//! length     bytes of the effects, as a number of varying length
//! effects    a group of [`petrel_persistence::effects`]: the log's encoding
//! ```
//!
//! No command begins with the first byte. Replicas say that they read frames by
//! `REPLCONF capa petrel-effects-2`, where 2 is the [`VERSION`] of all of this; a primary that is
//! going to send them says so after its reply to `PSYNC`.

use petrel_keyspace::hash_slot::slot_of;
use petrel_keyspace::{Effect, Encoded};
use petrel_persistence::effects::{GroupWriter, visit_keys};
use petrel_persistence::log::number::Bytes;
use std::fmt;

/// The version of frames, of which every other is another capability: 2 has changes of value types
/// by the number of the type.
pub const VERSION: u32 = 2;

/// The capability of replicas that read frames.
pub const READS_FRAMES: &str = "petrel-effects-2";

/// Word of replicas and primaries that are Petrel.
pub const IS_PETREL: &str = "petrel";

/// Capability in a `REPLCONF` of a stream of commands: the transaction that it is a part of has
/// members that are effects ([`petrel_persistence::effects::hide`]). Redis ignores it, and sends no
/// `REPLCONF` of a client to replicas, so that clients cannot make one.
pub const HAS_EFFECTS: &str = "petrel-members";

/// Capability of replicas that want commands instead of frames from now on.
pub const WANTS_COMMANDS: &str = "petrel-commands";

/// The first byte of a frame, and of no command.
pub const MARK: u8 = 0xef;

/// Commits of different lanes have no key in common.
pub const LANES: u8 = 16;

/// Lane of a commit with keys of several lanes.
pub const SEVERAL: u8 = LANES;

/// The lane of a commit that changes whole databases, or auxiliary state.
pub const WHOLE: u8 = LANES + 1;

/// Marks a switch of the encoding instead of a commit: commands or frames follow.
pub const TURN: u8 = LANES + 2;

/// Bytes of a number at most.
const NUMBER_LEN_MAX: usize = 10;

/// Bytes of a frame's head at most.
pub(crate) const HEAD_LEN_MAX: usize = 2 + NUMBER_LEN_MAX;

/// A commit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame<'a> {
    /// Lane, or [`SEVERAL`], [`WHOLE`] or [`TURN`].
    pub lane: u8,
    /// Effects of the commit.
    pub group: &'a [u8],
    /// Bytes of the whole frame.
    pub len: usize,
}

/// Reasons why bytes are not a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoFrame {
    /// Unknown lane or kind.
    Lane(u8),
    /// The length is not a number.
    Length,
    /// The length exceeds the maximum.
    TooLong(u64),
}

impl fmt::Display for NoFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoFrame::Lane(lane) => {
                write!(f, "a frame of kind {lane}, which version {VERSION} does not have")
            }
            NoFrame::Length => f.write_str("a frame whose length is no number"),
            NoFrame::TooLong(len) => write!(f, "a frame of {len} bytes"),
        }
    }
}

impl<'a> Frame<'a> {
    /// Reads the frame at the start of the bytes, of at most `len_max` bytes; none if it is
    /// incomplete.
    ///
    /// # Errors
    /// If they begin with [`MARK`] but no frame of this version can follow.
    pub fn read(bytes: &'a [u8], len_max: u64) -> Result<Option<Self>, NoFrame> {
        let Some((&lane, rest)) = bytes.get(1..).and_then(<[u8]>::split_first) else {
            return Ok(None);
        };
        if lane > TURN {
            return Err(NoFrame::Lane(lane));
        }
        let mut source = Bytes(rest);
        let len = match source.number() {
            Ok(len) if len > len_max => return Err(NoFrame::TooLong(len)),
            Ok(len) => len,
            Err(_) if rest.len() < NUMBER_LEN_MAX && rest.iter().all(|byte| byte & 0x80 != 0) => {
                return Ok(None);
            }
            Err(_) => return Err(NoFrame::Length),
        };
        let group = usize::try_from(len).ok().and_then(|len| source.take(len).ok());
        Ok(group.map(|group| Frame { lane, group, len: bytes.len() - source.0.len() }))
    }
}

/// Memory of a frame that is kept for the next one.
const FRAME_KEPT_MAX: usize = 128 * 1024;

/// Writes the effects of a commit that becomes a frame, and notes its lane.
#[derive(Debug, Default)]
pub struct FrameWriter {
    group: GroupWriter,
    lane: u8,
}

impl FrameWriter {
    /// Adds an effect on a database, which another sink may have encoded; returns its bytes.
    #[inline]
    pub fn add<'s>(
        &'s mut self,
        db: u16,
        effect: &Effect<'_>,
        encoded: Option<Encoded<'s>>,
    ) -> Encoded<'s> {
        let lane = lane_of_effect(effect);
        if self.group.is_empty() {
            self.lane = lane;
        } else if lane != self.lane {
            self.lane = if lane == WHOLE { WHOLE } else { self.lane.max(SEVERAL) };
        }
        self.group.add_encoded(db, effect, encoded)
    }

    /// Ends the commit and begins the next; [`crate::Backlog::append_frame`] takes its lane and
    /// effects. False if the commit is empty.
    #[inline]
    pub fn end(&mut self, append: impl FnOnce(u8, &mut Vec<u8>)) -> bool {
        if self.group.is_empty() {
            return false;
        }
        let bytes = self.group.bytes_mut();
        debug_assert!(is_of_lane(self.lane, bytes), "a replica reads it: {}", self.lane);
        append(self.lane, bytes);
        if bytes.capacity() > FRAME_KEPT_MAX {
            *bytes = Vec::new();
        }
        self.group.clear();
        true
    }
}

/// Whether a replica may apply the effects with nothing but the keys of this lane held.
fn is_of_lane(lane: u8, effects: &[u8]) -> bool {
    let (mut all_of_lane, mut has_whole) = (true, false);
    let read = visit_keys(effects, |_, key| match key {
        Some(key) => all_of_lane &= lane >= SEVERAL || lane_of(key) == lane,
        None => has_whole = true,
    });
    read.is_ok() && all_of_lane && has_whole == (lane == WHOLE)
}

/// The lane of a key: of its hash slot, as in a cluster.
#[inline]
fn lane_of(key: &[u8]) -> u8 {
    slot_of(key) as u8 % LANES
}

#[inline]
fn lane_of_effect(effect: &Effect<'_>) -> u8 {
    if let Effect::Put { key, .. } = effect {
        return lane_of(key);
    }
    let Some(lane) = effect.key().map(lane_of) else { return WHOLE };
    match effect.source() {
        Some((_, other)) if lane_of(other) != lane => SEVERAL,
        _ => lane,
    }
}

/// Writes the head of a frame with `len` bytes of effects.
#[inline]
pub(crate) fn put_head(room: &mut [u8; HEAD_LEN_MAX], lane: u8, len: usize) -> &[u8] {
    debug_assert!(lane <= TURN, "{lane}");
    (room[0], room[1]) = (MARK, lane);
    let (mut left, mut at) = (len as u64, 2);
    while left >= 0x80 {
        room[at] = left as u8 | 0x80;
        left >>= 7;
        at += 1;
    }
    room[at] = left as u8;
    &room[..=at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_when_it_is_whole() {
        for len in [0, 1, 127, 128, 20_000] {
            let mut bytes = put_head(&mut [0; HEAD_LEN_MAX], 7, len).to_vec();
            bytes.extend((0..len).map(|n| n as u8));
            for cut in 1..bytes.len() {
                assert_eq!(Frame::read(&bytes[..cut], 20_000), Ok(None), "{cut} of {len}");
            }
            bytes.extend_from_slice(b"*1\r\n");
            let frame = Frame::read(&bytes, 20_000).unwrap().unwrap();
            assert_eq!((frame.lane, frame.len), (7, bytes.len() - 4));
            assert_eq!(frame.group, &bytes[bytes.len() - 4 - len..bytes.len() - 4]);
        }
    }

    /// Frames of every effect, which a fuzzer can begin with.
    #[test]
    fn samples_of_every_effect_are_frames() {
        let path = std::env::var_os("PETREL_WRITE_CORPUS");
        let path = path.map(|path| std::path::Path::new(&path).join("effects_stream"));
        for (at, group) in petrel_persistence::effects::samples().iter().enumerate() {
            let lane = if at % 2 == 0 { WHOLE } else { 3 };
            let mut bytes = put_head(&mut [0; HEAD_LEN_MAX], lane, group.len()).to_vec();
            bytes.extend(group);
            let frame = Frame { lane, group, len: bytes.len() };
            assert_eq!(Frame::read(&bytes, 1 << 16), Ok(Some(frame)));
            if let Some(path) = &path {
                std::fs::create_dir_all(path).unwrap();
                // The fuzzer's first byte is the length of the pieces that it cuts.
                let input = [&[7], &bytes[..]].concat();
                std::fs::write(path.join(format!("sample-{at}")), input).unwrap();
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_as_soon_as_that_is_seen() {
        assert_eq!(Frame::read(&[MARK, 19], 10), Err(NoFrame::Lane(19)));
        assert_eq!(Frame::read(&[MARK, 3, 11], 10), Err(NoFrame::TooLong(11)));
        let endless = [&[MARK, 16][..], &[0xff; 9]].concat();
        assert_eq!(Frame::read(&endless, 10), Ok(None));
        let endless = [&[MARK, 16][..], &[0xff; 10]].concat();
        assert_eq!(Frame::read(&endless, 10), Err(NoFrame::Length));
    }
}
