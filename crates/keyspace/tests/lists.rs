//! Compares random changes of lists with rings of strings, across the limits of their forms and
//! encodings.

mod holding;
#[path = "drawn/text.rs"]
mod text;

use holding::locked_together;
use petrel_keyspace::types::list::{Element, End, ListMut};
use petrel_keyspace::{Cursor, Effect, Handle, Keyspace, Options, Origin, Removal};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use text::Text;

const KEYS: usize = 3;

#[derive(Clone, Debug)]
enum Op {
    Push(usize, End, Vec<Text>),
    /// Pushes many elements of one shape.
    Fill(usize, End, Text, u16),
    Pop(usize, End, usize),
    Set(usize, usize, Text),
    Insert(usize, usize, Text),
    Remove(usize, usize),
    RemoveEqual(usize, usize, End, usize),
    Trim(usize, usize, usize),
    Rename(usize, usize),
    Copy(usize, usize),
    Expire(usize),
    Limit(i64),
    Compact,
}

fn text() -> impl Strategy<Value = Text> {
    let len = prop_oneof![
        14 => 0usize..40,
        4 => 60usize..300,
        1 => 1_000usize..3_000,
        1 => 8_000usize..20_000,
    ];
    prop_oneof![
        2 => prop_oneof![any::<i64>(), -20i64..20, -5000i64..5000].prop_map(Text::Int),
        2 => any::<u16>().prop_map(Text::Alike),
        1 => (100_000i64..100_010).prop_map(Text::Int),
        3 => (b'a'..b'd', len).prop_map(|(byte, len)| Text::Repeated(byte, len)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let key = || prop_oneof![4 => Just(0usize), 1 => 0..KEYS];
    let at = || any::<u16>().prop_map(usize::from);
    let end = || prop_oneof![Just(End::Front), Just(End::Back)];
    let texts = || {
        prop_oneof![
            2 => prop::collection::vec(text(), 1..4),
            1 => prop::collection::vec(text(), 1..60),
        ]
    };
    prop_oneof![
        8 => (key(), end(), texts()).prop_map(|(key, end, texts)| Op::Push(key, end, texts)),
        2 => (key(), end(), text(), 1u16..90).prop_map(|(k, end, t, n)| Op::Fill(k, end, t, n)),
        4 => (key(), end(), 1usize..30).prop_map(|(key, end, n)| Op::Pop(key, end, n)),
        3 => (key(), at(), text()).prop_map(|(key, at, text)| Op::Set(key, at, text)),
        3 => (key(), at(), text()).prop_map(|(key, at, text)| Op::Insert(key, at, text)),
        2 => (key(), at()).prop_map(|(key, at)| Op::Remove(key, at)),
        2 => (key(), at(), end(), 1usize..9).prop_map(|(k, at, e, n)| Op::RemoveEqual(k, at, e, n)),
        2 => (key(), at(), at()).prop_map(|(key, from, len)| Op::Trim(key, from, len)),
        1 => (key(), key()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => (key(), key()).prop_map(|(from, to)| Op::Copy(from, to)),
        1 => key().prop_map(Op::Expire),
        1 => prop_oneof![Just(-2i64), Just(-1), 0i64..20].prop_map(Op::Limit),
        1 => Just(Op::Compact),
    ]
}

fn key_bytes(key: usize) -> Vec<u8> {
    format!("key:{key}").into_bytes()
}

fn bytes(element: Element<'_>) -> Vec<u8> {
    element.to_vec()
}

/// Runs a closure on a list if it exists.
fn with_list<T>(
    handle: &mut Handle,
    key: usize,
    work: impl FnOnce(&mut ListMut<'_, '_>) -> T,
) -> Option<T> {
    locked_together(handle, &[&key_bytes(key)], |handle, keys| {
        handle.list_mut(0, keys[0]).unwrap().as_mut().map(work)
    })
}

struct Pair {
    handle: Handle,
    models: [VecDeque<Vec<u8>>; KEYS],
}

impl Pair {
    fn run(&mut self, op: &Op) {
        let (handle, models) = (&mut self.handle, &mut self.models);
        match op {
            Op::Push(key, end, texts) => {
                let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.bytes()).collect();
                let elements: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
                let len = locked_together(handle, &[&key_bytes(*key)], |handle, keys| {
                    handle.list_push(0, keys[0], *end, &elements)
                });
                for text in texts {
                    match end {
                        End::Front => models[*key].push_front(text),
                        End::Back => models[*key].push_back(text),
                    }
                }
                assert_eq!(len, Ok(models[*key].len()));
            }
            Op::Fill(key, end, text, n) => {
                let texts = (0..*n).map(|at| text.alike(at)).collect();
                self.run(&Op::Push(*key, *end, texts));
            }
            Op::Pop(key, end, n) => {
                let mut popped = Vec::new();
                let count =
                    with_list(handle, *key, |list| list.pop(*end, *n, |e| popped.push(bytes(e))));
                assert_eq!(count.unwrap_or(0), popped.len());
                assert_eq!(popped.len(), models[*key].len().min(*n));
                for element in popped {
                    let expected = match end {
                        End::Front => models[*key].pop_front(),
                        End::Back => models[*key].pop_back(),
                    };
                    assert_eq!(Some(element), expected);
                }
            }
            Op::Set(key, at, text) => {
                let (at, text) = (at % (models[*key].len() + 1), text.bytes());
                with_list(handle, *key, |list| list.set(at, &text));
                if let Some(element) = models[*key].get_mut(at) {
                    *element = text;
                }
            }
            Op::Insert(key, at, text) => {
                let (at, text) = (at % (models[*key].len() + 1), text.bytes());
                if with_list(handle, *key, |list| list.insert(at, &text)).is_some() {
                    models[*key].insert(at, text);
                }
            }
            Op::Remove(key, at) => {
                let at = at % (models[*key].len() + 1);
                with_list(handle, *key, |list| list.remove(at));
                models[*key].remove(at);
            }
            Op::RemoveEqual(key, at, end, n) => {
                let at = at % models[*key].len().max(1);
                let Some(text) = models[*key].get(at).cloned() else { return };
                let count = with_list(handle, *key, |list| list.remove_equal(&text, *end, *n));
                for removed in 0..count.unwrap_or(0) {
                    let found = match end {
                        End::Front => models[*key].iter().position(|other| *other == text),
                        End::Back => models[*key].iter().rposition(|other| *other == text),
                    };
                    assert!(removed < *n);
                    models[*key].remove(found.unwrap());
                }
                assert!(count == Some(*n) || !models[*key].contains(&text));
            }
            Op::Trim(key, from, len) => {
                let from = from % (models[*key].len() + 1);
                let range = from..from + len % (models[*key].len() - from + 1);
                with_list(handle, *key, |list| list.trim(range.clone()));
                models[*key].truncate(range.end);
                models[*key].drain(..range.start);
            }
            Op::Rename(from, to) | Op::Copy(from, to) if from == to => {}
            Op::Rename(from, to) | Op::Copy(from, to) => {
                let moves = matches!(op, Op::Rename(..));
                let exists = locked_together(
                    handle,
                    &[&key_bytes(*from), &key_bytes(*to)],
                    |handle, keys| {
                        if moves {
                            handle.rename(0, keys[0], 0, keys[1])
                        } else {
                            handle.copy(0, keys[0], 0, keys[1])
                        }
                    },
                );
                assert_eq!(exists, !models[*from].is_empty());
                if exists {
                    models[*to] = models[*from].clone();
                    if moves {
                        models[*from].clear();
                    }
                }
            }
            Op::Expire(key) => {
                let at = handle.now_ms() + 1_000_000;
                locked_together(handle, &[&key_bytes(*key)], |handle, keys| {
                    handle.set_expiry(0, keys[0], Some(at))
                });
            }
            Op::Limit(limit) => handle.keyspace().limits().set_list_max_listpack_size(*limit),
            Op::Compact => {
                handle.enter();
                handle.compact_step(std::time::Duration::from_millis(50), 0);
                handle.exit();
            }
        }
    }

    fn check(&mut self) {
        for (key, model) in self.models.iter().enumerate() {
            let found = read(&mut self.handle, key);
            let found = found.as_ref().map(|(elements, _)| elements);
            assert_eq!(found, (!model.is_empty()).then_some(model));
        }
        let mut footprints = 0;
        self.handle.enter();
        let end = self.handle.scan(0, Cursor::default(), 1_000, |view| {
            footprints += view.footprint() as u64;
        });
        assert!(end == Cursor::default());
        self.handle.exit();
        self.handle.free_retired();
        let stats = self.handle.keyspace().stats();
        assert_eq!(stats.used, footprints + stats.tables);
    }
}

/// The elements of a list, read in both directions and by index, and its encoding.
fn read(handle: &mut Handle, key: usize) -> Option<(VecDeque<Vec<u8>>, &'static str)> {
    locked_together(handle, &[&key_bytes(key)], |handle, keys| {
        let view = handle.read(0, keys[0])?;
        let list = view.list().unwrap();
        let all: VecDeque<_> = list.iter_from(0).map(bytes).collect();
        assert_eq!(list.len(), all.len());
        assert!(list.iter_back_from(usize::MAX).map(bytes).eq(all.iter().rev().cloned()));
        for at in [0, all.len() / 2, all.len() - 1, all.len()] {
            assert_eq!(list.get(at).map(bytes).as_ref(), all.get(at));
            assert_eq!(list.iter_from(at).next().map(bytes).as_ref(), all.get(at));
            let back = all.get(at).or(all.back());
            assert_eq!(list.iter_back_from(at).next().map(bytes).as_ref(), back);
        }
        Some((all, view.encoding()))
    })
}

fn handle(stripes: usize) -> Handle {
    let mut handle = Keyspace::new(&Options { databases: 1, stripes, seed: 42 }).attach();
    handle.set_clock(1_000_000);
    handle
}

/// An effect that owns its data.
enum Kept {
    Push(Vec<u8>, End, Vec<u8>),
    Pop(Vec<u8>, End),
    Set(Vec<u8>, usize, Vec<u8>),
    Insert(Vec<u8>, usize, Vec<u8>),
    Remove(Vec<u8>, usize),
    Trim(Vec<u8>, usize, usize),
    CopyFrom(Vec<u8>, u16, Vec<u8>, bool),
    Gone(Vec<u8>, Removal),
    Expire(Vec<u8>, Option<i64>),
}

impl Kept {
    fn new(effect: &Effect<'_>) -> Self {
        match *effect {
            Effect::ListPush { key, end, element } => Kept::Push(key.into(), end, element.into()),
            Effect::ListPop { key, end } => Kept::Pop(key.into(), end),
            Effect::ListSet { key, index, element } => Kept::Set(key.into(), index, element.into()),
            Effect::ListInsert { key, index, element, .. } => {
                Kept::Insert(key.into(), index, element.into())
            }
            Effect::ListRemove { key, index } => Kept::Remove(key.into(), index),
            Effect::ListTrim { key, from, len } => Kept::Trim(key.into(), from, len),
            Effect::CopyFrom { key, from_db, from, moved, .. } => {
                Kept::CopyFrom(key.into(), from_db, from.into(), moved)
            }
            Effect::Remove { key, why } => Kept::Gone(key.into(), why),
            Effect::Expire { key, expiry } => Kept::Expire(key.into(), expiry),
            _ => unreachable!("no effect of lists"),
        }
    }

    fn apply(&self, handle: &mut Handle) {
        let effect = match self {
            Kept::Push(key, end, element) => Effect::ListPush { key, end: *end, element },
            Kept::Pop(key, end) => Effect::ListPop { key, end: *end },
            Kept::Set(key, index, element) => Effect::ListSet { key, index: *index, element },
            Kept::Insert(key, index, element) => {
                Effect::ListInsert { key, index: *index, element, next: None }
            }
            Kept::Remove(key, index) => Effect::ListRemove { key, index: *index },
            Kept::Trim(key, from, len) => Effect::ListTrim { key, from: *from, len: *len },
            Kept::Gone(key, why) => Effect::Remove { key, why: *why },
            Kept::Expire(key, expiry) => Effect::Expire { key, expiry: *expiry },
            Kept::CopyFrom(key, from_db, from, moved) => {
                Effect::CopyFrom { key, from_db: *from_db, from, moved: *moved, value: None }
            }
        };
        let key = effect.key().unwrap();
        let other = effect.source().map_or(key, |(_, other)| other);
        locked_together(handle, &[key, other], |handle, _| {
            handle.apply(0, &effect, Origin::LOCAL).unwrap()
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_list_is_a_ring_of_strings(ops in prop::collection::vec(op(), 1..60)) {
        let mut pair = Pair { handle: handle(2), models: Default::default() };
        for op in &ops {
            pair.run(op);
            pair.check();
        }
        pair.handle.enter();
        pair.handle.lock_all();
        drop(pair.handle.clear(None));
        pair.handle.unlock();
        pair.handle.exit();
        let keyspace = pair.handle.keyspace();
        let heap = keyspace.heap().stats();
        prop_assert_eq!((keyspace.stats().used, heap.live_bytes + heap.huge_bytes), (0, 0));
    }

    #[test]
    fn effects_rebuild_lists(ops in prop::collection::vec(op(), 1..60)) {
        let kept: Arc<Mutex<Vec<Kept>>> = Arc::default();
        let mut pair = Pair { handle: handle(2), models: Default::default() };
        let log = kept.clone();
        pair.handle.set_sink(Some(Box::new(move |_: u16, effect: &Effect<'_>| {
            log.lock().unwrap().push(Kept::new(effect));
        })));
        ops.iter().for_each(|op| pair.run(op));
        let mut copy = handle(1);
        kept.lock().unwrap().iter().for_each(|effect| effect.apply(&mut copy));
        for key in 0..KEYS {
            let lists = [&mut pair.handle, &mut copy].map(|handle| read(handle, key));
            let elements = lists.map(|list| list.map(|(elements, _)| elements));
            prop_assert!(elements[0] == elements[1], "key {}", key);
        }
    }
}
