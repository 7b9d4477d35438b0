//! Random changes of JSON documents of every kind. After each one an index answers as a walk over
//! all documents does.

use crate::client::{Client, show};
use crate::random::Random;
use crate::search::settle;
use petrel_json::{Kind, Parse, Value as Json, parse};
use petrel_resp::Value;

const KEYS: usize = 6;
const ROUNDS: u64 = 12;
const STEPS: usize = 120;

const SCHEMA: &str = "FT.CREATE i ON JSON PREFIX 1 k: SCHEMA $.n AS n NUMERIC SORTABLE \
    $.m[*] AS m NUMERIC $.t AS t TAG $.g[*] AS g TAG SORTABLE $.o.w AS w TEXT $..x AS x NUMERIC \
    INDEXMISSING $.o.l[1] AS l TAG";

/// The values that a path of the schema selects.
fn select<'d>(name: &str, root: Json<'d>) -> Vec<Json<'d>> {
    let member = |value: Json<'d>, name: &str| value.member(name.as_bytes());
    let children = |value: Option<Json<'d>>| -> Vec<Json<'d>> {
        let value = value.into_iter();
        value.flat_map(|v| v.items().chain(v.members().map(|(_, value)| value))).collect()
    };
    match name {
        "n" | "t" => member(root, name).into_iter().collect(),
        "m" | "g" => children(member(root, name)),
        "w" => member(root, "o").and_then(|o| member(o, "w")).into_iter().collect(),
        "l" => {
            let list = member(root, "o").and_then(|o| member(o, "l"));
            list.and_then(|list| list.item(1)).into_iter().collect()
        }
        _ => {
            let mut found: Vec<Json<'d>> = member(root, "x").into_iter().collect();
            for child in children(Some(root)) {
                found.extend(select("x", child));
            }
            found
        }
    }
}

/// Texts and numbers of a field, if it is there.
type Values = Option<(Vec<String>, Vec<f64>)>;

/// The values that do not fit their field.
#[derive(Debug, PartialEq)]
struct Misfit;

fn values(name: &str, root: Json<'_>) -> Result<Values, Misfit> {
    let found = select(name, root);
    let is_number = matches!(name, "n" | "m" | "x");
    let is_sortable = matches!(name, "n" | "g");
    let items: Vec<Json<'_>> = match found[..] {
        [] => return Ok(None),
        [one] if one.kind() == Kind::Array => {
            if one.is_empty() && is_sortable {
                return Err(Misfit);
            }
            one.items().collect()
        }
        [one] if one.kind() == Kind::Boolean && matches!(name, "t" | "g" | "l") => {
            let text = if one.boolean() == Some(true) { "true" } else { "false" };
            return Ok(Some((vec![text.to_string()], Vec::new())));
        }
        _ => found,
    };
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    for item in items {
        match (item.kind(), item.string(), item.number()) {
            (Kind::Null, ..) => {}
            (_, Some(text), _) if !is_number => {
                texts.push(String::from_utf8_lossy(text).to_lowercase());
            }
            (_, _, Some(number)) if is_number => numbers.push(match number {
                petrel_json::Number::Integer(number) => number as f64,
                petrel_json::Number::Unsigned(number) => number as f64,
                petrel_json::Number::Double(number) => number,
            }),
            _ => return Err(Misfit),
        }
    }
    Ok(Some((texts, numbers)))
}

