//! Payloads dumped by other servers are read correctly. Each line of `payloads.txt`: the server,
//! the value's name, the payload in hexadecimal digits.

use crate::model::{GroupState, ProducersState, Stream, Value, id};
use petrel_persistence::rdb::Pending;

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| bytes(text)).collect()
}

fn set(members: &[&str]) -> Value {
    Value::Set(texts(members).into_iter().collect())
}

fn hash(expiries: [Option<i64>; 2]) -> Value {
    let [first, second] = expiries;
    let long = "w".repeat(50);
    let fields = [("f", "v", first), ("1", "2", second), ("g", &long, None)];
    Value::Hash(fields.into_iter().map(|(f, v, at)| (bytes(f), (bytes(v), at))).collect())
}

fn sorted_set() -> Value {
    let members = [
        ("a", 1.0),
        ("b", -2.5),
        ("c", 1e300),
        ("d", f64::INFINITY),
        ("e", f64::NEG_INFINITY),
        ("17", 3.0),
    ];
    Value::SortedSet(members.into_iter().map(|(member, score)| (bytes(member), score)).collect())
}

fn list() -> Value {
    let (x, long) = ("x".repeat(100), "long ".repeat(900));
    Value::List(texts(&[
        "a",
        "1",
        "300",
        "-70000",
        "9999999999",
        &x,
        "",
        "-1",
        "4096",
        "8388607",
        &long,
    ]))
}

fn stream() -> Stream {
    let entries = (1..=10u64).filter(|i| ![2, 9].contains(i)).map(|i| {
        let (name, age) = (format!("n{i}"), format!("{}", i * 1000));
        let fields = match i % 3 {
            0 => texts(&["other", &name]),
            _ => texts(&["name", &name, "age", &age]),
        };
        (id(i * 1000, i), fields)
    });
    Stream {
        entries: entries.collect(),
        last: id(10_000, 10),
        max_deleted: id(9000, 9),
        added: 10,
        ..Stream::default()
    }
}

fn pending(at: u64, owner: Option<usize>, delivered_ms: i64, deliveries: u64) -> Pending {
    Pending { id: id(at * 1000, at), owner, delivered_ms, deliveries }
}

/// The groups that the fixtures have; of the times only whether there are any.
fn groups() -> Vec<GroupState> {
    let mine = |at| pending(at, Some(0), 1_234_567_890_999, 1);
    let yours = |at| pending(at, Some(2), 1_234_567_890_123, 7);
    vec![
        GroupState {
            name: bytes("g"),
            last: id(5000, 5),
            read: None,
            consumers: vec![
                (bytes("me"), 1, Some(1)),
                (bytes("never"), 1, None),
                (bytes("you"), 1, Some(1)),
            ],
            pending: vec![yours(1), yours(3), mine(4)],
            given_back: Vec::new(),
        },
        GroupState { name: bytes("idle"), last: id(5000, 5), ..GroupState::default() },
    ]
}

fn expected(name: &str) -> Value {
    match name {
        "string-short" => Value::String(bytes("hello")),
        "string-int-0" => Value::String(bytes("-5")),
        "string-int-1" => Value::String(bytes("1000")),
        "string-int-2" => Value::String(bytes("-100000")),
        "string-int-3" => Value::String(bytes("99999999999")),
        "string-long" => Value::String(b"abcd".repeat(250)),
        "list" | "list-of-nodes" => list(),
        "list-plain-node" => Value::List(vec![b"y".repeat(9000), bytes("z")]),
        "set-ints-0" => set(&["-1", "30000", "7"]),
        "set-ints-1" => set(&["-1", "70000", "7"]),
        "set-ints-2" => set(&["-1", "5000000000", "7"]),
        "set-small" | "set-table" => set(&["a", "b", "5"]),
        "set-long" => set(&["a", "b", "5", &"c".repeat(70)]),
        "zset" | "zset-table" => sorted_set(),
        "hash" | "hash-table" => hash([None, None]),
        "hash-expiring" | "hash-expiring-table" => {
            hash([Some(4_000_000_000_000), Some(4_000_000_000_123)])
        }
        "stream-no-groups" => Value::Stream(stream()),
        "stream-groups" => Value::Stream(Stream { groups: groups(), ..stream() }),
        "stream-handed-back" => {
            let group = GroupState {
                name: bytes("g"),
                last: id(3000, 3),
                read: None,
                consumers: vec![(bytes("me"), 1, Some(1))],
                pending: vec![pending(1, None, 0, 1), pending(3, Some(0), 1_234_567_890_999, 1)],
                given_back: vec![id(1000, 1)],
            };
            Value::Stream(Stream { groups: vec![group], ..stream() })
        }
        // Its only entry was added when the fixture was made.
        "stream-producers" => {
            let entry = id(1_795_271_092_249, 0);
            let producers = ProducersState {
                duration_s: 100,
                ids_max: 100,
                producers: vec![(bytes("producer"), vec![(bytes("i1"), entry)])],
                counters: (1, 0),
            };
            Value::Stream(Stream {
                entries: [(entry, texts(&["f", "v"]))].into(),
                last: entry,
                added: 1,
                producers: Some(producers),
                ..Stream::default()
            })
        }
        "stream-empty" => Value::Stream(Stream {
            last: id(1, 1),
            max_deleted: id(1, 1),
            added: 1,
            ..Stream::default()
        }),
        _ => panic!("no value is named {name}"),
    }
}

/// Times at which consumers did something are those of the day when the fixture was made; a server
/// that keeps none of when they were active says that they were when seen.
fn without_times(value: &mut Value, server: &str) {
    let Value::Stream(stream) = value else { return };
    for (name, seen, active) in stream.groups.iter_mut().flat_map(|group| &mut group.consumers) {
        assert!(*seen > 1_700_000_000_000);
        *seen = 1;
        *active = active.map(|_| 1).filter(|_| server != "redis-7.0" || name != b"never");
    }
}

fn payload(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn what_servers_dumped() {
    let mut seen = 0;
    for line in include_str!("payloads.txt").lines() {
        let [server, name, hex] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let mut value = Value::restore(&payload(hex)).unwrap_or_else(|e| panic!("{line}: {e}"));
        without_times(&mut value, server);
        seen += 1;
        assert_eq!(value, expected(name), "{server} {name}");
    }
    assert_eq!(seen, 96);
}
