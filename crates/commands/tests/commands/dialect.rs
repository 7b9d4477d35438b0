//! Valkey's dialect: error texts and formats that differ from Redis's.

use crate::client::{Client, show};
use petrel_commands::Dialect;
use petrel_resp::Value;

fn valkey() -> Client {
    let client = Client::new();
    client.exec.shared.speak(Dialect::Valkey);
    client
}

#[test]
fn fields_that_expire_are_written_as_valkey_has_them() {
    let mut client = valkey();
    client.follow(
        "HSET h a 1 b 2 => 2
        HGETEX h EX -1 FIELDS 1 a => ERR invalid expire time in 'hgetex' command
        HGETEX h EX 1 PERSIST FIELDS 1 a => ERR syntax error
        HGETEX h FIELDS 1 a EX 1 => ERR numfields should be greater than 0 and match the provided number of fields
        HGETEX h FIELDS x a => ERR value is not an integer or out of range
        HGETEX h foo 10 FIELDS 1 a => ERR syntax error
        HSETEX h EX 10 KEEPTTL FIELDS 1 a 1 => ERR syntax error
        HSETEX h FIELDS 1 a 1 extra => ERR numfields should be greater than 0 and match the provided number of fields
        HSETEX h NX XX FIELDS 1 a 1 => ERR syntax error
        HSETEX h NX FIELDS 1 a 9 => 0
        HSETEX none XX FIELDS 1 a 9 => 0
        EXISTS none => 0
        HSETEX h XX FXX EX 100 FIELDS 1 a 9 => 1
        HSETEX h FNX NX FIELDS 1 a 1 => 0
        HEXPIRE h 10 NX GT FIELDS 1 a => ERR NX and XX, GT or LT options at the same time are not compatible
        HEXPIRE h 10 foo FIELDS 1 a => ERR Unsupported option foo
        HEXPIRE h 10 FIELD 1 a => ERR numfields should be greater than 0 and match the provided number of fields
        HTTL h FIELD 1 a => ERR syntax error
        HTTL h FIELDS 2 a => ERR syntax error
        HPERSIST h FIELDS 2 a => ERR numfields should be greater than 0 and match the provided number of fields
        HSETEX h KEEPTTL KEEPTTL KEEPTTL FIELDS => ERR numfields should be greater than 0 and match the provided number of fields
        HGETEX h EX x FIELDS 2 a => ERR numfields should be greater than 0 and match the provided number of fields
        HEXPIRE h x NX NX FIELDS 2 a => ERR numfields should be greater than 0 and match the provided number of fields
        HGETEX h PERSIST PERSIST FIELDS 1 a => [\"9\"]
        SET text 1 => OK
        HTTL text FIELDS 2 a => ERR syntax error
        HEXPIRE text -1 FIELDS 1 a => ERR invalid expire time in 'hexpire' command
        HSETEX text EX x FIELDS 1 a 1 => WRONGTYPE Operation against a key holding the wrong kind of value
        HGET h a => \"9\"",
    );
}

#[test]
fn options_of_fields_that_expire_may_be_repeated_but_not_contradict() {
    let mut client = valkey();
    client.follow(
        "HSETEX h NX NX EX 10 EX 100 FIELDS 1 a 1 => 1
        HTTL h FIELDS 1 a => [100]
        HSETEX h KEEPTTL KEEPTTL FIELDS 1 a 2 => 1
        HGETEX h PERSIST PERSIST FIELDS 1 a => [\"2\"]
        HTTL h FIELDS 1 a => [-1]
        HSETEX h EX x EX 10 FIELDS 1 a 1 => 1
        HSETEX h EX 10 PX 10 FIELDS 1 a 1 => ERR syntax error
        HSETEX h FXX FNX FIELDS 1 a 1 => ERR syntax error
        HSETEX h EX 10 EX FIELDS 1 a 1 => ERR syntax error
        HSETEX h foo FXX EX 10 FIELDS => ERR numfields should be greater than 0 and match the provided number of fields
        HSETEX h foo a b c => ERR numfields should be greater than 0 and match the provided number of fields
        HSETEX h EX -1 FIELDS 3 a 1 => ERR numfields should be greater than 0 and match the provided number of fields
        HEXPIRE h -1 NX XX FIELDS 1 a => ERR NX and XX, GT or LT options at the same time are not compatible
        HEXPIRE h 10 NX XX FIELDS => ERR numfields should be greater than 0 and match the provided number of fields",
    );
}

#[test]
fn fields_that_have_expired_are_left_to_upkeep() {
    let mut client = valkey();
    client.follow("HSETEX h PX 5 FIELDS 3 a 1 b 2 c 3 => 1\nHSET h d 4 => 1");
    client.wait(10);
    client.follow(
        "HGET h a => nil
        HMGET h a b => [nil nil]
        HGETDEL h FIELDS 1 a => [nil]
        HGETEX h EX 10 FIELDS 1 b => [nil]
        HDEL h a b => 0
        OBJECT ENCODING h => \"hashtable\"
        HRANDFIELD h 10 => [\"d\"]
        HLEN h => 4
        HDEL h d a => 1
        EXISTS h => 1
        HINCRBY h a 7 => 7
        HTTL h FIELDS 1 a => [-1]
        HLEN h => 3",
    );
}

#[test]
fn who_has_not_logged_in_learns_nothing_of_commands() {
    let mut client = valkey();
    client.session.log_out();
    client.follow(
        "FOO => NOAUTH Authentication required.
        GET => NOAUTH Authentication required.
        GET k => NOAUTH Authentication required.",
    );
    let mut redis = Client::new();
    redis.session.log_out();
    redis.follow(
        "FOO => ERR unknown command 'FOO', with args beginning with: \n\
        GET => ERR wrong number of arguments for 'get' command\n\
        GET k => NOAUTH Authentication required.",
    );
}

#[test]
fn reads_leave_fields_that_have_expired_to_the_sweep() {
    let mut client = valkey();
    client.follow("HSETEX h PX 5 FIELDS 2 a 1 b 2 => 1\nHSET h c 3 => 1");
    let payload = client.call(&[b"DUMP", b"h"]);
    client.wait(10);
    client.follow("HGET h a => nil\nHMGET h a b c => [nil nil \"3\"]\nHLEN h => 3\nDEL h => 1");
    let Value::Bulk(payload) = payload else { panic!("{payload:?}") };
    client.call(&[b"RESTORE", b"h", b"0", &payload]);
    client.follow("HLEN h => 3\nHGET h a => nil\nHGET h c => \"3\"");
}

#[test]
fn small_differences_of_many_commands() {
    let mut client = valkey();
    client.follow(
        "MSETEX 0 k v => ERR invalid numkeys value or out of range
        MSETEX 2147483648 k v => ERR invalid numkeys value or out of range
        MSETEX 2 k v => ERR syntax error
        GETEX none EX x => ERR value is not an integer or out of range
        GETEX none EX 0 => ERR invalid expire time in 'getex' command
        SET k abc => OK
        BITCOUNT k 1 => 7
        BITCOUNT none 1 => 0
        SCAN 0 TYPE none => ERR unknown type name 'none'
        SCAN 0 TYPE STRING COUNT 1000 => [\"0\" [\"k\"]]
        XREAD STREAMS a b 0 => ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be specified.
        GEOADD g 1.5 2.25 a => 1
        GEOPOS g a => [[\"1.50000125169754028\" \"2.24999973359214067\"]]
        GEOSEARCH g FROMLONLAT 1 1 ASC DESC ASC => ERR exactly one of BYRADIUS, BYBOX and BYPOLYGON can be specified for GEOSEARCH",
    );
}

#[test]
fn entries_that_were_trimmed_are_still_to_come() {
    let mut client = valkey();
    client.follow(
        "XADD s 1-1 a 1 => \"1-1\"
        XADD s 2-1 a 1 => \"2-1\"
        XADD s 3-1 a 1 => \"3-1\"
        XGROUP CREATE s g 1-1 ENTRIESREAD 1 => OK
        XTRIM s MINID 3-1 => 2
        XINFO GROUPS s => [[\"name\" \"g\" \"consumers\" 0 \"pending\" 0 \"last-delivered-id\" \"1-1\" \"entries-read\" 1 \"lag\" 2]]
        XTRIM s MAXLEN 0 => 1
        XINFO GROUPS s => [[\"name\" \"g\" \"consumers\" 0 \"pending\" 0 \"last-delivered-id\" \"1-1\" \"entries-read\" 1 \"lag\" 2]]
        XINFO STREAM s FULL => [\"length\" 0 \"radix-tree-keys\" 0 \"radix-tree-nodes\" 1 \"last-generated-id\" \"3-1\" \"max-deleted-entry-id\" \"0-0\" \"entries-added\" 3 \"recorded-first-entry-id\" \"0-0\" \"entries\" [] \"groups\" [[\"name\" \"g\" \"last-delivered-id\" \"1-1\" \"entries-read\" 1 \"lag\" 2 \"pel-count\" 0 \"pending\" [] \"consumers\" []]]]",
    );
}

#[test]
fn scripts_find_the_server_by_two_names() {
    let library = "#!lua name=l\nserver.register_function('f', function() return type(server) end)";
    for (mut client, expected) in
        [(valkey(), "table"), (Client::new(), "nonexistent global variable 'server'")]
    {
        for script in ["return type(server)", "#!lua\nreturn type(server)"] {
            let reply = show(&client.call(&[b"EVAL", script.as_bytes(), b"0"]));
            assert!(reply.contains(expected), "{reply}");
        }
        let loaded = show(&client.call(&[b"FUNCTION", b"LOAD", library.as_bytes()]));
        let expected = if expected == "table" { "l" } else { expected };
        assert!(loaded.contains(expected), "{loaded}");
        assert_eq!(show(&client.call(&[b"EVAL", b"return type(redis)", b"0"])), "\"table\"");
    }
}

#[test]
fn help_on_scripts_is_that_of_the_dialect() {
    for (mut client, is_valkey) in [(valkey(), true), (Client::new(), false)] {
        let help = show(&client.call(&[b"SCRIPT", b"HELP"]));
        assert_eq!(help.contains("SHOW <sha1>"), is_valkey, "{help}");
        assert_eq!(help.contains("[<engine_name>]"), is_valkey, "{help}");
        assert!(help.contains("Set the debug mode for subsequent scripts executed"), "{help}");
    }
}
