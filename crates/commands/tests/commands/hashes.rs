//! Hashes: Redis's replies.

use crate::client::Client;

#[test]
fn fields() {
    Client::new().follow(
        r#"
        HSET h a 1 b 2 a 3 => 2
        HGET h a => "3"
        HSET h a 4 c 5 => 1
        HMSET h d 6 => OK
        HGETALL h => ["a" "4" "b" "2" "c" "5" "d" "6"]
        HKEYS h => ["a" "b" "c" "d"]
        HVALS h => ["4" "2" "5" "6"]
        HLEN h => 4
        HMGET h a x d => ["4" nil "6"]
        HEXISTS h a => 1
        HEXISTS h x => 0
        HSTRLEN h a => 1
        HSTRLEN h x => 0
        HSETNX h a 7 => 0
        HSETNX h e hello => 1
        HSTRLEN h e => 5
        HDEL h a b x a => 2
        HDEL h c d e => 3
        EXISTS h => 0
        HGET h a => nil
        HMGET h a b => [nil nil]
        HGETALL h => []
        HKEYS h => []
        HVALS h => []
        HLEN h => 0
        HEXISTS h a => 0
        HSTRLEN h a => 0
        HDEL h a => 0
        HSET h "" "" => 1
        HGETALL h => ["" ""]
        HSET h a => ERR wrong number of arguments for 'hset' command
        HSET h a 1 b => ERR wrong number of arguments for 'hset' command
        HMSET h a 1 b => ERR wrong number of arguments for 'hmset' command
        TYPE h => hash
        "#,
    );
}

#[test]
fn wrong_types() {
    let mut client = Client::new();
    client.follow("SET k v => OK");
    for line in [
        "HSET k a 1",
        "HMSET k a 1",
        "HSETNX k a 1",
        "HGET k a",
        "HMGET k a",
        "HGETALL k",
        "HKEYS k",
        "HVALS k",
        "HDEL k a",
        "HEXISTS k a",
        "HLEN k",
        "HSTRLEN k a",
        "HINCRBY k a 1",
        "HINCRBYFLOAT k a 1",
        "HRANDFIELD k",
        "HRANDFIELD k 2",
        "HSCAN k 0 NOPE",
        "HEXPIRE k x NOPE FIELDS 1 a",
        "HTTL k NOPE 1 a",
        "HPERSIST k NOPE 1 a",
        "HGETDEL k NOPE 1 a",
        "HGETEX k NOPE 1 a",
        "HSETEX k FIELDS 1 a 1",
    ] {
        let reply = client.run(line);
        assert!(reply.starts_with("WRONGTYPE"), "{line}: {reply}");
    }
    client.follow(
        r#"
        HINCRBY k a x => ERR value is not an integer or out of range
        HINCRBYFLOAT k a x => ERR value is not a valid float
        HRANDFIELD k x => ERR value is not an integer or out of range
        HSCAN k x => ERR invalid cursor
        HSETEX k EX x FIELDS 1 a 1 => ERR value is not an integer or out of range
        HSET k a => ERR wrong number of arguments for 'hset' command
        "#,
    );
}

#[test]
fn numbers() {
    Client::new().follow(
        r#"
        HINCRBY h n 5 => 5
        HINCRBY h n -7 => -2
        HINCRBY h n 9223372036854775807 => 9223372036854775805
        HINCRBY h n 3 => ERR increment or decrement would overflow
        HSET h t hello => 1
        HINCRBY h t 1 => ERR hash value is not an integer
        HINCRBY h n x => ERR value is not an integer or out of range
        HINCRBYFLOAT h t 1 => ERR hash value is not a float
        HINCRBYFLOAT h n x => ERR value is not a valid float
        HINCRBYFLOAT h n inf => ERR value is NaN or Infinity
        HINCRBYFLOAT h f 0.1 => "0.1"
        HINCRBYFLOAT h f 1.5 => "1.6"
        HINCRBYFLOAT h f 2e3 => "2001.59999999999999998"
        HINCRBYFLOAT h m 3 => "3"
        HINCRBY h m 1 => 4
        HSET h s " 11" => 1
        HINCRBY h s 1 => ERR hash value is not an integer
        HINCRBYFLOAT h s 1 => ERR hash value is not a float
        "#,
    );
}

