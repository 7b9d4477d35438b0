//! Links to other nodes: handles received frames, and assembles the frames to send.

use super::copy::{Fetch, put_resumes};
use super::{Host, Node, Reply};
use crate::elide_args;
use crate::inbox::Inbox;
use crate::lane::Put;
use crate::lanes::{CutOff, lane_of};
use crate::origin::Finished;
use crate::slot_map::Node as Number;
use crate::wire::{
    ACKNOWLEDGE_AT_ONCE, Batch, Frame, FrameReader, Hello, IS_FULL, KNOWS_INTERESTS, LANES, Record,
    Tag, begin_frame, end_batches, put_frame, take_batch,
};
use std::fmt;

/// State of an open link.
pub(super) struct Link {
    reader: FrameReader,
    announced: Announced,
    /// Frames to be sent before batches.
    pub(super) first: Vec<u8>,
    /// First lane of the next round.
    turn: usize,
    /// `CUT_OFF` was sent.
    is_cut_off: bool,
    /// Acknowledged positions of the other side's lanes, as sent on this link.
    acknowledged: [u64; LANES],
    /// The last batches requested immediate acknowledgement.
    has_asked: bool,
    /// The last batches said that this node has reached its memory limit.
    has_said_full: bool,
}

/// State that the other side has announced.
#[derive(Default)]
struct Announced {
    /// `HELLO` has identified it.
    is_identified: bool,
    /// Positions of this node's lanes that it has acknowledged.
    acknowledged: [u64; LANES],
    /// The other side has requested immediate acknowledgement.
    wants_acks: bool,
}

/// Policy for sending acknowledgements.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Acknowledge {
    /// Immediately.
    Now,
    /// Together with records, or when the receiver has requested them.
    WithRecords,
}

/// Result of [`Node::send`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SendOutcome {
    /// Whether anything was appended.
    pub is_any: bool,
    /// Whether acknowledgements are still to be sent.
    pub owes_acks: bool,
}

/// Reason to close a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkError {
    /// The link does not exist.
    NoLink,
    /// A frame was malformed or not allowed at this point.
    Malformed,
    /// The other side is not a member, or another one than expected.
    NotMember,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkError::NoLink => "there is no link to the node",
            LinkError::Malformed => "what the node sends is not what belongs there",
            LinkError::NotMember => "the other side is not the member that it should be",
        })
    }
}

impl std::error::Error for LinkError {}

/// Result of [`Node::receive`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// All complete frames were handled.
    All,
    /// The next frame belongs to a later view. Nothing more may be read from the link before that
    /// view is adopted.
    Early,
}

impl Node {
    /// Opens a link to a member, and replaces any earlier one.
    pub fn link(&mut self, node: Number) {
        let Some(peer) = self.view.member(node).filter(|peer| *peer != self.identity) else {
            return;
        };
        let mut first = Vec::new();
        let hello = Frame::Hello(Hello { identity: self.identity });
        put_frame(&mut first, 0, self.view.epoch, &hello);
        let has_positions = !self.has_no_positions();
        let inboxes = self.inboxes.get(&peer).map(Vec::as_slice).unwrap_or_default();
        if has_positions {
            put_resumes(&mut first, self.view.epoch, inboxes);
        }
        self.end_copies(node);
        self.end_transfers(node);
        // Slots may be waiting for this primary.
        self.is_unblocked |= self.holdings.is_some();
        for lane in 0..LANES {
            self.lanes.lane(lane).interrupt(node);
        }
        let reader = FrameReader::new(self.limits.frame);
        let link = Link {
            reader,
            announced: Announced::default(),
            first,
            turn: 0,
            is_cut_off: false,
            // The last acknowledgement may have been lost with the previous link.
            acknowledged: [0; LANES],
            has_asked: false,
            has_said_full: false,
        };
        self.links.insert(node, link);
    }

    /// Closes the link to a node. Everything received stays valid; the next link resumes after it.
    pub fn unlink(&mut self, node: Number) {
        self.links.remove(&node);
        self.note_full(node, false);
        self.end_copies(node);
        self.end_transfers(node);
        for lane in 0..LANES {
            self.lanes.lane(lane).interrupt(node);
        }
    }

