//! COPY, RENAME, DUMP, OBJECT, MEMORY USAGE and SCAN for small and large values of each type.

use crate::client::{Client, show};
use crate::look::look;
use petrel_resp::Value;

/// Number of elements of the large values.
const LARGE: usize = 1000;

/// A type, the command lines that create and change a value at `k`, and the encodings of the small
/// and the large value.
struct Case {
    kind: &'static str,
    make: fn(usize) -> String,
    change: &'static str,
    encodings: [&'static str; 2],
}

const CASES: [Case; 6] = [
    Case {
        kind: "string",
        make: |n| format!("APPEND k text{n}"),
        change: "APPEND copy x",
        encodings: ["embstr", "raw"],
    },
    Case {
        kind: "list",
        make: |n| format!("RPUSH k {n} element-{n}"),
        change: "LPOP copy",
        encodings: ["listpack", "quicklist"],
    },
    Case {
        kind: "set",
        make: |n| format!("SADD k {n} member-{n}"),
        change: "SADD copy x",
        encodings: ["listpack", "hashtable"],
    },
    Case {
        kind: "zset",
        make: |n| format!("ZADD k {n} member-{n}"),
        change: "ZADD copy 5 member-0",
        encodings: ["listpack", "skiplist"],
    },
    Case {
        kind: "hash",
        make: |n| format!("HSET k field-{n} {n}"),
        change: "HSET copy field-0 x",
        encodings: ["listpack", "hashtable"],
    },
    Case {
        kind: "stream",
        make: |n| format!("XADD k {}-1 field {n}", n + 1),
        change: "XADD copy * field x",
        encodings: ["stream", "stream"],
    },
];

/// Creates the value. Hashes get a field with an expiry, streams a group.
fn make(client: &mut Client, case: &Case, len: usize) {
    client.run("DEL k copy");
    for n in 0..len {
        client.run(&(case.make)(n));
    }
    match case.kind {
        "hash" => drop(client.run("HPEXPIREAT k 4000000000000 FIELDS 1 field-0")),
        "stream" => {
            client.run("XGROUP CREATE k group 0");
            client.run("XREADGROUP GROUP group consumer COUNT 2 STREAMS k >");
        }
        _ => {}
    }
}

fn look_at(client: &mut Client, key: &[u8]) -> String {
    client.call(&[b"RENAME", key, b"k"]);
    let seen = look(client, &[]);
    client.call(&[b"RENAME", b"k", key]);
    seen
}

#[test]
fn copies_are_equal_and_apart() {
    let mut client = Client::new();
    for case in &CASES {
        for (len, encoding) in [1, LARGE].into_iter().zip(case.encodings) {
            make(&mut client, case, len);
            client.follow("PEXPIREAT k 4000000000000 => 1\nCOPY k copy => 1\nRENAME k kept => OK");
            let kept = look_at(&mut client, b"kept");
            assert_eq!(look_at(&mut client, b"copy"), kept);
            let expected = match (case.kind, encoding) {
                // A field has an expiry.
                ("hash", "listpack") => "listpackex",
                _ => encoding,
            };
            for key in ["kept", "copy"] {
                assert_eq!(client.run(&format!("OBJECT ENCODING {key}")), format!("{expected:?}"));
                client.follow(&format!(
                    "PEXPIRETIME {key} => 4000000000000\nOBJECT REFCOUNT {key} => 1"
                ));
            }
            client.run(case.change);
            assert_ne!(look_at(&mut client, b"copy"), kept, "{} {len}", case.kind);
            assert_eq!(look_at(&mut client, b"kept"), kept);
            client.follow("COPY kept copy => 0\nCOPY kept copy REPLACE => 1");
            assert_eq!(look_at(&mut client, b"copy"), kept);
            client.follow("COPY kept k DB 5 => 1");
            client.session.db = 5;
            assert_eq!(look(&mut client, &[]), kept);
            client.follow("DEL k => 1");
            client.session.db = 0;
            client.follow("DEL kept => 1");
        }
    }
}

#[test]
fn what_is_dumped_is_restored() {
    let mut client = Client::new();
    for case in &CASES {
        for len in [1, 40, LARGE] {
            make(&mut client, case, len);
            let seen = look(&mut client, &[]);
            let Value::Bulk(payload) = client.call(&[b"DUMP", b"k"]) else { panic!("no payload") };
            client.follow("SET k something => OK");
            let reply = client.call(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]);
            assert_eq!(show(&reply), "OK");
            assert_eq!(look(&mut client, &[]), seen);
            // A broken payload does not change the key.
            let value = payload.len() - b"vvcccccccc".len();
            for cut in [value - 1, value / 2, 1] {
                let mut broken = payload[..cut].to_vec();
                broken.extend_from_slice(b"\x09\0\0\0\0\0\0\0\0\0");
                let reply = client.call(&[b"RESTORE", b"k", b"0", &broken, b"REPLACE"]);
                assert_eq!(show(&reply), "ERR Bad data format", "{} cut to {cut}", case.kind);
            }
            assert_eq!(look(&mut client, &[]), seen);
        }
    }
}

#[test]
fn memory_follows_the_value() {
    let mut client = Client::new();
    let bytes = |client: &mut Client, call: &str| match client.run(call).parse::<u64>() {
        Ok(bytes) => bytes,
        Err(_) => panic!("{call}"),
    };
    for case in &CASES {
        make(&mut client, case, 1);
        let small = bytes(&mut client, "MEMORY USAGE k");
        assert!((20..1500).contains(&small), "{} {small}", case.kind);
        make(&mut client, case, LARGE);
        let large = bytes(&mut client, "MEMORY USAGE k");
        // Each element has some bytes, and none is much larger than its content.
        let each = (large - small) as f64 / LARGE as f64;
        assert!((4.0..100.0).contains(&each), "{}: {each} bytes each", case.kind);
        for samples in [0, 1, 5, 1_000_000] {
            assert_eq!(bytes(&mut client, &format!("MEMORY USAGE k SAMPLES {samples}")), large);
        }
    }
    client.follow(
        r#"
        MEMORY USAGE nope => nil
        MEMORY USAGE k SAMPLES => ERR syntax error
        MEMORY USAGE k SAMPLES -1 => ERR syntax error
        MEMORY USAGE k OTHER 1 => ERR syntax error
        "#,
    );
}

#[test]
fn keys_are_scanned_by_type() {
    let mut client = Client::new();
    for case in &CASES {
        make(&mut client, case, 3);
        client.run(&format!("RENAME k key-of-{}", case.kind));
    }
    for Case { kind, .. } in &CASES {
        client.follow(&format!(
            "SCAN 0 COUNT 1000 TYPE {kind} => [\"0\" [\"key-of-{kind}\"]]\nTYPE key-of-{kind} => {kind}"
        ));
    }
}

#[test]
fn use_is_told_of_every_type() {
    let mut client = Client::new();
    for case in &CASES {
        make(&mut client, case, 1);
        client.wait(10_000);
        client.follow("OBJECT IDLETIME k => 10\nTOUCH k => 1\nOBJECT IDLETIME k => 0");
        client.follow("OBJECT FREQ k => ERR An LFU maxmemory policy is not selected...");
    }
}
