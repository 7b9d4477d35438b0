//! Faults that release notes of Redis 8.4 to 8.10 and Valkey 8.1 to 9.1 tell of, tried on a server: each test is named
//! after the release that fixed it (`docs/advisories.md`). Those of commands alone are in the tests of the commands.

use crate::harness::*;
use crate::replication_primary::{encoded, snapshot_of};
use petrel_resp::Value;

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
