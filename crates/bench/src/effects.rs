//! `effects`: cost of the record of changes, by type: applying, recording, encoding, replaying.

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

use crate::experiment::Case;
use crate::in_process::{InProcess, rate};
use crate::random::mix;
use crate::result::Measured;

/// Changes of a batch, as a pipeline of commands has them.
const BATCH: u64 = 16;

/// Keys that collections and counters have; strings have one each.
const KEYS: u64 = 10_000;

/// Passes the `n`-th effect of a type to a visitor.
type Make = fn(u64, &mut dyn FnMut(&Effect<'_>));

const VALUE: [u8; 64] = [b'v'; 64];

/// In 2100.
const EXPIRY_MS: i64 = 4_102_444_800_000;

/// Effects of a type: those applied before (if any), and the measured ones.
fn effects_of(name: &str) -> Option<(Option<Make>, Make)> {
    // Strings have a key each; counters and collections take [`KEYS`] keys in turn.
    const STRING: Make = |n, visit| {
        let key = own_key(n);
        visit(&Effect::Put { key: key.as_bytes(), value: StrRef::Bytes(&VALUE), expiry: None });
    };
    const PUSH: Make = |n, visit| {
        let (key, element) = (shared_key(n), element(n));
        let (key, element) = (key.as_bytes(), element.as_bytes());
        visit(&Effect::ListPush { key, end: End::Back, element });
    };
    const FIELD: Make = |n, visit| put_field(n, None, visit);
    Some(match name {
        "string" => (None, STRING),
        "counter" => (None, |n, visit| {
            visit(&Effect::Add { key: shared_key(n).as_bytes(), delta: n as i64 % 100 });
        }),
        "part of a string" => (Some(STRING), |n, visit| {
            let (key, bytes) = (own_key(n), &VALUE[..16]);
            visit(&Effect::Write { key: key.as_bytes(), offset: 16, bytes });
        }),
        "expiry" => (Some(STRING), |n, visit| {
            let expiry = Some(EXPIRY_MS + n as i64);
            visit(&Effect::Expire { key: own_key(n).as_bytes(), expiry });
        }),
        "removal" => (Some(STRING), |n, visit| {
            visit(&Effect::Remove { key: own_key(n).as_bytes(), why: Removal::Deleted });
        }),
        "list push" => (None, PUSH),
        "list pop" => (Some(PUSH), |n, visit| {
            visit(&Effect::ListPop { key: shared_key(n).as_bytes(), end: End::Front });
        }),
        "set member" => (None, |n, visit| {
            let (key, member) = (shared_key(n), element(n));
            visit(&Effect::MemberAdd { key: key.as_bytes(), member: member.as_bytes() });
        }),
        "sorted set score" => (None, |n, visit| {
            let (key, member, score) = (shared_key(n), element(n), (mix(n) % 1_000_000) as f64);
            let (key, member) = (key.as_bytes(), member.as_bytes());
            visit(&Effect::ScorePut { key, member, score });
        }),
        "hash field" => (None, FIELD),
        "hash field with expiry" => {
            (None, |n, visit| put_field(n, Some(EXPIRY_MS + n as i64), visit))
        }
        "hash field removal" => (Some(FIELD), |n, visit| {
            let (key, field) = (shared_key(n), element(n));
            let (key, field, why) = (key.as_bytes(), field.as_bytes(), Removal::Deleted);
            visit(&Effect::FieldRemove { key, field, why });
        }),
        "stream entry" => (None, |n, visit| {
            let (key, id) = (shared_key(n), StreamId { ms: n + 1, seq: 0 });
            let fields: [&[u8]; 4] = [b"sensor", b"1234", b"temperature", b"19.8"];
            let change = StreamChange::Add { id, fields: &fields };
            visit(&Effect::Stream { key: key.as_bytes(), change });
        }),
        _ => return None,
    })
}

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

fn put_field(n: u64, expiry: Option<i64>, visit: &mut dyn FnMut(&Effect<'_>)) {
    let (key, field) = (shared_key(n), element(n));
    let (key, field, value) = (key.as_bytes(), field.as_bytes(), &VALUE[..16]);
    visit(&Effect::FieldPut { key, field, value, expiry });
}

/// `effects`: the record of changes.
#[derive(Default)]
pub struct Effects;

impl InProcess for Effects {
    const NAME: &'static str = "effects";
    const SUBJECTS: &'static [(&'static str, &'static str)] = &[("petrel", "petrel-persistence")];

    fn measure_here(&self, _: &str, case: &Case<'_>) -> Measured {
        let (before, make) = effects_of(case.text("type")).ok_or("no such type")?;
        let effects = case.get("effects");
        // The process has a directory of its own, which is removed with it.
        let measured = Scene::new(before, make, effects, Path::new("."))
            .and_then(|scene| scene.measure(case.text("operation")));
        let (time, bytes) = measured.map_err(|error| error.to_string())?;
        Ok(rate(effects, 1, time.as_secs_f64())
            .with_some("bytes", bytes.map(|bytes| bytes as f64 / effects as f64)))
    }
}

type Failure = Box<dyn std::error::Error>;

/// A keyspace, and the effects that change it.
struct Scene {
    keyspace: Arc<Keyspace>,
    handle: Handle,
    before: Option<Make>,
    make: Make,
    effects: u64,
    directory: PathBuf,
}

impl Scene {
    /// Applies the effects that come before.
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

    /// Time of all effects, and the bytes of the log's file, if that holds them alone.
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

    /// Replays the effects that come before, then the measured ones, each from a file; returns the
    /// time of the latter.
    fn replay(self) -> Result<(Duration, Option<u64>), Failure> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
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
            // A collection is removed with its last element, by an effect of its own.
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

/// Ignores durable epochs; failures are found at the end.
struct NoWaiters;

impl Events for NoWaiters {
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
        let log = Log::new(Policy::No, Box::new(NoWaiters), None);
        let file = Box::new(SystemFile::new(file)?);
        let previous = keyspace.epochs().now() - 1;
        let thread = log.start(keyspace.clone(), file, head, previous)?;
        Ok(Recording { log, thread, path })
    }

    /// Records every change from now on.
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

    /// Waits until all is written; returns the file and its length.
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
    use crate::experiment::{Description, Options as Given, points};
    use crate::server::TempDir;

    #[test]
    fn effects_of_every_type_are_applied_recorded_encoded_and_come_back() {
        let own = Description::named(Effects::NAME);
        for point in points(own, &Given::default()) {
            let (name, operation) = (&point["type"], point["operation"].as_str());
            let (before, make) = effects_of(name).unwrap();
            {
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
