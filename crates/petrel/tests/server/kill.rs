//! SIGKILL at any moment: what was acknowledged is there, and nothing is half there.
//!
//! Each of some clients has keys of its own, and changes them by transactions, each of which also says its number. So after a start the
//! numbers say which transactions were kept; the same ones are made on another server, which has no log, and both
//! must then hold the same. `PETREL_KILL_ROUNDS` asks for more rounds than the usual few.

use crate::harness::*;
use petrel_resp::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const CLIENTS: usize = 3;
/// Transactions that a client sends ahead.
const AHEAD: u64 = 8;
/// What `everysec` may lose.
const LOST_MAX: Duration = Duration::from_millis(1500);

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

/// The commands of transaction `number` of a client: always the same ones.
fn transaction(client: usize, number: u64, flushes: bool) -> Vec<Vec<String>> {
    let draw = drawn((client as u64) << 48 | number);
    let (which, n, m) = (draw % 26, draw / 64 % 6, draw / 1024 % 40);
    let key = |kind: &str| format!("{client}:{kind}:{n}");
    let other = |kind: &str| format!("{client}:{kind}:{}", (n + 1) % 6);
    let element = format!("element {m} {}", "x".repeat((draw / 65536 % 90) as usize));
    let far = "4102444800000";
    let one = match which {
        0 => vec!["SET".into(), key("s"), element],
        1 => vec!["SET".into(), key("s"), element, "PXAT".into(), far.into()],
        2 => vec!["INCRBY".into(), key("i"), m.to_string()],
        3 => vec!["APPEND".into(), key("s"), element],
        4 => vec!["SETRANGE".into(), key("s"), m.to_string(), element],
        5 => vec!["DEL".into(), key("s"), key("i"), key("l")],
        6 => vec!["RPUSH".into(), key("l"), element, m.to_string(), "c".into()],
        7 => vec!["LPOP".into(), key("l"), "2".into()],
        8 => vec!["LINSERT".into(), key("l"), "BEFORE".into(), "c".into(), element],
        9 => vec!["LTRIM".into(), key("l"), "0".into(), "30".into()],
        10 => vec!["SADD".into(), key("m"), element, m.to_string()],
        11 => vec!["SREM".into(), key("m"), m.to_string()],
        12 => vec!["ZADD".into(), key("z"), m.to_string(), element, "1.5".into(), m.to_string()],
        13 => vec!["ZREMRANGEBYRANK".into(), key("z"), "0".into(), "1".into()],
        14 => vec!["HSET".into(), key("h"), m.to_string(), element, "f".into(), "v".into()],
        15 => {
            let fields = ["FIELDS".into(), "1".into(), m.to_string()];
            [vec!["HPEXPIREAT".into(), key("h"), far.into()], fields.to_vec()].concat()
        }
        16 => vec!["HDEL".into(), key("h"), m.to_string()],
        17 => vec!["XADD".into(), key("x"), format!("{}-1", number + 1), "f".into(), element],
        18 => vec!["XTRIM".into(), key("x"), "MAXLEN".into(), "20".into()],
        19 => vec!["COPY".into(), key("l"), other("l"), "REPLACE".into()],
        20 => vec!["SUNIONSTORE".into(), key("m"), key("m"), other("m")],
        21 => vec!["PEXPIREAT".into(), key("z"), far.into()],
        22 => vec!["PERSIST".into(), key("z")],
        23 => {
            let script =
                "redis.call('RPUSH', KEYS[1], ARGV[1]); redis.call('SADD', KEYS[2], ARGV[1])";
            vec!["EVAL".into(), script.into(), "2".into(), key("l"), key("m"), element]
        }
        24 => {
            let script = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[2]) end";
            vec!["EVAL".into(), script.into(), "2".into(), key("h"), other("h")]
        }
        _ if flushes && m == 0 => vec!["FLUSHALL".into()],
        _ => vec!["SET".into(), key("e"), element, "PX".into(), "20".into()],
    };
    let count = vec!["SET".into(), format!("{client}:n"), number.to_string()];
    vec![vec!["MULTI".into()], one, count, vec!["EXEC".into()]]
}

