//! Replies, written and read back.

use bytes::Bytes;
use petrel_resp::{
    DecodeError, DecodeLimits, Decoder, Protocol, Reply, RespWriter, SHARED_LEN_MIN, Value, decode,
};
use proptest::prelude::*;

/// The stream that `write` makes, shared values spliced in.
fn written(protocol: Protocol, write: impl FnOnce(&mut RespWriter)) -> Vec<u8> {
    let (mut bytes, mut shared) = (Vec::new(), Vec::new());
    write(&mut RespWriter::new(&mut bytes, &mut shared, protocol));
    let (mut stream, mut from) = (Vec::new(), 0);
    for (offset, value) in shared {
        stream.extend_from_slice(&bytes[from..offset]);
        stream.extend_from_slice(&value);
        from = offset;
    }
    stream.extend_from_slice(&bytes[from..]);
    stream
}

#[track_caller]
fn check(write: impl Fn(&mut RespWriter), resp2: &str, resp3: &str) {
    for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
        let got = written(protocol, &write);
        assert_eq!(got.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
    }
}

/// The shapes that `DEBUG PROTOCOL` shows.
#[test]
#[expect(clippy::approx_constant, reason = "the double that DEBUG PROTOCOL shows")]
fn every_type() {
    check(|r| r.simple("OK"), "+OK\r\n", "+OK\r\n");
    check(|r| r.simple("PONG"), "+PONG\r\n", "+PONG\r\n");
    check(|r| r.error(b"ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n");
    check(|r| r.bulk(b"Hello World"), "$11\r\nHello World\r\n", "$11\r\nHello World\r\n");
    check(|r| r.integer(12345), ":12345\r\n", ":12345\r\n");
    check(|r| r.double(3.141), "$5\r\n3.141\r\n", ",3.141\r\n");
    check(|r| r.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    check(|r| r.null(), "$-1\r\n", "_\r\n");
    check(|r| r.null_array(), "*-1\r\n", "_\r\n");
    check(|r| r.array(3), "*3\r\n", "*3\r\n");
    check(|r| r.set(3), "*3\r\n", "~3\r\n");
    check(|r| r.map(3), "*6\r\n", "%3\r\n");
    check(|r| r.push(2), "*2\r\n", ">2\r\n");
    check(|r| assert_eq!(r.attribute(1), r.protocol() == Protocol::Resp3), "", "|1\r\n");
    let text = b"This is a verbatim\nstring";
    check(
        |r| r.verbatim(b"txt", text),
        "$25\r\nThis is a verbatim\nstring\r\n",
        "=29\r\ntxt:This is a verbatim\nstring\r\n",
    );
    check(|r| r.boolean(true), ":1\r\n", "#t\r\n");
    check(|r| r.boolean(false), ":0\r\n", "#f\r\n");
    let big = "1234567999999999999999999999999999999";
    check(|r| r.big_number(big), &format!("$37\r\n{big}\r\n"), &format!("({big}\r\n"));
}

#[test]
fn numbers_and_lengths_of_every_size() {
    for n in [0, 1, 9, 10, -1, 99, 1023, 1024, i64::MAX, i64::MIN] {
        assert_eq!(written(Protocol::Resp2, |r| r.integer(n)), format!(":{n}\r\n").into_bytes());
    }
    for len in (0..1100).chain([9_999, 10_000, 123_456]) {
        let expected = format!("${len}\r\n{}\r\n", "x".repeat(len));
        let got = written(Protocol::Resp2, |r| r.bulk(&vec![b'x'; len]));
        assert_eq!(got, expected.into_bytes());
        let header = written(Protocol::Resp2, |r| r.array(len));
        assert_eq!(header, format!("*{len}\r\n").into_bytes());
    }
    let most = written(Protocol::Resp2, |r| r.array(usize::MAX));
    assert_eq!(most, format!("*{}\r\n", usize::MAX).into_bytes());
}

#[test]
fn only_large_values_are_shared() {
    let (mut bytes, mut shared) = (Vec::new(), Vec::new());
    let mut writer = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp2);
    let large = Bytes::from(vec![b'x'; SHARED_LEN_MIN]);
    writer.shared(large.slice(1..));
    writer.shared(large.clone());
    writer.simple("OK");
    assert_eq!(shared.len(), 1);
    assert_eq!(shared[0].1.as_ptr(), large.as_ptr());
    assert_eq!(&bytes[shared[0].0 - 8..], b"$16384\r\n\r\n+OK\r\n");
}

/// What a reply that passes its limit leaves: what was there before, and hardly any memory.
#[test]
fn a_reply_that_passes_its_limit_is_dropped_as_a_whole() {
    let large = Bytes::from(vec![b'x'; 100_000]);
    type Write = fn(&mut RespWriter, &Bytes);
    let writes: [(&str, Write); 6] = [
        ("bulk", |r, large| r.bulk(&large[..10_000])),
        ("shared", |r, large| r.shared(large.clone())),
        ("integer", |r, _| r.integer(1_234_567)),
        ("null", |r, _| r.null()),
        ("double", |r, _| r.double(1.5)),
        ("array", |r, _| r.array(3)),
    ];
    for (name, write) in writes {
        let (mut bytes, mut shared) = (b"+before\r\n".to_vec(), vec![(0, large.clone())]);
        let mut writer = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp3).limited(1 << 20);
        for _ in 0..1_000_000 {
            write(&mut writer, &large);
        }
        assert!(writer.is_cut(), "{name}");
        assert_eq!(writer.written(), usize::MAX, "who asks how much it is ends");
        assert!(bytes.starts_with(b"+before\r\n") && bytes.capacity() < 10_000, "{name}");
        assert_eq!(shared.len(), 1, "{name}");
    }
}