    /// Gives up commands that were sent to an unreachable node which no view has removed yet. Their
    /// clients get an error that the commands may have been executed, and records that the node has
    /// not received yet are withdrawn. Commands that are blocked there keep waiting. Returns the
    /// number of commands given up.
    pub fn give_up(&mut self, node: Number) -> usize {
        let tokens = self.origin.give_up(node);
        if tokens.is_empty() {
            return 0;
        }
        for (slot, oseq, position) in self.origin.given_up(|sent| sent.to == node) {
            let is_it = |record: &[u8]| match Record::read(record) {
                Ok(Record::Exec(exec)) => (exec.call.slots[0], exec.oseq) == (slot, oseq),
                _ => false,
            };
            self.lanes.lane(lane_of(slot)).withdraw(node, position, is_it);
        }
        self.replies.extend(tokens.iter().map(|&token| (token, Reply::Unknown)));
        tokens.len()
    }

    /// Forgets given-up commands that a node had not received: they were withdrawn and will not be
    /// executed.
    fn forget_withdrawn(&mut self, node: Number, lane: usize, received: u64) {
        let withdrawn = self.origin.given_up(|sent| sent.to == node && sent.position > received);
        for (slot, oseq, _) in withdrawn.into_iter().filter(|(slot, ..)| lane_of(*slot) == lane) {
            // The keys watched for its transaction need not be watched any more.
            if let Some(Finished::GivenUp { watches: Some(watches), is_transaction: true }) =
                self.origin.finish(slot, oseq)
            {
                self.end_watches_at(slot, watches);
            }
        }
    }

    /// Whether there is a link to the node.
    pub fn is_linked(&self, node: Number) -> bool {
        self.links.contains_key(&node)
    }

    /// Handles bytes received from a node. Call it with none after a new view.
    ///
    /// # Errors
    /// If the link has to be closed.
    pub fn receive(
        &mut self,
        from: Number,
        bytes: &[u8],
        host: &mut dyn Host,
    ) -> Result<Received, LinkError> {
        let mut link = self.links.remove(&from).ok_or(LinkError::NoLink)?;
        link.reader.push(bytes);
        let received = self.take_frames(from, &mut link, host);
        if received.is_ok() {
            self.links.insert(from, link);
        }
        self.limit_waiting();
        self.answer_held(self.identity);
        self.reconcile(host);
        self.flush(host);
        if received.is_err() {
            self.unlink(from);
        }
        received
    }

    fn take_frames(
        &mut self,
        from: Number,
        link: &mut Link,
        host: &mut dyn Host,
    ) -> Result<Received, LinkError> {
        loop {
            let next = link.reader.next().map_err(|_| LinkError::Malformed)?;
            let Some((len, lane, epoch, frame)) = next else { return Ok(Received::All) };
            // Compares the low 16 bits: epochs on a link are close to each other.
            let ahead = epoch.wrapping_sub(self.view.epoch as u16) as i16;
            if ahead > 0 {
                return Ok(Received::Early);
            }
            let is_partial = self.holdings.is_some();
            match frame {
                Frame::FetchSlots { .. } | Frame::SlotsFollow { .. } | Frame::Copy { .. }
                    if is_partial && link.announced.is_identified =>
                {
                    let peer = self.view.member(from).ok_or(LinkError::NotMember)?;
                    self.take_slots_frame(peer, &frame, host)?;
                }
                Frame::Fetch | Frame::Positions(_) | Frame::Copy { .. }
                    if link.announced.is_identified =>
                {
                    let peer = self.view.member(from).ok_or(LinkError::NotMember)?;
                    self.take_copy_frame(peer, &frame, (&mut link.first, host))?;
                }
                _ => self.take_frame(from, lane.into(), frame, &mut link.announced)?,
            }
            link.reader.consume(len);
            if let Some(peer) = self.view.member(from) {
                self.prefetch(peer, host);
                self.advance(peer, host);
            }
        }
    }

