//! A file that an image was written into while threads changed large collections is loaded, and
//! shows one moment.

use petrel_keyspace::types::list::End;
use petrel_keyspace::types::stream::{Pending, References, StreamId, Trim, TrimTo};
use petrel_keyspace::{FieldExpiry, Handle, Keyspace, Options, StrRef, Value};
use petrel_persistence::rdb::{Dialect, FileOptions, FileWriter, Leniency};
use petrel_persistence::{Image, LoadOptions, Progress, load};
use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const FIELDS: u64 = 20_000;
const EACH: i64 = 1_000_000;
const QUEUE: u64 = 30_000;
const OPTIONS: FileOptions = FileOptions {
    compress: true,
    sum: true,
    dialect: Dialect::Redis,
    version_max: FileOptions::ANY_VERSION,
    only_redis_types: false,
};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// The current one of the two names of an account's hash.
fn account(ks: &mut Handle, n: u64) -> Vec<u8> {
    let name = format!("account:{n}").into_bytes();
    let key = ks.key(&name);
    if ks.view(0, key).is_some() { name } else { format!("renamed:{n}").into_bytes() }
}

fn amount(ks: &Handle, name: &[u8], field: &[u8]) -> i64 {
    let hash = ks.view(0, ks.key(name)).unwrap().hash(ks.now_ms()).unwrap();
    let text = hash.get(field).unwrap().value.bytes(&mut itoa::Buffer::new()).to_vec();
    String::from_utf8(text).unwrap().parse().unwrap()
}

fn set(ks: &mut Handle, name: &[u8], field: &[u8], amount: i64) {
    let amount = amount.to_string();
    ks.hash_set(0, ks.key(name), &[field, amount.as_bytes()], FieldExpiry::Clear).unwrap();
}

/// Moves an amount from one hash to the other.
fn transfer(ks: &mut Handle, random: &mut Random) {
    let names: Vec<Vec<u8>> =
        ["account:0", "renamed:0", "account:1", "renamed:1"].map(Into::into).into();
    let hashes: Vec<_> = names.iter().map(|name| ks.hash(name)).collect();
    ks.lock_many(hashes.into_iter());
    let (from, to) = (account(ks, 0), account(ks, 1));
    let field = format!("field {} of an account", random.below(FIELDS));
    let (has, gets) = (amount(ks, &from, field.as_bytes()), amount(ks, &to, field.as_bytes()));
    set(ks, &from, field.as_bytes(), has - 7);
    set(ks, &to, field.as_bytes(), gets + 7);
    if random.below(300) == 0 {
        let other = if from == names[0] { &names[1] } else { &names[0] };
        ks.rename(0, ks.key(&from), 0, ks.key(other));
    }
    ks.unlock();
}

/// As many entries as there are elements in the queue.
const TO_QUEUE: Trim =
    Trim { to: TrimTo::Len(QUEUE), approximate: false, limit: 0, references: References::Keep };

/// Appends to the stream, of which a group has the last entry pending.
fn append(ks: &mut Handle, n: u64, text: &str) {
    let mut stream = ks.open_stream(0, ks.key(b"stream"), true).unwrap().unwrap();
    let id = StreamId::new(n + 1, 0);
    assert!(stream.add(id, &[b"text", text.as_bytes()]));
    if n == 0 {
        stream.put_group(b"group", id, None);
    }
    let owner = stream.see_consumer(b"group", b"consumer");
    stream.remove_pending(b"group", StreamId::new(n, 0));
    stream.put_pending(b"group", id, Pending { owner, delivered_ms: 0, count: 1 });
    // Another group has as many pending as the stream has entries, of two consumers in turn.
    if n == 0 {
        stream.put_group(b"late", id, None);
    }
    let owner = stream.see_consumer(b"late", CONSUMERS[id.ms as usize % 2]);
    stream.remove_pending(b"late", StreamId::new(id.ms.saturating_sub(QUEUE), 0));
    stream.put_pending(b"late", id, Pending { owner, delivered_ms: n as i64, count: 1 });
}

const CONSUMERS: [&[u8]; 2] = [b"even", b"odd"];

/// Takes a number from the queue's head and appends the next.
fn turn(ks: &mut Handle, random: &mut Random) {
    let (queue, next) = (ks.key(b"queue"), ks.key(b"next"));
    ks.lock_many([queue.hash, next.hash, ks.hash(b"stream")].into_iter());
    for _ in 0..1 + random.below(5) {
        let Some(StrRef::Int(n)) = ks.view(0, next).map(|view| view.string().unwrap()) else {
            panic!("a number")
        };
        let text = format!("number {n:09} in the queue");
        ks.list_push(0, queue, End::Back, &[text.as_bytes()]).unwrap();
        ks.add(0, next, 1).unwrap();
        ks.list_mut(0, queue).unwrap().unwrap().pop(End::Front, 1, |_| ());
        append(ks, n as u64, &text);
        let mut stream = ks.stream_mut(0, ks.key(b"stream")).unwrap().unwrap();
        assert_eq!(stream.trim(&TO_QUEUE), 1);
    }
    ks.unlock();
}

fn fill(ks: &mut Handle) {
    ks.enter();
    ks.lock_all();
    for n in 0..FIELDS {
        let field = format!("field {n} of an account");
        for name in ["account:0", "account:1"] {
            set(ks, name.as_bytes(), field.as_bytes(), EACH);
        }
    }
    for n in 0..QUEUE {
        let text = format!("number {n:09} in the queue");
        ks.list_push(0, ks.key(b"queue"), End::Back, &[text.as_bytes()]).unwrap();
        append(ks, n, &text);
    }
    ks.put(0, ks.key(b"next"), Value::Int(QUEUE as i64), None);
    ks.unlock();
    ks.exit();
}

