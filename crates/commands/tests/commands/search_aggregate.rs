//! Aggregations: every step and error, as RediSearch 2.10 answers them; cursors; memory.

use crate::client::{Client, show};
use petrel_resp::Value;

fn documents(client: &mut Client) {
    client.follow(
        r#"
        FT.CREATE i PREFIX 1 d: SCHEMA t TAG SORTABLE g TAG n NUMERIC SORTABLE m NUMERIC => OK
        HSET d:1 x free1 t Red g a,b n 1 m 10 => 5
        HSET d:2 x free2 t red g a n 2.5 m 20 => 5
        HSET d:3 x free3 t blue g b n -3 => 4
        HSET d:4 x free4 t Blue n 4 m 30 => 4
        HSET d:5 x free5 g c m 40 => 3
        HSET d:6 x free6 t green g d n 7 m 50 => 5
        "#,
    );
}

#[test]
fn steps_of_aggregations() {
    let mut client = Client::new();
    documents(&mut client);
    client.follow(
        r#"
        FT.AGGREGATE i * => [1 [] [] [] [] [] []]
        FT.AGGREGATE i * LOAD 1 @t => [1 ["t" "Red"] ["t" "red"] ["t" "blue"] ["t" "Blue"] [] ["t" "green"]]
        FT.AGGREGATE i * LOAD 3 @t AS foo => [1 ["foo" "Red"] ["foo" "red"] ["foo" "blue"] ["foo" "Blue"] [] ["foo" "green"]]
        FT.AGGREGATE i * LOAD 2 t n LIMIT 1 2 => [2 ["t" "red" "n" "2.5"] ["t" "blue" "n" "-3"]]
        FT.AGGREGATE i * LOAD * LIMIT 0 1 => [1 ["x" "free1" "t" "Red" "g" "a,b" "n" "1" "m" "10"]]
        FT.AGGREGATE i * LOAD 1 @__key LIMIT 4 5 => [5 ["__key" "d:5"] ["__key" "d:6"]]
        FT.AGGREGATE i @n:[1,3] LOAD 1 n => [1 ["n" "1"] ["n" "2.5"]]
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE COUNT 0 SORTBY 1 @t => [4 ["t" nil "__generated_aliascount" "1"] ["t" "blue" "__generated_aliascount" "2"] ["t" "green" "__generated_aliascount" "1"] ["t" "red" "__generated_aliascount" "2"]]
        FT.AGGREGATE i * GROUPBY 1 @g REDUCE COUNT 0 AS c SORTBY 1 @g => [6 ["g" nil "c" "1"] ["g" "a" "c" "1"] ["g" "a,b" "c" "1"] ["g" "b" "c" "1"] ["g" "c" "c" "1"] ["g" "d" "c" "1"]]
        FT.AGGREGATE i * GROUPBY 0 REDUCE SUM 1 @n REDUCE AVG 1 n REDUCE MIN 1 @n REDUCE MAX 1 @n REDUCE STDDEV 1 @n REDUCE QUANTILE 2 @n 0.5 REDUCE COUNT_DISTINCT 1 @n REDUCE FIRST_VALUE 1 @n => [1 ["__generated_aliassumn" "11.5" "__generated_aliasavgn" "1.91666666667" "__generated_aliasminn" "-3" "__generated_aliasmaxn" "7" "__generated_aliasstddevn" "3.70135110466" "__generated_aliasquantilen,0.5" "2.5" "__generated_aliascount_distinctn" "5" "__generated_aliasfirst_valuen" "1"]]
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE FIRST_VALUE 4 @n BY @m DESC AS f SORTBY 1 @t => [4 ["t" nil "f" nil] ["t" "blue" "f" "-3"] ["t" "green" "f" "7"] ["t" "red" "f" "2.5"]]
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE RANDOM_SAMPLE 2 @n 0 AS s SORTBY 1 @t => [4 ["t" nil "s" []] ["t" "blue" "s" []] ["t" "green" "s" []] ["t" "red" "s" []]]
        FT.AGGREGATE i * LOAD 1 @g APPLY "split(@g)" AS p LIMIT 0 3 => [1 ["g" "a,b" "p" ["a" "b"]] ["g" "a" "p" ["a"]] ["g" "b" "p" ["b"]]]
        FT.AGGREGATE i @m:[10,20] LOAD 1 @g APPLY "split(@g)" AS p GROUPBY 1 @p REDUCE COUNT 0 AS c SORTBY 1 @p => [2 ["p" "a" "c" "2"] ["p" "b" "c" "1"]]
        FT.AGGREGATE i * SORTBY 1 @n => [6 ["n" "-3"] ["n" "1"] ["n" "2.5"] ["n" "4"] ["n" "7"] []]
        FT.AGGREGATE i * SORTBY 2 @n DESC => [6 ["n" "7"] ["n" "4"] ["n" "2.5"] ["n" "1"] ["n" "-3"] []]
        FT.AGGREGATE i * SORTBY 3 @t @n DESC => [6 ["t" "blue" "n" "4"] ["t" "blue" "n" "-3"] ["t" "green" "n" "7"] ["t" "red" "n" "2.5"] ["t" "red" "n" "1"] []]
        FT.AGGREGATE i * SORTBY 1 @n MAX 2 => [6 ["n" "-3"] ["n" "1"]]
        FT.AGGREGATE i * SORTBY 1 @n LIMIT 1 2 => [6 ["n" "1"] ["n" "2.5"]]
        FT.AGGREGATE i * SORTBY 1 @n LIMIT 1 2 LIMIT 0 1 => [6 ["n" "-3"]]
        FT.AGGREGATE i * SORTBY 1 @m FILTER "exists(@m)&&@m>10" => [6 ["m" "20"] ["m" "30"] ["m" "40"] ["m" "50"]]
        FT.AGGREGATE i * APPLY @n+1 AS y => [1 ["n" "1" "y" "2"] ["n" "2.5" "y" "3.5"] ["n" "-3" "y" "-2"] ["n" "4" "y" "5"]]
        FT.AGGREGATE i * APPLY upper(@t) AS y => [1 ["t" "red" "y" "RED"] ["t" "red" "y" "RED"] ["t" "blue" "y" "BLUE"] ["t" "blue" "y" "BLUE"]]
        FT.AGGREGATE i * APPLY 1 => [1 ["1" "1"] ["1" "1"] ["1" "1"] ["1" "1"] ["1" "1"] ["1" "1"]]
        FT.AGGREGATE i * APPLY 5 AS n SORTBY 1 @n LIMIT 0 1 => [6 ["n" "5"]]
        FT.AGGREGATE i * FILTER @n>1 => [2 ["n" "2.5"] ["n" "4"]]
        FT.AGGREGATE i * FILTER "exists(@n)&&@n>3" SORTBY 1 @n => [6 ["n" "4"] ["n" "7"]]
        FT.AGGREGATE i * LIMIT 1 2 APPLY 1 AS y SORTBY 1 @n => [6 ["n" "1" "y" "1"] ["n" "2.5" "y" "1"]]
        FT.AGGREGATE i * LIMIT 0 0 => [6]
        FT.AGGREGATE i * LIMIT 5 0 => [6]
        FT.AGGREGATE i * APPLY @n+1 AS y GROUPBY 0 REDUCE COUNT 0 => n: has no value, consider using EXISTS if applicable
        FT.AGGREGATE i * GROUPBY 1 @m SORTBY 1 @m => [6 ["m" nil] ["m" "10"] ["m" "20"] ["m" "30"] ["m" "40"] ["m" "50"]]
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE COUNT 0 AS c GROUPBY 1 @c REDUCE COUNT 0 AS d SORTBY 1 @c => [2 ["c" "1" "d" "2"] ["c" "2" "d" "2"]]
        FT.AGGREGATE i * NOCONTENT => [1]
        FT.AGGREGATE i * INKEYS 1 d:1 LOAD 1 n => [1 ["n" "1"]]
        FT.AGGREGATE i * PARAMS 2 a 3 DIALECT 2 LIMIT 0 1 => [1 []]
        FT.AGGREGATE i * WITHCURSOR MAXIDLE 1000000 => [[1 [] [] [] [] [] []] 0]
        "#,
    );
}

