//! The query engine: replies, changes of every kind, several threads, permissions, transactions and
//! scripts.

use crate::client::{Client, show};
use petrel_keyspace::Policy;
use petrel_resp::Value;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Waits until an index has read all keys.
pub(crate) fn settle(client: &mut Client, index: &str) {
    let start = Instant::now();
    while field_of(client, index, "indexing") != "0" {
        assert!(start.elapsed() < Duration::from_secs(60), "{index} is not complete");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A figure of `FT.INFO`.
pub fn field_of(client: &mut Client, index: &str, name: &str) -> String {
    let Value::Array(info) = client.call(&[b"FT.INFO", index.as_bytes()]) else {
        panic!("no FT.INFO of {index}");
    };
    let at = info.iter().position(|part| show(part).trim_matches('"') == name);
    show(&info[at.unwrap() + 1]).trim_matches('"').to_string()
}

fn books(client: &mut Client) {
    client.follow(
        r#"
        FT.CREATE books ON HASH PREFIX 1 b: SCHEMA price NUMERIC SORTABLE topic TAG isbn TAG CASESENSITIVE SORTABLE year AS y NUMERIC => OK
        HSET b:1 price 10 topic "Physics, Maths" isbn aB year 1990 pages 100 => 5
        HSET b:2 price 20 topic physics isbn ab year 2000 => 4
        HSET b:3 price 30 topic art year 2010 => 3
        HSET c:1 price 40 topic art => 2
        "#,
    );
    settle(client, "books");
}

#[test]
fn documents_are_found_by_tags_and_numbers() {
    let mut client = Client::new();
    books(&mut client);
    client.follow(
        r#"
        FT.SEARCH books * NOCONTENT => [3 "b:1" "b:2" "b:3"]
        FT.SEARCH books @topic:{physics} NOCONTENT => [2 "b:1" "b:2"]
        FT.SEARCH books "@topic:{maths|art}" NOCONTENT => [2 "b:1" "b:3"]
        FT.SEARCH books "@price:[15 30]" NOCONTENT => [2 "b:2" "b:3"]
        FT.SEARCH books "@price:[(20 +inf]" NOCONTENT => [1 "b:3"]
        FT.SEARCH books "@y:[1990 2000] -@topic:{maths}" NOCONTENT => [1 "b:2"]
        FT.SEARCH books @isbn:{ab} NOCONTENT => [1 "b:2"]
        FT.SEARCH books @isbn:{AB} NOCONTENT => [0]
        FT.SEARCH books "@topic:{ph*}" NOCONTENT => [2 "b:1" "b:2"]
        FT.SEARCH books "@topic:{p*}" NOCONTENT => [0]
        FT.SEARCH books "@topic:{*cs}" NOCONTENT DIALECT 2 => [2 "b:1" "b:2"]
        FT.SEARCH books "@topic:{w'?rt'}" NOCONTENT DIALECT 2 => [1 "b:3"]
        FT.SEARCH books "@price:[$a $b]" NOCONTENT PARAMS 4 a 10 b 20 DIALECT 2 => [2 "b:1" "b:2"]
        FT.SEARCH books word NOCONTENT => [0]
        FT.SEARCH books @nothing:{a} NOCONTENT => [0]
        FT.SEARCH books * FILTER price 20 30 FILTER y 1900 2005 NOCONTENT => [1 "b:2"]
        FT.SEARCH books * FILTER price (20 30 NOCONTENT => [1 "b:3"]
        FT.SEARCH books * INKEYS 3 b:3 b:1 nothing NOCONTENT SORTBY price => [2 "b:1" "b:3"]
        FT.SEARCH books * INKEYS 0 NOCONTENT => [0]
        FT.SEARCH books "@topic:{physics}" LIMIT 1 1 NOCONTENT => [2 "b:2"]
        FT.SEARCH books * LIMIT 0 0 => [3]
        FT.SEARCH books * SORTBY price DESC LIMIT 0 2 NOCONTENT => [3 "b:3" "b:2"]
        FT.SEARCH books * SORTBY topic NOCONTENT WITHSORTKEYS => [3 "b:1" "$Physics, Maths" "b:3" "$art" "b:2" "$physics"]
        FT.SEARCH books * SORTBY isbn NOCONTENT WITHSORTKEYS => [3 "b:1" "$aB" "b:2" "$ab" "b:3" nil]
        FT.SEARCH books "@price:[10 10]" => [1 "b:1" ["price" "10" "topic" "Physics, Maths" "isbn" "aB" "year" "1990" "pages" "100"]]
        FT.SEARCH books "@price:[10 10]" RETURN 5 y AS when pages nothing => [1 "b:1" ["when" "1990" "pages" "100"]]
        FT.SEARCH books "@price:[10 10]" RETURN 0 => [1 "b:1"]
        FT.SEARCH books "@price:[10 10]" RETURN 1 price WITHSCORES SCORER DOCSCORE => [1 "b:1" "1" ["price" "10"]]
        FT.SEARCH books "@price:[10 10]" RETURN 1 price WITHPAYLOADS => [1 "b:1" nil ["price" "10"]]
        FT.SEARCH books "@price:[20 10]" NOCONTENT => [0]
        FT.TAGVALS books topic => ["art" "maths" "physics"]
        FT.TAGVALS books price => Not a tag field
        FT.TAGVALS books nothing => No such field
        FT._LIST => ["books"]
        "#,
    );
    let mut client = client.another().resp3();
    client.follow(
        r##"
        FT.SEARCH books "@price:[10 10]" RETURN 1 price WITHSORTKEYS SORTBY price => {attributes: [], total_results: 1, format: STRING, results: [{id: "b:1", sortkey: "#10", extra_attributes: {"price": "10"}, values: []}], warning: []}
        FT.SEARCH books "@price:[10 10]" NOCONTENT => {attributes: [], total_results: 1, format: STRING, results: [{id: "b:1", values: []}], warning: []}
        "##,
    );
}

#[test]
fn errors_are_those_of_redis() {
    let mut client = Client::new();
    books(&mut client);
    client.follow(
        r#"
        FT.CREATE books SCHEMA n NUMERIC => Index already exists
        FT.CREATE j => ERR wrong number of arguments for 'ft.create' command
        FT.CREATE j SCHEMA n FOO => Invalid field type for field `n`
        FT.CREATE j SCHEMA n NUMERIC FOO => Field `FOO` does not have a type
        FT.CREATE j SCHEMA n NUMERIC n TAG => Duplicate field in schema - n
        FT.CREATE j ON FOO SCHEMA n NUMERIC => Invalid rule type: FOO
        FT.CREATE j PREFIX x a SCHEMA n NUMERIC => Bad arguments for PREFIX: Could not convert argument to expected type
        FT.CREATE j FOO SCHEMA n NUMERIC => Unknown argument `FOO`
        FT.CREATE j LANGUAGE foo SCHEMA n NUMERIC => Invalid language
        FT.CREATE j SCORE 2 SCHEMA n NUMERIC => Invalid score
        FT.CREATE j SCHEMA n TAG SEPARATOR => SEPARATOR requires an argument
        FT.CREATE j SCHEMA n TAG SEPARATOR ab => Tag separator must be a single character. Got `ab`
        FT.CREATE j SCHEMA n GEO => ERR fields of type GEO are not supported yet
        FT.ALTER nothing SCHEMA ADD x TAG => Unknown index name
        FT.ALTER books SCHEMA ADD price TAG => Duplicate field in schema - price
        FT.DROPINDEX nothing => Unknown Index name
        FT.INFO nothing => Unknown index name
        FT.TAGVALS nothing f => Unknown Index name
        FT.SEARCH nothing * => nothing: no such index
        FT.SEARCH books => No query string provided
        FT.SEARCH books "@price:[" => Syntax error at offset 7 near price
        FT.SEARCH books * FOO => Unknown argument `FOO` at position 1 for <main>
        FT.SEARCH books * SORTBY price FOO => Unknown argument `FOO` at position 3 for <main>
        FT.SEARCH books * SORTBY nothing => Property `nothing` not loaded nor in schema
        FT.SEARCH books * SORTBY price SORTBY y => Multiple SORTBY steps are not allowed
        FT.SEARCH books * SORTBY => Bad SORTBY arguments
        FT.SEARCH books * LIMIT 0 => LIMIT requires two arguments
        FT.SEARCH books * LIMIT -1 0 => LIMIT needs two numeric arguments
        FT.SEARCH books * LIMIT 0 1000001 => LIMIT exceeds maximum of 1000000
        FT.SEARCH books * LIMIT 1000001 1 => OFFSET exceeds maximum of 1000000
        FT.SEARCH books * DIALECT 5 => DIALECT requires a non negative integer >=1 and <= 4
        FT.SEARCH books * RETURN 2 price => Bad arguments for RETURN: Expected an argument, but none provided
        FT.SEARCH books * RETURN 2 price AS => RETURN path AS name - must be accompanied with NAME
        FT.SEARCH books * RETURN -1 => Bad arguments for RETURN: Value is outside acceptable bounds
        FT.SEARCH books * FILTER price 1 => FILTER requires 3 arguments
        FT.SEARCH books * FILTER price a 1 => Bad lower range: a
        FT.SEARCH books * TIMEOUT -1 => TIMEOUT requires a non negative integer
        FT.SEARCH books * PARAMS 1 a => Parameters must be specified in PARAM VALUE pairs
        FT.SEARCH books "@price:[$a 5]" DIALECT 2 => No such parameter `a`
        FT.SEARCH books * LANGUAGE foo => No such language
        FT.SEARCH books * SCORER foo => No such scorer foo
        FT.SEARCH books * FORMAT FOO => FORMAT FOO is not supported
        FT.SEARCH books * FORMAT EXPAND => EXPAND format is only supported with RESP3
        FT.SEARCH books * EXPLAINSCORE => EXPLAINSCORE must be accompanied with WITHSCORES
        FT.SEARCH books ismissing(@price) DIALECT 2 => 'ismissing' requires field 'price' to be defined with 'INDEXMISSING'
        FT.ALIASADD a nothing => Unknown index name (or name is an alias itself)
        FT.ALIASDEL a => Alias does not exist
        "#,
    );
}

#[test]
fn values_that_do_not_fit_hide_their_document_until_they_do() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i PREFIX 1 e: SKIPINITIALSCAN SCHEMA n NUMERIC INDEXMISSING t TAG INDEXEMPTY INDEXMISSING => OK
        HSET e:1 n 0x10 t a,,b => 2
        HSET e:2 n foo t a => 2
        HSET e:3 other 1 => 1
        HSET e:4 n -inf => 1
        FT.SEARCH i * NOCONTENT => [3 "e:1" "e:3" "e:4"]
        FT.TAGVALS i t => ["" "a" "b"]
        FT.SEARCH i "@t:{\x22\x22}" NOCONTENT DIALECT 2 => [1 "e:1"]
        FT.SEARCH i "@n:[-inf 16]" NOCONTENT SORTBY n => [2 "e:4" "e:1"]
        FT.SEARCH i ismissing(@n) NOCONTENT DIALECT 2 => [1 "e:3"]
        HSET e:2 n 5 => 0
        FT.SEARCH i @t:{a} NOCONTENT => [2 "e:1" "e:2"]
        HSET e:2 n foo => 0
        FT.SEARCH i @t:{a} NOCONTENT => [1 "e:1"]
        HSET e:2 t c => 0
        HDEL e:2 n => 1
        FT.SEARCH i @t:{a} NOCONTENT => [1 "e:1"]
        FT.SEARCH i @t:{c} NOCONTENT => [1 "e:2"]
        FT.SEARCH i "ismissing(@n) @t:{c}" NOCONTENT DIALECT 2 => [1 "e:2"]
        "#,
    );
    assert_eq!(field_of(&mut client, "i", "hash_indexing_failures"), "2");
}

#[test]
fn an_index_follows_every_change_of_a_key() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i PREFIX 1 e: SCHEMA n NUMERIC t TAG => OK
        HSET e:1 n 1 t a => 2
        HINCRBY e:1 n 4 => 5
        FT.SEARCH i "@n:[5 5]" NOCONTENT => [1 "e:1"]
        HINCRBYFLOAT e:1 n 0.5 => "5.5"
        FT.SEARCH i "@n:[5.5 5.5]" NOCONTENT => [1 "e:1"]
        RENAME e:1 f:1 => OK
        FT.SEARCH i * NOCONTENT => [0]
        RENAME f:1 e:2 => OK
        FT.SEARCH i "@t:{a}" NOCONTENT => [1 "e:2"]
        COPY e:2 e:3 => 1
        FT.SEARCH i "@t:{a} @n:[5 6]" NOCONTENT SORTBY n => [2 "e:2" "e:3"]
        HSETNX e:4 t b => 1
        FT.SEARCH i "@t:{b}" NOCONTENT => [1 "e:4"]
        HDEL e:4 t => 1
        FT.SEARCH i "@t:{b}" NOCONTENT => [0]
        SET e:2 string => OK
        FT.SEARCH i "@t:{a}" NOCONTENT => [1 "e:3"]
        DEL e:3 => 1
        FT.SEARCH i * NOCONTENT => [0]
        RPUSH e:5 x => 1
        DEL e:5 => 1
        HSET e:5 n 1 => 1
        MOVE e:5 1 => 1
        FT.SEARCH i * NOCONTENT => [0]
        HSET e:6 n 1 t a => 2
        PEXPIREAT e:6 1 => 1
        FT.SEARCH i * NOCONTENT => [0]
        HSET e:7 n 1 t a => 2
        EVAL "redis.call('HSET', KEYS[1], 'n', 7) return redis.call('HGET', KEYS[1], 'n')" 1 e:7 => "7"
        FT.SEARCH i "@n:[7 7]" NOCONTENT => [1 "e:7"]
        "#,
    );
    let dump = client.call(&[b"DUMP", b"e:7"]);
    let Value::Bulk(dump) = dump else { panic!("{dump:?}") };
    assert_eq!(show(&client.call(&[b"RESTORE", b"e:8", b"0", &dump])), "OK");
    client.follow("FT.SEARCH i \"@n:[7 7]\" LIMIT 0 0 => [2]");
}

