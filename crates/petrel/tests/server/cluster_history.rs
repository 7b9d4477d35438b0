//! History checker: clients of a cluster record their operations while members and links fail; the
//! contents at the end must agree with the replies.
//!
//! ```text
//! clients (several per member)   operations, outcomes        ┐
//! faults, one after the other    inject - wait - heal - wait ├─> contents at rest, history::check
//! ```
//!
//! Needs network namespaces (root); without them the tests are skipped, which is printed.

use crate::cluster::{FOUND, await_service, call, join, scratch};
use crate::harness::{Client, Server, eventually, petrel, show};
use crate::history::{Contents, Kind, Object, Operation, Outcome, check};
use petrel_netbed::{Host, Network, Path};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time after which a silent member is taken for dead. A busy machine may not run a member for a
/// while.
const NODE_TIMEOUT: Duration = Duration::from_millis(6000);

/// Names of faults to inject in turn, separated by commas; `all` for each one that leaves members
/// alive.
const FAULTS: &str = "PETREL_TEST_FAULTS";

/// Further arguments of every member.
const ARGUMENTS: &str = "PETREL_TEST_ARGUMENTS";

/// Objects of each kind.
const OBJECTS: u32 = 24;

/// Clients of each member.
const CLIENTS: usize = 4;

/// Writes of each member's clients before a fault.
const WRITES: u64 = 300;

/// Longest time that a reply may take.
const REPLY: Duration = Duration::from_secs(25);

/// Failure of a part of the cluster.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// `SIGKILL`; the member is started again after it has been removed.
    Kill(usize),
    /// `SIGKILL`; the member is started again at once.
    Restart(usize),
    /// `SIGSTOP` for a part of a node timeout, in percent.
    Stop(usize, u32),
    /// No packet reaches the member or leaves it.
    Cut(usize),
    /// No packet leaves the member.
    Mute(usize),
    /// No packet reaches the member.
    Deaf(usize),
    /// No packet passes from one member to another.
    OneWay(usize, usize),
    /// `SIGKILL` of all; each is started again.
    KillAll,
}

impl Fault {
    /// The member that may be removed; none if the members are not to outlive the fault.
    fn member(self) -> Option<usize> {
        match self {
            Fault::Kill(member) | Fault::Restart(member) | Fault::Stop(member, _) => Some(member),
            Fault::Cut(member) | Fault::Mute(member) | Fault::Deaf(member) => Some(member),
            Fault::OneWay(member, _) => Some(member),
            Fault::KillAll => None,
        }
    }
}

/// Faults by name. Member 0 is the founder and the leader at first.
const ALL: [(&str, Fault); 14] = [
    ("kill-leader", Fault::Kill(0)),
    ("kill-member", Fault::Kill(1)),
    ("restart-member", Fault::Restart(2)),
    ("stop-short", Fault::Stop(1, 40)),
    ("stop-long", Fault::Stop(1, 250)),
    ("stop-leader", Fault::Stop(0, 250)),
    ("cut-member", Fault::Cut(2)),
    ("cut-leader", Fault::Cut(0)),
    ("mute-member", Fault::Mute(1)),
    ("mute-leader", Fault::Mute(0)),
    ("deaf-member", Fault::Deaf(1)),
    ("one-way", Fault::OneWay(1, 2)),
    ("away-long", Fault::Cut(1)),
    ("kill-all", Fault::KillAll),
];

/// Faults of the usual run.
const USUAL: &str = "kill-member,stop-long,cut-member,mute-leader";

struct Cluster {
    members: Vec<Server>,
    /// Arguments of each member.
    arguments: Vec<String>,
    network: Network,
    hosts: Vec<Host>,
}

