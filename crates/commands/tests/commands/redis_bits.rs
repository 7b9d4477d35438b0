//! Random calls of bitmap and HyperLogLog commands here and in a Redis server found on the PATH:
//! replies and strings are equal.

use crate::client::{Client, show, show_args};
use crate::random::{Random, duration};
use crate::redis::{COMPARED_SINCE, Redis};
use std::time::Instant;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
/// Ends of ranges and small numbers.
const ENDS: [&str; 16] = [
    "0", "1", "-1", "2", "-2", "3", "-3", "7", "9", "-9", "64", "-70", "1000", "-1000", "x",
    "20000",
];
const OFFSETS: [&str; 14] =
    ["0", "1", "5", "7", "8", "13", "31", "63", "64", "100", "#0", "#1", "#3", "#17"];
const TYPES: [&str; 14] =
    ["u1", "i1", "u2", "i5", "u8", "i8", "u13", "i32", "u32", "u63", "i63", "i64", "u64", "i0"];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "5",
    "-100",
    "127",
    "128",
    "255",
    "256",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "-4000000000000000000",
    "x",
];

/// A word per argument, alternatives in brackets.
const CALLS: &[&str] = &[
    "SETBIT KEY OFFSET [0|1]",
    "SETBIT KEY END [0|1|2|x]",
    "GETBIT KEY END",
    "GETBIT KEY OFFSET",
    "SET KEY VALUE",
    "SET KEY VALUE",
    "SET KEY NUMBER",
    "APPEND KEY VALUE",
    "SETRANGE KEY 16500 VALUE",
    "DEL KEY",
    "EXPIRE KEY 1000",
    "TTL KEY",
    "BITCOUNT KEY",
    "BITCOUNT KEY END END",
    "BITCOUNT KEY END END [BYTE|bit|nope]",
    "BITCOUNT KEY END",
    "BITPOS KEY [0|1|2]",
    "BITPOS KEY [0|1] END",
    "BITPOS KEY [0|1] END END",
    "BITPOS KEY [0|1] END END [byte|BIT|nope]",
    "BITOP [AND|OR|XOR|not|nope] KEY KEY",
    "BITOP [and|or|xor|NOT] KEY KEY KEY",
    "BITOP [AND|OR|XOR] KEY KEY KEY KEY KEY",
    "BITFIELD KEY",
    "BITFIELD KEY GET TYPE OFFSET",
    "BITFIELD KEY SET TYPE OFFSET NUMBER",
    "BITFIELD KEY INCRBY TYPE OFFSET NUMBER",
    "BITFIELD KEY OVERFLOW [wrap|SAT|fail|nope] SET TYPE OFFSET NUMBER INCRBY TYPE OFFSET NUMBER",
    "BITFIELD KEY GET TYPE OFFSET OVERFLOW [SAT|FAIL] INCRBY TYPE OFFSET NUMBER SET TYPE OFFSET NUMBER GET TYPE OFFSET",
    "BITFIELD KEY SET TYPE OFFSET",
    "BITFIELD_RO KEY GET TYPE OFFSET GET TYPE OFFSET",
    "BITFIELD_RO KEY SET TYPE OFFSET NUMBER",
];

/// Calls on valid and corrupt sketches.
const SKETCH_CALLS: &[&str] = &[
    "PFADD KEY ELEMENT",
    "PFADD KEY ELEMENT",
    "PFADD KEY ELEMENT ELEMENT ELEMENT",
    "PFADD KEY ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT",
    "PFADD KEY",
    "PFADD e ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT",
    "PFADD e ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT ELEMENT",
    "PFCOUNT KEY",
    "PFCOUNT e",
    "PFCOUNT KEY KEY",
    "PFCOUNT KEY KEY e",
    "PFMERGE KEY",
    "PFMERGE KEY KEY",
    "PFMERGE KEY KEY KEY KEY",
    "PFMERGE KEY e",
    "PFDEBUG [ENCODING|decode] KEY",
    "PFDEBUG [TODENSE|nope] f",
    "PFDEBUG GETREG f",
    "EXPIRE KEY 1000",
    "DEL KEY",
    "DEL KEY",
    "DEL e",
    "SETRANGE f [4|5|8|15|16|17|18|20|30|100|12300] PIECE",
    "COPY KEY f REPLACE",
    "COPY KEY f REPLACE",
    "PFADD f ELEMENT ELEMENT ELEMENT ELEMENT",
    "PFCOUNT f",
    "PFCOUNT KEY f",
    "PFMERGE KEY f",
    "PFMERGE f KEY",
    "SPARSE MAX 3000",
    "SPARSE MAX 3000",
    "SPARSE MAX 40",
    "SPARSE MAX 0",
];
/// Bytes that corrupt a sketch. The first half of a run is not among them: Redis reads past it.
const PIECES: [&[u8]; 10] = [
    b"",
    b"\x00",
    b"\x01",
    b"\x80",
    b"\x7f\xff",
    b"\x5f\x00",
    b"\xff",
    b"\x84\x84\x84\x84\x84",
    b"\xfd\xfd\xfd\x88\x88",
    b"\x88\x00\x88\x00\x88\x01\x89",
];

