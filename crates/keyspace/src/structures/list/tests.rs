//! A large list against a ring of strings that is too simple to be wrong.

#[path = "../../../tests/drawn/text.rs"]
mod text;

use crate::structures::list::End;
use crate::structures::list::encoding::{LISTPACK_FRAME, listpack_entry_len};
use crate::structures::list::large::List;
use crate::structures::list::run::Element;
use petrel_heap::{Cache, Heap};
use proptest::prelude::*;
use std::collections::VecDeque;
use text::Text;

#[derive(Clone, Debug)]
enum Op {
    Push(End, Vec<Text>),
    /// Many items of one shape.
    Fill(End, Text, u16),
    Pop(End, usize),
    Set(usize, Text),
    Insert(usize, Text),
    /// Inserts at the same index repeatedly.
    InsertMany(usize, Text, usize),
    RemoveRange(usize, usize),
    RemoveEqual(usize, End, usize),
    Clone,
    WatchListpack(bool),
}

fn text() -> impl Strategy<Value = Text> {
    let len = prop_oneof![
        12 => 0usize..40,
        4 => 100usize..400,
        2 => 1_000usize..1_030,
        1 => 4_000usize..5_000,
        1 => 30_000usize..70_000,
    ];
    prop_oneof![
        2 => prop_oneof![any::<i64>(), -20i64..20, -5000i64..5000].prop_map(Text::Int),
        2 => any::<u16>().prop_map(Text::Alike),
        1 => (100_000i64..100_010).prop_map(Text::Int),
        3 => (b'a'..b'd', len).prop_map(|(byte, len)| Text::Repeated(byte, len)),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Front), Just(End::Back)]
}

fn op() -> impl Strategy<Value = Op> {
    let at = || any::<u16>().prop_map(usize::from);
    prop_oneof![
        6 => (end(), prop::collection::vec(text(), 1..60)).prop_map(|(end, t)| Op::Push(end, t)),
        2 => (end(), text(), 1u16..200).prop_map(|(end, text, n)| Op::Fill(end, text, n)),
        4 => (end(), 1usize..80).prop_map(|(end, n)| Op::Pop(end, n)),
        3 => (at(), text()).prop_map(|(at, text)| Op::Set(at, text)),
        3 => (at(), text()).prop_map(|(at, text)| Op::Insert(at, text)),
        1 => (at(), text(), 1usize..200).prop_map(|(at, text, n)| Op::InsertMany(at, text, n)),
        2 => (at(), 0usize..300).prop_map(|(at, n)| Op::RemoveRange(at, n)),
        2 => (at(), end(), 1usize..60).prop_map(|(at, end, n)| Op::RemoveEqual(at, end, n)),
        1 => Just(Op::Clone),
        1 => any::<bool>().prop_map(Op::WatchListpack),
    ]
}

struct Pair {
    heap: Heap,
    cache: Cache,
    list: List,
    model: VecDeque<Vec<u8>>,
}

fn bytes(element: Element<'_>) -> Vec<u8> {
    element.to_vec()
}

