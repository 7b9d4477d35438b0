//! Memory: what comes back when values have gone, and what `INFO` and `MEMORY` say of it.

use crate::harness::*;

/// Bytes of all values that are there at the same time, about.
const HELD: usize = 120 << 20;
/// Resident bytes of an idle server that was full, at most.
const REST_MAX: i64 = 50 << 20;

/// Fills a server through several connections at once, so that most blocks are freed by another
/// worker than the one that allocated them; lengths differ, as does the time at which values
/// expire.
fn churn(server: &Server, rounds: usize, expire: bool) {
    let mean = 18_000;
    let keys = HELD / mean;
    std::thread::scope(|scope| {
        for writer in 0..4_usize {
            scope.spawn(move || {
                let value = "v".repeat(20_000);
                let mut client = server.connect();
                let mut at = writer;
                for round in 0..rounds {
                    for step in 0..keys / 4 {
                        at = (at * 1_103_515_245 + 12_345 + step) % (1 << 31);
                        let key = (at >> 8) % keys;
                        let value = &value[..mean - 2_000 + at % 4_000];
                        let ttl = if round + 1 == rounds { 1 + step % 300 } else { 5_000 };
                        let (key, ttl) = (key.to_string(), ttl.to_string());
                        client.send(&[
                            "SET",
                            &key,
                            value,
                            "PX",
                            if expire { &ttl } else { "100000000" },
                        ]);
                        client.receive();
                    }
                }
            });
        }
    });
}

#[test]
fn memory_comes_back_when_values_of_mixed_sizes_have_expired() {
    let server = Server::start("auto", &[]);
    churn(&server, 4, true);
    eventually("all have expired", || server.connect().text(&["DBSIZE"]) == "0");
    eventually("their memory is returned", || server.info("used_memory_rss") < REST_MAX);
}

#[test]
fn memory_is_returned_by_purge_though_other_workers_hold_it() {
    let server = Server::start("epoll", &[]);
    churn(&server, 2, false);
    let mut client = server.connect();
    assert_eq!(client.text(&["FLUSHALL"]), "OK");
    assert_eq!(client.text(&["MEMORY", "PURGE"]), "OK");
    eventually("the memory is returned", || server.info("used_memory_rss") < REST_MAX);
}

#[test]
fn info_says_what_the_allocators_hold() {
    let server = Server::start("epoll", &[]);
    let fields = ["used_memory", "allocator_allocated", "allocator_active", "allocator_resident"];
    let sizes = || fields.map(|field| server.info(field));
    let empty = sizes();
    assert!(server.info("used_memory_startup") > 10_000);
    let mut client = server.connect();
    // Blocks of the keyspace's heap, and of the general allocator.
    for key in 0..2_000 {
        client.text(&["SET", &format!("s{key}"), &"v".repeat(5_000)]);
        client.text(&["SET", &format!("l{key}"), &"v".repeat(17_000)]);
    }
    // A block of 17,000 bytes takes 20 KiB, and is counted as that.
    let stored = 2_000 * (5_000 + (20 << 10));
    let fits = |grown: i64| grown > stored && grown < stored * 5 / 4;
    eventually("all sizes have grown by what was stored", || {
        sizes().into_iter().zip(empty).all(|(size, empty)| fits(size - empty))
    });
    // Where half of the blocks of each page are free, the pages are still in use.
    for key in (0..2_000).step_by(2) {
        client.text(&["DEL", &format!("l{key}")]);
    }
    eventually("fragmentation shows", || {
        server.info("allocator_frag_bytes") > 1_000 * (20 << 10) / 2
    });
    let text = client.text(&["INFO", "memory"]);
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let [allocated, active, resident] = fields[1..] else { unreachable!() };
    let [allocated, active, resident] = [allocated, active, resident].map(value);
    let is = |name: &str, expected: f64| {
        assert!((value(name) - expected).abs() <= 0.01, "{name}: {} for {expected}", value(name));
    };
    is("allocator_frag_ratio", active / allocated);
    is("allocator_frag_bytes", active - allocated);
    is("allocator_rss_ratio", resident / active);
    is("allocator_rss_bytes", resident - active);
    is("rss_overhead_ratio", value("used_memory_rss") / resident);
    is("rss_overhead_bytes", value("used_memory_rss") - resident);
    is("mem_fragmentation_ratio", value("used_memory_rss") / value("used_memory"));
    is("used_memory_dataset", value("used_memory") - value("used_memory_overhead"));
    let stats = client.text(&["MEMORY", "STATS"]);
    let startup = format!("startup.allocated {} ", value("used_memory_startup"));
    assert!(stats.contains(&startup), "{startup}: {stats}");
}

