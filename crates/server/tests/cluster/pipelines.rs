//! Pipelines of commands that run here and there.

use crate::bench::{Client, Members, bulk, encoded, error, key_at, ok};
use crate::network::{infos, view};
use petrel_resp::Value;
use petrel_server::cluster::Event;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(500);

/// Commands on some keys of all members, with the replies that one client gets for them.
struct Script {
    commands: Vec<String>,
    replies: Vec<Value>,
    texts: HashMap<String, String>,
    numbers: HashMap<String, i64>,
    random: u64,
}

impl Script {
    fn new(seed: u64, name: &str, len: usize) -> Self {
        let mut script = Script {
            commands: Vec::new(),
            replies: Vec::new(),
            texts: HashMap::new(),
            numbers: HashMap::new(),
            random: seed,
        };
        while script.commands.len() < len {
            let key = format!("{name}:{}", script.draw(40));
            let step = script.draw(20);
            let (command, reply) = script.step(step, &key);
            script.commands.push(command);
            script.replies.push(reply);
        }
        script
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    fn step(&mut self, step: u64, key: &str) -> (String, Value) {
        let (text, number) = (format!("t{key}"), format!("n{key}"));
        match step {
            0..=4 => {
                let len = if step == 0 { self.draw(40_000) } else { self.draw(40) } as usize;
                let value = "v".repeat(len + 1);
                let command = format!("SET {text} {value}");
                self.texts.insert(text, value);
                (command, ok())
            }
            5..=9 => {
                let reply = self.texts.get(&text).map_or(Value::Null, |value| bulk(value));
                (format!("GET {text}"), reply)
            }
            10..=13 => {
                let number_now = self.numbers.entry(number.clone()).or_default();
                *number_now += 1;
                (format!("INCR {number}"), Value::Integer(*number_now))
            }
            14..=16 => {
                let reply = self.numbers.get(&number);
                let reply = reply.map_or(Value::Null, |value| bulk(&value.to_string()));
                (format!("GET {number}"), reply)
            }
            17 => {
                let was_there = self.texts.remove(&text).is_some();
                (format!("DEL {text}"), Value::Integer(was_there.into()))
            }
            18 => ("PING".into(), Value::Simple("PONG".into())),
            _ => {
                let (first, second) = (self.draw(40), self.draw(40));
                let name = key.split(':').next().unwrap();
                let keys = [first, second].map(|at| format!("t{name}:{at}"));
                let values = keys.iter().map(|key| self.texts.get(key));
                let values = values.map(|value| value.map_or(Value::Null, |value| bulk(value)));
                (format!("MGET {} {}", keys[0], keys[1]), Value::Array(values.collect()))
            }
        }
    }
}

fn check(replies: &[Value], script: &Script) {
    for (at, reply) in replies.iter().enumerate() {
        assert_eq!(*reply, script.replies[at], "{at}: {}", &script.commands[at]);
    }
}

#[test]
fn replies_keep_their_order_and_each_node_sees_its_own_writes() {
    let members = Members::start(2, DELAY);
    let clients = [0, 1].map(|node| {
        let mut client = members.client(node);
        std::thread::spawn(move || {
            let script = Script::new(7 + u64::from(node), &format!("c{node}"), 10_000);
            let replies = client.pipeline(&script.commands);
            check(&replies, &script);
            script
        })
    });
    let scripts = clients.map(|client| client.join().unwrap());
    for node in [0, 1] {
        assert!(members.membership(node).figures().forwarded.load(Relaxed) > 1000);
        for script in &scripts {
            for (key, value) in &script.texts {
                members.await_reply(node, &format!("GET {key}"), &bulk(value));
            }
            for (key, value) in &script.numbers {
                members.await_reply(node, &format!("GET {key}"), &bulk(&value.to_string()));
            }
        }
    }
}

#[test]
fn counters_count_once_though_links_break() {
    let members = Members::start(2, DELAY);
    let key = key_at(1, 2, "counter");
    let commands = vec![format!("INCR {key}"); 3000];
    let clients = [0, 1].map(|node| {
        let (mut client, commands) = (members.client(node), commands.clone());
        std::thread::spawn(move || client.pipeline(&commands))
    });
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(5));
        members.network.cut(0, 1);
        members.await_links(0, 0);
        members.await_links(1, 0);
        members.network.raise(0, 1);
        members.await_links(0, 1);
        members.await_links(1, 1);
    }
    let mut seen = HashSet::new();
    for client in clients {
        let mut last = 0;
        for reply in client.join().unwrap() {
            let Value::Integer(number) = reply else { panic!("{reply:?}") };
            assert!(number > last && seen.insert(number), "{number} behind {last}");
            last = number;
        }
    }
    assert_eq!(seen.len(), 6000);
    for node in [0, 1] {
        members.await_reply(node, &format!("GET {key}"), &bulk("6000"));
    }
}