    fn take_frame(
        &mut self,
        from: Number,
        lane: usize,
        frame: Frame<'_>,
        announced: &mut Announced,
    ) -> Result<(), LinkError> {
        let peer = self.view.member(from).ok_or(LinkError::NotMember)?;
        match frame {
            Frame::Hello(hello) => {
                announced.is_identified = true;
                if hello.identity == peer { Ok(()) } else { Err(LinkError::NotMember) }
            }
            _ if !announced.is_identified => Err(LinkError::NotMember),
            Frame::Resume { received } => {
                let number = lane;
                let mut lane = self.lanes.lane(number);
                let received = match received {
                    // A node that joined later does not know where the lane begins for it.
                    0 if self.holdings.is_some() => lane.begin_of(from),
                    received => received,
                };
                let can_be = lane.resume(from, received);
                drop(lane);
                self.forget_withdrawn(from, number, received);
                can_be.then_some(()).ok_or(LinkError::Malformed)
            }
            Frame::Batches(mut batches) => {
                let flags = lane as u8;
                announced.wants_acks = flags & ACKNOWLEDGE_AT_ONCE != 0;
                self.note_full(from, flags & IS_FULL != 0);
                if flags & KNOWS_INTERESTS != 0 {
                    self.knowing = self.knowing.with(from);
                }
                while !batches.is_empty() {
                    let taken = take_batch(&mut batches).map_err(|_| LinkError::Malformed)?;
                    self.take_batch(from, taken.0.into(), &taken.1, announced)?;
                }
                Ok(())
            }
            Frame::CutOff => {
                self.copies.is_cut_off = true;
                Ok(())
            }
            Frame::Fetch
            | Frame::Positions(_)
            | Frame::Copy { .. }
            | Frame::FetchSlots { .. }
            | Frame::SlotsFollow { .. } => Err(LinkError::Malformed),
        }
    }

    fn take_batch(
        &mut self,
        from: Number,
        lane: usize,
        batch: &Batch<'_>,
        announced: &mut Announced,
    ) -> Result<(), LinkError> {
        let peer = self.view.member(from).ok_or(LinkError::NotMember)?;
        if let Some(more) = batch.applied {
            let applied =
                announced.acknowledged[lane].checked_add(more).ok_or(LinkError::Malformed)?;
            announced.acknowledged[lane] = applied;
            if !self.lanes.acknowledge(lane, from, applied) {
                return Err(LinkError::Malformed);
            }
        }
        let Node { identity, inboxes, dead, is_unblocked, origin, limits, decisions, .. } = self;
        let inbox = inboxes.get_mut(&peer).and_then(|inboxes| inboxes.get_mut(lane));
        let inbox: &mut Inbox = inbox.ok_or(LinkError::NotMember)?;
        // Records about dead members are handled on arrival, since other lanes wait for them.
        let mut restored_bytes = 0;
        let restore = |record: &Record<'_>| {
            let restored = elide_args::restore(record, |tag| {
                if tag.origin == *identity { origin.call(tag.slot, tag.oseq) } else { None }
            })?;
            // Each argument is restored once, so the total is bounded by the forwarded bytes.
            restored_bytes += restored.len();
            (restored_bytes <= limits.frame).then_some(restored)
        };
        let taken = inbox.take(batch, restore, |record| {
            let decision = match *record {
                Record::Decided { decision } | Record::Commit { decision, .. } => decision,
                Record::Tail { record, .. } => match Record::read(record) {
                    Ok(Record::Commit { decision, .. }) => decision,
                    _ => &[],
                },
                _ => &[],
            };
            let is_awaited =
                |tag: Tag| tag.origin == *identity && origin.call(tag.slot, tag.oseq).is_some();
            *is_unblocked |= !decision.is_empty() && decisions.learn(decision, is_awaited);
            let of = match record {
                Record::Tail { of, .. }
                | Record::TailEnd { of, .. }
                | Record::Reconciled { of } => *of,
                _ => return,
            };
            let Some(dead) = dead.iter_mut().find(|dead| dead.identity == of) else {
                return;
            };
            *is_unblocked = true;
            match *record {
                Record::Tail { seq, record, .. } => dead.record(lane, from, (seq, record)),
                Record::TailEnd { epoch, upto, stable, is_reconciled, .. }
                    if epoch == dead.epoch =>
                {
                    dead.record_end(lane, from, (upto, stable), is_reconciled);
                }
                Record::Reconciled { .. } => dead.reconciled_by = dead.reconciled_by.with(from),
                _ => {}
            }
        });
        taken.map_err(|_| LinkError::Malformed)
    }

    /// Sets whether members shall acknowledge immediately, because something here waits until all
    /// have applied a position.
    pub fn want_acks(&mut self, wants_acks: bool) {
        self.wants_acks = wants_acks;
    }

    /// Lets the next frames for a node begin with this lane.
    #[cfg(feature = "mutations")]
    pub fn begin_with(&mut self, to: Number, lane: usize) {
        self.links.get_mut(&to).into_iter().for_each(|link| link.turn = lane);
    }

    /// Appends the frames for a node, of about `budget` bytes.
    pub fn send(
        &mut self,
        to: Number,
        budget: usize,
        acknowledge: Acknowledge,
        out: &mut Vec<u8>,
    ) -> SendOutcome {
        let before = out.len();
        let nothing = SendOutcome { is_any: false, owes_acks: false };
        let Some(peer) = self.view.member(to) else { return nothing };
        let Some(link) = self.links.get_mut(&to) else { return nothing };
        out.append(&mut link.first);
        let Some(inboxes) = self.inboxes.get(&peer) else {
            return SendOutcome { is_any: out.len() > before, ..nothing };
        };
        let waits = self.copies.fetch.is_some();
        // A link that has begun since the copy failed has no `RESUME`.
        let has_failed = self.copies.fetch == Some(Fetch::Failed);
        let news = |inbox: &Inbox, said: u64| {
            let more = inbox.acknowledged(waits).checked_sub(said).filter(|more| *more > 0);
            more.filter(|_| !has_failed)
        };
        let (mut is_cut_off, mut has_changes) = (false, false);
        let is_full = self.is_full;
        let asks = self.wants_acks && !link.has_asked || is_full != link.has_said_full;
        let with_acks = acknowledge == Acknowledge::Now || link.announced.wants_acks || asks;
        let start = begin_frame(out);
        let (body, mut owed) = (out.len(), 0u16);
        for lane in (0..LANES).map(|step| (link.turn + step) % LANES) {
            let said = &mut link.acknowledged[lane];
            let news = news(&inboxes[lane], *said);
            if out.len() - body >= budget {
                owed |= u16::from(news.is_some()) << lane;
                continue;
            }
            match self.lanes.put_batch((lane, to), (news, with_acks), self.limits.batch, out) {
                Ok(Put::Batch { has_changes: changes }) => {
                    *said += news.unwrap_or(0);
                    has_changes |= changes;
                }
                Ok(Put::Later) => owed |= 1 << lane,
                Ok(Put::Nothing) => {}
                Err(CutOff) => is_cut_off = true,
            }
        }
        // Acknowledgements of other lanes go along with records.
        let late = if out.len() == body || with_acks { 0 } else { owed };
        for lane in (0..LANES).filter(|lane| late >> lane & 1 != 0) {
            let said = &mut link.acknowledged[lane];
            let news = news(&inboxes[lane], *said);
            if let Ok(Put::Batch { .. }) = self.lanes.put_batch((lane, to), (news, true), 0, out) {
                *said += news.unwrap_or(0);
                owed &= !(1 << lane);
            }
        }
        if out.len() > body || asks {
            // Clients wait until another owner has applied the changes.
            let is_urgent = self.wants_acks || has_changes && self.lanes.is_acknowledged();
            end_batches(out, start, flags_of(is_urgent, is_full), self.view.epoch);
            link.has_said_full = is_full;
        } else {
            out.truncate(start);
        }
        link.has_asked = self.wants_acks;
        if is_cut_off && !std::mem::replace(&mut link.is_cut_off, true) {
            put_frame(out, 0, self.view.epoch, &Frame::CutOff);
        }
        link.turn = (link.turn + 1) % LANES;
        SendOutcome { is_any: out.len() > before, owes_acks: owed != 0 }
    }
}

