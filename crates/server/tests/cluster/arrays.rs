//! Arrays in a cluster of three members: commands are forwarded to the key's primary, and copies
//! follow.

use crate::bench::{Members, bulk, key_at};
use petrel_resp::Value;
use std::time::Duration;

const NODES: u16 = 3;

fn bulks(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(|text| bulk(text)).collect())
}

#[test]
fn every_member_changes_and_reads_arrays_of_all() {
    let members = Members::start(NODES, Duration::from_micros(500));
    for home in 0..NODES {
        let (array, ring) = (key_at(home, NODES, "array"), key_at(home, NODES, "ring"));
        for node in 0..NODES {
            let mut client = members.client(node);
            let last = Value::Integer(i64::from(node) * 2 + 1);
            assert_eq!(client.call(&format!("ARINSERT {array} {node} text{node}")), last);
            let far = u64::from(node) << 40 | 1 << 50;
            let set = client.call(&format!("ARMSET {array} {far} far{node}"));
            assert_eq!(set, Value::Integer(1));
            client.call(&format!("ARRING {ring} 2 v{node}"));
        }
        for node in 0..NODES {
            let all = bulks(&["0", "text0", "1", "text1", "2", "text2"]);
            members.await_reply(node, &format!("ARGETRANGE {array} 0 5"), &all);
            let found = Value::Array(vec![Value::Integer(1), Value::Integer(3)]);
            let search = format!("ARGREP {array} - + RE ^text[01]$");
            members.await_reply(node, &search, &found);
            members.await_reply(node, &format!("AROP {array} 0 9 SUM"), &bulk("3"));
            let newest = bulks(&["v1", "v2"]);
            members.await_reply(node, &format!("ARLASTITEMS {ring} 9"), &newest);
        }
        // Changes after the copies were read.
        let mut client = members.client(1);
        let removed = client.call(&format!("ARDELRANGE {array} 2 18446744073709551614"));
        assert_eq!(removed, Value::Integer(7));
        assert_eq!(client.call(&format!("ARSEEK {array} 1")), Value::Integer(1));
        for node in 0..NODES {
            members.await_reply(node, &format!("ARCOUNT {array}"), &Value::Integer(2));
            members.await_reply(node, &format!("ARNEXT {array}"), &Value::Integer(1));
        }
        let removed = members.client(2).call(&format!("ARDEL {array} 0 1"));
        assert_eq!(removed, Value::Integer(2));
        for node in 0..NODES {
            members.await_reply(node, &format!("EXISTS {array}"), &Value::Integer(0));
        }
    }
}
