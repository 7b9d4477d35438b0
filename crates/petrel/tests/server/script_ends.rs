//! Scripts that resist being ended.

use crate::harness::*;

with_each_backend!(
    every_script_is_killed,
    every_function_is_killed,
    a_text_that_takes_long_to_compile_is_killed,
    every_script_ends_with_the_server,
    what_a_script_that_does_not_end_has_written_is_not_kept,
    a_script_that_has_written_is_waited_for,
    a_script_is_not_ended_when_the_server_goes_on,
);

const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Calls a library of them: `redis` has its commands.
const STUBBORN: &[&str] = &[
    "xpcall(error, function() while true do end end)",
    "while true do xpcall(error, function() while true do pcall(error) end end) end",
    "xpcall(error, function() coroutine.wrap(function() while true do end end)() end) while true do end",
    "xpcall(error, function() while true do redis.pcall('PING') end end)",
    "local function f() return pcall(f) and f() end while true do xpcall(f, function() return f() end) end",
    "string.find(('a'):rep(50), ('a*'):rep(30) .. 'b')",
    "while true do load(math.random) end",
    "table.insert({}, -2147483647, 1)",
    "local level = {[{}] = table.foreach} for depth = 1, 30 do \
         local next = {} for i = 1, 30 do local t = {} for k, v in pairs(level) do t[k] = v end next[t] = table.foreach end \
         level = next end while true do table.foreach(level, table.foreach) end",
    "while true do loadstring('local a return ' .. string.rep('a and ', 5e4) .. 'a') end",
    "local t = {} for i = 1, 500 do local u = {} for j = 1, 500 do u[j] = {} end t[i] = u end \
         collectgarbage('setpause', 0) collectgarbage('setstepmul', 0) while true do local x = {} end",
];

fn start(backend: &str, threads: &str, args: &[&str]) -> Server {
    let args = [&["--threads", threads, "--busy-reply-threshold", "20"], args].concat();
    Server::start(backend, &args)
}

fn answer(client: &mut Client) -> String {
    show(&client.receive().expect("an answer"))
}

fn until_busy(client: &mut Client) {
    eventually("it is busy", || client.text(&["PING"]).starts_with("BUSY"));
}

fn every_script_is_killed(backend: &str) {
    for threads in ["1", "2"] {
        let server = start(backend, threads, &[]);
        let (mut runner, mut other) = (server.connect(), server.connect());
        for script in STUBBORN {
            runner.send(&["EVAL", script, "1", "k"]);
            until_busy(&mut other);
            assert_eq!(server.connect().text(&["GET", "k"]), BUSY, "{script}");
            assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK", "{script}");
            let end = answer(&mut runner);
            assert!(end.contains("killed by user with SCRIPT KILL"), "{script}: {end}");
            assert_eq!(other.text(&["PING"]), "PONG");
        }
    }
}

fn every_function_is_killed(backend: &str) {
    let server = start(backend, "2", &[]);
    let (mut runner, mut other) = (server.connect(), server.connect());
    for script in STUBBORN {
        let library =
            format!("#!lua name=l\nredis.register_function('f', function() {script} end)");
        assert_eq!(other.text(&["FUNCTION", "LOAD", "REPLACE", &library]), "l");
        runner.send(&["FCALL", "f", "0"]);
        until_busy(&mut other);
        assert_eq!(other.text(&["FUNCTION", "KILL"]), "OK", "{script}");
        assert!(answer(&mut runner).contains("killed by user with FUNCTION KILL"), "{script}");
        assert_eq!(other.text(&["PING"]), "PONG");
    }
}

fn a_text_that_takes_long_to_compile_is_killed(backend: &str) {
    let server = start(backend, "2", &["--enable-debug-command", "yes"]);
    let (mut runner, mut other) = (server.connect(), server.connect());
    let script = format!("local a return {}a", "a and ".repeat(1 << 20));
    for command in [&["EVAL", &script, "0"][..], &["SCRIPT", "LOAD", &script]] {
        runner.send(command);
        until_busy(&mut other);
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
        let end = answer(&mut runner);
        assert!(end.contains("ERR Error compiling script"), "{end}");
        assert!(end.contains("killed by user"), "{end}");
    }
    let library = format!("#!lua name=l\n{script}");
    assert!(runner.text(&["FUNCTION", "LOAD", &library]).contains("FUNCTION LOAD timeout"));
    assert_eq!(other.text(&["PING"]), "PONG");
}

/// Requests a shutdown while a script runs.
fn ask_to_stop(server: &Server, how: &str) {
    match how {
        "SIGTERM" => server.signal(libc::SIGTERM),
        "SIGINT" => server.signal(libc::SIGINT),
        _ => server.connect().send(&how.split(' ').collect::<Vec<_>>()),
    }
}

