//! Scripts on several threads, and long scripts.

use crate::harness::*;

with_each_backend!(
    others_are_answered_while_a_script_is_slow,
    who_comes_after_others_have_gone_is_answered_too,
    who_becomes_too_much_amid_a_slow_script_is_closed,
    upkeep_does_not_wait_for_a_slow_script,
    the_end_of_a_wait_does_not_wait_for_a_slow_script,
    who_waits_for_a_script_is_answered_when_it_is_slow,
    a_script_that_has_written_is_not_killed,
    what_is_sent_behind_a_slow_script_is_executed,
    a_slow_function_is_killed,
    shutdown_ends_a_slow_script,
    scripts_that_write_before_they_stray_are_whole,
    a_script_that_has_written_waits_for_a_slow_one,
    shutdown_ends_a_script_that_waits_for_a_slow_one,
    time_stands_still_in_a_script,
    time_goes_on_in_a_slow_script,
    others_are_answered_while_a_result_is_written,
    a_result_is_written_without_its_scripts_locks,
    a_result_that_is_too_much_for_its_client_closes_it,
    scripts_that_are_kept_are_bounded_and_counted,
    scripts_serve_those_who_wait_once_they_are_over,
    subscribers_that_do_not_read_do_not_hold_scripts_up,
    what_takes_long_in_one_call_is_ended_too,
    what_scripts_are_refused_is_counted,
    writes_need_the_replicas_that_they_are_meant_to_reach,
    a_state_that_begins_amid_a_script_does_not_end_it,
    migrating_nothing_is_done_at_once,
    flushing_gives_back_the_memory_of_all_threads,
    scripts_may_come_in_any_pieces,
    scripts_sent_to_a_busy_server_are_refused_each_time,
    what_follows_a_large_command_is_answered_while_a_script_is_slow,
);

const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

fn start(backend: &str) -> Server {
    Server::start(backend, &["--threads", "2", "--busy-reply-threshold", "20"])
}

fn answer(client: &mut Client) -> String {
    show(&client.receive().expect("an answer"))
}

/// Waits until the server says that it is busy.
fn until_busy(client: &mut Client) {
    eventually("it is busy", || client.text(&["PING"]).starts_with("BUSY"));
}

/// Connections of both threads.
fn others(server: &Server) -> Vec<Client> {
    (0..4).map(|_| server.connect()).collect()
}

