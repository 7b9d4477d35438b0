//! t-digests: replies like RedisBloom's, effects that make the same digest elsewhere, and hostile
//! input.

use crate::allocations::peak_of;
use crate::client::{Client, show};
use crate::follower::assert_reproduced;
use crate::random::Random;
use petrel_keyspace::Policy;
use petrel_resp::Value;
use std::time::Instant;

#[test]
fn numbers_are_estimated() {
    let mut client = Client::new();
    client.follow(
        r#"
        TDIGEST.CREATE a => OK
        TDIGEST.CREATE a => ERR T-Digest: key already exists
        TDIGEST.CREATE b COMPRESSION 10 => OK
        TDIGEST.CREATE c COMPRESSION 0 => ERR T-Digest: compression parameter needs to be a positive integer
        TDIGEST.CREATE c COMPRESSION x => ERR T-Digest: error parsing compression parameter
        TDIGEST.CREATE c COMPRESSION => ERR wrong number of arguments for 'tdigest.create' command
        TDIGEST.CREATE c FOO 10 => ERR T-Digest: wrong keyword
        TDIGEST.CREATE c COMPRESSION 4611686018427387904 => ERR T-Digest: allocation failed
        TDIGEST.QUANTILE a 0.5 => ["nan"]
        TDIGEST.CDF a 1 2 => ["nan" "nan"]
        TDIGEST.RANK a 1 => [-2]
        TDIGEST.REVRANK a 1 => [-2]
        TDIGEST.BYRANK a 0 1 => ["nan" "nan"]
        TDIGEST.BYREVRANK a 0 => ["nan"]
        TDIGEST.MIN a => "nan"
        TDIGEST.MAX a => "nan"
        TDIGEST.TRIMMED_MEAN a 0.1 0.9 => "nan"
        TDIGEST.ADD a 1 2 3 4 5 6 7 8 9 10 => OK
        TDIGEST.ADD a 1 x => ERR T-Digest: error parsing val parameter
        TDIGEST.ADD a nan => ERR T-Digest: error parsing val parameter
        TDIGEST.ADD a -inf => ERR T-Digest: val parameter needs to be a finite number
        TDIGEST.ADD a 1e308 => OK
        TDIGEST.QUANTILE a 0 0.1 0.5 0.9 1 => ["1" "2" "6" "10" "1e+308"]
        TDIGEST.QUANTILE a 1.1 => ERR T-Digest: quantile should be in [0,1]
        TDIGEST.QUANTILE a x => ERR T-Digest: error parsing quantile
        TDIGEST.CDF a 0 1 2 3 4 11 => ["0" "0.045454545454545456" "0.13636363636363635" "0.22727272727272727" "0.3181818181818182" "0.9090909090909091"]
        TDIGEST.CDF a nan => ERR T-Digest: error parsing cdf
        TDIGEST.CDF a inf -inf => ["1" "0"]
        TDIGEST.RANK a 0 1 2 3 4 11 => [-1 0 1 2 3 10]
        TDIGEST.REVRANK a 0 1 2 3 4 11 => [11 10 9 8 7 1]
        TDIGEST.RANK a x => ERR T-Digest: error parsing value
        TDIGEST.BYRANK a 0 1 2 5 9 10 11 12 => ["1" "2" "3" "6" "10" "1e+308" "inf" "inf"]
        TDIGEST.BYREVRANK a 0 1 2 5 9 10 11 12 => ["1e+308" "10" "9" "6" "2" "1" "-inf" "-inf"]
        TDIGEST.BYRANK a -1 => ERR T-Digest: rank needs to be non negative
        TDIGEST.BYRANK a 1.5 => ERR T-Digest: error parsing rank
        TDIGEST.MIN a => "1"
        TDIGEST.MAX a => "1e+308"
        TDIGEST.TRIMMED_MEAN a 0.1 0.9 => "6"
        TDIGEST.TRIMMED_MEAN a 0.5 0.5 => ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile
        TDIGEST.TRIMMED_MEAN a x 0.5 => ERR T-Digest: error parsing low_cut_percentile
        TDIGEST.TRIMMED_MEAN a 0.5 x => ERR T-Digest: error parsing high_cut_percentile
        TDIGEST.TRIMMED_MEAN a -0.5 0.6 => ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]
        TDIGEST.CREATE one => OK
        TDIGEST.ADD one 5 => OK
        TDIGEST.QUANTILE one 0 0.5 1 => ["5" "5" "5"]
        TDIGEST.RANK one 5 6 => [0 1]
        TDIGEST.BYRANK one 0 1 => ["5" "inf"]
        TDIGEST.CDF one 4 5 6 => ["0" "0.5" "1"]
        TDIGEST.TRIMMED_MEAN one 0 1 => "5"
        TDIGEST.RESET a => OK
        TDIGEST.QUANTILE a 0.5 => ["nan"]
        TDIGEST.RESET none => ERR T-Digest: key does not exist
        TDIGEST.ADD none x => ERR T-Digest: key does not exist
        TDIGEST.MIN none => ERR T-Digest: key does not exist
        TDIGEST.TRIMMED_MEAN none x y => ERR T-Digest: key does not exist
        SET s x => OK
        TDIGEST.CREATE s COMPRESSION x => WRONGTYPE Operation against a key holding the wrong kind of value
        TDIGEST.MERGE s 1 s => WRONGTYPE Operation against a key holding the wrong kind of value
        TYPE a => TDIS-TYPE
        OBJECT ENCODING a => "raw"
        "#,
    );
    client.resp3().follow(
        r#"
        TDIGEST.CREATE l => OK
        TDIGEST.ADD l 1 2.5 => OK
        TDIGEST.MAX l => Double(2.5)
        TDIGEST.QUANTILE l 0 1 => [Double(1.0) Double(2.5)]
        "#,
    );
}

