//! Nearest neighbours in a graph beside the comparison of all vectors, with filters, while
//! documents change between the steps of a query. Numbers are drawn from a fixed seed.

use super::condition::{Condition, TagTest};
use super::contents::{Applying, Change, ChangeKind, Extent, FieldChange};
use super::distances::{Distance, Near, VectorQuery};
use super::live::Live;
use super::schema::{DocumentOptions, Field, FieldKind, Schema};
use super::search::{FIRST_STEP, Found, Order, Query, Run};
use crate::vectors::{Algorithm, Hnsw, Metric, QueryVector, VectorSpec};
use petrel_vector::Element;
use std::collections::BTreeMap;
use std::sync::Arc;

const DIM: usize = 8;
const KEYS: u64 = 1500;
const COUNT: usize = 10;

/// A generator of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }

    fn vector(&mut self, element: Element) -> Vec<u8> {
        let numbers = (0..DIM).map(|_| self.below(2001) as f32 / 1000.0 - 1.0);
        match element {
            Element::F64 => numbers.flat_map(|number| f64::from(number).to_le_bytes()).collect(),
            _ => numbers.flat_map(f32::to_le_bytes).collect(),
        }
    }
}

/// Tag and vector of each document.
type Model = BTreeMap<u64, (&'static [u8], Vec<u8>)>;

struct World {
    spec: VectorSpec,
    live: Arc<Live>,
    model: Model,
    sequence: u64,
}

fn field(name: &[u8], kind: FieldKind) -> Field {
    Field {
        source: name.into(),
        name: name.into(),
        kind,
        is_sortable: false,
        is_unfolded: false,
        is_unindexed: false,
        indexes_empty: false,
        indexes_missing: false,
    }
}

impl World {
    fn new(spec: VectorSpec) -> Self {
        let tag =
            FieldKind::Tag { separator: b',', is_case_sensitive: true, with_suffix_trie: false };
        let vector = FieldKind::Vector(Box::new(spec.clone()));
        let schema = Schema {
            prefixes: vec![Box::default()],
            fields: vec![field(b"g", tag), field(b"v", vector)],
            documents: DocumentOptions::default(),
            flags: Vec::new(),
            stop_words: None,
            synonyms: Arc::default(),
            temporary_s: 0,
        };
        World { spec, live: Live::new(1, &schema), model: Model::new(), sequence: 0 }
    }

    fn apply(&mut self, key: u64, kind: ChangeKind<'_>) {
        self.sequence += 1;
        let name = key.to_le_bytes();
        let change = Change { key: &name, hash: key << 32, sequence: self.sequence, kind };
        let plans = self.live.read().plan(&change);
        // Some plans are of an older state of the graph.
        let other = (key + 1) % KEYS;
        if !plans.is_empty() && self.sequence.is_multiple_of(3) {
            self.apply(other, ChangeKind::Remove);
            self.model.remove(&other);
        }
        let suspended = self.live.suspended();
        let mut contents = self.live.write();
        contents.clean(suspended.map(|(earliest, _)| earliest), |_| false);
        contents.begin();
        contents.expect(plans);
        let snapshot = suspended.map(|(_, latest)| latest);
        contents.apply(&change, Applying { snapshot, in_flight: false });
        contents.forget_plans();
    }

    fn put(&mut self, key: u64, tag: &'static [u8], vector: Vec<u8>) {
        let bytes = [tag, &vector].concat();
        let change = |number, value| FieldChange { number, value: Some(value), expiry: None };
        let fields = [change(0, 0..tag.len()), change(1, tag.len()..bytes.len())];
        let kind =
            ChangeKind::Put { extent: Extent::Whole, expiry: None, fields: &fields, bytes: &bytes };
        self.apply(key, kind);
        self.model.insert(key, (tag, vector));
    }

    /// Changes a document: a half of them are `a`, a tenth `b`, some `c`.
    fn change(&mut self, random: &mut Random) {
        let key = random.below(KEYS);
        if random.below(6) == 0 {
            self.apply(key, ChangeKind::Remove);
            self.model.remove(&key);
            return;
        }
        let tag: &[u8] = match random.below(100) {
            0..50 => b"a",
            50..60 => b"b",
            60..62 => b"c",
            _ => b"d",
        };
        let vector = random.vector(self.spec.element);
        self.put(key, tag, vector);
    }

    fn query(&self, vector: &[u8], condition: &Condition) -> Query {
        let vector = QueryVector::new(&self.spec, vector).unwrap();
        let near = Near { field: 1, radius: None, vector };
        let vectors = VectorQuery {
            neighbours: Some(COUNT),
            distances: vec![Distance { name: Box::default(), near }],
            ..VectorQuery::default()
        };
        Query {
            condition: condition.clone(),
            keys: None,
            order: Order::Rows,
            needed: COUNT,
            now_ms: 1,
            vectors: Arc::new(vectors),
        }
    }
}

/// Distances of the documents that match, ascending, with their keys.
fn expected(model: &Model, query: &Query) -> Vec<(f64, u64)> {
    let near = &query.vectors.distances[0].near;
    let passes = |tag: &[u8]| match &query.condition {
        Condition::Tag { tests, .. } => tests[0].passes(tag),
        _ => true,
    };
    let own = model.iter().filter(|(_, (tag, _))| passes(tag));
    let mut all: Vec<(f64, u64)> = own
        .map(|(&key, (_, vector))| {
            let mut distance = 0.0;
            near.vector.spec.prepare(vector, |it| distance = near.vector.distance(it));
            (distance, key)
        })
        .collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all
}

/// Checks that hits are as many as they can be, match, and are at their distances. Returns the
/// number of hits among the nearest.
fn check(found: &Found, all: &[(f64, u64)]) -> usize {
    assert_eq!(found.hits.len(), all.len().min(COUNT));
    assert_eq!(found.total, found.hits.len());
    let of_key: BTreeMap<u64, f64> = all.iter().map(|&(distance, key)| (key, distance)).collect();
    let mut keys = Vec::new();
    for hit in &found.hits {
        let key = u64::from_le_bytes(hit.key[..].try_into().unwrap());
        assert_eq!(hit.distance, of_key.get(&key).copied());
        keys.push(key);
    }
    assert!(found.hits.is_sorted_by(|a, b| a.distance <= b.distance));
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), found.hits.len());
    let nearest = &all[..all.len().min(COUNT)];
    nearest.iter().filter(|(_, key)| keys.contains(key)).count()
}

