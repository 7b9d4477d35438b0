//! `engine`: Petrel's keyspace embedded in a program, beside the caches and maps of Rust.

mod caches;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::experiment::{
    Better, Cells, Description, FIGURE, Figure, Plot, SERVER, THROUGHPUT, View as Table, at, grid,
    texts,
};
use crate::in_process::{InProcess, names, rate, usual_threads};
use crate::random::Random;
use crate::result::{Measurement, Point};
use crate::sys::resident_bytes;
use crate::trace::Zipf;
use caches::{Cache, DashMap, Moka, MutexMap, Papaya, Petrel, QuickCache, RwLockMap, View};

/// Operations between two looks at whether it is time to end.
const OPERATIONS_PER_LOOK: usize = 512;

/// Draws of keys that each thread repeats.
const DRAWS: usize = 1 << 18;

/// Exponent of the popularity of keys.
const ALPHA: f64 = 0.99;

/// Marks a draw that writes.
const WRITE: u32 = 1 << 31;

/// Caches and maps, and the crates they are of.
const SUBJECTS: &[(&str, &str)] = &[
    ("petrel", "petrel-keyspace"),
    ("moka", "moka"),
    ("quick_cache", "quick_cache"),
    ("dashmap", "dashmap"),
    ("papaya", "papaya"),
    ("Mutex<HashMap>", "std"),
    ("RwLock<HashMap>", "std"),
];

/// Measure Petrel's keyspace embedded in a program, beside the caches and maps of Rust.
#[derive(Clone, Debug, Deserialize, Serialize, clap::Args)]
pub struct EngineArgs {
    /// Libraries
    #[arg(long, value_delimiter = ',', value_name = "NAME,...",
          default_values_t = names(SUBJECTS))]
    libraries: Vec<String>,

    /// Workloads to measure [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", value_parser = parse_name)]
    workloads: Vec<String>,

    /// Threads [default: 1, and as many as there are processors]
    #[arg(long, value_delimiter = ',', value_name = "N,...", value_parser = parse_threads)]
    threads: Vec<usize>,

    /// How long each measurement takes
    #[arg(long, default_value_t = 1000, default_value_if("quick", "true", "100"),
          value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=600_000))]
    milliseconds: u64,
}

/// What it is.
pub const DESCRIPTION: &Description = &Description {
    name: "engine",
    title: "Embedded: caches and maps of Rust",
    about: "Threads of one process that read and write one cache or map: no server, no sockets. Keys of 16 B; values of \
            64 B unless said otherwise, copied when they are stored, read in place where a library can. get: 10 K keys. \
            put: the same. mixed: 80 % reads and 20 % writes of 100 K keys drawn evenly, with room for half of them. \
            zipf: the same, drawn with exponent 0.99, with room for a tenth. What is not found is stored. contention: 80 % \
            reads and 20 % writes of 100 keys. The four sizes of caches and the four sizes of values: 80 to 20. pointers: \
            values of 64 KiB that are counted references, not copied. Room is bytes of keys and values; Petrel (S3-FIFO) \
            counts all that it needs besides, so fewer entries fit. Maps have no bound. Every library uses the allocator of \
            the system and, apart from Petrel, foldhash. Memory is the growth of the process by filling it.",
    axes: &[("workload", "{}"), ("threads", "{} threads")],
    figures: &[
        Figure::new("ns", "Time of an operation", "ns", 1, Better::Less),
        THROUGHPUT,
        Figure::new("hits", "Hit rate", "%", 2, Better::Neither),
        Figure::new("evicted", "Evictions", "per operation", 3, Better::Neither),
        Figure::new("memory", "Memory", "MB", 1, Better::Less),
    ],
    views: &[
        Table::new("", &["ns"], &["threads", FIGURE], &["workload"], &[SERVER])
            .plot(Plot::Bars)
            .in_summary(),
        Table::new("Over each library's", &["throughput"], &["threads"], &["workload"], &[SERVER])
            .cells(Cells::Ratio),
        Table::new("", &["throughput"], &["threads", FIGURE], &["workload"], &[SERVER]),
        Table::new(
            "Hits, evictions and memory",
            &["hits", "evicted", "memory"],
            &["threads", FIGURE],
            &["workload"],
            &[SERVER],
        ),
    ],
};

/// What threads do.
#[derive(Clone, Copy, Debug)]
struct Workload {
    name: &'static str,
    keys: u32,
    value_bytes: usize,
    reads_percent: u64,
    /// Keys drawn by their popularity, not evenly.
    is_zipf: bool,
    /// Per cent of the bytes that there is room for, where it is bounded.
    room_percent: Option<u64>,
    /// Values are shared, not copied.
    is_shared: bool,
}

/// 80 to 20 of 10 K keys with values of 64 B.
const USUAL: Workload = Workload {
    name: "",
    keys: 10_000,
    value_bytes: 64,
    reads_percent: 80,
    is_zipf: false,
    room_percent: None,
    is_shared: false,
};