fn check(bytes: &[u8]) {
    let keyspace = Keyspace::new(&Options::default());
    let options = LoadOptions {
        threads: 1,
        leniency: Leniency::default(),
        keeps_expired: false,
        merges: false,
    };
    load(bytes, bytes.len() as u64, &keyspace, options, &Progress::default()).unwrap();
    let mut ks = keyspace.attach();
    ks.enter();
    ks.lock_all();
    let mut sum = 0;
    for n in 0..2 {
        let name = account(&mut ks, n);
        let hash = ks.view(0, ks.key(&name)).unwrap().hash(0).unwrap();
        assert_eq!(hash.len() as u64, FIELDS);
        hash.each(&mut |field| {
            let text = field.value.bytes(&mut itoa::Buffer::new()).to_vec();
            sum += String::from_utf8(text).unwrap().parse::<i64>().unwrap();
        });
    }
    assert_eq!(sum, 2 * FIELDS as i64 * EACH);
    let Ok(StrRef::Int(next)) = ks.view(0, ks.key(b"next")).unwrap().string() else {
        panic!("a number")
    };
    let queue = ks.view(0, ks.key(b"queue")).unwrap().list().unwrap();
    assert_eq!(queue.len() as u64, QUEUE);
    for (n, item) in (next - QUEUE as i64..).zip(queue.iter_from(0)) {
        assert_eq!(item.to_vec(), format!("number {n:09} in the queue").into_bytes());
    }
    let stream = ks.view(0, ks.key(b"stream")).unwrap().stream().unwrap();
    assert_eq!((stream.len(), stream.added()), (QUEUE, next as u64));
    for (n, entry) in (next as u64 - QUEUE + 1..).zip(stream.by_node().flatten()) {
        assert_eq!(entry.id, StreamId::new(n, 0));
    }
    let group = stream.groups().get(b"group").unwrap();
    let pending: Vec<_> = group.pending_from(StreamId::MIN).map(|(id, _)| id.ms).collect();
    assert_eq!(pending, [next as u64]);
    let group = stream.groups().get(b"late").unwrap();
    assert_eq!(group.pending_len() as u64, QUEUE);
    for (n, (id, pending)) in (next as u64 - QUEUE + 1..).zip(group.pending_from(StreamId::MIN)) {
        let owner = pending.owner.and_then(|owner| group.consumer(owner)).unwrap();
        assert_eq!((id, pending.delivered_ms), (StreamId::new(n, 0), n as i64 - 1));
        assert_eq!(owner.name(), CONSUMERS[n as usize % 2]);
    }
    let lens = group.consumers().map(|consumer| consumer.pending_len() as u64);
    assert_eq!(lens.collect::<Vec<_>>(), [QUEUE / 2; 2]);
    ks.unlock();
    ks.exit();
}

#[test]
fn large_collections_are_of_one_moment_while_threads_change_them() {
    let keyspace = Keyspace::new(&Options::default());
    let mut ks = keyspace.attach();
    fill(&mut ks);
    let done = AtomicBool::new(false);
    let images: Vec<Vec<u8>> = std::thread::scope(|scope| {
        for seed in 1..4 {
            let (keyspace, done): (&Arc<Keyspace>, _) = (&keyspace, &done);
            scope.spawn(move || {
                let (mut ks, mut random) = (keyspace.attach(), Random(seed * 77_777));
                while !done.load(Relaxed) {
                    ks.enter();
                    for _ in 0..20 {
                        transfer(&mut ks, &mut random);
                        turn(&mut ks, &mut random);
                    }
                    ks.exit();
                }
            });
        }
        let images = (0..4).map(|n| {
            let mut file = FileWriter::new(Cursor::new(Vec::new()), OPTIONS).unwrap();
            ks.enter();
            let mut image = Image::begin(&mut ks, OPTIONS).unwrap();
            ks.exit();
            image.threads = 1 + n % 2;
            let keys = image.write(&mut ks, &mut file, |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(keys, Some(5));
            file.finish().unwrap().into_inner()
        });
        let images = images.collect();
        done.store(true, Relaxed);
        images
    });
    images.iter().for_each(|image| check(image));
}

#[test]
fn an_image_that_is_given_up_leaves_nothing_behind() {
    let keyspace = Keyspace::new(&Options::default());
    let mut ks = keyspace.attach();
    fill(&mut ks);
    for end_at in [0, 2, 4, u64::MAX] {
        let mut file = FileWriter::new(Cursor::new(Vec::new()), OPTIONS).unwrap();
        ks.enter();
        let image = Image::begin(&mut ks, OPTIONS).unwrap();
        turn(&mut ks, &mut Random(5));
        ks.exit();
        let mut calls = 0;
        let written = image.write(&mut ks, &mut file, |_| {
            calls += 1;
            if calls > end_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(written.unwrap().is_some(), end_at == u64::MAX);
        if end_at == u64::MAX {
            check(&file.finish().unwrap().into_inner());
        }
    }
}

#[test]
fn a_large_collection_alone_is_counted() {
    let keyspace = Keyspace::new(&Options::default());
    let mut ks = keyspace.attach();
    fill(&mut ks);
    ks.enter();
    ks.lock_all();
    for name in ["account:0", "account:1", "next", "stream"] {
        ks.remove(0, ks.key(name.as_bytes()));
    }
    let image = Image::begin(&mut ks, OPTIONS).unwrap();
    ks.unlock();
    ks.exit();
    let mut file = FileWriter::new(Cursor::new(Vec::new()), OPTIONS).unwrap();
    let keys = image.write(&mut ks, &mut file, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(keys, Some(1));
}
