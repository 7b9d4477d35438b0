//! Random calls of sketches here and in RedisBloom: the replies are equal, in RESP2 and in RESP3,
//! and so are the dumps. Values move both ways. `PETREL_TEST_REDISBLOOM` names the file of the
//! module, 8.0 or later, which a Redis server found on the PATH loads.
//!
//! Intended differences (COMPATIBILITY.md) are not drawn: sketches beyond 4 GiB, cuckoo filters with
//! as many sub-filters as are allowed.

use crate::client::{Client, show, show_args};
use crate::random::{Random, duration};
use crate::redis::Redis;
use petrel_resp::Value;
use std::time::Instant;

const BLOOM: [&str; 16] = [
    "ADD",
    "ADD",
    "ADD",
    "MADD",
    "MADD",
    "INSERT",
    "INSERT",
    "INSERT",
    "RESERVE",
    "EXISTS",
    "MEXISTS",
    "CARD",
    "INFO",
    "DEBUG",
    "SCANDUMP",
    "LOADCHUNK",
];
/// Keys of values that are compared.
const KEYS: [&str; 3] = ["k", "l", "m"];
/// Calls that are sent at once; then values are exchanged.
const BATCH: usize = 20;
const ODD: [&str; 14] = [
    "x",
    "-1",
    "0",
    "1",
    "1.5",
    "4611686018427387904",
    "-9223372036854775808",
    "nan",
    "inf",
    "",
    "0x10",
    "1e-300",
    " 1",
    "+1",
];

fn number(random: &mut Random, usual: &[&str]) -> String {
    if random.below(6) == 0 { random.pick(&ODD) } else { random.pick(usual) }.to_owned()
}

/// Words of a random call of a Bloom filter.
fn draw_bloom(random: &mut Random) -> Vec<String> {
    let command = random.pick(&BLOOM);
    let key = random.pick(&["k", "k", "k", "l", "m", "none", "text"]);
    let mut words = vec![format!("BF.{command}"), key.to_owned()];
    let item = |random: &mut Random| format!("item{}", random.below(300));
    match command {
        "RESERVE" => {
            words.push(number(random, &["0.1", "0.01", "0.001", "0.5", "1e-9"]));
            words.push(number(random, &["1", "5", "20", "100"]));
            for _ in 0..random.below(3) {
                match random.below(4) {
                    0 => words.push("NONSCALING".to_owned()),
                    1 => words.push("FOO".to_owned()),
                    _ => {
                        words.push("EXPANSION".to_owned());
                        words.push(number(random, &["0", "1", "2", "4"]));
                    }
                }
            }
        }
        "INSERT" => {
            for _ in 0..random.below(4) {
                let word = random.pick(&[
                    "CAPACITY",
                    "ERROR",
                    "EXPANSION",
                    "NOCREATE",
                    "NONSCALING",
                    "cap",
                    "ER",
                    "EX",
                    "FOO",
                    "NOC",
                    "NON",
                ]);
                words.push(word.to_owned());
                match &word.to_ascii_uppercase()[..2] {
                    "CA" => words.push(number(random, &["1", "3", "50"])),
                    "ER" => words.push(number(random, &["0.1", "0.01", "0.3"])),
                    "EX" => words.push(number(random, &["0", "1", "2", "3"])),
                    _ => {}
                }
            }
            if random.below(12) > 0 {
                words.push("ITEMS".to_owned());
                (0..random.below(6)).for_each(|_| words.push(item(random)));
            }
        }
        "INFO" if random.below(2) == 0 => {
            let word = ["CAPACITY", "SIZE", "FILTERS", "ITEMS", "EXPANSION", "foo"];
            words.push(random.pick(&word).to_owned());
        }
        "SCANDUMP" => words.push(number(random, &["0", "1", "2", "9", "30"])),
        "LOADCHUNK" => {
            words.push(number(random, &["1", "2", "9", "10", "17", "100"]));
            words.push("x".repeat(random.below(12)));
        }
        "MADD" | "MEXISTS" => (0..random.below(30)).for_each(|_| words.push(item(random))),
        "ADD" | "EXISTS" => words.push(item(random)),
        _ => {}
    }
    words
}

