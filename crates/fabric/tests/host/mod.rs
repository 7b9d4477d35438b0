//! Host that records its events.

#![allow(dead_code)]

use parking_lot::Mutex;
use petrel_cluster::{Identity, SLOTS, SlotSet, View};
use petrel_fabric::{
    Connection, Copies, Events, Fabric, Level, Link, MemberInfo, Role, Settings, Start, StartError,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Recorded event.
#[derive(Clone, Debug)]
pub enum Seen {
    Admitted(Identity, Arc<View>),
    View(Arc<View>),
    Expelled,
    Up(Link),
    Down(Link),
    Bytes(Link, Vec<u8>),
    Log(String),
}

#[derive(Clone, Default)]
pub struct Notes {
    pub seen: Arc<Mutex<Vec<Seen>>>,
    /// Connections of open links.
    connections: Arc<Mutex<BTreeMap<Link, Connection>>>,
}

impl Notes {
    fn note(&self, seen: Seen) {
        self.seen.lock().push(seen);
    }

    /// Closes a link.
    pub fn end(&self, link: Link) {
        self.connections.lock().remove(&link);
    }

    /// Receives from all links.
    pub fn receive(&self) {
        let mut connections = self.connections.lock();
        connections.retain(|&link, connection| {
            let mut bytes = Vec::new();
            let received = connection.receive(&mut bytes, usize::MAX);
            if !bytes.is_empty() {
                self.note(Seen::Bytes(link, bytes));
            }
            received.is_ok() && connection.flush().is_ok()
        });
    }

    /// Sends bytes over a link; false if it has ended, none if it is blocked.
    pub fn send(&self, link: Link, bytes: &[u8]) -> Option<bool> {
        let mut connections = self.connections.lock();
        let Some(connection) = connections.get_mut(&link) else { return Some(false) };
        if connection.is_blocked() && connection.flush().is_ok() && connection.is_blocked() {
            return None;
        }
        Some(connection.send(bytes).is_ok())
    }
}

impl Events for Notes {
    fn admitted(&mut self, own: Identity, view: Arc<View>, members: Arc<[MemberInfo]>) {
        assert_eq!(members.len(), view.members.len());
        self.note(Seen::Admitted(own, view));
    }

    fn view(&mut self, view: Arc<View>, members: Arc<[MemberInfo]>) {
        assert_eq!(members.len(), view.members.len());
        self.note(Seen::View(view));
    }

    fn expelled(&mut self) {
        self.note(Seen::Expelled);
    }

    fn link_up(&mut self, connection: Connection) {
        self.note(Seen::Up(connection.link()));
        self.connections.lock().insert(connection.link(), connection);
    }

    fn link_down(&mut self, link: Link) {
        let mut connections = self.connections.lock();
        connections.remove(&link);
        self.note(Seen::Down(link));
    }

    fn log(&mut self, _: Level, line: String) {
        self.note(Seen::Log(line));
    }
}

/// Temporary directory, removed with its last owner.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("petrel-fabric-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Arc::new(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Builder of a node's settings.
#[derive(Clone)]
pub struct Setup {
    settings: Settings,
    directory: Arc<Directory>,
}

impl Setup {
    fn new(start: Start) -> Self {
        let directory = Directory::new();
        let settings = Settings {
            name: "test".into(),
            passphrase: Zeroizing::new("secret".into()),
            previous_passphrase: None,
            start,
            bind: ([127, 0, 0, 1], 0).into(),
            announced: None,
            client_address: "127.0.0.1:7000".into(),
            role: Role::Data,
            zone: String::new(),
            copies: Copies::All,
            node_timeout: Duration::from_secs(3),
            directory: directory.0.clone(),
            waits_for_data: false,
            reports_extents: false,
            acknowledge: 2,
        };
        Setup { settings, directory }
    }

    pub fn create() -> Self {
        Setup::new(Start::Create)
    }

    pub fn join(hosts: &[&Host]) -> Self {
        Setup::new(Start::Join(hosts.iter().map(|host| host.fabric().info().announced).collect()))
    }

    pub fn join_by_name(hosts: &[&Host]) -> Self {
        let named = hosts.iter().map(|host| {
            let address = host.fabric().info().announced;
            address.replace("127.0.0.1", "localhost")
        });
        Setup::new(Start::Join(named.collect()))
    }

    pub fn join_names(names: &[&str]) -> Self {
        Setup::new(Start::Join(names.iter().map(ToString::to_string).collect()))
    }

    pub fn now_join_names(self, names: &[&str]) -> Self {
        let start = Setup::join_names(names).settings.start;
        Setup { settings: Settings { start, ..self.settings }, ..self }
    }

    pub fn now_join(self, hosts: &[&Host]) -> Self {
        let start = Setup::join(hosts).settings.start;
        Setup { settings: Settings { start, ..self.settings }, ..self }
    }

    pub fn cluster_name(mut self, name: &str) -> Self {
        self.settings.name = name.into();
        self
    }

    pub fn passphrase(mut self, passphrase: &str) -> Self {
        self.settings.passphrase = Zeroizing::new(passphrase.into());
        self.settings.previous_passphrase = None;
        self
    }

    pub fn previous_passphrase(mut self, passphrase: &str) -> Self {
        self.settings.previous_passphrase = Some(Zeroizing::new(passphrase.into()));
        self
    }

    pub fn copies(mut self, copies: Copies) -> Self {
        self.settings.copies = copies;
        self
    }

    pub fn role(mut self, role: Role) -> Self {
        self.settings.role = role;
        self
    }

    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.settings.node_timeout = timeout;
        self
    }

    pub fn waits_for_data(mut self) -> Self {
        self.settings.waits_for_data = true;
        self
    }

    pub fn listens_at(mut self, bind: std::net::SocketAddr, announced: String) -> Self {
        self.settings.bind = bind;
        self.settings.announced = Some(announced);
        self
    }

    /// Starts a node with a copy of the directory.
    pub fn copy_of_directory(&self) -> Self {
        let directory = Directory::new();
        for file in ["node.key", "raft.redb"] {
            let from = self.directory.0.join(file);
            std::fs::copy(from, directory.0.join(file)).expect("it can be copied");
        }
        let settings = Settings { directory: directory.0.clone(), ..self.settings.clone() };
        Setup { settings, directory }
    }

    pub fn try_start(self) -> Result<Host, StartError> {
        let notes = Notes::default();
        let fabric = Fabric::start(self.settings.clone(), Box::new(notes.clone()))?;
        Ok(Host { notes, fabric, setup: self })
    }

    pub fn start(self) -> Host {
        self.try_start().expect("it starts")
    }
}

