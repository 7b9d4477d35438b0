//! Faults that release notes of Redis 8.4 to 8.10 and Valkey 8.1 to 9.1 tell of, tried on a server: each test is named
//! after the release that fixed it (`docs/advisories.md`). Those of commands alone are in the tests of the commands.

use crate::harness::*;
use crate::replication_primary::{encoded, snapshot_of};
use petrel_resp::Value;
use std::io::Read;

/// Calls that put a text of theirs into an error.
const CALLS: &[&[&str]] = &[
    &["#"],
    &["GET#"],
    &["SET#", "a"],
    &["CONFIG", "#"],
    &["CONFIG", "SET", "#", "1"],
    &["CONFIG", "SET", "maxmemory", "#"],
    &["CONFIG", "SET", "save", "#"],
    &["CLIENT", "#"],
    &["CLIENT", "TRACKING", "#"],
    &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "#", "PREFIX", "#"],
    &["CLIENT", "KILL", "USER", "#"],
    &["CLIENT", "SETNAME", "#"],
    &["CLIENT", "SETINFO", "lib-name", "#"],
    &["HELLO", "3", "SETNAME", "#"],
    &["AUTH", "#", "#"],
    &["ACL", "SETUSER", "#"],
    &["ACL", "SETUSER", "u", "#"],
    &["ACL", "DRYRUN", "#", "GET"],
    &["ACL", "DRYRUN", "default", "#"],
    &["ACL", "CAT", "#"],
    &["EVAL", "return redis.error_reply(ARGV[1])", "0", "#"],
    &["EVAL", "return redis.error_reply('My' .. ARGV[1])", "0", "#"],
    &["EVAL", "return {err=ARGV[1]}", "0", "#"],
    &["EVAL", "return redis.status_reply(ARGV[1])", "0", "#"],
    &["EVAL", "return {ok=ARGV[1]}", "0", "#"],
    &["EVAL", "error(ARGV[1])", "0", "#"],
    &["EVAL", "error({err=ARGV[1]})", "0", "#"],
    &["EVAL", "error(redis.error_reply(ARGV[1]))", "0", "#"],
    &["EVAL", "return redis.call(ARGV[1])", "0", "#"],
    &["EVAL", "return redis.pcall(ARGV[1])", "0", "#"],
    &["EVAL", "return redis.pcall('CONFIG', ARGV[1])", "0", "#"],
    &["EVAL", "return nosuch['\r\n']", "0"],
    &["EVAL", "#", "0"],
    &["EVALSHA", "#", "0"],
    &["FCALL", "#", "0"],
    &["FUNCTION", "LOAD", "#!lua name=#"],
    &["FUNCTION", "LOAD", "#!#"],
    &["FUNCTION", "LOAD", "#!lua name=l\nerror('#')"],
    &["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('#', 1)"],
    &["JSON.SET", "j", "$", "#"],
    &["JSON.SET", "j", "#", "1"],
    &["JSON.GET", "held", "#"],
    &["XADD", "s", "#", "f", "v"],
    &["XREADGROUP", "GROUP", "#", "c", "STREAMS", "held", ">"],
    &["XGROUP", "#", "a"],
    &["DEBUG", "#"],
    &["DEBUG", "ERROR", "#"],
    &["OBJECT", "#", "k"],
    &["COMMAND", "GETKEYS", "#"],
    &["CLUSTER", "#"],
    &["LATENCY", "#"],
    &["MEMORY", "#"],
    &["SCRIPT", "#"],
    &["MODULE", "LOAD", "#"],
    &["MIGRATE", "#", "1", "k", "0", "1"],
    &["PFDEBUG", "#", "k"],
    &["SHUTDOWN", "#"],
    &["REPLCONF", "#", "1"],
];

/// Redis 8.6.1 and 8.10.0, Valkey 9.0.3 (CVE-2025-67733): text from a caller in an error, or from a
/// script in a status, could end the reply and begin another.
#[test]
fn redis_8_6_1_line_ends_in_errors() {
    let args = ["--enable-debug-command", "yes", "--enable-module-command", "yes"];
    let server = Server::start("epoll", &args);
    for protocol in ["2", "3"] {
        for call in CALLS {
            let mut client = server.connect();
            client.call(&["HELLO", protocol]);
            let call: Vec<_> =
                call.iter().map(|arg| arg.replacen('#', "x\r\n+INJECTED\r\n", 9)).collect();
            client.send(&call.iter().map(String::as_str).collect::<Vec<_>>());
            client.send(&["ECHO", "the next reply"]);
            client.receive().unwrap_or_else(|| panic!("no reply to {call:?}"));
            let next = show(&client.receive().unwrap_or_else(|| panic!("closed after {call:?}")));
            assert_eq!(next, "the next reply", "{call:?}");
        }
    }
}

