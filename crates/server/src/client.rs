//! Shared state of a connection, readable by all threads while its worker serves it.

use once_cell::race::OnceBox;
use parking_lot::Mutex;
use petrel_commands::acl::User;
use petrel_net::{Endpoint, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// A bit of [`Client::flags`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Flag {
    /// To be closed; its worker has been notified.
    Killed = 1 << 0,
    /// Never evicted for its memory (`CLIENT NO-EVICT`).
    NoEvict = 1 << 1,
    /// Reads by this client do not update LRU and LFU (`CLIENT NO-TOUCH`).
    NoTouch = 1 << 2,
    /// Inside `MULTI`.
    Multi = 1 << 3,
    /// Watches keys, and one has changed or may have.
    Watching = 1 << 4,
    /// Came by a Unix socket.
    Unix = 1 << 5,
    /// Speaks RESP3.
    Resp3 = 1 << 6,
    /// Authenticated, or no password is set.
    Authenticated = 1 << 7,
    /// Has logged in, be it that it has logged out since.
    LoggedIn = 1 << 25,
    /// Held back by `CLIENT PAUSE`.
    Paused = 1 << 8,
    /// To be closed once its output is written.
    Closing = 1 << 9,
    /// Waits for a key.
    Blocked = 1 << 10,
    /// Is subscribed to a channel or a pattern.
    PubSub = 1 << 11,
    /// Is sent every command that is executed.
    Monitor = 1 << 12,
    /// Tracks keys (`CLIENT TRACKING`).
    Tracking = 1 << 20,
    /// Tracks keys by prefix (`CLIENT TRACKING … BCAST`).
    Broadcast = 1 << 21,
    /// The connection that receives its invalidations is gone.
    BrokenRedirect = 1 << 22,
    /// Receives, or received, invalidations of another connection.
    Redirected = 1 << 23,
    /// Removed by its worker.
    Gone = 1 << 24,
    /// Reads from replicas of a cluster (`READONLY`), in Valkey's dialect.
    ReadOnly = 1 << 14,
    /// Is not closed by the server (`DEBUG PROTECT-CLIENT`).
    Protected = 1 << 15,
    /// Understands redirections (`CLIENT CAPA redirect`).
    Redirectable = 1 << 13,
    /// Imports data (`CLIENT IMPORT-SOURCE`).
    Importer = 1 << 16,
    /// Follows this server (`PSYNC`).
    Replica = 1 << 18,
    /// Has said something of itself as a replica does (`REPLCONF`).
    Handshake = 1 << 19,
    /// The link to the server that is followed; no worker's.
    Primary = 1 << 26,
    /// In its worker's list of connections receiving a large argument.
    Filling = 1 << 17,
}

/// Connections that get pushes: one with none of these flags gets none.
const LISTENERS: u32 =
    Flag::PubSub as u32 | Flag::Monitor as u32 | Flag::Tracking as u32 | Flag::Redirected as u32;

/// Bytes of a worker's own state of an idle connection (`Conn`, which asserts it).
pub(crate) const CONN_BYTES: usize = 48;

/// Bytes of an idle connection: its worker's state and the shared state.
pub const CONNECTION_BYTES: usize = CONN_BYTES + size_of::<Client>();

/// Index of a command before the first.
pub const NO_COMMAND: u16 = u16::MAX;

/// The public side of a connection. Its worker writes the figures, relaxed; anyone reads them.
pub struct Client {
    /// Number of the connection, never reused.
    pub id: u64,
    /// Slot in its worker's driver.
    pub slot: Slot,
    /// The worker that serves it.
    pub worker: u16,
    /// Number of the selected database.
    pub db: AtomicU16,
    /// Registry index of the last command, or [`NO_COMMAND`].
    pub last_command: AtomicU16,
    /// Bits of [`Flag`].
    pub flags: AtomicU32,
    /// Seconds since the server's start at which it connected, and at which it last sent
    /// something.
    pub connected_at: u32,
    /// See `connected_at`.
    pub active_at: AtomicU32,
    /// Commands queued for `EXEC`; -1 outside `MULTI`.
    pub queued: AtomicI32,
    /// Keys watched.
    pub watching: AtomicU32,
    /// Bytes of input that wait for the rest of their command.
    pub input_bytes: AtomicU32,
    /// Bytes of output that the peer has not taken; what does not fit is shown as the most that
    /// does.
    pub output_bytes: AtomicU32,
    /// Bytes of the arguments queued for `EXEC`.
    pub queued_bytes: AtomicU32,
    /// Descriptor of the socket; -1 if it is in a ring's own table.
    pub fd: i32,
    /// Bytes held in buffers, as counted in [`crate::observation::traffic::Traffic::buffered`].
    pub buffered: AtomicU32,
    /// Bytes received.
    pub received: AtomicU64,
    /// Bytes sent.
    pub sent: AtomicU64,
    /// Executed commands, except commands called by scripts.
    pub commands: AtomicU64,
    /// Commands of its scripts; no more than fit.
    pub nested: AtomicU32,
    /// Reads that brought whole commands; no more than fit.
    pub batches: AtomicU32,
    /// Both ends of a TCP connection; those of a Unix socket have no address.
    ends: Option<Box<Ends>>,
    labels: OnceBox<Mutex<Labels>>,
}

