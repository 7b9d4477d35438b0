//! Transactions with commands that every home executes for its share: `FLUSHALL`, `FLUSHDB`.

use crate::bench::{Client, Members, bulk, error, key_at, ok, turn};
use petrel_resp::Value;
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(500);

/// The reply to a transaction of these commands.
fn exec(client: &mut Client, commands: &[&str]) -> Value {
    let begin = [String::from("MULTI")];
    let queued = commands.iter().map(|command| String::from(*command));
    let all: Vec<String> = begin.into_iter().chain(queued).chain(["EXEC".into()]).collect();
    client.pipeline(&all).pop().expect("replies")
}

fn array(values: impl Into<Vec<Value>>) -> Value {
    Value::Array(values.into())
}

/// Fills two databases.
fn fill(client: &mut Client) {
    let keys: Vec<String> = (0..500).map(|n| format!("SET key:{n} v")).collect();
    assert!(client.pipeline(&keys).iter().all(|reply| *reply == ok()));
    client.call("SELECT 1");
    assert!(client.pipeline(&keys).iter().all(|reply| *reply == ok()));
    client.call("SELECT 0");
}

fn sizes(client: &mut Client) -> [Value; 2] {
    client.call("SELECT 1");
    let other = client.call("DBSIZE");
    client.call("SELECT 0");
    [client.call("DBSIZE"), other]
}

#[test]
fn a_transaction_flushes_every_home() {
    for (nodes, members) in [(3, Members::start(3, DELAY)), (4, Members::start_few(4, 2, DELAY))] {
        let mut client = members.client(0);
        (0..nodes).for_each(|node| members.await_links(node, usize::from(nodes) - 1));
        for home in 0..nodes {
            let key = key_at(home, nodes, "tx");
            for (flush, left) in [("FLUSHALL", 0), ("flushdb async", 500)] {
                fill(&mut client);
                let (first, last) = (format!("SET {key}1 a"), format!("SET {key}2 b"));
                let (early, late) = (format!("EXISTS {key}1"), format!("GET {key}2"));
                let reply = exec(&mut client, &[&first, &early, flush, &early, &last, &late]);
                let (one, none) = (Value::Integer(1), Value::Integer(0));
                let expected = [ok(), one.clone(), ok(), none, ok(), bulk("b")];
                assert_eq!(reply, array(expected), "{home} {flush}");
                // What stood behind it is there, and nothing else, at every member.
                assert_eq!(sizes(&mut client), [one.clone(), Value::Integer(left)]);
                (0..nodes).for_each(|node| members.await_reply(node, "DBSIZE", &one));
                assert_eq!(client.call("FLUSHALL"), ok());
            }
        }
    }
}

#[test]
fn what_a_transaction_without_keys_flushes() {
    for (nodes, members) in [(3, Members::start(3, DELAY)), (4, Members::start_few(4, 2, DELAY))] {
        let mut client = members.client(1);
        (0..nodes).for_each(|node| members.await_links(node, usize::from(nodes) - 1));
        fill(&mut client);
        // Replies of a pipeline are in order, and a read behind it finds nothing.
        let commands: Vec<String> =
            ["PING", "MULTI", "FLUSHDB", "PING", "EXEC", "DBSIZE", "GET key:1"]
                .map(String::from)
                .into();
        let queued = Value::Simple("QUEUED".into());
        let pong = Value::Simple("PONG".into());
        let expected = [
            pong.clone(),
            ok(),
            queued.clone(),
            queued,
            array([ok(), pong]),
            Value::Integer(0),
            Value::Null,
        ];
        assert_eq!(client.pipeline(&commands), expected);
        assert_eq!(sizes(&mut client), [Value::Integer(0), Value::Integer(500)]);
        // Of the database that is selected by then.
        client.call("SET a 1");
        let reply = exec(&mut client, &["SELECT 1", "FLUSHDB", "SELECT 0"]);
        assert_eq!(reply, array([ok(), ok(), ok()]));
        assert_eq!(sizes(&mut client), [Value::Integer(1), Value::Integer(0)]);
        // A FLUSHALL with a syntax error removes nothing.
        let Value::Array(replies) = exec(&mut client, &["FLUSHALL NOW", "PING"]) else {
            panic!("no array")
        };
        assert_eq!(error(&replies[0]), "ERR syntax error");
        assert_eq!(client.call("DBSIZE"), Value::Integer(1));
        let refused = exec(&mut client, &["FLUSHALL", "DBSIZE"]);
        assert!(error(&refused).starts_with("EXECABORT"), "{refused:?}");
        client.send(&["CLIENT REPLY OFF".into()]);
        client.send(&["MULTI", "FLUSHALL", "EXEC", "CLIENT REPLY ON"].map(String::from));
        assert_eq!(client.reply(), ok());
        assert_eq!(client.call("DBSIZE"), Value::Integer(0));
    }
}