#[test]
fn expired_keys_and_fields_are_not_found() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i PREFIX 1 e: SCHEMA n NUMERIC INDEXMISSING t TAG => OK
        HSET e:1 n 1 t a => 2
        HSET e:2 n 2 t a => 2
        HSET e:3 n foo t a => 2
        HPEXPIRE e:3 100 FIELDS 1 n => [1]
        PEXPIRE e:1 50 => 1
        FT.SEARCH i @t:{a} NOCONTENT => [2 "e:1" "e:2"]
        HPEXPIRE e:2 70 FIELDS 1 n => [1]
        "#,
    );
    client.wait(60);
    client.follow(
        r#"
        FT.SEARCH i @t:{a} => [1 "e:2" ["n" "2" "t" "a"]]
        FT.SEARCH i "@n:[2 2]" NOCONTENT => [1 "e:2"]
        "#,
    );
    client.wait(20);
    client.follow(
        r#"
        FT.SEARCH i "@n:[2 2]" NOCONTENT => [0]
        FT.SEARCH i ismissing(@n) NOCONTENT DIALECT 2 => [1 "e:2"]
        HSET e:2 n 3 => 1
        HPEXPIRE e:2 1000 FIELDS 1 n => [1]
        HPERSIST e:2 FIELDS 1 n => [1]
        "#,
    );
    // The document with a value that is no number is found once the value has expired.
    client.wait(50);
    client.follow(
        r#"
        FT.SEARCH i @t:{a} NOCONTENT SORTBY n => [2 "e:2" "e:3"]
        PERSIST e:2 => 0
        "#,
    );
    client.wait(5000);
    client.follow("FT.SEARCH i \"@n:[3 3]\" NOCONTENT => [1 \"e:2\"]");
}

