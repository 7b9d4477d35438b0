//! Commands and transactions with keys of several primaries.

use crate::bench::{Client, Members, bulk, error, key_at, ok};
use petrel_resp::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(500);

fn integer(number: i64) -> Value {
    Value::Integer(number)
}

fn texts(values: &[&str]) -> Value {
    Value::Array(values.iter().map(|value| bulk(value)).collect())
}

/// Executes commands as a transaction.
fn exec(client: &mut Client, commands: &[String]) -> Value {
    let ends = ["MULTI".to_owned(), "EXEC".to_owned()];
    let all: Vec<String> =
        ends[..1].iter().chain(commands).chain(&ends[1..]).map(String::clone).collect();
    client.pipeline(&all).pop().unwrap()
}

/// Commands with one key at each of three members, and their replies.
fn script([a, b, c]: [&str; 3]) -> Vec<(String, Value)> {
    vec![
        (format!("MSETNX {a} 1 {b} 2"), integer(1)),
        (format!("MSETNX {c} 1 {b} 2"), integer(0)),
        (format!("RENAME {a} {c}"), ok()),
        (format!("GET {c}"), bulk("1")),
        (format!("EXISTS {a}"), integer(0)),
        (format!("RENAMENX {c} {b}"), integer(0)),
        (format!("COPY {c} {a}"), integer(1)),
        (format!("COPY {c} {a} DB 3"), integer(1)),
        (format!("BITOP OR {b} {a} {c}"), integer(1)),
        (format!("GET {b}"), bulk("1")),
        (format!("LCS {a} {b}"), bulk("1")),
        (format!("DEL {a} {b} {c}"), integer(3)),
        (format!("RPUSH {a} 3 1 2"), integer(3)),
        (format!("LMOVE {a} {b} LEFT RIGHT"), bulk("3")),
        (format!("RPOPLPUSH {a} {b}"), bulk("2")),
        (format!("SORT {b} STORE {c}"), integer(2)),
        (format!("LRANGE {c} 0 -1"), texts(&["2", "3"])),
        (format!("LMPOP 2 {a} {b} LEFT"), Value::Array(vec![bulk(a), texts(&["1"])])),
        (format!("DEL {a} {b} {c}"), integer(2)),
        (format!("SADD {a} x y z"), integer(3)),
        (format!("SMOVE {a} {b} x"), integer(1)),
        (format!("SMOVE {a} {c} none"), integer(0)),
        (format!("SUNIONSTORE {c} {a} {b}"), integer(3)),
        (format!("SINTERCARD 2 {c} {b}"), integer(1)),
        (format!("SINTER {c} {b}"), texts(&["x"])),
        (format!("SDIFFSTORE {a} {c} {b}"), integer(2)),
        (format!("DEL {a} {b} {c}"), integer(3)),
        (format!("ZADD {a} 1 x 2 y"), integer(2)),
        (format!("ZADD {b} 5 y"), integer(1)),
        (format!("ZUNIONSTORE {c} 2 {a} {b}"), integer(2)),
        (format!("ZSCORE {c} y"), bulk("7")),
        (format!("ZRANGESTORE {b} {c} 0 0"), integer(1)),
        (format!("ZINTER 2 {a} {b}"), texts(&["x"])),
        (format!("DEL {a} {b} {c}"), integer(3)),
        (format!("PFADD {a} x y"), integer(1)),
        (format!("PFADD {b} z"), integer(1)),
        (format!("PFMERGE {c} {a} {b}"), ok()),
        (format!("PFCOUNT {a} {b} {c}"), integer(3)),
        (format!("GEOADD {b}geo 13 38 x"), integer(1)),
        (format!("GEOSEARCHSTORE {a} {b}geo FROMMEMBER x BYRADIUS 1 km"), integer(1)),
        (format!("DEL {a} {b} {c} {b}geo"), integer(4)),
    ]
}

fn works_at_all(members: &Members, nodes: u16) {
    for node in 0..nodes {
        let mut client = members.client(node);
        let keys = [0, 1, 2].map(|of| key_at((of + node) % nodes, nodes, "apart"));
        for (command, reply) in script(keys.each_ref().map(String::as_str)) {
            assert_eq!(client.call(&command), reply, "{command} at {node}");
        }
        assert!(error(&client.call(&format!("RENAME {} {}", keys[0], keys[1]))).starts_with("ERR"));
        client.call(&format!("SET {} text", keys[0]));
        let wrong = client.call(&format!("SUNIONSTORE {} {} {}", keys[2], keys[1], keys[0]));
        assert!(error(&wrong).starts_with("WRONGTYPE"));
        client.call("HELLO 3");
        client.call(&format!("SADD {} x", keys[1]));
        let set = client.call(&format!("SUNION {} {}", keys[1], keys[2]));
        assert!(matches!(set, Value::Set(_)), "{set:?}");
        client.call("HELLO 2");
        client.call("SELECT 3");
        assert_eq!(client.call(&format!("DEL {} {}", keys[0], keys[1])), integer(1));
        client.call("SELECT 0");
        assert_eq!(client.call(&format!("DEL {} {}", keys[0], keys[1])), integer(2));
    }
}

#[test]
fn commands_work_on_keys_of_several_primaries() {
    works_at_all(&Members::start(3, DELAY), 3);
    works_at_all(&Members::start_few(4, 2, DELAY), 4);
}

