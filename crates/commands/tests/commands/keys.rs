//! Keys of any type and whole databases: replies as Redis gives them.

use crate::client::{Client, START_MS};
use petrel_resp::Value;
use std::collections::BTreeSet;

#[test]
fn expiry() {
    Client::new().follow(
        r#"
        SET a 1 => OK
        EXPIRE a x => ERR value is not an integer or out of range
        EXPIRE a 10 NX XX => ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a 10 GT LT => ERR GT and LT options at the same time are not compatible
        EXPIRE a 10 NX GT => ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a 10 FOO => ERR Unsupported option FOO
        EXPIRE a x FOO => ERR Unsupported option FOO
        EXPIRE a 9223372036854775807 => ERR invalid expire time in 'expire' command
        EXPIRE a -9223372036854775808 => ERR invalid expire time in 'expire' command
        EXPIRE a 9223372036854775 => ERR invalid expire time in 'expire' command
        PEXPIRE a 9223372036854775807 => ERR invalid expire time in 'pexpire' command
        EXPIREAT a 9223372036854775 => 1
        EXPIREAT a 9223372036854776 => ERR invalid expire time in 'expireat' command
        PEXPIREAT a 9223372036854775807 => 1
        PEXPIRETIME a => 9223372036854775807
        EXPIRETIME a => 9223372036854776
        TTL a => 9223370336854776
        EXPIRE a 10 XX => 1
        EXPIRE a 5 GT => 0
        EXPIRE a 500 GT => 1
        EXPIRE a 500 LT => 0
        EXPIRE a 5 LT => 1
        EXPIRE a 5 LT XX => 0
        EXPIRE a 500 XX GT => 1
        EXPIRE a 50 GT GT => 0
        EXPIRE nope 5 GT LT => ERR GT and LT options at the same time are not compatible
        EXPIRE nope x => ERR value is not an integer or out of range
        EXPIRE nope 5 => 0
        EXPIRE a -1 => 1
        EXISTS a => 0
        PERSIST a => 0
        SET a 1 => OK
        EXPIRE a -1 GT => 0
        EXPIRE a 10 GT => 0
        EXPIRE a -1 XX => 0
        EXPIRE a 10 LT => 1
        PERSIST a => 1
        PERSIST a => 0
        TTL a => -1
        EXPIRETIME a => -1
        TTL zz => -2
        PTTL zz => -2
        EXPIRETIME zz => -2
        PEXPIRETIME zz => -2
        PEXPIRE a 1499 => 1
        TTL a => 1
        PEXPIRE a 1500 => 1
        TTL a => 2
        "#,
    );
}

#[test]
fn keys_go_when_their_time_has_passed() {
    let mut client = Client::new();
    client.follow(&format!("SET a 1 PX 1000 => OK\nPEXPIRETIME a => {}", START_MS + 1000));
    client.wait(999);
    client.follow("EXISTS a => 1\nPTTL a => 1\nDBSIZE => 1\nRANDOMKEY => \"a\"");
    client.wait(1);
    client.follow(
        r#"
        RANDOMKEY => nil
        KEYS * => []
        SCAN 0 => ["0" []]
        RENAME a b => ERR no such key
        GET a => nil
        TTL a => -2
        DBSIZE => 0
        "#,
    );
}

#[test]
fn what_has_expired_is_kept_for_an_import() {
    let mut client = Client::new();
    let keyspace = client.exec.ks.keyspace().clone();
    keyspace.keep_expired(true);
    client.follow("SET a 1 PX 5 => OK\nSET b 1 PXAT 1 => OK\nSET c 1 => OK\nEXPIREAT c -1 => 1\nSET d 1 => OK");
    client
        .follow("HSETEX h EXAT 0 FIELDS 1 f v => 1\nHSET h g w => 1\nHLEN h => 2\nHGET h f => nil");
    client.wait(10);
    client.follow("GET a => nil\nTTL b => -2\nEXISTS c => 0\nDBSIZE => 5");
    client.session.set_imports(true);
    client.follow("GET a => \"1\"\nINCR b => 2\nTTL c => 0\nEXISTS a b c d => 4\nDBSIZE => 5");
    client.session.set_imports(false);
    client.follow("EXISTS a b c d => 1\nDBSIZE => 5");
    keyspace.set_memory_limit(1, petrel_keyspace::Policy::AllKeysLru);
    let refused = client.run("SET e 1");
    assert!(refused.starts_with("OOM "), "{refused}");
    keyspace.set_memory_limit(0, petrel_keyspace::Policy::NoEviction);
    keyspace.keep_expired(false);
    client.session.set_imports(true);
    client.follow("EXISTS a b c d => 1\nDBSIZE => 2");
}

