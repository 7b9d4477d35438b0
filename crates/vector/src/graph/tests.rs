//! Recall against exact search, and invariants of links, under changes.

use super::*;
use crate::quantise::{Encoded, Quantisation};
use std::collections::{BTreeMap, BinaryHeap};

const DIM: usize = 48;

/// Generates clustered Gaussians.
pub struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Approximately normally distributed.
    fn normal(&mut self) -> f32 {
        let sum: u64 = (0..12).map(|_| self.next() % 65_536).sum();
        sum as f32 / 65_536.0 - 6.0
    }

    fn vector(&mut self, centres: &[Vec<f32>]) -> Vec<f32> {
        let centre = &centres[self.next() as usize % centres.len()];
        centre.iter().map(|x| x + self.normal() * 0.7).collect()
    }
}

fn shape(quantisation: Quantisation, links: u16) -> Shape {
    Shape { dim: DIM as u32, quantisation, links, input_dim: None, seed: quantisation.seed() }
}

fn centres(draw: &mut Draw) -> Vec<Vec<f32>> {
    (0..40).map(|_| (0..DIM).map(|_| draw.normal()).collect()).collect()
}

fn add(graph: &mut Graph, vector: &Encoded, ef: usize) -> u32 {
    let level = graph.next_level();
    let query = graph.shape().query_of(vector.as_ref());
    let plan = graph.plan(&query, (level, None), ef, &mut |_| true).unwrap();
    graph.insert(vector.as_ref(), &plan)
}

/// Recall of the ten nearest by walks against exact search, over some queries.
fn recall(graph: &Graph, queries: &[Encoded], ef: usize) -> f64 {
    let mut found = 0;
    for query in queries {
        let query = &graph.shape().query_of(query.as_ref());
        let mut exact = BinaryHeap::new();
        graph.scan(query, 0..graph.end(), 10, &mut exact, &mut |_| true);
        let mut walk = Walk::begin(graph, query, ef);
        while walk.step(graph, query, 7, &mut |_| true) {}
        let best = graph.rank(query, walk.finish(), 10);
        // By distance, since codes may be equal.
        let farthest = exact.peek().unwrap().distance;
        found += best.iter().take(10).filter(|near| near.distance <= farthest).count();
    }
    found as f64 / (queries.len() * 10) as f64
}

/// Checks links: bidirectional, to nodes of the level, no duplicates, no self-links, within the
/// limit.
fn check(graph: &Graph) {
    let mut nodes = 0;
    let mut lens = [0; LEVELS_MAX];
    for node in (0..graph.end()).filter(|&node| graph.contains(node)) {
        nodes += 1;
        lens[graph.level(node)] += 1;
        for level in 0..=graph.level(node) {
            let links = graph.links(node, level);
            assert!(links.len() <= link_limit(graph.shape(), level));
            for (i, other) in links.iter().enumerate() {
                assert!(other != node && graph.contains(other) && graph.level(other) >= level);
                assert!(graph.links(other, level).contains(node));
                assert!(!links.iter().take(i).any(|link| link == other));
            }
        }
    }
    assert_eq!((nodes, lens), (graph.len(), graph.level_lens));
    assert_eq!(graph.entry.is_none(), nodes == 0);
    if let Some(entry) = graph.entry {
        assert_eq!(Some(graph.level(entry)), lens.iter().rposition(|&len| len > 0));
    }
    let bytes: usize = graph.chunks.iter().map(|chunk| chunk.footprint()).sum();
    assert_eq!(bytes, graph.chunk_bytes);
}

fn reached(graph: &Graph) -> usize {
    let mut seen = vec![false; graph.end() as usize];
    let mut ahead: Vec<u32> = graph.entry.into_iter().collect();
    let mut count = 0;
    while let Some(node) = ahead.pop() {
        if !std::mem::replace(&mut seen[node as usize], true) {
            count += 1;
            ahead.extend(graph.links(node, 0).iter());
        }
    }
    count
}