/// Name with the release that fixed a fault, calls on one server, and their replies.
type Case = (&'static str, &'static [&'static [&'static str]], &'static [&'static str]);

const CASES: &[Case] = &[
    (
        "redis_8_10_0_memory_units_overflow",
        &[
            &["CONFIG", "SET", "maxmemory", "99999999999gb"],
            &["CONFIG", "SET", "maxmemory", "18446744073709551615kb"],
            &["CONFIG", "SET", "repl-backlog-size", "9223372036854775807mb"],
            &["CONFIG", "GET", "maxmemory"],
        ],
        &[
            "ERR CONFIG SET failed",
            "ERR CONFIG SET failed",
            "ERR CONFIG SET failed",
            "[maxmemory 0]",
        ],
    ),
    (
        "redis_8_10_0_a_parameter_twice_by_its_alias",
        &[
            &["CONFIG", "SET", "slave-priority", "3", "replica-priority", "4"],
            &["CONFIG", "GET", "replica-priority"],
        ],
        &[
            "ERR CONFIG SET failed (possibly related to argument 'replica-priority') - duplicate parameter",
            "[replica-priority 100]",
        ],
    ),
    (
        "redis_8_8_0_config_set_of_line_ends_shows_in_info_as_one_line",
        &[
            &["CONFIG", "SET", "availability-zone", "a\r\nredis_mode:cluster\r\n"],
            &[
                "EVAL",
                "return select(2, redis.call('INFO', 'server'):gsub('\\nredis_mode:', ''))",
                "0",
            ],
        ],
        &["OK", "1"],
    ),
    (
        "redis_8_8_0_addresses_of_replicas_are_addresses",
        &[
            &["REPLCONF", "ip-address", "1.2.3.4\r\nslave1:ip=6.6.6.6"],
            &["REPLCONF", "ip-address", "1.2.3.4,port=1"],
            &["REPLCONF", "ip-address", "replica-1.example_net"],
        ],
        &["ERR REPLCONF ip-address", "ERR REPLCONF ip-address", "OK"],
    ),
    (
        "redis_8_6_1_hotkeys_help",
        &[&["HOTKEYS", "HELP"], &["HOTKEYS", "NOSUCH"]],
        &["[HOTKEYS <subcommand>", "ERR unknown subcommand 'NOSUCH'. Try HOTKEYS HELP."],
    ),
    (
        "redis_8_6_2_permissions_of_calls_of_wrong_arity",
        &[
            &["ACL", "SETUSER", "u", "reset", "on", "nopass", "+@all", "~a*"],
            &["ACL", "DRYRUN", "u", "GET"],
            &["ACL", "DRYRUN", "u", "EVAL", "x"],
            &["ACL", "DRYRUN", "u", "ZUNION"],
            &["ACL", "DRYRUN", "u", "MSETEX", "5", "a"],
            &["ACL", "DRYRUN", "u", "SORT", "a", "STORE"],
        ],
        &[
            "OK",
            "ERR wrong number",
            "ERR wrong number",
            "ERR wrong number",
            "ERR wrong number",
            "OK",
        ],
    ),
    (
        "redis_8_8_0_subscribing_above_the_memory_limit",
        &[
            &["SET", "k", "v"],
            &["CONFIG", "SET", "maxmemory", "1"],
            &["EVAL", "return redis.pcall('SET', 'k', 'w')", "0"],
            &["SPUBLISH", "c", "m"],
            &["CONFIG", "SET", "maxmemory", "0"],
        ],
        &["OK", "OK", "OOM ", "0", "OK"],
    ),
    (
        "valkey_9_0_0_functions_after_a_flush_in_the_background",
        &[
            &[
                "FUNCTION",
                "LOAD",
                "#!lua name=l\nredis.register_function('f', function() return 1 end)",
            ],
            &["FUNCTION", "FLUSH", "ASYNC"],
            &[
                "FUNCTION",
                "LOAD",
                "#!lua name=l\nredis.register_function('f', function() return 2 end)",
            ],
            &["FCALL", "f", "0"],
            &["FUNCTION", "FLUSH", "ASYNC"],
            &["FCALL", "f", "0"],
        ],
        &["l", "OK", "l", "2", "OK", "ERR Function not found"],
    ),
    (
        "valkey_9_0_0_client_filters_named_twice",
        &[
            &["CLIENT", "KILL", "ADDR", "1.2.3.4:5", "ADDR", "1.2.3.4:6"],
            &["CLIENT", "KILL", "USER", "default", "USER", "nosuch", "ID", "999999"],
        ],
        &["0", "ERR No such user"],
    ),
    (
        "valkey_8_1_3_auth_fails_inside_of_a_transaction",
        &[&["MULTI"], &["AUTH", "nosuch", "x"], &["EXEC"], &["PING"]],
        &["OK", "QUEUED", "[", "PONG"],
    ),
    (
        "valkey_8_1_0_randomkey_while_everything_has_expired_and_nothing_may_be_written",
        &[
            &["DEBUG", "SET-ACTIVE-EXPIRE", "0"],
            &["EVAL", "for i = 1, 100 do redis.call('SET', i, 'v', 'PX', 1) end", "0"],
            &["DEBUG", "SLEEP", "0.01"],
            &["CLIENT", "PAUSE", "100000", "WRITE"],
            &["RANDOMKEY"],
            &["CLIENT", "UNPAUSE"],
            &["RANDOMKEY"],
        ],
        &["OK", "nil", "OK", "OK", "", "OK", "nil"],
    ),
    (
        "valkey_9_1_0_tracking_prefixes_overlap_with_themselves",
        &[
            &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a", "PREFIX", "b", "PREFIX", "a"],
            &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a", "PREFIX", "b"],
        ],
        &["ERR Prefix 'a' overlaps with another provided prefix 'a'", ""],
    ),
    (
        "valkey_9_1_0_wait_for_more_replicas_than_32_bits_hold",
        &[
            &["WAIT", "4294967296", "1"],
            &["WAIT", "9223372036854775807", "1"],
            &["WAITAOF", "0", "4294967296", "1"],
            &["WAITAOF", "4294967296", "0", "1"],
        ],
        &["0", "0", "[0 0]", "ERR value is out of range"],
    ),
    (
        "valkey_9_0_2_hashes_with_expiring_fields_are_overwritten",
        &[
            &["HSET", "h", "a", "1", "b", "2"],
            &["HPEXPIRE", "h", "20", "FIELDS", "2", "a", "b"],
            &["SET", "h", "x"],
            &["HSET", "k", "a", "1"],
            &["HPEXPIRE", "k", "20", "FIELDS", "1", "a"],
            &["HSET", "other", "b", "1"],
            &["RENAME", "other", "k"],
            &["DEBUG", "SLEEP", "0.3"],
            &["GET", "h"],
            &["HGETALL", "k"],
        ],
        &["2", "[1 1]", "OK", "1", "[1]", "1", "OK", "OK", "x", "[b 1]"],
    ),
    (
        "valkey_9_0_2_fields_that_have_expired_are_written_again",
        &[
            &["DEBUG", "SET-ACTIVE-EXPIRE", "0"],
            &["HSET", "h", "a", "1", "b", "2"],
            &["HPEXPIRE", "h", "1", "FIELDS", "1", "a"],
            &["DEBUG", "SLEEP", "0.02"],
            &["HSETEX", "h", "FXX", "FIELDS", "1", "a", "4"],
            &["HSETEX", "h", "FNX", "FIELDS", "1", "a", "5"],
            &["HINCRBY", "h", "a", "1"],
            &["HTTL", "h", "FIELDS", "1", "a"],
            &["HLEN", "h"],
            &["DEBUG", "SET-ACTIVE-EXPIRE", "1"],
        ],
        &["OK", "2", "[1]", "OK", "0", "1", "6", "[-1]", "2", "OK"],
    ),
    (
        "valkey_8_1_4_memory_usage_counts_the_key",
        &[
            &["EVAL", "redis.call('MSET', 'a', 'x', string.rep('a', 1000), 'x')", "0"],
            &[
                "EVAL",
                "local of = function(key) return redis.call('MEMORY', 'USAGE', key) end \
                 return of(string.rep('a', 1000)) - of('a') >= 900 and 'more' or 'less'",
                "0",
            ],
        ],
        &["nil", "more"],
    ),
];

