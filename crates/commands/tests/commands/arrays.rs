//! Arrays: replies, a model, effects that make the same array elsewhere, and hostile input. No other
//! server with arrays can be had to compare with.

use crate::allocations::peak_of;
use crate::client::{Client, show};
use crate::follower::assert_reproduced;
use crate::random::{Random, duration};
use petrel_keyspace::Policy;
use petrel_keyspace::event::class;
use petrel_resp::Value;
use std::collections::BTreeMap;
use std::time::Instant;

#[test]
fn elements_are_set_and_read() {
    Client::new().follow(
        r#"
        ARGET a 0 => nil
        ARGET a x => ERR invalid array index
        ARGET a -1 => ERR invalid array index
        ARGET a 01 => ERR invalid array index
        ARGET a 18446744073709551615 => ERR invalid array index
        ARLEN a => 0
        ARCOUNT a => 0
        ARNEXT a => 0
        ARMGET a 0 7 => [nil nil]
        ARGETRANGE a 1 2 => [nil nil]
        ARSCAN a 0 100 => []
        ARLASTITEMS a 5 => []
        ARSET a 0 hello => 1
        ARSET a 0 world => 0
        ARSET a 2 12345 3.14 "" => 3
        ARGET a 0 => "world"
        ARGET a 1 => nil
        ARMGET a 0 1 2 3 4 => ["world" nil "12345" "3.14" ""]
        ARMGET a 0 x => ERR invalid array index
        ARMSET a 100 x 0 w => 1
        ARMSET a 0 x 1 => ERR wrong number of arguments for 'armset' command
        ARMSET a 0 x y z => ERR invalid array index
        ARGET a 0 => "w"
        ARLEN a => 101
        ARCOUNT a => 5
        ARGETRANGE a 0 3 => ["w" nil "12345" "3.14"]
        ARGETRANGE a 3 0 => ["3.14" "12345" nil "w"]
        ARGETRANGE a 0 1000000 => ERR range exceeds maximum of 1000000 items
        ARGETRANGE a 1000000 0 => ERR range exceeds maximum of 1000000 items
        ARSCAN a 0 100 => [[0 "w"] [2 "12345"] [3 "3.14"] [4 ""] [100 "x"]]
        ARSCAN a 100 3 => [[100 "x"] [4 ""] [3 "3.14"]]
        ARSCAN a 100 0 LIMIT 2 => [[100 "x"] [4 ""]]
        ARSCAN a 0 1000 limit 1 => [[0 "w"]]
        ARSCAN a 0 1000 LIMIT 0 => ERR LIMIT must be positive
        ARSCAN a 0 1000 LIMIT => ERR syntax error
        ARDEL a 2 1 2 4 => 2
        ARDEL a 0 x => ERR invalid array index
        ARDELRANGE a 200 50 3 2 => 2
        ARDELRANGE a 1 => ERR wrong number of arguments for 'ardelrange' command
        ARDELRANGE a 0 1 2 => ERR wrong number of arguments for 'ardelrange' command
        ARCOUNT a => 1
        ARDEL a 0 => 1
        EXISTS a => 0
        ARDEL a 0 => 0
        ARDELRANGE a 0 5 => 0
        ARSET a 18446744073709551614 x y => ERR array index overflow
        ARSET a 18446744073709551615 x => ERR invalid array index
        EXISTS a => 0
        ARSET a 18446744073709551613 x y => 2
        ARLEN a => "18446744073709551615"
        ARSCAN a 9223372036854775807 18446744073709551614 LIMIT 1 => [["18446744073709551613" "x"]]
        TYPE a => array
        OBJECT ENCODING a => "sliced-array"
        ARDELRANGE a 0 18446744073709551614 => 2
        EXISTS a => 0
        "#,
    );
    let mut client = Client::new();
    client.run("ARSET a 9223372036854775807 x");
    client.resp3().follow(
        r#"
        ARLEN a => BigNumber(b"9223372036854775808")
        ARGET a 1 => nil
        ARGREP a - + MATCH x WITHVALUES => [[9223372036854775807 "x"]]
        "#,
    );
}

