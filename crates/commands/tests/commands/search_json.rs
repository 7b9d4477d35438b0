//! Indexes of JSON documents: values by path, replies in every dialect, changes of every kind.

use crate::client::{Client, show};
use crate::search::{field_of, settle};
use petrel_resp::Value;

fn shop(client: &mut Client) {
    client.follow(
        r#"
        FT.CREATE shop ON JSON PREFIX 1 p: SCHEMA $.name AS name TEXT $.tags[*] AS tags TAG $.price AS price NUMERIC SORTABLE $.sizes AS sizes NUMERIC $.brand AS brand TAG SORTABLE $.new AS new TAG $.made.in AS land TAG => OK
        JSON.SET p:1 $ "{\"name\":\"Blue shoes\",\"tags\":[\"Run\",\"a b\"],\"price\":10.5,\"sizes\":[40,42],\"brand\":\"Acme\",\"new\":true,\"made\":{\"in\":\"it\"}}" => OK
        JSON.SET p:2 $ "{\"name\":\"Red shoes\",\"tags\":[\"walk\"],\"price\":20,\"sizes\":41,\"brand\":\"zeta\",\"new\":false}" => OK
        JSON.SET p:3 $ "{\"name\":null,\"tags\":[],\"price\":30,\"brand\":\"Beta\"}" => OK
        JSON.SET q:1 $ "{\"name\":\"shoes\"}" => OK
        HSET p:4 name shoes => 1
        "#,
    );
    settle(client, "shop");
}

#[test]
fn documents_are_found_by_the_values_of_their_paths() {
    let mut client = Client::new();
    shop(&mut client);
    client.follow(
        r##"
        FT.SEARCH shop * NOCONTENT SORTBY price => [3 "p:1" "p:2" "p:3"]
        FT.SEARCH shop shoe NOCONTENT SORTBY price => [2 "p:1" "p:2"]
        FT.SEARCH shop "@tags:{run}" NOCONTENT => [1 "p:1"]
        FT.SEARCH shop "@tags:{a b}" NOCONTENT DIALECT 2 => [1 "p:1"]
        FT.SEARCH shop "@tags:{a}" NOCONTENT => [0]
        FT.SEARCH shop "@price:[15 +inf]" NOCONTENT SORTBY price DESC => [2 "p:3" "p:2"]
        FT.SEARCH shop "@sizes:[42 42]" NOCONTENT => [1 "p:1"]
        FT.SEARCH shop "@sizes:[41 42]" NOCONTENT SORTBY price => [2 "p:1" "p:2"]
        FT.SEARCH shop "@sizes:[43 44]" NOCONTENT => [0]
        FT.SEARCH shop "@new:{true}" NOCONTENT => [1 "p:1"]
        FT.SEARCH shop "@land:{it}" NOCONTENT => [1 "p:1"]
        FT.SEARCH shop * FILTER sizes 40 40 NOCONTENT => [1 "p:1"]
        FT.SEARCH shop * SORTBY brand NOCONTENT WITHSORTKEYS => [3 "p:1" "$Acme" "p:3" "$Beta" "p:2" "$zeta"]
        FT.SEARCH shop * SORTBY sizes NOCONTENT WITHSORTKEYS => [3 "p:1" "#40" "p:2" "#41" "p:3" nil]
        FT.SEARCH shop * INKEYS 2 p:3 p:4 NOCONTENT => [1 "p:3"]
        FT.TAGVALS shop tags => ["a b" "run" "walk"]
        "##,
    );
    assert_eq!(field_of(&mut client, "shop", "num_docs"), "3");
    assert_eq!(field_of(&mut client, "shop", "hash_indexing_failures"), "0");
}

