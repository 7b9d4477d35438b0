//! Bitmaps: Redis's replies.

use crate::client::Client;
use crate::random::{Random, duration};
use std::time::Instant;

#[test]
fn single_bits() {
    Client::new().follow(
        r#"
        GETBIT a 100 => 0
        EXISTS a => 0
        SETBIT a 7 1 => 0
        SETBIT a 7 1 => 1
        GET a => "\x01"
        SETBIT a 30 0 => 0
        STRLEN a => 4
        SETBIT a 7 0 => 1
        GETBIT a 7 => 0
        SET n 1 => OK
        GETBIT n 2 => 1
        GETBIT n 3 => 1
        SETBIT n 6 1 => 0
        GET n => "3"
        OBJECT ENCODING n => "raw"
        SETBIT a 0 2 => ERR bit is not an integer or out of range
        SETBIT a -1 1 => ERR bit offset is not an integer or out of range
        SETBIT a 4294967296 1 => ERR bit offset is not an integer or out of range
        GETBIT a 4294967296 => ERR bit offset is not an integer or out of range
        GETBIT a 4294967295 => 0
        "#,
    );
}

#[test]
fn expiry_is_kept() {
    let mut client = Client::new();
    client.follow("SET a 1 EX 100 => OK");
    client.follow("SETBIT a 6 1 => 0");
    client.follow("BITFIELD a SET u8 8 5 => [0]");
    client.follow("TTL a => 100");
    client.follow("BITOP NOT a a => 2");
    client.follow("TTL a => -1");
}

#[test]
fn only_what_changes_is_a_change() {
    let mut client = Client::new();
    for (call, changes) in [
        ("SETBIT a 0 0", 1),
        ("SETBIT a 0 0", 0),
        ("SETBIT a 0 1", 1),
        ("SETBIT a 90 0", 1),
        ("BITFIELD b SET i5 0 0", 1),
        ("BITFIELD b SET i5 0 0", 0),
        ("BITFIELD b INCRBY i5 0 1 GET u8 100", 1),
        ("BITFIELD b SET i5 90 0", 1),
        ("BITFIELD c SET i5 90 1", 1),
        ("BITFIELD c OVERFLOW FAIL SET u5 90 99", 0),
    ] {
        let before = client.exec.ks.keyspace().stats().changes;
        client.run(call);
        assert_eq!(client.exec.ks.keyspace().stats().changes - before, changes, "{call}");
    }
}

#[test]
fn counts_and_positions() {
    Client::new().follow(
        r#"
        SET s foobar => OK
        BITCOUNT s => 26
        BITCOUNT s 0 0 => 4
        BITCOUNT s 1 1 BYTE => 6
        BITCOUNT s 5 30 BIT => 17
        BITCOUNT s -2 -1 => 7
        BITCOUNT s 3 2 => 0
        BITCOUNT none => 0
        BITCOUNT none 0 x => ERR value is not an integer or out of range
        BITCOUNT none 0 1 nope => ERR syntax error
        BITCOUNT s 0 1 BIT BIT => ERR syntax error
        SET p "\xff\xf0\x00" => OK
        BITPOS p 0 => 12
        BITPOS p 1 => 0
        BITPOS p 1 2 => -1
        BITPOS p 0 0 0 => -1
        BITPOS p 1 7 15 BIT => 7
        BITPOS p 0 -100 -1 BIT => 12
        SET p "\xff\xff" => OK
        BITPOS p 0 => 16
        BITPOS p 0 0 -1 => -1
        BITPOS p 0 0 -1 BIT => -1
        BITPOS none 0 => 0
        BITPOS none 1 => -1
        BITPOS none 1 x => ERR value is not an integer or out of range
        BITPOS p 2 => ERR The bit argument must be 1 or 0.
        BITPOS p x => ERR value is not an integer or out of range
        "#,
    );
}

#[test]
fn combinations() {
    Client::new().follow(
        r#"
        SET a "\x0f\xff" => OK
        SET b "\x3c" => OK
        SET c "\x55\x01\x80" => OK
        BITOP AND d a b c => 3
        GET d => "\x04\x00\x00"
        BITOP OR d a b c => 3
        GET d => "\x7f\xff\x80"
        BITOP XOR d a b c => 3
        GET d => "f\xfe\x80"
        BITOP NOT d a => 2
        GET d => "\xf0\x00"
        BITOP DIFF d a b c => 3
        GET d => "\x02\xfe\x00"
        BITOP DIFF1 d a b c => 3
        GET d => "p\x00\x80"
        BITOP ANDOR d a b c => 3
        GET d => "\r\x01\x00"
        BITOP ONE d a b c => 3
        GET d => "b\xfe\x80"
        BITOP AND d none none => 0
        EXISTS d => 0
        BITOP NOT d a b => ERR BITOP NOT must be called with a single source key.
        BITOP DIFF d a => ERR BITOP DIFF must be called with at least two source keys.
        BITOP NAND d a => ERR syntax error
        SET n 12 => OK
        BITOP OR n n b => 2
        GET n => "=2"
        "#,
    );
}

