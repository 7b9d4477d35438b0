//! Side effects of each write command, in every state of its key: aborted transactions of watching
//! clients, published events, and invalidated keys. `touched.txt` has the results of Redis 8.2.3.
//! They are always compared with Petrel's, and with those of a `redis-server` of at least that
//! version if there is one on the PATH.
//!
//! A line of the file without indentation is a call. Preparing calls precede it, separated by
//! semicolons, and before them the first version with the command, if newer. The indented lines
//! below list states of the key `k`, and after the arrow the call's side effects in these states;
//! in other states it has none:
//!
//! ```text
//! events in their order, as name:key | watched keys that abort EXEC | invalidated keys, * for all
//! ```
//!
//! A line that begins with `!` is Petrel's result where it differs from Redis's, with the reason at
//! its end. `PETREL_TEST_RECORD=1` rewrites the file: with the results of the server on the PATH,
//! or with Petrel's for calls that this server does not know.

use crate::client::{Client, split};
use crate::redis::{Connection, Redis, Version, parse_version};
use petrel_commands::{CommandSpec, FAMILIES};
use petrel_keyspace::Reader;
use petrel_keyspace::event::class;
use petrel_resp::Value;
use petrel_table::Flags;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

const FILE: &str = "tests/commands/touched.txt";

/// States of the key `k`, with the calls that create them.
const STATES: [(&str, &str); 16] = [
    ("absent", ""),
    ("expired", "SET k hello PX 1"),
    ("string", "SET k hello"),
    ("int", "SET k 10"),
    ("ttl", "SET k 10 PXAT 4000000000000"),
    ("hll", "PFADD k a b c"),
    ("list", "RPUSH k a b c"),
    ("list1", "RPUSH k a"),
    ("set", "SADD k a b c"),
    ("set1", "SADD k a"),
    ("zset", "ZADD k 1 a 2 b 3 c"),
    ("zset1", "ZADD k 1 a"),
    ("hash", "HSET k a 1 b 2 c x"),
    ("hash1", "HSET k a 1"),
    ("hashttl", "HSET k a 1 b 2 ; HPEXPIREAT k 4000000000000 FIELDS 1 a"),
    (
        "stream",
        "XADD k 1-1 f v ; XADD k 2-1 f v ; XGROUP CREATE k g 0 ; XREADGROUP GROUP g c COUNT 1 STREAMS k >",
    ),
];

/// Stands for all states with a key, in the file.
const EVERY: &str = "any";

/// Longer than the time to live of the expired key.
const EXPIRED_AFTER_MS: i64 = 3;

/// The keys that are watched, each by a client of its own.
const WATCHED: [&str; 3] = ["k", "d", "o"];

/// Side effects of a call.
#[derive(Clone, Default, Eq, PartialEq)]
struct Outcome(String);

impl Outcome {
    fn new(events: &[String], aborted: &[&str], invalidated: &BTreeSet<String>) -> Self {
        let list = |words: &mut dyn Iterator<Item = &str>| {
            let words: Vec<_> = words.collect();
            if words.is_empty() { "-".to_owned() } else { words.join(" ") }
        };
        let [events, aborted, invalidated] = [
            list(&mut events.iter().map(String::as_str)),
            list(&mut aborted.iter().copied()),
            list(&mut invalidated.iter().map(String::as_str)),
        ];
        let outcome = format!("{events} | {aborted} | {invalidated}");
        Outcome(if outcome == "- | - | -" { String::new() } else { outcome })
    }
}

/// A call of the file, and its expected results.
struct Case {
    line: String,
    since: Version,
    /// Preparing calls, and the call itself.
    calls: Vec<Vec<Vec<u8>>>,
    /// By state.
    redis: [Outcome; STATES.len()],
    /// By state, where it differs, with the reason.
    petrel: [Option<(Outcome, String)>; STATES.len()],
}

impl Case {
    fn new(line: &str) -> Self {
        let (since, calls) = match line.split_once(' ') {
            Some((version, calls)) if version.starts_with(|c: char| c.is_ascii_digit()) => {
                (parse_version(version), calls)
            }
            _ => ([0; 3], line),
        };
        let calls = calls.split(" ; ").map(split).collect();
        let line = line.to_owned();
        Case { line, since, calls, redis: Default::default(), petrel: Default::default() }
    }

    /// Expected result of Petrel.
    fn expected(&self, state: usize) -> &Outcome {
        self.petrel[state].as_ref().map_or(&self.redis[state], |(outcome, _)| outcome)
    }

