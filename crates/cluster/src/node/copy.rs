//! A member that has no data yet, and the one whose data it gets a copy of.
//!
//! ```text
//! joiner                         source
//!   FETCH --------------------->  once it has applied, of every lane, the view that brought the
//!                                 joiner, and has settled what earlier primaries had numbered:
//!   <----------------- POSITIONS  with everything held: its place in all lanes; an image begins
//!   RESUME to all members
//!   <--------- COPY ... COPY end  the image
//!   loads it, and applies what has waited meanwhile
//! ```
//!
//! All members keep what they number for a joiner from the view on that has brought it, so what the
//! copy lacks is still there. What has arrived here while the copy is on its way, or loaded, counts
//! as applied for the others: it is kept, and passed on if the member that has sent it dies.

use super::{Host, LinkError, Node};
use crate::inbox::Inbox;
use crate::slot_map::Node as Number;
use crate::view::{Identity, View};
use crate::wire::positions::{LanePositions, Positions};
use crate::wire::{Frame, LANES, put_frame};
use std::collections::BTreeMap;

/// How far a member without data has got.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fetch {
    /// It has to ask a member for a copy ([`Node::fetch_from`]).
    Unasked,
    /// It has asked.
    Asked(Identity),
    /// The copy is coming.
    Comes(Identity),
    /// The copy is here, and to be loaded ([`Node::loaded`]).
    Loads,
    /// The copy was lost on its way, or too much has waited for it: the member has to begin another
    /// life.
    Failed,
}

/// What a node knows of copies.
#[derive(Default)]
pub(super) struct Copies {
    /// None of a node that has its data.
    pub fetch: Option<Fetch>,
    /// A member keeps no more for this node.
    pub is_cut_off: bool,
    /// Members that have asked for a copy.
    wanted: Vec<Identity>,
    /// Those that are being sent one.
    sent: Vec<Identity>,
    /// The epochs of the views that have brought members, as far as this node has seen that.
    joined: BTreeMap<Identity, u64>,
}

impl Copies {
    /// The epoch of the view that has brought a member; 0 of one that was there before this node.
    pub fn joined(&self, identity: Identity) -> u64 {
        self.joined.get(&identity).copied().unwrap_or(0)
    }
}

impl Node {
    /// A node that is a member from this view on, and has no data yet: it fetches a copy of all,
    /// unless only homes hold a slot's.
    pub fn joining(identity: Identity, view: View, limits: super::Limits) -> Self {
        Node::new(identity, view, limits).without_data()
    }

    /// The same of one that was made otherwise just now.
    pub fn without_data(self) -> Self {
        let mut node = self;
        if node.holdings.is_some() {
            // It holds no slots yet, and is sent those that it is to hold one by one.
            for inboxes in node.inboxes.values_mut() {
                inboxes.fill_with(Inbox::beginning_anywhere);
            }
            return node;
        }
        node.copies.fetch = Some(Fetch::Unasked);
        node.tell_removers();
        node
    }

    /// How far this node is with the copy that it joins with; none if it has its data.
    pub fn fetch(&self) -> Option<Fetch> {
        self.copies.fetch
    }

    /// Whether this life of the node has to end, since its data cannot follow those of the others
    /// any more.
    pub fn has_to_rejoin(&self) -> bool {
        self.copies.is_cut_off || self.copies.fetch == Some(Fetch::Failed)
    }

    /// Asks a member for a copy. False if there is no link to it, or none is to be asked.
    pub fn fetch_from(&mut self, node: Number) -> bool {
        let epoch = self.view.epoch;
        let peer = self.view.member(node).filter(|_| self.copies.fetch == Some(Fetch::Unasked));
        let (Some(peer), Some(link)) = (peer, self.links.get_mut(&node)) else { return false };
        put_frame(&mut link.first, 0, epoch, &Frame::Fetch);
        self.copies.fetch = Some(Fetch::Asked(peer));
        true
    }

    /// The copy was loaded: from now on this node is a member like the others, and applies what has
    /// waited.
    pub fn loaded(&mut self, host: &mut dyn Host) {
        if self.copies.fetch != Some(Fetch::Loads) {
            return;
        }
        self.copies.fetch = None;
        self.is_unblocked = true;
        self.tell_removers();
        self.go_on(host);
    }

