//! Random indexes, documents and queries here and in RediSearch: the same results, in RESP2 and in
//! RESP3. `PETREL_TEST_REDISEARCH` names a program that starts a Redis server with the module (2.10
//! or later), and takes the parameters of a Redis server.
//!
//! Intended differences (docs/search.md) are not drawn: scores, the order of equal documents,
//! letters beyond ASCII, fields without an index, sort keys that are not SORTABLE.

use crate::client::{Client, show, show_args};
use crate::random::{Random, duration};
use crate::redis::{Connection, Redis};
use petrel_resp::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const TAGS: [&str; 10] = ["a", "b", "ab", "abc", "B", "C d", "c d e", "x-y", "", " a "];
// RediSearch loses documents beside infinite numbers.
const NUMBERS: [&str; 10] =
    ["0", "1", "-1", "2.5", "10", "100", "1e3", "-0.5", "0x10", "12345678901"];
const ODD_NUMBERS: [&str; 5] = ["x", "", "nan", "1e400", "1x"];
const KEYS: usize = 12;

/// A field of a schema as words, and whether it is a TAG, has missing values, and indexes empty
/// ones.
struct DrawnField {
    name: &'static str,
    words: Vec<&'static str>,
    is_tag: bool,
    has_missing: bool,
    has_empty: bool,
    separator: &'static str,
}

fn draw_field(random: &mut Random, name: &'static str) -> DrawnField {
    let is_tag = random.below(2) == 0;
    let mut field = DrawnField {
        name,
        words: vec![name],
        is_tag,
        has_missing: false,
        has_empty: false,
        separator: ",",
    };
    field.words.push(if is_tag { "TAG" } else { "NUMERIC" });
    if is_tag {
        if random.below(3) == 0 {
            field.separator = random.pick(&[";", "|", " "]);
            field.words.extend(["SEPARATOR", field.separator]);
        }
        if random.below(3) == 0 {
            field.words.push("CASESENSITIVE");
        }
        if random.below(3) == 0 {
            field.words.push("WITHSUFFIXTRIE");
        }
        if random.below(3) == 0 {
            field.words.push("INDEXEMPTY");
            field.has_empty = true;
        }
    }
    if random.below(3) == 0 {
        field.words.push("INDEXMISSING");
        field.has_missing = true;
    }
    if random.below(2) == 0 {
        field.words.push("SORTABLE");
    }
    field
}

fn draw_value(random: &mut Random, field: &DrawnField) -> String {
    if !field.is_tag {
        let odd = random.below(12) == 0;
        return random.pick(if odd { &ODD_NUMBERS } else { &NUMBERS }).to_string();
    }
    let tags: Vec<&str> = (0..1 + random.below(3)).map(|_| random.pick(&TAGS)).collect();
    tags.join(field.separator)
}

fn draw_leaf(random: &mut Random, fields: &[DrawnField], dialect: usize) -> String {
    let field = &fields[random.below(fields.len())];
    let name = match random.below(25) {
        0 => "nothing",
        _ => field.name,
    };
    if field.has_missing && dialect > 1 && random.below(6) == 0 {
        return format!("ismissing(@{})", field.name);
    }
    if field.is_tag {
        let tag = |random: &mut Random| {
            let plain =
                random.pick(&["a", "b", "ab", "abc", "B", "C d", "x\\-y", "zz"]).to_string();
            match random.below(8) {
                0 => format!("{}*", random.pick(&["a", "ab", "c"])),
                1 if dialect > 1 => format!("*{}", random.pick(&["b", "bc", "\\ d"])),
                2 if dialect > 1 => format!("*{}*", random.pick(&["b", "bc", "ab"])),
                3 if dialect > 1 => format!("w'{}'", random.pick(&["a*", "?b?", "*c", "a?"])),
                _ => plain,
            }
        };
        let tags: Vec<String> = (0..1 + random.below(2)).map(|_| tag(random)).collect();
        return format!("@{name}:{{{}}}", tags.join("|"));
    }
    let end = |random: &mut Random| random.pick(&["0", "1", "2.5", "10", "-1", "100"]).to_string();
    let open = |random: &mut Random| if random.below(3) == 0 { "(" } else { "" };
    match random.below(4) {
        0 => format!("@{name}:[-inf {}{}]", open(random), end(random)),
        1 => format!("@{name}:[{}{} +inf]", open(random), end(random)),
        _ => {
            let (low, high) = (end(random), end(random));
            format!("@{name}:[{}{low} {}{high}]", open(random), open(random))
        }
    }
}

