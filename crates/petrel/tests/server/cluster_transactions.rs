//! Commands and transactions over several hash slots, of one primary or several, and the death of
//! one meanwhile.

use crate::bank::Bank;
use crate::cluster::{FOUND, await_service, call, join, scratch, start};
use crate::cluster_slots::have_shares;
use crate::cluster_takeover::eventually;
use crate::harness::{Client, Server, show};
use petrel_resp::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A busy machine may not run a member for a while.
const CALM: &str = "--cluster-node-timeout 20000 --cluster-copies 2";

const SLOTS: u64 = 16_384;

/// Three members that hold all slots together, and a cache.
fn members(flags: &str) -> [Server; 4] {
    let founder = start(scratch("secret"), &format!("{FOUND} {flags}"));
    await_service(&founder);
    let flags = format!("{} {flags}", join(&founder));
    let [second, third] = [(); 2].map(|()| start(scratch("secret"), &flags));
    let cache = start(scratch("secret"), &format!("{flags} --cluster-role cache"));
    eventually("the cache serves", || {
        call(&mut cache.connect(), "CLUSTER INFO").starts_with("cluster_state:ok\r\n")
    });
    eventually("each member has its share", || have_shares(&[&founder, &second, &third], 2));
    // Primaries move after the data.
    eventually("each is primary of a third", || {
        [&founder, &second, &third].map(ranges).iter().all(|ranges| {
            let slots = ranges.iter().map(|(first, last)| last - first + 1);
            slots.sum::<u64>() > SLOTS / 4
        })
    });
    [founder, second, third, cache]
}

/// The ranges of slots of which a server is primary.
fn ranges(server: &Server) -> Vec<(u64, u64)> {
    let nodes = call(&mut server.connect(), "CLUSTER NODES");
    let line = nodes.lines().find(|line| line.contains("myself")).expect("a line");
    let range = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    line.split(' ').skip(8).filter_map(range).collect()
}

/// Keys of different slots of which a server is primary.
fn own_keys(server: &Server, count: usize) -> Vec<String> {
    let keys = some_keys(server, count);
    assert_eq!(keys.len(), count, "{:?}", ranges(server));
    keys
}

/// Like [`own_keys`], but fewer if there are fewer.
pub fn some_keys(server: &Server, count: usize) -> Vec<String> {
    let (ranges, mut client) = (ranges(server), server.connect());
    let (mut keys, mut slots) = (Vec::new(), BTreeSet::new());
    // Of this many keys thousands are its own.
    for key in (0..SLOTS).map(|at| format!("key{at}")) {
        let slot = call(&mut client, &format!("CLUSTER KEYSLOT {key}")).parse().unwrap();
        if ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot)) && slots.insert(slot)
        {
            keys.push(key);
        }
        if keys.len() == count {
            break;
        }
    }
    keys
}

#[test]
fn every_member_executes_commands_over_several_slots_of_one() {
    let servers = members(CALM);
    for primary in &servers[..3] {
        let keys = own_keys(primary, 3);
        let [a, b, c] = &keys[..] else { unreachable!() };
        for server in &servers {
            let mut client = server.connect();
            for (command, reply) in [
                (format!("MSET {a} 1 {b} 2"), "OK".to_owned()),
                (format!("RENAME {a} {c}"), "OK".into()),
                (format!("MSETNX {a} 1 {b} 3"), "0".into()),
                (format!("MGET {a} {b} {c}"), "[nil 2 1]".into()),
                (format!("BITOP AND {a} {b} {c}"), "1".into()),
                (format!("DEL {a} {b} {c}"), "3".into()),
                (format!("SADD {a} x y"), "2".into()),
                (format!("SMOVE {a} {b} x"), "1".into()),
                (format!("SUNIONSTORE {c} {a} {b}"), "2".into()),
                (format!("SINTER {c} {b}"), "[x]".into()),
                (format!("RENAME {c} {a}"), "OK".into()),
                (format!("SCARD {a}"), "2".into()),
                (format!("DEL {a} {b}"), "2".into()),
            ] {
                assert_eq!(call(&mut client, &command), reply, "{command}");
            }
            let script = "return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])";
            assert_eq!(client.text(&["EVAL", script, "2", a, b]), "2");
            assert_eq!(call(&mut client, "MULTI"), "OK");
            assert_eq!(call(&mut client, &format!("INCR {a}")), "QUEUED");
            assert_eq!(call(&mut client, &format!("DEL {b}")), "QUEUED");
            assert_eq!(call(&mut client, "EXEC"), "[2 1]");
            client.send(&["BLPOP", b, c, "0"]);
            assert!(client.is_silent(Duration::from_millis(20)));
            assert_eq!(call(&mut servers[3].connect(), &format!("RPUSH {c} v")), "1");
            assert_eq!(show(&client.receive().expect("a reply")), format!("[{c} v]"));
            assert_eq!(call(&mut client, &format!("DEL {a}")), "1");
        }
    }
}

