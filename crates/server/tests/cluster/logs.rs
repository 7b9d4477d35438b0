//! `WAITAOF`, and `WAIT` in transactions.

use crate::bench::{Members, error, key_at, ok};
use petrel_resp::Value;
use std::time::Duration;

fn logs(local: i64, others: i64) -> Value {
    Value::Array(vec![Value::Integer(local), Value::Integer(others)])
}

#[test]
fn logs_of_all_members_are_waited_for() {
    let members = Members::start_logged(3, 3, 3);
    (0..3).for_each(|node| members.await_links(node, 2));
    let mut client = members.client(0);
    for home in 0..3 {
        assert_eq!(client.call(&format!("SET {} v", key_at(home, 3, "w"))), ok());
        assert_eq!(client.call("WAITAOF 1 2 0"), logs(1, 2));
    }
    assert_eq!(client.call("WAITAOF 0 0 0"), logs(0, 0));
    // One cannot be reached by the two others.
    members.network.cut(0, 2);
    members.network.cut(1, 2);
    (0..2).for_each(|node| members.await_links(node, 1));
    assert_eq!(client.call(&format!("SET {} w", key_at(0, 3, "w"))), ok());
    client.send(&["WAITAOF 1 2 20".into()]);
    assert!(error(&client.reply()).starts_with("CLUSTERDOWN"));
    members.network.raise(0, 2);
    members.await_links(0, 2);
    client.send(&["WAITAOF 1 2 0".into(), "PING".into()]);
    assert!(client.is_silent(Duration::from_millis(200)), "the link of two homes is cut");
    members.network.raise(1, 2);
    assert_eq!(client.reply(), logs(1, 2));
    assert_eq!(client.reply(), Value::Simple("PONG".into()));
    for (command, why) in [
        ("WAITAOF 2 0 0", "ERR value is out of range, value must between 0 and 1"),
        ("WAITAOF x 0 0", "ERR value is not an integer or out of range"),
        ("WAITAOF 1 -1 0", "ERR value is out of range, must be positive"),
        ("WAITAOF 0 1 -1", "ERR timeout is negative"),
        ("WAITAOF 0 1 x", "ERR timeout is not an integer or out of range"),
    ] {
        assert_eq!(error(&client.call(command)), why, "{command}");
    }
}

#[test]
fn a_member_without_a_log_does_not_count() {
    let members = Members::start_logged(3, 3, 2);
    (0..3).for_each(|node| members.await_links(node, 2));
    let mut client = members.client(0);
    assert_eq!(client.call(&format!("SET {} v", key_at(1, 3, "w"))), ok());
    assert_eq!(client.call("WAITAOF 1 1 0"), logs(1, 1));
    assert_eq!(client.call("WAITAOF 1 2 2000"), logs(1, 1));
    let mut other = members.client(2);
    let refused = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    assert_eq!(error(&other.call("WAITAOF 1 0 0")), refused);
    assert_eq!(other.call("WAITAOF 0 2 0"), logs(0, 2));
    // Once it has one it counts.
    client.send(&["WAITAOF 1 2 0".into()]);
    assert!(client.is_silent(Duration::from_millis(100)));
    assert_eq!(other.call("CONFIG SET appendonly yes"), ok());
    assert_eq!(client.reply(), logs(1, 2));
    assert_eq!(other.call("WAITAOF 1 2 0"), logs(1, 2));
}

#[test]
fn logs_of_the_homes_are_waited_for() {
    let members = Members::start_logged(4, 2, 4);
    (0..4).for_each(|node| members.await_links(node, 3));
    for node in 0..4 {
        let mut client = members.client(node);
        for home in 0..4 {
            assert_eq!(client.call(&format!("SET {} v", key_at(home, 4, "w"))), ok());
            assert_eq!(client.call("WAITAOF 1 1 0"), logs(1, 1));
        }
        assert_eq!(client.call("WAITAOF 1 2 2000"), logs(1, 1), "two homes have two disks");
    }
}

#[test]
fn many_wait_at_once() {
    let members = Members::start_logged(3, 2, 3);
    (0..3).for_each(|node| members.await_links(node, 2));
    let mut clients: Vec<_> = (0..60).map(|at| members.client(at % 3)).collect();
    for round in 0..5 {
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(&[format!("SET k{at} {round}"), "WAITAOF 1 1 0".into()]);
        }
        for client in &mut clients {
            assert_eq!((client.reply(), client.reply()), (ok(), logs(1, 1)));
        }
    }
}

#[test]
fn in_transactions_waiting_answers_at_once() {
    for (members, others) in
        [(Members::start_logged(3, 3, 0), 2), (Members::start_logged(3, 2, 0), 1)]
    {
        (0..3).for_each(|node| members.await_links(node, 2));
        let mut client = members.client(0);
        for home in 0..3 {
            let key = key_at(home, 3, "tx");
            assert_eq!(client.call(&format!("SET {key} v")), ok());
            assert_eq!(client.call(&format!("WAIT {others} 0")), Value::Integer(others));
            let wait = ["MULTI".into(), "WAIT 9 0".into(), format!("GET {key}"), "EXEC".into()];
            let Value::Array(replies) = client.pipeline(&wait).pop().unwrap() else {
                panic!("no array")
            };
            assert_eq!(replies[0], Value::Integer(others));
            let wait = ["MULTI".into(), format!("INCR n{key}"), "WAIT 9 0".into(), "EXEC".into()];
            let Value::Array(replies) = client.pipeline(&wait).pop().unwrap() else {
                panic!("no array")
            };
            assert_eq!(replies, [Value::Integer(1), Value::Integer(others)]);
        }
        let wait = ["MULTI".into(), "WAIT 1 0".into(), "EXEC".into()];
        assert!(matches!(client.pipeline(&wait).pop(), Some(Value::Array(_))));
        let wait = ["MULTI", "WAITAOF 0 1 0", "WAITAOF 1 0 0", "EXEC"].map(String::from);
        let Value::Array(replies) = client.pipeline(&wait).pop().unwrap() else {
            panic!("no array")
        };
        assert_eq!(replies[0], logs(0, 0));
        assert!(error(&replies[1]).starts_with("ERR WAITAOF cannot be used"));
        let failed = client.call("EVAL return(redis.call('WAIT','1','0')) 0");
        assert!(error(&failed).contains("in a script"));
    }
}

#[test]
fn in_transactions_known_logs_are_counted() {
    for (members, others) in
        [(Members::start_logged(3, 3, 3), 2), (Members::start_logged(3, 2, 3), 1)]
    {
        (0..3).for_each(|node| members.await_links(node, 2));
        let mut client = members.client(0);
        for home in 0..3 {
            let set = format!("SET {} v", key_at(home, 3, "tx"));
            let wait = ["MULTI".into(), set.clone(), "WAITAOF 1 9 0".into(), "EXEC".into()];
            // It does not wait.
            assert!(matches!(client.pipeline(&wait).pop(), Some(Value::Array(_))));
        }
        // A requested state is known soon.
        let wait = ["MULTI".into(), "WAITAOF 1 9 0".into(), "EXEC".into()];
        while client.pipeline(&wait).pop() != Some(Value::Array(vec![logs(1, others)])) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let wait = ["MULTI".into(), "WAITAOF 1 9 -1".into(), "WAITAOF 2 0 0".into(), "EXEC".into()];
        let Some(Value::Array(replies)) = client.pipeline(&wait).pop() else { panic!("no array") };
        assert_eq!(error(&replies[0]), "ERR timeout is negative");
        assert_eq!(error(&replies[1]), "ERR value is out of range, value must between 0 and 1");
    }
}
