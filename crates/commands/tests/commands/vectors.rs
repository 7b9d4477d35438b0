//! Vector sets: replies that Redis 8.2 gives, and the same random calls here and in such a server.

use crate::client::{Client, show, show_args};
use crate::random::{Random, duration};
use crate::redis::Redis;
use petrel_resp::Value;
use std::time::Instant;

#[test]
fn adding_is_checked_as_redis_does() {
    let mut client = Client::new().resp3();
    client.follow(
        r#"
        VADD => ERR wrong number of arguments for 'VADD' command
        vadd k VALUES 3 1 2 3 => ERR wrong number of arguments for 'VADD' command
        VADD k VALUES 3 1 2 3 a extra => ERR invalid option after element
        VADD k VALUES 3 1 2 3 a => Boolean(true)
        VADD k VALUES 3 1 2 3 a => Boolean(false)
        VADD k VALUES 2 1 2 b => ERR Vector dimension mismatch - got 2 but set has 3
        VADD k VALUES 0 b => ERR invalid vector specification
        VADD k VALUES 3 1 2 x b => ERR invalid vector specification
        VADD k VALUES 3 nan 2 3 b => ERR invalid vector specification
        VADD k VALUES 5 1 2 3 b => ERR invalid vector specification
        VADD k FP32 abc b => ERR invalid vector specification
        VADD k REDUCE 2 VALUES 3 1 2 3 b => ERR cannot add projection to existing set without projection
        VADD r REDUCE 2 VALUES 3 1 2 3 b => Boolean(true)
        VADD r REDUCE 3 VALUES 3 1 2 3 c => ERR Vector dimension mismatch - got 3 but set has 2
        VADD r VALUES 2 1 2 c => ERR Vector dimension mismatch - got 2 but set has 2
        VADD r REDUCE 2 VALUES 4 1 2 3 4 c => ERR Input dimension mismatch for projection - got 4 but projection expects 3
        VADD r2 REDUCE 0 VALUES 3 1 2 3 b => ERR invalid vector specification
        VADD r2 REDUCE 99999999999 VALUES 3 1 2 3 b => ERR invalid vector specification
        VADD k VALUES 3 1 2 3 b NOQUANT => ERR asked quantization mismatch with existing vector set
        VADD k VALUES 3 1 2 3 b M 8 => ERR asked M value mismatch with existing vector set
        VADD z VALUES 3 1 2 3 b M 3 => ERR invalid M
        VADD z VALUES 3 1 2 3 b M 4097 => ERR invalid M
        VADD z VALUES 3 1 2 3 b EF 0 => ERR invalid EF
        VADD z VALUES 3 1 2 3 b EF 1000001 => ERR invalid EF
        VADD z VALUES 3 1 2 3 b CAS SETATTR {} => Boolean(true)
        VGETATTR z b => "{}"
        VADD z VALUES 3 1 2 3 b => Boolean(false)
        VGETATTR z b => "{}"
        VADD z VALUES 3 1 2 3 b SETATTR "" => Boolean(false)
        VGETATTR z b => nil
        SET str x => OK
        VADD str VALUES 3 1 2 3 a => WRONGTYPE Operation against a key holding the wrong kind of value
        VADD str garbage 3 1 2 3 a => ERR invalid vector specification
        "#,
    );
}