fn time_stands_still_in_a_script(backend: &str) {
    let server = Server::start(backend, &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    let script = "local before = redis.call('time') redis.call('set', KEYS[1], 'v', 'px', 1) \
                  redis.call('debug', 'sleep', 0.01) local after = redis.call('time') \
                  return {redis.call('exists', KEYS[1]), before[1] == after[1] and before[2] == after[2]}";
    assert!(client.text(&["EVAL", script, "1", "k"]).contains("not allowed from script"));
    assert_eq!(client.text(&["DEBUG", "SET-DISABLE-DENY-SCRIPTS", "1"]), "OK");
    assert_eq!(client.text(&["EVAL", script, "1", "k"]), "[1 1]");
    assert_eq!(client.text(&["EXISTS", "k"]), "0");
}

/// A script that waits for the clock goes on to its end, though its client has left, and nothing
/// expires for it.
fn time_goes_on_in_a_slow_script(backend: &str) {
    let server = start(backend);
    let (mut runner, mut other) = (server.connect(), server.connect());
    let script = "local function now() local t = redis.call('TIME') return t[1] * 1e6 + t[2] end \
                  redis.call('SET', KEYS[1], 'v', 'PX', 30) local begin, last = now(), now() \
                  if last ~= begin then return 'it went on at once' end \
                  repeat local t = now() if t < last then return 'it went back' end last = t until t > begin + ARGV[1] \
                  local there = redis.call('EXISTS', KEYS[1]) redis.call('SET', KEYS[2], 'done') return there";
    assert_eq!(runner.text(&["EVAL", script, "2", "k", "l", "100000"]), "1");
    assert_eq!(runner.text(&["EXISTS", "k"]), "0");
    runner.call(&["DEL", "l"]);
    // For long enough that others find it busy on any machine.
    runner.send(&["EVAL", script, "2", "k", "l", "3000000"]);
    until_busy(&mut other);
    drop(runner);
    eventually("it has ended", || other.text(&["GET", "l"]) == "done");
}

/// Tables that hold others many times, of which little is written: of many fields that are no more
/// there.
const LONG_RESULT: &str = "local m = {} for i = 1, 5e4 do m['k' .. i] = i end for k in pairs(m) do m[k] = nil end \
    local e = {map = m} local t = {} for i = 1, 1e6 do t[i] = e end return t";

fn others_are_answered_while_a_result_is_written(backend: &str) {
    let server = start(backend);
    let mut others = others(&server);
    // While it runs it may not be killed, since it has written.
    let function = format!("redis.call('SET', keys[1], 'written') {LONG_RESULT}");
    let library =
        format!("#!lua name=l\nredis.register_function('f', function(keys) {function} end)");
    assert_eq!(others[0].text(&["FUNCTION", "LOAD", &library]), "l");
    let kill =
        "the script is over and its effects stay, but its result was given up: killed by user";
    let script = format!("redis.call('SET', KEYS[1], 'written') {LONG_RESULT}");
    for (call, called, killer) in [("EVAL", &*script, "SCRIPT"), ("FCALL", "f", "FUNCTION")] {
        let mut runner = server.connect();
        runner.send(&[call, called, "1", call]);
        for client in &mut others {
            until_busy(client);
        }
        eventually("it is killed", || others[1].text(&[killer, "KILL"]) == "OK");
        assert!(answer(&mut runner).contains(kill));
        assert_eq!(others[0].text(&["GET", call]), "written");
    }
    // Within a transaction, which gets its other replies nevertheless.
    let mut runner = server.connect();
    runner.send(&["MULTI"]);
    runner.send(&["EVAL", &script, "1", "k"]);
    runner.send(&["SET", "k", "1"]);
    runner.send(&["EXEC"]);
    until_busy(&mut others[0]);
    eventually("it is killed", || others[1].text(&["SCRIPT", "KILL"]) == "OK");
    assert_eq!(["OK", "QUEUED", "QUEUED"], std::array::from_fn(|_| answer(&mut runner)));
    let replies = answer(&mut runner);
    assert!(replies.contains(kill) && replies.ends_with(" OK]"), "{replies}");
    // The client's end is that of its result.
    runner.send(&["EVAL", &script, "1", "k"]);
    until_busy(&mut others[0]);
    drop(runner);
    for client in &mut others {
        eventually("it has ended", || client.text(&["PING"]) == "PONG");
    }
}

/// The threshold is never reached, so that the script's own thread answers no client; the other one
/// does.
fn a_result_is_written_without_its_scripts_locks(backend: &str) {
    let server = Server::start(backend, &["--threads", "2", "--busy-reply-threshold", "600000"]);
    let mut runner = server.connect();
    let (answers, answered) = std::sync::mpsc::channel();
    let mut waiters = others(&server);
    for waiter in &mut waiters {
        waiter.send(&["BLPOP", "list", "0"]);
    }
    eventually("they wait", || server.info("blocked_clients") == 4);
    for mut waiter in waiters {
        let answers = answers.clone();
        std::thread::spawn(move || answers.send(answer(&mut waiter)));
    }
    let clients = others(&server);
    let push = "redis.call('RPUSH', 'list', 'a', 'a', 'a', 'a') redis.call('SET', 'k', 'written')";
    runner.send(&["EVAL", &format!("{push} {LONG_RESULT}"), "0"]);
    for mut client in clients {
        let answers = answers.clone();
        std::thread::spawn(move || {
            while client.text(&["GET", "k"]) != "written" {}
            answers.send("written".into())
        });
    }
    let mut left = vec!["written", "[list a]"];
    while !left.is_empty() {
        let answer = answered.recv_timeout(PATIENCE).expect("an answer");
        left.retain(|awaited| *awaited != answer);
    }
    assert!(runner.is_silent(std::time::Duration::from_millis(1)));
}

fn a_result_that_is_too_much_for_its_client_closes_it(backend: &str) {
    let limit = ["--client-output-buffer-limit", "normal 4mb 0 0", "--script-memory-limit", "64mb"];
    let server = Server::start(backend, &limit);
    let mut other = server.connect();
    for script in [
        // Scripts with a large result, found by a user without other permissions.
        "redis.call('GET', 'x') local t = {} for i = 1, 1e6 do t[i] = t end return t",
        "local s = string.rep('x', 1e6) local t = {} for i = 1, 1e6 do t[i] = s end return t",
    ] {
        let mut runner = server.connect();
        runner.send(&["EVAL", script, "0"]);
        let read = runner.read_to_end();
        assert!(read.len() < 8 << 20, "{}", read.len());
        assert_eq!(other.text(&["PING"]), "PONG");
    }
    // Without such a limit that of scripts holds.
    assert_eq!(other.text(&["CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0"]), "OK");
    let result = other.text(&["EVAL", "local t = {} for i = 1, 1e3 do t[i] = t end return t", "0"]);
    assert!(result.contains("larger than script-memory-limit"), "{}", result.len());
    // Memory of the interpreters, and of the partially written result.
    let peak = server.info("used_memory_peak");
    assert!(peak < 160 << 20, "{peak}");
}

fn scripts_that_are_kept_are_bounded_and_counted(backend: &str) {
    let server = Server::start(backend, &["--threads", "2"]);
    let mut client = server.connect();
    let before = server.info("used_memory");
    for n in 0..30 {
        let script = format!("return {n}{}", " ".repeat(2_000_000));
        assert_eq!(client.text(&["EVAL", &script, "0"]), n.to_string());
    }
    let kept = server.info("used_memory_scripts_eval");
    assert!((2_000_000..17 << 20).contains(&kept), "{kept}");
    let used = server.info("used_memory") - before;
    assert!(used + 4096 >= kept && used < kept + (8 << 20), "{used} for {kept}");
    assert!(server.info("number_of_cached_scripts") < 10);
    assert!(server.info("evicted_scripts") > 20);
    assert_eq!(client.text(&["SCRIPT", "FLUSH"]), "OK");
    eventually("it is given back", || server.info("used_memory") - before < 4 << 20);
}

fn others_are_answered_while_a_script_is_slow(backend: &str) {
    let server = start(backend);
    let mut others = others(&server);
    let mut runner = server.connect();
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() while true do pcall(f) end end f()",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "redis.call('GET', KEYS[1]) while true do end",
        // Outside of its own instructions, too.
        "return string.find(string.rep('a', 1e4), string.rep('.-', 50) .. 'b')",
        "while true do pcall(string.gsub, string.rep('a', 1e4), string.rep('a*', 50) .. 'b', {}) end",
        "for _ in string.gmatch(string.rep('(', 1e6), '%b()') do end while true do end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
    ] {
        runner.send(&["EVAL", script, "1", "k"]);
        for client in &mut others {
            until_busy(client);
            assert_eq!(client.text(&["SET", "other", "1"]), BUSY);
            assert!(client.text(&["NOPE"]).starts_with("ERR unknown command"));
        }
        // A new client is answered too.
        let mut late = server.connect();
        assert_eq!(late.text(&["GET", "k"]), BUSY);
        assert_eq!(others[1].text(&["SCRIPT", "KILL"]), "OK");
        assert!(answer(&mut runner).contains("killed by user"), "{script}");
        assert_eq!(others[0].text(&["PING"]), "PONG");
        assert_eq!(late.text(&["SET", "k", "1"]), "OK");
    }
}

