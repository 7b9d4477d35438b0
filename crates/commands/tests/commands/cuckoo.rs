//! Cuckoo filters: replies like RedisBloom's, effects that make the same filter elsewhere, dumps of
//! Redis, and hostile input.

use crate::allocations::peak_of;
use crate::client::{Client, show};
use crate::follower::assert_reproduced;
use crate::random::Random;
use petrel_keyspace::Policy;
use petrel_resp::Value;
use std::time::Instant;

#[test]
fn items_are_added_counted_and_deleted() {
    let mut client = Client::new();
    client.follow(
        r#"
        CF.RESERVE z 4 BUCKETSIZE 2 EXPANSION 0 => OK
        CF.INSERT z ITEMS a b c d e f g => [1 1 1 -1 -1 1 -1]
        CF.INSERTNX z ITEMS a b c d e f g h => [0 0 0 -1 -1 0 -1 -1]
        CF.ADD z xx => Filter is full
        CF.ADDNX z xx => Filter is full
        CF.RESERVE z 10 => ERR item exists
        CF.RESERVE y 1 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
        CF.RESERVE y 4611686018427387904 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
        CF.RESERVE y x => Bad capacity
        CF.RESERVE y 10 FOO => ERR wrong number of arguments for 'cf.reserve' command
        CF.RESERVE y 10 BUCKETSIZE 0 => BUCKETSIZE: value must be in the range [1, 255]
        CF.RESERVE y 10 MAXITERATIONS BUCKETSIZE 2 1 => Couldn't parse MAXITERATIONS
        CF.RESERVE y 10 EXPANSION -1 => EXPANSION: value must be in the range [0, 32768]
        CF.DEL none x => Not found
        CF.DEL z nope => 0
        CF.COMPACT none => Cuckoo filter was not found
        CF.COMPACT z => OK
        CF.INFO none => ERR not found
        CF.INSERT q FOO 3 ITEMS a => Unknown argument received
        CF.INSERT q CAPACITY 1 ITEMS a => Capacity must be in the range [cf-bucket-size * 2, 1073741824]
        CF.INSERT q CAPACITY x ITEMS a => Bad capacity
        CF.INSERT q NOCREATE ITEMS a => ERR not found
        CF.INSERT q NOCREATE CAPACITY => ERR wrong number of arguments for 'cf.insert' command
        CF.DEBUG z => "bktsize:2 buckets:2 items:4 deletes:0 filters:1 max_iterations:20 expansion:0"
        CF.INFO z => [Size 60 Number of buckets 2 Number of filters 1 Number of items inserted 4 Number of items deleted 0 Bucket size 2 Expansion rate 0 Max iterations 20]
        CF.MEXISTS z a b zz => [1 1 0]
        CF.MEXISTS none a b => [0 0]
        CF.ADD d x => 1
        CF.ADD d x => 1
        CF.ADDNX d x => 0
        CF.COUNT d x => 2
        CF.DEL d x => 1
        CF.COUNT d x => 1
        CF.EXISTS d x => 1
        CF.INFO d => [Size 1080 Number of buckets 512 Number of filters 1 Number of items inserted 1 Number of items deleted 1 Bucket size 2 Expansion rate 1 Max iterations 20]
        SET s x => OK
        CF.EXISTS s x => 0
        CF.COUNT s x => 0
        CF.DEL s x => Not found
        CF.COMPACT s => Cuckoo filter was not found
        CF.ADD s x => WRONGTYPE Operation against a key holding the wrong kind of value
        TYPE d => MBbloomCF
        OBJECT ENCODING d => "raw"
        COPY d copied => 1
        CF.COUNT copied x => 1
        "#,
    );
    client.resp3().follow(
        r#"
        CF.ADD l a => Boolean(true)
        CF.ADDNX l a => Boolean(false)
        CF.RESERVE r 4 BUCKETSIZE 2 EXPANSION 0 => OK
        CF.INSERT r ITEMS a b c d e f g => [Boolean(true) Boolean(true) Boolean(true) Boolean(false) Boolean(false) Boolean(true) Boolean(false)]
        CF.INSERTNX r ITEMS a d => [0 -1]
        CF.DEL r a => Boolean(true)
        "#,
    );
}