    /// Members that have asked this one for a copy, in the order in which they did.
    pub fn copies_wanted(&self) -> &[Identity] {
        &self.copies.wanted
    }

    /// Whether a copy for a member can begin.
    pub fn may_begin_copy(&self, to: Identity) -> bool {
        let is_linked = self.view.member(to.node) == Some(to) && self.links.contains_key(&to.node);
        is_linked && !self.copies.sent.contains(&to) && self.has_all_that_is_kept_for(to)
    }

    /// Tells a member where the copy that follows stands; everything is held, and the copy is of
    /// this moment. False if it cannot begin.
    pub fn begin_copy(&mut self, to: Identity) -> bool {
        if !self.may_begin_copy(to) {
            return false;
        }
        let positions = self.positions(to).encode();
        let epoch = self.view.epoch;
        if let Some(link) = self.links.get_mut(&to.node) {
            put_frame(&mut link.first, 0, epoch, &Frame::Positions(&positions));
        }
        self.copies.wanted.retain(|wanted| *wanted != to);
        self.copies.sent.push(to);
        true
    }

    /// Sends a part of a copy that was begun. False if the member is gone, or its link has ended
    /// since: the copy is over.
    pub fn send_copy(&mut self, to: Identity, part: &[u8], is_last: bool) -> bool {
        if !self.copies.sent.contains(&to) {
            return false;
        }
        let epoch = self.view.epoch;
        let Some(link) = self.links.get_mut(&to.node) else { return false };
        put_frame(&mut link.first, 0, epoch, &Frame::Copy { part, is_last });
        if is_last {
            self.copies.sent.retain(|sent| *sent != to);
        }
        true
    }

    /// Bytes of frames that wait to be sent to a member, beside those of lanes.
    pub fn unsent_bytes(&self, to: Number) -> usize {
        self.links.get(&to).map_or(0, |link| link.first.len())
    }

    /// Whether this node's data, and what it has applied, go at least as far as the positions from
    /// which on all members keep for the joiner what they number.
    fn has_all_that_is_kept_for(&self, joiner: Identity) -> bool {
        let from = self.copies.joined(joiner);
        let is_kept = |member: &Identity| {
            let inboxes = self.inboxes.get(member).map(Vec::as_slice).unwrap_or_default();
            *member == joiner
                || self.copies.joined(*member) >= from
                || inboxes.iter().all(|inbox| inbox.end_epoch >= from)
        };
        // No member has anything of one that has died that others lack.
        let is_settled = self.leaving.is_empty() && self.fallen.is_empty();
        self.copies.fetch.is_none() && is_settled && self.view.members.iter().all(is_kept)
    }

    fn positions(&self, joiner: Identity) -> Positions {
        let epoch = self.view.epoch;
        let of_member = |identity: &Identity| -> Option<(Identity, LanePositions)> {
            if *identity == self.identity {
                let position = |lane| self.lanes.lane(lane).position(epoch);
                return Some((*identity, std::array::from_fn(position)));
            }
            let inboxes = self.inboxes.get(identity)?;
            Some((*identity, std::array::from_fn(|lane: usize| inboxes[lane].position())))
        };
        let members = self.view.members.iter().filter(|member| **member != joiner);
        let is_member = |identity: Identity| self.view.member(identity.node) == Some(identity);
        Positions {
            epoch,
            members: members.filter_map(of_member).collect(),
            tenures: self.primaries.tenures(),
            executed: self.executed.sorted(|identity, _| is_member(identity)),
        }
    }