/// No end of a connection, be it the script's own, keeps later connections from being served.
fn who_comes_after_others_have_gone_is_answered_too(backend: &str) {
    let server = Server::start(backend, &["--threads", "1", "--busy-reply-threshold", "20"]);
    let mut first = server.connect();
    for who in ["bystanders", "the runner", "all"] {
        let mut runner = server.connect();
        let mut gone = others(&server);
        for client in &mut gone {
            client.call(&["WATCH", "k"]);
            client.call(&["SUBSCRIBE", "channel"]);
        }
        runner.send(&["EVAL", "while true do end", "0"]);
        until_busy(&mut first);
        if who != "the runner" {
            gone.clear();
        }
        let runner = Some(runner).filter(|_| who == "bystanders");
        (0..3).for_each(|_| until_busy(&mut first));
        let mut late = others(&server);
        for client in &mut late {
            assert_eq!(client.text(&["GET", "k"]), BUSY);
        }
        assert_eq!(late[3].text(&["SCRIPT", "KILL"]), "OK");
        if let Some(mut runner) = runner {
            assert!(answer(&mut runner).contains("killed by user"));
        }
        for client in &mut late {
            eventually("it is over", || client.text(&["SET", "k", "1"]) == "OK");
            assert_eq!(client.text(&["GET", "k"]), "1");
        }
        drop(gone);
        drop(late);
        eventually("the rest is gone", || server.info("connected_clients") == 2);
        assert_eq!(server.info("pubsub_clients"), 0);
        assert_eq!(server.info("watching_clients"), 0);
    }
}

/// The script holds everything, so that what such a client held in the keyspace must wait for its
/// end.
fn who_becomes_too_much_amid_a_slow_script_is_closed(backend: &str) {
    let limit = ["--client-output-buffer-limit", "normal 200kb 0 0"];
    let server = Server::start(backend, &[&limit[..], &["--busy-reply-threshold", "20"]].concat());
    let (mut runner, mut first) = (server.connect(), server.connect());
    let mut deaf = others(&server);
    deaf.iter_mut().for_each(|client| drop(client.call(&["WATCH", "k"])));
    runner.send(&["EVAL", "redis.call('GET', 'undeclared') while true do end", "0"]);
    until_busy(&mut first);
    for client in &mut deaf {
        while client.send_bytes(&encode(&[b"GET", b"k"]).repeat(1000)) {}
    }
    assert_eq!(first.text(&["GET", "k"]), BUSY);
    assert_eq!(first.text(&["SCRIPT", "KILL"]), "OK");
    assert!(answer(&mut runner).contains("killed by user"));
    assert_eq!(first.text(&["GET", "k"]), "nil");
    assert_eq!(server.info("connected_clients"), 3);
    assert_eq!(server.info("watching_clients"), 0);
}

