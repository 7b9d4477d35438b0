//! Random calls of string and key commands here and in a Redis server found on the PATH: the
//! replies are equal. `PETREL_TEST_SECONDS` sets the duration, `PETREL_TEST_SEED` repeats a run.

use crate::client::{Client, show, show_args};
use crate::random::{Random, duration};
use petrel_resp::{DecodeLimits, Decoder, Value, encode_command};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A version, such as `[8, 2, 3]`.
pub type Version = [u32; 3];

/// Parses a version such as `8.2.3`; missing numbers are 0.
pub fn parse_version(text: &str) -> Version {
    let mut numbers = text.split('.').map(|number| number.parse().expect("a version"));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

/// A Redis server of our own, stopped when dropped.
pub struct Redis {
    server: Child,
    directory: PathBuf,
    connection: Connection,
}

/// A connection to a Redis server.
pub struct Connection {
    socket: UnixStream,
    received: Vec<u8>,
}

impl Redis {
    /// Starts a program with additional `parameters`; `None` if it does not exist.
    pub fn start_program(program: &Path, parameters: &[&str]) -> Option<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Relaxed);
        let name = format!("petrel-redis-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).ok()?;
        let path = directory.join("socket");
        let server = Command::new(program)
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&path)
            .arg("--dir")
            .arg(&directory)
            .args(parameters)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let begin = Instant::now();
        let connection = loop {
            match Connection::new(&path) {
                Ok(connection) => break connection,
                Err(_) if begin.elapsed() < Duration::from_secs(10) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("{} does not answer: {error}", program.display()),
            }
        };
        Some(Redis { server, directory, connection })
    }

    /// Starts a `redis-server` of version `since` or later, with more parameters. If there is none,
    /// prints the reason and returns `None`.
    pub fn start_since(since: Version, parameters: &[&str]) -> Option<Self> {
        let Some(mut redis) = Self::start_program(Path::new("redis-server"), &[]) else {
            eprintln!("skipped: no redis-server on the PATH");
            return None;
        };
        let server = redis.info();
        if server.contains("server_name:valkey") || server.contains("petrel_version:") {
            eprintln!("skipped: the redis-server on the PATH is another server's");
            return None;
        }
        let found = redis.version();
        if found < since {
            eprintln!("skipped: redis-server is {found:?}, its answers are known since {since:?}");
            return None;
        }
        match parameters {
            [] => Some(redis),
            _ => Self::start_program(Path::new("redis-server"), parameters),
        }
    }

    fn info(&mut self) -> String {
        let info = self.call(&[b"INFO", b"server"]);
        String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned()
    }

    /// Version that the server reports.
    pub fn version(&mut self) -> Version {
        let info = self.info();
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        parse_version(version.expect("a version"))
    }

    /// Another connection.
    /// A client of a new server and one of this server, both with only the string `text`.
    pub fn beside(&self, resp3: bool) -> (Client, Connection) {
        let (mut ours, mut theirs) = (Client::new(), self.connect());
        theirs.call(&[b"FLUSHALL"]);
        theirs.call(&[b"HELLO", if resp3 { b"3" } else { b"2" }]);
        if resp3 {
            ours = ours.resp3();
        }
        ours.run("SET text x");
        theirs.call(&[b"SET", b"text", b"x"]);
        (ours, theirs)
    }

    pub fn connect(&self) -> Connection {
        Connection::new(&self.directory.join("socket")).unwrap()
    }

    pub fn call(&mut self, args: &[&[u8]]) -> Value {
        self.connection.call(args)
    }
}

impl Connection {
    fn new(path: &Path) -> std::io::Result<Self> {
        Ok(Connection { socket: UnixStream::connect(path)?, received: Vec::new() })
    }

    pub fn call(&mut self, args: &[&[u8]]) -> Value {
        self.send(args);
        self.receive()
    }

    pub fn send(&mut self, args: &[&[u8]]) {
        let mut request = Vec::new();
        encode_command(args, &mut request);
        self.socket.write_all(&request).unwrap();
    }