#[test]
fn elements_are_inserted_at_the_cursor() {
    Client::new().follow(
        r#"
        ARSEEK a 5 => 0
        EXISTS a => 0
        ARINSERT a a => 0
        ARINSERT a b c => 2
        ARNEXT a => 3
        ARSEEK a 10 => 1
        ARNEXT a => 10
        ARINSERT a d => 10
        ARLASTITEMS a 3 => [nil nil "d"]
        ARLASTITEMS a 3 REV => ["d" nil nil]
        ARSEEK a 18446744073709551615 => 1
        ARNEXT a => nil
        ARINSERT a e => ERR insert index overflow
        ARSEEK a 18446744073709551614 => 1
        ARINSERT a e f => ERR insert index overflow
        ARSEEK a 18446744073709551616 => ERR invalid array index
        ARSEEK a 0 => 1
        ARINSERT a A => 0
        ARLASTITEMS a 1 => ["A"]
        ARLASTITEMS a x => ERR invalid COUNT
        ARLASTITEMS a 1 X => ERR syntax error
        ARINSERT b 0 10 20 30 40 => 4
        ARLASTITEMS b 3 => ["20" "30" "40"]
        ARSEEK b 0 => 1
        ARLASTITEMS b 3 REV => ["40" "30" "20"]
        ARINSERT c a b c d e => 4
        ARDEL c 1 => 1
        ARLASTITEMS c 10 => ["a" nil "c" "d" "e"]
        ARDEL c 4 => 1
        ARLASTITEMS c 10 => ["a" nil "c" "d"]
        ARSET c 2000000 z => 1
        ARLASTITEMS c 1000001 => ERR count exceeds maximum of 1000000 items
        "#,
    );
}

#[test]
fn rings_keep_the_newest() {
    Client::new().follow(
        r#"
        ARRING a 0 x => ERR size must be positive
        ARRING a -1 x => ERR invalid size
        ARRING a 3 a b c => 2
        ARRING a 3 d e => 1
        ARNEXT a => 2
        ARLASTITEMS a 9 => ["c" "d" "e"]
        ARLASTITEMS a 2 REV => ["e" "d"]
        ARSET a 100 x => 1
        ARRING a 3 f => 0
        ARSCAN a 0 1000 => [[0 "f"] [1 "d"] [2 "e"]]
        ARRING a 3 g => 1
        ARRING a 5 h => 3
        ARSCAN a 0 1000 => [[0 "e"] [1 "f"] [2 "g"] [3 "h"]]
        ARRING a 2 i => 0
        ARSCAN a 0 1000 => [[0 "i"] [1 "h"]]
        ARINSERT b a b c => 2
        ARSEEK b 10 => 1
        ARRING b 5 x => 0
        ARSCAN b 0 1000 => [[0 "x"] [1 "b"] [2 "c"]]
        ARRING c 18446744073709551615 x => 0
        ARSEEK c 18446744073709551615 => 1
        ARRING c 18446744073709551615 y => 0
        "#,
    );
}

#[test]
fn elements_are_reduced() {
    Client::new().follow(
        r#"
        AROP a 0 9 SUM => nil
        AROP a 0 9 USED => 0
        AROP a 0 9 AND => nil
        ARMSET a 0 255 1 15 2 240 3 hello 700 hello => 5
        AROP a 0 9 SUM => "510"
        AROP a 9 0 MIN => "15"
        AROP a 0 9 max => "255"
        AROP a 0 9 AND => 0
        AROP a 0 9 OR => 255
        AROP a 0 9 XOR => 0
        AROP a 0 1000 USED => 5
        AROP a 0 700 MATCH hello => 2
        AROP a 0 699 MATCH 15 => 1
        AROP a 3 700 SUM => nil
        AROP a 3 700 XOR => nil
        ARMSET f 0 7.9 1 3.2 2 1.8 => 3
        AROP f 0 2 AND => 1
        AROP f 0 2 OR => 7
        AROP f 0 2 XOR => 5
        AROP f 0 2 SUM => "12.9"
        AROP f 0 2 MIN => "1.8"
        ARMSET w 0 10.0 1 20.0 2 30.0 => 3
        AROP w 0 2 SUM => "60"
        AROP w 0 2 MATCH 10.0 => 1
        AROP w 0 2 MATCH 10 => 0
        ARSET e 0 9223372036854775807 9223372036854775807 1e300 => 3
        AROP e 0 1 SUM => "18446744073709551614"
        AROP e 0 2 AND => 9223372036854775807
        AROP a 0 9 MATCH => ERR MATCH requires a value argument
        AROP a 0 9 AVG => ERR unknown operation
        AROP a 0 9 SUM x => ERR syntax error
        AROP a x 9 SUM => ERR invalid array index
        "#,
    );
}

