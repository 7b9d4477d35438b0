//! An image shows every key as it was at one moment, whatever happens while it is taken.

use petrel_keyspace::types::list::End;
use petrel_keyspace::{
    Cursor, FieldExpiry, Handle, ImageKey, ImagePlace, ImageSink, Keyspace, Options, Value, View,
};
use petrel_persistence::rdb::Dialect;
use petrel_persistence::value;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const FAR: i64 = 1 << 50;
const KEYS: u64 = 200;
const DATABASES: u16 = 2;

/// Database and name of each key, with its payload and expiry.
type Contents = BTreeMap<(u16, Vec<u8>), (Vec<u8>, Option<i64>)>;

fn keyspace(stripes: usize) -> Arc<Keyspace> {
    Keyspace::new(&Options { databases: DATABASES, stripes, ..Options::default() })
}

/// A key's value, in an order that does not depend on the places of its elements.
fn shown(view: View<'_>, now: i64) -> (Vec<u8>, Option<i64>) {
    let mut payload = value::dump(view, now, Dialect::Redis).unwrap();
    payload.truncate(payload.len() - 8);
    payload.sort_unstable();
    (payload, view.expiry())
}

fn contents(ks: &mut Handle) -> Contents {
    let mut contents = Contents::new();
    let now = ks.now_ms();
    for db in 0..DATABASES {
        let mut cursor = Cursor::default();
        loop {
            cursor = ks.scan(db, cursor, 100, |view| {
                contents.insert((db, view.key().to_vec()), shown(view, now));
            });
            if cursor == Cursor::default() {
                break;
            }
        }
    }
    contents
}

/// Collects the emitted entries.
#[derive(Default)]
struct Collected(Mutex<Contents>);

impl ImageSink for Collected {
    fn key(&self, key: ImageKey<'_>, now_ms: i64) {
        let name = (key.db, key.view.key().to_vec());
        assert!(key.portions.is_none(), "nothing here is large");
        let before = self.0.lock().unwrap().insert(name, shown(key.view, now_ms));
        assert!(before.is_none(), "a key was handed out twice");
    }
}

