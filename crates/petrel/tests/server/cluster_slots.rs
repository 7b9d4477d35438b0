//! A cluster with members that each hold some hash slots.

use crate::cluster::{FOUND, await_service, call, count_meanwhile, join, scratch, start};
use crate::harness::{Client, Server, eventually, show};
use std::collections::BTreeSet;

const SLOTS: usize = 16_384;

const KEYS: usize = 600;

fn field(client: &mut Client, name: &str) -> usize {
    let info = call(client, "CLUSTER INFO");
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(usize::MAX)
}

/// Whether every slot has `copies` owners with its data, and no more slots are to move: each server
/// then has its share.
pub fn have_shares(servers: &[&Server], copies: usize) -> bool {
    let mut held = Vec::new();
    let is_still = servers.iter().all(|server| {
        let mut client = server.connect();
        held.push(field(&mut client, "cluster_slots_held"));
        call(&mut client, "CLUSTER INFO").starts_with("cluster_state:ok\r\n")
            && field(&mut client, "cluster_slots_coming") == 0
    });
    let share = copies * SLOTS / servers.len();
    let has_share = held.iter().all(|held| share.abs_diff(*held) <= SLOTS / 64);
    is_still && has_share && held.iter().sum::<usize>() == copies * SLOTS
}

/// Node timeout of members that do not fail: a busy machine may stop one for some seconds.
const CALM: &str = "--cluster-node-timeout 20000";

/// Waits until every slot has its owners, and each server its share.
fn await_homes(servers: &[&Server], copies: usize) {
    eventually("every slot has its homes", || have_shares(servers, copies));
}

fn fill(client: &mut Client) {
    for at in 0..KEYS {
        assert_eq!(call(client, &format!("SET key{at} {at}")), "OK");
    }
    call(client, "RPUSH list a b c");
    call(client, "HSET hash a 1 b 2");
    call(client, "ZADD scores 1 a 2 b");
    call(client, "SET late 1 EX 1000");
}

/// Each key has its value at each server.
fn check(servers: &[&Server], suffix: &str) {
    for server in servers {
        let mut client = server.connect();
        for at in 0..KEYS {
            assert_eq!(call(&mut client, &format!("GET key{at}")), format!("{at}{suffix}"));
        }
        assert_eq!(call(&mut client, "LRANGE list 0 -1"), "[a b c]");
        assert_eq!(call(&mut client, "HGET hash b"), "2");
        assert_eq!(call(&mut client, "ZSCORE scores b"), "2");
        let left: i64 = call(&mut client, "TTL late").parse().unwrap();
        assert!((900..=1000).contains(&left), "{left}");
        assert_eq!(call(&mut client, "GET none"), "nil");
    }
}

/// Number of keys in a server's memory.
fn local_keys(client: &mut Client) -> usize {
    let info = call(client, "INFO keyspace");
    let keys = info.split("db0:keys=").nth(1).and_then(|rest| rest.split(',').next());
    keys.map_or(0, |keys| keys.parse().unwrap())
}

fn scan(client: &mut Client) -> (usize, BTreeSet<String>) {
    let (mut cursor, mut count, mut keys) = ("0".to_owned(), 0, BTreeSet::new());
    loop {
        let reply = call(client, &format!("SCAN {cursor} COUNT 50"));
        let (next, found) = reply.trim_matches(['[', ']']).split_once(' ').unwrap();
        let found = found.trim_matches(['[', ']']).split(' ').filter(|key| !key.is_empty());
        for key in found {
            count += 1;
            keys.insert(key.to_owned());
        }
        cursor = next.to_owned();
        if cursor == "0" {
            return (count, keys);
        }
    }
}

