//! Commands, transactions and scripts over several hash slots of one primary. Adjacent slots have
//! different backups.

use crate::bench::{Client, Members, bulk, error, key_at, ok};
use crate::network::{infos, view_of_few};
use petrel_cluster::{Node, SlotMap, View, slot_of};
use petrel_resp::{Value, encode_command};
use petrel_server::cluster::Event;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const NODES: u16 = 4;
const DELAY: Duration = Duration::from_micros(300);

/// A view in which the backup of even slots is the next member, that of odd slots the one after.
fn mixed_view() -> Arc<View> {
    let share = 16_384 / NODES + 1;
    let owners = |first: u16, next: u16| [Node(first), Node((first + next) % NODES)];
    let all: Vec<[Node; 2]> =
        (0..NODES).flat_map(|first| [owners(first, 1), owners(first, 2)]).collect();
    let slots = SlotMap::collect(|slot| &all[usize::from(slot / share * 2 + slot % 2)]);
    Arc::new(View { slots, ..View::clone(&view_of_few(1, NODES, 2)) })
}

/// Keys of one primary, the first two with different backups.
fn keys(home: u16, name: &str) -> [String; 3] {
    let found = |is_odd: bool, other: &str| {
        let names = (0..).map(|at| key_at(home, NODES, &format!("{name}{other}{at}-")));
        let of_slot = |key: &String| (slot_of(key.as_bytes()) % 2 == 1) == is_odd;
        names.into_iter().find(of_slot).unwrap()
    };
    let keys = [found(false, "a"), found(true, "b"), found(false, "c")];
    let slots = keys.clone().map(|key| slot_of(key.as_bytes()));
    assert!(slots[0] != slots[1] && slots[0] != slots[2], "{slots:?}");
    keys
}

fn call(client: &mut Client, words: &[&str]) -> Value {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    encode_command(&words, &mut bytes);
    client.stream.write_all(&bytes).unwrap();
    client.reply()
}

fn array<const N: usize>(texts: [&str; N]) -> Value {
    Value::Array(texts.map(bulk).to_vec())
}

