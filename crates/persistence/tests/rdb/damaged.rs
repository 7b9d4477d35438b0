//! Files that are damaged or state wrong numbers: the keys that a load accepts, its errors, and the
//! keys that [`mend`] keeps.

use crate::check::{file, key, keys, load_options};
use petrel_keyspace::{Keyspace, Options};
use petrel_persistence::{Mended, Outputs, Progress, load, mend};
use std::fs::File;
use std::io::{Seek, Write};
use std::sync::Arc;

/// A keyspace, and the notes of a load or its error.
fn load_file(bytes: &[u8], threads: usize) -> (Arc<Keyspace>, Result<Vec<String>, String>) {
    let keyspace =
        Keyspace::new(&Options { databases: u16::MAX, stripes: 1, ..Options::default() });
    let progress = Progress::default();
    let options = load_options(threads, true);
    let loaded = load(bytes, bytes.len() as u64, &keyspace, options, &progress);
    let notes = loaded.map(|_| progress.take_notes()).map_err(|error| error.to_string());
    (keyspace, notes)
}

fn text(text: &[u8]) -> Vec<u8> {
    match text.len() {
        len @ 0..64 => [&[len as u8][..], text].concat(),
        len => [&(0x4000 | len as u16).to_be_bytes()[..], text].concat(),
    }
}

/// A listpack of short strings and small integers; its header states `stated` items.
fn listpack(items: &[&str], stated: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for item in items {
        let start = body.len();
        match item.parse::<u8>() {
            Ok(n) => body.push(n),
            Err(_) => {
                body.push(0x80 | item.len() as u8);
                body.extend_from_slice(item.as_bytes());
            }
        }
        body.push((body.len() - start) as u8);
    }
    let len = (body.len() + 7) as u32;
    let head = [&len.to_le_bytes()[..], &(stated as u16).to_le_bytes()].concat();
    text(&[&head[..], &body, &[0xff]].concat())
}

/// A stream of two entries of which each number that follows from them is stated.
fn stream(len: u8, last: u8, alive: &str, deleted: &str, items: &str) -> Vec<u8> {
    let node =
        [alive, deleted, "1", "f", "0", "2", "0", "0", "v", items, "2", "1", "0", "w", items];
    let id = [&[0; 7][..], &[9], &[0; 7], &[1]].concat();
    let node = [&[1][..], &text(&id), &listpack(&node, node.len())].concat();
    [&node[..], &[len, last, 1, 9, 1, 0, 0, 2, 0]].concat()
}

