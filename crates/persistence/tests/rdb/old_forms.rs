//! Forms that only servers before Redis 7 wrote, laid out by hand.

use crate::model::{GroupState, Stream, Value, id};
use petrel_persistence::rdb::{Error, Pending, Slice, read_value};

fn read(type_byte: u8, value: &[u8]) -> Result<Value, Error> {
    let mut sink = crate::model::Builder::default();
    read_value(&mut Slice::new(value), type_byte, &mut sink)?;
    Ok(sink.value.unwrap())
}

fn text(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// A ziplist of short texts and of integers 0 to 12, as a string.
fn ziplist(items: &[Result<u8, &str>]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut before = 0;
    let mut last = 0;
    for item in items {
        last = body.len();
        body.push(before);
        match item {
            Ok(n) => body.push(0xf1 + n),
            Err(text) => {
                body.push(text.len() as u8);
                body.extend_from_slice(text.as_bytes());
            }
        }
        before = (body.len() - last) as u8;
    }
    let len = 10 + body.len() + 1;
    let mut out = vec![len as u8];
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.extend_from_slice(&(10 + last as u32).to_le_bytes());
    out.extend_from_slice(&(items.len() as u16).to_le_bytes());
    out.extend_from_slice(&body);
    out.push(0xff);
    out
}

#[test]
fn ziplists() {
    let packed = ziplist(&[Err("a"), Ok(1), Err("b"), Ok(12)]);
    let list = Value::List(vec![text("a"), text("1"), text("b"), text("12")]);
    assert_eq!(read(10, &packed), Ok(list.clone()));
    let nodes =
        [&[3][..], &ziplist(&[Err("a"), Ok(1)]), &ziplist(&[]), &ziplist(&[Err("b"), Ok(12)])];
    assert_eq!(read(14, &nodes.concat()), Ok(list));
    let hash = [(text("a"), (text("1"), None)), (text("b"), (text("12"), None))];
    assert_eq!(read(13, &packed), Ok(Value::Hash(hash.into())));
    let scores = [(text("a"), 1.0), (text("b"), 12.0)];
    assert_eq!(read(12, &packed), Ok(Value::SortedSet(scores.into())));
    let scores = [(text("a"), -1.5), (text("b"), f64::INFINITY)];
    let packed = ziplist(&[Err("a"), Err("-1.5"), Err("b"), Err("inf")]);
    assert_eq!(read(12, &packed), Ok(Value::SortedSet(scores.into())));
}

#[test]
fn what_ziplists_cannot_hold() {
    assert!(read(13, &ziplist(&[Err("a"), Ok(1), Err("b")])).is_err());
    assert!(read(13, &ziplist(&[Err("a"), Ok(1), Err("a"), Ok(2)])).is_err());
    assert!(read(12, &ziplist(&[Err("a"), Err("nan")])).is_err());
    assert!(read(12, &ziplist(&[Err("a"), Err("b")])).is_err());
    assert!(read(10, &ziplist(&[])).is_err());
    assert!(read(14, &[&[1][..], &ziplist(&[])].concat()).is_err());
    assert!(read(14, &[0]).is_err());
}

/// The decimal form in which servers before Redis 4, and listpacks of any, have a score of minus
/// zero.
#[test]
fn minus_zero_is_a_score() {
    let is_minus_zero = |value: Result<Value, Error>| match value {
        Ok(Value::SortedSet(scores)) => scores[&b"a"[..]].to_bits() == (-0.0_f64).to_bits(),
        _ => false,
    };
    for text in ["-0", "-0.0"] {
        assert!(is_minus_zero(read(12, &ziplist(&[Err("a"), Err(text)]))), "{text}");
        let listpack = |text: &str| {
            let item =
                [&[0x80 | text.len() as u8], text.as_bytes(), &[text.len() as u8 + 1]].concat();
            let len = (6 + 3 + item.len() + 1) as u8;
            let head = [len, len, 0, 0, 0, 2, 0, 0x81, b'a', 2];
            [&head[..], &item, &[0xff]].concat()
        };
        assert!(is_minus_zero(read(17, &listpack(text))), "{text}");
        let decimal = [b"\x01\x01a", &[text.len() as u8][..], text.as_bytes()].concat();
        assert!(is_minus_zero(read(3, &decimal)), "{text}");
    }
    assert!(is_minus_zero(read(5, &[b"\x01\x01a", &(-0.0_f64).to_le_bytes()[..]].concat())));
}

/// Hashes of the release candidates of Redis 7.4: expiries as such, as numbers before the fields,
/// or as items of a listpack. As Redis 8.2 loads them.
#[test]
fn expiries_of_fields_before_their_release() {
    const AT: u64 = 2_000_000_000_000;
    let number = [&[0x81][..], &AT.to_be_bytes()].concat();
    let early = [&[22, 2][..], &number, b"\x01f\x01v\x00\x01g\x01w"].concat();
    let hash = [(text("f"), (text("v"), Some(AT as i64))), (text("g"), (text("w"), None))];
    let hash = Value::Hash(hash.into());
    let payload = |version: u16, body: &[u8]| [body, &version.to_le_bytes()[..], &[0; 8]].concat();
    for version in [11, 12, 14] {
        assert_eq!(Value::restore(&payload(version, &early)), Ok(hash.clone()), "{version}");
    }
    assert!(Value::restore(&payload(80, &early)).is_err());
    // Of Valkey's version, the number means Valkey's form.
    let theirs = [b"\x16\x02\x01f\x01v", &AT.to_le_bytes()[..], b"\x01g\x01w", &[0xff; 8]].concat();
    assert_eq!(Value::restore(&payload(80, &theirs)), Ok(hash.clone()));
    assert!(Value::restore(&payload(12, &theirs)).is_err());
    let items =
        [&b"\x81f\x02\x81v\x02\xf4"[..], &AT.to_le_bytes(), b"\x09\x81g\x02\x81w\x02\x00\x01"];
    let items = items.concat();
    let len = (items.len() + 7) as u8;
    let listpack = [&[23, len, len, 0, 0, 0, 6, 0][..], &items, &[0xff]].concat();
    assert_eq!(Value::restore(&payload(12, &listpack)), Ok(hash));
}

#[test]
fn zipmaps() {
    let map = b"\x01f\x01\x00v\x01g\x02\x01wxz\xff";
    let bytes = [&[map.len() as u8 + 1, 2][..], map].concat();
    let hash = [(text("f"), (text("v"), None)), (text("g"), (text("wx"), None))];
    assert_eq!(read(9, &bytes), Ok(Value::Hash(hash.into())));
    assert!(read(9, &[2, 0, 0xff]).is_err());
}

#[test]
fn scores_in_decimal() {
    let scores = [(text("a"), 1.5), (text("b"), f64::INFINITY), (text("c"), f64::NEG_INFINITY)];
    let bytes = b"\x03\x01a\x031.5\x01b\xfe\x01c\xff";
    assert_eq!(read(3, bytes), Ok(Value::SortedSet(scores.into())));
    assert!(read(3, b"\x01\x01a\xfd").is_err());
    assert!(read(3, b"\x01\x01a\x03x.5").is_err());
}

/// A stream as Redis 5 and 6 write it: no counts, consumers without a time at which they were
/// active.
#[test]
fn first_version_of_streams() {
    let node: &[u8] =
        &[1, 1, 0, 1, 1, 1, 0x81, b'f', 2, 0, 1, 2, 1, 0, 1, 0, 1, 0x81, b'v', 2, 4, 1];
    let len = (6 + node.len() + 1) as u8;
    let listpack = [&[len, 0, 0, 0, 10, 0][..], node, &[0xff]].concat();
    let raw_id = [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut bytes = vec![1, 16];
    bytes.extend_from_slice(&raw_id);
    bytes.push(len);
    bytes.extend_from_slice(&listpack);
    // Entries, last ID; one group with its last ID; one pending entry; one consumer.
    bytes.extend_from_slice(&[1, 5, 1, 1, 1, b'g', 5, 1, 1]);
    bytes.extend_from_slice(&raw_id);
    bytes.extend_from_slice(&[9, 0, 0, 0, 0, 0, 0, 0, 3, 1, 1, b'c']);
    bytes.extend_from_slice(&[8, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend_from_slice(&raw_id);
    let group = GroupState {
        name: text("g"),
        last: id(5, 1),
        read: Some(1),
        consumers: vec![(text("c"), 8, Some(8))],
        pending: vec![Pending { id: id(5, 1), owner: Some(0), delivered_ms: 9, deliveries: 3 }],
        given_back: Vec::new(),
    };
    let stream = Stream {
        entries: [(id(5, 1), vec![text("f"), text("v")])].into(),
        last: id(5, 1),
        added: 1,
        groups: vec![group],
        ..Stream::default()
    };
    assert_eq!(read(15, &bytes), Ok(Value::Stream(stream)));
    for len in 0..bytes.len() {
        assert!(read(15, &bytes[..len]).is_err(), "{len}");
    }
}

#[test]
fn what_is_not_known_is_said_to_be() {
    for (type_byte, what) in [
        (6, "module"),
        (7, "module"),
        (8, "unknown"),
        (34, "unknown"),
        (0xf1, "unknown"),
        (200, "unknown"),
    ] {
        let error = read(type_byte, &[0; 50]).unwrap_err();
        assert!(matches!(error, Error::Unsupported(said) if said.contains(what)), "{error}");
    }
}