/// Time runs out, waiting clients and such as watch keys go, while a script of another worker keeps
/// their keys.
fn the_end_of_a_wait_does_not_wait_for_a_slow_script(backend: &str) {
    let args = ["--threads", "2", "--busy-reply-threshold", "300"];
    let server = Server::start(backend, &args);
    let (mut patient, mut gone, mut watching) = (others(&server), others(&server), others(&server));
    let (mut runner, mut first) = (server.connect(), others(&server));
    for client in &mut patient {
        client.send(&["BLPOP", "k", "0.3"]);
    }
    for client in &mut gone {
        client.send(&["BLPOP", "k", "0"]);
    }
    for client in &mut watching {
        client.call(&["WATCH", "k"]);
    }
    eventually("they wait", || server.info("blocked_clients") == 8);
    runner.send(&["EVAL", "while true do end", "1", "k"]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    drop((gone, watching));
    first.iter_mut().for_each(until_busy);
    std::thread::sleep(std::time::Duration::from_millis(400));
    first.iter_mut().for_each(until_busy);
    assert_eq!(first[0].text(&["SCRIPT", "KILL"]), "OK");
    assert!(answer(&mut runner).contains("killed by user"));
    for client in &mut patient {
        assert_eq!(answer(client), "nil");
    }
    eventually("all is released", || server.info("blocked_clients") == 0);
    assert_eq!(server.info("watching_clients"), 0);
    // A client that asked before may still be on the way out.
    eventually("all are gone", || server.info("connected_clients") == 10);
    assert_eq!(first[1].text(&["RPUSH", "k", "a", "b"]), "2");
    assert_eq!(first[2].text(&["LRANGE", "k", "0", "-1"]), "[a b]");
}

/// A script that takes the whole keyspace finds the other worker in the middle of its upkeep, in
/// some round.
fn upkeep_does_not_wait_for_a_slow_script(backend: &str) {
    let upkeep = ["--hz", "500", "--active-expire-effort", "10", "--busy-reply-threshold", "20"];
    let server = Server::start(backend, &upkeep);
    let (mut runner, mut others) = (server.connect(), others(&server));
    for round in 0..15 {
        for n in 0..3000 {
            let (key, life) = (format!("{round}:{n}"), (1 + n % 40).to_string());
            others[0].send(&["SET", &key, "v", "PX", &life]);
        }
        (0..3000).for_each(|_| assert_eq!(answer(&mut others[0]), "OK"));
        let script = format!("redis.call('GET', 'undeclared {round}') while true do end");
        runner.send(&["EVAL", &script, "0"]);
        others.iter_mut().for_each(until_busy);
        assert_eq!(others[round % 4].text(&["SCRIPT", "KILL"]), "OK");
        assert!(answer(&mut runner).contains("killed by user"));
        for client in &mut others {
            eventually("it is over", || client.text(&["PING"]) == "PONG");
        }
    }
}

/// Single instructions and calls with a duration that depends on their operands: the interpreter
/// counts each as one.
fn what_takes_long_in_one_call_is_ended_too(backend: &str) {
    let args = ["--threads", "2", "--busy-reply-threshold", "20", "--script-memory-limit", "64mb"];
    let server = Server::start(backend, &args);
    let mut other = server.connect();
    let mut runner = server.connect();
    runner.call(&["EVAL", "for i = 1, 5e4 do redis.call('SET', i, 1) end", "0"]);
    for script in [
        "local t = {} for i = 1, 5e4 do t[i] = 'key:' .. i * 7 % 1e6 end \
         while true do table.sort(t) table.sort(t, function(a, b) return a > b end) end",
        "local s = string.rep('x', 2^24) while true do local joined = s .. 'y' end",
        "local s = string.rep('\\0', 2^22) while true do local less = s < s end",
        "local s = string.rep(' ', 2^24) .. '1' while true do local sum = s + 0 end",
        "local t = {} for i = 1, 2^16 do t[i] = 1 end for i = 1, 2^16 do t[i] = nil end while true do next(t) end",
        "local t = {} for i = 1, 3e4 do t[i] = {} end while true do collectgarbage() end",
        "local t = {} for i = 1, 16 do t = {t, t} end while true do cjson.encode(t) end",
        "local t = {} for i = 1, 15 do t = {t, t} end while true do cmsgpack.pack(t, t, t, t) end",
        "local s = '[' .. string.rep('1,', 1e5) .. '1]' while true do cjson.decode(s) end",
        "local s = cmsgpack.pack({string.rep('x', 9)}) s = string.rep(s, 900) while true do cmsgpack.unpack(s) end",
        "local s, f = string.rep('x', 2^22), redis.sha1hex while true do f(s) end",
        "local t = {} for i = 1, 1e5 do t[i] = '' end while true do table.concat(t) end",
        "while true do pcall(function() local t = {} while true do t[#t + 1] = {} end end) end",
        "local s = string.rep('x', 1e6) while true do pcall(function() while true do s = s .. s end end) end",
        // Each coroutine counts its instructions for itself.
        "local function nest(n) while true do coroutine.wrap(function() \
             if n > 0 then nest(n - 1) end for i = 1, 3e4 do end end)() end end nest(3)",
        "while true do redis.call('KEYS', 'none') end",
    ] {
        runner.send(&["EVAL", script, "0"]);
        until_busy(&mut other);
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK", "{script}");
        let end = answer(&mut runner);
        assert!(end.contains("killed by user"), "{script}: {end}");
        assert_eq!(other.text(&["PING"]), "PONG");
    }
}

fn who_waits_for_a_script_is_answered_when_it_is_slow(backend: &str) {
    let server = Server::start(backend, &["--threads", "2", "--busy-reply-threshold", "400"]);
    let mut runner = server.connect();
    let mut others = others(&server);
    let mut watchers: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    let commands: [&[&str]; 4] = [
        &["MSET", "k", "1", "other", "2"],
        &["SCAN", "0", "COUNT", "1000"],
        &["EVAL", "return redis.call('GET', KEYS[2])", "2", "k", "other"],
        &["SET", "k", "1"],
    ];
    // One locks only its declared keys; the other uses another key, and so locks all.
    for script in ["while true do end", "redis.call('GET', 'undeclared') while true do end"] {
        for watcher in &mut watchers {
            watcher.call(&["WATCH", "watched"]);
            watcher.call(&["MULTI"]);
            watcher.call(&["INCR", "k"]);
            watcher.call(&["INCR", "other"]);
        }
        runner.send(&["EVAL", script, "1", "k"]);
        eventually("it runs", || others[0].text(&["FUNCTION", "STATS"]).contains("EVAL"));
        for (client, command) in others.iter_mut().zip(commands) {
            client.send(command);
        }
        watchers.iter_mut().for_each(|watcher| watcher.send(&["EXEC"]));
        // A client that began to wait before is answered like later ones.
        for client in others.iter_mut().chain(&mut watchers) {
            assert_eq!(answer(client), BUSY, "{script}");
            assert_eq!(client.text(&["PING"]), BUSY);
        }
        assert_eq!(others[1].text(&["SCRIPT", "KILL"]), "OK");
        assert!(answer(&mut runner).contains("killed by user"), "{script}");
        others.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
        // The transaction is as it was.
        for (watcher, expected) in watchers.iter_mut().zip(["[1 1]", "[2 2]"]) {
            assert_eq!(watcher.text(&["EXEC"]), expected);
        }
        assert_eq!(others[0].text(&["FLUSHALL"]), "OK");
    }
}

fn a_script_that_has_written_is_not_killed(backend: &str) {
    let server = start(backend);
    let mut others = others(&server);
    let mut runner = server.connect();
    // It ends by itself, when it has seen that it is asked to.
    let script =
        "redis.call('SET', KEYS[1], 'y') local n = 0 while n < 4e7 do n = n + 1 end return n";
    runner.send(&["EVAL", script, "1", "k"]);
    until_busy(&mut others[0]);
    let killed = others[0].text(&["SCRIPT", "KILL"]);
    assert!(killed.starts_with("UNKILLABLE"), "{killed}");
    assert_eq!(answer(&mut runner), "40000000");
    assert_eq!(others[0].text(&["GET", "k"]), "y");
}

fn what_is_sent_behind_a_slow_script_is_executed(backend: &str) {
    let server = start(backend);
    let mut others = others(&server);
    let mut runner = server.connect();
    runner.send(&["EVAL", "while true do end", "0"]);
    runner.send(&["SET", "k", "1"]);
    until_busy(&mut others[0]);
    runner.send(&["GET", "k"]);
    until_busy(&mut others[1]);
    assert_eq!(others[2].text(&["SCRIPT", "KILL"]), "OK");
    assert!(answer(&mut runner).contains("killed by user"));
    assert_eq!(answer(&mut runner), "OK");
    assert_eq!(answer(&mut runner), "1");
}

fn a_slow_function_is_killed(backend: &str) {
    let server = start(backend);
    let mut others = others(&server);
    let mut runner = server.connect();
    let library = "#!lua name=l\nredis.register_function('slow', function() while true do end end)";
    assert_eq!(runner.text(&["FUNCTION", "LOAD", library]), "l");
    runner.send(&["FCALL", "slow", "0"]);
    until_busy(&mut others[0]);
    let stats = others[0].text(&["FUNCTION", "STATS"]);
    assert!(stats.contains("[FCALL slow 0]"), "{stats}");
    assert!(others[0].text(&["SCRIPT", "KILL"]).starts_with("BUSY"));
    assert_eq!(others[1].text(&["FUNCTION", "KILL"]), "OK");
    assert!(answer(&mut runner).contains("killed by user"));
}

fn shutdown_ends_a_slow_script(backend: &str) {
    let mut server = start(backend);
    let mut others = others(&server);
    let mut runner = server.connect();
    runner.send(&["EVAL", "redis.call('SET', 'k', 1) while true do end", "0"]);
    until_busy(&mut others[0]);
    others[0].send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0));
}