#[test]
fn replies_show_documents_and_values() {
    let mut client = Client::new();
    shop(&mut client);
    client.follow(
        r#"
        FT.SEARCH shop "@price:[30 30]" => [1 "p:3" ["$" "{\"name\":null,\"tags\":[],\"price\":30,\"brand\":\"Beta\"}"]]
        FT.SEARCH shop "@price:[30 30]" SORTBY brand => [1 "p:3" ["brand" "Beta" "$" "{\"name\":null,\"tags\":[],\"price\":30,\"brand\":\"Beta\"}"]]
        FT.SEARCH shop "@price:[10 11]" RETURN 9 name tags $.tags $.sizes AS s new price $.made => [1 "p:1" ["name" "Blue shoes" "tags" "Run" "$.tags" "[\"Run\",\"a b\"]" "s" "[40,42]" "new" "1" "price" "10.5" "$.made" "{\"in\":\"it\"}"]]
        FT.SEARCH shop "@price:[10 11]" RETURN 5 name tags sizes new price DIALECT 3 => [1 "p:1" ["name" "[\"Blue shoes\"]" "tags" "[\"Run\",\"a b\"]" "sizes" "[[40,42]]" "new" "[true]" "price" "10.5"]]
        FT.SEARCH shop "@price:[30 30]" RETURN 4 name $.none other .price => [1 "p:3" ["name" nil]]
        FT.SEARCH shop "@price:[30 30]" RETURN 1 name DIALECT 3 => [1 "p:3" ["name" "[null]"]]
        FT.SEARCH shop "@price:[30 30]" RETURN 1 $ DIALECT 4 => [1 "p:3" ["$" "[{\"name\":null,\"tags\":[],\"price\":30,\"brand\":\"Beta\"}]"]]
        FT.SEARCH shop "@price:[30 30]" RETURN 1 __key => [1 "p:3" ["__key" "p:3"]]
        FT.SEARCH shop * FORMAT EXPAND DIALECT 3 => EXPAND format is only supported with RESP3
        FT.AGGREGATE shop "@price:[0 15]" LOAD 4 @name @tags $.sizes @new => [1 ["name" "Blue shoes" "tags" "Run" "$.sizes" "[40,42]" "new" "1"]]
        FT.AGGREGATE shop "@price:[0 15]" LOAD 3 @tags $.sizes @price DIALECT 3 => [1 ["tags" "[\"Run\",\"a b\"]" "$.sizes" "[[40,42]]" "price" "10.5"]]
        FT.AGGREGATE shop "@price:[30 30]" LOAD * => [1 ["$" "{\"name\":null,\"tags\":[],\"price\":30,\"brand\":\"Beta\"}"]]
        FT.AGGREGATE shop "@price:[0 15]" LOAD 1 @tags APPLY upper(@tags) AS t APPLY "@price * 2" AS p DIALECT 3 => [1 ["tags" "[\"Run\",\"a b\"]" "t" "RUN" "price" "10.5" "p" "21"]]
        FT.AGGREGATE shop "@price:[0 25]" GROUPBY 1 @tags REDUCE SUM 1 @price AS s SORTBY 2 @s DESC => [2 ["tags" "walk" "s" "20"] ["tags" "Run" "s" "10.5"]]
        FT.AGGREGATE shop "@price:[0 15]" GROUPBY 1 @tags DIALECT 3 => [1 ["tags" "[\"Run\",\"a b\"]"]]
        FT.AGGREGATE shop "@price:[0 25]" LOAD 3 $.brand AS b FILTER "@b == 'zeta'" => [2 ["b" "zeta"]]
        "#,
    );
    let mut resp3 = client.another().resp3();
    let shown = |client: &mut Client, line: &str| client.run(line);
    let reply = shown(
        &mut resp3,
        "FT.SEARCH shop \"@price:[0 15]\" RETURN 4 tags price new $.made FORMAT EXPAND DIALECT 3",
    );
    let fields = "extra_attributes: {\"tags\": [\"Run\" \"a b\"] \"price\": Double(10.5) \"new\": [1] \
                  \"$.made\": [{\"in\": \"it\"}]}";
    assert!(reply.contains("format: EXPAND"), "{reply}");
    let plain = |text: &str| text.replace([',', '"', ':'], "");
    assert!(plain(&reply).contains(&plain(fields)), "{reply}");
    let refused = [
        ("FT.SEARCH shop * FORMAT EXPAND DIALECT 2", "EXPAND format requires dialect 3 or greater"),
        ("FT.SEARCH shop * FORMAT OTHER", "FORMAT OTHER is not supported"),
    ];
    for (line, error) in refused {
        assert!(shown(&mut resp3, line).contains(error), "{line}");
    }
}

