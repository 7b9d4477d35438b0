//! Petrels that follow Petrels: effects where all replicas read them, commands where one does not.

use crate::failover::Node;
use crate::harness::*;
use crate::replication_out::{Follower, commands_of};
use crate::replication_peers::{Draw, drive};
use crate::replication_primary::{ID, Primary, snapshot_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

fn await_stream(node: &Node, word: &str) {
    node.await_field("repl_stream", word);
}

/// Waits until replicas have executed everything, and hold the same.
fn assert_same(primary: &Node, replicas: &[&Node]) {
    let mut client = primary.connect();
    let count = replicas.len().to_string();
    for replica in replicas {
        replica.await_field("master_link_status", "up");
        eventually("it has executed everything", || {
            replica.field("slave_repl_offset") == primary.field("master_repl_offset")
        });
        let mut at = replica.connect();
        let mut digests = (String::new(), String::new());
        let is_same = |digests: &(String, String)| digests.0 == digests.1;
        for _ in 0..100 {
            digests = (client.text(&["DEBUG", "DIGEST"]), at.text(&["DEBUG", "DIGEST"]));
            if is_same(&digests) {
                break;
            }
            // Keys may have expired at one server before the other receives their removal.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert!(is_same(&digests), "{count}: {digests:?} {}", replica.server.output());
        let output = replica.server.output();
        assert!(!output.contains("fails here"), "{output}");
    }
}

fn copies(node: &Node) -> usize {
    node.server.output().matches("loaded the primary's copy").count()
}

#[test]
fn every_family_arrives_as_effects_and_as_commands() {
    for (effects, word) in [("yes", "effects"), ("no", "commands")] {
        let primary = Node::new(&DEBUG);
        let mut client = primary.connect();
        let args = [&DEBUG[..], &["--repl-effects", effects, "--appendonly", "yes"]].concat();
        let replica = Node::following(primary.port, &args);
        let second = Node::following(replica.port, &DEBUG);
        second.await_field("master_link_status", "up");
        await_stream(&primary, word);
        let (mut draw, big) = (Draw(77), "x".repeat(300_000));
        let library = "#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 7 end, flags={'no-writes'}}";
        for round in 0..4 {
            drive(&mut client, &mut draw, 1500);
            assert_eq!(client.text(&["SET", "big", &big]), "OK");
            assert_eq!(client.text(&["FUNCTION", "LOAD", "REPLACE", library]), "lib");
            if round == 2 {
                client.text(&["FLUSHALL"]);
                client.text(&["SET", "after", "1"]);
            }
            assert_same(&primary, &[&replica, &second]);
            assert_eq!(second.connect().text(&["FCALL", "f", "0"]), "7");
        }
        assert_eq!(primary.field("repl_stream"), word);
        // A replica's log has the same data as its memory.
        let digest = replica.connect().text(&["DEBUG", "DIGEST"]);
        let mut at = replica.connect();
        assert_eq!(at.text(&["DEBUG", "LOADAOF"]), "OK");
        assert_eq!(at.text(&["DEBUG", "DIGEST"]), digest);
    }
}

#[test]
fn a_stream_turns_to_commands_for_who_reads_nothing_else_and_back() {
    let small = [&DEBUG[..], &["--repl-backlog-size", "256kb"]].concat();
    let primary = Node::new(&small);
    let middle = Node::following(primary.port, &small);
    let last = Node::following(middle.port, &small);
    last.await_field("master_link_status", "up");
    await_stream(&primary, "effects");
    let (mut client, mut draw) = (primary.connect(), Draw(5));
    drive(&mut client, &mut draw, 500);
    // It follows the last of the chain: all before it are asked for commands.
    let mut follower = Follower::new(&last.server);
    let (_, id, at) = follower.full_sync();
    await_stream(&primary, "commands");
    follower.send(&format!("REPLCONF ACK {at}"));
    client.text(&["SELECT", "2"]);
    client.text(&["SET", "seen", "1"]);
    // Expiry of earlier keys may be sent before it.
    let (mut bytes, mut last_two) = (0, Vec::new());
    while last_two != commands_of(&["SELECT 2", "SET seen 1"]) {
        let (commands, more) = follower.commands(1);
        bytes += more;
        last_two.extend(commands);
        last_two = last_two.split_off(last_two.len().saturating_sub(2));
    }
    for node in [&middle, &last] {
        assert_eq!(node.field("repl_stream"), "commands", "{}", node.port);
    }
    assert_same(&primary, &[&middle, &last]);
    // It may come back, and go on where it was.
    let at = at + bytes;
    drop(follower);
    client.text(&["SET", "missed", "1"]);
    let mut follower = Follower::new(&last.server);
    follower.send("REPLCONF capa psync2");
    assert_eq!(follower.line(), "+OK");
    follower.send(&format!("PSYNC {id} {}", at + 1));
    assert_eq!(follower.line(), format!("+CONTINUE {id}"));
    assert_eq!(follower.commands(1).0.last(), commands_of(&["SET missed 1"]).last());
    drop(follower);
    // As long as the backlog has the part that it would request.
    for node in [&primary, &middle, &last] {
        eventually("it is effects again", || {
            // A replica that reconnects must not miss more than the backlog holds.
            let is_up = |node: &&Node| node.field("master_link_status") == "up";
            if [&middle, &last].iter().all(is_up) {
                client.text(&["SET", "filler", &"f".repeat(9000)]);
            }
            node.field("repl_stream") == "effects"
        });
    }
    let mut follower = Follower::new(&last.server);
    follower.send(&format!("PSYNC {id} {}", at + 1));
    assert!(follower.line().starts_with("+FULLRESYNC"));
    drop(follower);
    drive(&mut client, &mut draw, 500);
    assert_same(&primary, &[&middle, &last]);
    assert_eq!((copies(&middle), copies(&last)), (1, 1));
}

#[test]
fn a_promoted_replica_goes_on_with_the_others_without_a_copy() {
    let primary = Node::new(&DEBUG);
    let nodes = [0; 3].map(|_| Node::following(primary.port, &DEBUG));
    let (mut client, mut draw) = (primary.connect(), Draw(9));
    nodes.iter().for_each(|node| node.await_field("master_link_status", "up"));
    await_stream(&primary, "effects");
    drive(&mut client, &mut draw, 800);
    assert_same(&primary, &[&nodes[0], &nodes[1], &nodes[2]]);
    let [one, two, three] = &nodes;
    let port = one.port.to_string();
    assert_eq!(client.text(&["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "20000"]), "OK");
    one.await_field("role", "master");
    for node in [two, three] {
        assert_eq!(node.connect().text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    }
    let mut client = one.connect();
    await_stream(one, "effects");
    drive(&mut client, &mut draw, 800);
    assert_same(one, &[&primary, two, three]);
    let counts = [&primary, one, two, three].map(copies);
    assert_eq!(counts, [0, 1, 1, 1], "{}", primary.server.output());
}

#[test]
fn a_replica_that_makes_events_of_keys_asks_for_commands() {
    let primary = Node::new(&[]);
    let replica = Node::following(primary.port, &[]);
    await_stream(&primary, "effects");
    replica.await_field("master_link_status", "up");
    let mut at = replica.connect();
    assert_eq!(at.text(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]), "OK");
    await_stream(&primary, "commands");
    let mut listener = replica.connect();
    listener.call(&["PSUBSCRIBE", "__keyspace@0__:*"]);
    primary.connect().text(&["SET", "k", "v"]);
    assert_eq!(
        show(&listener.receive().unwrap()),
        "[pmessage __keyspace@0__:* __keyspace@0__:k set]"
    );
    assert_eq!(at.text(&["CONFIG", "SET", "notify-keyspace-events", ""]), "OK");
    eventually("it is effects again", || {
        if replica.field("master_link_status") == "up" {
            primary.connect().text(&["SET", "filler", &"f".repeat(90_000)]);
        }
        primary.field("repl_stream") == "effects"
    });
    assert_eq!(copies(&replica), 1);
}

#[test]
fn no_reader_of_a_replica_sees_half_of_a_transaction() {
    let primary = Node::new(&[]);
    let replica = Node::following(primary.port, &[]);
    await_stream(&primary, "effects");
    let ends = Arc::new(AtomicBool::new(false));
    let (end, port) = (ends.clone(), primary.port);
    let writer = std::thread::spawn(move || {
        let (mut client, mut number) = (Client::tcp(port), 0u64);
        while !end.load(Relaxed) {
            number += 1;
            let text = number.to_string();
            match number % 3 {
                0 => drop(client.text(&["MSET", "a", &text, "b", &text, "c", &text])),
                1 => {
                    client.send(&["MULTI"]);
                    ["a", "b", "c"].iter().for_each(|key| client.send(&["SET", key, &text]));
                    client.send(&["EXEC"]);
                    (0..5).for_each(|_| drop(client.receive()));
                }
                _ => {
                    let script =
                        "for _, key in ipairs(KEYS) do redis.call('set', key, ARGV[1]) end";
                    client.text(&["EVAL", script, "3", "a", "b", "c", &text]);
                }
            }
            // Others between, of every lane.
            (0..30).for_each(|n| client.send(&["SET", &format!("key:{n}"), &text]));
            (0..30).for_each(|_| drop(client.receive()));
        }
    });
    let mut reader = replica.connect();
    let (mut seen, mut last) = (0, 0);
    eventually("many are seen", || {
        let Some(values) =
            reader.text(&["MGET", "a", "b", "c"]).strip_prefix('[').map(str::to_owned)
        else {
            return false;
        };
        let values: Vec<u64> = values
            .trim_end_matches(']')
            .split(' ')
            .map(|value| value.parse().unwrap_or(0))
            .collect();
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        assert!(values[0] >= last, "{values:?} after {last}");
        seen += u64::from(values[0] != last);
        last = values[0];
        seen > 300
    });
    ends.store(true, Relaxed);
    writer.join().unwrap();
}

#[test]
fn frames_that_are_none_cost_a_copy_and_are_not_asked_for_again() {
    let rdb = snapshot_of(&["SET a 1"]);
    // A frame of: kind 1, order +0, key "a", value "2".
    let set = |lane: u8| vec![0xef, lane, 6, 1, 0, 1, b'a', 1, b'2'];
    let good = set(3);
    for (bad, expected) in [
        (vec![0xef, 99, 0], "a frame of kind 99"),
        ([&[0xef, 0][..], &[0xff; 10]].concat(), "a frame whose length is no number"),
        (vec![0xef, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "bytes; "),
        (vec![0xef, 0, 3, 63, 63, 63], "the bytes are no effects"),
        // The flush of a database in a frame of a lane.
        (vec![0xef, 0, 2, 23, 0], "the bytes are no effects"),
        (vec![0xef, 0, 6, 1, 0, 200, b'a', 1, b'2'], "the bytes are no effects"),
        ([&b"*1\r\n$5\r\nMULTI\r\n"[..], &good].concat(), "a frame within a transaction"),
    ] {
        let primary = Primary::new();
        let port = primary.port.to_string();
        let server = Server::start("epoll", &["--replicaof", "127.0.0.1", &port]);
        let (mut link, _) = primary.greet();
        assert!(link.said.iter().any(|line| line.ends_with("capa petrel-effects-2")));
        link.copy(ID, 10, &rdb);
        link.await_ack(10);
        link.send(&good);
        link.send(b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n");
        link.await_ack(10 + good.len() as i64);
        let mut client = server.connect();
        assert_eq!(client.text(&["GET", "a"]), "2");
        link.send(&bad);
        let (mut link, asked) = primary.greet();
        assert!(server.output().contains(expected), "{expected}: {}", server.output());
        assert_eq!((asked.as_str(), client.text(&["GET", "a"])), ("? -1", "2".to_owned()));
        assert!(link.said.iter().any(|line| line.ends_with("capa petrel")), "{:?}", link.said);
        link.copy(ID, 500, &rdb);
        link.await_ack(500);
        assert_eq!(client.text(&["GET", "a"]), "1");
    }
}

#[test]
fn what_is_behind_a_frame_that_cannot_be_applied_is_in_no_history() {
    let rdb = snapshot_of(&["SET a 1"]);
    let primary = Primary::new();
    let port = primary.port.to_string();
    let args = ["--replicaof", "127.0.0.1", &port, "--save", ""];
    let server = Server::start("epoll", &args);
    let (mut link, _) = primary.greet();
    link.copy(ID, 10, &rdb);
    link.await_ack(10);
    let mut client = server.connect();
    let image_has_offset = |client: &mut Client| {
        assert_eq!(client.text(&["SAVE"]), "OK");
        let bytes = std::fs::read(server.scratch.path("dump.rdb")).unwrap();
        bytes.windows(11).any(|part| part == b"repl-offset")
    };
    assert!(image_has_offset(&mut client));
    // The first is applied with the second, which is none, and no offset counts it.
    let set = [0xef, 3, 6, 1, 0, 1, b'a', 1, b'2'];
    link.send(&[&set[..], &[0xef, 3, 3, 63, 63, 63]].concat());
    let (_link, asked) = primary.greet();
    assert_eq!(asked, "? -1");
    assert!(!image_has_offset(&mut client));
    // Nor can others go on with it once this server is promoted.
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    let info = client.text(&["INFO", "replication"]);
    assert!(info.contains(&format!("master_replid2:{}", "0".repeat(40))), "{info}");
    assert!(info.contains("second_repl_offset:-1"), "{info}");
    assert!(!info.contains(ID), "{info}");
    assert!(image_has_offset(&mut client));
}

#[test]
fn effects_that_do_not_fit_are_logged_and_left_out() {
    let rdb = snapshot_of(&["SET a 1", "SET n x"]);
    let primary = Primary::new();
    let port = primary.port.to_string();
    let server = Server::start("epoll", &["--replicaof", "127.0.0.1", &port]);
    let (mut link, _) = primary.greet();
    link.copy(ID, 10, &rdb);
    link.await_ack(10);
    // One commit: INCR of a key without a number, then a value for another key; and database 200.
    let group = [6, 0, 1, b'n', 2, 1, 0, 1, b'a', 1, b'2'];
    let frame = [&[0xef, 16, group.len() as u8][..], &group].concat();
    let far = [0xef, 16, 8, 0x81, 200, 1, 0, 1, b'a', 1, b'3'];
    link.send(&frame);
    link.send(&far);
    link.send(b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n");
    link.await_ack(10 + (frame.len() + far.len()) as i64);
    let mut client = server.connect();
    assert_eq!(client.text(&["MGET", "a", "n"]), "[2 x]");
    let output = server.output();
    assert!(output.contains("'Add' 'n'") && output.contains("no database 200"), "{output}");
}

/// The names of a server's threads.
fn threads(node: &Node) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", node.server.pid())).unwrap().flatten();
    tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok()).collect()
}

#[test]
fn lanes_are_applied_by_several_threads_in_their_order() {
    let primary = Node::new(&DEBUG);
    let args = [&DEBUG[..], &["--appendonly", "yes"]].concat();
    let replica = Node::following(primary.port, &args);
    let second = Node::following(replica.port, &DEBUG);
    second.await_field("master_link_status", "up");
    await_stream(&primary, "effects");
    let writers = [1u64, 2, 3, 4].map(|seed| {
        let port = primary.port;
        std::thread::spawn(move || {
            let (mut client, mut draw) = (Client::tcp(port), Draw(seed));
            for round in 0..30 {
                for _ in 0..400 {
                    let number = draw.below(100);
                    let (key, element) = (format!("k:{number}"), draw.below(1000).to_string());
                    match draw.below(400) {
                        0 => client.send(&["RENAME", &format!("l{key}"), &format!("l{number}")]),
                        1 => client.send(&["MSET", &key, &element, "a", "1", "b", "2"]),
                        2..100 => client.send(&["RPUSH", &format!("l{key}"), &element]),
                        100..170 => client.send(&["LPOP", &format!("l{key}")]),
                        _ => client.send(&["APPEND", &key, &element]),
                    }
                }
                (0..400).for_each(|_| drop(client.receive()));
                if round % 10 == 9 {
                    client.text(&["SWAPDB", "0", "1"]);
                }
            }
        })
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(primary.connect().text(&["WAIT", "1", "60000"]), "1");
    assert_same(&primary, &[&replica, &second]);
    for node in [&replica, &second] {
        let names = threads(node);
        assert!(names.iter().any(|name| name.starts_with("petrel-lane-1")), "{names:?}");
    }
    let mut at = replica.connect();
    let digest = at.text(&["DEBUG", "DIGEST"]);
    assert_eq!(at.text(&["DEBUG", "LOADAOF"]), "OK");
    assert_eq!(at.text(&["DEBUG", "DIGEST"]), digest);
}

#[test]
fn images_of_a_replica_under_load_stand_at_an_offset() {
    let primary = Node::new(&DEBUG);
    let args = [&DEBUG[..], &["--threads", "2"]].concat();
    let replica = Node::following(primary.port, &args);
    replica.await_field("master_link_status", "up");
    await_stream(&primary, "effects");
    let is_done = Arc::new(AtomicBool::new(false));
    let mut writer = primary.connect();
    let ended = is_done.clone();
    let load = std::thread::spawn(move || {
        let mut round = 0;
        while !ended.load(Relaxed) {
            let sets: Vec<u8> = (0..2000)
                .flat_map(|at| {
                    encode(&[b"SET", format!("key{at}").as_bytes(), round.to_string().as_bytes()])
                })
                .collect();
            writer.send_bytes(&sets);
            (0..2000).for_each(|_| drop(writer.receive()));
            round += 1;
        }
    });
    let mut client = replica.connect();
    let file = replica.server.scratch.path("dump.rdb");
    let has_offset = || {
        let bytes = std::fs::read(&file).unwrap();
        bytes[..bytes.len().min(1000)].windows(11).any(|part| part == b"repl-offset")
    };
    for _ in 0..8 {
        assert_eq!(client.text(&["SAVE"]), "OK");
        assert!(has_offset(), "an image at no offset");
        assert!(client.text(&["BGSAVE"]).starts_with("Background saving started"));
        eventually("it is saved", || replica.server.info("rdb_bgsave_in_progress") == 0);
        assert!(has_offset(), "an image at no offset");
    }
    is_done.store(true, Relaxed);
    load.join().unwrap();
    assert_same(&primary, &[&replica]);
}

/// A member that a client can make: [`petrel_persistence::effects`] for key `k`, which put `taken`
/// into it, behind the prefix of members that are effects.
const LOOK_ALIKE: &[u8] = b"\0petrel-effects\0\x01\0\x01k\x05taken";

#[test]
fn members_are_effects_only_where_a_petrel_announces_them() {
    let rdb = snapshot_of(&["SADD k stays"]);
    let announcement: &[&[u8]] = &[b"REPLCONF", b"capa", b"petrel-members"];
    let (multi, exec): (&[&[u8]], &[&[u8]]) = (&[b"MULTI"], &[b"EXEC"]);
    let srem: &[&[u8]] = &[b"SREM", b"k", LOOK_ALIKE];
    let smove: &[&[u8]] = &[b"SMOVE", b"k", b"other", LOOK_ALIKE];
    let twice: &[&[u8]] = &[b"SREM", b"k", LOOK_ALIKE, LOOK_ALIKE];
    for (primary_says, stream, is_taken) in [
        // Behind Redis, whatever a client of it can do, and more.
        ("", &[srem][..], false),
        ("", &[smove], false),
        ("", &[multi, srem, exec], false),
        ("", &[multi, announcement, srem, exec], false),
        // A Petrel announces each transaction of its own; others it relays, or are its clients'.
        (" petrel", &[srem], false),
        (" petrel", &[smove], false),
        (" petrel", &[announcement, srem], false),
        (" petrel", &[multi, announcement, exec, srem], false),
        (" petrel", &[multi, announcement, twice, exec], false),
        (" petrel", &[multi, announcement, srem, exec], true),
    ] {
        let what = format!("'{primary_says}' {}", stream.len());
        let primary = Primary::new();
        let port = primary.port.to_string();
        let server = Server::start("epoll", &["--replicaof", "127.0.0.1", &port]);
        let (mut link, _) = primary.greet();
        let length = rdb.len();
        link.send(format!("+FULLRESYNC {ID} 10{primary_says}\r\n${length}\r\n").as_bytes());
        link.send(&rdb);
        link.await_ack(10);
        let bytes: Vec<u8> = [&[&[&b"SADD"[..], b"k", LOOK_ALIKE][..]], stream]
            .concat()
            .iter()
            .flat_map(|words| encode(words))
            .collect();
        link.send(&bytes);
        link.send(&encode(&[b"REPLCONF", b"GETACK", b"*"]));
        link.await_ack(10 + bytes.len() as i64);
        let mut client = server.connect();
        if is_taken {
            assert_eq!(client.text(&["GET", "k"]), "taken", "{what}");
        } else {
            assert_eq!(client.text(&["SMEMBERS", "k"]), "[stays]", "{what}");
        }
        let output = server.output();
        assert!(!output.contains("fails here"), "{what}: {output}");
    }
}
