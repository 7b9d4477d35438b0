//! Duties of the leader: admits nodes, grants leases, removes failed members, and selects voters.

use crate::bus::Bus;
use crate::events::Level;
use crate::lease::Leases;
use crate::raft::{Consensus, ProposeError};
use crate::settings::Role;
use crate::state::restart::{Plan, Report, Reported};
use crate::state::{Answer, Applicant, Command, Registered, VoterId};
use crate::voters;
use crate::wire::{Refusal, Reply, Request};
use parking_lot::Mutex;
use petrel_cluster::{Extents, Identity, Node};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Maximum number of join attempts remembered while a former incarnation may be alive.
const ATTEMPTS_MAX: usize = 1024;

/// Number of renewals that a member may miss and count as alive when other nodes return.
const RENEWALS_ALIVE: u32 = 3;

/// A session that asks to join, and the time of its first request.
#[derive(Clone, Copy)]
struct Attempt {
    boot: u64,
    since: Instant,
}

/// A member that may get a vote.
struct Candidate {
    id: VoterId,
    bus: String,
    /// Whether it votes by its role, and failure detection considers it alive.
    is_able: bool,
}

/// State of a node for the time that it leads.
pub(crate) struct Leader {
    bus: Arc<Bus>,
    consensus: Consensus,
    leases: Mutex<Option<Leases>>,
    attempts: Mutex<HashMap<u128, Attempt>>,
    /// The last view that left slots without owners, and when this leader noticed it.
    loss: Mutex<Option<(u64, Instant)>>,
    /// Extents of the data with which nodes have returned, by uuid.
    reports: Mutex<HashMap<u128, Report>>,
    /// Held during an election.
    electing: tokio::sync::Mutex<()>,
}

impl Leader {
    pub fn new(bus: Arc<Bus>, consensus: Consensus) -> Self {
        let (leases, attempts, loss, reports, electing) = Default::default();
        Leader { bus, consensus, leases, attempts, loss, reports, electing }
    }

    /// Serves a request to the leader, whether or not this node leads.
    pub async fn serve(&self, request: Request) -> Reply {
        let identity = |number, incarnation| Identity { node: Node(number), incarnation };
        match request {
            Request::Join(applicant) => self.join(applicant).await,
            Request::Renew { number, incarnation } => {
                self.renew(identity(number, incarnation)).await
            }
            Request::Hold { number, incarnation, holds } => {
                self.propose(Command::Hold { number, incarnation, holds }).await
            }
            Request::HoldUnheld { number, incarnation, epoch } => {
                self.propose(Command::HoldUnheld { number, incarnation, epoch }).await
            }
            Request::Arrived { number, incarnation, epoch, slots } => {
                self.propose(Command::Arrived { number, incarnation, epoch, slots }).await
            }
            Request::SetFunctions(change) => self.propose(Command::SetFunctions(change)).await,
            Request::SetAux(change) => self.propose(Command::SetAux(change)).await,
            Request::Leave { number, incarnation } => {
                self.propose(Command::Leave { number, incarnation }).await
            }
            Request::Forget { uuid } => self.propose(Command::Forget { uuid }).await,
            Request::KeepsData { number, incarnation } => {
                self.propose(Command::KeepsData { number, incarnation }).await
            }
            Request::Extents { number, incarnation, extents } => {
                self.extents_of(identity(number, incarnation), &extents).await
            }
            Request::TakeOver { epoch } => self.propose(Command::TakeOver { epoch }).await,
            Request::Raft(_) | Request::Gossip(_) | Request::HasAux { .. } => {
                Reply::Failed("not for the leader".into())
            }
        }
    }

    async fn propose(&self, command: Command) -> Reply {
        match self.consensus.propose(command).await {
            Ok(Answer::Done) => Reply::Done,
            Ok(Answer::Joined(admission)) => Reply::Joined(admission),
            Ok(Answer::OtherKey) => Reply::Refused(Refusal::OtherKey),
            Ok(Answer::Full) => Reply::Refused(Refusal::Full),
            Err(ProposeError::NotLeader(leader)) => self.redirect(leader),
            Err(ProposeError::Failed(error)) => Reply::Failed(error),
        }
    }

