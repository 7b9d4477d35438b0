//! Everything at once: connections of every kind, on more workers than processors, while whole
//! databases are flushed and swapped, scripts are slow or touch keys that they did not declare,
//! snapshots are taken, and connections are killed at random. Every command is answered in time, or
//! its connection is closed.
//!
//! `PETREL_STRESS_SECONDS` sets a longer run than the usual few seconds, `PETREL_STRESS_CLIENTS`
//! more connections, `PETREL_STRESS_BINARY` another binary than the one just built,
//! `PETREL_STRESS_SEED` other draws. With `PETREL_STRESS_TRACKING=0` no client tracks keys, to find
//! out whether tracking causes a failure.

use crate::harness::*;
use petrel_resp::{DecodeLimits, Decoder, Value};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

with_each_backend!(every_command_is_answered_in_time);

/// Maximum duration until a reply on a busy machine.
const REPLY_MAX: Duration = Duration::from_secs(15);

/// Keys that all connections use.
const KEYS: u64 = 48;

/// Pieces of Lua: one that takes some milliseconds, one that takes longer than
/// `busy-reply-threshold`, one that writes keys that it did not declare, and one that does so late,
/// while it holds the key that it declared.
const SCRIPTS: [&str; 5] = [
    "local n = 0 for i = 1, 100000 do n = n + i end return n",
    "local n = 0 for i = 1, 6000000 do n = n + i end return n",
    "for i = 1, 8 do redis.call('SET', 'key:' .. i * 5, i, 'PX', 5000) end return 1",
    "redis.call('SET', KEYS[1], 'x') for i = 1, 4 do redis.call('DEL', 'key:' .. i) end return 1",
    "redis.call('SET', KEYS[1], 1) local n = 0 for i = 1, 5000000 do n = n + i end return n",
];

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Numbers that look drawn.
struct Draws(u64);

impl Draws {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn key(&mut self) -> String {
        format!("key:{}", self.next(KEYS))
    }

    fn list(&mut self) -> String {
        format!("list:{}", self.next(6))
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.next(texts.len() as u64) as usize]
    }
}

/// State shared by all connections of a run.
struct Run {
    socket: PathBuf,
    until: Instant,
    /// Set by the first that fails: the others end too.
    failed: AtomicBool,
    failures: Mutex<Vec<String>>,
    commands: AtomicU64,
    closed: AtomicU64,
    pushes: AtomicU64,
    refused: AtomicU64,
    tracking: bool,
}

/// A connection, which is opened again after it was closed.
struct Connection<'r> {
    run: &'r Run,
    draws: Draws,
    stream: UnixStream,
    received: Vec<u8>,
    /// The commands of the last pipeline, for a message.
    sent: Vec<Vec<String>>,
}

/// End of a pipeline that was not answered completely.
enum Ended {
    Closed,
    Failed,
}

impl<'r> Connection<'r> {
    fn open(run: &'r Run, draws: Draws) -> Self {
        let stream = UnixStream::connect(&run.socket).unwrap();
        stream.set_read_timeout(Some(REPLY_MAX)).unwrap();
        stream.set_write_timeout(Some(REPLY_MAX)).unwrap();
        Connection { run, draws, stream, received: Vec::new(), sent: Vec::new() }
    }

    fn fail(&self, what: &str) -> Ended {
        let shortly = |command: &Vec<String>| command.join(" ").chars().take(60).collect();
        let sent: Vec<String> = self.sent.iter().map(shortly).collect();
        let received = &self.received[..self.received.len().min(60)];
        let received = (self.received.len(), String::from_utf8_lossy(received));
        let text = format!("{what}, received {received:?}: {}", sent.join(" | "));
        let mut failures = self.run.failures.lock().unwrap();
        failures.push(text);
        if !self.run.failed.swap(true, Relaxed)
            && let Some(hook) = std::env::var_os("PETREL_STRESS_HOOK")
        {
            let _ = Command::new(hook).arg(&self.run.socket).status();
        }
        drop(failures);
        Ended::Failed
    }

