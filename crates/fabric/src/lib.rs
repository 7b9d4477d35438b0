//! Membership, consensus and secure links of a Petrel cluster. It reports the agreed views, each
//! with the members and the owners of the slots, to its host, and connects the members. The
//! protocol on these connections is that of `petrel-cluster`.
//!
//! ```text
//! host --Settings--> Fabric --admitted, view, ... link_up(Connection), ... expelled--> Events
//!      --hold_slots, rejoin, leave-->
//!      <--Connection: receive, send--> another member's host
//! ```
//!
//! Everything but the bytes of links runs on one thread with a current-thread tokio runtime. One
//! port, the *bus*, serves all connections between nodes: TLS 1.3 with certificates on both sides.
//!
//! | file | holds |
//! |---|---|
//! | `settings`, `events` | settings from the host, and events to it |
//! | `trust` | passphrase, keys, certificates |
//! | `wire` | messages between nodes |
//! | `bus` | handshakes between two nodes |
//! | `discovery` | addresses of nodes that have moved |
//! | `control`, `links` | connections for requests, and for the data plane |
//! | `connection` | bytes of a data-plane link, used by the host's thread |
//! | `relay` | connections through a third member, where two cannot reach each other |
//! | `state` | replicated state: members, incarnations, slots, views |
//! | `aux_states` | function libraries and other auxiliary state, a part of it |
//! | `placement` | slots with fewer owners than data members, from view to view |
//! | `raft/` | consensus (openraft, redb) |
//! | `swim` | failure detection (foca) |
//! | `lease`, `voters`, `leader` | failed members, voters, duties of the leader |
//! | `log_throttle`, `changes` | repeated log lines; the log line of a view |
//! | `session`, `leader_client` | an incarnation of a node; requests to the leader |
//!
//! # Guarantees to the host
//!
//! * Views are reported one after another, each with the next epoch; all members see the same ones.
//!   A node that lags by more than 64 views is expelled and rejoins.
//! * A node that restarts, or was removed as failed, gets a new incarnation; a view without it lies
//!   between its incarnations.
//! * A member is removed when its lease has expired and failure detection reports it down, or when
//!   it has not renewed its lease for twice as long. A primary may order changes only while
//!   [`Fabric::has_lease`].
//! * Links exist between members of the last reported view, one for each pair. Bytes of a link
//!   arrive in order, up to some byte; no byte of one link arrives on the next.
//! * `Settings::waits_for_data`: a joining node is assigned no slots before [`Fabric::hold_slots`];
//!   with [`Hold::GiveUp`] it hands them over before it leaves. The views show the result.
//!
//! # Failures
//!
//! | failure | effect |
//! |---|---|
//! | other passphrase or name, not a member | rejected, logged on both sides, retried |
//! | data of another cluster, uuid with another key, cluster full | rejected, retried after 10 s |
//! | no common protocol version | rejected, retried after 10 s |
//! | unresolvable name, no answer, no leader | logged, retried |
//! | the disk with `raft.redb` fails | expelled until it is writable; its slots move |
//! | all members return with new addresses | they wait until one names another's, and log that |
//! | garbage on the port | at most 64 unidentified connections, 4 KiB and 2 to 10 s each |
//!
//! Up to five members vote, an odd number. Of two nodes one votes: when it dies, the other cannot
//! proceed until it returns. A third node, or a witness, avoids that.
//!
//! Time is the monotonic clock, which stops while a machine is suspended: leases do not hold across
//! that. A copied or restored directory of a voter may vote twice before it is detected:
//! directories must not be copied.

mod aux_states;
mod bus;
mod changes;
mod connection;
mod control;
mod discovery;
mod events;
mod leader;
mod leader_client;
mod lease;
mod links;
mod log_throttle;
mod placement;
mod raft;
mod relay;
mod session;
mod settings;
mod state;
mod swim;
mod trust;
mod voters;
mod wire;

