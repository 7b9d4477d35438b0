//! Snapshots of large collections contain the state at their begin, regardless of changes between
//! two portions.

use petrel_json::{Change, Op, Step};
use petrel_keyspace::bloom::{self, Filter, Part, Reserve, TYPE};
use petrel_keyspace::custom::ModuleWriter;
use petrel_keyspace::types::list::End;
use petrel_keyspace::types::stream::{
    ConsumerHead, EntryRef, Group, Pending, PendingHead, References, Stream, StreamId, StreamMut,
    Trim, TrimTo,
};
use petrel_keyspace::{
    Cursor, FieldExpiry, Handle, ImageElement, ImageKey, ImagePlace, ImageSink, JsonChange,
    Keyspace, Options, Portions, Type, Value, View,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

const DATABASES: u16 = 2;
const KEYS: u64 = 8;
/// The clock at the beginning.
const BEGIN: i64 = 1_000_000;
const FAR: i64 = 1 << 50;

/// A value: elements, each with its expiry.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shown {
    expiry: Option<i64>,
    is_ordered: bool,
    elements: Vec<(Vec<u8>, i64)>,
}

impl Shown {
    /// Content at a time, in an order that does not depend on the position of elements.
    fn at(mut self, now: i64) -> Self {
        self.elements.retain(|(_, expiry)| *expiry > now);
        if !self.is_ordered {
            self.elements.sort();
        }
        self
    }
}

type Contents = BTreeMap<(u16, Vec<u8>), Shown>;

fn shown(view: View<'_>, now: i64) -> Shown {
    let mut elements = Vec::new();
    let mut scratch = itoa::Buffer::new();
    match view.type_of() {
        Type::String => {
            elements.push((view.string().unwrap().bytes(&mut scratch).to_vec(), FAR));
        }
        Type::List => {
            elements.extend(view.list().unwrap().iter_from(0).map(|item| (item.to_vec(), FAR)));
        }
        Type::Set => view.set().unwrap().each(&mut |member| {
            elements.push((member.bytes(&mut scratch).to_vec(), FAR));
        }),
        Type::SortedSet => {
            let set = view.sorted_set().unwrap();
            set.each(0..set.len(), |member, score| {
                elements.push((scored(member.bytes(&mut scratch), score), FAR));
            });
        }
        Type::Hash => view.hash(now).unwrap().each(&mut |field| {
            let mut other = itoa::Buffer::new();
            let (name, value) = (field.name.bytes(&mut scratch), field.value.bytes(&mut other));
            elements.push(([name, b"=", value].concat(), field.expiry.unwrap_or(FAR)));
        }),
        Type::Stream => {
            let stream = view.stream().unwrap();
            elements.extend(stream.by_node().flatten().map(entry));
            elements.push(state(stream, stream.first_id(), stream.groups().len()));
            stream.groups().iter().for_each(|(name, of)| group(name, of, &mut elements));
            elements.push(rest(stream));
        }
        Type::VECTOR_SET => view.vectors().unwrap().for_each(|name, vector, _| {
            elements.push(([name, b"=", vector.code].concat(), FAR));
        }),
        Type::BLOOM => view.custom::<Filter>().unwrap().bloom().each_part(&mut |part| {
            let bits = if let Part::Bits(bits) = part { bits } else { &[] };
            elements.push((bits.to_vec(), FAR));
        }),
        _ => {
            let mut text = Vec::new();
            petrel_json::print(view.json().unwrap(), &Default::default(), &mut text);
            elements.push((text, FAR));
        }
    }
    let is_ordered = matches!(view.type_of(), Type::List | Type::Stream);
    Shown { expiry: view.expiry(), is_ordered, elements }
}

fn entry(entry: EntryRef<'_>) -> (Vec<u8>, i64) {
    (format!("{:?} {:?}", entry.id, entry.fields.collect::<Vec<_>>()).into_bytes(), FAR)
}

fn state(stream: &Stream, first: StreamId, groups: usize) -> (Vec<u8>, i64) {
    let figures = (stream.len(), first, stream.last_id(), stream.max_deleted(), stream.added());
    (format!("{figures:?} {groups}").into_bytes(), FAR)
}

fn rest(stream: &Stream) -> (Vec<u8>, i64) {
    (format!("{:?}", stream.producers().is_some()).into_bytes(), FAR)
}

