//! One life of a node: it asks to be let in, is a member, and is one no longer.

use crate::asker::Asker;
use crate::bus::{Bus, ConsensusStatus};
use crate::changes;
use crate::control::{Control, Inbound, Target};
use crate::events::Level;
use crate::leader::Leader;
use crate::links::Links;
use crate::raft::{Consensus, Store};
use crate::settings::{Hold, Role, Start};
use crate::state::{Admission, Applicant, MemberInfo, Step, VoterId};
use crate::swim::Swim;
use crate::wire::{Refusal, Reply, Request};
use crate::{HostCommand, Lease, random_u64};
use petrel_cluster::{Identity, View};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Why a life has ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The host has stopped the node, or it has left.
    Stopped,
    /// Another life begins after so long.
    Again { why: String, after: Duration },
    /// The cluster does not let the node in.
    Refused(Refusal),
}

/// What a task reports.
enum Outcome {
    Joined(Admission),
    Refused(Refusal),
    /// The question was not answered; it is asked again.
    NotYet,
    /// The lease was renewed by a question of that moment.
    Renewed(Instant),
    NotAMember,
    Asked,
    LookedAround,
}

/// What a life needs from outside.
pub(crate) struct Surroundings {
    pub bus: Arc<Bus>,
    pub control: Arc<Control>,
    pub links: Arc<Links>,
    pub store: Store,
    pub lease: Arc<Lease>,
}

pub(crate) struct Session<'a> {
    around: &'a Surroundings,
    boot: u64,
    began: Instant,
    consensus: Option<Consensus>,
    leader: Option<Arc<Leader>>,
    swim: Option<Swim>,
    admission: Option<Admission>,
    /// The view that was reported to the host last in this life.
    told: Option<u64>,
    told_view: Option<Arc<View>>,
    outcomes: mpsc::UnboundedSender<Outcome>,
    is_asking: bool,
    is_looking_around: bool,
    announced: Instant,
    /// The host wants to leave, until when at most.
    leaving: Option<Instant>,
    /// What the host has said of slots last.
    hold: Option<Hold>,
    /// The version of the libraries of functions that the host has heard of last.
    told_functions: u64,
    /// The data of which slots have arrived, in the view of which epoch.
    arrived: Option<(u64, Vec<(u16, u16)>)>,
}

impl<'a> Session<'a> {
    /// Runs one life to its end.
    pub async fn run(
        around: &'a Surroundings,
        inbound: &mut mpsc::Receiver<Inbound>,
        commands: &mut mpsc::UnboundedReceiver<HostCommand>,
    ) -> End {
        let (outcomes, mut reported) = mpsc::unbounded_channel();
        let mut session = Session {
            around,
            boot: random_u64(),
            began: Instant::now(),
            consensus: None,
            leader: None,
            swim: None,
            admission: None,
            told: None,
            told_view: None,
            outcomes,
            is_asking: false,
            is_looking_around: false,
            announced: Instant::now(),
            leaving: None,
            hold: None,
            told_functions: 0,
            arrived: None,
        };
        let end = match session.begin().await {
            Ok(()) => session.live(inbound, commands, &mut reported).await,
            Err(why) => End::Again { why, after: around.bus.timing.search },
        };
        session.finish().await;
        end
    }

    /// Takes part in consensus as far as this node has its place in it.
    async fn begin(&mut self) -> Result<(), String> {
        let bus = &self.around.bus;
        let mut origin = bus.origin.lock().clone();
        self.around.store.mend(&origin)?;
        if origin.id.is_none() && matches!(bus.settings.start, Start::Create) {
            origin.id = Some(1);
            self.around.store.set_origin(&origin).map_err(|error| error.to_string())?;
            *bus.origin.lock() = origin.clone();
        }
        let Some(id) = origin.id else { return Ok(()) };
        self.take_part(id).await?;
        // The place of the founder is its own to make.
        if id == 1
            && origin.cluster.is_none()
            && let Some(consensus) = &self.consensus
        {
            let announced = bus.announced.lock().clone();
            consensus.found(&announced).await?;
        }
        Ok(())
    }

    async fn take_part(&mut self, id: VoterId) -> Result<(), String> {
        let Surroundings { bus, control, store, .. } = self.around;
        let (agreed, timing) = (bus.agreed.clone(), &bus.timing);
        let started = Consensus::start(id, store.clone(), agreed, control.clone(), timing).await;
        let consensus = started?;
        self.leader = Some(Arc::new(Leader::new(bus.clone(), consensus.clone())));
        self.consensus = Some(consensus);
        Ok(())
    }

