//! Replicated state of the cluster: a deterministic function of the committed Raft log.
//!
//! ```text
//! Found      first member: all slots
//! Join       a node, by uuid: gets number and incarnation; a former incarnation ends in a view
//!            before
//! Hold       it accepts slots, or gives them up
//! HoldUnheld it accepts slots if no member holds any and it has seen every view; with few owners:
//!            the slots of which it was the last owner, and it has data of others
//! Remove     it has failed: others take over its slots
//! Leave      it has left: likewise
//! Forget     a failed node is no longer listed as failed
//! Arrived    it has the data of slots, and becomes an owner of them
//! BeginAnew  slots that have waited in vain for their last owner start empty, if no former owner
//!            keeps data on disk
//! SetFunctions  replaces the function libraries
//! SetAux     replaces auxiliary state: function libraries, and other states by name
//! KeepsData  a member keeps data on disk
//! LostSince  the time at which slots lost all owners
//! TakeOver   the operator gives up the last owners of slots without owners
//! Elect      all owners of slots have stopped: the nodes with which the slots continue
//! NextGeneration  the operator continues without the majority: a survivor founds the cluster again
//! ```
//!
//! Each command that changes members or slots makes at least one view. The last views are kept, so
//! that a lagging member sees every one.

use crate::aux_states::{AuxChange, AuxStates, FunctionsChange};
use crate::placement::{Around, Event, Range, Sparse, expand};
use crate::settings::{Copies, Role};
use crate::state::restart::{Reported, Stop};
use petrel_cluster::view::NODES_MAX;
use petrel_cluster::{Identity, Member, Node, SLOTS, SlotMap, SlotSet, View, allocate};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

mod encoded;
pub(crate) mod restart;

/// Number of views kept for lagging members.
const HISTORY: usize = 64;

/// Maximum number of ranges in all kept views except the last two.
const HISTORY_RANGES: usize = 200_000;

/// Maximum number of clusters before this one that are known.
const ANCESTORS_MAX: usize = 64;

/// Maximum number of views that follow from one change: import completed, new primary appointed,
/// former primary released.
const FOLLOWING_MAX: usize = 4;

/// Raft node id: assigned once to each disk, never reused.
pub(crate) type VoterId = u64;

/// A member, as known to all members.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MemberInfo {
    /// Node number.
    pub number: u16,
    /// Incarnation number.
    pub incarnation: u32,
    /// Uuid, drawn when its directory was created.
    pub uuid: u128,
    /// Address of its bus, `host:port`.
    pub bus: String,
    /// Address for clients, `host:port`.
    pub client: String,
    /// Role in the cluster.
    pub role: Role,
    /// Failure domain.
    pub zone: String,
    /// Whether it may own slots: it is a data node and has its data.
    pub holds_slots: bool,
}

impl MemberInfo {
    /// Number and incarnation.
    pub fn identity(&self) -> Identity {
        Identity { node: Node(self.number), incarnation: self.incarnation }
    }
}

/// A node that asks to join.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Applicant {
    pub uuid: u128,
    /// SHA-256 of its public key.
    pub key: [u8; 32],
    /// Random number of the session: distinguishes a repeated request from a new incarnation.
    pub boot: u64,
    pub bus: String,
    pub client: String,
    pub role: Role,
    pub zone: String,
    pub waits_for_data: bool,
    /// Not replicated: for the leader.
    #[serde(skip)]
    pub extents: Reported,
}