/// The other end and this one.
struct Ends {
    peer: Endpoint,
    local: Endpoint,
}

/// With its two counts a client fills two cache lines.
const _: () = assert!(size_of::<Client>() <= 112);

/// Subscriptions of a client, as shown to other threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subscribed {
    /// Names of each [`crate::state::pubsub::ChannelKind`].
    pub counts: [u32; 3],
    /// Bytes that the subscriptions take.
    pub bytes: usize,
}

/// State that few clients have: library names and subscriptions.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// `CLIENT SETNAME`.
    pub name: Vec<u8>,
    /// `CLIENT SETINFO LIB-NAME`.
    pub lib_name: Vec<u8>,
    /// `CLIENT SETINFO LIB-VER`.
    pub lib_version: Vec<u8>,
    /// Subscriptions.
    pub subscribed: Subscribed,
    /// The user that it has logged in as, if that is not the default user.
    pub user: Option<Arc<User>>,
}

impl Client {
    /// A connection that has just been adopted.
    pub fn new(
        id: u64,
        worker: u16,
        slot: Slot,
        now: u32,
        fd: i32,
        peer: Endpoint,
        local: Endpoint,
    ) -> Self {
        let unix = peer == Endpoint::Unix;
        Client {
            id,
            slot,
            worker,
            db: AtomicU16::new(0),
            last_command: AtomicU16::new(NO_COMMAND),
            flags: AtomicU32::new(if unix { Flag::Unix as u32 } else { 0 }),
            connected_at: now,
            active_at: AtomicU32::new(now),
            queued: AtomicI32::new(-1),
            watching: AtomicU32::new(0),
            input_bytes: AtomicU32::new(0),
            output_bytes: AtomicU32::new(0),
            queued_bytes: AtomicU32::new(0),
            fd,
            buffered: AtomicU32::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            ends: (!unix).then(|| Box::new(Ends { peer, local })),
            nested: AtomicU32::new(0),
            batches: AtomicU32::new(0),
            labels: OnceBox::new(),
        }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.load(Relaxed) & flag as u32 != 0
    }

    /// Whether the connection gets pushes.
    #[inline]
    pub fn listens(&self) -> bool {
        self.flags.load(Relaxed) & LISTENERS != 0
    }

    /// Whether it listens or is to be closed: then something is to be done before it is served.
    #[inline]
    pub(crate) fn needs_care(&self) -> bool {
        self.flags.load(Relaxed) & (LISTENERS | Flag::Killed as u32) != 0
    }

    /// Sets or clears a flag.
    pub fn set(&self, flag: Flag, on: bool) {
        if on {
            self.flags.fetch_or(flag as u32, Relaxed);
        } else {
            self.flags.fetch_and(!(flag as u32), Relaxed);
        }
    }

    /// Returns the labels.
    pub fn labels(&self) -> Labels {
        self.labels.get().map(|labels| labels.lock().clone()).unwrap_or_default()
    }

    /// Bytes that its name and its library's take, which are counted as used memory.
    pub fn label_bytes(&self) -> usize {
        self.labels.get().map_or(0, |labels| {
            let labels = labels.lock();
            labels.name.capacity() + labels.lib_name.capacity() + labels.lib_version.capacity()
        })
    }

