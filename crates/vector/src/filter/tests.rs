//! Behaviour observed in Redis 8.2, and arbitrary input.

use super::*;
use proptest::prelude::*;

const ATTRIBUTES: &[u8] = br#"{"year":1980,"name":"x","tags":["p","q"],"neg":-2.5,"t":true,"f":false,"n":null,"nested":{"a":1},"esc":"a\"b\u0041","mix":[1,"2",true],"e":[],"num_str":"12","big":1e30,"a-b":3,"k_1":4, "emp":"", "z":0, "nest2":[[1],2]}"#;

#[test]
fn values_are_those_of_redis() {
    for passing in [
        "-1",
        "1 - -1 == 2",
        "1 +1 == 2",
        "[1,]",
        "[ 1 , 2 ]",
        "2 in [1 , 2]",
        "((1))",
        "() 1",
        "1 (+ 2)",
        "null == null",
        "null < 1",
        "null + 1 == 1",
        "'a' and 1",
        "[] and 1",
        "not ''",
        "not null",
        ".year == 1980",
        ".name == \"x\"",
        "'p' in .tags",
        "'x' in .name",
        "1 in .mix",
        ".t",
        ".f == 0",
        ".n == null",
        "not .n",
        ".tags == 1 or 1",
        ".num_str == 12",
        ".name + 1 == 1",
        ".name >= 'x'",
        ".big > 1e29",
        ".a-b == 3",
        ".emp == ''",
        ".year / 0 > 1",
        "5.5 % 2 == 1.5",
        "-5 % 3 == -2",
        "2 ** -1 == 0.5",
        "2 ** 3 ** 2 == 512",
        "10 % 4 ** 2 == 10",
        "1 < 2 < 3",
        "3 > 2 > 0",
        "1 or 0 and 0",
        "not 1 + 1",
        "not 0 == 1",
        "1 in [1] == 1",
        "1 == '1'",
        "'' in 'abc'",
        ".e == []",
        ".nest2",
        ".year&&.name",
        "3-1 == 2",
        "1>-2",
        "2**3==8",
        "1||0&&0",
        "not 2 ** 0",
        "2 ** not 0",
        "2 == 2 in [1]",
        "0 > 1 in [0]",
        "[1]==[2]",
        "[0]==''",
        "''==0",
        "'0x10'==16",
        "'1e2'==100",
        "' 5'==5",
        "'inf' > 5",
        "1.",
        "1E2==100",
        "5 -(3) == 2",
        "2 in .nest2",
        "1 !=! 1",
        "1 and!0",
        "'x'in'xyz'",
        "1and 2 or3",
        "\t1\n",
    ] {
        let filter = Filter::compile(passing.as_bytes());
        assert!(filter.is_ok_and(|it| it.passes(ATTRIBUTES)), "{passing}");
    }
    for failing in [
        "0",
        "''",
        "not 1 == 2",
        "!1",
        "null",
        "null == 0",
        "[] and 0",
        ".n",
        ".nested",
        "not .nested",
        ".missing or 1",
        "not .missing",
        ".Year",
        "3 > 2 > 1",
        "0/0 == 0/0",
        "5 % 0 == 0",
        "0 == 1 > 2",
        "'12abc' + 0 == 12",
        "'5 '==5",
        "'abc' < 'abd'",
        "1 in 123",
        "not 1 in [2]",
        ".year-80 == 1900",
        ".esc == 'a\"bA'",
        "1 in .nest2",
        "[5]+1==6",
        "[1]==null",
        ".",
    ] {
        let filter = Filter::compile(failing.as_bytes());
        assert!(filter.is_ok_and(|it| !it.passes(ATTRIBUTES)), "{failing}");
    }
}