/// Scripts that have written and then use keys that they did not declare, all at once and each for
/// the first time: every one is executed as a whole.
fn scripts_that_write_before_they_stray_are_whole(backend: &str) {
    let server = Server::start(backend, &["--threads", "4"]);
    let mut clients: Vec<Client> = (0..12).map(|_| server.connect()).collect();
    // Each takes from one key, declared or not, and gives to two that are computed.
    let body = "local from, n = keys[1] or args[1], tonumber(args[2]) \
                redis.call('DECRBY', from, 2) \
                for i = 1, 3000 do n = n + i end \
                for i = 1, 2 do redis.call('INCR', 'acc' .. (n + i) % 5) end \
                return 1";
    for round in 0..40 {
        let script = format!("local keys, args = KEYS, ARGV {body} -- {round}");
        let library = format!(
            "#!lua name=l{round}\nredis.register_function('f{round}', function(keys, args) {body} end)"
        );
        assert_eq!(clients[0].text(&["FUNCTION", "LOAD", &library]), format!("l{round}"));
        for (i, client) in clients.iter_mut().enumerate() {
            let (from, n) = (format!("acc{}", (i + round) % 5), i.to_string());
            let name = format!("f{round}");
            for _ in 0..3 {
                match i % 3 {
                    0 => client.send(&["EVAL", &script, "1", &from, "", &n]),
                    1 => client.send(&["EVAL", &script, "0", &from, &n]),
                    _ => client.send(&["FCALL", &name, "1", &from, "", &n]),
                }
            }
        }
        for client in &mut clients {
            (0..3).for_each(|_| assert_eq!(answer(client), "1"));
        }
    }
    let sum =
        "local n = 0 for i = 0, 4 do n = n + (redis.call('GET', 'acc' .. i) or 0) end return n";
    assert_eq!(clients[0].text(&["EVAL", sum, "0"]), "0");
}

