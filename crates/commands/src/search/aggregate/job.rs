//! An aggregation with all that it owns: a cursor keeps it between two reads.

use crate::search::showing::Showing;
use petrel_keyspace::Handle;
use petrel_search::aggregate::pipeline::Pipeline;
use petrel_search::index::condition::Condition;
use petrel_search::index::distances::VectorQuery;
use petrel_search::index::json::JsonPaths;
use petrel_search::index::live::Live;
use petrel_search::index::schema::Schema;
use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Keys of documents that a cursor reads later, with their scores.
pub(super) type Keys = VecDeque<(Arc<[u8]>, f64)>;

/// Schema, condition and vectors of the documents of a job, and how they are shown.
#[derive(Clone, Copy)]
pub(super) struct Found<'f> {
    pub schema: &'f Schema,
    pub condition: &'f Condition,
    pub vectors: &'f VectorQuery,
    /// Paths of the fields, of JSON documents.
    pub paths: Option<&'f JsonPaths>,
    pub showing: Showing,
}

/// Parts of results that options add or leave out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub no_content: bool,
    pub with_scores: bool,
    pub with_payloads: bool,
    pub with_sort_keys: bool,
    /// Form of the shown values of JSON documents.
    pub showing: Showing,
    /// Values of JSON documents are replies of their own (`FORMAT EXPAND`).
    pub expands: bool,
    /// Whether documents have scores: without texts, most scorers have nothing to go by.
    pub has_score: bool,
}

impl Form {
    /// Number of parts of a result.
    pub fn parts(&self) -> usize {
        usize::from(self.with_scores)
            + usize::from(self.with_payloads)
            + usize::from(self.with_sort_keys)
            + usize::from(!self.no_content)
    }
}

/// An aggregation.
pub(super) struct Job {
    pub pipeline: Pipeline,
    /// Documents that have not entered it.
    pub keys: Keys,
    pub live: Arc<Live>,
    pub schema: Arc<Schema>,
    /// Paths of the fields, of JSON documents.
    pub paths: Option<Arc<JsonPaths>>,
    pub condition: Condition,
    pub vectors: Arc<VectorQuery>,
    pub db: u16,
    pub form: Form,
    /// Number of the cursor.
    pub id: u64,
    /// Results of a read; none without a cursor.
    pub chunk: Option<usize>,
    pub max_idle_ms: u64,
    pub timeout: Duration,
    pub started: Instant,
    pub warning: Option<&'static str>,
    pub key_bytes: i64,
    /// Bytes that the server's memory contains.
    pub counted: i64,
}

impl Job {
    /// Begins the time of a read.
    pub fn begin_read(&mut self) {
        self.started = Instant::now();
        self.warning = None;
    }

    /// Number of results that the next reply shows at most.
    pub fn wanted(&self) -> usize {
        self.chunk.unwrap_or(usize::MAX)
    }

    /// Whether documents have to be pushed now.
    pub fn takes_documents(&self) -> bool {
        self.pipeline.takes_documents() && self.pipeline.ready() < self.wanted()
    }

    /// Keeps a document for later reads.
    pub fn keep(&mut self, key: &[u8], score: f64) {
        self.key_bytes += key_bytes(key);
        self.keys.push_back((key.into(), score));
    }

    pub fn stop(&mut self, warning: &'static str) {
        self.warning = Some(warning);
        self.keys.clear();
        self.key_bytes = 0;
        self.pipeline.end_documents();
    }

    /// The memory is not the job's any more.
    pub fn release(&mut self, ks: &Handle) {
        ks.count_foreign(-std::mem::take(&mut self.counted));
    }

    /// Puts a document back that was not read.
    pub fn keep_first(&mut self, key: Arc<[u8]>, score: f64) {
        self.key_bytes += key_bytes(&key);
        self.keys.push_front((key, score));
    }

    /// Takes the next document that was kept.
    pub fn take_key(&mut self) -> Option<(Arc<[u8]>, f64)> {
        let (key, score) = self.keys.pop_front()?;
        self.key_bytes -= key_bytes(&key);
        Some((key, score))
    }
}

/// Bytes of a kept document.
fn key_bytes(key: &[u8]) -> i64 {
    (key.len() + size_of::<(Arc<[u8]>, f64)>() + 16) as i64
}
