//! `engine`: Petrel's keyspace embedded in a program, beside the caches and maps of Rust.

mod caches;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::experiment::{Case, Description};
use crate::in_process::{InProcess, rate};
use crate::random::Random;
use crate::result::Measured;
use crate::sys::resident_bytes;
use crate::zipf::Zipf;
use caches::{Cache, DashMap, Moka, MutexMap, Papaya, Petrel, QuickCache, RwLockMap, View};

/// Operations between two looks at whether it is time to end.
const OPERATIONS_PER_LOOK: usize = 512;

/// Draws of keys that each thread repeats.
const DRAWS: usize = 1 << 18;

/// Exponent of the popularity of keys.
const ALPHA: f64 = 0.99;

/// Marks a draw that writes.
const WRITE: u32 = 1 << 31;

/// Caches and maps, and their crates.
const SUBJECTS: &[(&str, &str)] = &[
    ("petrel", "petrel-keyspace"),
    ("moka", "moka"),
    ("quick_cache", "quick_cache"),
    ("dashmap", "dashmap"),
    ("papaya", "papaya"),
    ("Mutex<HashMap>", "std"),
    ("RwLock<HashMap>", "std"),
];

/// Work of threads, an entry of the experiment's file.
#[derive(Clone, Copy, Debug)]
struct Workload {
    keys: u32,
    value_bytes: usize,
    reads_percent: u64,
    /// Keys are drawn by their popularity, not evenly.
    is_zipf: bool,
    /// Per cent of all bytes that a bounded cache has room for.
    room_percent: Option<u64>,
    /// Values are shared, not copied.
    is_shared: bool,
}

impl Workload {
    fn named(name: &str) -> Workload {
        let work = Description::named(Engine::NAME).work(name);
        Workload {
            keys: work.number("keys").unwrap_or(10_000),
            value_bytes: work.number("value-bytes").unwrap_or(64),
            reads_percent: work.number("reads").unwrap_or(80),
            is_zipf: work.get("zipf").is_some(),
            room_percent: work.number("room"),
            is_shared: work.get("shared").is_some(),
        }
    }
}

/// `engine`: Petrel's keyspace embedded in a program.
#[derive(Default)]
pub struct Engine;

impl InProcess for Engine {
    const NAME: &'static str = "engine";
    const SUBJECTS: &'static [(&'static str, &'static str)] = SUBJECTS;

    fn measure_here(&self, subject: &str, case: &Case<'_>) -> Measured {
        let workload = Workload::named(case.text("workload"));
        let time = Duration::from_millis(case.get("milliseconds"));
        let run = Run { workload, threads: case.at("threads"), time, seed: case.round as u64 };
        let (room, entries) = (workload.room(), workload.entries());
        match subject {
            "petrel" => run.measure(|| Petrel::new(room)),
            "moka" => run.measure(|| Moka::new(room)),
            "quick_cache" => run.measure(|| QuickCache::new(room, entries)),
            "dashmap" => run.measure(DashMap::default),
            "papaya" => run.measure(Papaya::default),
            "Mutex<HashMap>" => run.measure(MutexMap::default),
            "RwLock<HashMap>" => run.measure(RwLockMap::default),
            other => Err(format!("{other} is not known here")),
        }
    }
}

impl Workload {
    /// Room for keys and values in bytes, if bounded.
    fn room(&self) -> Option<u64> {
        let bytes = u64::from(self.keys) * (key(0).len() + self.value_bytes) as u64;
        self.room_percent.map(|percent| bytes * percent / 100)
    }

    /// Entries that fit.
    fn entries(&self) -> usize {
        (u64::from(self.keys) * self.room_percent.unwrap_or(100) / 100) as usize
    }

    /// Keys for a thread to use one after the other, with [`WRITE`] where it writes.
    fn draws(&self, seed: u64) -> Vec<u32> {
        let mut random = Random::new(seed);
        let zipf = Zipf::new(u64::from(self.keys), ALPHA);
        let draw = |_| {
            let key = match self.is_zipf {
                true => zipf.draw(&mut random) as u32,
                false => random.below(u64::from(self.keys)) as u32,
            };
            if random.below(100) < self.reads_percent { key } else { key | WRITE }
        };
        (0..DRAWS).map(draw).collect()
    }
}

/// Makes a key of 16 bytes, at a cost far below that of its use.
fn key(number: u32) -> [u8; 16] {
    let mut key = *b"object:\0........";
    key[8..].copy_from_slice(&u64::from(number).to_le_bytes());
    key
}

/// Measurement of a workload.
struct Run {
    workload: Workload,
    threads: usize,
    time: Duration,
    seed: u64,
}

