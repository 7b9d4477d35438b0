//! Members that hold only some of the hash slots.

use crate::bench::{Client, Members, bulk, encoded, error, key_at, ok};
use crate::network::{infos, view_of_few};
use petrel_cluster::{Node, SlotMap, View};
use petrel_resp::Value;
use petrel_server::cluster::Event;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(500);

/// A cluster of four members and two owners of each slot.
fn members() -> Members {
    Members::start_few(4, 2, DELAY)
}

fn key(home: u16, name: &str) -> String {
    key_at(home, 4, name)
}

fn call(client: &mut Client, words: &[&str]) -> Value {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    petrel_resp::encode_command(&words, &mut bytes);
    client.stream.write_all(&bytes).unwrap();
    client.reply()
}

#[test]
fn every_member_reads_and_writes_every_key() {
    let members = members();
    let mut clients: Vec<_> = (0..4).map(|node| members.client(node)).collect();
    for home in 0..4 {
        let key = key(home, "k");
        for (at, client) in clients.iter_mut().enumerate() {
            let value = format!("v{at}");
            let commands = [format!("SET {key} {value}"), format!("GET {key}"), "PING".into()];
            let pong = Value::Simple("PONG".into());
            assert_eq!(client.pipeline(&commands), [ok(), bulk(&value), pong]);
            assert_eq!(client.call(&format!("STRLEN {key}")), Value::Integer(2));
        }
        assert_eq!(clients[0].call(&format!("GET {key}x")), Value::Null);
    }
    // Replies and effects keep their order, whichever slots are owned here.
    for client in &mut clients {
        let (mut commands, mut replies) = (Vec::new(), Vec::new());
        for round in 0..400u16 {
            let key = key(round % 4, "order");
            let value = round.to_string();
            commands.extend([format!("SET {key} {value}"), format!("GET {key}")]);
            replies.extend([ok(), bulk(&value)]);
        }
        assert_eq!(client.pipeline(&commands), replies);
    }
}

#[test]
fn commands_of_several_keys() {
    let members = members();
    let keys = [0, 1, 2, 3].map(|home| key(home, "many"));
    let (beside, gone) = (key(2, "beside"), key(3, "gone"));
    for node in 0..4 {
        let mut client = members.client(node);
        let [a, b, c, d] = &keys;
        assert_eq!(client.call(&format!("MSET {a} 1 {b} 2 {c} 3 {d} 4 {beside} 5")), ok());
        let all = ["3", "1", "5"].map(bulk);
        let [three, one, five] = all;
        let got = client.call(&format!("MGET {c} {gone} {a} {beside} {c}"));
        let elements = vec![three.clone(), Value::Null, one, five, three];
        assert_eq!(got, Value::Array(elements));
        let count = |n| Value::Integer(n);
        assert_eq!(client.call(&format!("EXISTS {a} {b} {gone} {c} {c}")), count(4));
        assert_eq!(client.call(&format!("TOUCH {d} {beside} {gone}")), count(2));
        // One home, several slots.
        assert_eq!(
            client.call(&format!("MGET {c} {beside}")),
            Value::Array(vec![bulk("3"), bulk("5")])
        );
        assert_eq!(client.call(&format!("DEL {c} {beside}")), count(2));
        assert_eq!(client.call(&format!("MSET {c} 3 {beside} 5")), ok());
        // A command that is a single commit must stay with one primary.
        for command in [
            format!("RENAME {a} {b}"),
            format!("MSETNX {c} 1 {d} 2"),
            format!("LMPOP 2 {c} {a} LEFT"),
            format!("SINTER {a} {b} {c} {d}"),
            format!("EVAL return(1) 2 {c} {d}"),
        ] {
            assert!(error(&client.call(&command)).starts_with("CROSSSLOT"), "{command}");
        }
        client.call("HELLO 3");
        let got = client.call(&format!("MGET {c} {gone} {a}"));
        assert_eq!(got, Value::Array(vec![bulk("3"), Value::Null, bulk("1")]));
        client.call("HELLO 2");
        let wrong = format!("SET {gone} v");
        assert_eq!(client.call(&wrong), ok());
        assert!(error(&client.call(&format!("LLEN {gone}"))).starts_with("WRONGTYPE"));
        assert_eq!(client.call(&format!("DEL {a} {b} {c} {d} {beside} {gone}")), count(6));
    }
    // The keys are nowhere afterwards: each home has removed its own.
    for key in &keys {
        (0..4).for_each(|node| {
            members.await_reply(node, &format!("EXISTS {key}"), &Value::Integer(0))
        });
    }
}

