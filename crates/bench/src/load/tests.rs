//! The generator against a tiny server in the same process.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::*;

type Store = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

/// Answers SET, GET, DEL and PING on a socket that goes with it.
struct Responder {
    path: PathBuf,
    store: Store,
}

impl Responder {
    fn start(name: &str) -> Responder {
        let path = std::env::temp_dir()
            .join(format!("petrel-bench-test-{}-{name}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let store = Store::default();
        let shared = Arc::clone(&store);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let store = Arc::clone(&shared);
                thread::spawn(move || serve(stream.unwrap(), &store));
            }
        });
        Responder { path, store }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn serve(mut stream: UnixStream, store: &Store) {
    let mut buffer = Vec::new();
    let mut chunk = [0; 65536];
    loop {
        let mut replies = Vec::new();
        while let Some((arguments, taken)) = parse(&buffer) {
            buffer.drain(..taken);
            reply(&arguments, store, &mut replies);
        }
        if stream.write_all(&replies).is_err() {
            return;
        }
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 => buffer.extend_from_slice(&chunk[..count]),
            _ => return,
        }
    }
}

fn parse(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut at = 0;
    let mut line = |mark: u8| {
        let end = at + bytes[at..].windows(2).position(|pair| pair == b"\r\n")?;
        assert_eq!(bytes[at], mark);
        let number = std::str::from_utf8(&bytes[at + 1..end]).unwrap().parse::<usize>().unwrap();
        at = end + 2;
        if mark == b'*' {
            return Some((number, Vec::new()));
        }
        let argument = bytes.get(at..at + number)?.to_vec();
        bytes.get(at + number..at + number + 2)?;
        at += number + 2;
        Some((number, argument))
    };
    let (count, _) = line(b'*')?;
    let arguments = (0..count).map(|_| line(b'$').map(|(_, argument)| argument));
    let arguments = arguments.collect::<Option<Vec<_>>>()?;
    Some((arguments, at))
}

