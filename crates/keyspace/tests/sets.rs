//! Compares sets with a set of the standard library, across the sizes at which they change their
//! form.

mod drawn;
mod holding;

use drawn::{Drawn, drawn, numbers};
use holding::{follow, locked_together};
use petrel_keyspace::packed::Item;
use petrel_keyspace::{Handle, Keyspace, Options, SetOperation, SetRef, Value, WrongType};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const INTSET_ENTRIES: usize = 40;
const LISTPACK_ENTRIES: usize = 20;
const LISTPACK_VALUE: usize = 30;

type Model = [BTreeSet<Vec<u8>>; KEYS.len()];

const KEYS: [&[u8]; 3] = [b"s", b"t", b"u"];

#[derive(Clone, Debug)]
enum Op {
    Add(usize, Vec<Drawn>),
    /// Adds many at once: integers, or text.
    Fill(usize, u16, bool),
    Remove(usize, Vec<Drawn>),
    Pop(usize, u16),
    Store(usize, Combination, Vec<usize>),
    Delete(usize),
}

#[derive(Clone, Copy, Debug)]
enum Combination {
    Union,
    Intersection,
    Difference,
}

impl Combination {
    fn operation(self) -> SetOperation {
        match self {
            Combination::Union => SetOperation::Union,
            Combination::Intersection => SetOperation::Intersection,
            Combination::Difference => SetOperation::Difference,
        }
    }

    fn of(self, model: &Model, keys: &[usize]) -> BTreeSet<Vec<u8>> {
        let sets = keys.iter().map(|&key| model[key].clone());
        let combined = match self {
            Combination::Union => sets.reduce(|a, b| &a | &b),
            Combination::Intersection => sets.reduce(|a, b| &a & &b),
            Combination::Difference => sets.reduce(|a, b| &a - &b),
        };
        combined.unwrap_or_default()
    }
}

fn member() -> impl Strategy<Value = Drawn> {
    drawn([6, 3, 1], 40, 40)
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..KEYS.len();
    let members = || prop::collection::vec(member(), 1..8);
    let combination = prop_oneof![
        Just(Combination::Union),
        Just(Combination::Intersection),
        Just(Combination::Difference)
    ];
    prop_oneof![
        8 => (key(), members()).prop_map(|(key, members)| Op::Add(key, members)),
        2 => (key(), 1u16..900, any::<bool>()).prop_map(|(key, n, ints)| Op::Fill(key, n, ints)),
        4 => (key(), members()).prop_map(|(key, members)| Op::Remove(key, members)),
        2 => (key(), 0u16..9).prop_map(|(key, n)| Op::Pop(key, n)),
        1 => (key(), 0u16..999).prop_map(|(key, n)| Op::Pop(key, n)),
        2 => (key(), combination, prop::collection::vec(key(), 1..4))
            .prop_map(|(key, how, sources)| Op::Store(key, how, sources)),
        1 => key().prop_map(Op::Delete),
    ]
}

fn keyspace() -> Arc<Keyspace> {
    let keyspace = Keyspace::new(&Options::default());
    keyspace.limits().set_set_max_intset_entries(INTSET_ENTRIES as i64);
    keyspace.limits().set_set_max_listpack_entries(LISTPACK_ENTRIES as i64);
    keyspace.limits().set_set_max_listpack_value(LISTPACK_VALUE as i64);
    keyspace
}

fn text(item: Item<'_>) -> Vec<u8> {
    item.bytes(&mut itoa::Buffer::new()).to_vec()
}

fn add(handle: &mut Handle, key: usize, members: &[Vec<u8>]) -> usize {
    let members: Vec<&[u8]> = members.iter().map(|member| &member[..]).collect();
    locked_together(handle, &[KEYS[key]], |handle, keys| handle.set_add(0, keys[0], &members))
        .unwrap()
}