#[test]
fn draws() {
    Client::new().follow(
        r#"
        HRANDFIELD none => nil
        HRANDFIELD none 3 => []
        HRANDFIELD none 3 WITHVALUES => []
        HRANDFIELD none x => ERR value is not an integer or out of range
        HSET h a 1 => 1
        HRANDFIELD h => "a"
        HRANDFIELD h 0 => []
        HRANDFIELD h 9 => ["a"]
        HRANDFIELD h 9 WITHVALUES => ["a" "1"]
        HRANDFIELD h -3 => ["a" "a" "a"]
        HRANDFIELD h -2 withvalues => ["a" "1" "a" "1"]
        HRANDFIELD h 9223372036854775807 => ["a"]
        HRANDFIELD h -9223372036854775808 => ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807
        HRANDFIELD h -9223372036854775807 => ERR value is out of range
        HRANDFIELD h -4611686018427387904 WITHVALUES => ERR value is out of range
        HRANDFIELD h WITHVALUES => ERR value is not an integer or out of range
        HRANDFIELD h 1 VALUES => ERR syntax error
        HRANDFIELD h 1 WITHVALUES x => ERR syntax error
        "#,
    );
}

#[test]
fn scanning() {
    Client::new().follow(
        r#"
        HSET h a 1 ab 2 c 3 => 3
        HSCAN h 0 => ["0" ["a" "1" "ab" "2" "c" "3"]]
        HSCAN h 0 MATCH a* => ["0" ["a" "1" "ab" "2"]]
        HSCAN h 9 NOVALUES COUNT 1 MATCH a* => ["0" ["a" "ab"]]
        HSCAN none 0 NOPE => ["0" []]
        HSCAN h x => ERR invalid cursor
        HSCAN h 0 COUNT 0 => ERR syntax error
        HSCAN h 0 TYPE hash => ERR syntax error
        HSCAN h 0 NOVALUES COUNT => ERR syntax error
        "#,
    );
}

#[test]
fn encodings() {
    let mut client = Client::new();
    let pairs = |n: usize| (0..n).map(|n| format!(" f{n} v")).collect::<String>();
    let (fits, long) = ("x".repeat(64), "x".repeat(65));
    for (lines, encoding) in [
        (vec![format!("HSET h{}", pairs(512))], "listpack"),
        (vec![format!("HSET h{}", pairs(513))], "hashtable"),
        (vec![format!("HSET h{}", pairs(512)), "HSET h one more".to_owned()], "hashtable"),
        (vec![format!("HSET h{}", " f v".repeat(513))], "hashtable"),
        (vec![format!("HSET h {fits} {fits}")], "listpack"),
        (vec![format!("HSET h {long} v")], "hashtable"),
        (vec![format!("HSETNX h f {long}")], "hashtable"),
        (vec![format!("HINCRBY h {long} 1")], "hashtable"),
        (vec![format!("HSET h f {long}"), "HSET h f v".to_owned()], "hashtable"),
        (vec!["HSETEX h EX 9 FIELDS 1 f v".to_owned()], "listpackex"),
        (vec!["HSET h f v".to_owned(), "HEXPIRE h 9 FIELDS 1 f".to_owned()], "listpackex"),
        (
            vec![
                "HSETEX h EX 9 FIELDS 1 f v".to_owned(),
                "HPERSIST h FIELDS 1 f".to_owned(),
                "HSET h f v".to_owned(),
            ],
            "listpackex",
        ),
        (vec![format!("HSETEX h EX 9 FIELDS 1 f {long}")], "hashtable"),
    ] {
        client.run("DEL h");
        for line in &lines {
            client.run(line);
        }
        assert_eq!(client.run("OBJECT ENCODING h"), format!("\"{encoding}\""), "{lines:.60?}");
    }
}