pub use aux_states::{AUX_MAX, AuxChange, AuxOutcome, AuxStates};
pub use bus::Traffic;
pub use connection::{Connection, Link};
pub use events::{Events, Level};
pub use settings::{Copies, Hold, Role, Settings, Start};
pub use state::{MemberInfo, Unserved};
pub use trust::TrustError;
#[doc(hidden)]
pub use wire::decode_anything;

use bus::{Bus, ConnectError};
use control::{Control, Inbound};
use links::Links;
use petrel_cluster::{Identity, Slot, SlotSet};
use raft::{Origin, Store};
use session::{End, Session, SessionContext};
use state::restart::Reported;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use trust::Trust;
use zeroize::Zeroizing;

/// Maximum number of connections with an unidentified peer.
const UNIDENTIFIED_MAX: usize = 64;

/// Maximum number of connections to this node.
const CONNECTIONS_MAX: usize = 1024;

/// Maximum number of queued requests from all other nodes.
const INBOUND_MAX: usize = 1024;

/// Pause between two calls of [`Events::upkeep`].
const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// Reason that a node does not start.
#[derive(Debug)]
pub enum StartError {
    /// The directory is unusable, or belongs to another cluster.
    Directory(String),
    /// The bus cannot listen at this address.
    Bind(SocketAddr, io::Error),
    /// Keys or certificates cannot be made.
    Trust(TrustError),
    /// The thread cannot be started.
    Thread(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Directory(why) => write!(f, "cluster: {why}"),
            StartError::Bind(address, error) => write!(f, "cluster: bus at {address}: {error}"),
            StartError::Trust(error) => write!(f, "cluster: {error}"),
            StartError::Thread(error) => write!(f, "cluster: cannot start its thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Command of the host to the fabric's thread.
pub(crate) enum HostCommand {
    Stop,
    Leave,
    Hold(Identity, Hold),
    Arrived(Identity, u64, Vec<(Slot, Slot)>),
    Rejoin(Identity),
    SetAux(AuxChange),
    AwaitAux(AwaitAux),
    Forget(u128),
    TakeOver(u64),
    Generation,
    /// The extents of the host's data are known.
    Extents,
}

/// Slots or members that [`Fabric::take_over`] gives up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum GivenUp {
    /// The last owners of these slots, and changes that only they have.
    Slots(Vec<Unserved>),
    /// The other members, and changes that only they have.
    Members(Vec<MemberInfo>),
}

/// Reason that nothing can be taken over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoTakeOver {
    /// Every slot has an owner, and the majority is reachable.
    NotNeeded,
    /// The majority was reachable less than two node timeouts ago.
    TooEarly,
    /// This node does not know the cluster's state, or holds no data.
    NoState,
}

/// Wait of a thread until other hosts have a version of the auxiliary state.
pub(crate) struct AwaitAux {
    pub version: u64,
    pub until: Instant,
    /// Dropped when the wait ends.
    pub done: std::sync::mpsc::SyncSender<()>,
}

/// A member, as seen by this node.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// The member.
    pub info: MemberInfo,
    /// Whether it is this node.
    pub is_self: bool,
    /// Whether there is a link to it.
    pub is_linked: bool,
    /// Bytes waiting to be sent to it.
    pub queued: usize,
    /// Bytes sent to it and received from it since this node's start.
    pub traffic: Traffic,
}

/// Status of the cluster, as seen by this node.
#[derive(Clone, Debug)]
pub struct Info {
    /// This node's uuid, drawn when its directory was created.
    pub uuid: u128,
    /// This node's identity, while it is a member.
    pub own: Option<Identity>,
    /// Address of this node's bus, as announced to others.
    pub announced: String,
    /// Uuid of the cluster, once it is known.
    pub cluster: Option<u128>,
    /// Epoch of the last view; 0 while this node is not a member.
    pub epoch: u64,
    /// The members of that view.
    pub members: Vec<MemberStatus>,
    /// The Raft leader, as far as this node knows.
    pub leader: Option<Identity>,
    /// Number of voters.
    pub voters: usize,
    /// Whether this node may order changes now.
    pub has_lease: bool,
}

