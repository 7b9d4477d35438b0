//! Commands that every home executes for its share: FLUSHALL, FLUSHDB, WAIT.

use crate::bench::{Members, bulk, error, key_at, ok, turn};
use petrel_resp::Value;
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(500);

#[test]
fn a_flush_reaches_every_slot_and_every_member() {
    let members = Members::start(3, DELAY);
    let mut clients: Vec<_> = (0..3).map(|node| members.client(node)).collect();
    for (round, flush) in
        ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB SYNC", "flushdb"].into_iter().enumerate()
    {
        let client = &mut clients[round % 3];
        let commands: Vec<String> = (0..2000).map(|n| format!("SET key:{n} v")).collect();
        assert!(client.pipeline(&commands).iter().all(|reply| *reply == ok()));
        client.call("SELECT 1");
        assert_eq!(client.call("SET other v"), ok());
        client.call("SELECT 0");
        (0..3).for_each(|node| members.await_reply(node, "DBSIZE", &Value::Integer(2000)));
        // A later command finds nothing, and other members too once they have applied the flush.
        let replies = client.pipeline(&[flush.into(), "DBSIZE".into(), "SET after 1".into()]);
        assert_eq!(replies, [ok(), Value::Integer(0), ok()], "{flush}");
        (0..3).for_each(|node| members.await_reply(node, "DBSIZE", &Value::Integer(1)));
        let left = if flush.starts_with("FLUSHALL") { 0 } else { 1 };
        client.call("SELECT 1");
        assert_eq!(client.call("DBSIZE"), Value::Integer(left), "{flush}");
        client.call("FLUSHALL");
        client.call("SELECT 0");
    }
    assert_eq!(error(&clients[0].call("FLUSHALL NOW")), "ERR syntax error");
    assert!(
        error(&clients[0].call("EVAL return(redis.call('FLUSHALL')) 0")).contains("in a script")
    );
    // It counts as a change for watches, and serves no blocked client.
    let key = key_at(1, 3, "watched");
    clients[0].call(&format!("SET {key} v"));
    clients[0].call(&format!("WATCH {key}"));
    assert_eq!(clients[2].call("FLUSHALL"), ok());
    let commands = ["MULTI".into(), format!("SET {key} w"), "EXEC".into()];
    assert_eq!(clients[0].pipeline(&commands)[2], Value::NullArray);
}

#[test]
fn a_flush_while_slots_move_says_so_or_is_whole() {
    let members = Members::start(3, DELAY);
    let mut client = members.client(0);
    for epoch in 2..6 {
        let commands: Vec<String> = (0..3000).map(|n| format!("SET key:{n} v")).collect();
        client.pipeline(&commands);
        client.send(&["FLUSHALL".into()]);
        turn(&members, 3, epoch);
        match client.reply() {
            Value::Error(text) => assert!(text.starts_with(b"TRYAGAIN"), "{text:?}"),
            reply => assert_eq!(
                (reply, client.call("DBSIZE")),
                (ok(), Value::Integer(0)),
                "nothing is left"
            ),
        }
        while client.call("FLUSHALL") != ok() {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(client.call("DBSIZE"), Value::Integer(0));
    }
}

#[test]
fn figures_of_each_member() {
    let members = Members::start(3, DELAY);
    let mut client = members.client(0);
    (0..3).for_each(|node| members.await_links(node, 2));
    let away = key_at(1, 3, "figures");
    for _ in 0..3 {
        client.call(&format!("INCR {away}"));
    }
    let (one, zero) = (format!("id={:040x},link=connected", 1), format!("id={:040x},", 0));
    let line = |node, id: &str| {
        let Value::Bulk(info) = members.client(node).call("INFO cluster") else {
            panic!("no text")
        };
        let info = String::from_utf8(info.to_vec()).unwrap();
        info.lines().find(|line| line.contains(id)).expect("a line").to_owned()
    };
    assert!(line(0, &one).contains(",commands_forwarded=3,commands_served=0"));
    assert!(line(1, &zero).contains(",commands_forwarded=0,commands_served=3"));
    assert!(!line(0, &one).contains("bytes_sent=0,"));
    members.await_text(1, "INFO cluster", &format!("{zero}link=connected,lag=0,"));
}

#[test]
fn waiting_for_members() {
    let members = Members::start(3, DELAY);
    let keys = [0, 1, 2].map(|home| key_at(home, 3, "wait"));
    let mut client = members.client(0);
    (0..3).for_each(|node| members.await_links(node, 2));
    for key in &keys {
        assert_eq!(client.call(&format!("SET {key} v")), ok());
        assert_eq!(client.call("WAIT 2 0"), Value::Integer(2));
        for node in 0..3 {
            assert_eq!(members.client(node).call(&format!("GET {key}")), bulk("v"));
        }
    }
    assert_eq!(client.call("WAIT 0 0"), Value::Integer(2));
    // A member without links to the others cannot have their writes.
    members.network.cut(0, 2);
    members.network.cut(1, 2);
    members.await_links(0, 1);
    members.await_links(1, 1);
    for key in &keys[..2] {
        assert_eq!(client.call(&format!("SET {key} w")), ok());
    }
    // The home that is out of reach itself cannot be asked.
    client.send(&["WAIT 2 20".into()]);
    assert!(error(&client.reply()).starts_with("CLUSTERDOWN"));
    members.network.raise(0, 2);
    members.await_links(0, 2);
    client.send(&["WAIT 2 20".into(), "PING".into()]);
    assert_eq!(client.reply(), Value::Integer(1), "the link of two members is cut");
    assert_eq!(client.reply(), Value::Simple("PONG".into()));
    members.network.raise(1, 2);
    assert_eq!(client.call("WAIT 2 0"), Value::Integer(2));
    assert_eq!(error(&client.call("WAIT a 0")), "ERR value is not an integer or out of range");
    assert_eq!(error(&client.call("WAIT 1 -1")), "ERR timeout is negative");
}
