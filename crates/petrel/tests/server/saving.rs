//! Automatic saves, and the consequences of a failed one.

use crate::harness::*;

const NOT_SAVED: &str = "MISCONF Redis is configured to save RDB snapshots";

#[test]
fn a_save_point_saves() {
    let mut server = Server::start("epoll", &["--save", "1", "3"]);
    let mut client = server.connect();
    assert_eq!(client.text(&["CONFIG", "GET", "save"]), "[save 1 3]");
    client.call(&["SET", "a", "1"]);
    client.call(&["SET", "b", "1"]);
    assert_eq!(server.info("rdb_changes_since_last_save"), 2);
    assert!(!exists(&server.scratch.path("dump.rdb")));
    client.call(&["INCR", "a"]);
    eventually("the save", || server.info("rdb_saves") == 1);
    assert_eq!(server.info("rdb_changes_since_last_save"), 0);
    server.signal(libc::SIGKILL);
    server.exit_code();
    let server = Server::start_in(server.into_scratch(), "epoll", &[]);
    let mut client = server.connect();
    assert_eq!(client.text(&["MGET", "a", "b"]), "[2 1]");
}

#[test]
fn what_was_flushed_is_gone_from_the_disk_too() {
    let server = Server::start("epoll", &["--save", "1000", "1000"]);
    let mut client = server.connect();
    client.call(&["SET", "a", "1"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    let path = server.scratch.path("dump.rdb");
    let full = std::fs::metadata(&path).unwrap().len();
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    // It is no save that is counted, but the file is there with the answer.
    assert_eq!(server.info("rdb_saves"), 1);
    assert_eq!(server.info("rdb_changes_since_last_save"), 0);
    assert!(std::fs::metadata(&path).unwrap().len() < full);
    // Within a transaction, once that is over: the file never shows a part of one.
    for command in [&["MULTI"][..], &["FLUSHALL"], &["SET", "b", "1"], &["EXEC"]] {
        client.call(command);
    }
    eventually("the save", || server.info("rdb_saves") == 2);
    assert_eq!(server.info("rdb_changes_since_last_save"), 0);
    assert_eq!(client.text(&["MULTI"]), "OK");
    client.call(&["BGSAVE"]);
    assert_eq!(client.text(&["EXEC"]), "[Background saving scheduled]");
    eventually("the save", || server.info("rdb_saves") == 3);
}

#[test]
fn a_flush_is_answered_though_its_save_fails() {
    let server = Server::start("epoll", &["--save", "1000", "1000"]);
    let mut client = server.connect();
    // Once it answers it has looked for a file to load.
    assert_eq!(client.text(&["PING"]), "PONG");
    let path = server.scratch.path("dump.rdb");
    std::fs::create_dir(&path).unwrap();
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    // It is tried again in the background.
    eventually("the failure", || server.info("rdb_saves_consecutive_failures") == 1);
    std::fs::remove_dir(&path).unwrap();
    assert_eq!(client.text(&["SAVE"]), "OK");
}

#[test]
fn writes_are_refused_while_saving_fails() {
    let server = Server::start("epoll", &["--save", "1000", "1000"]);
    let mut client = server.connect();
    client.call(&["SET", "a", "1"]);
    let path = server.scratch.path("dump.rdb");
    std::fs::create_dir(&path).unwrap();
    let status = |client: &mut Client| {
        let text = client.text(&["INFO", "persistence"]);
        let status = text.lines().find_map(|line| line.strip_prefix("rdb_last_bgsave_status:"));
        status.unwrap().to_owned()
    };
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    eventually("the failure", || status(&mut server.connect()) == "err");
    assert_eq!(server.info("rdb_saves_consecutive_failures"), 1);
    let writing = "#!lua\nreturn redis.call('GET', 'a')";
    let reading = "#!lua flags=no-writes\nreturn redis.call('GET', 'a')";
    for (command, refused) in [
        (&["SET", "a", "2"][..], true),
        (&["PING"], true),
        (&["GET", "a"], false),
        (&["EVAL", "return redis.call('SET', 'a', '2')", "0"], true),
        (&["EVAL", "return redis.call('GET', 'a')", "0"], false),
        (&["EVAL", writing, "0"], true),
        (&["EVAL", reading, "0"], false),
        (&["FLUSHALL"], true),
        (&["PUBLISH", "a", "b"], false),
        (&["SET", "too", "many", "arguments"], true),
        (&["GET"], false),
    ] {
        let answer = client.text(command);
        assert_eq!(answer.starts_with(NOT_SAVED), refused, "{command:?}: {answer}");
    }
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert!(client.text(&["SET", "a", "2"]).starts_with(NOT_SAVED));
    assert!(client.text(&["EXEC"]).starts_with("EXECABORT"));
    // EXEC checks commands that were queued before.
    client.call(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    let queue = |client: &mut Client| {
        client.call(&["MULTI"]);
        client.call(&["SET", "a", "3"]);
        client.call(&["PING"]);
    };
    queue(&mut client);
    assert_eq!(client.text(&["EXEC"]), "[OK PONG]");
    queue(&mut client);
    server.connect().call(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"]);
    let answer = client.text(&["EXEC"]);
    let aborted = format!("EXECABORT Transaction discarded because of: {NOT_SAVED}");
    assert!(answer.starts_with(&aborted), "{answer}");

    assert!(client.text(&["SHUTDOWN"]).starts_with("ERR Errors trying to SHUTDOWN"));
    server.signal(libc::SIGTERM);
    // The command has been refused in the same words.
    eventually("the refusal to stop", || server.output().matches("can't exit").count() == 2);
    std::fs::remove_dir(&path).unwrap();
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    eventually("the save", || server.info("rdb_saves") == 1);
    assert_eq!(client.text(&["SET", "a", "4"]), "OK");
    assert_eq!(server.info("rdb_saves_consecutive_failures"), 0);
}

#[test]
fn nobody_who_asks_for_no_save_points_is_refused() {
    let server = Server::start("epoll", &[]);
    let mut client = server.connect();
    std::fs::create_dir(server.scratch.path("dump.rdb")).unwrap();
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    eventually("the failure", || server.info("rdb_saves_consecutive_failures") == 1);
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
    client.call(&["CONFIG", "SET", "save", "1000 1000"]);
    assert!(client.text(&["SET", "a", "1"]).starts_with(NOT_SAVED));
    client.call(&["CONFIG", "SET", "save", ""]);
    assert_eq!(client.text(&["SET", "a", "1"]), "OK");
}

#[test]
fn a_server_with_save_points_saves_at_its_end() {
    let points = &["--save", "1000", "1000"][..];
    let signal = |server: &mut Server, _: &mut Client| server.signal(libc::SIGTERM);
    let command = |_: &mut Server, client: &mut Client| client.send(&["SHUTDOWN"]);
    let unsaved = |_: &mut Server, client: &mut Client| client.send(&["SHUTDOWN", "NOSAVE"]);
    type Stop = dyn Fn(&mut Server, &mut Client);
    let ways: [(&[&str], &Stop, bool); 6] = [
        (points, &signal, true),
        (points, &command, true),
        (points, &unsaved, false),
        (&[], &signal, false),
        (&[], &command, false),
        (&["--shutdown-on-sigterm", "save"], &signal, true),
    ];
    for (args, stop, saves) in ways {
        let mut server = Server::start("epoll", args);
        let mut client = server.connect();
        client.call(&["SET", "a", "1"]);
        stop(&mut server, &mut client);
        assert_eq!(server.exit_code(), Some(0), "{}", server.output());
        assert_eq!(exists(&server.scratch.path("dump.rdb")), saves, "{args:?}");
    }
}

#[test]
fn what_is_acknowledged_while_the_server_saves_and_stops_is_saved() {
    let mut server = Server::start("epoll", &["--save", "1000", "1000"]);
    let mut client = server.connect();
    let mut acknowledged = 0;
    let writer = std::thread::scope(|scope| {
        let mut own = server.connect();
        let writer = scope.spawn(move || {
            loop {
                own.send(&["INCR", "counter"]);
                match own.receive() {
                    Some(answer) => acknowledged = show(&answer).parse::<i64>().unwrap(),
                    None => return acknowledged,
                }
            }
        });
        while client.text(&["GET", "counter"]).parse::<i64>().unwrap_or(0) < 100 {}
        server.signal(libc::SIGTERM);
        writer.join().unwrap()
    });
    assert_eq!(server.exit_code(), Some(0), "{}", server.output());
    let server = Server::start_in(server.into_scratch(), "epoll", &[]);
    let saved: i64 = server.connect().text(&["GET", "counter"]).parse().unwrap();
    assert!(saved >= writer, "{saved} of {writer}");
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let server =
        Server::start("epoll", &["--save", "1000 100000", "--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.call(&["SET", "a", "1"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    let path = server.scratch.path("dump.rdb");
    let before = std::fs::read(&path).unwrap();
    client.call(&["DEBUG", "POPULATE", "5000", "key", "100"]);
    server.limit_files(Some(20_000));
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    eventually("the failure", || server.info("rdb_saves_consecutive_failures") == 1);
    assert!(client.text(&["SET", "a", "2"]).starts_with(NOT_SAVED));
    assert!(client.text(&["SAVE"]).starts_with("ERR saving failed"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let names = std::fs::read_dir(server.scratch.path(".")).unwrap();
    let is_part = |name: &str| name.starts_with("temp-");
    assert!(!names.flatten().any(|file| is_part(&file.file_name().to_string_lossy())));
    server.limit_files(None);
    assert_eq!(client.text(&["BGSAVE"]), "Background saving started");
    eventually("the save", || server.info("rdb_saves") == 2);
    assert_eq!(client.text(&["SET", "a", "3"]), "OK");
    assert!(std::fs::read(&path).unwrap().len() > 20_000);
}

#[test]
fn killed_at_any_moment_there_is_the_old_file_or_the_new_one() {
    let debug = ["--enable-debug-command", "yes"];
    let mut server = Server::start("epoll", &debug);
    let mut client = server.connect();
    client.call(&["DEBUG", "POPULATE", "3000", "key", "50"]);
    client.call(&["MSET", "a", "0", "b", "0"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    let mut random = std::process::id();
    let mut saved_before = 0;
    for _ in 0..5 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        client.call(&["CONFIG", "SET", "rdb-key-save-delay", "5"]);
        for _ in 0..random >> 24 {
            // Both counters, and something in between that is changed.
            for command in
                [&["MULTI"][..], &["INCR", "a"], &["APPEND", "key:7", "x"], &["INCR", "b"]]
            {
                client.call(command);
            }
            client.call(&["EXEC"]);
            // Most of the time one is being saved already.
            client.call(&["BGSAVE"]);
        }
        server.signal(libc::SIGKILL);
        server.exit_code();
        server = Server::start_in(server.into_scratch(), "epoll", &debug);
        client = server.connect();
        let a: i64 = client.text(&["GET", "a"]).parse().unwrap();
        assert_eq!(client.text(&["GET", "b"]), a.to_string());
        assert_eq!(client.text(&["STRLEN", "key:7"]), (50 + a).to_string());
        assert_eq!(client.text(&["DBSIZE"]), "3002");
        assert!(a >= saved_before, "{a} after {saved_before}");
        saved_before = a;
    }
}