#[test]
fn faults_that_others_had_are_not_found_here() {
    let server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    for (name, calls, replies) in CASES {
        let mut client = server.connect();
        client.call(&["FLUSHALL"]);
        assert_eq!(calls.len(), replies.len(), "{name}");
        for (call, expected) in calls.iter().zip(*replies) {
            let reply = client.text(call);
            assert!(reply.starts_with(expected), "{name}: {call:?} answers {reply}");
        }
    }
}

/// Valkey 9.0.3 (CVE-2026-27623), 8.1.8 and 9.0.5: requests without words, and line ends that are none.
#[test]
fn valkey_9_0_3_empty_requests_and_8_1_8_line_ends() {
    let server = Server::start("epoll", &[]);
    let answer = |bytes: &[u8]| {
        let mut client = server.connect();
        client.send_bytes(bytes);
        client.end_sending();
        client.read_to_end()
    };
    for (bytes, expected) in [
        (&b"*0\r\nPING\r\n"[..], "+PONG\r\n"),
        (b"*0\r\n*-1\r\n\r\n\r\nPING\r\n*0\r\n*1\r\n$4\r\nPING\r\n", "+PONG\r\n+PONG\r\n"),
        (b"*0\r\n$4\r\n", "-ERR unknown command '$4'"),
        (b"*1\r\n$4\r\nPING+x*1\r\n$4\r\nPING\r\n", "-ERR Protocol error"),
        (b"*1\r\n$4\r\nPING\r\r*1\r\n$4\r\nPING\r\n", "-ERR Protocol error"),
        (b"*1\r\n$4\rxPING\r\n", "-ERR Protocol error"),
        (b"*1\rx$4\r\nPING\r\n", "-ERR Protocol error"),
    ] {
        let received = answer(bytes);
        assert!(received.starts_with(expected), "{} {received}", bytes.escape_ascii());
        assert_eq!(
            received.matches('\n').count(),
            expected.matches('\n').count().max(1),
            "{received}"
        );
    }
}

