//! Primaries and replicas that are killed and stopped under load: what `WAIT 1` has acknowledged is
//! there when the replica is promoted, and both ends hold the same in the end. A redis-sentinel
//! that fails Petrel over, where one is installed.
//!
//! `PETREL_REPLICATION_KILLS` says how often each is done.

use crate::failover::Node;
use crate::harness::*;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn rounds() -> u64 {
    let stated = std::env::var("PETREL_REPLICATION_KILLS").ok();
    stated.and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// Writes keys of a round until it is stopped or the server is gone; returns the keys that a
/// replica has.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

impl Writer {
    fn begin(port: u16, round: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let wanted = stop.clone();
        // Before the server can be killed.
        let mut client = Client::tcp(port);
        let write = move || {
            let mut acknowledged = Vec::new();
            for number in 0.. {
                if wanted.load(Relaxed) {
                    break;
                }
                let (key, value) = (key(round, number), number.to_string());
                client.send(&["SET", &key, &value]);
                // Effects of other kinds, of which none may be applied twice, or without the other.
                client.send(&["MULTI"]);
                client.send(&["INCR", "count"]);
                client.send(&["RPUSH", "list", &value]);
                client.send(&["EXEC"]);
                client.send(&["WAIT", "1", "1000"]);
                let replies: Vec<_> = (0..6).map_while(|_| client.receive()).collect();
                match replies.last().map(show) {
                    Some(count) if replies.len() == 6 && show(&replies[0]) == "OK" => {
                        if count != "0" {
                            acknowledged.push(number);
                        }
                    }
                    _ => break,
                }
            }
            acknowledged
        };
        Writer { stop, thread: std::thread::spawn(write) }
    }

    fn end(self) -> Vec<u64> {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}

fn key(round: u64, number: u64) -> String {
    format!("key:{round}:{number}")
}

fn follower(primary: &Node) -> Node {
    let node = Node::following(primary.port, &["--enable-debug-command", "yes"]);
    node.await_field("master_link_status", "up");
    node
}

fn assert_equal(primary: &Node, replica: &Node) {
    let digest = |node: &Node| node.connect().text(&["DEBUG", "DIGEST"]);
    eventually("both hold the same", || digest(primary) == digest(replica));
}

#[test]
fn what_was_acknowledged_outlives_the_primary() {
    let mut primary = Node::new(&["--enable-debug-command", "yes"]);
    // On a busy machine the first round may end before the first transaction has arrived.
    assert_eq!(primary.connect().text(&["SET", "count", "0"]), "OK");
    let mut acknowledged_ever = 0;
    for round in 0..rounds() {
        let replica = follower(&primary);
        let writer = Writer::begin(primary.port, round);
        std::thread::sleep(Duration::from_millis(50 + 37 * (round % 7)));
        // A stopped primary is given up, and never continues.
        let signal = if round % 2 == 0 { libc::SIGKILL } else { libc::SIGSTOP };
        primary.server.signal(signal);
        let mut promoted = replica.connect();
        assert_eq!(promoted.text(&["REPLICAOF", "NO", "ONE"]), "OK");
        drop(primary);
        let acknowledged = writer.end();
        for number in &acknowledged {
            let value = promoted.text(&["GET", &key(round, *number)]);
            assert_eq!(value, number.to_string(), "round {round}");
        }
        acknowledged_ever += acknowledged.len();
        assert_eq!(promoted.text(&["GET", "count"]), promoted.text(&["LLEN", "list"]));
        primary = replica;
    }
    assert!(acknowledged_ever > 0);
    println!("{acknowledged_ever} acknowledged writes were there after {} kills", rounds());
}

#[test]
fn a_replica_that_is_killed_or_stopped_holds_the_same_in_the_end() {
    let primary = Node::new(&["--enable-debug-command", "yes"]);
    let mut replica = follower(&primary);
    for round in 0..rounds() {
        let writer = Writer::begin(primary.port, round);
        std::thread::sleep(Duration::from_millis(40 + 29 * (round % 5)));
        if round % 2 == 0 {
            replica.server.signal(libc::SIGKILL);
            replica = follower(&primary);
        } else {
            replica.server.signal(libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(60));
            let killed = primary.connect().text(&["CLIENT", "KILL", "TYPE", "replica"]);
            assert_eq!(killed, "1");
            replica.server.signal(libc::SIGCONT);
        }
        writer.end();
        eventually("it follows", || primary.connect().text(&["WAIT", "1", "1000"]) == "1");
        assert_equal(&primary, &replica);
    }
    let resumed = primary.server.info("sync_partial_ok");
    assert!(resumed >= (rounds() / 2) as i64, "{resumed}");
}

/// A sentinel of Redis; killed when dropped.
struct Sentinel {
    child: Child,
    port: u16,
    _scratch: Scratch,
}

impl Sentinel {
    /// Starts a Sentinel that watches a primary; `None` if it is not installed.
    fn start(primary: u16) -> Option<Self> {
        let (scratch, port) = (Scratch::new(), free_port());
        let lines = [
            format!("port {port}"),
            format!("dir {}", scratch.path(".").display()),
            format!("sentinel monitor it 127.0.0.1 {primary} 1"),
            "sentinel down-after-milliseconds it 500".into(),
            "sentinel failover-timeout it 5000".into(),
        ];
        let file = scratch.path("sentinel.conf");
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        // What `redis-sentinel` is another name of.
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").stdin(Stdio::null()).stdout(Stdio::null());
        let Ok(child) = command.spawn() else {
            println!("skipped: no redis-server is installed");
            return None;
        };
        let sentinel = Sentinel { child, port, _scratch: scratch };
        eventually("the sentinel answers", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(sentinel)
    }

    fn ask(&self, args: &[&str]) -> String {
        Client::tcp(self.port).text(args)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_sentinel_fails_over_after_a_kill() {
    let mut primary = Node::new(&[]);
    let Some(sentinel) = Sentinel::start(primary.port) else { return };
    let mut nodes = vec![follower(&primary), follower(&primary)];
    primary.connect().text(&["SET", "k", "1"]);
    assert_eq!(primary.connect().text(&["WAIT", "2", "20000"]), "2");
    eventually("the sentinel knows both replicas", || {
        let text = sentinel.ask(&["SENTINEL", "MASTER", "it"]);
        text.contains(" num-slaves 2 ")
    });
    let began = Instant::now();
    primary.server.signal(libc::SIGKILL);
    primary.server.exit_code();
    let ports: Vec<u16> = nodes.iter().map(|node| node.port).collect();
    eventually("one of them is the primary", || {
        let address = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "it"]);
        ports.iter().any(|port| address.ends_with(&format!(" {port}]")))
    });
    println!("failed over {} ms after the kill", began.elapsed().as_millis());
    eventually("one is a primary, the other follows it", || {
        let roles: Vec<String> = nodes.iter().map(|node| node.field("role")).collect();
        let is_linked = |node: &Node| node.field("master_link_status") == "up";
        roles.contains(&"master".into()) && nodes.iter().any(is_linked)
    });
    let at = nodes.iter().position(|node| node.field("role") == "master").unwrap();
    let promoted = nodes.remove(at);
    assert_eq!(promoted.connect().text(&["INCR", "k"]), "2");
    // A sentinel closes the connections of clients where it changes a role.
    let has_it = |server: &Server| {
        let mut client = server.connect();
        client.send(&["GET", "k"]);
        client.receive().is_some_and(|reply| show(&reply) == "2")
    };
    eventually("it comes through", || has_it(&nodes[0].server));
    // The other went on where it was.
    assert!(promoted.server.info("sync_partial_ok") >= 1, "{}", promoted.server.output());
    // The old primary comes back, and is made a replica.
    let text = primary.port.to_string();
    let back = Server::start("epoll", &["--port", &text]);
    eventually("it follows the new primary", || has_it(&back));
}

fn killed(mut server: Server) -> Scratch {
    server.signal(libc::SIGKILL);
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    server.into_scratch()
}

/// Until a copy is complete, a start loads the earlier data: the log and the snapshot.
#[test]
fn a_replica_that_is_killed_while_it_loads_its_first_copy_has_its_own_data() {
    let port = free_port().to_string();
    let args = ["--port", &port, "--repl-diskless-sync-delay", "0"];
    let primary = Server::start("epoll", &args);
    let mut client = primary.connect();
    let value = "x".repeat(1000);
    for i in 0..3000 {
        client.send(&["SET", &format!("copied {i}"), &value]);
    }
    (0..3000).for_each(|_| assert_eq!(show(&client.receive().unwrap()), "OK"));
    let logged = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let mut scratch = Scratch::new();
    for round in 0..3 {
        let server = Server::start_in(scratch, "epoll", &logged);
        let mut client = server.connect();
        client.call(&["SET", "own", &round.to_string()]);
        assert_eq!(client.text(&["SAVE"]), "OK");
        let saved = std::fs::read(server.scratch.path("dump.rdb")).unwrap();
        assert_eq!(client.text(&["CONFIG", "SET", "key-load-delay", "2000"]), "OK");
        assert_eq!(client.text(&["INCR", "written last"]), (round + 1).to_string());
        assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
        eventually("a part of the copy", || {
            server.info("loading") == 1 && server.info("loading_loaded_bytes") > 0
        });
        scratch = killed(server);
        assert!(std::fs::read(scratch.path("dump.rdb")).unwrap() == saved);
        let server = Server::start_in(scratch, "epoll", &logged);
        let mut client = server.connect();
        let there = client.text(&["MGET", "own", "written last", "copied 0"]);
        assert_eq!(there, format!("[{round} {} nil]", round + 1), "{}", server.output());
        assert_eq!(client.text(&["DBSIZE"]), "2");
        scratch = killed(server);
    }
    // Once it is there, it is what counts, with what came since.
    let server = Server::start_in(scratch, "epoll", &logged);
    let mut client = server.connect();
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    eventually("the copy", || client.text(&["DBSIZE"]) == "3000");
    let output = server.output();
    assert!(
        output.contains("dropping 2 keys here for the primary's copy; dump.rdb has"),
        "{output}"
    );
    let mut writer = primary.connect();
    assert_eq!(writer.text(&["SET", "since", "1"]), "OK");
    // On the disk of the replica.
    assert_eq!(writer.text(&["WAITAOF", "0", "1", "0"]), "[0 1]");
    let server = Server::start_in(killed(server), "epoll", &logged);
    assert_eq!(server.connect().text(&["MGET", "own", "since"]), "[nil 1]");
    assert_eq!(server.connect().text(&["DBSIZE"]), "3001");
}
