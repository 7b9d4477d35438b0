//! `check` finds the same faults in a file as a load.

use petrel_keyspace::{Keyspace, Options};
use petrel_persistence::rdb::Leniency;
use petrel_persistence::{LoadOptions, Progress, check, load};

/// Files with broken bytes that are tried.
const TRIES: usize = 500;

/// A file of version 12 without a checksum, of these records.
pub fn file(records: &[&[u8]]) -> Vec<u8> {
    [b"REDIS0012", &records.concat()[..], &[0xff], &[0; 8]].concat()
}

pub fn key(type_byte: u8, name: &str, body: &[u8]) -> Vec<u8> {
    [&[type_byte, name.len() as u8], name.as_bytes(), body].concat()
}

/// A key of every form that servers have dumped.
pub fn keys() -> Vec<Vec<u8>> {
    let of_line = |(number, line): (usize, &str)| {
        let digits = line.split(' ').nth(2).unwrap();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let payload: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        // Behind the value: version and checksum.
        key(payload[0], &format!("key {number}"), &payload[1..payload.len() - 10])
    };
    // Valkey's type of hashes with expiring fields, a number that Redis uses for another type.
    const THEIRS: u8 = 22;
    let keys = include_str!("payloads.txt").lines().enumerate().map(of_line);
    keys.filter(|key| key[0] != THEIRS).collect()
}

pub fn load_options(threads: usize, keeps_expired: bool) -> LoadOptions {
    LoadOptions { threads, leniency: Leniency::default(), keeps_expired, merges: false }
}

fn loaded(bytes: &[u8], threads: usize, keeps_expired: bool) -> Result<(), String> {
    let options = load_options(threads, keeps_expired);
    let keyspace =
        Keyspace::new(&Options { databases: u16::MAX, stripes: 1, ..Options::default() });
    let loaded = load(bytes, bytes.len() as u64, &keyspace, options, &Progress::default());
    loaded.map(drop).map_err(|error| error.to_string())
}

fn checked(bytes: &[u8], keeps_expired: bool) -> Result<u64, String> {
    let checked = check(bytes, bytes.len() as u64, Leniency::default(), keeps_expired);
    checked.map(|census| census.keys()).map_err(|error| error.to_string())
}

#[test]
fn what_comes_twice_is_refused_by_both() {
    let (string, passed) =
        (key(0, "a", b"\x01v"), [&[0xfc][..], &[1, 0, 0, 0, 0, 0, 0, 0]].concat());
    let passed = [&passed[..], &string].concat();
    let cases: [(&str, Vec<Vec<u8>>, bool); 8] = [
        ("a string", vec![string.clone(), string.clone()], false),
        ("a string and a list", vec![string.clone(), key(1, "a", b"\x01\x01v")], false),
        ("one whose time has passed", vec![passed.clone(), string.clone()], true),
        ("one in two databases", vec![string.clone(), vec![0xfe, 20], string.clone()], true),
        ("a member", vec![key(2, "s", b"\x02\x01m\x01m")], false),
        ("a field", vec![key(4, "h", b"\x02\x01f\x01v\x01f\x01w")], false),
        ("a member with a score", vec![key(3, "z", b"\x02\x01m\x011\x01m\x012")], false),
        ("no two of a kind", vec![key(2, "s", b"\x02\x01m\x01n"), string], true),
    ];
    for (what, records, is_right) in cases {
        let bytes = file(&records.iter().map(|record| &record[..]).collect::<Vec<_>>());
        assert_eq!(checked(&bytes, false).is_ok(), is_right, "{what}");
        for threads in [1, 3] {
            assert_eq!(loaded(&bytes, threads, false).is_ok(), is_right, "{what}");
        }
        assert_eq!(checked(&bytes, true).is_ok(), loaded(&bytes, 1, true).is_ok(), "{what}");
    }
}

#[test]
fn whatever_is_broken_the_check_says_what_the_load_says() {
    let keys = keys();
    let whole = file(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
    assert_eq!(checked(&whole, true), Ok(keys.len() as u64));
    assert_eq!(loaded(&whole, 3, true), Ok(()));
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % n
    };
    let (mut refused, mut accepted) = (0, 0);
    for _ in 0..TRIES {
        // Few keys, so that each is likely to be damaged.
        let some: Vec<&[u8]> = (0..3).map(|_| &keys[below(keys.len())][..]).collect();
        let mut bytes = file(&some);
        for _ in 0..1 + below(3) {
            let at = 9 + below(bytes.len() - 17);
            match below(3) {
                0 => bytes[at] ^= 1 << below(8),
                1 => bytes[at] = below(256) as u8,
                _ => bytes[at] = bytes[9 + below(at - 8)],
            }
        }
        let (check, load) = (checked(&bytes, true).map(drop), loaded(&bytes, 1, true));
        assert_eq!(check, load, "{bytes:02x?}");
        if check.is_ok() { accepted += 1 } else { refused += 1 }
    }
    assert!(refused > TRIES / 10 && accepted > TRIES / 10, "{refused} {accepted}");
}
