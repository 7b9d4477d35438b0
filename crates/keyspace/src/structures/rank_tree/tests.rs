//! The tree against a `BTreeSet`.

use super::*;
use petrel_heap::Heap;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Score in the upper half, the rest of the order in the lower.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Item(u64);

impl Item {
    fn new(score: u32, rest: u32) -> Self {
        Item(u64::from(score) << 32 | u64::from(rest))
    }
}

impl Scored for Item {
    fn score(self) -> f64 {
        (self.0 >> 32) as f64
    }
}

/// The predicate for the place of an item.
fn ahead_of(sought: Item) -> impl Fn(f64, Item) -> bool {
    move |score, item| score < sought.score() || score == sought.score() && item < sought
}

impl RankTree<Item> {
    /// Checks what inner nodes say, that order holds and that the bytes add up.
    fn check(&self) {
        let mut bytes = 0;
        if let Some(root) = &self.root {
            assert_eq!(check_node(root, &mut bytes).1, self.len);
        }
        assert_eq!(bytes, self.bytes);
        let items: Vec<Item> = self.iter().collect();
        assert_eq!(items.len(), self.len);
        assert!(items.is_sorted());
    }

    fn leaf_fill(&self) -> f64 {
        fn leaves(node: &Node<Item>) -> usize {
            match node.kind() {
                NodeRef::Leaf(_) => 1,
                NodeRef::Inner(inner) => inner.as_slice().iter().map(|c| leaves(&c.node)).sum(),
            }
        }
        self.len as f64 / (LEAF_MAX * self.root.as_ref().map_or(1, leaves)) as f64
    }
}

/// First item and number of items.
fn check_node(node: &Node<Item>, bytes: &mut usize) -> (Item, usize) {
    *bytes += usable(node.size());
    match node.kind() {
        NodeRef::Leaf(leaf) => (leaf.as_slice()[0], leaf.len()),
        NodeRef::Inner(inner) => {
            let mut total = 0;
            for child in inner.as_slice() {
                let (first, count) = check_node(&child.node, bytes);
                assert_eq!((child.first, child.score, child.count), (first, first.score(), count));
                total += count;
            }
            (inner.as_slice()[0].first, total)
        }
    }
}

/// Pseudo-random numbers, the same each time.
fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

#[test]
fn random_insertions_leave_little_room() {
    let heap = Heap::new();
    let mut cache = heap.cache();
    let mut tree = RankTree::default();
    let len = 50_000;
    for n in 0..len {
        let item = Item(mixed(n));
        tree.insert(item, ahead_of(item), &mut cache);
    }
    tree.check();
    let bytes_each = tree.footprint() as f64 / len as f64;
    assert!(bytes_each < 10.8, "{bytes_each} bytes each, {} full", tree.leaf_fill());
    for n in 0..len {
        let item = Item(mixed(n));
        let rank = tree.rank(ahead_of(item));
        assert_eq!(tree.get(rank), Some(item));
        tree.remove(rank, &mut cache);
        if n % 10_000 == 0 {
            tree.check();
        }
    }
    assert_eq!((tree.len, tree.footprint()), (0, 0));
}

#[test]
fn insertions_at_the_ends_leave_hardly_any() {
    let heap = Heap::new();
    let mut cache = heap.cache();
    for descending in [false, true] {
        let mut tree = RankTree::default();
        for n in 0..50_000 {
            let item = Item::new(if descending { 50_000 - n } else { n }, 0);
            tree.insert(item, ahead_of(item), &mut cache);
        }
        tree.check();
        assert!(tree.leaf_fill() > 0.97, "{}", tree.leaf_fill());
        tree.release(&mut cache);
    }
}

#[test]
fn a_tree_built_of_sorted_items_is_full() {
    let heap = Heap::new();
    let mut cache = heap.cache();
    for len in [0, 1, 63, 64, 65, 128, 2_048, 2_049, 70_000] {
        let items: Vec<Item> = (0..len).map(|n| Item::new(n, 7)).collect();
        let tree = RankTree::from_sorted(&items, &mut cache);
        tree.check();
        assert!(tree.iter().eq(items.iter().copied()));
        assert!(tree.iter().rev().eq(items.iter().rev().copied()));
        tree.release(&mut cache);
    }
}

