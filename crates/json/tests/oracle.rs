//! Documents, paths and changes against serde_json and serde_json_path.

use petrel_json::{Change, Document, Edit, Format, Op, Parse, Path, Step, Value, parse, print};
use proptest::prelude::*;
use serde_json::Value as Json;

fn document(json: &Json) -> Document {
    parse(json.to_string().as_bytes(), Parse::default()).expect("serde_json's text is JSON")
}

fn text(value: Value<'_>) -> String {
    let mut out = Vec::new();
    print(value, &Format::default(), &mut out);
    String::from_utf8(out).expect("text is UTF-8")
}

fn reread(value: Value<'_>) -> Json {
    serde_json::from_str(&text(value)).expect("printed text is JSON")
}

fn json() -> impl Strategy<Value = Json> {
    let scalar = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (i64::from(i8::MIN) - 2..300).prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Json::from),
        (-40_000i32..40_000, 0..6).prop_map(|(n, e)| Json::from(f64::from(n) / 10f64.powi(e))),
        "[a-c]{0,3}|\\PC{0,8}|[a-z\"\\\\\n\u{1}]{0,150}".prop_map(Json::from),
    ];
    scalar.prop_recursive(5, 200, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Json::from),
            prop::collection::btree_map("[a-c]{1,2}|\\PC{0,5}", inner, 0..12)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    })
}

/// A path of the part of the grammar that both have.
fn path() -> impl Strategy<Value = String> {
    let selector = prop_oneof![
        "'[a-c]{1,2}'",
        "\"[a-c]\"",
        "-?[1-3]|0",
        "(-[1-3]|[0-4])?:(-[1-3]|[0-4])?(:(-[1-2]|[1-3]))?",
        Just("*".to_owned()),
        "\\?@\\.[ab] (==|!=|<|<=|>|>=) (1|-5|0\\.5|'a'|null)",
        // RedisJSON orders booleans and lets a missing value equal nothing; the oracle does
        // neither.
        "\\?@\\.[ab] (==|!=) (true|false)",
        "\\?@\\.a && @\\.b && @\\.a (==|!=) @\\.b",
        "\\?@\\.[ab](\\.c)?( (&&|\\|\\|) !?@\\.[ab])?",
        "\\?(!\\()?@ (==|<) (1|'b')",
    ]
    .prop_map(|text| if text.contains("!(") { format!("{text})") } else { text });
    let bracketed = prop::collection::vec(selector, 1..3)
        .prop_map(|selectors| format!("[{}]", selectors.join(",")));
    let segment = prop_oneof![
        "\\.[a-c]",
        "\\.\\*",
        "\\.\\.[a-c]",
        bracketed.clone(),
        bracketed.prop_map(|part| format!("..{part}")),
    ];
    prop::collection::vec(segment, 0..4).prop_map(|parts| format!("${}", parts.concat()))
}

/// Every place of a value, with whether it is an array.
fn places(json: &Json, at: &mut Vec<Json>, all: &mut Vec<(Vec<Json>, bool)>) {
    all.push((at.clone(), json.is_array()));
    let children: Vec<(Json, &Json)> = match json {
        Json::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (Json::from(index), item)).collect()
        }
        Json::Object(members) => {
            members.iter().map(|(name, value)| (Json::from(name.clone()), value)).collect()
        }
        _ => Vec::new(),
    };
    for (step, child) in children {
        at.push(step);
        places(child, at, all);
        at.pop();
    }
}

fn at<'j>(mut json: &'j mut Json, steps: &[Json]) -> &'j mut Json {
    for step in steps {
        json = match step {
            Json::String(name) => &mut json[name.as_str()],
            index => &mut json[index.as_u64().unwrap_or(0) as usize],
        };
    }
    json
}

fn steps(place: &[Json]) -> Vec<Step<'_>> {
    place.iter().map(step).collect()
}

fn step(of: &Json) -> Step<'_> {
    match of {
        Json::String(name) => Step::Name(name.as_bytes()),
        index => Step::Index(index.as_u64().unwrap_or(0) as usize),
    }
}

