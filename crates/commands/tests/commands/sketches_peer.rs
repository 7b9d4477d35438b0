//! Random calls of sketches here and in RedisBloom: the replies are equal, in RESP2 and in RESP3,
//! and so are the dumps. Values move both ways. `PETREL_TEST_REDISBLOOM` names the file of the
//! module, 8.0 or later, which a Redis server found on the PATH loads.
//!
//! Intended differences (COMPATIBILITY.md) are not drawn: sketches beyond 4 GiB.

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

/// Moves the value to the other side and back, and compares what `look` answers.
fn exchange(ours: &mut Client, redis: &mut Redis, look: &[&[u8]]) {
    let key = look[1];
    let expected = show(&ours.call(look));
    if let Value::Bulk(payload) = ours.call(&[b"DUMP", key]) {
        let args: [&[u8]; 5] = [b"RESTORE", key, b"0", &payload, b"REPLACE"];
        assert_eq!(show(&redis.call(&args)), "OK");
        assert_eq!(show(&redis.call(look)), expected);
        let Value::Bulk(payload) = redis.call(&[b"DUMP", key]) else { panic!("no payload") };
        assert_eq!(show(&ours.call(&[b"RESTORE", key, b"0", &payload, b"REPLACE"])), "OK");
        assert_eq!(show(&ours.call(look)), expected);
    }
}

/// Compares random calls, and after each what `look` answers about the keys.
fn compare(draw: fn(&mut Random) -> Vec<String>, look: fn(&str) -> Vec<String>) {
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
            let words = draw(&mut random);
            let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let (own, other) = (ours.call(&args), theirs.call(&args));
            let line = show_args(&args);
            // Redis looks for the destination of CMS.MERGE before it checks the arguments.
            let are_errors = matches!((&own, &other), (Value::Error(_), Value::Error(_)));
            if !(are_errors && words[0] == "CMS.MERGE") {
                assert_eq!(show(&own), show(&other), "{line}\nhere:  {own:?}\nthere: {other:?}");
            }
            calls += 1;
            for key in ["k", "l", "m"] {
                let look = look(key);
                let look: Vec<&[u8]> = look.iter().map(String::as_bytes).collect();
                assert_eq!(show(&ours.call(&look)), show(&theirs.call(&look)), "{key} {line}");
                if calls % 20 == 0 {
                    exchange(&mut ours, &mut redis, &look);
                }
                if random.below(60) == 0 {
                    let args: [&[u8]; 2] = [b"DEL", key.as_bytes()];
                    assert_eq!(show(&ours.call(&args)), show(&theirs.call(&args)));
                }
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
fn redisbloom_answers_the_same_of_count_min_sketches() {
    compare(draw_count_min, |key| {
        let items = (0..50).map(|n| format!("item{n}"));
        ["CMS.QUERY", key].map(str::to_owned).into_iter().chain(items).collect()
    });
}