#[test]
fn members_hold_some_slots_each_and_serve_all() {
    // A busy machine may not run a member for a while.
    const TIMEOUT: &str = "--cluster-node-timeout 8000";
    let founder =
        start(scratch("secret"), &format!("{FOUND} {TIMEOUT} --cluster-copies 2 --appendonly yes"));
    let mut client = await_service(&founder);
    fill(&mut client);
    let flags = format!("{} {TIMEOUT} --appendonly yes", join(&founder));
    let (mut values, (second, mut third)) = count_meanwhile(&[&founder], || {
        let joined = [(); 2].map(|()| start(scratch("secret"), &flags));
        let [second, third] = joined;
        await_homes(&[&founder, &second, &third], 2);
        (second, third)
    });
    let (all, keys) = ([&founder, &second, &third], KEYS + 5);
    for server in all {
        // Those of slots that it has lost are removed by and by.
        eventually("each has its share in memory", || {
            (keys / 2..keys * 5 / 6).contains(&local_keys(&mut server.connect()))
        });
    }
    check(&all, "");
    for server in all {
        let mut client = server.connect();
        assert_eq!(call(&mut client, "DBSIZE"), keys.to_string());
        let (count, found) = scan(&mut client);
        assert_eq!((count, found.len()), (keys, keys));
    }
    let mut client = third.connect();
    for at in 0..KEYS {
        let appended = call(&mut client, &format!("APPEND key{at} x"));
        assert_eq!(appended, (at.to_string().len() + 1).to_string());
        assert_eq!(call(&mut client, &format!("GET key{at}")), format!("{at}x"));
    }
    assert_eq!(call(&mut client, "MSET a 1 b 2 c 3 d 4"), "OK");
    assert_eq!(call(&mut client, "MGET a b none c d"), "[1 2 nil 3 4]");
    assert_eq!(call(&mut client, "EXISTS a b none c d"), "4");
    assert_eq!(call(&mut client, "DEL a b none c d"), "4");

    // One dies. Each of its slots has another home, and gets a second one again.
    let (more, third) = count_meanwhile(&[&founder, &second], || {
        third.signal(libc::SIGKILL);
        third.exit_code();
        await_homes(&[&founder, &second], 2);
        check(&[&founder, &second], "x");
        // The data on its disk are not served.
        let third = start(third.into_scratch(), &flags);
        await_homes(&[&founder, &second, &third], 2);
        third
    });
    values.extend(more);
    check(&[&founder, &second, &third], "x");
    // One leaves in order.
    let mut second = second;
    let (more, ()) = count_meanwhile(&[&founder, &third], || {
        second.signal(libc::SIGTERM);
        assert_eq!(second.exit_code(), Some(0));
    });
    values.extend(more);
    await_homes(&[&founder, &third], 2);
    check(&[&founder, &third], "x");
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), count, "a value was given twice");
    assert!(count > 100, "{count} values");
    let last: usize = call(&mut founder.connect(), "GET counter").parse().unwrap();
    assert!(last >= count, "{last} of {count}");
}

#[test]
fn all_come_back_with_the_slots_that_each_had_alone() {
    let port = crate::harness::free_port();
    let founder = format!("{FOUND} --appendonly yes --cluster-copies 1 --cluster-port {port}");
    let mut first = start(scratch("secret"), &founder);
    let mut client = await_service(&first);
    fill(&mut client);
    let joiner = format!("{} --appendonly yes", join(&first));
    let mut second = start(scratch("secret"), &joiner);
    await_homes(&[&first, &second], 1);
    check(&[&first, &second], "");
    for server in [&mut first, &mut second] {
        server.signal(libc::SIGKILL);
        server.exit_code();
    }
    let first = start(first.into_scratch(), &founder);
    let second = start(second.into_scratch(), &joiner);
    await_homes(&[&first, &second], 1);
    check(&[&first, &second], "");
    assert_eq!(call(&mut first.connect(), "DBSIZE"), (KEYS + 4).to_string());
}