#[test]
fn values_that_do_not_fit_hide_their_document() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i ON JSON SCHEMA $.t AS t TEXT $.g AS g TAG $.n AS n NUMERIC $.s[*] AS s NUMERIC SORTABLE => OK
        "#,
    );
    settle(&mut client, "i");
    client.follow(
        r#"
        JSON.SET d $ "{\"t\":\"a\",\"g\":\"b\",\"n\":1,\"s\":[2]}" => OK
        FT.SEARCH i * NOCONTENT => [1 "d"]
        JSON.SET d $.n "\"1\"" => OK
        FT.SEARCH i * NOCONTENT => [0]
        FT.SEARCH i @t:a NOCONTENT => [0]
        JSON.SET d $.n "[1,null,2]" => OK
        FT.SEARCH i "@n:[2 2] @t:a" NOCONTENT => [1 "d"]
        JSON.SET d $.t "[\"x\",[\"y\"]]" => OK
        FT.SEARCH i * NOCONTENT => [0]
        JSON.SET d $.g "{}" => OK
        JSON.SET d $.t "[\"x y\",\"z\"]" => OK
        FT.SEARCH i * NOCONTENT => [0]
        JSON.DEL d $.g => 1
        FT.SEARCH i "@t:(x z)" NOCONTENT => [1 "d"]
        JSON.SET d $.s "[[]]" => OK
        FT.SEARCH i * NOCONTENT => [0]
        JSON.SET d $.s "[]" => OK
        FT.SEARCH i "@n:[2 2]" NOCONTENT => [1 "d"]
        "#,
    );
    assert_eq!(field_of(&mut client, "i", "hash_indexing_failures"), "4");
    let info = show(&client.call(&[b"FT.INFO", b"i"]));
    let text = "Invalid JSON type: Object type can represent only GEOMETRY fields";
    assert!(!info.contains(text), "the last error is another one: {info}");
}

#[test]
fn definitions_are_checked_and_shown() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i ON JSON SCHEMA a AS b TEXT => Invalid JSONPath 'a' in attribute 'b' in index 'i'
        FT.CREATE i ON JSON SCHEMA $.a[ AS b TEXT => Invalid JSONPath '$.a[' in attribute 'b' in index 'i'
        FT.CREATE i ON JSON SCHEMA $.a TAG $.a NUMERIC => Duplicate field in schema - $.a
        FT.CREATE i ON XML SCHEMA $.a TAG => Invalid rule type: XML
        FT.CREATE i ON JSON PREFIX 1 k: LANGUAGE_FIELD $.l SCORE_FIELD $.s SCHEMA $.a AS a TAG SORTABLE $.b AS b TAG SEPARATOR ; $.c[*] AS c TEXT $.d AS d TEXT => OK
        JSON.SET k:1 $ "{\"a\":\" A,b \",\"b\":\"x; y;;\",\"c\":[\"eins zwei\",\"drei\"],\"d\":[\"one two\",\"three\"],\"s\":0.5}" => OK
        JSON.SET k:2 $ "{\"c\":[\"laufen\"],\"l\":\"german\",\"s\":2}" => OK
        FT.TAGVALS i a => [" a,b "]
        FT.TAGVALS i b => ["x" "y"]
        FT.SEARCH i * SCORER DOCSCORE WITHSCORES NOCONTENT => [2 "k:2" "2" "k:1" "0.5"]
        FT.SEARCH i @c:lauf LANGUAGE german NOCONTENT => [1 "k:2"]
        FT.SEARCH i "@c:(eins drei)" INORDER NOCONTENT => slop/inorder are not supported for field `c` since it has undefined ordering
        FT.SEARCH i "@c:(eins drei)=>{$slop:5}" NOCONTENT DIALECT 2 => slop/inorder are not supported for field `c` since it has undefined ordering
        FT.SEARCH i "@d:(two three)" SLOP 98 NOCONTENT => [0]
        FT.SEARCH i "@d:(two three)" SLOP 99 NOCONTENT => [1 "k:1"]
        FT.SEARCH i "@d:\"two three\"" NOCONTENT => [0]
        FT.SEARCH i "@d:\"one two\"" NOCONTENT => [1 "k:1"]
        FT.ALTER i SCHEMA ADD $.e AS e NUMERIC => OK
        JSON.SET k:1 $.e 5 => OK
        FT.SEARCH i "@e:[5 5]" NOCONTENT => [1 "k:1"]
        "#,
    );
    let info = show(&client.call(&[b"FT.INFO", b"i"]));
    for part in ["JSON", "language_field", "$.c[*]"] {
        assert!(info.contains(part), "{part} in {info}");
    }
}