#[test]
fn definitions_change() {
    let mut client = Client::new();
    books(&mut client);
    client.follow(
        r#"
        FT.ALTER books SCHEMA ADD pages NUMERIC => OK
        FT.ALIASADD a books => OK
        FT.ALIASADD a books => Alias already exists
        FT.ALIASADD b a => Unknown index name (or name is an alias itself)
        FT.SEARCH a @topic:{art} NOCONTENT => [1 "b:3"]
        FT.CREATE other PREFIX 1 c: SCHEMA price NUMERIC => OK
        FT.ALIASUPDATE a other => OK
        "#,
    );
    settle(&mut client, "books");
    settle(&mut client, "other");
    client.follow(
        r#"
        FT.SEARCH books "@pages:[100 100]" NOCONTENT => [1 "b:1"]
        FT.SEARCH a * NOCONTENT => [1 "c:1"]
        FT.ALIASDEL a => OK
        FT.SEARCH a * => a: no such index
        FT.CREATE late PREFIX 1 b: SKIPINITIALSCAN SCHEMA price NUMERIC => OK
        FT.SEARCH late * => [0]
        HSET b:3 price 31 => 0
        FT.SEARCH late * NOCONTENT => [1 "b:3"]
        FT.DROPINDEX late => OK
        EXISTS b:3 => 1
        FT.DROPINDEX other DD => OK
        EXISTS c:1 => 0
        FT._LIST => ["books"]
        SELECT 1 => OK
        FT._LIST => []
        FT.CREATE books SCHEMA t TAG => OK
        HSET x t a => 1
        FT.SEARCH books * NOCONTENT => [1 "x"]
        SWAPDB 0 1 => OK
        FT.SEARCH books "@price:[10 10]" NOCONTENT => [1 "b:1"]
        HSET b:9 price 11 => 1
        FT.SEARCH books "@price:[10 11]" NOCONTENT SORTBY price => [2 "b:1" "b:9"]
        SELECT 0 => OK
        FT.SEARCH books * NOCONTENT => [1 "x"]
        FLUSHDB => OK
        FT._LIST => []
        SELECT 1 => OK
        FT._LIST => ["books"]
        FLUSHALL => OK
        FT._LIST => []
        FT.CREATE books SCHEMA t TAG => OK
        FT.SEARCH books * => [0]
        "#,
    );
}