/// Goes through an image; `between` runs between any two holds.
fn walk(ks: &mut Handle, sink: &impl ImageSink, mut between: impl FnMut(&mut Handle)) {
    let now = ks.now_ms();
    let mut take = |key: ImageKey<'_>| {
        sink.key(key, now);
        ControlFlow::Continue(())
    };
    for stripe in 0..ks.keyspace().stripes() {
        let mut place = Some(ImagePlace::stripe(stripe));
        while let Some(at) = place {
            between(ks);
            place = ks.continue_image(at, &mut take);
        }
    }
    while !ks.end_image() {
        while ks.continue_cleared(&mut take) {
            between(ks);
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Changes something.
fn change(ks: &mut Handle, random: &mut Random) {
    let db = random.below(2) as u16;
    let names = [random.below(KEYS), random.below(KEYS)].map(|i| format!("key:{i}"));
    let [key, other] = [ks.key(names[0].as_bytes()), ks.key(names[1].as_bytes())];
    match random.below(300) {
        0..3 => {
            ks.lock_all();
            ks.swap(0, 1);
            return ks.unlock();
        }
        3 => {
            ks.lock_all();
            let cleared = ks.clear((random.below(2) == 0).then_some(db));
            ks.unlock();
            return drop(cleared);
        }
        _ => {}
    }
    ks.lock_many([key.hash, other.hash].into_iter());
    let text = random.below(1 << 40).to_string();
    let (element, member) = (text.as_bytes(), [b'a' + random.below(20) as u8]);
    let filler = vec![b'x'; random.below(3000) as usize];
    // A key of another type answers that it is; nothing changes then.
    match random.below(16) {
        0 => drop(ks.put(db, key, Value::Bytes(&filler), None)),
        1 => drop(ks.put(db, key, Value::Int(7), Some(FAR))),
        2 => drop(ks.add(db, key, 3)),
        3 => drop(ks.append(db, key, element)),
        4 => drop(ks.remove(db, key)),
        5 => drop(ks.set_expiry(db, key, Some(FAR + random.below(100) as i64))),
        6 => drop(ks.rename(db, key, db, other)),
        7 => drop(ks.copy(db, key, 1 - db, other)),
        8 => drop(ks.list_push(db, key, End::Back, &[element, &filler])),
        9 => {
            if let Ok(Some(mut list)) = ks.list_mut(db, key) {
                list.set(0, element);
                list.pop(End::Back, 1, |_| ());
            }
        }
        10 => drop(ks.set_add(db, key, &[&member, element])),
        11 => drop(ks.set_remove(db, key, &[&member])),
        12 => drop(ks.hash_set(db, key, &[&member, element], FieldExpiry::Clear)),
        13 => drop(ks.hash_remove(db, key, &[&member])),
        14 => {
            let _ =
                ks.sorted_set_change(db, key, &member, 2.5, |old| Some(old.unwrap_or(0.0) + 1.5));
        }
        _ => {
            let _ = ks.sorted_set_remove(db, key, &member);
        }
    }
    ks.unlock();
}

#[test]
fn an_image_shows_one_moment_whatever_changes_meanwhile() {
    for seed in 1..24 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let mut ks = keyspace(16).attach();
        ks.enter();
        // Several images of one keyspace, so that stamps of either kind are there before.
        for _ in 0..4 {
            (0..600).for_each(|_| change(&mut ks, &mut random));
            let before = contents(&mut ks);
            let sink = Arc::new(Collected::default());
            assert!(ks.begin_image(sink.clone(), |_| ()));
            assert!(!ks.begin_image(Arc::new(Collected::default()), |_| ()), "one at a time");
            walk(&mut ks, &*sink, |ks| {
                (0..random.below(12)).for_each(|_| change(ks, &mut random));
            });
            (0..100).for_each(|_| change(&mut ks, &mut random));
            let image = sink.0.lock().unwrap();
            let differs = before.iter().find(|(name, value)| image.get(name) != Some(value));
            assert!(
                differs.is_none(),
                "seed {seed}: {differs:?} is {:?}",
                image.get(differs.unwrap().0)
            );
            assert_eq!(image.len(), before.len(), "seed {seed}");
        }
        ks.exit();
    }
}

#[test]
fn what_is_flushed_meanwhile_is_in_the_image() {
    let mut ks = keyspace(16).attach();
    let mut random = Random(99);
    ks.enter();
    for db in [Some(0), Some(1), None] {
        (0..500).for_each(|_| change(&mut ks, &mut random));
        let (before, sink) = (contents(&mut ks), Arc::new(Collected::default()));
        ks.begin_image(sink.clone(), |_| ());
        let mut holds = 0;
        walk(&mut ks, &*sink, |ks| {
            holds += 1;
            if holds == 9 {
                ks.lock_all();
                drop(ks.clear(db));
                ks.swap(0, 1);
                ks.unlock();
            }
        });
        assert!(*sink.0.lock().unwrap() == before);
        assert!(before.keys().any(|(db, _)| *db == 0) && contents(&mut ks).len() < before.len());
    }
    ks.exit();
}

/// Sums the integers that it is handed.
#[derive(Default)]
struct Sum(Mutex<(usize, i64)>);

impl ImageSink for Sum {
    fn key(&self, key: ImageKey<'_>, _: i64) {
        let Ok(petrel_keyspace::StrRef::Int(n)) = key.view.string() else { panic!("an integer") };
        let mut sum = self.0.lock().unwrap();
        *sum = (sum.0 + 1, sum.1 + n);
    }
}

#[test]
fn transfers_between_keys_are_whole_in_every_image() {
    const ACCOUNTS: u64 = 500;
    const EACH: i64 = 1000;
    let keyspace = keyspace(64);
    let account = |i: u64| format!("account:{i}");
    let mut ks = keyspace.attach();
    ks.enter();
    for i in 0..ACCOUNTS {
        let name = account(i);
        let key = ks.key(name.as_bytes());
        ks.lock(key.hash);
        ks.put(0, key, Value::Int(EACH), None);
        ks.unlock();
    }
    ks.exit();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 1..4 {
            let (keyspace, done) = (&keyspace, &done);
            scope.spawn(move || {
                let (mut ks, mut random) = (keyspace.attach(), Random(seed * 77_777));
                while !done.load(Relaxed) {
                    ks.enter();
                    for _ in 0..50 {
                        let names = [random.below(ACCOUNTS), random.below(ACCOUNTS)].map(account);
                        let [from, to] = [0, 1].map(|i| ks.key(names[i].as_bytes()));
                        ks.lock_many([from.hash, to.hash].into_iter());
                        ks.add(0, from, -5).unwrap();
                        ks.add(0, to, 5).unwrap();
                        ks.unlock();
                    }
                    ks.exit();
                }
            });
        }
        for _ in 0..30 {
            let sink = Arc::new(Sum::default());
            ks.enter();
            assert!(ks.begin_image(sink.clone(), |_| ()));
            walk(&mut ks, &*sink, |ks| {
                ks.exit();
                ks.enter();
            });
            ks.exit();
            assert_eq!(*sink.0.lock().unwrap(), (ACCOUNTS as usize, ACCOUNTS as i64 * EACH));
        }
        done.store(true, Relaxed);
    });
}
