//! The effects of random changes of a stream, applied to another keyspace, result in the same
//! stream; and its size is accounted to the byte.

use petrel_keyspace::types::stream::{
    Pending, References, Stream, StreamChange, StreamId, StreamMut, Trim, TrimTo,
};
use petrel_keyspace::{Effect, Handle, Keyspace, Options, Origin};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

const KEY: &[u8] = b"stream";
const START_MS: i64 = 1_000_000;

#[derive(Clone, Debug)]
enum Step {
    Add(u64, Vec<Vec<u8>>),
    Delete(u64),
    Trim(TrimTo, References, bool),
    Set(u64, u64),
    Group(usize, u64, Option<u64>),
    GroupRemove(usize),
    See(usize, usize),
    Active(usize, usize),
    ConsumerRemove(usize, usize),
    Pending(usize, u64, Option<usize>, u64),
    PendingRemove(usize, u64),
    OrderByTime(usize),
    Produced(usize, u64),
    Producers(u32, u32),
    Wait(i64),
    Remove,
    Copy,
}

const GROUPS: [&[u8]; 2] = [b"group", b"other"];
const NAMES: [&[u8]; 3] = [b"alice", b"bob", b"carol"];

fn step() -> impl Strategy<Value = Step> {
    let (group, name) = (0..GROUPS.len(), 0..NAMES.len());
    let fields = prop::collection::vec("[a-c]{0,3}|[0-9]{1,4}".prop_map(String::into_bytes), 2..5)
        .prop_map(|mut fields| {
            fields.truncate(fields.len() / 2 * 2);
            fields
        });
    let to =
        prop_oneof![(0..8u64).prop_map(TrimTo::Len), (0..60u64).prop_map(|n| TrimTo::Id(id(n)))];
    let references =
        prop_oneof![Just(References::Keep), Just(References::Delete), Just(References::Acked)];
    prop_oneof![
        12 => (1..4u64, fields).prop_map(|(ahead, fields)| Step::Add(ahead, fields)),
        4 => (0..60u64).prop_map(Step::Delete),
        2 => (to, references, any::<bool>()).prop_map(|(to, refs, whole)| Step::Trim(to, refs, whole)),
        1 => (0..5u64, 0..100u64).prop_map(|(ahead, added)| Step::Set(ahead, added)),
        2 => (group.clone(), 0..60u64, prop::option::of(0..60u64))
            .prop_map(|(group, last, read)| Step::Group(group, last, read)),
        1 => group.clone().prop_map(Step::GroupRemove),
        2 => (group.clone(), name.clone()).prop_map(|(group, name)| Step::See(group, name)),
        2 => (group.clone(), name.clone()).prop_map(|(group, name)| Step::Active(group, name)),
        1 => (group.clone(), name.clone()).prop_map(|(group, name)| Step::ConsumerRemove(group, name)),
        10 => (group.clone(), 0..60u64, prop::option::of(name), 0..9u64)
            .prop_map(|(group, n, name, count)| Step::Pending(group, n, name, count)),
        4 => (group.clone(), 0..60u64).prop_map(|(group, n)| Step::PendingRemove(group, n)),
        1 => group.prop_map(Step::OrderByTime),
        2 => (0..NAMES.len(), 0..6u64).prop_map(|(name, own)| Step::Produced(name, own)),
        1 => (1..3u32, 1..4u32).prop_map(|(seconds, max)| Step::Producers(seconds, max)),
        1 => (0..3000i64).prop_map(Step::Wait),
        1 => Just(Step::Remove),
        1 => Just(Step::Copy),
    ]
}

fn id(n: u64) -> StreamId {
    StreamId::new(START_MS as u64 + n / 3, n % 3)
}

fn apply(handle: &mut Handle, step: &Step) {
    let key = handle.key(KEY);
    match *step {
        Step::Wait(millis) => return handle.set_clock(handle.now_ms() + millis),
        Step::Remove => {
            handle.remove(0, key);
            return;
        }
        Step::Copy => {
            let to = handle.key(b"copy");
            handle.copy(0, key, 0, to);
            return;
        }
        _ => {}
    }
    let is_new = handle.peek(0, key).is_none();
    let mut stream = handle.open_stream(0, key, true).unwrap().unwrap();
    if is_new {
        stream.set(StreamId::MIN, 0, StreamId::MIN);
    }
    change(&mut stream, step);
}