/// A command of the Raft log.
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
    /// `slots` are ranges, each by first and last; `epoch` is that of the view in which the data
    /// were complete.
    Arrived {
        number: u16,
        incarnation: u32,
        epoch: u64,
        slots: Vec<(u16, u16)>,
    },
    /// Applies to slots lost in views up to `epoch`.
    BeginAnew {
        epoch: u64,
    },
    SetFunctions(FunctionsChange),
    Leave {
        number: u16,
        incarnation: u32,
    },
    Forget {
        uuid: u128,
    },
    SetAux(AuxChange),
    KeepsData {
        number: u16,
        incarnation: u32,
    },
    /// `unix_ms` is the leader's time when it learnt of the view `epoch`.
    LostSince {
        epoch: u64,
        unix_ms: u64,
    },
    /// Applies to slots lost in views up to `epoch`.
    TakeOver {
        epoch: u64,
    },
    /// `state` is the encoded state of the cluster that lost its majority.
    NextGeneration {
        cluster: u128,
        state: Vec<u8>,
        founder: Applicant,
    },
    Elect(Stop),
}

/// Result of a command.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Answer {
    Done,
    Joined(Admission),
    /// The uuid is registered with another key.
    OtherKey,
    /// The maximum number of members is reached.
    Full,
}

/// Answer to a joining node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Admission {
    pub cluster: u128,
    pub id: VoterId,
    pub number: u16,
    pub incarnation: u32,
    /// First view in which it is a member.
    pub epoch: u64,
}

impl Admission {
    pub fn identity(&self) -> Identity {
        Identity { node: Node(self.number), incarnation: self.incarnation }
    }
}

/// A present or former member.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Registered {
    pub id: VoterId,
    pub key: [u8; 32],
    pub boot: u64,
    /// Epoch of the view that last admitted it.
    pub admitted: u64,
    pub is_member: bool,
    pub info: MemberInfo,
}

/// A view in the history.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct Past {
    epoch: u64,
    members: Vec<MemberInfo>,
    ranges: Vec<Range>,
    /// Importers, where slots have few owners.
    #[serde(skip)]
    incoming: Option<Vec<Range>>,
}

/// Nodes with data on disks, and clusters that this one continues.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
struct Keeping {
    /// Uuids of nodes that keep data on disk, or did.
    keepers: BTreeSet<u128>,
    /// Unix time in milliseconds at which slots lost all owners, by epoch of the view.
    since: BTreeMap<u64, u64>,
    /// Uuids of the clusters that lost their majority, and that this one continues.
    ancestors: Vec<u128>,
    former: Vec<Range>,
    with_data: BTreeSet<u16>,
}

/// Slots without owners, and the node that they wait for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unserved {
    /// Ranges of the slots, each by first and last.
    pub slots: Vec<(u16, u16)>,
    /// The last owner; none if it has returned without the data.
    pub awaited: Option<MemberInfo>,
    /// Unix time in milliseconds at which they lost their owners, once it is agreed on.
    pub since_ms: Option<u64>,
    /// Epoch of the first view without an owner.
    pub epoch: u64,
}

impl Unserved {
    /// Number of slots.
    pub fn count(&self) -> usize {
        self.slots.iter().map(|(first, last)| usize::from(last - first) + 1).sum()
    }

    /// The slots as text, such as `0-99 200`.
    pub fn ranges(&self) -> String {
        let range = |(first, last): &(u16, u16)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        self.slots.iter().map(range).collect::<Vec<_>>().join(" ")
    }
}

/// A view and its members.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub view: Arc<View>,
    pub members: Arc<[MemberInfo]>,
}

/// The replicated state.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct State {
    /// Drawn by the founder; none before that.
    pub cluster: Option<u128>,
    pub epoch: u64,
    copies: Option<Copies>,
    /// By uuid.
    pub nodes: BTreeMap<u128, Registered>,
    last_id: VoterId,
    /// By number: the last incarnation assigned.
    incarnations: Vec<u32>,
    ranges: Vec<Range>,
    history: VecDeque<Past>,
    /// None where every data member owns every slot.
    #[serde(skip)]
    sparse: Option<Sparse>,
    #[serde(skip)]
    aux: Arc<AuxStates>,
    /// Former members that have left or were forgotten; all other former members have failed.
    #[serde(skip)]
    leavers: BTreeSet<u128>,
    /// The fields of placement are those of `sparse`, and only filled in an encoded state.
    #[serde(skip)]
    keeping: Keeping,
}