/// Words of a random call of a count-min sketch.
fn draw_count_min(random: &mut Random) -> Vec<String> {
    const COMMANDS: [&str; 9] = [
        "INCRBY",
        "INCRBY",
        "INCRBY",
        "QUERY",
        "INITBYDIM",
        "INITBYPROB",
        "MERGE",
        "MERGE",
        "INFO",
    ];
    let command = random.pick(&COMMANDS);
    let keys = ["k", "k", "l", "m", "none", "text"];
    let mut words = vec![format!("CMS.{command}"), random.pick(&keys).to_owned()];
    let item = |random: &mut Random| format!("item{}", random.below(50));
    match command {
        "INITBYDIM" => {
            words.push(number(random, &["10", "100"]));
            words.push(number(random, &["1", "3"]));
        }
        "INITBYPROB" => {
            words.push(number(random, &["0.2", "0.02", "0.9"]));
            words.push(number(random, &["0.5", "0.13", "0.9"]));
        }
        "INCRBY" => {
            for _ in 0..1 + random.below(4) {
                words.push(item(random));
                words.push(number(random, &["1", "5", "0", "1000", "4294967295"]));
            }
        }
        "QUERY" => (0..random.below(5)).for_each(|_| words.push(item(random))),
        "MERGE" => {
            let count = 1 + random.below(3);
            words.push(number(random, &[["1", "2", "3"][count - 1]]));
            (0..count).for_each(|_| words.push(random.pick(&keys).to_owned()));
            if random.below(2) == 0 {
                words.push(random.pick(&["WEIGHTS", "weights", "FOO"]).to_owned());
                let weights = if random.below(8) == 0 { random.below(4) } else { count };
                (0..weights).for_each(|_| words.push(number(random, &["1", "2", "-1", "0"])));
            }
        }
        _ => {}
    }
    words
}

/// Words of a random call of a cuckoo filter.
fn draw_cuckoo(random: &mut Random) -> Vec<String> {
    const COMMANDS: [&str; 22] = [
        "ADD",
        "ADD",
        "ADD",
        "ADDNX",
        "INSERT",
        "INSERT",
        "INSERT",
        "INSERTNX",
        "INSERTNX",
        "DEL",
        "DEL",
        "DEL",
        "DEL",
        "DEL",
        "RESERVE",
        "EXISTS",
        "MEXISTS",
        "COUNT",
        "INFO",
        "DEBUG",
        "SCANDUMP",
        "LOADCHUNK",
    ];
    let command = if random.below(40) == 0 { "COMPACT" } else { random.pick(&COMMANDS) };
    let key = random.pick(&["k", "k", "k", "l", "m", "none", "text"]);
    let mut words = vec![format!("CF.{command}"), key.to_owned()];
    let item = |random: &mut Random| format!("item{}", random.below(120));
    match command {
        "RESERVE" => {
            words.push(number(random, &["1", "8", "8", "50", "100", "20"]));
            for _ in 0..random.below(4) {
                let word = random.pick(&["BUCKETSIZE", "MAXITERATIONS", "EXPANSION", "expansion"]);
                words.push(word.to_owned());
                words.push(number(random, &["1", "2", "3", "0", "5", "40", "255", "256"]));
            }
            if random.below(20) == 0 {
                words.push("FOO".to_owned());
            }
        }
        "INSERT" | "INSERTNX" => {
            for _ in 0..random.below(3) {
                let word = random.pick(&["CAPACITY", "NOCREATE", "c", "NOC", "FOO", "CAP"]);
                words.push(word.to_owned());
                if word.starts_with(['C', 'c']) {
                    words.push(number(random, &["4", "8", "50", "3"]));
                }
            }
            if random.below(12) > 0 {
                words.push("ITEMS".to_owned());
                (0..random.below(9)).for_each(|_| words.push(item(random)));
            }
        }
        // Between the pieces that it returned, Redis repeats the beginning of a sub-filter.
        "SCANDUMP" => words.push(number(random, &["0", "1", "-4", "100000"])),
        // Beyond the last sub-filter Redis accepts pieces.
        "LOADCHUNK" => {
            words.push(number(random, &["1", "2", "2"]));
            words.push("x".repeat(random.below(3)));
        }
        "MEXISTS" => (0..random.below(30)).for_each(|_| words.push(item(random))),
        "ADD" | "ADDNX" | "EXISTS" | "COUNT" | "DEL" => words.push(item(random)),
        _ => {}
    }
    words
}