#[test]
fn transactions_have_keys_of_several_primaries() {
    let members = Members::start_few(4, 2, DELAY);
    for node in 0..4 {
        let mut client = members.client(node);
        let [a, b, c] = [0, 1, 2].map(|of| key_at((of + node) % 4, 4, "tx"));
        let commands = [
            format!("INCR {a}"),
            format!("LPUSH {b} x"),
            "PING".into(),
            format!("INCR {b}"),
            format!("RENAME {a} {c}"),
            format!("GET {c}"),
            format!("SORT {b}"),
        ];
        let Value::Array(replies) = exec(&mut client, &commands) else { panic!("no array") };
        assert_eq!(replies[..3], [integer(1), integer(1), Value::Simple("PONG".into())]);
        assert!(error(&replies[3]).starts_with("WRONGTYPE"));
        assert_eq!(replies[4..6], [ok(), bulk("1")]);
        assert!(error(&replies[6]).starts_with("ERR One or more"));
        // Each part is at its primary when the reply is here, and reads are of one moment.
        for reader in 0..4 {
            let commands = [&a, &b, &c].map(|key| format!("EXISTS {key}"));
            let mut client = members.client(reader);
            let expected = Value::Array([0, 1, 1].map(integer).into());
            assert_eq!(exec(&mut client, &commands), expected);
        }
        assert_eq!(client.call(&format!("DEL {a} {b} {c}")), integer(2));
        // What cannot be a part of one says so, and nothing of it is executed.
        for refused in ["PUBLISH channel text", "FLUSHALL", "DBSIZE", "SELECT 1"] {
            let reply =
                exec(&mut client, &[format!("INCR {a}"), format!("INCR {b}"), refused.into()]);
            assert!(error(&reply).starts_with("EXECABORT"), "{refused}: {reply:?}");
        }
        assert_eq!(client.call(&format!("EXISTS {a} {b}")), integer(0));
        for refused in [format!("WATCH {a} {b}"), format!("BLPOP {a} {b} 0")] {
            assert!(error(&client.call(&refused)).starts_with("CROSSSLOT"), "{refused}");
        }
    }
}

#[test]
fn a_connection_sees_its_commands_in_order() {
    let members = Members::start_few(4, 2, DELAY);
    for node in 0..4 {
        let mut client = members.client(node);
        let [a, b] = [0, 1].map(|of| key_at((of + node) % 4, 4, "order"));
        let mut commands = Vec::new();
        for _ in 0..20 {
            commands.extend([
                format!("INCR {a}"),
                format!("RENAME {a} {b}"),
                format!("INCR {b}"),
                format!("RENAME {b} {a}"),
                format!("GET {a}"),
            ]);
        }
        let replies = client.pipeline(&commands);
        for (round, replies) in replies.chunks(5).enumerate() {
            let count = 2 * round as i64;
            let text = bulk(&(count + 2).to_string());
            assert_eq!(replies, [integer(count + 1), ok(), integer(count + 2), ok(), text]);
        }
        client.call(&format!("DEL {a}"));
    }
}

/// The number in a reply to `GET`.
fn number(value: &Value) -> i64 {
    match value {
        Value::Bulk(text) => String::from_utf8_lossy(text).parse().unwrap(),
        other => panic!("{other:?} is no number"),
    }
}

#[test]
fn transfers_keep_their_sum() {
    const ACCOUNTS: usize = 6;
    let members = Members::start_few(4, 2, DELAY);
    let keys: Vec<String> =
        (0..ACCOUNTS).map(|at| key_at(at as u16 % 4, 4, &format!("account{at}"))).collect();
    let mut client = members.client(0);
    keys.iter().for_each(|key| assert_eq!(client.call(&format!("SET {key} 100")), ok()));
    let (is_over, done, read) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (keys, is_over, done, read) = (&keys, &is_over, &done, &read);
    std::thread::scope(|scope| {
        for node in 0..4u16 {
            let mut client = members.client(node);
            scope.spawn(move || {
                for at in usize::from(node).. {
                    if is_over.load(SeqCst) {
                        break;
                    }
                    let (from, to) = (&keys[at % ACCOUNTS], &keys[(at * 5 + 1) % ACCOUNTS]);
                    let commands = [format!("DECRBY {from} 1"), format!("INCRBY {to} 1")];
                    if let Value::Array(_) = exec(&mut client, &commands) {
                        done.fetch_add(1, SeqCst);
                    }
                }
            });
            // Plain commands of the same slots get their turn.
            let mut client = members.client(node);
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    let gets: Vec<String> = keys.iter().map(|key| format!("GET {key}")).collect();
                    if let Value::Array(values) = exec(&mut client, &gets) {
                        assert_eq!(values.iter().map(number).sum::<i64>(), 100 * ACCOUNTS as i64);
                        read.fetch_add(1, SeqCst);
                    }
                    number(&client.call(&gets[0]));
                    let len = client.call(&format!("APPEND {} ", keys[0]));
                    assert!(matches!(len, Value::Integer(1..)), "{len:?}");
                }
            });
        }
        while done.load(SeqCst) < 400 || read.load(SeqCst) < 40 {
            std::thread::sleep(Duration::from_millis(5));
        }
        is_over.store(true, SeqCst);
    });
    let values: i64 = keys.iter().map(|key| number(&client.call(&format!("GET {key}")))).sum();
    assert_eq!(values, 100 * ACCOUNTS as i64);
}
