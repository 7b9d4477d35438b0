//! An index beside a list of documents: the same answers after every change, and while queries are
//! suspended.

use super::condition::{Condition, TagTest, Words, WordsOptions};
use super::contents::{Applying, Change, ChangeKind, Contents, Extent, FieldChange};
use super::distances::{Distance, Near, VectorQuery};
use super::document::{Document, Stored};
use super::live::Live;
use super::schema::{DocumentOptions, Field, FieldKind, Schema};
use super::search::{FIRST_STEP, Found, Hit, Order, Query, Run, SortKey};
use super::texts::TextRules;
use crate::query::ast::{
    FieldMask, Node, NodeKind, NumericRange, Pattern, TagValue, Term, VectorArgument, VectorRange,
};
use crate::structures::numbers::Range;
use crate::vectors::{Algorithm, ELEMENTS, Metric, QueryVector, VectorSpec};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

const KEYS: u32 = 40;
const FIELDS: usize = 7;
/// Numbers of the TEXT fields.
const TEXTS: std::ops::Range<usize> = 4..6;
/// Number of the VECTOR field.
const VECTOR: usize = 6;

fn field(name: &str, kind: FieldKind) -> Field {
    Field {
        source: name.as_bytes().into(),
        name: name.as_bytes().into(),
        kind,
        is_sortable: false,
        is_unfolded: false,
        is_unindexed: false,
        indexes_empty: false,
        indexes_missing: true,
    }
}

fn schema() -> Schema {
    let tag = |is_case_sensitive| FieldKind::Tag {
        separator: b',',
        is_case_sensitive,
        with_suffix_trie: false,
    };
    let words =
        |is_unstemmed| FieldKind::Text { weight: 1.0, is_unstemmed, with_suffix_trie: false };
    Schema {
        prefixes: vec![Box::default()],
        fields: vec![
            Field { is_sortable: true, ..field("t", tag(false)) },
            Field { indexes_empty: true, ..field("u", tag(true)) },
            field("n", FieldKind::Number),
            field("m", FieldKind::Number),
            field("w", words(false)),
            Field { indexes_empty: true, is_sortable: true, ..field("x", words(true)) },
            field("v", FieldKind::Vector(Box::new(spec()))),
        ],
        documents: DocumentOptions::default(),
        flags: Vec::new(),
        stop_words: None,
        synonyms: Arc::default(),
        temporary_s: 0,
    }
}

/// Vectors of four bytes, so that texts can be some.
fn spec() -> VectorSpec {
    let (algorithm, element) = (Algorithm::Flat, ELEMENTS[2].1);
    VectorSpec { algorithm, element, dim: 2, metric: Metric::Cosine }
}

fn near(text: &str, radius: Option<f64>) -> Near {
    let vector = QueryVector::new(&spec(), text.as_bytes()).unwrap();
    Near { field: VECTOR, radius, vector }
}

fn vector() -> impl Strategy<Value = String> {
    "[,-9;8]{4}".prop_map(String::from)
}

/// Text and expiry of a field, if there is one.
type ModelValue = Option<(String, Option<i64>)>;

/// A stored document of the model: texts with the expiries of the fields, and that of the key.
#[derive(Clone, Debug, Default)]
struct Model {
    fields: [ModelValue; FIELDS],
    expiry: Option<i64>,
}

impl Model {
    /// Whether a query at a time sees it and the condition matches.
    fn is_found(&self, schema: &Schema, condition: &Condition, now_ms: i64) -> bool {
        let get = |number: usize, each: &mut dyn FnMut(&[u8])| {
            let value = self.fields.get(number).and_then(Option::as_ref);
            let alive = value.filter(|(_, expiry)| expiry.is_none_or(|at| at > now_ms));
            alive.map(|(text, _)| each(text.as_bytes())).is_some()
        };
        let stored = Stored { schema, get };
        let is_alive = self.expiry.is_none_or(|at| at > now_ms);
        is_alive && stored.fits() && condition.matches(&stored)
    }

    fn distance(&self, near: &Near, now_ms: i64) -> Option<f64> {
        let get = |_: usize, each: &mut dyn FnMut(&[u8])| {
            let value = self.fields[VECTOR].as_ref();
            let alive = value.filter(|(_, expiry)| expiry.is_none_or(|at| at > now_ms));
            alive.map(|(text, _)| each(text.as_bytes())).is_some()
        };
        near.distance(&Stored { schema: &schema(), get })
    }