    async fn finish(&mut self) {
        self.around.lease.end();
        self.around.bus.events.lock().lease(None);
        self.around.links.close_all();
        *self.around.bus.own.lock() = None;
        *self.around.bus.told.lock() = Arc::from([]);
        self.around.bus.epoch.store(0, Ordering::Release);
        if self.told.take().is_some() {
            self.around.bus.events.lock().expelled();
        }
        if let Some(mut swim) = self.swim.take() {
            swim.leave();
            self.send_gossip(&mut swim);
        }
        if let Some(consensus) = self.consensus.take() {
            let stopped = tokio::time::timeout(self.around.bus.timing.handshake, consensus.stop());
            if stopped.await.is_err() {
                let line = "cluster: consensus does not stop".into();
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
                command = commands.recv() => self.obey(command),
                () = agreed.changed.notified() => {
                    self.tell_functions();
                    self.tell_views()
                }
                outcome = reported.recv() => match outcome {
                    Some(outcome) => self.take(outcome).await,
                    None => None,
                },
                () = tokio::time::sleep_until(gossip.into()) => self.gossip(),
                _ = look.tick() => self.look(),
                request = inbound.recv() => {
                    request.into_iter().for_each(|request| self.serve(request));
                    None
                }
            };
            match end {
                // Who wants to leave does not come back.
                Some(End::Again { .. }) if self.leaving.is_some() => return End::Stopped,
                Some(end) => return end,
                None => {}
            }
        }
    }

