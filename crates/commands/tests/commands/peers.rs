//! Values of every type move from another server to Petrel and back with DUMP and RESTORE, and are
//! equal on both sides. The other servers are `redis-server` and `valkey-server` on the PATH, and
//! those in `PETREL_TEST_PEERS` (paths separated by colons).

use crate::client::{Client, show, show_args};
use crate::look::{Server, look, unknown_to};
use crate::random::Random;
use crate::redis::Redis;
use petrel_commands::{CommandSpec, FAMILIES};
use petrel_persistence::rdb::Dialect;
use petrel_resp::Value;
use std::path::PathBuf;

fn peers() -> Vec<(PathBuf, Redis)> {
    let stated = std::env::var_os("PETREL_TEST_PEERS").unwrap_or_default();
    let stated = std::env::split_paths(&stated).filter(|path| !path.as_os_str().is_empty());
    let programs = ["redis-server", "valkey-server"].map(PathBuf::from);
    let programs = programs.into_iter().chain(stated);
    programs
        .filter_map(|path| Redis::start_program(&path, &[]).map(|server| (path, server)))
        .collect()
}

/// A call: its name and arguments.
type Call = Vec<Vec<u8>>;

fn call<T: ToString>(words: &[T]) -> Call {
    words.iter().map(|word| word.to_string().into_bytes()).collect()
}

fn run(server: &mut dyn Server, call: &Call) -> Value {
    let args: Vec<&[u8]> = call.iter().map(|arg| &arg[..]).collect();
    server.ask(&args)
}

fn dump(server: &mut dyn Server) -> Vec<u8> {
    match server.ask(&[b"DUMP", b"k"]) {
        Value::Bulk(payload) => payload.to_vec(),
        other => panic!("{}", show(&other)),
    }
}

fn restore(server: &mut dyn Server, payload: &[u8]) {
    let reply = server.ask(&[b"RESTORE", b"k", b"0", payload, b"REPLACE"]);
    assert_eq!(show(&reply), "OK", "{payload:x?}");
}

/// Asserts equality, and shows only the differing parts of long texts.
fn assert_same(ours: &str, theirs: &str) {
    let differ = ours.bytes().zip(theirs.bytes()).position(|(a, b)| a != b);
    if let Some(at) = differ.or((ours.len() != theirs.len()).then_some(0)) {
        let near = at.saturating_sub(100)..;
        let show = |look: &str| look.chars().skip(near.start).take(200).collect::<String>();
        panic!("after {at} bytes\n  ours: {}\ntheirs: {}", show(ours), show(theirs));
    }
}

/// Creates a value with `calls` on the peer, and moves it to Petrel and back. False if the peer
/// does not know one of the calls.
fn moves(peer: &mut Redis, petrel: &mut Client, calls: &[Call]) -> bool {
    peer.ask(&[b"DEL", b"k"]);
    for call in calls {
        if let Value::Error(error) = run(peer, call) {
            let words: Vec<&[u8]> = call.iter().map(|arg| &arg[..]).collect();
            let error = String::from_utf8_lossy(&error);
            assert!(error.contains("unknown command"), "{}: {error}", show_args(&words));
            return false;
        }
    }
    let theirs = look(peer, &[]);
    let unknown = unknown_to(&theirs);
    let encoding = peer.ask(&[b"OBJECT", b"ENCODING", b"k"]);
    restore(petrel, &dump(peer));
    assert_same(&look(petrel, &unknown), &theirs);
    let payload = dump(petrel);
    restore(peer, &payload);
    assert_same(&look(peer, &[]), &theirs);
    let back = peer.ask(&[b"OBJECT", b"ENCODING", b"k"]);
    assert_eq!(show(&back), show(&encoding), "after {}", &theirs[..theirs.len().min(300)]);
    true
}

