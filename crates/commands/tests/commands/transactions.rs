//! MULTI, EXEC and WATCH, between two clients of one keyspace.

use crate::client::Client;

#[test]
fn transactions() {
    Client::new().follow(
        r#"
        EXEC => ERR EXEC without MULTI
        DISCARD => ERR DISCARD without MULTI
        MULTI => OK
        MULTI => ERR MULTI calls can not be nested
        WATCH a => ERR WATCH inside MULTI is not allowed
        EXEC => []
        MULTI => OK
        SET a 1 => QUEUED
        INCR a => QUEUED
        INCRBYFLOAT a x => QUEUED
        UNWATCH => QUEUED
        MGET a b => QUEUED
        EXEC => [OK 2 ERR value is not a valid float OK ["2" nil]]
        EXEC => ERR EXEC without MULTI
        MULTI => OK
        SET a 3 => QUEUED
        DISCARD => OK
        GET a => "2"
        MULTI => OK
        GET => ERR wrong number of arguments for 'get' command
        SET a 4 => QUEUED
        EXEC => EXECABORT Transaction discarded because of previous errors.
        MULTI => OK
        NOPE => ERR unknown command 'NOPE', with args beginning with: 
        EXEC => EXECABORT Transaction discarded because of previous errors.
        MULTI => OK
        SET a 5 => QUEUED
        EXEC x => EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
        EXEC => ERR EXEC without MULTI
        EXEC x => EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command
        GET a => "2"
        MULTI => OK
        KEYS * => QUEUED
        SCAN 0 => QUEUED
        RANDOMKEY => QUEUED
        LCS a a => QUEUED
        OBJECT ENCODING a => QUEUED
        SWAPDB 0 1 => QUEUED
        DBSIZE => QUEUED
        EXEC => [["a"] ["0" ["a"]] "a" "2" "int" OK 0]
        "#,
    );
}

/// Runs `before` on one client and `between` on another, and returns whether a transaction of the
/// first is then executed.
fn survives(before: &str, between: &[&str]) -> bool {
    let mut watcher = Client::new();
    let mut other = watcher.another();
    for line in before.split("; ") {
        watcher.run(line);
    }
    for line in between {
        if let Some(millis) = line.strip_prefix("wait ") {
            let millis = millis.parse().unwrap();
            watcher.wait(millis);
            other.wait(millis);
        } else {
            other.run(line);
        }
    }
    watcher.run("MULTI");
    watcher.run("SET done 1");
    match watcher.run("EXEC").as_str() {
        "[OK]" => true,
        "nil-array" => false,
        reply => panic!("{reply}"),
    }
}

#[test]
fn watched_keys_that_change_stop_the_transaction() {
    for (before, between) in [
        ("WATCH a", &["SET a 1"][..]),
        ("WATCH a b c", &["SET c 1"]),
        ("SET a 1; WATCH a", &["DEL a"]),
        ("SET a 1; WATCH a", &["SET a 1"]),
        ("SET a 1; WATCH a", &["INCR a"]),
        ("SET a 1; WATCH a", &["APPEND a 1"]),
        ("SET a 1; WATCH a", &["SETRANGE a 0 1"]),
        ("SET a 1; WATCH a", &["EXPIRE a 100"]),
        ("SET a 1 EX 100; WATCH a", &["PERSIST a"]),
        ("SET a 1; WATCH a", &["RENAME a b"]),
        ("SET a 1; WATCH b", &["RENAME a b"]),
        ("SET a 1; WATCH b", &["COPY a b"]),
        ("SET a 1; WATCH a", &["MOVE a 1"]),
        ("SET a 1; WATCH a", &["FLUSHDB"]),
        ("SET a 1; WATCH a", &["FLUSHALL ASYNC"]),
        ("SET a 1; WATCH a", &["SWAPDB 0 1"]),
        ("WATCH a", &["COPY b a DB 1", "SET b 1", "COPY b a DB 1", "SWAPDB 0 1"]),
        ("SET a 1; WATCH a", &["MULTI", "INCR a", "EXEC"]),
        ("SET a 1 PX 100; WATCH a", &["wait 100"]),
        ("SET a 1 PX 100; WATCH a", &["wait 100", "GET a"]),
        ("SET a 1; WATCH a; WATCH a", &["SET a 2"]),
        ("SET a 1; WATCH a; UNWATCH; WATCH a", &["SET a 2"]),
    ] {
        assert!(!survives(before, between), "{before}, then {between:?}");
    }
}