#[test]
fn transactions_and_scripts_read_their_own_writes() {
    let mut client = Client::new();
    client.follow(
        r#"
        FT.CREATE i PREFIX 1 e: SCHEMA n NUMERIC => OK
        MULTI => OK
        HSET e:1 n 1 => QUEUED
        FT.SEARCH i "@n:[1 1]" => QUEUED
        HSET e:1 n 2 => QUEUED
        FT.SEARCH i "@n:[1 1]" NOCONTENT => QUEUED
        EXEC => [1 [1 "e:1" ["n" "1"]] 0 [0]]
        FT.SEARCH i "@n:[2 2]" NOCONTENT => [1 "e:1"]
        EVAL "redis.call('HSET', KEYS[1], 'n', 3) return redis.call('FT.SEARCH', 'i', '@n:[3 3]')" 1 e:1 => [1 "e:1" ["n" "3"]]
        MULTI => OK
        FT.CREATE j PREFIX 1 f: SCHEMA n NUMERIC => QUEUED
        HSET f:1 n 1 => QUEUED
        FT.SEARCH j * NOCONTENT => QUEUED
        EXEC => [OK 1 [1 "f:1"]]
        "#,
    );
}

#[test]
fn memory_of_an_index_is_counted_and_given_back() {
    let mut client = Client::new();
    let keyspace = client.exec.ks.keyspace().clone();
    client.call(&[b"HSET", b"x", b"n", b"1"]);
    let before = keyspace.stats().used;
    for (command, is_inside) in [("FT.DROPINDEX i", false), ("FLUSHALL", true)] {
        client.run("FT.CREATE i PREFIX 1 e: SCHEMA n NUMERIC SORTABLE t TAG u TAG SORTABLE");
        let keys: Vec<String> = (0..2000).map(|n| format!("e:{n}")).collect();
        for (n, key) in keys.iter().enumerate() {
            let (n, t) = (n.to_string(), format!("a{},b{}", n % 7, n % 300));
            client.call(&[
                b"HSET",
                key.as_bytes(),
                b"n",
                n.as_bytes(),
                b"t",
                t.as_bytes(),
                b"u",
                n.as_bytes(),
            ]);
        }
        let megabytes: f64 =
            field_of(&mut client, "i", "total_index_memory_sz_mb").parse().unwrap();
        let with = keyspace.stats().used;
        for key in keys.iter().filter(|_| !is_inside) {
            client.call(&[b"DEL", key.as_bytes()]);
        }
        if !is_inside {
            let empty: f64 =
                field_of(&mut client, "i", "total_index_memory_sz_mb").parse().unwrap();
            assert!(empty < megabytes, "{empty} {megabytes}");
        }
        assert!((with - before) as f64 > megabytes * 1_048_576.0, "{with} {before} {megabytes}");
        client.run(command);
        if is_inside {
            client.call(&[b"HSET", b"x", b"n", b"1"]);
        }
        let after = keyspace.stats().used;
        // Tables of keys have grown; definitions have another length.
        assert!(after.abs_diff(before) < 100_000, "{command}: {before} {with} {after}");
    }
}