    fn number(&self, number: usize, now_ms: i64) -> Option<f64> {
        let get = |_: usize, each: &mut dyn FnMut(&[u8])| {
            let value = self.fields.get(number).and_then(Option::as_ref);
            let alive = value.filter(|(_, expiry)| expiry.is_none_or(|at| at > now_ms));
            alive.map(|(text, _)| each(text.as_bytes())).is_some()
        };
        let (schema, mut found) = (schema(), None);
        Stored { schema: &schema, get }.any_number(number, &mut |number| {
            found = Some(number);
            true
        });
        found
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Sets or removes fields of a key.
    Set {
        key: u32,
        whole: bool,
        fields: Vec<(usize, ModelValue)>,
    },
    Expire {
        key: u32,
        expiry: Option<i64>,
    },
    Remove {
        key: u32,
    },
    Wait,
    /// A query, suspended after each step while the next changes are made.
    Query(Condition, Order, Arc<VectorQuery>),
}

fn text(number: usize) -> BoxedStrategy<String> {
    match number {
        0 | 1 => {
            let tags = prop::collection::vec("[abAB]{0,2}", 0..3);
            tags.prop_map(|tags| tags.join(",")).boxed()
        }
        4 | 5 => {
            let words = prop::collection::vec("[ab]{1,2}", 0..5);
            words.prop_map(|words| words.join(" ")).boxed()
        }
        VECTOR => prop_oneof![8 => vector(), 1 => "[ab]{0,3}".prop_map(String::from)].boxed(),
        _ => prop_oneof![
            8 => (-5..6i32).prop_map(|number| number.to_string()),
            1 => Just("inf".to_string()),
            1 => Just("none".to_string()),
        ]
        .boxed(),
    }
}

fn value() -> impl Strategy<Value = (usize, ModelValue)> {
    (0..FIELDS).prop_flat_map(|number| {
        let expiry = prop_oneof![5 => Just(None), 1 => (1..20i64).prop_map(Some)];
        let value = prop_oneof![1 => Just(None), 5 => (text(number), expiry).prop_map(Some)];
        (Just(number), value)
    })
}

fn bound() -> impl Strategy<Value = Bound<f64>> {
    (-6..7i32, any::<bool>()).prop_map(|(number, included)| match included {
        true => Bound::Included(f64::from(number)),
        false => Bound::Excluded(f64::from(number)),
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    let test = prop_oneof![
        "[ab]{1,2}".prop_map(|text| TagTest::Is(text.as_bytes().into())),
        "[ab]{1,2}".prop_map(|text| TagTest::Matches(Pattern::Prefix(text.as_bytes().into()))),
        "[ab?*]{1,3}".prop_map(|text| TagTest::Matches(Pattern::Wildcard(text.as_bytes().into()))),
        Just(TagTest::Is(Box::default())),
    ];
    let leaf = prop_oneof![
        1 => Just(Condition::Everything),
        1 => Just(Condition::Nothing),
        4 => (2..4usize, bound(), bound())
            .prop_map(|(field, min, max)| Condition::Number { field, range: Range { min, max } }),
        4 => (0..2usize, prop::collection::vec(test, 1..3))
            .prop_map(|(field, tests)| Condition::Tag { field, tests }),
        1 => (0..FIELDS).prop_map(|field| Condition::Missing { field }),
        2 => (vector(), 0..100i32).prop_map(|(text, radius)| {
            Condition::Near(near(&text, Some(f64::from(radius) / 100.0)))
        }),
    ];
    let plain = leaf.prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Condition::All),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Condition::Any),
            inner.prop_map(|condition| Condition::Not(condition.into())),
        ]
    });
    let words = tree().prop_map(|tree| {
        let schema = schema();
        let rules = Arc::new(TextRules::of(&schema));
        let words = Words::of(tree, &schema, rules, WordsOptions::default());
        Condition::Words(words.unwrap())
    });
    prop_oneof![plain, words]
}

