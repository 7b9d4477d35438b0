//! State of the cluster that the agent and the rest of the server share.

use super::answering::Answering;
use super::events::EventQueue;
use super::functions::Functions;
use super::known_logs::KnownLogs;
use super::tasks::{self, TaskReceiver, TaskSender};
use super::waiters::Waiters;
use crate::cluster::transport::{Event, MemberInfo};
use parking_lot::{Mutex, RwLock};
use petrel_cluster::wire::{Tag, WaitEnd};
use petrel_cluster::{Extents, Identity, Lanes, LocalSlots, SlotMap, View};
use petrel_commands::HashSlot;
use petrel_commands::clock::{Clock, Tick};
use petrel_fabric::Fabric;
use petrel_keyspace::{Origin, Ownership};
use petrel_net::{Poll, Waker};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time after the end of the lease for which commands wait for its renewal. As long as a command
/// waits for a primary that is changing.
const LEASE_PATIENCE: Duration = Duration::from_secs(1);

/// Members have numbers below this.
pub(in crate::cluster) const NODES_MAX: usize = 64;

/// The agent's ends of its queue of commands and of its poller.
pub(in crate::cluster) type Ends = (TaskReceiver, Poll);

/// Sends events to the agent.
#[derive(Clone)]
pub struct Inbox(pub(in crate::cluster) Arc<Membership>);

impl Inbox {
    /// Leaves an event.
    pub fn leave(&self, event: Event) {
        self.0.events.leave(event);
    }

    /// State of the member that the events are for.
    pub fn membership(&self) -> &Membership {
        &self.0
    }

    /// Wakes the agent because a link without a socket has bytes.
    pub fn wake(&self) {
        self.0.waker.wake();
    }
}

/// Wait of a stop for replies to forwarded commands.
#[derive(Default)]
pub(in crate::cluster) struct Drain {
    pub is_wanted: AtomicBool,
    /// Set by the agent.
    pub is_over: AtomicBool,
}

/// State of the cluster shared with the rest of the server.
pub struct Membership {
    pub(in crate::cluster) tasks: TaskSender,
    /// Wakes the agent.
    pub(in crate::cluster) waker: Waker,
    pub(in crate::cluster) events: EventQueue,
    pub(in crate::cluster) own: Arc<LocalSlots>,
    /// The lanes of this life of the member.
    pub(in crate::cluster) lanes: RwLock<Option<Arc<Lanes>>>,
    /// The number of the [`Tick`] until which this member may number changes.
    pub(in crate::cluster) lease_until: AtomicU64,
    /// The number of the [`Tick`] until which commands wait for a renewal of the lease.
    pub(in crate::cluster) awaits_lease_until: AtomicU64,
    /// Progress of [`Member::drain`](crate::state::member::Member::drain).
    pub(in crate::cluster) drain: Drain,
    pub(in crate::cluster) state: Mutex<State>,
    /// The epoch of a view, and the mark of its primaries.
    pub(in crate::cluster) marked: Mutex<(u64, u64)>,
    pub(in crate::cluster) figures: Figures,
    /// Commands of other members' clients that wait here.
    pub(in crate::cluster) waiters: Waiters,
    /// Whether clients are notified of changes of keys that this member does not own: all primaries
    /// send notifications.
    pub(in crate::cluster) tracks_away: AtomicBool,
    /// Waits ended here of other members' clients, with their replies.
    pub(in crate::cluster) ended: Mutex<Vec<(Tag, Vec<u8>)>>,
    /// Clients with commands blocked at other members.
    pub(in crate::cluster) away: Mutex<HashMap<u64, usize>>,
    /// Clients with commands at other members that must not wait any longer, and the reasons.
    pub(in crate::cluster) ends: Mutex<Vec<(u64, WaitEnd)>>,
    /// Watches at other members that have ended: a hash slot of the keys, and their name.
    pub(in crate::cluster) unwatched: Mutex<Vec<(HashSlot, u64)>>,
    pub(in crate::cluster) functions: Functions,
    pub(in crate::cluster) known_logs: KnownLogs,
    /// Extents of the data in the order of each slot, as last logged.
    pub(in crate::cluster) extents: Mutex<Extents>,
    /// Acknowledgements of other members, for `min-replicas-to-write`.
    pub(in crate::cluster) answering: Mutex<Answering>,
    /// The member's name, once it is known.
    pub(in crate::cluster) name: OnceLock<String>,
    pub(in crate::cluster) is_witness: bool,
    /// Owners that have applied a change before a client sees it: `cluster-acknowledge`.
    pub(in crate::cluster) acknowledge: usize,
    pub(in crate::cluster) node_timeout_ms: u32,
    /// Directory of the cluster's files.
    pub(in crate::cluster) directory: Option<PathBuf>,
    pub(in crate::cluster) fabric: Mutex<Option<Arc<Fabric>>>,
    pub(in crate::cluster) thread: Mutex<Option<JoinHandle<()>>>,
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
    pub(in crate::cluster) sent: AtomicU64,
    pub(in crate::cluster) received: AtomicU64,
    pub(in crate::cluster) forwarded: AtomicU64,
    pub(in crate::cluster) served: AtomicU64,
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
    pub(in crate::cluster) peers: [PeerCounts; NODES_MAX],
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
    pub(in crate::cluster) fn note_slots(&self, (held, coming): (usize, usize)) {
        self.slots_held.store(held as u64, Relaxed);
        self.slots_coming.store(coming as u64, Relaxed);
    }

