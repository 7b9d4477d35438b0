//! Trees and errors of queries, as `FT.EXPLAIN` prints them.

use petrel_search::query::{DEPTH_MAX, Dialect, Fields, Parameters, Settings, explain, parse};

struct Names;

impl Fields for Names {
    fn text_field(&self, name: &[u8]) -> Option<usize> {
        [&b"t"[..], b"u"].iter().position(|field| *field == name)
    }

    fn text_name(&self, number: usize) -> Option<&[u8]> {
        [&b"t"[..], b"u"].get(number).copied()
    }
}

/// The tree with one blank between words, or the error.
fn tree(dialect: u32, query: &[u8]) -> String {
    let mut parameters = Parameters::default();
    for (name, value) in [("p", "Foo"), ("one", "1"), ("vec", "abcd"), ("poly", "POINT(0 0)")] {
        parameters.add(name.as_bytes(), value.as_bytes()).unwrap();
    }
    let settings = Settings {
        dialect: Dialect::of(dialect).unwrap(),
        fields: &Names,
        parameters: &parameters,
        is_stop_word: &|word| word == b"the",
    };
    match parse(query, &settings) {
        Ok(tree) => {
            let text = String::from_utf8_lossy(&explain(&tree, &Names)).into_owned();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        }
        Err(error) => format!("ERR {error}"),
    }
}

fn check(dialects: &[u32], cases: &[(&str, &str)]) {
    for &(query, expected) in cases {
        for &dialect in dialects {
            assert_eq!(tree(dialect, query.as_bytes()), expected, "dialect {dialect}: {query}");
        }
    }
}

const ALL: &[u32] = &[1, 2, 3, 4];
const LATER: &[u32] = &[2, 3, 4];

#[test]
fn words_and_operators() {
    check(
        ALL,
        &[
            ("", "<empty>"),
            ("the", "<empty>"),
            ("Hello", "hello"),
            ("hello the world", "INTERSECT { hello world }"),
            ("a.b-c", "INTERSECT { a b NOT{ c } }"),
            ("a\\-b", "a-b"),
            ("a|b|c", "UNION { a b c }"),
            ("a b|c d", "UNION { INTERSECT { a b } INTERSECT { c d } }"),
            ("(a b) (c d)", "INTERSECT { a b INTERSECT { c d } }"),
            ("a -b", "INTERSECT { a NOT{ b } }"),
            ("-~a", "NOT{ OPTIONAL{ a } }"),
            ("@t:a @u:b", "INTERSECT { @t:a @u:b }"),
            ("@u|t:a", "@t|u:a"),
            ("@x:a", "@NULL:a"),
            ("*", "<WILDCARD>"),
            ("_ \x01 a", "a"),
            ("a\0b", "a"),
        ],
    );
}

#[test]
fn dialect_1_takes_everything_up_to_the_next_operator() {
    check(
        &[1],
        &[
            ("-a b", "NOT{ INTERSECT { a b } }"),
            ("@t:a b", "@t:INTERSECT { @t:a @t:b }"),
            ("@t:a|b", "@t:UNION { @t:a @t:b }"),
            ("x* a|b y*", "INTERSECT { PREFIX{x*} UNION { a b } PREFIX{y*} }"),
            ("x* a b", "INTERSECT { PREFIX{x*} INTERSECT { a b } }"),
            ("\"a b\" c", "INTERSECT { EXACT { a b } c }"),
            ("\"a\"", "a"),
            ("@n:[1 2]", "NUMERIC {1.000000 <= @n <= 2.000000}"),
            ("@n:[((1 -(2]", "NUMERIC {1.000000 < @n < -2.000000}"),
            ("@g:{a b|c*", "TAG:@g { INTERSECT { a b } PREFIX{c*} }"),
            ("w'a?b'", "INTERSECT { w a b }"),
            ("$p", "ERR Syntax error at offset 0 near p"),
            ("*=>[KNN 3 @v $vec]", "ERR Syntax error at offset 1 near >["),
            ("\"a the\"", "ERR Syntax error at offset 3 near the"),
        ],
    );
}

#[test]
fn later_dialects_bind_operators_to_one_item() {
    check(
        LATER,
        &[
            ("-a b", "INTERSECT { NOT{ a } b }"),
            ("@t:a b", "INTERSECT { @t:a b }"),
            ("@t:a|b", "UNION { @t:a b }"),
            ("@t:(a b*)", "@t:INTERSECT { @t:a @t:PREFIX{b*} }"),
            ("x* y* z*", "INTERSECT { PREFIX{x*} INTERSECT { PREFIX{y*} PREFIX{z*} } }"),
            ("-a 7", "NOT{ INTERSECT { a 7 } }"),
            ("\"A the b\" c", "INTERSECT { EXACT { a the b } c }"),
            ("((*))", "<WILDCARD>"),
            ("ismissing(@t)", "ISMISSING{t}"),
            ("w'A?\\'*'", "WILDCARD{A?'*}"),
            ("\"\"", "\"\""),
        ],
    );
}

#[test]
fn parameters_take_the_place_of_values() {
    check(
        LATER,
        &[
            ("$p x", "INTERSECT { foo x }"),
            ("$p* *$p %$p%", "INTERSECT { PREFIX{foo*} INTERSECT { SUFFIX{*foo} FUZZY{foo} } }"),
            ("@g:{$p|$p*}", "TAG:@g { Foo PREFIX{Foo*} }"),
            ("@n:[-$one ($one]", "NUMERIC {-1.000000 <= @n < 1.000000}"),
            ("@n==$one", "NUMERIC {1.000000 <= @n <= 1.000000}"),
            ("@n:[$p 1]", "ERR Bad lower range: Foo"),
            ("@n>$p", "ERR Invalid numeric value (Foo) for parameter `p`"),
            ("$none", "ERR No such parameter `none`"),
            ("$none (", "ERR Syntax error at offset 6 near none"),
        ],
    );
}