fn draw_query(random: &mut Random, fields: &[DrawnField], dialect: usize, depth: usize) -> String {
    if depth == 0 {
        return draw_leaf(random, fields, dialect);
    }
    let part = |random: &mut Random| draw_query(random, fields, dialect, depth - 1);
    match random.below(8) {
        0 if depth == 2 => "*".to_string(),
        0 | 1 => format!("({} {})", part(random), part(random)),
        2 => format!("({} | {})", part(random), part(random)),
        3 => format!("-({})", part(random)),
        4 => format!("({} -{})", part(random), draw_leaf(random, fields, dialect)),
        5 => format!("~({})", part(random)),
        _ => draw_leaf(random, fields, dialect),
    }
}

pub fn call_both(ours: &mut Client, theirs: &mut Connection, words: &[String]) -> (Value, Value) {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    (ours.call(&args), theirs.call(&args))
}

/// Waits until both have indexed everything.
pub fn settle(ours: &mut Client, theirs: &mut Connection) {
    let info: Vec<String> = vec!["FT.INFO".into(), "i".into()];
    let start = Instant::now();
    loop {
        let is_done = |value: &Value| {
            let text = show(value);
            text.contains("indexing \"0\"")
                || text.contains("indexing: 0")
                || text.contains("indexing 0")
        };
        let (a, b) = call_both(ours, theirs, &info);
        if is_done(&a) && is_done(&b) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{} {}", show(&a), show(&b));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A result with its fields sorted: the order of a hash's fields is the server's.
fn sorted(value: &Value) -> String {
    match value {
        Value::Array(parts) if parts.len() % 2 == 0 => {
            let mut pairs: Vec<String> = parts
                .chunks(2)
                .map(|pair| format!("{} {}", show(&pair[0]), show(&pair[1])))
                .collect();
            pairs.sort();
            pairs.join(" ")
        }
        Value::Map(pairs) => {
            let mut pairs: Vec<String> = pairs
                .iter()
                .map(|(key, value)| format!("{}: {}", show(key), sorted(value)))
                .collect();
            pairs.sort();
            pairs.join(" ")
        }
        other => show(other),
    }
}

/// The total, and the shown results: sorted unless their order is defined.
pub fn results(reply: &Value, keeps_order: bool) -> (String, Vec<String>) {
    let mut found: Vec<String>;
    let total;
    match reply {
        Value::Array(parts) => {
            total = show(&parts[0]);
            // Each result begins with its key.
            found = Vec::new();
            for part in &parts[1..] {
                let text = sorted(part);
                if text.starts_with("\"k:") {
                    found.push(text);
                } else if let Some(last) = found.last_mut() {
                    last.push_str(&text);
                }
            }
        }
        Value::Map(pairs) => {
            let field = |name: &str| {
                let found = pairs.iter().find(|(key, _)| show(key) == name);
                &found.unwrap_or_else(|| panic!("{name} of {}", show(reply))).1
            };
            total = show(field("total_results"));
            let Value::Array(all) = field("results") else { panic!("{}", show(reply)) };
            found = all.iter().map(sorted).collect();
        }
        other => return (show(other), Vec::new()),
    }
    if !keeps_order {
        found.sort();
    }
    (total, found)
}

fn round(random: &mut Random, redis: &Redis, resp3: bool) -> usize {
    let (mut ours, mut theirs) = redis.beside(resp3);
    let names = ["f", "g", "h"];
    let fields: Vec<DrawnField> =
        names[..1 + random.below(3)].iter().map(|&name| draw_field(random, name)).collect();
    let mut create: Vec<String> =
        ["FT.CREATE", "i", "PREFIX", "1", "k:", "SCHEMA"].iter().map(ToString::to_string).collect();
    create.extend(fields.iter().flat_map(|field| field.words.iter().map(ToString::to_string)));
    let is_late = random.below(2) == 0;
    let mut compared = 0;
    for step in 0..60 {
        if step == if is_late { 25 } else { 0 } {
            let (a, b) = call_both(&mut ours, &mut theirs, &create);
            assert_eq!(show(&a), show(&b), "{create:?}");
            if show(&a) != "OK" {
                return 0;
            }
            settle(&mut ours, &mut theirs);
        }
        let key = format!("k:{}", random.below(KEYS));
        let field = &fields[random.below(fields.len())];
        let words: Vec<String> = match random.below(12) {
            0 => vec!["DEL".into(), key],
            1 => vec!["HDEL".into(), key, field.name.into()],
            2 => vec!["HSET".into(), key, "other".into(), "1".into()],
            3 => vec!["SET".into(), key, "text".into()],
            _ => {
                let mut words = vec!["HSET".to_string(), key];
                for field in &fields {
                    if random.below(3) > 0 {
                        words.extend([field.name.to_string(), draw_value(random, field)]);
                    }
                }
                if words.len() == 2 {
                    continue;
                }
                words
            }
        };
        let (a, b) = call_both(&mut ours, &mut theirs, &words);
        assert_eq!(show(&a), show(&b), "{words:?}");
        if is_late && step < 25 {
            continue;
        }
        for _ in 0..3 {
            compared += compare(random, &fields, &mut ours, &mut theirs, &create);
        }
    }
    for field in fields.iter().filter(|field| field.is_tag) {
        let words = ["FT.TAGVALS".to_string(), "i".into(), field.name.into()];
        let (a, b) = call_both(&mut ours, &mut theirs, &words);
        // There tags stay for a while after their last document.
        let items = |value: &Value| match value {
            Value::Array(items) | Value::Set(items) => items.iter().map(show).collect::<Vec<_>>(),
            other => panic!("{}", show(other)),
        };
        let theirs = items(&b);
        assert!(
            items(&a).iter().all(|tag| theirs.contains(tag)),
            "{create:?} {} {}",
            show(&a),
            show(&b)
        );
    }
    compared
}

fn compare(
    random: &mut Random,
    fields: &[DrawnField],
    ours: &mut Client,
    theirs: &mut Connection,
    create: &[String],
) -> usize {
    let dialect = 1 + random.below(3);
    let depth = random.below(3);
    let query = draw_query(random, fields, dialect, depth);
    let mut words = vec!["FT.SEARCH".to_string(), "i".into(), query];
    words.extend(["LIMIT", "0", "100", "DIALECT"].map(String::from));
    words.push(dialect.to_string());
    let mut keeps_order = false;
    match random.below(4) {
        0 => words.push("NOCONTENT".into()),
        1 => {
            let field = fields[random.below(fields.len())].name;
            words.extend(["RETURN", "2", field, "other"].map(String::from));
        }
        _ => {}
    }
    let sorts = &fields[random.below(fields.len())];
    if sorts.words.contains(&"SORTABLE") {
        let field = sorts.name;
        words.extend(
            ["SORTBY", field, random.pick(&["ASC", "DESC"]), "WITHSORTKEYS"].map(String::from),
        );
        // Equal keys are in no defined order.
        keeps_order = false;
    }
    if random.below(6) == 0
        && let Some(field) = fields.iter().find(|field| !field.is_tag)
    {
        words.extend(["FILTER", field.name, "(0", "+inf"].map(String::from));
    }
    if random.below(8) == 0 {
        words.extend(["INKEYS", "4", "k:1", "k:2", "k:3", "k:99"].map(String::from));
    }
    let (a, b) = call_both(ours, theirs, &words);
    let (a, b) = (results(&a, keeps_order), results(&b, keeps_order));
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    if a != b {
        for key in 0..KEYS {
            eprintln!("{}", theirs_show(theirs, key));
        }
    }
    assert_eq!(a, b, "{create:?}\n{}", show_args(&args));
    1
}

fn theirs_show(theirs: &mut Connection, key: usize) -> String {
    let key = format!("k:{key}");
    format!("{key} {}", sorted(&theirs.call(&[b"HGETALL", key.as_bytes()])))
}

/// Compares in rounds with the server that `PETREL_TEST_REDISEARCH` starts, for the duration of
/// random tests. A round gets its number and returns the number of comparisons.
pub fn beside_redisearch(mut round: impl FnMut(&mut Random, &Redis, usize) -> usize) {
    let Some(program) = std::env::var_os("PETREL_TEST_REDISEARCH") else {
        eprintln!("skipped: PETREL_TEST_REDISEARCH names no RediSearch");
        return;
    };
    let Some(redis) = Redis::start_program(Path::new(&program), &[]) else {
        eprintln!("skipped: {} cannot be started", program.display());
        return;
    };
    let mut random = Random::seeded();
    let (start, mut compared, mut rounds) = (Instant::now(), 0, 0);
    while start.elapsed() < duration() {
        compared += round(&mut random, &redis, rounds);
        rounds += 1;
    }
    eprintln!("compared {compared} replies in {rounds} rounds");
}

#[test]
fn random_queries_have_the_results_of_redisearch() {
    beside_redisearch(|random, redis, number| round(random, redis, number % 2 == 1));
}