/// Elements: small and large integers, short and long texts.
fn element(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => (random.below(200) as i64 - 100).to_string().into_bytes(),
        1 => (random.below(usize::MAX) as i64).to_string().into_bytes(),
        2 => (random.below(1 << 20) as i64 - (1 << 19)).to_string().into_bytes(),
        3 => (random.below(1 << 36) as i64 - (1 << 35)).to_string().into_bytes(),
        4 => b"some words ".repeat(random.below(100)),
        5 => vec![b'x'; random.below(70)],
        6 => (0..random.below(40)).map(|_| random.below(256) as u8).collect(),
        7 if random.below(20) == 0 => {
            (0..random.below(20_000)).map(|i| (i * i / 7) as u8).collect()
        }
        _ => format!("element {}", random.below(1000)).into_bytes(),
    }
}

/// Number of elements: few, around the thresholds of encodings, or many.
fn len(random: &mut Random) -> usize {
    match random.below(10) {
        0 => 1,
        1 => 126 + random.below(5),
        2 => 510 + random.below(5),
        3 => 1000 + random.below(3000),
        _ => 1 + random.below(100),
    }
}

fn numbers_only(random: &mut Random) -> Vec<u8> {
    let bits = [6, 14, 30, 62][random.below(4)];
    (random.below(1 << bits) as i64 - (1 << (bits - 1))).to_string().into_bytes()
}

fn with_elements(
    command: &str,
    random: &mut Random,
    element: impl Fn(&mut Random) -> Vec<u8>,
) -> Vec<Call> {
    let len = len(random);
    let elements: Vec<_> = (0..len).map(|_| element(random)).collect();
    // A few elements per call, as usual.
    let calls = elements.chunks(50).map(|elements| {
        let mut call = call(&[command, "k"]);
        call.extend(elements.iter().cloned());
        call
    });
    calls.collect()
}

fn score(random: &mut Random) -> Vec<u8> {
    let score = match random.below(8) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        // Servers print other fractions differently.
        2 => random.below(1 << 16) as f64 / 4.0,
        3 => 1e20,
        _ => random.below(100) as f64 - 50.0,
    };
    format!("{score:e}").into_bytes()
}

fn sorted_set(random: &mut Random) -> Vec<Call> {
    let mut calls = with_elements("ZADD", random, element);
    for call in &mut calls {
        let members = call.split_off(2);
        call.extend(members.into_iter().flat_map(|member| [score(random), member]));
    }
    calls
}

/// Calls that make a hash, optionally with fields that expire.
fn hash_of(random: &mut Random, expiring: bool) -> Vec<Call> {
    let mut calls = with_elements("HSET", random, element);
    for call in &mut calls {
        if call.len() % 2 == 1 {
            call.push(b"value".to_vec());
        }
    }
    let some: Vec<Vec<u8>> = calls.iter().map(|call| call[2].clone()).collect();
    for field in some.into_iter().filter(|_| expiring) {
        let at = 4_000_000_000_000 + random.below(1 << 30);
        let mut expire = call(&["HPEXPIREAT", "k", &at.to_string(), "FIELDS", "1"]);
        expire.push(field);
        calls.push(expire);
    }
    calls
}

/// A stream with gaps, groups, and entries that were delivered, claimed and given back.
fn stream(random: &mut Random) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut add = |line: String| calls.push(call(&line.split(' ').collect::<Vec<_>>()));
    let len = len(random).min(600);
    let mut id = 1;
    for i in 0..len {
        let bits = random.below(30);
        id += 1 + random.below(1 << bits) as u64;
        let value = random.below(1 << 30);
        match random.below(4) {
            0 => add(format!("XADD k {id}-{i} other text{value}")),
            1 => add(format!("XADD k {id}-* name -{value} age {i} {} x", random.below(3))),
            _ => add(format!("XADD k {id}-1 name n{i} age {value}")),
        }
        if random.below(10) == 0 {
            add(format!("XDEL k {id}-1"));
        }
    }
    if random.below(3) == 0 {
        add(format!("XTRIM k MAXLEN {}", len / 2));
    }
    for group in 0..random.below(3) {
        add(format!("XGROUP CREATE k g{group} {}", random.below(id as usize)));
        add(format!("XGROUP CREATECONSUMER k g{group} idle"));
        for consumer in 0..random.below(3) {
            let count = 1 + random.below(50);
            add(format!("XREADGROUP GROUP g{group} c{consumer} COUNT {count} STREAMS k >"));
            add(format!("XAUTOCLAIM k g{group} d{consumer} 0 0 COUNT {}", 1 + count / 2));
        }
    }
    if random.below(3) == 0 {
        add(format!("XSETID k {}-0", id + 5));
    }
    calls
}

