//! A network between servers of one process.

use petrel_cluster::{Identity, Node, SlotMap, View};
use petrel_server::cluster::{
    ClientAddress, Event, Inbox, Link, MemberInfo, Pipe, Role, Transport,
};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Identity of a member.
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

/// A view with `homes` owners of each slot: its primary as above, and the following members.
pub fn view_of_few(epoch: u64, nodes: u16, homes: u16) -> Arc<View> {
    let all = view(epoch, nodes);
    let slots = SlotMap::collect(|slot| &all.slots.owners(slot)[..usize::from(homes)]);
    let incoming = Some(SlotMap::collect(|_| &[]));
    Arc::new(View { slots, incoming, ..View::clone(&all) })
}

pub fn infos(nodes: u16) -> Arc<[MemberInfo]> {
    let info = |node| MemberInfo {
        identity: identity(node),
        id: format!("{node:040x}"),
        client: ClientAddress { host: "127.0.0.1".into(), port: 0, ..ClientAddress::default() },
        bus_port: 0,
        role: Role::Data,
        holds_slots: true,
    };
    (0..nodes).map(info).collect()
}

/// Bytes, when they are to arrive, and on which link they were sent.
type Sent = (Instant, u64, Vec<u8>);

/// A direction of the link between two members.
struct Way {
    to: Identity,
    /// The link that bytes are sent on; those of an earlier one are lost.
    link: AtomicU64,
    queue: Mutex<Sender<Sent>>,
    /// Bytes that have arrived and were not taken.
    arrived: Mutex<Vec<u8>>,
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
    /// Creates a network with delays between zero and twice `delay`.
    pub fn new(nodes: u16, delay: Duration) -> Arc<Self> {
        let (inboxes, gate): (Arc<OnceLock<Vec<Inbox>>>, Arc<Mutex<()>>) = Default::default();
        let mut ways = HashMap::new();
        for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
            let (sender, receiver) = channel();
            let way = Arc::new(Way {
                to: identity(to),
                link: AtomicU64::new(0),
                queue: Mutex::new(sender),
                arrived: Mutex::default(),
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
        for (from, to) in [(a, b), (b, a)] {
            let link = self.link(from, to);
            let (there, back) = (self.ways[&(to, from)].clone(), self.ways[&(from, to)].clone());
            let random = link.number * 2 + u64::from(from < to) + 1;
            let (number, delay) = (link.number, self.delay);
            let pipe = Ends { there, back, number, delay, random, kept: Vec::new() };
            self.tell(to, Event::LinkUp(link, Box::new(pipe)));
        }
    }

    /// Breaks the link between two members, dropping bytes on their way.
    pub fn cut(&self, a: u16, b: u16) {
        let _held = self.gate.lock().unwrap();
        let both = [(a, b), (b, a)];
        both.iter().for_each(|&(from, to)| self.tell(to, Event::LinkDown(self.link(from, to))));
        for way in &both {
            self.ways[way].link.fetch_add(1, SeqCst);
            self.ways[way].arrived.lock().unwrap().clear();
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

/// Delivers bytes sent in one direction.
fn carry(way: &Way, sent: &Receiver<Sent>, inboxes: &OnceLock<Vec<Inbox>>, gate: &Mutex<()>) {
    while let Ok((due, link, bytes)) = sent.recv() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let _held = gate.lock().unwrap();
        if way.link.load(SeqCst) == link {
            way.arrived.lock().unwrap().extend(bytes);
            inboxes.get().unwrap()[usize::from(way.to.node.0)].wake();
        }
    }
}

/// A member's end of a link.
struct Ends {
    there: Arc<Way>,
    back: Arc<Way>,
    number: u64,
    delay: Duration,
    random: u64,
    /// Bytes that could not be sent yet.
    kept: Vec<u8>,
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link {} to {:?}", self.number, self.there.to)
    }
}

impl Ends {
    /// A number below 256.
    fn draw(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 56) as u32
    }

    /// Sends some of the kept bytes, if the link takes bytes now.
    fn send_some(&mut self) {
        let (count, delay) = (self.draw(), self.delay * self.draw() / 128);
        // Often everything, sometimes a part, and now and then nothing.
        let len = match count {
            0..16 => 0,
            16..32 => self.kept.len() * count as usize / 32,
            _ => self.kept.len(),
        };
        let bytes: Vec<u8> = self.kept.drain(..len).collect();
        let sent = (Instant::now() + delay, self.number, bytes);
        let _ = self.there.queue.lock().unwrap().send(sent);
    }
}

impl Pipe for Ends {
    fn receive(&mut self, into: &mut Vec<u8>, _: usize) -> io::Result<bool> {
        let mut arrived = self.back.arrived.lock().unwrap();
        if self.back.link.load(SeqCst) != self.number {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        into.append(&mut arrived);
        Ok(false)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.kept.extend_from_slice(bytes);
        self.send_some();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_some();
        Ok(())
    }

    fn is_blocked(&self) -> bool {
        !self.kept.is_empty()
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A member's side of the network.
pub struct Side {
    pub me: u16,
}

impl Transport for Side {
    fn close(&self, link: Link) {
        panic!("member {} closes the link to {}", self.me, link.peer.node.0);
    }
}
