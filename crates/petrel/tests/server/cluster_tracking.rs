//! Client tracking and keyspace events at members that do not hold the keys.

use crate::cluster::{FOUND, await_service, call, join, scratch, start};
use crate::cluster_slots::have_shares;
use crate::harness::{Client, Server, eventually, show};
use petrel_resp::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Keys of all primaries.
const KEYS: usize = 12;

/// Members that do not fail: a busy machine may stop one for some seconds.
const CALM: &str = "--cluster-node-timeout 20000";

/// Members with `copies` owners of each slot, and a cache as the last server.
fn cluster(members: usize, copies: usize, flags: &str) -> Vec<Server> {
    let founded = format!("{FOUND} {flags} --cluster-copies {copies}");
    let mut servers = vec![start(scratch("secret"), &founded)];
    await_service(&servers[0]);
    for _ in 1..members {
        servers.push(start(scratch("secret"), &format!("{} {flags}", join(&servers[0]))));
        await_service(&servers[servers.len() - 1]);
    }
    eventually("each member has its share", || {
        have_shares(&servers.iter().collect::<Vec<_>>(), copies)
    });
    let cache = format!("{} {flags} --cluster-role cache", join(&servers[0]));
    servers.push(start(scratch("secret"), &cache));
    await_service(&servers[members]);
    servers
}

/// A connection that speaks RESP3 and tracks.
fn tracking(server: &Server, options: &str) -> Client {
    let mut client = server.connect();
    client.call(&["HELLO", "3"]);
    // As long as a primary has not said that it tells of changes, reads are forgotten at once.
    eventually("reads are tracked", || {
        assert_eq!(call(&mut client, "CLIENT TRACKING ON"), "OK");
        let are_kept = (0..KEYS).all(|at| {
            call(&mut client, &format!("GET probe{at}"));
            client.text(&["PING"]) == "PONG"
        });
        while call(&mut client, "CLIENT TRACKING OFF") != "OK" {}
        are_kept
    });
    assert_eq!(call(&mut client, format!("CLIENT TRACKING ON {options}").trim_end()), "OK");
    client
}

/// The next push or reply.
fn next(client: &mut Client) -> String {
    show(&client.receive().expect("a push or a reply"))
}

fn invalidation(key: &str) -> String {
    format!("[invalidate [{key}]]")
}

/// Calls a command; no push precedes its reply.
fn quiet(client: &mut Client, command: &str, reply: &str) {
    assert_eq!(call(client, command), reply, "{command}");
}

#[test]
fn reads_are_tracked_wherever_the_key_is() {
    let servers = cluster(2, 1, CALM);
    let mut writers: Vec<Client> = servers.iter().map(Server::connect).collect();
    let large = "x".repeat(70_000);
    for reader in &servers {
        let mut client = tracking(reader, "");
        for (round, writer) in writers.iter_mut().enumerate() {
            for at in 0..KEYS {
                // Keys that are there, large, not there, removed, of other types.
                let key = format!("key{at}");
                call(writer, &format!("DEL {key}"));
                quiet(&mut client, &format!("GET {key}"), "nil");
                call(writer, &format!("SET {key} v{round}"));
                assert_eq!(next(&mut client), invalidation(&key));
                quiet(&mut client, &format!("GET {key}"), &format!("v{round}"));
                // Further changes are not notified before the key is read again.
                call(writer, &format!("APPEND {key} {large}"));
                assert_eq!(next(&mut client), invalidation(&key));
                call(writer, &format!("APPEND {key} {large}"));
                quiet(&mut client, &format!("STRLEN {key}"), "140002");
                call(writer, &format!("DEL {key}"));
                assert_eq!(next(&mut client), invalidation(&key));
                call(writer, &format!("HSET {key} f 1"));
                quiet(&mut client, &format!("HGET {key} f"), "1");
                call(writer, &format!("PEXPIRE {key} 1"));
                assert_eq!(next(&mut client), invalidation(&key));
                quiet(&mut client, "PING", "PONG");
            }
        }
        drop(client);
    }
}

#[test]
fn copies_that_are_read_are_tracked() {
    let servers = cluster(2, 1, CALM);
    let (mut writer, cache) = (servers[0].connect(), &servers[2]);
    let mut other = cache.connect();
    let mut client = tracking(cache, "");
    for at in 0..KEYS {
        let key = format!("key{at}");
        quiet(&mut writer, &format!("SET {key} 1"), "OK");
        // A client that does not track brings the copy.
        quiet(&mut other, &format!("GET {key}"), "1");
        let before = cache_reads(&mut other);
        quiet(&mut client, &format!("GET {key}"), "1");
        assert_eq!(cache_reads(&mut other), before + 1);
        quiet(&mut writer, &format!("INCR {key}"), "2");
        assert_eq!(next(&mut client), invalidation(&key));
        quiet(&mut client, &format!("GET {key}"), "2");
        quiet(&mut writer, &format!("APPEND {key} {}", "x".repeat(1000)), "1001");
        assert_eq!(next(&mut client), invalidation(&key));
    }
}

