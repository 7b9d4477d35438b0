//! Records: the contents of a lane's positions.

use super::LANES;
use super::exec::{Exec, has_more, put_exec, take_exec};
use super::numbers::{put_option, take_count, take_option, take_slot};
use crate::slot::Slot;
use crate::slot_map::Node;
use crate::view::Identity;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put, put_bytes};

/// Kinds of records, in the low four bits of the head.
mod kind {
    /// A rarer kind, in the byte after the head ([`others`]).
    pub const OTHERS: u8 = 0;
    pub const EFFECTS: u8 = 1;
    pub const PART: u8 = 2;
    pub const EXEC: u8 = 3;
    pub const ANSWER: u8 = 4;
    pub const END: u8 = 5;
    pub const TAIL: u8 = 6;
    pub const TAIL_END: u8 = 7;
    pub const RECONCILED: u8 = 8;
    pub const MESSAGE: u8 = 9;
    pub const PARKED: u8 = 10;
    pub const WOKEN: u8 = 11;
    pub const CANCEL: u8 = 12;
    pub const UNWATCH: u8 = 13;
    pub const SLOTS_BEGIN: u8 = 14;
    pub const SLOTS_KNOWN: u8 = 15;
}

/// Rarer kinds of records: about copies, durability, and effects with elided arguments.
mod others {
    pub const COPY: u8 = 0;
    pub const INVALIDATE: u8 = 1;
    pub const NO_COPY: u8 = 2;
    pub const DURABLE_ASKED: u8 = 3;
    pub const DURABLE: u8 = 4;
    pub const ELIDED: u8 = 5;
}

const KIND: u8 = 0x0f;
/// The distance to the previous position follows; otherwise it is 1.
const GAP: u8 = 0x10;
/// Effects: made by a forwarded command. Answer: no reply. Exec: a transaction. End of a tail: the
/// sender has completed the recovery. Message: of a shard channel.
const FIRST: u8 = 0x20;
/// Effects and answers: positions in other lanes follow. Exec: the reply is to be in RESP3.
const LANE_LIST: u8 = 0x40;
/// Effects: tags of blocked commands follow that the commit executed. Exec: timeout, watching
/// client, `by_key` and `wants_copies` follow. Answers: the reply is an index into [`REPLIES`].
const MORE: u8 = 0x80;

/// Identifies a forwarded command by its origin, slot and sequence number.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Tag {
    /// The node that forwarded it.
    pub origin: Identity,
    /// The slot that orders it.
    pub slot: Slot,
    /// Sequence number among the commands that `origin` forwarded for the slot; from 1, without
    /// gaps.
    pub oseq: u64,
}

/// Positions in several lanes of one node, as validated bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    /// Encodes positions into `room`, in the order of their lanes.
    pub fn of(room: &'a mut Vec<u8>, parts: impl Iterator<Item = (usize, u64)>) -> Self {
        room.clear();
        for (lane, seq) in parts {
            room.push(lane as u8);
            put(room, seq);
        }
        Parts(room)
    }

    /// Lanes and positions.
    pub fn iter(self) -> PartsIter<'a> {
        PartsIter(self.0)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// Iterator over the lanes and positions of [`Parts`].
#[derive(Clone, Debug)]
pub struct PartsIter<'a>(&'a [u8]);

impl Iterator for PartsIter<'_> {
    type Item = (usize, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = Bytes(self.0);
        let part = (bytes.byte().ok()?.into(), bytes.number().ok()?);
        self.0 = bytes.0;
        Some(part)
    }
}

/// Tags of several forwarded commands, as validated bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tags<'a>(&'a [u8]);

impl<'a> Tags<'a> {
    /// Encodes tags into `room`.
    pub fn of(room: &'a mut Vec<u8>, tags: impl Iterator<Item = Tag>) -> Self {
        room.clear();
        tags.for_each(|tag| put_tag(room, tag));
        Tags(room)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The tags.
    pub fn iter(self) -> impl Iterator<Item = Tag> {
        let mut bytes = Bytes(self.0);
        std::iter::from_fn(move || take_tag(&mut bytes).ok())
    }
}

/// Places of elided arguments in a record, as validated bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    /// Encodes pieces into `room`, in their order: the number of bytes since the previous piece,
    /// and the index of the argument, counted over all commands of a transaction including their
    /// names.
    pub fn of(room: &'a mut Vec<u8>, pieces: impl Iterator<Item = (u64, u64)>) -> Self {
        room.clear();
        for (before, arg) in pieces {
            put(room, before);
            put(room, arg);
        }
        Pieces(room)
    }