    pub(in crate::cluster) fn peer(&self, node: u16) -> &PeerCounts {
        &self.peers[usize::from(node) % NODES_MAX]
    }
}

impl Membership {
    /// Creates the state of a server that is no member yet.
    pub(in crate::cluster) fn new(
        is_witness: bool,
        (acknowledge, node_timeout_ms): (usize, u32),
        directory: Option<PathBuf>,
    ) -> io::Result<(Arc<Self>, Ends)> {
        let (tasks, taken) = tasks::queue();
        let poll = Poll::new()?;
        let membership = Membership {
            events: EventQueue::new(poll.waker()),
            tasks,
            waker: poll.waker(),
            own: Arc::default(),
            lanes: RwLock::default(),
            lease_until: AtomicU64::new(Tick::LONG_AGO.number()),
            awaits_lease_until: AtomicU64::new(Tick::LONG_AGO.number()),
            drain: Drain::default(),
            state: Mutex::default(),
            marked: Mutex::default(),
            figures: Figures::default(),
            waiters: Waiters::default(),
            tracks_away: AtomicBool::new(false),
            ended: Mutex::default(),
            away: Mutex::default(),
            ends: Mutex::default(),
            unwatched: Mutex::default(),
            functions: Functions::default(),
            known_logs: KnownLogs::default(),
            extents: Mutex::default(),
            answering: Mutex::default(),
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
        let tick = |until: Option<Instant>| {
            until.map_or(Tick::LONG_AGO, |until| Clock::get().tick_at(until)).number()
        };
        self.awaits_lease_until.store(tick(until.map(|until| until + LEASE_PATIENCE)), Release);
        self.lease_until.store(tick(until), Release);
    }

    /// Whether the lease has ended, but is probably renewed soon: the process was paused.
    pub(in crate::cluster) fn is_renewing(&self) -> bool {
        let now = Clock::get().now();
        let until = |until: &AtomicU64| Tick::of(until.load(Acquire));
        now >= until(&self.lease_until) && now < until(&self.awaits_lease_until)
    }

    pub(in crate::cluster) fn has_lease(&self) -> bool {
        Clock::get().now() < Tick::of(self.lease_until.load(Acquire))
    }
}

impl Ownership for Membership {
    fn is_primary(&self, key: &[u8]) -> bool {
        self.own.is_primary(key) && self.has_lease()
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

    fn has_full_owner(&self, key: &[u8]) -> bool {
        Ownership::has_full_owner(&*self.own, key) && self.has_lease()
    }

    fn note_evicted(&self, db: u16, key: &[u8]) {
        self.own.note_evicted(db, key);
    }
}

pub(in crate::cluster) fn count(figure: &AtomicU64, more: usize) {
    figure.fetch_add(more as u64, Relaxed);
}
