//! DUMP and RESTORE: Redis's replies. `peers` moves values to and from other servers.

use crate::client::{Client, START_MS, show};
use petrel_keyspace::Policy;
use petrel_resp::Value;

/// The string `a`.
const GOOD: &str = r#""\x00\x01\x61\x09\x00\x6f\x0c\xbe\x57\xdb\xb0\x1e\x05""#;
/// An empty list.
const EMPTY_LIST: &str = r#""\x01\x00\x09\x00\x8b\x0a\x74\x00\x38\x91\x20\xe7""#;
/// A value of a module.
const MODULE: &str = r#""\x07\x00\x09\x00\x22\xf5\xdb\xc0\x84\x8a\x8c\xb0""#;
/// The string `a`, of an unknown version.
const NEWER: &str = r#""\x00\x01\x61\x10\x00\x41\x9b\x45\x7c\x9e\xa2\xd6\x81""#;

/// Runs a script that refers to the payloads above by name.
fn follow(client: &mut Client, script: &str) {
    let names = [("GOOD", GOOD), ("EMPTY", EMPTY_LIST), ("MODULE", MODULE), ("NEWER", NEWER)];
    let script = names
        .iter()
        .fold(script.to_owned(), |script, (name, payload)| script.replace(name, payload));
    client.follow(&script);
}

#[test]
fn refusals_in_order() {
    follow(
        &mut Client::new(),
        r#"
        SET k 1 => OK
        RESTORE k 0 xx => BUSYKEY Target key name already exists.
        RESTORE k x xx => BUSYKEY Target key name already exists.
        RESTORE k -1 xx => BUSYKEY Target key name already exists.
        RESTORE n x xx => ERR value is not an integer or out of range
        RESTORE n -1 xx => ERR Invalid TTL value, must be >= 0
        RESTORE n 0 xx => ERR DUMP payload version or checksum are wrong
        RESTORE n 0 "" => ERR DUMP payload version or checksum are wrong
        RESTORE n 0 NEWER => ERR DUMP payload version or checksum are wrong
        RESTORE n 0 EMPTY => ERR Bad data format
        RESTORE n 0 MODULE => ERR Bad data format: the value is of a module
        RESTORE n 0 GOOD IDLETIME => ERR syntax error
        RESTORE n 0 GOOD IDLETIME x => ERR value is not an integer or out of range
        RESTORE n 0 GOOD IDLETIME -1 => ERR Invalid IDLETIME value, must be >= 0
        RESTORE n 0 GOOD FREQ 256 => ERR Invalid FREQ value, must be >= 0 and <= 255
        RESTORE n 0 GOOD FREQ -1 => ERR Invalid FREQ value, must be >= 0 and <= 255
        RESTORE n 0 GOOD FREQ 5 IDLETIME 6 => ERR syntax error
        RESTORE n 0 GOOD IDLETIME 6 FREQ 5 => ERR syntax error
        RESTORE k 0 GOOD FOO => ERR syntax error
        RESTORE k -1 GOOD IDLETIME -1 => ERR Invalid IDLETIME value, must be >= 0
        RESTORE k 0 xx REPLACE => ERR DUMP payload version or checksum are wrong
        RESTORE k 0 EMPTY REPLACE => ERR Bad data format
        GET k => "1"
        EXISTS n => 0
        DUMP n => nil
        "#,
    );
}

#[test]
fn fields_that_have_expired_are_restored_too() {
    let mut client = Client::new();
    client.follow("HSET h a 1 b 2 c 3 => 3\nHPEXPIRE h 5 FIELDS 2 a b => [1 1]");
    let Value::Bulk(payload) = client.call(&[b"DUMP", b"h"]) else { panic!("no payload") };
    client.wait(10);
    client.call(&[b"RESTORE", b"r", b"0", &payload]);
    client.follow("HLEN r => 3\nHGETALL r => [\"c\" \"3\"]");
}