#[test]
fn every_change_of_a_document_is_found() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i ON JSON PREFIX 1 k: SCHEMA $.n AS n NUMERIC $.a[*] AS a NUMERIC $.t AS t TAG $.o.w AS w TEXT $.b AS b TAG => OK
        JSON.SET k:1 $ "{\"n\":1,\"a\":[1,2,3],\"t\":\"x\",\"o\":{\"w\":\"one\"},\"b\":true,\"other\":{\"y\":[1]}}" => OK
        JSON.NUMINCRBY k:1 $.n 4 => "[5]"
        FT.SEARCH i "@n:[5 5]" NOCONTENT => [1 "k:1"]
        FT.SEARCH i "@n:[1 1]" NOCONTENT => [0]
        JSON.NUMMULTBY k:1 $.n 2 => "[10]"
        FT.SEARCH i "@n:[10 10]" NOCONTENT => [1 "k:1"]
        JSON.ARRAPPEND k:1 $.a 7 => [4]
        FT.SEARCH i "@a:[7 7]" NOCONTENT => [1 "k:1"]
        JSON.ARRINSERT k:1 $.a 0 8 => [5]
        FT.SEARCH i "@a:[8 8] @a:[3 3]" NOCONTENT => [1 "k:1"]
        JSON.ARRPOP k:1 $.a 0 => ["8"]
        FT.SEARCH i "@a:[8 8]" NOCONTENT => [0]
        JSON.ARRTRIM k:1 $.a 1 2 => [2]
        FT.SEARCH i "@a:[1 1] | @a:[7 7]" NOCONTENT => [0]
        FT.SEARCH i "@a:[2 2] @a:[3 3]" NOCONTENT => [1 "k:1"]
        JSON.STRAPPEND k:1 $.t "\"y\"" => [2]
        FT.SEARCH i "@t:{xy}" NOCONTENT => [1 "k:1"]
        JSON.TOGGLE k:1 $.b => [0]
        FT.SEARCH i "@b:{false}" NOCONTENT => [1 "k:1"]
        JSON.MERGE k:1 $ "{\"o\":{\"w\":\"two\"},\"t\":null}" => OK
        FT.SEARCH i "two" NOCONTENT => [1 "k:1"]
        FT.SEARCH i "one | @t:{xy}" NOCONTENT => [0]
        JSON.CLEAR k:1 $.a => 1
        FT.SEARCH i "@a:[-inf +inf]" NOCONTENT => [0]
        JSON.SET k:1 $.o "{\"w\":\"three\"}" => OK
        FT.SEARCH i "three" NOCONTENT => [1 "k:1"]
        JSON.DEL k:1 $.o => 1
        FT.SEARCH i "three" NOCONTENT => [0]
        JSON.MSET k:1 $.n 3 k:2 $ "{\"n\":3}" => OK
        FT.SEARCH i "@n:[3 3]" NOCONTENT LIMIT 0 0 => [2]
        RENAME k:2 k:3 => OK
        COPY k:3 k:4 => 1
        RENAME k:1 other => OK
        FT.SEARCH i "@n:[3 3]" NOCONTENT LIMIT 0 0 => [2]
        FT.SEARCH i * INKEYS 3 k:3 k:4 k:1 NOCONTENT LIMIT 0 0 => [2]
        JSON.DEL k:4 => 1
        FT.SEARCH i * NOCONTENT => [1 "k:3"]
        PEXPIREAT k:3 1 => 1
        FT.SEARCH i * NOCONTENT => [0]
        JSON.SET k:5 $ "{\"n\":9}" => OK
        DEL k:5 => 1
        HSET k:5 n 9 => 1
        FT.SEARCH i * NOCONTENT => [0]
        JSON.SET k:6 $ "{\"n\":9}" => OK
        FLUSHALL => OK
        FT._LIST => []
        "#,
    );
}

