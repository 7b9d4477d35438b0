//! Compares hashes with a map of the standard library, across the sizes at which they change their
//! form, while time passes.

mod drawn;
mod holding;

use drawn::{Drawn, drawn, numbers};
use holding::{apply_held, locked};
use petrel_keyspace::{
    DbStats, Effect, FieldExpiry, Handle, HashRef, Keyspace, Options, Value, WrongType,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ENTRIES: usize = 20;
const VALUE: usize = 30;
const START_MS: i64 = 1_000_000;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

#[derive(Clone, Debug)]
enum Op {
    Set(Vec<(Drawn, Drawn)>, Expiry),
    /// Sets many fields at once.
    Fill(u16, Expiry),
    Remove(Vec<Drawn>),
    Expire(Drawn, Option<i64>),
    ExpireMany(u16, i64),
    Advance(i64),
    DropExpired(Vec<Drawn>),
    DropSome,
    Sweep,
    Copy,
    ExpireKey(i64),
    Delete,
}

/// Expiries from the present time on.
#[derive(Clone, Copy, Debug)]
enum Expiry {
    Clear,
    Keep,
    In(i64),
}

impl Expiry {
    fn at(self, now: i64) -> FieldExpiry {
        match self {
            Expiry::Clear => FieldExpiry::Clear,
            Expiry::Keep => FieldExpiry::Keep,
            Expiry::In(millis) => FieldExpiry::At(now + millis),
        }
    }
}

fn text() -> impl Strategy<Value = Drawn> {
    drawn([3, 6, 1], 9, 30)
}

fn expiry() -> impl Strategy<Value = Expiry> {
    prop_oneof![
        3 => Just(Expiry::Clear),
        2 => Just(Expiry::Keep),
        2 => (1i64..3_000).prop_map(Expiry::In)
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let pairs = prop::collection::vec((text(), text()), 1..6);
    prop_oneof![
        10 => (pairs, expiry()).prop_map(|(pairs, expiry)| Op::Set(pairs, expiry)),
        1 => (1u16..400, expiry()).prop_map(|(n, expiry)| Op::Fill(n, expiry)),
        4 => prop::collection::vec(text(), 1..6).prop_map(Op::Remove),
        4 => (text(), prop_oneof![1 => Just(None), 3 => (1i64..3_000).prop_map(Some)])
            .prop_map(|(name, at)| Op::Expire(name, at)),
        2 => (0u16..400, 1i64..3_000).prop_map(|(n, at)| Op::ExpireMany(n, at)),
        3 => (0i64..1_000).prop_map(Op::Advance),
        1 => prop::collection::vec(text(), 1..6).prop_map(Op::DropExpired),
        1 => Just(Op::DropSome),
        2 => Just(Op::Sweep),
        1 => Just(Op::Copy),
        1 => (1i64..3_000).prop_map(Op::ExpireKey),
        1 => Just(Op::Delete),
    ]
}

fn keyspace() -> Arc<Keyspace> {
    let keyspace = Keyspace::new(&Options { stripes: 4, ..Options::default() });
    keyspace.limits().set_hash_max_listpack_entries(ENTRIES as i64);
    keyspace.limits().set_hash_max_listpack_value(VALUE as i64);
    keyspace
}

fn set(handle: &mut Handle, pairs: &[(Vec<u8>, Vec<u8>)], expiry: FieldExpiry) -> usize {
    let flat: Vec<&[u8]> = pairs.iter().flat_map(|(name, value)| [&name[..], &value[..]]).collect();
    locked(handle, b"h", |handle, key| handle.hash_set(0, key, &flat, expiry)).unwrap()
}

/// State of the test besides the expected fields.
struct World {
    handle: Handle,
    follower: Arc<Mutex<Handle>>,
    model: Model,
    key_expiry: Option<i64>,
}

impl World {
    fn new(keyspace: &Arc<Keyspace>, followed: &Arc<Keyspace>) -> Self {
        let mut handle = keyspace.attach();
        handle.set_clock(START_MS);
        let mut follower = followed.attach();
        follower.set_clock(START_MS);
        let follower = Arc::new(Mutex::new(follower));
        let sink = follower.clone();
        handle.set_sink(Some(Box::new(move |db, effect: &Effect<'_>| {
            let mut follower = sink.lock().unwrap();
            apply_held(&mut follower, db, effect);
        })));
        World { handle, follower, model: Model::new(), key_expiry: None }
    }

    fn set(&mut self, pairs: &[(Vec<u8>, Vec<u8>)], expiry: FieldExpiry) {
        let mut new = 0;
        for (name, value) in pairs {
            let old = self.model.get(name).map(|(_, expiry)| *expiry);
            new += usize::from(old.is_none());
            let expiry = match expiry {
                FieldExpiry::Clear => None,
                FieldExpiry::Keep => old.flatten(),
                FieldExpiry::At(at) => Some(at),
            };
            self.model.insert(name.clone(), (value.clone(), expiry));
        }
        assert_eq!(set(&mut self.handle, pairs, expiry), new);
    }

    fn expire(&mut self, name: &[u8], at: Option<i64>) {
        let expected = match self.model.get_mut(name) {
            Some((_, expiry)) => {
                *expiry = at;
                true
            }
            None => false,
        };
        let set =
            locked(&mut self.handle, b"h", |handle, key| handle.hash_set_expiry(0, key, name, at));
        assert_eq!(set, Ok(expected));
    }

    fn apply(&mut self, op: &Op) {
        let now = self.handle.now_ms();
        match op {
            Op::Set(pairs, expiry) => {
                let pairs: Vec<_> =
                    pairs.iter().map(|(name, value)| (name.bytes(), value.bytes())).collect();
                self.set(&pairs, expiry.at(now));
            }
            Op::Fill(n, expiry) => {
                let pairs: Vec<_> = (0..*n)
                    .map(|n| (format!("f{n}").into_bytes(), n.to_string().into_bytes()))
                    .collect();
                self.set(&pairs, expiry.at(now));
            }
            Op::Remove(names) => {
                let names: Vec<Vec<u8>> = names.iter().map(Drawn::bytes).collect();
                let gone: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
                let removed =
                    locked(&mut self.handle, b"h", |handle, key| handle.hash_remove(0, key, &gone));
                let model = &mut self.model;
                let expected = names.iter().filter(|name| model.remove(&name[..]).is_some());
                // Expired fields count until they are removed.
                assert!(removed.is_ok_and(|removed| removed >= expected.count()));
            }
            Op::Expire(name, at) => self.expire(&name.bytes(), at.map(|at| now + at)),
            Op::ExpireMany(n, at) => {
                for i in 0..*n {
                    self.expire(format!("f{i}").as_bytes(), Some(now + at + i64::from(i)));
                }
            }
            Op::Advance(millis) => {
                let now = now + millis;
                self.handle.set_clock(now);
                self.follower.lock().unwrap().set_clock(now);
                self.model.retain(|_, (_, expiry)| expiry.is_none_or(|at| at > now));
                if self.key_expiry.is_some_and(|at| at <= now) {
                    self.model.clear();
                }
            }
            Op::DropExpired(names) => {
                let names: Vec<Vec<u8>> = names.iter().map(Drawn::bytes).collect();
                let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
                locked(&mut self.handle, b"h", |handle, key| {
                    handle.hash_drop_expired(0, key, &names);
                });
            }
            Op::DropSome => {
                locked(&mut self.handle, b"h", |handle, key| handle.hash_drop_some_expired(0, key));
            }
            Op::Sweep => {
                self.handle.enter();
                // Each step may stop in the middle of a stripe.
                for _ in 0..20 {
                    self.handle.expire_step(Duration::from_secs(9));
                }
                self.handle.exit();
            }
            Op::Copy => {
                let keys = [self.handle.key(b"h"), self.handle.key(b"copy")];
                self.handle.enter();
                self.handle.lock_many(keys.iter().map(|key| key.hash));
                let [from, to] = keys;
                for (from, to) in [(from, to), (to, from)] {
                    self.handle.copy(0, from, 0, to);
                    self.handle.remove(0, from);
                }
                self.handle.unlock();
                self.handle.exit();
            }
            Op::ExpireKey(at) => {
                let at = Some(now + at);
                if locked(&mut self.handle, b"h", |handle, key| handle.set_expiry(0, key, at)) {
                    self.key_expiry = at;
                }
            }
            Op::Delete => {
                locked(&mut self.handle, b"h", |handle, key| handle.remove(0, key));
                self.model.clear();
            }
        }
        if locked(&mut self.handle, b"h", |handle, key| handle.view(0, key).is_none()) {
            self.key_expiry = None;
        }
    }
}

/// All reads of a hash agree with the model.
fn check_hash(hash: HashRef<'_>, model: &Model) {
    let read = |field: petrel_keyspace::Field<'_>| {
        let (mut name, mut value) = (itoa::Buffer::new(), itoa::Buffer::new());
        (
            field.name.bytes(&mut name).to_vec(),
            (field.value.bytes(&mut value).to_vec(), field.expiry),
        )
    };
    let mut fields = Vec::new();
    hash.each(&mut |field| fields.push(read(field)));
    assert_eq!((fields.len(), hash.alive()), (model.len(), model.len()));
    assert_eq!(hash.has_expired(), hash.len() > model.len());
    assert!(!hash.is_empty());
    assert_eq!(&fields.into_iter().collect::<Model>(), model);
    for (name, expected) in model.iter().step_by(5) {
        assert_eq!(hash.get(name).map(read), Some((name.clone(), expected.clone())));
    }
    assert!(hash.get(b"stranger").is_none());
    let mut random = numbers();
    let drawn = hash.random(&mut random).map(|field| read(field).0);
    assert_eq!(drawn.is_some_and(|name| model.contains_key(&name)), !model.is_empty());
    let mut drawn = 0;
    hash.draw(9, &mut random, &mut |field| {
        assert!(model.contains_key(&read(field).0));
        drawn += 1;
    });
    assert_eq!(drawn, if model.is_empty() { 0 } else { 9 });
    for count in [0, 1, model.len() / 5, model.len() / 2, usize::MAX] {
        let mut sample = BTreeSet::new();
        hash.sample(count, &mut random, &mut |field| {
            let (name, value) = read(field);
            assert_eq!(model.get(&name), Some(&value));
            assert!(sample.insert(name));
        });
        assert_eq!(sample.len(), count.min(model.len()));
    }
    let (mut cursor, mut seen) = (0, Model::new());
    loop {
        cursor = hash.scan(cursor, 10, &mut |field| seen.extend([read(field)]));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(&seen, model);
}

fn check(handle: &mut Handle, model: &Model) {
    let now = handle.now_ms();
    locked(handle, b"h", |handle, key| match handle.view(0, key) {
        Some(view) => {
            check_hash(view.hash(now).unwrap(), model);
            let small = model.len() <= ENTRIES
                && model.iter().all(|(name, (value, _))| name.len().max(value.len()) <= VALUE);
            match view.encoding() {
                "listpackex" => assert!(small),
                "listpack" => {
                    assert!(small && model.values().all(|(_, expiry)| expiry.is_none()));
                }
                other => assert_eq!(other, "hashtable"),
            }
        }
        None => assert!(model.is_empty(), "{model:?}"),
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn behaves_as_a_map(ops in prop::collection::vec(op(), 1..60)) {
        let (keyspace, followed) = (keyspace(), keyspace());
        let mut world = World::new(&keyspace, &followed);
        for op in &ops {
            world.apply(op);
            check(&mut world.handle, &world.model);
        }
        check(&mut world.follower.lock().unwrap(), &world.model);
        locked(&mut world.handle, b"h", |handle, key| handle.remove(0, key));
        let stats = keyspace.stats();
        prop_assert_eq!(stats.used, stats.tables);
        prop_assert_eq!(keyspace.db_stats(0), DbStats::default());
    }
}

#[test]
fn fields_are_removed_when_their_time_has_passed() {
    let keyspace = keyspace();
    for fields in [3, 2_000] {
        let mut handle = keyspace.attach();
        handle.set_clock(START_MS);
        let pairs: Vec<_> =
            (0..fields).map(|n| (format!("f{n}").into_bytes(), vec![b'v'])).collect();
        set(&mut handle, &pairs, FieldExpiry::At(START_MS + 1_000));
        set(&mut handle, &[(b"last".to_vec(), vec![b'v'])], FieldExpiry::At(START_MS + 2_000));
        assert_eq!(keyspace.db_stats(0), DbStats { keys: 1, volatile: 0, expiring: 1 });
        let before = keyspace.stats();
        let sweep = |handle: &mut Handle, now| {
            handle.set_clock(now);
            handle.enter();
            for _ in 0..fields {
                handle.expire_step(Duration::from_secs(9));
            }
            handle.exit();
        };
        sweep(&mut handle, START_MS + 999);
        assert_eq!(keyspace.stats(), before);
        sweep(&mut handle, START_MS + 1_000);
        let after = keyspace.stats();
        assert_eq!(after.expired_fields - before.expired_fields, fields);
        assert!(after.used < before.used);
        assert_eq!(keyspace.db_stats(0).keys, 1);
        sweep(&mut handle, START_MS + 2_000);
        assert_eq!(keyspace.db_stats(0), DbStats::default());
        assert_eq!(keyspace.stats().expired_fields - before.expired_fields, fields + 1);
        assert_eq!(keyspace.stats().expired, 0);
    }
}

#[test]
fn what_expires_later_is_not_forgotten() {
    let keyspace = keyspace();
    let mut handle = keyspace.attach();
    handle.set_clock(START_MS);
    for at in [50, 10, 30, 20, 40] {
        let name = format!("f{at}").into_bytes();
        set(&mut handle, &[(name, b"v".to_vec())], FieldExpiry::At(START_MS + at));
    }
    for now in 1..=50 {
        handle.set_clock(START_MS + now);
        handle.enter();
        handle.expire_step(Duration::from_secs(9));
        handle.exit();
        assert_eq!(keyspace.stats().expired_fields, now as u64 / 10);
    }
    assert_eq!(keyspace.db_stats(0), DbStats::default());
}

#[test]
fn other_types_are_left_alone() {
    let keyspace = keyspace();
    let mut handle = keyspace.attach();
    locked(&mut handle, b"h", |handle, key| {
        handle.put(0, key, Value::Bytes(b"text"), None);
        assert_eq!(handle.hash_set(0, key, &[b"f", b"v"], FieldExpiry::Clear), Err(WrongType));
        assert_eq!(handle.hash_remove(0, key, &[b"f"]), Err(WrongType));
        assert_eq!(handle.hash_set_expiry(0, key, b"f", None), Err(WrongType));
        assert!(handle.view(0, key).is_some_and(|view| view.hash(0).is_err()));
    });
}

#[test]
fn what_is_nominally_a_listpack_keeps_the_order_of_its_fields() {
    let keyspace = keyspace();
    keyspace.limits().set_hash_max_listpack_entries(300);
    keyspace.limits().set_hash_max_listpack_value(200);
    let mut handle = keyspace.attach();
    handle.set_clock(START_MS);
    let (mut random, mut model) = (numbers(), Vec::<(Vec<u8>, Vec<u8>)>::new());
    for step in 0..3_000 {
        let name = format!("field:{}", random() % 300).into_bytes();
        let at = model.iter().position(|(known, _)| *known == name);
        match random() % 8 {
            0 | 1 if at.is_some() => {
                let fields = [&name[..]];
                locked(&mut handle, b"h", |handle, key| handle.hash_remove(0, key, &fields))
                    .unwrap();
                model.remove(at.unwrap());
            }
            2 => {
                let expiry = (random() % 2 == 0).then_some(START_MS + 1_000);
                locked(&mut handle, b"h", |handle, key| {
                    handle.hash_set_expiry(0, key, &name, expiry)
                })
                .unwrap();
            }
            _ => {
                let value = vec![b'a' + (step % 26) as u8; 1 + random() as usize % 200];
                let pairs = [(name, value)];
                set(&mut handle, &pairs, FieldExpiry::Keep);
                let [(name, value)] = pairs;
                match at {
                    Some(at) => model[at].1 = value,
                    None => model.push((name, value)),
                }
            }
        }
        if step % 50 == 0 {
            let (from, to) = (handle.key(b"h"), handle.key(b"copy"));
            handle.enter();
            handle.lock_many([from.hash, to.hash].into_iter());
            handle.copy(0, from, 0, to);
            handle.unlock();
            handle.exit();
        }
        let key: &[u8] = if step % 50 == 0 { b"copy" } else { b"h" };
        locked(&mut handle, key, |handle, key| {
            let Some(view) = handle.view(0, key) else { return assert!(model.is_empty()) };
            let hash = view.hash(START_MS).unwrap();
            let (mut seen, mut scanned) = (Vec::new(), Vec::new());
            hash.each(&mut |field| seen.push(text(&field.name)));
            assert_eq!(hash.scan(0, 1, &mut |field| scanned.push(text(&field.name))), 0);
            let names: Vec<Vec<u8>> = model.iter().map(|(name, _)| name.clone()).collect();
            assert_eq!((&seen, &scanned), (&names, &names));
        });
    }
    assert!(model.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > 8_192);
    for key in [b"h", &b"copy"[..]] {
        locked(&mut handle, key, |handle, key| handle.remove(0, key));
    }
    let stats = keyspace.stats();
    assert_eq!(stats.used, stats.tables);

    fn text(item: &petrel_keyspace::packed::Item<'_>) -> Vec<u8> {
        item.bytes(&mut itoa::Buffer::new()).to_vec()
    }
}
