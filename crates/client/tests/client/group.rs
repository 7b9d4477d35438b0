//! Groups of Redis servers in cluster mode, on processes of their own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use petrel_client::{Client, RawCommand};

use crate::servers::free_port;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Slots of a cluster.
pub const SLOTS: usize = 16_384;

/// A node as a process; killed when dropped.
pub struct Node {
    child: Child,
    pub port: u16,
    bus_port: u16,
    directory: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Node {
    /// Starts a node, or says why the test is skipped.
    fn start() -> Option<Self> {
        // Another process may take the ports in between.
        for _ in 0..5 {
            let mut node = Self::spawn()?;
            let begin = Instant::now();
            while begin.elapsed() < PATIENCE && node.child.try_wait().unwrap().is_none() {
                if std::net::TcpStream::connect(("127.0.0.1", node.port)).is_ok() {
                    return Some(node);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        panic!("a node does not start");
    }

    fn spawn() -> Option<Self> {
        let (port, bus_port) = (free_port(), free_port());
        let name = format!("petrel-client-cluster-{}-{port}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let spawned = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--cluster-enabled", "yes", "--save", ""])
            .args(["--cluster-port", &bus_port.to_string(), "--cluster-node-timeout", "1500"])
            .args(["--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match spawned {
            Ok(child) => Some(Node { child, port, bus_port, directory }),
            Err(_) => {
                println!("skipped: redis-server cannot be started");
                let _ = std::fs::remove_dir_all(&directory);
                None
            }
        }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub async fn client(&self) -> Client {
        let begin = Instant::now();
        loop {
            match Client::connect(&self.url()).await {
                Ok(client) => return client,
                Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Starts three primaries, and so many replicas of the first.
pub async fn start(replicas: usize) -> Option<Vec<Node>> {
    let mut nodes = Vec::new();
    for _ in 0..3 + replicas {
        nodes.push(Node::start()?);
    }
    let mut clients = Vec::new();
    for node in &nodes {
        clients.push(node.client().await);
    }
    for (number, client) in clients[..3].iter().enumerate() {
        let (first, last) = (SLOTS * number / 3, SLOTS * (number + 1) / 3 - 1);
        let slots = client.command("CLUSTER ADDSLOTSRANGE").arg(first).arg(last);
        slots.reply::<()>().await.unwrap();
        client.command("CLUSTER SET-CONFIG-EPOCH").arg(number + 1).await.unwrap();
    }
    for node in &nodes[1..] {
        let meet = clients[0].command("CLUSTER MEET").arg("127.0.0.1").arg(node.port);
        let meet = meet.arg(node.bus_port);
        meet.reply::<()>().await.unwrap();
    }
    let first: String = clients[0].command("CLUSTER MYID").reply().await.unwrap();
    for client in &clients[3..] {
        until("a replica knows its primary", async || {
            client.command("CLUSTER REPLICATE").arg(&first).reply::<()>().await.is_ok()
        })
        .await;
    }
    for client in &clients {
        until("the cluster is up", async || {
            let info: String = client.command("CLUSTER INFO").reply().await.unwrap();
            let known = format!("cluster_known_nodes:{}", 3 + replicas);
            info.contains("cluster_state:ok") && info.contains(&known)
        })
        .await;
    }
    for client in &clients {
        until("all nodes know the replicas", async || {
            let info: String = client.command("CLUSTER NODES").reply().await.unwrap();
            info.matches("slave").count() == replicas
        })
        .await;
    }
    for client in &clients[3..] {
        until("a replica has its copy", async || {
            let info: String = client.command("INFO replication").reply().await.unwrap();
            info.contains("master_link_status:up")
        })
        .await;
    }
    Some(nodes)
}

/// Gives a slot without keys from one node to another.
pub async fn move_empty_slot(nodes: &[Node], slot: usize, from: usize, to: usize) {
    let target: String = nodes[to].client().await.command("CLUSTER MYID").reply().await.unwrap();
    for node in [to, from] {
        let client = nodes[node].client().await;
        let command = client.command("CLUSTER SETSLOT").arg(slot).arg("NODE").arg(&target);
        command.reply::<()>().await.unwrap();
    }
}
