//! Links to other nodes: what arrives on them, and what is to be sent.

use super::copy::put_resumes;
use super::{Host, Node, Reply};
use crate::inbox::Inbox;
use crate::lanes::{CutOff, lane_of};
use crate::origin::Finished;
use crate::shorten;
use crate::slot_map::Node as Number;
use crate::wire::{
    ACKNOWLEDGE_AT_ONCE, Batch, Frame, FrameReader, Hello, LANES, Record, begin_frame, end_batches,
    put_frame, take_batch,
};
use std::fmt;

/// A link that is up.
pub(super) struct Link {
    reader: FrameReader,
    heard: Heard,
    /// What is to be sent before anything else.
    pub(super) first: Vec<u8>,
    /// The lane that is looked at first.
    turn: usize,
    /// The other side was sent that it is cut off.
    is_cut_off: bool,
    /// What the other side was sent of its lanes: they were applied up to here.
    acknowledged: [u64; LANES],
    /// It was sent that acknowledgements are wanted at once.
    has_asked: bool,
}

/// What the other side of a link has said.
#[derive(Default)]
struct Heard {
    /// Which member it is.
    is_greeted: bool,
    /// It has applied the lanes up to here.
    acknowledged: [u64; LANES],
    /// It waits for acknowledgements.
    wants_acks: bool,
}

/// When to send what was applied of the receiver's lanes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Acknowledge {
    /// Now.
    Now,
    /// With records, or when the receiver waits for it.
    WithRecords,
}

/// What there was to be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SendOutcome {
    /// Something was.
    pub is_any: bool,
    /// What was applied of the receiver's lanes is still to be sent.
    pub owes_acks: bool,
}

/// Why a link is to be closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkError {
    /// There is no such link.
    NoLink,
    /// Something arrived that is no frame, or not what belongs there.
    Malformed,
    /// The other side is no member, or not the one that it should be.
    Stranger,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkError::NoLink => "there is no link to the node",
            LinkError::Malformed => "what the node sends is not what belongs there",
            LinkError::Stranger => "the other side is not the member that it should be",
        })
    }
}

impl std::error::Error for LinkError {}

/// What became of bytes that have arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Received {
    /// All whole frames were taken.
    All,
    /// The next frame belongs to a view that was not adopted yet: nothing more is to be read from
    /// the link before it is.
    Early,
}