#[test]
fn transactions_read_where_the_keys_are() {
    let members = members();
    let keys = [0, 1, 2, 3].map(|home| key(home, "t"));
    let mut client = members.client(0);
    for key in &keys {
        assert_eq!(client.call(&format!("SET {key} v")), ok());
        let commands =
            ["MULTI".into(), format!("GET {key}"), format!("STRLEN {key}"), "EXEC".into()];
        let replies = client.pipeline(&commands);
        assert_eq!(replies[3], Value::Array(vec![bulk("v"), Value::Integer(1)]), "{key}");
    }
    // Member 0 is a home of the slots of 0 and 3.
    let transaction = |client: &mut Client, commands: &[String]| {
        let mut all = vec!["MULTI".to_owned()];
        all.extend_from_slice(commands);
        all.push("EXEC".into());
        client.pipeline(&all).pop().unwrap()
    };
    let get = |at: usize| format!("GET {}", keys[at]);
    let both = Value::Array(vec![bulk("v"), bulk("v")]);
    assert_eq!(transaction(&mut client, &[get(0), get(3)]), both);
    let crossing = transaction(&mut client, &[get(1), get(2)]);
    assert!(error(&crossing).contains("CROSSSLOT"));
    let beside = key(2, "beside");
    assert_eq!(client.call(&format!("SET {beside} v")), ok());
    assert_eq!(transaction(&mut client, &[get(2), format!("GET {beside}")]), both);
    let written = transaction(&mut client, &[get(2), format!("SET {beside} w")]);
    assert_eq!(written, Value::Array(vec![bulk("v"), ok()]));
}

#[test]
fn scripts_see_no_false_nil() {
    let members = members();
    let keys = [0, 1, 2, 3].map(|home| key(home, "s"));
    let mut client = members.client(0);
    for key in &keys {
        assert_eq!(client.call(&format!("SET {key} v")), ok());
        for eval in ["EVAL", "EVAL_RO"] {
            let got = call(&mut client, &[eval, "return redis.call('GET', KEYS[1])", "1", key]);
            assert_eq!(got, bulk("v"), "{eval}");
        }
    }
    for (home, key) in keys.iter().enumerate() {
        let script = format!("return redis.call('GET', '{key}')");
        let got = call(&mut client, &["EVAL", &script, "0"]);
        match home {
            0 | 3 => assert_eq!(got, bulk("v")),
            _ => assert!(error(&got).contains("to read a key that this node does not hold")),
        }
    }
}

#[test]
fn a_script_writes_slots_of_one_primary() {
    let members = members();
    let (first, second, away) = (key(0, "one"), key(0, "other"), key(1, "away"));
    let mut client = members.client(0);
    let script = format!("redis.call('SET', '{first}', 1) redis.call('INCR', '{first}') return 1");
    assert_eq!(call(&mut client, &["EVAL", &script, "0"]), Value::Integer(1));
    let script = format!("redis.call('SET', '{second}', 1) return redis.call('INCR', '{first}')");
    assert_eq!(call(&mut client, &["EVAL", &script, "0"]), Value::Integer(3));
    let script = format!("redis.call('SET', '{away}', 1) return redis.call('INCR', '{first}')");
    let failed = call(&mut client, &["EVAL", &script, "0"]);
    assert!(error(&failed).contains("whose primary is another node"), "{failed:?}");
    let script = format!("redis.call('GET', '{second}') return redis.call('INCR', '{first}')");
    assert_eq!(call(&mut client, &["EVAL", &script, "0"]), Value::Integer(4));
}

