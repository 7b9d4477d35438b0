//! SIGKILL at any time: acknowledged writes are present, and no write is partially present.
//!
//! Each of some clients has keys of its own, and changes them by transactions, each of which also
//! says its number. So after a start the numbers say which transactions were kept; the same ones
//! are made on another server, which has no log, and both must then hold the same.
//! `PETREL_KILL_ROUNDS` asks for more rounds than the usual few.

use crate::harness::*;
use petrel_resp::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Transactions that a client sends ahead.
const AHEAD: u64 = 8;
/// Maximum duration of a start on a busy machine.
const LOAD_MAX: Duration = Duration::from_secs(60);

fn rounds(usual: u64) -> u64 {
    std::env::var("PETREL_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Numbers that look drawn.
fn drawn(seed: u64) -> u64 {
    let mut n = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// Keys of a client that hold this many elements that an image takes them in portions.
const LARGE: &str = "large";

/// The commands of transaction `number` of a client: always the same ones.
fn transaction(client: usize, number: u64, flushes: bool) -> Vec<Vec<String>> {
    let draw = drawn((client as u64) << 48 | number);
    let (n, m) = (draw / 64 % 6, draw / 1024 % 40);
    let key = |kind: &str| format!("{client}:{kind}:{n}");
    let other = |kind: &str| format!("{client}:{kind}:{}", (n + 1) % 6);
    let element = format!("element {m} {}", "x".repeat((draw / 65536 % 90) as usize));
    let one = match draw % 40 {
        0..8 => of_strings(draw % 8, &key, element, m),
        8..18 => of_collections(draw % 40 - 8, &key, element, m),
        18..26 => of_streams(draw % 40 - 18, &key, element, number),
        26..30 => of_scripts(draw % 40 - 26, &key, &other, element),
        30..33 => {
            let kind = ["s", "l", "m", "z", "h", "x"][m as usize % 6];
            let (from, to) = (key(kind), other(kind));
            match draw % 40 {
                30 => vec!["COPY".into(), from, to, "REPLACE".into()],
                _ => vec!["RENAME".into(), from, to],
            }
        }
        33..37 => of_large(draw % 40 - 33, client, m, number),
        37 => vec!["SUNIONSTORE".into(), key("m"), key("m"), other("m")],
        38 if flushes && m < 12 => of_databases(m, key("s")),
        38 => vec!["PEXPIREAT".into(), key("z"), FAR.into()],
        _ => vec!["PERSIST".into(), key("z")],
    };
    let count = vec!["SET".into(), format!("{client}:n"), number.to_string()];
    vec![vec!["MULTI".into()], one, count, vec!["EXEC".into()]]
}

/// A moment that does not come.
const FAR: &str = "4102444800000";

/// The key of a kind.
type KeyOf<'k> = dyn Fn(&str) -> String + 'k;

fn of_strings(which: u64, key: &KeyOf<'_>, element: String, m: u64) -> Vec<String> {
    match which {
        0 => vec!["SET".into(), key("s"), element],
        1 => vec!["SET".into(), key("s"), element, "PXAT".into(), FAR.into()],
        2 => vec!["INCRBY".into(), key("i"), m.to_string()],
        3 => vec!["APPEND".into(), key("s"), element],
        4 => vec!["SETRANGE".into(), key("s"), m.to_string(), element],
        5 => vec!["DEL".into(), key("s"), key("i"), key("l")],
        6 => vec!["MSET".into(), key("s"), element, key("i"), m.to_string()],
        _ => vec!["SET".into(), key("e"), element, "PX".into(), "20".into()],
    }
}

fn of_collections(which: u64, key: &KeyOf<'_>, element: String, m: u64) -> Vec<String> {
    let m = m.to_string();
    match which {
        0 => vec!["RPUSH".into(), key("l"), element, m, "c".into()],
        1 => vec!["LPOP".into(), key("l"), "2".into()],
        2 => vec!["LINSERT".into(), key("l"), "BEFORE".into(), "c".into(), element],
        3 => vec!["LTRIM".into(), key("l"), "0".into(), "30".into()],
        4 => vec!["SADD".into(), key("m"), element, m],
        5 => vec!["SREM".into(), key("m"), m],
        6 => vec!["ZADD".into(), key("z"), m.clone(), element, "1.5".into(), m],
        7 => vec!["ZREMRANGEBYRANK".into(), key("z"), "0".into(), "1".into()],
        8 => vec!["HSET".into(), key("h"), m, element, "f".into(), "v".into()],
        _ => {
            let fields = ["FIELDS".into(), "1".into(), "f".into()];
            [vec!["HPEXPIREAT".into(), key("h"), FAR.into()], fields.to_vec()].concat()
        }
    }
}

fn of_streams(which: u64, key: &KeyOf<'_>, element: String, number: u64) -> Vec<String> {
    let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
    let x = key("x");
    match which {
        0..3 => vec!["XADD".into(), x, format!("{}-1", number + 1), "f".into(), element],
        3 => words(&format!("XTRIM {x} MAXLEN 20")),
        4 => words(&format!("XGROUP CREATE {x} g 0 MKSTREAM")),
        5 => words(&format!("XREADGROUP GROUP g {} COUNT 3 STREAMS {x} >", number % 3)),
        6 => {
            let first = words(&format!("XACK {x} g"));
            first
                .into_iter()
                .chain((0..200).map(|i| format!("{}-1", number - i.min(number))))
                .collect()
        }
        _ => words(&format!("XAUTOCLAIM {x} g {} 0 0-0 COUNT 2", number % 3)),
    }
}

fn of_scripts(which: u64, key: &KeyOf<'_>, other: &KeyOf<'_>, element: String) -> Vec<String> {
    let script = |text: &str, keys: [String; 2]| {
        [vec!["EVAL".into(), text.into(), "2".into()], keys.to_vec(), vec![element.clone()]]
            .concat()
    };
    match which {
        0 => script(
            "redis.call('RPUSH', KEYS[1], ARGV[1]); redis.call('SADD', KEYS[2], ARGV[1])",
            [key("l"), key("m")],
        ),
        1 => script(
            "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[2]) end",
            [key("h"), other("h")],
        ),
        2 => script(
            "redis.call('HSET', KEYS[1], 'f', ARGV[1]); redis.call('HPEXPIRE', KEYS[1], 20, 'FIELDS', 1, 'f')",
            [key("eh"), key("s")],
        ),
        _ => script(
            "redis.call('SET', KEYS[1], ARGV[1]); redis.call('HSET', KEYS[2], 'f', ARGV[1], ARGV[1], 'f')",
            [key("s"), key("h")],
        ),
    }
}

/// Commands that create, change, move and remove large collections.
fn of_large(which: u64, client: usize, m: u64, number: u64) -> Vec<String> {
    let kind = ["l", "m", "z", "h", "x"][m as usize % 5];
    let key = |of: u64| format!("{client}:{kind}:{LARGE} {of}").replace(' ', "-");
    if which == 3 && m < 10 {
        return vec!["DEL".into(), key(0), key(1)];
    }
    if which == 3 {
        return vec!["RENAME".into(), key(m / 5 % 2), key(1 - m / 5 % 2)];
    }
    let add = match kind {
        "l" => "redis.call('RPUSH', KEYS[1], text)",
        "m" => "redis.call('SADD', KEYS[1], text)",
        "z" => "redis.call('ZADD', KEYS[1], i, text)",
        "h" => "redis.call('HSET', KEYS[1], text, i)",
        _ => "redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. i, 'f', text)",
    };
    let script = format!(
        "for i = 1, 200 do local text = 'element ' .. ARGV[1] % 7 .. ' ' .. i .. ' ' .. string.rep('y', 90) {add} end"
    );
    vec!["EVAL".into(), script, "1".into(), key(m / 5 % 2), (number + 1).to_string()]
}

/// Commands on whole databases, or on several.
fn of_databases(m: u64, key: String) -> Vec<String> {
    match m {
        0 | 1 => vec!["FLUSHALL".into()],
        2 => vec!["FLUSHALL".into(), "ASYNC".into()],
        3 => vec!["FLUSHDB".into()],
        4..8 => vec!["SWAPDB".into(), "0".into(), "1".into()],
        _ => vec!["MOVE".into(), key, "1".into()],
    }
}

fn bytes_of(commands: &[Vec<String>]) -> Vec<u8> {
    let encoded = commands.iter().map(|args| {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        encode(&args)
    });
    encoded.collect::<Vec<_>>().concat()
}

/// Progress of a client's transactions.
struct Known {
    sent: AtomicU64,
    acknowledged: AtomicU64,
}

impl Known {
    /// State after the transaction with this number.
    fn of(number: u64) -> Self {
        let number = || AtomicU64::new(number);
        Known { sent: number(), acknowledged: number() }
    }
}

/// Sends transactions until the server is gone.
fn drive(mut connection: Client, client: usize, first: u64, flushes: bool, known: Arc<Known>) {
    let (mut sent, mut acknowledged) = (first, first);
    loop {
        while sent < acknowledged + AHEAD {
            sent += 1;
            known.sent.store(sent, SeqCst);
            if !connection.send_bytes(&bytes_of(&transaction(client, sent, flushes))) {
                return;
            }
        }
        for _ in 0..4 {
            match connection.receive() {
                Some(Value::Error(error)) => panic!("{error:?}"),
                Some(_) => {}
                None => return,
            }
        }
        acknowledged += 1;
        known.acknowledged.store(acknowledged, SeqCst);
    }
}

fn has_loaded(server: &Server) -> bool {
    let mut client = server.connect();
    client.send(&["PING"]);
    client.receive().is_some_and(|answer| show(&answer) == "PONG")
}

/// Every key with its value, in a form that is equal for both servers.
fn contents(connection: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for db in ["1", "0"] {
        connection.call(&["SELECT", db]);
        let keys = connection.text(&["EVAL", "return redis.call('KEYS', '*')", "0"]);
        for key in keys.trim_matches(['[', ']']).split(' ').filter(|key| !key.is_empty()) {
            let (expiry, held) = (connection.text(&["PEXPIRETIME", key]), content(connection, key));
            // A hash with all its fields expired may still be present for a short time.
            if !held.is_empty() || !key.contains(":eh:") {
                all.push(format!("{db} {key} {expiry} {held}"));
            }
        }
    }
    all.sort();
    all
}

/// The server, once it has its data.
fn when_loaded(server: Server, round: u64) -> Server {
    let deadline = Instant::now() + LOAD_MAX;
    while !has_loaded(&server) {
        assert!(
            Instant::now() < deadline,
            "round {round}: it does not end to load\n{}",
            server.output()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    server
}

/// A key's value.
fn content(connection: &mut Client, key: &str) -> String {
    let mut parts = |command: &[&str]| match connection.call(command) {
        Value::Array(items) => items.iter().map(show).collect::<Vec<_>>(),
        other => vec![show(&other)],
    };
    let mut text = match key.split(':').nth(1).unwrap_or("") {
        "l" => parts(&["LRANGE", key, "0", "-1"]),
        "m" => {
            let mut members = parts(&["SMEMBERS", key]);
            members.sort();
            members
        }
        "z" => parts(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
        "h" | "eh" => {
            let fields = parts(&["HGETALL", key]);
            let names: Vec<&str> = fields.chunks(2).map(|pair| &*pair[0]).collect();
            let count = names.len().to_string();
            let asked = [&["HPEXPIRETIME", key, "FIELDS", &count], &names[..]].concat();
            let expiries = parts(&asked);
            let all = fields.chunks(2).zip(expiries);
            let mut all: Vec<_> =
                all.map(|(pair, expiry)| format!("{}={} {expiry}", pair[0], pair[1])).collect();
            all.sort();
            all
        }
        "x" => {
            let mut all = parts(&["XRANGE", key, "-", "+"]);
            all.extend(parts(&["XINFO", "GROUPS", key]));
            all.extend(pending(connection.call(&["XPENDING", key, "g", "-", "+", "100000"])));
            all
        }
        _ => parts(&["GET", key]),
    };
    text.retain(|part| !part.is_empty());
    text.join(" ")
}

/// Pending entries without how long they have been so.
fn pending(answer: Value) -> Vec<String> {
    let Value::Array(entries) = answer else { return vec![show(&answer)] };
    let entries = entries.into_iter().map(|entry| match entry {
        Value::Array(of) if of.len() == 4 => {
            format!("{} {} {}", show(&of[0]), show(&of[1]), show(&of[3]))
        }
        other => show(&other),
    });
    entries.collect()
}

/// Parameters of all rounds of a test.
struct Plan {
    policy: &'static str,
    clients: usize,
    /// Whether the one client there is then flushes everything now and then.
    flushes: bool,
    rounds: u64,
}

/// Statistics of the rounds, printed at the end.
#[derive(Debug, Default)]
struct Tally {
    kept: u64,
    acknowledged: u64,
    /// Rounds that ended during a rewrite of the log, and during `BGSAVE`.
    amid_rewrite: u64,
    amid_save: u64,
}

impl Tally {
    /// Counts a round by the unfinished files that it has left behind, and deletes them.
    fn note_files(&mut self, scratch: &Scratch) {
        let count = |directory: &str| {
            let files = std::fs::read_dir(scratch.path(directory)).into_iter().flatten();
            let paths = files.map(|file| file.unwrap().path());
            let parts = paths.filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("temp-") && name.ends_with(".rdb")
            });
            parts.map(|path| std::fs::remove_file(path).unwrap()).count() as u64
        };
        self.amid_rewrite += count("appendonlydir").min(1);
        self.amid_save += count(".").min(1);
    }
}

/// Kills a server with this `appendfsync` again and again, and checks its data afterwards.
fn kill_in_turn(plan: &Plan) {
    let other = Server::start("epoll", &[]);
    let mut oracle = other.connect();
    let mut kept = vec![0u64; plan.clients];
    let mut scratch = Scratch::new();
    let mut tally = Tally::default();
    // So slow that some rounds end during a save.
    let args = "--appendonly yes --auto-aof-rewrite-min-size 200kb --rdb-key-save-delay 500";
    let args: Vec<&str> = args.split(' ').chain(["--appendfsync", plan.policy]).collect();
    // The moments differ from run to run.
    let start = Instant::now();
    let mut begun: Vec<Arc<Known>> = Vec::new();
    for round in 0..=plan.rounds {
        let server = Server::start_in(scratch, "epoll", &args);
        let server = when_loaded(server, round);
        let mut connection = server.connect();
        for (client, known) in begun.iter().enumerate() {
            let number = count_kept(round, &server, client, kept[client], known);
            tally.kept += number - kept[client];
            tally.acknowledged += known.acknowledged.load(SeqCst) - kept[client];
            for number in kept[client] + 1..=number {
                assert!(oracle.send_bytes(&bytes_of(&transaction(client, number, plan.flushes))));
                (0..4).for_each(|_| drop(oracle.receive()));
            }
            kept[client] = number;
        }
        // What lives for a moment is gone, one way or another.
        std::thread::sleep(Duration::from_millis(25));
        compare(contents(&mut connection), contents(&mut oracle), round, &server);
        if round == plan.rounds {
            println!("{}: {round} rounds, {tally:?}", plan.policy);
            return;
        }
        begun = kept.iter().map(|&number| Arc::new(Known::of(number))).collect();
        scratch =
            run_and_kill(server, plan, drawn(round ^ start.elapsed().as_nanos() as u64), &begun);
        tally.note_files(&scratch);
    }
}

/// The number of the last transaction of a client that is there, which has to be neither too low
/// nor too high.
fn count_kept(round: u64, server: &Server, client: usize, kept: u64, known: &Known) -> u64 {
    let number = server.connect().text(&["GET", &format!("{client}:n")]);
    let number: u64 = number.parse().unwrap_or(kept);
    let (sent, acknowledged) = (known.sent.load(SeqCst), known.acknowledged.load(SeqCst));
    assert!(
        acknowledged.max(kept) <= number && number <= sent,
        "round {round}, client {client}: {number} of {acknowledged} acknowledged, {sent} sent\n{}",
        server.output()
    );
    number
}

fn compare(there: Vec<String>, expected: Vec<String>, round: u64, server: &Server) {
    if there != expected {
        let only = |these: &[String], those: &[String]| {
            let only: Vec<String> =
                these.iter().filter(|line| !those.contains(line)).cloned().collect();
            only.join("\n")
        };
        let (more, less) = (only(&there, &expected), only(&expected, &there));
        panic!("round {round}: there is\n{more}\nbut should be\n{less}\n{}", server.output());
    }
}

/// Lets clients send transactions until the server is killed; returns its directory.
fn run_and_kill(mut server: Server, plan: &Plan, draw: u64, begun: &[Arc<Known>]) -> Scratch {
    let mut connection = server.connect();
    std::thread::scope(|scope| {
        for (client, known) in begun.iter().enumerate() {
            let (connection, known) = (server.connect(), known.clone());
            let first = known.acknowledged.load(SeqCst);
            scope.spawn(move || drive(connection, client, first, plan.flushes, known));
        }
        if !draw.is_multiple_of(3) {
            std::thread::sleep(Duration::from_millis(draw / 8 % 100));
            connection.call(&[if draw.is_multiple_of(2) { "BGREWRITEAOF" } else { "BGSAVE" }]);
        }
        // In a longer round the log is synced, whatever the policy.
        let is_long = plan.policy != "always" && draw.is_multiple_of(4);
        std::thread::sleep(Duration::from_millis(if is_long { 1500 } else { 0 }));
        std::thread::sleep(Duration::from_millis(20 + draw / 1024 % 400));
        server.signal(libc::SIGKILL);
    });
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    server.into_scratch()
}

#[test]
fn with_always_what_was_acknowledged_is_kept() {
    kill_in_turn(&Plan { policy: "always", clients: 3, flushes: false, rounds: rounds(4) });
}

#[test]
fn with_everysec_what_was_acknowledged_is_kept_if_only_the_process_dies() {
    kill_in_turn(&Plan { policy: "everysec", clients: 3, flushes: false, rounds: rounds(3) });
}

#[test]
fn with_no_syncs_what_was_acknowledged_is_kept_if_only_the_process_dies() {
    kill_in_turn(&Plan { policy: "no", clients: 3, flushes: false, rounds: rounds(3) });
}

#[test]
fn flushes_are_kept_in_their_place() {
    for policy in ["always", "everysec", "no"] {
        kill_in_turn(&Plan { policy, clients: 1, flushes: true, rounds: rounds(3) });
    }
}

/// Connections that increment a counter each, this many commands at a time, until the server is
/// gone; the last answer to each.
fn increment_until_killed(mut server: Server, pipelines: &[usize]) -> (Scratch, Vec<u64>) {
    let last = std::thread::scope(|scope| {
        let clients: Vec<_> = pipelines
            .iter()
            .enumerate()
            .map(|(i, &pipeline)| {
                let mut client = server.connect();
                let commands = encode(&[b"INCR", format!("c{i}").as_bytes()]).repeat(pipeline);
                scope.spawn(move || {
                    let mut last = 0;
                    while client.send_bytes(&commands) {
                        for _ in 0..pipeline {
                            match client.receive() {
                                Some(Value::Integer(n)) => last = n as u64,
                                Some(other) => panic!("{other:?}"),
                                None => return last,
                            }
                        }
                    }
                    last
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(130));
        server.signal(libc::SIGKILL);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    (server.into_scratch(), last)
}

/// Every increment that was acknowledged is there after a start.
fn are_counted(server: &Server, last: &[u64], round: u64) {
    let mut client = server.connect();
    for (i, &last) in last.iter().enumerate() {
        let there: u64 = client.text(&["GET", &format!("c{i}")]).parse().unwrap_or(0);
        assert!(there >= last, "round {round}, c{i}: {there} of {last}\n{}", server.output());
    }
}

#[test]
fn every_increment_that_was_acknowledged_is_there_after_a_kill() {
    for (backend, policy) in [("epoll", "everysec"), ("io_uring", "everysec"), ("epoll", "no")] {
        let mut scratch = Scratch::new();
        let args = ["--appendonly", "yes", "--appendfsync", policy, "--threads", "3"];
        for round in 0..rounds(3) {
            let server = when_loaded(Server::start_unready(scratch, backend, &args), round);
            let (left, last) = increment_until_killed(server, &[1, 1, 1, 16, 16, 500]);
            assert!(last.iter().all(|&last| last > 0));
            let server = when_loaded(Server::start_unready(left, backend, &args), round);
            are_counted(&server, &last, round);
            // The recovered records are in the log itself by now.
            let (left, again) = increment_until_killed(server, &[1, 16]);
            let server = when_loaded(Server::start_unready(left, backend, &args), round);
            are_counted(&server, &[&again, &last[2..]].concat(), round);
            let mut server = server;
            server.signal(libc::SIGTERM);
            assert_eq!(server.exit_code(), Some(0));
            scratch = server.into_scratch();
            // Nothing is pending after a stop.
            assert!(!scratch.path("appendonlydir/appendonly.aof.pending").exists());
        }
    }
}