/// Whether it has written, and holds one key or all of them; whether the data is to be saved.
fn every_script_ends_with_the_server(backend: &str) {
    const LOOP: &str = "xpcall(error, function() while true do end end)";
    let saved = ["--save", "3600 1"];
    for (before, may_save) in [
        ("", true),
        ("redis.call('GET', 'undeclared')", true),
        ("redis.call('SET', KEYS[1], 1)", false),
        ("redis.call('SET', KEYS[1], 1) redis.call('SET', 'undeclared', 1)", false),
    ] {
        for (how, saves) in
            [("SHUTDOWN NOSAVE", true), ("SIGTERM", true), ("SIGTERM", false), ("SIGINT", true)]
        {
            let save: &[&str] = if saves { &saved } else { &["--save", ""] };
            let args = [save, &["--shutdown-timeout", "1"]].concat();
            let threads = if how == "SIGINT" { "1" } else { "2" };
            let mut server = start(backend, threads, &args);
            let (mut runner, mut other) = (server.connect(), server.connect());
            assert_eq!(other.text(&["SET", "k", "0"]), "OK");
            runner.send(&["EVAL", &format!("{before} {LOOP}"), "1", "k"]);
            until_busy(&mut other);
            ask_to_stop(&server, how);
            let is_saved = may_save || !saves || how == "SHUTDOWN NOSAVE";
            let expected = if is_saved { Some(0) } else { Some(1) };
            assert_eq!(server.exit_code(), expected, "{how}, {saves}: {before}");
            assert_eq!(server.output().contains("the data was not saved"), !is_saved);
        }
    }
}

/// Writes of a script that is ended are not in the log either.
fn what_a_script_that_does_not_end_has_written_is_not_kept(backend: &str) {
    for how in ["SIGTERM", "SHUTDOWN NOSAVE"] {
        for script in [
            "redis.call('SET', KEYS[1], 'part') while true do end",
            "redis.call('SET', KEYS[1], 'part') redis.call('SET', 'undeclared', 'part') while true do end",
        ] {
            let args = ["--appendonly", "yes", "--save", "", "--shutdown-timeout", "1"];
            let mut server = start(backend, "2", &args);
            let (mut runner, mut other) = (server.connect(), server.connect());
            assert_eq!(other.text(&["MSET", "k", "whole", "other", "whole"]), "OK");
            runner.send(&["EVAL", script, "1", "k"]);
            until_busy(&mut other);
            ask_to_stop(&server, how);
            assert_eq!(server.exit_code(), Some(0), "{how}");
            let again = Server::start_in(server.into_scratch(), backend, &args);
            let values = again.connect().text(&["MGET", "k", "other", "undeclared"]);
            assert_eq!(values, "[whole whole nil]", "{how}: {script}");
        }
    }
}

/// A slow script that ends before `shutdown-timeout`: the data are saved with its writes.
fn a_script_that_has_written_is_waited_for(backend: &str) {
    let args = ["--save", "3600 1", "--shutdown-timeout", "1000"];
    let mut server = start(backend, "2", &args);
    let (mut runner, mut other) = (server.connect(), server.connect());
    // It goes on until it has seen the server stop: nothing else makes its commands fail.
    let script = "redis.call('SET', KEYS[1], 'whole') local n = 0 while n < 3e7 do n = n + 1 end \
                  redis.call('SET', KEYS[2], 'whole')";
    runner.send(&["EVAL", script, "2", "k", "l"]);
    until_busy(&mut other);
    server.signal(libc::SIGTERM);
    assert_eq!(server.exit_code(), Some(0));
    let again = Server::start_in(server.into_scratch(), backend, &args);
    assert_eq!(again.connect().text(&["MGET", "k", "l"]), "[whole whole]");
}

/// A refused shutdown ends a slow script that has not written, and none later.
fn a_script_is_not_ended_when_the_server_goes_on(backend: &str) {
    let server = start(backend, "2", &["--save", "3600 1", "--shutdown-timeout", "0"]);
    let (mut runner, mut other) = (server.connect(), server.connect());
    assert_eq!(other.text(&["SET", "k", "v"]), "OK");
    let directory = server.socket().parent().expect("it is in a directory").join("dump.rdb");
    std::fs::create_dir(&directory).expect("the name is free");
    let refused = other.text(&["SHUTDOWN"]);
    assert!(refused.starts_with("ERR Errors trying to SHUTDOWN"), "{refused}");
    let script = "local n = 0 while n < 1e7 do n = n + 1 end return n";
    runner.send(&["EVAL", script, "0"]);
    until_busy(&mut other);
    assert_eq!(answer(&mut runner), "10000000");
}