#[test]
fn errors_of_aggregations() {
    let mut client = Client::new();
    documents(&mut client);
    client.follow(
        r#"
        FT.AGGREGATE => ERR wrong number of arguments for 'ft.aggregate' command
        FT.AGGREGATE i => No query string provided
        FT.AGGREGATE nope * => nope: no such index
        FT.AGGREGATE i * ADD foo => Unknown argument `ADD` at position 1 for <main>
        FT.AGGREGATE i * GROUPBY 1 @x => No such property `x`
        FT.AGGREGATE i * SORTBY 1 @x => Property `x` not loaded nor in schema
        FT.AGGREGATE i * APPLY upper(@x) AS y => Property `x` not loaded nor in pipeline
        FT.AGGREGATE i * APPLY @m AS y => Property `m` not loaded nor in pipeline
        FT.AGGREGATE i * LOAD => Bad arguments for LOAD: Expected an argument, but none provided
        FT.AGGREGATE i * LOAD x => Bad arguments for LOAD: SUCCESS
        FT.AGGREGATE i * LOAD 3 a => Bad arguments for LOAD: SUCCESS
        FT.AGGREGATE i * LOAD 2 @t AS => LOAD path AS name - must be accompanied with NAME
        FT.AGGREGATE i * LOAD 1 @t AS foo => Unknown argument `AS` at position 4 for <main>
        FT.AGGREGATE i * GROUPBY => Bad arguments for GROUPBY: Expected an argument, but none provided
        FT.AGGREGATE i * GROUPBY x => Bad arguments for GROUPBY: Could not convert argument to expected type
        FT.AGGREGATE i * GROUPBY 1 t => Bad arguments for GROUPBY: Unknown property `t`. Did you mean `@t`?
        FT.AGGREGATE i * GROUPBY 2 @t => Bad arguments for GROUPBY: Expected an argument, but none provided
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE => Bad arguments for REDUCE: SUCCESS
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE foo 0 => No such reducer: foo
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE foo => Bad arguments for foo: Expected an argument, but none provided
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE COUNT 1 @n => Count accepts 0 values only
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE SUM 0 => Missing arguments for SUM
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE SUM 1 @zz => Property `zz` not present in document or pipeline
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE COUNT 0 AS => Bad arguments for AS: Expected an argument, but none provided
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE COUNT 0 AS c REDUCE COUNT 0 AS c => Property `c` specified more than once
        FT.AGGREGATE i * GROUPBY 2 @t @t => Property `t` specified more than once
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE QUANTILE 2 @n 2 => Percentage must be between 0.0 and 1.0
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE QUANTILE 2 @n x => Bad arguments for QUANTILE: Could not convert argument to expected type
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE QUANTILE 3 @n 0.5 0 => Invalid resolution
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE QUANTILE 4 @n 0.5 100 x => Unknown argument `x` at position 3 for QUANTILE
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE RANDOM_SAMPLE 1 @n => Bad arguments for <sample size>: Expected an argument, but none provided
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE RANDOM_SAMPLE 2 @n 1001 => Sample size too large
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE FIRST_VALUE 2 @n BY => Missing arguments for FIRST_VALUE
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE FIRST_VALUE 4 @n BY @m FOO => Unknown argument `FOO` at position 3 for FIRST_VALUE
        FT.AGGREGATE i * GROUPBY 1 @t LOAD 1 @x => LOAD cannot be applied after projectors or reducers
        FT.AGGREGATE i * GROUPBY 1 @t SORTBY 1 @n => Property `n` not loaded nor in schema
        FT.AGGREGATE i * GROUPBY 1 @t APPLY @n AS z => Property `n` not loaded nor in pipeline
        FT.AGGREGATE i * GROUPBY 1 @t GROUPBY 1 @n => No such property `n`
        FT.AGGREGATE i * SORTBY => Bad arguments for SORTBY: Expected an argument, but none provided
        FT.AGGREGATE i * SORTBY 1 n => MISSING ASC or DESC after sort field (n)
        FT.AGGREGATE i * SORTBY 2 @n FOO => MISSING ASC or DESC after sort field (FOO)
        FT.AGGREGATE i * SORTBY 2 @n DESC MAX => Bad arguments for MAX: Could not convert argument to expected type
        FT.AGGREGATE i * SORTBY 2 @n DESC MAX -1 => Bad arguments for MAX: Could not convert argument to expected type
        FT.AGGREGATE i * SORTBY 1 @n SORTBY 1 @m => Multiple SORTBY steps are not allowed. Sort multiple fields in a single step
        FT.AGGREGATE i * SORTBY 9 @n @m @t @g @n @m @t @g @n => Cannot sort by more than 8 fields
        FT.AGGREGATE i * LIMIT 1 => LIMIT requires two arguments
        FT.AGGREGATE i * LIMIT x y => LIMIT needs two numeric arguments
        FT.AGGREGATE i * LIMIT 1000001 1 => OFFSET exceeds maximum of 1000000
        FT.AGGREGATE i * APPLY => Bad arguments for APPLY/FILTER: Expected an argument, but none provided
        FT.AGGREGATE i * APPLY 1 AS => AS needs argument
        FT.AGGREGATE i * FILTER => Bad arguments for APPLY/FILTER: Expected an argument, but none provided
        FT.AGGREGATE i * WITHCURSOR COUNT 0 => Bad arguments for COUNT: Value is outside acceptable bounds
        FT.AGGREGATE i * WITHCURSOR MAXIDLE x => Bad arguments for MAXIDLE: Could not convert argument to expected type
        FT.AGGREGATE i * WITHCURSOR FOO => Unknown argument `FOO` at position 2 for <main>
        FT.AGGREGATE i * TIMEOUT => Need argument for TIMEOUT
        FT.AGGREGATE i * TIMEOUT x => TIMEOUT requires a non negative integer
        FT.AGGREGATE i * DIALECT 5 => DIALECT requires a non negative integer >=1 and <= 4
        FT.AGGREGATE i * RETURN 1 t => RETURN is not supported on FT.AGGREGATE
        FT.AGGREGATE i * HIGHLIGHT => HIGHLIGHT is not supported on FT.AGGREGATE
        FT.AGGREGATE i * EXPLAINSCORE => EXPLAINSCORE must be accompanied with WITHSCORES
        FT.AGGREGATE i * GEOFILTER a 1 1 1 km => Unknown argument `GEOFILTER` at position 1 for <main>
        FT.AGGREGATE i * SCORER FOO => No such scorer FOO
        FT.AGGREGATE i "@n:[" => Syntax error at offset 3 near n
        FT.CURSOR READ i x => Bad cursor ID
        FT.CURSOR READ i 12 => Cursor not found
        FT.CURSOR DEL i 12 => Cursor does not exist
        FT.CURSOR FOO i 1 => Unknown subcommand
        FT.CURSOR GC i 1 => 0
        FT.CURSOR READ i => ERR wrong number of arguments for 'ft.cursor' command
        FT.AGGREGATE i * GROUPBY 1 @t REDUCE QUANTILE 1 @n => Bad arguments for QUANTILE: Expected an argument, but none provided
        "#,
    );
}

