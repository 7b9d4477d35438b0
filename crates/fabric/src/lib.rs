//! Membership, consensus and secure links of Petrel's leaderless cluster: it tells its host who is
//! a member and who holds which slots, view by view, and connects members. What they say to each
//! other over those connections, `petrel-cluster` knows.
//!
//! ```text
//! host --Settings--> Fabric --admitted, view, view, ... link_up(Connection), ... expelled--> Events
//!      --hold_slots, rejoin, leave-->
//!      <--Connection: receive, send--> another member's host
//! ```
//!
//! One thread: a current-thread tokio runtime with everything on it but the links' bytes. One port,
//! the *bus*, for all connections between nodes, TLS 1.3 with certificates on both sides.
//!
//! | file | holds |
//! |---|---|
//! | `settings`, `events` | what the host hands in, and the events that it gets |
//! | `trust` | passphrase, keys, certificates |
//! | `wire` | what nodes say to each other |
//! | `bus` | how two nodes come to know each other |
//! | `found` | nodes that are not where the members have agreed they are |
//! | `control`, `links` | connections for requests, and for the data plane |
//! | `connection` | the bytes of one of the latter, in the host's hands |
//! | `state` | what is agreed on: members, incarnations, slots, views |
//! | `functions` | the libraries of functions, a part of that |
//! | `homes` | slots with fewer homes than data members, from view to view |
//! | `raft/` | consensus (openraft, redb) |
//! | `swim` | failure detection (foca) |
//! | `lease`, `voters`, `leader` | who is dead, who votes, what the leader does |
//! | `lines`, `changes` | lines of the log that would be repeated; changes of a view |
//! | `session`, `asker` | one life of a node: joining, being a member; its questions to the leader |
//!
//! # What the host can rely on
//!
//! * Views come one after another, each epoch 1 greater; all members see the same ones. A node that
//!   cannot be shown one (it lags by more than 64) is expelled and let in anew.
//! * A node that starts again, or was taken for dead, has another incarnation; a view without it
//!   lies between its lives.
//! * A member is removed when its lease has run out and failure detection has lost it, or when the
//!   lease has not been renewed for twice as long. A primary may number changes only while
//!   [`Fabric::has_lease`].
//! * Links exist between members of the last reported view, one for each pair. Bytes of a link
//!   arrive in order, up to some byte; nothing of one link gets into the next.
//! * `Settings::waits_for_data`: a node that joins holds no slots before [`Fabric::hold_slots`];
//!   with [`Hold::GiveUp`] it gives them up before it leaves. What has become of it, views say.
//!
//! # What goes wrong
//!
//! | what | what happens |
//! |---|---|
//! | passphrase or name differ, a stranger connects | turned away, a line on both sides, asked again |
//! | data of another cluster, a uuid with another key, a full cluster | refused, asked again in 10 s |
//! | no common protocol version | the same |
//! | a name does not resolve, no member answers, there is no leader | a line, asked again |
//! | the disk under `raft.redb` fails | expelled until that can be written; its slots move |
//! | all members come back at other addresses | they wait for one that names another's, and say so |
//! | garbage on the port | at most 64 strangers at once, 4 KiB and 2 to 10 s each |
//!
//! Up to five members vote, an odd number. Of two nodes one votes: when it dies, the other cannot
//! go on until it is back. A third node, or a witness, helps.
//!
//! Time is the monotonic clock, which stands still while a machine sleeps: leases do not hold over
//! that. A copy of a voter's directory, or one restored from a backup, may vote twice before it is
//! found out: directories are not to be copied.

mod asker;
mod bus;
mod changes;
mod connection;
mod control;
mod events;
mod found;
mod functions;
mod homes;
mod leader;
mod lease;
mod lines;
mod links;
mod raft;
mod session;
mod settings;
mod state;
mod swim;
mod trust;
mod voters;
mod wire;

pub use bus::Traffic;
pub use connection::{Connection, Link};
pub use events::{Events, Level};
pub use functions::{FUNCTIONS_MAX, Functions, FunctionsChange, FunctionsOutcome, functions_len};
pub use settings::{Copies, Hold, Role, Settings, Start};
pub use state::MemberInfo;
pub use trust::TrustError;
#[doc(hidden)]
pub use wire::decode_anything;

use bus::{Bus, ConnectError};
use control::{Control, Inbound};
use links::Links;
use petrel_cluster::{Identity, Slot, SlotSet};
use raft::{Origin, Store};
use session::{End, Session, Surroundings};
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

/// Connections whose other side is not known yet.
const STRANGERS_MAX: usize = 64;

/// Connections to this node.
const CONNECTIONS_MAX: usize = 1024;

/// Requests of all other nodes that wait for this one.
const INBOUND_MAX: usize = 1024;