/// Calls a command over keys `a`, `b`, `c`, named by these letters.
fn replies(client: &mut Client, keys: &[String; 3], command: &str) -> Value {
    let words: Vec<String> = command
        .split(' ')
        .map(|word| match word {
            "a" => keys[0].clone(),
            "b" => keys[1].clone(),
            "c" => keys[2].clone(),
            word => word.to_owned(),
        })
        .collect();
    call(client, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Commands of each family, and their replies.
fn families() -> Vec<(&'static str, Value)> {
    let n = Value::Integer;
    let none = Value::Null;
    vec![
        ("MSET a 1 b 2", ok()),
        ("MSETNX b 3 c 4", n(0)),
        ("RENAMENX a b", n(0)),
        ("RENAME a c", ok()),
        ("MGET a b c", Value::Array(vec![none.clone(), bulk("2"), bulk("1")])),
        ("COPY c a", n(1)),
        ("MSETEX 2 a 1 b 5", n(1)),
        ("LCS a c", bulk("1")),
        ("BITOP OR a b c", n(1)),
        ("DEL a b c", n(3)),
        ("RPUSH a x y z", n(3)),
        ("RENAME a b", ok()),
        ("COPY b a", n(1)),
        ("LMOVE a b LEFT RIGHT", bulk("x")),
        ("RPOPLPUSH b c", bulk("x")),
        ("LMPOP 2 a b LEFT", Value::Array(vec![bulk("a"), array(["y"])])),
        ("SORT b ALPHA DESC STORE c", n(3)),
        ("LRANGE c 0 -1", array(["z", "y", "x"])),
        ("LRANGE b 0 -1", array(["x", "y", "z"])),
        ("DEL a b c", n(3)),
        ("SADD a m n", n(2)),
        ("SMOVE a b m", n(1)),
        ("SUNIONSTORE c a b", n(2)),
        ("SINTER c b", array(["m"])),
        ("SINTERCARD 2 a b", n(0)),
        ("SDIFFSTORE a c b", n(1)),
        ("DEL a b c", n(3)),
        ("ZADD a 1 m 2 n", n(2)),
        ("ZRANGESTORE b a 0 0", n(1)),
        ("ZUNIONSTORE c 2 a b", n(2)),
        ("ZDIFF 2 a b", array(["n"])),
        ("ZMPOP 2 b a MIN", Value::Array(vec![bulk("b"), Value::Array(vec![array(["m", "1"])])])),
        ("DEL a b c", n(2)),
        ("GEOADD a 13.361389 38.115556 p", n(1)),
        ("GEOSEARCHSTORE b a FROMMEMBER p BYRADIUS 1 km", n(1)),
        ("DEL a b c", n(2)),
        ("PFADD a x", n(1)),
        ("PFADD b y", n(1)),
        ("PFMERGE c a b", ok()),
        ("PFCOUNT a b", n(2)),
        ("DEL a b c", n(3)),
        ("HSET a f v", n(1)),
        ("RENAME a b", ok()),
        ("HGET b f", bulk("v")),
        ("XADD a 1-1 f v", bulk("1-1")),
        ("XADD c 2-1 f v", bulk("2-1")),
        ("XGROUP CREATE a g 0", ok()),
        ("XGROUP CREATE c g 0", ok()),
        ("UNLINK b", n(1)),
        ("TOUCH a b c", n(2)),
    ]
}

#[test]
fn commands_of_each_family() {
    let members = Members::start_view(mixed_view(), DELAY);
    for node in 0..NODES {
        let mut client = members.client(node);
        let keys = keys(2, &format!("f{node}"));
        let named = |value: Value| match value {
            Value::Array(mut values) => {
                for (letter, key) in ["a", "b", "c"].into_iter().zip(&keys) {
                    values.iter_mut().filter(|v| **v == bulk(letter)).for_each(|v| *v = bulk(key));
                }
                Value::Array(values)
            }
            value => value,
        };
        for (command, reply) in families() {
            let got = replies(&mut client, &keys, command);
            assert_eq!(got, named(reply), "{command} at {node}");
        }
        for command in ["XREAD COUNT 1 STREAMS a c 0 0", "XREADGROUP GROUP g u STREAMS a c > >"] {
            let Value::Array(streams) = replies(&mut client, &keys, command) else { panic!() };
            assert_eq!(streams.len(), 2, "{command} at {node}");
        }
        // Every owner has all of it.
        for owner in 0..NODES {
            for (key, len) in [(&keys[0], 1), (&keys[1], 0), (&keys[2], 1)] {
                members.await_reply(owner, &format!("XLEN {key}"), &Value::Integer(len));
            }
        }
    }
}

#[test]
fn transactions_and_scripts() {
    let members = Members::start_view(mixed_view(), DELAY);
    for node in 0..NODES {
        let (mut client, mut other) = (members.client(node), members.client((node + 1) % NODES));
        let [a, b, c] = keys(1, &format!("t{node}"));
        let multi = |client: &mut Client, commands: &[String]| {
            let mut all = vec!["MULTI".to_owned()];
            all.extend_from_slice(commands);
            all.push("EXEC".into());
            client.pipeline(&all).pop().unwrap()
        };
        let writes = [format!("SET {a} 1"), format!("INCR {b}"), format!("RENAME {a} {c}")];
        let done = Value::Array(vec![ok(), Value::Integer(1), ok()]);
        assert_eq!(multi(&mut client, &writes), done);
        assert_eq!(client.call(&format!("MGET {c} {b}")), array(["1", "1"]));
        // Watched keys of two slots.
        for changed in [None, Some(&a), Some(&b)] {
            assert_eq!(client.call(&format!("WATCH {a} {b}")), ok());
            if let Some(key) = changed {
                other.call(&format!("INCR {key}"));
            }
            let reply = multi(&mut client, &[format!("INCR {c}")]);
            assert_eq!(reply == Value::NullArray, changed.is_some(), "{changed:?} at {node}");
        }
        let text = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('APPEND', KEYS[2], ARGV[1]) \
                    return redis.call('GET', KEYS[2])";
        client.call(&format!("DEL {b}"));
        assert_eq!(call(&mut client, &["EVAL", text, "2", &a, &b, "v"]), bulk("v"));
        // A script that fails has done what came before, all of it.
        let text = "redis.call('SET', KEYS[1], 'w') redis.call('SET', KEYS[2], 'w') \
                    return redis.call('INCR', KEYS[1])";
        assert!(error(&call(&mut client, &["EVAL", text, "2", &a, &b])).contains("not an integer"));
        for owner in 0..NODES {
            members.await_reply(owner, &format!("GET {a}"), &bulk("w"));
            members.await_reply(owner, &format!("GET {b}"), &bulk("w"));
        }
    }
}

#[test]
fn clients_wait_for_keys_of_several_slots() {
    let members = Members::start_view(mixed_view(), DELAY);
    for node in 0..NODES {
        let [a, b, c] = keys(3, &format!("w{node}"));
        let mut pusher = members.client((node + 2) % NODES);
        let both = |first: &str, second: Value| Value::Array(vec![bulk(first), second]);
        let scored = Value::Array(vec![array(["m", "1"])]);
        for (wait, push, reply) in [
            (format!("BLPOP {a} {b} 0"), format!("RPUSH {b} x"), array([&b, "x"])),
            (format!("BRPOP {a} {b} 0"), format!("RPUSH {a} x"), array([&a, "x"])),
            (format!("BLMPOP 0 2 {a} {b} LEFT"), format!("RPUSH {b} x"), both(&b, array(["x"]))),
            (format!("BZMPOP 0 2 {a} {b} MIN"), format!("ZADD {b} 1 m"), both(&b, scored)),
            (format!("BZPOPMIN {a} {b} 0"), format!("ZADD {a} 1 m"), array([&a, "m", "1"])),
            (format!("BLMOVE {a} {b} LEFT LEFT 0"), format!("RPUSH {a} x"), bulk("x")),
            (format!("BRPOPLPUSH {b} {c} 0"), format!("RPUSH {a} y"), Value::Null),
        ] {
            let mut client = members.client(node);
            client.send(std::slice::from_ref(&wait));
            if reply == Value::Null {
                // The element that was moved before is there.
                assert_eq!(client.reply(), bulk("x"), "{wait} at {node}");
                continue;
            }
            members.await_text(node, "INFO clients", "blocked_clients:1");
            pusher.call(&push);
            assert_eq!(client.reply(), reply, "{wait} at {node}");
        }
        for (key, value) in [(&b, 0), (&c, 1)] {
            (0..NODES).for_each(|owner| {
                members.await_reply(owner, &format!("LLEN {key}"), &Value::Integer(value));
            });
        }
        let [a, b, _] = keys(3, &format!("x{node}"));
        let mut client = members.client(node);
        client.send(&[format!("XREAD BLOCK 0 STREAMS {a} {b} $ $")]);
        members.await_text(node, "INFO clients", "blocked_clients:1");
        pusher.call(&format!("XADD {b} 1-1 f v"));
        let Value::Array(read) = client.reply() else { panic!("no entries") };
        assert_eq!(read.len(), 1);
    }
}

/// A number that a reply has.
fn number(value: &Value) -> Option<u64> {
    let Value::Bulk(text) = value else { return None };
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[test]
fn no_member_shows_half_of_a_transaction() {
    let members = Members::start_view(mixed_view(), DELAY);
    // Both slots have the same backup, which reads them at one moment; others ask the primary.
    let [a, _, c] = keys(0, "half");
    let [_, b, _] = keys(0, "half");
    let is_over = AtomicBool::new(false);
    let reads = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for node in 0..NODES {
            let (is_over, reads) = (&is_over, &reads);
            let (mut client, pair) = (members.client(node), [[&a, &c], [&a, &b]]);
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    for [one, other] in pair {
                        let get = |key: &str| format!("GET {key}");
                        let all = ["MULTI".into(), get(one), get(other), "EXEC".into()];
                        let reply = client.pipeline(&all).pop().unwrap();
                        let Value::Array(values) = reply else { panic!("{reply:?}") };
                        assert_eq!(values[0], values[1], "at {node}");
                        reads.fetch_add(1, SeqCst);
                    }
                }
            });
        }
        let mut writers = [0, 2].map(|node| members.client(node));
        let mut at = 0;
        while at < 200 || reads.load(SeqCst) < 200 {
            at += 1;
            let writer = &mut writers[at % 2];
            assert_eq!(writer.call(&format!("MSET {a} {at} {b} {at} {c} {at}")), ok());
        }
        is_over.store(true, SeqCst);
    });
}