impl Cluster {
    /// Starts members, each in a host of its own.
    fn start(size: usize, arguments: &str) -> Option<Cluster> {
        let network = Network::new(1);
        let (members, arguments_of, hosts) = (Vec::new(), Vec::new(), Vec::new());
        let mut cluster = Cluster { members, arguments: arguments_of, network, hosts };
        for number in 0..size {
            let host = match cluster.network.host() {
                Ok(host) => host,
                Err(error) => {
                    println!("skipped: {error}");
                    return None;
                }
            };
            let founded = cluster.members.first().map_or(FOUND.to_owned(), join);
            let own = founded.replace("127.0.0.1", &host.address().to_string());
            let timeout = NODE_TIMEOUT.as_millis();
            let own =
                format!("{own} --cluster-port 7000 --cluster-node-timeout {timeout} {arguments}");
            cluster.hosts.push(host);
            let server = cluster.run(number, scratch("secret"), &own);
            await_service(&server);
            cluster.members.push(server);
            cluster.arguments.push(own);
        }
        cluster.await_whole();
        Some(cluster)
    }

    fn run(&self, number: usize, scratch: crate::harness::Scratch, arguments: &str) -> Server {
        let arguments = arguments.to_owned();
        self.hosts[number].run(move || {
            let arguments: Vec<&str> = arguments.split(' ').collect();
            Server::start_by(petrel(&scratch), scratch, "epoll", &arguments)
        })
    }

    /// Waits until every member serves, and every slot has its copies.
    fn await_whole(&self) {
        let size = format!("cluster_size:{}\r\n", self.members.len());
        let copies = "cluster_slots_under_replicated:0\r\n";
        let parts = ["cluster_state:ok\r\n", &size, copies, "cluster_voters_missing:0\r\n"];
        for (number, member) in self.members.iter().enumerate() {
            let mut client = member.connect();
            let mut last = String::new();
            let begin = Instant::now();
            while !parts.iter().all(|part| last.contains(part)) {
                assert!(begin.elapsed() < Duration::from_secs(90), "member {number}: {last}");
                std::thread::sleep(Duration::from_millis(20));
                last = call(&mut client, "CLUSTER INFO");
            }
        }
    }

    /// Number of removals that members other than this one have reported.
    fn removals(&self, except: usize) -> usize {
        let others = self.members.iter().enumerate().filter(|(member, _)| *member != except);
        others.map(|(_, other)| other.output().matches("is down (incarnation").count()).sum()
    }

    fn kill(&mut self, member: usize) {
        self.members[member].signal(libc::SIGKILL);
        self.members[member].exit_code();
    }

    fn restart(&mut self, member: usize) {
        let ended = self.members.remove(member);
        let _ = std::fs::remove_file(ended.socket());
        let server = self.run(member, ended.into_scratch(), &self.arguments[member]);
        self.members.insert(member, server);
    }

    /// Waits until the other members have removed this one.
    fn await_removal(&self, member: usize) {
        let others = (0..self.members.len()).filter(|other| *other != member);
        let size = format!("cluster_size:{}\r\n", self.members.len() - 1);
        for other in others {
            let mut client = self.members[other].connect();
            eventually(&format!("member {other} has removed {member}"), || {
                call(&mut client, "CLUSTER INFO").contains(&size)
            });
        }
    }