fn change(stream: &mut StreamMut<'_>, step: &Step) {
    match *step {
        Step::Add(ahead, ref fields) => {
            let last = stream.last_id().max(id(0));
            let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
            assert!(stream.add(StreamId::new(last.ms, last.seq + ahead), &fields));
        }
        Step::Delete(n) => {
            stream.delete(id(n));
        }
        Step::Trim(to, references, approximate) => {
            stream.trim(&Trim { to, approximate, limit: 0, references });
        }
        Step::Set(ahead, added) => {
            let (last, deleted) = (stream.last_id(), stream.max_deleted());
            stream.set(StreamId::new(last.ms + ahead, last.seq), added, deleted);
        }
        Step::Group(group, last, read) => {
            stream.put_group(GROUPS[group], id(last), read);
        }
        Step::GroupRemove(group) => {
            stream.remove_group(GROUPS[group]);
        }
        Step::See(group, name) => {
            stream.see_consumer(GROUPS[group], NAMES[name]);
        }
        Step::Active(group, name) => {
            if stream.see_consumer(GROUPS[group], NAMES[name]).is_some() {
                stream.mark_active(GROUPS[group], NAMES[name]);
            }
        }
        Step::ConsumerRemove(group, name) => {
            stream.remove_consumer(GROUPS[group], NAMES[name]);
        }
        Step::Pending(group, n, name, count) => {
            let owner = name.and_then(|name| stream.see_consumer(GROUPS[group], NAMES[name]));
            let delivered_ms = stream.now_ms() - count as i64;
            stream.put_pending(GROUPS[group], id(n), Pending { owner, delivered_ms, count });
        }
        Step::PendingRemove(group, n) => {
            stream.remove_pending(GROUPS[group], id(n));
        }
        Step::OrderByTime(group) => stream.order_by_time(GROUPS[group]),
        Step::Produced(name, own) => {
            let (own, last) = (own.to_string().into_bytes(), stream.last_entry_id());
            if stream.duplicate_of(NAMES[name], &own).is_none() {
                stream.remember_producer(NAMES[name], &own, last);
            }
        }
        Step::Producers(duration_s, ids_max) => stream.configure_producers(duration_s, ids_max),
        Step::Wait(_) | Step::Remove | Step::Copy => {}
    }
}

/// The relevant state of a stream, as text.
fn describe(stream: &Stream) -> String {
    let mut lines = vec![format!(
        "{} {} {} {}",
        stream.len(),
        stream.last_id(),
        stream.max_deleted(),
        stream.added()
    )];
    for entry in stream.range(StreamId::MIN, StreamId::MAX) {
        lines.push(format!("{} {:?}", entry.id, entry.fields.collect::<Vec<_>>()));
    }
    for (name, group) in stream.groups().iter() {
        lines.push(format!("{name:?} {} {:?}", group.last_delivered(), group.entries_read()));
        for consumer in group.consumers() {
            let ids: Vec<_> = consumer.pending(StreamId::MIN).collect();
            lines.push(format!("{:?} {ids:?}", consumer.name()));
        }
        for (id, pending) in group.pending_from(StreamId::MIN) {
            let owner = pending.owner.and_then(|owner| group.consumer(owner)).map(|c| c.name());
            lines.push(format!("{id} {owner:?} {} {}", pending.delivered_ms, pending.count));
        }
        let mut ordered = group.clone();
        ordered.order_by_time();
        lines.push(format!("{:?}", ordered.claimable(i64::MAX).collect::<Vec<_>>()));
    }
    if let Some(producers) = stream.producers() {
        let ids: Vec<_> = producers.iter().collect();
        lines.push(format!("{} {} {ids:?}", producers.duration_s(), producers.ids_max()));
    }
    lines.join("\n")
}

fn described(handle: &mut Handle) -> Vec<String> {
    let keys = [handle.key(KEY), handle.key(b"copy")];
    keys.map(|key| {
        handle.peek(0, key).map_or(String::new(), |view| describe(view.stream().unwrap()))
    })
    .to_vec()
}

fn keyspace() -> Arc<Keyspace> {
    let keyspace = Keyspace::new(&Options { stripes: 1, ..Options::default() });
    keyspace.limits().set_stream_node_max_entries(4);
    keyspace
}

fn all_held(keyspace: &Arc<Keyspace>) -> Handle {
    let mut handle = keyspace.attach();
    handle.set_clock(START_MS);
    handle.enter();
    handle.lock_all();
    handle
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn effects_make_the_same_stream(steps in prop::collection::vec(step(), 0..120)) {
        let (one, two) = (keyspace(), keyspace());
        let mut handle = all_held(&one);
        let other = Arc::new(Mutex::new(all_held(&two)));
        let sink = other.clone();
        handle.set_sink(Some(Box::new(move |db: u16, effect: &Effect<'_>| {
            // Old IDs of producers expire in the other keyspace too.
            let mut other = sink.lock().unwrap();
            if let Effect::Stream { change: StreamChange::Produced { .. }, .. } = effect {
                let key = other.key(KEY);
                let mut stream = other.open_stream(db, key, true).unwrap().unwrap();
                stream.forget_producers();
            }
            other.apply(db, effect, Origin::LOCAL).unwrap();
        })));
        for step in &steps {
            apply(&mut handle, step);
            other.lock().unwrap().set_clock(handle.now_ms());
        }
        for handle in [&mut handle, &mut *other.lock().unwrap()] {
            for key in [KEY, b"copy"] {
                let key = handle.key(key);
                if let Some(mut stream) = handle.stream_mut(0, key).unwrap() {
                    stream.forget_producers();
                }
            }
        }
        prop_assert_eq!(described(&mut handle), described(&mut other.lock().unwrap()));
        for key in [KEY, b"copy"] {
            let key = handle.key(key);
            handle.remove(0, key);
        }
        // The accounted bytes match the final sizes: nothing is left after the removal.
        let stats = handle.keyspace().stats();
        prop_assert_eq!(stats.used, stats.tables);
        handle.set_sink(None);
        for handle in [&mut handle, &mut *other.lock().unwrap()] {
            handle.unlock();
            handle.exit();
        }
    }
}