fn bytes_of(commands: &[Vec<String>]) -> Vec<u8> {
    let encoded = commands.iter().map(|args| {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        encode(&args)
    });
    encoded.collect::<Vec<_>>().concat()
}

/// What a client knows of its transactions.
#[derive(Default)]
struct Known {
    sent: AtomicU64,
    acknowledged: AtomicU64,
    /// What was acknowledged `LOST_MAX` ago, and before.
    certain: AtomicU64,
}

/// Sends transactions until the server is gone.
fn drive(server: &Server, client: usize, first: u64, flushes: bool, known: Arc<Known>) {
    let mut connection = server.connect();
    let (mut sent, mut acknowledged) = (first, first);
    let mut times = std::collections::VecDeque::new();
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
        times.push_back((Instant::now(), acknowledged));
        while let Some(&(at, number)) = times.front()
            && at.elapsed() > LOST_MAX
        {
            known.certain.store(number, SeqCst);
            times.pop_front();
        }
    }
}

fn has_loaded(server: &Server) -> bool {
    let mut client = server.connect();
    client.send(&["PING"]);
    client.receive().is_some_and(|answer| show(&answer) == "PONG")
}

/// Every key with what it holds, as both servers show it.
fn contents(connection: &mut Client) -> Vec<String> {
    let keys = connection.text(&["EVAL", "return redis.call('KEYS', '*')", "0"]);
    let mut all = Vec::new();
    for key in keys.trim_matches(['[', ']']).split(' ').filter(|key| !key.is_empty()) {
        let kind = key.split(':').nth(1).unwrap_or("");
        let mut parts = |command: &[&str]| match connection.call(command) {
            Value::Array(items) => items.iter().map(show).collect::<Vec<_>>(),
            other => vec![show(&other)],
        };
        let mut text = match kind {
            "l" => parts(&["LRANGE", key, "0", "-1"]),
            "m" => parts(&["SMEMBERS", key]),
            "z" => parts(&["ZRANGE", key, "0", "-1", "WITHSCORES"]),
            "h" => parts(&["HGETALL", key]).chunks(2).map(|pair| pair.join("=")).collect(),
            "x" => parts(&["XRANGE", key, "-", "+"]),
            "e" => continue,
            _ => parts(&["GET", key]),
        };
        if matches!(kind, "m" | "h") {
            text.sort();
        }
        if kind == "h" {
            let mut fields: Vec<String> =
                text.iter().map(|pair| pair.split('=').next().unwrap().into()).collect();
            fields.dedup();
            for field in fields {
                text.push(connection.text(&["HPEXPIRETIME", key, "FIELDS", "1", &field]));
            }
        }
        let expiry = connection.text(&["PEXPIRETIME", key]);
        all.push(format!("{key} {expiry} {}", text.join(" ")));
    }
    all.sort();
    all
}

