//! The memory limit under every policy: accuracy, and choice of the victims.

use petrel_keyspace::{
    Effect, Handle, Keyspace, Options, Origin, Ownership, Policy, Removal, Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const LIMIT: u64 = 4 << 20;

fn keyspace(stripes: usize) -> Arc<Keyspace> {
    Keyspace::new(&Options { databases: 4, stripes, seed: 3 })
}

/// Sets a key as a command would; false if it was rejected.
fn set(handle: &mut Handle, db: u16, key: &str, len: usize, expiry: Option<i64>) -> bool {
    let text = vec![b'v'; len];
    handle.enter();
    let fits = handle.make_room(key.len() + len + 32);
    if fits {
        let key = handle.key(key.as_bytes());
        handle.lock(key.hash);
        handle.put(db, key, Value::Bytes(&text), expiry);
        handle.unlock();
    }
    handle.exit();
    fits
}

fn get(handle: &mut Handle, key: &str) -> bool {
    let key = handle.key(key.as_bytes());
    handle.enter();
    handle.lock(key.hash);
    let found = handle.read(0, key).is_some();
    handle.unlock();
    handle.exit();
    found
}

#[test]
fn every_policy_holds_the_limit() {
    for policy in Policy::all().filter(|policy| *policy != Policy::NoEviction) {
        let keyspace = keyspace(64);
        keyspace.set_memory_limit(LIMIT, policy);
        let mut handle = keyspace.attach();
        handle.set_clock(1_000_000);
        for i in 0..60_000usize {
            handle.set_clock(1_000_000 + i as i64);
            let db = if i % 5 == 0 { 2 } else { 0 };
            let fits = set(&mut handle, db, &format!("key:{i}"), i * 7 % 900, Some(9_000_000));
            assert!(fits, "{policy:?}");
            let used = keyspace.stats().used;
            assert!(used <= LIMIT + LIMIT / 100, "{policy:?}: {used} bytes");
        }
        let stats = keyspace.stats();
        assert!(stats.used > LIMIT * 95 / 100, "{policy:?}: only {} bytes", stats.used);
        assert!(stats.evicted > 40_000);
    }
}

#[test]
fn of_few_keys_in_many_stripes_the_oldest_go() {
    let keyspace = keyspace(4096);
    keyspace.tune_policy(64, 10, 1);
    keyspace.set_memory_limit(0, Policy::AllKeysLru);
    let mut handle = keyspace.attach();
    handle.set_clock(1_000_000_000);
    for i in 0..50 {
        assert!(set(&mut handle, 0, &format!("key:{i}"), 20_000, None));
    }
    handle.set_clock(1_000_010_000);
    assert!((0..25).all(|i| get(&mut handle, &format!("key:{i}"))));
    keyspace.set_memory_limit(keyspace.stats().used - 200_000, Policy::AllKeysLru);
    for i in 0..10 {
        assert!(set(&mut handle, 0, &format!("more:{i}"), 20_000, None));
    }
    let survivors = |handle: &mut Handle, keys: std::ops::Range<usize>| {
        keys.filter(|i| get(handle, &format!("key:{i}"))).count()
    };
    assert_eq!(survivors(&mut handle, 0..25), 25);
    assert!(survivors(&mut handle, 25..50) < 10);
}

#[test]
fn what_is_only_read_grows_old_under_lrm() {
    for (policy, reads_keep) in [(Policy::AllKeysLrm, false), (Policy::AllKeysLru, true)] {
        let keyspace = keyspace(4);
        keyspace.set_memory_limit(u64::MAX, policy);
        let mut handle = keyspace.attach();
        handle.set_clock(1_000_000_000);
        for name in ["read", "set", "expires"] {
            assert!(set(&mut handle, 0, name, 10, None));
        }
        handle.set_clock(1_000_010_000);
        assert!(get(&mut handle, "read"));
        assert!(set(&mut handle, 0, "set", 10, None));
        let mut idle = |name: &str, expire: bool| {
            let key = handle.key(name.as_bytes());
            handle.enter();
            handle.lock(key.hash);
            if expire {
                handle.set_expiry(0, key, Some(2_000_000_000));
            }
            let idle = handle.idle_seconds(0, key);
            handle.unlock();
            handle.exit();
            idle
        };
        assert_eq!(idle("read", false), Some(if reads_keep { 0 } else { 10 }));
        assert_eq!(idle("set", false), Some(0));
        assert_eq!(idle("expires", true), Some(if reads_keep { 10 } else { 0 }));
    }
}

#[test]
fn threads_hold_the_limit_together() {
    let keyspace = keyspace(64);
    keyspace.set_memory_limit(LIMIT, Policy::AllKeysS3Fifo);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let keyspace = &keyspace;
            scope.spawn(move || {
                let mut handle = keyspace.attach();
                for i in 0..20_000 {
                    assert!(set(&mut handle, 0, &format!("key:{thread}:{i}"), 300, None));
                    if i % 64 == 0 {
                        let used = keyspace.stats().used;
                        assert!(used <= LIMIT + LIMIT / 100, "{used} bytes");
                    }
                }
            });
        }
    });
    assert!(keyspace.stats().used > LIMIT * 95 / 100);
}

