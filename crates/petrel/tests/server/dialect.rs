//! The dialect: `dialect`, and the name of the program.

use crate::harness::*;

with_each_backend!(
    connections_can_be_protected_and_their_replies_enlarged,
    transactions_are_refused_in_the_words_of_the_dialect,
    connections_are_shown_as_the_dialect_has_them,
    the_name_of_the_program_decides,
    words_follow_the_dialect,
    help_on_scripts_and_channels_is_redis_s,
    a_server_of_valkey_may_pose_as_redis
);

/// A line of `INFO server`.
fn field(client: &mut Client, name: &str) -> Option<String> {
    let text = client.text(&["INFO", "server"]);
    let start = format!("{name}:");
    text.lines().find_map(|line| line.strip_prefix(&start).map(str::to_owned))
}

fn words_follow_the_dialect(backend: &str) {
    let cases = [
        ("redis", "redis", "ERR This Redis command is not allowed from script", "redis.setresp()"),
        (
            "valkey",
            "valkey",
            "ERR This Valkey command is not allowed from script",
            "server.setresp()",
        ),
    ];
    for (dialect, name, refusal, function) in cases {
        let server = Server::start(backend, &["--dialect", dialect]);
        let mut client = server.connect();
        assert!(client.text(&["HELLO"]).contains(name));
        assert_eq!(field(&mut client, "server_name").is_some(), dialect == "valkey");
        assert_eq!(field(&mut client, "valkey_version").is_some(), dialect == "valkey");
        assert_eq!(field(&mut client, "server_mode").is_some(), dialect == "valkey");
        assert_eq!(field(&mut client, "redis_mode").is_some(), dialect == "redis");
        let text = client.text(&["EVAL", "return redis.call('eval', 'return 1', 0)", "0"]);
        assert!(text.contains(refusal), "{text}");
        let text = client.text(&["EVAL", "return redis.setresp()", "0"]);
        assert!(text.contains(function), "{text}");
    }
}

fn a_server_of_valkey_may_pose_as_redis(backend: &str) {
    let server = Server::start(backend, &["--dialect", "valkey"]);
    let mut client = server.connect();
    assert!(client.text(&["LOLWUT"]).contains("Valkey ver. "));
    client.text(&["CONFIG", "SET", "extended-redis-compatibility", "yes"]);
    assert!(client.text(&["LOLWUT"]).contains("Redis ver. 7.2.4"));
    assert!(client.text(&["HELLO"]).contains("redis"));
    assert_eq!(field(&mut client, "redis_mode").as_deref(), Some("standalone"));
    client.text(&["CONFIG", "SET", "extended-redis-compatibility", "no"]);
    assert!(client.text(&["HELLO"]).contains("valkey"));
}

fn the_name_of_the_program_decides(backend: &str) {
    let server = Server::start_as("/usr/bin/valkey-server", backend, &[]);
    assert!(server.connect().text(&["HELLO"]).contains("valkey"));
    let server = Server::start_as("valkey-server", backend, &["--dialect", "redis"]);
    assert!(server.connect().text(&["HELLO"]).contains("redis"));
}

/// Subcommands of `DEBUG` for test suites about connections.
fn connections_can_be_protected_and_their_replies_enlarged(backend: &str) {
    let args = ["--enable-debug-command", "yes", "--requirepass", "secret"];
    let server = Server::start(backend, &args);
    let mut admin = server.connect();
    admin.text(&["AUTH", "secret"]);
    let mut stranger = server.connect();
    assert!(stranger.text(&["PING"]).starts_with("NOAUTH"));
    assert_eq!(admin.text(&["DEBUG", "CLIENT-ENFORCE-REPLY-LIST", "1"]), "OK");
    stranger.send(&["PING"]);
    while stranger.receive().is_some() {}
    assert_eq!(admin.text(&["DEBUG", "CLIENT-ENFORCE-REPLY-LIST", "0"]), "OK");
    let mut other = server.connect();
    other.text(&["AUTH", "secret"]);
    let id = other.text(&["CLIENT", "ID"]);
    assert_eq!(admin.text(&["DEBUG", "PROTECT-CLIENT", &id]), "OK");
    assert_eq!(admin.text(&["CLIENT", "KILL", "ID", &id]), "1");
    assert_eq!(other.text(&["PING"]), "PONG");
    assert_eq!(admin.text(&["DEBUG", "PROTECT-CLIENT", "999999"]), "ERR No such client");
}

/// Replies inside a transaction, and the transaction's result.
fn transactions_are_refused_in_the_words_of_the_dialect(backend: &str) {
    let server = Server::start(backend, &["--dialect", "valkey"]);
    let mut client = server.connect();
    for inside in [&["MULTI"][..], &["WATCH", "k"], &["SAVE"], &["CLIENT", "REPLY", "OFF"]] {
        assert_eq!(client.text(&["MULTI"]), "OK");
        let refusal = client.text(inside);
        assert!(
            refusal.starts_with("ERR Command '")
                && refusal.ends_with("not allowed inside a transaction")
        );
        assert!(client.text(&["EXEC"]).starts_with("EXECABORT "), "{inside:?}");
    }
    let server = Server::start(backend, &[]);
    let mut client = server.connect();
    client.text(&["MULTI"]);
    assert_eq!(client.text(&["MULTI"]), "ERR MULTI calls can not be nested");
    assert_eq!(client.text(&["CLIENT", "REPLY", "ON"]), "QUEUED");
    assert_eq!(client.text(&["EXEC"]), "[OK]");
}

fn connections_are_shown_as_the_dialect_has_them(backend: &str) {
    let server = Server::start(backend, &["--dialect", "valkey", "--availability-zone", "north"]);
    let mut client = server.connect();
    assert!(client.text(&["HELLO", "3"]).contains("availability_zone:north"));
    assert_eq!(client.text(&["READONLY"]), "OK");
    let line = client.text(&["CLIENT", "INFO"]);
    assert!(line.contains(" flags=Ur capa= db=0 ") && !line.contains("omem-shared"), "{line}");
    assert_eq!(client.text(&["CLIENT", "LIST", "ID", "x"]), "ERR syntax error");
    let server = Server::start(backend, &["--availability-zone", "north"]);
    let mut client = server.connect();
    assert!(!client.text(&["HELLO", "3"]).contains("north"));
    for command in ["READONLY", "READWRITE"] {
        assert_eq!(client.text(&[command]), "ERR This instance has cluster support disabled");
    }
    let line = client.text(&["CLIENT", "INFO"]);
    assert!(line.contains(" flags=U db=0 ") && line.trim_end().ends_with(" capa="), "{line}");
    assert_eq!(client.text(&["CLIENT", "LIST", "ID", "x"]), "ERR Invalid client ID");
}

/// The first lines, which clients show.
fn help_on_scripts_and_channels_is_redis_s(backend: &str) {
    for (dialect, debug, has_show) in [
        ("redis", "DEBUG (YES|SYNC|NO)     Set the debug mode", false),
        ("valkey", "DEBUG (YES|SYNC|NO) [<engine_name>]     Set the debug mode", true),
    ] {
        let server = Server::start(backend, &["--dialect", dialect]);
        let mut client = server.connect();
        let help = client.text(&["SCRIPT", "HELP"]);
        assert!(help.contains(debug), "{help}");
        assert_eq!(help.contains("SHOW <sha1>"), has_show, "{help}");
        let help = client.text(&["PUBSUB", "HELP"]);
        assert!(help.contains("NUMPAT     Return number of subscriptions to patterns."), "{help}");
        assert!(help.contains("CHANNELS [<pattern>]     Return the currently active"), "{help}");
    }
}
