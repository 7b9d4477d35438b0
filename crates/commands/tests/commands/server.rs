//! Commands about the server: the slow log, latencies, the clock.

use crate::client::{Client, show};
use petrel_commands::Dialect;
use petrel_keyspace::Policy;
use petrel_resp::Value;

#[test]
fn slow_log() {
    let mut client = Client::new();
    client.follow(
        r#"
        SLOWLOG LEN => 0
        SLOWLOG GET => []
        SLOWLOG GET x => ERR count should be greater than or equal to -1
        SLOWLOG GET -2 => ERR count should be greater than or equal to -1
        SLOWLOG GET -1 => []
        SLOWLOG GET 1 2 => ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.
        SLOWLOG RESET x => ERR wrong number of arguments for 'slowlog|reset' command
        SLOWLOG => ERR wrong number of arguments for 'slowlog' command
        SLOWLOG FOO => ERR unknown subcommand 'FOO'. Try SLOWLOG HELP.
        "#,
    );
    client.exec.shared.slowlog.configure(0, 3);
    for i in 0..5 {
        client.run(&format!("SET a {i}"));
    }
    client.exec.shared.slowlog.configure(-1, 3);
    let Value::Array(entries) = client.call(&[b"SLOWLOG", b"GET"]) else { panic!("no array") };
    assert_eq!(entries.len(), 3);
    let Value::Array(newest) = &entries[0] else { panic!("no array") };
    assert_eq!(newest[0], Value::Integer(4));
    assert!(matches!(newest[1], Value::Integer(at) if at > 1_000_000_000));
    assert!(matches!(newest[2], Value::Integer(_)));
    assert_eq!(show(&newest[3]), r#"["SET" "a" "4"]"#);
    assert_eq!(show(&newest[4]), r#""127.0.0.1:5""#);
    assert_eq!(show(&newest[5]), r#""tester""#);
    assert_eq!(newest[6..], [Value::Integer(3)]);
    client.follow(
        r#"
        SLOWLOG LEN => 3
        SLOWLOG RESET => OK
        SLOWLOG LEN => 0
        SLOWLOG HELP => [SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are: GET...
        "#,
    );
}

#[test]
fn long_arguments_are_shortened_in_the_slow_log() {
    let mut client = Client::new();
    client.exec.shared.slowlog.configure(0, 3);
    let long = [b'x'; 200];
    let mut args: Vec<&[u8]> = vec![b"MGET", &long];
    args.extend([&b"k"[..]; 38]);
    client.call(&args);
    client.exec.shared.slowlog.configure(-1, 3);
    let reply = client.run("SLOWLOG GET 1");
    assert!(reply.contains(&format!("\"{}... (72 more bytes)\"", "x".repeat(128))), "{reply}");
    assert!(reply.contains("\"... (9 more arguments)\""), "{reply}");
    assert!(reply.ends_with(" 40]]"), "{reply}");
}

#[test]
fn latencies() {
    let mut client = Client::new();
    client.follow(
        r#"
        LATENCY LATEST => []
        LATENCY HISTORY command => []
        LATENCY GRAPH command => ERR No samples available for event 'command'
        LATENCY RESET => 0
        LATENCY RESET command foo => 0
        LATENCY HISTOGRAM foo => []
        LATENCY FOO => ERR unknown subcommand 'FOO'. Try LATENCY HELP.
        LATENCY HISTORY => ERR wrong number of arguments for 'latency|history' command
        LATENCY DOCTOR => "The latency monitor is off...
        "#,
    );
    let monitor = &client.exec.shared.latency;
    monitor.configure(10);
    monitor.note("command", 9_000_000);
    monitor.note("command", 30_000_000);
    monitor.note("command", 20_000_000);
    monitor.note("expire-cycle", 11_000_000);
    let Value::Array(latest) = client.call(&[b"LATENCY", b"LATEST"]) else { panic!("no array") };
    let Value::Array(event) = &latest[0] else { panic!("no array") };
    assert_eq!(show(&event[0]), "\"command\"");
    assert!(matches!(event[1], Value::Integer(at) if at > 1_000_000_000));
    assert_eq!(event[3..], [Value::Integer(30)]);
    client.exec.shared.speak(Dialect::Valkey);
    let Value::Array(latest) = client.call(&[b"LATENCY", b"LATEST"]) else { panic!("no array") };
    let Value::Array(event) = &latest[0] else { panic!("no array") };
    assert_eq!(event[3..], [30, 50, 2].map(Value::Integer));
    client.exec.shared.speak(Dialect::Redis);
    let history = client.run("LATENCY HISTORY COMMAND");
    assert!(history.starts_with("[[1") && history.ends_with("]]"), "{history}");
    client.follow(
        r#"
        LATENCY GRAPH command => "command - high 30 ms, low ...
        LATENCY DOCTOR => "Events above the latency threshold were observed:\n\n1. command: ...
        LATENCY RESET Command nope => 1
        LATENCY RESET => 1
        LATENCY LATEST => []
        "#,
    );
}

#[test]
fn histograms() {
    let mut client = Client::new().resp3();
    client.follow("SET a 1 => OK\nSET a 1 => OK\nOBJECT HELP => [...\nGET => ERR wrong...");
    let Value::Map(commands) = client.call(&[b"LATENCY", b"HISTOGRAM", b"SET", b"get", b"object"])
    else {
        panic!("no map")
    };
    let names: Vec<String> = commands.iter().map(|(name, _)| show(name)).collect();
    assert_eq!(names, ["\"set\"", "\"object|help\""]);
    let Value::Map(fields) = &commands[0].1 else { panic!("no map") };
    assert_eq!(show(&fields[0].0), "\"calls\"");
    assert_eq!(fields[0].1, Value::Integer(2));
    assert_eq!(show(&fields[1].0), "\"histogram_usec\"");
    let Value::Map(steps) = &fields[1].1 else { panic!("no map") };
    assert_eq!(steps.last().unwrap().1, Value::Integer(2), "the last step counts all calls");
    let all = client.run("LATENCY HISTOGRAM");
    assert!(all.contains("\"set\"") && all.contains("\"latency|histogram\""), "{all}");
}

#[test]
fn clock_and_picture() {
    let mut client = Client::new();
    let Value::Array(time) = client.call(&[b"TIME"]) else { panic!("no array") };
    let part = |i: usize| str::from_utf8(time[i].as_bytes().unwrap()).unwrap().parse::<u64>();
    assert!(part(0).unwrap() > 1_000_000_000 && part(1).unwrap() < 1_000_000);
    let version =
        concat!("\\nRedis ver. 8.10.0 (Petrel ver. ", env!("CARGO_PKG_VERSION"), ")\\n\"");
    for line in ["LOLWUT", "LOLWUT VERSION 5", "LOLWUT VERSION -1 6 7 8", "LOLWUT 9999999999 -5"] {
        let picture = client.run(line);
        assert!(picture.ends_with(version), "{picture}");
    }
    assert_eq!(client.run("LOLWUT VERSION 5"), client.run("lolwut version 5"));
    assert_eq!(client.run("LOLWUT VERSION"), "\"Redis ver. 8.10.0\\n\"");
    client.follow("LOLWUT VERSION x => ERR value is not an integer or out of range");
}

#[test]
fn writes_that_need_memory_are_refused_when_there_is_none() {
    let mut client = Client::new();
    let keyspace = client.exec.ks.keyspace().clone();
    client.follow("MSET a 1 b 2 => OK\nMULTI => OK\nSET c 3 => QUEUED");
    keyspace.set_memory_limit(1, Policy::NoEviction);
    client.follow(
        r#"
        EXEC => EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.
        SET c 1 => OOM command not allowed when used memory > 'maxmemory'.
        GET a => "1"
        GETEX a EX 100 => "1"
        MULTI => OK
        INCR a => OOM command not allowed when used memory > 'maxmemory'.
        EXEC => EXECABORT Transaction discarded because of previous errors.
        DEL a => 1
        MULTI => OK
        DEL b => QUEUED
        EXEC => [1]
        "#,
    );
    keyspace.set_memory_limit(0, Policy::NoEviction);
    client.follow("SET c 1 => OK");
}

#[test]
fn keys_are_evicted_for_new_ones() {
    let mut client = Client::new();
    let keyspace = client.exec.ks.keyspace().clone();
    let limit = keyspace.stats().used + (1 << 20);
    keyspace.set_memory_limit(limit, Policy::AllKeysLru);
    let value = [b'x'; 1000];
    for i in 0..5000 {
        let key = format!("key:{i}");
        let reply = client.call(&[b"SET", key.as_bytes(), &value]);
        assert_eq!(show(&reply), "OK");
    }
    assert!(keyspace.stats().used <= limit + limit / 20, "{} used", keyspace.stats().used);
    assert!(keyspace.stats().evicted > 3000);
    client.follow("EXISTS key:4999 => 1");
}

#[test]
fn command_logs() {
    let mut client = Client::new();
    client.follow(
        r#"
        COMMANDLOG => ERR wrong number of arguments for 'commandlog' command
        COMMANDLOG GET => ERR wrong number of arguments for 'commandlog|get' command
        COMMANDLOG GET 5 foo => ERR type should be one of the following: slow, large-request, large-reply
        COMMANDLOG GET -2 foo => ERR count should be greater than or equal to -1
        COMMANDLOG GET x slow => ERR count should be greater than or equal to -1
        COMMANDLOG LEN foo => ERR type should be one of the following: slow, large-request, large-reply
        COMMANDLOG RESET foo => ERR type should be one of the following: slow, large-request, large-reply
        COMMANDLOG LEN large-request => 0
        COMMANDLOG GET -1 LARGE-REPLY => []
        COMMANDLOG HELP => [COMMANDLOG <subcommand>...
        "#,
    );
    client.exec.shared.slowlog.configure(0, 3);
    client.run("SET k v");
    client.run("TIME");
    client.exec.shared.slowlog.configure(-1, 3);
    client.follow(
        r#"
        COMMANDLOG LEN slow => 2
        COMMANDLOG RESET slow => OK
        SLOWLOG LEN => 0
        "#,
    );
    let totals = client.exec.shared.slowlog.totals_of_all();
    assert_eq!(totals.count, 2);
    assert!(totals.max <= totals.sum);
}