#[test]
fn fields_expire() {
    let mut client = Client::new();
    client.follow(
        r#"
        HEXPIRE none 10 FIELDS 2 a b => [-2 -2]
        HSET h a 1 b 2 c 3 => 3
        HTTL h FIELDS 2 a x => [-1 -2]
        HPEXPIRE h 1100 FIELDS 3 a b x => [1 1 -2]
        HTTL h FIELDS 3 a b c => [2 2 -1]
        HPTTL h FIELDS 1 a => [1100]
        HEXPIRETIME h FIELDS 1 a => [1700000002]
        HPEXPIRETIME h FIELDS 1 a => [1700000001100]
        HEXPIRE h 10 NX FIELDS 2 a c => [0 1]
        HEXPIRE h 11 XX FIELDS 2 a x => [1 -2]
        HEXPIRE h 10 GT FIELDS 1 a => [0]
        HEXPIRE h 12 GT FIELDS 1 a => [1]
        HEXPIRE h 12 LT FIELDS 1 a => [0]
        HPERSIST h FIELDS 3 c c x => [1 -1 -2]
        HEXPIRE h 5 GT FIELDS 1 c => [0]
        HEXPIRE h 5 LT FIELDS 1 c => [1]
        HTTL h FIELDS 3 a b c => [12 2 5]
        HPERSIST none FIELDS 1 a => [-2]
        HTTL none FIELDS 1 a => [-2]
        "#,
    );
    client.wait(1_100);
    client.follow(
        r#"
        HGET h b => nil
        HLEN h => 2
        HKEYS h => ["a" "c"]
        HGETALL h => ["a" "1" "c" "3"]
        HTTL h FIELDS 1 b => [-2]
        HEXPIRE h 5 FIELDS 1 b => [-2]
        HPERSIST h FIELDS 1 b => [-2]
        HDEL h b => 0
        HSCAN h 0 => ["0" ["a" "1" "c" "3"]]
        HRANDFIELD h 5 => ["a" "c"]
        HINCRBY h b 1 => 1
        HTTL h FIELDS 1 b => [-1]
        HDEL h b => 1
        "#,
    );
    client.wait(3_900);
    client.follow("HGETALL h => [\"a\" \"1\"]\nHSETNX h c 4 => 1\nHDEL h c => 1");
    client.wait(7_000);
    // Expired fields count until they are removed.
    client.follow(
        r#"
        HGETALL h => []
        HKEYS h => []
        HSCAN h 0 => ["0" []]
        HTTL h FIELDS 1 a => [-2]
        HLEN h => 1
        EXISTS h => 1
        RENAME h i => OK
        HEXISTS i a => 0
        EXISTS i => 0
        HSETEX h PX 1 FIELDS 3 a 1 b 2 c 3 => 1
        "#,
    );
    client.wait(1);
    client.follow(
        r#"
        HLEN h => 3
        HDEL h a => 1
        HMGET h a b => [nil nil]
        HLEN h => 1
        HRANDFIELD h => nil
        EXISTS h => 0
        DBSIZE => 0
        "#,
    );
}

#[test]
fn what_sets_a_field_clears_its_expiry() {
    Client::new().follow(
        r#"
        HSETEX h EX 10 FIELDS 1 a 1 => 1
        HINCRBY h a 1 => 2
        HINCRBYFLOAT h a 1 => "3"
        HSETNX h a 1 => 0
        HTTL h FIELDS 1 a => [10]
        HSETEX h KEEPTTL FIELDS 2 a 1 b 2 => 1
        HTTL h FIELDS 2 a b => [10 -1]
        HSET h a 1 => 0
        HTTL h FIELDS 1 a => [-1]
        HSETEX h PX 2500 FIELDS 1 a 1 => 1
        HMSET h a 1 => OK
        HTTL h FIELDS 1 a => [-1]
        HSETEX h EXAT 1700000020 FIELDS 1 a 1 => 1
        HTTL h FIELDS 1 a => [20]
        HSETEX h FIELDS 1 a 1 => 1
        HTTL h FIELDS 1 a => [-1]
        RENAME h i => OK
        HEXPIRE i 10 FIELDS 1 a => [1]
        COPY i j => 1
        HTTL j FIELDS 2 a b => [10 -1]
        "#,
    );
}

#[test]
fn past_expiries_delete() {
    Client::new().follow(
        r#"
        HSET h a 1 b 2 c 3 d 4 e 5 => 5
        HEXPIRE h 0 FIELDS 2 a a => [2 -2]
        HPEXPIREAT h 1 XX FIELDS 1 b => [0]
        HPEXPIREAT h 1 GT FIELDS 1 b => [0]
        HPEXPIREAT h 1 LT FIELDS 1 b => [2]
        HGETEX h EX 0 FIELDS 1 c => ["3"]
        HSETEX h PXAT 1 FIELDS 2 d 1 new 1 => 1
        HGETALL h => ["e" "5"]
        HEXPIREAT h 0 FIELDS 1 e => [2]
        EXISTS h => 0
        HSETEX h PXAT 1 FIELDS 1 a 1 => 1
        EXISTS h => 0
        "#,
    );
}

