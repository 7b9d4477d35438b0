//! Streams against a simple model.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Model = BTreeMap<StreamId, Vec<Vec<u8>>>;

fn owned(entry: EntryRef<'_>) -> (StreamId, Vec<Vec<u8>>) {
    let mut fields = Vec::new();
    for (name, value) in entry.fields {
        fields.push(name.bytes(&mut itoa::Buffer::new()).to_vec());
        fields.push(value.bytes(&mut itoa::Buffer::new()).to_vec());
    }
    (entry.id, fields)
}

fn add(stream: &mut Stream, id: StreamId, fields: &[Vec<u8>], limits: NodeLimits) -> bool {
    let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    stream.append(id, &fields, limits)
}

fn trim(to: TrimTo) -> Trim {
    Trim { to, approximate: false, limit: 0, references: References::Keep }
}

fn simple(count: u64, limits: NodeLimits) -> Stream {
    let mut stream = Stream::new();
    for n in 1..=count {
        let fields = [b"field".to_vec(), n.to_string().into_bytes()];
        assert!(add(&mut stream, StreamId::new(n, 0), &fields, limits));
    }
    stream
}

fn check(stream: &Stream, model: &Model) {
    let forth: Vec<_> = stream.range(StreamId::MIN, StreamId::MAX).map(owned).collect();
    let expected: Vec<_> = model.iter().map(|(&id, fields)| (id, fields.clone())).collect();
    assert_eq!(forth, expected);
    let mut back: Vec<_> = stream.rev_range(StreamId::MIN, StreamId::MAX).map(owned).collect();
    back.reverse();
    assert_eq!(back, expected);
    assert_eq!(stream.len(), model.len() as u64);
    assert_eq!(stream.first_id(), model.keys().next().copied().unwrap_or_default());
    assert_eq!(stream.last_entry_id(), model.keys().last().copied().unwrap_or_default());
    let bytes: usize = stream.chunks.iter().map(Chunk::capacity).sum();
    assert_eq!(stream.chunk_bytes, bytes);
}

#[derive(Clone, Debug)]
enum Step {
    Add { ms: u64, seq: u64, fields: Vec<Vec<u8>> },
    Delete { nth: usize },
    TrimTo { len: usize },
    TrimBelow { nth: usize },
    Range { from: usize, to: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = prop_oneof![
        3 => "[a-c]{1,2}".prop_map(String::into_bytes),
        2 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        1 => (0..300usize).prop_map(|len| vec![b'x'; len]),
    ];
    let fields = (1..4usize).prop_flat_map(move |n| prop::collection::vec(text.clone(), 2 * n));
    let step = prop_oneof![
        12 => (prop_oneof![Just(0), 0..40u64, Just(1 << 40)], 0..3u64, fields)
            .prop_map(|(ms, seq, fields)| Step::Add { ms, seq, fields }),
        3 => any::<usize>().prop_map(|nth| Step::Delete { nth }),
        1 => (0..50usize).prop_map(|len| Step::TrimTo { len }),
        1 => any::<usize>().prop_map(|nth| Step::TrimBelow { nth }),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Step::Range { from, to }),
    ];
    prop::collection::vec(step, 0..200)
}

fn nth_id(model: &Model, nth: usize) -> StreamId {
    let count = model.len().max(1);
    model.keys().nth(nth % count).copied().unwrap_or(StreamId::new(5, 5))
}