/// Why a node does not start.
#[derive(Debug)]
pub enum StartError {
    /// The directory cannot be used, or belongs to something else.
    Directory(String),
    /// The bus cannot listen there.
    Bind(SocketAddr, io::Error),
    /// There are no keys or certificates.
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
            StartError::Thread(error) => write!(f, "cluster: its thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// What the host asks of the thread.
pub(crate) enum HostCommand {
    Stop,
    Leave,
    Hold(Identity, Hold),
    Arrived(Identity, u64, Vec<(Slot, Slot)>),
    Rejoin(Identity),
    SetFunctions(FunctionsChange),
    AwaitFunctions(AwaitFunctions),
    Forget(u128),
}

/// Threads that wait until other hosts have libraries of functions.
pub(crate) struct AwaitFunctions {
    pub version: u64,
    pub until: Instant,
    /// Dropped when they have.
    pub done: std::sync::mpsc::SyncSender<()>,
}

/// A member, as it looks from here.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Who it is.
    pub info: MemberInfo,
    /// Whether it is this node.
    pub is_self: bool,
    /// Whether there is a link to it.
    pub is_linked: bool,
    /// Bytes that wait to be sent over that.
    pub queued: usize,
    /// Bytes of frames to it and from it, since this node's start.
    pub traffic: Traffic,
}

/// How things are, from here.
#[derive(Clone, Debug)]
pub struct Info {
    /// What this node has called itself since its directory was made.
    pub uuid: u128,
    /// This node, while it is a member.
    pub own: Option<Identity>,
    /// Where others find its bus.
    pub announced: String,
    /// The cluster, once it is known.
    pub cluster: Option<u128>,
    /// The epoch of the last view; 0 while this node is no member.
    pub epoch: u64,
    /// The members of that view.
    pub members: Vec<MemberStatus>,
    /// The member that leads, as far as this node knows.
    pub leader: Option<Identity>,
    /// How many members vote.
    pub voters: usize,
    /// Whether this node may number changes now.
    pub has_lease: bool,
}

/// Until when this node holds its lease.
#[derive(Debug)]
pub(crate) struct Lease {
    start: Instant,
    length: Duration,
    /// Milliseconds from `start`; 0 for not at all.
    until: AtomicU64,
}

impl Lease {
    fn new(length: Duration) -> Self {
        // Shorter by a tenth than what the leader counts: clocks do not run alike.
        let length = length - length / 10;
        Lease { start: Instant::now(), length, until: AtomicU64::new(0) }
    }

    /// Renewed by a question that was asked then: until when it holds.
    pub fn extend(&self, asked: Instant) -> Instant {
        let until = asked.duration_since(self.start) + self.length;
        let until = until.as_millis() as u64;
        let before = self.until.fetch_max(until, Ordering::Release);
        self.start + Duration::from_millis(until.max(before))
    }

