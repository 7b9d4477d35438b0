//! Compact hashes: their encodings, and random calls that answer as those of ordinary hashes do.

use crate::client::{Client, show, show_args};
use crate::follower::{Follower, execute};
use crate::random::{Random, duration};
use petrel_keyspace::SchemaCounts;
use petrel_resp::Value;
use std::time::Instant;

fn counts(client: &Client) -> (usize, usize) {
    let SchemaCounts { schemas, keys, .. } = client.exec.ks.keyspace().schema_counts();
    (schemas, keys)
}

/// Sets the number of fields from which hashes become compact when they are written.
fn sharing(min: i64, max: i64) -> Client {
    let client = Client::new();
    let limits = client.exec.ks.keyspace().limits();
    limits.set_hash_min_template_entries(min);
    limits.set_hash_max_template_entries(max);
    client
}

#[test]
fn encodings() {
    let mut client = Client::new();
    let long = "x".repeat(65);
    client.follow(
        r#"
        HIMPORT PREPARE u name email age => OK
        HIMPORT SET u:1 u alice a@x 30 => OK
        HIMPORT SET u:2 u bob b@x 31 => OK
        OBJECT ENCODING u:1 => "template-listpack"
        HGETALL u:1 => ["age" "30" "name" "alice" "email" "a@x"]
        HSCAN u:1 0 COUNT 1 => ["0" ["age" "30" "name" "alice" "email" "a@x"]]
        HSET u:1 name carol => 0
        HINCRBY u:1 age 1 => 31
        HMGET u:1 name none age email => ["carol" nil "31" "a@x"]
        HLEN u:1 => 3
        HSET u:1 city Paris name dave => 1
        OBJECT ENCODING u:1 => "template-listpack"
        HGETALL u:1 => ["age" "31" "city" "Paris" "name" "dave" "email" "a@x"]
        HDEL u:1 city none => 1
        HGETDEL u:1 FIELDS 1 email => ["a@x"]
        OBJECT ENCODING u:1 => "template-listpack"
        HTTL u:2 FIELDS 2 age none => [-1 -2]
        HPERSIST u:2 FIELDS 2 age none => [-1 -2]
        OBJECT ENCODING u:2 => "template-listpack"
        COPY u:2 u:3 => 1
        EXPIRE u:3 100 => 1
        RENAME u:3 u:4 => OK
        OBJECT ENCODING u:4 => "template-listpack"
        HEXPIRE u:2 100 FIELDS 1 age => [1]
        OBJECT ENCODING u:2 => "listpackex"
        HGET u:2 name => "bob"
        HSETEX u:4 EX 100 FIELDS 1 age 7 => 1
        OBJECT ENCODING u:4 => "listpackex"
        HMGET u:4 name age => ["bob" "7"]
        HDEL u:1 age name => 2
        EXISTS u:1 => 0
        HIMPORT PREPARE v 1 22 => OK
        HIMPORT SET v v one two => OK
        HMGET v 1 22 => ["one" "two"]
        "#,
    );
    client.follow(&format!("HSET v 1 {long} => 0\nOBJECT ENCODING v => \"template-array\""));
    client.follow("HDEL v 1 => 1\nOBJECT ENCODING v => \"template-array\"");
    client.follow(&format!("HIMPORT PREPARE w {long} a => OK\nHIMPORT SET w w 1 2 => OK"));
    client.follow("OBJECT ENCODING w => \"template-listpack\"\nDEL w v u:2 u:4 => 4");
    client.follow("HIMPORT DISCARDALL => 3");
    assert_eq!(counts(&client), (0, 0));
}

