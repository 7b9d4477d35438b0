//! Values of a value type under a memory limit, on replicas, and while their type is not known.

use crate::bench::{Client, bulk, connect, error, ok};
use crate::tally::{ADD, LATER, LATER_MODULE, Tally};
use crate::value_type::{Alone, Dir, one_that_saves, text};
use petrel_keyspace::custom::number::{put_bytes, put_signed};
use petrel_keyspace::custom::{CustomChange, TypeNumber, add_type};
use petrel_keyspace::{Effect, Origin};
use petrel_resp::Value;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A figure of `INFO`.
pub fn figure(client: &mut Client, section: &str, name: &str) -> i64 {
    let info = text(client.call(&format!("INFO {section}")));
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).trim().parse().unwrap()
}

pub fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn values_are_evicted_down_to_the_limit() {
    let _guard = one_that_saves();
    const KEYS: i64 = 500;
    const NAMES: i64 = 40;
    let dir = Dir::new();
    let server = Alone::start(&dir.0, false);
    let mut client = server.client();
    let used = |client: &mut Client| figure(client, "memory", "used_memory");
    let empty = used(&mut client);
    for key in 0..KEYS {
        let adds: Vec<_> = (0..NAMES).map(|n| format!("TALLY.ADD key:{key} name:{n} 1")).collect();
        client.pipeline(&adds);
    }
    let full = used(&mut client);
    // What `memory_usage` says of a value counts.
    assert!(full - empty > 100 * KEYS * NAMES, "{empty} {full}");
    let limit = empty + (full - empty) / 4;
    assert_eq!(client.call("CONFIG SET maxmemory-policy allkeys-lru"), ok());
    assert_eq!(client.call(&format!("CONFIG SET maxmemory {limit}")), ok());
    // A command that needs memory makes room for it.
    await_that("memory is above the limit", || {
        client.call("TALLY.ADD key:0 name:0 1");
        used(&mut client) <= limit
    });
    let Value::Integer(left) = client.call("DBSIZE") else { panic!() };
    assert!(left < KEYS / 3 && left > KEYS / 6, "{left} keys of a quarter of the memory");
    let evicted = figure(&mut client, "stats", "evicted_keys");
    assert!(evicted >= KEYS - left, "{evicted} {left}");
    // It stays there while others are added.
    for key in KEYS..2 * KEYS {
        let adds: Vec<_> = (0..NAMES).map(|n| format!("TALLY.ADD key:{key} name:{n} 1")).collect();
        client.pipeline(&adds);
        // A value may grow by what one command adds.
        assert!(used(&mut client) < limit + 64 * 1024);
    }
    assert_eq!(client.call("CONFIG SET maxmemory 0"), ok());
    assert_eq!(client.call("FLUSHALL"), ok());
    // All that was counted was given back.
    await_that("memory was not given back", || used(&mut client) - empty < (full - empty) / 50);
}

/// A Redis that knows no tallies.
pub struct Redis {
    child: Child,
    log: PathBuf,
}