#[test]
fn errors_are_where_redis_says() {
    for (expression, near) in [
        ("", ""),
        ("1 foo", "1 foo"),
        ("1 AND 2", " 2"),
        ("1 =! 2", " 2"),
        ("1 === 2", " 2"),
        ("1 ^ 2", "^ 2"),
        ("1 +@ 2", "@ 2"),
        ("1 andy 2", " 2"),
        ("!!1", "!!1"),
        ("not not 1", "not not 1"),
        ("- 1", "- 1"),
        ("1e", "1e"),
        ("0x10 == 16", "10 == 16"),
        ("'a", "'a"),
        ("[1 2]", "2]"),
        ("[,1]", ",1]"),
        ("[null]", "null]"),
        ("[1,2", "[1,2"),
        ("]", "]"),
        ("(", "("),
        ("(1))", "(1))"),
        ("1 1.2.3 5", " 5"),
        ("1 nulll 5", " 5"),
        ("1e+2 == 100", "+2 == 100"),
        ("2***3", "2***3"),
        ("1,2", ",2"),
        (".year.x", ".year.x"),
        ("12 and (3 ]", "]"),
        ("1 <> 2", "1 <> 2"),
        ("(1 +) 2", "(1 +) 2"),
        ("1 not 2", "1 not 2"),
        ("  1 2", "  1 2"),
        (".a$ == 1", "$ == 1"),
    ] {
        let error = Filter::compile(expression.as_bytes()).unwrap_err();
        assert_eq!(String::from_utf8(error.near).unwrap(), near, "{expression}");
    }
}

#[test]
fn attributes_are_read_as_far_as_they_are_needed() {
    for (json, passes) in [
        (r#"{"a":1"#, true),
        (r#"{"a":1}x"#, true),
        (r#"  {"a":1}"#, true),
        ("[1]", false),
        (r#"{"a":01}"#, true),
        (r"{a:1}", false),
        (r#"{"a":1,"a":0}"#, true),
        (r#"{"b":{bad},"a":1}"#, true),
        (r#"{"b":[1,2,"]"],"a":1}"#, true),
        (r#"{"b":"\"","a":1}"#, true),
        (r#"{"b":tru,"a":1}"#, false),
        (r#"{"b":1 "a":2}"#, false),
        (r#"{"b":{"a":5}}"#, false),
        (r#"{"\u0061":1}"#, false),
        (r#"{"a":+1}"#, true),
        (r#"{"a":.5}"#, false),
        (r#"{"a":nan}"#, false),
        (r#"{"a":[1,2}"#, false),
        (r#"{"a":1.5.2}"#, false),
        (r#"{"a":truex}"#, false),
        (r#"{"a":[1,{"b":2}]}"#, false),
        (r#"{"b":{[}],"a":2}"#, false),
        (r#"{"a":"x"#, false),
        (r#"{"b":1e,"a":1}"#, true),
        ("", false),
        (r#"{"a""#, false),
        (r#"{"a":"#, false),
    ] {
        assert_eq!(Filter::compile(b".a").unwrap().passes(json.as_bytes()), passes, "{json}");
    }
    let deep = format!("{{\"b\":{},\"a\":1}}", "[".repeat(100_000));
    assert!(!Filter::compile(b".a").unwrap().passes(deep.as_bytes()));
    assert!(!Filter::compile(b".b").unwrap().passes(deep.as_bytes()));
}

proptest! {
    #[test]
    fn nothing_panics(expression in any::<Vec<u8>>(), json in any::<Vec<u8>>()) {
        if let Ok(filter) = Filter::compile(&expression) {
            filter.passes(&json);
        }
    }

    #[test]
    fn no_expression_of_words_panics(
        words in prop::collection::vec(
            prop::sample::select(&["1", "'a'", ".a", "(", ")", "not", "and", "or", "in", "+", "-",
                "**", "==", "[1,'b']", "null", "!", "<"][..]),
            0..12,
        ),
    ) {
        let expression = words.join(" ");
        if let Ok(filter) = Filter::compile(expression.as_bytes()) {
            filter.passes(br#"{"a":[1,"x"]}"#);
        }
    }
}

/// Each attribute is read once for an element, however often it is named; products of operators and
/// long values are bounded.
#[test]
fn a_long_filter_over_long_attributes_ends() {
    let long = "x".repeat(200_000);
    let many = vec!["1"; 200_000].join(",");
    let attributes = format!(r#"{{"other":"{long}","many":[{many}],"long":"{long}","a":2}}"#);
    let passes = |term: &str, terms: usize| {
        let expression = vec![term; terms].join(" and ");
        Filter::compile(expression.as_bytes()).unwrap().passes(attributes.as_bytes())
    };
    for (term, terms) in
        [(".a == 2", 5000), (".long", 5000), ("'x' in .long", 50), ("1 in .many", 50)]
    {
        assert!(passes(term, terms), "{term}");
    }
    for term in [".long in .many", ".long == .other", "1 in .many", ".long + 1 == 1"] {
        assert!(!passes(term, 3000), "{term}");
    }
}