#[test]
fn a_walk_waits_for_memory() {
    let mut client = Client::new();
    for n in 0..5000 {
        let key = format!("e:{n}");
        client.call(&[b"HSET", key.as_bytes(), b"n", b"1"]);
    }
    let keyspace = client.exec.ks.keyspace().clone();
    keyspace.set_memory_limit(1, Policy::NoEviction);
    assert!(client.run("FT.CREATE i PREFIX 1 e: SCHEMA n NUMERIC").starts_with("OOM"));
    keyspace.set_memory_limit(0, Policy::NoEviction);
    client.run("FT.CREATE j PREFIX 1 e: SKIPINITIALSCAN SCHEMA n NUMERIC");
    // The walk begins while memory is above the limit.
    let view = keyspace.indexes().view();
    keyspace.set_memory_limit(1, Policy::NoEviction);
    drop(keyspace.scan_for_index(&view.indexes[0].live, 2));
    let start = Instant::now();
    while !view.indexes[0].live.scan.is_paused.load(Relaxed) {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    assert_eq!(field_of(&mut client, "j", "indexing"), "1");
    keyspace.set_memory_limit(0, Policy::NoEviction);
    settle(&mut client, "j");
    assert_eq!(client.run("FT.SEARCH j * LIMIT 0 0"), "[5000]");
}

/// Threads write documents and search for them at once, while indexes are made and keys evicted or
/// removed by other threads.
#[test]
fn every_write_is_found_by_the_next_query() {
    let client = Client::new();
    let (threads, rounds) = (8u64, 400u64);
    let mut first = client.another();
    for n in 0..3000 {
        let key = format!("e:old:{n}");
        first.call(&[b"HSET", key.as_bytes(), b"n", b"-1", b"t", b"old"]);
    }
    first.run("FT.CREATE i PREFIX 1 e: SCHEMA n NUMERIC SORTABLE t TAG");
    // What another thread has been shown is found as well.
    let shown: Arc<Vec<AtomicU64>> = Arc::new((0..threads).map(|_| AtomicU64::new(0)).collect());
    let keyspace = client.exec.ks.keyspace().clone();
    let shared = client.exec.shared.clone();
    let workers: Vec<_> = (0..threads)
        .map(|me| {
            let (keyspace, shared, shown) = (keyspace.clone(), shared.clone(), shown.clone());
            std::thread::spawn(move || {
                let mut client = Client::of(&keyspace, shared);
                for round in 1..=rounds {
                    let key = format!("e:{me}:{}", round % 20);
                    let number = (me * 1_000_000 + round).to_string();
                    let tag = format!("t{number}");
                    client.call(&[
                        b"HSET",
                        key.as_bytes(),
                        b"n",
                        number.as_bytes(),
                        b"t",
                        tag.as_bytes(),
                    ]);
                    let found =
                        client.run(&format!("FT.SEARCH i \"@n:[{number} {number}]\" NOCONTENT"));
                    assert_eq!(found, format!("[1 \"{key}\"]"));
                    let found = client.run(&format!("FT.SEARCH i @t:{{{tag}}} NOCONTENT"));
                    assert_eq!(found, format!("[1 \"{key}\"]"));
                    shown[me as usize].store(round, SeqCst);
                    let other = (me + 1) % threads;
                    let seen = shown[other as usize].load(SeqCst);
                    // The other's last document has this number or a later one.
                    if seen > 0 {
                        let low = other * 1_000_000 + seen;
                        let found = client.run(&format!(
                            "FT.SEARCH i \"@n:[{low} {}]\" LIMIT 0 0",
                            other * 1_000_000 + rounds
                        ));
                        assert_ne!(found, "[0]", "thread {me} misses {low}");
                    }
                    if round % 50 == 0 {
                        client.run(&format!("HSET e:{me}:gone t gone{me}"));
                        client.run(&format!("DEL e:{me}:gone"));
                        let found = client.run(&format!("FT.SEARCH i @t:{{gone{me}}} NOCONTENT"));
                        assert_eq!(found, "[0]");
                    }
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    settle(&mut first, "i");
    assert_eq!(first.run("FT.SEARCH i @t:{old} LIMIT 0 0"), "[3000]");
}

/// Each returned document was as returned at some time during the query.
#[test]
fn hits_were_true_at_one_moment() {
    let client = Client::new();
    let mut first = client.another();
    first.run("FT.CREATE i PREFIX 1 e: SCHEMA a NUMERIC b NUMERIC t TAG");
    let keyspace = client.exec.ks.keyspace().clone();
    let shared = client.exec.shared.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let failures: Arc<Mutex<Vec<String>>> = Arc::default();
    // Both numbers of a document are equal after each command; the sum of all is constant after
    // each transaction.
    for n in 0..50 {
        let key = format!("e:{n}");
        first.call(&[b"HSET", key.as_bytes(), b"a", b"100", b"b", b"100", b"t", b"x"]);
    }
    let writers = (0..3u64).map(|me| {
        let (keyspace, shared, stop) = (keyspace.clone(), shared.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut client = Client::of(&keyspace, shared);
            let mut n = me;
            while !stop.load(Relaxed) {
                n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let key = format!("e:{}", n >> 33 & 63);
                let value = (n >> 40 & 255).to_string();
                match n >> 50 & 7 {
                    0 => client.run(&format!("DEL {key}")),
                    1 => client.run(&format!("PEXPIRE {key} 0")),
                    _ => client.run(&format!("HSET {key} a {value} b {value} t x")),
                };
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for round in 0..600 {
        let found = match round % 2 {
            0 => first.call(&[b"FT.SEARCH", b"i", b"@a:[100 200]", b"LIMIT", b"0", b"100"]),
            _ => first.call(&[b"FT.SEARCH", b"i", b"@b:[100 200] -@a:[201 inf]"]),
        };
        let Value::Array(parts) = found else { panic!("{found:?}") };
        for fields in parts[1..].chunks_exact(2) {
            let text = show(&fields[1]);
            let number = |name: &str| -> u32 {
                let (_, rest) = text.split_once(&format!("\"{name}\" \"")).unwrap();
                rest.split_once('"').unwrap().0.parse().unwrap()
            };
            let (a, b) = (number("a"), number("b"));
            if a != b || !(100..=200).contains(&a) {
                failures.lock().unwrap().push(text);
            }
        }
    }
    stop.store(true, Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(*failures.lock().unwrap(), Vec::<String>::new());
    let start = Instant::now();
    let mut expected = 0;
    for n in 0..64 {
        let is_there = first.run(&format!("HGET e:{n} a"));
        let number: u32 = is_there.trim_matches('"').parse().unwrap_or(0);
        expected += u32::from((100..=200).contains(&number));
    }
    let found = first.run("FT.SEARCH i \"@a:[100 200]\" LIMIT 0 0");
    assert_eq!(found, format!("[{expected}]"), "{:?}", start.elapsed());
}