#[test]
fn elements_are_searched() {
    let mut client = Client::new();
    client.follow(
        r#"
        ARGREP a - + MATCH x => []
        ARGREP a - + LIMIT 1 => ERR syntax error
        ARGREP a - + MATCH x LIMIT 0 => ERR LIMIT must be positive
        ARGREP a x + MATCH x => ERR invalid array index
        ARGREP a - + FOO x => ERR syntax error
        ARGREP a - + RE ( => ERR invalid regular expression: Missing ')'
        ARGREP a - + RE "" => ERR regular expression is empty
        ARGREP a - + RE (a)\1 => ERR regular expression backreferences are not supported
        ARMSET a 0 alpha 1 beta 2 Alphabet 500 delta => 4
        ARGREP a - + MATCH alpha => [0]
        ARGREP a - + MATCH alpha NOCASE => [0 2]
        ARGREP a 1000 0 MATCH ta WITHVALUES => [[500 "delta"] [1 "beta"]]
        ARGREP a + - MATCH ta LIMIT 1 => [500]
        ARGREP a - + EXACT BETA NOCASE => [1]
        ARGREP a - + GLOB ALPHA* => []
        ARGREP a - + GLOB ALPHA* NOCASE => [0 2]
        ARGREP a - + GLOB *ta EXACT alpha => [0 1 500]
        ARGREP a - + GLOB *ta EXACT alpha AND => []
        ARGREP a - + OR MATCH ta LIMIT 3 GLOB b* AND LIMIT 1 NOCASE => [1]
        ARGREP a - + RE ^[ab].*a$ => [0 1]
        ARGREP a 2 1000 RE A|D NOCASE => [2 500]
        ARGREP a - + RE \x{1 => ERR invalid regular expression: Missing '}'
        ARMSET n 0 foo123 1 bar 2 zoo999 3 Foo777 => 4
        ARGREP n - + RE ^.*[0-9]{3}$ => [0 2 3]
        ARGREP n - + RE ^foo[0-9]+$ NOCASE => [0 3]
        ARSET i 0 12 13 121 => 3
        ARGREP i - + MATCH 2 => [0 2]
        "#,
    );
    let mut words: Vec<&[u8]> = vec![b"ARGREP", b"i", b"-", b"+"];
    (0..250).for_each(|_| words.extend([&b"MATCH"[..], b"13"]));
    assert_eq!(show(&client.call(&words)), "[1]");
    words.extend([&b"MATCH"[..], b"13"]);
    assert_eq!(show(&client.call(&words)), "ERR too many predicates, maximum is 250");
    let mut words: Vec<&[u8]> = vec![b"ARGREP", b"i", b"-", b"+", b"AND"];
    (0..250).for_each(|_| words.extend([&b"RE"[..], b"^1.[0-9]?$"]));
    assert_eq!(show(&client.call(&words)), "[0 1 2]");
    let long = "a".repeat(2049);
    let refused = "ERR regular expression is too long, maximum is 2048 bytes";
    assert_eq!(client.run(&format!("ARGREP a - + RE {long}")), refused);
    client.run(&format!("ARSET l 0 {}", &long[1..]));
    assert_eq!(client.run(&format!("ARGREP l - + RE {}", &long[1..])), "[0]");
}

#[test]
fn figures_are_shown() {
    let mut client = Client::new();
    client.follow(
        r#"
        ARINFO a => ERR no such key
        ARMSET a 0 a 1 b 100 c => 3
        ARINSERT a d => 0
        ARINFO a => ["count" 3 "len" 101 "next-insert-index" 1 "slices" 1 "directory-size" 1 "super-dir-entries" 0 "slice-size" 4096]
        ARINFO a FOO => ERR syntax error
        "#,
    );
    for i in 400..500 {
        client.run(&format!("ARSET b {i} value{i}"));
    }
    client.run("ARSET b 500 anchor");
    let figures = client.run("ARINFO b FULL");
    for figure in ["dense-slices\" 1", "sparse-slices\" 0", "avg-dense-size\" \"128\""] {
        assert!(figures.contains(figure), "{figures}");
    }
    client.run("ARDELRANGE b 403 500");
    let figures = client.run("ARINFO b FULL");
    assert!(figures.contains("dense-slices\" 0 \"sparse-slices\" 1"), "{figures}");
    assert!(client.resp3().run("ARINFO b").starts_with("{"));
}

#[test]
fn events_are_of_the_class_of_arrays() {
    let mut client = Client::new();
    client.exec.ks.set_events(class::ARRAY | class::GENERIC);
    let mut events = |line: &str| {
        client.run(line);
        std::mem::take(&mut client.host.events).join(" ")
    };
    for (line, expected) in [
        ("ARSET a 0 x", "arset:a"),
        ("ARMSET a 0 x", "armset:a"),
        ("ARINSERT a x y z", "arinsert:a"),
        ("ARRING a 9 x", "arring:a"),
        ("ARSEEK a 7", "arseek:a"),
        ("ARDEL a 3 8", "ardel:a"),
        ("ARDEL a 3", ""),
        ("ARDELRANGE a 0 9", "ardelrange:a del:a"),
        ("ARSET a 0 x", "arset:a"),
        ("ARDEL a 0", "ardel:a del:a"),
        ("ARSEEK a 7", ""),
    ] {
        let seen = events(line);
        assert_eq!(seen, expected, "{line}");
    }
}

fn draw_index(random: &mut Random) -> u64 {
    match random.below(8) {
        0..5 => random.below(400) as u64,
        5 => random.below(40) as u64 * 4096,
        6 => 1 << 40 | random.below(300) as u64,
        _ => u64::MAX - 1 - random.below(50) as u64,
    }
}

fn draw_text(random: &mut Random) -> String {
    match random.below(8) {
        0..3 => random.below(1000).to_string(),
        3 => format!("-{}", random.below(1 << 40)),
        4 => format!("{}.{}", random.below(100), random.below(100)),
        5 => "long".repeat(random.below(80)),
        _ => format!("text{}", random.below(50)),
    }
}

fn draw_call(random: &mut Random) -> Vec<String> {
    let key = ["k", "k", "l"][random.below(3)];
    let mut words: Vec<String> = Vec::new();
    let mut add = |word: &str| words.push(word.to_owned());
    let texts = 1 + if random.below(20) == 0 { 300 } else { random.below(6) };
    let name = ["ARSET", "ARMSET", "ARINSERT", "ARRING", "ARSEEK", "ARDEL", "ARDELRANGE"]
        [[0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6][random.below(12)]];
    add(name);
    add(key);
    match name {
        "ARSET" => add(&draw_index(random).to_string()),
        "ARRING" => add(&[3, 10, 10, 10, 200, 5000][random.below(6)].to_string()),
        "ARSEEK" => add(&random.below(300).to_string()),
        _ => {}
    }
    for _ in 0..texts.min(if name.starts_with("ARDEL") { 3 } else { 1000 }) {
        match name {
            "ARMSET" => {
                add(&draw_index(random).to_string());
                add(&draw_text(random));
            }
            "ARDEL" => add(&draw_index(random).to_string()),
            "ARDELRANGE" => {
                let from = draw_index(random);
                add(&from.to_string());
                add(&from.saturating_add(random.below(300) as u64).min(u64::MAX - 1).to_string());
            }
            "ARSEEK" => {}
            _ => add(&draw_text(random)),
        }
    }
    words
}

#[test]
fn effects_make_the_same_array() {
    assert_reproduced(draw_call, &[b"k", b"l"], |own, replica, key| {
        replica.call(&[b"DUMP", key]) == own.call(&[b"DUMP", key])
    });
}

/// Random calls that have no cursor, beside a map of texts by index.
#[test]
fn replies_are_those_of_a_model() {
    let (mut random, mut client, mut model) = (Random::seeded(), Client::new(), BTreeMap::new());
    let (end, mut calls) = (Instant::now() + duration(), 0);
    while Instant::now() < end || calls < 1000 {
        calls += 1;
        let words = draw_call(&mut random);
        let number = |word: &String| word.parse::<u64>().unwrap();
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let expected = match words[0].as_str() {
            "ARSET" if number(&words[2]) < u64::MAX - 400 => {
                let texts = (number(&words[2])..).zip(&words[3..]);
                let is_new = |(index, text): (u64, &String)| {
                    model.insert(index, text.clone()).is_none() as u64
                };
                texts.map(is_new).sum()
            }
            "ARMSET" => {
                let pairs = words[2..].as_chunks::<2>().0.iter();
                let is_new = |[index, text]: &[String; 2]| {
                    model.insert(number(index), text.clone()).is_none() as u64
                };
                pairs.map(is_new).sum()
            }
            "ARDEL" => {
                let indexes = words[2..].iter();
                indexes.map(|index| model.remove(&number(index)).is_some() as u64).sum()
            }
            "ARDELRANGE" => {
                let before = model.len();
                for [from, to] in words[2..].as_chunks::<2>().0 {
                    let within = number(from)..=number(to);
                    model.retain(|index, _| !within.contains(index));
                }
                (before - model.len()) as u64
            }
            _ => continue,
        };
        let key = b"k".as_slice();
        let args = [&args[..1], &[key], &args[2..]].concat();
        assert_eq!(show(&client.call(&args)), expected.to_string());
        if calls % 16 == 0 {
            let (from, to) = (draw_index(&mut random), draw_index(&mut random));
            let within = model.range(from.min(to)..=from.max(to));
            let mut pairs: Vec<String> = within
                .map(|(index, text)| match i64::try_from(*index) {
                    Ok(index) => format!("[{index} {text:?}]"),
                    Err(_) => format!("[\"{index}\" {text:?}]"),
                })
                .collect();
            if from > to {
                pairs.reverse();
            }
            assert_eq!(
                client.run(&format!("ARSCAN k {from} {to}")),
                format!("[{}]", pairs.join(" "))
            );
            assert_eq!(client.run(&format!("AROP k {from} {to} USED")), pairs.len().to_string());
            assert_eq!(client.run("ARCOUNT k"), model.len().to_string());
        }
    }
}

#[test]
fn memory_is_counted_and_limited() {
    let mut client = Client::new();
    let usage = |client: &mut Client, key: &str| -> usize {
        client.run(&format!("MEMORY USAGE {key}")).parse().unwrap()
    };
    for start in (0..100_000).step_by(1000) {
        let numbers: Vec<String> = (start..start + 1000).map(|i| i.to_string()).collect();
        client.run(&format!("ARSET ints {start} {}", numbers.join(" ")));
        let texts: Vec<String> = (start..start + 1000).map(|i| format!("{i:020}x")).collect();
        let texts: Vec<&str> = texts.iter().map(|text| &text[1..]).collect();
        client.run(&format!("ARSET texts {start} {}", texts.join(" ")));
    }
    let (ints, texts) = (usage(&mut client, "ints"), usage(&mut client, "texts"));
    assert!(ints < 3 * 100_000 && texts < 24 * 100_000, "{ints} {texts}");
    client.run("ARSET far 0 x");
    let near = usage(&mut client, "far");
    client.run("ARSET far 9000000000000000000 x");
    let far = usage(&mut client, "far") - near;
    assert!(far < 120, "{far}");
    client.run("COPY ints copied");
    assert!(usage(&mut client, "copied").abs_diff(ints) < ints / 20);
    let keyspace = client.exec.ks.keyspace().clone();
    keyspace.set_memory_limit(keyspace.stats().used + 20_000, Policy::NoEviction);
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    let line = format!("ARSET big 0 {}", "text ".repeat(20_000).trim());
    assert_eq!(client.run(&line), oom);
    keyspace.set_memory_limit(0, Policy::NoEviction);
    assert_eq!(client.run(&line), "20000");
}

/// Doubles and short strings as Redis writes them, and bytes that it never writes.
#[test]
fn other_forms_are_read_and_broken_ones_refused() {
    let mut client = Client::new();
    let mut restore = |value: &[u8]| {
        // Without a checksum.
        let payload = [&[28], value, &14u16.to_le_bytes(), &[0; 8]].concat();
        show(&client.call(&[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]))
    };
    let mut value = vec![4, 1, 2];
    value.extend([0, 2]);
    value.extend(3.25f64.to_le_bytes());
    value.extend([1, 1]);
    value.extend((-7i64).to_le_bytes());
    value.extend([2, 3, 2, b'h', b'i', 9, 0, 1, b'x']);
    assert_eq!(restore(&value), "OK");
    for cut in 0..value.len() {
        assert!(restore(&value[..cut]).starts_with("ERR"), "{cut}");
    }
    let twice = [2, 0, 5, 0, 1, b'x', 5, 0, 1, b'x'];
    for broken in [&[0, 0][..], &[1, 2, 0, 0, 1, b'x'], &[1, 0, 0, 7, 1, b'x'], &twice] {
        assert!(restore(broken).starts_with("ERR"), "{broken:?}");
    }
    // An index beyond the greatest, and a number of elements that is not there.
    let beyond = [&[1, 0, 0x81][..], &u64::MAX.to_be_bytes(), &[0, 1, b'x']].concat();
    assert!(restore(&beyond).starts_with("ERR"));
    let many = [&[0x81][..], &(1u64 << 62).to_be_bytes(), &[0, 0, 0, 1, b'x']].concat();
    let (reply, peak) = peak_of(|| restore(&many));
    assert!(reply.starts_with("ERR") && peak < 1 << 20, "{reply} {peak}");
    assert_eq!(restore(&value), "OK");
    client.follow(
        r#"
        ARSCAN k 0 100 => [[0 "3.25"] [1 "-7"] [2 "hi"] [9 "x"]]
        ARNEXT k => 3
        "#,
    );
}

#[test]
fn a_stranger_is_bounded() {
    let (mut client, mut random) = (Client::new(), Random::seeded());
    client.run("ARMSET s 0 1 1 2 5 text 300 1.5 1000000 x 18446744073709551614 y");
    client.run("ARSEEK s 5");
    let Value::Bulk(payload) = client.call(&[b"DUMP", b"s"]) else { panic!("no payload") };
    for _ in 0..3000 {
        let mut broken = payload.to_vec();
        let len = broken.len();
        broken[len - 8..].fill(0);
        broken[random.below(len - 10)] = random.below(256) as u8;
        let args: [&[u8]; 5] = [b"RESTORE", b"b", b"0", &broken, b"REPLACE"];
        let (_, peak) = peak_of(|| client.call(&args));
        assert!(peak < 1 << 20, "{peak} bytes for {}", broken.escape_ascii());
        for call in ["ARINSERT b x a", "ARSCAN b 0 99", "ARRING b 3 x", "ARINFO b FULL"] {
            client.run(call);
        }
    }
    let mut call = |line: &str| {
        let start = Instant::now();
        let (reply, peak) = peak_of(|| client.run(line));
        assert!(peak < 128 << 20 && start.elapsed().as_secs() < 60, "{peak} for {line}");
        reply
    };
    call(&format!("ARSET r 0 {}", "ab".repeat(100_000)));
    assert_eq!(call("ARGREP r - + RE [ab]*a[ab]{200}c"), "[]");
    let nested = "((((a{255}){255}){255}){255})";
    let large = "ERR invalid regular expression: Out of memory";
    assert_eq!(call(&format!("ARGREP r - + RE {nested}")), large);
    let several = format!("RE {} ", "a{250}b{250}".repeat(100)).repeat(100);
    assert_eq!(call(&format!("ARGREP r - + {several}")), large);
}