fn arguments(random: &mut Random, call: &str) -> Vec<Vec<u8>> {
    let arguments = call.split(' ').map(|word| match word {
        "KEY" => random.pick(&KEYS).into(),
        "END" => random.pick(&ENDS).into(),
        "OFFSET" => random.pick(&OFFSETS).into(),
        "TYPE" => random.pick(&TYPES).into(),
        "NUMBER" => random.pick(&NUMBERS).into(),
        "VALUE" => value(random),
        "ELEMENT" => format!("{:x}", random.below(100_000)).repeat(random.below(4)).into(),
        "PIECE" => random.pick(&PIECES).into(),
        word => match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
            Some(words) => random.pick(&words.split('|').collect::<Vec<_>>()).into(),
            None => word.into(),
        },
    });
    arguments.collect()
}

/// Values mostly of few different bytes, so that searches have to go far.
fn value(random: &mut Random) -> Vec<u8> {
    let len = [0, 1, 3, 8, 40, 300][random.below(6)];
    match random.below(3) {
        0 => (0..len).map(|_| random.below(256) as u8).collect(),
        kind => {
            let mut bytes = vec![if kind == 1 { 0 } else { 0xff }; len];
            if len > 0 && random.below(2) == 0 {
                bytes[random.below(len)] = 0x10;
            }
            bytes
        }
    }
}

/// Intended differences: since 7.2, ends and units are parsed first.
fn is_known_to_differ(args: &[&[u8]], key_exists: bool) -> bool {
    let is_wrong = args[2..].iter().any(|arg| matches!(*arg, b"x" | b"nope"));
    match args[0] {
        b"BITCOUNT" => args.len() == 3 || is_wrong,
        b"BITPOS" => !key_exists && is_wrong,
        _ => false,
    }
}

#[test]
fn bitmaps_are_those_of_redis() {
    compare(CALLS);
}

#[test]
fn hyperloglogs_are_those_of_redis() {
    compare(SKETCH_CALLS);
}

/// Whether the key has an expiry: Redis 8.2 stores it in the same block, so that shorter strings
/// are already raw.
fn has_expiry(petrel: &mut Client, key: &[u8]) -> bool {
    show(&petrel.call(&[b"PTTL", key])) != "-1"
}

/// Compares random calls of `calls` on both servers.
fn compare(calls: &[&str]) {
    let Some(mut redis) = Redis::start_since(COMPARED_SINCE, &[]) else { return };
    let mut random = Random::seeded();
    let mut petrel = Client::new();
    let (begin, mut last) = (Instant::now(), Vec::new());
    while begin.elapsed() < duration() {
        let call = calls[random.below(calls.len())];
        if let Some(max) = call.strip_prefix("SPARSE MAX ") {
            redis.call(&[b"CONFIG", b"SET", b"hll-sparse-max-bytes", max.as_bytes()]);
            let limits = petrel.exec.ks.keyspace().limits();
            limits.set_hll_sparse_max_bytes(max.parse().unwrap());
            continue;
        }
        let args = arguments(&mut random, call);
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let exists = show(&petrel.call(&[b"EXISTS", args[1]])) == "1";
        if is_known_to_differ(&args, exists) {
            continue;
        }
        petrel.exec.ks.refresh_clock();
        last.push(show_args(&args));
        let key = if args[0] == b"BITOP" { args[2] } else { args[1] };
        for args in [&args[..], &[b"GET", key], &[b"OBJECT", b"ENCODING", key]] {
            let ours = show(&petrel.call(args));
            let theirs = show(&redis.call(args));
            if (&*ours, &*theirs) == ("\"embstr\"", "\"raw\"") && has_expiry(&mut petrel, key) {
                continue;
            }
            let before = &last[last.len().saturating_sub(30)..];
            let note = format!("left: Petrel, right: Redis, {}", show_args(args));
            assert_eq!(ours, theirs, "{note} after\n{}", before.join("\n"));
            if ours.starts_with("INVALIDOBJ") {
                // The call has changed nothing here; Redis has added the elements before the
                // corrupt place.
                petrel.call(&[b"DEL", key]);
                redis.call(&[b"DEL", key]);
            }
        }
    }
    eprintln!("{} calls", last.len());
}