#[test]
fn arguments_of_hexpire() {
    Client::new().follow(
        r#"
        HSET h a 1 b 2 => 2
        HEXPIRE h x FIELDS 0 a => ERR value is not an integer or out of range
        HEXPIRE h -1 FIELDS 0 a => ERR invalid expire time, must be >= 0
        HEXPIRE h 9223372036854775807 FIELDS 0 a => ERR invalid expire time in 'hexpire' command
        HPEXPIREAT h 70368744177664 FIELDS 1 a => ERR invalid expire time in 'hpexpireat' command
        HPEXPIREAT h 70368744177663 FIELDS 1 a => [1]
        HPEXPIRE h 70368744177663 FIELDS 1 a => ERR invalid expire time in 'hpexpire' command
        HEXPIRE h 10 FIELDS 0 a => ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 10 FIELDS x a => ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 10 FIELDS 2147483648 a => ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 10 FIELDS 2147483647 a => ERR wrong number of arguments
        HEXPIRE h 10 FIELDS 2 a => ERR wrong number of arguments
        HEXPIRE h 10 FIELDS 1 a b => ERR unknown argument: b
        HEXPIRE h 10 NOPE FIELDS 1 a => ERR unknown argument: NOPE
        HEXPIRE h 10 FIELDS 1 b NX => [1]
        HEXPIRE h 10 NX NX FIELDS 1 b => [0]
        HEXPIRE h 10 NX XX FIELDS 1 b => ERR Multiple condition flags specified
        HEXPIRE h 10 NX FIELDS 1 b LT => ERR Multiple condition flags specified
        HEXPIRE h 10 NX NX NX => ERR missing FIELDS argument
        HEXPIRE h 10 NX FIELDS 1 => ERR FIELDS requires at least numfields and one field argument
        HEXPIRE h 10 FIELDS 1 a FIELDS => ERR FIELDS keyword specified multiple times
        HTTL h NOPE 1 a => ERR Mandatory argument FIELDS is missing or not at the right position
        HTTL h FIELDS 0 a => ERR Number of fields must be a positive integer
        HTTL h FIELDS 9223372036854775808 a => ERR Number of fields must be a positive integer
        HPERSIST h FIELDS 2 a => ERR The `numfields` parameter must match the number of arguments
        HGETDEL h FIELDS 1 a b => ERR The `numfields` parameter must match the number of arguments
        "#,
    );
}

#[test]
fn getting_and_deleting() {
    Client::new().follow(
        r#"
        HSET h a 1 b 2 c 3 => 3
        HGETDEL h FIELDS 3 a x a => ["1" nil nil]
        HGETDEL none FIELDS 1 a => [nil]
        HGETEX h FIELDS 2 b x => ["2" nil]
        HGETEX h EX 10 FIELDS 2 b x => ["2" nil]
        HTTL h FIELDS 2 b c => [10 -1]
        HGETEX h FIELDS 1 b PERSIST => ["2"]
        HTTL h FIELDS 1 b => [-1]
        HGETEX none EX 10 FIELDS 1 a => [nil]
        HGETDEL h FIELDS 2 b c => ["2" "3"]
        EXISTS h => 0
        "#,
    );
}

