//! Records: the contents of a lane's positions.

use super::codecs::{
    ChangeList, DecisionField, End, ExecField, IdentityField, Maybe, PartList, PieceList, Reason,
    Reply, SlotField, SlotList, TagField, TagList, TextList, WhenAny, put_tag, take_change,
    take_slot, take_tag,
};
use super::exec::{Exec, check_exec, has_more, put_exec};
use crate::slot::Slot;
use crate::view::Identity;
use petrel_keyspace::Call;
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put, put_bytes};
use petrel_persistence::record::{Flag, Number, Rest, Short, Source, Text, When};

/// Bits of the head that are the record's number; [`RARE`] if they are 0.
const NUMBER: u8 = 0x0f;
/// Numbers from here on are in the byte after the head, less this.
const RARE: u8 = 16;
/// The distance to the previous position follows; otherwise it is 1.
const GAP: u8 = 0x10;
/// Effects: made by a forwarded command. Answer: no reply. Exec: a transaction. End of a tail: the
/// sender has completed the recovery. Message: of a shard channel.
pub(super) const FIRST: u8 = 0x20;
/// Effects and answers: positions in other lanes follow. Exec: the reply is to be in RESP3. Commit:
/// a decision follows.
pub(super) const LANE_LIST: u8 = 0x40;
/// Effects: tags of blocked commands follow that the commit executed. Exec: timeout, watching
/// client and `wants_copies` follow. Answers: the reply is an index into [`REPLIES`].
pub(super) const MORE: u8 = 0x80;

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
pub struct Parts<'a>(pub(super) &'a [u8]);

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

    /// Position in a lane.
    pub fn in_lane(self, lane: usize) -> Option<u64> {
        self.iter().find(|(of, _)| *of == lane).map(|(_, seq)| seq)
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
pub struct Tags<'a>(pub(super) &'a [u8]);

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
pub struct Pieces<'a>(pub(super) &'a [u8]);

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

/// Changes that a commit makes in one slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change<'a> {
    /// The slot.
    pub slot: Slot,
    /// Distance to the slot's previous change in its lane; 0 if there is none.
    pub back: u64,
    /// The effects; empty in the slot of a command's tag if the command changes nothing there.
    pub group: &'a [u8],
}

/// Changes in several slots, as validated bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Changes<'a>(pub(super) &'a [u8]);

impl<'a> Changes<'a> {
    /// Encodes changes into `room`.
    pub fn of<'c>(room: &'a mut Vec<u8>, changes: impl Iterator<Item = Change<'c>>) -> Self {
        room.clear();
        for Change { slot, back, group } in changes {
            put(room, slot.into());
            put(room, back);
            put_bytes(room, group);
        }
        Changes(room)
    }

    /// The changes.
    pub fn iter(self) -> impl Iterator<Item = Change<'a>> {
        let mut bytes = Bytes(self.0);
        std::iter::from_fn(move || take_change(&mut bytes).ok())
    }
}

/// Slots, as validated bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Slots<'a>(pub(super) &'a [u8]);

impl<'a> Slots<'a> {
    /// Encodes slots into `room`.
    pub fn of(room: &'a mut Vec<u8>, slots: impl Iterator<Item = Slot>) -> Self {
        room.clear();
        slots.for_each(|slot| put(room, slot.into()));
        Slots(room)
    }

    /// The slots.
    pub fn iter(self) -> impl Iterator<Item = Slot> {
        let mut bytes = Bytes(self.0);
        std::iter::from_fn(move || take_slot(&mut bytes).ok())
    }
}

/// Texts, as validated bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Texts<'a>(pub(super) &'a [u8]);

impl<'a> Texts<'a> {
    /// Encodes texts into `room`.
    pub fn of<'t>(room: &'a mut Vec<u8>, texts: impl Iterator<Item = &'t [u8]>) -> Self {
        room.clear();
        texts.for_each(|text| put_bytes(room, text));
        Texts(room)
    }

    /// The texts.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut bytes = Bytes(self.0);
        std::iter::from_fn(move || bytes.bytes().ok())
    }
}

/// Frequent replies, encoded as an index into this table.
pub(super) const REPLIES: [&[u8]; 6] =
    [b"+OK\r\n", b":0\r\n", b":1\r\n", b"$-1\r\n", b"_\r\n", b"*0\r\n"];

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

