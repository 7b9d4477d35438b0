//! Faults of release notes that show in operation: shutdown, replicas, the log, descriptors. Each
//! test is named after the release that fixed it (`docs/advisories.md`).

use crate::harness::*;
use std::os::unix::net::UnixStream;

/// Starts a primary with a port, and a replica of it.
fn pair(args: &[&str]) -> (Server, Server) {
    let port = free_port().to_string();
    let usual = ["--bind", "127.0.0.1", "--port", &port, "--repl-diskless-sync-delay", "0"];
    let primary = Server::start("epoll", &[&usual, args].concat());
    let of = format!("127.0.0.1 {port}");
    let replica = Server::start("epoll", &["--replicaof", &of, "--replica-read-only", "no"]);
    let mut client = primary.connect();
    eventually("the replica follows", || {
        client.text(&["INFO", "replication"]).contains("state=online")
    });
    (primary, replica)
}

/// Redis 8.4.0: clients that are blocked during a shutdown that is taken back. Valkey 8.1.1: a
/// shutdown that waits, after another.
#[test]
fn redis_8_4_0_a_shutdown_that_is_taken_back() {
    let (mut primary, replica) = pair(&["--shutdown-timeout", "10000"]);
    let mut client = primary.connect();
    let mut waiting = primary.connect();
    waiting.send(&["BLPOP", "l", "0"]);
    eventually("it waits", || primary.info("blocked_clients") == 1);
    // A stopped replica acknowledges nothing, so a shutdown waits for it.
    replica.signal(libc::SIGSTOP);
    assert_eq!(client.text(&["SET", "k", "v"]), "OK");
    for _ in 0..2 {
        let mut stoppers = [primary.connect(), primary.connect()];
        stoppers.iter_mut().for_each(|stopper| stopper.send(&["SHUTDOWN"]));
        eventually("both wait", || {
            let list = client.text(&["CLIENT", "LIST"]);
            list.matches("cmd=shutdown").count() == 2
        });
        assert_eq!(client.text(&["SHUTDOWN", "ABORT"]), "OK");
        for stopper in &mut stoppers {
            assert!(show(&stopper.receive().unwrap()).starts_with("ERR Errors trying to SHUTDOWN"));
            assert_eq!(stopper.text(&["PING"]), "PONG");
        }
    }
    assert_eq!(client.text(&["RPUSH", "l", "x"]), "1");
    assert_eq!(show(&waiting.receive().unwrap()), "[l x]");
    let mut stopper = primary.connect();
    stopper.send(&["SHUTDOWN"]);
    eventually("it waits", || client.text(&["CLIENT", "LIST"]).contains("cmd=shutdown"));
    client.send(&["SHUTDOWN", "NOW"]);
    assert_eq!(primary.exit_code(), Some(0), "{}", primary.output());
}

/// Redis 8.6.0: FLUSHALL ASYNC by a client of a replica; the end of both servers.
#[test]
fn redis_8_6_0_flushall_in_the_background_of_a_replica() {
    let (mut primary, mut replica) = pair(&[]);
    let (mut writer, mut reader) = (primary.connect(), replica.connect());
    writer.call(&["EVAL", "for i = 1, 20000 do redis.call('SET', i, i) end", "0"]);
    eventually("it follows", || reader.text(&["DBSIZE"]) == "20000");
    assert_eq!(reader.text(&["FLUSHALL", "ASYNC"]), "OK");
    assert_eq!(reader.text(&["DBSIZE"]), "0");
    writer.call(&["SET", "k", "v"]);
    eventually("it follows on", || reader.text(&["GET", "k"]) == "v");
    assert_eq!(writer.text(&["FLUSHALL", "ASYNC"]), "OK");
    eventually("it is empty", || reader.text(&["DBSIZE"]) == "0");
    for server in [&mut replica, &mut primary] {
        server.signal(libc::SIGTERM);
        assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    }
}

/// Redis 8.8.0 (CVE-2026-23631): a full sync that begins while a script runs does not change the
/// data under the script.
#[test]
fn redis_8_8_0_a_full_sync_during_a_script() {
    const SCRIPT: &str = "while redis.call('GET', KEYS[1]) do end return 'changed'";
    let port = free_port().to_string();
    let replica = Server::start("epoll", &["--busy-reply-threshold", "20"]);
    let (mut client, mut runner) = (replica.connect(), replica.connect());
    client.call(&["SET", "own", "1"]);
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", &port]), "OK");
    runner.send(&["EVAL", SCRIPT, "1", "own"]);
    eventually("the script is slow", || client.text(&["PING"]).starts_with("BUSY"));
    let args = ["--bind", "127.0.0.1", "--port", &port, "--repl-diskless-sync-delay", "0"];
    let primary = Server::start("epoll", &args);
    primary.connect().call(&["SET", "k", "v"]);
    eventually("the replica asks for a full sync", || primary.info("sync_full") > 0);
    client.call(&["SCRIPT", "KILL"]);
    let ended = show(&runner.receive().unwrap());
    assert!(ended.starts_with("LOADING ") || ended.contains("killed by user"), "{ended}");
    eventually("it follows", || client.text(&["MGET", "own", "k"]) == "[nil v]");
}