/// Bytes of all entries.
fn entry_bytes(handle: &mut Handle, databases: u16) -> u64 {
    let mut bytes = 0;
    handle.enter();
    for db in 0..databases {
        handle.scan(db, Default::default(), usize::MAX, |view| bytes += view.footprint() as u64);
    }
    handle.exit();
    bytes
}

/// Compares the sum of all threads' counters with the entries, while no other thread is in a batch.
/// Threads that end meanwhile hand their counters over at any time.
fn assert_exact(handle: &mut Handle, policy: Policy) {
    handle.enter();
    handle.lock_all();
    let mut bytes = 0;
    for db in 0..4 {
        handle.scan(db, Default::default(), usize::MAX, |view| bytes += view.footprint() as u64);
    }
    let stats = handle.keyspace().stats();
    handle.unlock();
    handle.exit();
    assert_eq!(stats.used, stats.tables + bytes, "{policy:?}");
    assert!(stats.used <= LIMIT + LIMIT / 100, "{policy:?}: {} bytes", stats.used);
}

#[test]
fn memory_is_counted_exactly_while_threads_evict_overwrite_and_remove() {
    for policy in [
        Policy::AllKeysLru,
        Policy::AllKeysLfu,
        Policy::AllKeysS3Fifo,
        Policy::AllKeysRandom,
        Policy::VolatileTtl,
    ] {
        let keyspace = keyspace(64);
        keyspace.set_memory_limit(LIMIT, policy);
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let keyspace = &keyspace;
                scope.spawn(move || {
                    let mut handle = keyspace.attach();
                    for i in 0..6_000usize {
                        // Threads meet at the same keys.
                        let name = format!("key:{}", (i * 7 + thread) % 9_000);
                        let (db, len) = ((i % 3) as u16, i * 7_919 % 3_000);
                        assert!(set(&mut handle, db, &name, len, Some(i64::MAX - i as i64)));
                        if i % 5 == 0 {
                            let key = handle.key(name.as_bytes());
                            handle.enter();
                            handle.lock(key.hash);
                            handle.remove(db, key);
                            handle.unlock();
                            handle.exit();
                        }
                        if i % 500 == thread * 100 {
                            assert_exact(&mut handle, policy);
                        }
                    }
                });
            }
        });
        let (stats, mut handle) = (keyspace.stats(), keyspace.attach());
        assert!(stats.evicted > 1_000, "{policy:?}: {}", stats.evicted);
        assert_eq!(stats.used, stats.tables + entry_bytes(&mut handle, 4), "{policy:?}");
    }
}

