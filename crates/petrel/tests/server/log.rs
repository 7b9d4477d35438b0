//! The log: data after a start, however the server ended.

use crate::harness::*;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const LOGGED: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

fn started(scratch: Scratch, args: &[&str]) -> Server {
    let server = Server::start_in(scratch, "epoll", args);
    eventually("the data", || {
        let mut client = server.connect();
        client.send(&["PING"]);
        // The kernel may close the socket of one that was killed a moment later.
        client.receive().is_some_and(|answer| show(&answer) == "PONG")
    });
    server
}

fn killed(mut server: Server) -> Scratch {
    server.signal(libc::SIGKILL);
    server.exit_code();
    // The kernel may close the ring's listener only a moment later; no test is to connect to it
    // until then.
    let _ = std::fs::remove_file(server.socket());
    server.into_scratch()
}

/// The last file for effects.
fn effects(scratch: &Scratch) -> PathBuf {
    let directory = std::fs::read_dir(scratch.path("appendonlydir")).unwrap();
    let files = directory.map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.to_string_lossy().ends_with(".effects.log")).collect();
    files.sort();
    files.pop().unwrap()
}

fn fill(server: &Server) {
    let mut client = server.connect();
    assert_eq!(client.text(&["SET", "s", "text"]), "OK");
    client.call(&["RPUSH", "l", "a", "b"]);
    client.call(&["PEXPIREAT", "l", "4102444800000"]);
    client.call(&["SELECT", "3"]);
    client.call(&["HSET", "h", "f", "v"]);
    let library = "#!lua name=lib\nredis.register_function('seven', function() return 7 end)";
    assert_eq!(client.text(&["FUNCTION", "LOAD", library]), "lib");
    assert_eq!(client.text(&["SWAPDB", "3", "4"]), "OK");
}

fn check(server: &Server) {
    let mut client = server.connect();
    assert_eq!(client.text(&["GET", "s"]), "text");
    assert_eq!(client.text(&["LRANGE", "l", "0", "-1"]), "[a b]");
    assert_eq!(client.text(&["PEXPIRETIME", "l"]), "4102444800000");
    assert_eq!(client.text(&["FCALL", "seven", "0"]), "7");
    assert_eq!(client.text(&["DBSIZE"]), "2");
    client.call(&["SELECT", "4"]);
    assert_eq!(client.text(&["HGETALL", "h"]), "[f v]");
}

with_each_backend!(
    everything_is_there_after_a_kill,
    what_is_durable_is_told_at_once,
    what_waits_for_the_disk_is_sent_amid_a_slow_script,
);

/// The end of a sync wakes its waiters, whatever the timers do.
fn what_is_durable_is_told_at_once(backend: &str) {
    let server = Server::start(backend, &[&LOGGED[..], &["--hz", "1"]].concat());
    let mut client = server.connect();
    let began = Instant::now();
    for _ in 0..45 {
        client.send(&["SET", "k", "v"]);
        client.send(&["WAITAOF", "1", "0", "0"]);
        let answers = [(); 2].map(|()| show(&client.receive().expect("an answer")));
        assert_eq!(answers, ["OK", "[1 0]"]);
    }
    // With a timer's second for each it would take longer.
    assert!(began.elapsed() < PATIENCE, "timers were waited for");
}

fn what_waits_for_the_disk_is_sent_amid_a_slow_script(backend: &str) {
    let more = ["--threads", "1", "--busy-reply-threshold", "20"];
    let server = Server::start(backend, &[&LOGGED[..], &more].concat());
    let (mut writer, mut runner, mut other) =
        (server.connect(), server.connect(), server.connect());
    for _ in 0..5 {
        writer.send(&["SET", "k", "v"]);
        runner.send(&["EVAL", "while true do end", "0"]);
        assert_eq!(show(&writer.receive().expect("an answer")), "OK");
        eventually("it is busy", || other.text(&["SCRIPT", "KILL"]) == "OK");
        assert!(show(&runner.receive().expect("an answer")).contains("killed by user"));
    }
}

fn everything_is_there_after_a_kill(backend: &str) {
    let server = Server::start(backend, &LOGGED);
    assert_eq!(server.info("aof_enabled"), 1);
    fill(&server);
    check(&server);
    let server = started(killed(server), &LOGGED);
    check(&server);
    // And again, from what two processes have written.
    let mut client = server.connect();
    client.call(&["SET", "more", "1"]);
    client.call(&["DEL", "more"]);
    let mut server = server;
    server.signal(libc::SIGTERM);
    server.exit_code();
    check(&started(server.into_scratch(), &LOGGED));
}