#[test]
fn patterns_of_users_who_may_not_read_all() {
    let members = members();
    let (here, away) = (key(0, "p"), key(1, "p"));
    let mut client = members.client(0);
    for tag in [&here, &away] {
        client.call(&format!("RPUSH {tag}list 1"));
        client.call(&format!("SET {tag}secret1 x"));
    }
    call(&mut client, &["ACL", "SETUSER", "u", "on", ">p", "~*list", "+@all"]);
    call(&mut client, &["AUTH", "u", "p"]);
    let secret = |tag: &str| format!("SORT {tag}list BY nosort GET {tag}secret*");
    assert!(error(&client.call(&secret(&here))).contains("insufficient ACL permissions"));
    assert!(error(&client.call(&secret(&away))).contains("users who may not read all keys"));
    assert_eq!(client.call(&format!("SORT {away}list")), Value::Array(vec![bulk("1")]));
    assert!(error(&client.call(&format!("GET {away}secret1"))).starts_with("NOPERM"));
}

/// From now on the other home of each slot is its primary.
fn swap(members: &Members, epoch: u64) {
    let before = view_of_few(epoch, 4, 2);
    let share = 16_384 / 4 + 1;
    let homes: Vec<Vec<Node>> = (0..4)
        .map(|at| {
            let mut homes = before.slots.owners(at * share).to_vec();
            homes.rotate_left(usize::from(epoch.is_multiple_of(2)));
            homes
        })
        .collect();
    let slots = SlotMap::collect(|slot| &homes[usize::from(slot / share)]);
    let next = Arc::new(View { slots, ..View::clone(&before) });
    for node in 0..4 {
        members.network.tell(node, Event::View(next.clone(), infos(4)));
    }
}

