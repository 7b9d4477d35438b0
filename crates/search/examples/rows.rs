//! Nanoseconds of a change and of a query: `cargo run --release -p petrel-search --example rows`.

use petrel_search::index::condition::{Condition, TagTest};
use petrel_search::index::contents::{Applying, Change, ChangeKind, Extent, FieldChange};
use petrel_search::index::coverage::{Covering, View};
use petrel_search::index::live::Live;
use petrel_search::index::schema::{DocumentOptions, Field, FieldKind, Schema};
use petrel_search::index::search::{FIRST_STEP, Order, Query, Run};
use petrel_search::structures::numbers::Range;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

const DOCUMENTS: u64 = 300_000;

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

fn schema(prefix: &[u8]) -> Schema {
    let tag = FieldKind::Tag { separator: b',', is_case_sensitive: false, with_suffix_trie: false };
    Schema {
        prefixes: vec![prefix.into()],
        fields: vec![field(b"n", FieldKind::Number), field(b"t", tag)],
        documents: DocumentOptions::default(),
        flags: Vec::new(),
        stop_words: None,
        synonyms: Arc::default(),
        temporary_s: 0,
    }
}

fn timed(name: &str, count: u64, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    println!("{name:<44} {:>9.0} ns", start.elapsed().as_nanos() as f64 / count as f64);
}

fn put(live: &Live, document: u64, number: u64, sequence: u64, has_tag: bool) {
    let key = format!("e:{document}");
    let bytes = format!("{number}tag{}", document % 1000).into_bytes();
    let digits = number.to_string().len();
    let fields = [
        FieldChange { number: 0, value: Some(0..digits), expiry: None },
        FieldChange { number: 1, value: Some(digits..bytes.len()), expiry: None },
    ];
    let fields = if has_tag { &fields[..] } else { &fields[..1] };
    let hash = document.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let kind = ChangeKind::Put { extent: Extent::Fields, expiry: None, fields, bytes: &bytes };
    let mut contents = live.write();
    contents.begin();
    let change = Change { key: key.as_bytes(), hash, sequence, kind };
    contents.apply(&change, Applying { snapshot: None, in_flight: false });
}

fn search(live: &Live, condition: Condition) -> usize {
    let query = Query {
        condition,
        keys: None,
        order: Order::Rows,
        needed: 10,
        now_ms: 1,
        vectors: Default::default(),
    };
    let contents = live.read();
    let mut run = Run::new(&query, &contents);
    while !run.step(&contents, FIRST_STEP) {}
    run.finish().total
}

fn main() {
    let live = Live::new(1, &schema(b"e:"));
    let mixed = |n: u64| n.wrapping_mul(7919) % DOCUMENTS;
    timed("new document, a number and a tag", DOCUMENTS, || {
        (0..DOCUMENTS).for_each(|n| put(&live, n, mixed(n), n + 1, true));
    });
    let bytes = live.read().footprint();
    println!("{:<44} {:>9.1} bytes", "a document", bytes as f64 / DOCUMENTS as f64);
    timed("another number", DOCUMENTS, || {
        (0..DOCUMENTS).for_each(|n| put(&live, mixed(n), n, DOCUMENTS + n + 1, false));
    });
    let range = |min, max| Range { min: Bound::Included(min), max: Bound::Included(max) };
    let number = |min, max| Condition::Number { field: 0, range: range(min, max) };
    let tag =
        |text: &str| Condition::Tag { field: 1, tests: vec![TagTest::Is(text.as_bytes().into())] };
    timed("query: one tag of 300 documents", 1000, || {
        (0..1000).for_each(|n| assert_eq!(search(&live, tag(&format!("tag{n}"))), 300));
    });
    timed("query: a range of 1,000 numbers", 1000, || {
        (0..1000u32).for_each(|n| {
            black_box(search(&live, number(f64::from(n) * 100.0, f64::from(n) * 100.0 + 999.0)));
        });
    });
    timed("query: a tag and half of the numbers", 1000, || {
        (0..1000).for_each(|n| {
            black_box(search(
                &live,
                Condition::All(vec![number(0.0, 150_000.0), tag(&format!("tag{n}"))]),
            ));
        });
    });
    timed("query: everything", 100, || {
        (0..100).for_each(|_| assert_eq!(search(&live, Condition::Everything), DOCUMENTS as usize));
    });
    let prefixes =
        ["user:", "item:", "order:", "sess:", "cart:", "prod:", "h1:", "ha:", "log:", "zone:"];
    let indexes = prefixes.iter().enumerate().map(|(at, prefix)| {
        let schema = Arc::new(schema(prefix.as_bytes()));
        Covering::new(0, Live::new(at as u64, &schema), schema)
    });
    let view = View::new(indexes.collect());
    let keys: Vec<String> = (0..1000).map(|n| format!("key:{n}")).collect();
    timed("uncovered key, ten prefixes", 1_000_000, || {
        for _ in 0..1000 {
            keys.iter()
                .for_each(|key| assert!(black_box(view.covering(0, key.as_bytes())).is_empty()));
        }
    });
}