    fn describe(&mut self, line: &str) {
        let (states, outcome) = line.split_once(" => ").unwrap_or_else(|| panic!("{line}"));
        let (outcome, reason) = outcome.split_once(" # ").unwrap_or((outcome, ""));
        let outcome =
            Outcome(if outcome == "nothing" { String::new() } else { outcome.to_owned() });
        let (own, states) = match states.strip_prefix("! ") {
            Some(states) => (true, states),
            None => (false, states),
        };
        assert_eq!(own, !reason.is_empty(), "{line}");
        let every = STATES.iter().map(|(name, _)| *name).filter(|name| !is_absent(name));
        let states = states.split(' ').flat_map(|state| match state {
            EVERY => every.clone().collect(),
            state => vec![state],
        });
        for state in states {
            let at = STATES.iter().position(|(name, _)| *name == state);
            let at = at.unwrap_or_else(|| panic!("no state {state}: {line}"));
            if own {
                self.petrel[at] = Some((outcome.clone(), reason.to_owned()));
            } else {
                self.redis[at] = outcome.clone();
            }
        }
    }

    /// Text of the case in the file.
    fn show(&self) -> String {
        let mut text = format!("{}\n", self.line);
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        let redis =
            self.redis.iter().map(|outcome| (!outcome.0.is_empty()).then_some(("", outcome, "")));
        let petrel = self
            .petrel
            .iter()
            .map(|petrel| petrel.as_ref().map(|(outcome, reason)| ("! ", outcome, &reason[..])));
        for (said, (state, _)) in redis.chain(petrel).zip(STATES.iter().cycle()) {
            let Some((own, Outcome(outcome), reason)) = said else { continue };
            let outcome = if outcome.is_empty() { "nothing" } else { outcome };
            let because = if reason.is_empty() { String::new() } else { format!(" # {reason}") };
            let said = format!("{outcome}{because}");
            match lines.iter_mut().find(|(known, states)| *known == said && states[0] == own) {
                Some((_, states)) => states.push(state),
                None => lines.push((said, vec![own, state])),
            }
        }
        for (said, states) in lines {
            let (absent, mut others): (Vec<_>, Vec<_>) =
                states[1..].iter().partition(|state| is_absent(state));
            if others.len() == STATES.len() - 2 {
                others = vec![EVERY];
            }
            let named = [absent, others].concat().join(" ");
            writeln!(text, "  {}{named} => {said}", states[0]).unwrap();
        }
        text
    }
}

/// Whether the key does not exist in a state.
fn is_absent(state: &str) -> bool {
    matches!(state, "absent" | "expired")
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in std::fs::read_to_string(FILE).unwrap().lines() {
        match line.strip_prefix("  ") {
            Some(said) => cases.last_mut().expect("a call").describe(said),
            None if line.is_empty() || line.starts_with('#') => {}
            None => cases.push(Case::new(line)),
        }
    }
    cases
}

/// A server that reports the side effects of a call.
trait Observed {
    fn outcome(&mut self, state: &str, calls: &[Vec<Vec<u8>>]) -> Outcome;
}

fn borrowed(call: &[Vec<u8>]) -> Vec<&[u8]> {
    call.iter().map(|word| &word[..]).collect()
}

/// Calls that create a state, and the preparing calls.
fn preparation(state: &str, calls: &[Vec<Vec<u8>>]) -> Vec<Vec<Vec<u8>>> {
    let clean = ["SELECT 0", "FLUSHALL", "FUNCTION FLUSH"].map(split);
    let state = state.split(" ; ").filter(|line| !line.is_empty()).map(split);
    clean.into_iter().chain(state).chain(calls[..calls.len() - 1].iter().cloned()).collect()
}

struct Petrel {
    writer: Client,
    watchers: [Client; WATCHED.len()],
    reader: Arc<Reader>,
}

impl Petrel {
    fn new() -> Self {
        let mut writer = Client::new();
        let keyspace = writer.exec.ks.keyspace().clone();
        keyspace.add_prefix(b"".as_slice().into());
        writer.exec.ks.set_events(!class::FIELDS);
        let watchers = std::array::from_fn(|_| writer.another());
        Petrel { reader: keyspace.add_reader(()), writer, watchers }
    }
}

impl Petrel {
    /// Creates a state, lets clients watch the keys if requested, and read them.
    fn prepare(&mut self, state: &str, calls: &[Vec<Vec<u8>>], watches: bool) {
        let writer = &mut self.writer;
        for call in preparation(state, calls) {
            writer.call(&borrowed(&call));
            if state.contains(" PX ") && call[0] == b"SET" {
                writer.wait(EXPIRED_AFTER_MS);
                self.watchers.iter_mut().for_each(|watcher| watcher.wait(EXPIRED_AFTER_MS));
            }
        }
        for (watcher, key) in self.watchers.iter_mut().zip(WATCHED) {
            if watches {
                watcher.call(&[b"WATCH", key.as_bytes()]);
            }
            let ks = &mut writer.exec.ks;
            ks.enter();
            ks.remember_reader(ks.key(key.as_bytes()), &self.reader);
            ks.exit();
        }
        writer.host.events.clear();
        writer.host.invalidated = Default::default();
    }
}