/// Valkey 9.0.6: a client that waits was never served once part of its next command had come.
#[test]
fn valkey_9_0_6_a_part_of_a_command_behind_one_that_waits() {
    let server = Server::start("epoll", &[]);
    let (mut waiting, mut other) = (server.connect(), server.connect());
    waiting.send_bytes(b"*3\r\n$5\r\nBLPOP\r\n$1\r\nl\r\n$1\r\n0\r\n*2\r\n$4\r\nECHO\r\n$3\r\na");
    eventually("it waits", || server.info("blocked_clients") == 1);
    other.call(&["RPUSH", "l", "x"]);
    assert_eq!(show(&waiting.receive().unwrap()), "[l x]");
    waiting.send_bytes(b"bc\r\n");
    assert_eq!(show(&waiting.receive().unwrap()), "abc");
}

/// Valkey 9.0.6: a push to the connection that publishes lies beside the reply, whole.
#[test]
fn valkey_9_0_6_what_a_connection_publishes_to_itself() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    client.call(&["HELLO", "3"]);
    client.call(&["SUBSCRIBE", "c"]);
    for len in [1, 1000, 16_384, 65_536, 1 << 20, 5 << 20] {
        let text = "m".repeat(len);
        client.send(&["PUBLISH", "c", &text]);
        client.send(&["ECHO", "after"]);
        let mut received: Vec<Value> = (0..3).map(|_| client.receive().unwrap()).collect();
        assert_eq!(show(&received.pop().unwrap()), "after");
        let (pushes, replies): (Vec<_>, Vec<_>) =
            received.into_iter().partition(|value| matches!(value, Value::Push(_)));
        assert_eq!(show(&replies[0]), "1");
        assert_eq!(show(&pushes[0]), format!("[message c {text}]"));
    }
}