/// A query with words, and perhaps other conditions.
fn tree() -> impl Strategy<Value = Node> {
    let bytes = |text: String| -> Box<[u8]> { text.as_bytes().into() };
    let term = move |text: String| {
        Node::new(NodeKind::Term(Term { text: bytes(text), expanded: false, verbatim: true }))
    };
    let word = || "[ab]{1,2}".prop_map(String::from);
    let leaf = prop_oneof![
        4 => word().prop_map(term),
        2 => (word(), 0..2usize).prop_map(move |(word, text)| {
            Node { fields: FieldMask::of(text), ..term(word) }
        }),
        1 => prop::collection::vec(word(), 1..3)
            .prop_map(move |words| Node::new(NodeKind::Phrase(words.into_iter().map(term).collect()))),
        1 => word().prop_map(move |word| Node::new(NodeKind::Pattern(Pattern::Prefix(bytes(word))))),
        1 => Just(Node::new(NodeKind::Everything)),
        1 => Just(Node::new(NodeKind::Missing { field: (*b"w").into() })),
        1 => word().prop_map(move |word| {
            let values = vec![TagValue::Exact(bytes(word))];
            Node::new(NodeKind::Tag { field: (*b"t").into(), values })
        }),
        1 => (vector(), 0..100i32).prop_map(move |(text, radius)| {
            let vector = VectorArgument { name: Box::default(), bytes: bytes(text) };
            Node::new(NodeKind::VectorRange(Box::new(VectorRange {
                field: (*b"v").into(),
                radius: f64::from(radius) / 100.0,
                vector,
                options: Vec::new(),
                score_field: None,
            })))
        }),
        1 => (-6..7i32).prop_map(|number| {
            let (field, min) = ((*b"n").into(), f64::from(number));
            let max = min + 3.0;
            Node::new(NodeKind::Numeric(NumericRange {
                field, min, max, includes_min: true, includes_max: false,
            }))
        }),
    ];
    leaf.prop_recursive(3, 10, 3, |inner| {
        let many = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            3 => many.clone().prop_map(|children| Node::new(NodeKind::Intersection(children))),
            2 => many.prop_map(|children| Node::new(NodeKind::Union(children))),
            1 => inner.clone().prop_map(|child| Node::new(NodeKind::Not(Box::new(child)))),
            1 => inner.prop_map(|child| Node::new(NodeKind::Optional(Box::new(child)))),
        ]
    })
}

fn step() -> impl Strategy<Value = Step> {
    let expiry = || prop_oneof![Just(None), (1..20i64).prop_map(Some)];
    let order = prop_oneof![
        Just(Order::Rows),
        (2..4usize, any::<bool>())
            .prop_map(|(field, is_descending)| Order::Field { field, is_descending }),
    ];
    prop_oneof![
        6 => (0..KEYS, any::<bool>(), prop::collection::vec(value(), 0..4))
            .prop_map(|(key, whole, fields)| Step::Set { key, whole, fields }),
        1 => (0..KEYS, expiry()).prop_map(|(key, expiry)| Step::Expire { key, expiry }),
        2 => (0..KEYS).prop_map(|key| Step::Remove { key }),
        1 => Just(Step::Wait),
        4 => (condition(), order, vectors())
            .prop_map(|(condition, order, vectors)| Step::Query(condition, order, vectors)),
    ]
}

/// Nearest neighbours, or none.
fn vectors() -> impl Strategy<Value = Arc<VectorQuery>> {
    let neighbours = (0..7usize, vector()).prop_map(|(count, text)| {
        let distance = Distance { name: Box::default(), near: near(&text, None) };
        let neighbours = Some(count);
        Arc::new(VectorQuery { neighbours, distances: vec![distance], ..VectorQuery::default() })
    });
    prop_oneof![Just(Arc::default()), neighbours]
}

fn key_of(key: u32) -> (u64, Vec<u8>) {
    // Two keys share a hash.
    (u64::from(key / 2) << 40, format!("key:{key}").into_bytes())
}

struct World {
    schema: Schema,
    live: Arc<Live>,
    documents: BTreeMap<u32, Model>,
    now_ms: i64,
    sequence: u64,
}