proptest! {
    /// A limit changes nothing of a reply that is within it, and a buffer never passes it.
    #[test]
    fn a_limit_is_kept(lens in prop::collection::vec(0usize..40_000, 1..60), end in 0usize..500_000) {
        let all = Bytes::from(vec![b'x'; 40_000]);
        let write = |writer: &mut RespWriter| {
            let mut most = 0;
            for &len in &lens {
                if len % 3 == 0 { writer.shared(all.slice(..len)) } else { writer.bulk(&all[..len]) }
                most = most.max(if writer.is_cut() { 0 } else { writer.written() });
            }
            most
        };
        let (mut bytes, mut shared) = (Vec::new(), Vec::new());
        let mut writer = RespWriter::new(&mut bytes, &mut shared, Protocol::Resp2).limited(end);
        let most = write(&mut writer);
        let is_cut = writer.is_cut();
        // A header may be taken for longer than it is.
        prop_assert!(most <= end + 25, "{most} of {end}");
        let (mut free, mut free_shared) = (Vec::new(), Vec::new());
        let needed = write(&mut RespWriter::new(&mut free, &mut free_shared, Protocol::Resp2));
        if is_cut {
            prop_assert!(needed + 25 > end, "{needed} of {end}");
        } else {
            prop_assert_eq!(&bytes, &free);
            prop_assert_eq!(&shared, &free_shared);
        }
    }
}

fn read(stream: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    decode(stream, &DecodeLimits::default())
}

#[track_caller]
fn reads(stream: &str, value: Value) {
    assert_eq!(read(stream.as_bytes()), Ok(Some((value.clone(), stream.len()))));
    for cut in 0..stream.len() {
        assert_eq!(read(&stream.as_bytes()[..cut]), Ok(None), "cut at {cut}");
    }
    // What the decoder says it needs no more must not be needed.
    let (mut decoder, mut start, mut result) = (Decoder::new(DecodeLimits::default()), 0, None);
    for end in 1..=stream.len() {
        assert!(result.is_none());
        let (consumed, value) = decoder.decode(&stream.as_bytes()[start..end]).unwrap();
        (start, result) = (start + consumed, value);
    }
    assert_eq!((result, start), (Some(value), stream.len()));
}

fn bulk(text: &'static str) -> Value {
    Value::Bulk(Bytes::from_static(text.as_bytes()))
}