/// Redis 8.10.1, Valkey 8.1.10 (CVE-2026-23479 in Redis 8.6.3): clients that wait for the same key are served while
/// others of them are closed: for their memory, by CLIENT KILL, by the served command itself.
#[test]
fn redis_8_10_1_clients_that_wait_for_a_key_are_closed_while_it_is_served() {
    let args = ["--threads", "1", "--maxmemory-clients", "3mb"];
    let server = Server::start("epoll", &args);
    let mut pusher = server.connect();
    assert_eq!(pusher.text(&["CLIENT", "NO-EVICT", "ON"]), "OK");
    for round in 0..3 {
        let mut waiting: Vec<Client> = (0..20).map(|_| server.connect()).collect();
        for (number, client) in waiting.iter_mut().enumerate() {
            match number % 3 {
                0 => client.send(&["BLPOP", "l", "other", "0"]),
                1 => client.send(&["BLMOVE", "l", "other", "LEFT", "LEFT", "0"]),
                _ => client.send(&["BLMPOP", "0", "1", "l", "LEFT", "COUNT", "9"]),
            }
        }
        eventually("they wait", || server.info("blocked_clients") == 20);
        let ids = pusher.text(&["CLIENT", "LIST", "FLAGS", "b"]);
        let of_line = |line: &str| line.split(' ').next().unwrap()[3..].to_owned();
        let ids: Vec<String> = ids.lines().map(of_line).collect();
        pusher.call(&["MULTI"]);
        let value = "v".repeat(1 << 20);
        for id in &ids[..5] {
            pusher.call(&["RPUSH", "l", &value]);
            pusher.call(&["CLIENT", "KILL", "ID", id]);
            pusher.call(&["CLIENT", "UNBLOCK", id, "ERROR"]);
        }
        for _ in 0..15 {
            pusher.call(&["RPUSH", "l", &value]);
        }
        assert!(pusher.text(&["EXEC"]).starts_with("[1 "), "round {round}");
        assert_eq!(pusher.text(&["DEL", "l", "other"]).len(), 1);
        drop(waiting);
        eventually("they are gone", || server.info("blocked_clients") == 0);
    }
    assert_eq!(pusher.text(&["PING"]), "PONG");
}

/// Redis 8.8.0: a subscriber of a shard channel that is killed inside of EXEC.
#[test]
fn redis_8_8_0_subscribers_of_shard_channels_are_killed_in_a_transaction() {
    let server = Server::start("epoll", &[]);
    let (mut killer, mut subscriber) = (server.connect(), server.connect());
    let id = subscriber.text(&["CLIENT", "ID"]);
    subscriber.call(&["SSUBSCRIBE", "c"]);
    let own = killer.text(&["CLIENT", "ID"]);
    killer.call(&["HELLO", "3"]);
    killer.call(&["MULTI"]);
    for call in [
        &["SSUBSCRIBE", "c"][..],
        &["CLIENT", "KILL", "ID", &id],
        &["SPUBLISH", "c", "m"],
        &["CLIENT", "KILL", "ID", &own, "SKIPME", "no"],
        &["SUNSUBSCRIBE", "c"],
    ] {
        killer.call(call);
    }
    killer.send(&["EXEC"]);
    killer.read_to_end();
    assert!(
        subscriber.receive().is_none_or(|value| matches!(value, Value::Array(_) | Value::Push(_)))
    );
    assert_eq!(server.connect().text(&["PUBSUB", "SHARDNUMSUB", "c"]), "[c 0]");
}

/// Redis 8.10.1, Valkey 9.0.6: a file that tells of a hash slot that there is not.
#[test]
fn redis_8_10_1_slots_that_there_are_not_in_a_file() {
    const SLOT_INFO: u8 = 0xf4;
    let file = snapshot_of(&["SET a 1", "RPUSH l x y"]);
    let keys = file.windows(3).position(|bytes| bytes[0] == 0xfe && bytes[1] == 0).unwrap() + 2;
    for slot in [
        &[0x40 | 0x3f, 0xff][..],
        &[0x80, 0xff, 0xff, 0xff, 0xff],
        &[0x81, 255, 255, 255, 255, 255, 255, 255, 255],
    ] {
        let record = [&[SLOT_INFO][..], slot, slot, &[0]].concat();
        let mut changed = [&file[..keys], &record, &file[keys..]].concat();
        // A checksum of 0 says that there is none.
        let sum = changed.len() - 8;
        changed[sum..].fill(0);
        let scratch = Scratch::new();
        std::fs::write(scratch.path("dump.rdb"), changed).unwrap();
        let server = Server::start_in(scratch, "epoll", &[]);
        assert_eq!(server.connect().text(&["MGET", "a", "l"]), "[1 nil]");
    }
}

