//! Session: one incarnation of a node, from its request to join until it is not a member any more.

use crate::bus::{Bus, ConsensusStatus};
use crate::changes;
use crate::control::{Control, Inbound, Target};
use crate::events::Level;
use crate::leader::Leader;
use crate::leader_client::LeaderClient;
use crate::links::Links;
use crate::raft::{Changes, Consensus, Origin, Store, StoreError};
use crate::settings::{Hold, Role, Start};
use crate::state::restart::Reported;
use crate::state::{Admission, Applicant, MemberInfo, State, Step, Unserved, VoterId};
use crate::swim::Swim;
use crate::voters;
use crate::wire::{Refusal, Reply, Request};
use crate::{HostCommand, Lease, random_u64};
use petrel_cluster::{Identity, View};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

mod reports;

/// Maximum pause before the leader repeats duties that were not done.
const DUTIES_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Reason that a session has ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The host has stopped the node, or it has left.
    Stopped,
    /// Another session begins after this delay.
    Again { why: String, after: Duration },
    /// The cluster rejects the node.
    Refused(Refusal),
    /// The operator continues the cluster without its majority.
    Generation,
    /// Another cluster continues the node's, which joins it.
    Superseded,
}

/// Result of a background request.
enum Outcome {
    Joined(Admission),
    Refused(Refusal),
    /// No answer; the request is repeated.
    NotYet,
    /// The lease was renewed by a request sent at this time.
    Renewed(Instant),
    NotAMember,
    Asked,
    DutiesEnded,
}

/// Resources that outlive a session.
pub(crate) struct SessionContext {
    pub bus: Arc<Bus>,
    pub control: Arc<Control>,
    pub links: Arc<Links>,
    pub store: Store,
    pub lease: Arc<Lease>,
}

impl SessionContext {
    /// Prepares the next session to found the cluster again, with this node as the only voter.
    pub fn begin_generation(&self) -> Result<(), String> {
        let bytes = [random_u64(), random_u64()];
        let cluster = u128::from(bytes[0]) << 64 | u128::from(bytes[1]);
        let state = self.bus.agreed.state.lock().to_bytes().map_err(|error| error.to_string())?;
        let origin = Origin { cluster: Some(cluster), ..self.bus.origin.lock().clone() };
        let begun = self.store.begin_generation(&origin, &state);
        begun.map_err(|error| error.to_string())?;
        *self.bus.origin.lock() = origin;
        Ok(())
    }

    /// Prepares the next session to join the cluster that continues this node's.
    pub fn follow(&self) -> Result<(), String> {
        let Some(address) = self.bus.superseded.lock().clone() else { return Ok(()) };
        let origin = Origin { cluster: None, id: None, ..self.bus.origin.lock().clone() };
        self.store.follow(&origin, &address).map_err(|error| error.to_string())?;
        *self.bus.origin.lock() = origin;
        *self.bus.agreed.state.lock() = State::default();
        Ok(())
    }
}

pub(crate) struct Session<'a> {
    around: &'a SessionContext,
    boot: u64,
    began: Instant,
    consensus: Option<Consensus>,
    changes: Option<Changes>,
    leader: Option<Arc<Leader>>,
    swim: Option<Swim>,
    admission: Option<Admission>,
    /// Epoch of the last view reported to the host in this session.
    reported: Option<u64>,
    reported_view: Option<Arc<View>>,
    outcomes: mpsc::UnboundedSender<Outcome>,
    is_asking: bool,
    runs_duties: bool,
    announced: Instant,
    /// The host wants to leave, by this time at the latest.
    leaving: Option<Instant>,
    /// The host's last request about slots.
    hold: Option<Hold>,
    /// Version of the auxiliary state last reported to the host.
    reported_aux: u64,
    /// Epoch and imported slots of the host's last arrival report.
    arrived: Option<(u64, Vec<(u16, u16)>)>,
    /// Epoch of the last view of which the operator has given up slots without owners.
    taken_over: Option<u64>,
    /// Slots without owners that were logged.
    unserved: Vec<Unserved>,
}