/// Words of a random call of a top-k list. Of its width, the items share no counter: Redis
/// draws random numbers where they do.
fn draw_top_k(random: &mut Random) -> Vec<String> {
    const COMMANDS: [&str; 11] = [
        "ADD", "ADD", "ADD", "INCRBY", "INCRBY", "QUERY", "COUNT", "LIST", "LIST", "INFO",
        "RESERVE",
    ];
    let command = random.pick(&COMMANDS);
    let key = random.pick(&["k", "k", "l", "m", "none", "text"]);
    let mut words = vec![format!("TOPK.{command}"), key.to_owned()];
    let item = |random: &mut Random| format!("item{}", random.below(30));
    match command {
        "RESERVE" => {
            let k = random.pick(&["1", "2", "3", "5", "10", "0", "x", "-1", "4294967296"]);
            let width = random.pick(&["585", "585", "585", "0", "x", "4294967296"]);
            let depth = random.pick(&["1", "3", "7", "0", "y"]);
            let decay = random.pick(&["0.9", "1", "0.5", "0", "1.1", "nan", "-0.5", "z"]);
            words.extend([k, width, depth, decay].map(str::to_owned));
            words.truncate(if random.below(8) == 0 { 4 + random.below(2) } else { 6 });
        }
        "INCRBY" => {
            // Redis never ends a reply with an error before its last item.
            let count = random.below(4);
            for _ in 0..count {
                words.push(item(random));
                words.push(random.pick(&["1", "1", "5", "0", "1000", "100000"]).to_owned());
            }
            words.push(item(random));
            words.push(number(random, &["1", "5", "100000", "100001", "-1"]));
        }
        "LIST" if random.below(2) == 0 => {
            words.push(random.pick(&["WITHCOUNT", "withcount", "FOO"]).to_owned());
        }
        "ADD" | "QUERY" | "COUNT" => (0..random.below(9)).for_each(|_| words.push(item(random))),
        _ => {}
    }
    words
}