#[test]
fn elements_are_shown_as_redis_does() {
    let mut client = Client::new().resp3();
    client.follow(
        r#"
        VADD k VALUES 3 1 2 3 a SETATTR {} => Boolean(true)
        VEMB k a => [Double(0.992125928401947) Double(2.007874011993408) Double(3.0)]
        VEMB k a RAW => [int8 "*U\x7f" Double(3.7416574954986572) Double(0.8017836809158325)]
        VEMB k a FOO => ERR invalid option
        VEMB k nope => nil
        VEMB nokey nope => nil
        VADD n VALUES 3 1 2 3 a NOQUANT => Boolean(true)
        VEMB n a RAW => [f32 "w\xd6\x88>w\xd6\x08?\xb2AM?" Double(3.7416574954986572)]
        VADD b VALUES 3 1 -2 3 a BIN => Boolean(true)
        VEMB b a => [Double(1.0) Double(-1.0) Double(1.0)]
        VEMB b a RAW => [bin "\x05\x00\x00\x00\x00\x00\x00\x00" Double(3.7416574954986572)]
        VINFO nokey => nil
        VINFO b => {quant-type: bin, hnsw-m: 16, vector-dim: 3, projection-input-dim: 0, size: 1, max-level: ...
        VDIM k => 3
        VDIM nokey => ERR key does not exist
        VCARD k => 1
        VCARD nokey => 0
        TYPE k => vectorset
        OBJECT ENCODING k => "raw"
        VLINKS nokey a => nil
        VLINKS k a FOO => ERR wrong number of arguments for 'VLINKS' command
        VISMEMBER k a => Boolean(true)
        VISMEMBER nokey a => Boolean(false)
        VSETATTR k a x => Boolean(true)
        VSETATTR k nope x => Boolean(false)
        VGETATTR k a => "x"
        VSETATTR k a "" => Boolean(true)
        VGETATTR k a => nil
        VRANDMEMBER k => "a"
        VRANDMEMBER k 5 => ["a"]
        VRANDMEMBER k -3 => ["a" "a" "a"]
        VRANDMEMBER k 0 => []
        VRANDMEMBER k x => ERR COUNT value is not an integer
        VRANDMEMBER nokey => nil
        VRANDMEMBER nokey 3 => []
        VRANDMEMBER k -9223372036854775808 => ERR value is out of range
        VADD k VALUES 3 1 2 3 b => Boolean(true)
        VADD k VALUES 3 1 2 3 c => Boolean(true)
        VRANGE k - + => ["a" "b" "c"]
        VRANGE k (a [c 1 => ["b"]
        VRANGE k [b + -1 => ["b" "c"]
        VRANGE k - + 0 => []
        VRANGE k [c [a => []
        VRANGE k + - => ERR '-' can only be used as first argument, '+' only as second
        VRANGE k - - => ERR '-' can only be used as first argument, '+' only as second
        VRANGE k + + => ERR '-' can only be used as first argument, '+' only as second
        VRANGE k x + => ERR min or max not valid string range item
        VRANGE k [ + => ERR min or max not valid string range item
        VRANGE k - ( => ERR min or max not valid string range item
        VRANGE k - -- => ERR min or max not valid string range item
        VRANGE k - + x => ERR value is not an integer or out of range
        VRANGE nokey - + => []
        VRANGE nokey + - => ERR '-' can only be used as first argument, '+' only as second
        VREM k nope => Boolean(false)
        VREM k a => Boolean(true)
        VREM k b => Boolean(true)
        VREM k c => Boolean(true)
        EXISTS k => 0
        "#,
    );
}

#[test]
fn searches_are_checked_as_redis_does() {
    let mut client = Client::new().resp3();
    client.follow(
        r#"
        VADD s VALUES 2 1 0 a SETATTR {"year":1980} => Boolean(true)
        VADD s VALUES 2 0 1 b SETATTR {"year":1990} => Boolean(true)
        VADD s VALUES 2 1 1 c => Boolean(true)
        VADD s VALUES 2 -1 0 d SETATTR {bad => Boolean(true)
        VSIM s ELE => ERR wrong number of arguments for 'VSIM' command
        VSIM s ELE a => ["a" "c" "b" "d"]
        VSIM s ELE a COUNT 2 WITHATTRIBS => {"a": "{\"year\":1980}", "c": nil}
        VSIM s ELE a COUNT 1 WITHATTRIBS WITHSCORES => {"a": [Double(1.0) "{\"year\":1980}"]}
        VSIM s ELE nope FOO => ERR element not found in set
        VSIM nokey ELE nope FOO => []
        VSIM nokey ELE nope WITHSCORES => []
        VSIM s VALUES 3 0 0 1 => ERR Vector dimension mismatch - got 3 but set has 2
        VSIM s VALUES 2 0 => ERR invalid vector specification
        VSIM s ELE a COUNT 0 => ERR invalid COUNT
        VSIM s ELE a COUNT => ERR syntax error in VSIM command
        VSIM s ELE a EF 0 => ERR invalid EF
        VSIM s ELE a EPSILON 0 => ERR invalid EPSILON
        VSIM s ELE a EPSILON 0.2 => ["a" "c"]
        VSIM s ELE a FILTER-EF 0 => ERR invalid FILTER-EF
        VSIM s ELE a TRUTH NOTHREAD => ["a" "c" "b" "d"]
        VSIM s ELE a FILTER ".year >= 1985" => ["b"]
        VSIM s ELE a FILTER 1 => ["a" "b" "d"]
        VSIM s ELE a FILTER "1 foo" => ERR syntax error in FILTER expression near: 1 foo
        VSIM s ELE a FOO => ERR syntax error in VSIM command
        "#,
    );
    let mut client = Client::new();
    client.follow(
        r#"
        VADD s VALUES 2 1 0 a => 1
        VSIM s ELE a WITHSCORES WITHATTRIBS => ["a" "1" nil]
        VINFO nokey => nil-array
        "#,
    );
}

/// Words of a random call on the key `k`. Most sets have two dimensions.
fn draw(random: &mut Random) -> Vec<Vec<u8>> {
    let mut words: Vec<String> = Vec::new();
    let name = format!("e{}", random.below(8));
    let number = |random: &mut Random| (random.below(21) as i64 - 10).to_string();
    let vector = |random: &mut Random, words: &mut Vec<String>| {
        let dim = *random.pick(&[&2usize, &2, &2, &2, &2, &2, &3, &1]);
        words.extend(["VALUES".to_owned(), dim.to_string()]);
        (0..dim).for_each(|_| words.push(number(random)));
    };
    let extra = |random: &mut Random, words: &mut Vec<String>, choices: &[&str]| {
        for _ in 0..random.below(3) {
            words.extend(random.pick(choices).split(' ').map(str::to_owned));
        }
    };
    let key = random.pick(&["k", "k", "k", "l", "text"]).to_owned();
    match random.below(13) {
        0..=3 => {
            words.extend(["VADD".to_owned(), key]);
            vector(random, &mut words);
            words.push(name);
            let options = [
                "CAS",
                "SETATTR {\"a\":1}",
                "SETATTR {\"a\":\"x\"}",
                "EF 10",
                "EF x",
                "M 16",
                "M 3",
                "Q8",
                "NOQUANT",
                "BIN",
                "FOO",
                "SETATTR",
            ];
            extra(random, &mut words, &options);
        }
        4..=6 => {
            words.extend(["VSIM".to_owned(), key]);
            if random.below(2) == 0 {
                words.extend(["ELE".to_owned(), name]);
            } else {
                vector(random, &mut words);
            }
            let options = [
                "WITHSCORES",
                "WITHATTRIBS",
                "TRUTH",
                "NOTHREAD",
                "EF 50",
                "EF 0",
                "COUNT 20",
                "COUNT x",
                "EPSILON 0.4",
                "EPSILON -1",
                "FILTER .a",
                "FILTER .a==1",
                "FILTER .b",
                "FILTER )",
                "FILTER-EF 100",
                "FOO",
            ];
            extra(random, &mut words, &options);
        }
        7 => words.extend(["VREM".to_owned(), key, name]),
        8 => {
            words.extend([random.pick(&["VEMB", "VGETATTR", "VISMEMBER"]).to_owned(), key, name]);
            extra(random, &mut words, &["RAW", "FOO"]);
        }
        9 => words.extend(["VSETATTR".to_owned(), key, name, "{\"a\":2}".to_owned()]),
        10 => {
            words.extend([random.pick(&["VCARD", "VDIM"]).to_owned(), key]);
            extra(random, &mut words, &["x"]);
        }
        11 => words.extend(["VINFO".to_owned(), "none".to_owned()]),
        _ => words.extend([random.pick(&["DEL", "TYPE", "EXISTS"]).to_owned(), "k".to_owned()]),
    }
    words.into_iter().map(String::into_bytes).collect()
}

/// Whether two replies are equal, with nearly equal numbers, and equally near elements in any
/// order.
fn is_equal(a: &Value, b: &Value) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() < 1e-5 || (a.is_nan() && b.is_nan());
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<f64>().ok();
    let sorted = |values: &[Value]| {
        let mut shown: Vec<String> = values.iter().map(rough).collect();
        shown.sort();
        shown
    };
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => near(*a, *b),
        (Value::Bulk(a), Value::Bulk(b)) => {
            a == b || text(a).zip(text(b)).is_some_and(|(a, b)| near(a, b))
        }
        (Value::Array(a), Value::Array(b)) => {
            let in_order = a.iter().zip(b).all(|(a, b)| is_equal(a, b));
            a.len() == b.len() && (in_order || sorted(a) == sorted(b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let pairs = |pairs: &[(Value, Value)]| -> Vec<Value> {
                let pair =
                    |(key, value): &(Value, Value)| Value::Array(vec![key.clone(), value.clone()]);
                pairs.iter().map(pair).collect()
            };
            sorted(&pairs(a)) == sorted(&pairs(b))
        }
        (a, b) => a == b,
    }
}

/// A value without the last digits of its numbers.
fn rough(value: &Value) -> String {
    let number = |x: f64| format!("{:.4}", x + 1e-7);
    match value {
        Value::Double(x) => number(*x),
        Value::Bulk(bytes) => {
            match std::str::from_utf8(bytes).ok().and_then(|it| it.parse().ok()) {
                Some(x) => number(x),
                None => show(value),
            }
        }
        Value::Array(items) => items.iter().map(rough).collect::<Vec<_>>().join(" "),
        value => show(value),
    }
}

#[test]
fn redis_answers_the_same() {
    let Some(redis) = Redis::start_since([8, 2, 0], &[]) else { return };
    let mut random = Random::seeded();
    for resp3 in [false, true] {
        let (mut ours, mut theirs) = redis.beside(resp3);
        let begin = Instant::now();
        while begin.elapsed() < duration() {
            let words = draw(&mut random);
            let args: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
            let (own, other) = (ours.call(&args), theirs.call(&args));
            let line = show_args(&args);
            assert!(
                is_equal(&own, &other),
                "{line}\nhere:  {}\nRedis: {}",
                show(&own),
                show(&other)
            );
        }
    }
}

#[test]
fn a_set_is_what_its_dump_holds() {
    let mut client = Client::new();
    for form in ["NOQUANT", "Q8", "BIN", "RABITQ"] {
        client.run("DEL k copy");
        for n in 0..300 {
            let line = format!("VADD k VALUES 3 {} {} 1 e{n} {form} M 4", n % 17 - 8, n % 13 - 6);
            assert_eq!(client.run(&line), "1");
        }
        client.run("VSETATTR k e7 {\"a\":1}");
        let Value::Bulk(payload) = client.call(&[b"DUMP", b"k"]) else { panic!("no payload") };
        assert_eq!(show(&client.call(&[b"RESTORE", b"copy", b"0", &payload])), "OK");
        for line in
            ["VRANGE @ - +", "VGETATTR @ e7", "VLINKS @ e9 WITHSCORES", "VEMB @ e9 RAW", "VCARD @"]
        {
            let [own, copy] = ["k", "copy"].map(|key| client.run(&line.replace('@', key)));
            assert_eq!(own, copy, "{line}");
        }
        // A corrupt payload is rejected, or is a valid set.
        for at in (0..payload.len() - 10).step_by(97) {
            let mut broken = payload.to_vec();
            broken[at] ^= 0x15;
            let sum = broken.len() - 8;
            broken[sum..].fill(0);
            client.call(&[b"RESTORE", b"broken", b"0", &broken, b"REPLACE"]);
            client.run("VSIM broken VALUES 3 1 2 3");
        }
    }
}

#[test]
fn redis_and_petrel_read_each_others_sets() {
    let Some(redis) = Redis::start_since([8, 2, 0], &[]) else { return };
    let (mut theirs, mut ours) = (redis.connect(), Client::new());
    for options in ["NOQUANT M 4", "Q8 M 8", "BIN"] {
        for reduce in ["", "REDUCE 4 "] {
            ours.run("DEL k");
            theirs.call(&[b"FLUSHALL"]);
            for n in 0..400 {
                let x = [n % 17 - 8, n % 13 - 6, n % 7 - 3].map(|x: i32| x.to_string());
                let line =
                    format!("VADD k {reduce}VALUES 3 {} {} {} e{n} {options}", x[0], x[1], x[2]);
                let line = if n % 3 == 0 { line + " SETATTR {\"a\":1}" } else { line };
                let args = crate::client::split(&line);
                theirs.call(&args.iter().map(|arg| &arg[..]).collect::<Vec<_>>());
                if n % 5 == 0 {
                    theirs.call(&[b"VREM", b"k", format!("e{}", n / 2).as_bytes()]);
                }
            }
            let Value::Bulk(payload) = theirs.call(&[b"DUMP", b"k"]) else { panic!("no payload") };
            assert_eq!(show(&ours.call(&[b"RESTORE", b"k", b"0", &payload])), "OK", "{options}");
            let Value::Bulk(back) = ours.call(&[b"DUMP", b"k"]) else { panic!("no payload") };
            let restored = theirs.call(&[b"RESTORE", b"back", b"0", &back]);
            assert_eq!(show(&restored), "OK", "{options}");
            for name in ["e1", "e100", "e399"] {
                for command in ["VEMB", "VGETATTR"] {
                    let call = |key: &'static str| {
                        [command, key, name].map(|word| word.as_bytes().to_vec())
                    };
                    let [own, before, after] = ["k", "k", "back"].map(call);
                    let own = ours.call(&own.each_ref().map(|word| &word[..]));
                    let before = theirs.call(&before.each_ref().map(|word| &word[..]));
                    let after = theirs.call(&after.each_ref().map(|word| &word[..]));
                    assert!(is_equal(&own, &before), "{options}: {} {}", show(&own), show(&before));
                    assert_eq!(before, after, "{options}");
                }
            }
        }
    }
}

#[test]
fn our_own_form_is_an_option() {
    let mut client = Client::new().resp3();
    client.follow(
        r#"
        VADD k VALUES 3 1 2 3 a RABITQ => Boolean(true)
        VADD k VALUES 3 1 2 3 a => ERR asked quantization mismatch with existing vector set
        VADD q VALUES 3 1 2 3 a => Boolean(true)
        VADD q VALUES 3 1 2 3 a RABITQ => ERR asked quantization mismatch with existing vector set
        VADD k VALUES 3 -3 2 1 b rabitq SETATTR {"a":1} => Boolean(true)
        VADD k VALUES 3 0 0 0 zero RABITQ => Boolean(true)
        VADD k VALUES 3 -1 -2 -3 opposite RABITQ => Boolean(true)
        VSIM k VALUES 3 1 2 3 => ["a" "b" "zero" "opposite"]
        VSIM k ELE opposite COUNT 1 => ["opposite"]
        VSIM k ELE a TRUTH FILTER .a==1 => ["b"]
        VEMB k zero => [Double(0.0) Double(0.0) Double(0.0)]
        VINFO k => {quant-type: rabitq, hnsw-m: 16, vector-dim: 3, projection-input-dim: 0, size: 4, max-level: ...
        VADD r REDUCE 2 VALUES 3 1 2 3 a RABITQ => Boolean(true)
        VSIM r VALUES 3 1 2 3 => ["a"]
        VSIM r VALUES 2 1 2 => ["a"]
        "#,
    );
    let Value::Array(raw) = client.call(&[b"VEMB", b"k", b"a", b"RAW"]) else { panic!("no array") };
    assert_eq!((raw.len(), show(&raw[0]).as_str()), (4, "rabitq"));
}