impl<'a> Session<'a> {
    /// Runs one session to its end.
    pub async fn run(
        around: &'a SessionContext,
        inbound: &mut mpsc::Receiver<Inbound>,
        commands: &mut mpsc::UnboundedReceiver<HostCommand>,
    ) -> End {
        let (outcomes, mut reported) = mpsc::unbounded_channel();
        let mut session = Session {
            around,
            boot: random_u64(),
            began: Instant::now(),
            consensus: None,
            changes: None,
            leader: None,
            swim: None,
            admission: None,
            reported: None,
            reported_view: None,
            outcomes,
            is_asking: false,
            runs_duties: false,
            announced: Instant::now(),
            leaving: None,
            hold: None,
            reported_aux: 0,
            arrived: None,
            taken_over: None,
            unserved: Vec::new(),
        };
        let end = match session.begin().await {
            Ok(()) => session.live(inbound, commands, &mut reported).await,
            Err(why) => End::Again { why, after: around.bus.timing.search },
        };
        session.finish().await;
        end
    }

    /// Joins consensus if this node has a voter id.
    async fn begin(&mut self) -> Result<(), String> {
        let bus = &self.around.bus;
        let mut origin = bus.origin.lock().clone();
        self.around.store.mend(&origin)?;
        let failed = |error: StoreError| error.to_string();
        let successor = self.around.store.successor().map_err(failed)?;
        let founds = matches!(bus.settings.start, Start::Create) && successor.is_none();
        *bus.superseded.lock() = successor.filter(|_| origin.id.is_none());
        *bus.generation.lock() = self.around.store.generation().map_err(failed)?;
        let continues = bus.generation.lock().is_some();
        if origin.id.is_none() && founds {
            origin.id = Some(1);
            self.around.store.set_origin(&origin).map_err(|error| error.to_string())?;
            *bus.origin.lock() = origin.clone();
        }
        let Some(id) = origin.id else { return Ok(()) };
        self.take_part(id).await?;
        // The founder creates the initial configuration.
        if (id == 1 && origin.cluster.is_none() && founds || continues)
            && let Some(consensus) = &self.consensus
        {
            let announced = bus.announced.lock().clone();
            consensus.found(&announced).await?;
        }
        Ok(())
    }

    async fn take_part(&mut self, id: VoterId) -> Result<(), String> {
        let SessionContext { bus, control, store, .. } = self.around;
        let (agreed, timing) = (bus.agreed.clone(), &bus.timing);
        let started = Consensus::start(id, store.clone(), agreed, control.clone(), timing).await;
        let consensus = started?;
        self.leader = Some(Arc::new(Leader::new(bus.clone(), consensus.clone())));
        self.changes = Some(consensus.changes());
        self.consensus = Some(consensus);
        Ok(())
    }

    async fn finish(&mut self) {
        self.around.lease.end();
        self.around.bus.events.lock().lease(None);
        self.around.links.close_all();
        *self.around.bus.own.lock() = None;
        *self.around.bus.reported.lock() = Arc::from([]);
        self.around.bus.epoch.store(0, Ordering::Release);
        if self.reported.take().is_some() {
            let bus = &self.around.bus;
            if bus.settings.reports_extents {
                // The host's data have changed since.
                *bus.extents.lock() = Reported::Loading;
            }
            bus.events.lock().expelled();
        }
        if let Some(mut swim) = self.swim.take() {
            swim.leave();
            self.send_gossip(&mut swim);
        }
        if let Some(consensus) = self.consensus.take() {
            let stopped = tokio::time::timeout(self.around.bus.timing.handshake, consensus.stop());
            if stopped.await.is_err() {
                let line = "cluster: consensus did not stop in time".into();
                self.around.bus.log(Level::Warning, line);
            }
        }
    }

