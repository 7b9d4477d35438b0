//! Random JSON documents and queries here and in RediSearch: the same results, in every dialect and
//! protocol. `PETREL_TEST_REDISEARCH` names a program that starts a Redis server with both modules,
//! and takes the parameters of a Redis server.
//!
//! Members are not removed: RedisJSON changes the order of the others then. Intended differences
//! (docs/search.md) are not drawn: values of several kinds to sort by, arrays in an order, indexes
//! with NOINDEX fields only.

use crate::client::{Client, show, show_args};
use crate::random::Random;
use crate::redis::{Connection, Redis};
use crate::search_peer::{beside_redisearch, call_both, results, settle};

const KEYS: usize = 10;

/// Paths of a schema with their names and kinds. SORTABLE ones find one value.
const FIELDS: [(&str, &str, &str); 9] = [
    ("$.n", "n", "NUMERIC"),
    ("$.m[*]", "m", "NUMERIC"),
    ("$.l", "l", "NUMERIC"),
    ("$.t", "t", "TAG"),
    ("$.g[*]", "g", "TAG"),
    ("$.b", "b", "TAG"),
    ("$.w", "w", "TEXT"),
    ("$.o.v", "v", "TEXT"),
    ("$..x", "x", "NUMERIC"),
];

struct DrawnField {
    name: &'static str,
    kind: &'static str,
    is_sortable: bool,
    has_missing: bool,
}

fn draw_schema(random: &mut Random) -> (Vec<String>, Vec<DrawnField>) {
    let mut words: Vec<String> =
        "FT.CREATE i ON JSON PREFIX 1 k: SCHEMA".split(' ').map(String::from).collect();
    let mut fields = Vec::new();
    for (path, name, kind) in FIELDS {
        if random.below(2) == 0 {
            continue;
        }
        words.extend([path, "AS", name, kind].map(String::from));
        let has_missing = random.below(3) == 0;
        if has_missing {
            words.push("INDEXMISSING".into());
        }
        let is_sortable = matches!(name, "n" | "t" | "b" | "w") && random.below(2) == 0;
        if is_sortable {
            words.push("SORTABLE".into());
        }
        fields.push(DrawnField { name, kind, is_sortable, has_missing });
    }
    (words, fields)
}

fn draw_scalar(random: &mut Random, name: &str) -> &'static str {
    let choices: &[&str] = match name {
        "n" | "m" | "l" | "x" => &["1", "2", "-1", "2.5", "10", "1e3", "0"],
        "b" => &["true", "false"],
        "w" | "v" => &["\"one\"", "\"two one\"", "\"runs three\"", "\"\"", "\"Two\""],
        _ => &["\"a\"", "\"b\"", "\"Ab\"", "\"a,b\"", "\" c \"", "\"d e\"", "\"\""],
    };
    random.pick(choices)
}

fn draw_value(random: &mut Random, name: &str) -> String {
    match random.below(20) {
        0 => return "null".into(),
        1 => return random.pick(&["{}", "[[1]]", "\"x\"", "5", "true", "[]", "[{}]"]).into(),
        _ => {}
    }
    if !matches!(name, "m" | "l" | "g") {
        return draw_scalar(random, name).into();
    }
    let item = |random: &mut Random| match random.below(8) {
        0 => "null",
        _ => draw_scalar(random, name),
    };
    let items: Vec<&str> = (0..random.below(4)).map(|_| item(random)).collect();
    format!("[{}]", items.join(","))
}

fn draw_document(random: &mut Random) -> String {
    let mut members = Vec::new();
    for name in ["n", "m", "l", "t", "g", "b", "w", "x", "other"] {
        if random.below(3) > 0 {
            members.push(format!("\"{name}\":{}", draw_value(random, name)));
        }
    }
    if random.below(2) == 0 {
        let (v, x) = (draw_value(random, "v"), draw_value(random, "x"));
        members.push(format!("\"o\":{{\"v\":{v},\"x\":{x}}}"));
    }
    format!("{{{}}}", members.join(","))
}

