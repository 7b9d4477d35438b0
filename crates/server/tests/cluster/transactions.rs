//! Transactions, as a whole at the home of their keys.

use crate::bench::{Members, bulk, error, key_at, ok, turn};
use petrel_resp::Value;
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(500);

fn queued() -> Value {
    Value::Simple("QUEUED".into())
}

#[test]
fn transactions_run_where_their_keys_are() {
    let members = Members::start(2, DELAY);
    for home in [0, 1] {
        let key = key_at(home, 2, "tx");
        let mut client = members.client(0);
        let commands = [
            "MULTI".into(),
            format!("INCR {key}"),
            format!("LPUSH {key}list a b"),
            "PING".into(),
            format!("LPOP {key}"),
            format!("GET {key}"),
            "EXEC".into(),
            format!("GET {key}"),
        ];
        let replies = client.pipeline(&commands);
        assert_eq!(replies[..6], [ok(), queued(), queued(), queued(), queued(), queued()]);
        let Value::Array(results) = &replies[6] else { panic!("{:?}", replies[6]) };
        assert_eq!(
            results[..3],
            [Value::Integer(1), Value::Integer(2), Value::Simple("PONG".into())]
        );
        assert!(error(&results[3]).starts_with("WRONGTYPE"));
        assert_eq!((&results[4], &replies[7]), (&bulk("1"), &bulk("1")));
        // It is over.
        assert_eq!(error(&client.call("EXEC")), "ERR EXEC without MULTI");
    }
}

#[test]
fn transactions_refuse_what_cannot_be_a_part() {
    let members = Members::start(2, DELAY);
    let (here, away) = (key_at(0, 2, "tx"), key_at(1, 2, "tx"));
    let mut client = members.client(0);
    // An unsupported command aborts the transaction.
    let load = "FUNCTION LOAD text";
    let commands = ["MULTI".into(), load.into(), format!("INCR {away}"), "EXEC".into()];
    let replies = client.pipeline(&commands);
    let expected = "ERR FUNCTION|LOAD is not supported in a transaction or script of a cluster: several members execute \
                    it, not all at one moment; send it by itself";
    assert_eq!(error(&replies[1]), expected);
    assert!(error(&replies[3]).starts_with("EXECABORT"));
    let commands = ["MULTI".into(), "SELECT 1".into(), format!("INCR {away}"), "EXEC".into()];
    let replies = client.pipeline(&commands);
    assert!(error(&replies[3]).contains("SELECT is not supported in a transaction"));
    assert_eq!(client.call(&format!("EXISTS {here} {away}")), Value::Integer(0));
}

#[test]
fn transactions_watch_keys_whose_home_is_here() {
    let members = Members::start(2, DELAY);
    let key = key_at(0, 2, "watched");
    let (mut client, mut other) = (members.client(0), members.client(1));
    for (is_changed, reply) in
        [(false, Value::Array(vec![Value::Integer(1)])), (true, Value::NullArray)]
    {
        assert_eq!(client.call(&format!("WATCH {key}")), ok());
        if is_changed {
            // A client of another node; its write runs here.
            assert_eq!(other.call(&format!("INCR {key}")), Value::Integer(2));
        }
        let commands = ["MULTI".into(), format!("INCR {key}"), "EXEC".into()];
        assert_eq!(client.pipeline(&commands)[2], reply);
    }
}