    async fn live(
        &mut self,
        inbound: &mut mpsc::Receiver<Inbound>,
        commands: &mut mpsc::UnboundedReceiver<HostCommand>,
        reported: &mut mpsc::UnboundedReceiver<Outcome>,
    ) -> End {
        let agreed = self.around.bus.agreed.clone();
        let mut look = tokio::time::interval(self.around.bus.timing.renewal);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let gossip = self.swim.as_ref().and_then(Swim::next_timer);
            let gossip = gossip.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
            let end = tokio::select! {
                biased;
                command = commands.recv() => self.handle_command(command),
                () = agreed.changed.notified() => {
                    self.report_aux();
                    self.log_unserved();
                    self.report_views()
                }
                outcome = reported.recv() => match outcome {
                    Some(outcome) => self.take(outcome).await,
                    None => None,
                },
                () = tokio::time::sleep_until(gossip.into()) => self.gossip(),
                () = next_change(&mut self.changes) => {
                    self.update_status();
                    self.extend_consensus();
                    None
                }
                _ = look.tick() => self.look(),
                request = inbound.recv() => {
                    request.into_iter().for_each(|request| self.serve(request));
                    None
                }
            };
            match end {
                // A node that wants to leave does not rejoin.
                Some(End::Again { .. }) if self.leaving.is_some() => return End::Stopped,
                Some(end) => return end,
                None => {}
            }
        }
    }

    fn handle_command(&mut self, command: Option<HostCommand>) -> Option<End> {
        match command {
            None | Some(HostCommand::Stop) => return Some(End::Stopped),
            Some(HostCommand::Leave) if self.admission.is_none() => return Some(End::Stopped),
            Some(HostCommand::Leave) => {
                let is_sparse = self.around.bus.agreed.state.lock().is_sparse();
                let timing = &self.around.bus.timing;
                let handover = if is_sparse { timing.handover } else { Duration::ZERO };
                self.leaving.get_or_insert(Instant::now() + handover + timing.lease * 5);
                if is_sparse {
                    self.hold = Some(Hold::GiveUp);
                }
            }
            Some(HostCommand::Hold(own, hold)) => {
                if self.is_own(own) {
                    self.hold = Some(hold);
                    self.drop_fulfilled_request();
                }
            }
            Some(HostCommand::Arrived(own, epoch, slots)) => {
                if self.is_own(own) {
                    self.arrived = Some((epoch, slots));
                }
                // The report is sent with the next renewal, which limits the rate of views.
                return None;
            }
            Some(HostCommand::SetAux(change)) => {
                let client = self.client();
                let request = match change.functions_only() {
                    Ok(change) => Request::SetFunctions(change),
                    Err(change) => Request::SetAux(change),
                };
                tokio::spawn(async move { client.ask(request).await });
                return None;
            }
            Some(HostCommand::Forget(uuid)) => {
                let client = self.client();
                tokio::spawn(async move { client.ask(Request::Forget { uuid }).await });
                return None;
            }
            // It may have waited for them.
            Some(HostCommand::Extents) => self.is_asking &= self.admission.is_some(),
            Some(HostCommand::TakeOver(epoch)) => self.taken_over = Some(epoch),
            Some(HostCommand::Generation) => return Some(End::Generation),
            Some(HostCommand::AwaitAux(wait)) => {
                tokio::spawn(self.client().await_aux(wait));
                return None;
            }
            Some(HostCommand::Rejoin(own)) if self.is_own(own) => {
                let why = "this member rejoins with the data of the others".into();
                return Some(End::Again { why, after: Duration::ZERO });
            }
            Some(HostCommand::Rejoin(_)) => {}
        }
        self.look()
    }

    fn is_own(&self, own: Identity) -> bool {
        self.admission.is_some_and(|admission| admission.identity() == own)
    }

    /// Whether the last reported view shows the result of the host's request.
    fn is_visible(&self, hold: Hold) -> bool {
        let Some(admission) = self.admission else { return false };
        let reported = self.around.bus.reported.lock().clone();
        let holds = |member: &MemberInfo| member.holds_slots;
        let own = reported.iter().find(|member| member.identity() == admission.identity());
        match hold {
            _ if self.around.bus.settings.role != Role::Data => true,
            Hold::Take => own.is_some_and(holds),
            Hold::GiveUp => !own.is_some_and(holds),
            Hold::TakeUnheld => {
                let state = self.around.bus.agreed.state.lock();
                match state.is_sparse() {
                    true => !state.may_claim(admission.number),
                    false => reported.iter().any(holds),
                }
            }
        }
    }

    /// Drops a `TakeUnheld` request once a view has a member that holds slots. Other requests stay:
    /// an older view may still arrive that shows the result of an earlier request.
    fn drop_fulfilled_request(&mut self) {
        if self.hold == Some(Hold::TakeUnheld) && self.is_visible(Hold::TakeUnheld) {
            self.hold = None;
        }
    }

    /// Periodic work.
    fn look(&mut self) -> Option<End> {
        if let Some(why) = self.consensus.as_ref().and_then(Consensus::failure) {
            let why = format!("consensus has stopped: {why}");
            let why = self.around.store.failure().unwrap_or(why);
            return Some(End::Again { why, after: self.around.bus.timing.search });
        }
        if let Some(end) = self.is_gone() {
            return Some(end);
        }
        let is_member_once = self.around.bus.origin.lock().id.is_some();
        if is_member_once && self.around.bus.superseded.lock().is_some() {
            return Some(End::Superseded);
        }
        if !self.is_asking {
            self.is_asking = true;
            match self.admission {
                None => self.ask_to_join(),
                Some(admission) => self.ask_as_member(admission),
            }
        }
        self.run_duties();
        self.announce();
        self.update_status();
        // An error ends consensus at its next write.
        drop(self.around.store.sync_committed());
        None
    }

    /// Starts the leader's duties, unless they run.
    fn run_duties(&mut self) {
        if let Some(leader) = self.leader.clone().filter(|_| !self.runs_duties) {
            self.runs_duties = true;
            let (alive, outcomes) = (self.alive(), self.outcomes.clone());
            let pause = (self.around.bus.timing.renewal / 4).min(DUTIES_PAUSE_MAX);
            tokio::spawn(async move {
                if !leader.run_duties(alive).await {
                    tokio::time::sleep(pause).await;
                }
                drop(outcomes.send(Outcome::DutiesEnded));
            });
        }
    }

    /// Adds members to the consensus group and its voters as soon as that is possible.
    fn extend_consensus(&mut self) {
        let leads = self.consensus.as_ref().is_some_and(Consensus::is_leader);
        if let Some(leader) = self.leader.as_ref().filter(|_| leads && !self.runs_duties)
            && leader.has_to_extend(&self.alive())
        {
            self.run_duties();
        }
    }

    /// Updates the consensus status for the host.
    fn update_status(&self) {
        let bus = &self.around.bus;
        let consensus = self.consensus.as_ref();
        let leader = consensus.and_then(Consensus::leader);
        let leader = leader.and_then(|leader| {
            let state = bus.agreed.state.lock();
            state.by_id(leader).map(|leader| leader.info.identity())
        });
        let candidates = {
            let state = bus.agreed.state.lock();
            state.members().filter(|member| member.info.role != Role::Cache).count()
        };
        let mut status = bus.consensus.lock();
        let before = if consensus.is_some() { status.voters } else { 0 };
        let voters = consensus.and_then(Consensus::committed_voters).unwrap_or(before);
        let missing_voters = voters::count(candidates).saturating_sub(voters);
        *status = ConsensusStatus { leader, voters, missing_voters };
    }

    /// Whether a leaving node may stop.
    fn is_gone(&self) -> Option<End> {
        let (until, admission) = (self.leaving?, self.admission?);
        let state = self.around.bus.agreed.state.lock();
        let is_member = state.member(admission.identity()).is_some();
        let others = state.members().count() - usize::from(is_member);
        drop(state);
        let voters = self.consensus.as_ref().map(Consensus::voters).unwrap_or_default();
        let has_handed_over = !voters.contains(&admission.id) || others == 0;
        let is_over = Instant::now() >= until;
        (is_over || !is_member && has_handed_over).then_some(End::Stopped)
    }

    /// The members that failure detection considers alive.
    fn alive(&self) -> BTreeSet<Identity> {
        let Some(swim) = &self.swim else { return BTreeSet::new() };
        let state = self.around.bus.agreed.state.lock();
        let members = state.members().map(|member| (member.id, member.info.identity()));
        let alive = members.filter(|(id, identity)| swim.is_alive(*id, identity.incarnation));
        alive.map(|(_, identity)| identity).collect()
    }

    /// Announces this node now and then to members that failure detection does not know.
    fn announce(&mut self) {
        if self.announced.elapsed() >= self.around.bus.timing.search / 3 {
            self.announce_now(false);
        }
    }

    /// Announces this node to members that failure detection does not know, or to all.
    fn announce_now(&mut self, to_all: bool) {
        let Some(swim) = &mut self.swim else { return };
        self.announced = Instant::now();
        let state = self.around.bus.agreed.state.lock();
        for member in state.members() {
            if to_all || !swim.is_alive(member.id, member.info.incarnation) {
                swim.announce(member.id, member.info.incarnation);
            }
        }
        // Members of the cluster that this one continues may be alive, and do not know that.
        let failed = state.failed().filter(|_| !state.ancestors().is_empty());
        let targets: Vec<Target> = failed.map(|node| Target::of(&self.around.bus, node)).collect();
        drop(state);
        for target in targets {
            self.around.control.cast(target, Request::Gossip(Vec::new()));
        }
        self.gossip();
    }

    /// Runs due timers of failure detection, and sends its packets.
    fn gossip(&mut self) -> Option<End> {
        if let Some(mut swim) = self.swim.take() {
            swim.tick(Instant::now());
            self.send_gossip(&mut swim);
            self.swim = Some(swim);
        }
        None
    }

    fn send_gossip(&self, swim: &mut Swim) {
        while let Some((to, packet)) = swim.next_packet() {
            let bus = &self.around.bus;
            let target = bus.agreed.state.lock().by_id(to).map(|node| Target::of(bus, &node.info));
            target.into_iter().for_each(|target| {
                self.around.control.cast(target, Request::Gossip(packet.clone()));
            });
        }
    }

    /// Handles a request of another node.
    fn serve(&mut self, inbound: Inbound) {
        let Inbound { peer, request, reply } = inbound;
        let request = match request {
            Request::Gossip(packet) => {
                if let Some(swim) = &mut self.swim {
                    swim.receive(&packet);
                    self.gossip();
                    self.extend_consensus();
                }
                return;
            }
            // Identity from the connection, not from the request.
            Request::Join(applicant) => {
                self.around.bus.record_address(peer.uuid, &applicant.bus);
                Request::Join(Applicant { uuid: peer.uuid, key: peer.key, ..applicant })
            }
            request => request,
        };
        let Some(reply) = reply else { return };
        if let Request::HasAux { version } = request {
            let has = self.around.bus.aux_version.load(Ordering::Acquire) >= version;
            return drop(reply.send(if has { Reply::Done } else { Reply::Wait }));
        }
        let (consensus, leader) = (self.consensus.clone(), self.leader.clone());
        tokio::spawn(async move {
            let answer = match (request, consensus, leader) {
                (Request::Raft(rpc), Some(consensus), _) => match consensus.serve(&rpc).await {
                    Ok(reply) => Reply::Raft(reply),
                    Err(error) => Reply::Failed(error),
                },
                (request, _, Some(leader)) => leader.serve(request).await,
                _ => Reply::NoLeader,
            };
            drop(reply.send(answer));
        });
    }

    async fn take(&mut self, outcome: Outcome) -> Option<End> {
        match outcome {
            Outcome::DutiesEnded => {
                self.runs_duties = false;
                self.extend_consensus();
                return None;
            }
            Outcome::Joined(admission) => {
                self.is_asking = false;
                return self.on_admitted(admission).await;
            }
            Outcome::Refused(refusal) => return Some(End::Refused(refusal)),
            Outcome::NotAMember if self.leaving.is_none() => {
                let why = "the other members have removed this node as failed".into();
                return Some(End::Again { why, after: Duration::ZERO });
            }
            Outcome::Renewed(asked) => {
                let until = self.around.lease.extend(asked);
                self.around.bus.events.lock().lease(Some(until));
            }
            Outcome::NotYet | Outcome::Asked | Outcome::NotAMember => {}
        }
        self.is_asking = false;
        None
    }

    async fn on_admitted(&mut self, admission: Admission) -> Option<End> {
        if self.admission.is_some() {
            return None;
        }
        let bus = &self.around.bus;
        let mut origin = bus.origin.lock().clone();
        let again = |why: String| Some(End::Again { why, after: bus.timing.search });
        let is_new = origin.id != Some(admission.id);
        if is_new || origin.cluster != Some(admission.cluster) {
            (origin.cluster, origin.id) = (Some(admission.cluster), Some(admission.id));
            if is_new && let Some(consensus) = self.consensus.take() {
                self.leader = None;
                consensus.stop().await;
            }
            let store = &self.around.store;
            let kept = if is_new { store.reset(&origin) } else { store.set_origin(&origin) };
            if let Err(error) = kept {
                return again(error.to_string());
            }
            *bus.origin.lock() = origin;
        }
        *bus.superseded.lock() = None;
        if bus.generation.lock().take().is_some()
            && let Err(error) = self.around.store.end_generation()
        {
            return again(error.to_string());
        }
        if self.consensus.is_none()
            && let Err(error) = self.take_part(admission.id).await
        {
            return again(error);
        }
        *bus.own.lock() = Some(admission);
        self.admission = Some(admission);
        let seed = random_u64();
        self.swim = Some(Swim::new(admission.id, admission.incarnation, seed, &bus.timing));
        self.announced = Instant::now() - bus.timing.search;
        self.report_views().or_else(|| self.look())
    }

    /// Notifies the host if the auxiliary state has changed.
    fn report_aux(&mut self) {
        let bus = &self.around.bus;
        let version = bus.agreed.state.lock().aux_states().version;
        if std::mem::replace(&mut self.reported_aux, version) != version {
            bus.events.lock().aux_states();
        }
    }

    /// Reports new views to the host, one after another.
    fn report_views(&mut self) -> Option<End> {
        let Some(admission) = self.admission else {
            // This node may lead now, or know the leader.
            return self.look();
        };
        let own = admission.identity();
        loop {
            let epoch = self.reported.map_or(admission.epoch, |reported| reported + 1);
            let step = {
                let state = self.around.bus.agreed.state.lock();
                (state.epoch >= epoch).then(|| state.step(epoch))
            };
            let Some(step) = step else { return self.is_gone() };
            let again = |why: &str| Some(End::Again { why: why.into(), after: Duration::ZERO });
            let Some(step) = step else {
                return again("this node lags too far behind");
            };
            if step.view.member(own.node) != Some(own) {
                if self.leaving.is_some() {
                    return self.is_gone();
                }
                return again("this node is not a member any more");
            }
            // A restart knows every view that the host has known.
            drop(self.around.store.sync_committed());
            self.report_view(own, step);
        }
    }

    fn report_view(&mut self, own: Identity, step: Step) {
        let bus = &self.around.bus;
        let Step { view, members } = step;
        let is_first = self.reported.is_none();
        self.reported = Some(view.epoch);
        self.log_view(&view, &members);
        self.reported_view = Some(view.clone());
        // Links to removed members end before the view is reported; links to new members begin
        // after it.
        let lost: Arc<[MemberInfo]> = {
            let before = bus.reported.lock().clone();
            let stays = |member: &&MemberInfo| {
                view.member(member.identity().node) == Some(member.identity())
            };
            before.iter().filter(stays).cloned().collect()
        };
        self.around.links.set_members(own, &lost);
        if is_first {
            bus.events.lock().admitted(own, view, members.clone());
        } else {
            bus.events.lock().view(view, members.clone());
        }
        *bus.reported.lock() = members.clone();
        bus.epoch.store(self.reported.unwrap_or(0), Ordering::Release);
        self.around.links.set_members(own, &members);
        self.drop_fulfilled_request();
        // A member gets a vote once the leader considers it alive. This one may know the leader
        // already, while its answer was lost for want of an address.
        self.announce_now(is_first);
    }

    fn log_view(&self, view: &View, members: &[MemberInfo]) {
        let before = self.reported_view.as_deref();
        let known = self.around.bus.reported.lock().clone();
        let text = changes::describe(before.map(|view| (view, &*known)), view, members);
        self.around.bus.log(Level::Notice, format!("cluster: view {}: {text}", view.epoch));
    }

    fn applicant(&self) -> Applicant {
        let bus = &self.around.bus;
        Applicant {
            uuid: bus.uuid(),
            key: bus.trust.key,
            boot: self.boot,
            bus: bus.announced.lock().clone(),
            client: bus.settings.client_address.clone(),
            role: bus.settings.role,
            zone: bus.settings.zone.clone(),
            waits_for_data: bus.settings.waits_for_data,
            extents: bus.extents.lock().clone(),
        }
    }

    fn ask_to_join(&self) {
        let (client, outcomes) = (self.client(), self.outcomes.clone());
        let applicant = self.applicant();
        tokio::spawn(async move {
            let outcome = match client.join(applicant).await {
                Some(Reply::Joined(admission)) => Outcome::Joined(admission),
                Some(Reply::Refused(refusal)) => Outcome::Refused(refusal),
                _ => Outcome::NotYet,
            };
            drop(outcomes.send(outcome));
        });
    }

    /// Renews the lease, or asks to leave, and repeats the host's pending reports.
    fn ask_as_member(&mut self, admission: Admission) {
        let Admission { number, incarnation, .. } = admission;
        let (client, outcomes) = (self.client(), self.outcomes.clone());
        let request = if self.leaving.is_some_and(|until| self.has_handed_over(admission, until)) {
            Request::Leave { number, incarnation }
        } else {
            Request::Renew { number, incarnation }
        };
        self.repeat_hold_request(admission);
        self.repeat_arrival_report();
        self.repeat_reports(admission);
        let is_renewal = matches!(request, Request::Renew { .. });
        let has_lease = self.around.lease.holds();
        tokio::spawn(async move {
            let asked = Instant::now();
            let mut reply = client.ask(request.clone()).await;
            // A leader that has removed this member sends it no log entries any more, so ask all
            // nodes.
            if !has_lease && !matches!(reply, Some(Reply::Done | Reply::Refused(_))) {
                reply = client.ask_around(request).await;
            }
            let outcome = match reply {
                Some(Reply::Done) if is_renewal => Outcome::Renewed(asked),
                Some(Reply::Refused(Refusal::NotAMember)) => Outcome::NotAMember,
                Some(_) | None => Outcome::Asked,
            };
            drop(outcomes.send(outcome));
        });
    }

    /// Whether a leaving node has handed over everything that others need, or its time is up.
    fn has_handed_over(&self, admission: Admission, until: Instant) -> bool {
        let SessionContext { bus, .. } = self.around;
        if Instant::now() + bus.timing.lease * 5 >= until {
            return true;
        }
        !bus.agreed.state.lock().has_to_hand_over(admission.identity())
    }

    fn client(&self) -> LeaderClient {
        let bus = self.around.bus.clone();
        let control = self.around.control.clone();
        let (consensus, leader) = (self.consensus.clone(), self.leader.clone());
        LeaderClient { bus, control, consensus, leader, began: self.began }
    }
}

/// Waits for the next change in consensus, if this node takes part in it.
async fn next_change(changes: &mut Option<Changes>) {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}
