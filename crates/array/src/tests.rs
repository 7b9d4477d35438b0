//! Arrays beside a model: a map of texts by index.

use crate::{Array, Element, INDEX_MAX};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

type Model = BTreeMap<u64, Vec<u8>>;
type Pairs = Vec<(u64, Vec<u8>)>;

/// Draws numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn index(&mut self) -> u64 {
        match self.below(10) {
            0..5 => self.below(600),
            5..7 => 100_000 + self.below(3000),
            7 => self.below(200) * 256 * 100,
            8 => INDEX_MAX - self.below(300),
            _ => self.next().min(INDEX_MAX),
        }
    }

    fn text(&mut self) -> Vec<u8> {
        match self.below(8) {
            0..3 => self.below(300).to_string().into_bytes(),
            3 => (self.next() as i64 >> self.below(64)).to_string().into_bytes(),
            4 => vec![b'x'; self.below(70) as usize],
            5 => vec![b'y'; 60 + self.below(200) as usize],
            _ => format!("text {}", self.below(1000)).into_bytes(),
        }
    }
}

fn element(text: &[u8]) -> Element<'_> {
    let number = str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
    match number.filter(|number| number.to_string().as_bytes() == text) {
        Some(number) => Element::Int(number),
        None => Element::Text(text),
    }
}

fn all(array: &Array) -> Pairs {
    collect(array, 0, INDEX_MAX)
}

fn collect(array: &Array, from: u64, to: u64) -> Pairs {
    let mut found = Vec::new();
    let _ = array.each(from, to, &mut |index, element| {
        found.push((index, element.with_text(<[u8]>::to_vec)));
        ControlFlow::<()>::Continue(())
    });
    found
}

fn is_like(array: &Array, model: &Model) {
    assert_eq!(array.count(), model.len() as u64);
    assert_eq!(array.is_empty(), model.is_empty());
    assert_eq!(array.len(), model.last_key_value().map_or(0, |(index, _)| index + 1));
    assert_eq!(array.allocated(), array.allocated_counted());
    let pairs: Vec<_> = model.iter().map(|(index, text)| (*index, text.clone())).collect();
    assert!(all(array) == pairs);
}

fn parts(array: &mut Array, most: usize, into: &mut Pairs) -> bool {
    (0..most).all(|_| {
        array.next_part(&mut |part| {
            part.each(&mut |index, element| into.push((index, element.with_text(<[u8]>::to_vec))));
        })
    })
}

#[test]
fn random_changes_and_ranges_are_those_of_the_model() {
    for seed in 0..8 {
        let (mut random, mut array, mut model) = (Random(seed), Array::default(), Model::new());
        let mut snapshot: Option<(Pairs, Pairs)> = None;
        let (steps, removals) = (700, 1 + random.below(6));
        for step in 0..steps {
            let index = random.index();
            match random.below(10) {
                0..6 => {
                    let run = if random.below(4) == 0 { 300 } else { 1 + random.below(3) };
                    for index in index..=index.saturating_add(run - 1).min(INDEX_MAX) {
                        let text = random.text();
                        let was = model.insert(index, text.clone());
                        assert_eq!(array.set(index, element(&text)), was.is_none());
                    }
                }
                6 | 7 => assert_eq!(array.remove(index), model.remove(&index).is_some()),
                8 if random.below(8) < removals => {
                    let other = random.index();
                    let (lo, hi) = (index.min(other), index.max(other));
                    let there: Vec<u64> = model.range(lo..=hi).map(|(index, _)| *index).collect();
                    assert_eq!(array.count_between(lo, hi), there.len() as u64);
                    assert_eq!(array.remove_between(lo, hi), there.len() as u64);
                    there.iter().for_each(|index| drop(model.remove(index)));
                }
                _ => {
                    let other = random.index();
                    let mut expected: Pairs = model
                        .range(index.min(other)..=index.max(other))
                        .map(|(index, text)| (*index, text.clone()))
                        .collect();
                    if index > other {
                        expected.reverse();
                    }
                    assert!(collect(&array, index, other) == expected);
                    let found = array.get(index).map(|found| found.with_text(<[u8]>::to_vec));
                    assert_eq!(found, model.get(&index).cloned());
                }
            }
            match &mut snapshot {
                None if random.below(50) == 0 => {
                    snapshot = Some((all(&array), Vec::new()));
                    array.begin_snapshot();
                }
                Some((expected, taken)) if random.below(5) == 0 => {
                    let goes_on = parts(&mut array, 2, taken);
                    if !goes_on {
                        assert!(taken == expected);
                        snapshot = None;
                    }
                }
                _ => {}
            }
            if step % 50 == 0 || step == steps - 1 {
                is_like(&array, &model);
                is_like(&array.duplicate(), &model);
            }
        }
        if let Some((expected, mut taken)) = snapshot {
            while parts(&mut array, 1, &mut taken) {}
            assert!(taken == expected);
        }
        array.remove_between(0, INDEX_MAX);
        is_like(&array, &Model::new());
        assert_eq!((array.allocated(), array.slices(), array.blocks()), (0, 0, 0));
    }
}