#[test]
fn arguments_of_hgetex_and_hsetex() {
    Client::new().follow(
        r#"
        HSET h a 1 b 2 => 2
        HGETEX h EX 10 FIELDS 0 a => ERR invalid number of fields
        HGETEX h FIELDS 2147483648 a => ERR invalid number of fields
        HGETEX h FIELDS 2 a => ERR wrong number of arguments
        HGETEX h PERSIST FIELDS 1 => ERR wrong number of arguments
        HGETEX h EX 10 FIELDS => ERR wrong number of arguments for 'hgetex' command
        HGETEX h FIELDS 1 a b => ERR unknown argument: b
        HGETEX h KEEPTTL FIELDS 1 a => ERR unknown argument: KEEPTTL
        HGETEX h FIELDS 1 a EX => ERR missing expire time
        HGETEX h EX 10 PX 10 FIELDS 1 a => ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified
        HGETEX h EX x NOPE FIELDS 1 a => ERR value is not an integer or out of range
        HGETEX h EX -1 NOPE FIELDS 1 a => ERR invalid expire time, must be >= 0
        HGETEX h FIELDS 1 a FIELDS => ERR FIELDS keyword specified multiple times
        HSETEX h FNX FIELDS 2 x 1 a 1 => 0
        HSETEX h FNX FIELDS 2 x 1 y 1 => 1
        HSETEX h FXX FIELDS 2 x 2 z 1 => 0
        HSETEX h FXX FIELDS 2 x 2 y 2 => 1
        HSETEX none FXX FIELDS 1 a 1 => 0
        HMGET h x y z => ["2" "2" nil]
        HSETEX h FNX FNX FIELDS 1 a 1 => ERR Only one of FXX or FNX arguments can be specified
        HSETEX h EX 10 KEEPTTL FIELDS 1 a 1 => ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h PERSIST FIELDS 1 a 1 => ERR unknown argument: PERSIST
        HSETEX h NX FIELDS 1 a 1 => ERR unknown argument: NX
        HGETEX h NX FIELDS 1 a => ERR unknown argument: NX
        HSETEX h FIELDS 1 a 1 b => ERR unknown argument: b
        HSETEX h FIELDS 2 a 1 b => ERR wrong number of arguments
        HSETEX h PXAT 70368744177664 FIELDS 1 a b => ERR invalid expire time in 'hsetex' command
        HSETEX h FIELDS 1 a 1 EX 10 => 1
        HTTL h FIELDS 1 a => [10]
        "#,
    );
}

#[test]
fn in_resp3() {
    Client::new().resp3().follow(
        r#"
        HSET h a 1 => 1
        HGETALL h => {"a": "1"}
        HGETALL none => {}
        HKEYS h => ["a"]
        HRANDFIELD h 1 WITHVALUES => [["a" "1"]]
        HRANDFIELD h -2 WITHVALUES => [["a" "1"] ["a" "1"]]
        HRANDFIELD none 1 WITHVALUES => []
        HSCAN h 0 => ["0" ["a" "1"]]
        HINCRBYFLOAT h a 1.5 => "2.5"
        HGETEX h FIELDS 2 a x => ["2.5" nil]
        "#,
    );
}

#[test]
fn imports() {
    let mut client = Client::new();
    client.follow(
        r#"
        HIMPORT => ERR wrong number of arguments for 'himport' command
        HIMPORT PREPARE f => ERR wrong number of arguments for 'himport|prepare' command
        HIMPORT SET k f 1 => ERR no such fieldset
        HIMPORT PREPARE f b a b => ERR duplicate field name in fieldset
        HIMPORT PREPARE f b a "" => OK
        HIMPORT SET k f 1 2 => ERR value count does not match fieldset field count
        HIMPORT SET k f 1 2 3 => OK
        HGETALL k => ["" "3" "a" "2" "b" "1"]
        EXPIRE k 100 => 1
        HIMPORT PREPARE f x => OK
        HIMPORT SET k f 7 => OK
        HGETALL k => ["x" "7"]
        TTL k => -1
        SET s 1 => OK
        HIMPORT SET s f 7 => WRONGTYPE Operation against a key holding the wrong kind of value
        GET s => "1"
        HIMPORT PREPARE g x => OK
        HIMPORT DISCARD g => 1
        HIMPORT DISCARD g => 0
        HIMPORT SET k g 7 => ERR no such fieldset
        MULTI => OK
        HIMPORT SET l f 8 => QUEUED
        EXEC => [OK]
        EVAL "return redis.call('HIMPORT', 'SET', KEYS[1], 'f', '1')" 1 l => ERR no such fieldset...
        EVAL "redis.call('HIMPORT', 'PREPARE', 'e', 'x'); return redis.call('HIMPORT', 'SET', KEYS[1], 'e', '1')" 1 m => OK
        HIMPORT SET l e 8 => ERR no such fieldset
        HGETALL m => ["x" "1"]
        HIMPORT DISCARDALL => 1
        HIMPORT DISCARDALL => 0
        "#,
    );
    client.another().follow("HIMPORT SET k f 1 => ERR no such fieldset");
    let long = "x".repeat(1000);
    let refused = (0..2000).any(|n| {
        client.run(&format!("HIMPORT PREPARE {n} {long}")).starts_with("ERR fieldsets exceed")
    });
    assert!(refused, "what a connection prepares is bounded");
}