#[test]
fn numbers_that_follow_from_the_value_may_be_wrong() {
    let ziplist =
        |stated: u8| text(&[16, 0, 0, 0, 13, 0, 0, 0, stated, 0, 0, 1, b'a', 3, 0xf2, 0xff]);
    let cases: Vec<(u8, Vec<u8>, Vec<u8>, &str)> = vec![
        (19, stream(2, 20, "2", "0", "4"), stream(4, 20, "2", "0", "4"), "the length of a stream"),
        (19, stream(2, 20, "2", "0", "4"), stream(0, 20, "2", "0", "4"), "the length of a stream"),
        (19, stream(2, 10, "2", "0", "4"), stream(2, 3, "2", "0", "4"), "the last ID of a stream"),
        (
            19,
            stream(2, 20, "2", "0", "4"),
            stream(2, 20, "3", "0", "4"),
            "entries of a stream's node",
        ),
        (
            19,
            stream(2, 20, "2", "0", "4"),
            stream(2, 20, "2", "1", "4"),
            "entries of a stream's node",
        ),
        (
            19,
            stream(2, 20, "2", "0", "4"),
            stream(2, 20, "2", "0", "5"),
            "items of a stream's entry",
        ),
        (16, listpack(&["a", "1"], 2), listpack(&["a", "1"], 6), "items of a listpack"),
        (17, listpack(&["a", "1"], 2), listpack(&["a", "1"], 1), "items of a listpack"),
        (20, listpack(&["a", "b"], 2), listpack(&["a", "b"], 0), "items of a listpack"),
        (
            18,
            [&[1, 2][..], &listpack(&["a"], 1)].concat(),
            [&[1, 2][..], &listpack(&["a"], 3)].concat(),
            "items of a listpack",
        ),
        (13, ziplist(2), ziplist(4), "items of a ziplist"),
        (9, text(b"\x01\x01a\x01\x001\xff"), text(b"\x03\x01a\x01\x001\xff"), "fields of a zipmap"),
    ];
    for (type_byte, right, wrong, what) in cases {
        let dump = |value: &[u8]| {
            let (keyspace, notes) = load_file(&file(&[&key(type_byte, "k", value)]), 2);
            let notes = notes.unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut handle = keyspace.attach();
            let key = handle.key(b"k");
            handle.enter();
            handle.lock(key.hash);
            let view = handle.view(0, key).unwrap_or_else(|| panic!("{what}: no key"));
            let dump = petrel_persistence::value::dump(view, 0, Default::default()).unwrap();
            handle.unlock();
            handle.exit();
            (dump, notes)
        };
        let ((right, none), (wrong, notes)) = (dump(&right), dump(&wrong));
        assert_eq!(right, wrong, "{what}");
        assert!(none.is_empty(), "{what}: {none:?}");
        assert!(
            notes.len() == 1
                && notes[0].starts_with("key \"k\" of database 0 states the")
                && notes[0].contains(what),
            "{what}: {notes:?}"
        );
    }
}

#[test]
fn keys_without_elements_are_left_out() {
    let empties: [(u8, Vec<u8>); 9] = [
        (1, vec![0]),
        (2, vec![0]),
        (4, vec![0]),
        (5, vec![0]),
        (16, listpack(&[], 0)),
        (17, listpack(&[], 0)),
        (18, [&[1, 2][..], &listpack(&[], 0)].concat()),
        (20, listpack(&[], 0)),
        (11, text(&[2, 0, 0, 0, 0, 0, 0, 0])),
    ];
    for (type_byte, value) in empties {
        let bytes = file(&[&key(type_byte, "empty", &value), &key(0, "k", b"\x01v")]);
        let (keyspace, notes) = load_file(&bytes, 1);
        assert_eq!(keyspace.db_stats(0).keys, 1, "{type_byte}");
        assert_eq!(
            notes.unwrap(),
            ["key \"empty\" of database 0 is left out: it has no elements"],
            "{type_byte}"
        );
    }
}

/// Values of each type with an end that can be found, but invalid contents.
fn broken() -> Vec<(u8, Vec<u8>)> {
    let item = |text: &[u8]| [&[text.len() as u8], text].concat();
    vec![
        (2, b"\x02\x01m\x01m".to_vec()),
        (3, b"\x01\x01m\x02xx".to_vec()),
        (4, b"\x02\x01f\x01v\x01f\x01w".to_vec()),
        (5, b"\x01\x01m\0\0\0\0\0\0\xf8\x7f".to_vec()),
        (9, item(b"\x01\x03foo")),
        (10, item(b"no ziplist")),
        (11, item(b"no intset")),
        (12, item(b"no ziplist")),
        (13, item(b"no ziplist")),
        (14, [&[1][..], &item(b"no ziplist")].concat()),
        (15, [&[1][..], &item(&[0; 16]), &item(b"no listpack"), &[0, 0, 0, 0]].concat()),
        (16, item(b"no listpack")),
        (17, item(b"no listpack")),
        (18, [&[1, 2][..], &item(b"no listpack")].concat()),
        (19, [&[1][..], &item(&[0; 16]), &item(b"no listpack"), &[0; 9]].concat()),
        (20, item(b"no listpack")),
        (23, item(b"no listpack")),
        (25, [&[0; 8][..], &item(b"no listpack")].concat()),
    ]
}