impl State {
    /// Applies the next command.
    pub fn apply(&mut self, command: Command) -> Answer {
        match command {
            Command::Found { cluster, copies, founder } => self.found(cluster, copies, founder),
            Command::Join(applicant) => self.join(applicant),
            Command::Hold { number, incarnation, holds } => self.hold(number, incarnation, holds),
            Command::HoldUnheld { number, incarnation, epoch } => {
                if self.sparse.is_some() {
                    self.claim(number, incarnation);
                } else if self.epoch == epoch && !self.is_held() {
                    self.hold(number, incarnation, true);
                }
                Answer::Done
            }
            Command::Remove { number, incarnation } => {
                self.remove(number, incarnation);
                Answer::Done
            }
            Command::Leave { number, incarnation } => {
                let leaver = self.remove(number, incarnation);
                self.leavers.extend(leaver);
                Answer::Done
            }
            Command::Forget { uuid } => {
                let has_failed = self.nodes.get(&uuid).is_some_and(|node| !node.is_member);
                self.leavers.extend(has_failed.then_some(uuid));
                Answer::Done
            }
            Command::Arrived { number, incarnation, epoch, slots } => {
                let own = Identity { node: Node(number), incarnation };
                let slots = self.appointable(own, epoch, &slots);
                if !slots.is_empty() {
                    self.next_views(Event::Arrived(number, &slots));
                }
                Answer::Done
            }
            Command::BeginAnew { epoch } => {
                if self.forsaken_until(epoch) > 0 && self.is_held() {
                    self.next_views(Event::BeginAnew(epoch));
                }
                Answer::Done
            }
            Command::TakeOver { epoch } => {
                if self.lost_until(epoch) > 0 && self.is_held() {
                    self.next_views(Event::TakeOver(epoch));
                }
                Answer::Done
            }
            Command::KeepsData { number, incarnation } => {
                let uuid = self.member_mut(number, incarnation).map(|node| node.info.uuid);
                self.keeping.keepers.extend(uuid);
                Answer::Done
            }
            Command::LostSince { epoch, unix_ms } => {
                if self.unserved().iter().any(|of| of.epoch == epoch) {
                    self.keeping.since.entry(epoch).or_insert(unix_ms);
                }
                Answer::Done
            }
            Command::NextGeneration { cluster, state, founder } => {
                self.next_generation(cluster, &state, founder)
            }
            Command::Elect(stop) => {
                self.elect(&stop);
                Answer::Done
            }
            Command::SetFunctions(change) => self.set_aux(&change.into()),
            Command::SetAux(change) => self.set_aux(&change),
        }
    }

    fn set_aux(&mut self, change: &AuxChange) -> Answer {
        if let Some(after) = self.aux.after(change) {
            self.aux = Arc::new(after);
        }
        Answer::Done
    }

    /// Continues a cluster without its other members. Slots of which they were the only owners wait
    /// for them.
    fn next_generation(&mut self, cluster: u128, state: &[u8], founder: Applicant) -> Answer {
        if self.cluster.is_some() {
            return self.join(founder);
        }
        let Ok(mut state) = State::from_bytes(state) else { return Answer::Full };
        let ancestors = &mut state.keeping.ancestors;
        ancestors.extend(state.cluster.replace(cluster));
        ancestors.drain(..ancestors.len().saturating_sub(ANCESTORS_MAX));
        for node in state.nodes.values_mut().filter(|node| node.info.uuid != founder.uuid) {
            node.is_member = false;
        }
        state.next_view();
        *self = state;
        self.join(founder)
    }

    /// Whether this cluster continues another one, which has lost its majority.
    pub fn continues(&self, cluster: u128) -> bool {
        self.keeping.ancestors.contains(&cluster)
    }

    /// The clusters that this one continues.
    pub fn ancestors(&self) -> &[u128] {
        &self.keeping.ancestors
    }

    /// Whether a node is known to keep data on disk.
    pub fn keeps_data(&self, uuid: u128) -> bool {
        self.keeping.keepers.contains(&uuid)
    }