#[test]
fn a_rewritten_log_holds_the_same() {
    let server = Server::start("epoll", &LOGGED);
    fill(&server);
    let mut client = server.connect();
    for i in 0..2000 {
        client.call(&["SET", "counter", &i.to_string()]);
    }
    let before = server.info("aof_current_size");
    assert_eq!(client.text(&["BGREWRITEAOF"]), "Background append only file rewriting started");
    eventually("the rewriting", || server.info("aof_rewrite_in_progress") == 0);
    assert_eq!(server.info("aof_rewrites"), 1);
    assert!(server.info("aof_current_size") < before / 2);
    assert_eq!(client.text(&["SET", "after", "1"]), "OK");
    let scratch = killed(server);
    let manifest = scratch.path("appendonlydir/appendonly.aof.manifest");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let files = manifest.lines().filter(|line| line.starts_with("file "));
    let kinds: Vec<_> = files.map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(kinds, ["b", "e"], "{manifest}");
    let server = started(scratch, &LOGGED);
    let mut client = server.connect();
    assert_eq!(client.text(&["MGET", "counter", "after"]), "[1999 1]");
    client.call(&["DEL", "counter", "after"]);
    check(&server);
}

#[test]
fn the_log_can_be_loaded_while_the_server_runs() {
    let args = ["--appendonly", "yes", "--enable-debug-command", "yes"];
    let server = Server::start("epoll", &args);
    fill(&server);
    let mut client = server.connect();
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    check(&server);
    // And it goes on.
    client.call(&["SET", "s", "other"]);
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
    let server = started(killed(server), &args);
    assert_eq!(server.connect().text(&["GET", "s"]), "other");
}

#[test]
fn what_was_written_in_its_place_can_be_loaded_where_nothing_is_logged() {
    let server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    fill(&server);
    let mut client = server.connect();
    assert!(client.text(&["DEBUG", "LOADAOF"]).starts_with("ERR "));
    check(&server);
    assert_eq!(client.text(&["BGREWRITEAOF"]), "Background append only file rewriting started");
    eventually("the rewriting", || server.info("aof_rewrites") == 1);
    client.call(&["SET", "s", "other"]);
    assert_eq!(client.text(&["DEBUG", "LOADAOF"]), "OK");
    check(&server);
}

/// Fills database 7 with values of every type, some of them large, and goes back to database 0.
fn fill_with_all_types(client: &mut Client) {
    client.call(&["CONFIG", "SET", "appendfsync", "no"]);
    client.call(&["SELECT", "7"]);
    for i in 0..600 {
        let i = i.to_string();
        client.call(&["SET", &format!("string {i}"), &i]);
        client.call(&["RPUSH", "list", &i, "x"]);
        client.call(&["SADD", "set", &i]);
        client.call(&["ZADD", "zset", &i, &i]);
        client.call(&["HSET", "hash", &i, "x"]);
        client.call(&["XADD", "stream", &format!("{i}-1"), "f", &i]);
    }
    client.call(&["HPEXPIREAT", "hash", "4102444800000", "FIELDS", "2", "1", "2"]);
    client.call(&["XGROUP", "CREATE", "stream", "g", "0"]);
    client.call(&["XREADGROUP", "GROUP", "g", "c", "COUNT", "300", "STREAMS", "stream", ">"]);
    client.call(&["SET", "short", "lived", "PXAT", "4102444800000"]);
    client.call(&["PFADD", "sketch", "a", "b"]);
    client.call(&["SELECT", "0"]);
    client.call(&["CONFIG", "SET", "appendfsync", "always"]);
}

#[test]
fn what_was_reloaded_is_in_the_log() {
    const ARGS: [&str; 6] =
        ["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];
    let server = Server::start("epoll", &ARGS);
    let mut client = server.connect();
    fill(&server);
    fill_with_all_types(&mut client);
    assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
    let digest = client.text(&["DEBUG", "DIGEST"]);
    assert_eq!(client.text(&["DEBUG", "RELOAD"]), "OK");
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    let server = started(killed(server), &ARGS);
    let mut client = server.connect();
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest, "after RELOAD");
    check(&server);
    assert_eq!(client.text(&["SAVE"]), "OK");
    client.call(&["SET", "s", "later than the snapshot"]);
    client.call(&["LPUSH", "l", "later"]);
    client.call(&["SWAPDB", "7", "8"]);
    client.call(&["FUNCTION", "FLUSH"]);
    assert_ne!(client.text(&["DEBUG", "DIGEST"]), digest);
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE"]), "OK");
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    client.call(&["SET", "later", "1"]);
    client.call(&["DEL", "later"]);
    let server = started(killed(server), &ARGS);
    let mut client = server.connect();
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest, "after RELOAD NOSAVE");
    check(&server);
    assert_eq!(client.text(&["BGREWRITEAOF"]), "Background append only file rewriting started");
    eventually("the rewriting", || server.info("aof_rewrites") == 1);
    let server = started(killed(server), &ARGS);
    assert_eq!(server.connect().text(&["DEBUG", "DIGEST"]), digest, "after rewriting");
}

