//! MONITOR, and the logs of costly commands.

use crate::harness::*;

with_each_backend!(
    commands_of_all_workers_are_seen,
    what_is_not_shown,
    a_wait_is_shown_once,
    monitoring_ends,
    scripts_are_shown_before_what_they_call,
    large_requests_and_replies_are_logged,
);

/// The next line, without its time and the caller's port.
fn line(monitor: &mut Client) -> String {
    let line = show(&monitor.receive().expect("a line"));
    let (time, rest) = line.split_once(' ').expect("a time");
    let (seconds, micros) = time.split_once('.').expect("a fraction");
    assert!(seconds.parse::<u64>().is_ok() && micros.len() == 6, "{line}");
    rest.to_string()
}

/// Connects and monitors.
fn monitor(server: &Server) -> Client {
    let mut monitor = server.connect();
    assert_eq!(monitor.text(&["MONITOR"]), "OK");
    monitor
}

fn commands_of_all_workers_are_seen(backend: &str) {
    let server = Server::start(backend, &["--threads", "4"]);
    let mut monitors = [monitor(&server), monitor(&server)];
    monitors[1].call(&["CLIENT", "ID"]);
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        client.call(&["select", &i.to_string()]);
        client.call(&["GET", "a \"key\"\n"]);
    }
    for monitor in &mut monitors {
        let mut lines: Vec<String> = (0..17).map(|_| line(monitor)).collect();
        assert_eq!(lines.remove(0), r#"[0 unix:s] "CLIENT" "ID""#);
        lines.sort_unstable();
        for i in 0..8 {
            assert_eq!(lines[2 * i], format!(r#"[{i} unix:s] "GET" "a \"key\"\n""#));
            assert_eq!(lines[2 * i + 1], format!(r#"[{i} unix:s] "select" "{i}""#));
        }
    }
    let list = server.connect().text(&["CLIENT", "LIST", "TYPE", "normal"]);
    assert_eq!(list.matches(" flags=OU ").count(), 2, "{list}");
}

fn what_is_not_shown(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut monitor = monitor(&server);
    let mut client = server.connect();
    for call in [
        &["CONFIG", "GET", "save"][..],
        &["GET"],
        &["nosuch"],
        &["AUTH", "user", "secret"],
        &["HELLO", "3", "AUTH", "default", "secret", "SETNAME", "n"],
        &["MULTI"],
        &["SET", "k", "1"],
        &["LPUSH", "k", "v"],
        &["EXEC"],
        &["PING"],
    ] {
        client.call(call);
    }
    for expected in [
        r#""AUTH" "(redacted)" "(redacted)""#,
        r#""HELLO" "3" "AUTH" "(redacted)" "(redacted)" "SETNAME" "n""#,
        r#""MULTI""#,
        r#""SET" "k" "1""#,
        r#""LPUSH" "k" "v""#,
        r#""EXEC""#,
        r#""PING""#,
    ] {
        assert_eq!(line(&mut monitor), format!("[0 unix:s] {expected}"));
    }
    assert_eq!(
        client.text(&["MULTI"]) + &client.text(&["MONITOR"]) + &client.text(&["EXEC"]),
        "OKQUEUED[ERR MONITOR isn't allowed for DENY BLOCKING client]"
    );
}

fn a_wait_is_shown_once(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut waiter = server.connect();
    let mut monitor = monitor(&server);
    waiter.send(&["BLPOP", "list", "0"]);
    assert_eq!(line(&mut monitor), r#"[0 unix:s] "BLPOP" "list" "0""#);
    let mut client = server.connect();
    client.call(&["RPUSH", "list", "v"]);
    waiter.receive();
    client.call(&["PING"]);
    assert_eq!(line(&mut monitor), r#"[0 unix:s] "RPUSH" "list" "v""#);
    assert_eq!(line(&mut monitor), r#"[0 unix:s] "PING""#);
}

fn monitoring_ends(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut one = monitor(&server);
    let other = monitor(&server);
    assert_eq!(one.text(&["PING"]), "PONG");
    assert_eq!(line(&mut one), r#"[0 unix:s] "PING""#);
    assert_eq!(one.text(&["GET", "k"]), "ERR Replica can't interact with the keyspace");
    assert_eq!(one.text(&["RESET"]), "RESET");
    assert_eq!(one.text(&["GET", "k"]), "nil");
    assert_eq!(one.text(&["PING"]), "PONG");
    assert_eq!(one.text(&["ECHO", "x"]), "x");
    drop(other);
    let monitors =
        |client: &mut Client| client.text(&["CLIENT", "LIST"]).matches("flags=O").count();
    eventually("it is gone", || monitors(&mut one) == 0);
}

fn large_requests_and_replies_are_logged(backend: &str) {
    let server = Server::start(backend, &["--commandlog-request-larger-than", "100"]);
    let mut client = server.connect();
    let value = "v".repeat(50_000);
    assert_eq!(client.text(&["CONFIG", "SET", "commandlog-reply-larger-than", "40000"]), "OK");
    client.call(&["COMMANDLOG", "RESET", "large-request"]);
    client.call(&["SET", "k", &value]);
    client.call(&["GET", "k"]);
    client.call(&["SET", "k", "short"]);
    client.call(&["GET", "k"]);
    for (log, size, call) in [
        ("large-request", 50_000 + 30, format!("[SET k {}... (49872 more bytes)]", &value[..128])),
        ("large-reply", 50_000 + 10, "[GET k]".to_string()),
    ] {
        assert_eq!(client.text(&["COMMANDLOG", "LEN", log]), "1");
        let entries = client.text(&["COMMANDLOG", "GET", "-1", log]);
        assert!(entries.contains(&format!(" {size} {call} s:0 ]")), "{entries}");
        assert_eq!(client.text(&["COMMANDLOG", "RESET", log]), "OK");
        assert_eq!(client.text(&["COMMANDLOG", "GET", "-1", log]), "[]");
    }
}

fn scripts_are_shown_before_what_they_call(backend: &str) {
    let server = Server::start(backend, &[]);
    let mut monitor = monitor(&server);
    let mut client = server.connect();
    let script = "redis.call('select', '3'); return redis.call('get', KEYS[1])";
    client.call(&["EVAL", script, "1", "k"]);
    client.call(&["PING"]);
    for expected in [
        &format!(r#"[0 unix:s] "EVAL" "{script}" "1" "k""#)[..],
        r#"[3 lua] "select" "3""#,
        r#"[3 lua] "get" "k""#,
        r#"[0 unix:s] "PING""#,
    ] {
        assert_eq!(line(&mut monitor), expected);
    }
    let info = client.text(&["CLIENT", "INFO"]);
    assert!(info.contains(" tot-cmds=4 "), "EVAL, what it called, PING: {info}");
}