#[test]
fn transactions_watch_keys_whose_home_is_elsewhere() {
    let members = Members::start(3, DELAY);
    let keys = [0, 1, 2].map(|home| key_at(home, 3, "watch"));
    let key = &keys[1];
    let mut client = members.client(0);
    let exec = |client: &mut crate::bench::Client, key: &str| {
        let commands = ["MULTI".into(), format!("APPEND {key} x"), "EXEC".into()];
        client.pipeline(&commands)[2].clone()
    };
    let mut len = 0;
    let mut done = |by: i64| {
        len += by;
        Value::Array(vec![Value::Integer(len)])
    };
    for changer in 0..3 {
        let mut other = members.client(changer);
        // No change, only a read, and a change of another key in the slot.
        assert_eq!(client.call(&format!("WATCH {key} {key}2")), ok());
        other.call(&format!("GET {key}"));
        other.call(&format!("SET {key}3 y"));
        assert_eq!(exec(&mut client, key), done(1));
        // The watch has ended with it.
        other.call(&format!("APPEND {key} y"));
        assert_eq!(exec(&mut client, key), done(2));
        // A watched key changes.
        for watched in [key.clone(), format!("{key}2")] {
            client.call(&format!("WATCH {watched}"));
            other.call(&format!("SET {watched}4 1"));
            other.call(&format!("APPEND {watched} y"));
            if watched == *key {
                done(1);
            }
            assert_eq!(exec(&mut client, key), Value::NullArray);
        }
        // Watches that were given up do not count, nor do those of other clients.
        client.call(&format!("WATCH {key}"));
        other.call(&format!("APPEND {key} y"));
        assert_eq!(client.call("UNWATCH"), ok());
        assert_eq!(exec(&mut client, key), done(2));
        // A change that is taken back is one.
        client.call(&format!("WATCH {key}2"));
        let before = client.call(&format!("GET {key}2"));
        let Value::Bulk(before) = before else { panic!("{before:?}") };
        other.call(&format!("APPEND {key}2 z"));
        other.call(&format!("SET {key}2 {}", String::from_utf8_lossy(&before)));
        assert_eq!(exec(&mut client, key), Value::NullArray);
        // A transaction that only reads is one of its home, too.
        client.call(&format!("WATCH {key}"));
        let commands = ["MULTI".into(), format!("STRLEN {key}"), "EXEC".into()];
        assert_eq!(client.pipeline(&commands)[2], done(0));
    }
    // Keys of two homes.
    client.call(&format!("WATCH {}", keys[0]));
    client.call(&format!("WATCH {key}"));
    assert!(error(&exec(&mut client, key)).contains("CROSSSLOT"));
    // The home changes: nothing becomes of the transaction, wherever it was.
    for (epoch, key) in (2..).zip(&keys) {
        assert_eq!(client.call(&format!("WATCH {key}")), ok());
        turn(&members, 3, epoch);
        for node in 0..3 {
            members.await_text(node, "CLUSTER INFO", &format!("cluster_current_epoch:{epoch}\r\n"));
        }
        assert_eq!(exec(&mut client, key), Value::NullArray, "{epoch}");
    }
}

#[test]
fn watched_counters_lose_nothing() {
    let members = Members::start(3, DELAY);
    let key = key_at(1, 3, "cas");
    let mut threads = Vec::new();
    for node in 0..3 {
        let (mut client, key) = (members.client(node), key.clone());
        threads.push(std::thread::spawn(move || {
            for _ in 0..40 {
                loop {
                    assert_eq!(client.call(&format!("WATCH {key}")), ok());
                    let now = match client.call(&format!("GET {key}")) {
                        Value::Bulk(text) => String::from_utf8_lossy(&text).parse::<u64>().unwrap(),
                        _ => 0,
                    };
                    let set = format!("SET {key} {}", now + 1);
                    let replies = client.pipeline(&["MULTI".into(), set, "EXEC".into()]);
                    if replies[2] != Value::NullArray {
                        break;
                    }
                }
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    members.await_reply(0, &format!("GET {key}"), &bulk("120"));
}

#[test]
fn clients_wait_where_the_home_is() {
    let members = Members::start(2, DELAY);
    let key = key_at(0, 2, "queue");
    let (mut waiting, mut other) = (members.client(0), members.client(1));
    waiting.send(&[format!("BLPOP {key} 0")]);
    let mut watcher = members.client(0);
    let is_waiting = |reply: Value| matches!(reply, Value::Bulk(text) if text.windows(17).any(|part| part == b"blocked_clients:1"));
    while !is_waiting(watcher.call("INFO clients")) {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(other.call(&format!("RPUSH {key} a")), Value::Integer(1));
    assert_eq!(waiting.reply(), Value::Array(vec![bulk(&key), bulk("a")]));
    members.await_reply(1, &format!("EXISTS {key}"), &Value::Integer(0));
}

#[test]
fn a_watch_ends_with_its_transaction_and_not_before() {
    let members = Members::start(2, DELAY);
    let mut client = members.client(0);
    let keys: Vec<String> = (0..12).map(|n| key_at(1, 2, &format!("other{n}:"))).collect();
    for watched in &keys {
        for key in keys.iter().filter(|key| *key != watched) {
            assert_eq!(client.call(&format!("WATCH {watched}")), ok());
            let commands = ["MULTI".into(), format!("SET {key} v"), "EXEC".into()];
            let replies = client.pipeline(&commands);
            assert_eq!(replies[2], Value::Array(vec![ok()]), "{watched}, then {key}");
        }
    }
}