#[test]
fn digests_are_merged() {
    Client::new().follow(
        r#"
        TDIGEST.CREATE b COMPRESSION 10 => OK
        TDIGEST.ADD b 1 2 3 => OK
        TDIGEST.MERGE d 1 b => OK
        TDIGEST.MERGE d 1 b => OK
        TDIGEST.QUANTILE d 0 0.5 1 => ["1" "2" "3"]
        TDIGEST.BYRANK d 5 6 => ["3" "inf"]
        TDIGEST.MERGE d 2 b b OVERRIDE COMPRESSION 7 COMPRESSION 8 => OK
        TDIGEST.BYRANK d 5 6 => ["3" "inf"]
        TDIGEST.MERGE d 2 b => ERR wrong number of arguments for 'tdigest.merge' command
        TDIGEST.MERGE d 99999999999 b => ERR wrong number of arguments for 'tdigest.merge' command
        TDIGEST.MERGE d 0 b => ERR T-Digest: numkeys needs to be a positive integer
        TDIGEST.MERGE d x b => ERR T-Digest: error parsing numkeys
        TDIGEST.MERGE d 1 b FOO => ERR T-Digest: wrong keyword
        TDIGEST.MERGE d 1 b COMPRESSION => ERR wrong number of arguments for 'tdigest.merge' command
        TDIGEST.MERGE d 1 b COMPRESSION x => ERR T-Digest: error parsing compression parameter
        TDIGEST.MERGE d 1 none => ERR T-Digest: key does not exist
        SET s x => OK
        TDIGEST.MERGE d 1 s => WRONGTYPE Operation against a key holding the wrong kind of value
        COPY d copied => 1
        TDIGEST.MAX copied => "3"
        "#,
    );
}

/// Without COMPRESSION, a destination that stays keeps its own; another has the highest of the
/// sources.
#[test]
fn a_merge_keeps_the_destinations_compression() {
    let mut client = Client::new();
    client.follow(
        r#"
        TDIGEST.CREATE narrow COMPRESSION 55 => OK
        TDIGEST.CREATE a COMPRESSION 100 => OK
        TDIGEST.CREATE b COMPRESSION 200 => OK
        TDIGEST.MERGE narrow 2 a b => OK
        TDIGEST.MERGE new 2 a b => OK
        TDIGEST.MERGE a 1 b OVERRIDE => OK
        TDIGEST.MERGE b 1 narrow COMPRESSION 70 => OK
        "#,
    );
    for (key, compression) in [("narrow", 55), ("new", 200), ("a", 200), ("b", 70)] {
        let info = client.run(&format!("TDIGEST.INFO {key}"));
        assert!(info.contains(&format!("Compression {compression} ")), "{key}: {info}");
    }
}

