//! Saving, and starting from the saved file.

use crate::harness::*;

with_each_backend!(
    what_was_saved_is_there_after_a_restart,
    saving_in_the_background_shows_one_moment
);

/// A value of each type, one in another database, one that expires.
const FILL: &[&[&str]] = &[
    &["SET", "s", "text", "EX", "1000"],
    &["SET", "n", "17"],
    &["RPUSH", "l", "a", "b", "3"],
    &["SADD", "i", "1", "2", "3"],
    &["ZADD", "z", "1.5", "a", "-2", "b"],
    &["HSET", "h", "f", "v", "g", "w"],
    &["HPEXPIRE", "h", "100000", "FIELDS", "1", "f"],
    &["XADD", "x", "1-1", "f", "v"],
    &["XGROUP", "CREATE", "x", "g", "0"],
    &["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 5 end)"],
    &["SELECT", "3"],
    &["SET", "other", "there"],
    &["SELECT", "0"],
];

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

fn what_was_saved_is_there_after_a_restart(backend: &str) {
    let mut server = Server::start(backend, &DEBUG);
    let mut client = server.connect();
    for command in FILL {
        client.call(command);
    }
    let digest = client.text(&["DEBUG", "DIGEST"]);
    assert!(server.info("rdb_changes_since_last_save") > 0);
    assert_eq!(client.text(&["SAVE"]), "OK");
    assert_eq!(server.info("rdb_changes_since_last_save"), 0);
    assert_eq!(server.info("rdb_saves"), 1);
    assert!(client.text(&["LASTSAVE"]).parse::<i64>().unwrap() > 1_600_000_000);
    client.call(&["SET", "not saved", "1"]);
    client.call(&["FUNCTION", "FLUSH"]);
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE"]), "OK");
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    let path = server.scratch.path("dump.rdb");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, b"REDIS0987").unwrap();
    assert!(client.text(&["DEBUG", "RELOAD", "NOSAVE"]).starts_with("ERR Error trying to load"));
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    std::fs::write(&path, whole).unwrap();
    assert_eq!(client.text(&["FCALL", "f", "0"]), "5");
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());

    let mut server = Server::start_in(server.into_scratch(), backend, &DEBUG);
    let mut client = server.connect();
    assert_eq!(client.text(&["DEBUG", "DIGEST"]), digest);
    assert_eq!(client.text(&["FCALL", "f", "0"]), "5");
    assert_eq!(server.info("rdb_last_load_keys_loaded"), 8);
    assert_eq!(server.info("rdb_changes_since_last_save"), 0);
    client.call(&["SET", "more", "1"]);
    client.send(&["SHUTDOWN", "SAVE"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());

    let server = Server::start_in(server.into_scratch(), backend, &DEBUG);
    assert_eq!(server.connect().text(&["GET", "more"]), "1");
}

fn saving_in_the_background_shows_one_moment(backend: &str) {
    let mut server = Server::start(backend, &DEBUG);
    let mut client = server.connect();
    assert_eq!(
        client.text(&["BGSAVE", "CANCEL"]),
        "ERR Background saving is currently not in progress or scheduled"
    );
    assert_eq!(client.text(&["BGSAVE", "NOW"]), "ERR syntax error");
    client.call(&["DEBUG", "POPULATE", "50000", "key", "100"]);
    // Two counters that are always equal, and keys that come and go.
    let transaction: &[&[&str]] = &[
        &["MULTI"],
        &["INCR", "a"],
        &["APPEND", "key:7", "x"],
        &["LPUSH", "list", "element"],
        &["INCR", "b"],
        &["EXEC"],
    ];
    let step = |client: &mut Client| transaction.iter().for_each(|c| drop(client.call(c)));
    step(&mut client);
    for round in 1..=3 {
        assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
        let mut steps = 0;
        while server.info("rdb_bgsave_in_progress") == 1 {
            step(&mut client);
            client.call(&["SET", &format!("new:{round}:{steps}"), "1"]);
            client.call(&["DEL", &format!("key:{}", round * 1000 + steps)]);
            steps += 1;
        }
        assert_eq!(server.info("rdb_saves"), round);
        assert_eq!(
            client.text(&["INFO", "persistence"]).matches("rdb_last_bgsave_status:ok").count(),
            1
        );
    }
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    let server = Server::start_in(server.into_scratch(), backend, &DEBUG);
    let mut client = server.connect();
    let a = client.text(&["GET", "a"]);
    assert_eq!(client.text(&["GET", "b"]), a);
    assert_eq!(client.text(&["LLEN", "list"]), a);
    let grown = client.text(&["STRLEN", "key:7"]).parse::<i64>().unwrap();
    assert_eq!(grown, 100 + a.parse::<i64>().unwrap());
}

