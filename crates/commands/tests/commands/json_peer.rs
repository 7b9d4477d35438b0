//! Random calls of JSON commands here and in RedisJSON: the replies are equal, in RESP2 and in
//! RESP3. `PETREL_TEST_REDISJSON` names the module's file, which a Redis server found on the PATH
//! loads.
//!
//! Intended differences (COMPATIBILITY.md) are not drawn: paths that only one of the two accepts,
//! indices from the end that are out of range, integers beyond 64 bits, `FPHA`.

use crate::client::{show, show_args};
use crate::random::{Random, duration};
use crate::redis::Redis;
use petrel_resp::Value;
use std::time::Instant;

const NAMES: [&str; 5] = ["a", "b", "c", "d e", "q\\\""];
const COMMANDS: [&str; 24] = [
    "SET",
    "SET",
    "SET",
    "GET",
    "GET",
    "MGET",
    "MSET",
    "MERGE",
    "DEL",
    "CLEAR",
    "TYPE",
    "NUMINCRBY",
    "NUMMULTBY",
    "STRAPPEND",
    "STRLEN",
    "TOGGLE",
    "ARRAPPEND",
    "ARRINDEX",
    "ARRINSERT",
    "ARRLEN",
    "ARRPOP",
    "ARRTRIM",
    "OBJLEN",
    "RESP",
];
/// Invalid JSON and edge cases.
const ODD: [&str; 12] =
    ["nul", "{", "[1,", "{\"a\"}", "1 2", "'x'", "\"abc", "", "01", "{a:1}", "\"\\x\"", " 1 "];
const INDICES: [&str; 8] = ["0", "1", "-1", "2", "100", "-100", "x", "1.5"];