/// This node's lease.
#[derive(Debug)]
pub(crate) struct Lease {
    start: Instant,
    length: Duration,
    /// End, in milliseconds since `start`; 0 for none.
    until: AtomicU64,
    /// Like `until`, but kept when the lease is ended.
    last: AtomicU64,
}

impl Lease {
    fn new(length: Duration) -> Self {
        // A tenth shorter than the leader's count, since clocks may run at different rates.
        let length = length - length / 10;
        let (until, last) = (AtomicU64::new(0), AtomicU64::new(0));
        Lease { start: Instant::now(), length, until, last }
    }

    /// Extends the lease by a renewal that was requested at `asked`; returns its end.
    pub fn extend(&self, asked: Instant) -> Instant {
        let until = asked.duration_since(self.start) + self.length;
        let until = until.as_millis() as u64;
        let before = self.until.fetch_max(until, Ordering::Release);
        self.last.fetch_max(until, Ordering::Release);
        self.start + Duration::from_millis(until.max(before))
    }

    pub fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Time since its end, or since the start if there was none.
    fn ended_for(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Acquire));
        self.start.elapsed().saturating_sub(last)
    }

    fn holds(&self) -> bool {
        (self.start.elapsed().as_millis() as u64) < self.until.load(Ordering::Acquire)
    }
}

/// A node of a cluster. Dropping it stops the node at once, as if it had crashed; see also
/// [`Fabric::leave`].
pub struct Fabric {
    bus: Arc<Bus>,
    links: Arc<Links>,
    lease: Arc<Lease>,
    commands: mpsc::UnboundedSender<HostCommand>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric").field("info", &self.info()).finish()
    }
}

