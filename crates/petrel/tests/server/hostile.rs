//! Hostile calls on vector sets and documents: an error or a result, in bounded time and memory,
//! and the server goes on.

use crate::harness::*;
use std::time::Instant;

/// The most memory that the server may have held, in MiB; it holds some 30 when it starts.
const MEMORY_MAX: u64 = 300;
/// Maximum duration of a call in seconds: the build for tests is some ten times slower than others.
const SECONDS_MAX: u64 = 30;

/// Calls a command and checks its duration.
fn call(client: &mut Client, args: &[&str]) -> String {
    let begin = Instant::now();
    let reply = client.text(args);
    assert!(begin.elapsed().as_secs() < SECONDS_MAX, "{} took {:?}", args[0], begin.elapsed());
    reply
}

/// The most memory that a server has held, in MiB.
fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

#[test]
fn vectors_of_a_stranger_are_bounded() {
    let server = Server::start("epoll", &["--threads", "2"]);
    let mut client = server.connect();
    let invalid = "ERR invalid vector specification";
    for form in ["NOQUANT", "Q8", "BIN", "RABITQ"] {
        let mut add = |name: &str, vector: &[&str]| {
            let dim = vector.len().to_string();
            let args = [&["VADD", form, "VALUES", &dim], vector, &[name, form]].concat();
            call(&mut client, &args)
        };
        assert_eq!(add("a", &["1", "2", "3"]), "1");
        assert_eq!(add("n", &["nan", "2", "3"]), invalid);
        assert_eq!(add("d", &["1", "2"]), "ERR Vector dimension mismatch - got 2 but set has 3");
        assert_eq!(add("zero", &["0", "0", "0"]), "1");
        assert_eq!(add("long", &["1e38", "3e38", "-3e38"]), "1");
        assert_eq!(add("infinite", &["1e39", "inf", "-inf"]), "1");
        for name in ["a", "zero", "long", "infinite"] {
            let args = ["VSIM", form, "ELE", name, "WITHSCORES", "COUNT", "1000000000000"];
            let found = call(&mut client, &args);
            assert_eq!(found.split(' ').count(), 8, "{found}");
        }
        for name in ["a", "zero", "long", "infinite"] {
            assert_eq!(call(&mut client, &["VREM", form, name]), "1");
        }
        assert_eq!(call(&mut client, &["EXISTS", form]), "0");
        assert_eq!(call(&mut client, &["VSIM", form, "VALUES", "1", "1"]), "[]");
    }
    for (dim, expected) in [(65_536, "1"), (65_537, invalid)] {
        let many = vec!["0.5"; dim];
        let number = dim.to_string();
        let add = [&["VADD", &number, "VALUES", &number], &many[..], &["a"]].concat();
        assert_eq!(call(&mut client, &add), expected);
        let reduce = [&["VADD", "r", "REDUCE", &number, "VALUES", &number], &many[..], &["a"]];
        assert_eq!(call(&mut client, &reduce.concat()), invalid);
    }
    call(
        &mut client,
        &["VADD", "f", "VALUES", "1", "1", "a", "SETATTR", &"{\"a\":".repeat(50_000)],
    );
    for filter in [&"(".repeat(100_000), &"not ".repeat(100_000), &"1+".repeat(100_000), ".a == 1"]
    {
        call(&mut client, &["VSIM", "f", "ELE", "a", "FILTER", filter]);
    }
    assert!(peak(&server) < MEMORY_MAX, "{} MiB", peak(&server));
    assert_eq!(client.text(&["PING"]), "PONG");
}

#[test]
fn documents_of_a_stranger_are_bounded() {
    let server = Server::start("epoll", &["--threads", "2", "--proto-max-bulk-len", "16mb"]);
    let mut client = server.connect();
    let mut call = |args: &[&str]| call(&mut client, args);
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    assert!(call(&["JSON.SET", "k", "$", &deep]).starts_with("recursion limit exceeded"));
    let digits = "1".repeat(10_000);
    assert!(call(&["JSON.SET", "k", "$", &digits]).starts_with("number out of range"));
    assert_eq!(call(&["JSON.SET", "k", "$", &format!("0.{digits}")]), "OK");
    let nested = "{\"a\":".repeat(100) + "1" + &"}".repeat(100);
    assert_eq!(call(&["JSON.SET", "k", "$", &nested]), "OK");
    let too_much = "ERR the path matches too much: use fewer '..' and '*'";
    let paths = [format!("${}", "..*".repeat(40)), format!("${}", "[*,*]".repeat(60))];
    let too_long = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    for path in &paths {
        // Its text is too long before the steps are too many, unless the matches are few.
        assert_eq!(call(&["JSON.GET", "k", path]), too_long);
        let few = format!("{path}.b");
        for (name, path) in [("JSON.GET", &few), ("JSON.DEL", path), ("JSON.TYPE", path)] {
            assert_eq!(call(&[name, "k", path]), too_much);
        }
        assert_eq!(call(&["JSON.GET", "k", &few, "$.a"]), too_much);
    }
    let elements = "{\"a\":1},".repeat(20_000) + "1";
    assert_eq!(call(&["JSON.SET", "l", "$", &format!("[{elements}]")]), "OK");
    assert_eq!(call(&["JSON.GET", "l", "$[?(@.a > $..a)]"]), too_much);
    let blanks = " ".repeat(1 << 20);
    for option in ["INDENT", "NEWLINE", "SPACE"] {
        let reply = call(&["JSON.GET", "l", option, &blanks, "$"]);
        assert_eq!(reply, too_long);
    }
    assert_eq!(call(&["PING"]), "PONG");
    assert!(peak(&server) < MEMORY_MAX, "{} MiB", peak(&server));
}