    /// Lets a part fail, and heals it.
    fn inject(&mut self, name: &str, fault: Fault) {
        let all: Vec<usize> = (0..self.members.len()).collect();
        let cut = |network: &Network, from: &[usize], to: &[usize]| {
            for (from, to) in from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to))) {
                if from != to {
                    network.set_path(from, to, Path::CUT);
                }
            }
        };
        match fault {
            Fault::Kill(member) => {
                self.kill(member);
                self.await_removal(member);
                self.restart(member);
            }
            Fault::Restart(member) => {
                self.kill(member);
                self.restart(member);
            }
            Fault::KillAll => {
                all.iter().for_each(|member| self.kill(*member));
                all.iter().for_each(|member| self.restart(*member));
            }
            Fault::Stop(member, percent) => {
                self.members[member].signal(libc::SIGSTOP);
                std::thread::sleep(NODE_TIMEOUT * percent / 100);
                self.members[member].signal(libc::SIGCONT);
            }
            Fault::Cut(member) => {
                self.network.set_paths_between(&[member], Path::CUT);
                self.await_removal(member);
                if name == "away-long" {
                    std::thread::sleep(NODE_TIMEOUT * 20);
                }
            }
            Fault::Mute(member) => {
                cut(&self.network, &[member], &all);
                std::thread::sleep(NODE_TIMEOUT * 2);
            }
            Fault::Deaf(member) => {
                cut(&self.network, &all, &[member]);
                std::thread::sleep(NODE_TIMEOUT * 2);
            }
            Fault::OneWay(from, to) => {
                cut(&self.network, &[from], &[to]);
                std::thread::sleep(NODE_TIMEOUT * 3);
            }
        }
        self.network.set_all_paths(Path::default());
        self.await_whole();
    }

    /// Contents of all objects, and the second lists of pairs, read at a member.
    fn contents(&self, member: usize) -> (Contents, Contents) {
        let mut client = self.members[member].connect();
        let (mut contents, mut second) = (Contents::new(), Contents::new());
        for kind in Kind::ALL {
            for number in 0..OBJECTS {
                let object = Object { kind, number };
                let key = key_of(object);
                let mut elements = |command: String| -> Vec<u64> {
                    let reply = call(&mut client, &command);
                    let reply = reply.trim_matches(['[', ']']).replace("nil", "0");
                    let numbers = reply.split_whitespace().map(|one| one.parse());
                    numbers
                        .collect::<Result<_, _>>()
                        .unwrap_or_else(|_| panic!("{command}: {reply}"))
                };
                let mut content = match kind {
                    Kind::Counter | Kind::Register => elements(format!("GET {key}")),
                    Kind::Set => elements(format!("SMEMBERS {key}")),
                    Kind::Queue | Kind::Pair => elements(format!("LRANGE {key} 0 -1")),
                };
                // Each member has an order of its own.
                if kind == Kind::Set {
                    content.sort_unstable();
                }
                contents.insert(object, content);
                if kind == Kind::Pair {
                    second.insert(object, elements(format!("LRANGE {key}:second 0 -1")));
                }
            }
        }
        (contents, second)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.members.iter().for_each(|member| println!("{}", member.output()));
        }
    }
}

fn key_of(object: Object) -> String {
    format!("{:?}{{{}}}", object.kind, object.number)
}

/// Client that writes down what it does.
struct Recorder<'a> {
    number: usize,
    clients: usize,
    socket: PathBuf,
    connection: Option<Client>,
    random: u64,
    /// The last value written.
    value: u64,
    history: Vec<Operation>,
    progress: &'a Progress,
}

/// Progress of all clients of a member.
#[derive(Default)]
struct Progress {
    /// Number of writes executed.
    writes: AtomicU64,
    /// Time of the last one, and the longest time without one, in milliseconds.
    last: AtomicU64,
    pause: AtomicU64,
}

impl Progress {
    /// Notes a write executed at a time since the begin.
    fn note(&self, now: Duration) {
        let now = now.as_millis() as u64;
        let last = self.last.fetch_max(now, Relaxed);
        self.pause.fetch_max(now.saturating_sub(last), Relaxed);
    }

    fn take_pause(&self, now: Duration) -> u64 {
        self.note(now);
        self.pause.swap(0, Relaxed)
    }
}