#[test]
fn nodes_are_moved_on_demand() {
    let heap = Heap::new();
    let mut cache = heap.cache();
    let items: Vec<Item> = (0..10_000).map(|n| Item::new(n, 0)).collect();
    let mut tree = RankTree::from_sorted(&items, &mut cache);
    let (mut next, mut calls) = (Some(0), 0);
    while let Some(rank) = next {
        next = tree.relocate(rank, &|_| true, &mut cache);
        calls += 1;
    }
    assert_eq!(calls, 10_000_usize.div_ceil(RANKS_PER_MOVE));
    tree.check();
    assert!(tree.iter().eq(items));
    tree.release(&mut cache);
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u32, u32),
    /// Ascending.
    Append(u16),
    Remove(u32),
    RemoveRange(u32, u16),
    Replace(u32),
    Range(u32, u16),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0..300u32, 0..40u32).prop_map(|(score, rest)| Op::Insert(score, rest)),
        2 => (1..200u16).prop_map(Op::Append),
        3 => any::<u32>().prop_map(Op::Remove),
        1 => (any::<u32>(), 0..400u16).prop_map(|(from, len)| Op::RemoveRange(from, len)),
        1 => any::<u32>().prop_map(Op::Replace),
        1 => (any::<u32>(), 0..300u16).prop_map(|(from, len)| Op::Range(from, len)),
    ];
    prop::collection::vec(op, 0..200)
}

/// The tree and the set that it should equal.
struct Pair {
    tree: RankTree<Item>,
    model: BTreeSet<Item>,
    cache: Cache,
}

impl Pair {
    fn insert(&mut self, item: Item) {
        let rank = self.tree.rank(ahead_of(item));
        assert_eq!(rank, self.model.range(..item).count());
        if self.model.insert(item) {
            self.tree.insert(item, ahead_of(item), &mut self.cache);
        }
    }

    fn rank(&self, draw: u32) -> usize {
        draw as usize % self.model.len().max(1)
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert(score, rest) => self.insert(Item::new(score, rest)),
            Op::Append(n) => {
                let last = self.model.last().map_or(0, |item| item.0 >> 32) as u32;
                (1..=u32::from(n)).for_each(|n| self.insert(Item::new(last + n, 0)));
            }
            Op::Remove(draw) => {
                let rank = self.rank(draw);
                assert_eq!(self.tree.get(rank), self.model.iter().nth(rank).copied());
                if let Some(item) = self.tree.get(rank) {
                    self.tree.remove(rank, &mut self.cache);
                    self.model.remove(&item);
                }
            }
            Op::RemoveRange(from, len) => {
                let from = self.rank(from);
                let ranks = from..from + usize::from(len);
                let expected: Vec<Item> =
                    self.model.iter().skip(from).take(ranks.len()).copied().collect();
                let mut removed = Vec::new();
                self.tree.remove_range(ranks, &mut self.cache, |item| removed.push(item));
                assert_eq!(removed, expected);
                expected.iter().for_each(|item| {
                    self.model.remove(item);
                });
            }
            Op::Replace(draw) => {
                // An item of the same score right behind, if it is none of the set.
                let rank = self.rank(draw);
                let Some(old) = self.tree.get(rank) else { return };
                let new = Item(old.0 + 1);
                if new.score() == old.score() && !self.model.contains(&new) {
                    self.tree.replace(rank, new);
                    self.model.remove(&old);
                    self.model.insert(new);
                }
            }
            Op::Range(from, len) => {
                let from = self.rank(from);
                let to = from + usize::from(len);
                let expected: Vec<Item> =
                    self.model.iter().skip(from).take(len.into()).copied().collect();
                assert!(self.tree.range(from..to).eq(expected.iter().copied()));
                assert!(self.tree.range(from..to).rev().eq(expected.iter().rev().copied()));
                let mut both = self.tree.range(from..to);
                assert_eq!(both.len(), expected.len());
                let mut rest = &expected[..];
                while let [first, .., last] = rest {
                    assert_eq!((both.next(), both.next_back()), (Some(*first), Some(*last)));
                    rest = &rest[1..rest.len() - 1];
                }
                assert!(both.eq(rest.iter().copied()));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn behaves_as_a_sorted_sequence(ops in ops()) {
        let heap = Heap::new();
        let mut pair =
            Pair { tree: RankTree::default(), model: BTreeSet::new(), cache: heap.cache() };
        for op in &ops {
            pair.apply(op);
        }
        pair.tree.check();
        prop_assert!(pair.tree.iter().eq(pair.model.iter().copied()));
        pair.tree.release(&mut pair.cache);
        prop_assert_eq!(heap.stats().live_bytes, 0);
    }
}
