//! Compares sorted sets with a map that is sorted on demand, across the sizes at which they change
//! their form.

mod drawn;
mod holding;

use drawn::{Drawn, drawn};
use holding::{follow, locked};
use petrel_keyspace::types::sorted_set::{Part, ScoreChange, SortedSetRef, order};
use petrel_keyspace::{Handle, Keyspace, Options, Type, Value, WrongType};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

const ENTRIES_MAX: usize = 20;
const VALUE_MAX: usize = 30;

#[derive(Clone, Debug)]
enum Op {
    Put(Drawn, f64),
    /// Adds many at once, in ascending order.
    Fill(u16, f64),
    Add(Drawn, f64),
    Remove(Drawn),
    RemoveRange(u16, u16),
    Store(Vec<(Drawn, f64)>),
    /// Does nothing to a key that exists.
    Create(Vec<(Drawn, f64)>),
    Copy,
    Delete,
}

fn member() -> impl Strategy<Value = Drawn> {
    drawn([2, 6, 1], 70, 80)
}

fn score() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => (-9i32..9).prop_map(f64::from),
        2 => prop_oneof![-(1i64 << 54)..1 << 54, -300_000i64..300_000].prop_map(|n| n as f64),
        2 => -1e3..1e3,
        1 => prop_oneof![Just(-0.0), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(5e-324)],
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (member(), score()).prop_map(|(member, score)| Op::Put(member, score)),
        1 => (1u16..300, score()).prop_map(|(n, score)| Op::Fill(n, score)),
        4 => (member(), -3.0..3.0).prop_map(|(member, delta)| Op::Add(member, delta)),
        4 => member().prop_map(Op::Remove),
        2 => (any::<u16>(), 0u16..40).prop_map(|(from, len)| Op::RemoveRange(from, len)),
        1 => (any::<u16>(), 0u16..2_000).prop_map(|(from, len)| Op::RemoveRange(from, len)),
        1 => prop::collection::vec((member(), score()), 0..60).prop_map(Op::Store),
        2 => prop::collection::vec((member(), score()), 0..60).prop_map(Op::Create),
        1 => Just(Op::Copy),
        1 => Just(Op::Delete),
    ]
}

fn keyspace() -> Arc<Keyspace> {
    let keyspace = Keyspace::new(&Options::default());
    keyspace.limits().set_zset_max_listpack_entries(ENTRIES_MAX as i64);
    keyspace.limits().set_zset_max_listpack_value(VALUE_MAX as i64);
    keyspace
}

