//! Scripts, at the home of the keys that they declare.

use crate::bench::{Client, Members, bulk, error, key_at};
use petrel_resp::{Value, encode_command};
use std::io::Write;
use std::time::Duration;

const DELAY: Duration = Duration::from_micros(500);

fn call(client: &mut Client, words: &[&str]) -> Value {
    let (mut bytes, words): (_, Vec<&[u8]>) =
        (Vec::new(), words.iter().map(|word| word.as_bytes()).collect());
    encode_command(&words, &mut bytes);
    client.stream.write_all(&bytes).unwrap();
    client.reply()
}

const COUNT: &str = "local n = redis.call('INCR', KEYS[1]) return {n, ARGV[1]}";

#[test]
fn scripts_run_at_the_home_of_their_keys() {
    let members = Members::start(2, DELAY);
    for home in [0, 1] {
        let key = key_at(home, 2, "script");
        let mut client = members.client(0);
        let counted = |n| Value::Array(vec![Value::Integer(n), bulk("x")]);
        assert_eq!(call(&mut client, &["EVAL", COUNT, "1", &key, "x"]), counted(1));
        let Value::Bulk(sum) = call(&mut client, &["SCRIPT", "LOAD", COUNT]) else { panic!() };
        let sum = String::from_utf8(sum.to_vec()).unwrap();
        // The script is forwarded with its text: the primary has not loaded it.
        assert_eq!(call(&mut client, &["EVALSHA", &sum, "1", &key, "x"]), counted(2));
        let replies = [
            call(&mut client, &["MULTI"]),
            call(&mut client, &["EVALSHA", &sum, "1", &key, "x"]),
            call(&mut client, &["EXEC"]),
        ];
        assert_eq!(replies[2], Value::Array(vec![counted(3)]));
        let unknown = "0".repeat(40);
        let unknown = call(&mut client, &["EVALSHA", &unknown, "1", &key, "x"]);
        assert!(error(&unknown).starts_with("NOSCRIPT"));
        assert_eq!(call(&mut client, &["GET", &key]), bulk("3"));
    }
}

#[test]
fn scripts_write_at_home_only() {
    let members = Members::start(2, DELAY);
    let (here, away) = (key_at(0, 2, "s"), key_at(1, 2, "s"));
    let mut client = members.client(0);
    let script = format!("return redis.call('SET', '{away}', '1')");
    let failed = error(&call(&mut client, &["EVAL", &script, "0"]));
    assert!(failed.contains("whose primary is another node"), "{failed}");
    let failed = error(&call(&mut client, &["EVAL", &script, "1", &here]));
    assert!(failed.contains("whose primary is another node"), "{failed}");
    let failed = error(&call(&mut client, &["EVAL", "return redis.call('FLUSHALL')", "0"]));
    assert!(failed.contains("FLUSHALL is not supported in a script"), "{failed}");
    // Both of them read.
    let script = format!("return redis.call('GET', '{away}')");
    assert_eq!(call(&mut client, &["EVAL", &script, "0"]), Value::Null);
}

#[test]
fn scripts_use_keys_of_several_primaries() {
    let members = Members::start(3, DELAY);
    for node in 0..3 {
        let mut client = members.client(node);
        let [a, b, c] = [0, 1, 2].map(|of| key_at((of + node) % 3, 3, "s"));
        let keys = ["2", &a, &b];
        let text = "redis.call('SET', KEYS[1], ARGV[1]) \
                    return redis.call('APPEND', KEYS[2], redis.call('GET', KEYS[1]))";
        let eval = |client: &mut Client, text: &str, args: &[&str]| {
            call(client, &[&["EVAL", text][..], &keys, args].concat())
        };
        assert_eq!(eval(&mut client, text, &["two"]), Value::Integer(3));
        let Value::Bulk(sum) = call(&mut client, &["SCRIPT", "LOAD", text]) else { panic!() };
        let sum = String::from_utf8(sum.to_vec()).unwrap();
        let again = call(&mut client, &["EVALSHA", &sum, "2", &a, &b, "x"]);
        assert_eq!(again, Value::Integer(4));
        // Changes of a script before its error stay, as in Redis.
        let text = "redis.call('SET', KEYS[1], '1') return redis.call('LPUSH', KEYS[2], '1')";
        assert!(error(&eval(&mut client, text, &[])).starts_with("WRONGTYPE"));
        assert_eq!(call(&mut client, &["MGET", &a, &b]), array(["1", "twox"]));
        // Nothing stays of one that uses other keys, or more than keys.
        for stray in [format!("'SET', '{c}', '2'"), "'PUBLISH', 'a', 'b'".into(), "'DBSIZE'".into()]
        {
            let text = format!("redis.call('SET', KEYS[1], '2') return redis.pcall({stray})");
            let refused = error(&eval(&mut client, &text, &[]));
            assert!(refused.starts_with("CROSSSLOT"), "{refused}");
        }
        assert_eq!(call(&mut client, &["MGET", &a, &b]), array(["1", "twox"]));
        let inside = [
            call(&mut client, &["MULTI"]),
            call(&mut client, &["EVAL", "return redis.call('INCR', KEYS[1])", "1", &a]),
            call(&mut client, &["EVAL", "return redis.call('DEL', KEYS[1])", "1", &b]),
            call(&mut client, &["EXEC"]),
        ];
        assert_eq!(inside[3], Value::Array(vec![Value::Integer(2), Value::Integer(1)]));
        assert_eq!(call(&mut client, &["DEL", &a, &b]), Value::Integer(1));
    }
}

fn array<const N: usize>(texts: [&str; N]) -> Value {
    Value::Array(texts.map(bulk).into())
}

#[test]
fn users_with_limited_permissions_run_scripts_at_their_own_node_only() {
    let members = Members::start(2, DELAY);
    let (here, away) = (key_at(0, 2, "s"), key_at(1, 2, "s"));
    let mut client = members.client(0);
    call(&mut client, &["ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "-flushall"]);
    call(&mut client, &["AUTH", "u", "p"]);
    assert_eq!(call(&mut client, &["INCR", &away]), Value::Integer(1));
    let counted = Value::Array(vec![Value::Integer(1), bulk("x")]);
    assert_eq!(call(&mut client, &["EVAL", COUNT, "1", &here, "x"]), counted);
    let refused = call(&mut client, &["EVAL", COUNT, "1", &away, "x"]);
    assert!(error(&refused).contains("limited permissions"));
    call(&mut client, &["AUTH", "default", ""]);
}
