//! The server as a member of a cluster: its workers execute commands for slots with this primary
//! and forward others; a thread of its own runs the protocol (`petrel_cluster`) and talks to other
//! members.
//!
//! ```text
//!  worker    gate: forward ── RemoteCall ──▶ agent ── EXEC ──▶ ... other members
//!            reply slot ◀── mailbox ──────── agent ◀── effects, ANSWER
//!            commits: the sink puts them into lanes, and wakes the agent, which sends them
//!  fabric    views, links ──────────────────▶ agent ◀── Pipe ──▶ ... other members
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `settings` | the cluster's part of the configuration, and errors in it |
//! | `fabric` | connection to the membership (`petrel_fabric`): its events, its links |
//! | `events` | the queue of those events |
//! | `entry` | entry of a server into a cluster: start and end of the cluster thread |
//! | `rejoin` | the thread while the node is no member: joining and rejoining |
//! | `agent` | the thread while the node is a member: receiving and sending |
//! | `links` | the bytes of its links to other members |
//! | `phase` | phase of a member, and the origin of its data |
//! | `copy` | copies of a member's data, or of some slots': sent and received |
//! | `slots` | slots that the member gains and loses, if members hold only some |
//! | `deferred` | commands with a primary that is out of reach for a short time |
//! | `machine` | executor of commands that other members forward |
//! | `waiters` | commands of other members' clients that are blocked here |
//! | `remote_blocked` | commands of clients here that are blocked at other members |
//! | `jobs` | `FLUSHALL` and `WAIT`, which every primary executes for its slots |
//! | `functions` | function libraries, which all members agree on |
//! | `leave` | shutdown: other members take over its hash slots first |
//! | `info` | texts of `CLUSTER INFO` and `CLUSTER NODES` |

mod agent;
mod copy;
mod deferred;
mod entry;
mod events;
mod fabric;
mod functions;
mod info;
mod jobs;
mod leave;
mod links;
mod logs;
mod machine;
mod phase;
mod rejoin;
mod remote_blocked;
mod settings;
mod slots;
mod waiters;

pub use entry::start;
pub(crate) use fabric::enlist;

use crate::client::Client;
use deferred::Forward;
use events::EventQueue;
use functions::{FunctionRequest, Functions};
use logs::KnownLogs;
use parking_lot::{Mutex, RwLock};
use petrel_cluster::wire::{Tag, WaitEnd};
use petrel_cluster::{Identity, Lanes, LocalSlots, Need, SLOTS, SlotMap, SlotSet, View, slot_of};
use petrel_commands::clock::{Clock, Tick};
use petrel_commands::{
    Cluster, ClusterLink, Fail, HashSlot, HeldFigures, Home, Outcome, PeerFigures, RemoteCall,
    ShownSlots, Ticket, UnsafeChanges,
};
use petrel_fabric::Copies;
use petrel_fabric::Fabric;
pub use petrel_fabric::{Hold, Role};
use petrel_keyspace::{Homes, Origin};
use petrel_net::{Poll, Waker};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;
use waiters::Waiters;

/// Forwarded commands that wait for the agent at most.
const TASKS_MAX: usize = 16 * 1024;

/// Members have numbers below this.
const NODES_MAX: usize = 64;

/// The agent's ends of its queue of commands and of its poller.
type Ends = (Receiver<Forward>, Poll);

/// A link to a member from when it is up to when it is down. The next link to the same member is
/// another one, so that nothing that belongs to the former gets into it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link {
    /// The other side.
    pub peer: Identity,
    /// Grows with each link.
    pub number: u64,
}

/// The bytes of a link, both ways. Nothing waits. Dropped, the link ends.
pub trait Pipe: Send + fmt::Debug {
    /// Appends bytes that have come, until there are no more or `most` are exceeded; whether there
    /// may be more at once.
    ///
    /// # Errors
    /// When the link has ended.
    fn receive(&mut self, into: &mut Vec<u8>, most: usize) -> io::Result<bool>;

    /// Sends bytes behind those of before, and keeps what cannot be sent yet.
    ///
    /// # Errors
    /// When the link has ended.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Sends more of the kept bytes.
    ///
    /// # Errors
    /// When the link has ended.
    fn flush(&mut self) -> io::Result<()>;

