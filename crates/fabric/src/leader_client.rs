//! Requests of a node to the leader, and to all nodes that may know it.

use crate::AwaitAux;
use crate::bus::Bus;
use crate::control::{Control, Target};
use crate::events::Level;
use crate::leader::Leader;
use crate::raft::Consensus;
use crate::random_u64;
use crate::settings::Start;
use crate::state::{Applicant, Command};
use crate::wire::{Refusal, Reply, Request};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of redirects of one request.
const REDIRECTS_MAX: usize = 3;

/// Pause before a member is asked again whether its host has the auxiliary state.
const AUX_PAUSE: Duration = Duration::from_millis(10);

/// Client for requests to the Raft leader.
pub(crate) struct LeaderClient {
    pub bus: Arc<Bus>,
    pub control: Arc<Control>,
    pub consensus: Option<Consensus>,
    pub leader: Option<Arc<Leader>>,
    /// Start of the session.
    pub began: Instant,
}

impl LeaderClient {
    /// Sends a request to the leader, if it is known.
    pub async fn ask(&self, request: Request) -> Option<Reply> {
        let consensus = self.consensus.as_ref()?;
        let leader = consensus.leader()?;
        if consensus.is_leader() {
            return Some(self.leader.as_ref()?.serve(request).await);
        }
        let target = {
            let state = self.bus.agreed.state.lock();
            state.by_id(leader).map(|node| Target::of(&self.bus, &node.info))?
        };
        // Another node may lead after that.
        let timeout = self.bus.timing.renewal * 2;
        self.control.call(target, request, timeout).await.ok()
    }

    /// Sends a request to all nodes that may know the leader, and follows redirects to it.
    pub async fn ask_around(&self, request: Request) -> Option<Reply> {
        // Concurrently, since most may be down.
        let mut asked = tokio::task::JoinSet::new();
        let ask = |asked: &mut tokio::task::JoinSet<_>, address: String| {
            let (control, request) = (self.control.clone(), request.clone());
            let timeout = self.bus.timing.renewal;
            let target = Target { address, uuid: None };
            asked.spawn(async move { control.call(target, request, timeout).await });
        };
        self.known().into_iter().for_each(|address| ask(&mut asked, address));
        let mut redirects = 0;
        while let Some(reply) = asked.join_next().await {
            match reply {
                Ok(Ok(Reply::Redirect(leader))) if redirects < REDIRECTS_MAX => {
                    redirects += 1;
                    ask(&mut asked, leader);
                }
                Ok(Ok(reply @ (Reply::Done | Reply::Refused(Refusal::NotAMember)))) => {
                    return Some(reply);
                }
                _ => {}
            }
        }
        None
    }

    /// Asks the other members that hold slots until their hosts have the auxiliary state.
    pub async fn await_aux(self, wait: AwaitAux) {
        let AwaitAux { version, until, done } = wait;
        let (own, timeout) = (self.bus.uuid(), self.bus.timing.renewal);
        let members = self.bus.reported.lock().clone();
        let others = members.iter().filter(|member| member.holds_slots && member.uuid != own);
        let mut asked = tokio::task::JoinSet::new();
        for member in others {
            let target = Target::of(&self.bus, member);
            let control = self.control.clone();
            asked.spawn(async move {
                while Instant::now() < until {
                    let request = Request::HasAux { version };
                    let reply = control.call(target.clone(), request, timeout).await;
                    if matches!(reply, Ok(Reply::Done)) {
                        break;
                    }
                    tokio::time::sleep(AUX_PAUSE).await;
                }
            });
        }
        while asked.join_next().await.is_some() {}
        drop(done);
    }