#[test]
fn saving_in_the_background_ends_with_a_flush_or_the_server() {
    let mut server = Server::start("epoll", &DEBUG);
    let mut client = server.connect();
    client.call(&["DEBUG", "POPULATE", "20000", "key", "100"]);
    // So that it is not done before what follows.
    client.call(&["CONFIG", "SET", "rdb-key-save-delay", "100"]);
    client.send(&["BGSAVE"]);
    client.send(&["BGSAVE"]);
    client.send(&["FLUSHALL"]);
    assert_eq!(show(&client.receive().unwrap()), "Background saving started");
    assert_eq!(show(&client.receive().unwrap()), "ERR Background save already in progress");
    assert_eq!(show(&client.receive().unwrap()), "OK");
    eventually("the end of it", || server.info("rdb_bgsave_in_progress") == 0);
    assert!(client.text(&["INFO", "persistence"]).contains("rdb_last_bgsave_status:ok"));
    assert!(!exists(&server.scratch.path("dump.rdb")));
    client.call(&["DEBUG", "POPULATE", "20000", "key", "100"]);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    assert_eq!(client.text(&["BGSAVE", "CANCEL"]), "Background saving cancelled");
    eventually("the end of it", || server.info("rdb_bgsave_in_progress") == 0);
    client.send(&["BGSAVE"]);
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    let left = std::fs::read_dir(server.scratch.path(".")).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let files: Vec<_> = names.filter(|name| name.ends_with(".rdb")).collect();
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn a_failed_save_leaves_the_old_file_and_the_server() {
    let mut server = Server::start("epoll", &[]);
    let mut client = server.connect();
    std::fs::create_dir(server.scratch.path("dump.rdb")).unwrap();
    let answer = client.text(&["SAVE"]);
    assert!(answer.starts_with("ERR saving failed: "), "{answer}");
    assert!(client.text(&["SHUTDOWN", "SAVE"]).starts_with("ERR Errors trying to SHUTDOWN"));
    assert_eq!(client.text(&["PING"]), "PONG");
    let left = std::fs::read_dir(server.scratch.path(".")).unwrap();
    let parts = left
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("temp-"));
    assert_eq!(parts.count(), 0);
    client.send(&["SHUTDOWN", "SAVE", "FORCE"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
}

#[test]
fn a_damaged_file_stops_the_start_and_is_kept() {
    let mut server = Server::start("epoll", &[]);
    let mut client = server.connect();
    for i in 0..100 {
        client.call(&["SET", &format!("key:{i}"), "value"]);
    }
    assert_eq!(client.text(&["SAVE"]), "OK");
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0));
    let scratch = server.into_scratch();
    let path = scratch.path("dump.rdb");
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (damaged, complaint) in [
        (&flipped[..], "cannot load dump.rdb"),
        (&whole[..whole.len() - 20], "ends too early"),
        (b"no snapshot at all", "does not begin as an RDB file does"),
    ] {
        std::fs::write(&path, damaged).unwrap();
        let output = run_to_end(&scratch, &["--port", "0", "--unixsocket", "s"]);
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(complaint), "{text}");
        assert_eq!(std::fs::read(&path).unwrap(), damaged);
    }
}