const WORKLOADS: [Workload; 14] = [
    Workload { name: "get", reads_percent: 100, ..USUAL },
    Workload { name: "put", reads_percent: 0, ..USUAL },
    Workload { name: "mixed", keys: 100_000, room_percent: Some(50), ..USUAL },
    Workload { name: "zipf", keys: 100_000, is_zipf: true, room_percent: Some(10), ..USUAL },
    Workload { name: "contention", keys: 100, ..USUAL },
    Workload { name: "small (1 K keys)", keys: 1_000, ..USUAL },
    Workload { name: "medium (10 K keys)", ..USUAL },
    Workload { name: "large (100 K keys)", keys: 100_000, ..USUAL },
    Workload { name: "extra large (1 M keys)", keys: 1_000_000, ..USUAL },
    Workload { name: "values of 16 B", value_bytes: 16, ..USUAL },
    Workload { name: "values of 256 B", value_bytes: 256, ..USUAL },
    Workload { name: "values of 4 KiB", value_bytes: 4096, ..USUAL },
    Workload { name: "values of 64 KiB", keys: 1_000, value_bytes: 65_536, ..USUAL },
    Workload { name: "pointers", value_bytes: 65_536, is_shared: true, ..USUAL },
];

fn parse_name(text: &str) -> Result<String, String> {
    match WORKLOADS.iter().find(|workload| workload.name == text) {
        Some(workload) => Ok(workload.name.to_owned()),
        None => Err(format!("there are {}", WORKLOADS.map(|workload| workload.name).join(", "))),
    }
}

/// Reads a number of threads.
pub fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok().filter(|threads| (1..=1024).contains(threads));
    threads.ok_or_else(|| "from 1 to 1024".to_owned())
}

impl InProcess for EngineArgs {
    const DESCRIPTION: &'static Description = DESCRIPTION;
    const SUBJECTS: &'static [(&'static str, &'static str)] = SUBJECTS;

    fn wants(&self, subject: &str) -> bool {
        self.libraries.iter().any(|name| name == subject)
    }

    fn points(&self) -> Vec<Point> {
        let names = WORKLOADS.map(|workload| workload.name.to_owned());
        let asked = |name: &&String| self.workloads.is_empty() || self.workloads.contains(name);
        let threads = if self.threads.is_empty() { &usual_threads() } else { &self.threads };
        let names = names.iter().filter(asked).cloned().collect();
        grid([("threads", texts(threads)), ("workload", names)])
    }

    fn measure_here(
        &self,
        subject: &str,
        point: &Point,
        round: usize,
    ) -> Result<Measurement, String> {
        let same = WORKLOADS.iter().find(|workload| workload.name == point["workload"]);
        let workload = *same.ok_or("no such workload")?;
        let run = Run {
            workload,
            threads: at(point, "threads"),
            time: Duration::from_millis(self.milliseconds),
            seed: round as u64,
        };
        let room = workload.room();
        let entries = workload.entries();
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
    /// Bytes of keys and values that there is room for, where it is bounded.
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

/// A key of 16 bytes, whose making costs nothing beside using it.
fn key(number: u32) -> [u8; 16] {
    let mut key = *b"object:\0........";
    key[8..].copy_from_slice(&u64::from(number).to_le_bytes());
    key
}

/// One measurement.
struct Run {
    workload: Workload,
    threads: usize,
    time: Duration,
    seed: u64,
}

impl Run {
    fn measure<C: Cache>(&self, make: impl FnOnce() -> C) -> Result<Measurement, String> {
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
                    reads.fetch_add(done.reads, Relaxed);
                    hits.fetch_add(done.hits, Relaxed);
                    operations.fetch_add(done.operations, Relaxed);
                    barrier.wait();
                });
            }
            barrier.wait();
            let begin = Instant::now();
            thread::sleep(self.time);
            stop.store(true, Relaxed);
            barrier.wait();
            rate(operations.load(Relaxed), self.threads, begin)
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

    fn work(&self, view: &mut impl View, draws: &[u32], value: &Bytes, stop: &AtomicBool) -> Done {
        let mut done = Done::default();
        'all: loop {
            for draws in draws.chunks(OPERATIONS_PER_LOOK) {
                for draw in draws {
                    let number = draw & !WRITE;
                    if draw & WRITE != 0 {
                        self.put(view, number, value);
                        continue;
                    }
                    done.reads += 1;
                    match view.get(&key(number)) {
                        Some(_) => done.hits += 1,
                        None => self.put(view, number, value),
                    }
                }
                done.operations += draws.len() as u64;
                if stop.load(Relaxed) {
                    break 'all;
                }
            }
        }
        done
    }
}

/// What a thread has done.
#[derive(Default)]
struct Done {
    operations: u64,
    reads: u64,
    hits: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> EngineArgs {
        let (workloads, threads) = (Vec::new(), vec![2]);
        EngineArgs { libraries: names(SUBJECTS), workloads, threads, milliseconds: 20 }
    }

    #[test]
    fn every_library_runs_and_bounded_ones_evict_and_hit_what_is_popular() {
        for (subject, _) in SUBJECTS {
            for name in ["get", "put", "zipf", "pointers"] {
                let mut point = InProcess::points(&args()).swap_remove(0);
                point.insert("workload".to_owned(), name.to_owned());
                let measured = args().measure_here(subject, &point, 0);
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
        for workload in WORKLOADS {
            let draws = workload.draws(3);
            assert!(draws.iter().all(|draw| draw & !WRITE < workload.keys), "{}", workload.name);
            let reads = draws.iter().filter(|draw| **draw & WRITE == 0).count() * 100;
            let percent = reads as f64 / draws.len() as f64;
            assert!((percent - workload.reads_percent as f64).abs() < 0.5, "{}", workload.name);
            assert_eq!(parse_name(workload.name), Ok(workload.name.to_owned()));
        }
    }
}
