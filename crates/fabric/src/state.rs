//! What the cluster agrees on: a pure function of the commands that consensus has put in order.
//!
//! ```text
//! Found     the first member: all slots
//! Join      a node, by its uuid: a number, an incarnation; a life before ends in a view of its own
//! Hold      it takes slots, or gives them up
//! Unheld    it takes slots if no member holds any, and it has seen every view; where slots have
//!           few homes, those whose last home it was
//! Arrived   it has the data of slots that it is to become a home of
//! GiveUp    slots whose last homes do not come back begin anew
//! Remove    it has left, or it is down: its slots fall to the others
//! ```
//!
//! Each view is the one before and one step. The last of them are kept, so that a member that lags
//! sees every one.

use crate::placement::{Placement, Range, slot_map};
use crate::settings::{Copies, Role};
use crate::wire::{decode, encode};
use petrel_cluster::view::NODES_MAX;
use petrel_cluster::{Identity, Node, SLOTS, Slot, SlotSet, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

/// How many views are kept for members that lag.
const HISTORY: usize = 64;

/// A member's place in consensus: given once to each disk, never again.
pub(crate) type VoterId = u64;

/// A member, as all members know it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MemberInfo {
    /// Its number.
    pub number: u16,
    /// Which of its lives.
    pub incarnation: u32,
    /// What it has called itself since its directory was made.
    pub uuid: u128,
    /// Where its bus is, `host:port`.
    pub bus: String,
    /// Where clients find it, `host:port`.
    pub client: String,
    /// What it is for.
    pub role: Role,
    /// What it may fail together with.
    pub zone: String,
    /// Whether it may hold slots: it is a data node and has its data.
    pub holds_slots: bool,
}

impl MemberInfo {
    /// Its number and incarnation.
    pub fn identity(&self) -> Identity {
        Identity { node: Node(self.number), incarnation: self.incarnation }
    }
}

/// A node that asks to be let in.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Applicant {
    pub uuid: u128,
    /// SHA-256 of its public key.
    pub key: [u8; 32],
    /// Drawn anew each time that it comes: tells a repeated question from another life.
    pub boot: u64,
    pub bus: String,
    pub client: String,
    pub role: Role,
    pub zone: String,
    pub waits_for_data: bool,
}

/// A change that consensus puts in order.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Command {
    Found {
        cluster: u128,
        copies: Copies,
        founder: Applicant,
    },
    Join(Applicant),
    Hold {
        number: u16,
        incarnation: u32,
        holds: bool,
    },
    Remove {
        number: u16,
        incarnation: u32,
    },
    /// `epoch` is that of the last view that the member has seen.
    HoldUnheld {
        number: u16,
        incarnation: u32,
        epoch: u64,
    },
    /// `epoch` is that of the view that the member had when it found the data to be there; the
    /// slots are ranges, from the first to the last.
    Arrived {
        number: u16,
        incarnation: u32,
        epoch: u64,
        slots: Vec<(u16, u16)>,
    },
    /// `epoch` is that of the view in which slots waited for their last homes.
    GiveUp {
        epoch: u64,
    },
}

/// What became of a command.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Answer {
    Done,
    Joined(Admission),
    /// The uuid belongs to another key.
    OtherKey,
    /// There are as many members as there can be.
    Full,
}

/// The answer to a node that joins.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Admission {
    pub cluster: u128,
    pub id: VoterId,
    pub number: u16,
    pub incarnation: u32,
    /// The first view in which it is a member.
    pub epoch: u64,
}

impl Admission {
    pub fn identity(&self) -> Identity {
        Identity { node: Node(self.number), incarnation: self.incarnation }
    }
}

/// A node that is a member, or was.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Registered {
    pub id: VoterId,
    pub key: [u8; 32],
    pub boot: u64,
    /// The view that let it in last.
    pub admitted: u64,
    pub is_member: bool,
    pub info: MemberInfo,
}

/// A view as it is kept.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Past {
    epoch: u64,
    members: Vec<MemberInfo>,
    homes: Vec<Range>,
    /// None where every member holds everything.
    incoming: Option<Vec<Range>>,
}

/// A view and who its members are.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub view: Arc<View>,
    pub members: Arc<[MemberInfo]>,
}

/// What all agree on.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct State {
    /// Drawn by the founder; none before that.
    pub cluster: Option<u128>,
    pub epoch: u64,
    copies: Option<Copies>,
    /// By uuid.
    pub nodes: BTreeMap<u128, Registered>,
    last_id: VoterId,
    /// The last incarnation that each number has had.
    incarnations: Vec<u32>,
    placement: Placement,
    history: VecDeque<Past>,
}