fn apply(stream: &mut Stream, model: &mut Model, step: Step, limits: NodeLimits) {
    match step {
        Step::Add { ms, seq, fields } => {
            let last = stream.last_id();
            let id = match ms {
                0 => StreamId::new(last.ms, last.seq + 1 + seq),
                ms => StreamId::new(last.ms.saturating_add(ms), seq),
            };
            assert!(!add(stream, last, &fields, limits));
            assert!(add(stream, id, &fields, limits));
            model.insert(id, fields);
        }
        Step::Delete { nth } => {
            let id = nth_id(model, nth);
            assert_eq!(
                stream.get(id).map(owned),
                model.get_key_value(&id).map(|(&id, fields)| (id, fields.clone()))
            );
            assert_eq!(stream.delete(id), model.remove(&id).is_some());
            assert!(!stream.contains(id));
        }
        Step::TrimTo { len } => {
            let plan = stream.plan_trim(&trim(TrimTo::Len(len as u64)));
            let removed = stream.trim_up_to(plan.up_to);
            assert_eq!(removed, plan.count);
            while model.len() > len {
                model.pop_first();
            }
        }
        Step::TrimBelow { nth } => {
            let id = nth_id(model, nth);
            let plan = stream.plan_trim(&trim(TrimTo::Id(id)));
            assert_eq!(stream.trim_up_to(plan.up_to), plan.count);
            *model = model.split_off(&id);
        }
        Step::Range { from, to } => {
            let (a, b) = (nth_id(model, from), nth_id(model, to));
            let (start, end) = (a.min(b), a.max(b));
            let expected: Vec<_> = model.range(start..=end).map(|(&id, _)| id).collect();
            let forth: Vec<_> = stream.range(start, end).map(|entry| entry.id).collect();
            assert_eq!(forth, expected);
            let max = from % 20;
            assert_eq!(stream.count(start, end, max), expected.len().min(max));
            let mut back: Vec<_> = stream.rev_range(start, end).map(|entry| entry.id).collect();
            back.reverse();
            assert_eq!(back, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn entries_are_those_of_the_model(steps in steps(), entries in 0..6i64, bytes in prop_oneof![Just(0), Just(4096), 1..200i64]) {
        let limits = NodeLimits::new(bytes, entries);
        let (mut stream, mut model) = (Stream::new(), Model::new());
        for step in steps {
            apply(&mut stream, &mut model, step, limits);
            check(&stream, &model);
        }
        check(&stream.clone(), &model);
    }
}

#[test]
fn approximate_trimming_removes_whole_nodes() {
    let stream = simple(1000, NodeLimits::new(4096, 100));
    assert_eq!(stream.nodes(), 10);
    let plan = |to, limit: Option<u64>| {
        let approximate = limit.is_some();
        stream.plan_trim(&Trim { approximate, limit: limit.unwrap_or(0), ..trim(to) }).count
    };
    assert_eq!(plan(TrimTo::Len(555), Some(0)), 400);
    assert_eq!(plan(TrimTo::Len(555), Some(250)), 200);
    assert_eq!(plan(TrimTo::Len(555), Some(99)), 0);
    assert_eq!(plan(TrimTo::Len(555), None), 445);
    assert_eq!(plan(TrimTo::Len(2000), None), 0);
    assert_eq!(plan(TrimTo::Id(StreamId::new(250, 0)), Some(0)), 200);
    assert_eq!(plan(TrimTo::Id(StreamId::new(250, 0)), None), 249);
    assert_eq!(plan(TrimTo::Len(0), None), 1000);
}

#[test]
fn trimming_minds_what_groups_refer_to() {
    let mut stream = simple(8, NodeLimits::new(4096, 3));
    stream.groups.put(b"g", StreamId::new(8, 0), None);
    stream.groups.change(b"g", |group| {
        let owner = Some(group.put_consumer(b"c", 0, None));
        for id in [1, 3, 5, 7, 8] {
            let pending = Pending { owner, delivered_ms: 0, count: 1 };
            group.put_pending(StreamId::new(id, 0), pending);
        }
    });
    let gone = |to, approximate, limit| {
        let trim = Trim { to, approximate, limit, references: References::Acked };
        stream.plan_trim(&trim).entries.iter().map(|id| id.ms).collect::<Vec<_>>()
    };
    assert_eq!(gone(TrimTo::Len(4), true, 0), [2, 4, 6]);
    assert_eq!(gone(TrimTo::Len(6), false, 0), [2]);
    assert_eq!(gone(TrimTo::Id(StreamId::new(5, 0)), true, 0), [2, 4]);
    assert_eq!(gone(TrimTo::Len(0), true, 2), [0u64; 0]);
    assert_eq!(gone(TrimTo::Len(0), true, 3), [2]);
    let all = Trim { approximate: true, references: References::Delete, ..trim(TrimTo::Len(6)) };
    assert_eq!(stream.plan_trim(&all).count, 2);
}

#[test]
fn an_entry_costs_few_bytes() {
    let mut stream = Stream::new();
    let limits = NodeLimits::new(4096, 100);
    let count = 100_000;
    for n in 0..count {
        let value = format!("value-{n:06}");
        let fields: [&[u8]; 4] = [b"name", value.as_bytes(), b"kind", b"reading"];
        assert!(stream.append(StreamId::new(1_700_000_000_000 + n / 3, n % 3), &fields, limits));
    }
    let text = 12 + 7;
    let overhead = stream.footprint() as f64 / count as f64 - f64::from(text);
    assert!(overhead < 6.0, "{overhead} bytes for each entry of two values");
}

#[test]
fn nodes_without_limits_give_memory_back() {
    let limits = NodeLimits::new(0, 0);
    let mut stream = simple(20_000, limits);
    assert_eq!(stream.nodes(), 1);
    let before = stream.footprint();
    assert_eq!(stream.trim_up_to(StreamId::new(19_989, 0)), 19_989);
    assert!(stream.footprint() < before / 10);
    assert_eq!(stream.range(StreamId::MIN, StreamId::MAX).count(), 11);
}

#[test]
fn groups_note_who_has_what() {
    let mut groups = Groups::default();
    assert!(groups.put(b"g", StreamId::MIN, Some(0)));
    assert!(!groups.put(b"g", StreamId::MIN, Some(0)));
    let empty = groups.footprint();
    let id = |n| StreamId::new(n, 0);
    groups.change(b"g", |group| {
        let alice = group.put_consumer(b"alice", 1, None);
        let bob = group.put_consumer(b"bob", 2, Some(2));
        for n in 1..=6 {
            let owner = Some(if n % 2 == 0 { alice } else { bob });
            group.put_pending(id(n), Pending { owner, delivered_ms: 10 - n as i64, count: 1 });
        }
        group.order_by_time();
        assert_eq!(group.claimable(7).collect::<Vec<_>>(), [id(6), id(5), id(4), id(3)]);
        for n in [5, 2] {
            group.put_pending(id(n), Pending { owner: None, delivered_ms: 0, count: 0 });
        }
        assert_eq!(group.claimable(6).collect::<Vec<_>>(), [id(5), id(2), id(6), id(4)]);
        assert_eq!((group.pending_len(), group.nacked_len()), (6, 2));
        let bobs = group.consumer(bob).map(|bob| bob.pending(id(2)).collect::<Vec<_>>());
        assert_eq!(bobs, Some(vec![id(3)]));
        assert!(group.remove_pending(id(5)) && !group.remove_pending(id(5)));
        assert_eq!(group.remove_consumer(b"alice"), Some(2));
        assert_eq!(group.remove_consumer(b"alice"), None);
        assert_eq!(group.pending_from(id(2)).map(|(id, _)| id.ms).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(group.remove_consumer(b"bob"), Some(2));
        assert!(group.remove_pending(id(2)));
        assert_eq!(group.claimable(i64::MAX).count(), 0);
    });
    assert_eq!(groups.footprint(), empty);
    assert!(groups.have_acknowledged(StreamId::MIN) && !groups.have_acknowledged(id(1)));
    assert!(groups.remove(b"g") && !groups.remove(b"g"));
    assert_eq!(groups.footprint(), 0);
}

#[test]
fn lag_is_known_where_nothing_was_deleted_ahead() {
    let mut stream = simple(5, NodeLimits::new(4096, 100));
    let mut lag = |id, read| {
        stream.groups.put(b"g", StreamId::new(id, 0), read);
        let group = stream.groups.get(b"g").cloned();
        group.and_then(|group| stream.lag(&group))
    };
    assert_eq!(lag(0, Some(0)), Some(5));
    assert_eq!(lag(0, None), Some(5));
    assert_eq!(lag(1, None), Some(4));
    assert_eq!(lag(3, None), None);
    assert_eq!(lag(3, Some(3)), Some(2));
    assert_eq!(lag(5, None), Some(0));
    assert_eq!(lag(9, None), None);
    assert!(stream.delete(StreamId::new(4, 0)));
    let mut lag = |id, read| {
        stream.groups.put(b"g", StreamId::new(id, 0), read);
        let group = stream.groups.get(b"g").cloned();
        group.and_then(|group| stream.lag(&group))
    };
    assert_eq!(lag(3, Some(3)), None);
    assert_eq!(lag(5, Some(5)), Some(0));
}

#[test]
fn producers_are_forgotten_by_age_and_number() {
    let mut producers = Producers::default();
    producers.configure(10, 2);
    let empty = producers.footprint();
    for n in 1..=3 {
        producers.remember(b"p", n.to_string().as_bytes(), StreamId::new(n * 1000, 0));
    }
    producers.remember(b"q", b"1", StreamId::new(4000, 0));
    assert_eq!(producers.entry(b"p", b"1"), None);
    assert_eq!(producers.entry(b"p", b"3"), Some(StreamId::new(3000, 0)));
    assert_eq!((producers.producers_len(), producers.ids_len(), producers.added()), (2, 3, 4));
    producers.remember(b"q", b"2", StreamId::new(4000, 0));
    producers.remember(b"p", b"4", StreamId::new(4000, 0));
    assert_eq!((producers.producers_len(), producers.ids_len(), producers.added()), (2, 4, 6));
    producers.forget_until(13_500);
    assert_eq!((producers.producers_len(), producers.ids_len()), (2, 3));
    producers.configure(10, 2);
    assert_eq!(producers.ids_len(), 3);
    producers.configure(11, 2);
    assert_eq!((producers.ids_len(), producers.added()), (0, 6));
    assert_eq!(producers.footprint(), empty);
}