#[test]
fn a_log_that_has_grown_is_rewritten() {
    let args = ["--appendonly", "yes", "--auto-aof-rewrite-min-size", "20kb"];
    let server = Server::start("epoll", &args);
    let mut client = server.connect();
    let text = "x".repeat(1000);
    (0..50).for_each(|_| drop(client.call(&["SET", "key", &text])));
    eventually("the rewriting", || server.info("aof_rewrites") > 0);
}

#[test]
fn a_log_begins_with_the_snapshot() {
    let server = Server::start("epoll", &[]);
    fill(&server);
    assert_eq!(server.connect().text(&["SAVE"]), "OK");
    let server = started(killed(server), &LOGGED);
    check(&server);
    // From now on the log is what counts.
    server.connect().call(&["SET", "s", "other"]);
    let scratch = killed(server);
    std::fs::remove_file(scratch.path("dump.rdb")).unwrap();
    let server = started(scratch, &LOGGED);
    assert_eq!(server.connect().text(&["GET", "s"]), "other");
}

#[test]
fn a_log_can_be_turned_on_and_off() {
    let server = Server::start("epoll", &["--appendfsync", "always"]);
    fill(&server);
    let mut client = server.connect();
    let refused = "[ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.]";
    assert_eq!(format!("[{}]", client.text(&["WAITAOF", "1", "0", "0"])), refused);
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    // Which waits for the base.
    assert_eq!(client.text(&["WAITAOF", "1", "0", "5000"]), "[1 0]");
    client.call(&["SET", "on", "1"]);
    let server = started(killed(server), &LOGGED);
    check_and_drop_on(&server);
    let mut client = server.connect();
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "no"]), "OK");
    assert_eq!(server.info("aof_enabled"), 0);
    client.call(&["SET", "off", "1"]);
    // The files stay as they were, until it is turned on again.
    assert_eq!(client.text(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    assert_eq!(client.text(&["WAITAOF", "1", "0", "5000"]), "[1 0]");
    let server = started(killed(server), &LOGGED);
    let mut client = server.connect();
    assert_eq!(client.text(&["GET", "off"]), "1");
    client.call(&["DEL", "off"]);
    check(&server);
}

#[test]
fn a_log_that_a_transaction_may_not_turn_on_stays_off() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    for name in ["appendonly", "APPENDONLY"] {
        client.call(&["MULTI"]);
        client.call(&["SET", "k", "v"]);
        client.call(&["CONFIG", "SET", name, "yes"]);
        let answer = client.text(&["EXEC"]);
        assert!(answer.contains("cannot be changed inside a transaction"), "{answer}");
        assert_eq!(client.text(&["CONFIG", "GET", "appendonly"]), "[appendonly no]");
    }
    // The time in which the server looks whether it is to be on.
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(server.info("aof_enabled"), 0);
}

fn check_and_drop_on(server: &Server) {
    let mut client = server.connect();
    assert_eq!(client.text(&["GET", "on"]), "1");
    client.call(&["DEL", "on"]);
    check(server);
}

#[test]
fn waitaof_waits_until_it_is_durable() {
    for policy in ["always", "everysec", "no"] {
        let server = Server::start("epoll", &["--appendonly", "yes", "--appendfsync", policy]);
        let mut client = server.connect();
        client.call(&["SET", "key", "1"]);
        assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]", "{policy}");
        // There are no replicas, which it waits for as long as it may.
        assert_eq!(client.text(&["WAITAOF", "1", "1", "200"]), "[1 0]", "{policy}");
        let at_once = if policy == "always" { "[1 0]" } else { "[0 0]" };
        assert_eq!(client.text(&["WAITAOF", "0", "0", "200"]), at_once, "{policy}");
        let scratch = killed(server);
        let server = started(scratch, &["--appendonly", "yes"]);
        assert_eq!(server.connect().text(&["GET", "key"]), "1", "{policy}");
    }
}