#[test]
fn what_expires_is_held_while_asked_to() {
    let mut client = Client::new();
    client.follow("SET a 1 PX 5 => OK\nHSET h f 1 g 2 => 2\nHPEXPIRE h 5 FIELDS 1 f => [1]");
    let keyspace = client.exec.ks.keyspace().clone();
    keyspace.hold_until(client.exec.ks.now_ms() + 1000);
    client.wait(10);
    client.follow(
        r#"
        GET a => nil
        EXISTS a => 0
        HGET h f => nil
        SCAN 0 => ["0" ["h"]]
        DBSIZE => 2
        HLEN h => 2
        SADD a x => 1
        DBSIZE => 2
        PEXPIRE a 5 => 1
        DEL h => 1
        "#,
    );
    client.wait(10);
    client.follow("TYPE a => none\nRANDOMKEY => \"a\"\nDBSIZE => 1");
    keyspace.hold_until(0);
    client.follow("RANDOMKEY => nil\nTYPE a => none\nDBSIZE => 0");
}

#[test]
fn scans_remove_what_has_expired_and_is_asked_for_by_name() {
    let mut client = Client::new();
    client.follow("SET a1 1 PX 5 => OK\nSET a2 1 PX 5 => OK\nSET b 1 PX 5 => OK");
    client.wait(10);
    client.follow("SCAN 0 MATCH a* TYPE set => [\"0\" []]\nDBSIZE => 1\nKEYS c => []\nDBSIZE => 1");
}

#[test]
fn names() {
    Client::new().follow(
        r#"
        SET a 1 EX 100 => OK
        RENAME a a => OK
        RENAMENX a a => 0
        RENAME zz a => ERR no such key
        RENAMENX zz a => ERR no such key
        RENAME zz zz => ERR no such key
        SET b 2 => OK
        RENAMENX a b => 0
        RENAME a b => OK
        GET b => "1"
        TTL b => 100
        RENAMENX b c => 1
        KEYS * => ["c"]
        TYPE c => string
        TYPE b => none
        SET a x => OK
        EXISTS a a b => 2
        TOUCH a a b => 2
        DEL a a b => 1
        UNLINK c d => 1
        DBSIZE => 0
        "#,
    );
}

#[test]
fn copies() {
    Client::new().follow(
        r#"
        MSET a 1 b 2 => OK
        COPY a b => 0
        COPY a b REPLACE => 1
        GET b => "1"
        COPY a a => ERR source and destination objects are the same
        COPY a a DB 1 => 1
        COPY a a DB 1 => 0
        COPY a a DB 99 => ERR DB index is out of range
        COPY a a DB x => ERR value is not an integer or out of range
        COPY a a DB -1 => ERR DB index is out of range
        COPY a a DB 99999999999999 => ERR value is out of range, value must between -2147483648 and 2147483647
        COPY a a FOO => ERR syntax error
        COPY a b DB => ERR syntax error
        COPY a b REPLACE REPLACE => 1
        COPY zz a => 0
        COPY zz zz => ERR source and destination objects are the same
        MOVE a 0 => ERR source and destination objects are the same
        MOVE a 1 => 0
        MOVE a 2 => 1
        EXISTS a => 0
        MOVE a 99 => ERR DB index is out of range
        MOVE a x => ERR value is not an integer or out of range
        MOVE a 99999999999 => ERR value is out of range, value must between -2147483648 and 2147483647
        MOVE zz 0 => ERR source and destination objects are the same
        MOVE zz 3 => 0
        SWAPDB 0 0 => OK
        SWAPDB x 0 => ERR invalid first DB index
        SWAPDB 0 x => ERR invalid second DB index
        SWAPDB 99 0 => ERR DB index is out of range
        SWAPDB -1 0 => ERR DB index is out of range
        SWAPDB 0 99999999999 => ERR invalid second DB index
        SWAPDB 0 2 => OK
        KEYS * => ["a"]
        DBSIZE => 1
        "#,
    );
}

