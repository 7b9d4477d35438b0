//! Random aggregations here and in RediSearch 2.10: equal replies, in RESP2 and in RESP3
//! (`PETREL_TEST_REDISEARCH`, see `search_peer`).
//!
//! Intended differences (docs/search.md) are not drawn: estimates, samples, quantiles of more than
//! 500 values, the order of groups and of the items of `TOLIST`, scores. Neither are its faults.

use crate::client::{Client, show, show_args};
use crate::random::Random;
use crate::redis::{Connection, Redis};
use crate::search_peer::{beside_redisearch, settle};
use petrel_resp::Value;

// Without empty values: they are in the group of missing ones there.
const TAGS: [&str; 10] = ["a", "b", "ab", "B", "C d", "x,y", "12", "7.5", "q", "Z"];
const NUMBERS: [&str; 10] = ["0", "1", "-1", "2.5", "10", "100", "1e3", "-0.5", "7", "1700000000"];

/// A name that steps can use.
#[derive(Clone)]
struct Name {
    name: String,
}

fn draw_text(random: &mut Random) -> String {
    format!("'{}'", random.pick(&["a", "12", "", "x,y", "a b", "2.5", "\\'", "%s", "Ab"]))
}

fn draw_expression(random: &mut Random, names: &[Name], depth: usize) -> String {
    let part = |random: &mut Random| draw_expression(random, names, depth - 1);
    if depth == 0 || random.below(6) == 0 {
        return match random.below(8) {
            0 | 1 => random.pick(&["0", "1", "2", "-3", "0.5", "1e3", "12"]).to_string(),
            2 => draw_text(random),
            4 if random.below(20) == 0 => "@nothing".to_string(),
            _ if names.is_empty() => "5".to_string(),
            _ => format!("@{}", names[random.below(names.len())].name),
        };
    }
    match random.below(12) {
        0..=2 => {
            match random.below(4) {
                // Division by 0 is undefined, and so are sorts and times of the result.
                0 => format!("{} / {}", part(random), random.pick(&["2", "4", "0.5"])),
                // Both zeros are groups of their own there.
                1 => format!("{} * {}", part(random), random.pick(&["2", "0.1", "1e3"])),
                other => format!("{} {} {}", part(random), ["+", "- "][other - 2], part(random)),
            }
        }
        3 | 4 => {
            let operator = random.pick(&["==", "!=", "<", "<=", ">", ">="]);
            format!("{}{operator}{}", part(random), part(random))
        }
        5 => format!("{} && {}", part(random), part(random)),
        6 => format!("{}||{}", part(random), part(random)),
        7 => format!("!{}", part(random)),
        8 => format!("({})", part(random)),
        9 if !names.is_empty() => format!("exists(@{})", names[random.below(names.len())].name),
        _ => draw_call(random, names, &part),
    }
}

fn draw_call(random: &mut Random, names: &[Name], part: &dyn Fn(&mut Random) -> String) -> String {
    let number = |random: &mut Random| {
        let found = names.iter().find(|name| matches!(&*name.name, "n" | "m"));
        match found.filter(|_| random.below(3) > 0) {
            Some(name) => format!("@{}", name.name),
            None => random.pick(&["0", "1.5", "2", "1700000000", "-3"]).to_string(),
        }
    };
    let time = |random: &mut Random| random.pick(&["0", "1700000000", "951782399.5"]);
    match random.below(14) {
        0..=2 => {
            let names = ["log(1+abs(", "sqrt(abs(", "log2(2+abs(", "ceil(abs(", "floor((", "abs(("];
            format!("{}{}))", random.pick(&names), number(random))
        }
        // Of other values they are NULL, which sorts differently from row to row there.
        3 => {
            let name = random.pick(&["upper", "lower", "UPPER", "strlen"]);
            format!("{name}(format('%s',{}))", part(random))
        }
        4 => {
            let name = random.pick(&["startswith", "contains"]);
            format!("{name}({}, {})", part(random), draw_text(random))
        }
        5 => {
            let place = |random: &mut Random| random.pick(&["0", "1", "2", "-1", "-2", "9"]);
            format!("substr({},{},{})", part(random), place(random), place(random))
        }
        6 => format!("format('%s-%s',{},{})", part(random), part(random)),
        7 => format!("split({})", part(random)),
        // Neither sorts nor conditions read the text of a text there.
        8 => format!("{}{}))", random.pick(&["to_str(abs(", "to_number(("]), number(random)),
        9 => format!("timefmt({})", time(random)),
        10 | 11 => {
            let names = [
                "day",
                "hour",
                "minute",
                "month",
                "year",
                "dayofweek",
                "dayofmonth",
                "dayofyear",
                "monthofyear",
            ];
            format!("{}({})", random.pick(&names), time(random))
        }
        12 => format!("geodistance('1.5,2.5','{},3')", random.below(90)),
        _ => format!("abs({},1)", part(random)),
    }
}