#[test]
fn a_transaction_that_is_not_executed_flushes_nothing() {
    let members = Members::start(3, DELAY);
    let (mut client, mut other) = (members.client(0), members.client(2));
    fill(&mut client);
    for home in 0..3 {
        let key = key_at(home, 3, "watched");
        for is_changed in [true, false] {
            assert_eq!(client.call(&format!("WATCH {key}")), ok());
            if is_changed {
                other.call(&format!("APPEND {key} x"));
            }
            let reply = exec(&mut client, &["FLUSHALL", &format!("SET {key} v")]);
            let size = client.call("DBSIZE");
            match is_changed {
                true => assert_eq!((reply, size), (Value::NullArray, Value::Integer(501))),
                false => assert_eq!((reply, size), (array([ok(), ok()]), Value::Integer(1))),
            }
        }
        client.call("FLUSHALL");
        fill(&mut client);
    }
    let keys = [0, 1].map(|home| format!("SET {} v", key_at(home, 3, "a")));
    let refused = exec(&mut client, &["FLUSHALL", &keys[0], &keys[1]]);
    assert!(error(&refused).contains("CROSSSLOT"));
    assert_eq!(client.call("DBSIZE"), Value::Integer(500));
    let failed = error(&client.call("EVAL return(redis.call('FLUSHALL')) 0"));
    assert!(failed.contains("in a script"), "{failed}");
}

#[test]
fn a_home_that_is_out_of_reach_is_named_by_the_command() {
    let members = Members::start(3, DELAY);
    (0..3).for_each(|node| members.await_links(node, 2));
    let mut client = members.client(0);
    fill(&mut client);
    members.network.cut(0, 2);
    members.await_links(0, 1);
    for home in [0, 1] {
        let key = key_at(home, 3, "n");
        let reply = exec(&mut client, &[&format!("INCR {key}"), "FLUSHALL", "PING"]);
        let Value::Array(replies) = reply else { panic!("{reply:?}") };
        assert_eq!(replies[0], Value::Integer(1));
        assert_eq!(error(&replies[1]), "CLUSTERDOWN The primary of the key cannot be reached");
        assert_eq!(replies[2], Value::Simple("PONG".into()));
    }
    let refused = exec(&mut client, &[&format!("INCR {}", key_at(2, 3, "n")), "FLUSHALL"]);
    assert!(error(&refused).starts_with("CLUSTERDOWN"), "nothing was executed: {refused:?}");
    members.network.raise(0, 2);
    (0..3).for_each(|node| members.await_links(node, 2));
    assert_eq!(exec(&mut client, &["FLUSHALL"]), array([ok()]));
    (0..3).for_each(|node| members.await_reply(node, "DBSIZE", &Value::Integer(0)));
}

#[test]
fn slots_that_move_meanwhile_are_named_or_all_is_gone() {
    let members = Members::start(3, DELAY);
    let mut client = members.client(0);
    let key = key_at(1, 3, "count");
    for epoch in 2..6 {
        fill(&mut client);
        client.call(&format!("SET {key} 5"));
        let commands = ["MULTI".into(), "FLUSHALL".into(), format!("INCR {key}"), "EXEC".into()];
        client.send(&commands);
        turn(&members, 3, epoch);
        (0..3).for_each(|_| drop(client.reply()));
        let size = match client.reply() {
            Value::Array(replies) => {
                // It was executed, once.
                assert_eq!(replies[1], Value::Integer(1));
                assert_eq!(client.call(&format!("GET {key}")), bulk("1"));
                match &replies[0] {
                    Value::Error(text) => assert!(text.starts_with(b"TRYAGAIN"), "{text:?}"),
                    reply => assert_eq!(*reply, ok()),
                }
                (replies[0] == ok()).then(|| client.call("DBSIZE"))
            }
            Value::Error(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                assert!(text.contains("TRYAGAIN The primary of the key is changing"), "{text}");
                None
            }
            reply => panic!("{reply:?}"),
        };
        assert!(size.is_none_or(|size| size == Value::Integer(1)));
        while client.call("FLUSHALL") != ok() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn what_is_read_beside_a_flush_is_forgotten_behind_it() {
    let members = Members::start(2, DELAY);
    let mut client = members.client(0);
    (0..2).for_each(|node| members.await_links(node, 1));
    client.call("HELLO 3");
    assert_eq!(client.call("CLIENT TRACKING ON"), ok());
    for home in 0..2 {
        let key = key_at(home, 2, "cached");
        assert_eq!(members.client(0).call(&format!("SET {key} old")), ok());
        let get = format!("GET {key}");
        client.send(&["MULTI", &get, "FLUSHALL", "EXEC", "PING"].map(String::from));
        let is_last = |reply: &Value| *reply == Value::Simple("PONG".into());
        let mut replies = vec![client.reply()];
        while !replies.last().is_some_and(is_last) {
            replies.push(client.reply());
        }
        let read = array([bulk("old"), ok()]);
        let at = replies.iter().position(|reply| *reply == read).expect("the reply to EXEC");
        let forget = Value::Push(vec![bulk("invalidate"), array([bulk(&key)])]);
        assert!(replies[at..].contains(&forget), "{home}: {replies:?}");
    }
}

#[test]
fn flushes_in_one_transaction_are_limited() {
    let members = Members::start(2, DELAY);
    let mut client = members.client(0);
    (0..2).for_each(|node| members.await_links(node, 1));
    assert_eq!(exec(&mut client, &["FLUSHALL"; 16]), array(vec![ok(); 16]));
    let refused = error(&exec(&mut client, &["FLUSHALL"; 17]));
    assert!(refused.contains("too many databases are flushed"), "{refused}");
    let refused = error(&exec(&mut client, &["FLUSHALL", "DBSIZE"]));
    assert!(refused.contains("beside FLUSHALL"), "{refused}");
}
