//! Random changes of sets, snapshots, and concurrent threads.

use super::*;
use crate::quantise::Quantisation;
use crate::{Filter, LoadError, Loader, Search, SnapshotItem};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn shape(dim: u32) -> Shape {
    Shape { dim, quantisation: Quantisation::Q8, links: 4, input_dim: None, seed: 0 }
}

fn search(count: usize, exact: bool) -> Search {
    Search { count, ef: 100, epsilon: None, filter_ef: usize::MAX, exact }
}

/// A vector that depends on a number.
fn vector(set: &VectorSet, n: u32) -> Encoded {
    let component = |i: u32| ((n.wrapping_mul(2_654_435_761) >> (i * 3 % 32)) % 17) as f32 - 8.0;
    let components: Vec<f32> = (0..set.shape().dim).map(component).collect();
    set.shape().encode(&components).unwrap()
}

/// The set loaded from a snapshot of `set`.
fn reloaded(set: &VectorSet) -> Result<VectorSet, LoadError> {
    let snapshot = set.snapshot();
    let mut loader = Loader::new(*snapshot.shape(), 1)?;
    for node in snapshot.nodes_from(0) {
        let links = |level| node.links(level).iter().map(|node| u64::from(node) + 1).collect();
        let levels: Vec<Vec<u64>> = (0..=node.level()).map(links).collect();
        loader.push(&SnapshotItem {
            number: u64::from(node.node()) + 1,
            name: node.name(),
            attributes: node.attributes(),
            vector: node.vector(),
            levels: &levels,
        })?;
    }
    loader.finish()
}

/// Contents of a set, in order.
fn contents(set: &VectorSet) -> Vec<(Vec<u8>, Encoded, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    set.for_each(|name, vector, attributes| {
        all.push((name.to_vec(), vector.to_owned(), attributes.map(<[u8]>::to_vec)));
    });
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn a_set_is_what_a_map_is(steps in prop::collection::vec((0u8..6, 0u32..40, any::<u32>()), 0..300)) {
        let set = VectorSet::new(shape(5), 11);
        let mut model = BTreeMap::new();
        let mut snapshots = Vec::new();
        for (step, n, value) in steps {
            let name = n.to_string().into_bytes();
            match step {
                0..=2 => {
                    let new = vector(&set, value);
                    let given: &[&[u8]] = &[b"", b"{}", b"{\"a\":1}"];
                    let attributes = given.get(value as usize % 4).copied();
                    let is_new = set.insert(&name, new.as_ref(), attributes, 20).unwrap();
                    let old: Option<(Encoded, Option<Vec<u8>>)> = model.remove(&name);
                    prop_assert_eq!(is_new, old.is_none());
                    let kept = old.and_then(|(_, kept)| kept);
                    let attributes = match attributes {
                        Some(b"") => None,
                        Some(given) => Some(given.to_vec()),
                        None => kept,
                    };
                    model.insert(name, (new, attributes));
                }
                3 => prop_assert_eq!(set.remove(&name), model.remove(&name).is_some()),
                4 => {
                    let is_there = set.set_attributes(&name, Some(b"[]"));
                    prop_assert_eq!(is_there, model.contains_key(&name));
                    model.entry(name).and_modify(|entry| entry.1 = Some(b"[]".to_vec()));
                }
                _ => snapshots.push((set.snapshot(), model.clone())),
            }
            prop_assert_eq!(set.len(), model.len());
        }
        let all: Vec<_> = model.iter().map(|(name, (v, a))| (name.clone(), v.clone(), a.clone())).collect();
        prop_assert_eq!(&contents(&set), &all);
        prop_assert_eq!(set.info().attributed, all.iter().filter(|one| one.2.is_some()).count());
        for (snapshot, model) in &snapshots {
            let of_snapshot: BTreeMap<_, _> = snapshot
                .nodes_from(0)
                .map(|node| (node.name().to_vec(), (node.vector().to_owned(), node.attributes().map(<[u8]>::to_vec))))
                .collect();
            prop_assert_eq!(&of_snapshot, model);
        }
        if !all.is_empty() {
            let copy = reloaded(&set).unwrap();
            prop_assert_eq!(&contents(&copy), &all);
            let query = set.shape().query_of(vector(&set, 7).as_ref());
            let names = |set: &VectorSet, exact| -> Vec<f32> {
                set.search(&query, &search(10, exact), None).iter().map(|hit| hit.distance).collect()
            };
            prop_assert_eq!(names(&set, true), names(&copy, true));
            prop_assert_eq!(names(&set, false), names(&set, true));
        }
        drop(snapshots);
        let twin = set.duplicate();
        prop_assert_eq!(&contents(&twin), &all);
        // After removal of everything only spare capacity remains.
        for (name, ..) in &all {
            set.remove(name);
        }
        prop_assert!(set.is_empty() && set.inner.read().texts.iter().all(|texts| (0..40).all(|at| texts.get(at).is_none())));
        prop_assert_eq!(set.inner.read().attributed, 0);
        prop_assert_eq!(contents(&twin), all);
    }

    #[test]
    fn any_image_is_a_set_or_an_error(
        nodes in prop::collection::vec(
            (0u64..6, 0u8..6, prop::collection::vec(prop::collection::vec(0u64..6, 0..5), 0..3)),
            0..6,
        ),
    ) {
        let mut loader = Loader::new(shape(2), 1).unwrap();
        let code = [1, 2];
        let factors = crate::Factors { norm: 1.0, range: 1.0 };
        let mut pushed = 0;
        for (number, name, levels) in &nodes {
            let vector = EncodedRef { code: &code, factors };
            let image = SnapshotItem { number: *number, name: &[*name], attributes: None, vector, levels };
            pushed += usize::from(loader.push(&image).is_ok());
        }
        if let Ok(set) = loader.finish() {
            prop_assert_eq!(set.len(), pushed);
            let query = set.shape().query_of(vector(&set, 1).as_ref());
            set.search(&query, &search(3, false), None);
            for (_, name, _) in &nodes {
                set.remove(&[*name]);
            }
            prop_assert!(set.is_empty());
        }
    }
}

