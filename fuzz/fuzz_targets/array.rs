//! An array must do as a map does, whatever changes come, and a snapshot must have what was there
//! when it began.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_array::{Array, Element, INDEX_MAX};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

type Pairs = Vec<(u64, Vec<u8>)>;

/// An index near others, or any.
fn index_of(number: u64) -> u64 {
    if number % 4 < 3 { number / 4 % 1000 } else { number.min(INDEX_MAX) }
}

fn pairs(array: &Array) -> Pairs {
    let mut found = Vec::new();
    let _ = array.each(0, INDEX_MAX, &mut |index, element| {
        found.push((index, element.with_text(<[u8]>::to_vec)));
        ControlFlow::<()>::Continue(())
    });
    found
}

fuzz_target!(|steps: Vec<(u8, u64, u64, Vec<u8>)>| {
    let (mut array, mut model) = (Array::default(), BTreeMap::new());
    let mut snapshot: Option<(Pairs, Pairs)> = None;
    for (kind, number, other, text) in steps {
        let index = index_of(number);
        match kind % 6 {
            0 => {
                array.set(index, Element::Text(&text));
                model.insert(index, text);
            }
            1 => {
                array.set(index, Element::Int(other as i64));
                model.insert(index, (other as i64).to_string().into_bytes());
            }
            2 => {
                for i in 0..u64::from(kind) {
                    let (index, number) = (index.saturating_add(i).min(INDEX_MAX), other ^ i);
                    array.set(index, Element::Int(number as i64));
                    model.insert(index, (number as i64).to_string().into_bytes());
                }
            }
            3 => {
                let other = index_of(other);
                let (lo, hi) = (index.min(other), index.max(other));
                let before = model.len();
                model.retain(|index, _| !(lo..=hi).contains(index));
                assert_eq!(array.remove_between(lo, hi), (before - model.len()) as u64);
            }
            4 if snapshot.is_none() => {
                snapshot = Some((pairs(&array), Vec::new()));
                array.begin_snapshot();
            }
            _ => take(&mut array, &mut snapshot),
        }
    }
    assert_eq!(pairs(&array), model.into_iter().collect::<Pairs>());
    while snapshot.is_some() {
        take(&mut array, &mut snapshot);
    }
});

/// Takes a part of the snapshot, and compares it with what was there at its end.
fn take(array: &mut Array, snapshot: &mut Option<(Pairs, Pairs)>) {
    let Some((expected, taken)) = snapshot else { return };
    let goes_on = array.next_part(&mut |part| {
        part.each(&mut |index, element| {
            taken.push((index, element.with_text(<[u8]>::to_vec)));
        });
    });
    if !goes_on {
        assert_eq!(taken, expected);
        *snapshot = None;
    }
}