#[test]
fn without_candidates_a_write_is_refused() {
    for policy in [Policy::NoEviction, Policy::VolatileLru, Policy::VolatileTtl] {
        let keyspace = keyspace(4096);
        keyspace.set_memory_limit(LIMIT, policy);
        let mut handle = keyspace.attach();
        let refused = (0..100_000).find(|i| !set(&mut handle, 0, &format!("key:{i}"), 100, None));
        let stored = refused.expect("a write beyond the limit") as u64;
        assert_eq!(keyspace.db_stats(0).keys, stored);
        let used = keyspace.stats().used;
        assert!(used <= LIMIT + LIMIT / 500 && used > LIMIT * 97 / 100, "{policy:?}: {used} bytes");
        // One more candidate, and a limit just below the memory in use.
        keyspace.set_memory_limit(0, policy);
        assert!(set(&mut handle, 3, "goes", 100, Some(i64::MAX)));
        keyspace.set_memory_limit(keyspace.stats().used - 1, policy);
        let evicts = policy != Policy::NoEviction;
        // The search for a single candidate may take several commands, which are not rejected.
        for _ in 0..if evicts { 1_000 } else { 1 } {
            let fits = set(&mut handle, 0, "key:0", 100, None);
            assert!(fits == evicts || keyspace.db_stats(3).keys == 0, "{policy:?}");
        }
        assert_eq!(keyspace.db_stats(3).keys, u64::from(!evicts));
        keyspace.set_memory_limit(0, policy);
        assert!(set(&mut handle, 0, "more", 100, None));
    }
}

#[test]
fn volatile_policies_spare_keys_without_expiry() {
    for policy in Policy::all().filter(|policy| policy.is_volatile()) {
        let keyspace = keyspace(16);
        keyspace.set_memory_limit(LIMIT, policy);
        let mut handle = keyspace.attach();
        for i in 0..2_000 {
            assert!(set(&mut handle, 0, &format!("stays:{i}"), 500, None));
        }
        for i in 0..20_000 {
            assert!(set(&mut handle, 0, &format!("goes:{i}"), 500, Some(i64::MAX - i)));
        }
        assert!((0..2_000).all(|i| get(&mut handle, &format!("stays:{i}"))), "{policy:?}");
    }
}

#[test]
fn few_volatile_keys_among_many_are_found() {
    for policy in Policy::all().filter(|policy| policy.is_volatile()) {
        let keyspace = keyspace(4096);
        keyspace.set_memory_limit(0, policy);
        let mut handle = keyspace.attach();
        handle.set_clock(1_000);
        for i in 0..20_000 {
            assert!(set(&mut handle, 0, &format!("stays:{i}"), 100, None));
        }
        let expiry = Some(i64::MAX);
        assert!(set(&mut handle, 0, "with", 100, expiry));
        assert!(set(&mut handle, 0, "later", 100, None));
        assert!(handle.expire_at(0, b"later", expiry));
        assert!(set(&mut handle, 0, "no longer", 100, expiry));
        assert!(handle.expire_at(0, b"no longer", None));
        keyspace.set_memory_limit(keyspace.stats().used - 2_000, policy);
        // The search may take several commands, which are not rejected.
        let is_refused = (0..10_000).any(|_| !set(&mut handle, 0, "stays:0", 100, None));
        assert!(is_refused, "{policy:?}");
        let left = ["with", "later", "no longer"].map(|key| get(&mut handle, key));
        assert_eq!(left, [false, false, true], "{policy:?}");
        assert_eq!(keyspace.db_stats(0).keys, 20_001);
    }
}

/// Numbers of keys left, of `groups` of 1000 each, after a memory limit with room for half.
fn survivors(policy: Policy, use_keys: impl Fn(&mut Handle, usize)) -> (usize, usize) {
    let keyspace = keyspace(16);
    keyspace.set_memory_limit(64 << 20, policy);
    let mut handle = keyspace.attach();
    handle.set_clock(0);
    for i in 0..2_000i64 {
        // The second half expires sooner.
        assert!(set(&mut handle, 0, &format!("{i}"), 400, Some((1 << 40) - i)));
    }
    for i in 0..1_000 {
        use_keys(&mut handle, i);
    }
    let limit = keyspace.stats().used / 2;
    keyspace.set_memory_limit(limit, policy);
    while keyspace.stats().used > limit {
        assert!(set(&mut handle, 1, "x", 1, None));
    }
    let mut count =
        |range: std::ops::Range<usize>| range.filter(|i| get(&mut handle, &i.to_string())).count();
    (count(0..1_000), count(1_000..2_000))
}