#[test]
fn images_that_are_wrong_are_refused() {
    let code = [1u8, 2];
    let factors = crate::Factors { norm: 1.0, range: 1.0 };
    type Node<'a> = (u64, &'a [u8], Vec<Vec<u64>>);
    let load = |nodes: &[Node<'_>]| {
        let mut loader = Loader::new(shape(2), 1)?;
        for (number, name, levels) in nodes {
            let vector = EncodedRef { code: &code, factors };
            loader.push(&SnapshotItem {
                number: *number,
                name,
                attributes: None,
                vector,
                levels,
            })?;
        }
        loader.finish().map(|set| set.len())
    };
    let one = |links: &[u64]| vec![links.to_vec()];
    assert_eq!(load(&[(1, b"a", one(&[2])), (2, b"b", one(&[1]))]), Ok(2));
    assert_eq!(load(&[]), Err(LoadError::Empty));
    assert_eq!(load(&[(0, b"a", one(&[]))]), Err(LoadError::NumberZero));
    assert_eq!(load(&[(1, b"a", one(&[])), (1, b"b", one(&[]))]), Err(LoadError::DoubledNumber));
    assert_eq!(load(&[(1, b"a", one(&[])), (2, b"a", one(&[]))]), Err(LoadError::DoubledName));
    assert_eq!(load(&[(1, b"a", one(&[2])), (2, b"b", one(&[]))]), Err(LoadError::OneWayLink));
    assert_eq!(load(&[(1, b"a", one(&[2, 2])), (2, b"b", one(&[1]))]), Err(LoadError::DoubledLink));
    assert_eq!(load(&[(1, b"a", one(&[1]))]), Err(LoadError::LinkTarget));
    assert_eq!(load(&[(1, b"a", one(&[9]))]), Err(LoadError::LinkTarget));
    assert_eq!(load(&[(1, b"a", one(&[1; 9]))]), Err(LoadError::LinkCount));
    assert_eq!(load(&[(1, b"a", vec![])]), Err(LoadError::Levels));
    assert_eq!(load(&[(1, b"a", vec![vec![]; 17])]), Err(LoadError::Levels));
    let wide = Shape { dim: 1 << 20, ..shape(2) };
    assert_eq!(Loader::new(wide, 1).err(), Some(LoadError::Shape));
    let mut loader = Loader::new(shape(3), 1).unwrap();
    let vector = EncodedRef { code: &code, factors };
    let levels = one(&[]);
    let image = SnapshotItem { number: 1, name: b"a", attributes: None, vector, levels: &levels };
    assert_eq!(loader.push(&image), Err(LoadError::CodeLength));
}

#[test]
fn names_have_an_order() {
    let set = VectorSet::new(shape(2), 1);
    for name in ["b", "a", "d", "c"] {
        set.insert(name.as_bytes(), vector(&set, 1).as_ref(), None, 10);
    }
    let range = |from, to, max| -> String {
        set.range(from, to, max).iter().flat_map(|name| name.iter().map(|&b| b as char)).collect()
    };
    assert_eq!(range(Bound::Unbounded, Bound::Unbounded, 9), "abcd");
    assert_eq!(range(Bound::Excluded(b"a"), Bound::Included(b"c"), 9), "bc");
    assert_eq!(range(Bound::Included(b"c"), Bound::Excluded(b"c"), 9), "");
    assert_eq!(range(Bound::Excluded(b"c"), Bound::Excluded(b"c"), 9), "");
    assert_eq!(range(Bound::Included(b"d"), Bound::Included(b"a"), 9), "");
    assert_eq!(range(Bound::Unbounded, Bound::Unbounded, 2), "ab");
}

