//! The cluster as commands see it.

use super::state::deferred::Forward;
use super::state::functions::FunctionRequest;
use super::state::membership::{Membership, NODES_MAX};
use super::transport::MemberInfo;
use super::{fabric, info};
use crate::client::{Client, Flag};
use petrel_cluster::lanes::{note_more_slots, note_slots};
use petrel_cluster::wire::WaitEnd;
use petrel_cluster::{Identity, Lanes, Need, Node, SLOTS, slot_of};
use petrel_commands::clock::Tick;
use petrel_commands::{
    Call, Cluster, ClusterLink, Fail, HashSlot, HeldFigures, Outcome, PeerFigures, Primary, Rest,
    ShownSlots, Ticket, UnsafeChanges, UnservedFigures,
};
use petrel_fabric::{Copies, Fabric, NoTakeOver};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed};

impl Membership {
    /// Whether there are clients of Redis Cluster.
    fn is_redis_cluster(&self) -> bool {
        self.waiters.commands().is_some_and(|commands| commands.topology.get().is_some())
    }

    /// Nodes that were taken for dead and have not come back, as far as this node knows.
    pub(super) fn failed(&self) -> Vec<MemberInfo> {
        let fabric = self.fabric.lock().clone();
        let mut failed = fabric.map_or_else(Vec::new, |fabric| fabric::failed(&fabric));
        let (state, own) = (self.state(), self.id());
        // The view in force here may be older than the agreed one.
        let is_member = |id: &String| state.members.iter().any(|member| member.id == *id);
        failed.retain(|node| node.id != own && !is_member(&node.id));
        failed
    }
}

/// Changes in the lanes of one life of this member.
struct Needs {
    lanes: Arc<Lanes>,
    needs: Box<[Need]>,
    timeout_ms: i64,
}

impl UnsafeChanges for Needs {
    fn are_safe(&self) -> bool {
        self.needs.iter().all(|need| self.lanes.is_safe(*need))
    }

    fn timeout_ms(&self) -> i64 {
        self.timeout_ms
    }
}

impl Cluster for Membership {
    fn slot_of(&self, key: &[u8]) -> HashSlot {
        slot_of(key)
    }

    fn primary_of(&self, slot: HashSlot) -> Primary {
        match self.own.primary(slot) {
            None => Primary::Changing,
            Some(primary) if primary == self.own.me() => Primary::Here,
            Some(primary) => Primary::At(primary.0),
        }
    }

    fn has_adopted(&self, node: u16) -> bool {
        self.own.has_adopted(Node(node))
    }

    fn holds_all(&self) -> bool {
        self.own.holds_all()
    }

    fn has_full_owners(&self) -> bool {
        self.own.has_full_owners()
    }

    fn has_full_owner(&self, slot: HashSlot) -> bool {
        self.own.has_full_owner(slot)
    }

    fn note_slots(&self, slots: &[HashSlot]) {
        note_slots(slots);
    }

    fn note_more_slots(&self, slots: &[HashSlot]) {
        note_more_slots(slots);
    }

    fn waits_for_owners(&self) -> bool {
        self.acknowledge > 1
    }

    fn unsafe_changes(&self, shown: &ShownSlots) -> Option<Box<dyn UnsafeChanges>> {
        let lanes = self.lanes.read().clone()?;
        let needs = match shown.slots() {
            Some(slots) => lanes.needs_of(slots),
            None => lanes.needs_of_all(),
        };
        let timeout_ms = 2 * i64::from(self.node_timeout_ms);
        (!needs.is_empty()).then(|| Box::new(Needs { lanes, needs, timeout_ms }) as Box<_>)
    }

    fn is_readable(&self, slot: HashSlot) -> bool {
        self.own.is_readable(slot)
    }

    fn has_copies(&self, slot: HashSlot) -> bool {
        self.own.has_copies(slot)
    }

    fn tracks_away(&self) -> bool {
        self.tracks_away.load(Acquire)
    }

    fn lease_until(&self) -> Tick {
        Tick::of(self.lease_until.load(Acquire))
    }

    fn awaits_lease(&self) -> bool {
        self.is_renewing()
    }

    fn lacks_data(&self) -> Option<Fail> {
        self.is_witness.then_some(Fail::WITNESS)
    }

