//! Indexes of a server: read-your-writes over many connections, through a kill with a log, a
//! rewrite, a snapshot, on replicas, and beside eviction.

use crate::failover::Node;
use crate::harness::*;
use petrel_resp::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Pairs of a write and a query of all connections: `PETREL_TEST_SEARCH_PAIRS`, or 6,000.
fn pairs() -> u64 {
    let pairs = std::env::var("PETREL_TEST_SEARCH_PAIRS").ok().and_then(|text| text.parse().ok());
    pairs.unwrap_or(6000)
}

fn create(client: &mut Client, name: &str) {
    let words = ["FT.CREATE", name, "PREFIX", "1", "e:", "SCHEMA", "n", "NUMERIC", "SORTABLE"];
    let reply = client.text(&[&words[..], &["t", "TAG", "w", "TEXT"]].concat());
    assert_eq!(reply, "OK");
}

fn total(client: &mut Client, index: &str, query: &str) -> i64 {
    match client.call(&["FT.SEARCH", index, query, "LIMIT", "0", "0"]) {
        Value::Array(parts) => match parts[..] {
            [Value::Integer(total)] => total,
            _ => panic!("{parts:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Waits until an index is complete.
fn settle(client: &mut Client, index: &str) {
    eventually("the walk", || {
        let Value::Array(info) = client.call(&["FT.INFO", index]) else { return false };
        let at = info.iter().position(|part| show(part) == "indexing");
        at.is_some_and(|at| matches!(info[at + 1], Value::Integer(0)))
    });
}

fn read_your_writes(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut first = server.connect();
    for n in 0..2000 {
        first.call(&["HSET", &format!("e:old:{n}"), "n", "-1", "t", "old"]);
    }
    let connections = 16u64;
    let rounds = pairs() / connections;
    // The last number that each connection has had the reply for.
    let written: Arc<Vec<AtomicU64>> =
        Arc::new((0..connections).map(|_| AtomicU64::new(0)).collect());
    let clients: Vec<Client> = (0..connections).map(|_| server.connect()).collect();
    create(&mut first, "i");
    let threads: Vec<_> = clients
        .into_iter()
        .zip(0..connections)
        .map(|(mut client, me)| {
            let written = written.clone();
            std::thread::spawn(move || {
                for round in 1..=rounds {
                    let number = me * 1_000_000_000 + round;
                    let key = format!("e:{me}:{}", round % 50);
                    let (text, tag) = (number.to_string(), format!("t{number}"));
                    let words = format!("word{number} of this document");
                    client.call(&["HSET", &key, "n", &text, "t", &tag, "w", &words]);
                    written[me as usize].store(round, SeqCst);
                    let query = match round % 3 {
                        0 => format!("@n:[{text} {text}]"),
                        1 => format!("document word{number} @n:[{text} {text}]"),
                        _ => format!("@t:{{{tag}}}"),
                    };
                    assert_eq!(total(&mut client, "i", &query), 1, "{query}");
                    // Replies to other clients are found as well.
                    let other = (me + round) % connections;
                    let seen = written[other as usize].load(SeqCst);
                    if seen > 0 {
                        let low = other * 1_000_000_000 + seen;
                        let query = format!("@n:[{low} {}]", (other + 1) * 1_000_000_000 - 1);
                        assert_ne!(total(&mut client, "i", &query), 0, "{query}");
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    settle(&mut first, "i");
    assert_eq!(total(&mut first, "i", "@t:{old}"), 2000);
    assert_eq!(total(&mut first, "i", "*"), 2000 + (connections * rounds.min(50)) as i64);
}

with_each_backend!(read_your_writes);

/// Makes indexes, an alias and documents; returns what they show.
fn fill(client: &mut Client, round: i64) -> Vec<String> {
    if round == 0 {
        create(client, "i");
        create(client, "dropped");
        client.call(&["FT.ALIASADD", "a", "i"]);
        client.call(&["FT.ALTER", "i", "SCHEMA", "ADD", "m", "NUMERIC"]);
        client.call(&["FT.DROPINDEX", "dropped"]);
        let words = "FT.CREATE j ON JSON PREFIX 1 j: SCHEMA $.n[*] AS n NUMERIC $.t AS t TAG";
        assert_eq!(client.text(&words.split(' ').collect::<Vec<_>>()), "OK");
        client.call(&["FT.SYNUPDATE", "i", "g", "runs", "walks"]);
        client.call(&["FT.DICTADD", "d", "b", "a"]);
        for n in 0..300 {
            let (term, score) = (format!("term{n}"), (n + 1).to_string());
            client.call(&["FT.SUGADD", "suggestions", &term, &score, "PAYLOAD", &term]);
        }
        client.call(&["FT.SUGDEL", "suggestions", "term250"]);
    }
    for n in 0..300 {
        let (key, number) = (format!("e:{n}"), (n + round).to_string());
        let (tag, words) = (format!("x{}", n % 3), format!("runs of number{}", n % 7));
        client.call(&["HSET", &key, "n", &number, "m", &number, "t", &tag, "w", &words]);
        let document = format!("{{\"n\":[{number},{n}],\"t\":\"{tag}\"}}");
        client.call(&["JSON.SET", &format!("j:{n}"), "$", &document]);
        client.call(&["JSON.ARRAPPEND", &format!("j:{n}"), "$.n", "1000"]);
    }
    client.call(&["DEL", "e:5"]);
    client.call(&["HEXPIRE", "e:6", "1000", "FIELDS", "1", "n"]);
    shown(client)
}

fn shown(client: &mut Client) -> Vec<String> {
    settle(client, "i");
    let queries = ["*", "@t:{x1}", "@n:[10 20]", "@m:[100 200] -@t:{x2}", "walks number3"];
    let results = queries
        .iter()
        .map(|query| client.text(&["FT.SEARCH", "a", query, "SORTBY", "n", "LIMIT", "0", "1000"]));
    let mut all: Vec<String> = results.collect();
    settle(client, "j");
    for query in ["*", "@n:[1000 1000] @t:{x1}", "@n:[10 20]"] {
        all.push(format!("[{}", total(client, "j", query)));
    }
    all.push(client.text(&["FT._LIST"]));
    all.push(client.text(&["FT.SYNDUMP", "a"]));
    all.push(client.text(&["FT.DICTDUMP", "d"]));
    let get = ["FT.SUGGET", "suggestions", "term", "MAX", "300", "WITHSCORES", "WITHPAYLOADS"];
    all.push(client.text(&get));
    all
}

#[test]
fn indexes_are_there_after_a_kill_a_rewrite_and_a_snapshot() {
    let log = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::start("epoll", &log);
    let expected = fill(&mut server.connect(), 0);
    assert!(expected[1].starts_with("[100"), "{}", expected[1]);
    let (server, mut client) = server.killed_and_started(&log);
    assert_eq!(shown(&mut client), expected);
    client.call(&["BGREWRITEAOF"]);
    eventually("the rewrite", || client.text(&["INFO"]).contains("aof_rewrite_in_progress:0"));
    let expected = fill(&mut client, 1);
    let (mut server, mut client) = server.killed_and_started(&log);
    assert_eq!(shown(&mut client), expected);
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert_eq!(client.text(&["SAVE"]), "OK");
    server.signal(libc::SIGTERM);
    server.exit_code();
    let server = Server::start_in(server.into_scratch(), "epoll", &[]);
    let mut client = server.connect();
    eventually("the data", || client.text(&["PING"]) == "PONG");
    // Complete from the first query on.
    assert_eq!(total(&mut client, "i", "*"), 299);
    assert_eq!(shown(&mut client), expected);
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    assert_eq!(client.text(&["FT._LIST"]), "[]");
}

#[test]
fn replicas_have_the_indexes_of_their_primary() {
    for effects in ["yes", "no"] {
        let primary = Node::new(&[]);
        let mut client = primary.connect();
        fill(&mut client, 0);
        let replica = Node::following(primary.port, &["--repl-effects", effects]);
        let mut at = replica.connect();
        replica.await_field("master_link_status", "up");
        let expected = fill(&mut client, 1);
        eventually("the replica", || shown(&mut at) == expected);
        create(&mut client, "later");
        client.call(&["FT.ALIASDEL", "a"]);
        client.call(&["FT.ALIASADD", "a", "later"]);
        let expected = fill(&mut client, 2);
        eventually("the replica", || {
            at.text(&["FT._LIST"]) == client.text(&["FT._LIST"]) && shown(&mut at) == expected
        });
        assert!(at.text(&["FT.CREATE", "x", "SCHEMA", "t", "TAG"]).starts_with("READONLY"));
        client.call(&["FLUSHALL"]);
        eventually("the replica", || at.text(&["FT._LIST"]) == "[]");
    }
}

#[test]
fn evicted_documents_are_not_found() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    create(&mut client, "i");
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]), "OK");
    for n in 0..200 {
        client.call(&["HSET", &format!("e:{n}"), "n", &n.to_string(), "x", &"x".repeat(4000)]);
    }
    let used = server.info("used_memory");
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory", &(used + 100_000).to_string()]), "OK");
    for n in 200..1000 {
        let text =
            client.text(&["HSET", &format!("e:{n}"), "n", &n.to_string(), "x", &"x".repeat(4000)]);
        assert_eq!(text, "2");
        if n % 50 == 0 {
            let found = client.call(&["FT.SEARCH", "i", "*", "NOCONTENT", "LIMIT", "0", "1000"]);
            let Value::Array(keys) = found else { panic!("{found:?}") };
            let keys: Vec<String> =
                keys[1..].iter().map(|key| show(key).replace('"', "")).collect();
            let size: usize = client.text(&["DBSIZE"]).parse().unwrap();
            assert_eq!(keys.len(), size);
        }
    }
    assert!(server.info("evicted_keys") > 0);
}

#[test]
fn an_index_is_read_with_permission_for_all_of_its_keys() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    create(&mut client, "one");
    let two = ["FT.CREATE", "two", "PREFIX", "2", "e:", "f:", "SCHEMA", "n", "NUMERIC"];
    assert_eq!(client.text(&two), "OK");
    for (user, rules) in [
        ("reader", "+@all ~e:*"),
        ("writer", "+@all %W~*"),
        ("part", "+@all ~e:x*"),
        ("all", "+@search +auth %R~*"),
        ("none", "+@all -@search ~*"),
    ] {
        let rules: Vec<&str> = rules.split(' ').collect();
        let words = [&["ACL", "SETUSER", user, "on", "nopass"], &rules[..]].concat();
        assert_eq!(client.text(&words), "OK");
    }
    let denied = "NOPERM User does not have the required permissions to query the index";
    let cases = [
        ("reader", true, false),
        ("writer", false, false),
        ("part", false, false),
        ("all", true, true),
    ];
    for (user, one, two) in cases {
        let mut client = server.connect();
        assert_eq!(client.text(&["AUTH", user, "x"]), "OK");
        for (index, is_allowed) in [("one", one), ("two", two)] {
            for words in [&["FT.SEARCH", index, "*"][..], &["FT.INFO", index]] {
                let reply = client.text(words);
                assert_eq!(reply != denied, is_allowed, "{user} {words:?} {reply}");
            }
        }
    }
    let mut client = server.connect();
    assert_eq!(client.text(&["AUTH", "none", "x"]), "OK");
    assert!(client.text(&["FT.SEARCH", "one", "*"]).starts_with("NOPERM"));
}