/// Steps as words, and whether the order of results is defined.
struct Drawn {
    words: Vec<String>,
    is_grouped: bool,
    is_sorted: bool,
    names: Vec<Name>,
    made: usize,
}

impl Drawn {
    fn push(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(ToString::to_string));
    }

    fn pick(&self, random: &mut Random) -> Option<String> {
        let any = (!self.names.is_empty()).then(|| random.below(self.names.len()));
        any.map(|at| self.names[at].name.clone())
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(10) {
            0 if !self.is_grouped => {
                let name = random.pick(&["t", "g", "n", "m", "x", "u"]);
                self.push(&["LOAD", "1", &format!("@{name}")]);
                self.names.push(Name { name: name.to_string() });
            }
            // An error ends the run, so it matters which row comes first.
            1..=3 if self.is_grouped && !self.is_sorted => {}
            1 | 2 => self.apply(random),
            3 => {
                let expression = draw_expression(random, &self.names, 2);
                self.push(&["FILTER", &expression]);
            }
            4 | 5 => self.sort(random),
            6 | 7 => self.group(random),
            8 if !self.is_grouped || self.is_sorted => {
                let offset = random.below(3).to_string();
                // Later steps are not looked at there if no result is wanted.
                let count = (1 + random.below(5)).to_string();
                self.push(&["LIMIT", &offset, &count]);
            }
            _ => {}
        }
    }

    fn apply(&mut self, random: &mut Random) {
        let depth = 1 + random.below(2);
        let mut expression = draw_expression(random, &self.names, depth);
        // Rows are not sorted by a bare property there.
        let bare = expression.trim_matches(['(', ')']);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric();
        if bare.strip_prefix('@').is_some_and(|name| name.bytes().all(is_name)) {
            expression = format!("format('%s',{expression})");
        }
        self.made += 1;
        let name = format!("y{}", self.made);
        self.push(&["APPLY", &expression, "AS", &name]);
        // Arrays are not sorted there.
        if !expression.contains("split") {
            self.names.push(Name { name });
        }
    }

    fn sort(&mut self, random: &mut Random) {
        let mut keys = Vec::new();
        for _ in 0..1 + random.below(2) {
            let Some(name) = self.pick(random) else { return };
            keys.push(format!("@{name}"));
            match random.below(3) {
                0 => keys.push("ASC".to_string()),
                1 => keys.push("DESC".to_string()),
                _ => {}
            }
        }
        // Groups of equal keys are in no defined order.
        if self.is_grouped {
            keys.clear();
            for name in &self.names {
                keys.push(format!("@{}", name.name));
            }
            keys.truncate(8);
            if self.names.len() > 8 {
                return;
            }
        }
        let count = keys.len().to_string();
        self.push(&["SORTBY", &count]);
        self.words.extend(keys);
        if random.below(3) == 0 {
            self.push(&["MAX", "5"]);
        }
        self.is_sorted = true;
    }

    fn group(&mut self, random: &mut Random) {
        let mut by: Vec<String> = Vec::new();
        for _ in 0..random.below(3) {
            if let Some(name) = self.pick(random)
                && !by.contains(&name)
            {
                by.push(name);
            }
        }
        let count = by.len().to_string();
        self.push(&["GROUPBY", &count]);
        self.words.extend(by.iter().map(|name| format!("@{name}")));
        let mut after: Vec<Name> = by.iter().map(|name| Name { name: name.clone() }).collect();
        for _ in 0..random.below(4) {
            let Some(name) = self.pick(random) else { break };
            let name = format!("@{name}");
            self.made += 1;
            let result = format!("r{}", self.made);
            match random.below(6) {
                0 => self.push(&["REDUCE", "COUNT", "0"]),
                // Quantiles beside NaN are in no defined order.
                1 if !name.starts_with("@y") => {
                    let share = random.pick(&["0", "0.1", "0.5", "0.9", "1"]);
                    self.push(&["REDUCE", "QUANTILE", "2", &name, share]);
                }
                2 if !self.is_grouped => {
                    self.push(&["REDUCE", "FIRST_VALUE", "1", &name]);
                }
                // There are two kinds of NULL there.
                3 if !name.starts_with("@y") => {
                    self.push(&["REDUCE", "COUNT_DISTINCT", "1", &name]);
                }
                _ => {
                    // Infinite numbers are left out there by some.
                    let all = ["SUM", "AVG", "MIN", "MAX", "STDDEV"];
                    let known = if name.starts_with("@y") { 2 } else { all.len() };
                    let function = random.pick(&all[..known]);
                    self.push(&["REDUCE", function, "1", &name]);
                }
            }
            self.push(&["AS", &result]);
            after.push(Name { name: result });
        }
        if random.below(4) == 0
            && let Some(name) = self.pick(random)
            && !name.starts_with('y')
        {
            // Its items have no order, so nothing is computed of it.
            self.push(&["REDUCE", "TOLIST", "1", &format!("@{name}"), "AS", "list"]);
        }
        self.names = after;
        self.is_grouped = true;
        self.is_sorted = false;
    }
}

