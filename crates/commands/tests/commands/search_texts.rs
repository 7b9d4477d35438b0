//! The query engine's texts: words, phrases, scores, options of indexes and queries. Replies were
//! observed at RediSearch 2.10.

use crate::client::{Client, show};
use petrel_resp::Value;
use std::time::{Duration, Instant};

/// Waits until an index has read all keys.
fn settle(client: &mut Client, index: &str) {
    let start = Instant::now();
    while figure(client, index, "indexing") != "0" {
        assert!(start.elapsed() < Duration::from_secs(60), "{index} is not complete");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A figure of `FT.INFO`.
fn figure(client: &mut Client, index: &str, name: &str) -> String {
    let Value::Array(info) = client.call(&[b"FT.INFO", index.as_bytes()]) else {
        panic!("no FT.INFO of {index}");
    };
    let at = info.iter().position(|part| show(part).trim_matches('"') == name);
    show(&info[at.unwrap() + 1]).trim_matches('"').to_string()
}

/// Four documents in an index with these options.
fn greetings(client: &mut Client, options: &str) {
    client.run("FLUSHALL");
    client.run(&format!("FT.CREATE i {options} SCHEMA t TEXT u TEXT WEIGHT 2"));
    settle(client, "i");
    client.follow(
        r#"
        HSET d1 t "hello big world hello" u hello => 2
        HSET d2 t "hello world" u other => 2
        HSET d3 t "world hello" u hello => 2
        HSET d4 t "running world" => 1
        "#,
    );
}

#[test]
fn documents_are_found_by_words() {
    let mut client = Client::new();
    greetings(&mut client, "");
    client.follow(
        r#"
        FT.SEARCH i hello NOCONTENT WITHSCORES => [3 "d1" "1" "d3" "1" "d2" "0.5"]
        FT.SEARCH i "\"hello world\"" NOCONTENT WITHSCORES => [1 "d2" "1"]
        FT.SEARCH i @u:hello NOCONTENT => [2 "d1" "d3"]
        FT.SEARCH i "(hello world)=>{$slop:0}" NOCONTENT WITHSCORES => [3 "d3" "1.3333333333333333" "d1" "1.25" "d2" "1"]
        FT.SEARCH i "(hello world)=>{$inorder:true}" NOCONTENT WITHSCORES => [2 "d1" "1.25" "d2" "1"]
        FT.SEARCH i "hello world" SLOP 0 INORDER NOCONTENT => [1 "d2"]
        FT.SEARCH i "hello world" INORDER NOCONTENT => [2 "d1" "d2"]
        FT.SEARCH i "hello world" INFIELDS 1 u NOCONTENT => [0]
        FT.SEARCH i hello INFIELDS 1 u NOCONTENT => [2 "d1" "d3"]
        FT.SEARCH i hello INFIELDS 1 nope NOCONTENT => [0]
        FT.SEARCH i run NOCONTENT WITHSCORES => [1 "d4" "2"]
        FT.SEARCH i run NOCONTENT VERBATIM => [0]
        FT.SEARCH i run NOCONTENT EXPANDER nope => [0]
        FT.SEARCH i @u:(run) NOCONTENT => [0]
        FT.SEARCH i -hello NOCONTENT => [1 "d4"]
        FT.SEARCH i "run* ~hello" NOCONTENT => [1 "d4"]
        FT.SEARCH i "%hallo% -big" NOCONTENT => [2 "d3" "d2"]
        FT.SEARCH i "*orl*" NOCONTENT DIALECT 2 LIMIT 0 0 => [4]
        FT.SEARCH i hello SORTBY t NOCONTENT => [3 "d1" "d2" "d3"]
        FT.SEARCH i hello INKEYS 2 d2 d4 NOCONTENT => [1 "d2"]
        FT.SEARCH i "hello|running" NOCONTENT LIMIT 1 2 => [4 "d1" "d3"]
        FT.SEARCH i "hello @t:big" => [1 "d1" ["t" "hello big world hello" "u" "hello"]]
        FT.SEARCH i the NOCONTENT => [0]
        "#,
    );
}

#[test]
fn options_of_an_index_matter_to_its_words() {
    let mut client = Client::new();
    greetings(&mut client, "NOOFFSETS");
    client.follow(
        r#"
        FT.SEARCH i "\"hello world\"" NOCONTENT WITHSCORES => [3 "d3" "1.3333333333333333" "d1" "1.25" "d2" "1"]
        FT.SEARCH i "hello world" SLOP 0 INORDER NOCONTENT => [3 "d3" "d1" "d2"]
        "#,
    );
    greetings(&mut client, "NOFREQS");
    client.follow(
        r#"
        FT.SEARCH i hello NOCONTENT WITHSCORES => [3 "d2" "0.5" "d3" "0.3333333333333333" "d1" "0.25"]
        "#,
    );
    greetings(&mut client, "NOFIELDS");
    client.follow(
        r#"
        FT.SEARCH i @u:hello NOCONTENT => [3 "d1" "d3" "d2"]
        FT.SEARCH i "\"hello world\"" NOCONTENT => [1 "d2"]
        "#,
    );
    greetings(&mut client, "STOPWORDS 1 Hello");
    client.follow(
        r#"
        FT.SEARCH i hello NOCONTENT => [0]
        FT.SEARCH i "hello world" NOCONTENT LIMIT 0 0 => [4]
        FT.SEARCH i "hello world" NOSTOPWORDS NOCONTENT LIMIT 0 0 => [0]
        HSET d5 t "the" => 1
        FT.SEARCH i the NOCONTENT => [1 "d5"]
        "#,
    );
    greetings(&mut client, "LANGUAGE german LANGUAGE_FIELD lang SCORE 0.5 SCORE_FIELD s");
    client.follow(
        r#"
        HSET d5 t laufenden => 1
        FT.SEARCH i laufend NOCONTENT WITHSCORES => [1 "d5" "1"]
        FT.SEARCH i laufend NOCONTENT VERBATIM => [0]
        HSET d5 lang english s 0.25 => 2
        FT.SEARCH i laufend NOCONTENT => [0]
        FT.SEARCH i laufenden NOCONTENT WITHSCORES SCORER DOCSCORE => [1 "d5" "0.25"]
        "#,
    );
}

#[test]
fn scores_are_explained() {
    let mut client = Client::new();
    client.run("FT.CREATE i PAYLOAD_FIELD p SCHEMA t TEXT u TEXT WEIGHT 2 g TAG n NUMERIC");
    settle(&mut client, "i");
    client.follow(
        r#"
        HSET d1 t "hello world" u hello g a n 1 p abcd => 5
        HSET d2 t "hello there big world" g a,b n 2 p abce => 4
        HSET d3 t "foo bar" g b n 3 => 3
        HSET d4 t "running hello runs" g b,abc n 4 => 3
        FT.SEARCH i "(hello world)=>{$weight:3}" NOCONTENT WITHSCORES EXPLAINSCORE LIMIT 0 1 DIALECT 2 => [2 "d1" ["4" [Final TFIDF : words TFIDF 12.00 * document score 1.00 / norm 3 / slop 1 [[(Weight 3.00 * total children TFIDF 4.00) [(TFIDF 1.00 = Weight 1.00 * TF 1 * IDF 1.00) (TFIDF 3.00 = Weight 1.00 * TF 3 * IDF 1.00)]]]]]]
        FT.SEARCH i "hello @n:[1 3] @g:{a}" NOCONTENT WITHSCORES EXPLAINSCORE SCORER BM25STD LIMIT 0 1 DIALECT 2 => [2 "d1" ["1.1703973710595084" [Final BM25 : words BM25 1.17 * document score 1.00 [[(Weight 1.00 * children BM25 1.17) [a: (0.64 = IDF 0.69 * (F 1.00 * (k1 1.2 + 1)) / (F 1.00 + k1 1.2 * (1 - b 0.5 + b 0.5 * Doc Len 4 / Average Doc Len 3.00))) hello: (0.54 = IDF 0.36 * (F 3.00 * (k1 1.2 + 1)) / (F 3.00 + k1 1.2 * (1 - b 0.5 + b 0.5 * Doc Len 4 / Average Doc Len 3.00))) Irrelevant token -> score is 0]]]]]]
        FT.SEARCH i "~foo" NOCONTENT WITHSCORES EXPLAINSCORE SCORER BM25 LIMIT 1 1 DIALECT 2 => [4 "d1" ["0" [Final BM25 : words BM25 0.00 * document score 1.00 / slop 1 [(0.00 = Weight 0.00 * F 1 / (F 1 + k1 1.2 * (1 - b 0.5 + b 0.5 * Average Len 3.00)))]]]]
        FT.SEARCH i "(hello|foo)=>{$weight:2}" NOCONTENT WITHSCORES EXPLAINSCORE SCORER DISMAX LIMIT 0 1 DIALECT 2 => [4 "d1" ["6" [6.00 = Weight 2.00 * children DISMAX 3.00 [DISMAX 3.00 = Weight 1.00 * Frequency 3]]]]
        FT.SEARCH i hello NOCONTENT WITHSCORES EXPLAINSCORE SCORER DOCSCORE LIMIT 0 1 => [3 "d1" ["1" Document's score is 1.00]]
        FT.SEARCH i hello NOCONTENT WITHSCORES SCORER HAMMING PAYLOAD abce => [3 "d2" "1" "d1" "0.5" "d4" "0"]
        FT.SEARCH i hello NOCONTENT WITHSCORES EXPLAINSCORE SCORER HAMMING PAYLOAD abcd LIMIT 0 1 => [3 "d1" ["1" String length is 4. Bit count is 0. Result is (1 / count + 1) = 1.00]]
        FT.SEARCH i "@g:{a|b}=>{$weight:5}" NOCONTENT WITHSCORES DIALECT 2 => [4 "d2" "50" "d3" "25" "d4" "12.5" "d1" "8.333333333333334"]
        FT.SEARCH i hello NOCONTENT WITHSCORES SCORER BM25STD.NORM LIMIT 0 1 => [3 "d1" "1"]
        "#,
    );
}

#[test]
fn definitions_and_errors_are_those_of_redis() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE a SCHEMA x TEXT PHONETIC => PHONETIC requires an argument
        FT.CREATE a SCHEMA x TEXT PHONETIC dm:en => ERR PHONETIC is not supported yet
        FT.CREATE a SCHEMA x TEXT WEIGHT abc => Bad arguments for weight: Could not convert argument to expected type
        FT.CREATE a SCHEMA x TEXT SORTABLE NOSTEM => Field `NOSTEM` does not have a type
        FT.CREATE a SCHEMA x TEXT SEPARATOR , => Invalid field type for field `SEPARATOR`
        FT.CREATE a SCHEMA x TEXT INDEXMISSING NOINDEX => 'Field `x` cannot be defined with both `NOINDEX` and `INDEXMISSING`'
        FT.CREATE a LANGUAGE klingon SCHEMA x TEXT => Invalid language
        FT.CREATE a SCHEMA t TEXT NOSTEM WITHSUFFIXTRIE INDEXMISSING SORTABLE UNF e TEXT INDEXEMPTY x TEXT NOINDEX => OK
        FT.SEARCH a "@t:\"\"" DIALECT 2 => Use `INDEXEMPTY` in field creation in order to index and query for empty strings
        FT.SEARCH a "@e:*ing" DIALECT 2 => Contains query on fields without WITHSUFFIXTRIE support
        FT.SEARCH a "ismissing(@e)" DIALECT 2 => 'ismissing' requires field 'e' to be defined with 'INDEXMISSING'
        FT.SEARCH a x LANGUAGE nope => No such language
        FT.SEARCH a x SLOP x => Bad arguments for SLOP: Could not convert argument to expected type
        FT.EXPLAIN a "@e|t:running fast" => "@t|e:INTERSECT {\n  @t|e:UNION {\n    @t|e:running\n    @t|e:+run(expanded)\n    @t|e:run(expanded)\n  }\n  @t|e:UNION {\n    @t|e:fast\n    @t|e:+fast(expanded)\n  }\n}\n"
        FT.EXPLAIN a "@x:running" VERBATIM => "@NULL:running\n"
        HSET d1 t One e "" => 2
        HSET d2 e two x hidden => 2
        HSET d3 t "" e the => 2
        FT.SEARCH a "@e:\"\"" DIALECT 2 NOCONTENT => [1 "d1"]
        FT.SEARCH a "ismissing(@t)" DIALECT 2 NOCONTENT => [1 "d2"]
        FT.SEARCH a hidden NOCONTENT => [0]
        FT.SEARCH a "*" SORTBY t NOCONTENT WITHSORTKEYS => [3 "d3" "$" "d1" "$One" "d2" nil]
        FT.CREATE b STOPWORDS 2 Foo bar SCHEMA x TEXT WEIGHT 2.5 => OK
        "#,
    );
    assert_eq!(figure(&mut client, "b", "stopwords_list"), "[\"bar\" \"foo\"]");
    assert_eq!(
        figure(&mut client, "a", "attributes"),
        "[[identifier \"t\" attribute \"t\" type TEXT WEIGHT \"1\" SORTABLE UNF NOSTEM \
         WITHSUFFIXTRIE INDEXMISSING] [identifier \"e\" attribute \"e\" type TEXT WEIGHT \"1\" \
         INDEXEMPTY] [identifier \"x\" attribute \"x\" type TEXT WEIGHT \"1\" NOINDEX]]"
    );
    let fields = |count: usize| -> String { (0..count).map(|n| format!(" t{n} TEXT")).collect() };
    let create = format!("FT.CREATE c SCHEMA{}", fields(129));
    assert_eq!(client.run(&create), "Schema is limited to 128 TEXT fields");
    assert_eq!(client.run(&format!("FT.CREATE c SCHEMA{}", fields(32))), "OK");
    assert_eq!(
        client.run("FT.ALTER c SCHEMA ADD more TEXT"),
        "Cannot add more fields. Declare index with wide fields to allow adding unlimited fields"
    );
    assert_eq!(client.run("FT.ALTER c SCHEMA ADD more TEXT NOINDEX"), "OK");
    assert_eq!(client.run(&format!("FT.CREATE d SCHEMA{}", fields(33))), "OK");
    assert_eq!(client.run("FT.ALTER d SCHEMA ADD more TEXT"), "OK");
}

#[test]
fn words_follow_every_change_of_a_key() {
    let mut client = Client::new();
    client.follow(
        r#"
        HSET d:0 t old n 1 => 2
        FT.CREATE i PREFIX 1 d: SCHEMA t TEXT u TEXT n NUMERIC INDEXMISSING => OK
        HSET d:1 t "some words" u more n 1 => 3
        HSET d:1 n 2 => 0
        FT.SEARCH i "some more @n:[2 2]" NOCONTENT => [1 "d:1"]
        HSET d:1 t other => 0
        FT.SEARCH i some NOCONTENT => [0]
        FT.SEARCH i "other more" NOCONTENT => [1 "d:1"]
        HDEL d:1 u => 1
        FT.SEARCH i more NOCONTENT => [0]
        RENAME d:1 d:2 => OK
        FT.SEARCH i other NOCONTENT => [1 "d:2"]
        COPY d:2 d:3 => 1
        FT.SEARCH i other NOCONTENT => [2 "d:2" "d:3"]
        RENAME d:3 e:3 => OK
        FT.SEARCH i other NOCONTENT => [1 "d:2"]
        SET d:2 text => OK
        FT.SEARCH i other NOCONTENT => [0]
        HSET d:4 t hidden n x => 2
        FT.SEARCH i hidden NOCONTENT => [0]
        HSET d:4 t found => 0
        HSET d:4 n 5 => 0
        FT.SEARCH i "found @n:[5 5]" NOCONTENT => [1 "d:4"]
        HSET d:4 n y => 0
        FT.SEARCH i found NOCONTENT => [0]
        HDEL d:4 n => 1
        FT.SEARCH i "found" NOCONTENT => [1 "d:4"]
        MULTI => OK
        HSET d:5 t now => QUEUED
        FT.SEARCH i now NOCONTENT => QUEUED
        DEL d:5 => QUEUED
        FT.SEARCH i now NOCONTENT => QUEUED
        EXEC => [1 [1 "d:5"] 1 [0]]
        FT.ALTER i SCHEMA ADD v TEXT => OK
        "#,
    );
    settle(&mut client, "i");
    client.follow(
        r#"
        FT.SEARCH i @t:old NOCONTENT => [1 "d:0"]
        HSET d:0 v later => 1
        FT.SEARCH i @v:(later) NOCONTENT => [1 "d:0"]
        FT.SEARCH i "@v:(old)" NOCONTENT => [0]
        FLUSHALL => OK
        HSET d:0 t old => 1
        FT.SEARCH i old => i: no such index
        "#,
    );
}

#[test]
fn expired_texts_are_not_found() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i PREFIX 1 e: SCHEMA t TEXT u TEXT n NUMERIC => OK
        HSET e:1 t one u other => 2
        HSET e:2 t one u other => 2
        HSET e:3 t one n x => 2
        PEXPIRE e:1 50 => 1
        HPEXPIRE e:2 70 FIELDS 1 t => [1]
        HPEXPIRE e:3 100 FIELDS 1 n => [1]
        FT.SEARCH i one NOCONTENT => [2 "e:1" "e:2"]
        "#,
    );
    client.wait(60);
    client.follow("FT.SEARCH i one NOCONTENT => [1 \"e:2\"]");
    client.wait(20);
    client.follow(
        r#"
        FT.SEARCH i one NOCONTENT => [0]
        FT.SEARCH i other NOCONTENT => [1 "e:2"]
        "#,
    );
    client.wait(50);
    client.follow("FT.SEARCH i \"one|other\" NOCONTENT => [2 \"e:2\" \"e:3\"]");
}