    fn redirect(&self, leader: Option<VoterId>) -> Reply {
        let state = self.bus.agreed.state.lock();
        match leader.and_then(|leader| state.by_id(leader)) {
            Some(leader) => Reply::Redirect(self.bus.discovery.address_of(&leader.info)),
            None => Reply::NoLeader,
        }
    }

    async fn join(&self, applicant: Applicant) -> Reply {
        if !self.consensus.is_confirmed_leader().await {
            return self.redirect(self.consensus.leader());
        }
        if let Some(reply) = self.wait_for_former(&applicant) {
            return reply;
        }
        let uuid = applicant.uuid;
        let founded = self.bus.agreed.state.lock().cluster.is_some();
        if !founded {
            return Reply::NoLeader;
        }
        let extents = match &applicant.extents {
            Reported::Unreported => None,
            Reported::Loading => Some(None),
            // The data of a node with malformed extents do not count.
            Reported::Known(bytes) => Some(Some(Extents::read(bytes).unwrap_or_default())),
        };
        if let Some(extents) = extents {
            let report = Report { boot: applicant.boot, extents };
            if let Some(reply) = self.restart(uuid, report).await {
                return reply;
            }
        }
        let reply = self.propose(Command::Join(applicant)).await;
        if let Reply::Joined(admission) = &reply {
            self.attempts.lock().remove(&uuid);
            self.leases(|leases| leases.renew(admission.identity(), Instant::now()));
        }
        reply
    }

    /// Makes a joining node wait while its former incarnation, or a copy of its directory, may be
    /// alive: until that has been silent for two renewals.
    fn wait_for_former(&self, applicant: &Applicant) -> Option<Reply> {
        let (identity, bus) = {
            let state = self.bus.agreed.state.lock();
            let known = state.nodes.get(&applicant.uuid).filter(|known| known.is_member)?;
            if known.boot == applicant.boot || known.key != applicant.key {
                return None;
            }
            (known.info.identity(), known.info.bus.clone())
        };
        // This node knows that its own former session has ended.
        if applicant.uuid == self.bus.uuid() {
            return None;
        }
        let now = Instant::now();
        let patience = self.bus.timing.renewal * 2;
        let mut attempts = self.attempts.lock();
        attempts.retain(|_, attempt| now.duration_since(attempt.since) < patience * 10);
        if attempts.len() >= ATTEMPTS_MAX {
            return Some(Reply::Wait);
        }
        let attempt = attempts.entry(applicant.uuid).or_insert(Attempt { boot: 0, since: now });
        if attempt.boot != applicant.boot {
            *attempt = Attempt { boot: applicant.boot, since: now };
        }
        let renewed = self.leases(|leases| leases.renewed(identity));
        // A renewal in transit is no sign of life.
        if renewed.is_some_and(|renewed| renewed > attempt.since + patience / 4) {
            return Some(Reply::Refused(Refusal::Twice { bus }));
        }
        (now.duration_since(attempt.since) <= patience).then_some(Reply::Wait)
    }