#[test]
fn schemas_are_counted() {
    let mut client = Client::new();
    client.follow(
        r#"
        HIMPORT PREPARE a x yy zzz => OK
        HIMPORT PREPARE b zzz x yy => OK
        HIMPORT SET 1 a 1 2 3 => OK
        HIMPORT SET 2 b 3 1 2 => OK
        HGETALL 1 => ["x" "1" "yy" "2" "zzz" "3"]
        HGETALL 2 => ["x" "1" "yy" "2" "zzz" "3"]
        "#,
    );
    assert_eq!(counts(&client), (1, 2));
    let alone: usize = client.run("MEMORY USAGE 1").parse().unwrap();
    for n in 3..100 {
        client.run(&format!("HIMPORT SET {n} a 1 2 3"));
    }
    assert_eq!(counts(&client), (1, 99));
    let shared: usize = client.run("MEMORY USAGE 1").parse().unwrap();
    assert!(shared < alone, "{shared} {alone}");
    client.run("HIMPORT DISCARDALL");
    assert_eq!(counts(&client), (1, 99));
    client.run("FLUSHALL");
    assert_eq!(counts(&client), (0, 0));
}

#[test]
fn written_hashes_become_compact() {
    let mut client = sharing(3, 5);
    client.follow(
        r#"
        HSET a 1 1 2 2 => 2
        OBJECT ENCODING a => "listpack"
        HSET a 3 3 => 1
        OBJECT ENCODING a => "template-listpack"
        HSET b 1 1 2 2 3 3 => 3
        OBJECT ENCODING b => "template-listpack"
        HSET c 1 1 2 2 3 3 4 4 5 5 6 6 => 6
        OBJECT ENCODING c => "listpack"
        HSET b 4 4 5 5 6 6 7 7 => 4
        OBJECT ENCODING b => "template-listpack"
        HSETEX d EX 10 FIELDS 3 1 1 2 2 3 3 => 1
        OBJECT ENCODING d => "listpackex"
        HSETEX e FIELDS 3 1 1 2 2 3 3 => 1
        OBJECT ENCODING e => "template-listpack"
        HSET f 1 1 2 2 1 3 => 2
        HSET f 3 3 1 4 => 1
        HGETALL f => ["1" "4" "2" "2" "3" "3"]
        OBJECT ENCODING f => "template-listpack"
        HDEL f 1 2 => 2
        OBJECT ENCODING f => "template-listpack"
        "#,
    );
}

/// Draws a call on one of three keys. Replies in the order of fields are sorted by the caller.
fn draw(random: &mut Random) -> Vec<String> {
    let key = format!("k{}", random.below(3));
    let field = |random: &mut Random| match random.below(8) {
        0 => String::new(),
        1 => random.below(300).to_string(),
        2 => "long".repeat(20 + random.below(3)),
        _ => format!("f{}", random.below(12)),
    };
    let value = |random: &mut Random| match random.below(12) {
        0 => String::new(),
        1 => "v".repeat(random.below(150)),
        2 => "v".repeat(random.below(3000)),
        3 => (random.below(1 << 30) as i64 * (random.below(1 << 30) as i64 - 7)).to_string(),
        _ => random.below(1000).to_string(),
    };
    let mut call = vec![String::new(), key];
    let name = match random.below(27) {
        0..8 => {
            let most = if random.below(20) == 0 { 100 } else { 6 };
            for _ in 0..1 + random.below(most) {
                call.extend([field(random), value(random)]);
            }
            "HSET"
        }
        8..11 => {
            call.extend((0..1 + random.below(3)).map(|_| field(random)));
            "HDEL"
        }
        11 | 12 => {
            call.extend([field(random), random.below(100).to_string()]);
            if random.below(2) == 0 { "HINCRBY" } else { "HINCRBYFLOAT" }
        }
        13 => {
            call.extend([field(random), value(random)]);
            "HSETNX"
        }
        14 => {
            call.extend(["FIELDS".into(), "1".into(), field(random)]);
            "HGETDEL"
        }
        15 => {
            call.extend(["1000000".into(), "FIELDS".into(), "1".into(), field(random)]);
            "HPEXPIRE"
        }
        16 => {
            call.extend(["FIELDS".into(), "1".into(), field(random)]);
            "HPERSIST"
        }
        17 => {
            call.extend(["FIELDS".into(), "1".into(), field(random), value(random)]);
            "HSETEX"
        }
        18 => {
            call.extend([format!("k{}", random.below(3)), "REPLACE".into()]);
            "COPY"
        }
        19 => {
            call.push("k2".into());
            if random.below(4) == 0 { "RENAMENX" } else { "HEXISTS" }
        }
        20 => "HKEYS",
        21 => {
            call.extend(["0".into(), "COUNT".into(), "1000".into()]);
            "HSCAN"
        }
        22 => {
            call.extend(["1000".into(), "WITHVALUES".into()]);
            "HRANDFIELD"
        }
        23 => {
            call.extend((0..4).map(|_| field(random)));
            "HMGET"
        }
        24 if random.below(4) == 0 => "DEL",
        24 => "HLEN",
        25 => {
            call.extend(["FIELDS".into(), "2".into(), field(random), field(random)]);
            "HPTTL"
        }
        _ => "HGETALL",
    };
    call[0] = name.into();
    call
}