/// A node and its recorded events.
pub struct Host {
    pub notes: Notes,
    fabric: Fabric,
    setup: Setup,
}

impl Host {
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    pub fn setup(&self) -> Setup {
        self.setup.clone()
    }

    /// The last view, while the node is a member.
    pub fn view(&self) -> Option<Arc<View>> {
        let mut view = None;
        for seen in self.notes.seen.lock().iter() {
            match seen {
                Seen::Admitted(_, next) | Seen::View(next) => view = Some(next.clone()),
                Seen::Expelled => view = None,
                _ => {}
            }
        }
        view
    }

    pub fn identity(&self) -> Identity {
        self.fabric.info().own.expect("it is a member")
    }

    /// Reports all imports of the last view as complete.
    pub fn report_arrivals(&self) {
        let (Some(view), Some(own)) = (self.view(), self.fabric.info().own) else { return };
        let is_incoming = |slot: &u16| view.incoming(*slot).contains(&own.node);
        let slots: SlotSet = (0..SLOTS).filter(is_incoming).collect();
        if !slots.is_empty() {
            self.fabric.arrived(own, view.epoch, &slots);
        }
    }

    pub fn wait_until_member(&self) {
        wait_for("membership", || self.view().is_some());
    }

    pub fn wait_for_line(&self, part: &str) {
        let says = |seen: &Seen| matches!(seen, Seen::Log(line) if line.contains(part));
        wait_for(part, || self.notes.seen.lock().iter().any(says));
    }