/// Stream with features of new servers only: entries that were given back, and producers.
fn new_stream(random: &mut Random) -> Vec<Call> {
    let mut lines: Vec<_> =
        (1..9).map(|ms| format!("XADD k {ms}-1 f v{}", random.below(9))).collect();
    lines.push("XGROUP CREATE k g 0".to_owned());
    lines.push("XREADGROUP GROUP g c COUNT 6 STREAMS k >".to_owned());
    lines.push("XNACK k g FAIL IDS 2 4-1 2-1".to_owned());
    lines.push("XNACK k g SILENT IDS 1 3-1".to_owned());
    if random.below(2) == 0 {
        lines.push("XCFGSET k IDMP-DURATION 1000 IDMP-MAXSIZE 2".to_owned());
    }
    for id in ["one", "two", "two", "three"] {
        lines.push(format!("XADD k IDMP producer {id} * f v"));
        lines.push(format!("XADD k IDMPAUTO another * f {id}"));
    }
    lines.iter().map(|line| call(&line.split(' ').collect::<Vec<_>>())).collect()
}

fn values(random: &mut Random) -> Vec<Vec<Call>> {
    let string = [call(&["SET", "k"]), vec![element(random)]].concat();
    vec![
        vec![string],
        with_elements("RPUSH", random, element),
        with_elements("RPUSH", random, |_| b"the same".to_vec()),
        with_elements("SADD", random, element),
        with_elements("SADD", random, numbers_only),
        with_elements("SADD", random, |random| format!("m{}", random.below(500)).into_bytes()),
        sorted_set(random),
        hash_of(random, false),
        hash_of(random, true),
        stream(random),
        new_stream(random),
    ]
}

#[test]
fn values_move_to_other_servers_and_back() {
    const ROUNDS: usize = 5;
    let mut peers = peers();
    if peers.is_empty() {
        eprintln!("skipped: neither redis-server nor valkey-server on the PATH");
    }
    let mut petrel = Client::new();
    let mut random = Random::seeded();
    for (path, peer) in &mut peers {
        let mut moved = 0;
        let is_valkey = show(&peer.ask(&[b"INFO", b"server"])).contains("valkey");
        petrel.host.dialect = if is_valkey { Dialect::Valkey } else { Dialect::Redis };
        for _ in 0..ROUNDS {
            for calls in values(&mut random) {
                moved += usize::from(moves(peer, &mut petrel, &calls));
            }
        }
        eprintln!("{}: {moved} values", path.display());
    }
}

/// The peers that have commands of Redis 7.4: scripts see and may do less in older ones.
fn newer_peers() -> Vec<(PathBuf, Redis)> {
    let mut peers = peers();
    peers.retain_mut(|(path, peer)| {
        let is_newer = show(&peer.ask(&[b"COMMAND", b"INFO", b"hexpire"])) != "[nil]";
        if !is_newer {
            eprintln!("skipped: {}, which is older than Redis 7.4", path.display());
        }
        is_newer
    });
    peers
}