impl Redis {
    /// Redis 7.2 or later of `PETREL_TEST_PEERS`, or that of the PATH; none if there is
    /// none.
    pub fn start(dir: &Dir) -> Option<Self> {
        let stated = std::env::var_os("PETREL_TEST_PEERS").unwrap_or_default();
        let mut programs: Vec<_> = std::env::split_paths(&stated).collect();
        programs.push("redis-server".into());
        let version = |program: &PathBuf| {
            let output = Command::new(program).arg("--version").output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let is_redis = |text: String| text.contains("Redis server v=");
        let program = programs.into_iter().find(|path| version(path).is_some_and(is_redis));
        let Some(program) = program else {
            println!("skipped: no redis-server is installed");
            return None;
        };
        let log = dir.0.join("redis.log");
        let file = std::fs::File::create(&log).unwrap();
        let child = Command::new(program)
            .args(["--port", "0", "--save", "", "--dir"])
            .arg(&dir.0)
            .args(["--unixsocket", "redis.sock", "--loglevel", "debug"])
            .stdin(Stdio::null())
            .stdout(file)
            .spawn()
            .unwrap();
        let redis = Redis { child, log };
        await_that("redis-server does not start", || {
            UnixStream::connect(dir.0.join("redis.sock")).is_ok()
        });
        Some(redis)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a replica has what the last write before was.
pub fn await_mark(primary: &mut Client, replica: &mut Client, mark: u32) {
    assert_eq!(primary.call(&format!("SET mark {mark}")), ok());
    await_that("the replica does not follow", || {
        replica.call("GET mark") == bulk(&mark.to_string())
    });
}

#[test]
fn replicas_of_redis_go_without_values_and_those_of_petrel_have_them() {
    let _guard = one_that_saves();
    let (dir, own) = (Dir::new(), Dir::new());
    let Some(redis) = Redis::start(&dir) else { return };
    let port = free_port();
    let primary = Alone::start_at(&dir.0, false, port);
    let replica = Alone::start(&own.0, false);
    let (mut client, mut follower) = (primary.client(), replica.client());
    let mut other = connect(&dir.0.join("redis.sock"));
    for key in ["copied", "replaced", "gone"] {
        client.call(&format!("TALLY.ADD {key} a 5"));
    }
    let adds: Vec<_> = (0..2000).map(|n| format!("TALLY.ADD large name:{n} {n}")).collect();
    client.pipeline(&adds);
    assert_eq!(client.call("SET string text"), ok());
    assert_eq!(client.call("SET target text"), ok());
    let follow = format!("REPLICAOF 127.0.0.1 {port}");
    assert_eq!(follower.call(&follow), ok());
    assert_eq!(other.call(&follow), ok());
    await_that("a replica has no copy", || {
        [&mut follower, &mut other].into_iter().all(|to| to.call("GET string") == bulk("text"))
    });
    await_mark(&mut client, &mut other, 1);
    await_mark(&mut client, &mut follower, 2);
    // Redis was sent the copy without the values, and Petrel with them.
    assert_eq!(other.call("DBSIZE"), Value::Integer(3));
    assert_eq!(follower.call("TALLY.GET large name:1999"), Value::Integer(1999));

    // The stream is one of commands now, which Redis and Petrel read.
    assert_eq!(client.call("TALLY.ADD copied a 2"), Value::Integer(7));
    assert_eq!(client.call("TALLY.DROP gone a"), Value::Integer(1));
    assert_eq!(client.call("SET replaced text"), ok());
    assert_eq!(client.call("COPY copied target REPLACE"), Value::Integer(1));
    assert_eq!(client.call("RENAME large string"), ok());
    let Value::Bulk(payload) = client.call("DUMP copied") else { panic!() };
    let mut restore = Vec::new();
    let args = [&b"RESTORE"[..], b"restored", b"0", &payload];
    petrel_resp::encode_command(&args, &mut restore);
    std::io::Write::write_all(&mut client.stream, &restore).unwrap();
    assert_eq!(client.reply(), ok());
    client.call("MULTI");
    client.call("TALLY.ADD restored b 1");
    client.call("TALLY.ADD restored b 1");
    client.call("EXEC");
    await_mark(&mut client, &mut other, 3);
    await_mark(&mut client, &mut follower, 4);
    for (key, name, count) in [
        ("copied", "a", 7),
        ("target", "a", 7),
        ("restored", "a", 7),
        ("restored", "b", 2),
        ("string", "name:1999", 1999),
    ] {
        assert_eq!(follower.call(&format!("TALLY.GET {key} {name}")), Value::Integer(count));
    }
    assert_eq!(client.call("DEBUG DIGEST"), follower.call("DEBUG DIGEST"));
    assert_eq!(other.call("GET replaced"), bulk("text"));
    for key in ["copied", "gone", "target", "string", "large", "restored"] {
        assert_eq!(other.call(&format!("EXISTS {key}")), Value::Integer(0), "{key}");
    }
    // One copy was enough, and no command of the stream has failed at Redis.
    assert_eq!(figure(&mut client, "stats", "sync_full"), 2);
    assert_eq!(figure(&mut other, "stats", "unexpected_error_replies"), 0);
    let log = redis.log();
    assert!(!log.contains("CRITICAL") && !log.contains("sending an error"), "{log}");
}

pub fn await_rewrite(client: &mut Client) {
    await_that("the log is not rewritten", || {
        ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .all(|name| figure(client, "persistence", name) == 0)
    });
}

/// Makes a change of a type, as it comes from another server.
fn change(server: &Alone, key: &[u8], of: TypeNumber, amount: i64) {
    let mut body = Vec::new();
    put_bytes(&mut body, b"a");
    put_signed(&mut body, amount);
    let change = CustomChange { op: ADD, body: &body };
    let mut handle = server.0.as_ref().unwrap().server.keyspace.attach();
    handle.enter();
    let hash = handle.hash(key);
    handle.lock(hash);
    handle.apply(0, &Effect::Custom { key, of, change }, Origin::LOCAL).unwrap();
    handle.unlock();
    handle.exit();
}

fn count(server: &Alone, key: &[u8]) -> i64 {
    let mut handle = server.0.as_ref().unwrap().server.keyspace.attach();
    handle.enter();
    let key = handle.key(key);
    handle.lock(key.hash);
    let count = handle.view(0, key).unwrap().custom::<Tally>().unwrap().count(b"a");
    handle.unlock();
    handle.exit();
    count
}

/// A file with one tally of a module that no server knows yet, in the form that Redis has.
fn file_of_unknown_module() -> (Vec<u8>, Vec<u8>) {
    let mut value = vec![0x81];
    value.extend_from_slice(&LATER_MODULE.to_be_bytes());
    // One name: a count, a text, a signed number, a double.
    value.extend_from_slice(&[2, 1, 5, 1, b'a', 1, 30, 4]);
    value.extend_from_slice(&30f64.to_le_bytes());
    value.push(0);
    let mut file = b"REDIS0011\xfe\x00\x07\x06module".to_vec();
    file.extend_from_slice(&value);
    file.push(0xff);
    // No checksum.
    file.extend_from_slice(&[0; 8]);
    (file, value)
}

#[test]
fn unknown_types_are_kept_until_they_are_known() {
    let _guard = one_that_saves();
    let unknown = LATER.number;
    let (dir, own) = (Dir::new(), Dir::new());
    let (file, value) = file_of_unknown_module();
    std::fs::write(dir.0.join("dump.rdb"), file).unwrap();
    let saved = || std::fs::read(dir.0.join("dump.rdb")).unwrap();
    let holds = |file: &[u8]| file.windows(value.len()).any(|part| part == value);
    {
        // A value without changes is written as it came.
        let server = Alone::start(&dir.0, false);
        let mut client = server.client();
        assert_eq!(text(client.call("TYPE module")), "unknown");
        assert_eq!(client.call("SAVE"), ok());
        assert!(holds(&saved()));
        assert_eq!(client.call("CONFIG SET appendonly yes"), ok());
        await_rewrite(&mut client);
    }
    let digest = {
        let server = Alone::start(&dir.0, true);
        let mut client = server.client();
        change(&server, b"module", unknown, 4);
        change(&server, b"changes", unknown, 5);
        assert_eq!(text(client.call("TYPE changes")), "unknown");
        for command in ["TALLY.GET changes a", "GET module", "LLEN module"] {
            assert!(error(&client.call(command)).starts_with("WRONGTYPE"), "{command}");
        }
        assert_eq!(client.call("COPY module copy"), Value::Integer(1));
        assert_eq!(client.call("RENAME copy renamed"), ok());
        change(&server, b"gone", unknown, 1);
        assert_eq!(client.call("DEL gone"), Value::Integer(1));
        client.call("DEBUG DIGEST")
    };
    {
        // From the log, and through a rewrite of it.
        let server = Alone::start(&dir.0, true);
        let mut client = server.client();
        assert_eq!(client.call("DEBUG DIGEST"), digest);
        client.call("BGREWRITEAOF");
        await_rewrite(&mut client);
        change(&server, b"changes", unknown, 6);
    }
    let port = free_port();
    let server = Alone::start_at(&dir.0, true, port);
    let mut client = server.client();
    assert_eq!(client.call("DBSIZE"), Value::Integer(3));
    // In a copy for a replica, and in the stream behind it.
    let replica = Alone::start(&own.0, false);
    let mut follower = replica.client();
    assert_eq!(follower.call(&format!("REPLICAOF 127.0.0.1 {port}")), ok());
    await_mark(&mut client, &mut follower, 1);
    change(&server, b"renamed", unknown, 8);
    await_mark(&mut client, &mut follower, 2);
    assert_eq!(client.call("DEBUG DIGEST"), follower.call("DEBUG DIGEST"));
    // A stranger's payload is refused as before; a kept value is no reason to fail.
    let Value::Bulk(payload) = client.call("DUMP renamed") else { panic!() };
    let mut restore = Vec::new();
    petrel_resp::encode_command(&[&b"RESTORE"[..], b"back", b"0", &payload], &mut restore);
    std::io::Write::write_all(&mut client.stream, &restore).unwrap();
    assert!(error(&client.reply()).contains("Bad data format"));
    assert_eq!(client.call("SAVE"), ok());
    drop((client, server, follower, replica));

    // A build that knows the type has the values with all their changes: from the log, and from
    // the file.
    add_type(&LATER);
    for appendonly in [true, false] {
        let server = Alone::start(&dir.0, appendonly);
        let counts = [&b"module"[..], b"changes", b"renamed"].map(|key| count(&server, key));
        assert_eq!(counts, [34, 11, 42], "appendonly {appendonly}");
        assert_eq!(text(server.client().call("TYPE changes")), "later");
    }
}
