//! Compact hashes in payloads and files.

use petrel_keyspace::{Cursor, FieldExpiry, Handle, Key, Keyspace, Options};
use petrel_persistence::rdb::{Dialect, FileOptions, FileWriter, Leniency};
use petrel_persistence::{LoadOptions, Progress, load, save, value};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

const ANY: Leniency = Leniency { any_version: false, any_sum: true, any_count: false };

const PLAIN: FileOptions = FileOptions {
    compress: true,
    sum: true,
    dialect: Dialect::Redis,
    version_max: FileOptions::ANY_VERSION,
    only_redis_types: false,
};

fn keyspace() -> Arc<Keyspace> {
    Keyspace::new(&Options { databases: 2, stripes: 64, ..Options::default() })
}

fn at<T>(ks: &mut Handle, name: &str, work: impl FnOnce(&mut Handle, Key<'_>) -> T) -> T {
    let key = ks.key(name.as_bytes());
    ks.enter();
    ks.lock(key.hash);
    let result = work(ks, key);
    ks.unlock();
    ks.exit();
    result
}

/// `name=value` of each field in the order of the hash, after its encoding.
fn shown(ks: &mut Handle, name: &str) -> String {
    at(ks, name, |ks, key| {
        let Some(view) = ks.view(0, key) else { return "none".into() };
        let mut text = view.encoding().to_string();
        view.hash(0).unwrap().each(&mut |field| {
            let (mut a, mut b) = (itoa::Buffer::new(), itoa::Buffer::new());
            let (name, value) = (field.name.bytes(&mut a), field.value.bytes(&mut b));
            text += &format!(" {}={}", name.escape_ascii(), value.escape_ascii());
        });
        text
    })
}

fn import(ks: &mut Handle, key: &str, names: &[&[u8]], values: &[&[u8]]) {
    let names = ks.field_names(names).unwrap();
    at(ks, key, |ks, key| ks.hash_import(0, key, &names, values).unwrap());
}

/// A payload of version 15 without a checksum.
fn payload(body: &[u8]) -> Vec<u8> {
    [body, &[15, 0], &[0; 8]].concat()
}

fn restored(body: &[u8]) -> Result<String, String> {
    let mut ks = keyspace().attach();
    let made = at(&mut ks, "k", |ks, key| {
        value::restore(ks, 0, key, None, &payload(body), ANY).map_err(|error| error.to_string())
    });
    made.map(|()| shown(&mut ks, "k"))
}

/// A listpack of strings below 64 bytes, and of integers below 128 where the text is empty.
fn listpack(items: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for item in items {
        match item {
            [b'#', n] => body.extend([*n, 1]),
            text => {
                body.push(0x80 | text.len() as u8);
                body.extend_from_slice(text);
                body.push(1 + text.len() as u8);
            }
        }
    }
    let len = body.len() + 7;
    let mut out = vec![len as u8, 0, 0, 0, items.len() as u8, 0];
    out.extend(body);
    out.push(0xff);
    out.insert(0, len as u8);
    out
}

#[test]
fn payloads_of_every_form_are_read() {
    let names = listpack(&[b"age", b"name"]);
    let one_by_one = b"\x02\x03age\x04name".to_vec();
    let values = listpack(&[b"#\x05", b"#\x1e", b"alice"]);
    let expected = Ok("template-listpack age=30 name=alice".to_string());
    assert_eq!(restored(&[&[29, 0][..], &names, &values].concat()), expected);
    assert_eq!(restored(&[&[29, 1][..], &one_by_one, &values].concat()), expected);
    let texts = b"\xc0\x1e\x05alice";
    let expected = Ok("template-array age=30 name=alice".to_string());
    assert_eq!(restored(&[&[31, 0][..], &names, texts].concat()), expected);
    assert_eq!(restored(&[&[31, 1][..], &one_by_one, texts].concat()), expected);
}

#[test]
fn broken_payloads_are_refused() {
    let names = listpack(&[b"age", b"name"]);
    let bad: [(&[u8], Vec<u8>); 9] = [
        (b"too few values", [&[29, 0][..], &names, &listpack(&[b"#\x00", b"a"])].concat()),
        (b"no values", [&[29, 0][..], &names, &listpack(&[])].concat()),
        (b"no number", [&[29, 0][..], &names, &listpack(&[b"x", b"a", b"b"])].concat()),
        (b"no names", [&[29, 0][..], &listpack(&[]), &listpack(&[b"#\x00"])].concat()),
        (b"no names", b"\x1f\x01\x00".to_vec()),
        (b"unsorted", b"\x1f\x01\x02\x01b\x01a\x011\x012".to_vec()),
        (b"twice", b"\x1f\x01\x02\x01a\x01a\x011\x012".to_vec()),
        (b"a reference", [&[30][..], &listpack(&[b"#\x00", b"a"])].concat()),
        (b"a reference", b"\x20\x00\x011".to_vec()),
    ];
    for (what, body) in bad {
        assert!(restored(&body).is_err(), "{}", what.escape_ascii());
    }
    let whole = [&[31, 1][..], b"\x02\x03age\x04name\x011\x012"].concat();
    for len in 0..whole.len() {
        assert!(restored(&whole[..len]).is_err(), "{len}");
    }
    assert!(restored(&whole).is_ok());
    // A length that nothing follows.
    assert!(restored(b"\x1f\x01\x80\xff\xff\xff\xff\x01a").is_err());
}

fn saved(ks: &mut Handle, options: FileOptions) -> Vec<u8> {
    let mut file = FileWriter::new(io::Cursor::new(Vec::new()), options).unwrap();
    ks.enter();
    ks.lock_all();
    save(ks, &mut file, |_| ControlFlow::Continue(())).unwrap();
    ks.unlock();
    ks.exit();
    file.finish().unwrap().into_inner()
}

fn load_into(keyspace: &Arc<Keyspace>, bytes: &[u8], threads: usize) -> Result<u16, String> {
    let options =
        LoadOptions { threads, leniency: Leniency::default(), keeps_expired: false, merges: false };
    let loaded = load(bytes, bytes.len() as u64, keyspace, options, &Progress::default());
    loaded.map(|loaded| loaded.version).map_err(|error| error.to_string())
}

#[test]
fn a_file_keeps_them() {
    let mut ks = keyspace().attach();
    import(&mut ks, "a", &[b"name", b"age"], &[b"alice", b"30"]);
    let long = "x".repeat(100);
    import(&mut ks, "b", &[b"name", b"age"], &[long.as_bytes(), b"31"]);
    at(&mut ks, "c", |ks, key| ks.hash_set(0, key, &[b"f", b"1"], FieldExpiry::Clear).unwrap());
    for (version_max, encodings) in [
        (FileOptions::ANY_VERSION, ["template-listpack", "template-array", "listpack"]),
        (14, ["listpack", "hashtable", "listpack"]),
    ] {
        let bytes = saved(&mut ks, FileOptions { version_max, ..PLAIN });
        let keyspace = keyspace();
        let version = if version_max == 14 { 9 } else { 15 };
        assert_eq!(load_into(&keyspace, &bytes, 2), Ok(version));
        let mut other = keyspace.attach();
        for (name, encoding) in ["a", "b", "c"].into_iter().zip(encodings) {
            let own = shown(&mut ks, name);
            let fields = own.split_once(' ').unwrap().1.to_string();
            assert_eq!(shown(&mut other, name), format!("{encoding} {fields}"));
        }
    }
}

/// The parts of a file of version 15 between its head and its end.
fn file(parts: &[Vec<u8>]) -> Vec<u8> {
    [b"REDIS0015\xfe\x00".to_vec(), parts.concat(), vec![0xff; 1], vec![0; 8]].concat()
}

#[test]
fn references_to_field_names_are_resolved() {
    let template = |number: u8, names: &[&str]| {
        let mut out = vec![0xf2, number, names.len() as u8];
        names.iter().for_each(|name| {
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
        });
        out
    };
    let key = |type_byte: u8, name: &str, value: &[u8]| {
        [&[type_byte, name.len() as u8][..], name.as_bytes(), value].concat()
    };
    let parts = [
        template(0, &["age", "name"]),
        template(7, &["x"]),
        key(30, "k1", &listpack(&[b"#\x00", b"#\x1e", b"alice"])),
        key(32, "k2", b"\x00\xc0\x1f\x03bob"),
        key(32, "k3", b"\x07\x01y"),
    ];
    for threads in [1, 3] {
        let keyspace = keyspace();
        assert_eq!(load_into(&keyspace, &file(&parts), threads), Ok(15));
        let mut ks = keyspace.attach();
        assert_eq!(shown(&mut ks, "k1"), "template-listpack age=30 name=alice");
        assert_eq!(shown(&mut ks, "k2"), "template-array age=31 name=bob");
        assert_eq!(shown(&mut ks, "k3"), "template-array x=y");
        assert_eq!(keyspace.schema_counts().schemas, 2);
    }
    for bad in [
        vec![key(32, "k", b"\x00\x01y")],
        vec![template(0, &["a"]), key(32, "k", b"\x05\x01y")],
        vec![template(0, &["a"]), template(0, &["b"])],
        vec![template(0, &[])],
        vec![template(0, &["b", "a"])],
    ] {
        assert!(load_into(&keyspace(), &file(&bad), 2).is_err());
    }
}

/// A file of hashes with `sets` sets of four fields, one of `common` keys and others of one.
fn hashes(sets: usize, common: usize) -> Vec<u8> {
    let mut ks = keyspace().attach();
    let mut set = |key: String, names: usize| {
        let fields: Vec<String> = (0..4).map(|n| format!("{names}:{n}")).collect();
        let pairs: Vec<&[u8]> = fields.iter().flat_map(|name| [name.as_bytes(), b"1"]).collect();
        at(&mut ks, &key, |ks, key| {
            ks.hash_set(0, key, &pairs, FieldExpiry::Clear).unwrap();
        });
    };
    (0..common).for_each(|n| set(format!("common:{n}"), 0));
    (1..sets).for_each(|n| set(format!("rare:{n}"), n));
    saved(&mut ks, PLAIN)
}

#[test]
fn hashes_become_compact_while_they_are_loaded() {
    let few = hashes(3, 5);
    for (min, max, threshold, expected) in [
        (0, 0, 0, (0, 0)),
        (4, 0, 0, (3, 7)),
        (5, 0, 0, (0, 0)),
        (1, 3, 0, (0, 0)),
        (1, 4, 2, (1, 5)),
        (1, 4, 5, (1, 5)),
        (1, 4, 6, (0, 0)),
    ] {
        let keyspace = keyspace();
        let limits = keyspace.limits();
        limits.set_hash_rdb_load_min_template_entries(min);
        limits.set_hash_rdb_load_max_template_entries(max);
        limits.set_hash_rdb_load_template_disassembly_threshold(threshold);
        load_into(&keyspace, &few, 3).unwrap();
        let counts = keyspace.schema_counts();
        assert_eq!((counts.schemas, counts.keys), expected, "{min} {max} {threshold}");
        let mut handle = keyspace.attach();
        assert!(shown(&mut handle, "rare:1").ends_with(" 1:0=1 1:1=1 1:2=1 1:3=1"));
        assert_eq!(keys(&mut handle), 7);
    }
}

#[test]
fn too_many_rare_fields_stop_the_conversion() {
    let bytes = hashes(1500, 400);
    let keyspace = keyspace();
    let limits = keyspace.limits();
    limits.set_hash_rdb_load_min_template_entries(1);
    limits.set_hash_rdb_load_template_disassembly_threshold(2);
    load_into(&keyspace, &bytes, 3).unwrap();
    let counts = keyspace.schema_counts();
    assert!(counts.schemas == 1 && counts.keys == 400, "{counts:?}");
    assert_eq!(keys(&mut keyspace.attach()), 1899);
}

fn keys(ks: &mut Handle) -> usize {
    ks.enter();
    let (mut cursor, mut keys) = (Cursor::default(), 0);
    loop {
        cursor = ks.scan(0, cursor, 100, |_| keys += 1);
        if cursor == Cursor::default() {
            break;
        }
    }
    ks.exit();
    keys
}