/// Elements of a group that a snapshot should contain, from the group itself.
fn group(name: &[u8], group: &Group, elements: &mut Vec<(Vec<u8>, i64)>) {
    let consumers: Vec<_> = group.consumers().collect();
    let heads = consumers.iter().map(|consumer| ConsumerHead {
        name: consumer.name().into(),
        seen_ms: consumer.seen_ms(),
        active_ms: consumer.active_ms(),
    });
    let heads: Vec<_> = heads.collect();
    elements.push(group_head(
        name,
        group.last_delivered(),
        group.entries_read(),
        &heads,
        [group.pending_len(), group.nacked_len()],
    ));
    for (id, Pending { owner, delivered_ms, count }) in group.pending_from(StreamId::MIN) {
        let name = owner.and_then(|owner| group.consumer(owner)).map(|consumer| consumer.name());
        let owner = name.and_then(|name| heads.iter().position(|head| *head.name == *name));
        elements.push(pending(PendingHead { id, owner, delivered_ms, count }));
    }
    let given_back = group.claimable(i64::MIN).take(group.nacked_len());
    elements.extend(given_back.map(|id| (format!("{id:?}").into_bytes(), FAR)));
}

fn group_head(
    name: &[u8],
    last: StreamId,
    read: Option<u64>,
    consumers: &[ConsumerHead],
    lens: [usize; 2],
) -> (Vec<u8>, i64) {
    (format!("{name:?} {last:?} {read:?} {consumers:?} {lens:?}").into_bytes(), FAR)
}

fn pending(head: PendingHead) -> (Vec<u8>, i64) {
    (format!("{head:?}").into_bytes(), FAR)
}

fn scored(member: &[u8], score: f64) -> Vec<u8> {
    [member, b"@", &score.to_le_bytes()].concat()
}

/// The strings of a part of a value: name and code of a vector, the text of a document.
#[derive(Default)]
struct Texts(Vec<Vec<u8>>);