/// Reason to end an attempt of a transaction of several primaries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// A primary of its slots has changed, or the executor was asked to give it up: it is tried
    /// again.
    Moved,
    /// Too long a wait, or too many waiting transactions.
    Busy,
    /// Keys that are too large or too many.
    TooLarge,
    /// Executed before; the reply is lost.
    Before,
    /// A member cannot lend the keys of such a command.
    Unsupported,
}

petrel_persistence::records! {
    /// A record.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub enum Record<'a> {
        /// Changes of one commit.
        1 Effects {
            /// The forwarded command that made them, if any.
            tag: Option<Tag> as When<FIRST, TagField>,
            /// All positions of the commit, if there are several; this one is the first.
            parts: Parts<'a> as WhenAny<LANE_LIST, PartList>,
            /// Blocked commands that this commit executed.
            served: Tags<'a> as WhenAny<MORE, TagList>,
            /// The effects, encoded as in `petrel_persistence::effects`.
            group: &'a [u8] as Rest
        };
        /// Place of a commit in another of its lanes.
        2 Part {
            /// All positions of the commit; the first has the effects.
            parts: Parts<'a> as PartList
        };
        /// A command that the receiver is to execute.
        3 Exec(exec: Exec<'a> as ExecField);
        /// Answer to a forwarded command. The client gets it once everything before it in this lane
        /// was applied, and the positions `waits` of other lanes.
        4 Answer {
            /// The slot that orders the command.
            slot: Slot as SlotField,
            /// Sequence number of the command.
            oseq: u64 as Number,
            /// Positions of the sender's other lanes that the command has observed.
            waits: Parts<'a> as WhenAny<LANE_LIST, PartList>,
            /// The reply; none if a node that has died executed the command before it answered.
            reply: Option<&'a [u8]> as Reply
        };
        /// End of an epoch: the following records were appended in the view `epoch`. The sender
        /// orders no more changes of slots of which it is not primary in that view.
        5 End {
            /// The view's epoch.
            epoch: u64 as Number
        };
        /// An unstable record of a dead node's lane.
        6 Tail {
            /// The dead node.
            of: Identity as IdentityField,
            /// Position of the record.
            seq: u64 as Number,
            /// The record: effects, a part or an end.
            record: &'a [u8] as Rest
        } if is_ordered(record);
        /// End of the sender's unstable records of a lane of a dead node.
        7 TailEnd {
            /// The dead node.
            of: Identity as IdentityField,
            /// Epoch of the view in which they were requested.
            epoch: u64 as Number,
            /// The sender knows the lane up to this position.
            upto: u64 as Number,
            /// All members have applied the lane up to this position, as the sender knows.
            stable: u64 as Number,
            /// Whether the sender has completed the recovery: then this is the decided end of the
            /// lane.
            is_reconciled: bool as Flag<FIRST>
        };
        /// The sender has completed the recovery of a dead node's lanes.
        8 Reconciled {
            /// The dead node.
            of: Identity as IdentityField
        };
        /// A message for the subscribers of a channel, delivered at most once.
        9 Message {
            /// Whether it is a shard channel.
            is_sharded: bool as Flag<FIRST>,
            /// The channel.
            channel: &'a [u8] as Text,
            /// The message.
            payload: &'a [u8] as Rest
        };
        /// A forwarded command is blocked at its primary.
        10 Parked {
            /// The slot that orders the command.
            slot: Slot as SlotField,
            /// Sequence number of the command.
            oseq: u64 as Number,
            /// Milliseconds until its timeout, if it has one.
            left_ms: Option<u64> as Maybe
        };
        /// End of such a wait. The primary alone decides it, once.
        11 Woken {
            /// The slot that orders the command.
            slot: Slot as SlotField,
            /// Sequence number of the command.
            oseq: u64 as Number,
            /// Positions of the sender's other lanes that the command has observed.
            waits: Parts<'a> as WhenAny<LANE_LIST, PartList>,
            /// The reply; none if the command was not executed and has to be forwarded again.
            reply: Option<&'a [u8]> as Reply
        };
        /// The origin requests the end of a wait.
        12 Cancel {
            /// The slot that orders the command.
            slot: Slot as SlotField,
            /// Sequence number of the command.
            oseq: u64 as Number,
            /// The reason.
            end: WaitEnd as End
        };
        /// A client of the sender has ended its `WATCH` (`Call::client`).
        13 Unwatch {
            /// Identifies the watched keys.
            client: u64 as Number
        };
        /// Begin of a transfer: the requested data of slots contain everything before this position
        /// of the lane, and nothing after it.
        14 SlotsBegin {
            /// Number of the receiver's request.
            number: u64 as Number
        };
        /// All members have applied the contents of those data.
        15 SlotsKnown {
            /// Number of the receiver's request.
            number: u64 as Number
        };
        /// A copy of a key for a member that does not own its slot, and is sent its changes from
        /// here on.
        16 Copy {
            /// A single effect, which stores the key.
            group: &'a [u8] as Rest
        };
        /// Invalidation: the key was changed, the receiver drops its copy and is sent no more
        /// changes of it.
        17 Invalidate {
            /// Database of the key.
            db: u16 as Short,
            /// The key.
            key: &'a [u8] as Rest
        };
        /// The sender has no copy of a key, and needs no more changes of it.
        18 NoCopy {
            /// Database of the key.
            db: u16 as Short,
            /// The key.
            key: &'a [u8] as Rest
        };
        /// Durability request, in each lane: the sender asks when everything before it, in all
        /// lanes, is on the receiver's disk.
        19 DurableAsked {
            /// Number of the sender's request; later ones have larger numbers.
            number: u64 as Number
        };
        /// Answer: everything before this request of the receiver, and before all earlier ones, is
        /// on the sender's disk.
        20 Durable {
            /// Number of the request.
            number: u64 as Number
        };
        /// Effects of a command that the receiver has forwarded, without some of its arguments.
        21 Elided {
            /// Places and indexes of the elided arguments.
            pieces: Pieces<'a> as PieceList,
            /// The record without them.
            rest: &'a [u8] as Rest
        };
        /// Effects of a command that the receiver has forwarded, of a slot that it does not own. It
        /// keeps them for a recovery until all members have applied them.
        22 Kept {
            /// Distance to the slot's previous change in the lane; 0 if there is none.
            back: u64 as Number,
            /// The effects, perhaps without some arguments.
            record: &'a [u8] as Rest
        } if is_effects(record) || is_elided(record);
        /// Changes of one commit in several slots, where members hold only some slots. All
        /// receivers of any of these slots receive it, and apply it to the slots that they hold.
        23 Commit {
            /// The forwarded command that made them, if any.
            tag: Option<Tag> as When<FIRST, TagField>,
            /// Blocked commands that this commit executed.
            served: Tags<'a> as WhenAny<MORE, TagList>,
            /// The decision of which these changes are a part, for a transaction of several
            /// primaries.
            decision: &'a [u8] as WhenAny<LANE_LIST, DecisionField>,
            /// All positions of the commit; this one is the first.
            parts: Parts<'a> as PartList,
            /// The changes, by slot.
            changes: Changes<'a> as ChangeList
        };
        /// Place of such a commit in another of its lanes.
        24 CommitPart {
            /// All positions of the commit; the first has the changes.
            parts: Parts<'a> as PartList,
            /// Slots of the commit in this lane.
            slots: Slots<'a> as SlotList
        };
        /// A transaction of several primaries on its way through them, in the order of their
        /// numbers. The last one executes it.
        25 Chain {
            /// The node that forwarded it.
            origin: Identity as IdentityField,
            /// Number of the attempt.
            attempt: u64 as Number,
            /// Keys that earlier primaries lend, each one's with its first slot and, as distance,
            /// its number.
            lent: Changes<'a> as ChangeList,
            /// The transaction, as a record of a forwarded command.
            exec: &'a [u8] as Rest
        } if is_exec(exec);
        /// A decision: from the executor, or from a survivor of a death.
        26 Decided {
            /// A record of that kind.
            decision: &'a [u8] as Rest
        } if is_decision(decision);
        /// End of an attempt: it was not and will not be executed. For the primaries that lend to
        /// it, and its origin.
        27 Refused {
            /// The transaction.
            tag: Tag as TagField,
            /// Number of the attempt.
            attempt: u64 as Number,
            /// The reason.
            reason: Refusal as Reason
        };
        /// A member that lends to an attempt asks the executor: it is decided, or never will be.
        28 Recall {
            /// The transaction.
            tag: Tag as TagField,
            /// Number of the attempt.
            attempt: u64 as Number
        };
        /// Slots on loan that the sender loses; their next primary inherits the loan. Precedes the
        /// sender's end of the epoch.
        29 Lent {
            /// The transaction.
            tag: Tag as TagField,
            /// Number of the attempt.
            attempt: u64 as Number,
            /// The executor.
            executor: Identity as IdentityField,
            /// The slots.
            slots: Slots<'a> as SlotList
        };
        /// The parts of a decision in these slots are numbered, and all members have them; or the
        /// question whether that is so.
        30 Numbered {
            /// The executor of the decision.
            executor: Identity as IdentityField,
            /// Number of the decision.
            number: u64 as Number,
            /// Whether it is the question.
            is_asked: bool as Flag<FIRST>,
            /// The slots.
            slots: Slots<'a> as SlotList
        };
        /// Decision on a transaction of several primaries; within other records.
        31 Decision {
            /// The executor.
            executor: Identity as IdentityField,
            /// Number among the executor's decisions.
            number: u64 as Number,
            /// Epoch of the executor's view.
            epoch: u64 as Number,
            /// The transaction.
            tag: Tag as TagField,
            /// Number of the attempt.
            attempt: u64 as Number,
            /// The changes, by slot; none in slots that were only read.
            changes: Changes<'a> as ChangeList,
            /// The reply; none if it is too long for members other than the origin.
            reply: Option<&'a [u8]> as Reply
        };
        /// What clients of the sender want to hear of changes made elsewhere, instead of what they
        /// wanted before. In every lane, so that it precedes their later commands.
        32 Interests {
            /// Classes of keyspace events.
            events: u64 as Number,
            /// Prefixes of keys that they track.
            prefixes: Texts<'a> as TextList
        };
        /// A key changed that clients of the receiver track.
        33 Changed {
            /// Whether they track its prefix; otherwise they have read it.
            is_broadcast: bool as Flag<FIRST>,
            /// Number of the receiver's client that changed it, if known.
            writer: Option<u64> as Maybe,
            /// The database.
            db: u16 as Short,
            /// The key.
            key: &'a [u8] as Rest
        };
        /// A keyspace event that clients of the receiver may want to hear of.
        34 Event {
            /// The database.
            db: u16 as Short,
            /// Its name, such as `lpush`.
            name: &'a [u8] as Text,
            /// The key.
            key: &'a [u8] as Text,
            /// Fields of a hash.
            fields: Texts<'a> as TextList
        };
    }
}