/// Valkey 9.0.6, Redis 8.6.0: an append-only file is executed whatever users may do now.
#[test]
fn valkey_9_0_6_an_append_only_file_of_users_with_fewer_permissions() {
    let scratch = Scratch::new();
    let file = encoded(&["SELECT 0", "SET a 1", "MULTI", "SET b 2", "SET c 3", "EXEC", "SET d 4"]);
    std::fs::write(scratch.path("appendonly.aof"), file).unwrap();
    std::fs::write(
        scratch.path("conf"),
        "user default off\nuser admin on nopass +@all ~*\nappendonly yes\n",
    )
    .unwrap();
    let server = Server::start_in(scratch, "epoll", &["conf"]);
    let mut client = server.connect();
    assert_eq!(client.text(&["AUTH", "admin", "x"]), "OK");
    assert_eq!(client.text(&["MGET", "a", "b", "c", "d"]), "[1 2 3 4]");
}

/// Valkey 9.0.6: RESET leaves no trace of an importing connection.
#[test]
fn valkey_9_0_6_reset_ends_importing() {
    let server = Server::start("epoll", &["--import-mode", "yes", "--dialect", "valkey"]);
    let mut client = server.connect();
    assert_eq!(client.text(&["CLIENT", "IMPORT-SOURCE", "ON"]), "OK");
    client.call(&["SET", "k", "v", "PXAT", "1"]);
    assert_eq!(client.text(&["GET", "k"]), "v");
    assert_eq!(client.text(&["RESET"]), "RESET");
    assert_eq!(client.text(&["GET", "k"]), "nil");
    assert!(!client.text(&["CLIENT", "LIST"]).contains("flags=I"));
}

/// Valkey 9.0.2: a connection that imports data sees fields that have expired.
#[test]
fn valkey_9_0_2_fields_that_have_expired_are_imported() {
    for dialect in ["redis", "valkey"] {
        let server = Server::start("epoll", &["--import-mode", "yes", "--dialect", dialect]);
        let (mut client, mut other) = (server.connect(), server.connect());
        assert_eq!(client.text(&["CLIENT", "IMPORT-SOURCE", "ON"]), "OK");
        client.call(&["HSET", "h", "a", "1", "b", "2"]);
        assert_eq!(client.text(&["HPEXPIREAT", "h", "0", "FIELDS", "1", "a"]), "[1]");
        assert_eq!(client.text(&["HSETEX", "h", "PXAT", "1", "FIELDS", "1", "c", "3"]), "1");
        assert_eq!(client.text(&["HMGET", "h", "a", "b", "c"]), "[1 2 3]");
        assert_eq!(client.text(&["HGET", "h", "a"]), "1");
        assert_eq!(client.text(&["HLEN", "h"]), "3");
        assert_eq!(client.text(&["HTTL", "h", "FIELDS", "3", "a", "b", "c"]), "[0 -1 0]");
        assert_eq!(other.text(&["HMGET", "h", "a", "b", "c"]), "[nil 2 nil]");
        assert_eq!(client.text(&["HDEL", "h", "a"]), "1");
        assert_eq!(client.text(&["HMGET", "h", "a", "b", "c"]), "[nil 2 3]");
    }
}

/// Valkey 8.1.10: a pause is no wait that UNBLOCK ends.
#[test]
fn valkey_8_1_2_unblock_does_not_end_a_pause() {
    let server = Server::start("epoll", &[]);
    let (mut admin, mut paused) = (server.connect(), server.connect());
    let id = paused.text(&["CLIENT", "ID"]);
    assert_eq!(admin.text(&["CLIENT", "PAUSE", "1000000", "WRITE"]), "OK");
    paused.send(&["SET", "k", "v"]);
    eventually("it is held back", || {
        admin.text(&["CLIENT", "LIST", "ID", &id]).contains("cmd=set")
            || server.info("paused_timeout_milliseconds") > 0
    });
    assert_eq!(admin.text(&["CLIENT", "UNBLOCK", &id]), "0");
    assert_eq!(admin.text(&["CLIENT", "UNPAUSE"]), "OK");
    assert_eq!(show(&paused.receive().unwrap()), "OK");
}

