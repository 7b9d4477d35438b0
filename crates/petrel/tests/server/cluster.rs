//! A server as a member of a cluster, by the command line.

use crate::harness::{Client, PATIENCE, Scratch, Server, run_to_end};
use petrel_resp::Value;
use std::time::Instant;

const FOUND: &str = "--cluster-create --cluster-passphrase-file passphrase --bind 127.0.0.1";

fn scratch(passphrase: &str) -> Scratch {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("passphrase"), passphrase).unwrap();
    scratch
}

fn start(scratch: Scratch, args: &str) -> Server {
    Server::start_in(scratch, "epoll", &args.split(' ').collect::<Vec<_>>())
}

fn text(client: &mut Client, command: &str) -> String {
    match client.call(command) {
        Value::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{command}: {other:?}"),
    }
}

/// Waits until a server serves its cluster's data.
fn await_service(server: &Server) -> Client {
    let (mut client, since) = (server.connect(), Instant::now());
    while !text(&mut client, "CLUSTER INFO").contains("cluster_state:ok") {
        assert!(since.elapsed() < PATIENCE, "{}", server.output());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    client
}

fn await_line(server: &Server, part: &str) -> String {
    let since = Instant::now();
    loop {
        let output = server.output();
        if let Some(line) = output.lines().find(|line| line.contains(part)) {
            return line.into();
        }
        assert!(since.elapsed() < PATIENCE, "no {part}: {output}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Where a member's bus is.
fn bus(server: &Server) -> String {
    let line = await_line(server, "the bus is at ");
    line.rsplit(' ').next().unwrap().into()
}

#[test]
fn a_founder_serves_alone_and_comes_back_with_its_data() {
    let mut server = start(scratch("secret\n"), &format!("{FOUND} --appendonly yes"));
    let mut client = await_service(&server);
    let ok = Value::Simple("OK".into());
    assert_eq!(client.call("SET a 1"), ok);
    assert_eq!(client.call("INCR a"), Value::Integer(2));
    let id = text(&mut client, "CLUSTER MYID");
    assert_eq!(id.len(), 40);
    let nodes = text(&mut client, "CLUSTER NODES");
    assert!(nodes.starts_with(&id) && nodes.ends_with("connected 0-16383\n"), "{nodes}");
    assert_eq!(client.call("CLUSTER LINKS"), Value::Array(Vec::new()));
    let info = text(&mut client, "INFO cluster");
    assert!(info.contains("cluster_enabled:0\r\ncluster_state:ok\r\n"), "{info}");
    // Keys expire here: this is their home.
    assert_eq!(client.call("SET b 1 PX 1"), ok);
    while client.call("DBSIZE") != Value::Integer(1) {
        assert_eq!(client.call("EXISTS b").clone(), Value::Integer(0));
    }
    server.kill();
    let server = start(server.into_scratch(), &format!("{FOUND} --appendonly yes"));
    let mut client = await_service(&server);
    assert_eq!(client.call("INCR a"), Value::Integer(3));
    assert_eq!(text(&mut client, "CLUSTER MYID"), id);
    // The same directory returns to its cluster whatever it is told to join.
    drop(client);
    let mut server = server;
    assert!(server.stop_by("SHUTDOWN"));
    let join = FOUND.replace("--cluster-create", "--cluster-join 127.0.0.1:1");
    let server = start(server.into_scratch(), &format!("{join} --appendonly yes"));
    let mut client = await_service(&server);
    assert_eq!(client.call("INCR a"), Value::Integer(4));
    assert_eq!(text(&mut client, "CLUSTER MYID"), id);
}

#[test]
fn a_stranger_is_turned_away() {
    let founder = start(scratch("secret"), FOUND);
    await_service(&founder);
    let join = FOUND.replace("--cluster-create", &format!("--cluster-join {}", bus(&founder)));
    let stranger = start(scratch("guess"), &join);
    await_line(&founder, "was turned away: the passphrase or the name of the cluster is another");
    await_line(&stranger, "the passphrase or the name of the cluster is another there");
    let mut client = stranger.connect();
    assert!(text(&mut client, "CLUSTER INFO").starts_with("cluster_state:fail\r\n"));
    assert_eq!(text(&mut client, "CLUSTER MYID").len(), 40);
    let Value::Error(error) = client.call("GET a") else { panic!("it has no data") };
    assert!(error.starts_with(b"LOADING "));
    for server in [&founder, &stranger] {
        let output = server.output();
        assert!(!output.contains("secret") && !output.contains("guess"), "{output}");
    }
}

#[test]
fn a_passphrase_is_not_shown() {
    let given = FOUND.replace("-file passphrase", " hushhush");
    let server = start(scratch("x"), &given);
    let mut client = await_service(&server);
    for command in ["CONFIG GET cluster-passphrase*", "INFO everything", "CLUSTER INFO"] {
        assert!(!format!("{:?}", client.call(command)).contains("hushhush"), "{command}");
    }
    assert!(!server.output().contains("hushhush"));
}

#[test]
fn a_witness_serves_no_data() {
    let founder = start(scratch("secret"), FOUND);
    await_service(&founder);
    let join = format!("--cluster-join {} --cluster-role witness", bus(&founder));
    let witness = start(scratch("secret"), &FOUND.replace("--cluster-create", &join));
    let mut client = witness.connect();
    await_line(&witness, "cluster: view ");
    for command in ["GET a", "SET a 1"] {
        let error = Value::Error("CLUSTERDOWN Hash slot not served".into());
        assert_eq!(client.call(command), error);
    }
    let since = Instant::now();
    while text(&mut client, "CLUSTER NODES").lines().count() != 2 {
        assert!(since.elapsed() < PATIENCE);
    }
}

#[test]
fn flags_that_contradict_each_other_say_what_to_change() {
    for (args, part) in [
        ("--cluster-create", "set cluster-passphrase-file"),
        ("--cluster-create --cluster-join a --cluster-passphrase x", "contradict each other"),
        ("--cluster-create --cluster-passphrase x --replicaof a 1", "follows no primary"),
        ("--cluster-join a --cluster-passphrase-file none", "none: No such file or directory"),
    ] {
        let args: Vec<&str> = args.split(' ').chain(["--port", "0"]).collect();
        let output = run_to_end(&Scratch::new(), &args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(part), "{args:?}: {error}");
    }
}