/// The results of a cursor's reply, and its number.
fn chunk(reply: &Value) -> (String, i64) {
    match reply {
        Value::Array(parts) => match &parts[..] {
            [results, Value::Integer(id)] => (show(results), *id),
            _ => panic!("{}", show(reply)),
        },
        _ => panic!("{}", show(reply)),
    }
}

fn call(client: &mut Client, line: &str) -> Value {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.call(&words)
}

#[test]
fn cursors_give_all_results_once() {
    let mut client = Client::new();
    documents(&mut client);
    for (steps, count) in [
        ("LOAD 1 @__key", 4),
        ("LOAD 2 @__key @t SORTBY 1 @n", 4),
        ("GROUPBY 1 @t REDUCE COUNT 0", 4),
        ("APPLY exists(@t) AS y", 2),
    ] {
        let whole = call(&mut client, &format!("FT.AGGREGATE i * {steps} LIMIT 0 100"));
        let Value::Array(whole) = whole else { panic!("{}", show(&whole)) };
        let whole: Vec<String> = whole[1..].iter().map(show).collect();
        let mut read: Vec<String> = Vec::new();
        let line = format!("FT.AGGREGATE i * {steps} WITHCURSOR COUNT {count}");
        let mut reply = call(&mut client, &line);
        loop {
            let Value::Array(parts) = &reply else { panic!("{}", show(&reply)) };
            let Value::Array(results) = &parts[0] else { panic!("{}", show(&reply)) };
            read.extend(results[1..].iter().map(show));
            let (_, id) = chunk(&reply);
            if id == 0 {
                break;
            }
            reply = call(&mut client, &format!("FT.CURSOR READ i {id}"));
        }
        assert_eq!(read, whole, "{steps}");
    }
}