#[test]
fn many_keys_are_watched_once_each() {
    let mut client = Client::new();
    let keys: Vec<String> = (0..50_000).map(|i| i.to_string()).collect();
    let mut args: Vec<&[u8]> = vec![b"WATCH"];
    args.extend(keys.iter().map(|key| key.as_bytes()));
    for _ in 0..2 {
        client.call(&args);
        assert_eq!(client.session.transaction_mut().watched.len(), keys.len());
    }
    client.run("UNWATCH");
    assert!(client.session.transaction_mut().watched.is_empty());
}

#[test]
fn other_changes_do_not() {
    for (before, between) in [
        ("WATCH a", &["GET a", "EXPIRE a 10", "DEL a", "PERSIST a"][..]),
        ("SET a 1; WATCH a", &["GET a", "TOUCH a", "SET b 1", "SETNX a 2", "EXPIRE a 10 XX"]),
        ("SET a 1; WATCH a", &["SET a 2 NX", "SETRANGE a 0 \"\"", "RENAME a a"]),
        ("WATCH a", &["FLUSHALL", "SWAPDB 0 1", "SWAPDB 1 0"]),
        ("SET a 1; WATCH a", &["SWAPDB 1 2", "SWAPDB 0 0"]),
        ("SET a 1 PX 100; WATCH a", &["wait 99"]),
        ("WATCH a", &["SET b 1 PX 10", "COPY b a DB 1", "wait 10", "SWAPDB 0 1"]),
        ("SET a 1; WATCH a; UNWATCH", &["SET a 2"]),
        ("SET a 1; WATCH a; MULTI; DISCARD", &["SET a 2"]),
        ("SET a 1; WATCH a; MULTI; EXEC", &["SET a 2"]),
    ] {
        assert!(survives(before, between), "{before}, then {between:?}");
    }
}

#[test]
fn a_key_that_expired_before_the_watch_is_absent() {
    let mut watcher = Client::new();
    watcher.run("SET a 1 PX 10");
    watcher.wait(10);
    watcher.follow("WATCH a => OK\nMULTI => OK\nSET b 1 => QUEUED");
    let mut other = watcher.another();
    other.wait(10);
    other.follow("GET a => nil");
    watcher.follow("EXEC => [OK]");
}

#[test]
fn the_client_s_own_changes_count() {
    Client::new().follow(
        r#"
        WATCH a => OK
        SET a 1 => OK
        MULTI => OK
        SET b 1 => QUEUED
        EXEC => nil-array
        MULTI => OK
        SET b 1 => QUEUED
        EXEC => [OK]
        "#,
    );
    Client::new().resp3().follow(
        r#"
        WATCH a => OK
        SET a 1 => OK
        MULTI => OK
        EXEC => nil
        "#,
    );
}

#[test]
fn a_queue_has_a_limit() {
    let mut client = Client::new();
    client.run("MULTI");
    let value = vec![b'x'; 400_000];
    client.call(&[b"SET", b"a", &value]);
    client.call(&[b"SET", b"a", &value]);
    client.follow("GET a => QUEUED");
    let refused = client.call(&[b"SET", b"a", &value]);
    assert!(matches!(refused, petrel_resp::Value::Error(_)), "{refused:?}");
    client.follow(
        r#"
        EXEC => EXECABORT Transaction discarded because of previous errors.
        GET a => nil
        "#,
    );
}

#[test]
fn nobody_sees_half_a_transaction() {
    let mut second = Client::new();
    let shared = second.exec.shared.clone();
    let keyspace = second.exec.ks.keyspace().clone();
    let writer = std::thread::spawn(move || {
        let mut first = Client::of(&keyspace, shared);
        for i in 0..2000 {
            first.run("MULTI");
            first.run(&format!("SET a {i}"));
            first.run(&format!("SET b {i}"));
            first.run(&format!("SET c {i}"));
            first.run("EXEC");
        }
    });
    while !writer.is_finished() {
        let reply = second.run("MGET a b c");
        let inner: Vec<&str> = reply.trim_matches(['[', ']']).split(' ').collect();
        assert!(inner.windows(2).all(|pair| pair[0] == pair[1]), "{reply}");
    }
    writer.join().unwrap();
}