/// A reply with the items of lists and, unless it is ordered, its results sorted.
fn sorted(value: &Value, is_ordered: bool) -> String {
    match value {
        Value::Array(parts) => {
            let mut parts: Vec<String> = parts.iter().map(row).collect();
            if !is_ordered && parts.len() > 1 {
                parts[1..].sort();
            }
            parts.join(" ")
        }
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| match (show(key).as_str(), value) {
                ("results", Value::Array(results)) => {
                    let mut results: Vec<String> = results.iter().map(row).collect();
                    if !is_ordered {
                        results.sort();
                    }
                    format!("results {}", results.join(" "))
                }
                (key, value) => format!("{key} {}", show(value)),
            });
            pairs.collect::<Vec<_>>().join(" ")
        }
        other => show(other),
    }
}

fn row(value: &Value) -> String {
    match value {
        Value::Array(parts) => {
            let parts = parts.iter().map(|part| match part {
                Value::Array(items) => {
                    let mut items: Vec<String> = items.iter().map(show).collect();
                    items.sort();
                    format!("[{}]", items.join(" "))
                }
                other => show(other),
            });
            format!("[{}]", parts.collect::<Vec<_>>().join(" "))
        }
        Value::Map(pairs) => {
            let item = |value: &Value| match value {
                Value::Array(_) => row(&Value::Array(vec![value.clone()])),
                other => row(other),
            };
            let pairs = pairs.iter().map(|(key, value)| format!("{}={}", show(key), item(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(" "))
        }
        other => show(other),
    }
}

fn call_both(ours: &mut Client, theirs: &mut Connection, words: &[String]) -> (Value, Value) {
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    (ours.call(&args), theirs.call(&args))
}

fn round(random: &mut Random, redis: &Redis, resp3: bool) -> usize {
    let (mut ours, mut theirs) = redis.beside(resp3);
    let sortable = |random: &mut Random| random.pick(&["", " SORTABLE", " SORTABLE UNF"]);
    let create = format!(
        "FT.CREATE i PREFIX 1 k: SCHEMA t TAG{} g TAG{} n NUMERIC{} m NUMERIC",
        sortable(random),
        random.pick(&["", " SORTABLE"]),
        random.pick(&["", " SORTABLE"]),
    );
    let words: Vec<String> = create.split(' ').map(String::from).collect();
    let (a, b) = call_both(&mut ours, &mut theirs, &words);
    assert_eq!(show(&a), show(&b), "{create}");
    // Its walk would give documents other places.
    settle(&mut ours, &mut theirs);
    for number in 0..1 + random.below(20) {
        let mut words = vec!["HSET".to_string(), format!("k:{number}")];
        for name in ["t", "g", "n", "m", "x", "u"] {
            // Rows without values end most expressions.
            if random.below(12) > 0 {
                let is_number = matches!(name, "n" | "m" | "x");
                let value = random.pick(if is_number { &NUMBERS } else { &TAGS });
                words.extend([name.to_string(), value.to_string()]);
            }
        }
        if words.len() > 2 {
            let (a, b) = call_both(&mut ours, &mut theirs, &words);
            assert_eq!(show(&a), show(&b), "{words:?}");
        }
    }
    let mut compared = 0;
    for _ in 0..100 {
        let mut names: Vec<Name> = Vec::new();
        for name in ["t", "g", "n", "m"] {
            if create.contains(&format!("{name} TAG SORTABLE"))
                || create.contains(&format!("{name} NUMERIC SORTABLE"))
                || random.below(12) == 0
            {
                names.push(Name { name: name.to_string() });
            }
        }
        let mut drawn =
            Drawn { words: Vec::new(), is_grouped: false, is_sorted: false, names, made: 0 };
        for _ in 0..random.below(5) {
            drawn.step(random);
        }
        compared += compare(random, &mut ours, &mut theirs, &drawn, &create);
    }
    compared
}

fn compare(
    random: &mut Random,
    ours: &mut Client,
    theirs: &mut Connection,
    drawn: &Drawn,
    create: &str,
) -> usize {
    let query = random.pick(&["*", "*", "@n:[0 100]", "@t:{a|b|ab}"]);
    let mut words = vec!["FT.AGGREGATE".to_string(), "i".into(), query.into()];
    words.extend(drawn.words.iter().cloned());
    let is_ordered = !drawn.is_grouped || drawn.is_sorted;
    if random.below(4) == 0 && is_ordered {
        words.extend(["WITHCURSOR", "COUNT", random.pick(&["1", "2", "5"])].map(String::from));
    }
    words.extend(["DIALECT".to_string(), (1 + random.below(3)).to_string()]);
    let (mut a, mut b) = call_both(ours, theirs, &words);
    let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut compared = 0;
    loop {
        let (mut id_a, mut id_b) = (0, 0);
        if words.contains(&"WITHCURSOR".to_string()) {
            (a, id_a) = without_cursor(a);
            (b, id_b) = without_cursor(b);
        }
        let same = nameless(&sorted(&a, is_ordered)) == nameless(&sorted(&b, is_ordered));
        if !same {
            for number in 0..20 {
                let key = format!("k:{number}");
                eprintln!("{key} {}", show(&theirs.call(&[b"HGETALL", key.as_bytes()])));
            }
        }
        assert!(
            same && (id_a == 0) == (id_b == 0),
            "{create}\n{}\nours   {}\ntheirs {}",
            show_args(&args),
            sorted(&a, is_ordered),
            sorted(&b, is_ordered)
        );
        compared += 1;
        if id_a == 0 {
            return compared;
        }
        let read = |id: i64| ["FT.CURSOR".into(), "READ".into(), "i".into(), id.to_string()];
        (a, b) = (call_both(ours, theirs, &read(id_a)).0, Value::Null);
        let args = read(id_b);
        let args: Vec<&[u8]> = args.iter().map(|word: &String| word.as_bytes()).collect();
        b = match b {
            Value::Null => theirs.call(&args),
            other => other,
        };
    }
}

/// A reply without the names of missing values: a name that is loaded later is `(null)` there.
fn nameless(text: &str) -> String {
    let parts: Vec<&str> = text.split(": has no value").collect();
    let names = parts.len() - 1;
    let name_end = |part: &str| part.rfind([' ', '[', '"']).map_or(0, |at| at + 1);
    let kept = parts.iter().enumerate().map(|(number, part)| match number < names {
        true => &part[..name_end(part)],
        false => part,
    });
    kept.collect::<Vec<_>>().join(": has no value")
}

fn without_cursor(value: Value) -> (Value, i64) {
    match value {
        Value::Array(mut parts) if parts.len() == 2 => match parts.pop() {
            Some(Value::Integer(id)) => (parts.remove(0), id),
            other => panic!("{other:?}"),
        },
        other => (other, 0),
    }
}

#[test]
fn random_aggregations_are_those_of_redisearch() {
    beside_redisearch(|random, redis, number| round(random, redis, number % 2 == 1));
}