    fn unready(&self) -> Option<&'static str> {
        let (is_member, is_serving) = {
            let state = self.state.lock();
            (state.me.is_some(), state.is_serving)
        };
        match () {
            () if self.is_witness => Some("a witness of the cluster: it holds no data"),
            () if !is_member => Some("not a member of the cluster yet"),
            () if !is_serving => Some("waiting for the data of the cluster"),
            () if !self.has_lease() => Some("cut off from the majority of the cluster"),
            () => None,
        }
    }

    fn id(&self) -> String {
        self.name.get().cloned().unwrap_or_default()
    }

    fn links(&self) -> Vec<ClusterLink> {
        let (state, fabric) = (self.state(), self.fabric.lock().clone());
        let statuses = fabric.map(|fabric| fabric.info().members).unwrap_or_default();
        let link = |&(peer, since_ms): &(Identity, i64)| {
            let member = state.members.iter().find(|member| member.identity == peer)?;
            let status = statuses.iter().find(|status| status.info.identity() == peer);
            let queued = status.map_or(0, |status| status.queued);
            Some(ClusterLink { node: member.id.clone(), since_ms, queued })
        };
        state.linked.iter().filter_map(link).collect()
    }

    fn peers(&self) -> Vec<PeerFigures> {
        let (state, lanes) = (self.state(), self.lanes.read().clone());
        let others = state.members.iter().filter(|member| Some(member.identity) != state.me);
        let figures = |member: &MemberInfo| {
            let node = member.identity.node;
            let counts = self.figures.peer(node.0);
            PeerFigures {
                node: member.id.clone(),
                is_linked: state.linked.iter().any(|(peer, _)| *peer == member.identity),
                lag: lanes.as_ref().map_or(0, |lanes| lanes.lag_of(node)),
                sent: counts.sent.load(Relaxed),
                received: counts.received.load(Relaxed),
                forwarded: counts.forwarded.load(Relaxed),
                served: counts.served.load(Relaxed),
            }
        };
        others.map(figures).collect()
    }

    fn take_over(&self) -> Outcome {
        let fabric = self.fabric.lock().clone().ok_or(Fail::NO_CLUSTER)?;
        let given_up = fabric.take_over().map_err(|why| match why {
            NoTakeOver::NotNeeded => Fail::fixed(
                "ERR There is nothing to take over: every hash slot has an owner, and the majority is reachable",
            ),
            NoTakeOver::TooEarly => Fail::fixed(
                "ERR The majority was reachable less than two cluster-node-timeout ago: wait, and see whether it returns",
            ),
            NoTakeOver::NoState => Fail::fixed(
                "ERR This node cannot continue the cluster: it holds no data, or does not know the other members",
            ),
        })?;
        fabric::log_given_up(&given_up);
        Ok(())
    }

    fn unserved(&self) -> Vec<UnservedFigures> {
        let fabric = self.fabric.lock().clone();
        fabric.map_or_else(Vec::new, |fabric| fabric::unserved(&fabric))
    }

    fn info(&self) -> String {
        let failed = self.failed().len();
        let fabric = self.fabric.lock().clone();
        let copies = match fabric.as_ref().and_then(|fabric| fabric.copies()) {
            Some(Copies::Of(copies)) => Some(usize::from(copies.max(1))),
            Some(Copies::All) | None => None,
        };
        let voters = |of: fn(&Fabric) -> usize| fabric.as_deref().map_or(0, of);
        let (voters, missing_voters) = (voters(Fabric::voters), voters(Fabric::missing_voters));
        let unserved = self.unserved();
        let redundancy = info::Redundancy { failed, voters, missing_voters, unserved, copies };
        info::info(&self.state(), self.has_lease(), &self.figures, self.held(), redundancy)
    }

    fn held(&self) -> HeldFigures {
        let commands = self.waiters.commands();
        let lanes = self.lanes.read().clone();
        HeldFigures {
            slots: self.figures.slots_held.load(Relaxed),
            slots_coming: self.figures.slots_coming.load(Relaxed),
            copies_taken: self.own.copies_taken(),
            copies_read: commands.map_or(0, |commands| commands.reads_of_copies()),
            keys_shared: lanes.map_or(0, |lanes| lanes.keys_shared() as u64),
        }
    }

    fn nodes(&self) -> String {
        info::nodes(&self.state(), &self.failed())
    }

    fn forget(&self, id: &[u8]) -> Outcome {
        let state = self.state();
        let is = |member: &&MemberInfo| member.id.as_bytes().eq_ignore_ascii_case(id);
        if self.id().as_bytes().eq_ignore_ascii_case(id) {
            return Err(Fail::FORGET_ME);
        }
        if state.members.iter().any(|member| is(&member)) {
            return Err(Fail::fixed(
                "ERR The node is a member of the cluster: stop it with SHUTDOWN, and it leaves",
            ));
        }
        let failed = self.failed();
        let Some(uuid) = failed.iter().find(is).and_then(MemberInfo::uuid) else {
            let id = String::from_utf8_lossy(id);
            return Err(Fail::new(format!("ERR Unknown node {id}")));
        };
        if let Some(fabric) = &*self.fabric.lock() {
            fabric.forget(uuid);
        }
        Ok(())
    }

    fn forward(
        &self,
        client: &Ticket,
        seq: u64,
        call: Call,
        rest: Option<Box<Rest>>,
    ) -> Result<(), Fail> {
        let Ok(client) = client.clone().downcast::<Client>() else {
            return Err(Fail::PRIMARY_CHANGING);
        };
        if call.slots.is_empty() {
            let args = call.commands.into_iter().next().unwrap_or_default();
            let is_for_each_node = self.is_redis_cluster() && !client.has(Flag::Unix);
            let request = FunctionRequest::new(client, seq, call.resp3, args);
            return self.functions.ask(FunctionRequest { is_for_each_node, ..request });
        }
        let is_queued = self.tasks.send(Forward { client, seq, call, rest });
        self.waker.wake();
        if is_queued { Ok(()) } else { Err(Fail::TOO_MUCH_FORWARDED) }
    }

    fn slots_by_primary(&self) -> Option<Vec<Vec<HashSlot>>> {
        let mut primaries: BTreeMap<_, Vec<HashSlot>> = BTreeMap::new();
        for slot in 0..SLOTS {
            primaries.entry(self.own.primary(slot)?).or_default().push(slot);
        }
        Some(primaries.into_values().collect())
    }

    fn primaries(&self) -> Option<Vec<HashSlot>> {
        let mut primaries = [None; NODES_MAX];
        for slot in 0..SLOTS {
            let primary = usize::from(self.own.primary(slot)?.0);
            primaries.get_mut(primary)?.get_or_insert(slot);
        }
        Some(primaries.into_iter().flatten().collect())
    }

    fn members_in_step(&self) -> usize {
        let lanes = self.lanes.read().clone();
        lanes.map_or(0, |lanes| lanes.members_at(&lanes.changed_positions()))
    }

    fn logs_in_step(&self) -> usize {
        let Some(lanes) = self.lanes.read().clone() else { return 0 };
        self.known_logs.count(self.own.me(), &lanes, || self.waker.wake())
    }

    fn mark_of_primaries(&self) -> u64 {
        let view = self.state.lock().view.clone();
        let mut marked = self.marked.lock();
        if marked.0 != view.epoch {
            let mut hasher = DefaultHasher::new();
            for slot in 0..SLOTS {
                let primary = view.primary(slot);
                let primary = primary.map(|primary| (primary.node.0, primary.incarnation));
                primary.hash(&mut hasher);
            }
            *marked = (view.epoch, hasher.finish());
        }
        marked.1
    }

    fn unwatch(&self, slot: HashSlot, client: u64) {
        self.unwatched.lock().push((slot, client));
        self.waker.wake();
    }

    fn end_wait(&self, client: u64, end: Option<petrel_commands::WaitEnd>) -> bool {
        let end = match end {
            None => WaitEnd::Gone,
            Some(petrel_commands::WaitEnd::Timeout) => WaitEnd::Timeout,
            Some(_) => WaitEnd::Error,
        };
        if end != WaitEnd::Gone && !self.away.lock().contains_key(&client) {
            return false;
        }
        self.ends.lock().push((client, end));
        self.waker.wake();
        true
    }
}