#[test]
fn flushes() {
    let mut client = Client::new();
    client.follow(
        r#"
        FLUSHDB FOO => ERR syntax error
        FLUSHDB ASYNC SYNC => ERR syntax error
        MSET a 1 b 2 => OK
        COPY a a DB 1 => 1
        FLUSHDB async => OK
        DBSIZE => 0
        SWAPDB 0 1 => OK
        DBSIZE => 1
        FLUSHALL => OK
        DBSIZE => 0
        SET a 1 => OK
        FLUSHALL SYNC => OK
        GET a => nil
        "#,
    );
    assert_eq!(client.host.discarded, 2, "only the asynchronous flush");
}

#[test]
fn flushes_in_a_transaction_free_after_it() {
    let mut client = Client::new();
    client.follow(
        r#"
        SET a 1 => OK
        MULTI => OK
        FLUSHALL ASYNC => QUEUED
        SET b 1 => QUEUED
        FLUSHDB ASYNC => QUEUED
        FLUSHDB => QUEUED
        DBSIZE => QUEUED
        EXEC => [OK OK OK OK 0]
        "#,
    );
    assert_eq!(client.host.discarded, 2);
}

#[test]
fn scanning_options() {
    Client::new().follow(
        r#"
        SCAN abc => ERR invalid cursor
        SCAN "" => ERR invalid cursor
        SCAN -1 => ERR invalid cursor
        SCAN 0 COUNT 0 => ERR syntax error
        SCAN 0 COUNT -5 => ERR syntax error
        SCAN 0 COUNT abc => ERR value is not an integer or out of range
        SCAN 0 COUNT => ERR syntax error
        SCAN 0 TYPE nope => ["0" []]
        SCAN 0 NOVALUES => ERR NOVALUES option can only be used in HSCAN
        SCAN 0 FOO => ERR syntax error
        SCAN 18446744073709551615 => ["0" []]
        SCAN 18446744073709551616 => ERR invalid cursor
        SET a 1 => OK
        SCAN 0 COUNT 9223372036854775807 => ["0" ["a"]]
        SCAN 0 COUNT 9223372036854775808 => ERR value is not an integer or out of range
        SCAN 0 TYPE STRING => ["0" ["a"]]
        SCAN 0 TYPE hash => ["0" []]
        SCAN 0 MATCH b* COUNT 100 => ["0" []]
        SCAN 0 MATCH [a-c] COUNT 100 => ["0" ["a"]]
        "#,
    );
}

#[test]
fn walks_see_every_key_once() {
    let mut client = Client::new();
    let mut expected = BTreeSet::new();
    for i in 0..3000 {
        client.run(&format!("SET key:{i} {i}"));
        if i % 10 == 7 {
            expected.insert(format!("\"key:{i}\""));
        }
    }
    for count in [1, 10, 700, 100_000] {
        let (mut cursor, mut seen, mut calls) = ("0".to_owned(), BTreeSet::new(), 0);
        loop {
            let line = format!("SCAN {cursor} COUNT {count} MATCH key:*7");
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let Value::Array(reply) = client.call(&args) else { panic!("no array") };
            let [Value::Bulk(next), Value::Array(keys)] = &reply[..] else { panic!("{reply:?}") };
            for key in keys {
                assert!(seen.insert(crate::client::show(key)), "{key:?} twice");
            }
            calls += 1;
            cursor = String::from_utf8(next.to_vec()).unwrap();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen, expected);
        assert!(calls >= 3000 / (count + 100), "{calls} calls for {count} each");
    }
    let Value::Array(keys) = client.call(&[b"KEYS", b"key:*7"]) else { panic!("no array") };
    assert_eq!(keys.iter().map(crate::client::show).collect::<BTreeSet<_>>(), expected);
    assert_eq!(keys.len(), expected.len());
}

