//! Memory is released after deletes, and expired keys are removed by the sweep.
#![cfg(not(feature = "system-heap"))]

use petrel_keyspace::types::list::End;
use petrel_keyspace::{FieldExpiry, Handle, Key, Keyspace, Options, Value};
use std::time::{Duration, Instant};

const KEYS: usize = 300_000;
/// An expiry in the future.
const FAR: i64 = 1 << 45;

fn fill(handle: &mut Handle, expiry: impl Fn(usize) -> Option<i64>) {
    for i in 0..KEYS {
        let key = format!("key:{i:012}");
        handle.store(0, key.as_bytes(), Value::Bytes(&[b'v'; 100]), expiry(i)).unwrap();
    }
}

/// Ticks until `done`, or fails after some seconds.
fn tick_until(handle: &mut Handle, done: impl Fn(&Handle) -> bool) {
    let start = Instant::now();
    while !done(handle) {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            handle.keyspace().heap().stats()
        );
        handle.tick(Duration::from_millis(2));
    }
}

#[test]
fn memory_comes_back_after_most_keys_were_deleted() {
    let keyspace = Keyspace::new(&Options { databases: 2, stripes: 1024, seed: 9 });
    let mut handle = keyspace.attach();
    fill(&mut handle, |_| None);
    let tables = keyspace.stats().tables;
    for i in (0..KEYS).filter(|i| i % 10 != 0) {
        assert!(handle.delete(0, format!("key:{i:012}").as_bytes()));
    }
    assert!(keyspace.stats().tables < tables / 5, "tables shrink with their keys");
    tick_until(&mut handle, |handle| {
        let heap = handle.keyspace().heap().stats();
        (heap.slab_bytes - heap.retained_bytes) * 10 <= heap.live_bytes * 13
    });
    for i in (0..KEYS).filter(|i| i % 10 == 0) {
        let value = handle.load(0, format!("key:{i:012}").as_bytes());
        assert_eq!(value.as_deref(), Some(&[b'v'; 100][..]));
    }
}

#[test]
fn large_collections_are_moved_too() {
    // Large enough that one half-empty slab per block size is little beside the rest.
    const MEMBERS: usize = KEYS / 2;
    let keyspace = Keyspace::new(&Options { databases: 1, stripes: 64, seed: 9 });
    let mut handle = keyspace.attach();
    let member = |i: usize| format!("member:{i:012}").into_bytes();
    let locked = |handle: &mut Handle, name: &str, work: &mut dyn FnMut(&mut Handle, Key<'_>)| {
        let key = handle.key(name.as_bytes());
        handle.enter();
        handle.lock(key.hash);
        work(handle, key);
        handle.unlock();
        handle.exit();
    };
    for i in 0..MEMBERS {
        locked(&mut handle, "set", &mut |handle, key| {
            handle.set_add(0, key, &[&member(i)]).unwrap();
        });
        locked(&mut handle, "zset", &mut |handle, key| {
            let score = (i % 1000) as f64;
            handle.sorted_set_change(0, key, &member(i), score, |_| Some(score)).unwrap();
        });
        locked(&mut handle, "hash", &mut |handle, key| {
            let expiry = match i % 3 {
                0 => FieldExpiry::Clear,
                _ => FieldExpiry::At(FAR + i as i64),
            };
            handle.hash_set(0, key, &[&member(i), b"value"], expiry).unwrap();
        });
        locked(&mut handle, "list", &mut |handle, key| {
            handle.list_push(0, key, End::Back, &[&member(i)]).unwrap();
        });
    }
    for i in (0..MEMBERS).filter(|i| i % 10 != 0) {
        locked(&mut handle, "set", &mut |handle, key| {
            handle.set_remove(0, key, &[&member(i)]).unwrap();
        });
        locked(&mut handle, "zset", &mut |handle, key| {
            handle.sorted_set_remove(0, key, &member(i)).unwrap();
        });
        locked(&mut handle, "hash", &mut |handle, key| {
            handle.hash_remove(0, key, &[&member(i)]).unwrap();
        });
    }
    let used = keyspace.stats().used;
    tick_until(&mut handle, |handle| {
        let heap = handle.keyspace().heap().stats();
        (heap.slab_bytes - heap.retained_bytes) * 10 <= heap.live_bytes * 13
    });
    assert!(keyspace.stats().used.abs_diff(used) < used / 20);
    locked(&mut handle, "set", &mut |handle, key| {
        let view = handle.read(0, key).unwrap();
        let set = view.set().unwrap();
        assert!((0..MEMBERS).all(|i| set.contains(&member(i)) == (i % 10 == 0)));
    });
    locked(&mut handle, "zset", &mut |handle, key| {
        let view = handle.read(0, key).unwrap();
        let set = view.sorted_set().unwrap();
        assert_eq!(set.len(), MEMBERS / 10);
    });
    locked(&mut handle, "hash", &mut |handle, key| {
        let now = handle.now_ms();
        for i in (0..MEMBERS).step_by(10) {
            let name = member(i);
            let view = handle.read(0, key).unwrap();
            let field = view.hash(now).unwrap().get(&name).unwrap();
            assert_eq!(field.expiry, (i % 3 > 0).then_some(FAR + i as i64));
            assert_eq!(handle.hash_set_expiry(0, key, &name, None), Ok(true));
        }
        assert_eq!(handle.keyspace().db_stats(0).expiring, 0);
    });
}

#[test]
fn another_thread_gives_back_what_it_caches() {
    let keyspace = Keyspace::new(&Options { databases: 1, stripes: 1024, seed: 9 });
    let mut handle = keyspace.attach();
    let mut other = keyspace.attach();
    fill(&mut handle, |_| None);
    for i in (0..KEYS).filter(|i| i % 10 != 0) {
        assert!(other.delete(0, format!("key:{i:012}").as_bytes()));
    }
    // Blocks in a thread's cache keep their slabs: both threads return them at their ticks, as
    // workers do.
    let start = Instant::now();
    loop {
        handle.tick(Duration::from_millis(2));
        other.tick(Duration::from_millis(2));
        let heap = keyspace.heap().stats();
        if (heap.slab_bytes - heap.retained_bytes) * 10 <= heap.live_bytes * 13 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{heap:?}");
    }
    assert!(keyspace.heap().stats().cached_bytes < 64 << 10);
}

#[test]
fn expired_keys_go_without_being_asked_for() {
    let keyspace = Keyspace::new(&Options { databases: 2, stripes: 256, seed: 9 });
    let mut handle = keyspace.attach();
    let soon = handle.now_ms() + 1;
    fill(&mut handle, |i| match i % 3 {
        0 => None,
        1 => Some(soon),
        _ => Some(i64::MAX),
    });
    std::thread::sleep(Duration::from_millis(2));
    tick_until(&mut handle, |handle| handle.keyspace().db_stats(0).keys == KEYS as u64 * 2 / 3);
    let stats = keyspace.db_stats(0);
    assert_eq!((stats.keys, stats.volatile), (KEYS as u64 * 2 / 3, KEYS as u64 / 3));
}

#[test]
fn a_step_ends_when_its_time_is_up() {
    let keyspace = Keyspace::new(&Options { databases: 1, stripes: 16, seed: 9 });
    let mut handle = keyspace.attach();
    handle.set_clock(1);
    let soon = handle.now_ms() + 1;
    fill(&mut handle, |_| Some(soon + 3_600_000_000_000));
    handle.set_clock(i64::MAX);
    handle.enter();
    let swept = handle.expire_step(Duration::from_micros(200));
    handle.exit();
    assert!(swept.expired > 0 && swept.expired < KEYS / 2, "{swept:?}");
}
