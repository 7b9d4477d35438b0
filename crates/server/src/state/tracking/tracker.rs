//! The connections that track (`CLIENT TRACKING`), with the options of each.

use super::pending::{away, is_away};
use crate::client::{Client, Flag};
use parking_lot::{Mutex, RwLock};
use petrel_commands::{Session, Tracking, TrackingMode};
use petrel_keyspace::{Keyspace, Reader};
use petrel_net::{Endpoint, Slot};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// Bytes that a prefix takes at a connection that listens to it, beside its name: its places in the
/// connection's set, in that of all connections and in the keyspace's.
const PREFIX_BYTES: u64 = 400;

/// A connection that tracks.
pub struct Tracker {
    /// The connection.
    pub client: Arc<Client>,
    /// `NOLOOP`: it gets no invalidations of its own changes.
    no_loop: AtomicBool,
    redirects: AtomicBool,
    /// `REDIRECT`: the connection that gets the invalidations instead.
    target: Mutex<Option<Arc<Client>>>,
    /// `PREFIX`, in order.
    prefixes: Mutex<BTreeSet<Arc<[u8]>>>,
    /// Bytes that these take.
    prefix_bytes: AtomicU64,
    /// The member of the cluster whose clients track, by its number. It has no connection here.
    member: Option<u16>,
}

/// Options of `CLIENT TRACKING ON`.
pub struct Options {
    /// Reads that are remembered.
    pub mode: TrackingMode,
    /// `NOLOOP`.
    pub no_loop: bool,
    /// `REDIRECT`.
    pub target: Option<Arc<Client>>,
    /// `PREFIX`; with [`TrackingMode::Broadcast`] only.
    pub prefixes: Vec<Vec<u8>>,
}

impl Tracker {
    /// The tracker behind a reader of the keyspace.
    pub fn of(reader: &Reader) -> &Tracker {
        reader.owner().downcast_ref().expect("this module alone makes readers, of its trackers")
    }

    /// Whether it gets invalidations of its own changes (no `NOLOOP`).
    pub fn loops(&self) -> bool {
        !self.no_loop.load(Relaxed)
    }

    /// The connection that gets them instead, if there is one.
    pub fn target(&self) -> Option<Arc<Client>> {
        if self.redirects.load(Relaxed) { self.target.lock().clone() } else { None }
    }

    /// Whether it is the connection of this number that gets them.
    pub fn tells(&self, id: u64) -> bool {
        self.target().map_or(self.client.id, |target| target.id) == id
    }

    /// The prefixes it listens to, in order.
    pub fn prefixes(&self) -> Vec<Arc<[u8]>> {
        self.prefixes.lock().iter().cloned().collect()
    }

    /// The member of the cluster that it stands for, by its number.
    #[inline]
    pub fn member(&self) -> Option<u16> {
        self.member
    }

    /// Number among the listeners of a prefix.
    fn number(&self) -> u64 {
        self.member.map_or(self.client.id, |node| away(node, 0))
    }

    fn new(client: Arc<Client>, member: Option<u16>) -> Self {
        Tracker {
            client,
            no_loop: AtomicBool::new(false),
            redirects: AtomicBool::new(false),
            target: Mutex::new(None),
            prefixes: Mutex::default(),
            prefix_bytes: AtomicU64::new(0),
            member,
        }
    }

    fn configure(&self, options: &Options) {
        self.no_loop.store(options.no_loop, Relaxed);
        *self.target.lock() = options.target.clone();
        self.redirects.store(options.target.is_some(), Relaxed);
    }
}

/// All connections that track.
#[derive(Default)]
pub struct Trackers {
    by_id: RwLock<HashMap<u64, Arc<Reader>>>,
    /// Readers of each prefix, by number.
    prefixes: RwLock<BTreeMap<Arc<[u8]>, Listeners>>,
    /// Other members of the cluster, by their numbers.
    members: RwLock<BTreeMap<u16, Member>>,
    /// Classes of keyspace events that clients of any of them want.
    member_events: AtomicU32,
    version: Version,
}

/// Another member of the cluster.
struct Member {
    /// Stands for the clients of the member that have read keys, or track prefixes.
    reader: Arc<Reader>,
    /// Classes of keyspace events that they want.
    events: u32,
}