#[test]
fn reads_every_type() {
    reads("+OK\r\n", Value::Simple(Bytes::from_static(b"OK")));
    reads("-ERR x\r\n", Value::Error(Bytes::from_static(b"ERR x")));
    reads("!8\r\nERR a\r\nb\r\n", Value::Error(Bytes::from_static(b"ERR a\r\nb")));
    reads(":-42\r\n", Value::Integer(-42));
    reads(":+42\r\n", Value::Integer(42));
    reads(":7\r\n", Value::Integer(7));
    reads("$5\r\na\r\nbc\r\n", bulk("a\r\nbc"));
    reads("$0\r\n\r\n", bulk(""));
    reads("$-1\r\n", Value::Null);
    reads("_\r\n", Value::Null);
    reads("*-1\r\n", Value::NullArray);
    reads("*0\r\n", Value::Array(vec![]));
    reads(",3.5\r\n", Value::Double(3.5));
    reads(",-inf\r\n", Value::Double(f64::NEG_INFINITY));
    reads(",1.5e+20\r\n", Value::Double(1.5e20));
    reads("#t\r\n", Value::Boolean(true));
    reads("(-123\r\n", Value::BigNumber(Bytes::from_static(b"-123")));
    let text = Bytes::from_static(b"a:b");
    reads("=7\r\ntxt:a:b\r\n", Value::Verbatim { format: *b"txt", text });
    reads("~1\r\n:1\r\n", Value::Set(vec![Value::Integer(1)]));
    reads(">1\r\n:1\r\n", Value::Push(vec![Value::Integer(1)]));
    let map = Value::Map(vec![(bulk("a"), Value::Array(vec![Value::Null, Value::Set(vec![])]))]);
    reads("%1\r\n$1\r\na\r\n*2\r\n_\r\n~0\r\n", map);
    let attributes = vec![(bulk("ttl"), Value::Integer(3))];
    let value = Box::new(bulk("x"));
    reads("|1\r\n$3\r\nttl\r\n:3\r\n$1\r\nx\r\n", Value::Attribute { attributes, value });
    let value = Box::new(Value::Null);
    reads("|0\r\n_\r\n", Value::Attribute { attributes: vec![], value });
}

#[test]
fn rejects_what_is_no_reply() {
    for stream in [
        "+a\nb\r\n",
        "+a\rb\r\n",
        ":\r\n",
        ":01\r\n",
        ":1.5\r\n",
        "$01\r\n",
        "$-2\r\n",
        "*-2\r\n",
        "$1\r\nab\r\n",
        "#x\r\n",
        "_x\r\n",
        ",x\r\n",
        "(1a\r\n",
        "(\r\n",
        "=3\r\ntxt\r\n",
        "*?\r\n",
    ] {
        assert_eq!(read(stream.as_bytes()), Err(DecodeError::Malformed), "{stream:?}");
    }
    assert_eq!(read(b"PONG\r\n"), Err(DecodeError::UnknownType(b'P')));
    assert_eq!(read(b"$536870913\r\n"), Err(DecodeError::TooLong));
    assert_eq!(read(b"*9999999999\r\n"), Err(DecodeError::TooLong));
    assert_eq!(read(b"%9223372036854775807\r\n"), Err(DecodeError::TooLong));
    assert_eq!(read("*1\r\n".repeat(64).as_bytes()), Ok(None));
    assert_eq!(read("*1\r\n".repeat(65).as_bytes()), Err(DecodeError::TooDeep));
    let limits = DecodeLimits { values_max: 4, ..DecodeLimits::default() };
    let nested = b"*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n";
    assert_eq!(decode(nested, &limits), Err(DecodeError::TooLong));
}

fn text() -> impl Strategy<Value = Bytes> {
    "[ -~]{0,20}".prop_map(Bytes::from)
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        text().prop_map(Value::Simple),
        text().prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        prop::collection::vec(any::<u8>(), 0..50).prop_map(|bytes| Value::Bulk(bytes.into())),
        Just(Value::Null),
        any::<f64>().prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        text().prop_map(|text| Value::Verbatim { format: *b"mkd", text }),
        "-?[0-9]{1,30}".prop_map(|digits| Value::BigNumber(digits.into())),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        let items = prop::collection::vec(inner.clone(), 0..6);
        let pairs = prop::collection::vec((inner.clone(), inner), 0..4);
        prop_oneof![
            items.clone().prop_map(Value::Array),
            items.clone().prop_map(Value::Set),
            items.prop_map(Value::Push),
            pairs.prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn values_round_trip(values in prop::collection::vec(value(), 1..4), step in 1..40usize) {
        let stream = written(Protocol::Resp3, |reply| {
            values.iter().for_each(|value| value.write_to(reply));
        });
        let mut decoder = Decoder::new(DecodeLimits::default());
        let (mut start, mut end, mut got) = (0, 0, Vec::new());
        while end < stream.len() {
            end = stream.len().min(end + step);
            loop {
                let (consumed, value) = decoder.decode(&stream[start..end]).unwrap();
                start += consumed;
                match value {
                    Some(value) => got.push(value),
                    None => break,
                }
            }
        }
        prop_assert_eq!(start, stream.len());
        prop_assert_eq!(got, values);
    }
}