    pub fn receive(&mut self) -> Value {
        let mut decoder = Decoder::new(DecodeLimits::default());
        loop {
            let (consumed, value) = decoder.decode(&self.received).unwrap();
            self.received.drain(..consumed);
            if let Some(value) = value {
                return value;
            }
            let mut chunk = [0; 65536];
            let len = self.socket.read(&mut chunk).unwrap();
            assert!(len > 0, "the server closed the connection");
            self.received.extend_from_slice(&chunk[..len]);
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

const KEYS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"long key with spaces", b"\0\xff"];
const VALUES: [&[u8]; 12] = [
    b"",
    b"0",
    b"1",
    b"-17",
    b"9223372036854775807",
    b"3.25",
    b"hello",
    b"hello world",
    b"1e10",
    b"\0\x01\xff",
    b"a somewhat longer value that no longer fits an embedded string",
    b"007",
];
const NUMBERS: [&[u8]; 14] = [
    b"0",
    b"1",
    b"-1",
    b"2",
    b"5",
    b"-5",
    b"12",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"x",
    b"",
    b"1.5",
    b"+1",
];
const FLOATS: [&[u8]; 10] =
    [b"0.1", b"-3", b"1e300", b"1e-20", b"0x10", b"inf", b"nan", b"5.", b"1e17", b"x"];
/// Times far enough in the future or past that clock differences do not matter.
const SECONDS: [&[u8]; 8] =
    [b"1000", b"5000", b"100000", b"-1", b"0", b"9223372036854775807", b"x", b"9999999999"];
const MILLIS: [&[u8]; 7] =
    [b"1000000", b"5000000", b"9999999999", b"-1", b"0", b"9223372036854775807", b"x"];
/// Without past times for `SET`: Redis counts setting an absent key in the past as a change of a
/// watched key.
const UNIX_TIMES: [&[u8]; 5] = [b"9999999999999", b"-1", b"0", b"9223372036854775807", b"x"];
const PATTERNS: [&[u8]; 9] =
    [b"*", b"?", b"[a-c]", b"[^a]*", b"l*s", b"\\a", b"*[", b"[b-a", b"*\\"];
const DATABASES: [&[u8]; 6] = [b"0", b"1", b"2", b"15", b"16", b"x"];

/// Without DBSIZE: Redis counts keys that were set with an expiry in the past until it finds them.
/// GT and LT are used with absolute times only, since the two servers read their clocks at
/// different times.
///
/// A call: its name, then one letter per argument. Lower-case words in brackets are alternatives.
const CALLS: &[&str] = &[
    "GET K",
    "SET K V",
    "SET K V [NX|XX]",
    "SET K V [NX|XX] GET",
    "SET K V EX S",
    "SET K V PX M",
    "SET K V [EXAT|PXAT] U GET",
    "SET K V KEEPTTL [GET|NX|EX]",
    "SETNX K V",
    "SETEX K S V",
    "PSETEX K M V",
    "GETSET K V",
    "GETDEL K",
    "GETEX K",
    "GETEX K PERSIST",
    "GETEX K [EX|EXAT|PXAT] S",
    "GETEX K PX M",
    "MGET K K K",
    "MSET K V K V",
    "MSETNX K V K V",
    "MSET K V K",
    "APPEND K V",
    "STRLEN K",
    "GETRANGE K R R",
    "SUBSTR K R R",
    "SETRANGE K R V",
    "LCS K K",
    "LCS K K [LEN|IDX]",
    "LCS K K IDX [MINMATCHLEN|WITHMATCHLEN] N",
    "LCS K K IDX WITHMATCHLEN",
    "LCS K K MINMATCHLEN N IDX",
    "INCR K",
    "DECR K",
    "INCRBY K N",
    "DECRBY K N",
    "INCRBYFLOAT K F",
    "INCRBYFLOAT K N",
    "DEL K",
    "DEL K K",
    "UNLINK K K",
    "EXISTS K K",
    "TOUCH K K",
    "TYPE K",
    "TTL K",
    "PTTL K",
    "EXPIRETIME K",
    "EXPIRE K S",
    "PEXPIRE K M",
    "EXPIREAT K S",
    "PEXPIREAT K S",
    "EXPIRE K S [NX|XX]",
    "EXPIREAT K S [NX|XX|GT|LT]",
    "EXPIREAT K S [NX|XX|GT|LT] [NX|XX|GT|LT]",
    "PERSIST K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K",
    "COPY K K REPLACE",
    "COPY K K DB D",
    "COPY K K REPLACE DB D",
    "MOVE K D",
    "SWAPDB D D",
    "KEYS P",
    "SCAN 0 COUNT 100000 MATCH P",
    "SCAN 0 COUNT 100000 TYPE [string|hash]",
    "OBJECT ENCODING K",
    "OBJECT FREQ K",
    "FLUSHDB",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH K",
    "UNWATCH",
    "RANDOMKEY K",
    "GET",
    "NOSUCH N N",
];

fn arguments(random: &mut Random) -> Vec<&'static [u8]> {
    let call: &'static str = CALLS[random.below(CALLS.len())];
    call.split(' ')
        .map(|word| match word {
            "K" => random.pick(&KEYS),
            "V" => random.pick(&VALUES),
            "N" => random.pick(&NUMBERS),
            "R" => random.pick(&NUMBERS[..6]),
            "F" => random.pick(&FLOATS),
            "S" => random.pick(&SECONDS),
            "M" => random.pick(&MILLIS),
            "U" => random.pick(&UNIX_TIMES),
            "P" => random.pick(&PATTERNS),
            "D" => random.pick(&DATABASES),
            word => match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
                Some(words) => {
                    let words: Vec<&str> = words.split('|').collect();
                    random.pick(&words).as_bytes()
                }
                None => word.as_bytes(),
            },
        })
        .collect()
}

