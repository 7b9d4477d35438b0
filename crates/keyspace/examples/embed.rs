//! The keyspace embedded in another program: no server, no sockets.
//!
//! ```text
//! cargo run -p petrel-keyspace --example embed
//! ```

use petrel_keyspace::{
    Cursor, Effect, Keyspace, Options, OutOfMemory, Policy, Removal, StrRef, Update, Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Keys live in numbered databases; a program that needs one takes the first.
const DB: u16 = 0;

fn main() -> Result<(), OutOfMemory> {
    let keyspace = Keyspace::new(&Options::default());
    // A handle is a thread's access to the keyspace. Each thread attaches its own.
    let mut handle = keyspace.attach();

    // Setting, reading, removing.
    let existed = handle.store(DB, b"user:1", Value::Bytes(b"ada"), None)?;
    assert!(!existed);
    assert_eq!(handle.load(DB, b"user:1").as_deref(), Some(&b"ada"[..]));
    assert!(handle.delete(DB, b"user:1"));
    assert_eq!(handle.load(DB, b"user:1"), None);

    // Reading in place, without a copy, while the key's stripe is locked.
    handle.store(DB, b"page", Value::Bytes(&[b'x'; 3000]), None)?;
    assert_eq!(
        handle.load_with(DB, b"page", |page| page.string().map(|text| text.len())),
        Some(Ok(3000))
    );

    // Reads and writes in one step: a counter shared by threads.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| count_visits(&keyspace));
        }
    });
    assert_eq!(handle.load(DB, b"visits").as_deref(), Some(&b"4000"[..]));

    // A key with an expiry in Unix milliseconds.
    let now = handle.now_ms();
    handle.store(DB, b"session", Value::Bytes(b"secret"), Some(now + 60_000))?;
    assert!(handle.expire_at(DB, b"session", Some(now - 1)));
    assert_eq!(handle.load(DB, b"session"), None);

    // Scans all keys in small steps, so that other threads do not wait long.
    let mut names = Vec::new();
    let mut cursor = Cursor::default();
    loop {
        cursor = handle.walk(DB, cursor, 100, |view| names.push(view.key().to_vec()));
        if cursor == Cursor::default() {
            break;
        }
    }
    names.sort();
    assert_eq!(names, [&b"page"[..], b"visits"]);

    let evicted = fill_a_small_cache()?;
    println!("10000 keys set, {evicted} of them evicted");
    Ok(())
}

fn count_visits(keyspace: &Arc<Keyspace>) {
    let mut handle = keyspace.attach();
    for _ in 0..1000 {
        let counted = handle.update(DB, b"visits", |view| {
            let visits = match view.and_then(|view| view.string().ok()) {
                Some(StrRef::Int(visits)) => visits,
                _ => 0,
            };
            Update::Put(Value::Int(visits + 1), None)
        });
        counted.expect("there is no memory limit");
    }
    // Periodic upkeep: expired keys are removed, memory is released.
    handle.tick(std::time::Duration::from_millis(1));
}

/// A cache of one megabyte. A consumer of effects receives every change made by its thread,
/// including evictions.
fn fill_a_small_cache() -> Result<usize, OutOfMemory> {
    let cache = Keyspace::new(&Options { databases: 1, stripes: 64, ..Options::default() });
    cache.set_memory_limit(1 << 20, Policy::AllKeysS3Fifo);
    let mut handle = cache.attach();
    let evicted = Arc::new(AtomicUsize::new(0));
    let counter = evicted.clone();
    handle.set_sink(Some(Box::new(move |_db: u16, effect: &Effect<'_>| {
        if let Effect::Remove { why: Removal::Evicted, .. } = effect {
            counter.fetch_add(1, Relaxed);
        }
    })));
    for i in 0..10_000 {
        handle.store(DB, format!("key:{i}").as_bytes(), Value::Bytes(&[b'v'; 200]), None)?;
    }
    assert!(cache.stats().used <= (1 << 20) * 101 / 100);
    Ok(evicted.load(Relaxed))
}