    /// The pieces.
    pub fn iter(self) -> impl Iterator<Item = (u64, u64)> {
        let mut bytes = Bytes(self.0);
        std::iter::from_fn(move || Some((bytes.number().ok()?, bytes.number().ok()?)))
    }
}

/// Frequent replies, encoded as an index into this table.
pub(super) const REPLIES: [&[u8]; 6] =
    [b"+OK\r\n", b":0\r\n", b":1\r\n", b"$-1\r\n", b"_\r\n", b"*0\r\n"];

/// Appends a reply; true if it was encoded as an index.
fn put_reply(out: &mut Vec<u8>, reply: Option<&[u8]>) -> bool {
    let name = REPLIES.iter().position(|known| Some(*known) == reply);
    match name {
        Some(name) => out.push(name as u8),
        None => out.extend_from_slice(reply.unwrap_or_default()),
    }
    name.is_some()
}

/// Takes what [`put_reply`] has written, up to the end of the record.
fn take_reply<'a>(bytes: &mut Bytes<'a>, is_named: bool) -> Result<&'a [u8], Malformed> {
    let reply = std::mem::take(&mut bytes.0);
    match (is_named, reply) {
        (true, &[name]) => REPLIES.get(usize::from(name)).copied().ok_or(Malformed),
        (true, _) => Err(Malformed),
        (false, reply) => Ok(reply),
    }
}

/// Reason to end the wait of a command at its primary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WaitEnd {
    /// Timeout, or `CLIENT UNBLOCK`.
    Timeout,
    /// `CLIENT UNBLOCK ... ERROR`.
    Error,
    /// The client has disconnected.
    Gone,
}