fn cache_reads(client: &mut Client) -> u64 {
    let info = call(client, "CLUSTER INFO");
    let reads = info.lines().find_map(|line| line.strip_prefix("cluster_copies_read:"));
    reads.unwrap().trim().parse().unwrap()
}

#[test]
fn options_choose_what_is_tracked_at_every_member() {
    let servers = cluster(2, 1, CALM);
    for reader in &servers {
        for writer in &servers {
            let mut writer = writer.connect();
            opt_in_and_out(reader, &mut writer);
            own_changes(reader, &mut writer);
            redirected(reader, &mut writer);
            transactions(reader, &mut writer);
        }
    }
}

fn opt_in_and_out(reader: &Server, writer: &mut Client) {
    for (option, word, is_tracked) in [("OPTIN", "YES", true), ("OPTOUT", "NO", false)] {
        let mut client = tracking(reader, option);
        for at in 0..KEYS {
            // In one slot, so that the second change is the last notified.
            let (chosen, other) = (format!("{{key{at}}}a"), format!("{{key{at}}}b"));
            quiet(&mut client, &format!("CLIENT CACHING {word}"), "OK");
            call(&mut client, &format!("GET {chosen}"));
            call(&mut client, &format!("GET {other}"));
            let (silent, expected) = if is_tracked { (&other, &chosen) } else { (&chosen, &other) };
            quiet(writer, &format!("SET {silent} {at}"), "OK");
            quiet(writer, &format!("SET {expected} {at}"), "OK");
            assert_eq!(next(&mut client), invalidation(expected), "{option}");
            quiet(&mut client, "PING", "PONG");
        }
    }
}

fn own_changes(reader: &Server, writer: &mut Client) {
    let mut client = tracking(reader, "NOLOOP");
    let mut loops = tracking(reader, "");
    for at in 0..KEYS {
        let (own, last) = (format!("{{key{at}}}own"), format!("{{key{at}}}last"));
        for read in [&own, &last] {
            call(&mut client, &format!("GET {read}"));
            call(&mut loops, &format!("GET {read}"));
        }
        quiet(&mut client, &format!("SET {own} 1"), "OK");
        assert_eq!(next(&mut loops), invalidation(&own));
        quiet(writer, &format!("SET {last} 1"), "OK");
        assert_eq!(next(&mut client), invalidation(&last));
        assert_eq!(next(&mut loops), invalidation(&last));
        call(&mut loops, &format!("GET {own}"));
        loops.send(&["SET", &own, "2"]);
        let mut heard = [next(&mut loops), next(&mut loops)];
        heard.sort();
        assert_eq!(heard, ["OK".to_owned(), invalidation(&own)]);
    }
    for mut client in [client, loops] {
        quiet(&mut client, "PING", "PONG");
    }
}

fn redirected(reader: &Server, writer: &mut Client) {
    let mut listener = reader.connect();
    let number = call(&mut listener, "CLIENT ID");
    call(&mut listener, "SUBSCRIBE __redis__:invalidate");
    let mut client = reader.connect();
    quiet(&mut client, &format!("CLIENT TRACKING ON REDIRECT {number}"), "OK");
    for at in 0..KEYS {
        let key = format!("key{at}");
        call(&mut client, &format!("GET {key}"));
        quiet(writer, &format!("SET {key} {at}"), "OK");
        assert_eq!(next(&mut listener), format!("[message __redis__:invalidate [{key}]]"));
    }
}

fn transactions(reader: &Server, writer: &mut Client) {
    let mut client = tracking(reader, "");
    for at in 0..KEYS {
        let key = format!("key{at}");
        quiet(writer, &format!("SET {key} {at}"), "OK");
        quiet(&mut client, "MULTI", "OK");
        quiet(&mut client, &format!("GET {key}"), "QUEUED");
        quiet(&mut client, "EXEC", &format!("[{at}]"));
        quiet(writer, &format!("INCR {key}"), &(at + 1).to_string());
        assert_eq!(next(&mut client), invalidation(&key));
        client.text(&["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", &key]);
        quiet(writer, &format!("INCR {key}"), &(at + 2).to_string());
        assert_eq!(next(&mut client), invalidation(&key));
    }
    let names: Vec<String> = (0..KEYS).map(|at| format!("key{at}")).collect();
    call(&mut client, &format!("MGET {}", names.join(" ")));
    for name in &names {
        quiet(writer, &format!("SET {name} 1"), "OK");
        assert_eq!(next(&mut client), invalidation(name));
    }
}