#[test]
fn chance_reaches_all() {
    let set = VectorSet::new(shape(2), 1);
    for n in 0..40u32 {
        set.insert(&n.to_le_bytes(), vector(&set, n).as_ref(), None, 10);
    }
    let mut state = 1u64;
    let mut below = move |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    for count in [0, 5, 13, 39, 40, 50] {
        let names: HashSet<_> = set.sample(count, &mut below).into_iter().collect();
        assert_eq!(names.len(), count.min(40));
    }
    let seen: HashSet<_> = (0..2000).filter_map(|_| set.random(&mut below)).collect();
    assert_eq!(seen.len(), 40);
    for n in 1..40u32 {
        set.remove(&n.to_le_bytes());
    }
    assert_eq!(set.random(&mut below).as_deref(), Some(&0u32.to_le_bytes()[..]));
}

/// Two threads insert, update, remove and change attributes; two search, also with a filter.
fn search_beside_changes(quantisation: Quantisation) {
    // A length that is no multiple of any kernel's step.
    let set = VectorSet::new(Shape { quantisation, ..shape(75) }, 3);
    for n in 0..400u32 {
        set.insert(&n.to_le_bytes(), vector(&set, n).as_ref(), Some(b"{\"a\":1}"), 50);
    }
    let filter = Filter::compile(b".a == 1").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let set = &set;
            scope.spawn(move || {
                for n in 0..600u32 {
                    // The first hundred stay.
                    let name = (100 + (n * 7 + thread) % 300).to_le_bytes();
                    match n % 4 {
                        0 => drop(set.remove(&name)),
                        1 => drop(set.set_attributes(&name, Some(b"{\"a\":2}"))),
                        _ => drop(set.insert(&name, vector(set, n).as_ref(), None, 50)),
                    }
                }
            });
        }
        for thread in 0..2u32 {
            let (set, filter) = (&set, &filter);
            scope.spawn(move || {
                for n in 0..200u32 {
                    let name = (n % 100).to_le_bytes();
                    let own = set.shape().query_of(set.vector(&name).unwrap().as_ref());
                    let exact = (n + thread).is_multiple_of(5);
                    let filter = n.is_multiple_of(2).then_some(filter);
                    let hits = set.search(&own, &search(10, exact), filter);
                    assert!(!hits.is_empty());
                    assert!(hits.is_sorted_by(|a, b| a.distance <= b.distance));
                }
            });
        }
    });
    let copy = reloaded(&set).unwrap();
    assert_eq!(contents(&copy), contents(&set));
}