/// A record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Record<'a> {
    /// Changes of one commit.
    Effects {
        /// The forwarded command that made them, if any.
        tag: Option<Tag>,
        /// All positions of the commit, if there are several; this one is the first.
        parts: Parts<'a>,
        /// Blocked commands that this commit executed.
        served: Tags<'a>,
        /// The effects, encoded as in `petrel_persistence::effects`.
        group: &'a [u8],
    },
    /// Place of a commit in another of its lanes.
    Part {
        /// All positions of the commit; the first has the effects.
        parts: Parts<'a>,
    },
    /// A command that the receiver is to execute.
    Exec(Exec<'a>),
    /// Answer to a forwarded command. The client gets it once everything before it in this lane was
    /// applied, and the positions `waits` of other lanes.
    Answer {
        /// The slot that orders the command.
        slot: Slot,
        /// Sequence number of the command.
        oseq: u64,
        /// Positions of the sender's other lanes that the command has observed.
        waits: Parts<'a>,
        /// The reply; none if a node that has died executed the command before it answered.
        reply: Option<&'a [u8]>,
    },
    /// End of an epoch: the following records were appended in the view `epoch`. The sender orders
    /// no more changes of slots of which it is not primary in that view.
    End {
        /// The view's epoch.
        epoch: u64,
    },
    /// An unstable record of a dead node's lane.
    Tail {
        /// The dead node.
        of: Identity,
        /// Position of the record.
        seq: u64,
        /// The record: effects, a part or an end.
        record: &'a [u8],
    },
    /// End of the sender's unstable records of a lane of a dead node.
    TailEnd {
        /// The dead node.
        of: Identity,
        /// Epoch of the view in which they were requested.
        epoch: u64,
        /// The sender knows the lane up to this position.
        upto: u64,
        /// Whether the sender has completed the recovery: then this is the decided end of the lane.
        is_reconciled: bool,
    },
    /// The sender has completed the recovery of a dead node's lanes.
    Reconciled {
        /// The dead node.
        of: Identity,
    },
    /// A forwarded command is blocked at its primary.
    Parked {
        /// The slot that orders the command.
        slot: Slot,
        /// Sequence number of the command.
        oseq: u64,
        /// Milliseconds until its timeout, if it has one.
        left_ms: Option<u64>,
    },
    /// End of such a wait. The primary alone decides it, once.
    Woken {
        /// The slot that orders the command.
        slot: Slot,
        /// Sequence number of the command.
        oseq: u64,
        /// Positions of the sender's other lanes that the command has observed.
        waits: Parts<'a>,
        /// The reply; none if the command was not executed and has to be forwarded again.
        reply: Option<&'a [u8]>,
    },
    /// The origin requests the end of a wait.
    Cancel {
        /// The slot that orders the command.
        slot: Slot,
        /// Sequence number of the command.
        oseq: u64,
        /// The reason.
        end: WaitEnd,
    },
    /// A client of the sender has ended its `WATCH` (`Call::client`).
    Unwatch {
        /// Identifies the watched keys.
        client: u64,
    },
    /// Begin of a transfer: the requested data of slots contain everything before this position of
    /// the lane, and nothing after it.
    SlotsBegin {
        /// Number of the receiver's request.
        number: u64,
    },
    /// All members have applied the contents of those data.
    SlotsKnown {
        /// Number of the receiver's request.
        number: u64,
    },
    /// A copy of a key for a member that does not own its slot, and is sent its changes from here
    /// on.
    Copy {
        /// A single effect, which stores the key.
        group: &'a [u8],
    },
    /// Invalidation: the key was changed, the receiver drops its copy and is sent no more changes
    /// of it.
    Invalidate {
        /// Database of the key.
        db: u16,
        /// The key.
        key: &'a [u8],
    },
    /// The sender has no copy of a key, and needs no more changes of it.
    NoCopy {
        /// Database of the key.
        db: u16,
        /// The key.
        key: &'a [u8],
    },
    /// Effects of a command that the receiver has forwarded, without some of its arguments.
    Elided {
        /// Places and indexes of the elided arguments.
        pieces: Pieces<'a>,
        /// The record without them.
        rest: &'a [u8],
    },
    /// Durability request, in each lane: the sender asks when everything before it, in all lanes,
    /// is on the receiver's disk.
    DurableAsked {
        /// Number of the sender's request; later ones have larger numbers.
        number: u64,
    },
    /// Answer: everything before this request of the receiver, and before all earlier ones, is on
    /// the sender's disk.
    Durable {
        /// Number of the request.
        number: u64,
    },
    /// A message for the subscribers of a channel, delivered at most once.
    Message {
        /// Whether it is a shard channel.
        is_sharded: bool,
        /// The channel.
        channel: &'a [u8],
        /// The message.
        payload: &'a [u8],
    },
}

fn put_parts(out: &mut Vec<u8>, parts: PartsIter<'_>) {
    put(out, parts.clone().count() as u64);
    for (lane, seq) in parts {
        out.push(lane as u8);
        put(out, seq);
    }
}

fn take_parts<'a>(bytes: &mut Bytes<'a>) -> Result<Parts<'a>, Malformed> {
    let count = bytes.number()?;
    let all = bytes.0;
    let mut before = None;
    for _ in 0..count {
        let lane = bytes.byte()?;
        if usize::from(lane) >= LANES || before.is_some_and(|before| before >= lane) {
            return Err(Malformed);
        }
        before = Some(lane);
        bytes.number()?;
    }
    Ok(Parts(&all[..all.len() - bytes.0.len()]))
}

fn put_identity(out: &mut Vec<u8>, identity: Identity) {
    put(out, identity.node.0.into());
    put(out, identity.incarnation.into());
}

fn take_identity(bytes: &mut Bytes<'_>) -> Result<Identity, Malformed> {
    let node = Node(u16::try_from(bytes.number()?).map_err(|_| Malformed)?);
    let incarnation = u32::try_from(bytes.number()?).map_err(|_| Malformed)?;
    Ok(Identity { node, incarnation })
}

fn put_tag(out: &mut Vec<u8>, tag: Tag) {
    put_identity(out, tag.origin);
    put(out, tag.slot.into());
    put(out, tag.oseq);
}

fn take_tag(bytes: &mut Bytes<'_>) -> Result<Tag, Malformed> {
    let origin = take_identity(bytes)?;
    Ok(Tag { origin, slot: take_slot(bytes)?, oseq: bytes.number()? })
}

fn put_tags(out: &mut Vec<u8>, tags: Tags<'_>) {
    put(out, tags.iter().count() as u64);
    out.extend_from_slice(tags.0);
}