#[test]
fn cursors_end() {
    let mut client = Client::new();
    documents(&mut client);
    let begin = "FT.AGGREGATE i * LOAD 1 @__key WITHCURSOR COUNT 2";
    let (_, id) = chunk(&call(&mut client, begin));
    let (results, _) = chunk(&call(&mut client, &format!("FT.CURSOR READ i {id} COUNT 1")));
    assert_eq!(results, r#"[1 ["__key" "d:3"]]"#);
    // A document that is gone is no result, and one that matches no longer is none either.
    client.follow("DEL d:4 => 1");
    let (results, _) = chunk(&call(&mut client, &format!("FT.CURSOR READ i {id}")));
    assert_eq!(results, r#"[1 ["__key" "d:5"] ["__key" "d:6"]]"#);
    let (results, last) = chunk(&call(&mut client, &format!("FT.CURSOR READ i {id}")));
    assert_eq!((results.as_str(), last), ("[0]", 0));
    client.follow(&format!("FT.CURSOR READ i {id} => Cursor not found"));
    let (_, id) = chunk(&call(&mut client, begin));
    client.follow(&format!("FT.CURSOR DEL i {id} => OK"));
    client.follow(&format!("FT.CURSOR READ i {id} => Cursor not found"));
    let (_, id) = chunk(&call(&mut client, begin));
    client.follow("FT.DROPINDEX i => OK");
    client.follow(&format!(
        "FT.CURSOR READ i {id} => The index was dropped while the cursor was idle"
    ));
}

#[test]
fn cursors_are_limited_and_counted() {
    let mut client = Client::new();
    documents(&mut client);
    let begin = "FT.AGGREGATE i * LOAD 1 @__key WITHCURSOR COUNT 2";
    let ids: Vec<i64> = (0..128).map(|_| chunk(&call(&mut client, begin)).1).collect();
    client.follow(&format!("{begin} => Too many cursors allocated for index"));
    for id in ids {
        client.follow(&format!("FT.CURSOR DEL i {id} => OK"));
    }
    assert!(chunk(&call(&mut client, begin)).1 > 0);
}