/// Kills a server with this `appendfsync` again and again, and looks what is there afterwards.
fn kill_in_turn(policy: &str, rounds: u64) {
    let other = Server::start("epoll", &[]);
    let mut oracle = other.connect();
    let mut kept = [0u64; CLIENTS];
    let mut scratch = Scratch::new();
    let args =
        ["--appendonly", "yes", "--appendfsync", policy, "--auto-aof-rewrite-min-size", "200kb"];
    // The moments differ from run to run.
    let start = Instant::now();
    let mut begun: Vec<Arc<Known>> = Vec::new();
    for round in 0..=rounds {
        let server = Server::start_in(scratch, "epoll", &args);
        eventually("the data", || has_loaded(&server));
        let mut connection = server.connect();
        for (client, known) in begun.iter().enumerate() {
            let number = show(&connection.call(&["GET", &format!("{client}:n")]));
            let number: u64 = number.parse().unwrap_or(kept[client]);
            let (sent, acknowledged) = (known.sent.load(SeqCst), known.acknowledged.load(SeqCst));
            let least = if policy == "always" { acknowledged } else { known.certain.load(SeqCst) };
            let what = format!(
                "round {round}, client {client}: {number} of {acknowledged} acknowledged, {sent} sent"
            );
            assert!(
                least.max(kept[client]) <= number && number <= sent,
                "{what}\n{}",
                server.output()
            );
            for number in kept[client] + 1..=number {
                assert!(oracle.send_bytes(&bytes_of(&transaction(client, number, false))));
                (0..4).for_each(|_| drop(oracle.receive()));
            }
            kept[client] = number;
        }
        // What lives for a moment is gone, one way or another.
        std::thread::sleep(Duration::from_millis(25));
        assert_eq!(
            contents(&mut connection),
            contents(&mut oracle),
            "round {round}\n{}",
            server.output()
        );
        if round == rounds {
            return;
        }
        begun = kept
            .iter()
            .map(|&number| {
                let known = Known::default();
                known.sent.store(number, SeqCst);
                known.acknowledged.store(number, SeqCst);
                Arc::new(known)
            })
            .collect();
        let delay = drawn(round ^ start.elapsed().as_nanos() as u64);
        std::thread::scope(|scope| {
            for (client, known) in begun.iter().enumerate() {
                let (server, known) = (&server, known.clone());
                let first = kept[client];
                scope.spawn(move || drive(server, client, first, false, known));
            }
            if delay.is_multiple_of(3) {
                std::thread::sleep(Duration::from_millis(delay / 8 % 30));
                connection.call(&[if delay.is_multiple_of(2) { "BGREWRITEAOF" } else { "BGSAVE" }]);
            }
            std::thread::sleep(Duration::from_millis(20 + delay / 1024 % 400));
            server.signal(libc::SIGKILL);
        });
        let mut server = server;
        server.exit_code();
        let _ = std::fs::remove_file(server.socket());
        scratch = server.into_scratch();
    }
}

#[test]
fn with_always_what_was_acknowledged_is_kept() {
    kill_in_turn("always", rounds(4));
}

#[test]
fn with_everysec_the_last_moment_may_be_lost() {
    kill_in_turn("everysec", rounds(3));
}

/// One client, whose transactions flush everything now and then.
#[test]
fn flushes_are_kept_in_their_place() {
    let mut scratch = Scratch::new();
    let mut first = 0;
    for round in 0..rounds(3) {
        let args = ["--appendonly", "yes", "--appendfsync", "always"];
        let mut server = Server::start_in(scratch, "epoll", &args);
        eventually("the data", || has_loaded(&server));
        let known = Arc::new(Known::default());
        std::thread::scope(|scope| {
            let (server, known) = (&server, known.clone());
            scope.spawn(move || drive(server, 0, first, true, known));
            std::thread::sleep(Duration::from_millis(50 + drawn(round) % 200));
            server.signal(libc::SIGKILL);
        });
        server.exit_code();
        let server = Server::start_in(server.into_scratch(), "epoll", &args);
        eventually("the data", || has_loaded(&server));
        let mut connection = server.connect();
        let number: u64 = connection.text(&["GET", "0:n"]).parse().unwrap_or(0);
        assert!(known.acknowledged.load(SeqCst) <= number && number <= known.sent.load(SeqCst));
        let other = Server::start("epoll", &[]);
        let mut oracle = other.connect();
        // Everything before the last flush is of no consequence, and the numbers say the rest.
        for number in 1..=number {
            assert!(oracle.send_bytes(&bytes_of(&transaction(0, number, true))));
            (0..4).for_each(|_| drop(oracle.receive()));
        }
        std::thread::sleep(Duration::from_millis(25));
        assert_eq!(contents(&mut connection), contents(&mut oracle), "round {round}");
        drop(connection);
        first = number;
        let mut server = server;
        server.signal(libc::SIGTERM);
        server.exit_code();
        scratch = server.into_scratch();
    }
}
