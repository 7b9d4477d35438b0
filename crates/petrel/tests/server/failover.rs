//! FAILOVER, SHUTDOWN with replicas, the link in CLIENT LIST: pairs and chains of Petrels.

use crate::harness::*;
use std::time::{Duration, Instant};

/// A server on a TCP port that sends copies to replicas without delay.
pub struct Node {
    pub server: Server,
    pub port: u16,
}

impl Node {
    pub fn new(args: &[&str]) -> Self {
        let port = free_port();
        let text = port.to_string();
        let usual = ["--port", &text, "--repl-diskless-sync-delay", "0"];
        let server = Server::start("epoll", &[&usual[..], args].concat());
        Node { server, port }
    }

    pub fn following(primary: u16, args: &[&str]) -> Self {
        let port = primary.to_string();
        Self::new(&[&["--replicaof", "127.0.0.1", &port][..], args].concat())
    }

    pub fn connect(&self) -> Client {
        self.server.connect()
    }

    /// Stops every thread of it.
    pub fn stand_still(&self) {
        self.server.signal(libc::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.server.pid());
        eventually("it stands still", || {
            let tasks = std::fs::read_dir(&tasks).unwrap().flatten();
            tasks.map(|task| std::fs::read_to_string(task.path().join("stat"))).all(|stat| {
                stat.is_ok_and(|stat| {
                    stat.rsplit(')').next().is_some_and(|state| state.starts_with(" T"))
                })
            })
        });
    }

    /// A field of `INFO replication`.
    pub fn field(&self, name: &str) -> String {
        let text = self.connect().text(&["INFO", "replication"]);
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim_end().to_owned()
    }

    pub fn await_field(&self, name: &str, value: &str) {
        eventually(&format!("{name} is {value} at {}", self.port), || self.field(name) == value);
    }
}

fn pair(args: &[&str]) -> (Node, Node) {
    let primary = Node::new(args);
    let replica = Node::following(primary.port, &[]);
    primary.connect().text(&["SET", "first", "1"]);
    eventually("the replica follows", || {
        primary.connect().text(&["WAIT", "1", "100"]) == "1"
            && replica.connect().text(&["GET", "first"]) == "1"
    });
    (primary, replica)
}

