//! Whose words are spoken: `dialect`, and the name of the program.

use crate::harness::*;

with_each_backend!(
    the_name_of_the_program_decides,
    words_follow_the_dialect,
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
        let text = client.text(&["EVAL", "return server.setresp()", "0"]);
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