#[test]
fn check_says_what_a_file_holds_and_what_is_wrong() {
    let mut server = Server::start("epoll", &[]);
    let mut client = server.connect();
    FILL.iter().for_each(|command| drop(client.call(command)));
    assert_eq!(client.text(&["SAVE"]), "OK");
    client.send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0));
    let scratch = server.into_scratch();
    let output = run_to_end(&scratch, &["check", "dump.rdb"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let whole = "dump.rdb: whole; RDB version 12, 8 keys, 1 hash, 1 list, 1 set, 1 stream, 3 string, 1 zset; \
                 1 expire; in 2 databases; 1 library of functions";
    assert!(output.status.success() && text.starts_with(whole), "{text}");
    let path = scratch.path("dump.rdb");
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let output = run_to_end(&scratch, &["check", "missing.rdb", "dump.rdb"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("missing.rdb: No such file"), "{text}");
    assert!(text.contains("dump.rdb: the checksum is"), "{text}");
}

#[test]
fn check_refuses_what_the_server_refuses() {
    let file = |records: &[&[u8]]| [b"REDIS0012", &records.concat()[..], &[0xff], &[0; 8]].concat();
    let library = |text: &str| [&[0xf5, text.len() as u8], text.as_bytes()].concat();
    let right = "#!lua name=a\nredis.register_function('f', function() end)";
    let cases: [(&str, Vec<u8>, bool); 8] = [
        ("a key", file(&[b"\x00\x01a\x01v\x00\x01a\x01v"]), false),
        ("a member", file(&[b"\x02\x01s\x02\x01m\x01m"]), false),
        ("a field", file(&[b"\x04\x01h\x02\x01f\x01v\x01f\x01w"]), false),
        ("a library", file(&[&library(right)]), true),
        ("the same library", file(&[&library(right), &library(right)]), false),
        ("no metadata", file(&[&library("redis.register_function('f', 1)")]), false),
        ("no Lua", file(&[&library("#!lua name=a\n(")]), false),
        // Redis passes over it, too.
        ("something behind it", [&file(&[])[..], b"garbage"].concat(), true),
    ];
    for (what, bytes, is_right) in cases {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("dump.rdb"), &bytes).unwrap();
        let checked = run_to_end(&scratch, &["check", "dump.rdb"]);
        assert_eq!(checked.status.success(), is_right, "{what}: {checked:?}");
        if is_right {
            Server::start_in(scratch, "epoll", &[]);
            continue;
        }
        let args = ["--port", "0", "--unixsocket", "s", "--threads", "2", "--save", ""];
        assert_eq!(run_to_end(&scratch, &args).status.code(), Some(1), "{what}");
    }
}

#[test]
fn what_a_killed_server_was_writing_is_removed_at_the_start() {
    let mut server = Server::start("epoll", &["--rdb-key-save-delay", "10000000"]);
    let mut client = server.connect();
    client.call(&["MSET", "a", "1", "b", "2", "c", "3"]);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    let dead = server.pid();
    let part = format!("temp-bg-{dead}.rdb");
    eventually("the part", || exists(&server.scratch.path(&part)));
    server.signal(libc::SIGKILL);
    server.exit_code();
    assert!(exists(&server.scratch.path(&part)));
    let scratch = server.into_scratch();
    let _ = std::fs::remove_file(scratch.path("s"));
    // Those of a process that is alive and has its own open, of another server, and of no server
    // stay.
    let others =
        ["temp-bg-x.rdb".into(), format!("temp-{dead}.rdb"), format!("temp-bg-{dead}.rdb.old")];
    others
        .iter()
        .for_each(|name| std::fs::write(scratch.path(name), "REDIS0011 of Redis").unwrap());
    let own = format!("temp-bg-{}.rdb", std::process::id());
    let open = std::fs::File::create(scratch.path(&own)).unwrap();
    let server = Server::start_in(scratch, "epoll", &[]);
    assert!(!exists(&server.scratch.path(&part)), "{}", server.output());
    assert!(server.output().contains(&format!("removed {part}")));
    for name in others.iter().chain([&own]) {
        assert!(exists(&server.scratch.path(name)), "{name}");
    }
    drop(open);
}

#[test]
fn a_file_is_merged_with_what_is_there() {
    let server = Server::start("epoll", &DEBUG);
    let mut client = server.connect();
    let library = |name: &str, value: u8| {
        format!(
            "#!lua name={name}\nredis.register_function('{name}', function() return {value} end)"
        )
    };
    // Long enough to be read by itself, and short.
    let long = "x".repeat(3_000_000);
    for command in [
        &["MSET", "a", "1", "b", "1"][..],
        &["RPUSH", "list", "1", "2"],
        &["RPUSH", "long", &long],
        &["FUNCTION", "LOAD", &library("f", 1)],
        &["FUNCTION", "LOAD", &library("g", 1)],
    ] {
        client.call(command);
    }
    assert_eq!(client.text(&["PEXPIRE", "b", "1000000"]), "1");
    let failed = "ERR Error trying to load the RDB dump, check server logs.";
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOFLUSH"]), failed);
    assert_eq!(client.text(&["DEBUG", "RELOAD"]), "OK");
    assert_eq!(server.info("rdb_changes_since_last_save"), 0);
    for command in [
        &["SET", "a", "2"][..],
        &["DEL", "b", "list", "long"],
        &["SET", "c", "2"],
        &["SADD", "list", "member"],
        &["RPUSH", "long", "2"],
        &["FUNCTION", "LOAD", "REPLACE", &library("f", 2)],
        &["FUNCTION", "DELETE", "g"],
        &["FUNCTION", "LOAD", &library("h", 2)],
    ] {
        client.call(command);
    }
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE", "NOFLUSH"]), failed);
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE"]), "OK");
    assert_eq!(client.text(&["MGET", "a", "b", "c"]), "[1 1 2]");
    assert_eq!(client.text(&["LRANGE", "list", "0", "-1"]), "[1 2]");
    assert_eq!(client.text(&["LLEN", "long"]), "1");
    assert!(client.text(&["PTTL", "b"]).parse::<i64>().unwrap() > 0);
    for (name, value) in [("f", "1"), ("g", "1"), ("h", "2")] {
        assert_eq!(client.text(&["FCALL", name, "0"]), value);
    }
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE", "MERGE"]), "OK");
    assert_eq!(client.text(&["MGET", "a", "c"]), "[1 nil]");
    assert_eq!(client.text(&["FCALL", "h", "0"]), "ERR Function not found");
}

/// Keys of a file that have expired since it was saved do not replace present keys.
#[test]
fn what_has_expired_in_a_file_is_merged_with_nothing() {
    let server = Server::start("epoll", &DEBUG);
    let mut client = server.connect();
    let long = "x".repeat(3_000_000);
    let keys = ["a", "list", "long"];
    for command in [&["SET", "a", "1"][..], &["RPUSH", "list", "1"], &["RPUSH", "long", &long]] {
        client.call(command);
    }
    // The keys are to be gone only once they are saved.
    assert_eq!(client.text(&["DEBUG", "SET-ALLOW-ACCESS-EXPIRED", "1"]), "OK");
    for key in keys {
        assert_eq!(client.text(&["PEXPIRE", key, "1"]), "1");
    }
    assert_eq!(client.text(&["SAVE"]), "OK");
    client.call(&["FLUSHALL"]);
    assert_eq!(client.text(&["DEBUG", "SET-ALLOW-ACCESS-EXPIRED", "0"]), "OK");
    client.call(&["DEBUG", "SLEEP", "0.01"]);
    for key in keys {
        assert_eq!(client.text(&["SET", key, "new"]), "OK");
    }
    assert_eq!(client.text(&["DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE"]), "OK");
    assert_eq!(client.text(&["MGET", "a", "list", "long"]), "[new new new]");
}