#[test]
fn fields() {
    Client::new().follow(
        r#"
        BITFIELD f => []
        BITFIELD f GET u8 0 => [0]
        EXISTS f => 0
        BITFIELD f SET u8 #1 255 GET u8 #1 INCRBY i5 100 1 GET u4 0 => [0 255 1 0]
        STRLEN f => 14
        BITFIELD f SET i8 0 -3 GET i8 0 GET u8 0 => [0 -3 253]
        BITFIELD f OVERFLOW SAT INCRBY u2 100 9 OVERFLOW FAIL INCRBY u2 100 1 OVERFLOW WRAP INCRBY u2 100 1 => [3 nil 0]
        BITFIELD g OVERFLOW FAIL SET u8 9 256 => [nil]
        STRLEN g => 3
        BITFIELD_RO f GET u8 0 GET i64 0 => [253 -144396663052566528]
        BITFIELD_RO f SET u8 0 1 => ERR BITFIELD_RO only supports the GET subcommand
        BITFIELD f GET u64 0 => ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
        BITFIELD f GET u8 -1 => ERR bit offset is not an integer or out of range
        BITFIELD f GET i64 #9223372036854775807 => ERR bit offset is not an integer or out of range
        BITFIELD f SET u8 0 x => ERR value is not an integer or out of range
        BITFIELD f OVERFLOW nope => ERR Invalid OVERFLOW type specified
        BITFIELD f GET u8 => ERR syntax error
        "#,
    );
}

#[test]
fn a_large_string_is_changed_where_it_lies() {
    let mut client = Client::new();
    client.follow("SETBIT a 8000000 1 => 0");
    let address = |client: &mut Client| {
        let key = client.exec.ks.key(b"a");
        client.exec.begin();
        client.exec.ks.lock(key.hash);
        let view = client.exec.ks.view(0, key).unwrap();
        let address = view.string().unwrap().bytes(&mut itoa::Buffer::new()).as_ptr();
        client.exec.ks.unlock();
        client.exec.end();
        address
    };
    let before = address(&mut client);
    client.follow("SETBIT a 5 1 => 0");
    client.follow("BITFIELD a SET u16 77 40000 GET u16 77 => [0 40000]");
    assert_eq!(address(&mut client), before);
    client.follow("BITCOUNT a => 7");
}

/// Random calls, compared with a vector of bits.
#[test]
fn bits_are_those_of_a_vector() {
    let mut random = Random::seeded();
    let mut client = Client::new();
    let begin = Instant::now();
    while begin.elapsed() < duration() / 2 {
        // Below and above the length from which strings are shared blobs.
        let reach = [20, 300, 16_500 * 8][random.below(3)];
        let mut bits: Vec<bool> = Vec::new();
        client.run("DEL a b r");
        for _ in 0..40 {
            let at = random.below(reach);
            let value = random.below(2) == 1;
            let old = bits.get(at).copied().unwrap_or(false);
            bits.resize(bits.len().max((at / 8 + 1) * 8), false);
            bits[at] = value;
            let call = format!("SETBIT a {at} {}", u8::from(value));
            assert_eq!(client.run(&call), u8::from(old).to_string());
            let at = random.below(reach);
            let expected = bits.get(at).copied().unwrap_or(false);
            assert_eq!(client.run(&format!("GETBIT a {at}")), u8::from(expected).to_string());
        }
        for _ in 0..10 {
            let (start, end) = (random.below(bits.len()), random.below(bits.len()));
            let inside = || bits.iter().enumerate().take(end + 1).skip(start);
            let count = inside().filter(|(_, bit)| **bit).count();
            let call = format!("BITCOUNT a {start} {end} BIT");
            assert_eq!(client.run(&call), count.to_string(), "{call}");
            for wanted in [false, true] {
                let first = inside().find(|(_, bit)| **bit == wanted).map(|(at, _)| at as i64);
                let call = format!("BITPOS a {} {start} {end} BIT", u8::from(wanted));
                assert_eq!(client.run(&call), first.unwrap_or(-1).to_string(), "{call}");
            }
            let (at, width) = (random.below(bits.len()), 1 + random.below(63));
            let number = (at..at + width).fold(0u64, |number, at| {
                number << 1 | u64::from(bits.get(at).copied().unwrap_or(false))
            });
            let call = format!("BITFIELD_RO a GET u{width} {at}");
            assert_eq!(client.run(&call), format!("[{number}]"), "{call}");
        }
        let at = random.below(reach);
        client.run(&format!("SETBIT b {at} 1"));
        let mut other = vec![false; bits.len().max((at / 8 + 1) * 8)];
        other[at] = true;
        type Combine = fn(bool, bool) -> bool;
        let operations: [(&str, Combine); 4] = [
            ("AND", |a, b| a && b),
            ("XOR", |a, b| a != b),
            ("DIFF", |a, b| a && !b),
            ("DIFF1", |a, b| !a && b),
        ];
        for (name, combine) in operations {
            let bit = |at: usize| bits.get(at).copied().unwrap_or(false);
            let expected = (0..other.len()).filter(|&at| combine(bit(at), other[at])).count();
            let len = client.run(&format!("BITOP {name} r a b"));
            assert_eq!(len, (other.len() / 8).to_string());
            assert_eq!(client.run("BITCOUNT r"), expected.to_string(), "{name}");
        }
    }
}