#[test]
fn recall_holds_through_inserts_updates_and_removals() {
    for (form, expected) in [
        (Quantisation::None, 0.97),
        (Quantisation::Q8, 0.97),
        (Quantisation::Binary, 0.85),
        (Quantisation::RaBitQ, 0.97),
    ] {
        let mut draw = Draw(42);
        let centres = centres(&mut draw);
        let shape = shape(form, 16);
        let mut graph = Graph::new(shape, 7);
        let encode = |draw: &mut Draw| shape.encode(&draw.vector(&centres)).unwrap();
        let mut nodes: Vec<u32> =
            (0..10_000).map(|_| add(&mut graph, &encode(&mut draw), 100)).collect();
        let queries: Vec<Encoded> = (0..100).map(|_| encode(&mut draw)).collect();
        check(&graph);
        let fresh = recall(&graph, &queries, 100);
        assert!(fresh >= expected, "{form:?}: {fresh}");
        // Each step updates one, removes one and adds one.
        for _ in 0..3000 {
            let at = draw.next() as usize % nodes.len();
            graph.remove(nodes[at]);
            nodes[at] = add(&mut graph, &encode(&mut draw), 100);
            let gone = nodes.swap_remove(draw.next() as usize % nodes.len());
            graph.remove(gone);
            nodes.push(add(&mut graph, &encode(&mut draw), 100));
        }
        check(&graph);
        let changed = recall(&graph, &queries, 100);
        assert!(changed >= expected, "{form:?}: {changed}");
        // Half of them are removed.
        for _ in 0..5000 {
            graph.remove(nodes.swap_remove(draw.next() as usize % nodes.len()));
        }
        check(&graph);
        assert!(reached(&graph) + 5 >= graph.len(), "{} of {}", reached(&graph), graph.len());
        let halved = recall(&graph, &queries, 100);
        assert!(halved >= expected, "{form:?}: {halved}");
        for node in nodes {
            graph.remove(node);
        }
        check(&graph);
        assert!(graph.is_empty());
    }
}

#[test]
fn few_links_and_equal_vectors_are_no_trouble() {
    let shape = shape(Quantisation::Q8, 4);
    let mut graph = Graph::new(shape, 1);
    let same = shape.encode(&[1.0; DIM]).unwrap();
    let nodes: Vec<u32> = (0..600).map(|_| add(&mut graph, &same, 10)).collect();
    check(&graph);
    assert_eq!(reached(&graph), 600);
    for node in &nodes[..300] {
        graph.remove(*node);
    }
    check(&graph);
    let nan = shape.encode(&[f32::NAN; DIM]).unwrap();
    add(&mut graph, &nan, 10);
    check(&graph);
}

#[test]
fn a_walk_survives_changes_between_its_steps() {
    let mut draw = Draw(5);
    let centres = centres(&mut draw);
    let shape = shape(Quantisation::Q8, 8);
    let mut graph = Graph::new(shape, 3);
    let encode = |draw: &mut Draw| shape.encode(&draw.vector(&centres)).unwrap();
    let mut nodes: Vec<u32> = (0..500).map(|_| add(&mut graph, &encode(&mut draw), 50)).collect();
    for _ in 0..100 {
        let query = shape.query_of(encode(&mut draw).as_ref());
        let mut walk = Walk::begin(&graph, &query, 20);
        while walk.step(&graph, &query, 3, &mut |_| true) {
            walk.pause(&graph);
            for _ in 0..5 {
                let at = draw.next() as usize % nodes.len();
                graph.remove(nodes[at]);
                nodes[at] = add(&mut graph, &encode(&mut draw), 50);
            }
            walk.resume(&graph);
        }
        for near in walk.finish() {
            assert_eq!(near.distance, graph.distance_to(&query, near.node));
        }
    }
    check(&graph);
}

#[test]
fn filtered_walks_find_what_passes() {
    let mut draw = Draw(9);
    let centres = centres(&mut draw);
    let shape = shape(Quantisation::Q8, 16);
    let mut graph = Graph::new(shape, 3);
    let encode = |draw: &mut Draw| shape.encode(&draw.vector(&centres)).unwrap();
    for _ in 0..3000 {
        add(&mut graph, &encode(&mut draw), 100);
    }
    let query = shape.query_of(encode(&mut draw).as_ref());
    let mut walk = Walk::begin_passing(&graph, &query, 10, usize::MAX);
    while walk.step(&graph, &query, 1000, &mut |node| node % 10 == 0) {}
    let best = walk.finish();
    assert_eq!(best.len(), 10);
    assert!(best.iter().all(|near| near.node % 10 == 0));
    let mut walk = Walk::begin_passing(&graph, &query, 10, 5);
    while walk.step(&graph, &query, 1000, &mut |_| true) {}
    assert_eq!(walk.finish().len(), 5);
}

/// Vectors with few degrees of freedom, like text embeddings, and some noise.
fn texts(draw: &mut Draw, dim: usize) -> impl FnMut(&mut Draw) -> Vec<f32> + use<> {
    const FREE: usize = 20;
    let axes: Vec<Vec<f32>> =
        (0..FREE).map(|_| (0..dim).map(|_| draw.normal()).collect()).collect();
    move |draw| {
        let mut vector: Vec<f32> = (0..dim).map(|_| 0.5 * draw.normal()).collect();
        for (k, axis) in axes.iter().enumerate() {
            let weight = draw.normal() / (1.0 + k as f32).sqrt();
            vector.iter_mut().zip(axis).for_each(|(x, y)| *x += weight * y);
        }
        vector
    }
}

