//! Bloom filters: replies like RedisBloom's, effects that make the same filter elsewhere, dumps of
//! Redis, and hostile input.

use crate::allocations::peak_of;
use crate::client::{Client, show};
use crate::follower::assert_reproduced;
use crate::random::Random;
use petrel_keyspace::{Options, Policy};
use petrel_resp::Value;
use std::time::Instant;

#[test]
fn items_are_added_and_found() {
    let mut client = Client::new();
    client.follow(
        r#"
        BF.ADD k a => 1
        BF.ADD k a => 0
        BF.MADD k a b c => [0 1 1]
        BF.EXISTS k b => 1
        BF.MEXISTS k b z => [1 0]
        BF.MEXISTS none b z => [0 0]
        BF.CARD k => 3
        BF.CARD none => 0
        BF.INFO k => [Capacity 100 Size 240 Number of filters 1 Number of items inserted 3 Expansion rate 2]
        BF.INFO k size => [240]
        BF.INFO k foo => Invalid information value
        BF.INFO none => ERR not found
        BF.DEBUG k => ["size:3" "bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:3 ratio:0.005"]
        SET s x => OK
        BF.EXISTS s a => 0
        BF.MEXISTS s a b => [0 0]
        BF.ADD s a => WRONGTYPE Operation against a key holding the wrong kind of value
        BF.RESERVE k 0.1 10 => ERR item exists
        BF.RESERVE r 0 10 => ERR error rate must be in the range (0.000000, 1.000000)
        BF.RESERVE r nan 10 => ERR bad error rate
        BF.RESERVE r inf 10 => ERR error rate must be in the range (0.000000, 1.000000)
        BF.RESERVE r 0.1 0 => ERR capacity must be in the range [1, 1073741824]
        BF.RESERVE r 0.1 4611686018427387904 => ERR capacity must be in the range [1, 1073741824]
        BF.RESERVE r 0.1 10 EXPANSION => ERR no expansion
        BF.RESERVE r 0.1 10 EXPANSION 32769 => ERR expansion must be in the range [0, 32768]
        BF.RESERVE r 0.1 10 EXPANSION 2 NONSCALING => Nonscaling filters cannot expand
        BF.RESERVE r 0.1 10 EXPANSION 2 NONSCALING x => ERR wrong number of arguments for 'bf.reserve' command
        BF.RESERVE r 1e-300 1073741824 => ERR could not create filter
        BF.RESERVE r 0.9 10 EXPANSION 0 => OK
        BF.INFO r EXPANSION => [nil]
        BF.DEBUG r => ["size:0" "bytes:8 bits:64 hashes:3 hashwidth:64 capacity:10 size:0 ratio:0.25"]
        BF.INSERT i CAPACITY 2 NONSCALING ITEMS a b a c d => [1 1 0 ERR non scaling filter is full]
        BF.INSERT none NOCREATE ITEMS a => ERR not found
        BF.INSERT none CAPACITY 0 ITEMS a => Bad capacity
        BF.INSERT none FOO ITEMS a => Unknown argument received
        BF.INSERT none ITEMS => ERR wrong number of arguments for 'bf.insert' command
        BF.INSERT j EXP 3 CAP 7 ERR 0.1 ITEMS a => [1]
        BF.INFO j => [Capacity 7 Size 104 Number of filters 1 Number of items inserted 1 Expansion rate 3]
        TYPE k => MBbloom--
        OBJECT ENCODING k => "raw"
        COPY k copied => 1
        BF.EXISTS copied c => 1
        "#,
    );
    client.resp3().follow(
        r#"
        BF.ADD l a => Boolean(true)
        BF.MADD l a b => [Boolean(false) Boolean(true)]
        BF.EXISTS l z => Boolean(false)
        BF.INFO l items => {Number of items inserted: 2}
        "#,
    );
}