#[test]
fn expiry_of_what_is_restored() {
    let mut client = Client::new();
    follow(
        &mut client,
        r#"
        RESTORE a 1000 GOOD => OK
        PTTL a => 1000
        RESTORE a 0 GOOD REPLACE => OK
        PTTL a => -1
        SET k 1 => OK
        RESTORE k 1 GOOD REPLACE ABSTTL => OK
        EXISTS k => 0
        RESTORE k 9223372036854775807 GOOD => OK
        EXISTS k => 0
        RESTORE k 9223372036854775807 GOOD ABSTTL => OK
        PEXPIRETIME k => 9223372036854775807
        "#,
    );
    let soon = START_MS + 5;
    follow(&mut client, &format!("RESTORE b {soon} GOOD absttl replace => OK\nPTTL b => 5"));
    client.wait(5);
    follow(&mut client, "RESTORE b 0 GOOD => OK\nPTTL b => -1");
}

#[test]
fn use_of_what_is_restored() {
    let mut client = Client::new();
    follow(
        &mut client,
        r#"
        RESTORE a 0 GOOD IDLETIME 5 IDLETIME 1000 => OK
        OBJECT IDLETIME a => 1000
        RESTORE a 0 GOOD REPLACE FREQ 7 => OK
        OBJECT IDLETIME a => 0
        "#,
    );
    client.exec.ks.keyspace().set_memory_limit(0, Policy::AllKeysLfu);
    client.wait(1);
    follow(
        &mut client,
        r#"
        RESTORE a 0 GOOD REPLACE FREQ 200 => OK
        OBJECT FREQ a => 200
        RESTORE a 0 GOOD REPLACE IDLETIME 200 => OK
        OBJECT FREQ a => 5
        "#,
    );
}

#[test]
fn strings_round_trip() {
    let mut client = Client::new();
    let long = b"some text ".repeat(10_000);
    let texts: [&[u8]; 8] =
        [b"", b"hello", b"0", b"-129", b"70000", b"9223372036854775807", &[b'a'; 100], &long];
    for text in texts {
        client.call(&[b"SET", b"from", text]);
        let Value::Bulk(payload) = client.call(&[b"DUMP", b"from"]) else { panic!("no payload") };
        client.call(&[b"RESTORE", b"to", b"0", &payload, b"REPLACE"]);
        assert_eq!(client.call(&[b"GET", b"to"]), Value::Bulk(text.to_vec().into()));
    }
    client.follow("SET a a => OK");
    let expected = b"\0\x01a\x09\0\x6f\x0c\xbe\x57\xdb\xb0\x1e\x05";
    assert_eq!(client.call(&[b"DUMP", b"a"]), Value::Bulk(expected.to_vec().into()));
}

#[test]
fn a_watched_key_is_changed_by_restoring_it() {
    let mut client = Client::new();
    let mut other = client.another();
    client.follow("SET a 1 => OK\nWATCH a => OK");
    follow(&mut other, "RESTORE a 0 EMPTY REPLACE => ERR Bad data format");
    client.follow("MULTI => OK\nGET a => QUEUED\nEXEC => [\"1\"]\nWATCH a => OK");
    follow(&mut other, "RESTORE a 0 GOOD REPLACE => OK");
    client.follow("MULTI => OK\nGET a => QUEUED\nEXEC => nil-array");
}

#[test]
fn what_a_compressed_payload_expands_to_needs_memory() {
    let mut client = Client::new();
    let text = b"a".repeat(32 << 20);
    client.call(&[b"SET", b"text", &text]);
    client.call(&[b"RPUSH", b"list", &text, b"b"]);
    let payloads = ["text", "list"].map(|key| match client.call(&[b"DUMP", key.as_bytes()]) {
        Value::Bulk(payload) => payload,
        other => panic!("{other:?}"),
    });
    client.run("FLUSHALL");
    client.exec.clear_caches();
    let keyspace = client.exec.ks.keyspace().clone();
    let used = keyspace.stats().used;
    for (payload, read) in payloads.iter().zip(["STRLEN k", "LLEN k"]) {
        assert!(payload.len() < 1 << 20);
        keyspace.set_memory_limit(used + (16 << 20), Policy::NoEviction);
        let refused = show(&client.call(&[b"RESTORE", b"k", b"0", payload]));
        assert!(refused.starts_with("OOM "), "{refused}");
        assert_eq!(client.run("EXISTS k"), "0");
        assert!(keyspace.stats().used < used + (1 << 20));
        keyspace.set_memory_limit(used + (256 << 20), Policy::NoEviction);
        assert_eq!(show(&client.call(&[b"RESTORE", b"k", b"0", payload])), "OK");
        assert_ne!(client.run(read), "0");
        client.run("DEL k");
    }
}