/// Redis 8.6.0, Valkey 8.1.8: names, values and passwords of users are not logged at any level.
#[test]
fn redis_8_6_0_data_of_users_are_not_logged() {
    let server = Server::start("epoll", &["--loglevel", "debug", "--save", "900 1"]);
    let mut client = server.connect();
    for call in [
        &["SET", "secret", "secret"][..],
        &["SET", "secret", "secret", "EX", "secret"],
        &["secret", "secret"],
        &["EVAL", "return redis.call('secret', 'secret')", "0"],
        &["EVAL", "error('secret')", "0"],
        &["FUNCTION", "LOAD", "#!lua name=l\nerror('secret')"],
        &["RESTORE", "secret", "0", "secret"],
        &["AUTH", "secret"],
        &["AUTH", "secret", "secret"],
        &["ACL", "SETUSER", "x", ">secret"],
        &["ACL", "SETUSER", "secret", "secret"],
        &["CONFIG", "SET", "masterauth", "secret"],
        &["CONFIG", "SET", "maxmemory", "secret"],
        &["MIGRATE", "127.0.0.1", "1", "secret", "0", "1", "AUTH", "secret"],
        &["SAVE"],
    ] {
        client.call(call);
    }
    for request in [
        &b"*1\r\n$-5\r\nsecret\r\n"[..],
        b"secret \"secret\r\n",
        b"POST /secret HTTP/1.1\r\nHost: secret\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.send_bytes(request);
        client.end_sending();
        client.read_to_end();
    }
    let mut server = server;
    server.signal(libc::SIGTERM);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    assert!(!server.output().contains("secret"), "{}", server.output());
}

/// Valkey 8.1.2 (CVE-2025-27151): names of any length are errors of the check.
#[test]
fn valkey_8_1_2_long_names_of_files_to_check() {
    let scratch = Scratch::new();
    let logs = scratch.path("appendonlydir");
    std::fs::create_dir(&logs).unwrap();
    let line = format!("file {} seq 1 type b\n", "z".repeat(100_000));
    std::fs::write(logs.join("appendonly.aof.manifest"), line).unwrap();
    for path in ["x".repeat(5000), "y/".repeat(10_000), "appendonlydir".to_owned()] {
        let ended = run_to_end(&scratch, &["check", &path]);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
    }
}

/// Valkey 8.1.3 (CVE-2025-48367): more connections than there are descriptors.
#[test]
fn valkey_8_1_3_more_connections_than_descriptors() {
    for backend in ["epoll", "io_uring"] {
        if backend == "io_uring" && !has_io_uring() {
            continue;
        }
        let scratch = Scratch::new();
        let mut shell = std::process::Command::new("sh");
        shell.current_dir(scratch.path("")).stdin(std::process::Stdio::null());
        shell.args(["-c", "ulimit -n 160; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_petrel")]);
        let server = Server::start_by(shell, scratch, backend, &[]);
        let mut first = server.connect();
        let clients: Vec<_> = (0..300).map(|_| UnixStream::connect(server.socket())).collect();
        assert_eq!(first.text(&["PING"]), "PONG");
        drop(clients);
        eventually("a new client is served", || {
            let mut client = server.connect();
            client.send(&["PING"]);
            client.receive().is_some_and(|reply| show(&reply) == "PONG")
        });
        assert_eq!(first.text(&["PING"]), "PONG");
    }
}

/// Redis 8.10.0: `MEMORY USAGE` of all keys together is about what the server uses for them.
#[test]
fn redis_8_10_0_memory_usage_adds_up() {
    const FILL: &str = "
        local j = ARGV[1]
        for i = 1, 100 do redis.call('SET', 'str:' .. j .. i, string.rep('x', 500)) end
        for i = 1, 300 do
            redis.call('HSET', 'h' .. j, 'f' .. i, string.rep('v', 40))
            redis.call('RPUSH', 'l' .. j, string.rep('v', 40))
            redis.call('ZADD', 'z' .. j, i, 'm' .. i)
            redis.call('SADD', 's' .. j, 'member' .. i)
            redis.call('XADD', 'x' .. j, i .. '-1', 'f', string.rep('v', 30))
        end";
    const SUM: &str = "
        local sum = 0
        for _, key in ipairs(redis.call('KEYS', '*')) do
            sum = sum + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0)
        end
        return sum";
    let server = Server::start("epoll", &["--threads", "1"]);
    let mut client = server.connect();
    let before = server.info("used_memory");
    for number in ["a", "b", "c", "d", "e"] {
        client.call(&["EVAL", FILL, "0", number]);
    }
    eventually("the sum is between 50 and 120 % of the growth", || {
        let sum: i64 = client.text(&["EVAL", SUM, "0"]).parse().unwrap();
        let grown = server.info("used_memory") - before;
        (grown / 2..grown * 12 / 10).contains(&sum)
    });
}