impl ModuleWriter for Texts {
    fn unsigned(&mut self, _: u64) {}
    fn signed(&mut self, _: i64) {}
    fn double(&mut self, _: f64) {}
    fn encoded(&mut self, _: &[u8]) {}
    fn begin_text(&mut self, _: usize) {}
    fn text_bytes(&mut self, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
    fn text(&mut self, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
}

fn add_element(element: ImageElement<'_>, elements: &mut Vec<(Vec<u8>, i64)>) {
    elements.push(match element {
        ImageElement::Item(text) | ImageElement::Member(text) => (text.to_vec(), FAR),
        ImageElement::Scored(member, score) => (scored(member, score), FAR),
        ImageElement::Field(name, value, expiry) => {
            ([name, b"=", value].concat(), expiry.unwrap_or(FAR))
        }
        ImageElement::Node(node) => return elements.extend(node.entries().map(entry)),
        ImageElement::StreamState(stream, first, groups) => state(stream, first, groups),
        ImageElement::Group(head) => group_head(
            head.name(),
            head.last_delivered(),
            head.entries_read(),
            head.consumers(),
            [head.pending_len(), head.nacked_len()],
        ),
        ImageElement::Pending(head) => pending(head),
        ImageElement::GivenBack(id) => (format!("{id:?}").into_bytes(), FAR),
        ImageElement::StreamRest(stream) => rest(stream),
        ImageElement::Custom(chunk) => {
            let mut texts = Texts::default();
            chunk.write(&mut texts);
            (texts.0.join(&b"="[..]), FAR)
        }
    });
}

fn contents(ks: &mut Handle) -> Contents {
    let (mut contents, now) = (Contents::new(), ks.now_ms());
    for db in 0..DATABASES {
        let mut cursor = Cursor::default();
        loop {
            cursor = ks.scan(db, cursor, 100, |view| {
                contents.insert((db, view.key().to_vec()), shown(view, now));
            });
            if cursor == Cursor::default() {
                break;
            }
        }
    }
    contents
}

type Begun = ((u16, Vec<u8>), Arc<Portions>);

/// Values taken whole, or as far as they were, and collections taken in portions.
#[derive(Default)]
struct Collected {
    contents: Mutex<Contents>,
    begun: Mutex<Vec<Begun>>,
}

impl ImageSink for Collected {
    fn key(&self, key: ImageKey<'_>, now_ms: i64) {
        let name = (key.db, key.view.key().to_vec());
        let mut shown = shown(key.view, now_ms);
        if let Some(portions) = key.portions {
            shown.elements.clear();
            self.begun.lock().unwrap().push((name.clone(), portions));
        }
        let before = self.contents.lock().unwrap().insert(name, shown);
        assert!(before.is_none(), "a key was handed out twice");
    }
}

/// Takes one portion of a begun collection, if there is any.
fn take_portion(ks: &mut Handle, collected: &Collected, random: &mut Random) -> bool {
    let mut begun = collected.begun.lock().unwrap();
    if begun.is_empty() {
        return false;
    }
    let at = random.below(begun.len() as u64) as usize;
    let (name, portions) = &begun[at];
    let (mut contents, enough) = (collected.contents.lock().unwrap(), random.below(200));
    let elements = &mut contents.get_mut(name).unwrap().elements;
    let mut taken = 0;
    let goes_on = ks.continue_portions(portions, &mut |it| {
        add_element(it, elements);
        taken += 1;
        if taken < enough { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if !goes_on {
        begun.swap_remove(at);
    }
    true
}

/// Takes a whole snapshot; `between` runs between any two holds.
fn walk(
    ks: &mut Handle,
    collected: &Collected,
    random: &mut Random,
    mut between: impl FnMut(&mut Handle, &mut Random),
) {
    for stripe in 0..ks.keyspace().stripes() {
        let mut place = Some(ImagePlace::stripe(stripe));
        while let Some(at) = place {
            between(ks, random);
            let now = ks.now_ms();
            place = ks.continue_image(at, &mut |key| {
                collected.key(key, now);
                ControlFlow::Break(())
            });
            if random.below(2) == 0 {
                take_portion(ks, collected, random);
            }
        }
    }
    while !ks.end_image() {
        between(ks, random);
        let now = ks.now_ms();
        let more = ks.continue_cleared(&mut |key| {
            collected.key(key, now);
            ControlFlow::Continue(())
        });
        assert!(take_portion(ks, collected, random) || more, "an image that does not end");
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn name(&mut self) -> Vec<u8> {
        format!("element {:05}", self.below(4000)).into_bytes()
    }
}

/// Sets a key to a large collection.
fn fill(ks: &mut Handle, db: u16, name: &[u8], random: &mut Random) {
    let key = ks.key(name);
    ks.lock(key.hash);
    ks.remove(db, key);
    let (kind, len) = (random.below(7), 2000 + random.below(2000));
    if kind >= 5 {
        match kind {
            5 => fill_json(ks, db, name, len),
            _ => fill_bloom(ks, db, name, len),
        }
        return ks.unlock();
    }
    for n in 0..len {
        let (element, value) = (format!("element {n:05}"), random.below(1 << 40).to_string());
        let (element, value) = (element.as_bytes(), value.as_bytes());
        match kind {
            0 => {
                let text = [value, element, &[b'x'; 30]].concat();
                let _ = ks.list_push(db, key, End::Back, &[&text]);
            }
            1 => drop(ks.set_add(db, key, &[element, value])),
            2 => drop(ks.hash_set(db, key, &[element, value], expiry(ks.now_ms(), random))),
            3 => {
                let mut stream = ks.open_stream(db, key, true).unwrap().unwrap();
                stream.add(StreamId::new(10 * n + 1, 0), &[b"name", element, b"value", value]);
            }
            _ => {
                let score = random.below(100) as f64;
                let _ = ks.sorted_set_change(db, key, element, score, |_| Some(score));
            }
        }
    }
    if kind == 3 {
        fill_groups(ks, db, name, random);
    }
    ks.unlock();
}

/// Sets a key to a JSON document: an array of texts, long enough to be taken in portions.
fn fill_json(ks: &mut Handle, db: u16, name: &[u8], len: u64) {
    let mut writer = petrel_json::tape::Writer::default();
    let begun = writer.begin_array();
    for n in 0..len {
        writer.string(format!("element {n:05} of a document that is long").as_bytes());
    }
    writer.end(begun, len as usize);
    let document = writer.finish();
    let change = JsonChange::Put { tape: document.tape() };
    ks.json_change(db, ks.key(name), change).unwrap();
}

/// Sets a key to a Bloom filter of several links, long enough to be taken in portions.
fn fill_bloom(ks: &mut Handle, db: u16, name: &[u8], len: u64) {
    let asked = Reserve { error: 1e-9, entries: 500, expansion: 9, is_fixed: false };
    let mut slot = ks.slot(db, ks.key(name), &TYPE).unwrap();
    assert!(bloom::reserve(&mut slot, asked));
    for n in 0..8 * len {
        bloom::add_one(&mut slot, &n.to_le_bytes()).unwrap().unwrap();
    }
}

/// Adds items, which grow the filter now and then.
fn change_bloom(ks: &mut Handle, db: u16, name: &[u8], random: &mut Random) {
    let mut slot = ks.slot(db, ks.key(name), &TYPE).unwrap();
    for _ in 0..random.below(20) {
        bloom::add_one(&mut slot, &random.below(1 << 40).to_le_bytes()).unwrap().unwrap();
    }
}

/// Changes an element of the array, adds one, or removes some.
fn change_json(ks: &mut Handle, db: u16, name: &[u8], random: &mut Random) {
    let key = ks.key(name);
    let len = ks.view(db, key).unwrap().json().unwrap().len();
    let mut writer = petrel_json::tape::Writer::default();
    writer.string(&random.name());
    let value = writer.into_bytes();
    let at = random.below(len.max(1) as u64) as usize;
    let place = [Step::Index(at)];
    let op = match random.below(40) {
        0 => Op::Remove { count: (len - at).min(30) },
        1..20 if len > 0 => Op::Set(&value),
        _ => Op::Insert { count: 1, values: &value },
    };
    ks.json_change(db, key, JsonChange::At(Change { place: &place, op })).unwrap();
}

/// Adds groups with many pending entries to a stream.
fn fill_groups(ks: &mut Handle, db: u16, name: &[u8], random: &mut Random) {
    let Ok(Some(mut stream)) = ks.stream_mut(db, ks.key(name)) else { return };
    for group in GROUPS.iter().take(random.below(4) as usize) {
        stream.put_group(group, StreamId::new(random.below(9), 0), None);
        for n in 0..random.below(2000) {
            let owner = stream.see_consumer(group, CONSUMERS[n as usize % 3]);
            let owner = owner.filter(|_| n % 7 > 0);
            let pending = Pending { owner, delivered_ms: n as i64, count: 1 };
            stream.put_pending(group, StreamId::new(10 * random.below(2000) + 1, 0), pending);
        }
    }
}

const GROUPS: [&[u8]; 3] = [b"group", b"a", b"z"];
const CONSUMERS: [&[u8]; 4] = [b"one", b"two", b"three", b"four"];

fn expiry(now: i64, random: &mut Random) -> FieldExpiry {
    match random.below(8) {
        0 => FieldExpiry::At(now + 1 + random.below(20) as i64),
        1 => FieldExpiry::At(FAR - random.below(1000) as i64 - 1),
        _ => FieldExpiry::Clear,
    }
}

/// Makes a random change.
fn change(ks: &mut Handle, random: &mut Random) {
    let db = random.below(2) as u16;
    let names = [random.below(KEYS), random.below(KEYS)].map(|i| format!("key:{i}"));
    let [key, other] = [ks.key(names[0].as_bytes()), ks.key(names[1].as_bytes())];
    match random.below(2000) {
        0..6 => {
            ks.lock_all();
            ks.swap(0, 1);
            return ks.unlock();
        }
        6 => {
            ks.lock_all();
            let cleared = ks.clear((random.below(2) == 0).then_some(db));
            ks.unlock();
            return drop(cleared);
        }
        7..14 => return fill(ks, db, names[0].as_bytes(), random),
        60..70 => return ks.set_clock(ks.now_ms() + 1),
        _ => {}
    }
    ks.lock_many([key.hash, other.hash].into_iter());
    // Most changes are of elements: too many removals of whole keys would leave nothing to change.
    match random.below(500) {
        0 => drop(ks.remove(db, key)),
        1..4 => drop(ks.rename(db, key, random.below(2) as u16, other)),
        4 => drop(ks.copy(db, key, 1 - db, other)),
        5 => drop(ks.put(db, key, Value::Int(7), None)),
        6..10 => drop(ks.set_expiry(db, key, Some(FAR + random.below(100) as i64))),
        10 => drop(ks.set_expiry(db, key, Some(ks.now_ms() + 3))),
        _ => change_element(ks, db, names[0].as_bytes(), random),
    }
    ks.unlock();
}

fn change_element(ks: &mut Handle, db: u16, name: &[u8], random: &mut Random) {
    let key = ks.key(name);
    let Some(of) = ks.peek(db, key).map(|view| view.type_of()) else { return };
    let (element, other, value) = (random.name(), random.name(), random.below(1 << 30).to_string());
    let bulk = random.below(40) == 0;
    match of {
        Type::List => change_list(ks, db, name, random),
        Type::Set if bulk && random.below(2) == 0 => {
            for n in 0..random.below(1000) {
                let _ = ks.set_add(db, key, &[format!("{value} {n}").as_bytes()]);
            }
        }
        Type::Set if bulk => {
            let count = random.below(3000) as usize;
            let _ = ks.set_pop(db, key, count, &mut || random.below(1 << 40), &mut |_| ());
        }
        Type::Set if random.below(2) == 0 => drop(ks.set_remove(db, key, &[&element, &other])),
        Type::Set => drop(ks.set_add(db, key, &[&element, value.as_bytes()])),
        Type::SortedSet if bulk => {
            let first = random.below(1000) as usize;
            let _ = ks.sorted_set_remove_range(db, key, first..first + 20);
        }
        Type::SortedSet if random.below(3) == 0 => drop(ks.sorted_set_remove(db, key, &element)),
        Type::SortedSet => {
            let score = random.below(100) as f64;
            let _ = ks.sorted_set_change(db, key, &element, score, |_| Some(score));
        }
        Type::Hash if bulk => ks.hash_drop_some_expired(db, key),
        Type::Hash => match random.below(4) {
            0 => drop(ks.hash_remove(db, key, &[&element, &other])),
            1 => {
                let at = (random.below(2) == 0).then(|| ks.now_ms() + 1 + random.below(9) as i64);
                let _ = ks.hash_set_expiry(db, key, &element, at);
            }
            _ => {
                let expiry = expiry(ks.now_ms(), random);
                let _ = ks.hash_set(db, key, &[&element, value.as_bytes()], expiry);
            }
        },
        Type::Stream => change_stream(ks, db, name, random),
        Type::JSON => change_json(ks, db, name, random),
        Type::BLOOM => change_bloom(ks, db, name, random),
        Type::String | Type::Custom(_) => {}
    }
}

fn change_stream(ks: &mut Handle, db: u16, name: &[u8], random: &mut Random) {
    let Ok(Some(mut stream)) = ks.stream_mut(db, ks.key(name)) else { return };
    let (element, last) = (random.name(), stream.last_id());
    let some = StreamId::new(10 * random.below(4000) + 1, 0);
    match random.below(600) {
        0 => {
            let to = if random.below(2) == 0 { TrimTo::Id(some) } else { TrimTo::Len(100) };
            stream.trim(&Trim { to, approximate: false, limit: 0, references: References::Keep });
        }
        // The lowest ID that `XSETID` accepts.
        1..4 => {
            let (to, added) = (stream.last_entry_id(), stream.added());
            stream.set(to, added, stream.max_deleted());
        }
        4..80 => change_group(&mut stream, some, random),
        80..200 => _ = stream.delete(some),
        200..230 => {
            let all: Vec<_> = stream.rev_range(StreamId::MIN, StreamId::MAX).take(5).collect();
            let ids: Vec<_> = all.into_iter().map(|entry| entry.id).collect();
            ids.into_iter().for_each(|id| assert!(stream.delete(id)));
        }
        _ => {
            let id = StreamId::new(last.ms + random.below(3), last.seq + 1);
            stream.add(id, &[b"name", &element, b"other", b"text"]);
        }
    }
}

fn change_group(stream: &mut StreamMut<'_>, some: StreamId, random: &mut Random) {
    let (name, consumer) = (GROUPS[random.below(3) as usize], CONSUMERS[random.below(4) as usize]);
    let id = StreamId::new(10 * random.below(2000) + 1, 0);
    let choice = random.below(60);
    if choice == 0 {
        stream.remove_group(name);
    } else if choice < 4 {
        stream.put_group(name, some, Some(7));
    } else if stream.groups().get(name).is_none() {
    } else if choice < 6 {
        stream.remove_consumer(name, consumer);
    } else if choice < 30 {
        stream.remove_pending(name, id);
    } else {
        let owner = stream.see_consumer(name, consumer).filter(|_| choice < 50);
        stream.put_pending(name, id, Pending { owner, delivered_ms: 5, count: 1 });
    }
}

fn change_list(ks: &mut Handle, db: u16, name: &[u8], random: &mut Random) {
    let key = ks.key(name);
    let Ok(Some(mut list)) = ks.list_mut(db, key) else { return };
    let (len, text) = (list.len(), random.name());
    let end = if random.below(2) == 0 { End::Front } else { End::Back };
    let index = random.below(len as u64) as usize;
    match random.below(600) {
        0 => list.insert(index, &text),
        1 => list.remove(index),
        2 => {
            let text = list.read().iter_from(index).next().map(|item| item.to_vec());
            list.remove_equal(&text.unwrap(), end, 2);
        }
        3..12 => {
            list.trim(random.below(40) as usize..len.saturating_sub(random.below(40) as usize))
        }
        12..14 => list.trim(index..len),
        14 => list.trim(0..index),
        15..30 => list.insert(if end == End::Front { 0 } else { len }, &text),
        30..200 => list.set(index, &text),
        200..400 => {
            list.pop(end, 1 + random.below(3) as usize, |_| ());
        }
        400..405 => {
            list.pop(end, 300, |_| ());
        }
        _ => {
            list.push(end, &[&text]);
        }
    }
}

#[test]
fn an_image_shows_one_moment_of_large_collections_whatever_changes_meanwhile() {
    let mut begun = 0;
    for seed in 1..6 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let options = Options { databases: DATABASES, stripes: 16, ..Options::default() };
        let mut ks = Keyspace::new(&options).attach();
        ks.set_clock(BEGIN);
        ks.enter();
        for _ in 0..2 {
            for n in 0..KEYS {
                let db = random.below(2) as u16;
                fill(&mut ks, db, format!("key:{n}").as_bytes(), &mut random);
            }
            let (before, collected) = (contents(&mut ks), Arc::new(Collected::default()));
            assert!(ks.begin_image(collected.clone(), |_| ()));
            walk(&mut ks, &collected, &mut random, |ks, random| {
                (0..random.below(30)).for_each(|_| change(ks, random));
                begun += collected.begun.lock().unwrap().len();
            });
            let now = ks.now_ms();
            let image = std::mem::take(&mut *collected.contents.lock().unwrap());
            assert_eq!(image.len(), before.len(), "seed {seed}");
            for (name, value) in image {
                let (value, expected) = (value.at(now), before[&name].clone().at(now));
                let differs = value.elements.iter().zip(&expected.elements).find(|(a, b)| a != b);
                assert!(
                    value == expected,
                    "seed {seed}: {name:?}: {} elements for {}: {differs:?}",
                    value.elements.len(),
                    expected.elements.len()
                );
            }
        }
        ks.exit();
    }
    assert!(begun > 1000, "{begun} times something was half handed out");
}

/// Pages that a filter keeps for a snapshot are used memory until the snapshot has them.
#[test]
fn pages_that_are_kept_are_counted() {
    let mut random = Random(7);
    let mut ks = Keyspace::new(&Options { stripes: 4, ..Options::default() }).attach();
    ks.enter();
    let key = ks.key(b"k");
    ks.lock(key.hash);
    let asked = Reserve { error: 0.01, entries: 1_000_000, expansion: 2, is_fixed: false };
    assert!(bloom::reserve(&mut ks.slot(0, key, &TYPE).unwrap(), asked));
    let add = |ks: &mut Handle, random: &mut Random| {
        let mut slot = ks.slot(0, ks.key(b"k"), &TYPE).unwrap();
        let item = random.below(1 << 50).to_le_bytes();
        bloom::add_one(&mut slot, &item).unwrap().unwrap();
    };
    (0..20_000).for_each(|_| add(&mut ks, &mut random));
    ks.unlock();
    let (keyspace, collected) = (ks.keyspace().clone(), Arc::new(Collected::default()));
    let used = keyspace.stats().used;
    assert!(ks.begin_image(collected.clone(), |_| ()));
    assert_eq!(keyspace.stats().used, used);
    let mut most = 0;
    walk(&mut ks, &collected, &mut random, |ks, random| {
        ks.lock(ks.key(b"k").hash);
        add(ks, random);
        ks.unlock();
        most = most.max(keyspace.stats().used);
    });
    assert!(most > used, "nothing was kept");
    assert_eq!(keyspace.stats().used, used);
    ks.exit();
}