/// Grows whenever the receiver of a client's invalidations changes: on a cache line that is hardly
/// ever written.
#[derive(Default)]
#[repr(align(64))]
struct Version(AtomicU64);

type Listeners = BTreeMap<u64, Arc<Reader>>;

/// Whether connections are among the listeners, whose numbers precede those of members.
fn has_own(listeners: &Listeners) -> bool {
    listeners.keys().next().is_some_and(|number| !is_away(*number))
}

impl Trackers {
    /// Number of tracking connections.
    pub fn len(&self) -> usize {
        self.by_id.read().len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Changes whenever cached receivers may be outdated.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.0.load(Acquire)
    }

    /// The receiver of a client's invalidations has changed.
    fn outdate(&self) {
        self.version.0.fetch_add(1, Release);
    }

    /// The prefixes that clients here listen to, in order.
    pub fn prefixes(&self) -> Vec<Arc<[u8]>> {
        let all = self.prefixes.read();
        let own = all.iter().filter(|(_, listeners)| has_own(listeners));
        own.map(|(prefix, _)| prefix.clone()).collect()
    }

    /// The prefixes of a name that clients here listen to.
    pub fn prefixes_of(&self, name: &[u8]) -> Vec<Arc<[u8]>> {
        let all = self.prefixes.read();
        let known = (0..=name.len()).filter_map(|len| all.get_key_value(&name[..len]));
        known.filter(|(_, own)| has_own(own)).map(|(prefix, _)| prefix.clone()).collect()
    }

    /// The reader that stands for a member of the cluster.
    pub fn of_member(&self, node: u16, keyspace: &Keyspace) -> Arc<Reader> {
        if let Some(member) = self.members.read().get(&node) {
            return member.reader.clone();
        }
        let mut members = self.members.write();
        let member = members.entry(node).or_insert_with(|| {
            let nobody = Client::new(0, 0, Slot::NOWHERE, 0, -1, Endpoint::Unix, Endpoint::Unix);
            let reader = keyspace.add_reader(Tracker::new(Arc::new(nobody), Some(node)));
            reader.listen(true);
            Member { reader, events: 0 }
        });
        member.reader.clone()
    }

    /// Sets what clients of a member want to hear of.
    pub fn set_interests(&self, node: u16, events: u32, prefixes: &[Vec<u8>], keyspace: &Keyspace) {
        let reader = self.of_member(node, keyspace);
        let tracker = Tracker::of(&reader);
        let known = tracker.prefixes();
        if !known.iter().map(|prefix| &prefix[..]).eq(prefixes.iter().map(Vec::as_slice)) {
            self.forget_prefixes(tracker, keyspace);
            self.listen(&reader, prefixes, keyspace);
        }
        self.change_members(|members| {
            members.entry(node).and_modify(|member| member.events = events);
        });
    }

    /// Removes a member that has left.
    pub fn remove_member(&self, node: u16, keyspace: &Keyspace) {
        let Some(Member { reader, .. }) = self.change_members(|members| members.remove(&node))
        else {
            return;
        };
        reader.listen(false);
        keyspace.remove_reader(&reader);
        self.forget_prefixes(Tracker::of(&reader), keyspace);
    }

    fn change_members<T>(&self, change: impl FnOnce(&mut BTreeMap<u16, Member>) -> T) -> T {
        let mut members = self.members.write();
        let changed = change(&mut members);
        let events = members.values().fold(0, |all, member| all | member.events);
        self.member_events.store(events, Release);
        changed
    }

    /// Classes of keyspace events that clients of other members want.
    #[inline]
    pub fn member_events(&self) -> u32 {
        self.member_events.load(Acquire)
    }

