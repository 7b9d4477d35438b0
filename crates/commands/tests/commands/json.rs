//! JSON documents: replies like RedisJSON's, effects that reproduce the document elsewhere, and
//! hostile input.

use crate::allocations::peak_of;
use crate::client::{Client, show, show_args};
use crate::follower::{Follower, execute};
use crate::random::{Random, duration};
use petrel_keyspace::Policy;
use petrel_keyspace::event::class;
use petrel_resp::Value;
use std::time::Instant;

#[test]
fn documents_are_set_and_read() {
    Client::new().follow(
        r#"
        JSON.SET d $.a 1 => ERR new objects must be created at the root
        JSON.SET d $ {"a":2} XX => nil
        JSON.SET d $ {"a":2} NX => OK
        JSON.SET d $ {"a":3} NX => nil
        JSON.SET d $.a 3 => OK
        JSON.GET d $ => "[{\"a\":3}]"
        JSON.GET d => "{\"a\":3}"
        JSON.SET d $.b 8 => OK
        JSON.SET d $.b 9 NX => nil
        JSON.SET d $.c 9 XX => nil
        JSON.SET d $.x.y 2 => nil
        JSON.SET d $..x 2 => Err wrong static path
        JSON.SET d $.l [1,2] => OK
        JSON.SET d $.l[5] 2 => ERR array index out of range
        JSON.SET d $.l[-1] 7 => OK
        JSON.GET d .l .b => "{\".l\":[1,7],\".b\":8}"
        JSON.GET d .l $.b => "{\".l\":[[1,7]],\"$.b\":[8]}"
        JSON.GET d $.nope => "[]"
        JSON.GET d .nope => ERR Path does not exist
        JSON.GET d nope.x => ERR Path does not exist
        JSON.GET none $ => nil
        JSON.GET d INDENT - NEWLINE + SPACE _ $.l => "[+-[+--1,+--7+-]+]"
        JSON.GET d INDENT => ERR wrong number of arguments for 'json.get' command
        JSON.GET d $.[ => Error occurred at position ...
        JSON.SET d $ nulx => expected ident at line 1 column 4
        JSON.SET d $ 1 FPHA => ERR wrong number of arguments for 'json.set' command
        JSON.SET d $ 1 FPHA FP8 => ERR invalid FPHA type
        JSON.SET d $ 1 NX XX => ERR syntax error
        JSON.SET f $ [[1,2,4e3],[1,2],[0.1]] FPHA FP16 => OK
        JSON.GET f => "[[1.0,2.0,4000.0],[1.0,2.0],[0.1]]"
        JSON.SET f $ [[],[1,null],{"a":2}] FPHA FP16 => OK
        JSON.GET f => "[[],[1,null],{\"a\":2}]"
        JSON.SET f $ [1e5] FPHA FP16 => value out of range for F16 at line 1 column 5
        JSON.MGET d none f $.b => ["[8]" nil "[]"]
        JSON.MGET d none f .b => ["8" nil nil]
        SET s x => OK
        JSON.MGET s d .b => [nil "8"]
        JSON.GET s => Existing key has wrong Redis type
        JSON.SET s $ 1 => Existing key has wrong Redis type
        GET d => WRONGTYPE Operation against a key holding the wrong kind of value
        TYPE d => ReJSON-RL
        OBJECT ENCODING d => "raw"
        JSON.TYPE d => "object"
        JSON.TYPE d $.* => ["integer" "integer" "array"]
        JSON.TYPE d .nope => nil
        JSON.TYPE none $ => nil
        PEXPIREAT d 4000000000000 => 1
        JSON.SET d $ {"a":1} => OK
        PEXPIRETIME d => 4000000000000
        JSON.DEBUG MEMORY d => 6
        JSON.DEBUG MEMORY d $.a => [1]
        JSON.DEBUG MEMORY d .b => ERR Path does not exist
        JSON.DEBUG MEMORY none $ => []
        JSON.DEBUG MEMORY => ERR wrong number of arguments for 'json.debug' command
        JSON.DEBUG NOPE => ERR unknown subcommand - try `JSON.DEBUG HELP`
        JSON.DEBUG HELP => ["MEMORY ...
        "#,
    );
}

#[test]
fn values_are_merged_removed_and_cleared() {
    Client::new().follow(
        r#"
        JSON.MERGE d $.a 1 => ERR new objects must be created at the root
        JSON.MERGE d $ {"a":{"b":1,"n":null}} => OK
        JSON.GET d => "{\"a\":{\"b\":1,\"n\":null}}"
        JSON.MERGE d $ {"a":{"n":null}} => OK
        JSON.MERGE d $ {"a":{"b":null,"c":[1,null]},"x":2} => OK
        JSON.GET d => "{\"a\":{\"c\":[1,null]},\"x\":2}"
        JSON.MERGE d $.a.new {"y":1,"z":1} => OK
        JSON.MERGE d $.a.new {"y":null} => OK
        JSON.MERGE d $.x.y 1 => nil
        JSON.MERGE d $.a {"c":null} => OK
        JSON.MERGE d $.a {"c":null} => OK
        JSON.GET d => "{\"a\":{\"new\":{\"z\":1}},\"x\":2}"
        JSON.MERGE d $ null => OK
        JSON.GET d => "null"
        JSON.MERGE d $ {"a":{"b":{"b":1}}} => OK
        JSON.MERGE d $..b {"f":3} => OK
        JSON.GET d => "{\"a\":{\"b\":{\"b\":{\"f\":3},\"f\":3}}}"
        JSON.SET d $ {"a":{"b":{"f":{"b":1}}}} => OK
        JSON.MERGE d $..b {"f":3} => OK
        JSON.GET d => "{\"a\":{\"b\":{\"f\":3}}}"
        JSON.MERGE d $ {"a":null} => OK
        JSON.GET d => "{}"
        JSON.SET d $ {"a":1,"b":{"a":2,"c":{"a":3}},"l":[0,1,2,3]} => OK
        JSON.DEL d $..a => 3
        JSON.DEL d $.l[0,2] => 2
        JSON.DEL d $.nope => 0
        JSON.FORGET d .l[-1] => 1
        JSON.GET d => "{\"b\":{\"c\":{}},\"l\":[1]}"
        JSON.DEL d $.* => 2
        EXISTS d => 0
        JSON.DEL d => 0
        JSON.SET d $ [1] => OK
        JSON.DEL d . => 1
        EXISTS d => 0
        JSON.SET d $ {"n":42,"s":"42","a":[{"n":44},"s",{},[1,[2]]],"f":1.5,"z":0} => OK
        JSON.CLEAR d $..n => 2
        JSON.CLEAR d $.* => 2
        JSON.GET d => "{\"n\":0,\"s\":\"42\",\"a\":[],\"f\":0,\"z\":0}"
        JSON.CLEAR d $.nope => 0
        JSON.CLEAR d => 1
        JSON.GET d => "{}"
        JSON.CLEAR none => ERR could not perform this operation on a key that doesn't exist
        JSON.CLEAR d $ $ => ERR wrong number of arguments for 'json.clear' command
        JSON.MSET a $ 1 b $.x 2 => ERR new objects must be created at the root
        EXISTS a b => 0
        JSON.MSET a $ {} b $ {} => OK
        JSON.MSET a $.x 1 b $.y.z 2 => OK
        JSON.MGET a b $ => ["[{\"x\":1}]" "[{}]"]
        JSON.MSET a $ 1 b $ => ERR wrong number of arguments for 'json.mset' command
        "#,
    );
}

#[test]
fn values_change_where_they_are() {
    Client::new().follow(
        r#"
        JSON.SET d $ {"a":"b","b":[{"a":2},{"a":5.0},{"a":"c"}],"t":true} => OK
        JSON.NUMINCRBY d $.a 2 => "[null]"
        JSON.NUMINCRBY d $..a 2 => "[null,4,7.0,null]"
        JSON.NUMINCRBY d .b[0].a 0.5 => "4.5"
        JSON.NUMMULTBY d $.b[*].a 2 => "[9.0,14.0,null]"
        JSON.NUMPOWBY d .b[0].a 2 => "81.0"
        JSON.NUMINCRBY d .a 2 => ERR Path does not exist or does not contains a number
        JSON.NUMINCRBY d .nope 2 => ERR Path does not exist or does not contains a number
        JSON.NUMINCRBY d $.nope 2 => "[]"
        JSON.NUMINCRBY none $ 2 => ERR could not perform this operation on a key that doesn't exist
        JSON.NUMINCRBY d $.b[0].a "\"x\"" => bad input number
        JSON.NUMINCRBY d $.b[0].a nope => ERR expected ident at line 1 column 2
        JSON.NUMINCRBY d $.b nope => "[null]"
        JSON.SET n $ 9223372036854775807 => OK
        JSON.NUMINCRBY n $ 1 => ERR numeric overflow
        JSON.SET n $ 1.7e308 => OK
        JSON.NUMMULTBY n $ 10 => ERR result is not a number
        JSON.GET n => "1.7e308"
        JSON.STRAPPEND d $..a "\"x\"" => [2 nil nil 2]
        JSON.STRAPPEND d .a "\"yz\"" => 4
        JSON.STRAPPEND d .t "\"yz\"" => ERR Path does not exist or not a string
        JSON.STRAPPEND d .a 1 => WRONGTYPE wrong type of path value - expected string
        JSON.STRLEN d $..a => [4 nil nil 2]
        JSON.STRLEN d .t => WRONGTYPE wrong type of path value - expected string
        JSON.STRLEN d .nope => ERR Path does not exist
        JSON.STRLEN none .a => nil
        JSON.STRLEN none $.a => ERR could not perform this operation on a key that doesn't exist
        JSON.TOGGLE d .t => "false"
        JSON.TOGGLE d $.t => [1]
        JSON.TOGGLE d $.a => [nil]
        JSON.TOGGLE d .a => ERR Path does not exist or not a bool
        JSON.OBJKEYS d => ["a" "b" "t"]
        JSON.OBJKEYS d $.b[*] => [["a"] ["a"] ["a"]]
        JSON.OBJKEYS d $.b => [nil]
        JSON.OBJKEYS d .b => ERR Path does not exist or not an object
        JSON.OBJKEYS d .nope => nil
        JSON.OBJLEN d => 3
        JSON.OBJLEN d .t => WRONGTYPE wrong type of path value - expected object
        JSON.OBJLEN none $ => ERR Path does not exist or not an object
        JSON.RESP d .b => [[ [{ "a" "81"] [{ "a" "14"] [{ "a" "cx"]]
        JSON.RESP d $.t => [true]
        JSON.RESP d .nope => ERR Path does not exist
        "#,
    );
}

#[test]
fn arrays_grow_and_shrink() {
    Client::new().follow(
        r#"
        JSON.SET d $ {"a":[1],"n":{"a":["x",null]},"m":{"a":3}} => OK
        JSON.ARRAPPEND d $..a 2 [3] => [3 4 nil]
        JSON.ARRAPPEND d ..a 5 => 5
        JSON.ARRAPPEND d .m.a 5 => ERR Path does not exist or not an array
        JSON.ARRAPPEND none $ 5 => ERR could not perform this operation on a key that doesn't exist
        JSON.ARRINSERT d $.a -1 7 8 => [6]
        JSON.ARRINSERT d $.a 7 8 => ERR index out of bounds
        JSON.ARRINSERT d $.a -7 8 => ERR index out of bounds
        JSON.ARRINSERT d $.a x 8 => Couldn't parse as integer
        JSON.GET d .a => "[1,2,[3],7,8,5]"
        JSON.ARRINDEX d $.a [3] => [2]
        JSON.ARRINDEX d $.a 7 1 3 => [-1]
        JSON.ARRINDEX d $.a 7 1 0 => [3]
        JSON.ARRINDEX d .a 1 -2 => -1
        JSON.ARRINDEX d .m.a 1 => WRONGTYPE wrong type of path value - expected array
        JSON.ARRINDEX d .nope 1 => ERR Path does not exist
        JSON.ARRINDEX none .nope 1 => ERR Path does not exist
        JSON.ARRLEN d $..a => [6 5 nil]
        JSON.ARRLEN d .m => ERR Path does not exist or not an array
        JSON.ARRLEN none => nil
        JSON.ARRPOP d $.a => ["5"]
        JSON.ARRPOP d .a 0 => "1"
        JSON.ARRPOP d .a -99 => "2"
        JSON.ARRPOP d $..a 99 => ["8" "5" nil]
        JSON.ARRPOP d .m => ERR Path does not exist or not an array
        JSON.GET d $..a => "[[[3],7],[\"x\",null,2,[3]],3]"
        JSON.ARRTRIM d $..a 1 -1 => [1 3 nil]
        JSON.ARRTRIM d .a 5 9 => 0
        JSON.ARRPOP d .a => nil
        JSON.ARRPOP d $.a => [nil]
        JSON.GET d => "{\"a\":[],\"n\":{\"a\":[null,2,[3]]},\"m\":{\"a\":3}}"
        JSON.SET r $ [[[1,2,3],[4,5,6]]] => OK
        JSON.ARRPOP r $..* -1 => ["[4,5,6]" "3" "6" nil nil nil nil nil nil]
        JSON.GET r => "[[[1,2]]]"
        JSON.SET r $ [1,2] => OK
        JSON.ARRTRIM r . 5 9 => 0
        JSON.GET r => "[]"
        JSON.ARRPOP r FORMAT $ => ERR wrong reply format
        JSON.ARRPOP r FORMAT STRINGS $ => ERR FORMAT argument is not supported on RESP2
        "#,
    );
}

#[test]
fn replies_of_resp3() {
    Client::new().resp3().follow(
        r#"
        JSON.SET d $ {"a":[1,1.5,"x",null,true,{"b":[2]}],"n":7} => OK
        JSON.TYPE d => ["object"]
        JSON.TYPE d $..n => [["integer"]]
        JSON.TYPE none $ => [nil]
        JSON.NUMINCRBY d $.n 1 => [8]
        JSON.NUMINCRBY d $.n 0.5 => [Double(8.5)]
        JSON.NUMINCRBY d .n 0.5 => [Double(9.0)]
        JSON.GET d $.a[1] => "[1.5]"
        JSON.GET d FORMAT EXPAND $.a => [[[1 Double(1.5) "x" nil Boolean(true) {"b": [2]}]]]
        JSON.GET d FORMAT EXPAND1 $.a[0] $.a[5] => [[1] ["{\"b\":[2]}"]]
        JSON.GET d FORMAT STRING $.a[0] => "[1]"
        JSON.GET d FORMAT NOPE $.a => ERR wrong reply format
        JSON.ARRPOP d FORMAT EXPAND $.a => [{"b": [2]}]
        JSON.ARRPOP d FORMAT STRINGS $.a => ["true"]
        JSON.ARRPOP d FORMAT EXPAND .a => Legacy paths are supported only with FORMAT STRINGS
        JSON.ARRPOP d FORMAT STRINGS .a => "null"
        JSON.TOGGLE d $.n => [nil]
        "#,
    );
}

/// Calls a command with a document at `d`.
fn call(client: &mut Client, args: &[&str]) -> String {
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    show(&client.call(&args))
}

#[test]
fn projections_are_read_by_commands_that_reply_with_values() {
    let mut client = Client::new();
    let text = r#"{"a":2,"b":4,"arr":[1,2,3],"o":{"x":1},"t":true,"s":"hi"}"#;
    call(&mut client, &["JSON.SET", "d", "$", text]);
    let several = r#""{\"$.a + 1\":[3],\"$.b\":[4],\"$.z.keys()\":[]}""#;
    let replies: [(&[&str], &str); 16] = [
        (&["JSON.GET", "d", "$.a + 1"], "\"[3]\""),
        (&["JSON.GET", "d", "a + 1"], "\"[3]\""),
        (&["JSON.GET", "d", "$.a / 0"], "\"[]\""),
        (&["JSON.GET", "d", "$.arr.append(9)"], "\"[1,2,3,9]\""),
        (&["JSON.GET", "d", "INDENT", "-", "NEWLINE", "+", "$.a + 1"], "\"[+-3+]\""),
        (&["JSON.GET", "d", "$.a + 1", "$.b", "$.z.keys()"], several),
        (&["JSON.GET", "d", "a + 1", "b"], r#""{\"a + 1\":[3],\"b\":[4]}""#),
        (&["JSON.GET", "none", "$.a + 1"], "nil"),
        (&["JSON.MGET", "d", "none", "$.a + 1"], "[\"[3]\" nil]"),
        (&["JSON.MGET", "d", "$.o~"], "[\"[\\\"x\\\"]\"]"),
        (&["JSON.RESP", "d", "$.a + 1"], "[3]"),
        (&["JSON.RESP", "d", "$.a / 0"], "[]"),
        (&["JSON.RESP", "d", "$.arr.min()"], "[\"1\"]"),
        (&["JSON.RESP", "d", "value($.arr)"], "[[[ 1 2 3]]"),
        (&["JSON.RESP", "d", "$.o~"], "[\"x\"]"),
        (&["JSON.RESP", "d", "a + 1"], "[3]"),
    ];
    for (args, expected) in replies {
        assert_eq!(call(&mut client, args), expected, "{args:?}");
    }
    let refused = "ERR the path computes values, which only JSON.GET, JSON.MGET and JSON.RESP can \
                   reply with";
    let others: [&[&str]; 21] = [
        &["JSON.SET", "d", "$.a + 1", "5"],
        &["JSON.SET", "d", "a + 1", "5"],
        &["JSON.DEL", "d", "$.arr.append({})"],
        &["JSON.MSET", "d", "$.a + 1", "5"],
        &["JSON.MERGE", "d", "$.a + 1", "5"],
        &["JSON.CLEAR", "d", "$.a + 1"],
        &["JSON.TOGGLE", "d", "-$.t"],
        &["JSON.NUMINCRBY", "d", "$.a + 1", "1"],
        &["JSON.NUMMULTBY", "d", "$.arr.length()", "2"],
        &["JSON.NUMPOWBY", "d", "$.a + 1", "2"],
        &["JSON.STRAPPEND", "d", "-$.a", "\"x\""],
        &["JSON.ARRAPPEND", "d", "$.a * 2", "1"],
        &["JSON.ARRINSERT", "d", "$.a + 1", "0", "1"],
        &["JSON.ARRPOP", "d", "$.a + 1"],
        &["JSON.ARRTRIM", "d", "$.a + 1", "0", "1"],
        &["JSON.TYPE", "d", "$.o.keys()"],
        &["JSON.STRLEN", "d", "$.s.length()"],
        &["JSON.OBJLEN", "d", "x + 1"],
        &["JSON.OBJKEYS", "d", "x + 1"],
        &["JSON.ARRINDEX", "d", "$.a + 1", "1"],
        &["JSON.DEBUG", "MEMORY", "d", "length($.arr)"],
    ];
    for args in others {
        assert_eq!(call(&mut client, args), refused, "{args:?}");
    }
    assert_eq!(call(&mut client, &["JSON.GET", "d"]), format!("{text:?}"));
    let mut client = client.resp3();
    let expanded = call(&mut client, &["JSON.GET", "d", "FORMAT", "EXPAND", "$.arr.min()"]);
    assert_eq!(expanded, "[[Double(1.0)]]");
}

#[test]
fn events_are_named_by_commands() {
    let mut client = Client::new();
    client.exec.ks.set_events(class::MODULE | class::GENERIC | class::NEW);
    for (line, expected) in [
        ("JSON.SET k $ {\"a\":[1],\"b\":[2],\"s\":\"x\",\"t\":true,\"n\":1}", "new:k json.set:k"),
        ("JSON.SET k $.no.way 1", ""),
        ("JSON.ARRAPPEND k $[a,b] 1", ""),
        ("JSON.ARRAPPEND k $..* 1", "json.arrappend:k"),
        ("JSON.ARRTRIM k $.a 0 0", "json.arrtrim:k"),
        ("JSON.ARRTRIM k $.a 0 0", ""),
        ("JSON.ARRPOP k $.a", "json.arrpop:k"),
        ("JSON.ARRPOP k $.a", ""),
        ("JSON.ARRINSERT k $.a 0 1", "json.arrinsert:k"),
        ("JSON.CLEAR k $.b", "json.clear:k"),
        ("JSON.TOGGLE k $.t", "json.toggle:k"),
        ("JSON.NUMINCRBY k $.n 1", "json.numincrby:k"),
        ("JSON.NUMINCRBY k $.s 1", ""),
        ("JSON.STRAPPEND k $.s \"\\\"y\\\"\"", "json.strappend:k"),
        ("JSON.MERGE k $ {\"m\":1,\"n\":null}", "json.merge:k"),
        ("JSON.MSET k $.m 2 l $ 1", "json.mset:k new:l json.mset:l"),
        ("JSON.FORGET k $.m", "json.del:k"),
        ("JSON.GET k $", ""),
        ("JSON.DEL k", "json.del:k"),
        ("DEL l", "del:l"),
    ] {
        client.host.events.clear();
        client.run(line);
        assert_eq!(client.host.events.join(" "), expected, "{line}");
    }
}

/// Array of small objects of texts and numbers, with at least this many bytes of text.
fn document_of(bytes: usize) -> String {
    let mut parts = Vec::new();
    let mut len = 2;
    for n in 0.. {
        let part = format!(
            "{{\"id\":{},\"name\":\"name of number {n}\",\"price\":{}.{},\"tags\":[\"a\",\"bc\"],\"ok\":true}}",
            1000 + n * 37,
            n * 3,
            n % 10
        );
        len += part.len() + 1;
        parts.push(part);
        if len >= bytes {
            break;
        }
    }
    format!("[{}]", parts.join(","))
}

#[test]
fn a_document_takes_little_more_than_its_text() {
    for bytes in [2_000, 20_000, 500_000] {
        let text = document_of(bytes);
        let mut client = Client::new();
        let reply = client.call(&[b"JSON.SET", b"k", b"$", text.as_bytes()]);
        assert_eq!(show(&reply), "OK");
        let Value::Integer(used) = client.call(&[b"MEMORY", b"USAGE", b"k"]) else { panic!() };
        assert!(used as usize * 10 <= text.len() * 12, "{used} for {}", text.len());
        assert_eq!(client.call(&[b"JSON.GET", b"k"]).as_bytes(), Some(text.as_bytes()));
        // Small changes keep its size.
        for n in 0..500 {
            let path = format!("$[{}].price", n % 10);
            client.call(&[b"JSON.NUMINCRBY", b"k", path.as_bytes(), b"123456.25"]);
        }
        let Value::Integer(used) = client.call(&[b"MEMORY", b"USAGE", b"k"]) else { panic!() };
        assert!(used as usize * 10 <= text.len() * 12, "{used} for {}", text.len());
    }
}

fn draw_value(random: &mut Random, depth: usize) -> String {
    match random.below(if depth > 3 { 6 } else { 9 }) {
        0 => random.below(300).to_string(),
        1 => format!("{}.{}", random.below(9), random.below(100)),
        2 => "null".into(),
        3 => (random.below(2) == 0).to_string(),
        4 => format!("\"{}\"", "t\u{e9}xt\\n\\\"\\u0001".repeat(random.below(4))),
        5 => format!("\"{}\"", "x".repeat(random.below(200))),
        6 => {
            let values: Vec<_> =
                (0..random.below(7)).map(|_| draw_value(random, depth + 1)).collect();
            format!("[{}]", values.join(","))
        }
        _ => {
            let members: Vec<_> = (0..random.below(7))
                .map(|_| format!("\"{}\":{}", draw_name(random), draw_value(random, depth + 1)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

fn draw_name(random: &mut Random) -> &'static str {
    random.pick(&["a", "b", "c", "d e", "\u{e9}", "q'\\\"", ""])
}

fn draw_path(random: &mut Random) -> String {
    if random.below(6) == 0 {
        return (*random.pick(&["$", ".", "$..*", "$..a", "..b"])).into();
    }
    let mut path = "$".to_owned();
    for _ in 0..1 + random.below(3) {
        match random.below(9) {
            0..5 => path += &format!("[\"{}\"]", draw_name(random)),
            5 => path += &format!("[{}]", random.below(4) as i64 - 1),
            6 => path += "[*]",
            7 => path += "[0:2]",
            _ => path += "..[\"a\"]",
        }
    }
    path
}

fn draw_call(random: &mut Random) -> Vec<String> {
    let path = draw_path(random);
    let value = draw_value(random, 0);
    let number = (*random.pick(&["1", "-3", "2.5", "1000000", "0"])).to_owned();
    let index = (random.below(6) as i64 - 2).to_string();
    let (name, more): (_, Vec<String>) = match random.below(14) {
        0..4 => ("JSON.SET", vec![value]),
        4 => ("JSON.MERGE", vec![value]),
        5 => ("JSON.DEL", vec![]),
        6 => ("JSON.CLEAR", vec![]),
        7 => ("JSON.NUMINCRBY", vec![number]),
        8 => ("JSON.NUMMULTBY", vec![number]),
        9 => ("JSON.STRAPPEND", vec!["\"more\"".into()]),
        10 => ("JSON.TOGGLE", vec![]),
        11 => ("JSON.ARRAPPEND", vec![value, draw_value(random, 0)]),
        12 => ("JSON.ARRINSERT", vec![index, value, draw_value(random, 0)]),
        _ if random.below(2) == 0 => ("JSON.ARRPOP", vec![index]),
        _ => ("JSON.ARRTRIM", vec![index, (random.below(6) as i64 - 2).to_string()]),
    };
    [vec![name.to_owned(), "k".to_owned(), path], more].concat()
}

/// Effects of random calls reproduce the document in another keyspace, and as commands in another
/// server; DUMP and RESTORE preserve it.
#[test]
fn effects_make_the_same_document() {
    let mut random = Random::seeded();
    let mut client = Client::new();
    let mut copy = Client::new();
    let follower = Follower::of(&mut client, &copy);
    let mut replica = Client::new();
    let end = Instant::now() + duration();
    let (mut calls, mut changed, mut longest) = (0, 0, 0);
    while Instant::now() < end {
        let mut call = draw_call(&mut random);
        let text = client.call(&[b"JSON.GET", b"k"]).as_bytes().map_or(0, <[u8]>::len);
        longest = longest.max(text);
        if text == 0 || text > 40_000 {
            // Long documents too, which are stored outside of their entry.
            let value = format!(
                "{{\"a\":{},\"b\":{}}}",
                draw_value(&mut random, 0),
                document_of(random.below(6000))
            );
            call = ["JSON.SET", "k", "$", &value].map(str::to_owned).to_vec();
        }
        let args: Vec<&[u8]> = call.iter().map(|arg| arg.as_bytes()).collect();
        let reply = client.call(&args);
        let seen = |what: &str| format!("{what} after {} => {}", show_args(&args), show(&reply));
        let tape = tape_of(&mut client);
        assert_eq!(tape_of(&mut copy), tape, "{}", seen("effects"));
        let commands = follower.lock().unwrap().commands();
        changed += usize::from(!commands.is_empty());
        execute(&mut replica, &commands);
        let [own, other] =
            [&mut client, &mut replica].map(|client| client.call(&[b"JSON.GET", b"k"]));
        assert_eq!(own, other, "{}", seen("commands"));
        if calls % 16 == 0 && tape.is_some() {
            let Value::Bulk(payload) = client.call(&[b"DUMP", b"k"]) else { panic!("no payload") };
            let mut other = Client::new();
            assert_eq!(show(&other.call(&[b"RESTORE", b"k", b"0", &payload])), "OK");
            assert_eq!(other.call(&[b"JSON.GET", b"k"]), own, "{}", seen("restored"));
        }
        calls += 1;
    }
    assert!(changed > 20 && longest > 4096, "{changed} of {calls} changed, longest {longest}");
}

fn tape_of(client: &mut Client) -> Option<Vec<u8>> {
    let ks = &mut client.exec.ks;
    ks.enter();
    let key = ks.key(b"k");
    ks.lock(key.hash);
    let tape = ks.peek(0, key).map(|view| view.json().unwrap().tape().to_vec());
    ks.unlock();
    ks.exit();
    tape
}

/// Redis 8.8's DUMP payloads of a document: `[1.5,"a"]`, and one with a typed array.
#[test]
fn what_redis_dumps_is_read() {
    let mut client = Client::new();
    let head = b"\x07\x81\x45\xe2\x52\x38\xdf\x91\x2c\x04\x05";
    let cases: [(&[u8], &str); 3] = [
        (b"\x06\x82\xf9\x3e\x00\x61\x61", "\"[1.5,\\\"a\\\"]\""),
        (
            b"\x0d\xa2\x61\x61\xd8\x48\x43\x01\x02\x03\x61\x62\x61\x78",
            "\"{\\\"a\\\":[1,2,3],\\\"b\\\":\\\"x\\\"}\"",
        ),
        (b"\x02\x82\x01", "nil"),
    ];
    for (document, expected) in cases {
        // Without a checksum.
        let payload = [head, document, b"\x00\x0c\x00\0\0\0\0\0\0\0\0"].concat();
        client.run("DEL k");
        client.call(&[b"RESTORE", b"k", b"0", &payload]);
        assert_eq!(client.run("JSON.GET k"), expected);
    }
}

#[test]
fn a_stranger_is_bounded() {
    let mut client = Client::new();
    client.host.string_len_max = 16 << 20;
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let mut call = |args: &[&[u8]]| {
        let (reply, peak) = peak_of(|| {
            let start = Instant::now();
            let reply = client.call(args);
            assert!(start.elapsed().as_secs() < 20, "{}", args[0].escape_ascii());
            reply
        });
        assert!(peak < 400 << 20, "{peak} bytes for {}", args[0].escape_ascii());
        show(&reply)
    };
    let too_deep = "recursion limit exceeded at line 1 column 128";
    assert_eq!(call(&[b"JSON.SET", b"k", b"$", deep.as_bytes()]), too_deep);
    let digits = "1".repeat(10_000);
    assert_eq!(
        call(&[b"JSON.SET", b"k", b"$", digits.as_bytes()]),
        "number out of range at line 1 column 10000"
    );
    let fraction = format!("0.{digits}");
    assert_eq!(call(&[b"JSON.SET", b"k", b"$", fraction.as_bytes()]), "OK");
    assert_eq!(call(&[b"JSON.GET", b"k"]), "\"0.1111111111111111\"");
    // A hundred nested containers, and paths with multiplying matches.
    let nested = "{\"a\":".repeat(100) + "1" + &"}".repeat(100);
    assert_eq!(call(&[b"JSON.SET", b"k", b"$", nested.as_bytes()]), "OK");
    let all = "..*".repeat(40);
    let too_much = "ERR the path matches too much: use fewer '..' and '*'";
    let path = format!("${all}");
    for name in ["JSON.TYPE", "JSON.DEL", "JSON.CLEAR", "JSON.ARRLEN"] {
        assert_eq!(call(&[name.as_bytes(), b"k", path.as_bytes()]), too_much);
    }
    let too_long = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(call(&[b"JSON.GET", b"k", path.as_bytes()]), too_long);
    for _ in 0..4 {
        // The depth doubles with each call, until it would exceed the limit.
        let grown = call(&[b"JSON.SET", b"k", b"$..a", nested.as_bytes()]);
        assert!(["OK", "nil"].contains(&&grown[..]), "{grown}");
    }
    let parens = format!("$[?{}@.a{}]", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(call(&[b"JSON.GET", b"k", parens.as_bytes()]), "filters are nested at most 32 deep");
    let dots = "$.a".to_owned() + &".a".repeat(1000);
    assert_eq!(call(&[b"JSON.GET", b"k", dots.as_bytes()]), "a path has at most 256 selectors");
    // Many matches of a long document: one pass over it for all changes.
    let numbers: Vec<String> = (0..100_000).map(|n: u32| n.to_string()).collect();
    let long = format!("[{}]", numbers.join(","));
    assert_eq!(call(&[b"JSON.SET", b"k", b"$", long.as_bytes()]), "OK");
    assert!(call(&[b"JSON.NUMINCRBY", b"k", b"$[*]", b"1000000"]).starts_with("\"[1000000,"));
    assert_eq!(call(&[b"JSON.DEL", b"k", b"$[::2]"]), "50000");
    assert_eq!(call(&[b"JSON.CLEAR", b"k", b"$[*]"]), "50000");
    // Whitespace that would add up to gigabytes.
    let blanks = " ".repeat(1 << 20);
    for option in ["INDENT", "NEWLINE"] {
        let blanks = &blanks.as_bytes()[..16 << 10];
        let reply = call(&[b"JSON.GET", b"k", option.as_bytes(), blanks, b"$"]);
        assert_eq!(reply, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    }
    assert_eq!(call(&[b"JSON.SET", b"o", b"$", b"[]"]), "OK");
    assert!(
        call(
            &[&[b"JSON.ARRAPPEND" as &[u8], b"o", b"$"], &[b"{\"a\":1}" as &[u8]; 9999][..]]
                .concat()
        )
        .starts_with('[')
    );
    let reply = call(&[b"JSON.GET", b"o", b"SPACE", &blanks.as_bytes()[..64 << 10], b"$"]);
    assert_eq!(reply, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
}

/// Path with ten thousand matches: `$` and two unions of a hundred equal indices each.
fn multiplying(index: i64) -> String {
    let union = format!("[{}]", vec![index.to_string(); 100].join(","));
    format!("${union}{union}")
}

/// Reply of a command, and the peak of memory including the reply.
fn measured(client: &mut Client, args: &[&[u8]]) -> (String, usize) {
    let (reply, peak) = peak_of(|| client.call(args));
    (show(&reply), peak)
}

const TOO_MUCH: &str = "ERR the path matches too much: use fewer '..' and '*'";

#[test]
fn paths_that_multiply_take_no_memory_for_each_match() {
    let mut client = Client::new();
    for (len, passes) in [(1 << 20, false), (1000, true)] {
        let text = format!("[[\"{}\"]]", "x".repeat(len));
        client.call(&[b"JSON.SET", b"k", b"$", text.as_bytes()]);
        let path = multiplying(0);
        let append = [b"JSON.STRAPPEND" as &[u8], b"k", path.as_bytes(), b"\"y\""];
        let (reply, peak) = measured(&mut client, &append);
        assert!(peak < 8 << 20, "{peak} bytes for strings of {len}");
        assert_eq!(reply.starts_with('['), passes, "{}", &reply[..reply.len().min(100)]);
        for form in ["JSON.GET", "JSON.RESP"] {
            let (reply, peak) = measured(&mut client, &[form.as_bytes(), b"k", path.as_bytes()]);
            // A reply of 10 MB, and its copy as a value in this test.
            let most = if passes { 64 << 20 } else { 700 << 20 };
            assert!(peak < most, "{peak} bytes for strings of {len}");
            assert_eq!(reply == TOO_MUCH, !passes, "{}", &reply[..reply.len().min(100)]);
        }
    }
    // Each value is changed once, but replied as often as it is matched.
    client.run("JSON.SET n $ [[1]]");
    let path = multiplying(0);
    let reply = client.call(&[b"JSON.NUMINCRBY", b"n", path.as_bytes(), b"1"]);
    assert_eq!(show(&reply), format!("\"[{}]\"", vec!["2"; 10_000].join(",")));
    assert_eq!(client.run("JSON.GET n"), "\"[[2]]\"");
    // Popping from one array is replied as often as it is matched, and removes one value.
    let text = format!("[[[1,\"{}\"]]]", "x".repeat(10_000));
    client.call(&[b"JSON.SET", b"k", b"$", text.as_bytes()]);
    let (reply, peak) = measured(&mut client, &[b"JSON.ARRPOP", b"k", path.as_bytes()]);
    assert!(peak < 400 << 20 && reply.len() > 100_000_000, "{peak} bytes");
    assert_eq!(client.run("JSON.GET k"), "\"[[[1]]]\"");
    let text = format!("[[[1,\"{}\"]]]", "x".repeat(1 << 20));
    client.call(&[b"JSON.SET", b"k", b"$", text.as_bytes()]);
    let (reply, peak) = measured(&mut client, &[b"JSON.ARRPOP", b"k", path.as_bytes()]);
    assert!(peak < 8 << 20 && reply == TOO_MUCH, "{peak} bytes, {reply}");
    assert_eq!(client.run("JSON.ARRLEN k $[0][0]"), "[2]", "nothing has changed");
}

#[test]
fn what_a_command_holds_is_used_memory() {
    let mut client = Client::new();
    let arrays = format!("[{}]", vec!["[]"; 1000].join(","));
    client.call(&[b"JSON.SET", b"k", b"$", arrays.as_bytes()]);
    let numbers = format!("[{}]", vec!["1"; 200_000].join(","));
    client.call(&[b"JSON.SET", b"n", b"$", numbers.as_bytes()]);
    let keyspace = client.exec.ks.keyspace().clone();
    client.exec.clear_caches();
    let used = keyspace.stats().used;
    keyspace.set_memory_limit(used + (16 << 20), Policy::NoEviction);
    let value = format!("\"{}\"", "x".repeat(100_000));
    for command in ["JSON.SET", "JSON.ARRAPPEND", "JSON.MERGE"] {
        let call = [command.as_bytes(), b"k", b"$[*]", value.as_bytes()];
        let (reply, peak) = measured(&mut client, &call);
        assert!(reply.starts_with("OOM ") && peak < 32 << 20, "{command}: {reply}, {peak} bytes");
        client.exec.clear_caches();
        assert_eq!(keyspace.stats().used, used, "{command}");
    }
    // Memory per match, in addition to the changes.
    let call = [b"JSON.NUMINCRBY" as &[u8], b"n", b"$..*", b"1"];
    let (reply, peak) = measured(&mut client, &call);
    assert!(reply.starts_with("OOM ") && peak < 32 << 20, "{reply}, {peak} bytes");
    client.exec.clear_caches();
    assert_eq!(keyspace.stats().used, used);
    keyspace.set_memory_limit(used + (256 << 20), Policy::NoEviction);
    assert!(client.run("JSON.NUMINCRBY n $..* 1").starts_with("\"[2,2,"));
    assert!(client.run("JSON.SET k $[*] 1") == "OK");
    assert!(keyspace.stats().used < used + (1 << 20), "what was held is given back");
}

#[test]
fn comparing_documents_is_no_quadratic_work() {
    let mut client = Client::new();
    let object = |names: &mut dyn Iterator<Item = u32>| {
        let members: Vec<_> = names.map(|n| format!("\"member {n}\":{n}")).collect();
        format!("{{{}}}", members.join(","))
    };
    let (up, down) = (object(&mut (0..60_000)), object(&mut (0..60_000).rev()));
    let text = format!("{{\"list\":[1,{up}],\"pair\":[{{\"a\":{up},\"b\":{down}}}]}}");
    client.call(&[b"JSON.SET", b"k", b"$", text.as_bytes()]);
    let found = client.call(&[b"JSON.ARRINDEX", b"k", b"$.list", down.as_bytes()]);
    assert_eq!(show(&found), "[1]");
    let found = client.call(&[b"JSON.OBJLEN", b"k", b"$.pair[?@.a==@.b].a"]);
    assert_eq!(show(&found), "[60000]");
    // Expensive comparisons are repeated until the budget is spent.
    let again = format!("$.pair[?{}]", vec!["@.a==@.b"; 60].join("&&"));
    assert_eq!(show(&client.call(&[b"JSON.TYPE", b"k", again.as_bytes()])), TOO_MUCH);
    let lists = format!("$[{}]", vec!["'list'"; 200].join(","));
    let calls = [b"JSON.ARRINDEX" as &[u8], b"k", lists.as_bytes(), down.as_bytes()];
    assert_eq!(show(&client.call(&calls)), TOO_MUCH);
}

/// Work per command is bounded for any path and document. The full budget takes about a second
/// here, without optimization.
#[test]
fn no_path_keeps_a_thread_for_long() {
    let mut client = Client::new();
    let deep = "[".repeat(120) + &vec!["1"; 500].join(",") + &"]".repeat(120);
    let many = format!("[{}]", vec!["{\"a\":[1,2,{\"a\":\"aaaa\"}]}"; 300].join(","));
    let texts = format!("[{}]", vec![format!("\"{}\"", "ab".repeat(20_000)); 5].join(","));
    let nested = {
        let mut path = "@".to_owned();
        for _ in 0..30 {
            path = format!("$..[?{path}]");
        }
        path
    };
    let paths = [
        "$..a..a..a..a".to_owned(),
        "$..[?@..a == $..a]".to_owned(),
        "$..*..*..*".to_owned(),
        format!("$..[{}]", vec!["::-1"; 250].join(",")),
        format!("$[{}]", vec!["-1"; 250].join(",")),
        format!("$[{0}][{0}]", vec!["*"; 120].join(",")),
        "$[?@ =~ '[ab]*a[ab]{300}c']".to_owned(),
        "$..[?@ in $..* && $..* subsetof $..a]".to_owned(),
        "$..[?$..*.append($..*).keys().count() == 1]".to_owned(),
        "$..[?$..*.stddev() == 1 || match(@, concat('(a|b)*', 'c'))]".to_owned(),
        format!("$[?{}]", vec!["@ =~ '(a|b)*c\\\\b'"; 16].join("||")),
        nested,
    ];
    for (name, text) in [("deep", deep), ("many", many), ("texts", texts)] {
        client.call(&[b"JSON.SET", name.as_bytes(), b"$", text.as_bytes()]);
        for path in &paths {
            for command in ["JSON.TYPE", "JSON.CLEAR"] {
                let call = [command.as_bytes(), name.as_bytes(), path.as_bytes()];
                let start = Instant::now();
                let (reply, peak) = measured(&mut client, &call);
                let seconds = start.elapsed().as_secs();
                assert!(
                    seconds < 60 && peak < 700 << 20,
                    "{command} {name} {path}: {seconds} s, {peak} B"
                );
                let is_known = !reply.starts_with("ERR") || reply == TOO_MUCH;
                assert!(is_known, "{command} {path}: {reply}");
                client.call(&[b"JSON.SET", name.as_bytes(), b"$", text.as_bytes()]);
            }
        }
    }
}

#[test]
fn patterns_of_filters_are_bounded() {
    let mut client = Client::new();
    client.call(&[b"JSON.SET", b"k", b"$", b"[\"word\",\"other\"]"]);
    let mut types_at = |path: &str| show(&client.call(&[b"JSON.TYPE", b"k", path.as_bytes()]));
    let large = "ERR a pattern of the path is too large: use a simpler one";
    assert_eq!(types_at(r#"$[?@ =~ "(\\w{100}){100}"]"#), large);
    let long = format!("$[?@ =~ '{}']", "a".repeat(5000));
    assert_eq!(types_at(&long), large);
    assert_eq!(types_at("$[?@ =~ '(']"), "[]");
    assert_eq!(types_at(r"$[?@ =~ '^\\w{4}$']"), "[\"string\"]");
    let many = format!("$[?{}]", vec!["@ =~ 'a'"; 17].join("||"));
    assert_eq!(types_at(&many), "a path has at most 16 patterns");
    // Memory of the caches is bounded, counted, and freed on request.
    let keyspace = client.exec.ks.keyspace().clone();
    client.exec.clear_caches();
    let used = keyspace.stats().used;
    for n in 0..500 {
        let path = format!("$[?@ =~ '{n}\\\\w{{{}}}']", 1 + n % 20);
        assert_eq!(show(&client.call(&[b"JSON.TYPE", b"k", path.as_bytes()])), "[]", "{path}");
        assert!(keyspace.stats().used <= used + (2 << 20), "{path}");
    }
    assert!(keyspace.stats().used > used + (256 << 10));
    client.exec.clear_caches();
    assert_eq!(keyspace.stats().used, used);
}
