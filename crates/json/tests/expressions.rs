//! Filters with expressions, and projections.

use petrel_json::{Document, Format, Parse, Path, SearchError, Work, parse, print};

fn document(text: &str) -> Document {
    parse(text.as_bytes(), Parse::default()).unwrap()
}

/// The values that a path finds or computes, as an array.
fn get(path: &str, document: &Document) -> String {
    let path = Path::parse(path).unwrap();
    let mut text = Vec::new();
    if let Some(made) = path.project(document.root(), &mut Work::default()).unwrap() {
        print(made.root(), &Format::default(), &mut text);
        return String::from_utf8(text).unwrap();
    }
    let mut found = Vec::new();
    path.find(document.root(), &mut |value, _| {
        text.clear();
        print(value, &Format::default(), &mut text);
        found.push(String::from_utf8(text.clone()).unwrap());
    })
    .unwrap();
    format!("[{}]", found.join(","))
}

fn check(text: &str, cases: &[(&str, &str)]) {
    let document = document(text);
    for (path, expected) in cases {
        assert_eq!(get(path, &document), *expected, "{path} in {text}");
    }
}

#[test]
fn conditions_are_negated() {
    check(
        r#"[{"x":1,"y":1},{"y":2},{"x":1},{"z":3}]"#,
        &[
            ("$[?!@.x]", r#"[{"y":2},{"z":3}]"#),
            ("$[?!!@.x]", r#"[{"x":1,"y":1},{"x":1}]"#),
            ("$[?!@.x == 1]", r#"[{"y":2},{"z":3}]"#),
            ("$[?!(@.x == 1)]", r#"[{"y":2},{"z":3}]"#),
            ("$[?!@.x && @.y]", r#"[{"y":2}]"#),
            ("$[? !(@.x || @.y)]", r#"[{"z":3}]"#),
            ("$[?true]", r#"[{"x":1,"y":1},{"y":2},{"x":1},{"z":3}]"#),
            ("$[?false]", "[]"),
        ],
    );
}

#[test]
fn literals_of_every_kind_are_compared() {
    check(
        r#"[[1],[1,[2]],[1.0],{"x":1,"y":"z"},["it's","\""],[true,null]]"#,
        &[
            ("$[?@ == [1]]", "[[1]]"),
            ("$[?([ 1 , [2] ] == @)]", "[[1,[2]]]"),
            (r#"$[?@ == {'y':"z",'x':1}]"#, r#"[{"x":1,"y":"z"}]"#),
            (r#"$[?@ == ["it's",'"']]"#, r#"[["it's","\""]]"#),
            ("$[?@ == [true,null]]", "[[true,null]]"),
            ("$[?@ > [0]]", "[]"),
            ("$[?@ != [1] && @ != {'x':1,'y':'z'} && @[0] == 1]", "[[1,[2]],[1.0]]"),
        ],
    );
}

#[test]
fn numbers_are_computed() {
    check(
        r#"[{"x":2,"y":3,"s":"t"},{"x":5.5,"y":2}]"#,
        &[
            ("$[?@.x + 1 == 3].y", "[3]"),
            ("$[?@.x + @.y * 2 == 8].y", "[3]"),
            ("$[?(@.x + @.y) * 2 == 10].y", "[3]"),
            ("$[?((@.x) - 1 == 1) && @.y].y", "[3]"),
            ("$[?@.x / 2 == 1].y", "[3]"),
            ("$[?@.x % 2 == 1.5].y", "[2]"),
            ("$[?-@.x == -2].y", "[3]"),
            ("$[?+@.x == 2].y", "[3]"),
            ("$[?@.x -1 == 1].y", "[3]"),
            ("$[?@.x / 0 == 0]", "[]"),
            ("$[?@.x % 0 == 0]", "[]"),
            ("$[?@.s + 1 == 1]", "[]"),
            ("$[?@.* + 1 == 3]", "[]"),
        ],
    );
    let least = format!(r#"[{{"x":{}}},{{"x+1":1}}]"#, i64::MIN);
    check(&least, &[("$[?@.x % -1 == 0]", "[]"), ("$[?@.x+1]", r#"[{"x+1":1}]"#)]);
}

#[test]
fn values_are_looked_for_in_sequences() {
    check(
        r#"{"a":[1,2,3.0,"x",[2]],"allow":[2,3],"n":5,"o":{"x":1,"y":2},"p":{}}"#,
        &[
            ("$.a[?@ in [2,4]]", "[2]"),
            ("$.a[?@ nin [1,2,'x',[2]]]", "[3.0]"),
            ("$.a[?@ in $.allow]", "[2,3.0]"),
            ("$.a[?@ in $.n]", "[]"),
            ("$.a[?@ nin $.none]", r#"[1,2,3.0,"x",[2]]"#),
            ("$.a[?@ in $.o.keys()]", r#"["x"]"#),
            ("$.a[?@ in $.o.*]", "[1,2]"),
            ("$.a[?[2] in $.a]", r#"[1,2,3.0,"x",[2]]"#),
            ("$[?@ subsetof [2,3,4]]", "[[2,3]]"),
            ("$[?@ anyof ['x',7]]", r#"[[1,2,3.0,"x",[2]]]"#),
            ("$[?@ noneof [1]]", r#"[[2,3],5,{"x":1,"y":2},{}]"#),
            ("$[?@.keys() anyof ['x']]", r#"[{"x":1,"y":2}]"#),
            ("$[?@ size 2]", r#"[[2,3],{"x":1,"y":2}]"#),
            ("$[?@ sizeof 2.9]", r#"[[2,3],{"x":1,"y":2}]"#),
            ("$[?@ size '2']", "[]"),
            ("$[?@ empty true]", "[{}]"),
            ("$[?@.keys() empty true]", "[{}]"),
            ("$[?@.keys()]", r#"[{"x":1,"y":2}]"#),
            ("$[?@.keys() == 'y']", r#"[{"x":1,"y":2}]"#),
            ("$[?@.* size 1]", r#"[[1,2,3.0,"x",[2]]]"#),
        ],
    );
}

#[test]
fn functions_of_filters() {
    check(
        r#"{"a":["abc","xabc","a","h\u00e9llo",[1,2,3],{"n":[3,1,2]},{"n":[]},{"n":[1,"x"]},2.1,-5]}"#,
        &[
            ("$.a[?length(@) == 5]", "[\"h\u{e9}llo\"]"),
            ("$.a[?@.length() > 2]", "[\"abc\",\"xabc\",\"h\u{e9}llo\",[1,2,3]]"),
            ("$.a[?length(@, 1) == 5]", "[]"),
            ("$.a[?count(@.*) == 3]", "[[1,2,3]]"),
            ("$.a[?match(@, 'a.*')]", r#"["abc","a"]"#),
            ("$.a[?search(@, 'b')]", r#"["abc","xabc"]"#),
            ("$.a[?!match(@, 'a.*') && @ =~ 'bc']", r#"["xabc"]"#),
            ("$.a[?match(@, '(')]", "[]"),
            ("$.a[?@ =~ concat('^', 'x')]", r#"["xabc"]"#),
            ("$.a[?concat(@, 'bc') == 'abc']", r#"["a"]"#),
            ("$.a[?concat() == '']", "[]"),
            ("$.a[?sum(@.n) == 6]", r#"[{"n":[3,1,2]}]"#),
            ("$.a[?min(@.n) == 1 && max(@.n) == 3 && @.n.avg() == 2]", r#"[{"n":[3,1,2]}]"#),
            ("$.a[?first(@.n) == 3 && last(@.n) == 2]", r#"[{"n":[3,1,2]}]"#),
            ("$.a[?index(@.n, -3) == 3]", r#"[{"n":[3,1,2]}]"#),
            ("$.a[?index(@.n, 1.9) == 1]", r#"[{"n":[3,1,2]}]"#),
            ("$.a[?index(@.n, 9) == 1]", "[]"),
            ("$.a[?ceiling(@) == 3]", "[2.1]"),
            ("$.a[?floor(@) == 2]", "[2.1]"),
            ("$.a[?abs(@) == 5]", "[-5]"),
            ("$.a[?value(@.n[0]) == 3]", r#"[{"n":[3,1,2]}]"#),
            ("$.a[?value(@.*) == 1]", "[]"),
            ("$.a[?[9,8].index(0).sum()]", "[]"),
            ("$.a[?[2,4,4,4,5,5,7,9].stddev() == 2 && @ == 'a']", r#"["a"]"#),
        ],
    );
}

#[test]
fn projections_compute_values() {
    check(
        r#"{"a":2,"b":4,"s":"hi","arr":[1,2,3],"m":[[1,2],[3]],"big":1e308,"books":[{"t":"a"},5],"x":{"a":7,"b":{}}}"#,
        &[
            ("$.a + 1", "[3]"),
            ("$.a * $.b", "[8]"),
            ("($.a + $.b) / 2", "[3.0]"),
            ("$.a + $.b * 2", "[10]"),
            ("$.b % $.a", "[0]"),
            ("-$.a", "[-2]"),
            ("- $.a", "[-2]"),
            ("$.a + 9223372036854775807", "[9.223372036854776e18]"),
            ("$.a / 0", "[]"),
            ("$.s * 2", "[]"),
            ("$.missing + 1", "[]"),
            ("$..a + 1", "[]"),
            ("$.big * $.big", "[]"),
            ("$.arr.length()", "[3]"),
            ("length ( $.arr )", "[3]"),
            ("$.s.length()", "[2]"),
            ("$.a.length()", "[]"),
            ("$.a.bogus()", "[]"),
            ("$.length($.arr)", "[]"),
            ("$.arr.min()", "[1.0]"),
            ("$.arr.sum()", "[6.0]"),
            ("$.m.first().length()", "[2]"),
            ("$.m[*].index(1)", "[[3]]"),
            ("$.s.match('h.')", "[true]"),
            ("$.x~", r#"["a","b"]"#),
            ("$~", r#"["a","b","s","arr","m","big","books","x"]"#),
            ("x~", r#"["a","b"]"#),
            ("$.books~", "[]"),
            ("$.books[*].keys()", r#"["t"]"#),
            ("$..x.keys().count()", "[2]"),
            ("$.x.keys().first()", r#"["a"]"#),
            ("$.x.b~", "[]"),
            ("$.x.keys().index(-1)", r#"["b"]"#),
            ("$.arr.append(9)", "[1,2,3,9]"),
            ("$.arr[*].append(9)", "[1,2,3,9]"),
            ("$.a.append({'t':'X'})", r#"[2,{"t":"X"}]"#),
            ("$.none.append(1)", "[1]"),
            ("$.arr.append($.none)", "[]"),
            ("$.arr.append($.m)", "[1,2,3,[[1,2],[3]]]"),
            ("$.arr.append($.m[*])", "[1,2,3,[[1,2],[3]]]"),
            ("$.arr.append($.x.keys())", r#"[1,2,3,["a","b"]]"#),
            ("$.arr.append(9).sum()", "[15.0]"),
            ("value($.m)", "[[[1,2],[3]]]"),
            ("a + 1", "[3]"),
            ("$.arr.floor()", "[]"),
            ("$.arr.stddev() * 0", "[0.0]"),
            ("$.a + 5.abs() + -5.5.abs()", "[12.5]"),
        ],
    );
    for path in ["$.a", "($..a)", "(($.a))", "$.a+1", "$.arr.length", "$ ", "a", "-$x", ".a"] {
        assert!(!Path::parse(path).unwrap().is_projection(), "{path}");
    }
    for path in ["a + 1", "-$x", "a", "$x"] {
        assert!(Path::is_legacy_text(path), "{path}");
    }
    assert!(!Path::parse("a + 1").unwrap().is_legacy());
}

#[test]
fn malformed_expressions_are_refused() {
    for path in [
        "$.a +",
        "$.arr.length(",
        "($.a",
        "$.a * * 2",
        "$.obj~.x",
        "$.obj~~",
        "$.obj.keys()~",
        "$.obj~.length()",
        "$.obj.keys().x",
        "$.a~b",
        "$.a == 1",
        "($.a == 1)",
        "$[?(@.a == 1) + 1]",
        "$[?@ == [1]",
        "$[?@ == [1,]]",
        "$[?@ in]",
        "$[?@.a == 1 == 1]",
        "$.a.append(@.x == 1)",
    ] {
        assert!(Path::parse(path).is_err(), "{path}");
    }
    let nested = |depth| format!("{}$.a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Path::parse(&nested(5000)).is_err());
    assert!(Path::parse(&nested(20)).is_ok());
    assert!(Path::parse(&format!("$.a{}", ".keys()".repeat(300))).is_err());
    assert!(Path::parse(&format!("$.a{}", " + 1".repeat(300))).is_err());
    assert!(Path::parse(&format!("$[?@ == {}1{}]", "[".repeat(500), "]".repeat(500))).is_err());
    assert!(Path::parse(&format!("$[?@.s == \"{}\"]", "(".repeat(300))).is_ok());
}

#[test]
fn work_of_expressions_is_bounded() {
    let numbers: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let document = document(&format!("[{}]", numbers.join(",")));
    for path in ["$[?@ in $]", "$[?$ subsetof $]", "$[?$.append(@).count() == 0]"] {
        let path = Path::parse(path).unwrap();
        let ended = path.find(document.root(), &mut |_, _| ());
        assert_eq!(ended, Err(SearchError::TooMuchWork), "{}", path.text());
    }
    let path = Path::parse(&format!("$[*]{}", ".append($[*])".repeat(30))).unwrap();
    let ended = path.project(document.root(), &mut Work::default());
    assert_eq!(ended.map(|made| made.is_some()), Err(SearchError::TooMuchWork));
}