/// Reply in a form equal on both servers: sorted keys, and remaining times without their last
/// digits, since the two clocks are not read at the same time.
fn comparable(args: &[&[u8]], mut reply: Value) -> String {
    match args[0] {
        b"KEYS" | b"SCAN" => sort(&mut reply),
        b"TTL" | b"PTTL" => blur(&mut reply),
        b"EXEC" => {
            sort(&mut reply);
            blur(&mut reply);
        }
        _ => {}
    }
    show(&reply)
}

/// Rounds values that are up to two seconds below an expiry that was set.
fn blur(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(blur),
        Value::Integer(n) if *n >= 900 => *n = n.saturating_add(2000) / 5000,
        _ => {}
    }
}

fn sort(value: &mut Value) {
    if let Value::Array(items) = value {
        items.iter_mut().for_each(sort);
        if items.iter().all(|item| matches!(item, Value::Bulk(_))) {
            items.sort_by_key(show);
        }
    }
}

/// Older versions lack options that are compared (`EXPIRE` with `NX`, `SET` with `NX` and `GET`).
pub const COMPARED_SINCE: Version = [7, 0, 0];

/// Differences between versions of Redis, which are not compared.
struct Unlike {
    /// `GETRANGE` to an end before the string: empty in some versions of 8.0, the first byte
    /// before and after them.
    ends_before: bool,
    /// Whether a string is embedded has depended on the key and its expiry since 8.2.
    embeds_by_key: bool,
}

impl Unlike {
    fn of(redis: &mut Redis) -> Self {
        redis.call(&[b"SET", b"a", b"hello"]);
        let first = redis.call(&[b"GETRANGE", b"a", b"0", b"-9"]);
        redis.call(&[b"DEL", b"a"]);
        Unlike {
            ends_before: first.as_bytes() != Some(b"h"),
            embeds_by_key: redis.version() >= [8, 2, 0],
        }
    }

    fn concerns(&self, args: &[&[u8]]) -> bool {
        match args {
            [b"GETRANGE" | b"SUBSTR", ..] => self.ends_before && args[3].starts_with(b"-"),
            [b"OBJECT", b"ENCODING", ..] => self.embeds_by_key,
            _ => false,
        }
    }
}

#[test]
fn replies_are_those_of_redis() {
    let Some(mut redis) = Redis::start_since(COMPARED_SINCE, &[]) else { return };
    let unlike = Unlike::of(&mut redis);
    let mut random = Random::seeded();
    let mut petrel = Client::new();
    let (begin, mut last) = (Instant::now(), Vec::new());
    while begin.elapsed() < duration() {
        let args = arguments(&mut random);
        if unlike.concerns(&args) {
            continue;
        }
        petrel.exec.ks.refresh_clock();
        let ours = comparable(&args, petrel.call(&args));
        let theirs = comparable(&args, redis.call(&args));
        last.push(show_args(&args));
        let before = &last[last.len().saturating_sub(60)..];
        assert_eq!(ours, theirs, "left: Petrel, right: Redis, after\n{}", before.join("\n"));
    }
    eprintln!("{} calls", last.len());
}
