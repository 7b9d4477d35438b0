//! Records: what the positions of a lane hold.

use super::LANES;
use super::exec::{Exec, has_more, put_exec, take_exec};
use super::numbers::{put_option, take_count, take_option, take_slot};
use crate::slot::Slot;
use crate::slot_map::Node;
use crate::view::Identity;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put, put_bytes};

/// Which record, in the lowest four bits of its head.
mod kind {
    /// What follows says which of those that are rarer ([`others`]).
    pub const OTHERS: u8 = 0;
    pub const EFFECTS: u8 = 1;
    pub const PART: u8 = 2;
    pub const EXEC: u8 = 3;
    pub const ANSWER: u8 = 4;
    pub const END: u8 = 5;
    pub const TAIL: u8 = 6;
    pub const TAIL_END: u8 = 7;
    pub const SETTLED: u8 = 8;
    pub const MESSAGE: u8 = 9;
    pub const PARKED: u8 = 10;
    pub const WOKEN: u8 = 11;
    pub const CANCEL: u8 = 12;
    pub const UNWATCH: u8 = 13;
    pub const SLOTS_BEGIN: u8 = 14;
    pub const SLOTS_KNOWN: u8 = 15;
}

/// Which record about copies, about what is durable, or of shortened effects, in the byte behind
/// its head.
mod others {
    pub const COPY: u8 = 0;
    pub const CHANGED: u8 = 1;
    pub const UNSHARED: u8 = 2;
    pub const DURABLE_ASKED: u8 = 3;
    pub const DURABLE: u8 = 4;
    pub const SHORTENED: u8 = 5;
}

const KIND: u8 = 0x0f;
/// The distance to the position before follows; else it is 1.
const GAP: u8 = 0x10;
/// Effects: the command that made them was forwarded. Answer: there is no reply. Exec: it is a
/// transaction. End of a tail: the sender has settled. Message: of a shard's channel.
const FIRST: u8 = 0x20;
/// Effects and answers: positions in other lanes follow. Exec: the reply is to be written in RESP3.
const LANE_LIST: u8 = 0x40;
/// Effects: the names of commands follow that have waited and were executed by the commit. Exec:
/// how long it may wait, which client of the sender it is for, whether it works by key, and
/// whether copies are wanted. Answers: the reply stands there by its name ([`REPLIES`]).
const MORE: u8 = 0x80;

/// Names a forwarded command: the node that forwarded it, and which of its commands of a slot it
/// is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Tag {
    /// Who forwarded it.
    pub origin: Identity,
    /// The slot that its order counts for.
    pub slot: Slot,
    /// Its place among the commands that `origin` forwarded of the slot; from 1, without gaps.
    pub oseq: u64,
}

/// Positions in several lanes of one node, as bytes that were checked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    /// Positions that are written to `room` meanwhile, in the order of their lanes.
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

/// The positions of [`Parts`].
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

/// Names of several forwarded commands, as bytes that were checked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tags<'a>(&'a [u8]);

impl<'a> Tags<'a> {
    /// Names that are written to `room` meanwhile.
    pub fn of(room: &'a mut Vec<u8>, tags: impl Iterator<Item = Tag>) -> Self {
        room.clear();
        tags.for_each(|tag| put_tag(room, tag));
        Tags(room)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The names.
    pub fn iter(self) -> impl Iterator<Item = Tag> {
        let mut bytes = Bytes(self.0);
        std::iter::from_fn(move || take_tag(&mut bytes).ok())
    }
}

/// Places of a record from which arguments of a forwarded command were taken out, as bytes that
/// were checked.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    /// Pieces that are written to `room` meanwhile, in their order: how many bytes stay before each
    /// since the one before, and which argument it is, counted through all commands of a
    /// transaction with their names.
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

/// Replies that are named by their place here.
pub(super) const REPLIES: [&[u8]; 6] =
    [b"+OK\r\n", b":0\r\n", b":1\r\n", b"$-1\r\n", b"_\r\n", b"*0\r\n"];

/// Appends a reply; whether it stands there by its name.
fn put_reply(out: &mut Vec<u8>, reply: Option<&[u8]>) -> bool {
    let name = REPLIES.iter().position(|known| Some(*known) == reply);
    match name {
        Some(name) => out.push(name as u8),
        None => out.extend_from_slice(reply.unwrap_or_default()),
    }
    name.is_some()
}

/// Takes what [`put_reply`] has written, to the end.
fn take_reply<'a>(bytes: &mut Bytes<'a>, is_named: bool) -> Result<&'a [u8], Malformed> {
    let reply = std::mem::take(&mut bytes.0);
    match (is_named, reply) {
        (true, &[name]) => REPLIES.get(usize::from(name)).copied().ok_or(Malformed),
        (true, _) => Err(Malformed),
        (false, reply) => Ok(reply),
    }
}