fn reply(arguments: &[Vec<u8>], store: &Store, out: &mut Vec<u8>) {
    let mut store = store.lock().unwrap();
    match arguments[0].as_slice() {
        b"SET" => {
            store.insert(arguments[1].clone(), arguments[2].clone());
            out.extend_from_slice(b"+OK\r\n");
        }
        b"GET" => match store.get(&arguments[1]) {
            Some(value) => {
                out.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            None => out.extend_from_slice(b"$-1\r\n"),
        },
        b"DEL" => {
            let gone = u8::from(store.remove(&arguments[1]).is_some());
            out.extend_from_slice(&[b':', b'0' + gone, b'\r', b'\n']);
        }
        b"PING" => out.extend_from_slice(b"+PONG\r\n"),
        _ => out.extend_from_slice(b"-ERR unknown command\r\n"),
    }
}

pub(super) fn plan(path: &Path, operation: Operation, extent: Extent) -> Plan {
    Plan {
        endpoint: Endpoint::Unix(path.to_owned()),
        protocol: Protocol::Resp,
        operation,
        mix: Mix::Only,
        keys: KeySpace::new(1000, 16).unwrap(),
        order: KeyOrder::Random,
        share: Share::All,
        listed: Vec::new(),
        values: "1-1024".parse().unwrap(),
        lengths: Lengths::ByKey,
        check_lengths: true,
        connections: 4,
        threads: 2,
        pipeline: 10,
        extent,
        rate: None,
        server_processes: Vec::new(),
        seed: 1,
    }
}

const SET: Operation = Operation::Set { ttl_s: None };

#[test]
fn a_walk_stores_every_key_once_and_loads_find_it() {
    let server = Responder::start("walk");
    let stored = run(&plan(&server.path, SET, Extent::Walk)).unwrap();
    assert_eq!((stored.operations, stored.replies.done), (1000, 1000));
    assert_eq!(server.store.lock().unwrap().len(), 1000);

    let loaded = run(&plan(&server.path, Operation::Get, Extent::Operations(5003))).unwrap();
    assert_eq!((loaded.operations, loaded.replies.hits), (5003, 5003));
    assert_eq!((loaded.replies.misses, loaded.replies.wrong_lengths), (0, 0));
    assert_eq!(loaded.latency.len(), 5003);
}

#[test]
fn a_load_draws_only_the_keys_that_are_listed() {
    let server = Responder::start("listed");
    let mut some = plan(&server.path, SET, Extent::Operations(2_000));
    some.listed = vec![3, 500, 999];
    run(&some).unwrap();
    let store = server.store.lock().unwrap();
    let mut stored: Vec<Vec<u8>> = store.keys().map(|key| key.to_vec()).collect();
    stored.sort();
    assert_eq!(stored, some.listed.iter().map(|key| some.keys.key(*key)).collect::<Vec<_>>());
}

#[test]
fn deleting_a_share_leaves_the_rest() {
    let server = Responder::start("share");
    run(&plan(&server.path, SET, Extent::Walk)).unwrap();
    let mut delete = plan(&server.path, Operation::Delete, Extent::Walk);
    delete.share = Share::First(90);
    let deleted = run(&delete).unwrap().operations as usize;
    assert!((850..950).contains(&deleted), "{deleted}");
    assert_eq!(server.store.lock().unwrap().len(), 1000 - deleted);
}

#[test]
fn a_cache_is_filled_after_each_miss_with_values_that_later_gets_find() {
    let server = Responder::start("cache");
    let mut cache = plan(&server.path, Operation::Get, Extent::Operations(5_000));
    (cache.mix, cache.order) = (Mix::Cache(10), KeyOrder::Zipf);
    let outcome = run(&cache).unwrap();
    let replies = &outcome.replies;
    assert!((300..700).contains(&(replies.done - replies.misses)), "{replies:?}");
    assert!(replies.hits > replies.misses && replies.misses >= 100, "{replies:?}");
    assert_eq!((replies.wrong_lengths, replies.errors), (0, 0));
    // Several GETs of a key may miss before it is stored.
    let stored = server.store.lock().unwrap().len() as u64;
    assert!(stored <= replies.done && stored >= replies.misses / 4, "{stored} {replies:?}");
}

#[test]
fn littles_law_holds_in_the_closed_loop() {
    let server = Responder::start("little");
    for pipeline in [1, 10, 50] {
        let mut plan = plan(&server.path, SET, Extent::Operations(20_000));
        plan.pipeline = pipeline;
        // A thread that gets a processor late has less in flight than it is charged for, and at no
        // time more: a busy system makes it less in some loads, not in all.
        let mut littles = (0..50).map(|_| {
            let outcome = run(&plan).unwrap();
            assert!(outcome.operations == 20_000 && outcome.client_cpu_ns > 0);
            let little = outcome.little.unwrap();
            assert!(little < 1.01, "pipeline {pipeline}: {little}");
            little
        });
        assert!(littles.any(|little| little > 0.9), "pipeline {pipeline}");
    }
}

#[test]
fn wrong_lengths_and_misses_are_seen() {
    let server = Responder::start("wrong");
    let mut store = plan(&server.path, SET, Extent::Walk);
    store.lengths = Lengths::Random;
    store.share = Share::First(50);
    run(&store).unwrap();
    let loaded = run(&plan(&server.path, Operation::Get, Extent::Operations(2000))).unwrap();
    assert!(loaded.replies.wrong_lengths > 500, "{:?}", loaded.replies);
    assert!(loaded.replies.misses > 500, "{:?}", loaded.replies);
}

// What holds however the system shares its processors; the rest is tested beside the worker.
#[test]
fn open_loop_is_no_faster_than_its_rate_and_charges_for_waiting() {
    let server = Responder::start("open");
    let mut open = plan(&server.path, Operation::Ping, Extent::Operations(1000));
    open.rate = Some(2000.0);
    let outcome = run(&open).unwrap();
    assert_eq!((outcome.operations, outcome.little), (1000, None));
    // The last falls due after 999 intervals of half a millisecond.
    assert!(outcome.elapsed >= Duration::from_micros(499_500), "{:?}", outcome.elapsed);
    // Sent a whole turn of the connections late, all would take longer: a turn is 2 ms. A busy
    // system delays some, not all.
    let tenth = Duration::from_nanos(outcome.latency.value_at_quantile(0.1));
    assert!(tenth < Duration::from_micros(1_500), "{tenth:?}");

    // All due at once: the last has waited as long as the load took.
    open.rate = Some(50_000_000.0);
    open.pipeline = 1;
    for threads in [1, 2] {
        open.threads = threads;
        let outcome = run(&open).unwrap();
        assert_eq!((outcome.operations, outcome.latency.len()), (1000, 1000));
        let waited_us = outcome.latency.max() as f64 / 1000.0;
        let elapsed_us = outcome.elapsed.as_secs_f64() * 1e6;
        assert!((waited_us / elapsed_us - 1.0).abs() < 0.01, "{waited_us} of {elapsed_us}");
    }
}

#[test]
fn errors_are_counted_and_a_closed_connection_is_an_error() {
    let path = std::env::temp_dir().join(format!("petrel-bench-err-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut chunk = [0; 4096];
            let mut rest = stream.read(&mut chunk).unwrap() / b"*1\r\n$4\r\nPING\r\n".len();
            while number == 0 && rest > 0 {
                stream.write_all(&b"-ERR no\r\n".repeat(rest)).unwrap();
                rest = stream.read(&mut chunk).unwrap_or(0) / 14;
            }
        }
    });
    let mut ping = plan(&path, Operation::Ping, Extent::Operations(100));
    (ping.connections, ping.threads) = (1, 1);
    let outcome = run(&ping).unwrap();
    assert_eq!(outcome.replies.errors, 100);
    assert_eq!(outcome.replies.first_error.as_deref(), Some("ERR no"));
    assert!(run(&ping).unwrap_err().contains("connection"));
    let _ = std::fs::remove_file(&path);
}
