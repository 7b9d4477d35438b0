//! Cluster on this machine as one peer: a process of this program that starts the nodes, makes a
//! cluster of them, and ends them with itself. Nodes of a Redis Cluster are given their shares of
//! the hash slots and meet; Petrels join the first one, through [`relay`]s if a delay is set; nodes
//! of Swytch find each other.

pub mod relay;
mod swytch;

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use petrel_client::Commands;
use petrel_client::blocking::Client;
use petrel_cluster::SLOTS;

use crate::sys::{self, Guarded, free_port};
use crate::wire::{Endpoint, client, order};

/// File in the directory that exists once every node knows the holders of all hash slots: a line
/// for each node, its port and the path of its Unix socket.
const READY: &str = "ready";

/// Unix socket in the directory that reports the bytes carried by the relays.
const WIRE: &str = "wire";

/// Longest time until a node answers, and until it knows the others.
const START_MAX: Duration = Duration::from_secs(20);

/// Time for which the holders of hash slots must not change.
const STILL: Duration = Duration::from_millis(300);

/// Start a cluster on 127.0.0.1, without replicas. It ends with this process.
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterArgs {
    /// redis-server, petrel or swytch, or another program that is called like it
    #[arg(long, value_name = "PATH")]
    program: PathBuf,

    /// Program that it is called like
    #[arg(long, value_enum, default_value = "redis")]
    like: Like,

    /// Nodes
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,

    /// Nodes that hold each hash slot [default: all] (petrel only)
    #[arg(long, value_name = "R",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    copies: Option<u16>,

    /// Near caches: nodes after those, with copies of keys that are read there; of swytch like all
    /// others
    #[arg(long, default_value_t = 0, value_name = "N",
          value_parser = clap::value_parser!(u16).range(0..=64))]
    caches: u16,

    /// Port of the first node; the others take free ones
    #[arg(long)]
    port: u16,

    /// Path of the Unix socket of the first node; those of the others lie in their directories
    #[arg(long, value_name = "PATH")]
    sock: PathBuf,

    /// Threads of each node
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,

    /// Connections that each node accepts
    #[arg(long, default_value_t = 1024, value_name = "N")]
    connections: usize,

    /// Bytes between nodes are counted, and delayed by half of these microseconds in each direction
    /// (petrel by relays, swytch in a network of its own)
    #[arg(long, value_name = "US")]
    relay: Option<u64>,

    /// Directory for the nodes' files
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// Kinds of programs that form clusters.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Like {
    Redis,
    Petrel,
    Swytch,
}

/// Runs until a node ends, which is an error, or the process does.
pub fn run(args: &ClusterArgs) -> Result<(), String> {
    let failed = |error: io::Error| format!("cluster: {error}");
    if args.like == Like::Swytch {
        let mut cluster = swytch::start(args).map_err(failed)?;
        return watch(args, &mut cluster.nodes).map_err(failed);
    }
    let is_petrel = args.like == Like::Petrel;
    let mut nodes = Vec::new();
    let carried = args.relay.map(|_| relay::Carried::default());
    if let Some(carried) = &carried {
        let counted = carried.clone();
        relay::report(&args.dir.join(WIRE), move || counted.bytes()).map_err(failed)?;
    }
    for number in 0..args.nodes + args.caches {
        let port = if number == 0 { args.port } else { free_port().map_err(failed)? };
        let dir = args.dir.join(format!("node{number}"));
        let socket = if number == 0 { args.sock.clone() } else { dir.join("s") };
        let bus = free_port().map_err(failed)?;
        let relay = match (&carried, args.relay) {
            (Some(carried), Some(round_trip)) => {
                let delay = Duration::from_micros(round_trip) / 2;
                Some(relay::start(bus, delay, carried.clone()).map_err(failed)?)
            }
            _ => None,
        };
        let is_cache = number >= args.nodes;
        let first = nodes.first();
        let node = Start { args, dir: &dir, socket, port, bus, relay, first, is_cache };
        nodes.push(node.start().map_err(failed)?);
        if is_petrel {
            // One joins after the other: each has its data before the next one requests it.
            let holders = nodes.len().min(usize::from(args.nodes));
            nodes.iter().try_for_each(|node| node.await_all(holders)).map_err(failed)?;
            if let Some(copies) = args.copies {
                await_holders(&nodes, holders.min(usize::from(copies))).map_err(failed)?;
            }
        }
    }
    if !is_petrel {
        meet(&nodes)?;
        nodes.iter().try_for_each(|node| node.await_all(nodes.len())).map_err(failed)?;
    }
    watch(args, &mut nodes).map_err(failed)
}