impl Fabric {
    /// Starts the node's thread. The node is a member once [`Events::admitted`] is called.
    ///
    /// # Errors
    /// If the directory, the port or the keys cannot be used. Failures of other nodes are
    /// logged and retried instead.
    pub fn start(settings: Settings, mut events: Box<dyn Events>) -> Result<Fabric, StartError> {
        let directory = settings.directory.clone();
        let store = open_store(&directory)?;
        let origin = origin(&store, &settings.name)?;
        let previous = settings.previous_passphrase.iter();
        let passphrases = std::iter::once(&settings.passphrase).chain(previous);
        let passphrases = passphrases.map(|passphrase| passphrase.as_str());
        let trust = Trust::new(&settings.name, origin.uuid, &directory, passphrases);
        let trust = trust.map_err(StartError::Trust)?;
        events.keys_derived();
        let bind = settings.bind;
        let failed = |error| StartError::Bind(bind, error);
        let listener = std::net::TcpListener::bind(bind).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let announced = match &settings.announced {
            Some(announced) => announced.clone(),
            None => reachable(listener.local_addr().map_err(failed)?).to_string(),
        };
        let settings =
            Settings { passphrase: Zeroizing::default(), previous_passphrase: None, ..settings };
        let bus = Bus::new(settings, trust, origin, announced, events);
        let bus = Arc::new(bus.map_err(StartError::Trust)?);
        let lease = Arc::new(Lease::new(bus.timing.lease));
        let links = Links::new(bus.clone());
        let (commands, commanded) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Thread)?;
        let control = Control::new(bus.clone());
        let (bus_, links_, lease_) = (bus.clone(), links.clone(), lease.clone());
        let thread = std::thread::Builder::new().name("petrel-fabric".into()).spawn(move || {
            let around = SessionContext { bus: bus_, control, links: links_, store, lease: lease_ };
            runtime.block_on(run(around, listener, commanded));
            // Does not wait for pending name resolution.
            runtime.shutdown_background();
        });
        let thread = Some(thread.map_err(StartError::Thread)?);
        Ok(Fabric { bus, links, lease, commands, thread })
    }

    /// Makes this data node accept slots, or give up its slots, in its incarnation `own` only. The
    /// views show the result: [`MemberInfo::holds_slots`].
    pub fn hold_slots(&self, own: Identity, hold: Hold) {
        drop(self.commands.send(HostCommand::Hold(own, hold)));
    }

    /// With [`Copies::Of`]: reports that in the view of this epoch the node has the data of these
    /// slots, which it imports (`petrel_cluster::ClusterNode::arrived`). The report counts for
    /// slots that have had the same primary since, and replaces earlier reports; the host repeats
    /// it in the next view while there are such slots. Valid in the incarnation `own` only.
    pub fn arrived(&self, own: Identity, epoch: u64, slots: &SlotSet) {
        drop(self.commands.send(HostCommand::Arrived(own, epoch, slots.ranges())));
    }

    /// Whether slots without owners wait for this node, which was their last owner and may take
    /// them with [`Hold::TakeUnheld`]; and the epoch of the view for which that holds.
    pub fn may_claim(&self, own: Identity) -> (bool, u64) {
        let state = self.bus.agreed.state.lock();
        (state.member(own).is_some() && state.may_claim(own.node.0), state.epoch)
    }

    /// The auxiliary state, as far as this node knows. While it is a member they are at least as
    /// new as at its admission.
    pub fn aux_states(&self) -> Arc<AuxStates> {
        self.bus.agreed.state.lock().aux_states().clone()
    }

    /// Proposes a change of auxiliary state, of at most [`AUX_MAX`] bytes together. The request
    /// may be lost; repeat it while [`AuxStates::outcome`] is open.
    pub fn set_aux(&self, change: AuxChange) {
        drop(self.commands.send(HostCommand::SetAux(change)));
    }

    /// Records the version of the auxiliary state that the host has, for other members to query.
    pub fn has_aux(&self, version: u64) {
        self.bus.aux_version.store(version, Ordering::Release);
    }

    /// Blocks until the hosts of all members that hold slots have auxiliary state of this
    /// version or a newer one, or the timeout passes.
    pub fn await_aux(&self, version: u64, timeout: Duration) {
        let (done, end) = std::sync::mpsc::sync_channel(0);
        let wait = AwaitAux { version, until: Instant::now() + timeout, done };
        drop(self.commands.send(HostCommand::AwaitAux(wait)));
        let _ = end.recv_timeout(timeout);
    }

    /// Former members that were removed as failed, as far as this node knows.
    pub fn failed(&self) -> Vec<MemberInfo> {
        self.bus.agreed.state.lock().failed().cloned().collect()
    }

    /// Number of voters, as far as this node knows: a majority of them has to be alive.
    pub fn voters(&self) -> usize {
        self.bus.consensus.lock().voters
    }

    /// Number of voters that the members could have beside the present ones, as far as this node
    /// knows. While there are any, fewer failures than expected stop the cluster.
    pub fn missing_voters(&self) -> usize {
        self.bus.consensus.lock().missing_voters
    }

    /// Number of owners of each slot, once this node knows.
    pub fn copies(&self) -> Option<Copies> {
        self.bus.agreed.state.lock().copies()
    }

    /// Clears the failed state of a node, until it fails again. The node may come back. The request
    /// may be lost.
    pub fn forget(&self, uuid: u128) {
        drop(self.commands.send(HostCommand::Forget(uuid)));
    }

    /// Records that the host keeps data on disk: slots of which this node was an owner do not start
    /// empty by themselves while it may return. Cannot be revoked.
    pub fn keeps_data(&self) {
        self.bus.keeps_data.store(true, Ordering::Release);
    }

    /// Reports the extents of the data with which the host joins,
    /// [encoded](petrel_cluster::Extents::encode): once they are loaded, and again after
    /// [`Events::expelled`]. If all owners of slots have stopped, the slots continue with the
    /// longest of their logs.
    pub fn set_extents(&self, extents: Vec<u8>) {
        *self.bus.extents.lock() = Reported::Known(extents);
        drop(self.commands.send(HostCommand::Extents));
    }

    /// The slots without owners, by the node that they wait for.
    pub fn unserved(&self) -> Vec<Unserved> {
        self.bus.agreed.state.lock().unserved()
    }

    /// Whether another node leads, as far as this node knows.
    pub fn is_led(&self) -> bool {
        let state = self.bus.agreed.state.lock();
        let own = state.nodes.get(&self.bus.uuid()).map(|node| node.info.number);
        let leader = self.bus.consensus.lock().leader;
        leader.is_some_and(|leader| Some(leader.node.0) != own)
    }

    /// Slots of which this node is an owner in the last view that it knows, member or not.
    pub fn known_slots(&self) -> SlotSet {
        self.bus.agreed.state.lock().slots_of(self.bus.uuid())
    }

    /// The operator's decision to give up what does not return: with a majority, the last owners of
    /// slots without owners, which then continue with the data of other former owners, or empty;
    /// without a majority, the other members: this node continues the cluster alone. Slots that it
    /// does not own wait for their owners. The former members join the new cluster when they find
    /// it. Takes effect later.
    ///
    /// # Errors
    /// If there is nothing to give up.
    pub fn take_over(&self) -> Result<GivenUp, NoTakeOver> {
        let state = self.bus.agreed.state.lock();
        let (given_up, command) = if self.has_lease() {
            let unserved = state.unserved();
            let Some(epoch) = unserved.iter().map(|of| of.epoch).max() else {
                return Err(NoTakeOver::NotNeeded);
            };
            (GivenUp::Slots(unserved), HostCommand::TakeOver(epoch))
        } else {
            if self.lease.ended_for() < self.bus.timing.lease * 2 {
                return Err(NoTakeOver::TooEarly);
            }
            let is_owner = self.bus.settings.role == Role::Data
                && state.cluster.is_some()
                && state.nodes.contains_key(&self.bus.uuid());
            if !is_owner {
                return Err(NoTakeOver::NoState);
            }
            let others = state.members().filter(|node| node.info.uuid != self.bus.uuid());
            let others = others.map(|node| node.info.clone()).collect();
            (GivenUp::Members(others), HostCommand::Generation)
        };
        drop(state);
        drop(self.commands.send(command));
        Ok(given_up)
    }

    /// Ends the incarnation `own` at once, as when the host's data cannot catch up.
    /// [`Events::expelled`] follows, then the node rejoins under a new incarnation.
    pub fn rejoin(&self, own: Identity) {
        drop(self.commands.send(HostCommand::Rejoin(own)));
    }

    /// Leaves the cluster: others take over the node's slots and its vote. The thread ends after at
    /// most five node timeouts, after [`Events::expelled`]. Where slots have few owners, the node
    /// first hands its slots over, which may take another sixty node timeouts.
    pub fn leave(&self) {
        drop(self.commands.send(HostCommand::Leave));
    }

    /// Whether the thread has ended, as after [`Fabric::leave`].
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether this node may order changes of the slots of which it is primary: its lease
    /// guarantees that it is not removed as failed meanwhile.
    pub fn has_lease(&self) -> bool {
        self.lease.holds()
    }

    /// Status of the cluster, as seen by this node.
    pub fn info(&self) -> Info {
        let own = self.bus.own.lock().map(|own| own.identity());
        let reported = self.bus.reported.lock().clone();
        let consensus = *self.bus.consensus.lock();
        let traffic = self.bus.traffic.lock();
        let status = |member: &MemberInfo| MemberStatus {
            is_self: Some(member.identity()) == own,
            is_linked: self.links.is_up(member.identity()),
            queued: self.links.queued(member.identity()),
            traffic: traffic.get(&member.uuid).copied().unwrap_or_default(),
            info: member.clone(),
        };
        Info {
            uuid: self.bus.uuid(),
            own,
            announced: self.bus.announced.lock().clone(),
            cluster: self.bus.origin.lock().cluster,
            epoch: self.bus.epoch.load(Ordering::Acquire),
            members: reported.iter().map(status).collect(),
            leader: consensus.leader,
            voters: consensus.voters,
            has_lease: self.has_lease(),
        }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        drop(self.commands.send(HostCommand::Stop));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn open_store(directory: &Path) -> Result<Store, StartError> {
    let failed = |error: &dyn fmt::Display| {
        StartError::Directory(format!("{}: {error}", directory.display()))
    };
    std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
    Store::open(&directory.join("raft.redb")).map_err(|error| failed(&error))
}

/// This node's identity in the store, drawn now if there is none.
fn origin(store: &Store, name: &str) -> Result<Origin, StartError> {
    let failed = |error: raft::StoreError| StartError::Directory(error.to_string());
    if let Some(origin) = store.origin().map_err(failed)? {
        if origin.name != name {
            let why = format!("raft.redb belongs to the cluster \"{}\"", origin.name);
            return Err(StartError::Directory(why));
        }
        return Ok(origin);
    }
    let uuid = u128::from(random_u64()) << 64 | u128::from(random_u64());
    let origin = Origin { uuid, name: name.into(), cluster: None, id: None };
    store.set_origin(&origin).map_err(failed)?;
    Ok(origin)
}

/// An address at which others can reach a socket that may listen at all addresses.
pub fn reachable(bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    // Nothing is sent: `connect` makes the system select a source address.
    let (from, to) = match bound.ip() {
        IpAddr::V4(_) => ("0.0.0.0:0", "192.0.2.1:9"),
        IpAddr::V6(_) => ("[::]:0", "[2001:db8::1]:9"),
    };
    let socket = UdpSocket::bind(from).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    match socket {
        Ok(address) if !address.ip().is_unspecified() => (address.ip(), bound.port()).into(),
        _ => (IpAddr::from([127, 0, 0, 1]), bound.port()).into(),
    }
}

pub(crate) fn random_u64() -> u64 {
    use ring::rand::SecureRandom;
    let mut bytes = [0; 8];
    // Without system randomness, nodes still differ by their clocks.
    if ring::rand::SystemRandom::new().fill(&mut bytes).is_err() {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        return now.as_nanos() as u64;
    }
    u64::from_le_bytes(bytes)
}

/// Main loop of the fabric's thread.
async fn run(
    around: SessionContext,
    listener: std::net::TcpListener,
    mut commands: mpsc::UnboundedReceiver<HostCommand>,
) {
    let bus = around.bus.clone();
    let (inbound, mut requests) = mpsc::channel(INBOUND_MAX);
    match TcpListener::from_std(listener) {
        Ok(listener) => {
            tokio::spawn(listen(bus.clone(), around.links.clone(), listener, inbound));
        }
        Err(error) => return bus.log(Level::Warning, format!("cluster: the bus: {error}")),
    }
    tokio::spawn(renew_credentials(bus.clone()));
    tokio::spawn(keep_up(bus.clone()));
    loop {
        let end = Session::run(&around, &mut requests, &mut commands).await;
        let after = match end {
            End::Stopped => return,
            End::Again { why, after } => {
                bus.log(Level::Warning, format!("cluster: {why}"));
                after
            }
            End::Refused(refusal) => {
                bus.log_once(Level::Warning, format!("cluster: join rejected: {refusal}"));
                match refusal {
                    wire::Refusal::Superseded => follow(&around),
                    _ => bus.timing.search,
                }
            }
            End::Superseded => follow(&around),
            End::Generation => match around.begin_generation() {
                Ok(()) => Duration::ZERO,
                Err(why) => {
                    bus.log(Level::Warning, format!("cluster: cannot take over: {why}"));
                    bus.timing.search
                }
            },
        };
        if !pause(after, &mut requests, &mut commands).await {
            return;
        }
    }
}

/// Calls [`Events::upkeep`] while the thread runs.
async fn keep_up(bus: Arc<Bus>) {
    loop {
        tokio::time::sleep(UPKEEP_EVERY).await;
        bus.events.lock().upkeep();
    }
}

/// Prepares a node to join the cluster that continues its own; returns the time until then.
fn follow(around: &SessionContext) -> Duration {
    if around.bus.superseded.lock().is_none() {
        return around.bus.timing.search;
    }
    let line = "cluster: the operator has continued this node's cluster without its majority: it \
                joins that one";
    around.bus.log(Level::Warning, line.into());
    match around.follow() {
        Ok(()) => Duration::ZERO,
        Err(why) => {
            around.bus.log(Level::Warning, format!("cluster: cannot join it: {why}"));
            around.bus.timing.search
        }
    }
}

/// Waits before the next attempt; false if the node is to stop.
async fn pause(
    after: Duration,
    requests: &mut mpsc::Receiver<Inbound>,
    commands: &mut mpsc::UnboundedReceiver<HostCommand>,
) -> bool {
    let end = tokio::time::sleep(after);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return true,
            command = commands.recv() => match command {
                Some(
                    HostCommand::Hold(..)
                    | HostCommand::Arrived(..)
                    | HostCommand::Rejoin(_)
                    | HostCommand::SetAux(_)
                    | HostCommand::Forget(_)
                    | HostCommand::TakeOver(_)
                    | HostCommand::Generation
                    | HostCommand::Extents
                    | HostCommand::AwaitAux(_),
                ) => {}
                None | Some(HostCommand::Stop | HostCommand::Leave) => return false,
            },
            // Nodes repeat requests that were not answered.
            _ = requests.recv() => {}
        }
    }
}

