//! Values are the same after writing and reading.

use crate::model::{GroupState, ProducersState, Stream, Value, id};
use petrel_persistence::rdb::{
    Dialect, Error, Form, Item, Pending, Shape, StreamFacts, StreamId, ValueSink, Writer,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        3 => (-300i64..300).prop_map(|n| n.to_string().into_bytes()),
        3 => vec(any::<u8>(), 0..30),
        2 => vec(0u8..3, 0..400),
        1 => vec(any::<u8>(), 60..70),
    ]
}

fn expiry() -> impl Strategy<Value = Option<i64>> {
    option::of(prop_oneof![0i64..1000, 0..i64::MAX - 1])
}

fn score() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("a number", |score| !score.is_nan())
}

fn stream_id() -> impl Strategy<Value = StreamId> {
    (prop_oneof![0u64..1000, any::<u64>()], prop_oneof![0u64..5, any::<u64>()])
        .prop_map(|(ms, seq)| id(ms, seq))
}

fn fields() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop_oneof![
        (text(), text()).prop_map(|(a, b)| vec![b"f".to_vec(), a, b"g".to_vec(), b]),
        vec((text(), text()), 1..4)
            .prop_map(|pairs| pairs.into_iter().flat_map(|(f, v)| [f, v]).collect()),
    ]
}

type Consumers = Vec<(Vec<u8>, i64, Option<i64>)>;
type Deliveries = std::collections::BTreeMap<StreamId, (Option<usize>, i64, u64)>;

fn group() -> impl Strategy<Value = GroupState> {
    let consumer = (text(), 0..i64::MAX, expiry());
    let owner = option::weighted(0.9, 0usize..4);
    (
        text(),
        stream_id(),
        option::of(0..u64::MAX),
        vec(consumer, 1..4),
        btree_map(stream_id(), (owner, 0i64..i64::MAX, any::<u64>()), 0..10),
    )
        .prop_map(
            |(name, last, read, consumers, deliveries): (_, _, _, Consumers, Deliveries)| {
                let pending =
                    deliveries.into_iter().map(|(id, (owner, delivered_ms, deliveries))| {
                        let owner = owner.map(|owner| owner % consumers.len());
                        Pending { id, owner, delivered_ms, deliveries }
                    });
                let pending: Vec<_> = pending.collect();
                let given_back = pending.iter().rev().filter(|pending| pending.owner.is_none());
                let given_back = given_back.map(|pending| pending.id).collect();
                GroupState { name, last, read, consumers, pending, given_back }
            },
        )
}

fn producers() -> impl Strategy<Value = ProducersState> {
    let producers = vec((text(), vec((text(), stream_id()), 0..3)), 0..3);
    (any::<u64>(), any::<u64>(), producers, any::<(u64, u64)>()).prop_map(
        |(duration_s, ids_max, producers, counters)| ProducersState {
            duration_s,
            ids_max,
            producers,
            counters,
        },
    )
}

fn stream() -> impl Strategy<Value = Stream> {
    (
        btree_map(stream_id(), fields(), 0..12),
        stream_id(),
        0u64..1000,
        vec(group(), 0..3),
        option::weighted(0.2, producers()),
    )
        .prop_map(|(entries, max_deleted, deleted, groups, producers)| Stream {
            last: entries.keys().next_back().copied().unwrap_or(max_deleted).max(max_deleted),
            max_deleted,
            added: entries.len() as u64 + deleted,
            entries,
            groups,
            producers,
        })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::String),
        vec(text(), 1..20).prop_map(Value::List),
        btree_set(text(), 1..20).prop_map(Value::Set),
        btree_map(text(), score(), 1..20).prop_map(Value::SortedSet),
        btree_map(text(), (text(), expiry()), 1..20).prop_map(Value::Hash),
        btree_map(text(), (text(), Just(None)), 1..20).prop_map(Value::Hash),
        stream().prop_map(Value::Stream),
    ]
}

proptest! {
    #[test]
    fn everything(value in value(), compress: bool, valkey: bool) {
        let dialect = if valkey { Dialect::Valkey } else { Dialect::Redis };
        let read = Value::restore(&value.dump(dialect, compress));
        prop_assert_eq!(read, Ok(value));
    }
}

#[test]
fn streams_take_the_oldest_form_that_loses_nothing() {
    let entries = [(id(1, 1), vec![b"f".to_vec(), b"v".to_vec()])].into();
    let mut stream = Stream { entries, last: id(1, 1), added: 1, ..Stream::default() };
    let mut forms = Vec::new();
    let mut note = |stream: &Stream| {
        let value = Value::Stream(stream.clone());
        forms.push(value.form(Dialect::Redis));
        assert_eq!(Value::restore(&value.dump(Dialect::Redis, false)), Ok(value));
    };
    note(&stream);
    stream.added = 5;
    note(&stream);
    stream.groups.push(GroupState {
        name: b"g".to_vec(),
        consumers: vec![(b"c".to_vec(), 7, Some(7))],
        ..GroupState::default()
    });
    note(&stream);
    stream.groups[0].consumers[0].2 = None;
    note(&stream);
    stream.producers = Some(ProducersState { duration_s: 7, ..ProducersState::default() });
    note(&stream);
    let given_back = Pending { id: id(1, 1), owner: None, delivered_ms: 0, deliveries: 2 };
    stream.groups[0].pending.push(given_back);
    stream.groups[0].given_back.push(id(1, 1));
    note(&stream);
    let versions = [1, 2, 2, 3, 4, 5];
    assert_eq!(
        forms,
        versions.map(|version| match version {
            1 => Form::Stream1,
            2 => Form::Stream2,
            3 => Form::Stream3,
            4 => Form::Stream4,
            _ => Form::Stream5,
        })
    );
    assert_eq!(Form::stream(StreamFacts { groups: true, ..StreamFacts::default() }), Form::Stream2);
}

#[test]
fn a_writer_holds_its_feeder_to_what_was_announced() {
    let refused = |form, feed: &dyn Fn(&mut Writer<'_>) -> Result<(), Error>| {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, form, false);
        feed(&mut writer).and_then(|()| writer.finish()).is_err()
    };
    let item = Item::Text(b"x");
    assert!(refused(Form::List, &|w| w.begin(Shape::List { len: None })));
    assert!(refused(Form::List, &|w| w.begin(Shape::List { len: Some(1) })));
    assert!(refused(Form::Set, &|w| w.begin(Shape::List { len: Some(0) })));
    assert!(refused(Form::Set, &|w| w.string(item)));
    assert!(refused(Form::Set, &|w| {
        w.begin(Shape::Set { len: 1 })?;
        w.element(item)?;
        w.element(item)
    }));
    assert!(refused(Form::Hash, &|w| {
        w.begin(Shape::Hash { len: 1 })?;
        w.field(item, item, Some(1))
    }));
    assert!(refused(Form::HashExpiring { earliest: 5 }, &|w| {
        w.begin(Shape::Hash { len: 1 })?;
        w.field(item, item, Some(4))
    }));
    assert!(refused(Form::Stream3, &|w| w.begin(Shape::Stream { nodes: 1 })));
    assert!(refused(Form::Stream3, &|w| {
        w.begin(Shape::Stream { nodes: 0 })?;
        w.entry(id(1, 1), &[item, item])
    }));
}