impl Node {
    /// A new link to a member begins, in place of any before.
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
        // Its data may be asked for.
        self.is_unblocked |= self.holdings.is_some();
        for lane in 0..LANES {
            self.lanes.lane(lane).interrupt(node);
        }
        let reader = FrameReader::new(self.limits.frame);
        let link = Link {
            reader,
            heard: Heard::default(),
            first,
            turn: 0,
            is_cut_off: false,
            // The last acknowledgement may have been lost on the way.
            acknowledged: [0; LANES],
            has_asked: false,
        };
        self.links.insert(node, link);
    }

    /// The link to a node has ended. What it has sent stands; it goes on with the next link.
    pub fn unlink(&mut self, node: Number) {
        self.links.remove(&node);
        self.end_copies(node);
        self.end_transfers(node);
        for lane in 0..LANES {
            self.lanes.lane(lane).interrupt(node);
        }
    }

    /// The link to a node has ended and none follows, nor does a view say what has become of the
    /// node: the clients whose commands were sent to it hear that they may have been executed. What
    /// it has not received by now it does not get. Commands that wait there for their keys go on to
    /// wait. How many were given up.
    pub fn give_up(&mut self, node: Number) -> usize {
        let tokens = self.origin.give_up(node);
        if tokens.is_empty() {
            return 0;
        }
        for (slot, oseq, position) in self.origin.given_up(|sent| sent.to == node) {
            let is_it = |record: &[u8]| match Record::read(record) {
                Ok(Record::Exec(exec)) => (exec.slots[0], exec.oseq) == (slot, oseq),
                _ => false,
            };
            self.lanes.lane(lane_of(slot)).withdraw(node, position, is_it);
        }
        self.replies.extend(tokens.iter().map(|&token| (token, Reply::Unknown)));
        tokens.len()
    }

    /// A node has received everything up to this position of a lane: of commands that were given up
    /// those behind it were withdrawn.
    fn forget_withdrawn(&mut self, node: Number, lane: usize, received: u64) {
        let withdrawn = self.origin.given_up(|sent| sent.to == node && sent.position > received);
        for (slot, oseq, _) in withdrawn.into_iter().filter(|(slot, ..)| lane_of(*slot) == lane) {
            // The keys that its client has watched for it are watched in vain.
            if let Some(Finished::GivenUp { watches: Some(watches), is_transaction: true }) =
                self.origin.finish(slot, oseq)
            {
                self.end_watches_at(slot, watches);
            }
        }
    }

    /// Whether there is a link.
    pub fn is_linked(&self, node: Number) -> bool {
        self.links.contains_key(&node)
    }

    /// Takes bytes that have arrived from a node, or none after a new view.
    ///
    /// # Errors
    /// If the link is to be closed.
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
        self.settle(host);
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
            // The low bits of two numbers that are not far apart.
            let ahead = epoch.wrapping_sub(self.view.epoch as u16) as i16;
            if ahead > 0 {
                return Ok(Received::Early);
            }
            let is_partial = self.holdings.is_some();
            match frame {
                Frame::FetchSlots { .. } | Frame::SlotsFollow { .. } | Frame::Copy { .. }
                    if is_partial && link.heard.is_greeted =>
                {
                    let peer = self.view.member(from).ok_or(LinkError::Stranger)?;
                    self.take_slots_frame(peer, &frame, host)?;
                }
                Frame::Fetch | Frame::Positions(_) | Frame::Copy { .. }
                    if link.heard.is_greeted =>
                {
                    let peer = self.view.member(from).ok_or(LinkError::Stranger)?;
                    self.take_copy_frame(peer, &frame, (&mut link.first, host))?;
                }
                _ => self.take_frame(from, lane.into(), frame, &mut link.heard)?,
            }
            link.reader.consume(len);
            if let Some(peer) = self.view.member(from) {
                self.advance(peer, host);
            }
        }
    }

    fn take_frame(
        &mut self,
        from: Number,
        lane: usize,
        frame: Frame<'_>,
        heard: &mut Heard,
    ) -> Result<(), LinkError> {
        let peer = self.view.member(from).ok_or(LinkError::Stranger)?;
        match frame {
            Frame::Hello(hello) => {
                heard.is_greeted = true;
                if hello.identity == peer { Ok(()) } else { Err(LinkError::Stranger) }
            }
            _ if !heard.is_greeted => Err(LinkError::Stranger),
            Frame::Resume { received } => {
                let number = lane;
                let mut lane = self.lanes.lane(number);
                let received = match received {
                    // It has come later, and does not know where the lane begins for it.
                    0 if self.holdings.is_some() => lane.begin_of(from),
                    received => received,
                };
                let can_be = lane.resume(from, received);
                drop(lane);
                self.forget_withdrawn(from, number, received);
                can_be.then_some(()).ok_or(LinkError::Malformed)
            }
            Frame::Batches(mut batches) => {
                heard.wants_acks = lane == usize::from(ACKNOWLEDGE_AT_ONCE);
                while !batches.is_empty() {
                    let taken = take_batch(&mut batches).map_err(|_| LinkError::Malformed)?;
                    self.take_batch(from, taken.0.into(), &taken.1, heard)?;
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
        heard: &mut Heard,
    ) -> Result<(), LinkError> {
        let peer = self.view.member(from).ok_or(LinkError::Stranger)?;
        if let Some(more) = batch.applied {
            let applied = heard.acknowledged[lane].checked_add(more).ok_or(LinkError::Malformed)?;
            heard.acknowledged[lane] = applied;
            if !self.lanes.lane(lane).acknowledge(from, applied) {
                return Err(LinkError::Malformed);
            }
        }
        let Node { identity, inboxes, fallen, is_unblocked, origin, limits, .. } = self;
        let inbox = inboxes.get_mut(&peer).and_then(|inboxes| inboxes.get_mut(lane));
        let inbox: &mut Inbox = inbox.ok_or(LinkError::Stranger)?;
        // What is said of nodes that have died waits for nothing, for other lanes wait for that.
        let mut restored_bytes = 0;
        let restore = |record: &Record<'_>| {
            let restored = shorten::restore(record, |tag| {
                if tag.origin == *identity { origin.call(tag.slot, tag.oseq) } else { None }
            })?;
            // Each argument comes back once: no more than what was forwarded.
            restored_bytes += restored.len();
            (restored_bytes <= limits.frame).then_some(restored)
        };
        let taken = inbox.take(batch, restore, |record| {
            let of = match record {
                Record::Tail { of, .. } | Record::TailEnd { of, .. } | Record::Settled { of } => {
                    *of
                }
                _ => return,
            };
            let Some(fallen) = fallen.iter_mut().find(|fallen| fallen.identity == of) else {
                return;
            };
            *is_unblocked = true;
            match *record {
                Record::Tail { seq, record, .. } => fallen.note(lane, from, (seq, record)),
                Record::TailEnd { epoch, upto, is_settled, .. } if epoch == fallen.epoch => {
                    fallen.note_end(lane, from, upto, is_settled);
                }
                Record::Settled { .. } => fallen.settled_by = fallen.settled_by.with(from),
                _ => {}
            }
        });
        taken.map_err(|_| LinkError::Malformed)
    }

    /// Whether something here waits for what all members have applied: they are asked to say so at
    /// once.
    pub fn want_acks(&mut self, wants_acks: bool) {
        self.wants_acks = wants_acks;
    }

    /// Appends what is to be sent to a node now, in about `budget` bytes.
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
        let (waits, mut is_cut_off) = (self.copies.fetch.is_some(), false);
        let asks = self.wants_acks && !link.has_asked;
        let with_acks = acknowledge == Acknowledge::Now || link.heard.wants_acks || asks;
        let start = begin_frame(out);
        let (body, mut owed) = (out.len(), 0u16);
        for lane in (0..LANES).map(|step| (link.turn + step) % LANES) {
            let said = &mut link.acknowledged[lane];
            let applied = inboxes[lane].acknowledged(waits);
            let news = applied.checked_sub(*said).filter(|more| *more > 0);
            owed |= u16::from(news.is_some()) << lane;
            if out.len() - body >= budget {
                continue;
            }
            match self.lanes.put_batch((lane, to), (news, with_acks), self.limits.batch, out) {
                Ok(true) => {
                    *said += news.unwrap_or(0);
                    owed &= !(1 << lane);
                }
                Ok(false) => {
                    owed &= u16::from(self.lanes.lane(lane).is_open_to(to)) << lane | !(1 << lane)
                }
                Err(CutOff) => {
                    owed &= !(1 << lane);
                    is_cut_off = true;
                }
            }
        }
        // With records goes what was applied of other lanes.
        let late = if out.len() == body || with_acks { 0 } else { owed };
        for lane in (0..LANES).filter(|lane| late >> lane & 1 != 0) {
            let said = &mut link.acknowledged[lane];
            let news = inboxes[lane].acknowledged(waits).checked_sub(*said);
            if let Ok(true) = self.lanes.put_batch((lane, to), (news, true), 0, out) {
                *said += news.unwrap_or(0);
                owed &= !(1 << lane);
            }
        }
        if out.len() > body || asks {
            let urgency = if self.wants_acks { ACKNOWLEDGE_AT_ONCE } else { 0 };
            end_batches(out, start, urgency, self.view.epoch);
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