impl World {
    fn apply(&mut self, key: u32, kind: ChangeKind<'_>) {
        let (hash, bytes) = key_of(key);
        self.sequence += 1;
        let change = Change { key: &bytes, hash, sequence: self.sequence, kind };
        let suspended = self.live.suspended();
        let mut contents = self.live.write();
        contents.clean(suspended.map(|(earliest, _)| earliest), |_| false);
        contents.begin();
        let snapshot = suspended.map(|(_, latest)| latest);
        contents.apply(&change, Applying { snapshot, in_flight: false });
        // An older change that comes later has no effect.
        let old = Change { sequence: self.sequence - 1, kind: ChangeKind::Remove, ..change };
        if !matches!(kind, ChangeKind::Remove) && contents.documents().find(hash, &bytes).is_some()
        {
            contents.apply(&old, Applying { snapshot, in_flight: false });
        }
    }

    fn change(&mut self, step: &Step) {
        match step {
            Step::Set { key, whole, fields } => {
                let model = self.documents.entry(*key).or_default();
                let mut named: BTreeMap<usize, _> = fields.iter().cloned().collect();
                if *whole {
                    // All fields are stated, or not there.
                    *model = Model { expiry: model.expiry, ..Model::default() };
                    named.retain(|_, value| value.is_some());
                }
                // A change states all texts, or none.
                if !*whole && named.keys().any(|number| TEXTS.contains(number)) {
                    for number in TEXTS {
                        let own = model.fields[number].clone();
                        let own =
                            own.map(|(text, expiry)| (text, expiry.map(|at| at - self.now_ms)));
                        named.entry(number).or_insert(own);
                    }
                }
                let (mut changes, mut bytes) = (Vec::new(), Vec::new());
                for (number, value) in named {
                    let start = bytes.len();
                    bytes.extend(value.iter().flat_map(|(text, _)| text.bytes()));
                    changes.push(FieldChange {
                        number: number as u16,
                        value: value.as_ref().map(|_| start..bytes.len()),
                        expiry: value
                            .as_ref()
                            .and_then(|(_, expiry)| expiry.map(|at| at + self.now_ms)),
                    });
                    model.fields[number] =
                        value.map(|(text, expiry)| (text, expiry.map(|at| at + self.now_ms)));
                }
                let expiry = model.expiry;
                let extent = if *whole { Extent::Whole } else { Extent::Fields };
                let kind = ChangeKind::Put { extent, expiry, fields: &changes, bytes: &bytes };
                self.apply(*key, kind);
            }
            Step::Expire { key, expiry } => {
                let expiry = expiry.map(|at| at + self.now_ms);
                if let Some(model) = self.documents.get_mut(key) {
                    model.expiry = expiry;
                    self.apply(*key, ChangeKind::Expire(expiry));
                }
            }
            Step::Remove { key } => {
                self.documents.remove(key);
                self.apply(*key, ChangeKind::Remove);
            }
            Step::Wait => self.now_ms += 5,
            Step::Query(..) => {}
        }
    }

    /// The keys that a query finds, and in its order if that is by a field.
    fn expected(&self, query: &Query) -> Vec<(SortKey, u32, Vec<u8>)> {
        let contents = self.live.read();
        let mut found: Vec<_> = self
            .documents
            .iter()
            .filter(|(_, model)| model.is_found(&self.schema, &query.condition, query.now_ms))
            .map(|(&key, model)| {
                let number = match (query.vectors.neighbours, query.order) {
                    (Some(_), _) => model.distance(&query.vectors.distances[0].near, query.now_ms),
                    (None, Order::Field { field, .. }) => model.number(field, query.now_ms),
                    _ => None,
                };
                let sort_key = number.map_or(SortKey::Missing, SortKey::Number);
                let (hash, bytes) = key_of(key);
                (sort_key, contents.documents().find(hash, &bytes).unwrap(), bytes)
            })
            .collect();
        let is_neighbours = query.vectors.neighbours.is_some();
        let is_descending = matches!(query.order, Order::Field { is_descending: true, .. });
        let is_descending = is_descending && !is_neighbours;
        found.sort_by(|a, b| a.0.compare(&b.0, is_descending).then(a.1.cmp(&b.1)));
        if let Some(count) = query.vectors.neighbours {
            found.retain(|(distance, ..)| *distance != SortKey::Missing);
            found.truncate(count);
        }
        found
    }

    fn query(&self, condition: &Condition, order: Order, vectors: &Arc<VectorQuery>) -> Query {
        let now_ms = self.now_ms;
        self.live.expire_fields(now_ms);
        let (condition, vectors) = (condition.clone(), vectors.clone());
        Query { condition, keys: None, order, needed: 7, now_ms, vectors }
    }