#[test]
fn primaries_change_under_load() {
    let members = members();
    let mut client = members.client(0);
    let all: Vec<String> = (0..500).map(|n| format!("key:{n}")).collect();
    for key in &all {
        assert_eq!(client.call(&format!("SET {key} v")), ok());
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let walkers: Vec<_> = (0..4)
        .map(|node| {
            let (mut client, all, is_over) = (members.client(node), all.clone(), is_over.clone());
            std::thread::spawn(move || {
                let mut walks = 0;
                while !is_over.load(SeqCst) || walks == 0 {
                    let mut found = scan(&mut client, " COUNT 50");
                    found.retain(|key| key.starts_with("key:"));
                    found.sort();
                    found.dedup();
                    assert_eq!(found.len(), all.len());
                    walks += 1;
                    let key = &all[walks % all.len()];
                    assert_eq!(retried(&mut client, &format!("GET {key}")), bulk("v"));
                    let count = retried(&mut client, &format!("EXISTS {}", all[..50].join(" ")));
                    assert_eq!(count, Value::Integer(50));
                    let counter = format!("n{node}");
                    assert_eq!(
                        retried(&mut client, &format!("INCR {counter}")),
                        Value::Integer(walks as i64)
                    );
                    assert_eq!(
                        retried(&mut client, &format!("GET {counter}")),
                        bulk(&walks.to_string())
                    );
                }
                walks
            })
        })
        .collect();
    for epoch in 2..12 {
        std::thread::sleep(Duration::from_millis(60));
        swap(&members, epoch);
    }
    is_over.store(true, SeqCst);
    walkers.into_iter().for_each(|walker| assert!(walker.join().unwrap() > 0));
    (0..4).for_each(|node| members.await_reply(node, "DBSIZE", &Value::Integer(504)));
}

/// Calls a command until its slots are not on their way.
fn retried(client: &mut Client, command: &str) -> Value {
    loop {
        match client.call(command) {
            Value::Error(text) if text.starts_with(b"TRYAGAIN") => {
                std::thread::sleep(Duration::from_millis(2));
            }
            reply => return reply,
        }
    }
}

#[test]
fn a_client_that_caches_hears_of_changes_elsewhere() {
    let members = members();
    let (here, away) = (key(0, "c"), key(1, "c"));
    let mut client = members.client(0);
    client.call(&format!("MSET {here} 1 {away} 2"));
    client.call("HELLO 3");
    let forget = |key: &str| Value::Push(vec![bulk("invalidate"), Value::Array(vec![bulk(key)])]);
    // Until all members are known to tell of changes, reads are forgotten at once.
    for node in 0..4 {
        members.client(node).call("PUBLISH channel text");
    }
    let pong = Value::Simple("PONG".into());
    loop {
        assert_eq!(client.call("CLIENT TRACKING ON"), ok());
        client.stream.write_all(&encoded(&[format!("GET {away}"), "PING".into()])).unwrap();
        assert_eq!(client.reply(), bulk("2"));
        match client.reply() {
            reply if reply == pong => break,
            push => assert_eq!(push, forget(&away)),
        }
        assert_eq!(client.reply(), pong);
        assert_eq!(client.call("CLIENT TRACKING OFF"), ok());
    }
    assert_eq!(client.call(&format!("GET {here}")), bulk("1"));
    assert_eq!(members.client(2).call(&format!("SET {away} 3")), ok());
    assert_eq!(client.reply(), forget(&away));
    assert_eq!(members.client(2).call(&format!("SET {here} 3")), ok());
    assert_eq!(client.reply(), forget(&here));
    let mut second = members.client(0);
    let Value::Integer(id) = client.call("CLIENT ID") else { panic!("no number") };
    assert_eq!(second.call(&format!("CLIENT TRACKING ON REDIRECT {id}")), ok());
    for key in [&here, &away] {
        assert_eq!(second.call(&format!("GET {key}")), bulk("3"));
        assert_eq!(members.client(2).call(&format!("SET {key} 4")), ok());
        assert_eq!(client.reply(), forget(key));
    }
}

#[test]
fn reads_that_wait_do_so_at_a_home() {
    let members = members();
    let streams = [0, 1, 2, 3].map(|home| key(home, "x"));
    for stream in &streams {
        let mut client = members.client(0);
        client.send(&[format!("XREAD BLOCK 0 STREAMS {stream} $")]);
        assert!(client.is_silent(Duration::from_millis(30)));
        members.client(1).call(&format!("XADD {stream} 1-1 f v"));
        let Value::Array(read) = client.reply() else { panic!("no entries") };
        assert_eq!(read.len(), 1);
    }
}

#[test]
fn sorting_by_keys_beside_the_sorted_one_only() {
    let members = members();
    for node in 0..4 {
        let mut client = members.client(node);
        let tag = key(1, "sort");
        client.call(&format!("RPUSH {tag}l 2 1"));
        client.call(&format!("MSET {tag}w_1 9 {tag}w_2 8"));
        let sorted = Value::Array(vec![bulk("2"), bulk("1")]);
        assert_eq!(client.call(&format!("SORT {tag}l BY {tag}w_*")), sorted);
        assert_eq!(client.call(&format!("SORT_RO {tag}l BY {tag}w_*->f")).clone(), {
            Value::Array(vec![bulk("1"), bulk("2")])
        });
        for (option, pattern) in [("BY", "w_*"), ("GET", "w_*"), ("BY", "w*{x}"), ("GET", "{}w*")] {
            for sort in ["SORT", "SORT_RO"] {
                let refused = client.call(&format!("{sort} {tag}l {option} {pattern}"));
                let text = format!("ERR {option} option of SORT denied in cluster mode when keys");
                assert!(error(&refused).starts_with(&text), "{refused:?}");
            }
        }
        let got = client.call(&format!("SORT {tag}l BY nosort GET # GET {tag}w_*"));
        let pairs = ["2", "8", "1", "9"].map(bulk).to_vec();
        assert_eq!(got, Value::Array(pairs));
        client.call(&format!("DEL {tag}l {tag}w_1 {tag}w_2"));
    }
}

/// The keys that a whole walk by `SCAN` finds.
fn scan(client: &mut Client, options: &str) -> Vec<String> {
    let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
    loop {
        let reply = retried(client, &format!("SCAN {cursor}{options}"));
        let Value::Array(reply) = reply else { panic!("{reply:?}") };
        let [Value::Bulk(next), Value::Array(found)] = &reply[..] else { panic!("{reply:?}") };
        keys.extend(found.iter().map(text));
        cursor = String::from_utf8(next.to_vec()).unwrap();
        if cursor == "0" {
            return keys;
        }
    }
}

fn text(value: &Value) -> String {
    let Value::Bulk(text) = value else { panic!("{value:?}") };
    String::from_utf8(text.to_vec()).unwrap()
}

#[test]
fn whole_databases_are_those_of_all_homes() {
    let members = members();
    let mut client = members.client(0);
    for command in ["DBSIZE", "RANDOMKEY"] {
        let nothing = if command == "DBSIZE" { Value::Integer(0) } else { Value::Null };
        assert_eq!(client.call(command), nothing);
    }
    assert_eq!(client.call("KEYS *"), Value::Array(Vec::new()));
    assert_eq!(scan(&mut client, ""), Vec::<String>::new());
    let mut all: Vec<String> = (0..1000).map(|n| format!("key:{n}")).collect();
    all.sort();
    let commands: Vec<String> = all.iter().map(|key| format!("SET {key} v")).collect();
    assert!(client.pipeline(&commands).iter().all(|reply| *reply == ok()));
    for node in 0..4 {
        let mut client = members.client(node);
        // All of them were executed when they were answered.
        assert_eq!(client.call("DBSIZE"), Value::Integer(1000));
        let Value::Array(listed) = client.call("KEYS *") else { panic!("no array") };
        let mut listed: Vec<String> = listed.iter().map(text).collect();
        listed.sort();
        assert_eq!(listed, all);
        let Value::Array(listed) = client.call("KEYS key:77*") else { panic!("no array") };
        assert_eq!(listed.len(), 11);
        for (options, count) in [("", 1000), (" COUNT 100 MATCH key:77*", 11), (" TYPE hash", 0)] {
            let mut found = scan(&mut client, options);
            found.sort();
            found.dedup();
            assert_eq!(found.len(), count, "{options}");
        }
        let drawn: Vec<String> = (0..40).map(|_| text(&client.call("RANDOMKEY"))).collect();
        assert!(
            drawn.iter().all(|key| all.contains(key)) && drawn.iter().any(|key| *key != drawn[0])
        );
        for command in ["DBSIZE", "KEYS *", "SCAN 0", "RANDOMKEY"] {
            client.call("MULTI");
            assert!(error(&client.call(command)).contains("in a transaction or script"));
            client.call("DISCARD");
            let words: Vec<String> = command.split(' ').map(|word| format!("'{word}'")).collect();
            let script = format!("return redis.call({})", words.join(","));
            let failed = call(&mut client, &["EVAL", &script, "0"]);
            assert!(error(&failed).contains("in a transaction or script"));
        }
        assert_eq!(error(&client.call("SCAN x")), "ERR invalid cursor");
        client.call("SELECT 1");
        assert_eq!(client.call("DBSIZE"), Value::Integer(0));
        client.call("HELLO 3");
        assert_eq!(client.call("RANDOMKEY"), Value::Null);
    }
    // An unknown cursor restarts the scan.
    for cursor in ["1", "18446744073709551615", "4611686018427387904"] {
        let Value::Array(reply) = client.call(&format!("SCAN {cursor}")) else {
            panic!("no array")
        };
        assert!(text(&reply[0]) != "0" && reply[1] == Value::Array(Vec::new()));
    }
    assert_eq!(client.pipeline(&["FLUSHALL".into(), "DBSIZE".into()]), [ok(), Value::Integer(0)]);
}

#[test]
fn waiting_counts_homes() {
    let members = members();
    let mut client = members.client(0);
    (0..4).for_each(|node| members.await_links(node, 3));
    for home in 0..4 {
        assert_eq!(client.call(&format!("SET {} v", key(home, "w"))), ok());
        assert_eq!(client.call("WAIT 1 0"), Value::Integer(1));
    }
    // Three others have applied it, of which one is a home.
    assert_eq!(client.call("WAIT 2 500"), Value::Integer(1));
}

#[test]
fn a_home_that_is_out_of_reach_is_named() {
    let members = members();
    let mut client = members.client(0);
    members.await_links(0, 3);
    let keys = [key(2, "far"), key(2, "further")];
    assert_eq!(client.call(&format!("MSET {} 1 {} 2", keys[0], keys[1])), ok());
    members.network.cut(0, 2);
    members.await_links(0, 2);
    for command in [format!("MGET {} {}", keys[0], keys[1]), "DBSIZE".into(), "FLUSHALL".into()] {
        assert!(error(&client.call(&command)).starts_with("CLUSTERDOWN"), "{command}");
    }
    members.network.raise(0, 2);
    members.await_links(0, 3);
    let both = Value::Array(vec![bulk("1"), bulk("2")]);
    assert_eq!(client.call(&format!("MGET {} {}", keys[0], keys[1])), both);
}

#[test]
fn reads_go_elsewhere_once_the_data_do() {
    let members = members();
    let (stream, text) = (key(0, "left"), key(0, "gone"));
    let mut client = members.client(1);
    assert_eq!(client.call(&format!("SET {text} v")), ok());
    assert_eq!(client.call(&format!("GET {text}")), bulk("v"));
    let mut waiting = members.client(1);
    waiting.send(&[format!("XREAD BLOCK 0 STREAMS {stream} $")]);
    assert!(waiting.is_silent(Duration::from_millis(30)));
    // Member 1 is a home of these slots no longer.
    let before = view_of_few(2, 4, 2);
    let only = before.slots.owners(0)[..1].to_vec();
    let share = 16_384 / 4 + 1;
    let slots = SlotMap::collect(|slot| match slot < share {
        true => &only,
        false => before.slots.owners(slot),
    });
    let next = Arc::new(View { slots, ..View::clone(&before) });
    for node in 0..4 {
        members.network.tell(node, Event::View(next.clone(), infos(4)));
    }
    let mut third = members.client(2);
    assert_eq!(retried(&mut third, &format!("SET {text} w")), ok());
    members.await_text(1, &format!("GET {text}"), "w");
    assert!(matches!(third.call(&format!("XADD {stream} * f v")), Value::Bulk(_)));
    let Value::Array(read) = waiting.reply() else { panic!("no entries") };
    assert_eq!(read.len(), 1);
    members.await_reply(1, "DBSIZE", &Value::Integer(2));
}

#[test]
fn homes_hear_of_copies_that_were_evicted() {
    let members = members();
    let shared = |node: u16| {
        let Value::Bulk(info) = members.client(node).call("CLUSTER INFO") else {
            panic!("no text")
        };
        let info = String::from_utf8(info.to_vec()).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("cluster_keys_shared:"));
        line.unwrap().trim().parse::<usize>().unwrap()
    };
    // Copies are cached only from a primary that was one in an earlier view too.
    let next = view_of_few(2, 4, 2);
    for node in 0..4 {
        members.network.tell(node, Event::View(next.clone(), infos(4)));
        members.await_text(node, "CLUSTER INFO", "cluster_current_epoch:2\r\n");
    }
    let (mut home, mut reader) = (members.client(2), members.client(0));
    let names: Vec<String> = (0..2000).map(|n| format!("{}{n}", key(2, "near"))).collect();
    let value = "v".repeat(500);
    let sets: Vec<String> = names.iter().map(|name| format!("SET {name} {value}")).collect();
    assert!(home.pipeline(&sets).iter().all(|reply| *reply == ok()));
    let gets: Vec<String> = names.iter().map(|name| format!("GET {name}")).collect();
    assert!(reader.pipeline(&gets).iter().all(|reply| *reply == bulk(&value)));
    assert_eq!(shared(2), 2000);
    // Copies of other keys, in another slot, evict these.
    assert_eq!(reader.call("CONFIG SET maxmemory 600000"), ok());
    let others: Vec<String> = (0..500).map(|n| format!("{}{n}", key(2, "other"))).collect();
    let sets: Vec<String> = others.iter().map(|name| format!("SET {name} {value}")).collect();
    assert!(home.pipeline(&sets).iter().all(|reply| *reply == ok()));
    let gets: Vec<String> = others.iter().map(|name| format!("GET {name}")).collect();
    assert!(reader.pipeline(&gets).iter().all(|reply| *reply == bulk(&value)));
    while shared(2) > 1600 {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Remaining copies are updated, and evicted keys are read again.
    let sets: Vec<String> = names.iter().map(|name| format!("SET {name} w")).collect();
    assert!(home.pipeline(&sets).iter().all(|reply| *reply == ok()));
    for name in &names {
        members.await_reply(0, &format!("GET {name}"), &bulk("w"));
    }
}