#[test]
fn the_better_half_stays() {
    let lru = survivors(Policy::AllKeysLru, |handle, i| {
        handle.set_clock(60_000);
        get(handle, &i.to_string());
    });
    let lfu = survivors(Policy::AllKeysLfu, |handle, i| {
        assert!((0..50).all(|_| get(handle, &i.to_string())));
    });
    let ttl = survivors(Policy::VolatileTtl, |_, _| {});
    let fifo = survivors(Policy::AllKeysS3Fifo, |handle, i| {
        get(handle, &i.to_string());
    });
    for (kept, lost) in [lru, lfu, ttl, fifo] {
        assert!(kept > 850 && lost < 150, "{lru:?} {lfu:?} {ttl:?} {fifo:?}");
    }
    let (first, second) = survivors(Policy::AllKeysRandom, |_, _| {});
    assert!(first.abs_diff(second) < 200, "{first} {second}");
}

#[test]
fn evictions_are_recorded_as_such() {
    let keyspace = keyspace(16);
    keyspace.set_memory_limit(LIMIT, Policy::AllKeysLru);
    let mut handle = keyspace.attach();
    let evicted = Arc::new(AtomicUsize::new(0));
    let count = evicted.clone();
    handle.set_sink(Some(Box::new(move |_: u16, effect: &Effect<'_>| {
        if matches!(effect, Effect::Remove { why: Removal::Evicted, .. }) {
            count.fetch_add(1, Relaxed);
        }
    })));
    for i in 0..20_000 {
        assert!(set(&mut handle, 0, &format!("key:{i}"), 400, None));
    }
    assert_eq!(evicted.load(Relaxed) as u64, keyspace.stats().evicted);
    assert_eq!(evicted.load(Relaxed) as u64, 20_000 - keyspace.db_stats(0).keys);
}

#[test]
fn a_ghost_costs_what_it_says_and_goes_with_the_keys() {
    let keyspace = keyspace(16);
    keyspace.set_memory_limit(LIMIT, Policy::AllKeysS3Fifo);
    let mut handle = keyspace.attach();
    for i in 0..30_000 {
        assert!(set(&mut handle, 0, &format!("key:{i}"), 200, None));
    }
    let bytes = entry_bytes(&mut handle, 1);
    let stats = keyspace.stats();
    assert_eq!(stats.used, stats.tables + bytes);
    handle.enter();
    handle.lock_all();
    drop(handle.clear(None));
    handle.unlock();
    handle.exit();
    let stats = keyspace.stats();
    assert_eq!((stats.used, stats.tables), (0, 0));
}

#[test]
fn idle_time_and_frequency_belong_to_their_policies() {
    let keyspace = keyspace(4);
    let mut handle = keyspace.attach();
    let mut answers = |policy: Policy| {
        keyspace.set_memory_limit(0, policy);
        handle.set_clock(10_000);
        assert!(set(&mut handle, 0, policy.name(), 1, None));
        handle.set_clock(75_000);
        let key = handle.key(policy.name().as_bytes());
        handle.enter();
        handle.lock(key.hash);
        let found = (handle.idle_seconds(0, key), handle.frequency(0, key));
        handle.unlock();
        handle.exit();
        found
    };
    assert_eq!(answers(Policy::NoEviction), (Some(65), None));
    assert_eq!(answers(Policy::VolatileTtl), (Some(65), None));
    assert_eq!(answers(Policy::AllKeysLfu), (None, Some(4)));
    assert_eq!(answers(Policy::AllKeysS3Fifo), (None, None));
}

