//! A Redis Cluster on this machine as one peer: a process of this program that starts the nodes,
//! gives each its share of the hash slots, lets them meet, and ends them with itself.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use petrel_cluster::SLOTS;

use super::process::free_port;
use crate::exchange::{ask, ask_bulk, connect};
use crate::load::{Endpoint, Stream};
use crate::sys;

/// The subcommand of such a process.
pub const NAME: &str = "redis-cluster";

/// Every node knows that all hash slots are held once there is this file in the directory.
pub const READY: &str = "ready";

/// How long a node may take until it answers, and until it knows the others.
const START_MAX: Duration = Duration::from_secs(20);

/// Start a Redis Cluster on 127.0.0.1, without replicas. It ends with this process.
#[derive(Clone, Debug, clap::Args)]
pub struct ClusterArgs {
    /// redis-server, or another program that is called like it
    #[arg(long, value_name = "PATH")]
    program: PathBuf,

    /// Nodes
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,

    /// Port of the first node; the others take free ones
    #[arg(long)]
    port: u16,

    /// Threads of each node
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,

    /// Connections that each node accepts
    #[arg(long, default_value_t = 1024, value_name = "N")]
    connections: usize,

    /// Directory for the nodes' files
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

/// Runs until a node ends, which is an error, or the process does.
pub fn run(args: &ClusterArgs) -> Result<(), String> {
    let failed = |error: io::Error| format!("cluster: {error}");
    let mut nodes = Vec::new();
    for number in 0..args.nodes {
        let port = if number == 0 { args.port } else { free_port().map_err(failed)? };
        let dir = args.dir.join(format!("node{number}"));
        nodes.push(Node::start(args, port, &dir).map_err(failed)?);
    }
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
        // The first has nobody to meet.
        let said = node.configure(&commands[..if number == 0 { 2 } else { 3 }]);
        said.map_err(|error| format!("node {number} of the cluster: {error}"))?;
    }
    nodes.iter().try_for_each(Node::await_others).map_err(failed)?;
    fs::write(args.dir.join(READY), "").map_err(failed)?;
    loop {
        for (number, node) in nodes.iter_mut().enumerate() {
            if let Some(status) = node.child.try_wait().map_err(failed)? {
                return Err(format!("node {number} of the cluster has ended: {status}"));
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// A node; killed when dropped, and by the kernel when this process is gone.
struct Node {
    child: Child,
    port: u16,
    /// Port of the cluster bus.
    bus: u16,
}

impl Node {
    fn start(args: &ClusterArgs, port: u16, dir: &Path) -> io::Result<Node> {
        fs::create_dir_all(dir)?;
        let bus = free_port()?;
        let mut command = Command::new(&args.program);
        command.args(["--cluster-enabled", "yes", "--save", "", "--appendonly", "no"]);
        let options = [
            ("--port", port.to_string()),
            ("--cluster-port", bus.to_string()),
            ("--io-threads", args.threads.to_string()),
            ("--maxclients", args.connections.to_string()),
        ];
        for (name, value) in options {
            command.arg(name).arg(value);
        }
        command.arg("--dir").arg(dir).stdin(Stdio::null());
        let child = sys::die_with_parent(&mut command).spawn()?;
        Ok(Node { child, port, bus })
    }

    /// A connection, once the node answers.
    fn connect(&self) -> io::Result<Stream> {
        let endpoint = Endpoint::Tcp(SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port));
        let begin = Instant::now();
        loop {
            match connect(&endpoint) {
                Err(_) if begin.elapsed() < START_MAX => thread::sleep(Duration::from_millis(20)),
                connected => return connected,
            }
        }
    }

    /// Waits until the node knows that all hash slots are held.
    fn await_others(&self) -> io::Result<()> {
        let (mut stream, begin) = (self.connect()?, Instant::now());
        while !ask_bulk(&mut stream, &[b"CLUSTER", b"INFO"])?.contains("cluster_state:ok") {
            if begin.elapsed() > START_MAX {
                return Err(io::Error::other("its nodes do not find each other"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn configure(&self, commands: &[&[&[u8]]]) -> io::Result<()> {
        let mut stream = self.connect()?;
        commands.iter().try_for_each(|command| ask(&mut stream, command).map(|_| ()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