#[test]
fn prefixes_are_tracked_at_every_member() {
    let servers = cluster(2, 1, CALM);
    let mut writers: Vec<Client> = servers.iter().map(Server::connect).collect();
    for reader in &servers {
        let mut client = tracking(reader, "BCAST PREFIX user: PREFIX order:");
        let mut quiet_one = tracking(reader, "BCAST PREFIX user: NOLOOP");
        for writer in &mut writers {
            for at in 0..KEYS {
                // In one slot: the other members know the prefixes when they answer, and changes
                // are notified in their order.
                let names = ["user", "other", "order"].map(|of| format!("{of}:{{key{at}}}"));
                let [user, other, order] = &names;
                call(&mut client, &format!("GET {order}"));
                call(&mut quiet_one, &format!("GET {user}"));
                for name in [other, user] {
                    call(writer, &format!("INCR {name}"));
                }
                assert_eq!(next(&mut client), invalidation(user));
                assert_eq!(next(&mut quiet_one), invalidation(user));
                // Reads and dropped copies are no changes.
                call(&mut client, &format!("GET {user}"));
                call(&mut reader.connect(), &format!("GET {user}"));
                call(&mut quiet_one, &format!("INCR {user}"));
                assert_eq!(next(&mut client), invalidation(user));
                call(writer, &format!("INCR {order}"));
                assert_eq!(next(&mut client), invalidation(order));
                quiet(&mut client, "PING", "PONG");
                quiet(&mut quiet_one, "PING", "PONG");
            }
        }
        // Changes are not notified after the end of tracking.
        quiet(&mut client, "CLIENT TRACKING OFF", "OK");
        quiet(&mut client, "CLIENT TRACKING ON BCAST PREFIX new:", "OK");
        call(&mut client, "GET new:{key1}");
        call(&mut writers[0], "INCR user:{key1}");
        call(&mut writers[0], "INCR new:{key1}");
        assert_eq!(next(&mut client), invalidation("new:{key1}"));
        quiet(&mut client, "PING", "PONG");
    }
}

#[test]
fn events_reach_subscribers_of_every_member() {
    let servers = cluster(2, 1, CALM);
    for reader in &servers {
        let mut own = reader.connect();
        quiet(&mut own, "CONFIG SET notify-keyspace-events KEAnm", "OK");
        let mut client = reader.connect();
        call(&mut client, "PSUBSCRIBE __keyevent@*__:*");
        for writer in &servers {
            let mut writer = writer.connect();
            for at in 0..KEYS {
                events_of(&mut client, &mut own, &mut writer, &format!("key{at}"));
            }
        }
        drop(client);
        quiet(&mut own, "CONFIG SET notify-keyspace-events KEA", "OK");
        let mut client = reader.connect();
        call(&mut client, "SUBSCRIBE __keyspace@0__:{key1}a");
        call(&mut own, "SET {key1}a 1");
        assert_eq!(next(&mut client), "[message __keyspace@0__:{key1}a set]");
        assert_eq!(own.text(&["CONFIG", "SET", "notify-keyspace-events", ""]), "OK");
    }
}

/// Changes a key at one member, and expects its events at another.
fn events_of(client: &mut Client, own: &mut Client, writer: &mut Client, key: &str) {
    let mut expect = |events: &[&str]| {
        for event in events {
            let heard = next(client);
            let channel = format!("__keyevent@0__:{event}");
            assert_eq!(heard, format!("[pmessage __keyevent@*__:* {channel} {key}]"));
        }
    };
    // The member's own commands follow its interests.
    call(own, &format!("DEL {key}"));
    call(own, &format!("GET {key}"));
    expect(&["keymiss"]);
    let each: [(&str, &[&str]); 12] = [
        ("SET KEY 1", &["new", "set"]),
        ("INCR KEY", &["incrby"]),
        ("EXPIRE KEY 1000", &["expire"]),
        ("DEL KEY", &["del"]),
        ("RPUSH KEY a", &["new", "rpush"]),
        ("LPOP KEY", &["lpop", "del"]),
        ("HSET KEY f 1", &["new", "hset"]),
        ("HDEL KEY f", &["hdel", "del"]),
        ("SADD KEY a", &["new", "sadd"]),
        ("SREM KEY a", &["srem", "del"]),
        ("ZADD KEY 1 a", &["new", "zadd"]),
        ("PEXPIRE KEY 1", &["expire", "expired"]),
    ];
    for (command, events) in each {
        call(writer, &command.replace("KEY", key));
        expect(events);
    }
    call(writer, &format!("XADD {key} * f 1"));
    expect(&["new", "xadd"]);
    call(writer, &format!("DEL {key}"));
    expect(&["del"]);
}