#[test]
fn words_of_removed_documents_are_freed() {
    let mut client = Client::new();
    let keyspace = client.exec.ks.keyspace().clone();
    client.call(&[b"HSET", b"x", b"n", b"1"]);
    let before = keyspace.stats().used;
    client.run("FT.CREATE i PREFIX 1 e: SCHEMA t TEXT SORTABLE n NUMERIC");
    settle(&mut client, "i");
    let mut after_first = 0;
    for round in 0..8 {
        for n in 0..600 {
            let (key, text) = (format!("e:{n}"), format!("some words of {} {}", n % 7, n % 90));
            client.call(&[b"HSET", key.as_bytes(), b"t", text.as_bytes(), b"n", b"1"]);
        }
        let used = keyspace.stats().used;
        if round == 0 {
            after_first = used;
        }
        // Postings of replaced texts are freed once there are many.
        assert!(used < 2 * after_first + 200_000, "{round}: {before} {after_first} {used}");
        assert_eq!(client.run("FT.SEARCH i words LIMIT 0 0"), "[600]");
    }
    let records: usize = figure(&mut client, "i", "num_records").parse().unwrap();
    assert!(records < 600 * 8 * 3, "{records}");
    client.run("FT.DROPINDEX i DD");
    let after = keyspace.stats().used;
    assert!(after.abs_diff(before) < 100_000, "{before} {after}");
}