fn with_set<T>(handle: &mut Handle, read: impl FnOnce(Option<SortedSetRef<'_>>) -> T) -> T {
    locked(handle, b"z", |handle, key| {
        read(handle.view(0, key).map(|view| view.sorted_set().expect("a sorted set")))
    })
}

type Pairs = Vec<(Vec<u8>, f64)>;

/// Members in order, read forwards.
fn contents(handle: &mut Handle) -> Pairs {
    with_set(handle, |set| {
        let mut pairs = Vec::new();
        if let Some(set) = set {
            set.each(0..usize::MAX, |member, score| {
                pairs.push((member.bytes(&mut itoa::Buffer::new()).to_vec(), score));
            });
        }
        pairs
    })
}

#[derive(Default)]
struct Model {
    scores: HashMap<Vec<u8>, f64>,
    beyond: bool,
}

impl Model {
    fn put(&mut self, member: Vec<u8>, score: f64) -> ScoreChange {
        let len = member.len();
        let old = self.scores.get(&member).copied();
        if old != Some(score) {
            self.scores.insert(member, score);
        }
        if self.scores.len() == 1 && old.is_none() {
            self.beyond = false;
        }
        self.beyond |= old.is_none() && (self.scores.len() > ENTRIES_MAX || len > VALUE_MAX);
        ScoreChange { old, new: Some(score) }
    }

    fn sorted(&self) -> Pairs {
        let mut pairs: Pairs = self.scores.clone().into_iter().collect();
        pairs.sort_by(|a, b| order((&a.0, a.1), (&b.0, b.1)));
        pairs
    }
}

fn put(handle: &mut Handle, member: &[u8], score: f64) -> ScoreChange {
    let change = locked(handle, b"z", |handle, key| {
        handle.sorted_set_change(0, key, member, score, |_| Some(score))
    });
    change.expect("a sorted set")
}

fn apply(handle: &mut Handle, model: &mut Model, op: &Op) {
    match op {
        Op::Put(member, score) => {
            let member = member.bytes();
            assert_eq!(put(handle, &member, *score), model.put(member, *score));
        }
        Op::Fill(n, first) => {
            for n in 0..*n {
                let (member, score) = (format!("f{n:04}").into_bytes(), first + f64::from(n));
                assert_eq!(put(handle, &member, score), model.put(member, score));
            }
        }
        Op::Add(member, delta) => {
            let member = member.bytes();
            let change = locked(handle, b"z", |handle, key| {
                handle.sorted_set_change(0, key, &member, 1.0, |old| old.map(|old| old + delta))
            });
            let old = model.scores.get(&member).copied();
            let expected = match old {
                Some(old) => model.put(member, old + delta),
                None => ScoreChange::default(),
            };
            assert_eq!(change, Ok(expected));
        }
        Op::Remove(member) => {
            let member = member.bytes();
            let old = locked(handle, b"z", |handle, key| handle.sorted_set_remove(0, key, &member));
            assert_eq!(old, Ok(model.scores.remove(&member)));
        }
        Op::RemoveRange(from, len) => {
            let sorted = model.sorted();
            let from = usize::from(*from) % (sorted.len() + 1);
            let to = (from + usize::from(*len)).min(sorted.len());
            sorted[from..to].iter().for_each(|(member, _)| {
                model.scores.remove(member);
            });
            let removed = locked(handle, b"z", |handle, key| {
                handle.sorted_set_remove_range(0, key, from..to)
            });
            assert_eq!(removed, Ok(()));
        }
        Op::Store(pairs) => {
            let existed = !model.scores.is_empty();
            *model = Model::default();
            let pairs: HashMap<Vec<u8>, f64> =
                pairs.iter().map(|(member, score)| (member.bytes(), *score)).collect();
            let mut members: Vec<(f64, &[u8])> =
                pairs.iter().map(|(member, score)| (*score, &member[..])).collect();
            let stored =
                locked(handle, b"z", |handle, key| handle.sorted_set_store(0, key, &mut members));
            assert_eq!(stored, existed || !pairs.is_empty());
            pairs.into_iter().for_each(|(member, score)| {
                model.put(member, score);
            });
        }
        Op::Create(pairs) => {
            let pairs: Vec<(Vec<u8>, f64)> =
                pairs.iter().map(|(member, score)| (member.bytes(), *score)).collect();
            let distinct: HashSet<&[u8]> = pairs.iter().map(|(member, _)| &member[..]).collect();
            let mut members: Vec<(f64, &[u8])> =
                pairs.iter().map(|(member, score)| (*score, &member[..])).collect();
            let created =
                locked(handle, b"z", |handle, key| handle.sorted_set_create(0, key, &mut members));
            let possible = !pairs.is_empty() && distinct.len() == pairs.len();
            assert_eq!(created, model.scores.is_empty() && possible);
            if created {
                *model = Model::default();
                pairs.into_iter().for_each(|(member, score)| {
                    model.put(member, score);
                });
            }
        }
        Op::Copy => {
            // Copied to another key and back, so that the test continues with the copy.
            let keys = [handle.key(b"z"), handle.key(b"copy")];
            handle.enter();
            handle.lock_many(keys.iter().map(|key| key.hash));
            let [from, to] = keys;
            for (from, to) in [(from, to), (to, from)] {
                handle.copy(0, from, 0, to);
                handle.remove(0, from);
            }
            handle.unlock();
            handle.exit();
        }
        Op::Delete => {
            locked(handle, b"z", |handle, key| handle.remove(0, key));
            *model = Model::default();
        }
    }
}

/// All reads agree with the model.
fn check_reads(handle: &mut Handle, model: &Model) {
    let sorted = model.sorted();
    with_set(handle, |set| {
        let Some(set) = set else { return assert!(sorted.is_empty()) };
        assert_eq!(set.len(), sorted.len());
        let mut seen = Vec::new();
        let mut cursor = 0;
        loop {
            cursor = set.scan(cursor, 10, |member, score| {
                seen.push((member.bytes(&mut itoa::Buffer::new()).to_vec(), score));
            });
            if cursor == 0 {
                break;
            }
        }
        seen.sort_by(|a, b| order((&a.0, a.1), (&b.0, b.1)));
        assert_eq!(seen, sorted);
        for (rank, (member, score)) in sorted.iter().enumerate().step_by(7) {
            assert_eq!(set.rank(member), Some((rank, *score)));
            assert_eq!(set.score(member), Some(*score));
            let read = set
                .get(rank)
                .map(|(member, score)| (member.bytes(&mut itoa::Buffer::new()).to_vec(), score));
            assert_eq!(read, Some((member.clone(), *score)));
            let below = sorted.iter().filter(|pair| pair.1 < *score).count();
            assert_eq!(set.count(|other, _| other < *score), below);
            let ranks = rank / 2..rank + 1;
            let mut back = Vec::new();
            set.run(ranks.clone()).each_back(|member, score| {
                back.push((member.bytes(&mut itoa::Buffer::new()).to_vec(), score));
            });
            assert!(back.iter().eq(sorted[ranks].iter().rev()));
            let above = sorted.iter().filter(|pair| pair.1 <= *score + 5.0).count();
            for (skip, take, from_end) in [(0, usize::MAX, false), (1, 3, false), (2, 90, true)] {
                let part = Part { skip, take, from_end };
                let run = set.run_within(|s, _| s < *score, |s, _| s <= *score + 5.0, part);
                assert_eq!(run.len(), part.of(below..above).len());
                let members = run.into_iter().map(|(_, score)| score);
                let expected = &sorted[part.of(below..above)];
                assert!(members.eq(expected.iter().map(|pair| pair.1)));
            }
        }
        assert_eq!(set.score(b"stranger"), None);
    });
    let encoding = locked(handle, b"z", |handle, key| handle.view(0, key).map(|v| v.encoding()));
    let expected = if model.beyond { "skiplist" } else { "listpack" };
    assert_eq!(encoding, (!sorted.is_empty()).then_some(expected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn behaves_as_a_sorted_map(ops in prop::collection::vec(op(), 1..60)) {
        let (keyspace, followed) = (keyspace(), keyspace());
        let mut handle = keyspace.attach();
        let follower = Arc::new(Mutex::new(followed.attach()));
        follow(&mut handle, follower.clone());
        let mut model = Model::default();
        for op in &ops {
            apply(&mut handle, &mut model, op);
            check_reads(&mut handle, &model);
        }
        let contents_now = contents(&mut handle);
        prop_assert_eq!(&contents_now, &model.sorted());
        prop_assert_eq!(&contents_now, &contents(&mut follower.lock().unwrap()));
        locked(&mut handle, b"z", |handle, key| handle.remove(0, key));
        let stats = keyspace.stats();
        prop_assert_eq!(stats.used, stats.tables);
    }
}

#[test]
fn other_types_are_left_alone() {
    let keyspace = keyspace();
    let mut handle = keyspace.attach();
    locked(&mut handle, b"z", |handle, key| {
        handle.put(0, key, Value::Bytes(b"text"), None);
        assert_eq!(handle.sorted_set_change(0, key, b"m", 1.0, |_| Some(1.0)), Err(WrongType));
        assert_eq!(handle.sorted_set_remove(0, key, b"m"), Err(WrongType));
        assert_eq!(handle.sorted_set_remove_range(0, key, 0..1), Err(WrongType));
        assert_eq!(handle.view(0, key).map(|view| view.type_of()), Some(Type::String));
    });
}