    /// Changes the labels.
    pub fn relabel(&self, change: impl FnOnce(&mut Labels)) {
        change(&mut self.labels.get_or_init(Box::default).lock());
    }

    /// Returns the subscriptions.
    pub fn subscribed(&self) -> Subscribed {
        self.labels.get().map(|labels| labels.lock().subscribed).unwrap_or_default()
    }

    /// Sets the subscriptions.
    pub fn show_subscriptions(&self, subscribed: Subscribed) {
        self.relabel(|labels| labels.subscribed = subscribed);
    }

    /// The user that it has logged in as, if that is not the default user.
    pub fn user(&self) -> Option<Arc<User>> {
        self.labels.get()?.lock().user.clone()
    }

    /// Shows the user that it has logged in as; none: the default user.
    pub fn show_user(&self, user: Option<Arc<User>>) {
        if user.is_some() || self.labels.get().is_some() {
            self.relabel(|labels| labels.user = user);
        }
    }

    /// Forgets its name (`RESET`); the library that it said it uses is the same still.
    pub fn unname(&self) {
        if let Some(labels) = self.labels.get() {
            labels.lock().name = Vec::new();
        }
    }

    /// Memory of the connection: its state, labels and buffers.
    pub fn memory(&self) -> u64 {
        let labels = self
            .labels
            .get()
            .map_or(0, |labels| size_of::<Mutex<Labels>>() + labels.lock().subscribed.bytes);
        (CONNECTION_BYTES + labels + self.label_bytes()) as u64
            + u64::from(self.buffered.load(Relaxed))
    }

    /// Counts commands that it has executed, and that its scripts have; they came in one read, if
    /// any did.
    pub fn count(&self, commands: u64, nested: u64) {
        self.commands.store(self.commands.load(Relaxed) + commands, Relaxed);
        if nested > 0 {
            let nested = u64::from(self.nested.load(Relaxed)) + nested;
            self.nested.store(u32::try_from(nested).unwrap_or(u32::MAX), Relaxed);
        }
        if commands > 0 {
            self.batches.store(self.batches.load(Relaxed).saturating_add(1), Relaxed);
        }
    }

    /// Says how much output the peer has not taken.
    pub fn show_output(&self, bytes: usize) {
        self.output_bytes.store(u32::try_from(bytes).unwrap_or(u32::MAX), Relaxed);
    }

    /// The other end.
    pub fn peer(&self) -> &Endpoint {
        self.ends.as_ref().map_or(&Endpoint::Unix, |ends| &ends.peer)
    }

    /// This end.
    pub fn local(&self) -> &Endpoint {
        self.ends.as_ref().map_or(&Endpoint::Unix, |ends| &ends.local)
    }

    /// Address of the peer as `CLIENT LIST` shows it.
    pub fn address(&self, socket_path: &str) -> String {
        match self.peer() {
            Endpoint::Unix => format!("{socket_path}:0"),
            peer => peer.to_string(),
        }
    }
}

/// Every connection of one worker by its slot, for the commands that name connections of any
/// worker. A list and no map, since tens of thousands of idle connections pay for it and few
/// commands look into it.
#[derive(Default)]
pub struct Clients {
    by_slot: Mutex<Vec<Option<Arc<Client>>>>,
}

impl Clients {
    /// Adds a connection.
    pub fn add(&self, client: &Arc<Client>) {
        let mut by_slot = self.by_slot.lock();
        let index = client.slot.index();
        if index >= by_slot.len() {
            by_slot.resize(index + 1, None);
        }
        by_slot[index] = Some(client.clone());
    }

    /// Removes a connection.
    pub fn remove(&self, client: &Client) {
        let mut by_slot = self.by_slot.lock();
        if let Some(place) = by_slot.get_mut(client.slot.index())
            && place.as_ref().is_some_and(|held| held.id == client.id)
        {
            *place = None;
        }
    }

    /// The connection of this number.
    pub fn find(&self, id: u64) -> Option<Arc<Client>> {
        self.by_slot.lock().iter().flatten().find(|client| client.id == id).cloned()
    }

    /// Number of connections for which `fits` returns true.
    pub fn count(&self, fits: impl Fn(&Client) -> bool) -> usize {
        self.by_slot.lock().iter().flatten().filter(|client| fits(client)).count()
    }

    /// All connections.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.by_slot.lock().iter().flatten().cloned().collect()
    }
}