    fn check(&self, condition: &Condition, order: Order, vectors: &Arc<VectorQuery>) {
        let query = self.query(condition, order, vectors);
        let expected = self.expected(&query);
        let contents = self.live.read();
        let mut run = Run::new(&query, &contents);
        while !run.step(&contents, FIRST_STEP) {}
        compare(&run.finish(), &expected, &query);
        let keyed = Query {
            keys: Some((0..KEYS + 2).map(|key| (key_of(key).0, key_of(key).1.into())).collect()),
            ..self.query(condition, order, vectors)
        };
        let mut run = Run::new(&keyed, &contents);
        assert!(run.step(&contents, 1));
        compare(&run.finish(), &expected, &keyed);
    }
}

fn compare(found: &Found, expected: &[(SortKey, u32, Vec<u8>)], query: &Query) {
    assert_eq!(found.total, expected.len(), "{query:?}");
    let keys = |hits: &[Hit]| -> Vec<Vec<u8>> { hits.iter().map(|hit| hit.key.to_vec()).collect() };
    let expected: Vec<_> = expected.iter().take(7).map(|(_, _, key)| key.clone()).collect();
    assert_eq!(keys(&found.hits), expected, "{query:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn an_index_answers_as_a_list_of_documents(steps in prop::collection::vec(step(), 1..60)) {
        let schema = schema();
        let live = Live::new(1, &schema);
        let documents = BTreeMap::new();
        let mut world = World { schema, live, documents, now_ms: 1000, sequence: 0 };
        for (at, step) in steps.iter().enumerate() {
            world.change(step);
            let Step::Query(condition, order, vectors) = step else { continue };
            world.check(condition, *order, vectors);
            // The same while the following changes are made between the steps.
            let query = world.query(condition, *order, vectors);
            let expected = world.expected(&query);
            let (mut run, suspension) = {
                let contents = world.live.read();
                let run = Run::new(&query, &contents);
                let suspension = world.live.suspend(run.stamp());
                (run, suspension)
            };
            let mut world_then = World {
                schema: world.schema.clone(),
                live: world.live.clone(),
                documents: world.documents.clone(),
                now_ms: world.now_ms,
                sequence: world.sequence,
            };
            let mut others = steps[at + 1..].iter().filter(|step| !matches!(step, Step::Wait));
            loop {
                let contents = world.live.read();
                if run.step(&contents, 3) {
                    break;
                }
                drop(contents);
                if let Some(step) = others.next() {
                    world_then.change(step);
                }
            }
            compare(&run.finish(), &expected, &query);
            drop(suspension);
            world = world_then;
        }
        // Nothing is left of removed documents.
        for key in 0..KEYS {
            world.change(&Step::Remove { key });
        }
        let contents = world.live.read();
        prop_assert_eq!(contents.len(), 0);
        prop_assert!(contents.versions().is_empty());
        prop_assert_eq!(contents.texts().map(|index| index.texts().documents()), Some(0));
        for number in 0..FIELDS {
            let field = contents.field(number).unwrap();
            prop_assert_eq!(field.records(), 0);
            prop_assert_eq!(field.missing().map_or(0, |missing| missing.len()), 0);
        }
    }
}

/// Removals that are applied before an earlier change of the same document.
#[test]
fn a_late_change_does_not_revive_a_removed_document() {
    let schema = schema();
    let mut contents = Contents::new(&schema, 0);
    let (hash, key) = key_of(1);
    let put = |sequence| Change {
        key: &key,
        hash,
        sequence,
        kind: ChangeKind::Put { extent: Extent::Whole, expiry: None, fields: &[], bytes: &[] },
    };
    let remove = Change { key: &key, hash, sequence: 2, kind: ChangeKind::Remove };
    let applying = |in_flight| Applying { snapshot: None, in_flight };
    contents.begin();
    contents.apply(&remove, applying(true));
    contents.apply(&put(1), applying(false));
    assert_eq!(contents.len(), 0);
    contents.apply(&put(3), applying(false));
    assert_eq!(contents.len(), 1);
    contents.clean(None, |_| false);
    contents.apply(&remove, applying(false));
    assert_eq!(contents.len(), 1);
}