impl Recorder<'_> {
    /// A number below a limit (xorshift, Marsaglia 2003).
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }

    /// Executes operations until it is over.
    fn run(mut self, begin: Instant, is_over: &AtomicBool) -> Vec<Operation> {
        while !is_over.load(Relaxed) {
            let (object, value) = self.choose();
            let outcome = self.execute(object, value);
            if value.is_some() && matches!(outcome, Outcome::Done(_)) {
                self.progress.note(begin.elapsed());
                self.progress.writes.fetch_add(1, Relaxed);
            }
            self.history.push(Operation { object, value, outcome });
            // The machine is shared by all members and clients.
            std::thread::sleep(Duration::from_millis(2));
        }
        self.history
    }

    /// An object, and the value to write to it, if it is not to be read.
    fn choose(&mut self) -> (Object, Option<u64>) {
        let kind = Kind::ALL[self.below(Kind::ALL.len() as u64) as usize];
        let mut number = self.below(OBJECTS.into()) as u32;
        let is_read = matches!(kind, Kind::Queue | Kind::Register) && self.below(2) == 0;
        if kind == Kind::Register && !is_read {
            // A register has one writer.
            let own = self.number as u32 % OBJECTS;
            let others = (OBJECTS - own - 1) / self.clients as u32 + 1;
            number = own + number % others * self.clients as u32;
        }
        let object = Object { kind, number };
        if is_read {
            return (object, None);
        }
        self.value += 1;
        (object, Some(self.value * self.clients as u64 + self.number as u64))
    }

    fn execute(&mut self, object: Object, value: Option<u64>) -> Outcome {
        let Some(mut client) = self.connection.take().or_else(|| self.connect()) else {
            return Outcome::Refused;
        };
        let key = key_of(object);
        let commands = match (object.kind, value) {
            (Kind::Counter, _) => vec![format!("INCR {key}")],
            (Kind::Set, Some(value)) => vec![format!("SADD {key} {value}")],
            (Kind::Queue, Some(value)) => vec![format!("RPUSH {key} {value}")],
            (Kind::Queue, None) => vec![format!("LPOP {key}")],
            (Kind::Register, Some(value)) => vec![format!("SET {key} {value}")],
            (Kind::Register, None) => vec![format!("GET {key}")],
            (Kind::Pair, Some(value)) => vec![
                "MULTI".into(),
                format!("RPUSH {key} {value}"),
                format!("RPUSH {key}:second {value}"),
                "EXEC".into(),
            ],
            (Kind::Set | Kind::Pair, None) => unreachable!("they are not read"),
        };
        let mut reply = String::new();
        for command in &commands {
            client.send(&command.split(' ').collect::<Vec<_>>());
            match client.receive_within(REPLY) {
                Some(value) => reply = show(&value),
                None => return Outcome::Unknown,
            }
        }
        self.connection = Some(client);
        outcome_of(&reply)
    }

    fn connect(&self) -> Option<Client> {
        let client = Client::unix(&self.socket).ok();
        if client.is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        client
    }
}

/// Error codes that promise that nothing was executed.
const REFUSED: [&str; 7] =
    ["CLUSTERDOWN", "TRYAGAIN", "LOADING", "NOREPLICAS", "EXECABORT", "MISCONF", "READONLY"];

fn outcome_of(reply: &str) -> Outcome {
    let first = reply.split_whitespace().next().unwrap_or_default();
    match first {
        "OK" | "nil" => Outcome::Done(0),
        "UNKNOWN" => Outcome::Unknown,
        code if REFUSED.contains(&code) => Outcome::Refused,
        // The reply to EXEC has two lengths.
        number => match number.trim_start_matches('[').parse() {
            Ok(number) => Outcome::Done(number),
            Err(_) => panic!("unexpected reply: {reply}"),
        },
    }
}

/// Result of a run.
struct Outcomes {
    violations: Vec<String>,
    /// Longest time without a write, by fault and member.
    table: String,
    /// No fault made the members remove more than one: a busy machine may not have run another
    /// one for a node timeout, which is a second failure.
    are_single: bool,
}