    /// Asks every node that may know the leader to admit this one.
    pub async fn join(&self, applicant: Applicant) -> Option<Reply> {
        if self.consensus.as_ref().is_some_and(Consensus::is_leader) {
            if self.bus.agreed.state.lock().cluster.is_none() {
                return self.found(applicant).await;
            }
            let reply = self.leader.as_ref()?.serve(Request::Join(applicant.clone())).await;
            if matches!(reply, Reply::Joined(_) | Reply::Refused(_) | Reply::Wait) {
                return Some(reply);
            }
            // It led before its restart, and cannot reach the others.
        }
        let mut targets = VecDeque::from(self.known());
        let (mut redirects, mut is_answered) = (0, false);
        while let Some(address) = targets.pop_front() {
            let target = Target { address, uuid: None };
            let request = Request::Join(applicant.clone());
            let reply = self.control.call(target, request, self.bus.timing.handshake * 2).await;
            is_answered |= reply.is_ok();
            match reply {
                Ok(Reply::Redirect(leader)) if redirects < REDIRECTS_MAX => {
                    redirects += 1;
                    targets.push_front(leader);
                }
                Ok(reply @ (Reply::Joined(_) | Reply::Refused(_) | Reply::Wait)) => {
                    return Some(reply);
                }
                Ok(_) | Err(_) => {}
            }
        }
        if !is_answered && self.began.elapsed() > self.bus.timing.search {
            self.advise_unreachable();
        }
        None
    }

    /// Logs advice if no known member answers at its last address.
    fn advise_unreachable(&self) {
        let own = self.bus.uuid();
        let state = self.bus.agreed.state.lock();
        let others = state.nodes.values().filter(|node| node.is_member && node.info.uuid != own);
        let others: Vec<String> = others.map(|node| node.info.bus.clone()).collect();
        drop(state);
        if !others.is_empty() {
            let line = format!(
                "cluster: no other member answers at its last address ({}): start them; if their \
                 addresses have changed, start this node with one member's bus as cluster-join, or \
                 the others with this one's ({})",
                others.join(", "),
                self.bus.announced.lock()
            );
            self.bus.log_once(Level::Warning, line);
        }
    }

    async fn found(&self, founder: Applicant) -> Option<Reply> {
        let bytes = [random_u64(), random_u64()];
        let cluster = u128::from(bytes[0]) << 64 | u128::from(bytes[1]);
        let copies = self.bus.settings.copies;
        let generation = self.bus.generation.lock().clone();
        let continued = self.bus.origin.lock().cluster;
        let command = match (generation, continued) {
            (Some(state), Some(cluster)) => Command::NextGeneration { cluster, state, founder },
            _ => Command::Found { cluster, copies, founder },
        };
        match self.consensus.as_ref()?.propose(command).await {
            Ok(crate::state::Answer::Joined(admission)) => Some(Reply::Joined(admission)),
            _ => None,
        }
    }

    /// Nodes that may know the leader: the leader itself, the configured seeds, all that were ever
    /// known.
    fn known(&self) -> Vec<String> {
        let leader = self.consensus.as_ref().and_then(Consensus::leader);
        let state = self.bus.agreed.state.lock();
        let leader = leader.and_then(|leader| state.by_id(leader));
        let mut known: Vec<String> =
            leader.map(|leader| self.bus.discovery.address_of(&leader.info)).into_iter().collect();
        if let Start::Join(seeds) = &self.bus.settings.start {
            let own = self.bus.announced.lock().clone();
            known.extend(seeds.iter().map(|seed| with_port(seed, &own)));
        }
        known.extend(self.bus.superseded.lock().clone());
        let found = state.nodes.values().map(|node| self.bus.discovery.address_of(&node.info));
        known.extend(found);
        known.extend(state.nodes.values().map(|node| node.info.bus.clone()));
        drop(state);
        let participants = self.consensus.as_ref().map(Consensus::participants);
        known.extend(participants.into_iter().flatten().map(|(_, address)| address));
        let mut seen = BTreeSet::from([self.bus.announced.lock().clone()]);
        known.retain(|address| seen.insert(address.clone()));
        known
    }
}

/// A seed with its own port, or with that of this node.
fn with_port(seed: &str, own: &str) -> String {
    let port = own.rsplit(':').next().unwrap_or_default();
    match seed.rsplit_once(':') {
        // A bare IPv6 address contains colons too.
        Some((host, _)) if !host.contains(':') || host.ends_with(']') => seed.into(),
        Some(_) if seed.starts_with('[') => format!("{seed}:{port}"),
        Some(_) => format!("[{seed}]:{port}"),
        None => format!("{seed}:{port}"),
    }
}
