//! A network between servers of one process.

use petrel_cluster::{Identity, Node, SlotMap, View};
use petrel_server::cluster::{Backlogged, Event, Inbox, Link, MemberInfo, Transport};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The members of a cluster of so many.
pub fn identity(node: u16) -> Identity {
    Identity { node: Node(node), incarnation: 1 }
}

/// A view in which all members hold everything, each the same share of the slots as its primary.
pub fn view(epoch: u64, nodes: u16) -> Arc<View> {
    let orders: Vec<Vec<Node>> =
        (0..nodes).map(|first| (0..nodes).map(|at| Node((first + at) % nodes)).collect()).collect();
    let share = 16_384 / nodes + 1;
    let slots = SlotMap::collect(|slot| &orders[usize::from(slot / share)]);
    Arc::new(View { epoch, members: (0..nodes).map(identity).collect(), slots, incoming: None })
}

/// A view in which each slot has so many homes: its primary as above, and those behind it.
pub fn view_of_few(epoch: u64, nodes: u16, homes: u16) -> Arc<View> {
    let all = view(epoch, nodes);
    let slots = SlotMap::collect(|slot| &all.slots.homes(slot)[..usize::from(homes)]);
    let incoming = Some(SlotMap::collect(|_| &[]));
    Arc::new(View { slots, incoming, ..View::clone(&all) })
}

pub fn infos(nodes: u16) -> Arc<[MemberInfo]> {
    let info = |node| MemberInfo {
        identity: identity(node),
        id: format!("{node:040x}"),
        host: "127.0.0.1".into(),
        port: 0,
        bus_port: 0,
        holds_slots: true,
    };
    (0..nodes).map(info).collect()
}

/// A frame, when it is to arrive, and on which link it was sent.
type Sent = (Instant, u64, Vec<u8>);

/// One direction between two members.
struct Way {
    from: Identity,
    to: Identity,
    /// The link that frames are sent on; those of an earlier one are lost.
    link: AtomicU64,
    is_up: AtomicBool,
    queue: Mutex<Sender<Sent>>,
}

/// All of it.
pub struct Network {
    ways: HashMap<(u16, u16), Arc<Way>>,
    inboxes: Arc<OnceLock<Vec<Inbox>>>,
    delay: Duration,
    /// Held while something arrives, and while a link changes.
    gate: Arc<Mutex<()>>,
}

impl Network {
    /// A network whose frames take between no time and twice this.
    pub fn new(nodes: u16, delay: Duration) -> Arc<Self> {
        let (inboxes, gate): (Arc<OnceLock<Vec<Inbox>>>, Arc<Mutex<()>>) = Default::default();
        let mut ways = HashMap::new();
        for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
            let (sender, receiver) = channel();
            let way = Arc::new(Way {
                from: identity(from),
                to: identity(to),
                link: AtomicU64::new(0),
                is_up: AtomicBool::new(false),
                queue: Mutex::new(sender),
            });
            ways.insert((from, to), way.clone());
            let (inboxes, gate) = (inboxes.clone(), gate.clone());
            std::thread::spawn(move || carry(&way, &receiver, &inboxes, &gate));
        }
        Arc::new(Network { ways, inboxes, delay, gate })
    }

    /// All links come up.
    pub fn connect(&self, inboxes: Vec<Inbox>) {
        assert!(self.inboxes.set(inboxes).is_ok());
        let nodes = self.inboxes.get().unwrap().len() as u16;
        for (a, b) in (0..nodes).flat_map(|a| (0..a).map(move |b| (a, b))) {
            self.raise(a, b);
        }
    }

    /// The link between two members comes up.
    pub fn raise(&self, a: u16, b: u16) {
        let _held = self.gate.lock().unwrap();
        let both = [(a, b), (b, a)];
        both.iter().for_each(|way| self.ways[way].is_up.store(true, SeqCst));
        both.iter().for_each(|&(from, to)| self.tell(to, Event::LinkUp(self.link(from, to))));
    }

    /// The link between two members ends, with what is on its way.
    pub fn cut(&self, a: u16, b: u16) {
        let _held = self.gate.lock().unwrap();
        let both = [(a, b), (b, a)];
        both.iter().for_each(|way| self.ways[way].is_up.store(false, SeqCst));
        both.iter().for_each(|&(from, to)| self.tell(to, Event::LinkDown(self.link(from, to))));
        for way in &both {
            self.ways[way].link.fetch_add(1, SeqCst);
        }
    }

    /// The link as the receiver of this direction knows it.
    fn link(&self, from: u16, to: u16) -> Link {
        let number = self.ways[&(from, to)].link.load(SeqCst);
        Link { peer: identity(from), number }
    }

    /// Leaves an event for a member.
    pub fn tell(&self, to: u16, event: Event) {
        self.inboxes.get().unwrap()[usize::from(to)].leave(event);
    }
}

/// Delivers what is sent in one direction.
fn carry(way: &Way, sent: &Receiver<Sent>, inboxes: &OnceLock<Vec<Inbox>>, gate: &Mutex<()>) {
    while let Ok((due, link, bytes)) = sent.recv() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let _held = gate.lock().unwrap();
        if way.link.load(SeqCst) == link {
            let inbox = &inboxes.get().unwrap()[usize::from(way.to.node.0)];
            inbox.leave(Event::Frame(Link { peer: way.from, number: link }, bytes));
        }
    }
}

/// A member's side of the network.
pub struct Side {
    pub me: u16,
    pub network: Arc<Network>,
    pub random: Mutex<u64>,
}

impl Transport for Side {
    fn send(&self, link: Link, frame: Vec<u8>) -> Result<(), Backlogged> {
        let mut random = self.random.lock().unwrap();
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if *random >> 60 == 0 {
            return Err(Backlogged(frame));
        }
        let way = &self.network.ways[&(self.me, link.peer.node.0)];
        if way.is_up.load(SeqCst) {
            let delay = self.network.delay * (*random >> 56) as u32 / 128;
            let sent = (Instant::now() + delay, link.number, frame);
            let _ = way.queue.lock().unwrap().send(sent);
        }
        Ok(())
    }

    fn close(&self, link: Link) {
        panic!("member {} closes the link to {}", self.me, link.peer.node.0);
    }
}
