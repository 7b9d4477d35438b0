//! Interface of servers and libraries with vectors, and the search for the effort of a recall.

use serde::Deserialize;

use crate::experiment::axis_values;
use crate::result::Measurement;
use crate::server::Server;

use super::data::{Data, NEAREST, Share};

/// Form in which vectors are stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// 32-bit floats.
    Floats,
    /// A byte for each dimension.
    Int8,
    /// Fewer bits: RaBitQ.
    Coded,
}

axis_values!(Form: Floats "floats", Int8 "int8", Coded "coded");

/// Server or library with vectors.
pub trait Engine {
    /// Builds a set of all vectors.
    fn load(&mut self, server: &Server, data: &Data) -> Result<Loaded, String>;

    /// Sends all queries on all threads, with an effort.
    fn search(
        &mut self,
        server: &Server,
        data: &Data,
        share: Share,
        effort: u32,
    ) -> Result<Answers, String>;

    /// Inserts new vectors for some seconds, beside queries.
    fn insert(&mut self, data: &Data, effort: u32, seconds: f64) -> Result<Beside, String>;
}

/// Cost of building a set.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Loaded {
    /// Wall clock.
    pub seconds: f64,
    /// Seconds of CPU.
    pub cpu: f64,
    /// Memory in bytes, if it is known.
    pub bytes: Option<f64>,
    /// `MEMORY USAGE`.
    #[serde(default)]
    pub counted: Option<f64>,
}

impl Loaded {
    /// Converts to figures.
    pub fn measured(&self, data: &Data) -> Measurement {
        let (count, floats) = (data.shape.count as f64, 4.0 * data.shape.dim as f64);
        Measurement::default()
            .with("inserts", count / self.seconds)
            .with("insert_cpu", 1e6 * self.cpu / count)
            .with_some("bytes", self.bytes.map(|bytes| bytes / count))
            .with_some("of_floats", self.bytes.map(|bytes| bytes / count / floats))
            .with_some("counted", self.counted.map(|bytes| bytes / count))
    }
}

/// Answers to queries.
#[derive(Clone, Debug, Deserialize)]
pub struct Answers {
    /// Wall clock.
    pub seconds: f64,
    /// Seconds of CPU.
    pub cpu: f64,
    /// Numbers of vectors, for each query.
    pub found: Vec<Vec<i64>>,
}

/// Inserts and queries at once.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Beside {
    /// Inserts, in `seconds`.
    pub inserts: u64,
    /// Time of inserts: the vectors may end before the time does.
    pub seconds: f64,
    /// Queries, in `whole`.
    pub queries: u64,
    /// Time of both.
    pub whole: f64,
}

impl Beside {
    /// Inserts a second.
    pub fn inserts_per_s(&self) -> f64 {
        self.inserts as f64 / self.seconds
    }

    /// Queries a second.
    pub fn queries_per_s(&self) -> f64 {
        self.queries as f64 / self.whole
    }
}

/// The effort that reaches a recall.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// Neighbours kept during a search (EF).
    pub effort: u32,
    /// Share of the true nearest that was found.
    pub recall: f64,
    seconds: f64,
    cpu: f64,
    queries: usize,
}

impl Reached {
    /// Converts to figures.
    pub fn measured(&self, target: f64) -> Measurement {
        let queries = self.queries as f64;
        let mut measured = Measurement::default()
            .with("ef", f64::from(self.effort))
            .with("recall", 100.0 * self.recall)
            .with("cpu", 1e6 * self.cpu / queries)
            .with("throughput", queries / self.seconds);
        if self.recall < target {
            measured.doubts.push(format!("recall {:.1} % at most", 100.0 * self.recall));
        }
        measured
    }
}

/// The most effort that is tried.
const EFFORT_MAX: u32 = 4096;

/// Seconds for which queries are repeated for the figures.
const MEASURED_S: f64 = 0.5;

/// Looks for the least effort that reaches a recall, and measures it.
pub fn reach(
    engine: &mut dyn Engine,
    server: &Server,
    data: &Data,
    share: Share,
    target: f64,
) -> Result<Reached, String> {
    let recall = |engine: &mut dyn Engine, effort: u32| {
        let answers = engine.search(server, data, share, effort)?;
        Ok::<f64, String>(data.recall(share, &answers.found))
    };
    // Everything below `low` is too little; `high` is enough, or all that is tried.
    let (mut low, mut high) = (1, NEAREST as u32);
    while recall(engine, high)? < target && high < EFFORT_MAX {
        (low, high) = (high + 1, (high * 2).min(EFFORT_MAX));
    }
    // To one part in 32.
    while low < high && high - low > high / 32 {
        let middle = low + (high - low) / 2;
        match recall(engine, middle)? < target {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    let mut reached = Reached { effort: high, recall: 0.0, seconds: 0.0, cpu: 0.0, queries: 0 };
    while reached.seconds < MEASURED_S {
        let answers = engine.search(server, data, share, high)?;
        reached.recall = data.recall(share, &answers.found);
        reached.seconds += answers.seconds;
        reached.cpu += answers.cpu;
        reached.queries += answers.found.len();
    }
    Ok(reached)
}