#[test]
fn every_member_executes_commands_over_several_primaries() {
    let servers = members(CALM);
    let keys: Vec<String> = servers[..3].iter().flat_map(|primary| own_keys(primary, 1)).collect();
    let [a, b, c] = &keys[..] else { unreachable!() };
    for server in &servers {
        let mut client = server.connect();
        for (command, reply) in [
            (format!("MSETNX {a} 1 {b} 2"), "1"),
            (format!("RENAME {a} {c}"), "OK"),
            (format!("MSETNX {a} 1 {c} 3"), "0"),
            (format!("BITOP AND {a} {b} {c}"), "1"),
            (format!("DEL {a} {b} {c}"), "3"),
            (format!("SADD {a} x y"), "2"),
            (format!("SMOVE {a} {b} x"), "1"),
            (format!("SUNIONSTORE {c} {a} {b}"), "2"),
            (format!("SINTER {c} {b}"), "[x]"),
            (format!("DEL {a} {b} {c}"), "3"),
        ] {
            assert_eq!(call(&mut client, &command), reply, "{command}");
        }
        let script = "return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])";
        assert_eq!(client.text(&["EVAL", script, "2", a, b]), "2");
        assert_eq!(call(&mut client, "MULTI"), "OK");
        for command in [format!("INCR {a}"), format!("DEL {b}"), format!("GET {c}")] {
            assert_eq!(call(&mut client, &command), "QUEUED");
        }
        assert_eq!(call(&mut client, "EXEC"), "[2 1 nil]");
        assert_eq!(call(&mut client, &format!("DEL {a}")), "1");
    }
}

#[test]
fn transfers_between_primaries_survive_the_death_of_one() {
    const FLAGS: &str = "--cluster-node-timeout 8000 --cluster-copies 2 --appendonly yes";
    let [founder, second, mut third, cache] = members(FLAGS);
    let all = [&founder, &second, &third];
    let keys = all.into_iter().flat_map(|primary| own_keys(primary, 3)).collect();
    let bank = Bank::open(&mut founder.connect(), keys);
    let sockets = [founder.socket(), second.socket(), third.socket(), cache.socket()];
    std::thread::scope(|scope| {
        for (number, socket) in sockets.iter().enumerate() {
            let bank = &bank;
            scope.spawn(move || bank.work(socket, 100 * number));
        }
        bank.await_more(200);
        third.signal(libc::SIGKILL);
        third.exit_code();
        bank.await_more(200);
        bank.close();
    });
    let third = start(third.into_scratch(), &format!("{} {FLAGS}", join(&founder)));
    eventually("each member has its share", || have_shares(&[&founder, &second, &third], 2));
    [&founder, &second, &third, &cache].into_iter().for_each(|server| bank.check(server));
}

/// Increments all keys in one transaction. None if the connection has ended.
fn count_up(client: &mut Client, keys: &[String]) -> Option<Value> {
    client.send(&["MULTI"]);
    keys.iter().for_each(|key| client.send(&["INCR", key]));
    client.send(&["EXEC"]);
    let mut replies = (0..keys.len() + 2).map(|_| client.receive());
    replies.by_ref().take(keys.len() + 1).try_for_each(|reply| reply.map(drop))?;
    replies.next()?
}

#[test]
fn a_transaction_survives_its_primary_whole_or_not_at_all() {
    const FLAGS: &str = "--cluster-node-timeout 8000 --cluster-copies 2 --appendonly yes";
    let [founder, second, mut third, cache] = members(FLAGS);
    // Its slots have different backups.
    let keys = own_keys(&third, 12);
    let (is_over, done, unknown) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let count = |server: &Server| {
        let mut client = server.connect();
        while !is_over.load(SeqCst) {
            match count_up(&mut client, &keys) {
                Some(Value::Array(_)) => drop(done.fetch_add(1, SeqCst)),
                // It was not executed.
                Some(Value::Error(text)) if !text.windows(7).any(|word| word == b"UNKNOWN") => {}
                reply => {
                    unknown.fetch_add(1, SeqCst);
                    if reply.is_none() {
                        return;
                    }
                }
            }
        }
    };
    let socket = third.socket();
    std::thread::scope(|scope| {
        for server in [&founder, &second, &cache] {
            scope.spawn(|| count(server));
        }
        // Its clients find it gone.
        scope.spawn(|| {
            let mut client = Client::unix(&socket).unwrap();
            while let Some(reply) = count_up(&mut client, &keys) {
                if matches!(reply, Value::Array(_)) {
                    done.fetch_add(1, SeqCst);
                }
            }
            unknown.fetch_add(1, SeqCst);
        });
        eventually("transactions are executed", || done.load(SeqCst) > 200);
        third.signal(libc::SIGKILL);
        third.exit_code();
        let mut client = founder.connect();
        eventually("others serve its slots", || {
            keys.iter().all(|key| call(&mut client, &format!("EXPIRE {key} 100000")) == "1")
        });
        is_over.store(true, SeqCst);
    });
    let third = start(third.into_scratch(), &format!("{} {FLAGS}", join(&founder)));
    eventually("each member has its share", || have_shares(&[&founder, &second, &third], 2));
    for server in [&founder, &second, &third, &cache] {
        let mut client = server.connect();
        let values: Vec<String> =
            keys.iter().map(|key| call(&mut client, &format!("GET {key}"))).collect();
        assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        let (value, least) = (values[0].parse::<u64>().unwrap(), done.load(SeqCst));
        let most = least + unknown.load(SeqCst);
        assert!((least..=most).contains(&value), "{value}, {least} to {most} were executed");
    }
}