/// Flags of a frame of batches.
fn flags_of(is_urgent: bool, is_full: bool) -> u8 {
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    flag(is_urgent, ACKNOWLEDGE_AT_ONCE) | flag(is_full, IS_FULL) | KNOWS_INTERESTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Limits;
    use crate::wire::positions::LanePosition;
    use crate::{Identity, SlotMap, View};

    #[test]
    fn a_member_without_its_copy_acknowledges_nothing() {
        let identity = |node| Identity { node: Number(node), incarnation: 1 };
        let view = View {
            epoch: 1,
            members: vec![identity(0), identity(1)],
            slots: SlotMap::collect(|_| &[Number(0)]),
            incoming: None,
        };
        let mut node = Node::joining(identity(1), view, Limits::default());
        let begun = |_| LanePosition { applied: 5, end_epoch: 1, stable: 5, tail: Vec::new() };
        let inboxes = node.inboxes.get_mut(&identity(0)).unwrap();
        inboxes.iter_mut().for_each(|inbox| inbox.begin_at(begun(())));
        // The copy was lost with the link, and another one begins.
        node.copies.fetch = Some(Fetch::Failed);
        node.link(Number(0));
        assert!((0..LANES).all(|lane| node.lanes.lane(lane).resume(Number(0), 0)));
        let mut send = || node.send(Number(0), 1 << 20, Acknowledge::Now, &mut Vec::new());
        // `HELLO`.
        assert!(send().is_any);
        assert_eq!(send(), SendOutcome { is_any: false, owes_acks: false });
    }
}