    /// Prepares the slots of a node that joins: if no owner of one is alive, waits until all have
    /// returned or were removed, and has the slot continue with the longest log.
    async fn restart(&self, uuid: u128, report: Report) -> Option<Reply> {
        let _electing = self.electing.lock().await;
        let plan = {
            let patience = self.bus.timing.renewal * RENEWALS_ALIVE;
            let now = Instant::now();
            let is_alive = |identity| {
                let renewed = self.leases(|leases| leases.confirmed(identity));
                renewed.is_some_and(|renewed| now.duration_since(renewed) < patience)
            };
            let mut reports = self.reports.lock();
            let state = self.bus.agreed.state.lock();
            reports.insert(uuid, report);
            reports.retain(|uuid, _| state.nodes.contains_key(uuid));
            let by_two = self.bus.settings.acknowledge > 1;
            state.plan_restart(uuid, (&reports, by_two), is_alive)
        };
        match plan {
            Plan::Join => None,
            Plan::Wait(nodes) => {
                let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
                let line = format!(
                    "cluster: no owner of some slots is alive: waiting until these nodes have returned and \
                     loaded their data, or are removed: {}",
                    nodes.join(", ")
                );
                self.bus.log_once(Level::Notice, line);
                Some(Reply::Wait)
            }
            Plan::Elect(stop) => {
                let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
                for (first, last, nodes) in &stop.heirs {
                    let count = nodes.first().map(|node| counts.entry(*node).or_default());
                    count.into_iter().for_each(|count| *count += usize::from(last - first) + 1);
                }
                let counts: Vec<String> = counts
                    .iter()
                    .map(|(node, count)| format!("{count} with node {node}"))
                    .collect();
                let line = format!(
                    "cluster: all owners of some slots have stopped; by their logs these continue: {}",
                    counts.join(", ")
                );
                self.bus.log(Level::Notice, line);
                match self.propose(Command::Elect(stop)).await {
                    Reply::Done => None,
                    failed => Some(failed),
                }
            }
        }
    }

    /// Extents with which a present member has joined.
    async fn extents_of(&self, identity: Identity, bytes: &[u8]) -> Reply {
        if !self.consensus.is_confirmed_leader().await {
            return self.redirect(self.consensus.leader());
        }
        let known = {
            let state = self.bus.agreed.state.lock();
            state.member(identity).map(|node| (node.info.uuid, node.boot))
        };
        let Some((uuid, boot)) = known else { return Reply::Refused(Refusal::NotAMember) };
        let extents = Some(Extents::read(bytes).unwrap_or_default());
        self.restart(uuid, Report { boot, extents }).await.unwrap_or(Reply::Done)
    }

    async fn renew(&self, identity: Identity) -> Reply {
        // A confirmed leader has applied all committed entries.
        if !self.consensus.is_confirmed_leader().await {
            return self.redirect(self.consensus.leader());
        }
        if self.bus.agreed.state.lock().member(identity).is_none() {
            return Reply::Refused(Refusal::NotAMember);
        }
        self.leases(|leases| leases.renew(identity, Instant::now()));
        Reply::Done
    }

    fn leases<T>(&self, with: impl FnOnce(&mut Leases) -> T) -> T {
        let mut leases = self.leases.lock();
        let lease = self.bus.timing.lease;
        with(leases.get_or_insert_with(|| Leases::new(lease, Instant::now())))
    }

    /// Periodic work; `alive` are the members that failure detection considers alive. Returns
    /// whether all of it was done.
    pub async fn run_duties(&self, alive: BTreeSet<Identity>) -> bool {
        if !self.consensus.is_leader() {
            *self.leases.lock() = None;
            *self.loss.lock() = None;
            return true;
        }
        if !self.consensus.is_confirmed_leader().await {
            return false;
        }
        self.remove_failed(&alive).await;
        self.release_lost_slots().await;
        let changed = self.arrange_consensus(&alive).await;
        if let Err(error) = &changed {
            let line = format!("cluster: cannot adjust the consensus group: {error}");
            self.bus.log_once(Level::Warning, line);
        }
        changed.is_ok()
    }

    /// Whether members are to be added to the Raft group, or to its voters, now: until then the
    /// cluster survives fewer failures.
    pub fn has_to_extend(&self, alive: &BTreeSet<Identity>) -> bool {
        let candidates = self.candidates(alive);
        let participants = self.consensus.participants();
        candidates.iter().any(|candidate| !participants.contains_key(&candidate.id))
            || self.wanted_voters(&candidates).len() > self.consensus.voters().len()
    }