fn take_tags<'a>(bytes: &mut Bytes<'a>) -> Result<Tags<'a>, Malformed> {
    let count = take_count(bytes)?;
    let all = bytes.0;
    for _ in 0..count {
        take_tag(bytes)?;
    }
    Ok(Tags(&all[..all.len() - bytes.0.len()]))
}

fn take_other<'a>(bytes: &mut Bytes<'a>) -> Result<Record<'a>, Malformed> {
    match bytes.byte()? {
        others::COPY => Ok(Record::Copy { group: std::mem::take(&mut bytes.0) }),
        which @ (others::INVALIDATE | others::NO_COPY) => {
            let db = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
            let key = std::mem::take(&mut bytes.0);
            Ok(match which {
                others::INVALIDATE => Record::Invalidate { db, key },
                _ => Record::NoCopy { db, key },
            })
        }
        others::ELIDED => {
            let count = take_count(bytes)?;
            let all = bytes.0;
            for _ in 0..count {
                bytes.number()?;
                bytes.number()?;
            }
            let pieces = Pieces(&all[..all.len() - bytes.0.len()]);
            Ok(Record::Elided { pieces, rest: std::mem::take(&mut bytes.0) })
        }
        others::DURABLE_ASKED => Ok(Record::DurableAsked { number: bytes.number()? }),
        others::DURABLE => Ok(Record::Durable { number: bytes.number()? }),
        _ => Err(Malformed),
    }
}

/// Appends a record in the form that a lane keeps: without length and gap.
pub fn put_record(out: &mut Vec<u8>, record: &Record<'_>) {
    let at = out.len();
    out.push(0);
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    out[at] = match *record {
        Record::Effects { tag, parts, served, group } => {
            tag.into_iter().for_each(|tag| put_tag(out, tag));
            if !parts.is_empty() {
                put_parts(out, parts.iter());
            }
            if !served.is_empty() {
                put_tags(out, served);
            }
            out.extend_from_slice(group);
            let lists = flag(!parts.is_empty(), LANE_LIST) | flag(!served.is_empty(), MORE);
            kind::EFFECTS | flag(tag.is_some(), FIRST) | lists
        }
        Record::Part { parts } => {
            put_parts(out, parts.iter());
            kind::PART
        }
        Record::Exec(ref exec) => {
            put_exec(out, exec);
            let more = flag(exec.call.resp3, LANE_LIST) | flag(has_more(&exec.call), MORE);
            kind::EXEC | flag(exec.call.is_transaction, FIRST) | more
        }
        Record::Answer { slot, oseq, waits, reply } => {
            put(out, slot.into());
            put(out, oseq);
            if !waits.is_empty() {
                put_parts(out, waits.iter());
            }
            let is_named = put_reply(out, reply);
            let lists = flag(!waits.is_empty(), LANE_LIST) | flag(is_named, MORE);
            kind::ANSWER | flag(reply.is_none(), FIRST) | lists
        }
        Record::End { epoch } => {
            put(out, epoch);
            kind::END
        }
        Record::Tail { of, seq, record } => {
            put_identity(out, of);
            put(out, seq);
            out.extend_from_slice(record);
            kind::TAIL
        }
        Record::TailEnd { of, epoch, upto, is_reconciled } => {
            put_identity(out, of);
            put(out, epoch);
            put(out, upto);
            kind::TAIL_END | flag(is_reconciled, FIRST)
        }
        Record::Reconciled { of } => {
            put_identity(out, of);
            kind::RECONCILED
        }
        Record::Parked { slot, oseq, left_ms } => {
            put(out, slot.into());
            put(out, oseq);
            put_option(out, left_ms);
            kind::PARKED
        }
        Record::Woken { slot, oseq, waits, reply } => {
            put(out, slot.into());
            put(out, oseq);
            if !waits.is_empty() {
                put_parts(out, waits.iter());
            }
            let is_named = put_reply(out, reply);
            let lists = flag(!waits.is_empty(), LANE_LIST) | flag(is_named, MORE);
            kind::WOKEN | flag(reply.is_none(), FIRST) | lists
        }
        Record::Cancel { slot, oseq, end } => {
            put(out, slot.into());
            put(out, oseq);
            out.push(end as u8);
            kind::CANCEL
        }
        Record::Unwatch { client } => {
            put(out, client);
            kind::UNWATCH
        }
        Record::SlotsBegin { number } => {
            put(out, number);
            kind::SLOTS_BEGIN
        }
        Record::SlotsKnown { number } => {
            put(out, number);
            kind::SLOTS_KNOWN
        }
        Record::Copy { group } => {
            out.push(others::COPY);
            out.extend_from_slice(group);
            kind::OTHERS
        }
        Record::Invalidate { db, key } => {
            out.push(others::INVALIDATE);
            put(out, db.into());
            out.extend_from_slice(key);
            kind::OTHERS
        }
        Record::NoCopy { db, key } => {
            out.push(others::NO_COPY);
            put(out, db.into());
            out.extend_from_slice(key);
            kind::OTHERS
        }
        Record::DurableAsked { number } => {
            out.push(others::DURABLE_ASKED);
            put(out, number);
            kind::OTHERS
        }
        Record::Durable { number } => {
            out.push(others::DURABLE);
            put(out, number);
            kind::OTHERS
        }
        Record::Elided { pieces, rest } => {
            out.push(others::ELIDED);
            put(out, pieces.iter().count() as u64);
            out.extend_from_slice(pieces.0);
            out.extend_from_slice(rest);
            kind::OTHERS
        }
        Record::Message { is_sharded, channel, payload } => {
            put_bytes(out, channel);
            out.extend_from_slice(payload);
            kind::MESSAGE | flag(is_sharded, FIRST)
        }
    };
}