impl State {
    /// Applies the next command.
    pub fn apply(&mut self, command: Command) -> Answer {
        match command {
            Command::Found { cluster, copies, founder } => self.found(cluster, copies, founder),
            Command::Join(applicant) => self.join(applicant),
            Command::Hold { number, incarnation, holds } => self.hold(number, incarnation, holds),
            Command::HoldUnheld { number, incarnation, epoch } => {
                if self.epoch == epoch {
                    self.hold_unheld(number, incarnation);
                }
                Answer::Done
            }
            Command::Arrived { number, incarnation, epoch, slots } => {
                if self.member_mut(number, incarnation).is_some() {
                    self.arrive(Node(number), epoch, &slots);
                }
                Answer::Done
            }
            Command::GiveUp { epoch } => {
                if self.epoch == epoch && self.waits_for_homes() {
                    self.placement.give_up_last();
                    self.next_view();
                }
                Answer::Done
            }
            Command::Remove { number, incarnation } => {
                if let Some(node) = self.member_mut(number, incarnation) {
                    node.is_member = false;
                    self.next_view();
                }
                Answer::Done
            }
        }
    }

    fn hold(&mut self, number: u16, incarnation: u32, holds: bool) -> Answer {
        if let Some(node) = self.member_mut(number, incarnation)
            && node.info.role == Role::Data
            && node.info.holds_slots != holds
        {
            node.info.holds_slots = holds;
            self.next_view();
        }
        Answer::Done
    }

    fn hold_unheld(&mut self, number: u16, incarnation: u32) {
        if self.has_few_homes() {
            let node = self.member_mut(number, incarnation);
            let is_data = node.is_some_and(|node| node.info.role == Role::Data);
            let has_claimed = is_data && self.placement.claim(Node(number));
            let before = self.epoch;
            self.hold(number, incarnation, true);
            if has_claimed && self.epoch == before {
                self.next_view();
            }
        } else if !self.members().any(|node| node.info.holds_slots) {
            self.hold(number, incarnation, true);
        }
    }

    /// The data that a node has been sent count if the slot's primary is still the one that sent
    /// them: another one's may lack what is in them.
    fn arrive(&mut self, node: Node, epoch: u64, slots: &[(u16, u16)]) {
        let since: Vec<Step> = (epoch..=self.epoch).map_while(|epoch| self.step(epoch)).collect();
        if since.last().is_none_or(|step| step.view.epoch != self.epoch) {
            return;
        }
        let mut named = SlotSet::default();
        for (first, last) in slots.iter().take(SLOTS.into()) {
            (*first..=(*last).min(SLOTS - 1)).for_each(|slot| named.insert(slot));
        }
        let is_current = |slot: Slot| {
            let primary = since[0].view.primary(slot);
            named.contains(slot)
                && since.iter().all(|Step { view, .. }| {
                    view.primary(slot) == primary && view.incoming(slot).contains(&node)
                })
        };
        if self.placement.arrive(node, is_current) {
            self.keep_view();
            // Where all that are wanted have the data now, they take over.
            let before = self.placement.clone();
            self.place();
            if self.placement != before {
                self.keep_view();
            }
        }
    }

    /// Whether slots have homes that not every member is.
    pub fn has_few_homes(&self) -> bool {
        matches!(self.copies, Some(Copies::Of(_)))
    }

    /// Whether slots have no home, and wait for the last ones to come back.
    pub fn waits_for_homes(&self) -> bool {
        self.placement.waits_for_last()
    }

    fn found(&mut self, cluster: u128, copies: Copies, founder: Applicant) -> Answer {
        if self.cluster.is_some() {
            return self.join(founder);
        }
        (self.cluster, self.copies) = (Some(cluster), Some(copies));
        self.join(Applicant { waits_for_data: false, ..founder })
    }

    fn join(&mut self, applicant: Applicant) -> Answer {
        let Some(cluster) = self.cluster else { return Answer::Full };
        if let Some(known) = self.nodes.get_mut(&applicant.uuid) {
            if known.key != applicant.key {
                return Answer::OtherKey;
            }
            if known.is_member && known.boot == applicant.boot {
                return Answer::Joined(known.admission(cluster));
            }
            if std::mem::take(&mut known.is_member) {
                self.next_view();
            }
        }
        let Some(number) = self.number_for(applicant.uuid) else { return Answer::Full };
        let incarnation = self.next_incarnation(number);
        let known = self.nodes.get(&applicant.uuid).map(|known| known.id);
        let id = known.unwrap_or_else(|| {
            self.last_id += 1;
            self.last_id
        });
        let is_data = applicant.role == Role::Data;
        let info = MemberInfo {
            number,
            incarnation,
            uuid: applicant.uuid,
            bus: applicant.bus,
            client: applicant.client,
            role: applicant.role,
            zone: applicant.zone,
            holds_slots: is_data && !applicant.waits_for_data,
        };
        let (key, boot, admitted) = (applicant.key, applicant.boot, self.epoch + 1);
        let node = Registered { id, key, boot, admitted, is_member: true, info };
        let admission = node.admission(cluster);
        self.nodes.insert(applicant.uuid, node);
        self.next_view();
        Answer::Joined(admission)
    }

    /// The number that a node has had, else one that no node has had, else one of a node that is a
    /// member no longer, which is forgotten.
    fn number_for(&mut self, uuid: u128) -> Option<u16> {
        if let Some(known) = self.nodes.get(&uuid) {
            return Some(known.info.number);
        }
        if self.incarnations.len() < usize::from(NODES_MAX) {
            self.incarnations.push(0);
            return Some(self.incarnations.len() as u16 - 1);
        }
        let gone = self.nodes.values().filter(|node| !node.is_member);
        let oldest = gone.min_by_key(|node| node.admitted)?;
        let (uuid, number) = (oldest.info.uuid, oldest.info.number);
        self.nodes.remove(&uuid);
        self.placement.forget(Node(number));
        Some(number)
    }