#[test]
fn pieces_move_a_filter() {
    let mut client = Client::new();
    client.run("CF.RESERVE k 50 EXPANSION 2");
    (0..5000).for_each(|i| drop(client.run(&format!("CF.ADD k item{i}"))));
    let mut iterator = b"0".to_vec();
    loop {
        let Value::Array(piece) = client.call(&[b"CF.SCANDUMP", b"k", &iterator]) else { panic!() };
        let [Value::Integer(next), Value::Bulk(cells)] = &piece[..] else { break };
        iterator = next.to_string().into_bytes();
        assert_eq!(show(&client.call(&[b"CF.LOADCHUNK", b"l", &iterator, cells])), "OK");
    }
    assert!(client.call(&[b"DUMP", b"k"]) == client.call(&[b"DUMP", b"l"]));
    client.follow(
        r#"
        CF.SCANDUMP k -1 => Invalid position
        CF.SCANDUMP k x => Invalid position
        CF.SCANDUMP k 1000000 => [0 nil]
        CF.SCANDUMP none 0 => ERR not found
        CF.RESERVE empty 10 => OK
        CF.SCANDUMP empty 0 => [0 nil]
        CF.LOADCHUNK k 1 x => ERR item exists
        CF.LOADCHUNK n 1 x => Invalid header
        CF.LOADCHUNK n 2 x => ERR not found
        CF.LOADCHUNK n 0 x => Invalid position
        CF.LOADCHUNK n x x => Invalid position
        CF.LOADCHUNK empty 3 xxxxx => Couldn't load chunk!
        CF.LOADCHUNK k 9223372036854775807 x => Couldn't load chunk!
        "#,
    );
}

/// A payload of RedisBloom 8.8 after `CF.INSERT k CAPACITY 10 ITEMS a b c a`, and of version 0.
#[test]
fn what_redis_dumps_is_read() {
    let mut client = Client::new();
    client.run("CF.INSERT own CAPACITY 10 ITEMS a b c a");
    let cells: &[u8] = b"\x05\x10\0\0\xc4\xc4\0\0\0\0\0\0\xcb\0\0\0\x10\0";
    // Without a checksum.
    let end: &[u8] = b"\0\x0c\0\0\0\0\0\0\0\0\0";
    let module: &[u8] = b"\x07\x81\x30\x16\xe5\xa2\x89\x82\x14";
    let head: &[u8] = b"\x04\x02\x01\x02\x08\x02\x04\x02\x00\x02\x02\x02\x14\x02\x01\x02\x08";
    let payload = [module, head, cells, end].concat();
    let old = [module, b"\0\x02\x01\x02\x08\x02\x04", cells, end].concat();
    for payload in [&payload, &old] {
        let args: [&[u8]; 5] = [b"RESTORE", b"k", b"0", payload, b"REPLACE"];
        assert_eq!(show(&client.call(&args)), "OK");
        assert!(client.call(&[b"DUMP", b"k"]) == client.call(&[b"DUMP", b"own"]));
    }
    // No byte of it may end in a panic, or in an allocation for what is only announced.
    let mut random = Random::seeded();
    for round in 0..2000 {
        let mut broken = if round % 2 == 0 { payload.clone() } else { old.clone() };
        for _ in 0..=random.below(2) {
            let at = random.below(broken.len());
            broken[at] = random.below(256) as u8;
        }
        let (_, peak) = peak_of(|| client.call(&[b"RESTORE", b"b", b"0", &broken, b"REPLACE"]));
        assert!(peak < 1 << 20, "{peak} bytes for {}", broken.escape_ascii());
        ["CF.ADD b x", "CF.DEL b x", "CF.COMPACT b"].iter().for_each(|call| drop(client.run(call)));
    }
}