#[test]
fn clients_that_leave_take_nothing_with_them() {
    let members = Members::start(2, Duration::from_millis(5));
    let key = key_at(1, 2, "left");
    for _ in 0..5 {
        let mut client = members.client(0);
        let commands: Vec<String> =
            (0..300).flat_map(|_| [format!("INCR {key}"), "PING".into()]).collect();
        client.send(&commands);
        drop(client);
    }
    // Whatever was executed of them, the server goes on, and remembers none.
    let mut client = members.client(0);
    assert!(matches!(client.call(&format!("INCR {key}")), Value::Integer(1..)));
    let one = |client: &mut Client| match client.call("CLIENT LIST") {
        Value::Bulk(list) => {
            list.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count()
        }
        Value::Verbatim { text, .. } => text.split(|&byte| byte == b'\n').count(),
        other => panic!("{other:?}"),
    };
    while one(&mut client) > 1 {
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn there_are_limits_to_what_waits() {
    let members = Members::start(2, DELAY);
    let (away, here) = (key_at(1, 2, "many"), key_at(0, 2, "big"));
    let mut client = members.client(0);
    members.await_links(0, 1);
    assert_eq!(client.call(&format!("SET {here} {}", "x".repeat(100_000))), ok());
    members.network.cut(0, 1);
    members.await_links(0, 0);
    // While the primary is out of reach, later commands wait, and then fail.
    let mut commands = vec![format!("INCR {away}")];
    commands.extend(vec![format!("GET {here}"); 100]);
    commands.extend(vec![format!("INCR {away}"); 3000]);
    let replies = client.pipeline(&commands);
    assert_eq!(error(&replies[0]), "CLUSTERDOWN The primary of the key cannot be reached");
    assert!(replies[1..=100].iter().all(|reply| *reply == bulk(&"x".repeat(100_000))));
    assert!(replies[101..].iter().all(|reply| error(reply).starts_with("CLUSTERDOWN ")));
    members.network.raise(0, 1);
    members.await_links(0, 1);
    assert_eq!(client.call(&format!("INCR {away}")), Value::Integer(1));
}

#[test]
fn replies_that_are_not_wanted_are_left_out() {
    let members = Members::start(2, DELAY);
    let away = key_at(1, 2, "quiet");
    let mut client = members.client(0);
    let set = |value: &str| format!("SET {away} {value}");
    let get = format!("GET {away}");
    let commands = ["CLIENT REPLY SKIP", &set("1"), &get, "CLIENT REPLY OFF", &set("2"), &get];
    client.send(&commands.map(String::from));
    client.send(&["CLIENT REPLY ON".into(), get.clone(), set("3"), get].map(String::from));
    let replies: Vec<Value> = (0..5).map(|_| client.reply()).collect();
    assert_eq!(replies, [bulk("1"), ok(), bulk("2"), ok(), bulk("3")]);
}

#[test]
fn a_half_command_waits_for_its_rest() {
    let members = Members::start(2, DELAY);
    let (away, here) = (key_at(1, 2, "part"), key_at(0, 2, "part"));
    let mut client = members.client(0);
    let bytes = encoded(&[
        format!("INCR {away}"),
        format!("SET {here} a"),
        format!("APPEND {here} {}", "b".repeat(100_000)),
        format!("INCR {away}"),
        format!("STRLEN {here}"),
        "NOSUCHCOMMAND".into(),
    ]);
    for piece in bytes.chunks(33_333) {
        client.stream.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    client.stream.write_all(b"*1\r\n+wrong\r\n").unwrap();
    let replies: Vec<Value> = (0..7).map(|_| client.reply()).collect();
    let numbers = [1, 100_001, 2, 100_001].map(Value::Integer);
    assert_eq!(
        [&replies[0], &replies[2], &replies[3], &replies[4]],
        [&numbers[0], &numbers[1], &numbers[2], &numbers[3]]
    );
    assert!(error(&replies[5]).starts_with("ERR unknown command"));
    assert!(error(&replies[6]).starts_with("ERR Protocol error"));
}

#[test]
fn large_values_and_messages_reach_the_others() {
    let members = Members::start(2, DELAY);
    let (here, large) = (key_at(0, 2, "large"), "x".repeat(9 << 20));
    let (mut client, mut other) = (members.client(0), members.client(1));
    for at in 0..3 {
        assert_eq!(client.call(&format!("SET {here} {at}{large}")), ok());
        assert_eq!(client.call(&format!("PUBLISH c {large}")), Value::Integer(0));
        members.await_reply(1, &format!("GET {here}"), &bulk(&format!("{at}{large}")));
        // The home has it again, and answers.
        assert_eq!(other.call(&format!("APPEND {here} y")), Value::Integer((9 << 20) + 2));
    }
}

#[test]
fn what_is_not_there_says_so() {
    let members = Members::start(2, DELAY);
    let (away, here) = (key_at(1, 2, "a"), key_at(0, 2, "h"));
    let mut client = members.client(0);
    for (command, why) in
        [("SWAPDB 0 1", "allowed in cluster mode"), ("REPLICAOF NO ONE", "supported in a cluster")]
    {
        let name = command.split(' ').next().unwrap();
        assert_eq!(error(&client.call(command)), format!("ERR {name} is not {why}"));
    }
    let elsewhere = "is not supported in a cluster at keys whose primary is another node";
    let migrate = error(&client.call(&format!("MIGRATE 127.0.0.1 1 {away} 0 100")));
    assert_eq!(migrate, format!("ERR MIGRATE {elsewhere}"));
    let crossing = format!("BLPOP {here} {away} 0");
    let crossing = error(&client.call(&crossing));
    assert_eq!(
        crossing,
        "CROSSSLOT Keys in request belong to several members of the cluster: let them share a hash tag, as {user}:a and {user}:b"
    );
    assert_eq!(error(&client.call("INCR a b")), "ERR wrong number of arguments for 'incr' command");
}

#[test]
fn keys_of_several_homes_are_worked_on_at_each() {
    let members = Members::start(2, DELAY);
    let keys = [key_at(0, 2, "x"), key_at(1, 2, "y"), key_at(0, 2, "z")];
    let [x, y, z] = &keys;
    let mut client = members.client(0);
    assert_eq!(client.call(&format!("MSET {x} 1 {y} 2 {z} 3")), ok());
    let values = Value::Array(["1", "2", "3"].map(bulk).into());
    assert_eq!(client.call(&format!("MGET {x} {y} {z}")), values);
    members.await_reply(1, &format!("MGET {x} {y} {z}"), &values);
    assert_eq!(client.call(&format!("DEL {x} {y} none")), Value::Integer(2));
    assert_eq!(client.call(&format!("UNLINK {x} {y} {z}")), Value::Integer(1));
    let left = client.call(&format!("EXISTS {x} {y} {z}"));
    assert_eq!(left, Value::Integer(0));
}

#[test]
fn replies_are_in_the_protocol_of_the_client() {
    let members = Members::start(2, DELAY);
    let away = key_at(1, 2, "proto");
    let mut client = members.client(0);
    client.call(&format!("ZADD {away} 1.5 a"));
    let popped = Value::Array(vec![bulk("a"), bulk("1.5")]);
    assert_eq!(client.call(&format!("ZPOPMIN {away}")), popped);
    client.call("HELLO 3");
    client.call(&format!("ZADD {away} 1.5 a"));
    let popped = Value::Array(vec![bulk("a"), Value::Double(1.5)]);
    assert_eq!(client.call(&format!("ZPOPMIN {away}")), popped);
    // Messages come between.
    let channel = "__keyspace@0__:x";
    client.send(&[
        format!("INCR {away}n"),
        format!("SUBSCRIBE {channel}"),
        format!("INCR {away}n"),
    ]);
    assert_eq!(client.reply(), Value::Integer(1));
    assert!(matches!(client.reply(), Value::Push(_)));
    assert_eq!(client.reply(), Value::Integer(2));
    assert!(client.is_silent(Duration::from_millis(1)));
}

#[test]
fn slots_change_their_primaries_under_load() {
    let members = Members::start(2, DELAY);
    let mut client = members.client(0);
    let script = Script::new(99, "moving", 6000);
    let commands = script.commands.clone();
    let running = std::thread::spawn(move || client.pipeline(&commands));
    for epoch in 2..8 {
        std::thread::sleep(Duration::from_millis(20));
        // Swap the primaries of the halves.
        let mut next = petrel_cluster::View::clone(&view(epoch, 2));
        if epoch % 2 == 0 {
            let orders = [[1, 0], [0, 1]].map(|order| order.map(petrel_cluster::Node));
            next.slots = petrel_cluster::SlotMap::collect(|slot| &orders[usize::from(slot / 8193)]);
        }
        let next = std::sync::Arc::new(next);
        for node in [0, 1] {
            members.network.tell(node, Event::View(next.clone(), infos(2)));
        }
    }
    check(&running.join().unwrap(), &script);
}

#[test]
fn the_cluster_says_what_it_is() {
    let members = Members::start(2, DELAY);
    members.await_links(0, 1);
    let text = |reply: Value| match reply {
        Value::Bulk(text) => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    let mut client = members.client(0);
    let info = text(client.call("CLUSTER INFO"));
    for line in ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:2"] {
        assert!(info.lines().any(|other| other == line), "{info}");
    }
    let id = text(client.call("CLUSTER MYID"));
    let nodes = text(client.call("CLUSTER NODES"));
    let lines: Vec<&str> = nodes.lines().collect();
    let own = format!("{id} 127.0.0.1:0@0 myself,master - 0 0 1 connected 0-8192");
    assert_eq!((lines[0], lines.len()), (own.as_str(), 2));
    assert!(lines[1].ends_with(" master - 0 0 1 connected 8193-16383"), "{nodes}");
    assert_eq!(client.call("CLUSTER KEYSLOT foo"), Value::Integer(12_182));
    client.call("HELLO 3");
    let Value::Array(links) = client.call("CLUSTER LINKS") else { panic!("it is an array") };
    let peer = format!("{:040x}", 1);
    for (link, direction) in links.iter().zip(["to", "from"]) {
        let Value::Map(fields) = link else { panic!("{link:?}") };
        assert_eq!(
            fields[..2],
            [(bulk("direction"), bulk(direction)), (bulk("node"), bulk(&peer))]
        );
        let is_time = |(name, value): &(Value, Value)| {
            *name == bulk("create-time") && matches!(value, Value::Integer(1_700_000_000_000..))
        };
        assert!(fields.iter().any(is_time), "{fields:?}");
    }
    assert_eq!(links.len(), 2);
    client.call("HELLO 2");
    assert_eq!(error(&client.call("CLUSTER SLOTS")), "ERR CLUSTER SLOTS is not supported");
    members.network.cut(0, 1);
    members.await_links(0, 0);
    assert!(text(client.call("CLUSTER INFO")).starts_with("cluster_state:fail\r\n"));
}
