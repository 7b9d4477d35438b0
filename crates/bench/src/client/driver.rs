//! The process in which a client library of Rust is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::libraries::{Fred, Library, Petrel, PetrelNear, PetrelThreads, RedisRs};
use super::{Answer, Operation, Order, key_name};
use crate::load::Random;
use crate::sys;

/// Name of the hidden subcommand.
pub const DRIVER: &str = "drive-client";

const WARM_UP: Duration = Duration::from_millis(100);

/// How long allocations are counted, after the time was measured.
const COUNTING: Duration = Duration::from_millis(100);

/// What tasks do at the moment.
const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const COUNTED: u8 = 2;
const OVER: u8 = 3;

/// What the tasks share.
struct Course {
    phase: AtomicU8,
    keys: Vec<String>,
    value: Bytes,
}

/// Operations in each phase.
type Counts = [u64; 3];

/// Measures what the order says, and prints the answer.
pub fn drive(order: &str) -> Result<(), String> {
    let order: Order = serde_json::from_str(order).map_err(|error| error.to_string())?;
    let answer = match (order.client.as_str(), order.operation) {
        ("petrel", Operation::Near) => asynchronous::<PetrelNear>(&order),
        ("petrel", _) => asynchronous::<Petrel>(&order),
        ("petrel-threads", Operation::Set | Operation::Get) => threads(&order),
        ("redis-rs", Operation::Set | Operation::Get) => asynchronous::<RedisRs>(&order),
        ("fred", Operation::Set | Operation::Get) => asynchronous::<Fred>(&order),
        (name, operation) => Err(format!("{name} has no {operation} here")),
    }?;
    println!("{}", serde_json::to_string(&answer).map_err(|error| error.to_string())?);
    Ok(())
}

impl Course {
    fn new(order: &Order) -> Arc<Course> {
        let keys = (0..order.keys).map(key_name).collect();
        let value = Bytes::from(vec![b'x'; order.value]);
        Arc::new(Course { phase: AtomicU8::new(WARMING_UP), keys, value })
    }

    fn key(&self, random: &mut Random) -> &str {
        match self.keys.len() {
            1 => &self.keys[0],
            count => &self.keys[random.below(count as u64) as usize],
        }
    }

    /// Lets the tasks, which are running, go through the phases.
    fn run(&self, order: &Order) -> Answer {
        std::thread::sleep(WARM_UP);
        let (cpu, begin) = (own_cpu_ns(), Instant::now());
        self.phase.store(MEASURING, Relaxed);
        std::thread::sleep(Duration::from_millis(order.milliseconds));
        self.phase.store(COUNTED, Relaxed);
        let (nanoseconds, cpu) = (begin.elapsed().as_nanos() as u64, own_cpu_ns() - cpu);
        let before = sys::count_allocations(true);
        std::thread::sleep(COUNTING);
        self.phase.store(OVER, Relaxed);
        let after = sys::count_allocations(false);
        Answer {
            nanoseconds,
            cpu_nanoseconds: cpu,
            counted_allocations: after.0 - before.0,
            counted_bytes: after.1 - before.1,
            ..Answer::default()
        }
    }
}

impl Answer {
    fn with(self, counts: impl Iterator<Item = Result<Counts, String>>) -> Result<Answer, String> {
        let mut answer = self;
        for counts in counts {
            let counts = counts?;
            answer.operations += counts[usize::from(MEASURING)];
            answer.counted_operations += counts[usize::from(COUNTED)];
        }
        match answer.operations {
            0 => Err("no reply came in time".to_owned()),
            _ => Ok(answer),
        }
    }
}

fn own_cpu_ns() -> u64 {
    sys::process_cpu_ns(std::process::id()).unwrap_or(0)
}

fn checked(got: usize, order: &Order) -> Result<(), String> {
    match got == order.value {
        true => Ok(()),
        false => Err(format!("a value of {got} bytes instead of {}", order.value)),
    }
}

/// Measures a library on a runtime of tokio.
fn asynchronous<L: Library>(order: &Order) -> Result<Answer, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(order.threads)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let course = Course::new(order);
    let library = runtime.block_on(L::connect(&order.address, &course.keys))?;
    let tasks: Vec<_> = (0..order.tasks)
        .map(|task| {
            let (library, course, order) = (library.clone(), course.clone(), order.clone());
            runtime.spawn(work(library, course, order, task as u64))
        })
        .collect();
    let answer = course.run(order);
    runtime.block_on(async {
        let mut counts = Vec::with_capacity(tasks.len());
        for task in tasks {
            counts.push(task.await.map_err(|error| error.to_string()).flatten());
        }
        answer.with(counts.into_iter())
    })
}

/// One task.
async fn work<L: Library>(
    mut library: L,
    course: Arc<Course>,
    order: Order,
    seed: u64,
) -> Result<Counts, String> {
    let (mut counts, mut random) = (Counts::default(), Random::new(seed));
    loop {
        let phase = course.phase.load(Relaxed);
        if phase == OVER {
            return Ok(counts);
        }
        let key = course.key(&mut random);
        match order.operation {
            Operation::Set => library.set(key, &course.value).await?,
            Operation::Get | Operation::Near => checked(library.get(key).await?, &order)?,
        }
        counts[usize::from(phase)] += 1;
    }
}

/// Measures the client for plain threads.
fn threads(order: &Order) -> Result<Answer, String> {
    let course = Course::new(order);
    let client = PetrelThreads::connect(&order.address)?;
    let work = |seed: u64| {
        let (mut counts, mut random) = (Counts::default(), Random::new(seed));
        loop {
            let phase = course.phase.load(Relaxed);
            if phase == OVER {
                return Ok(counts);
            }
            let key = course.key(&mut random);
            match order.operation {
                Operation::Set => client.set(key, &course.value)?,
                _ => checked(client.get(key)?, order)?,
            }
            counts[usize::from(phase)] += 1;
        }
    };
    std::thread::scope(|scope| {
        let (work, tasks) = (&work, 0..order.tasks as u64);
        let threads: Vec<_> = tasks.map(|seed| scope.spawn(move || work(seed))).collect();
        let answer = course.run(order);
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        answer.with(ended)
    })
}