impl<'a> Record<'a> {
    /// Decodes what [`put_record`] has written.
    ///
    /// # Errors
    /// If the bytes are malformed. The contents of effects are not checked.
    pub fn read(record: &'a [u8]) -> Result<Self, Malformed> {
        let mut bytes = Bytes(record);
        let head = bytes.byte()?;
        let (first, lane_list) = (head & FIRST != 0, head & LANE_LIST != 0);
        let more = head & MORE != 0;
        if head & GAP != 0 {
            return Err(Malformed);
        }
        let b = &mut bytes;
        let parts = |b: &mut Bytes<'a>| if lane_list { take_parts(b) } else { Ok(Parts(&[])) };
        let (record, allowed) = match head & KIND {
            kind::EFFECTS => {
                let tag = if first { Some(take_tag(b)?) } else { None };
                let parts = parts(b)?;
                let served = if more { take_tags(b)? } else { Tags::default() };
                if more && served.is_empty() {
                    return Err(Malformed);
                }
                let group = std::mem::take(&mut b.0);
                (Record::Effects { tag, parts, served, group }, FIRST | LANE_LIST | MORE)
            }
            kind::PART => (Record::Part { parts: take_parts(b)? }, 0),
            kind::EXEC => {
                let exec = take_exec(b, (first, lane_list, more))?;
                (Record::Exec(exec), FIRST | LANE_LIST | MORE)
            }
            kind::PARKED => {
                let (slot, oseq) = (take_slot(b)?, b.number()?);
                (Record::Parked { slot, oseq, left_ms: take_option(b)? }, 0)
            }
            kind::CANCEL => {
                let (slot, oseq) = (take_slot(b)?, b.number()?);
                let end = match b.byte()? {
                    0 => WaitEnd::Timeout,
                    1 => WaitEnd::Error,
                    2 => WaitEnd::Gone,
                    _ => return Err(Malformed),
                };
                (Record::Cancel { slot, oseq, end }, 0)
            }
            kind::UNWATCH => (Record::Unwatch { client: b.number()? }, 0),
            which @ (kind::ANSWER | kind::WOKEN) => {
                let (slot, oseq) = (take_slot(b)?, b.number()?);
                let waits = parts(b)?;
                let reply = take_reply(b, more)?;
                if first && !reply.is_empty() {
                    return Err(Malformed);
                }
                let reply = (!first).then_some(reply);
                let record = match which {
                    kind::ANSWER => Record::Answer { slot, oseq, waits, reply },
                    _ => Record::Woken { slot, oseq, waits, reply },
                };
                (record, FIRST | LANE_LIST | MORE)
            }
            kind::END => (Record::End { epoch: b.number()? }, 0),
            kind::TAIL => {
                let (of, seq) = (take_identity(b)?, b.number()?);
                let record = std::mem::take(&mut b.0);
                let which = record.first().map(|head| head & KIND);
                if !matches!(which, Some(kind::EFFECTS | kind::PART | kind::END)) {
                    return Err(Malformed);
                }
                (Record::Tail { of, seq, record }, 0)
            }
            kind::TAIL_END => {
                let (of, epoch, upto) = (take_identity(b)?, b.number()?, b.number()?);
                (Record::TailEnd { of, epoch, upto, is_reconciled: first }, FIRST)
            }
            kind::RECONCILED => (Record::Reconciled { of: take_identity(b)? }, 0),
            kind::SLOTS_BEGIN => (Record::SlotsBegin { number: b.number()? }, 0),
            kind::SLOTS_KNOWN => (Record::SlotsKnown { number: b.number()? }, 0),
            kind::MESSAGE => {
                let (channel, payload) = (b.bytes()?, std::mem::take(&mut b.0));
                (Record::Message { is_sharded: first, channel, payload }, FIRST)
            }
            kind::OTHERS => (take_other(b)?, 0),
            _ => return Err(Malformed),
        };
        let has_more = !bytes.0.is_empty() || head & (FIRST | LANE_LIST | MORE) & !allowed != 0;
        if has_more { Err(Malformed) } else { Ok(record) }
    }
}