#[test]
fn pieces_move_a_filter() {
    let mut client = Client::new();
    client.run("BF.RESERVE k 0.0001 50 EXPANSION 3");
    (0..5000).for_each(|i| drop(client.run(&format!("BF.ADD k item{i}"))));
    let mut iterator = b"0".to_vec();
    loop {
        let Value::Array(piece) = client.call(&[b"BF.SCANDUMP", b"k", &iterator]) else { panic!() };
        let [Value::Integer(next), Value::Bulk(bits)] = &piece[..] else { panic!("{piece:?}") };
        if *next == 0 {
            assert!(bits.is_empty());
            break;
        }
        iterator = next.to_string().into_bytes();
        assert_eq!(show(&client.call(&[b"BF.LOADCHUNK", b"l", &iterator, bits])), "OK");
    }
    assert!(client.call(&[b"DUMP", b"k"]) == client.call(&[b"DUMP", b"l"]));
    client.follow(
        r#"
        BF.SCANDUMP k -1 => [0 ""]
        BF.SCANDUMP k x => Second argument must be numeric
        BF.SCANDUMP none 0 => ERR not found
        BF.LOADCHUNK n 1 x => ERR received bad data
        BF.LOADCHUNK n 2 x => ERR not found
        BF.LOADCHUNK n x x => ERR Second argument must be numeric
        BF.LOADCHUNK k 1 x => ERR invalid offset - no link found
        BF.LOADCHUNK k 0 x => ERR received bad data
        BF.LOADCHUNK k 9223372036854775807 x => ERR invalid offset - no link found
        BF.RESERVE c 0.01 2 => OK
        BF.LOADCHUNK c 10 xxx => ERR invalid chunk - Too big for current filter
        "#,
    );
}

/// DUMP payloads of RedisBloom 8.8 and 2.8: three items, and what is added behind a new link.
#[test]
fn what_redis_dumps_is_read() {
    let mut client = Client::new();
    let head = b"\x07\x81\x30\x16\xe5\xa2\x89\xbe\xf8\x04\x02\x03\x02\x01\x02\x05\x02\x02\
        \x02\x40\x64\x04{\x14\xaeG\xe1zt?\x02\x08\x04\xe9\x86/\xb25\x0e&@\x02\x44\x80\x02\x00\x05\x40\x90";
    let Value::Array(piece) = ({
        client.run("BF.MADD own a b c");
        client.call(&[b"BF.SCANDUMP", b"own", b"1"])
    }) else {
        panic!()
    };
    let bits = piece[1].as_bytes().unwrap();
    // Without a checksum.
    let payload = [head, bits, b"\x02\x03\x00\x0c\x00\0\0\0\0\0\0\0\0"].concat();
    assert_eq!(show(&client.call(&[b"RESTORE", b"k", b"0", &payload])), "OK");
    assert!(client.call(&[b"DUMP", b"k"]) == client.call(&[b"DUMP", b"own"]));
    // No byte of it may end in a panic, or in an allocation for what is only announced.
    let mut random = Random::seeded();
    for _ in 0..2000 {
        let mut broken = payload.clone();
        for _ in 0..=random.below(2) {
            let at = random.below(70.min(broken.len()));
            broken[at] = random.below(256) as u8;
        }
        let (_, peak) = peak_of(|| client.call(&[b"RESTORE", b"b", b"0", &broken, b"REPLACE"]));
        assert!(peak < 1 << 20, "{peak} bytes for {}", broken.escape_ascii());
        client.run("BF.ADD b x");
    }
}