fn apply(handle: &mut Handle, model: &mut Model, op: &Op) {
    match op {
        Op::Add(key, members) => {
            let members: Vec<Vec<u8>> = members.iter().map(Drawn::bytes).collect();
            let before = model[*key].len();
            let added = add(handle, *key, &members);
            model[*key].extend(members);
            assert_eq!(added, model[*key].len() - before);
        }
        Op::Fill(key, n, ints) => {
            let names =
                (0..*n).map(|n| if *ints { format!("{}", 100 + n) } else { format!("f{n}") });
            let members: Vec<Vec<u8>> = names.map(String::into_bytes).collect();
            add(handle, *key, &members);
            model[*key].extend(members);
        }
        Op::Remove(key, members) => {
            let members: Vec<Vec<u8>> = members.iter().map(Drawn::bytes).collect();
            let gone: Vec<&[u8]> = members.iter().map(|member| &member[..]).collect();
            let removed = locked_together(handle, &[KEYS[*key]], |handle, keys| {
                handle.set_remove(0, keys[0], &gone)
            });
            let expected = members.iter().filter(|member| model[*key].remove(&member[..])).count();
            assert_eq!(removed, Ok(expected));
        }
        Op::Pop(key, count) => {
            let (mut popped, mut random) = (Vec::new(), numbers());
            locked_together(handle, &[KEYS[*key]], |handle, keys| {
                handle.set_pop(0, keys[0], usize::from(*count), &mut random, &mut |member| {
                    popped.push(member.to_vec());
                })
            })
            .unwrap();
            assert_eq!(popped.len(), model[*key].len().min(usize::from(*count)));
            assert!(popped.iter().all(|member| model[*key].remove(member)));
        }
        Op::Store(key, how, sources) => {
            let mut names = vec![KEYS[*key]];
            names.extend(sources.iter().map(|&source| KEYS[source]));
            let stored = locked_together(handle, &names, |handle, keys| {
                handle.set_store(0, keys[0], how.operation(), &keys[1..], &mut |_| true)
            });
            model[*key] = how.of(model, sources);
            assert_eq!(stored, Ok(Some(model[*key].len())));
        }
        Op::Delete(key) => {
            locked_together(handle, &[KEYS[*key]], |handle, keys| handle.remove(0, keys[0]));
            model[*key].clear();
        }
    }
}