    /// Sends a pipeline and receives its replies.
    fn call(&mut self, commands: Vec<Vec<String>>) -> Result<Vec<Value>, Ended> {
        let mut bytes = Vec::new();
        for command in &commands {
            let args: Vec<&[u8]> = command.iter().map(|arg| arg.as_bytes()).collect();
            bytes.extend(encode(&args));
        }
        let count = commands.len();
        self.sent = commands;
        if let Err(error) = self.stream.write_all(&bytes) {
            return Err(match error.kind() {
                ErrorKind::WouldBlock => self.fail("not read from"),
                _ => Ended::Closed,
            });
        }
        let mut replies = Vec::with_capacity(count);
        let deadline = Instant::now() + REPLY_MAX;
        while replies.len() < count {
            match self.receive(deadline) {
                Ok(Value::Push(_)) => drop(self.run.pushes.fetch_add(1, Relaxed)),
                Ok(reply) => replies.push(reply),
                Err(Ended::Failed) => {
                    let answered = format!("no reply after {} of {count}", replies.len());
                    return Err(self.fail(&answered));
                }
                Err(ended) => return Err(ended),
            }
        }
        let busy = replies.iter().filter(|reply| show(reply).starts_with("BUSY")).count();
        self.run.refused.fetch_add(busy as u64, Relaxed);
        if busy > 0 {
            // As programs do, which try again a little later.
            std::thread::sleep(Duration::from_millis(self.draws.next(8)));
        }
        self.run.commands.fetch_add(count as u64, Relaxed);
        Ok(replies)
    }