fn draw_call(random: &mut Random) -> Vec<String> {
    let key = ["k", "k", "l"][random.below(3)];
    let item = |random: &mut Random| format!("item{}", random.below(600));
    let mut line = match random.below(14) {
        0 => format!("CF.RESERVE {key} {}", 4 + random.below(500)),
        1 => format!("CF.RESERVE {key} 20 BUCKETSIZE 3 EXPANSION {}", random.below(4)),
        2 => format!("CF.INSERT {key} CAPACITY {} ITEMS {}", 4 + random.below(30), item(random)),
        3 if random.below(20) == 0 => format!("DEL {key}"),
        4 => format!("CF.COMPACT {key}"),
        5..8 => format!("CF.DEL {key} {}", item(random)),
        8..10 => format!("CF.ADD {key} {}", item(random)),
        _ => format!("CF.INSERTNX {key} ITEMS {}", item(random)),
    };
    if line.contains(" ITEMS ") {
        (0..random.below(20)).for_each(|_| line += &format!(" {}", item(random)));
    }
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn effects_make_the_same_filter() {
    assert_reproduced(draw_call, &[b"k", b"l"], |own, replica, key| {
        let piece: [&[u8]; 3] = [b"CF.SCANDUMP", key, b"1"];
        let calls: [&[&[u8]]; 2] = [&[b"CF.DEBUG", key], &piece];
        calls.iter().all(|args| replica.call(args) == own.call(args))
    });
}

/// Head of a dump.
fn head(buckets: u64, filters: u64, size: u16, iterations: u16, expansion: u16) -> Vec<u8> {
    let mut out = [0u64, buckets, 0, filters].map(u64::to_le_bytes).concat();
    [size, iterations, expansion].iter().for_each(|n| out.extend(n.to_le_bytes()));
    out
}

#[test]
fn memory_is_counted_and_limited() {
    let mut client = Client::new();
    let usage = |client: &mut Client, key: &str| -> usize {
        client.run(&format!("MEMORY USAGE {key}")).parse().unwrap()
    };
    client.run("CF.RESERVE k 1000000");
    assert!(usage(&mut client, "k") < 400, "places are allocated by their first change");
    (0..20_000).for_each(|i| drop(client.run(&format!("CF.ADD k {i}"))));
    let full = usage(&mut client, "k");
    assert!((1_048_576..1_080_000).contains(&full), "{full}");
    client.run("COPY k l");
    assert_eq!(usage(&mut client, "l"), full);
    let keyspace = client.exec.ks.keyspace().clone();
    let used = keyspace.stats().used;
    keyspace.set_memory_limit(used + 200_000, Policy::NoEviction);
    assert_eq!(client.run("CF.RESERVE m 100000000"), "OK");
    let items: Vec<String> = (0..1000).map(|i| i.to_string()).collect();
    let line = format!("CF.INSERT m ITEMS {}", items.join(" "));
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(client.run(&line), oom);
    let many = client.call(&[b"CF.LOADCHUNK", b"n", b"1", &head(1, 65_535, 1, 20, 1)]);
    assert_eq!((show(&many).as_str(), client.run("EXISTS n").as_str()), (oom, "0"));
    keyspace.set_memory_limit(0, Policy::NoEviction);
    assert!(client.run(&line).starts_with("[1 1 "));
}

/// A head that announces many sub-filters of 4 GiB, and calls that take the most steps, occupy
/// little and end.
#[test]
fn a_stranger_is_bounded() {
    let mut client = Client::new();
    let mut call = |args: &[&[u8]]| {
        let start = Instant::now();
        let (reply, peak) = peak_of(|| client.call(args));
        assert!(peak < 64 << 20 && start.elapsed().as_secs() < 20, "{peak}");
        show(&reply)
    };
    let many = head(1 << 30, 65_535, 3, 65_535, 1);
    assert_eq!(call(&[b"CF.LOADCHUNK", b"k", b"1", &many]), "OK");
    assert_eq!(call(&[b"CF.LOADCHUNK", b"k", b"4000000000", b"x"]), "OK");
    assert_eq!(call(&[b"CF.EXISTS", b"k", b"x"]), "0");
    assert_eq!(call(&[b"CF.ADD", b"k", b"x"]), "1");
    assert_eq!(call(&[b"CF.COUNT", b"k", b"x"]), "1");
    assert_eq!(call(&[b"CF.DEL", b"k", b"y"]), "0");
    assert_eq!(call(&[b"CF.COMPACT", b"k"]), "OK");
    for broken in [
        head(1 << 32, 1, 1, 20, 1),
        head(1 << 62, 1, 1, 20, 1),
        head(8, 65_536, 2, 20, 1),
        head(8, 65_535, 2, 20, 2),
        head(8, u64::MAX, 2, 20, 0),
        head(7, 1, 2, 20, 1),
        head(8, 1, 256, 20, 1),
        head(8, 1, 2, 0, 1),
        head(8, 1, 2, 20, 3),
        head(8, 0, 2, 20, 1),
    ] {
        assert_eq!(call(&[b"CF.LOADCHUNK", b"b", b"1", &broken]), "Couldn't create filter!");
    }
    // The same item again and again, where every try moves as many fingerprints as it may.
    assert_eq!(
        call(&[b"CF.RESERVE", b"r", b"510", b"BUCKETSIZE", b"255", b"MAXITERATIONS", b"65535"]),
        "OK"
    );
    let items = [&[&b"CF.INSERT"[..], b"r", b"ITEMS"][..], &[&b"x"[..]; 2000]].concat();
    assert!(call(&items).starts_with("[1 1 "));
}