/// Words of a random call of a t-digest. All numbers differ: nodes with equal means have no order
/// of their own in Redis.
fn draw_t_digest(random: &mut Random) -> Vec<String> {
    const COMMANDS: [&str; 20] = [
        "ADD",
        "ADD",
        "ADD",
        "ADD",
        "ADD",
        "ADD",
        "ADD",
        "ADD",
        "CREATE",
        "QUANTILE",
        "CDF",
        "RANK",
        "REVRANK",
        "BYRANK",
        "BYREVRANK",
        "MIN",
        "MAX",
        "TRIMMED_MEAN",
        "RESET",
        "MERGE",
    ];
    let command = random.pick(&COMMANDS);
    let key = random.pick(&["k", "k", "l", "m", "none", "text"]);
    let mut words = vec![format!("TDIGEST.{command}"), key.to_owned()];
    let share = |random: &mut Random| number(random, &["0", "0.01", "0.25", "0.5", "0.9", "1"]);
    let value =
        |random: &mut Random| format!("{}.{}", random.below(2000), 1 + random.below(1 << 40));
    match command {
        "CREATE" if random.below(3) > 0 => {
            words.push(random.pick(&["COMPRESSION", "compression", "FOO"]).to_owned());
            words.push(number(random, &["1", "5", "20", "100", "100"]));
        }
        "ADD" => {
            // Of a single number Redis tells nothing.
            (0..2 + random.below(200)).for_each(|_| words.push(value(random)));
            if random.below(20) == 0 {
                words.push(number(random, &["nan", "inf"]));
            }
        }
        "QUANTILE" => (0..random.below(5)).for_each(|_| words.push(share(random))),
        "CDF" | "RANK" | "REVRANK" => (0..random.below(5)).for_each(|_| {
            let odd = number(random, &["0", "2001", "1000"]);
            words.push(if random.below(4) == 0 { odd } else { value(random) });
        }),
        "BYRANK" | "BYREVRANK" => (0..random.below(5)).for_each(|_| {
            let rank = random.below(400).to_string();
            words.push(number(random, &["0", "1", "7", &rank, &rank]));
        }),
        "TRIMMED_MEAN" => (0..2).for_each(|_| words.push(share(random))),
        // Of digests without numbers in common: the target is none of the sources, and replaced.
        "MERGE" => {
            words[1] = "none".to_owned();
            let (first, count) = (random.below(3), 1 + random.below(3));
            words.push(number(random, &[["1", "2", "3"][count - 1]]));
            let keys = ["k", "l", "m", "k", "l", "m"];
            words.extend(keys[first..first + count].iter().map(|&key| key.to_owned()));
            if random.below(10) == 0 {
                words[3] = random.pick(&["absent", "text"]).to_owned();
            }
            words.push(random.pick(&["OVERRIDE", "override"]).to_owned());
            if random.below(2) == 0 {
                words.push(random.pick(&["COMPRESSION", "compression"]).to_owned());
                words.push(number(random, &["1", "50", "300"]));
            }
        }
        _ => {}
    }
    words
}

/// Moves the value from the other side and back, and compares what `look` answers.
fn exchange(ours: &mut Client, redis: &mut Redis, look: &[&[u8]]) {
    let key = look[1];
    let expected = show(&ours.call(look));
    if let Value::Bulk(payload) = redis.call(&[b"DUMP", key]) {
        let args: [&[u8]; 5] = [b"RESTORE", key, b"0", &payload, b"REPLACE"];
        assert_eq!(show(&ours.call(&args)), "OK");
        assert_eq!(show(&ours.call(look)), expected);
        let Value::Bulk(payload) = ours.call(&[b"DUMP", key]) else { panic!("no payload") };
        assert_eq!(show(&redis.call(&[b"RESTORE", key, b"0", &payload, b"REPLACE"])), "OK");
        assert!(are_equal(&ours.call(look), &redis.call(look)));
    }
}

/// Whether replies are equal. Redis misses the shortest digits of some doubles.
fn are_equal(own: &Value, other: &Value) -> bool {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
    match (own, other) {
        (Value::Array(own), Value::Array(other)) => {
            own.len() == other.len() && own.iter().zip(other).all(|(a, b)| are_equal(a, b))
        }
        (Value::Bulk(own), Value::Bulk(other)) => {
            own == other || number(own).is_some_and(|n| Some(n) == number(other))
        }
        // In RESP3 and RESP2.
        (Value::Double(own), Value::Bulk(other)) => {
            number(other).is_some_and(|n| n == *own || (n.is_nan() && own.is_nan()))
        }
        _ => show(own) == show(other),
    }
}

fn bytes_of(words: &[String]) -> Vec<&[u8]> {
    words.iter().map(String::as_bytes).collect()
}