#[test]
fn the_role_goes_to_a_replica_and_back_without_a_copy() {
    let (one, other) = pair(&[]);
    let third = Node::following(one.port, &[]);
    third.await_field("master_link_status", "up");
    let mut client = one.connect();
    let port = other.port.to_string();
    // Writes that are held back are refused by the replica that the server has become.
    assert_eq!(client.text(&["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "20000"]), "OK");
    let late = client.text(&["SET", "late", "1"]);
    assert!(late.starts_with("READONLY"), "{late}: {}", one.server.output());
    one.await_field("master_link_status", "up");
    assert_eq!((one.field("role"), other.field("role")), ("slave".into(), "master".into()));
    assert_eq!(one.field("master_failover_state"), "no-failover");
    assert_eq!(other.connect().text(&["SET", "after", "1"]), "OK");
    eventually("the old primary follows", || client.text(&["GET", "after"]) == "1");
    // The third follows the old primary, which is a replica now: a chain.
    eventually("the third follows", || third.connect().text(&["GET", "after"]) == "1");
    assert_eq!(client.text(&["FAILOVER"]), "ERR FAILOVER is not valid when server is a replica.");
    assert_eq!(other.connect().text(&["FAILOVER"]), "OK");
    one.await_field("role", "master");
    other.await_field("master_link_status", "up");
    assert_eq!(client.text(&["SET", "again", "1"]), "OK");
    for follower in [&other, &third] {
        let mut at = follower.connect();
        eventually("it follows", || at.text(&["GET", "again"]) == "1");
    }
    for node in [&one, &other, &third] {
        let copies = node.server.output().matches("loaded the primary's copy").count();
        assert!(copies <= 1, "{}", node.server.output());
    }
}

#[test]
fn a_handover_that_cannot_be_is_given_up() {
    let (primary, replica) = pair(&[]);
    let mut client = primary.connect();
    let alone = Node::new(&[]);
    let none = alone.connect().text(&["FAILOVER"]);
    assert_eq!(none, "ERR FAILOVER requires connected replicas.");
    assert_eq!(client.text(&["FAILOVER", "ABORT"]), "ERR No failover in progress.");
    assert_eq!(
        client.text(&["FAILOVER", "TO", "127.0.0.1", "1"]),
        "ERR FAILOVER target HOST and PORT is not a replica."
    );
    replica.stand_still();
    assert_eq!(client.text(&["SET", "unseen", "1"]), "OK");
    assert_eq!(client.text(&["FAILOVER"]), "OK");
    assert_eq!(primary.field("master_failover_state"), "waiting-for-sync");
    assert_eq!(client.text(&["FAILOVER"]), "ERR FAILOVER already in progress.");
    let refused = client.text(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(refused, "ERR REPLICAOF not allowed while failing over.");
    let mut writer = primary.connect();
    writer.send(&["SET", "held", "1"]);
    assert!(writer.is_silent(Duration::from_millis(100)));
    assert_eq!(client.text(&["GET", "unseen"]), "1");
    assert_eq!(client.text(&["FAILOVER", "ABORT"]), "OK");
    assert_eq!(show(&writer.receive().unwrap()), "OK");
    // No replica catches up before the timeout.
    assert_eq!(client.text(&["FAILOVER", "TIMEOUT", "50"]), "OK");
    assert_eq!(client.text(&["SET", "held", "2"]), "OK");
    assert_eq!(primary.field("role"), "master");
    // A forced failover asks a stopped replica, and can be aborted.
    let port = replica.port.to_string();
    let forced = ["FAILOVER", "TO", "127.0.0.1", &port, "FORCE", "TIMEOUT", "50"];
    assert_eq!(client.text(&forced), "OK");
    primary.await_field("master_failover_state", "failover-in-progress");
    assert_eq!(client.text(&["FAILOVER", "ABORT"]), "OK");
    primary.await_field("role", "master");
    eventually("it writes", || client.text(&["SET", "held", "3"]) == "OK");
    replica.server.signal(libc::SIGCONT);
    let mut at = replica.connect();
    eventually("the replica follows again", || at.text(&["GET", "held"]) == "3");
}

#[test]
fn a_replica_that_is_forced_without_every_write_is_the_only_primary() {
    let (primary, replica) = pair(&["--repl-backlog-size", "1mb", "--dialect", "valkey"]);
    let mut client = primary.connect();
    replica.stand_still();
    // More than the connection holds: the replica never sees the end of it.
    let value = "v".repeat(1 << 20);
    for number in 0..64 {
        assert_eq!(client.text(&["SET", &format!("unseen:{number}"), &value]), "OK");
    }
    let port = replica.port.to_string();
    let forced = ["FAILOVER", "TO", "127.0.0.1", &port, "FORCE", "TIMEOUT", "50"];
    assert_eq!(client.text(&forced), "OK");
    primary.await_field("master_failover_state", "failover-in-progress");
    let mut writer = primary.connect();
    assert_eq!(writer.text(&["CLIENT", "CAPA", "redirect"]), "OK");
    writer.send(&["SET", "held", "1"]);
    replica.server.signal(libc::SIGCONT);
    primary.await_field("master_failover_state", "no-failover");
    assert_eq!(show(&writer.receive().unwrap()), format!("REDIRECT 127.0.0.1:{port}"));
    primary.await_field("master_link_status", "up");
    assert_eq!((primary.field("role"), replica.field("role")), ("slave".into(), "master".into()));
    let mut at = replica.connect();
    assert_eq!(at.text(&["SET", "after", "1"]), "OK");
    eventually("the old primary follows", || client.text(&["GET", "after"]) == "1");
    assert_eq!(client.text(&["DBSIZE"]), at.text(&["DBSIZE"]));
}

#[test]
fn clients_that_go_to_the_primary_by_themselves_are_sent_there() {
    let (primary, replica) = pair(&[]);
    let node = Node::following(primary.port, &["--dialect", "valkey"]);
    node.await_field("master_link_status", "up");
    let there = format!("REDIRECT 127.0.0.1:{}", primary.port);
    let mut client = node.connect();
    assert_eq!(client.text(&["CLIENT", "CAPA", "redirect"]), "OK");
    for line in [&["GET", "first"][..], &["SET", "k", "v"], &["DBSIZE"], &["BLPOP", "l", "1"]] {
        assert_eq!(client.text(line), there, "{line:?}");
    }
    assert_eq!(client.text(&["PING"]), "PONG");
    assert_eq!(client.text(&["EVAL", "return redis.call('get', 'first')", "0"]), "1");
    client.text(&["MULTI"]);
    assert_eq!(client.text(&["SET", "k", "v"]), there);
    assert!(client.text(&["EXEC"]).starts_with("EXECABORT"));
    // Reads may be wanted here all the same; `RESET` takes that back.
    assert_eq!(client.text(&["READONLY"]), "OK");
    assert_eq!(client.text(&["GET", "first"]), "1");
    assert_eq!(client.text(&["SET", "k", "v"]), there);
    assert_eq!(client.text(&["RESET"]), "RESET");
    assert_eq!(client.text(&["GET", "first"]), there);
    // A transaction queued at a primary is redirected as a whole. So is one to a writable replica.
    assert_eq!(node.connect().text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(client.text(&["SET", "k", "v"]), "OK");
    client.text(&["MULTI"]);
    assert_eq!(client.text(&["SET", "k", "w"]), "QUEUED");
    let mut waiter = node.connect();
    waiter.text(&["CLIENT", "CAPA", "redirect"]);
    waiter.send(&["BLPOP", "l", "0"]);
    eventually("it waits", || node.server.info("blocked_clients") == 1);
    assert_eq!(node.connect().text(&["CONFIG", "SET", "replica-read-only", "no"]), "OK");
    let port = replica.port.to_string();
    assert_eq!(node.connect().text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    let there = format!("REDIRECT 127.0.0.1:{port}");
    assert_eq!(show(&waiter.receive().unwrap()), there);
    assert_eq!(waiter.text(&["PING"]), "PONG");
    assert_eq!(client.text(&["EXEC"]), there);
    assert_eq!(client.text(&["EXEC"]), "ERR EXEC without MULTI");
    assert_eq!(client.text(&["SET", "k", "w"]), there);
    // Others are not sent anywhere.
    assert_eq!(node.connect().text(&["SET", "own", "1"]), "OK");
}

#[test]
fn a_stop_waits_for_replicas() {
    let (mut primary, replica) = pair(&[]);
    let mut client = primary.connect();
    replica.stand_still();
    client.text(&["SET", "last", "1"]);
    let mut closer = primary.connect();
    closer.send(&["SHUTDOWN"]);
    eventually("it waits", || primary.server.output().contains("Waiting for replicas"));
    assert!(client.text(&["INFO", "clients"]).contains("paused_reason:shutdown_in_progress"));
    assert_eq!(client.text(&["SHUTDOWN", "ABORT"]), "OK");
    let refused = show(&closer.receive().unwrap());
    assert_eq!(refused, "ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(client.text(&["SET", "last", "2"]), "OK");
    primary.server.signal(libc::SIGTERM);
    eventually("it waits", || primary.server.output().matches("Waiting for replicas").count() == 2);
    replica.server.signal(libc::SIGCONT);
    assert_eq!(primary.server.exit_code(), Some(0));
    assert_eq!(replica.connect().text(&["GET", "last"]), "2");
    assert!(!primary.server.output().contains("Lagging replica"));
}

#[test]
fn a_stop_waits_no_longer_than_it_may() {
    let (mut primary, replica) = pair(&["--shutdown-timeout", "1"]);
    replica.stand_still();
    let mut client = primary.connect();
    client.text(&["SET", "last", "1"]);
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(primary.server.exit_code(), Some(0));
    let output = primary.server.output();
    assert!(output.contains("Lagging replica 127.0.0.1:"), "{output}");
    assert!(output.contains("0 of 1 replicas are in sync when shutting down."), "{output}");
    let (mut primary, replica) = pair(&[]);
    replica.stand_still();
    let mut client = primary.connect();
    client.text(&["SET", "last", "1"]);
    let began = Instant::now();
    client.send(&["SHUTDOWN", "NOW"]);
    assert_eq!(primary.server.exit_code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(9));
}

#[test]
fn links_are_connections_that_are_shown_closed_and_held_back() {
    let (primary, replica) = pair(&[]);
    let mut at = replica.connect();
    let line = at.text(&["CLIENT", "LIST", "TYPE", "master"]);
    assert!(line.contains(" flags=M ") && line.contains(&format!(":{} ", primary.port)), "{line}");
    assert_eq!(line.lines().count(), 1);
    assert!(at.text(&["CLIENT", "LIST"]).contains(" flags=M "));
    let line = primary.connect().text(&["CLIENT", "LIST", "TYPE", "replica"]);
    assert!(line.contains(" flags=S "), "{line}");
    assert_eq!(at.text(&["CLIENT", "KILL", "TYPE", "master"]), "1");
    eventually("the link is made again", || primary.server.info("sync_partial_ok") == 1);
    replica.await_field("master_link_status", "up");
    // The primary's stream waits while the replica is paused.
    assert_eq!(at.text(&["CLIENT", "PAUSE", "100000", "WRITE"]), "OK");
    std::thread::sleep(Duration::from_millis(50));
    let before = replica.field("slave_repl_offset");
    assert_eq!(primary.connect().text(&["SET", "k", "v"]), "OK");
    assert_eq!(primary.connect().text(&["WAIT", "1", "300"]), "0");
    assert_eq!(
        (at.text(&["GET", "k"]), replica.field("slave_repl_offset")),
        ("nil".into(), before)
    );
    assert_eq!(at.text(&["CLIENT", "UNPAUSE"]), "OK");
    assert_eq!(primary.connect().text(&["WAIT", "1", "20000"]), "1");
    assert_eq!(at.text(&["GET", "k"]), "v");
}

#[test]
fn a_chain_is_served_and_goes_on_when_its_head_is_gone() {
    let (head, middle) = pair(&[]);
    let end = Node::following(middle.port, &[]);
    end.await_field("master_link_status", "up");
    assert_eq!(head.connect().text(&["SET", "a", "1"]), "OK");
    let mut at = end.connect();
    eventually("it comes through", || at.text(&["GET", "a"]) == "1");
    assert!(at.text(&["SET", "a", "2"]).starts_with("READONLY"));
    // Another replica of the head goes on with the middle by the head's name of the history.
    let other = Node::following(head.port, &[]);
    other.await_field("master_link_status", "up");
    assert_eq!(head.connect().text(&["SET", "b", "1"]), "OK");
    eventually("both have it", || {
        [&middle, &other].iter().all(|node| node.connect().text(&["GET", "b"]) == "1")
    });
    drop(head);
    assert_eq!(middle.connect().text(&["REPLICAOF", "NO", "ONE"]), "OK");
    assert_eq!(middle.connect().text(&["SET", "c", "1"]), "OK");
    let port = middle.port.to_string();
    assert_eq!(other.connect().text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    for follower in [&end, &other] {
        let mut at = follower.connect();
        eventually("it follows the middle", || at.text(&["MGET", "a", "b", "c"]) == "[1 1 1]");
        let copies = follower.server.output().matches("loaded the primary's copy").count();
        assert_eq!(copies, 1, "{}", follower.server.output());
    }
    assert!(middle.server.info("sync_partial_ok") >= 2);
}

/// Stops a node as `signal` does, and starts it again on its port with these arguments.
fn restarted(mut node: Node, signal: libc::c_int, args: &[&str]) -> Node {
    node.server.signal(signal);
    node.server.exit_code();
    let port = node.port;
    let text = port.to_string();
    let usual = ["--port", &text, "--repl-diskless-sync-delay", "0"];
    let scratch = node.server.into_scratch();
    let server = Server::start_in(scratch, "epoll", &[&usual[..], args].concat());
    Node { server, port }
}

#[test]
fn a_replica_that_was_restarted_goes_on_where_its_file_ends() {
    let (primary, replica) = pair(&[]);
    let port = primary.port.to_string();
    let follow = ["--replicaof", "127.0.0.1", &port];
    let mut client = primary.connect();
    client.call(&["SELECT", "3"]);
    client.call(&["MSET", "a", "1", "b", "1"]);
    assert_eq!(client.text(&["WAIT", "1", "20000"]), "1");
    assert_eq!(replica.connect().text(&["SAVE"]), "OK");
    // What comes later has no SELECT before it.
    assert_eq!(client.text(&["INCR", "a"]), "2");
    assert_eq!(client.text(&["WAIT", "1", "20000"]), "1");
    let replica = restarted(replica, libc::SIGKILL, &follow);
    assert_eq!(client.text(&["INCR", "b"]), "2");
    let mut at = replica.connect();
    at.call(&["SELECT", "3"]);
    eventually("it goes on", || at.text(&["MGET", "a", "b"]) == "[2 2]");
    assert_eq!((primary.server.info("sync_full"), primary.server.info("sync_partial_ok")), (1, 1));
    assert!(!replica.server.output().contains("sends a copy"), "{}", replica.server.output());
    // In the background as well.
    assert_eq!(at.text(&["BGSAVE"]), "Background saving started");
    eventually("it is saved", || replica.server.output().contains("saved 3 keys"));
    let replica = restarted(replica, libc::SIGKILL, &follow);
    assert_eq!(client.text(&["INCR", "b"]), "3");
    let mut at = replica.connect();
    at.call(&["SELECT", "3"]);
    eventually("it goes on", || at.text(&["MGET", "a", "b"]) == "[2 3]");
    assert_eq!((primary.server.info("sync_full"), primary.server.info("sync_partial_ok")), (1, 2));
}

#[test]
fn replicas_go_on_with_a_primary_that_was_restarted() {
    let (primary, replica) = pair(&["--save", "3600 1000"]);
    let mut client = primary.connect();
    client.call(&["SET", "kept", "1"]);
    client.call(&["SET", "short", "1", "PX", "100"]);
    client.call(&["WAIT", "1", "20000"]);
    let primary = restarted(primary, libc::SIGTERM, &[]);
    std::thread::sleep(Duration::from_millis(120));
    let mut client = primary.connect();
    eventually("it serves", || client.text(&["SET", "after", "1"]) == "OK");
    let mut at = replica.connect();
    eventually("the replica goes on", || {
        at.text(&["MGET", "kept", "after"]) == "[1 1]" && at.text(&["DBSIZE"]) == "3"
    });
    assert_eq!(primary.server.info("sync_full"), 0, "{}", primary.server.output());
    assert_eq!(client.text(&["DBSIZE"]), "3");
}

#[test]
fn a_replica_of_a_replica_knows_the_database_of_the_stream() {
    let (head, middle) = pair(&[]);
    let mut client = head.connect();
    client.call(&["SELECT", "5"]);
    client.call(&["SET", "a", "1"]);
    assert_eq!(client.text(&["WAIT", "1", "20000"]), "1");
    let end = Node::following(middle.port, &[]);
    end.await_field("master_link_status", "up");
    assert_eq!(client.text(&["INCR", "a"]), "2");
    let mut at = end.connect();
    at.call(&["SELECT", "5"]);
    eventually("it is changed where it is", || at.text(&["GET", "a"]) == "2");
}

#[test]
fn replicas_of_a_replica_stay_while_it_looks_for_another_primary() {
    let (head, middle) = pair(&[]);
    let end = Node::following(middle.port, &[]);
    end.await_field("master_link_status", "up");
    // One that says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let mut client = middle.connect();
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    silent.set_nonblocking(true).unwrap();
    let mut asked = None;
    eventually("it asks", || {
        asked = silent.accept().ok();
        asked.is_some()
    });
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &head.port.to_string()]), "OK");
    drop(asked);
    middle.await_field("master_link_status", "up");
    head.connect().call(&["SET", "back", "1"]);
    let mut at = end.connect();
    eventually("it arrives", || at.text(&["GET", "back"]) == "1");
    let syncs = ["sync_full", "sync_partial_ok"].map(|count| middle.server.info(count));
    assert_eq!(syncs, [1, 0], "{}", middle.server.output());
}