    /// Whether something is kept: nothing more is sent before that.
    fn is_blocked(&self) -> bool;

    /// Socket to poll for bytes to read or space to write; `None` if the thread is woken otherwise
    /// ([`Inbox::wake`]).
    fn socket(&self) -> Option<BorrowedFd<'_>>;
}

/// The members' side of the process, as the agent asks it for something.
pub trait Transport: Send {
    /// The link to a member has ended for the agent: another may begin.
    fn close(&self, _link: Link) {}

    /// Publishes the data that the member holds; views show the result.
    fn hold(&self, _own: Identity, _hold: Hold) {}

    /// If slots have few owners: whether some wait for this member, their last owner, and the epoch
    /// of that view.
    fn may_claim(&self, _own: Identity) -> (bool, u64) {
        (false, 0)
    }

    /// Says of which slots this member has got the data, in the view of this epoch.
    fn arrived(&self, _own: Identity, _epoch: u64, _slots: &SlotSet) {}

    /// Rejoins the cluster under a new identity, because the member's data cannot be brought up to
    /// date.
    fn rejoin(&self, _own: Identity) {}
}

/// A member as users see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MemberInfo {
    /// Identity of the member.
    pub identity: Identity,
    /// Node id: 40 hexadecimal digits.
    pub id: String,
    /// The address that clients reach it at.
    pub host: String,
    /// Port for clients; 0 if there is none.
    pub port: u16,
    /// Port of the cluster bus.
    pub bus_port: u16,
    /// Purpose of the node.
    pub role: Role,
    /// Whether it has the cluster's data, and so its share of the hash slots.
    pub holds_slots: bool,
}

/// Event of the membership for the agent.
#[derive(Debug)]
pub enum Event {
    /// The server is a member from this view on, whatever it was before.
    Admitted(Identity, Arc<View>, Arc<[MemberInfo]>),
    /// The view that follows the last, and its members.
    View(Arc<View>, Arc<[MemberInfo]>),
    /// The server is a member no longer; [`Event::Admitted`] may follow.
    Expelled,
    /// A link to a member is up, replacing any earlier one.
    LinkUp(Link, Box<dyn Pipe>),
    /// The link has ended.
    LinkDown(Link),
}

/// Sends events to the agent.
#[derive(Clone)]
pub struct Inbox(Arc<Membership>);

impl Inbox {
    /// Leaves an event.
    pub fn leave(&self, event: Event) {
        self.0.events.leave(event);
    }

    /// Wakes the agent because a link without a socket has bytes.
    pub fn wake(&self) {
        self.0.waker.wake();
    }
}

