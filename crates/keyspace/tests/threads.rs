//! Several threads at once: lookups while tables grow and shrink under them, complete scans, and
//! counters that add up afterwards.

use petrel_keyspace::{Cursor, Handle, Keyspace, Options, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const RUN: Duration = Duration::from_millis(600);

/// A linear congruential generator: threads need different keys, not good randomness.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn keyspace(stripes: usize) -> Arc<Keyspace> {
    Keyspace::new(&Options { databases: 2, stripes, seed: 7 })
}

/// A batch of commands as a worker runs it: first prefetched, then executed.
fn batch(handle: &mut Handle, draws: &mut Draws, keys: u64, growing: bool) {
    let names: Vec<Vec<u8>> =
        (0..16).map(|_| format!("key:{}", draws.below(keys)).into_bytes()).collect();
    handle.enter();
    let peek = handle.peeker().expect("a thread that has entered is inside");
    names.iter().for_each(|name| peek.prefetch_bucket(0, handle.hash(name)));
    names.iter().for_each(|name| peek.prefetch_entry(0, handle.hash(name), 2));
    for name in &names {
        let key = handle.key(name);
        handle.lock(key.hash);
        match draws.below(8) {
            0..3 => {
                if let Some(view) = handle.read(0, key) {
                    let text = view.string().unwrap().to_bytes();
                    assert!(text.starts_with(name), "a value of another key");
                }
            }
            3..6 if growing => store(handle, draws, key),
            3..6 => drop(handle.remove(0, key)),
            6 => store(handle, draws, key),
            _ => {
                let expiry = handle.now_ms() + draws.below(5) as i64;
                handle.set_expiry(0, key, Some(expiry));
            }
        }
        handle.unlock();
    }
    handle.exit();
}

fn store(handle: &mut Handle, draws: &mut Draws, key: petrel_keyspace::Key<'_>) {
    let mut text = key.bytes.to_vec();
    let len = if draws.below(500) == 0 { 20_000 } else { draws.below(300) as usize };
    text.resize(text.len() + len, b'.');
    handle.put(0, key, Value::Bytes(&text), None);
}

#[test]
fn tables_change_size_under_prefetches() {
    for stripes in [1, 4, 64] {
        let keyspace = keyspace(stripes);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let mut handle = keyspace.attach();
                scope.spawn(move || run_worker(&mut handle, thread));
            }
        });
        let mut handle = keyspace.attach();
        assert_figures(&mut handle);
        handle.flush(0);
        let stats = keyspace.stats();
        assert_eq!((stats.used, stats.tables), (0, 0));
        let heap = keyspace.heap().stats();
        assert_eq!(heap.live_bytes + heap.huge_bytes, 0);
    }
}

/// All threads grow the tables, then shrink them, repeatedly; now and then one locks the whole
/// keyspace.
fn run_worker(handle: &mut Handle, thread: u64) {
    let mut draws = Draws(thread);
    let start = Instant::now();
    let mut turn = 0u64;
    while start.elapsed() < RUN {
        handle.refresh_clock();
        let growing = (start.elapsed().as_millis() / 60).is_multiple_of(2);
        batch(handle, &mut draws, 30_000, growing);
        turn += 1;
        if turn % 50 == thread {
            handle.tick(Duration::from_micros(100));
        }
        if turn % 300 == thread {
            handle.enter();
            handle.compact_step(Duration::from_micros(200), 0);
            handle.lock_all();
            handle.swap(0, 1);
            handle.swap(0, 1);
            handle.unlock();
            handle.exit();
        }
    }
}

/// Compares the sums of all threads' counters with a scan.
fn assert_figures(handle: &mut Handle) {
    handle.set_clock(0);
    handle.enter();
    let (mut bytes, mut keys, mut volatile) = (0, 0, 0);
    let end = handle.scan(0, Cursor::default(), usize::MAX, |view| {
        bytes += view.footprint() as u64;
        keys += 1;
        volatile += u64::from(view.expiry().is_some());
    });
    handle.exit();
    assert_eq!(end, Cursor::default());
    let stats = handle.keyspace().stats();
    assert_eq!(stats.used, bytes + stats.tables);
    let db = handle.keyspace().db_stats(0);
    assert_eq!((db.keys, db.volatile), (keys, volatile));
}

#[test]
fn a_walk_sees_each_lasting_key_once_while_others_come_and_go() {
    const LASTING: usize = 3_000;
    for stripes in [1, 8] {
        let keyspace = keyspace(stripes);
        let mut handle = keyspace.attach();
        for i in 0..LASTING {
            handle.store(0, format!("lasting:{i}").as_bytes(), Value::Int(1), None).unwrap();
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (mut other, stop) = (keyspace.attach(), &stop);
            scope.spawn(move || come_and_go(&mut other, stop));
            let start = Instant::now();
            while start.elapsed() < RUN {
                assert_lasting_once(&mut handle, LASTING);
            }
            stop.store(true, Relaxed);
        });
    }
}

/// Grows the tables to many times their size and back.
fn come_and_go(handle: &mut Handle, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        for i in 0..20_000 {
            handle.store(0, format!("passing:{i}").as_bytes(), Value::Int(1), None).unwrap();
        }
        for i in 0..20_000 {
            handle.delete(0, format!("passing:{i}").as_bytes());
        }
        handle.free_retired();
    }
}

fn assert_lasting_once(handle: &mut Handle, lasting: usize) {
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut cursor = Cursor::default();
    loop {
        cursor = handle.walk(0, cursor, 50, |view| {
            if view.key().starts_with(b"lasting:") {
                *seen.entry(view.key().to_vec()).or_default() += 1;
            }
        });
        if cursor == Cursor::default() {
            break;
        }
    }
    assert_eq!(seen.len(), lasting);
    assert!(seen.values().all(|times| *times == 1));
}

/// During flushes by other threads, a thread that gives up waiting is in a batch and outside. It
/// must not peek at the removed tables, which are freed at once.
#[test]
fn nobody_peeks_from_outside() {
    let keyspace = keyspace(8);
    let mut owner = keyspace.attach();
    owner.enter();
    for n in 0..1000 {
        let name = format!("key:{n}").into_bytes();
        let key = owner.key(&name);
        owner.lock(key.hash);
        store(&mut owner, &mut Draws(n), key);
        owner.unlock();
    }
    owner.exit();
    let mut other = keyspace.attach();
    assert!(other.peeker().is_none(), "before its first batch");
    owner.enter();
    owner.lock_all();
    assert!(!other.enter_unless(|| true));
    assert!(other.is_outside() && other.peeker().is_none());
    drop(owner.clear(None));
    owner.unlock();
    owner.exit();
    assert!(other.peeker().is_none(), "it has not come inside yet");
    other.exit();
    other.enter();
    assert!(other.peeker().is_some());
    other.exit();
    assert!(other.peeker().is_none(), "after its batch");
}