#[test]
fn changes_of_other_paths_leave_the_index_alone() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i ON JSON SCHEMA $.a.t AS t TEXT $.n AS n NUMERIC => OK
        "#,
    );
    settle(&mut client, "i");
    client.follow(
        r#"
        JSON.SET d $ "{\"a\":{\"t\":\"one two\"},\"n\":1,\"x\":{\"y\":1}}" => OK
        JSON.SET d $.x.y 2 => OK
        JSON.SET d $.n 2 => OK
        JSON.SET d $.a.u "\"three\"" => OK
        "#,
    );
    // A changed text moves its document to a new row.
    assert_eq!(field_of(&mut client, "i", "max_doc_id"), "1");
    client.follow(r#"JSON.SET d $.a.t "\"four\"" => OK"#);
    assert_eq!(field_of(&mut client, "i", "max_doc_id"), "2");
}

#[test]
fn transactions_and_scripts_see_their_documents() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i ON JSON SCHEMA $.n AS n NUMERIC => OK
        MULTI => OK
        JSON.SET a $ "{\"n\":1}" => QUEUED
        FT.SEARCH i "@n:[1 1]" NOCONTENT => QUEUED
        JSON.NUMINCRBY a $.n 1 => QUEUED
        FT.SEARCH i "@n:[2 2]" RETURN 1 n => QUEUED
        EXEC => [OK [1 "a"] "[2]" [1 "a" ["n" "2"]]]
        EVAL "redis.call('JSON.SET', KEYS[1], '$', '{\"n\":7}') return redis.call('FT.SEARCH', 'i', '@n:[7 7]', 'NOCONTENT')" 1 b => [1 "b"]
        "#,
    );
}

#[test]
fn present_documents_are_read() {
    let mut client = Client::new();
    for n in 0..300 {
        let document = format!("{{\"n\":{n},\"g\":[\"{}\",\"x\"]}}", n % 3);
        client.call(&[b"JSON.SET", format!("k:{n}").as_bytes(), b"$", document.as_bytes()]);
        client.call(&[b"HSET", format!("h:{n}").as_bytes(), b"n", b"1"]);
    }
    client.follow("FT.CREATE i ON JSON SCHEMA $.n AS n NUMERIC $.g[*] AS g TAG => OK");
    settle(&mut client, "i");
    client.follow(
        r#"
        FT.SEARCH i * LIMIT 0 0 => [300]
        FT.SEARCH i "@g:{1}" LIMIT 0 0 => [100]
        FT.SEARCH i "@n:[10 19] @g:{x}" LIMIT 0 0 => [10]
        "#,
    );
    let Value::Array(page) = client.call(&[b"FT.SEARCH", b"i", b"*", b"LIMIT", b"0", b"300"])
    else {
        panic!("no page")
    };
    assert_eq!(page.len(), 601);
}
