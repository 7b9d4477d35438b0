//! Commands that are aborted and executed again by a helper thread: their replies and effects equal
//! those of an uninterrupted execution. Each command is aborted here at its first opportunity,
//! which reveals changes or replies made too early.

use crate::client::{Client, show, show_args};
use crate::drawn::{self, Drawer};
use crate::random::{Random, duration};
use petrel_keyspace::Options;
use petrel_resp::Value;
use std::time::Instant;

/// Commands with random, blocking, thread- or memory-dependent results, or undefined order of
/// members.
const OTHERWISE: &[&str] = &[
    "keys",
    "scan",
    "sscan",
    "hscan",
    "zscan",
    "dump",
    "restore",
    "sort",
    "sort_ro",
    "spop",
    "srandmember",
    "hrandfield",
    "zrandmember",
    "vrandmember",
    "randomkey",
    "blpop",
    "brpop",
    "brpoplpush",
    "blmove",
    "blmovem",
    "blmpop",
    "bzpopmin",
    "bzpopmax",
    "bzmpop",
    "xread",
    "xreadgroup",
    "wait",
    "waitaof",
    "memory",
    "info",
    "lolwut",
    "slowlog",
    "commandlog",
    "latency",
    "hotkeys",
    "time",
    "vinfo",
    "debug",
];

/// The bytes of a reply, sorted: two sets of the same members have them in different orders.
fn unordered(value: &Value) -> String {
    let mut bytes = show(value).into_bytes();
    bytes.sort_unstable();
    bytes.escape_ascii().to_string()
}

#[test]
fn a_command_that_is_given_up_does_what_it_does_at_once() {
    let mut random = Random::seeded();
    let options = Options { stripes: 16, seed: 7, ..Options::default() };
    let mut at_once = Client::with_options(&options);
    let mut helped = Client::with_options(&options).helped();
    for client in [&mut at_once, &mut helped] {
        client.host.string_len_max = 1 << 20;
        drawn::populate(client);
    }
    let payloads = [&b"text"[..], b"list:l", b"zset:l", b"hash", b"stream"]
        .map(|key| at_once.call(&[b"DUMP", key]).as_bytes().unwrap().to_vec());
    let wild: Vec<&[u8]> = vec![b"0", b"-1", b"1.5", b"*", b"NX", b"COUNT", b"LIMIT", b""];
    let (begin, mut calls) = (Instant::now(), 0);
    while begin.elapsed() < duration() {
        calls += 1;
        if calls % 2000 == 0 {
            drawn::populate(&mut at_once);
            drawn::populate(&mut helped);
        }
        let drawn = Drawer { random: &mut random, wild: &wild, payloads: &payloads }.call();
        let args: Vec<&[u8]> = drawn.iter().map(|arg| &arg[..]).collect();
        let name = String::from_utf8_lossy(args[0]).to_ascii_lowercase();
        if OTHERWISE.contains(&&*name) {
            continue;
        }
        let (expected, found) = (at_once.call(&args), helped.call(&args));
        assert_eq!(unordered(&found), unordered(&expected), "{}", show_args(&args));
        at_once.host.events.clear();
        helped.host.events.clear();
    }
    let is_moved = helped.exec.script_calls == 0;
    assert!(is_moved && calls > 100, "{calls} calls");
}