/// Makes one change, chosen by the numbers, in both.
fn change(
    model: &mut Json,
    tape: &mut Vec<u8>,
    (which, place, index): (u8, usize, usize),
    new: &Json,
) {
    let mut all = Vec::new();
    places(model, &mut Vec::new(), &mut all);
    let (place, is_array) = all.swap_remove(place % all.len());
    let inserted = document(new);
    let target = at(model, &place);
    let mut steps = steps(&place);
    let op = match (which % 3, &mut *target) {
        (0, Json::Object(members)) => {
            members.insert("new".into(), new.clone());
            steps.push(Step::Name(b"new"));
            Op::Set(inserted.tape())
        }
        (1, Json::Array(items)) => {
            let index = index % (items.len() + 1);
            items.insert(index, new.clone());
            steps.push(Step::Index(index));
            Op::Insert { count: 1, values: inserted.tape() }
        }
        (2, Json::Array(items)) if !items.is_empty() => {
            let from = index % items.len();
            let count = 1 + index % (items.len() - from);
            items.drain(from..from + count);
            steps.push(Step::Index(from));
            Op::Remove { count }
        }
        (2, Json::Object(members)) if !members.is_empty() => {
            let name = members.keys().nth(index % members.len()).cloned().unwrap_or_default();
            members.remove(&name);
            let edit = {
                steps.push(Step::Name(name.as_bytes()));
                Edit::of(tape, &Change { place: &steps, op: Op::Remove { count: 1 } })
            };
            edit.expect("the member exists").apply(tape);
            return;
        }
        _ => {
            assert_eq!(is_array, target.is_array());
            *target = new.clone();
            Op::Set(inserted.tape())
        }
    };
    let edit = Edit::of(tape, &Change { place: &steps, op }).expect("the place exists");
    let len = tape.len();
    edit.apply(tape);
    assert_eq!(tape.len() as isize - len as isize, edit.grows_by());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn what_is_parsed_is_printed(json in json()) {
        let parsed = document(&json);
        prop_assert_eq!(reread(parsed.root()), json.clone());
        let again = parse(text(parsed.root()).as_bytes(), Parse::default()).unwrap();
        prop_assert_eq!(again.tape(), parsed.tape());
        prop_assert!(parsed.root().is_same(again.root()));
    }

    #[test]
    fn errors_are_those_of_serde_json(json in json(), cut in any::<prop::sample::Index>(), byte in "[\\[\\]{}\",:x0.e-]?") {
        let mut text: Vec<char> = json.to_string().chars().collect();
        let cut = cut.index(text.len());
        text.splice(cut.., byte.chars().chain(text[cut + 1..].to_vec()).collect::<Vec<_>>());
        let text: String = text.into_iter().collect();
        let theirs = serde_json::from_str::<Json>(&text).map_err(|error| error.to_string());
        let ours = parse(text.as_bytes(), Parse::default()).map_err(|error| error.to_string());
        prop_assert_eq!(ours.map(|ours| reread(ours.root())), theirs);
    }

    #[test]
    fn paths_find_what_serde_json_path_finds(json in json(), path in path()) {
        let Ok(oracle) = serde_json_path::JsonPath::parse(&path) else { return Ok(()) };
        let mut theirs: Vec<String> = oracle.query(&json).all().iter().map(|node| node.to_string()).collect();
        let document = document(&json);
        let mut ours = Vec::new();
        let path = Path::parse(&path).unwrap();
        path.find(document.root(), &mut |value, steps| {
            let mut again = document.root();
            for step in steps {
                again = match step {
                    Step::Name(name) => again.member(name).unwrap(),
                    Step::Index(index) => again.item(*index).unwrap(),
                };
            }
            assert_eq!(again.tape().as_ptr(), value.tape().as_ptr(), "the steps lead to the value");
            ours.push(reread(value).to_string());
        }).unwrap();
        if path.is_static() {
            let found = path.find_static(document.root()).map(|value| reread(value).to_string());
            prop_assert_eq!(found.as_ref(), ours.first());
        }
        ours.sort();
        theirs.sort();
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn changes_are_those_of_a_model(
        json in json(),
        changes in prop::collection::vec(((any::<u8>(), any::<usize>(), any::<usize>()), json()), 1..12),
    ) {
        let mut model = json;
        let mut tape = document(&model).into_tape();
        for (choice, new) in &changes {
            // Deeper than the limit is refused.
            if text(Value::new(&tape)).len() < 100_000 && Value::new(&tape).depth() < 100 {
                change(&mut model, &mut tape, *choice, new);
                prop_assert_eq!(reread(Value::new(&tape)), model.clone());
            }
        }
    }
}

#[test]
fn members_of_one_name_are_one() {
    let parsed = parse(br#"{"a":1,"b":2,"a":{"c":3,"c":4}}"#, Parse::default()).unwrap();
    assert_eq!(text(parsed.root()), r#"{"a":{"c":4},"b":2}"#);
    assert_eq!(parsed.root().len(), 2);
}

#[test]
fn merging_follows_the_rfc() {
    // Examples of RFC 7396, appendix A, that have a document as target and patch.
    let cases = [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        (r#"[1,2]"#, r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ];
    for (target, patch, merged) in cases {
        let mut tape = parse(target.as_bytes(), Parse::default()).unwrap().into_tape();
        let patch = parse(patch.as_bytes(), Parse::default()).unwrap();
        let changes = petrel_json::merge(&[], Some(Value::new(&tape)), patch.root());
        for (place, value) in &changes {
            let op = value.as_ref().map_or(Op::Remove { count: 1 }, |value| Op::Set(value.tape()));
            Edit::of(&tape, &Change { place, op }).unwrap().apply(&mut tape);
        }
        assert_eq!(text(Value::new(&tape)), merged);
    }
}

/// A document as programs keep them: 2 KB of strings, numbers, flags and lists.
fn record() -> String {
    let tags: Vec<String> = (0..10).map(|n| format!("\"tag-{n}\"")).collect();
    let items: Vec<String> = (0..16)
        .map(|n| {
            format!(
                "{{\"id\":{},\"sku\":\"A-{n:04}\",\"price\":{}.{:02},\"count\":{n},\"gift\":{},\"at\":[{}.1234,-{}.5678]}}",
                1000 + n, n * 3, n * 7 % 100, n % 2 == 0, n, n * 2
            )
        })
        .collect();
    format!(
        "{{\"name\":\"Example Customer\",\"email\":\"someone@example.org\",\"active\":true,\"tags\":[{}],\"items\":[{}],\"total\":12345.67}}",
        tags.join(","),
        items.join(",")
    )
}

#[test]
fn a_document_of_2_kb_takes_less_than_its_text() {
    let text = record();
    let parsed = parse(text.as_bytes(), Parse::default()).unwrap();
    let (tape, text) = (parsed.tape().len(), text.len());
    assert!((1500..2500).contains(&text) && tape < text, "{tape} bytes for {text} of text");
}

#[test]
fn numbers_of_little_precision_take_little() {
    let numbers: Vec<String> = (0..500).map(|n| format!("{}.{}", n % 10, n % 7)).collect();
    let text = format!("[{}]", numbers.join(","));
    let parsed = parse(text.as_bytes(), Parse::default()).unwrap();
    assert!(parsed.tape().len() <= text.len());
}

#[test]
fn headers_widen_from_within() {
    let mut tape = parse(br#"{"a":{"b":[[]]},"z":1}"#, Parse::default()).unwrap().into_tape();
    let place = [Step::Name(b"a"), Step::Name(b"b"), Step::Index(0), Step::Index(0)];
    let mut count = 0;
    for len in [10, 200, 30, 60_000, 10, 6_000] {
        let value = parse(format!("\"{}\"", "x".repeat(len)).as_bytes(), Parse::default()).unwrap();
        let op = Op::Insert { count: 1, values: value.tape() };
        Edit::of(&tape, &Change { place: &place, op }).unwrap().apply(&mut tape);
        count += 1;
        let root = Value::new(&tape);
        let inner = root.member(b"a").and_then(|a| a.member(b"b")).and_then(|b| b.item(0)).unwrap();
        assert_eq!((inner.len(), root.tape().len()), (count, tape.len()));
        assert_eq!(text(root.member(b"z").unwrap()), "1");
    }
}

#[test]
fn hostile_text_is_refused() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let error = parse(deep.as_bytes(), Parse::default()).unwrap_err();
    assert_eq!(error.to_string(), "recursion limit exceeded at line 1 column 128");
    let deepest = "[".repeat(127) + &"]".repeat(127);
    assert_eq!(parse(deepest.as_bytes(), Parse::default()).unwrap().root().depth(), 127);
    let long = "1".repeat(10_000);
    let error = parse(long.as_bytes(), Parse::default()).unwrap_err();
    assert!(error.to_string().starts_with("number out of range at line 1 column "), "{error}");
    let fraction = format!("0.{}", "3".repeat(10_000));
    assert_eq!(
        text(parse(fraction.as_bytes(), Parse::default()).unwrap().root()),
        "0.3333333333333333"
    );
    assert!(parse(b"\"\xff\"", Parse::default()).is_err());
}

#[test]
fn hostile_paths_are_bounded() {
    let list = format!("[{}]", vec!["[[[1,2],[3]],[[4]]]"; 500].join(","));
    let document = parse(list.as_bytes(), Parse::default()).unwrap();
    let path = Path::parse(&format!("${}", "..*".repeat(80))).unwrap();
    assert!(path.find(document.root(), &mut |_, _| ()).is_ok());
    let path = Path::parse(&format!("$[{}]", vec!["*"; 250].join(","))).unwrap();
    assert!(path.find(document.root(), &mut |_, _| ()).is_ok());
    let path =
        Path::parse("$..[*,*,*,*,*,*]..[*,*,*,*,*,*]..[*,*,*,*,*,*]..[*,*,*,*,*,*]").unwrap();
    assert!(path.find(document.root(), &mut |_, _| ()).is_err());
    let path = Path::parse("$[?$..* == 7 || $..* == 8 || $..* == 9]").unwrap();
    assert!(path.find(document.root(), &mut |_, _| ()).is_err());
    assert!(Path::parse(&format!("$[?{}@", "(".repeat(1000))).is_err());
    assert!(Path::parse(&format!("$[?{}1", "!".repeat(1000))).is_err());
    assert!(Path::parse(&format!("$[?@{}", "[?@".repeat(1000))).is_err());
    assert!(Path::parse(&"a.".repeat(1000)).is_err());
}

#[test]
fn paths_of_redisjson() {
    let text_of = r#"{"a":{"b":[1,2,{"c":"x y"}]},"n-1":5,"list":["foo","Bar",3,null]}"#;
    let document = parse(text_of.as_bytes(), Parse::default()).unwrap();
    let cases = [
        (".", text_of),
        ("$", text_of),
        ("a.b[1]", "2"),
        (".a.b[-1].c", "\"x y\""),
        ("[\"a\"]['b'][0]", "1"),
        ("n-1", "5"),
        ("$.['n-1']", "5"),
        ("$.list[?(@=~\"(?i)^b\")]", "\"Bar\""),
        ("$.list[?(@ > 2)]", "3"),
        ("$.list[?(@ == null)]", "null"),
        ("$..[?(@.c == 'x y')].c", "\"x y\""),
        ("$.list[?(@ == $.list[0])]", "\"foo\""),
        ("$.a.b[:2]", "1 2"),
        ("$.a.b[1,0]", "2 1"),
        ("..c", "\"x y\""),
    ];
    for (path, expected) in cases {
        let mut found = Vec::new();
        let path = Path::parse(path).unwrap();
        path.find(document.root(), &mut |value, _| found.push(text(value))).unwrap();
        assert_eq!(found.join(" "), expected, "{}", path.text());
    }
    let error = Path::parse("$.a[$]").unwrap_err().to_string();
    assert!(
        error.starts_with("Error occurred at position 4, \"$.a[ ---->>>> $]\", expected"),
        "{error}"
    );
    for path in [
        "",
        "$.",
        "$..",
        "$[",
        "$[']",
        "$[1",
        "$[?(@]",
        "$.a b",
        "$[99999999999999999999]",
        "a..",
        "$[?@=1]",
    ] {
        assert!(Path::parse(path).is_err(), "{path}");
    }
}

#[test]
fn text_is_formatted() {
    let document = parse(br#"{"a":[1,{}],"b":[]}"#, Parse::default()).unwrap();
    let format = Format { indent: b"\t", newline: b"\n", space: b" ", ..Format::default() };
    let mut out = Vec::new();
    print(document.root(), &format, &mut out);
    assert_eq!(out, b"{\n\t\"a\": [\n\t\t1,\n\t\t{}\n\t],\n\t\"b\": []\n}");
}

#[test]
fn arrays_of_numbers_are_rounded() {
    let how = Parse { floats: Some(petrel_json::FloatType::Fp16) };
    let parsed = parse(b"[[1,2,4e3],[1.5,\"a\",2.5],[],[1,7]]", how).unwrap();
    assert_eq!(text(parsed.root()), "[[1.0,2.0,4000.0],[1.5,\"a\",2.5],[],[1.0,7.0]]");
    let error = parse(b"[1.5,70000.0]", how).unwrap_err();
    assert_eq!(error.to_string(), "value out of range for F16 at line 1 column 13");
}
