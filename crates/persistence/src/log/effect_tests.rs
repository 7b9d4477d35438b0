use super::*;
use crate::record::{page_with, table};
use petrel_keyspace::aux_state::FUNCTIONS;
use petrel_keyspace::custom::{CustomChange, TypeNumber};
use petrel_keyspace::types::list::End;
use petrel_keyspace::types::stream::{StreamChange, StreamId};
use petrel_keyspace::{Key, Keyspace, Options, Removal, StrRef};
use std::fmt::Write;

/// Bytes of every kind of effect, and the effect that they are read as.
const GOLDEN: &str = include_str!("../../tests/data/effects.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn changes_of_streams() -> Vec<StreamChange<'static>> {
    let (id, group) = (StreamId { ms: 300, seq: 1 }, &b"g"[..]);
    let pending =
        |consumer| StreamChange::Pending { group, id, consumer, delivered_ms: -8, count: 200 };
    let seen = |active_ms| StreamChange::Consumer { group, consumer: b"c", seen_ms: 5, active_ms };
    let set = |read| StreamChange::Group { group, last_delivered: id, read, is_new: false };
    vec![
        StreamChange::Add { id, fields: &[b"f", b"value"] },
        StreamChange::Delete { id },
        StreamChange::TrimOne { id },
        StreamChange::TrimUpTo { id },
        StreamChange::Set { last_id: id, added: 1 << 40, max_deleted: StreamId::MIN },
        set(None),
        set(Some(7)),
        StreamChange::GroupRemove { group },
        seen(None),
        seen(Some(-1)),
        StreamChange::ConsumerRemove { group, consumer: b"c" },
        pending(None),
        pending(Some(b"consumer")),
        StreamChange::PendingRemove { group, id },
        StreamChange::Produced { producer: b"p", own_id: b"own", id },
        StreamChange::Producers { duration_s: 100, ids_max: u32::MAX },
    ]
}

fn effects() -> Vec<Effect<'static>> {
    let (key, member, element) = (&b"key"[..], &b"member"[..], &b"element"[..]);
    let put = |value, expiry| Effect::Put { key, value, expiry };
    let pushed = |end| Effect::ListPush { key, end, element };
    let field = |expiry| Effect::FieldPut { key, field: b"f", value: b"v", expiry };
    let copy = |moved| Effect::CopyFrom { key, from_db: 300, from: b"from", moved, value: None };
    let mut effects = vec![
        put(StrRef::Bytes(b"value"), None),
        put(StrRef::Bytes(b""), Some(1 << 41)),
        put(StrRef::Int(-70), None),
        put(StrRef::Int(i64::MIN), Some(-1)),
        copy(false),
        copy(true),
        Effect::Remove { key, why: Removal::Deleted },
        Effect::Expire { key, expiry: None },
        Effect::Expire { key, expiry: Some(1 << 41) },
        Effect::Add { key, delta: -1 },
        Effect::Write { key, offset: 300, bytes: b"bytes" },
        Effect::ScorePut { key, member, score: -0.5 },
        Effect::ScoreRemove { key, member },
        Effect::MemberAdd { key, member },
        Effect::MemberRemove { key, member },
        pushed(End::Front),
        pushed(End::Back),
        Effect::ListPop { key, end: End::Front },
        Effect::ListPop { key, end: End::Back },
        Effect::ListSet { key, index: 200, element },
        Effect::ListInsert { key, index: 1, element, next: None },
        Effect::ListRemove { key, index: 0 },
        Effect::ListTrim { key, from: 1, len: 1 << 20 },
        field(None),
        field(Some(1 << 41)),
        Effect::FieldExpire { key, field: b"f", expiry: None },
        Effect::FieldExpire { key, field: b"f", expiry: Some(2) },
        Effect::FieldRemove { key, field: b"f", why: Removal::Deleted },
        Effect::Clear,
        Effect::Swap { with: 300 },
        Effect::Aux { name: FUNCTIONS, bytes: &[2, 3, b'o', b'n', b'e', 3, b't', b'w', b'o'] },
        Effect::Custom {
            key,
            of: TypeNumber(200),
            change: CustomChange { op: 3, body: b"arguments" },
        },
    ];
    effects.extend(changes_of_streams().into_iter().map(|change| Effect::Stream { key, change }));
    effects
}

const AUX: [Effect<'static>; 2] = [
    Effect::Aux { name: b"indexes", bytes: b"their whole form" },
    Effect::Aux { name: b"indexes", bytes: b"" },
];