/// What ends the wait of a command at its home.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WaitEnd {
    /// Its time is up, or `CLIENT UNBLOCK` says so.
    Timeout,
    /// `CLIENT UNBLOCK ... ERROR`.
    Error,
    /// Its client has gone.
    Gone,
}

/// A record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Record<'a> {
    /// What one commit has changed.
    Effects {
        /// The command that did, if it was forwarded.
        tag: Option<Tag>,
        /// The positions that the commit has, if there are several: this one is the first.
        parts: Parts<'a>,
        /// Commands that had waited at their home and were executed by this commit.
        served: Tags<'a>,
        /// The effects, as `petrel_persistence::effects` has them.
        group: &'a [u8],
    },
    /// The place of a commit in another of its lanes.
    Part {
        /// All its positions; the effects stand at the first.
        parts: Parts<'a>,
    },
    /// A command to be executed by the receiver.
    Exec(Exec<'a>),
    /// The answer to a forwarded command, to be given to the client once everything before it in
    /// this lane was applied, and the positions of others.
    Answer {
        /// The slot that the command's order counts for.
        slot: Slot,
        /// Which command.
        oseq: u64,
        /// What the command has seen of other lanes of the sender.
        waits: Parts<'a>,
        /// The reply; none if the command was executed by a node that died before it answered.
        reply: Option<&'a [u8]>,
    },
    /// What follows was numbered in the view of this epoch: slots that the sender is no longer
    /// primary of in it are not changed by it any more.
    End {
        /// The view's epoch.
        epoch: u64,
    },
    /// A record of the lane of a node that has died.
    Tail {
        /// The dead node.
        of: Identity,
        /// Its position.
        seq: u64,
        /// The record: of effects, a part or an end.
        record: &'a [u8],
    },
    /// What the sender knows of the lane of a node that has died was said.
    TailEnd {
        /// The dead node.
        of: Identity,
        /// The epoch of the view in which it is asked for.
        epoch: u64,
        /// The position up to which everything is known.
        upto: u64,
        /// Whether the sender has applied exactly that, for all know the same by then.
        is_settled: bool,
    },
    /// The sender has applied what anybody knows of the lanes of a node that has died.
    Settled {
        /// The dead node.
        of: Identity,
    },
    /// A forwarded command was not answered: it waits at its home.
    Parked {
        /// The slot that the command's order counts for.
        slot: Slot,
        /// Which command.
        oseq: u64,
        /// Milliseconds until its time is up, if it ever is.
        left_ms: Option<u64>,
    },
    /// The end of such a wait, which its home alone decides, once.
    Woken {
        /// The slot that the command's order counts for.
        slot: Slot,
        /// Which command.
        oseq: u64,
        /// What the command has seen of other lanes of the sender.
        waits: Parts<'a>,
        /// The reply; none if the command was not executed, and is to be sent again.
        reply: Option<&'a [u8]>,
    },
    /// The origin asks for the end of a wait.
    Cancel {
        /// The slot that the command's order counts for.
        slot: Slot,
        /// Which command.
        oseq: u64,
        /// Why.
        end: WaitEnd,
    },
    /// A client of the sender watches keys no longer ([`Exec::client`]).
    Unwatch {
        /// What named them.
        client: u64,
    },
    /// The data of slots that the receiver has asked for are of this moment: it holds in them what
    /// the lane holds before.
    SlotsBegin {
        /// Which question of the receiver's.
        number: u64,
    },
    /// All members have applied what those data hold.
    SlotsKnown {
        /// Which question of the receiver's.
        number: u64,
    },
    /// A copy of a key, for a member that is no home of its slot and is sent its changes from here
    /// on.
    Copy {
        /// One effect, which stores it.
        group: &'a [u8],
    },
    /// The key was changed: the copy of a member that is no home of its slot is of no use, and no
    /// more changes are sent to it.
    Changed {
        /// Its database.
        db: u16,
        /// The key.
        key: &'a [u8],
    },
    /// The sender has no copy of a key.
    Unshared {
        /// Its database.
        db: u16,
        /// The key.
        key: &'a [u8],
    },
    /// Effects of a command that the receiver has forwarded, without arguments of that.
    Shortened {
        /// Where they stood.
        pieces: Pieces<'a>,
        /// The record without them.
        rest: &'a [u8],
    },
    /// The sender wants to know when everything before this, in all lanes, is durable at the
    /// receiver. It stands in each lane.
    DurableAsked {
        /// Which question of the sender's; a later one has a larger number.
        number: u64,
    },
    /// Everything before this question of the receiver's, and before all earlier ones, is durable
    /// at the sender.
    Durable {
        /// Which question.
        number: u64,
    },
    /// A message for the subscribers of a channel. It is delivered once at most.
    Message {
        /// The channel is one of a shard.
        is_sharded: bool,
        /// The channel.
        channel: &'a [u8],
        /// What is said.
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
        which @ (others::CHANGED | others::UNSHARED) => {
            let db = u16::try_from(bytes.number()?).map_err(|_| Malformed)?;
            let key = std::mem::take(&mut bytes.0);
            Ok(match which {
                others::CHANGED => Record::Changed { db, key },
                _ => Record::Unshared { db, key },
            })
        }
        others::SHORTENED => {
            let count = take_count(bytes)?;
            let all = bytes.0;
            for _ in 0..count {
                bytes.number()?;
                bytes.number()?;
            }
            let pieces = Pieces(&all[..all.len() - bytes.0.len()]);
            Ok(Record::Shortened { pieces, rest: std::mem::take(&mut bytes.0) })
        }
        others::DURABLE_ASKED => Ok(Record::DurableAsked { number: bytes.number()? }),
        others::DURABLE => Ok(Record::Durable { number: bytes.number()? }),
        _ => Err(Malformed),
    }
}

