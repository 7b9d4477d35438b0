//! State transfer to a joining member, where every member holds all data.
//!
//! ```text
//! joiner                         source
//!   FETCH --------------------->  once it has applied, in every lane, the joiner's first view, and
//!                                 all former primaries are reconciled:
//!   <----------------- POSITIONS  with the whole keyspace locked: its positions; a snapshot begins
//!   RESUME to all members
//!   <--------- COPY ... COPY end  the snapshot
//!   loads it, then applies the records that arrived meanwhile
//! ```
//!
//! From the view that added the joiner on, all members keep their new records for it, so nothing
//! that the copy lacks is discarded. Records that arrive while the copy is in transit or being
//! loaded are acknowledged as applied: the joiner keeps them, and passes them on if their sender
//! dies.

use super::{Host, LinkError, Node};
use crate::inbox::Inbox;
use crate::slot_map::Node as Number;
use crate::view::{Identity, View};
use crate::wire::positions::{LanePositions, Positions};
use crate::wire::{Frame, LANES, put_frame};
use std::collections::BTreeMap;

/// Progress of a member without data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fetch {
    /// No copy was requested yet ([`Node::fetch_from`]).
    Unasked,
    /// A copy was requested.
    Asked(Identity),
    /// The copy is arriving.
    Comes(Identity),
    /// The copy arrived completely and is being loaded ([`Node::loaded`]).
    Loads,
    /// The copy was lost in transit, or too many records wait for it: the member has to rejoin
    /// under a new incarnation.
    Failed,
}

/// State of copies that this node requests and sends.
#[derive(Default)]
pub(super) struct Copies {
    /// Progress of this node's own copy; none if it has its data.
    pub fetch: Option<Fetch>,
    /// A member has cut this node off.
    pub is_cut_off: bool,
    /// Members that have requested a copy.
    wanted: Vec<Identity>,
    /// Members to which a copy is being sent.
    sent: Vec<Identity>,
    /// Epochs of the views that added members, as far as this node has adopted them.
    joined: BTreeMap<Identity, u64>,
}

impl Copies {
    /// The epoch of the view that added a member; 0 if it was a member before this node.
    pub fn joined(&self, identity: Identity) -> u64 {
        self.joined.get(&identity).copied().unwrap_or(0)
    }
}

impl Node {
    /// Creates a node that became a member in this view and has no data yet. Where every member
    /// holds all data, it fetches a copy.
    pub fn joining(identity: Identity, view: View, limits: super::Limits) -> Self {
        Node::new(identity, view, limits).without_data()
    }

    /// Turns a node that was just created into one without data.
    pub fn without_data(self) -> Self {
        let mut node = self;
        if node.holdings.is_some() {
            // It owns no slots yet, and imports its slots one by one.
            for inboxes in node.inboxes.values_mut() {
                inboxes.fill_with(Inbox::beginning_anywhere);
            }
            return node;
        }
        node.copies.fetch = Some(Fetch::Unasked);
        node.update_slots();
        node
    }

    /// Progress of the copy with which this node joins; none if it has its data.
    pub fn fetch(&self) -> Option<Fetch> {
        self.copies.fetch
    }

    /// Whether this node has to rejoin under a new incarnation, since it can no longer catch up
    /// with the others.
    pub fn has_to_rejoin(&self) -> bool {
        self.copies.is_cut_off || self.copies.fetch == Some(Fetch::Failed)
    }

    /// Requests a copy from a member. False if there is no link to it, or no copy is to be
    /// requested.
    pub fn fetch_from(&mut self, node: Number) -> bool {
        let epoch = self.view.epoch;
        let peer = self.view.member(node).filter(|_| self.copies.fetch == Some(Fetch::Unasked));
        let (Some(peer), Some(link)) = (peer, self.links.get_mut(&node)) else { return false };
        put_frame(&mut link.first, 0, epoch, &Frame::Fetch);
        self.copies.fetch = Some(Fetch::Asked(peer));
        true
    }

    /// Reports that the copy was loaded: the node becomes a full member, and applies the records
    /// that have waited.
    pub fn loaded(&mut self, host: &mut dyn Host) {
        if self.copies.fetch != Some(Fetch::Loads) {
            return;
        }
        self.copies.fetch = None;
        self.is_unblocked = true;
        self.update_slots();
        self.resume_pending(host);
    }