    fn keepers(&self) -> BTreeSet<u16> {
        let keepers = self.nodes.values().filter(|node| self.keeps_data(node.info.uuid));
        keepers.map(|node| node.info.number).collect()
    }

    /// The slots without owners, by the node that they wait for.
    pub fn unserved(&self) -> Vec<Unserved> {
        let waiting = self.sparse.iter().flat_map(Sparse::waiting);
        let unserved = waiting.map(|of| Unserved {
            slots: of.slots,
            awaited: self.by_number(of.owner).map(|node| node.info.clone()),
            since_ms: self.keeping.since.get(&of.epoch).copied(),
            epoch: of.epoch,
        });
        unserved.collect()
    }

    fn by_number(&self, number: u16) -> Option<&Registered> {
        self.nodes.values().find(|node| node.info.number == number)
    }

    /// Slots of which the node with this uuid is an owner in the last view.
    pub fn slots_of(&self, uuid: u128) -> SlotSet {
        let Some(own) = self.nodes.get(&uuid).filter(|node| node.is_member) else {
            return SlotSet::default();
        };
        let own = &own.info;
        let is_owner = |owners: &[u16]| match self.is_sparse() {
            true => owners.contains(&own.number),
            false => own.holds_slots,
        };
        let owners = expand(&self.ranges);
        (0..SLOTS).filter(|&slot| is_owner(owners[usize::from(slot)])).collect()
    }

    /// Removes a member; returns its uuid if it was one.
    fn remove(&mut self, number: u16, incarnation: u32) -> Option<u128> {
        let node = self.member_mut(number, incarnation)?;
        node.is_member = false;
        let uuid = node.info.uuid;
        self.next_view();
        Some(uuid)
    }

    /// Nodes that were removed as failed and have not returned.
    pub fn failed(&self) -> impl Iterator<Item = &MemberInfo> {
        let gone = self.nodes.values().filter(|node| !node.is_member);
        gone.map(|node| &node.info).filter(|info| !self.leavers.contains(&info.uuid))
    }

    /// Number of owners of each slot, once the cluster is founded.
    pub fn copies(&self) -> Option<Copies> {
        self.copies
    }

    /// The auxiliary state.
    pub fn aux_states(&self) -> &Arc<AuxStates> {
        &self.aux
    }

    /// Whether any member accepts slots.
    fn is_held(&self) -> bool {
        self.members().any(|node| node.info.holds_slots)
    }