    fn receive(&mut self, deadline: Instant) -> Result<Value, Ended> {
        let mut decoder = Decoder::new(DecodeLimits::default());
        loop {
            let (consumed, value) = decoder.decode(&self.received).unwrap();
            self.received.drain(..consumed);
            if let Some(value) = value {
                return Ok(value);
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Ended::Closed),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(Ended::Failed),
                Err(_) => return Err(Ended::Closed),
            }
            // Invalidations may arrive for ever.
            if Instant::now() > deadline {
                return Err(Ended::Failed);
            }
        }
    }

    /// Does what connections do until the time is up.
    fn serve(mut self) {
        let mut number = self.draws.next(16);
        while Instant::now() < self.run.until && !self.run.failed.load(Relaxed) {
            let ended = self.begin(number).and_then(|()| self.go_on());
            match ended {
                Err(Ended::Failed) => return,
                Ok(()) => {}
                Err(Ended::Closed) => drop(self.run.closed.fetch_add(1, Relaxed)),
            }
            number += 1;
            let draws = Draws(self.draws.0);
            self = Connection::open(self.run, draws);
        }
    }

    /// Becomes a connection of some kind.
    fn begin(&mut self, number: u64) -> Result<(), Ended> {
        if !number.is_multiple_of(4) {
            self.call(vec![words("HELLO 3")])?;
            if self.run.tracking {
                let options = match number % 6 {
                    0 => "CLIENT TRACKING ON BCAST",
                    1 => "CLIENT TRACKING ON NOLOOP",
                    2 => "CLIENT TRACKING ON OPTIN",
                    3 => "CLIENT TRACKING ON BCAST PREFIX key:1 PREFIX list NOLOOP",
                    _ => "CLIENT TRACKING ON",
                };
                self.call(vec![words(options)])?;
            }
            if number.is_multiple_of(5) {
                self.call_subscribing("SUBSCRIBE news:1 news:2")?;
            }
        }
        Ok(())
    }

    /// A command answered by pushes is followed by one with a reply.
    fn call_subscribing(&mut self, command: &str) -> Result<(), Ended> {
        let mut bytes = Vec::new();
        for command in [words(command), words("PING")] {
            let args: Vec<&[u8]> = command.iter().map(|arg| arg.as_bytes()).collect();
            bytes.extend(encode(&args));
        }
        self.sent = vec![words(command), words("PING")];
        if self.stream.write_all(&bytes).is_err() {
            return Err(Ended::Closed);
        }
        let deadline = Instant::now() + REPLY_MAX;
        loop {
            match self.receive(deadline) {
                Ok(Value::Push(_)) => {}
                Ok(_) => return Ok(()),
                Err(Ended::Failed) => return Err(self.fail("no reply to PING")),
                Err(ended) => return Err(ended),
            }
        }
    }

    fn go_on(&mut self) -> Result<(), Ended> {
        let rounds = 40 + self.draws.next(200);
        for _ in 0..rounds {
            if Instant::now() >= self.run.until || self.run.failed.load(Relaxed) {
                break;
            }
            match self.draws.next(100) {
                0..60 => {
                    let count = 1 + self.draws.next(16);
                    let commands = (0..count).map(|_| ordinary(&mut self.draws)).collect();
                    self.call(commands)?;
                }
                60..70 => self.transact()?,
                70..78 => {
                    let waiting = waiting(&mut self.draws);
                    // Input sent ahead is executed after the reply.
                    let ahead = ordinary(&mut self.draws);
                    self.call(vec![waiting, ahead])?;
                }
                78..86 => {
                    let script = script(&mut self.draws);
                    let ahead = ordinary(&mut self.draws);
                    self.call(vec![script, ahead])?;
                }
                86..91 => {
                    let rare = whole(&mut self.draws);
                    self.call(vec![rare])?;
                }
                91..94 => {
                    let rare = administrative(&mut self.draws);
                    self.call(vec![rare])?;
                }
                94..96 => self.kill_one()?,
                96 => self.leave_half()?,
                _ => {
                    // A value that is received in pieces.
                    let len = 1 << (12 + self.draws.next(7));
                    let key = self.draws.key();
                    let value = "v".repeat(len);
                    self.call(vec![vec!["SET".into(), key.clone(), value], words2("GET", key)])?;
                }
            }
        }
        Ok(())
    }

    fn transact(&mut self) -> Result<(), Ended> {
        let mut commands = Vec::new();
        if self.draws.next(2) == 0 {
            commands.push(words2("WATCH", self.draws.key()));
        }
        commands.push(words("MULTI"));
        for _ in 0..1 + self.draws.next(4) {
            commands.push(match self.draws.next(12) {
                0 => waiting(&mut self.draws),
                1 => script(&mut self.draws),
                2 => whole(&mut self.draws),
                _ => ordinary(&mut self.draws),
            });
        }
        commands.push(words(if self.draws.next(8) == 0 { "DISCARD" } else { "EXEC" }));
        self.call(commands).map(drop)
    }

    /// Kills a connection that was there a moment ago, perhaps this one.
    fn kill_one(&mut self) -> Result<(), Ended> {
        let list = self.call(vec![words("CLIENT LIST")])?;
        let list = show(&list[0]);
        let ids: Vec<&str> =
            list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let id = ids[self.draws.next(ids.len() as u64) as usize];
        let kill = match self.draws.next(4) {
            0 => format!("CLIENT UNBLOCK {id}"),
            1 => format!("CLIENT UNBLOCK {id} ERROR"),
            _ => format!("CLIENT KILL ID {id} SKIPME no"),
        };
        self.call(vec![words(&kill)]).map(drop)
    }

    /// Closes the connection in the middle of a command, without reading the replies.
    fn leave_half(&mut self) -> Result<(), Ended> {
        let mut bytes = Vec::new();
        for _ in 0..3 {
            let command = if self.draws.next(3) == 0 {
                script(&mut self.draws)
            } else {
                waiting(&mut self.draws)
            };
            let args: Vec<&[u8]> = command.iter().map(|arg| arg.as_bytes()).collect();
            bytes.extend(encode(&args));
        }
        bytes.truncate(bytes.len() - self.draws.next(9) as usize);
        let _ = self.stream.write_all(&bytes);
        Err(Ended::Closed)
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_string).collect()
}

fn words2(name: &str, key: String) -> Vec<String> {
    vec![name.into(), key]
}

fn ordinary(draws: &mut Draws) -> Vec<String> {
    let (key, other, list) = (draws.key(), draws.key(), draws.list());
    words(&match draws.next(20) {
        0..4 => format!("GET {key}"),
        4..7 => format!("SET {key} value"),
        7 => format!("SET {key} value PX 30"),
        8 => format!("MGET {key} {other} key:1"),
        9 => format!("MSET {key} a {other} b"),
        10 => format!("DEL {key} {other}"),
        11 => format!("RENAME {key} {other}"),
        12 => format!("RPUSH {list} a"),
        13 => format!("LPOP {list}"),
        14 => format!("EXPIRE {key} 1"),
        15 => format!("PUBLISH news:{} text", draws.next(3)),
        16 => "CLIENT CACHING YES".into(),
        17 => format!("SELECT {}", draws.next(2)),
        18 => format!("SADD {}:s a b c", key),
        _ => format!("APPEND {key} more"),
    })
}