impl Observed for Petrel {
    fn outcome(&mut self, state: &str, calls: &[Vec<Vec<u8>>]) -> Outcome {
        let call = borrowed(&calls[calls.len() - 1]);
        self.prepare(state, calls, true);
        self.writer.call(&call);
        let aborted = aborted(&mut self.watchers, |watcher, args| watcher.call(args));
        if state.contains(" PX ") {
            // The watch has removed the expired key.
            self.prepare(state, calls, false);
            self.writer.call(&call);
        }
        let [by_prefix, by_read] = &self.writer.host.invalidated;
        let mut outcome = Outcome::new(&self.writer.host.events, &aborted, by_prefix);
        let mut watched = by_prefix.clone();
        watched.retain(|key| WATCHED.contains(&&key[..]) || key == "*");
        if watched != *by_read {
            outcome.0.push_str(&format!(", but of those that were read {by_read:?}"));
        }
        outcome
    }
}

/// Watched keys with an aborted transaction.
fn aborted<W>(
    watchers: &mut [W],
    mut call: impl FnMut(&mut W, &[&[u8]]) -> Value,
) -> Vec<&'static str> {
    let is_aborted = |watcher: &mut W| {
        call(watcher, &[b"MULTI"]);
        call(watcher, &[b"EXEC"]).is_null()
    };
    let aborted: Vec<bool> = watchers.iter_mut().map(is_aborted).collect();
    WATCHED.into_iter().zip(aborted).filter_map(|(key, aborted)| aborted.then_some(key)).collect()
}

struct Peer {
    writer: Redis,
    watchers: [Connection; WATCHED.len()],
    listener: Connection,
}

impl Peer {
    fn new(writer: Redis) -> Self {
        let watchers = std::array::from_fn(|_| writer.connect());
        let mut peer = Peer { listener: writer.connect(), watchers, writer };
        for line in ["DEBUG SET-ACTIVE-EXPIRE 0", "CONFIG SET notify-keyspace-events AEKnmoc"] {
            let reply = peer.writer.call(&borrowed(&split(line)));
            assert_eq!(reply.as_bytes(), Some(&b"OK"[..]), "{line}");
        }
        for line in ["HELLO 3", "CLIENT TRACKING ON BCAST", "PSUBSCRIBE __keyevent@*__:*"] {
            peer.listener.call(&borrowed(&split(line)));
        }
        peer
    }

    /// All messages that the listener has received.
    fn heard(&mut self) -> (Vec<String>, BTreeSet<String>) {
        let (mut events, mut invalidated) = (Vec::new(), BTreeSet::new());
        self.listener.send(&[b"PING"]);
        while let Value::Push(push) = self.listener.receive() {
            let text =
                |i: usize| -> String { push[i].as_bytes().unwrap().escape_ascii().to_string() };
            match (&text(0)[..], &push[1]) {
                ("pmessage", _) => {
                    let channel = text(2);
                    let (db, name) =
                        channel.strip_prefix("__keyevent@").unwrap().split_once("__:").unwrap();
                    let db = if db == "0" { String::new() } else { format!("@{db}") };
                    events.push(format!("{name}:{}{db}", text(3)));
                }
                ("invalidate", Value::Array(keys)) => {
                    let keys = keys.iter().map(|key| key.as_bytes().unwrap().escape_ascii());
                    invalidated.extend(keys.map(|key| key.to_string()));
                }
                ("invalidate", _) => invalidated.extend(["*".to_owned()]),
                _ => panic!("{push:?}"),
            }
        }
        (events, invalidated)
    }
}

impl Observed for Peer {
    fn outcome(&mut self, state: &str, calls: &[Vec<Vec<u8>>]) -> Outcome {
        for call in preparation(state, calls) {
            self.writer.call(&borrowed(&call));
            if state.contains(" PX ") && call[0] == b"SET" {
                std::thread::sleep(Duration::from_millis(EXPIRED_AFTER_MS as u64));
            }
        }
        for (watcher, key) in self.watchers.iter_mut().zip(WATCHED) {
            watcher.call(&[b"WATCH", key.as_bytes()]);
        }
        self.heard();
        let call = borrowed(&calls[calls.len() - 1]);
        let name = String::from_utf8_lossy(call[0]).to_lowercase();
        if find(&name).flags.contains(Flags::BLOCKING) {
            self.writer.call(&[b"MULTI"]);
            self.writer.call(&call);
            self.writer.call(&[b"EXEC"]);
        } else {
            self.writer.call(&call);
        }
        let (events, invalidated) = self.heard();
        let aborted = aborted(&mut self.watchers, |watcher, args| watcher.call(args));
        Outcome::new(&events, &aborted, &invalidated)
    }
}