/// While one script is slow another waits for the whole keyspace, and has written: it waits until
/// it gets it, and its worker's clients are answered.
fn a_script_that_has_written_waits_for_a_slow_one(backend: &str) {
    let server = Server::start(backend, &["--threads", "2", "--busy-reply-threshold", "300"]);
    let mut others = others(&server);
    let (mut slow, mut waiting) = (server.connect(), server.connect());
    let (mut round, mut executed) = (0, 0);
    while executed < 3 {
        round += 1;
        assert_eq!([slow.text(&["PING"]), waiting.text(&["PING"])], ["PONG"; 2]);
        slow.send(&["EVAL", "while true do end", "0"]);
        let script = format!(
            "redis.call('INCR', KEYS[1]) redis.call('INCR', 'undeclared') return 'both' -- {round}"
        );
        waiting.send(&["EVAL", &script, "1", "k"]);
        // Clients of both workers.
        others.iter_mut().for_each(until_busy);
        others.iter_mut().for_each(|client| assert_eq!(client.text(&["GET", "k"]), BUSY));
        assert_eq!(others[round % 4].text(&["SCRIPT", "KILL"]), "OK");
        assert!(answer(&mut slow).contains("killed by user"));
        match answer(&mut waiting).as_str() {
            "both" => executed += 1,
            // It came too late to begin.
            other => assert_eq!(other, BUSY),
        }
        let values = others[0].text(&["MGET", "k", "undeclared"]);
        let expected = if executed == 0 { "nil".to_string() } else { executed.to_string() };
        assert_eq!(values, format!("[{expected} {expected}]"));
    }
}

fn shutdown_ends_a_script_that_waits_for_a_slow_one(backend: &str) {
    let mut server = start(backend);
    let mut others = others(&server);
    let (mut slow, mut waiting) = (server.connect(), server.connect());
    slow.send(&["EVAL", "redis.call('SET', KEYS[1], 1) while true do end", "1", "other"]);
    waiting.send(&["EVAL", "redis.call('SET', KEYS[1], 1) redis.call('GET', 'x')", "1", "k"]);
    others.iter_mut().for_each(until_busy);
    others[1].send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(server.exit_code(), Some(0));
}

/// A client blocked on a key is served when the script is over, with the data present then.
fn scripts_serve_those_who_wait_once_they_are_over(backend: &str) {
    let server = Server::start(backend, &["--threads", "2"]);
    let mut waiters: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    let mut runner = server.connect();
    let library = "#!lua name=l\nredis.register_function('push', function(keys, args) \
        redis.call('RPUSH', keys[1], unpack(args)) return redis.call('LLEN', keys[1]) end)";
    assert_eq!(runner.text(&["FUNCTION", "LOAD", library]), "l");
    let waiting = |waiters: &mut [Client]| {
        for (i, waiter) in waiters.iter_mut().enumerate() {
            waiter.send(&["BLPOP", "list", "0"]);
            eventually("it waits", || server.info("blocked_clients") == i as i64 + 1);
        }
    };
    for undeclared in [false, true] {
        waiting(&mut waiters);
        let push = "redis.call('RPUSH', 'list', 'gone') redis.call('DEL', 'list') \
                    redis.call('RPUSH', 'list', 'a', 'b') return redis.call('LLEN', 'list')";
        let call: &[&str] =
            if undeclared { &["EVAL", push, "0"] } else { &["EVAL", push, "1", "list"] };
        assert_eq!(runner.text(call), "2", "nobody takes anything while it runs");
        assert_eq!(answer(&mut waiters[0]), "[list a]");
        assert_eq!(answer(&mut waiters[1]), "[list b]");
        // The rest by a function, in a transaction: two pushes, of which one is taken back.
        runner.send_bytes(b"MULTI\r\nFCALL push 1 list c d\r\nRPOP list\r\nEXEC\r\n");
        for expected in ["OK", "QUEUED", "QUEUED", "[2 d]"] {
            assert_eq!(answer(&mut runner), expected);
        }
        assert_eq!(answer(&mut waiters[2]), "[list c]");
        assert_eq!(runner.text(&["EVAL", "return redis.call('RPUSH', 'list', 'e')", "0"]), "1");
        assert_eq!(answer(&mut waiters[3]), "[list e]");
        assert_eq!(runner.text(&["EXISTS", "list"]), "0");
    }
    // A script does not wait.
    assert_eq!(runner.text(&["EVAL", "return redis.call('BLPOP', 'list', 0)", "0"]), "nil");
}

