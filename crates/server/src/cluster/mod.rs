//! The server as a member of a cluster: its workers execute what has its home here and forward what
//! has not; a thread of its own holds the protocol (`petrel_cluster`) and speaks to other members.
//!
//! ```text
//!  worker    gate: forward ── RemoteCall ──▶ agent ── EXEC ──▶ ... other members
//!            reply slot ◀── mailbox ──────── agent ◀── effects, ANSWER
//!            commits: the sink puts them into lanes, and wakes the agent, which sends them
//!  fabric    views, links, frames ──────────▶ agent ── Transport::send
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `agent` | the thread: what comes in, what is sent |
//! | `deferred` | commands whose home is out of reach for a moment |
//! | `machine` | the executor of what other members forward |
//! | `shown` | what `CLUSTER INFO` and `CLUSTER NODES` say |

mod agent;
mod deferred;
mod machine;
mod shown;

use crate::client::Client;
use crate::server::Server;
use agent::{Agent, Task};
use parking_lot::Mutex;
use petrel_cluster::{ClusterNode, Identity, Limits, Node, OwnSlots, View, slot_of};
use petrel_commands::{Cluster, Fail, HashSlot, Home, RemoteCall, ServerState, Ticket};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

/// What waits for the agent at most: forwarded commands, frames, views.
const TASKS_MAX: usize = 16 * 1024;

/// What the transport could not take, since much is on its way already; it is offered again.
#[derive(Debug)]
pub struct Backlogged(pub Vec<u8>);

/// A link to a member from when it is up to when it is down. The next link to the same member is
/// another one, so that nothing that belongs to the former gets into it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link {
    /// The other side.
    pub peer: Identity,
    /// Grows with each link.
    pub number: u64,
}

/// The links to other members, as the agent sends on them.
pub trait Transport: Send {
    /// Sends bytes over a link, behind those that were sent before. Does not wait.
    ///
    /// # Errors
    /// If too much is on its way; nothing was taken then. What is sent over a link that has ended
    /// is dropped.
    fn send(&self, link: Link, frame: Vec<u8>) -> Result<(), Backlogged>;

    /// Closes the link to a member that has sent what does not belong there: another begins.
    fn close(&self, _link: Link) {}
}

/// A member as users see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MemberInfo {
    /// Which it is.
    pub identity: Identity,
    /// Its name: 40 hexadecimal digits.
    pub id: String,
    /// The address that clients reach it at.
    pub host: String,
    /// Its port for clients; 0 if there is none.
    pub port: u16,
    /// Its port for members.
    pub bus_port: u16,
}

/// What the members' side of the process tells the agent.
#[derive(Debug)]
pub enum Event {
    /// The view that follows the last, and its members.
    View(Arc<View>, Arc<[MemberInfo]>),
    /// There is a link to a member, in place of any before.
    LinkUp(Link),
    /// The link has ended.
    LinkDown(Link),
    /// Bytes have come on the link.
    Frame(Link, Vec<u8>),
}

/// Where events are left for the agent.
#[derive(Clone)]
pub struct Inbox(SyncSender<Task>);

impl Inbox {
    /// Leaves an event; waits while too many are left. False if the agent has ended.
    pub fn leave(&self, event: Event) -> bool {
        self.0.send(Task::Event(event)).is_ok()
    }
}

/// What the rest of the server knows of its cluster.
pub struct Membership {
    /// Who this is.
    pub identity: Identity,
    own: Arc<OwnSlots>,
    tasks: SyncSender<Task>,
    state: Mutex<State>,
    figures: Figures,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What changes with views and links.
#[derive(Clone)]
pub struct State {
    /// The number of this member.
    pub me: Node,
    /// The view that is in force here.
    pub view: Arc<View>,
    /// Its members.
    pub members: Arc<[MemberInfo]>,
    /// Members that there are links to.
    pub linked: Vec<Identity>,
}

/// Counted by the agent.
#[derive(Default)]
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
}

impl Membership {
    /// The view, its members, and those that are linked.
    pub fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// What the agent has counted.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }
}

impl Cluster for Membership {
    fn slot_of(&self, key: &[u8]) -> HashSlot {
        slot_of(key)
    }

    fn home_of(&self, slot: HashSlot) -> Home {
        match self.own.home(slot) {
            None => Home::Changing,
            Some(home) if home == self.own.me() => Home::Here,
            Some(home) => Home::At(home.0),
        }
    }

    fn id(&self) -> String {
        let state = self.state.lock();
        let own = state.members.iter().find(|member| member.identity == self.identity);
        own.map(|member| member.id.clone()).unwrap_or_default()
    }

    fn info(&self) -> String {
        shown::info(&self.state(), &self.figures)
    }

    fn nodes(&self) -> String {
        shown::nodes(&self.state(), self.identity)
    }

    fn forward(&self, client: &Ticket, seq: u64, call: RemoteCall) -> Result<(), Fail> {
        let Ok(client) = client.clone().downcast::<Client>() else {
            return Err(Fail::HOME_CHANGING);
        };
        let RemoteCall { slots, db, resp3, is_transaction, commands } = call;
        let call = petrel_cluster::Call { slots, db, resp3, is_transaction, commands };
        let task = Task::Forward { client, seq, call };
        self.tasks.try_send(task).map_err(|_| Fail::TOO_MUCH_FORWARDED)
    }
}

/// Makes a server a member of a cluster, from a view on that all members have begun with, or that
/// has brought this member. No client is served before.
///
/// # Errors
/// If it is a member already, or the system allows no thread.
pub fn start(
    server: &Arc<Server>,
    identity: Identity,
    (view, members): (Arc<View>, Arc<[MemberInfo]>),
    transport: Box<dyn Transport>,
) -> io::Result<Inbox> {
    let (sender, tasks) = mpsc::sync_channel(TASKS_MAX);
    let node = ClusterNode::new(identity, View::clone(&view), Limits::default());
    let wake = sender.clone();
    // If it is full the agent is awake.
    node.lanes().wake_by(move || drop(wake.try_send(Task::Wake)));
    let membership = Arc::new(Membership {
        identity,
        own: node.own_slots(),
        tasks: sender.clone(),
        state: Mutex::new(State { me: identity.node, view, members, linked: Vec::new() }),
        figures: Figures::default(),
        thread: Mutex::default(),
    });
    if server.cluster.set(membership.clone()).is_err() {
        return Err(io::Error::other("the server is a member of a cluster already"));
    }
    let (server, own) = (server.clone(), membership.clone());
    let (joined, has_joined) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("petrel-cluster".into()).spawn(move || {
        let mut agent = Agent::new(&server, own, (node, tasks), transport);
        agent.join(&server);
        drop(server);
        let _ = joined.send(());
        agent.run();
    })?;
    *membership.thread.lock() = Some(thread);
    match has_joined.recv() {
        Ok(()) => Ok(Inbox(sender)),
        Err(_) => Err(io::Error::other("the thread of the cluster has ended")),
    }
}

impl Server {
    /// Waits for the end of the agent, once the server is stopping.
    pub(crate) fn end_cluster(&self) {
        let Some(membership) = self.cluster.get() else { return };
        let _ = membership.tasks.try_send(Task::Wake);
        if let Some(thread) = membership.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the cluster has ended by a panic");
        }
    }
}

/// Lets the gate know of the cluster; everything is held.
fn show_to_gate(server: &Server, membership: Arc<Membership>) {
    let _ = server.commands.cluster.set(membership);
    server.commands.set_state(ServerState::Clustered, true);
}

fn count(figure: &AtomicU64, more: usize) {
    figure.fetch_add(more as u64, Relaxed);
}