/// Redis 8.10.0: SORT STORE, or another command that stores, replaces a value of another type by a
/// list for which clients are blocked.
#[test]
fn redis_8_10_0_clients_are_served_by_values_that_replace_others() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    client.call(&["SADD", "s", "3", "1", "2"]);
    client.call(&["RPUSH", "l", "1"]);
    client.call(&["ZADD", "z", "1", "m"]);
    client.call(&["GEOADD", "g", "0", "0", "m"]);
    let lists: [&[&str]; 3] =
        [&["SORT", "s", "STORE", "d"], &["COPY", "l", "d", "REPLACE"], &["RENAME", "l", "d"]];
    let sorted_sets: [&[&str]; 5] = [
        &["ZUNIONSTORE", "d", "1", "z"],
        &["ZDIFFSTORE", "d", "1", "z"],
        &["ZRANGESTORE", "d", "z", "0", "-1"],
        &["GEOSEARCHSTORE", "d", "g", "FROMMEMBER", "m", "BYRADIUS", "1", "km"],
        &["GEORADIUS", "g", "0", "0", "1", "km", "STORE", "d"],
    ];
    type Call<'a> = &'a [&'a str];
    let waits: [(Call, &[Call], &str); 4] = [
        (&["BLPOP", "d", "0"], &lists, "[d 1]"),
        (&["BLMOVE", "d", "moved", "LEFT", "LEFT", "0"], &lists[..2], "1"),
        (&["BLMPOP", "0", "1", "d", "LEFT"], &lists[..1], "[d [1]]"),
        (&["BZPOPMIN", "d", "0"], &sorted_sets, "[d m "),
    ];
    for (wait, stores, expected) in waits {
        for store in stores {
            let mut waiting = server.connect();
            client.call(&["RPUSH", "l", "1"]);
            waiting.send(wait);
            eventually("it waits", || server.info("blocked_clients") == 1);
            client.call(&["MULTI"]);
            client.call(&["SET", "d", "x"]);
            client.call(store);
            client.call(&["EXEC"]);
            let served = show(&waiting.receive().unwrap());
            assert!(served.starts_with(expected), "{wait:?} {store:?}: {served}");
            client.call(&["DEL", "d", "l"]);
        }
    }
}

/// Valkey 9.0.0: CLIENT REPLY in a transaction tore its reply. Here that is whole, or there is none.
#[test]
fn valkey_9_0_0_client_reply_in_a_transaction() {
    let server = Server::start("epoll", &[]);
    for (mode, then, expected) in [
        ("OFF", "CLIENT REPLY ON\r\nECHO a\r\n", "+OK\r\n$1\r\na\r\n"),
        ("SKIP", "PING\r\nECHO a\r\n", "$1\r\na\r\n"),
        ("ON", "ECHO a\r\n", "*3\r\n+PONG\r\n+OK\r\n+PONG\r\n$1\r\na\r\n"),
    ] {
        let mut client = server.connect();
        let call = format!("MULTI\r\nPING\r\nCLIENT REPLY {mode}\r\nPING\r\nEXEC\r\n{then}");
        client.send_bytes(call.as_bytes());
        client.end_sending();
        let received = client.read_to_end();
        let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n";
        assert_eq!(received, format!("{queued}{expected}"), "{mode}");
    }
    let valkey = Server::start("epoll", &["--dialect", "valkey"]);
    let mut client = valkey.connect();
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert!(client.text(&["CLIENT", "REPLY", "OFF"]).starts_with("ERR "));
    assert!(client.text(&["EXEC"]).starts_with("EXECABORT"));
}

/// Valkey 9.0.0: files are created with the permissions that the process's mask leaves.
#[test]
fn valkey_9_0_0_files_keep_to_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(scratch.path("")).stdin(std::process::Stdio::null());
    shell.args(["-c", "umask 027; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_petrel")]);
    let server = Server::start_by(shell, scratch, "epoll", &["--appendonly", "yes"]);
    let mut client = server.connect();
    client.call(&["SET", "k", "v"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    let before = server.info("aof_rewrites");
    client.call(&["BGREWRITEAOF"]);
    eventually("the log is rewritten", || {
        server.info("aof_rewrites") > before && server.info("aof_rewrite_in_progress") == 0
    });
    let log = server.scratch.path("appendonlydir");
    let mut files: Vec<_> =
        std::fs::read_dir(&log).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 3, "{files:?}");
    files.push(server.scratch.path("dump.rdb"));
    for file in files {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert!(mode == 0o640 || mode == 0o600, "{} has {mode:o}", file.display());
    }
    assert_eq!(std::fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o750);
}

