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
    let crossing = call(&mut client, &["EVAL", COUNT, "2", &here, &away]);
    assert!(error(&crossing).starts_with("CROSSSLOT"));
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