#[test]
fn every_error_names_the_key() {
    let long = "k".repeat(5000);
    for (type_byte, value) in broken() {
        let bytes = [&key(type_byte, "k \"1\"\n", &value)[..], &key(0, "z", b"\x01v")].concat();
        for threads in [1, 3] {
            let (_, loaded) = load_file(&file(&[&[0xfe, 3], &bytes]), threads);
            let error = loaded.unwrap_err();
            assert!(
                error.starts_with("at byte ")
                    && error.contains("key \"k \\\"1\\\"\\n\" of database 3"),
                "{type_byte}: {error}"
            );
        }
    }
    for (what, record) in [
        ("an unknown type", [&[30][..], &text(long.as_bytes())].concat()),
        ("a value that ends early", [&[0][..], &text(long.as_bytes()), &[50, b'v']].concat()),
    ] {
        let (_, loaded) = load_file(&[b"REDIS0012\xfe\x02", &record[..]].concat(), 1);
        let error = loaded.unwrap_err();
        assert!(error.contains("kkk...\" of 5000 bytes of database 2"), "{what}: {error}");
        assert!(error.len() < 400, "{what}: {error}");
    }
    // Of a key that is too long for a run, too.
    let value = [&[0x80, 0, 0x80, 0, 0][..], &b"\x01m".repeat(0x80_0000)].concat();
    let (_, loaded) = load_file(&file(&[&key(2, "large", &value)]), 1);
    assert!(loaded.unwrap_err().contains("key \"large\" of database 0: an element is there twice"));
}

