//! Searches concurrent with inserts, updates and removals under a scheduler that tries many
//! interleavings. A search yields to writers after every node. Waits have no time limit here, so a
//! lost wake-up shows as a deadlock.
//!
//! `cargo test -p petrel-vector --features shuttle --test set_model`

#![cfg(feature = "shuttle")]

use petrel_vector::{Filter, Quantisation, Search, Shape, VectorSet};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner, thread};
use std::collections::BTreeSet;
use std::sync::Arc;

const DIM: usize = 4;

/// Number of elements present throughout, and of elements added and removed.
const STAY: usize = 6;
const COME: usize = 5;

/// Number of changes of a writer, and of searches of a reader.
const CHANGES: usize = 6;
const SEARCHES: usize = 2;

fn shape() -> Shape {
    let quantisation = Quantisation::Q8;
    Shape { dim: DIM as u32, quantisation, links: 4, input_dim: None, seed: quantisation.seed() }
}

fn name(number: usize) -> Vec<u8> {
    format!("e{number}").into_bytes()
}

fn put(set: &VectorSet, number: usize) {
    let vector: Vec<f32> = (0..DIM).map(|_| thread_rng().gen_range(0..17) as f32 - 8.5).collect();
    let encoded = set.shape().encode(&vector).expect("the vector is no zero");
    let attributes = if number.is_multiple_of(2) { &b"{\"n\":1}"[..] } else { b"{\"n\":0}" };
    set.insert(&name(number), encoded.as_ref(), Some(attributes), 8).expect("there is room");
}

/// Moves the permanent elements; adds, moves and removes others. Each writer has its own.
fn write(set: &VectorSet, own: &[usize]) {
    for _ in 0..CHANGES {
        let number = own[thread_rng().gen_range(0..own.len())];
        match thread_rng().gen_range(0..3) {
            0 if number >= STAY => drop(set.remove(&name(number))),
            1 => drop(set.set_attributes(&name(number), Some(b"{\"n\":1}"))),
            _ => put(set, number),
        }
    }
}

/// Searches for more than there is: untouched elements are found, without duplicates, in order.
fn search(set: &VectorSet, still: &[usize], exact: bool, filter: Option<&Filter>) {
    let query = set.shape().query(&[1.0, -2.0, 3.0, 0.5]).expect("it is a vector");
    let search = Search { count: 64, ef: 64, epsilon: None, filter_ef: 1000, exact };
    let hits = set.search(&query, &search, filter);
    let names: BTreeSet<Vec<u8>> = hits.iter().map(|hit| hit.name.to_vec()).collect();
    assert!(hits.is_sorted_by(|a, b| a.distance <= b.distance));
    assert!(names.iter().all(|found| (0..STAY + COME).any(|number| *found == name(number))));
    if exact {
        assert_eq!(names.len(), hits.len(), "an element was found twice");
        for &number in still {
            let passes = filter.is_none() || number.is_multiple_of(2);
            assert_eq!(names.contains(&name(number)), passes, "element {number}");
        }
    }
}

/// Checks links: bidirectional, to elements of the set, no duplicates, and all are reachable.
fn check(set: &VectorSet) {
    let mut count = 0;
    let mut level_0 = Vec::new();
    set.for_each(|name, _, _| {
        count += 1;
        level_0.push(name.to_vec());
    });
    assert_eq!(count, set.len());
    for from in &level_0 {
        let levels = set.links(from).expect("it is an element");
        for (down, links) in levels.iter().rev().enumerate() {
            let names: BTreeSet<&[u8]> = links.iter().map(|(name, _)| &**name).collect();
            assert_eq!(names.len(), links.len(), "a link twice");
            for to in names {
                let back = set.links(to).expect("links lead to elements");
                let back = &back[back.len() - 1 - down];
                assert!(to != from.as_slice() && back.iter().any(|(name, _)| **name == **from));
            }
        }
    }
    let query = set.shape().query(&[1.0; DIM]).expect("it is a vector");
    let search = Search { count: 64, ef: 64, epsilon: None, filter_ef: 1000, exact: false };
    assert_eq!(set.search(&query, &search, None).len(), set.len(), "an element is out of reach");
}

fn run(scheduler: impl Scheduler + 'static, body: impl Fn() + Send + Sync + 'static) {
    Runner::new(scheduler, Config::new()).run(body);
}

/// Two writers, one of them with permanent elements; a graph search, an exact search, one with a
/// filter.
fn beside_each_other() {
    let set = Arc::new(VectorSet::new(shape(), 1));
    (0..STAY + 2).for_each(|number| put(&set, number));
    let still = [0, 1, 2];
    let writers = [vec![3, 4, 5, 6], vec![7, 8, 9, 10]];
    let mut threads: Vec<_> = writers
        .into_iter()
        .map(|own| {
            let set = Arc::clone(&set);
            thread::spawn(move || write(&set, &own))
        })
        .collect();
    for (exact, is_filtered) in [(false, false), (true, true), (false, true)] {
        let set = Arc::clone(&set);
        threads.push(thread::spawn(move || {
            let filter = is_filtered.then(|| Filter::compile(b".n > 0").expect("it is a filter"));
            for _ in 0..SEARCHES {
                search(&set, &still, exact, filter.as_ref());
            }
        }));
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    check(&set);
    still.iter().for_each(|number| assert!(set.contains(&name(*number))));
}

#[test]
fn random_interleavings() {
    run(RandomScheduler::new(400), beside_each_other);
}

#[test]
fn rare_interleavings() {
    run(PctScheduler::new(3, 400), beside_each_other);
}