#[test]
fn a_torn_end_is_dropped_and_damage_is_not_passed_over() {
    let server = Server::start("epoll", &LOGGED);
    let mut client = server.connect();
    for i in 0..10 {
        client.call(&["SET", &format!("key {i}"), "value"]);
    }
    let scratch = killed(server);
    let path = effects(&scratch);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    let args = [&LOGGED[..], &["--aof-load-truncated", "no"]].concat();
    let refused =
        run_to_end(&scratch, &[&args[..], &["--port", "0", "--unixsocket", "s"]].concat());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("in the middle of a block"), "{said}");
    let server = started(scratch, &LOGGED);
    assert_eq!(server.connect().text(&["DBSIZE"]), "9");
    assert!(server.output().contains("are dropped"), "{}", server.output());
    let scratch = killed(server);
    // The removed part stays removed, and later records are found.
    let server = started(scratch, &LOGGED);
    assert_eq!(server.connect().text(&["DBSIZE"]), "9");
    let scratch = killed(server);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let refused =
        run_to_end(&scratch, &[&LOGGED[..], &["--port", "0", "--unixsocket", "s"]].concat());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("is damaged"), "{said}");
    // The required repair is printed, and done only if the operator requests it.
    let check = |option: &str| {
        let output = run_to_end(&scratch, &["check", option, path.to_str().unwrap()]);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.success(), text)
    };
    let (is_whole, text) = check("--fix");
    assert!(!is_whole && text.contains("; --cut drops everything from byte "), "{text}");
    assert!(text.contains(" blocks written from 20"), "{text}");
    assert_eq!(std::fs::read(&path).unwrap(), damaged);
    let (is_whole, text) = check("--cut");
    assert!(is_whole && text.contains(" blocks written from 20"), "{text}");
    let left = std::fs::read(&path).unwrap();
    let kept = std::fs::read(path.with_extension("log.cut")).unwrap();
    assert_eq!([left, kept].concat(), damaged);
    let server = started(scratch, &LOGGED);
    let left: u64 = server.connect().text(&["DBSIZE"]).parse().unwrap();
    assert!((1..9).contains(&left), "{left}");
}

/// Bytes that the server may write to one file.
fn limit_files(server: &Server, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is live for the call.
    let set =
        unsafe { libc::prlimit(server.pid(), libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_disk_that_is_full_refuses_writes_and_loses_nothing() {
    for policy in ["always", "everysec"] {
        let server = Server::start("epoll", &["--appendonly", "yes", "--appendfsync", policy]);
        let mut client = server.connect();
        assert_eq!(client.text(&["SET", "before", "1"]), "OK");
        limit_files(&server, 2000);
        let text = "x".repeat(4000);
        // With `always` it is not answered before it is durable.
        client.send(&["SET", "key", &text]);
        let mut other = server.connect();
        let misconf = "MISCONF Errors writing to the AOF file: File too large (os error 27)";
        let fails = |client: &mut Client| {
            client.text(&["INFO", "persistence"]).contains("aof_last_write_status:err")
        };
        eventually("the failure", || fails(&mut other));
        assert_eq!(other.text(&["SET", "other", "1"]), misconf);
        assert_eq!(other.text(&["GET", "before"]), "1");
        assert_eq!(other.text(&["PING"]), misconf);
        limit_files(&server, libc::RLIM_INFINITY);
        eventually("the recovery", || other.text(&["SET", "other", "2"]) == "OK");
        assert_eq!(show(&client.receive().unwrap()), "OK");
        assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
        let server = started(killed(server), &["--appendonly", "yes"]);
        let mut client = server.connect();
        assert_eq!(client.text(&["MGET", "before", "key", "other"]), format!("[1 {text} 2]"));
    }
}

#[test]
fn what_was_acknowledged_when_each_write_is_synced_is_known_to_be_durable_at_once() {
    let server = Server::start("epoll", &["--appendonly", "yes", "--appendfsync", "everysec"]);
    let mut client = server.connect();
    for policy in ["always", "everysec", "always"] {
        client.text(&["CONFIG", "SET", "appendfsync", policy]);
        assert_eq!(client.text(&["SET", "k", "v"]), "OK");
        assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
        for round in 0..20 {
            client.text(&["INCR", "n"]);
            client.text(&["MULTI"]);
            client.text(&["WAITAOF", "1", "0", "0"]);
            // It answers at once.
            let answer = client.text(&["EXEC"]);
            assert!(policy != "always" || answer == "[[1 0]]", "{round}: {answer}");
        }
    }
}

#[test]
fn in_a_transaction_waitaof_says_what_the_log_has() {
    let server = started(Scratch::new(), &["--appendonly", "yes"]);
    let mut client = server.connect();
    let asked = |client: &mut Client| {
        client.call(&["MULTI"]);
        client.call(&["WAITAOF", "1", "0", "0"]);
        client.text(&["EXEC"])
    };
    for _ in 0..20 {
        assert_eq!(client.text(&["SET", "s", "v"]), "OK");
        assert_eq!(client.text(&["WAITAOF", "1", "0", "0"]), "[1 0]");
        assert_eq!(asked(&mut client), "[[1 0]]");
    }
}