fn draw_change(random: &mut Random) -> Vec<String> {
    let key = format!("k:{}", random.below(KEYS));
    let name = random.pick(&["n", "m", "l", "t", "g", "b", "w", "x"]);
    match random.below(12) {
        0 => vec!["DEL".to_string(), key],
        1 => vec!["JSON.DEL".into(), key, "$.g[0]".into()],
        2 => vec!["JSON.NUMINCRBY".into(), key, "$.n".into(), "1".into()],
        3 => vec!["JSON.ARRAPPEND".into(), key, "$.g".into(), "\"b\"".into()],
        4 => vec!["JSON.SET".into(), key, format!("$.{name}"), draw_value(random, name)],
        5 => vec!["JSON.MERGE".into(), key, "$".into(), r#"{"n":2,"g":["a"]}"#.into()],
        _ => vec!["JSON.SET".into(), key, "$".into(), draw_document(random)],
    }
}

fn draw_leaf(random: &mut Random, fields: &[DrawnField], dialect: usize) -> String {
    let field = &fields[random.below(fields.len())];
    let name = field.name;
    if field.has_missing && dialect > 1 && random.below(5) == 0 {
        return format!("ismissing(@{name})");
    }
    match field.kind {
        "NUMERIC" => {
            let end = |random: &mut Random| random.pick(&["0", "1", "2.5", "10", "-1", "1000"]);
            let open = |random: &mut Random| if random.below(3) == 0 { "(" } else { "" };
            format!("@{name}:[{}{} {}{}]", open(random), end(random), open(random), end(random))
        }
        "TAG" => {
            let tag =
                random.pick(&["a", "b", "ab", "a\\,b", "\\ c\\ ", "d e", "true", "false", "d*"]);
            format!("@{name}:{{{tag}}}")
        }
        _ => match random.below(4) {
            0 => "one".to_string(),
            _ => format!("@{name}:{}", random.pick(&["one", "two", "run", "three", "(one two)"])),
        },
    }
}

fn draw_query(random: &mut Random, fields: &[DrawnField], dialect: usize, depth: usize) -> String {
    if depth == 0 {
        return draw_leaf(random, fields, dialect);
    }
    let part = |random: &mut Random| draw_query(random, fields, dialect, depth - 1);
    match random.below(7) {
        0 if depth == 2 => "*".to_string(),
        0 | 1 => format!("({} {})", part(random), part(random)),
        2 => format!("({} | {})", part(random), part(random)),
        // Two negations side by side miss documents there.
        3 if depth == 2 => format!("-({})", draw_leaf(random, fields, dialect)),
        _ => draw_leaf(random, fields, dialect),
    }
}

fn compare(
    random: &mut Random,
    fields: &[DrawnField],
    (ours, theirs): (&mut Client, &mut Connection),
    create: &[String],
    resp3: bool,
) {
    let dialect = 1 + random.below(3);
    let depth = random.below(3);
    let query = draw_query(random, fields, dialect, depth);
    let is_search = random.below(4) > 0;
    let command = if is_search { "FT.SEARCH" } else { "FT.AGGREGATE" };
    let mut words = vec![command.to_string(), "i".into(), query];
    words.extend(["LIMIT", "0", "100", "DIALECT"].map(String::from));
    words.push(dialect.to_string());
    if is_search {
        match random.below(4) {
            0 => words.push("NOCONTENT".into()),
            1 => {
                let field = fields[random.below(fields.len())].name;
                let paths = ["$.g", "$.m[*]", "$.o", "$.none", "$..x", "$", "$.b", "other"];
                let path = random.pick(&paths);
                words.extend(["RETURN", "5", field, path, "$.other", "AS", "z"].map(String::from));
            }
            _ => {}
        }
        let sortable = fields.iter().filter(|field| field.is_sortable).count();
        if sortable > 0 && random.below(2) == 0 {
            let mut sortable = fields.iter().filter(|field| field.is_sortable);
            if let Some(field) = sortable.next() {
                words.extend(["SORTBY", field.name, "WITHSORTKEYS"].map(String::from));
            }
        }
    } else {
        // The key tells results apart.
        let field = fields[random.below(fields.len())].name;
        let path = random.pick(&["$.g", "$.m[*]", "$.o", "$.none", "$..x", "$"]);
        let field = format!("@{field}");
        words.extend(["LOAD", "3", "@__key", &field, path].map(String::from));
    }
    if resp3 && dialect == 3 && random.below(2) == 0 {
        words.extend(["FORMAT", "EXPAND"].map(String::from));
    }
    let (a, b) = call_both(ours, theirs, &words);
    let (a, b) = match is_search {
        true => (results(&a, false), results(&b, false)),
        // The first number of an aggregation is no count.
        false => ((String::new(), rows(&a)), (String::new(), rows(&b))),
    };
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    if a != b {
        for key in 0..KEYS {
            let key = format!("k:{key}");
            eprintln!("{key} {}", show(&theirs.call(&[b"JSON.GET", key.as_bytes()])));
        }
    }
    assert_eq!(a, b, "{create:?}\n{}", show_args(&args));
}

/// Rows of an aggregation, sorted.
fn rows(reply: &petrel_resp::Value) -> Vec<String> {
    let mut rows: Vec<String> = match reply {
        petrel_resp::Value::Array(parts) => parts[1..].iter().map(show).collect(),
        petrel_resp::Value::Map(pairs) => pairs
            .iter()
            .filter(|(key, _)| show(key).contains("results"))
            .flat_map(|(_, value)| match value {
                petrel_resp::Value::Array(rows) => rows.iter().map(show).collect(),
                _ => Vec::new(),
            })
            .collect(),
        other => vec![show(other)],
    };
    rows.sort();
    rows
}

fn round(random: &mut Random, redis: &Redis, resp3: bool) -> usize {
    let (mut ours, mut theirs) = redis.beside(resp3);
    let (create, fields) = draw_schema(random);
    if fields.is_empty() {
        return 0;
    }
    let late = if random.below(2) == 0 { 25 } else { 0 };
    let mut compared = 0;
    for step in 0..60 {
        if step == late {
            let (a, b) = call_both(&mut ours, &mut theirs, &create);
            assert_eq!(show(&a), show(&b), "{create:?}");
            settle(&mut ours, &mut theirs);
        }
        let change = draw_change(random);
        let (a, b) = call_both(&mut ours, &mut theirs, &change);
        assert_eq!(show(&a).contains("rror"), show(&b).contains("rror"), "{change:?}");
        if step < late {
            continue;
        }
        for _ in 0..3 {
            compare(random, &fields, (&mut ours, &mut theirs), &create, resp3);
            compared += 1;
        }
    }
    compared
}

#[test]
fn random_json_documents_have_the_results_of_redisearch() {
    beside_redisearch(|random, redis, number| round(random, redis, number % 2 == 1));
}
