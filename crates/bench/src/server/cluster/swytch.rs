//! Nodes of a Swytch cluster. They find each other by a name with all their addresses, and the same
//! port: each node is started with a hosts file of its own over `/etc/hosts` (`unshare`
//! and `setpriv` of util-linux; user namespaces). They communicate over UDP, and their
//! certificates are for their addresses, so that no relay fits in between: where bytes are counted
//! or delayed each node is a host of a [`petrel_netbed::Network`], which needs root.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use petrel_client::Commands;

use super::relay::report;
use super::{ClusterArgs, Node, WIRE};
use crate::sys::{self, Guarded, free_port};
use crate::wire::order;

/// The name that all nodes are found by.
const NAME: &str = "nodes.test";

/// Key of the hash in which nodes list the members.
const MEMBERS: &str = "__swytch:members";

/// A passphrase in the form that `swytch gen-passphrase` gives: 32 bytes in Base64 for URLs.
const PASSPHRASE: &str = "cGV0cmVsLWJlbmNoLXBldHJlbC1iZW5jaC1wZXRyZWw";

/// Memory limit of a node, as on the published page; the default is 64 MB.
const MEMORY: &str = "3gb";

/// Longest time until all nodes know all others: they wait up to 30 s for each other.
const START_MAX: Duration = Duration::from_secs(60);

/// Runs a program with a file in the place of `/etc/hosts`. The kernel forgets that a process ends
/// with its parent when it gets new rights, so that is said again.
const WITH_HOSTS: &str = "mount --bind \"$0\" /etc/hosts && exec setpriv --pdeathsig KILL \"$@\"";

/// Nodes that were started, and the network that they are in, if they are in one of their own.
pub(super) struct Cluster {
    pub nodes: Vec<Node>,
    _network: Option<Arc<petrel_netbed::Network>>,
    _hosts: Vec<petrel_netbed::Host>,
}

/// Starts all nodes, and waits until each takes writes.
pub(super) fn start(args: &ClusterArgs) -> io::Result<Cluster> {
    let count = usize::from(args.nodes + args.caches);
    let mut network = args.relay.map(|_| petrel_netbed::Network::new(1));
    let hosts: Vec<petrel_netbed::Host> = match &mut network {
        Some(network) => (0..count).map(|_| network.host()).collect::<io::Result<_>>()?,
        None => Vec::new(),
    };
    if let (Some(network), Some(round_trip)) = (&network, args.relay) {
        let delay = Duration::from_micros(round_trip) / 2;
        network.set_all_paths(petrel_netbed::Path::delayed(delay));
    }
    let addresses: Vec<Ipv4Addr> = match network.is_some() {
        true => hosts.iter().map(petrel_netbed::Host::address).collect(),
        // Up to 64 nodes: all of 127.0.0.0/8 is this machine.
        false => (0..count).map(|number| Ipv4Addr::new(127, 0, 1, 1 + number as u8)).collect(),
    };
    let bus = free_bus(if network.is_some() { &[] } else { &addresses })?;
    let names: String = addresses.iter().map(|address| format!("{address} {NAME}\n")).collect();
    let names_file = args.dir.join("hosts");
    fs::write(&names_file, format!("127.0.0.1 localhost\n{names}"))?;
    let mut nodes = Vec::new();
    for (number, address) in addresses.iter().enumerate() {
        let dir = args.dir.join(format!("node{number}"));
        fs::create_dir_all(&dir)?;
        let socket = if number == 0 { args.sock.clone() } else { dir.join("s") };
        let port = if number == 0 { args.port } else { free_port()? };
        let mut command =
            command(args, (port, &socket, &dir), (*address, bus), (count, &names_file));
        let child = match hosts.get(number) {
            Some(host) => host.run(move || sys::die_with_parent(&mut command).spawn()),
            None => sys::die_with_parent(&mut command).spawn(),
        }?;
        nodes.push(Node { child: Guarded(child), port, socket, bus, reached_at: bus });
    }
    nodes.iter_mut().try_for_each(|node| await_members(node, count))?;
    let network = network.map(Arc::new);
    if let Some(network) = network.clone() {
        report(&args.dir.join(WIRE), move || network.total_traffic().payload)?;
    }
    Ok(Cluster { nodes, _network: network, _hosts: hosts })
}

/// A UDP port that is free at all these addresses.
fn free_bus(addresses: &[Ipv4Addr]) -> io::Result<u16> {
    loop {
        let port = free_port()?;
        if addresses.iter().all(|address| UdpSocket::bind((*address, port)).is_ok()) {
            return Ok(port);
        }
    }
}

fn command(
    args: &ClusterArgs,
    (port, socket, dir): (u16, &Path, &Path),
    (address, bus): (Ipv4Addr, u16),
    (count, names): (usize, &Path),
) -> Command {
    let program: PathBuf = fs::canonicalize(&args.program).unwrap_or(args.program.clone());
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", WITH_HOSTS]).arg(names);
    command.arg(program).args(["redis", "--no-telemetry", "--bind", "127.0.0.1"]);
    let options = [
        ("--port", port.to_string()),
        ("--unixsocket", socket.display().to_string()),
        ("--threads", args.threads.to_string()),
        ("--maxmemory", MEMORY.to_owned()),
    ];
    for (name, value) in options {
        command.arg(name).arg(value);
    }
    if count > 1 {
        command.args(["--cluster-passphrase", PASSPHRASE, "--join", NAME]);
        command.args(["--cluster-port", &bus.to_string()]);
        command.arg("--cluster-advertise").arg(format!("{address}:{bus}"));
    }
    command.current_dir(dir).stdin(Stdio::null());
    command
}

/// Waits until a node knows of all members, and takes a write.
fn await_members(node: &mut Node, count: usize) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        if let Some(status) = node.child.0.try_wait()? {
            return Err(io::Error::other(format!("a node has ended: {status}")));
        }
        // It listens when it has found others.
        let known = node.client().ok().and_then(|client| {
            let known = client.hlen(MEMBERS).reply::<usize>().run().ok()?;
            order(&client, &[b"SET", b"is-ready", b"1"]).ok()?;
            Some(known)
        });
        if count == 1 && known.is_some() || known == Some(count) {
            return Ok(());
        }
        if begin.elapsed() > START_MAX {
            let known = known.map_or("it takes no write".into(), |known| format!("{known} known"));
            return Err(io::Error::other(format!("its nodes do not find each other: {known}")));
        }
        thread::sleep(Duration::from_millis(50));
    }
}
