//! Sketches: through a kill with a log, a snapshot, a rewrite of the log, and on a replica.

use crate::harness::*;

const KEYS: [&str; 6] = ["small", "grown", "fixed", "wide", "copied", "moved"];

/// Creates and changes filters, and returns their digests.
fn fill(client: &mut Client, from: usize) -> Vec<String> {
    client.call(&["CMS.INITBYDIM", "counts", "20000", "5"]);
    client.call(&["CMS.INITBYDIM", "merged", "20000", "5"]);
    client.call(&["CF.RESERVE", "cuckoo", "1000"]);
    client.call(&["TOPK.RESERVE", "top", "20", "30", "5", "0.9"]);
    client.call(&["TOPK.RESERVE", "longest", "3000", "9000", "3", "0.9"]);
    client.call(&["TDIGEST.CREATE", "digest"]);
    client.call(&["TDIGEST.CREATE", "fine", "COMPRESSION", "2000"]);
    client.call(&["TDIGEST.CREATE", "few"]);
    client.call(&["TDIGEST.ADD", "few", &from.to_string(), "-7.5"]);
    client.call(&["TDIGEST.CREATE", "empty", "COMPRESSION", "7"]);
    client.call(&["BF.RESERVE", "wide", "0.001", "2000000"]);
    client.call(&["BF.RESERVE", "fixed", "0.01", "500", "NONSCALING"]);
    client.call(&["BF.RESERVE", "grown", "0.01", "50", "EXPANSION", "3"]);
    for n in from..from + 60 {
        let items: Vec<String> = (0..100).map(|i| format!("item {}", n * 100 + i)).collect();
        for key in ["grown", "wide", "fixed"] {
            let mut words = vec!["BF.MADD", key];
            words.extend(items.iter().map(String::as_str));
            client.call(&words);
        }
        let mut words = vec!["CF.INSERT", "cuckoo", "ITEMS"];
        words.extend(items.iter().map(String::as_str));
        client.call(&words);
        client.call(&["CF.DEL", "cuckoo", &items[1]]);
        // A few counters for many items: random numbers decide.
        let mut words = vec!["TOPK.ADD", "top"];
        words.extend(items.iter().map(String::as_str));
        client.call(&words);
        let mut words = vec!["TOPK.ADD", "longest"];
        words.extend(items.iter().map(String::as_str));
        client.call(&words);
        let numbers: Vec<String> = (0..100).map(|i| format!("{}.{i}", n * 37 % 100)).collect();
        for key in ["digest", "fine"] {
            let mut words = vec!["TDIGEST.ADD", key];
            words.extend(numbers.iter().map(String::as_str));
            client.call(&words);
        }
        client.call(&["BF.ADD", "small", &items[0]]);
        client.call(&["CMS.INCRBY", "counts", &items[0], "3", &items[1], "5"]);
        client.call(&["CMS.MERGE", "merged", "2", "merged", "counts", "WEIGHTS", "1", "2"]);
    }
    client.call(&["COPY", "grown", "copied", "REPLACE"]);
    client.call(&["COPY", "small", "another", "REPLACE"]);
    client.call(&["RENAME", "another", "moved"]);
    client.call(&["PEXPIREAT", "moved", "4000000000000"]);
    client.call(&["BF.ADD", "moved", "more"]);
    contents(client)
}

fn contents(client: &mut Client) -> Vec<String> {
    let mut all = vec![client.text(&["DBSIZE"]), client.text(&["DEBUG", "DIGEST"])];
    for key in KEYS {
        all.push(client.text(&["BF.DEBUG", key]));
        all.push(client.text(&["PEXPIRETIME", key]));
    }
    all.push(client.text(&["CF.DEBUG", "cuckoo"]));
    all.push(client.text(&["TOPK.LIST", "top", "WITHCOUNT"]));
    all.push(client.text(&["TDIGEST.QUANTILE", "digest", "0.1", "0.5", "0.999"]));
    all.push(client.text(&["TDIGEST.CDF", "fine", "1", "7", "77.7"]));
    all.push(client.text(&["TDIGEST.BYRANK", "few", "0", "1", "2", "3"]));
    all.push(client.text(&["TDIGEST.INFO", "empty"]));
    all.push(client.text(&["CMS.INFO", "counts"]));
    all.push(client.text(&["CMS.QUERY", "merged", "item 0", "item 6001", "item 1"]));
    all
}

#[test]
fn sketches_are_there_after_a_kill_a_rewrite_and_a_snapshot() {
    let log = ["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
    let server = Server::start("epoll", &log);
    let expected = fill(&mut server.connect(), 0);
    assert!(expected[1].len() == 40 && expected[4].contains("hashes"), "{expected:?}");
    let (server, mut client) = server.killed_and_started(&log);
    assert_eq!(contents(&mut client), expected);
    client.call(&["BGREWRITEAOF"]);
    // Changes beside the rewrite.
    let expected = fill(&mut client, 60);
    eventually("the rewrite", || client.text(&["INFO"]).contains("aof_rewrite_in_progress:0"));
    let (server, mut client) = server.killed_and_started(&log);
    assert_eq!(contents(&mut client), expected);
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert_eq!(client.text(&["SAVE"]), "OK");
    let (_server, mut client) = server.killed_and_started(&["--enable-debug-command", "yes"]);
    assert_eq!(contents(&mut client), expected);
}

#[test]
fn a_snapshot_has_sketches_as_they_were() {
    let server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    let expected = fill(&mut client, 0);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    // What comes now is no part of it.
    fill(&mut client, 60);
    eventually("the file", || client.text(&["INFO"]).contains("rdb_bgsave_in_progress:0"));
    let (_server, mut client) = server.killed_and_started(&["--enable-debug-command", "yes"]);
    assert_eq!(contents(&mut client), expected);
}

#[test]
fn a_replica_has_the_same_sketches() {
    let port = free_port().to_string();
    let debug = ["--enable-debug-command", "yes"];
    let args = ["--repl-diskless-sync-delay", "0", "--port", &port, debug[0], debug[1]];
    let primary = Server::start("epoll", &args);
    let mut client = primary.connect();
    fill(&mut client, 0);
    let replica = Server::start("epoll", &debug);
    let mut follower = replica.connect();
    assert_eq!(follower.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    eventually("the copy", || follower.text(&["BF.EXISTS", "moved", "more"]) == "1");
    // What follows comes as changes.
    let expected = fill(&mut client, 60);
    eventually("the changes", || contents(&mut follower) == expected);
}