    fn obey(&mut self, command: Option<HostCommand>) -> Option<End> {
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
                    self.forget_old_wish();
                }
            }
            Some(HostCommand::Arrived(own, epoch, slots)) => {
                if self.is_own(own) {
                    self.arrived = Some((epoch, slots));
                }
                // It is said with the next renewal, so that views do not come faster.
                return None;
            }
            Some(HostCommand::SetFunctions(change)) => {
                let asker = self.asker();
                tokio::spawn(async move { asker.ask(Request::SetFunctions(change)).await });
                return None;
            }
            Some(HostCommand::Forget(uuid)) => {
                let asker = self.asker();
                tokio::spawn(async move { asker.ask(Request::Forget { uuid }).await });
                return None;
            }
            Some(HostCommand::AwaitFunctions(wait)) => {
                tokio::spawn(self.asker().await_functions(wait));
                return None;
            }
            Some(HostCommand::Rejoin(own)) if self.is_own(own) => {
                let why = "another life of this member begins, with what others have".into();
                return Some(End::Again { why, after: Duration::ZERO });
            }
            Some(HostCommand::Rejoin(_)) => {}
        }
        self.look()
    }

    fn is_own(&self, own: Identity) -> bool {
        self.admission.is_some_and(|admission| admission.identity() == own)
    }

    /// Whether the last view that was reported to the host shows what it has said of slots.
    fn is_settled(&self, hold: Hold) -> bool {
        let Some(admission) = self.admission else { return false };
        let told = self.around.bus.told.lock().clone();
        let holds = |member: &MemberInfo| member.holds_slots;
        let own = told.iter().find(|member| member.identity() == admission.identity());
        match hold {
            _ if self.around.bus.settings.role != Role::Data => true,
            Hold::Take => own.is_some_and(holds),
            Hold::GiveUp => !own.is_some_and(holds),
            Hold::TakeUnheld => {
                let state = self.around.bus.agreed.state.lock();
                match state.is_sparse() {
                    true => !state.may_claim(admission.number),
                    false => told.iter().any(holds),
                }
            }
        }
    }

    /// At each view: one in which a member holds slots ends the wish for unheld ones. Other wishes
    /// stand, for a view may yet come which shows what was asked for before them.
    fn forget_old_wish(&mut self) {
        if self.hold == Some(Hold::TakeUnheld) && self.is_settled(Hold::TakeUnheld) {
            self.hold = None;
        }
    }

    /// What is to be done again and again.
    fn look(&mut self) -> Option<End> {
        if let Some(why) = self.consensus.as_ref().and_then(Consensus::failure) {
            let why = format!("consensus cannot go on: {why}");
            let why = self.around.store.failure().unwrap_or(why);
            return Some(End::Again { why, after: self.around.bus.timing.search });
        }
        if let Some(end) = self.is_gone() {
            return Some(end);
        }
        if !self.is_asking {
            self.is_asking = true;
            match self.admission {
                None => self.ask_to_join(),
                Some(admission) => self.ask_as_member(admission),
            }
        }
        if let Some(leader) = self.leader.clone().filter(|_| !self.is_looking_around) {
            self.is_looking_around = true;
            let (alive, outcomes) = (self.alive(), self.outcomes.clone());
            tokio::spawn(async move {
                leader.look_around(alive).await;
                drop(outcomes.send(Outcome::LookedAround));
            });
        }
        self.announce();
        self.note_consensus();
        None
    }

    /// Writes down how consensus stands, for the host to see.
    fn note_consensus(&self) {
        let bus = &self.around.bus;
        let consensus = self.consensus.as_ref();
        let leader = consensus.and_then(Consensus::leader);
        let leader = leader.and_then(|leader| {
            let state = bus.agreed.state.lock();
            state.by_id(leader).map(|leader| leader.info.identity())
        });
        let voters = consensus.map_or(0, |consensus| consensus.voters().len());
        *bus.consensus.lock() = ConsensusStatus { leader, voters };
    }

    /// Whether a node that leaves may go.
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

    /// The members that failure detection hears of.
    fn alive(&self) -> BTreeSet<Identity> {
        let Some(swim) = &self.swim else { return BTreeSet::new() };
        let state = self.around.bus.agreed.state.lock();
        let members = state.members().map(|member| (member.id, member.info.identity()));
        let alive = members.filter(|(id, identity)| swim.is_alive(*id, identity.incarnation));
        alive.map(|(_, identity)| identity).collect()
    }

    /// Tells members that failure detection does not hear of that this one is there.
    fn announce(&mut self) {
        let now = Instant::now();
        let Some(swim) = &mut self.swim else { return };
        if now.duration_since(self.announced) < self.around.bus.timing.search / 3 {
            return;
        }
        self.announced = now;
        let state = self.around.bus.agreed.state.lock();
        for member in state.members() {
            if !swim.is_alive(member.id, member.info.incarnation) {
                swim.announce(member.id, member.info.incarnation);
            }
        }
        drop(state);
        self.gossip();
    }

    /// Handles what is due of failure detection, and sends its packets.
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

    /// Answers another node.
    fn serve(&mut self, inbound: Inbound) {
        let Inbound { peer, request, reply } = inbound;
        let request = match request {
            Request::Gossip(packet) => {
                if let Some(swim) = &mut self.swim {
                    swim.receive(&packet);
                    self.gossip();
                }
                return;
            }
            // Whoever asks is who the connection says.
            Request::Join(applicant) => {
                self.around.bus.note_found(peer.uuid, &applicant.bus);
                Request::Join(Applicant { uuid: peer.uuid, key: peer.key, ..applicant })
            }
            request => request,
        };
        let Some(reply) = reply else { return };
        if let Request::HasFunctions { version } = request {
            let has = self.around.bus.functions.load(Ordering::Acquire) >= version;
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
            Outcome::LookedAround => {
                self.is_looking_around = false;
                return None;
            }
            Outcome::Joined(admission) => {
                self.is_asking = false;
                return self.be_admitted(admission).await;
            }
            Outcome::Refused(refusal) => return Some(End::Refused(refusal)),
            Outcome::NotAMember if self.leaving.is_none() => {
                let why = "the others have taken this node for dead".into();
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

    async fn be_admitted(&mut self, admission: Admission) -> Option<End> {
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
        self.tell_views().or_else(|| self.look())
    }

    /// Lets the host know if the libraries of functions are others than before.
    fn tell_functions(&mut self) {
        let bus = &self.around.bus;
        let version = bus.agreed.state.lock().functions().version;
        if std::mem::replace(&mut self.told_functions, version) != version {
            bus.events.lock().functions();
        }
    }

    /// Tells the host of the views that it has not seen yet, one after another.
    fn tell_views(&mut self) -> Option<End> {
        let Some(admission) = self.admission else {
            // It may lead now, or know who does.
            return self.look();
        };
        let own = admission.identity();
        loop {
            let epoch = self.told.map_or(admission.epoch, |told| told + 1);
            let step = {
                let state = self.around.bus.agreed.state.lock();
                (state.epoch >= epoch).then(|| state.step(epoch))
            };
            let Some(step) = step else { return self.is_gone() };
            let again = |why: &str| Some(End::Again { why: why.into(), after: Duration::ZERO });
            let Some(step) = step else {
                return again("this node has fallen too far behind");
            };
            if step.view.member(own.node) != Some(own) {
                if self.leaving.is_some() {
                    return self.is_gone();
                }
                return again("this node is a member no longer");
            }
            self.tell_view(own, step);
        }
    }

    fn tell_view(&mut self, own: Identity, step: Step) {
        let bus = &self.around.bus;
        let Step { view, members } = step;
        let is_first = self.told.is_none();
        self.told = Some(view.epoch);
        self.log_view(&view, &members);
        self.told_view = Some(view.clone());
        // Links to those that are no longer members end before the host learns of the view; links
        // to those that have become members begin after it.
        let lost: Arc<[MemberInfo]> = {
            let before = bus.told.lock().clone();
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
        *bus.told.lock() = members.clone();
        bus.epoch.store(self.told.unwrap_or(0), Ordering::Release);
        self.around.links.set_members(own, &members);
        self.forget_old_wish();
    }

    fn log_view(&self, view: &View, members: &[MemberInfo]) {
        let before = self.told_view.as_deref();
        let known = self.around.bus.told.lock().clone();
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
        }
    }

    fn ask_to_join(&self) {
        let (asker, outcomes) = (self.asker(), self.outcomes.clone());
        let applicant = self.applicant();
        tokio::spawn(async move {
            let outcome = match asker.join(applicant).await {
                Some(Reply::Joined(admission)) => Outcome::Joined(admission),
                Some(Reply::Refused(refusal)) => Outcome::Refused(refusal),
                _ => Outcome::NotYet,
            };
            drop(outcomes.send(outcome));
        });
    }

    /// Renews the lease, or says what the host has said.
    fn ask_as_member(&mut self, admission: Admission) {
        let Admission { number, incarnation, .. } = admission;
        let (asker, outcomes) = (self.asker(), self.outcomes.clone());
        let request = if self.leaving.is_some_and(|until| self.has_handed_over(admission, until)) {
            Request::Leave { number, incarnation }
        } else {
            Request::Renew { number, incarnation }
        };
        self.say_what_it_holds(admission);
        self.say_what_has_arrived();
        let is_renewal = matches!(request, Request::Renew { .. });
        let has_lease = self.around.lease.holds();
        tokio::spawn(async move {
            let asked = Instant::now();
            let mut reply = asker.ask(request.clone()).await;
            // A leader that has taken this member for dead lets it hear nothing more.
            if !has_lease && !matches!(reply, Some(Reply::Done | Reply::Refused(_))) {
                reply = asker.ask_around(request).await;
            }
            let outcome = match reply {
                Some(Reply::Done) if is_renewal => Outcome::Renewed(asked),
                Some(Reply::Refused(Refusal::NotAMember)) => Outcome::NotAMember,
                Some(_) | None => Outcome::Asked,
            };
            drop(outcomes.send(outcome));
        });
    }

    /// Says what the host has said of slots, as long as no view shows it.
    fn say_what_it_holds(&mut self, admission: Admission) {
        let (Some(hold), Some(epoch)) = (self.hold, self.told) else { return };
        if self.is_settled(hold) {
            return;
        }
        let Admission { number, incarnation, .. } = admission;
        let request = match hold {
            Hold::Take => Request::Hold { number, incarnation, holds: true },
            Hold::GiveUp => Request::Hold { number, incarnation, holds: false },
            Hold::TakeUnheld => Request::HoldUnheld { number, incarnation, epoch },
        };
        let asker = self.asker();
        tokio::spawn(async move {
            asker.ask(request).await;
        });
    }

    /// Whether a node that leaves has nothing left that others need, or has waited for long enough.
    fn has_handed_over(&self, admission: Admission, until: Instant) -> bool {
        let Surroundings { bus, .. } = self.around;
        if Instant::now() + bus.timing.lease * 5 >= until {
            return true;
        }
        !bus.agreed.state.lock().has_to_hand_over(admission.identity())
    }

    /// Says which slots' data have arrived, as long as that makes the node a home of some.
    fn say_what_has_arrived(&mut self) {
        let (Some(admission), Some((epoch, slots))) = (self.admission, &self.arrived) else {
            return;
        };
        let (own, epoch) = (admission.identity(), *epoch);
        let useful = self.around.bus.agreed.state.lock().appointable(own, epoch, slots).ranges();
        if useful.is_empty() {
            self.arrived = None;
            return;
        }
        let (asker, number, incarnation) = (self.asker(), own.node.0, own.incarnation);
        tokio::spawn(async move {
            let slots = useful;
            asker.ask(Request::Arrived { number, incarnation, epoch, slots }).await;
        });
    }

    fn asker(&self) -> Asker {
        let bus = self.around.bus.clone();
        let control = self.around.control.clone();
        let (consensus, leader) = (self.consensus.clone(), self.leader.clone());
        Asker { bus, control, consensus, leader, began: self.began }
    }
}