/// A command that may have to wait.
fn waiting(draws: &mut Draws) -> Vec<String> {
    let (list, other) = (draws.list(), draws.list());
    words(&match draws.next(5) {
        0 => format!("BLPOP {list} {other} 0.02"),
        1 => format!("BRPOP {list} 0.1"),
        2 => format!("BLMOVE {list} {other} LEFT RIGHT 0.05"),
        3 => format!("BLMPOP 0.02 2 {list} {other} LEFT"),
        _ => "BZPOPMIN sorted:1 0.01".into(),
    })
}

fn script(draws: &mut Draws) -> Vec<String> {
    // Slow ones are few: each takes a processor that many wait for.
    let which = [0, 2, 3, 0, 2, 3, 0, 2, 3, 0, 2, 3, 0, 2, 1, 4][draws.next(16) as usize];
    vec!["EVAL".into(), SCRIPTS[which].into(), "1".into(), draws.key()]
}

/// Commands that lock the whole keyspace.
fn whole(draws: &mut Draws) -> Vec<String> {
    words(draws.one_of(&[
        "FLUSHALL",
        "FLUSHALL ASYNC",
        "FLUSHDB",
        "FLUSHDB ASYNC",
        "SWAPDB 0 1",
        "SWAPDB 1 0",
        "SWAPDB 0 2",
    ]))
}

fn administrative(draws: &mut Draws) -> Vec<String> {
    words(draws.one_of(&[
        "BGSAVE",
        "BGREWRITEAOF",
        "SCRIPT KILL",
        "SCRIPT FLUSH",
        "INFO",
        "CLIENT LIST",
        "CLIENT PAUSE 20",
        "CLIENT PAUSE 20 WRITE",
        "CLIENT UNPAUSE",
        "CLIENT TRACKING OFF",
        "CLIENT TRACKING ON",
        "CONFIG SET hz 10",
        "CONFIG SET hz 100",
        "CONFIG SET notify-keyspace-events KEA",
        "CONFIG SET notify-keyspace-events KEA",
        "CONFIG SET maxmemory 0",
        "CONFIG SET maxmemory 3mb",
        "CONFIG SET tracking-table-max-keys 20",
        "CONFIG SET tracking-table-max-keys 1000000",
        "SCAN 0 COUNT 100",
        "KEYS key:*",
        "DBSIZE",
    ]))
}

fn server(backend: &str) -> Server {
    let args = ["--threads", "8", "--busy-reply-threshold", "20", "--latency-tracking", "no"];
    match std::env::var_os("PETREL_STRESS_BINARY") {
        None => Server::start(backend, &args),
        Some(binary) => {
            let scratch = Scratch::new();
            let mut command = Command::new(binary);
            command.current_dir(scratch.path(".")).stdin(Stdio::null());
            Server::start_by(command, scratch, backend, &args)
        }
    }
}

fn every_command_is_answered_in_time(backend: &str) {
    let server = server(backend);
    let run = Run {
        socket: server.socket(),
        until: Instant::now() + Duration::from_secs(setting("PETREL_STRESS_SECONDS", 3)),
        failed: AtomicBool::new(false),
        failures: Mutex::default(),
        commands: AtomicU64::new(0),
        closed: AtomicU64::new(0),
        pushes: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        tracking: setting("PETREL_STRESS_TRACKING", 1) != 0,
    };
    let seed = setting("PETREL_STRESS_SEED", 1);
    std::thread::scope(|scope| {
        for client in 0..setting("PETREL_STRESS_CLIENTS", 24) {
            let run = &run;
            let draws = Draws(((seed << 32) | (client + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            scope.spawn(move || Connection::open(run, draws).serve());
        }
    });
    let failures = run.failures.into_inner().unwrap();
    let figures = [&run.commands, &run.refused, &run.pushes, &run.closed].map(|n| n.load(Relaxed));
    println!("commands, refused as busy, pushes, closed: {figures:?}");
    if !failures.is_empty() {
        server.signal(libc::SIGUSR2);
        std::thread::sleep(Duration::from_secs(1));
        panic!("{}\n{}", failures.join("\n"), server.output());
    }
    // The script of a client that was closed may still run.
    eventually("nothing runs", || server.connect().text(&["PING"]) == "PONG");
}