/// The parts of a reply, in an order of their own.
fn sorted(reply: &Value) -> Vec<String> {
    let mut parts = Vec::new();
    fn walk(reply: &Value, parts: &mut Vec<String>) {
        match reply {
            Value::Array(items) => items.iter().for_each(|item| walk(item, parts)),
            other => parts.push(show(other)),
        }
    }
    walk(reply, &mut parts);
    parts.sort();
    parts
}

fn contents(client: &mut Client) -> Vec<Vec<String>> {
    let keys = ["k0", "k1", "k2"];
    let all = keys.iter().map(|key| client.call(&[b"HGETALL", key.as_bytes()]));
    all.map(|reply| {
        let Value::Array(items) = reply else { return sorted(&reply) };
        let mut pairs: Vec<String> =
            items.chunks(2).map(|pair| format!("{} {}", show(&pair[0]), show(&pair[1]))).collect();
        pairs.sort();
        pairs
    })
    .collect()
}

#[test]
fn they_answer_as_ordinary_ones() {
    let mut random = Random::seeded();
    let end = Instant::now() + duration();
    let mut rounds = 0;
    let mut compact = 0;
    while Instant::now() < end || rounds < 30 {
        let min = 1 + random.below(4) as i64;
        let (mut shared, mut plain) = (sharing(min, 0), Client::new());
        let (mut copy, mut replica) = (sharing(min, 0), Client::new());
        let empty = shared.exec.ks.keyspace().stats().used;
        let follower = Follower::of(&mut shared, &copy);
        for call in 0..150 {
            let call_words = draw(&mut random);
            let args: Vec<&[u8]> = call_words.iter().map(|arg| arg.as_bytes()).collect();
            let (got, expected) = (shared.call(&args), plain.call(&args));
            assert_eq!(sorted(&got), sorted(&expected), "{}", show_args(&args));
            let commands = follower.lock().unwrap().commands();
            execute(&mut replica, &commands);
            if call % 10 == 0 {
                let contents_here = contents(&mut shared);
                assert_eq!(contents_here, contents(&mut plain), "{}", show_args(&args));
                assert_eq!(contents_here, contents(&mut copy), "{}", show_args(&args));
                assert_eq!(contents_here, contents(&mut replica), "{}", show_args(&args));
                let payload = shared.call(&[b"DUMP", b"k0"]);
                if let Value::Bulk(payload) = &payload {
                    let mut other = Client::new();
                    let restored = other.call(&[b"RESTORE", b"k0", b"0", payload]);
                    assert_eq!(show(&restored), "OK");
                    // Fields of a hash table come in the order of their hashes.
                    if matches!(payload[0], 29 | 31) {
                        let again = other.call(&[b"DUMP", b"k0"]);
                        assert_eq!(again, Value::Bulk(payload.clone()));
                    }
                    assert_eq!(contents(&mut other)[0], contents_here[0]);
                }
                compact += counts(&shared).1;
            }
        }
        for client in [&mut shared, &mut copy] {
            client.call(&[b"DEL", b"k0", b"k1", b"k2"]);
        }
        assert_eq!(counts(&shared), (0, 0));
        shared.exec.ks.set_sink(None);
        shared.call(&[b"FLUSHALL"]);
        assert_eq!(shared.exec.ks.keyspace().stats().used, empty, "memory is counted exactly");
        rounds += 1;
    }
    assert!(compact > 100, "{compact} compact hashes were seen");
}
