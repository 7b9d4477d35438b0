//! Compact hashes: through a kill with a log, a rewrite of the log, a snapshot under changes, and
//! on a replica.

use crate::harness::*;

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// Makes and changes compact hashes, and returns their contents.
fn fill(client: &mut Client, from: usize) -> Vec<String> {
    client.call(&["HIMPORT", "PREPARE", "u", "name", "email", "age"]);
    client.call(&["HIMPORT", "PREPARE", "v", "x", "y"]);
    for n in from..from + 60 {
        let (age, key) = (n.to_string(), format!("u:{n}"));
        client.call(&["HIMPORT", "SET", &key, "u", "alice", &"x".repeat(n), &age]);
        client.call(&["HIMPORT", "SET", &format!("v:{n}"), "v", &age, "2"]);
        client.call(&["HSET", &key, "name", &age]);
        if n % 3 == 0 {
            client.call(&["HSET", &key, "city", "Paris", "age", "7"]);
        }
        if n % 5 == 0 {
            client.call(&["HDEL", &key, "email"]);
        }
        if n % 7 == 0 {
            client.call(&["HPEXPIREAT", &key, "4000000000000", "FIELDS", "1", "age"]);
        }
        if n % 11 == 0 {
            client.call(&["DEL", &format!("v:{n}")]);
        }
        if n % 13 == 0 {
            client.call(&["COPY", &key, "copied", "REPLACE"]);
            client.call(&["RENAME", &key, &format!("r:{n}")]);
        }
        client.call(&["HSET", &format!("plain:{n}"), "name", "a", "email", "b", "age", "c"]);
    }
    contents(client)
}

fn contents(client: &mut Client) -> Vec<String> {
    let mut all = vec![client.text(&["DBSIZE"]), client.text(&["DEBUG", "DIGEST"])];
    for key in ["u:1", "u:3", "u:5", "u:7", "u:59", "u:61", "v:2", "plain:3", "copied"] {
        all.push(client.text(&["OBJECT", "ENCODING", key]));
    }
    // Fieldsets may hold further ones.
    all.push(figure(client, "hash_template_keys:").to_string());
    all
}

fn figure(client: &mut Client, name: &str) -> usize {
    let info = client.text(&["INFO", "everything"]);
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|text| text.trim().parse().ok()).unwrap_or_else(|| panic!("{name} in {info}"))
}

#[test]
fn compact_hashes_are_there_after_a_kill_a_rewrite_and_a_snapshot() {
    let log = ["--appendonly", "yes", "--appendfsync", "always", DEBUG[0], DEBUG[1]];
    let server = Server::start("epoll", &log);
    let expected = fill(&mut server.connect(), 0);
    assert!(expected[2] == "template-listpack" && expected[5] == "listpackex", "{expected:?}");
    let (server, mut client) = server.killed_and_started(&log);
    assert_eq!(contents(&mut client), expected);
    client.call(&["BGREWRITEAOF"]);
    // Changes beside the rewrite.
    let expected = fill(&mut client, 40);
    eventually("the rewrite", || client.text(&["INFO"]).contains("aof_rewrite_in_progress:0"));
    let (server, mut client) = server.killed_and_started(&log);
    assert_eq!(contents(&mut client), expected);
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert_eq!(client.text(&["SAVE"]), "OK");
    let load = ["--hash-rdb-load-min-template-entries", "1", DEBUG[0], DEBUG[1]];
    let (_server, mut client) = server.killed_and_started(&load);
    assert_eq!(contents(&mut client), expected, "a file with compact hashes is loaded as it is");
    client.call(&["FLUSHALL"]);
    eventually("the end of all", || figure(&mut client, "hash_templates:") == 0);
    assert_eq!(figure(&mut client, "used_memory_hash_templates:"), 0);
}

#[test]
fn ordinary_hashes_become_compact_at_a_start() {
    let server = Server::start("epoll", &DEBUG);
    let mut client = server.connect();
    for n in 0..50 {
        client.call(&["HSET", &format!("h:{n}"), "name", "a", "email", "b"]);
    }
    client.call(&["HSET", "alone", "one", "1", "two", "2"]);
    let digest = client.text(&["DEBUG", "DIGEST"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    let load = [
        "--hash-rdb-load-min-template-entries",
        "2",
        "--hash-rdb-load-template-disassembly-threshold",
        "2",
        DEBUG[0],
        DEBUG[1],
    ];
    let (_server, mut client) = server.killed_and_started(&load);
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    assert_eq!(client.text(&["OBJECT", "ENCODING", "h:7"]), "template-listpack");
    assert_eq!(client.text(&["OBJECT", "ENCODING", "alone"]), "listpack");
    assert_eq!(figure(&mut client, "hash_templates:"), 1);
    assert_eq!(figure(&mut client, "hash_template_keys:"), 50);
}

#[test]
fn a_snapshot_has_compact_hashes_as_they_were() {
    let server = Server::start("epoll", &DEBUG);
    let mut client = server.connect();
    let expected = fill(&mut client, 0);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    // What comes now is no part of it.
    fill(&mut client, 20);
    client.call(&["DEL", "u:1", "u:2", "v:2"]);
    eventually("the file", || client.text(&["INFO"]).contains("rdb_bgsave_in_progress:0"));
    let (_server, mut client) = server.killed_and_started(&DEBUG);
    assert_eq!(contents(&mut client), expected);
}

#[test]
fn a_replica_has_the_same_compact_hashes() {
    let port = free_port().to_string();
    let args = ["--repl-diskless-sync-delay", "0", "--port", &port, DEBUG[0], DEBUG[1]];
    let primary = Server::start("epoll", &args);
    let mut client = primary.connect();
    fill(&mut client, 0);
    let replica = Server::start("epoll", &DEBUG);
    let mut follower = replica.connect();
    assert_eq!(follower.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    eventually("the copy", || follower.text(&["EXISTS", "v:2"]) == "1");
    assert_eq!(follower.text(&["OBJECT", "ENCODING", "v:2"]), "template-listpack");
    // What follows comes as changes.
    let expected = fill(&mut client, 40);
    eventually("the changes", || contents(&mut follower) == expected);
}

#[test]
fn schemas_are_made_and_removed_by_many_threads() {
    let server = Server::start("epoll", &["--threads", "4"]);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                for n in 0..400 {
                    // All threads have the same names, which are of few keys at a time.
                    let set = format!("field{}", n % 7);
                    client.call(&["HIMPORT", "PREPARE", "u", "a", "b", &set]);
                    let key = format!("k{}", (n + worker) % 9);
                    client.call(&["HIMPORT", "SET", &key, "u", "1", "2", "3"]);
                    client.call(&["HSET", &key, "c", "4"]);
                    client.call(&["HDEL", &key, "a", "c"]);
                    let all = client.text(&["HGETALL", &key]);
                    assert!(!all.contains("ERR"), "{all}");
                    client.call(&["DEL", &key]);
                }
                client.call(&["HIMPORT", "DISCARDALL"]);
            });
        }
    });
    let mut client = server.connect();
    eventually("the end of all", || figure(&mut client, "hash_templates:") == 0);
    assert_eq!(figure(&mut client, "used_memory_hash_templates:"), 0);
}