/// Everything that a client can make grow, apart from data, counts as used memory, and is freed
/// with the client or with the object that it created.
#[test]
fn what_clients_make_grow_is_used_memory() {
    let server = Server::start("epoll", &["--threads", "2"]);
    let mut client = server.connect();
    let long = "n".repeat(100_000);
    let names: Vec<String> = (0..1000).map(|n| format!("{n}{}", "k".repeat(100))).collect();
    let with_names = |words: &[&str], after: &[&str]| {
        let names = names.iter().map(String::as_str);
        let words = words.iter().copied().chain(names).chain(after.iter().copied());
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    let prefixes = names.iter().flat_map(|name| ["PREFIX".to_owned(), name.clone()]);
    let tracking = ["CLIENT", "TRACKING", "ON", "BCAST"].map(str::to_owned);
    let calls: [(Vec<String>, i64); 7] = [
        (["CLIENT", "SETNAME", &long].map(str::to_owned).to_vec(), 100_000),
        (["CLIENT", "SETINFO", "LIB-NAME", &long].map(str::to_owned).to_vec(), 100_000),
        (with_names(&["WATCH"], &[]), 200_000),
        (with_names(&["SUBSCRIBE"], &[]), 100_000),
        (tracking.into_iter().chain(prefixes).collect(), 200_000),
        (with_names(&["HIMPORT", "PREPARE", "set"], &[]), 100_000),
        (with_names(&["BLPOP"], &["0"]), 500_000),
    ];
    for (call, bytes) in calls {
        // Some of what the call before took may still be given back.
        let mut before = 0;
        eventually("memory settles", || {
            let last = std::mem::replace(&mut before, server.info("used_memory"));
            last.abs_diff(before) < 1000
        });
        let mut other = server.connect();
        other.call(&["HELLO", "3"]);
        let args: Vec<&[u8]> = call.iter().map(String::as_bytes).collect();
        other.send_bytes(&encode(&args));
        let grown = || server.info("used_memory") - before;
        // The connection before may have been counted in `before`.
        eventually(&format!("{} is counted", call[0]), || grown() > bytes - 1000);
        drop(other);
        eventually(&format!("{} is given back", call[0]), || grown() < bytes / 2);
    }
    // Texts of scripts and functions, and their compiled form.
    let before = server.info("used_memory");
    let body = "local function f(x) return x + 1 end f(1) ".repeat(100);
    for n in 0..50 {
        client.call(&["EVAL", &format!("{body} return {n}"), "0"]);
        let library =
            format!("#!lua name=l{n}\n{body} redis.register_function('f{n}', function() end)");
        client.call(&["FUNCTION", "LOAD", &library]);
    }
    let grown = || server.info("used_memory") - before;
    assert!(grown() > 50 * 2 * 10_000, "{} bytes", grown());
    client.call(&["SCRIPT", "FLUSH"]);
    client.call(&["FUNCTION", "FLUSH"]);
    eventually("interpreters are given up", || {
        client.call(&["EVAL", "return 1", "0"]);
        grown() < 500_000
    });
    // Compiled patterns of JSON paths.
    client.call(&["JSON.SET", "k", "$", "[\"word\"]"]);
    let before = server.info("used_memory");
    for n in 0..100 {
        client.call(&["JSON.GET", "k", &format!("$[?@ =~ '^\\\\w{{{}}}{n}']", 1 + n % 10)]);
    }
    let grown = || server.info("used_memory") - before;
    assert!((100_000..5 << 20).contains(&grown()), "{} bytes", grown());
    client.call(&["MEMORY", "PURGE"]);
    eventually("patterns are freed", || grown() < 50_000);
}