/// State of the cluster shared with the rest of the server.
pub struct Membership {
    tasks: SyncSender<Forward>,
    /// Wakes the agent.
    waker: Waker,
    events: EventQueue,
    own: Arc<LocalSlots>,
    /// The lanes of this life of the member.
    lanes: RwLock<Option<Arc<Lanes>>>,
    /// The number of the [`Tick`] until which this member may number changes.
    lease_until: AtomicU64,
    state: Mutex<State>,
    /// The epoch of a view, and the mark of its homes.
    marked: Mutex<(u64, u64)>,
    figures: Figures,
    /// Commands of other members' clients that wait here.
    waiters: Waiters,
    /// Waits ended here of other members' clients, with their replies.
    ended: Mutex<Vec<(Tag, Vec<u8>)>>,
    /// Clients with commands blocked at other members.
    away: Mutex<HashMap<u64, usize>>,
    /// Clients with commands at other members that must not wait any longer, and the reasons.
    ends: Mutex<Vec<(u64, WaitEnd)>>,
    /// Watches at other members that have ended: a hash slot of the keys, and their name.
    unwatched: Mutex<Vec<(HashSlot, u64)>>,
    functions: Functions,
    known_logs: KnownLogs,
    /// The member's name, once it is known.
    name: OnceLock<String>,
    is_witness: bool,
    /// Owners that have applied a change before a client sees it: `cluster-acknowledge`.
    acknowledge: usize,
    node_timeout_ms: u32,
    /// Directory of the cluster's files.
    directory: Option<PathBuf>,
    fabric: Mutex<Option<Arc<Fabric>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State that changes with views and links.
#[derive(Clone)]
pub struct State {
    /// Identity of this member; `None` while it is none.
    pub me: Option<Identity>,
    /// The view that is in force here.
    pub view: Arc<View>,
    /// Members of the view.
    pub members: Arc<[MemberInfo]>,
    /// Members that there are links to, and since when, in Unix milliseconds.
    pub linked: Vec<(Identity, i64)>,
    /// Whether clients are served: the data are those of the cluster.
    pub is_serving: bool,
}

impl Default for State {
    /// State of a server that is no member.
    fn default() -> Self {
        let slots = SlotMap::collect(|_| &[]);
        State {
            me: None,
            view: Arc::new(View { epoch: 0, members: Vec::new(), slots, incoming: None }),
            members: Arc::from([]),
            linked: Vec::new(),
            is_serving: false,
        }
    }
}

/// Counted by the agent for each other member, by its number.
#[derive(Default)]
pub struct PeerCounts {
    sent: AtomicU64,
    received: AtomicU64,
    forwarded: AtomicU64,
    served: AtomicU64,
}

/// Counted by the agent.
pub struct Figures {
    /// Commands that were forwarded to other members.
    pub forwarded: AtomicU64,
    /// Commands that were executed for other members.
    pub served: AtomicU64,
    /// Bytes that were sent to other members, and that came from them.
    pub sent: AtomicU64,
    /// See `sent`.
    pub received: AtomicU64,
    /// Changes of other members that could not be made here.
    pub differences: AtomicU64,
    /// Elements taken for blocked clients here that had left when they arrived.
    pub undelivered: AtomicU64,
    /// Hash slots with their data here, and ones with data still arriving.
    pub slots_held: AtomicU64,
    /// See `slots_held`.
    pub slots_coming: AtomicU64,
    /// By the numbers of members.
    peers: [PeerCounts; NODES_MAX],
}

impl Default for Figures {
    fn default() -> Self {
        Figures {
            forwarded: AtomicU64::new(0),
            served: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            differences: AtomicU64::new(0),
            undelivered: AtomicU64::new(0),
            slots_held: AtomicU64::new(0),
            slots_coming: AtomicU64::new(0),
            peers: std::array::from_fn(|_| PeerCounts::default()),
        }
    }
}

impl Figures {
    fn note_slots(&self, (held, coming): (usize, usize)) {
        self.slots_held.store(held as u64, Relaxed);
        self.slots_coming.store(coming as u64, Relaxed);
    }

    fn peer(&self, node: u16) -> &PeerCounts {
        &self.peers[usize::from(node) % NODES_MAX]
    }
}

impl MemberInfo {
    /// The number that its name spells.
    fn uuid(&self) -> Option<u128> {
        u128::from_str_radix(&self.id, 16).ok()
    }
}

impl Membership {
    /// Nodes that were taken for dead and have not come back, as far as this node knows.
    fn failed(&self) -> Vec<MemberInfo> {
        let fabric = self.fabric.lock().clone();
        let mut failed = fabric.map_or_else(Vec::new, |fabric| fabric::failed(&fabric));
        let (state, own) = (self.state(), self.id());
        // The view in force here may be older than the agreed one.
        let is_member = |id: &String| state.members.iter().any(|member| member.id == *id);
        failed.retain(|node| node.id != own && !is_member(&node.id));
        failed
    }

    /// Creates the state of a server that is no member yet.
    fn new(
        is_witness: bool,
        (acknowledge, node_timeout_ms): (usize, u32),
        directory: Option<PathBuf>,
    ) -> io::Result<(Arc<Self>, Ends)> {
        let (tasks, taken) = mpsc::sync_channel(TASKS_MAX);
        let poll = Poll::new()?;
        let membership = Membership {
            events: EventQueue::new(poll.waker()),
            tasks,
            waker: poll.waker(),
            own: Arc::default(),
            lanes: RwLock::default(),
            lease_until: AtomicU64::new(Tick::LONG_AGO.number()),
            state: Mutex::default(),
            marked: Mutex::default(),
            figures: Figures::default(),
            waiters: Waiters::default(),
            ended: Mutex::default(),
            away: Mutex::default(),
            ends: Mutex::default(),
            unwatched: Mutex::default(),
            functions: Functions::default(),
            known_logs: KnownLogs::default(),
            name: OnceLock::new(),
            is_witness,
            acknowledge,
            node_timeout_ms,
            directory,
            fabric: Mutex::default(),
            thread: Mutex::default(),
        };
        Ok((Arc::new(membership), (taken, poll)))
    }