/// Appends a record in the form that a lane keeps: without length and gap.
pub fn put_record(out: &mut Vec<u8>, record: &Record<'_>) {
    let at = out.len();
    match record.number() {
        number @ RARE.. => out.extend_from_slice(&[0, number - RARE]),
        number => out.push(number),
    }
    let flags = record.put(out);
    debug_assert!(flags & (NUMBER | GAP) == 0, "{record:?}");
    out[at] |= flags;
    debug_assert_eq!(Record::read(&out[at..]).as_ref(), Ok(record));
}

/// Appends [`Record::Exec`] with the sequence numbers and the tenure of [`Exec`].
pub(crate) fn put_exec_record(out: &mut Vec<u8>, numbers: (u64, u64, u64), call: &Call) {
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    let flags = flag(call.is_transaction, FIRST) | flag(call.resp3, LANE_LIST);
    out.push(numbers::Exec | flags | flag(has_more(call), MORE));
    put_exec(out, numbers, call);
}

/// Checks a record as [`Record::read`] does, without memory for its parts.
///
/// # Errors
/// If the bytes are malformed.
pub(crate) fn check(record: &[u8]) -> Result<(), Malformed> {
    match is_exec(record) {
        true => key_of_exec(record).map(drop),
        false => Record::read(record).map(drop),
    }
}

