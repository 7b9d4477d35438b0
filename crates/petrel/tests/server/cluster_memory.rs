//! `maxmemory` of the owners of a slot: what one of them cannot hold, its primary refuses or evicts.

use crate::cluster::{FOUND, await_service, call, join, scratch, start};
use crate::cluster_failures::await_whole;
use crate::harness::{Client, Server, eventually};

/// A busy machine may not run a member for a while.
const CALM: &str = "--cluster-node-timeout 20000";

/// Memory for data that a member has beside what it uses without.
const ROOM: u64 = 1 << 20;

/// Bytes of a value.
const VALUE: usize = 1000;

/// Two members that own every slot together.
fn pair() -> (Server, Server) {
    let one = start(scratch("secret"), &format!("{FOUND} {CALM}"));
    await_service(&one);
    let other = start(scratch("secret"), &format!("{} {CALM}", join(&one)));
    await_service(&other);
    await_whole(&one);
    (one, other)
}

fn info(client: &mut Client, section: &str, name: &str) -> u64 {
    let info = call(client, &format!("INFO {section}"));
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {info}")).trim().parse().unwrap()
}

/// Limits a server to a little more memory than it uses; returns the limit.
fn limit(client: &mut Client) -> u64 {
    let limit = info(client, "memory", "used_memory") + ROOM;
    assert_eq!(call(client, &format!("CONFIG SET maxmemory {limit}")), "OK");
    limit
}

/// Writes keys with these numbers; returns the replies other than `OK`.
fn write(client: &mut Client, numbers: std::ops::Range<usize>) -> Vec<String> {
    let value = "x".repeat(VALUE);
    let set = |number| call(client, &format!("SET key{number} {value}"));
    numbers.map(set).filter(|reply| reply != "OK").collect()
}

#[test]
fn what_a_backup_cannot_hold_is_refused_by_the_primary() {
    let (one, other) = pair();
    let (mut here, mut full) = (one.connect(), other.connect());
    let limit = limit(&mut full);
    // Three times as much as fits, from the member that has no limit.
    let refused = write(&mut here, 0..3 * ROOM as usize / VALUE);
    assert!(refused.iter().all(|reply| reply.starts_with("OOM ")), "{:?}", refused.first());
    assert!(refused.len() > ROOM as usize / VALUE, "{} were refused", refused.len());
    let used = info(&mut full, "memory", "used_memory");
    assert!(used <= limit + limit / 16, "{used} of {limit}");
    assert_eq!(info(&mut full, "stats", "evicted_keys"), 0);
    // In a transaction and a script, too; what needs no memory goes on.
    assert_eq!(call(&mut here, "GET key0").len(), VALUE);
    call(&mut here, "MULTI");
    let queued: Vec<String> =
        (0..20).map(|number| call(&mut here, &format!("SET {{t{number}}} 1"))).collect();
    assert!(queued.iter().any(|reply| reply.starts_with("OOM ")), "{queued:?}");
    call(&mut here, "DISCARD");
    let script = "return redis.call('SET', KEYS[1], 1)";
    let mut run = |number| here.text(&["EVAL", script, "1", &format!("s{number}")]);
    let scripts: Vec<String> = (0..20).map(&mut run).collect();
    assert!(scripts.iter().any(|reply| reply.contains("OOM")), "{scripts:?}");
    for number in 0..ROOM as usize / VALUE / 2 {
        call(&mut here, &format!("DEL key{number}"));
    }
    eventually("there is room again", || write(&mut here, 0..100).is_empty());
    // A higher limit is announced although nothing is written.
    let refused = write(&mut here, 100..3 * ROOM as usize / VALUE);
    assert!(!refused.is_empty());
    assert_eq!(call(&mut full, "CONFIG SET maxmemory 0"), "OK");
    eventually("there is no limit", || write(&mut here, 0..100).is_empty());
    assert_eq!(write(&mut here, 0..1000), [""; 0]);
}

#[test]
fn primaries_evict_for_a_backup_as_much_as_it_does_itself() {
    let (one, other) = pair();
    let (mut here, mut full) = (one.connect(), other.connect());
    for client in [&mut here, &mut full] {
        assert_eq!(call(client, "CONFIG SET maxmemory-policy allkeys-lru"), "OK");
    }
    let limit = limit(&mut full);
    assert_eq!(write(&mut here, 0..4 * ROOM as usize / VALUE), [""; 0]);
    let used = info(&mut full, "memory", "used_memory");
    assert!(used <= limit + limit / 16, "{used} of {limit}");
    let evicted = [&mut here, &mut full].map(|client| info(client, "stats", "evicted_keys"));
    let all: u64 = evicted.iter().sum();
    assert!(evicted.iter().all(|evicted| *evicted > all / 5), "{evicted:?}");
}
