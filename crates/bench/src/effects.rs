//! `effects`: what the record of changes costs, by type: applying, recording, encoding, replaying.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use petrel_keyspace::types::list::End;
use petrel_keyspace::types::stream::{StreamChange, StreamId};
use petrel_keyspace::{
    Effect, EffectHead, EffectSink, Handle, Keyspace, Options, Order, Origin, Removal, StrRef,
};
use petrel_persistence::Progress;
use petrel_persistence::log::{Directory, Events, Log, LogSource, Policy, SystemFile, replay};
use serde::{Deserialize, Serialize};

use crate::experiment::{Better, Description, FIGURE, Figure, Plot, SERVER, View, grid};
use crate::in_process::{InProcess, usual_threads};
use crate::random::mix;
use crate::result::{Measurement, Point};

/// Changes of a batch, as a pipeline of commands has them.
const BATCH: u64 = 16;

/// Keys that collections and counters have; strings have one each.
const KEYS: u64 = 10_000;

/// What is measured.
const OPERATIONS: [&str; 4] = ["applying", "applying and recording", "encoding", "replaying"];

/// Measure the record of changes by type: applying, recording, encoding, replaying.
#[derive(Clone, Debug, Deserialize, Serialize, clap::Args)]
pub struct EffectsArgs {
    /// Types of changes to measure [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = parse_name)]
    types: Vec<String>,

    /// Changes of a measurement
    #[arg(long, default_value_t = 1_000_000, default_value_if("quick", "true", "100000"),
          value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    effects: u64,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "effects",
    title: "The record of changes",
    about: "Every change of a key is an effect; the log, replicas and recovery have the same. Applying: the effect becomes \
            a change of the keyspace, by the same mutators that commands use. And recording: the same while every change \
            goes to the log's recorder and from there, on another thread, to a file that is not synced. Encoding: the \
            recorder alone. Replaying: the log's file into an empty keyspace, with all processors. Batches of 16 changes; \
            strings of 64 B, a key each; 10 K counters and collections, keys in turn. Bytes are those of the file.",
    axes: &[("type", "{}"), ("operation", "{}")],
    figures: &[
        Figure::new("ns", "Time of an effect", "ns", 1, Better::Less),
        Figure::new("throughput", "Effects", "effects/s", 0, Better::More),
        Figure::new("bytes", "Bytes of an effect in the log", "", 1, Better::Less),
    ],
    views: &[
        View::new("", &["ns"], &[FIGURE, SERVER], &["type"], &["operation"])
            .plot(Plot::Bars)
            .in_summary(),
        View::new("", &["throughput"], &[FIGURE, SERVER], &["type"], &["operation"]),
        View::new("", &["bytes"], &[FIGURE], &["type"], &[SERVER]),
    ],
};