/// Appends a record without its length, and as if it had no gap: what a lane keeps.
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
            let more = flag(exec.resp3, LANE_LIST) | flag(has_more(exec), MORE);
            kind::EXEC | flag(exec.is_transaction, FIRST) | more
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
        Record::TailEnd { of, epoch, upto, is_settled } => {
            put_identity(out, of);
            put(out, epoch);
            put(out, upto);
            kind::TAIL_END | flag(is_settled, FIRST)
        }
        Record::Settled { of } => {
            put_identity(out, of);
            kind::SETTLED
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
        Record::Changed { db, key } => {
            out.push(others::CHANGED);
            put(out, db.into());
            out.extend_from_slice(key);
            kind::OTHERS
        }
        Record::Unshared { db, key } => {
            out.push(others::UNSHARED);
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
        Record::Shortened { pieces, rest } => {
            out.push(others::SHORTENED);
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
    /// Reads what [`put_record`] has written.
    ///
    /// # Errors
    /// If the bytes are no record. What groups of effects hold is not looked at.
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
                (Record::TailEnd { of, epoch, upto, is_settled: first }, FIRST)
            }
            kind::SETTLED => (Record::Settled { of: take_identity(b)? }, 0),
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

/// How many bytes [`put_with_gap`] appends of a record of so many.
pub(crate) fn len_with_gap(gap: u64, len: usize) -> usize {
    let len = if gap == 1 { len } else { len + len_of_number(gap) };
    len_of_number(len as u64) + len
}

/// Appends a record of a lane to a batch, `gap` positions behind the one before.
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

/// Whether a record belongs to the order of changes, and not to two nodes alone.
pub(crate) fn is_ordered(record: &[u8]) -> bool {
    is_one_of(record, &[kind::EFFECTS, kind::PART, kind::END])
}

/// Whether a record lacks an argument of its receiver's.
pub(crate) fn is_shortened(record: &[u8]) -> bool {
    is_one_of(record, &[kind::OTHERS]) && record.get(1) == Some(&others::SHORTENED)
}

/// The command that has made the effects of a record, of which only the beginning is there, and
/// where its name ends in that.
pub(crate) fn tag_of_effects(record: &[u8]) -> Option<(Tag, usize)> {
    let (head, rest) = record.split_first()?;
    if head & KIND != kind::EFFECTS || head & FIRST == 0 {
        return None;
    }
    let mut rest = Bytes(rest);
    let tag = take_tag(&mut rest).ok()?;
    Some((tag, record.len() - rest.0.len()))
}

/// Whether a record is what a node says of one that has died.
pub(crate) fn is_of_dead(record: &[u8]) -> bool {
    is_one_of(record, &[kind::TAIL, kind::TAIL_END, kind::SETTLED])
}

fn is_one_of(record: &[u8], kinds: &[u8]) -> bool {
    record.first().is_some_and(|head| kinds.contains(&(head & KIND)))
}

/// Reads the next record of a batch; its distance to the one before, and what [`Record::read`]
/// reads, written to `record`.
///
/// # Errors
/// If the bytes are no such.
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