/// Messages published by a script are bounded by the limits of its subscribers, not by their
/// reading.
fn subscribers_that_do_not_read_do_not_hold_scripts_up(backend: &str) {
    let limits = "pubsub 1mb 1mb 0";
    let server =
        Server::start(backend, &["--threads", "2", "--client-output-buffer-limit", limits]);
    let mut subscribers: Vec<Client> = (0..2).map(|_| server.connect()).collect();
    for subscriber in &mut subscribers {
        subscriber.call(&["SUBSCRIBE", "news"]);
    }
    let mut runner = server.connect();
    let script = "local m = string.rep('x', 10000) for i = 1, 2000 do redis.call('PUBLISH', 'news', m) end return 1";
    for _ in 0..20 {
        assert_eq!(runner.text(&["EVAL", script, "0"]), "1");
        if server.info("pubsub_clients") == 0 {
            break;
        }
    }
    eventually("they are closed", || server.info("pubsub_clients") == 0);
    assert_eq!(runner.text(&["PING"]), "PONG");
}

/// Once, whether the script catches the error or not.
fn what_scripts_are_refused_is_counted(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    for (call, counted) in [
        ("'get'", "cmdstat_get:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1"),
        (
            "'subscribe', 'x'",
            "cmdstat_subscribe:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1",
        ),
        ("'nope'", ""),
    ] {
        for script in
            [format!("return {{redis.pcall({call})}}"), format!("return redis.call({call})")]
        {
            assert_eq!(client.text(&["CONFIG", "RESETSTAT"]), "OK");
            client.call(&["EVAL", &script, "0"]);
            let stats = client.text(&["INFO", "everything"]);
            assert!(stats.contains("errorstat_ERR:count=1\r"), "{script}: {stats}");
            assert!(stats.contains(counted), "{script}: {stats}");
        }
    }
}

fn writes_need_the_replicas_that_they_are_meant_to_reach(backend: &str) {
    const FEW: &str = "NOREPLICAS Not enough good replicas to write.";
    let server = Server::start(backend, &["--min-replicas-to-write", "1"]);
    let mut client = server.connect();
    assert_eq!(client.text(&["SET", "k", "v"]), FEW);
    assert_eq!(client.text(&["GET", "k"]), "nil");
    assert_eq!(client.text(&["PING"]), "PONG");
    assert!(client.text(&["EVAL", "return redis.call('SET', 'k', 1)", "0"]).starts_with(FEW));
    assert_eq!(client.text(&["EVAL", "return redis.call('GET', 'k')", "0"]), "nil");
    assert_eq!(client.text(&["EVAL", "#!lua\nreturn redis.call('GET', 'k')", "0"]), FEW);
    assert_eq!(client.text(&["EVAL", "#!lua flags=no-writes\nreturn 1", "0"]), "1");
    assert_eq!(server.info("min_slaves_good_slaves"), 0);
    assert_eq!(client.text(&["CONFIG", "SET", "min-replicas-max-lag", "0"]), "OK");
    assert_eq!(client.text(&["SET", "k", "v"]), "OK");
    assert_eq!(
        client.text(&["CONFIG", "SET", "min-replicas-max-lag", "10", "min-replicas-to-write", "0"]),
        "OK"
    );
    assert_eq!(client.text(&["SET", "k", "v"]), "OK");
}

/// A script that has written runs to its end even if writes become refused meanwhile; the next one
/// is refused.
fn a_state_that_begins_amid_a_script_does_not_end_it(backend: &str) {
    let server = Server::start(backend, &["--threads", "2"]);
    let (mut runner, mut others) = (server.connect(), others(&server));
    let script = "redis.call('SET', KEYS[1], 0) \
        repeat local info = redis.call('INFO', 'replication') \
        until string.find(info, 'min_slaves_good_slaves', 1, true) \
        for i = 1, 500 do redis.call('INCR', KEYS[1]) end return 'whole'";
    others.iter_mut().for_each(|client| assert_eq!(client.text(&["PING"]), "PONG"));
    runner.send(&["EVAL", script, "1", "k"]);
    eventually("it runs", || others[0].text(&["FUNCTION", "STATS"]).contains("EVAL"));
    assert_eq!(others[0].text(&["CONFIG", "SET", "min-replicas-to-write", "1"]), "OK");
    assert_eq!(answer(&mut runner), "whole");
    assert_eq!(runner.text(&["GET", "k"]), "500");
    assert!(runner.text(&["EVAL", script, "1", "k"]).starts_with("NOREPLICAS"));
}