    /// The members, as candidates for votes.
    fn candidates(&self, alive: &BTreeSet<Identity>) -> Vec<Candidate> {
        let state = self.bus.agreed.state.lock();
        let candidate = |member: &Registered| Candidate {
            id: member.id,
            bus: member.info.bus.clone(),
            is_able: member.info.role != Role::Cache && alive.contains(&member.info.identity()),
        };
        state.members().map(candidate).collect()
    }

    fn wanted_voters(&self, candidates: &[Candidate]) -> BTreeSet<VoterId> {
        let able = candidates.iter().filter(|candidate| candidate.is_able);
        let able = able.map(|candidate| candidate.id);
        let able = able.filter(|id| self.consensus.has_caught_up(*id)).collect();
        let own = self.bus.origin.lock().id.unwrap_or_default();
        voters::choose(&able, &self.consensus.voters(), own)
    }

    async fn remove_failed(&self, alive: &BTreeSet<Identity>) {
        let members: Vec<(VoterId, Identity)> = {
            let state = self.bus.agreed.state.lock();
            state.members().map(|member| (member.id, member.info.identity())).collect()
        };
        let is_alive = |_, identity| alive.contains(&identity);
        let down = self.leases(|leases| leases.down(Instant::now(), &members, is_alive));
        for identity in down {
            let (number, incarnation) = (identity.node.0, identity.incarnation);
            let line = format!("cluster: node {number} is down (incarnation {incarnation})");
            self.bus.log(Level::Warning, line);
            self.propose(Command::Remove { number, incarnation }).await;
        }
    }

    /// Records since when slots have no owner. Lets those start empty that have waited long enough
    /// for their last owner, and of which no former owner keeps data. Slots lost meanwhile wait for
    /// another period.
    async fn release_lost_slots(&self) {
        let undated = {
            let unserved = self.bus.agreed.state.lock().unserved();
            unserved.into_iter().find(|of| of.since_ms.is_none()).map(|of| of.epoch)
        };
        if let Some(epoch) = undated {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let unix_ms = now.as_millis().try_into().unwrap_or(u64::MAX);
            self.propose(Command::LostSince { epoch, unix_ms }).await;
        }
        let now = Instant::now();
        let (epoch, count) = {
            let state = self.bus.agreed.state.lock();
            let mut known = self.loss.lock();
            let Some(last) = state.last_loss() else {
                *known = None;
                return;
            };
            let (epoch, since) = *known.get_or_insert((last, now));
            if now.duration_since(since) < self.bus.timing.grace {
                return;
            }
            *known = None;
            (epoch, state.forsaken_until(epoch))
        };
        if count > 0 {
            let line =
                format!("cluster: no node keeps the data of {count} slots: they start empty");
            self.bus.log(Level::Warning, line);
            self.propose(Command::BeginAnew { epoch }).await;
        }
    }

    /// Adds all members to the Raft group, removes other nodes, and adjusts the voters.
    async fn arrange_consensus(&self, alive: &BTreeSet<Identity>) -> Result<(), String> {
        let candidates = self.candidates(alive);
        let consensus = &self.consensus;
        let participants = consensus.participants();
        for Candidate { id, bus, .. } in &candidates {
            if !participants.contains_key(id) {
                consensus.add(*id, bus).await?;
            }
        }
        let wanted = self.wanted_voters(&candidates);
        let is_other = wanted != consensus.voters() || consensus.is_changing_voters();
        if !wanted.is_empty() && is_other {
            consensus.set_voters(wanted).await?;
        }
        let is_member = |id: &VoterId| candidates.iter().any(|candidate| candidate.id == *id);
        let voters = consensus.voters();
        let gone = participants.keys().filter(|id| !is_member(id) && !voters.contains(id));
        let gone: BTreeSet<VoterId> = gone.copied().collect();
        if gone.is_empty() { Ok(()) } else { consensus.remove(gone).await }
    }
}