fn len_of_number(number: u64) -> usize {
    (u64::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Number of bytes that [`put_with_gap`] appends for a record of `len` bytes.
pub(crate) fn len_with_gap(gap: u64, len: usize) -> usize {
    let len = if gap == 1 { len } else { len + len_of_number(gap) };
    len_of_number(len as u64) + len
}

/// Appends a record of a lane to a batch, `gap` positions after the previous one.
pub fn put_with_gap(out: &mut Vec<u8>, gap: u64, record: &[u8]) {
    let Some((&head, body)) = record.split_first() else { return };
    if gap == 1 {
        put(out, record.len() as u64);
        out.push(head);
    } else {
        put(out, (record.len() + len_of_number(gap)) as u64);
        out.push(head | GAP);
        put(out, gap);
    }
    out.extend_from_slice(body);
}

/// Whether a record is part of the slot order, which all receivers share; others concern two nodes.
pub(crate) fn is_ordered(record: &[u8]) -> bool {
    is_one_of(record, &[kind::EFFECTS, kind::PART, kind::END])
}

/// Whether arguments of a record were elided.
pub(crate) fn is_elided(record: &[u8]) -> bool {
    is_one_of(record, &[kind::OTHERS]) && record.get(1) == Some(&others::ELIDED)
}

/// Tag of the command that made the effects, and the offset at which it ends. The record may be
/// incomplete after the tag.
pub(crate) fn tag_of_effects(record: &[u8]) -> Option<(Tag, usize)> {
    let (head, rest) = record.split_first()?;
    if head & KIND != kind::EFFECTS || head & FIRST == 0 {
        return None;
    }
    let mut rest = Bytes(rest);
    let tag = take_tag(&mut rest).ok()?;
    Some((tag, record.len() - rest.0.len()))
}

/// Whether a record is about the recovery of a dead node's lanes.
pub(crate) fn is_of_dead(record: &[u8]) -> bool {
    is_one_of(record, &[kind::TAIL, kind::TAIL_END, kind::RECONCILED])
}

fn is_one_of(record: &[u8], kinds: &[u8]) -> bool {
    record.first().is_some_and(|head| kinds.contains(&(head & KIND)))
}

/// Takes the next record of a batch: returns its distance to the previous one, and writes to
/// `record` what [`Record::read`] reads.
///
/// # Errors
/// If the bytes are malformed.
pub fn take_with_gap(records: &mut &[u8], record: &mut Vec<u8>) -> Result<u64, Malformed> {
    let mut bytes = Bytes(records);
    let mut taken = Bytes(bytes.bytes()?);
    *records = bytes.0;
    let head = taken.byte()?;
    let gap = if head & GAP == 0 { 1 } else { taken.number()? };
    record.clear();
    record.push(head & !GAP);
    record.extend_from_slice(taken.0);
    if gap == 0 { Err(Malformed) } else { Ok(gap) }
}