fn migrating_nothing_is_done_at_once(backend: &str) {
    let server = start(backend);
    let mut client = server.connect();
    assert_eq!(client.text(&["SET", "there", "v"]), "OK");
    let migrate = |key: &str| {
        format!("return redis.call('MIGRATE', '127.0.0.1', '1', '{key}', '0', '100', 'AUTH', 'p')")
    };
    assert_eq!(client.text(&["EVAL", &migrate("none"), "0"]), "NOKEY");
    assert!(client.text(&["EVAL", &migrate("there"), "0"]).contains("not allowed"));
    assert_eq!(client.text(&["MULTI"]), "OK");
    assert_eq!(client.text(&["MIGRATE", "127.0.0.1", "1", "none", "0", "100"]), "QUEUED");
    assert_eq!(client.text(&["EXEC"]), "[NOKEY]");
}

fn flushing_gives_back_the_memory_of_all_threads(backend: &str) {
    let server = start(backend);
    let mut clients = others(&server);
    let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    assert_eq!(clients[0].text(&["FUNCTION", "LOAD", library]), "l");
    for client in &mut clients {
        assert_eq!(client.text(&["EVAL", "return 1", "0"]), "1");
        assert_eq!(client.text(&["FCALL", "f", "0"]), "1");
    }
    assert!(server.info("used_memory_vm_eval") > 0 && server.info("used_memory_vm_functions") > 0);
    assert_eq!(clients[0].text(&["SCRIPT", "FLUSH"]), "OK");
    assert_eq!(clients[0].text(&["FUNCTION", "FLUSH"]), "OK");
    eventually("it is given back", || server.info("used_memory_vm_total") == 0);
    assert_eq!(clients[1].text(&["EVAL", "return 1", "0"]), "1");
}

/// A worker that has just run a script may take what comes next for one more.
fn scripts_may_come_in_any_pieces(backend: &str) {
    let server = Server::start(backend, &["--threads", "1"]);
    let (mut client, mut other) = (server.connect(), server.connect());
    let long = "x".repeat(40_000);
    let append = "return redis.call('APPEND', KEYS[1], ARGV[1])";
    let commands: [&[&str]; 7] = [
        &["EVAL", append, "1", "k", "ab"],
        &["GET", "k"],
        &["MULTI"],
        &["EVAL", append, "1", "k", "cd"],
        &["EXEC"],
        &["EVAL", append, "1", "k", &long],
        &["EVAL", "return redis.call('DEL', KEYS[1])", "1", "k"],
    ];
    let encoded =
        commands.map(|args| encode(&args.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>()));
    let bytes = encoded.concat();
    let near_long = encoded[..5].concat().len()..bytes.len();
    for end in (0..near_long.start + 100).chain(near_long.clone().step_by(3_001)) {
        client.send_bytes(&bytes[..end]);
        // Received input has been executed when other clients get their replies.
        let ran = other.text(&["EVAL", "return 7", "0"]);
        assert_eq!((&*ran, &*other.text(&["PING"])), ("7", "PONG"));
        client.send_bytes(&bytes[end..]);
        let answers = commands.map(|_| answer(&mut client));
        assert_eq!(answers, ["2", "ab", "OK", "QUEUED", "[4]", "40004", "1"], "{end}");
    }
}

fn scripts_sent_to_a_busy_server_are_refused_each_time(backend: &str) {
    let server = start(backend);
    let mut others = others(&server);
    let mut runner = server.connect();
    assert_eq!(runner.text(&["EVAL", "return 1", "0"]), "1");
    runner.send(&["EVAL", "while true do end", "0"]);
    for client in &mut others {
        until_busy(client);
        for _ in 0..3 {
            assert_eq!(client.text(&["EVAL", "return 1", "0"]), BUSY);
        }
    }
    assert_eq!(others[0].text(&["SCRIPT", "KILL"]), "OK");
    assert!(answer(&mut runner).contains("killed by user"));
    for client in &mut others {
        assert_eq!(client.text(&["EVAL", "return 1", "0"]), "1");
    }
}

/// The rest of the large command, for which its connection has a buffer of its own, and what
/// follows it come while the connection is served by the worker's stand-in.
fn what_follows_a_large_command_is_answered_while_a_script_is_slow(backend: &str) {
    let server = Server::start(backend, &["--threads", "1", "--busy-reply-threshold", "20"]);
    let (mut sender, mut other, mut slow) = (server.connect(), server.connect(), server.connect());
    let value = vec![b'v'; 100_000];
    let large = encode(&[b"SET", b"key", &value]);
    for round in 0..5 {
        let (first, rest) = large.split_at(30_000 + round * 10_000);
        sender.send_bytes(first);
        other.call(&["PING"]);
        slow.send(&["EVAL", "while true do end", "0"]);
        until_busy(&mut other);
        sender.send_bytes(rest);
        sender.send(&["GET", "key"]);
        assert_eq!([answer(&mut sender), answer(&mut sender)], [BUSY; 2]);
        assert_eq!(other.text(&["SCRIPT", "KILL"]), "OK");
        assert!(answer(&mut slow).contains("killed"));
    }
    assert_eq!(sender.text(&["SET", "key", "value"]), "OK");
}