    /// The members whose clients want events of a class, as bits.
    pub fn members_for(&self, class: u32) -> u64 {
        let members = self.members.read();
        let wanting = members.iter().filter(|(_, member)| member.events & class != 0);
        wanting.fold(0, |all, (node, _)| all | 1 << node)
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Reader>> {
        self.by_id.read().values().cloned().collect()
    }

    /// The listeners of a prefix.
    pub fn listeners(&self, prefix: &[u8]) -> Vec<Arc<Reader>> {
        self.prefixes.read().get(prefix).map_or(Vec::new(), |all| all.values().cloned().collect())
    }

    /// The number of the connection that gets a connection's invalidations: 0 if it gets them
    /// itself, -1 if it does not track.
    pub fn redirection(&self, client: &Client) -> i64 {
        if !client.has(Flag::Tracking) {
            return -1;
        }
        let by_id = self.by_id.read();
        let Some(reader) = by_id.get(&client.id) else { return -1 };
        Tracker::of(reader).target.lock().as_ref().map_or(0, |target| target.id as i64)
    }

    /// Bytes that are kept for a connection's tracking.
    pub fn footprint(&self, client: &Client) -> u64 {
        if !client.has(Flag::Broadcast) {
            return 0;
        }
        let by_id = self.by_id.read();
        by_id.get(&client.id).map_or(0, |reader| Tracker::of(reader).prefix_bytes.load(Relaxed))
    }

    fn listen(&self, reader: &Arc<Reader>, prefixes: &[Vec<u8>], keyspace: &Keyspace) {
        let tracker = Tracker::of(reader);
        let mut all = self.prefixes.write();
        for prefix in prefixes {
            let known = all.get_key_value(&prefix[..]).map(|(known, _)| known.clone());
            let prefix = known.unwrap_or_else(|| prefix[..].into());
            let listeners = all.entry(prefix.clone()).or_default();
            if listeners.is_empty() {
                keyspace.add_prefix(prefix.clone());
            }
            listeners.insert(tracker.number(), reader.clone());
            let bytes = PREFIX_BYTES + 2 * prefix.len() as u64;
            if tracker.prefixes.lock().insert(prefix) {
                tracker.prefix_bytes.fetch_add(bytes, Relaxed);
            }
        }
    }

    fn forget_prefixes(&self, tracker: &Tracker, keyspace: &Keyspace) {
        let prefixes = std::mem::take(&mut *tracker.prefixes.lock());
        tracker.prefix_bytes.store(0, Relaxed);
        if prefixes.is_empty() {
            return;
        }
        let mut all = self.prefixes.write();
        for prefix in prefixes {
            let Some(listeners) = all.get_mut(&prefix) else { continue };
            listeners.remove(&tracker.number());
            if listeners.is_empty() {
                all.remove(&prefix);
                keyspace.remove_prefix(&prefix);
            }
        }
    }

    /// Turns tracking on for a connection, or changes its mode. Keys read before stay tracked.
    pub fn track(
        &self,
        keyspace: &Keyspace,
        client: &Arc<Client>,
        session: &mut Session,
        options: &Options,
    ) {
        let extras = session.extras_mut();
        let reader = match &extras.tracking {
            Some(tracking) => tracking.reader.clone(),
            None => {
                let reader = keyspace.add_reader(Tracker::new(client.clone(), None));
                self.by_id.write().insert(client.id, reader.clone());
                reader
            }
        };
        let broadcast = options.mode == TrackingMode::Broadcast;
        Tracker::of(&reader).configure(options);
        if let Some(target) = &options.target {
            target.set(Flag::Redirected, true);
        }
        client.set(Flag::Tracking, true);
        client.set(Flag::Broadcast, broadcast);
        client.set(Flag::BrokenRedirect, false);
        reader.listen(!broadcast);
        if broadcast {
            self.listen(&reader, &options.prefixes, keyspace);
        }
        self.outdate();
        let (mode, redirects) = (options.mode, options.target.is_some());
        let writer = options.no_loop.then_some(client.id);
        extras.tracking = Some(Tracking { reader, mode, caching: false, redirects, writer });
    }

    /// Turns tracking off for a connection, if it is on.
    pub fn untrack(&self, keyspace: &Keyspace, client: &Client, session: &mut Session) {
        let Some(extras) = session.extras.as_mut() else { return };
        let Some(tracking) = extras.tracking.take() else { return };
        tracking.reader.listen(false);
        keyspace.remove_reader(&tracking.reader);
        self.forget_prefixes(Tracker::of(&tracking.reader), keyspace);
        self.outdate();
        self.by_id.write().remove(&client.id);
        for flag in [Flag::Tracking, Flag::Broadcast, Flag::BrokenRedirect] {
            client.set(flag, false);
        }
    }
}