/// A client that caches values until they are invalidated.
struct Caching {
    client: Client,
    cached: HashMap<String, String>,
    /// Invalidations of cached keys.
    invalidated: usize,
    reads: usize,
}

impl Caching {
    fn new(server: &Server, options: &str) -> Self {
        let client = tracking(server, options);
        Caching { client, cached: HashMap::new(), invalidated: 0, reads: 0 }
    }

    /// Takes an invalidation; returns other messages.
    fn take(&mut self, value: Value) -> Option<Value> {
        let Value::Push(parts) = value else { return Some(value) };
        match &parts[..] {
            [_, Value::Array(keys)] => {
                for key in keys {
                    self.invalidated += usize::from(self.cached.remove(&show(key)).is_some());
                }
            }
            _ => self.cached.clear(),
        }
        None
    }

    /// Reads a key that is not cached.
    fn read(&mut self, key: &str) {
        if self.cached.contains_key(key) {
            return self.take_pushes();
        }
        self.client.send(&["GET", key]);
        let value = loop {
            let value = self.client.receive().expect("a reply");
            if let Some(reply) = self.take(value) {
                break show(&reply);
            }
        };
        self.reads += 1;
        let is_error = value.starts_with(|first: char| first.is_ascii_uppercase());
        if !is_error {
            self.cached.insert(key.to_owned(), value);
        }
    }

    /// Takes the pushes that have arrived.
    fn take_pushes(&mut self) {
        self.client.send(&["PING"]);
        loop {
            let value = self.client.receive().expect("a push or a reply");
            if self.take(value).is_some() {
                return;
            }
        }
    }

    fn is_right(&mut self, values: &HashMap<String, String>) -> bool {
        self.take_pushes();
        self.cached.iter().all(|(key, value)| values.get(key) == Some(value))
    }
}

/// Writes at a member until it is to stop.
fn write(server: &Server, stop: &AtomicBool, first: usize) {
    let (mut client, mut at) = (server.connect(), first);
    while !stop.load(Relaxed) {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = format!("key{}", (at >> 33) % 40);
        let command = match at >> 60 & 3 {
            0 => format!("DEL {key}"),
            1 => format!("PEXPIRE {key} 3"),
            2 => format!("SET {key} {}", "7".repeat((at >> 40) % 900 + 1)),
            _ => format!("INCR {key}"),
        };
        client.send(&command.split(' ').collect::<Vec<_>>());
        if client.receive().is_none() {
            return;
        }
    }
}

#[test]
fn caching_clients_miss_no_change_though_a_member_fails() {
    let mut servers = cluster(3, 2, "--cluster-node-timeout 4000");
    let stop = AtomicBool::new(false);
    let (first, rest) = servers.split_at_mut(1);
    let (second, rest) = rest.split_at_mut(1);
    let (third, cache) = rest.split_at_mut(1);
    let mut caching: Vec<Caching> = [&first[0], &second[0], &cache[0]]
        .into_iter()
        .flat_map(|server| ["", "BCAST PREFIX key"].map(|options| Caching::new(server, options)))
        .collect();
    std::thread::scope(|scope| {
        for (at, server) in [&first[0], &second[0], &third[0], &cache[0]].into_iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || write(server, stop, at));
        }
        let mut round = 0usize;
        let mut read_for = |caching: &mut Vec<Caching>, is_enough: &dyn Fn(&Caching) -> bool| {
            while !caching.iter().all(is_enough) {
                for one in caching.iter_mut() {
                    one.read(&format!("key{}", round % 40));
                }
                round += 7;
            }
        };
        read_for(&mut caching, &|one| one.invalidated > 300);
        third[0].signal(libc::SIGKILL);
        let until = Instant::now() + Duration::from_secs(6);
        read_for(&mut caching, &|_| Instant::now() > until);
        let before: usize = caching.iter().map(|one| one.invalidated).sum();
        read_for(&mut caching, &|one| one.invalidated > before / 6 + 100);
        stop.store(true, Relaxed);
    });
    let mut client = await_service(&first[0]);
    // Everything is cached once more, and compared when nothing changes any more.
    for one in &mut caching {
        (0..40).for_each(|at| one.read(&format!("key{at}")));
    }
    eventually("what is cached is right", || {
        let value = |at| (format!("key{at}"), call(&mut client, &format!("GET key{at}")));
        let values: HashMap<String, String> = (0..40).map(value).collect();
        caching.iter_mut().all(|one| one.is_right(&values))
    });
}