    /// Stops the node at once, like a crash.
    pub fn die(self) -> Setup {
        self.setup
    }

    /// Like `die`, but returns the builder for a restart at the same bus address.
    pub fn die_in_place(self) -> Setup {
        let address = self.fabric.info().announced;
        let bind = address.parse().expect("an address");
        self.setup.listens_at(bind, address)
    }

    pub fn leave(self) {
        self.fabric.leave();
        wait_for("the end", || self.fabric.has_ended());
    }

    /// The views that it was shown, by incarnation.
    fn lives(&self) -> Vec<Vec<Arc<View>>> {
        let mut lives: Vec<Vec<Arc<View>>> = Vec::new();
        for seen in self.notes.seen.lock().iter() {
            match seen {
                Seen::Admitted(own, view) => {
                    assert_eq!(view.member(own.node), Some(*own));
                    lives.push(vec![view.clone()]);
                }
                Seen::View(view) => lives.last_mut().expect("admitted").push(view.clone()),
                _ => {}
            }
        }
        lives
    }
}

/// Waits for a condition.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "no {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a cluster of `count` members with the same last view.
pub fn cluster(count: usize) -> Vec<Host> {
    let mut hosts = vec![Setup::create().start()];
    hosts[0].wait_until_member();
    for _ in 1..count {
        let joiner = Setup::join(&[&hosts[0]]).start();
        hosts.push(joiner);
    }
    is_visible(&hosts.iter().collect::<Vec<&Host>>(), count);
    hosts
}

/// Waits until all hosts have the same view of `count` members.
pub fn is_visible(hosts: &[&Host], count: usize) {
    let start = Instant::now();
    loop {
        let views: Vec<Option<Arc<View>>> = hosts.iter().map(|host| host.view()).collect();
        let own: Vec<Option<Identity>> =
            hosts.iter().map(|host| host.fabric().info().own).collect();
        let is_whole = |view: &Option<Arc<View>>| {
            view.as_ref().is_some_and(|view| {
                let is_in =
                    |own: &Option<Identity>| own.is_some_and(|own| view.members.contains(&own));
                view.members.len() == count && own.iter().all(is_in)
            })
        };
        if views.iter().all(is_whole) && views.windows(2).all(|pair| pair[0] == pair[1]) {
            return;
        }
        if start.elapsed() > Duration::from_secs(60) {
            for host in hosts {
                eprintln!("{:#?}", host.fabric().info());
                for seen in host.notes.seen.lock().iter() {
                    match seen {
                        Seen::Admitted(own, view) => eprintln!("{own:?} from {} on", view.epoch),
                        Seen::View(view) => eprintln!("view {}", view.epoch),
                        other => eprintln!("{other:?}"),
                    }
                }
            }
            panic!("no common view of {count} members");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until each knows the number of voters.
pub fn wait_for_voters(hosts: &[impl std::borrow::Borrow<Host>]) {
    for host in hosts.iter().map(std::borrow::Borrow::borrow) {
        wait_for("votes", || Host::fabric(host).info().voters == hosts.len());
    }
}

/// Checks that all hosts saw the same views, consecutively.
pub fn check_views(hosts: &[&Host]) {
    let mut by_epoch: BTreeMap<u64, Arc<View>> = BTreeMap::new();
    for life in hosts.iter().flat_map(|host| host.lives()) {
        for pair in life.windows(2) {
            assert_eq!(pair[0].epoch + 1, pair[1].epoch);
        }
        for view in life {
            let known = by_epoch.entry(view.epoch).or_insert_with(|| view.clone());
            assert_eq!(*known, view, "views of one epoch differ");
        }
    }
}