/// Database and second word of a forwarded command.
///
/// # Errors
/// If the bytes are malformed.
pub(crate) fn key_of_exec(record: &[u8]) -> Result<(u16, &[u8]), Malformed> {
    let (head, rest) = record.split_first().ok_or(Malformed)?;
    let mut bytes = Bytes(rest);
    let flags = (head & FIRST != 0, head & LANE_LIST != 0, head & MORE != 0);
    let key = check_exec(&mut bytes, flags)?;
    if bytes.0.is_empty() && head & GAP == 0 { Ok(key) } else { Err(Malformed) }
}

impl<'a> Record<'a> {
    /// Decodes what [`put_record`] has written.
    ///
    /// # Errors
    /// If the bytes are malformed. The contents of effects are not checked.
    pub fn read(record: &'a [u8]) -> Result<Self, Malformed> {
        let mut bytes = Bytes(record);
        let head = bytes.byte()?;
        let number = match head & NUMBER {
            0 => bytes.byte()?.checked_add(RARE).ok_or(Malformed)?,
            number => number,
        };
        // A gap is no flag of any record.
        let mut source = Source::new(bytes.0, head & !NUMBER);
        let record = Record::take(number, &mut source)?;
        source.end().map(|()| record)
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
    put_joined_with_gap(out, gap, (&[], record));
}

/// Like [`put_with_gap`], for a record in two pieces. The first one may be empty.
pub(crate) fn put_joined_with_gap(out: &mut Vec<u8>, gap: u64, (first, rest): (&[u8], &[u8])) {
    let (head, body, rest) = match (first.split_first(), rest.split_first()) {
        (Some((head, body)), _) => (*head, body, rest),
        (None, Some((head, rest))) => (*head, first, rest),
        (None, None) => return,
    };
    let len = 1 + body.len() + rest.len();
    if gap == 1 {
        put(out, len as u64);
        out.push(head);
    } else {
        put(out, (len + len_of_number(gap)) as u64);
        out.push(head | GAP);
        put(out, gap);
    }
    out.extend_from_slice(body);
    out.extend_from_slice(rest);
}

/// Whether a record is part of the slot order, which all receivers share; others concern two nodes.
pub(crate) fn is_ordered(record: &[u8]) -> bool {
    is_one_of(record, &[numbers::Effects, numbers::Part, numbers::End])
        || is_kept(record)
        || is_of_commit(record)
}

/// Whether a record belongs to a commit of several slots.
pub(crate) fn is_of_commit(record: &[u8]) -> bool {
    is_rare(record, numbers::Commit) || is_rare(record, numbers::CommitPart)
}

/// Whether a record is a decision on a transaction of several primaries.
pub(crate) fn is_decision(record: &[u8]) -> bool {
    is_rare(record, numbers::Decision)
}

/// Whether a record is a forwarded command.
pub(crate) fn is_exec(record: &[u8]) -> bool {
    is_one_of(record, &[numbers::Exec])
}

/// Whether a record may hold a decision.
pub(crate) fn may_hold_decision(record: &[u8]) -> bool {
    is_rare(record, numbers::Decided) || is_rare(record, numbers::Commit)
}

/// Whether a record has the effects of a commit.
pub(crate) fn is_effects(record: &[u8]) -> bool {
    is_one_of(record, &[numbers::Effects])
}

/// Whether arguments of a record were elided.
pub(crate) fn is_elided(record: &[u8]) -> bool {
    is_rare(record, numbers::Elided)
}

/// Whether a record is [`Record::Kept`].
pub(crate) fn is_kept(record: &[u8]) -> bool {
    is_rare(record, numbers::Kept)
}

fn is_rare(record: &[u8], number: u8) -> bool {
    is_one_of(record, &[0]) && record.get(1) == Some(&(number - RARE))
}

/// Maximum length of [`kept_head`]: head, number, and the longest distance.
const KEPT_HEAD_MAX: usize = 12;

/// Head of [`Record::Kept`]: everything before the effects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeptHead {
    bytes: [u8; KEPT_HEAD_MAX],
    len: u8,
}