fn value(random: &mut Random, depth: usize) -> String {
    match random.below(if depth > 2 { 6 } else { 9 }) {
        0 => (random.below(600) as i64 - 300).to_string(),
        1 => random.pick(&["1.5", "0.1", "1e5", "1e-7", "2.50", "-0.0", "1e300"]).to_owned(),
        2 => "null".to_owned(),
        3 => (random.below(2) == 0).to_string(),
        4 => random.pick(&["\"\"", "\"a\\n\\\"\"", "\"\\u00e9\\u0001\"", "\"/\""]).to_owned(),
        5 => format!("\"{}\"", "x".repeat(random.below(30))),
        6 => {
            let values: Vec<_> = (0..random.below(5)).map(|_| value(random, depth + 1)).collect();
            format!("[{}]", values.join(","))
        }
        _ => {
            let names = &NAMES[..random.below(NAMES.len() + 1)];
            let members =
                names.iter().map(|name| format!("\"{name}\":{}", value(random, depth + 1)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
    }
}

fn any_value(random: &mut Random) -> String {
    match random.below(20) {
        0 => random.pick(&ODD).to_owned(),
        _ => {
            let depth = random.below(4);
            value(random, depth)
        }
    }
}

fn filter(random: &mut Random) -> String {
    let left = random.pick(&["@.a", "@.b", "@", "@[\"a\"]", "@.a.b", "$.a", "@.nope", "@.*"]);
    let right = random.pick(&["1", "1.5", "'x'", "true", "false", "null", "@.b", "@.nope", "-1"]);
    let how = random.pick(&["==", "!=", "<", "<=", ">", ">="]);
    match random.below(5) {
        0 => (*left).to_owned(),
        1 => format!("{left}{how}{right} && {}", filter(random)),
        2 => format!("({left}=={right} || {})", filter(random)),
        _ => format!("{left} {how} {right}"),
    }
}

fn path(random: &mut Random) -> String {
    if random.below(7) == 0 {
        return random.pick(&["$", ".", "$..*", "$..a", "..b", "$.nope"]).to_owned();
    }
    let mut path = random.pick(&["$", "$", ""]).to_owned();
    for _ in 0..=random.below(3) {
        match random.below(12) {
            0..5 => path += &format!(".{}", random.pick(&["a", "b", "c"])),
            5 => path += &format!("[\"{}\"]", random.pick(&["a", "d e"])),
            6 => path += &format!("[{}]", random.below(4)),
            7 => path += "[*]",
            8 => path += random.pick(&["[0:2]", "[1:]", "[:]", "[::2]", "[0,1]"]),
            9 => path += random.pick(&["..a", "..*", "..[0]"]),
            _ => path += &format!("[?({})]", filter(random)),
        }
    }
    path
}

/// Words of a random call.
fn draw(random: &mut Random) -> Vec<String> {
    let command = random.pick(&COMMANDS);
    let key = random.pick(&["k", "k", "k", "l", "none", "text"]);
    let mut words = vec![format!("JSON.{command}"), key.to_owned()];
    match command {
        "SET" => {
            // Setting elements of an array of numbers crashes RedisJSON.
            let paths =
                ["$", "$", ".", "$.a", "$.a.b", "b", "$..a", "$.nope.x", "$..nope", "$.*.q"];
            words.push(random.pick(&paths).to_owned());
            words.push(any_value(random));
            if random.below(5) == 0 {
                words.push(random.pick(&["NX", "XX", "FOO", "FORMAT"]).to_owned());
            }
        }
        "GET" => {
            for _ in 0..random.below(3) {
                let option = random.pick(&["INDENT -", "NEWLINE +", "SPACE _", "FORMAT STRING"]);
                words.extend(option.split(' ').map(str::to_owned));
            }
            (0..random.below(4)).for_each(|_| words.push(path(random)));
        }
        "MGET" => words.extend(["l".to_owned(), path(random)]),
        "MSET" => {
            // RedisJSON reports invalid JSON after other errors.
            let path = random.pick(&["$", ".", "$.a", "$.a.b", "b", "$..a", "$.nope.x", "$..nope"]);
            words.extend([path.to_owned(), value(random, 1), "m".to_owned(), "$".to_owned()]);
            words.push(value(random, 1));
        }
        // RedisJSON merges into no element of an array of numbers.
        "MERGE" => {
            let path = random.pick(&["$", "$.a", "$.a.b", "$.a.b.c", "..a", "$..nope", "b", "."]);
            // A null removes a member, which reorders the others in RedisJSON.
            words.extend([path.to_owned(), any_value(random).replace("null", "7")]);
        }
        "DEL" => words.push(random.pick(&["$", ".", "$[0]", "$.a[1]", "$.c[0:2]"]).to_owned()),
        // RedisJSON stops with an error at nested matches, and in arrays of numbers.
        "CLEAR" => words.push(random.pick(&["$", "$.a", "$.a.b", ".b", "$.nope", "."]).to_owned()),
        "ARRAPPEND" | "STRAPPEND" => words.extend([path(random), any_value(random)]),
        "NUMINCRBY" | "NUMMULTBY" => {
            let number = random.pick(&["1", "-2", "0.5", "1e3", "x", "\"1\"", "null", ""]);
            words.extend([path(random), (*number).to_owned()]);
        }
        "ARRINDEX" => {
            words.extend([path(random), any_value(random)]);
            (0..random.below(4)).for_each(|_| words.push(random.pick(&INDICES).to_owned()));
        }
        "ARRINSERT" => {
            words.extend([path(random), random.pick(&INDICES).to_owned(), any_value(random)]);
        }
        "ARRPOP" => {
            if random.below(6) == 0 {
                let form = random.pick(&["STRINGS", "EXPAND", "EXPAND1", "X"]);
                words.extend(["FORMAT".to_owned(), (*form).to_owned()]);
            }
            // RedisJSON pops from the inner ones of nested arrays first.
            let path = path(random).replace("..*", ".*");
            words.extend([path, random.pick(&INDICES).to_owned()]);
        }
        "ARRTRIM" => {
            let [start, stop] = [(); 2].map(|()| random.pick(&INDICES).to_owned());
            words.extend([path(random), start, stop]);
        }
        _ => words.push(path(random)),
    }
    words
}

/// Canonical text of a reply. The order of members is undefined in an object in a RESP3 reply, and
/// in a text with the values of several paths (`is_mixed`).
fn shape(value: &Value, is_mixed: bool) -> String {
    match value {
        Value::Bulk(bytes) if is_mixed => {
            let mut bytes = bytes.to_vec();
            bytes.sort_unstable();
            format!("text {bytes:?}")
        }
        Value::Array(items) => {
            let shown: Vec<String> = items.iter().map(|item| shape(item, is_mixed)).collect();
            format!("[{}]", shown.join(" "))
        }
        Value::Map(pairs) => {
            let shown = |(name, value): &(Value, Value)| {
                format!("{} {}", show(name), shape(value, is_mixed))
            };
            let mut shown: Vec<String> = pairs.iter().map(shown).collect();
            shown.sort();
            shown.join(" ")
        }
        value => show(value),
    }
}

#[test]
fn redisjson_answers_the_same() {
    let Ok(module) = std::env::var("PETREL_TEST_REDISJSON") else {
        eprintln!("skipped: PETREL_TEST_REDISJSON does not name the module");
        return;
    };
    let Some(redis) = Redis::start_since([7, 4, 0], &["--loadmodule", &module]) else { return };
    let mut random = Random::seeded();
    for resp3 in [false, true] {
        let (mut ours, mut theirs) = redis.beside(resp3);
        let begin = Instant::now();
        while begin.elapsed() < duration() {
            if random.below(5) == 0 {
                let text = value(&mut random, 0);
                let args: [&[u8]; 4] = [b"JSON.SET", b"k", b"$", text.as_bytes()];
                assert_eq!(show(&ours.call(&args)), show(&theirs.call(&args)));
            }
            let words = draw(&mut random);
            let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let before = show(&ours.call(&[b"JSON.GET", b"k"]));
            let (own, other) = (ours.call(&args), theirs.call(&args));
            let line = show_args(&args);
            let shown = || format!("of {before}: {line}\nhere:  {own:?}\nthere: {other:?}");
            let is_mixed = words[0] == "JSON.GET" && words.len() > 3;
            assert_eq!(shape(&own, is_mixed), shape(&other, is_mixed), "{}", shown());
            if matches!(own, Value::Error(_)) {
                // RedisJSON keeps changes made before the error.
                let args: [&[u8]; 4] = [b"DEL", b"k", b"l", b"m"];
                assert_eq!(show(&ours.call(&args)), show(&theirs.call(&args)), "{}", shown());
            }
            for key in ["k", "l", "m"] {
                let args: [&[u8]; 2] = [b"JSON.GET", key.as_bytes()];
                let [own, other] = [ours.call(&args), theirs.call(&args)];
                assert_eq!(show(&own), show(&other), "{key} {}", shown());
            }
        }
    }
}