#[test]
fn random_keys_are_keys() {
    let mut client = Client::new();
    client.follow("RANDOMKEY => nil\nMSET a 1 b 2 c 3 => OK");
    let drawn: BTreeSet<String> = (0..200).map(|_| client.run("RANDOMKEY")).collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), ["\"a\"", "\"b\"", "\"c\""]);
}

#[test]
fn objects() {
    let mut client = Client::new();
    client.follow(
        r#"
        OBJECT ENCODING zz => nil
        OBJECT FREQ zz => nil
        OBJECT IDLETIME zz => nil
        OBJECT REFCOUNT zz => nil
        SET a 5 => OK
        OBJECT FREQ a => ERR An LFU maxmemory policy is not selected, access frequency not tracked. ...
        OBJECT ENCODING a => "int"
        OBJECT REFCOUNT a => 1
        SET b hello => OK
        OBJECT ENCODING b => "embstr"
        SET b 123456789012345678901234567890123456789012345 => OK
        OBJECT ENCODING b => "raw"
        OBJECT FOO a => ERR unknown subcommand 'FOO'. Try OBJECT HELP.
        OBJECT ENCODING => ERR wrong number of arguments for 'object|encoding' command
        OBJECT ENCODING a b => ERR wrong number of arguments for 'object|encoding' command
        OBJECT => ERR wrong number of arguments for 'object' command
        OBJECT HELP => [OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are: ENCODING...
        OBJECT IDLETIME a => 0
        "#,
    );
    client.wait(7000);
    client.follow(
        r#"
        OBJECT IDLETIME a => 7
        TTL a => -1
        TYPE a => string
        EXISTS a => 1
        OBJECT IDLETIME a => 7
        TOUCH a => 1
        OBJECT IDLETIME a => 0
        "#,
    );
    client.session.set(petrel_commands::Modes::NO_TOUCH, true);
    client.wait(3000);
    client.follow("GET a => \"5\"\nOBJECT IDLETIME a => 3\nTOUCH a => 1\nOBJECT IDLETIME a => 0");
}

#[test]
fn frequencies_are_told_under_lfu() {
    let mut client = Client::new();
    client.exec.ks.keyspace().clone().set_memory_limit(0, petrel_keyspace::Policy::AllKeysLfu);
    client.wait(0);
    client.follow(
        r#"
        SET a 5 => OK
        OBJECT FREQ a => 5
        OBJECT IDLETIME a => ERR An LFU maxmemory policy is selected, idle time not tracked. ...
        GET a => "5"
        OBJECT FREQ a => 6
        "#,
    );
}

#[test]
fn memory_of_keys() {
    let mut client = Client::new();
    client.follow(
        r#"
        SET a 1 => OK
        MEMORY USAGE zz => nil
        MEMORY USAGE a SAMPLES => ERR syntax error
        MEMORY USAGE a SAMPLES -1 => ERR syntax error
        MEMORY USAGE a SAMPLES x => ERR value is not an integer or out of range
        MEMORY USAGE a FOO 0 => ERR syntax error
        MEMORY USAGE => ERR wrong number of arguments for 'memory|usage' command
        "#,
    );
    let value = vec![b'x'; 100_000];
    client.call(&[b"SET", b"b", &value]);
    let usage = |client: &mut Client, key: &str| -> usize {
        let line = format!("MEMORY USAGE {key} SAMPLES 0 SAMPLES 5");
        client.run(&line).parse().unwrap()
    };
    assert!((16..64).contains(&usage(&mut client, "a")));
    // A value of this size counts with the size of its allocator block.
    assert!((100_000..130_000).contains(&usage(&mut client, "b")));
}
