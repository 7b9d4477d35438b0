//! Commands blocked on keys with another member as their primary.

use crate::bench::{Client, Members, bulk, error, key_at, ok, turn};
use petrel_resp::Value;
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(500);

/// Waits until this number of a member's clients are blocked.
fn await_blocked(members: &Members, node: u16, clients: usize) {
    members.await_text(node, "INFO clients", &format!("\r\nblocked_clients:{clients}\r\n"));
}

fn pair(key: &str, value: &str) -> Value {
    Value::Array(vec![bulk(key), bulk(value)])
}

fn client_id(client: &mut Client) -> i64 {
    match client.call("CLIENT ID") {
        Value::Integer(id) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_waits_first_is_served_first_wherever_it_is() {
    let members = Members::start(3, DELAY);
    let key = key_at(1, 3, "fair");
    let mut waiting = Vec::new();
    for (at, node) in [0, 1, 2, 0, 2, 1].into_iter().enumerate() {
        let mut client = members.client(node);
        client.send(&[format!("BLPOP none{key} {key} 0"), "PING".into()]);
        waiting.push(client);
        let own = |of| [0, 1, 2, 0, 2, 1][..=at].iter().filter(|&&node| node == of).count();
        (0..3).for_each(|of| await_blocked(&members, of, own(of)));
    }
    let mut pusher = members.client(2);
    assert_eq!(pusher.call(&format!("RPUSH {key} 0 1 2")), Value::Integer(3));
    for item in 3..6 {
        pusher.call(&format!("RPUSH {key} {item}"));
    }
    for (item, client) in waiting.iter_mut().enumerate() {
        assert_eq!(client.reply(), pair(&key, &item.to_string()));
        assert_eq!(client.reply(), Value::Simple("PONG".into()));
    }
    for node in 0..3 {
        await_blocked(&members, node, 0);
        members.await_reply(node, &format!("EXISTS {key}"), &Value::Integer(0));
    }
}

#[test]
fn every_command_that_waits() {
    let members = Members::start(2, DELAY);
    let key = key_at(1, 2, "every");
    let (mut client, mut other) = (members.client(0), members.client(1));
    let list = |values: &[&str]| Value::Array(values.iter().map(|value| bulk(value)).collect());
    let scored = pair(&key, "m");
    let Value::Array(mut scored) = scored else { unreachable!() };
    scored.push(bulk("1"));
    let cases = [
        (format!("BRPOP {key} 0"), format!("LPUSH {key} a"), pair(&key, "a")),
        (format!("BLMOVE {key} {key}to LEFT RIGHT 0"), format!("LPUSH {key} b"), bulk("b")),
        (format!("BRPOPLPUSH {key} {key}to 0"), format!("LPUSH {key} c"), bulk("c")),
        (
            format!("BLMPOP 0 1 {key} LEFT COUNT 2"),
            format!("RPUSH {key} d e"),
            Value::Array(vec![bulk(&key), list(&["d", "e"])]),
        ),
        (format!("BZPOPMIN {key} 0"), format!("ZADD {key} 1 m"), Value::Array(scored.clone())),
        (format!("BZPOPMAX {key} 0"), format!("ZADD {key} 1 m"), Value::Array(scored)),
        (
            format!("BZMPOP 0 1 {key} MIN"),
            format!("ZADD {key} 1 m"),
            Value::Array(vec![bulk(&key), Value::Array(vec![list(&["m", "1"])])]),
        ),
    ];
    for (waits, change, reply) in cases {
        client.send(std::slice::from_ref(&waits));
        await_blocked(&members, 0, 1);
        assert!(matches!(other.call(&change), Value::Integer(1..)), "{change}");
        assert_eq!(client.reply(), reply, "{waits}");
        // Its changes are applied here by then.
        assert_eq!(client.call(&format!("EXISTS {key}")), Value::Integer(0), "{waits}");
        await_blocked(&members, 0, 0);
    }
    assert_eq!(client.call(&format!("LRANGE {key}to 0 -1")), list(&["c", "b"]));
    // Present elements are taken at once; a timeout replies null.
    other.call(&format!("RPUSH {key} f"));
    assert_eq!(client.call(&format!("BLPOP {key} 0")), pair(&key, "f"));
    assert_eq!(client.call(&format!("BLPOP {key} 0.02")), Value::NullArray);
    assert_eq!(client.call(&format!("BLMOVE {key} {key} LEFT LEFT 0.02")), Value::NullArray);
    client.call("HELLO 3");
    assert_eq!(client.call(&format!("BLPOP {key} 0.02")), Value::Null);
    client.call("HELLO 2");
    assert!(error(&client.call(&format!("BLPOP {key} -1"))).contains("timeout is negative"));
    // In a transaction nothing waits.
    let commands = ["MULTI".into(), format!("BLPOP {key} 0"), "EXEC".into()];
    assert_eq!(client.pipeline(&commands)[2], Value::Array(vec![Value::NullArray]));
}

#[test]
fn streams_are_waited_for_here_and_their_groups_at_home() {
    let members = Members::start(2, DELAY);
    let key = key_at(1, 2, "stream");
    let (mut reader, mut consumer) = (members.client(0), members.client(0));
    let mut other = members.client(1);
    assert_eq!(other.call(&format!("XGROUP CREATE {key} g $ MKSTREAM")), ok());
    members.await_reply(0, &format!("EXISTS {key}"), &Value::Integer(1));
    reader.send(&[format!("XREAD BLOCK 0 STREAMS {key} $")]);
    consumer.send(&[format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {key} >")]);
    await_blocked(&members, 0, 2);
    other.call(&format!("XADD {key} 1-1 f v"));
    let entry = Value::Array(vec![bulk("1-1"), Value::Array(vec![bulk("f"), bulk("v")])]);
    let read = Value::Array(vec![Value::Array(vec![bulk(&key), Value::Array(vec![entry])])]);
    assert_eq!(reader.reply(), read);
    assert_eq!(consumer.reply(), read);
    assert_eq!(consumer.call(&format!("XACK {key} g 1-1")), Value::Integer(1));
    // A group that is gone ends the wait with an error.
    consumer.send(&[format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {key} >")]);
    await_blocked(&members, 0, 1);
    other.call(&format!("DEL {key}"));
    assert!(error(&consumer.reply()).starts_with("NOGROUP"), "the group is gone");
}

#[test]
fn waits_are_ended_from_outside() {
    let members = Members::start(2, DELAY);
    let key = key_at(1, 2, "ended");
    let mut other = members.client(0);
    for (how, reply) in [("TIMEOUT", Value::NullArray), ("ERROR", Value::Null)] {
        let mut client = members.client(0);
        let id = client_id(&mut client);
        assert_eq!(other.call(&format!("CLIENT UNBLOCK {id} {how}")), Value::Integer(0));
        client.send(&[format!("BLPOP {key} 0")]);
        await_blocked(&members, 0, 1);
        assert_eq!(other.call(&format!("CLIENT UNBLOCK {id} {how}")), Value::Integer(1));
        match client.reply() {
            Value::Error(text) => {
                assert!(how == "ERROR" && text.starts_with(b"UNBLOCKED"), "{how}")
            }
            other => assert_eq!(other, reply),
        }
        await_blocked(&members, 0, 0);
    }
    // A client that is killed, and one that leaves, take nothing with them.
    let (mut killed, mut leaves) = (members.client(0), members.client(0));
    let id = client_id(&mut killed);
    killed.send(&[format!("BLPOP {key} 0")]);
    leaves.send(&[format!("BRPOP {key} 0")]);
    await_blocked(&members, 0, 2);
    assert_eq!(other.call(&format!("CLIENT KILL ID {id}")), Value::Integer(1));
    drop(leaves);
    await_blocked(&members, 0, 0);
    assert_eq!(other.call(&format!("RPUSH {key} a")), Value::Integer(1));
    assert_eq!(other.call(&format!("LLEN {key}")), Value::Integer(1));
    members.await_text(0, "CLUSTER INFO", "cluster_answers_undelivered:0");
}

#[test]
fn waits_outlive_links() {
    let members = Members::start(2, DELAY);
    let key = key_at(1, 2, "link");
    members.await_links(0, 1);
    let mut client = members.client(0);
    for round in 0..5 {
        client.send(&[format!("BLPOP {key} 0")]);
        await_blocked(&members, 0, 1);
        members.network.cut(0, 1);
        members.await_links(0, 0);
        members.await_links(1, 0);
        // Nothing is taken for clients that are out of reach.
        let mut other = members.client(1);
        assert_eq!(other.call(&format!("RPUSH {key} {round}")), Value::Integer(1));
        assert_eq!(other.call(&format!("LLEN {key}")), Value::Integer(1));
        members.network.raise(0, 1);
        assert_eq!(client.reply(), pair(&key, &round.to_string()));
    }
}

#[test]
fn waits_follow_their_slots() {
    let members = Members::start(3, DELAY);
    let keys = [0, 1, 2].map(|home| key_at(home, 3, "moving"));
    let mut waiting = Vec::new();
    for key in &keys {
        for node in 0..3 {
            let mut client = members.client(node);
            client.send(&[format!("BLPOP {key} 0"), format!("EXISTS {key}")]);
            waiting.push((client, key.clone()));
        }
    }
    (0..3).for_each(|node| await_blocked(&members, node, 3));
    let mut pushed = 0;
    for epoch in 2..6 {
        turn(&members, 3, epoch);
        std::thread::sleep(Duration::from_millis(5));
        let mut pusher = members.client((epoch % 3) as u16);
        for key in &keys {
            pusher.call(&format!("RPUSH {key} {epoch}"));
        }
        pushed += keys.len();
        if pushed >= waiting.len() {
            break;
        }
    }
    // Each item went to one client, and nothing is left.
    let mut taken: Vec<(String, String)> = Vec::new();
    for (client, key) in &mut waiting {
        let Value::Array(item) = client.reply() else { panic!("it is an array") };
        assert_eq!(item[0], bulk(key));
        let Value::Bulk(item) = &item[1] else { panic!("{item:?}") };
        taken.push((key.clone(), String::from_utf8(item.to_vec()).unwrap()));
        assert!(matches!(client.reply(), Value::Integer(_)));
    }
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), waiting.len());
    for key in &keys {
        members.await_reply(0, &format!("EXISTS {key}"), &Value::Integer(0));
    }
}

#[test]
fn each_element_is_taken_once() {
    let members = Members::start(3, DELAY);
    let key = key_at(1, 3, "once");
    let mut threads = Vec::new();
    for node in [0, 1, 2, 0, 2] {
        let mut client = members.client(node);
        let pop = format!("BLPOP {key} 0");
        threads.push(std::thread::spawn(move || {
            let mut taken: Vec<Vec<u8>> = Vec::new();
            loop {
                let Value::Array(item) = client.call(&pop) else { panic!("it is an array") };
                let Value::Bulk(item) = &item[1] else { panic!("{item:?}") };
                if &item[..] == b"end" {
                    return taken;
                }
                taken.push(item.to_vec());
            }
        }));
    }
    let mut pushers = Vec::new();
    for node in 0..3 {
        let (mut client, key) = (members.client(node), key.clone());
        pushers.push(std::thread::spawn(move || {
            for item in 0..300 {
                client.call(&format!("RPUSH {key} {node}.{item}"));
            }
        }));
    }
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    let mut client = members.client(0);
    threads.iter().for_each(|_| drop(client.call(&format!("RPUSH {key} end"))));
    let mut taken: Vec<Vec<u8>> =
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 900);
}