#[test]
fn whoever_has_freed_some_is_refused_while_the_sum_is_too_much() {
    let keyspace = keyspace(64);
    let mut handle = keyspace.attach();
    for i in 0..2_000 {
        assert!(set(&mut handle, 0, &format!("key:{i}"), 1_000, None));
    }
    keyspace.set_memory_limit(1 << 20, Policy::NoEviction);
    assert!(!set(&mut handle, 0, "more", 1, None));
    for i in 0..500 {
        let key = format!("key:{i}");
        handle.enter();
        let key = handle.key(key.as_bytes());
        handle.lock(key.hash);
        handle.remove(0, key);
        handle.unlock();
        handle.exit();
    }
    assert!(keyspace.stats().used > 1 << 20);
    assert!(!set(&mut handle, 0, "more", 1, None), "it was let through for what it had freed");
}

/// Prefix of the keys that are copies.
const COPY: &str = "copy:";

struct SomeAreCopies;

impl Ownership for SomeAreCopies {
    fn is_primary(&self, key: &[u8]) -> bool {
        !self.is_copy(key)
    }

    fn copies(&self) -> Option<Origin> {
        Some(Origin(1))
    }

    fn is_copy(&self, key: &[u8]) -> bool {
        key.starts_with(COPY.as_bytes())
    }
}

#[test]
fn nothing_is_refused_and_no_own_key_goes_while_there_are_copies() {
    for policy in [Policy::NoEviction, Policy::AllKeysLru] {
        let keyspace = keyspace(64);
        assert!(keyspace.set_ownership(Arc::new(SomeAreCopies)));
        // A command stops evicting early, so that the copies are evicted over several calls.
        keyspace.set_eviction_tenacity(0);
        let mut handle = keyspace.attach();
        for i in 0..2000 {
            assert!(set(&mut handle, 0, &format!("{COPY}{i}"), 500, None));
        }
        for i in 0..1000 {
            assert!(set(&mut handle, 0, &format!("own:{i}"), 500, None));
        }
        let used = keyspace.stats().used;
        keyspace.set_memory_limit(used - 500_000, policy);
        for i in 0..200 {
            assert!(set(&mut handle, 0, &format!("more:{i}"), 500, None), "{policy:?} {i}");
        }
        assert!(keyspace.stats().used < used - 400_000, "{policy:?}");
        assert!((0..1000).all(|i| get(&mut handle, &format!("own:{i}"))), "{policy:?}");
        let copies = (0..2000).filter(|i| get(&mut handle, &format!("{COPY}{i}"))).count();
        assert!((1..1100).contains(&copies), "{policy:?}: {copies}");
    }
}

/// Keys with this prefix have an owner without memory.
const FULL: &str = "full:";

struct SomeHaveFullOwners;

impl Ownership for SomeHaveFullOwners {
    fn is_primary(&self, _: &[u8]) -> bool {
        true
    }

    fn has_full_owner(&self, key: &[u8]) -> bool {
        key.starts_with(FULL.as_bytes())
    }
}

#[test]
fn keys_of_owners_without_memory_are_evicted_for_them_and_no_others() {
    let keyspace = keyspace(64);
    assert!(keyspace.set_ownership(Arc::new(SomeHaveFullOwners)));
    let mut handle = keyspace.attach();
    for i in 0..1000 {
        assert!(set(&mut handle, 0, &format!("{FULL}{i}"), 500, None));
        assert!(set(&mut handle, 0, &format!("other:{i}"), 500, None));
    }
    handle.enter();
    assert!(!handle.make_room_at_owners(500), "nothing is evicted");
    keyspace.set_memory_limit(0, Policy::AllKeysLru);
    let used = keyspace.stats().used;
    let made = (0..100).filter(|_| handle.make_room_at_owners(500)).count();
    handle.exit();
    assert_eq!(made, 100);
    assert!(keyspace.stats().used < used - 50_000);
    assert!((0..1000).all(|i| get(&mut handle, &format!("other:{i}"))));
}
