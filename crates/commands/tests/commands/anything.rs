//! Every command with arguments of all kinds. `PETREL_TEST_SECONDS` sets the duration,
//! `PETREL_TEST_SEED` repeats a run.

use crate::allocations::peak_of;
use crate::client::{Client, show_args};
use crate::drawn::{self, Drawer};
use crate::random::{Random, duration};
use petrel_commands::FAMILIES;
use petrel_resp::{Protocol, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

const KEYS: [&[u8]; 7] = [b"a", b"b", b"c", b"", b"\0\xff\r\n", b"key:1", b"*"];

const NUMBERS: [&[u8]; 22] = [
    b"0",
    b"1",
    b"-1",
    b"2",
    b"3",
    b"10",
    b"100",
    b"-5",
    b"65535",
    b"65536",
    b"2147483647",
    b"2147483648",
    b"-2147483649",
    b"4294967296",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9223372036854775",
    b"1700000000",
    b"00",
];

const TEXTS: [&[u8]; 20] = [
    b"1.5",
    b"1e4932",
    b"-1e4932",
    b"inf",
    b"nan",
    b"0x1p-16445",
    b"1e-4951",
    b"*",
    b"[a-",
    b"[^",
    b"\\",
    b"a*?[b-a]\\",
    b"string",
    b"hash",
    b"command",
    b"get",
    b"object",
    b"config|get",
    b"0123456789abcdef",
    b" ",
];

const WORDS: [&[u8]; 37] = [
    b"NX",
    b"XX",
    b"GT",
    b"LT",
    b"EX",
    b"PX",
    b"EXAT",
    b"PXAT",
    b"KEEPTTL",
    b"PERSIST",
    b"GET",
    b"IFEQ",
    b"IFNE",
    b"IFDEQ",
    b"IFDNE",
    b"LEN",
    b"IDX",
    b"MINMATCHLEN",
    b"WITHMATCHLEN",
    b"MATCH",
    b"COUNT",
    b"TYPE",
    b"NOVALUES",
    b"DB",
    b"REPLACE",
    b"ASYNC",
    b"SYNC",
    b"SAMPLES",
    b"VERSION",
    b"FILTERBY",
    b"MODULE",
    b"ACLCAT",
    b"PATTERN",
    b"help",
    b"BYINT",
    b"BYFLOAT",
    b"ENX",
];

/// The name of a command, usually with a subcommand if it has any.
fn name(random: &mut Random) -> Vec<&'static [u8]> {
    let family = FAMILIES[random.below(FAMILIES.len())];
    let spec = &family[random.below(family.len())];
    let mut name = vec![spec.meta.name.as_bytes()];
    if !spec.subcommands.is_empty() && random.below(10) > 0 {
        name.push(spec.subcommands[random.below(spec.subcommands.len())].meta.name.as_bytes());
    }
    name
}

fn arguments(random: &mut Random, long: &'static [u8]) -> Vec<&'static [u8]> {
    let mut args = name(random);
    let count_max = [40, 8, 8, 8, 8][random.below(5)];
    let count = random.below(count_max);
    for i in 0..count {
        args.push(match (i, random.below(12)) {
            (0, 0..9) => random.pick(&KEYS),
            (_, 0..3) => random.pick(&KEYS),
            (_, 3..6) => random.pick(&NUMBERS),
            (_, 6..8) => random.pick(&TEXTS),
            (_, 8) => &long[..random.below(long.len())],
            _ => random.pick(&WORDS),
        });
    }
    args
}

#[test]
fn every_call_has_one_reply() {
    let mut random = Random::seeded();
    let long: &'static [u8] = Box::leak(vec![b'7'; 40_000].into());
    let first = Client::new();
    let second = first.another();
    let mut clients = [first, second.resp3()];
    for client in &mut clients {
        client.host.string_len_max = 1 << 20;
    }
    let (begin, mut calls) = (Instant::now(), 0);
    while begin.elapsed() < duration() {
        let client = &mut clients[random.below(2)];
        let args = arguments(&mut random, long);
        let outcome = catch_unwind(AssertUnwindSafe(|| client.call(&args)));
        assert!(outcome.is_ok(), "panic in {}", show_args(&args));
        if random.below(50) == 0 {
            let millis = random.below(3000) as i64;
            clients.iter_mut().for_each(|client| client.wait(millis));
        }
        calls += 1;
    }
    let [mut client, _] = clients;
    client.run("DISCARD");
    let Value::Array(keys) = client.call(&[b"KEYS", b"*"]) else { panic!("no array") };
    for key in &keys {
        client.call(&[b"DEL", key.as_bytes().unwrap()]);
    }
    eprintln!("{calls} calls");
}

/// Maximum allocation of a call: strings here are at most 1 MiB, and values a few times that.
const ALLOCATED_MAX: usize = 64 << 20;
/// Number of calls after which the keys are filled again.
const CALLS_PER_ROUND: usize = 2000;

#[test]
fn calls_by_the_table_allocate_within_measure() {
    let mut random = Random::seeded();
    let long = vec![b'7'; 40_000];
    let wild: Vec<&[u8]> =
        [&NUMBERS[..], &TEXTS, &WORDS, &[&long, b""]].into_iter().flatten().copied().collect();
    let mut client = Client::new();
    client.host.string_len_max = 1 << 20;
    client.host.leniency.any_sum = true;
    drawn::populate(&mut client);
    let payloads =
        [b"text", &b"list:l"[..], b"set", b"ints", b"zset:l", b"hash", b"stream", b"hll"]
            .map(|key| client.call(&[b"DUMP", key]).as_bytes().unwrap().to_vec());
    let (begin, mut calls, mut succeeded) = (Instant::now(), 0, 0);
    while begin.elapsed() < duration() {
        calls += 1;
        if calls % CALLS_PER_ROUND == 0 {
            drawn::populate(&mut client);
            client.session.protocol =
                *[Protocol::Resp2, Protocol::Resp3].get(random.below(2)).unwrap();
        }
        let drawn = Drawer { random: &mut random, wild: &wild, payloads: &payloads }.call();
        let args: Vec<&[u8]> = drawn.iter().map(|arg| &arg[..]).collect();
        let used = client.exec.ks.keyspace().stats().used;
        let call = AssertUnwindSafe(|| client.call(&args));
        let (outcome, peak) = peak_of(|| catch_unwind(call));
        let grown = client.exec.ks.keyspace().stats().used.saturating_sub(used);
        assert!(outcome.is_ok(), "panic in {}", show_args(&args));
        succeeded += usize::from(!matches!(outcome, Ok(Value::Error(_))));
        let bytes = peak.max(grown as usize);
        assert!(bytes < ALLOCATED_MAX, "{bytes} bytes allocated by {}", show_args(&args));
        if random.below(50) == 0 {
            client.wait(random.below(300) as i64);
        }
    }
    assert!(succeeded * 4 > calls, "{succeeded} of {calls} calls succeeded");
    eprintln!("{calls} calls, {succeeded} without an error");
}

#[test]
fn every_command_is_called_with_every_number_of_arguments() {
    let mut client = Client::new();
    for spec in FAMILIES.iter().copied().flatten() {
        let names = spec.subcommands.iter().map(|sub| vec![spec.meta.name, sub.meta.name]);
        for name in names.chain([vec![spec.meta.name]]) {
            for count in 0..6 {
                for filler in [&b"1"[..], b"", b"x", b"-9223372036854775808"] {
                    let mut args: Vec<&[u8]> = name.iter().map(|word| word.as_bytes()).collect();
                    args.extend(std::iter::repeat_n(filler, count));
                    client.call(&args);
                }
            }
        }
    }
}
