//! Sketches in a cluster of three members: commands are forwarded to the key's primary, and copies
//! follow.

use crate::bench::{Members, bulk, key_at, ok};
use petrel_resp::Value;
use std::time::Duration;

const NODES: u16 = 3;

fn integers(numbers: &[i64]) -> Value {
    Value::Array(numbers.iter().map(|&number| Value::Integer(number)).collect())
}

#[test]
fn every_member_changes_and_reads_sketches_of_all() {
    let members = Members::start(NODES, Duration::from_micros(500));
    for home in 0..NODES {
        let key = |name: &str| key_at(home, NODES, name);
        let (bloom, cuckoo, counts) = (key("bloom"), key("cuckoo"), key("counts"));
        let (top, digest) = (key("top"), key("digest"));
        let mut first = members.client(0);
        assert_eq!(first.call(&format!("CMS.INITBYDIM {counts} 1000 3")), ok());
        assert_eq!(first.call(&format!("TOPK.RESERVE {top} 3")), ok());
        assert_eq!(first.call(&format!("TDIGEST.CREATE {digest}")), ok());
        for node in 0..NODES {
            let mut client = members.client(node);
            let times = i64::from(node) + 1;
            assert_eq!(client.call(&format!("BF.ADD {bloom} item{node}")), Value::Integer(1));
            assert_eq!(client.call(&format!("CF.ADD {cuckoo} item")), Value::Integer(1));
            assert_eq!(client.call(&format!("CMS.INCRBY {counts} item 2")), integers(&[2 * times]));
            let expelled = client.call(&format!("TOPK.ADD {top} item"));
            assert_eq!(expelled, Value::Array(vec![Value::Null]));
            assert_eq!(client.call(&format!("TDIGEST.ADD {digest} {node}")), ok());
        }
        for node in 0..NODES {
            members.await_reply(
                node,
                &format!("BF.MEXISTS {bloom} item0 item1 item2"),
                &integers(&[1; 3]),
            );
            members.await_reply(node, &format!("CF.COUNT {cuckoo} item"), &Value::Integer(3));
            members.await_reply(node, &format!("CMS.QUERY {counts} item"), &integers(&[6]));
            let listed = Value::Array(vec![bulk("item"), Value::Integer(3)]);
            members.await_reply(node, &format!("TOPK.LIST {top} WITHCOUNT"), &listed);
            members.await_reply(node, &format!("TDIGEST.MAX {digest}"), &bulk("2"));
        }
        // A change after the copies were read.
        assert_eq!(members.client(1).call(&format!("CF.DEL {cuckoo} item")), Value::Integer(1));
        for node in 0..NODES {
            members.await_reply(node, &format!("CF.COUNT {cuckoo} item"), &Value::Integer(2));
        }
    }
}

#[test]
fn digests_and_counts_of_a_member_are_merged_by_every_other() {
    let members = Members::start(NODES, Duration::from_micros(500));
    for home in 0..NODES {
        let keys = |name: &str| -> Vec<String> {
            (0..3).map(|i| key_at(home, NODES, &format!("{name}{i}"))).collect()
        };
        let (digests, counts) = (keys("digest"), keys("counts"));
        let mut client = members.client(0);
        for (i, (digest, counts)) in digests.iter().zip(&counts).enumerate() {
            assert_eq!(client.call(&format!("TDIGEST.CREATE {digest}")), ok());
            assert_eq!(client.call(&format!("TDIGEST.ADD {digest} {i} 10{i}")), ok());
            assert_eq!(client.call(&format!("CMS.INITBYDIM {counts} 1000 3")), ok());
            assert_eq!(client.call(&format!("CMS.INCRBY {counts} item 2")), integers(&[2]));
        }
        for node in 0..NODES {
            let mut client = members.client(node);
            let target = key_at(home, NODES, &format!("merged{node}"));
            let call = format!("TDIGEST.MERGE {target} 3 {} OVERRIDE", digests.join(" "));
            assert_eq!(client.call(&call), ok());
            let ranks = Value::Array(["0", "1", "102", "inf"].map(bulk).to_vec());
            assert_eq!(client.call(&format!("TDIGEST.BYRANK {target} 0 1 5 6")), ranks);
            let target = key_at(home, NODES, &format!("sums{node}"));
            assert_eq!(client.call(&format!("CMS.INITBYDIM {target} 1000 3")), ok());
            assert_eq!(client.call(&format!("CMS.MERGE {target} 3 {}", counts.join(" "))), ok());
            assert_eq!(client.call(&format!("CMS.QUERY {target} item")), integers(&[6]));
        }
        let elsewhere = key_at((home + 1) % NODES, NODES, "merged");
        let merged = client.call(&format!("TDIGEST.MERGE {elsewhere} 1 {}", digests[0]));
        assert_eq!(merged, ok());
    }
}