async fn renew_credentials(bus: Arc<Bus>) {
    loop {
        tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
        bus.renew_credentials();
    }
}

/// Accepts connections of other nodes.
async fn listen(
    bus: Arc<Bus>,
    links: Arc<Links>,
    listener: TcpListener,
    inbound: mpsc::Sender<Inbound>,
) {
    let unidentified = Arc::new(Semaphore::new(UNIDENTIFIED_MAX));
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                bus.log_once(Level::Warning, format!("cluster: the bus: {error}"));
                tokio::time::sleep(bus.timing.redial).await;
                continue;
            }
        };
        let stranger = unidentified.clone().try_acquire_owned();
        let connection = connections.clone().try_acquire_owned();
        let (Ok(stranger), Ok(connection)) = (stranger, connection) else {
            bus.log_once(Level::Warning, "cluster: too many connections to the bus".into());
            continue;
        };
        let (bus, links, inbound) = (bus.clone(), links.clone(), inbound.clone());
        tokio::spawn(async move {
            let accepted = bus.accept(stream).await;
            drop(stranger);
            match accepted {
                Ok((wire::Kind::Control, stream, peer)) => {
                    control::serve(&bus, stream, peer, inbound).await;
                }
                Ok((wire::Kind::Lanes, stream, peer)) => links.run(stream, peer).await,
                Ok((wire::Kind::Relay, stream, _)) => {
                    let is_linked = |member| links.is_up(member);
                    drop(relay::serve(&bus, stream, is_linked).await);
                }
                Err(ConnectError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(ConnectError::Refused(wire::Refusal::NotAMember)) => {}
                Err(error) => {
                    let line = format!("cluster: {} {}", from.ip(), not_accepted(&error));
                    bus.log_once(Level::Warning, line);
                }
            }
            drop(connection);
        });
    }
}

/// Log text for an incoming connection that was not accepted.
fn not_accepted(error: &ConnectError) -> String {
    match error {
        ConnectError::Foreign => {
            "was rejected: it is not a cluster node; this port is the cluster bus, \
             clients connect to `port` or `tls-port`"
                .into()
        }
        ConnectError::Io(error) => {
            format!("disconnected before it identified itself: {error}")
        }
        ConnectError::TooLong => "was rejected: it did not identify itself in time".into(),
        error => format!("was rejected: {error}"),
    }
}
