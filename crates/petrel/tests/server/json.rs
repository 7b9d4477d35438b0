//! JSON documents: through a kill with a log, a snapshot, a rewrite of the log, and on a replica.

use crate::harness::*;

/// Creates and changes short and long documents, and returns their texts.
fn fill(client: &mut Client) -> Vec<String> {
    let texts: Vec<String> =
        (0..4000).map(|n| format!("{{\"n\":{n},\"name\":\"name of {n}\",\"x\":{n}.5}}")).collect();
    let long = format!("{{\"all\":[{}]}}", texts.join(","));
    client.call(&["JSON.SET", "long", "$", &long]);
    for n in 0..100 {
        let (key, text) = (format!("k{}", n % 40), format!("{{\"a\":[{n}],\"b\":\"{n}\"}}"));
        client.call(&["JSON.SET", &key, "$", &text]);
        client.call(&["JSON.ARRAPPEND", &key, "$.a", "1.5", "{\"c\":null}", "\"d\""]);
        client.call(&["JSON.NUMINCRBY", &key, "$.a[*]", "1000"]);
        client.call(&["JSON.MERGE", &key, "$", "{\"b\":null,\"m\":{\"x\":1}}"]);
        client.call(&["JSON.STRAPPEND", &key, "$..*", "\"more\""]);
        client.call(&["JSON.SET", "long", &format!("$.all[{}].name", n * 7), "\"another\""]);
        client.call(&["JSON.NUMMULTBY", "long", &format!("$.all[{n}:{}].x", n + 3), "3"]);
        client.call(&["JSON.ARRINSERT", "long", "$.all", "5", "[1,2]", "7"]);
        client.call(&["JSON.DEL", "long", &format!("$.all[{}]", n * 3)]);
        client.call(&["JSON.ARRPOP", "long", "$.all", "9"]);
    }
    client.call(&["JSON.ARRTRIM", "k1", "$.a", "1", "2"]);
    client.call(&["JSON.TOGGLE", "k1", "$.m"]);
    client.call(&["JSON.CLEAR", "k2", "$.a"]);
    client.call(&["JSON.DEL", "k3", "$.*"]);
    client.call(&["JSON.MERGE", "k4", "$", "{\"a\":null,\"b\":null,\"m\":null}"]);
    client.call(&["RENAME", "k5", "renamed"]);
    client.call(&["COPY", "k6", "copied"]);
    client.call(&["PEXPIREAT", "k7", "4000000000000"]);
    client.call(&["JSON.SET", "k7", "$", "[7]"]);
    contents(client)
}

fn contents(client: &mut Client) -> Vec<String> {
    let mut all = vec![client.text(&["DBSIZE"]), client.text(&["DEBUG", "DIGEST"])];
    for key in ["long", "k1", "k2", "k3", "k4", "k5", "renamed", "copied", "k7"] {
        all.push(client.text(&["JSON.GET", key]));
        all.push(client.text(&["PEXPIRETIME", key]));
    }
    all
}

#[test]
fn documents_are_there_after_a_kill_a_rewrite_and_a_snapshot() {
    let log = ["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
    let mut server = Server::start("epoll", &log);
    let expected = fill(&mut server.connect());
    assert!(expected[1].len() == 40 && expected.iter().any(|text| text == "{}"), "{expected:?}");
    server.signal(libc::SIGKILL);
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    let mut server = Server::start_in(server.into_scratch(), "epoll", &log);
    let mut client = server.connect();
    eventually("the data", || client.text(&["PING"]) == "PONG");
    assert_eq!(contents(&mut client), expected);
    client.call(&["BGREWRITEAOF"]);
    eventually("the rewrite", || client.text(&["INFO"]).contains("aof_rewrite_in_progress:0"));
    let expected = fill(&mut client);
    server.signal(libc::SIGKILL);
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    let mut server = Server::start_in(server.into_scratch(), "epoll", &log);
    let mut client = server.connect();
    eventually("the data", || client.text(&["PING"]) == "PONG");
    assert_eq!(contents(&mut client), expected);
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert_eq!(client.text(&["SAVE"]), "OK");
    server.signal(libc::SIGTERM);
    server.exit_code();
    let server =
        Server::start_in(server.into_scratch(), "epoll", &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    eventually("the data", || client.text(&["PING"]) == "PONG");
    assert_eq!(contents(&mut client), expected);
}

#[test]
fn a_snapshot_has_documents_as_they_were() {
    let server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    let expected = fill(&mut client);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    // What comes now is no part of it.
    for n in 0..300 {
        client.call(&["JSON.SET", "long", &format!("$.all[{n}]"), "0"]);
        client.call(&["JSON.SET", &format!("k{}", n % 40), "$", "0"]);
    }
    eventually("the file", || client.text(&["INFO"]).contains("rdb_bgsave_in_progress:0"));
    let mut server = server;
    server.signal(libc::SIGKILL);
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    let server =
        Server::start_in(server.into_scratch(), "epoll", &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    eventually("the data", || client.text(&["PING"]) == "PONG");
    assert_eq!(contents(&mut client), expected);
}

#[test]
fn a_replica_has_the_same_documents() {
    let port = free_port().to_string();
    let debug = ["--enable-debug-command", "yes"];
    let args = ["--repl-diskless-sync-delay", "0", "--port", &port, debug[0], debug[1]];
    let primary = Server::start("epoll", &args);
    let mut client = primary.connect();
    fill(&mut client);
    let replica = Server::start("epoll", &debug);
    let mut follower = replica.connect();
    assert_eq!(follower.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    eventually("the copy", || follower.text(&["JSON.GET", "k7"]) == "[7]");
    // What follows comes as commands.
    let expected = fill(&mut client);
    eventually("the commands", || contents(&mut follower) == expected);
}