/// Writes the file of the nodes, and waits until one ends.
fn watch(args: &ClusterArgs, nodes: &mut [Node]) -> io::Result<()> {
    let line = |node: &Node| format!("{} {}\n", node.port, node.socket.display());
    let written = args.dir.join(READY).with_extension("new");
    fs::write(&written, nodes.iter().map(line).collect::<String>())?;
    fs::rename(&written, args.dir.join(READY))?;
    loop {
        for (number, node) in nodes.iter_mut().enumerate() {
            if let Some(status) = node.child.0.try_wait()? {
                return Err(io::Error::other(format!("node {number} has ended: {status}")));
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Ports and paths of the Unix sockets of the nodes of a cluster that was started in a directory,
/// once it is ready.
pub fn nodes(dir: &Path) -> Option<Vec<(u16, PathBuf)>> {
    let text = fs::read_to_string(dir.join(READY)).ok()?;
    let node = |line: &str| {
        let (port, socket) = line.split_once(' ')?;
        Some((port.parse().ok()?, PathBuf::from(socket)))
    };
    text.lines().map(node).collect()
}

/// Bytes that the relays of such a cluster have carried so far, those of TLS included.
pub fn carried(dir: &Path) -> io::Result<u64> {
    let mut text = String::new();
    UnixStream::connect(dir.join(WIRE))?.read_to_string(&mut text)?;
    text.trim().parse().map_err(|_| io::Error::other(format!("no number: {text:?}")))
}

/// Waits until all hash slots have had `copies` holders with their data for [`STILL`].
fn await_holders(nodes: &[Node], copies: usize) -> io::Result<()> {
    let clients = nodes.iter().map(Node::client).collect::<io::Result<Vec<_>>>()?;
    let begin = Instant::now();
    let mut since = None;
    while since.is_none_or(|since: Instant| since.elapsed() < STILL) {
        let (mut held, mut coming) = (0, 0);
        for client in &clients {
            let info = client.cluster_info().reply::<String>().run().map_err(io::Error::other)?;
            let field = |name| {
                let value = info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                value.and_then(|value| value.parse::<usize>().ok())
            };
            let (own, other) = (field("cluster_slots_held:"), field("cluster_slots_coming:"));
            held += own.unwrap_or(0);
            coming += other.unwrap_or(0);
        }
        if coming == 0 && held == copies * usize::from(SLOTS) {
            since = since.or(Some(Instant::now()));
        } else if begin.elapsed() > START_MAX {
            let why = format!("its nodes hold {held} hash slots, {coming} are on their way");
            return Err(io::Error::other(why));
        } else {
            since = None;
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Gives each node of a Redis Cluster its share of the hash slots, and lets them meet.
fn meet(nodes: &[Node]) -> Result<(), String> {
    for (number, node) in nodes.iter().enumerate() {
        let share = |number: usize| number * usize::from(SLOTS) / nodes.len();
        let [from, to] = [share(number), share(number + 1) - 1].map(|slot| slot.to_string());
        let epoch = (number + 1).to_string();
        let [port, bus] = [nodes[0].port, nodes[0].bus].map(|port| port.to_string());
        let commands: [&[&[u8]]; 3] = [
            &[b"CLUSTER", b"ADDSLOTSRANGE", from.as_bytes(), to.as_bytes()],
            &[b"CLUSTER", b"SET-CONFIG-EPOCH", epoch.as_bytes()],
            &[b"CLUSTER", b"MEET", b"127.0.0.1", port.as_bytes(), bus.as_bytes()],
        ];
        // The first has no node to meet.
        let said = node.configure(&commands[..if number == 0 { 2 } else { 3 }]);
        said.map_err(|error| format!("node {number} of the cluster: {error}"))?;
    }
    Ok(())
}

/// Start of a node.
struct Start<'a> {
    args: &'a ClusterArgs,
    dir: &'a Path,
    socket: PathBuf,
    port: u16,
    bus: u16,
    /// The port at which others reach its bus, where that is not the bus's own.
    relay: Option<u16>,
    /// The node that it joins.
    first: Option<&'a Node>,
    /// Whether it is a near cache.
    is_cache: bool,
}

impl Start<'_> {
    fn start(self) -> io::Result<Node> {
        fs::create_dir_all(self.dir)?;
        let Start { args, dir, socket, port, bus, relay, .. } = self;
        let is_petrel = args.like == Like::Petrel;
        let mut command = Command::new(&args.program);
        command.args(["--save", "", "--appendonly", "no"]);
        let options = [
            ("--port", port.to_string()),
            ("--cluster-port", bus.to_string()),
            ("--unixsocket", socket.display().to_string()),
            (if is_petrel { "--threads" } else { "--io-threads" }, args.threads.to_string()),
            ("--maxclients", args.connections.to_string()),
        ];
        for (name, value) in options {
            command.arg(name).arg(value);
        }
        if is_petrel {
            command.args(["--bind", "127.0.0.1", "--cluster-passphrase", "petrel-bench"]);
            match self.first {
                Some(first) => {
                    command.arg("--cluster-join").arg(format!("127.0.0.1:{}", first.reached_at))
                }
                None => {
                    let copies = args.copies.map_or("all".into(), |copies| copies.to_string());
                    command.args(["--cluster-create", "--cluster-copies", &copies])
                }
            };
            if self.is_cache {
                command.args(["--cluster-role", "cache"]);
            }
            if let Some(relay) = relay {
                command.args(["--cluster-announce-bus-port", &relay.to_string()]);
            }
        } else {
            command.args(["--cluster-enabled", "yes"]);
        }
        command.arg("--dir").arg(dir).stdin(Stdio::null());
        let child = sys::die_with_parent(&mut command).spawn()?;
        Ok(Node { child: Guarded(child), port, socket, bus, reached_at: relay.unwrap_or(bus) })
    }
}

/// A node; killed when dropped, and by the kernel when this process is gone.
struct Node {
    child: Guarded,
    port: u16,
    socket: PathBuf,
    /// Port of the cluster bus.
    bus: u16,
    /// The port at which others reach that.
    reached_at: u16,
}

impl Node {
    /// A client, once the node answers.
    fn client(&self) -> io::Result<Client> {
        let endpoint = Endpoint::Unix(self.socket.clone());
        let begin = Instant::now();
        loop {
            match client(&endpoint) {
                Err(_) if begin.elapsed() < START_MAX => thread::sleep(Duration::from_millis(20)),
                connected => return connected.map_err(io::Error::other),
            }
        }
    }

    /// Waits until the node knows holders of all hash slots, `nodes` nodes in all.
    fn await_all(&self, nodes: usize) -> io::Result<()> {
        let (client, begin) = (self.client()?, Instant::now());
        let size = format!("cluster_size:{nodes}");
        let is_ready = |info: &str| {
            let has = |line: &str| info.lines().any(|own| own.trim_end() == line);
            has("cluster_state:ok") && has(&size)
        };
        loop {
            // A node without its data answers with an error.
            let said = client.cluster_info().reply::<String>().run();
            if said.as_ref().is_ok_and(|info| is_ready(info)) {
                return Ok(());
            }
            if begin.elapsed() > START_MAX {
                let why = said.err().map_or_else(String::new, |error| format!(": {error}"));
                return Err(io::Error::other(format!("its nodes do not find each other{why}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn configure(&self, commands: &[&[&[u8]]]) -> io::Result<()> {
        let client = self.client()?;
        let mut ordered = commands.iter().map(|command| order(&client, command));
        ordered.try_for_each(|done| done.map_err(io::Error::other))
    }
}