    pub fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    fn holds(&self) -> bool {
        (self.start.elapsed().as_millis() as u64) < self.until.load(Ordering::Acquire)
    }
}

/// A node of a cluster. Dropped, it stops at once, as if it had died; see [`Fabric::leave`].
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
    /// Starts the node's thread. The node is a member once [`Events::admitted`] says so.
    ///
    /// # Errors
    /// If the directory, the port or the keys cannot be used. What concerns other nodes is no
    /// reason: it is logged and tried again.
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
            let around = Surroundings { bus: bus_, control, links: links_, store, lease: lease_ };
            runtime.block_on(run(around, listener, commanded));
            // Names are resolved beside the loop, which goes on.
            runtime.shutdown_background();
        });
        let thread = Some(thread.map_err(StartError::Thread)?);
        Ok(Fabric { bus, links, lease, commands, thread })
    }

    /// Has this node, a data node, take slots, or give up those that it holds; not in another life
    /// than `own`. The views show what has become of it: [`MemberInfo::holds_slots`].
    pub fn hold_slots(&self, own: Identity, hold: Hold) {
        drop(self.commands.send(HostCommand::Hold(own, hold)));
    }

    /// With [`Copies::Of`]: in the view of this epoch, the node has the data of these slots, which
    /// it is to become a home of (`petrel_cluster::Node::arrived`). Counts for those whose primary
    /// has stayed the same since, and replaces what was said before; so the host says it again in
    /// the next view as long as there are such slots. Not in another life than `own`.
    pub fn arrived(&self, own: Identity, epoch: u64, slots: &SlotSet) {
        drop(self.commands.send(HostCommand::Arrived(own, epoch, slots.ranges())));
    }

    /// Whether slots without a home wait for the node, which was their last home and may take them
    /// with [`Hold::TakeUnheld`]; and the epoch of the view in which that is so.
    pub fn may_claim(&self, own: Identity) -> (bool, u64) {
        let state = self.bus.agreed.state.lock();
        (state.member(own).is_some() && state.may_claim(own.node.0), state.epoch)
    }

    /// The libraries of functions, as far as this node knows: while it is a member, at least as new
    /// as they were when it was let in.
    pub fn functions(&self) -> Arc<Functions> {
        self.bus.agreed.state.lock().functions().clone()
    }

    /// Has the members agree on other libraries, of at most [`FUNCTIONS_MAX`] bytes. That may be
    /// lost, and is asked again as long as [`Functions::outcome`] is open.
    pub fn set_functions(&self, change: FunctionsChange) {
        drop(self.commands.send(HostCommand::SetFunctions(change)));
    }

    /// Says which libraries of functions the host has, by their version; for other members to know.
    pub fn has_functions(&self, version: u64) {
        self.bus.functions.store(version, Ordering::Release);
    }

    /// Blocks until the hosts of all members that hold slots have libraries of this version, or
    /// newer ones, for so long at most.
    pub fn await_functions(&self, version: u64, timeout: Duration) {
        let (done, end) = std::sync::mpsc::sync_channel(0);
        let wait = AwaitFunctions { version, until: Instant::now() + timeout, done };
        drop(self.commands.send(HostCommand::AwaitFunctions(wait)));
        let _ = end.recv_timeout(timeout);
    }

    /// Nodes that were members until they were taken for dead, as far as this node knows.
    pub fn failed(&self) -> Vec<MemberInfo> {
        self.bus.agreed.state.lock().failed().cloned().collect()
    }

    /// Number of members that are to hold each slot, once this node knows.
    pub fn copies(&self) -> Option<Copies> {
        self.bus.agreed.state.lock().copies()
    }

    /// Clears the failed state of a node, until it fails again. The node may come back. The request
    /// may be lost.
    pub fn forget(&self, uuid: u128) {
        drop(self.commands.send(HostCommand::Forget(uuid)));
    }

    /// Ends the life `own` at once, as when the host's data cannot be brought up to date:
    /// [`Events::expelled`] follows, then the node asks to be let in with another incarnation.
    pub fn rejoin(&self, own: Identity) {
        drop(self.commands.send(HostCommand::Rejoin(own)));
    }

    /// Leaves the cluster: others take over what this node holds, and its vote. The thread ends
    /// with that, at most five node timeouts later, after [`Events::expelled`]. Where slots have few
    /// homes, those of this node are handed over first, which may take sixty node timeouts more.
    pub fn leave(&self) {
        drop(self.commands.send(HostCommand::Leave));
    }

    /// Whether the thread has ended, as it does after [`Fabric::leave`].
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether this node may number changes of the slots of which it is primary: nobody takes it
    /// for dead meanwhile.
    pub fn has_lease(&self) -> bool {
        self.lease.holds()
    }

    /// How things are.
    pub fn info(&self) -> Info {
        let own = self.bus.own.lock().map(|own| own.identity());
        let told = self.bus.told.lock().clone();
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
            members: told.iter().map(status).collect(),
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

/// Who this node is, drawn now if it has never been.
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

/// An address at which others reach a socket that may listen at all addresses.
pub fn reachable(bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    // Nothing is sent: the system says which of its addresses it would send from.
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
    // If the system gives no randomness, what two nodes draw differs by their clocks.
    if ring::rand::SystemRandom::new().fill(&mut bytes).is_err() {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        return now.as_nanos() as u64;
    }
    u64::from_le_bytes(bytes)
}

/// Everything that the thread does.
async fn run(
    around: Surroundings,
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
    loop {
        let end = Session::run(&around, &mut requests, &mut commands).await;
        let after = match end {
            End::Stopped => return,
            End::Again { why, after } => {
                bus.log(Level::Warning, format!("cluster: {why}"));
                after
            }
            End::Refused(refusal) => {
                bus.log_once(Level::Warning, format!("cluster: not let in: {refusal}"));
                bus.timing.search
            }
        };
        if !pause(after, &mut requests, &mut commands).await {
            return;
        }
    }
}

/// Waits until the next life; false if there is to be none.
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
                    | HostCommand::SetFunctions(_)
                    | HostCommand::Forget(_)
                    | HostCommand::AwaitFunctions(_),
                ) => {}
                None | Some(HostCommand::Stop | HostCommand::Leave) => return false,
            },
            // Who asks meanwhile asks again.
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

/// Lets other nodes in.
async fn listen(
    bus: Arc<Bus>,
    links: Arc<Links>,
    listener: TcpListener,
    inbound: mpsc::Sender<Inbound>,
) {
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
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
        let stranger = strangers.clone().try_acquire_owned();
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

/// What became of a connection that another side has made.
fn not_accepted(error: &ConnectError) -> String {
    match error {
        ConnectError::Foreign => {
            "was turned away: it speaks as no node does; this is the bus of the cluster, \
             clients connect to `port` or `tls-port`"
                .into()
        }
        ConnectError::Io(error) => {
            format!("has connected and gone before it said who it is: {error}")
        }
        ConnectError::TooLong => "was turned away: it does not say who it is".into(),
        error => format!("was turned away: {error}"),
    }
}