/// Lines of bytes, and of the effects that are read from them; the context continues.
fn lines() -> String {
    let mut handle = Keyspace::new(&Options::default()).attach();
    handle.enter();
    let list = Key { bytes: b"list", hash: handle.hash(b"list") };
    handle.lock(list.hash);
    handle.list_push(0, list, End::Back, &[b"one", b"2"]).unwrap();
    let value = handle.view_stored(0, list).unwrap();
    let mut all = effects();
    all.extend([None, Some(9)].map(|expiry| Effect::Store { key: b"list", value, expiry }));
    all.extend(AUX);
    let (mut written, mut read) = (Context::default(), Context::default());
    let mut text = String::new();
    for (at, effect) in all.iter().enumerate() {
        let (db, order) = ((at / 7 * 50) as u16, Order((at as u64 * 31) % 100));
        let mut out = Vec::new();
        let db = if matches!(effect, Effect::Aux { .. }) { written.db } else { db };
        put_effect(&mut out, &mut written, db, order, effect);
        let mut bytes = Bytes(&out);
        let _ = write!(text, "{} ", hex(&out));
        take_effect(&mut bytes, &mut read, |db, logged| {
            let _ = writeln!(text, "{db} {logged:?}");
        })
        .unwrap();
        assert!(bytes.0.is_empty() && read.order == order && read.db == db, "{effect:?}");
        for len in 0..out.len() {
            let cut = take_effect(&mut Bytes(&out[..len]), &mut read.clone(), |_, _| ());
            assert_eq!(cut, Err(Malformed), "{len} bytes of {effect:?}");
        }
    }
    handle.unlock();
    handle.exit();
    text
}

#[test]
fn the_bytes_of_effects_stay_as_they_are() {
    let lines = lines();
    if std::env::var_os("PETREL_REGENERATE").is_some() {
        std::fs::write("tests/data/effects.txt", &lines).unwrap();
    }
    for (now, then) in lines.lines().zip(GOLDEN.lines()) {
        assert_eq!(now, then);
    }
    assert_eq!(lines.lines().count(), GOLDEN.lines().count());
}

#[test]
fn a_string_of_any_length_is_not_made_because_some_bytes_say_so() {
    for (offset, is_read) in [(3, true), (1 << 42, false), (u64::MAX, false)] {
        let mut bytes = vec![7, 0];
        put_bytes(&mut bytes, b"k");
        put(&mut bytes, offset);
        put_bytes(&mut bytes, b"text");
        let read = take_effect(&mut Bytes(&bytes), &mut Context::default(), |_, _| ());
        assert_eq!(read.is_ok(), is_read, "{offset}");
    }
}

#[test]
fn samples_are_read_as_they_are_written_and_cut_ones_are_refused() {
    for (row, round) in ROWS.iter().flat_map(|row| (0..15).map(move |round| (row, round))) {
        let bytes = sample(row, round);
        let read = take_effect(&mut Bytes(&bytes), &mut Context::default(), |_, logged| {
            if let Logged::Effect(effect) = logged {
                let mut again = Vec::new();
                put_effect(&mut again, &mut Context::default(), 0, Order(0), &effect);
                assert_eq!(again, bytes, "{effect:?}");
            }
        });
        assert_eq!(read, Ok(()), "{} of {}", round, row.number);
        for len in 0..bytes.len() {
            let cut = take_effect(&mut Bytes(&bytes[..len]), &mut Context::default(), |_, _| ());
            assert_eq!(cut, Err(Malformed), "{len} bytes of {}", row.number);
        }
    }
    // An optional part that there is none of, and a kind that there is not.
    for bytes in [[4 | WITH, 0, 0], [0, 0, 0], [63, 0, 0]] {
        let read = take_effect(&mut Bytes(&bytes), &mut Context::default(), |_, _| ());
        assert_eq!(read, Err(Malformed), "{bytes:?}");
    }
}

#[test]
fn an_encoded_effect_is_copied_with_its_own_database_and_order() {
    for effect in effects().into_iter().chain(AUX) {
        let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
        let mut contexts = [Context::default(), Context { db: 3, order: Order(9) }];
        let encoded = put_effect(&mut first, &mut contexts[0], 3, Order(100), &effect);
        let mut other = contexts[1];
        put_encoded(&mut second, &mut contexts[1], 7, Order(5), encoded);
        put_effect(&mut third, &mut other, 7, Order(5), &effect);
        assert_eq!(second, third, "{effect:?}");
    }
}

#[test]
fn the_page_has_every_effect() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats-log.md");
    let there = std::fs::read_to_string(path).unwrap();
    let table = table(["kind", "effect", "fields"], ROWS);
    let page = page_with(&there, "effects", &table);
    if std::env::var_os("PETREL_WRITE_PAGES").is_some() {
        std::fs::write(path, &page).unwrap();
    } else {
        assert_eq!(there, page, "run this test with PETREL_WRITE_PAGES=1");
    }
}