    /// A member asks for a copy, or sends one; `first` is what its link sends next.
    pub(super) fn take_copy_frame(
        &mut self,
        from: Identity,
        frame: &Frame<'_>,
        (first, host): (&mut Vec<u8>, &mut dyn Host),
    ) -> Result<(), LinkError> {
        match *frame {
            Frame::Fetch => {
                if !self.copies.wanted.contains(&from) {
                    self.copies.wanted.push(from);
                }
                Ok(())
            }
            Frame::Positions(bytes) if self.copies.fetch == Some(Fetch::Asked(from)) => {
                let positions = Positions::read(bytes).map_err(|_| LinkError::Malformed)?;
                if !self.begin_at(positions) {
                    self.copies.fetch = Some(Fetch::Unasked);
                    return Ok(());
                }
                // Its own link is not among the others while it is read from.
                let inboxes = self.inboxes.get(&from).map(Vec::as_slice);
                put_resumes(first, self.view.epoch, inboxes.unwrap_or_default());
                self.copies.fetch = Some(Fetch::Comes(from));
                Ok(())
            }
            Frame::Copy { part, is_last } if self.copies.fetch == Some(Fetch::Comes(from)) => {
                host.copy(part, is_last);
                if is_last {
                    self.copies.fetch = Some(Fetch::Loads);
                }
                Ok(())
            }
            // What was on its way when a copy was given up, perhaps for that of another member.
            Frame::Positions(_) | Frame::Copy { .. } => Ok(()),
            _ => Err(LinkError::Malformed),
        }
    }

    /// This node's data will be a copy that stands there. False if members have died since, of whom
    /// it may lack something.
    fn begin_at(&mut self, positions: Positions) -> bool {
        let Positions { epoch, members, tenures, executed } = positions;
        if self.fallen.iter().any(|fallen| fallen.since > epoch) {
            return false;
        }
        for (identity, lanes) in members {
            let inboxes = self.inboxes.get_mut(&identity).map(Vec::as_mut_slice);
            let inboxes = inboxes.unwrap_or_default().iter_mut();
            inboxes.zip(lanes).for_each(|(inbox, position)| inbox.begin_at(position));
        }
        self.primaries.set_tenures(epoch, &tenures);
        for (identity, slot, oseq) in executed {
            self.executed.note(identity, slot, oseq);
        }
        // All had settled what the source's view had brought.
        self.leaving.retain(|leaving| leaving.epoch > epoch);
        self.fallen.clear();
        let (view, inboxes) = (&self.view, &self.inboxes);
        for (node, link) in &mut self.links {
            let peer = view.member(*node);
            let inboxes = peer.and_then(|peer| inboxes.get(&peer)).map(Vec::as_slice);
            put_resumes(&mut link.first, view.epoch, inboxes.unwrap_or_default());
        }
        self.is_unblocked = true;
        true
    }

    /// Whether this node does not know yet where its copy stands.
    pub(super) fn has_no_positions(&self) -> bool {
        matches!(self.copies.fetch, Some(Fetch::Unasked | Fetch::Asked(_) | Fetch::Failed))
    }

    /// The view has changed.
    pub(super) fn note_members(&mut self, before: &[Identity]) {
        let epoch = self.view.epoch;
        for &member in self.view.members.iter().filter(|member| !before.contains(member)) {
            self.copies.joined.insert(member, epoch);
            let inboxes = (0..LANES).map(|_| Inbox::default()).collect();
            self.inboxes.insert(member, inboxes);
        }
        let view = &self.view;
        let is_member = |identity: &Identity| view.member(identity.node) == Some(*identity);
        self.copies.joined.retain(|identity, _| is_member(identity));
    }

    /// The link to a node has ended, and what it has not delivered is lost.
    pub(super) fn end_copies(&mut self, node: Number) {
        let Copies { fetch, wanted, sent, .. } = &mut self.copies;
        wanted.retain(|wanted| wanted.node != node);
        sent.retain(|sent| sent.node != node);
        *fetch = match *fetch {
            Some(Fetch::Asked(from)) if from.node == node => Some(Fetch::Unasked),
            Some(Fetch::Comes(from)) if from.node == node => Some(Fetch::Failed),
            other => other,
        };
    }

    /// More has come than may wait for the copy: the copy is given up.
    pub(super) fn limit_waiting(&mut self) {
        if !matches!(self.copies.fetch, Some(Fetch::Comes(_) | Fetch::Loads)) {
            return;
        }
        let waiting: usize = self.inboxes.values().flatten().map(Inbox::queued_bytes).sum();
        if waiting > self.limits.waiting {
            self.copies.fetch = Some(Fetch::Failed);
        }
    }
}

/// Appends for each lane where it is to go on.
pub(super) fn put_resumes(out: &mut Vec<u8>, epoch: u64, inboxes: &[Inbox]) {
    for (lane, inbox) in inboxes.iter().enumerate() {
        let resume = Frame::Resume { received: inbox.received() };
        put_frame(out, lane as u8, epoch, &resume);
    }
}
