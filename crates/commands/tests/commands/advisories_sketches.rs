//! Bugs of sketches from the release notes of Redis 8.2 to 8.10, as in [`crate::advisories`].

use crate::allocations::peak_of;
use crate::client::{Client, show};
use crate::follower::{Follower, execute};
use crate::random::Random;
use petrel_resp::Value;

/// Pieces of a filter, each with the iterator that loads it.
fn pieces(client: &mut Client, scan: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut pieces, mut iterator) = (Vec::new(), b"0".to_vec());
    while let Value::Array(piece) = client.call(&[scan, b"k", &iterator]) {
        let [Value::Integer(next), Value::Bulk(cells)] = &piece[..] else { break };
        if *next == 0 {
            break;
        }
        iterator = next.to_string().into_bytes();
        pieces.push((iterator.clone(), cells.to_vec()));
    }
    pieces
}

/// Redis 8.10.0 (8.8.1, 8.4.8): replicas lacked the pieces of a cuckoo filter behind the first.
#[test]
fn redis_8_10_0_pieces_of_filters_are_replicated() {
    for (name, reserve, add) in [
        ("CF", "CF.RESERVE k 50 EXPANSION 2", "CF.ADD"),
        ("BF", "BF.RESERVE k 0.01 50 EXPANSION 2", "BF.ADD"),
    ] {
        let (mut source, mut client) = (Client::new(), Client::new());
        let (mut copy, mut replica) = (Client::new(), Client::new());
        let follower = Follower::of(&mut client, &copy);
        source.run(reserve);
        (0..2000).for_each(|n| drop(source.run(&format!("{add} k item{n}"))));
        let pieces = pieces(&mut source, format!("{name}.SCANDUMP").as_bytes());
        assert!(pieces.len() > 3, "{} pieces", pieces.len());
        let load = format!("{name}.LOADCHUNK");
        for (iterator, cells) in pieces {
            let loaded = client.call(&[load.as_bytes(), b"k", &iterator, &cells]);
            assert_eq!(show(&loaded), "OK", "{name}");
        }
        let commands = follower.lock().unwrap().commands();
        execute(&mut replica, &commands);
        let dump = source.call(&[b"DUMP", b"k"]);
        for follower in [&mut client, &mut copy, &mut replica] {
            assert!(follower.call(&[b"DUMP", b"k"]) == dump, "{name}");
        }
    }
}

/// Redis 8.2.3 (division by zero, filters without links), 8.4.1 (no buckets, many filters), 8.8.0
/// (CVE-2026-25589), 8.8.1 and 8.10.1 (CVE-2026-62356): broken payloads are rejected, or make a
/// value that all commands can use.
#[test]
fn redis_8_10_1_broken_payloads_of_filters() {
    for (fill, calls) in [
        ("CF.INSERT k CAPACITY 4 ITEMS a b c a d e f g", &["CF.ADD b x", "CF.COUNT b a"][..]),
        ("CF.RESERVE k 8", &["CF.INSERT b ITEMS x y z", "CF.DEL b x", "CF.COMPACT b"]),
        ("BF.INSERT k CAPACITY 2 ITEMS a b c d e f g", &["BF.ADD b x", "BF.EXISTS b a"]),
        ("BF.RESERVE k 0.01 8", &["BF.MADD b x y z", "BF.CARD b", "BF.INFO b"]),
    ] {
        let mut client = Client::new();
        assert!(!client.run(fill).starts_with("ERR"), "{fill}");
        let Value::Bulk(payload) = client.call(&[b"DUMP", b"k"]) else { panic!("no payload") };
        let (mut random, mut restored) = (Random::seeded(), 0);
        for _ in 0..3000 {
            let mut broken = payload.to_vec();
            let len = broken.len();
            // Without a checksum.
            broken[len - 8..].fill(0);
            for _ in 0..=random.below(2) {
                broken[random.below(len - 10)] = random.below(256) as u8;
            }
            let args: [&[u8]; 5] = [b"RESTORE", b"b", b"0", &broken, b"REPLACE"];
            let (reply, peak) = peak_of(|| client.call(&args));
            assert!(peak < 1 << 20, "{peak} bytes for {}", broken.escape_ascii());
            restored += usize::from(show(&reply) == "OK");
            let (_, peak) = peak_of(|| calls.iter().for_each(|call| drop(client.run(call))));
            assert!(peak < 64 << 20, "{peak} bytes after {}", broken.escape_ascii());
            client.run("DEL b");
        }
        assert!(restored > 0, "{fill}");
    }
}

/// Valkey 9.1.4: elements that `PFADD` added before it met a corrupt register were not replicated.
#[test]
fn valkey_9_1_4_elements_before_a_corrupt_register_are_replicated() {
    // Sparse, with 8,192 registers of 16,384.
    let half = [&b"HYLL\x01\0\0\0"[..], &[0; 7], &[0x80, 0x5f, 0xff]].concat();
    let (mut client, mut copy, mut replica) = (Client::new(), Client::new(), Client::new());
    let follower = Follower::of(&mut client, &copy);
    let mut corrupt = 0;
    for n in 0..50 {
        client.call(&[b"SET", b"k", &half]);
        let elements: Vec<String> = (n * 8..n * 8 + 8).map(|n| n.to_string()).collect();
        let reply = client.run(&format!("PFADD k {}", elements.join(" ")));
        corrupt += usize::from(reply.starts_with("INVALIDOBJ"));
        let commands = follower.lock().unwrap().commands();
        execute(&mut replica, &commands);
        let value = client.call(&[b"GET", b"k"]);
        for follower in [&mut copy, &mut replica] {
            assert!(follower.call(&[b"GET", b"k"]) == value, "{n}");
        }
    }
    assert!(corrupt > 0);
}