impl Run {
    fn measure<C: Cache>(&self, make: impl FnOnce() -> C) -> Measured {
        let value = Bytes::from(vec![b'v'; self.workload.value_bytes]);
        let empty = resident_bytes(std::process::id())?;
        let cache = make();
        let mut view = cache.attach();
        (0..self.workload.keys).for_each(|number| self.put(&mut view, number, &value));
        drop(view);
        let memory = resident_bytes(std::process::id())?.saturating_sub(empty);
        let evicted = cache.evicted();

        let (reads, hits, operations) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (stop, barrier) = (AtomicBool::new(false), Barrier::new(self.threads + 1));
        let measured = thread::scope(|scope| {
            for thread in 0..self.threads {
                let (cache, value, stop, barrier) = (&cache, &value, &stop, &barrier);
                let (reads, hits, operations) = (&reads, &hits, &operations);
                let draws = self.workload.draws(self.seed << 10 | thread as u64);
                scope.spawn(move || {
                    let mut view = cache.attach();
                    barrier.wait();
                    let done = self.work(&mut view, &draws, value, stop);
                    let counters = [operations, reads, hits];
                    counters.into_iter().zip(done).for_each(|(counter, count)| {
                        counter.fetch_add(count, Relaxed);
                    });
                    barrier.wait();
                });
            }
            barrier.wait();
            let begin = Instant::now();
            thread::sleep(self.time);
            stop.store(true, Relaxed);
            barrier.wait();
            rate(operations.load(Relaxed), self.threads, begin.elapsed().as_secs_f64())
        });
        let (reads, hits) = (reads.into_inner(), hits.into_inner());
        if self.workload.room_percent.is_none() && hits < reads {
            return Err(format!("{} of {reads} values were not found", reads - hits));
        }
        let evicted = cache.evicted().saturating_sub(evicted);
        Ok(measured
            .with("hits", hits as f64 * 100.0 / reads as f64)
            .with("evicted", evicted as f64 / operations.into_inner() as f64)
            .with("memory", memory as f64 / 1e6))
    }

    fn put(&self, view: &mut impl View, number: u32, value: &Bytes) {
        match self.workload.is_shared {
            true => view.put_shared(&key(number), value.clone()),
            false => view.put(&key(number), value),
        }
    }

    /// Reads and writes until `stop`; returns the counts of operations, reads and hits.
    fn work(
        &self,
        view: &mut impl View,
        draws: &[u32],
        value: &Bytes,
        stop: &AtomicBool,
    ) -> [u64; 3] {
        let [mut operations, mut reads, mut hits] = [0; 3];
        loop {
            for draws in draws.chunks(OPERATIONS_PER_LOOK) {
                for draw in draws {
                    let number = draw & !WRITE;
                    if draw & WRITE != 0 {
                        self.put(view, number, value);
                        continue;
                    }
                    reads += 1;
                    match view.get(&key(number)) {
                        Some(_) => hits += 1,
                        None => self.put(view, number, value),
                    }
                }
                operations += draws.len() as u64;
                if stop.load(Relaxed) {
                    return [operations, reads, hits];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Options;

    #[test]
    fn every_library_runs_and_bounded_ones_evict_and_hit_what_is_popular() {
        let options = Options::new([("milliseconds", vec!["20".to_owned()])]);
        for (subject, _) in SUBJECTS {
            for name in ["get", "put", "zipf", "pointers"] {
                let point = [("threads", "2"), ("workload", name)];
                let point = point.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into();
                let case = Case { options: &options, point: &point, round: 0 };
                let measured = Engine.measure_here(subject, &case);
                let figures =
                    measured.unwrap_or_else(|why| panic!("{subject} {name}: {why}")).figures;
                assert!(figures["throughput"] > 1000.0, "{subject} {name}: {figures:?}");
                let is_bounded =
                    name == "zipf" && ["petrel", "moka", "quick_cache"].contains(subject);
                assert_eq!(figures["evicted"] > 0.0, is_bounded, "{subject} {name}: {figures:?}");
                if is_bounded {
                    assert!((30.0..95.0).contains(&figures["hits"]), "{subject}: {figures:?}");
                }
            }
        }
    }

    #[test]
    fn draws_read_as_often_as_they_should() {
        for name in Description::named(Engine::NAME).work_names() {
            let workload = Workload::named(name);
            let draws = workload.draws(3);
            assert!(draws.iter().all(|draw| draw & !WRITE < workload.keys), "{name}");
            let reads = draws.iter().filter(|draw| **draw & WRITE == 0).count() * 100;
            let percent = reads as f64 / draws.len() as f64;
            assert!((percent - workload.reads_percent as f64).abs() < 0.5, "{name}");
        }
    }
}