#[test]
fn threads_search_beside_changes() {
    let forms = [Quantisation::None, Quantisation::Q8, Quantisation::Binary, Quantisation::RaBitQ];
    forms.into_iter().for_each(search_beside_changes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn filters_tell_what_the_attributes_are_now(
        steps in prop::collection::vec((0u8..5, 0u32..60, 0u32..4), 0..200),
    ) {
        let set = VectorSet::new(shape(5), 11);
        let mut model = BTreeMap::new();
        for (step, n, value) in steps {
            let name = n.to_string().into_bytes();
            let attributes = format!("{{\"a\":{value}}}");
            match step {
                0 | 1 => {
                    let new = vector(&set, n * 7 + value);
                    set.insert(&name, new.as_ref(), Some(attributes.as_bytes()), 20);
                    model.insert(name, value);
                }
                2 => prop_assert_eq!(set.remove(&name), model.remove(&name).is_some()),
                3 => {
                    set.set_attributes(&name, Some(attributes.as_bytes()));
                    model.entry(name).and_modify(|it| *it = value);
                }
                _ => {
                    // More filters than are memoised.
                    let text = format!(".a == {} or 0 > {}", value, n % 5);
                    let filter = Filter::compile(text.as_bytes()).unwrap();
                    let query = set.shape().query_of(vector(&set, n).as_ref());
                    let hits = set.search(&query, &search(100, false), Some(&filter));
                    let found: HashSet<_> = hits.iter().map(|hit| hit.name.to_vec()).collect();
                    let passing = model.iter().filter(|it| *it.1 == value);
                    let expected: HashSet<_> = passing.map(|it| it.0.clone()).collect();
                    prop_assert_eq!(hits.len(), expected.len());
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}

#[test]
fn filters_find_the_nearest_whatever_share_passes() {
    let mut set = shape(10);
    set.links = 16;
    let set = VectorSet::new(set, 1);
    for n in 0..6000u32 {
        let attributes = format!("{{\"n\":{}}}", n.wrapping_mul(2_654_435_761) % 1000);
        set.insert(&n.to_le_bytes(), vector(&set, n).as_ref(), Some(attributes.as_bytes()), 60);
    }
    // The first search of each evaluates only a part, limited by the budget.
    let budget = Search { count: 10, ef: 40, epsilon: None, filter_ef: 100, exact: false };
    for share in [0, 10, 100, 300, 500, 1000] {
        let filter = Filter::compile(format!(".n < {share}").as_bytes()).unwrap();
        let (mut found, mut exact) = (0, 0);
        for n in 0..30 {
            let query = set.shape().query_of(vector(&set, 7_000 + n).as_ref());
            let hits = set.search(&query, &budget, Some(&filter));
            for hit in &hits {
                assert!(filter.passes(hit.attributes.as_deref().unwrap()));
            }
            let nearest = set.search(&query, &Search { exact: true, ..budget }, Some(&filter));
            if n >= 5 {
                assert_eq!(hits.len(), nearest.len(), "{share}");
                let farthest = nearest.last().map_or(0.0, |hit| hit.distance);
                found += hits.iter().filter(|hit| hit.distance <= farthest).count();
                exact += nearest.len();
            }
        }
        assert!(found as f64 >= 0.95 * exact as f64, "{share}: {found} of {exact}");
    }
}

/// Completely linked elements, as an untrusted snapshot may have: an algorithm that is cubic in
/// their number would take minutes. A replaced element is linked like a new one.
#[test]
fn the_most_links_there_may_be_take_no_product_of_their_number() {
    const ELEMENTS: u64 = 5000;
    let shape = Shape { links: 4096, quantisation: Quantisation::Binary, ..shape(64) };
    let set = VectorSet::new(shape, 1);
    let began = std::time::Instant::now();
    let mut loader = Loader::new(shape, 1).unwrap();
    for number in 1..=ELEMENTS {
        let vector = vector(&set, number as u32);
        let links: Vec<u64> = (1..=ELEMENTS).filter(|&other| other != number).collect();
        let (name, levels) = (number.to_le_bytes(), [links]);
        let (vector, attributes) = (vector.as_ref(), None);
        loader
            .push(&SnapshotItem { number, name: &name, attributes, vector, levels: &levels })
            .unwrap();
    }
    let set = loader.finish().unwrap();
    assert!(set.remove(&1u64.to_le_bytes()));
    for number in [1, 2, 1] {
        set.insert(&u64::to_le_bytes(number), vector(&set, 7).as_ref(), None, 1_000_000).unwrap();
    }
    assert_eq!(set.len() as u64, ELEMENTS);
    let all = search(ELEMENTS as usize, false);
    let query = shape.query_of(vector(&set, 3).as_ref());
    assert_eq!(set.search(&query, &Search { ef: 1_000_000, ..all }, None).len() as u64, ELEMENTS);
    // Takes about a second.
    assert!(began.elapsed() < std::time::Duration::from_secs(40), "{:?}", began.elapsed());
}

/// A stopped operation leaves the set unchanged, and stops promptly.
#[test]
fn searches_and_inserts_stop_on_request() {
    let set = VectorSet::new(shape(16), 5);
    for n in 0..5000u32 {
        set.insert(&n.to_le_bytes(), vector(&set, n).as_ref(), Some(b"{\"a\":1}"), 20).unwrap();
    }
    let query = set.shape().query_of(vector(&set, 3).as_ref());
    let expression = vec![".a == 1"; 500].join(" and ");
    let filter = Filter::compile(expression.as_bytes()).unwrap();
    for (exact, filter) in
        [(false, None), (true, None), (false, Some(&filter)), (true, Some(&filter))]
    {
        let search = Search { count: 3000, ef: 1_000_000, ..search(0, exact) };
        let mut asked = 0;
        let all = set.search_while(&query, &search, filter, &mut |_| {
            asked += 1;
            true
        });
        assert_eq!(all.unwrap().len(), 3000);
        if let Some(filter) = filter {
            // Known results are not evaluated again.
            set.memos.of(filter, 5000);
            (0..5000).for_each(|node| set.memos.forget(node));
        }
        for ends in [0, asked / 2] {
            let mut times = 0;
            let none = set.search_while(&query, &search, filter, &mut |_| {
                times += 1;
                times <= ends
            });
            assert!(none.is_none() || asked == 0, "{exact} {asked}");
            assert!(times <= ends + 1);
        }
    }
    let before = contents(&set);
    for name in [&3u32.to_le_bytes()[..], b"new"] {
        let vector = vector(&set, 9);
        let ended = set.insert_while(name, vector.as_ref(), None, 4000, &mut |_| false);
        assert_eq!(ended, Err(NotInserted::Ended));
    }
    assert!(contents(&set) == before);
}