    fn claim(&mut self, number: u16, incarnation: u32) {
        let is_last = self.sparse.as_ref().is_some_and(|sparse| sparse.may_claim(number));
        let may_claim = self.may_claim(number);
        let Some(node) = self.member_mut(number, incarnation) else { return };
        if node.info.role != Role::Data || !may_claim {
            return;
        }
        if let Some(sparse) = &mut self.sparse {
            sparse.with_data.insert(number);
        }
        if is_last {
            self.next_views(Event::Claim(number));
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

    fn found(&mut self, cluster: u128, copies: Copies, founder: Applicant) -> Answer {
        if self.cluster.is_some() {
            return self.join(founder);
        }
        (self.cluster, self.copies) = (Some(cluster), Some(copies));
        self.sparse = matches!(copies, Copies::Of(_)).then(Sparse::default);
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
        self.leavers.remove(&applicant.uuid);
        self.next_view();
        Answer::Joined(admission)
    }

    /// The node's former number, else an unused one, else that of a former member, which is
    /// forgotten.
    fn number_for(&mut self, uuid: u128) -> Option<u16> {
        if let Some(known) = self.nodes.get(&uuid) {
            return Some(known.info.number);
        }
        if self.incarnations.len() < usize::from(NODES_MAX) {
            self.incarnations.push(0);
            return Some(self.incarnations.len() as u16 - 1);
        }
        let is_awaited = |number| self.sparse.as_ref().is_some_and(|sparse| sparse.awaits(number));
        let gone = self.nodes.values().filter(|node| !node.is_member);
        let gone = gone.filter(|node| !is_awaited(node.info.number));
        let oldest = gone.min_by_key(|node| node.admitted)?;
        let (uuid, number) = (oldest.info.uuid, oldest.info.number);
        self.nodes.remove(&uuid);
        self.leavers.remove(&uuid);
        self.sparse.iter_mut().for_each(|sparse| sparse.forget(number));
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

    /// The present members.
    pub fn members(&self) -> impl Iterator<Item = &Registered> {
        self.nodes.values().filter(|node| node.is_member)
    }

    /// The member with this identity.
    pub fn member(&self, identity: Identity) -> Option<&Registered> {
        self.members().find(|node| node.info.identity() == identity)
    }

    /// The node with this Raft id, whether it is a member or not.
    pub fn by_id(&self, id: VoterId) -> Option<&Registered> {
        self.nodes.values().find(|node| node.id == id)
    }

    fn next_view(&mut self) {
        self.next_views(Event::Members);
    }

    /// Makes the next view, and the views that follow from it.
    fn next_views(&mut self, event: Event) {
        let mut members: Vec<MemberInfo> = self.members().map(|node| node.info.clone()).collect();
        members.sort_by_key(|member| member.number);
        let holders = holders(&members);
        let Some(mut sparse) = self.sparse.take() else {
            let slots = allocate(&slot_map(&self.ranges), &holders, members.len());
            let owners = |owners: &[Node]| owners.iter().map(|node| node.0).collect();
            let ranges = slots.ranges().iter();
            let ranges = ranges.map(|range| (range.first, range.last, owners(&range.owners)));
            return self.push_view(members, ranges.collect(), None);
        };
        let copies = match self.copies {
            Some(Copies::Of(copies)) => usize::from(copies.max(1)),
            _ => members.len(),
        };
        let (mut event, keepers) = (event, self.keepers());
        for _ in 0..FOLLOWING_MAX {
            let (epoch, keepers) = (self.epoch + 1, &keepers);
            let around = Around { epoch, members: &holders, copies, keepers };
            let before = sparse.incoming.clone();
            let owners = sparse.next(&self.ranges, &around, event);
            let is_rest = matches!(event, Event::Rest);
            if is_rest && owners == self.ranges && sparse.incoming == before {
                break;
            }
            self.push_view(members.clone(), owners, Some(sparse.incoming.clone()));
            event = Event::Rest;
        }
        let accepting = holders.iter().filter(|member| member.weight > 0);
        accepting.for_each(|member| sparse.return_without_data(member.node.0));
        let waiting = sparse.waiting();
        self.keeping.since.retain(|epoch, _| waiting.iter().any(|of| of.epoch == *epoch));
        self.sparse = Some(sparse);
    }

    fn push_view(
        &mut self,
        members: Vec<MemberInfo>,
        ranges: Vec<Range>,
        incoming: Option<Vec<Range>>,
    ) {
        self.ranges = ranges;
        self.epoch += 1;
        let past = Past { epoch: self.epoch, members, ranges: self.ranges.clone(), incoming };
        self.history.push_back(past);
        let len = |past: &Past| past.ranges.len() + past.incoming.as_ref().map_or(0, Vec::len);
        let mut ranges: usize = self.history.iter().map(len).sum();
        while self.history.len() > HISTORY || self.history.len() > 2 && ranges > HISTORY_RANGES {
            ranges -= self.history.pop_front().as_ref().map_or(0, len);
        }
    }

    /// The slots of a report that make the member an owner: it has imported them in every view
    /// since the epoch of the report, and their primary has stayed the same.
    pub fn appointable(&self, own: Identity, epoch: u64, slots: &[(u16, u16)]) -> SlotSet {
        let since: Vec<&Past> = self.history.iter().filter(|past| past.epoch >= epoch).collect();
        let is_seen = since.first().is_some_and(|past| past.epoch == epoch);
        if !is_seen || self.member(own).is_none() {
            return SlotSet::default();
        }
        let mut named = SlotSet::default();
        for &(first, last) in slots {
            (first..=last.min(SLOTS - 1)).for_each(|slot| named.insert(slot));
        }
        let mut primaries: Vec<Option<u16>> = Vec::new();
        for past in since {
            let owners = expand(&past.ranges);
            let incoming = expand(past.incoming.as_deref().unwrap_or_default());
            let primary = |slot: u16| owners[usize::from(slot)].first().copied();
            if primaries.is_empty() {
                primaries = (0..SLOTS).map(primary).collect();
            }
            let stays = |slot: &u16| {
                let was = primaries[usize::from(*slot)];
                was.is_some()
                    && primary(*slot) == was
                    && incoming[usize::from(*slot)].contains(&own.node.0)
            };
            named = named.iter().filter(stays).collect();
        }
        named
    }

    /// Whether slots have few owners.
    pub fn is_sparse(&self) -> bool {
        self.sparse.is_some()
    }

    /// Whether this node has to report that it has returned with data: slots without owners wait
    /// for it, their last owner, or it was an owner before.
    pub fn may_claim(&self, number: u16) -> bool {
        self.sparse.as_ref().is_some_and(|sparse| {
            let has_reported = sparse.with_data.contains(&number);
            sparse.may_claim(number) || sparse.is_former_owner(number) && !has_reported
        })
    }

    /// The last view in which slots lost all owners, if these slots could start empty.
    pub fn last_loss(&self) -> Option<u64> {
        let loss = self.sparse.as_ref().and_then(Sparse::last_loss);
        loss.filter(|_| self.is_held())
    }

    /// Number of slots without owners since this view or an earlier one of which no node keeps
    /// data.
    pub fn forsaken_until(&self, epoch: u64) -> usize {
        let keepers = self.keepers();
        self.sparse.as_ref().map_or(0, |sparse| sparse.forsaken_until(epoch, &keepers))
    }

    /// Number of slots without owners since this view or an earlier one.
    pub fn lost_until(&self, epoch: u64) -> usize {
        self.sparse.as_ref().map_or(0, |sparse| sparse.lost_until(epoch))
    }

    /// Whether the member's slots have to be handed over before it leaves: it owns slots with few
    /// owners, and others accept slots.
    pub fn has_to_hand_over(&self, own: Identity) -> bool {
        let mut others = self.members().filter(|node| node.info.identity() != own);
        let is_owner = self.ranges.iter().any(|(_, _, owners)| owners.contains(&own.node.0));
        self.is_sparse() && is_owner && others.any(|node| node.info.holds_slots)
    }

    /// A view in the history.
    pub fn step(&self, epoch: u64) -> Option<Step> {
        let past = self.history.iter().find(|past| past.epoch == epoch)?;
        let members = past.members.iter().map(MemberInfo::identity).collect();
        let incoming = past.incoming.as_deref().map(slot_map);
        let view = View { epoch, members, slots: slot_map(&past.ranges), incoming };
        Some(Step { view: Arc::new(view), members: past.members.clone().into() })
    }
}

/// The members as candidates for slots.
fn holders(members: &[MemberInfo]) -> Vec<Member> {
    let mut zones: Vec<&str> = members.iter().map(|member| member.zone.as_str()).collect();
    zones.sort_unstable();
    zones.dedup();
    let zone = |member: &MemberInfo| zones.partition_point(|zone| **zone < *member.zone) as u32;
    let holder = |member: &MemberInfo| Member {
        node: Node(member.number),
        weight: member.holds_slots.into(),
        zone: zone(member),
    };
    members.iter().map(holder).collect()
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

fn slot_map(ranges: &[Range]) -> SlotMap {
    let owners: Vec<Vec<Node>> =
        expand(ranges).iter().map(|owners| owners.iter().copied().map(Node).collect()).collect();
    SlotMap::collect(|slot| &owners[usize::from(slot)])
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