/// All reads of a set agree with the model.
fn check_set(set: SetRef<'_>, model: &BTreeSet<Vec<u8>>, encoding: &str) {
    let mut members = Vec::new();
    set.each(&mut |member| members.push(text(member)));
    assert_eq!(members.len(), model.len());
    assert_eq!(&members.iter().cloned().collect::<BTreeSet<_>>(), model);
    assert_eq!((set.len(), set.is_empty()), (model.len(), false));
    assert!(model.iter().step_by(5).all(|member| set.contains(member)));
    assert!(!set.contains(b"stranger") && !set.contains(b"-777") && !set.contains(b"0100"));
    let mut random = numbers();
    assert!(set.random(&mut random).is_some_and(|member| model.contains(&text(member))));
    for count in [0, 1, model.len() / 5, model.len() / 2, model.len(), usize::MAX] {
        let mut sample = Vec::new();
        set.sample(count, &mut random, &mut |member| sample.push(text(member)));
        assert_eq!(sample.len(), count.min(model.len()));
        let distinct: BTreeSet<_> = sample.iter().cloned().collect();
        assert!(distinct.len() == sample.len() && distinct.is_subset(model));
    }
    let (mut cursor, mut seen) = (0, BTreeSet::new());
    loop {
        cursor = set.scan(cursor, 10, &mut |member| {
            seen.insert(text(member));
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(&seen, model);
    let ints = model
        .iter()
        .all(|member| std::str::from_utf8(member).is_ok_and(|text| text.parse::<i64>().is_ok()));
    match encoding {
        "intset" => {
            assert!(ints && model.len() <= INTSET_ENTRIES);
            let numbers = members
                .iter()
                .map(|member| String::from_utf8_lossy(member).parse::<i64>().unwrap());
            assert!(numbers.is_sorted());
        }
        "listpack" => {
            assert!(model.len() <= LISTPACK_ENTRIES);
            assert!(model.iter().all(|member| member.len() <= LISTPACK_VALUE));
        }
        other => assert_eq!(other, "hashtable"),
    }
}

fn check(handle: &mut Handle, model: &Model) {
    for (name, model) in KEYS.iter().zip(model) {
        locked_together(handle, &[name], |handle, keys| match handle.view(0, keys[0]) {
            Some(view) => check_set(view.set().unwrap(), model, view.encoding()),
            None => assert!(model.is_empty()),
        });
    }
    let all = [0, 1, 2];
    for how in [Combination::Union, Combination::Intersection, Combination::Difference] {
        let expected = how.of(model, &all);
        locked_together(handle, &KEYS, |handle, keys| {
            let (members, _) = handle.set_combine(0, how.operation(), keys, &mut |_| true).unwrap();
            assert_eq!(members.len(), expected.len());
            assert_eq!(members.into_iter().map(text).collect::<BTreeSet<_>>(), expected);
            for limit in [1, 3, usize::MAX] {
                let counted = handle.set_count(0, how.operation(), keys, limit, &mut |_| true);
                assert_eq!(counted, Ok(expected.len().min(limit)));
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn behaves_as_a_set(ops in prop::collection::vec(op(), 1..50)) {
        let (keyspace, followed) = (keyspace(), keyspace());
        let mut handle = keyspace.attach();
        let follower = Arc::new(Mutex::new(followed.attach()));
        follow(&mut handle, follower.clone());
        let mut model = Model::default();
        for op in &ops {
            apply(&mut handle, &mut model, op);
            check(&mut handle, &model);
        }
        check(&mut follower.lock().unwrap(), &model);
        for name in KEYS {
            locked_together(&mut handle, &[name], |handle, keys| handle.remove(0, keys[0]));
        }
        let stats = keyspace.stats();
        prop_assert_eq!(stats.used, stats.tables);
    }
}

#[test]
fn encodings_follow_the_thresholds() {
    let keyspace = Keyspace::new(&Options::default());
    let mut handle = keyspace.attach();
    let encoding = |handle: &mut Handle| {
        locked_together(handle, &[KEYS[0]], |handle, keys| {
            handle.view(0, keys[0]).map(|view| view.encoding())
        })
    };
    let ints = |range: std::ops::Range<i64>| -> Vec<Vec<u8>> {
        range.map(|n| n.to_string().into_bytes()).collect()
    };
    let texts =
        |n: usize| -> Vec<Vec<u8>> { (0..n).map(|n| format!("m{n}").into_bytes()).collect() };
    let fresh = |handle: &mut Handle, members: &[Vec<u8>]| {
        locked_together(handle, &[KEYS[0]], |handle, keys| handle.remove(0, keys[0]));
        add(handle, 0, members);
    };
    fresh(&mut handle, &ints(0..512));
    assert_eq!(encoding(&mut handle), Some("intset"));
    add(&mut handle, 0, &ints(512..513));
    assert_eq!(encoding(&mut handle), Some("hashtable"));
    fresh(&mut handle, &ints(0..513));
    assert_eq!(encoding(&mut handle), Some("hashtable"));
    fresh(&mut handle, &ints(0..127));
    add(&mut handle, 0, &texts(1));
    assert_eq!(encoding(&mut handle), Some("listpack"));
    fresh(&mut handle, &ints(0..128));
    add(&mut handle, 0, &texts(1));
    assert_eq!(encoding(&mut handle), Some("hashtable"));
    fresh(&mut handle, &texts(128));
    assert_eq!(encoding(&mut handle), Some("listpack"));
    add(&mut handle, 0, &texts(129));
    assert_eq!(encoding(&mut handle), Some("hashtable"));
    fresh(&mut handle, &[vec![b'x'; 64]]);
    assert_eq!(encoding(&mut handle), Some("listpack"));
    add(&mut handle, 0, &[vec![b'y'; 65]]);
    assert_eq!(encoding(&mut handle), Some("hashtable"));
    fresh(&mut handle, &vec![b"7".to_vec(); 513]);
    assert_eq!(encoding(&mut handle), Some("hashtable"));
}

#[test]
fn other_types_are_left_alone() {
    let keyspace = keyspace();
    let mut handle = keyspace.attach();
    locked_together(&mut handle, &KEYS, |handle, keys| {
        handle.put(0, keys[0], Value::Bytes(b"text"), None);
        assert_eq!(handle.set_add(0, keys[0], &[b"m"]), Err(WrongType));
        assert_eq!(handle.set_remove(0, keys[0], &[b"m"]), Err(WrongType));
        assert_eq!(handle.set_pop(0, keys[0], 1, &mut || 0, &mut |_| {}), Err(WrongType));
        for how in [SetOperation::Union, SetOperation::Intersection, SetOperation::Difference] {
            assert_eq!(handle.set_store(0, keys[1], how, keys, &mut |_| true), Err(WrongType));
            assert_eq!(handle.set_count(0, how, keys, 9, &mut |_| true), Err(WrongType));
        }
    });
}