/// A Petrel client in the dialect of the peer, and whether that is Valkey.
fn in_dialect_of(peer: &mut Redis) -> (Client, bool) {
    let is_valkey = show(&peer.ask(&[b"INFO", b"server"])).contains("valkey");
    let petrel = Client::new();
    if is_valkey {
        petrel.exec.shared.speak(petrel_commands::Dialect::Valkey);
    }
    (petrel, is_valkey)
}

/// A call of every command and subcommand with as many arguments as it needs.
fn shortest_calls() -> Vec<Call> {
    let shortest = |container: Option<&str>, spec: &CommandSpec| {
        let mut words: Vec<&str> = container.into_iter().chain([spec.meta.name]).collect();
        words.resize(words.len().max(usize::from(spec.meta.arity.unsigned_abs())), "1");
        call(&words)
    };
    let specs = FAMILIES.iter().flat_map(|family| family.iter());
    let calls = specs.flat_map(|spec| match spec.subcommands {
        [] => vec![shortest(None, spec)],
        subs => subs.iter().map(|sub| shortest(Some(spec.meta.name), sub)).collect(),
    });
    calls.collect()
}

#[test]
fn scripts_that_only_read_are_refused_what_other_servers_refuse() {
    const REFUSAL: &str = "Write commands are not allowed from read-only scripts";
    let text = "return redis.call(unpack(ARGV))";
    let flagged = format!("#!lua flags=no-writes\n{text}");
    for (path, mut peer) in newer_peers() {
        let (mut petrel, _) = in_dialect_of(&mut peer);
        let mut refused = 0;
        for one in shortest_calls() {
            let words: Vec<&[u8]> = one.iter().map(|word| &word[..]).collect();
            // A server outside of a cluster rejects these.
            if words[0] == b"cluster" {
                continue;
            }
            for script in [[b"EVAL_RO", text.as_bytes()], [b"EVAL", flagged.as_bytes()]] {
                let request = [&script[..], &[b"0"], &words].concat();
                let theirs = show(&peer.ask(&request));
                if theirs.contains("Unknown") {
                    continue;
                }
                let ours = show(&petrel.ask(&request));
                let what = format!("{}: {}", path.display(), show_args(&request));
                let [ours, theirs] = [ours, theirs].map(|reply| reply.contains(REFUSAL));
                assert_eq!(ours, theirs, "{what}");
                refused += usize::from(theirs);
            }
        }
        eprintln!("{}: {refused} calls refused", path.display());
    }
}

#[test]
fn scripts_see_what_they_see_on_other_servers() {
    let names = "local t = {} for name in pairs(TABLE) do \
                 if not name:find('^__') then t[#t + 1] = name end end table.sort(t) return t";
    for (path, mut peer) in newer_peers() {
        let (mut petrel, is_valkey) = in_dialect_of(&mut peer);
        for table in ["_G", "redis", "string", "table", "math", "cmsgpack", "bit", "struct"] {
            let script = names.replace("TABLE", table);
            let ask =
                |server: &mut dyn Server| show(&server.ask(&[b"EVAL", script.as_bytes(), b"0"]));
            assert_eq!(ask(&mut petrel), ask(&mut peer), "{}: {table}", path.display());
        }
        for script in ["return type(server)", "#!lua\nreturn type(server)"] {
            let request: [&[u8]; 3] = [b"EVAL", script.as_bytes(), b"0"];
            let theirs = show(&peer.ask(&request));
            assert_eq!(show(&petrel.ask(&request)), theirs, "{}", path.display());
        }
        let releases = if is_valkey { "valkey_version:9.1" } else { "redis_version:8.2" };
        if !show(&peer.ask(&[b"INFO", b"server"])).contains(releases) {
            eprintln!("skipped: HELP of {}, which is not {releases}", path.display());
            continue;
        }
        let theirs = show(&peer.ask(&[b"SCRIPT", b"HELP"]));
        assert_eq!(show(&petrel.ask(&[b"SCRIPT", b"HELP"])), theirs, "{}", path.display());
    }
}