#[test]
fn a_cache_serves_copies_of_what_was_read_there() {
    let founder = start(scratch("secret"), &format!("{FOUND} {CALM} --cluster-copies 1"));
    let mut home = await_service(&founder);
    let joined = format!("{} {CALM} --cluster-role cache", join(&founder));
    let cache = start(scratch("secret"), &joined);
    let mut client = await_service(&cache);
    fill(&mut home);
    // The first read fetches a copy, the second finds it.
    check(&[&cache], "");
    assert_eq!(field(&mut client, "cluster_slots_held"), 0);
    let (taken, read) =
        (field(&mut client, "cluster_copies_taken"), field(&mut client, "cluster_copies_read"));
    assert_eq!(taken, KEYS + 4, "of which {read} were read");
    check(&[&cache], "");
    // That there is no such key is asked of its home each time.
    assert!(field(&mut client, "cluster_copies_read") >= read + KEYS + 4);
    assert_eq!(field(&mut client, "cluster_copies_taken"), taken);
    assert_eq!(field(&mut home, "cluster_keys_shared"), taken);

    // A client there reads its own writes, small, large and of elements.
    let large = "x".repeat(3000);
    for value in ["small", &large, "small again", &large[..700]] {
        assert_eq!(client.text(&["SET", "key1", value]), "OK");
        assert_eq!(call(&mut client, "GET key1"), value);
        assert_eq!(call(&mut client, "GET key1"), value);
    }
    assert_eq!(call(&mut client, "HSET hash b 3"), "0");
    assert_eq!(call(&mut client, "HGET hash b"), "3");
    assert_eq!(call(&mut client, "LPOP list"), "a");
    assert_eq!(call(&mut client, "LRANGE list 0 -1"), "[b c]");
    assert_eq!(call(&mut client, "DEL scores"), "1");
    assert_eq!(call(&mut client, "ZSCORE scores b"), "nil");
    assert_eq!(call(&mut client, "RENAME {x}hash {x}other"), "ERR no such key");
    // Those of others arrive.
    assert_eq!(call(&mut home, "SET key2 from-home"), "OK");
    eventually("the copy is updated", || call(&mut client, "GET key2") == "from-home");
    assert_eq!(call(&mut home, "PEXPIRE key2 1"), "1");
    eventually("the copy expires", || call(&mut client, "EXISTS key2") == "0");
    assert_eq!(call(&mut client, "DBSIZE"), (KEYS + 2).to_string());
    assert_eq!(local_keys(&mut home), KEYS + 2);

    // Copies go first when memory is short, and come back.
    assert_eq!(call(&mut client, "CONFIG SET maxmemory 1"), "OK");
    eventually("a copy is evicted", || {
        call(&mut client, "GET key3");
        !call(&mut client, "INFO stats").contains("evicted_keys:0\r\n")
    });
    assert_eq!(call(&mut client, "GET key3"), "3");
    // The primary is notified, and stops tracking these copies.
    eventually("evicted copies are not shared any more", || {
        let shared = field(&mut home, "cluster_keys_shared");
        shared < KEYS / 2 && shared <= local_keys(&mut client)
    });
    assert_eq!(call(&mut client, "CONFIG SET maxmemory 0"), "OK");
    assert_eq!(call(&mut home, "DBSIZE"), (KEYS + 2).to_string());
    assert_eq!(call(&mut home, "SET key4 new"), "OK");
    eventually("the key is read anew", || call(&mut client, "GET key4") == "new");

    // It is gone, and comes back with nothing.
    drop(client);
    let mut cache = cache;
    cache.signal(libc::SIGTERM);
    assert_eq!(cache.exit_code(), Some(0));
    assert_eq!(call(&mut home, "GET key3"), "3");
}

#[test]
fn transactions_flush_all_homes() {
    let flags = format!("{FOUND} {CALM} --cluster-copies 1 --appendonly yes");
    let founder = start(scratch("secret"), &flags);
    await_service(&founder);
    let other = start(scratch("secret"), &format!("{} {CALM} --appendonly yes", join(&founder)));
    await_service(&other);
    await_homes(&[&founder, &other], 1);
    for (round, server) in [&founder, &other].into_iter().enumerate() {
        let mut client = server.connect();
        // Whichever of the two is the home of the keys.
        for at in 0..6 {
            eventually("there are keys at both", || {
                (0..KEYS).all(|at| call(&mut client, &format!("SET key{at} v")) == "OK")
            });
            call(&mut client, "MULTI");
            let commands = [
                format!("INCR n{at}"),
                "FLUSHALL".into(),
                format!("INCRBY n{at} 7"),
                "WAITAOF 0 0 0".into(),
            ];
            for command in &commands {
                assert_eq!(call(&mut client, command), "QUEUED");
            }
            let reply = call(&mut client, "EXEC");
            assert!(reply.starts_with("[1 OK 7 ["), "round {round}: {reply}");
            for server in [&founder, &other] {
                let mut client = server.connect();
                assert_eq!(call(&mut client, "DBSIZE"), "1");
                assert_eq!(call(&mut client, &format!("GET n{at}")), "7");
            }
            assert_eq!(call(&mut client, "FLUSHALL"), "OK");
        }
    }
}

#[test]
fn a_transaction_flushes_all_homes_though_its_reply_is_too_large() {
    let founder = start(scratch("secret"), &format!("{FOUND} {CALM} --cluster-copies 1"));
    await_service(&founder);
    let other = start(scratch("secret"), &format!("{} {CALM}", join(&founder)));
    await_service(&other);
    await_homes(&[&founder, &other], 1);
    let mut client = other.connect();
    fill(&mut client);
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"];
    assert_eq!(show(&client.call(&limit)), "OK");
    call(&mut client, "MULTI");
    let text = "x".repeat(64 << 10);
    for _ in 0..40 {
        assert_eq!(show(&client.call(&["ECHO", &text])), "QUEUED");
    }
    assert_eq!(call(&mut client, "FLUSHALL"), "QUEUED");
    client.send(&["EXEC"]);
    assert!(client.receive().is_none(), "the client is closed");
    for server in [&founder, &other] {
        eventually("all is gone", || call(&mut server.connect(), "DBSIZE") == "0");
    }
}