fn draw_call(random: &mut Random) -> Vec<String> {
    let key = ["k", "k", "l"][random.below(3)];
    let item = |random: &mut Random| format!("item{}", random.below(3000));
    let mut line = match random.below(12) {
        0 => format!("BF.RESERVE {key} 0.0{} {}", 1 + random.below(9), 1 + random.below(500)),
        1 => format!("BF.RESERVE {key} 0.3 {} EXPANSION {}", 1 + random.below(9), random.below(4)),
        2 => format!("BF.RESERVE {key} 1e-5 {} NONSCALING", 1 + random.below(500)),
        3 => format!("BF.INSERT {key} CAPACITY {} ITEMS {}", 1 + random.below(30), item(random)),
        4 if random.below(20) == 0 => format!("DEL {key}"),
        5..8 => format!("BF.ADD {key} {}", item(random)),
        _ => format!("BF.MADD {key} {}", item(random)),
    };
    if line.starts_with("BF.MADD") || line.starts_with("BF.INSERT") {
        (0..random.below(40)).for_each(|_| line += &format!(" {}", item(random)));
    }
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn effects_make_the_same_filter() {
    assert_reproduced(draw_call, &[b"k", b"l"], |own, replica, key| {
        let piece: [&[u8]; 3] = [b"BF.SCANDUMP", key, b"1"];
        let calls: [&[&[u8]]; 3] = [&[b"BF.DEBUG", key], &[b"BF.CARD", key], &piece];
        calls.iter().all(|args| replica.call(args) == own.call(args))
    });
}

#[test]
fn memory_is_counted_and_limited() {
    let options = Options { stripes: 4, ..Options::default() };
    let mut client = Client::with_options(&options);
    let usage = |client: &mut Client, key: &str| -> usize {
        client.run(&format!("MEMORY USAGE {key}")).parse().unwrap()
    };
    client.run("BF.RESERVE k 0.01 1000000");
    assert!(usage(&mut client, "k") < 600, "bits are allocated by their first change");
    (0..20_000).for_each(|i| drop(client.run(&format!("BF.ADD k {i}"))));
    let full = usage(&mut client, "k");
    assert!((1_378_000..1_420_000).contains(&full), "{full}");
    client.run("COPY k l");
    assert_eq!(usage(&mut client, "l"), full);
    let keyspace = client.exec.ks.keyspace().clone();
    let used = keyspace.stats().used;
    keyspace.set_memory_limit(used + 200_000, Policy::NoEviction);
    let reply = client.run("BF.RESERVE m 1e-9 1000000");
    assert_eq!(reply, "OK");
    let items: Vec<String> = (0..1000).map(|i| i.to_string()).collect();
    let line = format!("BF.MADD m {}", items.join(" "));
    assert_eq!(client.run(&line), "OOM command not allowed when used memory > 'maxmemory'.");
    assert_eq!(client.run("BF.CARD m"), "0");
    keyspace.set_memory_limit(0, Policy::NoEviction);
    assert!(client.run(&line).starts_with("[1 1 "));
}

/// A head that announces 4 GiB of bits, with many links, occupies little and answers at once.
#[test]
fn a_stranger_is_bounded() {
    let mut client = Client::new();
    let link = |bits: u64, hashes: u32| {
        let mut out = Vec::new();
        [bits / 8, bits, 0].iter().for_each(|n: &u64| out.extend_from_slice(&n.to_le_bytes()));
        [0.005f64, 11.0].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        out.extend_from_slice(&hashes.to_le_bytes());
        out.extend_from_slice(&1u64.to_le_bytes());
        out.push(0);
        out
    };
    let head = |count: u32, link: Vec<u8>| {
        let mut out = 0u64.to_le_bytes().to_vec();
        [count, 5, 2].iter().for_each(|n: &u32| out.extend_from_slice(&n.to_le_bytes()));
        (0..count).for_each(|_| out.extend_from_slice(&link));
        out
    };
    let mut call = |args: &[&[u8]]| {
        let start = Instant::now();
        let (reply, peak) = peak_of(|| client.call(args));
        assert!(peak < 64 << 20 && start.elapsed().as_secs() < 20, "{peak}");
        show(&reply)
    };
    let gigabytes = head(2000, link((1 << 35) - (1 << 15), 1000));
    assert_eq!(call(&[b"BF.LOADCHUNK", b"k", b"1", &gigabytes]), "OK");
    assert_eq!(call(&[b"BF.LOADCHUNK", b"k", b"4000000000", b"x"]), "OK");
    assert_eq!(call(&[b"BF.EXISTS", b"k", b"x"]), "0");
    assert_eq!(call(&[b"BF.ADD", b"k", b"x"]), "1");
    for broken in [
        head(1, link(1 << 35, 8)),
        head(1, link(1 << 62, 8)),
        head(1, link(64, 0)),
        head(1, link(64, u32::MAX)),
        head(4000, link(64, 8)),
        head(0, Vec::new()),
    ] {
        assert_eq!(call(&[b"BF.LOADCHUNK", b"b", b"1", &broken]), "ERR received bad data");
    }
}