/// Words of a random call, and then what looks at the keys; now and then a key is deleted.
fn draw_with_looks(
    random: &mut Random,
    draw: &mut impl FnMut(&mut Random) -> Vec<String>,
    look: fn(&str) -> Vec<String>,
) -> Vec<Vec<String>> {
    let mut calls = vec![draw(random)];
    calls.extend(KEYS.map(look));
    for key in KEYS.iter().chain(&["none"]) {
        if random.below(60) == 0 {
            calls.push(["DEL", key].map(str::to_owned).to_vec());
        }
    }
    calls
}

/// Compares random calls, and after each what `look` answers about the keys.
fn compare(mut draw: impl FnMut(&mut Random) -> Vec<String>, look: fn(&str) -> Vec<String>) {
    let Ok(module) = std::env::var("PETREL_TEST_REDISBLOOM") else {
        eprintln!("skipped: PETREL_TEST_REDISBLOOM does not name the module");
        return;
    };
    let parameters = ["--loadmodule", &module];
    let Some(mut redis) = Redis::start_since([7, 4, 0], &parameters) else { return };
    let mut random = Random::seeded();
    for resp3 in [false, true] {
        let (mut ours, mut theirs) = redis.beside(resp3);
        let (begin, mut calls) = (Instant::now(), 0);
        while begin.elapsed() < duration() {
            let batch: Vec<Vec<String>> =
                (0..BATCH).flat_map(|_| draw_with_looks(&mut random, &mut draw, look)).collect();
            batch.iter().for_each(|words| theirs.send(&bytes_of(words)));
            for words in &batch {
                let args = bytes_of(words);
                let (own, other) = (ours.call(&args), theirs.receive());
                // Redis looks for the destination of a merge before it checks the arguments.
                let are_errors = matches!((&own, &other), (Value::Error(_), Value::Error(_)));
                if !(are_errors && words[0].ends_with(".MERGE")) {
                    let line = show_args(&args);
                    assert!(are_equal(&own, &other), "{line}\nhere:  {own:?}\nthere: {other:?}");
                }
            }
            calls += BATCH;
            for key in KEYS {
                exchange(&mut ours, &mut redis, &bytes_of(&look(key)));
            }
        }
        println!("{calls} replies are equal");
    }
}

#[test]
fn redisbloom_answers_the_same_of_bloom_filters() {
    compare(draw_bloom, |key| ["BF.SCANDUMP", key, "1"].map(str::to_owned).to_vec());
}

#[test]
fn redisbloom_answers_the_same_of_cuckoo_filters() {
    compare(draw_cuckoo, |key| ["CF.SCANDUMP", key, "1"].map(str::to_owned).to_vec());
}

#[test]
fn redisbloom_answers_the_same_of_top_k_lists() {
    compare(draw_top_k, |key| ["TOPK.LIST", key, "WITHCOUNT"].map(str::to_owned).to_vec());
}

/// Redis merges nodes when it reads. So digests are filled, then read, and then removed.
#[test]
fn redisbloom_answers_the_same_of_t_digests() {
    const FILLED: usize = 60;
    const REMOVED: usize = 120;
    let mut calls = 0;
    let draw = |random: &mut Random| {
        calls = (calls + 1) % (REMOVED + 1);
        if calls == 0 {
            return ["DEL", "k", "l", "m", "none"].map(str::to_owned).to_vec();
        }
        let fills = ["ADD", "CREATE", "RESET"].map(|name| format!("TDIGEST.{name}"));
        loop {
            let words = draw_t_digest(random);
            if fills.contains(&words[0]) == (calls < FILLED) {
                return words;
            }
        }
    };
    compare(draw, |key| ["TDIGEST.MIN", key].map(str::to_owned).to_vec());
}

#[test]
fn redisbloom_answers_the_same_of_count_min_sketches() {
    compare(draw_count_min, |key| {
        let items = (0..50).map(|n| format!("item{n}"));
        ["CMS.QUERY", key].map(str::to_owned).into_iter().chain(items).collect()
    });
}