const WIDE: usize = 384;

fn coded() -> Shape {
    Shape { dim: WIDE as u32, seed: 1, ..shape(Quantisation::RaBitQ, 16) }
}

/// Recall of the ten nearest original vectors by walks over their codes.
fn recall_of_floats(
    graph: &Graph,
    vectors: &BTreeMap<u32, Vec<f32>>,
    queries: &[Vec<f32>],
    ef: usize,
) -> f64 {
    let mut found = 0;
    for vector in queries {
        let dot = |other: &[f32]| -> f32 { vector.iter().zip(other).map(|(x, y)| x * y).sum() };
        let mut exact: Vec<(f32, u32)> =
            vectors.iter().map(|(&node, other)| (dot(other), node)).collect();
        exact.sort_by(|a, b| b.0.total_cmp(&a.0));
        let query = graph.shape().query(vector).unwrap();
        let mut walk = Walk::begin(graph, &query, ef);
        while walk.step(graph, &query, 100, &mut |_| true) {}
        let best = graph.rank(&query, walk.finish(), 10);
        assert_eq!(best.len(), 10);
        let is_exact = |near: &&Near| exact[..10].iter().any(|&(_, node)| node == near.node);
        found += best.iter().filter(is_exact).count();
    }
    found as f64 / (queries.len() * 10) as f64
}

fn unit(vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.into_iter().map(|x| x / norm).collect()
}

/// A graph of the codes of `count` vectors, and the vectors.
fn coded_graph(
    count: usize,
    mut vector: impl FnMut() -> Vec<f32>,
) -> (Graph, BTreeMap<u32, Vec<f32>>) {
    let mut graph = Graph::new(coded(), 7);
    let mut vectors = BTreeMap::new();
    for _ in 0..count {
        let vector = unit(vector());
        vectors.insert(add(&mut graph, &coded().encode(&vector).unwrap(), 60), vector);
    }
    (graph, vectors)
}

#[test]
fn our_form_finds_the_nearest_vectors_in_few_bytes() {
    let mut draw = Draw(77);
    let mut text = texts(&mut draw, WIDE);
    let (graph, vectors) = coded_graph(2048, || text(&mut draw));
    check(&graph);
    let bytes = graph.footprint() as f64 / graph.len() as f64;
    assert!(bytes <= 0.3 * 4.0 * WIDE as f64, "{bytes}");
    let queries: Vec<Vec<f32>> = (0..40).map(|_| text(&mut draw)).collect();
    let recall = recall_of_floats(&graph, &vectors, &queries, 100);
    assert!(recall >= 0.97, "{recall}");
}

/// Within a cluster all neighbours are about equally distant: the hardest case for ranking by
/// codes.
#[test]
fn our_form_ranks_within_clusters_through_changes() {
    let mut draw = Draw(78);
    let centres: Vec<Vec<f32>> =
        (0..50).map(|_| (0..WIDE).map(|_| draw.normal()).collect()).collect();
    let (mut graph, mut vectors) = coded_graph(10_000, || draw.vector(&centres));
    let queries: Vec<Vec<f32>> = (0..60).map(|_| unit(draw.vector(&centres))).collect();
    let recalls = |graph: &Graph, vectors: &BTreeMap<u32, Vec<f32>>| {
        check(graph);
        let recall = |ef| recall_of_floats(graph, vectors, &queries, ef);
        let (low, high) = (recall(10), recall(300));
        assert!(high > low && high >= 0.965, "{low} {high}");
    };
    recalls(&graph, &vectors);
    // Updates: each removes one vector and adds another.
    let mut nodes: Vec<u32> = vectors.keys().copied().collect();
    for _ in 0..1000 {
        let at = draw.next() as usize % nodes.len();
        graph.remove(nodes[at]);
        vectors.remove(&nodes[at]);
        let vector = unit(draw.vector(&centres));
        nodes[at] = add(&mut graph, &coded().encode(&vector).unwrap(), 60);
        vectors.insert(nodes[at], vector);
    }
    recalls(&graph, &vectors);
    for _ in 0..5000 {
        let node = nodes.swap_remove(draw.next() as usize % nodes.len());
        graph.remove(node);
        vectors.remove(&node);
    }
    recalls(&graph, &vectors);
}
