//! A cluster of servers in this process, and its clients.

use crate::network::{Network, Side, identity, infos, view, view_of_few};
use crate::tally;
use petrel_cluster::{Node, SlotMap, View};
use petrel_resp::{DecodeLimits, Value, decode, encode_command};
use petrel_server::Running;
use petrel_server::cluster::{Event, Inbox, start as join};
use petrel_server::config::{Config, SavePoints, SharedConfig};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Timeout of any wait in these tests, generous enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Members of a cluster.
pub struct Members {
    pub network: Arc<Network>,
    running: Vec<Running>,
    inboxes: Vec<Inbox>,
    dir: PathBuf,
}

impl Members {
    /// Starts `nodes` members; a frame takes about `delay`.
    pub fn start(nodes: u16, delay: Duration) -> Self {
        Self::start_in(view(1, nodes), nodes, delay, 0)
    }

    /// Starts members with `homes` owners of each slot.
    pub fn start_few(nodes: u16, homes: u16, delay: Duration) -> Self {
        Self::start_in(view_of_few(1, nodes, homes), nodes, delay, 0)
    }

    /// Starts members, the first `logged` of them with a log; all own every slot if `homes` equals
    /// `nodes`.
    pub fn start_logged(nodes: u16, homes: u16, logged: u16) -> Self {
        let view = if homes < nodes { view_of_few(1, nodes, homes) } else { view(1, nodes) };
        Self::start_in(view, nodes, Duration::from_micros(500), logged)
    }

    /// Starts members with this view.
    pub fn start_view(view: Arc<View>, delay: Duration) -> Self {
        let nodes = view.members.len() as u16;
        Self::start_in(view, nodes, delay, 0)
    }

    fn start_in(view: Arc<View>, nodes: u16, delay: Duration, logged: u16) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("petrel-cluster-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        let network = Network::new(nodes, delay);
        let (mut running, mut inboxes) = (Vec::new(), Vec::new());
        for node in 0..nodes {
            let home = dir.join(node.to_string());
            std::fs::create_dir(&home).unwrap();
            let config = Config {
                port: 0,
                unixsocket: Some(home.join("s")),
                threads: 2,
                save: SavePoints::default(),
                appenddirname: home.join("log").to_str().unwrap().into(),
                dir: home,
                appendonly: node < logged,
                ..Config::default()
            };
            let config = Arc::new(SharedConfig::new(config, None));
            let started = tally::start(config);
            // An empty log is loaded, too.
            while started.server.commands.is_loading() {
                if started.server.is_stopping() {
                    panic!("{:?}", started.wait().err());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let begin = (view.clone(), infos(nodes));
            let side = Box::new(Side { me: node });
            inboxes.push(join(&started.server, identity(node), begin, side).unwrap());
            running.push(started);
        }
        network.connect(inboxes.clone());
        Members { network, running, inboxes, dir }
    }

    /// A client of a member.
    pub fn client(&self, node: u16) -> Client {
        connect(&self.dir.join(format!("{node}/s")))
    }

    /// Waits until a member answers this.
    pub fn await_reply(&self, node: u16, command: &str, reply: &Value) {
        let (mut client, since) = (self.client(node), Instant::now());
        while client.call(command) != *reply {
            assert!(since.elapsed() < PATIENCE, "{command} at {node} does not answer {reply:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until a member answers a text that holds this.
    pub fn await_text(&self, node: u16, command: &str, part: &str) {
        let (mut client, since) = (self.client(node), Instant::now());
        loop {
            let (Value::Bulk(text) | Value::Verbatim { text, .. }) = client.call(command) else {
                panic!("{command} answers no text");
            };
            if String::from_utf8_lossy(&text).contains(part) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{command} at {node} does not say {part}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The figures of a member.
    pub fn membership(&self, node: u16) -> &petrel_server::cluster::Membership {
        self.inboxes[usize::from(node)].membership()
    }

    /// Waits until a member has this number of links.
    pub fn await_links(&self, node: u16, links: usize) {
        let since = Instant::now();
        while self.membership(node).state().linked.len() != links {
            assert!(since.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for running in self.running.drain(..) {
            running.server.stop();
            let ended = running.wait();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A client of the server with this socket.
pub fn connect(socket: &Path) -> Client {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Client { stream, input: Vec::new() }
}

/// A client's connection.
pub struct Client {
    pub stream: UnixStream,
    input: Vec<u8>,
}

impl Client {
    /// Sends commands, each of words, without waiting for replies.
    pub fn send(&mut self, commands: &[String]) {
        self.stream.write_all(&encoded(commands)).unwrap();
    }

    /// The next reply.
    pub fn reply(&mut self) -> Value {
        let mut bytes = [0; 64 * 1024];
        loop {
            if let Some((value, len)) = decode(&self.input, &DecodeLimits::default()).unwrap() {
                self.input.drain(..len);
                return value;
            }
            let len = match self.stream.read(&mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.expect("a reply"),
            };
            assert!(len > 0, "the connection is closed");
            self.input.extend_from_slice(&bytes[..len]);
        }
    }

    /// Whether a reply comes within a while.
    pub fn is_silent(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let read = self.stream.read(&mut [0; 1]);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        read.is_err()
    }

    /// Calls a command of words.
    pub fn call(&mut self, command: &str) -> Value {
        self.send(&[command.into()]);
        self.reply()
    }

    /// Sends commands on a thread of its own, while their replies are read.
    pub fn pipeline(&mut self, commands: &[String]) -> Vec<Value> {
        let bytes = encoded(commands);
        let mut stream = self.stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || stream.write_all(&bytes).unwrap());
        let replies = commands.iter().map(|_| self.reply()).collect();
        writer.join().unwrap();
        replies
    }
}

pub fn encoded(commands: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        encode_command(&words, &mut bytes);
    }
    bytes
}

/// A key with this member as its primary, in a cluster of `nodes`.
pub fn key_at(node: u16, nodes: u16, name: &str) -> String {
    let share = 16_384 / nodes + 1;
    let of = |tag: &u32| petrel_cluster::slot_of(format!("{{{name}{tag}}}").as_bytes()) / share;
    let tag = (0..).find(|tag| of(tag) == node).unwrap();
    format!("{{{name}{tag}}}")
}

/// Lets each member order the slots that another has ordered so far.
pub fn turn(members: &Members, nodes: u16, epoch: u64) {
    let orders: Vec<Vec<Node>> = (0..nodes)
        .map(|first| (0..nodes).map(|at| Node((first + at + epoch as u16 - 1) % nodes)).collect())
        .collect();
    let share = 16_384 / nodes + 1;
    let slots = SlotMap::collect(|slot| &orders[usize::from(slot / share)]);
    let next = Arc::new(View { slots, ..View::clone(&view(epoch, nodes)) });
    for node in 0..nodes {
        members.network.tell(node, Event::View(next.clone(), infos(nodes)));
    }
}

pub fn ok() -> Value {
    Value::Simple("OK".into())
}

pub fn bulk(text: &str) -> Value {
    Value::Bulk(text.to_owned().into())
}

pub fn error(value: &Value) -> String {
    match value {
        Value::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?} is no error"),
    }
}