/// Retained records, skipped records as written, and messages.
fn mended(bytes: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<String>, Mended) {
    let path = std::env::temp_dir().join(format!(
        "petrel-mend-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let mut input =
        File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    input.write_all(bytes).unwrap();
    input.rewind().unwrap();
    let (mut kept, mut left_out, mut messages) = (Vec::new(), Vec::new(), Vec::new());
    let outputs = Outputs { kept: &mut kept, left_out: &mut left_out };
    let check = |texts: &[Vec<u8>]| match texts.iter().any(|text| text == b"bad") {
        true => Err("no library".into()),
        false => Ok(()),
    };
    let len = bytes.len() as u64;
    let mended =
        mend(&input, len, &check, Some(outputs), &mut |part| messages.push(part.to_string()));
    let mended = mended.unwrap();
    let mut again = Vec::new();
    let dry = mend(&input, len, &check, None, &mut |part| again.push(part.to_string()));
    assert_eq!(dry.unwrap(), mended);
    assert_eq!(again, messages);
    (kept, left_out, messages, mended)
}

#[test]
fn what_can_be_loaded_is_kept() {
    for (type_byte, value) in broken() {
        let bad = key(type_byte, "bad", &value);
        let (a, z) = (key(0, "a", b"\x01v"), key(1, "z", b"\x01\x01v"));
        let bytes = file(&[&a, &[0xfe, 2], &bad, &[0xf5, 3, b'b', b'a', b'd'], &z]);
        assert!(load_file(&bytes, 1).1.is_err(), "{type_byte}");
        let (kept, left_out, messages, mended) = mended(&bytes);
        let (keyspace, loaded) = load_file(&kept, 1);
        assert_eq!(loaded, Ok(vec![]), "{type_byte}");
        assert_eq!((keyspace.db_stats(0).keys, keyspace.db_stats(2).keys), (1, 1), "{type_byte}");
        assert_eq!((mended.keys, mended.parts), (2, 2), "{type_byte}");
        assert!(messages[0].contains("key \"bad\" of database 2: "), "{messages:?}");
        assert!(messages[1].contains("a library of functions: no library"), "{messages:?}");
        let wanted = [
            format!("# {}\n", messages[0]).as_bytes(),
            &bad,
            format!("\n# {}\n", messages[1]).as_bytes(),
            b"\xf5\x03bad\n",
        ]
        .concat();
        assert_eq!(left_out, wanted, "{type_byte}");
    }
}

#[test]
fn what_is_behind_a_lost_end_is_left_out_as_a_whole() {
    let (a, z) = (key(0, "a", b"\x01v"), key(0, "z", b"\x01v"));
    let twice = file(&[&a, &z, &a]);
    let (kept, _, messages, _) = mended(&twice);
    assert_eq!(load_file(&kept, 1).0.db_stats(0).keys, 2);
    assert!(messages[0].ends_with("key \"a\" of database 0: it is there twice"), "{messages:?}");
    let databases = file(&[&a, &[0xfe, 0x80, 0, 1, 0, 0], &[0xfb, 1, 0], &z, &[0xfe, 0], &z]);
    let (kept, _, messages, _) = mended(&databases);
    assert_eq!(load_file(&kept, 1).0.db_stats(0).keys, 2);
    assert!(messages.len() == 1 && messages[0].contains("of database 65536: "), "{messages:?}");
    for (what, bytes, at, says) in [
        (
            "an unknown type",
            file(&[&a, &key(99, "b", b"\x01v"), &z]),
            14,
            "key \"b\" of database 0",
        ),
        ("an unknown record", file(&[&a, &[0xf3, 1, 2], &z]), 14, "no known kind"),
        ("an end that is missing", [b"REDIS0012", &a[..], &z].concat(), 19, "ends too early"),
        ("half a key", [b"REDIS0012", &a[..], &z[..3]].concat(), 14, "ends too early"),
        ("half a head", b"REDIS0012\xfa\x05red".to_vec(), 9, "ends too early"),
    ] {
        let (kept, left_out, messages, mended) = mended(&bytes);
        let (_, loaded) = load_file(&kept, 1);
        assert_eq!(loaded, Ok(vec![]), "{what}");
        assert_eq!(mended.bytes, (bytes.len() - at) as u64, "{what}");
        assert!(messages.len() == 1 && messages[0].contains(says), "{what}: {messages:?}");
        assert!(left_out.ends_with(&[&bytes[at..], b"\n"].concat()), "{what}");
    }
    let mut sum = file(&[&a]);
    let end = sum.len();
    sum[end - 1] = 1;
    let (kept, _, messages, mended) = mended(&sum);
    assert!(mended.is_sum_wrong && messages.is_empty());
    assert!(load_file(&sum, 1).1.is_err() && load_file(&kept, 1).1.is_ok());
}

#[test]
fn whatever_is_broken_what_is_kept_loads() {
    let keys = keys();
    let mut random = 0x1234_5678_9abc_def1_u64;
    let mut below = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % n
    };
    let mut left_out = 0;
    for _ in 0..250 {
        let some: Vec<&[u8]> = (0..4).map(|_| &keys[below(keys.len())][..]).collect();
        let mut bytes = file(&some);
        for _ in 0..1 + below(3) {
            let at = 9 + below(bytes.len() - 9);
            bytes[at] = below(256) as u8;
        }
        bytes.truncate(bytes.len() - below(2) * below(20));
        let loads = load_file(&bytes, 1).1.is_ok();
        let (kept, _, messages, mended) = mended(&bytes);
        let (_, loaded) = load_file(&kept, 1);
        assert!(loaded.is_ok(), "{loaded:?} {bytes:02x?}");
        left_out += messages.len();
        if loads {
            assert!(messages.is_empty() || mended.bytes < 20, "{messages:?}");
        }
    }
    assert!(left_out > 75, "{left_out}");
}

#[test]
fn hints_of_slots_may_be_any_number() {
    let hints = [0xf4, 1, 2, 3].repeat(500_000);
    let (_, loaded) = load_file(&file(&[&hints, &key(0, "k", b"\x01v")]), 1);
    loaded.unwrap();
}