/// Runs clients at each member while the faults are injected one by one.
fn run(cluster: &mut Cluster, faults: &[(&str, Fault)]) -> Outcomes {
    let sockets: Vec<PathBuf> = cluster.members.iter().map(Server::socket).collect();
    let progress: Vec<Progress> = sockets.iter().map(|_| Progress::default()).collect();
    let (is_over, begin) = (AtomicBool::new(false), Instant::now());
    let clients = sockets.len() * CLIENTS;
    let (mut table, mut are_single) = (String::new(), true);
    let histories = std::thread::scope(|scope| {
        let running: Vec<_> = (0..clients)
            .map(|number| {
                let recorder = Recorder {
                    number,
                    clients,
                    socket: sockets[number % sockets.len()].clone(),
                    connection: None,
                    random: 0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1),
                    value: 0,
                    history: Vec::new(),
                    progress: &progress[number % sockets.len()],
                };
                let is_over = &is_over;
                scope.spawn(move || recorder.run(begin, is_over))
            })
            .collect();
        let injected = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for (name, fault) in faults {
                let counts = || progress.iter().map(|member| member.writes.load(Relaxed));
                let before: Vec<u64> = counts().collect();
                eventually("each member has executed writes", || {
                    counts().zip(&before).all(|(now, before)| now > before + WRITES)
                });
                let take_pauses = || -> Vec<u64> {
                    progress.iter().map(|member| member.take_pause(begin.elapsed())).collect()
                };
                take_pauses();
                let since = Instant::now();
                let except = fault.member().unwrap_or(usize::MAX);
                let removals = cluster.removals(except);
                cluster.inject(name, *fault);
                let removed = cluster.removals(except).saturating_sub(removals);
                are_single &= fault.member().is_none() || removed <= 1;
                let pauses = take_pauses();
                let all = since.elapsed().as_millis();
                writeln!(
                    table,
                    "{name}: no write for {pauses:?} ms by member, whole after {all} ms"
                )
                .unwrap();
            }
        }));
        is_over.store(true, Relaxed);
        let histories: Vec<Vec<Operation>> =
            running.into_iter().map(|client| client.join().unwrap()).collect();
        injected.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        histories
    });
    cluster.await_whole();
    let mut contents = cluster.contents(0);
    eventually("all members hold the same", || {
        contents = cluster.contents(0);
        (1..sockets.len()).all(|member| cluster.contents(member) == contents)
    });
    let counts = histories.iter().flatten().fold([0; 3], |mut counts, operation| {
        counts[match operation.outcome {
            Outcome::Done(_) => 0,
            Outcome::Refused => 1,
            Outcome::Unknown => 2,
        }] += 1;
        counts
    });
    let [done, refused, unknown] = counts;
    writeln!(table, "{done} operations executed, {refused} refused, {unknown} not known").unwrap();
    Outcomes { violations: check(&histories, &contents.0, &contents.1), table, are_single }
}

#[test]
fn nothing_acknowledged_is_lost_by_a_single_failure() {
    let names = std::env::var(FAULTS).unwrap_or_else(|_| USUAL.into());
    let find = |name: &str| ALL.into_iter().find(|fault| fault.0 == name);
    let faults: Vec<_> = match names.as_str() {
        // Without a log, nothing is left of members that are killed together.
        "all" => ALL.into_iter().filter(|fault| fault.1.member().is_some()).collect(),
        names => names.split(',').map(|name| find(name).expect("the name of a fault")).collect(),
    };
    let arguments = std::env::var(ARGUMENTS)
        .unwrap_or_else(|_| "--cluster-copies 2 --cluster-acknowledge 2".into());
    let Some(mut cluster) = Cluster::start(3, &arguments) else { return };
    let Outcomes { violations, table, are_single } = run(&mut cluster, &faults);
    println!("{table}");
    if !are_single {
        println!("skipped: a member was removed beside the one that failed; {violations:?}");
        return;
    }
    assert!(violations.is_empty(), "{} violations: {violations:#?}", violations.len());
}