fn beside_all_vectors(element: Element, metric: Metric) {
    let hnsw = Hnsw { links: 8, ef_runtime: 30, ..Hnsw::default() };
    let algorithm = Algorithm::Hnsw(hnsw);
    let mut world = World::new(VectorSpec { algorithm, element, dim: DIM as u32, metric });
    let mut random = Random(7);
    for _ in 0..2 * KEYS {
        world.change(&mut random);
    }
    let tag = |text: &[u8]| Condition::Tag { field: 0, tests: vec![TagTest::Is(text.into())] };
    let conditions = [Condition::Everything, tag(b"a"), tag(b"b"), tag(b"c"), tag(b"none")];
    for condition in conditions {
        let (mut nearest, mut wanted) = (0, 0);
        for round in 0..30 {
            let vector = random.vector(element);
            let query = world.query(&vector, &condition);
            let all = expected(&world.model, &query);
            wanted += all.len().min(COUNT);
            let live = world.live.clone();
            let mut run = Run::new(&query, &live.read());
            let suspension = live.suspend(run.stamp());
            // Every second query rests after each step, while documents change.
            let len = if round % 2 == 0 { FIRST_STEP } else { 64 };
            while !run.step(&live.read(), len) {
                (0..3).for_each(|_| world.change(&mut random));
            }
            nearest += check(&run.finish(), &all);
            drop(suspension);
        }
        let recall = nearest as f64 / f64::from(wanted.max(1) as u32);
        assert!(wanted == 0 || recall >= 0.95, "{element:?} {metric:?} {condition:?}: {recall}");
    }
    // Nothing is left of removed documents.
    for key in 0..KEYS {
        world.apply(key, ChangeKind::Remove);
    }
    let contents = world.live.read();
    assert_eq!(contents.field(1).unwrap().records(), 0);
}

#[test]
fn neighbours_are_those_of_all_vectors_by_l2() {
    beside_all_vectors(Element::F32, Metric::L2);
}

#[test]
fn neighbours_are_those_of_all_vectors_by_product() {
    beside_all_vectors(Element::F32, Metric::Product);
}

#[test]
fn neighbours_are_those_of_all_vectors_by_cosine() {
    beside_all_vectors(Element::F64, Metric::Cosine);
}