/// Payloads of RedisBloom 8.8 with compression 1: of three numbers, of none, and of a single one,
/// which it does not write.
#[test]
fn what_redis_dumps_is_read() {
    let mut client = Client::new();
    let double = |number: f64| [&[4][..], &number.to_le_bytes()].concat();
    let payload = |ends: [f64; 2], merged: u8, unmerged: u8, weights: [f64; 2], nodes: &[f64]| {
        let module = b"\x07\x81\x4c\x32\x12\xf9\x36\x0f\x10\x00".to_vec();
        let counts = vec![2, 16, 2, merged, 2, unmerged, 2, 1];
        let doubles = |numbers: &[f64]| numbers.iter().flat_map(|&n| double(n)).collect::<Vec<_>>();
        // Without a checksum.
        let end = b"\0\x0c\0\0\0\0\0\0\0\0\0".to_vec();
        let parts = [module, double(1.0), doubles(&ends), counts, doubles(&weights)];
        [parts.concat(), doubles(nodes), end].concat()
    };
    let nodes = [1.0, 2.0, 3.0, 1.0, 1.0, 1.0];
    for (payload, quantiles) in [
        (payload([1.0, 3.0], 3, 0, [3.0, 0.0], &nodes), r#"["1" "2" "3"]"#),
        (payload([5.0, 5.0], 0, 1, [0.0, 1.0], &[]), r#"["5" "5" "5"]"#),
        (payload([f64::MAX, -f64::MAX], 0, 0, [0.0, 0.0], &[]), r#"["nan" "nan" "nan"]"#),
    ] {
        let args: [&[u8]; 5] = [b"RESTORE", b"k", b"0", &payload, b"REPLACE"];
        assert_eq!(show(&client.call(&args)), "OK");
        assert_eq!(client.run("TDIGEST.QUANTILE k 0 0.5 1"), quantiles);
    }
    let broken = payload([1.0, 3.0], 1, 2, [1.0, 2.0], &nodes);
    let reply = client.call(&[b"RESTORE", b"b", b"0", &broken]);
    assert_eq!(show(&reply), "ERR Bad data format");
}

fn draw_call(random: &mut Random) -> Vec<String> {
    let mut key = || ["k", "l", "m"][random.below(3)];
    let (key, other) = (key(), key());
    let mut line = match random.below(12) {
        0 => format!("TDIGEST.CREATE {key} COMPRESSION {}", 1 + random.below(20)),
        1 => format!("TDIGEST.MERGE {key} 1 {other}"),
        2 => format!("TDIGEST.MERGE {key} 1 {other} OVERRIDE COMPRESSION 9"),
        3 if random.below(10) == 0 => format!("TDIGEST.RESET {key}"),
        4 if random.below(10) == 0 => format!("DEL {key}"),
        5 => format!("TDIGEST.QUANTILE {key} 0.5"),
        _ => format!("TDIGEST.ADD {key} 1"),
    };
    if line.starts_with("TDIGEST.ADD") {
        // Digests of a few numbers are packed.
        let more = [2, 40][random.below(2)];
        for _ in 0..random.below(more) {
            line += &format!(" {}.{}", random.below(1000), random.below(1000));
        }
    }
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn effects_make_the_same_digest() {
    assert_reproduced(draw_call, &[b"k", b"l", b"m"], |own, replica, key| {
        let cdf: [&[u8]; 5] = [b"TDIGEST.CDF", key, b"1", b"500", b"777"];
        let calls: [&[&[u8]]; 2] = [&[b"DUMP", key], &cdf];
        calls.iter().all(|args| replica.call(args) == own.call(args))
    });
}

#[test]
fn packed_values_of_other_types_are_no_digests() {
    let mut client = Client::new();
    client.follow(
        r#"
        JSON.SET j $ 1 => OK
        TDIGEST.ADD j 1 => WRONGTYPE Operation against a key holding the wrong kind of value
        TDIGEST.MIN j => WRONGTYPE Operation against a key holding the wrong kind of value
        TDIGEST.MERGE d 1 j => WRONGTYPE Operation against a key holding the wrong kind of value
        TDIGEST.CREATE d => OK
        TDIGEST.MERGE d 1 j => WRONGTYPE Operation against a key holding the wrong kind of value
        JSON.SET d . 1 => Existing key has wrong Redis type
        CF.ADD d 1 => WRONGTYPE Operation against a key holding the wrong kind of value
        OBJECT ENCODING d => "raw"
        "#,
    );
}

#[test]
fn memory_is_counted_and_limited() {
    let mut client = Client::new();
    let usage = |client: &mut Client, key: &str| -> usize {
        client.run(&format!("MEMORY USAGE {key}")).parse().unwrap()
    };
    client.run("TDIGEST.CREATE k");
    assert!(usage(&mut client, "k") <= 80, "{}", usage(&mut client, "k"));
    (0..8).for_each(|i| drop(client.run(&format!("TDIGEST.ADD k {i}"))));
    assert!(usage(&mut client, "k") <= 240, "{}", usage(&mut client, "k"));
    client.run("TDIGEST.ADD k 8");
    assert_eq!(client.run("TDIGEST.BYRANK k 0 7 8"), r#"["0" "7" "8"]"#);
    client.run("TDIGEST.RESET k");
    assert!(usage(&mut client, "k") <= 80, "{}", usage(&mut client, "k"));
    (0..5_000).for_each(|i| drop(client.run(&format!("TDIGEST.ADD k {i} {i}"))));
    let full = usage(&mut client, "k");
    assert!((9_760..11_000).contains(&full), "{full}");
    client.run("COPY k l");
    assert!(usage(&mut client, "l") <= full);
    client.run("TDIGEST.CREATE wide COMPRESSION 100000");
    let keyspace = client.exec.ks.keyspace().clone();
    let used = keyspace.stats().used;
    keyspace.set_memory_limit(used + 1_000_000, Policy::NoEviction);
    let numbers: Vec<String> = (0..400_000).map(|i| (i % 10).to_string()).collect();
    let line = format!("TDIGEST.ADD wide {}", numbers.join(" "));
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(client.run(&line), oom);
    keyspace.set_memory_limit(0, Policy::NoEviction);
    assert_eq!(client.run(&line), "OK");
}

#[test]
fn a_stranger_is_bounded() {
    let mut client = Client::new();
    let mut random = Random::seeded();
    assert_eq!(client.run("TDIGEST.CREATE wide COMPRESSION 1048576"), "OK");
    assert_eq!(client.run("TDIGEST.ADD wide 3 1 2"), "OK");
    assert_eq!(
        client.run("TDIGEST.CREATE b2 COMPRESSION 1048577"),
        "ERR T-Digest: allocation failed"
    );
    client.run("TDIGEST.CREATE s COMPRESSION 2");
    client
        .run("TDIGEST.ADD s 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26");
    let Value::Bulk(payload) = client.call(&[b"DUMP", b"s"]) else { panic!("no payload") };
    for _ in 0..3000 {
        let mut broken = payload.to_vec();
        let len = broken.len();
        // Without a checksum.
        broken[len - 8..].fill(0);
        broken[random.below(len - 10)] = random.below(256) as u8;
        let args: [&[u8]; 5] = [b"RESTORE", b"b", b"0", &broken, b"REPLACE"];
        let start = Instant::now();
        let (_, peak) = peak_of(|| client.call(&args));
        assert!(peak < 1 << 20, "{peak} bytes for {}", broken.escape_ascii());
        for call in [
            "TDIGEST.ADD b 5 -1e300",
            "TDIGEST.QUANTILE b 0 0.3 1",
            "TDIGEST.CDF b -1 7 1e300",
            "TDIGEST.RANK b 0 9",
            "TDIGEST.REVRANK b 9",
            "TDIGEST.BYRANK b 0 9",
            "TDIGEST.BYREVRANK b 3",
            "TDIGEST.TRIMMED_MEAN b 0.1 0.8",
            "TDIGEST.MERGE b2 2 b s",
            "TDIGEST.INFO b",
        ] {
            client.run(call);
        }
        assert!(start.elapsed().as_secs() < 20);
    }
    assert_eq!(show(&client.call(&[b"TDIGEST.MIN", b"s"])), r#""1""#);
}