impl KeptHead {
    pub fn new(back: u64) -> Self {
        let (mut head, mut number) = (KeptHead::default(), Vec::with_capacity(KEPT_HEAD_MAX));
        number.extend_from_slice(&[0, numbers::Kept - RARE]);
        put(&mut number, back);
        head.bytes[..number.len()].copy_from_slice(&number);
        head.len = number.len() as u8;
        head
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// Tag of the command that made the effects, and the offset at which it ends. The record may be
/// incomplete after the tag.
pub(crate) fn tag_of_effects(record: &[u8]) -> Option<(Tag, usize)> {
    let (head, rest) = record.split_first()?;
    if head & NUMBER != numbers::Effects || head & FIRST == 0 {
        return None;
    }
    let mut rest = Bytes(rest);
    let tag = take_tag(&mut rest).ok()?;
    Some((tag, record.len() - rest.0.len()))
}

/// Whether a record is about the recovery of a dead node's lanes.
pub(crate) fn is_of_dead(record: &[u8]) -> bool {
    is_one_of(record, &[numbers::Tail, numbers::TailEnd, numbers::Reconciled])
}

fn is_one_of(record: &[u8], kinds: &[u8]) -> bool {
    record.first().is_some_and(|head| kinds.contains(&(head & NUMBER)))
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