/// A condition, as text and as a test.
enum Query {
    Number(&'static str, i32, i32),
    Tag(&'static str, &'static str),
    Word(&'static str),
    Missing,
    And(Box<Query>, Box<Query>),
    Or(Box<Query>, Box<Query>),
    Not(Box<Query>),
}

impl Query {
    fn draw(random: &mut Random, depth: usize) -> Self {
        let part = |random: &mut Random| Box::new(Query::draw(random, depth - 1));
        match random.below(if depth == 0 { 5 } else { 9 }) {
            0 | 1 => {
                let low = random.below(8) as i32 - 2;
                let field = ["n", "m", "x"][random.below(3)];
                Query::Number(field, low, low + random.below(4) as i32)
            }
            2 => Query::Tag(
                ["t", "g", "l"][random.below(3)],
                ["a", "b", "true", "ab"][random.below(4)],
            ),
            3 => Query::Word(["one", "two", "three"][random.below(3)]),
            4 => Query::Missing,
            5 | 6 => Query::And(part(random), part(random)),
            7 => Query::Or(part(random), part(random)),
            _ => Query::Not(part(random)),
        }
    }

    fn text(&self) -> String {
        match self {
            Query::Number(field, low, high) => format!("@{field}:[{low} {high}]"),
            Query::Tag(field, tag) => format!("@{field}:{{{tag}}}"),
            Query::Word(word) => format!("@w:{word}"),
            Query::Missing => "ismissing(@x)".into(),
            Query::And(a, b) => format!("({} {})", a.text(), b.text()),
            Query::Or(a, b) => format!("({} | {})", a.text(), b.text()),
            Query::Not(a) => format!("-({})", a.text()),
        }
    }

    fn matches(&self, root: Json<'_>) -> bool {
        let of = |field: &str| values(field, root).ok().flatten().unwrap_or_default();
        match self {
            Query::Number(field, low, high) => {
                let range = f64::from(*low)..=f64::from(*high);
                of(field).1.iter().any(|number| range.contains(number))
            }
            Query::Tag(field, tag) => of(field).0.iter().any(|text| text == tag),
            Query::Word(word) => of("w").0.iter().any(|text| text.split(' ').any(|it| it == *word)),
            Query::Missing => values("x", root) == Ok(None),
            Query::And(a, b) => a.matches(root) && b.matches(root),
            Query::Or(a, b) => a.matches(root) || b.matches(root),
            Query::Not(a) => !a.matches(root),
        }
    }
}

fn draw_value(random: &mut Random, depth: usize) -> String {
    let scalars = [
        "1",
        "2",
        "-1",
        "3.5",
        "0",
        "\"a\"",
        "\"b\"",
        "\"A\"",
        "\"one two\"",
        "\"three\"",
        "true",
        "false",
        "null",
        "\"ab\"",
    ];
    match random.below(if depth == 0 { 8 } else { 11 }) {
        8 | 9 => {
            let items: Vec<String> =
                (0..random.below(4)).map(|_| draw_value(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        10 => format!("{{\"x\":{}}}", draw_value(random, depth - 1)),
        _ => scalars[random.below(scalars.len())].to_string(),
    }
}

/// A value that mostly fits its member.
fn draw_member(random: &mut Random, name: &str) -> String {
    if random.below(8) == 0 {
        return draw_value(random, 2);
    }
    let list = |random: &mut Random, item: &dyn Fn(&mut Random) -> String| {
        let items: Vec<String> = (0..random.below(4)).map(|_| item(random)).collect();
        format!("[{}]", items.join(","))
    };
    let number = |random: &mut Random| ["1", "2", "3", "-1", "2.5", "null"][random.below(6)].into();
    let text = |random: &mut Random| {
        ["\"a\"", "\"b\"", "\"A\"", "\"ab\"", "\"one two\"", "\"three\""][random.below(6)].into()
    };
    match name {
        "n" | "x" => number(random),
        "m" => list(random, &number),
        "t" => text(random),
        "g" => list(random, &text),
        _ => {
            let (w, l) = (text(random), list(random, &text));
            format!("{{\"w\":{w},\"l\":{l}}}")
        }
    }
}

fn draw_document(random: &mut Random) -> String {
    let mut members = Vec::new();
    for name in ["n", "m", "t", "g", "o", "x", "z"] {
        if random.below(3) > 0 {
            members.push(format!("\"{name}\":{}", draw_member(random, name)));
        }
    }
    format!("{{{}}}", members.join(","))
}

fn draw_change(random: &mut Random) -> Vec<String> {
    let key = format!("k:{}", random.below(KEYS));
    let other = format!("{}:{}", random.pick(&["k", "k", "z"]), random.below(KEYS));
    let names = ["n", "m", "t", "g", "o", "x", "z"];
    let name = names[random.below(names.len())];
    let paths = [
        "$.n", "$.m", "$.m[0]", "$.m[-1]", "$.t", "$.g", "$.g[1]", "$.o.w", "$.o", "$.o.l",
        "$.o.l[0]", "$.x", "$..x", "$.z", "$.z.x", "$.m[*]", "$", "$.o.*",
    ];
    let path = paths[random.below(paths.len())];
    match random.below(24) {
        0..5 => vec!["JSON.SET".into(), key, "$".into(), draw_document(random)],
        5..9 => vec!["JSON.SET".into(), key, format!("$.{name}"), draw_member(random, name)],
        9 => vec!["JSON.SET".into(), key, path.into(), draw_value(random, 1)],
        10 => vec!["JSON.MERGE".into(), key, "$".into(), draw_document(random)],
        11 => vec!["JSON.DEL".into(), key, path.into()],
        12 => vec!["JSON.NUMINCRBY".into(), key, path.into(), "1".into()],
        13 => vec!["JSON.ARRAPPEND".into(), key, path.into(), draw_value(random, 0)],
        14 => vec!["JSON.ARRINSERT".into(), key, path.into(), "0".into(), draw_value(random, 0)],
        15 => vec!["JSON.ARRPOP".into(), key, path.into(), ["0", "-1"][random.below(2)].into()],
        16 => vec!["JSON.ARRTRIM".into(), key, path.into(), "1".into(), "2".into()],
        17 => vec!["JSON.STRAPPEND".into(), key, path.into(), "\"b\"".into()],
        18 => vec!["JSON.TOGGLE".into(), key, path.into()],
        19 => vec!["JSON.CLEAR".into(), key, path.into()],
        20 => vec!["RENAME".into(), key, other],
        21 => vec!["COPY".into(), key, other, "REPLACE".into()],
        22 => vec!["DEL".into(), key],
        _ => vec!["SET".into(), key, "text".into()],
    }
}

fn check(client: &mut Client, query: &Query, documents: &[(String, Vec<u8>)]) {
    let mut expected: Vec<String> = Vec::new();
    for (key, text) in documents {
        let document = parse(text, Parse::default()).unwrap();
        let root = document.root();
        let fits =
            ["n", "m", "t", "g", "w", "x", "l"].iter().all(|name| values(name, root).is_ok());
        if fits && query.matches(root) {
            expected.push(key.clone());
        }
    }
    expected.sort();
    let text = query.text();
    let words: Vec<&[u8]> = vec![
        b"FT.SEARCH",
        b"i",
        text.as_bytes(),
        b"VERBATIM",
        b"LIMIT",
        b"0",
        b"100",
        b"RETURN",
        b"1",
        b"$",
        b"DIALECT",
        b"2",
    ];
    let Value::Array(reply) = client.call(&words) else { panic!("{text}") };
    assert_eq!(show(&reply[0]), expected.len().to_string(), "{text} {documents:?}");
    let mut found: Vec<String> =
        reply[1..].chunks(2).map(|hit| show(&hit[0]).trim_matches('"').to_string()).collect();
    found.sort();
    assert_eq!(found, expected, "{text}");
}

fn documents(client: &mut Client) -> Vec<(String, Vec<u8>)> {
    let mut documents = Vec::new();
    for number in 0..KEYS {
        let key = format!("k:{number}");
        if let Value::Bulk(text) = client.call(&[b"JSON.GET", key.as_bytes()]) {
            documents.push((key, text.to_vec()));
        }
    }
    documents
}

#[test]
fn an_index_answers_as_a_walk_over_its_documents() {
    for seed in 0..ROUNDS {
        let mut random = Random::of(seed * 7919 + 17);
        let mut client = Client::new();
        let late = if seed % 2 == 0 { 0 } else { 40 };
        for step in 0..STEPS {
            if step == late {
                assert_eq!(client.run(SCHEMA), "OK");
                settle(&mut client, "i");
            }
            let change = draw_change(&mut random);
            let args: Vec<&[u8]> = change.iter().map(|word| word.as_bytes()).collect();
            client.call(&args);
            if step < late {
                continue;
            }
            let documents = documents(&mut client);
            for _ in 0..4 {
                let depth = random.below(3);
                check(&mut client, &Query::draw(&mut random, depth), &documents);
            }
        }
    }
}