impl Pair {
    fn run(&mut self, op: &Op) {
        let (list, model, cache) = (&mut self.list, &mut self.model, &mut self.cache);
        match op {
            Op::Push(end, texts) => {
                for text in texts {
                    let text = text.bytes();
                    list.push(cache, *end, &text);
                    match end {
                        End::Front => model.push_front(text),
                        End::Back => model.push_back(text),
                    }
                }
            }
            Op::Fill(end, text, n) => {
                let texts = (0..*n).map(|at| text.alike(at)).collect();
                self.run(&Op::Push(*end, texts));
            }
            Op::Pop(end, n) => {
                for _ in 0..*n {
                    let popped = list.pop(cache, *end, bytes);
                    let expected = match end {
                        End::Front => model.pop_front(),
                        End::Back => model.pop_back(),
                    };
                    assert_eq!(popped, expected);
                }
            }
            Op::Set(at, text) if !model.is_empty() => {
                let (at, text) = (at % model.len(), text.bytes());
                list.set(cache, at, &text);
                model[at] = text;
            }
            Op::Set(..) => {}
            Op::Insert(at, text) => {
                let (at, text) = (at % (model.len() + 1), text.bytes());
                list.insert(cache, at, &text);
                model.insert(at, text);
            }
            Op::InsertMany(at, text, n) => {
                let (at, text) = (at % (model.len() + 1), text.bytes());
                let text = &text[..text.len().min(300)];
                for _ in 0..*n {
                    list.insert(cache, at, text);
                    model.insert(at, text.to_vec());
                }
            }
            Op::RemoveRange(at, n) => {
                let from = at % (model.len() + 1);
                let range = from..(from + n).min(model.len());
                let removed = list.remove_range(cache, range.clone());
                assert!(removed.len() <= range.len());
                removed.release(cache);
                model.drain(range);
            }
            Op::RemoveEqual(at, end, n) if !model.is_empty() => {
                let text = model[at % model.len()].clone();
                let mut indexes = Vec::new();
                let count = list.remove_equal(cache, &text, *end, *n, |index| indexes.push(index));
                assert_eq!(count, indexes.len());
                for index in indexes {
                    assert_eq!(model.remove(index).as_deref(), Some(&text[..]));
                }
                let left = model.iter().filter(|other| **other == text).count();
                assert!(left == 0 || count == *n);
            }
            Op::RemoveEqual(..) => {}
            Op::Clone => {
                let copy = list.duplicate(cache);
                std::mem::replace(list, copy).release(cache);
            }
            Op::WatchListpack(true) => {
                list.listpack();
            }
            Op::WatchListpack(false) => list.forget_listpack(),
        }
    }

    fn check(&mut self) {
        let (list, model) = (&mut self.list, &self.model);
        assert_eq!(list.len(), model.len());
        let all: Vec<_> = list.iter_from(0).map(bytes).collect();
        assert!(all.iter().eq(model), "{} items differ", model.len());
        let back: Vec<_> = list.iter_back_from(usize::MAX).map(bytes).collect();
        assert!(back.iter().rev().eq(model), "{} items differ backwards", model.len());
        for at in [0, model.len() / 3, model.len() / 2, model.len().wrapping_sub(1), model.len()] {
            assert_eq!(list.get(at).map(bytes).as_ref(), model.get(at), "at {at}");
            let behind = list.iter_back_from(at).next().map(bytes);
            assert_eq!(behind.as_ref(), model.get(at).or(model.back()), "backwards at {at}");
        }
        let listpack: usize = model.iter().map(|text| listpack_entry_len(text)).sum();
        assert_eq!(list.listpack(), LISTPACK_FRAME + listpack);
        for text in [&model.front(), &model.get(model.len() / 2), &Some(&b"none".to_vec())] {
            let Some(text) = text else { continue };
            for (from, most) in [(End::Front, usize::MAX), (End::Back, usize::MAX), (End::Back, 50)]
            {
                let (mut found, mut looked) = (Vec::new(), 0);
                list.find(
                    text,
                    from,
                    most,
                    |at| {
                        found.push(at);
                        true
                    },
                    &mut |count| {
                        looked += count;
                        true
                    },
                );
                assert!(looked >= found.len());
                let mut places: Vec<usize> = (0..model.len()).collect();
                if from == End::Back {
                    places.reverse();
                }
                places.truncate(most);
                places.retain(|&at| model[at] == **text);
                assert_eq!(found, places);
            }
        }
        list.check();
        self.cache.trim();
        let stats = self.heap.stats();
        assert_eq!(list.blocks() as u64, stats.live_bytes + stats.huge_bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_large_list_is_a_ring_of_strings(ops in prop::collection::vec(op(), 1..40)) {
        let heap = Heap::new();
        let mut pair = Pair {
            cache: heap.cache(),
            heap,
            list: List::new(),
            model: VecDeque::new(),
        };
        for op in &ops {
            pair.run(op);
            pair.check();
        }
        pair.list.release(&mut pair.cache);
    }
}