#[test]
fn hostile_queries_end() {
    let mut client = Client::new();
    client.run("FT.CREATE i SCHEMA t TEXT");
    settle(&mut client, "i");
    let words: String = (0..2000).map(|n| format!("word{n:04} ")).collect();
    for n in 0..20 {
        let key = format!("d{n}");
        client.call(&[b"HSET", key.as_bytes(), b"t", words.as_bytes()]);
    }
    let mut search = |query: &str| {
        client.call(&[b"FT.SEARCH", b"i", query.as_bytes(), b"NOCONTENT", b"DIALECT", b"2"])
    };
    assert_eq!(show(&search(&words)).split_whitespace().next(), Some("[20"));
    assert_eq!(
        show(&search(&words.trim().replace(' ', "|"))).split_whitespace().next(),
        Some("[20")
    );
    // Each prefix stands for 200 words.
    let prefixes = vec!["word*"; 400].join("|");
    let error = show(&search(&prefixes));
    assert_eq!(error, "ERR the query has more terms than are searched at once");
    let phrase = format!("\"{}\"", words.trim());
    assert_eq!(show(&search(&phrase)).split_whitespace().next(), Some("[20"));
    let nested = format!("{}word0001{}", "(".repeat(120), ")".repeat(120));
    assert_eq!(show(&search(&nested)).split_whitespace().next(), Some("[20"));
    let stars = format!("w'{}'", "*o".repeat(300));
    assert_eq!(show(&search(&stars)), "[0]");
}