fn find(name: &str) -> &'static CommandSpec {
    let mut specs = FAMILIES.iter().copied().flatten();
    specs.find(|spec| spec.meta.name == name).unwrap_or_else(|| panic!("no command {name}"))
}

/// Differences between the expected and the observed results.
fn differences<'c>(
    observed: &mut dyn Observed,
    cases: impl Iterator<Item = &'c Case>,
    expected: impl Fn(&'c Case, usize) -> &'c Outcome,
) -> String {
    let mut differences = String::new();
    for case in cases {
        for (state, (name, made_by)) in STATES.iter().enumerate() {
            let (found, expected) = (observed.outcome(made_by, &case.calls), expected(case, state));
            if found != *expected {
                let (found, expected) = (&found.0, &expected.0);
                writeln!(
                    differences,
                    "{} [{name}]\n  found    {found}\n  expected {expected}",
                    case.line
                )
                .unwrap();
            }
        }
    }
    differences
}

#[test]
fn calls_touch_what_the_file_says() {
    let cases = cases();
    let differences = differences(&mut Petrel::new(), cases.iter(), Case::expected);
    assert!(differences.is_empty(), "\n{differences}");
}

#[test]
fn calls_touch_in_redis_what_the_file_says() {
    let recorded_with = [8, 2, 0];
    let parameters = ["--enable-debug-command", "yes"];
    let Some(mut redis) = Redis::start_since(recorded_with, &parameters) else { return };
    let version = redis.version();
    let mut cases = cases();
    let mut peer = Peer::new(redis);
    if std::env::var_os("PETREL_TEST_RECORD").is_some() {
        return record(&mut cases, version, &mut peer);
    }
    let known = cases.iter().filter(|case| case.since <= version);
    let differences = differences(&mut peer, known, |case, state| &case.redis[state]);
    assert!(differences.is_empty(), "\n{differences}");
}

/// Rewrites the file, keeping the comments at its beginning.
fn record(cases: &mut [Case], version: Version, peer: &mut Peer) {
    let mut petrel = Petrel::new();
    let old = std::fs::read_to_string(FILE).unwrap();
    let head = old.lines().take_while(|line| line.starts_with('#') || line.is_empty());
    let mut text: String = head.map(|line| format!("{line}\n")).collect();
    for case in cases {
        let observed: &mut dyn Observed =
            if case.since <= version { &mut *peer } else { &mut petrel };
        for (state, (_, made_by)) in STATES.iter().enumerate() {
            case.redis[state] = observed.outcome(made_by, &case.calls);
        }
        text.push_str(&case.show());
    }
    std::fs::write(FILE, text).unwrap();
}

#[test]
fn the_file_has_every_command_that_writes() {
    /// Commands that call another server, or require a library of functions.
    const LEFT_OUT: [&str; 7] = [
        "migrate",
        "cluster flushslot",
        "function restore",
        "himport set",
        "restore-asking",
        "delifeq",
        "xidmprecord",
    ];
    let cases = cases();
    let called: BTreeSet<String> = cases
        .iter()
        .flat_map(|case| {
            let words = borrowed(case.calls.last().unwrap());
            let word = |i: usize| String::from_utf8_lossy(words[i]).to_lowercase();
            let with_subcommand = words.get(1).map(|_| format!("{} {}", word(0), word(1)));
            [Some(word(0)), with_subcommand].into_iter().flatten()
        })
        .collect();
    let mut missing = Vec::new();
    for spec in FAMILIES.iter().copied().flatten() {
        let subcommands = spec
            .subcommands
            .iter()
            .map(|sub| (sub, format!("{} {}", spec.meta.name, sub.meta.name)));
        for (spec, name) in subcommands.chain([(spec, spec.meta.name.to_owned())]) {
            let writes = spec.flags.contains(Flags::WRITE) && spec.subcommands.is_empty();
            // Indexes are no keys.
            let is_of_index = name.starts_with("ft.");
            if writes && !is_of_index && !called.contains(&name) && !LEFT_OUT.contains(&&name[..]) {
                missing.push(name);
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