    /// The view, its members, and the linked ones.
    pub fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// Counters of the agent.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Says until when this member may number changes: no other is appointed in its place before.
    /// None: not at all.
    pub fn hold_lease(&self, until: Option<Instant>) {
        let until = until.map_or(Tick::LONG_AGO, |until| Clock::get().tick_at(until));
        self.lease_until.store(until.number(), Release);
    }

    fn has_lease(&self) -> bool {
        Clock::get().now() < self.lease_until()
    }
}

impl Homes for Membership {
    fn is_home(&self, key: &[u8]) -> bool {
        self.own.is_home(key) && self.has_lease()
    }

    fn copies(&self) -> Option<Origin> {
        self.own.copies()
    }

    fn note_no_copies(&self) {
        self.own.note_no_copies();
    }

    fn is_copy(&self, key: &[u8]) -> bool {
        self.own.is_copy(key)
    }

    fn note_evicted(&self, db: u16, key: &[u8]) {
        self.own.note_evicted(db, key);
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

    fn home_of(&self, slot: HashSlot) -> Home {
        match self.own.primary(slot) {
            None => Home::Changing,
            Some(home) if home == self.own.me() => Home::Here,
            Some(home) => Home::At(home.0),
        }
    }

    fn holds_all(&self) -> bool {
        self.own.holds_all()
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

    fn lease_until(&self) -> Tick {
        Tick::of(self.lease_until.load(Acquire))
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

    fn info(&self) -> String {
        let failed = self.failed().len();
        let copies = match self.fabric.lock().as_ref().and_then(|fabric| fabric.copies()) {
            Some(Copies::Of(copies)) => Some(usize::from(copies.max(1))),
            Some(Copies::All) | None => None,
        };
        let redundancy = info::Redundancy { failed, copies };
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
            return Err(Fail::fixed("ERR I tried hard but I can't forget myself..."));
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

    fn forward(&self, client: &Ticket, seq: u64, call: RemoteCall) -> Result<(), Fail> {
        let Ok(client) = client.clone().downcast::<Client>() else {
            return Err(Fail::HOME_CHANGING);
        };
        if call.slots.is_empty() {
            let args = call.commands.into_iter().next().unwrap_or_default();
            return self.functions.ask(FunctionRequest::new(client, seq, call.resp3, args));
        }
        let taken = self.tasks.try_send(Forward::new(client, seq, call));
        self.waker.wake();
        taken.map_err(|_| Fail::TOO_MUCH_FORWARDED)
    }

    fn slots_of_homes(&self) -> Option<Vec<Vec<HashSlot>>> {
        let mut homes: BTreeMap<_, Vec<HashSlot>> = BTreeMap::new();
        for slot in 0..SLOTS {
            homes.entry(self.own.primary(slot)?).or_default().push(slot);
        }
        Some(homes.into_values().collect())
    }

    fn homes(&self) -> Option<Vec<HashSlot>> {
        let mut homes = [None; NODES_MAX];
        for slot in 0..SLOTS {
            let home = usize::from(self.own.primary(slot)?.0);
            homes.get_mut(home)?.get_or_insert(slot);
        }
        Some(homes.into_iter().flatten().collect())
    }

    fn members_in_step(&self) -> usize {
        let lanes = self.lanes.read().clone();
        lanes.map_or(0, |lanes| lanes.members_at(&lanes.changed_positions()))
    }

    fn logs_in_step(&self) -> usize {
        let Some(lanes) = self.lanes.read().clone() else { return 0 };
        self.known_logs.count(self.own.me(), &lanes, || self.waker.wake())
    }

    fn mark_of_homes(&self) -> u64 {
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

fn count(figure: &AtomicU64, more: usize) {
    figure.fetch_add(more as u64, Relaxed);
}