    /// Members that have requested a copy, in order of their requests.
    pub fn copies_wanted(&self) -> &[Identity] {
        &self.copies.wanted
    }

    /// Whether a copy for a member can begin.
    pub fn may_begin_copy(&self, to: Identity) -> bool {
        let is_linked = self.view.member(to.node) == Some(to) && self.links.contains_key(&to.node);
        is_linked && !self.copies.sent.contains(&to) && self.has_all_that_is_kept_for(to)
    }

    /// Sends a member the positions of the copy that follows. The whole keyspace is locked, and the
    /// copy has the state of this moment. False if the copy cannot begin.
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

    /// Sends a part of a copy. False if the member is gone, or its link has ended since: the copy
    /// is aborted.
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

    /// Bytes of frames for a member that wait to be sent, not counting lanes.
    pub fn unsent_bytes(&self, to: Number) -> usize {
        self.links.get(&to).map_or(0, |link| link.first.len())
    }

    /// Whether this node's data include everything before the positions from which all members keep
    /// their records for the joiner.
    fn has_all_that_is_kept_for(&self, joiner: Identity) -> bool {
        let from = self.copies.joined(joiner);
        let is_kept = |member: &Identity| {
            let inboxes = self.inboxes.get(member).map(Vec::as_slice).unwrap_or_default();
            *member == joiner
                || self.copies.joined(*member) >= from
                || inboxes.iter().all(|inbox| inbox.end_epoch >= from)
        };
        // No lane of a dead member is unreconciled, so no member has records of it that others
        // lack.
        let is_reconciled = self.former.is_empty() && self.dead.is_empty();
        self.copies.fetch.is_none() && is_reconciled && self.view.members.iter().all(is_kept)
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
            marks: self.decisions.marks(|_, _| true),
        }
    }

    /// Handles a frame about copies. `first` is sent next on the link.
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
                // The link of `from` is not in `self.links` while it is read.
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
            // Remainder of a copy that was given up, perhaps in favour of another member's.
            Frame::Positions(_) | Frame::Copy { .. } => Ok(()),
            _ => Err(LinkError::Malformed),
        }
    }

    /// Adopts the positions of the copy to come. False if members have died since: the copy may
    /// lack their last changes.
    fn begin_at(&mut self, positions: Positions) -> bool {
        let Positions { epoch, members, tenures, executed, marks } = positions;
        if self.dead.iter().any(|dead| dead.since > epoch) {
            return false;
        }
        for (identity, lanes) in members {
            let inboxes = self.inboxes.get_mut(&identity).map(Vec::as_mut_slice);
            let inboxes = inboxes.unwrap_or_default().iter_mut();
            inboxes.zip(lanes).for_each(|(inbox, position)| inbox.begin_at(position));
        }
        self.primaries.set_tenures(epoch, &tenures);
        for (identity, slot, oseq) in executed {
            self.executed.record(identity, slot, oseq);
        }
        self.decisions.add_marks(&marks);
        // The source had reconciled all former primaries up to its view.
        self.former.retain(|former| former.epoch > epoch);
        self.dead.clear();
        let (view, inboxes) = (&self.view, &self.inboxes);
        for (node, link) in &mut self.links {
            let peer = view.member(*node);
            let inboxes = peer.and_then(|peer| inboxes.get(&peer)).map(Vec::as_slice);
            put_resumes(&mut link.first, view.epoch, inboxes.unwrap_or_default());
        }
        self.is_unblocked = true;
        true
    }

    /// Whether the positions of this node's copy are still unknown.
    pub(super) fn has_no_positions(&self) -> bool {
        matches!(self.copies.fetch, Some(Fetch::Unasked | Fetch::Asked(_) | Fetch::Failed))
    }

    /// Records members that a new view has added or removed.
    pub(super) fn record_members(&mut self, before: &[Identity]) {
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

    /// Aborts copies on a link that has ended.
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

    /// Gives up the copy if more bytes than allowed wait for it.
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

/// Appends a `RESUME` for each lane.
pub(super) fn put_resumes(out: &mut Vec<u8>, epoch: u64, inboxes: &[Inbox]) {
    for (lane, inbox) in inboxes.iter().enumerate() {
        let resume = Frame::Resume { received: inbox.received() };
        put_frame(out, lane as u8, epoch, &resume);
    }
}