    fn next_incarnation(&mut self, number: u16) -> u32 {
        let incarnation = &mut self.incarnations[usize::from(number)];
        *incarnation = incarnation.saturating_add(1);
        *incarnation
    }

    fn member_mut(&mut self, number: u16, incarnation: u32) -> Option<&mut Registered> {
        let identity = Identity { node: Node(number), incarnation };
        let mut nodes = self.nodes.values_mut();
        nodes.find(|node| node.is_member && node.info.identity() == identity)
    }

    /// Who is a member now.
    pub fn members(&self) -> impl Iterator<Item = &Registered> {
        self.nodes.values().filter(|node| node.is_member)
    }

    /// The member with this identity.
    pub fn member(&self, identity: Identity) -> Option<&Registered> {
        self.members().find(|node| node.info.identity() == identity)
    }

    /// The node with this place in consensus, whether it is a member or not.
    pub fn by_id(&self, id: VoterId) -> Option<&Registered> {
        self.nodes.values().find(|node| node.id == id)
    }

    fn next_view(&mut self) {
        self.place();
        self.keep_view();
    }

    /// Who is a member now, in order of their numbers.
    fn infos(&self) -> Vec<MemberInfo> {
        let mut members: Vec<MemberInfo> = self.members().map(|node| node.info.clone()).collect();
        members.sort_by_key(|member| member.number);
        members
    }

    /// Deals the slots out among the members.
    fn place(&mut self) {
        let members = self.infos();
        let mut zones: Vec<&str> = members.iter().map(|member| member.zone.as_str()).collect();
        zones.sort_unstable();
        zones.dedup();
        let zone = |member: &MemberInfo| zones.partition_point(|zone| **zone < *member.zone) as u32;
        let holders: Vec<petrel_cluster::Member> = members
            .iter()
            .map(|member| petrel_cluster::Member {
                node: Node(member.number),
                weight: member.holds_slots.into(),
                zone: zone(member),
            })
            .collect();
        match self.copies {
            Some(Copies::Of(copies)) => self.placement.step(&holders, copies.max(1).into()),
            _ => self.placement.step_of_all(&holders),
        }
    }

    fn keep_view(&mut self) {
        self.epoch += 1;
        let incoming = self.has_few_homes().then(|| self.placement.incoming.clone());
        let (epoch, members, homes) = (self.epoch, self.infos(), self.placement.homes.clone());
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(Past { epoch, members, homes, incoming });
    }

    /// A view that is still kept.
    pub fn step(&self, epoch: u64) -> Option<Step> {
        let past = self.history.iter().find(|past| past.epoch == epoch)?;
        let members = past.members.iter().map(MemberInfo::identity).collect();
        let incoming = past.incoming.as_deref().map(slot_map);
        let view = View { epoch, members, slots: slot_map(&past.homes), incoming };
        Some(Step { view: Arc::new(view), members: past.members.clone().into() })
    }
}

impl Registered {
    fn admission(&self, cluster: u128) -> Admission {
        Admission {
            cluster,
            id: self.id,
            number: self.info.number,
            incarnation: self.info.incarnation,
            epoch: self.admitted,
        }
    }
}

/// What a state begins with where it is written down; one without it is of the first form.
const FORM: &[u8] = b"petrel fabric 2\n";

impl State {
    /// The state as it is written down.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        Ok([FORM, &encode(self)?].concat())
    }

    /// A state that was written down, in any form.
    pub fn decode(bytes: &[u8]) -> io::Result<State> {
        match bytes.strip_prefix(FORM) {
            Some(bytes) => decode(bytes),
            None => decode::<FirstForm>(bytes).map(State::from),
        }
    }
}

/// The first form, in which every member held everything.
#[derive(Deserialize, Serialize)]
struct FirstForm {
    cluster: Option<u128>,
    epoch: u64,
    copies: Option<Copies>,
    nodes: BTreeMap<u128, Registered>,
    last_id: VoterId,
    incarnations: Vec<u32>,
    ranges: Vec<Range>,
    history: VecDeque<FirstPast>,
}

#[derive(Deserialize, Serialize)]
struct FirstPast {
    epoch: u64,
    members: Vec<MemberInfo>,
    ranges: Vec<Range>,
}

impl From<FirstForm> for State {
    fn from(first: FirstForm) -> State {
        let past = |FirstPast { epoch, members, ranges }| {
            let incoming = None;
            Past { epoch, members, homes: ranges, incoming }
        };
        let FirstForm { cluster, epoch, copies, nodes, last_id, incarnations, .. } = first;
        let placement = Placement::of_homes(first.ranges);
        let history = first.history.into_iter().map(past).collect();
        State { cluster, epoch, copies, nodes, last_id, incarnations, placement, history }
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