/// Shows the `n`-th effect of a type to a visitor.
type Make = fn(u64, &mut dyn FnMut(&Effect<'_>));

/// Types: name, what is there before, and the effects that are measured.
const TYPES: [(&str, Option<Make>, Make); 13] = [
    ("string", None, put_string),
    ("counter", None, add),
    ("part of a string", Some(put_string), write),
    ("expiry", Some(put_string), expire),
    ("removal", Some(put_string), remove),
    ("list push", None, push),
    ("list pop", Some(push), pop),
    ("set member", None, add_member),
    ("sorted set score", None, put_score),
    ("hash field", None, put_field),
    ("hash field with expiry", None, put_field_with_expiry),
    ("hash field removal", Some(put_field), remove_field),
    ("stream entry", None, add_entry),
];

const VALUE: [u8; 64] = [b'v'; 64];

/// In 2100.
const EXPIRY_MS: i64 = 4_102_444_800_000;

fn own_key(n: u64) -> String {
    format!("key:{n:012}")
}

fn shared_key(n: u64) -> String {
    own_key(n % KEYS)
}

/// Names an element that its key has not had before.
fn element(n: u64) -> String {
    format!("element:{:08}", n / KEYS)
}

fn put_string(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    let key = own_key(n);
    visit(&Effect::Put { key: key.as_bytes(), value: StrRef::Bytes(&VALUE), expiry: None });
}

fn add(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    visit(&Effect::Add { key: shared_key(n).as_bytes(), delta: n as i64 % 100 });
}

fn write(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    visit(&Effect::Write { key: own_key(n).as_bytes(), offset: 16, bytes: &VALUE[..16] });
}

fn expire(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    visit(&Effect::Expire { key: own_key(n).as_bytes(), expiry: Some(EXPIRY_MS + n as i64) });
}

fn remove(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    visit(&Effect::Remove { key: own_key(n).as_bytes(), why: Removal::Deleted });
}

fn push(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    let (key, element) = (shared_key(n), element(n));
    visit(&Effect::ListPush { key: key.as_bytes(), end: End::Back, element: element.as_bytes() });
}

fn pop(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    visit(&Effect::ListPop { key: shared_key(n).as_bytes(), end: End::Front });
}

fn add_member(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    let (key, member) = (shared_key(n), element(n));
    visit(&Effect::MemberAdd { key: key.as_bytes(), member: member.as_bytes() });
}

fn put_score(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    let (key, member, score) = (shared_key(n), element(n), (mix(n) % 1_000_000) as f64);
    visit(&Effect::ScorePut { key: key.as_bytes(), member: member.as_bytes(), score });
}

fn field(n: u64, expiry: Option<i64>, visit: &mut dyn FnMut(&Effect<'_>)) {
    let (key, field) = (shared_key(n), element(n));
    let value = &VALUE[..16];
    visit(&Effect::FieldPut { key: key.as_bytes(), field: field.as_bytes(), value, expiry });
}

fn put_field(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    field(n, None, visit);
}

fn put_field_with_expiry(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    field(n, Some(EXPIRY_MS + n as i64), visit);
}

fn remove_field(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    let (key, field) = (shared_key(n), element(n));
    let why = Removal::Deleted;
    visit(&Effect::FieldRemove { key: key.as_bytes(), field: field.as_bytes(), why });
}

fn add_entry(n: u64, visit: &mut dyn FnMut(&Effect<'_>)) {
    let (key, id) = (shared_key(n), StreamId { ms: n + 1, seq: 0 });
    let fields: [&[u8]; 4] = [b"sensor", b"1234", b"temperature", b"19.8"];
    let change = StreamChange::Add { id, fields: &fields };
    visit(&Effect::Stream { key: key.as_bytes(), change });
}

fn type_names() -> Vec<String> {
    TYPES.iter().map(|(name, ..)| (*name).to_owned()).collect()
}

fn parse_name(text: &str) -> Result<String, String> {
    let names = type_names();
    let is_known = names.iter().any(|name| name == text);
    if is_known { Ok(text.to_owned()) } else { Err(format!("there are {}", names.join(", "))) }
}

impl InProcess for EffectsArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const SUBJECTS: &'static [(&'static str, &'static str)] = &[("petrel", "petrel-persistence")];

    fn points(&self) -> Vec<Point> {
        let asked = |name: &String| self.types.is_empty() || self.types.contains(name);
        let names = type_names().into_iter().filter(asked).collect();
        let operations = OPERATIONS.map(str::to_owned).to_vec();
        grid([("type", names), ("operation", operations)])
    }

    fn measure_here(&self, _: &str, point: &Point, _: usize) -> Result<Measurement, String> {
        let same = TYPES.iter().find(|(name, ..)| *name == point["type"]);
        let (_, before, make) = same.ok_or("no such type")?;
        // The process has a directory of its own, which goes with it.
        let measured = Scene::new(*before, *make, self.effects, Path::new("."))
            .and_then(|scene| scene.measure(&point["operation"]));
        let (time, bytes) = measured.map_err(|error| error.to_string())?;
        Ok(Measurement::default()
            .with("ns", time.as_nanos() as f64 / self.effects as f64)
            .with("throughput", self.effects as f64 / time.as_secs_f64())
            .with_some("bytes", bytes.map(|bytes| bytes as f64 / self.effects as f64)))
    }
}

type Failure = Box<dyn std::error::Error>;

/// A keyspace, and the effects that are to change it.
struct Scene {
    keyspace: Arc<Keyspace>,
    handle: Handle,
    before: Option<Make>,
    make: Make,
    effects: u64,
    directory: PathBuf,
}

impl Scene {
    /// Applies what is there before.
    fn new(
        before: Option<Make>,
        make: Make,
        effects: u64,
        directory: &Path,
    ) -> Result<Scene, Failure> {
        let keyspace = Keyspace::new(&Options::default());
        let handle = keyspace.attach();
        let directory = directory.to_owned();
        let mut scene = Scene { keyspace, handle, before, make, effects, directory };
        if let Some(before) = before {
            scene.apply(before)?;
        }
        Ok(scene)
    }

    /// How long all effects took, and the bytes of the log's file, if that tells of them alone.
    fn measure(mut self, operation: &str) -> Result<(Duration, Option<u64>), Failure> {
        match operation {
            "applying" => Ok((self.apply(self.make)?, None)),
            "applying and recording" => {
                let log = Recording::start(&self.keyspace, &self.directory)?;
                log.attach(&mut self.handle);
                let time = self.apply(self.make)?;
                Ok((time, Some(log.end(&mut self.handle)?.1)))
            }
            "encoding" => {
                let log = Recording::start(&self.keyspace, &self.directory)?;
                let time = self.encode(&log);
                Ok((time, Some(log.end(&mut self.handle)?.1)))
            }
            _ => self.replay(),
        }
    }

    fn apply(&mut self, make: Make) -> Result<Duration, Failure> {
        let begin = Instant::now();
        let handle = &mut self.handle;
        for batch in (0..self.effects).step_by(BATCH as usize) {
            handle.enter();
            for n in batch..(batch + BATCH).min(self.effects) {
                let mut applied = Ok(());
                make(n, &mut |effect| {
                    let hash = handle.hash(effect.key().unwrap_or_default());
                    handle.lock(hash);
                    applied = handle.apply(0, effect, Origin::LOCAL);
                    handle.unlock();
                });
                applied?;
            }
            handle.exit();
        }
        Ok(begin.elapsed())
    }

    fn encode(&self, log: &Recording) -> Duration {
        let begin = Instant::now();
        let mut recorder = log.log.recorder();
        let epochs = self.keyspace.epochs();
        for batch in (0..self.effects).step_by(BATCH as usize) {
            for n in batch..(batch + BATCH).min(self.effects) {
                let order = Order(Order::first_of(epochs.now()).0 + n);
                let head = EffectHead { db: 0, order, origin: Origin::LOCAL };
                (self.make)(n, &mut |effect| recorder.record(head, effect));
                recorder.commit(epochs, false);
            }
            recorder.hand_over();
        }
        begin.elapsed()
    }

    /// Records into a file what is there before and what is measured; the time is that of the
    /// latter alone.
    fn replay(self) -> Result<(Duration, Option<u64>), Failure> {
        let threads = usual_threads().into_iter().max().unwrap_or(1);
        let target = Keyspace::new(&Options::default());
        let mut time = Duration::ZERO;
        let parts = self.before.into_iter().chain([self.make]);
        let mut source = Scene::new(None, self.make, self.effects, &self.directory)?;
        for make in parts {
            let log = Recording::start(&source.keyspace, &source.directory)?;
            log.attach(&mut source.handle);
            source.apply(make)?;
            let (path, len) = log.end(&mut source.handle)?;
            let file = File::open(path)?;
            let begin = Instant::now();
            let done = replay(file, len, &target, threads, None, &Progress::default());
            time = begin.elapsed();
            let done = done.map_err(|error| format!("{error:?}"))?;
            // With its last element a collection goes, which is an effect of its own.
            if done.effects < source.effects {
                return Err(format!("{} of {} came back", done.effects, source.effects).into());
            }
        }
        Ok((time, None))
    }
}

/// A log on its way to a file.
struct Recording {
    log: Arc<Log>,
    thread: JoinHandle<()>,
    path: PathBuf,
}

/// Nobody waits for epochs to become durable; what fails is noticed at the end.
struct Nobody;

impl Events for Nobody {
    fn durable(&self, _: u64) {}

    fn failed(&self, why: &str, _: bool) {
        eprintln!("the log: {why}");
    }

    fn recovered(&self) {}
}

impl Recording {
    fn start(keyspace: &Arc<Keyspace>, directory: &Path) -> Result<Recording, Failure> {
        let mut files = Directory::open(&directory.join("effects"), "effects", [7; 16])?;
        let (file, head) = files.begin_effects(0, true)?;
        let entry = files.manifest().logs().last().ok_or("the log has no file")?;
        let path = files.path_of(entry);
        let log = Log::new(Policy::No, Box::new(Nobody), None);
        let file = Box::new(SystemFile::new(file)?);
        let previous = keyspace.epochs().now() - 1;
        let thread = log.start(keyspace.clone(), file, head, previous)?;
        Ok(Recording { log, thread, path })
    }

    /// Everything that changes from now on is recorded.
    fn attach(&self, handle: &mut Handle) {
        self.set(handle, Some(Arc::new(LogSource(self.log.clone()))));
    }

    fn set(&self, handle: &mut Handle, source: Option<Arc<LogSource>>) {
        handle.enter();
        handle.lock_all();
        handle.set_sinks(LogSource::NAME, source.map(|source| source as _));
        handle.unlock();
        handle.exit();
    }

    /// Waits until all is written. The file and its length.
    fn end(self, handle: &mut Handle) -> Result<(PathBuf, u64), Failure> {
        self.set(handle, None);
        self.log.stop();
        self.thread.join().map_err(|_| "the log's thread has panicked")?;
        if self.log.has_failed() {
            return Err("the log could not be written".into());
        }
        let len = self.path.metadata()?.len();
        Ok((self.path, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::TempDir;

    #[test]
    fn effects_of_every_type_are_applied_recorded_encoded_and_come_back() {
        for (name, before, make) in TYPES {
            for operation in OPERATIONS {
                let directory = TempDir::new().unwrap();
                let scene = Scene::new(before, make, 1000, directory.path()).unwrap();
                let measured = scene.measure(operation);
                let (time, bytes) =
                    measured.unwrap_or_else(|why| panic!("{name} {operation}: {why}"));
                assert!(time > Duration::ZERO);
                let recorded = ["applying and recording", "encoding"].contains(&operation);
                assert_eq!(
                    bytes.is_some_and(|bytes| bytes > 5 * 1000),
                    recorded,
                    "{name} {operation}"
                );
            }
        }
    }
}