/// A ring as Redis describes it: texts by index and a cursor.
#[test]
fn rings_keep_the_newest() {
    let ring = |array: &mut Array, size: u64, texts: &[&str]| {
        array.ring(size, texts.iter().map(|text| Element::Text(text.as_bytes())))
    };
    let shown = |array: &Array| -> Vec<String> {
        let all = all(array).into_iter();
        all.map(|(index, text)| format!("{index}{}", String::from_utf8(text).unwrap())).collect()
    };
    let mut array = Array::default();
    assert_eq!(ring(&mut array, 5, &["a", "b", "c", "d", "e", "f", "g", "h"]), Some(2));
    assert_eq!(shown(&array), ["0f", "1g", "2h", "3d", "4e"]);
    assert_eq!(array.last_positions(10), [Some((2, 0)), Some((4, 3))]);
    assert_eq!(array.last_positions(2), [Some((2, 1)), None]);
    let mut larger = array.duplicate();
    assert_eq!(ring(&mut larger, 8, &["i"]), Some(5));
    assert_eq!(shown(&larger), ["0d", "1e", "2f", "3g", "4h", "5i"]);
    let mut smaller = array.duplicate();
    assert_eq!(ring(&mut smaller, 3, &["i"]), Some(0));
    assert_eq!(shown(&smaller), ["0i", "1g", "2h"]);
    array.remove(1);
    assert_eq!(ring(&mut array, 8, &["i"]), Some(1));
    assert_eq!(shown(&array), ["0h", "1i"]);
    // Without a cursor, a ring that is smaller is cut, and one that is larger stays.
    array.set(9, Element::Text(b"x"));
    array.seek(0);
    assert_eq!(ring(&mut array, 20, &["j"]), Some(0));
    array.seek(0);
    assert_eq!(ring(&mut array, 3, &["k", "l", "m", "n"]), Some(0));
    assert_eq!(shown(&array), ["0n", "1l", "2m"]);
    assert_eq!(ring(&mut array, 0, &["k"]), None);
    array.seek(u64::MAX);
    assert_eq!(array.next_insert(), None);
    assert_eq!(array.insert([Element::Int(1)].into_iter()), None);
    assert_eq!(ring(&mut array, u64::MAX, &["o"]), Some(0));
    array.seek(INDEX_MAX);
    assert_eq!(array.insert([Element::Int(1), Element::Int(2)].into_iter()), None);
    assert_eq!(array.insert([Element::Int(1)].into_iter()), Some(INDEX_MAX));
    assert_eq!(array.len(), u64::MAX);
}

#[test]
fn elements_take_little_memory() {
    let per_element = |count: u64, set: &dyn Fn(&mut Array, u64)| {
        let mut array = Array::default();
        (0..count).for_each(|i| set(&mut array, i));
        array.allocated() as f64 / count as f64
    };
    let sequence = per_element(100_000, &|array, i| {
        array.set(i, Element::Int(i as i64));
    });
    assert!(sequence < 2.0, "{sequence}");
    let mixed = per_element(100_000, &|array, i| {
        array.set(i, Element::Int((i * 48_271 % 65_536) as i64));
    });
    assert!(mixed < 3.0, "{mixed}");
    let texts = per_element(100_000, &|array, i| {
        array.set(i, Element::Text(format!("a text of 20 {i:07}").as_bytes()));
    });
    assert!(texts < 24.0, "{texts}");
    let far = per_element(10_000, &|array, i| {
        array.set(i << 40, Element::Int(7));
    });
    assert!(far < 80.0, "{far}");
    let mut random = Random(1);
    let mut array = Array::default();
    for _ in 0..10_000 {
        array.set(random.next() >> 1, Element::Text(b"a text of 20 bytes.."));
    }
    let scattered = array.allocated() / 10_000;
    assert!(scattered < 120, "{scattered}");
}

#[test]
fn figures_are_those_of_larger_slices() {
    let mut array = Array::default();
    (500..600).for_each(|i| {
        array.set(i, Element::Int(0));
    });
    [8192, 9000, 12_287].iter().for_each(|&i| {
        array.set(i, Element::Int(0));
    });
    let figures = array.figures(4096, 10, &mut || ControlFlow::<()>::Continue(()));
    let ControlFlow::Continue(figures) = figures else { panic!("ended") };
    assert_eq!((figures.dense, figures.dense_elements, figures.dense_positions), (1, 100, 128));
    assert_eq!((figures.sparse, figures.sparse_positions), (1, 4));
    assert!(array.figures(4096, 10, &mut || ControlFlow::Break(())).is_break());
}