#[test]
fn numbers_places_and_shapes() {
    check(
        LATER,
        &[
            ("@n:[5]", "NUMERIC {5.000000 <= @n <= 5.000000}"),
            ("@n!=5", "NOT{ NUMERIC {5.000000 <= @n <= 5.000000} }"),
            ("@n >= -1.5e1", "NUMERIC {-15.000000 <= @n <= inf}"),
            ("@sh:[within $poly]", "GEOSHAPE{2 POINT(0 0)}"),
            ("@sh:[near $poly]", "ERR Syntax error: Expecting a geoshape predicate at offset 10"),
        ],
    );
    check(
        ALL,
        &[
            ("@n:[(1 +inf]", "NUMERIC {1.000000 < @n <= inf}"),
            ("@ge:[1 -2 3 KM]", "GEO ge:{1.000000,-2.000000 --> 3.000000 km}"),
            ("@ge:[1 2 3 x]", "ERR Invalid GeoFilter unit"),
            ("@ge:[1 91 3 m]", "ERR Invalid GeoFilter lat/lon"),
            ("@ge:[1 2 0 m]", "ERR Invalid GeoFilter radius"),
        ],
    );
}

#[test]
fn vectors() {
    let nearest = "nearest vectors to `$vec` in vector index associated with field @v";
    let cases = [
        ("*=>[KNN 3 @v $vec]", format!("VECTOR {{K=3 {nearest}, yields distance as `__v_score`}}")),
        (
            "(@t:a)=>[KNN $one @v $vec EF_RUNTIME 7 AS d]",
            format!(
                "VECTOR {{ @t:a }} => {{K=1 {nearest}, EF_RUNTIME = 7, yields distance as `d`}}"
            ),
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(tree(2, query.as_bytes()), expected);
    }
    check(
        LATER,
        &[
            ("a b=>[KNN 3 @v $vec]", "ERR Syntax error at offset 5 near >["),
            (
                "*=>[NEAR 3 @v $vec]",
                "ERR Syntax error: Expecting Vector Similarity command at offset 4 near NEAR",
            ),
            (
                "@v:[vector_range 0.5 $vec]=>{$yield_distance_as: d}",
                "VECTOR {Vectors that are within 0.5 distance radius from `$vec` in vector index \
             associated with field @v, yields distance as `d`}",
            ),
        ],
    );
}

#[test]
fn attributes() {
    check(
        ALL,
        &[
            ("a=>{$weight: 2.50;}", "a => {$weight: 2.5;}"),
            ("(a b)=>{$slop: 1}", "INTERSECT { a b } => { $slop: 1; $inorder: false; }"),
            ("(a b)=>{$inorder: TRUE}", "INTERSECT { a b } => { $inorder: true; }"),
            ("a=>{$color: red}", "ERR Invalid attribute color"),
            ("a=>{$weight: -1}", "ERR Invalid value (-1) for `weight`"),
            ("a=>{$weight 1}", "ERR Syntax error at offset 12 near 1"),
        ],
    );
}

#[test]
fn errors_name_the_token_that_cannot_follow() {
    check(
        ALL,
        &[
            ("a)", "ERR Syntax error at offset 1 near a"),
            ("(a", "ERR Syntax error at offset 1 near a"),
            ("a||b", "ERR Syntax error at offset 2 near a"),
            ("a:b", "ERR Syntax error at offset 1 near a"),
            ("@t", "ERR Syntax error at offset 0 near t"),
            ("()", "ERR Syntax error at offset 1 near "),
            ("a *", "ERR Syntax error at offset 2 near a"),
            ("%a", "ERR Syntax error at offset 1 near a"),
            ("@g:{a|}", "ERR Syntax error at offset 6 near a"),
            ("@n:[1 2 3]", "ERR Syntax error at offset 9 near 3"),
        ],
    );
}

#[test]
fn depth_is_limited() {
    let too_deep = "ERR Parser stack overflow. Try moving nested parentheses more to the left";
    for nested in ["(", "-", "~", "@t:(", "(-"] {
        for dialect in [1, 2] {
            let query = nested.repeat(10_000) + "a";
            let text = tree(dialect, query.as_bytes());
            assert!(text == too_deep || text.starts_with("ERR Syntax error"), "{nested}: {text}");
        }
    }
    let fits = format!("{}a{}", "(".repeat(DEPTH_MAX), ")".repeat(DEPTH_MAX));
    assert_eq!(tree(2, fits.as_bytes()), "a");
}

#[test]
fn long_queries_take_linear_time() {
    let long = 20_000;
    for part in ["a ", "a|", "x* ", "7 ", "\"a b\" ", "-a ", "@t:a ", "@n:[1 2] ", "\" ", "' "] {
        for dialect in [1, 2] {
            let query = part.repeat(long) + "a";
            let text = tree(dialect, query.as_bytes());
            assert!(!text.starts_with("ERR Parser"), "{part}: {}", &text[..80.min(text.len())]);
        }
    }
    let tags = format!("@g:{{{}a}}", "a|".repeat(long));
    assert!(tree(2, tags.as_bytes()).starts_with("TAG:@g { a a"));
}
