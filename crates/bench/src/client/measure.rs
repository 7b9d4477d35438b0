//! Process of a client library of Rust, for any library: tasks that send commands, their time and
//! their allocations. Our own client is measured by this program, libraries
//! of others by `bench/rust`, which compiles this file, too.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::allocations;
use crate::random::Random;

/// Operation that a task repeats.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// `SET` of a key.
    Set,
    /// `GET` of a key that is there.
    Get,
    /// A read of a key that the process has cached.
    Near,
    /// `GET` on an engine in the process.
    Embedded,
}

impl Operation {
    /// Name in orders and options.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Set => "set",
            Operation::Get => "get",
            Operation::Near => "near",
            Operation::Embedded => "embedded",
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Order to a client's process, as JSON its only argument.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Order {
    /// Name of the library.
    pub client: String,
    /// `host:port` of the server.
    pub address: String,
    /// Operation of each task.
    pub operation: Operation,
    /// Bytes of a value.
    pub value: usize,
    /// Keys that are drawn from.
    pub keys: usize,
    /// Tasks, each with one command in flight.
    pub tasks: usize,
    /// Threads of the runtime.
    pub threads: usize,
    /// Time of the measurement.
    pub milliseconds: u64,
}

/// Measurement of a process.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Answer {
    /// Operations that ended.
    pub operations: u64,
    /// Wall clock.
    pub nanoseconds: u64,
    /// CPU of the whole process.
    pub cpu_nanoseconds: u64,
    /// Operations while allocations were counted.
    pub counted_operations: u64,
    /// Allocations.
    pub counted_allocations: u64,
    /// Bytes of these allocations.
    pub counted_bytes: u64,
}

/// A library on tokio, cloned for each task as its documentation says.
pub trait Library: Clone + Send + 'static {
    /// Connects to `host:port`; a near cache reads the keys.
    fn connect(address: &str, keys: &[String]) -> impl Future<Output = Result<Self, String>>;
    /// `SET`.
    fn set(&mut self, key: &str, value: &Bytes) -> impl Future<Output = Result<(), String>> + Send;
    /// `GET`; the length of the value.
    fn get(&mut self, key: &str) -> impl Future<Output = Result<usize, String>> + Send;
}

const WARM_UP: Duration = Duration::from_millis(100);

/// Time in which allocations are counted, after the measured time.
const COUNTING: Duration = Duration::from_millis(100);

/// Phases of a measurement.
const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const COUNTED: u8 = 2;
pub const OVER: u8 = 3;

/// State that tasks share.
pub struct Course {
    /// Current phase; counts are kept by phase.
    pub phase: AtomicU8,
    /// Names of all keys.
    pub keys: Vec<String>,
    /// Value that is stored.
    pub value: Bytes,
}

/// Operations in each phase.
pub type Counts = [u64; 3];

impl Course {
    /// Makes the keys and the value of an order.
    pub fn new(order: &Order) -> Arc<Course> {
        let keys = (0..order.keys).map(key_name).collect();
        let value = Bytes::from(vec![b'x'; order.value]);
        Arc::new(Course { phase: AtomicU8::new(WARMING_UP), keys, value })
    }

    /// A key at random.
    pub fn key(&self, random: &mut Random) -> &str {
        match self.keys.len() {
            1 => &self.keys[0],
            count => &self.keys[random.below(count as u64) as usize],
        }
    }

    /// Lets the tasks, which are running, go through the phases.
    pub fn run(&self, order: &Order) -> Answer {
        std::thread::sleep(WARM_UP);
        let (cpu, begin) = (own_cpu_ns(), Instant::now());
        self.phase.store(MEASURING, Relaxed);
        std::thread::sleep(Duration::from_millis(order.milliseconds));
        self.phase.store(COUNTED, Relaxed);
        let (nanoseconds, cpu) = (begin.elapsed().as_nanos() as u64, own_cpu_ns() - cpu);
        let before = allocations::count(true);
        std::thread::sleep(COUNTING);
        self.phase.store(OVER, Relaxed);
        let after = allocations::count(false);
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
    /// Adds the counts of the tasks.
    pub fn with(
        self,
        counts: impl Iterator<Item = Result<Counts, String>>,
    ) -> Result<Answer, String> {
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

/// Nanoseconds of CPU that this process has used.
fn own_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Whether a value has the length that was stored.
pub fn checked(got: usize, order: &Order) -> Result<(), String> {
    match got == order.value {
        true => Ok(()),
        false => Err(format!("a value of {got} bytes instead of {}", order.value)),
    }
}

/// Measures a library on a runtime of tokio.
pub fn asynchronous<L: Library>(order: &Order) -> Result<Answer, String> {
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

/// Runs one task.
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
            _ => checked(library.get(key).await?, &order)?,
        }
        counts[usize::from(phase)] += 1;
    }
}

/// The name of a key, 16 bytes.
pub fn key_name(number: usize) -> String {
    format!("key:{number:012}")
}
