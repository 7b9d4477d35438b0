//! Arrays: through a kill with a log, a rewrite of the log, a snapshot under changes, and on a
//! replica.

use crate::harness::*;

const KEYS: [&str; 6] = ["dense", "sparse", "texts", "ring", "copied", "moved"];

/// Creates and changes arrays, and returns their contents.
fn fill(client: &mut Client, from: usize) -> Vec<String> {
    for n in from..from + 40 {
        let values: Vec<String> = (0..60).map(|i| (n * 60 + i).to_string()).collect();
        let texts: Vec<String> = values.iter().map(|value| value.repeat(1 + n % 30)).collect();
        let start = (n * 45).to_string();
        for (key, values) in [("dense", &values), ("texts", &texts)] {
            let mut words = vec!["ARSET", key, &start];
            words.extend(values.iter().map(String::as_str));
            client.call(&words);
        }
        let mut words = vec!["ARRING", "ring", if n % 20 < 10 { "700" } else { "200" }];
        words.extend(values.iter().map(String::as_str));
        client.call(&words);
        for (i, text) in texts.iter().enumerate().step_by(20) {
            let index = ((n * 31 + i) as u64) << 33;
            client.call(&["ARMSET", "sparse", &index.to_string(), text]);
        }
        client.call(&["ARDEL", "dense", &start, &values[3]]);
        client.call(&["ARDELRANGE", "texts", &values[20], &values[40]]);
        client.call(&["ARINSERT", "moved", "a", "b", &values[0]]);
        client.call(&["ARSET", "gone", "7", "x"]);
        client.call(&["ARDEL", "gone", "7"]);
    }
    client.call(&["COPY", "texts", "copied", "REPLACE"]);
    client.call(&["ARSEEK", "copied", "18446744073709551614"]);
    client.call(&["RENAME", "moved", "another"]);
    client.call(&["RENAME", "another", "moved"]);
    client.call(&["PEXPIREAT", "moved", "4000000000000"]);
    contents(client)
}

fn contents(client: &mut Client) -> Vec<String> {
    let mut all = vec![client.text(&["DBSIZE"]), client.text(&["DEBUG", "DIGEST"])];
    for key in KEYS {
        all.push(client.text(&["ARCOUNT", key]));
        all.push(client.text(&["ARLEN", key]));
        all.push(client.text(&["ARNEXT", key]));
        all.push(client.text(&["ARSCAN", key, "0", "18446744073709551614"]));
        all.push(client.text(&["PEXPIRETIME", key]));
    }
    all
}

#[test]
fn arrays_are_there_after_a_kill_a_rewrite_and_a_snapshot() {
    let log = ["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
    let server = Server::start("epoll", &log);
    let expected = fill(&mut server.connect(), 0);
    assert!(expected[1].len() == 40 && expected[0] == "6", "{:?}", &expected[..2]);
    let (server, mut client) = server.killed_and_started(&log);
    assert!(contents(&mut client) == expected);
    client.call(&["BGREWRITEAOF"]);
    // Changes beside the rewrite.
    let expected = fill(&mut client, 40);
    eventually("the rewrite", || client.text(&["INFO"]).contains("aof_rewrite_in_progress:0"));
    let (server, mut client) = server.killed_and_started(&log);
    assert!(contents(&mut client) == expected);
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert_eq!(client.text(&["SAVE"]), "OK");
    let (_server, mut client) = server.killed_and_started(&["--enable-debug-command", "yes"]);
    assert!(contents(&mut client) == expected);
}

#[test]
fn a_snapshot_has_arrays_as_they_were() {
    let server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    let expected = fill(&mut client, 0);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    // What comes now is no part of it.
    fill(&mut client, 20);
    client.call(&["ARDELRANGE", "dense", "0", "18446744073709551614"]);
    client.call(&["ARDELRANGE", "sparse", "1", "18446744073709551614"]);
    eventually("the file", || client.text(&["INFO"]).contains("rdb_bgsave_in_progress:0"));
    let (_server, mut client) = server.killed_and_started(&["--enable-debug-command", "yes"]);
    assert!(contents(&mut client) == expected);
}

#[test]
fn a_replica_has_the_same_arrays() {
    let port = free_port().to_string();
    let debug = ["--enable-debug-command", "yes"];
    let args = ["--repl-diskless-sync-delay", "0", "--port", &port, debug[0], debug[1]];
    let primary = Server::start("epoll", &args);
    let mut client = primary.connect();
    fill(&mut client, 0);
    let replica = Server::start("epoll", &debug);
    let mut follower = replica.connect();
    assert_eq!(follower.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    eventually("the copy", || follower.text(&["ARGET", "moved", "0"]) == "a");
    // What follows comes as changes.
    let expected = fill(&mut client, 40);
    eventually("the changes", || contents(&mut follower) == expected);
}

/// Commands that take long leave their worker to others, and can be ended with their client.
#[test]
fn others_are_served_beside_a_long_search() {
    let server = Server::start("epoll", &["--threads", "1"]);
    let (mut searcher, mut other) = (server.connect(), server.connect());
    let id = searcher.text(&["CLIENT", "ID"]);
    let text = "ab".repeat(1 << 20);
    for index in 0..20 {
        searcher.call(&["ARSET", "k", &index.to_string(), &text]);
    }
    searcher.send(&["ARGREP", "k", "-", "+", "RE", "[ab]*a[ab]{200}c"]);
    eventually("the search on a helper", || server.info("blocked_clients") == 1);
    assert_eq!(other.text(&["SET", "a", "b"]), "OK");
    assert_eq!(other.text(&["CLIENT", "KILL", "ID", &id]), "1");
    eventually("the end of the search", || server.info("blocked_clients") == 0);
    // Its stripe is free again.
    assert_eq!(other.text(&["DEL", "k"]), "1");
}