/// Valkey 9.0.0: ACL LOAD of a replica, whose link to the primary is no user's.
#[test]
fn valkey_9_0_0_acl_load_of_a_replica() {
    let port = free_port().to_string();
    let args = ["--bind", "127.0.0.1", "--port", &port, "--repl-diskless-sync-delay", "0"];
    let primary = Server::start("epoll", &args);
    let scratch = Scratch::new();
    std::fs::write(scratch.path("users.acl"), "user default on nopass ~* &* +@all\n").unwrap();
    let args = ["--aclfile", "users.acl", "--replicaof", &format!("127.0.0.1 {port}")];
    let replica = Server::start_in(scratch, "epoll", &args);
    let (mut writer, mut reader) = (primary.connect(), replica.connect());
    for value in ["1", "2"] {
        writer.call(&["SET", "k", value]);
        eventually("it follows", || reader.text(&["GET", "k"]) == value);
        assert_eq!(reader.text(&["ACL", "LOAD"]), "OK");
    }
    assert!(reader.text(&["INFO", "replication"]).contains("master_link_status:up"));
}

/// Valkey 9.0.0: a client whose reads do not count is served by a push.
#[test]
fn valkey_9_0_0_clients_without_touch_are_served() {
    let server = Server::start("epoll", &["--maxmemory-policy", "allkeys-lru"]);
    let (mut waiting, mut other) = (server.connect(), server.connect());
    assert_eq!(waiting.text(&["CLIENT", "NO-TOUCH", "ON"]), "OK");
    waiting.send(&["BLPOP", "l", "0"]);
    eventually("it waits", || server.info("blocked_clients") == 1);
    other.call(&["RPUSH", "l", "x", "y"]);
    assert_eq!(show(&waiting.receive().unwrap()), "[l x]");
    assert_eq!(waiting.text(&["LRANGE", "l", "0", "-1"]), "[y]");
}

/// Valkey 8.1.5: an append-only file with a base of an unknown version. Redis 8.10.0: such a base with
/// defragmentation.
#[test]
fn valkey_8_1_5_append_only_files_of_later_versions() {
    let mut base = snapshot_of(&["SET a 1", "RPUSH l x y"]);
    assert!(base.starts_with(b"REDIS00"));
    base[5..9].copy_from_slice(b"0099");
    // A checksum of 0 says that there is none.
    let sum = base.len() - 8;
    base[sum..].fill(0);
    let file = [base, encoded(&["SELECT 0", "SET b 2"])].concat();
    let args = ["--appendonly", "yes", "--activedefrag", "yes", "--rdb-version-check"];
    let started = |check: &'static str| {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("appendonly.aof"), &file).unwrap();
        (scratch, [&args[..], &[check]].concat())
    };
    let (scratch, strict) = started("strict");
    let ended =
        run_to_end(&scratch, &[&["--port", "0", "--unixsocket", "s"], &strict[..]].concat());
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains("RDB version 99 is not known"), "{said}");
    let (scratch, relaxed) = started("relaxed");
    let server = Server::start_in(scratch, "epoll", &relaxed);
    assert_eq!(server.connect().text(&["MGET", "a", "b"]), "[1 2]");
}

/// Valkey 9.1.0: CONFIG REWRITE of sizes above 2^63.
#[test]
fn valkey_9_1_0_config_rewrite_of_large_sizes() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("conf"), "maxmemory 1gb\n").unwrap();
    let server = Server::start_in(scratch, "epoll", &["conf"]);
    let mut client = server.connect();
    assert_eq!(client.text(&["CONFIG", "SET", "maxmemory", "18446744073709551615"]), "OK");
    assert_eq!(client.text(&["CONFIG", "REWRITE"]), "OK");
    let file = std::fs::read_to_string(server.scratch.path("conf")).unwrap();
    assert!(!file.contains("maxmemory -"), "{file}");
    assert_eq!(client.text(&["SET", "k", "v"]), "OK");
    drop(client);
    let mut server = server;
    server.signal(libc::SIGTERM);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    let server = Server::start_in(server.into_scratch(), "epoll", &["conf"]);
    let limit = server.connect().text(&["CONFIG", "GET", "maxmemory"]);
    assert_eq!(limit, "[maxmemory 18446744073709551615]");
}

/// Valkey 9.1.0: the log says why a primary was lost.
#[test]
fn valkey_9_1_0_a_primary_that_closes_the_connection() {
    let primary = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = primary.local_addr().unwrap().port().to_string();
    let replica = Server::start("epoll", &["--replicaof", &format!("127.0.0.1 {port}")]);
    let (mut link, _) = primary.accept().unwrap();
    // A connection with unread bytes would be reset.
    assert_ne!(link.read(&mut [0; 64]).unwrap(), 0);
    drop(link);
    eventually("the log says why", || replica.output().contains("it closed the connection"));
    assert!(!replica.output().contains("Success"));
}