#[test]
fn primaries_change_beside_transactions() {
    let members = Members::start_few(NODES, 2, DELAY);
    let pair = [0, 1].map(|at| key_at(0, NODES, &format!("move{at}")));
    assert_ne!(slot_of(pair[0].as_bytes()), slot_of(pair[1].as_bytes()));
    let is_over = AtomicBool::new(false);
    let counted: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..NODES)
            .map(|node| {
                let (mut client, pair, is_over) = (members.client(node), &pair, &is_over);
                scope.spawn(move || {
                    let mut count = 0;
                    while !is_over.load(SeqCst) || count == 0 {
                        let incr = |key: &str| format!("INCR {key}");
                        let all = ["MULTI".into(), incr(&pair[0]), incr(&pair[1]), "EXEC".into()];
                        match client.pipeline(&all).pop().unwrap() {
                            Value::Array(values) => {
                                assert_eq!(values[0], values[1]);
                                count += 1;
                            }
                            reply => assert!(error(&reply).contains("TRYAGAIN"), "{reply:?}"),
                        }
                    }
                    count
                })
            })
            .collect();
        let share = 16_384 / NODES + 1;
        for epoch in 2..12 {
            std::thread::sleep(Duration::from_millis(50));
            let before = view_of_few(epoch, NODES, 2);
            let homes: Vec<Vec<Node>> = (0..NODES)
                .map(|at| {
                    let mut homes = before.slots.owners(at * share).to_vec();
                    homes.rotate_left(usize::from(epoch.is_multiple_of(2)));
                    homes
                })
                .collect();
            let slots = SlotMap::collect(|slot| &homes[usize::from(slot / share)]);
            let next = Arc::new(View { slots, ..View::clone(&before) });
            (0..NODES).for_each(|node| {
                members.network.tell(node, Event::View(next.clone(), infos(NODES)));
            });
        }
        is_over.store(true, SeqCst);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let mut client = members.client(3);
    for key in &pair {
        assert_eq!(number(&client.call(&format!("GET {key}"))), Some(counted));
    }
}
