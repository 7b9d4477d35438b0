//! Count-min sketches: replies like RedisBloom's, effects that make the same sketch elsewhere, and
//! hostile input.

use crate::allocations::peak_of;
use crate::client::Client;
use crate::follower::assert_reproduced;
use crate::random::Random;
use petrel_keyspace::Policy;
use petrel_resp::Value;
use std::time::Instant;

#[test]
fn items_are_counted() {
    Client::new().follow(
        r#"
        CMS.INITBYDIM k 10 3 => OK
        CMS.INITBYDIM k 10 3 => CMS: key already exists
        CMS.INITBYDIM a 0 3 => CMS: invalid width
        CMS.INITBYDIM a 3 x => CMS: invalid depth
        CMS.INITBYDIM a 4611686018427387904 2 => CMS: invalid init arguments
        CMS.INITBYDIM a 9223372036854775807 1 => CMS: Insufficient memory to create the key
        CMS.INITBYPROB p 0.001 0.01 => OK
        CMS.INFO p => [width 2000 depth 7 count 0]
        CMS.INITBYPROB q 1 0.5 => CMS: invalid overestimation value
        CMS.INITBYPROB q 0.5 nan => CMS: invalid prob value
        CMS.INITBYPROB q 1e-300 0.5 => CMS: invalid init arguments
        CMS.INITBYPROB q 0.5 1e-300 => CMS: invalid init arguments
        CMS.INCRBY k a 1 b 2 a 3 => [1 2 4]
        CMS.INCRBY k a => ERR wrong number of arguments for 'cms.incrby' command
        CMS.INCRBY k a 1 b => ERR wrong number of arguments for 'cms.incrby' command
        CMS.INCRBY k a 5 b x => CMS: Cannot parse number
        CMS.INCRBY k a -1 => CMS: Number cannot be negative
        CMS.INCRBY none a x => CMS: key does not exist
        CMS.QUERY k a b z => [4 2 0]
        CMS.INCRBY k c 4294967295 => [CMS: INCRBY overflow]
        CMS.INFO k => [width 10 depth 3 count 4294967301]
        CMS.INITBYDIM d 10 3 => OK
        CMS.INITBYDIM e 10 3 => OK
        CMS.INITBYDIM f 11 3 => OK
        CMS.INCRBY d a 5 b 6 => [5 6]
        CMS.INCRBY e a 1 c 7 => [1 7]
        PEXPIREAT e 4000000000000 => 1
        CMS.MERGE e 2 d e => OK
        CMS.QUERY e a b c => [6 6 7]
        PEXPIRETIME e => 4000000000000
        CMS.MERGE e 1 d WEIGHTS 3 => OK
        CMS.QUERY e a b c => [15 18 0]
        CMS.MERGE e 2 d e WEIGHTS 1 -1 => CMS: MERGE overflow
        CMS.MERGE e 1 d WEIGHTS 9223372036854775807 => CMS: MERGE overflow
        CMS.MERGE e 2 d f => CMS: width/depth is not equal
        CMS.MERGE e 0 d => CMS: Number of keys must be positive
        CMS.MERGE e x d => CMS: invalid numkeys
        CMS.MERGE e 2 d => CMS: wrong number of keys
        CMS.MERGE e 1 d WEIGHTS => CMS: wrong number of keys/weights
        CMS.MERGE e 1 d WEIGHTS x => CMS: invalid weight value
        CMS.MERGE e 1 none => CMS: key does not exist
        CMS.QUERY e a b c => [15 18 0]
        TYPE k => CMSk-TYPE
        OBJECT ENCODING k => "raw"
        "#,
    );
    Client::new().resp3().follow(
        r#"
        CMS.INITBYDIM k 10 3 => OK
        CMS.INFO k => {width: 10, depth: 3, count: 0}
        "#,
    );
}

fn draw_call(random: &mut Random) -> Vec<String> {
    let mut key = || ["k", "l", "m"][random.below(3)];
    let (key, other, third) = (key(), key(), key());
    let mut line = match random.below(12) {
        0 => format!("CMS.INITBYDIM {key} 3000 3"),
        1 => format!("CMS.MERGE {key} 2 {other} {third} WEIGHTS 1 2"),
        2 => format!("CMS.MERGE {key} 1 {other} WEIGHTS 0"),
        3 if random.below(20) == 0 => format!("DEL {key}"),
        _ => format!("CMS.INCRBY {key} item 1"),
    };
    if line.starts_with("CMS.INCRBY") {
        for _ in 0..random.below(20) {
            line += &format!(" item{} {}", random.below(500), random.below(4));
        }
    }
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn effects_make_the_same_sketch() {
    assert_reproduced(draw_call, &[b"k", b"l", b"m"], |own, replica, key| {
        replica.call(&[b"DUMP", key]) == own.call(&[b"DUMP", key])
    });
}

#[test]
fn a_stranger_is_bounded() {
    let mut client = Client::new();
    let mut call = |line: &str| {
        let start = Instant::now();
        let (reply, peak) = peak_of(|| client.run(line));
        assert!(peak < 64 << 20 && start.elapsed().as_secs() < 20, "{peak} for {line}");
        reply
    };
    assert_eq!(call("CMS.INITBYDIM k 1000000000 1"), "OK");
    assert_eq!(call("CMS.INCRBY k a 1 b 2"), "[1 2]");
    assert_eq!(
        call("CMS.INITBYDIM deep 1 1000000000"),
        "CMS: Insufficient memory to create the key"
    );
    assert_eq!(call("CMS.INITBYDIM deep 100 4096"), "OK");
    let items: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    assert!(call(&format!("CMS.QUERY deep {}", items.join(" "))).starts_with("[0 0 "));
    let keyspace = client.exec.ks.keyspace().clone();
    client.run("CMS.INITBYDIM l 1000000 5");
    let used = keyspace.stats().used;
    keyspace.set_memory_limit(used + 1_000_000, Policy::NoEviction);
    let increments = (0..2000).map(|n| n.to_string()).collect::<Vec<_>>().join(" 1 item");
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(client.run(&format!("CMS.INCRBY l {increments} 1")), oom);
    assert_eq!(client.run("CMS.MERGE l 1 l"), oom);
    keyspace.set_memory_limit(0, Policy::NoEviction);
    let mut random = Random::seeded();
    client.run("CMS.INITBYDIM s 10 2");
    client.run("CMS.INCRBY s a 1 b 2");
    let Value::Bulk(payload) = client.call(&[b"DUMP", b"s"]) else { panic!("no payload") };
    for _ in 0..2000 {
        let mut broken = payload.to_vec();
        let len = broken.len();
        // Without a checksum.
        broken[len - 8..].fill(0);
        broken[random.below(len - 10)] = random.below(256) as u8;
        let args: [&[u8]; 5] = [b"RESTORE", b"b", b"0", &broken, b"REPLACE"];
        let (_, peak) = peak_of(|| client.call(&args));
        assert!(peak < 1 << 20, "{peak} bytes for {}", broken.escape_ascii());
        client.run("CMS.INCRBY b x 1");
    }
}
