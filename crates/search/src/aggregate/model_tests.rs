//! Random steps beside a direct computation of the same.

use crate::aggregate::pipeline::{Documents, Pipeline, Row};
use crate::aggregate::plan::{Load, Plan};
use crate::aggregate::step::{Arrange, Reduce, Step};
use crate::aggregate::value::Value;
use crate::index::distances::VectorQuery;
use crate::index::schema::{DocumentOptions, Field, FieldKind, Schema};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

struct NoDocuments;

impl Documents for NoDocuments {
    type Error = Infallible;

    fn load(&mut self, _: &Load, _: &mut Row) -> Result<bool, Infallible> {
        Ok(true)
    }
}

fn schema() -> Schema {
    let field = |name: &[u8]| Field {
        source: name.into(),
        name: name.into(),
        kind: FieldKind::Number,
        is_sortable: true,
        is_unfolded: false,
        is_unindexed: false,
        indexes_empty: false,
        indexes_missing: false,
    };
    Schema {
        prefixes: vec![b"".as_slice().into()],
        fields: vec![field(b"a"), field(b"b")],
        documents: DocumentOptions::default(),
        flags: Vec::new(),
        stop_words: None,
        synonyms: Arc::default(),
        temporary_s: 0,
    }
}

type Pair = (Option<i32>, Option<i32>);

/// Runs steps over pairs of numbers, taking results in chunks.
fn run(steps: &[Step<'_>], pairs: &[Pair], chunk: usize) -> Vec<Vec<Option<f64>>> {
    let vectors = VectorQuery::default();
    let plan = Plan::new(steps, (&schema(), true), &vectors, false, usize::MAX);
    let plan = Arc::new(plan.expect("known names"));
    let mut pipeline = Pipeline::new(plan.clone());
    let mut results = Vec::new();
    let mut left = pairs.iter();
    loop {
        while pipeline.takes_documents() && pipeline.ready() < chunk {
            let Some((a, b)) = left.next() else {
                pipeline.end_documents();
                break;
            };
            let mut row = Row { values: vec![None; plan.slots], ..Row::default() };
            for &(field, slot) in &plan.columns {
                let value = if field == 0 { a } else { b };
                row.values[slot] = value.map(|value| Value::Number(value.into()));
            }
            let Ok(()) = pipeline.push(row, &mut NoDocuments);
        }
        loop {
            let Ok(is_more) = pipeline.step(chunk, 3, &mut NoDocuments);
            if !is_more {
                break;
            }
        }
        let before = results.len();
        for _ in 0..chunk {
            let Some(row) = pipeline.take_result() else { break };
            let value = |slot: usize| row.values[slot].as_ref().and_then(Value::number);
            results.push(plan.names.iter().map(|&(_, slot)| value(slot)).collect());
        }
        if results.len() == before {
            assert!(pipeline.footprint() < 4096, "{}", pipeline.footprint());
            return results;
        }
    }
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let number = || proptest::option::weighted(0.9, -5i32..5);
    proptest::collection::vec((number(), number()), 0..60)
}

proptest! {
    #[test]
    fn groups_are_sums_of_their_rows(pairs in pairs(), chunk in 1usize..8) {
        let reduce = |function, arguments| Reduce { function, arguments, name: None };
        let b: &[&[u8]] = &[b"@b"];
        let reducers = vec![
            reduce(&b"COUNT"[..], &[][..]),
            reduce(b"SUM", b),
            reduce(b"MIN", b),
            reduce(b"MAX", b),
            reduce(b"COUNT_DISTINCT", b),
        ];
        let sort = Arrange { sort: Some(vec![(b"a", false)]), offset: 0, count: Some(100) };
        let steps = [Step::Group { by: vec![b"a"], reducers }, Step::Arrange(sort)];
        let mut groups: BTreeMap<Option<i32>, Vec<Option<i32>>> = BTreeMap::new();
        for (a, b) in &pairs {
            groups.entry(*a).or_default().push(*b);
        }
        let expected: Vec<Vec<Option<f64>>> = groups
            .into_iter()
            .map(|(a, all)| {
                let mut numbers: Vec<i32> = all.iter().flatten().copied().collect();
                numbers.sort_unstable();
                let count = all.len() as f64;
                let sum = numbers.iter().sum::<i32>() as f64;
                let end = |number: Option<&i32>| f64::from(number.copied().unwrap_or(0));
                let (least, most) = (end(numbers.first()), end(numbers.last()));
                numbers.dedup();
                let distinct = numbers.len() as f64;
                vec![a.map(f64::from), Some(count), Some(sum), Some(least), Some(most),
                     Some(distinct)]
            })
            .collect();
        prop_assert_eq!(run(&steps, &pairs, chunk), expected);
    }

    #[test]
    fn pages_are_parts_of_the_order(
        pairs in pairs(),
        is_descending: bool,
        (offset, count) in (0usize..20, 1usize..20),
        chunk in 1usize..8,
    ) {
        let keys: Vec<(&[u8], bool)> = vec![(b"a", is_descending), (b"b", false)];
        let steps = [
            Step::Filter(b"!exists(@b) || @b != 3"),
            Step::Arrange(Arrange { sort: Some(keys), offset, count: Some(count) }),
        ];
        let mut sorted: Vec<(usize, Pair)> =
            pairs.iter().copied().enumerate().filter(|(_, (_, b))| *b != Some(3)).collect();
        // Missing values are last in both directions.
        sorted.sort_by_key(|&(place, (a, b))| {
            let a = a.map(|a| if is_descending { -a } else { a });
            (a.is_none(), a, b.is_none(), b, place)
        });
        let page = sorted.iter().skip(offset).take(count);
        let expected: Vec<Vec<Option<f64>>> =
            page.map(|(_, (a, b))| vec![b.map(f64::from), a.map(f64::from)]).collect();
        prop_assert_eq!(run(&steps, &pairs, chunk), expected);
    }
}
